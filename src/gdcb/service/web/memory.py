"""Finished decisions of late, in memory: similar cases are looked for among them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from gdcb import events as ev
from gdcb.arrays import Array
from gdcb.cases import Record
from gdcb.ledger.live import Live

MOST = 4_000
LOOK_BACK = 1_500


@dataclass(frozen=True, slots=True)
class Finished:
    """A decision that ran and whose outcome is known."""

    id: str
    at: int
    unit: str
    x: Array
    action: Array
    status: str
    reward: float | None
    by: str


class Memory:
    """The latest finished decisions of an instance; it reads some old ones, and follows a desk."""

    def __init__(self) -> None:
        self._rows: OrderedDict[str, Finished] = OrderedDict()
        self._lock = threading.Lock()
        self._erasures = 0

    def backfill(self, live: Live) -> None:
        """Read the outcomes among the last entries; runs at the desk."""
        self.heard(live, max(0, len(live.events) - LOOK_BACK), len(live.events))

    def heard(self, live: Live, first: int, stop: int) -> None:
        """Take up the outcomes among new events, and forget whose context was erased."""
        if live.erasures != self._erasures:
            self._erasures = live.erasures
            self._forget(live)
        ids: dict[str, None] = {}  # in order, and each once
        for event in live.events[max(first, stop - LOOK_BACK) : stop]:
            if isinstance(event, ev.OutcomeObserved):
                ids |= dict.fromkeys(event.id[-200:])
            elif isinstance(event, ev.OutcomeCorrected):
                ids[event.id] = None
        records = [live.records[id] for id in ids]
        found = [_finished(live, one) for one in records if _is_whole(one)]
        with self._lock:
            for one in found:
                self._rows[one.id] = one
                self._rows.move_to_end(one.id)
            while len(self._rows) > MOST:
                self._rows.popitem(last=False)

    def _forget(self, live: Live) -> None:
        """Let go of decisions whose contexts were erased."""
        with self._lock:
            gone = [id for id in self._rows if not _is_whole(live.records[id])]
            for id in gone:
                del self._rows[id]

    def similar(self, x: Array, unit: str, most: int = 6) -> list[tuple[Finished, float]]:
        """Return the nearest finished decisions by context, with a likeness from 0 to 1.

        Distance is Euclidean over columns in standard deviations of what is remembered; the same
        unit counts as nearer by half of one.
        """
        with self._lock:
            rows = list(self._rows.values())
        if len(rows) < 2:
            return []
        known = np.array([row.x for row in rows])
        spread = known.std(axis=0)
        spread[spread == 0] = np.inf
        distance = np.sqrt((((known - x) / spread) ** 2).sum(axis=1))
        distance += np.array([0.0 if row.unit == unit else 0.5 for row in rows])
        nearest = np.argsort(distance, kind="stable")[:most]
        return [(rows[i], float(1.0 / (1.0 + distance[i]))) for i in nearest]


def _is_whole(record: Record) -> bool:
    """Whether nothing of its context was erased."""
    return bool(np.isfinite(record.made.x[record.at]).all())


def _finished(live: Live, record: Record) -> Finished:
    action = np.array([np.nan]) if record.executed is None else record.executed
    outcome = np.array([record.outcome], dtype=float)
    x = record.made.x[record.at]
    reward = live.instance.realised(outcome, action[None], x[None])[0]
    by = record.review.by if isinstance(record.review, ev.Reviewed) else ""
    known = float(reward) if np.isfinite(reward) else None
    return Finished(
        record.id, live.time_of(record.ran_at), record.unit, x, action, record.status, known, by
    )
