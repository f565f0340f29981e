"""Steady states: SciPy's on random systems, by hand, each by itself, none where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

from gdcb.arrays import Array
from gdcb.kalman.riccati import gain, lyapunov, riccati
from tests.kalman.systems import systems

SIZES = ((1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (4, 2), (5, 3), (6, 2))


def _scipy_s(f: Array, h: Array, q: Array, r: Array) -> Array:
    return np.asarray(linalg.solve_discrete_are(f.T, h.T, q, r))


def _gaps_to_scipy(count: int, seed: int) -> tuple[float, int, float]:
    """Compare with SciPy over all sizes.

    Returns
    -------
    worst, n_loose, unstable : largest relative gap where SciPy's own answer is determined; how many
        systems it is not, because the last bit of F moves it by more than the gap; part of F that
        is unstable
    """
    worst, n_loose, n_unstable = 0.0, 0, 0
    for n, m in SIZES:
        f, h, q, r = systems(seed, (count // len(SIZES),), n, m)
        ours = riccati(f, h, q, r)
        for i in range(f.shape[0]):
            theirs = _scipy_s(f[i], h[i], q[i], r[i])
            gap = float(np.abs(ours[i] - theirs).max() / np.abs(theirs).max())
            if not gap <= 1e-9:
                bits = 2.0**-52 * np.random.default_rng(i).choice([-1, 1], size=(8, n, n))
                moved = [_scipy_s(f[i] * (1 + bit), h[i], q[i], r[i]) for bit in bits]
                if np.abs(moved - theirs).max() / np.abs(theirs).max() > gap:
                    n_loose += 1
                    continue
            worst = max(worst, gap)
        n_unstable += int((np.abs(np.linalg.eigvals(f)).max(axis=1) > 1.0).sum())
    return worst, n_loose, n_unstable / count


def test_riccati_is_scipy_s() -> None:
    """To 1e-9 on 200 random systems of eight sizes, of which two in five have an unstable F."""
    worst, n_loose, unstable = _gaps_to_scipy(200, 1)
    assert worst <= 1e-9
    assert n_loose == 0
    assert 0.3 < unstable < 0.5


@pytest.mark.soak
def test_riccati_is_scipy_s_ten_thousand_times() -> None:
    """The same on 10,000; of these at most two may move with the last bit of F."""
    worst, n_loose, _ = _gaps_to_scipy(10_000, 2)
    assert worst <= 1e-9
    assert n_loose <= 2


def test_riccati_gives_back_itself_on_badly_conditioned_systems() -> None:
    """Eigenvalues of Q and R over six decades: Joseph's step leaves P as it is, to 1e-11."""
    for n, m in SIZES:
        f, h, q, r = systems(3, (50,), n, m, decades=3.0)
        p = riccati(f, h, q, r)
        k = gain(h, p, r)
        a, fk = f - f @ k @ h, f @ k
        again = a @ p @ a.swapaxes(1, 2) + fk @ r @ fk.swapaxes(1, 2) + q
        size = np.abs(p).max(axis=(1, 2))
        assert (np.abs(again - p).max(axis=(1, 2)) <= 1e-11 * size).all()


def test_systems_are_solved_each_by_itself() -> None:
    """A batch of stable, unstable and undetectable systems gives each the bits it has alone."""
    f, h, q, r = systems(4, (9,), 3, 1)
    f[4], h[4] = np.diag([2.0, 0.5, 0.5]), np.array([[0.0, 1.0, 1.0]])
    p = riccati(f, h, q, r)
    assert np.isnan(p[4]).all()
    assert np.isfinite(np.delete(p, 4, axis=0)).all()
    for i in range(9):
        np.testing.assert_array_equal(p[i], riccati(f[i], h[i], q[i], r[i]))


def test_lyapunov_by_hand() -> None:
    """A = diag(1/2, 1/3): P_ij = Q_ij/(1 − a_i a_j), so 4/3, 6/5 and 9/8 times Q."""
    a, q = np.diag([1 / 2, 1 / 3]), np.array([[3.0, 5.0], [5.0, 8.0]])
    np.testing.assert_allclose(lyapunov(a, q), [[4.0, 6.0], [6.0, 9.0]], rtol=1e-15)


def test_lyapunov_is_scipy_s() -> None:
    """On 100 stable systems, some close to the circle; Q need not be positive."""
    rng = np.random.default_rng(5)
    a = rng.normal(size=(100, 3, 3))
    radius = np.abs(np.linalg.eigvals(a)).max(axis=1)
    a *= (rng.uniform(0.5, 0.9999, 100) / radius)[:, None, None]
    q = rng.normal(size=(100, 3, 3))
    q += q.swapaxes(1, 2)
    p = lyapunov(a, q)
    for i in range(100):
        theirs = linalg.solve_discrete_lyapunov(a[i], q[i])
        np.testing.assert_allclose(p[i], theirs, rtol=0, atol=1e-9 * np.abs(theirs).max())
        np.testing.assert_array_equal(p[i], lyapunov(a[i], q[i]))


@pytest.mark.parametrize(
    "a",
    [np.eye(2), np.diag([0.5, -1.0]), np.array([[0.0, 1.0], [-1.0, 0.0]]), np.diag([0.1, 3.0])],
    ids=["one", "minus one", "turning", "unstable"],
)
def test_lyapunov_has_no_solution_on_or_outside_the_circle(a: Array) -> None:
    """NaN, also where Q does not reach the mode; a stable system beside it keeps its bits."""
    stable = 0.5 * np.eye(2)
    p = lyapunov(np.stack((a, stable)), np.diag([1.0, 0.0]))
    assert np.isnan(p[0]).all()
    np.testing.assert_array_equal(p[1], lyapunov(stable, np.diag([1.0, 0.0])))


def test_gains_of_many_measurements_are_solved() -> None:
    """K S = PHᵀ."""
    f, h, q, r = systems(6, (5,), 3, 2)
    p = riccati(f, h, q, r)
    s = h @ p @ h.swapaxes(1, 2) + r
    np.testing.assert_allclose(gain(h, p, r) @ s, p @ h.swapaxes(1, 2), rtol=1e-9, atol=1e-12)
