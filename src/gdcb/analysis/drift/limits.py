"""Limits of a mean from a frozen reference: by bets too, so nothing is assumed but the range."""

from __future__ import annotations

import math

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import check_number

_GRID = 2**14  # numbers are rounded to this many steps, towards the wider limit
_DEVIATIONS = (0.5, 0.25, 0.125, 0.0625)  # standard deviations that the stakes are made for
_LARGEST = 0.9  # stake


def mean_limits(value: Array, chance: float) -> tuple[float, float]:
    """Return limits of the mean of n independent numbers in [0, 1]: each misses with `chance`.

    If the mean is μ, the product of 1 + λ(μ − y) over the rows has mean 1, and so has its mean M(μ)
    over several λ > 0. M rises with μ, so the upper limit is where it reaches 1/chance: by Markov,
    P(μ above the limit) = P(M(μ) > 1/chance) ≤ chance. The λ are √(2·log(1/chance)/n)/σ, the
    best for a standard deviation σ, for four σ, and at most 0.9/(1 − μ). The lower limit is
    the upper one of 1 − y, turned round.

    Parameters
    ----------
    value : (n,) numbers in [0, 1]; without any the limits are 0 and 1
    chance : that one of the limits misses, in (0, 1)

    Notes
    -----
    Assumes: rows are independent with one mean, or at least E[y | rows before] = μ.

    Stops applying: nowhere, but of few rows it says little: the limits of 10 rows are far apart.

    Examples
    --------
    Two rows of 0 and chance ½: λ = √(2·log 2/2)/σ ≥ 1.66, capped at 0.9/(1 − μ) for all σ. So
    (1 + 0.9·μ/(1 − μ))² = 2, μ/(1 − μ) = 0.4602, μ = 0.3152.

    >>> low, high = mean_limits(np.zeros(2), 0.5)
    >>> low, round(high, 4)
    (0.0, 0.3152)
    """
    check_number("chance", chance, 0.0, 1.0 - 1e-12, open_low=True)
    y = np.asarray(value, dtype=float)
    if y.ndim != 1 or not ((y >= 0.0) & (y <= 1.0)).all():
        raise InvalidInput("value: expected a column of numbers in [0, 1]")
    if y.size == 0:
        return 0.0, 1.0
    return 1.0 - _upper(1.0 - y, chance), _upper(y, chance)


def _upper(y: Array, chance: float) -> float:
    """Return the upper limit: bisection on a monotone function, rounded outwards."""
    counts = np.bincount(np.ceil(y * _GRID).astype(np.int64), minlength=_GRID + 1)
    place = np.flatnonzero(counts)
    value, count, n, goal = place / _GRID, counts[place], y.size, -math.log(chance)
    wanted = math.sqrt(2.0 * goal / n) / np.array(_DEVIATIONS)
    low, high = float((value * count).sum()) / n, 1.0
    if low >= 1.0:
        return 1.0
    for _ in range(24):  # to 1e-7, outwards
        middle = 0.5 * (low + high)
        stake = np.minimum(wanted, _LARGEST / (1.0 - middle))
        logs = (np.log1p(stake[:, None] * (middle - value)) * count).sum(axis=1)
        top = float(logs.max())
        reached = top + math.log(float(np.exp(logs - top).mean())) >= goal
        low, high = (low, middle) if reached else (middle, high)
    return high
