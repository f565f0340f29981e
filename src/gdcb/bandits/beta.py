"""Beta-Thompson: independent arms, a Beta posterior each."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array, rows_at, scatter_add
from gdcb.bandits.base import (
    check_factor,
    credited,
    require_same_shape,
    require_unscaled,
    take_arm,
)
from gdcb.bandits.marginals import Marginals
from gdcb.bandits.predictive import log_bernoulli
from gdcb.bandits.priors import (
    NUMBERS,
    Numbers,
    check_numbers,
    in_every,
    pooled_rate,
    pseudo_counts,
)
from gdcb.parts import take_lists
from gdcb.records import Evidence, Located, Setting
from gdcb.streams import Stream


@dataclass(slots=True)
class BetaState:
    """Pseudo-counts (cells, 2, K): α of every arm, then β."""

    counts: Array


@dataclass(frozen=True)
class BetaThompson:
    """Thompson sampling with independent Beta(α, β) arms for outcomes in [0, 1].

    P(y = 1 | a) ~ Beta(α_a, β_a), and a row of weight w adds α += w·y, β += w·(1 − y) to the arm it
    is credited to. Exact for binary outcomes; for outcomes inside (0, 1) it is a
    pseudo-likelihood whose mean is right and whose spread is not narrower than the truth. Rows
    credited to no arm teach nothing.

    Parameters
    ----------
    wins, losses : the prior's α and β, pseudo-outcomes that every arm starts with: one number for
        all, or K, one an arm. An action that is comparable to no arm is worth the rate of all
        of them together

    Notes
    -----
    Assumes: within a cell an arm's outcomes are exchangeable (context has been scaled away), arms
    tell nothing about each other, and units tell nothing about each other.

    Stops applying: where arms have a metric it learns each by itself and a curve learns from all.
    An action that a gate moved between two arms is worth what the nearest is. Where the
    probability drifts, old evidence weighs like new unless it is decayed. It refuses a reward
    scale and rewards outside [0, 1].

    Examples
    --------
    Prior Beta(1, 1); two bookings and one miss: Beta(3, 2), mean 3/5.

    >>> import numpy as np
    >>> from gdcb.arms import ArmList
    >>> bandit, arms = BetaThompson(), ArmList(names=("a", "b")).build()
    >>> state = bandit.init(np.zeros(1, dtype=int), arms)
    >>> three, one = np.zeros(3, dtype=int), np.ones(3)
    >>> y = np.array([1.0, 1.0, 0.0])
    >>> bandit.update(state, Evidence(three, three, np.zeros((3, 1)), y, None, one))
    >>> bandit.mean(state, Setting(np.zeros(1, dtype=int)), arms.nominal).tolist()
    [[0.6, 0.5]]
    """

    wins: Numbers = field(default=1.0, metadata=NUMBERS)
    losses: Numbers = field(default=1.0, metadata=NUMBERS)
    target: ClassVar[str] = "class"
    is_curve: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset()
    supports: ClassVar[frozenset[str]] = frozenset({"decay", "marginals", "merge", "predictive"})
    likelihood: ClassVar[str] = "bernoulli"
    on_device: ClassVar[bool] = True

    def __post_init__(self) -> None:
        take_lists(self)
        check_numbers("bandit.wins", self.wins, 0.05)
        check_numbers("bandit.losses", self.losses, 0.05)

    def init(self, group: Array, arms: Arms) -> BetaState:
        """Return the prior in every cell."""
        return BetaState(in_every(self._prior(arms.n), group.shape[0], group))

    def _prior(self, n_arms: int) -> Array:
        return pseudo_counts(self.wins, self.losses, n_arms, "an arm")

    @cached_property
    def _unknown(self) -> float:
        return pooled_rate(self.wins, self.losses)

    def draw(self, rng: Stream, state: BetaState, at: Setting) -> Array:
        """Sample the success probability of every arm: (N, K)."""
        return rng.beta(rows_at(state.counts, at.cell))

    def value(self, draw: Array, located: Located) -> Array:
        """Read the drawn probabilities at located actions."""
        return take_arm(draw, located, self._unknown)

    def mean(self, state: BetaState, at: Setting, located: Located) -> Array:
        """Posterior mean α / (α + β)."""
        counts = state.counts[at.cell]
        return self.value(counts[:, 0] / (counts[:, 0] + counts[:, 1]), located)

    def predictive(self, state: BetaState, evidence: Evidence) -> Array:
        """Return the log probability of each outcome before it is learned; NaN off the arms."""
        require_unscaled(evidence, "Beta-Thompson")
        counts = state.counts[evidence.cell, :, np.maximum(evidence.arm, 0)]
        p = counts / counts.sum(axis=1, keepdims=True)
        found = log_bernoulli(evidence.y, p[:, 0], p[:, 1])
        return np.where(evidence.arm >= 0, found, np.nan)

    def update(self, state: BetaState, evidence: Evidence) -> None:
        """Add weighted counts to the credited arms."""
        require_unscaled(evidence, "Beta-Thompson")
        known, n_arms = credited(evidence), state.counts.shape[2]
        flat = known.cell * (2 * n_arms) + known.arm
        won = known.weight * known.y
        scatter_add(state.counts.reshape(-1), flat, won)
        scatter_add(state.counts.reshape(-1), flat + n_arms, known.weight - won)

    def decay(self, state: BetaState, factor: float, cell: Array) -> None:
        """Keep `factor` of the evidence in some cells; the prior stays."""
        prior = self._prior(state.counts.shape[2])
        state.counts[cell] = prior + check_factor(factor) * (state.counts[cell] - prior)

    def merge(self, state: BetaState, other: BetaState) -> None:
        """Add another state's evidence; its prior is counted once."""
        require_same_shape(state.counts, other.counts)
        state.counts += other.counts - self._prior(state.counts.shape[2])

    def marginals(self, state: BetaState, at: Setting) -> Marginals:
        """Return every arm's Beta(α, β)."""
        counts = state.counts[at.cell]
        return Marginals("beta", (counts[:, 0], counts[:, 1]))
