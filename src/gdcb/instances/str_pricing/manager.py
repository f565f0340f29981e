"""The revenue manager, and the incumbent whose proposals the manager saw in the past."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.gates import SimulatedPerson
from gdcb.instances.str_pricing.columns import OCCUPANCY, features, scale_of
from gdcb.instances.str_pricing.world import ROUND, SIGNAL, THETA, Listings
from gdcb.parts import check_choice, check_number
from gdcb.records import Rows
from gdcb.streams import Stream

KINDS = ("plain", "private", "anchored", "changing")
FEEL = 0.5  # share of the day signal that the manager sees
LEVEL = 1.0  # of the manager's own price, relative to base · market
SCATTER = 0.08  # of the manager's own price, relative to base · market
INCUMBENT_FEEL, INCUMBENT_SCATTER = 0.75, 0.08
RAISES, ANCHOR, STRICTER, DEARER = 0.12, 0.5, 0.3, 1.12


@dataclass(frozen=True)
class Manager:
    """A revenue manager who approves with p(x) and else sets a price of their own.

    Parameters
    ----------
    kind : 'plain'; 'private': sees a signal of demand that is not in x, overrides more often then
        and moves the price with it; 'anchored': an own price halfway to the proposal; 'changing':
        from round `change` on another person, stricter and dearer
    change : the round in which another person takes over
    """

    kind: str = "plain"
    change: int = 100

    def __post_init__(self) -> None:
        check_choice("manager", self.kind, KINDS)
        check_number("change", self.change, 0.0)

    @property
    def person(self) -> SimulatedPerson:
        """Return the person who stands in the gate."""
        anchor = ANCHOR if self.kind == "anchored" else 0.0
        return SimulatedPerson(self.approve, self.own, spread=_scatter, anchor=anchor)

    def approve(self, e: Array, rows: Rows) -> Array:
        """Approve with p(x) = 0.55 + 0.3 · occupancy, whatever the price."""
        p = 0.55 + 0.3 * rows.x[:, OCCUPANCY]
        if self.kind == "private":
            p = p - 0.25 * (_hidden(rows, SIGNAL) > 0)
        if self.kind == "changing":
            p = p - STRICTER * self._is_new(rows)
        return np.broadcast_to(p[:, None], e.shape[:2])

    def own(self, rows: Rows) -> Array:
        """Return the manager's own price: right in direction, half as far as it should go."""
        price = LEVEL * scale_of(rows.x) * _felt(rows)
        if self.kind == "private":
            price = price * (1.0 + RAISES * _hidden(rows, SIGNAL))
        if self.kind == "changing":
            price = price * np.where(self._is_new(rows), DEARER, 1.0)
        return np.asarray(price[:, None])

    def _is_new(self, rows: Rows) -> Array:
        return np.asarray(_hidden(rows, ROUND) >= self.change)


def incumbent(rng: Stream, listings: Listings, rows: Rows) -> Array:
    """Return what the operator proposed before there was a bandit: (N, 1).

    The listing's list price, right to some per cent on an average night, with three quarters of
    the usual day signal, and a scatter of 8 % from night to night: deals, rounding, habits.
    """
    scatter = np.exp(INCUMBENT_SCATTER * rng.normal(rows.n))
    price = listings.listed[rows.unit] * scale_of(rows.x) * _felt(rows, INCUMBENT_FEEL) * scatter
    return np.asarray(price[:, None])


def _felt(rows: Rows, share: float = FEEL) -> Array:
    """Return the part of the usual day signal that someone sees: (N,)."""
    return np.asarray(np.exp(share * (features(rows.x) * THETA).sum(axis=1)))


def _scatter(rows: Rows) -> Array:
    return np.asarray(SCATTER * scale_of(rows.x))


def _hidden(rows: Rows, column: int) -> Array:
    if rows.hidden is None:
        return np.zeros(rows.n)
    return np.asarray(rows.hidden[:, column])
