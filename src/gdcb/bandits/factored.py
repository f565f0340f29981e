"""Factored Thompson: a Beta posterior a level of each factor, and their product an arm."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array, scatter_add
from gdcb.bandits.base import check_factor, require_same_shape, require_unscaled, take_arm
from gdcb.bandits.priors import (
    NUMBERS,
    Numbers,
    average,
    check_numbers,
    pooled_rate,
    pseudo_counts,
)
from gdcb.errors import InvalidInput
from gdcb.parts import take_lists
from gdcb.records import Evidence, Located, Setting
from gdcb.streams import Stream


@dataclass(slots=True)
class FactoredState:
    """Pseudo-counts of the levels of every factor, and of all rows together.

    Parameters
    ----------
    place : (K, F) where the arm's level of each factor stands among all L levels
    counts : (cells, 2, L) α of every level of every factor, then β
    overall : (cells, 2) α and β of all credited rows
    """

    place: Array = field(metadata={"axis": "constant"})
    counts: Array
    overall: Array


@dataclass(frozen=True)
class FactoredThompson:
    """Thompson sampling over a grid of factors, which learns levels and not arms.

    Every level l of every factor f has a Beta posterior θ_fl of the outcomes of all rows whose
    arm had this level; a row teaches one level of every factor. With θ̄ the posterior mean of all
    rows together, an arm (l₁, …, l_F) is worth v = Π_f θ_f,l_f / θ̄^(F−1). So 5 × 5 arms are
    learned as 10 levels. A draw is v itself, above 1 too: cut off there, most arms of a young
    learner would be equals and the first of them be proposed. `mean` is the product of the
    levels' means, cut off at 1. With one factor it is Beta-Thompson.

    Parameters
    ----------
    wins, losses : prior pseudo-counts α, β of every level and of all rows together: one number, or
        one a level, those of the first factor, then of the second, and so on. All rows together
        then have their average

    Notes
    -----
    Assumes: an arm's success probability is a product c·Π_f g_f(l_f), and the levels of a factor
    are tried beside like levels of the others. Then a level's rate is c·g_f(l)·Π_{h≠f} ḡ_h with
    ḡ_h the factor's average over the rows, all rows together have c·Π_h ḡ_h, and the formula
    gives c·Π_f g_f(l_f) back. Drawn levels are independent of each other given the past, which
    keeps them alike as long as gates and payoffs prefer no combination.

    Stops applying: where factors interact, v is the best product of margins and may rank arms
    wrongly however many rows there are: of two factors that succeed only when they agree, every
    level looks alike. Where one level was tried mostly beside bad levels of another factor its
    rate is too low by that factor's average there. Levels are drawn as if they had seen different
    rows, and θ̄ is taken as known: draws are a little too wide where factors are tried
    independently, and too narrow where two levels always go together. A draw above 1 ranks arms
    and is no probability: beside the null action's worth, or averaged by a gate, it is too
    large. With two factors and nothing seen, 15 draws in 100 are above 1. A learner of the arms
    (`BetaThompson`) or of a curve over their coordinates has none of these faults.

    Examples
    --------
    Factors A and B with two levels, prior Beta(1, 1). The arm (A₀, B₀) won twice and (A₁, B₀)
    lost twice: A₀ has Beta(3, 1), A₁ Beta(1, 3), B₀ Beta(3, 3), B₁ Beta(1, 1), all rows
    Beta(3, 3), θ̄ = ½. (A₀, B₁) was never tried and expects ¾·½/½ = ¾.

    >>> import numpy as np
    >>> from gdcb.arms import Grid
    >>> arms = Grid({"A": (0.0, 1.0), "B": (0.0, 1.0)}).build()
    >>> bandit, zero = FactoredThompson(), np.zeros(4, dtype=int)
    >>> state = bandit.init(zero[:1], arms)
    >>> arm, y = np.array([0, 0, 2, 2]), np.array([1.0, 1.0, 0.0, 0.0])
    >>> bandit.update(state, Evidence(zero, arm, arms.coords[arm], y, None, np.ones(4)))
    >>> bandit.mean(state, Setting(zero[:1]), arms.nominal).tolist()
    [[0.75, 0.75, 0.25, 0.25]]
    """

    wins: Numbers = field(default=1.0, metadata=NUMBERS)
    losses: Numbers = field(default=1.0, metadata=NUMBERS)
    target: ClassVar[str] = "class"
    is_curve: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset()
    supports: ClassVar[frozenset[str]] = frozenset({"decay", "merge"})

    def __post_init__(self) -> None:
        take_lists(self)
        check_numbers("bandit.wins", self.wins, 0.05)
        check_numbers("bandit.losses", self.losses, 0.05)

    def init(self, group: Array, arms: Arms) -> FactoredState:
        """Return the prior of every level in every cell."""
        sizes = arms.levels.max(axis=0) + 1
        place = arms.levels + np.concatenate(([0], np.cumsum(sizes)[:-1]))
        levels, overall = self._prior(int(sizes.sum()))
        cells = group.shape[0]
        return FactoredState(place, np.tile(levels, (cells, 1, 1)), np.tile(overall, (cells, 1)))

    def _prior(self, n_levels: int) -> tuple[Array, Array]:
        """Return α and β beforehand, of every level (2, L) and of all rows together (2,)."""
        levels = pseudo_counts(self.wins, self.losses, n_levels, "a level of each factor in turn")
        return levels, np.array([average(self.wins), average(self.losses)])

    @cached_property
    def _unknown(self) -> float:
        return pooled_rate(self.wins, self.losses)

    def draw(self, rng: Stream, state: FactoredState, at: Setting) -> Array:
        """Sample every level and multiply: (N, K), which may exceed 1."""
        levels = rng.beta(state.counts.take(at.cell, axis=0))
        return self._worth(state, levels, state.overall.take(at.cell, axis=0))

    def value(self, draw: Array, located: Located) -> Array:
        """Read the drawn products at located actions."""
        return take_arm(draw, located, self._unknown)

    def mean(self, state: FactoredState, at: Setting, located: Located) -> Array:
        """Multiply the posterior means of the levels, up to 1."""
        counts = state.counts[at.cell]
        levels = counts[:, 0] / (counts[:, 0] + counts[:, 1])
        worth = self._worth(state, levels, state.overall[at.cell])
        return self.value(np.minimum(worth, 1.0), located)

    def update(self, state: FactoredState, evidence: Evidence) -> None:
        """Add weighted counts to the credited arm's level of every factor."""
        require_unscaled(evidence, "Factored Thompson")
        known = (evidence.arm >= 0) & (evidence.weight > 0)
        cell, weight = evidence.cell[known], evidence.weight[known]
        won = weight * evidence.y[known]
        n_levels = state.counts.shape[2]
        for place in state.place[evidence.arm[known]].T:
            flat = cell * 2 * n_levels + place
            scatter_add(state.counts.reshape(-1), flat, won)
            scatter_add(state.counts.reshape(-1), flat + n_levels, weight - won)
        scatter_add(state.overall.reshape(-1), cell * 2, won)
        scatter_add(state.overall.reshape(-1), cell * 2 + 1, weight - won)

    def decay(self, state: FactoredState, factor: float, cell: Array) -> None:
        """Keep `factor` of the evidence in some cells; the prior stays."""
        check_factor(factor)
        levels, overall = self._prior(state.counts.shape[2])
        state.counts[cell] = levels + factor * (state.counts[cell] - levels)
        state.overall[cell] = overall + factor * (state.overall[cell] - overall)

    def merge(self, state: FactoredState, other: FactoredState) -> None:
        """Add another state's evidence; its prior is counted once, and must be the same.

        A state knows its levels and not its prior: both must come of the same settings.
        """
        require_same_shape(state.counts, other.counts)
        if not np.array_equal(state.place, other.place):
            raise InvalidInput("merge: expected a state of the same factors and levels")
        levels, overall = self._prior(state.counts.shape[2])
        state.counts += other.counts - levels
        state.overall += other.overall - overall

    def _worth(self, state: FactoredState, levels: Array, overall: Array) -> Array:
        """Multiply levels (N, L) into arms (N, K), relative to all rows together."""
        usual = (overall[:, 0] / (overall[:, 0] + overall[:, 1]))[:, None]
        first, *others = state.place.T
        worth = levels[:, first]
        for place in others:
            worth *= levels[:, place] / usual
        return worth
