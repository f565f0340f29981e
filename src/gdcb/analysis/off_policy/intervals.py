"""Limits that hold at every sample size: empirical Bernstein, and betting.

Both need bounds that are declared: rewards within [r̲, r̄] and weights up to W. They test one value
v after another: scores Yᵢ(v) = pᵢ − v·dᵢ have mean 0 at the true v (at most 0 where clipping has
taken mass away, for the lower limit; at least 0 for the upper). v is left out where the mean of
Y(v) is surely not 0. With d = 1 that is the usual interval of a mean; with d = w it is one for
SNIPS, whose scores w·(r − v) vary less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.analysis.off_policy.estimators import Terms, Weights, missed
from gdcb.analysis.off_policy.feedback import Feedback
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import check_number

_TRUNCATION = 0.5  # c: no bet risks more than this share of the capital
_GRID = 24  # values of v that are tested at a time
_ROUNDS = 5  # of refining them: to R/23⁵, below 10⁻⁶ of the range
_PIECE = 2**21  # scores held at a time


@dataclass(slots=True)
class Scores:
    """Y(v) = p − v·d of independent rows, within [a₀ − a₁·v, b₀ − b₁·v].

    Parameters
    ----------
    p, d : (G,)
    low, high : (a₀, a₁), (b₀, b₁)
    """

    p: Array
    d: Array
    low: tuple[float, float]
    high: tuple[float, float]

    def width(self, v: float) -> float:
        """Return the length of the range of Y(v)."""
        return self.high[0] - self.high[1] * v - (self.low[0] - self.low[1] * v)

    def mirrored(self) -> Scores:
        """Return −Y(−v): a lower limit of its root is the upper limit of that of Y."""
        low, high = (-self.high[0], self.high[1]), (-self.low[0], self.low[1])
        return Scores(-self.p, self.d, low, high)


def scores_of(
    feedback: Feedback,
    estimator: str,
    weights: Weights,
    terms: Terms,
    reward_range: tuple[float, float],
    weight_bound: float,
) -> tuple[Scores, Scores]:
    """Return the scores of the lower and of the upper limit, rows of a cluster added up.

    What clipping took away counts as worth r̲ for the lower and r̄ for the upper limit.
    """
    low, high = reward_range
    size, least_most = high - low, missed(feedback, estimator, weights, reward_range)
    is_lost = bool((weights.lost > 0).any())
    made = []
    for shift, end in zip(least_most, reward_range, strict=True):
        if estimator == "snips":
            # ω·(r − v) + L·(end − v), L up to 1
            p = terms.numerator[:, 0] + shift
            d = weights.used + weights.lost.sum(axis=1)
            more = 1.0 if is_lost else 0.0
            a, b = weight_bound + more * (end == low), weight_bound + more * (end == high)
            made.append(Scores(p, d, (a * low, a), (b * high, b)))
            continue
        p, d = terms.numerator[:, 0] + shift, np.ones(feedback.n)
        if estimator == "ips":
            a = min(0.0, weight_bound * low) + is_lost * min(0.0, end)
            b = max(0.0, weight_bound * high) + is_lost * max(0.0, end)
        else:
            a, b = low - weight_bound * size, high + weight_bound * size
        made.append(Scores(p, d, (a, 1.0), (b, 1.0)))
    first, second = (_clustered(scores, feedback.cluster) for scores in made)
    return first, second


def _clustered(scores: Scores, cluster: Array | None) -> Scores:
    """Add up the rows of each cluster, in units of the mean cluster's size."""
    if cluster is None:
        return scores
    names, owner = np.unique(cluster, return_inverse=True)
    owner = owner.reshape(-1)
    count = np.bincount(owner)
    unit = scores.p.size / names.size
    largest = float(count.max()) / unit
    p, d = (np.bincount(owner, part) / unit for part in (scores.p, scores.d))
    # Ranges of Y(v) hold 0, so that those of the largest cluster hold all others.
    a, b = scores.low, scores.high
    return Scores(p, d, (a[0] * largest, a[1] * largest), (b[0] * largest, b[1] * largest))


def bernstein_interval(
    lower: Scores, upper: Scores, reward_range: tuple[float, float], level: float
) -> tuple[float, float]:
    """Return limits by the empirical Bernstein inequality (Maurer and Pontil 2009, theorem 4).

    For n independent scores in a range of length B, V their sample variance, with probability
    1 − δ: mean ≥ Ȳ − √(2·V·ln(2/δ)/n) − 7·B·ln(2/δ)/(3·(n − 1)). δ = (1 − level)/2 a side.
    """
    n, log = lower.p.size, math.log(4.0 / (1.0 - level))
    if n < 2:
        return reward_range

    def is_below(scores: Scores) -> Callable[[float], bool]:
        p, d = scores.p.mean(), scores.d.mean()
        pp, pd, dd = np.cov(scores.p, scores.d)[[0, 0, 1], [0, 1, 1]]

        def surely(v: float) -> bool:
            variance = max(float(pp - 2.0 * v * pd + v * v * dd), 0.0)
            off = math.sqrt(2.0 * variance * log / n)
            off += 7.0 * scores.width(v) * log / (3.0 * (n - 1))
            return bool(p - v * d > off)

        return surely

    low, high = reward_range
    return _last(is_below(lower), low, high), -_last(is_below(upper.mirrored()), -high, -low)


def _last(is_below: Callable[[float], bool], low: float, high: float) -> float:
    """Return the largest v in [low, high] that is surely below the value, by bisection."""
    if not is_below(low):
        return low
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return low


def betting_interval(
    lower: Scores, upper: Scores, reward_range: tuple[float, float], level: float
) -> tuple[float, float]:
    """Return limits by betting against each v (Waudby-Smith and Ramdas 2023, hedged capital).

    Scores scaled to X in [0, 1], m the scaled 0: whoever bets λ_t on every row has the capital
    Π(1 + λ_t·(X_t − m)), a martingale if the mean is m. v is left out once either half of the
    capital, one on 'more' and one on 'less', has grown to 1/α at any row. Predictable plug-in:
    λ_t = √(2·ln(2/α)/(n·σ̂²_{t−1})), cut at c/m or c/(1 − m), c = ½.
    """
    low, high = reward_range
    alpha = 1.0 - level
    return (
        _last_bet(lower, low, high, alpha),
        -_last_bet(upper.mirrored(), -high, -low, alpha),
    )


def _last_bet(scores: Scores, low: float, high: float, alpha: float) -> float:
    """Return the largest v below which the bet on 'more' has won, on finer and finer grids."""
    for _ in range(_ROUNDS):
        grid = np.linspace(low, high, _GRID)
        is_out = _most_capital(scores, grid, alpha) >= math.log(2.0 / alpha)
        if not is_out[0]:
            return low
        first_in = _GRID if is_out.all() else int((~is_out).argmax())
        if first_in == _GRID:
            return high
        low, high = float(grid[first_in - 1]), float(grid[first_in])
    return low


def _most_capital(scores: Scores, grid: Array, alpha: float) -> Array:
    """Return the largest log capital over the rows of the bet on 'more', for every v: (M,)."""
    n, m = scores.p.size, grid.size
    start = (scores.low[0] - scores.low[1] * grid)[:, None]
    width = (scores.high[0] - scores.high[1] * grid)[:, None] - start
    centre = -start / width
    rate = 2.0 * math.log(2.0 / alpha) / n
    most_bet = _TRUNCATION / np.maximum(centre, 1e-300)
    total, square = np.full((m, 1), 0.5), np.full((m, 1), 0.25)
    capital, most = np.zeros((m, 1)), np.zeros((m, 1))
    step = max(1, _PIECE // m)
    for at in range(0, n, step):
        p, d = scores.p[None, at : at + step], scores.d[None, at : at + step]
        x = (p - grid[:, None] * d - start) / width
        t = np.arange(at, at + p.shape[1]) + 1.0
        sums = total + np.cumsum(x, axis=1)
        off = square + np.cumsum((x - sums / (t + 1.0)) ** 2, axis=1)
        before = np.hstack((square, off[:, :-1])) / t
        bet = np.minimum(np.sqrt(rate / before), most_bet)
        capital = capital[:, -1:] + np.cumsum(np.log1p(bet * (x - centre)), axis=1)
        most = np.maximum(most, capital.max(axis=1, keepdims=True))
        total, square = sums[:, -1:], off[:, -1:]
    return np.asarray(most[:, 0])


def check_range(feedback: Feedback, reward_range: Any) -> None:
    """Refuse a range that is none, or that does not hold the rewards."""
    if not isinstance(reward_range, tuple | list) or len(reward_range) != 2:
        raise InvalidInput(f"reward_range: expected (low, high), got {reward_range!r}")
    for end in reward_range:
        check_number("reward_range", end)
    if not reward_range[0] < reward_range[1]:
        raise InvalidInput(f"reward_range: expected low < high, got {reward_range}")
    least, most = float(feedback.reward.min()), float(feedback.reward.max())
    if least < reward_range[0] or most > reward_range[1]:
        raise InvalidInput(
            f"reward_range: expected to hold all rewards, {least:g} to {most:g}, got {reward_range}"
        )
