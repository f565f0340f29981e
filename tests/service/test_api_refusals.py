"""What is refused: the right status, code and sentence, nothing added, nothing given away."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from gdcb.errors import StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from gdcb.ledger.sql import SqlStore
from gdcb.service.access import Rate, RateLimits, security_headers
from gdcb.service.house import Settings
from gdcb.service.models import DecideMany
from gdcb.service.problems import CODES, LONGEST
from tests.postgres import Cluster
from tests.service import desks
from tests.service.desks import night
from tests.service.http import BASE, PLENTY, ROOMS, Site, problem, served, site

AT = f"/v1/instances/{ROOMS}"
DECIDE = f"{AT}/decisions"
SMALL = 2**20
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def here(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    settings = Settings(BASE, largest=SMALL, tick=0, rates=PLENTY)
    folder = tmp_path_factory.mktemp("refusals")
    with site(sqlite_template, folder, desks.held("batch = 4"), settings) as made:
        made.decide("a1")
        made.decide("h1", 0.9)
        yield made


def refused(made: Site, answer: Any, status: int, code: str, says: str) -> dict[str, Any]:
    """Hold a refusal to all that is promised of every one."""
    assert answer.status_code == status, answer.text
    said = problem(answer)
    assert (said["code"], CODES[code]) == (code, status)
    assert said["message"].startswith(says), said["message"]
    assert len(said["message"]) <= LONGEST + 1
    for word in ("Traceback", 'File "', "site-packages", "pydantic", "Error("):
        assert word not in answer.text
    for name, value in security_headers(is_https=made.house.door.is_https).items():
        assert answer.headers[name] == value
    return said


# Bodies that cannot be read

_CONTEXT = b'"context": {"base": 100, "busy": 0}'
UNREADABLE: list[tuple[str, bytes, int, str, str]] = [
    ("empty", b"", 400, "bad_request", "the body is not JSON from line 1, column 1 on"),
    ("cut", b"{", 400, "bad_request", "the body is not JSON from line 1, column 2 on"),
    ("two", b"{} {}", 400, "bad_request", "the body is not JSON from line 1, column 4 on"),
    ("quotes", b"{'a': 1}", 400, "bad_request", "the body is not JSON from line 1, column 2 on"),
    ("comma", b'{"a": 1,}', 400, "bad_request", "the body is not JSON from line 1, column"),
    ("bytes", b'{"a": "\xff"}', 400, "bad_request", "the body is not UTF-8"),
    ("utf-16", '{"a": 1}'.encode("utf-16"), 400, "bad_request", "the body is not UTF-8"),
    ("mark", b"\xef\xbb\xbf{}", 400, "bad_request", "the body is not JSON from line 1, column 1"),
    ("nan", b'{"x": NaN}', 400, "bad_request", "the body has NaN, which is no number"),
    ("inf", b'{"x": Infinity}', 400, "bad_request", "the body has Infinity, which is no number"),
    ("-inf", b'{"x": -Infinity}', 400, "bad_request", "the body has -Infinity, which is"),
    ("deep", b"[" * 100_000, 400, "bad_request", "the body is nested too deep"),
    ("deep ends", b"[" * 10**5 + b"]" * 10**5, 400, "bad_request", "the body is nested too deep"),
    ("objects", b'{"a":' * 10**5, 400, "bad_request", "the body is nested too deep"),
    ("digits", b"9" * 5_000, 400, "bad_request", "the body has a number that is too long"),
    ("nul", b'{"a": [{"b\\u0000": 1}]}', 400, "bad_request", "the body has the character NUL"),
    ("twice", b'{"a": 1, "a": 1}', 400, "bad_request", "the body names 'a' twice"),
    (
        "twice after many",
        b'{"a": {' + b",".join(b'"%d": 0' % i for i in range(1_990)) + b',"7": 1}}',
        400,
        "bad_request",
        "the body names '7' twice",
    ),
    ("twice in", b'{"a": {"b": 1, "b": 2}}', 400, "bad_request", "the body names 'b' twice"),
    (
        "many names",
        b'{"a": {' + b",".join(b'"%d": 0' % i for i in range(2_001)) + b"}}",
        400,
        "bad_request",
        "the body has an object with more than 2,000 names",
    ),
    (
        "many objects",
        b"[" * 500_001,
        400,
        "bad_request",
        "the body has more than 500,000 objects and lists",
    ),
    ("large", b'"' + b"x" * SMALL + b'"', 413, "too_large", "the body is larger than 1 MiB"),
    ("list", b"[]", 422, "invalid_input", "expected a JSON object with named fields"),
    ("null", b"null", 422, "invalid_input", "expected a JSON object with named fields"),
    ("number", b"3", 422, "invalid_input", "expected a JSON object with named fields"),
    ("text", b'"x"', 422, "invalid_input", "expected a JSON object with named fields"),
]
READERS = (DECIDE, f"{DECIDE}/batch", f"{DECIDE}/a1/outcome", f"{AT}/pause", f"{AT}/webhooks")


@pytest.mark.parametrize("path", READERS)
def test_a_body_that_cannot_be_read(here: Site, path: str) -> None:
    before = here.heads()
    for name, body, status, code, says in UNREADABLE:
        answer = here.ask("POST", path, here.shop, content=body, headers=JSON)
        assert answer.status_code == status, (name, answer.text)
        refused(here, answer, status, code, says)
    assert here.heads() == before


@pytest.mark.parametrize("path", READERS)
def test_a_body_of_another_type(here: Site, path: str) -> None:
    for kind in ("", "text/plain", "application/x-www-form-urlencoded", "application/xml"):
        answer = here.ask("POST", path, here.shop, content=b"{}", headers={"content-type": kind})
        refused(here, answer, 415, "unsupported_media_type", "expected a body of type applic")


def test_a_stream_is_cut_when_it_is_too_long(here: Site) -> None:
    """Nobody says how long it will be; it is refused as soon as it is too long."""
    sent = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'{"x": "'
        while sent < 100 * SMALL:
            sent += 65_536
            yield b"x" * 65_536

    async def ask(path: str) -> httpx.Response:
        transport = httpx.ASGITransport(here.app)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            return await client.post(path, headers=here.shop | JSON, content=body())

    for path in READERS:
        sent = 0
        answer = asyncio.run(ask(path))
        assert "content-length" not in answer.request.headers
        refused(here, answer, 413, "too_large", "the body is larger than 1 MiB")
        assert sent <= 2 * SMALL


def test_strangers_are_refused_before_their_body_is_read(here: Site) -> None:
    read = False

    async def body() -> AsyncIterator[bytes]:
        nonlocal read
        read = True
        yield b"{}"

    async def ask(path: str) -> httpx.Response:
        transport = httpx.ASGITransport(here.app)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            return await client.post(path, headers=JSON, content=body())

    for path in READERS:
        refused(here, asyncio.run(ask(path)), 401, "not_signed_in", "sign in, or send an API key")
        assert not read


# Requests that cannot be

_GOOD = {"context": night()}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"context": {"base": 1e300, "busy": 0}}, "context.base: expected 1 to 1000, got 1e+300"),
    ({"context": {"base": 10**400, "busy": 0}}, "context.base: expected true or false or a num"),
    ({"context": {"base": -1, "busy": 0}}, "context.base: expected 1 to 1000, got -1.0"),
    ({"context": {"base": True, "busy": 0}}, "context.base: expected a number, got True"),
    ({"context": {"base": "5", "busy": 0}}, "context.base: expected a number, got '5'"),
    ({"context": {"base": None, "busy": 0}}, "context.base: expected true or false or a number"),
    ({"context": {"base": [5], "busy": 0}}, "context.base: expected true or false or a number"),
    ({"context": {"base": 5}}, "context: missing busy"),
    ({"context": {}}, "context: missing base, busy"),
    ({"context": {"base": 5, "busy": 0, "x": 0}}, "context: no column x; it has base, busy"),
    ({"context": {"base": 5, "busy": 0, "x" * 5000: 0}}, "context: no column xxx"),
    ({"context": [5, 0]}, "context: expected a JSON object with named fields"),
    ({}, "context: expected a value, got none"),
    ({**_GOOD, "colour": 1}, "colour: there is no such field"),
    ({**_GOOD, "bool": 1}, "bool: there is no such field"),
    ({**_GOOD, "id": ""}, "id: String should have at least 1 character"),
    ({**_GOOD, "id": "a b"}, "id: String should match pattern"),
    ({**_GOOD, "id": "a/b"}, "id: String should match pattern"),
    ({**_GOOD, "id": "é"}, "id: String should match pattern"),
    ({**_GOOD, "id": ".a"}, "id: String should match pattern"),
    ({**_GOOD, "id": "a\n"}, "id: "),
    ({**_GOOD, "id": "a" * 121}, "id: String should have at most 120 characters"),
    ({**_GOOD, "id": "a.7"}, "id: may not end in .NUMBER, which names the rows of a batch"),
    ({**_GOOD, "id": 7}, "id: Input should be a valid string"),
    ({**_GOOD, "unit": ""}, "unit: String should have at least 1 character"),
    ({**_GOOD, "unit": "u" * 201}, "unit: String should have at most 200 characters"),
    ({**_GOOD, "unit": 3}, "unit: Input should be a valid string"),
    ({**_GOOD, "mask": []}, "mask: List should have at least 1 item after validation, not 0"),
    ({**_GOOD, "mask": ["2"]}, "mask: no arm '2'; there are 0.8, 1, 1.2"),
    ({**_GOOD, "mask": [0.8]}, "mask.0: Input should be a valid string"),
    ({**_GOOD, "mask": "0.8"}, "mask: expected a list"),
    ({**_GOOD, "incumbent": {"price": True}}, "incumbent.price: expected a number or a text"),
]


@pytest.mark.parametrize(("said", "says"), WRONG, ids=[says[:40] for _, says in WRONG])
def test_a_request_that_cannot_be(here: Site, said: dict[str, Any], says: str) -> None:
    before = here.heads()
    refused(here, here.post(DECIDE, here.shop, said), 422, "invalid_input", says)
    assert here.heads() == before


def test_half_a_character_is_sent_back_whole(here: Site) -> None:
    """JSON can name half of a pair of surrogates; no answer could have it."""
    before = here.heads()
    for body in (
        b'{"context": {"\\ud800": 1}}',
        b'{"\\ud800": 1, ' + _CONTEXT + b"}",
        b'{"mask": ["\\udfff"], ' + _CONTEXT + b"}",
        b'{"unit": "\\ud800", ' + _CONTEXT + b"}",
        b'{"id": "\\ud800", ' + _CONTEXT + b"}",
    ):
        answer = here.ask("POST", DECIDE, here.shop, content=body, headers=JSON)
        refused(here, answer, 422, "invalid_input", "")
    assert here.heads() == before


WRONG_CELLS = {
    "columns": {"columns": {f"c{i}": [{}] * 150 for i in range(1_999)}},
    "rows": {"contexts": [{f"c{i}": {} for i in range(140)}] * 2_000},
    "units": {"contexts": [night()], "units": [1] * 9_000},
    "incumbents": {"contexts": [night()], "incumbents": [{"price": []}] * 9_000},
}


@pytest.mark.parametrize("what", sorted(WRONG_CELLS))
def test_wrong_values_are_not_all_counted(what: str) -> None:
    """Each of them would be several errors: 11 MiB of them took 80 seconds and 19 GiB."""
    with pytest.raises(ValidationError) as found:
        DecideMany.model_validate(WRONG_CELLS[what])
    assert found.value.error_count() <= 3 * 1_999


def test_the_first_wrong_value_is_named(here: Site) -> None:
    said = WRONG_CELLS["columns"]
    answer = here.post(f"{DECIDE}/batch", here.shop, said)
    refused(here, answer, 422, "invalid_input", "columns.c0.0: expected true or false or a number")


def test_a_batch_is_refused_whole(here: Site) -> None:
    before = here.heads()
    for said, says in (
        ({"contexts": [night()] * 5}, "contexts: expected at most 4 rows, got 5"),
        ({"columns": {"base": [1] * 5, "busy": [0] * 5}}, "contexts: expected at most 4 rows"),
        ({"contexts": [night(), {"base": 5}]}, "context: missing busy"),
        ({"contexts": [night()], "units": ["a", "b"]}, "unit: expected 1 names, got 2"),
        ({"contexts": [night()], "units": []}, "unit: expected 1 names, got 0"),
        ({}, "give contexts or columns, one of the two"),
        ({"contexts": [night()], "unit": "a", "units": ["a"]}, "give unit or units, not both"),
        ({"contexts": [night()] * 10_001}, "contexts: List should have at most 10000 items"),
    ):
        refused(here, here.post(f"{DECIDE}/batch", here.shop, said), 422, "invalid_input", says)
    assert here.heads() == before


@pytest.mark.parametrize(
    "id", ["none", "a1.0", "a2", "%F0%9F%8F%A0", "a%20b", "x" * 5000, "a1%2F..", "-1", "a1."]
)
def test_a_decision_that_was_never_made(here: Site, id: str) -> None:
    before = here.heads()
    said = {"outcome": {"booked": 1}}
    for answer in (
        here.get(f"{DECIDE}/{id}", here.shop),
        here.post(f"{DECIDE}/{id}/outcome", here.shop, said),
        here.post(f"{DECIDE}/{id}/executed", here.shop, {"action": None}),
        here.post(f"{DECIDE}/{id}/claim", here.ann),
    ):
        assert answer.status_code == 404, answer.text
        assert problem(answer)["code"] in ("unknown_decision", "not_found")
    assert here.heads() == before


def test_odd_ids_are_unknown_on_postgresql_too(postgres: Cluster, postgres_template: str) -> None:
    """What SQLite takes as it comes, PostgreSQL may refuse: neither answer is our failure."""
    name = postgres.create(f"TEMPLATE {postgres_template}")
    with served(SqlStore(postgres.url(name))) as made:
        before = made.heads()
        for id in (
            "none",
            "a.99999999999999999999999",
            f"a.{'9' * 400}",
            "%F0%9F%8F%A0",
            "x" * 3000,
        ):
            for method, path, said in (
                ("GET", f"{DECIDE}/{id}", None),
                ("POST", f"{DECIDE}/{id}/claim", None),
                ("POST", f"{DECIDE}/{id}/outcome", {"outcome": {"booked": 1}}),
                ("POST", f"{AT}/outcomes", {"outcomes": [{"id": id, "outcome": {"booked": 1}}]}),
                ("DELETE", f"{AT}/webhooks/{id}", None),
                ("GET", f"/v1/instances/{id}", None),
                ("GET", f"/i/{ROOMS}/d/{id}", None),
                ("GET", f"/i/{ROOMS}/audit?id={id}&unit={id}", None),
            ):
                answer = made.ask(method, path, made.ann, json=said)
                assert answer.status_code in (200, 404, 422), (path[:80], answer.text)
        assert made.heads() == before
        answer = made.post(DECIDE, made.shop, {"context": night(), "unit": "a\x00b"})
        refused(made, answer, 400, "bad_request", "the body has the character NUL")
    postgres.drop(name)


# Addresses


def test_an_address_with_nul_is_refused(here: Site) -> None:
    """PostgreSQL keeps no text with NUL; it would fail whatever shares its transaction."""
    for method, path in (
        ("GET", f"{DECIDE}/a%00b"),
        ("POST", f"{DECIDE}/%00/claim"),
        ("GET", "/v1/instances/%00"),
        ("POST", "/v1/instances/ro%00oms/decisions"),
        ("DELETE", f"{AT}/webhooks/%00"),
        ("GET", f"{AT}/queue?rule=a%00"),
        ("GET", f"/i/{ROOMS}/audit?id=%00"),
        ("GET", "/sign-in?link=%00"),
    ):
        answer = here.ask(method, path, here.ann)
        refused(here, answer, 400, "bad_request", "the address has the character NUL")


def test_an_address_that_is_none(here: Site) -> None:
    for method, path in (("GET", "/v1/nothing"), ("POST", f"{AT}/nothing"), ("GET", "/v2")):
        refused(here, here.ask(method, path, here.shop), 404, "not_found", "Not Found")
    gone = here.get("/v1/instances/nowhere", here.shop)
    refused(here, gone, 404, "unknown_instance", "no instance 'nowhere' here")
    for method, path in (("PUT", DECIDE), ("DELETE", AT), ("POST", "/healthz"), ("PATCH", AT)):
        answer = here.ask(method, path, here.shop)
        refused(here, answer, 405, "method_not_allowed", "Method Not Allowed")
        assert answer.headers["allow"]


def test_every_answer_has_an_id(here: Site) -> None:
    """The client's own where it is plain, and ours where it is not or there is none."""
    assert (
        here.get("/healthz", {"x-request-id": "abc-1.2_3"}).headers["x-request-id"] == "abc-1.2_3"
    )
    ids = {here.get("/healthz").headers["x-request-id"] for _ in range(3)}
    assert len(ids) == 3
    for odd in ("a b", "x" * 65, "<script>", '"', "a,b"):
        found = here.get("/healthz", {"x-request-id": odd}).headers.get_list("x-request-id")
        assert len(found) == 1
        assert found[0] != odd


def test_every_answer_has_the_security_headers(here: Site) -> None:
    for path in ("/healthz", "/v1/openapi.json", "/sign-in", "/nothing", "/static/nothing.css"):
        answer = here.get(path)
        kept = security_headers(is_static=path.startswith("/static/"))
        for name, value in kept.items():
            assert answer.headers[name] == value, path
        assert "server" not in answer.headers


# What does not fit the time


def test_a_retired_and_a_paused_instance(sqlite_template: Path, tmp_path: Path) -> None:
    with site(sqlite_template, tmp_path) as here:
        here.decide("h1", 0.9)
        here.post(f"{AT}/pause", here.shop, {"reason": "a storm"})
        before = here.heads()
        answer = here.post(DECIDE, here.shop, _GOOD)
        refused(here, answer, 409, "stopped", "the instance is paused by shop")
        batch = here.post(f"{DECIDE}/batch", here.shop, {"contexts": [night()]})
        refused(here, batch, 409, "stopped", "the instance is paused by shop")
        assert here.heads() == before
        here.post(f"{AT}/retire", here.ann, {"reason": "sold"})
        answer = here.post(DECIDE, here.shop, _GOOD)
        refused(here, answer, 409, "stopped", "the instance is retired by Ann")


# Too much


def test_too_many_requests_are_told_when_to_come_again(
    sqlite_template: Path, tmp_path: Path
) -> None:
    few = RateLimits(decide=Rate(0.5, 3), other=Rate(0.25, 2))
    with site(sqlite_template, tmp_path, settings=Settings(BASE, tick=0, rates=few)) as here:
        here.house.limiter.clock = lambda: 0.0
        for i in range(3):
            here.decide(f"a{i}")
        before = here.heads()
        answer = here.post(DECIDE, here.shop, _GOOD)
        refused(here, answer, 429, "too_many", "too many decisions: try again in 2 seconds")
        assert answer.headers["retry-after"] == "2"
        assert here.heads() == before
        for _ in range(2):
            assert here.get(AT, here.shop).status_code == 200
        answer = here.get(AT, here.shop)
        refused(here, answer, 429, "too_many", "too many requests: try again in 4 seconds")
        other = here.key(("decide", ROOMS))  # everybody has a bucket of their own
        assert here.post(DECIDE, other, _GOOD).status_code == 201


def test_rows_of_a_batch_count(sqlite_template: Path, tmp_path: Path) -> None:
    few = RateLimits(decide=Rate(1.0, 4))
    with site(sqlite_template, tmp_path, settings=Settings(BASE, tick=0, rates=few)) as here:
        here.house.limiter.clock = lambda: 0.0
        assert here.post(f"{DECIDE}/batch", here.shop, {"contexts": [night()] * 3}).is_success
        answer = here.post(f"{DECIDE}/batch", here.shop, {"contexts": [night()] * 3})
        # Its body was read, which counts as one decision.
        refused(here, answer, 429, "too_many", "too many decisions: try again in 3 seconds")


def test_an_overloaded_desk_turns_requests_away(sqlite_template: Path, tmp_path: Path) -> None:
    settings = Settings(BASE, waiting=1, tick=0, rates=PLENTY)
    with site(sqlite_template, tmp_path, settings=settings) as here:
        here.decide("a0")
        desk, begun, end = here.house.desk(ROOMS), threading.Event(), threading.Event()

        def linger(_: Any) -> None:
            begun.set()
            end.wait(30)

        desk.look(linger)
        assert begun.wait(30)
        waits = desk.submit(lambda _: None)
        before = here.heads()
        answer = here.post(DECIDE, here.shop, _GOOD)
        refused(here, answer, 429, "overloaded", "1 requests wait already")
        assert answer.headers["retry-after"] == "1"
        assert here.heads() == before
        end.set()
        waits.result(30)
        assert here.decide("a1")["status"] == "passed"


# Our own trouble

_WHERE = "store 'postgresql://gdcb@10.0.0.7:5432/ledger': it refused (FATAL: 5432/x)"


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (StoreFull(_WHERE), 507, "store_full"),
        (StoreReadOnly(_WHERE), 503, "store_read_only"),
        (StoreUnavailable(_WHERE), 503, "store_unavailable"),
        (StoreError(_WHERE), 503, "store_unavailable"),
    ],
)
def test_trouble_with_the_store_is_told_without_its_address(
    here: Site,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: StoreError,
    status: int,
    code: str,
) -> None:
    def fail(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(here.house.store, "writing", fail)
    answer = here.post(DECIDE, here.shop, _GOOD)
    said = refused(here, answer, status, code, "the ledger: it refused")
    assert said["message"] == "the ledger: it refused"
    assert f"request {said['request']}: {_WHERE}" in caplog.text
    assert (answer.headers.get("retry-after") == "2") == (status == 503)


@pytest.mark.parametrize("path", [f"{DECIDE}", f"{AT}/pause", f"{AT}/webhooks"])
def test_what_we_did_not_foresee_is_logged_and_not_told(
    here: Site,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    path: str,
) -> None:
    class Broken:
        def take(self, *_: Any) -> None:
            raise RuntimeError("the secret is swordfish")

    monkeypatch.setattr(here.house, "limiter", Broken())
    said = {DECIDE: _GOOD, f"{AT}/pause": {"reason": "x"}}.get(
        path, {"url": "https://x.example", "kinds": ["held"]}
    )
    answer = here.post(path, here.shop, said)
    told = refused(here, answer, 500, "internal", "something went wrong on our side; the log has")
    assert told["request"] in told["message"]
    assert "swordfish" not in answer.text
    assert "the secret is swordfish" in caplog.text
    assert told["request"] in caplog.text


def test_the_error_body_is_what_the_document_says(here: Site) -> None:
    schema = here.app.openapi()["components"]["schemas"]["ProblemSaid"]
    said = problem(here.get("/v1/nothing"))
    assert set(schema["required"]) == {"code", "message", "request"} == set(said)
    assert json.loads(json.dumps(said)) == said
