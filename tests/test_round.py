"""One round: selection through the gate, masks, batches, vetoes, and what fails closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb import (
    ArmList,
    BetaThompson,
    Bounds,
    Cap,
    Chain,
    ConstantScaler,
    Instance,
    NullAction,
    PolicyFilter,
    RidgeScaler,
)
from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.errors import ValuationError
from gdcb.gates.base import HardGate
from gdcb.records import MODIFIED, PASSED, VETOED, Decision, Executed, Located, Rows, Verdict
from gdcb.streams import DRAW, GATE, OUTCOME, Streams
from tests.builders import (
    Fickle,
    FickleRule,
    FixedDraw,
    choosing,
    pricing,
    rows_of,
    stream,
    with_rules,
)
from tests.properties import examples

QUIET = examples(60)
FOUR = ArmList(values=(0.8, 1.0, 1.2, 1.5))


def decided(instance: Instance, values: Any, rows: Rows) -> Decision:
    bandit = FixedDraw(np.asarray(values, dtype=float))
    state = turn.init(instance, bandit, np.zeros(bandit.values.shape[0], dtype=np.int64))
    return turn.decide(stream(), instance, bandit, state, rows)


def ran(instance: Instance, decision: Decision, rows: Rows) -> tuple[Verdict, Executed]:
    verdict = turn.gate(stream(1), instance, decision, rows)
    return verdict, turn.execute(instance, verdict, rows)


# Select through the gate


def test_arms_above_a_cap_are_one_arm() -> None:
    """Arms that the gate maps to one action have one worth, and the least moved is proposed.

    Base 100, arms 0.8, 1, 1.2, 1.5, cap 112. The two highest run at 112, which is nearest to the
    arm 1.2 with draw 0.3: both are worth 33.6; the others 80·0.1 = 8 and 100·0.2 = 20. The gate
    moves 120 by 8 and 150 by 38.
    """
    instance = pricing(arms=FOUR, gate=Cap(limit=112.0))
    decision = decided(instance, [[0.1, 0.2, 0.3, 0.9]], rows_of([[100.0]]))
    assert decision.worth.round(9).tolist() == [[8.0, 20.0, 33.6, 33.6]]
    assert decision.worth[0, 2] == decision.worth[0, 3]
    assert decision.arm.tolist() == [2]
    assert decision.action.tolist() == [[120.0]]


def test_nominal_selection_ignores_the_gate() -> None:
    """With select='nominal' the same draws are worth 8, 20, 36 and 135: the capped arm wins."""
    instance = pricing(arms=FOUR, gate=Cap(limit=112.0))
    decision = decided(
        with_rules(instance, select="nominal"), [[0.1, 0.2, 0.3, 0.9]], rows_of([[100.0]])
    )
    assert decision.worth.round(9).tolist() == [[8.0, 20.0, 36.0, 135.0]]
    assert decision.arm.tolist() == [3]


def proposals(instance: Instance, rounds: int) -> tuple[Array, turn.RoundState]:
    """Return the proposed arms of one unit; bookings come with 0.5, at the cap with 0.3."""
    bandit, streams = BetaThompson(), Streams(5)
    state = turn.init(instance, bandit, np.zeros(1, dtype=np.int64))
    rows, arms = rows_of([[100.0]]), []
    for t in range(rounds):
        decision = turn.decide(streams.at(DRAW, t), instance, bandit, state, rows)
        verdict = turn.gate(streams.at(GATE, t), instance, decision, rows)
        executed = turn.execute(instance, verdict, rows)
        p = np.where(executed.action[:, 0] > 110.0, 0.3, 0.5)
        outcome = (streams.at(OUTCOME, t).uniform(1) < p).astype(float)[:, None]
        log = turn.finished(instance, rows, decision, executed, outcome)
        turn.learn(instance, bandit, state, log, outcome)
        arms.append(int(decision.arm[0]))
    return np.array(arms), state


def test_capped_arms_are_proposed_for_ever_when_the_gate_is_ignored() -> None:
    """A capped arm never runs as it is, so it gets no data; ignored in selection, it never fades.

    Its draw stays uniform and is worth up to 150, the best arm 50: it wins two times in three,
    in the last hundred rounds as in the first. Through the gate it is never proposed: the arm
    1.2 runs as the same action and is moved less. 100 draws at ⅔ fall below 45 with
    probability 1e-5; the seed is fixed.
    """
    instance = pricing(arms=FOUR, gate=Cap(limit=112.0))
    nominal, state = proposals(with_rules(instance, select="nominal"), 400)
    assert (nominal[-100:] == 3).sum() > 45
    assert state.bandit.counts[0, :, 3].tolist() == [1.0, 1.0]
    gated, _ = proposals(instance, 400)
    assert not (gated == 3).any()
    assert np.bincount(gated[-100:], minlength=4).argmax() == 1


# Masks


@QUIET
@given(st.data())
def test_a_masked_arm_is_never_proposed(data: st.DataObject) -> None:
    """Whatever the draws and the gate (open, a cap, bounds that veto all), masks hold."""
    n = data.draw(st.integers(1, 5))
    draw = st.floats(-10, 10) | st.just(0.0)
    values = np.array(data.draw(st.lists(st.lists(draw, min_size=4, max_size=4), min_size=n)))
    masks = data.draw(
        st.lists(
            st.lists(st.booleans(), min_size=4, max_size=4).filter(any), min_size=n, max_size=n
        )
    )
    gate = data.draw(
        st.sampled_from([Chain(), Cap(limit=112.0), Bounds(low=500.0, outside="veto")])
    )
    select = data.draw(st.sampled_from(["gate", "nominal"]))
    instance = with_rules(pricing(arms=FOUR, gate=gate), select=select)
    mask = np.array(masks)
    decision = decided(instance, values, rows_of(np.full((n, 1), 100.0), mask=mask))
    assert mask[np.arange(n), decision.arm].all()
    assert (np.isneginf(decision.worth) == ~mask).all()


# Batches


def scaled_instance() -> Instance:
    scaler = RidgeScaler(features=("base",), centre=(100.0,), per="unit")
    return pricing(arms=FOUR, scaler=scaler, gate=(Cap(limit=130.0), Bounds(low=70.0)))


def scaled_state(instance: Instance, bandit: FixedDraw, n: int) -> turn.RoundState:
    """Return a state in which every unit has another scaler."""
    state = turn.init(instance, bandit, np.zeros(n, dtype=np.int64))
    state.scaler.theta[:, 0, 1] = np.linspace(-0.003, 0.004, n)
    state.scaler.versions[:] = np.arange(n)
    return state


def everything(decision: Decision, verdict: Verdict, executed: Executed) -> list[Array]:
    return [
        decision.arm,
        decision.action,
        decision.delta,
        decision.version,
        decision.worth,
        decision.actions,
        verdict.action,
        verdict.status,
        verdict.gate,
        verdict.trail,
        verdict.statuses,
        executed.action,
        executed.is_null,
        executed.is_own,
        executed.is_override,
    ]


CASES = st.integers(1, 7).flatmap(
    lambda n: st.tuples(
        st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), min_size=n, max_size=n),
        st.lists(st.floats(50, 200), min_size=n, max_size=n),
        st.permutations(range(n)),
    )
)


@QUIET
@given(CASES)
def test_a_batch_equals_a_loop(
    case: tuple[list[list[float]], list[float], list[int]],
) -> None:
    """Deciding, gating and executing N rows gives the bytes of N batches of one."""
    values, base, _ = case
    n, instance, bandit = len(base), scaled_instance(), FixedDraw(np.array(values))
    state = scaled_state(instance, bandit, n)
    rows = rows_of(np.array(base)[:, None])
    decision = turn.decide(stream(), instance, bandit, state, rows)
    whole = everything(decision, *ran(instance, decision, rows))
    for i in range(n):
        one = rows.take(np.array([i]))
        alone = turn.decide(stream(), instance, bandit, state, one)
        parts = everything(alone, *ran(instance, alone, one))
        for many, single in zip(whole, parts, strict=True):
            assert many[i : i + 1].tobytes() == single.tobytes()


@QUIET
@given(CASES)
def test_permuting_units_permutes_results(
    case: tuple[list[list[float]], list[float], list[int]],
) -> None:
    """Rows in another order give the same results in that order."""
    values, base, order = case
    n, instance, bandit = len(base), scaled_instance(), FixedDraw(np.array(values))
    state = scaled_state(instance, bandit, n)
    rows = rows_of(np.array(base)[:, None])
    decision = turn.decide(stream(), instance, bandit, state, rows)
    whole = everything(decision, *ran(instance, decision, rows))
    mixed = rows.take(np.array(order))
    other = turn.decide(stream(), instance, bandit, state, mixed)
    parts = everything(other, *ran(instance, other, mixed))
    for many, permuted in zip(whole, parts, strict=True):
        assert many[order].tobytes() == permuted.tobytes()


# The null action


def test_a_veto_runs_the_null_action_at_its_declared_worth() -> None:
    """Denied categories are worth the declared null, and where only they are left it runs.

    Draws 0.9, 0.2 and 0, the first arm denied, null worth 0.5: the denied arm is the best
    proposal. Null worth 0.1: the second arm is. The null action is the third category.
    """
    rows = rows_of(np.zeros((1, 1)))
    for mean, best in ((0.5, 0), (0.1, 1)):
        instance = choosing(
            3, gate=PolicyFilter(denied=(0,)), null=NullAction(action=(2.0,), mean=mean)
        )
        decision = decided(instance, [[0.9, 0.2, 0.0]], rows)
        assert decision.worth.tolist() == [[mean, 0.2, 0.0]]
        assert decision.arm.tolist() == [best]
        verdict, executed = ran(instance, decision, rows)
        assert verdict.status.tolist() == [VETOED if best == 0 else PASSED]
        assert executed.is_null.tolist() == [best == 0]
        assert executed.action.tolist() == [[2.0 if best == 0 else 1.0]]


def test_the_null_worth_may_hang_on_the_context() -> None:
    """A null action from context columns (the last gain) runs with that row's numbers."""
    instance = pricing(
        gate=Bounds(low=500.0, outside="veto"),
        null=NullAction(columns=("base",), mean=lambda x: 2.0 * x[:, 0]),
    )
    rows = rows_of([[100.0], [30.0]])
    decision = decided(instance, np.ones((2, 3)), rows)
    assert decision.worth.tolist() == [[200.0] * 3, [60.0] * 3]
    _, executed = ran(instance, decision, rows)
    assert executed.action.tolist() == [[100.0], [30.0]]
    assert executed.is_null.all()
    assert not executed.is_own.any()


# What fails closed


def test_a_gate_that_raises_in_expect_costs_only_its_row() -> None:
    """Where `expect` raises the row is worth the null action; other rows stay as they were."""
    instance = pricing(gate=Fickle(150.0, faces=("expect",)), null=NullAction(mean=-3.0))
    base = np.array([[100.0], [200.0], [120.0]])
    values = np.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.1, 0.5, 0.2]])
    decision = decided(instance, values, rows_of(base))
    assert decision.worth[1].tolist() == [-3.0] * 3
    for i in (0, 2):
        alone = decided(instance, values[i : i + 1], rows_of(base[i : i + 1]))
        assert decision.worth[i].tobytes() == alone.worth[0].tobytes()
        assert decision.arm[i] == alone.arm[0]


@pytest.mark.parametrize(
    "gate",
    [FickleRule(150.0), Fickle(150.0), Fickle(150.0, faces=("apply", "expect", "moved"))],
    ids=["hard gate", "own kind", "moved too"],
)
def test_a_gate_that_raises_vetoes_its_row_and_never_stops_the_batch(gate: Any) -> None:
    """A gate that raises in one row vetoes that row, with the reason; the others run."""
    instance = pricing(gate=gate)
    rows = rows_of([[100.0], [200.0], [120.0]])
    decision = decided(instance, [[0.1, 0.2, 0.3]] * 3, rows)
    assert decision.arm[[0, 2]].tolist() == [2, 2]
    verdict, executed = ran(instance, decision, rows)
    assert verdict.status.tolist() == [PASSED, VETOED, PASSED]
    assert executed.is_null.tolist() == [False, True, False]
    reason = instance.chain.reason(verdict, rows, 1)
    assert reason == "fickle (version 1): the gate raised RuntimeError: boom; vetoed"


@dataclass(frozen=True)
class Default(HardGate):
    """A careless hard gate: what is no number becomes 100."""

    name: str = "default"
    version: str = "1"

    def project(self, e: Array, rows: Rows) -> Array:
        return np.nan_to_num(e, nan=100.0)

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        return "100 by default"


def test_no_gate_behind_a_veto_brings_an_action_back() -> None:
    """Bounds veto all; a careless gate behind them turns NaN into 100. Still nothing runs, and
    in selection every arm is worth the null action."""
    veto = Bounds(low=500.0, outside="veto")
    instance = pricing(gate=Chain((veto, Default())), null=NullAction(mean=-3.0))
    rows = rows_of([[100.0], [120.0]])
    decision = decided(instance, np.ones((2, 3)), rows)
    verdict, executed = ran(instance, decision, rows)
    assert verdict.status.tolist() == [VETOED, VETOED]
    assert executed.is_null.all()
    assert decision.worth.tolist() == [[-3.0] * 3] * 2


@dataclass(frozen=True)
class Answering(HardGate):
    """A gate that answers what it is told to."""

    kind: str = "inf"
    name: str = "odd"
    version: str = "2"

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        return "it says so"

    def apply(self, draws: Array | None, e: Array, rows: Rows) -> tuple[Array, Array]:
        status = np.full(e.shape[0], MODIFIED, dtype=np.int8)
        if self.kind == "inf":
            return np.full(e.shape, np.inf), status
        if self.kind == "shape":
            return e[:, 0], status
        if self.kind == "none":
            return None, status  # type: ignore[return-value]
        return e, np.full(e.shape[0], 9, dtype=np.int8)

    def project(self, e: Array, rows: Rows) -> Array:
        return e


@pytest.mark.parametrize("kind", ["inf", "shape", "none", "status"])
def test_nonsense_from_a_gate_is_a_veto(kind: str) -> None:
    """An infinite action, a wrong shape, no answer or an unknown status: vetoed, and said why."""
    instance = pricing(gate=Chain((Answering(kind),)))
    rows = rows_of([[100.0], [120.0]])
    verdict, executed = ran(instance, decided(instance, np.ones((2, 3)), rows), rows)
    assert verdict.status.tolist() == [VETOED, VETOED]
    assert executed.is_null.all()
    for row in range(2):
        reason = instance.chain.reason(verdict, rows, row)
        assert reason.startswith("odd (version 2): the gate")
        assert reason.endswith("vetoed")


@dataclass(frozen=True)
class Broken(ConstantScaler):
    """δ is NaN where base is above 150."""

    def predict(self, state: Any, owner: Array, x: Array) -> Array:
        delta = super().predict(state, owner, x)
        delta[x[:, 0] > 150.0] = np.nan
        return delta


@pytest.mark.parametrize("gate", [Chain(), Cap(limit=500.0)], ids=["open", "cap"])
def test_an_action_that_is_not_finite_is_vetoed(gate: Any) -> None:
    """Where δ breaks nothing runs, and the reason says so; the row beside it is untouched."""
    instance = pricing(scaler=Broken(), gate=gate, null=NullAction(mean=1.5))
    rows = rows_of([[200.0], [100.0]])
    decision = decided(instance, np.ones((2, 3)), rows)
    assert decision.worth[0].tolist() == [1.5] * 3
    assert decision.worth[1].round(9).tolist() == [80.0, 100.0, 120.0]
    verdict, executed = ran(instance, decision, rows)
    assert verdict.status.tolist() == [VETOED, PASSED]
    assert executed.is_null.tolist() == [True, False]
    reason = instance.chain.reason(verdict, rows, 0)
    assert reason == "the composed action is not finite; vetoed"


@dataclass(frozen=True, eq=False)
class Buggy(FixedDraw):
    """A learner with a bug in its value function."""

    def value(self, draw: Array, located: Located) -> Array:
        raise ZeroDivisionError("a bug")


@pytest.mark.parametrize("gate", [Chain(), Cap(limit=112.0)], ids=["open", "cap"])
def test_a_bug_in_the_learner_is_not_a_veto(gate: Any) -> None:
    """A failure in the value function is raised as ours, never taken for a gate's refusal."""
    instance, bandit = pricing(gate=gate), Buggy(np.ones((1, 3)))
    state = turn.init(instance, bandit, np.zeros(1, dtype=np.int64))
    with pytest.raises(ValuationError, match="ZeroDivisionError: a bug"):
        turn.decide(stream(), instance, bandit, state, rows_of([[100.0]]))
