"""Counts by the hour: decisions by status, and verdicts by gate; the oldest hours are dropped."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gdcb import events as ev
from gdcb.arrays import Array
from gdcb.gates import Chain
from gdcb.records import HELD, MODIFIED, PASSED, STATUS, VETOED

HOUR = 3_600_000_000
DAY = 24 * HOUR
KEPT = 31 * 24


@dataclass(slots=True)
class Hours:
    """What happened in each of the last hours.

    Parameters
    ----------
    chain : the gates
    flow : by hour, decisions that were made then, by the status that they have now (5,)
    verdicts : by hour, verdicts of each gate, and how many of them changed or vetoed (G, 2)
    held : decisions that wait: when they were made, and the gate that holds them
    """

    chain: Chain
    flow: dict[int, Array] = field(default_factory=dict)
    verdicts: dict[int, Array] = field(default_factory=dict)
    held: dict[str, tuple[int, int]] = field(default_factory=dict)
    _asked: tuple[list[str], int] = field(default_factory=lambda: ([], 0))

    def made(self, event: ev.DecisionMade, at: int) -> None:
        """Remember when decisions were made, until the gates answer."""
        self._asked = event.id, at

    def judged(self, event: ev.GateApplied, at: int) -> None:
        """Count verdicts.

        Of a gate that asks people, those count that a person gave: proposals that it did not hold
        nobody looked at, and what expired nobody answered. Of other gates all count.
        """
        (n, n_gates), (asked, asked_at) = event.statuses.shape, self._asked
        is_first = event.id == asked
        was, made = np.full(n, -1), np.full(n, asked_at)  # the gate that held it before; when
        if is_first:
            self._count(asked_at, event.status, 1)
        else:
            for row, id in enumerate(event.id):
                if id in self.held:
                    made[row], was[row] = self.held.pop(id)
                    self._count(int(made[row]), np.array([HELD]), -1)
                    self._count(int(made[row]), event.status[row : row + 1], 1)
        found = _hour(self.verdicts, at, (n_gates, 2))
        is_told = is_first | (was >= 0)  # of others it is not known what is news
        for g, gate in enumerate(self.chain.gates):
            is_due = (was == g) if gate.is_person else is_told & (was < g)
            status = event.statuses[:, g]
            is_said = is_due & np.isin(status, (PASSED, MODIFIED, VETOED))
            found[g] += is_said.sum(), (is_said & (status != PASSED)).sum()
        waits = np.flatnonzero((event.status == HELD) & is_told)
        for i in waits.tolist():
            holds = int(np.flatnonzero(event.statuses[i] == HELD)[0])
            self.held[event.id[i]] = int(made[i]), holds
        self._asked = [], 0
        for table in (self.flow, self.verdicts):
            _trim(table)

    def _count(self, made: int, status: Array, by: int) -> None:
        found = _hour(self.flow, made, (len(STATUS),))
        found += by * np.bincount(status, minlength=len(STATUS))

    def flow_of(self, first: int, last: int) -> tuple[list[int], Array]:
        """Return hours from `first` to `last` (µs), and the decisions of each: (T, 5)."""
        times = list(range(first - first % HOUR, last + 1, HOUR))
        none = np.zeros(len(STATUS), dtype=np.int64)
        return times, np.array([self.flow.get(at, none) for at in times]).reshape(-1, len(STATUS))

    def verdicts_of(self, first: int, last: int, step: int) -> tuple[list[int], Array]:
        """Return spans of `step` µs from `first` to `last`, and the verdicts of each: (T, G, 2)."""
        start = first - first % step
        times = list(range(start, last + 1, step))
        found = np.zeros((len(times), len(self.chain.gates), 2), dtype=np.int64)
        for at, counts in self.verdicts.items():
            i = (at - start) // step
            if 0 <= i < len(times):
                found[i] += counts
        return times, found


def _hour(table: dict[int, Array], at: int, shape: tuple[int, ...]) -> Array:
    return table.setdefault(at - at % HOUR, np.zeros(shape, dtype=np.int64))


def _trim(table: dict[int, Array]) -> None:
    while len(table) > KEPT:
        del table[min(table)]
