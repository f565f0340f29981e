"""Hidden causes: bounds against linear programmes, worlds with such a cause, published numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from gdcb.analysis.hidden_bounds import ArmResiduals, Tail
from gdcb.analysis.robustness import robustness_value
from gdcb.analysis.sensitivity import arm_bounds, tipping
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from tests.properties import examples


def programme(residual: Array, weight: Array, ratio: float) -> float:
    """Return max Σ v·r·ε/Σ v by a linear programme in r."""
    found = linprog(
        -weight * residual,
        A_eq=weight[None],
        b_eq=[weight.sum()],
        bounds=[(1.0 / ratio, ratio)] * residual.size,
    )
    return float(weight * residual @ found.x / weight.sum())


# Bounds


@examples(40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.floats(1.0, 10.0))
def test_a_tilt_is_the_linear_programme(seed: int, n: int, ratio: float) -> None:
    rng = np.random.default_rng(seed)
    residual, weight = rng.normal(size=n).round(1), rng.exponential(size=n) + 0.01
    found = Tail.of(residual, weight).tilted(ratio)
    assert found == pytest.approx(programme(residual, weight, ratio), abs=1e-7)


def test_bounds_are_those_of_a_linear_programme_in_every_stratum() -> None:
    rng = np.random.default_rng(1)
    n = 400
    predicted = rng.normal(size=(n, 2))
    chance = rng.uniform(0.2, 0.8, size=n)
    ran = rng.integers(-1, 2, size=n)
    y = rng.normal(size=n) + predicted[:, 0]
    found = arm_bounds(y, ran, 2, chance, 2.0, predicted=predicted, strata=2)
    for a in range(2):
        ours, m = ran == a, predicted[:, a]
        side = m >= np.median(m[ours])
        total = np.where(ours, y, m).sum()
        moved = np.zeros(2)
        for s in (False, True):
            here = ours & (side == s)
            v = (1.0 - chance[here]) / chance[here]
            rest = (y - m)[here]
            others = ((side == s) & ~ours).sum()
            moved += others * np.array([-programme(-rest, v, 2.0), programme(rest, v, 2.0)])
        np.testing.assert_allclose([found.low[a], found.high[a]], (total + moved) / n, atol=1e-7)


def test_without_a_hidden_cause_it_is_the_doubly_robust_estimate() -> None:
    rng = np.random.default_rng(2)
    n = 90
    predicted, chance = rng.normal(size=(n, 1)), rng.uniform(0.2, 0.8, size=n)
    ours = rng.random(n) < chance
    y = rng.normal(size=n)
    m, v = predicted[:, 0], (1.0 - chance) / chance
    mean = np.average((y - m)[ours], weights=v[ours])
    by_hand = np.where(ours, y, m + mean).mean()
    found = arm_bounds(y, np.where(ours, 0, -1), 1, chance, 1.0, predicted=predicted)
    assert found.low[0] == pytest.approx(by_hand)
    assert found.high[0] == pytest.approx(by_hand)


@examples(40)
@given(st.integers(0, 2**32 - 1), st.floats(1.0, 9.0), st.floats(0.0, 9.0))
def test_a_stronger_cause_widens_the_bounds(seed: int, ratio: float, more: float) -> None:
    rng = np.random.default_rng(seed)
    ran, y = rng.integers(-1, 2, size=120), rng.normal(size=120)
    chance, predicted = rng.uniform(0.05, 1.0, size=120), rng.normal(size=(120, 2))
    small, large = (
        arm_bounds(y, ran, 2, chance, one, predicted=predicted) for one in (ratio, ratio + more)
    )
    assert (large.low <= small.low + 1e-9).all()
    assert (large.high >= small.high - 1e-9).all()
    assert (small.low <= small.high + 1e-9).all()


@given(st.integers(0, 2**32 - 1), st.floats(1.0, 9.0), st.sampled_from((-1.0, 1.0)))
@examples(40)
def test_influences_average_to_the_bound(seed: int, ratio: float, sign: float) -> None:
    rng = np.random.default_rng(seed)
    ours, y = rng.random(200) < 0.6, rng.normal(size=200).round(1)
    arm = ArmResiduals.of(y, ours, rng.uniform(0.1, 0.9, 200), rng.normal(size=200), 3)
    mean = arm.influence(ratio, sign).mean()
    assert mean == pytest.approx(arm.bound(ratio, sign), abs=1e-9)


def worst_world(rng: np.random.Generator, n: int, ratio: float) -> tuple[Array, Array, Array]:
    """Return x, r(1) and T: rows whose r(1) is large are chosen at the highest odds allowed.

    P(T | x) = ½. Where r(1) is above its quantile q = Λ/(1 + Λ) among those with T = 1 odds are
    Λ, else 1/Λ, so that the mean of r(1) is overstated as much as Λ allows.
    """
    x = rng.normal(size=n)
    u = rng.random(n)
    is_high = rng.random(n) < 0.5
    chance = np.where(is_high, ratio / (1.0 + ratio), 1.0 / (1.0 + ratio))
    y = x + np.where(is_high, 1.0 + u, -1.0 - u)
    return x, y, rng.random(n) < chance


def test_the_bound_is_reached_in_the_worst_world() -> None:
    """r(1) = x ± (1 + u) with mean 0; the naive mean is (Λ − 1)/(Λ + 1)·1.5, the bound 0.

    Standard error 0.012.
    """
    ratio = 2.0
    x, y, ours = worst_world(np.random.default_rng(3), 20_000, ratio)
    found = arm_bounds(
        y, np.where(ours, 0, -1), 1, np.full(20_000, 0.5), ratio, predicted=x[:, None] + 0.5
    )
    assert y[ours].mean() > 0.4
    assert found.low[0] == pytest.approx(0.0, abs=4 * found.low_error[0])
    weaker = arm_bounds(
        y, np.where(ours, 0, -1), 1, np.full(20_000, 0.5), 1.5, predicted=x[:, None] + 0.5
    )
    assert weaker.low[0] > 0.1


def test_the_error_is_that_of_repeated_histories() -> None:
    """100 histories: their spread is known to 7 %."""
    rng = np.random.default_rng(4)
    bounds, errors = [], []
    for _ in range(100):
        x = rng.normal(size=500)
        chance = 1.0 / (1.0 + np.exp(-x))
        ours = rng.random(500) < chance
        y = x + rng.normal(size=500)
        found = arm_bounds(
            y, np.where(ours, 0, -1), 1, np.where(ours, chance, 0.5), 1.8, predicted=x[:, None]
        )
        bounds.append(found.high[0])
        errors.append(found.high_error[0])
    assert np.std(bounds) == pytest.approx(np.mean(errors), rel=0.25)


# Tipping


def history(rng: np.random.Generator, n: int, gap: float, ratio: float) -> dict[str, Any]:
    """Return rows of two arms at P = ½, arm 1 worth `gap` more, and a hidden sign that helps both.

    With the sign, the odds of arm 1 are Λ, without it 1/Λ, and the reward is 1 more or less.
    """
    sign = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    arm = (rng.random(n) < np.where(sign > 0, ratio / (1 + ratio), 1 / (1 + ratio))).astype(int)
    y = gap * arm + sign + rng.normal(size=n)
    return {"outcome": y, "arm": arm, "n_arms": 2, "propensity": np.full(n, 0.5)}


def test_the_figure_is_on_the_safe_side() -> None:
    """Arm 0 is better by 0.1, hidden signs of Λ = 1.5 make arm 1 look better by 0.3.

    Of 100 histories at most 11 say that Λ = 1.5 cannot do that; 5 % would once in 100.
    """
    rng = np.random.default_rng(5)
    wrong = seen = 0
    for _ in range(100):
        found = tipping(**history(rng, 1000, -0.1, 1.5))
        seen += found.best == 1
        wrong += found.best == 1 and found.low > 1.5
    assert seen > 90
    assert wrong <= 11


def test_a_clear_difference_has_a_figure() -> None:
    found = tipping(**history(np.random.default_rng(6), 5000, 1.0, 1.0), names=["low", "high"])
    assert (found.best, found.rival, found.is_beyond) == (1, 0, False)
    assert 1.2 < found.low < found.value < 3.0
    shown = math.floor(100 * found.low) / 100
    assert found.says == (
        "A hidden cause that changes the odds of choosing an arm by less than a factor "
        f"{shown:.2f} cannot change which arm is best (high), if rows are independent and the "
        "probabilities of the arms are right."
    )
    at = arm_bounds(**history(np.random.default_rng(6), 5000, 1.0, 1.0), odds_ratio=found.value)
    assert at.low[1] == pytest.approx(at.high[0], abs=1e-6)


def test_arms_that_are_equal_have_none() -> None:
    """Of 100 histories at most 11 have a figure: more happen once in 100 at a rate of 5 %."""
    rng = np.random.default_rng(7)
    found = [tipping(**history(rng, 200, 0.0, 1.0)) for _ in range(100)]
    plain = [one for one in found if one.low == 1.0]
    assert len(plain) >= 89
    assert "sampling error alone" in plain[0].says
    wide = tipping(**history(rng, 500, 0.0, 1.0), margin=1.0)
    assert wide.low > 1.0
    assert "by more than 1" in wide.says


def test_rows_that_depend_know_less() -> None:
    rows = history(np.random.default_rng(8), 400, 1.0, 1.0)
    four: dict[str, Any] = {
        name: np.repeat(rows[name], 4) for name in ("outcome", "arm", "propensity")
    }
    plain = tipping(**four, n_arms=2)
    clustered = tipping(**four, n_arms=2, cluster=np.repeat(np.arange(400), 4))
    assert clustered.value == plain.value
    assert clustered.low < plain.low
    assert clustered.low == pytest.approx(tipping(**rows).low, rel=1e-6)


def test_arms_with_few_rows_are_no_rivals() -> None:
    rows = history(np.random.default_rng(9), 500, 1.0, 1.0)
    rows["arm"] = np.append(rows["arm"], [2] * 5)
    rows["outcome"] = np.append(rows["outcome"], np.full(5, 50.0))
    rows["propensity"] = np.append(rows["propensity"], np.full(5, 0.01))
    found = tipping(**rows | {"n_arms": 4})
    assert (found.best, found.rival) == (1, 0)
    assert np.isnan(found.estimates[2:]).all()
    alone = tipping(np.ones(30), np.zeros(30, dtype=int), 2, np.ones(30))
    assert np.isnan(alone.value)
    assert "Fewer than two arms" in alone.says


ROWS = history(np.random.default_rng(10), 60, 1.0, 1.0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"outcome": np.full(60, np.nan)}, "outcome"),
        ({"outcome": np.ones((60, 1))}, "outcome"),
        ({"arm": ROWS["arm"] + 1}, "arm"),
        ({"arm": ROWS["arm"].astype(float)}, "arm"),
        ({"propensity": np.zeros(60)}, "propensity"),
        ({"propensity": np.full(60, np.nan)}, "propensity"),
        ({"propensity": np.ones(59)}, "propensity"),
        ({"predicted": np.ones(60)}, "predicted"),
        ({"predicted": np.full((60, 2), np.inf)}, "predicted"),
        ({"n_arms": 0}, "n_arms"),
        ({"most": 1.0}, "most"),
        ({"level": 1.0}, "level"),
        ({"margin": -1.0}, "margin"),
        ({"cluster": np.ones(60)}, "cluster"),
        ({"names": ["one"]}, "names"),
        ({"floor": 0.0}, "floor"),
        ({"strata": 0}, "strata"),
    ],
)
def test_what_cannot_be_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        tipping(**ROWS | changed)


@pytest.mark.parametrize("ratio", [0.5, np.nan, np.inf])
def test_odds_ratios_that_cannot_be_are_refused(ratio: float) -> None:
    with pytest.raises(InvalidInput, match="odds_ratio"):
        arm_bounds(**ROWS, odds_ratio=ratio)


# Slopes


def test_the_published_example() -> None:
    """Exposure to violence and attitudes to peace: t = 4.184, 783 degrees of freedom."""
    found = robustness_value(4.184, 783)
    assert found.value == pytest.approx(0.1388, abs=1e-4)
    assert found.at_level == pytest.approx(0.0763, abs=1e-4)
    assert found.partial_r2 == pytest.approx(0.0219, abs=1e-4)
    assert found.says == (
        "An unmeasured cause that explains 14 % of the remaining variation in both the action and "
        "the outcome would account for the whole effect; one that explains 7.6 % would make it "
        "insignificant, if the regression is linear and its rows are independent."
    )


def test_the_robustness_value_by_hand() -> None:
    """t = 3 with df 9: f = 1 and RV = ½(√5 − 1)."""
    assert robustness_value(3.0, 9.0).value == pytest.approx((math.sqrt(5) - 1) / 2)
    assert robustness_value(6.0, 9.0, q=0.5).value == pytest.approx((math.sqrt(5) - 1) / 2)


@examples(50)
@given(st.floats(0.01, 50.0), st.floats(3.0, 1e6))
def test_a_cause_of_that_strength_just_undoes_it(t: float, freedom: float) -> None:
    """Bias over the slope is √(R²_y·R²_a/(1 − R²_a))·√df/|t|: 1 where both shares are RV."""
    found = robustness_value(t, freedom)
    bias = math.sqrt(found.value**2 / (1.0 - found.value)) * math.sqrt(freedom) / t
    assert bias == pytest.approx(1.0, rel=1e-6)
    assert 0.0 <= found.at_level <= found.value
    assert robustness_value(-t, freedom) == found


def test_a_slope_that_is_not_significant_needs_nothing() -> None:
    assert robustness_value(1.0, 100.0).at_level == 0.0
    assert robustness_value(0.0, 100.0).value == 0.0


@pytest.mark.parametrize(
    "bad", [{"t": np.nan}, {"freedom": 1.0}, {"q": 0.0}, {"alpha": 0.0}, {"alpha": 2.0}]
)
def test_slopes_that_cannot_be_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        robustness_value(**{"t": 2.0, "freedom": 10.0} | bad)
