"""obp: `BernoulliTS` and `LinTS`, learned one row at a time.

`LinTS` has prior θ ~ N(0, I) and noise variance 1, both fixed, no intercept: A⁻¹ by Woodbury's
formula, θ̂ = A⁻¹b, and a draw from N(θ̂, A⁻¹) for every arm. `BernoulliTS` draws from
Beta(alpha + successes, beta + failures).

obp imports torch for its neural policy learners alone; empty modules stand in for it here.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np

from benchmarks.peers.tasks import N_ARMS, N_FEATURES, Array, Missing, Peer, main


class _NoTorch(types.ModuleType):
    """Answer any name with a module of the same kind, or with an empty class."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        inner = sys.modules.get(f"{self.__name__}.{name}")
        return inner if inner is not None else type(name, (), {})


_STAND_INS = [
    "torch",
    "torch.nn",
    "torch.nn.functional",
    "torch.optim",
    "torch.utils",
    "torch.utils.data",
]
sys.modules.update({name: _NoTorch(name) for name in _STAND_INS})
from obp.policy import BernoulliTS  # noqa: E402
from obp.policy import LinTS as Policy  # noqa: E402

# SciPy looks for torch among the modules whenever it sees an array.
for _name in _STAND_INS:
    del sys.modules[_name]


class Flat:
    """Beta-Thompson."""

    def __init__(self, arms: int = N_ARMS, a: float = 1.0, b: float = 1.0) -> None:
        self.policy = BernoulliTS(
            n_actions=arms, alpha=np.full(arms, a), beta=np.full(arms, b), random_state=1
        )

    def decide(self) -> int:
        """Return an arm."""
        return int(self.policy.select_action()[0])

    def update(self, arm: int, y: float) -> None:
        """Learn one reward."""
        self.policy.update_params(arm, y)


class LinTS:
    """Linear Thompson sampling."""

    def __init__(self, arms: int = N_ARMS, d: int = N_FEATURES) -> None:
        self.policy = Policy(dim=d, n_actions=arms, random_state=1)

    def fit(self, arm: Array, x: Array, y: Array) -> None:
        """Learn rows one by one."""
        for i, k in enumerate(arm.tolist()):
            self.policy.update_params(k, y[i], x[i : i + 1])

    def decide(self, x: Array) -> int:
        """Return an arm for one context."""
        return int(self.policy.select_action(x[None])[0])

    def update(self, arm: int, x: Array, y: float) -> None:
        """Learn one reward."""
        self.policy.update_params(arm, y, x[None])

    def decide_many(self, x: Array) -> Array:
        """Obp decides one context a call."""
        raise NotImplementedError


def linear(arm: Array, x: Array, y: Array, prior: dict[str, Any]) -> Any:
    """Return mean (K, d) and covariance (K, d, d)."""
    if (prior["precision"], prior["noise"]) != (1.0, 1.0):
        raise Missing("obp's prior precision and noise are 1")
    model = LinTS(prior["arms"], x.shape[1])
    model.fit(arm, x, y)
    a_inv, b = model.policy.A_inv, model.policy.b
    return {"mean": [a_inv[k] @ b[:, k] for k in range(prior["arms"])], "covariance": a_inv}


def beta(arm: Array, _: Array, y: Array, prior: dict[str, Any]) -> Any:
    """Return counts (K, 2) of successes and failures, prior included."""
    flat = Flat(prior["arms"], prior["a"], prior["b"])
    for k, reward in zip(arm.tolist(), y.tolist(), strict=True):
        flat.update(k, reward)
    policy = flat.policy
    failures = policy.action_counts - policy.reward_counts
    return {"counts": np.stack((policy.alpha + policy.reward_counts, policy.beta + failures), 1)}


if __name__ == "__main__":
    main(
        Peer(
            "obp",
            Flat,
            LinTS,
            "LinTS",
            batch="obp decides one context a call",
            history_rows=50_000,
            posteriors={"linear": linear, "beta": beta},
        )
    )
