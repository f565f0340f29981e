"""A fold of a chain for whoever works all of it out again: decisions stay in memory in bulk.

A desk looks a decision up in the store when it is asked for one. A replay meets all of them, in
order, so those that wait for something are kept, and the oldest finished ones are let go. One
that is needed after that is fetched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import overload

from gdcb import declaration
from gdcb import events as ev
from gdcb.cases import Record, about
from gdcb.codec import from_body
from gdcb.errors import UnknownInstance
from gdcb.ledger.entry import Entry
from gdcb.ledger.live import Live, Pasts, follow, restored
from gdcb.ledger.store import Snapshot, Store
from gdcb.ledger.story import StoredRecords, Story
from gdcb.outlook import Outlook

FINISHED = 20_000
MOST = 200_000


class Passing(Story):
    """The events of one chain, but for the last few none kept: who wants one, fetches it."""

    def __init__(self, store: Store, chain: str, size: int = 0) -> None:
        super().__init__(store, chain, size)
        self._last: deque[ev.Event] = deque(maxlen=4)  # made, judged, ran, asked about

    def append(self, event: ev.Event) -> None:
        """Count the next event; what is right behind it asks for it."""
        self._last.append(event)
        self._size += 1

    def skip(self) -> None:
        """Count an event that nobody asks for."""
        self._last.clear()
        self._size += 1

    def forget(self, keys: Sequence[str]) -> None:
        """Forget keys that were destroyed, and all events in memory that they may have opened."""
        super().forget(keys)
        self._last.clear()

    def remember(self, number: int, at: int) -> None:
        """Remember no times."""

    @overload
    def __getitem__(self, at: int) -> ev.Event: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[ev.Event]: ...

    def __getitem__(self, at: int | slice) -> ev.Event | Sequence[ev.Event]:
        """Return one event, or some in one go."""
        if isinstance(at, slice) and at.step in (None, 1):
            start, stop, _ = at.indices(self._size)
            found = self.store.read(self.chain, start, max(start, stop))
            return [self.event_of(entry) for entry in found]
        if isinstance(at, int) and 0 < self._size - at <= len(self._last):
            return self._last[at - self._size]
        return super().__getitem__(at)

    def time_of(self, number: int) -> int:
        """Return when an event happened, µs."""
        (entry,) = self.store.get(self.chain, [number])
        return entry.at


class Recalled(StoredRecords):
    """Decisions by id, from their events as they come; see `gdcb.ledger.story.StoredRecords`.

    Parameters
    ----------
    finished : decisions with an outcome that are kept, in case a correction comes
    most : decisions that are kept in all
    """

    def __init__(
        self, story: Story, fold: Outlook, finished: int = FINISHED, most: int = MOST
    ) -> None:
        super().__init__(story, fold)
        self._finished, self._most = finished, most
        self._done: deque[str] = deque()

    def add(self, event: ev.DecisionMade, places: Sequence[int]) -> None:
        """Remember decisions that were made; let the oldest go where there are too many."""
        for at, id in enumerate(event.id):
            self[id] = Record(event, at, places[at])
        while len(self._done) > self._finished:
            self.pop(self._done.popleft(), None)
        if len(self) > self._most:
            for old in list(islice(self, len(self) - self._most)):
                del self[old]

    def note(self, event: ev.Event, number: int) -> None:
        """Remember what an event says of the decisions that it is about."""
        if isinstance(event, ev.Shown):
            return
        for row, id in enumerate(about(event)):
            # One that is fetched here says what was before this event: it is not counted yet.
            self[id].note(event, row, number)
        if isinstance(event, ev.OutcomeObserved):
            self._done.extend(event.id)


class Recall(Live):
    """The fold of one chain from its first event on, in memory that does not grow without end."""

    def __init__(self, store: Store, chain: str, declared: declaration.Declaration, seed: int):
        super().__init__(store, chain, declared, seed)
        self._recall()

    def restore(self, snapshot: Snapshot) -> None:
        """Take over what a snapshot of this chain says."""
        super().restore(snapshot)
        self._recall()

    def _recall(self) -> None:
        self._passing = Passing(self.store, self.chain, len(self._story))
        self.events = self._story = self._passing
        self.stored = Recalled(self._story, self)
        self.records = self.stored

    def skip(self) -> None:
        """Count an event that cannot be folded; nothing is learned from it."""
        self._made = None
        self._passing.skip()

    def pass_over(self, at: int, by: str) -> None:
        """Count an event that is about nothing that is known, with its time and who it is of."""
        self.at, self.by = at, by
        self.skip()

    def _folded(self, to: int, pasts: Pasts) -> Live:
        """Fold the chain up to an event once more, from its first on."""
        past = recall(self.store, self.chain)
        past._pasts = pasts
        follow(past, self.store.read(self.chain, 0, to))
        return past


def recall(store: Store, chain: str, size: int = 0) -> Recall:
    """Return a chain's instance before its first event, or as a snapshot of some entries says.

    `size`: how many entries the snapshot may have; the latest that fits the chain is taken.
    """
    live = restored(Recall, store, chain, size) if size else None
    if live is not None:
        return live
    first = next(iter(store.read(chain, 0, 1)), None)
    event = None if first is None else declared_in(first)
    if event is None:
        raise UnknownInstance(f"no instance '{chain}' in this ledger")
    return Recall(store, chain, declaration.parse(event.declaration, is_recorded=True), event.seed)


def declared_in(entry: Entry) -> ev.InstanceChanged | None:
    """Return the declaration in an entry; None where it is another event."""
    event = from_body(entry.kind, entry.body) if entry.kind == "InstanceChanged" else None
    return event if isinstance(event, ev.InstanceChanged) else None


def snapshot_sizes(store: Store, chain: str, size: int) -> list[int]:
    """Return after how many entries there are snapshots, up to a size, in order."""
    found: list[int] = []
    snapshot = store.snapshot(chain, size)
    while snapshot is not None and snapshot.size > 0:
        found.append(snapshot.size)
        snapshot = store.snapshot(chain, snapshot.size - 1)
    return found[::-1]
