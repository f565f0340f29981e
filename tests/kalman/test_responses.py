"""What innovations respond to: by hand, against the filter with the same gains, by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman.filter import Model, kalman_filter
from gdcb.kalman.responses import Basis
from gdcb.kalman.steady import innovation_autocovariance
from tests.kalman.systems import covariances

STEPS, TRACKS, N, M = 25, 3, 3, 2
N_Q, N_R, N_P = 3, 2, 2  # parts of Q, R and P₀


def made(seed: int) -> tuple[Basis, Array, Array, Array, Array]:
    """Return a basis, gains (T, N, n, m), weights of Q and R by step, and coefficients (B,)."""
    rng = np.random.default_rng(seed)
    f = rng.normal(size=(N, N))
    f *= 0.9 / np.abs(np.linalg.eigvals(f)).max()
    h = rng.normal(size=(M, N))
    parts = (covariances(rng, (size,), n, 0.5) for size, n in ((N_Q, N), (N_R, M), (N_P, N)))
    basis = Basis(f, h, *parts)
    gains = 0.2 * rng.normal(size=(STEPS, TRACKS, N, M))
    process, noise = rng.random((STEPS, TRACKS, N_Q)), 0.2 + rng.random((STEPS, TRACKS, N_R))
    return basis, gains, process, noise, rng.uniform(0.3, 2.0, basis.size)


def moments(
    basis: Basis, gains: Array, process: Array, noise: Array
) -> tuple[list[Array], list[Array]]:
    """Return the responses of E[ν_tν_tᵀ] and of E[ν_{t+1}ν_tᵀ] by step."""
    m, squares, lagged = basis.start(gains.shape[1]), [], []
    for t in range(gains.shape[0]):
        squares.append(basis.squares(m, noise[t]))
        m, after = basis.step(m, gains[t], process[t], noise[t])
        lagged.append(after)
    return squares, lagged


def joined(response: Array, beta: Array) -> Array:
    """Return Σ_b β_b·response_b: (N, m, m)."""
    return np.asarray((beta[:, None, None] * response).sum(axis=1))


def model_of(basis: Basis, process: Array, noise: Array, beta: Array) -> tuple[Model, Array]:
    """Return the model by step that the coefficients make, and P₀."""
    q = np.einsum("tni,ijk->tnjk", process * beta[:N_Q], basis.process)
    r = np.einsum("tni,ijk->tnjk", noise * beta[N_Q : N_Q + N_R], basis.noise)
    p = np.einsum("i,ijk->jk", beta[N_Q + N_R :], basis.initial)
    return Model(basis.transition, basis.measurement, q, r), p


def test_squares_are_the_filter_s_innovation_covariances() -> None:
    """E[ννᵀ] of any gains, by step and track, is what `kalman_filter` claims for them; to 1e-9."""
    basis, gains, process, noise, beta = made(1)
    model, p = model_of(basis, process, noise, beta)
    out = kalman_filter(np.zeros((STEPS, TRACKS, M)), model, np.zeros(N), p, gains=gains)
    squares, _ = moments(basis, gains, process, noise)
    for t in range(STEPS):
        np.testing.assert_allclose(
            joined(squares[t], beta), out.innovation_covariance[t], rtol=1e-9, atol=1e-9
        )


def test_lagged_products_are_the_filter_s() -> None:
    """E[ν_{t+1}ν_tᵀ] = HF[(I − KH)PHᵀ − KR], P being the filter's own; to 1e-9."""
    basis, gains, process, noise, beta = made(2)
    model, p = model_of(basis, process, noise, beta)
    out = kalman_filter(np.zeros((STEPS, TRACKS, M)), model, np.zeros(N), p, gains=gains)
    _, lagged = moments(basis, gains, process, noise)
    f, h = basis.transition, basis.measurement
    for t in range(STEPS):
        k, spread = gains[t], out.predicted_covariance[t]
        expected = h @ f @ ((np.eye(N) - k @ h) @ spread @ h.T - k @ model.noise[t])
        np.testing.assert_allclose(joined(lagged[t], beta), expected, rtol=1e-9, atol=1e-9)


def test_moments_of_simulated_innovations() -> None:
    """40,000 tracks, 5 steps, one gain a step: every moment within 4.5 standard errors.

    30 moments at 7e-6 each: a false alarm in 5,000 seeds, and the seed is fixed.
    """
    basis, gains, process, noise, beta = made(3)
    steps, many, rng = 5, 40_000, np.random.default_rng(4)
    gains, process, noise = gains[:steps, :1], process[:steps, :1], noise[:steps, :1]
    model, p = model_of(basis, process, noise, beta)
    f, h = basis.transition, basis.measurement
    error = rng.normal(size=(many, N)) @ np.linalg.cholesky(p).T
    seen = []
    for t in range(steps):
        v = rng.normal(size=(many, M)) @ np.linalg.cholesky(model.noise[t, 0]).T
        w = rng.normal(size=(many, N)) @ np.linalg.cholesky(model.process[t, 0]).T
        nu = error @ h.T + v
        seen.append(nu)
        error = (error - nu @ gains[t, 0].T) @ f.T + w
    squares, lagged = moments(basis, gains, process, noise)
    for t in range(steps):
        _near(seen[t], seen[t], joined(squares[t], beta)[0])
        if t + 1 < steps:
            _near(seen[t + 1], seen[t], joined(lagged[t], beta)[0])


def _near(a: Array, b: Array, expected: Array) -> None:
    products = a[:, :, None] * b[:, None, :]
    error = products.std(axis=0) / np.sqrt(a.shape[0])
    assert (np.abs(products.mean(axis=0) - expected) < 4.5 * error).all()


def test_a_fixed_gain_ends_at_the_model_autocovariances() -> None:
    """After 400 steps C₀ and C₁ are those of autocovariance least squares; P₀ is forgotten."""
    rng = np.random.default_rng(5)
    f, h, k = np.array([[1.0, 1.0], [0.0, 0.95]]), np.array([[1.0, 0.0]]), np.array([[0.4], [0.1]])
    q, r = covariances(rng, (2,), 2, 0.5), np.ones((1, 1, 1))
    basis = Basis(f, h, q, r, np.eye(2)[None])
    m, one = basis.start(1), np.ones((1, 1))
    for _ in range(400):
        square = basis.squares(m, one)
        m, lagged = basis.step(m, k[None], np.ones((1, 2)), one)
    for i in range(2):
        zero = np.zeros((1, 1))
        expected = innovation_autocovariance(f, h, k, q[i], zero, 2)
        np.testing.assert_allclose([square[0, i], lagged[0, i]], expected, rtol=1e-9)
    expected = innovation_autocovariance(f, h, k, np.zeros((2, 2)), r[0], 2)
    np.testing.assert_allclose([square[0, 2], lagged[0, 2]], expected, rtol=1e-9)
    assert abs(square[0, 3]).max() < 1e-9


def test_two_steps_by_hand() -> None:
    """F = 2, H = 1, Q = 1, R = 3, P₀ = 5, K = ½ and then ¼.

    S₀ = 5·p + 3·r. A = 2·½ = 1 and FK = 1: M₁ = 5p + q + 3r; E[ν₁ν₀] = 5p − 3r. S₁ = 5p + q + 6r.
    A = 2·¾ = 1.5, FK = ½: E[ν₂ν₁] = 1.5·(5p + q + 3r) − 1.5r = 7.5p + 1.5q + 3r.
    """
    one = np.ones((1, 1, 1))
    basis = Basis(2.0 * one[0], one[0], one, 3.0 * one, 5.0 * one)
    assert basis.counts == (1, 1, 1)
    unit, m = np.ones((1, 1)), basis.start(1)
    assert basis.squares(m, unit).ravel().tolist() == [0.0, 3.0, 5.0]
    m, lagged = basis.step(m, 0.5 * one, unit, unit)
    assert lagged.ravel().tolist() == [0.0, -3.0, 5.0]
    assert basis.squares(m, unit).ravel().tolist() == [1.0, 6.0, 5.0]
    _, lagged = basis.step(m, 0.25 * one, unit, unit)
    assert lagged.ravel().tolist() == [1.5, 3.0, 7.5]


def test_responses_are_linear_in_the_parts() -> None:
    """Twice a part has twice the response, and the others' stay as they are."""
    basis, gains, process, noise, _ = made(6)
    twice = np.array(basis.process)
    twice[1] *= 2.0
    other = Basis(basis.transition, basis.measurement, twice, basis.noise, basis.initial)
    for mine, theirs in zip(
        moments(basis, gains, process, noise), moments(other, gains, process, noise), strict=True
    ):
        factor = np.ones(basis.size)
        factor[1] = 2.0
        np.testing.assert_allclose(
            np.stack(theirs), np.stack(mine) * factor[:, None, None], rtol=1e-12, atol=1e-14
        )


def test_a_track_has_the_bits_that_it_has_alone() -> None:
    basis, gains, process, noise, _ = made(7)
    squares, lagged = moments(basis, gains, process, noise)
    for i in range(TRACKS):
        some = slice(i, i + 1)
        mine = moments(basis, gains[:, some], process[:, some], noise[:, some])
        assert np.stack(mine[0]).tobytes() == np.stack(squares)[:, some].tobytes()
        assert np.stack(mine[1]).tobytes() == np.stack(lagged)[:, some].tobytes()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("process", np.ones((2, 2)), r"Basis.process: expected shape \(parts, 2, 2\)"),
        ("noise", np.ones((1, 2, 2)), r"Basis.noise: expected shape \(parts, 1, 1\)"),
        ("initial", np.full((1, 2, 2), np.nan), "Basis.initial: expected finite numbers"),
        ("process", np.full((1, 2, 2), np.inf), "Basis.process: expected finite numbers"),
    ],
)
def test_bad_parts_are_refused(name: str, value: Array, message: str) -> None:
    good = {"process": np.eye(2)[None], "noise": np.ones((1, 1, 1)), "initial": np.eye(2)[None]}
    with pytest.raises(InvalidInput, match=message):
        Basis(np.eye(2), np.ones((1, 2)), **good | {name: value})
