"""Priors as settings: one number for all, or one for every arm, level or weight."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gdcb.arrays import Array, copies
from gdcb.errors import InvalidInput
from gdcb.parts import check_number, numbers

Numbers = float | tuple[float, ...]
Table = tuple[float, ...] | tuple[tuple[float, ...], ...]

# What a file may give, in words: a union of types is told poorly.
LIST = {"expected": "a list of numbers"}
NUMBERS = {"expected": "a number or a list of numbers"}
TABLE = {"expected": "a list of numbers, or a list of such lists, one an arm"}
NUMBER_OR_TABLE = {"expected": f"a number, {TABLE['expected']}"}


def check_numbers(where: str, value: Any, low: float = -math.inf, open_low: bool = False) -> None:
    """Refuse what is neither a number of at least `low` nor a tuple of such numbers."""
    if isinstance(value, tuple | list) and value:
        check_list(where, value, low, open_low)
    else:
        check_number(where, value, low, open_low=open_low)


def check_list(where: str, value: Any, low: float = -math.inf, open_low: bool = False) -> None:
    """Refuse what is not a tuple of numbers of at least `low`; it may be empty."""
    if not isinstance(value, tuple):
        raise InvalidInput(f"{where}: expected a tuple of numbers, got {value!r}")
    for i, number in enumerate(value):
        check_number(f"{where}[{i}]", number, low, open_low=open_low)


def check_table(where: str, value: Any, low: float = -math.inf, open_low: bool = False) -> None:
    """Refuse what is neither a tuple of numbers nor a tuple of such tuples, one an arm."""
    if isinstance(value, tuple) and any(isinstance(row, tuple | list) for row in value):
        for i, row in enumerate(value):
            check_list(f"{where}[{i}]", row, low, open_low)
    else:
        check_list(where, value, low, open_low)


def spread(where: str, value: Numbers, n: int, of: str) -> Array:
    """Return a setting as n numbers, one `of` each: (n,).

    Examples
    --------
    >>> spread("bandit.wins", 2.0, 3, "an arm").tolist()
    [2.0, 2.0, 2.0]
    >>> spread("bandit.wins", (2.0, 1.0), 3, "an arm")
    Traceback (most recent call last):
    gdcb.errors.InvalidInput: bandit.wins: expected 3 numbers, one an arm; got 2
    """
    if isinstance(value, tuple) and len(value) != n:
        raise InvalidInput(f"{where}: expected {numbers(n)}, one {of}; got {len(value)}")
    return np.full(n, value, dtype=float)


def spread_table(where: str, value: float | Table, n_arms: int, d: int) -> Array:
    """Return a setting of the arms' weights, one number, d or K times d, as (K, d); () is 0.

    Examples
    --------
    >>> spread_table("bandit.prior_mean", (1.0, 2.0), 3, 2).tolist()
    [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
    >>> spread_table("bandit.prior_mean", ((1.0, 2.0), (3.0, 4.0)), 2, 2).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    if not isinstance(value, tuple) or not value:
        return np.full((n_arms, d), value or 0.0, dtype=float)
    lengths = [len(row) for row in value if isinstance(row, tuple)]
    if lengths != [d] * n_arms and (lengths or len(value) != d):
        came = f"tuples of {', '.join(map(str, lengths))}" if lengths else f"{len(value)} numbers"
        raise InvalidInput(
            f"{where}: expected {numbers(d)}, the intercept's first, or {n_arms} tuples of so "
            f"many, one an arm; got {came}"
        )
    return np.full((n_arms, d), value, dtype=float)


def average(value: Numbers | Array) -> float:
    """Return the mean of a setting's numbers; to the last bit the number where all are alike."""
    numbers = np.atleast_1d(np.asarray(value, dtype=float))
    return float(numbers[0] + (numbers - numbers[0]).mean())


def pooled_rate(wins: Numbers, losses: Numbers) -> float:
    """Return α / (α + β) of all pseudo-outcomes together, the mean number of each.

    It is what an action is worth that is comparable to no arm.

    >>> pooled_rate((1.0, 3.0), 2.0)
    0.5
    """
    won, lost = average(wins), average(losses)
    return won / (won + lost)


def pseudo_counts(wins: Numbers, losses: Numbers, n: int, of: str) -> Array:
    """Return α, then β, of n arms or levels beforehand: (2, n)."""
    sides = (("bandit.wins", wins), ("bandit.losses", losses))
    return np.stack([spread(where, value, n, of) for where, value in sides])


def in_every(prior: Array, n: int, beside: Array) -> Array:
    """Return a prior (...) in each of n cells or groups, where `beside` is: (n, ...)."""
    return copies(prior, (n,), beside)
