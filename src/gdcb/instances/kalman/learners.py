"""The scaler and the learner that the instance recommends, and what their priors are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.bandits import Bandit, LinearThompson
from gdcb.instances.kalman.columns import Columns
from gdcb.instances.kalman.labels import SIGNAL_KNOTS, STRAIN_KNOTS
from gdcb.instances.kalman.plants import Plant
from gdcb.instances.kalman.truth import Truth
from gdcb.scalers import CovarianceScaler
from gdcb.scalers.covariance import hats

UNITS = 8
EVERY, GROWTH = 160, 0.25  # labels of a group between publications, and as a share of all before
LOW, HIGH = 0.05, 20.0  # the compact set, in sizes of the nominal covariances
CAUTION = 0.4  # products of innovations tell less than if they were independent and normal
LEAST = 0.02  # smallest standard deviation of a prior
WEAK = 1e-3  # precision that keeps a fit finite and changes little else
GRID = 401  # places on [0, 1] at which a size is fitted to the family


def n_coefficients(plant: Plant) -> int:
    """Return how many coefficients the scaler has."""
    return plant.n_modes * len(STRAIN_KNOTS) + len(SIGNAL_KNOTS) + 1


def untuned(plant: Plant) -> dict[str, Any]:
    """Return a cautious prior for whoever has not tuned one: nominal sizes, arms much alike."""
    n, d = n_coefficients(plant), 1 + len(Columns(plant).features) + UNITS - 1
    return {
        "scale": 1.0,
        "signal": 1.0,
        "width": 1.0,
        "noise": 2.0,
        "form": "",
        "scaler": {"mean": [1.0] * n, "sd": [0.7] * n},
        "mean": [[-2.5] + [0.0] * (d - 1)] * (plant.n_modes + 1),
        "sd": [[1.0] * d] * (plant.n_modes + 1),
        "centre": [0.0] * len(Columns(plant).features),
    }


def scaler(plant: Plant, tuned: Mapping[str, Any]) -> CovarianceScaler:
    """Return the sizes of Q by mode and strain, of R by signal, and of P₀."""
    prior, signal = tuned["scaler"], CAUTION * float(tuned["signal"])
    return CovarianceScaler(
        n_modes=plant.n_modes,
        mixes=True,
        process="strain",
        process_knots=STRAIN_KNOTS,
        noise="signal",
        noise_knots=SIGNAL_KNOTS,
        prior_mean=tuple(prior["mean"]),
        prior_sd=tuple(signal * sd for sd in prior["sd"]),
        low=LOW,
        high=HIGH,
        axes=len(plant.axes),
        every=EVERY,
        growth=GROWTH,
    )


def learner(plant: Plant, tuned: Mapping[str, Any], units: int = UNITS) -> Bandit:
    """Return weights of every arm's own on (1, x, unit), which `units` of a group share."""
    scale, features = float(tuned["scale"]), Columns(plant).features
    more = tuple(f"unit_{place}" for place in range(1, units))
    d = 1 + len(features) + len(more)
    return LinearThompson(
        features=features + more,
        prior_mean=tuple(tuple(row[:d]) for row in tuned["mean"]),
        prior_sd=tuple(tuple(scale * sd for sd in row[:d]) for row in tuned["sd"]),
        noise=float(tuned["noise"]),
        width=float(tuned["width"]),
        centre=(*tuned["centre"], *[0.0] * len(more)),
    )


def coefficients(truth: Truth, sizes: Any) -> Array:
    """Return the coefficients (units, B) of the scaler's family nearest to true sizes.

    Nearest in squares over signal and strain as they are spread over [0, 1]; in `well` they are the
    truth itself.
    """
    at = np.linspace(0.0, 1.0, GRID)
    units, found = sizes.noise.size, []
    for knots, size in (
        *((STRAIN_KNOTS, _by(truth, mode)) for mode in range(truth.plant.n_modes)),
        (SIGNAL_KNOTS, truth.noise_size),
    ):
        values = np.stack([size(sizes, np.full(units, one)) for one in at], axis=1)
        basis = hats(at, knots)
        found.append(values @ basis @ np.linalg.inv(basis.T @ basis))
    return np.concatenate((*found, sizes.initial[:, None]), axis=1).clip(LOW, HIGH)


def _by(truth: Truth, mode: int) -> Any:
    def size(sizes: Any, strain: Array) -> Array:
        return truth.process_size(sizes, strain, np.full(strain.size, mode))

    return size


def fitted(plant: Plant, found: Any, _spread: Any, form: str) -> dict[str, Any]:
    """Fit both priors to a sample of tuning worlds (`gdcb.protocol.sampling.Sample`)."""
    sizes = coefficients(found.world.truth, found.state.sizes)[:: found.units]
    prior = {"mean": _plain(sizes.mean(axis=0)), "sd": _plain(sizes.std(axis=0))}
    sure = scaler(plant, {"scaler": prior, "signal": 1.0})
    return {"form": form, "scaler": prior} | _weights(plant, found, found.delta(sure))


def unscaled(plant: Plant, found: Any, _spread: Any) -> dict[str, Any]:
    """Fit the learner of who has no scaler to the same sample."""
    return _weights(plant, found, np.ones((found.rows.n, 1, 1)))


def _weights(plant: Plant, found: Any, delta: Array) -> dict[str, Any]:
    """Return moments over groups of every arm's weights on (1, x), and the noise around them."""
    instance, rows = found.instance, found.rows
    composed = instance.composition.compose(instance.space, delta, rows.x)
    target = found.ask(composed, rows)
    columns = Columns(plant)
    x = rows.x[:, [columns.at(name) for name in columns.features]]
    centre = x.mean(axis=0)
    design = np.concatenate((np.ones((rows.n, 1)), x - centre), axis=1)
    pull = np.ones(rows.n) if found.scale is None else found.scale
    groups = found.units * found.contexts
    phi = (design * pull[:, None]).reshape(-1, groups, design.shape[1])
    y = (target * pull[:, None]).reshape(-1, groups, target.shape[1])
    turned = phi.swapaxes(1, 2)
    gram = turned @ phi + WEAK * np.eye(phi.shape[2])
    weights = np.linalg.solve(gram, turned @ y)  # (groups, d, K)
    left = float(((y - phi @ weights) ** 2).mean())
    more = UNITS - 1
    mean = [[*_plain(row), *[0.0] * more] for row in weights.mean(axis=0).T]
    sd = [[*_plain(np.maximum(row, LEAST)), *[LEAST] * more] for row in weights.std(axis=0).T]
    noise = float(f"{np.sqrt(found.noise**2 + left):.4g}")
    return {"mean": mean, "sd": sd, "noise": noise, "centre": _plain(centre)}


def _plain(values: Array) -> list[float]:
    return [float(f"{value:.4g}") for value in values]
