"""Preferences between two actions: Bradley and Terry's model as a bandit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from gdcb.arms import ArmList, Grid
from gdcb.arrays import Array
from gdcb.bandits import BradleyTerryThompson
from gdcb.context import Number, Schema
from gdcb.errors import InvalidInput, UnknownField
from gdcb.parts import bind
from gdcb.records import Evidence, Located, Setting, to_bytes
from tests.parts.builders import fixed, rng_of, stream

ARMS = ArmList(values=(1.0, 2.0, 4.0)).build()
BANDIT = BradleyTerryThompson(features=(0, 1), prior_sd=1.5, rival=2)
ZERO = np.zeros(1, dtype=int)


def psi(x: Array, c: Array, degree: int = 2, interactions: bool = True) -> Array:
    """Return the features as the docstring has them, written out: arms 1, 2, 4 scale to ±1."""
    c = (c - 2.5) / 1.5
    columns = [c[:, None]] + ([c[:, None] ** 2] if degree == 2 else [])
    columns += [x[:, :2] * c[:, None]] if interactions else []
    return np.concatenate(columns, axis=1)


def asked(seed: int, n: int, cells: int = 1, weighted: bool = True) -> Evidence:
    """Return rows of a person who likes c = 2.5 + x₀, compared with rivals in the third column."""
    rng = rng_of(seed)
    x, c = rng.normal(size=(n, 3)), rng.uniform(0.8, 4.2, n)
    x[:, 2] = rng.choice([1.0, 2.0, 4.0], n)
    own = 2.5 + x[:, 0]
    better = 0.5 * (x[:, 2] - own) ** 2 - 0.5 * (c - own) ** 2
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-better))).astype(float)
    weight = rng.uniform(0.2, 2.0, n) if weighted else np.ones(n)
    cell = rng.integers(0, cells, n)
    return Evidence(cell, np.full(n, -1), c[:, None], y, None, weight, x)


def context(evidence: Evidence) -> Array:
    assert evidence.x is not None
    return evidence.x


def take(some: Evidence, index: Any) -> Evidence:
    x = context(some)
    columns = (some.cell[index], some.arm[index], some.coord[index], some.y[index])
    return Evidence(*columns, None, some.weight[index], x[index])


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("interactions", [False, True])
def test_a_row_is_the_difference_of_the_features(degree: int, interactions: bool) -> None:
    bandit = replace(BANDIT, degree=degree, interactions=interactions)
    rows = asked(1, 20)
    x = context(rows)
    expected = psi(x, rows.coord[:, 0], degree, interactions)
    expected = expected - psi(x, x[:, 2], degree, interactions)
    assert expected.shape[1] == bandit.n_features(1)
    state = bandit.init(ZERO, ARMS)
    found = bandit.rows(state.frame, rows, np.arange(20))
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("prior_sd", [0.3, 1.5, 10.0])
def test_the_exact_fit_is_logistic_regression_without_an_intercept(prior_sd: float) -> None:
    """scikit-learn's Newton solver, C = prior_sd², on the differences written out, to 1e-8."""
    bandit, rows = replace(BANDIT, prior_sd=prior_sd), asked(2, 200)
    x = context(rows)
    state = bandit.init(ZERO, ARMS)
    bandit.refit(state, rows)
    phi = psi(x, rows.coord[:, 0]) - psi(x, x[:, 2])
    other = LogisticRegression(
        C=prior_sd**2, fit_intercept=False, solver="newton-cholesky", tol=1e-13, max_iter=200
    ).fit(phi, rows.y, sample_weight=rows.weight)
    assert state.weights.mean[0] == pytest.approx(other.coef_[0], rel=1e-8, abs=1e-8)
    p = other.predict_proba(phi)[:, 1]
    hessian = (phi.T * (rows.weight * p * (1 - p))) @ phi + np.eye(4) / prior_sd**2
    inverse = np.linalg.inv(hessian)
    assert state.weights.covariance[0] == pytest.approx(inverse, rel=1e-8, abs=1e-8)


@fixed
@given(seed=st.integers(0, 10**6))
def test_a_batch_is_a_loop_and_the_sides_of_a_question_are_even(seed: int) -> None:
    """To the bit; and to prefer e to e′ is not to prefer e′ to e."""
    rows = asked(seed, 12, cells=3)
    batch, loop, turned = (BANDIT.init(np.arange(3), ARMS) for _ in range(3))
    BANDIT.update(batch, rows)
    for i in range(12):
        BANDIT.update(loop, take(rows, np.array([i])))
    assert to_bytes(batch) == to_bytes(loop)
    x = context(rows).copy()
    x[:, 2] = rows.coord[:, 0]
    BANDIT.update(turned, replace(rows, coord=context(rows)[:, 2:], y=1.0 - rows.y, x=x))
    assert turned.weights.mean == pytest.approx(batch.weights.mean, rel=1e-9, abs=1e-9)


def test_a_value_is_the_chance_of_being_preferred_to_the_rival() -> None:
    """σ(u(c) − u(c′)) of the drawn weights, between the arms too; ½ against itself."""
    bandit, rows = replace(BANDIT, width=0.0), asked(3, 60)
    state = bandit.init(ZERO, ARMS)
    bandit.update(state, rows)
    x = rng_of(4).normal(size=(5, 3))
    x[:, 2] = 1.7
    c = np.array([1.7, 1.0, 2.0, 3.3, 4.0])
    located = Located(np.zeros((5, 5), dtype=int), np.tile(c, (5, 1))[..., None], lambda: c)
    at = Setting(np.zeros(5, dtype=int), x)
    found = bandit.value(bandit.draw(stream(1), state, at), located)
    for i in range(5):
        here, there = np.tile(x[i], (5, 1)), np.full(5, 1.7)
        better = (psi(here, c) - psi(here, there)) @ state.weights.mean[0]
        assert found[i] == pytest.approx(1 / (1 + np.exp(-better)), rel=1e-9)
    assert found[:, 0] == pytest.approx(0.5, rel=1e-12)
    assert bandit.mean(state, at, located)[:, 0] == pytest.approx(0.5, rel=1e-9)


def test_the_pick_does_not_depend_on_the_rival() -> None:
    """The same draw of weights prefers the same arm, whatever it is compared with."""
    state, n = BANDIT.init(ZERO, ARMS), 50
    BANDIT.update(state, asked(5, 40))
    x = np.tile([[0.3, -0.2, 0.0]], (n, 1))
    picks = []
    for rival in (1.0, 2.6, 4.0):
        x[:, 2] = rival
        draw = BANDIT.draw(stream(6), state, Setting(np.zeros(n, dtype=int), x))
        picks.append(BANDIT.value(draw, ARMS.nominal).argmax(axis=1).tolist())
    assert picks[0] == picks[1] == picks[2]
    assert len(set(picks[0])) > 1


def test_it_learns_what_the_person_likes_in_every_context() -> None:
    """The vertex of the fitted parabola is at c = 2.5 + x₀, from 4,000 comparisons.

    By the delta method its standard error is below 0.05 in these contexts; 4 of them, a false
    alarm below 2e-4.
    """
    bandit, state = replace(BANDIT, prior_sd=5.0), BANDIT.init(ZERO, ARMS)
    bandit.refit(state, asked(7, 4000, weighted=False))
    line, square, slope, other = state.weights.mean[0]
    for x0 in (-0.5, 0.0, 0.5):
        vertex = 2.5 - 1.5 * (line + slope * x0) / (2 * square)
        assert vertex == pytest.approx(2.5 + x0, abs=0.2)
    assert abs(other) < 5 * float(np.sqrt(state.weights.covariance[0, 3, 3]))


def test_all_columns_are_all_but_the_rival() -> None:
    """Bound by name, '*' leaves the rival out; so does naming it."""
    schema = Schema({"a": Number(), "rival": Number(), "b": Number()})
    for features in (("*",), ("a", "rival", "b")):
        bound = bind(BradleyTerryThompson(features=features), schema.positions)
        assert bound.features == (0, 2)
        assert bound.rival == 1
        assert bound.n_features(1) == 4
    with pytest.raises(UnknownField, match="no context column 'rival'"):
        bind(BradleyTerryThompson(), Schema({"a": Number()}).positions)


def test_what_cannot_be_is_refused() -> None:
    grid = Grid({"rate": (1.0, 2.0), "tenor": (1.0, 2.0)}).build()
    for arms, message in (
        (ArmList(names=("a", "b")).build(), "needs arms with a metric"),
        (grid, "expected arms along one coordinate, as the rival is, got 2"),
    ):
        with pytest.raises(InvalidInput, match=message):
            BANDIT.init(ZERO, arms)
    for settings, message in (
        ({"rival": None}, r"bandit\.rival: expected a context column, got None"),
        ({"rival": True}, r"bandit\.rival: expected a context column, got True"),
        ({"rival": (None,)}, r"bandit\.rival: expected a context column"),
        ({"degree": 3}, r"bandit\.degree: expected 1 or 2, got 3"),
        ({"prior_sd": 0.0}, r"bandit\.prior_sd: expected a number > 0"),
        ({"width": -1.0}, r"bandit\.width: expected a number >= 0"),
    ):
        some: dict[str, Any] = settings
        with pytest.raises(InvalidInput, match=message):
            BradleyTerryThompson(**some)
    with pytest.raises(InvalidInput, match=r"columns .* are not bound"):
        BradleyTerryThompson(features=(0,)).update(
            BradleyTerryThompson(features=(0,)).init(ZERO, ARMS), asked(1, 3)
        )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("x", np.nan, "BradleyTerryThompson: expected a finite context"),
        ("x", np.inf, "BradleyTerryThompson: expected a finite context"),
        ("y", np.nan, r"BradleyTerryThompson: expected outcomes in \[0, 1\]"),
        ("y", 1.5, r"BradleyTerryThompson: expected outcomes in \[0, 1\]"),
        ("weight", np.inf, "weight: expected 6 finite numbers >= 0"),
        ("scale", 2.0, "BradleyTerryThompson: learns classes and takes no reward scale"),
    ],
)
def test_bad_rows_are_refused_whole(name: str, value: float, message: str) -> None:
    """The bad number (of x: the rival) is in the last row; no row before it is learned."""
    state = BANDIT.init(np.arange(2), ARMS)
    BANDIT.update(state, asked(8, 10, cells=2))
    before, rows = to_bytes(state), asked(9, 6, cells=2)
    column = np.ones(6) if name == "scale" else getattr(rows, name).copy()
    column[-1] = value  # all of a row of x
    for act in (BANDIT.update, BANDIT.refit, BANDIT.prequential):
        with pytest.raises(InvalidInput, match=message):
            act(state, replace(rows, **{name: column}))
    with pytest.raises(InvalidInput, match="reads the context"):
        BANDIT.update(state, replace(rows, x=None))
    assert to_bytes(state) == before
