"""What the tests found, and which columns and rows are doubtful."""

from __future__ import annotations

from gdcb.history.sentences.assumptions import INDEPENDENT, given
from gdcb.history.sentences.phrases import chance, short
from gdcb.pages.words import some


def family(level: float, n_tests: int, is_dependent: bool = False) -> str:
    """Say what the thresholds of all tests together promise, and where they promise nothing.

    >>> family(0.05, 7)
    'If nothing is wrong with the history and rows are independent, the chance that any of these 7
     tests raises a false alarm is at most 5 %.'
    >>> family(0.05, 7, is_dependent=True)
    'If nothing is wrong with the history and rows are independent, the chance that any of these 7
     tests raises a false alarm is at most 5 %; here rows may depend on each other, so that it may
     be larger, and a change over time that is found discards nothing.'
    """
    these = "this test" if n_tests == 1 else f"any of these {n_tests} tests"
    rest = (
        "; here rows may depend on each other, so that it may be larger, and a change over time "
        "that is found discards nothing"
    )
    return (
        f"{given('nothing is wrong with the history', INDEPENDENT).capitalize()}, the chance that "
        f"{these} raises a false alarm is at most {short(100 * level)} %{rest * is_dependent}."
    )


def finding(name: str, p: float | None, threshold: float, untested: str = "") -> str:
    """Say whether a test found something, or why it was not made.

    >>> finding("Outcomes missing by arm", 0.4, 0.01)
    'Outcomes missing by arm: nothing found (p = 0.400 if rows are independent, threshold 0.01).'
    """
    if p is None:
        return f"{name}: not tested{f' ({untested})' if untested else ''}."
    found = "a departure was found" if p <= threshold else "nothing found"
    return f"{name}: {found} ({chance(p)} {given(INDEPENDENT)}, threshold {short(threshold)})."


def leak(column: str, what: str) -> str:
    """Say that a column gives the outcome away, or was known only after the decision.

    >>> leak("refund", "known only after the decision")
    'Column “refund” was not used: known only after the decision.'
    """
    return f"Column “{column}” was not used: {what}."


def duplicates(rows: int) -> str:
    """Say how many rows occur more than once."""
    if rows == 0:
        return "No row occurs twice."
    return f"{some(rows, 'row')} {'repeats' if rows == 1 else 'repeat'} an earlier one."
