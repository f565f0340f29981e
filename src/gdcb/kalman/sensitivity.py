"""How the steady-state gain moves with (Q, R): the Lyapunov derivative, and the lemma's bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.kalman.riccati import gain, lyapunov, riccati

_MARGIN = 1e-9  # for rounding: with one state bound and truth are equal


def derivative(f: Array, h: Array, q: Array, r: Array, dq: Array, dr: Array) -> tuple[Array, Array]:
    """Return the directional derivative of (Q, R) ↦ (P, K) at the steady state.

    dP = A dP Aᵀ + dQ + FK dR KᵀFᵀ with A = F(I − KH), and
    dK = (I − KH) dP HᵀS⁻¹ − K dR S⁻¹ with S = HPHᵀ + R.

    Parameters
    ----------
    f, h, q, r : (..., n, n), (..., m, n), (..., n, n), (..., m, m)
    dq, dr : (..., n, n), (..., m, m) symmetric directions

    Returns
    -------
    dp, dk : (..., n, n), (..., n, m); NaN where there is no steady state

    Examples
    --------
    F = H = Q = 1, R = 2: P = 2, K = 1/2, A = 1/2. For dQ = 1: dP = dP/4 + 1 = 4/3, and
    dK = 1/2·4/3·1/4 = 1/6.

    >>> one = np.ones((1, 1))
    >>> dp, dk = derivative(one, one, one, 2 * one, one, 0 * one)
    >>> float(dp[0, 0].round(12)), float(dk[0, 0].round(12))
    (1.333333333333, 0.166666666667)
    """
    p = riccati(f, h, q, r)
    k = gain(h, p, r)
    kept = np.eye(f.shape[-1]) - k @ h
    fk = f @ k
    dp = lyapunov(f @ kept, dq + fk @ dr @ fk.swapaxes(-1, -2))
    ht = h.swapaxes(-1, -2)
    s = h @ p @ ht + r
    right = kept @ dp @ ht - k @ dr
    dk: Array = np.linalg.solve(s, right.swapaxes(-1, -2)).swapaxes(-1, -2)
    return dp, dk


def directions(n: int) -> Array:
    """Return symmetric matrices that are orthonormal in Frobenius' sense: (n(n+1)/2, n, n).

    >>> directions(2).round(3).tolist()
    [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.707], [0.707, 0.0]], [[0.0, 0.0], [0.0, 1.0]]]
    """
    rows, columns = np.triu_indices(n)
    out = np.zeros((rows.size, n, n))
    size = np.where(rows == columns, 1.0, np.sqrt(0.5))
    out[np.arange(rows.size), rows, columns] = size
    out[np.arange(rows.size), columns, rows] = size
    return out


def jacobian(f: Array, h: Array, q: Array, r: Array) -> tuple[Array, Array]:
    """Return the Jacobians of P and of K in orthonormal coordinates of (dQ, dR).

    Parameters
    ----------
    f, h, q, r : (..., n, n), (..., m, n), (..., n, n), (..., m, m)

    Returns
    -------
    of_p, of_k : (..., n·n, d), (..., n·m, d), entries row by row, d = n(n+1)/2 + m(m+1)/2: first
        the `directions` of Q, then those of R. The largest singular value is the operator norm
        from √(‖dQ‖² + ‖dR‖²) to ‖dP‖ or ‖dK‖, all Frobenius'

    Examples
    --------
    F = H = Q = 1, R = 2: dK/dQ = 1/6. K depends on Q/R only, so that Q·dK/dQ + R·dK/dR = 0 and
    dK/dR = −1/12.

    >>> one = np.ones((1, 1))
    >>> jacobian(one, one, one, 2 * one)[1].round(6).tolist()
    [[0.166667, -0.083333]]
    """
    n, m = f.shape[-1], h.shape[-2]
    of_q, of_r = directions(n), directions(m)
    dq = np.concatenate((of_q, np.zeros((of_r.shape[0], n, n))))
    dr = np.concatenate((np.zeros((of_q.shape[0], m, m)), of_r))
    f, h, q, r = (part[..., None, :, :] for part in (f, h, q, r))
    dp, dk = derivative(f, h, q, r, dq, dr)
    of_p, of_k = (part.reshape(*part.shape[:-2], -1).swapaxes(-1, -2) for part in (dp, dk))
    return of_p, of_k


def operator_norm(matrix: Array) -> Array:
    """Return the largest singular value: (...)."""
    return np.asarray(np.linalg.norm(matrix, ord=2, axis=(-2, -1)))


@dataclass(frozen=True, slots=True, eq=False)
class LemmaBound:
    """The lemma's Lipschitz constants beside the true ones, in spectral norms.

    Parameters
    ----------
    modulus : (...) ρ, contraction of the Riccati map in the Riemannian metric
    covariance_bound, gain_bound : (...) the lemma's constants of (Q, R) ↦ P and (Q, R) ↦ K
    repaired_bound : (...) a constant of P that does hold
    covariance : (...) the true constant of P
    gain : (...) what K does along its worst direction in Frobenius' sense: no more than the true
        constant
    is_violated : (...) whether P moves more than the lemma allows
    """

    modulus: Array
    covariance_bound: Array
    gain_bound: Array
    repaired_bound: Array
    covariance: Array
    gain: Array
    is_violated: Array


def lemma_bound(f: Array, h: Array, q: Array, r: Array) -> LemmaBound:
    """Build the lemma's bound as its proof does, and the truth beside it.

    The proof: a change of (Q, R) moves one step of the Riccati map Ψ by at most L times its size;
    later steps shrink what was moved by ρ each; so the steady state moves by at most L/(1 − ρ).
    The first is said in the spectral norm and the second is true in the Riemannian metric, and
    a geometric series may not be summed over both. Read here at the steady state, with the
    sharpest constants that each step allows, and ‖(dQ, dR)‖ = max(‖dQ‖, ‖dR‖):

    - L = ‖∂Ψ/∂(Q, R)‖ = ‖I + FKKᵀFᵀ‖ = 1 + ‖FK‖²;
    - ρ = ‖P^−½ A P^½‖², the contraction of E ↦ AEAᵀ in the norm ‖P^−½ E P^−½‖, A = F(I − KH); it
      is below 1, because APAᵀ = P − Q − FKRKᵀFᵀ;
    - ‖dP‖ ≤ L/(1 − ρ);
    - ‖dK‖ ≤ ‖H‖‖dP‖/r + ‖P‖‖H‖(‖H‖²‖dP‖ + 1)/r², r the smallest eigenvalue of R.

    The truth: dP = Σ A^k (dQ + FK dR KᵀFᵀ) A^kᵀ grows with dQ and dR, so that its largest norm is
    that of dQ = I, dR = I, the solution of dP = A dP Aᵀ + I + FKKᵀFᵀ.

    Parameters
    ----------
    f, h, q, r : (..., n, n), (..., m, n), (..., n, n), (..., m, m); Q, R positive definite

    Returns
    -------
    LemmaBound

    Notes
    -----
    With one state the two metrics agree and the bound is exact; with more it fails on about one
    random system in five. A modulus that is not sharp hides this: with Bougerol's a/(a + b), a the
    largest eigenvalue of P − Q and b the smallest of Q, no violation was seen. What can be proved:
    P ⪰ Σ A^k Q A^kᵀ ⪰ q Σ A^k A^kᵀ, q the smallest eigenvalue of Q, so that ‖dP‖ ≤ L‖P‖/q
    (`repaired_bound`). The bound on K divides by r² and is seldom near.

    Examples
    --------
    F = H = Q = 1, R = 2: K = 1/2, A = 1/2, ρ = 1/4, L = 5/4, and dP = 5/3 = (5/4)/(1 − 1/4).

    >>> one = np.ones((1, 1))
    >>> found = lemma_bound(one, one, one, 2 * one)
    >>> float(found.covariance.round(9)), float(found.covariance_bound.round(9))
    (1.666666667, 1.666666667)
    """
    p = riccati(f, h, q, r)
    k = gain(h, p, r)
    fk, n, m = f @ k, f.shape[-1], h.shape[-2]
    a = f - fk @ h
    has_steady: Array = np.logical_and.reduce(np.isfinite(p), axis=(-1, -2), keepdims=True)
    values, vectors = np.linalg.eigh(np.where(has_steady, p, np.eye(n)))
    # P^−½ A P^½ in the basis of P's eigenvectors has the same norm.
    root = np.sqrt(values)
    inside = vectors.swapaxes(-1, -2) @ np.where(has_steady, a, 0.0) @ vectors
    modulus = operator_norm(inside * root[..., None, :] / root[..., :, None]) ** 2
    one_step = 1.0 + operator_norm(np.where(has_steady, fk, 0.0)) ** 2
    bound = one_step / (1.0 - modulus)
    size, least = operator_norm(h), np.linalg.eigvalsh(r)[..., 0]
    gain_bound = size * bound / least + values[..., -1] * size * (size**2 * bound + 1) / least**2
    most = lyapunov(a, np.eye(n) + fk @ fk.swapaxes(-1, -2))
    true = operator_norm(np.where(has_steady, most, 0.0))
    along = _along_worst(f, h, q, r, n, m)
    repaired = one_step * values[..., -1] / np.linalg.eigvalsh(q)[..., 0]
    has = has_steady[..., 0, 0]
    found = (modulus, bound, gain_bound, repaired, true, along)
    modulus, bound, gain_bound, repaired, true, along = (np.where(has, x, np.nan) for x in found)
    is_violated = has & (true > bound * (1.0 + _MARGIN))
    return LemmaBound(modulus, bound, gain_bound, repaired, true, along, is_violated)


def _along_worst(f: Array, h: Array, q: Array, r: Array, n: int, m: int) -> Array:
    """Return ‖dK‖ / max(‖dQ‖, ‖dR‖) in spectral norms, along the Jacobian's worst direction."""
    of_k = jacobian(f, h, q, r)[1]
    of_k = np.where(np.isfinite(of_k), of_k, 0.0)
    worst = np.linalg.svd(of_k)[2][..., 0, :]
    of_q, of_r = directions(n), directions(m)
    dq = np.tensordot(worst[..., : of_q.shape[0]], of_q, axes=1)
    dr = np.tensordot(worst[..., of_q.shape[0] :], of_r, axes=1)
    dk = (of_k @ worst[..., None]).reshape(*worst.shape[:-1], n, m)
    return np.asarray(operator_norm(dk) / np.maximum(operator_norm(dq), operator_norm(dr)))
