"""Read a chain for its figures: what is new at once, and what takes long in small steps."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from gdcb.errors import StoreError
from gdcb.instance import Instance
from gdcb.ledger.sealing import Sealer
from gdcb.ledger.store import Store
from gdcb.service.figures.forecast import Forecast
from gdcb.service.figures.regretted import Regretted
from gdcb.service.figures.running import Running
from gdcb.service.figures.verified import Verified
from gdcb.service.figures.window import ROWS

log = logging.getLogger("gdcb.service")
LOOK_BACK = 100_000  # entries that are read after a start
BEGINNING = 100  # entries of a chain among which a history is looked for
STEP = 0.25  # seconds


@dataclass(slots=True)
class Reader:
    """The figures of one chain in one process; only one thread may use it at a time.

    Parameters
    ----------
    store, chain, instance : whose figures they are
    look_back : entries before the end that are read at first
    rows : decisions that are kept at most
    verified : how far the chain was checked; who has several readers, one after the other, gives
        each the same, and has it work
    """

    store: Store
    chain: str
    instance: Instance
    look_back: int = LOOK_BACK
    rows: int = ROWS
    running: Running = field(init=False)
    verified: Verified = field(init=False)
    forecast: Forecast = field(init=False)
    regretted: Regretted = field(default_factory=Regretted)
    size: int = 0
    _is_read: bool = False

    def __post_init__(self) -> None:
        self._begin()
        self.verified = Verified(self.store, self.chain)
        self.forecast = Forecast(self.store, self.chain)

    def _begin(self) -> None:
        """Begin to read, not further back than the look-back."""
        self.size = self.store.head(self.chain).size
        first = max(0, self.size - self.look_back)
        read = Sealer(self.store, self.chain).event_of
        self.running = Running(self.instance, first, self.rows, read)
        if first:  # a history comes before the first decision
            for entry in self.store.read(self.chain, 0, min(first, BEGINNING)):
                if entry.kind in ("HistoryImported", "CertificateGiven"):
                    self.running.certify(entry)

    def catch_up(self) -> None:
        """Read the entries that are new; where somebody was erased, all are read again."""
        self._follow()
        if self.running.has_erased and self._is_read:
            predicted = self.running.window
            self._begin()
            self._follow()
            ids = [predicted.ids[row] for row in predicted.order()]
            self.running.window.expected(ids, predicted.predicted[predicted.order()])
        self.running.has_erased, self._is_read = False, True

    def _follow(self) -> None:
        self.size = self.store.head(self.chain).size
        self.running.follow(self.store.read(self.chain, self.running.next, self.size))

    def work(self, now: int) -> bool:
        """Do a little of what takes long; return whether more is left.

        Monitors and the learner's forecasts take turns; the regret is estimated once they are done.
        What cannot be worked out, since an entry was changed, is left out from then on.
        """
        window, size = self.running.window, self.running.next
        until = time.monotonic() + STEP
        while time.monotonic() < until:
            waits = [
                self._tried(self.running.drift.look, self.running.drift.give_up),
                self._tried(partial(self.forecast.advance, window, size), self.forecast.give_up),
            ]
            if not any(waits):
                estimate = partial(self.regretted.advance, self.instance, window, now)
                self._tried(estimate, self.regretted.give_up)
                return False
        return True

    def _tried(self, step: Callable[[], bool], give_up: Callable[[], None]) -> bool:
        """Take a step; return whether more is left, and of what has failed nothing is."""
        try:
            return step()
        except StoreError:
            raise
        except Exception as error:  # whatever an entry that somebody changed may do
            log.warning("figures of %s: %s", self.chain, error)
            give_up()
            return False
