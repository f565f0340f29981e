"""All changes of an instance that were ever proposed, and what became of each."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from sqlalchemy import select

from gdcb import events as ev
from gdcb.codec import from_body
from gdcb.ledger.entry import Entry
from gdcb.ledger.sql import SqlStore
from gdcb.ledger.tables import entries
from gdcb.service.who import is_same

KINDS = ("InstanceChanged", "ChangeProposed", "ChangeRefused")
_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Change:
    """A change, as it stands now.

    Parameters
    ----------
    number : of the entry that proposed it, or declared the instance at first
    at, by, reason : when that was (µs), who, and why
    status : 'proposed', 'approved', 'rejected', 'withdrawn', 'overtaken' (another one came in
        force before, and it was made against what no longer is) or 'declared' (the first)
    base : number of the entry whose declaration it changes; None: there was none
    put : number of the entry that put it in force; None: it is not
    decided_at, decided_by, decided_reason : of the answer; None where there is none
    """

    number: int
    at: int
    by: str
    reason: str
    status: str = "proposed"
    base: int | None = None
    put: int | None = None
    decided_at: int | None = None
    decided_by: str = ""
    decided_reason: str = ""


class Changes:
    """The changes of one instance, read from its chain; what was read stays at hand.

    Changes are few among many decisions, so the database is asked for entries by their kind, and
    each time only for those that are new.

    Parameters
    ----------
    store, chain : where they are, and whose
    """

    def __init__(self, store: SqlStore, chain: str) -> None:
        self._store, self._chain = store, chain
        self._found: dict[int, Change] = {}
        self._next = 0
        self._in_force: int | None = None
        self._lock = threading.Lock()

    def all(self) -> list[Change]:
        """Return all changes, newest first."""
        with self._lock:
            self._follow()
            return list(self._found.values())[::-1]

    def get(self, number: int) -> Change | None:
        """Return a change by its number; None: there is none."""
        with self._lock:
            self._follow()
            return self._found.get(number)

    def in_force(self) -> Change | None:
        """Return the change whose declaration is in force."""
        with self._lock:
            self._follow()
            return next((one for one in self._found.values() if one.put == self._in_force), None)

    def declaration(self, number: int | None) -> str:
        """Return the declaration in an entry; empty where there is none."""
        if number is None:
            return ""
        (entry,) = self._store.get(self._chain, [number])
        event = from_body(entry.kind, entry.body)
        if isinstance(event, ev.InstanceChanged | ev.ChangeProposed):
            return event.declaration
        return ""

    def _follow(self) -> None:
        size = self._store.head(self._chain).size
        asked = select(entries.c.seq).where(
            entries.c.chain == self._chain,
            entries.c.kind.in_(KINDS),
            entries.c.seq >= self._next,
            entries.c.seq < size,
        )
        with self._store.connecting() as connection:
            numbers = list(connection.scalars(asked.order_by(entries.c.seq)))
        for first in range(0, len(numbers), _AT_ONCE):
            for entry in self._store.get(self._chain, numbers[first : first + _AT_ONCE]):
                self._take(entry)
                self._next = entry.seq + 1
        self._next = max(self._next, size)

    def _take(self, entry: Entry) -> None:
        event = from_body(entry.kind, entry.body)
        if isinstance(event, ev.ChangeProposed):
            made = Change(entry.seq, entry.at, entry.by, event.reason, base=self._in_force)
            self._found[entry.seq] = made
        elif isinstance(event, ev.ChangeRefused):
            self._settle(event.proposal, entry, event.reason)
        elif isinstance(event, ev.InstanceChanged):
            self._put(event, entry)

    def _settle(self, number: int, entry: Entry, reason: str) -> None:
        found = self._found.get(number)
        if found is not None:
            status = "withdrawn" if is_same(found.by, entry.by) else "rejected"
            self._found[number] = _decided(found, status, entry, reason)

    def _put(self, event: ev.InstanceChanged, entry: Entry) -> None:
        found = None if event.proposal is None else self._found.get(event.proposal)
        if found is None:
            found = Change(entry.seq, entry.at, entry.by, event.reason, "declared", self._in_force)
            self._found[entry.seq] = replace(found, put=entry.seq)
        else:
            done = _decided(found, "approved", entry, event.reason)
            self._found[found.number] = replace(done, put=entry.seq)
        for number, one in self._found.items():
            if one.status == "proposed":
                said = f"Change {found.number} came in force first: this one was made for another."
                self._found[number] = _decided(one, "overtaken", entry, said)
        self._in_force = entry.seq


def _decided(one: Change, status: str, entry: Entry, reason: str) -> Change:
    return replace(
        one, status=status, decided_at=entry.at, decided_by=entry.by, decided_reason=reason
    )
