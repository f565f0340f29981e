"""One-time links: how people sign in first, and whenever they have no password or forgot it.

A link opens a page with one button, and the button's POST redeems it. It is not redeemed by being
opened, for two reasons. Programs that look at links in mails and chats before people do would use
it up. And the session cookie is `SameSite=Strict`: after a click in a mail, a redirect from the
link to the home page is still a navigation that another site began, so that the browser would hold
back the cookie which the redirect just set, and the person would arrive signed out. The button's
POST begins on our own page, and so does the redirect that answers it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, Row, delete, insert, select, update

from gdcb.errors import InvalidInput
from gdcb.service.access import tables
from gdcb.service.access.books import Books
from gdcb.service.access.errors import NotAllowed, SignInRefused
from gdcb.service.access.keys import DAY, seconds
from gdcb.service.access.names import shown
from gdcb.service.access.people import (
    find,
    is_taken,
    must_administer_all,
    person_by_login,
    write_person,
)
from gdcb.service.access.roles import CONSOLE, EVERY, ROLES, Principal, grants
from gdcb.service.access.sessions import open_session
from gdcb.service.access.tokens import digest, is_token, new_token

PATH = "/sign-in"
FIELD = "link"
LASTS_S = 1.0 * DAY
_BASE = "base_url"
_SPENT = "this link does not open anything: it was used or replaced, or it expired; ask for another"


def make_link(
    books: Books, by: Principal, person: str, base_url: str, lasts_s: float = LASTS_S
) -> str:
    """Make a link that signs a person in once; earlier ones of theirs stop working.

    Whoever makes it could open it, too. So it takes somebody who administers all that the person
    has a role on, never oneself, and the log keeps who made it.
    """
    if by.id == person:
        raise NotAllowed(
            "nobody makes a link for themselves: set a password under Account, ask another "
            "administrator, or run 'gdcb access link' where the database is"
        )
    lasts = seconds("lasts_s", lasts_s, 30 * DAY)
    base = base_of(base_url)
    with books.changing() as connection:
        find(connection, person, "person")
        must_administer_all(connection, by, person)
        connection.execute(delete(tables.links).where(tables.links.c.person == person))
        token = _add(books, connection, by, person, lasts)
    return f"{base}{PATH}?{FIELD}={token}"


def first_link(books: Books, base_url: str, lasts_s: float = LASTS_S) -> str | None:
    """Return a link for the first administrator; None once somebody can administer.

    That is: a person with 'administer' on '*' has signed in. Until then every start makes one, so
    that a lost link locks nobody out; several processes that start at once make one each, and the
    first that is used ends the others. Whoever reads the console gets in: it is theirs anyway.
    """
    lasts, base = seconds("lasts_s", lasts_s, 30 * DAY), base_of(base_url)
    with books.changing() as connection:
        rows = _administrators(connection)
        if any(row.signed_in_at is not None for row in rows):
            return None
        first = rows[0].id if rows else _first(books, connection)
        token = _add(books, connection, CONSOLE, first, lasts)
    return f"{base}{PATH}?{FIELD}={token}"


def console_link(
    books: Books, base_url: str, login: str | None = None, lasts_s: float = LASTS_S
) -> str:
    """Return a link for somebody, by their login; for the administrator where none is given.

    It is for whoever holds the database, so that a sole administrator without a password is never
    locked out. Where nobody administers, an administrator is made.
    """
    if login is not None:
        return make_link(books, CONSOLE, person_by_login(books, login), base_url, lasts_s)
    with books.reading() as connection:
        found = _administrators(connection)
    if len(found) == 1:
        return make_link(books, CONSOLE, found[0].id, base_url, lasts_s)
    first = first_link(books, base_url, lasts_s) if not found else None
    if first is None:
        logins = ", ".join(row.login for row in found)
        raise InvalidInput(f"login: expected that of one of several administrators: {logins}")
    return first


def _administrators(connection: Connection) -> Sequence[Row[*tuple[Any, ...]]]:
    """Return who administers every instance, in the order in which they were added."""
    people, held = tables.principals, tables.grants
    asked = (
        select(people.c.id, people.c.login, people.c.signed_in_at)
        .join(held, held.c.principal == people.c.id)
        .where(held.c.role == "administer", held.c.instance == EVERY)
        .where(people.c.kind == "person", people.c.ended_at.is_(None))
        .order_by(people.c.made_at, people.c.id)
    )
    return connection.execute(asked).all()


def remember_base(books: Books, base_url: str) -> None:
    """Keep where people reach the service, for links that are made on the console later."""
    row, value = tables.secret, base_of(base_url).encode()
    with books.changing() as connection:  # one process at a time: the row is made once
        kept = update(row).where(row.c.name == _BASE).values(value=value)
        if not connection.execute(kept).rowcount:
            connection.execute(insert(row).values(name=_BASE, value=value))


def known_base(books: Books) -> str | None:
    """Return where people reached the service when it last started; None: it never did."""
    asked = select(tables.secret.c.value).where(tables.secret.c.name == _BASE)
    with books.reading() as connection:
        found = connection.scalar(asked)
    return None if found is None else bytes(found).decode()


def link_opens(books: Books, token: str) -> bool:
    """Return whether a link would sign somebody in now, for its page; it stays unused."""
    with books.reading() as connection:
        return _whose(books, connection, token) is not None


def redeem(books: Books, token: str, old_session: str | None = None) -> str:
    """Use a link up and return the token of the session that it opens.

    A password that the person had is forgotten with it, so that they can set another: to change one
    takes the present one. Whoever opens a link that was meant for another shuts the other's
    password out, and so does not stay unseen.
    """
    link, words, at = tables.links, tables.passwords, books.clock()
    with books.changing() as connection:
        person = _whose(books, connection, token)
        if person is None:
            raise SignInRefused(_SPENT)
        used = update(link).where(link.c.hash == digest(token), link.c.used_at.is_(None))
        if connection.execute(used.values(used_at=at)).rowcount != 1:
            raise SignInRefused(_SPENT)
        others = (link.c.person == person, link.c.used_at.is_(None))
        connection.execute(delete(link).where(*others))
        if connection.execute(delete(words).where(words.c.person == person)).rowcount:
            books.write(connection, person, "password forgotten")
        return open_session(books, connection, person, "link", old_session)


def base_of(url: object) -> str:
    """Return scheme, host and port of where the service is reached, without a slash at the end.

    Examples
    --------
    >>> base_of("https://gdcb.example.org/")
    'https://gdcb.example.org'
    """
    if isinstance(url, str) and url.isascii() and url.isprintable() and " " not in url:
        try:
            parts = urlsplit(url)
            is_port = parts.port is None or parts.port > 0
        except ValueError:
            parts, is_port = urlsplit(""), False
        bare = f"{parts.scheme}://{parts.netloc}"
        plain = url.rstrip("/").lower() == bare.lower() and "@" not in parts.netloc
        if parts.scheme in ("http", "https") and parts.hostname and is_port and plain:
            return bare.lower()
    raise InvalidInput(f"base_url: expected like 'https://gdcb.example.org', got {shown(url)}")


def _whose(books: Books, connection: Connection, token: str) -> str | None:
    if not is_token(token):
        return None
    link, people = tables.links, tables.principals
    asked = (
        select(link.c.person)
        .join(people, people.c.id == link.c.person)
        .where(link.c.hash == digest(token), link.c.used_at.is_(None))
        .where(link.c.expires_at > books.clock(), people.c.ended_at.is_(None))
    )
    found = connection.scalar(asked)
    return None if found is None else str(found)


def _add(books: Books, connection: Connection, by: Principal, person: str, lasts: int) -> str:
    token, at = new_token(), books.clock()
    row = {"hash": digest(token), "person": person, "made_by": by.id}
    times = {"made_at": at, "expires_at": at + lasts}
    connection.execute(insert(tables.links).values(**row, **times))
    books.write(connection, by, "link made", person=person, expires_at=at + lasts)
    return token


def _first(books: Books, connection: Connection) -> str:
    """Add a first administrator with every role, under a login that nobody ever had."""
    logins = ("admin", *(f"admin-{n}" for n in range(2, 1000)))
    login = next(one for one in logins if not is_taken(connection, one))
    every = grants(*((role, EVERY) for role in ROLES))
    return write_person(books, connection, CONSOLE, login, "First administrator", every)
