"""What a bandit is, and what its state promises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gdcb.checks.bandits.case import GROUP, BanditCase, by_axis
from gdcb.checks.base import (
    bytes_of,
    is_record,
    require,
    require_close,
    require_described,
    require_frozen,
    require_same_bytes,
)
from gdcb.errors import InvalidInput
from gdcb.parts import describe
from gdcb.records import copy, from_bytes, grow, replace_rows, to_bytes


def settings_are_frozen(case: BanditCase) -> None:
    """Its settings cannot be set, and a round leaves them as they were; they are plain data."""
    require_frozen(case.bandit)
    require_described(case.bandit)
    before = describe(case.bandit)
    case.behaviour(case.taught())
    require(describe(case.bandit) == before, "a round changed its settings")


def declares_what_it_is(case: BanditCase) -> None:
    """`target`, `is_curve`, `reads` and `supports` are there, and what it supports it has.

    A method that it has and does not declare would never be called.
    """
    target = getattr(case.bandit, "target", None)
    require(target in ("class", "reward", "any"), f"target: {target!r}")
    is_curve = getattr(case.bandit, "is_curve", None)
    require(isinstance(is_curve, bool), f"is_curve: expected true or false, got {is_curve!r}")
    reads = getattr(case.bandit, "reads", None)
    known = isinstance(reads, frozenset) and reads <= {"x", "delta"}
    require(known, f"reads: expected a frozenset out of 'x' and 'delta', got {reads!r}")
    supports = getattr(case.bandit, "supports", None)
    require(isinstance(supports, frozenset), f"supports: expected a frozenset, got {supports!r}")
    for name in supports or ():
        require(callable(getattr(case.bandit, name, None)), f"supports '{name}', and lacks it")
    for name in ("decay", "merge", "marginals"):
        undeclared = hasattr(case.bandit, name) and name not in (supports or ())
        require(not undeclared, f"has a method '{name}' and does not declare it")


def learns_the_target_it_declares(case: BanditCase) -> None:
    """Outcomes of its target it takes: classes in [0, 1], any reward with its scale, or both."""
    target = case.bandit.target
    for is_class in (True, False):
        if target in ("any", "class" if is_class else "reward"):
            one = replace(case, is_class=is_class)
            try:
                one.taught(6)
            except InvalidInput as error:
                what = "a class in [0, 1]" if is_class else "a reward"
                require(False, f"its target is '{target}', and it refused {what}: {error}")


def a_prior_has_its_axes(case: BanditCase) -> None:
    """Priors are records of arrays, a row a cell or, where a field says 'pool', a group.

    A refold writes rows of it (`replace_rows`); fields that are 'constant' it leaves alone.
    """
    state = case.state()
    require(is_record(state), f"expected a dataclass of arrays, got {type(state).__name__}")
    lengths = {"cell": GROUP.size, "pool": int(GROUP.max()) + 1}
    for name, axis, value in by_axis(state):
        require(axis in (*lengths, "constant"), f"{name}: no axis '{axis}'")
        if axis == "constant":
            continue
        require(isinstance(value, np.ndarray), f"{name}: expected an array")
        require(value.dtype.kind in "fiub", f"{name}: expected numbers, got {value.dtype}")
        rows = value.shape[0] if value.ndim else 0
        require(rows == lengths[axis], f"{name}: expected {lengths[axis]} rows, got {rows}")
    require_same_bytes(case.state(), state, "two priors")


def a_state_survives_its_bytes(case: BanditCase) -> None:
    """Written down and read again, a state draws and learns the same, to the last bit."""
    state = case.taught()
    again = from_bytes(to_bytes(state), case.state())
    require_same_bytes(case.behaviour(again), case.behaviour(state), "draws after reading")
    for one in (state, again):
        case.bandit.update(one, case.evidence(8, seed=4))
    require_same_bytes(again, state, "states after reading and learning on")


def a_copy_is_apart(case: BanditCase) -> None:
    """Teaching a copy of a state does not teach the state."""
    state = case.taught()
    before, other = bytes_of(state), copy(state)
    case.bandit.update(other, case.evidence(12, seed=4))
    require(bytes_of(state) == before, "teaching a copy changed the state that it came from")
    require(bytes_of(other) != before, "teaching a copy changed nothing at all")


def a_state_grows(case: BanditCase) -> None:
    """With room for more cells, the old ones keep what they learned and new ones have the prior.

    New cells of the same group may know what it shares.
    """
    few, all_of_them = np.arange(3), np.arange(6)
    for name, group in (("of groups of their own", all_of_them), ("of one group", 0 * all_of_them)):
        small = case.bandit.init(group[:3], case.arms)
        case.bandit.update(small, case.evidence(9, cell=np.arange(9) % 3))
        before = case.behaviour(small, few)
        large = grow(small, case.bandit.init(group, case.arms))
        require_same_bytes(case.behaviour(large)[:3], before, f"old cells {name}")
        if group[-1]:
            fresh = case.behaviour(case.bandit.init(group, case.arms))
            require_same_bytes(case.behaviour(large)[3:], fresh[3:], "new cells")


def a_refold_starts_afresh(case: BanditCase) -> None:
    """Overwritten by the prior, the cells of one group forget all, and no other cell notices."""
    state = case.taught()
    before, fresh = case.behaviour(state), case.state()
    replace_rows(state, fresh, {"cell": np.array([2, 3]), "pool": np.array([1])})
    after = case.behaviour(state)
    others = GROUP != 1
    require_same_bytes(after[others], before[others], "cells of other groups")
    require_close(after[~others], case.behaviour(case.state())[~others], "cells of this group")
