"""A connection for a while, at the level of its driver: every decision waits for one.

Statements are written with '?'. SQLAlchemy's own execution costs several times what SQLite needs
for an entry, and it cannot send several statements to PostgreSQL in one go.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Protocol

import psycopg

from gdcb.errors import StoreError, StoreUnavailable
from gdcb.ledger.engines import OpenFiles
from gdcb.ledger.trouble import DRIVER_ERRORS, trouble

_SMALL = 2**15

Row = tuple[Any, ...]
Statement = tuple[str, Sequence[Any]]


class Session(Protocol):
    """What the store asks of a connection, whichever the database is."""

    @property
    def lock(self) -> str:
        """What follows a SELECT that locks its rows."""

    @property
    def entry(self) -> str:
        """The columns of an entry after its chain, in the order of its fields."""

    @property
    def head(self) -> str:
        """The columns of a head, in the order of its fields."""

    def among(self, kind: str) -> str:
        """Return what follows a column, of type `kind`, that must be in a list; see `listed`."""

    def listed(self, values: Sequence[Any]) -> Any:
        """Return a list as one parameter."""

    def begin(self) -> None:
        """Begin a transaction that writes."""

    def ask(self, *statements: Statement) -> list[list[Row]]:
        """Return the rows of each statement; each sees what is committed by then."""

    def tell(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each of `rows`, at the latest with the next question or commit."""

    def insert(self, table: str, columns: Mapping[str, str], rows: Sequence[Row]) -> int:
        """Insert the rows whose key is free, and return how many; columns have their types."""

    def commit(self) -> None:
        """Keep what was done."""

    def undo(self) -> bool:
        """Undo what was not kept; return whether the connection is still good."""


class SqliteSession:
    """A connection to SQLite; see `Session`."""

    lock = ""
    # SQLite keeps a text where bytes were declared. Whoever put one there is found out by the
    # hash, not by a crash.
    entry = (
        'CAST(seq AS INTEGER), CAST(kind AS TEXT), CAST(at AS INTEGER), CAST("by" AS TEXT), '
        "CAST(body AS BLOB), CAST(root AS BLOB), CAST(prev AS BLOB), CAST(hash AS BLOB)"
    )
    head = "CAST(size AS INTEGER), CAST(hash AS BLOB)"

    def __init__(self, connection: sqlite3.Connection, where: str, files: OpenFiles) -> None:
        self._connection, self._where, self._files = connection, where, files

    def among(self, kind: str) -> str:
        """Return what follows a column that must be in a list."""
        return "IN (SELECT value FROM json_each(?))"

    def listed(self, values: Sequence[Any]) -> Any:
        """Return a list as one parameter."""
        return json.dumps(list(values))

    def begin(self) -> None:
        """Begin a transaction that writes; others who want to wait here."""
        self._run("BEGIN IMMEDIATE", ())

    def ask(self, *statements: Statement) -> list[list[Row]]:
        """Return the rows of each statement."""
        # Rows are read from the disk as they are fetched: that can fail as well.
        try:
            return [self._connection.execute(sql, given).fetchall() for sql, given in statements]
        except sqlite3.Error as error:
            raise trouble(error, self._where) from error

    def tell(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each of `rows`."""
        for given in rows:
            self._run(sql, given)

    def insert(self, table: str, columns: Mapping[str, str], rows: Sequence[Row]) -> int:
        """Insert the rows whose key is free, and return how many.

        In one step: at every step the driver lets other threads run, and one that is busy gives
        the interpreter back after milliseconds only.
        """
        try:
            return self._connection.execute(
                _insert(table, tuple(columns)), (json.dumps(rows),)
            ).rowcount
        except sqlite3.Error as error:
            raise trouble(error, self._where) from error

    def commit(self) -> None:
        """Keep what was done; it is, if the files are in place after it as well."""
        self._files.check()  # a commit may copy the log into what was put in the file's place
        self._run("COMMIT", ())
        self._files.check()

    def undo(self) -> bool:
        """Undo what was not kept; return whether the connection is still good."""
        try:
            self._connection.rollback()
        except sqlite3.Error:
            return False
        return True

    def _run(self, sql: str, given: Sequence[Any]) -> None:
        try:
            self._connection.execute(sql, given)
        except sqlite3.Error as error:
            raise trouble(error, self._where) from error


class PostgresSession:
    """A connection to PostgreSQL; see `Session`.

    What is told waits, and goes out with the next question or with the commit: a transaction costs
    as many round trips as it has questions, and one.
    """

    # As strong as FOR UPDATE among writers; snapshots, which refer to the row, need not wait.
    lock = " FOR NO KEY UPDATE"
    entry = 'seq, kind, at, "by", body, root, prev, hash'
    head = "size, hash"

    def __init__(self, connection: psycopg.Connection[Any], where: str) -> None:
        self._connection, self._where = connection, where
        self._waiting: list[tuple[str, Sequence[Sequence[Any]]]] = []
        # A lone question needs no transaction, and BEGIN and COMMIT are sent with what is near:
        # the driver's own would each take a round trip.
        connection.autocommit = True

    def among(self, kind: str) -> str:
        """Return what follows a column that must be in a list."""
        return f"= ANY(?::{kind}[])"

    def listed(self, values: Sequence[Any]) -> Any:
        """Return a list as one parameter."""
        return list(values)

    def begin(self) -> None:
        """Begin a transaction that writes, with the first question."""
        self.tell("BEGIN", [()])

    def ask(self, *statements: Statement) -> list[list[Row]]:
        """Return the rows of each statement."""
        try:
            return [cursor.fetchall() for cursor in self._send(statements)]
        except psycopg.Error as error:
            raise trouble(error, self._where) from error

    def tell(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each of `rows`, with the next question or commit."""
        self._waiting.append((sql, rows))

    def insert(self, table: str, columns: Mapping[str, str], rows: Sequence[Row]) -> int:
        """Insert the rows whose key is free, and return how many."""
        arrays = ", ".join(f"?::{kind}[]" for kind in columns.values())
        names = ", ".join(f'"{name}"' for name in columns)
        sql = f"INSERT INTO {table} ({names}) SELECT * FROM unnest({arrays}) ON CONFLICT DO NOTHING"
        [cursor] = self._send([(sql, [list(column) for column in zip(*rows, strict=True)])])
        return cursor.rowcount

    def commit(self) -> None:
        """Keep what was done."""
        try:
            [cursor] = self._send([("COMMIT", ())])
        except StoreUnavailable as error:
            raise StoreUnavailable(
                f"{error}; whether the last request was written is not known: ask again with the "
                "same id"
            ) from error
        # After an error that somebody has passed over, the server answers so, and keeps nothing.
        if cursor.statusmessage != "COMMIT":
            raise StoreError(f"{self._where}: nothing was written, after an earlier error")

    def undo(self) -> bool:
        """Undo what was not kept; return whether the connection is still good."""
        self._waiting.clear()
        try:
            self._connection.rollback()
            # As others who take it from the pool expect it.
            self._connection.autocommit = False
        except DRIVER_ERRORS:
            return False
        return not self._connection.closed

    def _send(self, statements: Sequence[Statement]) -> list[psycopg.Cursor[Any]]:
        """Send what waits and some questions in one go."""
        try:
            if not self._waiting and len(statements) == 1:
                return [self._execute(*statements[0])]
            with self._together(statements):
                self._send_waiting()
                return [self._execute(sql, given) for sql, given in statements]
        except psycopg.Error as error:
            raise trouble(error, self._where) from error

    def _together(self, statements: Sequence[Statement] = ()) -> AbstractContextManager[Any]:
        """Return what sends statements in one go, or one by one where they are large.

        A pipeline whose statements do not fit into the sockets' buffers can wait for ever: the
        server for its answers to be read, and the client for its statements to be.
        """
        size = sum(_size(given) for _, rows in self._waiting for given in rows)
        size += sum(_size(given) for _, given in statements)
        return self._connection.pipeline() if size < _SMALL else nullcontext()

    def _send_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for sql, rows in waiting:
            for given in rows:
                self._execute(sql, given)

    def _execute(self, sql: str, given: Sequence[Any]) -> psycopg.Cursor[Any]:
        # Binary results: bodies are large, and as text would be hexadecimal digits.
        return self._connection.cursor(binary=True).execute(_marked(sql), given)


def _size(given: Any) -> int:
    """Return about how many bytes a parameter, or a list of them, has."""
    if isinstance(given, bytes | str):
        return len(given)
    return sum(map(_size, given)) if isinstance(given, list | tuple) else 8


@cache
def _marked(sql: str) -> bytes:
    """Return a statement with the marks that psycopg wants."""
    return sql.replace("?", "%s").encode()


@cache
def _insert(table: str, columns: tuple[str, ...]) -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    values = ", ".join(f"json_extract(value, '$[{i}]')" for i in range(len(columns)))
    # Without WHERE, SQLite would take ON for a part of a join.
    return (
        f"INSERT INTO {table} ({names}) SELECT {values} FROM json_each(?) WHERE true "
        "ON CONFLICT DO NOTHING"
    )
