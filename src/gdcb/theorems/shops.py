"""What the check of regret sells in: a smooth and a kinked demand, and scalers that stand still."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gdcb.arrays import Array
from gdcb.gates import Approval, Bounds, Cap, Chain, SimulatedPerson
from gdcb.records import Rows
from gdcb.scalers import ConstantScaler
from gdcb.scalers.constant import ConstantState
from gdcb.theorems.worlds import Demand, KnownScaler, Pricing

_EDGE = 3.0**0.5  # contexts are uniform on ±√3


@dataclass(frozen=True)
class Shop(Pricing):
    """A pricing world that says its δ*, so that regret can be split in the paper's order."""

    own_sd: float = 0.0

    def true_delta(self, state: Demand, rows: Rows) -> Array:
        """Return δ*(x): (N, 1, 1)."""
        return self.delta(rows.x)[:, None, None]


@dataclass(frozen=True)
class KinkedShop(Shop):
    """The same with an optimum at a kink: bookings hold up to e = δ* and then fall off a slope.

    P(booked) = 0.75 up to c = e/δ* = 1, and 0.75·(1 − 3(c − 1)) above, not below 0: revenue rises
    to c = 1 and falls from there, so an error of δ̂ costs in proportion to its size.
    """

    def booked(self, state: Demand, e: Array, rows: Rows) -> Array:
        """Return P(booked) of prices (N, M, 1): (N, M)."""
        over = np.maximum(e[..., 0] / self.delta(rows.x)[:, None] - 1.0, 0.0)
        return np.asarray(0.75 * np.maximum(1.0 - 3.0 * over, 0.0))


@dataclass(frozen=True)
class OffScaler(KnownScaler):
    """value·δ*(x): right in context, wrong in level.

    Examples
    --------
    >>> scaler = OffScaler(value=0.8, theta=(0.0,))
    >>> scaler.predict(scaler.init(1), np.zeros(1, dtype=int), np.ones((1, 1))).tolist()
    [[[0.8]]]
    """

    def predict(self, state: ConstantState, owner: Array, x: Array) -> Array:
        """Return value·exp(θᵀx): (N, 1, 1)."""
        return self.value * super().predict(state, owner, x)


@dataclass(slots=True)
class FittedState:
    """Version 0 and θ̂ (owners, p) of every owner."""

    versions: Array
    theta: Array


@dataclass(frozen=True)
class FittedScaler(ConstantScaler):
    """δ_θ̂(x) = exp(θ̂ᵀx), θ̂ by least squares on n_sup labels of log δ*, once, then frozen.

    Every owner has labels of its own: x uniform on ±√3, noise of standard deviation `noise`.
    """

    theta: tuple[float, ...] = ()
    n_sup: int = 100
    noise: float = 0.3
    seed: int = 0
    on_device: ClassVar[bool] = False

    def init(self, n_owners: int) -> FittedState:  # type: ignore[override]
        """Draw labels and fit."""
        rng = np.random.default_rng((self.seed, self.n_sup))
        p, truth = len(self.theta), np.array(self.theta)
        fitted = np.empty((n_owners, p))
        for owner in range(n_owners):
            x = rng.uniform(-_EDGE, _EDGE, size=(self.n_sup, p))
            label = x @ truth + self.noise * rng.standard_normal(self.n_sup)
            fitted[owner] = np.linalg.solve(x.T @ x, x.T @ label)
        return FittedState(np.zeros(n_owners, dtype=np.int64), fitted)

    def predict(self, state: FittedState, owner: Array, x: Array) -> Array:  # type: ignore[override]
        """Return exp(θ̂ᵀx): (N, 1, 1)."""
        return np.asarray(np.exp((x * state.theta[owner]).sum(axis=1))[:, None, None])


def _often(e: Array, _: Rows) -> Array:
    """Approve seven in ten, whatever is proposed."""
    return np.full(e.shape[:2], 0.7)


def _seldom(e: Array, _: Rows) -> Array:
    """Approve less the dearer it is."""
    return np.asarray(np.clip(1.2 - 0.5 * e[..., 0], 0.1, 0.9))


def _flat(rows: Rows) -> Array:
    """Set one price in every context."""
    return np.full((rows.n, 1), 1.1)


def knowing(world: Shop) -> SimulatedPerson:
    """Return a person who knows the best price and approves half of what is proposed."""

    def own(rows: Rows) -> Array:
        return world.delta(rows.x)[:, None]

    def half(e: Array, _: Rows) -> Array:
        return np.full(e.shape[:2], 0.5)

    return SimulatedPerson(half, own)


def gates(world: Shop) -> dict[str, Chain]:
    """Return the gates behind which both splits are tried."""
    limits = Bounds(low=0.3, high=1.6, name="limits")
    return {
        "open": Chain(),
        "cap": Chain((Cap(limit=1.1),)),
        "veto": Chain((Bounds(low=0.6, high=1.3, outside="veto"),)),
        "person": Chain((Approval(SimulatedPerson(_often, _flat, spread=0.1)), limits)),
        "person who vetoes": Chain((Approval(SimulatedPerson(_seldom, _flat, veto=0.4)), limits)),
        "person who knows": Chain((Approval(knowing(world)), limits)),
    }
