"""Instances over HTTP: see, create, change, stop, put back, start warm; webhooks; health."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gdcb.errors import StoreUnavailable
from gdcb.service import operating
from gdcb.service.app import Application
from gdcb.service.house import House, Settings
from gdcb.service.models import About, Change, HookShown, NewHook, Proposal
from gdcb.service.running import sql_store
from tests.service import desks
from tests.service.desks import night
from tests.service.http import BASE, CABINS, PLENTY, ROOMS, Site, called, problem, site

AT = f"/v1/instances/{ROOMS}"


@pytest.fixture(scope="module")
def here(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    settings = Settings(BASE, tick=0, rates=PLENTY, allow_local_hooks=True)
    folder = tmp_path_factory.mktemp("instances")
    with site(sqlite_template, folder, desks.learning(), settings) as made:
        yield made


@pytest.fixture
def fresh(sqlite_template: Path, tmp_path: Path) -> Iterator[Site]:
    with site(sqlite_template, tmp_path) as made:
        yield made


# See


def test_an_instance_in_short(fresh: Site) -> None:
    fresh.decide("a1")
    fresh.decide("h1", 0.9, unit="sea")
    answer = fresh.get(AT, fresh.shop)
    about = About.model_validate(answer.json(), strict=True)
    assert about.model_dump() == answer.json()
    assert (about.name, about.waiting, about.units, about.launch) == (ROOMS, 1, 2, "live")
    assert about.entries == fresh.size()
    assert about.arms == ["0.8", "1", "1.2"]
    assert (about.action, about.outcome) == (["price"], ["booked"])
    assert about.roles == ["decide", "outcome", "operate", "audit"]
    assert (about.paused, about.retired, about.is_ungated) == (None, None, False)
    assert about.context["properties"]["busy"] == {"type": "number", "minimum": 0, "maximum": 1}
    assert fresh.get("/v1/instances", fresh.shop).json()[1] == answer.json()


def test_an_instance_without_gates_says_so(sqlite_template: Path, tmp_path: Path) -> None:
    with site(sqlite_template, tmp_path, desks.ungated()) as there:
        assert there.get(AT, there.shop).json()["is_ungated"] is True
        schema = there.get("/v1/openapi.json").json()["components"]["schemas"]["About"]
        assert schema["properties"]["is_ungated"]["type"] == "boolean"


def test_the_declaration_is_the_text_in_force(here: Site) -> None:
    found = here.get(f"{AT}/declaration", here.shop).json()
    assert found == {"declaration": desks.learning()}


# Create


def test_an_instance_is_created_once(fresh: Site) -> None:
    said = {"declaration": called(desks.plain(), "attics"), "reason": "a third one", "seed": 3}
    answer = fresh.post("/v1/instances", fresh.ann, said)
    assert (answer.status_code, answer.json()) == (201, {"name": "attics"})
    assert fresh.decide("a1", instance="attics")["status"] == "passed"
    entry = next(iter(fresh.house.store.read("attics", 0, 1)))
    assert entry.by.startswith("Ann [")
    before = fresh.heads()
    again = fresh.post("/v1/instances", fresh.ann, said)
    assert again.status_code == 409
    assert "exists already; propose a change of it instead" in problem(again)["message"]
    assert fresh.heads() == before


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"declaration": "name = "}, "declaration"),
        ({"declaration": ""}, "declaration: String should have at least 1 character"),
        ({"declaration": desks.plain("bulk = 0")}, "service.bulk: Input should be greater than"),
        ({"reason": ""}, "reason: String should have at least 1 character"),
        ({"reason": " "}, "reason: say why the instance is made"),
        ({"seed": -1}, "seed: Input should be greater than or equal to 0"),
        ({"seed": 2**63}, "seed: Input should be less than"),
        ({"seed": 1.5}, "seed: Input should be a valid integer"),
        ({"seed": True}, "seed: Input should be a valid integer"),
        ({"declaration": called(desks.plain(), "*")}, "name: expected letters"),
        ({"declaration": called(desks.plain(), "a/b")}, "name: expected letters"),
        ({"declaration": called(desks.plain(), "")}, "name: expected a name, got ''"),
        ({"declaration": called(desks.plain(), "n" * 201)}, "name: expected at most 200"),
        ({"declaration": called(desks.plain(), " attics")}, "name: expected letters"),
        ({"declaration": called(desks.plain(), "at\u202etics")}, "the invisible sign U+202E"),
        ({"declaration": called(desks.plain(), "..")}, "name: expected letters"),
    ],
)
def test_what_is_no_instance_is_not_created(here: Site, change: dict[str, Any], says: str) -> None:
    before = here.heads()
    said = {"declaration": called(desks.plain(), "attics"), "reason": "a third one"} | change
    answer = here.post("/v1/instances", here.ann, said)
    assert answer.status_code == 422, answer.text
    assert says in problem(answer)["message"]
    assert "Traceback" not in answer.text
    assert here.heads() == before


# Change


def test_a_change_takes_two(fresh: Site) -> None:
    said = {"declaration": desks.held("bulk = 2"), "reason": "fewer at once"}
    made = fresh.post(f"{AT}/changes", fresh.ann, said)
    assert made.status_code == 201
    number = made.json()["number"]
    shown = [Proposal.model_validate(one) for one in fresh.get(f"{AT}/changes", fresh.ann).json()]
    assert [(one.number, one.by, one.reason) for one in shown] == [(number, "Ann", "fewer at once")]
    assert shown[0].declaration == said["declaration"]
    answer = fresh.post(f"{AT}/changes/{number}/agree", fresh.bob, {"reason": "yes"})
    assert (answer.status_code, answer.json()) == (200, {"news": True})
    assert fresh.get(f"{AT}/declaration", fresh.ann).json()["declaration"] == said["declaration"]
    assert fresh.get(f"{AT}/changes", fresh.ann).json() == []
    settled = Change.model_validate(fresh.get(f"{AT}/changes/{number}", fresh.ann).json())
    assert (settled.status, settled.by, settled.reason) == ("approved", "Ann", "fewer at once")
    assert (settled.decided_by, settled.decided_reason) == ("Bob", "yes")
    assert settled.declaration == said["declaration"]
    again = fresh.post(f"{AT}/changes/{number}/agree", fresh.bob, {})
    assert (again.status_code, problem(again)["message"]) == (
        409,
        f"change {number} does not wait for an answer",
    )
    same = fresh.post(f"{AT}/changes", fresh.ann, said)
    assert problem(same)["message"] == "declaration: it is the one in force"


def test_a_change_is_turned_down_with_a_reason(fresh: Site) -> None:
    said = {"declaration": desks.held("bulk = 2"), "reason": "fewer at once"}
    number = fresh.post(f"{AT}/changes", fresh.ann, said).json()["number"]
    at = f"{AT}/changes/{number}/refuse"
    assert fresh.post(at, fresh.bob, {"reason": " "}).status_code == 422
    assert fresh.post(at, fresh.bob, {"reason": "no"}).json() == {"news": True}
    assert fresh.post(at, fresh.bob, {"reason": "no"}).status_code == 409
    settled = fresh.get(f"{AT}/changes/{number}", fresh.ann).json()
    assert (settled["status"], settled["decided_reason"]) == ("rejected", "no")
    odd = fresh.post(f"{AT}/changes/{10**30}/refuse", fresh.bob, {"reason": "no"})
    assert odd.status_code == 409
    assert fresh.post(f"{AT}/changes/x/agree", fresh.bob, {}).status_code == 422


def test_a_change_by_its_number(fresh: Site) -> None:
    said = {"declaration": desks.held("bulk = 2"), "reason": "fewer at once"}
    number = fresh.post(f"{AT}/changes", fresh.ann, said).json()["number"]
    waits = Change.model_validate(fresh.get(f"{AT}/changes/{number}", fresh.ann).json())
    assert (waits.status, waits.decided_by, waits.decided_at) == ("proposed", None, None)
    first = fresh.get(f"{AT}/changes/0", fresh.ann).json()
    assert (first["status"], first["by"], first["declaration"]) == ("declared", "cy", desks.held())
    for other in (number + 1, -1, 10**30):
        unknown = fresh.get(f"{AT}/changes/{other}", fresh.ann)
        assert (unknown.status_code, problem(unknown)["code"]) == (404, "not_found")


# Stop


def test_a_pause_stops_decisions_and_resume_goes_on(fresh: Site) -> None:
    for n, (what, news) in enumerate(
        [("pause", True), ("pause", False), ("resume", True), ("resume", False), ("pause", True)]
    ):
        answer = fresh.post(f"{AT}/{what}", fresh.shop, {"reason": f"because {n}"})
        assert answer.json() == {"news": news}
    paused = fresh.get(AT, fresh.shop).json()["paused"]
    assert (paused["by"], paused["reason"]) == ("shop", "because 4")
    before = fresh.heads()
    answer = fresh.post(f"{AT}/decisions", fresh.shop, {"id": "p1", "context": night()})
    assert (answer.status_code, problem(answer)["code"]) == (409, "stopped")
    assert "the instance is paused by shop" in problem(answer)["message"]
    assert fresh.heads() == before
    assert fresh.decide("p1", instance=CABINS)["status"] == "passed"


def test_what_was_decided_is_known_while_it_is_paused(fresh: Site) -> None:
    said = {"id": "p2", "context": night()}
    first = fresh.post(f"{AT}/decisions", fresh.shop, said)
    fresh.post(f"{AT}/pause", fresh.shop, {"reason": "so"})
    again = fresh.post(f"{AT}/decisions", fresh.shop, said)
    assert (again.status_code, again.json()) == (200, first.json())


def test_an_end_is_for_good_and_outcomes_still_come(fresh: Site) -> None:
    fresh.decide("r1")
    assert fresh.post(f"{AT}/retire", fresh.ann, {"reason": "sold"}).json() == {"news": True}
    assert fresh.post(f"{AT}/retire", fresh.ann, {"reason": "sold"}).json() == {"news": False}
    answer = fresh.post(f"{AT}/decisions", fresh.shop, {"context": night()})
    assert (answer.status_code, problem(answer)["code"]) == (409, "stopped")
    assert "retired" in problem(answer)["message"]
    assert fresh.post(f"{AT}/pause", fresh.shop, {"reason": "so"}).status_code == 409
    told = {"outcome": {"booked": 1}}
    assert fresh.post(f"{AT}/decisions/r1/outcome", fresh.shop, told).json() == {"news": True}
    assert fresh.get(AT, fresh.ann).json()["retired"]["reason"] == "sold"


# Learners


def test_refit_rollback_and_discount(here: Site) -> None:
    for i in range(3):
        here.decide(f"l{i}", 0.2)
        told = {"outcome": {"booked": 1}, "label": [0.3]}
        here.post(f"{AT}/decisions/l{i}/outcome", here.shop, told)
    assert here.post(f"{AT}/refit", here.shop).json() == {"versions": [1]}
    to = here.size() - 1
    done = here.post(f"{AT}/rollback", here.shop, {"to": to, "reason": "a bad fit"})
    assert done.json() == {"news": True}
    less = {"factor": 0.5, "since": here.size(), "reason": "another season"}
    assert here.post(f"{AT}/discount", here.shop, less).json() == {"news": True}
    assert here.kinds(to) == ["ScalerFitted", "RolledBack", "EvidenceDiscounted"]


@pytest.mark.parametrize(
    ("what", "said", "says"),
    [
        ("rollback", {"to": 0, "reason": "r"}, "to: Input should be greater than or equal to 1"),
        ("rollback", {"to": 10**30, "reason": "r"}, "to: expected an event 0 to"),
        ("rollback", {"to": 1, "reason": " "}, "reason: say why the learners are put back"),
        ("discount", {"factor": 2, "since": 1, "reason": "r"}, "factor: Input should be less"),
        ("discount", {"factor": True, "since": 1, "reason": "r"}, "factor: Input should be a val"),
        ("discount", {"factor": 0.5, "since": 10**30, "reason": "r"}, "since: expected an event"),
        ("discount", {"factor": 0, "since": 1, "gate": "no", "reason": "r"}, "gate: no gate 'no'"),
        (
            "discount",
            {"factor": 0.5, "since": 1, "gate": "limits", "reason": "r"},
            "all or nothing",
        ),
    ],
)
def test_learners_are_not_put_where_they_never_were(
    here: Site, what: str, said: dict[str, Any], says: str
) -> None:
    before = here.heads()
    answer = here.post(f"{AT}/{what}", here.shop, said)
    assert answer.status_code == 422
    assert says in problem(answer)["message"]
    assert here.heads() == before


def test_a_scaler_that_learns_nothing_is_not_fitted(fresh: Site) -> None:
    answer = fresh.post(f"{AT}/refit", fresh.shop)
    assert (answer.status_code, problem(answer)["message"]) == (
        409,
        "refit: the scaler of this instance learns nothing",
    )


# History


def _log(kind: str) -> bytes:
    out = io.BytesIO()
    log = desks.past()
    log.write_csv(out) if kind == "text/csv" else log.write_parquet(out)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["text/csv", "application/vnd.apache.parquet"])
def test_a_history_is_certified_and_taken(fresh: Site, kind: str) -> None:
    headers = fresh.shop | {"content-type": kind}
    answer = fresh.ask("POST", f"{AT}/history", headers, content=_log(kind))
    assert answer.status_code == 200, answer.text
    document = answer.json()
    assert set(document) == {"taken", "certificate"}
    kept = "HistoryImported" if document["taken"] else "CertificateGiven"
    assert fresh.kinds(1) == [kept]
    entry = list(fresh.house.store.read(ROOMS))[-1]
    assert b"history." in entry.body
    assert b"/tmp" not in entry.body
    assert "/tmp" not in answer.text


@pytest.mark.parametrize(
    ("kind", "body", "status", "says"),
    [
        ("text/csv", b"", 422, "history: expected a log, got an empty body"),
        ("text/csv", b"\xff\xfe\x00", 422, ""),
        ("text/csv", b"a,b\n1,2\n", 422, ""),
        ("text/csv", b"base,busy,price,booked\n1,2\n", 422, ""),
        ("text/csv", b"base,busy,price,booked\nx,y,z,w\n", 422, ""),
        ("text/csv", b"\x00" * 100, 422, ""),
        ("application/vnd.apache.parquet", b"PAR1 no", 422, ""),
        ("application/vnd.apache.parquet", b"PAR1" + b"\x00" * 64 + b"PAR1", 422, ""),
        ("application/json", b"[]", 415, "expected a body of type text/csv or application/vnd"),
        ("", b"a", 415, "expected a body of type text/csv or application/vnd"),
    ],
)
def test_what_is_no_history_is_refused(
    here: Site, kind: str, body: bytes, status: int, says: str
) -> None:
    before = here.heads()
    headers = here.shop | {"content-type": kind}
    answer = here.ask("POST", f"/v1/instances/{CABINS}/history", headers, content=body)
    assert answer.status_code == status, answer.text
    assert says in problem(answer)["message"]
    assert "/tmp" not in answer.text
    assert here.heads() == before


def test_history_comes_before_the_first_decision(fresh: Site) -> None:
    fresh.decide("a1")
    headers = fresh.shop | {"content-type": "text/csv"}
    answer = fresh.ask("POST", f"{AT}/history", headers, content=_log("text/csv"))
    assert (answer.status_code, problem(answer)["message"]) == (
        409,
        "history: it comes before the first decision, and some were made",
    )


# Webhooks


def test_a_webhook_shows_its_secret_once(here: Site) -> None:
    at = f"{AT}/webhooks"
    said = {"url": "http://127.0.0.1:9/hook", "kinds": ["executed", "held"]}
    made = here.post(at, here.shop, said)
    assert made.status_code == 201
    hook = NewHook.model_validate(made.json(), strict=True)
    assert (hook.kinds, hook.made_by, hook.is_on) == (["held", "executed"], "shop", True)
    listed = here.get(at, here.shop)
    assert hook.secret not in listed.text
    shown = {name: value for name, value in made.json().items() if name != "secret"}
    assert [HookShown.model_validate(one).model_dump() for one in listed.json()] == [shown]
    assert here.get(f"/v1/instances/{CABINS}/webhooks", here.shop).json() == []
    new = here.post(f"{at}/{hook.id}/rotate?overlap_s=0", here.shop).json()
    assert new["id"] == hook.id
    assert new["secret"] not in (hook.secret, "")
    assert here.post(f"{at}/{hook.id}/resume", here.shop).json() == shown
    other = here.ask("DELETE", f"/v1/instances/{CABINS}/webhooks/{hook.id}", here.shop)
    assert (other.status_code, problem(other)["code"]) == (404, "unknown_webhook")
    gone = here.ask("DELETE", f"{at}/{hook.id}", here.shop)
    assert (gone.status_code, gone.content) == (204, b"")
    assert here.ask("DELETE", f"{at}/{hook.id}", here.shop).status_code == 404
    assert here.get(at, here.shop).json() == []


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"url": "ftp://127.0.0.1/", "kinds": ["held"]}, "url"),
        ({"url": "no", "kinds": ["held"]}, "url"),
        ({"url": "http://127.0.0.1:9/", "kinds": ["born"]}, "kinds"),
        ({"url": "http://127.0.0.1:9/", "kinds": []}, "kinds: List should have at least 1 item"),
        ({"url": "http://127.0.0.1:9/", "kinds": "held"}, "kinds: expected a list"),
        ({"url": 3, "kinds": ["held"]}, "url: Input should be a valid string"),
        ({"kinds": ["held"]}, "url: expected a value, got none"),
    ],
)
def test_what_is_no_webhook(here: Site, said: dict[str, Any], says: str) -> None:
    answer = here.post(f"{AT}/webhooks", here.shop, said)
    assert answer.status_code == 422, answer.text
    assert says in problem(answer)["message"]
    assert here.get(f"{AT}/webhooks", here.shop).json() == []


def test_webhooks_go_to_public_addresses(fresh: Site) -> None:
    """Unless the process was started for trying out."""
    for url in ("http://127.0.0.1:9/", "https://127.0.0.1/", "https://[::1]/", "https://10.0.0.1/"):
        answer = fresh.post(f"{AT}/webhooks", fresh.shop, {"url": url, "kinds": ["held"]})
        assert answer.status_code == 422, url


@pytest.mark.parametrize("overlap", ["-1", "inf", "nan", "1e9", "x", ""])
def test_an_overlap_that_is_none(here: Site, overlap: str) -> None:
    at = f"{AT}/webhooks/none/rotate?overlap_s={overlap}"
    assert here.post(at, here.shop).status_code == 422


def test_the_document_of_the_api_is_written_once(
    here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may ask for it: 40 connections that did held up decisions for more than a second."""
    first = here.get("/v1/openapi.json")
    monkeypatch.setattr(Application, "openapi", lambda _: {})
    again = here.get("/v1/openapi.json")
    assert first.content == again.content
    assert first.headers["content-type"] == again.headers["content-type"] == "application/json"
    assert first.json()["info"]["title"] == "gdcb"


# Health


def test_a_process_says_how_it_is(here: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert here.get("/healthz").json() == {"status": "alive"}
    ready = here.get("/readyz")
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", "instances": 2})

    def fail(*_: Any) -> Any:
        raise StoreUnavailable("store 'postgresql://gdcb@10.0.0.7/ledger': it refused")

    for name in ("names", "check_ready"):
        monkeypatch.setattr(here.house, name, fail, raising=False)
    ready = here.get("/readyz")
    why = "the ledger: it refused"
    assert (ready.status_code, ready.json()) == (503, {"status": "not ready", "why": why})
    assert here.get("/healthz").status_code == 200


def test_strangers_are_told_no_names_of_files(
    here: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    said = "it was replaced; remove 'prices.db-wal'"

    def fail() -> int:
        raise StoreUnavailable(f"store '/srv/prices.db': {said}")

    monkeypatch.setattr(here.house, "check_ready", fail, raising=False)
    ready = here.get("/readyz")
    why = "the ledger does not answer; the log says why"
    assert (ready.status_code, ready.json()["why"]) == (503, why)
    assert said in caplog.text


def test_figures_are_for_auditors(here: Site) -> None:
    here.decide("m1")
    found = here.get("/metrics", here.key(("audit", "*")))
    assert found.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "/v1/instances/{name}/decisions" in found.text
    assert "m1" not in found.text


def figure(here: Site, name: str) -> float:
    """Return a figure of the instance with rooms."""
    text = here.get("/metrics", here.key(("audit", "*"))).text
    (line,) = [line for line in text.splitlines() if line.startswith(name + '{instance="rooms"}')]
    return float(line.split()[-1])


def test_what_waits_grows_older_by_itself(here: Site) -> None:
    """Also in a process that has not written anything since it started."""
    here.decide("w1", 0.9)
    before = figure(here, "gdcb_held_oldest_seconds")
    here.clock.pass_by(3_000)
    assert figure(here, "gdcb_held_oldest_seconds") == pytest.approx(before + 3_000, abs=5)
    other = House(here.house.store, here.house.settings, here.clock)
    other.desk("rooms")
    lines = other.metrics.text().decode().splitlines()
    waiting = [line for line in lines if line.startswith("gdcb_held_decisions{")]
    assert float(waiting[0].split()[-1]) == figure(here, "gdcb_held_decisions") > 0
    other.stop()


def test_an_instance_that_cannot_be_read_stops_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = sql_store(str(tmp_path / "two.db"))
    for name in ("bad", "good"):
        text = desks.held("expiry.after = 60").replace('name = "rooms"', f'name = "{name}"')
        operating.create(store, text, "ann", "first")
    with store.transaction() as connection:
        connection.execute(sa.text("DROP TRIGGER entries_update"))
        connection.execute(sa.text("UPDATE entries SET body = x'00' WHERE chain = 'bad'"))
    clock = desks.Clock()
    house = House(store, Settings(tick=0.01), clock)
    house.start()
    assert house.names() == ["good"]
    assert "instance bad cannot be opened" in caplog.text
    assert "gdcb_unreadable_instances 1.0" in house.metrics.text().decode()
    assert [one.desk.chain for one in house._all()] == ["good"]
    assert caplog.text.count("cannot be opened") == 1  # it is not tried again at once
    house.stop()
    store.close()


def test_the_document_of_the_api(here: Site) -> None:
    document = here.get("/v1/openapi.json").json()
    for path, operations in document["paths"].items():
        assert path.startswith(("/v1/", "/healthz", "/readyz", "/metrics")), path
        for operation in operations.values():
            refused = operation["responses"]["422"]["content"]["application/json"]["schema"]
            assert refused == {"$ref": "#/components/schemas/Problem"}
    assert "HTTPValidationError" not in document["components"]["schemas"]
    assert "ProblemSaid" in document["components"]["schemas"]
