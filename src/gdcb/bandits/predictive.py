"""What a normal posterior of a predictor expects of the next outcome."""

from __future__ import annotations

from functools import cache

import numpy as np

from gdcb.arrays import Array, logistic

_POINTS = 32
_SMALLEST = 1e-300


def log_normal(y: Array, mean: Array, variance: Array) -> Array:
    """Return log N(y; mean, variance): (N,).

    With variance 1/(2π) it is −π·(y − mean)²; here −4π.

    >>> log_normal(np.array([3.0]), np.array([1.0]), np.array([0.5 / np.pi])).round(6).tolist()
    [-12.566371]
    """
    return np.asarray(-0.5 * ((y - mean) ** 2 / variance + np.log(2.0 * np.pi * variance)))


def log_bernoulli(y: Array, p: Array, q: Array) -> Array:
    """Return y·log p + (1 − y)·log q, q = 1 − p: (N,); p and q apart, so that neither rounds."""
    return np.asarray(
        y * np.log(np.maximum(p, _SMALLEST)) + (1.0 - y) * np.log(np.maximum(q, _SMALLEST))
    )


def moderated(mean: Array, variance: Array) -> Array:
    """Return E σ(η) for η ~ N(mean, variance), by Gauss–Hermite quadrature: (N,).

    >>> moderated(np.array([0.0, 2.0]), np.array([9.0, 0.0])).round(6).tolist()
    [0.5, 0.880797]
    """
    points, weights = _hermite()
    eta = mean[:, None] + np.sqrt(variance)[:, None] * points
    return np.asarray((logistic(eta) * weights).sum(axis=1))


@cache
def _hermite() -> tuple[Array, Array]:
    points, weights = np.polynomial.hermite_e.hermegauss(_POINTS)
    return points, weights / weights.sum()
