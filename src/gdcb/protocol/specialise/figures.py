"""The shape of an answer: figures with their notes, a statement and a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from gdcb.errors import InvalidInput

T = TypeVar("T")
Figure = dict[str, Any]


def figure(name: str, value: Any, note: str) -> Figure:
    """Return one figure: an estimate, a number, a word, or null."""
    return {"name": name, "value": value, "note": note}


def theorem(statement: str, figures: list[Figure], verdict: Iterable[str]) -> dict[str, Any]:
    """Return what holds of one theorem; sentences that there is no ground for are empty."""
    return {"statement": statement, "figures": figures, "verdict": " ".join(filter(None, verdict))}


def measured(measure: Callable[[], T]) -> tuple[T | None, str]:
    """Return what was measured and no reason, or None and why it could not be.

    >>> measured(lambda: 3)
    (3, '')
    """
    try:
        return measure(), ""
    except InvalidInput as error:
        return None, f"not measured: {error}"
