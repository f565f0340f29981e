"""Whoever is killed, wherever: nothing that was acknowledged is lost, and nothing happens twice."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gdcb.ledger.audit import verify_chain
from gdcb.ledger.entry import Entry
from gdcb.ledger.sql import SqlStore
from gdcb.service import desk
from tests.postgres import Cluster
from tests.service.crash_child import CHAIN, SCRIPT, Calls, at, child, live_through
from tests.service.desks import START, Clock, Office
from tests.service.race_clients import check_ledger

# Later versions of Python warn of forks where there are threads; the parent here has none.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@dataclass
class Place:
    """A database that is empty again when asked, and knows when the dead have left."""

    url: str
    template: Path | None = None

    def empty(self) -> None:
        """Forget all chains."""
        if self.template is not None:
            for end in ("-wal", "-shm"):
                Path(self.url + end).unlink(missing_ok=True)
            shutil.copy(self.template, self.url)
            return
        with psycopg.connect(self.url, autocommit=True) as connection:
            # Entries are guarded by triggers, which a replica does not fire.
            connection.execute("SET session_replication_role = replica")
            connection.execute("TRUNCATE chains, entries, places, touches, snapshots")

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
    for call, is_after in _kills(whole, 53, 11):
        _die_at(place, whole, call, is_after)


@pytest.mark.soak
def test_a_kill_at_every_storage_call(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "SNAPSHOT_EVERY", 8)
    whole = _whole(place)
    for call, is_after in _kills(whole, 1, 0):
        _die_at(place, whole, call, is_after)
