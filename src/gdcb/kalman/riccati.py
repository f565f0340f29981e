"""Steady states: the Riccati and the Lyapunov equation, batched, by doubling."""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array

_SMALL_STEP = 1e-10  # of the largest entry: the next of Newton's steps is its square
_LARGE_STEP = 1e-6  # beyond, a solution is none


def riccati(f: Array, h: Array, q: Array, r: Array) -> Array:
    """Solve P = F(P − PHᵀ(HPHᵀ+R)⁻¹HP)Fᵀ + Q by structure-preserving doubling, batched.

    Parameters
    ----------
    f, h, q, r : (..., n, n), (..., m, n), (..., n, n), (..., m, m); Q, R positive definite

    Returns
    -------
    P : (..., n, n) steady-state prediction covariance; NaN where (F, H) is not detectable, where
        R is singular or a number is NaN, and where there is no stabilising solution

    Notes
    -----
    Arguments are not checked, symmetry included: `Model` does that, and `check_conditions` says
    which condition fails.

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
        out = _refined(f, h, q, r, p)
    return out.reshape(*shape, *p.shape[-2:])


def _refined(f: Array, h: Array, q: Array, r: Array, p: Array) -> Array:
    """Take Newton's steps until they are small; NaN where they lead nowhere.

    Where steps are small but no longer shrink, they are rounding: such a system is so badly
    conditioned that the doubled solution is the better one.
    """
    bound = 1e14 * np.abs(q).max(axis=(-1, -2))
    out, old = np.full_like(p, np.nan), p.copy()
    last = np.full(p.shape[0], np.inf)
    active = np.flatnonzero(np.abs(p).max(axis=(-1, -2)) <= bound)
    for step in range(6):  # one for nearly all; more where doubling lost half of the digits
        if active.size == 0:
            break
        new = _newton(f[active], h[active], q[active], r[active], old[active])
        size = np.abs(new).max(axis=(-1, -2))
        gap = np.abs(new - old[active]).max(axis=(-1, -2)) / size
        is_sound = np.isfinite(gap) & (size <= bound[active])
        is_done = is_sound & (gap <= _SMALL_STEP)
        is_stuck = is_sound & ~is_done & (gap > last[active] / 4) & (last[active] <= _LARGE_STEP)
        out[active[is_done]] = new[is_done]
        out[active[is_stuck]] = p[active[is_stuck]] if step == 1 else new[is_stuck]
        old[active], last[active] = new, gap
        active = active[is_sound & ~is_done & ~is_stuck]
    is_near = last[active] <= _LARGE_STEP
    out[active[is_near]] = old[active[is_near]]
    return out


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
    if s.shape[-1] == 1:  # nothing to solve
        return np.asarray(hp.swapaxes(-1, -2) / s)
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
