"""What the learner expected against what came, and of how much the outcome is known."""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array
from gdcb.pages.numbers import Estimate
from gdcb.service.figures.hours import DAY, HOUR
from gdcb.service.pages.views.dashboard import Bin, Coverage

MOST_BINS = 10
LEAST_ROWS = 20  # of a bin
_Z = 1.959963984540054
_AGES = (
    (HOUR, "under an hour"),
    (DAY, "1 to 24 hours"),
    (7 * DAY, "1 to 7 days"),
    (30 * DAY, "7 to 30 days"),
)


def bins_of(predicted: Array, observed: Array, is_chance: bool) -> tuple[Bin, ...]:
    """Return predictions in up to ten bins of about one size, and the mean that was observed.

    Parameters
    ----------
    predicted, observed : (N,)
    is_chance : whether zeros and ones were observed: Wilson's interval then, else Student's

    Examples
    --------
    Of 20 rows 5 came: 0.25, and Wilson's 95 % interval is 0.11 to 0.47.

    >>> import numpy as np
    >>> (one,) = bins_of(np.full(20, 0.3), np.repeat([1.0, 0.0], [5, 15]), True)
    >>> round(one.predicted, 2), one.n, round(one.observed.low, 2), round(one.observed.high, 2)
    (0.3, 20, 0.11, 0.47)
    """
    n = predicted.size
    n_bins = min(MOST_BINS, n // LEAST_ROWS)
    if not n_bins:
        return ()
    order = np.argsort(predicted, kind="stable")
    found = []
    for rows in np.array_split(order, n_bins):
        y = observed[rows]
        estimate = _wilson(float(y.mean()), y.size) if is_chance else _student(y)
        found.append(Bin(float(predicted[rows].mean()), estimate, int(y.size)))
    return tuple(found)


def _wilson(share: float, n: int) -> Estimate:
    middle = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * (share * (1 - share) / n + _Z**2 / (4 * n**2)) ** 0.5
    return Estimate(share, min(share, middle - half), max(share, middle + half))


def _student(y: Array) -> Estimate:
    from scipy.special import stdtrit

    half = float(stdtrit(y.size - 1, 0.975) * y.std(ddof=1) / y.size**0.5)
    mean = float(y.mean())
    return Estimate(mean, mean - half, mean + half)


def coverage_of(age: Array, is_known: Array) -> tuple[Coverage, ...]:
    """Return of what share of decisions of each age (µs since they ran) the outcome is known."""
    limits = np.array([limit for limit, _ in _AGES])
    names = [*(name for _, name in _AGES), "over 30 days"]
    place = np.searchsorted(limits, age, side="right")
    found = []
    for i, name in enumerate(names):
        rows = place == i
        n = int(rows.sum())
        if n:
            found.append(Coverage(name, n, float(is_known[rows].mean())))
    return tuple(found)
