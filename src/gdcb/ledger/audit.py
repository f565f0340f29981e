"""Verify a chain where it is kept: hashes and head, roots over rows, the index and the snapshots.

Nothing is believed but the declared format. Hashes show whether entries are as they were written,
roots whether the proof of a single row will hold, and the index (places and touches) whether a
decision that is looked up is the one in the entries. Snapshots are worked out of the entries again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Protocol, TypeGuard

from sqlalchemy import cast, select, union

from gdcb import events as ev
from gdcb.codec import from_body, leaves
from gdcb.errors import GdcbError, InvalidInput, StoreError, UnknownInstance
from gdcb.ledger import merkle
from gdcb.ledger.chain_check import Lost, read_to_head
from gdcb.ledger.differing import TOLERANCE
from gdcb.ledger.entry import Entry
from gdcb.ledger.indexing import Indexing
from gdcb.ledger.inspection import Finding, Inspection
from gdcb.ledger.recalled import Recall, recall, snapshot_sizes
from gdcb.ledger.replay_report import check_snapshot
from gdcb.ledger.sql import SqlStore
from gdcb.ledger.store import Head, Place, Store, Touch
from gdcb.ledger.tables import chains, entries, places, touches
from gdcb.ledger.trouble import is_damage

KEPT = 1_000
# Whatever stands in a body was perhaps put there so that reading it fails.
_UNREADABLE = (
    InvalidInput,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)
_SAID = 300
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
            # A name in an entry may be half a character, which nobody can print.
            says = finding.says.encode("utf-8", "backslashreplace").decode()
            self.findings.append(replace(finding, says=says))


def chains_of(store: Store) -> list[str]:
    """Return the names of all chains of which a store has anything, sorted.

    A head says which chains there are, and whoever changes or deletes one would hide a chain.
    """
    if not _is_sql(store):
        return store.chains()
    columns = (entries.c.chain, places.c.chain, touches.c.chain)
    named = select(chains.c.name).where(chains.c.size > 0)
    wanted = union(named, *(select(column).distinct() for column in columns))
    with store.connecting() as connection:
        return sorted(connection.scalars(wanted))


def verify_chain(store: Store, chain: str, progress: Progress | None = None) -> Audit:
    """Verify all of a chain, also while others append to it.

    Memory grows with the decisions that people answered, not with the chain, unless its index is
    wrong. Progress hears how many entries of how many are read.
    """
    audit = Audit(chain)
    total = store.head(chain).size
    check, indexing, sums = Inspection(chain), Indexing(), _Sums()
    heads: list[Head] = []
    is_whole = True
    for entry in read_to_head(store, chain, heads):
        if isinstance(entry, Lost):
            is_whole = False
            check.lose(entry.seq, entry.why)
            continue
        check.add(entry)
        for row in _read(entry, audit, indexing):
            sums.add(row)
        if progress is not None and check.size % 64 == 0:
            progress(check.size, max(total, check.size))
    report = check.close(heads[-1])
    for finding in report.findings:
        audit.note(finding)
    audit.entries, audit.verified = report.size, report.hash
    audit.size, audit.head = heads[-1].size, heads[-1].hash
    audit.places, audit.touches = sums.places, sums.touches
    if is_whole:  # else nobody knows what the index must say
        _check_index(store, sums, audit)
        if audit.ok:  # else nobody knows what a snapshot must say
            _check_snapshots(store, audit)
    if not check.size and not audit.size and audit.ok:
        raise UnknownInstance(f"no instance '{chain}' in this ledger")
    audit.findings.sort(key=lambda finding: finding.seq)
    return audit


def _read(entry: Entry, audit: Audit, indexing: Indexing) -> list[Place | Touch]:
    """Read an entry's event, hold its root against its rows, and return what its index must say."""
    try:
        event = from_body(entry.kind, entry.body)
        rows = leaves(event)
        expected = merkle.root(rows) if event.columns else b""
        indexed = _indexed(event, entry, indexing)
    except _UNREADABLE as error:
        said = " ".join(str(error).split())[:_SAID] or type(error).__name__
        audit.note(Finding(entry.seq, "body", f"Entry {entry.seq} cannot be read: {said}."))
        return list(indexing.rows(None, entry.seq))
    audit.rows += len(rows)
    if entry.root != expected:
        says = f"Entry {entry.seq}: its root is not that of its {len(rows)} rows."
        audit.note(Finding(entry.seq, "root", says))
    return indexed


def _indexed(event: ev.Event, entry: Entry, indexing: Indexing) -> list[Place | Touch]:
    """Return what the index must say of an event; its ids may be anything."""
    rows = list(indexing.rows(event, entry.seq))
    if not all(isinstance(row.request, str) for row in rows):
        raise TypeError("an id that is no text")
    return rows


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


def _check_index(store: Store, sums: _Sums, audit: Audit) -> None:
    """Hold the index against the sums over what it must say."""
    if not _is_sql(store):
        return  # nothing but a database has an index that somebody could change
    stored = _Sums(sums.key)
    try:
        for row in _index(store, audit.chain, audit.size):
            stored.add(row)
        if sums.total != stored.total:
            _name_odd(store, audit.chain, audit)
    except StoreError as error:
        if not is_damage(error):
            raise
        audit.note(Finding(audit.size, "damaged", f"The index cannot be read: {error}."))


def _is_sql(store: Store) -> TypeGuard[SqlStore]:
    return isinstance(store, SqlStore)


def _check_snapshots(store: Store, audit: Audit) -> None:
    """Fold the entries, and hold every snapshot against what is known after as many."""
    chain, size = audit.chain, audit.size
    most = store.head(chain).size
    for odd in (store.snapshot(chain), store.snapshot(chain, 0)):
        # SQLite keeps a text where a number was declared.
        if odd is not None and (type(odd.size) is not int or not 0 < odd.size <= most):
            says = f"There is a snapshot after {odd.size} entries, and the chain has {size}."
            audit.note(Finding(size, "snapshot", says))
    sizes = snapshot_sizes(store, chain, size)
    if not sizes:
        return
    try:
        live = recall(store, chain)
        for entry in store.read(chain, 0, sizes[-1]):
            live.take(live.event_of(entry), entry.at, entry.by)
            if entry.seq + 1 == sizes[0]:
                _check_snapshot(live, sizes.pop(0), entry, audit)
    except StoreError:
        raise
    except (GdcbError, *_UNREADABLE) as error:
        said = " ".join(str(error).split())[:_SAID] or type(error).__name__
        says = f"The snapshot after {sizes[0]} entries cannot be worked out again: {said}."
        audit.note(Finding(sizes[0], "snapshot", says))


def _check_snapshot(live: Recall, size: int, entry: Entry, audit: Audit) -> None:
    stored = live.store.snapshot(live.chain, size)
    if stored is None or stored.size != size:
        return  # it went meanwhile
    found = check_snapshot(live, stored, entry.hash, TOLERANCE)
    if found is not None and found.verdict == "differs":
        odd = ", ".join(found.odd[:5])
        says = f"The snapshot after {size} entries is not what these entries make of it: {odd}."
        audit.note(Finding(size, "snapshot", says))


class _Rows(Protocol):
    def __call__(self, *values: Any) -> Place | Touch: ...


def _index(store: SqlStore, chain: str, size: int) -> Iterator[Place | Touch]:
    """Read the index of a chain; what came after its head was read is left out."""
    late: list[Place | Touch] = []
    kinds: list[tuple[Any, _Rows]] = [(places, Place), (touches, Touch)]
    for table, kind in kinds:
        # SQLite keeps a text where a number was declared; whoever put one there is found out.
        columns = [cast(column, column.type) for column in table.c if column.name != "chain"]
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


def _name_odd(store: SqlStore, chain: str, audit: Audit) -> None:
    """Say which rows of the index are missing, wrong or superfluous."""
    stored = {_key(row): row for row in _index(store, chain, audit.size)}
    indexing, seen = Indexing(), set()
    again = Audit(chain)  # what it finds is known
    for entry in store.read(chain, 0, max(audit.size, audit.entries)):
        for row in _read(entry, again, indexing):
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
