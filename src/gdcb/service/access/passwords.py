"""Sign-in by password: scrypt, and one sentence for every failure.

Links suffice; a password is for those who want one. The parameters stand beside each hash, so that
they can be raised: whoever signs in next gets the new ones.
"""

from __future__ import annotations

import secrets
import threading
import unicodedata
from dataclasses import dataclass
from hashlib import scrypt
from hmac import compare_digest

from sqlalchemy import Connection, delete, insert, select

from gdcb.errors import InvalidInput
from gdcb.service.access import tables
from gdcb.service.access.books import Books
from gdcb.service.access.errors import NotAllowed, SignInRefused
from gdcb.service.access.lockout import LockOut, count_try, forgive
from gdcb.service.access.names import shown
from gdcb.service.access.people import find
from gdcb.service.access.roles import Principal
from gdcb.service.access.sessions import open_session
from gdcb.service.access.tokens import digest

SHORTEST, LONGEST = 12, 256
_REFUSED = "login and password do not fit: try again, or ask an administrator for a link"
# Each hash takes 128·n·r bytes: two at a time, so that a crowd at the door fills no memory.
_AT_ONCE = threading.BoundedSemaphore(2)


@dataclass(frozen=True, slots=True)
class Cost:
    """Parameters of scrypt: 128·n·r bytes (32 MiB) are gone through p times for one guess."""

    n: int = 2**15
    r: int = 8
    p: int = 3

    def hash(self, password: str, salt: bytes) -> bytes:
        """Return the 32 bytes that are stored."""
        known = unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")
        memory = 2 * 128 * self.r * (self.n + self.p + 2)
        with _AT_ONCE:
            return scrypt(known, salt=salt, n=self.n, r=self.r, p=self.p, maxmem=memory, dklen=32)


COST = Cost()
LOCK_OUT = LockOut()


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is stored of a password, and whose it is."""

    person: str
    salt: bytes
    cost: Cost
    hash: bytes

    def fits(self, password: str) -> bool:
        """Return whether it is the password, in a time that does not depend on the answer."""
        return compare_digest(self.cost.hash(password, self.salt), self.hash)


def set_password(
    books: Books,
    by: Principal,
    password: str,
    old: str = "",
    cost: Cost = COST,
    rule: LockOut = LOCK_OUT,
    session: str | None = None,
) -> None:
    """Set one's own password; all one's sessions end, so sign in with it.

    Who has a password must give it, so that a browser left open cannot be made into a lasting way
    in. Nobody sets another's: they make a link.

    Parameters
    ----------
    books : the database
    by : the person
    password : the new one, 12 to 256 characters
    old : the present one, where there is one; wrong ones count as tries to sign in
    cost, rule : parameters of scrypt and of the lock-out
    session : token of the session in which it is asked for; if that ends meanwhile, nothing is set
    """
    if by.kind != "person":
        raise NotAllowed("only a person has a password")
    people, sessions = tables.principals, tables.sessions
    with books.reading() as connection:
        find(connection, by.id, "person")
        login = str(connection.scalar(select(people.c.login).where(people.c.id == by.id)))
        kept = _kept(connection, login)
    _check(password, (login, by.name))
    if kept is not None:
        count_try(books, login, rule)
        if not kept.fits(_text("old", old)):
            raise NotAllowed("this needs the present password, and what came does not fit")
    made = _made(by.id, password, cost)
    with books.changing() as connection:
        find(connection, by.id, "person")
        if _kept(connection, login) != kept or not _is_open(connection, by.id, session):
            raise NotAllowed(
                "you were signed out meanwhile, and nothing was changed: sign in again"
            )
        _write(books, connection, made)
        forgive(connection, login)
        connection.execute(delete(sessions).where(sessions.c.person == by.id))
        books.write(connection, by, "password set")


def sign_in(
    books: Books,
    login: str,
    password: str,
    old_session: str | None = None,
    cost: Cost = COST,
    rule: LockOut = LOCK_OUT,
) -> str:
    """Return the token of a new session, where login and password fit.

    A login that nobody has, one without a password and a wrong password take the same work, lock
    alike and are refused in the same words.
    """
    login, password = _text("login", login), _text("password", password)
    wait = count_try(books, login, rule)
    with books.reading() as connection:
        kept = _kept(connection, login)
    if not (kept or _made("", "", cost)).fits(password) or kept is None:
        if wait and kept is not None:
            with books.counting() as connection:
                books.write(connection, "nobody", "locked", person=kept.person, seconds=wait)
        raise SignInRefused(_REFUSED)
    stronger = None if kept.cost == cost else _made(kept.person, password, cost)
    with books.changing() as connection:
        if _kept(connection, login) != kept:
            raise SignInRefused(_REFUSED)  # Ended or changed while the hash was computed.
        if stronger is not None:
            _write(books, connection, stronger)
        forgive(connection, login)
        return open_session(books, connection, kept.person, "password", old_session)


def _is_open(connection: Connection, person: str, session: str | None) -> bool:
    """Whether a session of somebody has not been ended; true where none is named."""
    if session is None:
        return True
    table = tables.sessions
    asked = select(table.c.person).where(table.c.hash == digest(session), table.c.person == person)
    return connection.scalar(asked) is not None


def _kept(connection: Connection, login: str) -> _Kept | None:
    key = login.strip().lower()
    if not key.isascii() or "\0" in key:
        return None
    table, people = tables.passwords, tables.principals
    asked = (
        select(table)
        .join(people, people.c.id == table.c.person)
        .where(people.c.login == key, people.c.ended_at.is_(None))
    )
    row = connection.execute(asked).one_or_none()
    if row is None:
        return None
    return _Kept(row.person, bytes(row.salt), Cost(row.n, row.r, row.p), bytes(row.hash))


def _made(person: str, password: str, cost: Cost) -> _Kept:
    """Return a password as it is kept; an empty one fits nothing and costs as much to find out."""
    salt = secrets.token_bytes(16)
    if not password:
        return _Kept(person, salt, cost, secrets.token_bytes(32))
    return _Kept(person, salt, cost, cost.hash(password, salt))


def _write(books: Books, connection: Connection, kept: _Kept) -> None:
    table, cost = tables.passwords, kept.cost
    connection.execute(delete(table).where(table.c.person == kept.person))
    row = {"person": kept.person, "salt": kept.salt, "hash": kept.hash, "set_at": books.clock()}
    connection.execute(insert(table).values(**row, n=cost.n, r=cost.r, p=cost.p))


def _text(what: str, value: object) -> str:
    """Return a text that came from a form; a longer one than any password is cut short here."""
    if not isinstance(value, str):
        raise InvalidInput(f"{what}: expected a text, got {shown(type(value).__name__)}")
    if len(value) > LONGEST:
        raise InvalidInput(f"{what}: expected at most {LONGEST} characters, got {len(value)}")
    return value


def _check(password: object, names: tuple[str, ...]) -> None:
    """Refuse a password that is too short or too plain; the sentence never repeats it."""
    text = _text("password", password)
    if len(text) < SHORTEST:
        raise InvalidInput(
            f"password: expected at least {SHORTEST} characters, got {len(text)}; several words "
            "make a good one"
        )
    if len(set(text)) < 5 or text.lower() in {name.lower() for name in names}:
        raise InvalidInput("password: expected one that is harder to guess")
