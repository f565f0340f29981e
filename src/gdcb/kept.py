"""Finished rows that are kept: refits read them, and corrections change them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gdcb.arrays import Array
from gdcb.records import Log

HISTORY = -1
_NO_KEY = -1


@dataclass(frozen=True, slots=True)
class Weights:
    """How far each kept row counts: `places` (n, 3) as in `Kept`, `weight` (n,)."""

    places: Array
    weight: Array


class Kept:
    """Rows of the log in the order in which their outcomes came, with the events that brought them.

    The rows of a history come first; their event is −1. Rows whose contexts stand under a key are
    let go with it.
    """

    def __init__(self) -> None:
        self.keys: dict[str, int] = {}
        self._logs: list[Log] = []
        # Per row: the event that brought it, its row there, and the number of its key.
        self._places: list[Array] = []

    def add(
        self,
        log: Log,
        number: int,
        rows: Array | None = None,
        keys: Sequence[str] | None = None,
    ) -> None:
        """Keep rows that an event brought: all of them, or these; with their keys, '' for none."""
        n = log.unit.size
        places = np.full((n, 3), number, dtype=np.int64)
        places[:, 1] = np.arange(n) if rows is None else rows
        places[:, 2] = _NO_KEY if keys is None else self._codes(keys)
        self._logs.append(log)
        self._places.append(places)

    def _codes(self, keys: Sequence[str]) -> list[int]:
        known = self.keys
        return [known.setdefault(key, len(known)) if key else _NO_KEY for key in keys]

    @property
    def log(self) -> Log | None:
        """All rows; None where there are none."""
        if len(self._logs) > 1:
            self._logs = [Log.concatenate(self._logs)]
            self._places = [np.concatenate(self._places)]
        return self._logs[0] if self._logs else None

    @property
    def places(self) -> Array:
        """The event that brought each row, its row there, and its key's number in `keys`."""
        return np.zeros((0, 3), dtype=np.int64) if self.log is None else self._places[0]

    @property
    def numbers(self) -> Array:
        """The event that brought each row."""
        return self.places[:, 0]

    def put(
        self, log: Log | None, numbers: Array, places: Array | None = None, keys: Iterable[str] = ()
    ) -> None:
        """Take these rows for all there are; without `places`, none is missing or has a key."""
        if places is None:
            first = np.searchsorted(numbers, numbers)
            rows = np.arange(numbers.size) - first
            places = np.stack((numbers, rows, np.full(numbers.size, _NO_KEY)), axis=1)
        self.keys = {key: code for code, key in enumerate(keys)}
        self._logs, self._places = ([], []) if log is None else ([log], [places])

    def find(self, number: int, row: int) -> int:
        """Return the place of a row by its event, and its row there."""
        start, stop = np.searchsorted(self.numbers, (number, number + 1))
        return int(start + np.searchsorted(self.places[start:stop, 1], row))

    def drop(self, keys: Iterable[str]) -> int:
        """Let the rows under some keys go; return how many there were."""
        known, codes = self.log, [self.keys[key] for key in keys if key in self.keys]
        if known is None or not codes:
            return 0
        is_gone = np.isin(self.places[:, 2], codes)
        left = np.flatnonzero(~is_gone)
        places = self.places[left]
        self._logs, self._places = ([known.take(left)], [places]) if left.size else ([], [])
        return int(is_gone.sum())

    @property
    def is_plain(self) -> bool:
        """Whether no row has a key, and none is missing."""
        numbers, rows, keys = self.places.T
        first = np.searchsorted(numbers, numbers)
        is_whole = bool((rows == np.arange(numbers.size) - first).all())
        return is_whole and bool((keys == _NO_KEY).all())

    def weigh(self, share: Callable[[Array], Array]) -> None:
        """Let rows count for a share of what they did, which goes by their events."""
        known = self.log
        if known is not None:
            self._logs = [replace(known, weight=known.weight * share(self.numbers))]

    @property
    def weights(self) -> Weights:
        """How far each row counts now; later changes leave it as it is."""
        known = self.log
        return Weights(self.places, np.zeros(0) if known is None else known.weight)

    def weigh_as(self, then: Weights) -> None:
        """Let each row count as it did once; one that was not there then counts for nothing."""
        known = self.log
        if known is None:
            return
        rows = (self.places[:, 1], then.places[:, 1])
        width = 1 + max(int(one.max(initial=0)) for one in rows)
        mine, theirs = (
            places[:, 0] * width + places[:, 1] for places in (self.places, then.places)
        )
        weight = np.zeros(known.weight.shape)
        if theirs.size:
            at = np.minimum(np.searchsorted(theirs, mine), theirs.size - 1)
            weight = np.where(theirs[at] == mine, then.weight[at], 0.0)
        self._logs = [replace(known, weight=weight)]

    def correct(self, at: int, new: Log) -> None:
        """Give the row at a place the outcome of another."""
        self._logs = [self.corrected(at, new)]

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
