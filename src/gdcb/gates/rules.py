"""What declared rules share: where they are in force, a stand-in action, and yes or no answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gdcb.arrays import Array, all_finite, along, is_finite, namespace, put_where
from gdcb.errors import InvalidInput
from gdcb.parts import Column, check_tuple, take, take_all
from gdcb.records import Rows

# A question to a rule: (e (N, M, D), rows) → (N, M) booleans.
Question = Callable[[Array, Rows], Array]
# An action in place of another: one number a column, or rows → (N, D).
StandIn = tuple[float, ...] | Callable[[Rows], Array]


def ask(question: Question, e: Array, rows: Rows, where: str) -> Array:
    """Ask a yes-or-no question of actions (N, M, D): (N, M); any other answer is refused."""
    answer: Any = question(e, rows)
    if not isinstance(answer, np.ndarray) or answer.dtype != np.bool_:
        kind = answer.dtype if isinstance(answer, np.ndarray) else type(answer).__name__
        raise InvalidInput(f"{where}: expected an array of booleans, got {kind}")
    if answer.shape != e.shape[:2]:
        raise InvalidInput(f"{where}: expected shape {e.shape[:2]}, got {answer.shape}")
    return answer


def is_in_force(rows: Rows, when: Column | None, at_least: float, at_most: float) -> Array:
    """Return where at_least ≤ x[when] ≤ at_most, or everywhere without `when`: (N, 1).

    Context that is not a number cannot switch a rule off.
    """
    if when is None:
        return np.ones((rows.n, 1), dtype=bool)
    value = take(rows.x, when)[:, None]
    return np.asarray(~((value < at_least) | (value > at_most)))


def check_force(gate: str, when: Column | None, at_least: float, at_most: float) -> None:
    """Refuse a condition without its column, and one that no number meets."""
    if when is None and (at_least != -np.inf or at_most != np.inf):
        raise InvalidInput(f"gate '{gate}': at_least and at_most need 'when', a context column")
    if not at_least <= at_most:
        raise InvalidInput(f"gate '{gate}': at_least {at_least} is above at_most {at_most}")


def check_limits(gate: str, low: float, high: float) -> None:
    """Refuse limits that are not numbers, or that leave nothing."""
    for name, limit in (("low", low), ("high", high)):
        if math.isnan(limit):
            raise InvalidInput(f"gate '{gate}': {name}: expected a number, got NaN")
    if not low <= high:
        raise InvalidInput(f"gate '{gate}': low {low} is above high {high}")


def check_categories(where: str, given: Sequence[int], column: Any) -> None:
    """Refuse categories that the action column does not have: a rule about them is no rule."""
    if not isinstance(given, tuple | list):
        raise InvalidInput(f"{where}: expected a tuple of whole numbers, got {given!r}")
    if given and not column.levels:
        raise InvalidInput(f"{where}: '{column.name}' is a number, it has no categories")
    for category in given:
        if isinstance(category, bool) or category not in range(len(column.levels)):
            known = ", ".join(f"{i} ({level})" for i, level in enumerate(column.levels))
            raise InvalidInput(
                f"{where}: '{column.name}' has no category {category!r}; it has {known}"
            )


def check_stand_in(where: str, given: StandIn, columns: tuple[Column, ...]) -> None:
    """Refuse a stand-in that is given twice, or is no number."""
    check_tuple(f"{where}_columns", columns)
    if given != () and columns:
        raise InvalidInput(f"{where}: give it once, as numbers, as a function or as columns")
    if not callable(given):
        check_tuple(where, given)
        if not np.isfinite(np.asarray(given, dtype=float)).all():
            raise InvalidInput(f"{where}: expected finite numbers, got {given}")


def check_fit(
    where: str, given: StandIn, columns: tuple[Column, ...], action: int, space: Sequence[Any]
) -> None:
    """Refuse a stand-in that is no action of these columns: one number, or one a column."""
    n = 0 if callable(given) else len(given or columns)
    if n not in (0, 1, len(space)):
        wanted = "1 number" if len(space) == 1 else f"1 or {len(space)} numbers"
        raise InvalidInput(f"{where}: expected {wanted}, got {n}")
    if callable(given) or columns:
        return
    for part, value in zip([space[action]] if n == 1 else space, given, strict=False):
        if part.levels and value not in range(len(part.levels)):
            raise InvalidInput(
                f"{where}: '{part.name}' is a category; expected 0 to {len(part.levels) - 1}, "
                f"got {value:g}"
            )


def stand_in(
    e: Array, rows: Rows, given: StandIn, columns: tuple[Column, ...], action: int, where: str
) -> Array:
    """Return what stands in for actions e (N, M, D): (N, M, D).

    One number a row replaces the column `action` and leaves the others; D numbers replace all.
    """
    n, m, d = e.shape
    if callable(given):
        values = np.asarray(given(rows), dtype=float)
    elif columns:
        values = take_all(rows.x, columns)
    else:
        values = np.tile(np.asarray(given, dtype=float), (n, 1))
    if values.shape not in ((n, 1), (n, d)):
        raise InvalidInput(f"{where}: expected shape {(n, d)} or {(n, 1)}, got {values.shape}")
    if values.shape[1] == d:
        return np.repeat(values[:, None], m, axis=1)
    out = e.copy()
    out[..., action] = values
    return out


def filled(e: Array) -> tuple[Array, Array]:
    """Return actions (N, M, D) with something that may run in place of what may not, and a mask.

    Gates are not asked about 'nothing'; its place is taken by the row's first action that runs,
    or by zeros, and the answer there is not used. The mask (N, M) says which entries run.
    """
    xp = namespace(e)
    runs = all_finite(e)
    first = xp.argmax(xp.astype(runs, xp.int8), axis=1)
    some = along(e, first[:, None, None], axis=1)
    return xp.where(runs[..., None], e, put_where(some, ~is_finite(some), 0.0)), runs
