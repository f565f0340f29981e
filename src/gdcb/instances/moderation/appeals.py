"""The appeal filter: what would probably be appealed against does not run in the first place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gdcb.arrays import Array, is_all, logistic
from gdcb.errors import InvalidInput
from gdcb.gates.base import HardGate
from gdcb.parts import (
    Column,
    check_choice,
    check_number,
    check_settings,
    column,
    take_all,
)
from gdcb.records import Rows


@dataclass(frozen=True)
class AppealFilter(HardGate):
    """Bar categories whose predicted probability of an appeal is above a limit.

    P(appeal | a, x) = σ(levels[a] + Σ_j weights[j]·x[columns[j]]), declared beforehand. Category a
    may run where P ≤ limit. What may not is turned into the nearest milder category that may
    (`otherwise` 'milder': remove becomes warn, warn becomes allow), or into nothing ('veto');
    where no milder one may run either, nothing does. Categories are in order, the mildest first.
    Context that is not a number bars, and so does a category that is none.

    Parameters
    ----------
    levels : log odds of an appeal for every category where the columns are 0
    columns, weights : context columns that move the log odds, and by how much
    limit : the largest predicted probability that may run
    otherwise : 'milder' or 'veto'
    action : action column that holds the category

    Notes
    -----
    Assumes: the prediction is declared and not learned here, reads the context alone, and holds
    for whatever proposed the action. Other columns of the action stay as proposed.

    Stops applying: it is a rule before the fact, and says nothing of the appeals that come all
    the same; those are events (`Agent.appeal`). A prediction that is wrong for a kind of post bars
    what should have run, for every method alike.

    Examples
    --------
    Log odds −3, −1 and 0, and 1 more in this context: σ(−2) = 0.12, σ(0) = 0.5, σ(1) = 0.73. At a
    limit of 0.6 'remove' becomes 'warn', at 0.4 'allow'.

    >>> rows = Rows(np.zeros(1, int), np.zeros(1, int), np.array([[1.0]]))
    >>> for limit in (0.6, 0.4):
    ...     gate = AppealFilter((-3.0, -1.0, 0.0), columns=(0,), weights=(1.0,), limit=limit)
    ...     print(gate.project(np.array([[[0.0], [1.0], [2.0]]]), rows).ravel().tolist())
    [0.0, 1.0, 1.0]
    [0.0, 0.0, 0.0]
    """

    levels: tuple[float, ...]
    columns: tuple[Column, ...] = column((), numeric=True)
    weights: tuple[float, ...] = ()
    limit: float = 0.5
    otherwise: str = "milder"
    action: int = 0
    name: str = "appeal filter"
    version: str = "1"
    keeps_nan: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self, "gate")
        where = f"gate '{self.name}'"
        for value in (*self.levels, *self.weights):
            check_number(f"{where}: levels and weights", value)
        if len(self.columns) != len(self.weights):
            raise InvalidInput(
                f"{where}: expected a weight for each of {len(self.columns)} columns, "
                f"got {len(self.weights)}"
            )
        check_number(f"{where}: limit", self.limit, 0.0, 1.0)
        if self.limit == 1.0:
            raise InvalidInput(f"{where}: limit: expected below 1; at 1 it would bar nothing")
        check_choice(f"{where}: otherwise", self.otherwise, ("milder", "veto"))

    @classmethod
    def example(cls) -> AppealFilter:
        """Return a filter for the checks of parts, which try it with three categories."""
        return cls((-3.0, -1.0, 0.0), columns=("first",), weights=(0.5,))

    def check(self, columns: Sequence[Any]) -> None:
        """Refuse an action without categories, or with other ones."""
        super().check(columns)
        found = columns[self.action]
        if len(found.levels) != len(self.levels):
            raise InvalidInput(
                f"gate '{self.name}': levels: expected one number for each of the "
                f"{len(found.levels)} categories of '{found.name}', got {len(self.levels)}"
            )

    def predicted(self, rows: Rows) -> Array:
        """Return the predicted probability of an appeal of every category: (N, categories)."""
        odds = np.zeros(rows.n)
        if self.columns:
            odds = (take_all(rows.x, self.columns) * np.array(self.weights)).sum(axis=1)
        return logistic(odds[:, None] + np.array(self.levels))

    def project(self, e: Array, rows: Rows) -> Array:
        """Put the nearest milder category that may run, or NaN, where one may not."""
        allowed = self.predicted(rows) <= self.limit  # NaN is not
        place = np.where(allowed, np.arange(len(self.levels)), -1)
        if self.otherwise == "milder":
            place = np.maximum.accumulate(place, axis=1)
        runs = np.where(place < 0, np.nan, place)
        kind = e[..., self.action]
        left = np.full(kind.shape, np.nan)
        for code in range(len(self.levels)):
            np.copyto(left, runs[:, code, None], where=kind == code)
        if is_all(left == kind):
            return e
        out = e.copy()
        out[..., self.action] = left
        out[np.isnan(left)] = np.nan
        return out

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        """Say how likely an appeal was, and what runs."""
        kind = entered[self.action]
        if not np.isfinite(kind) or kind not in range(len(self.levels)):
            return f"{kind:g} is none of the categories"
        chance = float(self.predicted(row)[0, int(kind)])
        said = f"an appeal is predicted with {chance:.2f}, and {self.limit:g} is the limit"
        if not np.isfinite(left).all():
            return f"{said}; nothing runs"
        if left[self.action] == kind:
            return f"an appeal is predicted with {chance:.2f}, within the limit {self.limit:g}"
        return f"{said}; category {left[self.action]:g} runs instead of {kind:g}"
