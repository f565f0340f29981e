"""Platforms: communities that want each post treated as severely as it is.

With s the severity of a post on its platform:

- `well`: s = θᵀφ(x), φ the trunk's activations: inside the scaler's family;
- `mis`: s = Σ w·(attack, threat, vulgarity) of the post as it was built: the text, not its
  features, decides.

What a community makes of an action depends on s alone (`chances`), so E[r | e, x] is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gdcb.arrays import Array, logistic
from gdcb.instances.moderation import bank, house
from gdcb.instances.moderation.columns import (
    ADVICE,
    APPEAL_COST,
    REACH,
    REPORTS,
    ROUND,
    SCHEMA,
    SEVERITY,
    TEXT,
    VIOLATION_COST,
)
from gdcb.parts import check_choice, check_number
from gdcb.records import Rows
from gdcb.streams import Stream

# The prior over worlds. Of a platform (a replicate): what its panel weighs.
WEIGHTS = np.array([1.0, 1.0, 0.35])
WEIGHTS_SD = np.array([0.12, 0.12, 0.15])
THETA_SD, LEVEL_SD = 0.03, 0.04  # of the head's weights and of its level, in `well`
# Thresholds of severity, of a platform and of a community around it.
WARN_AT, REMOVE_AT, PLATFORM_SD, OWN_SD, LEAST_GAP = 0.28, 0.62, 0.06, 0.1, 0.12
# Logits of satisfaction that a unit of severity too lax or too harsh costs: uniform.
SATISFIED, LAX, HARSH = 2.0, (7.0, 13.0), (7.0, 13.0)
# Violations: how exposed readers are after each action, and where they set in.
EXPOSED, HARM_AT, HARM_SLOPE, HARM_LEAST = np.array([1.0, 0.5, 0.03]), 0.55, 10.0, 0.4
# Appeals: how often each action is contested, and how that falls with severity.
CONTESTED = np.array([0.02, 0.35, 1.0])
APPEAL_LEVEL, APPEAL_SD, APPEAL_SLOPE = 0.8, 0.5, 6.0
# What violations and appeals cost: medians, and standard deviation of their logarithms.
VIOLATION, APPEAL, COST_SD = 1.0, 0.5, 0.3
REACH_LAW = (1.2, 3.0)
# The panel sits in three rounds of ten and rates every post; of the past it rated three in ten.
SITS, RATED, RATING_SD = (0, 3, 6), 0.3, 0.15
CUE = 0.12  # severity a standard deviation of what only a private moderator knows


@dataclass(slots=True)
class Communities:
    """What every community wants.

    Parameters
    ----------
    warn, remove : (units,) severities from which it wants a warning, a removal
    lax, harsh : (units,) what a unit of severity too lax or too harsh costs, in logits
    contested : (units,) log odds of an appeal against the removal of a harmless post
    violation_cost, appeal_cost : (units,)
    weights : (units, 3) in `mis`: what the platform's severity is made of
    theta : (units, d) in `well`: its head
    """

    warn: Array
    remove: Array
    lax: Array
    harsh: Array
    contested: Array
    violation_cost: Array
    appeal_cost: Array
    weights: Array
    theta: Array


@dataclass(frozen=True)
class Forum:
    """The world of moderation.

    Parameters
    ----------
    variant : 'well' or 'mis'
    cue : severity a standard deviation of what is not in x and only the moderator reads; 0: nothing
    posts : the bank from which posts are drawn
    model : the pilot's severity model, which a plain moderator reads by, and which advises
    """

    variant: str = "well"
    cue: float = 0.0
    posts: bank.Bank = field(default_factory=bank.shipped)
    model: house.House = field(default_factory=house.stored)

    def __post_init__(self) -> None:
        check_choice("variant", self.variant, ("well", "mis"))
        check_number("cue", self.cue, 0.0)

    def start(self, rng: Stream, group: Array) -> Communities:
        """Draw the platforms, then their communities."""
        n, d = group.size, self.model.theta.size
        shared, own, u = rng.normal(n, 6 + d), rng.normal(n, 5), rng.uniform(n, 2)
        platform = shared[np.searchsorted(group, group)]  # the first community draws for all
        warn = WARN_AT + PLATFORM_SD * platform[:, 0] + OWN_SD * own[:, 0]
        remove = REMOVE_AT + PLATFORM_SD * platform[:, 1] + OWN_SD * own[:, 1]
        sd = np.full(d, THETA_SD)
        sd[0] = LEVEL_SD
        return Communities(
            warn,
            np.maximum(remove, warn + LEAST_GAP),
            LAX[0] + (LAX[1] - LAX[0]) * u[:, 0],
            HARSH[0] + (HARSH[1] - HARSH[0]) * u[:, 1],
            APPEAL_LEVEL + APPEAL_SD * (0.7 * platform[:, 2] + 0.7 * own[:, 2]),
            VIOLATION * np.exp(COST_SD * own[:, 3]),
            APPEAL * np.exp(COST_SD * own[:, 4]),
            np.maximum(WEIGHTS + WEIGHTS_SD * platform[:, 3:6], 0.0),
            self.model.theta + sd * platform[:, 6:],
        )

    def context(self, rng: Stream, state: Communities, t: int, group: Array) -> Rows:
        """Reveal a post of every community, drawn from the bank."""
        n, posts = group.size, self.posts
        law = np.tile(np.array(REACH_LAW)[:, None], (n, 1, 1))
        reach, u, z = rng.beta(law)[:, 0], rng.uniform(n, 2), rng.normal(n)
        post = np.minimum((u[:, 0] * posts.n).astype(np.int64), posts.n - 1)
        if posts.reach is not None:
            reach = posts.reach[post]
        x = np.empty((n, SCHEMA.width))
        x[:, :TEXT] = posts.x[post]
        x[:, REACH] = reach
        told = self._built(state.weights, post) if self.variant == "mis" else np.full(n, 0.25)
        x[:, REPORTS] = reports(u[:, 1], told, reach)
        if posts.reports is not None:
            x[:, REPORTS] = posts.reports[post]
        x[:, VIOLATION_COST] = state.violation_cost
        x[:, APPEAL_COST] = state.appeal_cost
        phi = self.model.phi(x[:, : REPORTS + 1])
        severity = told if self.variant == "mis" else (phi * state.theta).sum(axis=1)
        reading = (phi * self.model.theta).sum(axis=1)
        x[:, ADVICE] = reading
        if self.cue:
            severity = severity + self.cue * z
            reading = severity
        hidden = np.stack((post, severity, reading, np.full(n, float(t))), axis=1)
        return Rows(np.arange(n), group, x, hidden=hidden)

    def _built(self, weights: Array, post: Array) -> Array:
        """Return the severity of posts as they were built: (N,), weights (N, 3)."""
        return np.asarray(np.minimum((weights * self.posts.parts[post]).sum(axis=-1), 1.0))

    def chances(self, state: Communities, rows: Rows) -> tuple[Array, Array, Array]:
        """Return P(satisfied), P(violation), P(appeal) of every category: (N, 3) each."""
        return self.satisfied(state, rows), self.violated(rows), self.appealed(state, rows)

    def satisfied(self, state: Communities, rows: Rows) -> Array:
        """Return P(satisfied), which falls with what is done too little or too much: (N, 3)."""
        u, s = rows.unit, severity(rows)
        warn, remove = state.warn[u], state.remove[u]
        lax, harsh = state.lax[u], state.harsh[u]
        gap = np.empty((rows.n, 3))
        gap[:, 0] = lax * np.maximum(s - warn, 0.0)
        gap[:, 1] = lax * np.maximum(s - remove, 0.0) + harsh * np.maximum(warn - s, 0.0)
        gap[:, 2] = harsh * np.maximum(remove - s, 0.0)
        return logistic(SATISFIED - gap)

    def violated(self, rows: Rows) -> Array:
        """Return P(violation), by severity, reach, and how exposed readers are: (N, 3)."""
        reach = HARM_LEAST + (1.0 - HARM_LEAST) * rows.x[:, REACH]
        harm = logistic(HARM_SLOPE * (severity(rows) - HARM_AT)) * reach
        return np.asarray(harm[:, None] * EXPOSED)

    def appealed(self, state: Communities, rows: Rows) -> Array:
        """Return P(appeal), which falls with severity: (N, 3)."""
        contest = logistic(state.contested[rows.unit] - APPEAL_SLOPE * severity(rows))
        return np.asarray(contest[:, None] * CONTESTED)

    def means(self, state: Communities, rows: Rows) -> Array:
        """Return the expected reward of every category: (N, 3)."""
        satisfied, violation, appeal = self.chances(state, rows)
        cost, dear = rows.x[:, VIOLATION_COST, None], rows.x[:, APPEAL_COST, None]
        return np.asarray(satisfied - cost * violation - dear * appeal)

    def mean(self, state: Communities, e: Array, rows: Rows) -> Array:
        """Return E[r | e, x]; where nothing runs the post stays up, as if allowed."""
        return np.take_along_axis(self.means(state, rows), category(e), axis=1)

    def best(self, state: Communities, rows: Rows) -> Array:
        """Return the best category, at the true severity."""
        best = self.means(state, rows).argmax(axis=1)
        return np.stack((best, severity(rows)), axis=1)

    def candidates(self, state: Communities, rows: Rows) -> Array:
        """Return every category (N, 3, 2): no gate reads the severity that goes along."""
        out = np.empty((rows.n, 3, 2))
        out[..., 0] = np.arange(3)
        out[..., 1] = severity(rows)[:, None]
        return out

    def sample(self, rng: Stream, state: Communities, e: Array, rows: Rows) -> Array:
        """Draw satisfaction, violation and appeal."""
        at = category(e[:, None])
        drawn = rng.uniform(rows.n, 3)
        out = np.empty((rows.n, 3))
        for j, chance in enumerate(self.chances(state, rows)):
            out[:, j] = drawn[:, j] < np.take_along_axis(chance, at, axis=1)[:, 0]
        return out

    def label(self, rng: Stream, state: Communities, e: Array, rows: Rows) -> Array:
        """Return the panel's rating of severity, with noise, of those posts that it rates."""
        assert rows.hidden is not None
        z, u, t = rng.normal(rows.n), rng.uniform(rows.n), rows.hidden[:, ROUND]
        rated = np.where(t < 0, u < RATED, np.isin(t % 10, SITS))
        return np.where(rated, severity(rows) + RATING_SD * z, np.nan)[:, None]

    def advance(
        self, rng: Stream, state: Communities, e: Array, outcome: Array, rows: Rows
    ) -> Communities:
        """Return the state as it is: posts do not depend on each other."""
        return state

    def true_delta(self, state: Communities, rows: Rows) -> Array | None:
        """Return δ*(x) (N, 1, 1); None in `mis`, where there is none."""
        if self.variant == "mis":
            return None
        phi = self.model.phi(rows.x[:, : REPORTS + 1])
        return np.asarray((phi * state.theta[rows.unit]).sum(axis=1))[:, None, None]


def severity(rows: Rows) -> Array:
    """Return the true severity of every row's post: (N,)."""
    assert rows.hidden is not None
    return np.asarray(rows.hidden[:, SEVERITY])


def category(e: Array) -> Array:
    """Return the category of actions (N, M, D), 0 where nothing runs: (N, M) integers."""
    kind = e[..., 0]
    return np.where(np.isfinite(kind), kind, 0.0).astype(np.int64)


def reports(u: Array, told: Array, reach: Array) -> Array:
    """Return the reports of readers, geometric with a mean that rises with severity and reach."""
    mean = 0.3 + 4.0 * told * (0.3 + reach)
    count = np.floor(np.log(np.maximum(u, 1e-12)) / np.log(mean / (1.0 + mean)))
    return np.asarray(np.minimum(count, 10.0) / 10.0)
