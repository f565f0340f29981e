"""API keys: add, list, revoke. A key is shown once; the database has its hash."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hmac import compare_digest

from sqlalchemy import delete, insert, select, update

from gdcb.errors import InvalidInput
from gdcb.service.access import tables
from gdcb.service.access.books import SECOND, Books
from gdcb.service.access.names import clean, shown
from gdcb.service.access.people import (
    find,
    grants_of,
    must_administer,
    must_administer_all,
    visible,
)
from gdcb.service.access.roles import FOR_KEYS, Grant, Principal, grants
from gdcb.service.access.sessions import MARK_EVERY, Found
from gdcb.service.access.tokens import NewKey, digest, new_key

DAY = 86_400
_LONGEST = 3650 * DAY


@dataclass(frozen=True, slots=True)
class Key:
    """A key as a list shows it; times in µs since the epoch, None: never."""

    id: str
    name: str
    grants: frozenset[Grant]
    made_at: int
    made_by: str
    expires_at: int | None
    used_at: int | None
    ended_at: int | None


def add_key(
    books: Books,
    by: Principal,
    name: str,
    given: Iterable[tuple[str, str]],
    lasts_s: float | None = 365 * DAY,
) -> NewKey:
    """Add an API key with roles, and return it: its text is shown this once.

    Parameters
    ----------
    books : the database
    by : who adds it; they administer every instance that is named in the roles
    name : what the key is for
    given : pairs of role and instance; no key approves or administers, since both need a person
    lasts_s : seconds until it expires; None: never
    """
    name, wanted = clean("name", name), grants(*given)
    if not wanted:
        raise InvalidInput("a key: expected at least one role on an instance, got none")
    for one in sorted(wanted):
        if one.role not in FOR_KEYS:
            raise InvalidInput(
                f"role: expected one of {', '.join(sorted(FOR_KEYS))} for a key, got "
                f"'{one.role}': that needs a person"
            )
    lasts = None if lasts_s is None else seconds("lasts_s", lasts_s, _LONGEST)
    must_administer(by, (one.instance for one in wanted))
    key = new_key()
    with books.changing() as connection:
        at = books.clock()
        until = None if lasts is None else at + lasts
        row = {"id": key.id, "kind": "key", "name": name, "made_at": at, "made_by": by.id}
        connection.execute(insert(tables.principals).values(row))
        kept = {"id": key.id, "hash": digest(key.text), "expires_at": until}
        connection.execute(insert(tables.keys).values(kept))
        held = [{"principal": key.id, "role": one.role, "instance": one.instance} for one in wanted]
        connection.execute(insert(tables.grants), held)
        books.write(
            connection,
            by,
            "key added",
            key=key.id,
            name=name,
            expires_at=until,
            grants=sorted(wanted),
        )
    return key


def revoke_key(books: Books, by: Principal, key: str) -> None:
    """End a key: here at once, in other processes as soon as they look again (`Door`)."""
    with books.changing() as connection:
        find(connection, key, "key")
        must_administer_all(connection, by, key)
        row = tables.principals
        ended = update(row).where(row.c.id == key).values(ended_at=books.clock())
        connection.execute(ended)
        connection.execute(delete(tables.grants).where(tables.grants.c.principal == key))
        books.write(connection, by, "key revoked", key=key)


def list_keys(books: Books, by: Principal) -> list[Key]:
    """Return keys in the order of their making: all to who administers '*', else those in reach.

    A key is in reach where it has a role on an instance that `by` administers, or where `by` made
    it. Its roles elsewhere are left out.
    """
    must_administer(by, ())
    row, key = tables.principals, tables.keys
    asked = (
        select(row, key.c.expires_at, key.c.used_at)
        .join(key, key.c.id == row.c.id)
        .order_by(row.c.made_at, row.c.id)
    )
    with books.reading() as connection:
        rows = connection.execute(asked).all()
        held = grants_of(connection, [row.id for row in rows])
    found = []
    for each in rows:
        some = visible(by, held.get(each.id, frozenset()))
        if some or each.made_by == by.id or by.may("administer", "*"):
            times = (each.made_at, each.made_by, each.expires_at, each.used_at, each.ended_at)
            found.append(Key(each.id, each.name, some, *times))
    return found


def find_key(books: Books, key: str, hashed: bytes) -> Found | None:
    """Return whose key has this id and hash, if it has not ended; marks it as used."""
    row, kept, at = tables.principals, tables.keys, books.clock()
    asked = (
        select(row.c.name, row.c.made_by, kept.c.hash, kept.c.expires_at, kept.c.used_at)
        .join(kept, kept.c.id == row.c.id)
        .where(row.c.id == key, row.c.ended_at.is_(None))
    )
    with books.reading() as connection:
        found = connection.execute(asked).one_or_none()
        if found is None or not compare_digest(bytes(found.hash), hashed):
            return None
        if found.expires_at is not None and found.expires_at <= at:
            return None
        held = grants_of(connection, [key]).get(key, frozenset())
    if found.used_at is None or at - found.used_at >= MARK_EVERY:
        books.mark(update(kept).where(kept.c.id == key).values(used_at=at))
    return Found(Principal(key, found.name, "key", held, found.made_by), found.expires_at)


def seconds(what: str, value: object, most: float) -> int:
    """Return seconds as µs; refuse what is no number, is not above 0, or is above `most`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
        raise InvalidInput(
            f"{what}: expected seconds above 0 and at most {most:g}, got {shown(value)}"
        )
    return int(value * SECOND)
