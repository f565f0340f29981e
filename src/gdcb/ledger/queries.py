"""What is read of a chain, in a transaction or outside of one."""

from __future__ import annotations

from collections.abc import Sequence

from gdcb.ledger.entry import Entry
from gdcb.ledger.session import Session
from gdcb.ledger.store import EMPTY, Head, Key, Place, Touch
from gdcb.ledger.tables import IS_ACT

_LAST = 2**63 - 1


def head(session: Session, chain: str) -> Head:
    """Return how far a chain goes."""
    [rows] = session.ask((f"SELECT {session.head} FROM chains WHERE name = ?", (chain,)))
    return Head(*rows[0]) if rows else EMPTY


def page(
    session: Session, chain: str, start: int, stop: int | None, rows: int, size: int
) -> tuple[int, bool]:
    """Return where a page that begins at `start` ends, and whether it is the last as of now.

    It has at most `rows` entries, and bodies of `size` bytes or one entry.
    """
    sql = (
        "SELECT seq, length(body) FROM entries WHERE chain = ? AND seq >= ? AND seq < ? "
        "ORDER BY seq LIMIT ?"
    )
    [found] = session.ask((sql, (chain, start, _LAST if stop is None else stop, rows)))
    end, total = start, 0
    for seq, length in found:
        total += length
        if end > start and total > size:
            return end, False
        end = seq + 1
    return end, len(found) < rows


def entries(session: Session, chain: str, start: int, stop: int | None) -> list[Entry]:
    """Return entries from `start` up to, not including, `stop`."""
    sql = (
        f"SELECT {session.entry} FROM entries WHERE chain = ? AND seq >= ? AND seq < ? ORDER BY seq"
    )
    [rows] = session.ask((sql, (chain, start, _LAST if stop is None else stop)))
    return [Entry(chain, *row) for row in rows]


def acts(session: Session, chain: str, stop: int) -> list[Entry]:
    """Return the entries before `stop` that say which rules are in force, in order."""
    sql = (
        f"SELECT {session.entry} FROM entries WHERE chain = ? AND seq < ? AND {IS_ACT} ORDER BY seq"
    )
    [rows] = session.ask((sql, (chain, stop)))
    return [Entry(chain, *row) for row in rows]


def some_entries(session: Session, chain: str, seqs: Sequence[int]) -> list[Entry]:
    """Return those of the entries with these numbers that are there."""
    among = session.among("bigint")
    sql = f"SELECT {session.entry} FROM entries WHERE chain = ? AND seq {among}"
    [rows] = session.ask((sql, (chain, session.listed([int(seq) for seq in seqs]))))
    return [Entry(chain, *row) for row in rows]


def places(session: Session, chain: str, requests: Sequence[str]) -> dict[str, Place]:
    """Return the places of those requests that have one."""
    sql = (
        'SELECT request, seq, "first", n FROM places WHERE chain = ? '
        f"AND request {session.among('text')}"
    )
    [rows] = session.ask((sql, (chain, session.listed(requests))))
    return {row[0]: Place(*row) for row in rows}


def touches(session: Session, chain: str, requests: Sequence[str]) -> list[Touch]:
    """Return all touches of requests, in the order of the entries."""
    sql = (
        'SELECT request, "row", slot, seq, at_row FROM touches WHERE chain = ? '
        f"AND request {session.among('text')} ORDER BY seq, at_row, request, slot"
    )
    [rows] = session.ask((sql, (chain, session.listed(requests))))
    return [Touch(*row) for row in rows]


def keys(session: Session, chain: str, column: str, values: Sequence[str]) -> list[Key]:
    """Return the keys of a chain whose `column`, key or subject, is among some values."""
    sql = (
        'SELECT "key", subject, secret FROM subject_keys WHERE chain = ? '
        f'AND "{column}" {session.among("text")}'
    )
    [rows] = session.ask((sql, (chain, session.listed(values))))
    return [Key(name, subject, bytes(secret)) for name, subject, secret in rows]


def near(session: Session, chain: str, at: int) -> int:
    """Return the first number whose entry was at `at` or later; the size where none was."""
    sql = "SELECT seq FROM entries WHERE chain = ? AND clock >= ? ORDER BY clock, seq LIMIT 1"
    [rows] = session.ask((sql, (chain, at)))
    return int(rows[0][0]) if rows else head(session, chain).size
