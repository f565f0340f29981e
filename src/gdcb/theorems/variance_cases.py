"""Where the two variance ratios disagree: a level that all arms share, a reward that tracks δ*.

And a caution for the repaired one: between neighbours on a grid of arms the difference is as small
as the grid is fine, so the second arm must be the rival, not the second best.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb.analysis.ratio import MARGINAL, SUBSTANTIAL, VarianceRatio, variance_ratio
from gdcb.arrays import Array
from gdcb.theorems.verdict import PAPER, REPAIRED, Check

GRIDS = (5, 9, 17, 33)  # arms between 0.6 and 1.4
_EDGE = 3.0**0.5
_NOISE = 0.3


def disagree(rng: np.random.Generator, n: int, seed: int) -> dict[str, Any]:
    """Measure both ratios on n rows of either case, and on finer and finer grids of arms.

    Level: r = 3x + v(a) + ε. The best arm is the best everywhere; scaling is worth nothing.
    Tracking: r = −(e − δ*(x))² + 0.3·ε. Best is e = δ*; the best fixed arm loses Var δ* a round.
    """
    arm, x = rng.integers(0, 3, size=n), rng.uniform(-_EDGE, _EDGE, size=(n, 1))
    reward = np.array([1.0, 1.3, 0.7])[arm] + 3.0 * x[:, 0] + rng.normal(size=n)
    level = variance_ratio(x, arm, reward, 3, draws=100, splits=5, seed=seed)
    tracked, spread = _tracked(rng, n, np.linspace(0.6, 1.4, GRIDS[0]), seed)
    cases = [
        {"case": "level", "gain": 0.0, **level.as_json()},
        {"case": "tracking", "gain": spread / _NOISE, **tracked.as_json()},
    ]
    grids = []
    for n_arms in GRIDS:
        arms = np.linspace(0.6, 1.4, n_arms)
        ratios = [_tracked(rng, n, arms, seed, pair)[0].ratio for pair in ("best", "rival")]
        grids.append([n_arms, *ratios])
    return {
        "cases": cases,
        "table": {"columns": ["arms", "two best arms", "best and rival"], "rows": grids},
    }


def checks(figures: dict[str, Any]) -> list[Check]:
    """Judge which ratio points where scaling pays, and whether the grid of arms matters."""
    level, tracking = figures["cases"]
    papers = [case["paper"]["mean"] for case in figures["cases"]]
    said = f"level effect, worth nothing: {{:.2g}}; tracking reward, worth {tracking['gain']:.1f} "
    said += "noise sd a round: {:.2g}"
    first, last = figures["table"]["rows"][0], figures["table"]["rows"][-1]
    return [
        Check(
            PAPER,
            "Var_x[u(Φ(a, δ*(x)))]/σ² is small where scaling is worth little and large where it "
            "is worth much",
            papers[0] < SUBSTANTIAL and papers[1] > MARGINAL,
            said.format(*(abs(value) for value in papers)),
        ),
        Check(
            REPAIRED,
            "the variance of the difference of two arms over σ² is small where scaling is worth "
            "little and large where it is worth much",
            level["high"] < MARGINAL and tracking["low"] > MARGINAL,
            said.format(abs(level["mean"]), tracking["mean"]),
        ),
        Check(
            REPAIRED,
            "taken between the best arm and its rival it changes by less than a factor of two as "
            "the arms get finer",
            0.5 <= last[2] / first[2] <= 2.0,
            f"{first[2]:.2g} with {first[0]} arms, {last[2]:.2g} with {last[0]}; between the two "
            f"best arms it falls from {first[1]:.2g} to {last[1]:.2g}",
        ),
    ]


def _tracked(
    rng: np.random.Generator, n: int, arms: Array, seed: int, pair: str = "rival"
) -> tuple[VarianceRatio, float]:
    """Return the ratios of a tracking reward, arms at random, and Var δ*."""
    x = rng.uniform(-_EDGE, _EDGE, size=(n, 1))
    delta, e = 1.0 + 0.3 * x[:, 0], rng.choice(arms, size=n)
    reward = -((e - delta) ** 2) + _NOISE * rng.normal(size=n)
    found = variance_ratio(
        x, e, reward, arms, delta=delta, pair=pair, draws=100, splits=5, seed=seed
    )
    return found, float(delta.var())
