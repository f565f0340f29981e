"""Overlap of arms with the reference contexts, and what actions vary by beyond context."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.analysis.excitation import action_variation
from gdcb.analysis.overlap import overlap
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from tests.properties import examples


def chosen(rng: np.random.Generator, n: int, slope: float) -> tuple[Array, Array, Array]:
    """Return contexts (n, 2), arms by a logistic law in the first, and P(arm | x) (n, 2)."""
    x = rng.normal(size=(n, 2))
    p = 1.0 / (1.0 + np.exp(-slope * x[:, 0]))
    return x, (rng.random(n) < p).astype(int), np.column_stack((1.0 - p, p))


# Weights


def test_effective_rows_by_hand() -> None:
    """Weights 2, 2, 4 of arm 0: 8²/24; clipped at 3: 7²/17. Arm 1: 4/3 twice, nothing lost."""
    x = np.arange(5.0)[:, None]
    arm = np.array([0, 0, 0, 1, 1])
    p = np.array([0.5, 0.5, 0.25, 0.75, 0.75])
    found = overlap(x, arm, 2, x, p, reference_propensity=np.full((5, 2), 0.5), clip=3.0)
    np.testing.assert_allclose(found.ess, [64 / 24, 2.0])
    np.testing.assert_allclose(found.ess_clipped, [49 / 17, 2.0])
    np.testing.assert_allclose(found.clipped_share, [1 / 3, 0.0])
    np.testing.assert_allclose(found.weights, [2.0, 2.0, 3.0, 4 / 3, 4 / 3])


def test_the_bound_by_hand() -> None:
    """P = 0.1 in half of the reference, 1 in the rest; clip 5: min(1, cP) = ½, 1 and Z = ¾.

    TV = ½·(½·|⅔ − 1| + ½·|4/3 − 1|) = 1/6.
    """
    x = np.arange(4.0)[:, None]
    there = np.array([[0.1], [0.1], [1.0], [1.0]])
    arm = np.zeros(4, dtype=int)
    found = overlap(x, arm, 1, x, there, reference_propensity=there, clip=5.0, reward_range=3.0)
    np.testing.assert_allclose(found.bias_bound, [0.5])
    assert "moves the weighted mean of these rows by at most 0.5" in found.says[0]


def test_the_bound_holds_for_logged_propensities_that_no_regression_follows() -> None:
    """One context in two by a wave that no line in x sees: chance 0.002, else 0.5; rewards 1 and 0.

    Cutting weights of 500 at 100 moves the weighted mean by far more than 0.
    """
    rng = np.random.default_rng(8)
    x = rng.uniform(-1.0, 1.0, size=(20_000, 1))
    is_rare = np.sin(40.0 * x[:, 0]) > 0
    p = np.where(is_rare, 0.002, 0.5)
    arm = np.where(rng.random(20_000) < p, 0, 1)
    own = np.where(arm == 0, p, 1.0 - p)
    found = overlap(x, arm, 2, x[::10], own, clip=100.0)
    ran = arm == 0
    raw, cut = (
        np.average(is_rare[ran], weights=weight[ran]) for weight in (1.0 / own, found.weights)
    )
    assert raw - cut > 0.1
    assert raw - cut <= found.bias_bound[0] + 1e-12


@examples(50)
@given(st.integers(0, 2**32 - 1), st.floats(1.0, 50.0))
def test_no_function_moves_by_more_than_the_bound(seed: int, clip: float) -> None:
    rng = np.random.default_rng(seed)
    p, value = rng.beta(0.5, 1.0, size=30) + 1e-6, rng.random(30)
    p = np.minimum(p, 1.0)
    arm, x = np.zeros(30, dtype=int), rng.normal(size=(30, 1))
    there = p[:, None]
    found = overlap(x, arm, 1, x, there, reference_propensity=there, clip=clip)
    kept = np.minimum(1.0, clip * p)
    moved = abs((kept * value).sum() / kept.sum() - value.mean())
    assert moved <= np.ptp(value) * found.bias_bound[0] + 1e-12
    assert found.ess[0] <= found.ess_clipped[0] + 1e-9 <= 30 + 1e-6


def test_estimated_propensities_are_near_the_true_ones() -> None:
    x, arm, p = chosen(np.random.default_rng(1), 5000, 1.0)
    true = overlap(x, arm, 2, x, p, reference_propensity=p)
    found = overlap(x, arm, 2, x)
    assert np.abs(found.propensity - p[np.arange(5000), arm]).mean() < 0.02
    np.testing.assert_allclose(found.ess, true.ess, rtol=0.15)
    np.testing.assert_allclose(found.uncovered, true.uncovered, atol=0.01)


def test_fewer_rows_for_the_regression_say_nearly_the_same() -> None:
    x, arm, _ = chosen(np.random.default_rng(2), 6000, 1.0)
    whole, some = (overlap(x, arm, 2, x, most_rows=most) for most in (6000, 2000))
    np.testing.assert_allclose(some.ess, whole.ess, rtol=0.1)


def test_a_curved_law_takes_squares() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4000, 1))
    p = 1.0 / (1.0 + np.exp(2.0 - 2.0 * x[:, 0] ** 2))
    arm = (rng.random(4000) < p).astype(int)
    own = np.where(arm == 1, p, 1.0 - p)
    line, curve = (overlap(x, arm, 2, x, degree=degree).propensity for degree in (1, 2))
    assert np.abs(curve - own).mean() < 0.02 < np.abs(line - own).mean()


# Contexts


def test_an_arm_that_was_never_tried() -> None:
    x, arm, _ = chosen(np.random.default_rng(4), 300, 0.5)
    found = overlap(x, 2 * arm, 3, x, names=["low", "middle", "high"], reward_range=2.0)
    assert found.says[1] == "middle was never tried."
    assert (found.n[1], found.ess[1], found.ess_regression[1]) == (0, 0.0, 0.0)
    assert (found.uncovered[1], found.outside[1], found.bias_bound[1]) == (1.0, 1.0, 2.0)
    assert (found.uncovered[[0, 2]] == 0).all()


def test_an_arm_that_ran_elsewhere_is_seen() -> None:
    """Arm 1 only where x > 1: below x = 0 nothing is inside of what it met."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(4000, 1))
    arm = ((x[:, 0] > 1) & (rng.random(4000) < 0.5)).astype(int)
    found = overlap(x, arm, 2, x)
    assert found.outside[0] <= 0.02
    assert found.outside[1] > 0.5
    assert found.ess_regression[1] < 0.2 * found.n[1]
    assert found.uncovered[1] > 0.4


def test_an_arm_that_ran_everywhere_is_not_outside() -> None:
    """The 99 % ellipsoid leaves about a hundredth, for flags too."""
    rng = np.random.default_rng(6)
    x = np.column_stack((rng.normal(size=5000), rng.random(5000) < 0.03))
    found = overlap(x, rng.integers(3, size=5000), 3, x)
    assert (found.outside <= 0.02).all()
    np.testing.assert_allclose(found.ess, found.n, rtol=0.02)
    np.testing.assert_allclose(found.ess_regression, found.n, rtol=0.02)


def test_the_distance_of_the_mean_by_hand() -> None:
    """Arm 0 at −1 and 1 (many), reference at 2: D² = 4, so n/5; the pull of 3 rows is small."""
    x = np.tile([[-1.0], [1.0]], (2000, 1))
    found = overlap(x, np.zeros(4000, dtype=int), 1, np.array([[2.0]]))
    assert found.ess_regression[0] == pytest.approx(800, rel=1e-6)


def test_rows_without_an_arm_are_another_choice() -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(3000, 1))
    arm = np.where(rng.random(3000) < 0.5, -1, 0)
    found = overlap(x, arm, 1, x)
    np.testing.assert_allclose(found.propensity[arm == 0], 0.5, atol=0.08)
    assert np.isnan(found.propensity[arm == -1]).all()
    assert (found.weights[arm == -1] == 0).all()


X, ARM = np.arange(6.0)[:, None], np.array([0, 1, 0, 1, 0, 1])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"features": np.full((6, 1), np.nan)}, "features"),
        ({"features": np.ones(6)}, "features"),
        ({"reference": np.ones((3, 2))}, "reference"),
        ({"reference": np.full((3, 1), np.inf)}, "reference"),
        ({"arm": ARM + 1}, "arm"),
        ({"arm": ARM.astype(float)}, "arm"),
        ({"arm": ARM[:5]}, "arm"),
        ({"propensity": np.zeros(6)}, "propensity"),
        ({"propensity": np.full(6, np.nan)}, "propensity"),
        ({"propensity": np.ones(5)}, "propensity"),
        ({"reference_propensity": np.full((6, 2), 2.0)}, "reference_propensity"),
        ({"n_arms": 0}, "n_arms"),
        ({"floor": 0.0}, "floor"),
        ({"clip": 0.5}, "clip"),
        ({"names": ["one"]}, "names"),
        ({"degree": 3}, "degree"),
        ({"folds": 1}, "folds"),
        ({"reward_range": -1.0}, "reward_range"),
    ],
)
def test_what_cannot_be_is_refused(changed: dict[str, Any], message: str) -> None:
    given_: dict[str, Any] = {"features": X, "arm": ARM, "n_arms": 2, "reference": X} | changed
    with pytest.raises(InvalidInput, match=message):
        overlap(**given_)


# Variation of the action


@pytest.mark.parametrize("law", ["line", "curve", "steps"])
def test_the_variance_beyond_context_is_found(law: str) -> None:
    """0.04 by its interval of 99.9 %, whatever context does: 'steps' needs neighbours."""
    rng = np.random.default_rng(8)
    x = rng.uniform(-1, 1, size=(4000, 2))
    told = {"line": x[:, 0], "curve": x[:, 0] ** 2 + x[:, 0] * x[:, 1], "steps": np.sign(x[:, 0])}
    found = action_variation(told[law] + 0.2 * rng.normal(size=4000), x, level=0.999)
    assert found.low < 0.04 < found.high * 1.1
    assert found.high < 0.07
    if law == "steps":
        assert found.by_regression > 0.15


def test_the_interval_covers() -> None:
    """Of 200 intervals of 95 % about 92 % cover: the smaller of two estimates is a little low."""
    rng = np.random.default_rng(9)
    covered = 0
    for _ in range(200):
        x = rng.normal(size=(300, 1))
        found = action_variation(x[:, 0] + rng.laplace(size=300), x)
        covered += found.low <= 2.0 <= found.high
    assert covered >= 172


def test_an_action_that_context_determines() -> None:
    x = np.linspace(-1, 1, 500)[:, None]
    found = action_variation(2.0 * x[:, 0] - 1.0, x)
    assert (found.variance, found.low, found.high) == (0.0, 0.0, 0.0)
    assert "hardly varied" in found.says()
    steps = action_variation(np.sign(x[:, 0]), x)
    assert steps.by_neighbours < 0.01 < steps.by_regression


def test_no_context_at_all_leaves_the_plain_variance() -> None:
    y = np.random.default_rng(10).normal(size=1000)
    found = action_variation(y, np.zeros((1000, 1)))
    assert found.by_regression == pytest.approx(y.var(ddof=1))
    assert found.share > 0.9
    assert "still varied" in found.says()


def test_equal_contexts_are_compared_with_each_other() -> None:
    """Ten contexts far apart, the level of each its own: within them the variance is 1."""
    rng = np.random.default_rng(11)
    x = rng.integers(10, size=2000)
    level = rng.normal(size=10) * 5
    found = action_variation(level[x] + rng.normal(size=2000), x[:, None].astype(float))
    assert found.by_neighbours == pytest.approx(1.0, abs=0.15)
    assert found.variance == found.by_neighbours


def test_few_rows_know_little() -> None:
    found = action_variation(np.array([0.0, 1.0, 0.0]), np.array([[0.0], [1.0], [2.0]]))
    assert found.low <= found.variance <= found.high
    assert found.high > 3 * found.variance


@pytest.mark.parametrize(
    ("y", "x"),
    [
        (np.ones(3), np.ones((4, 1))),
        (np.ones(3), np.ones(3)),
        (np.array([1.0, np.nan]), np.ones((2, 1))),
        (np.ones(2), np.full((2, 1), np.inf)),
        (np.ones(1), np.ones((1, 1))),
    ],
)
def test_actions_that_cannot_be_are_refused(y: Array, x: Array) -> None:
    with pytest.raises(InvalidInput):
        action_variation(y, x)
