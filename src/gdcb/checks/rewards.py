"""What every reward promises."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.checks.base import (
    require,
    require_close,
    require_described,
    require_finite,
    require_frozen,
    require_refusal,
    require_same_bytes,
    require_shape,
)
from gdcb.checks.ground import Ground
from gdcb.errors import InvalidInput

_N, _M, _D = 6, 3, 2


@dataclass(frozen=True, eq=False)
class RewardCase:
    """A reward, and the contexts, actions and outcomes it is tried with."""

    reward: Any
    ground: Ground

    def x(self) -> Array:
        """Return contexts, read-only."""
        return _sealed(self.ground.contexts(_N, seed=5))

    def e(self) -> Array:
        """Return actions (N, M, D), read-only."""
        return _sealed(0.5 + np.random.default_rng(6).random((_N, _M, _D)))

    def outcomes(self, seed: int = 7) -> Array:
        """Return outcomes that can be: (N, outcomes), read-only.

        A reward whose outcomes are not any numbers says so by a method `possible(rng, n)`.
        """
        rng, shape = np.random.default_rng(seed), (_N, len(self.reward.outcome))
        if callable(getattr(self.reward, "possible", None)):
            return _sealed(np.array(self.reward.possible(rng, _N), dtype=float))
        y = rng.normal(size=shape)
        if self.reward.target == "class":
            y = (rng.random(shape) < 0.5).astype(float)
            y[:2, 0] = 0.0, 1.0
        return _sealed(y)

    def values(self, seed: int = 8) -> Array:
        """Return learned values (N, M): probabilities where classes are learned; read-only."""
        return _sealed(np.random.default_rng(seed).random((_N, _M)))


def case_of(reward: Any, ground: Ground) -> RewardCase:
    """Return the reward on its ground."""
    return RewardCase(reward, ground)


def _sealed(array: Array) -> Array:
    array.flags.writeable = False
    return array


def settings_are_frozen(case: RewardCase) -> None:
    """Its settings cannot be set, and are plain data."""
    require_frozen(case.reward)
    require_described(case.reward)


def declares_what_it_is(case: RewardCase) -> None:
    """Outcomes have different names, and the learner's target is a class or the reward."""
    names = case.reward.outcome
    good = isinstance(names, tuple) and names and all(isinstance(name, str) for name in names)
    require(good and len(set(names)) == len(names), f"outcome: expected names, got {names!r}")
    require(case.reward.target in ("class", "reward"), f"target: got {case.reward.target!r}")


def answers_have_their_shape(case: RewardCase) -> None:
    """Rewards and targets are (N,), worths (N, M), scales None or (N,) above 0; all are finite."""
    x, e, y = case.x(), case.e(), case.outcomes()
    reward = case.reward.reward(y, e[:, 0], x)
    require_shape(reward, (_N,), "reward")
    require_finite(reward, "reward")
    target, scale = case.reward.learn(y, x)
    require_shape(target, (_N,), "learning target")
    require_finite(target, "learning target")
    if case.reward.target == "class":
        require(((target >= 0) & (target <= 1)).all(), f"target: no class, got {target}")
        require(scale is None, "a class has no reward scale")
    if scale is not None:
        require_shape(scale, (_N,), "scale")
        require((np.isfinite(scale) & (scale > 0)).all(), f"scale: expected > 0, got {scale}")
    worth = case.reward.worth(case.values(), e, x)
    require_shape(worth, (_N, _M), "worth")
    require_finite(worth, "worth")


def worth_is_linear_in_value(case: RewardCase) -> None:
    """Half-way between two values the worth is half-way: expectations go through it."""
    x, e, one, two = case.x(), case.e(), case.values(8), case.values(9)
    worth = case.reward.worth
    middle = (worth(one, e, x) + worth(two, e, x)) / 2
    require_close(worth((one + two) / 2, e, x), middle, "the worth half-way")


def worth_agrees_with_reward(case: RewardCase) -> None:
    """Learned for certain, an outcome (target over scale) is worth its reward.

    A reward whose class pays what is known in expectation only says so by `is_exact = False`.
    """
    if not getattr(case.reward, "is_exact", True):
        return
    x, e, y = case.x(), case.e(), case.outcomes()
    target, scale = case.reward.learn(y, x)
    value = target if scale is None else target / scale
    worth = case.reward.worth(value[:, None], e[:, :1], x)[:, 0]
    require_close(worth, case.reward.reward(y, e[:, 0], x), "the worth and the reward")


def impossible_outcomes_are_refused(case: RewardCase) -> None:
    """NaN, infinite and, for classes, values outside [0, 1] are refused; what can be is taken."""
    good = case.outcomes()
    case.reward.check(good)
    bad = [np.nan, np.inf, -np.inf]
    for value in bad + ([2.0, -1.0] if case.reward.target == "class" else []):
        spoilt = good.copy()
        spoilt[-1, 0] = value
        act = partial(case.reward.check, spoilt)
        require_refusal(act, InvalidInput, f"an outcome of {value}")


def rows_stand_alone(case: RewardCase) -> None:
    """Rows alone are worth what they were among all rows, to the bit."""
    x, e, y, some = case.x(), case.e(), case.outcomes(), np.array([4, 1])
    whole = case.reward.worth(case.values(), e, x)[some]
    alone = case.reward.worth(case.values()[some], e[some], x[some])
    require_same_bytes(np.ascontiguousarray(alone), np.ascontiguousarray(whole), "worth")
    whole = case.reward.reward(y, e[:, 0], x)[some]
    alone = case.reward.reward(y[some], e[some, 0], x[some])
    require_same_bytes(np.ascontiguousarray(alone), np.ascontiguousarray(whole), "reward")


def inputs_are_left_alone(case: RewardCase) -> None:
    """Outcomes, values, actions and contexts are read-only, and are not written to."""
    x, e, y, value = case.x(), case.e(), case.outcomes(), case.values()
    before = [part.tobytes() for part in (x, e, y, value)]
    case.reward.check(y)
    case.reward.reward(y, e[:, 0], x)
    case.reward.learn(y, x)
    case.reward.worth(value, e, x)
    case.reward.fits(_D)
    require([part.tobytes() for part in (x, e, y, value)] == before, "an input was changed")


def what_does_not_run_disturbs_nothing(case: RewardCase) -> None:
    """Beside an action that does not run (NaN) the others are worth what they were."""
    x, e, value = case.x(), case.e(), case.values()
    expected = case.reward.worth(value, e, x)[:, 1:]
    holed = e.copy()
    holed[:, 0] = np.nan
    found = case.reward.worth(value, _sealed(holed), x)
    require_shape(found, (_N, _M), "worth beside NaN")
    require_close(found[:, 1:], expected, "worth beside NaN")


CHECKS = (
    settings_are_frozen,
    declares_what_it_is,
    answers_have_their_shape,
    worth_is_linear_in_value,
    worth_agrees_with_reward,
    impossible_outcomes_are_refused,
    rows_stand_alone,
    inputs_are_left_alone,
    what_does_not_run_disturbs_nothing,
)
