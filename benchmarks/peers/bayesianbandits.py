"""bayesianbandits: Thompson sampling over one `NormalRegressor`, or Dirichlet, an arm.

No model here has an intercept or scales its features. `NormalRegressor(alpha, beta)`: prior
θ ~ N(0, I/α), noise variance 1/β; posterior precision αI + βXᵀX. `NormalInverseGammaRegressor(mu,
lam, a, b)`: θ | σ² ~ N(μ, σ²Λ⁻¹), σ² ~ InvGamma(a, b); `cov_inv_` is Λ + XᵀX, without σ².
`BayesianGLM(alpha, link="logit")`: prior N(0, I/α); the Laplace mean is where damped Newton steps
of all rows at once end, and the precision αI + XᵀWX is taken one (here vanishing) step before.
Matrices are stored by their upper triangle. `DirichletClassifier` with classes 0 and 1 is a Beta.

In one call `ThompsonSampling` shares one draw of an arm's weights among all contexts (its draws are
JOINT); only over calls do contexts have draws of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from bayesianbandits import (
    Agent,
    Arm,
    BayesianGLM,
    ContextualAgent,
    DirichletClassifier,
    LaplaceApproximator,
    NormalInverseGammaRegressor,
    NormalRegressor,
    ThompsonSampling,
)

from benchmarks.peers.tasks import N_ARMS, Array, Peer, main


class Flat:
    """Beta-Thompson as a two-class Dirichlet."""

    def __init__(self, arms: int = N_ARMS, a: float = 1.0, b: float = 1.0) -> None:
        self.agent = Agent(
            [
                Arm(k, reward_function=_success, learner=DirichletClassifier({0: b, 1: a}))
                for k in range(arms)
            ],
            ThompsonSampling(),
            random_seed=1,
        )

    def decide(self) -> int:
        """Return an arm."""
        return int(self.agent.pull()[0])

    def update(self, arm: int, y: float) -> None:
        """Learn one reward."""
        self.agent.select_for_update(arm).update(np.array([int(y)]))


def _success(probabilities: Array) -> Array:
    return probabilities[..., 1]


class LinTS:
    """Thompson sampling over Gaussian linear models."""

    def __init__(self) -> None:
        arms = [Arm(k, learner=NormalRegressor(alpha=1.0, beta=1.0)) for k in range(N_ARMS)]
        self.agent = ContextualAgent(arms, ThompsonSampling(), random_seed=1)

    def fit(self, arm: Array, x: Array, y: Array) -> None:
        """Learn rows at once, arm by arm."""
        for k in range(N_ARMS):
            own = arm == k
            self.agent.select_for_update(k).update(x[own], y[own])

    def decide(self, x: Array) -> int:
        """Return an arm for one context."""
        return int(self.agent.pull(x[None])[0])

    def update(self, arm: int, x: Array, y: float) -> None:
        """Learn one reward."""
        self.agent.select_for_update(arm).update(x[None], np.array([y]))

    def decide_many(self, x: Array) -> Array:
        """Return the arms of many contexts."""
        return np.asarray(self.agent.pull(x))


def _fitted(make: Any, arm: Array, x: Array, y: Array, arms: int) -> list[Any]:
    return [make().fit(x[arm == k], y[arm == k]) for k in range(arms)]


def _gaussian(fits: list[Any]) -> dict[str, Any]:
    upper = [np.triu(fit.cov_inv_) for fit in fits]
    return {
        "mean": [fit.coef_ for fit in fits],
        "precision": [u + np.triu(u, 1).T for u in upper],
    }


def linear(arm: Array, x: Array, y: Array, prior: dict[str, Any]) -> Any:
    """Return mean (K, d) and precision (K, d, d)."""
    alpha, beta = prior["precision"], prior["noise"] ** -2.0
    return _gaussian(_fitted(lambda: NormalRegressor(alpha, beta), arm, x, y, prior["arms"]))


def nig(arm: Array, x: Array, y: Array, prior: dict[str, Any]) -> Any:
    """Return mean (K, d), precision without σ² (K, d, d), and the shape and rate of σ² (K,)."""
    settings = {"lam": prior["precision"], "a": prior["a"], "b": prior["b"]}
    fits = _fitted(lambda: NormalInverseGammaRegressor(**settings), arm, x, y, prior["arms"])
    return {**_gaussian(fits), "a": [fit.a_ for fit in fits], "b": [fit.b_ for fit in fits]}


def logistic(arm: Array, x: Array, y: Array, prior: dict[str, Any]) -> Any:
    """Return the Laplace mean (K, d) and precision (K, d, d) of all rows at once."""
    laplace = LaplaceApproximator(n_iter=100, tol=1e-11)
    return _gaussian(
        _fitted(
            lambda: BayesianGLM(prior["precision"], link="logit", approximator=laplace),
            arm,
            x,
            y,
            prior["arms"],
        )
    )


def beta(arm: Array, _: Array, y: Array, prior: dict[str, Any]) -> Any:
    """Return counts (K, 2) of successes and failures, prior included."""
    flat = Flat(prior["arms"], prior["a"], prior["b"])
    for k in range(prior["arms"]):
        flat.agent.select_for_update(k).update(y[arm == k].astype(int))
    learners = [a.learner for a in flat.agent.arms]
    return {"counts": [learner.known_alphas_[1.0][::-1] for learner in learners]}


if __name__ == "__main__":
    main(
        Peer(
            "bayesianbandits",
            Flat,
            LinTS,
            "ThompsonSampling over NormalRegressor",
            posteriors={"linear": linear, "beta": beta, "nig": nig, "logistic": logistic},
        )
    )
