"""What goes wrong with a database: said in words, with nothing left behind, and over when it is."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import event

from gdcb.errors import (
    GdcbError,
    InvalidInput,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from gdcb.ledger import Place, check_store, open_store
from gdcb.ledger.sql import SqlStore
from tests.ledger.children import in_child
from tests.ledger.drafts import draft, fill, made
from tests.postgres import Cluster, new_cluster

# Later versions of Python warn of forks where there are threads; the child here starts none.
forks = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://host/ledger", "expected 'memory:', a path, 'sqlite:///PATH' or 'postgresql://…'"),
        ("postgresql+asyncpg://host/ledger", "got 'postgresql\\+asyncpg://host/ledger'"),
        ("http://user:secret@host/x", r"got 'http://user:\*\*\*@host/x'"),
        ("sqlite://", "a file has three slashes"),
        ("sqlite:///:memory:", "expected 'memory:'"),
        ("sqlite://ledger.db", "a file has three slashes"),
        ("sqlite:///a.db?cache=shared", r"expected no option but 'mode=ro', got \['cache'\]"),
        ("sqlite:///a.db?mode=rw", "expected 'mode=ro', got 'mode=rw'"),
        ("postgresql://host:port/x", "got a URL that is not one"),
    ],
)
def test_other_databases_are_refused(url: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        open_store(url)


def test_paths_and_urls_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a folder with % and ?" / "ledger.db"
    path.parent.mkdir()
    stores = [open_store(path), open_store(str(path))]
    fill(stores[0], 1)
    assert stores[1].head("prices").size == 1
    for store in stores:
        store.close()
    assert path.exists()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="check that its folder exists"):
        open_store(tmp_path / "nowhere" / "ledger.db")


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_text("not a database, but long enough to be looked at as one" * 50)
    with pytest.raises(StoreUnavailable, match="it is not a SQLite database"):
        open_store(path)


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    store = open_store(path)
    fill(store, 200)
    store.close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(StoreUnavailable, match="it is damaged"):
        list(open_store(path).read("prices"))


def test_a_page_that_cannot_be_read_is_a_store_that_cannot_be_asked(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    store = open_store(path)
    fill(store, 200)
    store.close()
    with sqlite3.connect(path) as connection:
        (page,) = connection.execute(
            "SELECT max(pageno) FROM dbstat WHERE name = 'entries' AND pagetype = 'leaf'"
        ).fetchone()
    connection.close()
    data = bytearray(path.read_bytes())
    data[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    path.write_bytes(data)
    store = open_store(path)
    # The rows before it are good, so that the statement itself is not what fails.
    read = store.read("prices")
    with pytest.raises(StoreUnavailable, match="it is damaged"):
        list(read)
    with pytest.raises(StoreUnavailable, match="it is damaged"), store.writing("prices") as writing:
        writing.read(0)
    report = check_store(store, "prices")
    assert {finding.what for finding in report.findings} == {"damaged"}
    assert report.findings[-1].seq == 199
    assert report.size == 200
    store.close()


def test_a_full_disk(tmp_path: Path) -> None:
    store = open_store(tmp_path / "ledger.db")
    assert isinstance(store, SqlStore)
    entries = fill(store, 3)
    most = [60]

    @event.listens_for(store.engine, "checkout")
    def limit(connection: sqlite3.Connection, *_: Any) -> None:
        connection.execute(f"PRAGMA max_page_count = {most[0]}")

    def write() -> None:
        with store.writing("prices") as writing:
            writing.append([draft(3)])
            writing.add_places([Place("r", 3, 0, 1)])
            writing.append([draft(4, bytes(10**6))])

    with pytest.raises(StoreFull, match="it is full; make room, then ask again"):
        write()
    assert list(store.read("prices")) == entries
    assert store.places("prices", ["r"]) == {}
    most[0] = 10_000
    write()
    assert store.head("prices").size == 5
    assert check_store(store, "prices").ok
    store.close()


def test_a_store_opened_to_read(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with pytest.raises(StoreUnavailable, match="it cannot be opened"):
        open_store(f"sqlite:///{path}?mode=ro")
    store = open_store(path)
    entries = fill(store, 3)
    store.close()
    reader = open_store(f"sqlite:///{path}?mode=ro")
    assert list(reader.read("prices")) == entries
    with pytest.raises(StoreReadOnly, match="it may be read but not written"):
        fill(reader, 1)
    assert list(reader.read("prices")) == entries
    reader.close()


def test_an_old_store_opened_to_read(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    sqlite3.connect(path).close()
    path.touch()
    with pytest.raises(StoreReadOnly, match="it may be read but not written"):
        open_store(f"sqlite:///{path}?mode=ro")


@forks
def test_a_file_that_may_not_be_written() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "ledger.db"
        store = open_store(path)
        fill(store, 3)
        store.close()
        path.chmod(0o444)
        folder.chmod(0o555)
        assert in_child(lambda: _write(path), is_nobody=True) == "StoreReadOnly"
        folder.chmod(0o755)


def _write(path: Path) -> str:
    try:
        store = open_store(path)
        fill(store, 1)
    except GdcbError as error:
        return type(error).__name__
    return "written"


def test_another_program_holds_the_lock(database: str) -> None:
    store = open_store(database, patience=0.3)
    fill(store, 1)
    if database.startswith("sqlite"):
        other: Any = sqlite3.connect(database.removeprefix("sqlite:///"), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
    else:
        other = psycopg.connect(database)
        other.execute("SELECT * FROM chains FOR UPDATE")
    with pytest.raises(StoreUnavailable, match="another writer has not finished in time"):
        fill(store, 1)
    assert len(list(store.read("prices"))) == 1
    other.close()
    assert fill(store, 1) == made(2)[1:]
    store.close()


def test_what_cannot_be_overwritten_now_is_said(database: str) -> None:
    store = open_store(database, patience=0.3)
    fill(store, 1)
    if database.startswith("sqlite"):
        other: Any = sqlite3.connect(database.removeprefix("sqlite:///"), isolation_level=None)
        other.execute("BEGIN")
        other.execute("SELECT * FROM subject_keys").fetchall()
        fill(store, 1)
    else:
        other = psycopg.connect(database)
        other.execute("SELECT * FROM subject_keys")
    assert not store.scrub()
    other.close()
    assert store.scrub()
    store.close()


def test_a_writer_in_this_process_holds_the_lock(tmp_path: Path) -> None:
    for url in ("memory:", tmp_path / "ledger.db"):
        store = open_store(url, patience=0.1)
        with store.writing("prices") as writing:
            with pytest.raises(StoreUnavailable, match=r"has not finished within 0.1 s"):
                fill(store, 1)
            writing.append([draft()])
        assert store.head("prices").size == 1
        store.close()


@forks
def test_a_fork_has_connections_of_its_own(database: str) -> None:
    store = open_store(database, patience=0.5)
    fill(store, 1)

    def work() -> str:
        try:
            return f"wrote {fill(store, 1)[0].seq}"
        except GdcbError as error:
            return type(error).__name__

    with store.writing("prices") as writing:
        # The child has copies of the lock that is held here and of the connection.
        assert in_child(work) == "StoreUnavailable"
        writing.append([draft(1)])
    assert in_child(work) == "wrote 2"
    assert fill(store, 1) == made(4)[3:]
    assert check_store(store, "prices").ok
    store.close()


@pytest.fixture
def server() -> Iterator[Cluster]:
    """Lend a server that the test may stop."""
    cluster = new_cluster(fsync=False)
    yield cluster
    cluster.remove()


def test_a_server_that_stops_and_starts_again(server: Cluster) -> None:
    store = open_store(server.url(), patience=2.0)
    fill(store, 2)

    def stop_within() -> None:
        with store.writing("prices") as writing:
            writing.append([draft(2)])
            server.stop()

    with pytest.raises(StoreUnavailable, match="whether the last request was written is not known"):
        stop_within()
    for work in (lambda: store.head("prices"), lambda: fill(store, 1), store.chains):
        with pytest.raises(StoreUnavailable, match="it cannot be reached; check that it runs"):
            work()
    with pytest.raises(StoreUnavailable, match="it cannot be reached"):
        open_store(server.url())
    server.start()
    assert list(store.read("prices")) == made(2)
    assert fill(store, 1) == made(3)[2:]
    assert check_store(store, "prices").ok
    store.close()


def test_a_lost_connection_is_replaced(postgres_url: str) -> None:
    store = open_store(postgres_url)
    fill(store, 1)

    def lose() -> None:
        with store.writing("prices") as writing:
            writing.append([draft(1)])
            _disconnect(postgres_url)
            writing.read(0)

    with pytest.raises(StoreUnavailable, match="it cannot be reached"):
        lose()
    assert fill(store, 1) == made(2)[1:]
    _disconnect(postgres_url)
    assert fill(store, 1) == made(3)[2:]
    store.close()


def test_an_error_that_was_passed_over_keeps_nothing(postgres_ready: str) -> None:
    store = open_store(postgres_ready)
    assert isinstance(store, SqlStore)
    entries = fill(store, 1)

    def work() -> None:
        with store.writing("prices") as writing:
            writing.append([draft(1)])
            with pytest.raises(StoreError, match="division by zero"):
                writing._session.ask(("SELECT 1 / 0", ()))

    # The server itself would take the COMMIT, and keep nothing.
    with pytest.raises(StoreError, match="nothing was written, after an earlier error"):
        work()
    assert list(store.read("prices")) == entries
    store.close()


def _disconnect(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'gdcb' AND datname = current_database()"
        )


def test_a_server_that_refuses(postgres: Cluster) -> None:
    with pytest.raises(StoreUnavailable, match="check user, password and database"):
        open_store(postgres.url("nothing"))
    with pytest.raises(StoreUnavailable, match="it cannot be reached") as caught:
        open_store("postgresql://ann:secret@127.0.0.1:1/ledger", patience=2.0)
    assert "secret" not in str(caught.value)
    assert "ann:***@127.0.0.1:1" in str(caught.value)


def test_a_database_that_may_only_be_read(postgres_url: str) -> None:
    store = open_store(postgres_url)
    entries = fill(store, 2)
    store.close()
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        name = owner.info.dbname
        owner.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())
    reader = open_store(postgres_url)
    assert list(reader.read("prices")) == entries
    with pytest.raises(StoreReadOnly, match="it may be read but not written"):
        fill(reader, 1)
    reader.close()


def test_all_of_them_are_one_family() -> None:
    for kind in (StoreUnavailable, StoreFull, StoreReadOnly):
        assert issubclass(kind, StoreError)
        assert issubclass(kind, GdcbError)
