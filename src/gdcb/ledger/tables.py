"""The tables of a ledger; `migrations` makes them, and a test holds the two to each other."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

from gdcb.ledger.store import ACTS

VERSION_TABLE = "gdcb_version"
# The last of the steps in `migrations`.
NEWEST = "0004"

_KINDS = ", ".join(f"'{kind}'" for kind in ACTS)
IS_ACT = f"kind IN ({_KINDS})"

metadata = MetaData()

# The head of each chain: entries so far, hash of the last one, latest time in any of them.
chains = Table(
    "chains",
    metadata,
    Column("name", Text, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("clock", BigInteger, nullable=False),
)

# `clock` is the latest time up to and with an entry. Clocks go back now and then, and this does
# not, so that the first entry at or after a time is found by an index.
entries = Table(
    "entries",
    metadata,
    Column("chain", Text, ForeignKey("chains.name"), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("by", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("root", LargeBinary, nullable=False),
    Column("prev", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("clock", BigInteger, nullable=False),
    Index("entries_clock", "chain", "clock", "seq"),
    Index("entries_acts", "chain", "seq", sqlite_where=text(IS_ACT), postgresql_where=text(IS_ACT)),
)

# Where the rows of a request stand.
places = Table(
    "places",
    metadata,
    Column("chain", Text, primary_key=True),
    Column("request", Text, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("n", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# Which later entries are about a row of a request.
touches = Table(
    "touches",
    metadata,
    Column("chain", Text, primary_key=True),
    Column("request", Text, primary_key=True),
    Column("row", BigInteger, primary_key=True, autoincrement=False),
    Column("slot", Text, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("at_row", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("chain", Text, ForeignKey("chains.name"), primary_key=True),
    Column("size", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
