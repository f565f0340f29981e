"""A stochastic person, for simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gdcb.arrays import Array, full, like, maybe_any, namespace, put_where
from gdcb.errors import InvalidInput
from gdcb.gates.base import Value, nothing, status_of
from gdcb.gates.contraction import is_mixed
from gdcb.parts import check_number, check_settings
from gdcb.records import VETOED, Rows

# The person's own action scatters on three points, so that the operator is a finite sum.
_POINTS = np.array([-1.0, 0.0, 1.0])
_SHARES = np.array([0.25, 0.5, 0.25])
_LOW, _HIGH = 0.25, 0.75


@dataclass(frozen=True)
class SimulatedPerson:
    """Approve with p(e, x), else veto with probability `veto`, else run an action of their own.

    Parameters
    ----------
    approve : (e (N, M, D), rows) → (N, M) probability of approval
    own : rows → (N, D) the person's own action; NaN columns keep the proposal's (a severity)
    spread : their own action varies by −spread, 0, +spread with probability ¼, ½, ¼ (first
        column); a number, or rows → (N,)
    veto : share of the non-approved that is vetoed
    anchor : how far their own action leans towards the proposal: (1 − anchor)·own + anchor·e
    """

    approve: Callable[[Array, Rows], Array]
    own: Callable[[Rows], Array]
    spread: float | Callable[[Rows], Array] = 0.0
    veto: float = 0.0
    anchor: float = 0.0
    on_device: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self, "person")
        if not callable(self.spread):
            check_number("person.spread", self.spread, 0.0)
        check_number("person.veto", self.veto, 0.0, 1.0)
        check_number("person.anchor", self.anchor, 0.0, 1.0)

    def draw(self, rng: Any, n: int) -> Array:
        """Draw three uniforms a row: approval, veto, scatter."""
        draws: Array = rng.uniform(n, 3)
        return draws

    def _own(self, rows: Rows, e: Array, point: Array) -> Array:
        own = self.own(rows)
        mine: Array = namespace(e).where(own != own, e, own)
        if self.anchor:
            mine = mine + self.anchor * (e - mine)
        mine[:, 0] += self._spread(rows) * point
        return mine

    def _spread(self, rows: Rows) -> Array:
        if callable(self.spread):
            return self.spread(rows)
        return full((rows.n,), self.spread, rows.x)

    def apply(self, draws: Array | None, e: Array, rows: Rows) -> tuple[Array, Array]:
        """Sample the person's answer."""
        if draws is None:
            raise InvalidInput("a simulated person needs random numbers")
        approved = draws[:, 0] < self.approve(e[:, None, :], rows)[:, 0]
        xp, u = namespace(e), draws[:, 2]
        point = like(_POINTS, e)[xp.astype(u >= _LOW, xp.int64) + (u >= _HIGH)]
        left = xp.where(approved[:, None], e, self._own(rows, e, point))
        left = put_where(left, (~approved & (draws[:, 1] < self.veto))[:, None], np.nan)
        status = put_where(status_of(e, left), (left != left).any(axis=1), VETOED)
        return left, status

    def reach(self, e: Array, rows: Rows) -> Array:
        """Return what may run where e (N, M, D) enters: e, the own actions, and nothing."""
        parts = [e, self._nodes(e, rows)]
        if self.veto > 0:
            parts.append(nothing(e))
        together: Array = namespace(e).concat(parts, axis=1)
        return together

    def contraction(self, e: Array, rows: Rows) -> Array:
        """Return η(x) on the actions e (N, M, D), or an upper bound: (N,).

        p(x) exactly where approval does not depend on e: what is not approved is the same
        whatever was proposed. sup_e p(e, x) as an upper bound where it does. 1 where the own
        action keeps a column in which the proposals differ, or leans towards it: edits anchored
        on the proposal.
        """
        if self.anchor:
            return np.where(is_mixed(e), 1.0, 0.0)
        p = np.clip(self.approve(e, rows), 0.0, 1.0).max(axis=1)
        kept = np.isnan(self.own(rows))[:, None] & (e != e[:, :1])
        return np.where(is_mixed(e), np.where(kept.any(axis=(1, 2)), 1.0, p), 0.0)

    def _nodes(self, e: Array, rows: Rows) -> Array:
        """Return the points of the own actions: own₁ −, 0, +; own₂ −, 0, +; and so on."""
        xp, own = namespace(e), self.own(rows)[:, None]
        own = xp.where(own != own, e, own) if maybe_any(own != own) else own
        if self.anchor:
            own = own + self.anchor * (e - own)
        nodes: Array = xp.repeat(own, _POINTS.size, axis=1)
        nodes[..., 0] += self._spread(rows)[:, None] * xp.tile(like(_POINTS, e), (own.shape[1],))
        return nodes

    def expect(self, value: Value, e: Array, rows: Rows) -> Array:
        """Return p·v(e) + (1 − p)·[veto·v(null) + (1 − veto)·E v(own)], exactly."""
        p = self.approve(e, rows)
        worth = value(self._nodes(e, rows)).reshape(rows.n, -1, _POINTS.size)
        other: Array = (worth * like(_SHARES, e)).sum(axis=-1)
        if self.veto > 0:
            other = self.veto * value(nothing(e)) + (1.0 - self.veto) * other
        expected: Array = p * value(e) + (1.0 - p) * other
        return expected
