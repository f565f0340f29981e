"""Physical feasibility: the nearest feasible point on the way to a safe action."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gdcb.arrays import Array, is_all
from gdcb.errors import InvalidInput
from gdcb.gates import rules
from gdcb.gates.base import HardGate, require_number, status_of
from gdcb.gates.rules import Question, StandIn
from gdcb.parts import Column, check_number, check_settings, column
from gdcb.records import Rows


@dataclass(frozen=True)
class Physics(HardGate):
    """Move an infeasible action towards a declared safe one until it is feasible.

    On the segment e(t) = (1 − t)·e + t·s(x) from the proposal to the safe action s, the gate
    returns e(t) with the smallest t it finds feasible: t = 0 where the proposal is feasible
    itself, else by bisection to `tolerance`, or the first of `grid` points t = 1/grid, 2/grid, …,
    1. What is returned is always a point that `feasible` said yes to. Where the safe action is
    infeasible nothing runs.

    Parameters
    ----------
    feasible : (e (N, M, D), rows) → (N, M) booleans; a solve that does not converge says no
    towards : the safe action: one number for the column `action` (other columns stay) or one a
        column; or a function rows → (N, 1) or (N, D)
    towards_columns : the safe action as context columns instead (the setting in force)
    tolerance : share of the segment to which the boundary is found, bisection only
    grid : number of points to try instead of bisection, for sets with holes; 0: bisection
    action : action column that a one-number `towards` is about
    moves : action columns that move where `towards` has one a column, the others stay as proposed;
        empty: all. Categories cannot move: where there are any, a function needs it

    Notes
    -----
    Assumes: `feasible` judges every action by itself. For bisection to find the *nearest* point
    on the segment the feasible set must be star-shaped about s (convex is enough).

    Stops applying: in a set with holes bisection still ends at a feasible point, not always at
    the nearest; `grid` finds the nearest of its own points. The nearest point on the segment is
    not the nearest in the set.

    `feasible` may be a power-flow solve, so calls are bounded. One projection of (N, M) actions
    makes 1 call where all are feasible. Otherwise bisection makes at most
    2 + ⌈log₂(1/tolerance)⌉ calls (12 at the default), all but the first only on the B infeasible
    entries, as (B, 1, D); a grid makes 2, the second on (B, grid, D). A decision projects once to
    value the arms, once to gate the proposal, and once more where arms tie. Where `feasible`
    raises, rows are asked one by one.

    Examples
    --------
    Feasible up to 1, proposal 3, safe action 0: at a tolerance of 1/8 the points asked are 1.5
    (no), 0.75 (yes), 1.125 (no); 0.75 runs.

    >>> gate = Physics(lambda e, rows: e[..., 0] <= 1.0, towards=(0.0,), tolerance=0.125)
    >>> rows = Rows(np.zeros(1, int), np.zeros(1, int), np.zeros((1, 1)))
    >>> gate.project(np.array([[[3.0], [0.5]]]), rows).ravel().tolist()
    [0.75, 0.5]
    """

    feasible: Question
    towards: StandIn = ()
    towards_columns: tuple[Column, ...] = column((), numeric=True)
    tolerance: float = 1e-3
    grid: int = 0
    action: int = 0
    moves: tuple[int, ...] = ()
    name: str = "physics"
    version: str = "1"
    python_only: ClassVar[str] = "Physics(feasible=..., towards=...), feasible is a function"

    def __post_init__(self) -> None:
        check_settings(self, "gate")
        where = f"gate '{self.name}'"
        rules.check_stand_in(f"{where}: towards", self.towards, self.towards_columns)
        if self.towards == () and not self.towards_columns:
            raise InvalidInput(f"{where}: towards: name a safe action")
        check_number(f"{where}: tolerance", self.tolerance, 0.0, 0.5, open_low=True)
        check_number(f"{where}: grid", self.grid, 0)

    @property
    def n_calls(self) -> int:
        """The most calls of `feasible` that one projection makes."""
        return 2 if self.grid else 2 + math.ceil(-math.log2(self.tolerance))

    def check(self, columns: Sequence[Any]) -> None:
        """Refuse categories on the way: between two levels there is nothing."""
        super().check(columns)
        where = f"gate '{self.name}': towards"
        rules.check_fit(where, self.towards, self.towards_columns, self.action, columns)
        require_number(columns, self.action, self.name)
        wrong = [at for at in self.moves if at not in range(len(columns))]
        if wrong or (self.moves and self.action not in self.moves):
            raise InvalidInput(
                f"gate '{self.name}': moves: expected action columns 0 to {len(columns) - 1}, "
                f"{self.action} among them, got {self.moves}"
            )
        n = len(columns) if callable(self.towards) else len(self.towards or self.towards_columns)
        for at in (self.moves or range(n)) if n == len(columns) else ():
            if columns[at].levels:
                raise InvalidInput(
                    f"gate '{self.name}': '{columns[at].name}' is a category and cannot move; "
                    "name the columns that do, as in moves=(1,)"
                )

    def apply(self, draws: Array | None, e: Array, rows: Rows) -> tuple[Array, Array]:
        """Project once: with an `apply` of its own the gate is not tried out beforehand."""
        left = self.project(e[:, None, :], rows)[:, 0]
        return left, status_of(e, left)

    def project(self, e: Array, rows: Rows) -> Array:
        """Return the nearest feasible point found on the segment; NaN where there is none."""
        asked, runs = (e, None) if is_all(np.isfinite(e)) else rules.filled(e)
        kept = self._ask(asked, rows)
        if runs is not None:
            kept = kept | ~runs
        if is_all(kept):
            return e
        safe = self._safe(asked, rows)
        row, entry = np.nonzero(~kept)
        left = e.copy()
        left[row, entry] = self._nearest(e[row, entry], safe[row, entry], rows.take(row))
        return left

    def _safe(self, e: Array, rows: Rows) -> Array:
        """Return the safe action for each of e (N, M, D)."""
        where = f"gate '{self.name}': towards"
        given, columns = self.towards, self.towards_columns
        safe = rules.stand_in(e, rows, given, columns, self.action, where)
        if not self.moves:
            return safe
        return np.where(np.isin(np.arange(e.shape[-1]), self.moves), safe, e)

    def _ask(self, e: Array, rows: Rows) -> Array:
        return rules.ask(self.feasible, e, rows, f"gate '{self.name}': feasible")

    def _nearest(self, start: Array, safe: Array, rows: Rows) -> Array:
        """Search the segments from infeasible `start` to `safe`, (B, D) each."""
        known: Array = np.asarray(np.isfinite(safe).all(axis=1))
        safe = np.where(known[:, None], safe, start)
        search = self._on_grid if self.grid else self._bisect
        found = search(start, safe, rows)
        return np.where(known[:, None], found, np.nan)

    def _on_grid(self, start: Array, safe: Array, rows: Rows) -> Array:
        t = (np.arange(1, self.grid + 1) / self.grid)[:, None]
        points = _between(start[:, None], safe[:, None], t)
        yes = self._ask(points, rows)
        nearest = points[np.arange(start.shape[0]), yes.argmax(axis=1)]
        return np.where(yes[:, -1:], nearest, np.nan)

    def _bisect(self, start: Array, safe: Array, rows: Rows) -> Array:
        found = np.full(start.shape, np.nan)
        some = np.flatnonzero(self._ask(safe[:, None], rows)[:, 0])
        if some.size == 0:
            return found
        start, safe, rows = start[some], safe[some], rows.take(some)
        best, low, high = safe, np.zeros((some.size, 1)), np.ones((some.size, 1))
        for _ in range(self.n_calls - 2):
            middle = 0.5 * (low + high)
            point = _between(start, safe, middle)
            yes = self._ask(point[:, None], rows)
            best = np.where(yes, point, best)
            high, low = np.where(yes, middle, high), np.where(yes, low, middle)
        found[some] = best
        return found

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        """Say how far it was moved."""
        if not np.isfinite(left).all():
            return "it is not feasible, and neither is the safe action"
        if (entered == left).all():
            return "it is feasible"
        safe = self._safe(entered[None, None], row)[0, 0]
        far = int(np.abs(safe - entered).argmax())
        share = float((left[far] - entered[far]) / (safe[far] - entered[far]))
        return f"it is not feasible; moved {share:.1%} of the way to the safe action"


def _between(start: Array, safe: Array, t: Array) -> Array:
    """Return (1 − t)·start + t·safe; a column that does not change keeps its last bit."""
    return np.where(start == safe, start, (1.0 - t) * start + t * safe)
