"""Beta variates entry by entry: what one entry draws does not depend on any other.

NumPy's own sampler takes as many random numbers as its rejections need, so one row's parameters
would shift the next row's draw. Here every entry has two uniforms, for one candidate (Cheng 1978,
algorithm BA), and what it needs beyond them is a hash of its own place and try.
"""

from __future__ import annotations

import math

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput

_CHUNK = 12_500  # entries at a time: the arrays in work stay in a core's own cache
_N_WORK = 8
_LOG_4 = math.log(4.0)
_MOST_TRIES = 1_000  # a chance below 10⁻¹⁰⁰ where a quarter is kept, as it is for any counts

_WORD = 2**64
_GOLDEN = 0x9E3779B97F4A7C15
_PLACE, _MIX, _MIX_AGAIN, *_SHIFTS = np.array(
    [(_GOLDEN << 20) % _WORD, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 30, 27, 31, 11],
    dtype=np.uint64,
)


def workspace(k: int) -> Array:
    """Return arrays for `beta` to compute in; rows of up to k entries fit."""
    return np.empty((_N_WORK, max(_CHUNK, k)))


def beta(counts: Array, uniforms: Array, salt: int, work: Array, before: int = 0) -> Array:
    """Draw Beta(α, β), one an entry.

    Parameters
    ----------
    counts : (n, 2, K) of α, then β
    uniforms : (n, 2, K) independent, on [0, 1)
    salt : random 64 bits; with an entry's place among the n·K they give its later tries
    work : what `workspace` returned, written over
    before : how many entries come before these and are drawn elsewhere

    Returns
    -------
    (n, K) draws.

    Notes
    -----
    Exact up to rounding, which in the test of a candidate is about 10⁻¹⁶·(α + β).

    Examples
    --------
    For Beta(1, 1) the candidate is the first uniform itself, and it is always kept.

    >>> uniforms = np.array([[[0.25, 0.5, 0.875], [0.5, 0.5, 0.5]]])
    >>> beta(np.ones((1, 2, 3)), uniforms, 7, workspace(3)).round(12).tolist()
    [[0.25, 0.5, 0.875]]
    """
    n, _, k = counts.shape
    least, most = float(counts.min(initial=1.0)), float(counts.max(initial=1.0))
    if not 0.0 < least <= most < math.inf:
        raise InvalidInput(f"beta: expected finite counts above 0, got {least:g} to {most:g}")
    is_small = least < 1.0
    out = np.empty((n, k))
    x = out.reshape(-1)
    rejected = []
    rows = work.shape[1] // k
    for start in range(0, max(n, 1), rows):
        some = counts[start : start + rows]
        here = slice(start * k, (start + len(some)) * k)
        a, b, w, *arrays = work[:, : len(some) * k]
        a.reshape(-1, k)[:], b.reshape(-1, k)[:] = some[:, 0], some[:, 1]
        both = uniforms[start : start + rows]
        out[start : start + rows], w.reshape(-1, k)[:] = both[:, 0], both[:, 1]
        is_kept = _try(a, b, x[here], w, is_small, arrays)
        again = np.flatnonzero(~is_kept)
        rejected.append((again + here.start, a.take(again), b.take(again)))
    _try_again(x, rejected, salt, is_small, before)
    return out


def _try_again(
    x: Array, rejected: list[tuple[Array, Array, Array]], salt: int, is_small: bool, before: int
) -> None:
    """Write later tries into the places of x that were rejected."""
    place, a, b = (np.concatenate(parts) for parts in zip(*rejected, strict=True))
    tried, tries = 0, 1
    while place.size:
        if tried > _MOST_TRIES:
            raise InvalidInput("beta: the counts are out of range")
        n = place.size
        u, w = _hashed(salt, place + before, tried, tries)
        arrays = np.empty((_N_WORK - 3, n * tries))
        pair = (a, b) if tries == 1 else (np.tile(a, tries), np.tile(b, tries))
        is_kept = _try(*pair, u, w, is_small, [*arrays])
        if tries > 1:  # the first that is to be kept
            first = is_kept.reshape(tries, n).argmax(axis=0) * n + np.arange(n)
            u, is_kept = u.take(first), is_kept.take(first)
        x[place] = u
        again = np.flatnonzero(~is_kept)
        place, a, b = place.take(again), a.take(again), b.take(again)
        tried, tries = tried + tries, 4  # few are left: four tries cost little more than one


def _try(a: Array, b: Array, u: Array, w: Array, is_small: bool, arrays: list[Array]) -> Array:
    """Write one candidate an entry over u; return which are to be kept.

    The candidate's log-odds are log(a/b) + V with V = log(u/(1−u))/λ: logistic. With W = a·e^V
    it is x = W/(b + W), kept if log(4·u·(1−u)·w) ≤ (a+b)·log((a+b)/(b+W)) + a·V. Here
    λ = min(a, b) up to 1, and λ² = (2ab−a−b)/(a+b−2) = 1 + 2(a−1)(b−1)/(a+b−2) above. The mean
    number of candidates is 1 for Beta(1, 1), 1.13 for large a = b and below 4 for any shapes.
    """
    total, scale, v, p, q = arrays
    np.add(a, b, out=total)
    np.subtract(a, 1.0, out=p)
    np.subtract(b, 1.0, out=q)
    if is_small:  # entries with a and b from 1 up do not change by this, not even in a bit
        np.maximum(p, 0.0, out=p)
        np.maximum(q, 0.0, out=q)
    np.multiply(p, q, out=scale)
    scale *= 2.0
    p += q
    p += 1e-300  # 0/0 where a = b = 1
    scale /= p
    scale += 1.0
    np.sqrt(scale, out=scale)
    if is_small:
        scale *= np.minimum(np.minimum(a, b), 1.0)
    np.subtract(1.0, u, out=p)
    np.add(u, 2.0**-54, out=q)  # half a step: never 0
    np.divide(q, p, out=v)
    np.log(v, out=v)
    v /= scale
    p *= q
    np.subtract(1.0, w, out=q)
    p *= q
    np.log(p, out=p)  # log(u·(1−u)·w)
    if is_small:  # where e^V leaves the range of floats, x is 0 or 1 and the test linear in V
        beyond = v - np.clip(v, -700.0, 700.0)
        v -= beyond
        p += np.maximum(b * beyond, -a * beyond)
    x = np.exp(v, out=u)
    x *= a
    np.add(x, b, out=scale)
    np.divide(1.0, scale, out=scale)
    x *= scale
    scale *= total
    np.log(scale, out=scale)
    scale *= total
    v *= a
    scale += v
    scale -= p
    return np.greater_equal(scale, _LOG_4)


def _hashed(salt: int, place: Array, tried: int, tries: int) -> Array:
    """Return two uniforms a try, (2, tries·places): SplitMix64 of salt, place and try."""
    steps = [(salt + _GOLDEN * i) % _WORD for i in range(2 * tried, 2 * (tried + tries))]
    x = place.astype(np.uint64) * _PLACE + np.array(steps, dtype=np.uint64)[:, None]
    x ^= x >> _SHIFTS[0]
    x *= _MIX
    x ^= x >> _SHIFTS[1]
    x *= _MIX_AGAIN
    x ^= x >> _SHIFTS[2]
    x >>= _SHIFTS[3]
    uniform: Array = x * 2.0**-53
    return uniform.reshape(2, -1)
