"""Means over replicates with Student's t intervals, curves of them, and paired differences.

An estimate is `{mean, low, high}`. One replicate has no interval: low and high are None. A value
that is not finite is not averaged away: the estimate as a whole is then None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypedDict

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import check_number

LEVEL = 0.95


class Estimate(TypedDict):
    """A mean over replicates and the ends of its 95 % interval; None where there is none."""

    mean: float
    low: float | None
    high: float | None


class Paired(TypedDict):
    """A mean paired difference, its interval and its adjusted p-value."""

    mean: float
    low: float | None
    high: float | None
    p: float | None


def estimate(values: Array) -> Estimate | None:
    """Return the mean of values (R,) over replicates and its 95 % interval.

    The interval is v̄ ± t_{0.975, R−1}·s/√R, s² = Σ(v − v̄)²/(R − 1). It assumes independent
    replicates and a mean that is about normal; it stops applying for a few heavy-tailed ones.

    Examples
    --------
    Two replicates: v̄ = 2, s = √2, s/√R = 1, and t with one degree of freedom is 12.706.

    >>> {name: round(value, 3) for name, value in estimate(np.array([1.0, 3.0])).items()}
    {'mean': 2.0, 'low': -10.706, 'high': 14.706}
    >>> estimate(np.array([4.0]))
    {'mean': 4.0, 'low': None, 'high': None}
    """
    values = of_replicates("estimate", values, 1)
    return _estimates(values[None])[0]


def curve(values: Array, cumulative: bool = True) -> list[Estimate | None]:
    """Return an estimate for every episode of values (T, R), of their running sums if asked.

    The intervals are pointwise: each episode's covers at 95 %, not the curve as a whole.

    Examples
    --------
    Sums after one episode are (1, 3), after two (1, 5): means 2 and 3.

    >>> values = np.array([[1.0, 3.0], [0.0, 2.0]])
    >>> [point["mean"] for point in curve(values)]
    [2.0, 3.0]
    >>> [point["mean"] for point in curve(values, cumulative=False)]
    [2.0, 1.0]
    """
    values = of_replicates("curve", values, 2)
    return _estimates(running(values) if cumulative else values)


def running(values: Array) -> Array:
    """Return the sums of values (T, R) up to each episode, itself included."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.cumsum(values, axis=0))


def mean_and_error(values: Array) -> tuple[Array, Array]:
    """Return mean and standard error over the last axis; the error of one replicate is NaN."""
    n = values.shape[-1]
    with np.errstate(invalid="ignore", over="ignore"):
        mean = values.mean(axis=-1)
        if n < 2:
            return mean, np.full(mean.shape, np.nan)
        error = values.std(axis=-1, ddof=1) / math.sqrt(n)
    return mean, error


def interval(values: Array) -> tuple[Array, Array, Array]:
    """Return mean, low and high over the last axis; NaN where there is none."""
    from scipy.special import stdtrit

    mean, error = mean_and_error(values)
    n = values.shape[-1]
    half = error * (float(stdtrit(n - 1, 0.5 + LEVEL / 2)) if n > 1 else math.nan)
    return mean, mean - half, mean + half


def holm(p: Array) -> Array:
    """Return p-values (m,) adjusted by Holm's step-down.

    Sorted, p̃₍ₖ₎ = max over j ≤ k of min(1, (m − j + 1)·p₍ⱼ₎): the k-th smallest is compared as if
    only the m − k + 1 that remain were tested. The chance of any false p̃ < α is at most α,
    however the tests depend on each other.

    Examples
    --------
    0.01·3 = 0.03; 0.02·2 = 0.04; 0.03·1 = 0.03, raised to 0.04 so that the order stays.

    >>> holm(np.array([0.03, 0.01, 0.02])).round(4).tolist()
    [0.04, 0.03, 0.04]
    """
    p = np.asarray(p, dtype=float)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise InvalidInput("holm: expected p-values (m,) between 0 and 1")
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(p.size)
    steps = p[order] * np.arange(p.size, 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def paired(differences: Mapping[str, Array], level: float = LEVEL) -> dict[str, Paired | None]:
    """Return mean, interval and p of every paired difference (R,), corrected by Holm.

    p is that of a two-sided t-test of mean 0 over replicates, adjusted by `holm` over all keys.
    With α = 1 − level, the interval of the k-th smallest p is at level 1 − α/(m − k + 1); from
    the first that Holm does not reject, at rank s, on, all are at 1 − α/(m − s + 1).

    Promised: an interval excludes 0 exactly where the adjusted p is below α; the chance that any
    interval excludes a true 0 is at most α; each interval alone covers at `level` or more, since
    it contains the uncorrected one. Not promised: that all intervals cover at the same time.
    A key with a value that is not finite has no estimate and is not counted in m.

    Examples
    --------
    Differences (1, 3) have mean 2 and standard error 1, so t = 2; with one degree of freedom
    p = 1 − 2·atan(2)/π = 0.295. It is the smaller of two, so Holm doubles it to 0.59. The other,
    (−1, 1), has mean 0 and p = 1.

    >>> found = paired({"B1": np.array([1.0, 3.0]), "B2": np.array([-1.0, 1.0])})
    >>> {key: (value["mean"], round(value["p"], 2)) for key, value in found.items()}
    {'B1': (2.0, 0.59), 'B2': (0.0, 1.0)}
    """
    from scipy.special import stdtr, stdtrit

    check_number("paired.level", level, 0.0, 1.0, open_low=True)
    if not differences:
        return {}
    rows = {key: of_replicates(f"paired: {key}", row, 1) for key, row in differences.items()}
    if len(sizes := {row.size for row in rows.values()}) > 1:
        raise InvalidInput(f"paired: expected the same replicates for all, got {sorted(sizes)}")
    found: dict[str, Paired | None] = dict.fromkeys(rows)
    keys = [key for key, row in rows.items() if np.isfinite(row).all()]
    if not keys:
        return found
    mean, error = mean_and_error(np.stack([rows[key] for key in keys]))
    df = sizes.pop() - 1
    if df == 0:
        for key, value in zip(keys, mean.tolist(), strict=True):
            found[key] = Paired(mean=value, low=None, high=None, p=None)
        return found
    with np.errstate(divide="ignore", invalid="ignore"):
        # Where every replicate agrees the test is certain, or has nothing to say against 0.
        size = np.where(mean == 0, 0.0, np.abs(mean) / error)
    raw = 2 * stdtr(df, -size)
    p = holm(raw)
    left = np.empty(p.size)
    left[np.argsort(raw, kind="stable")] = np.arange(p.size, 0, -1)
    left = np.maximum(left, p.size - np.count_nonzero(p < 1 - level))
    half = error * stdtrit(df, 1 - (1 - level) / (2 * np.maximum(left, 1)))
    columns = [column.tolist() for column in (mean, mean - half, mean + half, p)]
    for key, middle, low, high, chance in zip(keys, *columns, strict=True):
        found[key] = Paired(mean=middle, low=low, high=high, p=chance)
    return found


def in_words(value: Mapping[str, Any] | None) -> str:
    """Write an estimate as 'mean ± half its interval'.

    >>> in_words({"mean": 1234.5678, "low": 1234.3178, "high": 1234.8178})
    '1,234.57 ± 0.25'
    """
    if value is None:
        return "–"
    mean, low, high = value["mean"], value["low"], value["high"]
    if low is None or high is None:
        return f"{mean:,.4g}"
    half = (high - low) / 2
    digits = 0 if half <= 0 else max(0, 1 - math.floor(math.log10(half)))
    return f"{mean:,.{digits}f} ± {half:,.{digits}f}"


def _estimates(values: Array) -> list[Estimate | None]:
    """Return the estimate of every row of values (n, R)."""
    columns = [column.tolist() for column in interval(values)]
    has_interval = values.shape[-1] > 1
    return [
        Estimate(
            mean=mean,
            low=low if has_interval and math.isfinite(low) else None,
            high=high if has_interval and math.isfinite(high) else None,
        )
        if math.isfinite(mean)
        else None
        for mean, low, high in zip(*columns, strict=True)
    ]


def of_replicates(where: str, values: Array, n_axes: int) -> Array:
    """Refuse what is not numbers of at least one replicate, replicates last."""
    values = np.asarray(values, dtype=float)
    if values.ndim != n_axes or values.shape[-1] < 1:
        shape = "(T, R)" if n_axes == 2 else "(R,)"
        raise InvalidInput(
            f"{where}: expected values {shape} of at least one replicate, got shape {values.shape}"
        )
    return values
