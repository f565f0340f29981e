"""The scaler and the learner that the instance recommends, and what their priors are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.bandits import Bandit, CurveThompson
from gdcb.bandits.nodes import frame_of
from gdcb.bandits.normal_curve import NormalCurveThompson
from gdcb.instances.grid import features
from gdcb.instances.grid.columns import FEATURES
from gdcb.scalers import NeuralScaler

# A cautious prior for whoever has not tuned one, in hundreds of euros: a parabola whose top lies
# among the sheds.
UNTUNED: dict[str, Any] = {
    "scale": 1.0,
    "signal": 1.0,
    "width": 1.0,
    "noise": 2.0,
    "form": "",
    "curve": {
        "mean": [-2.5, 0.0, -1.0, -1.0, 0.0],
        "group": [1.0, 1.0, 0.5, 1.0, 0.5],
        "own": [1.0, 0.7, 0.3, 0.5, 0.3],
    },
}
EVERY, GROWTH = 160, 0.2  # labels of a network between publications, and as a share of all before
PENALTY = 1.0
N_CURVE, LEVEL = 3, 2  # coefficients of the parabola, powers of δ that move its level
WEAK = 1e-4  # precision that keeps a fit finite and changes nothing else


def scaler(tuned: Mapping[str, Any]) -> NeuralScaler:
    """Return the offset δ(x): the stored trunk, a head a network."""
    return NeuralScaler(
        features=FEATURES,
        link="identity",
        trunk=features.trunk(),
        centre=features.centre(),
        penalty=PENALTY * float(tuned["signal"]) ** -2.0,
        every=EVERY,
        growth=GROWTH,
    )


def learner(tuned: Mapping[str, Any]) -> Bandit:
    """Return a parabola in e − δ for every zone; zones of a network share."""
    prior, scale = tuned["curve"], float(tuned["scale"])
    return NormalCurveThompson(
        CurveThompson(
            link="identity",
            degree=2,
            prior_mean=tuple(prior["mean"][:N_CURVE]),
            prior_sd=tuple(scale * sd for sd in prior["group"][:N_CURVE]),
            noise=float(tuned["noise"]),
        ),
        own_sd=tuple(scale * sd for sd in prior["own"]),
        level=len(prior["mean"]) - N_CURVE,
        level_mean=tuple(prior["mean"][N_CURVE:]),
        level_sd=tuple(scale * sd for sd in prior["group"][N_CURVE:]),
        width=float(tuned["width"]),
    )


def fitted(found: Any, spread: Any, form: str) -> dict[str, Any]:
    """Fit the curves to a sample of tuning worlds (`gdcb.protocol.sampling.Sample`)."""
    return {"form": form} | _curves(found, spread, found.delta(scaler(UNTUNED)), LEVEL)


def unscaled(found: Any, spread: Any) -> dict[str, Any]:
    """Fit the curves of who has no scaler to the same sample."""
    return _curves(found, spread, np.zeros((found.rows.n, 1, 1)), 0)


def _curves(found: Any, spread: Any, delta: Array, level: int) -> dict[str, Any]:
    """Fit a parabola in e − δ to every unit, where e is what the gate leaves of the arms."""
    instance, rows = found.instance, found.rows
    proposed = instance.composition.compose(instance.space, delta, rows.x)
    ran = instance.chain.gates[0].project(proposed, rows)
    runs = np.isfinite(ran[..., 0])
    target = found.ask(np.where(runs[..., None], ran, proposed), rows)
    coord = np.where(runs[..., None], ran, proposed) - delta
    curve = CurveThompson(link="identity", degree=2)
    flat = coord.reshape(-1, 1)
    frame = frame_of(instance.space)
    design = curve.inputs(frame, flat, None)
    said = np.repeat(delta[:, 0, 0] / frame[1, 0], proposed.shape[1])
    design = np.column_stack((design, *(said ** (j + 1) for j in range(level))))
    n = rows.n // found.contexts
    design = design.reshape(n, -1, design.shape[1])
    weight, target = runs.reshape(n, -1) * 1.0, target.reshape(n, -1)
    turned = design.swapaxes(-1, -2) * weight[:, None, :]
    normal = turned @ design + WEAK * np.eye(design.shape[2])
    weights = np.linalg.solve(normal, turned @ target[..., None])[..., 0]
    left = target - (design @ weights[..., None])[..., 0]
    missed = float((weight * left**2).sum() / weight.sum())
    noise = float(f"{np.sqrt(found.noise**2 + missed):.4g}")
    moments = spread(weights, found.units)
    return {"noise": noise, "curve": {name: moments[name] for name in ("mean", "group", "own")}}
