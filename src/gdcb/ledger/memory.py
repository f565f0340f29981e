"""Chains in memory: for tests, for trying things out, and as the plainest form of a store."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from gdcb.errors import InvalidInput
from gdcb.ledger.entry import Draft, Entry, check_names, link
from gdcb.ledger.refusals import (
    Slot,
    busy,
    check_places,
    check_range,
    check_touches,
    refuse_missing,
    refuse_taken_places,
    refuse_taken_slots,
    repeated,
    slot_of,
)
from gdcb.ledger.store import ACTS, EMPTY, PATIENCE, Head, Key, Place, Snapshot, Touch, is_kept


@dataclass(slots=True)
class _Chain:
    """What is kept of one chain; `clock` is the latest time up to each entry, so it is sorted."""

    entries: list[Entry] = field(default_factory=list)
    clock: list[int] = field(default_factory=list)
    places: dict[str, Place] = field(default_factory=dict)
    touches: dict[str, dict[Slot, Touch]] = field(default_factory=dict)
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    keys: dict[str, Key] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    @property
    def head(self) -> Head:
        return Head(len(self.entries), self.entries[-1].hash) if self.entries else EMPTY

    def add(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self.clock.append(max(entry.at, self.clock[-1]) if self.clock else entry.at)
            self.entries.append(entry)


class MemoryWriting:
    """A transaction: what is added waits here until the end; see `gdcb.ledger.store.Writing`."""

    def __init__(self, chain: str, kept: _Chain) -> None:
        self._chain, self._kept = chain, kept
        self.head = kept.head
        self._entries: list[Entry] = []
        self._places: dict[str, Place] = {}
        self._touches: dict[Slot, Touch] = {}
        self._keys: dict[str, Key] = {}
        self._destroyed: set[str] | None = None

    def append(self, drafts: Sequence[Draft]) -> list[Entry]:
        """Append entries."""
        linked, head = [], self.head
        for draft in drafts:
            linked.append(link(self._chain, head.size, head.hash, draft))
            head = Head(head.size + 1, linked[-1].hash)
        self._entries += linked
        self.head = head
        return linked

    def read(self, start: int, stop: int | None = None) -> list[Entry]:
        """Return entries from `start` up to, not including, `stop`."""
        check_range(start, stop)
        return (self._kept.entries + self._entries)[start:stop]

    def places(self, requests: Sequence[str]) -> dict[str, Place]:
        """Return the places of those requests that have one."""
        known = self._kept.places | self._places
        return {request: known[request] for request in requests if request in known}

    def touches(self, requests: Sequence[str]) -> list[Touch]:
        """Return all touches of requests, in the order of the entries."""
        wanted = set(requests)
        added = (touch for touch in self._touches.values() if touch.request in wanted)
        return _in_order([*_touches(self._kept, wanted), *added])

    def add_places(self, places: Sequence[Place]) -> None:
        """Add places; `Conflict`, and none is added, where a request is taken."""
        check_places(places)
        names = [place.request for place in places]
        refuse_taken_places([*repeated(names), *self.places(names)])
        self._places |= {place.request: place for place in places}

    def add_touches(self, touches: Sequence[Touch]) -> None:
        """Add touches; `Conflict`, and none is added, where a slot is taken."""
        check_touches(touches)
        slots = [slot_of(touch) for touch in touches]
        known = [slot_of(touch) for touch in self.touches([touch.request for touch in touches])]
        taken = set(known)
        refuse_taken_slots([*repeated(slots), *(slot for slot in slots if slot in taken)])
        self._touches |= dict(zip(slots, touches, strict=True))

    def keys_of(self, subjects: Sequence[str]) -> list[Key]:
        """Return the keys of subjects."""
        wanted, known = set(subjects), self._kept.keys | self._keys
        return [key for key in known.values() if key.subject in wanted]

    def add_keys(self, keys: Sequence[Key], at: int) -> None:
        """Keep new keys."""
        self._keys |= {key.name: key for key in keys}

    def destroy(self, keys: Sequence[str]) -> None:
        """Delete keys by name, and all snapshots of the chain."""
        self._destroyed = (self._destroyed or set()) | set(keys)

    def keep(self) -> None:
        """Make what was added here part of the chain."""
        self._kept.keys |= self._keys
        if self._destroyed is not None:
            self._kept.snapshots = {}
            left = {n: key for n, key in self._kept.keys.items() if n not in self._destroyed}
            self._kept.keys = left
        self._kept.add(self._entries)
        self._kept.places |= self._places
        for slot, touch in self._touches.items():
            self._kept.touches.setdefault(touch.request, {})[slot] = touch


class MemoryStore:
    """Chains that are gone with the process; see `gdcb.ledger.store.Store`.

    Parameters
    ----------
    patience : seconds to wait for another writer
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._chains: dict[str, _Chain] = {}

    @contextmanager
    def writing(self, chain: str) -> Iterator[MemoryWriting]:
        """Open a transaction: kept at the end, undone whole by an exception."""
        check_names("chain", (chain,))
        kept = self._chains.setdefault(chain, _Chain())
        if not kept.lock.acquire(timeout=self._patience):
            raise busy(chain, self._patience)
        try:
            writing = MemoryWriting(chain, kept)
            yield writing
            writing.keep()
        finally:
            kept.lock.release()

    def chains(self) -> list[str]:
        """Return the names of all chains that have an entry, sorted."""
        return sorted(name for name, kept in list(self._chains.items()) if kept.entries)

    def head(self, chain: str) -> Head:
        """Return how far a chain goes; `Head(0, GENESIS)` where there is none."""
        return self._kept(chain).head

    def read(self, chain: str, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        """Read entries in order."""
        check_range(start, stop)
        return iter(self._kept(chain).entries[start:stop])

    def acts(self, chain: str, stop: int) -> list[Entry]:
        """Return the entries before `stop` that say which rules are in force, in order."""
        return [entry for entry in self._kept(chain).entries[:stop] if entry.kind in ACTS]

    def get(self, chain: str, seqs: Sequence[int]) -> list[Entry]:
        """Return entries by number, in the order asked for."""
        entries = self._kept(chain).entries
        refuse_missing(chain, (seq for seq in seqs if not 0 <= seq < len(entries)))
        return [entries[seq] for seq in seqs]

    def places(self, chain: str, requests: Sequence[str]) -> dict[str, Place]:
        """Return the places of those requests that have one."""
        known = self._kept(chain).places
        return {request: known[request] for request in requests if request in known}

    def touches(self, chain: str, requests: Sequence[str]) -> list[Touch]:
        """Return all touches of requests, in the order of the entries."""
        return _in_order(_touches(self._kept(chain), set(requests)))

    def near(self, chain: str, at: int) -> int:
        """Return the first number whose entry was at `at` or later; the size where none was."""
        return bisect_left(self._kept(chain).clock, at)

    def put_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot; of the old ones the last few and the first of each stretch stay."""
        kept = self._kept(snapshot.chain)
        if not kept.entries:
            raise InvalidInput(f"a snapshot of chain '{snapshot.chain}', which has no entry")
        found = kept.snapshots | {snapshot.size: snapshot}
        sizes = list(found)
        kept.snapshots = {size: found[size] for size in sizes if is_kept(size, sizes)}

    def snapshot(self, chain: str, at_most: int | None = None) -> Snapshot | None:
        """Return the latest snapshot, of at most `at_most` entries."""
        found = self._kept(chain).snapshots
        sizes = [size for size in found if at_most is None or size <= at_most]
        return found[max(sizes)] if sizes else None

    def keys(self, chain: str, names: Sequence[str]) -> list[Key]:
        """Return those of the keys with these names that were not destroyed."""
        known = self._kept(chain).keys
        return [known[name] for name in names if name in known]

    def scrub(self) -> bool:
        """Do nothing: memory is not kept."""
        return True

    def close(self) -> None:
        """Do nothing: there is nothing to let go of."""

    def _kept(self, chain: str) -> _Chain:
        return self._chains.get(chain) or _Chain()


def _touches(kept: _Chain, requests: Iterable[str]) -> list[Touch]:
    found = (kept.touches.get(request) for request in requests)
    return [touch for touches in found if touches for touch in list(touches.values())]


def _in_order(touches: Iterable[Touch]) -> list[Touch]:
    return sorted(touches, key=lambda touch: (touch.seq, touch.at_row, touch.request, touch.slot))
