"""Credit: who learns from what was executed, and what teaches nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gdcb import (
    Approval,
    BetaThompson,
    Bounds,
    Cap,
    Cells,
    Chain,
    CurveThompson,
    HierarchicalThompson,
    Instance,
    NullAction,
    RidgeScaler,
    Scaled,
    SimulatedPerson,
)
from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.bandits import Bandit
from gdcb.credit import evidence, null_worth
from gdcb.errors import InvalidInput
from gdcb.records import Evidence, Log, Rows, copy, to_bytes
from tests.builders import (
    choosing,
    log_of,
    pricing,
    rewarded,
    rows_of,
    stream,
    teach,
    with_rules,
)

ONE = np.zeros(1, dtype=np.int64)
CURVE = CurveThompson(link="identity", prior_sd=1.0, noise=1.0)
SCALED = RidgeScaler(features=("base",))
MOVED: dict[str, Any] = {"is_own": [False]}
NULL: dict[str, Any] = {"is_own": [False], "is_null": [True]}


def start(instance: Instance, bandit: Bandit, log_delta: float = 0.0) -> turn.RoundState:
    """Return a fresh state; with `log_delta` a scaler of version 1 says δ = exp(log_delta)."""
    state = turn.init(instance, bandit, ONE)
    if log_delta:
        state.scaler.theta[0, 0, 0] = log_delta
        state.scaler.versions[:] = 1
    return state


def evident(instance: Instance, log: Log, log_delta: float = 0.0) -> Evidence:
    state = start(instance, HierarchicalThompson(), log_delta)
    delta, in_force = turn.scale(instance, state, log)
    return evidence(instance, log, delta, in_force)[0]


def row(price: float, arm: int = 1, y: float = 1.0, **changes: Any) -> Log:
    """Return one finished row on a base of 100."""
    return log_of([[100.0]], [price], [arm], [y], **changes)


# Which arm


def test_an_unchanged_proposal_credits_its_arm() -> None:
    """The proposal of arm 1 ran: Beta(1, 1) becomes Beta(2, 1) there and nowhere else."""
    instance, bandit = pricing(), BetaThompson()
    state = start(instance, bandit)
    teach(instance, bandit, state, row(100.0))
    assert state.bandit.counts.tolist() == [[[1.0, 2.0, 1.0], [1.0, 1.0, 1.0]]]


def test_a_change_within_half_a_step_credits_the_nearest_arm() -> None:
    """112 on 100 is 1.12: 0.4 steps of 0.2 from arm 1.2, which learns; arm 1 was proposed."""
    instance, bandit = pricing(), BetaThompson()
    state = start(instance, bandit)
    teach(instance, bandit, state, row(112.0, y=0.0, **MOVED))
    assert state.bandit.counts.tolist() == [[[1.0, 1.0, 1.0], [1.0, 1.0, 2.0]]]


def test_a_change_beyond_half_a_step_credits_no_arm() -> None:
    """132 on 100 is 1.32: 0.6 steps beyond the last arm. Independent arms learn nothing."""
    instance = pricing()
    log = row(132.0, **MOVED)
    assert evident(instance, log).arm.tolist() == [-1]
    for bandit in (BetaThompson(), HierarchicalThompson()):
        state = start(instance, bandit)
        before = to_bytes(state.bandit)
        teach(instance, bandit, state, log)
        assert to_bytes(state.bandit) == before


def test_the_curve_learns_at_the_executed_coordinate() -> None:
    """Off every arm the curve still learns, at 1.32: precision += [1, c; c, c²], shift += 3c.

    One reward of 3 with unit noise, so the increments are the features' products themselves;
    c = (1.32 − 1)/0.2 = 1.6, the coordinate scaled to [−1, 1] over the arms 0.8 to 1.2.
    """
    instance = rewarded()
    state = start(instance, CURVE)
    before = copy(state.bandit)
    teach(instance, CURVE, state, row(132.0, y=3.0, **MOVED))
    c = 1.6
    gained = state.bandit.precision[0] - before.precision[0]
    assert gained == pytest.approx(np.array([[1.0, c], [c, c * c]]))
    assert state.bandit.shift[0] - before.shift[0] == pytest.approx(np.array([3.0, 3.0 * c]))


def test_a_category_that_no_arm_has_credits_none() -> None:
    """An executed category outside the arms is comparable to none of them."""
    log = log_of([[0.0]], [7.0], [0], [1.0], **MOVED)
    assert evident(choosing(3), log).arm.tolist() == [-1]


def test_after_a_refit_the_action_is_located_under_the_scaler_in_force() -> None:
    """100 ran as arm 1 under δ = 1; under δ = 1.25 it is the arm 100 / 125 = 0.8, arm 0."""
    instance = pricing(scaler=SCALED)
    seen = evident(instance, row(100.0), np.log(1.25))
    assert seen.arm.tolist() == [0]
    assert seen.coord == pytest.approx(np.array([[0.8]]))
    same = evident(instance, row(100.0, version=[1]), np.log(1.25))
    assert same.arm.tolist() == [1]


def test_proposed_credit_goes_to_the_proposal() -> None:
    """With credit='proposed' an override teaches the proposed arm; a veto still teaches none."""
    instance = with_rules(pricing(scaler=SCALED), credit="proposed", overrides="all")
    log = row(132.0, is_override=[True], **MOVED)
    assert evident(instance, log, np.log(1.25)).arm.tolist() == [1]
    assert evident(instance, row(np.nan, **NULL)).arm.tolist() == [-1]


def test_cells_follow_the_scaler_in_force() -> None:
    """Edge 1.1: δ = 1 is band 0, δ = 1.25 band 1; two bands a unit, so unit 3 has cells 6, 7."""
    instance = pricing(scaler=SCALED, cells=Cells((1.1,)))
    log = row(100.0, unit=[3])
    assert evident(instance, log).cell.tolist() == [6]
    assert evident(instance, log, np.log(1.25)).cell.tolist() == [7]
    bandit = BetaThompson()
    state = start(instance, bandit, np.log(1.25))
    teach(instance, bandit, state, row(125.0, version=[1]))
    assert state.bandit.counts[:, 0].tolist() == [[1.0, 1.0, 1.0], [1.0, 2.0, 1.0]]


# Vetoes


def refuses(e: Array, rows: Rows) -> Array:
    return np.zeros(e.shape[:2])


def hundred(rows: Rows) -> Array:
    return np.full((rows.n, 1), 100.0)


def test_a_veto_teaches_the_kernel_and_the_null_and_no_arm() -> None:
    """A person vetoes: their rates move, the null's reward is noted, the arms keep their bytes.

    Null action 60, declared mean 1 for ten rows; one reward of 12 gives 1 + 11/11 = 2.
    """
    person = Approval(SimulatedPerson(refuses, hundred, veto=1.0))
    instance = rewarded(
        gate=Chain((person,), closed=False), null=NullAction(action=(60.0,), mean=1.0)
    )
    state, rows = start(instance, CURVE), rows_of([[100.0]])
    arms, kernel = to_bytes(state.bandit), copy(state.kernels[0])
    decision = turn.decide(stream(), instance, CURVE, state, rows)
    verdict = turn.gate(stream(1), instance, decision, rows)
    executed = turn.execute(instance, verdict, rows)
    assert executed.action.tolist() == [[60.0]]
    instance.chain.learn(state.kernels, rows, verdict)
    outcome = np.array([[12.0]])
    log = turn.finished(instance, rows, decision, executed, outcome)
    turn.learn(instance, CURVE, state, log, outcome)
    assert to_bytes(state.bandit) == arms
    gained = state.kernels[0].counts - kernel.counts
    assert gained.sum() == 1.0
    assert gained[..., 2].sum() == 1.0
    assert null_worth(instance, state.null, ONE, rows.x).tolist() == [2.0]


def test_where_nothing_ran_the_null_hears_nothing() -> None:
    """A veto without a null action has no reward of its own: the declaration stands."""
    instance, bandit = pricing(null=NullAction(mean=1.0)), BetaThompson()
    state = start(instance, bandit)
    before = to_bytes(state)
    teach(instance, bandit, state, row(np.nan, y=0.0, **NULL))
    assert to_bytes(state) == before


def test_a_null_that_teaches_lets_the_curve_learn_and_no_arm() -> None:
    """With teaches=True the null's outcome counts at its coordinate 0.8, which is an arm (−1 when
    scaled): the curve learns there, independent arms do not."""
    null = NullAction(action=(80.0,), teaches=True)
    log = row(80.0, y=2.0, **NULL)
    seen = evident(rewarded(null=null), log)
    assert (seen.arm.tolist(), seen.weight.tolist()) == ([-1], [1.0])
    assert seen.coord == pytest.approx(np.array([[0.8]]))
    assert evident(rewarded(), log).weight.tolist() == [0.0]
    instance = rewarded(null=null)
    state = start(instance, CURVE)
    before = state.bandit.shift.copy()
    teach(instance, CURVE, state, log)
    assert state.bandit.shift[0] - before[0] == pytest.approx(np.array([2.0, -2.0]))
    flat, bandit = start(instance, HierarchicalThompson()), HierarchicalThompson()
    arms = to_bytes(flat.bandit)
    teach(instance, bandit, flat, log)
    assert to_bytes(flat.bandit) == arms


# Weights


@pytest.mark.parametrize("bandit", [CURVE, HierarchicalThompson()], ids=["curve", "hierarchical"])
def test_a_weight_of_two_is_the_row_twice(bandit: Bandit) -> None:
    """One row of weight 2 leaves what two rows of weight 1 leave."""
    instance = rewarded()
    once, twice = start(instance, bandit), start(instance, bandit)
    teach(instance, bandit, once, row(100.0, y=3.0, weight=[2.0]))
    both = log_of([[100.0]] * 2, [100.0] * 2, [1, 1], [3.0, 3.0])
    teach(instance, bandit, twice, both)
    for name in ("precision", "shift", "mean", "weight", "total"):
        if hasattr(once.bandit, name):
            left, right = getattr(once.bandit, name), getattr(twice.bandit, name)
            assert left == pytest.approx(right, rel=1e-12)


@pytest.mark.parametrize("is_null", [False, True], ids=["executed", "null"])
def test_a_weight_of_zero_is_no_row(is_null: bool) -> None:
    """A row of weight 0 leaves every byte as it was, also where the null action ran."""
    instance = rewarded(null=NullAction(action=(80.0,), teaches=True))
    state = start(instance, CURVE)
    before = to_bytes(state)
    teach(instance, CURVE, state, row(80.0, y=5.0, weight=[0.0], is_null=[is_null]))
    assert to_bytes(state) == before


def test_the_reward_scale_weighs_and_never_divides() -> None:
    """r = s·v + noise with s = 2, r = 3: Σ s² = 4 and Σ s·r = 6, as the regression has it."""
    instance = pricing(reward=Scaled(scale="base"))
    bandit = HierarchicalThompson()
    state = start(instance, bandit)
    teach(instance, bandit, state, log_of([[2.0]], [2.0], [1], [3.0], scale=[2.0]))
    assert state.bandit.weight[0].tolist() == [0.0, 4.0, 0.0]
    assert state.bandit.total[0].tolist() == [0.0, 6.0, 0.0]


# Refusals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight": [1.0, -1.0]}, "weight: expected 2 finite numbers >= 0"),
        ({"weight": [1.0, np.nan]}, "weight: expected 2 finite numbers >= 0"),
        ({"weight": [1.0, np.inf]}, "weight: expected 2 finite numbers >= 0"),
        ({"weight": [1.0]}, "weight: expected 2 finite numbers >= 0"),
        ({"y": [1.0, np.nan]}, "expected"),
        ({"y": [np.inf, 1.0]}, "expected"),
        ({"arm": [0, 3]}, "arm: expected -1 to 2"),
        ({"arm": [-2, 0]}, "arm: expected -1 to 2"),
        ({"scale": [1.0, 0.0]}, "scale: expected finite numbers > 0"),
        ({"scale": [1.0, -2.0]}, "scale: expected finite numbers > 0"),
        ({"scale": [np.nan, 1.0]}, "scale: expected finite numbers > 0"),
    ],
)
def test_a_refused_log_leaves_the_state_alone(changes: dict[str, Any], message: str) -> None:
    """One bad row in a batch refuses the batch before anything is written."""
    instance, bandit = rewarded(), HierarchicalThompson()
    state = start(instance, bandit)
    before = to_bytes(state)
    log = log_of([[100.0]] * 2, [80.0, 100.0], [0, 1], [1.0, 2.0])
    for name, value in changes.items():
        setattr(log, name, np.array(value))
    with pytest.raises(InvalidInput, match=message):
        turn.learn(instance, bandit, state, log, np.array([[1.0], [2.0]]))
    assert to_bytes(state) == before


def test_a_bad_outcome_or_label_leaves_the_state_alone() -> None:
    """Outcomes that cannot be, and labels of the wrong shape, are refused before any write."""
    instance, bandit = pricing(scaler=SCALED), BetaThompson()
    state = start(instance, bandit)
    before, log = to_bytes(state), row(100.0)
    with pytest.raises(InvalidInput, match=r"booked: expected 0 or 1, got 0\.5"):
        turn.learn(instance, bandit, state, log, np.array([[0.5]]))
    with pytest.raises(InvalidInput, match="label: expected"):
        turn.learn(instance, bandit, state, log, np.ones((1, 1)), np.ones((1, 2)))
    assert to_bytes(state) == before


def test_a_refusal_by_the_learner_leaves_the_state_alone() -> None:
    """A logistic curve refuses a class of 3; the contrast beside it must not have learned it."""
    person = Approval(SimulatedPerson(refuses, hundred))
    instance = pricing(gate=Chain((person, Bounds(high=900.0))))
    bandit = CurveThompson(link="logistic")
    state = start(instance, bandit)
    before = to_bytes(state)
    with pytest.raises(InvalidInput, match=r"expected outcomes in \[0, 1\]"):
        turn.learn(instance, bandit, state, row(100.0, y=3.0), np.ones((1, 1)))
    assert to_bytes(state) == before


def test_learning_does_not_change_its_input() -> None:
    """The log comes back as it went in."""
    instance = rewarded(gate=Cap(limit=110.0))
    state, log = start(instance, CURVE), row(110.0, y=2.0, **MOVED)
    before = to_bytes(log)
    teach(instance, CURVE, state, log)
    assert to_bytes(log) == before
