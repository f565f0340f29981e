"""What a certificate says in words: from figures to sentences that a regulator could read.

Every function takes plain numbers and names and returns one or two whole sentences. Times are ISO
dates, or the number of a row where the log has no time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

from gdcb.pages.numbers import Estimate, common_digits, fixed, listed, plain, probability, share

# What is done with the history, and what is done with one arm's rows.
VERDICTS = {
    "direct": "The history may be used as it is.",
    "adjust": "The history may be used after an adjustment for context.",
    "reweight": "The history may be used with weights.",
    "refuse": "The history must not be used.",
}
MEANING = {
    "direct": "Each arm starts from its rows as they are, weighed by their bias.",
    "adjust": "What context explains of the reward is taken off first, by a model fitted on other "
    "rows than those that it corrects.",
    "reweight": "Each row counts by how rarely its action was executed in such a context.",
    "refuse": "The learner starts from its prior, as if there were no history.",
}
SHORT = {
    "direct": "used as it is",
    "adjust": "adjusted",
    "reweight": "weighted",
    "refuse": "refused",
}
_MOST = 6  # names in one sentence


def when(time: str | float) -> str:
    """Write a time as a sentence does.

    Examples
    --------
    >>> when("2025-03-04T09:30:00+00:00"), when(60_001)
    ('on 4 March 2025', 'at row 60,001')
    """
    return f"at row {time:,.0f}" if isinstance(time, int | float) else f"on {day(time)}"


def day(time: str | float) -> str:
    """Write a time without its preposition; what is no ISO date stays as it is."""
    if isinstance(time, int | float):
        return f"row {time:,.0f}"
    try:
        found = datetime.fromisoformat(time)
    except ValueError:
        return time
    return f"{found.day} {found:%B} {found.year}"


def chance(p: float) -> str:
    """Write a p-value as a bracket holds it: 'p = 0.020', 'p < 0.001'.

    >>> chance(0.02), chance(1e-9)
    ('p = 0.020', 'p < 0.001')
    """
    text = probability(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def spanned(mean: float, low: float | None = None, high: float | None = None) -> str:
    """Write an estimate with its interval in words; without two finite ends there is none.

    >>> spanned(0.0412, 0.013, 0.069), spanned(0.5)
    ('0.041 (0.013 to 0.069)', '0.500')
    """
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return plain(mean)
    digits = common_digits([Estimate(mean, low, high)])
    return f"{fixed(mean, digits)} ({fixed(low, digits)} to {fixed(high, digits)})"


def short(value: float) -> str:
    """Write a number with at most three significant digits and no needless zeros.

    >>> short(0.1), short(-1.8349), short(20.0)
    ('0.1', '−1.83', '20')
    """
    return f"{value:.3g}".replace("-", "−") if 1e-4 <= abs(value) < 1e3 else plain(value)


def some(n: float, noun: str) -> str:
    """Write how many there are: 1 row, 2,000 rows."""
    return f"{n:,.0f} {noun}" if round(n) == 1 else f"{n:,.0f} {noun}s"


def named(names: Sequence[str]) -> str:
    """Join names, at most six of them, as a sentence does.

    >>> named(["a", "b", "c"]), named([str(n) for n in range(9)])
    ('a, b and c', '0, 1, 2, 3, 4, 5 and 3 others')
    """
    rest = len(names) - _MOST
    if rest <= 0:
        return listed(names)
    return listed([*names[:_MOST], "1 other" if rest == 1 else f"{rest} others"])


# The verdict


def verdict(answer: str) -> str:
    """Say what may be done with the history as a whole.

    >>> verdict("refuse")
    'The history must not be used. The learner starts from its prior, as if there were no history.'
    """
    return f"{VERDICTS[answer]} {MEANING[answer]}"


def arms_refused(names: Sequence[str], n_arms: int) -> str:
    """Say which arms start from the prior although the rest of the history is used.

    >>> arms_refused(["0.8", "1.3"], 5)
    'Of 5 arms, 2 are refused and start from their prior: 0.8 and 1.3. The others are not affected.'
    """
    are = "1 is refused and starts" if len(names) == 1 else f"{len(names)} are refused and start"
    prior = "its prior" if len(names) == 1 else "their prior"
    rest = "" if len(names) >= n_arms else " The others are not affected."
    return f"Of {some(n_arms, 'arm')}, {are} from {prior}: {named(names)}.{rest}"


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


# What was done with the rows


def rows_used(read: int, rejected: int, used: int) -> str:
    """Say how many rows were read, how many broke the schema and how many count.

    >>> rows_used(1000, 12, 600)
    'Of 1,000 rows read, 12 were rejected because they break the declared schema; 600 are used.'
    """
    broke = (
        "none broke the declared schema"
        if rejected == 0
        else f"{rejected:,} {'was' if rejected == 1 else 'were'} rejected because "
        f"{'it breaks' if rejected == 1 else 'they break'} the declared schema"
    )
    are = "is" if used == 1 else "are"
    return f"Of {some(read, 'row')} read, {broke}; {used:,} {are} used."


def rows_since(time: str | float) -> str:
    """Say from when on rows are used."""
    return f"Only rows from {day(time)} on are used: earlier ones follow another reward law."


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
        "right if either the regression or the probabilities are."
    )


def reweighted(
    clip: float | None, clipped_share: float, bias_bound: float | None, is_logged: bool = False
) -> str:
    """Say where the weights come from, how many were cut, and what that can have cost.

    >>> reweighted(20.0, 0.013, 0.004)
    'Rows are weighted by the inverse of the probability of what was executed, estimated from the
     log. Weights above 20 were cut to 20, which concerns 1 % of the rows and moves a mean by at
     most 0.004.'
    """
    source = "as the log states it" if is_logged else "estimated from the log"
    said = f"Rows are weighted by the inverse of the probability of what was executed, {source}."
    if clip is None:
        return f"{said} No weight was cut."
    moved = "" if bias_bound is None else f" and moves a mean by at most {short(bias_bound)}"
    cut = f"Weights above {short(clip)} were cut to {short(clip)}"
    return f"{said} {cut}, which concerns {share(clipped_share)} of the rows{moved}."


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


# The reward law and the gates over time


def reward_law_stable(p: float | None = None) -> str:
    """Say that no change of the reward law was found."""
    found = "" if p is None else f" ({chance(p)})"
    return f"No change was found over time in what an action earns in a given context{found}."


def reward_law_changed(time: str | float, what: str, p: float) -> str:
    """Say when the reward law changed and what in it did.

    >>> reward_law_changed("2025-03-04", "the level of the reward", 1e-5)
    'On 4 March 2025 the reward law changed: the level of the reward (p < 0.001). What an action
     earned before need not be what it earns now.'
    """
    start = when(time)
    return (
        f"{start[0].upper()}{start[1:]} the reward law changed: {what} ({chance(p)}). "
        "What an action earned before need not be what it earns now."
    )


def gate_changed(
    gate: str, time: str | float, before: float, after: float, p: float | None = None
) -> str:
    """Say when a gate's pass rate changed; that alone does no harm, and the sentence says so.

    >>> gate_changed("manager", 60001, 0.75, 0.55)
    'The gate “manager” changed at row 60,001: before it let 75 % of the proposals pass unchanged,
     since then 55 %. This alone does no harm, because rows are credited with what was executed.'
    """
    found = "" if p is None else f" ({chance(p)})"
    return (
        f"The gate “{gate}” changed {when(time)}{found}: before it let {share(before)} of the "
        f"proposals pass unchanged, since then {share(after)}. This alone does no harm, because "
        "rows are credited with what was executed."
    )


def gate_stable(gate: str) -> str:
    """Say that no change of a gate was found."""
    return f"No change was found in the gate “{gate}”."


def contraction(gate: str, eta: float, high: float | None = None) -> str:
    """Say how far a difference between two proposing policies can get through the gate.

    >>> contraction("manager", 0.7, 0.74)
    'Of a difference between two ways of proposing, at most 70 % gets through the gate “manager”
     (upper limit 74 %).'
    """
    limit = "" if high is None else f" (upper limit {share(high)})"
    return (
        f"Of a difference between two ways of proposing, at most {share(eta)} gets through the "
        f"gate “{gate}”{limit}."
    )


# One arm


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


def bias_within_margin(
    arm: str, bias: float, low: float | None, high: float | None, margin: float, unit: str = ""
) -> str:
    """Say that an arm's contexts do not mislead by more than the margin.

    >>> bias_within_margin("1.0", 0.012, -0.02, 0.044, 0.1)
    'Arm “1.0”: its contexts move its mean by 0.012 (−0.020 to 0.044), within the margin of 0.1.'
    """
    return f"{_moved(arm, bias, low, high, unit)}, within the margin of {_in(margin, unit)}."


def bias_too_large(
    arm: str, bias: float, low: float | None, high: float | None, margin: float, unit: str = ""
) -> str:
    """Say that an arm ran in better or worse contexts than usual, by more than the margin.

    >>> bias_too_large("1.0", 0.31, 0.24, 0.38, 0.1)
    'Arm “1.0”: its contexts move its mean by 0.310 (0.240 to 0.380), beyond the margin of 0.1. It
     ran in better contexts than usual, and its plain mean would overstate it.'
    """
    kind, does = ("better", "overstate") if bias > 0 else ("worse", "understate")
    return (
        f"{_moved(arm, bias, low, high, unit)}, beyond the margin of {_in(margin, unit)}. "
        f"It ran in {kind} contexts than usual, and its plain mean would {does} it."
    )


def bias_unclear(
    arm: str, bias: float, low: float | None, high: float | None, margin: float, unit: str = ""
) -> str:
    """Say that the interval of the bias reaches beyond the margin: too few rows to tell."""
    return (
        f"{_moved(arm, bias, low, high, unit)}; whether that is within the margin of "
        f"{_in(margin, unit)} cannot be told from so few rows."
    )


def _moved(arm: str, bias: float, low: float | None, high: float | None, unit: str) -> str:
    of = f" {unit}" if unit else ""
    return f"Arm “{arm}”: its contexts move its mean by {spanned(bias, low, high)}{of}"


def _in(margin: float, unit: str) -> str:
    return f"{short(margin)} {unit}" if unit else short(margin)


def evidence(arm: str, rows: float, n_eff: float) -> str:
    """Say how many rows an arm's rows count as, once their bias is allowed for.

    >>> evidence("1.0", 4000, 812.4)
    'The 4,000 rows of arm “1.0” count as 812: the rest would be false certainty.'
    """
    count = "counts" if rows == 1 else "count"
    start = f"The {some(rows, 'row')} of arm “{arm}” {count}"
    if n_eff >= 0.995 * rows:
        return f"{start} in full."
    return f"{start} as {n_eff:,.0f}: the rest would be false certainty."


# People, missing outcomes, what is hidden


def overrides_private(
    posterior: float, difference: float, low: float | None = None, high: float | None = None
) -> str:
    """Say that overridden rows fare unlike approved ones: people knew what the log does not show.

    >>> overrides_private(0.02, 0.21, 0.15, 0.27)
    'Overridden rows earn 0.210 (0.150 to 0.270) more than approved ones of the same action and
     context. Whoever overrode probably knew something that the log does not show (the probability
     that they did not is 2 %), so overridden rows count that much less.'
    """
    return (
        f"{_earn(difference, low, high)} Whoever overrode probably knew something that the log "
        f"does not show (the probability that they did not is {share(posterior)}), so overridden "
        "rows count that much less."
    )


def overrides_trusted(
    posterior: float, difference: float, low: float | None = None, high: float | None = None
) -> str:
    """Say that overridden rows fare like approved ones."""
    return (
        f"{_earn(difference, low, high)} That is no sign that people used information which the "
        f"log does not show (the probability that they did not is {share(posterior)})."
    )


def _earn(difference: float, low: float | None, high: float | None) -> str:
    if difference < 0:
        way, ends = "less", (None if high is None else -high, None if low is None else -low)
    else:
        way, ends = "more", (low, high)
    size = spanned(abs(difference), *ends)
    return f"Overridden rows earn {size} {way} than approved ones of the same action and context."


def overrides_not_logged() -> str:
    """Say that the log does not tell approved rows from overridden ones."""
    return (
        "The log does not say which proposals were overridden, so whether people used information "
        "that it does not show cannot be tested; see the sensitivity."
    )


def outcomes_missing(missing: float, p: float | None = None, is_selective: bool = False) -> str:
    """Say how many outcomes are missing, and whether that goes with what was executed.

    >>> outcomes_missing(0.08, 0.0004, True)
    '8 % of the outcomes are missing, and more of them for some arms than for others (p < 0.001):
     the rows that are left may not stand for all.'
    """
    if missing <= 0:
        return "No outcome is missing."
    found = "" if p is None else f" ({chance(p)})"
    if is_selective:
        return (
            f"{share(missing)} of the outcomes are missing, and more of them for some arms than "
            f"for others{found}: the rows that are left may not stand for all."
        )
    return f"{share(missing)} of the outcomes are missing, about as many for every arm{found}."


def sensitivity_arms(odds_ratio: float | None) -> str:
    """Say how strong a hidden cause would have to be to change which arm looks best.

    >>> sensitivity_arms(1.8)
    'A hidden cause would have to change the odds of an action by a factor of 1.8 in contexts that
     look the same before another arm could be the best.'
    """
    if odds_ratio is None or not math.isfinite(odds_ratio):
        return "How strong a hidden cause could make another arm the best is not known."
    if odds_ratio <= 1:
        return (
            "No arm is clearly the best here, so even the weakest hidden cause could make another "
            "one look so."
        )
    return (
        f"A hidden cause would have to change the odds of an action by a factor of "
        f"{short(odds_ratio)} in contexts that look the same before another arm could be the best."
    )


def sensitivity_slopes(robustness_value: float | None) -> str:
    """Say how much a hidden cause would have to explain to take the scaler's effect away.

    >>> sensitivity_slopes(0.12)
    'A hidden cause would have to explain 12 % of what is left over, both of the action and of the
     reward, before the effect of the action could be none.'
    """
    if robustness_value is None or not math.isfinite(robustness_value):
        return "How strong a hidden cause could take the action's effect away is not known."
    return (
        f"A hidden cause would have to explain {share(robustness_value)} of what is left over, "
        "both of the action and of the reward, before the effect of the action could be none."
    )


def worst_case(osc: float, tv: float, value: float) -> str:
    """Say what the bias could be at worst; it never decides.

    >>> worst_case(0.4, 0.3, 0.12)
    'At the very worst the bias could be 0.12: the reward ranges over 0.4 across contexts, and
     the contexts differ by 30 %. This limit is shown for completeness and decides nothing.'
    """
    return (
        f"At the very worst the bias could be {short(value)}: the reward ranges over {short(osc)} "
        f"across contexts, and the contexts differ by {share(tv)}. This limit is shown for "
        "completeness and decides nothing."
    )


def transport(eta: float, tv: float, product: float) -> str:
    """Say how far the executed actions can differ once the new learner proposes.

    >>> transport(0.7, 0.5, 0.35)
    'The new learner would propose otherwise than before in 50 % of the decisions, and at most 70 %
     of that gets through the gates: what is executed differs in at most 35 %.'
    """
    return (
        f"The new learner would propose otherwise than before in {share(tv)} of the decisions, and "
        f"at most {share(eta)} of that gets through the gates: what is executed differs in at most "
        f"{share(product)}."
    )


def variance(ratio: float, low: float | None = None, high: float | None = None) -> str:
    """Say how much context changes which arm is better, against the noise.

    >>> variance(1.6, 1.2, 2.1)
    'Context changes which of the two best arms is better, by 1.60 (1.20 to 2.10) times the noise: a
     scaler is worth much here.'
    """
    start = "Context changes which of the two best arms is better, by"
    size = f"{start} {spanned(ratio, low, high)} times the noise"
    if low is not None and low > 1:
        return f"{size}: a scaler is worth much here."
    if high is not None and high < 0.1:
        return f"{size}: a scaler is worth little here."
    return f"{size}: a scaler may be worth something here."


# Tests, leaks


def family(level: float, n_tests: int) -> str:
    """Say what the thresholds of all tests together promise.

    >>> family(0.05, 7)
    'If nothing is wrong with the history, the chance that any of these 7 tests raises a false alarm
     is at most 5 %.'
    """
    these = "this test" if n_tests == 1 else f"any of these {n_tests} tests"
    return (
        f"If nothing is wrong with the history, the chance that {these} raises a false alarm is at "
        f"most {short(100 * level)} %."
    )


def finding(name: str, p: float, threshold: float) -> str:
    """Say whether a test found something.

    >>> finding("Outcomes missing by arm", 0.4, 0.01)
    'Outcomes missing by arm: nothing found (p = 0.400, threshold 0.01).'
    """
    found = "a departure was found" if p < threshold else "nothing found"
    return f"{name}: {found} ({chance(p)}, threshold {short(threshold)})."


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
