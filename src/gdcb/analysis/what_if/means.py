"""m̂(e, x): what an action is worth in a context, fitted on other rows than those it is asked for.

A ridge regression on φ(x), on features of the action's coordinate, and on their products: so an
action between two arms has a value of its own, where arm cells would round it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.analysis.off_policy.folds import folds_of
from gdcb.analysis.surface import Surface
from gdcb.analysis.what_if.log import GatedLog, runs_at
from gdcb.arrays import Array
from gdcb.instance import Instance
from gdcb.rewards import Reward

FOLDS = 5
_WIDEST = 8  # columns of x up to which their squares and products are features
_FURTHEST = 3.0  # half-widths of the arms' range; further out the curve is held
_PENALTY = 1.0


@dataclass(slots=True)
class Features:
    """ψ(e, x) of a log's rows: φ(x), g(e) and z(x) ⊗ g(e).

    g is z and its squares and products for arms with a metric, z the coordinate on the scale of
    the arms' range; for arms that are categories it says which arm.
    """

    instance: Instance
    log: GatedLog
    phi: Array
    n_linear: int

    @staticmethod
    def of(instance: Instance, log: GatedLog) -> Features:
        """Standardise the contexts once."""
        first = Surface().context(log.rows.x)
        p = first.shape[1] - 1
        phi = first if p > _WIDEST else Surface(context_degree=2).context(log.rows.x)
        return Features(instance, log, phi, p)

    def action(self, e: Array, index: Array) -> Array:
        """Return g of actions (n, D) of some rows: (n, k); what does not run has 0."""
        space, log = self.instance.space, self.log
        runs = runs_at(e)
        known = np.where(runs[:, None], e, log.recommended[index])
        found = self.instance.composition.locate(
            space, known[:, None], log.delta[index], log.rows.x[index]
        )
        if space.is_exact.any():
            arm = found.arm[:, 0]
            g = np.where((arm >= 0)[:, None], np.eye(space.n)[np.maximum(arm, 0)], 0.0)
        else:
            high, low = space.coords.max(axis=0), space.coords.min(axis=0)
            half = np.where(high > low, (high - low) / 2.0, 1.0)
            z = np.clip((found.coord[:, 0] - (high + low) / 2.0) / half, -_FURTHEST, _FURTHEST)
            one, other = np.triu_indices(z.shape[1])
            g = np.concatenate((z, z[:, one] * z[:, other]), axis=1)
        return np.asarray(np.where(runs[:, None], g, 0.0))

    def design(self, e: Array, index: Array | None = None) -> Array:
        """Return ψ of actions (n, D) of some rows: (n, d)."""
        at = np.arange(self.log.n) if index is None else index
        g, linear = self.action(e, at), self.phi[at, 1 : 1 + self.n_linear]
        products = (linear[:, :, None] * g[:, None, :]).reshape(at.size, -1)
        return np.concatenate((self.phi[at], g, products), axis=1)


@dataclass(slots=True)
class Means:
    """Cross-fitted m̂: row i is told by the model of the other folds.

    Parameters
    ----------
    theta : (F, d) coefficients without each fold
    fold : (N,)
    null : (N,) what is earned where nothing runs: the declared mean, and what was seen
    is_plain : whether the reward itself was regressed, whatever it is the payoff of
    """

    features: Features
    theta: Array
    fold: Array
    null: Array
    is_plain: bool = False

    def __call__(self, e: Array, index: Array | None = None) -> Array:
        """Return m̂ of actions (n, D) of some rows: (n,)."""
        at = np.arange(self.fold.size) if index is None else index
        return self.at(self.features.design(e, at), e, at)

    def at(self, design: Array, e: Array, index: Array) -> Array:
        """Return m̂ of actions (n, D) of some rows whose ψ (n, d) is known: (n,)."""
        fitted = np.einsum("nd,nd->n", design, self.theta[self.fold[index]])
        instance, log = self.features.instance, self.features.log
        if self.is_plain:
            return np.asarray(fitted)
        worth = _worth(instance.reward, fitted, e, log.rows.x[index])
        return np.where(runs_at(e), worth, self.null[index])


def fit_means(
    features: Features,
    *,
    where: Array | None = None,
    fold: Array | None = None,
    is_plain: bool = False,
) -> Means:
    """Fit m̂ on the rows of a log (`where`: on some of them), cross-fitted.

    Where outcomes are classes with known payoffs the class is regressed and the payoff multiplies,
    unless `is_plain`.
    """
    log = features.log
    if fold is None:
        fold = folds_of(FOLDS, log.cell, log.cluster)
    grams, moments = _sums(features, where, fold, is_plain)
    theta = _solved(grams.sum(axis=0) - grams, moments.sum(axis=0) - moments)
    return Means(features, theta, fold, null_of(features.instance, log), is_plain)


def _sums(
    features: Features, where: Array | None, fold: Array, is_plain: bool
) -> tuple[Array, Array]:
    """Return Σψψᵀ and Σψy of every fold: (F, d, d) and (F, d)."""
    log = features.log
    chosen = runs_at(log.executed)
    if where is not None:
        chosen = chosen & where
    y = log.reward
    if not is_plain:
        y = class_of(features.instance.reward, log.reward, log.executed, log.rows.x)
    design = features.design(log.executed)
    chosen = chosen & np.isfinite(y)
    parts = [np.flatnonzero(chosen & (fold == out)) for out in range(int(fold.max()) + 1)]
    grams = np.stack([design[part].T @ design[part] for part in parts])
    return grams, np.stack([design[part].T @ y[part] for part in parts])


def _solved(grams: Array, moments: Array) -> Array:
    """Return the ridge coefficients of every fold: (F, d); the level is free."""
    penalty = np.full(grams.shape[-1], _PENALTY)
    penalty[0] = 1e-6
    return np.asarray(np.linalg.solve(grams + np.diag(penalty), moments[..., None])[..., 0])


def null_of(instance: Instance, log: GatedLog) -> Array:
    """Return what nothing is worth: the declared mean, moved by what was seen of it: (N,)."""
    runs = runs_at(log.executed)
    declared, weight = instance.null.declared(log.rows.x), instance.null.weight
    off = (log.reward - declared)[~runs]
    return np.asarray(declared + off.sum() / (weight + off.size))


def _worth(reward: Reward, value: Array, e: Array, x: Array) -> Array:
    if reward.target != "class":
        return value
    share = np.clip(value, 0.0, 1.0)[:, None]
    return np.asarray(reward.worth(share, e[:, None], x)[:, 0])


def class_of(reward: Reward, r: Array, e: Array, x: Array) -> Array:
    """Return what is regressed (N,): the reward, or the class that it is the payoff of."""
    if reward.target != "class":
        return r
    low, high = ends_of(reward, e, x)
    gap = high - low
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.abs(gap) > 1e-12, (r - low) / gap, np.nan)


def ends_of(reward: Reward, e: Array, x: Array) -> tuple[Array, Array]:
    """Return what the two outcome classes pay for actions (N, D): (N,) each."""
    zero, one = (np.full((e.shape[0], 1), level) for level in (0.0, 1.0))
    return reward.worth(zero, e[:, None], x)[:, 0], reward.worth(one, e[:, None], x)[:, 0]
