"""What an answer says in words."""

from __future__ import annotations

from gdcb.analysis.interval import Interval
from gdcb.analysis.what_if.answer import percent
from gdcb.analysis.what_if.questions import Propose, Question, SecondReviewer
from gdcb.instance import Instance

UNKNOWN = "not known"
THE_VALUE = "the mean reward per row under what was asked"
THE_DIFFERENCE = f"{THE_VALUE}, less that of the log"
THE_RANGE = "all that the mean reward per row under what was asked may be, by this log"
THE_RANGE_LESS = f"{THE_RANGE}, less that of the log"
SAME_LAW = "the reward of an action in a context is the same whoever proposed or changed it"
NOTHING_HIDDEN = "persons used nothing outside the recorded context that also predicts the outcome"
HIDDEN = "persons may have known more than the record: their changed rows are bounded, not modelled"
CELLS = (
    "weights go by arm cells: within half a step of an arm, actions count as comparable, and the "
    "outcome model alone tells them apart"
)
PASSAGE = (
    "persons let proposals pass at a rate that depends on the context and on what they are shown; "
    "what they put in otherwise depends on the context alone"
)


def assumptions(question: Question, instance: Instance, private: bool) -> tuple[str, ...]:
    """Return what an answer rests on."""
    said = [SAME_LAW]
    if instance.chain.has_person:
        said.append(HIDDEN if private else NOTHING_HIDDEN)
    if isinstance(question, SecondReviewer):
        said.append("a second reviewer approves as often as the first, proposal by proposal")
        rho = question.correlation
        if rho is not None:
            said.append(f"the two answers have a correlation of {rho:g}, declared and not observed")
    else:
        said.append(CELLS)
        if instance.chain.has_person and (not private or not isinstance(question, Propose)):
            said.append(PASSAGE)
    return tuple(said)


def of_value(
    difference: Interval, value: Interval, happened: float, level: float, changed: str
) -> str:
    """Say a value."""
    if difference.low == difference.high == 0.0:
        return f"Nothing would have changed: {happened:.4g} per row, as it was."
    more = "more" if (difference.mean or 0.0) >= 0 else "less"
    size = abs(difference.mean or 0.0)
    return (
        f"A row would have earned {value} on average, {size:.4g} {more} than the {happened:.4g} "
        f"that it did (difference {difference}, {100 * level:g} % intervals, if rows are "
        f"independent and all of `assumes` holds); {changed}."
    )


def of_range(
    difference: Interval,
    value: Interval,
    identified: tuple[float, float],
    happened: float,
    why: str,
) -> str:
    """Say a range."""
    return (
        f"The log tells only a range: between {identified[0]:.4g} and {identified[1]:.4g} per row, "
        f"{value.low:.4g} to {value.high:.4g} with its noise; that is {difference.low:+.4g} to "
        f"{difference.high:+.4g} against the {happened:.4g} that happened, if rows are independent "
        f"and all of `assumes` holds. {why}"
    )


def of_refusal(why: str) -> str:
    """Say why there is no answer."""
    return f"The log cannot tell: {why}"


def of_uncovered(cells: tuple[tuple[str, float], ...]) -> str:
    """Say what never ran in comparable contexts, and of how much the log does not tell.

    >>> of_uncovered((("4", 0.25),))
    "25 % of the rows would run what the log has not seen in comparable contexts: '4' (25 %)."
    >>> of_uncovered(((UNKNOWN, 0.05),))
    'In 5 % of the rows the log does not tell what would run.'
    """
    named = [(name, part) for name, part in cells if name != UNKNOWN]
    said = []
    if named:
        where = ", ".join(f"'{name}' ({percent(part)})" for name, part in named[:4])
        more = f" and {len(named) - 4} more" if len(named) > 4 else ""
        total = percent(sum(part for _, part in named))
        said.append(
            f"{total} of the rows would run what the log has not seen in comparable contexts: "
            f"{where}{more}."
        )
    unknown = dict(cells).get(UNKNOWN, 0.0)
    if unknown:
        said.append(f"In {percent(unknown)} of the rows the log does not tell what would run.")
    return " ".join(said)
