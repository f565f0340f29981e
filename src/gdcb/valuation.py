"""What a drawn value function says of actions, in units of reward; and the pick among arms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.arrays import (
    Array,
    all_finite,
    along,
    at_most,
    count,
    is_any,
    is_finite,
    maybe_any,
    namespace,
    on_host,
    one_of,
    put_where,
    row_starts,
    surely_all,
)
from gdcb.bandits import Bandit
from gdcb.credit import NullState, null_worth
from gdcb.errors import DAMAGED, OutOfMemory, ValuationError
from gdcb.instance import Instance
from gdcb.records import Located, Rows, take_rows

# Numbers that are copied, or that locating makes, at once. More go in parts: all arms of every row
# for each of its moved arms would be rows × arms × arms.
MOST_COPIED = 2**24


@dataclass(slots=True)
class Valuation:
    """What a drawn value function says of actions in reward: NaN actions are worth the null."""

    instance: Instance
    bandit: Bandit
    x: Array
    delta: Array
    actions: Array
    draw: Any
    null: NullState
    unit: Array

    def take(self, index: Array | slice) -> Valuation:
        """Return the valuation of some rows."""
        x, delta, actions = self.x[index], self.delta[index], self.actions[index]
        draw, unit = take_rows(self.draw, index), self.unit[index]
        return Valuation(self.instance, self.bandit, x, delta, actions, draw, self.null, unit)

    def __call__(self, e: Array) -> Array:
        """Value (N, M, D): the arms themselves without locating, moved actions located."""
        try:
            if e is self.actions:
                return self._worth(self.instance.space.nominal, e)
            if e.shape == self.actions.shape:
                moved = e != self.actions  # NaN is moved, so what is not moved may run
                nominal = self.bandit.value(self.draw, self.instance.space.nominal)
                worth = self.instance.reward.worth(nominal, self.actions, self.x)
                if not maybe_any(moved):
                    return worth
                if not on_host(e):
                    xp = namespace(e)
                    located: Array = xp.where(moved.any(axis=-1), self._located(e), worth)
                    return located
                worth = worth.copy()  # it may be the draw itself
                self._value_moved(worth, e, moved.any(axis=-1))
                return worth
            return self._located(e)
        except MemoryError as error:
            raise OutOfMemory() from error
        except Exception as error:
            raise ValuationError(f"{type(error).__name__}: {error}") from error

    def _value_moved(self, worth: Array, e: Array, moved: Array) -> None:
        """Write the value of moved actions (N, K) into `worth`.

        Where few are moved, their rows are copied. Else arm by arm all rows are valued, which
        copies none. Each row is valued by itself, so both give the same numbers.
        """
        n, k = moved.shape
        numbers = sum(
            array.size for array in _arrays((self.x, self.delta, self.actions, self.draw))
        )
        if count(moved) * (numbers // n + k) <= MOST_COPIED:
            row, arm = np.nonzero(moved)
            worth[row, arm] = self.take(row)._located(e[row, arm][:, None])[:, 0]
            return
        for j in np.flatnonzero(moved.any(axis=0)).tolist():
            found = self._located(e[:, j : j + 1])[:, 0]
            np.copyto(worth[:, j], found, where=moved[:, j])

    def _located(self, e: Array) -> Array:
        """Locate and value actions (N, M, D); to locate one may take a number for every arm."""
        size = max(1, MOST_COPIED // (e.shape[1] * self.instance.space.n))
        if e.shape[0] <= size or not on_host(e):
            return self._located_at_once(e)
        parts = [slice(i, i + size) for i in range(0, e.shape[0], size)]
        return np.concatenate([self.take(part)._located_at_once(e[part]) for part in parts])

    def _located_at_once(self, e: Array) -> Array:
        if not maybe_any(is_finite(e)):
            return np.repeat(self._null()[:, None], e.shape[1], axis=1)
        located = self.instance.composition.locate(self.instance.space, e, self.delta, self.x)
        return self._worth(located, e)

    def _worth(self, located: Located, e: Array) -> Array:
        worth = self.instance.reward.worth(self.bandit.value(self.draw, located), e, self.x)
        if on_host(e) and surely_all(np.isfinite(one_of(e))):
            return worth
        known: Array = namespace(e).where(all_finite(e), worth, self._null()[:, None])
        return known

    def _null(self) -> Array:
        return null_worth(self.instance, self.null, self.unit, self.x)


def _arrays(draw: Any) -> list[Any]:
    """Return the arrays of a draw, which is one or a tuple of them."""
    if isinstance(draw, tuple):
        return [array for part in draw for array in _arrays(part)]
    return [draw]


def pick(worth: Array, instance: Instance, actions: Array, rows: Rows) -> tuple[Array, Array]:
    """Pick the best arm and its action; among equals the one that the gate moves least."""
    n, k, d = actions.shape
    arm = worth.argmax(axis=1)
    if not on_host(worth):
        return _pick_on_device(worth, arm, instance, actions, rows)
    flat = row_starts(n, k) + arm
    best = worth.take(flat)[:, None]
    equal = worth == best
    n_equal = count(equal)
    if n_equal < n or (n > 1 and is_any(np.isnan(best))):  # NaN equals nothing, not even itself
        raise ValuationError(DAMAGED)
    if n_equal > n and instance.rules.select == "gate":
        moved = np.minimum(instance.chain.moved(actions, rows), 1e300)  # a veto moves most
        arm = np.where(equal, moved, np.inf).argmin(axis=1)
        flat = row_starts(n, k) + arm
    if n > 1 and actions.strides[0] == 0:  # every row could choose among the same
        action = actions[0].take(arm, axis=0)
    else:
        action = actions.reshape(n * k, d).take(flat, axis=0)
    action.setflags(write=False)
    return arm, action


def _pick_on_device(
    worth: Array, arm: Array, instance: Instance, actions: Array, rows: Rows
) -> tuple[Array, Array]:
    """Do the same without a look at whether any are equal; values that are no numbers pass."""
    if instance.rules.select == "gate" and any(gate.is_hard for gate in instance.chain.gates):
        moved = at_most(instance.chain.moved(actions, rows), 1e300)
        less = worth != along(worth, arm[:, None], axis=1)
        arm = put_where(moved, less, np.inf).argmin(axis=1)
    return arm, along(actions, arm[:, None, None], axis=1)[:, 0]
