"""b̂ of a context-free posterior: hand arithmetic, references, coverage, and the evidence rule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.analysis.bias import ContextBias, context_bias
from gdcb.analysis.context_models import _DRAWN, _mode
from gdcb.analysis.slopes import ArmRows, Moments, slopes_of, variance_of
from gdcb.arrays import Array, logistic
from gdcb.errors import InvalidInput
from gdcb.history.evidence import _POOLED
from tests.properties import examples

K = 5
REFERENCE = np.zeros((1, 2))  # the mean of the contexts


def history(
    confounding: float, effect: float, groups: int = 40, rows: int = 400, seed: int = 3
) -> dict[str, Any]:
    """Return histories in which the arm follows x₀ with this correlation, and x₀ moves y."""
    rng = np.random.default_rng(seed)
    n = groups * rows
    x = rng.normal(size=(n, 2))
    score = confounding * x[:, 0] + math.sqrt(1 - confounding**2) * rng.normal(size=n)
    arm = np.digitize(score, [-0.8416, -0.2533, 0.2533, 0.8416])  # fifths of a normal law
    y = 0.3 * arm + effect * x[:, 0] + rng.normal(size=n)
    group = np.repeat(np.arange(groups), rows)
    return {"features": x, "arm": arm, "outcome": y, "group": group, "n_arms": K}


def truth(confounding: float, effect: float) -> Array:
    """Return b(a): the mean of x₀ in each fifth of the score, by the normal law."""
    edges = np.array([-np.inf, -0.8416, -0.2533, 0.2533, 0.8416, np.inf])
    density = np.exp(-0.5 * edges**2) / math.sqrt(2 * math.pi)
    return np.asarray(effect * confounding * (density[:-1] - density[1:]) / 0.2)


def found(confounding: float, effect: float, **more: Any) -> ContextBias:
    """Estimate b of such histories."""
    given_rows = history(confounding, effect)
    return context_bias(reference=REFERENCE, **(given_rows | more))


def test_one_arm_takes_the_variance_off_the_square() -> None:
    """b² = b̂² − Var b̂ with one arm, so n_eff = σ²/(σ²/n + b̂² − se²)."""
    rng = np.random.default_rng(1)
    x = 1.0 + rng.normal(size=(200, 1))
    y = x[:, 0] + rng.normal(size=200)
    one = context_bias(x, np.zeros(200, dtype=int), y, np.zeros((1, 1)), n_arms=1)
    b2 = one.bias[0, 0] ** 2 - one.standard_error[0, 0] ** 2
    sigma2 = y.var(ddof=1)
    assert b2 > 0.5
    assert one.noise[0] == pytest.approx(sigma2, rel=1e-12)
    assert one.n_eff[0, 0] == pytest.approx(sigma2 / (sigma2 / 200 + b2), rel=1e-6)


def test_slopes_are_those_of_a_mixed_model() -> None:
    """θ_a and θ together minimise Σ(y − φᵀθ_a)² + τΣ‖θ_a − θ‖² + λ‖θ‖²: one dense solve."""
    rng = np.random.default_rng(2)
    tau, penalty, p, k = 7.0, 0.5, 2, 3
    phi, y = rng.normal(size=(60, p)), rng.normal(size=60)
    arm = np.arange(60) % k
    for a in range(k):
        phi[arm == a] -= phi[arm == a].mean(axis=0)
        y[arm == a] -= y[arm == a].mean()
    dense = np.zeros((p * (k + 1), p * (k + 1)))
    right = np.zeros(p * (k + 1))
    common = slice(p * k, None)
    parts = []
    for a in range(k):
        mine, rows = slice(p * a, p * (a + 1)), phi[arm == a]
        gram, cross = rows.T @ rows, rows.T @ y[arm == a]
        dense[mine, mine] = gram + tau * np.eye(p)
        dense[mine, common] = dense[common, mine] = -tau * np.eye(p)
        right[mine] = cross
        square = (y[arm == a] ** 2).sum()
        parts.append((rows.shape[0], rows.sum(axis=0), gram, cross, y[arm == a].sum(), square))
    dense[common, common] = (penalty + k * tau) * np.eye(p)
    solved, inverse = np.linalg.solve(dense, right), np.linalg.inv(dense)
    sums = Moments(*(np.array([list(column)]) for column in zip(*parts, strict=True)))
    theta, own, shared = slopes_of(sums, np.array([tau]), np.array([penalty]))
    variance = variance_of(own, shared, np.array([tau]))
    for a in range(k):
        mine = slice(p * a, p * (a + 1))
        np.testing.assert_allclose(theta[0, a], solved[mine], atol=1e-12)
        np.testing.assert_allclose(variance[0, a], inverse[mine, mine], atol=1e-12)


def test_one_common_slope_is_least_squares() -> None:
    """With large pooling b̂ is (φ̄_a − φ̄_ref)ᵀθ̂ of a regression with an intercept an arm."""
    rows = history(0.6, 1.0, groups=1, rows=2000)
    x, arm, y = rows["features"], rows["arm"], rows["outcome"]
    design = np.concatenate((np.eye(K)[arm], x), axis=1)
    theta = np.linalg.lstsq(design, y, rcond=None)[0][K:]
    means = np.array([x[arm == a].mean(axis=0) for a in range(K)])
    one = context_bias(reference=REFERENCE, **rows, penalty=1e-9, pooling=1e6)
    # Cross-fitting moves the slope by some of its own error, 1/√2000.
    np.testing.assert_allclose(one.bias[0], means @ theta, atol=0.01)


@pytest.mark.parametrize(("confounding", "effect"), [(0.0, 1.0), (0.5, 1.0), (0.8, 0.5)])
def test_intervals_cover_the_truth(confounding: float, effect: float) -> None:
    """95 % intervals of 1,000 arms: below 0.93 with a chance of 0.2 % each, seed fixed.

    Nor is b̂ off on average: the error of a mean over 200 histories is 0.008.
    """
    rows, b = history(confounding, effect, groups=200), truth(confounding, effect)
    one = context_bias(reference=REFERENCE, **rows)
    inside = (one.low <= b) & (b <= one.high)
    assert 0.93 <= inside.mean() <= 0.98
    assert np.abs(one.bias.mean(axis=0) - b).max() < 0.035


def classes(confounding: float, groups: int, seed: int = 5) -> dict[str, Any]:
    """Return histories of classes whose log odds are −1 + 0.4·arm + 1.5·x₀."""
    rows = history(confounding, 0.0, groups=groups, seed=seed)
    odds = -1.0 + 0.4 * rows["arm"] + 1.5 * rows["features"][:, 0]
    p = logistic(odds)
    wins = np.random.default_rng([seed, 1]).random(p.size) < p
    return rows | {"outcome": wins.astype(float), "link": "logistic", "p": p}


def class_truth(confounding: float, reference: Array) -> Array:
    """Return b(a) of such histories, from half a million rows."""
    rows = classes(confounding, groups=1250, seed=6)
    ran = np.bincount(rows["arm"], rows["p"]) / np.bincount(rows["arm"])
    expected = logistic(-1.0 + 0.4 * np.arange(K)[:, None] + 1.5 * reference[:, 0]).mean(axis=1)
    return np.asarray(ran - expected)


def test_the_mode_of_a_class_is_scipys() -> None:
    """One group, three arms: level and slopes minimise the penalised likelihood.

    Less than a step of Newton's method is left: half of the first step's square.
    """
    from scipy.optimize import minimize

    rng = np.random.default_rng(8)
    k, p, n = 3, 2, 120
    phi, arm = rng.normal(size=(n, p)), np.arange(n) % k
    y = (rng.random(n) < logistic(phi[:, 0] + 0.5 * arm - 0.5)).astype(float)
    zero, one = np.zeros(n, dtype=int), np.ones(n)
    rows = ArmRows(phi, y, one, zero, zero, arm, np.zeros((1, 1, p)), (1, k))
    level, slopes, unit = _mode(rows, 1.0)

    def objective(z: Array) -> float:
        v, common, own = z[:k], z[k : k + p], z[k + p :].reshape(k, p)
        odds = v[arm] + (phi * own[arm]).sum(axis=1)
        prior = unit[0] * (_DRAWN * ((own - common) ** 2).sum() + (common**2).sum())
        return float(np.logaddexp(0.0, odds).sum() - (y * odds).sum() + 0.5 * prior)

    best = minimize(objective, np.zeros(k + p + k * p), method="BFGS", options={"gtol": 1e-8}).x
    np.testing.assert_allclose(level[0], best[:k], atol=1e-5)
    np.testing.assert_allclose(slopes[0].ravel(), best[k + p :], atol=1e-5)


@pytest.mark.parametrize("confounding", [0.0, 0.6])
def test_intervals_cover_the_truth_of_classes(confounding: float) -> None:
    """95 % intervals of 500 arms: below 0.92 with a chance of 0.1 % each, seed fixed.

    A straight line through the same classes is off where they are confounded.
    """
    reference = np.random.default_rng(4).normal(size=(300, 2))
    rows, b = classes(confounding, groups=100), class_truth(confounding, reference)
    del rows["p"]
    one = context_bias(reference=reference, **rows)
    inside = (one.low <= b) & (b <= one.high)
    assert 0.92 <= inside.mean() <= 0.995
    assert np.abs(one.bias.mean(axis=0) - b).max() < 0.015
    if confounding:
        line = context_bias(reference=reference, **rows | {"link": "identity"})
        off = np.abs(line.bias.mean(axis=0) - b).max()
        assert off > 2 * np.abs(one.bias.mean(axis=0) - b).max()
        assert one.weight.mean(axis=0)[[0, 4]].max() < 0.3


WEIGHTS = np.array([[0.8, 0.3], [-0.4, 0.6], [0.1, -0.7]])


def chosen_well(n: int, seed: int) -> tuple[dict[str, Any], Any]:
    """A log of arms chosen where they win: their log odds are lines of their own in two columns.

    Returns the rows and the log odds of every arm.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    eta = -1.0 + x @ WEIGHTS.T
    chance = np.exp(1.5 * eta)
    chance /= chance.sum(axis=1, keepdims=True)
    arm = (rng.random((n, 1)) > chance.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-eta[np.arange(n), arm]))).astype(float)
    phi = np.column_stack((x, x**2 - 1.0, x.prod(axis=1)))
    return {"features": phi, "arm": arm, "outcome": y, "n_arms": 3, "link": "logistic"}, eta


@pytest.mark.parametrize("is_read", [False, True])
def test_intervals_hold_where_log_odds_of_arms_have_slopes_of_their_own(is_read: bool) -> None:
    """95 % intervals of 3 arms in 60 logs of 1,000 rows, with the pooling of certificates.

    Whoever reads both columns has all there is to read: b is 0. In 200 such logs
    0.97 held (0.96 for those who read nothing), seeds fixed; below 0.88 comes with a chance of
    about 1 in 1,000 where 0.94 hold.
    """
    reference = chosen_well(4000, 1)[0]["features"]
    many, eta = chosen_well(400_000, 2)
    m = 1.0 / (1.0 + np.exp(-eta))
    b = np.array([m[many["arm"] == a, a].mean() - m[:, a].mean() for a in range(3)])
    read = np.array([True, True, False, False, False]) if is_read else None
    held = []
    for seed in range(60):
        rows = chosen_well(1000, 100 + seed)[0]
        one = context_bias(reference=reference, pooling=_POOLED, read=read, **rows)
        truth = np.zeros(3) if is_read else b
        held.append((one.low[0] <= truth) & (truth <= one.high[0]))
    assert np.mean(held) > 0.88


def test_what_is_left_where_all_is_read_and_where_nothing_is() -> None:
    rows = chosen_well(1000, 3)[0]
    reference = rows["features"]
    all_read = context_bias(reference=reference, read=np.ones(5, dtype=bool), **rows)
    np.testing.assert_allclose(all_read.bias, 0.0, atol=1e-12)
    np.testing.assert_allclose(all_read.high, 0.0, atol=1e-12)
    nothing = context_bias(reference=reference, read=np.zeros(5, dtype=bool), **rows)
    plain = context_bias(reference=reference, **rows)
    # The levels of arms by themselves have an influence, too, which the model's error leaves out.
    np.testing.assert_allclose(nothing.bias, plain.bias, atol=1e-12)
    np.testing.assert_allclose(nothing.standard_error, plain.standard_error, rtol=0.5)


def test_an_arm_that_always_wins_has_a_bias() -> None:
    """Its level has a prior: everything is finite, and the interval holds what may be."""
    rng = np.random.default_rng(1)
    x, arm = rng.normal(size=(90, 1)), np.arange(90) % 3
    y = np.where(arm == 0, 1.0, np.where(arm == 1, 0.0, x[:, 0] > 0))
    one = context_bias(x, arm, y, np.zeros((1, 1)), n_arms=3, link="logistic")
    assert np.isfinite(one.bias).all()
    assert (np.abs(one.bias) < 0.3).all()
    with pytest.raises(InvalidInput, match=r"outcome: expected numbers within \[0, 1\]"):
        context_bias(x, arm, y + 0.5, np.zeros((1, 1)), n_arms=3, link="logistic")


def test_without_confounding_evidence_is_kept() -> None:
    """No confounding, a context that explains half of the variance: the weights stay near 1.

    b̂² itself, its variance not taken off, would throw a quarter away.
    """
    one = found(0.0, 1.0)
    naive = 1.0 / (1.0 + one.n * one.bias**2 / one.noise[:, None])
    assert one.weight.mean() > 0.85
    assert naive.mean() < one.weight.mean() - 0.05
    assert found(0.0, 0.0).weight.min() > 0.9


def test_a_context_that_moves_nothing_costs_nothing() -> None:
    """Arms that follow a context without effect: no bias, and no evidence lost."""
    assert found(0.8, 0.0).weight.mean() > 0.95


def test_under_confounding_evidence_is_lost_where_the_bias_is() -> None:
    """The outer arms have the bias; the middle one has none, and keeps the more."""
    one = found(0.8, 1.0)
    mean = one.weight.mean(axis=0)
    assert mean[[0, 4]].max() < 0.05
    assert mean[2] > 2 * mean[[0, 4]].max()
    # n_eff is what the rule says of the true b, up to the error of b̂.
    n, b = one.n.mean(axis=0), truth(0.8, 1.0)
    sigma2 = one.noise.mean()
    expected = sigma2 / (sigma2 / n + b**2)
    np.testing.assert_allclose(one.n_eff.mean(axis=0)[[0, 4]], expected[[0, 4]], rtol=0.4)


def test_arms_that_share_a_curve_count_together() -> None:
    """1/(1 + Σ_a n_a·b_a²/σ²), with n_a·b_a²/σ² = 1/weight − 1: never above the arms' own."""
    one = found(0.8, 1.0)
    expected = 1.0 / (1.0 + (1.0 / one.weight - 1.0).sum(axis=1))
    np.testing.assert_allclose(one.shared_weight, expected, rtol=1e-12)
    assert (one.shared_weight <= one.weight.min(axis=1)).all()
    assert found(0.8, 0.0).shared_weight.mean() > 0.85


@pytest.mark.parametrize("link", ["identity", "logistic"])
def test_a_group_by_itself_gives_the_same_bytes(link: str) -> None:
    """No group's numbers hang on another's."""
    rows = history(0.5, 1.0, groups=7, rows=150)
    rows["outcome"] = (rows["outcome"] > 0.5).astype(float)
    together = context_bias(reference=REFERENCE, **rows, link=link)
    for g in (0, 4, 6):
        mine = rows["group"] == g
        alone = context_bias(
            rows["features"][mine],
            rows["arm"][mine],
            rows["outcome"][mine],
            REFERENCE,
            n_arms=K,
            link=link,
        )
        for name in (
            "bias",
            "standard_error",
            "low",
            "high",
            "n",
            "n_eff",
            "weight",
            "noise",
            "shared_weight",
        ):
            np.testing.assert_array_equal(getattr(together, name)[g], getattr(alone, name)[0], name)


@examples(15)
@given(st.integers(0, 2**32 - 1), st.floats(-50.0, 50.0), st.floats(0.1, 20.0))
def test_scale_and_level_do_not_matter(seed: int, level: float, scale: float) -> None:
    """Features and rewards in other units give the same weights, and b̂ in the reward's unit."""
    rows = history(0.5, 1.0, groups=2, rows=80, seed=seed)
    one = context_bias(reference=REFERENCE, **rows)
    other = context_bias(
        reference=REFERENCE * scale + level,
        **rows | {"features": rows["features"] * scale + level, "outcome": rows["outcome"] * 3},
    )
    np.testing.assert_allclose(other.bias, 3 * one.bias, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(other.weight, one.weight, rtol=1e-5)
    assert ((one.weight >= 0) & (one.weight <= 1)).all()


def test_rows_without_arm_or_weight_say_nothing() -> None:
    """−1 and weight 0 are the same as not being there; their residual may be NaN."""
    rows = history(0.5, 1.0, groups=1, rows=300)
    x, arm, y = rows["features"], rows["arm"].copy(), rows["outcome"].copy()
    weight = np.ones(300)
    arm[:50], y[:50], weight[50:100], y[50:100] = -1, np.nan, 0.0, np.nan
    one = context_bias(x, arm, y, REFERENCE, n_arms=K, row_weight=weight)
    other = context_bias(x[100:], arm[100:], y[100:], REFERENCE, n_arms=K)
    np.testing.assert_array_equal(one.bias, other.bias)
    np.testing.assert_array_equal(one.n, other.n)
    given_rows = one.of_rows(np.zeros(2, dtype=int), np.array([-1, 2]))
    assert given_rows.tolist() == [1.0, one.weight[0, 2]]


def test_an_arm_without_rows_and_a_group_with_one() -> None:
    """Nothing is known of them: no bias, and nothing to weigh."""
    x = np.arange(12.0)[:, None]
    arm = np.tile([0, 1], 6)
    one = context_bias(x, arm, x[:, 0], np.zeros((1, 1)), n_arms=3)
    assert np.isnan(one.bias[0, 2])
    assert (one.n_eff[0, 2], one.weight[0, 2]) == (0.0, 1.0)
    lone = context_bias(x[:1], arm[:1], x[:1, 0], np.zeros((1, 1)), n_arms=1)
    assert lone.low[0, 0] == -np.inf
    assert lone.weight.tolist() == [[1.0]]
    empty = context_bias(x, np.full(12, -1), x[:, 0], np.zeros((1, 1)), n_arms=1)
    assert np.isnan(empty.bias).all()


def test_constant_outcomes_and_constant_features() -> None:
    """No variance anywhere: no bias, full weight, no warning."""
    flat = context_bias(
        np.ones((20, 2)), np.arange(20) % 2, np.full(20, 3.0), np.zeros((1, 2)), n_arms=2
    )
    assert flat.bias.tolist() == [[0.0, 0.0]]
    assert flat.weight.tolist() == [[1.0, 1.0]]


def test_folds_may_be_given() -> None:
    """The fold of every row, or how many."""
    rows = history(0.5, 1.0, groups=1, rows=200)
    by_hand = np.zeros(200, dtype=int)
    for a in range(K):
        mine = np.flatnonzero(rows["arm"] == a)
        by_hand[mine] = np.arange(mine.size) % 4
    one = context_bias(reference=REFERENCE, **rows, folds=4)
    other = context_bias(reference=REFERENCE, **rows, folds=by_hand)
    np.testing.assert_array_equal(one.bias, other.bias)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.full((6, 1), np.nan)}, "features: expected finite"),
        ({"features": np.zeros(6)}, "features: expected finite"),
        ({"arm": np.zeros(5, dtype=int)}, "arm: expected 6 whole numbers"),
        ({"arm": np.zeros(6)}, "arm: expected 6 whole numbers"),
        ({"arm": np.full(6, 2)}, "arm: expected numbers >= -1 and <= 1"),
        ({"arm": np.full(6, -2)}, "arm: expected numbers >= -1"),
        ({"outcome": np.full(6, np.inf)}, "outcome: expected 6 numbers, finite"),
        ({"outcome": np.zeros(7)}, "outcome: expected 6 numbers"),
        ({"reference": np.zeros((0, 1))}, "reference: expected finite"),
        ({"reference": np.zeros((3, 2))}, "reference: expected finite"),
        ({"reference": np.full((3, 1), np.nan)}, "reference: expected finite"),
        ({"reference": np.zeros((2, 3, 1))}, "reference: expected finite"),
        ({"group": np.full(6, -1)}, "group: expected numbers >= 0"),
        ({"row_weight": np.full(6, -1.0)}, "row_weight: expected 6 finite"),
        ({"folds": 1}, "folds: expected at least 2"),
        ({"folds": np.zeros(6, dtype=int)}, "folds: expected rows in at least 2"),
        ({"folds": True}, "folds: expected 6 whole numbers"),
        ({"read": np.array([True])}, "read: expected 1 times true or false, with the logistic"),
        (
            {"read": np.zeros(2, dtype=bool), "link": "logistic", "outcome": np.zeros(6)},
            "read: expected 1 times true or false",
        ),
        ({"link": "probit"}, "link: expected one of identity, logistic"),
        ({"penalty": 0.0}, "penalty: expected a number > 0"),
        ({"pooling": math.inf}, "pooling: expected a finite number"),
        ({"level": 1.0}, "level: expected"),
        ({"n_arms": 0}, "n_arms: expected a number >= 1"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {
        "features": np.arange(6.0)[:, None],
        "arm": np.array([0, 0, 0, 1, 1, 1]),
        "outcome": np.arange(6.0),
        "reference": np.zeros((3, 1)),
        "n_arms": 2,
    }
    with pytest.raises(InvalidInput, match=message):
        context_bias(**good | change)
