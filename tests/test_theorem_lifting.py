"""Theorem 4: closed estimators against regressions, N(ε) by hand, a small run of the check."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gdcb.analysis.cross_information import canonical
from gdcb.arrays import Array
from gdcb.theorems.cold_start import PASTS, predicted
from gdcb.theorems.lifting import check
from gdcb.theorems.linear_model import (
    Moments,
    Settings,
    Sums,
    apart,
    gap_of,
    information,
    joint,
    known,
    protected,
    reached,
    sums_of,
)

SMALL = Settings(replicates=400, n_max=3000, epsilons=(0.14, 0.2, 0.28))
VALUES = np.array([0.0, 0.3, 0.5])
SCORES = np.array([-1.0, 0.0, 1.0]) / (2 / 3) ** 0.5


def one_log(n: int = 60, seed: int = 0) -> tuple[Array, Array, Array, Sums]:
    """Return arm, z and ε of one log, and its sums."""
    rng = np.random.default_rng(seed)
    arm, z, e = rng.integers(3, size=n), rng.normal(size=n), rng.normal(size=n)
    columns = (np.ones(n), z, z * z, e, z * e)
    by_arm = (np.bincount(arm, column, 3)[None, None] for column in columns)
    return arm, z, e, Sums(*by_arm)


def test_closed_forms_are_least_squares() -> None:
    """Joint: regression on arm dummies and φ. Known: with the other block at its truth."""
    arm, z, e, sums = one_log()
    rho, theta = 0.8, 0.5
    phi = rho * SCORES[arm] + 0.6 * z
    reward = VALUES[arm] + theta * phi + e
    design = np.column_stack((np.eye(3)[arm], phi))
    fitted = np.linalg.lstsq(design, reward, rcond=None)[0]
    moments = Moments.of(sums, SCORES, rho)
    both = joint(moments, VALUES)
    assert both.theta.item() == pytest.approx(abs(fitted[3] - theta))
    assert both.gap.item() == pytest.approx(0.5 - VALUES[fitted[:3].argmax()])
    alone = known(moments, VALUES)
    slope = (phi * (reward - VALUES[arm])).sum() / (phi**2).sum()
    assert alone.theta.item() == pytest.approx(abs(slope - theta))
    means = [(reward - theta * phi)[arm == a].mean() for a in range(3)]
    assert alone.gap.item() == pytest.approx(0.5 - VALUES[int(np.argmax(means))])


def test_loops_apart_are_plain_means_and_a_simple_regression() -> None:
    arm, z, e, sums = one_log(seed=1)
    phi = 0.8 * SCORES[arm] + 0.6 * z
    reward = VALUES[arm] + 0.5 * phi + e
    found = apart(Moments.of(sums, SCORES, 0.8), VALUES, 0.5)
    slope = np.polyfit(phi, reward, 1)[0]
    means = [reward[arm == a].mean() for a in range(3)]
    assert found.theta.item() == pytest.approx(abs(slope - 0.5))
    assert found.gap.item() == pytest.approx(0.5 - VALUES[int(np.argmax(means))])


def test_running_sums_are_those_of_the_first_rows() -> None:
    """The sums at the last size are all rows; shares of arms are as asked, at 5 standard errors."""
    share = np.array([0.5, 0.3, 0.2])
    sums = sums_of(np.random.default_rng(2), share, np.array([10, 40, 500]), 300)
    assert sums.n.shape == (300, 3, 3)
    assert np.array_equal(sums.n.sum(axis=2), np.tile([10.0, 40.0, 500.0], (300, 1)))
    assert (np.diff(sums.zz, axis=1) >= 0).all()
    error = (share * (1 - share) / (300 * 500)) ** 0.5
    assert (np.abs(sums.n[:, -1].mean(axis=0) / 500 - share) < 5 * error).all()


def test_an_arm_never_run_is_not_recommended() -> None:
    gap = gap_of(VALUES, np.array([0.0, 0.0, 9.0]), np.array([1.0, 1.0, 0.0]))
    assert gap.item() == pytest.approx(0.2)


def test_reached_by_hand() -> None:
    """Nine of ten replicates must be within ε and stay there."""
    sizes = np.array([1, 2, 3])
    errors = np.ones((10, 3))
    errors[0] = 5.0
    assert reached(errors, sizes, 1.0) == 1.0
    errors[1, 1] = 5.0
    assert reached(errors, sizes, 1.0) == 3.0
    errors[1, 2] = 5.0
    assert reached(errors, sizes, 1.0) == float("inf")


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.95])
def test_the_knob_is_the_cross_information(rho: float) -> None:
    found = canonical(information(np.full(3, 1 / 3), SCORES, rho), 3)
    assert found.rho2 == pytest.approx(rho**2)


def test_orthogonal_scores_are_blind_to_arm_values() -> None:
    """At n = 2,000 and ρ = 0.8: plugging in errs by −0.3·ρ, orthogonal by less than 5 errors."""
    sums = sums_of(np.random.default_rng(3), np.full(3, 1 / 3), np.array([2000]), 400)
    found = protected(Moments.of(sums, SCORES, 0.8), SCORES, 0.8, 0.3)
    assert found["bias_plugged_in"] == pytest.approx(-0.24, abs=0.01)
    assert abs(found["bias_orthogonal"]) < 5 * found["error_orthogonal"]
    # A ratio of two variances from 400 logs has a standard error of some 10 %.
    assert found["variance_ratio"] == pytest.approx(1 / 0.36, rel=0.5)


def test_the_information_predicts_a_cold_start() -> None:
    """Without history: θ needs (1.645/ε)² rows, and the slower loop decides."""
    row = information(np.full(5, 0.2), SMALL.scores, 0.0)
    start = np.zeros((6, 6))
    found = predicted(start, row, SMALL, 0.1, np.random.default_rng(4))
    assert found == pytest.approx((1.645 / 0.1) ** 2, rel=0.15)


def test_a_small_check() -> None:
    """All repaired claims hold, none of the paper's does, and the answer is JSON."""
    said: list[str] = []
    answer = check(seed=5, progress=said.append, settings=SMALL, instance=None)
    json.dumps(answer, allow_nan=False)
    assert answer["repaired_holds"], answer["verdict"]
    assert not answer["paper_holds"]
    assert "ρ = 0.95" in said
    assert [one["rho"] for one in answer["designs"]] == [0.0, 0.5, 0.8, 0.95]
    worst = answer["designs"][-1]["cells"][0]
    assert worst["joint"]["n"] > worst["sum"]
    assert worst["joint"]["low"] <= worst["joint"]["n"] <= worst["joint"]["high"]
    start = answer["cold_start"]
    assert start["formula"] == 0.0
    assert len(start["cases"]) == len(PASTS)
    assert start["cases"][0]["measured"] == 0.0
    assert start["cases"][-1]["measured"] > 30.0


def test_the_same_seed_gives_the_same_answer() -> None:
    tiny = Settings(replicates=60, n_max=300, rhos=(0.0, 0.8), epsilons=(0.4,))
    assert check(1, settings=tiny, instance=None) == check(1, settings=tiny, instance=None)
