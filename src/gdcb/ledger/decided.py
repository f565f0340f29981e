"""All decisions of a chain, each with what became of it, in memory that does not grow with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gdcb import events as ev
from gdcb.cases import Record, about
from gdcb.codec import from_body
from gdcb.ledger.entry import Entry
from gdcb.ledger.store import Store
from gdcb.ledger.story import request_of

AT_ONCE = 5_000  # decisions that are put together at a time
FETCHED = 500  # entries


@dataclass(slots=True)
class Decided:
    """A decision, and what became of it.

    Parameters
    ----------
    record : what its events say
    seq, at, by : its entry, when that came (µs), and who brought it
    ran_at, seen_at : when what ran and its outcome came, µs
    review : the last answer to it
    """

    record: Record
    seq: int
    at: int
    by: str
    ran_at: int | None = None
    seen_at: int | None = None
    review: ev.Reviewed | ev.Expired | None = None

    def note(self, event: ev.Event, row: int, entry: Entry) -> None:
        """Remember what a later entry says of it."""
        self.record.note(event, row, entry.seq)
        if isinstance(event, ev.ActionExecuted):
            self.ran_at = entry.at
        elif isinstance(event, ev.OutcomeObserved):
            self.seen_at = entry.at
        elif isinstance(event, ev.Reviewed | ev.Expired):
            self.review = event


def decisions_of(store: Store, chain: str, size: int) -> Iterator[Decided]:
    """Yield every decision of the first `size` entries, in order."""
    waiting: dict[str, Decided] = {}
    is_behind = False
    for entry in store.read(chain, 0, size):
        is_made = entry.kind == "DecisionMade"
        is_follow = entry.kind in ("GateApplied", "ActionExecuted", "ReviewRequested")
        if is_made and len(waiting) >= AT_ONCE:
            yield from _whole(store, chain, size, waiting)
            waiting = {}
        if not is_made and not (is_behind and is_follow):
            is_behind = False
            continue
        event = from_body(entry.kind, entry.body)
        if isinstance(event, ev.DecisionMade):
            is_behind = True
            for at, id in enumerate(event.id):
                waiting[id] = Decided(Record(event, at, 0), entry.seq, entry.at, entry.by)
        elif not (isinstance(event, ev.ActionExecuted) and event.is_told):
            for row, id in enumerate(about(event)):
                one = waiting.get(id)
                if one is not None and not _is_again(one, event):
                    one.note(event, row, entry)
    yield from _whole(store, chain, size, waiting)


def _is_again(one: Decided, event: ev.Event) -> bool:
    """Whether a verdict is a later one: those have touches, and are noted by them."""
    return isinstance(event, ev.GateApplied) and one.record.judged is not None


def _whole(store: Store, chain: str, size: int, waiting: dict[str, Decided]) -> Iterator[Decided]:
    """Yield decisions with all that later entries say of them."""
    ids = {request_of(id)[:2]: id for id in waiting}
    requests = list(dict.fromkeys(request for request, _ in ids))
    touches = [
        (touch.seq, touch.at_row, ids[touch.request, touch.row])
        for touch in store.touches(chain, requests)
        if touch.seq < size and (touch.request, touch.row) in ids
    ]
    numbers = sorted({seq for seq, _, _ in touches})
    at = 0
    for some in _pieces(numbers):
        for entry in store.get(chain, some):
            event = from_body(entry.kind, entry.body)
            while at < len(touches) and touches[at][0] == entry.seq:
                waiting[touches[at][2]].note(event, touches[at][1], entry)
                at += 1
    yield from waiting.values()


def _pieces(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    for first in range(0, len(numbers), FETCHED):
        yield numbers[first : first + FETCHED]
