"""What the learner expected of what entered the gates, before it knew what would come of it.

The values in a decision are drawn, and the largest draw was chosen: both make them poor forecasts.
So the chain is folded once more, behind the desk, and asked for its posterior mean at each
decision. A fold that has fallen far behind goes on from a snapshot, and has no forecasts of what it
left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb import events as ev
from gdcb.arrays import Array
from gdcb.cases import Record, rows_of
from gdcb.errors import BrokenChain, GdcbError
from gdcb.ledger.live import Live, begun, opened
from gdcb.ledger.store import Store
from gdcb.ledger.story import CACHED_RECORDS
from gdcb.records import Setting
from gdcb.service.figures.window import Window

FAR = 20_000  # entries; who is further behind leaves some out
BEGIN = 5_000  # entries before the end from which on forecasts are wanted at first
AT_ONCE = 50


@dataclass(slots=True)
class Forecast:
    """A fold of one chain that says what it expects; what it knows is no truth but a projection."""

    store: Store
    chain: str
    live: Live | None = None
    is_off: bool = False

    def give_up(self) -> None:
        """Expect nothing any more, and keep nothing: the chain cannot be folded."""
        self.live, self.is_off = None, True

    def advance(self, window: Window, size: int) -> bool:
        """Fold some entries of the first `size` of the chain; return whether more are left."""
        if self.is_off:
            return False
        live = self.live
        if live is None or size - len(live.events) > FAR:
            live = self.live = self._begin(size)
            return True
        stop = min(size, len(live.events) + AT_ONCE)
        for entry in self.store.read(self.chain, len(live.events), stop):
            if entry.seq != len(live.events):
                break
            event = live.event_of(entry)
            if isinstance(event, ev.DecisionMade) and event.version == entry.seq:
                window.expected(event.id, expected(live, event))
            live.take(event, entry.at, entry.by)
            if isinstance(event, ev.DecisionMade):
                _keep(live, event)
        if len(live.events) < stop:
            raise BrokenChain(f"entry {len(live.events)} is missing")
        return stop < size

    def _begin(self, size: int) -> Live:
        """Return a fold from which the end is not far, and not too near."""
        for before in (max(0, size - BEGIN), size):
            snapshot = self.store.snapshot(self.chain, before)
            if snapshot is not None and size - snapshot.size <= FAR:
                return opened(self.store, self.chain, snapshot.size)
        return begun(self.store, self.chain) if size <= FAR else opened(self.store, self.chain)


def _keep(live: Live, event: ev.DecisionMade) -> None:
    """Keep new decisions at hand: to put one together from a store reads all of its request."""
    records = live.records
    for at, (id, unit) in enumerate(zip(event.id, event.unit, strict=True)):
        records[id] = Record(event, at, live.units[unit])
    for old in list(records)[: max(0, len(records) - CACHED_RECORDS)]:
        del records[old]


def expected(live: Live, event: ev.DecisionMade) -> Array:
    """Return what a fold expects of what enters the gates: (N,); NaN where it cannot say.

    The chance of the class where classes are learned, else the reward.
    """
    instance, places = live.instance, live.places(event.unit)
    rows = rows_of(places, event.x, None)
    entered = event.action
    if event.instead is not None:
        held_back = np.isfinite(event.instead).all(axis=1, keepdims=True)
        entered = np.where(held_back, event.instead, entered)
    try:
        state, _ = live.room(max(places) + 1)
        at = Setting(instance.cells.of(rows.unit, event.delta), rows.x, event.delta)
        e = entered[:, None]
        located = instance.composition.locate(instance.space, e, event.delta, rows.x)
        mean = live.bandit.mean(state.bandit, at, located)
        if instance.reward.target != "class":
            mean = instance.reward.worth(mean, e, rows.x)
    except GdcbError:
        return np.full(len(places), np.nan)
    return np.asarray(mean[:, 0])
