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
        self._refitted = desk.clock()

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
            return self.desk.submit(self._close_windows).result()
        except GdcbError as error:
            log.info("closing windows: %s", error)
            return 0

    def _close_windows(self, turn: Turn) -> int:
        """Take the default outcome of decisions whose window is over and that have none."""
        live, policy = turn.live, turn.policy.outcomes
        window = round((policy.window or 0.0) * SECOND)
        if self._cursor is None:
            self._cursor = live.store.near(live.chain, live.at - window - _SLACK)
        late: list[str] = []
        while self._cursor < len(live.events) and len(late) < AT_ONCE:
            if live.time_of(self._cursor) + window > turn.now:
                break
            event = live.events[self._cursor]
            if isinstance(event, ev.ActionExecuted):
                late += [id for id in event.id if live.records[id].seen is None]
            self._cursor += 1
        if late:
            values = [(policy.default or {})[name] for name in live.instance.reward.outcome]
            outcome = np.tile(np.array(values, dtype=float), (len(late), 1))
            turn.add(ev.OutcomeObserved(late, outcome, None, np.ones(len(late))), "policy")
        return len(late)

    def _refit(self) -> int:
        every = self.desk.policy.refit_every
        if every is None or self.desk.clock() < self._refitted + round(every * SECOND):
            return 0
        self._refitted = self.desk.clock()
        try:
            self.desk.submit(lambda turn: refit(turn, "schedule")).result()
        except GdcbError as error:
            log.info("scheduled refit: %s", error)
        return 0


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
            for schedule in list(self._schedules()):
                try:
                    schedule.tick()
                except Exception:
                    log.exception("schedule of %s", schedule.desk.chain)

    def stop(self) -> None:
        """Stop, and wait for the tick that is under way."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)
