"""Which innovations tell R, and whether a split matters: the paper's remarks on Algorithm 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.kalman.algorithm_one import algorithm_one
from gdcb.kalman.autocovariance import autocovariance_fit
from gdcb.kalman.seeding import initial_covariance
from gdcb.theorems.kalman_seeding import STEPS, SURE
from gdcb.theorems.kalman_tracks import innovations, scalar
from gdcb.theorems.verdict import PAPER, REPAIRED, Check

PRIORS = (1.0, 4.0, 16.0)  # too low, right, too high for tracks that start at 4
RECORDS = (0.3, 0.8, 1.8)  # priors for a record whose P is 1.2, all below its innovations' variance
WINDOWS = {"first step": (0, 1), "leading 5": (0, 5), "leading 10": (0, 10), "late 10": (20, 30)}
_SMALL = 0.1  # of R, within which an estimate counts as centred


def windows(rng: np.random.Generator, n_tracks: int) -> dict[str, Any]:
    """Estimate R as step 2 does, on leading and late windows, and by autocovariances."""
    rows = []
    for prior in PRIORS:
        world = scalar(start=4.0, prior=prior)
        gains, truth = world.gains(STEPS), world.noise.item()
        nu = innovations(rng, world, gains, n_tracks)
        spreads = world.errors(STEPS)[:, 0, 0]
        for name, (low, high) in WINDOWS.items():
            each = (nu[low:high, :, 0] ** 2).mean(axis=0)
            rows.append(
                {
                    "prior": prior,
                    "window": name,
                    "noise": float(each.mean()) - prior,
                    "error": float(each.std(ddof=1) / n_tracks**0.5),
                    "said": truth + float(spreads[low:high].mean()) - prior,
                    "truth": truth,
                }
            )
        fit = autocovariance_fit(nu, world.f, world.h, gains[-1, 0])
        rows.append(
            {
                "prior": prior,
                "window": "autocovariances, steady",
                "noise": fit.noise.item(),
                "error": fit.noise_error.item(),
                "said": truth,
                "truth": truth,
            }
        )
    columns = ["prior", "window", "noise", "error", "said"]
    return {
        "rows": rows,
        "tracks": n_tracks,
        "table": {
            "columns": ["P_prior", "R̂ from", "R̂", "standard error", "R + H(Σ − P_prior)Hᵀ"],
            "rows": [[row[name] for name in columns] for row in rows],
        },
    }


def split(rng: np.random.Generator, n_records: int, replicates: int) -> dict[str, Any]:
    """Seed P₀ from one sample and from halves, as the paper does and as it is done here."""
    steady = float(scalar().errors(200)[-1, 0, 0])
    records = []
    for prior in (*RECORDS, PRIORS[-1]):
        # (P1): a stationary record, of a filter that has forgotten its start.
        world = scalar(start=steady, prior=prior)
        last = scalar().gains(200)[-1:]
        nu = innovations(rng, world, np.repeat(last, n_records, axis=0), 1)
        halves = algorithm_one(nu, world.h, world.prior, world.believed.noise, 0.5)
        same = algorithm_one(
            np.concatenate((nu, nu)), world.h, world.prior, world.believed.noise, 0.5
        )
        records.append(
            {
                "prior": prior,
                "truth": steady,
                "split": halves.initial.item(),
                "same": same.initial.item(),
                "error": 2.0 * halves.fit.item() / n_records**0.5 * 2.0**0.5,
                "is_floored": halves.is_floored or same.is_floored,
            }
        )
    return {"records": records, "steps": n_records, **_tracks(rng, replicates)}


def _tracks(rng: np.random.Generator, replicates: int, n_tracks: int = 200) -> dict[str, Any]:
    """Compare R̂ and Ŝ₁ from the same tracks with R̂ from one half and Ŝ₁ from the other."""
    world = scalar()
    gains, half = world.gains(STEPS), n_tracks // 2
    noise, first, same, apart = np.empty((4, replicates))
    for i in range(replicates):
        nu = innovations(rng, world, gains, n_tracks)
        k = gains[-1, 0]
        whole = autocovariance_fit(nu, world.f, world.h, k)
        found, total = initial_covariance(nu[0], world.h, world.prior, whole)
        noise[i], first[i], same[i] = whole.noise.item(), total.item(), found.value.item()
        part = autocovariance_fit(nu[:, :half], world.f, world.h, k)
        other, _ = initial_covariance(nu[0, half:], world.h, world.prior, part)
        apart[i] = other.value.item()
    truth = world.start.item()
    ratio, error = _ratio((apart - truth) ** 2, (same - truth) ** 2)
    return {
        "correlation": float(np.corrcoef(noise, first)[0, 1]),
        "correlation_error": replicates**-0.5,
        "bias_same": float(same.mean()) - truth,
        "bias_split": float(apart.mean()) - truth,
        "bias_error": float(same.std(ddof=1) / replicates**0.5),
        "mse_ratio": ratio,
        "mse_ratio_error": error,
        "tracks": n_tracks,
        "replicates": replicates,
        "truth": truth,
    }


def _ratio(above: Array, below: Array) -> tuple[float, float]:
    """Return the ratio of two means of pairs and its standard error, by the delta method."""
    ratio = float(above.mean() / below.mean())
    rest = above - ratio * below
    return ratio, float(rest.std(ddof=1) / rest.size**0.5 / below.mean())


def checks(window: dict[str, Any], parts: dict[str, Any]) -> list[Check]:
    """Judge the remarks on windows and on the split."""
    rows, truth = window["rows"], window["rows"][0]["truth"]
    leading = [row for row in rows if row["window"].startswith(("first", "leading"))]
    late = [row for row in rows if row["window"].startswith("late")]
    steady = [row for row in rows if row["window"].startswith("auto")]
    first = [row for row in rows if row["window"] == "first step"]
    told = ", ".join(f"{row['noise']:.2f} at a prior of {row['prior']:g}" for row in first)
    *records, floored = parts["records"]
    return [
        Check(
            PAPER,
            "R̂ from the leading window is about centred",
            all(abs(row["noise"] - truth) <= _SMALL * truth for row in leading),
            f"for R = {truth:g} and tracks that start at P₀ = 4, the first step gives {told}: it "
            "is centred only where the prior is P₀ already",
        ),
        Check(
            PAPER,
            "R̂ from a late window errs by H(Σ∞ − P_prior)Hᵀ",
            all(abs(row["noise"] - row["said"]) <= SURE * row["error"] for row in late),
            ", ".join(f"{row['noise']:.2f} for {row['said']:.2f}" for row in late),
        ),
        Check(
            PAPER,
            "one sample for both shrinks Ŝ − R̂ towards 0, and a split mends it",
            all(abs(row["split"] - row["truth"]) <= SURE * row["error"] for row in records),
            f"on one stationary record with P = {records[0]['truth']:.2f} and priors of "
            + ", ".join(f"{row['prior']:g}" for row in records)
            + " one sample gives "
            + ", ".join(f"{row['same']:.3f}" for row in records)
            + " and a split "
            + ", ".join(f"{row['split']:.2f}" for row in records)
            + ": either returns the prior, and where the floor of step 3 binds (a prior of "
            f"{floored['prior']:g}) all of the innovations' variance, {floored['split']:.2f}",
        ),
        Check(
            REPAIRED,
            "autocovariances of the steady part tell R, whatever the prior and P₀",
            all(abs(row["noise"] - truth) <= SURE * row["error"] + 0.005 * truth for row in steady),
            ", ".join(
                f"{row['noise']:.3f} ± {1.96 * row['error']:.3f} at a prior of {row['prior']:g}"
                for row in steady
            ),
        ),
        Check(
            REPAIRED,
            "a split is not needed: first and steady innovations are nearly apart as it is",
            abs(parts["correlation"]) <= SURE * parts["correlation_error"]
            and parts["mse_ratio"] + SURE * parts["mse_ratio_error"] > 1.0
            and abs(parts["bias_same"]) <= SURE * parts["bias_error"],
            f"errors of R̂ and Ŝ₁ from the same {parts['tracks']} tracks have a correlation of "
            f"{parts['correlation']:.2f} ± {1.96 * parts['correlation_error']:.2f}, P̂₀ has a bias "
            f"of {parts['bias_same']:.2f} ± {1.96 * parts['bias_error']:.2f}; a split has "
            f"{parts['mse_ratio']:.1f} ± {1.96 * parts['mse_ratio_error']:.1f} times the squared "
            "error",
        ),
    ]
