"""Arm spaces: what is built, what is refused, and where a coordinate lies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.arms import ArmList, Arms, Grid
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from tests.parts.builders import fixed, rng_of


def place(levels: Array, step: float, value: float) -> float:
    """Return a number in steps: declared ones, or the arms' own spacing, end gaps beyond."""
    if not np.isnan(step):
        return value / step
    if levels.size == 1:
        return value
    known = np.concatenate(([2 * levels[0] - levels[1]], levels, [2 * levels[-1] - levels[-2]]))
    if known[0] <= value <= known[-1]:
        return float(np.interp(value, known, np.arange(-1.0, levels.size + 1)))
    if value < levels[0]:
        return float((value - levels[0]) / (levels[1] - levels[0]))
    return float(levels.size - 1 + (value - levels[-1]) / (levels[-1] - levels[-2]))


def brute(arms: Arms, coord: Array) -> tuple[Array, Array]:
    """Return the distance in steps to every arm (N, M, K) and the smallest, by loops."""
    n, m, c = coord.shape
    gap = np.empty((n, m, arms.n))
    for i, j, k in np.ndindex(n, m, arms.n):
        parts = []
        for d in range(c):
            levels, step = np.unique(arms.coords[:, d]), float(arms.steps[d])
            here, there = (place(levels, step, p[d]) for p in (coord[i, j], arms.coords[k]))
            parts.append(np.inf if arms.is_exact[d] and here != there else abs(here - there))
        gap[i, j, k] = max(parts)
    return gap, gap.min(axis=-1)


@given(
    values=st.lists(st.integers(-20, 20), min_size=1, max_size=6),
    coord=st.lists(st.floats(-50, 50, allow_subnormal=False), min_size=1, max_size=5),
    step=st.sampled_from([None, 0.3, 1.0]),
)
@fixed
def test_the_nearest_number_is_found(
    values: list[int], coord: list[float], step: float | None
) -> None:
    """On one coordinate the sorted search finds what comparing with every arm finds."""
    names = tuple(f"arm {i}" for i in range(len(values)))
    arms = ArmList(tuple(float(value) for value in values), names, step).build()
    points = np.array(coord)[None, :, None]
    found = arms.locate(points)
    gap, least = brute(arms, points)
    np.testing.assert_allclose(found.steps, least, rtol=0, atol=1e-11)
    chosen = np.take_along_axis(gap, found.arm[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(chosen, least, rtol=0, atol=1e-11)
    assert (found.coord == points).all()
    assert (found.arm == [[values.index(values[k]) for k in found.arm[0]]]).all()


@given(
    seed=st.integers(0, 10_000),
    m=st.integers(1, 4),
    steps=st.sampled_from([{}, {"rate": 0.05}, {"rate": 0.02, "tenor": 6.0}]),
)
@fixed
def test_the_nearest_grid_point_is_found(seed: int, m: int, steps: dict[str, float]) -> None:
    """On several coordinates the distance is the maximum over them, each in its own steps."""
    arms = Grid({"rate": (0.05, 0.1, 0.2), "tenor": (12.0, 24.0, 60.0)}, steps=steps).build()
    points = rng_of(seed).uniform([0.0, 0.0], [0.3, 40.0], size=(3, m, 2)) * [1.0, 2.0]
    found = arms.locate(points)
    gap, least = brute(arms, points)
    np.testing.assert_allclose(found.steps, least, rtol=0, atol=1e-12)
    assert (found.arm == gap.argmin(axis=-1)).all()


def test_distance_by_hand() -> None:
    """(0.13, 30) from arm (0.1, 24) is max(0.03/0.05, 6/12) = 0.6 steps."""
    arms = Grid({"rate": (0.05, 0.1), "tenor": (12.0, 24.0)}).build()
    found = arms.locate(np.array([[[0.13, 30.0]]]))
    assert arms.names[int(found.arm[0, 0])] == "rate=0.1 tenor=24"
    assert found.steps[0, 0] == pytest.approx(0.6, abs=1e-12)


def test_duplicates_in_a_product_grid_locate_to_the_first() -> None:
    """0.8·1.25, 1·1 and 1.25·0.8 are one coordinate; an action there is the first of them."""
    levels = (0.8, 1.0, 1.25)
    arms = Grid({"A": levels, "B": levels}, combine="product").build()
    ones = np.flatnonzero(arms.coords[:, 0] == 1.0)
    assert ones.tolist() == [2, 4, 6]
    found = arms.locate(arms.coords[None])
    first = [int(np.flatnonzero(arms.coords[:, 0] == c)[0]) for c in arms.coords[:, 0]]
    assert found.arm[0].tolist() == first
    assert (found.steps == 0).all()


@pytest.mark.parametrize("values", [(1.0, 2.0), (2.0, 1.0)], ids=["rising", "falling"])
def test_among_equally_near_arms_the_choice_is_fixed(values: tuple[float, float]) -> None:
    """1.5 is half a step from both: the smaller number with one coordinate, else the first."""
    one = ArmList(values=values).build()
    assert one.locate(np.array([[[1.5]]])).arm[0, 0] == values.index(1.0)
    two = Arms(one.names, np.hstack((one.coords, one.coords)), np.ones(2), np.zeros(2, bool))
    assert two.locate(np.array([[[1.5, 1.5]]])).arm[0, 0] == 0


def test_categories_match_exactly_or_not_at_all() -> None:
    """A category between or beyond the arms is comparable to none: arm −1, infinite steps."""
    arms = ArmList(names=("allow", "warn", "remove")).build()
    found = arms.locate(np.array([[[0.0], [2.0], [1.5], [3.0], [-1.0], [np.nan]]]))
    assert found.arm[0].tolist() == [0, 2, -1, -1, -1, -1]
    assert found.steps[0, :2].tolist() == [0.0, 0.0]
    assert not np.isfinite(found.steps[0, 2:]).any()


def test_a_single_arm_is_always_the_nearest() -> None:
    """One arm: every coordinate is its, at its distance in steps of 1."""
    arms = ArmList(values=(3.0,)).build()
    found = arms.locate(np.array([[[1.0], [3.0], [7.5]]]))
    assert found.arm.tolist() == [[0, 0, 0]]
    assert found.steps.tolist() == [[2.0, 0.0, 4.5]]


def test_a_step_is_the_spacing_around_the_point_unless_declared() -> None:
    """Arms 1, 2, 4: 2.5 is ¼ of the gap (2, 4), 5 half of it beyond, 0.5 half of (1, 2) below.

    With a declared step of ½ the distances 0.5, 1, 0.5 are 1, 2, 1 steps.
    """
    points = np.array([[[2.5], [5.0], [0.5]]])
    local = ArmList(values=(1.0, 2.0, 4.0)).build().locate(points)
    assert local.arm.tolist() == [[1, 2, 0]]
    assert local.steps.tolist() == [[0.25, 0.5, 0.5]]
    declared = ArmList(values=(1.0, 2.0, 4.0), step=0.5).build().locate(points)
    assert declared.arm.tolist() == [[1, 2, 0]]
    assert declared.steps.tolist() == [[1.0, 2.0, 1.0]]


@given(value=st.floats(1.0, 4.0), values=st.permutations([1.0, 1.1, 2.0, 4.0]))
@fixed
def test_between_the_arms_all_is_within_half_a_step(value: float, values: list[float]) -> None:
    """What lies between two neighbouring arms is within half a step of one of them."""
    found = ArmList(values=tuple(values)).build().locate(np.array([[[value]]]))
    assert found.steps[0, 0] <= 0.5 + 1e-9


def test_distance_to_one_arm_is_the_column_of_the_distance_to_all() -> None:
    """`distance(c, arm)` agrees with `distance(c)` at that arm."""
    arms = Grid({"rate": (0.05, 0.1, 0.2), "tenor": (12.0, 24.0)}).build()
    points = rng_of(1).uniform([0.0, 0.0], [0.3, 40.0], size=(5, 2))
    whole = arms.distance(points)
    for k in range(arms.n):
        assert (arms.distance(points, np.full(5, k)) == whole[:, k]).all()


def test_grid_order_and_names() -> None:
    """The first factor varies slowest; names say the combination."""
    arms = Grid({"A": (1.0, 2.0), "B": (3.0, 4.0)}).build()
    assert arms.names == ("A=1 B=3", "A=1 B=4", "A=2 B=3", "A=2 B=4")
    assert arms.coords.tolist() == [[1, 3], [1, 4], [2, 3], [2, 4]]
    assert (arms.n, arms.n_coords) == (4, 2)


def test_the_nominal_actions_are_the_arms() -> None:
    """`nominal` locates every arm at itself."""
    arms = Grid({"A": (1.0, 2.0), "B": (3.0, 4.0)}).build()
    assert arms.nominal.is_nominal
    assert arms.nominal.arm.tolist() == [[0, 1, 2, 3]]
    assert (arms.nominal.steps == 0).all()
    assert (arms.nominal.coord[0] == arms.coords).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ArmList().build(), "expected at least one arm, got none"),
        (lambda: ArmList(names=("a", "a")).build(), "names must differ, got a, a"),
        (lambda: ArmList(values=(1.0, 1.0)).build(), "names must differ, got 1, 1"),
        (lambda: ArmList(names=("a",), values=(1.0, 2.0)).build(), "as many names as values"),
        (lambda: ArmList(values=(1.0, float("nan"))).build(), "finite"),
        (lambda: ArmList(values=(1.0, 2.0), step=0.0).build(), "arms.step: expected a number > 0"),
        (lambda: ArmList(values=(1.0, 2.0), step=-1.0).build(), "arms.step: expected a number > 0"),
        (lambda: Grid({}).build(), "at least one factor with values"),
        (lambda: Grid({"A": ()}).build(), "at least one factor with values"),
        (lambda: Grid({"A": (1.0, float("inf"))}).build(), "arms.factors.A: expected a finite"),
        (lambda: Grid({"A": (1.0,)}, combine="sum").build(), "expected one of none, product"),
        (lambda: Grid({"A": (1.0, 2.0)}, steps={"B": 1.0}).build(), "no coordinate B"),
        (
            lambda: Grid({"A": (1.0, 2.0)}, combine="product", steps={"A": 1.0}).build(),
            "no coordinate A",
        ),
        (
            lambda: Arms(("a",), np.zeros((1, 1)), np.zeros(1), np.array([False])),
            "steps must be positive",
        ),
        (
            lambda: Arms(("a", "b"), np.zeros((1, 1)), np.ones(1), np.array([False])),
            "every arm needs finite coordinates",
        ),
    ],
)
def test_bad_arm_spaces_are_refused(build: Callable[[], Arms], message: str) -> None:
    """Every arm space that cannot work says what was expected."""
    with pytest.raises(InvalidInput, match=message):
        build()
