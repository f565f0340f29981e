"""Lock-out: a login that was tried too often in a row has to wait, longer each time."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from sqlalchemy import Connection, delete, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from gdcb.service.access import tables
from gdcb.service.access.books import SECOND, Books
from gdcb.service.access.errors import TooMany


@dataclass(frozen=True, slots=True)
class LockOut:
    """How failed tries lock a login: after `free` in a row, for `first_s`, then twice that, ….

    The lock is in the database, so that all processes share it, and it falls on logins that nobody
    has, too. It shuts out the right password as well; a one-time link still works. `forgiven_s`
    without a try forgives.
    """

    free: int = 5
    first_s: float = 30.0
    most_s: float = 3600.0
    forgiven_s: float = 86_400.0

    def wait_s(self, n: int) -> float:
        """Return for how long the n-th try in a row locks.

        Examples
        --------
        >>> [LockOut().wait_s(n) for n in (4, 5, 6, 7, 50)]
        [0.0, 30.0, 60.0, 120.0, 3600.0]
        """
        if n < self.free:
            return 0.0
        return min(self.most_s, self.first_s * 2.0 ** min(n - self.free, 60))


def count_try(books: Books, login: str, rule: LockOut) -> float:
    """Count a try before it is judged, and return for how long it locks; TooMany while locked.

    Counted first and taken back on success: else a thousand tries at once would all be judged
    before the first of them is counted.
    """
    table, at, key = tables.tries, books.clock(), _key(login)
    with books.counting() as connection:
        # The first statement writes, and so makes others who try this login wait for the commit.
        hold = update(table).where(table.c.login == key).values(login=key)
        if not connection.execute(hold).rowcount:
            _start(connection, key, at)
            connection.execute(hold)
        row = connection.execute(select(table).where(table.c.login == key)).one()
        if at < row.locked_until:
            raise TooMany("tries for this login", (row.locked_until - at) / SECOND)
        n = 1 if at - row.at > rule.forgiven_s * SECOND else row.n + 1
        wait = rule.wait_s(n)
        new = {"n": n, "at": at, "locked_until": at + int(wait * SECOND)}
        connection.execute(update(table).where(table.c.login == key).values(new))
    return wait


def _start(connection: Connection, key: bytes, at: int) -> None:
    """Add a login without tries; who comes second waits here for the first, and finds it there."""
    row = {"login": key, "n": 0, "at": at, "locked_until": 0}
    table = tables.tries
    if connection.dialect.name == "postgresql":
        connection.execute(postgresql_insert(table).values(row).on_conflict_do_nothing())
    else:
        connection.execute(sqlite_insert(table).values(row).on_conflict_do_nothing())


def forgive(connection: Connection, login: str) -> None:
    """Forget the tries of a login, after the right password."""
    connection.execute(delete(tables.tries).where(tables.tries.c.login == _key(login)))


def _key(login: str) -> bytes:
    """Return what stands for a login: people type passwords into the wrong field."""
    return sha256(login.strip().lower().encode("utf-8", "surrogatepass")).digest()
