"""The tables that the migrations make are those that access uses."""

from __future__ import annotations

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, MetaData, StaticPool, create_engine, inspect, text
from sqlalchemy.exc import DBAPIError

from gdcb.ledger.tables import VERSION_TABLE
from gdcb.ledger.tables import metadata as ledger
from gdcb.service.access import Books, create_tables
from gdcb.service.access.tables import APPEND_ONLY, metadata
from tests.service.access_builders import memory_books, person


def differences(connection: Connection) -> list[object]:
    """Return what a further migration would have to change in the tables of access."""

    def is_ours(name: str | None, kind: str, *_: object) -> bool:
        return kind != "table" or str(name).startswith("access_")

    options = {
        "version_table": VERSION_TABLE,
        "include_name": is_ours,
        "compare_type": True,
    }
    context = MigrationContext.configure(connection, opts=options)
    return list(compare_metadata(context, metadata))


def test_migrations_make_the_tables_of_access(books: Books) -> None:
    with books.reading() as connection:
        assert differences(connection) == []


def test_the_comparison_would_notice(sqlite_books: Books) -> None:
    with sqlite_books.changing() as connection:
        connection.execute(text("ALTER TABLE access_keys DROP COLUMN used_at"))
    with sqlite_books.reading() as connection:
        assert differences(connection) != []


def test_triggers_are_the_same_with_and_without_migrations(sqlite_books: Books) -> None:
    asked = text(
        "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'access_log'"
    )

    def triggers(books: Books) -> dict[str, list[str]]:
        with books.reading() as connection:
            return {row.name: row.sql.split() for row in connection.execute(asked)}

    with memory_books() as made:
        assert triggers(made) == triggers(sqlite_books)
        assert len(triggers(made)) == len(APPEND_ONLY["sqlite"])


def test_a_line_of_the_log_cannot_be_replaced(sqlite_books: Books) -> None:
    person(sqlite_books, "ann")
    with (
        pytest.raises(DBAPIError, match="access_log is append only"),
        sqlite_books.engine.begin() as connection,
    ):
        connection.execute(
            text("INSERT OR REPLACE INTO access_log VALUES (1, 0, 'x', 'nothing', '{}')")
        )


def test_names_of_tables_are_our_own() -> None:
    assert all(name.startswith("access_") for name in metadata.tables)
    assert not set(metadata.tables) & set(ledger.tables)


def test_tables_are_created_once() -> None:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    create_tables(engine)
    create_tables(engine)
    found = MetaData()
    found.reflect(engine)
    assert set(found.tables) == set(metadata.tables)
    assert inspect(engine).has_table("access_log")
    engine.dispose()
