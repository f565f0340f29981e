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
_SKEWED = 0.001  # below it the tail is normal
_SEED = 21  # of shuffles: the same log has the same certificate
NEIGHBOURS, DAYS, UNITS = "neighbouring rows", "rows of the same day", "rows of the same unit"


@dataclass(frozen=True, slots=True)
class SerialDependence:
    """Whether residuals resemble those of other rows more than chance allows.

    Parameters
    ----------
    p : of 'rows are independent', over all kinds of pairs of rows
    inflation : by how much sums of rows vary more than those of independent rows, 1: not at all.
        It is the largest among the kinds of pairs that are significant by themselves (Bonferroni);
        without any, that of the kind with the smallest p
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
    Σ u_i²·u_j². Only resemblance counts, Q > 0: it is what makes sums of rows swing. With few days
    (or windows) Q is skewed, as a sum of few squares is: its tail is that of the gamma law with the
    same three moments. Where few rows carry the residuals, as with rare outcomes, a finding must
    also stand out among shuffled ones.

    Parameters
    ----------
    residual : (N,) with mean 0, in the order of time
    day : (N,) whole numbers that do not fall, or None
    unit : (N,) whole numbers, or None
    group : (N,) rows that may be shuffled among each other; None: all
    level : of the test; from it on shuffles are asked, and inflations compared

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
    pairs = _pairs(u, day, unit)
    if not pairs or not np.any(u):
        return SerialDependence(1.0, 1.0, NEIGHBOURS)

    def sizes(values: Array) -> Array:
        return np.stack([_standardised(*form(values)) for _, form, _ in pairs])

    z = sizes(u[:, None])[:, 0]
    own = np.minimum(1.0, len(pairs) * _tail(z, np.array([skew for *_, skew in pairs])))
    inflation = np.array([float(form(u[:, None])[0][0]) for _, form, _ in pairs])
    inflation = np.maximum(1.0 + 2.0 * inflation / float((u * u).sum()), 1.0)
    p = float(own.min())
    best = int(np.where(own <= level, inflation, 0.0).argmax() if p <= level else own.argmin())
    if p <= level and is_rare(u[:, None], kurtosis=_PEAKED):
        rng = np.random.default_rng(_SEED)
        groups = np.zeros(u.size, dtype=np.int64) if group is None else group
        again, _ = resampled_p(
            sizes, u[:, None], lambda n: shuffled(u, groups, n, rng), level, 4 * u.size
        )
        p = max(p, again)
    return SerialDependence(p, float(inflation[best]), pairs[best][0])


Form = Callable[[Array], tuple[Array, Array]]


def _pairs(u: Array, day: Array | None, unit: Array | None) -> list[tuple[str, Form, float]]:
    """Return the kinds of pairs: Q and its variance as functions of residuals (N, P), and skewness.

    The next rows of a unit are a chain, in which no three rows are all neighbours: no skewness.
    """
    windows = [w for w in _WINDOWS if u.size >= _LEAST_WINDOWS * w]
    found = [(NEIGHBOURS, _within_window(w), _skew_ahead(u, w)) for w in windows]
    if day is not None:
        starts = np.flatnonzero(np.diff(day, prepend=day[:1] - 1))
        if 1 < starts.size < u.size:
            found.append((DAYS, _within_groups(starts), _skew_together(u, starts)))
    if unit is not None and np.unique(unit).size > 1:
        order = np.argsort(unit, kind="stable")
        is_next = np.diff(unit[order]) == 0
        if is_next.sum() >= _LEAST_WINDOWS:
            found.append((UNITS, _next_of_unit(order, unit, is_next), 0.0))
    return found


def _within_window(width: int) -> Form:
    def form(u: Array) -> tuple[Array, Array]:
        return _ahead(u, width), _ahead(u * u, width)

    return form


def _skew_ahead(u: Array, width: int) -> float:
    v = u * u
    last = np.minimum(np.arange(u.size) + width, u.size - 1)
    one, two = (total[last] - total for total in (np.cumsum(v), np.cumsum(v * v)))
    return _skewness(0.5 * float((v * (one**2 - two)).sum()), float(_ahead(v[:, None], width)[0]))


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


def _skewness(third: float, variance: float) -> float:
    """Return 6·Σ u_i²·u_j²·u_k²/Var(Q)^1.5: that of Q under random signs of the residuals.

    `third` is the sum over triples of rows of which all three pairs count.
    """
    return 6.0 * max(third, 0.0) / variance**1.5 if variance > 0 else 0.0


def _tail(z: Array, skew: Array) -> Array:
    """Return P(Z ≥ z) of standardised Z with this skewness, ≥ 0: normal, or a shifted gamma law.

    With skewness 2 it is the exponential law: P(Z ≥ 1) = e⁻².

    >>> _tail(np.array([1.0, 1.0]), np.array([2.0, 0.0])).round(4).tolist()
    [0.1353, 0.1587]
    """
    from scipy.special import gammaincc, ndtr

    shape = 4.0 / np.maximum(skew, _SKEWED) ** 2
    skewed = gammaincc(shape, np.maximum(shape + z * np.sqrt(shape), 0.0))
    return np.where(skew > _SKEWED, skewed, ndtr(-z))


def _skew_together(u: Array, starts: Array) -> float:
    one, two, three = (np.add.reduceat(u ** (2 * m), starts) for m in (1, 2, 3))
    third = float((one**3 - 3.0 * one * two + 2.0 * three).sum()) / 6.0
    return _skewness(third, 0.5 * float((one**2 - two).sum()))


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
