"""Numbers: multiply with a base, or add."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gdcb.arms import NUMBERS, Arms
from gdcb.arrays import Array, along, like, namespace, on_host, once, zeros
from gdcb.composition.base import ActionColumn, base_of
from gdcb.errors import InvalidInput
from gdcb.parts import Column, check_settings, column
from gdcb.records import Located


def _nearest(arms: Arms, coord_by_arm: Array) -> Located:
    """Locate where every arm has its own δ: each arm judges by its own scale (N, M, K, C)."""
    gap = arms.distance(coord_by_arm, slice(None))
    arm = gap.argmin(axis=-1)
    steps = along(gap, arm[..., None], axis=-1)[..., 0]
    coord = along(coord_by_arm, arm[..., None, None], axis=-2)[..., 0, :]
    return Located(arm, coord, lambda: steps)


def _numeric(names: tuple[str, ...], arms: Arms) -> tuple[ActionColumn, ...]:
    if not names:
        names = ("action",) if arms.n_coords == 1 else tuple(f"action_{i}" for i in range(99))
    elif len(names) != arms.n_coords:
        raise InvalidInput(
            f"composition.names: expected {arms.n_coords} names, one a coordinate, got {len(names)}"
        )
    return tuple(ActionColumn(name) for name in names[: arms.n_coords])


@dataclass(frozen=True)
class Multiply:
    """Scale the arm by a base and by δ: prices, rates, amounts.

    Φ(a, δ) = base(x) · δ · a on the first q coordinates, q the columns of δ; later ones pass
    through. With (rate, tenor) arms and a one-column δ the rate is scaled and the tenor is not.
    The coordinate of an action is e / (base · δ): what it is in units of the arms.
    ‖Φ(a, δ₁) − Φ(a, δ₂)‖ ≤ max |base · a| · ‖δ₁ − δ₂‖, the bound of Assumption 1.

    Parameters
    ----------
    base : context columns whose product is the base (price, market multiplier); none: 1
    names : names of the action's columns, one a coordinate; made up where omitted

    Notes
    -----
    Assumes: base and δ are above 0, and context moves the best action by a factor, so that one
    nominal arm is best at every x once δ is right.

    Stops applying: near a base or δ of 0 every arm is the same action, and the coordinate
    e / (base · δ) says nothing. Scale is not identified between arms and δ: c·δ and a/c make
    the same action, so a scaler must be centred. Where context changes which arm is best even
    after scaling, give the learner cells, or a learner that reads x.

    Examples
    --------
    Base 100, δ = 2: the arms 0.75 and 1.25 become 150 and 250. An executed 210 is the arm
    210/200 = 1.05 under this δ, nearest to the second.

    >>> import numpy as np
    >>> from gdcb.arms import ArmList
    >>> arms = ArmList(values=(0.75, 1.25)).build()
    >>> phi, delta, x = Multiply(base=(0,)), np.array([[[2.0]]]), np.array([[100.0]])
    >>> phi.compose(arms, delta, x).ravel().tolist()
    [150.0, 250.0]
    >>> found = phi.locate(arms, np.array([[[210.0]]]), delta, x)
    >>> found.coord.ravel().tolist(), found.arm.ravel().tolist()
    ([1.05], [1])
    """

    base: tuple[Column, ...] = column((), numeric=True)
    names: tuple[str, ...] = ()
    needs_positive: ClassVar[bool] = True
    arm_kind: ClassVar[str] = NUMBERS
    joins: ClassVar[str] = "product"
    on_device: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self, "composition")

    def columns(self, arms: Arms) -> tuple[ActionColumn, ...]:
        """Return one number a coordinate."""
        return _numeric(self.names, arms)

    def _unit(self, delta: Array, x: Array) -> Array:
        base = base_of(self.base, x)
        return delta if base is None else delta * base[:, None, None]

    def compose(self, arms: Arms, delta: Array, x: Array) -> Array:
        """Return base · δ · a: (N, K, D)."""
        unit, q, coords = self._unit(delta, x), delta.shape[-1], like(arms.coords, x)
        if q == arms.n_coords:
            on_numpy = on_host(unit)
            scaled: Array = unit * coords if on_numpy else once(lambda some: some * coords, unit)
            return scaled
        out = zeros((x.shape[0], arms.n, arms.n_coords), x)
        out[..., :q] = unit * coords[:, :q]
        out[..., q:] = coords[:, q:]
        return out

    def locate(self, arms: Arms, e: Array, delta: Array, x: Array) -> Located:
        """Find the arm nearest to e / (base · δ)."""
        unit, q = self._unit(delta, x), delta.shape[-1]
        if delta.shape[1] > 1:
            return _nearest(arms, _divided(e[:, :, None, :], unit[:, None], q))
        return arms.locate(_divided(e, unit, q))

    @np.errstate(divide="ignore", invalid="ignore")
    def relative(self, e: Array, x: Array) -> Array:
        """Return e / base; only the columns that δ scales are on its scale."""
        base = base_of(self.base, x)
        return e if base is None else e / base[:, None]

    def lipschitz(self, arms: Arms, delta: Array, x: Array) -> float:
        """Return max |base · a| over rows and arms."""
        base = base_of(self.base, x)
        largest = np.abs(arms.coords[:, : delta.shape[-1]]).max()
        return float(largest * (1.0 if base is None else np.abs(base).max()))


# A base of 0 leaves no action relative to it; whoever asks then is answered with infinity or NaN.
@np.errstate(divide="ignore", invalid="ignore")
def _divided(e: Array, unit: Array, q: int) -> Array:
    if q == e.shape[-1]:
        whole: Array = e / unit
        return whole
    shape = np.broadcast_shapes(e.shape[:-1], unit.shape[:-1])
    out = zeros((*shape, e.shape[-1]), e)
    out[...] = e
    out[..., :q] /= unit
    return out


@dataclass(frozen=True)
class Add:
    """Shift the arm by δ: doses, set points, sheds.

    Φ(a, δ) = a + δ on the first q coordinates, q the columns of δ; later ones pass through. The
    coordinate of an action is e − δ. ‖Φ(a, δ₁) − Φ(a, δ₂)‖ = ‖δ₁ − δ₂‖: the bound of
    Assumption 1 is 1.

    Parameters
    ----------
    names : names of the action's columns, one a coordinate; made up where omitted

    Notes
    -----
    Assumes: context moves the best action by an amount in the arms' own unit, so that one nominal
    arm is best at every x once δ is right.

    Stops applying: nothing keeps a + δ within a range (a dose may come out below 0): bounds are a
    gate's work. The level is not identified between arms and δ: δ + c and a − c make the same
    action, so a scaler must be centred. Where effects are proportional, multiply.

    Examples
    --------
    δ = 0.5: the arms 0 and 2 become 0.5 and 2.5. An executed 2 is the arm 2 − 0.5 = 1.5, nearest
    to the second.

    >>> import numpy as np
    >>> from gdcb.arms import ArmList
    >>> arms = ArmList(values=(0.0, 2.0)).build()
    >>> phi, delta, x = Add(), np.array([[[0.5]]]), np.zeros((1, 1))
    >>> phi.compose(arms, delta, x).ravel().tolist()
    [0.5, 2.5]
    >>> found = phi.locate(arms, np.array([[[2.0]]]), delta, x)
    >>> found.coord.ravel().tolist(), found.arm.ravel().tolist()
    ([1.5], [1])
    """

    names: tuple[str, ...] = ()
    needs_positive: ClassVar[bool] = False
    arm_kind: ClassVar[str] = NUMBERS
    joins: ClassVar[str] = "sum"
    on_device: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self, "composition")

    def columns(self, arms: Arms) -> tuple[ActionColumn, ...]:
        """Return one number a coordinate."""
        return _numeric(self.names, arms)

    def compose(self, arms: Arms, delta: Array, x: Array) -> Array:
        """Return a + δ: (N, K, D)."""
        coords = like(arms.coords, x)
        return once(lambda some: coords + _padded(some, arms.n_coords), delta)

    def locate(self, arms: Arms, e: Array, delta: Array, x: Array) -> Located:
        """Find the arm nearest to e − δ."""
        offset = _padded(delta, arms.n_coords)
        if delta.shape[1] > 1:
            return _nearest(arms, e[:, :, None, :] - offset[:, None])
        return arms.locate(e - offset)

    def relative(self, e: Array, x: Array) -> Array:
        """Return e itself."""
        return e

    def lipschitz(self, arms: Arms, delta: Array, x: Array) -> float:
        """Return 1."""
        return 1.0


def _padded(delta: Array, n: int) -> Array:
    short = n - delta.shape[-1]
    if short == 0:
        return delta
    rest = zeros((*delta.shape[:-1], short), delta)
    padded: Array = namespace(delta).concat((delta, rest), axis=-1)
    return padded
