"""Physical feasibility: points that were asked, how often, and how near they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.arrays import Array
from gdcb.composition import ActionColumn
from gdcb.declaration import _part
from gdcb.errors import InvalidInput
from gdcb.gates import Bounds, Chain, Physics, PolicyFilter
from gdcb.records import MODIFIED, PASSED, VETOED, Rows
from tests.parts.builders import blank, bytes_of, fixed, parabola, rng_of, rows

NUMBER, CHOICE = ActionColumn("shed"), ActionColumn("mode", ("a", "b"))


class Disc:
    """Feasible within a distance of the context's first number of the origin; notes its calls."""

    def __init__(self) -> None:
        self.calls: list[Array] = []

    def __call__(self, e: Array, some: Rows) -> Array:
        self.calls.append(e.copy())
        return np.asarray((e**2).sum(axis=-1) <= some.x[:, :1] ** 2)


def ring(e: Array, some: Rows) -> Array:
    """Feasible at most 1, or from 2 to 3: a set with a hole."""
    return np.asarray((e[..., 0] <= 1.0) | ((e[..., 0] >= 2.0) & (e[..., 0] <= 3.0)))


def one(gate: Physics, e: float, some: Rows | None = None) -> float:
    """Return what becomes of one number."""
    return float(gate.project(np.array([[[e]]]), some or blank(1))[0, 0, 0])


def test_bisection_by_hand() -> None:
    """From 3 towards 0, feasible up to 1: 1.5 no, 0.75 yes, 1.125 no, 0.9375 yes (t = 11/16)."""
    disc = Disc()
    gate = Physics(disc, (0.0,), tolerance=1 / 16)
    assert gate.n_calls == 6
    assert one(gate, 3.0, rows([[1.0]])) == 0.9375
    assert [float(call[0, 0, 0]) for call in disc.calls] == [3.0, 0.0, 1.5, 0.75, 1.125, 0.9375]


def test_a_grid_finds_the_nearest_of_its_points_across_a_hole() -> None:
    """From 5 towards 0 in five steps: 4 no, 3 yes. Bisection (2.5 yes, 3.75 no, …) agrees here.

    From 1.9, in the hole, ten steps of 0.19: 1.71 … 1.14 no, 0.95 yes.
    """
    assert one(Physics(ring, (0.0,), grid=5), 5.0) == 3.0
    assert one(Physics(ring, (0.0,), grid=10), 1.9) == pytest.approx(0.95)
    assert one(Physics(ring, (0.0,), tolerance=1e-9), 5.0) == pytest.approx(3.0)


def test_bisection_may_miss_the_nearest_where_there_is_a_hole() -> None:
    """From 4 towards 0 at 1/2: 2 is feasible. From 3.9 it finds 1: feasible, though 3 is nearer."""
    assert one(Physics(ring, (0.0,), tolerance=1e-9), 3.9) == pytest.approx(1.0)
    assert one(Physics(ring, (0.0,), grid=390), 3.9) == pytest.approx(3.0)


@pytest.mark.parametrize("grid", [0, 8])
def test_an_infeasible_safe_action_vetoes(grid: int) -> None:
    """Towards 1.5, in the hole: nothing runs, though 2 on the way is feasible."""
    gate = Physics(ring, (1.5,), grid=grid)
    assert np.isnan(one(gate, 3.5))
    assert one(gate, 2.5) == 2.5
    left, status = gate.apply(None, np.array([[3.5], [2.5]]), blank(2))
    assert status.tolist() == [VETOED, PASSED]
    assert gate.reason(np.array([3.5]), left[0], blank(1)) == (
        "it is not feasible, and neither is the safe action"
    )


def test_the_safe_action_comes_from_numbers_columns_or_a_function() -> None:
    """Towards (0, 1): as numbers, as context columns, as a function of the rows."""
    some, e = rows([[1.0, 0.0, 1.0]]), np.array([[[4.0, 1.0]]])
    exact = [
        Physics(Disc(), **settings, tolerance=1e-4).project(e, some).tolist()
        for settings in (
            {"towards": (0.0, 1.0)},
            {"towards_columns": (1, 2)},
            {"towards": lambda some: some.x[:, 1:]},
        )
    ]
    assert exact[0] == exact[1] == exact[2]
    assert exact[0][0][0][1] == 1.0


def test_one_number_moves_one_column() -> None:
    """The other columns keep every bit: 0.1 + 0.2 is not rounded on the way."""
    gate = Physics(lambda e, some: e[..., 1] <= 1.0, (0.0,), action=1)
    left = gate.project(np.array([[[0.1 + 0.2, 7.0]]]), blank(1))
    assert left[0, 0, 0] == 0.1 + 0.2
    assert 0.99 < left[0, 0, 1] <= 1.0


def test_a_file_cannot_declare_it() -> None:
    """A file holds no function; the message says how it is made."""
    with pytest.raises(InvalidInput, match=r"from Python only: Physics\(feasible=..., towards"):
        _part("gates[0]", "gate", {"part": "physics", "towards": [0.0]})


def test_columns_that_do_not_move_stay_as_proposed() -> None:
    """Towards (1, 0) by a function, the second column moves: the category keeps its level."""
    gate = Physics(
        lambda e, some: e[..., 1] <= 1.0,
        lambda some: np.tile([1.0, 0.0], (some.n, 1)),
        tolerance=0.125,
        action=1,
        moves=(1,),
    )
    gate.check((CHOICE, NUMBER))
    left = gate.project(np.array([[[0.0, 3.0], [1.0, 0.5]]]), blank(1))
    assert left.tolist() == [[[0.0, 0.75], [1.0, 0.5]]]
    said = gate.reason(np.array([0.0, 3.0]), left[0, 0], blank(1))
    assert said == "it is not feasible; moved 75.0% of the way to the safe action"
    Physics(ring, (1.0, 0.0), action=1, moves=(1,)).check((CHOICE, NUMBER))


def test_calls_are_bounded_and_only_about_what_is_infeasible() -> None:
    """12 calls at the default; after the first, only the 3 of 8 entries that are infeasible."""
    disc = Disc()
    gate = Physics(disc, (0.0,))
    assert gate.n_calls == 12
    e = np.array([0.5, 3.0, 0.1, 2.0, 0.2, 0.3, 9.0, 1.0]).reshape(4, 2, 1)
    gate.project(e, rows(np.ones((4, 1))))
    assert len(disc.calls) == 12
    assert [call.shape for call in disc.calls] == [(4, 2, 1)] + [(3, 1, 1)] * 11
    disc.calls.clear()
    gate.project(np.full((4, 2, 1), 0.5), rows(np.ones((4, 1))))
    assert len(disc.calls) == 1
    by_grid = Disc()
    Physics(by_grid, (0.0,), grid=7).project(e, rows(np.ones((4, 1))))
    assert [call.shape for call in by_grid.calls] == [(4, 2, 1), (3, 7, 1)]


def test_the_chain_projects_once_to_gate_and_once_to_value() -> None:
    """Solves are dear: `apply` and `expect` each ask no more often than one projection."""
    disc = Disc()
    chain = Chain((Physics(disc, (0.0,)), Bounds(high=9.0)))
    some = rows(np.ones((2, 1)))
    chain.apply((None, None), np.array([[3.0], [0.5]]), some)
    assert len(disc.calls) == 12
    disc.calls.clear()
    chain.expect(parabola(2), np.full((2, 3, 1), 4.0), some)
    assert len(disc.calls) == 12


@given(
    seed=st.integers(0, 999),
    grid=st.sampled_from([0, 0, 5]),
    tolerance=st.sampled_from([0.3, 1e-2, 1e-5]),
)
@fixed
def test_properties_of_the_projection(seed: int, grid: int, tolerance: float) -> None:
    """Returned points were said yes to; they are within tolerance of the boundary; idempotent.

    In a disc of radius r the segment from e to the origin leaves it at t = 1 − r/‖e‖.
    """
    rng = rng_of(seed)
    e, some = rng.normal(0, 3, size=(12, 3, 2)), rows(rng.uniform(0.2, 3.0, size=(12, 1)))
    e[2, 1] = np.nan
    before = bytes_of(e)
    disc = Disc()
    gate = Physics(disc, (0.0, 0.0), tolerance=tolerance, grid=grid)
    left = gate.project(e, some)
    assert bytes_of(e) == before
    asked = {point.tobytes() for call in disc.calls for point in call.reshape(-1, 2)}
    runs = np.isfinite(left).all(axis=-1)
    assert runs.sum() == 35
    assert all(point.tobytes() in asked for point in left[runs])
    assert Disc()(np.nan_to_num(left), some).all()
    size, radius = np.linalg.norm(np.nan_to_num(e, nan=1.0), axis=-1), some.x[:, :1]
    share = np.maximum(1.0 - radius / size, 0.0)
    moved = 1.0 - np.linalg.norm(left, axis=-1) / size
    slack = 1 / grid if grid else tolerance
    assert ((moved >= share - 1e-12) & (moved <= share + slack + 1e-12))[runs].all()
    np.testing.assert_array_equal(gate.project(left, some), left)
    for i in (0, 2, 11):
        row = gate.project(e[i : i + 1], some.take(slice(i, i + 1)))
        np.testing.assert_array_equal(row[0], left[i])
    value = parabola(12)
    np.testing.assert_array_equal(Chain((gate,)).expect(value, e, some), value(left))


ANSWERS: dict[str, tuple[Any, str]] = {
    "raises": (lambda e, some: 1 // 0, "the gate raised ZeroDivisionError"),
    "numbers": (lambda e, some: np.zeros(e.shape[:2]), "expected an array of booleans"),
    "wrong shape": (lambda e, some: np.ones((1, 9), bool), "expected shape (1, 1)"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_broken_solver_vetoes_in_both_faces(name: str) -> None:
    """It lets nothing run, says why, and makes every arm worth the null action."""
    feasible, message = ANSWERS[name]
    chain = Chain((Physics(feasible, (0.0,)),))
    verdict = chain.apply((None,), np.array([[1.0], [2.0]]), blank(2))
    assert verdict.status.tolist() == [VETOED, VETOED]
    assert message in chain.reason(verdict, blank(2), 1)
    value = parabola(2)
    worth = chain.expect(value, np.ones((2, 3, 1)), blank(2))
    np.testing.assert_array_equal(worth, np.repeat(value.null[:, None], 3, axis=1))


def test_a_solver_that_fails_on_one_row_answers_the_others() -> None:
    """The row whose context is negative is vetoed; the others get what they get alone."""

    def feasible(e: Array, some: Rows) -> Array:
        if (some.x < 0).any():
            raise RuntimeError("no convergence")
        return np.asarray(e[..., 0] <= 1.0)

    chain = Chain((Physics(feasible, (0.0,)),))
    verdict = chain.apply((None,), np.full((3, 1), 2.0), rows([[1.0], [-1.0], [1.0]]))
    assert verdict.status.tolist() == [MODIFIED, VETOED, MODIFIED]
    assert verdict.action[0, 0] == one(Physics(feasible, (0.0,)), 2.0)


def test_a_safe_action_that_is_no_number_vetoes() -> None:
    """NaN towards: the infeasible row gets nothing, the feasible one passes."""
    for grid in (0, 4):
        gate = Physics(ring, lambda some: np.full((some.n, 1), np.nan), grid=grid)
        assert np.isnan(one(gate, 1.5))
        assert one(gate, 0.5) == 0.5


def test_what_was_vetoed_before_is_not_solved() -> None:
    """NaN never reaches the solver."""
    disc = Disc()
    chain = Chain((PolicyFilter(require=0, at_least=1.0), Physics(disc, (0.0,))))
    verdict = chain.apply((None, None), np.full((2, 1), 5.0), rows([[1.0], [0.0]]))
    assert verdict.status.tolist() == [MODIFIED, VETOED]
    assert all(np.isfinite(call).all() for call in disc.calls)


def test_reasons_say_how_far_it_was_moved() -> None:
    """From 3 to 0.75 on the way to 0: three quarters."""
    gate = Physics(ring, (0.0,))
    assert gate.reason(np.array([3.0]), np.array([0.75]), blank(1)) == (
        "it is not feasible; moved 75.0% of the way to the safe action"
    )
    assert gate.reason(np.array([3.0]), np.array([3.0]), blank(1)) == "it is feasible"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Physics(None, (0.0,)), "gate.feasible: expected a function, got None"),  # type: ignore[arg-type]
        (lambda: Physics(ring), "towards: name a safe action"),
        (lambda: Physics(ring, (0.0,), (1,)), "give it once"),
        (lambda: Physics(ring, (0.0,), tolerance=0.0), "tolerance: expected a number > 0"),
        (lambda: Physics(ring, (0.0,), tolerance=0.7), "tolerance: expected a number > 0"),
        (lambda: Physics(ring, (0.0,), grid=-1), "grid: expected a number >= 0"),
        (lambda: Physics(ring, (0.0,), grid=2.5), "expected a whole number"),  # type: ignore[arg-type]
        (lambda: Physics(ring, (0.0, 1.0)).check((NUMBER,)), "expected 1 number, got 2"),
        (lambda: Physics(ring, (0.0,)).check((CHOICE, NUMBER)), "'mode' is a category"),
        (lambda: Physics(ring, (0.0, 1.0)).check((NUMBER, CHOICE)), "'mode' is a category"),
        (
            lambda: Physics(ring, lambda some: some.x[:, :1]).check((NUMBER, CHOICE)),
            "'mode' is a category and cannot move; name the columns that do",
        ),
        (
            lambda: Physics(ring, (0.0, 1.0), moves=(0, 1)).check((NUMBER, CHOICE)),
            "'mode' is a category and cannot move",
        ),
        (
            lambda: Physics(ring, (0.0, 1.0), moves=(1,)).check((NUMBER, NUMBER)),
            "moves: expected action columns 0 to 1, 0 among them",
        ),
        (lambda: Physics(ring, (0.0,), moves=(0, 2)).check((NUMBER,)), "moves: expected"),
    ],
)
def test_bad_settings_are_refused(build: Callable[[], Any], message: str) -> None:
    """Settings that cannot work are refused by name."""
    with pytest.raises(InvalidInput, match=message):
        build()
