"""The instance, and how the protocol runs it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.composition import Prompt
from gdcb.gates import Bounds
from gdcb.instance import Instance, NullAction
from gdcb.instances.applicable import inapplicable, labels
from gdcb.instances.catalogue import Domain, Measure, Study, Tuning, readme
from gdcb.instances.options import require_known, whole_number
from gdcb.instances.past import generate
from gdcb.instances.tools import learners
from gdcb.instances.tools.columns import (
    CLEAN,
    COST,
    DENIED,
    EXAMPLES,
    FEATURES,
    NAMES,
    SCHEMA,
    K,
    parts_of,
)
from gdcb.instances.tools.incumbent import incumbent, own
from gdcb.instances.tools.policy import ToolPolicy
from gdcb.instances.tools.questions import SOURCES
from gdcb.instances.tools.relevance import best_heads
from gdcb.instances.tools.retrieval import DEFAULT
from gdcb.instances.tools.world import REWARDS, UNAIDED, Routing, Tenants, relevance_of
from gdcb.records import Rows
from gdcb.streams import CONTEXT, Streams

TENANTS = 8
ROWS = 1500  # requests of the past in a replicate
SIZE = Bounds(low=0.0, high=float(EXAMPLES), action=1, outside="veto", name="prompt size")
POLICY = ToolPolicy(
    tools=NAMES,
    denied=DENIED,
    cost=COST,
    spend="spend",
    clean=CLEAN,
    secret="secret",
    injected="injected",
    invalid="invalid",
)
_LOOKS = 40  # rounds of contexts from which the best of the family is worked out
_LOOK_SEED = 9_000_003  # of their streams; no result is computed on it

ABOUT: dict[str, Any] = {
    "title": "Tool use by a language model",
    "unit": "latency-discounted successes a tenant",
    "action": "tool slot",
    "real": [
        (
            "in `mis`: the requests, the tools' descriptions, which tools are offered with a "
            "request and which call is right (1,253 questions of bfcl-eval, or agentdojo's 97 user "
            "tasks), "
            "and so the similarities that retrieval finds"
        ),
        "the policy gate: the class that a live router asks, rule by rule",
    ],
    "made": [
        (
            "how often the right call succeeds: the executing model's skill with each tool, what "
            "arguments, length and examples do to it, and how rarely a wrong call will do"
        ),
        (
            "tenants, their mix of requests, catalogues of eight tools put together from the data, "
            "costs, latencies, spend limits and how often a request is flagged"
        ),
        "the judge who rates every call, and is wrong about one in ten",
        "all of `well`",
    ],
}
KNOWN = (
    "The optimum and the gate floor know which call is right, which no method sees: where "
    "similarities do not tell two tools apart, the regret is out of every method's reach."
)


def instance(variant: str = "mis") -> Instance:
    """Return the tuple.

    Methods without a scaler always carry the same number of examples: the one that does best, which
    tuning worlds know. In `well` that is two, in `mis`, where examples only help, all four.
    """
    return Instance(
        name="tools",
        title="Tool use by a language model",
        context=SCHEMA,
        arms=ArmList(names=NAMES),
        scaler=learners.scaler(learners.UNTUNED),
        composition=Prompt(examples=EXAMPLES, neutral=0.5 if variant == "well" else 1.0),
        gate=(SIZE, POLICY),
        reward=REWARDS[variant],
        null=NullAction(mean=UNAIDED),
    )


def study(variant: str, options: Mapping[str, Any], _episodes: int) -> Study:
    """Return the instance as the protocol runs it.

    Options: `questions` of `mis` ('bfcl', 'agentdojo'), `retrieval` ('tf-idf', or the name of a
    sentence-embedding model) and `rows` of history.
    """
    require_known("tools", options, ("questions", "retrieval", "rows"))
    questions, retrieval = options.get("questions", SOURCES[0]), options.get("retrieval", DEFAULT)
    rows = whole_number(options, "rows", ROWS)
    world = Routing(variant, questions, retrieval)
    domain = Domain(
        instance(variant),
        learners.learner(learners.UNTUNED),
        world,
        units=TENANTS,
        unit="tenant",
        is_endogenous=False,
        about=readme("tools"),
    )
    return Study(
        domain=domain,
        variant=variant,
        features=FEATURES,
        past=partial(generate, rows=rows, incumbent=incumbent),
        incumbent=incumbent,
        own=own,
        scaler=learners.scaler,
        learner=learners.learner,
        unscaled=learners.unscaled,
        delta=partial(best_delta, world),
        specification=specification(variant, questions, retrieval, rows),
        about=ABOUT | ({"oracle_knows": KNOWN} if variant == "mis" else {}),
        tuning=Tuning(
            fitted=learners.fitted,
            learned=world.chance,
            unscaled=learners.without_relevance,
        ),
        labels=labels(domain.instance),
        left_out=inapplicable(domain.instance, TENANTS),
        edges=np.arange(K + 1) - 0.5,
        measures=measures(world),
    )


def measures(world: Routing) -> tuple[Measure, ...]:
    """Return what people who run routers read beside regret."""

    def success(state: Tenants, e: Array, rows: Rows) -> Array:
        return world.chance(state, e[:, None], rows)[:, 0]

    def latency(_state: Tenants, e: Array, _rows: Rows) -> Array:
        return np.where(parts_of(e)[2], REWARDS[world.variant].factor(e), np.nan)

    def vetoed(_state: Tenants, e: Array, _rows: Rows) -> Array:
        return np.asarray(~parts_of(e)[2], dtype=float)

    def cost(_state: Tenants, e: Array, _rows: Rows) -> Array:
        tool, _, runs = parts_of(e)
        return np.where(runs, np.array(COST)[tool], 0.0)

    return (
        Measure("success", "requests that succeed", success),
        Measure("latency_factor", "latency factor of calls", latency),
        Measure("vetoed", "requests without a tool", vetoed),
        Measure("cost", "cost, cents a request", cost, is_share=False),
    )


def best_delta(world: Routing, state: Tenants, reference: Rows) -> Array:
    """Return δ°, the best of the scaler's family in every group: (groups, N, K).

    In `well` that is δ*. In `mis` the ridge fit of the judge's mean rating over requests
    of the group's tenants and the tools that are offered with them.
    """
    x, n = reference.x, state.skill.shape[0]
    group = np.repeat(np.arange(n // TENANTS), TENANTS)
    if world.variant == "well":
        theta = np.repeat(state.theta[::TENANTS], x.shape[0], axis=0)
        return relevance_of(theta, np.tile(x, (n // TENANTS, 1))).reshape(-1, x.shape[0], K)
    part: Any = instance().scaler
    streams = Streams(_LOOK_SEED, TENANTS)
    heads = best_heads(
        part,
        (world.context(streams.at(CONTEXT, t), state, t, group) for t in range(_LOOKS)),
        world.relevance,
        n // TENANTS,
    )
    return np.asarray((part.phi(x)[None] * heads[:, None]).sum(axis=-1))


def specification(
    variant: str, questions: str, retrieval: str, rows: int
) -> tuple[tuple[str, str, str], ...]:
    """Return the tuple in words: (symbol, word, value) rows."""
    truths = {
        "well": "σ(skill + slope·(δ* − ½) − help·(examples/4 − δ*)²), δ* in the family",
        "mis": f"which call is right is what {questions} says; similarities by {retrieval}",
    }
    return (
        (
            "𝒳",
            "context",
            "similarity of each tool's description and past successes; size, spend, flags",
        ),
        ("𝒜", "nominal arms", f"{K} tools: five that read, three that write, one of these denied"),
        (
            "Δ, δ_θ",
            "scaler",
            "relevance of every tool: a trunk fitted once, a ridge head a tool around a shared one",
        ),
        ("Φ", "composition", f"prompt = tool, ⌊δ·{EXAMPLES} + ½⌋ retrieved examples, template"),
        (
            "g",
            "gate",
            "policy: unknown or denied tools, spend, flagged requests to tools that write",
        ),
        ("𝒴, φ", "outcome, reward", "success or not; reward = success × latency factor"),
        ("R", "truth of this run", f"variant {variant}: {truths[variant]}"),
        ("units", "replicate", f"{TENANTS} tenants of one catalogue, drawn from a stated prior"),
        ("history", "incumbent", f"{rows:,} requests of keyword routing, behind the same gate"),
    )
