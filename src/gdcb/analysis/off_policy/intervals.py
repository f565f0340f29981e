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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gdcb.analysis.off_policy.estimators import NEED_MODEL, Weights, missed, terms_of
from gdcb.analysis.off_policy.feedback import Feedback
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import check_number

_TRUNCATION = 0.5  # c: no bet risks more than this share of the capital
_GRID = 10  # values of v that are tested at a time
_ROUNDS = 6  # of refining them: to 9⁻⁶ of the range
_PIECE = 2**20  # scores held at a time
_MOST = 2**17  # bets that are made; of more rows, neighbours are joined


@dataclass(slots=True)
class Scores:
    """Y(v) = p − v·d of independent rows, within [a₀ − a₁·v, b₀ − b₁·v].

    Parameters
    ----------
    p, d : (G,)
    low, high : (a₀, a₁), (b₀, b₁)
    spread : a first guess of the standard deviation of Y
    """

    p: Array
    d: Array
    low: tuple[float, float]
    high: tuple[float, float]
    spread: float

    def width(self, v: float) -> float:
        """Return the length of the range of Y(v)."""
        return self.high[0] - self.high[1] * v - (self.low[0] - self.low[1] * v)

    def mirrored(self) -> Scores:
        """Return −Y(−v): a lower limit of its root is the upper limit of that of Y."""
        low, high = (-self.high[0], self.high[1]), (-self.low[0], self.low[1])
        return Scores(-self.p, self.d, low, high, self.spread)

    def shuffled(self) -> Scores:
        """Return the scores in an order of chance, the same for all of as many rows.

        Who bets in the order of the log loses or wins it all where that is sorted.
        """
        order = np.random.default_rng(self.p.size).permutation(self.p.size)
        return replace(self, p=self.p[order], d=self.d[order])


def scores_of(
    feedback: Feedback,
    estimator: str,
    weights: Weights,
    reward_range: tuple[float, float],
    weight_bound: float,
) -> tuple[Scores, Scores]:
    """Return the scores of the lower and of the upper limit, rows of a cluster added up.

    What clipping took away counts as worth r̲ for the lower and r̄ for the upper limit.
    """
    if weights.lost is None:
        lower, upper = partial_scores(feedback, estimator, weights, reward_range, weight_bound)
        return lower[0], upper[0]
    low, high = reward_range
    size, least_most = high - low, missed(feedback, estimator, weights, reward_range)
    terms = terms_of(feedback, estimator, weights)
    is_lost = bool((weights.missing > 0).any())
    # Var(ω·r) is at most W·R² or so, and ¼·R² without weights.
    spread = 0.5 * size * math.sqrt(max(weight_bound, 1.0))
    made = []
    for shift, end in zip(least_most, reward_range, strict=True):
        p, d = terms.numerator[:, 0] + shift, np.ones(feedback.n)
        if estimator == "snips":
            # ω·(r − v) + L·(end − v), L up to 1
            d = weights.used + weights.missing
            a, b = (weight_bound + is_lost * (end == here) for here in reward_range)
            made.append(Scores(p, d, (a * low, a), (b * high, b), spread))
            continue
        if estimator == "ips":
            a = min(0.0, weight_bound * low) + is_lost * min(0.0, end)
            b = max(0.0, weight_bound * high) + is_lost * max(0.0, end)
        else:
            a, b = low - weight_bound * size, high + weight_bound * size
        made.append(Scores(p, d, (a, 1.0), (b, 1.0), spread))
    first, second = (_clustered(scores, feedback.cluster) for scores in made)
    return first, second


def cautious_scores(
    feedback: Feedback,
    estimator: str,
    weights: Weights,
    reward_range: tuple[float, float],
    weight_bound: float,
) -> tuple[list[Scores], list[Scores]]:
    """Return scores whose worst value is not far off, for the lower and for the upper limit.

    A bet on 'more' must survive the worst score, which for DR is r̲ − W·R: a surprise where the
    weight is largest. With q̂ brought down to r̲ + k/ω in every cell it is r̲ − k (Waudby-Smith and
    others 2022), and as unbiased; but q̂ then explains less. So some k from R to W·R are all bet
    on. For the upper limit q̂ is brought up to r̄ − k/ω.
    """
    if weights.lost is None:
        return partial_scores(feedback, estimator, weights, reward_range, weight_bound)
    if estimator in ("ips", "snips"):
        first, second = scores_of(feedback, estimator, weights, reward_range, weight_bound)
        return [first], [second]
    low, high = reward_range
    size, one = high - low, np.ones(feedback.n)
    kept = feedback.target - weights.lost  # ω·behaviour
    is_run = feedback.behaviour > 0
    omega = np.where(is_run, kept, 0.0) / np.where(is_run, feedback.behaviour, 1.0)
    lower: list[Scores] = []
    upper: list[Scores] = []
    most = max(weight_bound, 1.0)
    spread = 0.5 * size * math.sqrt(most)
    for k in size * np.geomspace(1.0, most, 1 + round(math.log(most, 4.0))):
        reach = k / np.maximum(omega, 1e-300)
        for limits, outcome in (
            (lower, np.minimum(feedback.outcome, low + reach)),
            (upper, np.maximum(feedback.outcome, high - reach)),
        ):
            changed = replace(feedback, outcome=outcome)
            shift = missed(changed, estimator, weights, reward_range)[limits is upper]
            p = terms_of(changed, estimator, weights).numerator[:, 0] + shift
            a = low - (k if limits is lower else weight_bound * size)
            b = high + (weight_bound * size if limits is lower else k)
            scores = Scores(p, one, (a, 1.0), (b, 1.0), spread)
            limits.append(_clustered(scores, feedback.cluster))
    return lower, upper


def partial_scores(
    feedback: Feedback,
    estimator: str,
    weights: Weights,
    reward_range: tuple[float, float],
    weight_bound: float,
) -> tuple[list[Scores], list[Scores]]:
    """Return the scores where only the probability of what ran is known.

    What the other cells' weights would have been is then unknown, and so is which mass is lost;
    only E[1 − ω | x] = L is known of it. With q̂ brought down to at most r̲ + k and M = max_c q̂_c,

        q̂(x) + ω·(r − q̂) + (1 − ω)·(r̲ − M)

    has at most the value for its mean, whatever was lost, and lies within r̲ − k and
    r̲ + W·(R + k). k = 0 is r̲ + ω·(r − r̲), which asks no model and comes first. The upper limit is
    its mirror image.

    Examples
    --------
    One row with ω = 2 and r = 3 of [0, 10]: 0 + 2·3 below, 10 + 2·(3 − 10) above.

    >>> from gdcb.analysis.off_policy.estimators import weights_of
    >>> known, target = np.array([[0.5, np.nan]]), np.array([[1.0, 0.0]])
    >>> feedback = Feedback(np.array([0]), np.array([3.0]), known, target)
    >>> weights = weights_of(feedback, "ips", None)
    >>> lower, upper = partial_scores(feedback, "ips", weights, (0.0, 10.0), 2.0)
    >>> lower[0].p.tolist(), upper[0].p.tolist()
    ([6.0], [-4.0])
    """
    low, high = reward_range
    size, rows = high - low, np.arange(feedback.n)
    one, spread = np.ones(feedback.n), 0.5 * size * math.sqrt(max(weight_bound, 1.0))
    asks_model = estimator in NEED_MODEL
    reaches = [0.0, size / math.sqrt(max(weight_bound, 1.0)), size] if asks_model else [0.0]
    made: tuple[list[Scores], list[Scores]] = ([], [])
    for k in reaches:
        for limits, end, sign in ((made[0], low, 1.0), (made[1], high, -1.0)):
            outcome = np.full(feedback.target.shape, end)
            if k > 0:
                # Distances from the end of the range, so that both limits are one formula.
                outcome = end + sign * np.clip(sign * (feedback.outcome - end), 0.0, k)
            far = end + sign * (sign * (outcome - end)).max(axis=1)
            direct = (feedback.target * outcome).sum(axis=1)
            rest = feedback.reward - outcome[rows, feedback.cell]
            p = direct + weights.used * rest + weights.missing * (end - far)
            ends = (end - sign * k, end + sign * weight_bound * (size + k))
            a, b = min(ends), max(ends)
            limits.append(_clustered(Scores(p, one, (a, 1.0), (b, 1.0), spread), feedback.cluster))
    return made


def _clustered(scores: Scores, cluster: Array | None) -> Scores:
    """Add up the rows of each cluster, in units of the mean cluster's size."""
    if cluster is None:
        return scores
    owner = np.unique(cluster, return_inverse=True)[1].reshape(-1)
    count = np.bincount(owner)
    unit = scores.p.size / count.size
    largest = float(count.max()) / unit
    p, d = (np.bincount(owner, part) / unit for part in (scores.p, scores.d))
    # Ranges of Y(v) hold 0, so that those of the largest cluster hold all others.
    low, high = ((end[0] * largest, end[1] * largest) for end in (scores.low, scores.high))
    return Scores(p, d, low, high, scores.spread)


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
    lower: list[Scores], upper: list[Scores], reward_range: tuple[float, float], level: float
) -> tuple[float, float]:
    """Return limits by betting against each v (Waudby-Smith and Ramdas 2023, hedged capital).

    Scores scaled to X in [0, 1], m the scaled 0: whoever bets λ_t on every row has the capital
    Π(1 + λ_t·(X_t − m)), a martingale if the mean is m. v is left out once either half of the
    capital, one on 'more' and one on 'less', has grown to 1/α at any row. Where there are several
    scores of the same v, the half is shared out evenly among bets on each. Predictable plug-in:
    λ_t = √(2·ln(2/α)/(n·σ̂²_{t−1})), cut at c/m or c/(1 − m), c = ½. Rows are bet on in an order
    of chance, so that a log which is sorted gets the limits of one which is not.
    """
    low, high = reward_range
    mirrored = [scores.mirrored() for scores in upper]
    alpha = 1.0 - level
    return _last_bet(lower, low, high, alpha), -_last_bet(mirrored, -high, -low, alpha)


def _last_bet(several: list[Scores], low: float, high: float, alpha: float) -> float:
    """Return the largest v below which the bet on 'more' has won, on finer and finer grids."""
    n = several[0].p.size
    several = [scores.shuffled() for scores in several]
    if n > _MOST:
        several = [_clustered(scores, np.arange(n) // -(-n // _MOST)) for scores in several]
    for _ in range(_ROUNDS):
        grid = np.linspace(low, high, _GRID)
        is_out = _most_capital(several, grid, alpha) >= math.log(2.0 / alpha)
        if not is_out[0]:
            return low
        if is_out.all():
            return high
        first_in = int((~is_out).argmax())
        low, high = float(grid[first_in - 1]), float(grid[first_in])
    return low


def _most_capital(several: list[Scores], grid: Array, alpha: float) -> Array:
    """Return the largest log capital over the rows of the bets on 'more', for every v: (M,)."""
    bets = [_Bet(scores, grid, alpha) for scores in several]
    most = np.zeros(grid.size)
    n = several[0].p.size
    step = max(1, _PIECE // grid.size)
    for at in range(0, n, step):
        capital = bets[0].after(slice(at, min(at + step, n)))
        for bet in bets[1:]:
            capital = np.logaddexp(capital, bet.after(slice(at, min(at + step, n))))
        most = np.maximum(most, capital.max(axis=1) - math.log(len(bets)))
    return most


class _Bet:
    """A bet on 'more' at every v of a grid, made row after row."""

    def __init__(self, scores: Scores, grid: Array, alpha: float) -> None:
        self._scores, self._grid = scores, grid[:, None]
        self._start = scores.low[0] - scores.low[1] * self._grid
        self._width = scores.high[0] - scores.high[1] * self._grid - self._start
        self._centre = -self._start / self._width
        self._rate = 2.0 * math.log(2.0 / alpha) / scores.p.size
        self._most_bet = _TRUNCATION / np.maximum(self._centre, 1e-300)
        self._total = self._centre.copy()
        self._square = (scores.spread / self._width) ** 2
        self._capital = np.zeros_like(self._grid)

    def after(self, rows: slice) -> Array:
        """Return the log capital after each of some rows: (M, rows)."""
        p, d = self._scores.p[None, rows], self._scores.d[None, rows]
        x = (p - self._grid * d - self._start) / self._width
        t = np.arange(rows.start, rows.stop) + 1.0
        sums = self._total + np.cumsum(x, axis=1)
        off = self._square + np.cumsum((x - sums / (t + 1.0)) ** 2, axis=1)
        before = np.hstack((self._square, off[:, :-1])) / t
        bet = np.minimum(np.sqrt(self._rate / before), self._most_bet)
        capital = self._capital + np.cumsum(np.log1p(bet * (x - self._centre)), axis=1)
        self._total, self._square, self._capital = sums[:, -1:], off[:, -1:], capital[:, -1:]
        return np.asarray(capital)


def most_lost(weights: Weights, weight_bound: float, cluster: Array | None, level: float) -> float:
    """Return an upper limit of the mean lost mass where it is known by ω alone, by betting.

    L = 1 − E ω, and ω lies in [0, W].
    """
    one = np.ones(weights.used.size)
    spread = 0.5 * math.sqrt(max(weight_bound, 1.0))
    scores = Scores(weights.used, one, (0.0, 1.0), (max(weight_bound, 1.0), 1.0), spread)
    # One side only: all of what may go wrong is its own.
    kept = _last_bet([_clustered(scores, cluster)], 0.0, 1.0, 2.0 * (1.0 - level))
    return 1.0 - kept


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


def bound_of_weights(
    feedback: Feedback,
    weights: Weights,
    clip: float | None,
    weight_bound: float | None,
    level: float,
) -> tuple[float, float, float]:
    """Return W, which share of what may go wrong is left for the limits, and the mass beyond W.

    W is as declared, or the clip, or else the largest weight that any cell could have had in the
    contexts of the log. A new context has a larger one with a probability of at most ln(1/δ)/n,
    with confidence 1 − δ, and its target has no more mass than 1. δ is a tenth of 1 − level.
    """
    used = float(weights.used.max())
    if weight_bound is not None:
        check_number("weight_bound", weight_bound, 0.0, open_low=True)
        if used > weight_bound:
            raise InvalidInput(f"weight_bound: {weight_bound:g}, but a row has weight {used:g}")
        return float(weight_bound), 1.0, 0.0
    if clip is not None:
        return float(clip), 1.0, 0.0
    if weights.most is None:
        raise InvalidInput(
            "weight_bound: expected the largest weight that any cell can have, or a clip: the log "
            "only says how likely what ran was, and not what the largest weight could have been"
        )
    n, largest = feedback.n, 1.0
    if feedback.cluster is not None:
        count = np.unique(feedback.cluster, return_counts=True)[1]
        n, largest = int(count.size), float(count.max() / count.mean())
    return weights.most, 0.9, min(1.0, largest * math.log(10.0 / (1.0 - level)) / n)
