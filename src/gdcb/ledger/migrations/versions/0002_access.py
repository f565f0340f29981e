"""Who may do what: people, keys, grants, ways to sign in, and the log of their changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_SQLITE = (
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
)
_POSTGRESQL = (
    """
    CREATE FUNCTION access_log_stays() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'access_log is append only'
    USING ERRCODE = 'integrity_constraint_violation'; END $$
    """,
    """
    CREATE TRIGGER access_log_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON access_log
    FOR EACH STATEMENT EXECUTE FUNCTION access_log_stays()
    """,
)


def upgrade() -> None:
    """Make the tables, and the triggers that let the log only grow."""
    op.create_table(
        "access_principals",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("login", sa.Text, unique=True),
        sa.Column("made_at", sa.BigInteger, nullable=False),
        sa.Column("made_by", sa.Text, nullable=False),
        sa.Column("signed_in_at", sa.BigInteger),
        sa.Column("ended_at", sa.BigInteger),
    )
    op.create_table(
        "access_grants",
        _principal("principal", primary_key=True),
        sa.Column("role", sa.Text, primary_key=True),
        sa.Column("instance", sa.Text, primary_key=True),
    )
    op.create_table(
        "access_keys",
        _principal("id", primary_key=True),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("used_at", sa.BigInteger),
    )
    op.create_table(
        "access_passwords",
        _principal("person", primary_key=True),
        sa.Column("salt", sa.LargeBinary, nullable=False),
        sa.Column("n", sa.Integer, nullable=False),
        sa.Column("r", sa.Integer, nullable=False),
        sa.Column("p", sa.Integer, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("set_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "access_tries",
        sa.Column("login", sa.LargeBinary, primary_key=True),
        sa.Column("n", sa.Integer, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("locked_until", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "access_links",
        sa.Column("hash", sa.LargeBinary, primary_key=True),
        _principal("person", nullable=False),
        sa.Column("made_at", sa.BigInteger, nullable=False),
        sa.Column("made_by", sa.Text, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("used_at", sa.BigInteger),
    )
    op.create_index("access_links_person", "access_links", ["person"])
    op.create_table(
        "access_sessions",
        sa.Column("hash", sa.LargeBinary, primary_key=True),
        _principal("person", nullable=False),
        sa.Column("made_at", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
    )
    op.create_index("access_sessions_person", "access_sessions", ["person"])
    op.create_table(
        "access_secrets",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "access_log",
        sa.Column("n", number, primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("what", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
    )
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    for statement in _SQLITE if is_sqlite else _POSTGRESQL:
        op.execute(statement)


def _principal(
    name: str, *, primary_key: bool = False, nullable: bool | None = None
) -> sa.Column[str]:
    whose = sa.ForeignKey("access_principals.id")
    is_nullable = not primary_key if nullable is None else nullable
    return sa.Column(name, sa.Text, whose, primary_key=primary_key, nullable=is_nullable)
