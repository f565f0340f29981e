"""The rivals' posteriors, on rows of a simulation, against independent implementations to 1e-8.

Every learner runs behind the gate of the rental instance, without a scaler. Its rows are then given
to SciPy, scikit-learn or dense linear algebra, with the features written out here; what the
learner knows at the end of its own run must be what they say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats
from sklearn.linear_model import LogisticRegression, Ridge

from gdcb import credit
from gdcb.arrays import Array
from gdcb.bandits import (
    BetaThompson,
    BradleyTerryThompson,
    HierarchicalBetaThompson,
    HierarchicalThompson,
    LinearThompson,
    LogisticThompson,
    SharedLinearThompson,
)
from gdcb.instance import Instance, Rules
from gdcb.instances import load
from gdcb.posterior import unpack
from gdcb.protocol.preferences import Preferences, with_rival
from gdcb.records import Evidence, Setting
from gdcb.scalers import ConstantScaler
from gdcb.simulate import simulate

DOMAIN = load("str")
# Every row counts once, so that nothing but the learner stands between the rows and the posterior.
PLAIN = replace(DOMAIN.instance, scaler=ConstantScaler(), rules=Rules(overrides="all"))
NAMES = ("occupancy", "lead", "gap")
ROUNDS, REPLICATES, UNITS = 50, 2, 4
CELLS = REPLICATES * UNITS
ARMS = PLAIN.space


def close(expected: Any) -> Any:
    """Agree to 1e-8, of the number or of one."""
    return pytest.approx(expected, rel=1e-8, abs=1e-8)


@dataclass
class Ran:
    """What a learner knows after a run, and the rows of it: see `Evidence`."""

    bandit: Any
    state: Any
    rows: Evidence
    x: Array  # (N, 3) the features
    price: Array  # (N,) executed, relative to base and market, scaled so that the arms end at ±1
    rival: Array  # (N,) the same of what it was compared with, where it was

    def of(self, cell: int, arm: int | None = None) -> Array:
        """Return which rows taught a cell, or an arm of it."""
        mine = self.rows.cell == cell
        return np.flatnonzero(mine if arm is None else mine & (self.rows.arm == arm))


def run(bandit: Any) -> Ran:
    """Run a learner; the operator is asked if it learns from preferences."""
    instance: Instance = PLAIN
    world: Any = DOMAIN.world
    if isinstance(bandit, BradleyTerryThompson):
        person: Any = PLAIN.chain.gates[0]
        instance, world = with_rival(PLAIN), Preferences(world, PLAIN, person.person.own)
    sizes: dict[str, Any] = {"rounds": ROUNDS, "replicates": REPLICATES, "units": UNITS}
    done = simulate(instance, bandit, world, **sizes, seed=11, keep_log=True)
    assert done.log is not None
    log, one = done.log, np.ones((ROUNDS * CELLS, 1, 1))
    rows, _ = credit.evidence(instance, log, one, log.version)
    columns = instance.context.names
    x = log.x[:, [columns.index(name) for name in NAMES]]
    base = log.x[:, columns.index("base")] * log.x[:, columns.index("market")]
    low, high = ARMS.coords.min(), ARMS.coords.max()
    middle, half = (low + high) / 2, (high - low) / 2
    rival = (log.x[:, -1] - middle) / half
    price = (log.action[:, 0] / base - middle) / half
    assert not log.is_null.any()
    assert 0.2 < log.y.mean() < 0.9
    return Ran(instance.bind(bandit), done.state.bandit, rows, x, price, rival)


def psi(ran: Ran, price: Array) -> Array:
    """Return (1, x, c, c², x⊗c)."""
    c = price[:, None]
    return np.concatenate((np.ones_like(c), ran.x, c, c**2, ran.x * c), axis=1)


def at_all() -> Setting:
    """Return every cell, without a context."""
    return Setting(np.arange(CELLS))


# B1


def test_beta_thompson_is_scipy_s_beta_posterior() -> None:
    """Mean, variance and distribution function of every arm of every listing."""
    ran = run(BetaThompson(wins=1.5, losses=0.7))
    mean = ran.bandit.mean(ran.state, at_all(), ARMS.nominal)
    law = ran.bandit.marginals(ran.state, at_all())
    at = np.linspace(0.05, 0.95, 7)
    chance = law.cdf(np.broadcast_to(at, (CELLS, ARMS.n, 7)))
    for cell in range(CELLS):
        for arm in range(ARMS.n):
            y = ran.rows.y[ran.of(cell, arm)]
            known = stats.beta(1.5 + y.sum(), 0.7 + (1 - y).sum())
            assert mean[cell, arm] == close(known.mean())
            assert chance[cell, arm] == close(known.cdf(at))


# B2


def ridge(phi: Array, y: Array, prior_sd: float, noise: float) -> tuple[Array, Array]:
    """Return mean and covariance of the weights: scikit-learn's ridge, and a dense inverse."""
    fit = Ridge(alpha=(noise / prior_sd) ** 2, fit_intercept=False, solver="cholesky").fit(phi, y)
    precision = np.eye(phi.shape[1]) / prior_sd**2 + phi.T @ phi / noise**2
    return fit.coef_, np.linalg.inv(precision)


def test_linear_thompson_is_ridge_regression_of_every_arm() -> None:
    ran = run(LinearThompson(features=NAMES, prior_sd=0.8, noise=0.45))
    covariance, seen = unpack(ran.state.weights.covariance, 4), 0
    for cell in range(CELLS):
        for arm in range(ARMS.n):
            mine = ran.of(cell, arm)
            if mine.size == 0:
                assert not ran.state.weights.mean[cell, arm].any()
                continue
            phi = np.column_stack((np.ones(mine.size), ran.x[mine]))
            mean, spread = ridge(phi, ran.rows.y[mine], 0.8, 0.45)
            assert ran.state.weights.mean[cell, arm] == close(mean)
            assert covariance[cell, arm] == close(spread)
            seen += mine.size
    assert seen > 0.7 * ROUNDS * CELLS


def test_shared_linear_thompson_is_ridge_regression_on_action_features() -> None:
    ran = run(SharedLinearThompson(features=NAMES, prior_sd=0.8, noise=0.45))
    phi, covariance = psi(ran, ran.price), unpack(ran.state.weights.covariance, 9)
    for cell in range(CELLS):
        mine = ran.of(cell)
        assert mine.size == ROUNDS
        mean, spread = ridge(phi[mine], ran.rows.y[mine], 0.8, 0.45)
        assert ran.state.weights.mean[cell] == close(mean)
        assert covariance[cell] == close(spread)


def pull(w: Array, mean: Array, precision: Array, row: Array, outcome: float) -> Array:
    """Return the gradient of −log N(w; mean, precision⁻¹) − log P(outcome | w)."""
    return np.asarray(precision @ (w - mean) + row * (special.expit(row @ w) - outcome))


def row_by_row(phi: Array, y: Array, prior_sd: float) -> tuple[Array, Array]:
    """Return mean and covariance: after each row the mode by SciPy, and the Hessian there."""
    mean, precision = np.zeros(phi.shape[1]), np.eye(phi.shape[1]) / prior_sd**2
    for row, outcome in zip(phi, y, strict=True):
        here = (mean, precision, row, outcome)
        found = optimize.root(pull, mean, args=here, tol=1e-14)
        assert np.abs(pull(found.x, *here)).max() < 1e-10
        p = special.expit(row @ found.x)
        mean, precision = found.x, precision + p * (1 - p) * np.outer(row, row)
    return mean, np.linalg.inv(precision)


def all_at_once(phi: Array, y: Array, prior_sd: float) -> tuple[Array, Array]:
    """Return the mode of all rows by scikit-learn, and the inverse Hessian there."""
    model = LogisticRegression(
        C=prior_sd**2, fit_intercept=False, solver="newton-cholesky", tol=1e-13, max_iter=200
    ).fit(phi, y)
    p = model.predict_proba(phi)[:, 1]
    hessian = np.eye(phi.shape[1]) / prior_sd**2 + (phi.T * (p * (1 - p))) @ phi
    return model.coef_[0], np.linalg.inv(hessian)


def check_logistic(ran: Ran, phi: Array, prior_sd: float) -> None:
    """Compare what was learned row by row, and then what `refit` makes of the same rows."""
    for fit in (row_by_row, all_at_once):
        if fit is all_at_once:
            ran.bandit.refit(ran.state, ran.rows)
        for cell in range(CELLS):
            mine = ran.of(cell)
            mean, spread = fit(phi[mine], ran.rows.y[mine], prior_sd)
            assert ran.state.weights.mean[cell] == close(mean)
            assert ran.state.weights.covariance[cell] == close(spread)


@pytest.mark.parametrize(
    "settings", [{}, {"degree": 2, "interactions": True}], ids=["fair", "all features"]
)
def test_logistic_thompson_is_logistic_regression(settings: dict[str, Any]) -> None:
    ran = run(LogisticThompson(features=NAMES, prior_sd=2.0, **settings))
    phi = psi(ran, ran.price)
    check_logistic(ran, phi if settings else phi[:, :5], 2.0)


# B3


def test_hierarchical_thompson_is_a_joint_gaussian_conditioned_on_all_rows() -> None:
    """Dense algebra over the listings of a replicate: prior covariance sd²·11ᵀ + between²·I."""
    bandit = HierarchicalThompson(prior_mean=0.4, sd=0.3, between=0.15, noise=0.45)
    ran = run(bandit)
    mean = ran.bandit.mean(ran.state, at_all(), ARMS.nominal)
    (_, sd) = ran.bandit.marginals(ran.state, at_all()).parameters
    prior = 0.3**2 * np.ones((UNITS, UNITS)) + 0.15**2 * np.eye(UNITS)
    for group in range(REPLICATES):
        cells = np.arange(UNITS) + group * UNITS
        for arm in range(ARMS.n):
            mine = np.concatenate([ran.of(int(cell), arm) for cell in cells])
            seen = (ran.rows.cell[mine, None] == cells).astype(float)
            gain = (
                prior @ seen.T @ np.linalg.inv(seen @ prior @ seen.T + 0.45**2 * np.eye(mine.size))
            )
            assert mean[cells, arm] == close(0.4 + gain @ (ran.rows.y[mine] - 0.4))
            assert sd[cells, arm] ** 2 == close(np.diag(prior - gain @ seen @ prior))


def test_hierarchical_beta_thompson_is_its_integral() -> None:
    """Adaptive quadrature over the mean of the rates, summed over their concentrations."""
    kappas = (2.0, 8.0, 32.0)
    ran = run(HierarchicalBetaThompson(wins=2.0, losses=1.0, concentration=kappas, nodes=64))
    mean = ran.bandit.mean(ran.state, at_all(), ARMS.nominal)
    most = 0
    for group in range(REPLICATES):
        cells = np.arange(UNITS) + group * UNITS
        for arm in range(ARMS.n):
            of_unit = [ran.rows.y[ran.of(int(cell), arm)] for cell in cells]
            won = np.array([y.sum() for y in of_unit])
            lost = np.array([(1 - y).sum() for y in of_unit])
            most = max(most, int((won + lost).sum()))

            def mass(m: float, kappa: float, won: Array = won, lost: Array = lost) -> Array:
                a, b = kappa * m, kappa * (1 - m)
                log = special.betaln(a + won, b + lost) - special.betaln(a, b)
                shift = special.betaln(1 + won, 1 + lost)
                weight = m * np.exp((log - shift).sum())
                return np.asarray(weight * np.append((a + won) / (kappa + won + lost), 1.0))

            total = np.zeros(UNITS + 1)
            for kappa in kappas:
                found, error = integrate.quad_vec(mass, 0, 1, epsrel=1e-11, args=(kappa,))[:2]
                assert error < 1e-9 * found[-1]
                total += found
            assert mean[cells, arm] == close(total[:-1] / total[-1])
    assert 8 < most < 128  # beyond twice the nodes the learner's own sum is not exact


# B5


def test_bradley_terry_thompson_is_logistic_regression_on_differences() -> None:
    """Without an intercept: what does not depend on the price cancels."""
    ran = run(BradleyTerryThompson(features=NAMES, prior_sd=3.0))
    phi = (psi(ran, ran.price) - psi(ran, ran.rival))[:, 4:]
    check_logistic(ran, phi, 3.0)
