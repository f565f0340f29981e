"""Logistic regression as a Gaussian: by hand, against SciPy and scikit-learn, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize, root
from sklearn.linear_model import LogisticRegression

from gdcb.arrays import Array, logistic
from gdcb.errors import InvalidInput
from gdcb.logistic import LogisticPosterior, logistic_mode
from gdcb.records import from_bytes, to_bytes
from tests.parts.builders import fixed, rng_of


def zero(n: int) -> Array:
    """Return owner 0 for n rows."""
    return np.zeros(n, dtype=np.int64)


def data(n: int, d: int, seed: int) -> tuple[Array, Array, Array, Array]:
    """Return φ with an intercept, outcomes, weights and offsets."""
    rng = rng_of(seed)
    phi = np.column_stack((np.ones(n), rng.normal(size=(n, d - 1))))
    truth = rng.normal(size=d)
    offset = rng.normal(size=n)
    y = (rng.random(n) < logistic(phi @ truth + offset)).astype(float)
    return phi, y, rng.uniform(0.0, 2.0, n), offset


def objective(
    w: Array, phi: Array, y: Array, weight: Array, offset: Array, mean: Array, precision: Array
) -> tuple[float, Array]:
    """Return minus the log posterior and its gradient."""
    z = phi @ w + offset
    loss = (weight * (np.logaddexp(0.0, z) - y * z)).sum()
    gap = w - mean
    gradient = phi.T @ (weight * (1 / (1 + np.exp(-z)) - y)) + precision @ gap
    return float(loss + 0.5 * gap @ precision @ gap), gradient


def hessian(w: Array, phi: Array, weight: Array, offset: Array, precision: Array) -> Array:
    """Return the Hessian of `objective`."""
    p = 1 / (1 + np.exp(-(phi @ w + offset)))
    return np.asarray((phi.T * (weight * p * (1 - p))) @ phi + precision)


def test_two_rows_by_hand() -> None:
    """Prior N(0, 4): y = 1 at offset −2 gives N(2, 2); then y = 0 at offset 0.

    The second mode solves (w − 2)/2 = −σ(w), that is w + 2σ(w) = 2; its precision is
    ½ + σ(w)(1 − σ(w)).
    """
    posterior = LogisticPosterior.prior(1, 0.0, 2.0)
    one = np.ones((1, 1))
    posterior.observe(zero(1), one, np.ones(1), np.ones(1), np.array([-2.0]))
    assert posterior.mean[0, 0] == pytest.approx(2.0, abs=1e-12)
    assert posterior.covariance[0, 0, 0] == pytest.approx(2.0, abs=1e-12)
    posterior.observe(zero(1), one, np.zeros(1), np.ones(1))
    w = posterior.mean[0, 0]
    p = 1 / (1 + np.exp(-w))
    assert w + 2 * p == pytest.approx(2.0, abs=1e-12)
    assert 1 / posterior.covariance[0, 0, 0] == pytest.approx(0.5 + p * (1 - p), abs=1e-12)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_fit_is_the_optimum_that_scipy_finds(seed: int) -> None:
    """Mode to 1e-10 and Laplace precision to 1e-8, with weights, offsets and a full prior."""
    phi, y, weight, offset = data(200, 4, seed)
    mean = rng_of(seed + 50).normal(size=4)
    half = rng_of(seed + 60).normal(size=(4, 4))
    precision = half @ half.T + 0.1 * np.eye(4)
    found = minimize(
        objective,
        np.zeros(4),
        args=(phi, y, weight, offset, mean, precision),
        jac=True,
        hess=lambda w, *args: hessian(w, phi, weight, offset, precision),
        method="trust-exact",
        options={"gtol": 1e-11},
    )
    # Differences of the objective stop at √ε; the root of its gradient goes on from there.

    def gradient(w: Array) -> Array:
        return objective(w, phi, y, weight, offset, mean, precision)[1]

    polished = root(gradient, found.x, tol=1e-13).x
    posterior = LogisticPosterior.fit(phi, y, weight, mean, precision, offset)
    np.testing.assert_allclose(posterior.mean[0], found.x, rtol=0, atol=1e-6)
    np.testing.assert_allclose(posterior.mean[0], polished, rtol=0, atol=1e-10)
    np.testing.assert_allclose(
        np.linalg.inv(posterior.covariance[0]),
        hessian(polished, phi, weight, offset, precision),
        rtol=1e-8,
    )


@pytest.mark.parametrize("c", [0.01, 1.0, 100.0])
def test_fit_is_scikit_learn_s_logistic_regression(c: float) -> None:
    """C = 1/precision, no offset, the intercept penalised like the rest."""
    phi, y, weight, _ = data(150, 3, 4)
    peer = LogisticRegression(C=c, fit_intercept=False, tol=1e-12, solver="newton-cholesky")
    peer.fit(phi, y, sample_weight=weight)
    posterior = LogisticPosterior.fit(phi, y, weight, 0.0, 1 / c)
    np.testing.assert_allclose(posterior.mean[0], peer.coef_[0], rtol=1e-8, atol=1e-8)


def test_stacked_fits_are_the_single_ones_bit_for_bit() -> None:
    """Three owners at once, a NaN among their outcomes: as fitted alone."""
    parts = [data(40, 3, seed) for seed in (5, 6, 7)]
    parts[1][1][3] = np.nan
    phi, y, weight, offset = (np.stack([part[i] for part in parts]) for i in range(4))
    together = LogisticPosterior.fit(phi, y, weight, 0.1, 0.5, offset)
    for i in range(3):
        alone = LogisticPosterior.fit(phi[i], y[i], weight[i], 0.1, 0.5, offset[i])
        assert alone.mean[0].tobytes() == together.mean[i].tobytes()
        assert alone.root[0].tobytes() == together.root[i].tobytes()
    kept = np.isfinite(y[1])
    without = LogisticPosterior.fit(
        phi[1][kept], y[1][kept], weight[1][kept], 0.1, 0.5, offset[1][kept]
    )
    np.testing.assert_allclose(without.mean[0], together.mean[1], atol=1e-12)


def test_separable_rows_converge_from_far() -> None:
    """Separated outcomes, a prior sd of 1,000 and a start at −500: the gradient vanishes."""
    phi = np.column_stack((np.ones(20), np.linspace(-3, 3, 20)))
    y = (phi[:, 1] > 0).astype(float)
    precision, start = 1e-6 * np.eye(2)[None], np.array([[-500.0, -500.0]])
    mean, _ = logistic_mode(phi, np.ones((1, 20)), y[None], precision, np.zeros((1, 2)), start)
    loss, gradient = objective(
        mean[0], phi, y, np.ones(20), np.zeros(20), np.zeros(2), precision[0]
    )
    assert np.isfinite(loss)
    assert np.abs(gradient).max() < 1e-10


@given(
    seed=st.integers(0, 9999),
    d=st.integers(1, 5),
    size=st.sampled_from([0.01, 1.0, 30.0]),
    weight=st.sampled_from([0.1, 1.0, 50.0]),
)
@fixed
def test_one_row_is_its_exact_laplace_fit(seed: int, d: int, size: float, weight: float) -> None:
    """Mean and covariance of one recursive update equal the batch fit of that row to 1e-9."""
    rng = rng_of(seed)
    half = rng.normal(size=(d, d))
    covariance = half @ half.T + 0.1 * np.eye(d)
    posterior = LogisticPosterior(rng.normal(size=(1, d)), np.linalg.cholesky(covariance)[None])
    mean = posterior.mean[0].copy()
    phi, y, offset = size * rng.normal(size=(1, d)), rng.random(1), rng.normal(size=1)
    weights = np.array([weight])
    exact = LogisticPosterior.fit(phi, y, weights, mean, np.linalg.inv(covariance), offset)
    posterior.observe(zero(1), phi, y, weights, offset)
    scale = np.sqrt(np.diagonal(covariance))
    np.testing.assert_allclose(posterior.mean[0] / scale, exact.mean[0] / scale, atol=1e-9)
    np.testing.assert_allclose(
        posterior.covariance[0] / np.outer(scale, scale),
        exact.covariance[0] / np.outer(scale, scale),
        atol=1e-9,
    )


@given(seed=st.integers(0, 9999), n=st.integers(1, 25))
@fixed
def test_a_batch_is_the_loop_bit_for_bit(seed: int, n: int) -> None:
    """Rows of four owners, repeated, some unseen or without weight."""
    rng = rng_of(seed)
    owner, phi, y = rng.integers(0, 4, n), rng.normal(size=(n, 3)), rng.random(n)
    y[rng.random(n) < 0.2] = np.nan
    weight, offset = rng.choice([0.0, 0.5, 2.0], n), 3 * rng.normal(size=n)
    batch = LogisticPosterior.prior(4, 0.2, (1.0, 2.0, 3.0))
    batch.observe(owner, phi, y, weight, offset)
    loop = LogisticPosterior.prior(4, 0.2, (1.0, 2.0, 3.0))
    for i in range(n):
        row = slice(i, i + 1)
        loop.observe(owner[row], phi[row], y[row], weight[row], offset[row])
    assert to_bytes(batch) == to_bytes(loop)
    assert to_bytes(from_bytes(to_bytes(batch), loop)) == to_bytes(batch)


def test_rows_unseen_or_without_weight_teach_nothing() -> None:
    """The bytes stay, and owners not named stay too."""
    posterior = LogisticPosterior.prior(2, 0.0, (1.0, 1.0))
    before = to_bytes(posterior)
    y, weight = np.array([np.nan, 1.0]), np.array([1.0, 0.0])
    posterior.observe(zero(2), np.ones((2, 2)), y, weight)
    posterior.observe(zero(0), np.ones((0, 2)), np.ones(0), np.ones(0))
    assert to_bytes(posterior) == before
    posterior.observe(zero(1), np.ones((1, 2)), np.ones(1), np.ones(1))
    assert posterior.mean[1].tolist() == [0.0, 0.0]
    assert posterior.mean[0, 0] > 0


def run_long(n: int, seed: int, batch: int) -> tuple[float, float, float]:
    """Return distance to the batch mode in sds, ratio of sds, and the lowest eigenvalue seen."""
    rng = rng_of(seed)
    phi = np.column_stack((np.ones(n), rng.normal(size=(n, 2)), rng.random(n) < 0.01))
    y = (rng.random(n) < logistic(phi @ [-1.0, 0.7, -0.4, 0.5])).astype(float)
    posterior = LogisticPosterior.prior(1, 0.0, (3.0, 1.0, 1.0, 1.0))
    lowest = np.inf
    for at in range(0, n, batch):
        part = slice(at, min(at + batch, n))
        size = part.stop - at
        posterior.observe(zero(size), phi[part], y[part], np.ones(size))
        lowest = min(lowest, float(np.linalg.eigvalsh(posterior.covariance[0]).min()))
    exact = LogisticPosterior.fit(phi, y, None, 0.0, np.array([1 / 9, 1.0, 1.0, 1.0]))
    sd = np.sqrt(np.diagonal(exact.covariance[0]))
    ratio = np.sqrt(np.diagonal(posterior.covariance[0])) / sd
    gap = np.abs(posterior.mean[0] - exact.mean[0]) / sd
    return float(gap.max()), float(np.abs(np.log(ratio)).max()), lowest


@pytest.mark.parametrize("seed", [11, 12, 14])
def test_row_by_row_stays_near_the_exact_mode(seed: int) -> None:
    """After 5,000 rows: within half a posterior sd of the batch mode, sds within 10 %, Σ > 0.

    The last feature is rare (50 rows): it is the one that is off. Seen with five seeds: 0.05 to
    0.40 sd; the seeds here are the first two and the worst.
    """
    gap, ratio, lowest = run_long(5_000, seed, 500)
    assert gap < 0.5
    assert ratio < 0.1
    assert lowest > 0


@pytest.mark.parametrize("scale", [1e-3, 1e3, 1e6])
def test_covariance_stays_positive_definite_whatever_the_scale(scale: float) -> None:
    """Two nearly collinear features of very different size: a Cholesky factor exists."""
    rng = rng_of(12)
    first = scale * rng.normal(size=2_000)
    phi = np.column_stack((first, first + 1e-4 * scale * rng.normal(size=2_000)))
    posterior = LogisticPosterior.prior(1, 0.0, (1.0, 1.0))
    y = (rng.random(2_000) < 0.5).astype(float)
    posterior.observe(zero(2_000), phi, y, np.ones(2_000))
    assert np.isfinite(posterior.mean).all()
    singular = np.linalg.svd(posterior.root[0], compute_uv=False)
    assert singular.min() > 0
    assert np.isfinite(np.linalg.inv(posterior.root[0])).all()


GOOD: dict[str, Any] = {
    "owner": np.array([0, 1]),
    "phi": np.ones((2, 3)),
    "y": np.array([0.0, 1.0]),
    "weight": np.ones(2),
    "offset": np.zeros(2),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"phi": np.ones((2, 2))}, r"phi: expected \(2, 3\) finite numbers, got \(2, 2\)"),
        ({"phi": np.full((2, 3), np.nan)}, "phi: expected"),
        ({"y": np.array([0.0, 1.5])}, "y: expected 2 numbers within 0 and 1"),
        ({"y": np.zeros(3)}, "y: expected 2 numbers"),
        ({"weight": np.array([1.0, -1.0])}, "weight: expected 2 finite numbers >= 0"),
        ({"weight": np.array([1.0, np.inf])}, "weight: expected"),
        ({"offset": np.array([0.0, np.inf])}, "offset: expected 2 finite numbers"),
        ({"owner": np.array([0, 2])}, "owner: expected 0 to 1"),
        ({"owner": np.array([0, -1])}, "owner: expected 0 to 1"),
    ],
)
def test_bad_rows_are_refused_and_change_nothing(change: dict[str, Any], message: str) -> None:
    """The whole batch is refused, its good rows too."""
    posterior = LogisticPosterior.prior(2, 0.0, (1.0, 1.0, 1.0))
    before = to_bytes(posterior)
    with pytest.raises(InvalidInput, match=message):
        posterior.observe(**(GOOD | change))
    assert to_bytes(posterior) == before


@pytest.mark.parametrize(("mean", "sd"), [(np.nan, 1.0), (0.0, 0.0), (0.0, (1.0, -1.0))])
def test_bad_priors_are_refused(mean: Any, sd: Any) -> None:
    """A prior has finite means and positive sds."""
    with pytest.raises(InvalidInput, match="prior: expected finite means and sds > 0"):
        LogisticPosterior.prior(1, mean, sd)


def _wide(seed: int, n: int) -> tuple[Array, Array, Array, Array, Array]:
    """Return rows of three owners with 40 coefficients; some are not seen or weigh nothing."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.1, np.nan, (rng.random(n) < 0.3).astype(float))
    weight = np.where(rng.random(n) < 0.1, 0.0, rng.uniform(0.5, 2.0, n))
    return rng.integers(0, 3, n), rng.normal(size=(n, 40)), y, weight, rng.normal(size=n)


def test_many_coefficients_learn_several_rows_at_once_as_one_by_one() -> None:
    rows = _wide(0, 150)  # about fifty an owner: several blocks
    batch, loop = (LogisticPosterior.prior(3, 0.1, np.full(40, 0.6)) for _ in range(2))
    ahead = np.array(batch.foresee(*rows))
    one_by_one = np.concatenate(
        [loop.foresee(*(part[i : i + 1] for part in rows)) for i in range(150)], axis=1
    )
    np.testing.assert_allclose(ahead, one_by_one, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(batch.mean, loop.mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(batch.covariance, loop.covariance, rtol=0, atol=1e-12)


def test_one_row_of_many_coefficients_is_the_fit_of_that_row() -> None:
    _, phi, _, _, offset = _wide(1, 1)
    zero, one = np.zeros(1, dtype=np.int64), np.ones(1)
    known = LogisticPosterior.prior(1, 0.1, np.full(40, 0.6))
    known.observe(zero, phi, one, 2.0 * one, offset)
    fitted = LogisticPosterior.fit(phi, one, 2.0 * one, 0.1, np.full(40, 0.6**-2.0), offset)
    np.testing.assert_allclose(known.mean, fitted.mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(known.covariance, fitted.covariance, rtol=0, atol=1e-10)


def test_an_owner_of_many_coefficients_does_not_feel_the_others() -> None:
    rows = _wide(2, 90)
    mine = rows[0] == 1
    together, alone = (LogisticPosterior.prior(3, 0.1, np.full(40, 0.6)) for _ in range(2))
    together.observe(*rows)
    alone.observe(*(part[mine] for part in rows))
    assert together.mean[1].tobytes() == alone.mean[1].tobytes()
    assert together.root[1].tobytes() == alone.root[1].tobytes()
