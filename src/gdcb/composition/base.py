"""What a composition is to a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gdcb.arms import Arms
from gdcb.arrays import Array
from gdcb.parts import Column, product_of
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


def base_of(columns: Sequence[Column], x: Array) -> Array | None:
    """Return the product of the declared base columns (N,), or None for 1."""
    return product_of(x, columns) if columns else None
