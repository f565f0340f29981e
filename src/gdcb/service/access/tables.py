"""The tables of access; the ledger's migrations make them, and a test holds the two together."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    event,
)

metadata = MetaData()

# People and keys share one table, so that a grant and a ledger entry name either by one id.
# Rows stay for ever: an id in the ledger must always lead to a name. Times are µs since the epoch.
principals = Table(
    "access_principals",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("login", Text, unique=True),
    Column("made_at", BigInteger, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("signed_in_at", BigInteger),
    Column("ended_at", BigInteger),
)

grants = Table(
    "access_grants",
    metadata,
    Column("principal", ForeignKey("access_principals.id"), primary_key=True),
    Column("role", Text, primary_key=True),
    Column("instance", Text, primary_key=True),
)

keys = Table(
    "access_keys",
    metadata,
    Column("id", ForeignKey("access_principals.id"), primary_key=True),
    Column("hash", LargeBinary, nullable=False),
    Column("expires_at", BigInteger),
    Column("used_at", BigInteger),
)

passwords = Table(
    "access_passwords",
    metadata,
    Column("person", ForeignKey("access_principals.id"), primary_key=True),
    Column("salt", LargeBinary, nullable=False),
    Column("n", Integer, nullable=False),
    Column("r", Integer, nullable=False),
    Column("p", Integer, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("set_at", BigInteger, nullable=False),
)

# By the hash of the login that was tried, whether or not there is such a person: else a lock-out
# would tell which logins exist.
tries = Table(
    "access_tries",
    metadata,
    Column("login", LargeBinary, primary_key=True),
    Column("n", Integer, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("locked_until", BigInteger, nullable=False),
)

links = Table(
    "access_links",
    metadata,
    Column("hash", LargeBinary, primary_key=True),
    Column("person", ForeignKey("access_principals.id"), nullable=False),
    Column("made_at", BigInteger, nullable=False),
    Column("made_by", Text, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("used_at", BigInteger),
    Index("access_links_person", "person"),
)

sessions = Table(
    "access_sessions",
    metadata,
    Column("hash", LargeBinary, primary_key=True),
    Column("person", ForeignKey("access_principals.id"), nullable=False),
    Column("made_at", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Index("access_sessions_person", "person"),
)

# What the database keeps about itself by name: its secret, and where the service is reached.
secret = Table(
    "access_secrets",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)

log = Table(
    "access_log",
    metadata,
    Column("n", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("by", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("detail", Text, nullable=False),
)

# The log only grows, and the database itself holds to it.
APPEND_ONLY = {
    "sqlite": (
        """
        CREATE TRIGGER access_log_update BEFORE UPDATE ON access_log
        BEGIN SELECT RAISE(ABORT, 'access_log is append only'); END
        """,
        """
        CREATE TRIGGER access_log_delete BEFORE DELETE ON access_log
        BEGIN SELECT RAISE(ABORT, 'access_log is append only'); END
        """,
        # INSERT OR REPLACE deletes without asking the trigger above.
        """
        CREATE TRIGGER access_log_insert BEFORE INSERT ON access_log
        WHEN EXISTS (SELECT 1 FROM access_log WHERE n = NEW.n)
        BEGIN SELECT RAISE(ABORT, 'access_log is append only'); END
        """,
    ),
    "postgresql": (
        """
        CREATE FUNCTION access_log_stays() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'access_log is append only'
        USING ERRCODE = 'integrity_constraint_violation'; END $$
        """,
        """
        CREATE TRIGGER access_log_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON access_log
        FOR EACH STATEMENT EXECUTE FUNCTION access_log_stays()
        """,
    ),
}


@event.listens_for(log, "after_create")
def _append_only(_: Table, connection: Connection, **__: object) -> None:
    for statement in APPEND_ONLY.get(connection.dialect.name, ()):
        connection.exec_driver_sql(statement)


def create_tables(engine: Engine) -> None:
    """Create what is missing where no migration runs: beside a ledger in memory."""
    metadata.create_all(engine)
