"""The value of a policy that did not run, with an interval and with what it rests on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gdcb.analysis.interval import Interval
from gdcb.analysis.off_policy.bootstrap import (
    FORMS,
    draw_again,
    sums_of,
)
from gdcb.analysis.off_policy.estimators import (
    NEED_MODEL,
    SWITCH,
    Terms,
    Weights,
    bias_limits,
    ends_of,
    terms_of,
    weights_of,
)
from gdcb.analysis.off_policy.feedback import Feedback
from gdcb.analysis.off_policy.intervals import (
    bernstein_interval,
    betting_interval,
    bound_of_weights,
    cautious_scores,
    check_range,
    most_lost,
    scores_of,
)
from gdcb.analysis.off_policy.no_interval import least_error, too_few, what_is_missing
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import check_choice, check_number
from gdcb.streams import check_seed

INTERVALS = ("bootstrap", "bernstein", "betting")
DRAWS = 1000
_BOUNDED = ("ips", "snips", "dr", "switch-dr")
_NOTHING = 1e-9  # of the target's mass: rounding


@dataclass(frozen=True, slots=True)
class Value:
    """What a target is worth per row, and how far the log can say so.

    Parameters
    ----------
    mean : the estimate
    limits : its interval, which says what it covers; None where there is none, and `says` why. Its
        own mean is None where the estimate lies outside of the limits, as IPS may
    ess : effective sample size (Σω)²/Σω² of the weights in use
    largest_weight : largest target/behaviour of a row, before clipping
    clipped_share : share of rows whose weight was cut, or beyond the switch
    unsupported : share of the target's runs in cells that the log could not run there; None where
        the log only says how likely what ran was
    bias_bound : most by which clipping, the switch or missing support moves the estimate on
        average, given the range of rewards; where the log only says how likely what ran was, with
        probability `level`. None where the range was not declared, where it cannot be known, or
        for 'dm'
    estimator, interval, level : what was asked for
    says : all of it in words
    """

    mean: float
    limits: Interval | None
    ess: float
    largest_weight: float
    clipped_share: float
    unsupported: float | None
    bias_bound: float | None
    estimator: str
    interval: str
    level: float
    says: str

    @property
    def low(self) -> float:
        """Lower limit; NaN where there is no interval."""
        return math.nan if self.limits is None else self.limits.low

    @property
    def high(self) -> float:
        """Upper limit; NaN where there is no interval."""
        return math.nan if self.limits is None else self.limits.high


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
    """Estimate what the target would have earned per row, on the contexts of the log.

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
        the largest that any cell could have had in the contexts of the log, limits then being
        wider by what contexts with a larger one may hold. A log that only says how likely what ran
        was needs one of the two

    Notes
    -----
    Assumes: what `Feedback` assumes; independent rows or clusters; right propensities (for DR,
    right propensities or a right model, but for 'betting', which rests on the propensities). The
    interval takes models and propensities as given;
    `Value.limits.covers` says what it covers. 'bernstein' and 'betting' also rest on the two
    declared bounds, and on an outcome model of other rows; where it is cross-fitted they hold fold
    by fold and, as measured, together.

    There is no interval (`limits` is None, `says` tells why) where nothing could vouch for it: for
    'dm', whose model's error nothing bounds; where weights were cut, or beyond the switch, and the
    range of rewards is not declared (with it, what was cut counts as anything in that range); and
    by the bootstrap where fewer than 30 effective rows carry the estimate (100 where the log only
    says how likely what ran was), where fewer than 10 effective rows have another reward than the
    most common one, or make up the spread of rewards, where cells that decide were expected to run
    fewer than 4 times (`rarely_run`), so that a log without them is likely and does not show what
    they earn, or where one reward at the end of the declared range would have moved the value by
    more than its standard error. In all but the first of these the betting limits stand in for it
    where the range of rewards is declared and they apply, and `says` tells so. There is none either
    where the lower limit comes out above the upper one: then what the interval rests on does not
    hold.

    Stops applying: the bootstrap holds in the long run, not at every size; without a declared
    range it takes for granted that rewards far from all that were seen do not come. Where the log
    only says
    how likely what ran was, cells that decide and happened not to run are not seen: `covers` says
    so, and nothing in the log tells whether there are any. A behaviour that was
    itself estimated from few rows makes every interval too short.

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
    limits: Interval | None = None
    why, how = "", interval
    asked = (weights, clip, weight_bound, reward_range, level, terms.value)
    if interval == "bootstrap":
        check_seed(seed)
        how = f"{form} bootstrap of {'rows' if feedback.cluster is None else 'clusters'}"
        ends, why = _ends(feedback, estimator, weights, clip, reward_range)
        pieces = [(1.0, feedback, weights, terms)]
        missing = "" if ends is None else what_is_missing(estimator, pieces, ends, reward_range)
        if missing:
            why, bounds = missing, (clip, weight_bound, weights.most)
            if reward_range is None:
                others = "" if estimator in _BOUNDED else f" and take {_BOUNDED[2]!r}"
                why += f"; declare reward_range{others}, and betting limits are given instead"
            elif estimator in _BOUNDED and any(bound is not None for bound in bounds):
                limits, crossed = _sure(feedback, estimator, "betting", *asked)
                how, why = f"betting, because {missing}", crossed or missing
        elif ends is not None:
            least = least_error(estimator, pieces)
            low, high = _drawn(ends, feedback.cluster, int(draws), seed, level, form, least)
            covers = _covers([(feedback, ends)], estimator, reward_range)
            limits, why = _made(terms.value, low, high, level, covers, reward_range)
    else:
        limits, why = _sure(feedback, estimator, interval, *asked)
    used = weights.used
    square = float((used**2).sum())
    unsupported = None
    if not feedback.is_partial:
        unsupported = float(np.where(feedback.behaviour > 0, 0.0, feedback.target).sum(1).mean())
    found = Value(
        terms.value,
        limits,
        float(used.sum()) ** 2 / square if square > 0 else 0.0,
        float(weights.raw.max()),
        float((used < weights.raw).mean()),
        unsupported,
        _bias(feedback, estimator, weights, reward_range, level),
        estimator,
        interval,
        level,
        "",
    )
    return replace(found, says=_in_words(found, how, feedback, clip, why))


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
    reward_range: tuple[float, float] | None = None,
) -> Interval:
    """Return value of `first` less value of `second`, with a paired bootstrap interval.

    Both are feedback of the same rows with other targets; what the rows have in common falls out.
    It unpacks as difference, low, high. What `evaluate` gives no interval for has none here
    either, and is refused.

    Examples
    --------
    The same target twice differs by 0.

    >>> even, cell = np.full((40, 2), 0.5), np.tile([0, 0, 1, 1], 10)
    >>> rows = Feedback(cell, np.tile([1.0, 0.0, 1.0, 1.0], 10), even, even)
    >>> tuple(difference(rows, rows, "ips"))
    (0.0, 0.0, 0.0)
    """
    same = first.n == second.n and np.array_equal(first.cell, second.cell)
    if not same or not np.array_equal(first.reward, second.reward):
        raise InvalidInput("difference: expected two targets on the same rows")
    check_choice("form", form, FORMS)
    check_number("level", level, 0.5, 1.0 - 1e-9)
    check_number("draws", draws, 100)
    check_seed(seed)
    if reward_range is not None:
        check_range(first, reward_range)
        first, second = (_within(part, reward_range) for part in (first, second))
    pieces, pairs = [], []
    for sign, part in ((1.0, first), (-1.0, second)):
        weights = weights_of(part, estimator, clip)
        ends, why = _ends(part, estimator, weights, clip, reward_range)
        if ends is None:
            raise InvalidInput(f"difference: there is no interval: {why}")
        pieces.append((sign, part, weights, terms_of(part, estimator, weights)))
        pairs.append(ends)
    covers = "the difference of two targets: of each, "
    covers += _covers([(first, pairs[0]), (second, pairs[1])], estimator, reward_range)
    gap = pieces[0][3].value - pieces[1][3].value
    if _is_same(first, second) and pairs[0][0] is pairs[0][1]:
        return Interval(0.0, 0.0, 0.0, level, covers)  # whatever rewards are
    both = (_less(pairs[0][0], pairs[1][1]), _less(pairs[0][1], pairs[1][0]))
    missing = what_is_missing(estimator, pieces, both, reward_range)
    if missing:
        raise InvalidInput(f"difference: there is no interval: {missing}")
    least = least_error(estimator, pieces)
    low, high = _drawn(both, first.cluster, int(draws), seed, level, form, least)
    span = None if reward_range is None else reward_range[1] - reward_range[0]
    found, why = _made(gap, low, high, level, covers, None if span is None else (-span, span))
    if found is None:
        raise InvalidInput(f"difference: there is no interval: {why}")
    return found


def _is_same(first: Feedback, second: Feedback) -> bool:
    """Whether two targets on the same rows are one."""
    same = np.array_equal(first.target, second.target)
    same = same and np.array_equal(first.behaviour, second.behaviour, equal_nan=True)
    if first.outcome is None or second.outcome is None:
        return same and first.outcome is second.outcome
    return same and np.array_equal(first.outcome, second.outcome)


def _less(one: Terms, two: Terms) -> Terms:
    return Terms(
        np.hstack((one.numerator, -two.numerator)), np.hstack((one.denominator, two.denominator))
    )


def _within(feedback: Feedback, reward_range: tuple[float, float]) -> Feedback:
    if feedback.outcome is None:
        return feedback
    return replace(feedback, outcome=np.clip(feedback.outcome, *reward_range))


def _ends(
    feedback: Feedback,
    estimator: str,
    weights: Weights,
    clip: float | None,
    reward_range: tuple[float, float] | None,
) -> tuple[tuple[Terms, Terms] | None, str]:
    """Return the terms of both ends of the value, or why the bootstrap has no interval of it.

    Both are the estimate's own terms where nothing was cut and the log could run all of it.
    """
    if estimator == "dm":
        return None, "nothing in the log says how far the outcome model is off"
    terms = terms_of(feedback, estimator, weights)
    why = too_few(feedback, weights)
    if why:
        return None, why
    is_switch = estimator == "switch-dr"
    if feedback.is_partial:
        is_cut = is_switch or clip is not None
    else:
        is_cut = bool(weights.missing.mean() > _NOTHING)
    if not is_cut:
        return (terms, terms), ""
    if reward_range is None:
        what = "beyond the switch the outcome model stands in"
        if not is_switch:
            what = "weights were cut, or the target runs what the log could not"
        return None, f"{what}, and reward_range, which bounds what that costs, is not declared"
    return ends_of(feedback, estimator, weights, reward_range), ""


def _drawn(
    ends: tuple[Terms, Terms],
    cluster: Array | None,
    draws: int,
    seed: int,
    level: float,
    form: str,
    least_error: float,
) -> tuple[float, float]:
    """Return the lower limit of the lower end and the upper limit of the upper one.

    Neither is nearer than the normal limit of `least_error`, which is of rows; where clusters have
    a larger standard error than their rows, it is larger in the same proportion.
    """
    from scipy.special import ndtri

    limits = []
    for end in ends:
        drawn = draw_again(end, cluster, draws, np.random.default_rng(seed))
        off = float(ndtri(0.5 + level / 2.0)) * least_error
        if cluster is not None:
            whole, alone = (
                float((sums.influence**2).sum()) for sums in (drawn.sums, sums_of(end, None))
            )
            off *= math.sqrt(max(1.0, whole / alone)) if alone > 0 else 1.0
        low, high = drawn.interval(level, form)
        limits.append((min(low, end.value - off), max(high, end.value + off)))
        if ends[1] is ends[0]:
            break
    return limits[0][0], limits[-1][1]


def _made(
    mean: float,
    low: float,
    high: float,
    level: float,
    covers: str,
    possible: tuple[float, float] | None = None,
) -> tuple[Interval | None, str]:
    """Return the interval, or why there is none: its ends are out of order.

    An estimate may lie outside of its limits, such as an IPS above all that rewards can be; the
    interval is then of the value alone. It holds no more than what is `possible`.
    """
    if possible is not None and low <= high:
        if high < possible[0] or low > possible[1]:
            return None, (
                f"it would be {low:.4g} to {high:.4g}, outside of what the declared range allows: "
                "what it rests on does not hold in this log, and it cannot tell"
            )
        low, high = max(low, possible[0]), min(high, possible[1])
    if low > high:
        return None, (
            f"its lower limit, {low:.4g}, is above its upper one, {high:.4g}: what it rests on "
            "does not hold in this log, and it cannot tell"
        )
    return Interval(mean if low <= mean <= high else None, low, high, level, covers), ""


def _covers(
    parts: Sequence[tuple[Feedback, tuple[Terms, Terms] | None]],
    estimator: str,
    reward_range: tuple[float, float] | None,
    bounds: tuple[str, ...] = (),
) -> str:
    """Say what an interval covers, and what it takes for granted.

    `parts` has the rows of each target, and the ends that the bootstrap drew.
    """
    rows = "rows" if parts[0][0].cluster is None else "clusters"
    said = [f"{rows} are independent", "the propensities are right", *bounds]
    drawn = [(feedback, ends[0] is ends[1]) for feedback, ends in parts if ends is not None]
    if drawn:
        said.append("effective rows are many (in the long run, not at every size)")
        known = "rewards stay in the declared range"
        said.append(known if reward_range else "rewards far from all that were seen do not come")
        if any(is_whole and feedback.is_partial for feedback, is_whole in drawn):
            said.append("the log could run whatever the target would")
        if any(feedback.is_partial for feedback, _ in drawn):
            said.append("no cell of much larger weight than those seen happened not to run")
    if estimator in NEED_MODEL:
        said.append("the outcome model is of other rows")
    said.append("nothing outside x was used that also predicts the reward")
    return f"the mean reward per row under the target, if {', '.join(said[:-1])}, and {said[-1]}"


def _bias(
    feedback: Feedback,
    estimator: str,
    weights: Weights,
    reward_range: tuple[float, float] | None,
    level: float,
) -> float | None:
    """Return the most by which what was cut, or could not run, moves the estimate."""
    if reward_range is None or estimator == "dm":
        return None
    if weights.lost is None:
        if weights.most is None:
            return None
        total = most_lost(weights, weights.most, feedback.cluster, level)
        # The same limits as if every row had lost as much as all do on average, at most.
        weights = replace(weights, missing=np.full(feedback.n, total))
    return max(abs(end) for end in bias_limits(feedback, estimator, weights, reward_range))


def _sure(
    feedback: Feedback,
    estimator: str,
    interval: str,
    weights: Weights,
    clip: float | None,
    weight_bound: float | None,
    reward_range: tuple[float, float] | None,
    level: float,
    mean: float,
) -> tuple[Interval | None, str]:
    """Return limits that hold at every size, or why there are none."""
    if estimator not in _BOUNDED:
        raise InvalidInput(
            f"interval: {interval!r} is for {', '.join(_BOUNDED)}; {estimator!r} is no mean of "
            "bounded numbers that a model could not move"
        )
    if reward_range is None:
        raise InvalidInput(f"reward_range: {interval!r} needs the range that rewards cannot leave")
    bound, share, slack = bound_of_weights(feedback, weights, clip, weight_bound, level)
    given = (feedback, estimator, weights, reward_range, bound)
    inner = 1.0 - share * (1.0 - level)
    if interval == "bernstein":
        low, high = bernstein_interval(*scores_of(*given), reward_range, inner)
    else:
        low, high = betting_interval(*cautious_scores(*given), reward_range, inner)
    if low <= high:
        off = slack * (reward_range[1] - reward_range[0])
        low, high = max(low - off, reward_range[0]), min(high + off, reward_range[1])
    bounds = [f"rewards lie within {reward_range[0]:g} and {reward_range[1]:g}"]
    if weight_bound is not None:
        bounds.append(f"no weight exceeds {bound:g}")
    covers = _covers([(feedback, None)], estimator, reward_range, tuple(bounds))
    if low == high:
        return None, (
            f"both limits are {low:.4g}: what it rests on does not hold in this log, and it cannot "
            "tell"
        )
    return _made(mean, low, high, level, covers)


def _in_words(found: Value, how: str, feedback: Feedback, clip: float | None, why: str) -> str:
    if found.limits is None:
        said = [f"{found.estimator.upper()} {found.mean:.4g}, without an interval: {why}."]
    else:
        said = [
            f"{found.estimator.upper()} {found.mean:.4g} ({found.low:.4g} to {found.high:.4g},",
            f"{100 * found.level:g} %, {how}).",
        ]
        if found.limits.mean is None:
            said.append("The estimate itself lies outside of its limits.")
    said += [
        f"{feedback.n:,} rows count as {found.ess:,.0f};",
        f"the largest weight is {found.largest_weight:.3g}.",
    ]
    moved = ""
    if found.bias_bound is not None:
        moved = f", which moves the estimate by at most {found.bias_bound:.3g} on average"
        if feedback.is_partial:
            moved += f" (with {100 * found.level:g} % confidence)"
    if found.clipped_share > 0:
        limit = SWITCH if clip is None else clip
        what = "are beyond the switch at" if found.estimator == "switch-dr" else "were cut at"
        said.append(f"{found.clipped_share:.2%} of weights {what} {limit:g}{moved}.")
    if found.unsupported is None:
        said.append(
            "The log says only how likely what ran was, not whether it could run all that the "
            "target would."
        )
    elif found.unsupported > 0:
        said.append(
            f"In {found.unsupported:.2%} of its runs the target would take what the log could not; "
            + (
                "a model speaks for them"
                if feedback.outcome is not None
                else "no row speaks for them"
            )
            + ("." if found.clipped_share > 0 else f"{moved}.")
        )
    if found.limits is not None:
        said.append(f"The interval is for {found.limits.covers}.")
    return " ".join(said)
