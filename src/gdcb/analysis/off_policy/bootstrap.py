"""Bootstrap intervals of sums of ratios: rows, or whole clusters, are drawn again.

A draw needs the sums of a few columns only, so that thousands of them are one matrix product.
Models and propensities stay as they are: a cross-fitted model is not fitted again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gdcb.analysis.off_policy.estimators import Terms
from gdcb.arrays import Array
from gdcb.errors import InvalidInput

FORMS = ("studentised", "percentile", "bca")
_MOST = 10_000  # clusters that are drawn; of more, neighbours are joined
_PIECE = 2**22  # counts held at a time


@dataclass(slots=True)
class Sums:
    """Column sums of G clusters, numerators centred on their ratio.

    Parameters
    ----------
    numerator, denominator : (G, J), Σ numerator = 0
    value : the estimate
    """

    numerator: Array
    denominator: Array
    value: float

    @property
    def influence(self) -> Array:
        """What each cluster adds to the estimate's error: (G,), sum 0."""
        return np.asarray((self.numerator / self.denominator.sum(axis=0)).sum(axis=1))

    @property
    def standard_error(self) -> float:
        """√(G/(G − 1)·Σ influence²); infinite for one cluster."""
        g = self.numerator.shape[0]
        if g < 2:
            return float("inf")
        return float(np.sqrt(g / (g - 1) * (self.influence**2).sum()))

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the standard error, after Satterthwaite; at least 1.

        2·(Σφ²)²/(Σφ⁴ − (Σφ²)²/G), φ the influences: G where they are normal, and about the number
        of clusters that carry the estimate where those are few.
        """
        square, g = self.influence**2, self.numerator.shape[0]
        total = float(square.sum())
        excess = float((square**2).sum()) - total**2 / g
        if total == 0.0 or excess <= 2.0 * total**2 / g:
            return float(g)
        return float(max(1.0, 2.0 * total**2 / excess))


def sums_of(terms: Terms, cluster: Array | None) -> Sums:
    """Add up the terms of each cluster; beyond 10,000 clusters, of neighbouring ones."""
    ratio = terms.numerator.sum(axis=0) / terms.denominator.sum(axis=0)
    columns = np.hstack((terms.numerator - ratio * terms.denominator, terms.denominator))
    if cluster is not None:
        names, owner = np.unique(cluster, return_inverse=True)
        columns = _added(columns, owner.reshape(-1), names.size)
    if columns.shape[0] > _MOST:
        g = columns.shape[0]
        columns = _added(columns, np.arange(g) * _MOST // g, _MOST)
    j = ratio.size
    return Sums(columns[:, :j], columns[:, j:], float(ratio.sum()))


def effective_others(reward: Array, weight: Array, cluster: Array | None) -> float:
    """Return how many effective rows, or clusters, have another reward than the most common one.

    An estimate of rewards that are nearly all alike rests on the few that are not, and so does its
    standard error.

    Examples
    --------
    Rewards 0, 0, 0, 1, 1 and a weight of 0 for the last row: one row differs.

    >>> effective_others(np.array([0.0, 0, 0, 1, 1]), np.array([1.0, 1, 1, 2, 0]), None)
    1.0
    """
    counts = weight > 0
    if not counts.any():
        return 0.0
    which, times = np.unique(reward[counts], return_inverse=True, return_counts=True)[1:]
    w = np.where(which.reshape(-1) == times.argmax(), 0.0, weight[counts])
    if cluster is not None:
        w = np.bincount(np.unique(cluster[counts], return_inverse=True)[1].reshape(-1), w)
    square = float((w**2).sum())
    return float(w.sum()) ** 2 / square if square > 0 else 0.0


def effective_spread(reward: Array, weight: Array, cluster: Array | None) -> float:
    """Return how many effective rows, or clusters, make up the spread of the rewards.

    (Σ w·d²)²/Σ (w·d²)², d being a reward less the weighted mean. Of rows drawn from a normal law a
    third count. A few rewards far from all others count as those few: the log hardly tells how
    often such rewards come.

    Examples
    --------
    Two rewards of 50 among forty that are about 1: 2 rows.

    >>> reward = np.concatenate((np.linspace(0.9, 1.1, 38), [50.0, 50.0]))
    >>> round(effective_spread(reward, np.ones(40), None), 1)
    2.2
    """
    if not (weight > 0).any():
        return 0.0
    share = weight * (reward - np.average(reward, weights=weight)) ** 2
    if cluster is not None:
        share = np.bincount(np.unique(cluster, return_inverse=True)[1].reshape(-1), share)
    square = float((share**2).sum())
    return float(share.sum()) ** 2 / square if square > 0 else 0.0


def _added(columns: Array, owner: Array, size: int) -> Array:
    return np.stack([np.bincount(owner, column, size) for column in columns.T], axis=1)


@dataclass(slots=True)
class Draws:
    """An estimate drawn again B times.

    Parameters
    ----------
    sums : what was drawn from
    moved, errors : (B,) V* − V̂, and the standard error s* of each draw by its own influence
    """

    sums: Sums
    moved: Array
    errors: Array

    def interval(self, level: float, form: str = "studentised") -> tuple[float, float]:
        """Return the limits between which the value lies with about probability `level`.

        'studentised' (bootstrap-t): V̂ − q·ŝ, q the quantiles of (V* − V̂)/s*. It follows the
        skewness that large weights give: second-order accurate. But draws cannot know that ŝ rests
        on a few rows, so it is never shorter, on either side, than Student's t with the effective
        degrees of freedom of ŝ. 'percentile': quantiles of V*. 'bca': the same, corrected for bias
        and acceleration. Rows that do not differ at all say nothing about their noise: no limits,
        −∞ to ∞.
        """
        value, error, tail = self.sums.value, self.sums.standard_error, (1.0 - level) / 2.0
        from scipy.special import stdtrit

        if error == 0.0:
            return -np.inf, np.inf
        if form == "studentised":
            # A draw without spread says nothing about its size.
            is_good = self.errors > 0
            t = np.where(is_good, self.moved / np.where(is_good, self.errors, 1.0), 0.0)
            low, high = np.quantile(t, [tail, 1.0 - tail])
            half = float(stdtrit(self.sums.freedom, 1.0 - tail))
            return value - max(float(high), half) * error, value - min(float(low), -half) * error
        shares = np.array([tail, 1.0 - tail])
        if form == "bca":
            shares = _corrected(self.sums.influence, self.moved, shares)
        low, high = value + np.quantile(self.moved, shares)
        return float(low), float(high)


def draw_again(terms: Terms, cluster: Array | None, draws: int, rng: np.random.Generator) -> Draws:
    """Draw rows, or clusters, with replacement, and estimate again each time.

    Examples
    --------
    The mean of 1, 2 and 6 is 3; its standard error √(14/(3·2)) comes from deviations −2, −1, 3.

    >>> terms = Terms(np.array([[1.0], [2.0], [6.0]]), np.ones((3, 1)))
    >>> drawn = draw_again(terms, None, 500, np.random.default_rng(0))
    >>> drawn.sums.value, bool(np.isclose(drawn.sums.standard_error, (14 / 6) ** 0.5))
    (3.0, True)
    """
    sums = sums_of(terms, cluster)
    if sums.numerator.shape[0] < 2:
        raise InvalidInput("bootstrap: expected at least 2 rows, or clusters, to draw from")
    moved, errors = (np.concatenate(part) for part in zip(*_drawn(sums, draws, rng), strict=True))
    return Draws(sums, moved, errors)


def _drawn(sums: Sums, draws: int, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    """Yield V* − V̂ and s* of some draws at a time."""
    columns = np.hstack((sums.numerator, sums.denominator))
    g, k = columns.shape
    j = k // 2
    first, second = np.triu_indices(k)
    all_columns = np.hstack((columns, columns[:, first] * columns[:, second]))
    twice = np.where(first == second, 1.0, 2.0)
    step = max(1, _PIECE // g)
    for start in range(0, draws, step):
        n = min(step, draws - start)
        picked = rng.integers(0, g, size=(n, g)) + np.arange(n)[:, None] * g
        times = np.bincount(picked.ravel(), minlength=n * g).reshape(n, g)
        found = times.astype(float) @ all_columns
        top, bottom = found[:, :j], found[:, j:k]
        # A draw in which no weight is above 0 has no ratio: it counts as unmoved.
        is_good = bottom > 0
        bottom = np.where(is_good, bottom, 1.0)
        ratio = np.where(is_good, top / bottom, 0.0)
        slope = np.hstack((is_good / bottom, -ratio / bottom))
        square = (slope[:, first] * slope[:, second] * twice * found[:, k:]).sum(axis=1)
        yield ratio.sum(axis=1), np.sqrt(np.maximum(square, 0.0) * g / (g - 1))


def _corrected(influence: Array, moved: Array, shares: Array) -> Array:
    """Return the shares at which BCa reads the quantiles of V*."""
    from scipy.special import ndtr, ndtri

    below = (moved < 0).mean() + 0.5 * (moved == 0).mean()
    shift = ndtri(np.clip(below, 1.0 / moved.size, 1.0 - 1.0 / moved.size))
    bend = (influence**3).sum() / (6.0 * (influence**2).sum() ** 1.5)
    z = shift + ndtri(shares)
    return np.asarray(ndtr(shift + z / (1.0 - bend * z)))
