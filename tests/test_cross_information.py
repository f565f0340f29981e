"""Cross-information of arm values and scaler: by hand, against regressions, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.analysis.cross_information import Design, canonical, score_information
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from tests.properties import examples


def drawn(n: int, rho: float, seed: int, n_arms: int = 5, q: int = 1) -> tuple[Array, Array]:
    """Return arms, uniform, and features whose first has the correlation ρ with the arm."""
    rng = np.random.default_rng(seed)
    arm = rng.integers(n_arms, size=n)
    score = np.arange(n_arms) - (n_arms - 1) / 2
    features = rng.normal(size=(n, q))
    features[:, 0] = rho * (score / score.std())[arm] + (1 - rho**2) ** 0.5 * features[:, 0]
    return arm, features


def test_by_hand() -> None:
    """I_aa = diag(1, 4), I_aθ = (0.5, 1), I_θθ = 1: ρ² = 0.5²/1 + 1²/4 = 0.5."""
    matrix = np.array([[1.0, 0.0, 0.5], [0.0, 4.0, 1.0], [0.5, 1.0, 1.0]])
    found = canonical(matrix, 2)
    assert found.rho2 == pytest.approx(0.5)
    assert found.inflation == pytest.approx(2.0)
    assert len(found.correlations) == 1


def test_it_is_the_r_squared_of_the_feature_on_the_arms() -> None:
    """With one feature, uncentred ρ² is the share of φ² that arm means explain."""
    arm, features = drawn(500, 0.7, seed=1)
    centred = features[:, 0] - features.mean()
    means = np.array([centred[arm == a].mean() for a in range(5)])
    expected = (means[arm] ** 2).sum() / (centred**2).sum()
    assert Design(arm, features, 5).cross().rho2 == pytest.approx(expected)


def test_it_inflates_the_worst_direction_of_a_joint_regression() -> None:
    """Var(cᵀθ̂) joint / known ≤ 1/(1 − ρ²), reached in one direction c, whatever the weights."""
    arm, features = drawn(400, 0.8, seed=2, q=3)
    rng = np.random.default_rng(3)
    weight, slope = rng.uniform(0.2, 1.0, 400), rng.uniform(0.5, 2.0, 400)
    design = Design(arm, features, 5, slope=slope, weight=weight)
    information = design.information()
    joint = np.linalg.inv(information)[5:, 5:]
    known = np.linalg.inv(information[5:, 5:])
    ratios = np.linalg.eigvals(joint @ np.linalg.inv(known)).real
    assert ratios.max() == pytest.approx(design.cross().inflation)


def test_an_average_of_scores_finds_the_information() -> None:
    """Scores ε·(1[a], φ) of a Gaussian with σ = 1: their outer products average to the design's.

    200,000 rows: each entry errs by at most 5 standard errors, a false alarm of 2e-5 in all.
    """
    n = 200_000
    arm, features = drawn(n, 0.6, seed=4, n_arms=3)
    noise = np.random.default_rng(5).normal(size=n)
    own = noise[:, None] * np.eye(3)[arm]
    found = score_information(own, noise[:, None] * features)
    expected = Design(arm, features, 3, centre=np.zeros(1)).information() / n
    assert np.abs(found - expected).max() < 5 * (2 * 3.0 / n) ** 0.5
    assert canonical(found, 3).rho2 == pytest.approx(0.36, abs=0.02)


def test_the_interval_and_the_noise() -> None:
    """At ρ² = 0.64 the interval holds the truth; with nothing shared ρ² reads as the noise does."""
    arm, features = drawn(4_000, 0.8, seed=6)
    found = Design(arm, features, 5).cross(n_bootstrap=200)
    assert found.low is not None
    assert found.high is not None
    assert found.noise is not None
    assert found.low < 0.64 < found.high
    assert found.noise < 0.01
    arm, features = drawn(300, 0.0, seed=7, n_arms=20, q=4)
    apart = Design(arm, features, 20).cross(n_bootstrap=20)
    assert apart.noise is not None
    assert apart.noise > 0.05
    assert apart.rho2 < 2 * apart.noise


def test_blocks_are_drawn_together() -> None:
    """One row repeated a hundred times in each of 6 blocks says no more than 6 rows do."""
    arm, features = drawn(6, 0.5, seed=8, n_arms=2)
    arm[:2] = (0, 1)
    many, block = np.repeat(arm, 100), np.repeat(np.arange(6), 100)
    design = Design(many, np.repeat(features, 100, axis=0), 2)
    together = design.cross(n_bootstrap=200, blocks=block)
    apart = design.cross(n_bootstrap=200, blocks=np.arange(600))
    assert together.high is not None
    assert together.low is not None
    assert apart.high is not None
    assert apart.low is not None
    assert together.high - together.low > 2 * (apart.high - apart.low)


def test_rows_off_every_arm_and_arms_never_run_are_left_out() -> None:
    arm, features = drawn(200, 0.5, seed=9)
    arm[arm == 4] = -1
    found = Design(arm, features, 5).cross()
    kept = arm >= 0
    again = Design(arm[kept], features[kept], 4).cross()
    assert found.excluded == (4,)
    assert found.rho2 == pytest.approx(again.rho2)


@examples(25)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 10.0), st.integers(1, 3))
def test_units_of_features_and_weights_do_not_matter(seed: int, factor: float, q: int) -> None:
    arm, features = drawn(120, 0.6, seed, q=q)
    one = Design(arm, features, 5).cross().rho2
    other = Design(arm, features * factor + 3.0, 5, weight=np.full(120, factor)).cross().rho2
    assert 0.0 <= one <= 1.0
    assert other == pytest.approx(one, abs=1e-9)


ARM, PHI = np.array([0, 1, 0, 1]), np.array([[0.0], [1.0], [2.0], [5.0]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arm": ARM.astype(float)}, "design: expected N whole arms"),
        ({"arm": ARM[:3]}, "design: expected N whole arms"),
        ({"features": PHI[:, 0]}, "design: expected N whole arms"),
        ({"arm": ARM + 1}, r"design\.arm: expected -1 to 1"),
        ({"arm": np.full(4, -1)}, "design: no row ran an arm"),
        ({"slope": np.ones(3)}, r"design\.slope: expected \(4,\), got \(3,\)"),
        ({"weight": -np.ones(4)}, r"design\.weight: expected numbers >= 0"),
        ({"features": np.full((4, 1), np.nan)}, "design: expected finite features"),
    ],
)
def test_bad_designs_are_refused(arguments: dict[str, Any], message: str) -> None:
    whole: dict[str, Any] = {"arm": ARM, "features": PHI, "n_arms": 2}
    with pytest.raises(InvalidInput, match=message):
        Design(**(whole | arguments))


def test_a_constant_feature_is_not_identified() -> None:
    with pytest.raises(InvalidInput, match="scaler parameters are not identified"):
        Design(ARM, np.ones((4, 1)), 2).cross()


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.eye(2)[:1], "finite square matrix"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "finite square matrix"),
        (np.array([[1.0, 0.5], [0.2, 1.0]]), "symmetric"),
        (np.diag([0.0, 1.0]), "no arm was executed"),
    ],
)
def test_bad_matrices_are_refused(matrix: Array, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        canonical(matrix, 1)


def test_bad_scores_and_blocks_are_refused() -> None:
    with pytest.raises(InvalidInput, match="scores: expected finite rows"):
        score_information(np.full((2, 1), np.inf), np.ones((2, 1)))
    with pytest.raises(InvalidInput, match=r"blocks: expected \(4,\) whole numbers"):
        Design(ARM, PHI, 2).cross(n_bootstrap=2, blocks=np.zeros(3, dtype=int))
