"""Numbers as a reader wants them: as many digits as the interval bears, and no more."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

NONE = "–"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its interval; without replicates there is none."""

    mean: float
    low: float | None = None
    high: float | None = None
    p: float | None = None

    @property
    def sign(self) -> int:
        """1 or −1 where the interval lies on one side of zero, else 0."""
        if self.low is None or self.high is None:
            return 0
        return 1 if self.low > 0 else -1 if self.high < 0 else 0


def decimals(size: float) -> int:
    """Return how many decimals show two significant digits of `size`."""
    return 0 if size <= 0 else min(max(0, 1 - math.floor(math.log10(size))), 9)


def fixed(value: float, digits: int) -> str:
    """Write with so many decimals, thousands apart, and a true minus; no negative zero.

    Examples
    --------
    >>> fixed(-1234.5678, 2)
    '−1,234.57'
    """
    text = f"{value:,.{digits}f}"
    is_zero = not any(character in "123456789" for character in text)
    return text.lstrip("-") if is_zero else text.replace("-", "−")


def _size(value: Estimate) -> float:
    """Return what decides the digits: half the interval, or a tenth of a bare mean."""
    if value.low is None or value.high is None or value.high <= value.low:
        return abs(value.mean) / 10
    return (value.high - value.low) / 2


def plain(value: float | None) -> str:
    """Write a bare number with three significant digits, whole ones whole, tiny ones by a power."""
    if value is None:
        return NONE
    if value and not 1e-4 <= abs(value) < 1e15:
        mantissa, _, power = f"{value:.1e}".partition("e")
        return f"{mantissa.replace('-', '−')} × 10{str(int(power)).translate(RAISED)}"
    is_whole = value == int(value)
    return fixed(value, 0 if is_whole else decimals(abs(value) / 10))


def plus_minus(value: Estimate | None, digits: int | None = None) -> str:
    """Write 'mean ± half its interval', or 'mean [low, high]' where the mean is not its middle.

    Examples
    --------
    >>> plus_minus(Estimate(12.345, 11.3, 13.39))
    '12.3 ± 1.0'
    >>> plus_minus(Estimate(5.0, 4.0, 9.0))
    '5.0 [4.0, 9.0]'
    """
    if value is None:
        return NONE
    if value.low is None or value.high is None:
        return plain(value.mean) if digits is None else fixed(value.mean, digits)
    half = (value.high - value.low) / 2
    if abs(value.low + half - value.mean) > 0.02 * half:
        return bracketed(value, digits)
    n = decimals(_size(value)) if digits is None else digits
    return f"{fixed(value.mean, n)} ± {fixed(half, n)}"


def bracketed(value: Estimate | None, digits: int | None = None) -> str:
    """Write 'mean [low, high]'."""
    if value is None:
        return NONE
    if value.low is None or value.high is None:
        return plain(value.mean) if digits is None else fixed(value.mean, digits)
    n = decimals(_size(value)) if digits is None else digits
    return f"{fixed(value.mean, n)} [{fixed(value.low, n)}, {fixed(value.high, n)}]"


def common_digits(values: Iterable[Estimate | None]) -> int:
    """Return decimals for a whole column, so that its points stand under each other."""
    sizes = sorted(_size(value) for value in values if value is not None)
    return decimals(sizes[(3 * len(sizes)) // 4]) if sizes else 0


def percent(value: Estimate | None) -> str:
    """Write a share as per cent, with its interval.

    Examples
    --------
    >>> percent(Estimate(0.117, 0.09, 0.15))
    '11.7 % [9.0, 15.0]'
    """
    if value is None:
        return NONE
    mean = f"{fixed(100 * value.mean, 1)} %"
    if value.low is None or value.high is None:
        return mean
    return f"{mean} [{fixed(100 * value.low, 1)}, {fixed(100 * value.high, 1)}]"


def share(value: float | None) -> str:
    """Write a share as whole per cent; only none reads as 0 %, and only all as 100 %."""
    if value is None:
        return NONE
    if 0 < value < 0.005:
        return "< 1 %"
    return "> 99 %" if 0.995 <= value < 1 else f"{fixed(100 * value, 0)} %"


def probability(p: float | None) -> str:
    """Write a p-value."""
    if p is None:
        return NONE
    return "< 0.001" if p < 0.001 else fixed(p, 3)


def anything(value: Any) -> str:
    """Write a setting or a measured quantity: number, estimate, yes or no, list, word."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Estimate):
        return plus_minus(value)
    if isinstance(value, int):
        return str(value).replace("-", "−")
    if isinstance(value, float):
        return plain(value)
    if isinstance(value, dict):
        return ", ".join(f"{key} = {anything(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        is_long = len(value) > 6 and all(type(item) in (int, float) for item in value)
        if is_long:
            return f"{len(value)} numbers from {plain(min(value))} to {plain(max(value))}"
        is_grid = len(value) > 6 and all(isinstance(item, list | tuple) for item in value)
        flat = [number for row in value for number in row] if is_grid else []
        if flat and all(type(number) in (int, float) for number in flat):
            return f"{len(flat)} numbers from {plain(min(flat))} to {plain(max(flat))}"
        return ", ".join(anything(item) for item in value)
    return str(value)


def listed(names: Iterable[str]) -> str:
    """Join names as a sentence does: 'a, b and c'."""
    words = list(names)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
