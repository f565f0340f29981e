"""What a store of chains does, whichever holds them, and the records that it keeps.

The entries are the truth. Places and touches say where to find the rows of a request; they are
written with the entries, in the same transaction. Snapshots save time and can be made again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from gdcb.ledger.entry import GENESIS, Draft, Entry

SNAPSHOTS_KEPT = 3
SNAPSHOT_EVERY = 100_000
PATIENCE = 10.0
# What is done to an instance as a whole, and decides which rules are in force. The names are part
# of an index (`gdcb.ledger.tables`): another one needs a migration.
ACTS = (
    "InstanceChanged",
    "ChangeProposed",
    "ChangeRefused",
    "Paused",
    "Resumed",
    "Retired",
    "LedgerSetBack",
    "SetBackAcknowledged",
)


@dataclass(frozen=True, slots=True)
class Head:
    """Say how far a chain goes.

    Parameters
    ----------
    size : entries so far, and the number of the next one
    hash : of the last entry; `GENESIS` where there is none
    """

    size: int
    hash: bytes


EMPTY = Head(0, GENESIS)


@dataclass(frozen=True, slots=True)
class Place:
    """Say where the rows of a request stand.

    Parameters
    ----------
    request : its id
    seq : the entry that holds them
    first, n : first of its rows there, and how many
    """

    request: str
    seq: int
    first: int
    n: int


@dataclass(frozen=True, slots=True)
class Touch:
    """Say that a later entry is about a row of a request.

    Parameters
    ----------
    request, row : the request, and which of its rows
    slot : what of it; a slot is taken once, such as 'review:0', 'executed' or 'outcome'
    seq, at_row : the entry, and the row in it
    """

    request: str
    row: int
    slot: str
    seq: int
    at_row: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Hold the state after the first `size` entries of a chain.

    `hash` binds it to them: SHA-256 over chain, size, the last entry's hash and body, each as in
    `gdcb.ledger.entry.link`. Whoever writes to the database can work it out too, so a snapshot is
    believed only as far as the chain bears it out; see `gdcb.ledger.live.restored`.
    """

    chain: str
    size: int
    hash: bytes
    body: bytes

    @staticmethod
    def of(chain: str, size: int, last: bytes, body: bytes) -> Snapshot:
        """Bind a state to the entry after which it was taken, whose hash is `last`."""
        parts = (b"snapshot", chain.encode(), b"%d" % size, last, body)
        digest = sha256(b"".join([b"%d:%b," % (len(part), part) for part in parts])).digest()
        return Snapshot(chain, size, digest, body)

    def is_after(self, last: bytes) -> bool:
        """Return whether it was taken after the entry with this hash, and is as it was then."""
        return self.hash == Snapshot.of(self.chain, self.size, last, self.body).hash


@dataclass(frozen=True, slots=True)
class Key:
    """Hold the secret under which personal numbers stand; see `gdcb.ledger.sealing`.

    Parameters
    ----------
    name : random, and what the entries say
    subject : whose numbers; empty: the chain's own, for its snapshots
    secret : 32 bytes; without it nobody can read what stands under the key
    """

    name: str
    subject: str
    secret: bytes


class Writing(Protocol):
    """One exclusive transaction on one chain; others who write to it wait for its end."""

    @property
    def head(self) -> Head:
        """How far the chain goes, with what was appended here."""

    def append(self, drafts: Sequence[Draft]) -> list[Entry]:
        """Append entries; `BrokenChain` where the head is not that of the last entry."""

    def read(self, start: int, stop: int | None = None) -> list[Entry]:
        """Return entries from `start` up to, not including, `stop`."""

    def places(self, requests: Sequence[str]) -> dict[str, Place]:
        """Return the places of those requests that have one."""

    def touches(self, requests: Sequence[str]) -> list[Touch]:
        """Return all touches of requests, in the order of the entries."""

    def add_places(self, places: Sequence[Place]) -> None:
        """Add places; `Conflict`, and none is added, where a request is taken."""

    def add_touches(self, touches: Sequence[Touch]) -> None:
        """Add touches; `Conflict`, and none is added, where a slot is taken."""

    def keys_of(self, subjects: Sequence[str]) -> list[Key]:
        """Return the keys of subjects."""

    def add_keys(self, keys: Sequence[Key], at: int) -> None:
        """Keep new keys, made at a time in µs."""

    def destroy(self, keys: Sequence[str]) -> None:
        """Delete keys by name, and all snapshots of the chain."""


class Store(Protocol):
    """Chains of entries, with what belongs to them."""

    def writing(self, chain: str) -> AbstractContextManager[Writing]:
        """Open a transaction: kept at the end, undone whole by an exception."""

    def chains(self) -> list[str]:
        """Return the names of all chains that have an entry, sorted."""

    def head(self, chain: str) -> Head:
        """Return how far a chain goes; `Head(0, GENESIS)` where there is none."""

    def read(self, chain: str, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        """Read entries in order, page by page, in memory that does not grow with the chain."""

    def acts(self, chain: str, stop: int) -> list[Entry]:
        """Return the entries before `stop` that say which rules are in force, in order."""

    def get(self, chain: str, seqs: Sequence[int]) -> list[Entry]:
        """Return entries by number, in the order asked for."""

    def places(self, chain: str, requests: Sequence[str]) -> dict[str, Place]:
        """Return the places of those requests that have one."""

    def touches(self, chain: str, requests: Sequence[str]) -> list[Touch]:
        """Return all touches of requests, in the order of the entries."""

    def near(self, chain: str, at: int) -> int:
        """Return the first number whose entry was at `at` or later; the size where none was."""

    def put_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot; of the old ones the last few and the first of each long stretch stay."""

    def snapshot(self, chain: str, at_most: int | None = None) -> Snapshot | None:
        """Return the latest snapshot, of at most `at_most` entries."""

    def keys(self, chain: str, names: Sequence[str]) -> list[Key]:
        """Return those of the keys with these names that were not destroyed."""

    def scrub(self) -> bool:
        """Overwrite what was deleted, as far as the store can; return whether it could now."""

    def close(self) -> None:
        """Let go of files and connections."""


def open_store(url: str | Path, patience: float = PATIENCE) -> Store:
    """Open a store; a database is created, or brought up to this version, where it must be.

    Parameters
    ----------
    url : 'memory:', gone with the process; a path or 'sqlite:///PATH', which with '?mode=ro' is
        never written to; 'postgresql://USER:PASSWORD@HOST:PORT/DATABASE'
    patience : seconds to wait for a lock or for a connection

    Examples
    --------
    >>> store = open_store("memory:")
    >>> with store.writing("prices") as writing:
    ...     entries = writing.append([Draft("Paused", b"{}", b"", 17, "ann")])
    >>> store.head("prices").size
    1
    """
    if str(url) == "memory:":
        from gdcb.ledger.memory import MemoryStore

        return MemoryStore(patience)
    from gdcb.ledger.sql import SqlStore

    return SqlStore(url, patience)


def is_kept(size: int, sizes: Sequence[int]) -> bool:
    """Return whether the snapshot after `size` entries stays among those after `sizes`.

    The last three stay, and of each 100,000 entries the first.

    Examples
    --------
    >>> sizes = [10, 20, 100_000, 150_000, 160_000, 170_000, 180_000]
    >>> [size for size in sizes if is_kept(size, sizes)]
    [10, 100000, 160000, 170000, 180000]
    """
    stretch = size // SNAPSHOT_EVERY
    first = min(other for other in sizes if other // SNAPSHOT_EVERY == stretch)
    return size == first or size in sorted(sizes)[-SNAPSHOTS_KEPT:]
