"""Does P̂₀ converge? Error against the number of tracks, repaired beside the paper's Algorithm 1.

Tracks start at P₀ and are filtered under wrong defaults (Q₀, R₀) from a wrong prior. H has full
column rank in one world; in the other it sees nothing of velocity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.kalman.algorithm_one import algorithm_one
from gdcb.kalman.seeding import replaced, seed
from gdcb.theorems.kalman_tracks import World, deficient, full_rank, innovations, scalar
from gdcb.theorems.verdict import PAPER, REPAIRED, Check

SURE = 4.0  # standard errors within which a figure must lie: wrong once in 16,000
STEPS = 30  # of every track
_BENT = 0.01  # by which few replicates bend the logarithm of a root mean square


@dataclass(frozen=True)
class Sizes:
    """How many tracks, and how often.

    Parameters
    ----------
    tracks : numbers of tracks
    replicates : of each
    covered : replicates of 200 tracks on which standard errors are judged
    few : replicates of 50 tracks on which the bias is
    """

    tracks: tuple[int, ...] = (50, 200, 800, 3200, 20_000)
    replicates: tuple[int, ...] = (80, 40, 24, 16, 12)
    covered: int = 300
    few: int = 200


def consistency(rng: np.random.Generator, sizes: Sizes) -> dict[str, Any]:
    """Measure errors of P̂₀ on row(H), relative to ‖HP₀Hᵀ‖, and what becomes of the rest."""
    worlds = [_converges(rng, world, sizes) for world in (full_rank(), deficient())]
    one = scalar()
    gains = one.gains(STEPS)
    nu = innovations(rng, one, gains, sizes.tracks[-1])
    found = seed(nu, one.believed, gains, one.prior).initial
    papers = algorithm_one(nu, one.h, one.prior, one.believed.noise).initial
    return {
        "worlds": worlds,
        "scalar": {
            "tracks": sizes.tracks[-1],
            "truth": one.start.item(),
            "prior": one.prior.item(),
            "repaired": found.value.item(),
            "error": 0.0 if found.standard_error is None else found.standard_error.item(),
            "paper": papers.item(),
        },
        "table": {
            "columns": ["H", "tracks", "repaired", "low", "high", "paper's", "low ", "high "],
            "rows": [
                [
                    world["world"],
                    row["tracks"],
                    *(row["repaired"][key] for key in ("rms", "low", "high")),
                    *(row["paper"][key] for key in ("rms", "low", "high")),
                ]
                for world in worlds
                for row in world["rows"]
            ],
        },
    }


def few_tracks(rng: np.random.Generator, sizes: Sizes) -> dict[str, Any]:
    """Measure the bias of P̂₀ from few tracks, inside and at the edge, and its standard errors."""
    rows: list[dict[str, Any]] = []
    for truth in (4.0, 0.02):
        world = scalar(start=truth)
        found, _ = _seeded(rng, world, 50, sizes.few)
        values = found[:, 0, 0]
        error = float(values.std(ddof=1) / values.size**0.5)
        rows.append(
            {
                "truth": truth,
                "tracks": 50,
                "mean": float(values.mean()),
                "error": error,
                "bias": float(values.mean()) - truth,
                "share_zero": float((values <= 1e-12).mean()),
            }
        )
    world = scalar()
    found, errors = _seeded(rng, world, 200, sizes.covered)
    is_covered = np.abs(found - world.start) <= 1.96 * errors
    return {
        "bias": rows,
        "covered": float(is_covered.mean()),
        "covered_error": float((0.95 * 0.05 / sizes.covered) ** 0.5),
        "n_covered": sizes.covered,
    }


def checks(found: dict[str, Any], few: dict[str, Any]) -> list[Check]:
    """Judge the proposition, and what is put in its place."""
    full, part = found["worlds"]
    one = found["scalar"]
    papers = [world["rows"][-1]["paper"] for world in found["worlds"]]
    inside, edge = few["bias"]
    last = full["rows"][-1]["tracks"]
    return [
        Check(
            PAPER,
            "Algorithm 1: H P̂₀ Hᵀ → H P₀ Hᵀ, and P̂₀ → P₀ where H has full column rank",
            all(world["paper_shrinks"] for world in found["worlds"]),
            f"relative error on row(H) at {last:,} tracks {papers[0]['rms']:.2f} and "
            f"{papers[1]['rms']:.2f}, from {full['rows'][0]['paper']['rms']:.2f} and "
            f"{part['rows'][0]['paper']['rms']:.2f} at {full['rows'][0]['tracks']}; scalar: "
            f"{one['paper']:.2f} for a truth of {one['truth']:g}, from a prior of "
            f"{one['prior']:g}",
        ),
        Check(
            PAPER,
            "where H sees nothing, P̂₀ keeps the prior",
            part["paper_blind"] >= 0.5 * part["prior_blind"],
            f"variance of velocity {part['paper_blind']:.3g}, prior {part['prior_blind']:g}",
        ),
        Check(
            PAPER,
            "P̂₀ is biased in finite samples, since the projections bend it",
            edge["bias"] > SURE * edge["error"],
            f"with the repaired estimator too, at its edge: {edge['mean']:.3f} ± "
            f"{1.96 * edge['error']:.3f} for P₀ = {edge['truth']:g} at {edge['tracks']} tracks; "
            f"{100 * edge['share_zero']:.0f} % of the estimates are 0",
        ),
        Check(
            REPAIRED,
            "from first innovations, P̂₀ → P₀ on row(H) as N^−½, of full and of deficient rank",
            all(world["is_root"] for world in found["worlds"]),
            "; ".join(_rate(world) for world in found["worlds"])
            + f"; scalar: {one['repaired']:.2f} ± {1.96 * one['error']:.2f} for {one['truth']:g}",
        ),
        Check(
            REPAIRED,
            "elsewhere the prior's law given what is measured is kept",
            part["kept_rest"] < 1e-9 and part["limit_off"] < SURE,
            f"regression and variance of velocity given position differ from the prior's by "
            f"{part['kept_rest']:.0e}; P̂₀ at {last:,} tracks is within {part['limit_off']:.1f} "
            "standard errors of its limit in every entry",
        ),
        Check(
            REPAIRED,
            "away from the edge it is as good as unbiased, and its standard errors are honest",
            abs(inside["bias"]) < max(SURE * inside["error"], 0.05 * inside["truth"])
            and abs(few["covered"] - 0.95) < SURE * few["covered_error"] + 0.02,
            f"{inside['mean']:.2f} ± {1.96 * inside['error']:.2f} for {inside['truth']:g} at "
            f"{inside['tracks']} tracks; intervals of 95 % at 200 tracks cover "
            f"{100 * few['covered']:.0f} % of {few['n_covered']}",
        ),
    ]


def _converges(rng: np.random.Generator, world: World, sizes: Sizes) -> dict[str, Any]:
    h, truth = world.h, world.h @ world.start @ world.h.T
    limit = replaced(world.prior, h, truth)
    gains, model = world.gains(STEPS), world.believed
    rows: list[dict[str, Any]] = []
    for n_tracks, replicates in zip(sizes.tracks, sizes.replicates, strict=True):
        ours, papers = np.empty((2, replicates, *world.prior.shape))
        for i in range(replicates):
            nu = innovations(rng, world, gains, n_tracks)
            last = seed(nu, model, gains, world.prior, basis=world.basis).initial
            ours[i] = last.value
            papers[i] = algorithm_one(nu, h, world.prior, model.noise).initial
        rows.append(
            {
                "tracks": n_tracks,
                "replicates": replicates,
                "repaired": _rms(_relative(ours, h, truth)),
                "paper": _rms(_relative(papers, h, truth)),
            }
        )
    slope, slope_error = _slope(rows, "repaired")
    paper_slope, paper_slope_error = _slope(rows, "paper")
    off = np.abs(last.value - limit) / np.asarray(last.standard_error)
    return {
        "world": world.name,
        "rows": rows,
        "slope": slope,
        "slope_error": slope_error,
        "is_root": abs(slope + 0.5) < SURE * slope_error + _BENT
        and rows[-1]["repaired"]["high"] < 0.5 * rows[0]["repaired"]["low"],
        "paper_slope": paper_slope,
        "paper_shrinks": paper_slope + SURE * paper_slope_error < -0.25,
        "paper_blind": float(papers[-1, -1, -1]),
        "prior_blind": float(world.prior[-1, -1]),
        "limit_off": float(off.max()),
        "kept_rest": max(float(np.abs(_given(p) - _given(world.prior)).max()) for p in ours),
        "seeded": ours[-1],
        "limit": limit,
        "paper_seeded": papers[-1],
    }


def _relative(found: Array, h: Array, truth: Array) -> Array:
    """Return ‖H P̂₀ Hᵀ − H P₀ Hᵀ‖/‖H P₀ Hᵀ‖ of every replicate."""
    off = np.linalg.norm(h @ found @ h.T - truth, axis=(1, 2))
    return np.asarray(off / np.linalg.norm(truth))


def _rms(errors: Array) -> dict[str, float]:
    """Return the root mean square and its 95 % interval, by the delta method."""
    square = errors**2
    rms = float(square.mean() ** 0.5)
    error = float(square.std(ddof=1) / square.size**0.5 / (2.0 * rms))
    return {"rms": rms, "error": error, "low": rms - 1.96 * error, "high": rms + 1.96 * error}


def _slope(rows: list[dict[str, Any]], which: str) -> tuple[float, float]:
    """Return d log rms/d log N and its standard error.

    Sizes weigh by their replicates, with one relative error for all: an rms that is low by luck
    has a low error too.
    """
    x = np.log([row["tracks"] for row in rows])
    y = np.log([row[which]["rms"] for row in rows])
    weight = np.array([row["replicates"] for row in rows], dtype=float)
    each = [(row[which]["error"] / row[which]["rms"]) ** 2 * row["replicates"] for row in rows]
    centred = x - (weight * x).sum() / weight.sum()
    spread = float((weight * centred**2).sum())
    error = float(np.average(each, weights=weight) / spread) ** 0.5
    return float((weight * centred * y).sum() / spread), error


def _given(p: Array) -> Array:
    """Return regression and variance of the last state given the first."""
    slope = p[0, -1] / p[0, 0]
    return np.array([slope, p[-1, -1] - slope * p[0, -1]])


def _seeded(
    rng: np.random.Generator, world: World, n_tracks: int, replicates: int
) -> tuple[Array, Array]:
    """Return P̂₀ and its standard errors (replicates, n, n)."""
    gains, model = world.gains(STEPS), world.believed
    values, errors = np.empty((2, replicates, *world.prior.shape))
    for i in range(replicates):
        nu = innovations(rng, world, gains, n_tracks)
        found = seed(nu, model, gains, world.prior, basis=world.basis).initial
        values[i] = found.value
        errors[i] = np.nan if found.standard_error is None else found.standard_error
    return values, errors


def _rate(world: dict[str, Any]) -> str:
    first, last = world["rows"][0], world["rows"][-1]
    return (
        f"{world['world']}: relative error {first['repaired']['rms']:.2f} to "
        f"{last['repaired']['rms']:.3f}, exponent {world['slope']:.2f} ± "
        f"{1.96 * world['slope_error']:.2f}"
    )
