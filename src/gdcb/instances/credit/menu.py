"""A gate for what is offered in a few sizes only: tenors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gdcb.arrays import Array, is_any
from gdcb.errors import InvalidInput
from gdcb.gates.base import HardGate, require_number
from gdcb.gates.rules import check_limits
from gdcb.parts import Column, check_number, check_settings, column, require_of_new, take
from gdcb.records import Rows

MOST_VALUES = 500  # each is held against every arm of every row
MOST_NAMED = 12  # in a reason, which is written down for every row
_MANY = 5_000  # values × actions of a row: from here on a search for each row is faster


@dataclass(frozen=True)
class Menu(HardGate):
    """Bring one action column to the nearest value that is on offer in a row.

    What is on offer is v(x) = min(max(value · base(x)/typical, low), high) for each of the values,
    and g(e, x) = argmin over them of |e − v(x)|, the smaller of two that are as near. Idempotent.

    Parameters
    ----------
    values : what is on offer at a base of `typical`, rising; 500 at most
    base : context column that the values are multiplied with; None: they are as they are
    typical : the base at which they are as they are
    low, high : limits of what is on offer
    action : action column that is brought there

    Notes
    -----
    Assumes: the column is a number, and any of the values may run whatever the other columns are.

    Stops applying: where only some of the values are on offer to some, give the rows a mask. Two
    arms that are brought to one value are one arm.

    Examples
    --------
    12, 24 and 36 months for who asks for two years. Asked for one year, 6, 12 and 18 are on offer:
    10 is nearest to 12, and a million to 18.

    >>> rows = Rows(np.zeros(1, int), np.zeros(1, int), np.array([[1.0]]))
    >>> e = np.array([[[10.0], [12.0], [1e6]]])
    >>> Menu(values=(12.0, 24.0, 36.0), base=0, typical=2.0).project(e, rows).ravel().tolist()
    [12.0, 12.0, 18.0]
    """

    values: tuple[float, ...] = ()
    base: Column | None = column(None)
    typical: float = 1.0
    low: float = -np.inf
    high: float = np.inf
    action: int = 0
    name: str = "menu"
    version: str = "1"
    keeps_nan: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self, "gate")
        require_of_new(
            len(self.values) <= MOST_VALUES,
            f"gate '{self.name}': values: expected at most {MOST_VALUES}, got {len(self.values):,}",
        )
        for value in self.values:
            check_number(f"gate '{self.name}': values", value)
        check_number(f"gate '{self.name}': typical", self.typical, 0.0, open_low=True)
        if not self.values or list(self.values) != sorted(set(self.values)):
            raise InvalidInput(f"gate '{self.name}': expected rising values, got {self.values}")
        check_limits(self.name, self.low, self.high)

    @classmethod
    def example(cls) -> Menu:
        """Return one that can be checked."""
        return cls(values=(1.0, 2.0, 4.0))

    def check(self, columns: Sequence[Any]) -> None:
        """Refuse where there is no such number among the action's columns."""
        super().check(columns)
        require_number(columns, self.action, self.name)

    def offered(self, rows: Rows) -> Array:
        """Return what is on offer in every row, rising: (N, values)."""
        known = np.broadcast_to(np.array(self.values), (rows.n, len(self.values)))
        if self.base is not None:
            known = known * (take(rows.x, self.base) / self.typical)[:, None]
        return np.asarray(np.clip(known, self.low, self.high))

    def project(self, e: Array, rows: Rows) -> Array:
        """Put the nearest value in the place of the column."""
        known, asked = self.offered(rows), e[..., self.action]
        left, nearest = e.copy(), _nearest(known, asked)
        # What is infinitely far is nearest to the end on its side.
        if is_any(np.isinf(asked)):
            nearest = np.where(asked == np.inf, known[:, -1:], nearest)
            nearest = np.where(asked == -np.inf, known[:, :1], nearest)
        left[..., self.action] = nearest
        return left

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        """Name what was asked for, and what is on offer: of many values those next to it."""
        asked, known = float(entered[self.action]), self.offered(row)[0]
        if asked in known.tolist():
            return f"{asked:g} is on offer"
        if known.size <= MOST_NAMED:
            return f"{asked:g} is not on offer, which are {', '.join(f'{v:g}' for v in known)}"
        first = int(np.searchsorted(known, asked)) - MOST_NAMED // 2
        first = min(max(first, 0), known.size - MOST_NAMED)
        near = ", ".join(f"{v:g}" for v in known[first : first + MOST_NAMED])
        return f"{asked:g} is not on offer; those next to it, of {known.size}, are {near}"


def _nearest(known: Array, asked: Array) -> Array:
    """Return the value of known (N, values) that is nearest to each number asked for (N, M)."""
    if known.shape[1] * asked.shape[1] <= _MANY:
        return _nearest_of_few(known, asked)
    nearest = np.empty(asked.shape)
    for i, numbers in enumerate(asked):
        nearest[i] = _nearest_of_many(known[i], numbers)
    return nearest


def _nearest_of_many(known: Array, asked: Array) -> Array:
    """Return the same of one row, from the two values around each number.

    All values are compared where that is not sure to be the first of those that are nearest: they
    fall, or rounding makes more than two as near.
    """
    if is_any(known[1:] < known[:-1]):
        return _nearest_of_few(known[None], asked[None]).ravel()
    values = np.unique(known)
    at = np.searchsorted(values, asked)
    below, under, above = (values[np.clip(at - n, 0, values.size - 1)] for n in (2, 1, 0))
    gap = np.abs(asked - under)
    nearest: Array = np.where(gap <= np.abs(asked - above), under, above)
    is_unsure = np.isnan(asked) | ((at > 1) & ~(np.abs(asked - below) > gap))
    if is_any(is_unsure):
        nearest[is_unsure] = _nearest_of_few(known[None], asked[is_unsure][None]).ravel()
    return nearest


def _nearest_of_few(known: Array, asked: Array) -> Array:
    nearest, gap = np.full(asked.shape, np.nan), np.full(asked.shape, np.inf)
    for j in range(known.shape[1]):
        value = known[:, j, None]
        off = asked - value
        np.abs(off, out=off)
        is_nearer = off < gap
        np.copyto(nearest, value, where=is_nearer)
        np.copyto(gap, off, where=is_nearer)
    return nearest
