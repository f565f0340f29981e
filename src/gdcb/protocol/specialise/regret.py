"""Theorem 3: the parts of the regret, and how much of it no proposal avoids."""

from __future__ import annotations

from typing import Any

from gdcb.arrays import Array
from gdcb.pages import numbers
from gdcb.pages.numbers import plain as number
from gdcb.pages.numbers import share
from gdcb.pages.words import capital, some
from gdcb.protocol.ground import Shared
from gdcb.protocol.metrics import Estimate, estimate, in_words
from gdcb.protocol.record_checks import TOLERANCE
from gdcb.protocol.report.words import dominant
from gdcb.protocol.specialise.figures import figure, theorem
from gdcb.protocol.specialise.runs import OURS, Runs

STATEMENT = (
    "Regret is the sum of a calibration part, which no arm could have saved, a bandit part, which "
    "another arm would have saved behind the gate, and a signed gate part. The paper's order of "
    "the same total can blame both loops where nothing is lost, so advice follows only where both "
    "agree. Against an ungated oracle regret is linear"
)
_AVOIDED = ": the gate floor is what no proposal avoids."
_INHERITED = (
    " Here what ran before changes what can be reached: regret is counted from a trajectory of "
    "optimal actions, a fourth part is inherited, and the floor is what the optimum loses behind "
    "the gate on a trajectory of its own."
)
# Of a record; the last is there where context is endogenous.
_MAIN, _ORDER = ("calibration", "bandit", "gate", "inherited"), ("bandit", "calibration", "gate")
_UNDEFINED = "not defined: there is no δ*"


def regret(shared: Shared, runs: Runs) -> dict[str, Any]:
    """Return Theorem 3."""
    over = f"{some(runs.n_rounds, 'episode')} of {some(runs.n_methods, 'method')}"
    part, parts, told = _dominant(runs.parts, _MAIN)
    part_paper, parts_paper, told_paper = _dominant(runs.parts_paper, _ORDER)
    floor, note, told_floor = _floor(shared, runs)
    figures = [
        figure("largest rest, main split", runs.rest, f"|Σ parts − total|; {over}"),
        figure(
            "largest rest, paper's order",
            runs.rest_paper,
            _UNDEFINED if runs.rest_paper is None and runs.n_methods else over,
        ),
        figure(f"dominant part of {OURS}, main split", part, parts),
        figure(f"dominant part of {OURS}, paper's order", part_paper, parts_paper),
        figure(f"gate floor, share of {OURS}'s regret", floor, note),
    ]
    blamed = ""
    if told:
        blamed = capital(told.format(f"{OURS}'s regret"))
        paper = told_paper.format("it")
        blamed += f"; in the paper's order {paper}." if paper else "."
    knows = shared.study.about.get("oracle_knows")
    statement = STATEMENT + (f". {knows}" if knows else _AVOIDED)
    statement += _INHERITED if shared.study.domain.is_endogenous else ""
    return theorem(statement, figures, (_sums(runs), blamed, told_floor))


def _sums(runs: Runs) -> str:
    rests = [rest for rest in (runs.rest, runs.rest_paper) if rest is not None]
    if not rests:
        return "No method was run whose regret could be split."
    which = "Both splits" if len(rests) == 2 else "The parts of the main split"
    held = "sum" if max(rests) <= TOLERANCE else "do not sum"
    return f"{which} {held} to the total in every episode, to {number(max(rests))}."


def _dominant(parts: Array | None, names: tuple[str, ...]) -> tuple[str | None, str, str]:
    """Return the part that dominates, a note with all parts, and a sentence on it."""
    if parts is None:
        return None, f"{OURS} was not run", ""
    names = names[: parts.shape[1]]
    found = {name: estimate(parts[:, i]) for i, name in enumerate(names)}
    split = {
        name: numbers.Estimate(value["mean"], value["low"], value["high"])
        for name, value in found.items()
        if value is not None
    }
    if len(split) < len(names):
        return None, _UNDEFINED, ""
    part, told = dominant(split)
    return part or "none", ", ".join(f"{n} {in_words(v)}" for n, v in found.items()), told


def _floor(shared: Shared, runs: Runs) -> tuple[Estimate | None, str, str]:
    """Return Σ floor/Σ regret of B4 in the first replicates, a note, a sentence."""
    if OURS not in runs.regret:
        return None, f"{OURS} was not run", ""
    floor = shared.floor.sum(axis=0)
    lost = runs.regret[OURS][: floor.size]
    if lost.size < floor.size or lost.mean() <= 0:
        return None, f"{OURS} has no regret in the first {some(floor.size, 'replicate')}", ""
    part = float(floor.mean() / lost.mean())
    # A ratio of means has, to first order, the error of the mean of these.
    found = estimate(part + (floor - part * lost) / lost.mean())
    told = f"{share(part)} of it is the gate floor." if part <= 1 else "It is below the gate floor."
    return found, f"ratio of means over {some(floor.size, 'replicate')}", told
