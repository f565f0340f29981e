"""The database as access uses it: short transactions, one change at a time, each one logged."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Engine, Update, insert, select, update
from sqlalchemy.exc import IntegrityError

from gdcb.errors import StoreError
from gdcb.ledger.engines import WRITING
from gdcb.ledger.trouble import told
from gdcb.service.access import tables
from gdcb.service.access.roles import Principal

SECOND = 1_000_000
_NAME = "csrf"
_WHERE = "the database of access"


def now() -> int:
    """Return the time in µs since the epoch, UTC."""
    return time.time_ns() // 1000


def writing(engine: Engine) -> AbstractContextManager[Connection]:
    """Open a transaction that means to write: on SQLite it waits for its turn at once."""
    return engine.execution_options(**{WRITING: True}).begin()


@dataclass(slots=True)
class Books:
    """Who there is and what they may do, in one database; every function of access takes it first.

    Parameters
    ----------
    engine : SQLite or PostgreSQL, with the tables in it
    secret : 32 random bytes of this database, under which form tokens are made
    clock : the time in µs since the epoch
    state : another object after each change that this process made; whoever keeps answers drops
        them then
    """

    engine: Engine
    secret: bytes = field(repr=False)
    clock: Callable[[], int] = now
    state: object = field(default_factory=object, repr=False)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Read what all processes have committed."""
        with told(_WHERE), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def counting(self) -> Iterator[Connection]:
        """Write what changes nobody's rights, a count of tries, say."""
        with told(_WHERE), writing(self.engine) as connection:
            yield connection

    def mark(self, statement: Update) -> None:
        """Write down that something was used, if the database can write just now.

        When a key was last used is information: it must not turn an auditor away while the disk is
        full. An unmarked session idles out, which is the safe side.
        """
        with suppress(StoreError), self.counting() as connection:
            connection.execute(statement)

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """Change rights, one process at a time; nothing is kept where the block raises.

        What is checked first ('somebody else can still administer') stays true until the commit:
        the update takes the row's lock on PostgreSQL, and the write lock on SQLite.
        """
        row = tables.secret
        with told(_WHERE), writing(self.engine) as connection:
            connection.execute(update(row).where(row.c.name == _NAME).values(name=_NAME))
            yield connection
        self.state = object()

    def write(
        self, connection: Connection, by: Principal | str, what: str, **detail: object
    ) -> None:
        """Add a line to the log of access, in the transaction of the change that it tells of."""
        who = by if isinstance(by, str) else by.id
        text = json.dumps(detail, ensure_ascii=False, sort_keys=True)
        line = {"at": self.clock(), "by": who, "what": what, "detail": text}
        connection.execute(insert(tables.log).values(line))


@dataclass(frozen=True, slots=True)
class Line:
    """What changed in access: when, by whom (a principal's id), what, and its particulars."""

    n: int
    at: int
    by: str
    what: str
    detail: dict[str, Any]


def open_books(engine: Engine, clock: Callable[[], int] = now) -> Books:
    """Return the books of a database whose tables are there; its secret is made at the first time.

    Examples
    --------
    >>> from sqlalchemy import StaticPool, create_engine
    >>> engine = create_engine("sqlite://", poolclass=StaticPool)
    >>> tables.create_tables(engine)
    >>> open_books(engine).secret == open_books(engine).secret
    True
    """
    row = tables.secret
    asked = select(row.c.value).where(row.c.name == _NAME)
    with told(_WHERE), engine.connect() as connection:
        found = connection.scalar(asked)
    if found is None:
        # Where another process starts at the same moment, one of the two secrets stays.
        with suppress(IntegrityError), told(_WHERE), writing(engine) as connection:
            made = secrets.token_bytes(32)
            connection.execute(insert(row).values(name=_NAME, value=made))
        with told(_WHERE), engine.connect() as connection:
            found = connection.scalar(asked)
    assert found is not None
    return Books(engine, found, clock)


def read_log(books: Books, after: int = 0, most: int = 1000) -> list[Line]:
    """Return lines of the log in their order, from the one behind number `after` on."""
    log = tables.log
    asked = select(log).where(log.c.n > after).order_by(log.c.n).limit(most)
    with books.reading() as connection:
        rows = connection.execute(asked).all()
    return [Line(row.n, row.at, row.by, row.what, json.loads(row.detail)) for row in rows]
