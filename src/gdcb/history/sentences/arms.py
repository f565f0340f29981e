"""One arm: whether it was tried, whether its contexts mislead, how many rows it counts as."""

from __future__ import annotations

from collections.abc import Sequence

from gdcb.history.sentences.assumptions import CARRY_OVER, FORM, INDEPENDENT, OUTSIDE, given
from gdcb.history.sentences.phrases import named, short, spanned
from gdcb.pages.numbers import share
from gdcb.pages.words import some

# Why an arm is refused, by the check that decides.
REFUSALS = {
    "rows": "too few rows",
    "overlap": "too few comparable contexts",
    "weights": "weights that would have to be cut by too much",
    "contexts": "contexts in which it never ran",
}

RESTS = (OUTSIDE, INDEPENDENT, CARRY_OVER)  # what every bias rests on, besides the form
MOVED = "its contexts move its mean by "  # how sentences of a bias begin, after the arm


def arm_untried(arm: str, rows: int) -> str:
    """Say that an arm was never, or hardly ever, executed.

    >>> arm_untried("1.3", 0)
    'Arm “1.3” was never executed in this history: it starts from its prior.'
    """
    often = {0: "never executed", 1: "executed only once"}
    tried = often.get(rows, f"executed only {rows:,} times")
    return f"Arm “{arm}” was {tried} in this history: it starts from its prior."


def overlap_too_small(arm: str, ess: float, needed: float) -> str:
    """Say that an arm ran in too few comparable contexts.

    >>> overlap_too_small("1.3", 11.6, 50)
    'Arm “1.3” ran in too few comparable contexts: its rows are worth 12 evenly spread ones, and 50
     are needed.'
    """
    return (
        f"Arm “{arm}” ran in too few comparable contexts: its rows are worth {ess:,.0f} evenly "
        f"spread ones, and {needed:,.0f} are needed."
    )


def hardly_ever_ran(arm: str, uncovered: float) -> str:
    """Say that an arm had no chance to run in many contexts.

    >>> hardly_ever_ran("1.3", 0.62)
    'Arm “1.3” practically never ran in 62 % of the contexts: what it earns there is not known.'
    """
    return (
        f"Arm “{arm}” practically never ran in {share(uncovered)} of the contexts: what it earns "
        "there is not known."
    )


def cut_too_much(arm: str, bound: float, part: float, is_logged: bool = False) -> str:
    """Say that an arm's weights would have to be cut by too much; `part`: of the rows, it ran in.

    An arm that is rare everywhere has such weights, too, where probabilities are estimated.

    >>> cut_too_much("1.3", 0.43, 0.021)
    'Arm “1.3” ran in 2 % of the rows, in some of them with so small an estimated probability that
     cutting its weights may move its mean by 0.43.'
    """
    told = "a logged" if is_logged else "an estimated"
    return (
        f"Arm “{arm}” ran in {share(part)} of the rows, in some of them with so small {told} "
        f"probability that cutting its weights may move its mean by {short(bound)}."
    )


def refused_because(kind: str, names: Sequence[str], needed: float, is_logged: bool = False) -> str:
    """Say for which arms one reason decides, by its kind in `REFUSALS`.

    `is_logged`: whether the log says how likely what ran was.

    >>> refused_because("rows", ["0.8", "1.3"], 20)
    'Refused for too few rows: arms 0.8 and 1.3 ran fewer than 20 times.'
    """
    start = f"Refused for {REFUSALS[kind]}: {'arm' if len(names) == 1 else 'arms'} {named(names)}"
    is_one = len(names) == 1
    return {
        "rows": f"{start} ran fewer than {needed:,.0f} times.",
        "overlap": (
            f"{start} ran in contexts so unlike the others that "
            f"{'its rows are' if is_one else 'their rows are each'} worth fewer than "
            f"{needed:,.0f} evenly spread ones."
        ),
        "weights": (
            f"{start} ran in some rows with so small {'a logged' if is_logged else 'an estimated'} "
            f"probability that cutting weights may move {'its mean' if is_one else 'their means'} "
            "by half a standard deviation or more."
        ),
        "contexts": f"{start} practically never ran in more than half of the contexts.",
    }[kind]


def bias_within_margin(
    arm: str,
    bias: float,
    low: float | None,
    high: float | None,
    margin: float,
    unit: str = "",
    form: str = FORM,
    is_rest: bool = False,
) -> str:
    """Say that an arm's contexts do not mislead by more than the margin.

    >>> bias_within_margin("1.0", 0.012, -0.02, 0.044, 0.1)
    'Arm “1.0”: its contexts move its mean by 0.012 (−0.020 to 0.044), within the margin of 0.1, if
     nothing outside the log was used, rows are independent, nothing carries over and worth is
     nearly quadratic in x.'
    """
    start = _moved(arm, bias, low, high, unit, is_rest)
    return f"{start}, within the margin of {short(margin)}, {given(*RESTS, form)}."


def bias_too_large(
    arm: str,
    bias: float,
    low: float | None,
    high: float | None,
    margin: float,
    unit: str = "",
    form: str = FORM,
    is_rest: bool = False,
) -> str:
    """Say that an arm ran in better or worse contexts than usual, by more than the margin.

    >>> bias_too_large("1.0", 0.31, 0.24, 0.38, 0.1)
    'Arm “1.0”: its contexts move its mean by 0.310 (0.240 to 0.380), beyond the margin of 0.1, if
     nothing outside the log was used, rows are independent, nothing carries over and worth is
     nearly quadratic in x: the plain mean would overstate the arm.'
    >>> bias_too_large("1.0", 0.31, 0.24, 0.38, 0.1, is_rest=True)[:63]
    'Arm “1.0”: beyond what the learner reads, its contexts move its'
    """
    does = "overstate" if bias > 0 else "understate"
    start = _moved(arm, bias, low, high, unit, is_rest)
    limit = f"beyond the margin of {short(margin)}, {given(*RESTS, form)}"
    return f"{start}, {limit}: the plain mean would {does} the arm."


def bias_unclear(
    arm: str,
    bias: float,
    low: float | None,
    high: float | None,
    margin: float,
    unit: str = "",
    form: str = FORM,
    is_rest: bool = False,
) -> str:
    """Say that the interval of the bias reaches beyond the margin: too few rows to tell.

    >>> bias_unclear("1.0", 0.06, -0.04, 0.16, 0.1)
    'Arm “1.0”: its contexts move its mean by 0.06 (−0.04 to 0.16), if nothing outside the log was
     used, rows are independent, nothing carries over and worth is nearly quadratic in x; whether
     that is within the margin of 0.1 cannot be told.'
    """
    start = _moved(arm, bias, low, high, unit, is_rest)
    limit = f"whether that is within the margin of {short(margin)}"
    return f"{start}, {given(*RESTS, form)}; {limit} cannot be told."


def _moved(
    arm: str, bias: float, low: float | None, high: float | None, unit: str, is_rest: bool
) -> str:
    """Return the start; `is_rest`: it is about what the learner does not read of the context."""
    of, beyond = f" {unit}" if unit else "", "beyond what the learner reads, " if is_rest else ""
    return f"Arm “{arm}”: {beyond}{MOVED}{spanned(bias, low, high)}{of}"


def evidence(arm: str, rows: float, n_eff: float) -> str:
    """Say how many rows an arm's rows count as, once their bias is allowed for.

    >>> evidence("1.0", 4000, 812.4)
    'The 4,000 rows of arm “1.0” count as 812 if rows are independent: the rest would be false
     certainty.'
    """
    count = "counts" if rows == 1 else "count"
    start = f"The {some(rows, 'row')} of arm “{arm}” {count}"
    if n_eff >= 0.995 * rows:
        return f"{start} in full {given(INDEPENDENT)}."
    return f"{start} as {n_eff:,.0f} {given(INDEPENDENT)}: the rest would be false certainty."
