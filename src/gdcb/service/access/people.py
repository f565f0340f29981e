"""People and grants: add, list, grant, revoke, end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, insert, select, update

from gdcb.errors import Conflict, InvalidInput
from gdcb.service.access import tables
from gdcb.service.access.books import Books
from gdcb.service.access.errors import NotAllowed
from gdcb.service.access.names import clean, instance_name, login_name, shown
from gdcb.service.access.roles import CONSOLE, EVERY, FOR_KEYS, Grant, Principal, grants, role_name
from gdcb.service.access.tokens import new_id

_WHOLE = Grant("administer", EVERY)
# What only a person may do, and which roles already put as much trust in whoever has the account.
_TRUSTED = {"approve": ("approve", "administer"), "administer": ("administer",)}


@dataclass(frozen=True, slots=True)
class Person:
    """A person as a list shows them; times in µs since the epoch, None: never."""

    id: str
    login: str
    name: str
    grants: frozenset[Grant]
    made_at: int
    signed_in_at: int | None
    ended_at: int | None
    has_password: bool


def add_person(
    books: Books, by: Principal, login: str, name: str, given: Iterable[tuple[str, str]] = ()
) -> str:
    """Add a person with roles, and return their id; they sign in by a link (`make_link`).

    Parameters
    ----------
    books : the database
    by : who adds them; they administer every instance that is named in the roles
    login : unique, plain and in small letters
    name : what others read
    given : pairs of role and instance
    """
    login, name, wanted = login_name(login), clean("name", name), grants(*given)
    must_administer(by, (one.instance for one in wanted))
    with books.changing() as connection:
        if is_taken(connection, login):
            raise Conflict(f"login: '{login}' is taken; choose another")
        return write_person(books, connection, by, login, name, wanted)


def is_taken(connection: Connection, login: str) -> bool:
    """Return whether somebody has the login, or had it: a name in the ledger stays one person's."""
    people = tables.principals
    return connection.scalar(select(people.c.id).where(people.c.login == login)) is not None


def write_person(
    books: Books,
    connection: Connection,
    by: Principal,
    login: str,
    name: str,
    wanted: frozenset[Grant],
) -> str:
    """Write a checked person with their roles, and return their id."""
    person = new_id()
    row = {"id": person, "kind": "person", "name": name, "login": login}
    made = {"made_at": books.clock(), "made_by": by.id}
    connection.execute(insert(tables.principals).values(**row, **made))
    books.write(connection, by, "person added", person=person, login=login, name=name)
    for one in sorted(wanted):
        _add(books, connection, by, person, one)
    return person


def grant(books: Books, by: Principal, to: str, role: str, instance: str) -> bool:
    """Give a person or key a role on an instance; nothing happens where they have it.

    Nobody gives a role to themselves, else who administers would approve after all: where only one
    person administers, they add another who does it. Unused links to the person that another
    administrator made end: whoever made one could open it, and would gain the role.

    The first grant of 'approve' on an instance, and the first of 'administer', end all by which the
    account could be opened so far, its password and sessions too: whoever set the account up before
    may still hold them. It takes somebody who could make a link for the person, who then signs in
    by it. 'approve' ends nothing where they administer the instance already.

    Returns
    -------
    Whether password, sessions and links of the person have ended, so that a new link is due.
    """
    one = Grant(role_name(role), instance_name(instance))
    must_administer(by, [one.instance])
    if to == by.id:
        raise NotAllowed("nobody grants a role to themselves: ask another administrator")
    with books.changing() as connection:
        if find(connection, to) == "key" and one.role not in FOR_KEYS:
            raise InvalidInput(
                f"role: expected one of {', '.join(sorted(FOR_KEYS))} for a key, got "
                f"'{one.role}': that needs a person"
            )
        held = grants_of(connection, [to]).get(to, frozenset())
        if one in held:
            return False
        is_first = one.role in _TRUSTED and not any(
            has.role in _TRUSTED[one.role] and has.instance in (one.instance, EVERY) for has in held
        )
        _add(books, connection, by, to, one)
        if is_first:
            try:
                must_administer_all(connection, by, to)
            except NotAllowed as error:
                raise NotAllowed(
                    f"{error}: they have a role there, and the first grant of '{one.role}' ends "
                    "their password and sessions"
                ) from error
            _shut_out(connection, to)
            books.write(connection, by, "password, sessions and links ended", person=to)
            return True
        link = tables.links
        others = (link.c.used_at.is_(None), link.c.made_by.not_in((by.id, CONSOLE.id)))
        connection.execute(delete(link).where(link.c.person == to, *others))
        return False


def revoke(books: Books, by: Principal, of: str, role: str, instance: str) -> None:
    """Take a role from a person or key; Conflict where they do not have it."""
    one = Grant(role_name(role), instance_name(instance))
    must_administer(by, [one.instance])
    table = tables.grants
    with books.changing() as connection:
        find(connection, of)
        gone = connection.execute(
            delete(table).where(
                table.c.principal == of, table.c.role == one.role, table.c.instance == one.instance
            )
        )
        if not gone.rowcount:
            raise Conflict(
                f"{shown(of)} has no role '{one.role}' on {shown(one.instance)}: nothing to revoke"
            )
        books.write(connection, by, "revoked", of=of, role=one.role, instance=one.instance)
        if one == _WHOLE:
            _keep_one(connection, by)


def end_person(books: Books, by: Principal, person: str) -> None:
    """End a person's access at once: sessions, links and password go, the name stays."""
    with books.changing() as connection:
        find(connection, person, "person")
        must_administer_all(connection, by, person)
        held = grants_of(connection, [person]).get(person, frozenset())
        people = tables.principals
        ended = update(people).where(people.c.id == person).values(ended_at=books.clock())
        connection.execute(ended)
        _shut_out(connection, person)
        connection.execute(delete(tables.grants).where(tables.grants.c.principal == person))
        books.write(connection, by, "person ended", person=person)
        if _WHOLE in held:
            _keep_one(connection, by)


def list_people(books: Books, by: Principal) -> list[Person]:
    """Return all people by login, each with the roles on those instances that `by` administers."""
    must_administer(by, ())
    with books.reading() as connection:
        rows = connection.execute(_asked().order_by(tables.principals.c.login)).all()
        held = grants_of(connection, [row.id for row in rows])
    return [_person(row, visible(by, held.get(row.id, frozenset()))) for row in rows]


def person_of(books: Books, by: Principal) -> Person:
    """Return a person as they see themselves: their login, and every role of theirs."""
    with books.reading() as connection:
        find(connection, by.id, "person")
        row = connection.execute(_asked().where(tables.principals.c.id == by.id)).one()
        return _person(row, grants_of(connection, [by.id]).get(by.id, frozenset()))


def _asked() -> Select[Any]:
    """Return what is asked about people, without an order."""
    people, words = tables.principals, tables.passwords
    return (
        select(people, words.c.person.is_not(None).label("has_password"))
        .outerjoin(words, words.c.person == people.c.id)
        .where(people.c.kind == "person")
    )


def _person(row: Row[Any], held: frozenset[Grant]) -> Person:
    times = (row.made_at, row.signed_in_at, row.ended_at)
    return Person(row.id, row.login, row.name, held, *times, bool(row.has_password))


def person_by_login(books: Books, login: str) -> str:
    """Return the id of a person whose access has not ended, for the command line."""
    login, people = login_name(login), tables.principals
    asked = select(people.c.id).where(people.c.login == login, people.c.ended_at.is_(None))
    with books.reading() as connection:
        found = connection.scalar(asked)
    if found is None:
        raise InvalidInput(f"login: expected that of a person, got '{login}'")
    return str(found)


def must_administer(by: Principal, instances: Iterable[str]) -> None:
    """Refuse where `by` does not administer each of the instances, or none at all."""
    if not any(one.role == "administer" for one in by.grants):
        raise NotAllowed("this needs the role 'administer'; you have it on no instance")
    for instance in instances:
        if not by.may("administer", instance):
            what = "every instance ('*')" if instance == EVERY else shown(instance)
            raise NotAllowed(f"this needs the role 'administer' on {what}")


def must_administer_all(connection: Connection, by: Principal, whose: str) -> None:
    """Refuse where somebody has a role outside of what `by` administers.

    Else who administers one instance could make a link for a colleague, sign in as them, and reach
    the colleague's other instances.
    """
    held = grants_of(connection, [whose]).get(whose, frozenset())
    must_administer(by, (one.instance for one in sorted(held)))


def visible(by: Principal, held: frozenset[Grant]) -> frozenset[Grant]:
    """Return the grants on instances that `by` administers."""
    return frozenset(one for one in held if by.may("administer", one.instance))


def grants_of(connection: Connection, whose: list[str]) -> dict[str, frozenset[Grant]]:
    """Return the grants of principals, by their ids."""
    table = tables.grants
    rows = connection.execute(select(table).where(table.c.principal.in_(whose)))
    held: dict[str, set[Grant]] = {}
    for row in rows:
        held.setdefault(row.principal, set()).add(Grant(row.role, row.instance))
    return {who: frozenset(some) for who, some in held.items()}


def find(connection: Connection, who: object, kind: str = "") -> str:
    """Return the kind of a principal whose access has not ended, or say what was expected."""
    people, found = tables.principals, None
    if isinstance(who, str) and who.isascii() and "\0" not in who:
        asked = select(people.c.kind).where(people.c.id == who, people.c.ended_at.is_(None))
        found = connection.scalar(asked)
    if found is None or (kind and found != kind):
        raise InvalidInput(f"expected the id of a {kind or 'person or key'}, got {shown(who)}")
    return str(found)


def _shut_out(connection: Connection, person: str) -> None:
    """Delete all by which a person's account can be opened."""
    for table in (tables.sessions, tables.links, tables.passwords):
        connection.execute(delete(table).where(table.c.person == person))


def _add(books: Books, connection: Connection, by: Principal, to: str, one: Grant) -> None:
    row = {"principal": to, "role": one.role, "instance": one.instance}
    connection.execute(insert(tables.grants).values(row))
    books.write(connection, by, "granted", to=to, role=one.role, instance=one.instance)


def _keep_one(connection: Connection, by: Principal) -> None:
    """Refuse a change after which nobody administers every instance.

    The command line may (`gdcb access end`): it is how a sole administrator who is no longer
    trusted is put out, and the next start makes a first link again.
    """
    table = tables.grants
    left = select(table.c.principal).where(
        table.c.role == _WHOLE.role, table.c.instance == _WHOLE.instance
    )
    if by is not CONSOLE and connection.scalar(left.limit(1)) is None:
        raise Conflict("then nobody could administer: grant 'administer' on '*' to another first")
