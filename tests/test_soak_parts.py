"""Long proofs of single parts, and a small version of each for every day."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gdcb import records
from gdcb.arms import ArmList, Grid
from gdcb.arrays import Array, logistic
from gdcb.bandits.curve import CurveThompson
from gdcb.bandits.factored import FactoredThompson
from gdcb.bandits.gaussian import GaussianThompson
from gdcb.bandits.gp_curve import GPCurveThompson
from gdcb.bandits.hierarchical import HierarchicalThompson
from gdcb.bandits.hierarchical_beta import HierarchicalBetaThompson
from gdcb.bandits.linear import LinearThompson, LinearUCB
from gdcb.bandits.shared import SharedLinearThompson
from gdcb.bandits.ucb import KLUCB, UCB1, BayesUCB
from gdcb.logistic import LogisticPosterior
from gdcb.posterior import unpack
from gdcb.records import Evidence, Setting
from gdcb.scalers import GaussianProcessScaler, LinearHead, RidgeScaler
from gdcb.streams import DRAW, Streams

TRUTH = np.array([-1.0, 0.7, -0.4, 0.5])
PRIOR_SD = (3.0, 1.0, 1.0, 1.0)


def _logistic_rows(n: int, seed: int) -> tuple[Array, Array]:
    """Return φ with an intercept and a rare feature (1 %), and outcomes."""
    rng = np.random.default_rng(seed)
    phi: Array = np.column_stack((np.ones(n), rng.normal(size=(n, 2)), rng.random(n) < 0.01))
    return phi, (rng.random(n) < logistic(phi @ TRUTH)).astype(float)


def _row_by_row_against_batch(n: int, seed: int) -> tuple[float, float, float]:
    """Return the distance to the exact mode in sds, the log ratio of sds, the lowest eigenvalue.

    The lowest eigenvalue of Σ is taken relative to the exact one, and is the lowest on the way.
    """
    phi, y = _logistic_rows(n, seed)
    posterior = LogisticPosterior.prior(1, 0.0, PRIOR_SD)
    step, lowest = n // 20, np.inf
    for at in range(0, n, step):
        part = slice(at, at + step)
        owner = np.zeros(y[part].size, dtype=np.int64)
        posterior.observe(owner, phi[part], y[part], np.ones(owner.size))
        lowest = min(lowest, float(np.linalg.eigvalsh(posterior.covariance[0]).min()))
    exact = LogisticPosterior.fit(phi, y, None, 0.0, np.array(PRIOR_SD) ** -2.0)
    sd = np.sqrt(np.diagonal(exact.covariance[0]))
    ratio = np.sqrt(np.diagonal(posterior.covariance[0])) / sd
    gap = np.abs(posterior.mean[0] - exact.mean[0]) / sd
    least = float(np.linalg.eigvalsh(exact.covariance[0]).min())
    return float(gap.max()), float(np.abs(np.log(ratio)).max()), lowest / least


def test_scaler_logistic_rows_stay_near_the_batch() -> None:
    """4,000 rows: within half a posterior sd of the exact mode, sds within 10 %, Σ > 0."""
    gap, ratio, lowest = _row_by_row_against_batch(4_000, 71)
    assert gap < 0.5
    assert ratio < 0.1
    assert lowest > 0.5


@pytest.mark.soak
def test_scaler_logistic_rows_stay_near_the_batch_for_a_million() -> None:
    """1,000,000 rows of one owner: within a tenth of a posterior sd, sds within 1 %, Σ > 0."""
    gap, ratio, lowest = _row_by_row_against_batch(1_000_000, 72)
    assert gap < 0.1
    assert ratio < 0.01
    assert lowest > 0.9


def _heads() -> list[LinearHead]:
    points = np.random.default_rng(73).uniform(-2, 2, size=(20, 3))
    return [
        RidgeScaler(features=(0, 1, 2), link="identity", penalty=1.0, floor=1e-9),
        GaussianProcessScaler(
            features=(0, 1, 2),
            link="identity",
            penalty=0.25,
            lengths=(1.0, 1.0, 2.0),
            inducing=tuple(tuple(row) for row in points.tolist()),
        ),
    ]


def _head_against_refit(scaler: LinearHead, n: int, batch: int, seed: int) -> float:
    """Return how far θ of n rows in small batches is from a refit on all rows, relatively."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, size=(n, 3))
    label = 5.0 + np.sin(x[:, :1]) + 0.5 * rng.normal(size=(n, 1))
    state, weight = scaler.init(1), rng.uniform(0.5, 1.5, n)
    for at in range(0, n, batch):
        part = slice(at, min(at + batch, n))
        owner = np.zeros(part.stop - at, dtype=np.int64)
        scaler.observe(state, owner, x[part], np.exp(x[part, :1]), label[part], weight[part])
    scaler.publish(state, np.zeros(1, dtype=np.int64))
    np.linalg.cholesky(state.sums.penalised(np.zeros(1, dtype=np.int64), scaler.penalty))
    phi = scaler.phi(x)
    if isinstance(scaler, GaussianProcessScaler):
        phi[:, 0] = 0.0  # its leading 1 is the shift, which is not learned
    # The square roots of weights and penalty make it a plain least-squares problem.
    root = np.sqrt(weight)[:, None]
    rows = np.concatenate((root * phi, np.sqrt(scaler.penalty) * np.eye(phi.shape[1])))
    target = np.concatenate((root * label, np.zeros((phi.shape[1], 1))))
    expected = np.linalg.lstsq(rows, target, rcond=None)[0][:, 0]
    return float(np.abs(state.theta[0, 0] - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("scaler", _heads(), ids=lambda scaler: type(scaler).__name__)
def test_scaler_head_sums_are_a_refit(scaler: LinearHead) -> None:
    """3,000 rows in batches of 7, against least squares on all of them: 1e-9."""
    assert _head_against_refit(scaler, 3_000, 7, 74) < 1e-9


@pytest.mark.soak
@pytest.mark.parametrize("scaler", _heads(), ids=lambda scaler: type(scaler).__name__)
def test_scaler_head_sums_are_a_refit_for_a_million(scaler: LinearHead) -> None:
    """1,000,000 rows in batches of 50, against least squares on all of them: 1e-8."""
    assert _head_against_refit(scaler, 1_000_000, 50, 75) < 1e-8


BANDITS = [
    GaussianThompson(prior_mean=1e6),
    GaussianThompson(),  # rewards a million standard deviations from the prior mean
    HierarchicalThompson(prior_mean=1e6, sd=3.0),
    UCB1(),
    FactoredThompson(),
    KLUCB(),
    BayesUCB(),
    HierarchicalBetaThompson(),
]
every_bandit = pytest.mark.parametrize("bandit", BANDITS, ids=repr)


def _bandit_against_refit(bandit: Any, n: int, seed: int) -> float:
    """Return how far n rows, one a unit and update, are from all rows at once, relatively.

    Ten units in two groups and 2 × 2 arms. Rewards are 1,000,000 ± 1, outcomes 0 or 1.
    """
    arms, rng = Grid({"A": (0.0, 1.0), "B": (0.0, 1.0)}).build(), np.random.default_rng(seed)
    units, is_class = np.arange(10), bandit.target == "class"
    cell, arm = np.tile(units, n // 10), rng.integers(0, 4, n)
    level = rng.uniform(0.1, 0.9, (10, 4))[cell, arm]
    y = rng.random(n) < level if is_class else 1e6 + level + rng.normal(size=n)
    rows = Evidence(cell, arm, arms.coords[arm], y.astype(float), None, rng.uniform(0.5, 1.5, n))
    one, other = (bandit.init(units // 5, arms) for _ in range(2))
    for start in range(0, n, 10):
        part = slice(start, start + 10)
        bandit.update(
            one,
            Evidence(
                cell[part], arm[part], rows.coord[part], rows.y[part], None, rows.weight[part]
            ),
        )
    bandit.update(other, rows)
    expected = records.flatten(other)
    worst = 0.0
    for name, array in records.flatten(one).items():
        # Cumulative probabilities may be as small as they like; logarithms have no scale.
        floor = 1.0 if name.startswith("hyper") else 1e-12
        gap = np.abs(array - expected[name]) / np.maximum(np.abs(expected[name]), floor)
        worst = max(worst, float(gap.max()))
    at = Setting(units)
    assert np.isfinite(bandit.draw(Streams(seed).at(DRAW, 0), one, at)).all()
    if "marginals" in bandit.supports and len(law := bandit.marginals(one, at).parameters) > 1:
        assert (law[1] > 0.0).all()
    return worst


@every_bandit
def test_bandit_rows_are_the_batch(bandit: Any) -> None:
    """3,000 rows, ten an update, against one update: to 1e-9, with spreads above 0."""
    assert _bandit_against_refit(bandit, 3_000, 91) < 1e-9


@pytest.mark.soak
@every_bandit
def test_bandit_rows_are_the_batch_for_a_million(bandit: Any) -> None:
    """1,000,000 rows, 100,000 updates of every unit, against one update: to 1e-6."""
    assert _bandit_against_refit(bandit, 1_000_000, 92) < 1e-6


CURVES = {
    "relative": CurveThompson(link="identity", degree=2, prior_mean=(1e3, 0.0, 0.0), prior_sd=50.0),
    "additive": CurveThompson(link="identity", form="additive", prior_sd=50.0),
    "process": GPCurveThompson(link="identity", prior_mean=1e3, amplitude=50.0, lengthscale=0.3),
}


def _curve_against_refit(name: str, n: int, seed: int) -> float:
    """Return how far 20 cells that learned n rows, one each an update, are from least squares.

    Relative to the posterior standard deviation of each coefficient. Covariances must have
    kept their sign all the way: precisions are never below the prior's.
    """
    bandit: Any = CURVES[name]
    arms = ArmList(values=(0.8, 0.9, 1.0, 1.15, 1.25)).build()
    rng, units = np.random.default_rng(seed), np.arange(20)
    coord = rng.uniform(0.7, 1.4, size=(n, 1))
    delta, scale = np.exp(0.3 * rng.normal(size=(n, 1, 1))), rng.uniform(0.5, 2.0, n)
    weight = rng.uniform(0.5, 1.5, n)
    y = scale * (1000.0 + 40.0 * np.sin(3.0 * coord[:, 0])) + rng.normal(size=n) / np.sqrt(weight)
    state = bandit.init(units, arms)
    prior = np.linalg.eigvalsh(state.precision[0]).min()
    for at in range(0, n, 20):
        part = slice(at, at + 20)
        bandit.update(
            state,
            Evidence(
                units,
                np.full(20, -1),
                coord[part],
                y[part],
                scale[part],
                weight[part],
                None,
                delta[part],
            ),
        )
        if at % (n // 10) == 0:
            values = np.linalg.eigvalsh(state.precision)
            assert (values[:, 0] >= prior - 1e-13 * values[:, -1]).all()  # but for rounding
            assert (np.linalg.svd(state.root)[1] > 0.0).all()
    worst = 0.0
    for unit in range(20):
        rows = slice(unit, None, 20)
        if isinstance(bandit, GPCurveThompson):
            phi = bandit._features(state, coord[rows])[0]
            pull, centre, sd = bandit.prior_mean, np.zeros(phi.shape[1]), np.ones(phi.shape[1])
        else:
            phi = bandit.inputs(state.frame, coord[rows], delta[rows])
            pull, (centre, sd) = 0.0, bandit.prior(1)
        root = np.sqrt(weight[rows])
        design = np.concatenate(((root * scale[rows])[:, None] * phi, np.diag(1.0 / sd)))
        target = np.concatenate((root * (y[rows] - scale[rows] * pull), centre / sd))
        expected = np.linalg.lstsq(design, target, rcond=None)[0]
        spread = np.sqrt((state.root[unit] ** 2).sum(axis=1))
        worst = max(worst, float((np.abs(state.mean[unit] - expected) / spread).max()))
        exact = np.linalg.inv(np.linalg.qr(design, mode="r"))
        mine = state.root[unit] @ state.root[unit].T
        gap = np.abs(mine - exact @ exact.T) / np.outer(spread, spread)
        worst = max(worst, float(gap.max()))
    return worst


@pytest.mark.parametrize("name", CURVES)
def test_curve_rows_are_least_squares(name: str) -> None:
    """4,000 rows, 200 updates of 20 cells: mean and covariance to 1e-7 standard deviations."""
    assert _curve_against_refit(name, 4_000, 81) < 1e-7


@pytest.mark.soak
@pytest.mark.parametrize("name", CURVES)
def test_curve_rows_are_least_squares_for_a_million(name: str) -> None:
    """1,000,000 rows, 50,000 updates of 20 cells, against least squares on all rows: to 1e-6."""
    assert _curve_against_refit(name, 1_000_000, 82) < 1e-6


# Linear learners: rank-one steps against the normal equations


def _linear_steps(bandit: Any, n: int, seed: int) -> tuple[float, float, float]:
    """Feed n rows, ten cells at a time; return gaps from the batch and the lowest eigenvalue.

    The gaps of mean and covariance are in posterior standard deviations; the eigenvalue is relative
    to the largest of its matrix. Features are nearly collinear (0.05 apart) and far from centred,
    so that the steps have something to lose.
    """
    cells, arms = 10, ArmList(values=(1.0, 2.0)).build()
    state = bandit.init(np.arange(cells), arms)
    rng = np.random.default_rng(seed)
    first = 3.0 + rng.normal(size=(n // cells, cells))
    x = np.stack((first, first + 0.05 * rng.normal(size=first.shape)), axis=-1)
    arm = rng.integers(0, 2, first.shape)
    y = x[..., 0] - arm + rng.normal(size=first.shape)
    cell, one = np.arange(cells), np.ones(cells)
    for t in range(n // cells):
        coord = arms.coords[arm[t]]
        bandit.update(state, Evidence(cell, arm[t], coord, y[t], None, one, x[t]))
    batch = bandit.init(np.arange(cells), arms)
    whole = (np.tile(cell, n // cells), arm.ravel(), arms.coords[arm.ravel()], y.ravel())
    bandit.update(batch, Evidence(*whole, None, np.ones(n), x.reshape(-1, 2)))
    d = state.weights.mean.shape[-1]
    found, exact = (unpack(s.weights.covariance, d).reshape(-1, d, d) for s in (state, batch))
    sd = np.sqrt(np.diagonal(exact, axis1=1, axis2=2))
    means = (state.weights.mean - batch.weights.mean).reshape(-1, d)
    spread = (found - exact) / (sd[:, :, None] * sd[:, None, :])
    values = np.linalg.eigvalsh(found)
    gaps = float(np.abs(means / sd).max()), float(np.abs(spread).max())
    return *gaps, float((values[:, 0] / values[:, -1]).min())


_LINEAR = [
    LinearThompson(features=(0, 1)),
    LinearUCB(features=(0, 1), noise=0.5),
    SharedLinearThompson(features=(0, 1), degree=1),
]


@pytest.mark.parametrize("bandit", _LINEAR, ids=lambda bandit: type(bandit).__name__)
def test_linear_rows_are_the_normal_equations(bandit: Any) -> None:
    mean, spread, lowest = _linear_steps(bandit, 20_000, 3)
    assert mean < 1e-6
    assert spread < 1e-6
    assert lowest > 0


@pytest.mark.soak
@pytest.mark.parametrize("bandit", _LINEAR, ids=lambda bandit: type(bandit).__name__)
def test_linear_rows_are_the_normal_equations_for_a_million(bandit: Any) -> None:
    mean, spread, lowest = _linear_steps(bandit, 1_000_000, 4)
    assert mean < 1e-6
    assert spread < 1e-6
    assert lowest > 0
