"""What the page says in sentences: all of it computed from the document."""

from __future__ import annotations

from gdcb.pages.numbers import NONE, Estimate, fixed, listed, percent, plain, plus_minus, share
from gdcb.pages.words import capital, some
from gdcb.protocol.report.document import (
    ABLATIONS,
    ALIASES,
    Document,
    Method,
    Split,
    Threshold,
    names_in,
)
from gdcb.protocol.report.places import TITLE, stands_out, way, where

PAPER_SAVING, PAPER_COMPRESSION, PAPER_BOOKED = "11.7 %", "5×", "150 → 30"
# Episodes in a row that are held against the incumbent.
WINDOW = 20
REACH = "All worlds are simulated, with a known truth; this says nothing yet of a real one."
# On every page of a run on somebody's own log, and beneath its table.
MODELLED = (
    "The response is a model, fitted on the log. Methods are compared in worlds that the log makes "
    "plausible; this is not what would have happened."
)
NO_GATE = "The instance is ungated: no rule and no person stands between a proposal and what runs."
ADVICE = {
    "calibration": "Invest in better supervised data for the scaler.",
    "bandit": "Allow more exploration, or a deeper hierarchy of arms.",
    "gate": "Look at where and why the gate changes what is proposed.",
}
SOURCE = {
    "calibration": "calibration",
    "bandit": "the bandit",
    "gate": "the gate",
    "inherited": "what ran before",
}


def reach(run: Document) -> str:
    """Say how far the results reach."""
    return MODELLED if run.is_model else REACH


def opening(run: Document) -> str:
    """Say how much GDCB lost against the oracle, and how much of it no proposal could save."""
    ours = run.ours
    kind = "modelled" if run.is_model else "simulated"
    worlds = f"{run.replicates:,} {kind} {'world' if run.replicates == 1 else 'worlds'}"
    where = f"In {worlds} of {some(run.episodes, 'episode')} each"
    if ours is None or ours.regret is None:
        return f"{where}, GDCB (B4) was not run: there is nothing to compare the others with."
    lost = (
        f"{where}, GDCB lost {plus_minus(ours.regret)} {run.unit} against one who knows the "
        f"{'model' if run.is_model else 'truth'} and needs no approval"
    )
    if run.floor is None or ours.regret.mean <= 0 or run.is_ungated:
        return f"{lost}."
    part = run.floor.mean / ours.regret.mean
    avoided = f". {run.oracle_knows}" if run.oracle_knows else ", which no proposal avoids."
    if part > 1:
        return f"{lost}, less than the gate floor of {plus_minus(run.floor)}."
    return f"{lost}; of this, {plus_minus(run.floor)} ({share(part)}) is the gate floor{avoided}"


def names(methods: list[Method]) -> str:
    """Join the methods as a sentence does, key and label."""
    return listed(m.key if m.label == m.key else f"{m.key} ({m.label})" for m in methods)


def history(run: Document) -> str:
    """Say what the history was worth."""
    start = run.cold_start
    if start is None or not start.is_compared:
        return ""
    if run.replicates == 1:
        return "With one replicate nothing can be said of what the history was worth."
    n = start.below_from
    words = (
        "At no stage was starting with the history clearly better than starting without"
        if n is None
        else f"Starting with the history was better than starting without from episode {n} on"
    )
    if start.saving_total is None:
        return f"{words}."
    saving = f"at episode 50 it {saved_or_cost(start.saving_total)} of the cumulative regret"
    hurt = " The warm start hurt." if is_harm(start.saving_total) else ""
    return f"{words}; {saving}{_beside(run, PAPER_SAVING)}.{hurt}"


def saved_or_cost(saving: Estimate) -> str:
    """Say what the history saved, or, where that is negative, what it cost.

    >>> saved_or_cost(Estimate(0.25, 0.2, 0.3)), saved_or_cost(Estimate(-0.5, -0.75, -0.25))
    ('saved 25.0 % [20.0, 30.0]', 'cost 50.0 % [25.0, 75.0]')
    """
    if saving.mean >= 0:
        return f"saved {percent(saving)}"
    low, high = (None if end is None else -end for end in (saving.high, saving.low))
    return f"cost {percent(Estimate(-saving.mean, low, high))}"


def is_harm(saving: Estimate) -> bool:
    """Whether the history did harm: not even the saving's upper limit is above 0."""
    return saving.mean < 0 and (saving.high is None or saving.high < 0)


def _beside(run: Document, figure: str) -> str:
    """Return the paper's figure in brackets, where the paper has one: it ran this instance only."""
    return f" (the paper: {figure})" if run.instance == "str" and not run.is_model else ""


def compression(run: Document) -> str:
    """Write the cold-start compression: a number, a lower limit, or why there is none."""
    found = run.cold_start.compression if run.cold_start else None
    if found is None:
        return NONE
    if not found.applies or found.value is None:
        return "not known" if found.sentence.startswith("Not known") else "not applicable"
    low, high = found.value.low, found.value.high
    number = f"{'≥ ' if found.is_at_least else ''}{fixed(found.value.mean, 1)}×"
    if low is None and high is None:
        return number
    ends = ["…" if end is None else f"{fixed(end, 1)}" for end in (low, high)]
    return f"{number} [{ends[0]}, {ends[1]}]"


def booked(run: Document) -> str:
    """Write the booked episodes up to the threshold, without and with history.

    Where replicates are censored it is a lower limit; where no window fits there is none.
    """
    found = [run.methods[key].threshold for key in ("A3", "B4") if key in run.methods]
    is_short = run.episodes < WINDOW
    if len(found) < 2 or is_short or not any(one and one.booked for one in found):
        return NONE
    cold, warm = (_least(one) for one in found)
    return f"{cold} → {warm}"


def _least(found: Threshold | None) -> str:
    """Write what was booked up to the threshold, as a lower limit where some are censored."""
    if found is None or found.booked is None:
        return NONE
    return f"{'≥ ' if found.censored else ''}{plain(round(found.booked.mean))}"


def dominant(split: Split | None) -> tuple[str | None, str]:
    """Return the part that dominates, or None, and the sentence that says so.

    A part dominates if it is positive and its whole interval lies above those of the others.

    The sentence has {} where it names the regret.

    Examples
    --------
    >>> from gdcb.pages.numbers import Estimate
    >>> split = {
    ...     "calibration": Estimate(5, 4, 6),
    ...     "bandit": Estimate(1, 0, 2),
    ...     "gate": Estimate(-2, -3, -1),
    ... }
    >>> dominant(split)
    ('calibration', 'the largest part of {} comes from calibration')
    """
    if split is None:
        return None, "the parts of {} are not known"
    order = sorted(names_in(split), key=lambda name: -split[name].mean)
    first, second = order[0], order[1]
    top, next_one = split[first], split[second]
    if top.mean <= 0:
        return None, "no part of {} is above zero"
    largest = f"the largest part of {{}} comes from {SOURCE[first]}"
    if top.low is None or next_one.high is None:
        return None, f"{largest}, in one replicate, which has no interval"
    if top.low <= max(next_one.high, 0.0):
        return None, (
            f"no part of {{}} stands out: {SOURCE[first]} and {SOURCE[second]} cannot be told apart"
        )
    return first, largest


def made_of(run: Document) -> tuple[str, str | None]:
    """Return the sentence on what dominates, and the advice where both splits agree on it."""
    ours = run.ours
    if ours is None or ours.parts is None:
        return "", None
    main, words = dominant(ours.parts)
    values = ", ".join(f"{name} {plus_minus(part)}" for name, part in ours.parts.items())
    regret = "GDCB's regret"
    opening = f"{capital(words.format(regret))} ({values})"
    if ours.parts_paper is None:
        return (
            f"{opening}. The paper's split is not defined here, so there is nothing to check this "
            "against, and no advice follows."
        ), None
    paper, paper_words = dominant(ours.parts_paper)
    if main is None and paper is None:
        return f"{opening}, so no advice follows.", None
    if main != paper:
        other = f"in the paper's split {paper_words.format('it')}"
        return f"{opening}, but {other}. The two disagree, so no advice follows.", None
    assert main is not None
    advice = f"{ADVICE[main]}{_most_changed(run, main)}{_floor(run, main)}"
    return f"{opening}, in the paper's split too. {advice}", ADVICE[main]


def _most_changed(run: Document, main: str) -> str:
    """Say, where the gate dominates, where most is changed, and which figure shows it."""
    found = run.ours.overrides if run.ours else None
    if main != "gate" or found is None or found.highest is None:
        return ""
    if not stands_out(found):
        return f" No band of contexts stands out: see “{TITLE}”."
    top = found.highest
    size = f"{percent(top.changed)} of the proposals there, {way(found)}"
    return f" It does so most often {where(top.feature, top.band)} ({size}): see “{TITLE}”."


def _floor(run: Document, main: str) -> str:
    """Say, where the gate dominates, how much of it no proposal could have saved."""
    if main != "gate" or run.floor is None or run.ours is None or run.ours.parts is None:
        return ""
    part = run.floor.mean / run.ours.parts["gate"].mean
    if part < 0.5:
        return ""
    return (
        f" The gate floor is {plus_minus(run.floor)}: better proposals cannot save that, "
        "only another gate can."
    )


def ablated(run: Document) -> str:
    """Say which ablations cost regret, and which did not."""
    found: dict[int, list[Method]] = {1: [], 0: [], -1: []}
    for key in ABLATIONS:
        if key == "A2":  # another world, of which below
            continue
        method = run.ablation(key)
        if method is not None and method.versus is not None:
            found[method.versus.sign].append(method)
    phrases = {
        1: "Regret is higher in {}.",
        0: "There is no clear difference in {}.",
        -1: "Regret is lower in {}: there the part that was taken away does harm.",
    }
    said = [phrases[sign].format(names(ms)) for sign, ms in found.items() if ms]
    free = run.ablation("A2")
    if free is not None and free.versus is not None and free.versus.sign:
        way = "lower" if free.versus.sign < 0 else "higher"
        said.append(f"It is {way} without the gate (A2): another world, in which nobody overrides.")
    return " ".join(said)


def threshold_number(value: float | None, run: Document) -> str:
    """Write episodes to threshold; what is beyond the last window is more than its start."""
    if value is None:
        return f"> {run.episodes - WINDOW + 1:,}" if run.episodes >= WINDOW else NONE
    return plain(value)


def second_name(key: str, run: Document) -> str:
    """Return the other name under which an ablation was run, if so."""
    return ALIASES[key] if key not in run.methods and ALIASES.get(key) in run.methods else ""
