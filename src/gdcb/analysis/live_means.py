"""m̂ for live regret: one fit of all rows, least squares or, for outcome classes, logistic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.analysis.what_if.log import runs_at
from gdcb.analysis.what_if.means import Features, class_of, null_of
from gdcb.arrays import Array, logistic

_PENALTY = 1.0
_LEVEL = 1e-6  # penalty of the intercept
_STEPS = 30
_NEAR = 1e-9
_LONGEST = 4.0  # log odds that a step may move a row


@dataclass(slots=True)
class LiveMeans:
    """m̂(e, x) = ψ(e, x)ᵀθ, or the payoff of a class that comes with the chance σ(ψᵀθ).

    Parameters
    ----------
    theta : (d,)
    null : (N,) what is earned where nothing runs
    """

    features: Features
    theta: Array
    null: Array

    def at(self, design: Array, e: Array) -> Array:
        """Return m̂ of actions (..., N, D) of all rows whose ψ (..., N, d) is known: (..., N)."""
        fitted, reward = design @ self.theta, self.features.instance.reward
        if reward.target == "class":
            actions = np.moveaxis(e.reshape(-1, *e.shape[-2:]), 0, 1)
            share = logistic(fitted).reshape(actions.shape[1], actions.shape[0]).T
            worth = reward.worth(share, actions, self.features.log.rows.x)
            fitted = worth.T.reshape(fitted.shape)
        return np.where(runs_at(e), fitted, self.null)


@dataclass(slots=True)
class Rows:
    """What is regressed, worked out once: the models are fitted over and over on fewer rows.

    Parameters
    ----------
    design, target : (N, d), (N,) ψ of what ran, and the reward, or the class it is the payoff of
    is_used : (N,) rows in which something ran and the target is known
    """

    features: Features
    design: Array
    target: Array
    is_used: Array
    null: Array

    @staticmethod
    def of(features: Features) -> Rows:
        """Build ψ of what ran."""
        instance, log = features.instance, features.log
        y = class_of(instance.reward, log.reward, log.executed, log.rows.x)
        is_used = runs_at(log.executed) & np.isfinite(y)
        return Rows(features, features.design(log.executed), y, is_used, null_of(instance, log))

    def fit(self, where: Array | None = None) -> LiveMeans:
        """Fit m̂ on the rows, or on some of them (N,)."""
        rows = np.flatnonzero(self.is_used if where is None else self.is_used & where)
        design, y = self.design[rows], self.target[rows]
        penalty = np.full(design.shape[1], _PENALTY)
        penalty[0] = _LEVEL
        if self.features.instance.reward.target == "class":
            # A line through zeros and ones would be cut at 0 and 1, and bends where it must not.
            theta = _logistic(design, y, penalty)
        else:
            theta = np.linalg.solve(design.T @ design + np.diag(penalty), design.T @ y)
        return LiveMeans(self.features, np.asarray(theta), self.null)


def _logistic(design: Array, y: Array, penalty: Array) -> Array:
    """Return the mode (d,) of a logistic regression, by Newton's steps; one row of ½ is added."""
    design = np.concatenate((design, np.eye(1, design.shape[1])))
    y, turned = np.append(y, 0.5), np.ascontiguousarray(design.T)
    theta = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        p = logistic(design @ theta)
        slope = turned @ (y - p) - penalty * theta
        step = np.linalg.solve((turned * (p * (1.0 - p))) @ design + np.diag(penalty), slope)
        longest = float(np.abs(design @ step).max())
        theta = theta + step / max(1.0, longest / _LONGEST)
        if longest < _NEAR:
            break
    return theta
