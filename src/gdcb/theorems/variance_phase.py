"""The phase diagram: what a scaler saves, as the variance ratio goes from 0.01 to 10.

The knobs are the spread of δ* and the steepness of demand, which sets the noise. At every point
the ratios are measured on a history, and stand beside their exact values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb.analysis.ratio import MARGINAL, SUBSTANTIAL, variance_ratio
from gdcb.analysis.surface import Surface
from gdcb.arrays import Array
from gdcb.records import Rows
from gdcb.theorems.pricing_methods import LABELS, RIVALS, Course, prices_of, regret, tuned
from gdcb.theorems.verdict import PAPER, REPAIRED, Check, Progress
from gdcb.theorems.worlds import Demand, Pricing, random_history

# Spread of log δ* and steepness, by rising ratio.
WORLDS = (
    (0.1, 2.5),
    (0.2, 2.5),
    (0.3, 2.5),
    (0.4, 2.5),
    (0.2, 6.0),
    (0.4, 6.0),
    (0.2, 20.0),
    (0.6, 20.0),
)
METHODS = ("GDCB", "known", *RIVALS)
LITTLE, MUCH = 0.1, 0.25  # share of the rival's regret that is marginal to save, or substantial
_SURFACE = Surface(degree=3, context_degree=2)
_ROWS = 3000  # of the history from which ratios are measured
_CONTEXTS = 10_000
_TUNING = 7919  # added to a seed: tuning never meets the contexts it is judged on


def diagram(
    rng: np.random.Generator,
    course: Course,
    seed: int,
    worlds: tuple[tuple[float, float], ...] = WORLDS,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run every method in every world, paired over replicates; return the figures."""
    z = _normal(len(worlds) * len(RIVALS))
    points = []
    for i, (spread, steepness) in enumerate(worlds):
        if progress is not None:
            progress(f"phase diagram, world {i + 1} of {len(worlds)}")
        points.append(_point(rng, Pricing(spread, steepness), course, seed, z))
    points.sort(key=lambda point: float(point["ratio"]["exact"]))
    columns = ["ratio, exact", "ratio", "paper's", *METHODS]
    columns += [f"saved against {name}" for name in RIVALS]
    rows = [
        [point["ratio"]["exact"], point["ratio"]["mean"], point["paper"]["mean"]]
        + [point["regret"][name]["mean"] for name in METHODS]
        + [point["saved"][name]["mean"] for name in RIVALS]
        for point in points
    ]
    return {
        "course": {"past": course.past, "rounds": course.rounds, "replicates": course.replicates},
        "labels": {name: LABELS[name] for name in METHODS},
        "table": {"columns": columns, "rows": rows},
        "points": points,
    }


def _point(
    rng: np.random.Generator, world: Pricing, course: Course, seed: int, z: float
) -> dict[str, Any]:
    prices = np.array(prices_of(world))
    exact = exact_ratios(rng, world, prices)
    x, price, reward, delta = random_history(world, prices, _ROWS, rng)
    found = variance_ratio(
        x, price, reward, prices, delta=delta, surface=_SURFACE, draws=60, splits=5, seed=seed
    )
    chosen = tuned(world, METHODS, course, seed + _TUNING)
    by_round = {name: regret(world, name, chosen[name], course, seed) for name in METHODS}
    total = {name: part.sum(axis=0) for name, part in by_round.items()}
    horizons = [max(1, course.rounds // part) for part in (8, 4, 2, 1)]
    return {
        "spread": world.spread,
        "steepness": world.steepness,
        "ratio": {"exact": exact["ratio"], **_estimate(found.ratio, found.low, found.high)},
        "paper": {
            "exact": exact["paper"],
            **_estimate(found.paper, found.paper_low, found.paper_high),
        },
        "best_reward": exact["best"] * course.rounds,
        "regret": {name: _mean(part, z) for name, part in total.items()},
        "less": {name: _mean(total[name] - total["GDCB"], z) for name in RIVALS},
        "saved": {name: _share(total[name], total["GDCB"], z) for name in RIVALS},
        "horizons": horizons,
        "saved_by_horizon": [
            float(1.0 - by_round["GDCB"][:t].mean() / by_round["none"][:t].mean()) for t in horizons
        ],
        "tuned": chosen,
    }


def exact_ratios(rng: np.random.Generator, world: Pricing, prices: Array) -> dict[str, float]:
    """Return both ratios of an average unit from the world's own means, and E[μ(e*, x)].

    σ² is the mean of Var[r | e, x] over prices at random. The pair is the price that is best on
    average, and the one that gains most over it where it is ahead.
    """
    x = rng.uniform(-(3.0**0.5), 3.0**0.5, size=(_CONTEXTS, len(world.weights)))
    unit = np.zeros(_CONTEXTS, dtype=np.int64)
    rows = Rows(unit, unit, x)
    alpha = world.steepness + np.log(world.steepness - 1.0)
    demand = Demand(np.array([alpha]), np.array([world.steepness]))
    e = np.broadcast_to(prices[None, :, None], (_CONTEXTS, prices.size, 1))
    p = world.booked(demand, e, rows)
    mean, noise = prices * p, float((prices**2 * p * (1.0 - p)).mean())
    gap = mean - mean[:, [int(mean.mean(axis=0).argmax())]]
    rival = int(np.maximum(gap, 0.0).mean(axis=0).argmax())
    best = world.mean(demand, world.best(demand, rows)[:, None], rows)[:, 0]
    return {
        "ratio": float(gap[:, rival].var() / noise),
        "paper": float(best.var() / noise),
        "best": float(best.mean()),
    }


def checks(figures: dict[str, Any]) -> list[Check]:
    """Judge both thresholds by the exact value of either ratio, against all rivals alike."""
    points, out = figures["points"], []
    for form, key, whose in ((PAPER, "paper", "the paper's"), (REPAIRED, "ratio", "the repaired")):
        above = [point for point in points if point[key]["exact"] > SUBSTANTIAL]
        below = _below(points, key)
        least = min((point["saved"][name]["low"] for point in above for name in RIVALS), default=0)
        most = max((point["saved"][name]["low"] for point in below for name in RIVALS), default=1)
        out += [
            Check(
                form,
                f"where {whose} ratio is above 1 GDCB saves {MUCH:.0%} and more of every rival's "
                "regret",
                bool(least >= MUCH),
                f"{len(above)} worlds, saved {_by_rival(above)}",
            ),
            Check(
                form,
                f"where {whose} ratio is below 0.1 GDCB saves no more than {LITTLE:.0%} of any "
                "rival's regret",
                bool(most <= LITTLE),
                f"{len(below)} worlds, saved {_by_rival(below)}",
            ),
        ]
    return out


def findings(figures: dict[str, Any]) -> list[str]:
    """Say from which ratio on GDCB's regret is lower than each rival's, and where it is higher."""
    points = figures["points"]
    said = []
    for name in RIVALS:
        start = len(points)
        while start > 0 and points[start - 1]["less"][name]["low"] > 0.0:
            start -= 1
        higher = [point for point in points if point["less"][name]["high"] < 0.0]
        text = f"Against {LABELS[name]}, GDCB's regret is "
        if start == len(points):
            text += "significantly lower at no ratio from which on it stays so"
        else:
            first, last = points[start], points[-1]
            text += (
                f"significantly lower from a ratio of {first['ratio']['exact']:.2g} on "
                f"(measured {first['ratio']['mean']:.2g}), where it saves "
                f"{first['saved'][name]['mean']:.0%}; at {last['ratio']['exact']:.2g} it saves "
                f"{last['saved'][name]['mean']:.0%}"
            )
        if higher:
            where = ", ".join(f"{point['ratio']['exact']:.2g}" for point in higher)
            text += f"; it is significantly higher at {where}"
        said.append(text + ".")
    gains = [
        (point["less"]["none"]["mean"] / point["best_reward"], point["ratio"]["exact"])
        for point in points
    ]
    small = [gain for gain, ratio in gains if ratio < MARGINAL]
    large = [gain for gain, ratio in gains if ratio > SUBSTANTIAL]
    if small and large:
        said.append(
            f"In rewards rather than regret, a scaler adds {_range(small)} of what could be earned "
            f"where the ratio is below 0.1, and {_range(large)} where it is above 1."
        )
    ranks = ", ".join(f"{_rank_correlation(points, name):.2f} ({name})" for name in RIVALS)
    said.append(f"Rank correlations of the ratio with the share saved are {ranks}.")
    below = _below(points, "ratio")
    if below:
        course = ", ".join(
            f"{share:.0%} after {t}"
            for t, share in zip(below[-1]["horizons"], below[-1]["saved_by_horizon"], strict=True)
        )
        said.append(
            f"At a ratio of {below[-1]['ratio']['exact']:.2g} the share that a scaler saves is "
            f"{course} rounds."
        )
    measured = [point["ratio"]["mean"] / point["ratio"]["exact"] for point in points[-3:]]
    said.append(
        "Measured on a history, the largest ratios come out at "
        + ", ".join(f"{share:.0%}" for share in measured)
        + " of their exact values."
    )
    return said


def _below(points: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    return [point for point in points if point[key]["exact"] < MARGINAL]


def _rank_correlation(points: list[dict[str, Any]], rival: str) -> float:
    from scipy.stats import spearmanr

    ratio = [point["ratio"]["exact"] for point in points]
    return float(spearmanr(ratio, [point["saved"][rival]["mean"] for point in points]).statistic)


def _normal(comparisons: int) -> float:
    """Return the quantile for 95 % over all comparisons together."""
    from scipy.special import ndtri

    return float(ndtri(1.0 - 0.025 / comparisons))


def _mean(values: Array, z: float) -> dict[str, float]:
    mean, half = float(values.mean()), z * float(values.std(ddof=1)) / values.size**0.5
    return _estimate(mean, mean - half, mean + half)


def _share(rival: Array, ours: Array, z: float) -> dict[str, float]:
    """Return 1 − E[ours]/E[rival], by the delta method over pairs."""
    ratio = float(ours.mean() / rival.mean())
    half = z * float((ours - ratio * rival).std(ddof=1)) / ours.size**0.5 / float(rival.mean())
    return _estimate(1.0 - ratio, 1.0 - ratio - half, 1.0 - ratio + half)


def _estimate(mean: float, low: float, high: float) -> dict[str, float]:
    return {"mean": mean, "low": low, "high": high}


def _by_rival(points: list[dict[str, Any]]) -> str:
    return ", ".join(
        f"{_range([point['saved'][name]['mean'] for point in points])} ({name})" for name in RIVALS
    )


def _range(values: list[float]) -> str:
    if not values:
        return "nothing"
    low, high = (round(value, 2) + 0.0 for value in (min(values), max(values)))  # no −0 %
    return f"{low:.0%}" if len(values) == 1 else f"{low:.0%} to {high:.0%}"
