"""Books of access on a fresh database, with a clock that only the test moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import StaticPool, create_engine

from gdcb.ledger.engines import connect, parse
from gdcb.service.access import (
    CONSOLE,
    Books,
    Cost,
    Door,
    LockOut,
    Principal,
    add_person,
    create_tables,
    make_link,
    open_books,
)
from gdcb.service.access.books import SECOND
from gdcb.service.access.links import redeem
from gdcb.service.access.roles import grants

BASE = "https://gdcb.example.org"
# 1 MiB instead of 32, once through: the same code, a hundredth of the time.
CHEAP = Cost(n=2**10, r=8, p=1)
START = 1_800_000_000 * SECOND


@dataclass
class Clock:
    """µs since the epoch, moved by hand."""

    at: int = START

    def __call__(self) -> int:
        return self.at

    def forward(self, seconds: float) -> None:
        self.at += int(seconds * SECOND)


@contextmanager
def books_at(url: str | Path) -> Iterator[Books]:
    """Open books where the ledger's migrations have been."""
    engine = connect(parse(url), patience=10.0)
    try:
        yield open_books(engine, Clock())
    finally:
        engine.dispose()


@contextmanager
def memory_books() -> Iterator[Books]:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    create_tables(engine)
    yield open_books(engine, Clock())
    engine.dispose()


def forward(books: Books, seconds: float) -> None:
    assert isinstance(books.clock, Clock)
    books.clock.forward(seconds)


def door(books: Books, base_url: str = BASE, lock_out: LockOut | None = None) -> Door:
    return Door(books, base_url, cost=CHEAP, lock_out=lock_out or LockOut())


def person(books: Books, login: str, *given: tuple[str, str]) -> Principal:
    """Add a person, and return them as the door would."""
    made = add_person(books, CONSOLE, login, login.title(), given)
    return Principal(made, login.title(), "person", grants(*given))


def session(books: Books, who: Principal) -> str:
    """Sign a person in, and return the session's token."""
    return redeem(books, token_of(make_link(books, CONSOLE, who.id, BASE)))


def token_of(link: str) -> str:
    return link.partition("?link=")[2]


def cookie(token: str, name: str = "__Host-gdcb") -> Mapping[str, str]:
    return {"cookie": f"{name}={token}"}


def bearer(key: str) -> Mapping[str, str]:
    return {"authorization": f"Bearer {key}"}
