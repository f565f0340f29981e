"""The latest decisions of a chain in columns: a row each, and the oldest row makes room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from gdcb import events as ev
from gdcb.arrays import Array
from gdcb.instance import Instance
from gdcb.records import NOT_REACHED

ROWS = 50_000
OPEN = -1  # the gates have not answered yet


class Window:
    """At most `size` decisions, as they stand now.

    Parameters
    ----------
    instance : whose decisions they are; says how wide the columns are
    size : rows at most

    Attributes
    ----------
    at, unit : when it was made (µs), and a number that stands for its unit
    x, delta, entered, arm : context, scaler's output, what entered the gates, proposed arm
    status, statuses, trail : what the gates say, as in `records.Verdict`
    is_live : whether the proposal entered the gates, and not the incumbent's action
    share, by_unit : chance that it did (NaN: nothing was drawn), and whether drawn a unit
    has_run, ran_at, is_null, executed : what ran, and when (µs)
    is_known, outcome : whether the outcome came, and what it is now
    predicted : what the learner expected of what entered, before it knew; NaN: not worked out
    """

    def __init__(self, instance: Instance, size: int = ROWS) -> None:
        n_gates, d = len(instance.chain.gates), len(instance.actions)
        width, outcomes = instance.context.width, len(instance.reward.outcome)
        self.size, self.n_made = size, 0
        self.ids: list[str] = []
        self._place: dict[str, int] = {}
        self.at = np.zeros(size, dtype=np.int64)
        self.unit = np.zeros(size, dtype=np.int64)
        self.arm = np.zeros(size, dtype=np.int64)
        self.x = np.zeros((size, width))
        self.delta: Array | None = None  # its width is known with the first row
        self.entered = np.zeros((size, d))
        self.status = np.zeros(size, dtype=np.int8)
        self.statuses = np.zeros((size, n_gates), dtype=np.int8)
        self.trail = np.zeros((size, n_gates + 1, d))
        self.is_live = np.zeros(size, dtype=bool)
        self.share = np.zeros(size)
        self.by_unit = np.zeros(size, dtype=bool)
        self.has_run = np.zeros(size, dtype=bool)
        self.ran_at = np.zeros(size, dtype=np.int64)
        self.is_null = np.zeros(size, dtype=bool)
        self.executed = np.zeros((size, d))
        self.is_known = np.zeros(size, dtype=bool)
        self.outcome = np.zeros((size, outcomes))
        self.predicted = np.zeros(size)

    @property
    def n(self) -> int:
        """Rows that are there."""
        return min(self.n_made, self.size)

    def order(self) -> Array:
        """Return the rows that are there, the oldest first."""
        if self.n_made <= self.size:
            return np.arange(self.n_made)
        return np.asarray((np.arange(self.size) + self.n_made) % self.size)

    def find(self, ids: Iterable[str]) -> tuple[Array, Array]:
        """Return which of the ids are here, and the rows where they stand."""
        found = [(i, at) for i, id in enumerate(ids) if (at := self._place.get(id, -1)) >= 0]
        both = np.array(found, dtype=np.int64).reshape(-1, 2)
        return both[:, 0], both[:, 1]

    def made(self, event: ev.DecisionMade, at: int) -> None:
        """Add decisions; where there is no room, the oldest go."""
        rows, first = self._room(event.id)
        one = slice(first, len(event.id))
        self.at[rows] = at
        self.unit[rows] = [hash(unit) for unit in event.unit[one]]
        self.arm[rows] = event.arm[one]
        self.x[rows] = event.x[one]
        if self.delta is None or self.delta.shape[1:] != event.delta.shape[1:]:
            self.delta = np.full((self.size, *event.delta.shape[1:]), np.nan)
        self.delta[rows] = event.delta[one]
        self.entered[rows] = event.action[one]
        self.is_live[rows] = True
        if event.instead is not None:
            instead = event.instead[one]
            held_back = np.isfinite(instead).all(axis=1)
            self.entered[rows[held_back]] = instead[held_back]
            self.is_live[rows] = ~held_back
        self.share[rows] = np.nan if event.share is None else event.share[one]
        self.by_unit[rows] = event.drawn_by == "unit"
        self.status[rows], self.statuses[rows], self.trail[rows] = OPEN, NOT_REACHED, np.nan
        self.has_run[rows] = self.is_known[rows] = self.is_null[rows] = False
        self.ran_at[rows] = 0
        self.executed[rows] = self.outcome[rows] = np.nan
        self.predicted[rows] = np.nan

    def _room(self, ids: Sequence[str]) -> tuple[Array, int]:
        """Return rows for the last of the ids that fit, and how many of the first do not."""
        first = max(0, len(ids) - self.size)
        self.n_made += first
        rows = (np.arange(len(ids) - first) + self.n_made) % self.size
        for row, id in zip(rows.tolist(), ids[first:], strict=True):
            if row < len(self.ids):
                self._place.pop(self.ids[row], None)
                self.ids[row] = id
            else:
                self.ids += [""] * (row - len(self.ids)) + [id]
            self._place[id] = row
        self.n_made += len(ids) - first
        return rows, first

    def judged(self, event: ev.GateApplied) -> None:
        """Note what the gates say now."""
        of, rows = self.find(event.id)
        self.status[rows], self.statuses[rows] = event.status[of], event.statuses[of]
        self.trail[rows] = event.trail[of]

    def ran(self, event: ev.ActionExecuted, at: int) -> None:
        """Note what ran."""
        of, rows = self.find(event.id)
        self.has_run[rows], self.ran_at[rows] = True, at
        self.is_null[rows], self.executed[rows] = event.is_null[of], event.action[of]

    def seen(self, event: ev.OutcomeObserved) -> None:
        """Note what came of it."""
        of, rows = self.find(event.id)
        self.is_known[rows], self.outcome[rows] = True, event.outcome[of]

    def corrected(self, event: ev.OutcomeCorrected) -> None:
        """Note what really came of it."""
        _, rows = self.find([event.id])
        self.outcome[rows] = event.outcome

    def expected(self, ids: Sequence[str], predicted: Array) -> None:
        """Note what the learner expected."""
        of, rows = self.find(ids)
        self.predicted[rows] = predicted[of]
