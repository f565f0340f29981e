"""Random linear systems that the tests of the filter share."""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array
from gdcb.kalman.filter import Filtered


def covariances(rng: np.random.Generator, shape: tuple[int, ...], n: int, decades: float) -> Array:
    """Return (*shape, n, n) turned covariances with eigenvalues over ±`decades` decades."""
    turn = np.linalg.qr(rng.normal(size=(*shape, n, n)))[0]
    size = 10.0 ** rng.uniform(-decades, decades, (*shape, 1, n))
    out = (turn * size) @ turn.swapaxes(-1, -2)
    return np.asarray(out + out.swapaxes(-1, -2)) / 2


def systems(
    seed: int, shape: tuple[int, ...], n: int, m: int, decades: float = 1.0, most: float = 1.5
) -> tuple[Array, Array, Array, Array]:
    """Return F, H, Q, R; F's largest eigenvalue is between 0.3 and `most`."""
    rng = np.random.default_rng(seed)
    f = rng.normal(size=(*shape, n, n))
    radius = np.abs(np.linalg.eigvals(f)).max(axis=-1)
    f *= (rng.uniform(0.3, most, shape) / radius)[..., None, None]
    h = rng.normal(size=(*shape, m, n))
    return f, h, covariances(rng, shape, n, decades), covariances(rng, shape, m, decades)


ARRAYS = (
    "predicted",
    "predicted_covariance",
    "mean",
    "covariance",
    "innovation",
    "innovation_covariance",
    "gain",
    "smallest_root",
)


def assert_same_bits(one: Filtered, i: int, other: Filtered, j: int) -> None:
    """Compare track i of one result with track j of another, to the last bit."""
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name)[:, i], getattr(other, name)[:, j], name)
    assert one.log_likelihood[i] == other.log_likelihood[j]
