"""Vowpal Wabbit: `--cb_explore 25 --bag 5`, the nearest it has to Thompson sampling.

Five online bootstrap replicates of a linear model (doubly robust, adaptive gradient steps, an
intercept) vote; the decision is drawn from their votes. There is no posterior, no bandit without
context, and no call that takes many rows: rows are written as text, and that is timed too.
"""

from __future__ import annotations

import random

from vowpalwabbit import Workspace

from benchmarks.peers.tasks import N_ARMS, Array, Peer, main


class Bag:
    """Bootstrapped linear models."""

    def __init__(self) -> None:
        self.vw = Workspace(f"--cb_explore {N_ARMS} --bag 5 --quiet --random_seed 1")
        self.rng = random.Random(1)
        self.p = 1.0 / N_ARMS

    def fit(self, arm: Array, x: Array, y: Array) -> None:
        """Learn rows of uniform play one by one."""
        self.p = 1.0 / N_ARMS
        for k, row, reward in zip(arm.tolist(), x, y.tolist(), strict=True):
            self.update(k, row, reward)

    def decide(self, x: Array) -> int:
        """Return an arm for one context, and keep how probable it was."""
        votes = self.vw.predict(_text(x))
        arm = self.rng.choices(range(N_ARMS), votes)[0]
        self.p = votes[arm]
        return arm

    def update(self, arm: int, x: Array, y: float) -> None:
        """Learn one reward of the last decision."""
        self.vw.learn(f"{arm + 1}:{-y:.6g}:{self.p:.6g} {_text(x)}")

    def decide_many(self, x: Array) -> Array:
        """Vowpal Wabbit decides one context a call."""
        raise NotImplementedError


def _text(x: Array) -> str:
    # Names that are numbers would be taken for indices, and meet those of the other arms.
    return "| " + " ".join(f"f{i}:{v:.6g}" for i, v in enumerate(x.tolist()))


if __name__ == "__main__":
    main(
        Peer(
            "vowpalwabbit",
            "Vowpal Wabbit has no Beta-Thompson bandit",
            Bag,
            "--cb_explore 25 --bag 5; Vowpal Wabbit has no LinTS",
            is_lints=False,
            batch="Vowpal Wabbit decides one context a call",
            history_rows=50_000,
        )
    )
