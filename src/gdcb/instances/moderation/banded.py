"""Hierarchical Thompson in bands of severity: each band has a prior of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array, scatter_add, zeros
from gdcb.bandits.base import take_arm
from gdcb.bandits.hierarchical import HierarchicalState, HierarchicalThompson
from gdcb.bandits.priors import average, check_list
from gdcb.errors import InvalidInput
from gdcb.records import Located


@dataclass(frozen=True)
class BandedThompson(HierarchicalThompson):
    """Units of a group share a normal prior in every band of δ, and bands start apart.

    As `HierarchicalThompson`, with μ ~ N(table[b][a], sd²) for arm a in band b: 'remove' is not
    worth the same beforehand where a post is harmless and where it is severe. A cell is (unit,
    band), so that what a unit tells its group stays within the band.

    Parameters
    ----------
    table : prior means, one tuple a band, each with one number an arm; as many bands as the
        instance's cells have
    sd, between, noise : as of `HierarchicalThompson`

    Notes
    -----
    Assumes: cells come band by band within a unit, as `Cells` makes them; bands are independent
    of each other given the table.

    Stops applying: a band is a step. Within it the best arm is one, and a unit whose threshold lies
    inside a band loses on one side of it; more bands lose less there and learn more slowly.

    Examples
    --------
    Two bands, two arms, no rows: the prior means are the table's, the same in every unit.

    >>> from gdcb.arms import ArmList
    >>> from gdcb.records import Setting
    >>> bandit = BandedThompson(table=((0.9, 0.1), (0.2, 0.8)))
    >>> arms = ArmList(names=("allow", "remove")).build()
    >>> state = bandit.init(np.array([0, 1, 0, 1]), arms)  # two units of one group
    >>> bandit.mean(state, Setting(np.arange(4)), arms.nominal).tolist()
    [[0.9, 0.1], [0.2, 0.8], [0.9, 0.1], [0.2, 0.8]]
    """

    table: tuple[tuple[float, ...], ...] = field(default=(), kw_only=True)
    on_device: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        given: object = self.table
        if not isinstance(given, tuple) or not given:
            raise InvalidInput("bandit.table: expected one tuple of numbers a band")
        for i, row in enumerate(self.table):
            check_list(f"bandit.table[{i}]", row)
        if len({len(row) for row in self.table}) > 1:
            raise InvalidInput("bandit.table: expected as many numbers in every band")

    @classmethod
    def example(cls) -> BandedThompson:
        """Return a learner for the checks of parts, which try it with five arms and no bands."""
        return cls(table=((0.0, 0.1, 0.2, 0.1, 0.0),))

    def init(self, group: Array, arms: Arms) -> HierarchicalState:
        """Return the prior: no sums, and the band's means in every group."""
        if len(self.table[0]) != arms.n:
            raise InvalidInput(
                f"bandit.table: expected {arms.n} numbers a band, one an arm; "
                f"got {len(self.table[0])}"
            )
        n_pools = int(group.max()) + 1
        if n_pools % len(self.table):
            raise InvalidInput(
                f"bandit.table: it has {len(self.table)} bands, and the instance's cells another "
                "number of them"
            )
        pools = np.arange(n_pools)
        cells = (group.shape[0], arms.n)
        precision = np.full((n_pools, arms.n), self.sd**-2)
        return HierarchicalState(
            group, zeros(cells, group), zeros(cells, group), precision, self._shifts(pools)
        )

    def _shifts(self, pools: Array) -> Array:
        """Return precision times prior mean of some pools: (pools, K)."""
        return np.asarray(self.sd**-2 * np.array(self.table)[pools % len(self.table)])

    def value(self, draw: Array, located: Located) -> Array:
        """Read the drawn values at located actions."""
        return take_arm(draw, located, average(np.array(self.table).ravel()))

    def _gather(self, state: HierarchicalState, groups: Array) -> None:
        """Sum what their cells tell some pools afresh; the others keep their bits."""
        cell = np.flatnonzero(np.isin(state.group, groups))
        weight, total, group = state.weight[cell], state.total[cell], state.group[cell]
        spread: Any = weight * self.between**2 + self.noise**2
        state.hyper_precision[groups] = self.sd**-2
        state.hyper_shift[groups] = self._shifts(groups)
        scatter_add(state.hyper_precision, group, weight / spread)
        scatter_add(state.hyper_shift, group, total / spread)
