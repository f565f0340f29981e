"""What context still explains within arms: ridge slopes an arm, drawn to a common one, by sums."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np

from gdcb.arrays import Array

_POOLINGS = (1000.0, 100.0, 20.0, 4.0)


class ArmRows(NamedTuple):
    """Rows credited to arms, their features standardised group by group.

    Parameters
    ----------
    phi, y, weight, fold : (N, p), (N,), (N,), (N,) features, outcome, weight and fold
    group, place : (N,) group, and group · K + arm
    reference : (G, M, p) features of the reference sample, on the same scale
    shape : (G, K)
    """

    phi: Array
    y: Array
    weight: Array
    fold: Array
    group: Array
    place: Array
    reference: Array
    shape: tuple[int, int]


class Moments(NamedTuple):
    """Σw, Σwφ, Σwφφᵀ, Σwφy, Σwy and Σwy² of every (fold,) group and arm."""

    n: Array
    phi: Array
    gram: Array
    cross: Array
    y: Array
    square: Array


def moments_by_fold(
    rows: ArmRows, y: Array, weight: Array, n_folds: int
) -> tuple[Array, Array, Moments]:
    """Return the arms' mean features (G, K, p) and targets (G, K), and moments about them by fold.

    `y` and `weight` (N,) stand in for those of the rows.
    """
    size, p, w = rows.shape[0] * rows.shape[1], rows.phi.shape[1], weight
    n = np.bincount(rows.place, w, size)
    n = np.where(n > 0, n, 1.0)[:, None]
    mean = sums_at(rows.place, w * rows.phi.T, size) / n
    level = sums_at(rows.place, (w * y)[None], size) / n
    phi, y = rows.phi - mean[rows.place], y - level[rows.place, 0]
    where = rows.fold * size + rows.place
    folded = moments_at(where, phi, y, w, n_folds * size)
    parts = (part.reshape(n_folds, *rows.shape, *part.shape[1:]) for part in folded)
    return mean.reshape(*rows.shape, p), level.reshape(rows.shape), Moments(*parts)


def moments_at(place: Array, phi: Array, y: Array, w: Array, size: int) -> Moments:
    """Return the moments of rows at every place, of `size` places."""
    p = phi.shape[1]
    gram = np.empty((size, p, p))
    columns = np.ascontiguousarray(phi.T)
    weighted = w * columns
    for i, j in combinations_with_replacement(range(p), 2):
        gram[:, i, j] = gram[:, j, i] = np.bincount(place, weighted[i] * columns[j], size)
    return Moments(
        np.bincount(place, w, size),
        sums_at(place, weighted, size),
        gram,
        sums_at(place, y * weighted, size),
        np.bincount(place, w * y, size),
        np.bincount(place, w * y * y, size),
    )


def sums_at(place: Array, columns: Array, size: int) -> Array:
    """Return the sums of columns (c, N) at every place, in the order of the rows: (size, c)."""
    out = np.empty((size, columns.shape[0]))
    for j, column in enumerate(columns):
        out[:, j] = np.bincount(place, column, size)
    return out


def quadratic(vector: Array, matrix: Array) -> Array:
    """Return vᵀMv of stacked vectors (..., p) and matrices (..., p, p)."""
    form: Array = (vector[..., None, :] @ matrix @ vector[..., None])[..., 0, 0]
    return form


def cross_fitted(
    by_fold: Moments, rest: Moments, penalty: float, pooling: float | None, unit: Array
) -> tuple[Array, Array, Array]:
    """Return slopes of the other folds (F, G, K, p), what they leave (G,), and the pooling (G,).

    The pooling is the one under which the slopes leave least of the rows they have not seen.
    `unit` (G,) is what one row is worth in the moments.
    """
    n_groups = by_fold.n.shape[1]
    least, pooled = np.full(n_groups, np.inf), np.zeros(n_groups)
    slopes = np.zeros_like(by_fold.phi)
    for one in _POOLINGS if pooling is None else (pooling,):
        found = slopes_of(rest, one * unit, penalty * unit)[0]
        left = by_fold.square - 2.0 * (found * by_fold.cross).sum(axis=-1)
        left = np.maximum(left + quadratic(found, by_fold.gram), 0.0).sum(axis=2).sum(axis=0)
        is_better = left < least
        least, pooled = np.where(is_better, left, least), np.where(is_better, one * unit, pooled)
        slopes = np.where(is_better[:, None, None], found, slopes)
    return slopes, least, pooled


def slopes_of(sums: Moments, pooling: Array, penalty: Array) -> tuple[Array, Array, Array]:
    """Return θ̂_a (..., K, p) of random slopes around one θ, and what `variance_of` needs.

    With G_a and S_a centred within the arm on these rows, τ the pooling, λ the penalty of θ (G,)
    and B_a = G_a + τ: the common slope solves (λ + Σ_a τB_a⁻¹G_a)·θ = Σ_a τB_a⁻¹S_a, and
    θ_a = B_a⁻¹(S_a + τθ).
    """
    mean = sums.phi / np.where(sums.n > 0, sums.n, 1.0)[..., None]
    gram = sums.gram - mean[..., None] * sums.phi[..., None, :]
    cross = sums.cross - mean * sums.y[..., None]
    eye, tau = np.eye(mean.shape[-1]), pooling[:, None, None]
    inverse = np.linalg.inv(gram + tau[:, None] * eye)
    drawn = tau[:, None] * inverse  # how far an arm is drawn to θ: wholly, without rows
    shared = np.linalg.inv(penalty[:, None, None] * eye + tau * (eye - drawn).sum(axis=-3))
    theta = shared @ (drawn @ cross[..., None]).sum(axis=-3)
    fitted = inverse @ cross[..., None] + drawn @ theta[..., None, :, :]
    return fitted[..., 0], inverse, shared


def variance_of(inverse: Array, shared: Array, pooling: Array) -> Array:
    """Return Var(θ̂_a)/σ² = B_a⁻¹ + τB_a⁻¹·(λ + Σ τB⁻¹G)⁻¹·τB_a⁻¹: (G, K, p, p)."""
    drawn = pooling[:, None, None, None] * inverse
    variance: Array = inverse + drawn @ shared[..., None, :, :] @ drawn
    return variance
