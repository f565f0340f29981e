"""What differs between NumPy and torch, and quick tests of booleans.

One program runs on both: it uses what the array API standard has (`namespace`) and the functions
here. NumPy is recognised by type, so a batch of one pays no look-up.

Arrays that are not NumPy's count as a *device*'s, even on the same processor. A device computes
while the host runs ahead, and a question whose answer the host must wait for ('is any of these
true?') stops both. So the program never asks in a round: where NumPy looks for a shorter way, a
device takes the general one (`surely_all`, `maybe_any`, `chosen`), with the same result.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_SHORT = 256  # whole numbers; up to here they are sorted before their ends are found
_INT16 = 2**15
_SMALL = 4096  # booleans; up to here their bytes are searched faster than NumPy counts them
_MOST_COPIES = 1024  # constants kept on devices

_namespaces: dict[type, Any] = {}
_copies: dict[tuple[int, Any], tuple[Array, Array]] = {}


def namespace(array: Any) -> Any:
    """Return the module whose functions work on `array`: NumPy, or torch through its wrapper."""
    if isinstance(array, np.ndarray):
        return np
    found = _namespaces.get(type(array))
    if found is None:
        import array_api_compat

        found = _namespaces[type(array)] = array_api_compat.array_namespace(array)
    return found


def torch() -> Any:
    """Return torch, which is imported only where somebody asks for a device."""
    return importlib.import_module("torch")


def on_host(array: Any) -> bool:
    """Return whether an array is NumPy's: its numbers can be looked at without waiting."""
    return isinstance(array, np.ndarray)


# Questions


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


def surely_all(mask: Any) -> bool:
    """Return whether every boolean is known to be true; on a device nothing is known."""
    if type(mask) is not np.ndarray:
        return False
    return b"\0" not in mask.tobytes() if mask.size <= _SMALL else is_all(mask)


def maybe_any(mask: Any) -> bool:
    """Return whether some boolean may be true; on a device any may."""
    if type(mask) is not np.ndarray:
        return True
    return b"\1" in mask.tobytes() if mask.size <= _SMALL else is_any(mask)


def count(mask: Array) -> int:
    """Return how many booleans are true."""
    if mask.size <= _SMALL:
        return mask.tobytes().count(b"\1")
    return int(np.count_nonzero(mask))


def chosen(mask: Any) -> Any:
    """Return the index of the rows where `mask` (N,) is true; on a device that of all rows.

    There the caller lets the other rows weigh nothing.
    """
    return np.flatnonzero(mask) if isinstance(mask, np.ndarray) else slice(None)


def is_finite(array: Any) -> Array:
    """Return which numbers are finite; on a device with half of the memory that torch takes."""
    if isinstance(array, np.ndarray):
        return np.asarray(np.isfinite(array))
    return once(lambda some: abs(some) < math.inf, array)


_FEW_COLUMNS = 4  # up to here they are quicker one by one than reduced along a short axis


def all_finite(rows: Any) -> Array:
    """Return which rows (..., D) are finite in every column: (...)."""
    if rows.shape[-1] == 1:
        return is_finite(rows[..., 0])
    columns: Any = is_finite(rows)
    whole: Array
    if isinstance(columns, np.ndarray) and 1 < columns.shape[-1] <= _FEW_COLUMNS:
        whole = columns[..., 0] & columns[..., 1]
        for at in range(2, columns.shape[-1]):
            whole &= columns[..., at]
        return whole
    whole = columns.all(axis=-1)
    return whole


def finite_or_nan(array: Any) -> Array:
    """Return the same numbers with NaN in place of what is infinite; itself where nothing is."""
    if isinstance(array, np.ndarray):
        if surely_all(np.isfinite(one_of(array))):
            return array
        return np.where(np.isfinite(array), array, np.nan)
    return once(lambda some: some.nan_to_num(nan=math.nan, posinf=math.nan, neginf=math.nan), array)


# Numbers as arguments. A device would fetch them from the host where the standard wants arrays.


def at_least(array: Any, low: Any) -> Array:
    """Return max(array, low), `low` a number or an array; NaN stays."""
    if isinstance(array, np.ndarray):
        return np.asarray(np.maximum(array, low))
    out: Array = array.clamp(min=low)
    return out


def at_most(array: Any, high: Any) -> Array:
    """Return min(array, high), `high` a number or an array; NaN stays."""
    if isinstance(array, np.ndarray):
        return np.asarray(np.minimum(array, high))
    out: Array = array.clamp(max=high)
    return out


def put_where(array: Any, mask: Any, value: float) -> Array:
    """Return `array` with a number in the places where `mask`, which broadcasts, is true.

    >>> put_where(np.array([1.0, 2.0]), np.array([True, False]), 0.0).tolist()
    [0.0, 2.0]
    """
    if isinstance(array, np.ndarray):
        return np.where(mask, value, array)
    out: Array = array.masked_fill(mask, value)
    return out


def put_rows(array: Any, mask: Any, values: Any) -> Array:
    """Return `array` with `values` in the rows where `mask` (N,) is true, perhaps written in place.

    `values` has the rows of `chosen(mask)`.

    >>> put_rows(np.zeros(3), np.array([True, False, True]), np.array([1.0, 2.0])).tolist()
    [1.0, 0.0, 2.0]
    """
    if isinstance(array, np.ndarray):
        array[mask] = values
        return array
    wide = mask.reshape(mask.shape + (1,) * (array.ndim - 1))
    out: Array = namespace(array).where(wide, values, array)
    return out


def zeros(shape: tuple[int, ...], beside: Any, dtype: Any = None) -> Array:
    """Return zeros, floating-point unless `dtype` says otherwise, where `beside` is."""
    if isinstance(beside, np.ndarray):
        return np.zeros(shape, dtype)
    xp = namespace(beside)
    out: Array = xp.zeros(shape, dtype=dtype or xp.float64, device=beside.device)
    return out


def full(shape: tuple[int, ...], value: float, beside: Any) -> Array:
    """Return a floating-point number in every place, where `beside` is."""
    if isinstance(beside, np.ndarray):
        return np.full(shape, float(value))
    xp = namespace(beside)
    out: Array = xp.full(shape, value, dtype=xp.float64, device=beside.device)
    return out


def like(constant: Any, beside: Any) -> Array:
    """Return a constant array, or tuple of numbers, where `beside` is: copied once a device.

    The constant must not be written to, nor be made anew for every call.

    >>> like((1.0, 2.0), np.zeros(3)).tolist()
    [1.0, 2.0]
    """
    values: Array = constant if isinstance(constant, np.ndarray) else _from_tuple(constant)
    if isinstance(beside, np.ndarray):
        return values
    found = _copies.get((id(values), beside.device))
    if found is None:
        if len(_copies) >= _MOST_COPIES:
            _copies.clear()
        # The array is kept as well: its id must not pass to another.
        found = values, torch().tensor(values, device=beside.device)
        _copies[id(values), beside.device] = found
    return found[1]


@lru_cache(maxsize=256)
def _from_tuple(values: tuple[float, ...]) -> Array:
    return np.array(values, dtype=float)


def freeze(array: Any) -> None:
    """Let nobody write to a NumPy array; torch has no such thing."""
    if isinstance(array, np.ndarray):
        array.setflags(write=False)


# Rows


@lru_cache(maxsize=64)
def row_starts(n: int, k: int) -> Array:
    """Return where each of n rows of k starts in a flat array: (n,), not to be written."""
    return np.arange(0, n * k, k)


def in_parts(n: int, numbers: int, most: int = 2**20) -> list[slice]:
    """Part n rows so that those of a part, at so many numbers each, take little memory at once.

    >>> in_parts(5, 500_000)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, most // max(numbers, 1))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


@lru_cache(maxsize=4)
def in_order(n: int, device: Any) -> Array:
    """Return 0..n−1 on a device, always the same object: `rows_at` knows it without looking."""
    order: Array = torch().arange(n, device=device)
    return order


def rows_at(array: Any, index: Any) -> Array:
    """Return array[index] to be read: without a copy where the index is all rows, or one.

    >>> state = np.eye(3)
    >>> rows_at(state, np.arange(3)) is state, rows_at(state, np.array([1, 1])).strides[0]
    (True, 0)
    """
    n = index.shape[0]
    if not isinstance(array, np.ndarray):
        is_whole = n == array.shape[0] and index is in_order(n, array.device)
        found: Array = array if is_whole else array.index_select(0, index)
        return found
    if n == 1:
        at = int(index[0])
        return array[at : at + 1]
    if n == array.shape[0] and is_all(index == row_starts(n, 1)):
        return array
    if n > 1 and is_all(index == index[0]):
        return np.broadcast_to(array[int(index[0])], (n, *array.shape[1:]))
    return np.asarray(array.take(index, axis=0))


def copies(part: Array, owners: tuple[int, ...], beside: Any) -> Array:
    """Return (*owners, …) copies of an array, where `beside` is; to be written.

    NumPy's own `tile` takes many times as long, in which no other thread does anything.

    >>> copies(np.arange(2.0), (2, 1), np.zeros(1)).tolist()
    [[[0.0, 1.0]], [[0.0, 1.0]]]
    """
    if on_host(beside):
        return np.array(np.broadcast_to(part, (*owners, *part.shape)), order="C")
    xp = namespace(beside)
    found: Array = xp.tile(xp.asarray(part, device=beside.device), (*owners, *(1,) * part.ndim))
    return found


def repeated(row: Any, n: int) -> Array:
    """Return n rows that are all `row` (1, ...), to be read: one is kept."""
    if isinstance(row, np.ndarray):
        return row if n == 1 else np.broadcast_to(row, (n, *row.shape[1:]))
    rows: Array = row.expand(n, *row.shape[1:])
    return rows


def one_of(rows: Array) -> Array:
    """Return the first row of `repeated` ones, else all: what holds of it holds of them.

    >>> one_of(repeated(np.ones((1, 2)), 3)).shape, one_of(np.ones((3, 2))).shape
    ((1, 2), (3, 2))
    """
    is_one = rows.strides[0] == 0 and rows.shape[0] > 1
    return rows[:1] if is_one else rows


def once(change: Callable[[Any], Any], rows: Any) -> Array:
    """Return change(rows), which must treat rows alike: `repeated` ones are changed once.

    >>> once(lambda some: 2.0 * some, np.ones((3, 1))).tolist()
    [[2.0], [2.0], [2.0]]
    """
    is_one = not isinstance(rows, np.ndarray) and rows.shape[0] > 1 and rows.stride(0) == 0
    changed: Array = repeated(change(rows[:1]), rows.shape[0]) if is_one else change(rows)
    return changed


def take_at(array: Any, index: Any, axis: int = 0) -> Array:
    """Return a copy of the entries at a flat index along an axis."""
    is_numpy = isinstance(array, np.ndarray)
    out: Array = array.take(index, axis=axis) if is_numpy else array.index_select(axis, index)
    return out


def along(array: Any, index: Any, axis: int) -> Array:
    """Return what `np.take_along_axis` does, the other axes broadcast."""
    if isinstance(array, np.ndarray):
        return np.asarray(np.take_along_axis(array, index, axis=axis))
    out: Array = array.take_along_dim(index, dim=axis)
    return out


def search(ordered: Any, value: Any, side: str = "left") -> Array:
    """Return where values of any shape belong among ordered numbers (L,)."""
    if isinstance(value, np.ndarray):
        return np.asarray(ordered.searchsorted(value, side=side))
    out: Array = torch().searchsorted(ordered, value.contiguous(), side=side)
    return out


def place_among(edges: tuple[float, ...], value: Array) -> Array:
    """Return where values belong among a few rising edges, as `np.searchsorted` does.

    Of many values a comparison with each edge takes a tenth of the time of a search.

    >>> place_among((0.0, 1.0), np.array([-1.0, 0.0, 0.5, np.nan])).tolist()
    [0, 0, 1, 2]
    """
    if value.size <= 4096:
        return np.searchsorted(edges, value)
    place = (~(value <= edges[0])).astype(np.int8)
    for edge in edges[1:]:
        place += ~(value <= edge)
    return place.astype(np.int64)


def distinct(index: Any) -> Array:
    """Return the whole numbers of an index, each once; on a device they are, one row a unit."""
    if not isinstance(index, np.ndarray):
        found: Array = index
        return found
    n = index.shape[0]
    if n > _SMALL and int(index.max()) < 8 * n and int(index.min()) >= 0:  # counted, not sorted
        return np.flatnonzero(np.bincount(index))
    return np.unique(index)


def stable_order(index: Array) -> Array:
    """Return the order in which whole numbers do not fall, equal ones in their order.

    Small ones are sorted by their digits: in time linear in their number.

    >>> stable_order(np.array([1, 0, 1, 0])).tolist()
    [1, 3, 0, 2]
    """
    if index.size > _SHORT and index.min() >= -_INT16 and index.max() < _INT16:
        index = index.astype(np.int16)
    return np.argsort(index, kind="stable")


def rises(index: Any) -> bool:
    """Return whether an index is known to rise, so that no entry comes twice.

    >>> rises(np.array([0, 2, 5])), rises(np.array([0, 2, 2]))
    (True, False)
    """
    return isinstance(index, np.ndarray) and is_all(index[1:] > index[:-1])


def scatter_add(target: Any, index: Any, values: Any, shared: bool = False) -> None:
    """Add `values[i]` to `target[index[i]]` in place; repeated indices accumulate.

    Parameters
    ----------
    target : (U, ...) array, changed in place
    index : (N,) integers in 0..U-1, repeats allowed
    values : (N, ...) array, one entry per index
    shared : whether indices may repeat on a device too, as those of groups do: it then adds in a
        fixed order. Those of units do not, there is one row a unit.

    Examples
    --------
    >>> total = np.zeros(3)
    >>> scatter_add(total, np.array([0, 2, 2]), np.array([1.0, 2.0, 3.0]))
    >>> total.tolist()
    [1.0, 0.0, 5.0]
    """
    if not isinstance(target, np.ndarray):
        if shared:
            target.index_put_((index,), values, accumulate=True)
        else:
            target.index_add_(0, index, values)
        return
    n = index.shape[0]
    if n == 0:
        return
    if n == target.shape[0] and n > 1 and is_all(index == np.arange(n)):
        target += values  # one row a unit, in order: a simulation
    elif target.ndim == 1:
        np.add.at(target, index, values)
    elif n == 1 or (index[0] >= 0 and rises(index)) or int(np.bincount(index).max()) == 1:
        target[index] += values
    else:
        if not is_all(index[1:] >= index[:-1]):
            order = stable_order(index)
            index, values = index[order], values[order]
        starts = np.flatnonzero(np.concatenate(([True], index[1:] != index[:-1])))
        target[index[starts]] += np.add.reduceat(values, starts, axis=0)


def logistic(z: Array) -> Array:
    """σ(z) = 1 / (1 + exp(−z)) without overflow.

    >>> logistic(np.array([-1000.0, 0.0, 1000.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    xp = namespace(z)
    out: Array = 0.5 * (1.0 + xp.tanh(0.5 * z))
    return out
