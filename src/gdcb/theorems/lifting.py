"""Theorem 4, sample-complexity lifting: 'max, not sum', and what it costs that loops share rows.

One fixed design on the model of `gdcb.theorems.linear_model`, with a knob ρ: at ρ = 0 arms are
independent of context, at ρ = 0.95 a log has hardly seen them apart.

N(ε) is the smallest n from which on the 90 % quantile over replicates stays at most ε: of the
recommended arm's gap with θ known (N_bandit), of |θ̂ − θ*| with arm values known (N_sup), of both
with neither known (N_joint). All are found on a grid of n from running sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb.analysis.cross_information import Design, canonical
from gdcb.theorems.cold_start import compression
from gdcb.theorems.linear_model import (
    Moments,
    Settings,
    apart,
    information,
    joint,
    known,
    needed,
    protected,
    sums_of,
)
from gdcb.theorems.of_instance import history_information
from gdcb.theorems.verdict import PAPER, REPAIRED, Check, Progress, document, quiet

_WRONG = 0.3  # how far arm values are off, in units of s(a), where θ̂ is to be protected
_STEP = 1.1  # two steps of the grid of n, and what small samples lose to degrees of freedom
_LARGE = 60  # rows from which a degree of freedom an arm is little


def check(
    seed: int = 0,
    progress: Progress | None = None,
    settings: Settings | None = None,
    instance: str | None = "str",
) -> dict[str, Any]:
    """Measure what the loops cost each other; return figures and verdicts, safe for JSON.

    `instance` names the one whose history is looked at; None: none is.
    """
    say, size = progress or quiet, settings or Settings()
    scores, k = size.scores, len(size.values)
    uniform = np.full(k, 1.0 / k)
    say("drawing logs")
    live = sums_of(np.random.default_rng((seed, 4)), uniform, size.grid, size.replicates)
    designs: list[dict[str, Any]] = []
    for rho in size.rhos:
        say(f"ρ = {rho:g}")
        moments = Moments.of(live, scores, rho)
        truth = canonical(information(uniform, scores, rho), k)
        log = _log(np.random.default_rng((seed, 4, 99)), size, rho)
        estimate = log.cross(n_bootstrap=100, seed=seed)
        designs.append(
            {
                "rho": rho,
                "rho2": truth.rho2,
                "rho2_of_a_log": estimate.rho2,
                "rho2_low": estimate.low,
                "rho2_high": estimate.high,
                "inflation": truth.inflation,
                "orthogonal": protected(moments, scores, rho, _WRONG),
                "cells": [_cell(moments, size, epsilon) for epsilon in size.epsilons],
            }
        )
    # The ε at which a cold start takes the paper's 150 episodes, as nearly as the grid has it.
    cold = [cell["joint"]["n"] for cell in designs[0]["cells"]]
    at = int(np.argmin(np.abs(np.log(np.array(cold) / 150.0))))
    start = compression(live, size, size.epsilons[at], seed, say)
    past = None if instance is None else history_information(instance, seed, say)
    return document(
        "Theorem 4, sample-complexity lifting",
        _verdicts(designs, start),
        designs=designs,
        cold_start=start,
        replicates=size.replicates,
        instance=instance,
        history=past,
        notes=[] if past is None else [_of_history(str(instance), past)],
    )


def _of_history(instance: str, past: dict[str, Any]) -> str:
    """Say what the loops share in the history of an instance."""
    told = "; ".join(f"in '{variant}' {_shared(one)}" for variant, one in past.items())
    return f"The history of {instance}: {told}."


def _shared(one: dict[str, Any]) -> str:
    if "why" in one:
        return f"ρ² cannot be told ({one['why']})"
    return (
        f"ρ² = {one['rho2']:.2f} ({one['low']:.2f} to {one['high']:.2f}; {one['noise']:.2f} where "
        f"nothing is shared), so that up to {one['inflation']:.1f} times the rows are needed"
    )


def _cell(moments: Moments, settings: Settings, epsilon: float) -> dict[str, Any]:
    """Return all N(ε) of one design."""
    values, sizes = np.array(settings.values), settings.grid
    alone, both = known(moments, values), joint(moments, values)
    blind = apart(moments, values, settings.theta)
    bandit = needed([alone.gap], sizes, epsilon)
    sup = needed([alone.theta], sizes, epsilon)
    together = needed([both.gap, both.theta], sizes, epsilon)
    larger = max(bandit["n"], sup["n"])
    return {
        "epsilon": epsilon,
        "bandit": bandit,
        "sup": sup,
        "joint": together,
        "joint_bandit": needed([both.gap], sizes, epsilon),
        "joint_sup": needed([both.theta], sizes, epsilon),
        "apart": needed([blind.gap, blind.theta], sizes, epsilon)["n"],
        "max": larger,
        "sum": bandit["n"] + sup["n"],
        "joint_over_max": together["n"] / larger,
    }


def _log(rng: np.random.Generator, size: Settings, rho: float) -> Design:
    """Return one log as a deployment would have it, to estimate ρ² from."""
    k, n = len(size.values), size.n_hist
    arm = rng.integers(k, size=n)
    phi = rho * size.scores[arm] + np.sqrt(1.0 - rho**2) * rng.standard_normal(n)
    return Design(arm, phi[:, None], k, centre=np.zeros(1))


def _off(joint: dict[str, float], alone: dict[str, float], inflation: float) -> float:
    """Return by what factor N without over N with the other block is surely off the inflation."""
    least, most = joint["low"] / alone["high"], joint["high"] / alone["low"]
    return max(least / inflation, inflation / most)


def _above(cell: dict[str, Any], inflation: float) -> float:
    """Return by what factor N_joint surely exceeds max(N_bandit, N_sup) times the inflation."""
    larger = max(cell["bandit"]["high"], cell["sup"]["high"])
    return float(cell["joint"]["low"] / (larger * inflation))


def _verdicts(designs: list[dict[str, Any]], start: dict[str, Any]) -> list[Check]:
    first, last = designs[0], designs[-1]
    apart_at = [cell["joint_over_max"] for cell in first["cells"]]
    ratios = {one["rho"]: [cell["joint_over_max"] for cell in one["cells"]] for one in designs}
    within = all(
        _above(cell, one["inflation"]) <= _STEP for one in designs for cell in one["cells"]
    )
    over_sum = max(cell["joint"]["n"] / cell["sum"] for cell in last["cells"])
    told = "; ".join(
        f"ρ = {one['rho']:g}: {min(ratios[one['rho']]):.2f} to {max(ratios[one['rho']]):.2f}, "
        f"1/(1 − ρ²) = {one['inflation']:.2f}"
        for one in designs
    )
    large = [(o, c) for o in designs for c in o["cells"] if _LARGE <= c["sup"]["n"] < np.inf]
    paid = [c["joint_sup"]["n"] / c["sup"]["n"] / o["inflation"] for o, c in large]
    is_paid = all(_off(c["joint_sup"], c["sup"], o["inflation"]) <= _STEP for o, c in large)
    worst = max(one["rho2"] for one in designs)
    never = sum(not np.isfinite(cell["apart"]) for cell in last["cells"])
    safe = last["orthogonal"]
    cases, formula = start["cases"], start["formula"]
    is_told = all(
        c["measured_low"] / _STEP <= c["by_information"] <= c["measured_high"] * _STEP
        for c in cases
    )
    cold = f"cold {start['cold']:.0f}, {start['n_hist']:,} rows of history, formula {formula:.0f}"
    measured = ", ".join(f"{c['history']}: {c['measured']:.0f}" for c in cases)
    seen = all(abs(one["rho2_of_a_log"] - one["rho2"]) < 0.05 for one in designs)
    return [
        Check(
            PAPER,
            "both loops are ready after max(N_bandit, N_sup) episodes, not their sum",
            all(_above(cell, 1.0) <= _STEP for one in designs for cell in one["cells"]),
            f"N_joint/max by ρ: {told}; at ρ = {last['rho']:g} up to {over_sum:.1f} times the sum",
        ),
        Check(
            PAPER,
            "the information of arm values and θ is block-diagonal whatever the design",
            worst < 0.01,
            f"ρ² up to {worst:.2f}",
        ),
        Check(
            PAPER,
            "no cross-contamination: loops that read rewards apart lose nothing",
            never == 0,
            f"at ρ = {last['rho']:g} they never get there at {never} of {len(last['cells'])} ε",
        ),
        Check(
            PAPER,
            "N_hist rows of history take N_hist off the cold start",
            all(c["measured"] <= max(formula, 12.0) for c in cases),
            f"{cold}; measured {measured}",
        ),
        Check(
            REPAIRED,
            "max, not sum, where arms are independent of context (ρ = 0)",
            all(_above(cell, 1.0) <= _STEP for cell in first["cells"]),
            f"N_joint/max {min(apart_at):.2f} to {max(apart_at):.2f}",
        ),
        Check(
            REPAIRED,
            f"N_joint is at most max/(1 − ρ²), and θ pays all of it (from {_LARGE} rows on)",
            within and is_paid and bool(paid),
            "N_sup without over with arm values known, in units of 1/(1 − ρ²): "
            + (f"{min(paid):.2f} to {max(paid):.2f}" if paid else "no ε asks for so many rows"),
        ),
        Check(
            REPAIRED,
            "orthogonal scores protect θ̂ from errors in arm values, and still pay 1/(1 − ρ²)",
            abs(safe["bias_orthogonal"]) <= 4.0 * safe["error_orthogonal"]
            and abs(safe["variance_ratio"] / last["inflation"] - 1.0) < 0.25,
            f"at ρ = {last['rho']:g} a bias of {safe['bias_orthogonal']:.4f} where plugging in has "
            f"{safe['bias_plugged_in']:.2f}, and {safe['variance_ratio']:.1f} times the variance",
        ),
        Check(
            REPAIRED,
            "a log tells its ρ²",
            seen,
            ", ".join(f"{one['rho2_of_a_log']:.3f} for {one['rho2']:.3f}" for one in designs),
        ),
        Check(
            REPAIRED,
            "history counts by its information, not by its rows",
            is_told,
            "predicted "
            + ", ".join(f"{c['by_information']:.0f}" for c in cases)
            + f" for {', '.join(format(c['measured'], '.0f') for c in cases)}",
        ),
    ]


def tables(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the tables of a finished check by title: columns and rows."""
    sizes = [
        [
            one["rho"],
            cell["epsilon"],
            *(cell[name]["n"] for name in ("bandit", "sup", "joint")),
            cell["sum"],
            cell["apart"],
            cell["joint_over_max"],
            one["inflation"],
        ]
        for one in answer["designs"]
        for cell in one["cells"]
    ]
    start = answer["cold_start"]
    pasts = [
        [c["history"], start["cold"], c["formula"], c["measured"], c["by_information"]]
        for c in start["cases"]
    ]
    return {
        "rows needed": {
            "columns": [
                *("ρ", "ε", "N_bandit", "N_sup", "N_joint", "sum", "loops apart"),
                *("N_joint/max", "1/(1 − ρ²)"),
            ],
            "rows": sizes,
        },
        f"cold start after {start['n_hist']:,} rows of history, ε = {start['epsilon']:g}": {
            "columns": ["history", "cold", "formula", "measured", "by information"],
            "rows": pasts,
        },
    }
