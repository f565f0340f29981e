"""Metrics of the protocol: hand arithmetic, SciPy as a reference, brute force, properties."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gdcb.errors import InvalidInput
from gdcb.protocol import metrics
from gdcb.protocol.metrics import Waits
from gdcb.protocol.metrics.bootstrap import N_RESAMPLES, percentiles, resamples
from gdcb.protocol.metrics.waiting import medians
from tests.properties import examples

few = examples(60)
replicates = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12).map(np.array)


def sure(value: Any) -> dict[str, float]:
    """Return an estimate that is there, with an interval."""
    assert value is not None
    assert None not in value.values()
    return dict(value)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# Estimates and curves


def test_an_estimate_is_the_interval_of_a_t_test() -> None:
    values = rng().normal(3, 2, 17)
    found = sure(metrics.estimate(values))
    expected = stats.ttest_1samp(values, 0).confidence_interval()
    assert found["mean"] == pytest.approx(values.mean(), rel=1e-14)
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high), rel=1e-12)


def test_one_replicate_has_no_interval() -> None:
    assert metrics.estimate(np.array([2.0])) == {"mean": 2.0, "low": None, "high": None}
    alone = metrics.curve(np.array([[1.0], [2.0]]))
    assert alone == [
        {"mean": 1.0, "low": None, "high": None},
        {"mean": 3.0, "low": None, "high": None},
    ]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_has_no_estimate(bad: float) -> None:
    assert metrics.estimate(np.array([1.0, bad, 2.0])) is None
    points = metrics.curve(np.array([[1.0, 2.0], [1.0, bad], [1.0, 2.0]]))
    assert points[0] is not None
    assert points[1:] == [None, None]
    apart = metrics.curve(np.array([[1.0, 2.0], [1.0, bad], [1.0, 2.0]]), cumulative=False)
    assert [point is None for point in apart] == [False, True, False]


@pytest.mark.parametrize("values", [np.zeros(0), np.zeros((2, 2)), np.array(1.0)])
def test_an_estimate_refuses_what_has_no_replicates(values: Any) -> None:
    with pytest.raises(InvalidInput, match=r"expected values \(R,\)"):
        metrics.estimate(values)


@pytest.mark.parametrize("values", [np.zeros(3), np.zeros((3, 0))])
def test_a_curve_refuses_what_has_no_replicates(values: Any) -> None:
    with pytest.raises(InvalidInput, match=r"expected values \(T, R\)"):
        metrics.curve(values)


@pytest.mark.parametrize("cumulative", [True, False])
def test_a_curve_is_an_estimate_an_episode(cumulative: bool) -> None:
    values = rng(1).normal(size=(30, 6))
    rows = values.cumsum(axis=0) if cumulative else values
    assert metrics.curve(values, cumulative) == [metrics.estimate(row) for row in rows]


def test_in_words() -> None:
    assert metrics.in_words(None) == "–"
    assert metrics.in_words({"mean": 12345.678, "low": None, "high": None}) == "1.235e+04"
    assert metrics.in_words({"mean": 2.0, "low": 2.0, "high": 2.0}) == "2 ± 0"
    assert metrics.in_words({"mean": 2.0, "low": 1.9, "high": 2.1}) == "2.00 ± 0.10"


# Holm and paired differences


def closed_test(p: np.ndarray) -> list[float]:
    """Holm as the closure of Bonferroni: every set that holds i must be rejected."""
    sets = [s for n in range(1, p.size + 1) for s in itertools.combinations(range(p.size), n)]
    return [
        max(min(1.0, len(s) * min(p[j] for j in s)) for s in sets if i in s) for i in range(p.size)
    ]


@few
@given(st.lists(st.floats(0, 1), min_size=1, max_size=6).map(np.array))
def test_holm_is_the_closure_of_bonferroni(p: np.ndarray) -> None:
    adjusted = metrics.holm(p)
    assert adjusted.tolist() == pytest.approx(closed_test(p))
    order = np.argsort(p, kind="stable")
    assert (np.diff(adjusted[order]) >= 0).all()
    assert (adjusted >= p).all()
    assert (adjusted <= 1).all()


@pytest.mark.parametrize("p", [[0.1, math.nan], [-0.1], [1.1], [[0.1]]])
def test_holm_refuses_what_is_no_probability(p: Any) -> None:
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        metrics.holm(np.array(p))


@few
@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(2, 30), st.floats(0, 1.5))
def test_an_interval_excludes_zero_where_the_adjusted_p_is_small(
    seed: int, m: int, n: int, shift: float
) -> None:
    """Exactly so, and no interval is narrower than the uncorrected one."""
    draws = rng(seed).normal(rng(seed + 1).normal(0, shift, (m, 1)), 1, (m, n))
    found = metrics.paired({str(i): row for i, row in enumerate(draws)})
    p = metrics.holm(np.asarray(stats.ttest_1samp(draws, 0, axis=1).pvalue))
    for i, row in enumerate(draws):
        value, alone = sure(found[str(i)]), sure(metrics.estimate(row))
        assert value["p"] == pytest.approx(p[i], rel=1e-9)
        assert (value["low"] > 0 or value["high"] < 0) == (p[i] < 0.05)
        assert value["low"] <= alone["low"] + 1e-12
        assert value["high"] >= alone["high"] - 1e-12


def test_levels_step_down_until_the_first_that_is_not_rejected() -> None:
    """Three differences with p = 0.001, 0.03 and 0.04: levels 1 − 0.05/3, then 1 − 0.05/2 twice."""
    n = 9
    base = stats.norm.ppf((np.arange(n) + 0.5) / n)
    base = (base - base.mean()) / base.std(ddof=1)  # mean 0, standard error 1/3
    wanted = {"A": 0.001, "B": 0.03, "C": 0.04}
    rows = {key: base + stats.t.isf(p / 2, n - 1) / 3 for key, p in wanted.items()}
    found = {key: sure(value) for key, value in metrics.paired(rows).items()}
    halves = {key: v["high"] - v["mean"] for key, v in found.items()}
    left = {"A": 3, "B": 2, "C": 2}
    expected = {key: stats.t.isf(0.025 / n_left, n - 1) / 3 for key, n_left in left.items()}
    assert halves == pytest.approx(expected)
    adjusted = {key: v["p"] for key, v in found.items()}
    assert adjusted == pytest.approx({"A": 0.003, "B": 0.06, "C": 0.06})


def test_one_difference_needs_no_correction() -> None:
    values = rng(3).normal(size=9)
    found, alone = sure(metrics.paired({"B1": values})["B1"]), sure(metrics.estimate(values))
    assert [found["low"], found["high"]] == pytest.approx([alone["low"], alone["high"]])
    assert found["p"] == pytest.approx(stats.ttest_1samp(values, 0).pvalue)


def test_differences_without_spread() -> None:
    found = metrics.paired({"same": np.zeros(4), "always": np.ones(4)})
    assert found["same"] == {"mean": 0.0, "low": 0.0, "high": 0.0, "p": 1.0}
    assert found["always"] == {"mean": 1.0, "low": 1.0, "high": 1.0, "p": 0.0}


def test_differences_that_cannot_be_tested() -> None:
    alone = metrics.paired({"B1": np.array([3.0])})
    assert alone == {"B1": {"mean": 3.0, "low": None, "high": None, "p": None}}
    values = rng(4).normal(size=5)
    assert metrics.paired({"bad": np.full(5, math.nan), "B1": values}) == {
        "bad": None
    } | metrics.paired({"B1": values})
    assert metrics.paired({}) == {}
    assert metrics.paired({"bad": np.array([math.nan])}) == {"bad": None}
    with pytest.raises(InvalidInput, match="same replicates"):
        metrics.paired({"B1": np.zeros(3), "B2": np.zeros(4)})
    with pytest.raises(InvalidInput, match=r"paired\.level"):
        metrics.paired({"B1": np.zeros(3)}, level=1.5)


def test_families_of_true_zeros_seldom_show_a_difference() -> None:
    """At most 5 % of 1,000 families of eight; 3.5 standard errors beyond is 0.074 (seed fixed)."""
    draws = rng(5).normal(size=(1000, 8, 12))
    families = ({str(i): row for i, row in enumerate(family)} for family in draws)
    alarms = [
        any(sure(value)["p"] < 0.05 for value in metrics.paired(family).values())
        for family in families
    ]
    assert np.mean(alarms) < 0.074


# Episodes to threshold


def first_by_hand(advantage: np.ndarray, window: int) -> list[int | None]:
    found: list[int | None] = []
    for column in advantage.T:
        starts = range(column.size - window + 1)
        there = [t + 1 for t in starts if column[t : t + window].mean() >= 0]
        found.append(there[0] if there else None)
    return found


@few
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 6), st.integers(1, 25))
def test_the_first_window_that_is_not_negative(seed: int, t: int, r: int, window: int) -> None:
    """Whole numbers, so that a window that sums to 0 does so exactly."""
    advantage = rng(seed).integers(-3, 3, (t, r)).astype(float)
    waits = metrics.episodes_to_threshold(advantage, window)
    assert waits.last == max(t - window + 1, 0)
    expected = first_by_hand(advantage, window)
    assert waits.is_reached.tolist() == [tau is not None for tau in expected]
    assert waits.time.tolist() == [waits.last if tau is None else tau for tau in expected]


def test_the_window_has_twenty_episodes() -> None:
    advantage = np.full((60, 2), -1.0)
    advantage[30:, 0] = 1.0
    waits = metrics.episodes_to_threshold(advantage)
    # Episodes 21 … 40 are ten times −1 and ten times 1.
    assert waits.time.tolist() == [21, 41]
    assert waits.is_reached.tolist() == [True, False]


def test_a_run_shorter_than_a_window_reaches_nothing() -> None:
    waits = metrics.episodes_to_threshold(np.ones((19, 3)))
    assert waits.last == 0
    assert not waits.is_reached.any()
    assert metrics.threshold(waits, np.ones((19, 3))) == {
        "median": None,
        "low": None,
        "high": None,
        "censored": 1.0,
        "booked": {"mean": 0.0, "low": 0.0, "high": 0.0},
    }


@pytest.mark.parametrize(
    "advantage", [np.array([[math.nan]]), np.array([[math.inf]]), np.zeros(3), np.zeros((3, 0))]
)
def test_threshold_refuses_bad_advantages(advantage: Any) -> None:
    with pytest.raises(InvalidInput, match="advantage"):
        metrics.episodes_to_threshold(advantage)


def test_threshold_refuses_an_empty_window() -> None:
    with pytest.raises(InvalidInput, match="window"):
        metrics.episodes_to_threshold(np.zeros((3, 3)), window=0)


samples = st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=30)


@few
@given(samples)
def test_kaplan_meier_is_that_of_scipy(sample: list[tuple[int, bool]]) -> None:
    """General censoring, with ties between events and between events and censored."""
    time, is_event = np.array([t for t, _ in sample]), np.array([e for _, e in sample])
    times, survival = metrics.kaplan_meier(time, is_event)
    reference = stats.ecdf(stats.CensoredData.right_censored(time, ~is_event)).sf
    assert survival == pytest.approx(reference.evaluate(times), abs=1e-12)
    assert times.tolist() == sorted(set(time[is_event].tolist()))
    below = reference.quantiles[reference.probabilities <= 0.5 + 1e-9]
    assert metrics.median(time, is_event) == (float(below[0]) if below.size else None)


@few
@given(st.lists(st.integers(1, 50), min_size=1, max_size=40).map(np.array))
def test_without_censoring_the_median_is_the_lower_middle_value(time: np.ndarray) -> None:
    middle = np.sort(time)[(time.size - 1) // 2]
    assert metrics.median(time, np.ones(time.size, dtype=bool)) == middle


@few
@given(samples, st.integers(0, 2**32))
def test_the_medians_of_resamples_are_those_of_the_rows_drawn(
    sample: list[tuple[int, bool]], seed: int
) -> None:
    time, is_event = np.array([t for t, _ in sample]), np.array([e for _, e in sample])
    drawn = rng(seed).integers(0, time.size, (5, time.size))
    counts = np.stack([np.bincount(row, minlength=time.size) for row in drawn])
    expected = [metrics.median(time[row], is_event[row]) for row in drawn]
    found = [None if math.isinf(m) else m for m in medians(time, is_event, counts)]
    assert found == expected


@pytest.mark.parametrize(
    ("time", "is_event"),
    [
        ([], []),
        ([1, 2], [True]),
        ([1.0, math.nan], [True, True]),
        ([1.0, math.inf], [True, True]),
        ([1, 2], [1, 0]),
    ],
)
def test_kaplan_meier_refuses_bad_input(time: Any, is_event: Any) -> None:
    with pytest.raises(InvalidInput, match="waiting times"):
        metrics.kaplan_meier(np.array(time), np.array(is_event))


def test_resamples_repeat_and_draw_evenly() -> None:
    first, again = (np.concatenate(list(resamples(20, seed=3))) for _ in range(2))
    assert first.shape == (N_RESAMPLES, 20)
    assert (first == again).all()
    assert not (first == np.concatenate(list(resamples(20, seed=4)))).all()
    assert (first.sum(axis=1) == 20).all()
    # Each mean has standard error √(0.95/2000) = 0.022; four of them for 20 replicates.
    assert np.abs(first.mean(axis=0) - 1).max() < 0.09


def test_percentiles_are_the_outer_of_two_neighbours() -> None:
    assert percentiles(np.arange(101.0)) == (2.0, 98.0)
    assert percentiles(np.full(9, math.inf)) == (None, None)


def test_the_interval_of_a_median_is_its_percentiles() -> None:
    time = rng(6).integers(1, 90, 25)
    is_event = time < 75
    waits = Waits(np.minimum(time, 75), is_event, 75)
    found = metrics.threshold(waits, np.zeros((94, 25)), seed=9)
    counts = np.concatenate(list(resamples(25, 9)))
    rows = [np.repeat(np.arange(25), row) for row in counts]
    medians_by_hand = sorted(
        math.inf if m is None else m
        for m in (metrics.median(waits.time[row], is_event[row]) for row in rows)
    )
    assert found["low"] == medians_by_hand[49]
    assert found["high"] == medians_by_hand[-50]
    assert found["censored"] == pytest.approx(np.mean(time >= 75))


def test_the_interval_of_a_median_covers() -> None:
    """Geometric waits with median 7, some censored; at 0.95, fewer than 180 of 200 hits: 0.001."""
    generator, hits = rng(7), 0
    for seed in range(200):
        time = generator.geometric(0.1, 40)
        waits = Waits(np.minimum(time, 15), time < 15, 15)
        found = metrics.threshold(waits, np.zeros((40, 40)), seed)
        assert found["low"] is not None
        hits += found["low"] <= 7 <= (math.inf if found["high"] is None else found["high"])
    assert hits >= 180


def test_a_censored_median_may_have_a_lower_end() -> None:
    is_reached = np.arange(40) < 18
    waits = Waits(np.where(is_reached, 5, 81), is_reached, 81)
    found = metrics.threshold(waits, np.full((100, 40), 0.5))
    assert (found["median"], found["low"], found["high"]) == (None, 5.0, None)
    assert found["censored"] == pytest.approx(22 / 40)
    # 18 replicates book 5 · 0.5, 22 book 81 · 0.5.
    assert found["booked"] is not None
    assert found["booked"]["mean"] == pytest.approx((18 * 2.5 + 22 * 40.5) / 40)


def test_one_replicate_has_a_median_without_interval() -> None:
    waits = Waits(np.array([3]), np.array([True]), 5)
    found = metrics.threshold(waits, np.ones((24, 1)))
    assert found["median"] == 3.0
    assert found["low"] is found["high"] is None
    assert found["booked"] == {"mean": 3.0, "low": None, "high": None}


def test_booked_does_not_apply_without_a_class_that_pays() -> None:
    waits = Waits(np.array([3, 4]), np.array([True, True]), 5)
    assert metrics.threshold(waits, np.full((24, 2), math.nan))["booked"] is None
    with pytest.raises(InvalidInput, match="success"):
        metrics.threshold(waits, np.ones((24, 3)))


# Cold start


def waits(times: list[int], last: int = 1481) -> Waits:
    """Return waits, those beyond `last` censored."""
    time = np.array(times)
    return Waits(np.minimum(time, last), time <= last, last)


def test_compression_is_the_ratio_of_medians() -> None:
    found = metrics.compression(waits([140, 150, 160] * 9), waits([28, 30, 40] * 9))
    assert found["value"] == 5.0
    assert found["applies"]
    assert not found["is_at_least"]
    assert found["low"] is not None
    assert found["high"] is not None
    assert 140 / 40 <= found["low"] <= 5 <= found["high"] <= 160 / 28
    assert "150 episodes" in found["sentence"]
    assert "start 30: a compression of 5.00 (95 % interval" in found["sentence"]


def test_compression_is_paired() -> None:
    """Where each replicate's cold wait is five times its warm one, resampling changes nothing."""
    warm = rng(8).integers(21, 200, 31)
    found = metrics.compression(waits((5 * warm).tolist()), waits(warm.tolist()), seed=4)
    assert (found["value"], found["low"], found["high"]) == (5.0, 5.0, 5.0)


def test_compression_with_a_censored_cold_median_is_a_lower_limit() -> None:
    found = metrics.compression(waits([2000] * 8, 1481), waits([30] * 8, 1481))
    assert found["value"] == found["low"] == pytest.approx(1481 / 30)
    assert found["is_at_least"]
    assert found["high"] is None
    assert "more than 1481 episodes" in found["sentence"]
    assert "at least 49.37" in found["sentence"]


@pytest.mark.parametrize(("warm", "is_at_least"), [(1, True), (20, True), (21, False)])
def test_compression_counts_a_warm_wait_as_twenty_at_least(warm: int, is_at_least: bool) -> None:
    found = metrics.compression(waits([100] * 4), waits([warm] * 4))
    assert found["value"] == 100 / max(warm, 20)
    assert found["is_at_least"] is is_at_least
    assert (found["high"] is None) is is_at_least
    assert ("which counts as 20" in found["sentence"]) is (warm < 20)
    assert ("at least" in found["sentence"]) is is_at_least


@pytest.mark.parametrize(
    ("cold", "warm", "last", "words"),
    [
        (19, 3, 1481, "no cold start to compress"),
        (900, 900, 481, "neither start reached"),
        (100, 900, 481, "the warm start did not reach"),
        (1, 1, 0, "shorter than the 20 episodes"),
        (900, 1, 6, "a run of 25 episodes cannot tell more"),
        (900, 1, 19, "a run of 38 episodes cannot tell more"),
    ],
)
def test_compression_says_why_it_does_not_apply(
    cold: int, warm: int, last: int, words: str
) -> None:
    found = metrics.compression(waits([cold] * 4, last), waits([warm] * 4, last))
    assert found["value"] is found["low"] is found["high"] is None
    assert not found["applies"]
    assert not found["is_at_least"]
    assert words in found["sentence"]


def test_a_slower_warm_start_is_a_compression_below_one() -> None:
    found = metrics.compression(waits([10] * 4), waits([40] * 4))
    assert (found["value"], found["is_at_least"], found["applies"]) == (0.25, False, True)


def test_compression_has_no_upper_end_where_resamples_are_censored() -> None:
    found = metrics.compression(waits([100] * 11 + [2000] * 10), waits([50] * 21))
    assert found["value"] == 2.0
    assert found["low"] == 2.0
    assert found["high"] is None
    assert "beyond what the horizon shows" in found["sentence"]


def test_compression_of_one_replicate_has_no_interval() -> None:
    found = metrics.compression(waits([100]), waits([50]))
    assert (found["value"], found["low"], found["high"]) == (2.0, None, None)
    assert found["sentence"].endswith("a compression of 2.00.")


def test_compression_refuses_other_replicates_or_horizons() -> None:
    with pytest.raises(InvalidInput, match="same replicates"):
        metrics.compression(waits([100, 100]), waits([50]))
    with pytest.raises(InvalidInput, match="episodes"):
        metrics.compression(waits([100], 200), waits([50], 300))


def test_the_ends_of_a_saving_are_where_a_paired_test_just_rejects() -> None:
    cold = rng(9).normal(10, 2, 15)
    warm = 0.7 * cold + rng(10).normal(0, 1, 15)
    found = sure(metrics.saving(warm, cold))
    assert found["mean"] == pytest.approx(1 - warm.mean() / cold.mean())
    for end in (found["low"], found["high"]):
        assert stats.ttest_1samp(warm - (1 - end) * cold, 0).pvalue == pytest.approx(0.05)
    assert found["low"] < found["mean"] < found["high"]


@pytest.mark.parametrize("cold", [[-1.0, 1.0, 2.0], [0.0, 0.0, 0.0], [-5.0, -5.0, -5.1]])
def test_a_share_of_what_may_be_nothing_says_nothing(cold: list[float]) -> None:
    assert metrics.saving(np.array([1.0, 1.0, 1.0]), np.array(cold)) is None


def test_savings_at_the_edges() -> None:
    assert metrics.saving(np.array([3.0]), np.array([4.0])) == {
        "mean": 0.25,
        "low": None,
        "high": None,
    }
    assert metrics.saving(np.array([3.0]), np.array([0.0])) is None
    assert metrics.saving(np.array([3.0, math.nan]), np.array([4.0, 4.0])) is None
    same = sure(metrics.saving(np.array([4.0, 5.0, 7.0]), np.array([4.0, 5.0, 7.0])))
    assert list(same.values()) == pytest.approx([0, 0, 0], abs=1e-7)
    with pytest.raises(InvalidInput, match="pairs"):
        metrics.saving(np.zeros(2), np.zeros(3))


def test_a_saving_covers() -> None:
    """The true share is 0.3; 1,000 runs, at 0.95 fewer than 926 hits have a chance of 0.001."""
    generator, hits = rng(11), 0
    for _ in range(1000):
        cold = generator.normal(10, 3, 12)
        found = sure(metrics.saving(0.7 * cold + generator.normal(0, 2, 12), cold))
        hits += found["low"] <= 0.3 <= found["high"]
    assert hits >= 926


@few
@given(st.integers(0, 2**32), st.floats(-0.6, 0.3))
def test_from_when_warm_is_below_cold(seed: int, drift: float) -> None:
    difference = rng(seed).normal(drift, 1, (25, 8))
    highs = [sure(point)["high"] for point in metrics.curve(difference)]
    expected = next((t + 1 for t in range(25) if all(h < 0 for h in highs[t:])), None)
    assert metrics.first_below(difference) == expected


def test_it_must_stay_below() -> None:
    assert metrics.first_below(np.array([[-1.0, -1.0], [5.0, 5.0], [-9.0, -9.0]])) == 3
    assert metrics.first_below(np.array([[-1.0, -1.0], [5.0, 5.0]])) is None
    assert metrics.first_below(np.full((3, 2), -1.0)) == 1
    assert metrics.first_below(np.full((3, 1), -1.0)) is None
    assert metrics.first_below(np.full((3, 2), math.nan)) is None
