"""Changes over time: the statistic by hand and by regression, levels, dates, and what changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from gdcb.analysis.bridge_tail import bridge_tail, discreteness
from gdcb.analysis.change_points import SegmentSums, stability
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from tests.properties import examples


def design(rng: np.random.Generator, n: int, d: int, drift: float = 0.0) -> Array:
    x = rng.normal(size=(n, d - 1)) + drift * np.linspace(-1.0, 1.0, n)[:, None]
    return np.column_stack((np.ones(n), x))


def squares(z: Array, y: Array) -> float:
    theta = np.linalg.lstsq(z, y, rcond=None)[0]
    return float(((y - z @ theta) ** 2).sum())


# The tail


def test_the_tail_at_one_instant_is_the_normal_one() -> None:
    found = bridge_tail(np.array([3.0]), np.empty((1, 0)), np.ones((1, 1), dtype=bool))
    assert found[0] == pytest.approx(2 * norm.sf(3.0), rel=1e-12)


@pytest.mark.parametrize("n", [10, 50])
def test_the_tail_is_that_of_simulated_bridges(n: int) -> None:
    """100,000 bridges; at p = 0.001 the simulated share has a standard error of 10 %."""
    rng = np.random.default_rng(1)
    share = np.arange(1, n) / n
    is_looked = (share > 0.049) & (share < 0.951)
    top = np.empty(100_000)
    for start in range(0, top.size, 10_000):
        walk = rng.normal(size=(10_000, n)).cumsum(axis=1)
        bridge = walk[:, :-1] - share * walk[:, -1:]
        size = np.abs(bridge) / np.sqrt(n * share * (1 - share))
        top[start : start + 10_000] = size[:, is_looked].max(axis=1)
    odds = share / (1 - share)
    rho = np.sqrt(odds[:-1] / odds[1:])
    for p, slack in ((0.1, 0.15), (0.05, 0.12), (0.01, 0.15), (0.001, 0.35)):
        b = np.quantile(top, 1 - p)
        found = bridge_tail(np.array([b]), rho[None], is_looked[None])[0]
        assert found == pytest.approx(p, rel=slack)


def test_a_gap_starts_a_stretch_and_no_instant_says_nothing() -> None:
    rho = np.full((3, 2), 0.9)
    looked = np.array([[True, False, True], [True, True, True], [False, False, False]])
    apart, together, none = bridge_tail(np.full(3, 2.5), rho, looked)
    assert apart == pytest.approx(4 * norm.sf(2.5))
    assert together < 6 * norm.sf(2.5)
    assert none == 1.0


def test_independent_instants_cost_what_bonferroni_says() -> None:
    found = bridge_tail(np.array([3.5]), np.zeros((1, 9)), np.ones((1, 10), dtype=bool))[0]
    assert found == pytest.approx(20 * norm.sf(3.5), rel=0.02)


@given(st.floats(0.0, 30.0), st.floats(0.01, 30.0))
def test_fewer_crossings_are_seen_in_larger_steps(x: float, more: float) -> None:
    near, far = discreteness(np.array([x, x + more]))
    assert 0 < far <= near <= 1 + 1e-12


# The statistic


def test_the_statistic_by_hand() -> None:
    """y = 0, 0, 2, 2 in four segments: W after two is −2, σ² = 4/3, Var = σ²·(2 − 4/4) = σ²."""
    sums = SegmentSums.of_rows(np.ones((4, 1)), np.array([0.0, 0.0, 2.0, 2.0]), 4)
    found = stability(sums, 0.5, variance="common", least_rows=1, trim=0.0)
    assert found.statistics[0] == pytest.approx(2 / np.sqrt(4 / 3))


def test_the_statistic_is_what_a_step_takes_off_the_squares() -> None:
    rng = np.random.default_rng(2)
    z, y = design(rng, 300, 3, drift=1.0), rng.normal(size=300)
    found = stability(SegmentSums.of_rows(z, y, 30), variance="common")
    rest = squares(z, y)
    for j in range(3):
        gained = [
            rest - squares(np.column_stack((z, np.where(np.arange(300) < at, z[:, j], 0.0))), y)
            for at in range(20, 290, 10)
        ]
        own = np.cumsum(z[:, j] ** 2)[19:280:10] / (z[:, j] ** 2).sum()
        gained = [g for g, share in zip(gained, own, strict=True) if 0.05 <= share <= 0.95]
        assert found.statistics[j] ** 2 == pytest.approx(max(gained) / (rest / 297), rel=1e-9)


def test_a_meat_of_common_variance_changes_nothing() -> None:
    rng = np.random.default_rng(3)
    z, y = design(rng, 400, 2), rng.normal(size=400)
    sums = SegmentSums.of_rows(z, y, 20)
    plain = stability(sums, variance="common")
    n_sigma2 = squares(z, y) / 398 * 398 / 400
    given_ = stability(replace(sums, meat=n_sigma2 * sums.gram))
    np.testing.assert_allclose(given_.statistics, plain.statistics, rtol=1e-9)
    doubled = stability(sums, variance="common", kappa=4.0)
    np.testing.assert_allclose(doubled.statistics, plain.statistics / 2, rtol=1e-12)


@examples(20)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 100.0), st.floats(-10.0, 10.0))
def test_units_and_an_effect_of_regressors_do_not_matter(
    seed: int, unit: float, slope: float
) -> None:
    rng = np.random.default_rng(seed)
    z, y = design(rng, 200, 3), rng.normal(size=200)
    plain = stability(SegmentSums.of_rows(z, y, 20))
    scaled = stability(SegmentSums.of_rows(z * [1.0, unit, 1.0], unit * y + slope * z[:, 1], 20))
    np.testing.assert_allclose(scaled.p_values, plain.p_values, rtol=1e-5)


def test_a_regressor_that_repeats_another_does_no_harm() -> None:
    rng = np.random.default_rng(4)
    z, y = design(rng, 400, 2), rng.normal(size=400)
    once = stability(SegmentSums.of_rows(z, y, 20), variance="common")
    twice = stability(SegmentSums.of_rows(z[:, [0, 1, 1]], y, 20), variance="common")
    np.testing.assert_allclose(twice.statistics, once.statistics[[0, 1, 1]], rtol=1e-6)


# Levels


def errors(kind: str, rng: np.random.Generator, z: Array) -> Array:
    if kind == "gaussian":
        return np.asarray(rng.normal(size=z.shape[0]))
    if kind == "heavy":
        return np.asarray(rng.standard_t(5, size=z.shape[0]))
    chance = np.clip(0.5 + 0.05 * z[:, 1:].sum(axis=1), 0.05, 0.95)
    return np.where(rng.random(z.shape[0]) < chance, 1.0, 0.0)


@pytest.mark.parametrize("kind", ["gaussian", "heavy", "binary"])
@pytest.mark.parametrize("drift", [0.0, 1.5])
def test_the_level_holds(kind: str, drift: float) -> None:
    """300 histories without a change; a test of exactly 5 % fails this one in 10,000."""
    rng = np.random.default_rng(5)
    false = 0
    for _ in range(300):
        z = design(rng, 600, 4, drift)
        sums = SegmentSums.of_rows(z, errors(kind, rng, z), 30)
        false += not stability(sums, 0.05).is_stable
    assert false <= binom.isf(1e-4, 300, 0.05)


def test_an_error_variance_that_changes_is_no_change_of_the_law() -> None:
    """As above at 7 %: with few rows a segment its own variance is drawn to the common one."""
    rng = np.random.default_rng(6)
    segment = common = 0
    for _ in range(300):
        y = rng.normal(size=2000) * np.where(np.arange(2000) < 1200, 1.0, 3.0)
        sums = SegmentSums.of_rows(np.ones((2000, 1)), y, 20)
        segment += not stability(sums, 0.05).is_stable
        common += not stability(sums, 0.05, variance="common").is_stable
    assert segment <= binom.isf(1e-4, 300, 0.07)
    assert common > segment


def test_dependent_rows_take_a_factor() -> None:
    """Every row eight times: without a factor nearly all alarm; from segments, few."""
    rng = np.random.default_rng(7)
    plain = factored = 0
    for _ in range(100):
        y = np.repeat(rng.normal(size=500), 8)
        sums = SegmentSums.of_rows(np.ones((4000, 1)), y, 100)
        plain += not stability(sums, 0.05).is_stable
        factored += not stability(sums, 0.05, kappa="segments").is_stable
    assert plain > 50
    assert factored <= 15


# Dates


def approvals(rng: np.random.Generator, n: int) -> SegmentSums:
    chance = np.where(np.arange(n) < 0.6 * n, 0.75, 0.55)
    return SegmentSums.of_rows(np.ones((n, 1)), (rng.random(n) < chance) * 1.0, 100)


def test_approval_is_dated_within_a_twentieth() -> None:
    """Of 2,000 logs of 1,000 rows 95.5 % are: 100 logs have fewer than 88 once in 1,000."""
    rng = np.random.default_rng(8)
    near = covered = 0
    for _ in range(100):
        found = stability(approvals(rng, 1000), 0.005, ["approval"]).change_points
        near += any(abs(one.split - 60) <= 5 for one in found)
        covered += any(one.low <= 60 <= one.high for one in found)
    assert near >= 88
    assert covered >= 90


def test_more_rows_date_it_to_the_segment() -> None:
    one = stability(approvals(np.random.default_rng(9), 100_000), 0.005, ["approval"])
    assert len(one.change_points) == 1
    point = one.change_points[0]
    assert (point.split, point.low, point.high) == (60, 59, 61)
    assert point.before == pytest.approx(0.75, abs=0.01)
    assert point.after == pytest.approx(0.55, abs=0.01)
    assert point.low_change < -0.2 < point.high_change
    assert "approval went from 0.7" in one.says()


def test_several_changes_are_named() -> None:
    rng = np.random.default_rng(10)
    z = design(rng, 20_000, 4)
    t = np.arange(20_000)
    y = 1.0 + 0.5 * z[:, 1] + rng.normal(size=20_000)
    y += np.where(t < 5_000, 0.5, 0.0) + np.where(t < 14_000, 0.3, 0.0) * z[:, 2]
    y -= np.where(t >= 15_000, 0.4, 0.0)
    names = ["level", "a", "b", "c"]
    found = stability(SegmentSums.of_rows(z, y, 100), 0.01, names).change_points
    assert [one.component for one in found] == ["level", "b", "level"]
    for one, at, before, after in zip(
        found, (25, 70, 75), (1.5, 0.3, 1.0), (1.0, 0.0, 0.6), strict=True
    ):
        assert abs(one.split - at) <= 3
        assert one.before == pytest.approx(before, abs=0.08)
        assert one.after == pytest.approx(after, abs=0.08)


def test_a_change_inside_a_segment_is_one_change() -> None:
    """A thousand rows a segment: the segment in which it falls fits neither side."""
    rng = np.random.default_rng(11)
    n = 100_000
    z = design(rng, n, 3) + np.array([0.0, 1.0, 1.0])
    y = rng.normal(size=n) * 0.1 + np.where(np.arange(n) < 50_500, 1.0, 0.0)
    found = stability(SegmentSums.of_rows(z, y, 100), 0.01).change_points
    assert [one.component for one in found] == ["component 0"]
    assert found[0].low <= 50.5 <= found[0].high


def test_a_level_that_all_arms_share_is_a_direction() -> None:
    rng = np.random.default_rng(12)
    arms = np.eye(20)[rng.integers(20, size=4000)]
    y = rng.normal(size=4000) + np.where(np.arange(4000) < 2000, 0.3, 0.0)
    sums = SegmentSums.of_rows(arms, y, 50)
    found = stability(sums, 0.01, directions={"every arm": np.ones(20)})
    assert [one.component for one in found.change_points] == ["every arm"]
    one = found.change_points[0]
    assert one.before - one.after == pytest.approx(0.3, abs=0.1)
    assert stability(sums, 0.01).p > found.p


def test_an_arm_with_few_rows_is_not_judged() -> None:
    rng = np.random.default_rng(13)
    arm = np.zeros(1000, dtype=int)
    arm[::40] = 1
    found = stability(
        SegmentSums.of_rows(np.eye(3)[arm], rng.normal(size=1000), 20), names=[*"abc"]
    )
    assert found.unjudged == ("b", "c")
    assert np.isnan(found.p_values[1:]).all()


def test_nothing_to_judge() -> None:
    sums = SegmentSums.of_rows(np.ones((10, 1)), np.arange(10.0), 5)
    found = stability(sums)
    assert (found.p, found.is_stable) == (1.0, True)
    assert "not judged" in found.says()
    flat = stability(SegmentSums.of_rows(np.ones((500, 1)), np.full(500, 0.3), 20))
    assert flat.is_stable


# Bad input

GOOD = SegmentSums.of_rows(np.ones((100, 1)), np.arange(100.0), 10)


@pytest.mark.parametrize(
    ("sums", "message"),
    [
        ("sums", "expected SegmentSums"),
        (replace(GOOD, cross=np.ones((10, 2))), "expected n"),
        (replace(GOOD, n=np.full(10, np.nan)), "finite"),
        (replace(GOOD, square=np.full(10, np.inf)), "finite"),
        (replace(GOOD, n=-np.ones(10)), "n >= 0"),
        (replace(GOOD, meat=np.ones((10, 2, 2))), "meat"),
        (SegmentSums.of_rows(np.ones((100, 1)), np.arange(100.0), 1), "S >= 2"),
    ],
)
def test_sums_that_cannot_be_are_refused(sums: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        stability(sums)


@pytest.mark.parametrize(
    "settings_",
    [
        {"level": 0.0},
        {"level": np.nan},
        {"names": ["a", "b"]},
        {"variance": "none"},
        {"kappa": -1.0},
        {"kappa": "rows"},
        {"kappa": [1.0, 1.0]},
        {"directions": {"none": [0.0]}},
        {"trim": 0.7},
        {"least_rows": 0},
        {"most": -1},
        {"interval": 1.0},
    ],
)
def test_settings_that_cannot_be_are_refused(settings_: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        stability(GOOD, **settings_)


def test_rows_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidInput, match="z, y"):
        SegmentSums.of_rows(np.ones((3, 1)), np.ones(2), 1)
    with pytest.raises(InvalidInput, match="n_segments"):
        SegmentSums.of_rows(np.ones((3, 1)), np.ones(3), 4)
