"""Finished rows that are kept: refits read them, and corrections change them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gdcb.arrays import Array
from gdcb.records import Log

HISTORY = -1


class Kept:
    """Rows of the log in the order in which their outcomes came, with the events that brought them.

    `is_on` switches it off where nobody will ever read them. The rows of a history come first;
    their event is −1.
    """

    def __init__(self) -> None:
        self.is_on = True
        self._logs: list[Log] = []
        self._numbers: list[Array] = []

    def add(self, log: Log, number: int) -> None:
        """Keep the rows that an event brought."""
        if self.is_on:
            self._logs.append(log)
            self._numbers.append(np.full(log.unit.size, number, dtype=np.int64))

    @property
    def log(self) -> Log | None:
        """All rows; None where there are none."""
        if len(self._logs) > 1:
            self._logs = [Log.concatenate(self._logs)]
            self._numbers = [np.concatenate(self._numbers)]
        return self._logs[0] if self._logs else None

    @property
    def numbers(self) -> Array:
        """The event that brought each row."""
        return np.zeros(0, dtype=np.int64) if self.log is None else self._numbers[0]

    def put(self, log: Log | None, numbers: Array) -> None:
        """Take these rows for all that were kept."""
        self._logs, self._numbers = ([], []) if log is None else ([log], [numbers])

    def find(self, number: int, row: int) -> int:
        """Return the place of a row by its event, and its row there."""
        return int(np.searchsorted(self.numbers, number)) + row

    def weigh(self, share: Callable[[Array], Array]) -> None:
        """Let rows count for a share of what they did, which goes by their events."""
        known = self.log
        if known is not None:
            self._logs = [replace(known, weight=known.weight * share(self.numbers))]

    def corrected(self, at: int, new: Log) -> Log:
        """Return all rows, the one at a place with the outcome of another; changes nothing."""
        known = self.log
        if known is None:
            return new
        y, scale = known.y.copy(), None if known.scale is None else known.scale.copy()
        y[at] = new.y[0]
        if scale is not None and new.scale is not None:
            scale[at] = new.scale[0]
        return replace(known, y=y, scale=scale)
