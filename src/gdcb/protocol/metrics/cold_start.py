"""What the history was worth: compression of the cold start, the saving, and from when."""

from __future__ import annotations

import math
from typing import TypedDict

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.protocol.metrics.bootstrap import percentiles, resamples
from gdcb.protocol.metrics.estimates import Estimate, interval, of_replicates, running
from gdcb.protocol.metrics.waiting import WINDOW, Waits, median, medians


class Compression(TypedDict):
    """Cold-start compression: a number, or a lower limit of it, or the reason for neither.

    Parameters
    ----------
    value, low, high : median τ_cold / max(median τ_warm, 20) and its interval; None: not known
    is_at_least : whether `value` is a lower limit; then there is no `high`
    applies : whether there is a value
    sentence : what it says, or why it says nothing
    """

    value: float | None
    low: float | None
    high: float | None
    is_at_least: bool
    applies: bool
    sentence: str


def compression(cold: Waits, warm: Waits, seed: int = 0) -> Compression:
    """Return median τ_cold / max(median τ_warm, 20), with a paired bootstrap over replicates.

    Medians are Kaplan–Meier's. It reads 'at least' where the cold median is censored, and T − 19
    stands for it, or where the warm one is at 20 or below. It does not apply where both are below
    20, where the warm median is censored, or where the cold one is and the run shows no τ of 20:
    'at least 0.3' would say nothing. The interval has the 2.5 % and 97.5 % points of 2,000
    resamples of replicates drawn from `seed`; in a resample a censored median counts as what
    makes the interval wider.

    Examples
    --------
    The cold start needs 150 episodes and the warm one 30, in both replicates: 150/30 = 5.

    >>> both = np.array([True, True])
    >>> found = compression(
    ...     Waits(np.array([150, 150]), both, 1481), Waits(np.array([30, 30]), both, 1481)
    ... )
    >>> found["value"], found["low"], found["high"], found["is_at_least"]
    (5.0, 5.0, 5.0, False)
    """
    n = cold.time.size
    if n != warm.time.size or cold.last != warm.last:
        raise InvalidInput(
            "compression: expected the same replicates and episodes, got "
            f"{n} to episode {cold.last} and {warm.time.size} to episode {warm.last}"
        )
    before, after = (median(waits.time, waits.is_reached) for waits in (cold, warm))
    reason = _reason(before, after, cold.last)
    if reason is not None or after is None:
        return Compression(
            value=None, low=None, high=None, is_at_least=False, applies=False, sentence=reason or ""
        )
    is_at_least = before is None or after <= WINDOW
    value = (cold.last if before is None else before) / max(after, WINDOW)
    low, high = _limits(cold, warm, seed) if n > 1 else (None, None)
    high = None if is_at_least else high
    return Compression(
        value=value,
        low=low,
        high=high,
        is_at_least=is_at_least,
        applies=True,
        sentence=_sentence(before, after, cold.last, value, low, high),
    )


def _limits(cold: Waits, warm: Waits, seed: int) -> tuple[float | None, float | None]:
    least, most = [], []
    for counts in resamples(cold.time.size, seed):
        before = medians(cold.time, cold.is_reached, counts)
        after = np.maximum(medians(warm.time, warm.is_reached, counts), WINDOW)
        least.append(np.minimum(before, cold.last) / after)
        most.append(before / np.minimum(after, max(warm.last, WINDOW)))
    return percentiles(np.concatenate(least))[0], percentiles(np.concatenate(most))[1]


def _reason(before: float | None, after: float | None, last: int) -> str | None:
    """Say why there is no compression, or nothing where there is one."""
    if last == 0:
        return f"Not applicable: the run is shorter than the {WINDOW} episodes of one window."
    if before is None and after is None:
        return (
            "Not known: neither start reached the incumbent's level in half of the replicates "
            f"within {last} episodes."
        )
    if after is None:
        return (
            "Not known: the warm start did not reach the incumbent's level in half of the "
            f"replicates within {last} episodes, and the cold start did (median {before:g})."
        )
    if before is None and last < WINDOW:
        return (
            f"Not known: the cold start needs more than {last} episodes, the warm start {after:g}, "
            f"which counts as {WINDOW}; a run of {last + WINDOW - 1} episodes cannot tell more."
        )
    if before is not None and before < WINDOW and after < WINDOW:
        return (
            f"Not applicable: both starts reached the incumbent's level within {WINDOW} episodes "
            f"(medians: cold {before:g}, warm {after:g}), so there was no cold start to compress."
        )
    return None


def _sentence(
    before: float | None,
    after: float,
    last: int,
    value: float,
    low: float | None,
    high: float | None,
) -> str:
    cold = f"more than {last} episodes" if before is None else f"{before:g} episodes"
    warm = f"{after:g}, which counts as {WINDOW}" if after < WINDOW else f"{after:g}"
    is_at_least = before is None or after <= WINDOW
    number = f"at least {value:.2f}" if is_at_least else f"{value:.2f}"
    if low is None:
        limits = ""
    elif is_at_least:
        limits = f" (lower 95 % limit {low:.2f})"
    else:
        upper = "beyond what the horizon shows" if high is None else f"{high:.2f}"
        limits = f" (95 % interval {low:.2f} to {upper})"
    return (
        f"To the incumbent's level the cold start needs {cold} (median over replicates), the warm "
        f"start {warm}: a compression of {number}{limits}."
    )


def saving(warm: Array, cold: Array) -> Estimate | None:
    """Return the share of the cold start's regret (R,) that the warm start's (R,) saves.

    1 − w̄/c̄, a ratio of means over the same replicates. Its interval is Fieller's: all ρ with
    (w̄ − ρc̄)² ≤ t²·Var(w̄ − ρc̄), t = t_{0.975, R−1}. Where c̄ is not clearly positive (its own 95 %
    interval reaches 0) a share of it says nothing, and the answer is None.

    Examples
    --------
    Warm 8 and 10, cold 10 and 10: 1 − 9/10 = 0.1. The cold mean has no spread, so the interval is
    that of w̄, 9 ± 12.706·1, over 10.

    >>> found = saving(np.array([8.0, 10.0]), np.array([10.0, 10.0]))
    >>> {name: round(value, 4) for name, value in found.items()}
    {'mean': 0.1, 'low': -1.1706, 'high': 1.3706}
    """
    from scipy.special import stdtrit

    warm, cold = of_replicates("warm", warm, 1), of_replicates("cold", cold, 1)
    if warm.shape != cold.shape:
        raise InvalidInput(f"saving: expected pairs, got {warm.size} and {cold.size} replicates")
    if not (np.isfinite(warm).all() and np.isfinite(cold).all()):
        return None
    w, c, n = float(warm.mean()), float(cold.mean()), warm.size
    if n < 2:
        return Estimate(mean=1 - w / c, low=None, high=None) if c > 0 else None
    (vww, vwc), (_, vcc) = (np.cov(warm, cold) * (stdtrit(n - 1, 0.975) ** 2 / n)).tolist()
    # The bounds are the roots of (c̄² − t²v_cc)ρ² − 2(w̄c̄ − t²v_wc)ρ + (w̄² − t²v_ww).
    a, b, constant = c * c - vcc, w * c - vwc, w * w - vww
    if c <= 0 or a <= 0:
        return None
    root = math.sqrt(max(b * b - a * constant, 0.0))
    return Estimate(mean=1 - w / c, low=1 - (b + root) / a, high=1 - (b - root) / a)


def first_below(difference: Array) -> int | None:
    """Return the first episode (from 1) from which the running sum of (T, R) is surely below 0.

    That is, at it and at every later episode the pointwise 95 % interval of the cumulated paired
    difference lies below 0; None if it does not at the end. No claim for all episodes at once.

    Examples
    --------
    The sums are (1, 1), (−1, −1), (−2, −2): below 0 from the second episode on.

    >>> first_below(np.array([[1.0, 1.0], [-2.0, -2.0], [-1.0, -1.0]]))
    2
    """
    high = interval(running(of_replicates("difference", difference, 2)))[2]
    is_above = ~(high < 0)
    if is_above.size == 0 or is_above[-1]:
        return None
    return int(is_above.size - is_above[::-1].argmax()) + 1 if is_above.any() else 1
