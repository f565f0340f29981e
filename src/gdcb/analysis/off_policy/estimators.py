"""DM, IPS, SNIPS, DR and their kin, as sums of ratios of column sums.

With w = target/behaviour of the executed cell, q̂ the outcome model and
q̂(x) = Σ_c target(c | x)·q̂(c, x), the mean over rows being meant:

    dm         q̂(x)
    ips        w·r
    snips      Σ w·r / Σ w
    dr         q̂(x) + w·(r − q̂)
    sndr       q̂(x) + Σ w·(r − q̂) / Σ w
    switch-dr  q̂(x) + w·(r − q̂) where w ≤ τ, q̂(x) beyond

Each is Σ_j Σ_i numerator_ij / Σ_i denominator_ij, so that a bootstrap draw, a variance or a
jackknife needs sums of columns only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gdcb.analysis.off_policy.feedback import Feedback
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import check_choice, check_number

ESTIMATORS = ("dm", "ips", "snips", "dr", "sndr", "switch-dr")
NEED_MODEL = ("dm", "dr", "sndr", "switch-dr")
SWITCH = 10.0  # weight beyond which switch-DR leaves the rewards, unless told otherwise


@dataclass(slots=True)
class Weights:
    """The weights ω that an estimate uses, and what they leave out.

    Parameters
    ----------
    raw, used : (N,) target/behaviour of the executed cell, and ω: clipped, or 0 beyond the switch
    lost : (N, C) target − ω·behaviour of every cell: mass of the target that no row stands for.
        The mean of E[r | cell, x] over it is what an estimate without a model misses. None where
        only the probability of what ran is known
    missing : (N,) its sum over cells; where `lost` is None, Σ_c target − ω, which has the same
        mean given x (but not the same value in a row)
    most : largest ω that any cell of these contexts could have had; None where that is not known
    """

    raw: Array
    used: Array
    lost: Array | None
    missing: Array
    most: float | None


@dataclass(slots=True)
class Terms:
    """An estimate as Σ_j Σ_i numerator_ij / Σ_i denominator_ij: (N, J) each."""

    numerator: Array
    denominator: Array

    @property
    def value(self) -> float:
        """The estimate."""
        return float((self.numerator.sum(axis=0) / self.denominator.sum(axis=0)).sum())


def check_clip(estimator: str, clip: float | None) -> None:
    """Refuse an unknown estimator, and a clip that is no number above 0."""
    check_choice("estimator", estimator, ESTIMATORS)
    if clip is not None:
        check_number("clip", clip, 0.0, open_low=True)


def weights_of(feedback: Feedback, estimator: str, clip: float | None) -> Weights:
    """Return the weights of an estimator; `clip` is τ for 'switch-dr'."""
    check_clip(estimator, clip)
    target, behaviour, raw = feedback.target, feedback.behaviour, feedback.weight
    if feedback.is_partial:
        limit = _limit(estimator, clip)
        used = np.where(raw <= limit, raw, 0.0 if estimator == "switch-dr" else limit)
        missing = target.sum(axis=1) - used
        return Weights(raw, used, None, missing, limit if math.isfinite(limit) else None)
    if estimator == "switch-dr":
        limit = SWITCH if clip is None else float(clip)
        used = np.where(raw <= limit, raw, 0.0)
        is_kept = target <= limit * behaviour
        lost = np.where(is_kept, 0.0, target)
    elif clip is None:
        used = raw
        is_kept = behaviour > 0
        lost = np.where(is_kept, 0.0, target)
    else:
        limit = float(clip)
        used = np.minimum(raw, limit)
        is_kept = behaviour > 0
        lost = np.maximum(target - limit * behaviour, 0.0)
    possible = np.where(is_kept & (behaviour > 0), target, 0.0) / np.where(
        behaviour > 0, behaviour, 1.0
    )
    most = float(possible.max())
    if clip is not None:
        most = min(most, float(clip))
    return Weights(raw, used, lost, lost.sum(axis=1), most)


def _limit(estimator: str, clip: float | None) -> float:
    """Return the weight beyond which something is cut; infinite where nothing is."""
    if clip is None:
        return SWITCH if estimator == "switch-dr" else math.inf
    return float(clip)


def terms_of(feedback: Feedback, estimator: str, weights: Weights) -> Terms:
    """Return the columns whose sums are the estimate.

    Examples
    --------
    Even play over two cells, a target that always runs cell 0: w = 2 and 0, r = 3 and 5, so that
    IPS is (2·3 + 0·5)/2 = 3. With q̂ = 2 in cell 0, DR is 2 + (2·(3 − 2) + 0)/2 = 3 too, and DM 2.

    >>> even, first = np.full((2, 2), 0.5), np.array([[1.0, 0.0], [1.0, 0.0]])
    >>> q = np.array([[2.0, 4.0], [2.0, 4.0]])
    >>> feedback = Feedback(np.array([0, 1]), np.array([3.0, 5.0]), even, first, q)
    >>> [estimate(feedback, name) for name in ("ips", "snips", "dm", "dr")]
    [3.0, 3.0, 2.0, 3.0]
    """
    one, w, r = np.ones((feedback.n, 1)), weights.used[:, None], feedback.reward[:, None]
    if estimator in ("snips", "sndr") and not w.sum() > 0:
        raise InvalidInput("weights: no row ran a cell that the target would run; ask another way")
    if estimator == "ips":
        return Terms(w * r, one)
    if estimator == "snips":
        return Terms(w * r, w)
    direct, rest = _model_parts(feedback)
    if estimator == "dm":
        return Terms(direct, one)
    if estimator == "sndr":
        return Terms(np.hstack((direct, w * rest)), np.hstack((one, w)))
    return Terms(direct + w * rest, one)


def estimate(feedback: Feedback, estimator: str = "dr", clip: float | None = None) -> float:
    """Return the value of the target alone, without an interval; see `evaluate`."""
    return terms_of(feedback, estimator, weights_of(feedback, estimator, clip)).value


def _model_parts(feedback: Feedback) -> tuple[Array, Array]:
    """Return Σ_c target·q̂ and r − q̂ of the executed cell: (N, 1) each."""
    if feedback.outcome is None:
        raise InvalidInput(
            f"outcome: {', '.join(NEED_MODEL)} need E[r | cell, x] (see outcome_model); "
            "take 'ips' or 'snips' without it"
        )
    direct = (feedback.target * feedback.outcome).sum(axis=1, keepdims=True)
    ran = feedback.outcome[np.arange(feedback.n), feedback.cell]
    return direct, (feedback.reward - ran)[:, None]


def missed(
    feedback: Feedback, estimator: str, weights: Weights, reward_range: tuple[float, float]
) -> tuple[Array, Array]:
    """Return what the lost mass may be worth beyond the estimate, least and most: (N,) each.

    Σ_c lost_c·(r̲ − q̂_c) and Σ_c lost_c·(r̄ − q̂_c), q̂ = 0 where there is no model. Where the lost
    mass is known by its total alone, all of it counts as that of the cell in which q̂ is largest,
    or smallest. Then only the means over rows are limits, not the numbers of a row.
    """
    low, high = reward_range
    if estimator in ("ips", "snips"):
        return low * weights.missing, high * weights.missing
    outcome = feedback.outcome
    if weights.lost is None:
        least, most = low - outcome.max(axis=1), high - outcome.min(axis=1)
        return weights.missing * least, weights.missing * most
    least = (weights.lost * (low - outcome)).sum(axis=1)
    return least, (weights.lost * (high - outcome)).sum(axis=1)


def ends_of(
    feedback: Feedback, estimator: str, weights: Weights, reward_range: tuple[float, float]
) -> tuple[Terms, Terms]:
    """Return the estimate with the lost mass at its least and at its most.

    The value lies between the two, whatever the lost cells are worth within the range of rewards.
    A self-normalised estimate divides by Σ(ω + lost), whose mean is 1 row by row.
    """
    terms = terms_of(feedback, estimator, weights)
    ends = []
    for shift in missed(feedback, estimator, weights, reward_range):
        numerator, denominator = terms.numerator.copy(), terms.denominator.copy()
        numerator[:, -1] += shift
        if estimator in ("snips", "sndr"):
            denominator[:, -1] += weights.missing
        ends.append(Terms(numerator, denominator))
    return ends[0], ends[1]


def bias_limits(
    feedback: Feedback, estimator: str, weights: Weights, reward_range: tuple[float, float]
) -> tuple[float, float]:
    """Return between what the expected value less the expected estimate lies.

    It is over the contexts of the log, of which the whole behaviour must be known. The
    self-normalised forms let the rows that are left stand for the lost mass L too, at a mean that
    may itself be anything that rewards (less q̂) can be: that counts as well.

    Examples
    --------
    A target that always runs cell 0, half of it clipped away (ω = 1, w = 2): with rewards in
    [0, 10], IPS misses half of something between 0 and 10. SNIPS puts the other half in its place,
    and may be off by 5 either way.

    >>> even, first = np.full((2, 2), 0.5), np.array([[1.0, 0.0], [1.0, 0.0]])
    >>> feedback = Feedback(np.array([0, 1]), np.array([3.0, 5.0]), even, first)
    >>> bias_limits(feedback, "ips", weights_of(feedback, "ips", 1.0), (0.0, 10.0))
    (0.0, 5.0)
    >>> bias_limits(feedback, "snips", weights_of(feedback, "snips", 1.0), (0.0, 10.0))
    (-5.0, 5.0)
    """
    low, high = reward_range
    least, most = (
        float(part.mean()) for part in missed(feedback, estimator, weights, reward_range)
    )
    if estimator in ("snips", "sndr"):
        total = float(weights.missing.mean())
        if estimator == "sndr":
            low, high = low - float(feedback.outcome.max()), high - float(feedback.outcome.min())
        least, most = least - total * high, most - total * low
    return least, most
