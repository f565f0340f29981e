"""Say in words what a database's error means, and what to do about it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from gdcb.errors import BrokenChain, GdcbError, StoreError, StoreFull, StoreReadOnly
from gdcb.errors import StoreUnavailable as Unavailable

DRIVER_ERRORS = (sqlite3.Error, psycopg.Error)

_Meaning = tuple[type[StoreError], str]
_FULL = (StoreFull, "it is full; make room, then ask again")
_READ_ONLY = (StoreReadOnly, "it may be read but not written; check its permissions")
_BUSY = (Unavailable, "another writer has not finished in time; ask again")
_LOST = (Unavailable, "it cannot be reached; check that it runs, then ask again")
_BROKEN = (Unavailable, "it is damaged; take a backup of it and restore from an earlier one")
_REFUSED = (Unavailable, "it lets nobody in by this name; check user, password and database")

# Primary result codes of SQLite.
_SQLITE: dict[int, _Meaning] = {
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_IOERR: (Unavailable, "its disk fails; check the disk, then ask again"),
    sqlite3.SQLITE_CORRUPT: _BROKEN,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_CANTOPEN: (
        Unavailable,
        "it cannot be opened; check that its folder exists and may be read and written",
    ),
    sqlite3.SQLITE_PROTOCOL: _BUSY,
    sqlite3.SQLITE_NOTADB: (Unavailable, "it is not a SQLite database; check the path"),
}
# States of PostgreSQL, by their beginnings; the longest that fits counts.
_POSTGRESQL: dict[str, _Meaning] = {
    "08": _LOST,
    "25006": _READ_ONLY,
    "25P02": (StoreError, "nothing was written, after an earlier error"),
    "28": _REFUSED,
    "3D000": _REFUSED,
    "40": _BUSY,
    "42501": _READ_ONLY,
    "53": (Unavailable, "it has no memory or no connection left; ask again later"),
    "53100": _FULL,
    "55P03": _BUSY,
    "57": _LOST,
    "58": (Unavailable, "its disk fails; check the disk, then ask again"),
    "XX": _BROKEN,
}
# A server that is on its way up or down, or crowded.
_PASSING = ("starting up", "shutting down", "recovery", "too many", "remaining connection")


def trouble(error: Exception, where: str) -> GdcbError:
    """Return the error to raise for a driver's error at `where`."""
    if isinstance(error, (sqlite3.IntegrityError, psycopg.IntegrityError)):
        return BrokenChain(
            f"{where}: an entry stands where the next one should go: the chain does not end where "
            f"its head says; check it ({_said(error)})"
        )
    kind, advice = _meaning(error)
    return kind(f"{where}: {advice} ({_said(error)})")


@contextmanager
def told(where: str) -> Iterator[None]:
    """Turn what SQLAlchemy raises into our own errors; what breaks a constraint stays as it is."""
    try:
        yield
    except IntegrityError:
        raise
    except DBAPIError as error:
        cause = error.orig if isinstance(error.orig, Exception) else error
        raise trouble(cause, where) from error
    except PoolTimeout as error:
        raise Unavailable(
            f"{where}: all connections are in use; ask again ({_said(error)})"
        ) from error
    except DRIVER_ERRORS as error:
        raise trouble(error, where) from error


def is_damage(error: StoreError) -> bool:
    """Return whether an error says that what is in the database is damaged, as far as it says."""
    cause = error.__cause__
    if isinstance(cause, DBAPIError):
        cause = cause.orig
    return isinstance(cause, Exception) and _meaning(cause) is _BROKEN


def _meaning(error: Exception) -> _Meaning:
    if isinstance(error, sqlite3.Error):
        # Errors of the module itself, such as use after close, have no code.
        if str(error).startswith("Could not decode to UTF-8"):
            return _BROKEN
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        return _SQLITE.get(code, (StoreError, "it refused"))
    if isinstance(error, psycopg.Error):
        state = error.sqlstate or ""
        for n in (5, 2):
            if state[:n] in _POSTGRESQL:
                return _POSTGRESQL[state[:n]]
        if not state and isinstance(error, psycopg.OperationalError):
            # While a connection is made there is no state; a server that says why is there.
            is_refused = "FATAL:" in str(error) and not any(w in str(error) for w in _PASSING)
            return _REFUSED if is_refused else _LOST
    return StoreError, "it refused"


def _said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
