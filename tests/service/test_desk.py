"""A desk: commands share transactions, nothing is half done, two desks on a chain agree."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from gdcb import events as ev
from gdcb.errors import Conflict, InvalidInput, StoreUnavailable, UnknownInstance
from gdcb.ledger.live import Live, opened
from gdcb.ledger.memory import MemoryStore, MemoryWriting
from gdcb.ledger.store import Snapshot, Store, open_store
from gdcb.service import answering, deciding, observing, operating
from gdcb.service import desk as desks
from gdcb.service.desk import Desk
from gdcb.service.line import Overloaded
from gdcb.service.turn import Turn
from tests.postgres import Cluster
from tests.service.desks import (
    Office,
    everything,
    held,
    learning,
    night,
    office,
    plain,
    together,
)


class Trouble(MemoryStore):
    """A store that fails when it is told to: `at` 'write', 'commit' or 'read', so many times."""

    def __init__(self) -> None:
        super().__init__()
        self.at = ""
        self.times = 0
        self.transactions = 0

    def fail(self, at: str, times: int = 1) -> None:
        self.at, self.times = at, times

    def _meet(self, at: str) -> None:
        if self.at == at and self.times:
            self.times -= 1
            raise StoreUnavailable("the disk is gone")

    @contextmanager
    def writing(self, chain: str) -> Iterator[MemoryWriting]:
        self._meet("begin")
        self.transactions += 1
        with super().writing(chain) as writing:
            append = writing.append

            def failing(drafts: Any) -> Any:
                self._meet("write")
                return append(drafts)

            with patch.object(writing, "append", failing):
                yield writing
            self._meet("commit")

    def read(self, chain: str, start: int = 0, stop: int | None = None) -> Any:
        self._meet("read")
        return super().read(chain, start, stop)


# Group commit


def test_many_threads_are_all_answered() -> None:
    """What came while the last transaction ran shares the next one."""
    n, threads = 40, 8
    with office(held()) as made:
        for i in range(threads):
            made.decide(f"held-{i}", night(0.9), unit=f"u{i}")
        answers = [made.asked(f"held-{i}") for i in range(threads)]

        def work(thread: int) -> list[str]:
            ids = []
            for i in range(n // threads):
                rows = made.rows(f"t{thread}-{i}", [night(), night()], unit=f"u{thread}")
                ids += [row["id"] for row in rows]
                made.observe({rows[0]["id"]: 1})
            made.do(answering.review, answers[thread])
            return ids

        with ThreadPoolExecutor(threads) as pool:
            ids = [id for found in pool.map(work, range(threads)) for id in found]
        assert len(ids) == len(set(ids)) == 2 * n
        assert made.look(lambda live: live.waiting) == {}
        assert all(made.document(id)["status"] == "passed" for id in ids)
        kinds = made.kinds()
        assert kinds.count("DecisionMade") <= n + threads
        assert sum(len(e.id) for e in made.events() if isinstance(e, ev.OutcomeObserved)) == n
        made.check()


def test_a_group_is_one_transaction() -> None:
    store = Trouble()
    with office(plain(), store) as made:
        made.decide("a")
        before = store.transactions
        told = [observing.Outcome("a", {"booked": 1})]
        results = together(
            made,
            made.request("b"),
            lambda turn: observing.observe(turn, told, "shop"),
            made.request("c", [night()] * 3),
            lambda turn: operating.pause(turn, "holiday", "ann"),
        )
        assert not [one for one in results if isinstance(one, Exception)]
        assert store.transactions == before + 1
        assert made.kinds(4) == [
            "DecisionMade",
            "GateApplied",
            "ActionExecuted",
            "OutcomeObserved",
            "Paused",
        ]
        made.check()


def test_all_of_a_transaction_has_one_time_and_time_never_goes_back() -> None:
    with office(plain()) as made:
        made.decide("a")
        late = made.clock.at
        made.clock.at -= 10**9
        made.decide("b")
        made.restart()
        made.snapshot()
        made.restart()
        made.decide("c")
        assert {entry.at for entry in made.store.read("rooms")} == {late}


# Trouble with the store


@pytest.mark.parametrize("at", ["begin", "write", "commit"])
def test_a_commit_that_fails_leaves_nothing_behind(at: str) -> None:
    store = Trouble()
    with office(held('outcomes.correction = "replace"'), store) as made:
        made.decide("week", [night(), night(0.9), night()], unit=["a", "b", "c"])
        made.observe({"week.0": 1})
        answer, size = made.asked("week.1"), made.size
        before = made.look(everything)
        told = [observing.Outcome("week.2", {"booked": 1})]
        store.fail(at)
        results = together(
            made,
            made.request("new", unit="d"),
            lambda turn: answering.review(turn, answer),
            lambda turn: observing.observe(turn, told, "shop"),
            lambda turn: operating.pause(turn, "holiday", "ann"),
        )
        assert [type(one) for one in results] == [StoreUnavailable] * 4
        assert made.size == size
        assert made.look(everything) == before
        assert made.document("week.1")["status"] == "held"
        made.check()
        again = together(
            made,
            made.request("new", unit="d"),
            lambda turn: answering.review(turn, answer),
            lambda turn: observing.observe(turn, told, "shop"),
        )
        assert not [one for one in again if isinstance(one, Exception)]
        made.check()


def test_a_request_that_waits_while_the_store_is_away_is_still_good() -> None:
    """A fold that is opened again does not make requests old that were encoded before."""
    store = Trouble()
    with office(plain(), store) as made:
        request = made.request("a")
        store.fail("commit")
        with pytest.raises(StoreUnavailable, match="the disk is gone"):
            made.decide("b")
        assert made.desk.put(deciding.job(request)).result(timeout=60).is_new
        made.check()


def test_a_store_that_is_away_for_long() -> None:
    store = Trouble()
    with office(plain(), store) as made:
        request = made.request("a")
        store.fail("commit")
        with pytest.raises(StoreUnavailable):
            made.desk.put(deciding.job(request)).result(timeout=60)
        store.fail("read", 3)
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                made.desk.put(deciding.job(request)).result(timeout=60)
        assert made.desk.put(deciding.job(request)).result(timeout=60).is_new
        made.check()


# Commands that fail


def half_done(turn: Turn) -> None:
    """Add something, and then think better of it."""
    operating.pause(turn, "half", "ann")
    raise Conflict("half done")


def broken(turn: Turn) -> None:
    operating.pause(turn, "half", "ann")
    raise ZeroDivisionError("a bug")


@pytest.mark.parametrize(("command", "error"), [(half_done, Conflict), (broken, ZeroDivisionError)])
def test_a_command_that_raises_after_it_has_added_fails_alone(
    command: Any, error: type[Exception]
) -> None:
    with office(held()) as made:
        made.decide("a", night(0.9))
        answer = made.asked("a")
        first, failed, review, last = together(
            made,
            made.request("b"),
            command,
            lambda turn: answering.review(turn, answer),
            made.request("c"),
        )
        assert isinstance(failed, error)
        assert first.is_new
        assert last.is_new
        assert review.status == "passed"
        assert made.look(lambda live: live.paused) is None
        assert "Paused" not in made.kinds()
        made.check()
        with pytest.raises(error):
            made.do(command)
        made.check()


def test_a_command_that_is_refused_leaves_the_others_in_their_transaction() -> None:
    with office(plain()) as made:
        made.decide("a")
        size = made.size
        refused, fine = together(
            made, lambda turn: operating.pause(turn, "", "ann"), made.request("b")
        )
        assert isinstance(refused, InvalidInput)
        assert fine.is_new
        assert made.kinds(size) == ["DecisionMade", "GateApplied", "ActionExecuted"]


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), MemoryError()])
def test_whatever_ends_a_command_nothing_of_it_stays_in_the_fold(error: BaseException) -> None:
    """A gate of somebody's own may raise anything, also in the middle of an event."""
    with office(plain()) as made:
        made.decide("a")
        size, counts = made.size, made.look(lambda live: len(live.events))

        def clumsy(turn: Turn) -> None:
            turn.add(ev.Paused("for a moment"), "ann")
            raise error

        found = together(made, clumsy, made.request("b"))
        assert isinstance(found[0], MemoryError | RuntimeError)
        assert found[1].is_new
        assert made.look(lambda live: live.paused) is None
        assert made.look(lambda live: len(live.events)) == made.size == counts + 3
        assert made.kinds(size) == ["DecisionMade", "GateApplied", "ActionExecuted"]
        made.check()


# Limits and the end


def test_more_than_can_wait_is_turned_away() -> None:
    with office(plain()) as made:
        desk = Desk(made.store, made.chain, made.clock, limit=2)
        is_busy, may_go = threading.Event(), threading.Event()

        def keep_busy(turn: Turn) -> None:
            is_busy.set()
            may_go.wait(timeout=60)

        first = desk.submit(keep_busy)
        assert is_busy.wait(timeout=60)
        waiting = [desk.submit(lambda turn: turn.now) for _ in range(2)]
        assert desk.length() == 2
        with pytest.raises(Overloaded, match="2 requests wait already; ask again in a second"):
            desk.submit(lambda turn: None)
        read = desk.look(lambda live: len(live.events))
        may_go.set()
        assert first.result(timeout=60) is None
        assert [one.result(timeout=60) for one in waiting] == [made.clock.at] * 2
        assert read.result(timeout=60) == 1
        assert desk.submit(lambda turn: 3).result(timeout=60) == 3
        desk.close()


def test_a_desk_finishes_what_waits_and_takes_no_more() -> None:
    with office(plain()) as made:
        futures: list[Future[Any]] = [
            made.desk.put(deciding.job(made.request(f"n{i}"))) for i in range(5)
        ]
        made.desk.close()
        made.desk.close()
        assert all(future.result(timeout=60).is_new for future in futures)
        with pytest.raises(StoreUnavailable, match="the service is shutting down"):
            made.desk.submit(lambda turn: None)
        with pytest.raises(StoreUnavailable, match="the service is shutting down"):
            made.desk.look(lambda live: None)


def test_who_no_longer_waits_stops_nobody() -> None:
    with office(plain()) as made:
        is_busy, may_go = threading.Event(), threading.Event()

        def keep_busy(live: Live) -> None:
            is_busy.set()
            may_go.wait(timeout=60)

        made.desk.look(keep_busy)
        assert is_busy.wait(timeout=60)
        gone = made.desk.submit(lambda turn: 1)
        stays = made.desk.submit(lambda turn: 2)
        assert gone.cancel()
        may_go.set()
        assert stays.result(timeout=60) == 2


def test_there_is_no_desk_without_an_instance() -> None:
    with pytest.raises(UnknownInstance, match="no instance 'flats' in this ledger"):
        Desk(open_store("memory:"), "flats")


def test_listeners_hear_what_was_committed_and_only_that() -> None:
    store = Trouble()
    with office(plain(), store) as made:
        heard: list[tuple[int, int]] = []
        made.desk.listeners.append(lambda live, first, stop: heard.append((first, stop)))
        made.decide("a")
        made.decide("a")
        store.fail("commit")
        with pytest.raises(StoreUnavailable):
            made.decide("b")
        made.do(operating.pause, "holiday", "ann")
        made.look(lambda live: None)
        assert heard == [(1, 4), (4, 5)]


def test_snapshots_are_written_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desks, "SNAPSHOT_EVERY", 10)
    with office(held()) as made:
        for i in range(8):
            made.decide(f"n{i}", night(0.9 * (i % 2)))
            made.observe({f"n{i}": 1}) if i % 2 == 0 else made.answer(f"n{i}", "veto")
        made.look(lambda live: None)
        snapshot = made.store.snapshot("rooms")
        assert isinstance(snapshot, Snapshot)
        assert made.size - snapshot.size < 14
        made.check()


# Two desks


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Lend a database with all tables, of either kind."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "ledger.db")
        yield f"sqlite:///{tmp_path / 'ledger.db'}"
        return
    cluster: Cluster = request.getfixturevalue("postgres")
    name = cluster.create(f"TEMPLATE {request.getfixturevalue('postgres_template')}")
    yield cluster.url(name)
    cluster.drop(name)


@contextmanager
def pair(url: str, text: str) -> Iterator[tuple[Office, Office]]:
    """Open two desks on one chain, each with a store of its own."""
    stores: list[Store] = [open_store(url), open_store(url)]
    with office(text, stores[0]) as one:
        other = Office(stores[1], one.chain, one.clock)
        yield one, other
        other.desk.close()
    for store in stores:
        store.close()


def test_two_desks_see_each_other(url: str) -> None:
    with pair(url, learning('outcomes.correction = "replace"')) as (one, other):
        first = one.rows("a", night(0.9), unit="sea")
        assert other.rows("a", night(0.9), unit="sea") == first
        other.answer("a", by="bob")
        with pytest.raises(answering.Decided, match="was approved by bob"):
            one.do(answering.review, one.asked("a", by="cy"))
        other.decide("b", [night(0.1), night(0.2)], unit=["farm", "sea"])
        one.observe({"a": 1, "b.0": 0, "b.1": 1}, label=[0.2])
        assert other.observe({"b.0": 0}, label=[0.2]) == [False]
        other.observe({"b.0": 1}, reason="counted again", label=[0.2])
        one.do(operating.refit, "ann")
        number = one.do(operating.propose_change, learning("bulk = 3"), "less", "ann")
        other.do(operating.agree, number, "", "bob")
        one.do(operating.pause, "holiday", "ann")
        with pytest.raises(deciding.Stopped):
            other.decide("c")
        other.do(operating.resume, "back", "bob")
        one.do(operating.roll_back, 8, "bad data", "ann")
        other.decide("d", night(0.3), unit="hill")
        one.check()
        other.check()
        assert one.look(everything) == other.look(everything)
        assert one.desk.policy == other.desk.policy


def test_two_desks_at_once(url: str) -> None:
    """Each decides in its own threads; both have folded the same chain in the end."""
    with pair(url, held()) as (one, other):

        def work(made: Office, name: str) -> None:
            for i in range(6):
                id = f"{name}-{i}"
                made.decide(id, [night(), night(0.9)], unit=[name, "both"])
                made.observe({f"{id}.0": i % 2})
                made.answer(f"{id}.1", "veto" if i % 2 else "approve")

        with ThreadPoolExecutor(4) as pool:
            jobs = [(one, "a"), (other, "b"), (one, "c"), (other, "d")]
            for future in [pool.submit(work, made, name) for made, name in jobs]:
                future.result(timeout=120)
        assert one.look(everything) == other.look(everything)
        one.check()
        fresh = everything(opened(other.store, "rooms"))
        assert other.look(everything) == fresh


def test_the_same_request_at_two_desks_is_decided_once(url: str) -> None:
    with pair(url, plain()) as (one, other), ThreadPoolExecutor(2) as pool:
        for i in range(8):
            futures = [pool.submit(made.rows, f"n{i}") for made in (one, other)]
            rows = [future.result(timeout=60) for future in futures]
            assert rows[0] == rows[1]
        assert one.kinds().count("DecisionMade") == 8
