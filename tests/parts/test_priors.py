"""Priors of every arm, level or weight by itself: by hand, against one number, and refused."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from gdcb import checks
from gdcb.arms import ArmList, Arms, Grid
from gdcb.arrays import Array
from gdcb.bandits import (
    BetaThompson,
    BradleyTerryThompson,
    FactoredThompson,
    HierarchicalBetaThompson,
    HierarchicalThompson,
    LinearThompson,
    LinearUCB,
    LogisticThompson,
    SharedLinearThompson,
    SharedLinearUCB,
)
from gdcb.declaration import parse
from gdcb.errors import InvalidInput
from gdcb.records import Evidence, Located, Setting, to_bytes
from tests.parts.builders import bytes_of, rng_of, stream

ZERO = np.zeros(1, dtype=int)
PAIR = ArmList(values=(-1.0, 1.0)).build()
ARMS = ArmList(values=(0.8, 1.0, 1.25)).build()
GROUP = np.array([0, 0, 1, 1])


def row(arm: int, y: float, coord: float = 0.0, x: Any = ()) -> Evidence:
    """Return one row of cell 0, of weight 1."""
    context = np.array([x], dtype=float).reshape(1, -1)
    one = np.ones(1)
    return Evidence(ZERO, ZERO + arm, np.full((1, 1), coord), y * one, None, one, context)


def means(bandit: Any, state: Any, arms: Arms, cell: int = 0, x: Any = ()) -> list[float]:
    """Return the posterior means of a cell's arms at context x."""
    at = Setting(ZERO + cell, np.array([x], dtype=float).reshape(1, -1))
    found: list[float] = bandit.mean(state, at, arms.nominal)[0].round(12).tolist()
    return found


def unknown(bandit: Any) -> float:
    """Return what an action is worth that is comparable to no arm."""
    nowhere = Located(np.array([[-1]]), np.zeros((1, 1, 1)), lambda: np.zeros((1, 1)))
    return float(bandit.value(np.zeros((1, 3)), nowhere)[0, 0])


# By hand


def test_beta_by_hand() -> None:
    """Beta(1, 3) and Beta(3, 1), means ¼ and ¾; two wins make the first Beta(3, 3).

    Half of them kept: Beta(2, 3), mean 2/5. A loss of the second merged in: Beta(3, 2). Together
    the priors are (1 + 3)/2 = 2 wins and 2 losses: an action like no arm is worth ½.
    """
    bandit = BetaThompson(wins=(1.0, 3.0), losses=(3.0, 1.0))
    state, other = bandit.init(ZERO, PAIR), bandit.init(ZERO, PAIR)
    assert means(bandit, state, PAIR) == [0.25, 0.75]
    for _ in range(2):
        bandit.update(state, row(0, 1.0))
    assert means(bandit, state, PAIR) == [0.5, 0.75]
    bandit.decay(state, 0.5, ZERO)
    bandit.update(other, row(1, 0.0))
    bandit.merge(state, other)
    assert state.counts[0].tolist() == [[2.0, 3.0], [3.0, 2.0]]
    assert unknown(bandit) == 0.5


def test_linear_by_hand() -> None:
    """w_a ~ N((1, 0), I) and w_b ~ N((0, 2), I), noise 1; arm a saw r = 4 at x = 1, φ = (1, 1).

    A = [[2, 1], [1, 2]], b = (1, 0) + (4, 4), so w_a = (2, 1) and φᵀw_a = 3; arm b expects 2. An
    action like no arm is worth the mean intercept (1 + 0)/2. With nothing kept a expects 1 again.
    """
    bandit = LinearThompson(features=(0,), prior_mean=((1.0, 0.0), (0.0, 2.0)))
    state, other = bandit.init(ZERO, PAIR), bandit.init(ZERO, PAIR)
    bandit.update(other, row(0, 4.0, x=(1.0,)))
    assert other.weights.mean[0, 0].round(12).tolist() == [2.0, 1.0]
    assert means(bandit, other, PAIR, x=(1.0,)) == [3.0, 2.0]
    bandit.merge(state, other)
    assert means(bandit, state, PAIR, x=(1.0,)) == [3.0, 2.0]
    bandit.decay(state, 0.0, ZERO)
    assert means(bandit, state, PAIR, x=(1.0,)) == [1.0, 2.0]
    assert unknown(bandit) == 0.5
    assert unknown(replace(bandit, prior_mean=(0.7, 3.0))) == 0.7


@pytest.mark.parametrize(
    ("prior_sd", "variance"),
    [((1.0, 2.0), [13.0, 13.0]), (((1.0, 2.0), (3.0, 0.5)), [13.0, 9.75])],
    ids=["shared", "an arm"],
)
def test_linear_spreads_by_hand(prior_sd: Any, variance: list[float]) -> None:
    """At x = √3 the variance is sd₀² + 3·sd₁²: 1 + 3·4 = 13, and 9 + 3·¼ = 9.75."""
    bandit = LinearUCB(features=(0,), prior_sd=prior_sd, prior_mean=(1.0, 0.0), width=2.0)
    at = Setting(ZERO, np.full((1, 1), 3.0**0.5))
    draw = bandit.draw(stream(0), bandit.init(ZERO, PAIR), at)
    assert draw[0] == pytest.approx(1.0 + 2.0 * np.sqrt(variance), rel=1e-12)


def test_shared_by_hand() -> None:
    """ψ = (1, c), w ~ N((1, −1), I), noise 1; a reward 3 at c = 1: A = [[2, 1], [1, 2]].

    b = (1, −1) + (3, 3) = (4, 2), so w = (2, 0). Nothing kept: (1, −1), worth 2 and 0.
    """
    bandit = SharedLinearThompson(features=(), degree=1, prior_mean=(1.0, -1.0))
    state, other = bandit.init(ZERO, PAIR), bandit.init(ZERO, PAIR)
    bandit.update(other, row(1, 3.0, 1.0))
    bandit.merge(state, other)
    assert state.weights.mean[0].round(12).tolist() == [2.0, 0.0]
    bandit.decay(state, 0.0, ZERO)
    assert means(bandit, state, PAIR) == [2.0, 0.0]


def test_the_order_of_features_by_hand() -> None:
    """ψ = (1, x, c, c², xc) at x = 2 and c = ∓1: 1 + 2·10 ∓ 100 + 1000 ∓ 2·10000.

    With spreads (1, 2, 3, 4, 5) the variance is 1 + 4·4 + 9 + 16 + 4·25 = 142 at both.
    """
    bandit = SharedLinearUCB(
        features=(0,),
        prior_mean=(1.0, 10.0, 100.0, 1000.0, 10_000.0),
        prior_sd=(1.0, 2.0, 3.0, 4.0, 5.0),
    )
    state = bandit.init(ZERO, PAIR)
    assert means(bandit, state, PAIR, x=(2.0,)) == [-19_079.0, 21_121.0]
    draw = bandit.draw(stream(0), state, Setting(ZERO, np.full((1, 1), 2.0)))
    index = bandit.value(draw, PAIR.nominal)[0]
    assert index - [-19_079.0, 21_121.0] == pytest.approx([142.0**0.5] * 2, rel=1e-9)


def test_the_order_of_features_of_two_coordinates_by_hand() -> None:
    """ψ = (1, x, c₁, c₂, c₁², c₂², xc₁, xc₂) at x = 3, c = (1, −1): the powers of two, weighted.

    1 + 2·3 + 4 − 8 + 16 + 32 + 64·3 − 128·3 = −141.
    """
    grid = Grid({"A": (-1.0, 1.0), "B": (-1.0, 1.0)}).build()
    bandit = SharedLinearThompson(features=(0,), prior_mean=tuple(2.0**i for i in range(8)))
    at = grid.coords.tolist().index([1.0, -1.0])
    assert means(bandit, bandit.init(ZERO, grid), grid, x=(3.0,))[at] == -141.0


def test_logistic_by_hand() -> None:
    """ψ = (1, c), w ~ N((1, −3), (1, 3)); y = 1 at c = 1. The mode lies on (1, −3) + t·(1, 3).

    t = 1 − σ(−2 + 4t) has the solution ½: w = (1.5, −1.5). One row's refit finds the same, and
    with nothing kept the prior is back.
    """
    bandit = LogisticThompson((), prior_mean=(1.0, -3.0), prior_sd=(1.0, 3.0**0.5))
    state, seen = bandit.init(ZERO, PAIR), row(1, 1.0, 1.0)
    assert state.weights.mean.tolist() == [[1.0, -3.0]]
    bandit.update(state, seen)
    assert state.weights.mean[0].round(9).tolist() == [1.5, -1.5]
    other = bandit.init(ZERO, PAIR)
    bandit.refit(other, seen)
    assert other.weights.mean[0].round(9).tolist() == [1.5, -1.5]
    bandit.decay(state, 0.0, ZERO)
    np.testing.assert_allclose(state.weights.mean, [[1.0, -3.0]], rtol=1e-12)
    np.testing.assert_allclose(state.weights.covariance[0], np.diag([1.0, 3.0]), atol=1e-12)


def test_preferences_by_hand() -> None:
    """ψ = c, w ~ N(−1, 1); the arm at 1 was preferred to that at −1: w = −1 + 2·(1 − σ(2w)) = 0."""
    bandit = BradleyTerryThompson((), degree=1, prior_mean=(-1.0,), prior_sd=(1.0,), rival=0)
    state = bandit.init(ZERO, PAIR)
    bandit.update(state, row(1, 1.0, 1.0, x=(-1.0,)))
    assert state.weights.mean == pytest.approx(np.zeros((1, 1)), abs=1e-12)


def test_hierarchical_by_hand() -> None:
    """μ ~ N(1, 1) and N(−1, 1); all spreads 1; unit 0 saw r = 2 on the first arm.

    It tells precision ½ and shift 1: μ has the mean (1 + 1)/(3/2) = 4/3, which unit 1 expects, and
    unit 0 expects ½·4/3 + ½·2 = 5/3. The second arm expects −1; an action like none (1 − 1)/2.
    """
    bandit = HierarchicalThompson(prior_mean=(1.0, -1.0))
    state = bandit.init(np.zeros(2, dtype=int), PAIR)
    bandit.update(state, row(0, 2.0))
    assert means(bandit, state, PAIR) == [round(5 / 3, 12), -1.0]
    assert means(bandit, state, PAIR, cell=1) == [round(4 / 3, 12), -1.0]
    assert unknown(bandit) == 0.0
    bandit.decay(state, 0.0, ZERO)
    assert means(bandit, state, PAIR) == [1.0, -1.0]


def test_hierarchical_beta_by_hand() -> None:
    """m ~ Beta(1, 1) and Beta(2, 1), κ = 2; unit 0 won once on the second arm.

    The density of m there is 3m², its mean ¾, which unit 1 expects; unit 0 (2·¾ + 1)/3 = 5/6. With
    nothing kept 2/3. Together the priors are 1.5 wins and 1 loss: 0.6.
    """
    bandit = HierarchicalBetaThompson(wins=(1.0, 2.0), losses=1.0, concentration=2.0)
    state = bandit.init(np.zeros(2, dtype=int), PAIR)
    bandit.update(state, row(1, 1.0))
    assert means(bandit, state, PAIR) == [0.5, round(5 / 6, 12)]
    assert means(bandit, state, PAIR, cell=1) == [0.5, 0.75]
    bandit.decay(state, 0.0, ZERO)
    assert means(bandit, state, PAIR) == [0.5, round(2 / 3, 12)]
    assert unknown(bandit) == 0.6


def test_factored_by_hand() -> None:
    """A and B have the levels Beta(1, 3) and Beta(3, 1), all rows the average Beta(2, 2): θ̄ = ½.

    (A₀, B₀) expects ¼·¼/½ = ⅛, the mixed arms ¼·¾/½ = ⅜, (A₁, B₁) 9/8, cut off at 1. A win of
    (A₀, B₀) makes A₀ and B₀ Beta(2, 3) and all rows Beta(3, 2): ⅖·⅖/⅗ = 4/15. With half of it
    kept, Beta(1.5, 3) and Beta(2.5, 2): ⅓·⅓·9/5 = ⅕.
    """
    grid = Grid({"A": (0.0, 1.0), "B": (0.0, 1.0)}).build()
    bandit = FactoredThompson(wins=(1.0, 3.0, 1.0, 3.0), losses=(3.0, 1.0, 3.0, 1.0))
    state, other = bandit.init(ZERO, grid), bandit.init(ZERO, grid)
    assert means(bandit, state, grid) == [0.125, 0.375, 0.375, 1.0]
    bandit.update(other, row(0, 1.0))
    bandit.merge(state, other)
    assert means(bandit, state, grid)[0] == round(4 / 15, 12)
    bandit.decay(state, 0.5, ZERO)
    assert means(bandit, state, grid)[0] == 0.2
    assert unknown(bandit) == 0.5


# Against learners with one number


def some_rows(arms: Arms, is_class: bool, n: int = 60, seed: int = 0) -> Evidence:
    """Return rows of four cells with three columns of context, the last like a coordinate."""
    rng = rng_of(seed)
    arm, x = rng.integers(arms.n, size=n), rng.normal(size=(n, 3))
    y = (rng.random(n) < 0.4).astype(float) if is_class else rng.normal(size=n)
    weight = 0.5 + rng.random(n)
    return Evidence(rng.integers(4, size=n), arm, arms.coords[arm], y, None, weight, x)


def lived(bandit: Any, arms: Arms) -> tuple[Any, Array]:
    """Return a state that learned, forgot and was merged, and what a round sees of it."""
    is_class = bandit.target == "class"
    state, seen = bandit.init(GROUP.copy(), arms), some_rows(arms, is_class)
    if "refit" in bandit.supports:
        bandit.refit(state, some_rows(arms, is_class, seed=1))
    bandit.update(state, seen)
    bandit.decay(state, 0.6, np.array([0, 3]))
    if "merge" in bandit.supports:
        other = bandit.init(GROUP.copy(), arms)
        bandit.update(other, some_rows(arms, is_class, seed=2))
        bandit.merge(state, other)
    at = Setting(np.arange(4), rng_of(5).normal(size=(4, 3)))
    draw = bandit.draw(stream(6), state, at)
    parts = (bandit.value(draw, arms.nominal), bandit.mean(state, at, arms.nominal))
    return state, np.stack(parts)


CONSTANT: list[tuple[Any, dict[str, Any], Arms]] = [
    (BetaThompson(0.7, 1.3), {"wins": (0.7,) * 3, "losses": (1.3,) * 3}, ARMS),
    (BetaThompson(0.7, 1.3), {"losses": (1.3,) * 3}, ARMS),
    (LinearThompson((0, 1), 0.7), {"prior_mean": (0.0,) * 3, "prior_sd": (0.7,) * 3}, ARMS),
    (LinearThompson((0, 1), 0.7), {"prior_sd": ((0.7,) * 3,) * 3}, ARMS),
    (LinearUCB((0, 1), 0.7), {"prior_mean": ((0.0,) * 3,) * 3}, ARMS),
    (SharedLinearThompson((0, 1)), {"prior_mean": (0.0,) * 7, "prior_sd": (1.0,) * 7}, ARMS),
    (SharedLinearUCB((0, 1)), {"prior_mean": (0.0,) * 7, "prior_sd": (1.0,) * 7}, ARMS),
    (LogisticThompson((0, 1)), {"prior_mean": (0.0,) * 4, "prior_sd": (1.0,) * 4}, ARMS),
    (
        BradleyTerryThompson((0, 1), rival=2),
        {"prior_mean": (0.0,) * 4, "prior_sd": (1.0,) * 4},
        ARMS,
    ),
    (HierarchicalThompson(0.7), {"prior_mean": (0.7,) * 3}, ARMS),
    (HierarchicalBetaThompson(0.7, 1.3), {"wins": (0.7,) * 3}, ARMS),
    (
        FactoredThompson(0.7, 1.3),
        {"wins": (0.7,) * 5, "losses": (1.3,) * 5},
        Grid({"A": (1.0, 2.0, 3.0), "B": (1.0, 2.0)}).build(),
    ),
]


@pytest.mark.parametrize(
    ("bandit", "change", "arms"), CONSTANT, ids=[type(one[0]).__name__ for one in CONSTANT]
)
def test_a_prior_that_is_alike_everywhere_is_one_number(
    bandit: Any, change: dict[str, Any], arms: Arms
) -> None:
    """The same bytes: state, draws, means, and what an unknown action is worth."""
    state, seen = lived(bandit, arms)
    vector = replace(bandit, **change)
    same, found = lived(vector, arms)
    assert bytes_of(found) == bytes_of(seen)
    if not isinstance(bandit, HierarchicalBetaThompson):  # there every arm has its nodes
        assert to_bytes(same) == to_bytes(state)
    if not bandit.is_curve:
        assert unknown(vector) == unknown(bandit)


OF_THE_ARM: list[tuple[Any, dict[str, Any]]] = [
    (BetaThompson(), {"wins": (0.3, 5.0, 2.0), "losses": (4.0, 1.0, 2.5)}),
    (
        LinearThompson((0, 1)),
        {
            "prior_mean": ((1.0, 0.5, -1.0), (0.0, 2.0, 0.0), (-3.0, 0.0, 1.0)),
            "prior_sd": ((1.0, 0.5, 2.0), (3.0, 0.2, 1.0), (1.0, 1.0, 0.1)),
        },
    ),
    (LinearUCB((0,)), {"prior_mean": ((1.0, 0.5), (0.0, 2.0), (-3.0, 0.0))}),
    (HierarchicalThompson(), {"prior_mean": (3.0, -1.0, 0.5)}),
    (HierarchicalBetaThompson(), {"wins": (0.3, 5.0, 2.0), "losses": (4.0, 1.0, 2.5)}),
]


@pytest.mark.parametrize(
    ("bandit", "change"), OF_THE_ARM, ids=[type(one[0]).__name__ for one in OF_THE_ARM]
)
def test_an_arm_is_that_of_a_learner_with_its_prior_for_all(
    bandit: Any, change: dict[str, Any]
) -> None:
    """Arms are independent: one arm's draws and means do not know the others' priors."""
    _, found = lived(replace(bandit, **change), ARMS)
    for arm in range(3):
        of_all = {name: values[arm] for name, values in change.items()}
        _, alone = lived(replace(bandit, **of_all), ARMS)
        assert found[1, :, arm] == pytest.approx(alone[1, :, arm], rel=1e-12)
        assert not np.allclose(found[1], alone[1])
        assert found[0, :, arm] == pytest.approx(alone[0, :, arm], rel=1e-12)


def test_whole_numbers_are_pseudo_counts_too() -> None:
    """Half a win is learned whether the prior was written 2 or 2.0."""
    factored = FactoredThompson((2, 2), (3, 3))
    learners: list[Any] = [BetaThompson(2, 3), FactoredThompson(2, 3), factored]
    for bandit in learners:
        state = bandit.init(ZERO, PAIR)
        bandit.update(state, row(0, 0.5))
        assert means(bandit, state, PAIR) == [round(2.5 / 6, 12), 0.4]


# Promises, files and what is refused


@pytest.mark.parametrize(
    "part",
    [
        BetaThompson((1.0, 2.0, 3.0, 0.5, 1.0), (0.4, 2.0, 1.0, 1.0, 9.0)),
        LinearThompson(("first",), prior_mean=(0.3, -0.2), prior_sd=(0.5, 2.0)),
        LinearUCB(("first",), prior_mean=((0.3, -0.2),) * 5, prior_sd=((0.5, 2.0),) * 5),
        SharedLinearThompson(("first",), prior_mean=(0.1, 0.2, 0.3, 0.4, 0.5)),
        SharedLinearUCB(("first",), prior_sd=(0.1, 0.2, 0.3, 0.4, 0.5)),
        LogisticThompson(("first",), prior_mean=(0.1, 0.2, -1.0), prior_sd=(1.0, 0.5, 2.0)),
        HierarchicalThompson((1.0, -1.0, 0.0, 2.0, 0.3)),
        HierarchicalBetaThompson((1.0, 2.0, 3.0, 0.5, 1.0), (0.4, 2.0, 1.0, 1.0, 9.0)),
        FactoredThompson((1.0, 2.0, 3.0, 0.5, 1.0), (0.4, 2.0, 1.0, 1.0, 9.0)),
    ],
    ids=lambda part: type(part).__name__,
)
def test_promises_are_kept(part: Any) -> None:
    """All that hold of every bandit hold under priors that differ."""
    checks.check(part)


FILE = """
context.base = { type = "number", low = 1, high = 9 }
context.lead = { type = "number", low = 0, high = 1 }
arms = { part = "list", values = [0.9, 1.1] }
composition = { part = "multiply", base = ["base"], names = ["price"] }
gates = []
reward = { part = "payoff", outcome = ["booked"], action = 0 }
"""
LEAD = 'features = ["lead"], '


@pytest.mark.parametrize(
    ("table", "name", "value"),
    [
        ('"beta-thompson", wins = [1, 2.5]', "wins", (1.0, 2.5)),
        (f'"linear-thompson", {LEAD}prior_mean = [1, 2]', "prior_mean", (1.0, 2.0)),
        (
            f'"linear-ucb", {LEAD}prior_sd = [[1, 2], [3, 4]]',
            "prior_sd",
            ((1.0, 2.0), (3.0, 4.0)),
        ),
        (f'"linear-ucb", {LEAD}prior_mean = []', "prior_mean", ()),
        (
            f'"shared-linear-ucb", {LEAD}degree = 1, prior_sd = [1, 2, 3, 4]',
            "prior_sd",
            (1, 2, 3, 4),
        ),
        (f'"logistic-thompson", {LEAD}prior_mean = [1, 2, 3]', "prior_mean", (1.0, 2.0, 3.0)),
        ('"hierarchical-thompson", prior_mean = [1, 2]', "prior_mean", (1.0, 2.0)),
        ('"hierarchical-beta-thompson", losses = [1, 2]', "losses", (1.0, 2.0)),
        ('"factored-thompson", losses = [1, 2]', "losses", (1.0, 2.0)),
    ],
)
def test_a_file_gives_lists(table: str, name: str, value: Any) -> None:
    """They become tuples, and whole numbers are numbers."""
    bandit = parse(f"{FILE}bandit = {{ part = {table} }}").bandit
    assert getattr(bandit, name) == value
    assert type(getattr(bandit, name)) is tuple


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('"beta-thompson", wins = [1, 2, 3]', "bandit.wins: expected 2 numbers, one an arm; got 3"),
        (
            '"beta-thompson", wins = ["1"]',
            "bandit.wins: expected a number or a list of numbers; got",
        ),
        ('"beta-thompson", wins = "1"', "bandit.wins: expected a number or a list of numbers; got"),
        ('"beta-thompson", wins = []', "bandit.wins: expected a finite number, got ()"),
        ('"beta-thompson", wins = [1, 0]', "bandit.wins[1]: expected a number >= 0.05, got 0"),
        (
            f'"linear-ucb", {LEAD}prior_mean = [1, 2, 3]',
            "bandit.prior_mean: expected 2 numbers, the intercept's first, or 2 tuples of so many,",
        ),
        (f'"linear-ucb", {LEAD}prior_mean = [1, 2, 3]', "one an arm; got 3 numbers"),
        (f'"linear-ucb", {LEAD}prior_mean = [[1, 2]]', "one an arm; got tuples of 2"),
        (f'"linear-ucb", {LEAD}prior_sd = [[1, 2], [1]]', "one an arm; got tuples of 2, 1"),
        (
            f'"linear-ucb", {LEAD}prior_mean = 1',
            "bandit.prior_mean: expected a list of numbers, or a list of such lists, one an arm;",
        ),
        (
            f'"linear-ucb", {LEAD}prior_sd = [1, "a"]',
            "bandit.prior_sd: expected a number, a list of numbers, or a list of such lists,",
        ),
        (f'"linear-ucb", {LEAD}prior_sd = [[1, 2], [1, 0]]', "bandit.prior_sd[1][1]: expected"),
        (
            f'"logistic-thompson", {LEAD}prior_mean = [1, 2]',
            "bandit.prior_mean: expected 3 numbers, one a feature of ψ; got 2",
        ),
        (
            f'"logistic-thompson", {LEAD}prior_sd = [1, 2]',
            "bandit.prior_sd: expected 3 numbers, one a feature of ψ; got 2",
        ),
        (f'"logistic-thompson", {LEAD}prior_mean = 1', "prior_mean: expected a list of numbers;"),
        ('"hierarchical-thompson", prior_mean = [1]', "expected 2 numbers, one an arm; got 1"),
        ('"hierarchical-beta-thompson", wins = [1]', "expected 2 numbers, one an arm; got 1"),
        (
            '"factored-thompson", wins = [1]',
            "bandit.wins: expected 2 numbers, one a level of each factor in turn; got 1",
        ),
    ],
)
def test_a_file_with_a_wrong_prior_says_what_was_expected(table: str, said: str) -> None:
    """How many numbers, of what, and how many came."""
    with pytest.raises(InvalidInput, match=re.escape(said)):
        parse(f"{FILE}bandit = {{ part = {table} }}")


PRIORS = ("wins", "losses", "prior_mean", "prior_sd")


@pytest.mark.parametrize(
    "value",
    [(np.nan, 1.0), (1.0, np.inf), (True, 1.0), ("1", 1.0), [np.nan, 1.0], np.array([1.0, np.nan])],
)
@pytest.mark.parametrize(
    "cls", dict.fromkeys(type(one[0]) for one in CONSTANT), ids=lambda cls: cls.__name__
)
def test_bad_numbers_are_refused_by_name(cls: Any, value: Any) -> None:
    """NaN, infinities, booleans and texts in any prior, in a tuple, a list or an array."""
    names = [field.name for field in fields(cls) if field.name in PRIORS]
    assert names
    for name in names:
        with pytest.raises(InvalidInput, match=rf"^bandit\.{name}(\[\d\])?: expected a "):
            cls(**{name: value})
