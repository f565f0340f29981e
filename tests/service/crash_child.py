"""A scripted life of an instance, for a child that dies at the storage call it is told to.

The script has its own clock and seed, so that its ledger is the same to the bit whenever it is
run to its end, and whoever is killed on the way leaves a beginning of it.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import psycopg
import pytest

from gdcb import events as ev
from gdcb.errors import GdcbError
from gdcb.ledger.live import Live
from gdcb.ledger.sql import SqlStore
from gdcb.ledger.store import Store
from gdcb.service import answering, desk, observing, operating
from gdcb.service.deciding import Stopped
from gdcb.service.schedule import Schedule
from tests.service.desks import SECOND, START, Clock, Office, learning, night

CHAIN = "rooms"
_SERVICE = """
execution = "report"
expiry.after = 60.0
outcomes.correction = "replace"
"""
DECLARED = learning(_SERVICE)
CHANGED = learning(_SERVICE.replace("60.0", "90.0"))

# Storage calls


@dataclass
class Calls:
    """Counts calls of the driver, and dies at one of them.

    Parameters
    ----------
    at : the call to die at, from 0 on; None: all are counted only
    is_after : whether it dies once the call is done
    """

    at: int | None = None
    is_after: bool = False
    n: int = 0

    def wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a call that is counted."""

        @wraps(call)
        def counted(*given: Any, **named: Any) -> Any:
            number, self.n = self.n, self.n + 1
            if number == self.at and not self.is_after:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = call(*given, **named)
            if number == self.at:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return counted


@contextmanager
def counting(calls: Calls) -> Iterator[None]:
    """Count all that is asked of SQLite's and PostgreSQL's drivers."""

    class Cursor(sqlite3.Cursor):
        execute = calls.wrap(sqlite3.Cursor.execute)
        executemany = calls.wrap(sqlite3.Cursor.executemany)

    class Connection(sqlite3.Connection):
        execute = calls.wrap(sqlite3.Connection.execute)
        executemany = calls.wrap(sqlite3.Connection.executemany)
        commit = calls.wrap(sqlite3.Connection.commit)

        def cursor(self, *_: Any, **__: Any) -> Any:
            return super().cursor(Cursor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sqlite3.dbapi2.connect", partial(sqlite3.connect, factory=Connection))
        for kind, name in (
            (psycopg.Cursor, "execute"),
            (psycopg.Cursor, "executemany"),
            (psycopg.Connection, "commit"),
            (psycopg.Pipeline, "__exit__"),  # what waits is sent here, at the latest
        ):
            patch.setattr(kind, name, calls.wrap(getattr(kind, name)))
        yield


# The script


@dataclass(frozen=True)
class Step:
    """One command, and what a client does who does not know whether it was taken.

    Parameters
    ----------
    name : for people
    run : office → answer
    again : office → what comes of it where it was taken already; None: `run` may be repeated
    repeats : whether `again` stays true whatever comes later
    """

    name: str
    run: Callable[[Office], Any]
    again: Callable[[Office], Any] | None = None
    repeats: bool = False


def _decide(id: str, *busy: float, base: float = 100.0) -> Step:
    rows = [night(one, base + 10 * i) for i, one in enumerate(busy)]

    def run(made: Office) -> Any:
        return made.rows(id, rows[0] if len(rows) == 1 else rows)

    return Step(f"decide {id}", run, run, repeats=True)


def _answer(id: str, verdict: str, action: dict[str, Any] | None = None) -> Step:
    def run(made: Office) -> Any:
        return made.answer(id, verdict, action, by="Bob [b]").status

    return Step(f"{verdict} {id}", run, lambda made: _decided(made, id, "Bob"), repeats=True)


def _decided(made: Office, id: str, by: str) -> Any:
    """Answer once more, and return the status where `by` was first."""
    with pytest.raises(answering.Decided) as refused:
        made.answer(id, "veto", by="Eve [e]")
    assert refused.value.decided["by"] == by
    return made.look(lambda live: answering.find(live, id).status)


def _execute(id: str, price: float | None) -> Step:
    def run(made: Office) -> Any:
        made.execute(id, price)
        return True

    return Step(f"execute {id}", run, run, repeats=True)


def _observe(outcomes: dict[str, float], **given: Any) -> Step:
    def run(made: Office) -> Any:
        return len(made.observe(outcomes, **given))

    return Step(f"observe {' '.join(outcomes)}", run)


def _refused(made: Office) -> str:
    with pytest.raises(Stopped):
        made.decide("late")
    return "stopped"


def _stop(made: Office) -> bool:
    made.do(operating.pause, "a look", "ann")
    return True


def _go_on(made: Office) -> bool:
    made.do(operating.resume, "looked", "ann")
    return True


def _propose(made: Office) -> Any:
    return made.do(operating.propose_change, CHANGED, "longer", "ann")


def _proposed(made: Office) -> Any:
    return made.look(lambda live: next(iter(live.proposals)))


def _agree(made: Office) -> bool:
    made.do(operating.agree, _proposed(made), "", "bob")
    return True


def _versions(live: Live) -> list[int]:
    fitted = live.events[len(live.events) - 1]
    assert isinstance(fitted, ev.ScalerFitted)
    return fitted.versions


def _appeal(made: Office) -> bool:
    made.do(observing.appeal, "a", False, "as agreed", "ann")
    return True


SCRIPT = (
    _decide("a", 0.1),
    _decide("batch", 0.1, 0.9, 0.2, 0.8, 0.3),
    _decide("h", 0.9),
    _decide("g", 0.7, base=150.0),
    _decide("x", 0.6),
    _answer("h", "approve"),
    _answer("g", "edit", {"price": 140.0}),
    _answer("batch.1", "veto"),
    _execute("a", 99.0),
    _execute("h", 101.5),
    _execute("g", None),
    _execute("batch.0", 90.0),
    _execute("batch.2", 95.0),
    _execute("batch.4", 96.0),
    _observe({"a": 1.0}, label=[0.5]),
    _observe({"h": 0.0, "batch.0": 1.0, "batch.2": 0.0, "batch.4": 1.0}, label=[0.25]),
    _observe({"a": 0.0}, label=[0.5], reason="it was cancelled"),
    Step("pause", _stop),
    Step("refused", _refused),
    Step("resume", _go_on),
    Step(
        "refit",
        lambda made: made.do(operating.refit, "ann"),
        lambda made: made.look(_versions),
    ),
    Step("propose", _propose, _proposed),
    Step("agree", _agree, lambda made: True),
    Step("expire", lambda made: Schedule(made.desk).tick() >= 0),
    _decide("z", 0.2, 0.9),
    Step("appeal", _appeal, _appeal, repeats=True),
)


def at(number: int) -> int:
    """Return when a step is taken, µs; before the one that expires, the holds' time passes."""
    waits = 1_000 if number > [step.name for step in SCRIPT].index("agree") else 0
    return START + (number + 1 + waits) * SECOND


def live_through(store: Store, first: int, tell: Callable[[int, Any], None]) -> None:
    """Take the steps from `first` on, 0 creating the instance; each answer is told at once.

    The first may have been taken before: it is asked for as its client would ask again.
    """
    clock = Clock()
    if not store.head(CHAIN).size:
        operating.create(store, DECLARED, "ann", "first", seed=7, clock=clock)
    if first == 0:
        tell(0, CHAIN)
    # One nonce for all: who goes on after a kill must come to the same answers.
    made = Office(store, CHAIN, clock, lambda: "0" * 32)
    try:
        for number, step in enumerate(SCRIPT, 1):
            if number < first:
                continue
            clock.at = at(number)
            is_taken = number == first and _was_taken(made, clock.at)
            run = step.again if is_taken and step.again is not None else step.run
            tell(number, run(made))
    finally:
        made.desk.close()


def _was_taken(made: Office, now: int) -> bool:
    """Whether the step of this time left something in the ledger."""

    def last(live: Live) -> int:
        return live.at

    return made.look(last) >= now


# The child


def child(url: str, calls: Calls) -> tuple[list[tuple[int, Any]], bool]:
    """Live in a child that may be killed; return the answers that it told, and whether it was."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            os.close(read)
            _live(url, calls, write)
            status = 0
        except GdcbError as error:
            os.write(write, f"{error}\n".encode())
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as said:
        lines = said.read().split("\n")[:-1]
    _, ended = os.waitpid(pid, 0)
    is_killed = os.WIFSIGNALED(ended)
    assert is_killed or os.WEXITSTATUS(ended) == 0, lines[-1:]
    return [tuple(json.loads(line)) for line in lines], is_killed


def _live(url: str, calls: Calls, write: int) -> None:
    def tell(number: int, answer: Any) -> None:
        os.write(write, (json.dumps([number, answer]) + "\n").encode())

    desk.SNAPSHOT_EVERY = 8  # so that there are some to die in
    with counting(calls):
        live_through(SqlStore(url), 0, tell)
    os.write(write, (json.dumps([-1, calls.n]) + "\n").encode())
