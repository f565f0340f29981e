"""The scaler and the learner that the instance recommends, and what their priors are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.bandits import Bandit, GaussianThompson
from gdcb.instances.kalman.labels import SIGNAL_KNOTS, STRAIN_KNOTS
from gdcb.instances.kalman.plants import Plant
from gdcb.instances.kalman.truth import Truth
from gdcb.scalers import CovarianceScaler
from gdcb.scalers.covariance import hats

UNITS = 8
EVERY, GROWTH = 160, 0.25  # labels of a group between publications, and as a share of all before
LOW, HIGH = 0.05, 20.0  # the compact set, in sizes of the nominal covariances
CAUTION = 0.4  # products of innovations tell less than if they were independent and normal
SHAPE = 2.0  # half the steps that the tuning worlds' noise is worth
GRID = 401  # places on [0, 1] at which a size is fitted to the family


def n_coefficients(plant: Plant) -> int:
    """Return how many coefficients the scaler has."""
    return plant.n_modes * len(STRAIN_KNOTS) + len(SIGNAL_KNOTS) + 1


def untuned(plant: Plant) -> dict[str, Any]:
    """Return a cautious prior for whoever has not tuned one: nominal sizes, arms much alike."""
    n = n_coefficients(plant)
    return {
        "scale": 1.0,
        "signal": 1.0,
        "noise": 2.0,
        "form": "",
        "scaler": {"mean": [1.0] * n, "sd": [0.7] * n},
        "mean": [-2.5] * (plant.n_modes + 1),
        "sd": [1.0] * (plant.n_modes + 1),
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


def learner(tuned: Mapping[str, Any]) -> Bandit:
    """Return a value of every arm's own, track by track.

    It reads no context: how likely modes are is in the composition of the arm that commits to none.
    """
    scale, noise = float(tuned["scale"]), float(tuned["noise"])
    return GaussianThompson(
        prior_mean=tuple(tuned["mean"]),
        strength=tuple((noise / (scale * sd)) ** 2 for sd in tuned["sd"]),
        shape=SHAPE,
        rate=SHAPE * noise**2,
    )


def coefficients(truth: Truth, sizes: Any) -> Array:
    """Return the coefficients (units, B) of the scaler's family nearest to true sizes.

    Nearest in squares, signal and strain taken evenly over [0, 1]; in `well` they are the truth
    itself.
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
    return {"form": form, "scaler": prior} | _values(found, found.delta(sure))


def unscaled(found: Any, _spread: Any) -> dict[str, Any]:
    """Fit the learner of who has no scaler to the same sample."""
    return _values(found, np.ones((found.rows.n, 1, 1)))


def _values(found: Any, delta: Array) -> dict[str, Any]:
    """Return moments of the arms' values over units, and the noise around them."""
    instance, rows = found.instance, found.rows
    composed = instance.composition.compose(instance.space, delta, rows.x)
    target = found.by_unit(found.ask(composed, rows))
    scale = found.by_unit(np.ones(rows.n) if found.scale is None else found.scale)[..., None]
    value = target.mean(axis=1)  # (units, K)
    left = float(((scale * (target - value[:, None])) ** 2).mean())
    return {
        "mean": _plain(value.mean(axis=0)),
        "sd": _plain(value.std(axis=0)),
        "noise": float(f"{np.sqrt(found.noise**2 + left):.4g}"),
    }


def _plain(values: Array) -> list[float]:
    return [float(f"{value:.4g}") for value in values]
