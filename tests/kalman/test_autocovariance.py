"""Autocovariance least squares: by hand, against Kronecker products, on drawn tracks, refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman.autocovariance import WEIGHTS, autocovariance_fit, symmetric_basis
from gdcb.kalman.semidefinite import fit_inside, is_inside, psd_part
from gdcb.kalman.steady import (
    autocovariance_whitener,
    innovation_autocovariance,
    settling,
    stacked,
    whiteness,
)
from tests.properties import examples

ONE = np.ones((1, 1))
PUSH = np.array([[0.5], [1.0]])
F, H, K = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]]), np.array([[0.6], [0.2]])
TRACKING: dict[str, Any] = {"f": F, "h": H, "gain": K, "basis": (PUSH @ PUSH.T)[None]}


def drawn(
    rng: np.random.Generator, steps: int, n: int, f: Array, h: Array, k: Array, q: Array, r: Array
) -> Array:
    """Draw innovations (T, N, m) of a filter with a fixed gain that starts without an error."""
    states, m = k.shape
    error, found = np.zeros((n, states)), np.empty((steps, n, m))
    for t in range(steps):
        found[t] = error @ h.T + rng.multivariate_normal(np.zeros(m), r, n)
        error = (error - found[t] @ k.T) @ f.T + rng.multivariate_normal(np.zeros(states), q, n)
    return found


# The model


@given(st.integers(0, 10**6))
@examples(10)
def test_autocovariances_are_those_of_the_kronecker_solution(seed: int) -> None:
    """vec P = (I − A⊗A)⁻¹ vec(Q + FKRKᵀFᵀ), and C_j = HAʲ⁻¹(APHᵀ − FKR)."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    f, h = rng.normal(size=(n, n)), rng.normal(size=(m, n))
    k = rng.normal(size=(n, m))
    f *= 0.8 / np.abs(np.linalg.eigvals(f @ (np.eye(n) - k @ h))).max()
    a, carried = f @ (np.eye(n) - k @ h), f @ k
    half_q, half_r = rng.normal(size=(n, n)), rng.normal(size=(m, m))
    q, r = half_q @ half_q.T, half_r @ half_r.T
    right = (q + carried @ r @ carried.T).reshape(-1)
    p = np.linalg.solve(np.eye(n * n) - np.kron(a, a), right).reshape(n, n)
    found = innovation_autocovariance(f, h, k, q, r, 4)
    expected = [h @ p @ h.T + r]
    expected += [
        h @ np.linalg.matrix_power(a, j - 1) @ (a @ p @ h.T - carried @ r) for j in (1, 2, 3)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8 * np.abs(expected[0]).max())


def test_bartletts_weights_are_the_inverse_covariance_of_the_moments() -> None:
    """20,000 drawn records of 100 steps; entries of a correlation matrix within five errors."""
    rng = np.random.default_rng(0)
    q, r = 0.3 * PUSH @ PUSH.T, np.array([[2.0]])
    nu = drawn(rng, 130, 20_000, F, H, K, q, r)[30:]
    lags = 3
    each = np.stack([(nu[j:] * nu[: 100 - j]).mean(axis=0)[..., 0] for j in range(lags)])
    model = innovation_autocovariance(F, H, K, q, r, 200)
    whitener = autocovariance_whitener(model, np.array([100.0, 99.0, 98.0]))
    found = np.cov(whitener @ each)
    assert np.abs(found - np.eye(lags)).max() < 5 * (2 / 20_000) ** 0.5 + 0.02  # ends of records


def test_stacking_keeps_one_triangle_of_the_first() -> None:
    c = np.arange(8.0).reshape(2, 2, 2)
    assert stacked(c).tolist() == [0.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]


# The fit


@pytest.mark.parametrize("weights", WEIGHTS)
def test_two_moments_and_two_unknowns_by_hand(weights: str) -> None:
    """F = ½ and K = 0: C₁ = ½ Var x, so R = C₀ − 2C₁ and Q = ¾·2C₁, whatever the weights."""
    rng = np.random.default_rng(3)
    nu = drawn(rng, 60, 40, 0.5 * ONE, ONE, 0 * ONE, ONE, 2 * ONE)
    fit = autocovariance_fit(nu, 0.5 * ONE, ONE, 0 * ONE, n_lags=2, burn_in=10, weights=weights)
    steady = nu[10:]
    c0, c1 = (steady**2).mean(), (steady[1:] * steady[:-1]).mean()
    assert not fit.is_constrained
    assert fit.noise.item() == pytest.approx(c0 - 2 * c1)
    assert fit.process.item() == pytest.approx(1.5 * c1)
    by_track = (steady**2).mean(axis=0) - 2 * (steady[1:] * steady[:-1]).mean(axis=0)
    assert fit.noise_error.item() == pytest.approx(by_track.std(ddof=1) / 40**0.5)


def test_drawn_tracks_give_back_their_covariances() -> None:
    """Full Q and R of two states, both measured: every entry within five standard errors."""
    rng = np.random.default_rng(1)
    f, h = np.array([[0.9, 0.2], [0.0, 0.7]]), np.array([[1.0, 0.0], [0.5, 1.0]])
    q, r = np.array([[1.0, 0.3], [0.3, 0.5]]), np.array([[2.0, 0.4], [0.4, 1.0]])
    nu = drawn(rng, 60, 500, f, h, 0.4 * np.linalg.inv(h), q, r)
    fit = autocovariance_fit(nu, f, h, 0.4 * np.linalg.inv(h))
    assert fit.n_blocks == 500
    assert (np.abs(fit.process - q) < 5 * fit.process_error).all()
    assert (np.abs(fit.noise - r) < 5 * fit.noise_error).all()
    assert (fit.noise_error < 0.05).all()


@pytest.mark.soak
def test_one_record_agrees_with_maximum_likelihood() -> None:
    """A local level of 2,000 steps under a gain that is too low: statsmodels' ML is nearby.

    Both use nearly all there is to know: they differ by less than half a standard error.
    """
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    rng = np.random.default_rng(0)
    z = rng.normal(size=2000).cumsum() + 2**0.5 * rng.normal(size=2000)
    nu, mean = np.empty(2000), 0.0
    for t in range(2000):
        nu[t] = z[t] - mean
        mean += 0.35 * nu[t]
    fit = autocovariance_fit(nu[:, None, None], ONE, ONE, 0.35 * ONE)
    best = UnobservedComponents(z, "local level").fit(disp=0)
    ours = np.array([fit.noise.item(), fit.process.item()])
    assert (np.abs(ours - best.params) < 0.5 * best.bse).all()
    stated = np.array([fit.noise_error.item(), fit.process_error.item()])
    assert (np.abs(np.log(stated / best.bse)) < np.log(2.0)).all()


def test_standard_errors_are_those_over_records() -> None:
    """Of one long record too: the mean stated error is that of 60 records, within a third."""
    rng = np.random.default_rng(2)
    nu = drawn(rng, 800, 60, F, H, K, 0.3 * PUSH @ PUSH.T, 2 * ONE)
    fits = [autocovariance_fit(nu[:, i : i + 1], **TRACKING) for i in range(60)]
    assert fits[0].n_blocks == 20
    values = np.array([fit.noise.item() for fit in fits])
    stated = np.mean([fit.noise_error.item() for fit in fits])
    assert abs(values.mean() - 2.0) < 5 * values.std() / 60**0.5
    assert stated == pytest.approx(values.std(ddof=1), rel=0.35)


def test_where_nothing_moves_the_fit_stays_positive() -> None:
    """Q = 0: half of the plain fits would be negative. The basis is of rank one: Q̂ stays on it."""
    rng = np.random.default_rng(5)
    fits = [
        autocovariance_fit(drawn(rng, 60, 30, F, H, K, np.zeros((2, 2)), 2 * ONE), **TRACKING)
        for _ in range(12)
    ]
    assert 1 <= sum(fit.is_constrained for fit in fits) <= 11
    for fit in fits:
        scale = fit.coefficients.item()
        assert 0.0 < scale < 0.05
        assert fit.noise.item() > 1.0
        np.testing.assert_allclose(fit.process, scale * PUSH @ PUSH.T)


def test_too_few_blocks_have_no_error() -> None:
    nu = np.random.default_rng(6).normal(size=(40, 1, 1))
    fit = autocovariance_fit(nu, 0.5 * ONE, ONE, 0 * ONE, n_lags=6, burn_in=0)
    assert fit.n_blocks == 3
    assert np.isnan(fit.noise_error).all()


@given(st.integers(0, 10**6), st.floats(1e-3, 1e3))
@examples(6)
def test_units_and_the_order_of_tracks_do_not_matter(seed: int, unit: float) -> None:
    """Measured in another unit, H and K⁻¹ scale too: Q stays, R scales with its square."""
    rng = np.random.default_rng(seed)
    nu = drawn(rng, 50, 25, F, H, K, 0.3 * PUSH @ PUSH.T, 2 * ONE)
    kept = nu.copy()
    fit = autocovariance_fit(nu, **TRACKING)
    assert np.array_equal(nu, kept)
    scaled = {**TRACKING, "h": unit * H, "gain": K / unit}
    other = autocovariance_fit(unit * nu[:, rng.permutation(25)], **scaled)
    np.testing.assert_allclose(other.process, fit.process, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(other.noise, unit**2 * fit.noise, rtol=1e-6)


def test_a_diagonal_noise_has_no_covariances() -> None:
    rng = np.random.default_rng(8)
    f, h = 0.8 * np.eye(2), np.eye(2)
    nu = drawn(rng, 60, 50, f, h, 0.3 * h, np.eye(2), np.diag([1.0, 3.0]))
    fit = autocovariance_fit(nu, f, h, 0.3 * h, is_noise_diagonal=True)
    assert fit.noise[0, 1] == 0.0
    assert (np.abs(np.diagonal(fit.noise) - [1, 3]) < 5 * np.diagonal(fit.noise_error)).all()


# The cone


@given(st.integers(0, 10**6), st.integers(1, 4))
@examples(10)
def test_the_nearest_covariance_is_the_positive_part(seed: int, k: int) -> None:
    """Plain least squares on all symmetric matrices: the barrier must find A₊."""
    a = np.random.default_rng(seed).normal(size=(k, k))
    a = a + a.T
    basis = symmetric_basis(k)
    theta = fit_inside(basis.reshape(len(basis), -1).T, a.reshape(-1), (basis,))
    found = np.einsum("p,pij->ij", theta, basis)
    assert np.linalg.eigvalsh(found).min() > 0.0
    np.testing.assert_allclose(found, psd_part(a), atol=1e-4 * np.abs(a).max())


def test_a_basis_without_a_covariance_is_refused() -> None:
    """diag(1, −1) and its multiples are none."""
    basis = np.diag([1.0, -1.0])[None]
    assert not is_inside(np.ones(1), (basis,))
    with pytest.raises(InvalidInput, match="some combination is positive definite"):
        fit_inside(np.ones((2, 1)), np.array([-1.0, 1.0]), (basis,))


# Whiteness


def test_white_innovations_pass_and_coloured_do_not() -> None:
    """p-values of 200 white samples: below 0.01 at most 9 times (by chance once in 10,000)."""
    rng = np.random.default_rng(9)
    small = [whiteness(rng.normal(size=(40, 20, 2)), 5)[0] < 0.01 for _ in range(200)]
    assert sum(small) <= 9
    walk = rng.normal(size=(41, 20, 2))
    assert whiteness(walk[1:] + 0.3 * walk[:-1], 5)[0] < 1e-6


# What is refused


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"innovation": np.full((40, 30, 1), np.nan)}, "finite numbers, since a step without"),
        ({"innovation": np.full((40, 30, 1), np.inf)}, "got inf at step 0 of track 0"),
        ({"innovation": np.zeros((40, 30, 1))}, "every component to vary"),
        ({"innovation": np.full((40, 30, 1), 1e200)}, "finite squares"),
        ({"innovation": np.ones((40, 30, 2))}, r"shape \(T, N, 1\), got \(40, 30, 2\)"),
        ({"innovation": np.ones((40, 1))}, r"shape \(T, N, 1\)"),
        ({"innovation": np.ones((12, 30, 1))}, "steps after the burn-in of 9"),
        ({"gain": 0 * K}, "stable, so that innovations become steady; got a spectral radius of 1"),
        ({"gain": K[None, None]}, "expected one matrix .* fixed over time"),
        ({"gain": K * np.nan}, "gain: expected finite"),
        ({"f": np.ones((2, 3))}, "f: expected one matrix"),
        ({"h": np.ones((1, 3))}, r"h: expected one matrix \(m, 2\)"),
        ({"basis": None}, "Q has 3 unknowns, .* at most n·m = 2"),
        ({"basis": np.eye(2)}, r"basis: expected shape \(p, 2, 2\)"),
        ({"basis": np.array([[[1.0, 2.0], [0.0, 1.0]]])}, "symmetric"),
        ({"basis": np.stack([np.eye(2), np.eye(2)])}, "not identified"),
        ({"n_lags": 2}, "n_lags: expected a whole number >= 3, got 2"),
        ({"n_lags": 4.0}, "n_lags: expected a whole number"),
        ({"burn_in": -1}, "burn_in: expected a whole number >= 0"),
        ({"weights": "some"}, "weights: expected one of gaussian, equal"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], said: str) -> None:
    nu = np.random.default_rng(0).normal(size=(40, 30, 1))
    with (
        np.errstate(over="ignore"),
        pytest.raises(InvalidInput, match=said),
    ):
        autocovariance_fit(**({"innovation": nu} | TRACKING | change))


def test_a_state_that_is_never_measured_is_named() -> None:
    """The second state decays apart from the first: its Q cannot be told."""
    nu = np.random.default_rng(0).normal(size=(40, 30, 1))
    with pytest.raises(InvalidInput, match="combination of matrix 1 of the basis of Q"):
        autocovariance_fit(nu, np.diag([0.5, 0.6]), H, K * 0.1, basis=symmetric_basis(2, True))


def test_a_gain_that_hardly_forgets_is_refused() -> None:
    with pytest.raises(InvalidInput, match="forget its start within 100,000 steps"):
        settling((1 - 1e-9) * ONE, ONE, 0 * ONE)
