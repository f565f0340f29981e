"""Bring a database's tables up to this version, whoever else starts at the same time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Lock

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

from gdcb.errors import StoreError
from gdcb.ledger.tables import VERSION_TABLE
from gdcb.ledger.trouble import told

# Any number that nobody else locks: 'gdcb' in ASCII.
_LOCK_KEY = 0x67646362
# Alembic keeps what it runs in module-level state.
_one_at_a_time = Lock()


def bring_up(
    engine: Engine, where: str, transaction: Callable[[], AbstractContextManager[Connection]]
) -> None:
    """Run the migrations that are missing; write nothing where none is.

    Parameters
    ----------
    engine : of the database
    where : its name in sentences
    transaction : opens one that may write
    """
    with _one_at_a_time:
        config = Config()
        config.set_main_option("script_location", "gdcb.ledger:migrations")
        script = ScriptDirectory.from_config(config)
        with told(where), engine.connect() as connection:
            _refuse_encoding(connection, where)
            if _is_up(connection, script, where):
                return
        with transaction() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
            # Another process may have been quicker.
            if not _is_up(connection, script, where):
                config.attributes["connection"] = connection
                command.upgrade(config, "heads")


def _is_up(connection: Connection, script: ScriptDirectory, where: str) -> bool:
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    current = set(context.get_current_heads())
    known = {step.revision for step in script.walk_revisions()}
    if newer := current - known:
        raise StoreError(
            f"{where}: its tables are those of a newer gdcb (step {', '.join(sorted(newer))}; this "
            f"one knows {', '.join(sorted(script.get_heads()))}); install that version or a later"
        )
    return current == set(script.get_heads())


def _refuse_encoding(connection: Connection, where: str) -> None:
    if connection.dialect.name != "postgresql":
        return
    encoding = connection.scalar(text("SHOW server_encoding"))
    if encoding != "UTF8":
        raise StoreError(f"{where}: expected a database in UTF8, got {encoding}; create one")
