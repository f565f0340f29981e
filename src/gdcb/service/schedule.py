"""What happens by itself: holds expire, windows close, scalers are refitted.

Every process has such a clock. What it finds due is checked again inside the transaction, so that
two clocks do no more than one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from gdcb import events as ev
from gdcb.errors import GdcbError
from gdcb.service.answering import SECOND, expire, overdue
from gdcb.service.desk import Desk
from gdcb.service.operating import refit
from gdcb.service.turn import Turn

log = logging.getLogger("gdcb.service")
AT_ONCE = 500
_SLACK = 3600 * SECOND


class Schedule:
    """The clock of one desk.

    Parameters
    ----------
    desk : whose holds and windows are looked after
    """

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._cursor: int | None = None
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
        policy = self.desk.policy.outcomes
        if policy.window is None or policy.default is None:
            return 0
        try:
            done, cursor = self.desk.submit(self._close_windows).result()
        except GdcbError as error:
            log.info("closing windows: %s", error)
            return 0
        self._cursor = cursor  # once it is committed, and not before
        return done

    def _close_windows(self, turn: Turn) -> tuple[int, int | None]:
        """Take the default outcome of decisions whose window is over and that have none.

        Returns how many there were, and the first event that is still to be looked at.
        """
        live, policy = turn.live, turn.policy.outcomes
        if policy.window is None or policy.default is None:
            return 0, None
        window, cursor = round(policy.window * SECOND), self._cursor
        if cursor is None:
            cursor = live.store.near(live.chain, live.at - window - _SLACK)
        late: list[str] = []
        while cursor < len(live.events) and len(late) < AT_ONCE:
            if live.time_of(cursor) + window > turn.now:
                break
            event = live.events[cursor]
            if isinstance(event, ev.ActionExecuted):
                late += [id for id in event.id if live.records[id].seen is None]
            cursor += 1
        if late:
            values = [policy.default[name] for name in live.instance.reward.outcome]
            outcome = np.tile(np.array(values, dtype=float), (len(late), 1))
            turn.add(ev.OutcomeObserved(late, outcome, None, np.ones(len(late))), "policy")
        return len(late), cursor

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
