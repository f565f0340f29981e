"""LLM tool use (instance 6): choose a tool, retrieve examples for it; a policy filter decides.

Made: a tool's relevance to a query is linear in four query features; a call succeeds with
σ(skill − 5·(examples/4 − relevance)²), skill drawn for each tenant and tool, so too many examples
distract as too few starve; latency grows with the tool and with every example and discounts
success. After a call a judge rates the relevance of the tool that ran, with noise, and of no
other. Spending is endogenous: a call takes its cost off a budget that is refilled every 25
rounds. Real: the shape of the decision. The optimum ranges over every tool and number of
examples, tools that are denied, too dear or down among them: what the filter forbids is the gate's
part of regret, positive by design, and what a mask rules out is part of calibration's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arms import ArmList
from gdcb.arrays import Array, logistic
from gdcb.bandits import BetaThompson
from gdcb.composition import Prompt
from gdcb.context import Number, Schema
from gdcb.gates import PolicyFilter
from gdcb.instance import Instance, NullAction
from gdcb.instances.catalogue import Domain
from gdcb.records import Rows
from gdcb.rewards import Payoff
from gdcb.scalers import RidgeScaler
from gdcb.streams import Stream

QUERY, BUDGET = slice(0, 4), 4  # columns of x
NAMES = ("search", "calculator", "code", "database", "shell")
LOCAL, SHELL = 1, 4  # the calculator is never down, the shell is denied
EXAMPLES = 4
WEIGHTS = np.array(  # relevance of each tool on facts, numbers, code, records
    [
        [0.7, 0.0, 0.1, 0.2],
        [0.0, 0.8, 0.2, 0.0],
        [0.1, 0.2, 0.7, 0.0],
        [0.2, 0.1, 0.0, 0.7],
        [0.1, 0.0, 0.6, 0.3],
    ]
)
SKILL = np.array([0.6, 0.2, 0.6, 0.8, 1.2])
LATENCY = np.array([0.10, 0.02, 0.15, 0.20, 0.05])  # −log of the latency factor
PER_EXAMPLE = 0.03
COST = (1.0, 0.5, 1.5, 2.0, 1.0)
FULL, REFILL = 30.0, 25  # budget, and rounds between refills
UNAIDED = 0.05  # success without any tool


@dataclass(slots=True)
class Tenants:
    """Skill (units, 5) of every tenant's tools, the budget left, and rounds so far."""

    skill: Array
    budget: Array
    rounds: Array


def relevance(x: Array) -> Array:
    """Return the relevance of every tool: (N, 5), in [0, 1]."""
    return np.asarray((x[:, None, QUERY] * WEIGHTS).sum(axis=-1))


def _parts(e: Array) -> tuple[Array, Array, Array]:
    """Return tool, examples, and whether anything runs."""
    runs = np.isfinite(e).all(axis=-1)
    return np.nan_to_num(e[..., 0]).astype(np.int64), np.nan_to_num(e[..., 1]), np.asarray(runs)


def latency_factor(e: Array, _x: Array) -> Array:
    """Return what a success is worth after its latency: 1 without a tool, less with examples."""
    tool, examples, runs = _parts(e)
    return np.where(runs, np.exp(-LATENCY[tool] - PER_EXAMPLE * examples), 1.0)


@dataclass(frozen=True)
class Calls:
    """The world: calls that succeed by skill and by examples that match the relevance."""

    mismatch: float = 5.0
    label_noise: float = 0.1
    down: float = 0.07

    def start(self, rng: Stream, group: Array) -> Tenants:
        """Draw skills N(SKILL, 0.8²) a tenant and tool; budgets start full."""
        n = group.size
        skill = SKILL + 0.8 * rng.normal(n, len(NAMES))
        return Tenants(skill, np.full(n, FULL), np.zeros(n, dtype=np.int64))

    def context(self, rng: Stream, state: Tenants, t: int, group: Array) -> Rows:
        """Reveal a query, the budget that is left, and which tools are up."""
        n = group.size
        query, u = rng.uniform(n, 4), rng.uniform(n, len(NAMES))
        mask = u >= self.down
        mask[:, LOCAL] = True
        x = np.concatenate((query, state.budget[:, None]), axis=1)
        return Rows(np.arange(n), group, x, mask=mask)

    def _success(self, state: Tenants, e: Array, rows: Rows) -> Array:
        tool, examples, runs = _parts(e)
        gap = examples / EXAMPLES - np.take_along_axis(relevance(rows.x), tool, axis=1)
        skill = state.skill[rows.unit[:, None], tool]
        return np.where(runs, logistic(skill - self.mismatch * gap * gap), UNAIDED)

    def mean(self, state: Tenants, e: Array, rows: Rows) -> Array:
        """Return P(success) · latency factor."""
        return np.asarray(self._success(state, e, rows) * latency_factor(e, rows.x))

    def best(self, state: Tenants, rows: Rows) -> Array:
        """Return the best of all prompts, whatever the filter, the budget or the mask say."""
        every = self.candidates(state, rows)
        return np.asarray(every[np.arange(rows.n), self.mean(state, every, rows).argmax(axis=1)])

    def candidates(self, state: Tenants, rows: Rows) -> Array:
        """Return every tool with every number of examples: (N, 25, 3)."""
        tool, examples = np.meshgrid(np.arange(5.0), np.arange(EXAMPLES + 1.0), indexing="ij")
        every = np.stack((tool.ravel(), examples.ravel(), np.ones(tool.size)), axis=1)
        return np.tile(every, (rows.n, 1, 1))

    def sample(self, rng: Stream, state: Tenants, e: Array, rows: Rows) -> Array:
        """Draw whether the call succeeds."""
        p = self._success(state, e[:, None], rows)[:, 0]
        return np.asarray(rng.uniform(rows.n) < p, dtype=float)[:, None]

    def label(self, rng: Stream, state: Tenants, e: Array, rows: Rows) -> Array:
        """Return the judge's rating of the tool that ran, NaN for the others."""
        rated = relevance(rows.x) + self.label_noise * rng.normal(rows.n)[:, None]
        return np.where(e[:, :1] == np.arange(len(NAMES)), rated, np.nan)

    def advance(self, rng: Stream, state: Tenants, e: Array, outcome: Array, rows: Rows) -> Tenants:
        """Take the cost off the budget; refill it every `REFILL` rounds."""
        tool, _, runs = _parts(e)
        left = state.budget - np.where(runs, np.array(COST)[tool], 0.0)
        rounds = state.rounds + 1
        return Tenants(state.skill, np.where(rounds % REFILL == 0, FULL, left), rounds)


def build() -> Domain:
    """Return the domain."""
    instance = Instance(
        name="tools",
        title="Tool use by a language model",
        context=Schema(
            {
                "facts": Number(0, 1, "how much the query asks for facts"),
                "numbers": Number(0, 1, "how much it asks for arithmetic"),
                "code": Number(0, 1, "how much it asks for code"),
                "records": Number(0, 1, "how much it asks for stored records"),
                "budget": Number(0, FULL, "what is left to spend until the next refill"),
            }
        ),
        arms=ArmList(names=NAMES),
        scaler=RidgeScaler(
            features=("facts", "numbers", "code", "records"),
            link="identity",
            penalty=0.1,
            every=20,
            n_arms=len(NAMES),
        ),
        composition=Prompt(examples=EXAMPLES),
        gate=PolicyFilter(denied=(SHELL,), cost=COST, budget="budget", name="policy filter"),
        reward=Payoff(outcome=("success",), win=latency_factor),
        null=NullAction(mean=UNAIDED),
    )
    return Domain(
        instance,
        BetaThompson(),
        Calls(),
        units=2,
        unit="tenant",
        is_endogenous=True,
        about=__doc__ or "",
    )
