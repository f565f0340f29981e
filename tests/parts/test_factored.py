"""Factored Thompson: levels by hand, the product given back, and where it must fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from gdcb import records
from gdcb.arms import ArmList, Arms, Grid
from gdcb.arrays import Array
from gdcb.bandits import BetaThompson
from gdcb.bandits.factored import FactoredState, FactoredThompson
from gdcb.errors import InvalidInput
from gdcb.records import Evidence, Located, Setting
from tests.parts.builders import bytes_of, evidence, evidences, fixed, rng_of, stream, take

ARMS = Grid({"A": (0.8, 1.25), "B": (0.8, 1.0, 1.25)}, combine="product").build()
BANDIT = FactoredThompson()
CELLS = np.zeros(4, dtype=np.int64)


def learned(
    *batches: Evidence, bandit: FactoredThompson = BANDIT, arms: Arms = ARMS
) -> FactoredState:
    """Return the state of four cells after some batches."""
    state = bandit.init(CELLS, arms)
    for batch in batches:
        bandit.update(state, batch)
    return state


def means_after(p: Array, trials: Array) -> Array:
    """Return the mean of every arm of a grid after `trials` (A, B) rows of rate p (A, B)."""
    arms = Grid({name: tuple(range(n)) for name, n in zip("AB", p.shape, strict=True)}).build()
    some = evidence([0] * p.size, np.arange(p.size), p.ravel(), weight=trials.ravel())
    state = learned(some, arms=arms)
    return np.asarray(BANDIT.mean(state, Setting(CELLS[:1]), arms.nominal).reshape(p.shape))


def test_arms_know_their_levels() -> None:
    """The first factor varies slowest; a list is one factor with a level an arm."""
    assert ARMS.levels.tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    assert ARMS.n_coords == 1
    assert Grid({"A": (1.0, 2.0), "B": (5.0,)}).build().levels.tolist() == [[0, 0], [1, 0]]
    assert ArmList(values=(3.0, 1.0)).build().levels.tolist() == [[0], [1]]
    assert ArmList(names=("a", "b", "c")).build().levels.tolist() == [[0], [1], [2]]


@pytest.mark.parametrize("levels", [np.zeros((3, 1)), np.array([[0], [1]]), np.array([[0], [-1]])])
def test_bad_levels_are_refused(levels: Array) -> None:
    """Every arm needs a whole number >= 0 for each factor."""
    names = ("a", "b", "c")[: 3 if levels.dtype.kind == "f" or levels.min() == 0 else 2]
    with pytest.raises(InvalidInput, match="arms: expected a level >= 0 of every factor"):
        Arms(names, np.arange(len(names))[:, None] * 1.0, np.ones(1), np.array([True]), levels)


def test_counts_by_hand() -> None:
    """Arm 4 is (A₁, B₁); a win, and a loss of weight 2 there; a win at arm 2 = (A₀, B₂).

    A: Beta(2, 1), Beta(2, 3); B: Beta(1, 1), Beta(2, 3), Beta(2, 1); all: Beta(3, 3), θ̄ = ½.
    Arm 5 = (A₁, B₂) was never tried: 2/5 · 2/3 / ½ = 8/15.
    """
    state = learned(evidence([1] * 3, [4, 4, 2], [1, 0, 1], weight=[1, 2, 1]))
    assert state.counts[1].tolist() == [[2, 2, 1, 2, 2], [1, 3, 1, 3, 1]]
    assert state.overall[1].tolist() == [3.0, 3.0]
    found = BANDIT.mean(state, Setting(np.array([1])), ARMS.nominal)[0]
    assert found[5] == pytest.approx(8 / 15, rel=1e-15)
    assert found[2] == pytest.approx(2 / 3 * 2 / 3 / 0.5, rel=1e-15)
    assert BANDIT.mean(state, Setting(np.array([0])), ARMS.nominal).tolist() == [[0.5] * 6]


def test_one_factor_is_beta_thompson() -> None:
    """On a list of arms it draws Beta-Thompson's very bytes."""
    arms, plain = ArmList(values=(0.8, 1.0, 1.25)).build(), BetaThompson(2.0, 3.0)
    rng = rng_of(1)
    some = evidence(rng.integers(0, 4, 50), rng.integers(0, 3, 50), rng.integers(0, 2, 50))
    bandit = FactoredThompson(2.0, 3.0)
    state, other = learned(some, bandit=bandit, arms=arms), plain.init(CELLS, arms)
    plain.update(other, some)
    at = Setting(np.arange(4))
    assert bytes_of(bandit.draw(stream(3), state, at)) == bytes_of(plain.draw(stream(3), other, at))
    assert bytes_of(bandit.mean(state, at, arms.nominal)) == bytes_of(
        plain.mean(other, at, arms.nominal)
    )


@given(seed=st.integers(0, 999))
@fixed
def test_a_product_tried_independently_is_given_back(seed: int) -> None:
    """p = c·g_A·g_B, rows in shares π_A·π_B of any kind: every arm's mean tends to its p."""
    rng = rng_of(seed)
    p = 0.9 * np.outer(rng.uniform(0.2, 1, 3), rng.uniform(0.2, 1, 4))
    trials = 1e10 * np.outer(rng.dirichlet(np.ones(3)) + 0.01, rng.dirichlet(np.ones(4)) + 0.01)
    np.testing.assert_allclose(means_after(p, trials), p, rtol=1e-6)


def test_factors_that_must_agree_look_alike() -> None:
    """p = 0.9 where the levels agree and 0.1 where not: every margin is ½, every arm ½."""
    p = np.array([[0.9, 0.1], [0.1, 0.9]])
    np.testing.assert_allclose(means_after(p, np.full((2, 2), 1e9)), 0.5, rtol=1e-8)


def test_unlike_company_biases_a_level() -> None:
    """p = g_A·g_B with g = (0.4, 0.8) each; A₁ is tried beside B₀ only, A₀ beside B₁ only.

    Both rows have p = 0.32, so A₀ and A₁ look alike although A₁ is twice as good.
    """
    p = np.outer([0.4, 0.8], [0.4, 0.8])
    found = means_after(p, np.array([[0.0, 1e9], [1e9, 0.0]]))
    np.testing.assert_allclose(found, 0.32, rtol=1e-8)


def test_means_are_cut_off_at_one_and_draws_are_not() -> None:
    """(0.9, 0.9) over θ̄ = ½ would be 1.62: a mean ends at 1, a draw keeps its rank."""
    p = np.array([[0.9, 0.9], [0.9, 0.0]])
    found = means_after(p, np.array([[1.0, 1e6], [1e6, 1e7]]))
    assert found.max() == 1.0
    state = learned(evidence([0] * 60, [4] * 20 + [0] * 40, [1] * 20 + [0] * 40))
    draws = BANDIT.draw(stream(2), state, Setting(np.zeros(500, dtype=np.int64)))
    assert (draws > 0).all()
    assert (draws[:, 4] > 1.0).mean() > 0.5


GRID = Grid({"A": tuple(range(5)), "B": tuple(range(5))}).build()


def test_at_the_prior_every_arm_is_picked_alike() -> None:
    """20,000 draws of 5 × 5 arms: none ties, and χ² of the picks with 24 degrees of freedom is
    below 59.7, a false alarm of 7.5e-5."""
    n = 20_000
    draws = BANDIT.draw(stream(3, 500), learned(arms=GRID), Setting(np.zeros(n, dtype=np.int64)))
    assert ((draws == draws.max(axis=1, keepdims=True)).sum(axis=1) == 1).all()
    picks = np.bincount(draws.argmax(axis=1), minlength=25)
    assert ((picks - n / 25) ** 2 / (n / 25)).sum() < 59.7


def regret_of(bandit: Any, p: Array, rounds: int, n: int) -> Array:
    """Return the total regret of n cells that play the 5 × 5 arms by their draws."""
    cells, total = np.arange(n), np.zeros(n)
    state, luck = bandit.init(cells, GRID), rng_of(8)
    for t in range(rounds):
        draw = bandit.draw(stream(9, 500, at=t), state, Setting(cells))
        arm = draw.argmax(axis=1)
        y = (luck.random(n) < p[arm]).astype(float)
        bandit.update(state, evidence(cells, arm, y))
        total += p.max() - p[arm]
    return total


def test_regret_does_not_depend_on_where_the_best_arm_is_listed() -> None:
    """Levels from 0.5 to 0.95, rising or falling: 400 cells, 100 rounds, |z| < 4 between them.

    The false alarm is 6e-5; seeds are fixed.
    """
    g = np.linspace(0.5, 0.95, 5)
    first, last = (regret_of(BANDIT, np.outer(o, o).ravel(), 100, 400) for o in (g[::-1], g))
    error = np.sqrt((first.var() + last.var()) / 400)
    assert abs(first.mean() - last.mean()) < 4 * error


@pytest.mark.parametrize("block", [1, 500], ids=["live", "blocks"])
def test_draws_are_products_of_betas(block: int) -> None:
    """An arm's draws pass Kolmogorov–Smirnov against the integrated law of the product.

    P(X·Y/θ̄ ≤ v) = ∫ f_X(x)·F_Y(v·θ̄/x) dx (false alarm 1e-3 over 4).
    """
    rng, n = rng_of(5), 4_000
    some = evidence([2] * 60, rng.integers(0, 6, 60), rng.integers(0, 2, 60) * 0.7)
    state = learned(some)
    draws = BANDIT.draw(stream(31, block), state, Setting(np.full(n, 2)))
    usual = state.overall[2, 0] / state.overall[2].sum()
    x, grid = np.linspace(0.0, 1.0, 2_001)[1:-1], np.linspace(0.0, 1.0 / usual, 401)
    for arm in (1, 5):
        (a, b), (c, d) = (state.counts[2, :, place] for place in state.place[arm])
        inner = special.betainc(c, d, np.minimum(grid[:, None] * usual / x, 1.0))
        cdf = integrate.trapezoid(stats.beta.pdf(x, a, b) * inner, x=x, axis=1)
        assert stats.kstest(np.interp(draws[:, arm], grid, cdf), "uniform").pvalue > 1e-3 / 4


def test_it_learns_levels_faster_than_arms() -> None:
    """5 × 5 arms with p = g_A·g_B, 300 rounds, 200 cells: less regret than 25 Beta arms.

    The paired difference of total regret is many standard errors (z > 5, one fixed seed).
    """
    g = np.array([0.3, 0.5, 0.6, 0.7, 0.95])
    p, n = np.outer(g, g[::-1]).ravel(), 200
    gain = regret_of(BetaThompson(), p, 300, n) - regret_of(BANDIT, p, 300, n)
    assert gain.mean() / (gain.std() / np.sqrt(n)) > 5


def test_values_of_located_actions() -> None:
    """An action has its nearest arm's value; one comparable to none has the prior mean."""
    located = Located(np.array([[2, -1]]), np.zeros((1, 2, 1)), lambda: np.zeros((1, 2)))
    bandit = FactoredThompson(wins=1.0, losses=3.0)
    assert bandit.value(np.array([[0.1, 0.2, 0.3]]), located).tolist() == [[0.3, 0.25]]


@given(some=evidences(4, ARMS.coords, is_class=True), seed=st.integers(0, 99))
@fixed
def test_batch_equals_loop_in_any_order(some: Evidence, seed: int) -> None:
    """One batch, rows one by one, and rows in another order give the same counts."""
    n = some.cell.size
    expected = records.flatten(learned(some))
    for other in (
        learned(*(take(some, [i]) for i in range(n))),
        learned(take(some, rng_of(seed).permutation(n))),
    ):
        for name, array in records.flatten(other).items():
            np.testing.assert_allclose(array, expected[name], rtol=0, atol=1e-10)


@given(some=evidences(4, ARMS.coords, is_class=True), cut=st.integers(0, 12))
@fixed
def test_merged_halves_are_the_whole(some: Evidence, cut: int) -> None:
    """Two learners that saw half each know, merged, what one that saw all knows."""
    merged = learned(take(some, slice(cut)))
    BANDIT.merge(merged, learned(take(some, slice(cut, None))))
    for name, array in records.flatten(merged).items():
        expected = records.flatten(learned(some))[name]
        np.testing.assert_allclose(array, expected, rtol=0, atol=1e-10)


@given(some=evidences(4, ARMS.coords, is_class=True), factor=st.sampled_from([0.0, 0.25, 0.9, 1.0]))
@fixed
def test_decay_weighs_every_row_less(some: Evidence, factor: float) -> None:
    """Keeping a share of the evidence is having seen every row with that share of its weight."""
    decayed = learned(some)
    BANDIT.decay(decayed, factor, np.array([0, 2]))
    faded = np.where(np.isin(some.cell, [0, 2]), factor, 1.0) * some.weight
    for name, array in records.flatten(decayed).items():
        expected = records.flatten(learned(replace(some, weight=faded)))[name]
        np.testing.assert_allclose(array, expected, rtol=0, atol=1e-10)


@given(some=evidences(3, ARMS.coords, is_class=True))
@fixed
def test_every_factor_counts_every_row_once(some: Evidence) -> None:
    """The levels of each factor sum to all rows, and uncredited rows teach nothing."""
    state = learned(some)
    kept = np.flatnonzero((some.arm >= 0) & (some.weight > 0))
    assert records.to_bytes(state) == records.to_bytes(learned(take(some, kept)))
    everything = state.overall - 1.0
    np.testing.assert_allclose((state.counts[:, :, :2] - 1.0).sum(axis=2), everything, atol=1e-10)
    np.testing.assert_allclose((state.counts[:, :, 2:] - 1.0).sum(axis=2), everything, atol=1e-10)
    assert bytes_of(state.counts[3], state.overall[3]) == bytes_of(
        learned().counts[3], learned().overall[3]
    )


def test_a_draw_does_not_depend_on_the_rows_beside() -> None:
    """Row i has the same bytes in a batch of 7 and in one of 3, whatever the others are."""
    state = learned(evidence([0, 1, 2], [0, 3, 5], [1, 0, 1]))
    for block in (1, 100):
        many = BANDIT.draw(stream(5, block), state, Setting(np.array([2, 0, 1, 3, 3, 0, 1])))
        few = BANDIT.draw(stream(5, block), state, Setting(np.array([2, 1, 1])))
        assert bytes_of(many[[0, 2]]) == bytes_of(few[[0, 2]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [1.0, 1.5]}, r"Factored Thompson: expected outcomes in \[0, 1\], got"),
        ({"y": [1.0, np.nan]}, r"Factored Thompson: expected outcomes in \[0, 1\], got"),
        ({"scale": [1.0, 1.0]}, r"Factored Thompson: learns classes and takes no reward scale"),
    ],
)
def test_bad_evidence_is_refused_whole(change: dict[str, Any], message: str) -> None:
    """A bad row is refused, and the good row beside it has not been learned either."""
    state = learned(evidence([0], [1], [1.0]))
    before = records.to_bytes(state)
    with pytest.raises(InvalidInput, match=message):
        BANDIT.update(state, evidence(**({"cell": [0, 1], "arm": [0, 1], "y": [1, 0]} | change)))
    assert records.to_bytes(state) == before


def test_bad_merges_and_priors_are_refused() -> None:
    """States of other factors do not merge, though the levels are as many; priors have a floor."""
    state = learned()
    with pytest.raises(InvalidInput, match=r"merge: expected a state of shape \(4, 2, 5\)"):
        BANDIT.merge(state, BANDIT.init(CELLS[:2], ARMS))
    turned = Grid({"A": (1.0, 2.0, 3.0), "B": (1.0, 2.0)}).build()
    with pytest.raises(InvalidInput, match="merge: expected a state of the same factors"):
        BANDIT.merge(state, learned(arms=turned))
    with pytest.raises(InvalidInput, match="decay: expected a"):
        BANDIT.decay(state, -0.1, CELLS[:1])
    for name in ("wins", "losses"):
        for value in (0.0, 0.04, np.nan, "1"):
            settings: dict[str, Any] = {name: value}
            with pytest.raises(InvalidInput, match=f"bandit.{name}: expected a"):
                FactoredThompson(**settings)
