"""What happens by itself: expiry, default outcomes, refits; each once, however many clocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from gdcb import events as ev
from gdcb.cases import about
from gdcb.errors import Conflict, StoreUnavailable
from gdcb.ledger.entry import Entry
from gdcb.ledger.memory import MemoryStore, MemoryWriting
from gdcb.ledger.sql import SqlStore
from gdcb.service import answering, schedule
from gdcb.service.cursors import Cursors
from gdcb.service.desk import Desk
from gdcb.service.schedule import Schedule, Ticker
from gdcb.service.turn import TooLate
from tests.postgres import Cluster
from tests.service.desks import held, learning, night, office, plain, together

WINDOW = "outcomes = { window = 60, default = { booked = 0 } }\n"


# Expiry


def test_holds_expire_when_their_time_is_over() -> None:
    with office(held("expiry.after = 60")) as made:
        clock = Schedule(made.desk)
        made.decide("week", [night(0.9), night(), night(0.9)])
        made.clock.pass_by(30)
        made.decide("late", night(0.9))
        made.clock.pass_by(29)
        assert clock.tick() == 0
        made.clock.pass_by(1)
        size = made.size
        assert clock.tick() == 2
        assert made.kinds(size) == ["Expired", "GateApplied", "ActionExecuted"] * 2
        entries = list(made.store.read("rooms", size))
        assert {entry.by for entry in entries} == {"policy"}
        assert list(made.look(lambda live: live.waiting)) == ["late"]
        assert clock.tick() == 0
        made.clock.pass_by(30)
        assert clock.tick() == 1
        statuses = {id: made.document(id)["status"] for id in ("week.0", "week.1", "late")}
        assert statuses == {"week.0": "expired", "week.1": "passed", "late": "expired"}
        made.check()


@pytest.mark.parametrize(
    ("service", "status", "executed"),
    [
        ('expiry = { after = 60, then = "veto" }', "expired", None),
        (
            'expiry = { after = 60, then = "fallback", fallback = { price = 77 } }',
            "modified",
            {"price": 77.0},
        ),
        ('expiry = { after = 60, then = "wait" }', "held", None),
    ],
)
def test_what_expiry_does_is_policy(
    service: str, status: str, executed: dict[str, float] | None
) -> None:
    with office(held(service)) as made:
        made.decide("a", night(0.9))
        made.clock.pass_by(10**6)
        Schedule(made.desk).tick()
        document = made.document("a")
        assert (document["status"], document["executed"]) == (status, executed)
        reviews = [event for event in made.events() if isinstance(event, ev.Reviewed)]
        assert reviews == []


def test_two_clocks_do_no_more_than_one() -> None:
    with office(held("expiry.after = 60\n" + WINDOW)) as made:
        other = Desk(made.store, "rooms", made.clock)
        one, two = Schedule(made.desk), Schedule(other)
        made.decide("week", [night(0.9), night()])
        made.clock.pass_by(60)
        assert (one.tick(), two.tick()) == (2, 0)
        made.clock.pass_by(60)
        assert (two.tick(), one.tick()) == (1, 0)
        kinds = made.kinds()
        assert (kinds.count("Expired"), kinds.count("OutcomeObserved")) == (1, 2)
        other.close()
        made.check()


def test_a_veto_between_look_and_transaction_wins() -> None:
    """It lets nothing run, so it counts until the expiry is there; an approval does not."""
    with office(held("expiry.after = 60")) as made:
        made.decide("a", night(0.9))
        approval, answer = made.asked("a"), made.asked("a", "veto")
        made.clock.pass_by(60)
        clock = Schedule(made.desk)
        look = made.desk.look(lambda live: answering.overdue(live, made.desk.policy, made.clock()))
        assert look.result(timeout=60) == ["a"]
        late, record, error = together(
            made,
            lambda turn: answering.review(turn, approval),
            lambda turn: answering.review(turn, answer),
            lambda turn: answering.expire(turn, "a"),
        )
        assert isinstance(late, TooLate)
        assert record.status == "vetoed"
        assert isinstance(error, answering.Decided)
        assert clock.tick() == 0


# Windows


def test_the_default_outcome_is_taken_when_the_window_closes() -> None:
    with office(plain(WINDOW)) as made:
        clock = Schedule(made.desk)
        made.decide("week", [night(), night(), night()], mask=["1"])
        made.observe({"week.1": 1})
        made.clock.pass_by(59)
        assert clock.tick() == 0
        made.clock.pass_by(1)
        size = made.size
        assert clock.tick() == 2
        (event,) = made.events(size)
        assert isinstance(event, ev.OutcomeObserved)
        assert event.id == ["week.0", "week.2"]
        assert made.counts()[1] == [2.0, 3.0]
        assert clock.tick() == 0
        assert made.observe({"week.0": 0}) == [False]
        made.check()


@pytest.mark.parametrize("correction", ["refuse", "replace"])
def test_a_late_outcome_takes_the_place_of_the_default(correction: str) -> None:
    late = WINDOW.replace(" }\n", f', late = "take", correction = "{correction}" }}\n')
    with office(plain(late)) as made:
        made.decide("a", mask=["1"])
        made.clock.pass_by(60)
        Schedule(made.desk).tick()
        made.restart()
        assert made.observe({"a": 1}) == [True]
        assert made.counts()[1] == [2.0, 1.0]
        if correction == "refuse":  # what stands there now is somebody's word
            with pytest.raises(Conflict, match="takes no corrections"):
                made.observe({"a": 0}, reason="no")
        made.check()


@pytest.mark.parametrize("correction", ["refuse", "replace"])
def test_where_late_outcomes_are_refused_the_default_stays(correction: str) -> None:
    with office(plain(WINDOW.replace(" }\n", f', correction = "{correction}" }}\n'))) as made:
        made.decide("a", mask=["1"])
        made.clock.pass_by(60)
        Schedule(made.desk).tick()
        made.clock.pass_by(1)
        with pytest.raises(TooLate, match="ran more than 60 seconds ago"):
            made.observe({"a": 1}, reason="it came late")
        assert made.counts()[1] == [1.0, 2.0]


def test_windows_close_after_a_restart() -> None:
    with office(plain(WINDOW)) as made:
        made.decide("a")
        made.clock.pass_by(30)
        made.decide("b")
        made.restart()
        made.clock.pass_by(86_400)
        assert Schedule(made.desk).tick() == 2
        made.restart()
        assert Schedule(made.desk).tick() == 0


def test_windows_begin_with_the_execution() -> None:
    with office(plain(WINDOW + 'execution = "report"')) as made:
        clock = Schedule(made.desk)
        made.decide("a")
        made.decide("b")
        made.clock.pass_by(100)
        assert clock.tick() == 0
        made.execute("a", 100.0)
        made.clock.pass_by(60)
        assert clock.tick() == 1
        assert made.document("a")["outcome"] == {"booked": 0.0}
        assert made.document("b")["outcome"] is None


def test_many_are_closed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "AT_ONCE", 2)
    monkeypatch.setattr(schedule, "ROUNDS", 2)
    with office(plain(WINDOW)) as made:
        for i in range(5):
            made.decide(f"n{i}")
        made.clock.pass_by(60)
        clock, size = Schedule(made.desk), made.size
        assert [clock.tick() for _ in range(3)] == [4, 1, 0]
        assert [len(about(event)) for event in made.events(size)] == [2, 2, 1]


@pytest.mark.parametrize("before", ["", WINDOW.replace("60", "86400")])
def test_another_window_counts_for_what_ran_before_it(before: str) -> None:
    with office(plain(before)) as made:
        made.decide("a")
        made.clock.pass_by(40_000)
        made.change(plain(WINDOW))
        made.restart()
        assert Schedule(made.desk).tick() == 1
        assert made.document("a")["outcome"] == {"booked": 0.0}


def test_a_window_that_was_made_longer_meanwhile_is_not_closed() -> None:
    with office(plain(WINDOW)) as made:
        made.decide("a")
        made.clock.pass_by(60)
        made.change(plain(WINDOW.replace("60", "600")))
        with pytest.raises(Conflict, match="another window was put in force"):
            made.do(schedule._closed, ["a"], 60.0)
        assert Schedule(made.desk).tick() == 0


def test_a_cursor_is_kept_for_who_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "SCANNED", 3)
    store = SqlStore(tmp_path / "l.db")
    cursors = Cursors(store, "windows")
    with office(plain(WINDOW), store) as made:
        assert cursors.of(made.chain) is None
        for i in range(3):
            made.decide(f"n{i}")
        size = made.size
        made.clock.pass_by(60)
        assert Schedule(made.desk, cursors).tick() == 3
        assert size - 3 < (cursors.of(made.chain) or 0) <= size
        made.decide("later")
        made.clock.pass_by(60)
        begun: list[int] = []
        read = store.read

        def reading(chain: str, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
            begun.append(start)
            return read(chain, start, stop)

        monkeypatch.setattr(store, "read", reading)
        assert Schedule(made.desk, cursors).tick() == 1
        assert min(begun) > size - 3
        cursors.put(made.chain, 1)
        assert (cursors.of(made.chain) or 0) > size - 3


def test_cursors_only_go_forward_on_postgresql(postgres: Cluster) -> None:
    store = SqlStore(postgres.url(postgres.create()))
    cursors = Cursors(store, "windows")
    for seq in (5, 9, 7):
        cursors.put("rooms", seq)
    assert (cursors.of("rooms"), cursors.of("other")) == (9, None)
    assert Cursors(store, "else").of("rooms") is None
    store.close()


class Failing(MemoryStore):
    """A store whose commits fail while `is_away`."""

    is_away = False

    @contextmanager
    def writing(self, chain: str) -> Iterator[MemoryWriting]:
        with super().writing(chain) as writing:
            yield writing
            if self.is_away:
                raise StoreUnavailable("the disk is gone")


def test_what_was_not_committed_is_closed_later() -> None:
    store = Failing()
    with office(held(WINDOW + "expiry.after = 60"), store) as made:
        clock = Schedule(made.desk)
        made.decide("week", [night(), night(0.9)])
        made.clock.pass_by(60)
        store.is_away = True
        size = made.size
        assert clock.tick() == 0
        assert made.size == size
        store.is_away = False
        assert clock.tick() == 2
        assert made.document("week.0")["outcome"] == {"booked": 0.0}
        made.check()


def test_a_window_that_a_change_takes_away_closes_nothing() -> None:
    with office(plain(WINDOW)) as made:
        clock = Schedule(made.desk)
        made.decide("a")
        made.change(plain())
        made.clock.pass_by(60)
        assert clock.tick() == 0
        (error,) = together(made, partial(schedule._closed, ids=["a"], window=60.0))
        assert isinstance(error, Conflict)


# Refits


def test_refits_by_the_clock() -> None:
    with office(learning("refit_every = 60")) as made:
        clock = Schedule(made.desk)
        made.decide("week", [night(0.1 * i) for i in range(3)])
        made.observe({f"week.{i}": 1 for i in range(3)}, label=[0.3])
        clock.tick()
        assert "ScalerFitted" not in made.kinds()
        made.clock.pass_by(60)
        clock.tick()
        assert made.kinds().count("ScalerFitted") == 1
        assert list(made.store.read("rooms"))[-1].by == "schedule"
        clock.tick()
        made.clock.pass_by(59)
        clock.tick()
        assert made.kinds().count("ScalerFitted") == 1
        made.clock.pass_by(1)
        clock.tick()
        assert made.kinds().count("ScalerFitted") == 2
        made.check()


def test_two_clocks_and_a_restart_refit_once_a_period() -> None:
    with office(learning("refit_every = 60")) as made:
        made.decide("a")
        other = Desk(made.store, "rooms", made.clock)
        clocks = [Schedule(made.desk), Schedule(other)]
        for period in range(1, 4):
            made.clock.pass_by(60)
            for clock in (*clocks, Schedule(other)):
                clock.tick()
            assert made.kinds().count("ScalerFitted") == period
        other.close()


def test_a_refit_that_is_refused_is_asked_for_once_a_period() -> None:
    with office(plain("refit_every = 60")) as made:
        clock = Schedule(made.desk)
        made.clock.pass_by(60)
        assert clock.tick() == 0
        assert made.size == 1
        assert clock._refit_at == made.clock.at + 60_000_000


# The thread


def test_a_ticker_survives_what_a_schedule_meets(caplog: pytest.LogCaptureFixture) -> None:
    with office(held("expiry.after = 60")) as made:
        made.decide("a", night(0.9))
        made.clock.pass_by(60)

        class Broken(Schedule):
            def tick(self) -> int:
                raise ZeroDivisionError

        ticker = Ticker(lambda: [Broken(made.desk), Schedule(made.desk)], every=0.005)
        ticker.start()
        until = time.monotonic() + 20
        while made.document("a")["status"] == "held" and time.monotonic() < until:
            time.sleep(0.01)
        ticker.stop()
        ticker.stop()
        assert made.document("a")["status"] == "expired"
        assert "schedule of rooms" in caplog.text
        assert "schedule" not in {thread.name for thread in threading.enumerate()}
