"""Hierarchical Thompson within a group (Hong et al. 2022, Gaussian arms)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array, distinct, full, namespace, rows_at, scatter_add, zeros
from gdcb.bandits.base import check_factor, credited, require_same_shape, take_arm
from gdcb.bandits.gaussian import require_finite
from gdcb.bandits.marginals import Marginals
from gdcb.bandits.priors import NUMBERS, Numbers, average, check_numbers, in_every, spread
from gdcb.errors import InvalidInput
from gdcb.parts import check_number, take_lists
from gdcb.records import Evidence, Located, Setting
from gdcb.streams import Stream


@dataclass(slots=True)
class HierarchicalState:
    """Sums of every cell, and the hyper-posterior of every group kept beside them.

    Parameters
    ----------
    group : (cells,) the group of each cell
    weight, total : (cells, K) Σ w·s² and Σ w·s·r of the credited rows
    hyper_precision, hyper_shift : (groups, K) natural parameters of μ's posterior
    """

    group: Array
    weight: Array
    total: Array
    hyper_precision: Array = field(metadata={"axis": "pool"})
    hyper_shift: Array = field(metadata={"axis": "pool"})


@dataclass(frozen=True)
class HierarchicalThompson:
    """Units of a group share, for each arm, a normal prior whose mean is learned.

    μ ~ N(mean, sd²) a group and arm; θ ~ N(μ, between²) a unit and arm; r = s·θ + N(0, noise²).
    All variances are declared. With n = Σ w·s² and S = Σ w·s·r, a unit tells its group
    precision n / (n·between² + noise²) and shift S / (n·between² + noise²); the draw of θ is
    from its exact marginal posterior, hyper-uncertainty included. With one unit a group it is
    Gaussian Thompson sampling under the prior N(mean, sd² + between²).

    Parameters
    ----------
    prior_mean : mean of μ, one number or K, one an arm; their average is also the value of an
        action that is comparable to no arm
    sd : standard deviation of μ
    between : how far the units of a group lie apart, as a standard deviation
    noise : standard deviation of a reward around s·θ

    Notes
    -----
    Assumes: units of a group are alike but for chance (exchangeable); rewards are normal with the
    declared spreads, at every scale s and at all times; arms are independent of each other.

    Stops applying: spreads are declared and not learned. A `between` that is too small pulls units
    towards their group more than their rows warrant, one that is too large wastes the group; a
    wrong `noise` makes draws too wide or too narrow for ever. For 0/1 outcomes
    `HierarchicalBetaThompson` learns how far units lie apart.

    Examples
    --------
    One unit saw r = 2 once; between = noise = sd = 1. It tells precision 1/2 and shift 1, so
    μ ~ N(1/(3/2), 1/(3/2)); a unit without data then expects 2/3, and the first one
    ½·2/3 + ½·2 = 4/3.

    >>> import numpy as np
    >>> from gdcb.arms import ArmList
    >>> bandit, arms = HierarchicalThompson(), ArmList(names=("a",)).build()
    >>> state = bandit.init(np.zeros(2, dtype=int), arms)
    >>> zero = np.zeros(1, dtype=int)
    >>> bandit.update(
    ...     state, Evidence(zero, zero, np.zeros((1, 1)), np.array([2.0]), None, np.ones(1))
    ... )
    >>> bandit.mean(state, Setting(np.arange(2)), arms.nominal).ravel().round(6).tolist()
    [1.333333, 0.666667]
    """

    prior_mean: Numbers = field(default=0.0, metadata=NUMBERS)
    sd: float = 1.0
    between: float = 1.0
    noise: float = 1.0
    target: ClassVar[str] = "any"
    is_curve: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset()
    supports: ClassVar[frozenset[str]] = frozenset({"decay", "marginals", "merge"})
    on_device: ClassVar[bool] = True

    def __post_init__(self) -> None:
        take_lists(self)
        check_numbers("bandit.prior_mean", self.prior_mean)
        for name in ("sd", "between", "noise"):
            check_number(f"bandit.{name}", getattr(self, name), 0.0, open_low=True)

    def init(self, group: Array, arms: Arms) -> HierarchicalState:
        """Return the prior: no sums, and the hyper-prior in every group."""
        cells = (group.shape[0], arms.n)
        groups = (int(group.max()) + 1, arms.n)
        precision, shift = self.sd**-2, self._shift(arms.n)
        return HierarchicalState(
            group,
            zeros(cells, group),
            zeros(cells, group),
            full(groups, precision, group),
            in_every(shift, groups[0], group),
        )

    def _shift(self, n_arms: int) -> Array:
        """Return the hyper-prior's precision times its mean, of every arm: (K,)."""
        return self.sd**-2 * spread("bandit.prior_mean", self.prior_mean, n_arms, "an arm")

    @cached_property
    def _unknown(self) -> float:
        return average(self.prior_mean)

    def draw(self, rng: Stream, state: HierarchicalState, at: Setting) -> Array:
        """Sample every arm's value from its marginal posterior: (N, K)."""
        mean, variance = self._posterior(state, at.cell)
        noise = rng.normal(*mean.shape)
        noise *= namespace(variance).sqrt(variance)
        noise += mean
        return noise

    def value(self, draw: Array, located: Located) -> Array:
        """Read the drawn values at located actions."""
        return take_arm(draw, located, self._unknown)

    def mean(self, state: HierarchicalState, at: Setting, located: Located) -> Array:
        """Posterior mean of θ, hyper-posterior integrated out."""
        return self.value(self._posterior(state, at.cell)[0], located)

    def update(self, state: HierarchicalState, evidence: Evidence) -> None:
        """Add the rows' sums and carry each touched cell's change into its group."""
        require_finite(evidence, "Hierarchical Thompson")
        known, n_arms = credited(evidence), state.weight.shape[1]
        scale = 1.0 if known.scale is None else known.scale
        weight = known.weight * scale
        flat = known.cell * n_arms + known.arm
        once = distinct(flat)
        touched, which = once // n_arms, once % n_arms
        before = self._message(state, touched, which)
        scatter_add(state.weight.reshape(-1), flat, weight * scale)
        scatter_add(state.total.reshape(-1), flat, weight * known.y)
        after = self._message(state, touched, which)
        hyper = state.group[touched] * n_arms + which
        scatter_add(state.hyper_precision.reshape(-1), hyper, after[0] - before[0], shared=True)
        scatter_add(state.hyper_shift.reshape(-1), hyper, after[1] - before[1], shared=True)

    def decay(self, state: HierarchicalState, factor: float, cell: Array) -> None:
        """Keep `factor` of the evidence in some cells, and tell their groups."""
        check_factor(factor)
        state.weight[cell] *= factor
        state.total[cell] *= factor
        self._gather(state, np.unique(state.group[cell]))

    def merge(self, state: HierarchicalState, other: HierarchicalState) -> None:
        """Add another state's sums, and tell the groups."""
        require_same_shape(state.weight, other.weight)
        if not np.array_equal(state.group, other.group):
            raise InvalidInput("merge: expected a state of the same groups")
        state.weight += other.weight
        state.total += other.total
        self._gather(state, np.unique(state.group))

    def marginals(self, state: HierarchicalState, at: Setting) -> Marginals:
        """Return every arm's normal law, hyper-posterior integrated out."""
        mean, variance = self._posterior(state, at.cell)
        return Marginals("normal", (mean, np.sqrt(variance)))

    def _gather(self, state: HierarchicalState, groups: Array) -> None:
        """Sum what their cells tell some groups afresh; the others keep their bits."""
        cell = np.flatnonzero(np.isin(state.group, groups))
        weight, total, group = state.weight[cell], state.total[cell], state.group[cell]
        spread = weight * self.between**2 + self.noise**2
        state.hyper_precision[groups] = self.sd**-2
        state.hyper_shift[groups] = self._shift(state.weight.shape[1])
        scatter_add(state.hyper_precision, group, weight / spread)
        scatter_add(state.hyper_shift, group, total / spread)

    def _message(self, state: HierarchicalState, cell: Array, arm: Array) -> tuple[Array, Array]:
        n, total = state.weight[cell, arm], state.total[cell, arm]
        spread = n * self.between**2 + self.noise**2
        return n / spread, total / spread

    def _posterior(self, state: HierarchicalState, cell: Array) -> tuple[Array, Array]:
        group = rows_at(state.group, cell)
        hyper_variance = 1.0 / rows_at(state.hyper_precision, group)
        hyper_mean = rows_at(state.hyper_shift, group) * hyper_variance
        prior, noise = self.between**-2, self.noise**-2
        variance = 1.0 / (prior + noise * rows_at(state.weight, cell))
        mean = variance * (prior * hyper_mean + noise * rows_at(state.total, cell))
        return mean, variance + (variance * prior) ** 2 * hyper_variance
