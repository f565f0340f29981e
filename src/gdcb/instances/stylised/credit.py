"""Consumer credit (instance 3): apr = base · δ(x) · a over a tenor, a usury cap decides.

Made: an offer is taken and repaid with P = σ(α − β · apr / (base · δ*(x)) − γ · tenor / 12), with
α, β and γ drawn for each lender; log δ* is linear in debt burden, utilisation and credit score;
every case reveals a noisy label of log δ*, the realised risk spread. A loan taken and repaid earns
(apr − funding) · tenor / 12 · amount, anything else costs a fixed 0.02. The optimum is over any
rate and the three tenors on offer. Real: the shape of the decision, and that the only gate is a
rule: an APR above the state's usury cap is lowered to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arms import Grid
from gdcb.arrays import Array, logistic
from gdcb.bandits import CurveThompson
from gdcb.composition import Multiply
from gdcb.context import Number, Schema
from gdcb.gates import Cap, Chain
from gdcb.instance import Instance
from gdcb.instances.catalogue import Domain
from gdcb.records import Rows
from gdcb.rewards import Payoff
from gdcb.scalers import RidgeScaler
from gdcb.streams import Stream

DEBT, UTILISATION, SCORE, BASE, FUNDING, AMOUNT, USURY = range(7)
THETA = np.array([0.7, 0.5, -0.25])  # log δ* on debt burden, utilisation, score
CENTRE = (0.35, 0.5, 0.0)  # means of the three features, the frozen reference
TENORS = (12.0, 24.0, 36.0)
LOSS = -0.02  # what a case costs that is not taken and repaid


@dataclass(slots=True)
class Lenders:
    """Response of every lender's customers: σ(α − β · relative rate − γ · years)."""

    alpha: Array
    beta: Array
    gamma: Array


def true_delta(x: Array) -> Array:
    """Return δ*(x): (N,)."""
    return np.asarray(np.exp(((x[:, : SCORE + 1] - CENTRE) * THETA).sum(axis=1)))


def _fair(x: Array) -> Array:
    """Return the rate that the risk justifies, base · δ*(x): (N,)."""
    return np.asarray(x[:, BASE] * true_delta(x))


def net_interest(e: Array, x: Array) -> Array:
    """Return (apr − funding) · years · amount of actions (N, M, 2): (N, M)."""
    years = e[..., 1] / 12.0
    return np.asarray((e[..., 0] - x[:, FUNDING, None]) * years * x[:, AMOUNT, None])


@dataclass(frozen=True)
class Lending:
    """The world: loans taken and repaid under a log-linear risk spread."""

    label_noise: float = 0.3

    def start(self, rng: Stream, group: Array) -> Lenders:
        """Draw α ~ N(5, 0.4²), β ~ N(3, 0.3²) and γ ~ N(1.1, 0.3²) a lender."""
        z = rng.normal(group.size, 3)
        return Lenders(5.0 + 0.4 * z[:, 0], 3.0 + 0.3 * z[:, 1], 1.1 + 0.3 * z[:, 2])

    def context(self, rng: Stream, state: Lenders, t: int, group: Array) -> Rows:
        """Reveal an applicant: debt, utilisation, score, base rate, funding, amount, cap."""
        n = group.size
        u, z = rng.uniform(n, 6), rng.normal(n)
        x = np.empty((n, 7))
        x[:, DEBT] = 0.7 * u[:, 0]
        x[:, UTILISATION] = u[:, 1]
        x[:, SCORE] = np.clip(z, -3.0, 3.0)
        x[:, BASE] = 0.09 + 0.04 * u[:, 2]
        x[:, FUNDING] = 0.02 + 0.02 * u[:, 3]
        x[:, AMOUNT] = 0.5 + 1.5 * u[:, 4]
        x[:, USURY] = 0.12 + 0.02 * np.floor(5.0 * u[:, 5])
        return Rows(np.arange(n), group, x)

    def _repaid(self, state: Lenders, e: Array, rows: Rows) -> Array:
        relative = e[..., 0] / _fair(rows.x)[:, None]
        u = rows.unit
        utility = state.alpha[u, None] - state.beta[u, None] * relative
        return logistic(utility - state.gamma[u, None] * e[..., 1] / 12.0)

    def mean(self, state: Lenders, e: Array, rows: Rows) -> Array:
        """Return P · net interest + (1 − P) · loss; no offer earns nothing."""
        p = self._repaid(state, e, rows)
        return np.nan_to_num(p * net_interest(e, rows.x) + (1.0 - p) * LOSS)

    def best(self, state: Lenders, rows: Rows) -> Array:
        """Return the best rate of the best tenor.

        At a tenor the excess over the loss is k · P · (c − c₀), c the relative rate and c₀ where
        a loan repaid earns no more than the loss: β(c* − c₀) = 1 + W(exp(α − γ·years − βc₀ − 1)).
        """
        from scipy.special import wrightomega

        u, x = rows.unit, rows.x
        years = np.array(TENORS) / 12.0
        fair, beta = _fair(x)[:, None], state.beta[u, None]
        floor = (x[:, FUNDING, None] + LOSS / (years * x[:, AMOUNT, None])) / fair
        start = state.alpha[u, None] - state.gamma[u, None] * years - beta * floor
        relative = floor + (1.0 + wrightomega(start - 1.0)) / beta
        offers = np.empty((rows.n, len(TENORS), 2))
        offers[..., 0] = relative * fair
        offers[..., 1] = TENORS
        chosen = self.mean(state, offers, rows).argmax(axis=1)
        return np.asarray(offers[np.arange(rows.n), chosen])

    def candidates(self, state: Lenders, rows: Rows) -> Array:
        """Return a fine grid of rates at each tenor: (N, 243, 2)."""
        relative, tenor = np.meshgrid(np.linspace(0.4, 2.0, 81), TENORS)
        offers = np.empty((rows.n, relative.size, 2))
        offers[..., 0] = _fair(rows.x)[:, None] * relative.ravel()
        offers[..., 1] = tenor.ravel()
        return offers

    def sample(self, rng: Stream, state: Lenders, e: Array, rows: Rows) -> Array:
        """Draw whether the loan was taken and repaid."""
        p = np.nan_to_num(self._repaid(state, e[:, None], rows))[:, 0]
        return np.asarray(rng.uniform(rows.n) < p, dtype=float)[:, None]

    def label(self, rng: Stream, state: Lenders, e: Array, rows: Rows) -> Array:
        """Return the realised log risk spread: log δ* with noise."""
        noise = self.label_noise * rng.normal(rows.n)
        return (np.log(true_delta(rows.x)) + noise)[:, None]

    def advance(self, rng: Stream, state: Lenders, e: Array, outcome: Array, rows: Rows) -> Lenders:
        """Applicants do not depend on each other."""
        return state


def build() -> Domain:
    """Return the domain."""
    instance = Instance(
        name="credit",
        title="Consumer credit pricing",
        context=Schema(
            {
                "debt": Number(0, 5, "debt service as a share of income"),
                "utilisation": Number(0, 2, "share of credit lines in use"),
                "score": Number(-6, 6, "credit score, standardised"),
                "base": Number(0.001, 1, "base rate of the product, a year"),
                "funding": Number(0, 1, "cost of funds, a year"),
                "amount": Number(0.01, 100, "amount, in ten thousands"),
                "usury": Number(0, 5, "the state's cap on the APR"),
            }
        ),
        arms=Grid({"rate": (0.7, 0.85, 1.0, 1.15, 1.3), "tenor": TENORS}, combine="none"),
        scaler=RidgeScaler(
            features=("debt", "utilisation", "score"), penalty=1.0, every=40, centre=CENTRE
        ),
        composition=Multiply(base=("base",), names=("apr", "tenor")),
        gate=Chain((Cap(limit_column="usury", name="usury cap"),)),
        reward=Payoff(outcome=("repaid",), win=net_interest, lose=LOSS),
    )
    return Domain(
        instance,
        CurveThompson(prior_mean=(0.0, -1.0, -1.0), prior_sd=(1.5, 1.0, 1.0)),
        Lending(),
        units=4,
        unit="lender",
        is_endogenous=False,
        about=__doc__ or "",
    )
