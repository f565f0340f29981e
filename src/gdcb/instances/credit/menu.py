"""A gate for what is offered in a few sizes only: tenors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.gates.base import HardGate, require_number
from gdcb.parts import check_number
from gdcb.records import Rows


@dataclass(frozen=True)
class Menu(HardGate):
    """Bring one action column to the nearest value that is on offer.

    g(e, x) = argmin over v ∈ values of |e − v|, the smaller of two that are as near. Idempotent.

    Parameters
    ----------
    values : what is on offer, rising
    action : action column that is brought there

    Notes
    -----
    Assumes: the column is a number, and any of the values may run whatever the other columns are.

    Stops applying: what is on offer does not depend on the row; where it does, give the rows a
    mask. Two arms that are brought to one value are one arm.

    Examples
    --------
    Of 12, 24 and 36 months, 17 is nearest to 12 and a million to 36.

    >>> rows = Rows(np.zeros(1, int), np.zeros(1, int), np.zeros((1, 1)))
    >>> e = np.array([[[17.0], [24.0], [1e6]]])
    >>> Menu(values=(12.0, 24.0, 36.0)).project(e, rows).ravel().tolist()
    [12.0, 24.0, 36.0]
    """

    values: tuple[float, ...] = ()
    action: int = 0
    name: str = "menu"
    version: str = "1"
    keeps_nan: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for value in self.values:
            check_number(f"gate '{self.name}': values", value)
        if not self.values or list(self.values) != sorted(set(self.values)):
            raise InvalidInput(
                f"gate '{self.name}': expected rising values, got {self.values}"
            )

    def check(self, columns: Sequence[Any]) -> None:
        """Refuse where there is no such number among the action's columns."""
        super().check(columns)
        require_number(columns, self.action, self.name)

    def project(self, e: Array, rows: Rows) -> Array:
        """Put the nearest value in the place of the column."""
        known = np.array(self.values)
        asked = e[..., self.action]
        place = np.searchsorted((known[1:] + known[:-1]) / 2.0, asked)
        left = e.copy()
        left[..., self.action] = np.where(np.isnan(asked), np.nan, known[place])
        return left

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        """Name what was asked for, and what is on offer."""
        asked, offered = float(entered[self.action]), ", ".join(f"{v:g}" for v in self.values)
        if asked in self.values:
            return f"{asked:g} is on offer"
        return f"{asked:g} is not on offer, which are {offered}"
