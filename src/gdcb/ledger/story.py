"""A chain as a fold reads it: events by number, and decisions by id, out of a store.

Both keep what was used lately in memory and fetch the rest. What a transaction has written and not
committed yet is found here too.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np

from gdcb import events as ev
from gdcb.cases import Record, Records, about
from gdcb.errors import UnknownDecision
from gdcb.ledger.entry import Entry
from gdcb.ledger.sealing import Sealer
from gdcb.ledger.store import Place, Store, Touch
from gdcb.outlook import Outlook

CACHED_BYTES = 2**26
CACHED_RECORDS = 20_000
_ROW = re.compile(r"^(.+)\.(0|[1-9][0-9]{0,5})$", re.DOTALL)


def request_of(id: str) -> tuple[str, int, bool]:
    """Return the request of a decision, its row there, and whether it is one of a batch.

    >>> request_of("nightly.12"), request_of("room 7")
    (('nightly', 12, True), ('room 7', 0, False))
    """
    found = _ROW.match(id)
    return (id, 0, False) if found is None else (found[1], int(found[2]), True)


class Story:
    """The events of one chain, by number; see `gdcb.cases.Happened`."""

    def __init__(self, store: Store, chain: str, size: int = 0) -> None:
        self.store, self.chain = store, chain
        self.sealer = Sealer(store, chain)
        self._size = size
        self._cached: OrderedDict[int, ev.Event] = OrderedDict()
        self._bytes = 0
        self._times: OrderedDict[int, int] = OrderedDict()

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[ev.Event]:
        number = 0
        for entry in self.store.read(self.chain, 0, self._size):
            yield self.event_of(entry)
            number = entry.seq + 1
        while number < self._size:  # what a transaction has added and not committed yet
            yield self[number]
            number += 1

    @overload
    def __getitem__(self, at: int) -> ev.Event: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[ev.Event]: ...

    def __getitem__(self, at: int | slice) -> ev.Event | Sequence[ev.Event]:
        """Return one event, or some; what is not in memory is fetched."""
        if isinstance(at, slice):
            return self._some(range(*at.indices(self._size)))
        if not 0 <= at < self._size:
            raise IndexError(f"event {at} of {self._size}")
        found = self._cached.get(at)
        if found is None:
            (entry,) = self.store.get(self.chain, [at])
            found = self.event_of(entry)
            self._keep(at, found)
        else:
            self._cached.move_to_end(at)
        return found

    def _some(self, numbers: range) -> list[ev.Event]:
        """Return some events; what is not in memory is fetched in one go where that is not much."""
        found = {number: self._cached[number] for number in numbers if number in self._cached}
        for number in found:
            self._cached.move_to_end(number)
        wanted = [number for number in numbers if number not in found]
        if 1 < len(wanted) <= 1_000:
            for entry in self.store.get(self.chain, wanted):
                found[entry.seq] = self.event_of(entry)
                self._keep(entry.seq, found[entry.seq])
        return [found[number] if number in found else self[number] for number in numbers]

    def event_of(self, entry: Entry) -> ev.Event:
        """Read an entry's event, with all that its keys still open."""
        return self.sealer.event_of(entry)

    def forget(self, keys: Sequence[str]) -> None:
        """Forget keys that were destroyed, and all events in memory that they may have opened."""
        self.sealer.forget(keys)
        self._cached.clear()
        self._bytes = 0

    def remember(self, number: int, at: int) -> None:
        """Remember when an event happened, µs."""
        self._times[number] = at
        while len(self._times) > CACHED_RECORDS:
            self._times.popitem(last=False)

    def time_of(self, number: int) -> int:
        """Return when an event happened, µs."""
        if number not in self._times:
            (entry,) = self.store.get(self.chain, [number])
            self.remember(number, entry.at)
        return self._times[number]

    def append(self, event: ev.Event) -> None:
        """Add the next event, which the caller writes to the store."""
        self._keep(self._size, event)
        self._size += 1

    def _keep(self, number: int, event: ev.Event) -> None:
        self._cached[number] = event
        self._bytes += size_of(event)
        while self._bytes > CACHED_BYTES and len(self._cached) > 64:
            _, old = self._cached.popitem(last=False)
            self._bytes -= size_of(old)


def size_of(event: ev.Event) -> int:
    """Return about how much memory an event takes."""
    values = (getattr(event, name) for name in event.columns)
    total = 500
    for value in values:
        if isinstance(value, np.ndarray):
            total += value.nbytes
        elif value is not None:
            total += 80 * len(value)
    return total


class StoredRecords(Records):
    """Decisions by id, put together from their own events when they are asked for.

    `places` and `touches` hold what the transaction that is under way has added.
    """

    def __init__(self, story: Story, fold: Outlook) -> None:
        super().__init__()
        self._story, self._fold = story, fold
        self.places: dict[str, Place] = {}
        self.touches: list[Touch] = []
        self._last: tuple[tuple[str, int, int], dict[int, list[Touch]]] = (("", -1, -1), {})

    def add(self, event: ev.DecisionMade, places: Sequence[int]) -> None:
        """Add nothing: a decision is found by its events."""

    def note(self, event: ev.Event, number: int) -> None:
        """Bring those up to date that are in memory."""
        if not len(self):
            return
        for row, id in enumerate(about(event)):
            record = dict.get(self, id)
            if record is not None:
                record.note(event, row, number)

    def __contains__(self, id: object) -> bool:
        """Whether a decision was made."""
        return self.find(id) is not None

    def find(self, id: object) -> Record | None:
        """Return a decision; None where none of this id was made."""
        try:
            return self[id] if isinstance(id, str) else None
        except KeyError:
            return None

    def __missing__(self, id: str) -> Record:
        """Put a decision together from its events."""
        record = self._load(id)
        if record is None:
            raise UnknownDecision(f"no decision {id!r} was made here")
        if len(self) >= CACHED_RECORDS:
            for old in list(self)[: CACHED_RECORDS // 10]:
                del self[old]
        self[id] = record
        return record

    def place(self, request: str) -> Place | None:
        """Return where a request stands, among what is under way or in the store."""
        found = self.places.get(request)
        if found is None:
            story = self._story
            found = story.store.places(story.chain, [request]).get(request)
        return None if found is None or found.seq >= len(self._story) else found

    def _load(self, id: str) -> Record | None:
        request, row, _ = request_of(id)
        place = self.place(request)
        if place is None or row >= place.n:
            return None
        story, at = self._story, place.first + row
        made = story[place.seq]
        if not isinstance(made, ev.DecisionMade) or made.id[at] != id:
            return None
        record = Record(made, at, self._fold.units[made.unit[at]])
        # What the gates said at once, and what came of that, stands right behind it.
        for number in range(place.seq + 1, min(place.seq + 4, len(story))):
            event = story[number]
            if isinstance(event, ev.DecisionMade):
                break
            if isinstance(event, ev.GateApplied | ev.ActionExecuted | ev.ReviewRequested):
                self._note(record, id, event, number)
        for touch in self._touched(request, row):
            record.note(story[touch.seq], touch.at_row, touch.seq)
        return record

    def _note(self, record: Record, id: str, event: ev.Event, number: int) -> None:
        ids = about(event)
        at = record.at if len(ids) > record.at and ids[record.at] == id else -1
        if at < 0 and id in ids:
            at = ids.index(id)
        is_later = isinstance(event, ev.ActionExecuted) and event.is_told
        if at >= 0 and not is_later:
            record.note(event, at, number)

    def _touched(self, request: str, row: int) -> list[Touch]:
        """Return the touches of a row; those of a request are fetched once for all its rows."""
        story = self._story
        now = (request, len(story), len(self.touches))
        if self._last[0] != now:
            found: dict[int, list[Touch]] = {}
            known = story.store.touches(story.chain, [request])
            for touch in (*known, *self.touches):
                if touch.request == request and touch.seq < len(story):
                    found.setdefault(touch.row, []).append(touch)
            self._last = (now, found)
        return self._last[1].get(row, [])
