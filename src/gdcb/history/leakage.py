"""Guards against columns that knew the answer: what the outcome determines, what came too late.

They look at a sample of rows spread evenly over the log, and what they say is a warning: a column
may determine the outcome because it was written after it, or because the world is like that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isqrt

import numpy as np

from gdcb.arrays import Array
from gdcb.context import Category, Number
from gdcb.history.batch import Batch
from gdcb.history.layout import ContextColumn, Layout
from gdcb.history.relations import (
    ASKED,
    FEWEST,
    TELLS,
    determines,
    follows,
    implies,
    is_constant,
    makes_up,
    moves_with,
    tells,
)

LARGEST = 2**15  # rows of the sample
PAIRED = 2_000  # rows, about, in which a column is held against pairs of others
MOVED = 1_000  # the same for curves that only rise or fall
COMPARED = 100  # columns, at most, of which each is held against each other one
_PAIRS = 40_000  # pairs of columns that are tried for all actions together, about: a ms each


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
    if sample.n < FEWEST:
        return []
    rows = Batch.concatenate(sample.rows)
    said = []
    for part in layout.context:
        column = codes_of(rows.x, part)
        if is_constant(column):
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
                    "decision, or the action was set by it."
                )
    return said


def suspects_of(sample: Sample, layout: Layout) -> list[str]:
    """Return a sentence for every context column that knows suspiciously much, and no more.

    Unlike a leak it may well have been known before the decision.
    """
    if sample.n < FEWEST:
        return []
    rows = Batch.concatenate(sample.rows)
    some = slice(None, None, max(1, -(-rows.n // PAIRED)))
    few = slice(None, None, max(1, -(-rows.n // MOVED)))
    ask = "was it known before the decision?"
    compared = _compared(rows.take(some), layout)
    numbers = {
        one.name: rows.x[:, one.positions[0]]
        for one in layout.context
        if is_number(one) and one.name in compared
    }
    said = []
    for part in layout.context:
        column = codes_of(rows.x, part)
        if part.positions[0] in layout.bases or is_constant(column):
            continue
        for j, name in enumerate(layout.outcome_names):
            y = rows.outcome[:, j]
            seen = np.isfinite(y)
            if determines(column[seen], y[seen]):
                continue  # said already
            share = tells(column[seen], y[seen])
            if share > TELLS:
                said.append(
                    f"The context column '{part.name}' tells {100 * share:.0f} % of the outcome "
                    f"'{name}' all by itself: {ask}"
                )
            elif implies(column[seen], y[seen]):
                said.append(
                    f"Whenever the context column '{part.name}' differs from its usual value, the "
                    f"outcome '{name}' is the same: {ask}"
                )
        for j, action in enumerate(layout.actions):
            e = rows.action[:, j]
            if part.name not in compared or follows(column[some], e[some]):
                continue
            rest = [(name, x) for name, x in numbers.items() if name != part.name]
            made = ""
            if part.name in numbers:
                pairs = ((name, makes_up(column[some], e[some], x[some])) for name, x in rest)
                made = next((name for name, is_made in pairs if is_made), "")
            if not made:
                is_kind = isinstance(part.kind, Category)
                told = ((k, moves_with(column[few], e[few], x[few], is_kind)) for k, x in rest)
                made = next((name for name, share in told if share >= ASKED), "")
            if made:
                said.append(
                    f"The context column '{part.name}' is made of the executed '{action.name}' and "
                    f"'{made}': {ask}"
                )
    if len(compared) < len(layout.context):
        said.append(
            f"Only the {len(compared)} of {len(layout.context):,} context columns that tell most "
            "of the action or the outcome were compared in pairs: another column may be made of "
            "the action and a second column."
        )
    return said


def _compared(rows: Batch, layout: Layout) -> set[str]:
    """Return the columns that are held against each other: bases, and those that tell most."""
    most = min(COMPARED, isqrt(_PAIRS // max(len(layout.actions), 1)))
    if len(layout.context) <= most:
        return {one.name for one in layout.context}
    targets = [y for y in (*rows.action.T, *rows.outcome.T) if not is_constant(y)]

    def told(part: ContextColumn) -> float:
        if part.positions[0] in layout.bases:
            return np.inf
        column = codes_of(rows.x, part)
        known = ((np.isfinite(y), y) for y in targets)
        shares = [tells(column[seen], y[seen]) for seen, y in known]
        return float(np.nan_to_num(shares, nan=0.0).max(initial=0.0))

    return {one.name for one in sorted(layout.context, key=told, reverse=True)[:most]}


def is_number(part: ContextColumn) -> bool:
    """Return whether a context column is a number."""
    return isinstance(part.kind, Number)


def codes_of(x: Array, part: ContextColumn) -> Array:
    """Return a context column as one number a row, categories by their level's position."""
    if isinstance(part.kind, Category):
        codes: Array = x[:, list(part.positions)].argmax(axis=1).astype(np.float64)
        return codes
    column: Array = x[:, part.positions[0]]
    return column


def tells_rows_apart(sample: Sample, layout: Layout) -> bool:
    """Return whether a time or a context column nearly names the row, so that copies are no chance.

    Rows of a log with few possible contexts and no times are alike without being copies.
    """
    if sample.n == 0:
        return False
    rows = Batch.concatenate(sample.rows)
    _, first = np.unique(np.concatenate(sample.hashes), return_index=True)
    if len(first) == 1:
        return sample.n >= FEWEST
    columns = [rows.time[first]] if layout.time else []
    columns += [codes_of(rows.x[first], part) for part in layout.context]
    return max(len(np.unique(column)) for column in columns) > len(first) / 2
