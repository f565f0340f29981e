"""What a scaler's state promises, and what it may support: merge and decay."""

from __future__ import annotations

from functools import partial

import numpy as np

from gdcb.checks.base import (
    bytes_of,
    require,
    require_close,
    require_refusal,
    require_same_bytes,
)
from gdcb.checks.scalers.case import OWNERS, ScalerCase
from gdcb.errors import InvalidInput
from gdcb.records import copy, from_bytes, grow, to_bytes


def a_state_survives_its_bytes(case: ScalerCase) -> None:
    """Written down and read again, a state predicts and learns the same, to the last bit."""
    state = case.published()
    again = from_bytes(to_bytes(state), case.state())
    for one in (state, again):
        case.scaler.observe(one, *case.lesson(24, seed=4).parts())
    require_same_bytes(case.delta(again), case.delta(state), "δ after reading")
    require_same_bytes(case.fitted(again), case.fitted(state), "the fit after reading")


def a_copy_is_apart(case: ScalerCase) -> None:
    """Teaching a copy of a state does not teach the state."""
    state = case.published()
    before, other = bytes_of(state), copy(state)
    case.scaler.observe(other, *case.lesson(24, seed=4).parts())
    case.scaler.publish(other, OWNERS.copy())
    require(bytes_of(state) == before, "teaching a copy changed the state that it came from")


def a_state_grows(case: ScalerCase) -> None:
    """With room for more owners, the old ones keep what they learned and new ones nothing."""
    state = case.published()
    large = grow(copy(state), case.state(n_owners=6))
    require_same_bytes(case.delta(large), case.delta(state), "δ of old owners")
    fresh = case.delta(case.state(n_owners=6), np.array([4, 5]))
    require_same_bytes(case.delta(large, np.array([4, 5])), fresh, "δ of new owners")


def merging_halves_is_the_whole(case: ScalerCase) -> None:
    """Two halves learned apart and merged fit as the whole, in any order of rows, to 1e-9."""
    lesson = case.lesson(case.n)
    order = np.random.default_rng(5).permutation(case.n)
    one, two = case.state(lesson.take(order[:24])), case.state(lesson.take(order[24:]))
    before = bytes_of(two)
    case.scaler.merge(one, two)
    require(bytes_of(two) == before, "`merge` changed the state that it took from")
    require_close(case.fitted(one), case.fitted(case.taught()), "two halves and the whole")
    expected = case.fitted(one)
    case.scaler.merge(one, case.state())
    require_close(case.fitted(one), expected, "after merging a state without data")


def a_wrong_merge_is_refused(case: ScalerCase) -> None:
    """States of other owners are refused, and nothing is changed."""
    state = case.taught()
    before, other = bytes_of(state), case.state(n_owners=2)
    act = partial(case.scaler.merge, state, other)
    require_refusal(act, InvalidInput, "a state of 2 owners")
    require(bytes_of(state) == before, "a refused merge changed the state")


def decay_goes_from_all_to_nothing(case: ScalerCase) -> None:
    """Decay by 1 keeps the fit, by 0 returns to neutral, ½ twice is ¼; others keep their bits."""
    expected = case.fitted(case.taught())
    states = [case.taught() for _ in range(4)]
    case.scaler.decay(states[0], 1.0, OWNERS)
    require_close(case.fitted(states[0]), expected, "the fit after decay by 1")
    case.scaler.decay(states[1], 0.0, OWNERS)
    neutral = case.delta(case.state())
    require_close(case.fitted(states[1]), neutral, "the fit after decay by 0")
    case.scaler.decay(states[2], 0.5, OWNERS)
    case.scaler.decay(states[2], 0.5, OWNERS)
    case.scaler.decay(states[3], 0.25, OWNERS[:2])
    found = case.fitted(states[3])
    require_close(found[:2], case.fitted(states[2])[:2], "decay by ½ twice and by ¼ once")
    require_same_bytes(found[2:], expected[2:], "owners that were not decayed")


def a_wrong_decay_is_refused(case: ScalerCase) -> None:
    """Factors outside [0, 1] are refused, and nothing is changed."""
    state = case.taught()
    before = bytes_of(state)
    for factor in (-0.1, 1.1, np.nan):
        act = partial(case.scaler.decay, state, factor, OWNERS)
        require_refusal(act, InvalidInput, f"a factor of {factor}")
        require(bytes_of(state) == before, f"the refused factor {factor} changed the state")
