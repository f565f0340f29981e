"""The Lyapunov derivative against differences, and the lemma's bound against the truth."""

from __future__ import annotations

import numpy as np
import pytest

from gdcb.arrays import Array
from gdcb.kalman.riccati import gain, riccati
from gdcb.kalman.sensitivity import derivative, directions, jacobian, lemma_bound, operator_norm
from tests.kalman.systems import systems

SIZES = ((1, 1), (2, 1), (3, 2), (4, 2))


def symmetric(rng: np.random.Generator, count: int, n: int) -> Array:
    """Return random symmetric directions."""
    out = rng.normal(size=(count, n, n))
    return np.asarray(out + out.swapaxes(1, 2))


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_derivative_is_that_of_differences(n: int, m: int) -> None:
    """Central differences of the Riccati solution and its gain, to 1e-6 of their size."""
    f, h, q, r = systems(1, (100,), n, m, decades=0.5)
    rng = np.random.default_rng(1)
    dq, dr, e = symmetric(rng, 100, n), symmetric(rng, 100, m), 1e-5
    dp, dk = derivative(f, h, q, r, dq, dr)
    above, below = (riccati(f, h, q + s * e * dq, r + s * e * dr) for s in (1, -1))
    k_above, k_below = gain(h, above, r + e * dr), gain(h, below, r - e * dr)
    for ours, theirs in ((dp, (above - below) / (2 * e)), (dk, (k_above - k_below) / (2 * e))):
        size = np.abs(ours).max(axis=(1, 2)) + 1e-3
        assert (np.abs(ours - theirs).max(axis=(1, 2)) <= 1e-6 * size).all()


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_jacobian_gives_every_direction(n: int, m: int) -> None:
    """J·coordinates is the directional derivative, and the norm bounds it; a batch is a loop."""
    f, h, q, r = systems(2, (10,), n, m)
    rng = np.random.default_rng(2)
    dq, dr = symmetric(rng, 10, n), symmetric(rng, 10, m)
    dp, dk = derivative(f, h, q, r, dq, dr)
    of_p, of_k = jacobian(f, h, q, r)
    along = np.concatenate(
        (
            np.einsum("iab,dab->id", dq, directions(n)),
            np.einsum("iab,dab->id", dr, directions(m)),
        ),
        axis=1,
    )
    size = np.sqrt((dq**2).sum(axis=(1, 2)) + (dr**2).sum(axis=(1, 2)))
    np.testing.assert_allclose(np.linalg.norm(along, axis=1), size, rtol=1e-12)
    for jac, moved in ((of_p, dp), (of_k, dk)):
        found = (jac @ along[..., None])[..., 0]
        np.testing.assert_allclose(found, moved.reshape(10, -1), rtol=1e-8, atol=1e-10)
        most = operator_norm(jac) * size * (1 + 1e-9)
        assert (np.linalg.norm(moved.reshape(10, -1), axis=1) <= most).all()
    np.testing.assert_array_equal(of_k[3], jacobian(f[3], h[3], q[3], r[3])[1])


def test_only_the_ratio_moves_the_gain() -> None:
    """Along (Q, R) itself K does not move, and P moves by itself."""
    f, h, q, r = systems(3, (20,), 3, 2)
    dp, dk = derivative(f, h, q, r, q, r)
    p = riccati(f, h, q, r)
    np.testing.assert_allclose(dp, p, rtol=0, atol=1e-9 * np.abs(p).max())
    assert np.abs(dk).max() <= 1e-9


def test_where_there_is_no_steady_state_there_is_no_derivative() -> None:
    """NaN, and no violation; the system beside it is as it is alone."""
    f = np.stack((np.diag([2.0, 0.5]), np.diag([0.9, 0.5])))
    h, q, r = np.array([[0.0, 1.0]]), np.eye(2), np.eye(1)
    dp, dk = derivative(f, h, q, r, np.eye(2), np.eye(1))
    assert np.isnan(dp[0]).all()
    assert np.isnan(dk[0]).all()
    found, alone = lemma_bound(f, h, q, r), lemma_bound(f[1], h, q, r)
    assert np.isnan(found.covariance[0])
    assert not found.is_violated[0]
    assert found.covariance[1] == alone.covariance
    assert found.covariance_bound[1] == alone.covariance_bound


def violations(count: int, seed: int) -> tuple[int, int]:
    """Return in how many systems of 2 to 4 states P moves more than the lemma says, of how many."""
    sizes = ((2, 1), (2, 2), (3, 1), (3, 2), (4, 1), (4, 2))
    n_violated = 0
    for n, m in sizes:
        f, h, q, r = systems(seed, (count // len(sizes),), n, m)
        found = lemma_bound(f, h, q, r)
        assert (found.modulus < 1.0).all()
        assert (found.covariance <= found.repaired_bound * (1 + 1e-9)).all()
        n_violated += int(found.is_violated.sum())
    return n_violated, count


def test_the_lemma_s_bound_is_violated_and_the_repaired_one_is_not() -> None:
    """The proof sums a contraction in one metric in the norm of another: a fifth of 3,000 break."""
    n_violated, count = violations(3000, 4)
    assert 0.15 * count < n_violated < 0.35 * count


def test_with_one_state_the_bound_is_exact() -> None:
    """There both metrics agree."""
    found = lemma_bound(*systems(5, (200,), 1, 1))
    np.testing.assert_allclose(found.covariance, found.covariance_bound, rtol=1e-9)
    assert not found.is_violated.any()


def test_a_violation_can_be_seen_by_perturbing() -> None:
    """Of a system that breaks the bound: the Riccati solution itself moves by more than allowed."""
    f, h, q, r = systems(6, (300,), 2, 1)
    found = lemma_bound(f, h, q, r)
    i = int(np.argmax(np.where(found.is_violated, found.covariance / found.covariance_bound, 0.0)))
    e = 1e-6
    moved = riccati(f[i], h[i], q[i] + e * np.eye(2), r[i] + e * np.eye(1)) - riccati(
        f[i], h[i], q[i], r[i]
    )
    assert np.linalg.norm(moved, ord=2) / e > 1.2 * found.covariance_bound[i]
