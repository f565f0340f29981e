"""Connections to the two databases, set up so that what is committed stays."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError

from gdcb.errors import InvalidInput, StoreUnavailable

log = logging.getLogger("gdcb.ledger")

# An execution option: a transaction with it means to write.
WRITING = "gdcb_writing"

_EXPECTED = "expected 'memory:', a path, 'sqlite:///PATH' or 'postgresql://…'"


def parse(url: str | Path) -> URL:
    """Return what to connect to; refuse whatever this version cannot.

    Examples
    --------
    >>> parse("sqlite:///ledger.db").database
    'ledger.db'
    >>> parse("mysql://host/ledger")
    Traceback (most recent call last):
    gdcb.errors.InvalidInput: store: expected 'memory:', a path, 'sqlite:///PATH' or
    'postgresql://…', got 'mysql://host/ledger'
    """
    if isinstance(url, Path) or "://" not in url:
        given = URL.create("sqlite", database=str(url))
    else:
        try:
            given = make_url(url)
        except (ArgumentError, ValueError) as error:
            # The URL itself may hold a password.
            raise InvalidInput(f"store: {_EXPECTED}, got a URL that is not one") from error
    if given.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return given.set(drivername="postgresql+psycopg")
    if given.drivername != "sqlite":
        raise InvalidInput(f"store: {_EXPECTED}, got {given.render_as_string()!r}")
    if not given.database or given.database == ":memory:" or given.host:
        raise InvalidInput(f"store: {_EXPECTED}, got {url!r}; a file has three slashes, or four")
    if unknown := set(given.query) - {"mode"}:
        raise InvalidInput(f"store: expected no option but 'mode=ro', got {sorted(unknown)}")
    if given.query.get("mode", "rwc") not in ("ro", "rwc"):
        raise InvalidInput(f"store: expected 'mode=ro', got 'mode={given.query['mode']}'")
    return given


def to_read(url: URL) -> str:
    """Return the address at which what `parse` returned is opened to read; signs in it are quoted.

    Examples
    --------
    >>> to_read(parse("what?.db"))
    'sqlite:///what%3F.db?mode=ro'
    """
    if url.drivername == "sqlite":
        url = url.set(query={"mode": "ro"})
    return url.render_as_string(hide_password=False)


def shown(url: URL) -> str:
    """Return a database's name for sentences, without its password."""
    if url.drivername == "sqlite":
        return f"store '{url.database}'"
    return f"store '{url.set(drivername='postgresql').render_as_string(hide_password=True)}'"


@dataclass(slots=True)
class OpenFiles:
    """The files that a connection to SQLite has open, to compare with those at their paths.

    SQLite goes on writing to files that were moved, deleted or replaced: it would all be
    acknowledged and lost. While a connection is open, nothing that SQLite does gives its file or
    its log another identity: no checkpoint, no VACUUM, and no other process that closes.

    Parameters
    ----------
    file : path at which the database was opened; it may be a link, or lead through one
    paths : of the database and, where it is written to, of its log and of the log's index, with
        links followed as they were when it was opened: SQLite lays the log beside the real file
    opened : device and number of each, as the connection found them
    is_replaced : whether one was found to be another, or gone
    """

    file: Path
    paths: tuple[Path, ...]
    opened: tuple[tuple[int, int] | None, ...]
    is_replaced: bool = False

    def replaced(self) -> Path | None:
        """Return the first path where the open file no longer is; None: all are in place."""
        if _followed(self.file) != self.paths[0]:
            self.is_replaced = True
            return self.file
        for path, opened in zip(self.paths, self.opened, strict=True):
            if opened != _identity(path):
                self.is_replaced = True
                return path
        return None

    def check(self) -> None:
        """Refuse to go on with files that are not in place."""
        path = self.replaced()
        if path is not None:
            raise StoreUnavailable(
                f"store '{self.file}': '{path.name}' was removed or replaced while it was "
                "open; what was being written is lost, ask again with the same id"
            )


def files_of(info: dict[str, Any]) -> OpenFiles:
    """Return the files of a connection to SQLite, from what the pool keeps about it."""
    files: OpenFiles = info["files"]
    return files


def connect(url: URL, patience: float) -> Engine:
    """Return an engine for what `parse` returned."""
    if url.drivername == "sqlite":
        return _sqlite(url, patience)
    return _postgresql(url, patience)


def _sqlite(url: URL, patience: float) -> Engine:
    mode = str(url.query.get("mode", "rwc"))
    file = Path(url.database or "").absolute()
    engine = create_engine(
        URL.create("sqlite", database=_address(file), query={"mode": mode, "uri": "true"}),
        connect_args={"timeout": patience, "check_same_thread": False},
        pool_size=8,
        max_overflow=24,
        pool_timeout=patience,
        pool_pre_ping=True,
    )

    @event.listens_for(engine, "connect")
    def set_up(connection: sqlite3.Connection, _record: Any) -> None:
        # Transactions are ours to begin: the module would begin them late, and deferred.
        connection.isolation_level = None
        if mode != "ro":
            _keep_log(connection, patience)
        connection.execute("PRAGMA synchronous = FULL")
        # Keys of subjects must not be found in the file once they are deleted.
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        is_writing = connection.get_execution_options().get(WRITING, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")

    _stay_with(engine, file, mode)
    return engine


def _stay_with(engine: Engine, file: Path, mode: str) -> None:
    """Let go of connections whose files are no longer at their paths; see `OpenFiles`.

    Nor must an empty ledger take the place of one that is gone: only the first connection may
    create it. The connections of one process share what they know of the log, so a new one is
    opened only once all that have the old files open are closed.
    """
    ends = ("",) if mode == "ro" else ("", "-wal", "-shm")
    known: dict[int, OpenFiles] = {}
    lock = Lock()
    latest: tuple[tuple[int, int] | None, ...] = ()  # the files that were opened last

    def are_replaced() -> bool:
        with lock:
            # All are asked: each is marked, so that it is closed when it is given back.
            return bool([files for files in known.values() if files.replaced() is not None])

    @event.listens_for(engine, "do_connect")
    def find(_dialect: Any, record: Any, given: list[Any], _named: Any) -> None:
        if are_replaced():
            engine.pool.dispose()
            if are_replaced():
                raise StoreUnavailable(
                    f"store '{file}': it was removed or replaced, and others in this process still "
                    "read what it was; ask again"
                )
        real = _followed(file)
        paths = tuple(real.with_name(f"{real.name}{end}") for end in ends)
        before = _found(paths)
        record.info["before"] = paths, before
        is_another = bool(latest) and before[0] not in (None, latest[0])
        if mode != "ro" and is_another and before[1] is not None and before[1] == latest[1]:
            raise StoreUnavailable(
                f"store '{file}': it was replaced, and '{paths[1].name}' beside it is the log of "
                f"what was there before, which SQLite would mix into it; remove "
                f"'{paths[1].name}' and '{paths[2].name}'"
            )
        asked = "rw" if latest and mode == "rwc" else mode
        still = "&immutable=1" if mode == "ro" and _is_still(real) else ""
        given[0] = f"{_address(real)}?mode={asked}{still}"

    @event.listens_for(engine, "connect")
    def remember(connection: sqlite3.Connection, record: Any) -> None:
        nonlocal latest
        if mode != "ro":
            # A log that is not there yet is made with the first look into the database.
            connection.execute("PRAGMA schema_version").fetchall()
        paths, before = record.info.pop("before")
        files = OpenFiles(file, paths, _found(paths))
        if before[0] not in (None, files.opened[0]):
            _close_apart(connection, OpenFiles(file, paths, before))
            raise StoreUnavailable(
                f"store '{file}': it was replaced while it was opened; ask again"
            )
        latest = files.opened
        with lock:
            record.info["files"] = known[id(connection)] = files

    @event.listens_for(engine, "checkout")
    def check(_connection: Any, record: Any, _proxy: Any) -> None:
        path = files_of(record.info).replaced()
        if path is not None:
            log.error(
                "store '%s': '%s' was removed or replaced while it was open; the connections are "
                "closed, and what is there now is opened",
                file,
                path.name,
            )
            raise DisconnectionError(f"{path.name} is not the file that was opened")

    @event.listens_for(engine, "commit")
    def check_again(connection: Connection) -> None:
        files_of(connection.info).check()

    @event.listens_for(engine, "checkin")
    def give_back(connection: sqlite3.Connection | None, record: Any) -> None:
        if connection is not None and files_of(record.info).is_replaced:
            record.invalidate()

    @event.listens_for(engine, "close")
    def close(connection: sqlite3.Connection, record: Any) -> None:
        files = record.info.get("files")
        if files is not None and files.replaced() is not None:
            _close_apart(connection, files)  # here: it counts as open until it is closed
        with lock:
            known.pop(id(connection), None)


def _close_apart(connection: sqlite3.Connection, files: OpenFiles) -> None:
    """Close a connection, and leave alone what was put in the place of its files.

    The last connection copies its log into the database and removes the log, both by name. An
    interrupted one copies nothing. Where there was nothing left to copy, it removes even so: what
    stands at those names then is linked to a second one meanwhile, and put back.
    """
    kept: list[tuple[Path, Path]] = []
    for path, opened in zip(files.paths[1:], files.opened[1:], strict=True):
        if _identity(path) not in (None, opened):
            beside = path.with_name(f"{path.name}-{os.getpid()}-{id(connection)}")
            beside.unlink(missing_ok=True)
            os.link(path, beside)
            kept.append((path, beside))
    connection.interrupt()
    connection.close()
    for path, beside in kept:
        if path.exists():
            beside.unlink()
        else:
            beside.rename(path)


def _found(paths: Sequence[Path]) -> tuple[tuple[int, int] | None, ...]:
    return tuple(_identity(path) for path in paths)


def _followed(file: Path) -> Path:
    return Path(os.path.realpath(file))


def _address(file: Path) -> str:
    return f"file:{quote(str(file))}"


def _is_still(file: Path) -> bool:
    """Return whether nobody writes to a file: it has no log, and none may be laid beside it.

    SQLite would lay one there even to read, and must be told that it need not.
    """
    if os.access(file.parent, os.W_OK):
        return False
    log, shared = (file.with_name(f"{file.name}-{end}") for end in ("wal", "shm"))
    try:
        # An empty log without its other file was left by a reader.
        return not log.exists() or (not shared.exists() and not log.stat().st_size)
    except OSError:  # SQLite says what is wrong with it
        return False


def _identity(path: Path) -> tuple[int, int] | None:
    """Return which file there is at a path; None: none that can be seen."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _keep_log(connection: sqlite3.Connection, patience: float) -> None:
    """Let readers read while one writes; SQLite does not wait by itself for this change."""
    deadline = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _postgresql(url: URL, patience: float) -> Engine:
    settings = {
        "application_name": "gdcb",
        "client_encoding": "utf8",
        "connect_timeout": max(ceil(patience), 2),
        # A server that vanished is noticed within half a minute.
        "keepalives_idle": 15,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    }
    engine = create_engine(
        url,
        connect_args={name: value for name, value in settings.items() if name not in url.query},
        pool_size=8,
        max_overflow=24,
        pool_timeout=patience,
        pool_pre_ping=True,
    )

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        # A commit that a crash can undo is none; what is stricter than 'on' stays.
        connection.execute(
            "SELECT set_config('lock_timeout', %s, false), CASE "
            "WHEN current_setting('synchronous_commit') IN ('off', 'local') "
            "THEN set_config('synchronous_commit', 'on', false) END",
            (str(ceil(patience * 1000)),),
        )
        connection.commit()

    return engine
