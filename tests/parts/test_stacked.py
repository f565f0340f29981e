"""Stacking: weights against the objective itself, members against themselves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special

from gdcb import Agent, records
from gdcb import round as turn
from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.bandits import (
    BetaThompson,
    CurveThompson,
    HierarchicalCurveThompson,
    HierarchicalThompson,
    LogisticThompson,
)
from gdcb.bandits.gp_curve import GPCurveThompson
from gdcb.bandits.stacked import PooledStackedState, StackedState, StackedThompson
from gdcb.checks.lists import report
from gdcb.contrast import weigh
from gdcb.credit import evidence as evidence_of
from gdcb.errors import InvalidInput
from gdcb.instances import load
from gdcb.records import Evidence, Setting
from gdcb.refold import publish, refold
from gdcb.simulate import Simulation, simulate
from gdcb.streams import DRAW, Streams
from tests.builders import letting, night, with_rules
from tests.parts.builders import bytes_of, evidence, evidences, fixed, rng_of, stream, take

ARMS = ArmList(values=(0.5, 0.75, 1.0, 1.25, 1.5, 2.0)).build()
RELATIVE = CurveThompson(prior_sd=3.0)
ADDITIVE = CurveThompson(form="additive", prior_sd=3.0)
FORMS = StackedThompson((RELATIVE, ADDITIVE))
STACKS = {
    "forms": FORMS,
    "all": StackedThompson((RELATIVE, ADDITIVE, GPCurveThompson(), BetaThompson()), steps=6),
    "cells": StackedThompson((RELATIVE, BetaThompson()), share="cell"),
    "rewards": StackedThompson(
        (
            CurveThompson(link="identity"),
            CurveThompson(link="identity", form="additive"),
            GPCurveThompson(link="identity"),
        )
    ),
    "lines": StackedThompson(
        (
            CurveThompson(link="identity", noise=0.7),
            CurveThompson(link="identity", form="additive", noise=0.7),
        )
    ),
    "hierarchical": StackedThompson(
        (
            HierarchicalCurveThompson(RELATIVE, own_sd=0.4),
            HierarchicalCurveThompson(ADDITIVE, own_sd=0.4),
        )
    ),
}
FITTED = pytest.mark.parametrize("name", ["forms", "lines", "hierarchical"])
EVERY = pytest.mark.parametrize("name", STACKS)
GROUP = np.array([0, 0, 1, 1])
ZERO = np.zeros(1, dtype=np.int64)


def with_delta(some: Evidence, seed: int = 0) -> Evidence:
    """Return the rows with a δ of their own."""
    delta = np.exp(0.4 * rng_of(seed).normal(size=(some.cell.size, 1, 1)))
    return replace(some, delta=delta)


def pick(some: Evidence, index: Any) -> Evidence:
    """Return the evidence rows at `index`, with their δ."""
    return replace(take(some, index), delta=None if some.delta is None else some.delta[index])


def some_rows(n: int, seed: int, n_cells: int = 4) -> Evidence:
    """Return n rows on arms: P(y) = σ(3 − 3c), whatever δ."""
    rng = rng_of(seed)
    arm = rng.integers(0, ARMS.n, n)
    coord = ARMS.coords[arm]
    y = rng.uniform(size=n) < special.expit(3.0 - 3.0 * coord[:, 0])
    return with_delta(evidence(rng.integers(0, n_cells, n), arm, y, coord), seed)


def learned(bandit: StackedThompson, *batches: Evidence) -> StackedState:
    """Return the state of four cells in two groups after some batches."""
    state = bandit.init(GROUP, ARMS)
    for batch in batches:
        bandit.update(state, batch)
    return state


# Weights -------------------------------------------------------------------------------------


def test_weights_by_hand() -> None:
    """Beta(1, 1) and Beta(3, 1), two wins on one arm and one loss on another, grid 0, ½, 1.

    They gave ½·⅔·½ = 1/6 and ¾·⅘·¼ = 3/20; half and half ⅝ · 11/15 · ⅜ = 11/64. With π = ⅜, ¼, ⅜
    E w₁ = (½·¼·11/64 + ⅜/6)/(⅜·3/20 + ¼·11/64 + ⅜/6).
    """
    bandit = StackedThompson((BetaThompson(), BetaThompson(wins=3.0)), steps=2)
    state = learned(bandit, evidence([0, 0, 0], [0, 0, 1], [1.0, 1.0, 0.0]))
    total = 0.375 * 3 / 20 + 0.25 * 11 / 64 + 0.375 / 6
    expected = (0.5 * 0.25 * 11 / 64 + 0.375 / 6) / total
    np.testing.assert_allclose(state.weights[0], [expected, 1 - expected], rtol=1e-12)
    np.testing.assert_allclose(state.weights[1], 0.5, rtol=1e-12)


def test_a_member_s_density_of_flat_arms() -> None:
    """Beta(2, 1) after one win: ⅔ for a win and ⅓ for a loss; no density off the arms."""
    bandit = BetaThompson()
    state = bandit.init(ZERO, ARMS)
    bandit.update(state, evidence([0], [2], [1.0]))
    found = bandit.predictive(state, evidence([0, 0, 0], [2, 2, -1], [1.0, 0.0, 1.0]))
    np.testing.assert_allclose(found, [np.log(2 / 3), np.log(1 / 3), np.nan], rtol=1e-12)


@pytest.mark.parametrize(("k", "steps", "points"), [(2, 20, 21), (3, 20, 231), (4, 5, 56)])
def test_the_grid_is_the_simplex(k: int, steps: int, points: int) -> None:
    """All multiples of 1/steps that sum to 1, once each, vertices exact; equal weights first."""
    members = tuple(BetaThompson(wins=1.0 + i) for i in range(k))
    state = StackedThompson(members, steps=steps).init(GROUP, ARMS)
    assert state.grid.shape == (points, k)
    assert np.unique(state.grid, axis=0).shape == (points, k)
    np.testing.assert_allclose(state.grid.sum(axis=1), 1.0, rtol=1e-12)
    assert (state.grid == 1.0).sum() == k
    assert np.exp(state.prior).sum() == pytest.approx(1.0)
    np.testing.assert_allclose(state.weights, 1.0 / k, rtol=1e-12)


def test_one_wrong_surprise_does_not_break_the_sums() -> None:
    """A member that held an outcome to be all but impossible: w₂ is then all of the likelihood.

    E w₂ = Σ π·w₂² / Σ π·w₂, a little below ¾, and all sums stay finite.
    """
    sure = CurveThompson(link="identity", prior_sd=1e-3, noise=1e-3)
    bandit = StackedThompson((sure, CurveThompson(link="identity", noise=10.0)))
    state = learned(bandit, evidence([0], [0], [1000.0], [0.5]))
    chance, w = np.exp(state.prior), state.grid[:, 1]
    assert state.weights[0, 1] == pytest.approx(chance @ w**2 / (chance @ w))
    assert 0.7 < state.weights[0, 1] < 0.8
    assert np.isfinite(state.score).all()
    bandit.decay(state, 0.0, np.arange(4))
    np.testing.assert_allclose(state.weights, 0.5, rtol=1e-12)


def scored(bandit: StackedThompson, some: Evidence) -> tuple[Array, Array, StackedState]:
    """Learn row by row; return every row's log densities of the members and of the stack."""
    state = bandit.init(GROUP, ARMS)
    members, mixed = [], []
    for i in range(some.cell.size):
        row = pick(some, [i])
        members.append(bandit._densities(state, row)[0])
        mixed.append(bandit.predictive(state, row)[0])
        bandit.update(state, row)
    return np.array(members), np.array(mixed), state


@given(
    some=evidences(2, ARMS.coords, is_class=True),
    seed=st.integers(0, 99),
    name=st.sampled_from(["forms", "all"]),
)
@fixed
def test_the_stack_s_score_is_the_best_one_s_less_its_prior(
    some: Evidence, seed: int, name: str
) -> None:
    """For any rows of weight 1, one by one, in one group: Σ log p ≥ max (Σ log p_k) − log 1/π.

    It is a theorem, so the tolerance is rounding. Rows that a member has no density for are
    left out for all.
    """
    some = with_delta(replace(some, weight=np.ones(some.cell.size)), seed)
    bandit = STACKS[name]
    members, mixed, state = scored(bandit, some)
    known = np.isfinite(members).all(axis=1)
    vertex = state.prior[state.grid.argmax(axis=0)]
    assert (mixed[known].sum() >= (members[known].sum(axis=0) + vertex) - 1e-9).all()


def play(bandit: Any, kind: str, rounds: int = 150) -> tuple[Array, Array, Any, Array]:
    """Let 8 groups of 8 units price under a known truth: σ(4 − 4c), σ(3.5 − 3.5e + log δ) or half
    of each predictor; common random numbers.

    Returns regret, log score (units,), state, and the members' densities where there are any.
    """
    units = np.arange(64)
    state, rng, streams = bandit.init(units // 8, ARMS), rng_of(1), Streams(5)
    regret, score, densities = np.zeros(64), np.zeros(64), []
    for t in range(rounds):
        delta, u = np.exp(0.4 * rng.normal(size=(64, 1))), rng.uniform(size=64)
        e = ARMS.coords[:, 0] * delta
        relative, additive = 4.0 - 4.0 * ARMS.coords[:, 0], 3.5 - 3.5 * e + np.log(delta)
        share = {"relative": 1.0, "additive": 0.0, "mixed": 0.5}[kind]
        p = special.expit(share * relative + (1.0 - share) * additive)
        at = Setting(units, None, delta[:, None])
        draw = bandit.draw(streams.at(DRAW, t), state, at)
        arm = (e * bandit.value(draw, ARMS.nominal)).argmax(axis=1)
        regret += (e * p).max(axis=1) - (e * p)[units, arm]
        y = u < p[units, arm]
        some = replace(evidence(units, arm, y, ARMS.coords[arm]), delta=delta[:, None])
        score += bandit.predictive(state, some)
        if isinstance(bandit, StackedThompson):
            densities.append(bandit._densities(state, some))
        bandit.update(state, some)
    return regret, score, state, np.array(densities)


def optimum(density: Array) -> float:
    """Return w of the first member that maximises Σ log (w·p₁ + (1 − w)·p₂), with SciPy."""
    p = np.exp(density)
    found = optimize.minimize_scalar(
        lambda w: -np.log(w * p[:, 0] + (1 - w) * p[:, 1]).sum(), bounds=(0, 1), method="bounded"
    )
    return float(found.x)


@pytest.mark.parametrize(("kind", "own"), [("relative", RELATIVE), ("additive", ADDITIVE)])
def test_the_true_form_gets_the_weight(kind: str, own: CurveThompson) -> None:
    """1,200 rows a group under one form: its weight is above 0.8 in all 8 groups and 0.9 in their
    mean, and regret is within a tenth of its own; the other form's is half as large again. Fixed
    seeds."""
    other = ADDITIVE if own is RELATIVE else RELATIVE
    regret, _, state, densities = play(FORMS, kind)
    mine = state.weights[:, 0 if own is RELATIVE else 1]
    assert (mine > 0.8).all()
    assert mine.mean() > 0.9
    alone, wrong = play(own, kind)[0].mean(), play(other, kind)[0].mean()
    assert wrong > 1.5 * alone
    assert regret.mean() < 1.1 * alone
    best = [optimum(densities[:, 8 * i : 8 * i + 8].reshape(-1, 2)) for i in range(8)]
    assert np.abs(state.weights[:, 0] - best).max() < 0.1


def test_a_truth_between_the_forms_keeps_both() -> None:
    """The predictor is half of each: both keep weight, near the optimum of the objective (0.05),
    and the stack's log score is that of the better form alone, less 1 in 1,200 rows, or better."""
    _, score, state, densities = play(FORMS, "mixed")
    best = [optimum(densities[:, 8 * i : 8 * i + 8].reshape(-1, 2)) for i in range(8)]
    assert np.abs(state.weights[:, 0] - best).max() < 0.05
    assert state.weights.min() > 0.1
    singles = densities.sum(axis=0).reshape(8, 8, 2).sum(axis=1)
    assert (score.reshape(8, 8).sum(axis=1) > singles.max(axis=1) - 1.0).all()


def test_weights_tend_to_one() -> None:
    """Under one form the other's weight falls as rows come: below 0.3, 0.1 and 0.05 in the mean of
    8 groups after 160, 1,200 and 4,800 rows."""
    weights = [play(FORMS, "additive", rounds)[2].weights[:, 0].mean() for rounds in (20, 150, 600)]
    assert weights[0] < 0.3
    assert weights[1] < 0.1
    assert weights[2] < 0.05


# Draws, means --------------------------------------------------------------------------------


@EVERY
def test_a_draw_is_the_weighted_mean_of_the_members_draws(name: str) -> None:
    """Σ w_k v_k of what the members draw one after the other, by the weights of the row's owner:
    the forms are averaged in every row, and none is selected."""
    bandit = STACKS[name]
    state = learned(bandit, some_rows(60, 1))
    cell = np.arange(40) % 4
    at = Setting(cell, None, np.exp(0.4 * rng_of(2).normal(size=(40, 1, 1))))
    value = bandit.value(bandit.draw(stream(7), state, at), ARMS.nominal)
    rng = stream(7)
    members = [
        member.value(member.draw(rng, part, at), ARMS.nominal)
        for member, part in zip(bandit.members, state.members, strict=True)
    ]
    weights = state.weights[GROUP[cell] if bandit.share == "group" else cell]
    expected = sum(weights[:, [k]] * one for k, one in enumerate(members))
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    assert all(np.abs(value - one).max() > 1e-3 for one in members)


def test_draws_vary_less_than_a_member_s() -> None:
    """4,000 rows of one cell: members draw apart, so the variance of a value is Σ w_k² of theirs,
    within 15 % (the ratio's standard error is below 4 %), and their mean is the stack's."""
    state, n = learned(FORMS, some_rows(60, 1)), 4_000
    at = Setting(np.zeros(n, dtype=np.int64), None, np.full((n, 1, 1), 1.2))
    weights, *draws = FORMS.draw(stream(8), state, at)
    value = FORMS.value((weights, *draws), ARMS.nominal)
    alone = [
        member.value(draw, ARMS.nominal) for member, draw in zip(FORMS.members, draws, strict=True)
    ]
    expected = sum(weights[0, k] ** 2 * one.var(axis=0) for k, one in enumerate(alone))
    np.testing.assert_allclose(value.var(axis=0), expected, rtol=0.15)
    mean = FORMS.mean(state, replace(at, cell=at.cell[:1], delta=at.delta[:1]), ARMS.nominal)[0]  # type: ignore[index]
    error = value.std(axis=0) / np.sqrt(n)
    assert (np.abs(value.mean(axis=0) - mean) < 4.5 * error).all()


@EVERY
def test_the_mean_is_the_weighted_mean(name: str) -> None:
    """Σ w_k·mean_k, and log Σ w_k p_k for the density, with the weights of the row's owner."""
    bandit = STACKS[name]
    some = some_rows(60, 3)
    state = learned(bandit, some)
    at = Setting(np.arange(4), None, some.delta[:4])  # type: ignore[index]
    owner = GROUP if bandit.share == "group" else np.arange(4)
    weights = state.weights[owner]
    pairs = list(zip(bandit.members, state.members, strict=True))
    expected = sum(
        weights[:, [k]] * member.mean(part, at, ARMS.nominal)
        for k, (member, part) in enumerate(pairs)
    )
    np.testing.assert_allclose(bandit.mean(state, at, ARMS.nominal), expected, rtol=1e-12)
    row = replace(pick(some, range(4)), cell=np.arange(4))
    densities = np.stack([member.predictive(part, row) for member, part in pairs], axis=1)
    np.testing.assert_allclose(
        bandit.predictive(state, row), np.log((weights * np.exp(densities)).sum(axis=1)), rtol=1e-12
    )


def test_rows_do_not_depend_on_the_rows_beside_them() -> None:
    """Values of the first rows are the same bytes in a longer batch, live and not."""
    bandit = STACKS["all"]
    some = some_rows(40, 4)
    state = learned(bandit, some)
    for block in (1, 100):
        draws = [
            bandit.draw(stream(9, block), state, Setting(some.cell[:n], None, some.delta[:n]))  # type: ignore[index]
            for n in (5, 40)
        ]
        short, long = (bandit.value(draw, ARMS.nominal) for draw in draws)
        assert bytes_of(short) == bytes_of(long[:5])
        taken = bandit.value(records.take_rows(draws[1], np.array([3])), ARMS.nominal)
        assert bytes_of(taken) == bytes_of(long[3:4])


# Updates -------------------------------------------------------------------------------------


@given(
    some=evidences(4, ARMS.coords, is_class=True),
    name=st.sampled_from(["forms", "all", "cells"]),
)
@fixed
def test_batch_equals_loop(some: Evidence, name: str) -> None:
    """Rows of a cell are scored and learned one after the other, in a batch too: to 1e-8."""
    some, bandit = with_delta(some), STACKS[name]
    batch = records.flatten(learned(bandit, some))
    loop = learned(bandit, *(pick(some, [i]) for i in range(some.cell.size)))
    for part, array in records.flatten(loop).items():
        np.testing.assert_allclose(array, batch[part], rtol=1e-8, atol=1e-8, err_msg=part)


def test_members_learn_as_if_alone() -> None:
    """The members' states are those of learning the same rows without a stack."""
    some = some_rows(50, 5)
    state = learned(FORMS, some)
    for member, part in zip(FORMS.members, state.members, strict=True):
        alone = member.init(GROUP, ARMS)
        member.update(alone, some)
        expected = records.flatten(alone)
        for name, array in records.flatten(part).items():
            np.testing.assert_allclose(array, expected[name], rtol=1e-8, atol=1e-8, err_msg=name)


def test_a_group_shares_its_weights_and_cells_may_not() -> None:
    """Rows of cell 0 move the weights of cells 0 and 1 where they share, and of cell 0 only."""
    some = replace(some_rows(30, 6), cell=np.zeros(30, dtype=np.int64))
    at, there = Setting(np.arange(4), None, np.ones((4, 1, 1))), ARMS.nominal
    before = FORMS.mean(learned(FORMS), at, there)
    pooled, own = learned(FORMS, some), learned(replace(FORMS, share="cell"), some)
    assert isinstance(pooled, PooledStackedState)
    assert pooled.weights.shape == (2, 2)
    assert own.weights.shape == (4, 2)
    np.testing.assert_array_equal(own.weights[0], pooled.weights[0])
    np.testing.assert_array_equal(own.weights[1:], 0.5)
    assert pooled.weights[1, 0] == pytest.approx(0.5)
    np.testing.assert_array_equal(FORMS.mean(pooled, at, there)[2:], before[2:])


def test_decay_forgets_weights_with_the_evidence() -> None:
    """Cells keep their part of a group's score by the weight of their rows; group 1's stays.

    Cell 0 saw a third of the weight of group 0: by ½ the group's gain falls to 5/6.
    """
    some = some_rows(60, 7)
    some.weight[some.cell == 0] = 0.5 * (some.cell == 1).sum() / (some.cell == 0).sum()
    state = learned(FORMS, some)
    before = records.copy(state)
    FORMS.decay(state, 0.5, ZERO)
    gained = (state.score - state.prior)[0] / (before.score - before.prior)[0]
    np.testing.assert_allclose(gained, 5 / 6, rtol=1e-12)
    assert bytes_of(state.score[1], state.weights[1]) == bytes_of(
        before.score[1], before.weights[1]
    )
    own = learned(replace(FORMS, share="cell"), some_rows(60, 7))
    scores = own.score.copy()
    replace(FORMS, share="cell").decay(own, 0.5, ZERO)
    np.testing.assert_allclose((own.score - own.prior)[0], 0.5 * (scores - own.prior)[0])
    np.testing.assert_array_equal(own.score[1:], scores[1:])


def test_room_without_rows_has_no_part_in_a_score() -> None:
    """Five units with rows, and room for eight: when the five forget all, the group's weights are
    equal again, and by halves half of its score is left."""
    some = some_rows(60, 8, n_cells=5)
    for factor in (0.0, 0.5):
        state = FORMS.init(np.zeros(8, dtype=np.int64), ARMS)
        FORMS.update(state, some)
        gained = state.score[0] - state.prior
        FORMS.decay(state, factor, np.arange(5))
        np.testing.assert_allclose(state.score[0] - state.prior, factor * gained, atol=1e-12)
        np.testing.assert_allclose(state.rows[:5].sum(), 60 * factor)


@pytest.mark.parametrize("name", ["forms", "all", "cells", "rewards"])
def test_many_rows_of_a_cell_are_scored_as_in_a_loop(name: str) -> None:
    """100 rows of cell 1 beside few of the others, in one batch and row by row: to 1e-7; and cell 1
    has the same bytes without those beside it."""
    bandit = STACKS[name]
    some = some_rows(112, 9)
    some.cell[:100] = 1
    some.cell[100:] = 2 + np.arange(12) % 2
    some.weight[4] = 0.0
    order = rng_of(10).permutation(112)
    some = pick(some, order)
    batch, loop = learned(bandit, some), learned(bandit, *(pick(some, [i]) for i in range(112)))
    for part, array in records.flatten(loop).items():
        found = records.flatten(batch)[part]
        np.testing.assert_allclose(found, array, rtol=1e-7, atol=1e-7, err_msg=part)
    alone = learned(bandit, pick(some, some.cell == 1))
    assert bytes_of(alone.score[0], alone.weights[0]) == bytes_of(batch.score[0], batch.weights[0])
    assert np.isfinite(batch.score).all()


def test_a_stack_within_a_stack_learns_long_cells_too() -> None:
    """A member without a way of its own is taken row by row: 40 rows, as in a loop."""
    nested = StackedThompson((replace(FORMS, share="cell"), BetaThompson()), steps=4)
    some = replace(some_rows(40, 12), cell=np.zeros(40, dtype=np.int64))
    batch, loop = learned(nested, some), learned(nested, *(pick(some, [i]) for i in range(40)))
    for part, array in records.flatten(loop).items():
        found = records.flatten(batch)[part]
        np.testing.assert_allclose(found, array, rtol=1e-7, atol=1e-7, err_msg=part)


def test_a_logistic_regression_on_context_can_be_stacked() -> None:
    """Beside a curve it gets the weight where context decides, and its densities are its own."""
    bandit = StackedThompson((LogisticThompson(features=(0,)), RELATIVE))
    some, rng = some_rows(200, 13), rng_of(14)
    x = rng.normal(size=(200, 1))
    y = (rng.uniform(size=200) < special.expit(2.0 * x[:, 0])).astype(float)
    some = replace(some, x=x, y=y)
    state = learned(bandit, some)
    assert (state.weights[:, 0] > 0.8).all()
    rows = replace(pick(some, range(5)), x=x[:5])
    expected = bandit.members[0].predictive(state.members[0], rows)
    np.testing.assert_array_equal(bandit._densities(state, rows)[:, 0], expected)


# Refits --------------------------------------------------------------------------------------


def fitted(bandit: StackedThompson, some: Evidence) -> StackedState:
    """Return the exact fit of rows in four cells of two groups."""
    state = bandit.init(GROUP, ARMS)
    bandit.refit(state, some)
    return state


def weights_of(bandit: StackedThompson, state: StackedState, density: Array, w: Array) -> Array:
    """Return E w under π(w)·Π (Σ_k w_k p_k)^weight, by what the formula says."""
    score = state.prior + (w[:, None] * np.log(np.exp(density) @ state.grid.T)).sum(axis=0)
    chance = np.exp(score - score.max())
    return np.asarray(chance @ state.grid / chance.sum())


def test_what_every_member_can_leave_out_can_be_refitted() -> None:
    """Curves can, flat arms and Gaussian processes cannot; then there is no such method."""
    for name, bandit in STACKS.items():
        can = name in ("forms", "lines", "hierarchical")
        assert ("refit" in bandit.supports) == hasattr(bandit, "refit") == can, name


@FITTED
def test_a_refit_is_each_member_s_and_the_weights_of_rows_left_out(name: str) -> None:
    """Members are as fitted alone, to 1e-8; weights by the formula from their own densities."""
    bandit, some = STACKS[name], some_rows(80, 20)
    some.weight[:] = rng_of(21).choice([0.0, 0.5, 1.0], 80)
    state = fitted(bandit, some)
    densities = []
    for member, part in zip(bandit.members, state.members, strict=True):
        alone = member.init(GROUP, ARMS)
        (member.refit if hasattr(member, "refit") else member.update)(alone, some)
        wanted = records.flatten(alone)
        for field, array in records.flatten(part).items():
            np.testing.assert_allclose(array, wanted[field], rtol=1e-8, atol=1e-8, err_msg=field)
        densities.append(member.leave_one_out(part, some))
    density = np.stack(densities, axis=1)
    for group in range(2):
        rows = GROUP[some.cell] == group
        expected = weights_of(bandit, state, density[rows], some.weight[rows])
        np.testing.assert_allclose(state.weights[group], expected, rtol=1e-9)
    np.testing.assert_allclose(state.rows, np.bincount(some.cell, some.weight, 4))


@pytest.mark.parametrize(("name", "within"), [("lines", 1e-8), ("forms", 0.02)])
def test_the_weights_of_a_refit_are_stacking_s(name: str, within: float) -> None:
    """Against fits without each of 40 rows: exact for rewards, for classes to 0.02."""
    bandit, some = STACKS[name], some_rows(40, 22)
    state = fitted(bandit, some)
    density = np.empty((40, 2))
    for k, member in enumerate(bandit.members):
        for i in range(40):
            part, rest = member.init(GROUP, ARMS), pick(some, np.arange(40) != i)
            (member.refit if hasattr(member, "refit") else member.update)(part, rest)
            density[i, k] = member.predictive(part, pick(some, [i]))[0]
    for group in range(2):
        rows = GROUP[some.cell] == group
        expected = weights_of(bandit, state, density[rows], some.weight[rows])
        np.testing.assert_allclose(state.weights[group], expected, rtol=0, atol=within)


@FITTED
def test_a_refit_forgets_what_was_learned(name: str) -> None:
    """From another start the same, to 1e-7; group 1 keeps its bytes; rows without weight leave
    equal weights and the prior."""
    bandit, some = STACKS[name], some_rows(60, 23)
    some = replace(some, cell=some.cell % 2)
    expected = fitted(bandit, some)
    state = learned(bandit, some_rows(50, 24))
    before = records.copy(state)
    bandit.refit(state, some)
    for field in ("score", "weights"):
        new, old = getattr(state, field), getattr(before, field)
        np.testing.assert_allclose(new[0], getattr(expected, field)[0], atol=1e-7)
        assert bytes_of(new[1]) == bytes_of(old[1])
    at = Setting(np.arange(4), None, np.ones((4, 1, 1)))
    found, wanted, old = (bandit.mean(one, at, ARMS.nominal) for one in (state, expected, before))
    np.testing.assert_allclose(found[:2], wanted[:2], atol=1e-7)
    assert bytes_of(found[2:]) == bytes_of(old[2:])
    bandit.refit(state, replace(some, weight=np.zeros(60)))
    np.testing.assert_allclose(state.weights[0], 0.5, rtol=1e-12)
    assert state.rows[:2].sum() == 0.0
    fresh = bandit.mean(bandit.init(GROUP, ARMS), at, ARMS.nominal)
    np.testing.assert_allclose(bandit.mean(state, at, ARMS.nominal)[:2], fresh[:2], atol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.array([1.0, 0.0, 1.5])}, r"expected outcomes in \[0, 1\]"),
        ({"delta": None}, "the additive form needs δ"),
        ({"delta": np.zeros((3, 1, 1))}, "expected δ of finite numbers > 0"),
    ],
)
@pytest.mark.parametrize("name", ["forms", "hierarchical"])
def test_a_refused_refit_changes_nothing(name: str, change: dict[str, Any], message: str) -> None:
    """Not even the first member, which reads no δ."""
    bandit = STACKS[name]
    state = learned(bandit, some_rows(10, 25))
    before = records.to_bytes(state)
    rows = with_delta(evidence([0, 0, 0], [0, 1, 2], [1, 0, 1], ARMS.coords[:3]))
    with pytest.raises(InvalidInput, match=message):
        bandit.refit(state, replace(rows, **change))
    assert records.to_bytes(state) == before


def test_a_refit_of_one_group_is_the_same_beside_others() -> None:
    """Group 1 fitted with the rows of group 0 beside it, and without: the same bytes."""
    for name in ("forms", "lines", "hierarchical"):
        bandit, some = STACKS[name], some_rows(70, 26)
        beside, alone = fitted(bandit, some), fitted(bandit, pick(some, GROUP[some.cell] == 1))
        at = Setting(np.array([2, 3]), None, np.ones((2, 1, 1)))
        means = [bandit.mean(state, at, ARMS.nominal) for state in (beside, alone)]
        assert bytes_of(means[0], beside.weights[1]) == bytes_of(means[1], alone.weights[1]), name


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("forms", {"y": [1.0, 0.0, 1.5]}, r"expected outcomes in \[0, 1\]"),
        ("forms", {"scale": [1.0, 1.0, 1.0]}, "takes no reward scale"),
        ("forms", {"delta": None}, "the additive form needs δ"),
        ("forms", {"delta": np.zeros((3, 1, 1))}, "expected δ of finite numbers > 0"),
        ("rewards", {"y": [1.0, 0.0, np.nan]}, "StackedThompson: expected finite rewards"),
        ("rewards", {"scale": [1.0, 1.0, np.inf]}, r"expected finite scales s\(x\) > 0"),
        ("rewards", {"scale": [1.0, 1.0, -1.0]}, r"expected finite scales s\(x\) > 0"),
    ],
)
def test_bad_evidence_is_refused_whole(name: str, change: dict[str, Any], message: str) -> None:
    """The bad row is the third of its cell; neither it nor those before it were learned."""
    bandit = STACKS[name]
    state = learned(bandit, some_rows(10, 8))
    before = records.to_bytes(state)
    rows = with_delta(evidence([0, 0, 0], [0, 1, 2], [1, 0, 1], ARMS.coords[:3]))
    bad = {k: v if k == "delta" else np.asarray(v) for k, v in change.items()}
    with pytest.raises(InvalidInput, match=message):
        bandit.update(state, replace(rows, **bad))
    assert records.to_bytes(state) == before


def test_rows_that_say_nothing_leave_the_bytes() -> None:
    """No weight, or nothing ran."""
    state = learned(FORMS)
    before = records.to_bytes(state)
    rows = evidence([0, 1], [0, -1], [1.0, 1.0], [0.8, np.nan], weight=[0.0, 1.0])
    FORMS.update(state, with_delta(rows))
    assert records.to_bytes(state) == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"members": ()}, "bandit.members: expected two learners or more"),
        ({"members": (RELATIVE,)}, "bandit.members: expected two learners or more"),
        ({"members": [RELATIVE]}, "bandit.members: expected two learners or more"),
        ({"members": (RELATIVE, 3)}, r"bandit.members\[1\]: expected a learner with 'predictive'"),
        ({"members": (RELATIVE, HierarchicalThompson())}, r"bandit.members\[1\]: expected a"),
        ({"members": (RELATIVE, BetaThompson)}, r"bandit.members\[1\]: expected a learner"),
        (
            {"members": (RELATIVE, CurveThompson(link="identity"))},
            "bandit.members: expected one likelihood, got bernoulli and normal",
        ),
        (
            {"members": (ADDITIVE, replace(ADDITIVE, rebuild="sum"))},
            "bandit.members: expected one way to rebuild, got product and sum",
        ),
        ({"share": "unit"}, "bandit.share: expected one of group, cell"),
        ({"steps": 0}, "bandit.steps: expected a whole number above 0, got 0"),
        ({"steps": 2.5}, "bandit.steps: expected a whole number above 0"),
        ({"members": (RELATIVE,) * 5}, "more than 5000 points; take fewer"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    """Members must be comparable, and the grid small enough to keep."""
    with pytest.raises(InvalidInput, match=message):
        StackedThompson(**({"members": (RELATIVE, ADDITIVE)} | settings))


def test_a_stack_is_what_its_members_are() -> None:
    """Target, curve, context and likelihood follow from the members."""
    flat = StackedThompson((BetaThompson(), BetaThompson(wins=2.0)))
    assert (flat.target, flat.is_curve, flat.reads) == ("class", False, frozenset())
    assert (FORMS.target, FORMS.is_curve, FORMS.reads) == ("class", True, frozenset({"delta"}))
    assert (STACKS["rewards"].target, STACKS["rewards"].likelihood) == ("any", "normal")
    assert (FORMS.rebuilds, flat.rebuilds) == ("product", None)
    nested = StackedThompson((FORMS, BetaThompson()))
    assert nested.rebuilds == "product"
    assert (nested.target, nested.likelihood) == ("class", "bernoulli")


@EVERY
def test_keeps_what_bandits_promise(name: str) -> None:
    """The conformance list; a stack of stacks keeps it too.

    Members that share between cells see a batch's rows in another order, as the notes say.
    """
    broken = {result.name for result in report(STACKS[name]).broken}
    assert broken == ({"a batch is a loop"} if name == "hierarchical" else set())


def test_a_stack_of_stacks_keeps_what_bandits_promise() -> None:
    """Nested states and draws go through copies, bytes, growth and refolds."""
    nested = StackedThompson((replace(FORMS, share="cell"), STACKS["cells"]), steps=4)
    assert report(nested).is_conforming, str(report(nested))


# In a round ----------------------------------------------------------------------------------


def played(bandit: StackedThompson) -> tuple[Any, Simulation]:
    """Return `str` after 45 rounds with publications, and its instance."""
    domain = load("str")
    instance = with_rules(domain.instance, overrides="all")
    units = domain.units
    run = simulate(
        instance, bandit, domain.world, rounds=45, replicates=4, units=units, seed=2, keep_log=True
    )
    return instance, run


def require_groups(run: Simulation, before: Any, expected: Any, groups: Array) -> None:
    """Compare groups with what is expected of them to 1e-7, and the others' bytes with before."""
    found, wanted = records.flatten(run.state.bandit), records.flatten(expected)
    moved, touched = np.isin(run.group, groups), np.isin(np.arange(4), groups)
    for name, array in records.flatten(before).items():
        rows = {run.group.size: moved, 4: touched}.get(array.shape[0])
        if rows is None or "nodes" in name or name.endswith(("frame", "design")):
            continue
        np.testing.assert_allclose(found[name][rows], wanted[name][rows], rtol=1e-7, atol=1e-7)
        assert bytes_of(found[name][~rows]) == bytes_of(array[~rows]), name


def test_a_refold_is_a_fold_from_scratch() -> None:
    """A stack that cannot be refitted: a refold of two of four groups equals learning their logs
    row by row under the δ in force, members and weights; the others keep their bytes."""
    bandit = StackedThompson((RELATIVE, BetaThompson()))
    instance, run = played(bandit)
    assert run.log is not None
    before = records.copy(run.state.bandit)
    groups = publish(instance, run.state, np.array([1, 2]), run.group)
    refold(instance, bandit, run.state, run.log, run.group, groups)
    fresh = turn.init(instance, bandit, run.group)
    fresh.scaler = run.state.scaler
    for i in range(run.log.unit.size):
        one = run.log.take(np.array([i]))
        delta, in_force = turn.scale(instance, fresh, one)
        seen, _ = evidence_of(instance, one, delta, in_force)
        bandit.update(fresh.bandit, weigh(instance, fresh.contrast, one, seen))
    require_groups(run, before, fresh.bandit, groups)
    assert np.abs(run.state.bandit.weights - before.weights)[groups].min() > 1e-6


@pytest.mark.parametrize("name", ["forms", "hierarchical"])
def test_a_refold_is_a_fit_from_scratch(name: str) -> None:
    """Where every member can: the exact fit of all rows under the δ in force, and the weights of
    rows left out; the other groups keep their bytes."""
    bandit = STACKS[name]
    instance, run = played(bandit)
    assert run.log is not None
    before = records.copy(run.state.bandit)
    groups = publish(instance, run.state, np.array([1, 2]), run.group)
    refold(instance, bandit, run.state, run.log, run.group, groups)
    fresh = turn.init(instance, bandit, run.group)
    fresh.scaler = run.state.scaler
    delta, in_force = turn.scale(instance, fresh, run.log)
    bandit.refit(fresh.bandit, evidence_of(instance, run.log, delta, in_force)[0])
    require_groups(run, before, fresh.bandit, groups)
    assert np.abs(run.state.bandit.weights - before.weights)[groups].min() > 1e-6


def test_an_agent_with_a_stack_replays_bit_for_bit() -> None:
    """New units, outcomes and refits: a replay of the events has the same bytes, and they load."""
    agent = Agent(letting(), FORMS, seed=3)
    for i in range(14):
        case = agent.decide(night(60.0 + 30.0 * (i % 9), 0.1 * (i % 4)), unit=f"flat {i % 5}")
        agent.observe(case.id, {"booked": i % 2}, label=[0.1 * (i % 3)])
    again = Agent.replay(agent.events, letting(), FORMS, seed=3)
    data = records.to_bytes(agent.state)
    assert records.to_bytes(again.state) == data
    assert records.to_bytes(records.from_bytes(data, again.state)) == data
    assert agent.state.bandit.weights[0, 0] != 0.5
