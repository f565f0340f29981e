"""A real hold: the proposal waits for a person."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.gates.base import Value
from gdcb.gates.contraction import is_mixed
from gdcb.records import HELD, Rows


@dataclass(frozen=True)
class Hold:
    """Answer nothing yet: every proposal is held until `Agent.resolve` brings a verdict."""

    def draw(self, rng: object, n: int) -> None:
        """Draw nothing."""
        return None

    def apply(self, draws: Array | None, e: Array, rows: Rows) -> tuple[Array, Array]:
        """Hold every row."""
        return np.full(e.shape, np.nan), np.full(e.shape[0], HELD, dtype=np.int8)

    def expect(self, value: Value, e: Array, rows: Rows) -> Array:
        """Value the proposal itself: of a person nobody has watched, nothing is known."""
        return value(e)

    def reach(self, e: Array, rows: Rows) -> None:
        """Return None: a person may put in any action."""
        return None

    def contraction(self, e: Array, rows: Rows) -> Array:
        """Return 1 where proposals differ: of a person nobody has watched, nothing is known."""
        return is_mixed(e).astype(float)
