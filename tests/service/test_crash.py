"""Whoever is killed, wherever: nothing that was acknowledged is lost, and nothing happens twice."""

from __future__ import annotations

import random
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql as psql

from gdcb import events as ev
from gdcb.ledger.audit import verify_chain
from gdcb.ledger.entry import Entry
from gdcb.ledger.live import Live
from gdcb.ledger.sql import SqlStore
from gdcb.ledger.story import request_of
from gdcb.ledger.tables import VERSION_TABLE
from gdcb.records import STATUS
from gdcb.service import desk, operating
from gdcb.service.who import name_of
from tests.postgres import Cluster, new_cluster
from tests.service.crash_child import CHAIN, SCRIPT, Calls, at, child, live_through
from tests.service.desks import START, Clock, Office, held, night
from tests.service.race_clients import Caller, Server, check_ledger, staff_of

_PARTS = 8  # that several processes can go through side by side
# Later versions of Python warn of forks where there are threads; the parent here has none.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@dataclass
class Place:
    """A database that is empty again when asked, and knows when the dead have left."""

    url: str
    template: Path | None = None

    def empty(self) -> None:
        """Forget all chains, and who there was."""
        if self.template is not None:
            for end in ("-wal", "-shm"):
                Path(self.url + end).unlink(missing_ok=True)
            shutil.copy(self.template, self.url)
            return
        with psycopg.connect(self.url, autocommit=True) as connection:
            # Entries are guarded by triggers, which a replica does not fire.
            connection.execute("SET session_replication_role = replica")
            tables = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> %s",
                (VERSION_TABLE,),
            )
            names = psql.SQL(", ").join(psql.Identifier(name) for (name,) in tables)
            connection.execute(psql.SQL("TRUNCATE {}").format(names))

    def wait_for_the_dead(self) -> None:
        """Wait until the server has noticed who died, and undone what they had not committed."""
        if self.template is not None:
            return
        asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        with psycopg.connect(self.url, autocommit=True) as connection:
            until = time.monotonic() + 10
            while connection.execute(asked).fetchone() != (1,):
                assert time.monotonic() < until
                time.sleep(0.002)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Lend a database of either kind."""
    if request.param == "sqlite":
        template = request.getfixturevalue("sqlite_template")
        yield Place(str(tmp_path / "ledger.db"), template)
        return
    cluster: Cluster = request.getfixturevalue("postgres")
    name = cluster.create(f"TEMPLATE {request.getfixturevalue('postgres_template')}")
    yield Place(cluster.url(name))
    cluster.drop(name)


@dataclass
class Whole:
    """The script when nobody dies: its answers, its ledger, and how often it asked the driver."""

    answers: dict[int, Any]
    entries: list[Entry]
    n_calls: int


def _whole(place: Place) -> Whole:
    place.empty()
    told, is_killed = child(place.url, Calls())
    assert not is_killed
    (_, n_calls), answers = told[-1], dict(told[:-1])
    assert list(answers) == list(range(len(SCRIPT) + 1))
    store = SqlStore(place.url)
    try:
        check_ledger(store, CHAIN)
        return Whole(answers, list(store.read(CHAIN)), n_calls)
    finally:
        store.close()


def _die_at(place: Place, whole: Whole, call: int, is_after: bool) -> None:
    """Kill a child at a storage call, look at what it left, and live on from there."""
    place.empty()
    told, is_killed = child(place.url, Calls(call, is_after))
    assert is_killed
    place.wait_for_the_dead()
    answers = dict(told)
    assert answers == {number: whole.answers[number] for number in answers}
    store = SqlStore(place.url)
    try:
        left = list(store.read(CHAIN))
        assert left == whole.entries[: len(left)]
        assert len(left) >= _acknowledged(whole, max(answers, default=-1))
        if left:
            check_ledger(store, CHAIN)
        live_through(store, max(answers, default=-1) + 1, answers.__setitem__)
        assert answers == whole.answers
        _ask_again(store, whole)
        assert list(store.read(CHAIN)) == whole.entries
        assert verify_chain(store, CHAIN).ok
    finally:
        store.close()


def _acknowledged(whole: Whole, last: int) -> int:
    """Return how many entries there must be once a step was acknowledged."""
    limit = START if last <= 0 else at(last)
    return 0 if last < 0 else sum(entry.at <= limit for entry in whole.entries)


def _ask_again(store: SqlStore, whole: Whole) -> None:
    """Ask for everything once more that may be asked for twice."""
    made = Office(store, CHAIN, Clock(whole.entries[-1].at))
    for number, step in enumerate(SCRIPT, 1):
        if step.repeats and step.again is not None:
            assert step.again(made) == whole.answers[number], step.name
    made.desk.close()


def _kills(whole: Whole, stride: int, first: int) -> Iterator[tuple[int, bool]]:
    """Return the calls to die at, before and after each; every `stride`-th of them."""
    for number in range(first, 2 * whole.n_calls, stride):
        yield number // 2, number % 2 == 1


def test_a_kill_at_storage_calls(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "SNAPSHOT_EVERY", 8)
    whole = _whole(place)
    for call, is_after in _kills(whole, 53 if place.template is not None else 79, 11):
        _die_at(place, whole, call, is_after)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(_PARTS))
def test_a_kill_at_every_storage_call(
    place: Place, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "SNAPSHOT_EVERY", 8)
    whole = _whole(place)
    kills = list(_kills(whole, _PARTS, part))
    sys.stdout.write(f"{len(kills)} of {2 * whole.n_calls} kills\n")
    for call, is_after in kills:
        _die_at(place, whole, call, is_after)


# Kills under load

_Body = dict[str, Any]


@dataclass
class Load:
    """People and programs who go on whatever happens, and remember what they were answered.

    Parameters
    ----------
    store, servers : the database, and the processes that serve it
    told : what was acknowledged: what it was, by whom, the answer, and what was said
    """

    store: SqlStore
    servers: list[Server]
    told: list[tuple[str, str, Any, Any]] = field(default_factory=list)
    n_checked: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def going_on(self, n_workers: int = 4) -> Iterator[None]:
        """Start the servers, and keep them busy for a while."""
        with (
            staff_of(self.store, self.servers, CHAIN) as staff,
            ExitStack() as ends,
            ThreadPoolExecutor(n_workers) as pool,
        ):
            shop = staff.program("shop", "decide", "outcome")
            people = [staff.person(f"p{i}", "approve") for i in range(n_workers)]
            for server in self.servers:
                ends.callback(server.close)
                server.start()
            work = [pool.submit(self._work, i, shop, who) for i, who in enumerate(people)]
            try:
                yield
            finally:
                self._over.set()
            for done in work:
                done.result()

    def _work(self, number: int, shop: Caller, person: Caller) -> None:
        rng = random.Random(number)
        for n in count():
            if self._over.is_set():
                return
            id = f"w{number}-{n}"
            rows = [night(rng.choice((0.1, 0.9)), 100.0 + i) for i in range(rng.choice((1, 1, 3)))]
            path, body = "decisions/batch", _Body(id=id, contexts=rows)
            if len(rows) == 1:
                path, body = "decisions", _Body(id=id, context=rows[0])
            status, answer = shop.post(f"{CHAIN}/{path}", body, prefer=n)
            assert status in (200, 201), answer
            made = answer.get("decisions") or [answer]
            self.told.append(("decide", "shop", made, rows))
            for one in made:
                self._finish(one, rng, shop, person)

    def _finish(
        self, one: dict[str, Any], rng: random.Random, shop: Caller, person: Caller
    ) -> None:
        """Answer a decision where it is held, say what ran, and what came of it."""
        at = f"{CHAIN}/decisions/{one['id']}"
        if one["status"] == "held":
            seen = person.ask("GET", at)[1]
            verdict = rng.choice(("approve", "approve", "veto"))
            body = _Body({name: seen[name] for name in ("version", "content")})
            body |= {"verdict": verdict, "code": "other"}
            status, answer = person.post(f"{at}/review", body, prefer=rng.randrange(2))
            # Asked again after a crash, one may hear that one was first oneself.
            is_mine = status == 409 and answer["error"]["details"]["by"] == person.name
            assert status == 200 or is_mine, answer
            self.told.append(("review", person.name, one["id"], verdict))
            if verdict == "veto":
                return
        for what, body in (
            ("executed", _Body(action={"price": rng.choice((90.0, 110.0))})),
            ("outcome", _Body(outcome={"booked": rng.choice((0.0, 1.0))})),
        ):
            status, answer = shop.post(f"{at}/{what}", body, prefer=rng.randrange(2))
            assert status == 200, answer
            self.told.append((what, "shop", one["id"], body))

    def wait_for(self, more: int) -> None:
        """Wait until so much more is acknowledged."""
        wanted, until = len(self.told) + more, time.monotonic() + 60
        while len(self.told) < wanted:
            assert time.monotonic() < until, "nothing is acknowledged any more"
            time.sleep(0.005)

    def check(self) -> None:
        """Check the ledger, and that all that was acknowledged is in it as it was told."""
        told = self.told[:]
        live = check_ledger(self.store, CHAIN)
        for what, by, about, said in told[self.n_checked :]:
            if what == "decide":
                for row, context in zip(about, said, strict=True):
                    _check_decided(live, row, context)
                continue
            record = live.records[about]
            if what == "review":
                assert _reviews(live, about) == [(by, said)]
            elif what == "executed":
                assert record.executed is not None
                assert live.instance.decode_action(record.executed) == said["action"]
            else:
                assert record.outcome == [said["outcome"]["booked"]]
        self.n_checked = len(told)


def _check_decided(live: Live, row: dict[str, Any], context: dict[str, float]) -> None:
    record, instance = live.records[row["id"]], live.instance
    made, judged = record.made, live.events[row["version"]]
    assert made.x[record.at].tolist() == list(context.values())
    assert instance.space.names[int(made.arm[record.at])] == row["arm"]
    assert instance.decode_action(made.action[record.at]) == row["proposed"]
    assert isinstance(judged, ev.GateApplied)
    at = judged.id.index(row["id"])
    assert STATUS[int(judged.status[at])] == row["status"]
    assert instance.decode_action(judged.action[at]) == row["action"]


def _reviews(live: Live, id: str) -> list[tuple[str, str]]:
    """Return who answered a decision, and how."""
    request, row, _ = request_of(id)
    found = []
    for touch in live.store.touches(live.chain, [request]):
        if touch.row == row and touch.seq < len(live.events):  # others go on writing
            event = live.events[touch.seq]
            if isinstance(event, ev.Reviewed):
                found.append((name_of(event.by), event.verdict))
    return found


def _under_load(place: Place, n_servers: int, n_kills: int, every: int = 1, seed: int = 0) -> None:
    """Kill servers at random while they are busy; look at what is left after every so many."""
    place.empty()
    rng = random.Random(f"{seed} {n_kills}")
    store = SqlStore(place.url)
    operating.create(store, held('execution = "report"'), "ann", "load", seed=5)
    load = Load(store, [Server(place.url) for _ in range(n_servers)])
    with load.going_on():
        load.wait_for(20)
        for n in range(n_kills):
            time.sleep(rng.uniform(0.0, 0.2))
            victim = rng.choice(load.servers)
            victim.kill()
            if n % every == 0:
                load.check()
            victim.start()
            load.wait_for(rng.randrange(10))
    load.check()
    store.close()


def _n_servers(place: Place) -> int:
    return 1 if place.template is not None else 2


def test_kills_under_load(place: Place) -> None:
    # Each look goes over all that there is; the next finds what this one would have.
    _under_load(place, _n_servers(place), 10, every=3)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_a_thousand_kills_under_load(place: Place, seed: int) -> None:
    """On ten ledgers, since each look goes over all that there is."""
    _under_load(place, _n_servers(place), 100, every=20, seed=seed)


def test_a_database_that_is_killed_under_load() -> None:
    cluster = new_cluster()  # with fsync: this one is to survive
    store = SqlStore(cluster.url())
    try:
        operating.create(store, held('execution = "report"'), "ann", "load", seed=5)
        load = Load(store, [Server(cluster.url())])
        with load.going_on():
            for _ in range(2):
                load.wait_for(20)
                cluster.stop("immediate")
                cluster.start()
                load.check()
            load.wait_for(20)
        load.check()
    finally:
        store.close()
        cluster.remove()
