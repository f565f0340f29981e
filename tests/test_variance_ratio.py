"""The variance ratio: against a reference by rows, where the paper's misleads, bias, coverage."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from gdcb.analysis.ratio import VarianceRatio, variance_ratio
from gdcb.analysis.surface import Surface
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from tests.properties import examples

Rows = tuple[Array, Array, Array]


def three_arms(
    rng: np.random.Generator, n: int, slope: float, level: float = 0.0, bend: float = 0.0
) -> Rows:
    """Return arms of values 0, 0.3, 0.2 whose slopes in x₁ are 0, ±slope/2; noise 1.

    D of the last two arms is 0.1 + slope·x₁, so the ratio is slope². `level` is a slope that all
    arms share; `bend` makes the choice of arms depend on x₁.
    """
    x = rng.normal(size=(n, 2))
    odds = np.exp(bend * x[:, :1] * np.arange(3))
    arm = (odds.cumsum(axis=1) > rng.random(n)[:, None] * odds.sum(axis=1)[:, None]).argmax(axis=1)
    slopes = np.array([0.0, slope / 2, -slope / 2]) + level
    reward = np.array([0.0, 0.3, 0.2])[arm] + slopes[arm] * x[:, 0] + rng.normal(size=n)
    return x, arm, reward


def tracking(rng: np.random.Generator, n: int, arms: Array) -> tuple[Array, Array, Array, Array]:
    """Return r = −(e − δ*)² + 0.3·noise, e = a at random, δ* = 1 + 0.3·x: the best e follows δ*."""
    x = rng.uniform(-1.7, 1.7, size=(n, 1))
    delta, e = 1.0 + 0.3 * x[:, 0], rng.choice(arms, size=n)
    return x, e, -((e - delta) ** 2) + 0.3 * rng.normal(size=n), delta


def test_agrees_with_a_fit_row_by_row() -> None:
    """One split, no draw: the sums by block give what ridge regressions of the rows give."""
    x, arm, reward = three_arms(np.random.default_rng(3), 300, 1.0)
    block = np.arange(300) // 10
    found = variance_ratio(
        x, arm, reward, 3, block=block, splits=1, draws=2, seed=5, surface=Surface(penalty=0.7)
    )

    rng = np.random.default_rng(5)
    fold = (np.argsort(rng.random((1, 30)), axis=1) % 3)[0][block]
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    phi = np.column_stack((np.ones(300), z))
    one_hot = np.column_stack((np.ones(300), np.eye(3)[arm] - 1 / 3))
    psi = (phi[:, :, None] * one_hot[:, None, :]).reshape(300, -1)
    centred = reward - reward.mean()
    penalty = np.full((3, 4), 300e-6)
    penalty[1:, 1:] += 0.7

    def fit(rows: Array) -> Array:
        gram = psi[rows].T @ psi[rows] + np.diag(penalty.ravel())
        return np.linalg.solve(gram, psi[rows].T @ centred[rows])

    def at_arms(theta: Array) -> Array:
        """Return m(a, x) of every row and arm: (300, 3)."""
        g = np.column_stack((np.ones(3), np.eye(3) - 1 / 3))
        return np.asarray(phi @ theta.reshape(3, 4) @ g.T)

    left = sum(
        ((centred - psi @ fit(fold != f)) ** 2)[fold == f].sum() for f in range(3)
    )  # each row by a fit of the other folds
    covariance = []
    for chooser, one, other in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        mine = at_arms(fit(fold == chooser))
        best = int(mine.mean(axis=0).argmax())
        gap = mine - mine[:, [best]]
        ahead, sd = gap.mean(axis=0), np.maximum(gap.std(axis=0), 1e-12)
        gain = ahead * norm.cdf(ahead / sd) + sd * norm.pdf(ahead / sd)
        gain[best] = -1.0
        rival = int(gain.argmax())
        two = [at_arms(fit(fold == f)) for f in (one, other)]
        gaps = [part[:, best] - part[:, rival] for part in two]
        covariance.append(np.mean((gaps[0] - gaps[0].mean()) * gaps[1]))
    np.testing.assert_allclose(found.noise, left / 300, rtol=1e-9)
    np.testing.assert_allclose(found.ratio, np.mean(covariance) / (left / 300), rtol=1e-9)


def test_a_pure_level_effect_is_worth_nothing() -> None:
    """All arms gain 3·x₁: the paper's ratio is 9, and no arm becomes better than another."""
    found = variance_ratio(*three_arms(np.random.default_rng(1), 1500, 0.0, level=3.0), 3)
    assert 8.0 < found.paper < 10.5
    assert found.low < 0.0 < found.high < 0.1
    assert "marginal" in found.advice


def test_a_reward_that_tracks_is_worth_most() -> None:
    """At a = 1 the action follows δ*, and the reward is flat: the paper's ratio is 0.

    D of a and a′ is 2·(a − a′)·δ* + const, so the ratio is 4·(a − a′)²·0.09·0.963/0.09.
    """
    arms = np.array([0.6, 0.8, 1.0, 1.2, 1.4])
    x, e, reward, delta = tracking(np.random.default_rng(2), 2000, arms)
    found = variance_ratio(x, e, reward, arms, delta=delta)
    assert abs(found.paper) < 0.03
    truth = 4 * (arms[found.best] - arms[found.rival]) ** 2 * (1.7**2 / 3)
    assert found.low < truth < found.high
    assert found.low > 0.1
    assert "something to gain" in found.advice


def test_as_the_grid_of_arms_gets_finer_the_rival_stays() -> None:
    """Between neighbours D vanishes with the step; the rival is as far as δ* moves the optimum."""
    ratio: dict[str, list[float]] = {"rival": [], "best": []}
    for n_arms in (5, 33):
        arms = np.linspace(0.6, 1.4, n_arms)
        x, e, reward, _ = tracking(np.random.default_rng(4), 4000, arms)
        for pair, values in ratio.items():
            values.append(variance_ratio(x, e, reward, arms, pair=pair, draws=2).ratio)
    assert ratio["best"][1] < 0.1 * ratio["best"][0]
    assert 0.5 < ratio["rival"][1] / ratio["rival"][0] < 2.0


@pytest.mark.parametrize("bend", [0.0, 0.5])
def test_no_effect_of_context_gives_zero_on_average(bend: float) -> None:
    """Whatever the level and the policy: the mean of 100 histories is within 4 standard errors.

    False alarms about 1 in 16,000. The naive Var(D̂)/σ̂² of one fit would be about 0.04 here.
    """
    found = np.array(
        [
            variance_ratio(
                *three_arms(np.random.default_rng(seed), 400, 0.0, 2.0, bend),
                3,
                draws=2,
                splits=3,
                seed=seed,
            ).ratio
            for seed in range(100)
        ]
    )
    assert abs(found.mean()) < 4 * found.std(ddof=1) / 10
    assert found.std() < 0.1


@pytest.mark.parametrize(("slope", "least"), [(0.0, 0.95), (0.5, 0.88), (1.2, 0.88)])
def test_intervals_cover(slope: float, least: float) -> None:
    """95 % intervals of 120 histories cover slope² in at least 88 %, and 95 % where it is 0.

    At a true coverage of 95 % fewer than 88 % of 120 have a chance of 1 in 1,000. Where nothing is
    there the interval is too wide by construction: a draw repeats the noise that is already in D̂.
    """
    hit = 0
    for seed in range(120):
        rows = three_arms(np.random.default_rng(1000 + seed), 800, slope)
        found = variance_ratio(*rows, 3, draws=60, splits=3, seed=seed)
        hit += found.low <= slope**2 <= found.high
    assert hit >= least * 120


def test_copies_of_a_row_belong_in_one_block() -> None:
    """Every row twice: in one block the ratio stays; torn apart, shared noise passes for effect."""
    x, arm, reward = (np.repeat(part, 2, axis=0) for part in three_arms(_rng(6), 300, 0.0))
    own = np.repeat(np.arange(300) // 6, 2)
    torn = np.tile(np.arange(50), 12)  # neighbours, so copies, in different blocks
    together = variance_ratio(x, arm, reward, 3, block=own)
    apart = variance_ratio(x, arm, reward, 3, block=torn)
    assert together.low < 0.0 < together.high
    assert apart.ratio > together.ratio + 0.02


def test_untried_arms_are_left_out() -> None:
    """An arm with 5 rows, and prices beyond what ran, are never of the pair."""
    rng = _rng(7)
    x, arm, reward = three_arms(rng, 400, 0.5)
    arm[:5], reward[:5] = 3, 50.0
    found = variance_ratio(x, arm, reward, 4, draws=5)
    assert 3 not in (found.best, found.rival)
    e = rng.choice([0.8, 1.0, 1.2], size=400)
    found = variance_ratio(x, e, e + reward, np.array([0.8, 1.0, 1.2, 3.0]), draws=5)
    assert 3 not in (found.best, found.rival)


def test_runs_repeat_and_seeds_matter() -> None:
    rows = three_arms(_rng(8), 300, 0.5)
    assert variance_ratio(*rows, 3, seed=1) == variance_ratio(*rows, 3, seed=1)
    assert variance_ratio(*rows, 3, seed=1).ratio != variance_ratio(*rows, 3, seed=2).ratio


@examples(15)
@given(
    shift=st.floats(-100, 100),
    unit=st.floats(0.01, 100),
    stretch=st.floats(0.01, 100),
)
def test_units_do_not_matter(shift: float, unit: float, stretch: float) -> None:
    """Rewards in another currency, and contexts in other units, give the same ratio."""
    x, arm, reward = three_arms(_rng(9), 300, 1.0)
    one = variance_ratio(x, arm, reward, 3, draws=2)
    other = variance_ratio(stretch * x - shift, arm, unit * reward + shift * unit, 3, draws=2)
    np.testing.assert_allclose(other.ratio, one.ratio, rtol=1e-6)


def test_rewards_that_never_vary() -> None:
    """Nothing varies and nothing is noise: the ratio is 0, not a division by it."""
    x, arm, reward = three_arms(_rng(10), 300, 0.0)
    for value in (0.0, 7.0):
        found = variance_ratio(x, arm, np.full_like(reward, value), 3, draws=5)
        assert abs(found.ratio) < 1e-3
        assert np.isfinite([found.low, found.high, found.paper]).all()


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (-0.01, 0.05, "marginal"),
        (1.5, 3.0, "substantial"),
        (0.2, 3.0, "something to gain"),
        (0.02, 0.5, "open"),
        (0.02, 3.0, "does not tell"),
    ],
)
def test_advice_minds_the_interval(low: float, high: float, words: str) -> None:
    middle = (low + high) / 2
    found = VarianceRatio(middle, low, high, 1, 1, 1, 1, 0, 1, 0.95, 10, 5, False)
    assert words in found.advice


def test_advice_writes_numbers_as_its_figure_does() -> None:
    """'-0.00095 (-0.022 to 0.034)', and 7.5e-05, stood in the prose without explanation."""
    found = VarianceRatio(-0.00095, -0.022, 0.034, 1, 1, 1, 1, 0, 1, 0.95, 10, 5, False)
    assert found.advice.startswith("The variance ratio is −0.001 (−0.022 to 0.034): below 0.1")
    assert found.advice.endswith("An estimate of it may fall below 0 by chance.")
    small = VarianceRatio(0.021, -7.5e-05, 0.045, 1, 1, 1, 1, 0, 1, 0.95, 10, 5, False)
    assert small.advice.startswith("The variance ratio is 0.021 (0.000 to 0.045): below 0.1")


def test_the_document_is_json() -> None:
    found = variance_ratio(*three_arms(_rng(11), 300, 1.0), 3, draws=20)
    document = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert set(document) >= {"mean", "low", "high", "advice", "paper", "noise", "arms"}
    assert document["low"] < document["mean"] < document["high"]
    assert set(document["paper"]) == {"mean", "low", "high"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.full((60, 2), np.nan)}, "x: expected finite"),
        ({"x": np.zeros(60)}, r"x: expected \(60, p\)"),
        ({"reward": np.full(60, np.inf)}, "reward: expected finite"),
        ({"reward": np.zeros((60, 1))}, r"reward: expected \(n,\)"),
        ({"action": np.zeros(3)}, "action: expected shape"),
        ({"action": np.full(60, 5)}, "expected arms 0 to 2"),
        ({"action": np.full(60, 0.5)}, "expected arms 0 to 2"),
        ({"action": np.zeros(60)}, "the history has tried 1"),
        ({"arms": 1}, "at least two"),
        ({"arms": np.array([1.0, 1.0])}, "two of them different"),
        ({"delta": np.zeros(2)}, "delta: expected shape"),
        ({"block": np.zeros(2)}, "block: expected one label"),
        ({"block": np.zeros(60)}, "at least 12 blocks"),
        ({"pair": "all"}, "expected one of rival, best"),
        ({"joins": "both"}, "expected one of product, sum"),
        ({"level": 1.0}, "level: expected"),
        ({"draws": 1}, "draws: expected a whole number >= 2"),
        ({"splits": 0.5}, "splits: expected a whole number >= 1"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], message: str) -> None:
    rows: dict[str, Any] = {
        "x": _rng(12).normal(size=(60, 2)),
        "action": np.arange(60) % 3,
        "reward": _rng(13).normal(size=60),
        "arms": 3,
    }
    with pytest.raises(InvalidInput, match=message):
        variance_ratio(**(rows | change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"degree": 0}, "surface.degree"),
        ({"degree": True}, "surface.degree"),
        ({"context_degree": 3}, "surface.context_degree"),
        ({"penalty": -1.0}, "surface.penalty"),
    ],
)
def test_bad_surfaces_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Surface(**change)


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)
