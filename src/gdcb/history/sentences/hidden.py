"""What a log may hide: private information, missing outcomes, hidden causes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gdcb.history.sentences.assumptions import (
    CARRY_OVER,
    FORM,
    INDEPENDENT,
    OUTSIDE,
    STEADY,
    given,
)
from gdcb.history.sentences.phrases import at_most, chance, short, spanned
from gdcb.pages.numbers import listed, share
from gdcb.pages.words import some

OVERRIDDEN = "Overridden rows earn "  # how what is said of the contrast begins


def overrides_private(
    posterior: float,
    difference: float,
    low: float | None = None,
    high: float | None = None,
    p: float | None = None,
    form: str = FORM,
) -> str:
    """Say that overridden rows fare unlike approved ones: people knew what the log does not show.

    `p`: of no difference in any arm; said where the difference of all arms may be none.

    >>> overrides_private(0.02, 0.21, 0.15, 0.27)
    'Overridden rows earn 0.210 (0.150 to 0.270) more than approved ones of the same action and
     context, and whoever overrode probably knew something that the log does not show (the
     probability that they did not is 2 %), if rows are independent, nothing carries over, what an
     action earns did not drift and worth is nearly quadratic in x. They count that much less.'
    """
    return (
        f"{_earn(difference, low, high)}{_apart(low, high, p)}, and whoever overrode probably knew "
        f"something that the log does not show (the probability that they did not is "
        f"{share(posterior)}), {given(INDEPENDENT, CARRY_OVER, STEADY, form)}. They count that "
        "much less."
    )


def overrides_unclear(
    posterior: float,
    difference: float,
    low: float | None = None,
    high: float | None = None,
    p: float | None = None,
    form: str = FORM,
) -> str:
    """Say that the test of overridden rows and the probability that it was chance do not agree.

    >>> overrides_unclear(0.93, 0.02, -0.066, 0.105, p=0.003)
    'Overridden rows earn 0.020 (−0.066 to 0.105) more than approved ones of the same action and
     context; single arms differ by more than chance allows (p = 0.003), but the probability that
     people used nothing which the log does not show is 93 %, if rows are independent, nothing
     carries over, what an action earns did not drift and worth is nearly quadratic in x: whether
     they did cannot be told. They count that much less.'
    """
    differ = "no arm differs" if posterior < 0.5 else "single arms differ"
    found = "" if p is None else f" ({chance(p)})"
    return (
        f"{_earn(difference, low, high)}; {differ} by more than chance allows{found}, but the "
        f"probability that people used nothing which the log does not show is {share(posterior)}, "
        f"{given(INDEPENDENT, CARRY_OVER, STEADY, form)}: whether they did cannot be told. They "
        "count that much less."
    )


def overrides_trusted(
    posterior: float,
    difference: float,
    low: float | None = None,
    high: float | None = None,
    form: str = FORM,
) -> str:
    """Say that overridden rows fare like approved ones."""
    return (
        f"{_earn(difference, low, high)}, {given(INDEPENDENT, CARRY_OVER, form)}. That is then no "
        "sign that people used information which the log does not show (the probability that they "
        f"did not is {share(posterior)}); it says nothing of what those who approved or proposed "
        "knew."
    )


def _apart(low: float | None, high: float | None, p: float | None) -> str:
    """Say that arms differ though they do not on average; nothing where they do on average, too."""
    if p is None or low is None or high is None or not low <= 0 <= high:
        return ""
    return f" on average, and in single arms by more than chance allows ({chance(p)})"


def _earn(difference: float, low: float | None, high: float | None) -> str:
    if difference < 0:
        way, ends = "less", (None if high is None else -high, None if low is None else -low)
    else:
        way, ends = "more", (low, high)
    size = spanned(abs(difference), *ends)
    return f"{OVERRIDDEN}{size} {way} than approved ones of the same action and context"


def overrides_not_logged() -> str:
    """Say that the log does not tell approved rows from overridden ones."""
    return (
        "The log does not say which proposals were overridden, so whether people used information "
        "that it does not show cannot be tested; see the sensitivity."
    )


def mostly_missing(part: float, most: float) -> str:
    """Say that the history is refused because of the outcomes that it lacks.

    >>> mostly_missing(0.62, 0.5)
    'The history is refused because 62 % of its outcomes are missing; at most 50 % may be.'
    """
    return (
        f"The history is refused because {share(part)} of its outcomes are missing; at most "
        f"{share(most)} may be."
    )


def same_outcomes() -> str:
    """Say that the history is refused because outcomes never vary.

    >>> same_outcomes()
    'Cannot tell: every outcome is the same, so the log does not show what an action changes.'
    """
    return (
        "Cannot tell: every outcome is the same, so the log does not show what an action changes."
    )


def implied_outcomes() -> str:
    """Say that the history is refused because what was earned follows from what was done.

    >>> print(implied_outcomes()[:66])
    Cannot tell: the outcome follows from the action in every row, so
    """
    return (
        "Cannot tell: the outcome follows from the action in every row, so the log does not show "
        "what an action changes. Where only successes were logged, add the rows in which nothing "
        "came of it."
    )


def outcomes_missing(missing: float, p: float | None = None, is_selective: bool = False) -> str:
    """Say how many outcomes are missing, and whether that goes with what was executed.

    >>> outcomes_missing(0.08, 0.0004, True)
    '8 % of the outcomes are missing, and more of them for some arms than for others (p < 0.001 if
     rows are independent): the rows that are left may not stand for all.'
    """
    if missing <= 0:
        return "No outcome is missing."
    found = "" if p is None else f" ({chance(p)} {given(INDEPENDENT)})"
    if is_selective:
        return (
            f"{share(missing)} of the outcomes are missing, and more of them for some arms than "
            f"for others{found}: the rows that are left may not stand for all."
        )
    return (
        f"{share(missing)} of the outcomes are missing, about as many for every arm{found}, which "
        "does not show that the rows that are left stand for all."
    )


# What no figure about hidden causes can say.
_LIMITS = (
    "It cannot say whether there is such a cause: a randomised log and a confounded one may show "
    "the same figure."
)


def all_mature(p: float | None = None, is_missing: bool = False) -> str:
    """Say that no row is too young for its outcome, or that too few are missing to tell.

    >>> all_mature(None, is_missing=True)
    'Whether outcomes are missing more often in young rows was not tested, for the number that is
     missing says nothing of it: none was set aside.'
    """
    if p is None and is_missing:
        return (
            "Whether outcomes are missing more often in young rows was not tested, for the number "
            "that is missing says nothing of it: none was set aside."
        )
    if p is None:
        return "No outcome is missing, and no row was set aside as too young."
    return (
        f"Outcomes are not missing more often in young rows ({chance(p)} {given(INDEPENDENT)}): "
        "none was set aside."
    )


def set_aside(
    rows: int,
    after: float,
    has_time: bool,
    source: str,
    p: float | None = None,
    undated: Sequence[str] = (),
) -> str:
    """Say how many rows are too young for their outcomes, and how that is known.

    `undated`: kinds of outcomes that mostly have no time.

    >>> set_aside(812, 2_592_000, True, "declared")
    '812 rows were set aside because they are too young for their outcomes: outcomes need 30 days,
     as declared.'
    >>> set_aside(812, 2_592_000, True, "missing outcomes", 0.0005)
    '812 rows were set aside because they are too young for their outcomes: in the last 30 days of
     the log outcomes are missing more often than before (p < 0.001 if rows are independent).'
    >>> set_aside(5, 95_040, True, "outcome times", undated=["sold = 0"])
    '5 rows were set aside because they are too young for their outcomes: outcomes that have a time
     need 26.4 hours. Most with sold = 0 have none, and how long these take was not tested.'
    """
    were = (
        "row was set aside because it is" if rows == 1 else "rows were set aside because they are"
    )
    start = f"{rows:,} {were} too young for {'its outcome' if rows == 1 else 'their outcomes'}"
    span = duration(after, has_time)
    if source == "missing outcomes":
        found = "" if p is None else f" ({chance(p)} {given(INDEPENDENT)})"
        more = "of the log outcomes are missing more often than before"
        return f"{start}: in the last {span} {more}{found}."
    if undated:
        return (
            f"{start}: outcomes that have a time need {span}. Most with {listed(undated)} have "
            "none, and how long these take was not tested."
        )
    told = "as declared" if source == "declared" else "as the times of outcomes show"
    return f"{start}: outcomes need {span}, {told}."


def duration(seconds: float, has_time: bool = True) -> str:
    """Write a span of time, or of rows where a log has no time.

    >>> duration(2_592_000), duration(5400), duration(120, has_time=False)
    ('30 days', '90 minutes', '120 rows')
    """
    if not has_time:
        return some(round(seconds), "row")
    for name, size in (("day", 86_400.0), ("hour", 3600.0), ("minute", 60.0)):
        if seconds >= 2 * size:
            count = round(seconds / size, 1)
            return some(int(count), name) if count == int(count) else f"{count:g} {name}s"
    return some(round(seconds), "second")


def sensitivity_arms(
    value: float | None,
    low: float | None = None,
    best: str = "",
    margin: float = 0.0,
    is_beyond: bool = False,
    form: str = FORM,
    apart: float | None = None,
) -> str:
    """Say how strong a hidden cause would have to be to change which arm looks best, and no more.

    Parameters
    ----------
    value, low : Λ* and its lower 95 % limit
    best, margin : the arm that looks best, and by how much another one must be better to count
    is_beyond : whether Λ* lies beyond `value`, the largest looked at
    form : what must hold of the context's worth (`form_of`)
    apart : by how much the means of the arms differ; where that is within the margin, it is said

    >>> sensitivity_arms(1.83, 1.52, "1.0")
    'Λ* is 1.83 (at least 1.52 with 95 % confidence): a hidden cause that changes the odds of
     choosing an arm by less than a factor of 1.52 cannot make another arm than “1.0” the best, if
     rows are independent, nothing carries over and worth is nearly quadratic in x. It cannot say
     whether there is such a cause: a randomised log and a confounded one may show the same figure.'
    """
    if value is None or not math.isfinite(value):
        return "Λ*, how strong a hidden cause could make another arm the best, is not known."
    limit = value if low is None or not math.isfinite(low) else low
    size = f"Λ* is {'above ' if is_beyond else ''}{at_most(value)}"
    arm = f"another arm than “{best}”" if best else "another arm"
    better = f"{arm} the best" if margin <= 0 else f"{arm} the best by more than {short(margin)}"
    rests = given(INDEPENDENT, CARRY_OVER, form)
    limits = _LIMITS
    if apart is not None and apart <= margin:
        limits = (
            f"The means of the arms in the log differ by no more than {short(apart)}, so that it "
            f"says nothing of which of them is best. {_LIMITS}"
        )
    if limit <= 1.0 + 1e-9:
        return (
            f"{size}, without a lower limit above 1: sampling error alone may make {better}, "
            f"{rests}, and no hidden cause is needed. {limits}"
        )
    sure = "" if low is None else f" (at least {at_most(limit)} with 95 % confidence)"
    return (
        f"{size}{sure}: a hidden cause that changes the odds of choosing an arm by less than a "
        f"factor of {at_most(limit)} cannot make {better}, {rests}. {limits}"
    )


def sensitivity_slopes(
    robustness_value: float | None, at_level: float | None = None, form: str = FORM
) -> str:
    """Say how much a hidden cause would have to explain to take the action's effect away.

    >>> sensitivity_slopes(0.12, 0.07)
    'A hidden cause would have to explain 12 % of what is left over, both of the action and of the
     reward, before the linear effect of the action could be none, and 7 % before sampling error
     could hide it, if rows are independent, nothing carries over and worth is nearly quadratic in
     x. As Λ*, it cannot say whether there is such a cause.'
    """
    if robustness_value is None or not math.isfinite(robustness_value):
        return "How strong a hidden cause could take the action's effect away is not known."
    hides = (
        "" if at_level is None else f", and {share(at_level)} before sampling error could hide it"
    )
    return (
        f"A hidden cause would have to explain {share(robustness_value)} of what is left over, "
        f"both of the action and of the reward, before the linear effect of the action could be "
        f"none{hides}, {given(INDEPENDENT, CARRY_OVER, form)}. As Λ*, it cannot say whether there "
        "is such a cause."
    )


def logged_bias(osc: float, tv: float, value: float, form: str = FORM) -> str:
    """Say how far the logged contexts alone could bias an arm; it never decides.

    >>> logged_bias(0.4, 0.3, 0.12)
    'If nothing outside the log was used, nothing carries over and worth is nearly quadratic in x,
     contexts bias no arm by more than about 0.12: the range of the reward over contexts, 0.4, times
     the difference of the contexts, 30 %. A cause outside the log may bias it by any amount. It
     decides nothing.'
    """
    rests = given(OUTSIDE, CARRY_OVER, form)
    return (
        f"{rests[0].upper()}{rests[1:]}, contexts bias no arm by more than about {short(value)}: "
        f"the range of the reward over contexts, {short(osc)}, times the difference of the "
        f"contexts, {share(tv)}. A cause outside the log may bias it by any amount. It decides "
        "nothing."
    )


def transport(eta: float, tv: float, product: float, is_ungated: bool = False) -> str:
    """Say how far the executed actions can differ once the new learner proposes.

    >>> transport(1.0, 0.5, 0.5, is_ungated=True)
    'The new learner would propose otherwise than before in 50 % of the decisions. There is no gate,
     so that what is executed then differs in as many.'

    >>> transport(0.7, 0.5, 0.35)
    'The new learner would propose otherwise than before in 50 % of the decisions, and at most 70 %
     of that gets through the gates, if these act as they did in the log: what is executed then
     differs in at most 35 %.'
    """
    start = f"The new learner would propose otherwise than before in {share(tv)} of the decisions"
    if is_ungated:
        return f"{start}. There is no gate, so that what is executed then differs in as many."
    return (
        f"{start}, and "
        f"at most {share(eta)} of that gets through the gates, if these act as they did in the "
        f"log: what is executed then differs in at most {share(product)}."
    )


def variance(ratio: float, low: float | None = None, high: float | None = None) -> str:
    """Say how much context changes which arm is better, against the noise.

    >>> variance(1.6, 1.2, 2.1)
    'Context changes which of the two best arms is better, by 1.60 (1.20 to 2.10) times the noise,
     if nothing outside the log was used and rows are independent: a scaler is worth much here.'
    """
    start = "Context changes which of the two best arms is better, by"
    rests = given(OUTSIDE, INDEPENDENT)
    size = f"{start} {spanned(ratio, low, high)} times the noise, {rests}"
    if low is not None and low > 1:
        return f"{size}: a scaler is worth much here."
    if high is not None and high < 0.1:
        return f"{size}: a scaler is worth little here."
    return f"{size}: a scaler may be worth something here."
