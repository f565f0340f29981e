"""The few array operations that differ between NumPy and torch, and quick tests of booleans.

These know both libraries; the round itself runs on NumPy. NumPy is recognised by type, so a
batch of one pays no look-up.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def namespace(array: Any) -> Any:
    """Return the module whose functions work on `array`: NumPy, or torch through its wrapper."""
    if isinstance(array, np.ndarray):
        return np
    import array_api_compat

    return array_api_compat.array_namespace(array)


_SMALL = 4096  # booleans; up to here their bytes are searched faster than NumPy counts them


def is_all(mask: Any) -> bool:
    """Return whether every boolean is true; a third of the time of `all` on small arrays."""
    if type(mask) is not np.ndarray:
        return bool(mask.all())
    if mask.size <= _SMALL:
        return b"\0" not in mask.tobytes()
    return int(np.count_nonzero(mask)) == mask.size


def is_any(mask: Any) -> bool:
    """Return whether any boolean is true."""
    if type(mask) is not np.ndarray:
        return bool(mask.any())
    if mask.size <= _SMALL:
        return b"\1" in mask.tobytes()
    return int(np.count_nonzero(mask)) > 0


def count(mask: Array) -> int:
    """Return how many booleans are true."""
    if mask.size <= _SMALL:
        return mask.tobytes().count(b"\1")
    return int(np.count_nonzero(mask))


@lru_cache(maxsize=64)
def row_starts(n: int, k: int) -> Array:
    """Return where each of n rows of k starts in a flat array: (n,), not to be written."""
    return np.arange(0, n * k, k)


def rows_at(array: Array, index: Array) -> Array:
    """Return array[index] to be read: without a copy where the index is all rows, or one.

    >>> state = np.eye(3)
    >>> rows_at(state, np.arange(3)) is state, rows_at(state, np.array([1, 1])).strides[0]
    (True, 0)
    """
    n = index.shape[0]
    if n == 1:
        at = int(index[0])
        return array[at : at + 1]
    if n == array.shape[0] and is_all(index == row_starts(n, 1)):
        return array
    if n > 1 and is_all(index == index[0]):
        return np.broadcast_to(array[int(index[0])], (n, *array.shape[1:]))
    return array.take(index, axis=0)


def scatter_add(target: Any, index: Any, values: Any) -> None:
    """Add `values[i]` to `target[index[i]]` in place; repeated indices accumulate.

    Parameters
    ----------
    target : (U, ...) array, changed in place
    index : (N,) integers in 0..U-1, repeats allowed
    values : (N, ...) array, one entry per index

    Examples
    --------
    >>> total = np.zeros(3)
    >>> scatter_add(total, np.array([0, 2, 2]), np.array([1.0, 2.0, 3.0]))
    >>> total.tolist()
    [1.0, 0.0, 5.0]
    """
    if not isinstance(target, np.ndarray):
        target.index_add_(0, index, values)
        return
    n = index.shape[0]
    if n == 0:
        return
    if n == target.shape[0] and n > 1 and is_all(index == np.arange(n)):
        target += values  # one row a unit, in order: a simulation
    elif target.ndim == 1:
        np.add.at(target, index, values)
    elif n == 1 or int(np.bincount(index).max()) == 1:
        target[index] += values
    else:
        order = np.argsort(index, kind="stable")
        ordered = index[order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        target[ordered[starts]] += np.add.reduceat(values[order], starts, axis=0)


def logistic(z: Array) -> Array:
    """σ(z) = 1 / (1 + exp(−z)) without overflow.

    >>> logistic(np.array([-1000.0, 0.0, 1000.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    xp = namespace(z)
    out: Array = 0.5 * (1.0 + xp.tanh(0.5 * z))
    return out
