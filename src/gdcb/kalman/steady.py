"""A filter with a fixed gain, once it is steady: its innovations, and whether they are white.

Its prediction error obeys ε' = Aε + w − FKv with A = F(I − KH), and its innovations are
ν = Hε + v; the gain need not be the optimal one.
"""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman.riccati import lyapunov

_FORGOTTEN = 1e-3  # share of the start's covariance that is left after the burn-in
_LONGEST = 100_000  # steps of a burn-in
LARGEST = 1e60  # innovation; products of four of them stay finite


def innovation_autocovariance(
    f: Array, h: Array, gain: Array, process: Array, noise: Array, n_lags: int
) -> Array:
    """Return what C₀ … of steady innovations are under Q and R.

    Parameters
    ----------
    f, h, gain : (n, n), (m, n), (n, m) of the filter, F(I − KH) stable
    process, noise : (..., n, n), (..., m, m) the true Q and R; symmetric is enough

    Returns
    -------
    C : (..., n_lags, m, m), C_j = E[ν_{t+j} ν_tᵀ]

    Examples
    --------
    F = H = 1, K = ½, so A = ½; Q = 1, R = 2: P = (1 + ½)/(1 − ¼) = 2, C₀ = 4, C₁ = 1 − 1 = 0.
    The gain is the optimal one, P/(P + R), and its innovations are white.

    >>> one = np.ones((1, 1))
    >>> innovation_autocovariance(one, one, 0.5 * one, one, 2 * one, 3).ravel().tolist()
    [4.0, 0.0, 0.0]
    """
    carried, a = f @ gain, f @ (np.eye(f.shape[0]) - gain @ h)
    p = lyapunov(a, process + carried @ noise @ carried.T)
    found = [h @ p @ h.T + noise]
    moved = a @ p @ h.T - carried @ noise
    for _ in range(n_lags - 1):
        found.append(h @ moved)
        moved = a @ moved
    return np.stack(found, axis=-3)


def settling(f: Array, h: Array, gain: Array, left: float = _FORGOTTEN) -> int:
    """Return after how many steps ‖Aᵗ‖² is at most `left`: what remains of the start's covariance.

    F = H = 1 and K = ½ halve an error at each step: of its square a 64th is left after three.

    >>> one = np.ones((1, 1))
    >>> settling(one, one, 0.5 * one, left=1 / 64)
    3
    """
    a = f @ (np.eye(f.shape[0]) - gain @ h)
    if left >= 1.0:
        return 0
    powers = [a]
    while _size(powers[-1]) > left:
        if 2 ** len(powers) > _LONGEST:
            raise InvalidInput(
                f"gain: expected F(I − KH) to forget its start within {_LONGEST:,} steps, got a "
                f"spectral radius of {radius(a):.9g}"
            )
        powers.append(powers[-1] @ powers[-1])
    steps, reached = 0, np.eye(a.shape[0])
    for exponent in reversed(range(len(powers) - 1)):  # the last t at which too much is left
        further = reached @ powers[exponent]
        if _size(further) > left:
            steps, reached = steps + 2**exponent, further
    return steps + 1


def _size(power: Array) -> float:
    return float(np.linalg.norm(power, 2)) ** 2


def radius(a: Array) -> float:
    """Return the largest modulus of an eigenvalue."""
    return float(np.abs(np.linalg.eigvals(a)).max())


def innovations_under(innovation: Array, f: Array, h: Array, gain: Array, other: Array) -> Array:
    """Return the innovations that another gain would have left, from those of this one.

    Both filters start at the same mean. With d the difference of their predictions,
    ν' = ν − Hd and d' = Fd + FK'ν' − FKν: no measurement is needed.

    Parameters
    ----------
    innovation : (T, N, m) ν, under `gain`
    f, h, gain, other : (n, n), (m, n), (n, m), (n, m) F, H, K and K'

    Returns
    -------
    ν' : (T, N, m)

    Examples
    --------
    F = H = 1. Measurements 2, 2 from a mean of 0: K = 0 leaves 2, 2; K' = 1 leaves 2, 0.

    >>> one = np.ones((1, 1))
    >>> innovations_under(np.full((2, 1, 1), 2.0), one, one, 0 * one, one).ravel().tolist()
    [2.0, 0.0]
    """
    found, apart = np.empty_like(innovation), np.zeros((innovation.shape[1], f.shape[0]))
    for t, now in enumerate(innovation):
        found[t] = now - np.einsum("ij,nj->ni", h, apart)
        moved = np.einsum("ij,nj->ni", other, found[t]) - np.einsum("ij,nj->ni", gain, now)
        apart = np.einsum("ij,nj->ni", f, apart + moved)
    return found


def whiteness(innovation: Array, n_lags: int) -> tuple[float, float]:
    """Test whether innovations are white: Hosking's portmanteau statistic, tracks pooled.

    Parameters
    ----------
    innovation : (T, N, m) of mean 0, past the burn-in
    n_lags : lags 1 … n_lags are looked at

    Returns
    -------
    p : p-value against χ² with m²·n_lags degrees of freedom
    largest : largest autocorrelation in absolute value, which says whether a small p matters

    Notes
    -----
    The degrees of freedom that a fit has used are not taken off. After an efficient fit alarms
    are then rarer than stated.

    Examples
    --------
    The record 1, −1, 1, −1, … has an autocorrelation of −1 at lag 1, and 1 at lag 2.

    >>> p, largest = whiteness(np.tile([1.0, -1.0], 50)[:, None, None], 2)
    >>> p < 1e-9, round(largest, 9)
    (True, 1.0)
    """
    from scipy.special import chdtrc

    steps, n_tracks, m = innovation.shape
    rows = innovation.reshape(-1, m)
    values, vectors = np.linalg.eigh(rows.T @ rows / rows.shape[0])
    rows = rows @ (vectors / np.sqrt(np.maximum(values, 1e-300)))
    statistic, largest = 0.0, 0.0
    for j in range(1, n_lags + 1):
        pairs = (steps - j) * n_tracks
        found = rows[j * n_tracks :].T @ rows[: -j * n_tracks] / pairs
        statistic += pairs * float((found**2).sum())
        largest = max(largest, float(np.abs(found).max()))
    return float(chdtrc(m * m * n_lags, statistic)), largest


def autocovariance_whitener(model: Array, counts: Array) -> Array:
    """Return W with WᵀW = Cov(Ĉ)⁻¹ as Gaussian noise of these autocovariances has it (Bartlett).

    n·Cov(Ĉ_j[a,b], Ĉ_k[c,d]) = Σ_u C(u+j−k)[a,c] C(u)[b,d] + C(u+j)[a,d] C(u−k)[b,c].

    Parameters
    ----------
    model : (L, m, m) autocovariances, for more lags than are weighed
    counts : (J,) pairs of which each Ĉ_j is a mean

    Returns
    -------
    W : (d, d) for entries in the order of `stacked`

    Examples
    --------
    White of variance 2, means of 8 pairs: Ĉ₀ has the variance 2·2²/8 = 1, Ĉ₁ 2²/8 = ½.

    >>> model = np.array([2.0, 0.0, 0.0, 0.0, 0.0])[:, None, None]
    >>> found = autocovariance_whitener(model, np.array([8.0, 8.0]))
    >>> (found.T @ found).round(9).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    lags, m = counts.size, model.shape[-1]
    size = np.abs(model).max(axis=(1, 2))
    far = min(int(np.flatnonzero(size > 1e-4 * size[0]).max()) + 1, model.shape[0] - 2 * lags)
    whole = np.concatenate((model[:0:-1].swapaxes(-1, -2), model))  # lags −L … L
    zero = model.shape[0] - 1
    u = zero + np.arange(-far - lags, far + lags + 1)
    u = u[(u - lags >= 0) & (u + lags < whole.shape[0])]
    covariance = np.empty((lags, m, m, lags, m, m))
    for j in range(lags):
        for k in range(lags):
            covariance[j, :, :, k] = (
                np.einsum("uac,ubd->abcd", whole[u + j - k], whole[u])
                + np.einsum("uad,ubc->abcd", whole[u + j], whole[u - k])
            ) / max(counts[j], counts[k])
    half = stacked(covariance)  # (J, m, m, d)
    full = stacked(np.moveaxis(half, -1, 0)).T
    units = np.sqrt(np.diagonal(full))
    values, vectors = np.linalg.eigh(0.5 * (full + full.T) / np.outer(units, units))
    kept = np.maximum(values, 1e-9 * values.max())
    return np.asarray((vectors / np.sqrt(kept)).T / units)


def require_fixed(name: str, value: Array, *, after: int = 0, tolerance: float = 0.0) -> Array:
    """Return the one matrix that a history had throughout; refuse where it varied.

    Parameters
    ----------
    name : what to call it in the message
    value : (i, j), (N, i, j) or (T, N, i, j)
    after : steps at the start of which no account is taken
    tolerance : by how much entries may differ, relative to the largest

    Examples
    --------
    >>> require_fixed("noise", np.full((3, 1, 1, 1), 2.0)).tolist()
    [[2.0]]
    >>> require_fixed("noise", np.array([2.0, 2.0, 3.0]).reshape(3, 1, 1, 1))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    gdcb.errors.InvalidInput: noise: expected one that is fixed throughout, as a history under ...
    """
    every = np.asarray(value, dtype=float)
    if every.ndim not in (2, 3, 4) or 0 in every.shape:
        raise InvalidInput(
            f"{name}: expected shape (i, j), (tracks, i, j) or (steps, tracks, i, j), got "
            f"{every.shape}"
        )
    kept = every[min(after, every.shape[0] - 1) :] if every.ndim == 4 else every
    last: Array = kept.reshape(-1, *kept.shape[-2:])[-1]
    off = np.abs(kept - last).max(axis=(-1, -2))
    if not (off <= tolerance * np.abs(last).max()).all():  # NaN is not fixed either
        at = np.unravel_index(int(np.argmax(np.where(np.isnan(off), np.inf, off))), off.shape)
        where = [f"step {at[0] + after}"] if off.ndim == 2 else []
        where += [f"track {at[-1]}"] if off.ndim else []
        raise InvalidInput(
            f"{name}: expected one that is fixed throughout, as a history under fixed covariances "
            f"has it; got one that is off by {off[at]:.3g} at {', '.join(where)}"
        )
    return last


def checked_system(f: Array, h: Array, gain: Array) -> tuple[Array, Array, Array]:
    """Refuse F, H or K that vary, do not fit each other, are not finite or leave A unstable."""
    f, h, gain = (np.asarray(part, dtype=float) for part in (f, h, gain))
    n = f.shape[-1] if f.ndim else 0
    if f.shape != (n, n) or n == 0:
        raise InvalidInput(f"f: expected one matrix (n, n), fixed over time; got shape {f.shape}")
    if h.ndim != 2 or h.shape[1] != n or h.shape[0] == 0:
        raise InvalidInput(f"h: expected one matrix (m, {n}), fixed over time; got {h.shape}")
    if gain.shape != (n, h.shape[0]):
        raise InvalidInput(
            f"gain: expected one matrix {(n, h.shape[0])}, fixed over time; got {gain.shape}"
        )
    for name, part in (("f", f), ("h", h), ("gain", gain)):
        if not np.isfinite(part).all():
            raise InvalidInput(f"{name}: expected finite numbers, got {part.tolist()}")
    largest = radius(f @ (np.eye(n) - gain @ h))
    if largest >= 1.0:
        raise InvalidInput(
            "gain: expected F(I − KH) to be stable, so that innovations become steady; got a "
            f"spectral radius of {largest:.6g}"
        )
    return f, h, gain


def checked_innovations(innovation: Array, m: int) -> Array:
    """Refuse innovations that are not (T, N, m) or not finite."""
    nu = np.asarray(innovation, dtype=float)
    if nu.ndim != 3 or nu.shape[2] != m or 0 in nu.shape:
        raise InvalidInput(f"innovation: expected shape (T, N, {m}), got {nu.shape}")
    if not np.isfinite(nu).all():
        at = np.argwhere(~np.isfinite(nu))[0]
        raise InvalidInput(
            "innovation: expected finite numbers, since a step without a measurement changes the "
            f"filter; got {nu[tuple(at)]} at step {at[0]} of track {at[1]}"
        )
    if np.abs(nu).max() > LARGEST:
        at = np.argwhere(np.abs(nu) > LARGEST)[0]
        raise InvalidInput(
            f"innovation: expected numbers within ±{LARGEST:g}, of finite squares, got "
            f"{nu[tuple(at)]} at step {at[0]} of track {at[1]}"
        )
    return nu


def stacked(c: Array) -> Array:
    """Return the entries of C₀ … (..., J, m, m) in a row: of C₀, which is symmetric, a triangle.

    >>> stacked(np.array([[[1.0, 2.0], [2.0, 3.0]], [[4.0, 5.0], [6.0, 7.0]]])).tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    """
    m = c.shape[-1]
    first = c[..., 0, :, :][..., *np.tril_indices(m)]
    return np.concatenate((first, c[..., 1:, :, :].reshape(*c.shape[:-3], -1)), axis=-1)
