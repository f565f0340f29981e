"""The shape that every theorem's check answers in: claims, figures and a verdict in sentences.

A theorem makes several claims. Each is judged in the paper's form or in the repaired one, by a
figure that was measured, so a verdict is never written by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.errors import InvalidInput

PAPER, REPAIRED = "paper", "repaired"

# Hears what is done now, in a few words.
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Check:
    """One claim, and whether it held.

    Parameters
    ----------
    form : 'paper' or 'repaired': whose claim it is
    claim : what is claimed, in a short sentence
    holds : whether it held
    found : the figures that decide, in words

    Examples
    --------
    >>> check = Check("paper", "the parts sum to the total", True, "largest rest 2e-14")
    >>> check.sentence
    "The paper's claim holds: the parts sum to the total. Measured: largest rest 2e-14."
    """

    form: str
    claim: str
    holds: bool
    found: str

    def __post_init__(self) -> None:
        if self.form not in (PAPER, REPAIRED):
            raise InvalidInput(f"check.form: expected 'paper' or 'repaired', got {self.form!r}")

    @property
    def sentence(self) -> str:
        """The claim and its figures as a sentence."""
        whose = "The paper's claim" if self.form == PAPER else "The repaired claim"
        held = "holds" if self.holds else "fails"
        return f"{whose} {held}: {self.claim}. Measured: {self.found}."

    def document(self) -> dict[str, Any]:
        """Return the claim as plain data."""
        return {
            "form": self.form,
            "claim": self.claim,
            "holds": bool(self.holds),
            "found": self.found,
        }


def document(title: str, checks: Iterable[Check], **figures: Any) -> dict[str, Any]:
    """Return the answer of a theorem's check, safe for JSON.

    A form holds where all of its claims do; a form without a claim is refused, since 'all of
    none' would hold.

    >>> answer = document(
    ...     "Theorem 0", [Check("paper", "a", False, "1"), Check("repaired", "b", True, "2")]
    ... )
    >>> answer["paper_holds"], answer["repaired_holds"], len(answer["verdict"])
    (False, True, 2)
    """
    judged = list(checks)
    holds = {}
    for form in (PAPER, REPAIRED):
        mine = [check.holds for check in judged if check.form == form]
        if not mine:
            raise InvalidInput(f"document: '{title}' has no claim in the form '{form}'")
        holds[form] = all(mine)
    return {
        "title": title,
        "paper_holds": holds[PAPER],
        "repaired_holds": holds[REPAIRED],
        "verdict": [check.sentence for check in judged],
        "claims": [check.document() for check in judged],
        **{name: plain(figure) for name, figure in figures.items()},
    }


def plain(value: Any) -> Any:
    """Return nested figures as JSON can hold them: NumPy's as Python's, what is no number as None.

    >>> plain({"n": np.int64(3), "curve": np.array([0.5, np.nan])})
    {'n': 3, 'curve': [0.5, None]}
    """
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def quiet(_: str) -> None:
    """Hear of progress and say nothing."""
