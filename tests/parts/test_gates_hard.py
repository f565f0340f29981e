"""Hard gates: limits, caps and rules, one by one and in random chains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.arrays import Array
from gdcb.composition import ActionColumn
from gdcb.errors import InvalidInput
from gdcb.gates import Bounds, Cap, Chain, HardGate, PolicyFilter
from gdcb.gates.base import status_of
from gdcb.records import MODIFIED, PASSED, VETOED, Rows
from tests.parts.builders import blank, bytes_of, fixed, parabola, rng_of, rows

NUMBER, CHOICE = ActionColumn("dose"), ActionColumn("act", ("allow", "remove"))

numbers = st.floats(-10, 10).map(lambda v: round(v, 2))


def one(value: float, gate: Any, x: Any = ((0.0,),)) -> tuple[float, int]:
    """Return what becomes of one action and its status."""
    left, status = gate.apply(None, np.array([[value]]), rows(x))
    return float(left[0, 0]), int(status[0])


# Bounds and caps -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "left", "status"),
    [
        (20.0, 50.0, MODIFIED),
        (50.0, 50.0, PASSED),
        (120.0, 120.0, PASSED),
        (400.0, 300.0, MODIFIED),
    ],
)
def test_bounds_project_by_hand(value: float, left: float, status: int) -> None:
    """[50, 300]: below goes to 50, above to 300, the ends and what lies between pass."""
    assert one(value, Bounds(low=50.0, high=300.0)) == (left, status)


@pytest.mark.parametrize(("value", "passes"), [(20.0, False), (50.0, True), (301.0, False)])
def test_bounds_veto_by_hand(value: float, passes: bool) -> None:
    """With `outside='veto'` nothing runs outside [50, 300]."""
    left, status = one(value, Bounds(low=50.0, high=300.0, outside="veto"))
    assert status == (PASSED if passes else VETOED)
    np.testing.assert_equal(left, value if passes else np.nan)


def test_cap_by_hand() -> None:
    """36 % is the cap: 40 % becomes 36 %, 36 % and less pass."""
    assert one(0.40, Cap(limit=0.36)) == (0.36, MODIFIED)
    assert one(0.36, Cap(limit=0.36)) == (0.36, PASSED)
    assert one(-5.0, Cap(limit=0.36)) == (-5.0, PASSED)


def test_limits_from_the_context_and_the_tighter_of_both() -> None:
    """low = max(1, x₀), high = min(9, x₁), row by row; the cap min(5, x₁)."""
    context = rows([[0.0, 8.0], [3.0, 20.0], [2.0, 2.0]])
    gate = Bounds(low=1.0, high=9.0, low_column=0, high_column=1)
    e = np.tile([[-100.0], [100.0]], (3, 1, 1))
    assert gate.project(e, context)[..., 0].tolist() == [[1.0, 8.0], [3.0, 9.0], [2.0, 2.0]]
    cap = Cap(limit=5.0, limit_column=1)
    assert cap.project(e, context)[:, 1, 0].tolist() == [5.0, 5.0, 2.0]


@given(low=numbers, high=numbers, e=numbers, outside=st.sampled_from(["project", "veto"]))
@fixed
def test_impossible_limits_veto(low: float, high: float, e: float, outside: str) -> None:
    """Where the context's lower limit is above the upper nothing runs, and the reason says so."""
    gate = Bounds(low_column=0, high_column=1, outside=outside)
    context = rows([[low, high]])
    left, status = gate.apply(None, np.array([[e, 7.0]]), context)
    if low > high:
        assert status.tolist() == [VETOED]
        reason = gate.reason(np.array([e, 7.0]), left[0], context)
        assert reason.startswith("no value is allowed: the lower limit")
    else:
        assert low <= left[0, 0] <= high or status[0] == VETOED


def hard_gates() -> st.SearchStrategy[Any]:
    """Draw hard gates on the first of two action columns and two context columns."""

    def bounds(a: float, b: float, columns: bool, outside: str) -> Bounds:
        low, high = min(a, b), max(a, b)
        if columns:
            return Bounds(low, high, 0, 1, outside=outside)
        return Bounds(low, high, outside=outside)

    def cap(limit: float, is_column: bool) -> Cap:
        return Cap(limit, 1 if is_column else None)

    def policy(denied: list[int], at_least: float, dear: bool) -> PolicyFilter:
        return PolicyFilter(
            denied=tuple(denied),
            cost=(1.0, 3.0, 5.0) if dear else (),
            budget=0 if dear else None,
            require=1,
            at_least=at_least,
        )

    return st.one_of(
        st.builds(bounds, numbers, numbers, st.booleans(), st.sampled_from(["project", "veto"])),
        st.builds(cap, numbers, st.booleans()),
        st.builds(policy, st.lists(st.integers(-3, 3), max_size=3), numbers, st.booleans()),
    )


def sample(seed: int, n: int = 40) -> tuple[Array, Rows]:
    """Return actions (n, 2), half of them whole numbers, and contexts (n, 2)."""
    rng = rng_of(seed)
    e = rng.uniform(-10, 10, size=(n, 2))
    e[::2] = e[::2].round()
    return e, rows(rng.uniform(-10, 10, size=(n, 2)))


@given(gate=hard_gates(), seed=st.integers(0, 999))
@fixed
def test_hard_gates_are_idempotent(gate: Any, seed: int) -> None:
    """What left a gate passes it a second time unchanged, and a veto stays a veto."""
    e, context = sample(seed)
    left, status = gate.apply(None, e, context)
    again, second = gate.apply(None, left, context)
    np.testing.assert_array_equal(again, left)
    assert (second[status != VETOED] == PASSED).all()
    assert (second[status == VETOED] == VETOED).all()


@given(gate=hard_gates(), seed=st.integers(0, 999))
@fixed
def test_both_faces_of_a_hard_gate_agree(gate: Any, seed: int) -> None:
    """`expect` is the value of what `apply` lets run, exactly, and `moved` how far it went."""
    e, context = sample(seed)
    value = parabola(40)
    left, status = gate.apply(None, e, context)
    np.testing.assert_array_equal(
        gate.expect(value, e[:, None], context)[:, 0], value(left[:, None])[:, 0]
    )
    moved = gate.moved(e[:, None], context)[:, 0]
    assert (np.isinf(moved) == (status == VETOED)).all()
    assert ((moved > 0) == (status != PASSED)).all()


@given(gate=hard_gates(), seed=st.integers(0, 999))
@fixed
def test_hard_gates_keep_rows_and_their_input_apart(gate: Any, seed: int) -> None:
    """A row's answer does not depend on the rows beside it, and the proposals are not changed."""
    e, context = sample(seed)
    before = bytes_of(e, context.x)
    left, status = gate.apply(None, e, context)
    assert bytes_of(e, context.x) == before
    for i in (0, 17, 39):
        row = gate.apply(None, e[i : i + 1], context.take(slice(i, i + 1)))
        np.testing.assert_array_equal(row[0][0], left[i])
        assert row[1][0] == status[i]


def named(gates: list[Any]) -> tuple[Any, ...]:
    """Give gates different names."""
    return tuple(type(g)(**(vars(g) | {"name": f"gate {i}"})) for i, g in enumerate(gates))


@given(
    gates=st.lists(hard_gates(), max_size=3),
    added=hard_gates(),
    at=st.integers(0, 3),
    seed=st.integers(0, 999),
)
@fixed
def test_adding_a_gate_never_lets_more_through(
    gates: list[Any], added: Any, at: int, seed: int
) -> None:
    """Wherever a gate is added, the set of actions that pass unchanged only shrinks."""
    e, context = sample(seed)

    def passes(some: list[Any]) -> Array:
        chain = Chain(named(some))
        return np.asarray(chain.apply((None,) * len(some), e, context).status == PASSED)

    before, after = passes(gates), passes([*gates[:at], added, *gates[at:]])
    assert not (after & ~before).any()
    assert (after == (before & passes([added]))).all()


@given(gates=st.lists(hard_gates(), min_size=1, max_size=3), seed=st.integers(0, 999))
@fixed
def test_nothing_runs_that_the_last_gate_has_not_passed(gates: list[Any], seed: int) -> None:
    """What a chain lets run would pass its last gate unchanged."""
    e, context = sample(seed)
    verdict = Chain(named(gates)).apply((None,) * len(gates), e, context)
    runs = verdict.status <= MODIFIED
    assert (np.isfinite(verdict.action).all(axis=1) == runs).all()
    _, status = gates[-1].apply(None, verdict.action, context)
    assert (status[runs] == PASSED).all()


# Policy --------------------------------------------------------------------------------------


def test_denied_categories_never_run() -> None:
    """Categories 1 and 2 are denied; 0 and 3 run."""
    gate = PolicyFilter(denied=(1, 2))
    left, status = gate.apply(None, np.arange(4.0)[:, None], blank(4))
    assert status.tolist() == [PASSED, VETOED, VETOED, PASSED]
    assert gate.reason(np.array([1.0]), left[1], blank(1)) == "category 1 is denied"


def test_the_budget_must_cover_the_cost() -> None:
    """Costs 1, 3 against budgets 2, 3, 0.5; a category without a cost is never covered."""
    gate = PolicyFilter(cost=(1.0, 3.0), budget=0)
    context = rows([[2.0], [3.0], [0.5]])
    e = np.tile(np.array([0.0, 1.0, 2.0, -1.0])[:, None], (3, 1, 1))
    runs = np.isfinite(gate.project(e, context)[..., 0])
    assert runs.tolist() == [
        [True, False, False, False],
        [True, True, False, False],
        [False, False, False, False],
    ]
    reason = gate.reason(np.array([1.0]), np.array([np.nan]), context)
    assert reason == "category 1 costs more than the budget of 2"


def test_the_context_must_allow_acting() -> None:
    """No bolus below 70 mg/dL: 69.9 vetoes, 70 does not."""
    gate = PolicyFilter(require=0, at_least=70.0)
    left, status = gate.apply(None, np.full((2, 1), 3.0), rows([[69.9], [70.0]]))
    assert status.tolist() == [VETOED, PASSED]
    assert np.isnan(left[0]).all()
    reason = gate.reason(np.array([3.0]), left[0], rows([[69.9]]))
    assert reason == "the context has 69.9 where at least 70 is required"
    assert gate.reason(np.array([3.0]), left[1], rows([[70.0]])) == "no rule forbids it"


def test_a_policy_vetoes_every_column() -> None:
    """A vetoed tool takes its examples and template with it."""
    left, _ = PolicyFilter(denied=(1,)).apply(None, np.array([[1.0, 4.0, 7.0]]), blank(1))
    assert np.isnan(left).all()


def test_rules_read_the_declared_action_column() -> None:
    """`action=1` judges the second column; the first is free."""
    e = np.array([[400.0, 1.0], [1.0, 400.0]])
    for gate in (Bounds(high=300.0, action=1), Cap(limit=300.0, action=1)):
        left, status = gate.apply(None, e, blank(2))
        assert left.tolist() == [[400.0, 1.0], [1.0, 300.0]]
        assert status.tolist() == [PASSED, MODIFIED]
    denied = PolicyFilter(denied=(1,), action=1).apply(None, e, blank(2))
    assert denied[1].tolist() == [VETOED, PASSED]


@pytest.mark.parametrize(
    ("gate", "value", "reason"),
    [
        (Bounds(50.0, 300.0), 400.0, "400 is above the upper limit 300"),
        (Bounds(50.0, 300.0), 20.0, "20 is below the lower limit 50"),
        (Bounds(50.0, 300.0), 60.0, "60 lies within 50 and 300"),
        (Cap(0.36), 0.4, "0.4 exceeds the cap of 0.36"),
        (Cap(0.36), 0.2, "0.2 is within the cap of 0.36"),
    ],
)
def test_reasons_name_the_limit(gate: Any, value: float, reason: str) -> None:
    """The sentence has the number and the limit."""
    entered = np.array([value])
    assert gate.reason(entered, entered, blank(1)) == reason


def test_status_of_by_hand() -> None:
    """Equal columns pass, other ones are modified, anything not finite is a veto."""
    entered = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0]])
    left = np.array([[1.0, 2.0], [1.0, 3.0], [1.0, np.nan], [np.inf, 2.0]])
    assert status_of(entered, left).tolist() == [PASSED, MODIFIED, VETOED, VETOED]
    assert status_of(entered, left).dtype == np.int8


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Bounds(low=2.0, high=1.0), "gate 'bounds': low 2.0 is above high 1.0"),
        (lambda: Bounds(low=float("nan")), "gate 'bounds': low: expected a number, got NaN"),
        (lambda: Bounds(1.0, float("nan")), "gate 'bounds': high: expected a number, got NaN"),
        (lambda: Bounds(outside="drop"), "gate.outside: expected one of project, veto"),
        (lambda: PolicyFilter(cost=(1.0,)), "gate 'policy': cost and budget go together"),
        (
            lambda: PolicyFilter(denied=(2,)).check((CHOICE,)),
            "gate 'policy': denied: 'act' has no category 2; it has 0",
        ),
        (lambda: PolicyFilter(denied=(0,)).check((NUMBER,)), "'dose' is a number, it has no"),
        (
            lambda: PolicyFilter(cost=(1.0,), budget=0).check((CHOICE,)),
            "cost: expected one number for each of the 2 categories of 'act', got 1",
        ),
        (
            lambda: PolicyFilter(cost=(1.0, 2.0, 3.0), budget=0).check((CHOICE,)),
            "cost: expected one number for each of the 2 categories of 'act', got 3",
        ),
        (lambda: PolicyFilter(cost=(1.0,), budget=0).check((NUMBER,)), "0 categories of 'dose'"),
        (lambda: PolicyFilter(budget=0), "gate 'policy': cost and budget go together"),
    ],
)
def test_bad_settings_are_refused(build: Callable[[], Any], message: str) -> None:
    """Settings that cannot work are refused by name."""
    with pytest.raises(InvalidInput, match=message):
        build()


def test_rules_about_categories_that_there_are_pass() -> None:
    """The second of two categories is denied, and both have their cost."""
    PolicyFilter(denied=(1,), cost=(1.0, 2.0), budget=0).check((CHOICE,))
    PolicyFilter(denied=(1,), action=1).check((NUMBER, CHOICE))
    PolicyFilter(require=0).check((NUMBER,))


def test_hard_gates_say_that_they_are_idempotent() -> None:
    """A gate that steps towards a setting, one step a time, says that it is not."""

    class Step(HardGate):
        is_idempotent: ClassVar[bool] = False

    assert HardGate.is_idempotent
    assert Bounds(high=9.0).is_idempotent
    assert not Step().is_idempotent


def test_a_hard_gate_draws_and_learns_nothing() -> None:
    """It is deterministic and known: no random numbers, no kernel."""
    gate: Any = Bounds(high=9.0)
    assert gate.draw(None, 5) is None
    assert gate.init_kernel(3, 1) is None
    assert gate.is_hard
    assert not gate.is_person
