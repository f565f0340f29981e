"""A policy filter: what may not run at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gdcb.arrays import Array, is_finite, like, namespace, put_where, zeros
from gdcb.errors import InvalidInput
from gdcb.gates.base import HardGate
from gdcb.gates.rules import check_categories
from gdcb.parts import Column, check_number, check_settings, column, require_of_new, take
from gdcb.records import Rows


@dataclass(frozen=True)
class PolicyFilter(HardGate):
    """Veto by rule: denied categories, an exhausted budget, a context that forbids acting.

    g(e, x) = nothing where e ∈ denied, or cost(e) > budget(x), or x[require] < at_least; else e.
    A context that is not a number forbids.

    Parameters
    ----------
    denied : categories of the action column that never run
    cost, budget : cost of each category, and the context column that must cover it
    require, at_least : context column that must reach a number (no bolus below 70 mg/dL)
    action : action column that holds the category

    Notes
    -----
    Assumes: a rule can be read off one action and one context; the budget left is in the context.

    Stops applying: it vetoes and never puts another action in the place, so a denied arm is worth
    the null action. It keeps no account: who spends the budget must lower it in later contexts.

    Examples
    --------
    Three categories that cost 1, 5 and 1, a budget of 3, the last one denied: only the first runs.

    >>> gate = PolicyFilter(denied=(2,), cost=(1.0, 5.0, 1.0), budget=0)
    >>> rows = Rows(np.zeros(1, int), np.zeros(1, int), np.array([[3.0]]))
    >>> gate.project(np.array([[[0.0], [1.0], [2.0]]]), rows).ravel().tolist()
    [0.0, nan, nan]
    """

    denied: tuple[int, ...] = ()
    cost: tuple[float, ...] = ()
    budget: Column | None = column(None)
    require: Column | None = column(None)
    at_least: float = 0.0
    action: int = 0
    name: str = "policy"
    version: str = "1"
    keeps_nan: ClassVar[bool] = True
    on_device: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self, "gate")
        check_number(f"gate '{self.name}': at_least", self.at_least)
        for cost in self.cost:
            check_number(f"gate '{self.name}': cost", cost)
        if bool(self.cost) != (self.budget is not None):
            raise InvalidInput(f"gate '{self.name}': cost and budget go together")
        require_of_new(
            bool(self.denied) or self.budget is not None or self.require is not None,
            f"gate '{self.name}': expected denied, cost with budget, or require; without a rule "
            "it would let everything pass",
        )

    def check(self, columns: Sequence[Any]) -> None:
        """Refuse categories that there are not, and costs that are not one a category."""
        super().check(columns)
        column = columns[self.action]
        check_categories(f"gate '{self.name}': denied", self.denied, column)
        if self.cost and len(self.cost) != len(column.levels):
            raise InvalidInput(
                f"gate '{self.name}': cost: expected one number for each of the "
                f"{len(column.levels)} categories of '{column.name}', got {len(self.cost)}"
            )

    def _denies(self, e: Array, rows: Rows) -> tuple[Array, Array, Array]:
        kind, xp = e[..., self.action], namespace(e)
        is_denied = zeros(kind.shape, kind, xp.bool)
        for category in self.denied:
            is_denied = is_denied | (kind == category)
        is_dear = zeros(kind.shape, kind, xp.bool)
        if self.budget is not None:
            known = is_finite(kind) & (kind >= 0) & (kind < len(self.cost))
            at = xp.astype(put_where(kind, ~known, 0.0), xp.int64)
            price = put_where(like(self.cost, kind)[at], ~known, np.inf)
            is_dear = ~(price <= take(rows.x, self.budget)[:, None])
        is_unfit = zeros(kind.shape, kind, xp.bool)
        if self.require is not None:
            is_unfit = is_unfit | ~(take(rows.x, self.require)[:, None] >= self.at_least)
        return is_denied, is_dear, is_unfit

    def project(self, e: Array, rows: Rows) -> Array:
        """Put NaN where a rule forbids the action."""
        is_denied, is_dear, is_unfit = self._denies(e, rows)
        return put_where(e, (is_denied | is_dear | is_unfit)[..., None], np.nan)

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        """Name the rule."""
        checks = self._denies(entered[None, None], row)
        is_denied, is_dear, is_unfit = (bool(check[0, 0]) for check in checks)
        if is_denied:
            return f"category {entered[self.action]:g} is denied"
        if is_dear and self.budget is not None:
            left_over = float(take(row.x, self.budget)[0])
            return f"category {entered[self.action]:g} costs more than the budget of {left_over:g}"
        if is_unfit and self.require is not None:
            value = float(take(row.x, self.require)[0])
            return f"the context has {value:g} where at least {self.at_least:g} is required"
        return "no rule forbids it"
