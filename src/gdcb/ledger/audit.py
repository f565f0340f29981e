"""Verify a chain where it is kept: hashes and head, roots over rows, and the index beside it.

Nothing is believed but the declared format. Hashes show whether entries are as they were written,
roots whether the proof of a single row will hold, and the index (places and touches) whether a
decision that is looked up is the one in the entries.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Protocol, TypeGuard

from sqlalchemy import select

from gdcb import events as ev
from gdcb.codec import from_body, leaves
from gdcb.errors import InvalidInput, UnknownInstance
from gdcb.ledger import merkle
from gdcb.ledger.entry import Entry
from gdcb.ledger.indexing import Indexing
from gdcb.ledger.inspection import Finding, Inspection
from gdcb.ledger.sql import SqlStore
from gdcb.ledger.store import Head, Place, Store, Touch
from gdcb.ledger.tables import places, touches

KEPT = 1_000
Progress = Callable[[int, int], None]
_SUM = 2**128


@dataclass(slots=True)
class Audit:
    """Say what was verified of a chain, and what is wrong with it.

    Parameters
    ----------
    chain : its name
    entries, rows : how many entries were read, and rows of events in them
    places, touches : how many rows the index must have
    verified : hash of the last entry up to which all fits together; keep it elsewhere
    size, head : how far the chain says it goes
    findings : what is wrong, in order; at most 1,000
    n_findings : how many there are in all
    """

    chain: str
    entries: int = 0
    rows: int = 0
    places: int = 0
    touches: int = 0
    verified: bytes = b""
    size: int = 0
    head: bytes = b""
    findings: list[Finding] = field(default_factory=list)
    n_findings: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.n_findings

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "chain": self.chain,
            "ok": self.ok,
            "entries": self.entries,
            "rows": self.rows,
            "index": {"places": self.places, "touches": self.touches},
            "verified": self.verified.hex(),
            "head": {"entries": self.size, "hash": self.head.hex()},
            "findings": [
                {"entry": one.seq, "what": one.what, "says": one.says} for one in self.findings
            ],
            "n_findings": self.n_findings,
        }

    def note(self, finding: Finding) -> None:
        """Add something that is wrong."""
        self.n_findings += 1
        if len(self.findings) < KEPT:
            self.findings.append(finding)


def verify_chain(store: Store, chain: str, progress: Progress | None = None) -> Audit:
    """Verify all of a chain, also while others append to it.

    Memory does not grow with the chain, unless its index is wrong. Progress hears how many entries
    of how many are read.
    """
    audit = Audit(chain)
    total = store.head(chain).size
    check, indexing, sums = Inspection(chain), Indexing(), _Sums()
    heads: list[Head] = []
    for entry in _to_head(store, chain, heads):
        check.add(entry)
        event = _read(entry, audit)
        for row in indexing.rows(event, entry.seq):
            sums.add(row)
        if progress is not None and check.size % 64 == 0:
            progress(check.size, max(total, check.size))
    if not check.size and not heads[-1].size:
        raise UnknownInstance(f"no instance '{chain}' in this ledger")
    report = check.close(heads[-1])
    for finding in report.findings:
        audit.note(finding)
    audit.entries, audit.verified = report.size, report.hash
    audit.size, audit.head = heads[-1].size, heads[-1].hash
    audit.places, audit.touches = sums.places, sums.touches
    if sums.total != _stored_sum(store, chain, sums, audit.size):
        _name_odd(store, chain, audit)
    audit.findings.sort(key=lambda finding: finding.seq)
    return audit


def _to_head(store: Store, chain: str, heads: list[Head]) -> Iterator[Entry]:
    """Read all entries, then those that came meanwhile; the last of `heads` is the end's."""
    after = 0
    for entry in store.read(chain):
        after = entry.seq + 1
        yield entry
    heads.append(store.head(chain))
    if heads[-1].size > after:
        yield from store.read(chain, after, heads[-1].size)


def _read(entry: Entry, audit: Audit) -> ev.Event | None:
    """Read an entry's event, and hold its root against its rows."""
    try:
        event = from_body(entry.kind, entry.body)
        rows = leaves(event)
    except (InvalidInput, ValueError, TypeError, IndexError, AttributeError) as error:
        audit.note(Finding(entry.seq, "body", f"Entry {entry.seq} cannot be read: {error}."))
        return None
    audit.rows += len(rows)
    expected = merkle.root(rows) if event.columns else b""
    if entry.root != expected:
        says = f"Entry {entry.seq}: its root is not that of its {len(rows)} rows."
        audit.note(Finding(entry.seq, "root", says))
    return event


class _Sums:
    """A sum of hashes over rows of an index, in any order; its key keeps it from being forged."""

    def __init__(self, key: bytes | None = None) -> None:
        self.key = secrets.token_bytes(32) if key is None else key
        self.total = self.places = self.touches = 0

    def add(self, row: Place | Touch) -> None:
        """Count one row in."""
        if isinstance(row, Place):
            self.places += 1
        else:
            self.touches += 1
        data = repr(row).encode("utf-8", "surrogatepass")
        digest = blake2b(data, digest_size=16, key=self.key).digest()
        self.total = (self.total + int.from_bytes(digest, "little")) % _SUM


def _stored_sum(store: Store, chain: str, like: _Sums, size: int) -> int:
    if not _is_sql(store):
        return like.total  # nothing but a database has an index that somebody could change
    sums = _Sums(like.key)
    for row in _index(store, chain, size):
        sums.add(row)
    return sums.total


def _is_sql(store: Store) -> TypeGuard[SqlStore]:
    return isinstance(store, SqlStore)


class _Rows(Protocol):
    def __call__(self, *values: Any) -> Place | Touch: ...


def _index(store: SqlStore, chain: str, size: int) -> Iterator[Place | Touch]:
    """Read the index of a chain; what came after its head was read is left out."""
    late: list[Place | Touch] = []
    kinds: list[tuple[Any, _Rows]] = [(places, Place), (touches, Touch)]
    for table, kind in kinds:
        columns = [column for column in table.c if column.name != "chain"]
        wanted = select(*columns).where(table.c.chain == chain)
        with store.connecting() as connection:
            for found in connection.execution_options(yield_per=1_000).execute(wanted):
                row = kind(*found)
                if row.seq < size:
                    yield row
                else:
                    late.append(row)
    # What others wrote meanwhile has an entry by now; what has none is superfluous.
    live = store.head(chain).size
    yield from (row for row in late if row.seq >= live)


def _name_odd(store: Store, chain: str, audit: Audit) -> None:
    """Say which rows of the index are missing, wrong or superfluous."""
    if not _is_sql(store):
        return
    stored = {_key(row): row for row in _index(store, chain, audit.size)}
    indexing, seen = Indexing(), set()
    for entry in store.read(chain, 0, audit.size):
        try:
            event = from_body(entry.kind, entry.body)
        except InvalidInput:
            event = None
        for row in indexing.rows(event, entry.seq):
            key, name = _key(row), _name(row)
            found = stored.get(key)
            seen.add(key)
            if found is None:
                says = f"Entry {entry.seq}: the index has no {name}."
                audit.note(Finding(entry.seq, "missing", says))
            elif found != row:
                says = f"Entry {entry.seq}: the index has {name} at {_where(found)}."
                audit.note(Finding(entry.seq, "misplaced", says))
    for key, row in stored.items():
        if key not in seen:
            says = f"The index has {_name(row)} at {_where(row)}, of which no entry speaks."
            audit.note(Finding(row.seq, "superfluous", says))


def _key(row: Place | Touch) -> tuple[Any, ...]:
    if isinstance(row, Place):
        return (row.request,)
    return row.request, row.row, row.slot


def _name(row: Place | Touch) -> str:
    if isinstance(row, Place):
        return f"place of request '{row.request}'"
    return f"touch '{row.slot}' of request '{row.request}', row {row.row}"


def _where(row: Place | Touch) -> str:
    if isinstance(row, Place):
        return f"entry {row.seq}, {row.n} rows from {row.first}"
    return f"entry {row.seq}, row {row.at_row}"
