"""Total variation between two periods from counts, and the ratio of two such with an interval."""

from __future__ import annotations

import math

import numpy as np

from gdcb.arrays import Array

_PSEUDO_ROWS = 2.0  # of a period and stratum, with the largest variance there is


def halved(first: Array, second: Array) -> tuple[Array, Array]:
    """Return |d| as one half of the rows sees it with the other half's sign, and its slope.

    |d|·(2Φ(z) − 1) − 2σφ(z) with z = |d|/σ: the mean over all ways to halve the rows, cell by cell.
    With d̂ and d̂ ± ε the difference in all rows and in either half, ε ~ N(0, σ²), it is
    E[sign(d̂ + ε)·(d̂ − ε)].

    Parameters
    ----------
    first, second : (..., C) counts of the two periods

    Returns
    -------
    the corrected |d| (..., C), and its derivative in d.

    Examples
    --------
    50 rows of 100 against 50: d = 0, and what noise would make of it, 2σφ(0), is taken off.

    >>> halved(np.array([50.0, 50.0]), np.array([50.0, 50.0]))[0].round(4).tolist()
    [-0.0564, -0.0564]
    """
    from scipy.special import ndtr

    n, m = (counts.sum(axis=-1, keepdims=True) for counts in (first, second))
    d = first / n - second / m
    # Half a row more on either side: a share of 0 or 1 is not sure.
    p, q = (first + 0.5) / (n + 1.0), (second + 0.5) / (m + 1.0)
    seen = first + second > 0
    sigma = np.sqrt(np.where(seen, p * (1.0 - p) / n + q * (1.0 - q) / m, 1.0))
    z = np.abs(d) / sigma
    density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    inner = 2.0 * ndtr(z) - 1.0
    value = np.where(seen, np.abs(d) * inner - 2.0 * sigma * density, 0.0)
    return value, np.where(seen, np.sign(d) * (inner + 4.0 * z * density), 0.0)


def ratio_of_variations(table: Array, level: float) -> tuple[float, float, float, float, float]:
    """Return TV(executed)/TV(recommended), its interval, and both variations: five numbers.

    Parameters
    ----------
    table : (S, 2, C, C) counts by stratum, period, recommended and executed cell
    level : of the interval
    """
    from scipy.special import ndtri

    rows = table.sum(axis=(2, 3))
    weight = rows.sum(axis=1) / rows.sum()
    plain, corrected, sides = np.empty(2), np.empty(2), []
    for what, axis in enumerate((3, 2)):  # recommended, then executed
        counts = table.sum(axis=axis)
        shares = counts / rows[:, :, None]
        gap = shares[:, 0] - shares[:, 1]
        value, slope = halved(counts[:, 0], counts[:, 1])
        plain[what] = 0.5 * weight @ np.abs(gap).sum(axis=1)
        corrected[what] = 0.5 * weight @ value.sum(axis=1)
        sides.append((_signs(gap, counts.sum(axis=1)), slope))
    if plain[0] == 0:
        nan = math.nan
        return nan, nan, nan, 0.0, max(float(corrected[1]), 0.0)
    z = float(ndtri((1.0 + level) / 2))
    (sign0, slope0), (sign1, slope1) = sides
    high = _fieller(plain[1], corrected[0], *_moments(table, weight, slope0, sign1), z, True)
    low = _fieller(corrected[1], plain[0], *_moments(table, weight, sign0, slope1), z, False)
    recommended, executed = (max(float(one), 0.0) for one in corrected)
    ratio = executed / recommended if recommended > 0 else math.nan
    return ratio, low, high, recommended, executed


def _signs(gap: Array, counts: Array) -> Array:
    """Return the signs of the differences; cells that tie go to both sides, largest first.

    A tie must not read as certainty: which side such a cell is on is open, and what it adds to the
    variance is not.
    """
    signs = np.sign(gap)
    for s in range(gap.shape[0]):
        ties = np.flatnonzero(gap[s] == 0)
        ties = ties[np.argsort(-counts[s, ties], kind="stable")]
        signs[s, ties] = np.where(np.arange(ties.size) % 2 == 0, 1.0, -1.0)
    return np.asarray(signs)


def _moments(
    table: Array, weight: Array, recommended: Array, executed: Array
) -> tuple[float, float, float]:
    """Return Var, Cov and Var of the executed and recommended sums with these coefficients (S, C).

    Every stratum and period has some pseudo-rows of variance 1, so that few rows which all agree
    are not taken for certainty.
    """
    n = table.sum(axis=(2, 3))
    joint = table / n[:, :, None, None]
    r, e = recommended[:, None, :], executed[:, None, :]
    first, second = joint.sum(axis=3), joint.sum(axis=2)
    mean_r, mean_e = (first * r).sum(axis=2), (second * e).sum(axis=2)
    var_r = (first * r * r).sum(axis=2) - mean_r**2
    var_e = (second * e * e).sum(axis=2) - mean_e**2
    both = (joint * r[:, :, :, None] * e[:, :, None, :]).sum(axis=(2, 3)) - mean_r * mean_e
    var_r, var_e = ((n * var + _PSEUDO_ROWS) / (n + _PSEUDO_ROWS) for var in (var_r, var_e))
    factor = (weight[:, None] / 2) ** 2 / n
    return tuple(float((factor * part).sum()) for part in (var_e, both, var_r))  # type: ignore[return-value]


def _fieller(
    above: float, below: float, a: float, b: float, c: float, z: float, is_high: bool
) -> float:
    """Return an end of the interval of above/below, with variances a, c and covariance b.

    The ratios r with |above − r·below| ≤ z·√(a − 2rb + r²c): between two roots of a quadratic.
    """
    lead = below**2 - z * z * c
    if is_high and (below <= 0 or lead <= 0):
        return math.inf
    if not is_high and (above <= 0 or above**2 <= z * z * a):
        return 0.0
    middle, rest = above * below - z * z * b, above**2 - z * z * a
    root = math.sqrt(max(middle**2 - lead * rest, 0.0))
    return float((middle + root) / lead if is_high else max(rest / (middle + root), 0.0))
