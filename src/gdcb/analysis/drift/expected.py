"""What is expected of a row: a linear model of context and action, frozen, and limits of its error.

A gate is watched given what entered it, and a reward given what ran, so that a learner that changes
its proposals gives no alarm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.analysis.drift.limits import mean_limits
from gdcb.arrays import Array

CLIP = 2.0  # standard deviations of a residual at which it is cut off
_PENALTY = 1.0


@dataclass(slots=True)
class Scales:
    """How columns are standardised: (p,) centre and width of x, (D,) of numbers of actions."""

    x_centre: Array
    x_width: Array
    e_centre: Array
    e_width: Array


@dataclass(slots=True)
class Expectation:
    """Frozen models of T targets, d features, B bands of what is expected.

    Parameters
    ----------
    theta : (T, d) coefficients
    spread : (T, 1) standard deviation of the residuals
    edges : (T, B−1) edges of the bands of the prediction
    low, high : (T, B) limits of the mean residual in each band, NaN: too few rows to judge
    """

    theta: Array
    spread: Array
    edges: Array
    low: Array
    high: Array


def scales_of(x: Array, e: Array) -> Scales:
    """Return centre and width of contexts (N, p) and actions (N, D), NaN left out."""
    return Scales(*_centre_and_width(x), *_centre_and_width(e))


def _centre_and_width(columns: Array) -> tuple[Array, Array]:
    centre, width = np.zeros(columns.shape[1]), np.ones(columns.shape[1])
    for i, column in enumerate(columns.T):
        known = column[np.isfinite(column)]
        if known.size:
            centre[i], width[i] = known.mean(), known.std()
    return centre, np.where(width > 1e-12 * (1.0 + np.abs(centre)), width, 1.0)


def features(scales: Scales, levels: tuple[int, ...], x: Array, e: Array) -> Array:
    """Return φ(x, e) (N, d): 1, x, and for each column of the action its levels, or e, e² and e·x.

    >>> zero, one = np.zeros(1), np.ones(1)
    >>> scales = Scales(zero, one, zero, one)
    >>> features(scales, (0,), np.array([[3.0]]), np.array([[2.0]])).tolist()
    [[1.0, 3.0, 2.0, 4.0, 6.0]]
    """
    context = (x - scales.x_centre) / scales.x_width
    columns = [np.ones((x.shape[0], 1)), context]
    for d, n_levels in enumerate(levels):
        if n_levels:
            columns.append(1.0 * (e[:, d : d + 1] == np.arange(1, n_levels)))
        else:
            number = ((e[:, d] - scales.e_centre[d]) / scales.e_width[d])[:, None]
            columns += [number, number**2, number * context]
    return np.concatenate(columns, axis=1)


def predict(theta: Array, phi: Array) -> Array:
    """Return φᵀθ of every row (N, d), column by column: a row must not round by its neighbours."""
    total = np.zeros(phi.shape[0])
    for column, weight in zip(phi.T, theta, strict=True):
        total += column * weight
    return total


def every_fourth(n: int) -> Array:
    """Return which of n rows models and quantiles are made of (n,); limits come from the rest.

    >>> every_fourth(6).astype(int).tolist()
    [1, 0, 0, 0, 1, 0]
    """
    return np.asarray(np.arange(n) % 4 == 0)


def nothing_expected(n_targets: int, d: int, bands: int) -> Expectation:
    """Return models that judge nothing, to be filled in by `fit`."""
    return Expectation(
        np.zeros((n_targets, d)),
        np.ones((n_targets, 1)),
        np.zeros((n_targets, bands - 1)),
        np.full((n_targets, bands), np.nan),
        np.full((n_targets, bands), np.nan),
    )


def fit(
    found: Expectation,
    target: int,
    phi: Array,
    y: Array,
    is_shape: Array,
    chance: float,
    least: int,
) -> bool:
    """Fit one target on some rows, and take the limits of its residuals from the rest.

    So the limits hold for this very model, good or bad. `is_shape` (N,) are the rows of the model,
    `chance` is shared by both limits of all bands. Returns whether any band has rows enough.
    """
    n_bands = found.low.shape[1]
    if np.count_nonzero(is_shape) < 2:
        return False
    shape, rest = np.flatnonzero(is_shape), np.flatnonzero(~is_shape)
    gram = phi[shape].T @ phi[shape]
    penalty = np.full(phi.shape[1], _PENALTY)
    penalty[0] = 1e-9
    theta = np.linalg.solve(gram + np.diag(penalty), phi[shape].T @ y[shape])
    inside = predict(theta, phi[shape])
    found.theta[target] = theta
    found.spread[target] = max(float((y[shape] - inside).std()), 1e-9)
    found.edges[target] = np.quantile(inside, np.arange(1, n_bands) / n_bands)
    mean = predict(theta, phi[rest])
    band = np.searchsorted(found.edges[target], mean)
    error = (y[rest] - mean) / found.spread[target]
    for b in range(n_bands):
        some = error[band == b]
        if some.size >= least:
            share = 0.5 * (1.0 + np.clip(some / CLIP, -1.0, 1.0))
            low, high = mean_limits(share, chance / (2 * n_bands))
            found.low[target, b], found.high[target, b] = low, high
    return bool(np.isfinite(found.low[target]).any())


def scored(found: Expectation, target: int, phi: Array, y: Array) -> tuple[Array, Array, Array]:
    """Return ½(1 + residual/(2·spread)), clipped to [0, 1], and its limits: (N,) each."""
    mean = predict(found.theta[target], phi)
    band = np.searchsorted(found.edges[target], mean)
    error = (y - mean) / found.spread[target]
    value = 0.5 * (1.0 + np.clip(error / CLIP, -1.0, 1.0))
    low, high = found.low[target, band], found.high[target, band]
    return np.where(np.isfinite(low), value, np.nan), low, high


def expected_mean(found: Expectation, target: int, phi: Array) -> float:
    """Return what is expected of some rows on average, in the target's own units.

    The model's mean, put right by the residuals of the reference (the middle of their limits).
    """
    mean = predict(found.theta[target], phi)
    band = np.searchsorted(found.edges[target], mean)
    middle = 0.5 * (found.low[target, band] + found.high[target, band])
    error = (2.0 * middle - 1.0) * CLIP * found.spread[target]
    return float(np.nanmean(mean + error))
