"""A chain that somebody changed: the dashboard says so, whatever was changed, and goes on."""

from __future__ import annotations

import html
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Connection, create_engine, text

from gdcb import events as ev
from gdcb.codec import to_body
from gdcb.errors import BrokenChain, StoreUnavailable
from gdcb.ledger import Entry, link
from gdcb.ledger.audit import verify_chain
from gdcb.ledger.entry import Draft
from gdcb.ledger.live import opened
from gdcb.ledger.sql import SqlStore
from gdcb.service import operating
from gdcb.service.access import ROLES
from gdcb.service.app import build
from gdcb.service.figures import background, forecast, reading, verified
from gdcb.service.figures.background import Background
from gdcb.service.figures.shown import Shown
from gdcb.service.figures.verified import Verified
from gdcb.service.house import House, Settings
from tests.service import desks
from tests.service.desks import Clock, Office, night
from tests.service.http import ROOMS, served, visitor
from tests.service.race_clients import FREE, staff_of

N = 10
Change = Callable[[Connection, list[Entry]], object]


@pytest.fixture(scope="module")
def written(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write ten decisions with their outcomes, and take the triggers that keep them away."""
    path = tmp_path_factory.mktemp("written") / "rooms.db"
    shutil.copy(sqlite_template, path)
    store, clock = SqlStore(path), Clock()
    operating.create(store, desks.held(), "cy", "first", seed=7, clock=clock)
    office = Office(store, ROOMS, clock)
    for i in range(N):
        office.decide(f"c{i}", night(0.1))
    office.observe({f"c{i}": 1.0 for i in range(N)})
    office.desk.close()
    store.close()
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as at:
        for (name,) in at.execute(text("SELECT name FROM sqlite_master WHERE type = 'trigger'")):
            at.execute(text(f'DROP TRIGGER "{name}"'))
    engine.dispose()
    return path


def spoil(path: Path, change: Change) -> None:
    """Change a database behind the back of everybody."""
    store = SqlStore(path)
    entries = list(store.read(ROOMS))
    with store.transaction() as connection:
        change(connection, entries)
    store.close()


def sets(what: str, value: object, seq: int = 4) -> Change:
    """Write another value into an entry."""

    def change(at: Connection, _: list[Entry]) -> None:
        where = "WHERE chain = 'rooms' AND seq = :seq"
        at.execute(text(f'UPDATE entries SET "{what}" = :v {where}'), {"v": value, "seq": seq})

    return change


def flips(what: str, place: int, seq: int = 4) -> Change:
    """Change a byte of an entry."""

    def change(at: Connection, entries: list[Entry]) -> None:
        value = bytearray(getattr(entries[seq], what))
        value[place] ^= 0x55
        sets(what, bytes(value), seq)(at, entries)

    return change


def renames(at: Connection, entries: list[Entry]) -> None:
    sets("body", entries[4].body.replace(b'"c1"', b'"zz"'))(at, entries)


def deletes(first: int, stop: int) -> Change:
    def change(at: Connection, _: list[Entry]) -> None:
        which = {"first": first, "stop": stop}
        said = "DELETE FROM entries WHERE chain = 'rooms' AND seq >= :first AND seq < :stop"
        at.execute(text(said), which)

    return change


def move(at: Connection, first: int, by: int) -> None:
    where = "WHERE chain = 'rooms' AND seq"
    at.execute(text(f"UPDATE entries SET seq = -1 - seq {where} >= :first"), {"first": first})
    at.execute(text(f"UPDATE entries SET seq = -1 - seq + :by {where} < 0"), {"by": by})


def deletes_and_renumbers(at: Connection, entries: list[Entry]) -> None:
    deletes(4, 5)(at, entries)
    move(at, 5, -1)


def put(at: Connection, entry: Entry) -> None:
    values = {name: getattr(entry, name) for name in ("seq", "kind", "at", "body", "root")}
    more = {"who": entry.by, "prev": entry.prev, "hash": entry.hash}
    at.execute(
        text(
            'INSERT INTO entries (chain, seq, kind, at, "by", body, root, prev, hash, clock) VALUES'
            " ('rooms', :seq, :kind, :at, :who, :body, :root, :prev, :hash, :at)"
        ),
        values | more,
    )


def inserts(at: Connection, entries: list[Entry]) -> None:
    move(at, 4, 1)
    put(at, link(ROOMS, 4, entries[4].prev, Draft("Paused", b"{}", b"", entries[4].at, "eve")))


def duplicates(at: Connection, entries: list[Entry]) -> None:
    move(at, 5, 1)
    put(at, replace(entries[4], seq=5))


def swaps(at: Connection, entries: list[Entry]) -> None:
    for old, new in ((4, -1), (5, 4), (-1, 5)):
        sets("seq", new, old)(at, entries)


def puts_on(at: Connection, entries: list[Entry]) -> None:
    last = entries[-1]
    put(at, link(ROOMS, len(entries), last.hash, Draft("Paused", b"{}", b"", last.at, "eve")))


def forges(at: Connection, entries: list[Entry]) -> None:
    """Put an entry on that has its own right hash, behind one that was never there."""
    last = entries[-1]
    forged = Draft("Paused", to_body(ev.Paused("forged")), b"", last.at, "eve")
    entry = link(ROOMS, len(entries), b"\x11" * 32, forged)
    put(at, entry)
    head = {"size": entry.seq + 1, "hash": entry.hash}
    at.execute(text("UPDATE chains SET size = :size, hash = :hash WHERE name = 'rooms'"), head)


def cuts_the_head(at: Connection, _: list[Entry]) -> None:
    at.execute(text("UPDATE chains SET hash = :hash WHERE name = 'rooms'"), {"hash": b"?" * 32})


CHANGES: dict[str, Change] = {
    "head of the body": flips("body", 5),
    "numbers in the body": flips("body", -9),
    "an id": renames,
    "no body": sets("body", b""),
    "a text for bytes": sets("body", "cheap"),
    "root": flips("root", 3),
    "prev": flips("prev", 3),
    "hash": flips("hash", 3),
    "kind": sets("kind", "Nonsense"),
    "another kind": sets("kind", "OutcomeObserved"),
    "time": sets("at", 7),
    "author": sets("by", "somebody"),
    "the declaration": flips("body", 5, 0),
    "deleted": deletes(4, 5),
    "deleted and renumbered": deletes_and_renumbers,
    "many deleted": deletes(3, 25),
    "the first deleted": deletes(0, 1),
    "the tail deleted": deletes(20, 99),
    "inserted": inserts,
    "duplicated": duplicates,
    "swapped": swaps,
    "put on": puts_on,
    "forged": forges,
    "the head's hash": cuts_the_head,
}


@pytest.fixture
def path(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(written, tmp_path / "rooms.db"))


@pytest.fixture
def asked(path: Path) -> Iterator[Callable[[], Shown]]:
    """Return who asks for figures until the chain is checked; the thread that makes them ends."""
    store = SqlStore(path)
    instance = opened(store, ROOMS).instance
    made = Background(store, Clock())

    def ask() -> Shown:
        until = time.monotonic() + 20
        while time.monotonic() < until:
            found = made.ask(ROOMS, instance).result(timeout=20)
            if found.chain.is_whole is not None and found.chain.verified is not None:
                return found
            time.sleep(0.01)
        raise AssertionError("it was never checked")

    yield ask
    made.stop()
    store.close()


def test_as_written_it_is_whole(asked: Callable[[], Shown]) -> None:
    found = asked()
    assert found.chain.is_whole is True
    assert found.reach == ""


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_was_changed_is_found(
    asked: Callable[[], Shown],
    path: Path,
    change: Change,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also in small steps; and the figures of the rest are there."""
    monkeypatch.setattr(forecast, "AT_ONCE", 5)
    monkeypatch.setattr(verified, "AT_ONCE", 7)
    spoil(path, change)
    found = asked()
    assert found.chain.is_whole is False
    assert found.chain.words
    assert found.flow.series


def test_an_entry_that_fits_its_hash_and_cannot_be_read(
    asked: Callable[[], Shown], path: Path
) -> None:
    """A newer version may have written it: it is no change, and the chain is not whole either."""
    store = SqlStore(path)
    with store.writing(ROOMS) as writing:
        writing.append([Draft("Foretold", b"{}", b"", Clock()(), "eve")] * 3)
    store.close()
    found = asked()
    assert found.chain.is_whole is False
    assert found.chain.words == f"Entry {3 * N + 2} cannot be read."
    said = f"3 entries, from entry {3 * N + 2} on, cannot be read: the figures are without."
    assert found.reach == said


def test_a_store_that_goes_away_half_way_is_no_finding(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, kept = SqlStore(path), SqlStore.read

    def away(self: SqlStore, chain: str, start: int = 0, stop: int = 99) -> Iterator[Entry]:
        for n, entry in enumerate(kept(self, chain, start, stop)):
            if n == 4:
                raise StoreUnavailable("the store is away")
            yield entry

    one = Verified(store, ROOMS)
    with monkeypatch.context() as patch:
        patch.setattr(SqlStore, "read", away)
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                one.advance(7)
    while one.advance(8):
        pass
    assert one.state().is_whole is True
    store.close()


@pytest.mark.parametrize("kind", ["head of the body", "an id", "deleted", "kind", "swapped"])
def test_the_tile(kind: str, sqlite_template: Path, tmp_path: Path) -> None:
    """The page says it at once, to whoever asks first."""
    assert "Broken" in tile(sqlite_template, tmp_path, CHANGES[kind])


@pytest.mark.parametrize("where", [(background, "shown"), (reading.Reader, "catch_up")])
def test_the_tile_where_no_figures_can_be_made(
    where: tuple[object, str],
    sqlite_template: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object) -> None:
        raise ArithmeticError("an entry has numbers that nobody thought of")

    monkeypatch.setattr(*where, fails)
    said = tile(sqlite_template, tmp_path, CHANGES["numbers in the body"])
    assert "Chain Broken verified to entry" in said
    assert "The figures are being made." in said


@pytest.mark.parametrize("has_snapshot", [False, True])
def test_nothing_is_decided_by_a_declaration_that_was_changed(
    written: Path, tmp_path: Path, has_snapshot: bool
) -> None:
    """It was found to be changed, said so in the log, and bounded decisions all the same."""
    path = Path(shutil.copy(written, tmp_path / "served.db"))
    store = SqlStore(path)
    if has_snapshot:
        store.put_snapshot(opened(store, ROOMS).to_snapshot(store.head(ROOMS).hash))

    def widens(at: Connection, entries: list[Entry]) -> None:
        body = entries[0].body.replace(b"high = 300", b"high = 900")
        assert body != entries[0].body
        sets("body", body, 0)(at, entries)

    spoil(path, widens)
    with pytest.raises(BrokenChain, match="entry 0 is not as it was written; nothing"):
        opened(store, ROOMS)
    assert not verify_chain(store, ROOMS).ok
    store.close()


def test_of_a_spoilt_instance_nothing_is_answered_and_of_others_all(
    written: Path, tmp_path: Path
) -> None:
    path = Path(shutil.copy(written, tmp_path / "served.db"))
    store = SqlStore(path)
    operating.create(store, desks.held(), "cy", "second", seed=7, name="huts")
    spoil(path, sets("body", b"{}", 0))
    house = House(store, Settings(tick=0.0, rates=FREE))
    with staff_of(store, [], "*") as staff:
        shop = staff.program("shop", "decide").headers
    with TestClient(build(house), raise_server_exceptions=False) as client:
        answers = {
            name: client.post(
                f"/v1/instances/{name}/decisions", json={"context": night()}, headers=shop
            )
            for name in (ROOMS, "huts")
        }
    assert answers["huts"].status_code == 201
    assert answers[ROOMS].status_code == 500
    assert "is not as it was written" in answers[ROOMS].json()["error"]["message"]
    store.close()


def tile(template: Path, folder: Path, change: Change) -> str:
    """Decide, change something behind the service's back, and return what the dashboard says."""
    path = Path(shutil.copy(template, folder / "served.db"))
    with served(SqlStore(path)) as site:
        for i in range(3):
            site.decide(f"c{i}", 0.1)
        engine = create_engine(f"sqlite:///{path}")
        with engine.begin() as at:
            for (name,) in at.execute(text("SELECT name FROM sqlite_master WHERE type='trigger'")):
                at.execute(text(f'DROP TRIGGER "{name}"'))
            change(at, list(site.house.store.read(ROOMS)))
        engine.dispose()
        page = visitor(site, "eve", *((role, "*") for role in ROLES)).get(f"/i/{ROOMS}")
        assert page.status_code == 200
        return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page.text)))


@pytest.mark.parametrize("is_look", [True, False])
def test_a_running_desk_does_not_go_by_an_entry_that_does_not_follow(
    written: Path, tmp_path: Path, is_look: bool
) -> None:
    """It was folded, and decisions were acknowledged behind it that no restart could read."""
    path = Path(shutil.copy(written, tmp_path / "rooms.db"))
    store = SqlStore(path)
    office = Office(store, ROOMS, Clock())
    size = office.size
    spoil(path, forges)
    for _ in range(2):
        with pytest.raises(BrokenChain, match=f"entry {size} is not as it was written; nothing"):
            office.look(lambda live: live.paused) if is_look else office.decide("next", night())
    assert store.head(ROOMS).size == size + 1  # the forged one
    office.desk.close()
    store.close()


def test_a_snapshot_is_not_gone_on_from_by_an_entry_that_does_not_follow(
    written: Path, tmp_path: Path
) -> None:
    path = Path(shutil.copy(written, tmp_path / "rooms.db"))
    store = SqlStore(path)
    store.put_snapshot(opened(store, ROOMS).to_snapshot(store.head(ROOMS).hash))
    size = store.head(ROOMS).size
    spoil(path, forges)
    with pytest.raises(BrokenChain, match=f"entry {size} is not as it was written; nothing"):
        opened(store, ROOMS)
    store.close()
