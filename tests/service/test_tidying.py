"""Tidying up: what is over leaves the database by itself, and what is not stays."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from sqlalchemy import Table, func, select

from gdcb.errors import StoreError
from gdcb.service.access import SignInRefused, tables
from gdcb.service.claims import Claims
from gdcb.service.house import Settings
from gdcb.service.tables import claims
from gdcb.service.tidying import Tidying
from tests.service.http import BASE, PLENTY, ROOMS, Site, site

OLD = (tables.sessions, tables.links, tables.tries, claims)
HOUR = 3600


def sizes(made: Site) -> list[int]:
    """Return how many rows there are of each that comes and goes."""

    def size(table: Table) -> int:
        with made.house.books.reading() as connection:
            return connection.scalar(select(func.count()).select_from(table)) or 0

    return [size(table) for table in OLD]


def fill(made: Site, name: str) -> None:
    """Leave one of each: a session with its link, a try to sign in, a lease."""
    made.session(name, ("approve", ROOMS))
    with pytest.raises(SignInRefused):
        made.house.door.sign_in_by_password(f"{name}-x", "wrong", {})
    made.house.claims.claim(ROOMS, name, f"Ann [{name}]", 300)


def test_what_is_over_goes_once_an_hour(sqlite_template: Path, tmp_path: Path) -> None:
    with site(sqlite_template, tmp_path) as made:
        house = made.house
        tidying = Tidying(house.books, house.door.session_limits, house.claims, made.clock)
        assert tidying.tick()
        fill(made, "old")
        made.clock.pass_by(3 * 24 * HOUR)
        fill(made, "new")
        assert sizes(made) == [2, 2, 2, 2]
        assert tidying.tick()
        assert sizes(made) == [1, 1, 1, 1]  # what is still good, or over since less than a day
        assert house.claims.of(ROOMS).keys() == {"new"}
        made.clock.pass_by(HOUR - 1)
        assert not tidying.tick()
        assert sizes(made) == [1, 1, 1, 1]
        made.clock.pass_by(1)
        assert tidying.tick()
        assert sizes(made) == [1, 1, 1, 0]


def test_a_running_service_tidies_up(sqlite_template: Path, tmp_path: Path) -> None:
    settings = Settings(BASE, tick=0.02, rates=PLENTY)
    with site(sqlite_template, tmp_path, settings=settings) as made:
        fill(made, "old")
        made.clock.pass_by(3 * 24 * HOUR)
        until = time.monotonic() + 20
        while sizes(made) != [0, 0, 0, 0]:
            assert time.monotonic() < until, sizes(made)
            time.sleep(0.05)


def test_a_store_that_cannot_write_is_asked_again_later(
    sqlite_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Claims) -> None:
        raise StoreError("the disk is full")

    with site(sqlite_template, tmp_path) as made:
        house = made.house
        tidying = Tidying(house.books, house.door.session_limits, house.claims, made.clock)
        with monkeypatch.context() as patched:
            patched.setattr(Claims, "tidy", full)
            assert not tidying.tick()
        assert not tidying.tick()
        made.clock.pass_by(HOUR)
        assert tidying.tick()
