"""Guards against columns that knew the answer: what the outcome determines, what came too late.

They look at a sample of rows spread evenly over the log, and what they say is a warning: a column
may determine the outcome because it was written after it, or because the world is like that.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gdcb.arrays import Array
from gdcb.context import Category
from gdcb.history.batch import Batch
from gdcb.history.layout import ContextColumn, Layout

LARGEST = 2**15  # rows of the sample
_FEWEST = 50  # rows below which nothing is said
_RARE = 20  # rows that have another outcome than the most common one, at least
_ERRORS = 0.001  # rows that a column which determines another may miss
_LINE = 0.999  # |correlation| of a column and a continuous outcome
_SAME = 0.999_99  # the same with an action: a base alone correlates highly


@dataclass(slots=True)
class Sample:
    """Rows spread over a log: every `step`-th, where step doubles when there are too many."""

    step: int = 1
    rows: list[Batch] = field(default_factory=list)
    hashes: list[Array] = field(default_factory=list)
    numbers: list[Array] = field(default_factory=list)
    n: int = 0

    def add(self, batch: Batch, hashes: Array, number: Array) -> None:
        """Take every `step`-th row of the log."""
        some = np.flatnonzero(number % self.step == 0) if self.step > 1 else np.arange(batch.n)
        while self.n + len(some) > LARGEST:
            self._thin()
            some = some[number[some] % self.step == 0]
        if len(some):
            parts = (batch.x, batch.action, batch.outcome, batch.unit, batch.time)
            taken = Batch(*(part[some] for part in parts))
            self.rows.append(taken)
            self.hashes.append(hashes[some])
            self.numbers.append(number[some])
            self.n += len(some)

    def merge(self, other: Sample) -> None:
        """Add the sample of another part of the same log."""
        while other.step < self.step:
            other._thin()
        while self.step < other.step:
            self._thin()
        for batch, hashes, number in zip(other.rows, other.hashes, other.numbers, strict=True):
            self.add(batch, hashes, number)

    def _thin(self) -> None:
        self.step *= 2
        kept = [number % self.step == 0 for number in self.numbers]
        self.rows = [batch.take(keep) for batch, keep in zip(self.rows, kept, strict=True)]
        self.hashes = [one[keep] for one, keep in zip(self.hashes, kept, strict=True)]
        self.numbers = [one[keep] for one, keep in zip(self.numbers, kept, strict=True)]
        self.n = sum(map(len, self.numbers))


def leaks_of(sample: Sample, layout: Layout) -> list[str]:
    """Return a sentence for every context column that may have known the answer."""
    if sample.n < _FEWEST:
        return []
    rows = Batch.concatenate(sample.rows)
    said = []
    for part in layout.context:
        column = _codes(rows.x, part)
        if _is_constant(column):
            continue
        for j, name in enumerate(layout.outcome_names):
            y = rows.outcome[:, j]
            seen = np.isfinite(y)
            if determines(column[seen], y[seen]):
                said.append(
                    f"The context column '{part.name}' all but determines the outcome '{name}' in "
                    f"{int(seen.sum()):,} sampled rows: was it written after the outcome?"
                )
        if part.positions[0] in layout.bases:
            continue  # what an action is a multiple of was there before it
        for j, action in enumerate(layout.actions):
            e = rows.action[:, j]
            ran = np.isfinite(e)
            if follows(column[ran], e[ran]):
                said.append(
                    f"The context column '{part.name}' is a function of the executed "
                    f"'{action.name}' in {int(ran.sum()):,} sampled rows: it was written after the "
                    "decision, or each of its values was given one action only."
                )
    return said


def determines(column: Array, outcome: Array) -> bool:
    """Return whether a column (N,) all but determines an outcome (N,).

    Few outcomes: rows beside each other in the order of the column nearly all share theirs,
    whichever way the column separates them. Many: |correlation| above 0.999.

    >>> x = np.arange(200.0)
    >>> determines(x, x > 120), determines(x, x % 2), determines(x, 3.0 * x)
    (True, False, True)
    """
    outcome = outcome.astype(np.float64)
    if len(outcome) < _FEWEST:
        return False
    classes, y, counts = np.unique(outcome, return_inverse=True, return_counts=True)
    rare = len(y) - int(counts.max())
    if rare < _RARE:
        return False
    if len(classes) > 10:
        return _correlation(column, outcome) > _LINE
    values, level = np.unique(column, return_inverse=True)
    table = np.zeros((len(values), len(classes)), dtype=np.int64)
    np.add.at(table, (level, y), 1)
    errors = len(y) - int(table.max(axis=1).sum())  # within a value, the most common outcome
    major = table.argmax(axis=1)
    changes = int((major[1:] != major[:-1]).sum())  # from one value to the next
    # As many changes as values are no separation but each row's own value.
    apart = changes if len(values) > 20 else 0
    return errors + apart <= min(max(_ERRORS * len(y), 2), 0.02 * rare + 2)


def follows(column: Array, action: Array) -> bool:
    """Return whether a column (N,) is a function of the executed action (N,).

    >>> e = np.tile([1.0, 2.0, 3.0], 50)
    >>> follows(2.0 * e, e), follows(np.arange(150.0), e)
    (True, False)
    """
    if len(action) < _FEWEST or _is_constant(action) or _is_constant(column):
        return False
    if _correlation(column, action) > _SAME:
        return True
    values, place, counts = np.unique(action, return_inverse=True, return_counts=True)
    if len(values) > len(action) // 10 or (counts[place] > 1).sum() < _FEWEST:
        return False  # actions hardly repeat: nothing to compare
    order = np.lexsort((column, place))
    same_action = place[order][1:] == place[order][:-1]
    differs = same_action & (column[order][1:] != column[order][:-1])
    return int(differs.sum()) <= _ERRORS * len(action) / 10


def _correlation(a: Array, b: Array) -> float:
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return abs(float((a * b).sum())) / size if size > 0 and np.isfinite(size) else 0.0


def _codes(x: Array, part: ContextColumn) -> Array:
    """Return a context column as one number a row, categories by their level's position."""
    if isinstance(part.kind, Category):
        codes: Array = x[:, list(part.positions)].argmax(axis=1).astype(np.float64)
        return codes
    column: Array = x[:, part.positions[0]]
    return column


def _is_constant(values: Array) -> bool:
    return len(values) == 0 or bool((values == values[0]).all())


def tells_rows_apart(sample: Sample, layout: Layout) -> bool:
    """Return whether a time or a context column nearly names the row, so that copies are no chance.

    Rows of a log with few possible contexts and no times are alike without being copies.
    """
    if sample.n == 0:
        return False
    rows = Batch.concatenate(sample.rows)
    _, first = np.unique(np.concatenate(sample.hashes), return_index=True)
    if len(first) == 1:
        return sample.n >= _FEWEST
    columns = [rows.time[first]] if layout.time else []
    columns += [_codes(rows.x[first], part) for part in layout.context]
    return max(len(np.unique(column)) for column in columns) > len(first) / 2
