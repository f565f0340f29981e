"""One exclusive transaction on one chain of a database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gdcb.errors import BrokenChain
from gdcb.ledger import queries
from gdcb.ledger.entry import GENESIS, Draft, Entry, link
from gdcb.ledger.refusals import (
    check_places,
    check_range,
    check_touches,
    refuse_taken_places,
    refuse_taken_slots,
    repeated,
    slot_of,
)
from gdcb.ledger.session import Row, Session
from gdcb.ledger.store import Head, Key, Place, Touch

_EARLIEST = -(2**63)
_PLACES = {"chain": "text", "request": "text", "seq": "bigint", "first": "bigint", "n": "bigint"}
_TOUCHES = {
    "chain": "text",
    "request": "text",
    "row": "bigint",
    "slot": "text",
    "seq": "bigint",
    "at_row": "bigint",
}
_ENTRY = 'INSERT INTO entries (chain, seq, kind, at, "by", body, root, prev, hash, clock) VALUES '
_MARKS = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_TOGETHER = 4  # entries of one statement: a decision that was made, judged and run has three
_LAST = (
    "SELECT hash FROM entries WHERE chain = ? "
    "AND seq = (SELECT size FROM chains WHERE name = ?) - 1"
)
_KEY = 'INSERT INTO subject_keys ("key", chain, subject, secret, made_at) VALUES (?, ?, ?, ?, ?)'
_NEW = "INSERT INTO chains (name, size, hash, clock) VALUES (?, 0, ?, ?) ON CONFLICT DO NOTHING"


class SqlWriting:
    """A transaction that holds the chain's lock; see `gdcb.ledger.store.Writing`.

    Parameters
    ----------
    chain : its name
    session : where a transaction has begun
    """

    def __init__(self, chain: str, session: Session) -> None:
        self._chain, self._session = chain, session
        self._is_written = False
        found = self._lock()
        if found is None:
            # Of several who create a chain at once, the others wait here for the first.
            session.tell(_NEW, [(chain, GENESIS, _EARLIEST)])
            found = self._lock()
        if found is None:
            raise BrokenChain(f"chain '{chain}': its head was made and is gone")
        (size, head, self._clock), self._last = found
        self.head = Head(size, head)
        self._start = size

    def _lock(self) -> tuple[Row, bytes] | None:
        """Lock the head; then, with what others committed meanwhile, look at the last entry."""
        sql = f"SELECT size, hash, clock FROM chains WHERE name = ?{self._session.lock}"
        heads, last = self._session.ask((sql, (self._chain,)), (_LAST, (self._chain, self._chain)))
        return (heads[0], last[0][0] if last else GENESIS) if heads else None

    def append(self, drafts: Sequence[Draft]) -> list[Entry]:
        """Append entries; `BrokenChain` where the head is not that of the last entry."""
        if self._last != self.head.hash:
            raise BrokenChain(
                f"chain '{self._chain}': its head says that {self.head.size} entries end in "
                f"{self.head.hash.hex()[:16]}…, but the last one is {self._last.hex()[:16]}…; "
                "nothing is added to it, check it"
            )
        linked: list[Entry] = []
        rows: list[tuple[Any, ...]] = []
        seq, prev = self.head.size, self.head.hash
        for draft in drafts:
            entry = link(self._chain, seq, prev, draft)
            self._clock = max(self._clock, entry.at)
            linked.append(entry)
            rows.append(
                (
                    entry.chain,
                    seq,
                    entry.kind,
                    entry.at,
                    entry.by,
                    entry.body,
                    entry.root,
                    prev,
                    entry.hash,
                    self._clock,
                )
            )
            seq, prev = seq + 1, entry.hash
        for some in (rows[i : i + _TOGETHER] for i in range(0, len(rows), _TOGETHER)):
            sql = _ENTRY + ", ".join([_MARKS] * len(some))
            self._session.tell(sql, [[value for row in some for value in row]])
        self.head = Head(seq, prev)
        self._last = prev
        return linked

    def read(self, start: int, stop: int | None = None) -> list[Entry]:
        """Return entries from `start` up to, not including, `stop`."""
        check_range(start, stop)
        # Nothing new is the rule, and then there is nothing to ask.
        if start >= self.head.size:
            return []
        return queries.entries(self._session, self._chain, start, stop)

    def places(self, requests: Sequence[str]) -> dict[str, Place]:
        """Return the places of those requests that have one."""
        return queries.places(self._session, self._chain, requests)

    def touches(self, requests: Sequence[str]) -> list[Touch]:
        """Return all touches of requests, in the order of the entries."""
        return queries.touches(self._session, self._chain, requests)

    def add_places(self, places: Sequence[Place]) -> None:
        """Add places; `Conflict`, and none is added, where a request is taken."""
        check_places(places)
        names = [place.request for place in places]
        refuse_taken_places(repeated(names))
        rows = [
            (self._chain, place.request, int(place.seq), int(place.first), int(place.n))
            for place in places
        ]
        if not self._insert("places", _PLACES, rows):
            refuse_taken_places(list(self.places(names)))

    def add_touches(self, touches: Sequence[Touch]) -> None:
        """Add touches; `Conflict`, and none is added, where a slot is taken."""
        check_touches(touches)
        slots = [slot_of(touch) for touch in touches]
        refuse_taken_slots(repeated(slots))
        rows = [
            (
                self._chain,
                touch.request,
                int(touch.row),
                touch.slot,
                int(touch.seq),
                int(touch.at_row),
            )
            for touch in touches
        ]
        if not self._insert("touches", _TOUCHES, rows):
            known = {slot_of(touch) for touch in self.touches([slot[0] for slot in slots])}
            refuse_taken_slots([slot for slot in slots if slot in known])

    def keys_of(self, subjects: Sequence[str]) -> list[Key]:
        """Return the keys of subjects."""
        return queries.keys(self._session, self._chain, "subject", subjects)

    def add_keys(self, keys: Sequence[Key], at: int) -> None:
        """Keep new keys, made at a time in µs."""
        rows = [(key.name, self._chain, key.subject, key.secret, at) for key in keys]
        self._session.tell(_KEY, rows)
        self._is_written = True

    def destroy(self, keys: Sequence[str]) -> None:
        """Delete keys by name, and all snapshots of the chain."""
        among = self._session.among("text")
        self._session.tell(
            f'DELETE FROM subject_keys WHERE chain = ? AND "key" {among}',
            [(self._chain, self._session.listed(keys))],
        )
        self._session.tell("DELETE FROM snapshots WHERE chain = ?", [(self._chain,)])
        self._is_written = True

    def _insert(self, table: str, columns: dict[str, str], rows: Sequence[Row]) -> bool:
        """Insert all rows or none; return whether they are in."""
        if not rows:
            return True
        self._session.tell("SAVEPOINT adding", [()])
        if self._session.insert(table, columns, rows) == len(rows):
            self._session.tell("RELEASE SAVEPOINT adding", [()])
            self._is_written = True
            return True
        self._session.tell("ROLLBACK TO SAVEPOINT adding", [()])
        return False

    def finish(self) -> bool:
        """Write the head; return whether there is anything to keep."""
        if self.head.size > self._start:
            self._session.tell(
                "UPDATE chains SET size = ?, hash = ?, clock = ? WHERE name = ?",
                [(self.head.size, self.head.hash, self._clock, self._chain)],
            )
            return True
        return self._is_written
