"""Bookings: listings whose guests pay more on some nights than on others.

With e the price over base · market and φ the six features of the night, less their means:

- `well`: P(booked) = σ(α − β·e/δ*(x)), δ* = exp(θ*ᵀφ): willingness to pay scales with δ*;
- `mis`: P(booked) = σ(α − β·e + γ·φᵀη), the paper's form: no δ makes it a function of e/δ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array, logistic
from gdcb.instances.str_pricing.columns import (
    BASE,
    DAY,
    DAYS,
    GAP,
    GAP_SHARE,
    INVENTORY,
    LEAD,
    LEAD_MEAN,
    MARKET,
    OCCUPANCY,
    OCCUPANCY_LAW,
    SCHEMA,
    features,
    scale_of,
)
from gdcb.parts import check_choice, check_number
from gdcb.records import Rows
from gdcb.streams import Stream

# The prior over worlds. Of a market (a replicate): mean and standard deviation.
THETA = np.array([0.7, 0.10, 0.15, -0.12, 0.20, -0.25])
THETA_SD = np.array([0.25, 0.06, 0.06, 0.06, 0.15, 0.12])
ALPHA, ALPHA_SD, BETA, BETA_SD = 3.8, 0.4, 3.6, 0.4
GAMMA, GAMMA_SD = 4.0, 0.5
# Of a listing, around its market.
ALPHA_OWN, BETA_OWN, LEAST_BETA = 0.3, 0.3, 1.5
BASE_MEDIAN, BASE_SD = 150.0, 0.35
LISTED_SD = 0.05  # how far the operator's list price is off, in logarithms
_AROUND = np.concatenate(
    (np.linspace(0.05, 0.77, 10), np.linspace(0.8, 1.2, 41), np.geomspace(1.25, 3.0, 10))
)
SIGNAL, ROUND = 0, 1  # hidden columns: what only the manager sees, and the round's number


def _best_relative(level: Array, slope: Array) -> Array:
    """Return the e that maximises e·σ(level − slope·e): slope·e = 1 + W(exp(level − 1))."""
    from scipy.special import wrightomega

    return np.asarray((1.0 + wrightomega(level - 1.0)) / slope)


@dataclass(slots=True)
class Listings:
    """Demand of every listing.

    Parameters
    ----------
    alpha, beta, base : (units,) level and slope of demand, base price
    theta : (units, 6) of its market: θ* in `well`, γ·η in `mis`
    listed : (units,) the operator's list price, relative to base · market: the best one on an
        average night, found by experience to within some per cent
    """

    alpha: Array
    beta: Array
    base: Array
    theta: Array
    listed: Array


@dataclass(frozen=True)
class Rental:
    """The world of short-term rentals.

    Parameters
    ----------
    variant : 'well' or 'mis'
    signal : how far the log odds of a booking move with what only the manager knows (±1 each
        night); 0: nobody knows more than x
    """

    variant: str = "well"
    signal: float = 0.0

    def __post_init__(self) -> None:
        check_choice("variant", self.variant, ("well", "mis"))
        check_number("signal", self.signal, 0.0)

    def start(self, rng: Stream, group: Array) -> Listings:
        """Draw the markets, then their listings."""
        n = group.size
        shared, own = rng.normal(n, 9), rng.normal(n, 4)
        first = np.searchsorted(group, group)  # the first listing of its market draws for all
        market = shared[first]
        alpha = ALPHA + ALPHA_SD * market[:, 0] + ALPHA_OWN * own[:, 0]
        beta = BETA + BETA_SD * market[:, 1] + BETA_OWN * own[:, 1]
        theta = THETA + THETA_SD * market[:, 3:]
        if self.variant == "mis":
            theta = theta * (GAMMA + GAMMA_SD * market[:, 2])[:, None]
        beta, base = np.maximum(beta, LEAST_BETA), BASE_MEDIAN * np.exp(BASE_SD * own[:, 2])
        listed = _best_relative(alpha, beta) * np.exp(LISTED_SD * own[:, 3])
        return Listings(alpha, beta, base, theta, listed)

    def context(self, rng: Stream, state: Listings, t: int, group: Array) -> Rows:
        """Reveal a night of every listing; its hidden columns are the manager's signal and t."""
        n = group.size
        x = np.zeros((n, SCHEMA.width))
        law = np.tile(np.array(OCCUPANCY_LAW)[:, None], (n, 1, 1))
        x[:, OCCUPANCY] = rng.beta(law)[:, 0]
        u = rng.uniform(n, 6)
        x[:, GAP] = u[:, 0] < GAP_SHARE
        x[:, LEAD] = np.minimum(1.0, -LEAD_MEAN * np.log1p(-u[:, 1]))
        x[:, INVENTORY] = 0.5 * (1.0 - x[:, OCCUPANCY]) + 0.5 * u[:, 2]
        x[np.arange(n), DAY + (u[:, 3] * len(DAYS)).astype(np.int64)] = 1.0
        x[:, BASE] = state.base
        x[:, MARKET] = 0.9 + 0.2 * u[:, 4]
        hidden = np.stack((np.where(u[:, 5] < 0.5, -1.0, 1.0), np.full(n, float(t))), axis=1)
        return Rows(np.arange(n), group, x, hidden=hidden)

    def _demand(self, state: Listings, rows: Rows) -> tuple[Array, Array, Array]:
        """Return level α (N,), slope β (N,) and the price (N,) in which β is measured."""
        u = rows.unit
        context = (state.theta[u] * features(rows.x)).sum(axis=1)
        level, scale = state.alpha[u], scale_of(rows.x)
        if self.signal and rows.hidden is not None:
            level = level + self.signal * rows.hidden[:, SIGNAL]
        if self.variant == "well":
            return level, state.beta[u], scale * np.exp(context)
        return level + context, state.beta[u], scale

    def chance(self, state: Listings, e: Array, rows: Rows) -> Array:
        """Return P(booked) of prices (N, M, 1): (N, M); NaN where nothing is offered."""
        level, slope, scale = self._demand(state, rows)
        return logistic(level[:, None] - (slope / scale)[:, None] * e[..., 0])

    def mean(self, state: Listings, e: Array, rows: Rows) -> Array:
        """Return price · P(booked); a night that is not offered earns nothing."""
        return np.asarray(np.nan_to_num(e[..., 0] * self.chance(state, e, rows)))

    def best(self, state: Listings, rows: Rows) -> Array:
        """Return the best price, by the first-order condition."""
        level, slope, scale = self._demand(state, rows)
        return np.asarray((_best_relative(level, slope) * scale)[:, None])

    def candidates(self, state: Listings, rows: Rows) -> Array:
        """Return prices around the best, fine near it and far out to both sides: (N, 61, 1).

        Someone who leans on the proposal can be moved by one that the bounds would never let run.
        """
        return self.best(state, rows)[:, None] * _AROUND[:, None]

    def sample(self, rng: Stream, state: Listings, e: Array, rows: Rows) -> Array:
        """Draw bookings."""
        p = np.nan_to_num(self.chance(state, e[:, None], rows))[:, 0]
        return np.asarray(rng.uniform(rows.n) < p, dtype=float)[:, None]

    def label(self, rng: Stream, state: Listings, e: Array, rows: Rows) -> None:
        """Return no label: the scaler learns from bookings."""

    def advance(
        self, rng: Stream, state: Listings, e: Array, outcome: Array, rows: Rows
    ) -> Listings:
        """Nights do not depend on each other."""
        return state

    def true_theta(self, state: Listings, rows: Rows) -> Array:
        """Return the parameters (units, 6) of δ°, the δ of the family nearest to the best price.

        In `well` that is θ*. In `mis` the least-squares fit of log e*(x) on the features over the
        contexts `rows`, taken as every listing's.
        """
        if self.variant == "well":
            return state.theta
        n = state.alpha.size
        phi = features(rows.x)
        design = np.concatenate((np.ones((phi.shape[0], 1)), phi), axis=1)
        weights = np.linalg.solve(design.T @ design, design.T)[1:]  # (6, contexts)
        level = state.alpha[:, None] + (state.theta[:, None, :] * phi).sum(axis=-1)
        best = np.log(_best_relative(level, np.ones(1)))  # the slope would add a constant
        theta = np.empty((n, phi.shape[1]))
        for j in range(phi.shape[1]):
            theta[:, j] = (best * weights[j]).sum(axis=1)
        return theta

    def true_delta(self, state: Listings, rows: Rows) -> Array | None:
        """Return δ*(x) (N, 1, 1); None in `mis`, where there is none."""
        if self.variant == "mis":
            return None
        return np.asarray(np.exp((state.theta[rows.unit] * features(rows.x)).sum(axis=1)))[
            :, None, None
        ]
