"""Phrases that sentences are made of: times, estimates, p-values, lists of names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

from gdcb.pages.numbers import Estimate, common_digits, fixed, listed, plain, probability

_MOST = 6  # names in one sentence


def when(time: str | float) -> str:
    """Write a time as a sentence does.

    Examples
    --------
    >>> when("2025-03-04T09:30:00+00:00"), when(60_001)
    ('on 4 March 2025', 'at row 60,001')
    """
    return f"at row {time:,.0f}" if isinstance(time, int | float) else f"on {day(time)}"


def day(time: str | float) -> str:
    """Write a time without its preposition; what is no ISO date stays as it is."""
    if isinstance(time, int | float):
        return f"row {time:,.0f}"
    try:
        found = datetime.fromisoformat(time)
    except ValueError:
        return time
    return f"{found.day} {found:%B} {found.year}"


def chance(p: float) -> str:
    """Write a p-value as a bracket holds it: 'p = 0.020', 'p < 0.001'.

    >>> chance(0.02), chance(1e-9)
    ('p = 0.020', 'p < 0.001')
    """
    text = probability(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def spanned(mean: float, low: float | None = None, high: float | None = None) -> str:
    """Write an estimate with its interval in words; without two finite ends there is none.

    >>> spanned(0.0412, 0.013, 0.069), spanned(0.5)
    ('0.041 (0.013 to 0.069)', '0.5')
    """
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return short(mean)
    digits = common_digits([Estimate(mean, low, high)])
    return f"{fixed(mean, digits)} ({fixed(low, digits)} to {fixed(high, digits)})"


def short(value: float) -> str:
    """Write a number with at most three significant digits and no needless zeros.

    >>> short(0.1), short(-1.8349), short(20.0)
    ('0.1', '−1.83', '20')
    """
    return f"{value:.3g}".replace("-", "−") if 1e-4 <= abs(value) < 1e3 else plain(value)


def at_most(value: float) -> str:
    """Write a limit with at most two decimals, never larger than it is.

    >>> at_most(1.839), at_most(20.0)
    ('1.83', '20')
    """
    return f"{math.floor(100 * value + 1e-9) / 100:.2f}".rstrip("0").rstrip(".")


def named(names: Sequence[str]) -> str:
    """Join names, at most six of them, as a sentence does.

    >>> named(["a", "b", "c"]), named([str(n) for n in range(9)])
    ('a, b and c', '0, 1, 2, 3, 4, 5 and 3 others')
    """
    rest = len(names) - _MOST
    if rest <= 0:
        return listed(names)
    return listed([*names[:_MOST], "1 other" if rest == 1 else f"{rest} others"])
