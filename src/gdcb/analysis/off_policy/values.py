"""The value of a policy that did not run, with an interval and with what it rests on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gdcb.analysis.off_policy.bootstrap import FORMS, draw_again
from gdcb.analysis.off_policy.estimators import (
    SWITCH,
    Terms,
    Weights,
    bias_limits,
    terms_of,
    weights_of,
)
from gdcb.analysis.off_policy.feedback import Feedback
from gdcb.analysis.off_policy.intervals import (
    bernstein_interval,
    betting_interval,
    cautious_scores,
    check_range,
    scores_of,
)
from gdcb.errors import InvalidInput
from gdcb.parts import check_choice, check_number
from gdcb.streams import check_seed

INTERVALS = ("bootstrap", "bernstein", "betting")
DRAWS = 1000
_BOUNDED = ("ips", "snips", "dr", "switch-dr")


@dataclass(frozen=True, slots=True)
class Value:
    """What a target is worth a row, and how far the log can say so.

    Parameters
    ----------
    mean, low, high : the estimate and its interval
    ess : effective sample size (Σω)²/Σω² of the weights in use
    largest_weight : largest target/behaviour of a row, before clipping
    clipped_share : share of rows whose weight was cut, or beyond the switch
    unsupported : share of the target's runs in cells that the log could not run there
    bias_bound : most by which clipping, the switch or missing support can have moved the estimate,
        given the range of rewards; None where the range was not declared, or for 'dm'
    estimator, interval, level : what was asked for
    says : all of it in words
    """

    mean: float
    low: float
    high: float
    ess: float
    largest_weight: float
    clipped_share: float
    unsupported: float
    bias_bound: float | None
    estimator: str
    interval: str
    level: float
    says: str


def evaluate(
    feedback: Feedback,
    estimator: str = "dr",
    interval: str = "bootstrap",
    clip: float | None = None,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
    *,
    form: str = "studentised",
    reward_range: tuple[float, float] | None = None,
    weight_bound: float | None = None,
) -> Value:
    """Estimate what the target would have earned a row, on the contexts of the log.

    Parameters
    ----------
    estimator : 'dm', 'ips', 'snips', 'dr', 'sndr' or 'switch-dr' (see `estimators`)
    interval : 'bootstrap' of rows, or of clusters where the feedback has them; 'bernstein' or
        'betting': limits that hold at every sample size, for 'ips', 'snips', 'dr', 'switch-dr'
    clip : largest weight; for 'switch-dr' the weight beyond which the model stands in, 10 by
        default. It lowers the variance and moves the estimate: `bias_bound` says by how much at
        most
    level : of the interval
    draws, seed, form : of the bootstrap; 'studentised', 'percentile' or 'bca'
    reward_range : (r̲, r̄) that rewards cannot leave; needed for 'bernstein' and 'betting', and for
        the bound of the bias. An outcome model is brought into it
    weight_bound : largest weight that any context could have; None: the clip or, without one,
        the largest that any cell could have had in the contexts of the log

    Notes
    -----
    Assumes: what `Feedback` assumes; independent rows or clusters; right propensities (for DR,
    right propensities or a right model). The interval takes models and propensities as given.
    'bernstein' and 'betting' also rest on the two declared bounds, and on an outcome model of
    other rows; where it is cross-fitted they hold fold by fold and, as measured, together.

    Stops applying: few effective rows. The bootstrap is for an `ess` of some hundreds; below
    that its limits cannot know of the large weight that has not been met yet. For 'dm' every
    interval is that of the contexts alone: the error of the model is not in it.

    Examples
    --------
    Four rows of even play, a target that always runs cell 0: w = 2, 2, 0, 0 and rewards 1, 0, 1, 1.
    IPS is (2 + 0 + 0 + 0)/4; two rows of four count. Four rows say nothing for sure.

    >>> even, first = np.full((4, 2), 0.5), np.tile([1.0, 0.0], (4, 1))
    >>> feedback = Feedback(np.array([0, 0, 1, 1]), np.array([1.0, 0.0, 1.0, 1.0]), even, first)
    >>> found = evaluate(feedback, "ips", "betting", reward_range=(0.0, 1.0))
    >>> found.mean, found.ess, found.low, found.high
    (0.5, 2.0, 0.0, 1.0)
    """
    check_choice("interval", interval, INTERVALS)
    check_choice("form", form, FORMS)
    check_number("level", level, 0.5, 1.0 - 1e-9)
    check_number("draws", draws, 100)
    if reward_range is not None:
        check_range(feedback, reward_range)
        feedback = _within(feedback, reward_range)
    weights = weights_of(feedback, estimator, clip)
    terms = terms_of(feedback, estimator, weights)
    if interval == "bootstrap":
        rng = np.random.default_rng(check_seed(seed))
        drawn = draw_again(terms, feedback.cluster, int(draws), rng)
        low, high = drawn.interval(level, form)
    else:
        bound = _bound(weights, estimator, clip, weight_bound)
        low, high = _sure(feedback, estimator, interval, weights, reward_range, bound, level)
    bias = None
    if reward_range is not None and estimator != "dm":
        least_most = bias_limits(feedback, estimator, weights, terms, reward_range)
        bias = max(abs(end) for end in least_most)
    used = weights.used
    square = float((used**2).sum())
    unsupported = np.where(feedback.behaviour > 0, 0.0, feedback.target).sum(axis=1)
    found = Value(
        terms.value,
        low,
        high,
        float(used.sum()) ** 2 / square if square > 0 else 0.0,
        float(weights.raw.max()),
        float((used < weights.raw).mean()),
        float(unsupported.mean()),
        bias,
        estimator,
        interval,
        level,
        "",
    )
    how = interval
    if interval == "bootstrap":
        how = f"{form} bootstrap of {'rows' if feedback.cluster is None else 'clusters'}"
    return replace(found, says=_in_words(found, how, feedback, clip, weight_bound, weights))


def difference(
    first: Feedback,
    second: Feedback,
    estimator: str = "dr",
    clip: float | None = None,
    level: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
    *,
    form: str = "studentised",
) -> tuple[float, float, float]:
    """Return value of `first` less value of `second`, and a paired bootstrap interval.

    Both are feedback of the same rows with other targets; what the rows have in common falls out.

    Examples
    --------
    The same target twice differs by 0.

    >>> even = np.full((4, 2), 0.5)
    >>> rows = Feedback(np.array([0, 0, 1, 1]), np.array([1.0, 0.0, 1.0, 1.0]), even, even)
    >>> difference(rows, rows, "ips")
    (0.0, 0.0, 0.0)
    """
    same = first.n == second.n and np.array_equal(first.cell, second.cell)
    if not same or not np.array_equal(first.reward, second.reward):
        raise InvalidInput("difference: expected two targets on the same rows")
    check_choice("form", form, FORMS)
    check_number("level", level, 0.5, 1.0 - 1e-9)
    check_number("draws", draws, 100)
    one, two = (
        terms_of(part, estimator, weights_of(part, estimator, clip)) for part in (first, second)
    )
    both = Terms(
        np.hstack((one.numerator, -two.numerator)), np.hstack((one.denominator, two.denominator))
    )
    rng = np.random.default_rng(check_seed(seed))
    drawn = draw_again(both, first.cluster, int(draws), rng)
    return (both.value, *drawn.interval(level, form))


def _within(feedback: Feedback, reward_range: tuple[float, float]) -> Feedback:
    if feedback.outcome is None:
        return feedback
    return replace(feedback, outcome=np.clip(feedback.outcome, *reward_range))


def _bound(
    weights: Weights, estimator: str, clip: float | None, weight_bound: float | None
) -> float:
    """Return W: as declared, or the clip, or what these contexts could have had."""
    used = float(weights.used.max())
    if weight_bound is not None:
        check_number("weight_bound", weight_bound, 0.0, open_low=True)
        if used > weight_bound:
            raise InvalidInput(f"weight_bound: {weight_bound:g}, but a row has weight {used:g}")
        return float(weight_bound)
    if estimator == "switch-dr":
        return SWITCH if clip is None else float(clip)
    return weights.most if clip is None else float(clip)


def _sure(
    feedback: Feedback,
    estimator: str,
    interval: str,
    weights: Weights,
    reward_range: tuple[float, float] | None,
    bound: float,
    level: float,
) -> tuple[float, float]:
    if estimator not in _BOUNDED:
        raise InvalidInput(
            f"interval: {interval!r} is for {', '.join(_BOUNDED)}; {estimator!r} is no mean of "
            "bounded numbers that a model could not move"
        )
    if reward_range is None:
        raise InvalidInput(f"reward_range: {interval!r} needs the range that rewards cannot leave")
    given = (feedback, estimator, weights, reward_range, bound)
    if interval == "bernstein":
        return bernstein_interval(*scores_of(*given), reward_range, level)
    return betting_interval(*cautious_scores(*given), reward_range, level)


def _in_words(
    found: Value,
    how: str,
    feedback: Feedback,
    clip: float | None,
    bound: float | None,
    weights: Weights,
) -> str:
    said = [
        f"{found.estimator.upper()} {found.mean:.4g} ({found.low:.4g} to {found.high:.4g},",
        f"{100 * found.level:g} %, {how}).",
        f"{feedback.n:,} rows count as {found.ess:,.0f};",
        f"the largest weight is {found.largest_weight:.3g}.",
    ]
    moved = ""
    if found.bias_bound is not None:
        moved = f", which moves the estimate by at most {found.bias_bound:.3g}"
    if found.clipped_share > 0:
        limit = SWITCH if clip is None else clip
        what = "are beyond the switch at" if found.estimator == "switch-dr" else "were cut at"
        said.append(f"{found.clipped_share:.2%} of weights {what} {limit:g}{moved}.")
    if found.unsupported > 0:
        said.append(
            f"In {found.unsupported:.2%} of its runs the target would take what the log could not; "
            + (
                "a model speaks for them"
                if feedback.outcome is not None
                else "no row speaks for them"
            )
            + ("." if found.clipped_share > 0 else f"{moved}.")
        )
    is_open = clip is None and bound is None and found.estimator != "switch-dr"
    if found.interval != "bootstrap" and is_open:
        said.append(
            f"It takes {weights.most:.3g}, the largest weight in these contexts, for the largest "
            "anywhere."
        )
    if found.estimator == "dm":
        said.append("The interval leaves out the error of the outcome model.")
    if found.interval == "bootstrap" and found.ess < 100 and found.estimator != "dm":
        said.append("So few effective rows make the interval unreliable.")
    return " ".join(said)
