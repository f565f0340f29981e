"""An answer: a value, a range or a refusal, in figures and in words."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from gdcb.analysis.interval import Interval

KINDS = ("value", "range", "refused")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a log says to a question.

    Parameters
    ----------
    kind : 'value': identified, with an interval; 'range': the log tells only between what it
        lies; 'refused': it tells neither
    question : in words
    says : the answer in words
    value : mean reward per row under what was asked; None where refused
    difference : the same less what happened
    identified : (low, high) that remain however long the log is; None for a value
    happened : mean reward of the log's rows
    rows, left_out : rows that were used, and rows whose reward was not seen
    changed : share of rows in which something else runs, or may run
    ess : effective sample size of the rows that stand for them
    largest_weight : the largest weight of such a row
    uncovered : share of rows that would run what never ran in comparable contexts, or of which the
        log does not tell what would run
    cells : of these: cell by name, share of rows
    beside : the value by other estimators: 'dm' the outcome model alone, 'ips' weights alone
    assumes : what the answer rests on, a sentence each
    needed : what would have to be known or done for a better answer
    level : of the interval
    """

    kind: str
    question: str
    says: str
    value: Interval | None
    difference: Interval | None
    identified: tuple[float, float] | None
    happened: float
    rows: int
    left_out: int
    changed: float
    ess: float | None
    largest_weight: float | None
    uncovered: float
    cells: tuple[tuple[str, float], ...]
    beside: dict[str, float]
    assumes: tuple[str, ...]
    needed: tuple[str, ...]
    level: float

    def __str__(self) -> str:
        """Return the sentence."""
        return self.says

    def as_json(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        plain = dataclasses.asdict(self)
        plain["cells"] = [{"cell": cell, "share": share} for cell, share in self.cells]
        for name in ("identified", "assumes", "needed"):
            plain[name] = None if plain[name] is None else list(plain[name])
        return plain


def percent(share: float) -> str:
    """Write a share so that a little is never nothing.

    >>> percent(0.25), percent(0.0004), percent(0.0)
    ('25 %', 'less than 0.1 %', '0 %')
    """
    if 0.0 < share < 0.001:
        return "less than 0.1 %"
    return f"{100 * share:.3g} %"
