"""Hard limits on a bolus: its size, by weight, and with the insulin that still acts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gdcb.arrays import Array
from gdcb.gates import HardGate
from gdcb.gates.base import require_number
from gdcb.parts import Column, check_number, check_settings, column, take
from gdcb.records import Rows


@dataclass(frozen=True)
class BolusLimits(HardGate):
    """Bring a bolus to within what may be given at once, and on top of what still acts.

    g(e, x) = min(max(e, 0), limit(x)) with limit = min(most, per_kg·weight, on_board·weight − iob),
    at least 0: with enough insulin on board no bolus is left. Where weight or insulin on board is
    not a number nothing runs.

    Parameters
    ----------
    iob, weight : context columns: insulin on board, units; body weight, kg
    most : largest bolus, units
    per_kg : largest bolus a kg, units
    on_board : largest insulin on board a kg, the bolus included, units
    action : action column that holds the dose

    Notes
    -----
    Assumes: weight and insulin on board in the context are right; the limits are the clinic's.

    Stops applying: it limits one bolus. Several within minutes are limited only as far as the
    context's insulin on board has counted them; slow insulin (basal) is not counted.

    Examples
    --------
    40 kg at 0.25 U/kg: 10 U at most. With 7 U on board and 0.3 U/kg allowed there, 5 U.

    >>> gate = BolusLimits(iob=0, weight=1)
    >>> rows = Rows(np.zeros(2, int), np.zeros(2, int), np.array([[0.0, 40.0], [7.0, 40.0]]))
    >>> gate.project(np.array([[[12.0], [-1.0]], [[12.0], [3.0]]]), rows)[..., 0].tolist()
    [[10.0, 0.0], [5.0, 3.0]]
    """

    iob: Column = column("iob", numeric=True)
    weight: Column = column("weight", numeric=True)
    most: float = 25.0
    per_kg: float = 0.25
    on_board: float = 0.3
    action: int = 0
    name: str = "bolus limits"
    version: str = "1"
    keeps_nan: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self, "gate")
        for name in ("most", "per_kg", "on_board"):
            check_number(f"gate '{self.name}': {name}", getattr(self, name), 0.0)

    def check(self, columns: Sequence[Any]) -> None:
        """Refuse where there is no such number among the action's columns."""
        super().check(columns)
        require_number(columns, self.action, self.name)

    def limit(self, rows: Rows) -> Array:
        """Return the largest bolus of every row, NaN where it is not known: (N,)."""
        weight, iob = take(rows.x, self.weight), take(rows.x, self.iob)
        free = np.maximum(self.on_board * weight - iob, 0.0)
        return np.asarray(np.minimum(np.minimum(self.most, self.per_kg * weight), free))

    def project(self, e: Array, rows: Rows) -> Array:
        """Bring the dose to within 0 and the limit."""
        dose = np.minimum(np.maximum(e[..., self.action], 0.0), self.limit(rows)[:, None])
        if e.shape[-1] == 1:
            return np.asarray(dose[..., None])
        left = np.array(e)
        left[..., self.action] = dose
        return left

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        """Name the limit that was broken."""
        dose, limit = float(entered[self.action]), float(self.limit(row)[0])
        if dose < 0.0:
            return f"{dose:g} units: a dose cannot be negative"
        if not dose > limit:
            return f"{dose:g} units are within the limit of {limit:g}"
        weight, iob = float(take(row.x, self.weight)[0]), float(take(row.x, self.iob)[0])
        if limit < min(self.most, self.per_kg * weight):
            return (
                f"{dose:g} units would make more than {self.on_board:g} U/kg on board, where "
                f"{iob:g} units act still: {limit:g} are left"
            )
        return f"{dose:g} units are above the largest bolus, {limit:g} for {weight:g} kg"
