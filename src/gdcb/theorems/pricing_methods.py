"""GDCB, the same without a scaler, and two rivals that read the context: who sets prices, and how.

All see the same prices, contexts, past and outcomes. GDCB's scaler is fitted on outcomes, never on
labels that rivals do not get. The prior of every method is tuned by the same procedure, on seeds
that are not used again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gdcb.analysis import Ledger
from gdcb.arrays import Array
from gdcb.bandits import Bandit, CurveThompson, LogisticThompson, SharedLinearThompson
from gdcb.simulate import simulate
from gdcb.theorems.worlds import Pricing, instance_of, past, price_list

LABELS = {
    "GDCB": "GDCB, scaler fitted on outcomes",
    "known": "GDCB, δ* known",
    "none": "GDCB without a scaler",
    "B2s": "LinTS with shared weights on (1, x, e, e², x⊗e)",
    "B2g": "logistic TS on (1, x, e), payoff known",
}
RIVALS = ("none", "B2s", "B2g")
_SCALERS = {"GDCB": "outcomes", "known": "known"}
_STEPS_AN_OCTAVE = 10


@dataclass(frozen=True)
class Course:
    """How long a method learns: rows of the past, rounds, replicates, rows between refits."""

    past: int = 100
    rounds: int = 100
    replicates: int = 150
    every: int = 50


def settings(method: str) -> list[dict[str, float]]:
    """Return the priors from which a method's is chosen; every method has the same number."""
    if method == "B2s":
        return [
            {"prior_sd": sd, "noise": noise} for sd, noise in ((1.0, 0.1), (1.0, 0.03), (1.0, 0.01))
        ]
    return [{"prior_sd": sd} for sd in (3.0, 10.0, 30.0)]


def bandit_of(method: str, chosen: dict[str, float]) -> Bandit:
    """Return a method's learner."""
    sd = chosen["prior_sd"]
    if method == "B2s":
        return SharedLinearThompson(prior_sd=sd, noise=chosen["noise"])
    if method == "B2g":
        return LogisticThompson(prior_sd=sd)
    return CurveThompson(prior_sd=(sd, sd))


def prices_of(world: Pricing) -> tuple[float, ...]:
    """Return prices that reach the best one in nearly every context, for all methods alike."""
    low, high = 0.7 * np.exp(-2.0 * world.spread), 1.4 * np.exp(2.0 * world.spread)
    return price_list(low, high, round(_STEPS_AN_OCTAVE * np.log2(high / low)) + 1)


def regret(
    world: Pricing,
    method: str,
    chosen: dict[str, float],
    course: Course,
    seed: int,
    prices: tuple[float, ...] | None = None,
) -> Array:
    """Return the regret of every round and replicate: (rounds, replicates)."""
    prices = prices or prices_of(world)
    instance = instance_of(world, _SCALERS.get(method, "none"), prices, every=course.every)
    history = None
    if course.past:
        plain = instance_of(world, "none", prices)
        history = past(plain, world, course.past, course.replicates, seed)
    ledger = Ledger(instance, world, course.rounds, course.replicates)
    simulate(
        instance,
        bandit_of(method, chosen),
        world,
        rounds=course.rounds,
        replicates=course.replicates,
        seed=seed,
        watch=ledger,
        history=history,
    )
    return np.asarray(ledger.parts[..., 0])


def tune(world: Pricing, method: str, course: Course, seed: int) -> dict[str, float]:
    """Return the prior with the least regret on a seed of its own."""
    if method == "known":
        raise ValueError("the method that knows δ* takes GDCB's prior")
    found = [
        regret(world, method, one, course, seed).sum(axis=0).mean() for one in settings(method)
    ]
    return settings(method)[int(np.argmin(found))]


def tuned(world: Pricing, methods: tuple[str, ...], course: Course, seed: int) -> dict[str, Any]:
    """Return the prior of every method; the one that knows δ* takes GDCB's."""
    small = replace(course, replicates=max(20, course.replicates // 5))
    chosen = {name: tune(world, name, small, seed) for name in methods if name != "known"}
    if "known" in methods:
        chosen["known"] = chosen["GDCB"]
    return chosen
