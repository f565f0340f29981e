"""Attacks on a service over HTTP, and on the database behind it: each is refused, and said."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import secrets
import selectors
import shutil
import sqlite3
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from typer.testing import CliRunner

from gdcb import Agent, declaration
from gdcb import events as ev
from gdcb import round as turn
from gdcb.arguments import mask_of
from gdcb.cases import made_event
from gdcb.cli.app import app
from gdcb.codec import from_body, unpack
from gdcb.errors import InvalidInput, StoreError, StoreFull, StoreUnavailable
from gdcb.ledger.audit import verify_chain
from gdcb.ledger.evidence import evidence_of, verify
from gdcb.ledger.live import Live, begun, follow, opened
from gdcb.ledger.replaying import replay_chain
from gdcb.ledger.sealing import Sealer
from gdcb.ledger.sql import SqlStore
from gdcb.ledger.store import Key, Snapshot
from gdcb.records import from_bytes, to_bytes
from gdcb.service import deciding, operating
from gdcb.service.access import Rate
from gdcb.service.api.health import Readiness
from gdcb.service.desk import Desk
from gdcb.service.envelope import limited
from gdcb.service.house import Settings
from gdcb.service.models import DecideMany
from gdcb.service.problems import BadRequest
from tests.service import desks
from tests.service.http import BASE, PLENTY, ROOMS, Site, site, visitor

AT = f"/v1/instances/{ROOMS}"


@pytest.fixture
def fresh(sqlite_template: Path, tmp_path: Path) -> Iterator[Site]:
    with site(sqlite_template, tmp_path) as made:
        yield made


# One request that would take all time, or all memory

LONG_KEY = ".".join(["a"] * 8_000) + " = 1\n"
HOSTILE = {
    "a key of 8,000 parts": LONG_KEY,
    "a header of as many": f"[{'.'.join(['a'] * 8_000)}]\n",
    "behind a text": 'a = {b = """x"""", ' + LONG_KEY.strip() + ', d = """x""""}\n',
    "nested lists": f"a = {'[' * 5_000}{']' * 5_000}\n",
    "nested tables": f"a = {'{a = ' * 5_000}1{'}' * 5_000}\n",
    "a long number": f"a = {'9' * 5_000}\n",
    "a long number in hexadecimal": f"name = 0x{'f' * 5_000}\n",
    "too long": "#" * 300_000,
    "of too many lines": "#\n" * 10_001,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_toml_is_refused_at_once(fresh: Site, text: str) -> None:
    """A key of 8,000 parts alone took a second, and one of 300,000 took 21 GB."""
    before = fresh.heads()
    operator = visitor(fresh, "eve", ("operate", "*"))
    start = time.process_time()
    said = {"declaration": text, "reason": "better"}
    answers = [
        fresh.post(f"{AT}/changes", fresh.shop, said),
        fresh.post("/v1/instances", fresh.ann, said),
        operator.post(f"/i/{ROOMS}/changes", said),
    ]
    assert [answer.status_code for answer in answers] == [422, 422, 422]
    assert all("expected" in answer.text or "not TOML" in answer.text for answer in answers)
    assert time.process_time() - start < 1.5
    assert fresh.heads() == before


def numbers(n: int) -> str:
    return f"[{', '.join(str(i) for i in range(1, n + 1))}]"


def with_arms(arms: str, bandit: str = "beta-thompson") -> str:
    old = '{ part = "list", values = [0.8, 1.0, 1.2] }'
    text = desks.held().replace(old, arms).replace('"beta-thompson"', f'"{bandit}"')
    assert old not in text
    return text


def with_bandit(settings: str) -> str:
    text = desks.held().replace('bandit = { part = "beta-thompson" }', f"bandit = {settings}")
    assert settings in text
    return text


def stacked(*members: str) -> str:
    return f'{{ part = "stacked-thompson", steps = 1, members = [{", ".join(members)}] }}'


def with_gates(gate: str, n: int) -> str:
    more = ", ".join(gate % i for i in range(n))
    return desks.held().replace("gates = [", f"gates = [{more}, ", 1)


def with_columns(n: int) -> str:
    more = "\n".join(f'context.c{i} = {{ type = "flag" }}' for i in range(n))
    return desks.held().replace("arms = ", f"{more}\narms = ", 1)


def grid(factors: int, levels: int) -> str:
    inside = ", ".join(f"a{i} = {numbers(levels)}" for i in range(factors))
    return f'{{ part = "grid", combine = "product", factors = {{ {inside} }} }}'


LISTED = '{ part = "list", values = %s }'
HUGE = {
    "a grid of 10^10 arms": with_arms(grid(5, 100)),
    "a grid of 2^60 arms": with_arms(grid(60, 2)),
    "8,000 arms on a curve": with_arms(LISTED % numbers(8_000), "gp-curve-thompson"),
    "4,000 arms on a curve": with_arms(LISTED % numbers(4_000), "gp-curve-thompson"),
    "nodes": with_bandit('{ part = "hierarchical-beta-thompson", nodes = 1000000000 }'),
    "gaps": with_bandit('{ part = "gp-curve-thompson", gaps = 200000 }'),
    "concentrations": with_bandit(
        f'{{ part = "hierarchical-beta-thompson", concentration = [{"2, " * 15_000}2] }}'
    ),
    "columns": with_columns(4_000),
    "columns of δ": desks.held(rest='scaler = { part = "constant", n_columns = 100000000 }\n'),
    "bands of δ": with_arms(LISTED % numbers(1_000), "hierarchical-beta-thompson").replace(
        "arms = ", f"cells = {{ edges = {numbers(3_000)} }}\narms = ", 1
    ),
    "modes": desks.held(rest='scaler = { part = "covariance", n_modes = 100000000 }\n'),
    "1,000 arms on a curve": with_arms(LISTED % numbers(1_000), "gp-curve-thompson"),
    "a grid on a curve": with_arms(grid(2, 70), "gp-curve-thompson"),
    "eight curves": with_bandit(stacked(*['{ part = "gp-curve-thompson", gaps = 600 }'] * 8)),
    "stacks of stacks": with_bandit(stacked(*[stacked(*['{ part = "beta-thompson" }'] * 3)] * 3)),
    "5,000 bounds": with_gates('{ part = "bounds", name = "g%d", low = 50 }', 5_000),
    "4,000 reviews": with_gates('{ part = "review", name = "g%d", high = 200 }', 4_000),
}


LONG = "a" * 100_000
HUGE |= {
    "the name of a gate": desks.held().replace('"limits"', f'"{LONG}"'),
    "the name of an action": desks.held().replace('"price"', f'"{LONG}"'),
    "the name of an arm": with_arms(
        f'{{ part = "list", names = ["{LONG}", "b"], values = [1, 2] }}'
    ),
    "the name of a field": desks.held(rest=f'context.{LONG} = {{ type = "flag" }}\n'),
    "a level": desks.held(
        rest=f'context.kind = {{ type = "category", levels = ["{LONG}", "b"] }}\n'
    ),
}


@pytest.mark.parametrize("text", HUGE.values(), ids=HUGE.keys())
def test_what_asks_for_too_much_is_refused_before_it_is_built(fresh: Site, text: str) -> None:
    """Two thousand letters asked for 10^10 arms: gigabytes were gone before anybody counted."""
    before = fresh.heads()
    start = time.process_time()
    answer = fresh.post(f"{AT}/changes", fresh.shop, {"declaration": text, "reason": "better"})
    assert answer.status_code == 422, answer.text
    assert "expected at most" in answer.text or "and <=" in answer.text
    assert time.process_time() - start < 1.0
    assert fresh.heads() == before


COSTLY = {
    "curve": with_arms(LISTED % numbers(690), "gp-curve-thompson"),
    "curves": with_arms(LISTED % numbers(8), "beta-thompson").replace(
        '{ part = "beta-thompson" }',
        stacked(*['{ part = "gp-curve-thompson", gaps = 72 }'] * 8),
    ),
    "related arms": with_arms(LISTED % numbers(3_000), "relevance-thompson"),
    "listed arms": with_arms(LISTED % numbers(5_000)),
    "columns": with_columns(990),
    "gates": with_gates('{ part = "review", name = "g%d", high = 200 }', 97),
    "headers": desks.held() + "\n" + f"[[history.{'a.' * 13}b]]\n" * 6_000,
}


@pytest.mark.parametrize("text", COSTLY.values(), ids=COSTLY.keys())
def test_what_may_be_asked_for_is_read_in_about_a_second(text: str) -> None:
    """The costliest texts of each kind, in CPU seconds: 0.3 at most where nobody else works."""
    assert len(text) < operating.LARGEST_DECLARATION
    operating.read_declaration(desks.held())  # what is imported once is not counted
    start = time.process_time()
    try:
        operating.read_declaration(text)
    except InvalidInput as error:
        assert "expected at most" not in str(error)  # noqa: PT017 (what it is refused for)
    assert time.process_time() - start < 5.0


class Told(str):
    """A name that counts how often it is compared with another."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Told.compared += 1
        return str.__eq__(self, other)


@pytest.mark.parametrize(
    ("last", "says"),
    [
        (2_000, ""),
        (0, "mask: no arm '0'; there are 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, …"),
        (1_999, "mask: expected each arm once, got '1999' twice"),
    ],
    ids=["all arms", "one that is none", "one twice"],
)
def test_a_long_mask_is_looked_up_and_not_searched(last: int, says: str) -> None:
    """Each of 10,000 names was compared with 5,000 arms while nobody else was answered."""
    arms = operating.read_declaration(with_arms(LISTED % numbers(2_000))).instance
    mask = [Told(i) for i in range(1, 2_000)] + [Told(last)]
    Told.compared = 0
    if says:
        with pytest.raises(InvalidInput) as refused:
            mask_of(arms, mask, 1)
        assert str(refused.value) == says
    else:
        allowed = mask_of(arms, mask, 2)
        assert allowed is not None
        assert allowed.all()
        assert allowed.shape == (2, 2_000)
    assert Told.compared < 20_000


def test_an_arm_that_a_mask_names_twice_is_refused(fresh: Site) -> None:
    said = {"id": "a1", "context": desks.night(), "mask": ["1", "0.8", "1"]}
    answer = fresh.post(f"{AT}/decisions", fresh.shop, said)
    assert answer.status_code == 422
    assert answer.json()["error"]["message"] == "mask: expected each arm once, got '1' twice"
    fresh.decide("a1", mask=["1", "0.8"])


# Large bodies

MEGABYTES = 15 * 2**20


def scope_of(path: str, headers: dict[str, str]) -> dict[str, Any]:
    """Return a request to post something, as a server hands it over."""
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("203.0.113.9", 1),
    }


def asked_with(there: Site, path: str, who: dict[str, str], *parts: bytes) -> tuple[int, int]:
    """Send a large body whose parts are handed over as they are asked for: (status, how many)."""
    headers = {"content-type": "application/json", "content-length": str(MEGABYTES)} | who
    status, read = [0], [0]

    async def receive() -> dict[str, Any]:
        read[0] += 1
        there_is = read[0] <= len(parts)
        body = parts[read[0] - 1] if there_is else b""
        return {"type": "http.request", "body": body, "more_body": read[0] < len(parts)}

    async def send(message: Any) -> None:
        status[0] = message.get("status", status[0])

    asyncio.run(there.app(scope_of(path, headers), receive, send))
    return status[0], read[0]


@pytest.mark.parametrize(
    ("path", "role", "status"),
    [
        (f"{AT}/decisions/batch", "outcome", 403),
        (f"{AT}/decisions", "outcome", 403),
        ("/v1/instances/nope/decisions/batch", "outcome", 403),
        ("/v1/instances/nope/decisions/batch", "decide", 404),
    ],
)
def test_who_may_not_decide_has_no_body_read(
    fresh: Site, path: str, role: str, status: int
) -> None:
    """15 MiB with a key of another role on an instance that is not there: 1.3 seconds for a 422."""
    who = fresh.key((role, "*"))
    assert asked_with(fresh, path, who, b"{}") == (status, 0)


@pytest.mark.parametrize("path", ["decisions/batch", "outcomes", "pause"])
def test_large_bodies_are_counted_by_their_size(
    sqlite_template: Path, tmp_path: Path, path: str
) -> None:
    """They were counted when they had been read and checked, and not where that refused them."""
    few = Rate(1e-3, 15_400.0)
    rates = dataclasses.replace(PLENTY, decide=few)
    with site(sqlite_template, tmp_path, settings=Settings(BASE, tick=0, rates=rates)) as there:
        who = there.shop
        assert asked_with(there, f"{AT}/{path}", who, b'{"zz": 1}') == (422, 1)
        assert asked_with(there, f"{AT}/{path}", who, b'{"zz": 1}') == (429, 0)
        left = 15_400 - MEGABYTES // 1024
        answers = [there.post(f"{AT}/decisions", who, {"zz": 1}).status_code for _ in range(left)]
        assert set(answers) == {422}
        assert there.post(f"{AT}/decisions", who, {"zz": 1}).status_code == 429


def test_a_batch_counts_as_its_rows_and_no_more(sqlite_template: Path, tmp_path: Path) -> None:
    """Also where its rows are more than the burst: it passes when the bucket is full."""
    for burst in (5_000.0, 300.0):
        rates = dataclasses.replace(PLENTY, decide=Rate(1e-3, burst))
        folder = tmp_path / f"{burst:g}"
        folder.mkdir()
        with site(sqlite_template, folder, settings=Settings(BASE, tick=0, rates=rates)) as there:
            rows = {"contexts": [desks.night(i / 1e9, 100.0 + i / 1e3) for i in range(5_000)]}
            answer = there.post(f"{AT}/decisions/batch", there.shop, rows | {"id": "all"})
            assert answer.status_code == 201, answer.text
            assert there.post(f"{AT}/decisions", there.shop, {"zz": 1}).status_code == 429


def test_other_threads_run_while_a_large_body_is_checked() -> None:
    """Within pydantic none does: 8,000,000 numbers held up everybody for 1.2 seconds."""
    bodies: list[dict[str, Any]] = [
        {"columns": {f"c{i}": [1.0, 2.0] for i in range(100)}},
        {"contexts": [{"a": 1.0}] * 100},
        {"contexts": [{"a": 1.0}], "incumbents": [{"a": 1.0}] * 100},
        {"contexts": [{"a": 1.0}], "incumbent_columns": {f"c{i}": [1.0] for i in range(100)}},
    ]
    calls: list[str] = []
    for body in bodies:
        calls.clear()
        sys.setprofile(lambda _, event, __: calls.append(event))
        try:
            DecideMany.model_validate(body)
        finally:
            sys.setprofile(None)
        assert calls.count("call") >= 100


def test_two_large_bodies_are_checked_at_a_time_and_not_on_the_loop(
    fresh: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: set[int] = set()
    most, gate = [0], threading.Semaphore(0)

    def check(found: Any) -> Any:
        checks.add(threading.get_ident())
        most[0] = max(most[0], len(checks))
        gate.acquire(timeout=10)
        checks.discard(threading.get_ident())
        raise InvalidInput("enough")

    monkeypatch.setattr(DecideMany, "model_validate", check)
    body = b'{"columns": {"busy": [' + b"0.25," * 50_000 + b"1]}}"
    scope = scope_of(f"{AT}/decisions/batch", fresh.shop | {"content-type": "application/json"})
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    async def ask() -> None:
        asked = [asyncio.ensure_future(fresh.app(dict(scope), receive, send)) for _ in range(5)]
        while len(checks) < 2:
            await asyncio.sleep(0.01)
        assert threading.get_ident() not in checks
        for _ in range(5):
            await asyncio.sleep(0.05)
            gate.release()
        await asyncio.gather(*asked)

    asyncio.run(asyncio.wait_for(ask(), 60))
    assert [one for one in statuses if one] == [422] * 5
    assert most == [2]


def test_a_body_of_too_many_values_is_refused(fresh: Site) -> None:
    """No other thread runs while they are read."""
    body = b'{"columns": {"busy": [' + b"1," * 2_000_001 + b"1]}}"
    headers = fresh.shop | {"content-type": "application/json"}
    answer = fresh.ask("POST", f"{AT}/decisions/batch", headers, content=body)
    assert answer.status_code == 400
    assert "more than 2,000,000 values" in answer.text


@pytest.mark.parametrize(("n_keys", "mebibytes"), [(1, 64), (8, 256)])
def test_bodies_in_memory_are_limited(fresh: Site, n_keys: int, mebibytes: int) -> None:
    """40 connections of one key held 600 MiB, each for up to 26 minutes."""
    json = {"content-type": "application/json"}
    keys = [fresh.key(("decide", "*"), *[("audit", ROOMS)] * i) for i in range(n_keys)]
    part = bytes(2**20)
    small = b'{"context": {"base": 100, "busy": 0}}'

    async def run() -> None:
        is_over, idle = asyncio.Event(), [0]
        answers: list[tuple[int, bytes | None]] = []

        async def ask(who: dict[str, str], body: bytes, n: int) -> None:
            left = n

            async def receive() -> dict[str, Any]:
                nonlocal left
                if left == 0:  # all of it came but for the end
                    idle[0] += 1
                    await is_over.wait()
                    return {"type": "http.disconnect"}
                left -= 1
                return {"type": "http.request", "body": body, "more_body": body is part}

            async def send(message: Any) -> None:
                if "status" in message:
                    headers = dict(message["headers"])
                    answers.append((message["status"], headers.get(b"retry-after")))

            await fresh.app(scope_of(f"{AT}/decisions", who | json), receive, send)

        waiting = [asyncio.ensure_future(ask(keys[i % n_keys], part, 15)) for i in range(40)]
        while len(answers) + idle[0] < 40:
            await asyncio.sleep(0.01)
        assert mebibytes // 15 - n_keys <= idle[0] <= mebibytes // 14
        assert set(answers) == {(429, b"1")}
        answers.clear()
        await ask(keys[0], small, 1)
        assert answers == [(201, None)]  # there is always room for a decision
        is_over.set()
        await asyncio.gather(*waiting)
        is_over.clear()
        answers.clear()
        idle[0] = 0
        after = asyncio.ensure_future(ask(keys[0], part, 15))
        while not idle[0]:
            await asyncio.sleep(0.01)
        assert answers == []
        is_over.set()
        await after

    asyncio.run(asyncio.wait_for(run(), 60))


def test_an_upload_is_refused_before_it_is_read(fresh: Site) -> None:
    """Its 16 MiB were read into memory first, and then another was being read."""
    fresh.house.uploads._names.add(ROOMS)
    who = fresh.shop | {"content-type": "text/csv"}
    assert asked_with(fresh, f"{AT}/history", who, b"a,b") == (429, 0)


class Jumps(selectors.DefaultSelector):
    """Waits for nothing: time is what it should have waited."""

    at = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.at += timeout or 0.0
        return super().select(0)


class Jumping(asyncio.SelectorEventLoop):
    """A loop whose time goes on only while nobody has anything to do, and then at once."""

    def __init__(self) -> None:
        self.jumps = Jumps()
        super().__init__(self.jumps)

    def time(self) -> float:
        return self.jumps.at


@pytest.mark.parametrize(("size", "seconds"), [(100_000, 20.0), (15 * 2**20, 200.0)])
def test_a_body_that_stops_is_waited_for_some_minutes_at_most(size: int, seconds: float) -> None:
    """15 MiB might take 26 minutes, and whoever had sent them stayed as long."""
    parts = [{"type": "http.request", "body": bytes(size), "more_body": True}]

    async def receive() -> Any:
        if parts:
            return parts.pop()
        return await asyncio.Event().wait()

    async def read() -> None:
        read_on = limited(receive, 16 * 2**20, 10.0)
        await read_on()
        with pytest.raises(BadRequest, match="the body did not come in time"):
            await read_on()

    loop = Jumping()
    try:
        loop.run_until_complete(read())
        assert seconds * 0.9 <= loop.time() <= seconds * 1.1
    finally:
        loop.close()


def test_what_does_not_fit_into_memory_is_refused(
    fresh: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("gdcb.declaration.turn.init", full)
    said = {"declaration": desks.held("bulk = 3"), "reason": "fewer"}
    answer = fresh.post(f"{AT}/changes", fresh.shop, said)
    assert answer.status_code == 422, answer.text
    assert "fits into memory" in answer.text


def test_declarations_are_read_one_at_a_time(fresh: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one is read slowly, others are turned away, and decisions are made as ever."""
    from concurrent.futures import ThreadPoolExecutor

    parse, begun, go_on = declaration.parse, threading.Event(), threading.Event()
    at_once = [0, 0]

    def slow(*given: Any, **named: Any) -> Any:
        at_once[0] += 1
        at_once[1] = max(at_once)
        begun.set()
        assert go_on.wait(30)
        at_once[0] -= 1
        return parse(*given, **named)

    fresh.decide("a1")
    monkeypatch.setattr(operating, "PATIENCE", 0.05, raising=False)
    monkeypatch.setattr(declaration, "parse", slow)
    said = {"declaration": desks.held("bulk = 3"), "reason": "fewer"}
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(fresh.post, f"{AT}/changes", fresh.shop, said)
        try:
            assert begun.wait(30)
            second = pool.submit(fresh.post, f"{AT}/changes", fresh.shop, said)
            third = pool.submit(fresh.post, f"{AT}/changes", fresh.shop, said)
            start = time.monotonic()
            fresh.decide("a2")
            assert time.monotonic() - start < 5.0
            time.sleep(0.3)
        finally:
            go_on.set()
        assert at_once[1] == 1
        assert [second.result().status_code, third.result().status_code] == [429, 429]
        assert first.result().status_code == 201


def test_declarations_are_read_before_the_transaction(
    fresh: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads a declaration, proposed or agreed to, keeps nobody at the desk waiting."""
    is_writing: list[str] = []
    parse, writing = declaration.parse, SqlStore.writing

    def slow(*given: Any, **named: Any) -> Any:
        assert not is_writing, "read while the chain is locked"
        return parse(*given, **named)

    def held(self: SqlStore, chain: str) -> Any:
        from contextlib import contextmanager

        @contextmanager
        def opened() -> Iterator[Any]:
            with writing(self, chain) as found:
                is_writing.append(chain)
                try:
                    yield found
                finally:
                    is_writing.pop()

        return opened()

    init = turn.init

    def built(*given: Any) -> Any:
        assert not is_writing, "learners are built while the chain is locked"
        return init(*given)

    monkeypatch.setattr(declaration, "parse", slow)
    monkeypatch.setattr(turn, "init", built)
    monkeypatch.setattr(SqlStore, "writing", held)
    said = {"declaration": desks.held("bulk = 3"), "reason": "fewer"}
    made = fresh.post(f"{AT}/changes", fresh.bob, said)
    assert made.status_code == 201, made.text
    agreed = fresh.post(f"{AT}/changes/{made.json()['number']}/agree", fresh.ann, {"reason": ""})
    assert agreed.status_code == 200, agreed.text
    assert fresh.get(f"{AT}/declaration", fresh.ann).json()["declaration"] == said["declaration"]


# Ids that are chosen by what would be drawn for them

HOLDBACK = """execution = "release"
[service.launch]
mode = "holdback"
share = 0.5
incumbent = { price = 111 }
drawn_by = "%s"
"""


def ground(declared: str, seed: int, wanted: Callable[[Agent, str], bool], n: int) -> list[str]:
    """Return ids (or units) of which an agent of one's own, with the same seed, says yes."""
    read = declaration.parse(declared)
    agent = Agent(read.instance, read.bandit, seed)
    tried = (f"x{i}" for i in count())
    return list(islice((one for one in tried if wanted(agent, one)), n))


def reopen(there: Site) -> None:
    """Open the instance once more, with the nonces of a service and not with those of tests."""
    house = there.house
    house.nonce = lambda: secrets.token_hex(16)
    house._desks.pop(ROOMS).close()


def asked(there: Site, id: str, unit: str = "flat") -> Any:
    """Decide a night, or return what was decided under this id before."""
    said = {"id": id, "unit": unit, "context": desks.night()}
    answer = there.post(f"{AT}/decisions", there.shop, said)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def seed_of(there: Site) -> int:
    """Return the instance's seed, as anybody reads it in a decision's evidence."""
    event = from_body("InstanceChanged", next(iter(there.house.store.read(ROOMS, 0, 1))).body)
    assert isinstance(event, ev.InstanceChanged)
    return event.seed


def test_an_arm_cannot_be_ground_for(sqlite_template: Path, tmp_path: Path) -> None:
    """Without outcomes each of three arms comes a third of the time: 24 hits by chance, 4e-12."""
    with site(sqlite_template, tmp_path, desks.plain()) as there:
        reopen(there)
        seed = seed_of(there)

        def is_dear(agent: Agent, id: str) -> bool:
            return agent.decide(desks.night(), id=id).arm == "1.2"

        ids = ground(desks.plain(), seed, is_dear, 24)
        found = [asked(there, id)["arm"] for id in ids]
        assert found.count("1.2") < len(ids)
        assert [asked(there, id)["arm"] for id in ids] == found
        check_replay(there, ids)


@pytest.mark.parametrize("drawn_by", ["decision", "unit"])
def test_a_side_of_a_holdback_cannot_be_ground_for(
    sqlite_template: Path, tmp_path: Path, drawn_by: str
) -> None:
    """Half of the decisions, or of the units, are live: 40 hits by chance, 1e-12."""
    declared = desks.plain(HOLDBACK % drawn_by)
    with site(sqlite_template, tmp_path, declared) as there:
        reopen(there)

        def is_live(agent: Agent, name: str) -> bool:
            half = np.array([0.5])
            return bool(agent.is_live([(name, 0)], [name], half, drawn_by)[0])

        names = ground(declared, seed_of(there), is_live, 40)
        sides = [asked(there, name, name)["live"] for name in names]
        assert 0 < sum(sides) < len(names)
        assert [asked(there, name, name)["live"] for name in names] == sides
        again = [asked(there, f"{name}-2", name)["live"] for name in names]
        assert (again == sides) == (drawn_by == "unit")  # a unit's side is drawn once and for all
        reopen(there)
        later = [asked(there, f"{name}-3", name)["live"] for name in names]
        assert (later == sides) == (drawn_by == "unit")
        check_replay(there, names[:1])


def check_replay(there: Site, ids: list[str]) -> None:
    """Check that all comes out again, and that a document alone proves what was drawn."""
    report = replay_chain(there.house.store, ROOMS)
    assert (report.verdict, report.as_json()["differing"]) == ("equal", [])
    assert verify_chain(there.house.store, ROOMS).ok
    for id in ids[:1]:
        told = evidence_of(there.house.store, ROOMS, id)
        assert verify(told) == []
        assert told["recomputed"]["verdict"] == "equal"
        assert len(told["request"]["nonce"]) == 32
        other = told | {"request": told["request"] | {"nonce": "0" * 32}}
        assert any("nonce" in wrong for wrong in verify(other))


def test_decisions_of_older_ledgers_come_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have no nonce; their units keep their sides, and new units get nonces."""

    def unsalted(*given: Any, **named: Any) -> ev.DecisionMade:
        return dataclasses.replace(made_event(*given, **named), nonce=None)

    with desks.office(desks.plain(HOLDBACK % "unit")) as made:
        with monkeypatch.context() as old:
            old.setattr("gdcb.service.deciding.made_event", unsalted)
            made.nonce = lambda: ""
            made.restart()
            before = [made.rows(f"a{i}", unit=f"u{i}")[0]["live"] for i in range(12)]
        made.nonce = desks.counted()
        made.restart()
        after = [made.rows(f"b{i}", unit=f"u{i}")[0]["live"] for i in range(24)]
        assert after[:12] == before
        assert [made.rows(f"c{i}", unit=f"u{i}")[0]["live"] for i in range(24)] == after
        made.check()
        drawn = made.look(lambda live: dict(live.drawn))
        assert [bool(drawn[f"u{i}"]) for i in range(24)] == [False] * 12 + [True] * 12


def test_a_new_instance_has_a_seed_of_its_own(fresh: Site) -> None:
    said = {"declaration": desks.plain().replace('"rooms"', '"huts"'), "reason": "first"}
    assert fresh.post("/v1/instances", fresh.ann, said).status_code == 201
    more = {"declaration": desks.plain().replace('"rooms"', '"tents"'), "reason": "first"}
    assert fresh.post("/v1/instances", fresh.ann, more).status_code == 201
    seeds = {
        fresh.house.desk(name).look(lambda live: live.seed).result() for name in ("huts", "tents")
    }
    assert len(seeds) == 2
    assert 0 not in seeds


# Snapshots that somebody with a SQL shell has put there

WIDER = desks.held().replace("high = 300", "high = 2000")


def forge(there: Site, change: Callable[[Live], None]) -> Snapshot:
    """Put another state into the place of the one that is known, with all that binds it."""
    store = there.house.store
    live = opened(store, ROOMS)
    change(live)
    forged = live.to_snapshot(store.head(ROOMS).hash)
    store.put_snapshot(forged)
    there.house._desks.pop(ROOMS).close()
    return forged


def dear(there: Site, id: str) -> Any:
    """Ask for a night whose price no arm leaves below 800."""
    said = {"id": id, "context": desks.night(base=1000.0)}
    return there.post(f"{AT}/decisions", there.shop, said)


def test_a_forged_snapshot_does_not_widen_the_bounds(
    fresh: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """800 to 1,200 ran under a declared limit of 300, and `verify` passed."""
    fresh.decide("a1")

    def wider(live: Live) -> None:
        live.text = WIDER

    forge(fresh, wider)
    ran = dear(fresh, "d1").json()
    assert ran["action"] == {"price": 300.0}
    assert "its snapshot after 4 entries is not used" in caplog.text
    assert fresh.get(f"{AT}/declaration", fresh.ann).json() == {"declaration": desks.held()}
    found = verify_chain(fresh.house.store, ROOMS).findings
    assert [(one.seq, one.what) for one in found] == [(4, "snapshot")]
    assert "text" in found[0].says
    assert replay_chain(fresh.house.store, ROOMS).verdict == "differs"


def test_a_forged_snapshot_does_not_end_a_pause(fresh: Site) -> None:
    fresh.decide("a1")
    assert fresh.post(f"{AT}/pause", fresh.ann, {"reason": "a look"}).status_code == 200

    def go_on(live: Live) -> None:
        live.paused = None

    forge(fresh, go_on)
    assert dear(fresh, "d1").status_code == 409
    assert [one.what for one in verify_chain(fresh.house.store, ROOMS).findings] == ["snapshot"]


SOON = "expiry = { after = 30, then = 'veto' }"


@pytest.mark.parametrize("moved", [3600, -3600])
def test_a_forged_snapshot_does_not_move_a_deadline(
    sqlite_template: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, moved: int
) -> None:
    """A hold that had expired was approved, an hour later than it could be."""
    with site(sqlite_template, tmp_path, desks.held(SOON)) as there:
        there.decide("a1")
        there.decide("h1", 0.9)
        due = there.get(f"{AT}/decisions/h1", there.ann).json()["deadline"]

        def later(live: Live) -> None:
            live.waiting["h1"].since += moved * 10**6

        forge(there, later)
        assert there.get(f"{AT}/decisions/h1", there.ann).json()["deadline"] == due
        assert "is not used" in caplog.text
        assert there.house.desk(ROOMS).look(lambda live: live.waiting["h1"].since).result() == (
            begun_whole(there).waiting["h1"].since
        )
        there.clock.pass_by(31)
        assert approved(there, "h1").status_code == 409


@pytest.mark.parametrize("what", ["another entry", "left out"])
def test_forged_holds_are_not_let_through(sqlite_template: Path, tmp_path: Path, what: str) -> None:
    """A hold that a snapshot leaves out had no deadline at all."""
    with site(sqlite_template, tmp_path, desks.held(SOON)) as there:
        there.decide("h1", 0.9)
        there.clock.pass_by(20)
        there.decide("h2", 0.9)

        def change(live: Live) -> None:
            if what == "left out":
                del live.waiting["h1"]
            else:
                other = live.waiting["h2"]
                live.waiting["h1"].since, live.waiting["h1"].number = other.since, other.number

        forge(there, change)
        there.clock.pass_by(15)
        answer = approved(there, "h1")
        assert answer.status_code == (500 if what == "left out" else 409), answer.text
        assert "Reviewed" not in there.kinds()
        assert approved(there, "h2").status_code == 200


@pytest.mark.parametrize("what", ["at", "by", "fitted_at", "gate"])
def test_a_forged_snapshot_does_not_tell_another_time_or_gate(
    sqlite_template: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    """With a time a year ahead, new deadlines lay in 2027 and no hold expired before."""
    with site(sqlite_template, tmp_path, desks.held(SOON)) as there:
        there.decide("h1", 0.9)
        known = desks.everything(begun_whole(there))

        def change(live: Live) -> None:
            if what == "gate":
                live.waiting["h1"].gate = "nobody"
            elif what == "by":
                live.by = "eve"
            else:
                setattr(live, what, live.at + 365 * 86400 * 10**6)

        forge(there, change)
        assert desks.everything(opened(there.house.store, ROOMS)) == known
        assert "is not used" in caplog.text
        there.clock.pass_by(20)
        there.decide("h2", 0.9)
        waiting = there.house.desk(ROOMS).look(lambda live: dict(live.waiting)).result()
        assert waiting["h2"].since - waiting["h1"].since == 20 * 10**6
        assert waiting["h1"].gate == waiting["h2"].gate


def approved(there: Site, id: str) -> Any:
    answer = {"verdict": "approve", "code": "fits", **there.seen(id)}
    return there.post(f"{AT}/decisions/{id}/review", there.ann, answer)


def test_a_change_does_not_revive_what_had_expired(sqlite_template: Path, tmp_path: Path) -> None:
    """A longer time that two people agreed to let a third answer what was over by then."""
    with site(sqlite_template, tmp_path, desks.held(SOON)) as there:
        there.decide("h1", 0.9)
        there.clock.pass_by(20)
        there.decide("h2", 0.9)
        said = {"declaration": desks.held(SOON.replace("30", "600")), "reason": "longer"}
        number = there.post(f"{AT}/changes", there.bob, said).json()["number"]
        there.clock.pass_by(15)
        agreed = there.post(f"{AT}/changes/{number}/agree", there.ann, {"reason": ""})
        assert agreed.status_code == 200, agreed.text
        assert [kind for kind in there.kinds(1) if kind in ("Expired", "InstanceChanged")] == [
            "Expired",
            "InstanceChanged",
        ]
        assert there.get(f"{AT}/decisions/h1", there.ann).json()["status"] == "expired"
        assert approved(there, "h1").status_code == 409
        there.clock.pass_by(60)
        assert approved(there, "h2").status_code == 200
        assert replay_chain(there.house.store, ROOMS).verdict == "equal"
        assert verify_chain(there.house.store, ROOMS).ok


def test_forged_knowledge_is_found_by_verify(fresh: Site) -> None:
    """Its digest can be worked out by whoever writes to the database, and its learners not."""
    fresh.decide("a1")

    def biased(live: Live) -> None:
        live.state.bandit.counts[:, 0, 2] += 1000.0

    forge(fresh, biased)
    found = verify_chain(fresh.house.store, ROOMS).findings
    assert [(one.seq, one.what) for one in found] == [(4, "snapshot")]
    assert "state" in found[0].says


@pytest.mark.parametrize("what", ["body", "hash", "size"])
def test_a_snapshot_that_was_changed_is_not_used(fresh: Site, what: str) -> None:
    fresh.decide("a1")
    first = forge(fresh, lambda live: None)
    assert verify_chain(fresh.house.store, ROOMS).ok
    body, size = bytearray(first.body), first.size
    if what == "body":
        body[-3] ^= 1
    elif what == "size":
        fresh.decide("a2")
        size = fresh.size()
    digest = bytes(32) if what == "hash" else first.hash
    fresh.house.store.put_snapshot(Snapshot(ROOMS, size, digest, bytes(body)))
    known = desks.everything(begun_whole(fresh))
    assert desks.everything(opened(fresh.house.store, ROOMS)) == known
    assert [one.what for one in verify_chain(fresh.house.store, ROOMS).findings] == ["snapshot"]


def _with_head(length: int, head: bytes) -> bytes:
    return struct.pack("<I", length) + head + bytes(-(4 + len(head)) % 8)


def _saying(head: dict[str, Any]) -> bytes:
    text = json.dumps(head).encode()
    return _with_head(len(text), text)


UNREADABLE = {
    "nothing": b"",
    "random bytes": bytes.fromhex("8d1f00f37a5523c4b1e6") * 9,
    "lists in lists": _with_head(200_000, b'{"fields":' + b"[" * 199_990),
    "a huge array": _saying({"fields": {"format": 4}, "arrays": [["state", "<f8", [2**70]]]}),
    "no format": _saying({"fields": {"text": desks.held()}, "arrays": []}),
    "format 99": _saying({"fields": {"format": 99}, "arrays": []}),
    "other columns": _saying({"fields": {"format": 4}, "arrays": []}),
    "numbers for names": _saying({"fields": [["format", 4], [1, 2]], "arrays": []}),
    "sealed under no name": b"gdcb sealed a\0b\n" + bytes(64),
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_a_snapshot_that_cannot_be_read_is_not_used_and_found(fresh: Site, body: bytes) -> None:
    """Some were passed over by `verify`, and some stopped the service as it started."""
    fresh.decide("a1")
    put_snapshot(fresh, body)


def test_a_snapshot_under_a_key_that_nobody_has_is_bound_to_the_chain(fresh: Site) -> None:
    """It cannot be read, as after an erasure; `verify` believed it whatever its digest was."""
    fresh.decide("a1")
    put_snapshot(fresh, b"gdcb sealed " + b"0" * 32 + b"\n" + bytes(64), after=bytes(32))


def put_snapshot(there: Site, body: bytes, after: bytes | None = None) -> None:
    """Put a body into the place of the snapshot, and see that it is found and not used."""
    size, store = forge(there, lambda live: None).size, there.house.store
    last = store.head(ROOMS).hash if after is None else after
    store.put_snapshot(Snapshot.of(ROOMS, size, last, body))
    known = desks.everything(begun_whole(there))
    assert desks.everything(opened(store, ROOMS)) == known
    assert [one.what for one in verify_chain(store, ROOMS).findings] == ["snapshot"]
    assert there.decide("a2")["id"] == "a2"


def test_what_is_sealed_may_be_no_snapshot(fresh: Site) -> None:
    """The key is in the same database; what was not compressed stopped `verify`."""
    fresh.decide("a1")
    sealer, key = Sealer(fresh.house.store, ROOMS), Key("0" * 32, "", b"k" * 32)
    with fresh.house.store.writing(ROOMS) as writing:
        writing.add_keys([key], 1)
    nonce = bytes(12)
    sealed = AESGCM(key.secret).encrypt(nonce, b"no zlib", sealer._bound("", "state"))
    put_snapshot(fresh, b"gdcb sealed " + b"0" * 32 + b"\n" + nonce + sealed)


@pytest.mark.parametrize("size", [0, -1, -(2**63)])
def test_a_snapshot_before_the_first_entry_hides_no_other(fresh: Site, size: int) -> None:
    fresh.decide("a1")
    store, whole = fresh.house.store, forge(fresh, lambda live: None)
    assert verify_chain(store, ROOMS).ok
    store.put_snapshot(Snapshot.of(ROOMS, whole.size, whole.hash, whole.body[:-1]))
    store.put_snapshot(Snapshot.of(ROOMS, size, bytes(32), whole.body))
    found = verify_chain(store, ROOMS).findings
    assert [one.what for one in found] == ["snapshot", "snapshot"]
    assert desks.everything(opened(store, ROOMS)) == desks.everything(begun_whole(fresh))


def test_texts_where_a_snapshot_has_numbers_are_found(fresh: Site) -> None:
    """SQLite keeps them; `verify` and `replay` ended in a traceback."""
    fresh.decide("a1")
    store, whole = fresh.house.store, forge(fresh, lambda live: None)
    for column, value in (("body", "a text"), ("size", "a text")):
        with store.engine.begin() as connection:
            connection.exec_driver_sql(f"UPDATE snapshots SET {column} = ?", (value,))
        found = verify_chain(store, ROOMS).findings
        assert [one.what for one in found] == ["snapshot"], column
        assert desks.everything(opened(store, ROOMS)) == desks.everything(begun_whole(fresh))
        if column == "body":
            assert replay_chain(store, ROOMS).verdict == "differs"
            store.put_snapshot(whole)


def test_a_snapshot_cannot_ask_for_more_room_than_it_fills(fresh: Site) -> None:
    fresh.decide("a1")
    live = opened(fresh.house.store, ROOMS)
    room, body = int(live.group.size), live.to_bytes()
    wider = body.replace(b'"room":%d,' % room, b'"room":%d,' % 10**12)
    head = int.from_bytes(body[:4], "little") + len(wider) - len(body)
    start, stop = 4 + head, 4 + int.from_bytes(body[:4], "little")
    wider = _with_head(head, wider[4:start]) + body[stop + -stop % 8 :]
    assert unpack(wider)["room"] == 10**12
    put_snapshot(fresh, wider)


def test_a_state_that_is_compressed_is_refused(fresh: Site) -> None:
    """A few kilobytes became as many gigabytes; what we write is never compressed."""
    state = opened(fresh.house.store, ROOMS).state
    assert to_bytes(from_bytes(to_bytes(state), state)) == to_bytes(state)
    with np.load(io.BytesIO(to_bytes(state))) as found:
        arrays = dict(found)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    with pytest.raises(InvalidInput, match="it is compressed, and might be of any size"):
        from_bytes(buffer.getvalue(), state)


def test_trouble_with_the_store_is_not_called_forgery(
    fresh: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A locked database was reported as a snapshot that somebody had changed."""
    fresh.decide("a1")
    forge(fresh, lambda live: None)
    real, fails = SqlStore.acts, [StoreUnavailable("the database is locked")]

    def acts(store: SqlStore, chain: str, size: int) -> Any:
        if fails:
            raise fails.pop()
        return real(store, chain, size)

    monkeypatch.setattr(SqlStore, "acts", acts)
    assert dealt(fresh, "a2") == 503
    assert fails == []
    assert "is not used" not in caplog.text
    assert dealt(fresh, "a2") == 201
    assert "is not used" not in caplog.text


def begun_whole(there: Site) -> Live:
    """Fold the chain from its first entry on."""
    live = begun(there.house.store, ROOMS)
    follow(live, there.house.store.read(ROOMS))
    return live


# A ledger that somebody puts back


def file_of(there: Site) -> Path:
    found = there.house.store.engine.url.database or ""
    return Path(found.removeprefix("file:").partition("?")[0])


def kept_copy(there: Site) -> Path:
    """Return a copy of the database as it is now."""
    kept = file_of(there).with_suffix(".kept")
    with closing(sqlite3.connect(file_of(there))) as now, closing(sqlite3.connect(kept)) as then:
        now.backup(then)
    return kept


def put_back(there: Site, kept: Path) -> None:
    """Put an earlier state of the file into its place."""
    path = file_of(there)
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    shutil.copy(kept, f"{kept}.again")
    Path(f"{kept}.again").rename(path)


def dealt(there: Site, id: str) -> int:
    said = {"id": id, "context": desks.night()}
    status: int = there.post(f"{AT}/decisions", there.shop, said).status_code
    return status


def test_a_ledger_that_was_put_back_stops_the_instance(fresh: Site) -> None:
    """It was noticed once, and the second request was decided as if nothing had been."""
    fresh.decide("a1")
    fresh.decide("h1", 0.9)
    kept = kept_copy(fresh)
    fresh.decide("a2")
    seen = fresh.seen("h1")
    put_back(fresh, kept)
    assert [dealt(fresh, "b1"), dealt(fresh, "b2"), dealt(fresh, "a1")] == [503] * 3
    outcome = fresh.post(f"{AT}/decisions/a1/outcome", fresh.shop, {"outcome": {"booked": 1}})
    answer = {"verdict": "approve", "code": "fits", **seen}
    review = fresh.post(f"{AT}/decisions/h1/review", fresh.ann, answer)
    assert [outcome.status_code, review.status_code] == [503, 503]
    ready = fresh.get("/readyz")
    assert ready.status_code == 503
    assert "somebody put an earlier state back" in ready.json()["why"]
    # A process that starts now reads it in the ledger.
    fresh.house._desks.pop(ROOMS).close()
    assert dealt(fresh, "b1") == 503
    assert fresh.get("/readyz").status_code == 503
    about = fresh.get(AT, fresh.ann).json()["set_back"]
    assert (about["had"], about["has"]) == (10, 7)
    # Who may not administer, or gives no reason, does not end it.
    said = {"reason": "the disk was replaced; a2 ran, and is on file"}
    assert fresh.post(f"{AT}/acknowledge", fresh.shop, said).status_code == 403
    assert fresh.post(f"{AT}/acknowledge", fresh.ann, {"reason": " "}).status_code == 422
    assert dealt(fresh, "b1") == 503
    assert fresh.post(f"{AT}/acknowledge", fresh.ann, said).json() == {"news": True}
    assert fresh.post(f"{AT}/acknowledge", fresh.ann, said).json() == {"news": False}
    assert fresh.get("/readyz").status_code == 200
    assert dealt(fresh, "b1") == 201
    kinds = fresh.kinds(7)
    assert kinds[:3] == ["LedgerSetBack", "SetBackAcknowledged", "DecisionMade"]
    assert replay_chain(fresh.house.store, ROOMS).verdict == "equal"
    assert verify_chain(fresh.house.store, ROOMS).ok


def test_strangers_learn_nothing_of_a_ledger_that_was_put_back(fresh: Site) -> None:
    """They were told the instance's name, and how many entries it had and has."""
    fresh.decide("a1")
    kept = kept_copy(fresh)
    fresh.decide("a2")
    put_back(fresh, kept)
    ready = fresh.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (503, "not ready")
    assert ROOMS not in ready.text
    assert not any(sign.isdigit() for sign in ready.text)
    assert "somebody put an earlier state back" in ready.json()["why"]
    told = fresh.post(f"{AT}/decisions", fresh.shop, {"context": desks.night()}).text
    assert f"'{ROOMS}': its ledger had 7 entries and was found with 4" in told


def test_a_second_one_stops_it_again(fresh: Site) -> None:
    """The first was acknowledged: a later one, even to before as many entries, is another."""
    said = {"reason": "seen, and on file"}
    for id in ("a1", "a2", "a3"):
        fresh.decide(id)
    early = kept_copy(fresh)
    for id in ("b1", "b2", "b3", "b4", "b5", "b6"):
        fresh.decide(id)
    put_back(fresh, early)
    assert dealt(fresh, "c1") == 503
    assert fresh.post(f"{AT}/acknowledge", fresh.ann, said).json() == {"news": True}
    fresh.decide("c1")
    later = kept_copy(fresh)
    fresh.decide("c2")
    put_back(fresh, later)
    assert [dealt(fresh, "c3"), dealt(fresh, "c2")] == [503, 503]
    assert fresh.get("/readyz").status_code == 503
    assert fresh.post(f"{AT}/acknowledge", fresh.ann, said).json() == {"news": True}
    assert dealt(fresh, "c3") == 201
    assert replay_chain(fresh.house.store, ROOMS).verdict == "equal"


class Counted:
    """A house that counts how often it is looked over."""

    looks = 0

    def check_ready(self) -> int:
        """Take a moment, as many ledgers do."""
        self.looks += 1
        time.sleep(0.005)
        return 1


def test_many_who_ask_for_readiness_share_a_look() -> None:
    """Forty connections of strangers kept every thread of the service reading ledgers."""
    there: Any = Counted()
    found = Readiness()

    async def ask() -> list[Any]:
        answers = []
        for _ in range(5):
            answers += await asyncio.gather(*(found.ask(there) for _ in range(40)))
        for _ in range(100):  # one after the other
            answers.append(await found.ask(there))
        return answers

    began = time.monotonic()
    answers = asyncio.run(ask())
    assert len(answers) == 300
    assert all(status == 200 for status, _ in answers)
    assert there.looks <= 21 + 10.0 * (time.monotonic() - began)


def test_a_copy_that_holds_an_acknowledged_one_stops_it_too(fresh: Site) -> None:
    """A copy that was made after the first was acknowledged was taken for acknowledged itself."""
    said = {"reason": "seen, and on file"}
    fresh.decide("a1")
    first = kept_copy(fresh).rename(file_of(fresh).with_suffix(".first"))
    for id in ("a2", "a3", "a4", "a5", "a6"):
        fresh.decide(id)
    put_back(fresh, first)
    assert dealt(fresh, "b1") == 503
    assert fresh.post(f"{AT}/acknowledge", fresh.ann, said).json() == {"news": True}
    fresh.decide("b1")
    middle = kept_copy(fresh)
    put_back(fresh, first)
    assert dealt(fresh, "b2") == 503
    assert fresh.post(f"{AT}/acknowledge", fresh.ann, said).json() == {"news": True}
    fresh.clock.pass_by(60.0)
    for id in ("c1", "c2"):
        fresh.decide(id)
    put_back(fresh, middle)
    assert [dealt(fresh, "d1"), dealt(fresh, "c2")] == [503, 503]
    assert fresh.get("/readyz").status_code == 503
    assert fresh.post(f"{AT}/acknowledge", fresh.ann, said).json() == {"news": True}
    assert dealt(fresh, "d1") == 201


def test_whoever_asks_first_is_told(fresh: Site) -> None:
    """Readiness was what the last request had found; a decision that was gone, an unknown one."""
    fresh.decide("a1")
    kept = kept_copy(fresh)
    fresh.decide("a2")
    put_back(fresh, kept)
    assert fresh.get("/readyz").status_code == 503
    gone, there = (fresh.get(f"{AT}/decisions/{id}", fresh.shop) for id in ("a2", "a1"))
    assert (gone.status_code, gone.json()["error"]["code"]) == (503, "ledger_put_back")
    assert there.status_code == 200
    assert stands_stopped(fresh)
    assert fresh.get(f"{AT}/decisions/a2", fresh.shop).status_code == 404


def test_it_is_noticed_also_after_the_store_was_in_trouble(fresh: Site) -> None:
    """What was folded is forgotten after an error; what was the last entry is not."""
    fresh.decide("a1")
    kept = kept_copy(fresh)
    fresh.decide("a2")
    put_back(fresh, kept)
    fresh.house.desk(ROOMS)._live = None
    assert dealt(fresh, "b1") == 503
    assert fresh.get("/readyz").status_code == 503


def test_it_is_noticed_also_where_the_ledger_has_grown_since(fresh: Site) -> None:
    """Another process went on with the earlier state: as long as before, and not the same."""
    fresh.decide("a1")
    kept = kept_copy(fresh)
    fresh.decide("a2")
    put_back(fresh, kept)
    other = Desk(fresh.house.store, ROOMS, fresh.clock)
    for id in ("c1", "c2"):
        wanted = deciding.request_of(
            other.instance, other.policy, id, [desks.night()], True, "shop", "flat"
        )
        other.put(deciding.job(wanted)).result()
    other.close()
    assert dealt(fresh, "b1") == 503
    assert fresh.get("/readyz").status_code == 503


def test_a_look_notices_it_and_a_page_lets_an_administrator_go_on(fresh: Site) -> None:
    fresh.decide("a1")
    kept = kept_copy(fresh)
    fresh.decide("a2")
    put_back(fresh, kept)
    cy = visitor(fresh, "cy", ("administer", "*"), ("operate", "*"))
    eve = visitor(fresh, "eve", ("operate", "*"))
    for browser in (cy, eve):
        page = browser.get(f"/i/{ROOMS}/queue").text
        assert "had 7 entries and was found with 4" in " ".join(page.split())
        assert ("Acknowledge, and go on" in page) == (browser is cy)
    said = {"reason": "the disk was replaced"}
    assert eve.post(f"/i/{ROOMS}/acknowledge", said).status_code == 403
    assert dealt(fresh, "b1") == 503
    assert cy.post(f"/i/{ROOMS}/acknowledge", said).status_code == 303
    assert "was found with" not in cy.get(f"/i/{ROOMS}/queue").text
    assert dealt(fresh, "b1") == 201


def test_other_processes_are_told_once(fresh: Site) -> None:
    """Who had read as much, or less, of what is gone gives no second alarm."""
    fresh.decide("a1")
    kept = kept_copy(fresh)
    fresh.decide("a2")
    late = Desk(fresh.house.store, ROOMS, fresh.clock)
    fresh.decide("a3")
    put_back(fresh, kept)
    assert dealt(fresh, "b1") == 503
    said = {"reason": "the disk was replaced"}
    assert fresh.post(f"{AT}/acknowledge", fresh.ann, said).status_code == 200
    assert late.submit(lambda turn: operating.pause(turn, "a look", "cy")).result()
    late.close()
    assert fresh.kinds(4) == ["LedgerSetBack", "SetBackAcknowledged", "Paused"]


@pytest.mark.parametrize("is_forgotten", [False, True], ids=["folded", "after trouble"])
def test_who_comes_late_finds_it_acknowledged(fresh: Site, is_forgotten: bool) -> None:
    """After an error of the store it was written down a second time, and all stopped again."""
    fresh.decide("a1")
    kept = kept_copy(fresh)
    fresh.decide("a2")
    late = Desk(fresh.house.store, ROOMS, fresh.clock)
    put_back(fresh, kept)
    assert dealt(fresh, "b1") == 503
    said = {"reason": "the disk was replaced"}
    assert fresh.post(f"{AT}/acknowledge", fresh.ann, said).status_code == 200
    if is_forgotten:
        late._live = None
    assert late.submit(lambda turn: operating.pause(turn, "a look", "cy")).result()
    late.close()
    assert fresh.kinds(4) == ["LedgerSetBack", "SetBackAcknowledged", "Paused"]


class Unwritable:
    """A store of which the next transactions fail, or all of them until it is mended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fails: list[StoreError | None] = []
        real = SqlStore.writing

        def writing(store: SqlStore, chain: str) -> Any:
            error = self.fails.pop(0) if self.fails else None
            if error is not None:
                raise error
            return real(store, chain)

        monkeypatch.setattr(SqlStore, "writing", writing)


def stands_stopped(there: Site) -> bool:
    """Return whether an instance whose ledger was put back is stopped, and goes on when told."""
    said = {"reason": "the disk was replaced"}
    assert [dealt(there, "b1"), dealt(there, "b2")] == [503, 503]
    assert there.get("/readyz").status_code == 503
    assert there.kinds(4) == ["LedgerSetBack"]
    assert there.post(f"{AT}/acknowledge", there.ann, said).json() == {"news": True}
    return dealt(there, "b1") == 201 and there.get("/readyz").status_code == 200


@pytest.mark.parametrize("n", [1, 3])
def test_it_stops_also_where_that_cannot_be_written_at_once(
    fresh: Site, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    """The second request was decided as if nothing had been, and nothing was on record."""
    store = Unwritable(monkeypatch)
    fresh.decide("a1")
    kept = kept_copy(fresh)
    fresh.decide("a2")
    put_back(fresh, kept)
    store.fails = [None, *[StoreUnavailable("locked")] * n]
    for i in range(n):
        assert dealt(fresh, f"c{i}") == 503
        assert fresh.kinds(4) == []
        ready = fresh.get("/readyz")
        assert ready.status_code == 503
        assert fresh.house.desk(ROOMS).set_back is not None
        assert "could not be written into the ledger yet" in str(fresh.house.desk(ROOMS).set_back)
    assert stands_stopped(fresh)


def test_a_look_stops_it_also_where_the_disk_is_full(
    fresh: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Unwritable(monkeypatch)
    fresh.decide("a1")
    kept = kept_copy(fresh)
    fresh.decide("a2")
    put_back(fresh, kept)
    store.fails = [StoreFull("the disk is full")] * 3
    looks = [fresh.get(AT, fresh.ann).status_code for _ in range(2)]
    said = {"reason": "the disk was replaced"}
    acknowledged = fresh.post(f"{AT}/acknowledge", fresh.ann, said).status_code
    assert [*looks, acknowledged] == [503] * 3
    assert (store.fails, fresh.get("/readyz").status_code) == ([], 503)
    assert stands_stopped(fresh)


def emptied(kept: Path) -> Path:
    """Return a copy of a database without any entry."""
    empty = kept.with_suffix(".empty")
    shutil.copy(kept, empty)
    with closing(sqlite3.connect(empty)) as there:
        found = there.execute("select name from sqlite_master where type='trigger'").fetchall()
        for (name,) in found:
            there.execute(f"drop trigger {name}")
        for table in ("entries", "chains"):
            there.execute(f"delete from {table}")
        there.commit()
    return empty


@pytest.mark.parametrize("is_whole", [False, True], ids=["an earlier one", "the last one"])
def test_a_ledger_that_was_gone_and_came_back(fresh: Site, is_whole: bool) -> None:
    """It was emptied first, and an earlier one came in its place; this was not noticed."""
    fresh.decide("a1")
    kept = kept_copy(fresh)
    empty = emptied(kept)
    fresh.decide("a2")
    last = kept_copy(fresh) if is_whole else kept
    put_back(fresh, empty)
    assert dealt(fresh, "b0") == 503
    assert fresh.get("/readyz").status_code == 503
    put_back(fresh, last)
    if is_whole:
        assert dealt(fresh, "b1") == 201
        assert "LedgerSetBack" not in fresh.kinds()
        assert fresh.get("/readyz").status_code == 200
    else:
        assert stands_stopped(fresh)


def test_the_command_line_acknowledges(fresh: Site) -> None:
    fresh.decide("a1")
    kept = kept_copy(fresh)
    fresh.decide("a2")
    put_back(fresh, kept)
    assert dealt(fresh, "b1") == 503
    given = ["ledger", "acknowledge", "--db", str(file_of(fresh)), "--instance", ROOMS]
    done = CliRunner().invoke(app, [*given, "--reason", "the disk was replaced"])
    assert (done.exit_code, "it goes on" in done.output) == (0, True)
    again = CliRunner().invoke(app, [*given, "--reason", "the disk was replaced"])
    assert again.exit_code == 1
    assert dealt(fresh, "b1") == 201
