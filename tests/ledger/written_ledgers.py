"""Ledgers that a desk wrote, small, for the tests of what an auditor does with them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from benchmarks.replay import Writer
from gdcb.codec import from_body, leaves, to_body
from gdcb.events import KINDS, Event
from gdcb.ledger import GENESIS, Draft, link, merkle, open_store
from gdcb.service import observing, operating


def write_small(path: Path, which: str) -> str:
    """Write a ledger with single decisions and a batch, all with outcomes; return the chain."""
    store = open_store(path)
    writer = Writer(store, which, together=6)
    writer.singles(18)
    writer.batch(20)
    writer.singles(6)
    desk = writer.desk
    desk.submit(lambda turn: operating.pause(turn, "a look", "owner")).result()
    desk.submit(lambda turn: operating.resume(turn, "it is fine", "owner")).result()
    desk.submit(lambda turn: observing.appeal(turn, "d2", True, "too dear", "board")).result()
    store.put_snapshot(
        desk.look(lambda live: live.to_snapshot(store.head(writer.chain).hash)).result()
    )
    writer.singles(6)
    desk.close()
    store.close()
    return writer.chain


def _unlock(connection: sqlite3.Connection) -> None:
    """Take away what keeps entries from being changed, as somebody with a SQL shell can."""
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for (name,) in names:
        connection.execute(f'DROP TRIGGER "{name}"')


def run_sql(path: Path, *statements: str) -> None:
    """Do to a ledger what somebody with a SQL shell would."""
    with sqlite3.connect(path) as connection:
        _unlock(connection)
        for statement in statements:
            connection.execute(statement)
    connection.close()


def rewrite(path: Path, chain: str, seq: int, change: Callable[[Event], Event]) -> None:
    """Change an event, and every root and hash after it: nothing in the chain tells."""
    with sqlite3.connect(path) as connection:
        _unlock(connection)
        rows = connection.execute(
            'SELECT seq, kind, at, "by", body, root FROM entries WHERE chain = ? ORDER BY seq',
            (chain,),
        ).fetchall()
        prev = GENESIS
        for number, kind, at, by, body, root in rows:
            if number == seq:
                event = change(from_body(kind, body))
                assert type(event) is KINDS[kind]
                body = to_body(event)
                root = merkle.root(leaves(event)) if event.columns else b""
            entry = link(chain, number, prev, Draft(kind, body, root, at, by))
            prev = entry.hash
            connection.execute(
                "UPDATE entries SET body = ?, root = ?, prev = ?, hash = ? "
                "WHERE chain = ? AND seq = ?",
                (body, root, entry.prev, entry.hash, chain, number),
            )
        connection.execute("UPDATE chains SET hash = ? WHERE name = ?", (prev, chain))
        connection.execute("DELETE FROM snapshots")
    connection.close()


def first_of(path: Path, kind: str, after: int = -1) -> int:
    """Return the number of the first entry of a kind."""
    with sqlite3.connect(path) as connection:
        (found,) = connection.execute(
            "SELECT min(seq) FROM entries WHERE kind = ? AND seq > ?", (kind, after)
        ).fetchone()
    connection.close()
    return int(found)
