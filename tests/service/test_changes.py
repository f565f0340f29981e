"""Changes of an instance: every one that was proposed is found, and what became of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdcb.ledger.sql import SqlStore
from gdcb.service import changes as changes_
from gdcb.service import operating
from gdcb.service.access import ROLES
from gdcb.service.changes import Changes
from gdcb.service.web import people
from tests.service import desks
from tests.service.desks import Clock, Office, night
from tests.service.http import ROOMS, Site, served, visitor

EVERYTHING = tuple((role, "*") for role in ROLES)


def text(bulk: int) -> str:
    """Return a declaration that differs in one line."""
    return desks.held(f"bulk = {bulk}\n")


@pytest.fixture
def made(sqlite_template: Path, tmp_path: Path) -> Iterator[Office]:
    store, clock = SqlStore(shutil.copy(sqlite_template, tmp_path / "rooms.db")), Clock()
    operating.create(store, text(3), "cy", "first", seed=7, clock=clock)
    office = Office(store, ROOMS, clock)
    yield office
    office.desk.close()
    store.close()


def propose(made: Office, bulk: int, by: str = "ann") -> int:
    made.clock.pass_by(60)
    return made.do(operating.propose_change, text(bulk), f"{bulk} is better", by)


def kept(made: Office) -> Changes:
    assert isinstance(made.store, SqlStore)
    return Changes(made.store, made.chain)


def test_what_became_of_each(made: Office) -> None:
    made.decide("a", [night(), night(0.9)])
    agreed, refused = propose(made, 4), propose(made, 5)
    made.do(operating.refuse_change, refused, "too many", "bob")
    own = propose(made, 6)
    made.do(operating.refuse_change, own, "I thought again", "ann")
    late = propose(made, 7)
    made.clock.pass_by(60)
    made.do(operating.agree, agreed, "yes", "bob")
    put = made.size - 1
    open_ = propose(made, 8)
    all_of = kept(made)
    found = all_of.all()
    assert [one.number for one in found] == [open_, late, own, refused, agreed, 0]
    assert {one.number: one.status for one in found} == {
        0: "declared",
        agreed: "approved",
        refused: "rejected",
        own: "withdrawn",
        late: "overtaken",
        open_: "proposed",
    }
    done = all_of.get(agreed)
    assert done is not None
    assert (done.by, done.reason) == ("ann", "4 is better")
    assert (done.decided_by, done.decided_reason, done.put, done.base) == ("bob", "yes", put, 0)
    assert done.decided_at is not None
    assert done.decided_at > done.at
    assert all_of.in_force() == done
    assert all_of.declaration(done.base) == text(3)
    assert all_of.declaration(done.number) == text(4)
    assert [one.base for one in found] == [put, 0, 0, 0, 0, None]
    assert set(made.look(lambda live: set(live.proposals))) == {open_}
    assert all_of.get(3) is None
    assert all_of.get(10**30) is None


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_in_pieces_as_in_one(made: Office, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks after every step is told what somebody is told who asks at the end."""
    monkeypatch.setattr(changes_, "_AT_ONCE", at_once)
    watched = kept(made)
    for bulk in (4, 5, 6, 4, 7):
        number = propose(made, bulk)
        watched.all()
        made.decide(f"d{bulk}-{number}")
        if bulk != 6:
            made.do(operating.agree, number, "", "bob")
            watched.all()
    assert watched.all() == kept(made).all()
    now = watched.in_force()
    assert now is not None
    assert watched.declaration(now.put) == made.look(lambda live: live.text) == text(7)


def test_only_entries_that_are_changes_are_read(
    made: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.decide("a", [night() for _ in range(50)])
    propose(made, 4)
    read: list[int] = []
    get = SqlStore.get

    def noted(self: SqlStore, chain: str, seqs: list[int]) -> list[object]:
        read.extend(seqs)
        return list(get(self, chain, seqs))

    monkeypatch.setattr(SqlStore, "get", noted)
    all_of = kept(made)
    assert len(all_of.all()) == len(all_of.all()) == 2
    assert read == [0, made.size - 1]


# On pages


@pytest.fixture
def site(sqlite_template: Path, tmp_path: Path) -> Iterator[Site]:
    path = shutil.copy(sqlite_template, tmp_path / "served.db")
    with served(SqlStore(path), text(3)) as found:
        yield found


def at_desk(site: Site) -> Office:
    office = Office(site.house.store, ROOMS, site.clock)
    office.desk.close()
    office.desk = site.house.desk(ROOMS)
    return office


def test_an_auditor_finds_past_changes(site: Site) -> None:
    made = at_desk(site)
    number = propose(made, 4)
    made.do(operating.agree, number, "four it is", "bob")
    turned = propose(made, 5)
    made.do(operating.refuse_change, turned, "five is too many", "bob")
    eve = visitor(site, "eve", ("audit", ROOMS))
    page = eve.get(f"/i/{ROOMS}/changes")
    assert page.text.index("5 is better") < page.text.index("4 is better")
    assert page.text.index("4 is better") < page.text.index(">first<")
    assert "In force since" in page.text
    assert f'href="/i/{ROOMS}/changes/{number}">change {number}</a>' in page.text
    done = eve.get(f"/i/{ROOMS}/changes/{number}")
    assert done.status_code == 200
    for said in ("four it is", "bulk = 3", "bulk = 4"):
        assert said in done.text
    refused = eve.get(f"/i/{ROOMS}/changes/{turned}")
    assert "five is too many" in refused.text
    assert "bulk = 5" in refused.text
    assert "Second pair of eyes" not in refused.text
    first = eve.get(f"/i/{ROOMS}/changes/0")
    assert first.status_code == 200
    assert "declared" in first.text


@pytest.mark.parametrize("number", ["1", "999", "-1", str(10**30)])
def test_what_never_was_proposed_is_not_found(site: Site, number: str) -> None:
    at_desk(site).decide("a")
    eve = visitor(site, "eve", ("audit", ROOMS))
    assert eve.get(f"/i/{ROOMS}/changes/{number}").status_code == 404


def test_pages_of_changes(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "PAGE", 2)
    made = at_desk(site)
    numbers = [propose(made, bulk) for bulk in (4, 5, 6)]
    eve = visitor(site, "eve", *EVERYTHING)
    at, seen = f"/i/{ROOMS}/changes", []
    for before in ("", f"?before={numbers[1]}"):
        page = eve.get(f"{at}{before}").text
        seen += [n for n in (*numbers, 0) if f'href="{at}/{n}"><bdi>' in page]
        assert (f"before={numbers[1]}" in page) == (not before)
    assert sorted(seen) == [0, *numbers]
