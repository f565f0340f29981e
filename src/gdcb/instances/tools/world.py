"""Calls of tools that succeed or not: a stylised truth, and the questions of a bank.

With n of N examples in the prompt, s_a and p_a the similarities of a request to what a tool says
of itself and to its nearest past success:

- `well`: P(success) = σ(skill + slope·(δ* − ½) − help·(n/N − δ*)²), δ*_a(x) linear in s_a, p_a and
  their lead over the other candidates': as many examples as are relevant help, more distract;
- `mis`: the right call succeeds with σ(skill − per argument·(arguments − 3) − long·length +
  help·p_a·n/N), any other with a small chance. Which call is right is what the data say; no x says
  so for sure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array, logistic
from gdcb.errors import InvalidInput
from gdcb.instances.tools import catalogues
from gdcb.instances.tools.columns import (
    DENIED,
    EXAMPLES,
    FIGURES,
    INJECTED,
    INVALID,
    LATENCY,
    LENGTH,
    MOST_SPEND,
    NAMES,
    PER_EXAMPLE,
    SCHEMA,
    SECRET,
    SPEND,
    K,
    P,
    S,
    parts_of,
)
from gdcb.instances.tools.questions import SOURCES
from gdcb.instances.tools.relevance import inputs
from gdcb.instances.tools.retrieval import DEFAULT
from gdcb.instances.tools.reward import Latency
from gdcb.parts import check_choice, check_text
from gdcb.records import Rows
from gdcb.streams import Stream

# In `well` examples take no time: else fewer than are relevant would be best, and Φ not right.
REWARDS = {"well": Latency(LATENCY), "mis": Latency(LATENCY, PER_EXAMPLE)}

# The prior over tenants. Of a catalogue's tools: mean and standard deviation; then of a tenant
# around them.
SKILL, SKILL_SD, SKILL_OWN = 1.2, 0.6, 0.6
MIX_SD, MIX_OWN = 0.5, 0.8  # of the log share of requests that a tool answers
RARELY = 0.3  # how much less often a denied tool is asked for
# `well`: the true relevance, and what it does.
THETA = np.array([0.1, 1.1, 0.5, 0.5, 0.3])
THETA_SD = np.array([0.05, 0.2, 0.15, 0.15, 0.1])
SLOPE, SLOPE_SD = 4.5, 0.5
HELP = 0.8  # log odds lost by examples that do not fit (`well`), won by those that do (`mis`)
# `mis`: what makes the right call hard, and how often another one will do.
PER_ARGUMENT, LONG, WRONG = 0.15, 0.8, 0.04
UNAIDED = 0.05  # success without any tool
# Of a request.
DISTRACTOR = 0.6  # chance that a tool of the catalogue is offered beside those that must be
LEAST_SPEND = 1.0
RATES = (0.03, 0.04, 0.04)  # of requests with a secret, an injected order, invalid arguments
RATED, JUDGE_ERROR, JUDGE_NOISE = 1.0, 0.1, 0.15  # of the judge who rates relevance
HARD = K  # hidden column behind the relevance of every tool: log odds that a request costs


@dataclass(slots=True)
class Tenants:
    """Every tenant's tools and requests.

    Parameters
    ----------
    skill : (units, K) log odds that a tool's call succeeds
    odds : (units, Q) cumulated chances of the requests (`mis`) or of the slots asked for (`well`)
    slope, theta : (units,), (units, 5) of the catalogue, in `well`
    table : what the requests of every group's catalogue are like, in `mis`
    """

    skill: Array
    odds: Array
    slope: Array
    theta: Array
    table: catalogues.Table | None = None


@dataclass(frozen=True)
class Routing:
    """The world of tool use.

    Parameters
    ----------
    variant : 'well' or 'mis'
    questions, retrieval : of `mis`: the source of its questions, and how similarity is measured
    """

    variant: str = "well"
    questions: str = SOURCES[0]
    retrieval: str = DEFAULT

    def __post_init__(self) -> None:
        check_choice("variant", self.variant, ("well", "mis"))
        check_choice("questions", self.questions, SOURCES)
        check_text("retrieval", self.retrieval)

    def start(self, rng: Stream, group: Array) -> Tenants:
        """Draw the catalogues, then their tenants."""
        n = group.size
        shared, own = rng.normal(n, 2 * K + 1 + THETA.size), rng.normal(n, 2 * K)
        first = np.searchsorted(group, group)  # the first tenant of a catalogue draws for all
        common = shared[first]
        skill = SKILL + SKILL_SD * common[:, :K] + SKILL_OWN * own[:, :K]
        mix = np.exp(MIX_SD * common[:, K : 2 * K] + MIX_OWN * own[:, K:])
        mix[:, [NAMES.index(name) for name in DENIED]] *= RARELY
        slope = SLOPE + SLOPE_SD * common[:, 2 * K]
        theta = THETA + THETA_SD * common[:, 2 * K + 1 :]
        if self.variant == "well":
            return Tenants(skill, _cumulated(mix), slope, theta)
        uniforms = rng.uniform(n, catalogues.DRAWS)
        found = catalogues.retrieved(self.questions, self.retrieval)
        table = catalogues.draw(found, uniforms[np.unique(first)])
        slot, is_real = table.slot[group], table.request[group] >= 0
        count = np.stack([(is_real & (slot == a)).sum(axis=1) for a in range(K)], axis=1)
        each = np.take_along_axis(mix / np.maximum(count, 1), slot, axis=1)
        return Tenants(skill, _cumulated(np.where(is_real, each, 0.0)), slope, theta, table)

    def context(self, rng: Stream, state: Tenants, t: int, group: Array) -> Rows:
        """Reveal a request of every tenant, and the tools that are offered with it."""
        n = group.size
        x = np.zeros((n, SCHEMA.width))
        u, offered = rng.uniform(n, 8), rng.uniform(n, K)
        asked = (state.odds <= u[:, :1]).sum(axis=1)
        x[:, SPEND] = LEAST_SPEND + (MOST_SPEND - LEAST_SPEND) * u[:, 1]
        for i, column in enumerate((SECRET, INJECTED, INVALID)):
            x[:, column] = u[:, 2 + i] < RATES[i]
        if state.table is None:
            mask = (np.arange(K) == asked[:, None]) | (offered < DISTRACTOR)
            x[:, S], x[:, P] = self._stylised(rng, asked, mask)
            x[:, LENGTH], x[:, FIGURES] = u[:, 5], u[:, 6] * u[:, 7]
            relevance = relevance_of(state.theta, x)
            hidden = np.concatenate((relevance, np.zeros((n, 1))), axis=1)
            return Rows(np.arange(n), group, x, mask=mask, hidden=hidden)
        table = state.table
        at = (group, asked)
        mask = table.is_own[at] | (table.is_free[at] & (offered < DISTRACTOR))
        x[:, S], x[:, P] = np.where(mask, table.near[at], 0.0), np.where(mask, table.past[at], 0.0)
        x[:, LENGTH], x[:, FIGURES] = table.length[at], table.figures[at]
        hidden = np.zeros((n, K + 1))
        hidden[np.arange(n), table.slot[at]] = 1.0
        hidden[:, HARD] = PER_ARGUMENT * (table.arguments[at] - 3.0) + LONG * table.length[at]
        return Rows(np.arange(n), group, x, mask=mask, hidden=hidden)

    def _stylised(self, rng: Stream, asked: Array, mask: Array) -> tuple[Array, Array]:
        """Draw similarities (N, K) that are higher for the tool that is asked for."""
        n = asked.size
        is_asked = np.arange(K) == asked[:, None]
        noise = rng.normal(n, 2 * K)
        has_past = rng.uniform(n, K) < 0.8
        near = np.where(is_asked, 0.42, 0.12) + np.where(is_asked, 0.14, 0.10) * noise[:, :K]
        past = np.where(is_asked, 0.36, 0.06) + np.where(is_asked, 0.16, 0.10) * noise[:, K:]
        past = np.where(has_past, past, 0.0)
        return np.where(mask, near, 0.0).clip(0.0, 1.0), np.where(mask, past, 0.0).clip(0.0, 1.0)

    def relevance(self, rows: Rows) -> Array:
        """Return the true relevance of every tool (N, K): δ* in `well`, 1 or 0 in `mis`."""
        if rows.hidden is None:
            raise InvalidInput("world: expected rows that it made, with what no method sees")
        return np.asarray(rows.hidden[:, :K])

    def chance(self, state: Tenants, e: Array, rows: Rows) -> Array:
        """Return P(success) of prompts (N, M, 3): (N, M); without a tool that of none."""
        tool, examples, runs = parts_of(e)
        row = np.arange(rows.n)[:, None]
        logit = state.skill[rows.unit[:, None], tool]
        share = examples / EXAMPLES
        relevance = self.relevance(rows)[row, tool]
        if self.variant == "well":
            gap = share - relevance.clip(0.0, 1.0)
            logit += state.slope[rows.unit, None] * (relevance - 0.5) - HELP * gap * gap
            return np.where(runs, logistic(logit), UNAIDED)
        assert rows.hidden is not None
        logit += HELP * share * rows.x[:, P][row, tool] - rows.hidden[:, HARD, None]
        p = np.where(relevance > 0.5, logistic(logit), WRONG)
        return np.where(runs, p, UNAIDED)

    def mean(self, state: Tenants, e: Array, rows: Rows) -> Array:
        """Return P(success) · latency factor."""
        return np.asarray(self.chance(state, e, rows) * REWARDS[self.variant].factor(e))

    def best(self, state: Tenants, rows: Rows) -> Array:
        """Return the best prompt of the tools that are offered, whatever the policy says."""
        every = self.candidates(state, rows)
        return np.asarray(every[np.arange(rows.n), self.mean(state, every, rows).argmax(axis=1)])

    def candidates(self, state: Tenants, rows: Rows) -> Array:
        """Return every offered tool with every number of examples: (N, 40, 3), else NaN."""
        every = np.tile(_PROMPTS, (rows.n, 1, 1))
        if rows.mask is not None:
            every[~np.repeat(rows.mask, EXAMPLES + 1, axis=1)] = np.nan
        return every

    def sample(self, rng: Stream, state: Tenants, e: Array, rows: Rows) -> Array:
        """Draw whether the call succeeds."""
        p = self.chance(state, e[:, None], rows)[:, 0]
        return np.asarray(rng.uniform(rows.n) < p, dtype=float)[:, None]

    def label(self, rng: Stream, state: Tenants, e: Array, rows: Rows) -> Array:
        """Return the judge's rating of the tool that ran (N, K); NaN for others, and mostly."""
        u, noise = rng.uniform(rows.n, 2), rng.normal(rows.n)
        tool, _, runs = parts_of(e)
        rated = self.relevance(rows)
        if self.variant == "well":
            rated = rated + JUDGE_NOISE * noise[:, None]
        else:
            rated = corrected(np.where(u[:, 1:] < JUDGE_ERROR, 1.0 - rated, rated))
        is_rated = (runs & (u[:, 0] < RATED))[:, None] & (tool[:, None] == np.arange(K))
        return np.where(is_rated, rated, np.nan)

    def advance(self, rng: Stream, state: Tenants, e: Array, outcome: Array, rows: Rows) -> Tenants:
        """Change nothing: requests do not depend on each other, nor on what ran."""
        return state

    def true_delta(self, state: Tenants, rows: Rows) -> Array | None:
        """Return δ*(x) (N, K, 1); None in `mis`, where there is none."""
        if self.variant == "mis":
            return None
        return self.relevance(rows)[..., None]


def corrected(rating: Array) -> Array:
    """Return ratings of 0 and 1 so that their mean is right, the judge's share of errors known.

    >>> (0.9 * corrected(np.ones(1)) + 0.1 * corrected(np.zeros(1))).round(9).tolist()
    [1.0]
    """
    return np.asarray((rating - JUDGE_ERROR) / (1.0 - 2.0 * JUDGE_ERROR))


def relevance_of(theta: Array, x: Array) -> Array:
    """Return δ* (N, K) of requests x (N, p) under θ (N, 5), in `well`."""
    said = inputs(x[:, S], x[:, P])
    total = theta[:, :1] + theta[:, 1:2] * said[0]
    for j in range(1, len(said)):
        total = total + theta[:, 1 + j : 2 + j] * said[j]
    return np.asarray(total)


_PROMPTS = np.array([(a, n, 1.0) for a in range(K) for n in range(EXAMPLES + 1)], dtype=float)


def _cumulated(weight: Array) -> Array:
    """Return cumulated shares (n, m); the last real one is 1, so that no draw falls behind it."""
    total = np.cumsum(weight, axis=1)
    share = total / total[:, -1:]
    return np.where(total >= total[:, -1:], 1.0, share)
