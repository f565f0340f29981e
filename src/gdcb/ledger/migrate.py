"""Bring a database's tables up to this version, whoever else starts at the same time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Lock

from sqlalchemy import Connection, Engine, inspect, text

from gdcb.errors import StoreError
from gdcb.ledger.tables import NEWEST, VERSION_TABLE
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
    with told(where), engine.connect() as connection:
        _refuse_encoding(connection, where)
        current = _steps(connection)
    if current != {NEWEST}:
        with _one_at_a_time:
            _run_missing(current, where, transaction)


def _run_missing(
    current: set[str], where: str, transaction: Callable[[], AbstractContextManager[Connection]]
) -> None:
    # Few starts have anything to migrate, and they alone pay for importing Alembic.
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", "gdcb.ledger:migrations")
    known = {step.revision for step in ScriptDirectory.from_config(config).walk_revisions()}
    _refuse_newer(current - known, where)
    with transaction() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        # Another process may have been quicker.
        current = _steps(connection)
        _refuse_newer(current - known, where)
        if current != {NEWEST}:
            config.attributes["connection"] = connection
            command.upgrade(config, "heads")


def _refuse_newer(newer: set[str], where: str) -> None:
    if newer:
        raise StoreError(
            f"{where}: its tables are those of a newer gdcb (step {', '.join(sorted(newer))}; this "
            f"one knows {NEWEST}); install that version or a later"
        )


def _steps(connection: Connection) -> set[str]:
    """Return the latest steps that were run; none where there is no table of versions."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return set()
    return set(connection.scalars(text(f"SELECT version_num FROM {VERSION_TABLE}")))


def _refuse_encoding(connection: Connection, where: str) -> None:
    if connection.dialect.name != "postgresql":
        return
    encoding = connection.scalar(text("SHOW server_encoding"))
    if encoding != "UTF8":
        raise StoreError(f"{where}: expected a database in UTF8, got {encoding}; create one")
