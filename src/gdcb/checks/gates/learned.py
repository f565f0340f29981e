"""What is promised of beliefs about a gate."""

from __future__ import annotations

import numpy as np

from gdcb.checks.base import (
    bytes_of,
    require,
    require_finite,
    require_same_bytes,
    require_shape,
)
from gdcb.checks.gates.case import NULL, GateCase
from gdcb.records import VETOED, copy, flatten, from_bytes, to_bytes


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
    kernel = case.kernel(taught=False)
    before = case.belief(kernel)
    rows, entered = case.rows(600), case.actions(600, 1)[:, 0]
    nothing = np.full(entered.shape, np.nan)
    status = np.full(600, VETOED, dtype=np.int8)
    case.gate.learn(kernel, np.arange(600) % 3, rows, entered, nothing, status)
    gap, first = np.abs(case.belief(kernel) - NULL), np.abs(before - NULL)
    require((gap <= first + 1e-9).all(), "vetoes moved a proposal's worth away from nothing's")
    share = float(gap.mean() / first.mean())
    require(share < 0.9, f"{share:.0%} of the way to 'nothing runs' is left after 200 vetoes")
