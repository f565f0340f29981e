"""A shield: what is not safe is replaced by a fallback that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gdcb.arrays import Array, is_all
from gdcb.errors import InvalidInput
from gdcb.gates import rules
from gdcb.gates.base import HardGate, require_number
from gdcb.gates.rules import Question, StandIn
from gdcb.parts import Column, check_settings, column, take
from gdcb.records import Rows


@dataclass(frozen=True)
class Shield(HardGate):
    """Let safe actions pass, and run a fallback in place of the others.

    g(e, x) = e where safe(e, x), else f(x) where safe(f(x), x), else nothing: a fallback that is
    not safe itself is vetoed. An action is safe if `predicate` says so and if, wherever the
    context has at_least ≤ x[when] ≤ at_most, its column lies within [low, high] and is none of the
    categories `denied`. The declared part needs no Python: 'when glucose is at most 90, no dose
    above 0' reads ``when = "glucose", at_most = 90.0, high = 0.0, fallback = [0.0]``.

    Parameters
    ----------
    predicate : (e (N, M, D), rows) → (N, M) booleans, whether an action is safe
    fallback : one number for the column `action` (other columns stay as proposed) or one a
        column; or, from Python, a function rows → (N, 1) or (N, D); empty: veto instead
    fallback_columns : the fallback as context columns (the last setting that ran)
    low, high : limits on the column `action`
    denied : categories of the column `action` that are not safe
    when, at_least, at_most : context column and the band of it in which limits and `denied` hold;
        without `when` they hold everywhere
    action : action column that limits, categories and a one-number fallback are about

    Notes
    -----
    Assumes: `predicate` judges every action by itself, from the action and its own row.

    Stops applying: safety is what the predicate says of one action now; nothing follows for a
    sequence of actions, nor where the predicate is a model of the plant and the model is wrong.

    Examples
    --------
    At glucose 80 the dose 2 is not safe and 0 runs instead; at 120 it passes.

    >>> gate = Shield(fallback=(0.0,), high=0.0, when=0, at_most=90.0)
    >>> rows = Rows(np.zeros(2, int), np.zeros(2, int), np.array([[80.0], [120.0]]))
    >>> gate.project(np.array([[[2.0]], [[2.0]]]), rows).ravel().tolist()
    [0.0, 2.0]
    """

    predicate: Question | None = None
    fallback: StandIn = ()
    fallback_columns: tuple[Column, ...] = column((), numeric=True)
    low: float = -np.inf
    high: float = np.inf
    denied: tuple[int, ...] = ()
    when: Column | None = column(None)
    at_least: float = -np.inf
    at_most: float = np.inf
    action: int = 0
    name: str = "shield"
    version: str = "1"
    keeps_nan: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self, "gate")
        rules.check_limits(self.name, self.low, self.high)
        rules.check_force(self.name, self.when, self.at_least, self.at_most)
        rules.check_stand_in(f"gate '{self.name}': fallback", self.fallback, self.fallback_columns)
        if self.predicate is None and not self._has_limits and not self.denied:
            raise InvalidInput(
                f"gate '{self.name}': nothing says what is safe; give a predicate, low, high or "
                "denied"
            )

    @property
    def _has_limits(self) -> bool:
        return bool(self.low > -np.inf or self.high < np.inf)

    def check(self, columns: Sequence[Any]) -> None:
        """Refuse limits on a category, categories that there are not, a fallback no action."""
        super().check(columns)
        rules.check_categories(f"gate '{self.name}': denied", self.denied, columns[self.action])
        if self._has_limits:
            require_number(columns, self.action, self.name)
        where = f"gate '{self.name}': fallback"
        rules.check_fit(where, self.fallback, self.fallback_columns, self.action, columns)

    def is_safe(self, e: Array, rows: Rows) -> Array:
        """Return whether actions (N, M, D) are safe: (N, M)."""
        kind = e[..., self.action]
        fits = (kind >= self.low) & (kind <= self.high)
        if self.denied:
            fits &= ~np.isin(kind, self.denied)
        if self.when is not None:
            fits |= ~rules.is_in_force(rows, self.when, self.at_least, self.at_most)
        if self.predicate is not None:
            fits = fits & rules.ask(self.predicate, e, rows, f"gate '{self.name}': predicate")
        return np.asarray(fits)

    def project(self, e: Array, rows: Rows) -> Array:
        """Put the fallback where the action is not safe, NaN where the fallback is not either."""
        asked, runs = (e, None) if is_all(np.isfinite(e)) else rules.filled(e)
        safe = self.is_safe(asked, rows)
        kept = safe if runs is None else safe | ~runs
        if is_all(kept):
            return e
        if self.fallback == () and not self.fallback_columns:
            return np.where(kept[..., None], e, np.nan)
        where = f"gate '{self.name}': fallback"
        given, columns = self.fallback, self.fallback_columns
        other = rules.stand_in(asked, rows, given, columns, self.action, where)
        known, is_there = rules.filled(other)
        is_good = self.is_safe(known, rows) & is_there
        return np.where(kept[..., None], e, np.where(is_good[..., None], other, np.nan))

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        """Say what was not safe, and what runs."""
        what = self._trouble(entered, row)
        if np.isfinite(left).all():
            return "it is safe" if (entered == left).all() else f"{what}; the fallback runs"
        has_fallback = self.fallback != () or self.fallback_columns
        return f"{what}, and neither is the fallback" if has_fallback else what

    def _trouble(self, entered: Array, row: Rows) -> str:
        value, text = float(entered[self.action]), "the predicate says that it"
        if bool(rules.is_in_force(row, self.when, self.at_least, self.at_most)[0, 0]):
            if value in self.denied:
                text = f"category {value:g}"
            elif value > self.high:
                text = f"{value:g}, above the limit {self.high:g},"
            elif value < self.low:
                text = f"{value:g}, below the limit {self.low:g},"
            if self.when is not None and not text.startswith("the"):
                at = float(take(row.x, self.when)[0])
                return f"{text} is not safe where the context has {at:g}"
        return f"{text} is not safe"
