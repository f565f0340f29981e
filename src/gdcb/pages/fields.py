"""Fields of a document: what is null becomes None or empty, what is wrong is refused.

`at` says where in the document a value stands, for the message.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gdcb.errors import InvalidInput
from gdcb.pages.numbers import Estimate


def shown(value: Any) -> str:
    """Write a value as a message shows it: its type and its beginning."""
    return f"{type(value).__name__} {str(value)[:60]!r}"


def text(value: Any) -> str:
    """Return words; null is none."""
    return "" if value is None else str(value)


def mapping(value: Any, at: str) -> Mapping[str, Any]:
    """Return an object; null is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{at}: expected an object or null, got {shown(value)}")
    return value


def sequence(value: Any, at: str) -> Sequence[Any]:
    """Return a list; null is an empty one."""
    if value is None:
        return []
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise InvalidInput(f"{at}: expected a list or null, got {shown(value)}")
    return value


def lines(value: Any, at: str) -> list[str]:
    """Return a list of words; one word is a list of one, and null is no word."""
    if isinstance(value, str):
        return [value]
    return [str(line) for line in sequence(value, at) if line is not None]


def number(value: Any, at: str) -> float | None:
    """Return a finite number or None: NaN and infinity are what null stands for."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"{at}: expected a number or null, got {shown(value)}")
    return float(value) if math.isfinite(value) else None


def count(value: Any, at: str) -> int:
    """Return a whole number from 1."""
    found = number(value, at)
    if found is None or found < 1 or found != int(found):
        raise InvalidInput(f"{at}: expected a whole number from 1, got {shown(value)}")
    return int(found)


def estimate(value: Any, at: str) -> Estimate | None:
    """Read {mean, low, high} (and p), or a bare number; without a mean there is none."""
    if not isinstance(value, Mapping):
        bare = number(value, at)
        return None if bare is None else Estimate(bare)
    mean = number(value.get("mean"), f"{at}.mean")
    if mean is None:
        return None
    low, high, p = (number(value.get(name), f"{at}.{name}") for name in ("low", "high", "p"))
    is_whole = low is not None and high is not None
    return Estimate(mean, low if is_whole else None, high if is_whole else None, p)
