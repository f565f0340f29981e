"""What the clients ask, when they ask again, and how they say what went wrong."""

from __future__ import annotations

import asyncio
import inspect
import json
import random
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from gdcb.client import AsyncClient, Client, ClientError, Refused, Unreachable
from gdcb.client.surface import Surface
from gdcb.errors import GdcbError, InvalidInput

BASE = "https://gdcb.example.org"
KEY = "gdcb_0123456789abcdef_" + 64 * "a"
Answer = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


@dataclass
class Time:
    """Time that passes only where somebody sleeps."""

    at: float = 1_000.0
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)


@dataclass
class Both:
    """A service that answers by a script, asked by either client; all that came is kept."""

    is_async: bool
    script: list[Answer] = field(default_factory=list)
    came: list[httpx.Request] = field(default_factory=list)
    time: Time = field(default_factory=Time)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.came.append(request)
        answer = self.script.pop(0) if self.script else httpx.Response(200, json={"news": True})
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            return answer(request)
        # A response is read once, by one client.
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    def ask(self, method: str, *given: Any, settings: Any = None, **named: Any) -> Any:
        """Call a method of a fresh client."""
        transport = httpx.MockTransport(self._answer)
        options: Any = {"clock": self.time, "rng": random.Random(7)} | (settings or {})
        if not self.is_async:
            with Client(BASE, KEY, transport=transport, sleep=self.time.sleep, **options) as client:
                return getattr(client, method)(*given, **named)

        async def run() -> Any:
            async with AsyncClient(
                BASE, KEY, transport=transport, sleep=self.time.sleep_async, **options
            ) as client:
                return await getattr(client, method)(*given, **named)

        return asyncio.run(run())

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.came]


@pytest.fixture(params=["sync", "async"])
def both(request: pytest.FixtureRequest) -> Both:
    return Both(request.param == "async")


def refusal(status: int, code: str, headers: Any = None, **more: Any) -> httpx.Response:
    said = {"code": code, "message": "it is so", "request": "r1"} | more
    return httpx.Response(status, json={"error": said}, headers=headers)


# What is asked


@pytest.mark.parametrize(
    ("method", "given", "named", "asked", "said"),
    [
        (
            "decide",
            ("rooms", {"base": 1.5}),
            {
                "unit": "u",
                "mask": ("a",),
                "incumbent": {"price": 9},
                "subject": "guest 7",
                "id": "n1",
            },
            "POST /v1/instances/rooms/decisions",
            {
                "id": "n1",
                "context": {"base": 1.5},
                "unit": "u",
                "mask": ["a"],
                "incumbent": {"price": 9},
                "subject": "guest 7",
            },
        ),
        (
            "decide_batch",
            ("rooms", [{"base": 1}, {"base": 2}]),
            {"unit": ("u", "v"), "id": "b"},
            "POST /v1/instances/rooms/decisions/batch",
            {"id": "b", "contexts": [{"base": 1}, {"base": 2}], "units": ["u", "v"]},
        ),
        (
            "decide_batch",
            ("rooms",),
            {"columns": {"base": np.array([1.0, 2.0])}, "unit": "u", "id": "b"},
            "POST /v1/instances/rooms/decisions/batch",
            {"id": "b", "columns": {"base": [1.0, 2.0]}, "unit": "u"},
        ),
        (
            "decide_batch",
            ("rooms", [{"base": 1}]),
            {
                "mask": ("a", "b"),
                "incumbent": {"price": np.array(9.0), "kind": "warn"},
                "subject": "g1",
                "id": "b",
            },
            "POST /v1/instances/rooms/decisions/batch",
            {
                "id": "b",
                "contexts": [{"base": 1}],
                "mask": ["a", "b"],
                "incumbent": {"price": 9.0, "kind": "warn"},
                "subject": "g1",
            },
        ),
        (
            "decide_batch",
            ("rooms", [{"base": 1}, {"base": 2}]),
            {"incumbent": ({"price": 9}, {"price": 8}), "subject": ("g1", "g2"), "id": "b"},
            "POST /v1/instances/rooms/decisions/batch",
            {
                "id": "b",
                "contexts": [{"base": 1}, {"base": 2}],
                "incumbents": [{"price": 9}, {"price": 8}],
                "subjects": ["g1", "g2"],
            },
        ),
        (
            "decide_batch",
            ("rooms",),
            {
                "columns": {"base": [1, 2]},
                "incumbent": {"price": np.array([9.0, 8.0]), "kind": ("warn", "allow")},
                "id": "b",
            },
            "POST /v1/instances/rooms/decisions/batch",
            {
                "id": "b",
                "columns": {"base": [1, 2]},
                "incumbent_columns": {"price": [9.0, 8.0], "kind": ["warn", "allow"]},
            },
        ),
        ("change", ("rooms", 3), {}, "GET /v1/instances/rooms/changes/3", None),
        ("decision", ("rooms", "b.0"), {}, "GET /v1/instances/rooms/decisions/b.0", None),
        ("decision", ("a/b?", "n 1"), {}, "GET /v1/instances/a%2Fb%3F/decisions/n%201", None),
        ("evidence", ("rooms", "n1"), {}, "GET /v1/instances/rooms/decisions/n1/evidence", None),
        (
            "queue",
            ("rooms",),
            {"rule": "manager", "unit": "sea", "limit": 5},
            "GET /v1/instances/rooms/queue?rule=manager&unit=sea&limit=5",
            None,
        ),
        *(
            (act, ("rooms", "n 1"), {}, f"POST /v1/instances/rooms/decisions/n%201/{act}", None)
            for act in ("claim", "release")
        ),
        (
            "review",
            ("rooms", "n1", "edit"),
            {"code": "fits", "version": 2, "content": "ab", "action": {"price": 7}},
            "POST /v1/instances/rooms/decisions/n1/review",
            {
                "verdict": "edit",
                "action": {"price": 7},
                "code": "fits",
                "reason": "",
                "version": 2,
                "content": "ab",
            },
        ),
        (
            "executed",
            ("rooms", "n1", None),
            {},
            "POST /v1/instances/rooms/decisions/n1/executed",
            {"action": None},
        ),
        (
            "outcome",
            ("rooms", "n1", {"booked": np.float64(1.0)}),
            {"label": [None, 2.0], "weight": 0.5, "reason": "r"},
            "POST /v1/instances/rooms/decisions/n1/outcome",
            {"outcome": {"booked": 1.0}, "label": [None, 2.0], "weight": 0.5, "reason": "r"},
        ),
        (
            "outcomes",
            ("rooms", [{"id": "n1", "outcome": {"booked": 0}}]),
            {},
            "POST /v1/instances/rooms/outcomes",
            {"outcomes": [{"id": "n1", "outcome": {"booked": 0}}]},
        ),
        (
            "appeal",
            ("rooms", "n1"),
            {"upheld": True, "reason": "r"},
            "POST /v1/instances/rooms/decisions/n1/appeal",
            {"upheld": True, "reason": "r"},
        ),
        ("instance", ("rooms",), {}, "GET /v1/instances/rooms", None),
        (
            "create",
            ("name = 'x'",),
            {"reason": "r", "seed": 7},
            "POST /v1/instances",
            {"declaration": "name = 'x'", "reason": "r", "seed": 7},
        ),
        ("declaration", ("rooms",), {}, "GET /v1/instances/rooms/declaration", None),
        *(
            (act, ("rooms",), {"reason": "r"}, f"POST /v1/instances/rooms/{act}", {"reason": "r"})
            for act in ("pause", "resume", "retire", "acknowledge")
        ),
        ("refit", ("rooms",), {}, "POST /v1/instances/rooms/refit", None),
        (
            "rollback",
            ("rooms",),
            {"to": 7, "reason": "r"},
            "POST /v1/instances/rooms/rollback",
            {"to": 7, "reason": "r"},
        ),
        (
            "discount",
            ("rooms",),
            {"factor": 0.0, "since": 0, "gate": "manager", "reason": "r"},
            "POST /v1/instances/rooms/discount",
            {"factor": 0.0, "since": 0, "gate": "manager", "reason": "r"},
        ),
        (
            "erase",
            ("rooms", "guest 7"),
            {"reason": "r"},
            "POST /v1/instances/rooms/subjects/erase",
            {"subject": "guest 7", "reason": "r"},
        ),
        (
            "propose_change",
            ("rooms", "name = 'x'"),
            {"reason": "r"},
            "POST /v1/instances/rooms/changes",
            {"declaration": "name = 'x'", "reason": "r"},
        ),
        (
            "agree",
            ("rooms", 3),
            {},
            "POST /v1/instances/rooms/changes/3/agree",
            {"reason": ""},
        ),
        (
            "refuse",
            ("rooms", 3),
            {"reason": "no"},
            "POST /v1/instances/rooms/changes/3/refuse",
            {"reason": "no"},
        ),
        (
            "add_webhook",
            ("rooms", "https://x.org/", ("held",)),
            {},
            "POST /v1/instances/rooms/webhooks",
            {"url": "https://x.org/", "kinds": ["held"]},
        ),
        ("remove_webhook", ("rooms", "h1"), {}, "DELETE /v1/instances/rooms/webhooks/h1", None),
        (
            "rotate_webhook",
            ("rooms", "h1"),
            {"overlap_s": 0},
            "POST /v1/instances/rooms/webhooks/h1/rotate?overlap_s=0",
            None,
        ),
        (
            "resume_webhook",
            ("rooms", "h1"),
            {},
            "POST /v1/instances/rooms/webhooks/h1/resume",
            None,
        ),
    ],
)
def test_calls(both: Both, method: str, given: Any, named: Any, asked: str, said: Any) -> None:
    assert both.ask(method, *given, **named) == {"news": True}
    (request,) = both.came
    assert f"{request.method} {request.url.raw_path.decode()}" == asked
    assert (json.loads(request.content) if request.content else None) == said
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers.get("content-type") == ("application/json" if said else None)


_SEEN = {"id": "n1", "version": 2, "content": "ab"}


@pytest.mark.parametrize(
    ("method", "given", "named", "asked", "said"),
    [
        ("instances", (), {}, "GET /v1/instances", None),
        ("changes", ("rooms",), {}, "GET /v1/instances/rooms/changes", None),
        ("webhooks", ("rooms",), {}, "GET /v1/instances/rooms/webhooks", None),
        (
            "review_many",
            ("rooms", "veto", [_SEEN | {"unit": "sea", "gate": "manager"}]),
            {"code": "fits", "reason": "r"},
            "POST /v1/instances/rooms/reviews",
            {"verdict": "veto", "code": "fits", "reason": "r", "decisions": [_SEEN]},
        ),
    ],
)
def test_lists(both: Both, method: str, given: Any, named: Any, asked: str, said: Any) -> None:
    both.script = [httpx.Response(200, json=[{"name": "rooms"}])]
    assert both.ask(method, *given, **named) == [{"name": "rooms"}]
    (request,) = both.came
    assert f"{request.method} {request.url.raw_path.decode()}" == asked
    assert (json.loads(request.content) if request.content else None) == said
    with pytest.raises(ClientError, match="expected a list, got dict"):
        both.ask(method, *given, **named)


def test_every_method_is_tested_here() -> None:
    marks = [*vars(test_calls)["pytestmark"], *vars(test_lists)["pytestmark"]]
    asked = {row[0] for mark in marks for row in mark.args[1]}
    methods = {name for name, _ in inspect.getmembers(Surface, inspect.isfunction)}
    assert {name for name in methods if not name.startswith("_")} - asked == {"upload_history"}


def test_a_history_is_sent_as_it_is(both: Both, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_bytes(b"price,booked\n1,0\n")
    both.ask("upload_history", "rooms", log, strict=True, override="known")
    both.ask("upload_history", "rooms", b"PAR1", kind="parquet")
    first, second = both.came
    assert first.url.raw_path == b"/v1/instances/rooms/history?strict=true&override=known"
    assert (first.content, first.headers["content-type"]) == (log.read_bytes(), "text/csv")
    assert second.headers["content-type"] == "application/vnd.apache.parquet"
    assert second.content == b"PAR1"
    assert first.extensions["timeout"]["read"] > 600
    with pytest.raises(InvalidInput, match=r"log: expected \.csv or \.parquet, got '\.xlsx'"):
        both.ask("upload_history", "rooms", tmp_path / "log.xlsx")


def test_a_service_behind_a_path() -> None:
    came = []

    def answer(request: httpx.Request) -> httpx.Response:
        came.append(request.url.path)
        return httpx.Response(200, json={})

    with Client(f"{BASE}/gdcb/", KEY, transport=httpx.MockTransport(answer)) as client:
        client.instance("rooms")
    assert came == ["/gdcb/v1/instances/rooms"]


def test_ids_are_fresh_where_none_is_given(both: Both) -> None:
    for _ in range(2):
        both.ask("decide", "rooms", {})
        both.ask("decide_batch", "rooms", [{}])
    ids = [body["id"] for body in both.bodies]
    assert len(set(ids)) == 4
    assert {uuid.UUID(id).version for id in ids} == {4}


# When it is asked again


LOST = [httpx.ReadError("gone"), httpx.RemoteProtocolError("cut off"), httpx.ReadTimeout("slow")]
UNSENT = [httpx.ConnectError("refused"), httpx.ConnectTimeout("slow"), httpx.PoolTimeout("full")]
BUSY = [refusal(503, "store_unavailable"), httpx.Response(502), httpx.Response(504)]


@pytest.mark.parametrize(
    "trouble", [*LOST, *UNSENT, *BUSY, refusal(429, "overloaded")], ids=lambda t: str(t)[:40]
)
def test_a_decision_is_asked_for_again_under_the_same_id(both: Both, trouble: Any) -> None:
    both.script = [trouble, trouble, httpx.Response(201, json={"id": "x", "status": "passed"})]
    assert both.ask("decide", "rooms", {"base": 1.0})["status"] == "passed"
    assert len(both.came) == 3
    assert len({request.content for request in both.came}) == 1
    assert len({request.headers["x-request-id"] for request in both.came}) == 1
    assert len(both.time.slept) == 2


@pytest.mark.parametrize("trouble", [*LOST, *BUSY], ids=lambda t: str(t)[:40])
def test_what_may_not_be_done_twice_is_not_asked_again(both: Both, trouble: Any) -> None:
    both.script = [trouble]
    with pytest.raises(ClientError) as caught:
        both.ask("propose_change", "rooms", "x", reason="r")
    assert len(both.came) == 1
    assert both.time.slept == []
    if isinstance(trouble, Exception):
        assert "it may have been done: look before you ask again" in str(caught.value)
    else:
        assert isinstance(caught.value, Refused)


@pytest.mark.parametrize(
    ("method", "given", "named"),
    [
        ("review", ("rooms", "n1", "veto"), {"code": "fits", "version": 2, "content": "ab"}),
        ("review_many", ("rooms", "veto", [_SEEN]), {"code": "fits"}),
        ("create", ("x",), {"reason": "r"}),
        # A pause that somebody set after the lost answer would be undone.
        ("resume", ("rooms",), {"reason": "r"}),
        ("refit", ("rooms",), {}),
        ("rollback", ("rooms",), {"to": 7, "reason": "r"}),
        ("discount", ("rooms",), {"factor": 0.5, "since": 3, "reason": "r"}),
        ("erase", ("rooms", "g"), {"reason": "r"}),
        ("upload_history", ("rooms", b"x"), {"kind": "csv"}),
        ("agree", ("rooms", 3), {}),
        ("refuse", ("rooms", 3), {"reason": "r"}),
        ("add_webhook", ("rooms", "https://x.org/", ["held"]), {}),
        ("remove_webhook", ("rooms", "h1"), {}),
        ("rotate_webhook", ("rooms", "h1"), {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_after_a_lost_answer_these_are_not_asked_again(
    both: Both, method: str, given: Any, named: Any
) -> None:
    both.script = [httpx.ReadTimeout("slow")]
    with pytest.raises(Unreachable, match="it may have been done: look before you ask again"):
        both.ask(method, *given, **named)
    assert len(both.came) == 1


@pytest.mark.parametrize("method", ["pause", "retire", "claim", "release", "resume_webhook"])
def test_after_a_lost_answer_these_are(both: Both, method: str) -> None:
    """To do them twice is to do them once."""
    given: Any = ("rooms",) if method in ("pause", "retire") else ("rooms", "n1")
    both.script = [httpx.ReadTimeout("slow")]
    both.ask(method, *given, **({"reason": "r"} if len(given) == 1 else {}))
    assert len(both.came) == 2


@pytest.mark.parametrize("trouble", [*UNSENT, refusal(429, "too_many")], ids=lambda t: str(t)[:40])
def test_what_was_certainly_not_done_is_asked_again(both: Both, trouble: Any) -> None:
    both.script = [trouble]
    assert both.ask("propose_change", "rooms", "x", reason="r") == {"news": True}
    assert len(both.came) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 415, 422, 500, 501, 507])
def test_a_refusal_is_final(both: Both, status: int) -> None:
    both.script = [refusal(status, "a_code", details={"more": 1})]
    with pytest.raises(Refused) as caught:
        both.ask("decide", "rooms", {})
    error = caught.value
    assert (error.status, error.code, error.message) == (status, "a_code", "it is so")
    assert (error.request, error.details) == ("r1", {"more": 1})
    assert str(error) == f"it is so ({status} a_code)"
    assert error.decided is None
    assert len(both.came) == 1


def test_who_was_first(both: Both) -> None:
    decided = {"what": "vetoed", "by": "Bob", "at": "2026-01-05T09:00:00.000Z", "reason": ""}
    both.script = [refusal(409, "decided", details=decided)]
    with pytest.raises(Refused) as caught:
        both.ask("review", "rooms", "n1", "approve", code="fits", version=2, content="ab")
    assert caught.value.decided == decided


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        (httpx.Response(418, text="<h1>teapot</h1>"), "unknown", "<h1>teapot</h1>"),
        (httpx.Response(404), "unknown", "no reason was given"),
        (httpx.Response(400, json={"error": "plain"}), "unknown", '{"error":"plain"}'),
        (httpx.Response(400, json=[1]), "unknown", "[1]"),
        (
            httpx.Response(307, headers={"location": "https://x.io/"}),
            "redirected",
            "expected an answer, got a redirect to https://x.io/; give the service's own address",
        ),
    ],
)
def test_answers_of_whoever_stands_between(
    both: Both, answer: httpx.Response, code: str, message: str
) -> None:
    both.script = [answer]
    with pytest.raises(Refused) as caught:
        both.ask("decide", "rooms", {})
    assert (caught.value.code, caught.value.message) == (code, message)
    assert len(both.came) == 1  # the key goes nowhere else


def test_an_answer_that_is_no_json(both: Both) -> None:
    both.script = [httpx.Response(200, text="<html>")]
    with pytest.raises(Unreachable, match="the answer is not JSON"):
        both.ask("decide", "rooms", {})
    both.script = [httpx.Response(200, json=[1])]
    with pytest.raises(ClientError, match="POST /v1/instances/rooms/decisions: expected a docum"):
        both.ask("decide", "rooms", {})


def test_an_empty_answer_is_an_empty_document(both: Both) -> None:
    both.script = [httpx.Response(204)]
    assert both.ask("remove_webhook", "rooms", "h1") == {}


# For how long


def test_waits_grow_and_are_drawn_at_random(both: Both) -> None:
    both.script = [httpx.ConnectError("refused")] * 6
    with pytest.raises(Unreachable, match=r"no answer after 6 tries in \d+\.\d seconds \(refused"):
        both.ask("decide", "rooms", {})
    assert len(both.came) == 6
    limits = [0.2, 0.4, 0.8, 1.6, 3.2]
    assert all(0 <= wait <= most for wait, most in zip(both.time.slept, limits, strict=True))
    assert len(set(both.time.slept)) == 5


def test_no_retries(both: Both) -> None:
    both.script = [httpx.ConnectError("refused")]
    with pytest.raises(Unreachable, match=r"no answer after 1 try in 0\.0 seconds"):
        both.ask("decide", "rooms", {}, settings={"retries": 0})
    assert both.time.slept == []


def test_the_last_refusal_is_said(both: Both) -> None:
    both.script = [httpx.ConnectError("refused"), *[refusal(503, "store_unavailable")] * 2]
    with pytest.raises(Refused) as caught:
        both.ask("decide", "rooms", {}, settings={"retries": 2})
    assert caught.value.status == 503


@pytest.mark.parametrize(
    ("headers", "least"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0"}, 0.0),
        (
            {
                "date": "Mon, 05 Jan 2026 09:00:00 GMT",
                "retry-after": "Mon, 05 Jan 2026 09:00:20 GMT",
            },
            20.0,
        ),
        ({"retry-after": "soon"}, 0.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "²"}, 0.0),
    ],
)
def test_the_service_says_how_long_to_wait(both: Both, headers: Any, least: float) -> None:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    both.script = [refusal(429, "overloaded", headers=raw)]
    both.ask("decide", "rooms", {})
    (wait,) = both.time.slept
    assert least <= wait <= least + 0.2


def test_a_wait_beyond_the_deadline_is_not_begun(both: Both) -> None:
    both.script = [refusal(429, "too_many", headers={"retry-after": "61"})]
    with pytest.raises(Refused) as caught:
        both.ask("decide", "rooms", {})
    assert caught.value.retry_after == 61.0
    assert both.time.slept == []


def test_one_deadline_for_all_tries(both: Both) -> None:
    """Each try takes 10 of 25 seconds: the third has 5, less what was slept, and is the last."""

    def slow(request: httpx.Request) -> httpx.Response:
        timeout = request.extensions["timeout"]["read"]
        both.time.at += timeout
        raise httpx.ReadTimeout("slow")

    both.script = [slow] * 10
    with pytest.raises(Unreachable, match=r"no answer after 3 tries in 25\.0 seconds"):
        both.ask("decide", "rooms", {}, settings={"deadline": 25})
    timeouts = [request.extensions["timeout"]["read"] for request in both.came]
    assert timeouts[:2] == [10, 10]
    assert timeouts[2] == pytest.approx(5 - sum(both.time.slept))


def test_whether_the_service_is_well(both: Both) -> None:
    assert both.ask("healthy") is True
    both.script = [httpx.Response(503, json={"status": "not ready"})]
    assert both.ask("healthy") is False
    both.script = [httpx.ConnectError("refused")]
    assert both.ask("healthy") is False
    assert both.time.slept == []
    assert {request.url.path for request in both.came} == {"/readyz"}


# What is refused here


@pytest.mark.parametrize(
    ("method", "given", "named", "says"),
    [
        ("decide", ("rooms", {"base": float("nan")}), {}, "must be JSON, without NaN"),
        ("decide", ("rooms", {"base": object()}), {}, "must be JSON, without NaN: object is not"),
        ("decide", ("", {}), {}, "expected a name or an id, got ''"),
        ("decision", ("rooms", ".."), {}, r"expected a name or an id, got '\.\.'"),
        ("decide_batch", ("rooms",), {}, "expected contexts or columns, one of the two"),
        ("decide_batch", ("rooms", [{}]), {"columns": {}}, "expected contexts or columns"),
        (
            "decide_batch",
            ("rooms", [{}]),
            {"incumbent": {"price": [1], "kind": "warn"}},
            "incumbent: expected a value by name, or a column by name; got both",
        ),
        (
            "review_many",
            ("rooms", "veto", [{"id": "n1"}]),
            {"code": "fits"},
            "decisions: expected id, version, content; missing version, content",
        ),
    ],
)
def test_what_cannot_be_asked(both: Both, method: str, given: Any, named: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        both.ask(method, *given, **named)
    assert both.came == []


@pytest.mark.parametrize(
    ("base", "key", "settings", "says"),
    [
        ("gdcb.example.org", KEY, {}, "base_url: expected an address such as"),
        ("ftp://gdcb.example.org", KEY, {}, "base_url: expected an address such as"),
        ("https://", KEY, {}, "base_url: expected an address such as"),
        ("https://x.org:99999", KEY, {}, "base_url: expected an address such as"),
        ("https://x.org/?a=b", KEY, {}, "base_url: expected an address such as"),
        (None, KEY, {}, "base_url: expected an address such as"),
        ("https://u:p@x.org", KEY, {}, "base_url: expected no user name or password in it"),
        (BASE, "", {}, "key: expected an API key"),
        (BASE, "a b", {}, "key: expected an API key"),
        (BASE, "a\r\nb: c", {}, "key: expected an API key"),
        (BASE, None, {}, "key: expected an API key"),
        (BASE, KEY, {"timeout": 0}, "timeout: expected seconds above 0, got 0"),
        (BASE, KEY, {"deadline": -1}, "deadline: expected seconds above 0, got -1"),
        (BASE, KEY, {"retries": -1}, "retries: expected 0 or more, got -1"),
    ],
)
def test_clients_that_cannot_be(base: Any, key: Any, settings: Any, says: str) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(InvalidInput, match=says) as caught:
            kind(base, key, **settings)
        assert KEY not in str(caught.value)


def test_one_family_of_errors() -> None:
    for kind in (Refused, Unreachable):
        assert issubclass(kind, ClientError)
    assert issubclass(ClientError, GdcbError)


def test_both_clients_ask_the_same(tmp_path: Path) -> None:
    """The same calls, in the same order, give the same requests."""
    calls: Sequence[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("decide", ("rooms", {"base": 1}), {"id": "n1"}),
        ("outcome", ("rooms", "n1", {"booked": 1}), {}),
        ("pause", ("rooms",), {"reason": "r"}),
    ]
    came = []
    for is_async in (False, True):
        both = Both(is_async)
        for method, given, named in calls:
            both.ask(method, *given, **named)
        came.append([(r.method, r.url, r.content, _plain(r.headers)) for r in both.came])
    assert came[0] == came[1]


def _plain(headers: httpx.Headers) -> list[tuple[str, str]]:
    return sorted(item for item in headers.items() if item[0] != "x-request-id")


def test_an_awaited_answer_is_a_coroutine() -> None:
    async def run() -> None:
        transport = httpx.MockTransport(lambda request: httpx.Response(200, json={}))
        async with AsyncClient(BASE, KEY, transport=transport) as client:
            asked: Awaitable[dict[str, Any]] = client.instance("rooms")
            assert inspect.isawaitable(asked)
            assert await asked == {}

    asyncio.run(run())
