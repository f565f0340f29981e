"""STR pricing (instance 1): price = base · market · δ(x) · a^A · a^B, a revenue manager decides.

Made: a listing's bookings follow σ(α − β·e / (base · market · δ*(x))) with α and β drawn for each
listing; δ* is log-linear in occupancy, lead time and gap night; every night the comparison set
reveals a noisy label of log δ*. Real: the occupancy law Beta(2.01, 1.74), and the shape of the
decision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arms import Grid
from gdcb.arrays import Array, logistic
from gdcb.bandits import CurveThompson
from gdcb.composition import Multiply
from gdcb.context import Flag, Number, Schema
from gdcb.gates import Approval, Bounds, Chain, NumberKernel, SimulatedPerson
from gdcb.instance import Instance, NullAction
from gdcb.instances.catalogue import Domain
from gdcb.records import Rows
from gdcb.rewards import Payoff
from gdcb.scalers import RidgeScaler
from gdcb.streams import Stream

OCCUPANCY, LEAD, GAP, BASE, MARKET = range(5)
THETA = np.array([0.8, -0.3, -0.15])  # log δ* on occupancy, lead time, gap night
CENTRE = (0.536, 0.5, 0.2)  # means of the three features, the frozen reference


@dataclass(slots=True)
class Listings:
    """Demand of every listing: bookings σ(α − β · relative price), and its base price."""

    alpha: Array
    beta: Array
    base: Array


def true_delta(x: Array) -> Array:
    """Return δ*(x): (N,)."""
    return np.asarray(np.exp(((x[:, : GAP + 1] - CENTRE) * THETA).sum(axis=1)))


def _paid(x: Array) -> Array:
    return np.asarray(x[:, BASE] * x[:, MARKET] * true_delta(x))


@dataclass(frozen=True)
class Rental:
    """The world: bookings under a log-linear willingness to pay."""

    label_noise: float = 0.3

    def start(self, rng: Stream, group: Array) -> Listings:
        """Draw α ~ N(4.5, 0.4²), β ~ N(4, 0.4²) and a base price of 80 to 240 a listing."""
        z, u = rng.normal(group.size, 2), rng.uniform(group.size)
        return Listings(4.5 + 0.4 * z[:, 0], 4.0 + 0.4 * z[:, 1], 80.0 + 160.0 * u)

    def context(self, rng: Stream, state: Listings, t: int, group: Array) -> Rows:
        """Reveal a night: occupancy, lead time, gap night, base price, market multiplier."""
        n = group.size
        x = np.empty((n, 5))
        x[:, OCCUPANCY] = rng.beta(np.tile([[2.01], [1.74]], (n, 1, 1)))[:, 0]
        u = rng.uniform(n, 3)
        x[:, LEAD] = u[:, 0]
        x[:, GAP] = u[:, 1] < 0.2
        x[:, BASE] = state.base
        x[:, MARKET] = 0.95 + 0.1 * u[:, 2]
        return Rows(np.arange(n), group, x)

    def _booked(self, state: Listings, e: Array, rows: Rows) -> Array:
        relative = e[..., 0] / _paid(rows.x)[:, None]
        u = rows.unit
        return logistic(state.alpha[u, None] - state.beta[u, None] * relative)

    def mean(self, state: Listings, e: Array, rows: Rows) -> Array:
        """Return price · P(booked); nothing listed earns nothing."""
        return np.asarray(np.nan_to_num(e[..., 0] * self._booked(state, e, rows)))

    def best(self, state: Listings, rows: Rows) -> Array:
        """Return the best price: β·c* = 1 + W(exp(α − 1)) by the first-order condition."""
        from scipy.special import wrightomega

        u = rows.unit
        relative = (1.0 + wrightomega(state.alpha[u] - 1.0)) / state.beta[u]
        return np.asarray((relative * _paid(rows.x))[:, None])

    def candidates(self, state: Listings, rows: Rows) -> Array:
        """Return a fine grid of prices: (N, 81, 1)."""
        return (_paid(rows.x)[:, None] * np.linspace(0.4, 2.0, 81))[..., None]

    def sample(self, rng: Stream, state: Listings, e: Array, rows: Rows) -> Array:
        """Draw bookings."""
        p = np.nan_to_num(self._booked(state, e[:, None], rows))[:, 0]
        return np.asarray(rng.uniform(rows.n) < p, dtype=float)[:, None]

    def label(self, rng: Stream, state: Listings, e: Array, rows: Rows) -> Array:
        """Return log δ* as the comparison set shows it, with noise."""
        noise = self.label_noise * rng.normal(rows.n)
        return (np.log(true_delta(rows.x)) + noise)[:, None]

    def advance(
        self, rng: Stream, state: Listings, e: Array, outcome: Array, rows: Rows
    ) -> Listings:
        """Nights do not depend on each other."""
        return state


def _approve(e: Array, rows: Rows) -> Array:
    """Approve with p(x) = 0.6 + 0.3 · occupancy, whatever the price."""
    p = 0.6 + 0.3 * rows.x[:, OCCUPANCY]
    return np.broadcast_to(p[:, None], e.shape[:2])


def _own_price(rows: Rows) -> Array:
    """Return the manager's own price: right in direction, too flat in occupancy."""
    x = rows.x
    feel = 1.05 + 0.5 * (x[:, OCCUPANCY] - CENTRE[0])
    return np.asarray((x[:, BASE] * x[:, MARKET] * feel)[:, None])


def build() -> Domain:
    """Return the domain."""
    instance = Instance(
        name="str",
        title="Short-term rental pricing",
        context=Schema(
            {
                "occupancy": Number(0, 1, "share of nights booked nearby"),
                "lead": Number(0, 1, "lead time, scaled to a year"),
                "gap": Flag("a single free night between bookings"),
                "base": Number(1, 10_000, "base price"),
                "market": Number(0.1, 10, "market multiplier"),
            }
        ),
        arms=Grid(
            {"A": (0.7, 0.85, 1.0, 1.15, 1.3), "B": (0.9, 0.95, 1.0, 1.05, 1.1)},
            combine="product",
        ),
        scaler=RidgeScaler(
            features=("occupancy", "lead", "gap"), penalty=1.0, every=40, centre=CENTRE
        ),
        composition=Multiply(base=("base", "market"), names=("price",)),
        gate=Chain(
            (
                Approval(
                    SimulatedPerson(_approve, _own_price, spread=8.0),
                    NumberKernel(features=("occupancy",), base=("base", "market")),
                    name="revenue manager",
                ),
                Bounds(low=40.0, high=420.0, name="price bounds"),
            )
        ),
        reward=Payoff(outcome=("booked",), action=0),
        null=NullAction(mean=0.0),
    )
    return Domain(
        instance,
        CurveThompson(prior_mean=(0.0, -1.0), prior_sd=(1.5, 1.0)),
        Rental(),
        units=4,
        unit="listing",
        is_endogenous=False,
        about=__doc__ or "",
    )
