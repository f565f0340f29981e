"""What was measured for each cell of the paper's Table 3, and whether that bears it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gdcb.pages.numbers import Estimate, anything, bracketed, percent, plus_minus
from gdcb.protocol.across.predictions import TABLE, THEOREMS
from gdcb.protocol.report.document import Document
from gdcb.protocol.report.words import dominant

HOLDS, PARTLY, FAILS, OPEN = "holds", "in part", "does not hold", "not measured"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: the paper's words, what was measured, and a verdict."""

    theorem: str
    predicted: str
    measured: str
    verdict: str


def cells(run: Document) -> list[Cell]:
    """Return the four cells of one instance, as far as the paper has a row for it."""
    row = TABLE.get(run.instance)
    if row is None:
        return []
    ask = {"t1": _variance, "t2": _history, "t3": _dominant, "t4": _both}
    found = []
    for theorem in THEOREMS:
        said, verdict = ask[theorem](run)
        found.append(Cell(theorem, getattr(row, theorem), said, verdict))
    return found


def figure_of(run: Document, theorem: str, name: str) -> Any:
    """Return a figure of a theorem's specialisation by the start of its name."""
    found = run.theorems.get(theorem)
    for known, value, _ in found.figures if found is not None else ():
        if known.startswith(name):
            return value
    return None


def _estimate(value: Any) -> Estimate | None:
    return value if isinstance(value, Estimate) else None


def _verdict(*signs: int) -> str:
    """Say whether all differences point the way that was predicted, some, or none."""
    if all(sign > 0 for sign in signs):
        return HOLDS
    return PARTLY if any(sign > 0 for sign in signs) else FAILS


def _variance(run: Document) -> tuple[str, str]:
    """Theorem 1: context that the scaler takes out of the arms, and what that saves."""
    plain_arms, ours = run.ablation("A1"), run.ours
    if plain_arms is None or ours is None or plain_arms.versus is None:
        return "", OPEN
    saved = plain_arms.versus
    said = f"A1 − B4, regret saved by the scaler: {bracketed(saved)}"
    if plain_arms.regret is not None and plain_arms.regret.mean > 0:
        said += f", {percent(Estimate(saved.mean / plain_arms.regret.mean))} of A1's"
    if run.variance_ratio is not None:
        said += f"; variance ratio {bracketed(run.variance_ratio)}"
    if run.instance == "str" and run.cold_start and run.cold_start.compression:
        said += f". Compression: {run.cold_start.compression.sentence}"
    return said, _verdict(saved.sign)


def _history(run: Document) -> tuple[str, str]:
    """Theorem 2: whether a gated history is a valid start."""
    start = run.cold_start
    if start is None or start.saving_total is None:
        return "", OPEN
    parts = [f"warm saves {percent(start.saving_total)} of the cold start's regret at episode 50"]
    eta = figure_of(run, "t2", "η(x), mean")
    if eta is not None:
        parts.append(f"η {anything(eta)}")
    bias = _estimate(figure_of(run, "t2", "b̂, scaler fitted"))
    if bias is not None:
        parts.append(f"b̂ {plus_minus(bias)}")
    return "; ".join(parts), _verdict(start.saving_total.sign)


def _dominant(run: Document) -> tuple[str, str]:
    """Theorem 3: the part of the regret that dominates."""
    ours = run.ours
    if ours is None or ours.parts is None:
        return "", OPEN
    part, _ = dominant(ours.parts)
    said = ", ".join(f"{name} {plus_minus(value)}" for name, value in ours.parts.items())
    said = f"{part or 'none'} dominates: {said}"
    order = dominant(ours.parts_paper)[0] if ours.parts_paper is not None else None
    if order is not None:
        said += f"; in the paper's order {order}"
    expected = TABLE[run.instance].dominant
    if part == expected:
        return said, HOLDS
    return said, PARTLY if order == expected else FAILS


def _both(run: Document) -> tuple[str, str]:
    """Theorem 4: one history serves both loops."""
    alone = {"only the scaler": "A3s", "only the arms": "A3a", "neither": "A3"}
    found = {name: m for name, key in alone.items() if (m := run.methods.get(key)) is not None}
    if run.ours is None or run.ours.regret is None or len(found) < len(alone):
        return "", OPEN
    said = [f"both {plus_minus(run.ours.regret)}"]
    said += [f"{name} {plus_minus(m.regret)}" for name, m in found.items()]
    cross = _estimate(figure_of(run, "t4", "ρ²"))
    if cross is not None:
        said.append(f"ρ² {plus_minus(cross)}")
    signs = [m.versus.sign if m.versus is not None else 0 for m in found.values()]
    return "regret with history for " + ", ".join(said), _verdict(*signs)
