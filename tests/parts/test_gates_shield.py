"""Shields: what is not safe is replaced by what is, and nothing else runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.composition import ActionColumn, Multiply
from gdcb.context import Number, Schema
from gdcb.declaration import _build
from gdcb.errors import InvalidInput
from gdcb.gates import Bounds, Chain, PolicyFilter, Shield
from gdcb.gates.rules import filled
from gdcb.instance import Instance
from gdcb.records import MODIFIED, PASSED, VETOED, Rows
from tests.parts.builders import blank, bytes_of, fixed, parabola, rng_of, rows

NUMBER, CHOICE = ActionColumn("dose"), ActionColumn("act", ("allow", "warn", "remove"))


def below(limit: float) -> Callable[[Array, Rows], Array]:
    """Call safe what lies below a limit plus the context's first number."""

    def is_safe(e: Array, some: Rows) -> Array:
        return np.asarray(e[..., 0] < limit + some.x[:, :1])

    return is_safe


def last(some: Rows) -> Array:
    """Fall back to the context's second number."""
    return some.x[:, 1:2]


def through(gate: Any, e: Any, some: Rows) -> tuple[Any, list[int]]:
    """Return what leaves a chain of one gate, and the statuses."""
    proposed = np.asarray(e, dtype=float)
    verdict = Chain((gate,)).apply((None,), proposed, some)
    return verdict.action.tolist(), verdict.status.tolist()


def test_a_predicate_by_hand() -> None:
    """Limit 5 + x₀. Row 0: 4 < 5 passes. Row 1: 6 ≥ 5, the fallback 2 runs. Row 2: 6 < 5 + 2.

    Row 3: 6 ≥ 5 and so is the fallback 9: nothing runs.
    """
    gate = Shield(below(5.0), last)
    some = rows([[0.0, 2.0], [0.0, 2.0], [2.0, 2.0], [0.0, 9.0]])
    left, status = through(gate, [[4.0], [6.0], [6.0], [6.0]], some)
    np.testing.assert_array_equal(np.ravel(left), [4.0, 2.0, 6.0, np.nan])
    assert status == [PASSED, MODIFIED, PASSED, VETOED]


def test_a_declared_rule_by_hand() -> None:
    """Where x is at most 90 nothing above 0 is safe: 2 becomes 0 at 80 and at 90, stays at 91."""
    gate = Shield(fallback=(0.0,), high=0.0, when=0, at_most=90.0)
    left, status = through(gate, [[2.0]] * 3 + [[0.0]], rows([[80.0], [90.0], [91.0], [80.0]]))
    assert left == [[0.0], [0.0], [2.0], [0.0]]
    assert status == [MODIFIED, MODIFIED, PASSED, PASSED]


def test_a_category_is_replaced_and_its_severity_stays() -> None:
    """From a severity of 0.9 on 'allow' (0) is not safe and becomes 'remove' (2); 0.95 stays."""
    gate = Shield(fallback=(2.0,), denied=(0,), when=0, at_least=0.9)
    left, status = through(
        gate, [[0.0, 0.95], [1.0, 0.95], [0.0, 0.2]], rows([[0.95], [0.95], [0.2]])
    )
    assert left == [[2.0, 0.95], [1.0, 0.95], [0.0, 0.2]]
    assert status == [MODIFIED, PASSED, PASSED]


def test_a_fallback_of_context_columns_and_of_all_columns() -> None:
    """One number a column replaces both; they come from the context or as numbers."""
    some = rows([[1.0, 7.0]])
    for gate in (
        Shield(high=3.0, fallback_columns=(0, 1)),
        Shield(high=3.0, fallback=(1.0, 7.0)),
        Shield(high=3.0, fallback=lambda some: some.x),
    ):
        assert through(gate, [[4.0, 5.0]], some)[0] == [[1.0, 7.0]]


def test_without_a_fallback_it_vetoes() -> None:
    """The predicate alone: nothing runs where it says no."""
    gate = Shield(below(5.0))
    assert through(gate, [[4.0], [6.0]], blank(2))[1] == [PASSED, VETOED]
    assert gate.reason(np.array([6.0]), np.array([np.nan]), blank(1)) == (
        "the predicate says that it is not safe"
    )


def test_predicate_and_limits_must_both_agree() -> None:
    """Below 5 by the predicate and at least 2 by the limit: only 3 is safe."""
    gate = Shield(below(5.0), low=2.0)
    assert through(gate, [[1.0], [3.0], [6.0]], blank(3))[1] == [VETOED, PASSED, VETOED]


ANSWERS: dict[str, tuple[Any, str]] = {
    "raises": (lambda e, some: 1 // 0, "the gate raised ZeroDivisionError"),
    "numbers": (lambda e, some: np.ones(e.shape[:2]), "expected an array of booleans, got float64"),
    "a bool": (lambda e, some: True, "expected an array of booleans, got bool"),
    "none": (lambda e, some: None, "expected an array of booleans, got NoneType"),
    "wrong shape": (lambda e, some: np.ones(e.shape, bool), "expected shape (1, 1), got (1, 1, 1)"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_broken_predicate_vetoes_in_both_faces(name: str) -> None:
    """Whatever is not a boolean an action lets nothing run, says why, and is worth the null."""
    predicate, message = ANSWERS[name]
    chain = Chain((Shield(predicate, (0.0,)), Bounds(high=9.0)))
    verdict = chain.apply((None, None), np.array([[1.0], [2.0]]), blank(2))
    assert verdict.status.tolist() == [VETOED, VETOED]
    assert message in chain.reason(verdict, blank(2), 0)
    value = parabola(2)
    worth = chain.expect(value, np.ones((2, 3, 1)), blank(2))
    np.testing.assert_array_equal(worth, np.repeat(value.null[:, None], 3, axis=1))


@pytest.mark.parametrize(
    "fallback",
    [
        lambda some: 1 // 0,
        lambda some: np.full((some.n, 1), np.nan),
        lambda some: np.full((some.n, 1), np.inf),
        lambda some: np.zeros((some.n, 3)),
        lambda some: np.zeros(some.n + 5),
    ],
)
def test_a_broken_fallback_vetoes_only_who_needs_it(fallback: Any) -> None:
    """The safe row passes; the row that needs the fallback gets nothing."""
    left, status = through(Shield(below(5.0), fallback), [[4.0], [6.0]], blank(2))
    assert status == [PASSED, VETOED]
    assert left[0] == [4.0]


def test_a_predicate_is_not_asked_about_nothing() -> None:
    """Rows that were vetoed before, and arms beside them, reach the predicate as numbers."""
    asked = []

    def no_nan(e: Array, some: Rows) -> Array:
        asked.append(e)
        return np.asarray(e[..., 0] < 5.0)

    chain = Chain((PolicyFilter(require=0, at_least=1.0), Shield(no_nan, (1.0,))))
    some = rows([[1.0], [0.0]])
    verdict = chain.apply((None, None), np.array([[7.0], [7.0]]), some)
    np.testing.assert_array_equal(verdict.action, [[1.0], [np.nan]])
    chain.expect(parabola(2), np.full((2, 3, 1), 7.0), some)
    assert all(np.isfinite(e).all() for e in asked)


def test_filled_by_hand() -> None:
    """NaN takes the place of the row's first number that runs, or of zero."""
    e = np.array([[[np.nan], [3.0]], [[np.nan], [np.inf]]])
    known, runs = filled(e)
    assert known[..., 0].tolist() == [[3.0, 3.0], [0.0, 0.0]]
    assert runs.tolist() == [[False, True], [False, False]]


def shields() -> st.SearchStrategy[Shield]:
    """Draw shields on two action columns and two context columns."""
    number = st.floats(-8, 8).map(lambda v: round(v, 1))

    def build(a: float, b: float, at: float, to: float, kind: int, when: bool) -> Shield:
        low, high = min(a, b), max(a, b)
        condition: dict[str, Any] = {"when": 1, "at_least": at} if when else {}
        predicate = below(to) if kind == 1 else None
        if kind == 2:
            return Shield(predicate, low=low, high=high, fallback_columns=(0,), **condition)
        return Shield(predicate, (to,) if kind == 0 else last, low=low, high=high, **condition)

    return st.builds(build, number, number, number, number, st.integers(0, 2), st.booleans())


@given(gate=shields(), seed=st.integers(0, 999))
@fixed
def test_properties_of_a_shield(gate: Shield, seed: int) -> None:
    """What leaves is safe or nothing; it passes again; rows keep apart; both faces agree."""
    rng = rng_of(seed)
    e, some = rng.uniform(-9, 9, size=(20, 3, 2)), rows(rng.uniform(-9, 9, size=(20, 2)))
    e[3, 1] = np.nan
    before = bytes_of(e)
    left = gate.project(e, some)
    assert bytes_of(e) == before
    runs = np.isfinite(left).all(axis=-1)
    assert np.isnan(left[~runs]).all()
    assert gate.is_safe(np.nan_to_num(left), some)[runs].all()
    kept = np.isfinite(e).all(axis=-1) & gate.is_safe(np.nan_to_num(e), some)
    assert (left[kept] == e[kept]).all()
    np.testing.assert_array_equal(gate.project(left, some), left)
    for i in (0, 3, 19):
        one = slice(i, i + 1)
        np.testing.assert_array_equal(gate.project(e[one], some.take(one))[0], left[i])
    value = parabola(20)
    np.testing.assert_array_equal(Chain((gate,)).expect(value, e, some), value(left))


def test_reasons_say_what_was_not_safe() -> None:
    """The limit, the context, the category or the predicate; and what runs."""
    gate = Shield(fallback=(0.0,), high=1.0, denied=(-3,), when=0, at_most=90.0)
    some, entered = rows([[80.0]]), np.array([2.0])
    assert gate.reason(entered, np.array([0.0]), some) == (
        "2, above the limit 1, is not safe where the context has 80; the fallback runs"
    )
    assert gate.reason(entered, np.array([np.nan]), some) == (
        "2, above the limit 1, is not safe where the context has 80, and neither is the fallback"
    )
    assert gate.reason(np.array([-3.0]), np.array([0.0]), some) == (
        "category -3 is not safe where the context has 80; the fallback runs"
    )
    assert gate.reason(entered, entered, some) == "it is safe"
    low = Shield(low=3.0, fallback=(4.0,))
    assert low.reason(entered, np.array([4.0]), some) == (
        "2, below the limit 3, is not safe; the fallback runs"
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (Shield, "nothing says what is safe"),
        (lambda: Shield(low=2.0, high=1.0), "low 2.0 is above high 1.0"),
        (lambda: Shield(high=float("nan")), "high: expected a number, got NaN"),
        (lambda: Shield(high=1.0, at_least=3.0), "need 'when'"),
        (lambda: Shield(high=1.0, when=0, at_least=3.0, at_most=2.0), "is above at_most"),
        (lambda: Shield(high=1.0, fallback=(1.0,), fallback_columns=(0,)), "give it once"),
        (lambda: Shield(high=1.0, fallback=(np.nan,)), "expected finite numbers"),
        (lambda: Shield(high=1.0, fallback_columns="a"), "a tuple of names"),  # type: ignore[arg-type]
        (
            lambda: Shield(high=1.0, fallback=(1.0, 2.0, 3.0)).check((NUMBER,)),
            "expected 1 number, got 3",
        ),
        (lambda: Shield(high=1.0).check((CHOICE,)), "is a category, not a number"),
        (lambda: Shield(denied=(1,), fallback=(3.0,)).check((CHOICE,)), "expected 0 to 2, got 3"),
        (
            lambda: Shield(denied=(0, 5)).check((CHOICE,)),
            r"'shield': denied: 'act' has no category 5; it has 0 \(allow\), 1 \(warn\)",
        ),
        (lambda: Shield(denied=(-1,)).check((CHOICE,)), "'act' has no category -1"),
        (
            lambda: Shield(denied=(0.5,)).check((CHOICE,)),  # type: ignore[arg-type]
            "gate.denied: expected a tuple of whole numbers",
        ),
        (
            lambda: Shield(denied=(True,)).check((CHOICE,)),
            "gate.denied: expected a tuple of whole numbers",
        ),
        (lambda: Shield(denied=5).check((CHOICE,)), "expected a tuple"),  # type: ignore[arg-type]
        (lambda: Shield(denied=(1,)).check((NUMBER,)), "'dose' is a number, it has no categories"),
        (lambda: Shield(denied=(1,), fallback=(0.5,)).check((CHOICE,)), "expected 0 to 2, got 0.5"),
        (lambda: Shield(high=1.0, action=2).check((NUMBER,)), "no action column 2"),
    ],
)
def test_bad_settings_are_refused(build: Callable[[], Any], message: str) -> None:
    """Settings that cannot work are refused by name."""
    with pytest.raises(InvalidInput, match=message):
        build()


def test_good_settings_fit() -> None:
    """A category may fall back to one of its levels, numbers to any number."""
    Shield(denied=(0,), fallback=(2.0,)).check((CHOICE, NUMBER))
    Shield(denied=(0,), fallback=(2.0, 7.5)).check((CHOICE, NUMBER))
    Shield(below(1.0), last).check((NUMBER,))


def test_a_shield_from_a_file() -> None:
    """A table without Python: names of context columns are bound when the instance is built."""
    table = {"when": "glucose", "at_most": 90, "high": 0.0, "fallback": [0.0]}
    gate = _build("gates[0]", Shield, table)
    instance = Instance(
        context=Schema({"age": Number(0, 120), "glucose": Number(0, 400)}),
        arms=ArmList(values=(1.0, 2.0)),
        composition=Multiply(names=("dose",)),
        gate=gate,
    )
    some = rows([[50.0, 80.0], [50.0, 120.0]])
    verdict = instance.chain.apply((None,), np.full((2, 1), 2.0), some)
    assert verdict.action.tolist() == [[0.0], [2.0]]
