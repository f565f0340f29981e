"""Tables of the service beside the ledger: leases of held decisions, webhooks, cursors."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData()

claims = Table(
    "claims",
    metadata,
    Column("chain", String(200), primary_key=True),
    Column("id", String(200), primary_key=True),
    Column("by", Text, nullable=False),
    Column("until", BigInteger, nullable=False),
)

# Up to where something that goes over whole chains has come.
cursors = Table(
    "cursors",
    metadata,
    Column("chain", String(200), primary_key=True),
    Column("name", String(40), primary_key=True),
    Column("seq", BigInteger, nullable=False),
)

# A hook is told of every event from its cursor on; the ledger itself is the outbox.
hooks = Table(
    "hooks",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("chain", String(200), nullable=False, index=True),
    Column("url", Text, nullable=False),
    Column("kinds", Text, nullable=False),
    Column("secret", LargeBinary, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("made_at", BigInteger, nullable=False),
    Column("cursor", BigInteger, nullable=False),
    Column("is_on", Boolean, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("next_at", BigInteger, nullable=False),
    Column("last_error", Text, nullable=False),
    Column("leased_until", BigInteger, nullable=False),
    Column("leased_by", String(80), nullable=False),
)

# Keys of personal fields, one a subject; without its key a field cannot be read by anybody.
subject_keys = Table(
    "subject_keys",
    metadata,
    Column("key", String(40), primary_key=True),
    Column("chain", String(200), nullable=False),
    Column("subject", String(200), nullable=False, index=True),
    Column("secret", LargeBinary, nullable=False),
    Column("made_at", BigInteger, nullable=False),
)
