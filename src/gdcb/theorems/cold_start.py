"""What a history takes off a cold start: the paper's formula, the measurement, the information."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.theorems.linear_model import (
    Moments,
    Settings,
    Sums,
    gap_of,
    information,
    joint,
    known,
    needed,
    reached,
    sums_of,
)
from gdcb.theorems.verdict import Progress

_DRAWS = 8000


def predicted(
    start: Array, row: Array, settings: Settings, epsilon: float, rng: np.random.Generator
) -> float:
    """Return N_live(ε) that the information start + n·row predicts: estimates are normal.

    `start` is the history's information. A direction in which nothing is known yet is unlimited.
    """
    values = np.array(settings.values)
    k, sizes = values.size, np.concatenate(([0], settings.grid))
    draws = rng.standard_normal((_DRAWS, k + 1))
    gap, theta = np.empty((_DRAWS, sizes.size)), np.empty((_DRAWS, sizes.size))
    for i, n in enumerate(sizes):
        total = start + n * row
        seen = np.diagonal(total) > 0
        root = np.zeros((k + 1, k + 1))
        few = total[np.ix_(seen, seen)]
        if seen.any() and np.linalg.eigvalsh(few)[0] > 1e-9:
            root[np.ix_(seen, seen)] = np.linalg.cholesky(np.linalg.inv(few))
            error = draws @ root.T
            gap[:, i] = gap_of(values, error[:, :k], np.diagonal(total)[:k])
            theta[:, i] = np.abs(error[:, k])
        else:
            gap[:, i] = theta[:, i] = np.inf
    return max(reached(one, sizes, epsilon) for one in (gap, theta))


@dataclass(frozen=True)
class Past:
    """How an incumbent chose arms: shares, and their correlation ρ with context."""

    label: str
    share: tuple[float, ...]
    rho: float


PASTS = (
    Past("the live design itself", (0.2, 0.2, 0.2, 0.2, 0.2), 0.0),
    Past("all arms, chosen by context (ρ = 0.98)", (0.2, 0.2, 0.2, 0.2, 0.2), 0.98),
    Past("the two best arms on 1 % of nights each", (0.32, 0.33, 0.33, 0.01, 0.01), 0.0),
    Past("the best arm never", (0.25, 0.25, 0.25, 0.25, 0.0), 0.0),
)


def compression(
    live: Sums, settings: Settings, epsilon: float, seed: int, progress: Progress
) -> dict[str, Any]:
    """Measure N_live(ε) after `n_hist` rows of several pasts, beside the paper's formula."""
    values, scores, sizes = np.array(settings.values), settings.scores, settings.grid
    moments = Moments.of(live, scores, 0.0)
    alone = known(moments, values)
    bandit = reached(alone.gap, sizes, epsilon)
    sup = reached(alone.theta, sizes, epsilon)
    both = joint(moments, values)
    cold = max(reached(both.gap, sizes, epsilon), reached(both.theta, sizes, epsilon))
    formula = max(bandit - settings.n_hist, sup - settings.n_hist, 0.0)
    row = information(np.full(values.size, 1.0 / values.size), scores, 0.0)
    cases = []
    for i, past in enumerate(PASTS):
        progress(f"history: {past.label}")
        rng = np.random.default_rng((seed, 4, i))
        share = np.array(past.share)
        before = sums_of(rng, share, np.array([settings.n_hist]), live.n.shape[0])
        history = Moments.of(before, scores, past.rho)
        warm = joint(history.plus(moments), values)
        # Nothing live at all is a size too.
        at_once = joint(history, values)
        with_zero = np.concatenate(([0], sizes))
        gap = np.concatenate((at_once.gap, warm.gap), axis=1)
        theta = np.concatenate((at_once.theta, warm.theta), axis=1)
        measured = needed([gap, theta], with_zero, epsilon)
        start = settings.n_hist * information(share, scores, past.rho)
        cases.append(
            {
                "history": past.label,
                "measured": measured["n"],
                "measured_low": measured["low"],
                "measured_high": measured["high"],
                "formula": formula,
                "by_information": predicted(start, row, settings, epsilon, rng),
            }
        )
    return {
        "epsilon": epsilon,
        "n_hist": settings.n_hist,
        "cold": cold,
        "bandit": bandit,
        "sup": sup,
        "formula": formula,
        "cases": cases,
    }
