"""What may be done with the history, and what was done with its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdcb.gates import UNGATED
from gdcb.history.sentences.assumptions import (
    CARRY_OVER,
    FORM,
    INDEPENDENT,
    OUTSIDE,
    given,
    of_change,
)
from gdcb.history.sentences.phrases import day, named, short
from gdcb.pages.numbers import listed, share
from gdcb.pages.words import some

# What is done with the history, and what is done with one arm's rows.
VERDICTS = {
    "direct": "The history may be used as it is, if what this rests on holds.",
    "adjust": "The history may be used after an adjustment for context, if what this rests on "
    "holds.",
    "reweight": "The history may be used with weights, if what this rests on holds.",
    "refuse": "The history must not be used.",
}
MEANING = {
    "direct": "Each arm starts from its rows as they are, weighed by their bias.",
    "adjust": "What context explains of the reward, and the learner does not read itself, is taken "
    "off first, by a model fitted on other rows than those that it corrects.",
    "reweight": "Each row counts by how rarely its action was executed in such a context.",
    "refuse": "The learner starts from its prior, as if there were no history.",
}
SHORT = {
    "direct": "used as is",
    "adjust": "adjusted",
    "reweight": "weighted",
    "refuse": "refused",
}


def verdict(answer: str) -> str:
    """Say what may be done with the history as a whole.

    >>> verdict("refuse")
    'The history must not be used. The learner starts from its prior, as if there were no history.'
    """
    return f"{VERDICTS[answer]} {MEANING[answer]}"


def arms_judged(counts: Mapping[str, int]) -> str:
    """Say how many arms have which verdict; nothing where there is no arm.

    >>> arms_judged({"adjust": 7, "refuse": 2})
    'Of 9 arms, 7 are adjusted and 2 refused.'
    """
    found = [f"{counts[key]} {SHORT[key]}" for key in SHORT if counts.get(key)]
    if not found:
        return ""
    first, *rest = found
    are = "is" if first.startswith("1 ") else "are"
    number, _, words = first.partition(" ")
    return f"Of {some(sum(counts.values()), 'arm')}, {listed([f'{number} {are} {words}', *rest])}."


def arms_refused(names: Sequence[str], n_arms: int) -> str:
    """Say which arms start from the prior although the rest of the history is used.

    >>> arms_refused(["0.8", "1.3"], 5)
    'Of 5 arms, 2 (“0.8” and “1.3”) are refused and start from their prior. The others are not
     affected.'
    """
    which = named([f"“{name}”" for name in names])
    fate = (
        "is refused and starts from its" if len(names) == 1 else "are refused and start from their"
    )
    rest = "" if len(names) >= n_arms else " The others are not affected."
    return f"Of {some(n_arms, 'arm')}, {len(names)} ({which}) {fate} prior.{rest}"


def columns_by_name(roles: Mapping[str, Sequence[str]]) -> str:
    """Say which log columns were taken for which part because of their names alone.

    >>> columns_by_name({"action": ["price"], "outcome": ["booked", "stars"]})
    'Nobody said which log columns play these parts, they were found by name: action price; outcome
     booked and stars.'
    """
    said = "; ".join(f"{role} {named(names)}" for role, names in roles.items())
    return f"Nobody said which log columns play these parts, they were found by name: {said}."


def columns_unread(names: Sequence[str], form: str = FORM) -> str:
    """Say which context columns a learner that reads the context does not read.

    >>> columns_unread(["weekday"])
    'It does not read the context column weekday: whether that misleads it was tested, too, which
     tells only if nothing outside the log was used and worth is nearly quadratic in x.'
    """
    column = "column" if len(names) == 1 else "columns"
    said = f"It does not read the context {column} {named(names)}"
    tells = f"which tells only {given(OUTSIDE, form)}"
    return f"{said}: whether that misleads it was tested, too, {tells}."


def context_read(is_judged: bool, form: str = FORM, is_class: bool = False) -> str:
    """Say why the contexts in which arms ran do not mislead a learner that reads the context.

    `form`: what must hold of the context's worth, so that the test could find what is beyond lines.
    `is_class`: it learns classes, by lines of their log odds.

    >>> context_read(False)
    'The learner reads the context itself, so that arms which ran in better contexts do not mislead
     it, if nothing outside the log was used and its model of the context is right.'
    """
    if is_judged:
        return (
            "The learner reads the context itself: a straight line "
            f"{'of log odds ' if is_class else ''}in the columns that it reads "
            f"does not mislead it, {given(OUTSIDE)} and its model has such a line for each arm. "
            "What the contexts of an arm are worth beyond that line was tested, which tells only "
            f"{given(OUTSIDE, INDEPENDENT, CARRY_OVER, form)}."
        )
    return (
        "The learner reads the context itself, so that arms which ran in better contexts do not "
        f"mislead it, {given(OUTSIDE)} and its model of the context is right."
    )


def ungated() -> str:
    """Say that no gate stands between a proposal and what runs."""
    return f"{UNGATED.capitalize()}: there is no gate, proposals run as they are."


def override_of_verdict(reason: str, without: str) -> str:
    """Say that a person overrode the verdict, what it was, and why.

    >>> override_of_verdict("pilot only, ends in May", "refuse")
    'A person overrode this certificate. Without the override its verdict is “refuse”: the history
     must not be used. The reason given is: “pilot only, ends in May”.'
    """
    meant = VERDICTS[without][0].lower() + VERDICTS[without][1:].rstrip(".")
    return (
        f"A person overrode this certificate. Without the override its verdict is “{without}”: "
        f"{meant}. The reason given is: “{reason.strip()}”."
    )


def rows_used(read: int, rejected: int, used: int, set_aside: int = 0) -> str:
    """Say how many rows were read, how many broke the schema and how many count.

    >>> rows_used(1000, 12, 600)
    'Of 1,000 rows read, 12 were rejected because they break the declared schema; 600 are used.'
    >>> rows_used(1000, 0, 600, 88)
    'Of 1,000 rows read, none broke the declared schema; 88 are too young for their outcomes; 600
     are used.'
    """
    broke = (
        "none broke the declared schema"
        if rejected == 0
        else f"{rejected:,} {'was' if rejected == 1 else 'were'} rejected because "
        f"{'it breaks' if rejected == 1 else 'they break'} the declared schema"
    )
    are = "is" if used == 1 else "are"
    young = "is too young for its outcome" if set_aside == 1 else "are too young for their outcomes"
    aside = f" {set_aside:,} {young};" if set_aside else ""
    return f"Of {some(read, 'row')} read, {broke};{aside} {used:,} {are} used."


SINCE = "Only rows from "  # how what is said of rows that are left out begins


def rows_since(time: str | float, form: str = FORM, is_final: bool = False) -> str:
    """Say from when on rows are used, and what that rests on, as `reward_law_changed` does.

    >>> rows_since("2025-03-04", is_final=True)
    'Only rows from 4 March 2025 on are used: earlier ones follow another reward law, if rows are
     independent and worth is nearly quadratic in x.'
    """
    return (
        f"{SINCE}{day(time)} on are used: earlier ones follow another reward law, "
        f"{given(*of_change(form, is_final))}."
    )


def adjusted_by_regression(form: str, folds: int | None = None) -> str:
    """Say how context was taken off: form 'aipw' is doubly robust, any other a regression.

    >>> adjusted_by_regression("regression", 5)
    'A regression of the reward on context was fitted and taken off, in 5 parts: each part of the
     rows is corrected by a model of the others.'
    """
    parts = "parts" if folds is None else some(folds, "part")
    fitted = (
        f"A regression of the reward on context was fitted and taken off, in {parts}: each part of "
        "the rows is corrected by a model of the others."
    )
    if form != "aipw":
        return fitted
    return (
        f"{fitted} Rows also count by the probability of what was executed, so that the answer is "
        f"right if either the regression or the probabilities are, and {given(OUTSIDE)}."
    )


def reweighted(
    clip: float | None, clipped_share: float, bias_bound: float | None, is_logged: bool = False
) -> str:
    """Say where the weights come from, how many were cut, and what that can have cost.

    >>> reweighted(20.0, 0.013, 0.004)
    'Rows are weighted by the inverse of the probability of what was executed, estimated from the
     log. Weights above 20 were cut to 20, which concerns 1 % of the rows looked at and moves the
     weighted mean of an arm among these rows by at most 0.004; of contexts in which an arm never
     ran, weights say nothing.'
    >>> reweighted(20.0, 0.0, 0.0, is_logged=True)
    'Rows are weighted by the inverse of the probability of what was executed, as the log states it.
     Weights above 20 are cut to 20; none of the rows looked at had one.'
    """
    source = "as the log states it" if is_logged else "estimated from the log"
    said = f"Rows are weighted by the inverse of the probability of what was executed, {source}."
    if clip is None:
        return f"{said} No weight was cut."
    if clipped_share <= 0:
        return (
            f"{said} Weights above {short(clip)} are cut to {short(clip)}; none of the rows looked "
            "at had one."
        )
    cut = f"Weights above {short(clip)} were cut to {short(clip)}"
    told = f"{said} {cut}, which concerns {share(clipped_share)} of the rows looked at"
    if bias_bound is None:
        return f"{told}."
    return (
        f"{told} and moves the weighted mean of an arm among these rows by at most "
        f"{short(bias_bound)}; of contexts in which an arm never ran, weights say nothing."
    )


def overrides_weight(weight: float) -> str:
    """Say how far rows that a person overrode count beside the others.

    >>> overrides_weight(0.25)
    'A row that a person overrode counts as 0.25 of an approved one.'
    """
    if weight >= 1:
        return "Rows that a person overrode count as much as approved ones."
    if weight <= 0:
        return "Rows that a person overrode do not count."
    return f"A row that a person overrode counts as {short(weight)} of an approved one."
