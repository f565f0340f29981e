"""Whether actions vary beyond what context explains: without that no response is identified."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import check_number


@dataclass(frozen=True, slots=True)
class ActionVariation:
    """Var(log e | x) with its interval.

    Parameters
    ----------
    variance, low, high : the smaller of `by_regression` and `by_neighbours`, and its interval
    share : of the whole variance of log e
    by_regression, by_neighbours : the two estimates; NaN where there are too few rows for one
    n : rows
    """

    variance: float
    low: float
    high: float
    share: float
    by_regression: float
    by_neighbours: float
    n: int

    def says(self, floor: float = 1e-4) -> str:
        """Return one sentence; `floor` is the least variance that identifies a response."""
        spread = f"a standard deviation of {math.sqrt(max(self.variance, 0.0)):.3g} in log e"
        if not self.low > floor:
            return f"At equal contexts the action hardly varied ({spread}): no response is known."
        return f"At equal contexts the action still varied ({spread})."


def action_variation(
    log_action: Array,
    features: Array,
    *,
    level: float = 0.95,
    most_rows: int = 20_000,
) -> ActionVariation:
    """Estimate Var(log e | x), from what a regression leaves and from nearest neighbours.

    Regression: Σr²/(n − P) of log e on 1, z and, where there are ten rows a column, squares and
    products. Neighbours: the mean of ½(r_i − r_j)² over pairs of rows that are each other's nearest
    in standardised features. Both are too large where E[log e | x] is not smooth, never too small
    but by chance, so that the smaller one stands. Its interval is log-normal, with the variance of
    the mean of the squares.

    Parameters
    ----------
    log_action : (N,) log e, or e where actions add
    features : (N, p) φ(x)
    level : of the interval
    most_rows : rows used, evenly spaced, where there are more

    Notes
    -----
    Assumes: rows are independent given x.

    Stops applying: neighbours are far from each other in many dimensions, and what they differ by
    is then taken for variation.

    Examples
    --------
    log e is 1 above and 1 below x in turn: Σr² = 8 over 8 − 2 degrees of freedom.

    >>> x = np.repeat([0.0, 1.0, 2.0, 3.0], 2)
    >>> found = action_variation(x + np.tile([1.0, -1.0], 4), x[:, None])
    >>> round(found.by_regression, 4)
    1.3333
    """
    from scipy.special import ndtri

    check_number("level", level, 0.5, 1.0 - 1e-12)
    check_number("most_rows", most_rows, 10)
    y, x = _checked(log_action, features)
    if y.size > most_rows:
        used = np.linspace(0, y.size - 1, int(most_rows)).astype(np.int64)
        y, x = y[used], x[used]
    n = y.size
    size = x.std(axis=0)
    varies = size > 1e-12 * (1.0 + np.abs(x).max(axis=0))
    z = (x[:, varies] - x[:, varies].mean(axis=0)) / size[varies]
    phi = np.column_stack((np.ones(n), z))
    first, second = np.triu_indices(z.shape[1])
    if n >= 10 * (phi.shape[1] + first.size):
        phi = np.column_stack((phi, z[:, first] * z[:, second]))
    coefficients, _, rank, _ = np.linalg.lstsq(phi, y, rcond=None)
    left = y - phi @ coefficients
    freedom = n - int(rank)
    regression = left**2 * (n / freedom) if freedom > 0 else np.array([])
    neighbours = _halves(z, left)
    one, other = (
        float(part.mean()) if part.size else math.nan for part in (regression, neighbours)
    )
    if math.isnan(one) and math.isnan(other):
        return ActionVariation(math.nan, 0.0, math.inf, math.nan, one, other, n)
    squares, variance = (neighbours, other) if not one <= other else (regression, one)
    if math.isnan(variance):
        squares, variance = regression, one
    whole = float(y.var(ddof=1)) if n > 1 else 0.0
    share = min(variance / whole, 1.0) if whole > 0 else 0.0
    rounding = 1e-24 * float((y * y).mean() + 1e-300)
    if variance <= rounding:
        return ActionVariation(0.0, 0.0, 0.0, 0.0, one, other, n)
    if squares.size < 2:
        return ActionVariation(variance, 0.0, math.inf, share, one, other, n)
    error = float(squares.std(ddof=1)) / variance / math.sqrt(squares.size)
    # Squares that all agree are not known without error: normal ones vary by √2.
    error = max(error, math.sqrt(2.0 / squares.size) if squares.size < 30 else 0.0)
    factor = math.exp(float(ndtri((1.0 + level) / 2.0)) * error)
    return ActionVariation(variance, variance / factor, variance * factor, share, one, other, n)


def _halves(z: Array, left: Array) -> Array:
    """Return ½(r_i − r_j)² of the pairs of rows that are each other's nearest neighbours."""
    from scipy.spatial import cKDTree

    n = left.size
    if n < 4:
        return np.array([])
    if z.shape[1] == 0:
        half = n // 2
        return np.asarray(0.5 * (left[: 2 * half : 2] - left[1 : 2 * half : 2]) ** 2)
    # Rows at the very same point are paired in their order; the tree sees what remains.
    order = np.lexsort(z.T)
    same = (z[order][1:] == z[order][:-1]).all(axis=1)
    run = np.arange(n) - np.maximum.accumulate(
        np.where(np.concatenate(([True], ~same)), np.arange(n), 0)
    )
    is_second = run % 2 == 1
    pairs = [np.column_stack((order[:-1][is_second[1:]], order[1:][is_second[1:]]))]
    rest = np.setdiff1d(np.arange(n), pairs[0].ravel())
    if rest.size >= 2:
        nearest = np.asarray(cKDTree(z[rest]).query(z[rest], k=2)[1])
        at = np.arange(rest.size)
        other = np.where(nearest[:, 0] == at, nearest[:, 1], nearest[:, 0])
        mutual = (other[other] == at) & (at < other)
        pairs.append(np.column_stack((rest[mutual], rest[other[mutual]])))
    paired = np.concatenate(pairs)
    return np.asarray(0.5 * (left[paired[:, 0]] - left[paired[:, 1]]) ** 2)


def _checked(log_action: Any, features: Any) -> tuple[Array, Array]:
    y, x = np.asarray(log_action, dtype=float), np.asarray(features, dtype=float)
    if x.ndim != 2 or x.shape[0] < 2 or not np.isfinite(x).all():
        raise InvalidInput(f"features: expected finite numbers (N, p), N >= 2, got {x.shape}")
    if y.shape != (x.shape[0],) or not np.isfinite(y).all():
        raise InvalidInput(f"log_action: expected {x.shape[0]} finite numbers, got {y.shape}")
    return y, x
