"""The scaler and the learner that the instance recommends, and what their priors are made of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.bandits import Bandit, CurveThompson, GPCurveThompson
from gdcb.bandits.nodes import frame_of
from gdcb.bandits.normal_curve import NormalCurveThompson
from gdcb.instances.dosing.columns import FEATURES
from gdcb.scalers import GaussianProcessScaler

MAP = Path(__file__).parent / "map.json"
# A cautious prior for whoever has not tuned one: best near the middle levels.
UNTUNED: dict[str, Any] = {
    "form": "smooth",
    "scale": 1.0,
    "signal": 1.0,
    "width": 0.5,
    "smooth": {"mean": 0.3, "sd": 0.6, "noise": 0.4},
    "quadratic": {
        "mean": [0.6, -0.2, -0.8],
        "group": [0.3, 0.3, 0.3],
        "own": [0.3, 0.3, 0.3],
        "noise": 0.45,
    },
}
# A curve of no declared form, or parabolas that a clinic shares.
FORMS = ("smooth", "quadratic")
LENGTHSCALE = 0.15  # of a smooth curve, in spans of the levels
EVERY, GROWTH = 80, 1.0  # ten meals of eight patients; then as many rows again
WEAK = 1e-4  # precision that keeps a fit finite and changes nothing else


@cache
def feature_map(variant: str) -> dict[str, Any]:
    """Return kernel and inducing points as `python -m gdcb.instances.dosing.fit` wrote them."""
    found: dict[str, Any] = json.loads(MAP.read_text(encoding="utf-8"))
    return dict(found[variant])


def scaler(variant: str, tuned: Mapping[str, Any]) -> GaussianProcessScaler:
    """Return the offset δ(x): a Gaussian process on the label, one head a clinic.

    It is not centred: the label says how far the right dose lies from `MIDDLE`, so that its zero is
    declared, and the mean of what it estimates is 0 over all meals.
    """
    return of_map(feature_map(variant), float(tuned["signal"]))


def of_map(known: Mapping[str, Any], signal: float = 1.0) -> GaussianProcessScaler:
    """Return the scaler on a feature map; `signal` multiplies the prior sd of what it learns."""
    return GaussianProcessScaler(
        features=FEATURES,
        link="identity",
        kernel=known["kernel"],
        variance=known["variance"] * signal**2,
        penalty=known["noise"],
        lengths=tuple(known["lengths"]),
        inducing=tuple(tuple(point) for point in known["inducing"]),
        shift=(known["shift"],),
        unit=(known["unit"],),
        every=EVERY,
        growth=GROWTH,
        per="group",
    )


def learner(tuned: Mapping[str, Any]) -> Bandit:
    """Return the response in e − δ, in the form that is known, or in none."""
    return smooth(tuned) if tuned["form"] == "smooth" else quadratic(tuned)


def smooth(tuned: Mapping[str, Any]) -> GPCurveThompson:
    """Return a curve of no declared form, one a patient."""
    prior = tuned["smooth"]
    return GPCurveThompson(
        link="identity",
        amplitude=float(tuned["scale"]) * prior["sd"],
        lengthscale=LENGTHSCALE,
        prior_mean=prior["mean"],
        noise=prior["noise"],
        width=float(tuned["width"]),
        gaps=1,
    )


def quadratic(tuned: Mapping[str, Any]) -> NormalCurveThompson:
    """Return parabolas that the patients of a clinic share."""
    prior, scale = tuned["quadratic"], float(tuned["scale"])
    return NormalCurveThompson(
        CurveThompson(
            link="identity",
            degree=2,
            prior_mean=tuple(prior["mean"]),
            prior_sd=tuple(scale * sd for sd in prior["group"]),
            noise=prior["noise"],
        ),
        own_sd=tuple(scale * sd for sd in prior["own"]),
        width=float(tuned["width"]),
    )


def fitted(variant: str, found: Any, spread: Any, form: str) -> dict[str, Any]:
    """Fit curves to a sample of tuning worlds (`gdcb.protocol.sampling.Sample`).

    Every level of every row is asked for, under the δ that the scaler finds there; `spread` turns
    coefficients (units, d) into their moments.
    """
    delta = found.delta(scaler(variant, UNTUNED))
    space = found.instance.space
    asked = found.ask(found.instance.composition.compose(space, delta, found.rows.x), found.rows)
    by_unit = found.by_unit(asked)  # (units, contexts, K)
    means = by_unit.mean(axis=1)
    out: dict[str, Any] = {"form": form}
    if form == "smooth":
        values = {"mean": float(means.mean()), "sd": float(means.std())}
        values["noise"] = _noise(found, by_unit - means[:, None])
        out["smooth"] = {name: round(value, 4) for name, value in values.items()}
    else:
        inputs = CurveThompson(link="identity", degree=2).inputs(
            frame_of(space), space.coords, None
        )
        weights = _least_squares(inputs, means)
        noise = _noise(found, by_unit - (weights @ inputs.T)[:, None])
        out["quadratic"] = spread(weights, found.units) | {"noise": round(noise, 4)}
    return out


def _noise(found: Any, left: Array) -> float:
    """Return how far rewards lie from a curve that misses their mean by `left`."""
    return float(np.sqrt(found.noise**2 + (left**2).mean()))


def _least_squares(inputs: Array, values: Array) -> Array:
    """Fit values (units, K) on inputs (K, d): (units, d)."""
    gram = inputs.T @ inputs + WEAK * np.eye(inputs.shape[1])
    return np.asarray(np.linalg.solve(gram, inputs.T @ values.T).T)
