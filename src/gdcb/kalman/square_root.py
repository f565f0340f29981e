"""Covariances as square roots, tracks along the last axis: sums of squares cannot turn negative.

A root of P is an array (c, n, N) of c columns for each of N tracks: P = Σ_c root[c] root[c]ᵀ.
Its width N may be 1, where all tracks share it. Loops run over the few states; NumPy runs over the
tracks, with additions and multiplications only, so that a track's bits do not depend on its
neighbours.

The measurement update keeps Joseph's two terms side by side, [(I − KH)L, −KR^½], and the prediction
makes them a triangle again. With R = 10⁻¹⁰ beside P = 10⁸ Joseph's form itself loses
positive-definiteness: what is left of P is below the rounding of what is subtracted.
"""

from __future__ import annotations

import math
import threading

import numpy as np

from gdcb.arrays import Array

_EPS = float(np.finfo(float).eps)
_FEW = 8192  # products; up to here they are made at once and added, the same sum in fewer calls
MOST = 2**22  # numbers; memory for more is given back
_TINY = 1e-300  # a length that is divided by where it is zero: zeros stay zeros


class Work(threading.local):
    """Memory that is used again from step to step: to be given new takes longer than to compute.

    Every thread has its own. Arrays of more than `most` numbers are not kept.
    """

    def __init__(self, most: float = math.inf) -> None:
        self._most = most
        self._parts: dict[str, Array] = {}

    def of(self, name: str, shape: tuple[int, ...]) -> Array:
        """Return an array of this name and shape, with whatever stands in it."""
        size = math.prod(shape)
        if size > self._most:
            return np.empty(shape)
        found = self._parts.get(name)
        if found is None or found.size < size:
            found = self._parts[name] = np.empty(size)
        return found[:size].reshape(shape)


_products = Work()


def _product(a: Array, b: Array, shape: tuple[int, ...]) -> Array:
    """Return a·b of that shape, to be used before the next product."""
    size = math.prod(shape)
    if not _FEW < size <= MOST:
        return np.asarray(np.multiply(a, b, order="C"))
    return np.multiply(a, b, out=_products.of("product", shape))


def _width(*parts: Array) -> int:
    """Return the number of tracks that arrays (..., N or 1) are of."""
    return max(int(part.shape[-1]) for part in parts)


def _into(out: Array | None, found: Array) -> Array:
    if out is None:
        return found
    out[...] = found
    return out


def total(parts: Array) -> Array:
    """Return the sum over the first axis, added in its order for any shape.

    NumPy adds a single column pairwise, in another order than several: a track alone would
    differ from a track in a batch.
    """
    if parts[0].size > 1:
        return np.asarray(np.add.reduce(parts, axis=0))
    out: Array = parts[0].copy()
    for part in parts[1:]:
        out += part
    return out


def applied(matrix: Array, root: Array, out: Array | None = None) -> Array:
    """Return M·root: (c, k, N) for a matrix (k, n, N) and a root (c, n, N); written to `out`."""
    n, shape = matrix.shape[1], (root.shape[0], matrix.shape[0], _width(matrix, root))
    if n * shape[0] * shape[1] * shape[2] <= _FEW:
        columns, rows = matrix.swapaxes(0, 1)[:, None], root.swapaxes(0, 1)[:, :, None]
        return _into(out, total(_product(columns, rows, (n, *shape))))
    out = np.multiply(matrix[None, :, 0], root[:, None, 0], out=out)
    for j in range(1, n):
        out += _product(matrix[None, :, j], root[:, None, j], shape)
    return out


def squared(root: Array, out: Array | None = None) -> Array:
    """Return P = Σ_c root[c] root[c]ᵀ: (n, n, N), symmetric to the last bit; written to `out`."""
    n, width = root.shape[1:]
    if root.size * n <= _FEW:
        shape = (root.shape[0], n, n, width)
        return _into(out, total(_product(root[:, :, None], root[:, None], shape)))
    out = np.multiply(root[0][:, None], root[0][None], out=out)
    for column in root[1:]:
        out += _product(column[:, None], column[None], (n, n, width))
    return out


def triangle(root: Array, out: Array | None = None) -> Array:
    """Return a root of the same covariance with n columns, the lower triangle: (n, n, N).

    Modified Gram–Schmidt over the n rows; its triangle is as stable as that of reflections
    (Björck 1967). A row that nothing is left of gives a column of zeros. `root` is used up; `out`,
    where given, is zero above the triangle.
    """
    n = root.shape[1]
    if out is None:
        out = np.zeros((n, n, root.shape[2]))
    for j in range(n):
        _take_off(root, j, out[j])
    return out


def _take_off(array: Array, j: int, share: Array) -> None:
    """Take row j's direction off the rows after it; `share` gets its length and what they had."""
    row = array[:, j, None]
    rest = array[:, j:]
    dots = total(_product(rest, row, rest.shape))
    share[j] = np.sqrt(dots[0])
    if j + 1 < array.shape[1]:
        inverse = 1.0 / np.maximum(share[j], _TINY)
        row *= inverse
        np.multiply(dots[1:], inverse, out=share[j + 1 :])
        after = array[:, j + 1 :]
        after -= _product(row, share[None, j + 1 :], after.shape)


def predicted(f: Array, root: Array, process: Array, work: Work, out: Array | None = None) -> Array:
    """Return the root of FPFᵀ + Q: (n, n, N); `process` is the root of Q."""
    c, n, width = root.shape[0], f.shape[0], _width(f, root, process)
    both = work.of("predicted", (c + n, n, width))
    if _width(f, root) == width:
        applied(f, root, both[:c])
    else:
        both[:c] = applied(f, root)
    both[c:] = process
    return triangle(both, out)


def measured(
    root: Array, h: Array, noise: Array, seen: Array | None, work: Work
) -> tuple[Array, Array, Array, Array]:
    """Update a root by a measurement with the best gain.

    Parameters
    ----------
    root, h, noise : (c, n, N) root of P, (m, n, N), (m, m, N) root of R
    seen : (m, N) 1.0 where a component was seen, else 0.0; None where all were
    work : memory, in which the updated root stands until the next call

    Returns
    -------
    root : (c + m, n, N) of P − KHP, [(I − KH)L, −KR^½]
    rows : (c, m, N) HL by columns, of all components
    cross : (m, n, N) columns of K·S^½
    half : (m, m, N) S^½ by columns, S = HPHᵀ + R among what was seen; 1 on the diagonal elsewhere
    """
    (c, n), m = root.shape[:2], h.shape[0]
    rows = applied(h, root)
    width = max(_width(rows, noise), 1 if seen is None else seen.shape[1])
    array = work.of("measured", (c + m, m + n, width))
    array[:c, :m], array[c:, :m] = rows, noise
    array[:c, m:], array[c:, m:] = root, 0.0
    if seen is not None:
        array[:, :m] *= seen
    both = np.zeros((m, m + n, width))
    for j in range(m):
        _take_off(array, j, both[j])
        if seen is not None:
            both[j, j] += 1.0 - seen[j]
    return array[:, m:], rows, both[:, m:], both[:, :m]


def fixed(root: Array, h: Array, noise: Array, k: Array) -> Array:
    """Return the root (n + m, n, N) of (I − KH)P(I − KH)ᵀ + KRKᵀ for any gain (n, m, N)."""
    kept = root - applied(k, applied(h, root))
    spread = applied(k, noise)
    width = _width(kept, spread)
    out = np.empty((kept.shape[0] + spread.shape[0], root.shape[1], width))
    out[: kept.shape[0]], out[kept.shape[0] :] = kept, -spread
    return out


def whitened(half: Array, innovation: Array) -> Array:
    """Solve S^½ w = ν: (m, N), for S^½ (m, m, N) by columns and ν (m, N)."""
    m = half.shape[0]
    out = np.empty((m, max(half.shape[2], innovation.shape[1])))
    for i in range(m):
        left = innovation[i]
        for j in range(i):
            left = left - half[j, i] * out[j]
        out[i] = left / half[i, i]
    return out


def unwhitened(cross: Array, half: Array) -> Array:
    """Return K = (K·S^½)·S^−½: (n, m, N)."""
    m = half.shape[0]
    k = np.empty((cross.shape[1], m, cross.shape[2]))
    for j in range(m - 1, -1, -1):
        left = cross[j]
        for i in range(j + 1, m):
            left = left - half[j, i] * k[:, i]
        k[:, j] = left / half[j, j]
    return k


def factor(matrix: Array) -> tuple[Array, Array, Array]:
    """Factor semi-definite matrices by Cholesky, leaving out columns that nothing is left of.

    Parameters
    ----------
    matrix : (n, n, N) symmetric

    Returns
    -------
    root : (n, n, N) by columns
    is_semidefinite : (N,) whether the root gives the matrix back, to 10⁻¹⁰ of √(m_ii m_jj)
    is_definite : (N,) whether also no column was left out
    """
    n = matrix.shape[0]
    rest, root = matrix.copy(), np.zeros_like(matrix)
    size = np.einsum("iik->ik", matrix).copy()
    is_definite = np.ones(matrix.shape[2], dtype=bool)
    for j in range(n):
        is_left = rest[j, j] > n * _EPS * size[j]
        is_definite &= is_left
        inverse = np.zeros(matrix.shape[2])
        np.divide(1.0, np.sqrt(rest[j, j], where=is_left, out=inverse), out=inverse, where=is_left)
        root[j, j:] = rest[j:, j] * inverse
        rest[j:, j:] -= root[j, j:, None] * root[j, None, j:]
    scale = np.sqrt(np.maximum(size, 0.0))
    is_near = np.abs(rest) <= 1e-10 * scale[:, None] * scale[None]
    is_semidefinite = is_near.all(axis=(0, 1)) & (size >= 0.0).all(axis=0)
    return root, is_semidefinite, is_definite & is_semidefinite
