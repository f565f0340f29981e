"""Whether rows of a log depend on each other: neighbours in time, rows of one day, of one unit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gdcb.analysis.resampled import is_rare, resampled_p, shuffled
from gdcb.arrays import Array

_WINDOWS = (1, 4, 16, 64)  # rows after each that count as its neighbours
_LEAST_WINDOWS = 20  # as many windows must fit into a log
_PEAKED = 6.0  # kurtosis of residuals from which on that of their products is large
_SEED = 21  # of shuffles: the same log has the same certificate
NEIGHBOURS, DAYS, UNITS = "neighbouring rows", "rows of the same day", "rows of the same unit"


@dataclass(frozen=True, slots=True)
class SerialDependence:
    """Whether residuals resemble those of other rows more than chance allows.

    Parameters
    ----------
    p : of 'rows are independent', over all kinds of pairs of rows
    inflation : by how much sums of rows vary more than those of independent rows, for the kind of
        pairs that stands out most; 1: not at all
    among : which pairs these are
    """

    p: float
    inflation: float
    among: str


def serial_dependence(
    residual: Array,
    day: Array | None = None,
    unit: Array | None = None,
    group: Array | None = None,
    level: float = 0.05,
) -> SerialDependence:
    """Test whether residuals in the order of time depend on each other.

    Q = Σ u_i·u_j over pairs of rows (the next 1, 4, 16 and 64 rows; rows of one day; the next rows
    of one unit) has mean 0 under independence, whatever the variances, and the variance
    Σ u_i²·u_j². Only resemblance counts, Q > 0: it is what makes sums of rows swing. Where few rows
    carry the residuals, as with rare outcomes, a finding must also stand out among shuffled ones.

    Parameters
    ----------
    residual : (N,) with mean 0, in the order of time
    day : (N,) whole numbers that do not fall, or None
    unit : (N,) whole numbers, or None
    group : (N,) rows that may be shuffled among each other; None: all
    level : from which on shuffles are asked

    Examples
    --------
    Ten days of 20 rows, of which every other day is good:

    >>> day = np.repeat(np.arange(10), 20)
    >>> noise = np.random.default_rng(0).normal(size=200)
    >>> serial_dependence(noise, day).p > 0.05
    True
    >>> found = serial_dependence(noise + day % 2 - 0.5, day)
    >>> found.p < 0.01, found.inflation > 2
    (True, True)
    """
    u = np.asarray(residual, dtype=float)
    pairs = _pairs(u.size, day, unit)
    if not pairs or not np.any(u):
        return SerialDependence(1.0, 1.0, NEIGHBOURS)
    from scipy.special import ndtr

    def sizes(values: Array) -> Array:
        return np.stack([_standardised(*form(values)) for _, form in pairs])

    z = sizes(u[:, None])[:, 0]
    best = int(z.argmax())
    among, form = pairs[best]
    inflation = 1.0 + 2.0 * float(form(u[:, None])[0][0]) / float((u * u).sum())
    p = min(1.0, len(pairs) * float(ndtr(-z[best])))
    if p <= level and is_rare(u[:, None], kurtosis=_PEAKED):
        rng = np.random.default_rng(_SEED)
        groups = np.zeros(u.size, dtype=np.int64) if group is None else group
        again, _ = resampled_p(
            sizes, u[:, None], lambda n: shuffled(u, groups, n, rng), level, 4 * u.size
        )
        p = max(p, again)
    return SerialDependence(p, max(inflation, 1.0), among)


Form = Callable[[Array], tuple[Array, Array]]


def _pairs(n: int, day: Array | None, unit: Array | None) -> list[tuple[str, Form]]:
    """Return the kinds of pairs, each with Q and its variance as functions of residuals (N, P)."""
    windows = [w for w in _WINDOWS if n >= _LEAST_WINDOWS * w]
    found: list[tuple[str, Form]] = [(NEIGHBOURS, _within_window(w)) for w in windows]
    if day is not None:
        starts = np.flatnonzero(np.diff(day, prepend=day[:1] - 1))
        if 1 < starts.size < n:
            found.append((DAYS, _within_groups(starts)))
    if unit is not None and np.unique(unit).size > 1:
        order = np.argsort(unit, kind="stable")
        is_next = np.diff(unit[order]) == 0
        if is_next.sum() >= _LEAST_WINDOWS:
            found.append((UNITS, _next_of_unit(order, unit, is_next)))
    return found


def _within_window(width: int) -> Form:
    def form(u: Array) -> tuple[Array, Array]:
        return _ahead(u, width), _ahead(u * u, width)

    return form


def _ahead(u: Array, width: int) -> Array:
    """Return Σ_i u_i·(u_{i+1} + … + u_{i+width}) of each column."""
    total = np.cumsum(u, axis=0)
    last = np.minimum(np.arange(u.shape[0]) + width, u.shape[0] - 1)
    return np.asarray((u * (total[last] - total)).sum(axis=0))


def _within_groups(starts: Array) -> Form:
    def form(u: Array) -> tuple[Array, Array]:
        return _together(u, starts), _together(u * u, starts)

    return form


def _together(u: Array, starts: Array) -> Array:
    """Return Σ u_i·u_j over pairs of rows of one group, for each column."""
    total = np.add.reduceat(u, starts, axis=0)
    return np.asarray(0.5 * ((total**2).sum(axis=0) - (u * u).sum(axis=0)))


def _next_of_unit(order: Array, unit: Array, is_next: Array) -> Form:
    """Pairs of a unit's neighbouring rows; its own mean is taken off, a level is no dependence."""
    count = np.bincount(unit)

    def form(u: Array) -> tuple[Array, Array]:
        own = np.stack([np.bincount(unit, one, count.size) for one in u.T], axis=1)
        left = (u - (own / np.maximum(count, 1)[:, None])[unit])[order]
        both = (left[1:] * left[:-1])[is_next]
        return both.sum(axis=0), (both * both).sum(axis=0)

    return form


def _standardised(q: Array, variance: Array) -> Array:
    return np.where(variance > 0, q / np.sqrt(np.where(variance > 0, variance, 1.0)), 0.0)
