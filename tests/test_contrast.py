"""The contrast: do overrides carry private information, and what follows if they do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gdcb import (
    Approval,
    Bounds,
    Chain,
    CurveThompson,
    HierarchicalThompson,
    Instance,
    SimulatedPerson,
)
from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.contrast import ContrastState, no_private_information, weigh
from gdcb.credit import evidence
from gdcb.records import Rows
from tests.builders import log_of, rewarded, stream, teach, with_rules

ZERO = np.zeros(1, dtype=np.int64)
SEEDS = 100


def always(e: Array, rows: Rows) -> Array:
    return np.ones(e.shape[:2])


def hundred(rows: Rows) -> Array:
    return np.full((rows.n, 1), 100.0)


def watched(overrides: str = "pooled") -> Instance:
    """Return an instance with a person in front of bounds."""
    gate = Chain((Approval(SimulatedPerson(always, hundred)), Bounds(high=900.0)))
    return with_rules(rewarded(gate=gate), overrides=overrides)


def contrast_of(sums: Array) -> ContrastState:
    """Return the state after these sums (groups, K, 2, 3), one cell a group."""
    n_groups, n_arms = sums.shape[:2]
    state = ContrastState.zeros(np.arange(n_groups), n_arms)
    cell, arm, side = (part.ravel() for part in np.indices((n_groups, n_arms, 2)))
    state.add(cell, arm, side, sums.reshape(-1, 3).astype(float))
    return state


def sums(y: Array) -> list[float]:
    return [float(y.size), float(y.sum()), float((y**2).sum())]


def belief(approved: Array, overridden: Array) -> float:
    state = contrast_of(np.array([[[sums(approved), sums(overridden)]]]))
    return float(no_private_information(state, ZERO)[0])


# By hand


def test_by_hand() -> None:
    """50 rows each, s² = 98/98 = 1, d = 1: v = 1/50 + 1/50 = 0.04.

    log odds = ½·log(1 + 1/0.04) − ½·1·(25 − 1/1.04) = ½·3.2581 − ½·24.0385 = −10.3902, and
    exp(−10.3902) = 3.073e-05 with odds / (1 + odds) the same to four digits.
    """
    state = contrast_of(np.array([[[[50.0, 0.0, 49.0], [50.0, 50.0, 99.0]]]]))
    assert no_private_information(state, ZERO)[0] == pytest.approx(3.073e-05, rel=1e-3)


def test_by_hand_without_a_difference() -> None:
    """No difference at all: only the Occam factor √(1 + s²/v) speaks, odds √26 = 5.099."""
    state = contrast_of(np.array([[[[50.0, 0.0, 49.0], [50.0, 0.0, 49.0]]]]))
    odds = 26.0**0.5
    assert no_private_information(state, ZERO)[0] == pytest.approx(odds / (1.0 + odds))


def test_it_is_the_ratio_of_two_normal_densities() -> None:
    """The odds are N(d; 0, v) / N(d; 0, v + s²), as SciPy has them, for uneven counts too."""
    rng = np.random.default_rng(4)
    for n_a, n_o in ((3, 2), (40, 7), (15, 200)):
        approved, overridden = rng.normal(size=n_a), rng.normal(0.4, 1.0, size=n_o)
        d = approved.mean() - overridden.mean()
        rest = ((approved - approved.mean()) ** 2).sum()
        rest += ((overridden - overridden.mean()) ** 2).sum()
        s2 = rest / (n_a + n_o - 2)
        v = s2 * (1 / n_a + 1 / n_o)
        odds = stats.norm.pdf(d, 0, v**0.5) / stats.norm.pdf(d, 0, (v + s2) ** 0.5)
        assert belief(approved, overridden) == pytest.approx(odds / (1 + odds), rel=1e-9)


def test_groups_are_judged_apart() -> None:
    """Each row gets its own group's answer, in the order asked."""
    same, other = [[50.0, 0.0, 49.0]] * 2, [[50.0, 0.0, 49.0], [50.0, 50.0, 99.0]]
    state = contrast_of(np.array([[same], [other]]))
    first, second, third = no_private_information(state, np.array([1, 0, 1]))
    assert first == third < 1e-4 < 0.8 < second


def test_arms_are_compared_within_and_averaged() -> None:
    """A difference between arms is none of the person's: only differences within arms count.

    Arm 0 has mean 0 and 30 approved, 10 overridden rows; arm 1 has mean 5 and 10 and 30: the raw
    means differ by 2.5, the means within arms by nothing. Arm 2, never overridden, says nothing
    but its spread. Σw = 7.5 + 7.5 and d = 0, so the odds against one difference are
    √(1 + 15) = 4, against one an arm √8.5·√8.5 = 8.5, and against either 2/(1/4 + 1/8.5) = 5.44.
    """
    n = np.array([[30.0, 10.0], [10.0, 30.0], [20.0, 0.0]])
    mean, rest = np.array([[0.0, 0.0], [5.0, 5.0], [3.0, 0.0]]), np.array([29.0, 9.0])
    square = np.stack([rest, rest[::-1], np.array([19.0, 0.0])]) + n * mean**2
    state = contrast_of(np.stack([n, n * mean, square], axis=-1)[None])
    odds = 2 / (1 / 4 + 1 / 8.5)
    assert no_private_information(state, ZERO)[0] == pytest.approx(odds / (1 + odds))


def test_differences_of_arms_are_weighed_by_their_rows() -> None:
    """d = Σ w·dᵢ / Σ w with w = 1/(1/nₐ + 1/nₒ): 25·1 + 5·(−1) over 30 gives 2/3, v = s²/30.

    The other alternative takes each arm by itself: d = 1 with v = 1/25, and −1 with v = 1/5.
    """
    n = np.array([[50.0, 50.0], [10.0, 10.0]])
    mean = np.array([[1.0, 0.0], [0.0, 1.0]])
    square = (n - 1.0) + n * mean**2  # s² = 1
    state = contrast_of(np.stack([n, n * mean, square], axis=-1)[None])
    v = 1.0 / 30.0
    together = _ratio(2 / 3, v)
    apart = _ratio(1.0, 1 / 25) * _ratio(-1.0, 1 / 5)
    odds = 2 / (1 / together + 1 / apart)
    assert no_private_information(state, ZERO)[0] == pytest.approx(odds / (1 + odds))


def _ratio(d: float, v: float) -> float:
    """N(d; 0, v) / N(d; 0, v + 1)."""
    return float(stats.norm.pdf(d, 0, v**0.5) / stats.norm.pdf(d, 0, (v + 1.0) ** 0.5))


def test_differences_that_cancel_are_seen() -> None:
    """Approved 25 of 50 at both arms; overridden 5 of 50 at one and 45 of 50 at the other."""
    won = np.array([[25.0, 5.0], [25.0, 45.0]])
    n = np.full((2, 2), 50.0)
    state = contrast_of(np.stack([n, won, won], axis=-1)[None])
    assert no_private_information(state, ZERO)[0] < 1e-6


def test_without_both_kinds_overrides_count_in_full() -> None:
    """Where no arm has approved and overridden rows nothing can be said: the weight is 1."""
    for approved, overridden in ((0, 0), (50, 0), (0, 50), (1, 1)):
        assert belief(np.arange(approved) * 1.0, np.arange(overridden) * 9.0) == 1.0


def test_equal_rewards_do_not_break_it() -> None:
    """No spread at all: equal means give near 1, different means 0, and nothing is NaN."""
    assert belief(np.ones(50), np.ones(50)) > 0.8
    assert belief(np.ones(50), np.zeros(50)) < 1e-6


# As rows grow


def beliefs(n: int, signal: float) -> Array:
    """Return the belief for 100 seeds of n rows a side, overridden rows shifted by `signal`."""
    found = []
    for seed in range(SEEDS):
        rng = np.random.default_rng((seed, n))
        found.append(belief(rng.normal(size=n), rng.normal(signal, 1.0, size=n)))
    return np.array(found)


def test_without_a_signal_it_tends_to_one() -> None:
    """The mean belief rises with the rows; at 20,000 a side at least 95 of 100 seeds exceed ½.

    ½ is missed where z² > log(10,001) = 9.2, with probability 0.0024 a seed: six misses of
    100 have probability 2e-7.
    """
    means = [beliefs(n, 0.0).mean() for n in (20, 200, 2_000, 20_000)]
    assert means == sorted(means)
    assert means[-1] > 0.9
    assert (beliefs(20_000, 0.0) > 0.5).sum() >= 95


def test_with_a_signal_it_tends_to_zero() -> None:
    """Overridden rows are better by 0.3 sd: the belief falls with the rows, below 0.01 at 2,000.

    0.01 is missed where z < 4.1; z is normal around 9.5 with sd 1: 100 seeds miss it with
    probability 5e-6.
    """
    means = [beliefs(n, 0.3).mean() for n in (20, 200, 2_000)]
    assert means == sorted(means, reverse=True)
    assert (beliefs(2_000, 0.3) < 0.01).all()


# In a round


def taught(signal: float, overrides: str = "pooled", n: int = 400) -> turn.RoundState:
    """Return the state after n rows at one arm, every second one an override by `signal`."""
    instance, bandit = watched(overrides), HierarchicalThompson()
    state = turn.init(instance, bandit, ZERO)
    y = stream(8).normal(n)
    for i in range(n):
        odd = bool(i % 2)
        log = log_of(
            [[100.0]], [100.0], [1], [y[i] + signal * odd], is_override=[odd], is_own=[not odd]
        )
        teach(instance, bandit, state, log)
    return state


def test_a_round_adds_the_outcome_to_its_arm_and_side() -> None:
    """Reward 2 as proposed and 3 by override, both at arm 1: (1, 2, 4) beside (1, 3, 9)."""
    instance, bandit = watched(), HierarchicalThompson()
    state = turn.init(instance, bandit, ZERO)
    teach(instance, bandit, state, log_of([[100.0]], [100.0], [1], [2.0]))
    over = log_of([[100.0]], [100.0], [2], [3.0], is_override=[True], is_own=[False])
    teach(instance, bandit, state, over)
    assert state.contrast.sums[0, 1].tolist() == [[1.0, 2.0, 4.0], [1.0, 3.0, 9.0]]
    assert not state.contrast.sums[0, [0, 2]].any()


def test_a_curve_takes_off_what_lies_between_the_arm_and_the_action() -> None:
    """An override at 1.06 counts at arm 1 less what the curve expects of the 0.06 between.

    The curve is held at η = 2 + 10c by a prior that one row cannot move: a reward of 15 counts
    as 15 − 10·0.06 = 14.4.
    """
    curve = CurveThompson(link="identity", prior_mean=(12.0, 2.0), prior_sd=1e-6)
    instance = watched()
    state = turn.init(instance, curve, ZERO)
    over = log_of([[100.0]], [106.0], [2], [15.0], is_override=[True], is_own=[False])
    teach(instance, curve, state, over)
    assert state.contrast.sums[0, 1, 1] == pytest.approx(np.array([1.0, 14.4, 14.4**2]))


def test_a_declared_scale_is_taken_out() -> None:
    """r = s·v with s = 2 and r = 6: v = 3 with weight s² = 4, so the sums are (4, 12, 36)."""
    instance, bandit = watched(), HierarchicalThompson()
    state = turn.init(instance, bandit, ZERO)
    teach(instance, bandit, state, log_of([[2.0]], [2.0], [1], [6.0], scale=[2.0]))
    assert state.contrast.sums[0, 1, 0].tolist() == [4.0, 12.0, 36.0]


def test_vetoes_and_actions_off_the_arms_say_nothing() -> None:
    """Rows off every arm, and rows in which the null action ran, do not enter the contrast."""
    instance, bandit = watched(), HierarchicalThompson()
    state = turn.init(instance, bandit, ZERO)
    for changes in ({"is_null": [True], "is_own": [False]}, {"is_own": [False]}):
        teach(instance, bandit, state, log_of([[100.0]], [140.0], [1], [2.0], **changes))
    assert not state.contrast.sums.any()


def test_the_pooled_weight_enters_the_evidence() -> None:
    """Overridden rows count by the belief, approved rows in full, whatever their own weight."""
    instance = watched()
    contrast = contrast_of(np.array([[[[50.0, 0.0, 49.0], [50.0, 20.0, 57.0]]]]))
    share = float(no_private_information(contrast, ZERO)[0])
    assert 0.05 < share < 0.95
    log = log_of(
        [[100.0]] * 3,
        [100.0] * 3,
        [1] * 3,
        [1.0] * 3,
        is_override=[False, True, True],
        weight=[1.0, 1.0, 0.5],
    )
    seen, _ = evidence(instance, log, np.ones((3, 1, 1)), np.zeros(3, dtype=np.int64))
    pooled = weigh(instance, contrast, log, seen)
    assert pooled.weight == pytest.approx(np.array([1.0, share, 0.5 * share]))
    for overrides, weight in (("all", [1.0, 1.0, 0.5]), ("approved", [1.0, 0.0, 0.0])):
        other = with_rules(instance, overrides=overrides)
        assert weigh(other, contrast, log, seen).weight.tolist() == weight


def test_a_private_signal_is_found_and_not_learned() -> None:
    """Overrides better by 1: pooled learning ends near the approved mean, 'all' in between.

    200 rows a side with unit noise: the mean has a standard error of 0.07, and the limits lie
    four of them away. The seed is fixed.
    """
    pooled, everything, approved = (taught(1.0, rule) for rule in ("pooled", "all", "approved"))
    assert no_private_information(pooled.contrast, ZERO)[0] < 0.01

    def mean(state: turn.RoundState) -> float:
        return float(state.bandit.total[0, 1] / state.bandit.weight[0, 1])

    assert mean(pooled) == pytest.approx(mean(approved), abs=0.15)
    assert mean(everything) == pytest.approx(mean(approved) + 0.5, abs=0.3)
    assert approved.bandit.weight[0, 1] == 200.0


def test_without_a_signal_nearly_all_rows_count() -> None:
    """No private information: the belief stays high and most of the 200 overrides are learned."""
    state = taught(0.0)
    assert no_private_information(state.contrast, ZERO)[0] > 0.8
    assert state.bandit.weight[0, 1] > 300.0


def test_only_pooled_learning_keeps_outcomes() -> None:
    """The other rules never look, and neither does a chain without a person."""
    assert not taught(1.0, "all", 4).contrast.sums.any()
    assert not taught(1.0, "approved", 4).contrast.sums.any()
    instance, bandit = rewarded(), HierarchicalThompson()
    state = turn.init(instance, bandit, ZERO)
    teach(instance, bandit, state, log_of([[100.0]], [100.0], [1], [2.0]))
    assert not state.contrast.sums.any()


def test_unequal_units_are_no_private_information() -> None:
    """Two units of one group with means 0 and 3, one overridden often and one seldom: no signal.

    Within each unit both kinds have the same law, so most of 100 seeds stay above one half.
    Pooled over the units the difference of the means would be about 1.8 and the odds below 1e-30.
    """
    beliefs = []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        state = ContrastState.zeros(np.zeros(2, dtype=np.int64), 1)
        for cell, (mean, share) in enumerate(((0.0, 0.8), (3.0, 0.2))):
            side = (rng.random(300) < share).astype(int)
            y = mean + rng.normal(size=300)
            rows = np.stack((np.ones(300), y, y * y), axis=1)
            zero = np.zeros(300, dtype=np.int64)
            state.add(zero + cell, zero, side, rows)
        beliefs.append(no_private_information(state, ZERO)[0])
    assert np.mean(np.array(beliefs) > 0.5) > 0.9


def test_totals_are_what_the_sums_add_up_to() -> None:
    """Rows added one by one leave the same totals as all at once."""
    rng = np.random.default_rng(9)
    group = np.array([0, 0, 1])
    whole, piecewise = ContrastState.zeros(group, 4), ContrastState.zeros(group, 4)
    cell, arm = rng.integers(3, size=200), rng.integers(4, size=200)
    side, y = rng.integers(2, size=200), rng.normal(size=200)
    rows = np.stack((np.ones(200), y, y * y), axis=1)
    whole.add(cell, arm, side, rows)
    for i in range(200):
        one = slice(i, i + 1)
        piecewise.add(cell[one], arm[one], side[one], rows[one])
    np.testing.assert_allclose(piecewise.totals, whole.totals, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(piecewise.sums, whole.sums, rtol=1e-12, atol=1e-12)
