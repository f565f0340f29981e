"""The importance-weighted start: history weighed by how unlikely its executed arms were."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gdcb.analysis.contraction import arm_cells
from gdcb.arms import Arms
from gdcb.arrays import Array
from gdcb.instance import Instance
from gdcb.instances import Study
from gdcb.protocol.ground import neutral_of
from gdcb.records import History

CLIP = 20.0  # largest weight, in units of the mean
_LEAST = 1e-4  # smallest propensity
_EXACT = 1e-9  # as near to a level as rounding brings it
_RIDGE = 1.0  # of the log odds of classes, on columns of size 1


def reweighted(instance: Instance, history: History, study: Study) -> History:
    """Return the history with weights 1/P(executed arm | x), as if arms had been drawn evenly.

    The propensity of the *executed* arm cell, proposal and gate together, is estimated within each
    replicate from the log alone. Along a coordinate the relative executed action given x, and given
    the coordinates before it, is taken as normal around a linear function of the features, and a
    cell has the mass of its interval. Of categories, and of one among several coordinates along
    which only the arms' own levels ran, the log odds are linear in the features, among the arms
    that a row allows. Weights are clipped at 20 times their mean and scaled to the effective sample
    size (Σw)²/Σw², so that reweighting never counts as more evidence than it is. Rows off every arm
    say nothing of one, and weigh nothing.
    """
    log, space = history.log, instance.space
    n, neutral = log.unit.size, neutral_of(instance).value
    unmoved = np.full((n, 1, 1), neutral)
    cell = arm_cells(instance, log.action[:, None], unmoved, log.x)[:, 0]
    on_arm = (cell < space.n) & ~log.is_null
    columns = [at for name in study.features for at in instance.context.positions[name]]
    x = log.x[:, columns]
    if space.is_exact.any():
        propensity = _of_categories(x, np.where(on_arm, cell, space.n), log.group, history)
    else:
        place = instance.composition.locate(space, log.action[:, None], unmoved, log.x)
        coord = place.coord[:, 0]
        propensity = _of_places(space, x, coord, np.where(on_arm, cell, 0), log.group, log.is_null)
    weight = np.where(on_arm, 1.0 / np.maximum(propensity, _LEAST), 0.0)
    groups = int(log.group.max()) + 1
    weight = weight / np.maximum(_mean_weight(weight, log.group, groups, on_arm), 1e-300)[log.group]
    weight = np.minimum(weight, CLIP)
    total, square = (np.bincount(log.group, weight**power, groups) for power in (1, 2))
    # (Σw)²/Σw² over Σw; a replicate without a row on an arm has none to weigh.
    weight = weight * (total / np.maximum(square, 1e-300))[log.group]
    return replace(history, log=replace(log, weight=weight))


def _mean_weight(weight: Array, group: Array, groups: int, on_arm: Array) -> Array:
    count = np.maximum(np.bincount(group, on_arm, groups), 1.0)
    return np.asarray(np.bincount(group, weight, groups) / count)


def _of_categories(x: Array, label: Array, group: Array, history: History) -> Array:
    """Return P(category | x) times the allowed arms (N,); the last class is 'no arm ran'."""
    mask = history.rows.mask
    if mask is None:
        return chances(x, label, group)
    is_open = np.concatenate((mask, np.ones((mask.shape[0], 1), dtype=bool)), axis=1)
    # As if drawn evenly among the allowed: of few arms each is likely anyway.
    return np.asarray(chances(x, label, group, is_open) * mask.sum(axis=1))


def _of_places(
    space: Arms, x: Array, coord: Array, arm: Array, group: Array, is_null: Array
) -> Array:
    """Return P(the arm's interval along every coordinate | x): (N,)."""
    runs = ~is_null & np.isfinite(coord).all(axis=1)
    found = np.ones(coord.shape[0])
    if not runs.all():  # something ran at all
        found = chances(x, runs.astype(np.int64), group)
    rows = np.flatnonzero(runs)
    known = x[rows]
    for j in range(space.n_coords):
        levels, value = np.unique(space.coords[:, j]), coord[rows, j]
        place = np.searchsorted(levels, space.coords[arm[rows], j])
        if levels.size > 1:
            nearest = np.abs(value[:, None] - levels).argmin(axis=1)
            gap = np.abs(value - levels[nearest]).max(initial=0.0)
            if space.n_coords > 1 and gap < _EXACT:
                found[rows] = found[rows] * chances(known, nearest, group[rows])
            else:
                edges = _edges(levels, float(space.steps[j]))
                mass = _mass(known, value, edges[:, place], group[rows])
                found[rows] = found[rows] * mass
        known = np.concatenate((known, value[:, None]), axis=1)
    return found


def _edges(levels: Array, step: float) -> Array:
    """Return the lower and upper ends of what is credited to each level: (2, levels)."""
    if not np.isnan(step):
        return np.stack((levels - 0.5 * step, levels + 0.5 * step))
    inner = 0.5 * (levels[1:] + levels[:-1])
    edges = np.concatenate(([1.5 * levels[0] - 0.5 * levels[1]], inner))
    edges = np.append(edges, 1.5 * levels[-1] - 0.5 * levels[-2])
    return np.stack((edges[:-1], edges[1:]))


def _mass(x: Array, value: Array, ends: Array, group: Array) -> Array:
    """Return the mass of intervals (2, N) under a normal law of the value given x: (N,)."""
    from scipy.special import ndtr

    mean, spread = _normal_given(x, value, group)
    lower, upper = ends
    return np.asarray(ndtr((upper - mean) / spread) - ndtr((lower - mean) / spread))


def _normal_given(x: Array, y: Array, group: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation (N,) of y given x by least squares in each group."""
    design = np.concatenate((np.ones((x.shape[0], 1)), x), axis=1)
    mean, spread = np.empty(y.shape), np.empty(y.shape)
    for g in np.unique(group):
        rows = np.flatnonzero(group == g)
        some = design[rows]
        weights = np.linalg.solve(some.T @ some + 1e-9 * np.eye(some.shape[1]), some.T @ y[rows])
        rest = y[rows] - some @ weights
        mean[rows], spread[rows] = y[rows] - rest, max(float(rest.std()), 1e-6)
    return mean, spread


def chances(x: Array, label: Array, group: Array, is_open: Array | None = None) -> Array:
    """Return the chance (N,) of every row's own class given x, fitted in each group.

    A multinomial logistic regression on standardised columns with a ridge of 1 on their weights;
    classes that a row does not leave open (N, K) have no chance there, unless they came all the
    same.
    """
    found = np.ones(label.shape)
    for g in np.unique(group):
        rows = np.flatnonzero(group == g)
        some = None if is_open is None else is_open[rows]
        found[rows] = _softmax(x[rows], label[rows], some)
    return found


def _softmax(x: Array, label: Array, is_open: Array | None) -> Array:
    """Return the fitted chance of every row's own class, in one group: (n,)."""
    from scipy.optimize import minimize

    names, place = np.unique(label, return_inverse=True)
    n, k = label.size, names.size
    if k == 1:
        return np.ones(n)
    # Classes lie along the first axis: they are few, and sums over them then go row by row.
    barred = None
    if is_open is not None:
        may_come = is_open[:, names].T | (place == np.arange(k)[:, None])
        barred = None if may_come.all() else np.where(may_come, 0.0, -np.inf)
    spread = x.std(axis=0)
    scaled = (x - x.mean(axis=0))[:, spread > 0] / spread[spread > 0]
    design = np.concatenate((np.ones((n, 1)), scaled), axis=1)
    ridge = np.full(design.shape[1], _RIDGE)
    ridge[0] = 1e-6
    turned, told_at = np.ascontiguousarray(design.T), (place, np.arange(n))

    def chance(weights: Array) -> tuple[Array, Array]:
        """Return the log chance of every row's own class (n,), and of all classes (k, n)."""
        score = weights.reshape(k, -1) @ turned
        if barred is not None:
            score += barred
        score -= score.max(axis=0)
        told = score[told_at]
        every = np.exp(score, out=score)
        total = every.sum(axis=0)
        every /= total
        return told - np.log(total), every

    def loss(weights: Array) -> tuple[float, Array]:
        told, every = chance(weights)
        every[told_at] -= 1.0
        square = ridge * weights.reshape(k, -1)
        total = -told.sum() + 0.5 * (square * weights.reshape(k, -1)).sum()
        return float(total), (every @ design + square).ravel()

    start = np.zeros(design.shape[1] * k)
    weights = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
    return np.asarray(np.exp(chance(weights)[0]))
