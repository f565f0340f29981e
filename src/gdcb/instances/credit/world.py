"""Lenders and their applicants: who takes an offer, who repays it, and what a default loses.

Three classes: the offer is declined, or the loan is taken and repaid, or taken and not repaid.

- `well`: P(accepted) = σ(α − β·(c − 1) + γ·t), with c = apr / (base·δ*(x)), log δ* linear in the
  scaler's features, and t the years beyond those asked for, at two asked for. P(default) is what
  the scorecard says.
- `mis`: applicants of the German credit data. P(accepted) = σ(…) in the rate relative to what such
  an applicant is offered elsewhere, steeper above it; P(default) as fitted to the data, and a
  little higher at dearer rates. Nothing of it is in the scaler's or the learner's family.

See README.md for where every number comes from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array, logistic
from gdcb.instances.credit import prior as pr
from gdcb.instances.credit.applicants import applicants
from gdcb.instances.credit.columns import (
    AMOUNT,
    BASE,
    CAP,
    FEMALE,
    FLOOR,
    FUNDING,
    LGD,
    MIDDLE,
    PD,
    UNIT,
    WANTED,
    WANTED_RANGE,
    features,
    loan_years,
    recorded,
    tenors,
)
from gdcb.instances.credit.demand import MisDemand, WellDemand, earned, peak
from gdcb.instances.credit.drawn import drawn_applicants, factor_score
from gdcb.parts import check_choice
from gdcb.records import Rows
from gdcb.streams import Stream

_AROUND = (0.6, 0.8, 0.9, 1.0, 1.1, 1.25, 1.6)  # candidates, around the best rate of a tenor


@dataclass(slots=True)
class Branches:
    """What every branch's customers are like; those of one lender share some of it.

    Parameters
    ----------
    level, slope : (units,) log odds at the going rate and two years, and β
    tenor : (units,) in `well` γ; in `mis` what missing the wish costs
    theta : (units, 10) of δ*, the lender's (`well`)
    odds : (units,) log odds of default of the average applicant over two years, the lender's
    error : (units,) how far off the scorecard is, the lender's (`mis`)
    base, funding, cap : (units,) list rate, cost of funds, cap of the branch's jurisdiction
    """

    level: Array
    slope: Array
    tenor: Array
    theta: Array
    odds: Array
    error: Array
    base: Array
    funding: Array
    cap: Array


@dataclass(frozen=True)
class Lending:
    """The world of consumer loans.

    Parameters
    ----------
    variant : 'well' or 'mis'
    """

    variant: str = "well"

    def __post_init__(self) -> None:
        check_choice("variant", self.variant, ("well", "mis"))
        if self.variant == "mis":
            applicants()  # a missing package shows here, and not in the middle of a run

    @property
    def is_well(self) -> bool:
        """Whether the truth is in the scaler's family."""
        return self.variant == "well"

    def start(self, rng: Stream, group: Array) -> Branches:
        """Draw the lenders, then their branches."""
        n, d = group.size, len(pr.THETA)
        shared, own, place = rng.normal(n, 7 + d), rng.normal(n, 3), rng.uniform(n)
        first = np.searchsorted(group, group)  # the first branch of a lender draws for all
        z = shared[first]
        law = pr.WELL if self.is_well else pr.MIS
        odds = pr.ODDS + pr.ODDS_SD * z[:, 3]
        funding = pr.FUNDING + pr.FUNDING_SD * np.clip(z[:, 4], -3.0, 3.0)
        loss = LGD * np.exp(odds) / loan_years(np.array(MIDDLE))
        base = (funding + pr.MARGIN + loss) * np.exp(pr.LISTED_SD * z[:, 5])
        caps = np.stack([rule(base) for rule in pr.CAPS], axis=1)
        at = np.minimum((place * len(pr.CAPS)).astype(np.int64), len(pr.CAPS) - 1)
        return Branches(
            law.level + law.level_sd * z[:, 0] + law.level_own * own[:, 0],
            np.maximum(law.slope + law.slope_sd * z[:, 1] + law.slope_own * own[:, 1], law.least),
            law.tenor + law.tenor_sd * z[:, 2] + law.tenor_own * own[:, 2],
            np.array(pr.THETA) + np.array(pr.THETA_SD) * z[:, 7:],
            odds,
            pr.SCORE_ERROR * z[:, 6],
            base,
            funding,
            caps[np.arange(n), at],
        )

    def context(self, rng: Stream, state: Branches, t: int, group: Array) -> Rows:
        """Reveal one application a branch; hidden columns are for the diagnostic only."""
        n = group.size
        u, z = rng.uniform(n, 9), rng.normal(n, 4)
        hidden = np.zeros((n, 2))
        if self.is_well:
            x = drawn_applicants(u, z)
            hidden[:, FEMALE] = u[:, 8] < recorded()["female"]
            risk = pr.RISK * (features(x) * pr.THETA).sum(axis=1)
        else:
            people = applicants()
            at = np.minimum((u[:, 0] * len(people.x)).astype(np.int64), len(people.x) - 1)
            x = people.x[at]
            x[:, WANTED] = np.clip(x[:, WANTED], *WANTED_RANGE)
            hidden[:, 0], hidden[:, 1] = people.is_female[at], at
            risk = factor_score(x) + state.error
        noise = pr.SCORE_NOISE[self.variant] * z[:, 3]
        x[:, PD] = np.clip(logistic(state.odds + risk + noise), 0.001, 0.8)
        x[:, BASE], x[:, FUNDING], x[:, CAP] = state.base, state.funding, state.cap
        x[:, FLOOR] = x[:, FUNDING] + LGD * _odds(x[:, PD]) / loan_years(np.array(MIDDLE))
        return Rows(np.arange(n), group, x, hidden=hidden)

    def going(self, state: Branches, rows: Rows) -> Array:
        """Return the rate in which customers think: base·δ*, or what they get elsewhere: (N,)."""
        base, x = rows.x[:, BASE], rows.x
        if self.is_well:
            return np.asarray(base * np.exp((state.theta[rows.unit] * features(x)).sum(axis=1)))
        return np.asarray(base * (self.fair(state, rows) / base) ** pr.OUTSIDE)

    def fair(self, state: Branches, rows: Rows) -> Array:
        """Return funding, margin and the expected loss of two years as a rate, `mis`: (N,)."""
        u = rows.unit
        odds = np.exp(state.odds[u] + factor_score(rows.x))
        return np.asarray(state.funding[u] + pr.MARGIN + LGD * odds / loan_years(np.array(MIDDLE)))

    def chances(self, state: Branches, e: Array, rows: Rows) -> tuple[Array, Array]:
        """Return P(accepted) and P(default | accepted) of offers (N, M, 2): (N, M) each."""
        demand = self._demand(state, rows)
        return demand.taken(e), demand.default(e)

    def _demand(self, state: Branches, rows: Rows) -> WellDemand | MisDemand:
        """Return what these applicants are like."""
        u, x = rows.unit, rows.x
        going, wanted = self.going(state, rows)[:, None], x[:, WANTED, None]
        level, slope, tenor = state.level[u, None], state.slope[u, None], state.tenor[u, None]
        if self.is_well:
            return WellDemand(going, wanted, level, slope, tenor, _odds(x[:, PD])[:, None])
        score = (state.odds[u] + factor_score(x))[:, None]
        return MisDemand(going, wanted, level, slope, tenor, score)

    def chance(self, state: Branches, e: Array, rows: Rows) -> Array:
        """Return P(accepted), the class that the learner learns: (N, M)."""
        return self._demand(state, rows).taken(e)

    def mean(self, state: Branches, e: Array, rows: Rows) -> Array:
        """Return E[r | e, x] of offers (N, M, 2), by the true classes; no offer earns nothing."""
        amount = UNIT * rows.x[:, AMOUNT, None]
        gain = _gain(self._demand(state, rows), e, rows.x[:, FUNDING, None])
        return np.asarray(np.nan_to_num(gain * amount))

    def best_rates(self, state: Branches, rows: Rows, months: Array) -> Array:
        """Return the best rate of some tenors (N, T): (N, T)."""
        demand, funding = self._demand(state, rows), rows.x[:, FUNDING, None]
        if isinstance(demand, WellDemand):
            return demand.best_rate(months, funding)
        gain = demand.gain_at(months, funding)
        found = peak(lambda log_rate: gain(np.exp(log_rate)), np.log(demand.going), months.shape)
        return np.asarray(np.exp(found))

    def best(self, state: Branches, rows: Rows) -> Array:
        """Return the best rate of the best of the arms' tenors: (N, 2)."""
        months = tenors(rows.x)
        offers = self._offers(self.best_rates(state, rows, months), months, (1.0,))
        chosen = self.mean(state, offers, rows).argmax(axis=1)
        return np.asarray(offers[np.arange(rows.n), chosen])

    def candidates(self, state: Branches, rows: Rows) -> Array:
        """Return rates around the best of every tenor on offer: (N, 21, 2).

        The mean rises to the best rate of a tenor and falls behind it, so that the best within
        limits is the best brought within them: these are candidates enough.
        """
        months = tenors(rows.x)
        return self._offers(self.best_rates(state, rows, months), months, _AROUND)

    def _offers(self, rates: Array, months: Array, factors: tuple[float, ...]) -> Array:
        offers = np.empty((rates.shape[0], len(factors), rates.shape[1], 2))
        offers[..., 0] = rates[:, None] * np.array(factors)[:, None]
        offers[..., 1] = months[:, None]
        return offers.reshape(rates.shape[0], -1, 2)

    def sample(self, rng: Stream, state: Branches, e: Array, rows: Rows) -> Array:
        """Draw (accepted, repaid, loss): a default loses much or little, `LGD` on average."""
        taken, default = (np.nan_to_num(p)[:, 0] for p in self.chances(state, e[:, None], rows))
        u = rng.uniform(rows.n, 3)
        is_taken = u[:, 0] < taken
        is_lost = is_taken & (u[:, 1] < default)
        loss = np.where(u[:, 2] < pr.CURED, pr.LIGHT, pr.HEAVY)
        out = np.zeros((rows.n, 3))
        out[:, 0], out[:, 1] = is_taken, is_taken & ~is_lost
        out[:, 2] = np.where(is_lost, loss, 0.0)
        return out

    def label(self, rng: Stream, state: Branches, e: Array, rows: Rows) -> Array:
        """Return the realised log risk spread (N, 1): that of comparable loans of the past.

        `mis`: of `COMPARABLE` loans the share that defaulted, turned into a rate as in `fair`, over
        the list rate. `well`: log δ* with the same size of noise.
        """
        z = rng.normal(rows.n)
        if self.is_well:
            log_delta = np.log(self.going(state, rows) / rows.x[:, BASE])
            return np.asarray(log_delta + pr.LABEL_NOISE * z)[:, None]
        u = rows.unit
        pd = logistic(state.odds[u] + factor_score(rows.x))
        seen = np.maximum(pd + np.sqrt(pd * (1.0 - pd) / pr.COMPARABLE) * z, 0.0)
        loss = LGD * _odds(np.minimum(seen, 0.8)) / loan_years(np.array(MIDDLE))
        return np.log((state.funding[u] + pr.MARGIN + loss) / rows.x[:, BASE])[:, None]

    def advance(
        self, rng: Stream, state: Branches, e: Array, outcome: Array, rows: Rows
    ) -> Branches:
        """Applications do not depend on each other."""
        return state

    def true_delta(self, state: Branches, rows: Rows) -> Array | None:
        """Return δ*(x) (N, 1, 1); None in `mis`, where there is none."""
        if not self.is_well:
            return None
        return np.asarray(self.going(state, rows) / rows.x[:, BASE])[:, None, None]

    def log_spread(self, state: Branches, units: Array, rows: Rows) -> Array:
        """Return log(fair rate / list rate) of contexts at each of some branches: (units, N)."""
        every = np.repeat(units, rows.n)
        x = np.tile(rows.x, (units.size, 1))
        rate = self.fair(state, Rows(every, every, x))
        return np.asarray(np.log(rate / state.base[every])).reshape(units.size, rows.n)


def _gain(demand: WellDemand | MisDemand, e: Array, funding: Array) -> Array:
    """Return E[r | e, x] of one mark lent, offers (N, M, 2), funding (N, 1): (N, M)."""
    margin = (e[..., 0] - funding) * loan_years(e[..., 1])
    return earned(demand.taken(e), demand.default(e), margin)


def _odds(p: Array) -> Array:
    return np.asarray(p / (1.0 - p))
