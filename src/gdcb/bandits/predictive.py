"""What a normal posterior of a predictor expects of the next outcome."""

from __future__ import annotations

from functools import cache

import numpy as np

from gdcb.arrays import Array, is_all, is_any

_SMALLEST = 1e-300
_AT_ONCE = 2**14  # predictors whose points are worked out together


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


def log_moderated(y: Array, mean: Array, variance: Array) -> Array:
    """Return the log density of outcomes y in [0, 1] whose log odds are N(mean, variance): (N,).

    An outcome of 0 or 1 needs one integral, and a share between them two.

    >>> log_moderated(np.array([1.0]), np.zeros(1), np.ones(1)).round(6).tolist()
    [-0.693147]
    """
    sign = np.where(y >= 0.5, 1.0, -1.0)
    likely = moderated(sign * mean, variance)
    if is_all((y == 0.0) | (y == 1.0)):
        return np.log(np.maximum(likely, _SMALLEST))
    other = moderated(-sign * mean, variance)
    p, q = np.where(sign > 0, likely, other), np.where(sign > 0, other, likely)
    return log_bernoulli(y, p, q)


def moderated(mean: Array, variance: Array) -> Array:
    """Return E σ(η) for η ~ N(mean, variance), to 1e-9 and of any shape.

    Up to sd ½ by ten points of Gauss and Hermite, whose error is some n!·(sd/π)²ⁿ. Beyond by the
    trapezoidal rule, whose error falls exponentially for analytic functions. The poles of
    σ(mean + sd·z) lie at a distance of π/sd, so a step of 0.8 in z serves up to sd 0.8 and one of
    0.4 up to sd 2. Beyond that, σ is read as the distribution function of a logistic L: E σ(η) =
    E Φ((mean − L)/sd), where the poles of L's density lie π away whatever sd is, and a step of ¾
    serves.

    >>> moderated(np.array([0.0, 2.0]), np.array([9.0, 0.0])).round(6).tolist()
    [0.5, 0.880797]
    """
    flat, sd = mean.reshape(-1), np.sqrt(variance).reshape(-1)
    out = np.empty(flat.shape)
    for start in range(0, flat.size, _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        out[some] = _moderated(flat[some], sd[some])
    return out.reshape(mean.shape)


def _moderated(mean: Array, sd: Array) -> Array:
    rules = _rules()
    if is_all(sd <= rules[0][0]):
        return _narrow(mean[:, None], sd[:, None], *rules[0][1:])
    out, low = np.full(mean.shape, np.nan), -1.0  # where nothing ran, nothing is expected
    for high, points, weights in rules:
        chosen = (sd > low) & (sd <= high)
        if is_any(chosen):
            out[chosen] = _narrow(mean[chosen, None], sd[chosen, None], points, weights)
        low = high
    is_wide = sd > low
    if is_any(is_wide):
        out[is_wide] = _wide(mean[is_wide, None], sd[is_wide, None])
    return out


def _narrow(mean: Array, sd: Array, points: Array, weights: Array) -> Array:
    # Not by tanh, which has no digits left where σ is tiny.
    return np.asarray(
        (weights / (1.0 + np.exp(np.minimum(-mean - sd * points, 700.0)))).sum(axis=1)
    )


def _wide(mean: Array, sd: Array) -> Array:
    from scipy.special import ndtr

    points, weights = _logistic_points()
    return np.asarray((weights * ndtr((mean - points) / sd)).sum(axis=1))


@cache
def _rules() -> tuple[tuple[float, Array, Array], ...]:
    """Return points of a standard normal and their weights, and the sd up to which they serve."""
    z, weights = np.polynomial.hermite_e.hermegauss(10)
    return (
        (0.5, z, weights / weights.sum()),
        (0.8, *_normal_points(0.8)),
        (2.0, *_normal_points(0.4)),
    )


def _normal_points(step: float) -> tuple[Array, Array]:
    """Return z in steps, and weights in proportion to the normal density."""
    ends = round(8.4 / step)
    z = step * np.arange(-ends, ends + 1)
    weights = np.exp(-0.5 * z * z)
    return z, weights / weights.sum()


@cache
def _logistic_points() -> tuple[Array, Array]:
    """Return steps of ¾, and weights in proportion to the logistic density."""
    t = 0.75 * np.arange(-40, 41)
    weights = 1.0 / np.cosh(0.5 * t) ** 2
    return t, weights / weights.sum()
