"""How far a chain was verified: entry by entry in the background, and all over again each day."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, field

from gdcb.ledger.inspection import Inspection
from gdcb.ledger.store import Store
from gdcb.service.figures.hours import DAY
from gdcb.service.pages.views.dashboard import ChainState

AT_ONCE = 2_000
STEP = 0.25  # seconds


@dataclass(slots=True)
class Verified:
    """A check of one chain that goes on where it stopped.

    Entries that were changed after they were checked are found by the next round, which begins a
    day after the last one did.

    Parameters
    ----------
    store, chain : what is checked
    size : entries checked in this round
    total : entries of the chain, when they were last counted
    at : when the end was last reached, µs; None: never
    is_whole : what was found then
    """

    store: Store
    chain: str
    size: int = 0
    total: int = 0
    at: int | None = None
    is_whole: bool | None = None
    words: str = ""
    _begun: int | None = None
    _reached: int = 0
    _check: Inspection = field(init=False)

    def __post_init__(self) -> None:
        self._check = Inspection(self.chain)

    def advance(self, now: int) -> bool:
        """Check some entries; return whether more are left."""
        if self._begun is None or (now - self._begun >= DAY and self.at is not None):
            self._check, self.size, self._begun = Inspection(self.chain), 0, now
        head = self.store.head(self.chain)
        self.total = head.size
        stop = min(head.size, self.size + AT_ONCE)
        for entry in self.store.read(self.chain, self.size, stop):
            self._check.add(entry)
            self.size = max(
                self.size, entry.seq + 1
            )  # a store that goes away is asked for the rest
        self.size = max(self.size, stop)
        if self.size < head.size:
            return True
        check = copy.deepcopy(self._check)  # more will come, so it stays open
        for entry in self.store.read(self.chain, head.size, head.size + 1):
            if self.store.head(self.chain).size <= entry.seq:  # nobody is about to write it
                check.add(entry)
        report = check.close(head)
        self.at, self.is_whole = now, report.ok
        self.words = report.findings[0].says if report.findings else ""
        self._reached = self.size
        return False

    def work(self, now: int) -> bool:
        """Check for a moment; return whether more is left."""
        until = time.monotonic() + STEP
        while self.advance(now):
            if time.monotonic() >= until:
                return True
        return False

    def state(self, size: int | None = None) -> ChainState:
        """Return it as the dashboard shows it; `size` is how far the chain goes now."""
        size = self.total if size is None else size
        if self.at is None:
            found = bool(self._check.findings)
            done = self.size - 1 if self.size else None
            words = self._check.findings[0].says if found else ""
            return ChainState(size - 1, done, self._begun, False if found else None, words)
        return ChainState(size - 1, self._reached - 1, self.at, self.is_whole, self.words)
