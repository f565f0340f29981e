"""What happens by itself: holds expire, windows close, scalers are refitted.

Every process has such a clock. What it finds due is checked again inside the transaction, so that
two clocks do no more than one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from gdcb import events as ev
from gdcb.cases import about
from gdcb.codec import from_body
from gdcb.errors import Conflict, GdcbError
from gdcb.ledger.indexing import slot_name
from gdcb.ledger.story import request_of
from gdcb.service.answering import SECOND, expire, overdue
from gdcb.service.cursors import Cursors
from gdcb.service.desk import Desk
from gdcb.service.observing import POLICY
from gdcb.service.operating import refit
from gdcb.service.turn import Turn

log = logging.getLogger("gdcb.service")
AT_ONCE = 500
SCANNED = 1_000  # entries that are gone over at once, and behind which a cursor may stay
ROUNDS = 20  # closings in one tick at most
OUTCOME = slot_name(ev.OutcomeObserved.__name__, 0, 0)


class Schedule:
    """The clock of one desk.

    Parameters
    ----------
    desk : whose holds and windows are looked after
    cursors : where it is kept up to which entry windows were closed; None: from the first on
    """

    def __init__(self, desk: Desk, cursors: Cursors | None = None) -> None:
        self.desk, self._cursors = desk, cursors
        self._cursor: int | None = None
        self._kept = 0
        self._refit_at: int | None = None

    def tick(self) -> int:
        """Do what is due; return how many decisions were touched."""
        return self._expire() + self._close() + self._refit()

    def _expire(self) -> int:
        desk = self.desk
        due = desk.look(lambda live: overdue(live, desk.policy, desk.clock())).result()
        done = 0
        for id in due[:AT_ONCE]:
            try:
                desk.submit(partial(_expired, id=id)).result()
                done += 1
            except GdcbError as error:  # answered in the meantime, or the store is away
                log.info("expiry of %s: %s", id, error)
        return done

    def _close(self) -> int:
        """Take the default outcome of decisions whose window is over and that have none.

        Every entry is gone over once its window is over, however long this process was away and
        whatever the window was before; whoever starts without a cursor begins at the first.
        """
        done = 0
        try:
            for _ in range(ROUNDS):
                policy = self.desk.policy.outcomes
                if policy.window is None or policy.default is None:
                    break
                over = self.desk.clock() - round(policy.window * SECOND)
                stop = self.desk.store.near(self.desk.chain, over + 1)
                begin = self._begin()
                if stop <= begin:
                    break
                ids, stop = self._unanswered(begin, min(stop, begin + SCANNED))
                if ids:
                    command = partial(_closed, ids=ids, window=policy.window)
                    done += self.desk.submit(command).result()
                self._move(stop)
        except GdcbError as error:
            log.info("closing windows: %s", error)
        return done

    def _begin(self) -> int:
        if self._cursor is None:
            known = None if self._cursors is None else self._cursors.of(self.desk.chain)
            self._cursor = self._kept = known or 0
        return self._cursor

    def _unanswered(self, begin: int, stop: int) -> tuple[list[str], int]:
        """Return decisions without an outcome that ran in entries from `begin` on.

        And where that ends: at `stop`, or behind the entry with which they are enough at once.
        """
        store, chain, found = self.desk.store, self.desk.chain, list[str]()
        for entry in store.read(chain, begin, stop):
            if entry.kind != ev.ActionExecuted.__name__:
                continue
            asked = {id: request_of(id)[:2] for id in about(from_body(entry.kind, entry.body))}
            touched = store.touches(chain, sorted({request for request, _ in asked.values()}))
            known = {(one.request, one.row) for one in touched if one.slot == OUTCOME}
            found += [id for id, place in asked.items() if place not in known]
            if len(found) >= AT_ONCE:
                return found, entry.seq + 1
        return found, stop

    def _move(self, to: int) -> None:
        """Go on behind what is committed; it is kept now and then, since going back is harmless."""
        self._cursor = to
        if self._cursors is not None and to - self._kept >= SCANNED:
            self._cursors.put(self.desk.chain, to)
            self._kept = to

    def _refit(self) -> int:
        every, now = self.desk.policy.refit_every, self.desk.clock()
        if every is None or (self._refit_at is not None and now < self._refit_at):
            return 0
        self._refit_at = now + round(every * SECOND)
        try:
            self._refit_at = self.desk.submit(partial(_refitted, every=every)).result()
        except GdcbError as error:
            log.info("scheduled refit: %s", error)
        return 0


def _refitted(turn: Turn, every: float) -> int:
    """Refit where the last refit, by whomever, is so long ago; return when to ask again."""
    period = round(every * SECOND)
    last = turn.live.fitted_at or turn.live.time_of(0)
    if turn.now < last + period:
        return last + period
    refit(turn, "schedule")
    return turn.now + period


def _closed(turn: Turn, ids: Sequence[str], window: float) -> int:
    """Take the default outcome of those that have none still; return how many they were."""
    live, policy = turn.live, turn.policy.outcomes
    if policy.window != window or policy.default is None:
        raise Conflict("another window was put in force in the meantime")
    late = [id for id in ids if live.records[id].seen is None]
    if late:
        values = [policy.default[name] for name in live.instance.reward.outcome]
        outcome = np.tile(np.array(values, dtype=float), (len(late), 1))
        turn.add(ev.OutcomeObserved(late, outcome, None, np.ones(len(late))), POLICY)
    return len(late)


def _expired(turn: Turn, id: str) -> None:
    expire(turn, id)


class Ticker:
    """A thread that lets schedules tick, and survives whatever one of them meets."""

    def __init__(self, schedules: Callable[[], Iterable[Schedule]], every: float = 1.0) -> None:
        self._schedules, self._every = schedules, every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="schedule", daemon=True)

    def start(self) -> None:
        """Begin to tick."""
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            for schedule in self._found():
                try:
                    schedule.tick()
                except Exception:
                    log.exception("schedule of %s", schedule.desk.chain)

    def _found(self) -> list[Schedule]:
        try:
            return list(self._schedules())
        except GdcbError as error:  # the store is away: it may be back at the next tick
            log.warning("schedules wait: %s", error)
        except Exception:
            log.exception("schedules wait")
        return []

    def stop(self) -> None:
        """Stop, and wait for the tick that is under way."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
