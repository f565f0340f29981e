"""How strong a hidden cause would have to be to overturn what a history says of arms.

By how much it would have to change the odds of choosing one: the marginal sensitivity model (Tan
2006). Of slopes see `gdcb.analysis.robustness`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.analysis.hidden_bounds import ArmResiduals
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import check_number

# Odds ratios at which a crossing is looked for, and halvings between two of them: of bounds, which
# cost nothing, and of bounds with errors.
_QUICK, _SLOW = (48, 30), (12, 10)


@dataclass(frozen=True, slots=True)
class ArmBounds:
    """Bounds of every arm's mean under a hidden cause of at most some odds ratio Λ: (K,) each.

    Parameters
    ----------
    low, high : of E[r(a)] over all rows' contexts; NaN for arms without rows
    low_error, high_error : their standard errors
    odds_ratio : Λ
    """

    low: Array
    high: Array
    low_error: Array
    high_error: Array
    odds_ratio: float


@dataclass(frozen=True, slots=True)
class Tipping:
    """The odds ratio from which on a hidden cause may change which arm is best.

    Parameters
    ----------
    value : Λ*, the smallest Λ at which bounds cross; NaN where no two arms can be compared
    low : its lower confidence limit: below it they do not cross even when sampling error is
        allowed for. 1: sampling error alone may change the order
    best, rival : the arm that looks best, and whose upper bound its lower bound meets first; −1
    estimates : (K,) of the arms' means without a hidden cause, NaN where not judged
    is_beyond : whether bounds did not cross up to the largest Λ looked at, which `value` then is
    says : one sentence
    """

    value: float
    low: float
    best: int
    rival: int
    estimates: Array
    is_beyond: bool
    says: str


def arm_bounds(
    outcome: Array,
    arm: Array,
    n_arms: int,
    propensity: Array,
    odds_ratio: float,
    *,
    predicted: Array | None = None,
    strata: int = 5,
    floor: float = 0.01,
) -> ArmBounds:
    """Bound every arm's mean where a hidden cause changes the odds of choosing it by at most Λ.

    Rows that did not run arm a would have earned m(x) plus a residual whose law is that of the
    arm's own residuals, tilted by a ratio r within [1/Λ, Λ] that averages to 1. With
    v = (1 − P)/P, the upper bound is mean{T·Y + (1 − T)(m + C_s)}, and in each stratum s of m
    C_s = max Σ v·r·(Y − m)/Σ v over 1/Λ ≤ r ≤ Λ, Σ v·r = Σ v. That is a linear programme whose
    answer is r = Λ for the largest residuals, a share 1/(1 + Λ) of Σ v, and 1/Λ for the rest. It
    is the quantile balancing of Dorn and Guo (2022) with quantiles of the form m(x) + q_s: sharp
    where residuals have one law within a stratum, otherwise valid and somewhat too wide, as are
    bounds without any balance (Zhao, Small and Bhattacharya 2019) to a larger extent. At Λ = 1 it
    is the doubly robust (AIPW) estimate with normalised weights.

    Parameters
    ----------
    outcome : (N,) r
    arm : (N,) arm that ran, −1: none of them
    n_arms : K
    propensity : P(a | x) of the arm that ran (N,), or of every arm (N, K)
    odds_ratio : Λ ≥ 1
    predicted : (N, K) m(a, x), cross-fitted; None: the arm's mean
    strata : of m, at most, and at least 50 rows of the arm in each
    floor : smaller propensities are raised to it

    Notes
    -----
    Assumes: P(a | x) is right, or Λ covers by how much it is not; outcomes of other rows do not
    depend on this row's arm. A right m makes up for a wrong P at Λ = 1 only.

    Stops applying: one Λ for every arm and context is a worst case; the bounds of two arms are not
    reached by one and the same hidden cause, so that a crossing is found rather too early.

    Examples
    --------
    Arm 0 earned 0 and 1 in two of four rows, with P = ½: v = 1. At Λ = 3 the larger residual has
    a share of ¼ of Σv = 2, so half a row, at r = 3, the rest at 1/3: C = (½·3·½ + ½·⅓·½ − ⅓·½)/2
    = 1/3, and the mean of 0, 1 and twice ½ + 1/3 is 2/3. Arm 1 always earned 5.

    >>> outcome, arm = np.array([0.0, 1.0, 5.0, 5.0]), np.array([0, 0, 1, 1])
    >>> found = arm_bounds(outcome, arm, 2, np.full(4, 0.5), 3.0)
    >>> found.low.round(4).tolist(), found.high.round(4).tolist()
    ([0.3333, 5.0], [0.6667, 5.0])
    """
    check_number("odds_ratio", odds_ratio, 1.0, 1e6)
    arms = _arms(outcome, arm, n_arms, propensity, predicted, strata, floor)
    out = np.full((4, int(n_arms)), np.nan)
    for a, one in enumerate(arms):
        if one is not None:
            n = one.outcome.size
            for side, sign in enumerate((-1.0, 1.0)):
                parts = one.influence(odds_ratio, sign)
                out[side, a] = parts.mean()
                out[2 + side, a] = parts.std(ddof=1) / math.sqrt(n) if n > 1 else math.inf
    return ArmBounds(out[0], out[1], out[2], out[3], float(odds_ratio))


def tipping(
    outcome: Array,
    arm: Array,
    n_arms: int,
    propensity: Array,
    *,
    predicted: Array | None = None,
    names: Sequence[str] | None = None,
    margin: float = 0.0,
    level: float = 0.95,
    most: float = 20.0,
    least_rows: int = 20,
    cluster: Array | None = None,
    strata: int = 5,
    floor: float = 0.01,
) -> Tipping:
    """Find the smallest odds ratio Λ* at which the arm that looks best may not be best.

    Λ* is where the lower bound of the best arm first falls to another's upper bound (`arm_bounds`).
    Its lower limit is where (lower − upper) first falls to z times its standard error, from the
    same rows' influences in both bounds; z is one-sided at `level`, by Bonferroni over arms, any of
    which may look best: 'this arm is best below this Λ' is false with probability 1 − level.

    Parameters
    ----------
    outcome, arm, n_arms, propensity, predicted, strata, floor : as for `arm_bounds`
    names : (K,) of the arms, for the sentence
    margin : another arm counts as better only if it is by more than this
    level : of the lower limit
    most : largest Λ looked at
    least_rows : arms with fewer rows are not compared
    cluster : (N,) whole numbers; rows of a cluster may depend on each other. None: independent

    Notes
    -----
    Assumes: as `arm_bounds`.

    Stops applying: an arm that was never tried is no rival here. Where several arms are nearly
    equally good Λ* is near 1, however good the history: give a margin.

    Examples
    --------
    Arm 1 earns 10 more than arm 0, in which outcomes are within 1: no hidden cause is enough.

    >>> outcome = np.concatenate((np.tile([0.0, 1.0], 50), np.tile([10.0, 11.0], 50)))
    >>> found = tipping(outcome, np.repeat([0, 1], 100), 2, np.full(200, 0.5), most=20.0)
    >>> found.best, found.value, found.is_beyond
    (1, 20.0, True)
    """
    check_number("level", level, 0.5, 1.0 - 1e-12)
    check_number("margin", margin, 0.0)
    check_number("most", most, 1.0, 1e6, open_low=True)
    check_number("least_rows", least_rows, 2)
    arms = _arms(outcome, arm, n_arms, propensity, predicted, strata, floor)
    owner = _clusters(cluster, np.size(outcome))
    named = [f"arm {a}" for a in range(int(n_arms))] if names is None else [str(n) for n in names]
    if len(named) != int(n_arms):
        raise InvalidInput(f"names: expected {n_arms}, got {len(named)}")
    judged = [a for a, one in enumerate(arms) if one is not None and one.n >= least_rows]
    estimates = np.full(int(n_arms), np.nan)
    held = {a: one for a, one in enumerate(arms) if one is not None}
    for a in judged:
        estimates[a] = held[a].bound(1.0, 1.0)
    if len(judged) < 2:
        said = "Fewer than two arms have enough rows to be compared."
        best = judged[0] if judged else -1
        return Tipping(math.nan, math.nan, best, -1, estimates, False, said)
    best = max(judged, key=lambda a: float(estimates[a]))
    rivals = [a for a in judged if a != best]

    def gaps(ratio: float) -> Array:
        above = held[best].bound(ratio, -1.0)
        return np.array([above - held[a].bound(ratio, 1.0) + margin for a in rivals])

    z = _quantile(1.0 - (1.0 - level) / len(judged))

    def safe(ratio: float) -> Array:
        out, low = np.empty(len(rivals)), held[best].influence(ratio, -1.0)
        for i, a in enumerate(rivals):
            apart = low - held[a].influence(ratio, 1.0)
            out[i] = apart.mean() + margin - z * _error(apart, owner)
        return out

    value, rival, is_beyond = _first_crossing(gaps, most, *_QUICK)
    low, _, _ = _first_crossing(safe, value, *_SLOW)
    what = "rows" if owner is None else "clusters"
    rests = f"if {what} are independent and the probabilities of the arms are right"
    said = _sentence(named[best], named[rivals[rival]], low, margin, rests)
    return Tipping(value, low, best, rivals[rival], estimates, is_beyond, said)


def _sentence(best: str, rival: str, low: float, margin: float, rests: str) -> str:
    by = f" by more than {margin:g}" if margin > 0 else ""
    if low <= 1.0 + 1e-9:
        return (
            f"{best} looks best, but sampling error alone may change that: no hidden cause is "
            f"needed for {rival} to be better{by}, {rests}."
        )
    shown = math.floor(100 * low) / 100
    if margin > 0:
        end = f"cannot make another arm better than {best}{by}"
    else:
        end = f"cannot change which arm is best ({best})"
    start = "A hidden cause that changes the odds of choosing an arm by less than a factor"
    return f"{start} {shown:.2f} {end}, {rests}."


def _quantile(level: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(level))


def _error(parts: Array, owner: Array | None) -> float:
    """Return the standard error of the mean of parts, whose clusters are independent."""
    centred = parts - parts.mean()
    n_parts = parts.size
    if owner is not None:
        centred = np.bincount(owner, centred)
        n_parts = centred.size
    if n_parts < 2:
        return math.inf
    return math.sqrt(float((centred**2).sum()) * n_parts / (n_parts - 1)) / parts.size


def _first_crossing(
    gaps: Callable[[float], Array], most: float, n_grid: int, n_halvings: int
) -> tuple[float, int, bool]:
    """Return the smallest Λ at which a gap is 0 or less, whose, and whether there is none."""
    grid = np.geomspace(1.0, most, n_grid) if most > 1.0 else np.ones(1)
    below, rival = 0.0, 0
    for above in grid.tolist():
        there = gaps(above)
        rival = int(there.argmin())
        if there.min() <= 0:
            break
        below = above
    else:
        return float(most), rival, True
    if below == 0:
        return 1.0, rival, False
    for _ in range(n_halvings):
        middle = math.sqrt(below * above)
        there = gaps(middle)
        if there.min() > 0:
            below = middle
        else:
            above, rival = middle, int(there.argmin())
    return below, rival, False


def _clusters(cluster: Any, n: int) -> Array | None:
    if cluster is None:
        return None
    owner = np.asarray(cluster)
    if owner.shape != (n,) or owner.dtype.kind not in "iu":
        raise InvalidInput(f"cluster: expected {n} whole numbers, got {owner.dtype} {owner.shape}")
    return np.asarray(np.unique(owner, return_inverse=True)[1].reshape(-1))


def _arms(
    outcome: Any, arm: Any, n_arms: int, propensity: Any, predicted: Any, strata: int, floor: float
) -> list[ArmResiduals | None]:
    """Check the rows, and return the residuals of each arm that has some."""
    check_number("n_arms", n_arms, 1)
    check_number("strata", strata, 1)
    check_number("floor", floor, 0.0, 0.5, open_low=True)
    y, ran, k = np.asarray(outcome, dtype=float), np.asarray(arm), int(n_arms)
    n = y.size
    if y.ndim != 1 or n == 0 or not np.isfinite(y).all():
        raise InvalidInput(f"outcome: expected finite numbers (N,), N >= 1, got {y.shape}")
    if ran.shape != (n,) or ran.dtype.kind not in "iu" or (ran < -1).any() or (ran >= k).any():
        raise InvalidInput(f"arm: expected {n} whole numbers from -1 to {k - 1}, got {ran.shape}")
    chance = np.asarray(propensity, dtype=float)
    if chance.shape == (n, k):
        chance = chance[np.arange(n), np.maximum(ran, 0)]
    if chance.shape != (n,):
        raise InvalidInput(f"propensity: expected ({n},) or ({n}, {k}), got {chance.shape}")
    chance = np.where(ran >= 0, chance, 1.0)
    if not ((chance > 0) & (chance <= 1)).all():
        raise InvalidInput("propensity: expected numbers > 0 and <= 1 of the arms that ran")
    told = None if predicted is None else np.asarray(predicted, dtype=float)
    if told is not None and (told.shape != (n, k) or not np.isfinite(told).all()):
        raise InvalidInput(f"predicted: expected finite numbers ({n}, {k}), got {told.shape}")
    chance = np.maximum(chance, floor)
    out: list[ArmResiduals | None] = []
    for a in range(k):
        ours = ran == a
        if not ours.any():
            out.append(None)
            continue
        mean = np.full(n, y[ours].mean()) if told is None else told[:, a]
        out.append(ArmResiduals.of(y, ours, chance, mean, int(strata)))
    return out
