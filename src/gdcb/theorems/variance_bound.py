"""Theorem 1's bound over a sweep of scaler errors, for the prediction and for the reward's mean.

Var_x[f + g] ≤ Var_x[f] + (Lε)² + 2Lε·√Var_x[f] with f = u(Φ(a, δ*(x))), |g| ≤ Lε, L = L_u·L_Φ. It
holds for u, and with L_r·L_Φ for μ(Φ(a, ·), x). It says how much an error may add, and nothing of
what a scaler takes away.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gdcb.arrays import Array, logistic
from gdcb.theorems.verdict import PAPER, REPAIRED, Check
from gdcb.theorems.worlds import Pricing, price_list

ERRORS = (0.01, 0.03, 0.1, 0.2)  # ε, the largest |δ̂ − δ*|
WORLDS = ((0.1, 2.5), (0.3, 4.0), (0.5, 12.0))  # spread and steepness
SHAPES = ("up", "down", "random", "away from the mean", "towards the mean")
_ROUNDING = 1e-9
Mean = Callable[[Array], Array]


def sweep(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Try every error, shape, arm and world on n contexts; return the figures.

    The inequality is one of the contexts' own distribution, so on n contexts it holds exactly or
    not at all: there is no sampling error to allow for.
    """
    arms = np.array(price_list(0.7, 1.4, 9))
    largest = {what: np.zeros(len(ERRORS)) for what in ("prediction", "reward")}
    violations, cases, raised, kept = {"prediction": 0, "reward": 0}, 0, 0, []
    for spread, steepness in WORLDS:
        world = Pricing(spread, steepness, own_sd=0.0)
        x = rng.uniform(-(3.0**0.5), 3.0**0.5, size=(n, len(world.weights)))
        delta = world.delta(x)[:, None]
        revenue = _Revenue(steepness)
        right: dict[str, Mean] = {
            "prediction": partial(_predicted, revenue, arms),
            "reward": partial(_rewarded, revenue, arms, delta),
        }
        kept.append(_reduction(spread, steepness, right["reward"], delta))
        for i, error in enumerate(ERRORS):
            for shape in SHAPES:
                cases += arms.size
                for what, value in right.items():
                    sign = _sign(rng, shape, value, delta)
                    bound = _bound(value(delta), revenue.steepest * arms * error)
                    found = value(delta + error * sign).var(axis=0)
                    violations[what] += int((found > bound * (1.0 + _ROUNDING)).sum())
                    largest[what][i] = max(largest[what][i], float((found / bound).max()))
                    raised += int((found > value(delta).var(axis=0)).sum())
    return {
        "cases": cases,
        "violations": violations,
        "raised_share": raised / (2 * cases),
        "table": {
            "columns": ["largest error", "prediction: Var/bound", "reward: Var/bound"],
            "rows": [
                [error, float(largest["prediction"][i]), float(largest["reward"][i])]
                for i, error in enumerate(ERRORS)
            ],
        },
        "with_against_without": kept,
    }


def checks(figures: dict[str, Any]) -> list[Check]:
    """Judge the bound, and the reduction that the theorem is named after."""
    cases, broken = figures["cases"], figures["violations"]
    tightest = [max(row[i] for row in figures["table"]["rows"]) for i in (1, 2)]
    more = [world for world in figures["with_against_without"] if world["share_raised"] > 0]
    worst = max(world["largest_factor"] for world in figures["with_against_without"])
    return [
        Check(
            PAPER,
            "an error of ε in the scaler raises the variance of the prediction by no more than "
            "the bound",
            broken["prediction"] == 0,
            f"{broken['prediction']} violations in {cases} cases, the nearest at "
            f"{tightest[0]:.2f} of the bound",
        ),
        Check(
            REPAIRED,
            "the same bound holds for the mean reward μ(Φ(a, δ̂), x), with its own slope L_r",
            broken["reward"] == 0,
            f"{broken['reward']} violations in {cases} cases, the nearest at {tightest[1]:.2f}",
        ),
        Check(
            PAPER,
            "a right scaler lowers the variance of an arm's mean reward over contexts",
            not more,
            f"in {len(more)} of {len(WORLDS)} worlds some arm's variance is larger with δ* than "
            f"without a scaler, up to {worst:.1f} times",
        ),
    ]


class _Revenue:
    """u(e) = e·σ(α − β·e), the revenue of a price at δ* = 1, and its steepest slope."""

    def __init__(self, steepness: float) -> None:
        self.alpha, self.beta = steepness + np.log(steepness - 1.0), steepness
        e = np.linspace(0.0, 20.0, 200_001)
        p = logistic(self.alpha - self.beta * e)
        # A grid misses the steepest point by a hair.
        self.steepest = float(np.abs(p - self.beta * e * p * (1.0 - p)).max()) * (1.0 + 1e-6)

    def __call__(self, e: Array) -> Array:
        return np.asarray(e * logistic(self.alpha - self.beta * e))


def _predicted(revenue: _Revenue, arms: Array, delta: Array) -> Array:
    """Return u(Φ(a, δ)): (n, K)."""
    return revenue(arms * delta)


def _rewarded(revenue: _Revenue, arms: Array, true: Array, delta: Array) -> Array:
    """Return μ(Φ(a, δ), x), revenue under the context's own δ*: (n, K)."""
    return np.asarray(true * revenue(arms * delta / true))


def _bound(f: Array, reach: Array) -> Array:
    variance = f.var(axis=0)
    return np.asarray(variance + reach**2 + 2.0 * reach * np.sqrt(variance))


def _sign(rng: np.random.Generator, shape: str, value: Mean, delta: Array) -> Array | float:
    """Return the sign of δ̂ − δ* in every context and arm."""
    if shape in ("up", "down"):
        return 1.0 if shape == "up" else -1.0
    if shape == "random":
        return np.where(rng.random(delta.shape) < 0.5, -1.0, 1.0)
    here = value(delta)
    slope = value(delta + 1e-5) - value(delta - 1e-5)
    away = np.sign((here - here.mean(axis=0)) * slope)
    return np.asarray(away if shape == "away from the mean" else -away)


def _reduction(spread: float, steepness: float, reward: Mean, delta: Array) -> dict[str, Any]:
    """Compare each arm's variance of μ over contexts with the right δ and with δ = 1."""
    factor = reward(delta).var(axis=0) / reward(np.ones_like(delta)).var(axis=0)
    return {
        "spread": spread,
        "steepness": steepness,
        "share_raised": float((factor > 1.0).mean()),
        "largest_factor": float(factor.max()),
        "smallest_factor": float(factor.min()),
    }
