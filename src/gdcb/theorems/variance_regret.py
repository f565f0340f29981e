"""Regret with and without a scaler as δ* spreads, against the corollary of Theorem 1.

The corollary gives √(KT log T) with a perfect scaler and √(KT log T·Var δ*) without. The second
cannot be: it is the smaller of the two where Var δ* < 1. Without a scaler no arm is right in every
context, so every round costs what the best fixed price loses, for ever: regret is linear.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from gdcb.arrays import Array
from gdcb.records import Rows
from gdcb.theorems.pricing_methods import Course, regret
from gdcb.theorems.verdict import PAPER, REPAIRED, Check
from gdcb.theorems.worlds import Demand, Pricing, price_list

SPREADS = (0.0, 0.2, 0.4, 0.6)
METHODS = ("known", "GDCB", "none")
STEEPNESS = 4.0
PRIOR = {"prior_sd": 10.0}
PRICES = price_list(0.5, 2.0, 21)
_SQUARE_ROOT = (3.0**0.5 - 2.0**0.5) / (2.0**0.5 - 1.0)  # last third over middle third of √T
_Z = 2.5  # 95 % for all spreads together
_CONTEXTS = 4000


def grow(rng: np.random.Generator, course: Course, seed: int) -> dict[str, Any]:
    """Run all three methods at every spread; return the figures."""
    rows, worlds = [], []
    for spread in SPREADS:
        world = Pricing(spread, STEEPNESS)
        x = rng.uniform(-(3.0**0.5), 3.0**0.5, size=(_CONTEXTS, len(world.weights)))
        delta = world.delta(x)
        by = {name: regret(world, name, PRIOR, course, seed, PRICES) for name in METHODS}
        total = {name: part.sum(axis=0) for name, part in by.items()}
        third = course.rounds // 3
        late, middle = by["none"][-third:], by["none"][-2 * third : -third]
        found: dict[str, Any] = {
            "spread": spread,
            "variance": float(delta.var()),
            "mean_delta": float(delta.mean()),
            "regret": {name: _mean(part) for name, part in total.items()},
            "factor": _ratio(total["none"], total["known"]),
            "factor_of_corollary": float(delta.std()),
            "late_over_middle": _ratio(late.sum(axis=0), middle.sum(axis=0)),
            "late_rate": _mean(late.mean(axis=0)),
            "price_of_none": _price(world, x),
            "curves": {name: part.cumsum(axis=0).mean(axis=1)[::10] for name, part in by.items()},
        }
        worlds.append(found)
        means = [found["regret"][name]["mean"] for name in METHODS]
        rows.append([spread, found["variance"], *means, found["late_rate"]["mean"]])
        rows[-1] += [found["price_of_none"], found["late_over_middle"]["mean"]]
    columns = ["sd of log δ*", "Var δ*", "δ* known", "fitted", "no scaler", "late rate without"]
    columns += ["what a fixed price loses", "last third / middle third"]
    return {
        "rounds": course.rounds,
        "replicates": course.replicates,
        "prior": PRIOR,
        "table": {"columns": columns, "rows": rows},
        "worlds": worlds,
    }


def checks(figures: dict[str, Any]) -> list[Check]:
    """Judge the corollary, and what takes its place."""
    spread = [world for world in figures["worlds"] if world["spread"] > 0]
    first, last = figures["worlds"][0], spread[-1]
    factors = ", ".join(f"{world['factor']['mean']:.1f}" for world in spread)
    claimed = ", ".join(f"{world['factor_of_corollary']:.2f}" for world in spread)
    late = last["late_over_middle"]
    growth = last["regret"]["known"]["mean"] / first["regret"]["known"]["mean"]
    growth /= last["mean_delta"] / first["mean_delta"]
    error = (
        _Z
        * sum(
            (_half(world["regret"]["known"]) / _Z / world["regret"]["known"]["mean"]) ** 2
            for world in (first, last)
        )
        ** 0.5
    )
    return [
        Check(
            PAPER,
            "without a scaler regret is √Var δ* times that with one, so smaller where Var δ* < 1",
            all(world["factor"]["low"] <= 1.0 for world in spread),
            f"claimed factors {claimed}, measured {factors}",
        ),
        Check(
            PAPER,
            "without a scaler regret grows with √T",
            late["low"] <= _SQUARE_ROOT,
            f"at the largest spread the last third of the rounds cost {late['mean']:.2f} times the "
            f"middle third ({late['low']:.2f} to {late['high']:.2f}); √T gives {_SQUARE_ROOT:.2f}",
        ),
        Check(
            REPAIRED,
            "without a scaler regret is linear: no late round costs less than the best fixed "
            "price loses",
            all(world["late_rate"]["high"] >= world["price_of_none"] for world in spread)
            and late["low"] > _SQUARE_ROOT,
            "late rate "
            + ", ".join(f"{world['late_rate']['mean']:.3f}" for world in spread)
            + " against "
            + ", ".join(f"{world['price_of_none']:.3f}" for world in spread),
        ),
        Check(
            REPAIRED,
            "with the right scaler regret, in units of the mean δ*, does not depend on Var δ*",
            abs(growth - 1.0) <= 0.1 + error,
            f"at the largest spread it is {growth:.2f} (± {error:.2f}) times that at none",
        ),
    ]


def _price(world: Pricing, x: Array) -> float:
    """Return E[μ(e*, x)] − max_a E[μ(a, x)], averaged over units: what no learning mends.

    Units by Gauss–Hermite nodes of log c°, contexts as given.
    """
    nodes, weights = hermegauss(15)
    unit = np.zeros(x.shape[0], dtype=np.int64)
    rows, prices = Rows(unit, unit, x), np.array(PRICES)
    e = np.broadcast_to(prices[None, :, None], (x.shape[0], prices.size, 1))
    alpha = np.array([world.steepness + np.log(world.steepness - 1.0)])
    lost = []
    for node in nodes:
        demand = Demand(alpha, np.array([world.steepness / np.exp(world.own_sd * node)]))
        best = world.mean(demand, world.best(demand, rows)[:, None], rows).mean()
        lost.append(best - world.mean(demand, e, rows).mean(axis=0).max())
    return float(np.array(lost) @ weights / weights.sum())


def _mean(values: Array) -> dict[str, float]:
    mean, half = float(values.mean()), _Z * float(values.std(ddof=1)) / values.size**0.5
    return {"mean": mean, "low": mean - half, "high": mean + half}


def _half(estimate: dict[str, float]) -> float:
    return (estimate["high"] - estimate["low"]) / 2


def _ratio(above: Array, below: Array) -> dict[str, float]:
    """Return the ratio of two means over replicates, by the delta method."""
    ratio = float(above.mean() / below.mean())
    half = _Z * float((above - ratio * below).std(ddof=1)) / above.size**0.5 / float(below.mean())
    return {"mean": ratio, "low": ratio - half, "high": ratio + half}
