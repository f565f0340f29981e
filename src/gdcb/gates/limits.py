"""Hard limits on a number: bounds on both sides, and a cap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gdcb.arrays import Array, at_least, at_most, namespace, put_where
from gdcb.gates.base import HardGate, require_number
from gdcb.gates.rules import check_limits
from gdcb.parts import Column, check_choice, check_settings, column, require_of_new, take
from gdcb.records import Rows


@dataclass(frozen=True)
class Bounds(HardGate):
    """Keep one action column within [low, high], by projection or by veto.

    g(e, x) = min(max(e, low(x)), high(x)) by projection; by veto, e where it lies within the
    limits and nothing where it does not. Limits are numbers, context columns (a physical limit
    that varies), or the tighter of both. Where low(x) > high(x) nothing runs.

    Parameters
    ----------
    low, high : limits; one of them, or of the columns, must be given
    low_column, high_column : context columns that hold the row's own limits
    action : action column that is limited
    outside : 'project' moves an action to the limit, 'veto' does not let it run

    Notes
    -----
    Assumes: the column is a number, and every number within the limits may run whatever the other
    columns are.

    Stops applying: limits that tie columns to each other, and feasible sets with holes, need a
    gate that looks at the whole action. Within the limits the gate is the identity: it does not
    make the executed actions of two policies alike.

    Examples
    --------
    Within [50, 300], 20 is moved up, 120 stays and 400 is moved down.

    >>> gate = Bounds(low=50.0, high=300.0)
    >>> rows = Rows(np.zeros(1, int), np.zeros(1, int), np.zeros((1, 1)))
    >>> gate.project(np.array([[[20.0], [120.0], [400.0]]]), rows).ravel().tolist()
    [50.0, 120.0, 300.0]
    """

    low: float = -np.inf
    high: float = np.inf
    low_column: Column | None = column(None)
    high_column: Column | None = column(None)
    action: int = 0
    outside: str = "project"
    name: str = "bounds"
    version: str = "1"
    keeps_nan: ClassVar[bool] = True
    on_device: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self, "gate")
        check_choice("gate.outside", self.outside, ("project", "veto"))
        check_limits(self.name, self.low, self.high)
        columns = (self.low_column, self.high_column)
        require_of_new(
            (self.low, self.high, *columns) != (-math.inf, math.inf, None, None),
            f"gate '{self.name}': expected low, high or both (or low_column, high_column); "
            "without a limit it would let everything pass",
        )

    def check(self, columns: Sequence[Any]) -> None:
        """Refuse where there is no such number among the action's columns."""
        super().check(columns)
        require_number(columns, self.action, self.name)

    def limits(self, rows: Rows) -> tuple[Array | float, Array | float]:
        """Return the limits of each row: numbers, or (N, 1)."""
        low: Array | float = self.low
        high: Array | float = self.high
        if self.low_column is not None:
            low = at_least(take(rows.x, self.low_column)[:, None], low)
        if self.high_column is not None:
            high = at_most(take(rows.x, self.high_column)[:, None], high)
        return low, high

    def project(self, e: Array, rows: Rows) -> Array:
        """Clip, or put NaN where the column lies outside; impossible limits veto."""
        low, high = self.limits(rows)
        column = e[..., self.action]
        kept = at_most(at_least(column, low), high)
        if self.low_column is not None or self.high_column is not None:
            possible: Any = low <= high
            kept = put_where(kept, ~possible, np.nan)
        if self.outside == "veto":
            kept = put_where(column, kept != column, np.nan)
        if e.shape[-1] == 1:
            return kept[..., None]
        left: Array = namespace(e).asarray(e, copy=True)
        left[..., self.action] = kept
        return (
            put_where(left, (kept != kept)[..., None], np.nan) if self.outside == "veto" else left
        )

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        """Name the limit that was broken."""
        low, high = (float(np.ravel(limit)[0]) for limit in self.limits(row))
        value = float(entered[self.action])
        if not low <= high:
            return f"no value is allowed: the lower limit {low:g} is above the upper {high:g}"
        if value > high:
            return f"{value:g} is above the upper limit {high:g}"
        if value < low:
            return f"{value:g} is below the lower limit {low:g}"
        return f"{value:g} lies within {low:g} and {high:g}"


@dataclass(frozen=True)
class Cap(HardGate):
    """Never let one action column exceed a limit: the compliance rule (an APR cap).

    g(e, x) = min(e, limit(x)). Idempotent: what passed once passes again.

    Parameters
    ----------
    limit : the cap
    limit_column : context column that holds the row's own cap; the lower of both is in force.
        One of the two must be given
    action : action column that is capped

    Notes
    -----
    Assumes: the column is a number, and less of it is always allowed.

    Stops applying: it knows no lower limit; for both sides take `Bounds`. All arms above the cap
    become one action, so nothing is learned of what they would have done.

    Examples
    --------
    A cap of 36 lowers 40 to 36 and leaves 20; a row whose own cap is 30 lowers 40 to 30.

    >>> gate = Cap(limit=36.0, limit_column=0)
    >>> rows = Rows(np.zeros(2, int), np.zeros(2, int), np.array([[99.0], [30.0]]))
    >>> gate.project(np.array([[[40.0], [20.0]], [[40.0], [20.0]]]), rows)[..., 0].tolist()
    [[36.0, 20.0], [30.0, 20.0]]
    """

    limit: float = np.inf
    limit_column: Column | None = column(None)
    action: int = 0
    name: str = "cap"
    version: str = "1"
    keeps_nan: ClassVar[bool] = True
    on_device: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self, "gate")
        # nothing is above nan, and everything would pass
        require_of_new(not math.isnan(self.limit), "gate.limit: expected a number, got nan")
        require_of_new(
            self.limit != math.inf or self.limit_column is not None,
            f"gate '{self.name}': expected limit or limit_column; without one it would let "
            "everything pass",
        )

    def check(self, columns: Sequence[Any]) -> None:
        """Refuse where there is no such number among the action's columns."""
        super().check(columns)
        require_number(columns, self.action, self.name)

    def _limit(self, rows: Rows) -> Array | float:
        if self.limit_column is None:
            return self.limit
        return at_most(take(rows.x, self.limit_column)[:, None], self.limit)

    def project(self, e: Array, rows: Rows) -> Array:
        """Lower the column to the limit."""
        if e.shape[-1] == 1:
            return at_most(e[..., 0], self._limit(rows))[..., None]
        left: Array = namespace(e).asarray(e, copy=True)
        left[..., self.action] = at_most(e[..., self.action], self._limit(rows))
        return left

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        """Name the limit and the value."""
        limit, value = float(np.ravel(self._limit(row))[0]), float(entered[self.action])
        if value > limit:
            return f"{value:g} exceeds the cap of {limit:g}"
        return f"{value:g} is within the cap of {limit:g}"
