"""Tampering in the database: its triggers refuse it, and without them the check finds it."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from gdcb.errors import BrokenChain, UnknownInstance
from gdcb.ledger import Entry, check_store, link, open_store
from gdcb.ledger.audit import Audit, chains_of, verify_chain
from gdcb.ledger.audit import _read as read_entry
from gdcb.ledger.indexing import Indexing
from gdcb.ledger.sql import SqlStore
from gdcb.ledger.store import Key
from tests.ledger.conftest import Opener
from tests.ledger.drafts import decided, fill, fill_decided
from tests.ledger.written_ledgers import write_small
from tests.properties import examples

N = 8
FOLLOWS = ("root", "body", "missing", "misplaced", "superfluous")
TRIGGERS = {
    "sqlite": [f"DROP TRIGGER entries_{event}" for event in ("update", "delete", "insert")],
    "postgresql": ["DROP TRIGGER entries_stay ON entries"],
}
once = examples(15, suppress_health_check=[HealthCheck.function_scoped_fixture])


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
        return fill_decided(self.store, N, self.chain)

    def behead(self) -> None:
        """Delete the chain's head, though entries refer to it."""
        if self.store.engine.dialect.name == "postgresql":
            self.run("ALTER TABLE entries DROP CONSTRAINT IF EXISTS entries_chain_fkey")
            self.run("DELETE FROM chains WHERE name = :chain")
            return
        # A shell of one's own does not ask whether anything refers to a row.
        shell = sqlite3.connect(str(self.store._url.database))
        with shell:
            shell.execute("DELETE FROM chains WHERE name = ?", (self.chain,))
        shell.close()

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

    def audit(self) -> Audit:
        return verify_chain(self.store, self.chain)

    def found(self) -> list[tuple[int, str]]:
        """Return what is found of the chain, without what follows from it for rows and index."""
        audit, report = self.audit(), check_store(self.store, self.chain)
        found = [one for one in audit.findings if one.what not in FOLLOWS]
        assert sorted(found, key=str) == sorted(report.findings, key=str)
        return [(one.seq, one.what) for one in found]


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
    entry = link(tampered.chain, i, entries[i].prev, decided(99))
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
    tampered.put(link(tampered.chain, N, entries[-1].hash, decided(N)))
    assert tampered.found() == [(N, "surplus")]


def test_a_text_where_bytes_were(opener: Opener) -> None:
    """SQLite keeps a text there; PostgreSQL makes bytes of it."""
    tampered = Tampered(sql_store(opener))
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
    tampered.put(link(tampered.chain, N, entries[-1].hash, decided(N)))
    with pytest.raises(BrokenChain, match="an entry stands where the next one should go"):
        fill(tampered.store, 1, tampered.chain)


# What is put where an event was


def body_of(head: str) -> bytes:
    """Return a body that has a head and no arrays."""
    data = head.encode()
    return len(data).to_bytes(4, "little") + data + bytes(-(4 + len(data)) % 8)


REVIEWED = '"verdict":"approve","action":null,"by":"m","reason":"","code":""'
CRAFTED = {
    "an id that is a number": ("Reviewed", f'{{"fields":{{"id":5,{REVIEWED}}},"arrays":[]}}'),
    "ids that are numbers": ("Reviewed", f'{{"fields":{{"id":[5],{REVIEWED}}},"arrays":[]}}'),
    "an id that is a list": ("Reviewed", f'{{"fields":{{"id":[["a"]],{REVIEWED}}},"arrays":[]}}'),
    "a shape beyond all": ("Reviewed", f'{{"fields":{{}},"arrays":[["id","<f8",[{10**23}]]]}}'),
    "lists without end": ("Reviewed", '{"fields":' + "[" * 100_000),
    "fields that are none": ("Reviewed", '{"fields":7,"arrays":[]}'),
    "no head": ("Reviewed", ""),
    "another kind": ("Nothing", '{"fields":{},"arrays":[]}'),
}


@pytest.mark.parametrize("what", CRAFTED)
def test_a_body_that_cannot_be_read_is_a_finding(opener: Opener, what: str) -> None:
    tampered = Tampered(sql_store(opener))
    tampered.start()
    kind, head = CRAFTED[what]
    where = "WHERE chain = :chain AND seq = 3"
    tampered.run(f"UPDATE entries SET kind = :kind {where}", kind=kind)
    tampered.run(f"UPDATE entries SET body = :body {where}", body=body_of(head))
    audit = tampered.audit()
    assert [(one.seq, one.what) for one in audit.findings if one.what in ("changed", "body")] == [
        (3, "body"),
        (3, "changed"),
    ]
    assert audit.entries == N


def test_half_a_character_can_be_printed(opener: Opener) -> None:
    tampered = Tampered(sql_store(opener))
    tampered.start()
    head = f'{{"fields":{{"id":"\\ud800",{REVIEWED}}},"arrays":[]}}'
    tampered.run("UPDATE entries SET kind = 'Reviewed' WHERE chain = :chain AND seq = 3")
    where = "WHERE chain = :chain AND seq = 3"
    tampered.run(f"UPDATE entries SET body = :body {where}", body=body_of(head))
    says = [one.says for one in tampered.audit().findings if one.what == "missing"]
    assert says == [r"Entry 3: the index has no touch 'review:0' of request '\ud800', row 0."]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    """Return what a desk wrote."""
    path = tmp_path_factory.mktemp("written") / "str.db"
    chain = write_small(path, "str")
    store = open_store(path)
    entries = list(store.read(chain))
    store.close()
    return entries


@examples(300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_sign_of_a_head_stops_the_check(written: list[Entry], data: st.DataObject) -> None:
    entry = data.draw(st.sampled_from(written))
    length = 4 + int.from_bytes(entry.body[:4], "little")
    body = bytearray(entry.body)
    signs = st.sampled_from(b'0123456789"[]{},:e-. nulltrue\xff\x00')
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, length - 1))] = data.draw(signs)
    before, number = Indexing(), entry.seq
    rows = read_entry(replace(entry, body=bytes(body)), Audit("str"), before)
    assert all(row.seq == number for row in rows)


# Chains, and what the columns hold


@pytest.mark.parametrize("how", ["size", "head", "entries"])
def test_a_chain_cannot_be_hidden(tampered: Tampered, how: str) -> None:
    tampered.start()
    hidden = tampered.chain
    if how == "size":
        tampered.run("UPDATE chains SET size = 0 WHERE name = :chain")
    if how == "entries":
        tampered.run("DELETE FROM entries WHERE chain = :chain")
    if how != "size":
        tampered.behead()
    audit = tampered.audit()
    assert hidden not in tampered.store.chains()
    tampered.start()
    assert chains_of(tampered.store) == [hidden, tampered.chain]
    kinds = [one.what for one in audit.findings]
    assert kinds == {"size": ["head"], "head": ["surplus"], "entries": ["superfluous"] * N}[how]
    assert tampered.audit().ok


def test_a_chain_of_which_there_is_nothing(tampered: Tampered) -> None:
    with tampered.store.writing("keys only") as writing:
        writing.add_keys([Key("k", "ann", bytes(32))], 17)
    assert chains_of(tampered.store) == []
    with pytest.raises(UnknownInstance, match="no instance 'keys only' in this ledger"):
        verify_chain(tampered.store, "keys only")


@pytest.mark.parametrize(
    ("statement", "kinds"),
    [
        ("UPDATE chains SET size = 'many' WHERE name = :chain", {"head"}),
        ("UPDATE chains SET hash = 'many' WHERE name = :chain", {"head"}),
        ("UPDATE entries SET at = 'late' WHERE chain = :chain AND seq = 3", {"changed"}),
        ("UPDATE places SET seq = 'three' WHERE chain = :chain AND seq = 3", {"misplaced"}),
        ("UPDATE places SET n = 'two' WHERE chain = :chain AND seq = 3", {"misplaced"}),
        (
            "UPDATE entries SET \"by\" = CAST(x'ff6d' AS TEXT) WHERE chain = :chain AND seq = 3",
            {"damaged"},
        ),
        (
            "UPDATE entries SET kind = CAST(x'ff6d' AS TEXT) WHERE chain = :chain AND seq = 3",
            {"damaged"},
        ),
        (
            "UPDATE places SET request = CAST(x'ff6d' AS TEXT) WHERE chain = :chain AND seq = 3",
            {"damaged"},
        ),
    ],
)
def test_what_no_column_should_hold(sqlite_ready: str, statement: str, kinds: set[str]) -> None:
    store = open_store(sqlite_ready)
    assert isinstance(store, SqlStore)
    tampered = Tampered(store)
    tampered.start()
    tampered.run(statement)
    audit = tampered.audit()
    assert {one.what for one in audit.findings} == kinds
    assert audit.n_findings == 1
    store.close()
