"""Moderation (instance 5): allow, warn or remove a post; a moderator and an appeal filter decide.

Made: a post's severity is linear in toxicity, reports and reach, plus a private cue that the
moderator reads and the learner never sees; a community needs 'allow', 'warn' or 'remove' as the
true severity passes its own two thresholds, and satisfaction falls by its own logits for every
level too lax or too harsh; after every post a panel rates severity with noise. One satisfied
community counts 1, a complaint or a violation −0.5. Where nothing runs the post stays up. Real:
the shape of the decision. The optimum knows the private cue, so some regret is there to stay; the
moderator reads it too, so overrides are better than their proposals and mislead a learner that
pools them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arms import ArmList
from gdcb.arrays import Array, logistic
from gdcb.bandits import BetaThompson
from gdcb.composition import Identity
from gdcb.context import Flag, Number, Schema
from gdcb.gates import Approval, CategoryKernel, Chain, PolicyFilter, SimulatedPerson
from gdcb.instance import Cells, Instance, NullAction
from gdcb.instances.catalogue import Domain
from gdcb.records import Rows
from gdcb.rewards import Payoff
from gdcb.scalers import RidgeScaler
from gdcb.streams import Stream

TOXICITY, REPORTS, REACH, APPEALABLE = range(4)
NAMES = ("allow", "warn", "remove")
EDGES = (0.33, 0.66)  # bands of severity, of the learner and of what it believes of moderators
THETA = np.array([0.6, 0.3, 0.1])  # severity on toxicity, reports, reach
CUE = 0.06  # severity a standard deviation of the private cue
COMPLAINT = -0.5  # what an unsatisfied community costs


@dataclass(slots=True)
class Communities:
    """Thresholds of every community, and what a level too lax or too harsh costs in logits."""

    warn: Array
    remove: Array
    lax: Array
    harsh: Array


def severity(rows: Rows) -> Array:
    """Return the true severity of every post, private cue included: (N,)."""
    seen = (rows.x[:, : REACH + 1] * THETA).sum(axis=1)
    return np.asarray(seen if rows.hidden is None else seen + CUE * rows.hidden[:, 0])


@dataclass(frozen=True)
class Forum:
    """The world: communities that want each post treated as severely as it is."""

    satisfied: float = 2.2
    label_noise: float = 0.15

    def start(self, rng: Stream, group: Array) -> Communities:
        """Draw thresholds around 0.33 and 0.66 (sd 0.05) and costs of 1.2 to 2.8 logits."""
        z, u = rng.normal(group.size, 2), rng.uniform(group.size, 2)
        cost = 1.2 + 1.6 * u
        return Communities(
            0.33 + 0.05 * z[:, 0], 0.66 + 0.05 * z[:, 1], cost[:, 0].copy(), cost[:, 1].copy()
        )

    def context(self, rng: Stream, state: Communities, t: int, group: Array) -> Rows:
        """Reveal a post: toxicity, reports, reach, whether a decision on it can be appealed."""
        n = group.size
        u, cue = rng.uniform(n, 4), rng.normal(n, 1)
        x = u.copy()
        x[:, APPEALABLE] = u[:, APPEALABLE] < 0.92
        return Rows(np.arange(n), group, x, hidden=cue)

    def _needed(self, state: Communities, rows: Rows) -> Array:
        s, u = severity(rows), rows.unit
        return np.asarray((s > state.warn[u]) * 1.0 + (s > state.remove[u]))

    def _satisfied(self, state: Communities, e: Array, rows: Rows) -> Array:
        """Return P(satisfied); where nothing runs the post stays up, as if allowed."""
        u = rows.unit
        excess = np.nan_to_num(e[..., 0]) - self._needed(state, rows)[:, None]
        cost = np.where(excess > 0, state.harsh[u, None], state.lax[u, None])
        return logistic(self.satisfied - cost * np.abs(excess))

    def mean(self, state: Communities, e: Array, rows: Rows) -> Array:
        """Return P(satisfied) less the cost of a complaint times its probability."""
        p = self._satisfied(state, e, rows)
        return np.asarray(p + (1.0 - p) * COMPLAINT)

    def best(self, state: Communities, rows: Rows) -> Array:
        """Return what the community needs, at the true severity."""
        return np.stack((self._needed(state, rows), severity(rows)), axis=1)

    def candidates(self, state: Communities, rows: Rows) -> Array:
        """Return every category at severities 0, 0.1, ..., 1: (N, 33, 2)."""
        category, score = np.meshgrid(np.arange(3.0), np.linspace(0.0, 1.0, 11), indexing="ij")
        grid = np.stack((category.ravel(), score.ravel()), axis=1)
        return np.tile(grid, (rows.n, 1, 1))

    def sample(self, rng: Stream, state: Communities, e: Array, rows: Rows) -> Array:
        """Draw whether the community is satisfied."""
        p = self._satisfied(state, e[:, None], rows)[:, 0]
        return np.asarray(rng.uniform(rows.n) < p, dtype=float)[:, None]

    def label(self, rng: Stream, state: Communities, e: Array, rows: Rows) -> Array:
        """Return the panel's rating of severity, with noise."""
        return (severity(rows) + self.label_noise * rng.normal(rows.n))[:, None]

    def advance(
        self, rng: Stream, state: Communities, e: Array, outcome: Array, rows: Rows
    ) -> Communities:
        """Return the state as it is: posts do not depend on each other."""
        return state


def _reading(rows: Rows) -> Array:
    """Return the category that the moderator reads off the post, cue included; a little lax."""
    s = severity(rows)
    return np.asarray((s > 0.38) * 1.0 + (s > 0.70))


def _approve(e: Array, rows: Rows) -> Array:
    """Approve with 0.92 what they read themselves, 0.3 less a level off."""
    return np.asarray(0.92 - 0.3 * np.abs(e[..., 0] - _reading(rows)[:, None]))


def _own_category(rows: Rows) -> Array:
    """Return the moderator's own category; the score stays as it was."""
    return np.stack((_reading(rows), np.full(rows.n, np.nan)), axis=1)


def build() -> Domain:
    """Return the domain."""
    instance = Instance(
        name="moderation",
        title="Content moderation",
        context=Schema(
            {
                "toxicity": Number(0, 1, "toxicity score of the text"),
                "reports": Number(0, 1, "reports by readers, scaled"),
                "reach": Number(0, 1, "readers reached, scaled"),
                "appealable": Flag("a decision on this post can be appealed"),
            }
        ),
        arms=ArmList(names=NAMES),
        scaler=RidgeScaler(
            features=("toxicity", "reports", "reach"), link="identity", penalty=0.1, every=40
        ),
        composition=Identity(name="category"),
        gate=Chain(
            (
                Approval(
                    SimulatedPerson(_approve, _own_category, veto=0.15),
                    CategoryKernel(n_categories=len(NAMES), edges=EDGES),
                    name="moderator",
                ),
                PolicyFilter(require="appealable", at_least=1.0, name="appeal filter"),
            )
        ),
        reward=Payoff(outcome=("satisfied",), lose=COMPLAINT),
        null=NullAction(mean=0.3),
        cells=Cells(EDGES),
    )
    return Domain(
        instance,
        BetaThompson(),
        Forum(),
        units=4,
        unit="community",
        is_endogenous=False,
        about=__doc__ or "",
    )
