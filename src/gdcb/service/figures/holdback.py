"""What the launched side earns against what is held back, with an interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.pages.numbers import Estimate

LEVEL = 0.95
_LEAST = 2  # clusters a side


@dataclass(frozen=True, slots=True)
class Contrast:
    """Mean reward of both sides, and the difference between them.

    Parameters
    ----------
    live, held_back : means with intervals; None: too few rows
    difference : live less held back, among rows whose side was drawn by lot; None: cannot be had
    n_live, n_held_back : rows with a known reward
    why : why there is no difference; empty where there is one
    """

    live: Estimate | None
    held_back: Estimate | None
    difference: Estimate | None
    n_live: int
    n_held_back: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Mean:
    mean: float
    variance: float
    freedom: float
    n: int


def contrast(reward: Array, is_live: Array, share: Array, cluster: Array) -> Contrast:
    """Compare the rewards of live rows with those that kept the incumbent.

    Parameters
    ----------
    reward : (N,) known rewards
    is_live : (N,) whether the proposal entered the gates
    share : (N,) chance that it did; NaN: nothing was drawn
    cluster : (N,) rows whose side was drawn together share a number

    Notes
    -----
    While a launch is ramped up the share of live rows grows, and the days differ too. So rows are
    compared only with rows of the same share, and the differences are averaged by their numbers of
    rows: Σ n_s/n·(r̄_live,s − r̄_held,s). Its variance is the sum of those of the means, each
    robust to clusters, Σ_c(Σ_{i∈c}(r_i − r̄))²/n²·C/(C − 1), which for rows drawn one by one is
    s²/n. The interval is Welch's, with Satterthwaite's degrees of freedom.

    Assumes: outcomes are missing on both sides alike, and what runs for one row does not change
    the reward of another.

    Examples
    --------
    Two and two rows: means 3 and 1, variances 2/2 and 2/2, so the difference is 2 and its standard
    error √2; with two degrees of freedom t = 4.303.

    >>> import numpy as np
    >>> r, side = np.array([2.0, 4.0, 0.0, 2.0]), np.array([True, True, False, False])
    >>> found = contrast(r, side, np.full(4, 0.5), np.arange(4)).difference
    >>> round(found.mean, 3), round(found.high, 3)
    (2.0, 8.085)
    """
    live = _mean(reward[is_live], cluster[is_live])
    held = _mean(reward[~is_live], cluster[~is_live])
    counts = int(is_live.sum()), int((~is_live).sum())
    sides = (_estimate(live), _estimate(held))
    if not counts[1]:
        return Contrast(*sides, None, *counts, "nothing is held back")
    if not counts[0]:
        return Contrast(*sides, None, *counts, "nothing is live yet")
    is_drawn = (share > 0.0) & (share < 1.0)
    parts = []
    for one in np.unique(share[is_drawn]):
        rows = share == one
        pair = [_mean(reward[rows & side], cluster[rows & side]) for side in (is_live, ~is_live)]
        if pair[0] is not None and pair[1] is not None:
            parts.append((pair[0], pair[1]))
    n = sum(a.n + b.n for a, b in parts)
    if not n:
        return Contrast(*sides, None, *counts, "too few rows whose side was drawn by lot")
    mean = variance = spent = 0.0
    for a, b in parts:
        weight = (a.n + b.n) / n
        mean += weight * (a.mean - b.mean)
        for one in (a, b):
            size = weight**2 * one.variance
            variance += size
            spent += size**2 / one.freedom
    freedom = variance**2 / spent if spent > 0 else 1e9
    return Contrast(*sides, _estimate(_Mean(mean, variance, freedom, n)), *counts)


def _mean(reward: Array, cluster: Array) -> _Mean | None:
    """Return a mean and the variance of it that clusters allow for; None: too few of them."""
    n = int(reward.size)
    _, place = np.unique(cluster, return_inverse=True)
    n_clusters = int(place.max(initial=-1)) + 1
    if n_clusters < _LEAST:
        return None
    mean = float(reward.mean())
    sums = np.bincount(place, reward - mean)
    variance = float((sums**2).sum()) / n**2 * n_clusters / (n_clusters - 1)
    return _Mean(mean, variance, n_clusters - 1.0, n)


def _estimate(one: _Mean | None) -> Estimate | None:
    from scipy.special import stdtrit

    if one is None:
        return None
    half = float(stdtrit(one.freedom, 0.5 + LEVEL / 2)) * one.variance**0.5
    return Estimate(one.mean, one.mean - half, one.mean + half)
