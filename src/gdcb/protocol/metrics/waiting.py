"""Episodes to threshold: when a method is as good as the incumbent, and stays so for a while.

τ is the first episode t (from 1) with mean over t … t+19 of [expected executed reward − the
incumbent's behind the same gate, in the same contexts and with the same draws] ≥ 0. A window must
be whole: τ is seen up to episode T − 19. A replicate that did not get there is *censored*: all
that is known is τ > T − 19.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.protocol.metrics.bootstrap import percentiles, resamples
from gdcb.protocol.metrics.estimates import Estimate, estimate, running

WINDOW = 20
_HALF = 0.5 + 1e-9  # a product of R fractions misses a half by rounding


@dataclass(frozen=True, slots=True)
class Waits:
    """How long each replicate waited for the threshold.

    Parameters
    ----------
    time : (R,) τ, or where it was not reached the last episode at which it could be seen
    is_reached : (R,) whether it was
    last : that last episode, T − 19; 0 where no window fits
    """

    time: Array
    is_reached: Array
    last: int


class Threshold(TypedDict):
    """Median of τ and its 95 % interval (None: beyond the horizon), share censored, booked."""

    median: float | None
    low: float | None
    high: float | None
    censored: float
    booked: Estimate | None


def episodes_to_threshold(advantage: Array, window: int = WINDOW) -> Waits:
    """Return τ of every replicate from its advantage (T, R) over the incumbent.

    Examples
    --------
    With windows of two: −1 + 0 < 0 and 0 + 2 ≥ 0, so the first replicate gets there at t = 2. The
    second does not in the two windows it has.

    >>> waits = episodes_to_threshold(np.array([[-1.0, -1.0], [0.0, -1.0], [2.0, 0.0]]), window=2)
    >>> waits.time.tolist(), waits.is_reached.tolist(), waits.last
    ([2, 2], [True, False], 2)
    """
    advantage = np.asarray(advantage, dtype=float)
    if advantage.ndim != 2 or advantage.shape[1] < 1 or not np.isfinite(advantage).all():
        raise InvalidInput("advantage: expected finite numbers (T, R) of at least one replicate")
    if window < 1:
        raise InvalidInput(f"window: expected a whole number >= 1, got {window}")
    last = max(advantage.shape[0] - window + 1, 0)
    if last == 0:
        n = advantage.shape[1]
        return Waits(np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool), 0)
    windows = np.lib.stride_tricks.sliding_window_view(advantage, window, axis=0)
    is_there = windows.sum(axis=-1) >= 0
    is_reached = is_there.any(axis=0)
    time = np.where(is_reached, is_there.argmax(axis=0) + 1, last)
    return Waits(time, is_reached, last)


def kaplan_meier(time: Array, is_event: Array) -> tuple[Array, Array]:
    """Return the times (m,) of events, ascending, and the share S (m,) that waits longer.

    S(t) = Π over t_j ≤ t of (1 − d_j/n_j), with d_j events at t_j among n_j replicates that had
    waited until then; one that is censored at t_j counts among them. Censoring must not depend
    on what would have come.

    Examples
    --------
    Of four, one gets there at 1, one is lost at 2, one gets there at 3: S(1) = 3/4 and
    S(3) = 3/4·(1 − 1/2) = 3/8.

    >>> times, survival = kaplan_meier(np.array([1, 2, 3, 5]), np.array([True, False, True, False]))
    >>> times.tolist(), survival.tolist()
    ([1, 3], [0.75, 0.375])
    """
    time, is_event = _waiting(time, is_event)
    times, events = np.unique(time[is_event], return_counts=True)
    at_risk = time.size - np.searchsorted(np.sort(time), times)
    return times, np.cumprod(1 - events / at_risk)


def median(time: Array, is_event: Array) -> float | None:
    """Return the Kaplan–Meier median, the first t with S(t) ≤ 1/2; None if S stays above.

    Without censoring it is the lower of the two middle values.

    >>> median(np.array([4, 1, 3, 2]), np.ones(4, dtype=bool))
    2.0
    >>> median(np.array([1, 9, 9]), np.array([True, False, False])) is None
    True
    """
    times, survival = kaplan_meier(time, is_event)
    is_past = survival <= _HALF
    return float(times[is_past.argmax()]) if is_past.any() else None


def medians(time: Array, is_event: Array, counts: Array) -> Array:
    """Return the Kaplan–Meier median of every resample, given as counts (B, R); ∞ for none.

    >>> medians(np.array([1, 5]), np.array([True, True]), np.array([[2, 0], [1, 1], [0, 2]]))
    array([1., 1., 5.])
    """
    time, is_event = _waiting(time, is_event)
    # Events come before those lost at the same time. Tied events one by one give the same
    # product as together: (n − 1)/n · (n − 2)/(n − 1) = (n − 2)/n.
    order = np.lexsort((~is_event, time))
    weight = counts[:, order].astype(float)
    at_risk = weight[:, ::-1].cumsum(axis=1)[:, ::-1]
    stays = 1 - np.where(is_event[order], weight, 0.0) / np.maximum(at_risk, 1.0)
    is_past = np.cumprod(stays, axis=1) <= _HALF
    return np.where(is_past.any(axis=1), time[order][is_past.argmax(axis=1)], math.inf)


def threshold(waits: Waits, success: Array, seed: int = 0) -> Threshold:
    """Return median τ with its interval, the share censored, and what was booked up to τ.

    The interval is a percentile bootstrap over replicates: 2,000 resamples drawn from `seed`, a
    Kaplan–Meier median in each, None for an end beyond the horizon. `booked` is the mean over
    replicates of Σ `success` (T, R) over episodes 1 … τ; censored replicates count up to the last
    episode at which τ could be seen, so that with censoring it is a lower limit.

    Examples
    --------
    τ is 1, 2, 2, and every second episode books: 1, 1, 1 up to then. The median is 2.

    >>> waits = Waits(np.array([1, 2, 2]), np.array([True, True, True]), last=2)
    >>> found = threshold(waits, np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]))
    >>> found["median"], found["censored"], found["booked"]["mean"]
    (2.0, 0.0, 1.0)
    """
    success = np.asarray(success, dtype=float)
    n = waits.time.size
    if success.ndim != 2 or success.shape[1] != n or success.shape[0] < waits.last:
        raise InvalidInput(
            f"success: expected (T, {n}), T at least {waits.last}, got shape {success.shape}"
        )
    low, high = None, None
    if n > 1:
        low, high = percentiles(
            np.concatenate([medians(waits.time, waits.is_reached, c) for c in resamples(n, seed)])
        )
    before = np.vstack((np.zeros((1, n)), running(success)))
    return Threshold(
        median=median(waits.time, waits.is_reached),
        low=low,
        high=high,
        censored=float((~waits.is_reached).mean()),
        booked=estimate(before[waits.time, np.arange(n)]),
    )


def _waiting(time: Array, is_event: Array) -> tuple[Array, Array]:
    time, is_event = np.asarray(time), np.asarray(is_event)
    if time.ndim != 1 or time.size < 1 or time.shape != is_event.shape:
        raise InvalidInput(
            "waiting times: expected times and events (R,) of at least one replicate, got shapes "
            f"{time.shape} and {is_event.shape}"
        )
    if is_event.dtype != bool:
        raise InvalidInput(f"waiting times: expected events as booleans, got {is_event.dtype}")
    if not np.isfinite(time).all():
        raise InvalidInput("waiting times: expected finite times; what is lost is censored")
    return time, is_event
