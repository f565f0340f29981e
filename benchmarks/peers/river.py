"""river: `ThompsonSampling` over `proba.Beta`, and `LinUCBDisjoint`, the nearest it has to LinTS.

`BayesianLinearRegression(alpha, beta)` has prior θ ~ N(0, αI) and noise variance 1/β, no intercept
and no scaling: precision I/α + βXᵀX. That is exact after `learn_many`, which inverts it.
`learn_one` keeps an inverse that starts at I/α in the place of αI, and so is exact only where α = 1
(the case timed here). `LinUCBDisjoint` plays the largest mean + standard deviation of the
predictive, noise included; it draws nothing.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from river import bandit, linear_model, proba

from benchmarks.peers.tasks import N_ARMS, N_FEATURES, Array, Peer, main

ARMS = list(range(N_ARMS))
NAMES = list(range(N_FEATURES))


class Flat:
    """Beta-Thompson."""

    def __init__(self) -> None:
        self.policy = bandit.ThompsonSampling(reward_obj=proba.Beta(1, 1), seed=1)

    def decide(self) -> int:
        """Return an arm."""
        return int(self.policy.pull(ARMS))

    def update(self, arm: int, y: float) -> None:
        """Learn one reward."""
        self.policy.update(arm, y)


class LinUCB:
    """Disjoint LinUCB."""

    def __init__(self) -> None:
        self.policy = bandit.LinUCBDisjoint(alpha=1.0, beta=1.0, seed=1)

    def fit(self, arm: Array, x: Array, y: Array) -> None:
        """Learn rows at once, past the policy, which takes one row at a time."""
        for k in ARMS:
            own = arm == k
            frame = pd.DataFrame(x[own], columns=NAMES)
            self.policy._bayes_lin_regs[k].learn_many(frame, pd.Series(y[own]))

    def decide(self, x: Array) -> int:
        """Return an arm for one context."""
        return int(self.policy.pull(ARMS, context=dict(zip(NAMES, x.tolist(), strict=True))))

    def update(self, arm: int, x: Array, y: float) -> None:
        """Learn one reward."""
        self.policy.update(arm, dict(zip(NAMES, x.tolist(), strict=True)), y)

    def decide_many(self, x: Array) -> Array:
        """River decides one context a call."""
        raise NotImplementedError


def linear(arm: Array, x: Array, y: Array, prior: dict[str, Any]) -> Any:
    """Return mean (K, d), precision and covariance (K, d, d)."""
    answer: dict[str, list[Array]] = {"mean": [], "precision": [], "covariance": []}
    for k in range(prior["arms"]):
        model = linear_model.BayesianLinearRegression(
            1.0 / prior["precision"], prior["noise"] ** -2.0
        )
        own, d = arm == k, x.shape[1]
        model.learn_many(pd.DataFrame(x[own], columns=list(range(d))), pd.Series(y[own]))
        model._ensure_m()
        answer["mean"].append(model._m_arr[:d])
        answer["precision"].append(model._ss_arr[:d, :d])
        answer["covariance"].append(model._ss_inv_arr[:d, :d])
    return answer


def beta(arm: Array, _: Array, y: Array, prior: dict[str, Any]) -> Any:
    """Return counts (K, 2) of successes and failures, prior included."""
    counts = []
    for k in range(prior["arms"]):
        law = proba.Beta(prior["a"], prior["b"])
        for reward in y[arm == k].tolist():
            law.update(reward)
        counts.append((law.alpha, law.beta))
    return {"counts": counts}


if __name__ == "__main__":
    main(
        Peer(
            "river",
            Flat,
            LinUCB,
            "LinUCBDisjoint; river has no LinTS",
            is_lints=False,
            batch="river decides one context a call",
            posteriors={"linear": linear, "beta": beta},
        )
    )
