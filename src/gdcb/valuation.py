"""What a drawn value function says of actions, in units of reward."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.bandits import Bandit
from gdcb.errors import ValuationError
from gdcb.instance import Instance
from gdcb.records import Located


@dataclass(slots=True)
class Valuation:
    """What a drawn value function says of actions in reward: NaN actions are worth the null."""

    instance: Instance
    bandit: Bandit
    x: Array
    delta: Array
    actions: Array
    draw: Array
    null: Array

    def take(self, index: Array) -> Valuation:
        """Return the valuation of some rows."""
        parts = (self.x, self.delta, self.actions, self.draw, self.null)
        return Valuation(self.instance, self.bandit, *(part[index] for part in parts))

    def __call__(self, e: Array) -> Array:
        """Value (N, M, D): the arms themselves without locating, moved actions located."""
        try:
            if e is self.actions:
                return self._worth(self.instance.space.nominal, e, self.x, self.draw, self.null)
            if e.shape == self.actions.shape:
                worth = self(self.actions)
                row, arm = np.nonzero((e != self.actions).any(axis=-1))
                e = e[row, arm][:, None]
                worth[row, arm] = self.take(row)._located(e)[:, 0]
                return worth
            return self._located(e)
        except Exception as error:
            raise ValuationError(f"{type(error).__name__}: {error}") from error

    def _located(self, e: Array) -> Array:
        located = self.instance.composition.locate(self.instance.space, e, self.delta, self.x)
        return self._worth(located, e, self.x, self.draw, self.null)

    def _worth(self, located: Located, e: Array, x: Array, draw: Array, null: Array) -> Array:
        worth = self.instance.reward.worth(self.bandit.value(draw, located), e, x)
        runs = np.isfinite(e).all(axis=-1)
        return worth if runs.all() else np.where(runs, worth, null[:, None])
