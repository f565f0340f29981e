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
    "noise": 0.4,
    "quadratic": {"mean": [0.6, -0.2, -0.8], "group": [0.3, 0.3, 0.3], "own": [0.3, 0.3, 0.3]},
    "smooth": {"mean": 0.3, "sd": 0.6},
}
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
    known = feature_map(variant)
    return GaussianProcessScaler(
        features=FEATURES,
        link="identity",
        kernel=known["kernel"],
        variance=known["variance"] * float(tuned["signal"]) ** 2,
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
    """Return the response in e − δ: a smooth curve a patient, or parabolas that a clinic shares."""
    prior, scale = tuned[tuned["form"]], float(tuned["scale"])
    if tuned["form"] == "smooth":
        return GPCurveThompson(
            link="identity",
            amplitude=scale * prior["sd"],
            lengthscale=LENGTHSCALE,
            prior_mean=prior["mean"],
            noise=tuned["noise"],
            width=float(tuned["width"]),
            gaps=1,
        )
    return NormalCurveThompson(
        CurveThompson(
            link="identity",
            degree=2,
            prior_mean=tuple(prior["mean"]),
            prior_sd=tuple(scale * sd for sd in prior["group"]),
            noise=tuned["noise"],
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
    left = by_unit - means[:, None]
    out: dict[str, Any] = {"form": form}
    if form == "smooth":
        values = {"mean": float(means.mean()), "sd": float(means.std())}
        out[form] = {name: round(value, 4) for name, value in values.items()}
    else:
        curve = CurveThompson(link="identity", degree=2)
        inputs = curve.inputs(frame_of(space), space.coords, None)
        weights = _least_squares(inputs, means)
        left = by_unit - (weights @ inputs.T)[:, None]
        out[form] = spread(weights, found.units)
    out["noise"] = round(float(np.sqrt(found.noise**2 + (left**2).mean())), 4)
    return out


def _least_squares(inputs: Array, values: Array) -> Array:
    """Fit values (units, K) on inputs (K, d): (units, d)."""
    gram = inputs.T @ inputs + WEAK * np.eye(inputs.shape[1])
    return np.asarray(np.linalg.solve(gram, inputs.T @ values.T).T)
