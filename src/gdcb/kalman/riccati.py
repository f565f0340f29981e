"""Steady states: the Riccati and the Lyapunov equation, batched, by doubling."""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array


def riccati(f: Array, h: Array, q: Array, r: Array) -> Array:
    """Solve P = F(P − PHᵀ(HPHᵀ+R)⁻¹HP)Fᵀ + Q by structure-preserving doubling, batched.

    Parameters
    ----------
    f, h, q, r : (..., n, n), (..., m, n), (..., n, n), (..., m, m); Q, R positive definite

    Returns
    -------
    P : (..., n, n) steady-state prediction covariance; NaN where (F, H) is not detectable

    Notes
    -----
    Chu, Fan, Lin and Wang (2004), and one step of Newton's method, P = APAᵀ + Q + FKRKᵀFᵀ with
    A = F(I − KH), which squares what error is left and needs A to be stable. Each system stops by
    itself, so that its result does not depend on the systems beside it. With Q > 0 the pair is
    stabilisable.

    Examples
    --------
    F = H = Q = 1 and R = 2: P = 2, because P²/(P + 2) = 1.

    >>> one = np.ones((1, 1))
    >>> riccati(one, one, one, 2.0 * one).round(12).tolist()
    [[2.0]]
    """
    shape = np.broadcast_shapes(f.shape[:-2], h.shape[:-2], q.shape[:-2], r.shape[:-2])
    f, h, q, r = (
        np.broadcast_to(part, (*shape, *part.shape[-2:])).reshape(-1, *part.shape[-2:])
        for part in (f, h, q, r)
    )
    try:
        p = _doubled(f, h, q, r)
    except np.linalg.LinAlgError:  # one singular system must not spoil the others
        p = np.concatenate([_one(f[i], h[i], q[i], r[i]) for i in range(f.shape[0])])
    with np.errstate(all="ignore"):
        bound = 1e14 * np.abs(q).max(axis=(-1, -2))
        out = np.full_like(p, np.nan)
        active = np.flatnonzero(np.abs(p).max(axis=(-1, -2)) <= bound)
        for _ in range(4):  # one step for nearly all; more where doubling lost half of the digits
            if active.size == 0:
                break
            old = p[active]
            new = _newton(f[active], h[active], q[active], r[active], old)
            size, gap = np.abs(new).max(axis=(-1, -2)), np.abs(new - old).max(axis=(-1, -2))
            is_done = (gap <= 1e-6 * size) & (size <= bound[active])
            out[active[is_done]], p[active] = new[is_done], new
            active = active[~is_done & np.isfinite(size)]
    return out.reshape(*shape, *p.shape[-2:])


def _newton(f: Array, h: Array, q: Array, r: Array, p: Array) -> Array:
    """Return the covariance of the gain that belongs to P: NaN where that gain is not stable."""
    fk = f @ gain(h, p, r)
    return lyapunov(f - fk @ h, q + fk @ r @ fk.swapaxes(-1, -2))


def _one(f: Array, h: Array, q: Array, r: Array) -> Array:
    try:
        return _doubled(f[None], h[None], q[None], r[None])
    except np.linalg.LinAlgError:
        return np.full((1, *f.shape), np.nan)


def _doubled(f: Array, h: Array, q: Array, r: Array) -> Array:
    """Double until nothing moves: (S, n, n) for S systems."""
    n = f.shape[-1]
    eye = np.eye(n)
    a, p = f.swapaxes(-1, -2).copy(), q.copy()
    g = h.swapaxes(-1, -2) @ np.linalg.solve(r, h)
    active = np.arange(p.shape[0])
    with np.errstate(all="ignore"):
        for _ in range(60):
            ak, gk, pk = a[active], g[active], p[active]
            w = np.linalg.solve(eye + gk @ pk, np.concatenate((ak, gk), axis=-1))
            wa, wg = w[..., :n], w[..., n:]
            at = ak.swapaxes(-1, -2)
            change = at @ pk @ wa
            p[active] = pk + (change + change.swapaxes(-1, -2)) / 2
            spread = ak @ wg @ at
            g[active] = gk + (spread + spread.swapaxes(-1, -2)) / 2
            a[active] = left = ak @ wa
            # The next change, AᵀP(I + GP)⁻¹A, is at most (n·max|A|)²·max|P|; Newton squares it.
            most = n * np.abs(left).max(axis=(-1, -2))
            size = np.abs(p[active]).max(axis=(-1, -2))
            active = active[(most > 1e-6) & (most < 1e100) & (size < 1e100)]
            if active.size == 0:
                break
    return p


def gain(h: Array, p: Array, r: Array) -> Array:
    """Return K = PHᵀ(HPHᵀ + R)⁻¹: (..., n, m).

    >>> one = np.ones((1, 1))
    >>> gain(one, 2.0 * one, 2.0 * one).tolist()
    [[0.5]]
    """
    hp = h @ p
    s = hp @ h.swapaxes(-1, -2) + r
    k: Array = np.linalg.solve(s, hp).swapaxes(-1, -2)
    return k


def lyapunov(a: Array, q: Array) -> Array:
    """Solve P = APAᵀ + Q by doubling, batched.

    Parameters
    ----------
    a, q : (..., n, n); Q symmetric, of any sign

    Returns
    -------
    P : (..., n, n), Σ_k A^k Q A^kᵀ; NaN where A is not stable (an eigenvalue on or outside the
        unit circle), where that sum has no end

    Examples
    --------
    A = 1/2 and Q = 3: P = P/4 + 3, so that P = 4.

    >>> lyapunov(np.full((1, 1), 0.5), np.full((1, 1), 3.0)).tolist()
    [[4.0]]
    """
    shape = np.broadcast_shapes(a.shape[:-2], q.shape[:-2])
    n = q.shape[-1]
    power = np.broadcast_to(a, (*shape, n, n)).reshape(-1, n, n).copy()
    p = np.broadcast_to(q, (*shape, n, n)).reshape(-1, n, n).copy()
    active = np.arange(p.shape[0])
    is_done = np.zeros(p.shape[0], dtype=bool)
    with np.errstate(all="ignore"):
        for _ in range(60):  # A^(2^60) has vanished for any radius that is below 1 in a double
            x, pk = power[active], p[active]
            change = x @ pk @ x.swapaxes(-1, -2)
            p[active] = pk + (change + change.swapaxes(-1, -2)) / 2
            power[active] = x = x @ x
            most = n * np.abs(x).max(axis=(-1, -2))  # the next change is at most most²·max|P|
            is_done[active[most <= 1e-9]] = True
            active = active[(most > 1e-9) & (most < 1e100)]
            if active.size == 0:
                break
    p[~is_done] = np.nan
    return p.reshape(*shape, n, n)
