"""Weights shared by all arms on action features: linear and logistic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from sklearn.linear_model import Ridge

from gdcb.arms import ArmList, Grid
from gdcb.arrays import Array
from gdcb.bandits import LogisticThompson, SharedLinearThompson, SharedLinearUCB
from gdcb.bandits.prequential import rows_of
from gdcb.errors import InvalidInput
from gdcb.posterior import unpack
from gdcb.records import Evidence, Located, Setting, to_bytes
from tests.parts.builders import fixed, rng_of, stream

ARMS = ArmList(values=(1.0, 2.0, 4.0)).build()
LINEAR = SharedLinearThompson(features=(0, 1), prior_sd=1.5, noise=0.4)
LOGISTIC = LogisticThompson(features=(0, 1), prior_sd=1.5)
ZERO = np.zeros(1, dtype=int)


def psi(x: Array, c: Array, degree: int = 2, interactions: bool = True) -> Array:
    """Return the features as the docstring has them, written out: arms 1, 2, 4 scale to ±1."""
    c = (c - 2.5) / 1.5
    columns = [np.ones((c.size, 1)), x, c[:, None]]
    columns += [c[:, None] ** 2] if degree == 2 else []
    columns += [x * c[:, None]] if interactions else []
    return np.concatenate(columns, axis=1)


def seen(seed: int, n: int, cells: int = 1, binary: bool = False) -> Evidence:
    rng = rng_of(seed)
    x, c = rng.normal(size=(n, 2)), rng.uniform(0.8, 4.2, n)
    y = x[:, 0] - 0.5 * c + 0.4 * rng.normal(size=n)
    y = (y > -1.0).astype(float) if binary else y
    cell, weight = rng.integers(0, cells, n), rng.uniform(0.2, 2.0, n)
    return Evidence(cell, np.full(n, -1), c[:, None], y, None, weight, x)


def at_coord(c: Array) -> Located:
    """Locate one action a row at coordinate c (N,)."""
    return Located(np.zeros((c.size, 1), dtype=int), c[:, None, None], lambda: np.zeros((1, 1)))


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("interactions", [False, True])
def test_features_at_a_context_are_those_of_the_formula(degree: int, interactions: bool) -> None:
    bandit = SharedLinearThompson(features=(0, 1), degree=degree, interactions=interactions)
    evidence = seen(1, 20)
    state = bandit.init(ZERO, ARMS)
    assert evidence.x is not None
    expected = psi(evidence.x, evidence.coord[:, 0], degree, interactions)
    assert expected.shape[1] == bandit.n_features(1)
    assert bandit.rows(state.frame, evidence, np.arange(20)) == pytest.approx(expected)


def test_the_posterior_is_ridge_regression_on_the_features() -> None:
    evidence = seen(2, 120)
    state = LINEAR.init(ZERO, ARMS)
    LINEAR.update(state, evidence)
    assert evidence.x is not None
    phi = psi(evidence.x, evidence.coord[:, 0])
    ridge = Ridge(alpha=0.16 / 2.25, fit_intercept=False, tol=1e-12)
    ridge.fit(phi, evidence.y, sample_weight=evidence.weight)
    assert state.weights.mean[0] == pytest.approx(ridge.coef_, rel=1e-8)
    a = np.eye(7) / 2.25 + (phi.T * evidence.weight) @ phi / 0.16
    assert unpack(state.weights.covariance, 7)[0] == pytest.approx(np.linalg.inv(a), rel=1e-8)


@fixed
@given(seed=st.integers(0, 10**6))
def test_a_value_is_the_features_times_the_weights(seed: int) -> None:
    """mean and UCB index between the arms, against ψᵀw and ψᵀΣψ written out."""
    evidence = seen(seed, 30)
    ucb = SharedLinearUCB(features=(0, 1), prior_sd=1.5, noise=0.4, width=0.7)
    state = ucb.init(ZERO, ARMS)
    ucb.update(state, evidence)
    rng = rng_of(seed + 1)
    x, c = rng.normal(size=(4, 2)), rng.uniform(1.0, 4.0, 4)
    at = Setting(np.zeros(4, dtype=int), x)
    phi = psi(x, c)
    mean = phi @ state.weights.mean[0]
    spread = np.einsum("ni,ij,nj->n", phi, unpack(state.weights.covariance, 7)[0], phi)
    assert ucb.mean(state, at, at_coord(c))[:, 0] == pytest.approx(mean, rel=1e-9, abs=1e-9)
    index = ucb.value(ucb.draw(stream(1), state, at), at_coord(c))[:, 0]
    assert index == pytest.approx(mean + 0.7 * np.sqrt(spread), rel=1e-9, abs=1e-9)


def test_draws_have_the_posterior_of_the_curve() -> None:
    """Mean and standard deviation at three coordinates, and their correlation; 4.5 errors."""
    state, n = LINEAR.init(ZERO, ARMS), 20_000
    LINEAR.update(state, seen(3, 25))
    x = np.tile([[0.4, -0.8]], (n, 1))
    at = Setting(np.zeros(n, dtype=int), x)
    draws = LINEAR.value(LINEAR.draw(stream(5), state, at), ARMS.nominal)
    phi = psi(x[:3], ARMS.coords[:, 0])
    covariance = phi @ unpack(state.weights.covariance, 7)[0] @ phi.T
    sd = np.sqrt(np.diag(covariance))
    assert (np.abs(draws.mean(axis=0) - phi @ state.weights.mean[0]) < 4.5 * sd / n**0.5).all()
    assert draws.std(axis=0) == pytest.approx(sd, rel=4.5 / np.sqrt(2 * n))
    expected = covariance / np.outer(sd, sd)
    assert np.corrcoef(draws.T) == pytest.approx(expected, abs=4.5 / np.sqrt(n))


def test_the_exact_logistic_fit_is_the_mode_and_the_hessian() -> None:
    """Against SciPy's minimiser of the written-out objective, to 1e-8."""
    evidence = seen(4, 150, binary=True)
    state = LOGISTIC.init(ZERO, ARMS)
    LOGISTIC.refit(state, evidence)
    assert evidence.x is not None
    phi, y, w = psi(evidence.x, evidence.coord[:, 0], 1, False), evidence.y, evidence.weight

    def objective(b: Array) -> tuple[float, Array]:
        eta = phi @ b
        loss = w @ (np.logaddexp(0.0, eta) - y * eta) + b @ b / (2 * 2.25)
        return float(loss), phi.T @ (w * (1 / (1 + np.exp(-eta)) - y)) + b / 2.25

    found = optimize.minimize(objective, np.zeros(4), jac=True, method="BFGS", tol=1e-12)
    assert state.weights.mean[0] == pytest.approx(found.x, rel=1e-6, abs=1e-8)
    assert np.abs(objective(state.weights.mean[0])[1]).max() < 1e-8
    p = 1 / (1 + np.exp(-phi @ state.weights.mean[0]))
    hessian = (phi.T * (w * p * (1 - p))) @ phi + np.eye(4) / 2.25
    assert state.weights.covariance[0] == pytest.approx(np.linalg.inv(hessian), rel=1e-8)


def test_row_by_row_the_logistic_posterior_stays_near_the_exact_one() -> None:
    """After 2,000 rows within a fifth of a posterior standard deviation in every weight."""
    evidence = seen(5, 2000, binary=True)
    assert evidence.x is not None
    odds = evidence.x[:, 0] - 0.5 * evidence.coord[:, 0] + 1.0
    evidence.y[:] = rng_of(6).uniform(size=2000) < 1 / (1 + np.exp(-odds))
    recursive, exact = LOGISTIC.init(ZERO, ARMS), LOGISTIC.init(ZERO, ARMS)
    LOGISTIC.update(recursive, evidence)
    LOGISTIC.refit(exact, evidence)
    sd = np.sqrt(np.diagonal(exact.weights.covariance[0]))
    gap = np.abs(recursive.weights.mean[0] - exact.weights.mean[0]) / sd
    assert gap.max() < 0.2


@pytest.mark.parametrize("bandit", [LINEAR, LOGISTIC], ids=["linear", "logistic"])
def test_a_cell_does_not_feel_the_others(bandit: Any) -> None:
    evidence = seen(6, 40, cells=3, binary=True)
    together = bandit.init(np.arange(3), ARMS)
    bandit.update(together, evidence)
    x = rng_of(7).normal(size=(3, 2))
    draws = bandit.value(
        bandit.draw(stream(8, 1), together, Setting(np.arange(3), x)), ARMS.nominal
    )
    alone = bandit.init(np.arange(3), ARMS)
    own = np.flatnonzero(evidence.cell == 0)
    assert evidence.x is not None
    columns = (evidence.cell[own], evidence.arm[own], evidence.coord[own], evidence.y[own])
    only = Evidence(*columns, None, evidence.weight[own], evidence.x[own])
    bandit.update(alone, only)
    first = bandit.draw(stream(8, 1), alone, Setting(np.zeros(1, dtype=int), x[:1]))
    assert bandit.value(first, ARMS.nominal)[0].tobytes() == draws[0].tobytes()


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidInput, match="for categories take LinearThompson"):
        LINEAR.init(ZERO, ArmList(names=("a", "b")).build())
    for settings, message in (
        ({"degree": 3}, r"bandit\.degree: expected 1 or 2, got 3"),
        ({"degree": "2"}, r"bandit\.degree: expected 1 or 2, got '2'"),
        ({"degree": 2.0}, r"bandit\.degree: expected 1 or 2, got 2\.0"),
        ({"interactions": "no"}, r"bandit\.interactions: expected true or false, got 'no'"),
    ):
        for kind in (SharedLinearThompson, SharedLinearUCB, LogisticThompson):
            some: dict[str, Any] = settings
            with pytest.raises(InvalidInput, match=message):
                kind(**some)
    state = LOGISTIC.init(ZERO, ARMS)
    before = to_bytes(state)
    with pytest.raises(InvalidInput, match=r"expected outcomes in \[0, 1\]"):
        LOGISTIC.update(state, seen(9, 5))
    assert to_bytes(state) == before


@pytest.mark.parametrize(
    ("bandit", "change", "message"),
    [
        (LINEAR, {"y": np.nan}, "SharedLinearThompson: expected finite rewards"),
        (LINEAR, {"scale": -1.0}, r"expected finite scales s\(x\) > 0"),
        (LINEAR, {"scale": np.nan}, r"expected finite scales s\(x\) > 0"),
        (LINEAR, {"weight": -1.0}, "expected finite weights >= 0"),
        (LINEAR, {"x": np.nan}, "SharedLinearThompson: expected a finite context"),
        (LOGISTIC, {"x": np.inf}, "LogisticThompson: expected a finite context"),
        (LOGISTIC, {"y": np.nan}, r"LogisticThompson: expected outcomes in \[0, 1\]"),
    ],
)
def test_bad_rows_are_refused_whole(bandit: Any, change: dict[str, float], message: str) -> None:
    """The bad number is in the last row; the good rows before it are not learned either."""
    state = bandit.init(np.arange(2), ARMS)
    bandit.update(state, seen(21, 10, binary=True))
    before = to_bytes(state)
    rows = seen(22, 6, cells=2, binary=True)
    ((name, value),) = change.items()
    column = np.ones(6) if name == "scale" else getattr(rows, name).copy()
    column[-1] = value
    acts = [bandit.update] + ([bandit.refit, bandit.prequential] if bandit is LOGISTIC else [])
    for act in acts:
        with pytest.raises(InvalidInput, match=message):
            act(state, replace(rows, **{name: column}))
    assert to_bytes(state) == before


def test_states_over_other_arms_do_not_merge() -> None:
    """Arms 0, 1 and 0, 10 have as many weights, in other coordinates."""
    bandit = SharedLinearThompson(features=(0, 1))
    near, far = (ArmList(values=(0.0, end)).build() for end in (1.0, 10.0))
    state = bandit.init(ZERO, near)
    before = to_bytes(state)
    with pytest.raises(InvalidInput, match="merge: expected a state over the same arms"):
        bandit.merge(state, bandit.init(ZERO, far))
    assert to_bytes(state) == before


def test_the_logistic_mean_is_the_mean_of_the_draws() -> None:
    """Few rows, a wide posterior: 40,000 draws on the arms and between them, 4.5 errors."""
    bandit, n = LogisticThompson(features=(0, 1), prior_sd=3.0, degree=2, interactions=True), 40_000
    state = bandit.init(ZERO, ARMS)
    bandit.update(state, seen(23, 8, binary=True))
    x = np.tile([[0.4, -0.8]], (n, 1))
    draw = bandit.draw(stream(5), state, Setting(np.zeros(n, dtype=int), x))
    for where in (ARMS.nominal, at_coord(np.full(n, 3.1))):
        value = bandit.value(draw, where)
        here = where if where.is_nominal else at_coord(np.array([3.1]))
        mean = bandit.mean(state, Setting(ZERO, x[:1]), here)[0]
        error = value.std(axis=0) / np.sqrt(n)
        assert (np.abs(value.mean(axis=0) - mean) < 4.5 * error).all()


def test_decay_moves_natural_parameters_towards_the_prior() -> None:
    """Precision and pull of cell 0 keep 0.3 of their way; cell 1 its bytes; by 0 the prior is."""
    state = LOGISTIC.init(np.arange(2), ARMS)
    LOGISTIC.update(state, seen(24, 60, cells=2, binary=True))
    before, prior = np.linalg.inv(state.weights.covariance[0]), np.eye(4) / 2.25
    pull = before @ state.weights.mean[0]
    kept = state.weights.mean[1].tobytes() + state.weights.root[1].tobytes()
    LOGISTIC.decay(state, 0.3, ZERO)
    after = np.linalg.inv(state.weights.covariance[0])
    assert after == pytest.approx(prior + 0.3 * (before - prior), rel=1e-9, abs=1e-9)
    assert after @ state.weights.mean[0] == pytest.approx(0.3 * pull, rel=1e-8, abs=1e-10)
    assert state.weights.mean[1].tobytes() + state.weights.root[1].tobytes() == kept
    LOGISTIC.decay(state, 0.0, ZERO)
    assert state.weights.mean[0] == pytest.approx(np.zeros(4), abs=1e-9)
    assert state.weights.covariance[0] == pytest.approx(2.25 * np.eye(4), abs=1e-9)


def test_the_predictive_probability_is_the_mean_and_a_loop_scores_alike() -> None:
    """P(y = 1) of a row is `mean` at its place; scored on the way is scored row by row."""
    rows = seen(25, 40, binary=True)
    together, loop = LOGISTIC.init(ZERO, ARMS), LOGISTIC.init(ZERO, ARMS)
    LOGISTIC.update(loop, seen(26, 20, binary=True))
    LOGISTIC.update(together, seen(26, 20, binary=True))
    mean = LOGISTIC.mean(loop, Setting(rows.cell, rows.x), at_coord(rows.coord[:, 0]))[:, 0]
    density = LOGISTIC.predictive(loop, replace(rows, y=np.ones(40)))
    assert np.exp(density) == pytest.approx(mean, rel=1e-12)
    expected = np.empty(40)
    for i in range(40):
        one = rows_of(rows, np.array([i]))
        expected[i] = LOGISTIC.predictive(loop, one)[0]
        LOGISTIC.update(loop, one)
    assert LOGISTIC.prequential(together, rows) == pytest.approx(expected, rel=1e-12)
    assert to_bytes(together) == to_bytes(loop)


def test_refit_removes_the_bias_of_rare_outcomes() -> None:
    """One outcome in ten, 20 logs of 400 rows: row by row the intercept is more than 0.2 posterior
    standard deviations too high in the mean; fitted anew the gradient vanishes."""
    gaps = []
    for seed in range(20):
        rows = seen(300 + seed, 400, binary=True)
        assert rows.x is not None
        odds = -2.5 + 0.7 * rows.x[:, 0]
        rows.y[:] = rng_of(400 + seed).uniform(size=400) < 1 / (1 + np.exp(-odds))
        rows.weight[:] = 1.0
        by_row, exact = LOGISTIC.init(ZERO, ARMS), LOGISTIC.init(ZERO, ARMS)
        LOGISTIC.update(by_row, rows)
        LOGISTIC.refit(exact, rows)
        gap = (by_row.weights.mean - exact.weights.mean)[0, 0]
        gaps.append(gap / np.sqrt(exact.weights.covariance[0, 0, 0]))
        phi, w = psi(rows.x, rows.coord[:, 0], 1, False), exact.weights.mean[0]
        slope = phi.T @ (rows.y - 1 / (1 + np.exp(-phi @ w))) - w / 2.25
        assert np.abs(slope).max() < 1e-8
    assert np.mean(gaps) > 0.2


def test_two_coordinates_have_terms_of_their_own() -> None:
    arms = Grid({"rate": (0.9, 1.1), "tenor": (12.0, 24.0, 36.0)}).build()
    bandit = SharedLinearThompson(features=(0,), degree=2)
    assert bandit.n_features(2) == 1 + 1 + 4 + 2
    state = bandit.init(ZERO, arms)
    x, coord = np.array([[3.0]]), np.array([[1.1, 24.0]])
    row = Evidence(ZERO, ZERO, coord, np.ones(1), None, np.ones(1), x)
    # Scaled coordinates (1, 0): 1, x, c₁, c₂, c₁², c₂², x·c₁, x·c₂.
    expected = [[1.0, 3.0, 1.0, 0.0, 1.0, 0.0, 3.0, 0.0]]
    assert bandit.rows(state.frame, row, ZERO) == pytest.approx(np.array(expected), abs=1e-12)
