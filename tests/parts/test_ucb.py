"""UCB1, KL-UCB and Bayes-UCB: indices by hand, against SciPy, and untried arms first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special, stats

from gdcb import records
from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.bandits.ucb import KLUCB, UCB1, BayesUCB, IndexState, highest_rate
from gdcb.errors import InvalidInput
from gdcb.records import Evidence, Located, Setting
from tests.parts.builders import bytes_of, evidence, evidences, fixed, rng_of, stream, take

ARMS = ArmList(values=(0.8, 1.0, 1.25)).build()
CELLS = np.zeros(4, dtype=np.int64)
ALL = [UCB1(), KLUCB(), BayesUCB()]
each = pytest.mark.parametrize("bandit", ALL, ids=lambda bandit: type(bandit).__name__)


def learned(bandit: Any, *batches: Evidence) -> IndexState:
    """Return the state of four cells after some batches."""
    state: IndexState = bandit.init(CELLS, ARMS)
    for batch in batches:
        bandit.update(state, batch)
    return state


def index_of(bandit: Any, state: IndexState, cell: int = 0) -> Array:
    """Return the index of every arm of one cell."""
    return np.asarray(bandit.draw(stream(1), state, Setting(np.array([cell])))[0])


def same(one: IndexState, other: IndexState) -> None:
    """Compare all sums."""
    for name, array in records.flatten(one).items():
        np.testing.assert_allclose(array, records.flatten(other)[name], rtol=0, atol=1e-10)


def test_ucb1_by_hand() -> None:
    """Means ½ of 2, 1 of 1 and 0 of 3 rows: t = 7, radii √(2·log 7/n)."""
    state = learned(UCB1(), evidence([0] * 6, [0, 0, 1, 2, 2, 2], [1, 0, 1, 0, 0, 0]))
    mean = np.array([0.5, 1.0, 0.0])
    radius = np.sqrt(2 * np.log(7) / np.array([2, 1, 3]))
    np.testing.assert_allclose(index_of(UCB1(), state), mean + radius, rtol=1e-15)
    wide = UCB1(width=4.0)
    np.testing.assert_allclose(index_of(wide, state), mean + 4 * radius, rtol=1e-15)


def test_ucb1_regresses_on_a_scale() -> None:
    """r = 4 at s = 2 and r = 1 at s = 1: n = 5, mean 9/5, and t = 1 + 2 rows."""
    state = learned(UCB1(), evidence([0, 0], [0, 0], [4.0, 1.0], scale=[2.0, 1.0]))
    expected = 9 / 5 + np.sqrt(2 * np.log(3) / 5)
    assert index_of(UCB1(), state)[0] == pytest.approx(expected, rel=1e-15)


def test_ucb1_radius_is_hoeffding_s() -> None:
    """At its radius Hoeffding's bound for the mean of n rows in [0, 1] is exactly t⁻⁴."""
    state = learned(UCB1(), evidence([0] * 8, [1] * 8, [0.5] * 8))
    radius = index_of(UCB1(), state)[1] - 0.5
    assert np.exp(-2 * 8 * radius**2) == pytest.approx(9.0**-4, rel=1e-12)


def test_kl_ucb_by_hand() -> None:
    """Two losses and a win elsewhere, t = 4: −log(1 − q) = log(4)/2 gives ½, a sure arm 1."""
    state = learned(KLUCB(), evidence([0] * 3, [0, 0, 1], [0, 0, 1]))
    assert index_of(KLUCB(), state)[:2].tolist() == pytest.approx([0.5, 1.0], abs=1e-12)
    # c = 2 where log 4 is 1.386: (1.386294 + 2·0.326634)/2 = 1.019781, q = 1 − e^−1.019781
    assert index_of(KLUCB(c=2.0), state)[0] == pytest.approx(0.639327, abs=1e-6)


@given(
    p=st.one_of(
        st.floats(0, 1),
        st.floats(0, 12).map(lambda k: 10.0**-k),
        st.floats(0, 9).map(lambda k: 1.0 - 10.0**-k),
    ),
    budget=st.floats(-12, 3).map(lambda k: 10.0**k),
)
@fixed
def test_the_highest_rate_is_brentq_s(p: float, budget: float) -> None:
    """The root of d(p, q) = budget agrees with SciPy's to 1e-10, and is not refuted."""

    def over(h: float) -> float:
        first = p * np.log1p(h / p) if p > 1e-100 else 0.0  # h/p overflows below
        return float(-first - (1 - p) * np.log1p(-h / (1 - p)) - budget)

    found = float(highest_rate(np.array([p]), np.array([budget]))[0])
    top = float(np.nextafter(1.0 - p, 0.0))
    if p == 1.0 or top <= 0.0 or over(top) < 0:
        expected = 1.0
    else:
        expected = p + optimize.brentq(over, 0.0, top, xtol=1e-15, rtol=1e-14, maxiter=500)
    assert found == pytest.approx(expected, rel=0, abs=1e-10)
    assert p <= found <= 1.0


def test_the_highest_rate_of_many_is_that_of_each() -> None:
    """2,000 roots together and one by one are the same bytes: every entry stops by itself."""
    rng = rng_of(2)
    p, budget = rng.random(2_000), 10.0 ** rng.uniform(-9, 2, 2_000)
    p[:10], p[10:20] = 0.0, 1.0
    alone = [highest_rate(p[i : i + 1], budget[i : i + 1])[0] for i in range(p.size)]
    assert bytes_of(highest_rate(p, budget)) == bytes_of(np.array(alone))


def test_bayes_ucb_is_scipy_s_quantile() -> None:
    """Quantile 1 − 1/(t·(log n)^c) of the posterior, and the prior's for an untried arm."""
    some = evidence([0] * 9, [0] * 5 + [1] * 4, [1, 1, 0, 1, 0, 0, 0, 0, 1])
    for c, horizon in ((0.0, 10_000.0), (2.0, 500.0)):
        bandit = BayesUCB(wins=2.0, losses=1.5, c=c, horizon=horizon)
        level = 1 - 1 / (10 * np.log(horizon) ** c)
        expected = stats.beta([5, 3, 2], [3.5, 4.5, 1.5]).ppf(level)
        np.testing.assert_allclose(index_of(bandit, learned(bandit, some)), expected, rtol=1e-9)


def test_bayes_ucb_starts_from_the_median() -> None:
    """Before any row t = 1 would ask for the quantile 0; the median is asked for instead."""
    bandit = BayesUCB(wins=2.0, losses=3.0)
    found = index_of(bandit, learned(bandit))
    np.testing.assert_allclose(found, special.betaincinv(2.0, 3.0, 0.5), rtol=1e-12)


@pytest.mark.parametrize("bandit", [UCB1(), UCB1(width=50.0), KLUCB(), KLUCB(c=3.0)], ids=repr)
@given(some=evidences(4, ARMS.coords, is_class=True))
@fixed
def test_untried_arms_come_first(bandit: Any, some: Evidence) -> None:
    """An arm without rows has the highest index, and it is finite whatever the others saw."""
    faint = replace(some, weight=some.weight * 1e-9)  # the least rows, the widest bounds
    for state in (learned(bandit), learned(bandit, some), learned(bandit, faint)):
        draws = bandit.draw(stream(1), state, Setting(np.arange(4)))
        assert np.isfinite(draws).all()
        untried = state.count == 0
        for cell in np.flatnonzero(untried.any(axis=1)):
            first = draws[cell][untried[cell]]
            assert (first == first[0]).all()
            assert (first[0] >= draws[cell]).all()


def test_untried_arms_come_first_far_from_zero() -> None:
    """Rewards around −1e9 and 1e9 leave an untried arm its lead of 1e6 widths."""
    for level in (-1e9, 1e9):
        state = learned(UCB1(), evidence([0, 0], [0, 1], [level, level + 1]))
        found = index_of(UCB1(), state)
        assert found[2] == level + 1 + 1e6
        assert found[2] > found[:2].max()


@each
def test_regret_is_that_of_a_learner(bandit: Any) -> None:
    """100 cells, arms of 0.2, 0.5 and 0.8, 500 rounds: every arm tried, the best one most.

    A uniform choice regrets 150 a cell; the mean regret of each index stays below 60.
    """
    p, cells = np.array([0.2, 0.5, 0.8]), np.arange(100)
    state, luck, regret = bandit.init(cells, ARMS), rng_of(3), np.zeros(100)
    for _ in range(500):
        arm = bandit.draw(stream(1), state, Setting(cells)).argmax(axis=1)
        bandit.update(state, evidence(cells, arm, luck.random(100) < p[arm]))
        regret += 0.8 - p[arm]
    assert (state.count > 0).all()
    assert (state.count.argmax(axis=1) == 2).mean() > 0.9
    assert regret.mean() < 60


@each
def test_nothing_is_drawn(bandit: Any) -> None:
    """The stream is left as it was, two draws agree, and the law is a point."""
    state = learned(bandit, evidence([0, 0, 1], [0, 1, 2], [1, 0, 1]))
    used, at = stream(4), Setting(np.array([0, 1]))
    draw = bandit.draw(used, state, at)
    assert bytes_of(used.uniform(2, 3)) == bytes_of(stream(4).uniform(2, 3))
    law = bandit.marginals(state, at)
    assert law.kind == "point"
    assert bytes_of(law.parameters[0]) == bytes_of(draw)


@each
def test_a_row_does_not_depend_on_the_rows_beside(bandit: Any) -> None:
    """The index of a cell has the same bytes alone and among 400 others."""
    rng = rng_of(5)
    cells = np.arange(400)
    state = bandit.init(cells, ARMS)
    for _ in range(20):
        bandit.update(state, evidence(cells, rng.integers(0, 3, 400), rng.integers(0, 2, 400)))
    many = bandit.draw(stream(1), state, Setting(cells))
    for cell in range(0, 400, 7):
        assert bytes_of(index_of(bandit, state, cell)) == bytes_of(many[cell])


@each
def test_values_of_located_actions(bandit: Any) -> None:
    """An action has its nearest arm's value; one comparable to none has the unknown's, ½."""
    located = Located(np.array([[2, -1]]), np.zeros((1, 2, 1)), lambda: np.zeros((1, 2)))
    assert bandit.value(np.array([[0.1, 0.2, 0.3]]), located).tolist() == [[0.3, 0.5]]
    state = learned(bandit, evidence([0] * 4, [1] * 4, [1, 1, 1, 0]))
    found = bandit.mean(state, Setting(CELLS[:1]), ARMS.nominal)[0]
    assert found.tolist() == [0.5, 4 / 6 if isinstance(bandit, BayesUCB) else 0.75, 0.5]


@each
@given(some=evidences(4, ARMS.coords, is_class=True), seed=st.integers(0, 99))
@fixed
def test_batch_equals_loop_in_any_order(bandit: Any, some: Evidence, seed: int) -> None:
    """One batch, rows one by one, and rows in another order give the same sums."""
    n = some.cell.size
    same(learned(bandit, *(take(some, [i]) for i in range(n))), learned(bandit, some))
    same(learned(bandit, take(some, rng_of(seed).permutation(n))), learned(bandit, some))


@given(
    some=evidences(4, ARMS.coords, is_class=False, with_scale=True),
    cut=st.integers(0, 12),
    factor=st.sampled_from([0.0, 0.25, 0.9, 1.0]),
)
@fixed
def test_merge_and_decay(some: Evidence, cut: int, factor: float) -> None:
    """Merged halves are the whole; a kept share of the evidence is a share of every weight."""
    bandit = UCB1()
    state = learned(bandit, take(some, slice(cut)))
    bandit.merge(state, learned(bandit, take(some, slice(cut, None))))
    same(state, learned(bandit, some))
    bandit.decay(state, factor, np.array([0, 2]))
    faded = np.where(np.isin(some.cell, [0, 2]), factor, 1.0) * some.weight
    same(state, learned(bandit, replace(some, weight=faded)))


@each
@given(some=evidences(3, ARMS.coords, is_class=True))
@fixed
def test_uncredited_rows_and_other_cells_are_not_touched(bandit: Any, some: Evidence) -> None:
    """Rows of arm −1 or weight 0 leave the same bytes; so do rows of one cell another's."""
    kept = np.flatnonzero((some.arm >= 0) & (some.weight > 0))
    state = learned(bandit, some)
    assert records.to_bytes(state) == records.to_bytes(learned(bandit, take(some, kept)))
    for array in records.flatten(state).values():
        assert not array[3].any()


@each
@pytest.mark.parametrize("y", [[1.0, np.nan], [np.inf, 1.0]])
def test_bad_evidence_is_refused_whole(bandit: Any, y: list[float]) -> None:
    """A bad row is refused, and the good row beside it has not been learned either."""
    state = learned(bandit, evidence([0], [1], [1.0]))
    before = records.to_bytes(state)
    with pytest.raises(InvalidInput, match=f"{type(bandit).__name__}: expected"):
        bandit.update(state, evidence([0, 1], [0, 1], y))
    with pytest.raises(InvalidInput, match="merge: expected a state of shape"):
        bandit.merge(state, bandit.init(CELLS[:2], ARMS))
    with pytest.raises(InvalidInput, match="decay: expected a"):
        bandit.decay(state, 2.0, CELLS[:1])
    assert records.to_bytes(state) == before


@pytest.mark.parametrize("bandit", [KLUCB(), BayesUCB()], ids=["KLUCB", "BayesUCB"])
def test_classes_take_no_scale(bandit: Any) -> None:
    """A scale, and outcomes outside [0, 1], are for rewards."""
    state = learned(bandit)
    for change in ({"scale": [1.0]}, {"y": [1.5]}, {"y": [-0.5]}):
        with pytest.raises(InvalidInput, match=f"{type(bandit).__name__}: "):
            bandit.update(state, evidence(**({"cell": [0], "arm": [0], "y": [1.0]} | change)))


@pytest.mark.parametrize(
    ("kind", "name", "values"),
    [
        (UCB1, "width", (0.0, -1.0, np.nan)),
        (UCB1, "untried", (0.5, np.inf, 1e13)),
        (UCB1, "unknown", (np.nan, "1")),
        (KLUCB, "c", (-1.0, np.nan)),
        (KLUCB, "untried", (1.0, np.inf)),
        (KLUCB, "unknown", (-0.1, 1.1)),
        (BayesUCB, "wins", (0.0, np.nan)),
        (BayesUCB, "losses", (0.01, "1")),
        (BayesUCB, "c", (-1.0, np.inf)),
        (BayesUCB, "horizon", (2.0, np.nan)),
    ],
)
def test_bad_settings_are_refused(kind: Any, name: str, values: tuple[Any, ...]) -> None:
    """Every setting is refused by its name."""
    for value in values:
        with pytest.raises(InvalidInput, match=f"bandit.{name}: expected a"):
            kind(**{name: value})
