"""The importance-weighted start: history weighed by how unlikely its executed arms were."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gdcb.analysis.contraction import arm_cells
from gdcb.arrays import Array
from gdcb.instance import Instance
from gdcb.instances import Study
from gdcb.records import History

CLIP = 20.0  # largest weight, in units of the mean


def reweighted(instance: Instance, history: History, study: Study) -> History:
    """Return the history with weights 1/P(executed arm | x), as if arms had been drawn evenly.

    The propensity of the *executed* arm cell, proposal and gate together, is estimated within
    each replicate from the log alone: the relative executed action given x is taken as normal
    around a linear function of the features, and a cell has the mass of its interval. Weights are
    clipped at 20 times their mean and scaled to the effective sample size (Σw)²/Σw², so that
    reweighting never counts as more evidence than it is. Rows off every arm say nothing of one,
    and weigh nothing.
    """
    from scipy.special import ndtr

    log, space = history.log, instance.space
    n = log.unit.size
    relative = instance.composition.relative(log.action, log.x)[:, 0]
    neutral = np.ones((n, 1, 1))
    cell = arm_cells(instance, log.action[:, None], neutral, log.x)[:, 0]
    names = instance.context.names
    x = log.x[:, [names.index(name) for name in study.features]]
    mean, spread = _normal_given(x, relative, log.group)
    levels = np.unique(space.coords[:, 0])
    inner = 0.5 * (levels[1:] + levels[:-1])
    edges = np.concatenate(([1.5 * levels[0] - 0.5 * levels[1]], inner))
    edges = np.append(edges, 1.5 * levels[-1] - 0.5 * levels[-2])
    on_arm = cell < space.n
    place = np.searchsorted(levels, space.coords[np.where(on_arm, cell, 0), 0])
    upper, lower = (edges[place + 1] - mean) / spread, (edges[place] - mean) / spread
    propensity = np.maximum(ndtr(upper) - ndtr(lower), 1e-4)
    weight = np.where(on_arm, 1.0 / propensity, 0.0)
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
