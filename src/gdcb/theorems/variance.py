"""Theorem 1, decoupling variance reduction: the bound, the estimators, the corollary, the ratio.

Each part is a small experiment with figures; what is claimed in the paper and what is put in its
place are judged by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.streams import check_seed
from gdcb.theorems import (
    variance_bound,
    variance_cases,
    variance_estimators,
    variance_phase,
    variance_regret,
)
from gdcb.theorems.pricing_methods import Course
from gdcb.theorems.verdict import Progress, document, plain, quiet

TITLE = "Theorem 1: decoupling variance reduction"
_COLD = Course(past=0, rounds=240, replicates=60, every=60)
_WARM = Course(past=100, rounds=100, replicates=100, every=50)
SECTIONS = ("bound", "estimators", "corollary", "ratio", "phase")


@dataclass(frozen=True)
class Settings:
    """Size of the experiments.

    Parameters
    ----------
    contexts : of the bound's sweep
    replicates, rows : of the estimators
    corollary : past, rounds, replicates and rows between refits, without a past
    history : rows of the cases in which the ratios disagree
    phase : the same as `corollary`, all methods starting from one past
    worlds : spread and steepness of the phase diagram's worlds
    """

    contexts: int = 3000
    replicates: int = 800
    rows: int = 300
    corollary: Course = _COLD
    history: int = 3000
    phase: Course = _WARM
    worlds: tuple[tuple[float, float], ...] = variance_phase.WORLDS


def check(
    seed: int = 0, progress: Progress | None = None, settings: Settings | None = None
) -> dict[str, Any]:
    """Run all parts; return claims, figures and a verdict, safe for JSON.

    Every part draws from a stream of its own, so that one may be run alone and give the same.
    """
    check_seed(seed)
    say, size = progress or quiet, settings or Settings()
    rng = [np.random.default_rng([seed, i]) for i in range(len(SECTIONS))]
    say("bound")
    bound = variance_bound.sweep(rng[0], size.contexts)
    say("estimators")
    estimators = variance_estimators.estimate(rng[1], size.replicates, size.rows)
    say("regret with and without a scaler")
    corollary = variance_regret.grow(rng[2], size.corollary, seed)
    say("ratios")
    ratio = variance_cases.disagree(rng[3], size.history, seed)
    phase = variance_phase.diagram(rng[4], size.phase, seed, size.worlds, say)
    found = document(
        TITLE,
        [
            *variance_bound.checks(bound),
            *variance_estimators.checks(estimators),
            *variance_regret.checks(corollary),
            *variance_cases.checks(ratio),
            *variance_phase.checks(phase),
        ],
        bound=bound,
        estimators=estimators,
        corollary=corollary,
        ratio=ratio,
        phase=phase,
    )
    found["verdict"] += variance_phase.findings(phase)
    return found


def tables(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the tables of a finished check by section: columns (names) and rows (plain data)."""
    return {name: plain(found[name]["table"]) for name in SECTIONS}
