"""Decide over HTTP: once for each id, by rows or by columns, by the quick lane as by the routes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from gdcb.service.envelope import Envelope
from gdcb.service.models import Batch, Decision, DecisionNow, Queue
from tests.service import desks
from tests.service.desks import night
from tests.service.http import BASE, Site, problem, site

AT = "/v1/instances/rooms/decisions"


@pytest.fixture(scope="module")
def here(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(sqlite_template, tmp_path_factory.mktemp("here")) as made:
        yield made


@pytest.fixture
def twins(sqlite_template: Path, tmp_path: Path) -> Iterator[tuple[Site, Site]]:
    """Lend two sites of one seed: what is asked of both is answered alike."""
    with site(sqlite_template, tmp_path) as one, site(sqlite_template, tmp_path) as other:
        yield one, other


def test_a_decision_is_made_once(here: Site) -> None:
    said = {"id": "a1", "context": night(), "unit": "sea"}
    before = here.size()
    first, again = (here.post(AT, here.shop, said) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    made = Decision.model_validate(first.json())
    assert set(first.json()) == set(Decision.model_fields)
    assert (made.id, made.unit, made.status, made.live, made.has_run) == (
        "a1", "sea", "passed", True, True,
    )  # fmt: skip
    assert made.action == made.proposed == {"price": 100.0 * float(made.arm)}
    assert here.kinds(before) == ["DecisionMade", "GateApplied", "ActionExecuted"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"context": night(0.1)}, "id: 'c1' was used before with another context, unit or mask"),
        ({"unit": "farm"}, "id: 'c1' was used before with another context, unit or mask"),
        ({"mask": ["1"]}, "id: 'c1' was used before with another context, unit or mask"),
    ],
)
def test_another_request_under_an_id_is_a_conflict(
    here: Site, change: dict[str, Any], says: str
) -> None:
    said = {"id": "c1", "context": night(), "unit": "sea"}
    here.post(AT, here.shop, said)
    before = here.heads()
    answer = here.post(AT, here.shop, said | change)
    assert answer.status_code == 409
    assert problem(answer)["message"] == says
    assert here.heads() == before


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", {"context": night(), "unit": "sea"}),
        ("", {"context": night(0.1), "unit": "sea"}),
        ("", {"context": night(), "unit": "farm"}),
        ("", {"context": night(), "mask": ["1"]}),
        ("/batch", {"contexts": [night()], "unit": "sea"}),
        ("/batch", {"contexts": [night(), night()]}),
    ],
    ids=["the same", "context", "unit", "mask", "batch", "batch of two"],
)
@pytest.mark.parametrize("before", ["", "/batch"], ids=["one", "batch"])
def test_what_another_key_asked_is_not_told(
    here: Site, path: str, said: dict[str, Any], before: str
) -> None:
    """One sentence whatever is asked: else contexts could be guessed, and answers read."""
    id = f"theirs{before[1:]}"
    theirs: dict[str, Any] = {"contexts": [night()]} if before else {"context": night()}
    here.post(f"{AT}{before}", here.shop, theirs | {"id": id, "unit": "sea"})
    heads = here.heads()
    answer = here.post(f"{AT}{path}", here.key(("decide", "*")), said | {"id": id})
    assert answer.status_code == 409
    assert problem(answer)["message"] == f"id: '{id}' was used before by another key or person"
    assert here.heads() == heads


def test_one_and_a_batch_do_not_share_an_id(here: Site) -> None:
    here.decide("o1")
    here.post(f"{AT}/batch", here.shop, {"id": "b1", "contexts": [night()]})
    as_batch = here.post(f"{AT}/batch", here.shop, {"id": "o1", "contexts": [night()]})
    as_one = here.post(AT, here.shop, {"id": "b1", "context": night()})
    assert (as_batch.status_code, as_one.status_code) == (409, 409)
    assert problem(as_batch)["message"] == "id: 'o1' was used before, for one decision"
    assert problem(as_one)["message"] == "id: 'b1' was used before, for a batch"


def test_an_id_is_made_where_none_is_given(here: Site) -> None:
    ids = {here.post(AT, here.shop, {"context": night()}).json()["id"] for _ in range(3)}
    assert len(ids) == 3
    batch = here.post(f"{AT}/batch", here.shop, {"contexts": [night(), night()]}).json()
    assert [one["id"] for one in batch["decisions"]] == [f"{batch['id']}.0", f"{batch['id']}.1"]


def test_a_mask_leaves_only_its_arms(here: Site) -> None:
    rows = {"contexts": [night()] * 60}
    free = here.post(f"{AT}/batch", here.shop, rows | {"id": "free"}).json()["decisions"]
    bound = here.post(f"{AT}/batch", here.shop, rows | {"id": "bound", "mask": ["0.8", "1.2"]})
    assert {one["arm"] for one in free} == {"0.8", "1", "1.2"}
    assert {one["arm"] for one in bound.json()["decisions"]} == {"0.8", "1.2"}


def test_units_have_learners_of_their_own(here: Site) -> None:
    at = "/v1/instances/cabins"
    rows = {"contexts": [night()] * 3, "units": ["sea", "farm", "sea"]}
    made = here.post(f"{at}/decisions/batch", here.shop, rows | {"id": "b"}).json()["decisions"]
    assert [one["unit"] for one in made] == ["sea", "farm", "sea"]
    assert here.get(at, here.shop).json()["units"] == 2


def test_columns_decide_as_rows_do(twins: tuple[Site, Site]) -> None:
    """Two sites of one seed are asked the same, one by rows and one by columns."""
    here, there = twins
    contexts = [night(i % 10 / 10, 40.0 + 7 * i) for i in range(60)]
    columns = {name: [row[name] for row in contexts] for name in ("base", "busy")}
    units = ["sea", "farm", "lake"] * 20
    by_rows = here.post(f"{AT}/batch", here.shop, {"id": "b", "contexts": contexts, "units": units})
    asked = {"id": "b", "columns": columns, "units": units}
    by_columns = there.post(f"{AT}/batch", there.shop, asked)
    again = here.post(f"{AT}/batch", here.shop, asked)
    assert [one.status_code for one in (by_rows, by_columns, again)] == [201, 201, 200]
    assert by_columns.json() == again.json()
    batch = Batch.model_validate(by_rows.json())
    assert batch.decisions is not None
    found = by_columns.json()["columns"]
    for name in ("id", "status", "arm", "live", "has_run", "reason"):
        assert found[name] == [getattr(one, name) for one in batch.decisions]
    for name in ("proposed", "action"):
        values = [getattr(one, name) for one in batch.decisions]
        assert found[f"{name}.price"] == [None if v is None else v["price"] for v in values]
    assert {"held", "passed", "modified"} == set(found["status"])
    bodies = [[e.body for e in one.house.store.read("rooms")][1] for one in (here, there)]
    assert bodies[0] == bodies[1].replace(_key(there), _key(here))


def _key(made: Site) -> bytes:
    """Return the id of the shop's key, which is chance."""
    return made.shop["authorization"].split("_")[1].encode()


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"base": [100], "busy": [0, 1]}, "columns: expected columns of one length, at least 1"),
        ({"base": [], "busy": []}, "columns: expected columns of one length, at least 1"),
        ({}, "columns: expected columns of one length, at least 1"),
        ({"base": [100]}, "context: missing busy"),
        ({"base": [1], "busy": [0], "x": [1]}, "context: no column x; it has base, busy"),
        ({"base": [True], "busy": [0]}, "context.base: expected a number, got True"),
        ({"base": [0], "busy": [0]}, "context.base: expected 1 to 1000, got 0.0"),
        (
            {"base": [None], "busy": [0]},
            "columns.base.0: expected true or false or a number or a text",
        ),
    ],
)
def test_columns_are_refused_as_rows_are(here: Site, columns: Any, says: str) -> None:
    before = here.heads()
    answer = here.post(f"{AT}/batch", here.shop, {"columns": columns})
    assert answer.status_code == 422
    assert problem(answer)["message"] == says
    assert here.heads() == before


def test_a_held_decision_says_until_when_it_waits(here: Site) -> None:
    made = here.decide("h1", 0.9)
    assert (made["status"], made["action"], made["has_run"]) == ("held", None, False)
    now = DecisionNow.model_validate(here.get(f"{AT}/h1", here.shop).json())
    assert now.waiting_since == "2026-01-01T00:00:00.000Z"
    assert now.deadline == "2026-01-01T04:00:00.000Z"
    assert (now.at_expiry, now.decided, now.executed, now.outcome) == ("veto", None, None, None)
    passed = DecisionNow.model_validate(
        here.get(f"{AT}/{here.decide('p1')['id']}", here.shop).json()
    )
    assert (passed.waiting_since, passed.deadline, passed.at_expiry) == (None, None, None)
    assert passed.executed == passed.action


def test_the_queue_is_filtered_and_cut(sqlite_template: Path, tmp_path: Path) -> None:
    with site(sqlite_template, tmp_path, desks.held_twice()) as here:
        for i, (busy, base) in enumerate([(0.9, 100), (0.9, 100), (0.0, 300)]):
            said = {"id": f"h{i}", "context": night(busy, base), "unit": f"u{i}", "mask": ["1"]}
            assert here.post(AT, here.shop, said).json()["status"] == "held"
            here.clock.pass_by(60)
        here.post(f"{AT}/h1/claim", here.bob)

        def ids(query: str) -> tuple[int, list[str]]:
            found = here.get(f"/v1/instances/rooms/queue{query}", here.ann)
            shown = Queue.model_validate(found.json())
            return shown.total, [one.id for one in shown.waiting]

        assert ids("") == (3, ["h0", "h1", "h2"])
        assert ids("?limit=1") == (3, ["h0"])
        assert ids("?rule=owner") == (1, ["h2"])
        assert ids("?rule=manager&unit=u1") == (1, ["h1"])
        assert ids("?unit=nobody") == (0, [])
        found = here.get("/v1/instances/rooms/queue", here.ann).json()["waiting"]
        assert [one["claimed_by"] for one in found] == [None, "Bob", None]
        assert {k: found[0][k] for k in ("version", "content")} == here.seen("h0")
        said = {"verdict": "edit", "action": {"price": 250}, "code": "too-low", **here.seen("h0")}
        assert here.post(f"{AT}/h0/review", here.ann, said).json()["status"] == "held"
        asked = here.get("/v1/instances/rooms/queue?unit=u0", here.bob).json()["waiting"][0]
        assert (asked["proposed"], asked["offered"]) == ({"price": 100.0}, {"price": 250.0})
        read = here.get(f"{AT}/h0", here.bob).json()
        assert (read["proposed"], read["offered"]) == ({"price": 100.0}, {"price": 250.0})
        for query in ("?limit=0", "?limit=501", "?limit=x", f"?rule={'r' * 201}"):
            assert here.get(f"/v1/instances/rooms/queue{query}", here.ann).status_code == 422


# The quick lane

_GOOD = {"context": night()}
_LONG = "x" * 121
BODIES: list[Any] = [
    {"id": "a1", **_GOOD},
    {"id": "a1", **_GOOD},
    {"id": "a1", "context": night(0.2)},
    {"id": "h1", "context": night(0.9)},
    {"id": "m1", "mask": ["0.8"], **_GOOD},
    {"id": "u1", "unit": "sea", **_GOOD},
    {"id": "i1", "context": {"base": 100, "busy": 0}},
    {"context": {"base": 100}},
    {"context": {"base": 100, "busy": 0, "x": 1}},
    {"context": {"base": True, "busy": 0}},
    {"context": {"base": "100", "busy": 0}},
    {"context": {"base": None, "busy": 0}},
    {"context": {"base": 10**400, "busy": 0}},
    {"context": []},
    {"context": None},
    {"id": "", **_GOOD},
    {"id": "a.7", **_GOOD},
    {"id": "ö", **_GOOD},
    {"id": _LONG, **_GOOD},
    {"id": 3, **_GOOD},
    {"mask": [], **_GOOD},
    {"mask": ["9"], **_GOOD},
    {"mask": "0.8", **_GOOD},
    {"unit": "", **_GOOD},
    {"id": "u2", "unit": "a\x00b", **_GOOD},
    {"colour": 1, **_GOOD},
    {"incumbent": {"price": True}, **_GOOD},
    {},
    [],
    None,
    "text",
    b"",
    b"{",
    b"\xff",
    b"\xef\xbb\xbf{}",
    b'{"context": {"base": NaN, "busy": 0}}',
    b'{"context": {"base": -Infinity, "busy": 0}}',
    b'{"context": {"base": 1e400, "busy": 0}}',
    b'{"context": {"base": 1, "base": 2, "busy": 0}}',
    b'{"context": {"\\ud800": 1}}',
    b'{"\\ud800": 1}',
    b"[" * 100_000,
    b'{"context": {"base": ' + b"9" * 5_000 + b', "busy": 0}}',
    b'{"x": "' + b"x" * (16 * 2**20) + b'"}',
]
MANY: list[Any] = [
    {"id": "b", "contexts": [night(), night(0.9)]},
    {"id": "b", "columns": {"base": [100.0, 100.0], "busy": [0.0, 0.9]}},
    {"id": "b", "contexts": [night()]},
    {"id": "c", "columns": {"base": [100, 60], "busy": [0.9, 0.1]}, "units": ["x", "y"]},
    {"contexts": [night()], "columns": {"base": [1], "busy": [0]}},
    {"contexts": [night()], "unit": "a", "units": ["a"]},
    {"contexts": [night()], "units": ["a", "b"]},
    {"contexts": []},
    {"contexts": [night(), 3]},
    {"columns": {"base": 3}},
    {"id": "a.7", "contexts": [night()]},
    {},
    None,
    b"{",
]


def routes_of(made: Site) -> TestClient:
    """Return a client whose requests all go through the routes."""
    around = Envelope(made.app.routed, made.house)
    return TestClient(around, BASE, raise_server_exceptions=False)


def test_the_lane_answers_as_the_routes_do(twins: tuple[Site, Site]) -> None:
    """Two sites of one seed are asked the same in step: whatever is answered is the same."""
    here, there = twins
    client, n_good = routes_of(there), 0
    asked = [("rooms", "", one) for one in BODIES] + [("rooms", "/batch", one) for one in MANY]
    strange = ("nowhere", "%E2%82%AC", "x" * 300)
    # The lane asks for the instance and the role before it reads the body, the routes after it.
    asked += [
        (name, rest, one)
        for name in strange
        for rest, one in (("", BODIES[1]), ("/batch", MANY[0]))
    ]
    for n, (name, rest, said) in enumerate(asked):
        path = f"/v1/instances/{name}/decisions{rest}"
        content = said if isinstance(said, bytes) else json.dumps(said).encode()
        more = {"x-request-id": f"r{n}", "content-type": "application/json"}
        lane = here.ask("POST", path, here.shop, content=content, headers=more)
        route = client.post(path, headers=there.shop | more, content=content)
        assert lane.status_code == route.status_code, (said, lane.text, route.text)
        assert lane.json() == route.json(), said
        assert _kept(lane) == _kept(route), said
        n_good += lane.status_code in (200, 201)
    assert n_good == 10
    assert here.size() == there.size()


def _kept(answer: Any) -> dict[str, str]:
    """Return an answer's headers; JSON is written with or without spaces."""
    return {name: value for name, value in answer.headers.items() if name != "content-length"}


def test_a_name_is_unquoted_once(here: Site) -> None:
    """The server unquotes the path: 'roo%256ds' asks for 'roo%6ds', which is not 'rooms'."""

    async def ask(name: str) -> int:
        transport = httpx.ASGITransport(here.app)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            at, said = f"/v1/instances/{name}/decisions", {"id": "q1", "context": night()}
            return (await client.post(at, headers=here.shop, json=said)).status_code

    asked = ("rooms", "r%6Foms", "roo%256ds")
    assert [asyncio.run(ask(name)) for name in asked] == [201, 200, 404]


def test_the_lane_reads_headers_as_the_routes_do(twins: tuple[Site, Site]) -> None:
    here, there = twins
    client = routes_of(there)
    content = json.dumps({"id": "a1", "context": night()}).encode()
    kind = {"content-type": "application/json"}
    for headers, status in (
        ({}, 415),
        ({"content-type": ""}, 415),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "application/problem+json"}, 415),
        ({"content-type": "APPLICATION/JSON; charset=utf-8"}, 201),
        (kind | {"authorization": "Bearer gdcb_no_no"}, 401),
        (kind | {"authorization": "Basic eDp5"}, 401),
    ):
        more = {"x-request-id": "r1"} | headers
        lane = here.ask("POST", AT, here.shop | more, content=content)
        route = client.post(AT, headers=there.shop | more, content=content)
        assert lane.status_code == route.status_code == status, (headers, lane.text, route.text)
        assert lane.json() == route.json()


def test_the_lanes_answers_fit_the_models(here: Site) -> None:
    """The lane checks no answer against its model: so it is checked here."""
    for one in BODIES[:6]:
        answer = here.post(AT, here.shop, one | {"id": f"fit-{one['id']}"})
        document = answer.json()
        assert answer.status_code in (200, 201, 409)
        if answer.status_code != 409:
            assert Decision.model_validate(document, strict=True).model_dump() == document
    for one in MANY[:4]:
        answer = here.post(f"{AT}/batch", here.shop, one | {"id": f"fit-{one['id']}"})
        document = answer.json()
        assert answer.status_code in (200, 201, 409)
        if answer.status_code != 409:
            assert Batch.model_validate(document, strict=True).model_dump() == document
