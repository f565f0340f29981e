"""Sessions of signed-in people: open, find, end."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, or_, select, update

from gdcb.service.access import tables
from gdcb.service.access.books import SECOND, Books
from gdcb.service.access.people import find, grants_of, must_administer_all
from gdcb.service.access.roles import Principal
from gdcb.service.access.tokens import digest, is_token, new_token

# A session or key is written down as used at most this often: a request should cost no write.
MARK_EVERY = 60 * SECOND


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """How long a session lasts, in seconds: without use, and in all."""

    idle_s: float = 3600.0
    whole_s: float = 43_200.0

    def end(self, made_at: int, seen_at: int) -> int:
        """Return when a session ends, in µs."""
        return min(made_at + int(self.whole_s * SECOND), seen_at + int(self.idle_s * SECOND))


@dataclass(frozen=True, slots=True)
class Found:
    """Whose credential it is, and until when it is good (µs; None: no end)."""

    principal: Principal
    until: int | None


def open_session(
    books: Books, connection: Connection, person: str, how: str, old: str | None = None
) -> str:
    """Open a session for a person and return its token, which the database never sees.

    Whatever session the browser had before ends: a token that somebody planted in it before the
    sign-in is worth nothing after.
    """
    at, table, token = books.clock(), tables.sessions, new_token()
    if old is not None and is_token(old):
        connection.execute(delete(table).where(table.c.hash == digest(old)))
    row = {"hash": digest(token), "person": person, "made_at": at, "seen_at": at}
    connection.execute(insert(table).values(row))
    people = tables.principals
    connection.execute(update(people).where(people.c.id == person).values(signed_in_at=at))
    books.write(connection, person, "signed in", how=how)
    return token


def find_session(
    books: Books, token: bytes, limits: SessionLimits, is_use: bool = True
) -> Found | None:
    """Return whose session a token's hash opens, if it has not ended.

    It is marked as used, but not where nobody did anything: a page asks for news by itself, and
    would keep a session open at a desk that everybody has left.
    """
    table, people, at = tables.sessions, tables.principals, books.clock()
    asked = (
        select(people.c.id, people.c.name, table.c.made_at, table.c.seen_at)
        .join(people, people.c.id == table.c.person)
        .where(table.c.hash == token, people.c.ended_at.is_(None))
    )
    with books.reading() as connection:
        row = connection.execute(asked).one_or_none()
        if row is None or not row.made_at <= at < limits.end(row.made_at, row.seen_at):
            return None
        held = grants_of(connection, [row.id]).get(row.id, frozenset())
    if is_use and at - row.seen_at >= MARK_EVERY:
        seen = update(table).where(table.c.hash == token, table.c.seen_at < at)
        books.mark(seen.values(seen_at=at))
    until = limits.end(row.made_at, max(row.seen_at, at) if is_use else row.seen_at)
    return Found(Principal(row.id, row.name, "person", held), until)


def end_session(books: Books, token: str) -> None:
    """Sign out: end the session of a token; nothing happens where there is none."""
    if not is_token(token):
        return
    table = tables.sessions
    with books.changing() as connection:
        where = table.c.hash == digest(token)
        person = connection.scalar(select(table.c.person).where(where))
        if person is not None:
            connection.execute(delete(table).where(where))
            books.write(connection, str(person), "signed out")


def end_sessions(books: Books, by: Principal, person: str) -> int:
    """Sign a person out everywhere, oneself or as an administrator; return how many ended."""
    table = tables.sessions
    with books.changing() as connection:
        find(connection, person, "person")
        if person != by.id:
            must_administer_all(connection, by, person)
        gone = connection.execute(delete(table).where(table.c.person == person)).rowcount
        books.write(connection, by, "signed out everywhere", person=person, sessions=gone)
    return gone


def tidy(books: Books, limits: SessionLimits) -> int:
    """Delete sessions, links and tries to sign in that ended a day ago; return how many."""
    at, day = books.clock(), 86_400 * SECOND
    table, link = tables.sessions, tables.links
    idle, whole = int(limits.idle_s * SECOND), int(limits.whole_s * SECOND)
    old = or_(table.c.seen_at < at - idle - day, table.c.made_at < at - whole - day)
    with books.counting() as connection:
        gone = connection.execute(delete(table).where(old)).rowcount
        gone += connection.execute(delete(link).where(link.c.expires_at < at - day)).rowcount
        gone += connection.execute(
            delete(tables.tries).where(
                tables.tries.c.at < at - day, tables.tries.c.locked_until < at - day
            )
        ).rowcount
    return gone
