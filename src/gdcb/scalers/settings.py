"""Checks of settings that scalers have in common: whole numbers, tuples of numbers, columns."""

from __future__ import annotations

from typing import Any

from gdcb.errors import InvalidInput
from gdcb.parts import Column, check_number, check_tuple


def check_whole(where: str, value: Any, low: int) -> None:
    """Refuse what is not a whole number of at least `low`.

    >>> check_whole("scaler.n_arms", 1.5, 1)
    Traceback (most recent call last):
        ...
    gdcb.errors.InvalidInput: scaler.n_arms: expected a whole number, got 1.5
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{where}: expected a whole number, got {value!r}")
    check_number(where, value, low)


def numbers_of(where: str, value: Any, above: float | None = None) -> tuple[float, ...]:
    """Return a tuple or list of finite numbers as a tuple; `above`: each is greater than it."""
    if not isinstance(value, tuple | list):
        raise InvalidInput(f"{where}: expected a tuple of numbers, got {value!r}")
    for one in value:
        if above is None:
            check_number(where, one)
        else:
            check_number(where, one, above, open_low=True)
    return tuple(value)


def columns_of(where: str, value: Any) -> tuple[Column, ...]:
    """Return a tuple or list of context columns, by name or position, as a tuple."""
    check_tuple(where, value)
    for one in value:
        if isinstance(one, bool) or not isinstance(one, str | int):
            raise InvalidInput(f"{where}: expected names of context columns, got {one!r}")
    if not value:
        raise InvalidInput(f"{where}: expected at least one context column")
    return tuple(value)
