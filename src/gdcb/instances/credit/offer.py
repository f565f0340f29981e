"""Φ of an offer: a rate that the risk scales, and a tenor that the wish scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gdcb.arms import NUMBERS, Arms
from gdcb.arrays import Array
from gdcb.composition import ActionColumn
from gdcb.errors import InvalidInput
from gdcb.parts import Column, check_number, check_settings, column, product_of, take
from gdcb.records import Located


@dataclass(frozen=True)
class Offer:
    """Scale the rate by a base and by δ, and the tenor by the duration that was asked for.

    Φ((a, b), δ) = (base(x) · δ · a, b · wanted(x)/typical). A nominal tenor of 24 months is as long
    as was asked for, one of 12 half as long, where `typical` is two years. δ scales the rate alone.
    The coordinates of an action are (apr / (base · δ), tenor · typical/wanted): what it is in units
    of the arms. ‖Φ(a, δ₁) − Φ(a, δ₂)‖ ≤ max |base · a| · ‖δ₁ − δ₂‖, the bound of Assumption 1.

    Parameters
    ----------
    base : context columns whose product is the list rate
    wanted : context column: the duration asked for
    typical : the duration at which nominal tenors are as they are, in the unit of `wanted`
    names : names of the two columns of an action

    Notes
    -----
    Assumes: list rate, δ and duration are above 0; applicants judge a tenor by how far it is from
    what they asked for, in proportion.

    Stops applying: where the duration asked for is a formality, nominal tenors should be months,
    and `multiply` leaves them so.

    Examples
    --------
    List rate 0.1, δ = 1.5, one year asked for: the arm (1.2, 24) is 0.18 over 12 months, and these
    are found to be that arm.

    >>> from gdcb.arms import Grid
    >>> arms = Grid({"rate": (0.8, 1.2), "tenor": (24.0, 36.0)}, combine="none").build()
    >>> phi, delta, x = Offer(base=(0,), wanted=1), np.array([[[1.5]]]), np.array([[0.1, 1.0]])
    >>> e = phi.compose(arms, delta, x)
    >>> e[0, 2].round(9).tolist(), phi.locate(arms, e, delta, x).arm.tolist()
    ([0.18, 12.0], [[0, 1, 2, 3]])
    """

    base: tuple[Column, ...] = column(("base",))
    wanted: Column = column("wanted")
    typical: float = 2.0
    names: tuple[str, ...] = ("apr", "tenor")
    needs_positive: ClassVar[bool] = True
    arm_kind: ClassVar[str] = NUMBERS
    joins: ClassVar[str] = "product"

    def __post_init__(self) -> None:
        check_settings(self, "composition")
        if not self.base:
            raise InvalidInput("composition.base: expected the list rate's columns, got none")
        check_number("composition.typical", self.typical, 0.0, open_low=True)
        if len(self.names) != 2:
            raise InvalidInput(f"composition.names: expected 2 names, got {len(self.names)}")

    def columns(self, arms: Arms) -> tuple[ActionColumn, ...]:
        """Return rate and tenor."""
        if arms.n_coords != 2:
            raise InvalidInput(
                f"composition: expected arms of a rate and a tenor, got {arms.n_coords} factors"
            )
        return tuple(ActionColumn(name) for name in self.names)

    def _units(self, x: Array) -> Array:
        """Return what a unit of every coordinate is, δ apart: (N, 1, 2)."""
        return np.stack((product_of(x, self.base), take(x, self.wanted) / self.typical), axis=1)[
            :, None
        ]

    def compose(self, arms: Arms, delta: Array, x: Array) -> Array:
        """Return (base · δ · a, wanted/typical · b): (N, K, 2)."""
        out = self._units(x) * arms.coords
        out[..., 0] *= delta[..., 0]
        return np.asarray(out)

    def locate(self, arms: Arms, e: Array, delta: Array, x: Array) -> Located:
        """Find the arm nearest to (apr / (base · δ), tenor · typical/wanted)."""
        coord = e / self._units(x)
        if delta.shape[1] == 1:
            coord[..., 0] /= delta[..., 0]
            return arms.locate(coord)
        by_arm = np.repeat(coord[:, :, None], arms.n, axis=2)  # each arm judges by its own δ
        by_arm[..., 0] /= delta[:, None, :, 0]
        gap = arms.distance(by_arm, slice(None))
        arm = gap.argmin(axis=-1)
        steps = np.take_along_axis(gap, arm[..., None], axis=-1)[..., 0]
        nearest = np.take_along_axis(by_arm, arm[..., None, None], axis=2)[:, :, 0]
        return Located(arm, nearest, lambda: steps)

    def relative(self, e: Array, x: Array) -> Array:
        """Return (apr / base, tenor · typical/wanted)."""
        return np.asarray(e / self._units(x)[:, 0])

    def lipschitz(self, arms: Arms, delta: Array, x: Array) -> float:
        """Return max |base · a| over rows and arms."""
        return float(np.abs(arms.coords[:, 0]).max() * np.abs(product_of(x, self.base)).max())
