"""E by its columns: which actions there are where some columns are categories."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gdcb.arrays import Array, is_any, namespace, on_host, one_of, put_where, zeros

# Position, number of levels and name of every action column that is a category.
Levels = tuple[tuple[int, int, str], ...]

_FEW = 256  # numbers; up to here it is remembered what was asked: arms' categories stay the same


def levels_of(columns: Sequence[Any]) -> Levels:
    """Return which action columns are categories, and how many levels they have."""
    return tuple((i, len(c.levels), c.name) for i, c in enumerate(columns) if c.levels)


def is_outside(e: Array, levels: Levels) -> Array:
    """Return which actions (..., D) have a category that is none of its levels: (...).

    Nothing (NaN) is no category and has no wrong one.

    >>> is_outside(np.array([[2.0], [3.0], [0.5], [-1.0], [np.nan]]), ((0, 3, "choice"),)).tolist()
    [False, True, True, True, False]
    """
    xp = namespace(e)
    found = zeros(e.shape[:-1], e, xp.bool)
    for at, n, _ in levels:
        kind = e[..., at]
        found = found | (kind < 0) | (kind >= n) | (kind > xp.floor(kind))
    return found


def surely_inside(e: Array, levels: Levels) -> bool:
    """Return whether all actions are known to be none of these; on a device nothing is known."""
    if not levels:
        return True
    if not on_host(e):
        return False
    e = one_of(e)
    if e.size > _FEW or e.dtype.char != "d":
        return not is_any(is_outside(e, levels))
    return all(_are_levels(e[..., at].tobytes(), n) for at, n, _ in levels)


def inside_or_nan(e: Array, levels: Levels) -> Array:
    """Return the same actions with nothing (NaN) in place of those that are none."""
    if surely_inside(e, levels):
        return e
    return put_where(e, is_outside(e, levels)[..., None], np.nan)


def told(action: Array, levels: Levels) -> str:
    """Say what is wrong with an action (D,) outside the levels.

    >>> told(np.array([0.5]), ((0, 3, "choice"),))
    "0.5 for the category 'choice', expected a whole number from 0 to 2"
    """
    for at, n, name in levels:
        if is_outside(action, ((at, n, name),)):
            expected = f"expected a whole number from 0 to {n - 1}"
            return f"{float(action[at]):g} for the category '{name}', {expected}"
    return "categories that are all known"


@lru_cache(maxsize=1024)
def _are_levels(kinds: bytes, n: int) -> bool:
    return not is_any(is_outside(np.frombuffer(kinds)[:, None], ((0, n, ""),)))
