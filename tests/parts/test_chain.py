"""Chains of gates: the trail, failing closed in both faces, holds, and what is learned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

from gdcb import records
from gdcb.agent import Agent
from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.bandits import GaussianThompson
from gdcb.composition import ActionColumn, Identity
from gdcb.context import Number, Schema
from gdcb.errors import InvalidInput, OutOfMemory, ValuationError
from gdcb.gates import (
    Approval,
    Bounds,
    Cap,
    CategoryKernel,
    Chain,
    HardGate,
    Hold,
    NumberKernel,
    PolicyFilter,
    Shield,
    SimulatedPerson,
    Value,
)
from gdcb.instance import Instance
from gdcb.records import (
    EXPIRED,
    HELD,
    MODIFIED,
    NOT_REACHED,
    PASSED,
    VETOED,
    Rows,
    Verdict,
)
from tests.parts.builders import Worth, blank, bytes_of, parabola, rows, stream

Answer = Callable[[Array, Rows], tuple[Array, Array]]
Expect = Callable[[Value, Array, Rows], Array]


def same(e: Array, some: Rows) -> tuple[Array, Array]:
    """Let everything pass."""
    return e, np.zeros(e.shape[0], dtype=np.int8)


def worth(value: Value, e: Array, some: Rows) -> Array:
    """Value the proposal."""
    return value(e)


@dataclass(frozen=True)
class Custom:
    """A gate made of two functions, which notes what it was asked."""

    per: ClassVar[str] = "group"
    is_hard: ClassVar[bool] = True
    is_person: ClassVar[bool] = False

    answers: Answer = same
    expects: Expect = worth
    name: str = "custom"
    version: str = "3"
    asked: list[Array] = field(default_factory=list)

    def check(self, columns: Sequence[Any]) -> None: ...

    def draw(self, rng: Any, n: int) -> Array | None:
        return None

    def moved(self, e: Array, rows: Rows) -> Array:
        self.answers(e[:, 0], rows)
        return np.zeros(e.shape[:2])

    def init_kernel(self, n_owners: int, n_columns: int) -> Any:
        return None

    def learn(
        self, kernel: Any, owner: Array, rows: Rows, entered: Array, left: Array, status: Array
    ) -> None: ...

    def apply(self, draws: Array | None, e: Array, rows: Rows) -> tuple[Array, Array]:
        self.asked.append(e.copy())
        return self.answers(e, rows)

    def expect(self, value: Value, e: Array, rows: Rows, kernel: Any = None) -> Array:
        return self.expects(value, e, rows)

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        return "custom reason"


def run(chain: Chain, e: Any, some: Rows, seed: int = 1) -> Verdict:
    """Draw and send proposals through a chain."""
    return chain.apply(chain.draw(stream(seed), some.n), np.asarray(e, dtype=float), some)


# The trail -----------------------------------------------------------------------------------

CHAIN = Chain(
    (
        PolicyFilter(require=0, at_least=1.0, name="fit"),
        Cap(limit=300.0),
        Bounds(low=50.0, high=500.0, outside="veto"),
    )
)
CONTEXT = rows([[1.0], [1.0], [0.0], [1.0], [1.0]])
PROPOSED = np.array([[120.0], [400.0], [120.0], [20.0], [np.inf]])


def test_trail_statuses_and_gate_by_hand() -> None:
    """120 passes; 400 is capped at gate 1; row 2 is unfit at gate 0; 20 is vetoed at gate 2.

    An infinite proposal is vetoed before the first gate. What stands behind a veto is NaN and
    not reached.
    """
    verdict = run(CHAIN, PROPOSED, CONTEXT)
    nan, inf = np.nan, np.inf
    np.testing.assert_array_equal(
        verdict.trail[..., 0],
        [
            [120, 120, 120, 120],
            [400, 400, 300, 300],
            [120, nan, nan, nan],
            [20, 20, 20, nan],
            [inf, nan, nan, nan],
        ],
    )
    off = NOT_REACHED
    assert verdict.statuses.tolist() == [
        [PASSED, PASSED, PASSED],
        [PASSED, MODIFIED, PASSED],
        [VETOED, off, off],
        [PASSED, PASSED, VETOED],
        [off, off, off],
    ]
    assert verdict.status.tolist() == [PASSED, MODIFIED, VETOED, VETOED, VETOED]
    assert verdict.gate.tolist() == [-1, 1, 0, 2, -1]
    np.testing.assert_array_equal(verdict.action[:, 0], [120, 300, nan, nan, nan])
    assert verdict.faults == {(4, -1): "the composed action is not finite"}


def test_reasons_name_rule_version_and_why() -> None:
    """One sentence a row, with the rule that had the last word."""
    verdict = run(CHAIN, PROPOSED, CONTEXT)
    assert [CHAIN.reason(verdict, CONTEXT, i) for i in range(5)] == [
        "every gate let it pass",
        "cap (version 1): 400 exceeds the cap of 300",
        "fit (version 1): the context has 0 where at least 1 is required",
        "bounds (version 1): 20 is below the lower limit 50",
        "the composed action is not finite; vetoed",
    ]


def test_the_last_gate_that_acted_has_the_last_word() -> None:
    """Lowered by the cap, raised again by the bounds: the bounds are named."""
    chain = Chain((Cap(limit=10.0), Bounds(low=20.0)))
    verdict = run(chain, [[50.0]], blank(1))
    assert verdict.action[0, 0] == 20.0
    assert verdict.gate.tolist() == [1]
    assert verdict.statuses.tolist() == [[MODIFIED, MODIFIED]]


def test_no_gates_let_everything_pass() -> None:
    """The open gate passes what is finite and vetoes what is not; `expect` is the value."""
    verdict = run(Chain(), [[1.0], [np.nan]], blank(2))
    assert verdict.status.tolist() == [PASSED, VETOED]
    assert Chain().reason(verdict, blank(2), 0) == "ungated: there is no gate"
    value, e = parabola(2), np.ones((2, 3, 1))
    assert (Chain().expect(value, e, blank(2)) == value(e)).all()


def test_the_proposals_are_not_changed() -> None:
    """A chain leaves its input's bytes."""
    e = PROPOSED.copy()
    run(CHAIN, e, CONTEXT)
    CHAIN.expect(parabola(5), e[:, None], CONTEXT)
    assert bytes_of(e) == bytes_of(PROPOSED)


def test_vetoed_rows_never_reach_later_gates() -> None:
    """Later gates see NaN in their place, their answer is ignored, and rows beside are as alone."""
    later = Custom(lambda e, some: (np.full(e.shape, 7.0), np.full(len(e), MODIFIED, np.int8)))
    chain = Chain((PolicyFilter(require=0, at_least=1.0), later))
    verdict = run(chain, [[1.0], [2.0], [3.0]], rows([[1.0], [0.0], [1.0]]))
    assert 2.0 not in np.concatenate(later.asked)
    np.testing.assert_array_equal(verdict.action[:, 0], [7.0, np.nan, 7.0])
    assert verdict.statuses[1].tolist() == [VETOED, NOT_REACHED]
    assert verdict.gate.tolist() == [1, 0, 1]


def test_a_vetoed_row_does_not_make_a_later_gate_fail() -> None:
    """A gate that chokes on nothing (NaN) still answers for the rows that reach it."""

    def no_nan(e: Array, some: Rows) -> tuple[Array, Array]:
        if np.isnan(e).any():
            raise ValueError("cannot read nothing")
        return e + 1.0, np.full(e.shape[0], MODIFIED, dtype=np.int8)

    chain = Chain((PolicyFilter(require=0, at_least=1.0), Custom(no_nan)))
    verdict = run(chain, [[1.0], [2.0]], rows([[1.0], [0.0]]))
    np.testing.assert_array_equal(verdict.action[:, 0], [2.0, np.nan])
    assert not verdict.faults


def test_a_row_s_luck_does_not_depend_on_who_was_vetoed_before() -> None:
    """Persons draw for every row: vetoing one row leaves the others' verdicts, byte by byte."""
    chain = Chain((PolicyFilter(require=0, at_least=1.0), approval(), Bounds(high=9.0)))
    e = np.linspace(0, 5, 30)[:, None]
    x = np.ones((30, 1))
    all_fit = run(chain, e, rows(x))
    x[7] = 0.0
    one_out = run(chain, e, rows(x))
    rest = np.arange(30) != 7
    assert bytes_of(all_fit.action[rest], all_fit.statuses[rest]) == bytes_of(
        one_out.action[rest], one_out.statuses[rest]
    )


def test_value_behind_a_veto_is_the_null_action_s() -> None:
    """Where the first gate vetoes, later gates add nothing: the null's worth stands."""
    value, e = parabola(2), np.ones((2, 3, 1))
    raises = Custom(expects=lambda value, e, some: value(e) + 100.0)
    chain = Chain((PolicyFilter(require=0, at_least=1.0), raises))
    out = chain.expect(value, e, rows([[1.0], [0.0]]))
    np.testing.assert_array_equal(out[0], value(e)[0] + 100.0)
    np.testing.assert_array_equal(out[1], np.full(3, value.null[1]))


def approval(name: str = "approval", kernel: Any = None) -> Approval:
    """Return a person who approves half of all, vetoes some, and otherwise wants 4 ∓ 1."""

    def half(e: Array, some: Rows) -> Array:
        return np.full(e.shape[:2], 0.5)

    def four(some: Rows) -> Array:
        return np.full((some.n, 1), 4.0)

    person = SimulatedPerson(half, four, spread=1.0, veto=0.2)
    return Approval(person, kernel or NumberKernel(), name=name)


# Failing closed ------------------------------------------------------------------------------


def broken_always(e: Array, some: Rows) -> tuple[Array, Array]:
    raise RuntimeError("out of order")


def wrong_shape(e: Array, some: Rows) -> tuple[Array, Array]:
    return np.zeros((e.shape[0], e.shape[1] + 1)), np.zeros(e.shape[0], dtype=np.int8)


def wrong_status_shape(e: Array, some: Rows) -> tuple[Array, Array]:
    return e, np.zeros(e.shape[0] + 1, dtype=np.int8)


def infinite(e: Array, some: Rows) -> tuple[Array, Array]:
    return np.full(e.shape, np.inf), np.full(e.shape[0], MODIFIED, dtype=np.int8)


def nan_passed(e: Array, some: Rows) -> tuple[Array, Array]:
    return np.full(e.shape, np.nan), np.zeros(e.shape[0], dtype=np.int8)


def status(code: int, dtype: Any) -> Answer:
    def answers(e: Array, some: Rows) -> tuple[Array, Array]:
        return e, np.full(e.shape[0], code, dtype=dtype)

    return answers


def nothing_at_all(e: Array, some: Rows) -> Any:
    return None


def of_type(dtype: Any) -> Answer:
    """Answer with what is no real number."""

    def answers(e: Array, some: Rows) -> tuple[Array, Array]:
        return (e + 1.0).astype(dtype), np.zeros(e.shape[0], dtype=np.int8)

    return answers


def writes(e: Array, some: Rows) -> tuple[Array, Array]:
    some.x[:] = 0.0
    return e, np.zeros(e.shape[0], dtype=np.int8)


ANSWERS: dict[str, tuple[Answer, str]] = {
    "object": (of_type(object), "expected actions in real numbers, got object"),
    "complex": (of_type(complex), "expected actions in real numbers, got complex128"),
    "boolean": (of_type(bool), "expected actions in real numbers, got bool"),
    "text": (of_type(str), "expected actions in real numbers, got <U"),
    "writes": (writes, "the gate raised ValueError: assignment destination is read-only; vetoed"),
    "raises": (broken_always, "the gate raised RuntimeError: out of order; vetoed"),
    "wrong shape": (wrong_shape, "the gate raised InvalidInput: expected shapes"),
    "wrong status shape": (wrong_status_shape, "the gate raised InvalidInput: expected shapes"),
    "infinite": (infinite, "the gate answered with an action that is not finite; vetoed"),
    "nan passed": (nan_passed, "the gate answered with an action that is not finite; vetoed"),
    "expired": (status(4, np.int8), "a gate answers with whole numbers"),
    "code 9": (status(9, np.int8), "a gate answers with whole numbers"),
    "code -1": (status(-1, np.int8), "a gate answers with whole numbers"),
    "float code": (status(0, np.float64), "a gate answers with whole numbers"),
    "none": (nothing_at_all, "the gate raised TypeError"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_broken_gate_vetoes(name: str) -> None:
    """Whatever nonsense a gate answers, nothing runs, later gates are not reached, it is said."""
    answers, message = ANSWERS[name]
    later = Custom(name="later")
    chain = Chain((Cap(limit=300.0), Custom(answers), later))
    verdict = run(chain, [[100.0], [400.0]], blank(2))
    assert verdict.status.tolist() == [VETOED, VETOED]
    assert verdict.gate.tolist() == [1, 1]
    assert np.isnan(verdict.action).all()
    assert verdict.statuses[:, 1:].tolist() == [[VETOED, NOT_REACHED]] * 2
    assert sorted(verdict.faults) == [(0, 1), (1, 1)]
    for row in range(2):
        reason = chain.reason(verdict, blank(2), row)
        assert reason.startswith("custom (version 3): ")
        assert message in reason
    assert np.isnan(np.concatenate(later.asked or [np.full((1, 1), np.nan)])).all()


def no_room(*_: Any) -> Any:
    raise MemoryError("Unable to allocate 2 GiB for an array")


@dataclass(frozen=True)
class Roomless(Cap):
    """A hard gate whose projection finds no room."""

    def project(self, e: Array, rows: Rows) -> Array:
        return np.asarray(no_room())

    def init_kernel(self, n_owners: int, n_columns: int) -> Any:
        return []

    def learn(self, *_: Any) -> None:
        no_room()


@pytest.mark.parametrize("before", [(), (approval(),)], ids=["alone", "behind a person"])
@pytest.mark.parametrize(
    "gate", [Custom(no_room, no_room), Roomless(limit=9.0)], ids=["custom", "hard"]
)
def test_a_gate_without_memory_gives_no_verdict(gate: Any, before: tuple[Any, ...]) -> None:
    """A veto was written down for good, of what the next request would have let pass."""
    chain = Chain((*before, gate, Bounds(high=9.0)))
    e, asked = np.linspace(0.0, 5.0, 12).reshape(3, 4, 1), (blank(3), blank(1))
    for some in asked:
        with pytest.raises(OutOfMemory, match="more memory than there is"):
            chain.apply(chain.draw(stream(1), some.n), e[: some.n, 0], some)
        with pytest.raises(OutOfMemory):
            chain.moved(e[: some.n], some)
        with pytest.raises(OutOfMemory):
            chain.expect(parabola(some.n), e[: some.n], some)


def test_a_gate_that_finds_no_room_to_learn_stops_the_fold() -> None:
    """It must learn the same whenever the ledger is read."""
    chain, some = Chain((Roomless(limit=9.0),)), blank(2)
    verdict = run(Chain((Cap(limit=9.0),)), [[1.0], [2.0]], some)
    with pytest.raises(MemoryError):
        chain.learn(chain.init_kernels(1, 1, 1), some, verdict)


@dataclass(frozen=True)
class Stricter(Bounds):
    """Bounds with a further rule in `apply`, as a user's subclass may have."""

    def apply(self, draws: Array | None, e: Array, rows: Rows) -> tuple[Array, Array]:
        return np.full(e.shape, np.nan), np.full(e.shape[0], VETOED, dtype=np.int8)


def test_a_gate_s_own_apply_has_the_word() -> None:
    """A subclass that vetoes in `apply` what its `project` would pass, vetoes."""
    verdict = run(Chain((Stricter(high=9.0),)), [[1.0], [2.0]], blank(2))
    assert verdict.status.tolist() == [VETOED, VETOED]
    assert np.isnan(verdict.action).all()


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_other_real_numbers_are_taken_as_64_bit_ones(dtype: Any) -> None:
    """2 and 3 as whole numbers or in 32 bits run as 2.0 and 3.0."""
    verdict = run(Chain((Custom(of_type(dtype)),)), [[1.0], [2.0]], blank(2))
    assert verdict.action.dtype == np.float64
    assert verdict.action.tolist() == [[2.0], [3.0]]


@dataclass(frozen=True)
class Projection(HardGate):
    """A hard gate made of one function."""

    of: Callable[[Array], Any] = abs
    name: str = "projection"
    keeps_nan: ClassVar[bool] = True

    def project(self, e: Array, rows: Rows) -> Array:
        left: Array = self.of(e)
        return left


@pytest.mark.parametrize("after", [(), (Cap(limit=99.0),)], ids=["alone", "before a cap"])
@pytest.mark.parametrize(
    "of",
    [
        lambda e: e + 1j,
        lambda e: (e + 1.0).astype(object),
        lambda e: (e + 1.0)[..., :1],
        lambda e: np.concatenate((e, e)),
        lambda e: None,
        lambda e: (e + 1.0).tolist(),
    ],
    ids=["complex", "object", "a column less", "rows twice", "none", "list"],
)
def test_a_projection_to_no_actions_vetoes_in_both_faces(
    of: Callable[[Array], Any], after: tuple[Any, ...]
) -> None:
    """What is no array (N, M, D) of real numbers does not run, and is worth the null action."""
    chain, value = Chain((Projection(of), *after)), parabola(2)
    e = np.array([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])
    verdict = run(chain, e[:, 0], blank(2))
    assert verdict.status.tolist() == [VETOED] * 2
    worth = chain.expect(value, e, blank(2))
    assert (worth == value.null[:, None]).all()


def test_questions_about_no_actions_are_the_gate_s_fault() -> None:
    """A learner that cannot value complex numbers, rows or columns there are not, is not asked."""

    def strict(e: Array, centre: Array) -> Array:
        assert e.dtype == np.float64
        assert (e.shape[0], e.shape[2]) == (centre.shape[0], 1)
        return e[..., 0]

    value = Worth(strict, np.zeros(2), np.array([-7.0, -8.0]))
    questions: list[Expect] = [
        lambda value, e, some: np.abs(value(e + 1j)),
        lambda value, e, some: value(np.concatenate((e, e), axis=2)),
        lambda value, e, some: value(np.concatenate((e, e))),
        lambda value, e, some: value(e[..., 0]),
        lambda value, e, some: value(e) + 0j,
        lambda value, e, some: value(e).astype(object),
    ]
    for question in questions:
        worth = Chain((Custom(expects=question),)).expect(value, np.ones((2, 3, 1)), blank(2))
        assert (worth == value.null[:, None]).all()


@pytest.mark.parametrize(
    "moved",
    [np.zeros(7), np.full((2, 3), np.nan), np.full((2, 3), -1.0), np.zeros((2, 3), complex), None],
    ids=["wrong shape", "nan", "negative", "complex", "none"],
)
def test_distances_that_are_none_are_infinite(moved: Any) -> None:
    """`moved` answers (N, M) numbers of at least 0, or the gate counts as one that vetoes."""

    class Odd(Custom):
        def moved(self, e: Array, rows: Rows) -> Array:
            return moved if e.shape[:2] == (2, 3) else moved[:0]  # type: ignore[no-any-return]

    assert np.isinf(Chain((Odd(),)).moved(np.ones((2, 3, 1)), blank(2))).all()


def test_a_gate_cannot_write_to_the_context() -> None:
    """x and hidden are read-only to gates, in every face, and stay writable to who made them."""
    x, hidden = np.full((2, 1), 5.0), np.full((2, 1), 6.0)

    def spoils(value: Value, e: Array, some: Rows) -> Array:
        assert some.hidden is not None
        some.hidden[:] = 0.0
        return value(e)

    for gate in (Custom(writes, spoils), Custom(writes, spoils, name="other")):
        some = Rows(np.zeros(2, int), np.zeros(2, int), x, hidden=hidden)
        value = parabola(2)
        worth = Chain((gate,)).expect(value, np.ones((2, 3, 1)), some)
        assert (worth == value.null[:, None]).all()
        assert np.isinf(Chain((gate,)).moved(np.ones((2, 3, 1)), some)).all()
        assert run(Chain((gate,)), [[1.0], [2.0]], some).status.tolist() == [VETOED] * 2
        assert (x == 5.0).all()
        assert (hidden == 6.0).all()
    x[:], hidden[:] = 1.0, 1.0
    assert (some.x == 1.0).all()


def raise_always(value: Value, e: Array, some: Rows) -> Array:
    raise RuntimeError("out of order")


EXPECTS: dict[str, Expect] = {
    "raises": raise_always,
    "wrong shape": lambda value, e, some: value(e)[:, :-1],
    "too many rows": lambda value, e, some: np.vstack((value(e), value(e))),
    "nan": lambda value, e, some: np.full(e.shape[:2], np.nan),
    "infinite": lambda value, e, some: np.full(e.shape[:2], np.inf),
    "none": lambda value, e, some: None,  # type: ignore[return-value,dict-item]
}


@pytest.mark.parametrize("before", [(), (approval(),)], ids=["alone", "behind a person"])
@pytest.mark.parametrize("name", EXPECTS)
def test_a_broken_gate_is_worth_the_null_action(name: str, before: tuple[Any, ...]) -> None:
    """In `expect` a gate that fails or answers nonsense makes every arm worth the null action."""
    chain = Chain((*before, Custom(expects=EXPECTS[name]), Bounds(high=9.0)))
    value, e = parabola(3), np.linspace(0, 5, 12).reshape(3, 4, 1)
    out = chain.expect(value, e, blank(3))
    np.testing.assert_allclose(out, np.repeat(value.null[:, None], 4, axis=1), rtol=1e-12)


def fails_where_negative(e: Array, some: Rows) -> tuple[Array, Array]:
    if (some.x[:, 0] < 0).any():
        raise KeyError("no such customer")
    return np.minimum(e, 3.3), np.where(e[:, 0] > 3.3, MODIFIED, PASSED).astype(np.int8)


def fails_where_negative_too(value: Value, e: Array, some: Rows) -> Array:
    if (some.x[:, 0] < 0).any():
        raise KeyError("no such customer")
    return value(np.minimum(e, 3.3))


PARTLY = Custom(fails_where_negative, fails_where_negative_too)


@pytest.mark.parametrize("person", [False, True], ids=["alone", "beside a person"])
def test_a_gate_that_fails_on_one_row_answers_the_others(person: bool) -> None:
    """Row 2 fails and is vetoed; the others have the bytes that they have without it."""
    gates: tuple[Any, ...] = (approval(), PARTLY, Bounds(high=9.0)) if person else (PARTLY,)
    chain = Chain(gates)
    e = np.linspace(0.0, 5.0, 8)[:, None]
    x = np.ones((8, 1))
    sound = run(chain, e, rows(x))
    x[2] = -1.0
    verdict = run(chain, e, rows(x))
    rest = np.arange(8) != 2
    for name in ("action", "status", "gate", "trail", "statuses"):
        assert bytes_of(getattr(verdict, name)[rest]) == bytes_of(getattr(sound, name)[rest])
    assert np.isnan(verdict.action[2]).all()
    assert verdict.status[2] == VETOED
    assert list(verdict.faults) == [(2, int(person))]
    assert not sound.faults


@pytest.mark.parametrize("person", [False, True], ids=["alone", "behind a person"])
def test_a_gate_that_fails_on_one_row_values_the_others(person: bool) -> None:
    """In `expect` row 2 is worth the null action; the others keep their bytes."""
    gates: tuple[Any, ...] = (approval(), PARTLY) if person else (PARTLY,)
    chain = Chain(gates)
    e, value = np.linspace(0.0, 5.0, 20).reshape(5, 4, 1), parabola(5)
    x = np.ones((5, 1))
    sound = chain.expect(value, e, rows(x))
    x[2] = -1.0
    out = chain.expect(value, e, rows(x))
    rest = np.arange(5) != 2
    assert bytes_of(out[rest]) == bytes_of(sound[rest])
    np.testing.assert_allclose(out[2], np.full(4, value.null[2]), rtol=1e-12)


def test_both_faces_agree_on_which_rows_fail() -> None:
    """A row is worth the null action exactly where `apply` lets nothing run."""
    x = np.array([[1.0], [-1.0], [1.0]])
    e, value = np.array([[1.0], [2.0], [5.0]]), parabola(3)
    verdict = run(Chain((PARTLY,)), e, rows(x))
    out = Chain((PARTLY,)).expect(value, e[:, None], rows(x))[:, 0]
    np.testing.assert_array_equal(out, value(verdict.action[:, None])[:, 0])


def small(e: Array, some: Rows) -> Array:
    """Call safe what lies below 2, and fail on everything asked with a number above 3."""
    if (e[..., 0] > 3.0).any():
        raise RuntimeError("no convergence")
    return np.asarray(e[..., 0] < 2.0)


@pytest.mark.parametrize("behind", [False, True], ids=["alone", "behind a person"])
def test_an_arm_on_which_a_gate_fails_costs_the_others_nothing(behind: bool) -> None:
    """Of 1, 2.5 and 4 the gate lets 1 pass, moves 2.5 to 0 and fails on 4: null there alone.

    How far it moves them: 0, 2.5 and infinitely far.
    """
    gate = Shield(predicate=small, fallback=(0.0,))
    chain = Chain((Approval(), gate) if behind else (gate,))
    e = np.tile([[[1.0], [2.5], [4.0]]], (2, 1, 1))
    value = parabola(2)
    expected = value(np.tile([[[1.0], [0.0], [np.nan]]], (2, 1, 1)))
    np.testing.assert_array_equal(chain.expect(value, e, blank(2)), expected)
    assert chain.moved(e, blank(2)).tolist() == [[0.0, 2.5, np.inf]] * 2
    alone = [run(Chain((gate,)), e[:, j], blank(2)).status.tolist() for j in range(3)]
    assert alone == [[PASSED] * 2, [MODIFIED] * 2, [VETOED] * 2]


def test_a_broken_gate_does_not_break_the_tie() -> None:
    """`moved` fails closed as well: a gate that raises moves every action infinitely far.

    A round asks for it exactly where a broken gate has made all arms equal.
    """
    gates = (Cap(limit=3.0), Custom(broken_always))
    moved = Chain(gates).moved(np.ones((2, 3, 1)), blank(2))
    assert np.isinf(moved).all()


def test_moved_adds_up_over_the_hard_gates() -> None:
    """5 is 2 above the cap of 3 and 4 above the bound of 1: 6 in all; a veto is infinite."""
    chain = Chain((Cap(limit=3.0), approval(), Bounds(high=1.0)))
    assert chain.moved(np.array([[[5.0], [1.0]]]), blank(1)).tolist() == [[6.0, 0.0]]
    vetoes = Chain((Bounds(high=1.0, outside="veto"),))
    assert vetoes.moved(np.array([[[5.0], [1.0]]]), blank(1)).tolist() == [[np.inf, 0.0]]


# Categories -----------------------------------------------------------------------------------

CHOICE = (ActionColumn("choice", ("a", "b", "c")), ActionColumn("dose"))


def answer(kind: float) -> Answer:
    """Put a category in the place of every proposal's."""

    def changed(e: Array, some: Rows) -> tuple[Array, Array]:
        left = e.copy()
        left[:, 0] = kind
        return left, np.full(e.shape[0], MODIFIED, dtype=np.int8)

    return changed


def asks(kind: float) -> Expect:
    """Value the same category."""

    def valued(value: Value, e: Array, some: Rows) -> Array:
        left = e.copy()
        left[..., 0] = kind
        return value(left)

    return valued


@pytest.mark.parametrize("after", [(), (Bounds(action=1, high=5.0),)])
@pytest.mark.parametrize("kind", [9.0, 3.0, 0.5, -1.0])
def test_a_category_that_is_none_of_the_levels_vetoes(kind: float, after: tuple[Any, ...]) -> None:
    """Three levels: 9, 3, a half and −1 are none of them, in both faces; 2 is one."""
    gates = (Custom(answer(kind), asks(kind)), *after)
    chain = Chain(gates).for_actions(CHOICE)
    e = np.array([[1.0, 4.0], [2.0, 6.0]])
    verdict = run(chain, e, blank(2))
    assert (verdict.status == VETOED).all()
    assert np.isnan(verdict.action).all()
    said = f"{kind:g} for the category 'choice', expected a whole number from 0 to 2; vetoed"
    assert said in verdict.faults[0, 0]
    assert said in chain.reason(verdict, blank(2), 1)
    value = parabola(2)
    found = chain.expect(value, e[:, None], blank(2))
    assert found[:, 0].tolist() == value.null.tolist()
    fine = Chain((Custom(answer(2.0), asks(2.0)), *after)).for_actions(CHOICE)
    assert (run(fine, e, blank(2)).action[:, 0] == 2.0).all()
    assert (fine.expect(value, e[:, None], blank(2))[:, 0] != value.null).all()


@pytest.mark.parametrize("n", [3, 300])
def test_only_rows_with_an_unknown_category_are_vetoed(n: int) -> None:
    """A fallback from the context: rows where it is a level run it, the others run nothing."""
    gate = Shield(denied=(0,), fallback_columns=(0,))
    chain, some = Chain((gate,)).for_actions(CHOICE[:1]), rows(np.resize([1.0, 0.5, 9.0], (n, 1)))
    verdict = run(chain, np.zeros((n, 1)), some)
    assert verdict.status.tolist() == np.resize([MODIFIED, VETOED, VETOED], n).tolist()
    value = parabola(n)
    found = chain.expect(value, np.zeros((n, 1, 1)), some)
    ran = value(np.ones((n, 1, 1)))
    assert (found[::3] == ran[::3]).all()
    assert (found[1::3, 0] == value.null[1::3]).all()


def test_a_composed_category_that_is_none_of_the_levels_is_vetoed() -> None:
    """Even without a gate; it is worth the null action too."""
    chain = Chain().for_actions(CHOICE)
    e = np.array([[1.0, 4.0], [7.0, 4.0], [np.nan, 4.0]])
    verdict = run(chain, e, blank(3))
    assert verdict.status.tolist() == [PASSED, VETOED, VETOED]
    assert "has 7 for the category 'choice'" in chain.reason(verdict, blank(3), 1)
    assert "is not finite" in chain.reason(verdict, blank(3), 2)
    value = parabola(3)
    assert chain.expect(value, e[:, None], blank(3))[1:, 0].tolist() == value.null[1:].tolist()


def test_a_chain_is_fitted_to_actions_without_being_changed() -> None:
    """One chain may serve two domains: 3 is no level of the first, and a number of the second."""
    chain = Chain((Cap(limit=9.0, action=1),))
    first, second = chain.for_actions(CHOICE), chain.for_actions((CHOICE[1], CHOICE[1]))
    e = np.array([[3.0, 4.0]])
    assert [run(c, e, blank(1)).status[0] for c in (first, second)] == [VETOED, PASSED]
    with pytest.raises(InvalidInput, match="no action column 1"):
        chain.for_actions(CHOICE[:1])


def test_an_unknown_category_does_not_resume() -> None:
    """An edit to a category that there is not is refused; a veto (NaN) is none."""
    kernel = CategoryKernel(n_categories=3)
    chain = Chain((Approval(kernel=kernel), PolicyFilter(require=0))).for_actions(CHOICE)
    held = run(chain, [[1.0, 2.0]], blank(1))
    draws = chain.draw(stream(1), 1)
    with pytest.raises(InvalidInput, match="resume: the action has 3 for the category 'choice'"):
        chain.resume(draws, held, blank(1), np.array([3.0, 2.0]), MODIFIED)
    with pytest.raises(InvalidInput, match="resume: the action has 3 for the category 'choice'"):
        chain.resume(draws, held, blank(1), np.array([3.0, 2.0]), EXPIRED)
    refused = chain.resume(draws, held, blank(1), np.array([np.nan, np.nan]), VETOED)
    assert refused.status[0] == VETOED


@pytest.mark.parametrize("kind", [9.0, 0.5, -1.0])
def test_an_agent_runs_nothing_where_the_fallback_is_no_category(kind: float) -> None:
    """All is denied and the context's fallback is no level: a veto, its reason, and no error."""
    instance = Instance(
        context=Schema({"last": Number()}),
        arms=ArmList(names=("a", "b", "c")),
        composition=Identity(),
        gate=Shield(denied=(0, 1, 2), fallback_columns=("last",)),
    )
    case = Agent(instance, GaussianThompson(), seed=1).decide({"last": kind})
    assert (case.status, case.executed) == ("vetoed", None)
    assert f"answered with {kind:g} for the category" in case.reason


def test_a_learner_s_failure_is_not_blamed_on_the_gate() -> None:
    """Where the value function itself fails, `expect` raises instead of vetoing everything."""

    def fails(e: Array, centre: Array) -> Array:
        raise ValuationError("the learner failed")

    value = Worth(fails, np.zeros(2), np.zeros(2))
    with pytest.raises(ValuationError, match="the learner failed"):
        Chain((Cap(limit=3.0),)).expect(value, np.ones((2, 1, 1)), blank(2))


# Holds ---------------------------------------------------------------------------------------

HOLDING = Chain((Cap(limit=300.0), Approval(Hold()), Bounds(low=50.0, high=500.0)))


def held(e: float = 400.0) -> Verdict:
    """Return one proposal, capped and then held."""
    return run(HOLDING, [[e]], blank(1))


def resume(verdict: Verdict, action: float, status: int, chain: Chain = HOLDING) -> Verdict:
    """Bring the person's answer."""
    draws = chain.draw(stream(1), 1)
    return chain.resume(draws, verdict, blank(1), np.array([action]), status)


def test_a_hold_stops_the_chain() -> None:
    """400 is capped at 300, then held at gate 1; the bounds are not reached and nothing runs."""
    verdict = held()
    assert verdict.status.tolist() == [HELD]
    assert verdict.gate.tolist() == [1]
    assert verdict.statuses.tolist() == [[MODIFIED, HELD, NOT_REACHED]]
    assert np.isnan(verdict.action).all()
    assert verdict.trail[0, 1, 0] == 300.0
    assert HOLDING.reason(verdict, blank(1), 0) == "approval (version 1): it waits for a person"


def test_approval_resumes_behind_the_hold() -> None:
    """Approved as it was: it runs at 300, and the cap has had the last word."""
    verdict = resume(held(), 300.0, PASSED)
    assert verdict.gate.tolist() == [0]
    assert verdict.statuses.tolist() == [[MODIFIED, PASSED, PASSED]]
    assert verdict.action.tolist() == [[300.0]]


def test_an_approved_proposal_that_the_cap_had_lowered_is_still_modified() -> None:
    """A straight run through gates that lower and then pass is MODIFIED; so is a resumed one.

    PASSED would credit the proposed arm (400) with the outcome of what ran (300).
    """
    straight = run(Chain((Cap(limit=300.0), Bounds(50.0, 500.0))), [[400.0]], blank(1))
    resumed = resume(held(400.0), 300.0, PASSED)
    assert straight.status.tolist() == [MODIFIED]
    assert resumed.status.tolist() == straight.status.tolist()


def test_an_unchanged_approval_passes_everything() -> None:
    """Nothing changed it before or after: PASSED, by no gate."""
    verdict = resume(held(100.0), 100.0, PASSED)
    assert verdict.status.tolist() == [PASSED]
    assert verdict.gate.tolist() == [-1]
    assert HOLDING.reason(verdict, blank(1), 0) == "every gate let it pass"


def test_an_edit_meets_the_next_gate_and_not_the_ones_before() -> None:
    """Edited to 900: the bounds lower it to 500, and the cap of 300 is not asked again."""
    first, last = Custom(name="first"), Custom(name="last")
    chain = Chain((first, Approval(Hold()), last, Bounds(high=500.0)))
    verdict = run(chain, [[400.0]], blank(1))
    assert len(first.asked) == 1
    last.asked.clear()  # a held row may show there as NaN, never as the proposal
    done = resume(verdict, 900.0, MODIFIED, chain)
    assert len(first.asked) == 1
    assert [e.tolist() for e in last.asked] == [[[900.0]]]
    assert done.action.tolist() == [[500.0]]
    assert done.gate.tolist() == [3]
    assert done.statuses.tolist() == [[PASSED, MODIFIED, PASSED, MODIFIED]]
    np.testing.assert_array_equal(done.trail[0, :, 0], [400.0, 400.0, 900.0, 900.0, 500.0])


def test_a_refusal_runs_nothing() -> None:
    """Vetoed by the person: later gates are not reached."""
    verdict = resume(held(), np.nan, VETOED)
    assert verdict.status.tolist() == [VETOED]
    assert verdict.gate.tolist() == [1]
    assert verdict.statuses.tolist() == [[MODIFIED, VETOED, NOT_REACHED]]
    assert np.isnan(verdict.action).all()
    assert "the person did not let it run" in HOLDING.reason(verdict, blank(1), 0)


def test_a_second_hold_holds_again() -> None:
    """Two persons: the first answer leads to the second hold, not past it."""
    chain = Chain((Approval(name="one"), Approval(name="two"), Bounds(high=500.0)))
    verdict = run(chain, [[100.0]], blank(1))
    assert verdict.gate.tolist() == [0]
    once = resume(verdict, 120.0, MODIFIED, chain)
    assert once.status.tolist() == [HELD]
    assert once.gate.tolist() == [1]
    assert once.statuses.tolist() == [[MODIFIED, HELD, NOT_REACHED]]
    assert np.isnan(once.action).all()
    twice = resume(once, 900.0, MODIFIED, chain)
    assert twice.action.tolist() == [[500.0]]
    assert twice.statuses.tolist() == [[MODIFIED, MODIFIED, MODIFIED]]


def test_resuming_leaves_the_held_verdict_as_it_was() -> None:
    """The held verdict can be resumed again, with the same result (replay)."""
    verdict = held()
    before = bytes_of(verdict.action, verdict.status, verdict.gate, verdict.trail, verdict.statuses)
    one, two = resume(verdict, 900.0, MODIFIED), resume(verdict, 900.0, MODIFIED)
    after = bytes_of(verdict.action, verdict.status, verdict.gate, verdict.trail, verdict.statuses)
    assert after == before
    assert bytes_of(one.action, one.trail) == bytes_of(two.action, two.trail)


def test_only_held_decisions_are_resumed() -> None:
    """A decision that was made is not made again."""
    verdict = resume(held(), 100.0, MODIFIED)
    with pytest.raises(InvalidInput, match="resume: the decision is not held"):
        resume(verdict, 100.0, PASSED)


# What is learned -----------------------------------------------------------------------------


def test_only_verdicts_of_the_person_are_learned() -> None:
    """Of six rows, one is unreached, one held and one faulty: three verdicts are counted."""
    chain = Chain((Cap(limit=300.0), Approval(Hold()), Bounds(high=500.0)))
    kernels = chain.init_kernels(1, 1, 1)
    assert [kernel is None for kernel in kernels] == [True, False, True]
    entered = np.full(6, 100.0)
    left = np.array([100.0, 130.0, np.nan, np.nan, np.nan, np.nan])
    trail = np.stack((entered, entered, left, left), axis=1)[..., None]
    off = NOT_REACHED
    trail[3, 1:] = np.nan
    statuses = np.array(
        [
            [PASSED, PASSED, PASSED],
            [PASSED, MODIFIED, PASSED],
            [PASSED, VETOED, off],
            [VETOED, off, off],
            [PASSED, HELD, off],
            [PASSED, VETOED, off],
        ],
        dtype=np.int8,
    )
    final = np.array([PASSED, MODIFIED, VETOED, VETOED, HELD, VETOED], dtype=np.int8)
    verdict = Verdict(left[:, None], final, trail, statuses, {(5, 1): "raised"})
    chain.learn(kernels, blank(6), verdict)
    assert kernels[1].counts.sum(axis=(0, 1)).tolist() == [1.0, 1.0, 1.0]
    assert kernels[1].sums.count.tolist() == [[1.0]]
    only = chain.init_kernels(1, 1, 1)
    kept = np.arange(3)
    chain.learn(
        only,
        blank(3),
        Verdict(left[kept, None], final[kept], trail[kept], statuses[kept], {}),
    )
    assert records.to_bytes(only[1]) == records.to_bytes(kernels[1])


def test_a_batch_without_a_verdict_teaches_nothing() -> None:
    """All held: the kernel keeps its bytes."""
    kernels = HOLDING.init_kernels(1, 1, 1)
    before = records.to_bytes(kernels[1])
    HOLDING.learn(kernels, blank(1), held())
    assert records.to_bytes(kernels[1]) == before
    HOLDING.learn(kernels, blank(1), resume(held(), 320.0, MODIFIED))
    assert records.to_bytes(kernels[1]) != before


@pytest.mark.parametrize("kernel", [NumberKernel(), CategoryKernel(n_categories=2)])
def test_an_expired_hold_teaches_the_gate_model(kernel: Any) -> None:
    """Thirty holds that nobody answered make a proposal worth less (§1: 'a veto or an
    expired hold teaches the gate model').
    """
    chain = Chain((Approval(Hold(), kernel), Bounds(low=-1e9)))
    kernels = chain.init_kernels(1, 1, 1)
    value, e = Worth(parabola(1).of, np.ones(1), np.full(1, -7.0)), np.ones((1, 1, 1))
    before = chain.expect(value, e, blank(1), kernels)[0, 0]
    for _ in range(30):
        waits = run(chain, [[1.0]], blank(1))
        gone = resume(waits, np.nan, EXPIRED, chain)
        assert gone.status.tolist() == [EXPIRED]
        assert np.isnan(gone.action).all()
        chain.learn(kernels, blank(1), gone)
    assert chain.expect(value, e, blank(1), kernels)[0, 0] < before - 1.0


@pytest.mark.parametrize("fallback", [100.0, 70.0], ids=["as proposed", "another"])
@pytest.mark.parametrize("kernel", [NumberKernel(), CategoryKernel(n_categories=200)])
def test_a_fallback_is_nobodys_answer(kernel: Any, fallback: float) -> None:
    """Nobody answered and a declared action ran: modified, and nobody approved or changed it."""
    chain = Chain((Approval(Hold(), kernel), Bounds(low=-1e9)))
    kernels = chain.init_kernels(1, 1, 1)
    before = records.to_bytes(kernels[0])
    gone = resume(run(chain, [[100.0]], blank(1)), fallback, EXPIRED, chain)
    assert gone.status.tolist() == [MODIFIED]
    assert gone.statuses.tolist() == [[EXPIRED, PASSED]]
    assert gone.action.tolist() == [[fallback]]
    assert chain.overridden(gone).tolist() == [False]
    chain.learn(kernels, blank(1), gone)
    assert records.to_bytes(kernels[0]) == before


def test_a_person_behind_an_expired_hold_is_heard() -> None:
    """One never answers, and 120 takes the place of 100; two then approves, changes or vetoes."""
    chain = Chain((Approval(name="one"), Approval(name="two"), Bounds(high=500.0)))
    waits = resume(run(chain, [[100.0]], blank(1)), 120.0, EXPIRED, chain)
    assert waits.status.tolist() == [HELD]
    assert waits.statuses.tolist() == [[EXPIRED, HELD, NOT_REACHED]]
    kernels = chain.init_kernels(1, 1, 1)
    alone = records.to_bytes(kernels[0])
    for action, status, whole, is_override in (
        (120.0, PASSED, MODIFIED, False),
        (90.0, MODIFIED, MODIFIED, True),
        (np.nan, VETOED, VETOED, False),
        (np.nan, EXPIRED, EXPIRED, False),
    ):
        done = resume(waits, action, status, chain)
        assert done.status.tolist() == [whole]
        assert done.statuses[0, :2].tolist() == [EXPIRED, status]
        assert np.array_equal(done.action, [[action]], equal_nan=True)
        assert chain.overridden(done).tolist() == [is_override]
        chain.learn(kernels, blank(1), done)
    assert records.to_bytes(kernels[0]) == alone
    assert kernels[1].counts.sum(axis=(0, 1)).tolist() == [1.0, 1.0, 2.0]


def test_a_simulated_fault_is_no_verdict() -> None:
    """A person whose answer raises on one row: that row is vetoed, and not learned as a veto."""

    def approve(e: Array, some: Rows) -> Array:
        if (some.x < 0).any():
            raise RuntimeError("offline")
        return np.ones(e.shape[:2])

    gate = Approval(SimulatedPerson(approve, lambda some: some.x), CategoryKernel(n_categories=2))
    chain = Chain((gate, Bounds(low=-1e9)))
    kernels = chain.init_kernels(1, 1, 1)
    before = kernels[0].counts.copy()
    some = rows([[1.0], [-1.0], [1.0]])
    verdict = run(chain, [[0.0], [1.0], [1.0]], some)
    chain.learn(kernels, some, verdict)
    gained = (kernels[0].counts - before)[0, 0]
    assert gained.tolist() == [[1, 0, 0], [0, 1, 0]]


@dataclass(frozen=True)
class Pupil(Custom):
    """A gate that notes which statuses it is taught."""

    taught: list[int] = field(default_factory=list)

    def init_kernel(self, n_owners: int, n_columns: int) -> Any:
        return self.taught

    def learn(
        self, kernel: Any, owner: Array, rows: Rows, entered: Array, left: Array, status: Array
    ) -> None:
        kernel.extend(status.tolist())


def test_gates_are_not_shown_held_and_unreached_rows() -> None:
    """A gate that asks for no verdict sees none: only the row that it passed is taught."""

    def hold_second(e: Array, some: Rows) -> tuple[Array, Array]:
        return e, np.where(e[:, 0] == 2.0, HELD, PASSED).astype(np.int8)

    chain = Chain((PolicyFilter(require=0, at_least=1.0), Pupil(hold_second)))
    some = rows([[1.0], [1.0], [0.0]])
    verdict = run(chain, [[1.0], [2.0], [3.0]], some)
    assert verdict.status.tolist() == [PASSED, HELD, VETOED]
    kernels = chain.init_kernels(1, 1, 1)
    chain.learn(kernels, some, verdict)
    assert kernels[1] == [PASSED]


def test_learning_can_start_behind_a_gate() -> None:
    """After a resume only the gates from `start` on are taught; earlier ones were before."""
    chain = Chain((approval("one"), approval("two"), Bounds(high=9.0)))
    verdict = run(chain, np.full((40, 1), 2.0), blank(40))
    kernels, fresh = chain.init_kernels(1, 1, 1), chain.init_kernels(1, 1, 1)
    chain.learn(kernels, blank(40), verdict, start=1)
    assert records.to_bytes(kernels[0]) == records.to_bytes(fresh[0])
    assert records.to_bytes(kernels[1]) != records.to_bytes(fresh[1])


def test_each_gate_learns_from_what_entered_it() -> None:
    """The second person's own number is learned from their edits, not from the first's."""
    chain = Chain((approval("one"), approval("two"), Bounds(high=9.0)))
    verdict = run(chain, np.full((400, 1), 2.0), blank(400))
    kernels = chain.init_kernels(1, 1, 1)
    chain.learn(kernels, blank(400), verdict)
    for i in (0, 1):
        seen = verdict.statuses[:, i]
        counted = kernels[i].counts.sum(axis=(0, 1))
        assert counted.tolist() == [(seen == code).sum() for code in (PASSED, MODIFIED, VETOED)]


def test_overrides_are_a_person_s_edits_that_run() -> None:
    """Edited and run: yes. Only capped, or edited and then vetoed: no."""
    chain = Chain((Cap(limit=300.0), Approval(Hold()), Bounds(50.0, 500.0, outside="veto")))
    for e, action, status, expected in (
        (400.0, 320.0, MODIFIED, True),
        (400.0, 300.0, PASSED, False),
        (100.0, 900.0, MODIFIED, False),
        (100.0, np.nan, VETOED, False),
    ):
        verdict = resume(run(chain, [[e]], blank(1)), action, status, chain)
        assert chain.overridden(verdict).tolist() == [expected]


# What each gate adds -------------------------------------------------------------------------


def test_what_a_cap_and_a_person_add_by_hand() -> None:
    """v(e) = −|e − 2|, e = 8. Bounds at 6 alone: v(6) = −4, v(8) = −6: the bounds add 2.

    A person who approves half and else runs 4, before the bounds: ½·v(6) + ½·v(4) = −3, so the
    person adds 1. A cap at 5 in front: ½·v(5) + ½·v(4) = −2.5, so the cap adds ½. In all
    −2.5 − v(8) = 3.5 = ½ + 1 + 2. Of a person nobody has watched nothing is known: 1, 0 and 2.
    """
    value = Worth(lambda e, centre: -np.abs(e[..., 0] - 2.0), np.zeros(1), np.full(1, -9.0))
    person = SimulatedPerson(lambda e, some: np.full(e.shape[:2], 0.5), lambda some: some.x + 4.0)
    chain = Chain((Cap(limit=5.0), Approval(person), Bounds(high=6.0)))
    e = np.array([[[8.0]]])
    assert chain.attribute(value, e, blank(1)).tolist() == [[[0.5, 1.0, 2.0]]]
    kernels = chain.init_kernels(1, 1, 1)
    assert chain.attribute(value, e, blank(1), kernels).tolist() == [[[1.0, 0.0, 2.0]]]


def test_what_a_gate_adds_depends_on_the_order() -> None:
    """Two caps that both lower 9: the one behind gets what both would do.

    v(e) = −e: the cap at 5 alone adds 4, the cap at 7 alone adds 2. 7 before 5: 0 and 4. 5 before
    7: 2 and 2.
    """
    value = Worth(lambda e, centre: -e[..., 0], np.zeros(1), np.zeros(1))
    e, low, high = np.array([[[9.0]]]), Cap(limit=5.0, name="low"), Cap(limit=7.0, name="high")
    assert Chain((high, low)).attribute(value, e, blank(1)).tolist() == [[[0.0, 4.0]]]
    assert Chain((low, high)).attribute(value, e, blank(1)).tolist() == [[[2.0, 2.0]]]


def test_what_the_gates_add_telescopes() -> None:
    """The parts sum to (Kv)(e) − v(e) within 1e-12: any chain, a veto, a fault, a kernel."""
    x = np.linspace(0.0, 3.0, 12)[:, None]
    x[5] = -1.0
    e, value = np.linspace(-2, 6, 48).reshape(12, 4, 1), parabola(12)
    e[3, 2] = np.nan
    fit = PolicyFilter(require=0, at_least=0.5, name="fit")
    for gates in (
        (),
        (Cap(limit=3.0),),
        (fit, approval(), PARTLY, Bounds(-1.0, 4.0)),
        (approval("one"), Bounds(-1.0, 4.0, outside="veto"), approval("two"), Cap(limit=9.0)),
    ):
        chain = Chain(gates)
        kernels = chain.init_kernels(1, 1, 1)
        for known in (None, kernels):
            parts = chain.attribute(value, e, rows(x), known)
            assert parts.shape == (12, 4, len(gates))
            total = chain.expect(value, e, rows(x), known) - value(e)
            np.testing.assert_allclose(parts.sum(axis=-1), total, rtol=0, atol=1e-12)


def test_a_broken_gate_adds_the_null_action_s_worth() -> None:
    """It makes everything nothing and adds null − v; gates in front change nothing."""
    value, e = parabola(2), np.linspace(0, 3, 6).reshape(2, 3, 1)
    chain = Chain((Cap(limit=2.0), Custom(expects=raise_always), Bounds(high=9.0)))
    parts = chain.attribute(value, e, blank(2))
    np.testing.assert_allclose(parts[..., 1], value.null[:, None] - value(e), atol=1e-12)
    np.testing.assert_array_equal(parts[..., [0, 2]], np.zeros((2, 3, 2)))


def test_counts_by_gate_and_status() -> None:
    """The trail of the hand example, counted: every row once a gate."""
    found = CHAIN.counts(run(CHAIN, PROPOSED, CONTEXT))
    some = {name: {word: n for word, n in by.items() if n} for name, by in found.items()}
    assert some == {
        "fit": {"passed": 3, "vetoed": 1, "not reached": 1},
        "cap": {"passed": 2, "modified": 1, "not reached": 2},
        "bounds": {"passed": 2, "vetoed": 1, "not reached": 2},
    }
    assert all(sum(by.values()) == 5 for by in found.values())
    assert HOLDING.counts(held())["approval"]["held"] == 1
    gone = HOLDING.counts(resume(held(), np.nan, EXPIRED))
    assert gone["approval"]["expired"] == 1


# Refusals ------------------------------------------------------------------------------------


def test_a_person_last_is_refused() -> None:
    """Where a person may put in a number of their own, a hard gate must close the chain."""
    with pytest.raises(InvalidInput, match="'approval' is a person and must be followed by a hard"):
        Chain((Cap(limit=3.0), Approval()))
    assert Chain((Cap(limit=3.0), Approval()), closed=False).has_person
    assert not Chain((Cap(limit=3.0),)).has_person


def test_names_must_differ() -> None:
    """Two gates of one name could not be told apart in a reason."""
    with pytest.raises(InvalidInput, match="names must differ, got cap, cap"):
        Chain((Cap(limit=3.0), Cap(limit=4.0)))


def test_kernels_belong_to_units_or_groups() -> None:
    """Two units in one group: the kernel per unit has two owners, the one per group has one."""
    chain = Chain(
        (Approval(per="unit", name="a"), Approval(per="group", name="b"), Bounds(low=0.0))
    )
    kernels = chain.init_kernels(2, 1, 1)
    assert [len(k.counts) for k in kernels if k is not None] == [2, 1]
    chain.learn(
        kernels,
        rows(np.zeros((1, 1)), unit=[1], group=[0]),
        Verdict(
            np.ones((1, 1)),
            np.zeros(1, np.int8),
            np.ones((1, 4, 1)),
            np.zeros((1, 3), np.int8),
            {},
        ),
    )
    assert kernels[0].counts.sum(axis=(1, 2)).tolist() == [0.0, 1.0]
    assert kernels[1].counts.sum(axis=(1, 2)).tolist() == [1.0]
