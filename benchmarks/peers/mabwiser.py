"""MABWiser: `ThompsonSampling` and `LinTS`.

`LinTS(alpha, l2_lambda)` keeps, per arm, A = λI + XᵀX and β = A⁻¹Xᵀy, without intercept and
without scaling (`scale=False`), and draws θ ~ N(β, α²A⁻¹) by `multivariate_normal` for every
row and arm. With prior θ ~ N(0, I/`precision`) and noise variance `noise`² this is the exact
posterior if λ = `precision`·`noise`² and α = `noise`. An arm without data draws with covariance
α²λI instead of α²I/λ (its `A_inv` starts as a copy of A): right only where λ = 1. Each arm's model
is a deep copy with the generator in it, so that all arms draw the same normal numbers: every
arm's law is right, but the arms' draws correlate by 1 and explore less than Thompson sampling.

`ThompsonSampling` counts from Beta(1, 1), always.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mabwiser.mab import MAB, LearningPolicy

from benchmarks.peers.tasks import N_ARMS, Array, Missing, Peer, main


class Flat:
    """Beta-Thompson."""

    def __init__(self, arms: int = N_ARMS) -> None:
        self.mab = MAB(list(range(arms)), LearningPolicy.ThompsonSampling(), seed=1)
        self.is_fitted = False

    def fit(self, arm: Array, y: Array) -> None:
        """Learn; MABWiser's first call must be `fit`."""
        learn = self.mab.partial_fit if self.is_fitted else self.mab.fit
        learn(arm, y)
        self.is_fitted = True

    def decide(self) -> int:
        """Return an arm; before any data MABWiser refuses to."""
        return int(self.mab.predict()) if self.is_fitted else 0

    def update(self, arm: int, y: float) -> None:
        """Learn one reward."""
        self.fit(np.array([arm]), np.array([int(y)]))


class LinTS:
    """Linear Thompson sampling, one ridge regression an arm."""

    def __init__(self, arms: int = N_ARMS, alpha: float = 1.0, l2_lambda: float = 1.0) -> None:
        policy = LearningPolicy.LinTS(alpha=alpha, l2_lambda=l2_lambda)
        self.mab = MAB(list(range(arms)), policy, seed=1)

    def fit(self, arm: Array, x: Array, y: Array) -> None:
        """Learn rows at once."""
        self.mab.fit(arm, y, x)

    def decide(self, x: Array) -> int:
        """Return an arm for one context."""
        return int(self.mab.predict(x[None]))

    def update(self, arm: int, x: Array, y: float) -> None:
        """Learn one reward."""
        self.mab.partial_fit(np.array([arm]), np.array([y]), x[None])

    def decide_many(self, x: Array) -> Array:
        """Return the arms of many contexts."""
        return np.asarray(self.mab.predict(x))


def linear(arm: Array, x: Array, y: Array, prior: dict[str, Any]) -> Any:
    """Return mean (K, d) and covariance (K, d, d)."""
    noise = prior["noise"]
    model = LinTS(prior["arms"], noise, prior["precision"] * noise**2)
    model.fit(arm, x, y)
    fits = [model.mab._imp.arm_to_model[k] for k in range(prior["arms"])]
    return {
        "mean": [fit.beta for fit in fits],
        "covariance": [noise**2 * fit.A_inv for fit in fits],
    }


def beta(arm: Array, _: Array, y: Array, prior: dict[str, Any]) -> Any:
    """Return counts (K, 2) of successes and failures, prior included."""
    if (prior["a"], prior["b"]) != (1.0, 1.0):
        raise Missing("MABWiser's prior is Beta(1, 1)")
    model = Flat(prior["arms"])
    model.fit(arm, y.astype(int))
    counts = model.mab._imp
    return {
        "counts": [
            (counts.arm_to_success_count[k], counts.arm_to_fail_count[k])
            for k in range(prior["arms"])
        ]
    }


if __name__ == "__main__":
    main(Peer("mabwiser", Flat, LinTS, "LinTS", posteriors={"linear": linear, "beta": beta}))
