"""What a log may hide: private information, missing outcomes, hidden causes."""

from __future__ import annotations

import math

from gdcb.history.sentences.phrases import chance, short, spanned
from gdcb.pages.numbers import share


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


def mostly_missing(part: float, most: float) -> str:
    """Say that the history is refused because of the outcomes that it lacks.

    >>> mostly_missing(0.62, 0.5)
    'The history is refused because 62 % of its outcomes are missing; at most 50 % may be.'
    """
    return (
        f"The history is refused because {share(part)} of its outcomes are missing; at most "
        f"{share(most)} may be."
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
    'At the very worst the bias could be 0.12: the range of the reward over contexts, 0.4, times the
     difference of the contexts, 30 %. Shown for completeness; it decides nothing.'
    """
    return (
        f"At the very worst the bias could be {short(value)}: the range of the reward over "
        f"contexts, {short(osc)}, times the difference of the contexts, {share(tv)}. Shown for "
        "completeness; it decides nothing."
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
