"""The reward law and the gates over time, and how far the future may differ."""

from __future__ import annotations

from gdcb.history.sentences.assumptions import (
    FORM,
    INDEPENDENT,
    OUTSIDE,
    VERDICTS,
    given,
    of_change,
)
from gdcb.history.sentences.phrases import chance, short, when
from gdcb.pages.numbers import share
from gdcb.pages.words import capital


def reward_law_stable(p: float | None = None, untested: str = "") -> str:
    """Say that no change of the reward law was found, or why none could be.

    >>> reward_law_stable(untested="too few rows")
    'Whether what an action earns in a given context changed over time was not tested: too few
     rows.'
    """
    if untested:
        return (
            "Whether what an action earns in a given context changed over time was not tested: "
            f"{untested}."
        )
    found = "" if p is None else f" ({chance(p)} {given(INDEPENDENT)})"
    return f"No change was found over time in what an action earns in a given context{found}."


def reward_law_changed(
    time: str | float,
    what: str,
    p: float | None = None,
    form: str = FORM,
    is_final: bool = False,
) -> str:
    """Say when the reward law changed, what in it did, and what that rests on.

    `form`: what must hold of the context's worth. `is_final`: it is known how long outcomes take.

    >>> reward_law_changed("2025-03-04", "the level of the reward", 1e-5)
    'On 4 March 2025 the reward law changed, if rows are independent, worth is nearly quadratic in x
     and later outcomes are as final as earlier ones: the level of the reward (p < 0.001). What an
     action earned before need not be what it earns now.'
    """
    found = "" if p is None else f" ({chance(p)})"
    rests = given(*of_change(form, is_final))
    return (
        f"{capital(when(time))} the reward law changed, {rests}: {what}{found}. "
        "What an action earned before need not be what it earns now."
    )


# What a possible change cannot be told from.
SWINGS = "day-to-day swings"
MISSING = "outcomes that are missing more often since then"
IMMATURE = "outcomes that were not known yet when the log ended"
SWINGS_OR_IMMATURE = f"{SWINGS} or {IMMATURE}"


def reward_law_possible(
    time: str | float, what: str, p: float | None = None, doubt: str = SWINGS
) -> str:
    """Say that the reward law may have changed, and what that cannot be told from.

    >>> reward_law_possible("2025-03-04", "the level of the reward", 1e-5)
    'On 4 March 2025 the reward law may have changed: the level of the reward (p < 0.001 if rows
     were independent). That cannot be told from day-to-day swings, so no row is left out for it.'
    >>> reward_law_possible("2025-03-04", "the level", 1e-5, IMMATURE)
    'On 4 March 2025 the reward law may have changed: the level (p < 0.001 if all outcomes were
     known). That cannot be told from outcomes that were not known yet when the log ended, so no row
     is left out for it. Declare under [history] how long outcomes take (matures_after, also where
     they are known at once), and it can be told.'
    """
    rests = {MISSING: "outcomes were missing by chance", IMMATURE: "all outcomes were known"}
    found = "" if p is None else f" ({chance(p)} if {rests.get(doubt, 'rows were independent')})"
    told = (
        f"{capital(when(time))} the reward law may have changed: {what}{found}. "
        f"That cannot be told from {doubt}, so no row is left out for it."
    )
    if doubt not in (IMMATURE, SWINGS_OR_IMMATURE):
        return told
    dates = isinstance(time, str)
    declare = "Declare" if dates else "Give the log a column of dates, and declare"
    end = ", and it can be told" if doubt == IMMATURE else ""
    return (
        f"{told} {declare} under [history] how long outcomes take (matures_after, also where they "
        f"are known at once){end}."
    )


_NEAR = 0.1  # p-values below it are printed with their threshold: they look like a finding


def rows_independent(p: float, threshold: float | None = None) -> str:
    """Say that no dependence between rows was found.

    >>> rows_independent(0.4, 0.0125)
    'No sign was found that rows depend on each other (p = 0.400).'
    >>> rows_independent(0.02, 0.0125)
    'No sign was found that rows depend on each other (p = 0.020, threshold 0.0125).'
    """
    limit = "" if threshold is None or p > _NEAR else f", threshold {short(threshold)}"
    return f"No sign was found that rows depend on each other ({chance(p)}{limit})."


def rows_slightly_dependent(among: str, inflation: float, p: float) -> str:
    """Say that rows depend on each other by too little to change a test.

    >>> rows_slightly_dependent("neighbouring rows", 1.0712, 1e-9)
    'Rows depend on each other a little: neighbouring rows resemble each other more than chance
     allows (p < 0.001), but the variance of their sums is only 1.07 times that of independent rows,
     too little to change a test.'
    """
    return (
        f"Rows depend on each other a little: {among} resemble each other more than chance allows "
        f"({chance(p)}), but the variance of their sums is only {inflation:.2f} times that of "
        "independent rows, too little to change a test."
    )


def rows_dependent(among: str, inflation: float, p: float) -> str:
    """Say which rows depend on each other, and how much more sums of rows then vary.

    >>> rows_dependent("rows of the same day", 3.21, 0.0001)
    'Rows depend on each other: rows of the same day resemble each other more than chance allows
     (p < 0.001), so that the variance of their sums is 3.2 times that of independent rows. p-values
     here are too small, intervals too narrow, and a change over time cannot be told from day-to-day
     swings.'
    """
    return (
        f"Rows depend on each other: {among} resemble each other more than chance allows "
        f"({chance(p)}), so that the variance of their sums is {inflation:.1f} times that of "
        "independent rows. p-values here are too small, intervals too narrow, and a change over "
        "time cannot be told from day-to-day swings."
    )


def too_many_changes(n: int) -> str:
    """Say that so many changes are swings."""
    return (
        f"What actions earn seems to have changed {n} times, as it does where rows of a day or a "
        "week depend on each other: changes cannot be told from such swings."
    )


def slow_swings() -> str:
    """Say that a change is not much likelier than a season, a trend or a slow walk."""
    return (
        "What actions earn differs over time in a way that slow swings, a season or a trend "
        "explain about as well as changes at single dates do: rows may depend on each other over "
        "long times, and changes cannot be told from such swings."
    )


def too_few_days(n: int) -> str:
    """Say that a log of a few days cannot tell a change from a good day."""
    return (
        f"The log spans {n} days only, too few to tell a change of the reward law from an unusual "
        "day."
    )


def dependence_untested(is_constant: bool = False, n_changes: int = 0) -> str:
    """Say that rows cannot be tested for dependence: too few of them, or all outcomes alike.

    >>> dependence_untested(n_changes=1)
    'Whether rows depend on each other was not tested: there are too few of them. The change that
     was found is therefore only a possible one, and discards nothing.'
    """
    why = "every outcome is the same" if is_constant else "there are too few of them"
    told = f"Whether rows depend on each other was not tested: {why}."
    if n_changes == 0:
        return told
    if n_changes == 1:
        only = "change that was found is therefore only a possible one, and discards nothing"
    else:
        only = "changes that were found are therefore only possible ones, and discard nothing"
    return f"{told} The {only}."


def gate_changed(
    gate: str,
    time: str | float,
    before: float | None = None,
    after: float | None = None,
    p: float | None = None,
    is_certain: bool = True,
) -> str:
    """Say when a gate's pass rate changed; that alone does no harm, and the sentence says so.

    >>> gate_changed("manager", 60001, 0.75, 0.55)
    'The gate “manager” changed at row 60,001, if verdicts are independent: before it let 75 % of
     the proposals pass unchanged, since then 55 %. This alone does no harm if nothing outside the
     log was used, because rows are credited with what was executed.'
    >>> gate_changed("manager", 60001, 0.75, 0.55, 1e-5, is_certain=False)[:135]
    'The gate “manager” may have changed at row 60,001 (p < 0.001 if verdicts were independent):
     before it let 75 % of the proposals pass un'
    """
    if is_certain:
        found = "" if p is None else f" ({chance(p)})"
        start = f"The gate “{gate}” changed {when(time)}, {given(VERDICTS)}{found}"
    else:
        found = "" if p is None else f" ({chance(p)} if verdicts were independent)"
        start = f"The gate “{gate}” may have changed {when(time)}{found}"
    rates = (
        ""
        if before is None or after is None
        else f": before it let {share(before)} of the proposals pass unchanged, since then "
        f"{share(after)}"
    )
    doubt = (
        ""
        if is_certain
        else "That cannot be told from swings of verdicts that depend on each other, so no verdict "
        "is left out for it. "
    )
    return (
        f"{start}{rates}. {doubt}This alone does no harm {given(OUTSIDE)}, because rows are "
        "credited with what was executed."
    )


def gate_stable(gate: str, p: float | None = None, untested: str = "") -> str:
    """Say that no change of a gate was found, or why none could be.

    >>> gate_stable("manager", 0.31)
    'No change was found in the gate “manager” (p = 0.310 if verdicts are independent).'
    >>> gate_stable("manager", untested="too few rows")
    'Whether the gate “manager” changed was not tested: too few rows.'
    """
    if untested:
        return f"Whether the gate “{gate}” changed was not tested: {untested}."
    found = "" if p is None else f" ({chance(p)} {given(VERDICTS)})"
    return f"No change was found in the gate “{gate}”{found}."


def contraction(gate: str, eta: float, high: float | None = None) -> str:
    """Say how far a difference between two proposing policies can get through the gate.

    >>> contraction("manager", 0.7, 0.74)
    'Of a difference between two ways of proposing, at most 70 % gets through the gate “manager”
     (upper limit 74 % with 95 % confidence, if verdicts are independent).'
    """
    limit = (
        ""
        if high is None
        else f" (upper limit {share(high)} with 95 % confidence, {given(VERDICTS)})"
    )
    return (
        f"Of a difference between two ways of proposing, at most {share(eta)} gets through the "
        f"gate “{gate}”{limit}."
    )
