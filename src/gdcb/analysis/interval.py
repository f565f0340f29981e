"""An interval that says what it holds, how often, and under which assumptions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gdcb.errors import InvalidInput
from gdcb.parts import check_number


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its limits; of a range, mean is None and the limits hold all of it.

    Unpacks as mean, low, high. Ends that are out of order, or are no numbers, and an estimate
    outside of them are refused: such an interval is a fault of whoever made it, and is never shown.

    Parameters
    ----------
    mean : the estimate, low <= mean <= high; None for a range
    low, high : the limits, low <= high
    level : in how many of all logs like this one the limits hold what they are of
    covers : of what they are, and under which assumptions, in words

    Examples
    --------
    >>> print(Interval(0.5, 0.4, 0.7, 0.95, "the value of the target, if rows are independent"))
    0.5 (0.4 to 0.7)
    >>> Interval(0.0, 0.00053, 0.0, 0.95, "the value of the target")
    Traceback (most recent call last):
    gdcb.errors.InvalidInput: interval: expected low <= high, got 0.00053 to 0
    """

    mean: float | None
    low: float
    high: float
    level: float
    covers: str

    def __post_init__(self) -> None:
        ends = (self.low, self.high)
        if any(math.isnan(end) for end in ends) or not self.low <= self.high:
            raise InvalidInput(f"interval: expected low <= high, got {self.low:g} to {self.high:g}")
        if self.mean is not None and not math.isfinite(self.mean):
            raise InvalidInput(f"interval: expected a finite estimate, got {self.mean}")
        if self.mean is not None and not self.low <= self.mean <= self.high:
            raise InvalidInput(
                f"interval: expected an estimate within {self.low:g} and {self.high:g}, "
                f"got {self.mean:g}"
            )
        check_number("interval.level", self.level, 0.5, 1.0, open_low=True)
        if not self.covers.strip():
            raise InvalidInput("interval.covers: expected what the interval holds, in words")

    def __iter__(self) -> Iterator[Any]:
        """Give mean, low, high."""
        return iter((self.mean, self.low, self.high))

    def __str__(self) -> str:
        """Return the three numbers as people write them."""
        between = f"{self.low:.4g} to {self.high:.4g}"
        return between if self.mean is None else f"{self.mean:.4g} ({between})"
