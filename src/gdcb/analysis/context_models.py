"""m̂_res, linear or logistic in the features, and what it says an arm's contexts were worth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gdcb.analysis.slopes import (
    ArmRows,
    Moments,
    cross_fitted,
    moments_at,
    moments_by_fold,
    quadratic,
    slopes_of,
    sums_at,
    variance_of,
)
from gdcb.arrays import Array, logistic

_STEPS = 30  # of Newton's method; four to six are taken
_STEP = 4.0  # log odds that one of them may move a row
_FARTHEST = 30.0  # log odds that can be told from 0 and 1
_DRAWN = 20.0  # pooling under which the mode is found; folds then choose their own
_NEAR = 1e-3  # log odds; the folds take one step more


def linear_bias(
    rows: ArmRows, penalty: float, pooling: float | None, freedom: Array
) -> tuple[Array, Array]:
    """Return b̂ (G, K) = (φ̄_a − φ̄_ref)ᵀθ̂_a, cross-fitted, and its variance."""
    n_folds = int(rows.fold.max(initial=1)) + 1
    mean, _, by_fold = moments_by_fold(rows, rows.y, rows.weight, n_folds)
    off = mean - rows.reference.mean(axis=1)[:, None]
    found = line_through(by_fold, off, penalty, pooling, freedom)
    return found.bias, found.error2 + found.met


class Line(NamedTuple):
    """m̂_res as a straight line, and what it says an arm's contexts were worth: (G, K, …).

    Parameters
    ----------
    bias : b̂ = (φ̄_a − φ̄_ref)ᵀθ̂_a, cross-fitted
    error2, met : its variance: that of the line, and that of the contexts which the arm met
    slopes : (F, G, K, p) θ̂_a of the other folds
    left : (G,) residual sum of squares on rows that the line has not seen
    """

    bias: Array
    error2: Array
    met: Array
    slopes: Array
    left: Array


def line_through(
    by_fold: Moments,
    off: Array,
    penalty: float,
    pooling: float | None,
    freedom: Array,
    part: Array | None = None,
) -> Line:
    """Fit the line from moments about the arms' means (F, G, K, …); `off` is φ̄_a − φ̄_ref.

    With `part` (p, p) the bias is that of φ·part alone, under the same slopes on φ.
    """
    one = np.ones(off.shape[0])
    part = np.eye(off.shape[-1]) if part is None else part
    whole, rest = _without(by_fold)
    n = np.where(whole.n > 0, whole.n, 1.0)
    slopes, left, pooled = cross_fitted(by_fold, rest, penalty, pooling, one)
    # Rows are centred on their arm's mean: Σ_k n_ak (φ̄_ak − φ̄_ref) is this.
    shift = by_fold.phi + by_fold.n[..., None] * off
    bias = ((shift @ part) * slopes).sum(axis=-1).sum(axis=0) / n
    theta, inverse, shared = slopes_of(whole, pooled, penalty * one)
    covariance = variance_of(inverse, shared, pooled)
    variance = (left / freedom)[:, None] * quadratic(off @ part, covariance)
    # One row more with the covariance of all arms: an arm seen once has none of its own.
    common = (whole.gram.sum(axis=1) / freedom[:, None, None])[:, None]
    met = quadratic(theta @ part.T, (whole.gram + common) / n[..., None, None]) / n
    return Line(bias, variance, met, slopes, left)


def logistic_bias(
    rows: ArmRows, penalty: float, pooling: float | None, freedom: Array
) -> tuple[Array, Array]:
    """Return b̂ (G, K) = E_hist[m̂ | a] − E_ref[m̂], m̂ = σ(v̂_a + θ̂_aᵀφ), and its variance."""
    odds = _odds_of(rows, penalty, pooling)
    variance = variance_of(odds.inverse, odds.shared, odds.pooled)
    error2 = odds.moved**2 / odds.weight + quadratic(odds.gradient, variance)
    return odds.bias, error2 + _met(rows, odds.predicted, freedom)


def unread_logistic_bias(
    rows: ArmRows, read: Array, penalty: float, pooling: float | None, freedom: Array
) -> tuple[Array, Array]:
    """Return b̂ (G, K) of what the log odds of the columns `read` (p,) leave, and its variance.

    It is b̂ under all columns less b̂ under those that are read, each as in `logistic_bias`: by how
    much a learner of those log odds is off in the contexts of the reference. The two share their
    rows, so that the variance is that of the difference, Σ of squared influences of rows.
    """
    some = rows._replace(phi=rows.phi[:, read], reference=rows.reference[..., read])
    odds, less = _odds_of(rows, penalty, pooling), _odds_of(some, penalty, pooling)
    error2 = np.zeros(rows.shape)
    for a in range(rows.shape[1]):
        influence = _influence(rows, odds, a) - _influence(some, less, a)
        error2[:, a] = np.bincount(rows.group, influence**2, rows.shape[0])
    return odds.bias - less.bias, error2 + _met(rows, odds.predicted - less.predicted, freedom)


class _Odds(NamedTuple):
    """m̂ = σ(v̂_a + θ̂_aᵀφ) of all rows, and what b̂ owes to it: (G, K, …).

    Parameters
    ----------
    bias : b̂, cross-fitted
    predicted : (N,) m̂ of the rows, of all of them
    mean : φ̄_a, weighted by m̂(1 − m̂)
    weight : of the arm's rows, so weighted
    inverse, shared, pooled : of `slopes_of`
    moved, gradient : ∂b/∂v_a, and ∂b/∂θ_a where v̂_a is the mean target less φ̄ᵀθ̂_a
    """

    bias: Array
    predicted: Array
    mean: Array
    weight: Array
    inverse: Array
    shared: Array
    pooled: Array
    moved: Array
    gradient: Array


def _odds_of(rows: ArmRows, penalty: float, pooling: float | None) -> _Odds:
    """Fit the log odds.

    An arm's level v_a has a prior worth one row of the group's mean outcome in its mean context, so
    that an arm that always won has one. The mode is that of all rows; each fold's model is one
    Newton step from it on the rows of the others.
    """
    shape, size = rows.shape, rows.shape[0] * rows.shape[1]
    n_folds = int(rows.fold.max(initial=1)) + 1
    levels, theta, mean, middle, whole, pooled, unit = _logistic_folds(rows, penalty, pooling)

    at = rows.fold * size + rows.place
    m = logistic(_odds(rows.phi, levels.reshape(-1)[at], theta.reshape(n_folds * size, -1)[at]))
    n_by_fold = np.bincount(at, rows.weight, n_folds * size).reshape(n_folds, *shape)
    n = n_by_fold.sum(axis=0)
    n = np.where(n > 0, n, 1.0)
    ran = np.bincount(rows.place, rows.weight * m, size).reshape(shape) / n
    expected = np.stack([_at_reference(rows, levels[k], theta[k])[0] for k in range(n_folds)])
    bias = ran - (n_by_fold * expected).sum(axis=0) / n

    final, inverse, shared = slopes_of(whole, pooled, penalty * unit)
    level = middle - (mean * final).sum(axis=-1)
    m = logistic(
        _odds(rows.phi, level.reshape(-1)[rows.place], final.reshape(size, -1)[rows.place])
    )
    w = rows.weight * m * (1.0 - m)
    here = np.bincount(rows.place, w, size).reshape(shape) / n
    there, *slope_there = _at_reference(rows, level, final)[1:]
    slope_here = sums_at(rows.place, w * rows.phi.T, size).reshape(*shape, -1) / n[..., None]
    # v̂_a is the mean target less φ̄ᵀθ̂_a: what b̂ owes to it is theirs to share.
    gradient, moved = slope_here - slope_there[0], here - there
    gradient = gradient - moved[..., None] * mean
    weight = np.where(whole.n > 0, whole.n, 1.0)
    return _Odds(bias, m, mean, weight, inverse, shared, pooled, moved, gradient)


def _influence(rows: ArmRows, odds: _Odds, arm: int) -> Array:
    """Return by how much each row (N,) moves b̂ of an arm in its group."""
    shape, size, p = rows.shape, rows.shape[0] * rows.shape[1], rows.phi.shape[1]
    # ∂b/∂θ_a·τB_a⁻¹·shared·τB_b⁻¹: by way of the slope that all arms share.
    drawn = odds.pooled[:, None, None, None] * odds.inverse
    by_way = odds.gradient[:, arm, None] @ drawn[:, arm] @ odds.shared
    slope = (by_way[:, None] @ drawn)[:, :, 0]
    slope[:, arm] += (odds.gradient[:, arm, None] @ odds.inverse[:, arm])[:, 0]
    level = np.zeros(shape)
    level[:, arm] = odds.moved[:, arm] / odds.weight[:, arm]
    off = rows.phi - odds.mean.reshape(size, p)[rows.place]
    by_row = level.reshape(-1)[rows.place] + (off * slope.reshape(size, p)[rows.place]).sum(axis=1)
    return np.asarray(by_row * rows.weight * (rows.y - odds.predicted))


def _met(rows: ArmRows, predicted: Array, freedom: Array) -> Array:
    """Return the variance (G, K) of the mean of m̂ over the contexts that an arm happened to meet.

    One row more with the variance of all arms: an arm seen once has none of its own.
    """
    size = rows.shape[0] * rows.shape[1]
    n = np.bincount(rows.place, rows.weight, size)
    n = np.where(n > 0, n, 1.0)
    mean = np.bincount(rows.place, rows.weight * predicted, size) / n
    square = np.bincount(rows.place, rows.weight * (predicted - mean[rows.place]) ** 2, size)
    square, n = square.reshape(rows.shape), n.reshape(rows.shape)
    return np.asarray((square + (square.sum(axis=1) / freedom)[:, None]) / n**2)


def logistic_folds(rows: ArmRows, penalty: float, pooling: float | None) -> tuple[Array, Array]:
    """Return v̂ (F, G, K) and θ̂ (F, G, K, p) of the log odds, fold by fold from the other folds."""
    return _logistic_folds(rows, penalty, pooling)[:2]


def linear_folds(rows: ArmRows, penalty: float, pooling: float | None) -> tuple[Array, Array]:
    """Return v̂ (F, G, K) and θ̂ (F, G, K, p) of a line an arm, fold by fold from the other folds.

    An arm's level has a prior worth one row at the mean level of the group.
    """
    n_folds = int(rows.fold.max(initial=1)) + 1
    mean, middle, by_fold = moments_by_fold(rows, rows.y, rows.weight, n_folds)
    _, rest = _without(by_fold)
    slopes, _, _ = cross_fitted(by_fold, rest, penalty, pooling, np.ones(rows.shape[0]))
    # Σ(y − θᵀφ) of the other folds' rows, which the moments have about the arm's mean.
    level = rest.y + rest.n * middle - ((rest.phi + rest.n[..., None] * mean) * slopes).sum(axis=-1)
    total = rest.n.sum(axis=-1, keepdims=True)
    common = level.sum(axis=-1, keepdims=True) / np.where(total > 0, total, 1.0)
    return (level + common) / (rest.n + 1.0), slopes


def _logistic_folds(
    rows: ArmRows, penalty: float, pooling: float | None
) -> tuple[Array, Array, Array, Array, Moments, Array, Array]:
    """Return the folds' levels and slopes, and what `_odds_of` needs beside."""
    n_folds = int(rows.fold.max(initial=1)) + 1
    more = _with_prior(rows, n_folds)
    level, slopes, unit = _mode(more, penalty)
    eta, curve = _predicted(more, level, slopes)
    target = eta + (more.y - logistic(eta)) / curve
    mean, middle, by_fold = moments_by_fold(more, target, more.weight * curve, n_folds + 1)
    whole, rest = _without(by_fold)
    theta, _, pooled = cross_fitted(
        Moments(*(part[:-1] for part in by_fold)),
        Moments(*(part[:-1] for part in rest)),
        penalty,
        pooling,
        unit,
    )
    rest_mean = rest.phi[:-1] / rest.n[:-1, ..., None]
    levels = middle + rest.y[:-1] / rest.n[:-1] - ((mean + rest_mean) * theta).sum(axis=-1)
    return levels, theta, mean, middle, whole, pooled, unit


def _without(by_fold: Moments) -> tuple[Moments, Moments]:
    """Return the moments of all folds, and of all but each."""
    whole = Moments(*(part.sum(axis=0) for part in by_fold))
    return whole, Moments(*(total - part for total, part in zip(whole, by_fold, strict=True)))


def _odds(phi: Array, level: Array, slopes: Array) -> Array:
    return np.asarray(np.clip(level + (phi * slopes).sum(axis=1), -_FARTHEST, _FARTHEST))


def _predicted(rows: ArmRows, level: Array, slopes: Array) -> tuple[Array, Array]:
    """Return the log odds of rows (N,), and m(1 − m) there."""
    at = rows.place
    eta = _odds(rows.phi, level.reshape(-1)[at], slopes.reshape(level.size, -1)[at])
    m = logistic(eta)
    return eta, np.maximum(m * (1.0 - m), 1e-12)


def _with_prior(rows: ArmRows, n_folds: int) -> ArmRows:
    """Add a row an arm with the group's mean outcome in its mean context, in a fold of its own."""
    (n_groups, n_arms), size = rows.shape, rows.shape[0] * rows.shape[1]
    total = np.bincount(rows.group, rows.weight, n_groups)
    wins = np.bincount(rows.group, rows.weight * rows.y, n_groups)
    mean, every = (wins + 0.5) / (total + 1.0), np.arange(size)
    group = every // n_arms
    return ArmRows(
        np.concatenate((rows.phi, np.zeros((size, rows.phi.shape[1])))),
        np.concatenate((rows.y, mean[group])),
        np.concatenate((rows.weight, np.ones(size))),
        np.concatenate((rows.fold, np.full(size, n_folds))),
        np.concatenate((rows.group, group)),
        np.concatenate((rows.place, every)),
        rows.reference,
        rows.shape,
    )


def _mode(rows: ArmRows, penalty: float) -> tuple[Array, Array, Array]:
    """Return v̂ (G, K) and θ̂ (G, K, p) of all rows by Newton's method, and a row's worth (G,).

    Each group stops by itself.
    """
    n_groups, size = rows.shape[0], rows.shape[0] * rows.shape[1]
    n = np.bincount(rows.place, rows.weight, size)
    share = (np.bincount(rows.place, rows.weight * rows.y, size) / n).reshape(rows.shape)
    # A share of 0 or 1 has no finite log odds, and needs none to start from.
    share = np.clip(share, 0.01, 0.99)
    level, slopes = np.log(share / (1.0 - share)), np.zeros((*rows.shape, rows.phi.shape[1]))
    weight = rows.weight * (share * (1.0 - share)).reshape(-1)[rows.place]
    total = np.bincount(rows.group, rows.weight, n_groups)
    unit = np.bincount(rows.group, weight, n_groups) / total
    is_open = np.ones(n_groups, dtype=bool)
    some = rows
    for _ in range(_STEPS):
        eta, curve = _predicted(some, level, slopes)
        target = eta + (some.y - logistic(eta)) / curve
        sums = moments_at(some.place, some.phi, target, some.weight * curve, size)
        sums = Moments(*(part.reshape(*rows.shape, *part.shape[1:]) for part in sums))
        found = slopes_of(sums, _DRAWN * unit, penalty * unit)[0]
        n = np.where(sums.n > 0, sums.n, 1.0)
        goal = (sums.y - (sums.phi * found).sum(axis=-1)) / n
        step = np.zeros(n_groups)
        place = some.place
        moved = (goal - level).reshape(-1)[place]
        moved = moved + (some.phi * (found - slopes).reshape(size, -1)[place]).sum(axis=1)
        np.maximum.at(step, some.group, np.abs(moved))
        share = np.where(is_open, np.minimum(1.0, _STEP / np.maximum(step, _STEP)), 0.0)
        level = level + share[:, None] * (goal - level)
        slopes = slopes + share[:, None, None] * (found - slopes)
        is_open &= step > _NEAR
        if not is_open.any():
            break
        keep = np.flatnonzero(is_open[some.group])
        some = _take(some, keep)
    return level, slopes, unit


def _take(rows: ArmRows, index: Array) -> ArmRows:
    phi, y, weight, fold, group, place = (part[index] for part in rows[:6])
    return ArmRows(phi, y, weight, fold, group, place, rows.reference, rows.shape)


def _at_reference(rows: ArmRows, level: Array, slopes: Array) -> tuple[Array, Array, Array]:
    """Return means over the reference of m̂ and m̂(1 − m̂) (G, K), and of m̂(1 − m̂)·φ (G, K, p)."""
    mean, curve, slope = np.empty(rows.shape), np.empty(rows.shape), np.empty(slopes.shape)
    for g, phi in enumerate(rows.reference):
        odds = level[g][:, None] + slopes[g] @ phi.T
        m = logistic(np.clip(odds, -_FARTHEST, _FARTHEST))
        w = m * (1.0 - m)
        mean[g], curve[g], slope[g] = m.mean(axis=1), w.mean(axis=1), w @ phi / phi.shape[0]
    return mean, curve, slope
