"""What may be asked of a study: options by name, refused where they make no sense."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gdcb.errors import InvalidInput


def require_known(name: str, options: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse options that the instance does not have, and name those that it has.

    >>> require_known("grid", {"calls": 3}, ("calls",))
    >>> require_known("str", {"hours": 3}, ("manager", "nights"))
    Traceback (most recent call last):
    gdcb.errors.InvalidInput: str has the options manager and nights, not hours
    """
    unknown = sorted(set(options) - set(known))
    if unknown:
        *others, last = known
        has = f"options {', '.join(others)} and {last}" if others else f"option {last}"
        raise InvalidInput(f"{name} has the {has}, not {', '.join(unknown)}")


def whole_number(options: Mapping[str, Any], name: str, default: int) -> int:
    """Return an option that counts something, 1 at least.

    >>> whole_number({"rows": 300}, "rows", 1_200), whole_number({}, "rows", 1_200)
    (300, 1200)
    """
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInput(f"{name}: expected a whole number >= 1, got {value!r}")
    return value
