"""Which places and touches follow from the entries of a chain: the index that a store must have.

What the gates said at once stands right behind the decisions that it is about, so it needs no
touch. Everything later about a decision has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from gdcb import events as ev
from gdcb.cases import about
from gdcb.ledger.store import Place, Touch
from gdcb.ledger.story import request_of

# Under which slot an event about one decision is found; those that may come again are counted.
_SLOTS = {
    "ActionExecuted": "executed",
    "OutcomeObserved": "outcome",
    "LabelObserved": "label",
    "AppealDecided": "appeal",
}
_COUNTED = {"Reviewed": "review", "Expired": "review", "GateApplied": "gate"}


def slot_name(kind: str, answers: int, number: int) -> str:
    """Return the slot of an event about a decision that was answered so often.

    >>> slot_name("ActionExecuted", 0, 9), slot_name("Reviewed", 1, 9), slot_name("Shown", 0, 9)
    ('executed', 'review:1', 'Shown:9')
    """
    if kind in _SLOTS:
        return _SLOTS[kind]
    return f"{_COUNTED[kind]}:{answers}" if kind in _COUNTED else f"{kind}:{number}"


class Indexing:
    """Goes through a chain's events in order; `answers` counts the answers to held decisions."""

    def __init__(self) -> None:
        self._fresh: list[str] = []
        self._is_judged = False
        self._answers: dict[str, int] = {}

    def rows(self, event: ev.Event | None, number: int) -> Iterator[Place | Touch]:
        """Yield what the store must say of one event; None: it cannot be read."""
        if isinstance(event, ev.DecisionMade):
            self._fresh, self._is_judged = event.id, False
            yield from _places(event, number)
        elif event is None or not self._is_at_once(event):
            self._fresh = []
            if event is not None:
                yield from self._touches(event, number)

    def _is_at_once(self, event: ev.Event) -> bool:
        if not self._fresh:
            return False
        if isinstance(event, ev.GateApplied):
            is_first, self._is_judged = not self._is_judged, True
            return is_first and event.id == self._fresh
        if isinstance(event, ev.ActionExecuted) and event.is_told:
            return False
        return self._is_judged and isinstance(event, ev.ActionExecuted | ev.ReviewRequested)

    def _touches(self, event: ev.Event, number: int) -> Iterator[Touch]:
        kind = type(event).__name__
        for row, id in enumerate(about(event)):
            request, at, _ = request_of(id)
            yield Touch(request, at, slot_name(kind, self._answers.get(id, 0), number), number, row)
        if isinstance(event, ev.Reviewed | ev.Expired):
            self._answers[event.id] = self._answers.get(event.id, 0) + 1


def _places(event: ev.DecisionMade, number: int) -> Iterator[Place]:
    first = 0
    for request, rows in groupby(event.batch):
        n = sum(1 for _ in rows)
        yield Place(request, number, first, n)
        first += n
