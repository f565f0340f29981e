"""What sentences of a certificate rest on, in words that all of them share."""

from __future__ import annotations

from collections.abc import Sequence

from gdcb.history.sentences.phrases import spanned
from gdcb.pages.numbers import listed

OUTSIDE = "nothing outside the log was used"
INDEPENDENT = "rows are independent"
VERDICTS = "verdicts are independent"
CARRY_OVER = "nothing carries over"
FORM = "worth is nearly quadratic in x"
STEADY = "what an action earns did not drift"
FINAL = "later outcomes are as final as earlier ones"
# What holds in place of it where there are too many columns for all squares and products.
LINEAR = "worth is nearly linear in x"
LINEAR_EACH = "worth is nearly linear in each column of x"
QUADRATIC_EACH = "worth is nearly quadratic in each column of x, whatever the others are"
# Of these, what stands in the box in more words than in a sentence.
AT_LENGTH = {
    CARRY_OVER: "nothing carries over from one decision to later outcomes",
    FORM: "worth is nearly quadratic in the context x",
    LINEAR: "worth is nearly linear in the context x",
    LINEAR_EACH: "worth is nearly linear in each column of the context x",
    QUADRATIC_EACH: (
        "worth is nearly quadratic in each column of the context x, whatever the others are"
    ),
}
TESTED, NOT_TESTED = "Tested", "Not tested"
FAILS, DOUBTED = "Tested: does not hold", "Tested: may not hold"  # what was found speaks against it
PARTLY = "Tested in part"
TOO_FEW = "Tested, but too few rows to tell"
IN_ORDER = "Tested only if rows are in the order of time"
ALL = (OUTSIDE, INDEPENDENT, CARRY_OVER, FORM)


def form_of(no_squares: bool, no_products: bool) -> str:
    """Return what must hold of the context's worth, by the terms that found no room in the fit.

    >>> form_of(False, False), form_of(True, True)
    ('worth is nearly quadratic in x', 'worth is nearly linear in x')
    """
    if no_squares:
        return LINEAR if no_products else LINEAR_EACH
    return QUADRATIC_EACH if no_products else FORM


def of_change(form: str = FORM, is_final: bool = False) -> tuple[str, ...]:
    """Return what the date of a change rests on; `is_final`: it is known how long outcomes take.

    >>> of_change(is_final=True)
    ('rows are independent', 'worth is nearly quadratic in x')
    """
    return (INDEPENDENT, form) if is_final else (INDEPENDENT, form, FINAL)


def given(*assumptions: str) -> str:
    """Return the clause by which a sentence names what it rests on.

    >>> given(OUTSIDE, INDEPENDENT)
    'if nothing outside the log was used and rows are independent'
    """
    return f"if {listed(assumptions)}"


def hidden_cause(found: str) -> str:
    """Say what is known of causes that the log does not hold: how strong one must be, no more.

    >>> hidden_cause("")
    'No log can test this.'
    """
    return f"No log can test this. {found}".rstrip()


def no_carry_over() -> str:
    """Say that carry-over was not looked for."""
    return "It is not looked for."


def form(
    is_class: bool,
    reads_context: bool,
    no_squares: bool = False,
    no_products: bool = False,
    is_judged: bool = False,
) -> str:
    """Say which form the context was given: with many columns there is no room for all terms.

    >>> form(True, False)
    'The log odds of the outcome are fitted by the context, its squares and its products.'
    >>> form(False, False, no_products=True)
    'The outcome is fitted by the context and its squares, without products: what a column is worth
     must not depend on the others.'
    """
    reads = "The learner reads the context by a model of its own."
    if reads_context and not is_judged:
        return reads
    if reads_context:
        return f"{reads} Beyond that: {form(is_class, False, no_squares, no_products)}"
    start = f"{'The log odds of the outcome are' if is_class else 'The outcome is'} fitted by"
    if not (no_squares or no_products):
        return f"{start} the context, its squares and its products."
    if no_squares and no_products:
        return (
            f"{start} the context alone, without squares and products: there are too many columns, "
            "and worth must be nearly linear in x."
        )
    if no_squares:
        return (
            f"{start} the context and its products, without squares: worth must be nearly linear "
            "in each column."
        )
    return (
        f"{start} the context and its squares, without products: what a column is worth must not "
        "depend on the others."
    )


def reviewers(difference: float, low: float, high: float, is_private: bool | None) -> str:
    """Say what overridden rows against approved ones showed.

    >>> reviewers(0.21, 0.15, 0.27, True)
    'Overridden rows differ from approved ones by 0.210 (0.150 to 0.270), if rows are independent.'
    """
    size = spanned(difference, low, high)
    if is_private is None:
        return (
            f"Overridden rows differ from approved ones by {size}, {given(INDEPENDENT)}; a test of "
            "the arms and the probability that it is chance do not agree."
        )
    if is_private:
        return f"Overridden rows differ from approved ones by {size}, {given(INDEPENDENT)}."
    return (
        f"No departure found {given(INDEPENDENT)}: overridden rows differ from approved ones by "
        f"{size}. It says nothing of what those who approved knew."
    )


def no_time_column() -> str:
    """Say that the order of rows stands for time."""
    return (
        "There is no time column: rows are taken to be in the order of time, and what is said of "
        "changes over time holds only if they are."
    )


def late_change() -> str:
    """Say that a change found late may be outcomes that were not known yet."""
    return (
        "But what an action earns seems to change in a way that outcomes which were not known yet "
        "could explain: whether they were is not known."
    )


def unchanged(
    n_changes: int,
    p: str,
    is_certain: bool = True,
    untested: str = "",
    is_immature: bool = False,
    rests: Sequence[str] = of_change(),
) -> str:
    """Say whether the reward law was seen to change; not certain: or whether rows swung.

    `untested`: why a change could not have been found. `is_immature`: or outcomes were not known.
    `rests`: what the date of a change rests on (`of_change`).

    >>> unchanged(0, "p = 0.400")
    'No change found (p = 0.400 if rows are independent).'
    >>> unchanged(2, "p < 0.001")
    '2 changes found (p < 0.001), if rows are independent, worth is nearly quadratic in x and later
     outcomes are as final as earlier ones.'
    >>> unchanged(0, "", untested="too few rows")
    'Not tested: too few rows.'
    """
    if untested:
        return f"Not tested: {untested}."
    if n_changes == 0:
        return f"No change found ({p} {given(INDEPENDENT)})."
    some = "1 change" if n_changes == 1 else f"{n_changes} changes"
    if not is_certain:
        these = "This may be a change or an ordinary swing"
        if is_immature:
            these = "This may be a change or outcomes that were not known yet"
        elif n_changes > 1:
            these = "These may be changes or ordinary swings"
        possible = some.replace("change", "possible change")
        return f"{possible} found ({p} {given(INDEPENDENT)}). {these}; the log cannot tell."
    return f"{some} found ({p}), {given(*rests)}."


def gates_unchanged(n_changes: int, n_possible: int, n_gates: int, is_tested: bool) -> str:
    """Say whether people were seen to change, and what that rests on.

    `n_possible`: changes that cannot be told from swings, because verdicts depend on each other.

    >>> gates_unchanged(1, 0, 1, True)
    '1 change found, if verdicts are independent. Verdicts before it do not teach the gate.'
    >>> gates_unchanged(0, 1, 1, True)
    '1 possible change found, which cannot be told from swings of verdicts that depend on each
     other. All verdicts teach the gate.'
    """
    if not is_tested and n_changes + n_possible == 0:
        return "Not tested: too few rows."
    if n_changes + n_possible == 0:
        return f"No change found {given(VERDICTS)}."
    whom = "the gate" if n_gates == 1 else "the gates"
    some = "1 change" if n_changes == 1 else f"{n_changes} changes"
    swings = "which cannot be told from swings of verdicts that depend on each other"
    others = f"{n_possible} possible change{'s' * (n_possible != 1)}"
    if n_changes == 0:
        return f"{others} found, {swings}. All verdicts teach {whom}."
    last = "it" if n_changes == 1 else "the last"
    said = f"{some} found, {given(VERDICTS)}."
    said = f"{said} Verdicts before {last} do not teach {whom}."
    return f"{said} Besides, found: {others}, {swings}." if n_possible else said


def probabilities(is_logged: bool) -> str:
    """Say where the probabilities of what was executed come from."""
    return "They are taken as the log states them." if is_logged else "They are estimated."


def not_logged() -> str:
    """Say that the log does not tell overridden rows from approved ones."""
    return "The log does not say which proposals were overridden."


def missing(share_missing: str, p: str, is_selective: bool) -> str:
    """Say whether outcomes are missing by arm.

    >>> missing("8 %", "p < 0.001", True)
    '8 % are missing, more of them for some arms (p < 0.001), if rows are independent.'
    """
    found = f" ({p})" if p else ""
    if is_selective:
        return (
            f"{share_missing} are missing, more of them for some arms{found}, {given(INDEPENDENT)}."
        )
    return f"No departure found {given(INDEPENDENT)}: {share_missing} are missing{found}."
