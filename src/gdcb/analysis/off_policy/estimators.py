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
        The mean of E[r | cell, x] over it is what an estimate without a model misses
    most : largest ω that any cell of these contexts could have had
    """

    raw: Array
    used: Array
    lost: Array
    most: float


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
    return Weights(raw, used, lost, most)


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

    Σ_c lost_c·(r̲ − q̂_c) and Σ_c lost_c·(r̄ − q̂_c), q̂ = 0 where there is no model.
    """
    low, high = reward_range
    if estimator in ("ips", "snips"):
        total = weights.lost.sum(axis=1)
        return low * total, high * total
    outcome = feedback.outcome
    least = (weights.lost * (low - outcome)).sum(axis=1)
    return least, (weights.lost * (high - outcome)).sum(axis=1)


def bias_limits(
    feedback: Feedback,
    estimator: str,
    weights: Weights,
    terms: Terms,
    reward_range: tuple[float, float],
) -> tuple[float, float]:
    """Return between what the expected value less the expected estimate lies.

    The self-normalised forms let the rows that are left stand for the lost mass L too, which is
    taken off: L·Σωr/Σω, or L·Σω(r − q̂)/Σω.

    Examples
    --------
    A target that always runs cell 0, half of it clipped away (ω = 1, w = 2): with rewards in
    [0, 10], IPS misses half of something between 0 and 10.

    >>> even, first = np.full((2, 2), 0.5), np.array([[1.0, 0.0], [1.0, 0.0]])
    >>> feedback = Feedback(np.array([0, 1]), np.array([3.0, 5.0]), even, first)
    >>> weights = weights_of(feedback, "ips", 1.0)
    >>> bias_limits(feedback, "ips", weights, terms_of(feedback, "ips", weights), (0.0, 10.0))
    (0.0, 5.0)
    """
    least, most = (
        float(part.mean()) for part in missed(feedback, estimator, weights, reward_range)
    )
    if estimator in ("snips", "sndr"):
        shared = terms.numerator[:, -1].sum() / terms.denominator[:, -1].sum()
        taken = float(shared * weights.lost.sum() / feedback.n)
        least, most = least - taken, most - taken
    return least, most
