"""contextualbandits: `LinTS` with `sample_from="ci"`.

Per arm A = λI + XᵀX (A⁻¹ by Sherman-Morrison, in double precision) and coef = A⁻¹Xᵀy; without
intercept here (`fit_intercept=False`; with `method="sm"` the intercept would be penalised too).
With prior θ ~ N(0, I/`precision`) and noise variance `noise`² the exact posterior is
N(coef, `noise`²A⁻¹) where λ = `precision`·`noise`².

As shipped, `sample_from="coef"`, version 0.3.30 draws its coefficients with covariance v²A in the
place of v²A⁻¹: the more an arm is played, the wilder its draws, and it does not learn.
`sample_from="ci"` draws every row's and arm's score from N(xᵀcoef, v²xᵀA⁻¹x), which is the law of
LinTS for one row. Its `v_sq` multiplies the standard deviation, and so both agree at 1.
There is no bandit without context.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from contextualbandits.online import LinTS as Policy

from benchmarks.peers.tasks import N_ARMS, Array, Peer, main


class LinTS:
    """Linear Thompson sampling through the predictive distribution."""

    def __init__(self, arms: int = N_ARMS, lambda_: float = 1.0) -> None:
        self.policy = Policy(
            arms,
            lambda_=lambda_,
            fit_intercept=False,
            sample_from="ci",
            method="sm",
            random_state=1,
        )

    def fit(self, arm: Array, x: Array, y: Array) -> None:
        """Learn rows at once."""
        self.policy.fit(x, arm, y)

    def decide(self, x: Array) -> int:
        """Return an arm for one context."""
        return int(self.policy.predict(x[None])[0])

    def update(self, arm: int, x: Array, y: float) -> None:
        """Learn one reward."""
        self.policy.partial_fit(x[None], np.array([arm]), np.array([y]))

    def decide_many(self, x: Array) -> Array:
        """Return the arms of many contexts."""
        return np.asarray(self.policy.predict(x))


def linear(arm: Array, x: Array, y: Array, prior: dict[str, Any]) -> Any:
    """Return mean (K, d) and covariance (K, d, d)."""
    noise = prior["noise"]
    model = LinTS(prior["arms"], prior["precision"] * noise**2)
    model.fit(arm, x, y)
    fits = [algorithm.model for algorithm in model.policy._oracles.algos]
    upper = [np.triu(fit._invXtX) for fit in fits]
    return {
        "mean": [fit.coef_ for fit in fits],
        "covariance": [noise**2 * (u + np.triu(u, 1).T) for u in upper],
    }


if __name__ == "__main__":
    main(
        Peer(
            "contextualbandits",
            "contextualbandits has no bandit without context",
            LinTS,
            "LinTS, sample_from='ci'",
            posteriors={"linear": linear},
        )
    )
