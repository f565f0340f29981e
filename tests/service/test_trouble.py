"""A database in trouble: everybody is told what is wrong, nothing is lost, and it passes."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event

from gdcb.ledger.live import Live
from gdcb.ledger.sql import SqlStore
from gdcb.service import operating
from gdcb.service.app import build
from gdcb.service.desk import Desk
from gdcb.service.house import House, Settings
from gdcb.service.schedule import Ticker
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
    assert words in ready.json()["why"]


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
