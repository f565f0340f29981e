"""What context still explains within arms: ridge slopes an arm, drawn to a common one, by sums."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np

from gdcb.arrays import Array

_POOLINGS = (1000.0, 100.0, 20.0, 4.0)


class Moments(NamedTuple):
    """Σw, Σwφ, Σwφφᵀ, Σwφy, Σwy and Σwy² of every (fold,) group and arm."""

    n: Array
    phi: Array
    gram: Array
    cross: Array
    y: Array
    square: Array


def moments_by_fold(
    place: Array, fold: Array, phi: Array, y: Array, w: Array, shape: tuple[int, int]
) -> tuple[Array, Moments]:
    """Return the arms' mean features (G, K, p), and moments about the arms' means by fold.

    Parameters
    ----------
    place, fold, w : (N,) group · K + arm, fold and weight of each row
    phi, y : (N, p) features, (N,) target
    shape : (G, K)
    """
    n_folds, size, p = int(fold.max(initial=1)) + 1, shape[0] * shape[1], phi.shape[1]
    n = np.bincount(place, w, size)
    n = np.where(n > 0, n, 1.0)[:, None]
    mean = sums_at(place, w[:, None] * phi, size) / n
    level = sums_at(place, (w * y)[:, None], size) / n
    phi, y = phi - mean[place], y - level[place, 0]
    where, total = fold * size + place, n_folds * size
    gram = np.empty((total, p, p))
    for i, j in combinations_with_replacement(range(p), 2):
        gram[:, i, j] = gram[:, j, i] = np.bincount(where, w * phi[:, i] * phi[:, j], total)
    moments = (
        np.bincount(where, w, total),
        sums_at(where, w[:, None] * phi, total),
        gram,
        sums_at(where, (w * y)[:, None] * phi, total),
        np.bincount(where, w * y, total),
        np.bincount(where, w * y * y, total),
    )
    folded = Moments(*(part.reshape(n_folds, *shape, *part.shape[1:]) for part in moments))
    return mean.reshape(*shape, p), folded


def sums_at(place: Array, columns: Array, size: int) -> Array:
    """Return the sum of columns (N, c) at every place: each sums its own rows, in their order."""
    out = np.empty((size, columns.shape[1]))
    for j in range(columns.shape[1]):
        out[:, j] = np.bincount(place, columns[:, j], size)
    return out


def quadratic(vector: Array, matrix: Array) -> Array:
    """Return vᵀMv of stacked vectors (..., p) and matrices (..., p, p)."""
    form: Array = (vector[..., None, :] @ matrix @ vector[..., None])[..., 0, 0]
    return form


def cross_fitted(
    by_fold: Moments, rest: Moments, penalty: float, pooling: float | None
) -> tuple[Array, Array, Array]:
    """Return slopes of the other folds (F, G, K, p), what they leave (G,), and the pooling (G,)."""
    n_groups = by_fold.n.shape[1]
    least, pooled = np.full(n_groups, np.inf), np.zeros(n_groups)
    slopes = np.zeros_like(by_fold.phi)
    for one in _POOLINGS if pooling is None else (pooling,):
        found = slopes_of(rest, penalty, np.full(n_groups, float(one)))[0]
        left = by_fold.square - 2.0 * (found * by_fold.cross).sum(axis=-1)
        left = np.maximum(left + quadratic(found, by_fold.gram), 0.0).sum(axis=2).sum(axis=0)
        is_better = left < least
        least, pooled = np.where(is_better, left, least), np.where(is_better, one, pooled)
        slopes = np.where(is_better[:, None, None], found, slopes)
    return slopes, least, pooled


def slopes_of(sums: Moments, penalty: float, pooling: Array) -> tuple[Array, Array, Array]:
    """Return θ̂_a (..., K, p) of random slopes around one θ, and what `variance_of` needs.

    With G_a and S_a centred within the arm on these rows and B_a = G_a + τ: the common slope
    solves (λ + Σ_a τB_a⁻¹G_a)·θ = Σ_a τB_a⁻¹S_a, and θ_a = B_a⁻¹(S_a + τθ).
    """
    mean = sums.phi / np.where(sums.n > 0, sums.n, 1.0)[..., None]
    gram = sums.gram - mean[..., None] * sums.phi[..., None, :]
    cross = sums.cross - mean * sums.y[..., None]
    eye, tau = np.eye(mean.shape[-1]), pooling[:, None, None]
    inverse = np.linalg.inv(gram + tau[:, None] * eye)
    drawn = tau[:, None] * inverse  # how far an arm is drawn to θ: wholly, without rows
    shared = np.linalg.inv(penalty * eye + tau * (eye - drawn).sum(axis=-3))
    theta = shared @ (drawn @ cross[..., None]).sum(axis=-3)
    fitted = inverse @ cross[..., None] + drawn @ theta[..., None, :, :]
    return fitted[..., 0], inverse, shared


def variance_of(inverse: Array, shared: Array, pooling: Array) -> Array:
    """Return Var(θ̂_a)/σ² = B_a⁻¹ + τB_a⁻¹·(λ + Σ τB⁻¹G)⁻¹·τB_a⁻¹: (..., K, p, p)."""
    drawn = pooling[:, None, None, None] * inverse
    variance: Array = inverse + drawn @ shared[..., None, :, :] @ drawn
    return variance
