"""Tampering in the database: its triggers refuse it, and without them the check finds it."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from gdcb.errors import BrokenChain
from gdcb.ledger import Entry, check_store, link
from gdcb.ledger.sql import SqlStore
from tests.ledger.conftest import Opener
from tests.ledger.drafts import draft, fill

N = 8
TRIGGERS = {
    "sqlite": [f"DROP TRIGGER entries_{event}" for event in ("update", "delete", "insert")],
    "postgresql": ["DROP TRIGGER entries_stay ON entries"],
}
once = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Tampered:
    """A store whose triggers are gone, with a fresh chain for every try."""

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self.numbers = count()
        self.chain = ""
        for statement in TRIGGERS[store.engine.dialect.name]:
            self.run(statement)

    def run(self, statement: str, **values: object) -> None:
        with self.store.transaction() as connection:
            connection.execute(text(statement), {"chain": self.chain, **values})

    def start(self) -> list[Entry]:
        self.chain = f"chain {next(self.numbers)}"
        return fill(self.store, N, self.chain)

    def move(self, first: int, by: int) -> None:
        """Renumber all entries from one on; in two steps, for numbers are unique."""
        where = "WHERE chain = :chain AND seq"
        self.run(f"UPDATE entries SET seq = -1 - seq {where} >= :first", first=first)
        self.run(f"UPDATE entries SET seq = -1 - seq + :by {where} < 0", by=by)

    def put(self, entry: Entry) -> None:
        self.run(
            'INSERT INTO entries (chain, seq, kind, at, "by", body, root, prev, hash, clock) '
            "VALUES (:chain, :seq, :kind, :at, :who, :body, :root, :prev, :hash, :at)",
            seq=entry.seq,
            kind=entry.kind,
            at=entry.at,
            who=entry.by,
            body=entry.body,
            root=entry.root,
            prev=entry.prev,
            hash=entry.hash,
        )

    def found(self) -> list[tuple[int, str]]:
        report = check_store(self.store, self.chain)
        return [(finding.seq, finding.what) for finding in report.findings]


def sql_store(opener: Opener) -> SqlStore:
    store = opener()
    assert isinstance(store, SqlStore)
    return store


@pytest.fixture
def tampered(opener: Opener) -> Tampered:
    return Tampered(sql_store(opener))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET body = body",
        "DELETE FROM entries WHERE seq = 1",
        "INSERT OR REPLACE INTO entries SELECT * FROM entries WHERE seq = 1",
        "TRUNCATE entries",
    ],
)
def test_the_database_refuses_changes(opener: Opener, statement: str) -> None:
    store = sql_store(opener)
    entries = fill(store, 3)
    only = {"INSERT OR": "sqlite", "TRUNCATE ": "postgresql"}.get(statement[:9])
    if only is None or only == store.engine.dialect.name:
        with pytest.raises(IntegrityError, match="entries are never"), store.transaction() as lent:
            lent.execute(text(statement))
    assert list(store.read("prices")) == entries


@once
@given(data=st.data())
def test_a_changed_byte(tampered: Tampered, data: st.DataObject) -> None:
    entries = tampered.start()
    i = data.draw(st.integers(0, N - 1))
    name = data.draw(st.sampled_from(["body", "root", "prev", "hash"]))
    value = bytearray(getattr(entries[i], name))
    value[data.draw(st.integers(0, len(value) - 1))] ^= data.draw(st.integers(1, 255))
    where = "WHERE chain = :chain AND seq = :seq"
    tampered.run(f"UPDATE entries SET {name} = :value {where}", value=bytes(value), seq=i)
    assert tampered.found() == [(i, name if name in ("prev", "hash") else "changed")]


@once
@given(i=st.integers(0, N - 1), name=st.sampled_from(["kind", "at", '"by"']))
def test_a_changed_header(tampered: Tampered, i: int, name: str) -> None:
    tampered.start()
    value = "7" if name == "at" else "'somebody'"
    tampered.run(f"UPDATE entries SET {name} = {value} WHERE chain = :chain AND seq = {i}")
    assert tampered.found() == [(i, "changed")]


@once
@given(i=st.integers(0, N - 1), is_renumbered=st.booleans())
def test_a_deleted_entry(tampered: Tampered, i: int, is_renumbered: bool) -> None:
    tampered.start()
    tampered.run("DELETE FROM entries WHERE chain = :chain AND seq = :seq", seq=i)
    if is_renumbered:
        tampered.move(i + 1, -1)
    assert tampered.found() == [(i, "truncated" if i == N - 1 else "deleted")]


@once
@given(i=st.integers(0, N - 1), is_rough=st.booleans(), is_head_changed=st.booleans())
def test_an_inserted_entry(
    tampered: Tampered, i: int, is_rough: bool, is_head_changed: bool
) -> None:
    entries = tampered.start()
    tampered.move(i, 1)
    entry = link(tampered.chain, i, entries[i].prev, draft(99))
    tampered.put(replace(entry, hash=bytes(32)) if is_rough else entry)
    if is_head_changed:
        tampered.run("UPDATE chains SET size = size + 1 WHERE name = :chain")
    assert tampered.found() == [(i, "inserted")]


@once
@given(i=st.integers(0, N - 1))
def test_a_duplicated_entry(tampered: Tampered, i: int) -> None:
    entries = tampered.start()
    tampered.move(i + 1, 1)
    tampered.put(replace(entries[i], seq=i + 1))
    assert tampered.found() == [(i + 1, "duplicated")]


@once
@given(i=st.integers(0, N - 2))
def test_entries_that_changed_places(tampered: Tampered, i: int) -> None:
    tampered.start()
    for old, new in ((i, -1), (i + 1, i), (-1, i + 1)):
        where = "WHERE chain = :chain AND seq = :old"
        tampered.run(f"UPDATE entries SET seq = :new {where}", old=old, new=new)
    assert tampered.found() == [(i + 1, "reordered")]


def test_a_tail_that_is_cut_off_or_put_on(tampered: Tampered) -> None:
    tampered.start()
    tampered.run("DELETE FROM entries WHERE chain = :chain AND seq >= 5")
    assert tampered.found() == [(5, "truncated")]
    entries = tampered.start()
    tampered.put(link(tampered.chain, N, entries[-1].hash, draft(N)))
    assert tampered.found() == [(N, "surplus")]


def test_a_text_where_bytes_were(opener: Opener) -> None:
    store = sql_store(opener)
    if store.engine.dialect.name == "sqlite":
        tampered = Tampered(store)
        tampered.start()
        tampered.run("UPDATE entries SET body = 'cheap' WHERE chain = :chain AND seq = 3")
        assert tampered.found() == [(3, "changed")]


def test_nothing_is_added_to_a_chain_that_ends_otherwise(tampered: Tampered) -> None:
    tampered.start()
    tampered.run("UPDATE chains SET hash = :hash WHERE name = :chain", hash=b"?" * 32)
    with pytest.raises(BrokenChain, match="its head says that 8 entries end in 3f3f3f"):
        fill(tampered.store, 1, tampered.chain)
    assert tampered.found() == [(N - 1, "head")]
    tampered.start()
    tampered.run("DELETE FROM entries WHERE chain = :chain AND seq = :seq", seq=N - 1)
    with pytest.raises(BrokenChain, match="but the last one is 00000000"):
        fill(tampered.store, 1, tampered.chain)
    entries = tampered.start()
    tampered.put(link(tampered.chain, N, entries[-1].hash, draft(N)))
    with pytest.raises(BrokenChain, match="an entry stands where the next one should go"):
        fill(tampered.store, 1, tampered.chain)
