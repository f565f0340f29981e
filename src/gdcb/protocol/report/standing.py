"""How GDCB stands against its rivals, in sentences: like is compared with like.

Rivals with the history are held against B4, which has it too, those without against A3.
"""

from __future__ import annotations

from gdcb.pages.numbers import Estimate, bracketed, listed, plus_minus
from gdcb.pages.words import capital, some
from gdcb.protocol.report.document import Best, Document, Method
from gdcb.protocol.report.words import names

# By how a rival starts: which GDCB it is held against, and the start in words.
FACED = {"warm": ("B4", "with the history"), "cold": ("A3", "without history")}


def outcomes(run: Document, *, is_warm: bool) -> dict[int, list[Method]]:
    """Return the rivals that GDCB beats (1), cannot be told from (0) and loses to (−1)."""
    found: dict[int, list[Method]] = {1: [], 0: [], -1: []}
    for method, value in run.faced(is_warm=is_warm):
        found[value.sign].append(method)
    return found


def against(run: Document) -> str:
    """Say how GDCB stands against the rivals behind the same gate that start as it does."""
    if run.ours is None:
        return ""
    if not run.rivals:
        return "No rival was run beside it."
    if run.replicates == 1:
        return f"With one replicate nothing can be said against {some(len(run.rivals), 'rival')}."
    said = [_against(run, start) for start in FACED]
    return " ".join(sentence for sentence in (*said, ratio(run)) if sentence)


def _against(run: Document, start: str) -> str:
    key, words = FACED[start]
    found = outcomes(run, is_warm=start == "warm")
    won, even, lost = (found[sign] for sign in (1, 0, -1))
    n = len(won) + len(even) + len(lost)
    if not n:
        return unfaced(run) if start == "cold" else ""
    clauses = []
    if won:
        clauses.append(f"has less regret than {_beaten(won, n)} with the same start")
    if even:
        clauses.append(f"cannot be told apart from {names(even)}")
    if lost:
        clauses.append(f"loses to {names(lost)}")
    return f"{capital(words)}, GDCB ({key}) {_clauses(clauses)}."


def _beaten(won: list[Method], n: int) -> str:
    if n == 1:
        return f"{names(won)}, the only rival"
    return f"all {n} rivals" if len(won) == n else f"{len(won)} of the {n} rivals"


def _clauses(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def unfaced(run: Document) -> str:
    """Say, where A3 was not run, that nothing starts as the rivals without history do."""
    cold = [m for m in run.rivals if not m.is_warm]
    if not cold or "A3" in run.methods:
        return ""
    return (
        f"{names(cold)} had no history, and B4 had: GDCB without it (A3) was not run, so that "
        "nothing is said of them."
    )


def ratio(run: Document) -> str:
    """Say GDCB's regret above the floor as a multiple of the best rival's, by start."""
    found = {start: _ratio(run, start, best) for start, best in run.against_best.items()}
    said = {start: words for start, words in found.items() if words}
    if not said:
        return ""
    above = f"Above the gate floor, {'; '.join(said.values())}."
    n_chosen = sum(_n_alike(run, start) > 1 for start in said)
    if not n_chosen:
        return above
    chosen = "The best rival was" if n_chosen == 1 else "Both best rivals were"
    return f"{above} {chosen} chosen on these same runs, which no interval takes into account."


def _n_alike(run: Document, start: str) -> int:
    """Return how many rivals start so: one alone was not chosen."""
    return sum(m.is_warm == (start == "warm") for m in run.rivals)


def _ratio(run: Document, start: str, best: Best) -> str:
    key, words = FACED[start]
    ours, rival = run.methods.get(key), best.rival
    if ours is None or ours.excess is None or rival.excess is None:
        return ""
    amounts = f"{plus_minus(ours.excess)} against {plus_minus(rival.excess)}"
    rank = "best" if _n_alike(run, start) > 1 else "only"
    of = f"the {rank} rival {words}, {names([rival])}"
    if best.ratio is None or best.ratio.mean < 0:
        return f"{key} and {of}, have {amounts}"
    return f"{key} has {bracketed(best.ratio)} times the regret of {of}: {amounts}"


def losses(run: Document) -> list[str]:
    """Say in words where GDCB loses, cannot be told apart, and to which of its own variants."""
    if run.ours is None:
        return ["GDCB (B4) was not run."]
    if run.replicates == 1:
        return ["One replicate has no interval: nothing below is a finding."]
    sentences = [sentence for start in FACED for sentence in _losses(run, start)]
    own = [
        m
        for m in run.distinct
        if (m.key.startswith(("A", "B4")) and m.versus and m.versus.sign < 0 and not m.is_ungated)
    ]
    if own:
        sentences.append(f"Of its own variants, {names(own)} did better than B4.")
    free = [m for m in run.distinct if m.is_ungated and m.versus and m.versus.sign < 0]
    if free:
        sentences.append(
            f"Without the gate {names(free)} had less regret than GDCB behind it; they face "
            "another world, in which nobody overrides."
        )
    return [*sentences, unfaced(run), *cold_against_cold(run)]


def _losses(run: Document, start: str) -> list[str]:
    key, words = FACED[start]
    faced = run.faced(is_warm=start == "warm")
    lost = [f"{m.key} by {plus_minus(_flipped(value))}" for m, value in faced if value.sign < 0]
    even = [m for m, value in faced if value.sign == 0]
    said = []
    if lost:
        said.append(f"{capital(words)}, GDCB ({key}) loses to {listed(lost)} {run.unit}.")
    elif faced:
        same = "" if run.is_ungated else " behind the same gate"
        said.append(f"{capital(words)}, GDCB ({key}) loses to no rival{same}.")
    if even:
        said.append(f"It cannot be told apart from {names(even)}.")
    return said


def _flipped(value: Estimate) -> Estimate:
    if value.low is None or value.high is None:
        return Estimate(-value.mean)
    return Estimate(-value.mean, -value.high, -value.low)


def cold_against_cold(run: Document) -> list[str]:
    """Set GDCB without history beside the best rival without: B4 itself is warm."""
    cold, ours = [m for m in run.rivals if not m.is_warm and m.regret], run.methods.get("A3")
    if ours is None or ours.regret is None or not cold:
        return []
    best = min(cold, key=lambda m: m.regret.mean if m.regret else 0.0)
    rival = f"the best cold rival, {names([best])}, {plus_minus(best.regret)}"
    opening = "B4 starts with the history, rivals without a w in their key do not."
    words = f"{opening} Without it, GDCB (A3) has {plus_minus(ours.regret)}, and {rival}"
    paired = best.versus_cold
    if paired is None or paired.low is None:
        return [f"{words}."]
    verdict = {1: "GDCB better", 0: "no clear difference", -1: "GDCB worse"}[paired.sign]
    return [f"{words}; the paired difference is {plus_minus(paired)}: {verdict}."]
