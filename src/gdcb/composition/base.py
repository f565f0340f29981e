"""What a composition is to a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gdcb.arms import CATEGORIES, NUMBERS, Arms
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import Column, product_of, require_of_new
from gdcb.records import Located


@dataclass(frozen=True)
class ActionColumn:
    """One column of an executable action: a number, or a category by its level's position."""

    name: str
    levels: tuple[str, ...] = ()


class Composition(Protocol):
    """Φ: A × Δ → E on rows, and its inverse seen from the arms."""

    @property
    def needs_positive(self) -> bool:
        """Whether δ must be above 0."""

    @property
    def arm_kind(self) -> str:
        """Which arms it can use: 'numbers', 'categories' or 'any'."""

    @property
    def joins(self) -> str:
        """How δ and arm make an action: 'product' (neutral 1), 'sum' (neutral 0) or 'other'."""

    def columns(self, arms: Arms) -> tuple[ActionColumn, ...]:
        """Return the D columns of an executable action."""

    def compose(self, arms: Arms, delta: Array, x: Array) -> Array:
        """Return what every arm proposes: (N, K, D), from δ (N, 1 or K, q)."""

    def locate(self, arms: Arms, e: Array, delta: Array, x: Array) -> Located:
        """Find where actions e (N, M, D) lie among the arms under this δ."""

    def relative(self, e: Array, x: Array) -> Array:
        """Return executed actions (N, D) without what the context alone makes of them (a base)."""

    def lipschitz(self, arms: Arms, delta: Array, x: Array) -> float:
        """Return sup ‖Φ(a, δ₁) − Φ(a, δ₂)‖ / ‖δ₁ − δ₂‖ near these rows (Assumption 1).

        Infinity where the composition is discrete in δ and no such bound exists.
        """


_GIVEN_AS = {
    NUMBERS: "numbers: ArmList(values=...) or Grid(...)",
    CATEGORIES: "categories: ArmList(names=...) without values",
}


def check_arms(composition: Any, arms: Arms) -> None:
    """Refuse arms of a kind that the composition cannot use.

    The coordinate of a category is only its position in the list: a composition that calculates
    with it would turn the third name into the number 2.

    >>> from gdcb import ArmList, Multiply
    >>> check_arms(Multiply(), ArmList(names=("low", "high")).build())
    Traceback (most recent call last):
        ...
    gdcb.errors.InvalidInput: arms: Multiply expects numbers: ArmList(values=...) or Grid(...); \
got categories: low, high
    """
    name, takes = type(composition).__name__, getattr(composition, "arm_kind", None)
    if takes not in (NUMBERS, CATEGORIES, "any"):
        raise InvalidInput(
            f"composition: {name} must say which arms it can use: expected arm_kind = "
            f"'{NUMBERS}', '{CATEGORIES}' or 'any'; got {takes!r}"
        )
    if takes != "any":
        shown = ", ".join(arms.names[:6]) + (", ..." if arms.n > 6 else "")
        require_of_new(
            takes == arms.kind,
            f"arms: {name} expects {_GIVEN_AS[takes]}; got {arms.kind}: {shown}",
        )


def base_of(columns: Sequence[Column], x: Array) -> Array | None:
    """Return the product of the declared base columns (N,), or None for 1."""
    return product_of(x, columns) if columns else None
