"""A database in trouble: everybody is told what is wrong, nothing is lost, and it passes."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event

from gdcb.errors import StoreUnavailable
from gdcb.ledger import engines
from gdcb.ledger.live import Live
from gdcb.ledger.session import SqliteSession
from gdcb.ledger.sql import SqlStore
from gdcb.service import operating
from gdcb.service.app import build
from gdcb.service.desk import Desk
from gdcb.service.house import House, Settings
from gdcb.service.schedule import Ticker
from tests.ledger.drafts import draft
from tests.postgres import Cluster, new_cluster
from tests.service.desks import held, night
from tests.service.race_clients import FREE, check_ledger, staff_of

CHAIN = "rooms"


@dataclass
class Site:
    """A service in this process, with a program that decides and a person who answers."""

    store: SqlStore
    client: TestClient
    shop: dict[str, str]
    ann: dict[str, str]
    n: int = 0

    def decide(self, busy: float = 0.0) -> Any:
        """Ask for a decision under the next id."""
        self.n += 1
        return self.again(busy)

    def again(self, busy: float = 0.0) -> Any:
        """Ask for the last decision once more."""
        body = {"id": f"d{self.n}", "context": night(busy)}
        return self.client.post(f"/v1/instances/{CHAIN}/decisions", json=body, headers=self.shop)

    def read(self, id: str) -> Any:
        """Read a decision."""
        return self.client.get(f"/v1/instances/{CHAIN}/decisions/{id}", headers=self.shop)

    def review(self, id: str) -> Any:
        """Approve a held decision, as it was seen before."""
        seen = self.seen[id]
        body = {"verdict": "approve", "code": "fits"} | seen
        return self.client.post(
            f"/v1/instances/{CHAIN}/decisions/{id}/review", json=body, headers=self.ann
        )

    def look(self, id: str) -> None:
        """Open a held decision."""
        said = self.client.get(f"/v1/instances/{CHAIN}/decisions/{id}", headers=self.ann).json()
        self.seen[id] = {"version": said["version"], "content": said["content"]}

    def ready(self) -> Any:
        """Ask whether the service can work."""
        return self.client.get("/readyz")

    def __post_init__(self) -> None:
        self.seen: dict[str, dict[str, Any]] = {}


@contextmanager
def site(url: str | Path, service: str = "", tick: float = 0.0) -> Iterator[Site]:
    """Serve a database for a while."""
    store = SqlStore(url, patience=3.0)
    operating.create(store, held(service), "ann", "trouble", seed=5)
    house = House(store, Settings(tick=tick, rates=FREE))
    with staff_of(store, [], CHAIN) as staff:
        shop, ann = staff.program("shop", "decide"), staff.person("ann", "approve")
    with TestClient(build(house), raise_server_exceptions=False) as client:
        yield Site(store, client, shop.headers, ann.headers)
    store.close()


def check_refused(there: Site, said: Any, status: int, code: str, words: str) -> None:
    """Check a refusal, and that the service says that it is not ready, and why."""
    assert said.status_code == status, said.text
    error = said.json()["error"]
    assert error["code"] == code
    assert words in error["message"]
    if status == 503:
        assert int(said.headers["retry-after"]) > 0
    ready = there.ready()
    assert ready.status_code == 503
    assert ready.json()["status"] == "not ready"
    # Anybody may ask, and is told no name of a file.
    why = "the ledger does not answer; the log says why" if "'" in words else words
    assert why in ready.json()["why"]


def check_over(there: Site, n: int) -> None:
    """Check that it works again, that the request which was refused can be repeated, and all."""
    assert there.again().status_code == 201
    assert there.decide().status_code == 201
    assert there.ready().status_code == 200
    live = check_ledger(there.store, CHAIN)
    made = {id for id in (f"d{i}" for i in range(1, there.n + 1)) if id in live.records}
    assert len(made) == n + 2


@pytest.fixture
def sqlite_file(sqlite_template: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "disk"
    folder.mkdir()
    return Path(shutil.copy(sqlite_template, folder / "ledger.db"))


@contextmanager
def pragma(store: SqlStore, during: str, after: str) -> Iterator[None]:
    """Say something to every connection of a SQLite store before it is used, for a while."""
    said = [during]

    def say(connection: sqlite3.Connection, *_: Any) -> None:
        connection.execute(f"PRAGMA {said[0]}")

    event.listen(store.engine, "checkout", say)
    yield
    said[0] = after


def test_a_disk_that_is_full(sqlite_file: Path) -> None:
    with site(sqlite_file) as there:
        assert there.decide().status_code == 201
        assert there.decide(0.9).json()["status"] == "held"
        there.look("d2")
        with pragma(there.store, "max_page_count = 1", "max_page_count = 100000"):
            n = 2
            while (said := there.decide()).status_code == 201:  # what is left of the last page
                n += 1
            check_refused(there, said, 507, "store_full", "it is full; make room")
            check_refused(there, there.again(), 507, "store_full", "it is full; make room")
            assert there.read("d1").status_code == 200
            assert there.read("d2").json()["status"] == "held"
        check_over(there, n)
        assert there.review("d2").status_code == 200


def test_a_disk_that_may_only_be_read(sqlite_file: Path) -> None:
    with site(sqlite_file) as there:
        assert there.decide(0.9).status_code == 201
        there.look("d1")
        with pragma(there.store, "query_only = ON", "query_only = OFF"):
            said = there.review("d1")
            words = "it may be read but not written"
            check_refused(there, said, 503, "store_read_only", words)
            check_refused(there, there.decide(), 503, "store_read_only", words)
            assert there.read("d1").json()["status"] == "held"
        check_over(there, 1)
        assert there.review("d1").status_code == 200


def test_a_folder_that_is_gone(sqlite_file: Path) -> None:
    folder = sqlite_file.parent
    with site(sqlite_file) as there:
        assert there.decide().status_code == 201
        folder.rename(folder.with_name("elsewhere"))
        words = "it cannot be opened; check that its folder exists"
        check_refused(there, there.decide(), 503, "store_unavailable", words)
        folder.with_name("elsewhere").rename(folder)
        check_over(there, 1)


def test_a_file_that_is_gone(sqlite_file: Path) -> None:
    with site(sqlite_file) as there:
        assert there.decide().status_code == 201
        kept = sqlite_file.with_name("kept.db")
        sqlite_file.rename(kept)
        words = "it cannot be opened"
        check_refused(there, there.decide(), 503, "store_unavailable", words)
        assert not sqlite_file.exists(), "an empty ledger took the place of the one that is gone"
        kept.rename(sqlite_file)
        check_over(there, 1)


def test_an_earlier_state_that_is_put_back(sqlite_file: Path) -> None:
    with site(sqlite_file) as there:
        assert there.decide().status_code == 201
        earlier = sqlite_file.with_name("earlier.db")
        with sqlite3.connect(sqlite_file) as now, sqlite3.connect(earlier) as then:
            now.backup(then)
        now.close()
        then.close()
        assert there.decide().status_code == 201
        for end in ("-wal", "-shm"):
            sqlite_file.with_name(sqlite_file.name + end).unlink(missing_ok=True)
        earlier.rename(sqlite_file)
        said = there.decide()
        assert said.status_code == 503
        assert "somebody put an earlier state back" in said.json()["error"]["message"]
        assert there.read("d2").status_code == 503  # it was decided, and is among what is gone
        check_refused(there, there.decide(), 503, "ledger_put_back", "an earlier state back")
        there.n -= 2
        desk = Desk(there.store, CHAIN)  # as another process, or the command line
        assert operating.acknowledge(desk, "a disk was replaced", "cy").result()
        desk.close()
        check_over(there, 1)  # d1 of the earlier state, d2 once more, and d3


def backed_up(file: Path) -> Path:
    """Return a copy of the database as SQLite's own backup makes it."""
    kept = file.with_name("old.db")
    with closing(sqlite3.connect(file)) as now, closing(sqlite3.connect(kept)) as then:
        now.backup(then)
    return kept


def put_in_place(kept: Path, file: Path) -> None:
    """Copy a backup over the file, which stays the same file, and remove its log."""
    number = file.stat().st_ino
    for end in ("-wal", "-shm"):
        file.with_name(file.name + end).unlink()
    shutil.copy(kept, file)
    assert file.stat().st_ino == number


@pytest.mark.parametrize("first", ["ready", "decide", "tick"])
def test_a_backup_that_is_copied_over_the_open_file(
    sqlite_file: Path, first: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Everything after it was acknowledged, into a log that no longer had a name, and lost."""
    with site(sqlite_file, tick=0.1 if first == "tick" else 0.0) as there:
        assert [there.decide().status_code for _ in range(5)] == [201] * 5
        kept = backed_up(sqlite_file)
        assert [there.decide().status_code for _ in range(30)] == [201] * 30
        put_in_place(kept, sqlite_file)
        if first == "tick":
            until = time.monotonic() + 10
            while "put an earlier state back" not in caplog.text:
                assert time.monotonic() < until, "no tick notices it"
                time.sleep(0.05)
        if first == "decide":
            check_refused(there, there.decide(), 503, "ledger_put_back", "an earlier state back")
        assert there.ready().status_code == 503
        assert {there.decide().status_code for _ in range(30)} == {503}
        assert there.read("d35").json()["error"]["code"] == "ledger_put_back"
        assert "ledger.db-wal' was removed or replaced while it was open" in caplog.text
    with closing(sqlite3.connect(sqlite_file)) as found:
        assert found.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    # Also who starts later finds it on record, until somebody acknowledges it.
    store = SqlStore(sqlite_file)
    assert [entry.kind for entry in store.read(CHAIN)][-1] == "LedgerSetBack"
    assert check_ledger(store, CHAIN).set_back is not None
    desk = Desk(store, CHAIN)
    assert operating.acknowledge(desk, "an old backup was put back", "cy").result()
    desk.close()
    store.close()


@pytest.mark.parametrize("is_folder", [False, True], ids=["the file", "its folder"])
def test_a_backup_that_is_copied_over_the_open_file_of_a_link(
    sqlite_file: Path, tmp_path: Path, is_folder: bool
) -> None:
    """The log was looked for beside the link, and what was acknowledged was lost."""
    link = tmp_path / "link"
    link.symlink_to(sqlite_file.parent if is_folder else sqlite_file)
    with site(link / sqlite_file.name if is_folder else link) as there:
        assert [there.decide().status_code for _ in range(3)] == [201] * 3
        kept = backed_up(sqlite_file)
        assert [there.decide().status_code for _ in range(3)] == [201] * 3
        put_in_place(kept, sqlite_file)
        check_refused(there, there.decide(), 503, "ledger_put_back", "an earlier state back")
        assert {there.decide().status_code for _ in range(3)} == {503}
    with closing(sqlite3.connect(sqlite_file)) as found:
        assert found.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_link_that_is_led_elsewhere(
    sqlite_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also to the same file under another name, beside which there is no log."""
    link, same = tmp_path / "link.db", sqlite_file.with_name("same.db")
    link.symlink_to(sqlite_file)

    def lead(target: Path) -> None:
        beside = tmp_path / "beside"
        beside.symlink_to(target)
        beside.rename(link)

    with site(link) as there:
        assert [there.decide().status_code for _ in range(3)] == [201] * 3
        kept = backed_up(sqlite_file)
        assert [there.decide().status_code for _ in range(3)] == [201] * 3
        os.link(sqlite_file, same)
        lead(same)
        assert {there.decide().status_code for _ in range(3)} == {503}
        assert "'link.db' was removed or replaced while it was open" in caplog.text
        lead(sqlite_file)
        assert there.decide().status_code == 201
        lead(kept)
        check_refused(there, there.decide(), 503, "ledger_put_back", "an earlier state back")
    store = SqlStore(sqlite_file)
    made = check_ledger(store, CHAIN).records
    assert [f"d{i}" in made for i in range(1, 12)] == [True] * 6 + [False] * 3 + [True, False]
    store.close()


def test_what_is_open_is_not_copied_into_what_was_put_back(sqlite_file: Path) -> None:
    """Closing the last connection wrote pages of the lost log into the backup."""
    store = SqlStore(sqlite_file)
    operating.create(store, held(), "ann", "trouble", seed=5)
    kept = backed_up(sqlite_file)
    operating.create(store, held(), "ann", "trouble", seed=5, name="other")
    put_in_place(kept, sqlite_file)
    store.close()
    assert sqlite_file.read_bytes() == kept.read_bytes()


def whole_copy(file: Path) -> list[Path]:
    """Return a copy of the database with its log, as `cp` makes it while nobody writes."""
    return [
        Path(shutil.copy(part, part.with_name(f"old-{part.name}")))
        for part in (file.with_name(f"{file.name}{end}") for end in ("", "-wal", "-shm"))
    ]


def put_whole_in_place(kept: list[Path]) -> None:
    """Put a copy with its log where the files are that SQLite has open: the first stays the same.

    Where it is another one, SQLite notices that itself.
    """
    for part in kept:
        name = part.with_name(part.name.removeprefix("old-"))
        if name.suffix == ".db":
            shutil.copy(part, name)
            part.unlink()
        else:
            part.rename(name)


def names_in(file: Path) -> list[str]:
    return sorted(part.name for part in file.parent.iterdir())


@pytest.mark.parametrize("is_copied", [False, True], ids=["log to copy", "nothing left to copy"])
def test_a_log_that_is_put_back_stays(sqlite_file: Path, is_copied: bool) -> None:
    """Closing removed it by its name, and with it all that was in it alone."""
    store = SqlStore(sqlite_file)
    operating.create(store, held(), "ann", "trouble", seed=5)
    kept = whole_copy(sqlite_file)
    names = names_in(sqlite_file)
    operating.create(store, held(), "ann", "trouble", seed=5, name="other")
    if is_copied:
        store.scrub()
    put_whole_in_place(kept)
    store.close()
    assert names_in(sqlite_file) == [name for name in names if not name.startswith("old-")]
    store = SqlStore(sqlite_file)
    assert store.chains() == [CHAIN]
    assert store.head(CHAIN).size == 1
    put = whole_copy(sqlite_file)
    if is_copied:
        store.scrub()
    put_whole_in_place(put)
    assert store.chains() == [CHAIN]  # by another connection than that which was open
    store.close()
    assert names_in(sqlite_file) == ["ledger.db"]


def test_a_database_that_is_put_beside_the_log_of_another(sqlite_file: Path) -> None:
    """SQLite read the two as one, and acknowledged what could never be read again."""
    with site(sqlite_file) as there:
        assert [there.decide().status_code for _ in range(5)] == [201] * 5
        kept = backed_up(sqlite_file)
        assert [there.decide().status_code for _ in range(5)] == [201] * 5
        there.store.scrub()  # which copies the log into the database, and begins it anew
        assert [there.decide().status_code for _ in range(5)] == [201] * 5
        kept.rename(sqlite_file)
        logs = [sqlite_file.with_name(f"{sqlite_file.name}{end}") for end in ("-wal", "-shm")]
        words = "'ledger.db-wal' beside it is the log of what was there before"
        check_refused(there, there.decide(), 503, "store_unavailable", words)
        assert {there.decide().status_code for _ in range(5)} == {503}
        for log in logs:
            log.unlink()
        check_refused(there, there.decide(), 503, "ledger_put_back", "an earlier state back")
        desk = Desk(there.store, CHAIN)
        assert operating.acknowledge(desk, "a disk was replaced", "cy").result()
        desk.close()
        assert there.decide().status_code == 201
        check_ledger(there.store, CHAIN)


def test_files_that_are_replaced_while_they_are_opened(
    sqlite_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written went into the files that were moved away, and was acknowledged."""
    store = SqlStore(sqlite_file)
    operating.create(store, held(), "ann", "trouble", seed=5)
    store.close()
    kept, store, real = backed_up(sqlite_file), SqlStore(sqlite_file), engines._keep_log
    store.engine.dispose()

    def keep(connection: sqlite3.Connection, patience: float) -> None:
        real(connection, patience)
        if kept.exists():
            kept.rename(sqlite_file)
            for end in ("-wal", "-shm"):
                sqlite_file.with_name(f"{sqlite_file.name}{end}").unlink(missing_ok=True)

    monkeypatch.setattr(engines, "_keep_log", keep)
    with pytest.raises(StoreUnavailable, match="it was replaced while it was opened; ask again"):
        operating.create(store, held(), "ann", "trouble", seed=5, name="other")
    operating.create(store, held(), "ann", "trouble", seed=5, name="other")
    store.close()
    store = SqlStore(sqlite_file)
    assert store.chains() == ["other", CHAIN]
    store.close()


def test_a_backup_that_is_put_back_during_a_transaction(sqlite_file: Path) -> None:
    store = SqlStore(sqlite_file)
    operating.create(store, held(), "ann", "trouble", seed=5)
    kept = backed_up(sqlite_file)
    size = store.head(CHAIN).size

    def write() -> None:
        with store.writing(CHAIN) as writing:
            writing.append([draft(size)])
            put_in_place(kept, sqlite_file)

    with pytest.raises(StoreUnavailable, match="removed or replaced while it was open"):
        write()
    assert sqlite_file.read_bytes() == kept.read_bytes()
    assert store.head(CHAIN).size == size
    store.close()


def test_a_log_that_is_removed_during_the_commit_is_not_acknowledged(
    sqlite_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqlStore(sqlite_file)
    operating.create(store, held(), "ann", "trouble", seed=5)
    kept, real = backed_up(sqlite_file), SqliteSession._run

    def run(session: SqliteSession, sql: str, given: Any) -> None:
        real(session, sql, given)
        if sql == "COMMIT":
            put_in_place(kept, sqlite_file)

    monkeypatch.setattr(SqliteSession, "_run", run)
    size = store.head(CHAIN).size
    with (
        pytest.raises(StoreUnavailable, match="removed or replaced while it was open"),
        store.writing(CHAIN) as writing,
    ):
        writing.append([draft(size)])
    assert store.head(CHAIN).size == size
    store.close()


def test_a_reader_of_the_old_files_keeps_others_waiting(sqlite_file: Path) -> None:
    """A new connection would share what the process knows of the old log."""
    store = SqlStore(sqlite_file)
    operating.create(store, held(), "ann", "trouble", seed=5)
    kept = backed_up(sqlite_file)
    with store.connecting():
        put_in_place(kept, sqlite_file)
        with pytest.raises(StoreUnavailable, match="others in this process still read"):
            store.head(CHAIN)
    assert store.head(CHAIN).size == 1
    store.close()


def test_what_sqlite_does_with_its_files_is_no_alarm(
    sqlite_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Many connections, checkpoints, VACUUM, and another process that comes and goes."""
    other = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=10); "
        "c.execute('SELECT count(*) FROM entries').fetchall(); "
        "c.execute('CREATE TABLE IF NOT EXISTS aside (x)'); c.commit(); c.close()"
    )
    with site(sqlite_file, tick=0.05) as there, ThreadPoolExecutor(8) as pool:
        for sql in ("wal_checkpoint(PASSIVE)", "wal_checkpoint(TRUNCATE)", "", "optimize"):
            assert there.decide().status_code == 201
            with closing(sqlite3.connect(sqlite_file, timeout=10)) as beside:
                beside.execute(f"PRAGMA {sql}" if sql else "VACUUM").fetchall()
            subprocess.run([sys.executable, "-c", other, str(sqlite_file)], check=True, timeout=60)
            there.store.scrub()
            reads = [pool.submit(there.read, f"d{there.n}") for _ in range(24)]
            assert {read.result().status_code for read in reads} == {200}
            assert there.ready().status_code == 200
        first = SqlStore(sqlite_file)
        assert first.head(CHAIN).size == there.store.head(CHAIN).size
        first.close()
        assert there.decide().status_code == 201
        check_ledger(there.store, CHAIN)
    assert "removed or replaced" not in caplog.text
    assert not sqlite_file.with_name("ledger.db-wal").exists()
    store = SqlStore(sqlite_file)  # which begins without a log
    operating.create(store, held(), "ann", "trouble", seed=5, name="other")
    assert store.head("other").size == 1
    store.close()
    assert "removed or replaced" not in caplog.text


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    """Lend a server that the tests may stop."""
    cluster = new_cluster(fsync=False)
    yield cluster
    cluster.remove()


def test_a_server_that_stops_and_starts_again(server: Cluster) -> None:
    with site(server.url(server.create()), "expiry.after = 1.5", tick=0.1) as there:
        assert there.decide().status_code == 201
        assert there.decide(0.9).json()["status"] == "held"
        there.look("d2")
        server.stop("immediate")
        for said in (there.decide(), there.review("d2"), there.read("d1")):
            check_refused(there, said, 503, "store_unavailable", "it cannot be reached")
        time.sleep(0.3)  # the clock of the service meets it, too
        server.start()
        check_over(there, 2)
        until = time.monotonic() + 10
        while there.read("d2").json()["status"] == "held":
            assert time.monotonic() < until, "nothing expires any more"
            time.sleep(0.05)
        said = there.review("d2").json()["error"]
        assert (said["code"], said["details"]["by"]) == ("decided", "policy")


def test_a_server_that_may_only_be_read(server: Cluster) -> None:
    name = server.create()
    with site(server.url(name)) as there:
        assert there.decide().status_code == 201
        _set(server, name, "default_transaction_read_only = on")
        said = there.decide()
        check_refused(there, said, 503, "store_read_only", "it may be read but not written")
        _set(server, name, "default_transaction_read_only = off")
        check_over(there, 1)


def _set(server: Cluster, name: str, setting: str) -> None:
    """Set something for all who connect from now on, and let them connect again."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET {setting}".encode())
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'gdcb' AND pid <> pg_backend_pid()"
        )


# What is not the database's fault


def test_a_look_that_goes_wrong_stops_nobody(sqlite_file: Path) -> None:
    def wrong(live: Live) -> None:
        raise RuntimeError("a mistake of ours")

    with site(sqlite_file) as there:
        desk = Desk(there.store, CHAIN)
        refused, beside = desk.look(wrong), desk.look(lambda live: live.chain)
        assert isinstance(refused.exception(timeout=5), RuntimeError)
        assert beside.result(timeout=5) == CHAIN
        assert desk.look(lambda live: live.chain).result(timeout=5) == CHAIN
        desk.close()


def test_a_listener_that_goes_wrong_stops_nobody(sqlite_file: Path) -> None:
    heard: list[int] = []

    def wrong(live: Live, first: int, stop: int) -> None:
        raise RuntimeError("a mistake of ours")

    with site(sqlite_file) as there:
        desk = Desk(there.store, CHAIN)
        desk.listeners += [wrong, lambda live, first, stop: heard.append(stop)]
        for i in range(2):
            desk.submit(lambda turn: operating.pause(turn, "once", "ann")).result(timeout=5)
            desk.submit(lambda turn: operating.resume(turn, "more", "ann")).result(timeout=5)
            assert desk.look(lambda live: len(live.events)).result(timeout=5) == 2 * i + 3
        assert heard == [2, 3, 4, 5]
        desk.close()


def test_a_clock_that_cannot_see_its_desks_goes_on() -> None:
    seen: list[int] = []

    def schedules() -> list[Any]:
        seen.append(len(seen))
        raise RuntimeError("a mistake of ours")

    ticker = Ticker(schedules, 0.01)
    ticker.start()
    until = time.monotonic() + 5
    while len(seen) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    ticker.stop()
    assert len(seen) >= 3
