"""A bandit to copy: ε-greedy on independent arms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array, scatter_add
from gdcb.bandits.base import check_factor, require_same_shape, take_arm
from gdcb.parts import check_number
from gdcb.records import Evidence, Located, Setting
from gdcb.streams import Stream


# The state is a plain record of arrays. Every leading axis is the cells', so that a refold can
# write rows of it; a field of another axis says so: field(metadata={"axis": "pool"}) for one row a
# group, "constant" for what never changes. It is a dataclass of its own, not attributes of the
# bandit: a thousand replicates are then one array program, and a state is saved as bytes.
@dataclass(slots=True)
class GreedyState:
    """What every arm of every cell was worth so far.

    Parameters
    ----------
    weight, total : (cells, K) Σ w·s² and Σ w·s·r of the credited rows
    """

    weight: Array
    total: Array


# The docstring below is the part's page: summary, formula, parameters, 'Assumes', 'Stops
# applying', an example that can be followed by hand.
@dataclass(frozen=True)
class EpsilonGreedy:
    """Take the arm with the best average, or with probability ε any arm.

    The average of an arm is Σ w·s·r / Σ w·s² over its rows, with `rows` rows of worth `start` in
    front. With probability ε a row's values are drawn from the unit interval instead, the same
    law for every arm, so that every arm may be best.

    Parameters
    ----------
    epsilon : ε, how often a row explores
    start : what an arm is worth before data
    rows : how many rows that is worth

    Notes
    -----
    Assumes: an arm's worth is the same in all contexts, and does not drift.

    Stops applying: it explores for ever, and as often among arms that are surely bad, so that
    regret grows linearly. What a gate mixes is then valued by noise in the exploring rows.

    Examples
    --------
    One row of worth 0 in front and one reward of 3: the average is 3/2.

    >>> from gdcb.arms import ArmList
    >>> bandit, arms = EpsilonGreedy(), ArmList(names=("a", "b")).build()
    >>> state, zero = bandit.init(np.zeros(1, dtype=int), arms), np.zeros(1, dtype=int)
    >>> seen = Evidence(zero, zero, np.zeros((1, 1)), np.array([3.0]), None, np.ones(1))
    >>> bandit.update(state, seen)
    >>> bandit.mean(state, Setting(zero), arms.nominal).tolist()
    [[1.5, 0.0]]
    """

    epsilon: float = 0.1
    start: float = 0.0
    rows: float = 1.0
    # What a round must know of it. 'any': classes in [0, 1] and rewards alike.
    target: ClassVar[str] = "any"
    is_curve: ClassVar[bool] = False
    # Out of "x" and "delta". A warm start takes what context explains off the outcomes of learners
    # that read neither; what a learner reads must be left in.
    reads: ClassVar[frozenset[str]] = frozenset()
    supports: ClassVar[frozenset[str]] = frozenset({"decay", "merge"})

    # Settings are checked once, here: what was built works.
    def __post_init__(self) -> None:
        check_number("bandit.epsilon", self.epsilon, 0.0, 1.0)
        check_number("bandit.start", self.start)
        check_number("bandit.rows", self.rows, 0.0, open_low=True)

    def init(self, group: Array, arms: Arms) -> GreedyState:
        """Return no rows in every cell."""
        shape = (group.shape[0], arms.n)
        return GreedyState(np.zeros(shape), np.zeros(shape))

    # A draw is a value function: whatever `value` needs to judge any action, the rows first.
    # Random numbers are drawn for every row, used or not: a row's draw then never hangs on what
    # its neighbours do.
    def draw(self, rng: Stream, state: GreedyState, at: Setting) -> Array:
        """Return the averages of each row's cell, or random numbers where it explores: (N, K)."""
        average = self._average(state, at.cell)
        number = rng.uniform(at.cell.shape[0], average.shape[1] + 1)
        return np.where(number[:, :1] < self.epsilon, number[:, 1:], average)

    # Gates move actions off the arms; independent arms know only the nearest one.
    def value(self, draw: Array, located: Located) -> Array:
        """Read the drawn values at located actions: (N, M)."""
        return take_arm(draw, located, self.start)

    def mean(self, state: GreedyState, at: Setting, located: Located) -> Array:
        """Return the averages at located actions: (N, M)."""
        return self.value(self._average(state, at.cell), located)

    # Cells repeat within a batch, so rows are added by `scatter_add`: `state.total[cell] += …`
    # would lose all but one of them. Nothing is written before everything is known to be good;
    # here nothing can be refused, because the round has checked outcome, weight and scale.
    def update(self, state: GreedyState, evidence: Evidence) -> None:
        """Add the rows to their arms; a row of no arm (−1) or of weight 0 teaches nothing."""
        known = (evidence.arm >= 0) & (evidence.weight > 0)
        n_arms = state.weight.shape[1]
        flat = (evidence.cell * n_arms + evidence.arm)[known]
        scale = 1.0 if evidence.scale is None else evidence.scale[known]
        weight = evidence.weight[known] * scale
        scatter_add(state.weight.reshape(-1), flat, weight * scale)
        scatter_add(state.total.reshape(-1), flat, weight * evidence.y[known])

    # Sums decay and merge; declare what you offer in `supports`.
    def decay(self, state: GreedyState, factor: float, cell: Array) -> None:
        """Keep `factor` of the rows in some cells."""
        check_factor(factor)
        state.weight[cell] *= factor
        state.total[cell] *= factor

    def merge(self, state: GreedyState, other: GreedyState) -> None:
        """Add another state's rows."""
        require_same_shape(state.weight, other.weight)
        state.weight += other.weight
        state.total += other.total

    def _average(self, state: GreedyState, cell: Array) -> Array:
        total = self.rows * self.start + state.total[cell]
        return np.asarray(total / (self.rows + state.weight[cell]))
