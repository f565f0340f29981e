"""What is promised of beliefs about a gate."""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array
from gdcb.checks.base import (
    bytes_of,
    require,
    require_close,
    require_finite,
    require_same_bytes,
    require_shape,
)
from gdcb.checks.gates.case import NULL, GateCase
from gdcb.records import EXPIRED, MODIFIED, PASSED, VETOED, copy, flatten, from_bytes, to_bytes


def a_belief_has_the_owners_first(case: GateCase) -> None:
    """Beliefs are records of arrays, a row an owner, and their operator is finite."""
    kernel = case.kernel(taught=False)
    for name, array in flatten(kernel).items():
        rows = array.shape[0] if array.ndim else 0
        require(rows == 3, f"{name}: expected 3 owners, got {rows}")
    for name, one in (("before data", kernel), ("after", case.kernel())):
        belief = case.belief(one)
        require_shape(belief, (6, 4), f"the operator {name}")
        require_finite(belief, f"the operator {name}")


def learning_leaves_inputs_alone(case: GateCase) -> None:
    """Verdicts and rows that it learns from are not changed, nor is the belief by asking."""
    kernel = case.kernel()
    owner, rows, entered, left, status = case.watched()
    before = [bytes_of(part) for part in (owner, rows, entered, left, status)]
    case.gate.learn(kernel, owner, rows, entered, left, status)
    after = [bytes_of(part) for part in (owner, rows, entered, left, status)]
    require(before == after, "`learn` changed what it was given")
    state = bytes_of(kernel)
    case.belief(kernel)
    require(bytes_of(kernel) == state, "asking for the operator changed the belief")


def owners_do_not_see_each_other(case: GateCase) -> None:
    """Owners are believed the same, bit by bit, whatever verdicts others gave beside them."""
    whole, alone = case.kernel(), case.kernel(taught=False)
    owner, rows, entered, left, status = case.watched()
    mine = owner < 2  # the two owners whose operator is looked at
    case.gate.learn(alone, owner[mine], rows.take(mine), entered[mine], left[mine], status[mine])
    require_same_bytes(
        case.belief(alone), case.belief(whole), "the belief of owners that were alone"
    )


def a_belief_survives_its_bytes(case: GateCase) -> None:
    """Written down and read again, a belief is the same and learns the same, to the last bit."""
    kernel = case.kernel()
    again = from_bytes(to_bytes(kernel), case.kernel(taught=False))
    require_same_bytes(case.belief(again), case.belief(kernel), "the operator after reading")
    before, other = bytes_of(kernel), copy(kernel)
    for one in (other, again):
        case.gate.learn(one, *case.watched(seed=8))
    require_same_bytes(other, again, "beliefs after reading and learning on")
    require(bytes_of(kernel) == before, "teaching a copy changed what it came from")


def it_learns_what_a_person_does(case: GateCase) -> None:
    """After 200 vetoes an owner, proposals are worth more nearly what nothing is worth.

    None is further off than before, and on average a tenth of the way is gone at least: a gate
    may send only some proposals to its person.
    """
    before, after = _believed(case, VETOED)
    gap, first = np.abs(after - NULL), np.abs(before - NULL)
    require((gap <= first + 1e-9).all(), "vetoes moved a proposal's worth away from nothing's")
    share = float(gap.mean() / first.mean())
    require(share < 0.9, f"{share:.0%} of the way to 'nothing runs' is left after 200 vetoes")


def it_learns_what_a_person_puts_in(case: GateCase) -> None:
    """After 200 edits to one action an owner, proposals are worth more nearly what that is worth.

    On average a tenth of the way is gone at least, of those that the edit changes. Where an action
    has categories, the edit puts one category in and leaves the numbers.
    """
    after, (rows, e) = _believed(case, MODIFIED)[1], case.asked()
    own, worth = case.worth(rows)(case.edited(e)), case.worth(rows)(e)
    is_changed = (case.edited(e) != e).any(axis=-1)
    gap, first = np.abs(after - own)[is_changed], np.abs(worth - own)[is_changed]
    share = float(gap.mean() / first.mean())
    text = f"{share:.0%} of the way to what the person puts in is left after 200 edits"
    require(share < 0.9, text)


def it_learns_what_a_person_approves(case: GateCase) -> None:
    """After 200 approvals an owner, proposals are worth what they are worth without the gate.

    On average to a tenth of their spread, and no further off than before.
    """
    before, after = _believed(case, PASSED)
    rows, e = case.asked()
    worth = case.worth(rows)(e)
    gap, first = float(np.abs(after - worth).mean()), float(np.abs(before - worth).mean())
    within = 0.1 * float(worth.std())
    text = f"{gap:.3g} off their own worth after 200 approvals, {first:.3g} before"
    require(gap <= min(first + 1e-9, within), f"proposals are on average {text}")


def an_expired_hold_is_a_veto(case: GateCase) -> None:
    """Nobody answered in time: that is learned as a veto is, to 1e-9."""
    expired, vetoed = _believed(case, EXPIRED)[1], _believed(case, VETOED)[1]
    require_close(expired, vetoed, "the operator after 200 expired holds and after 200 vetoes")


def _believed(case: GateCase, answer: int) -> tuple[Array, Array]:
    """Return the operator before and after 200 answers of one kind an owner: (6, 4) each."""
    kernel = case.kernel(taught=False)
    before = case.belief(kernel)
    rows, entered = case.rows(600), case.actions(600, 1)[:, 0]
    status = np.full(600, answer, dtype=np.int8)
    left = np.full(entered.shape, np.nan)
    if answer == PASSED:
        left = entered.copy()
    if answer == MODIFIED:
        left = case.edited(entered)
        status[(left == entered).all(axis=1)] = PASSED
    case.gate.learn(kernel, np.arange(600) % 3, rows, entered, left, status)
    return before, case.belief(kernel)
