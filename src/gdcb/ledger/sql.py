"""Chains in SQLite or PostgreSQL: one transaction an answer, committed before it is given."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Lock

import psycopg
from sqlalchemy import Connection, Engine, PoolProxiedConnection, delete, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from gdcb.errors import InvalidInput, StoreError
from gdcb.ledger import engines, queries
from gdcb.ledger.entry import Entry, check_names
from gdcb.ledger.migrate import bring_up
from gdcb.ledger.refusals import busy, check_range, refuse_missing
from gdcb.ledger.session import PostgresSession, Session, SqliteSession
from gdcb.ledger.sql_writing import SqlWriting
from gdcb.ledger.store import PATIENCE, Head, Key, Place, Snapshot, Touch, is_kept
from gdcb.ledger.tables import chains, snapshots
from gdcb.ledger.trouble import told

_PAGE = 1_000
_PAGE_BYTES = 2**22


class SqlStore:
    """Chains in a database; see `gdcb.ledger.store.Store`.

    It may be used by many threads, and after a fork. `connecting` and `transaction` are for tables
    that others keep in the same database.

    Parameters
    ----------
    url : as in `gdcb.ledger.store.open_store`
    patience : seconds to wait for a lock or for a connection
    """

    def __init__(self, url: str | Path, patience: float = PATIENCE) -> None:
        self._url = engines.parse(url)
        self._patience = patience
        self.where = engines.shown(self._url)
        self._inherited: list[Engine] = []
        self._start()
        try:
            bring_up(self.engine, self.where, self.transaction)
        except BaseException:
            self.close()
            raise

    @property
    def engine(self) -> Engine:
        """The database's connections; those of the process before a fork are not touched."""
        if self._pid != os.getpid():
            self._inherited.append(self._engine)
            self._start()
        return self._engine

    def _start(self) -> None:
        self._engine = engines.connect(self._url, self._patience)
        self._locks: dict[str, Lock] = {}
        self._pid = os.getpid()

    @contextmanager
    def writing(self, chain: str) -> Iterator[SqlWriting]:
        """Open a transaction: kept at the end, undone whole by an exception."""
        check_names("chain", (chain,))
        with self._alone(chain), self._session() as session:
            session.begin()
            writing = SqlWriting(chain, session)
            yield writing
            if writing.finish():
                session.commit()

    def chains(self) -> list[str]:
        """Return the names of all chains that have an entry, sorted."""
        with self.connecting() as connection:
            found = connection.scalars(select(chains.c.name).where(chains.c.size > 0))
            return sorted(found)

    def head(self, chain: str) -> Head:
        """Return how far a chain goes; `Head(0, GENESIS)` where there is none."""
        with self._session() as session:
            return queries.head(session, chain)

    def read(self, chain: str, start: int = 0, stop: int | None = None) -> Iterator[Entry]:
        """Read entries in order, page by page, in memory that does not grow with the chain."""
        check_range(start, stop)
        return self._read(chain, start, stop)

    def _read(self, chain: str, start: int, stop: int | None) -> Iterator[Entry]:
        is_last = False
        # A page that is not full is the end: a busy chain would else be read for ever.
        while not is_last:
            # No connection is held while the caller works on a page.
            with self._session() as session:
                end, is_last = queries.page(session, chain, start, stop, _PAGE, _PAGE_BYTES)
                found = queries.entries(session, chain, start, end) if end > start else []
            yield from found
            start = end

    def acts(self, chain: str, stop: int) -> list[Entry]:
        """Return the entries before `stop` that say which rules are in force, in order."""
        with self._session() as session:
            return queries.acts(session, chain, stop)

    def get(self, chain: str, seqs: Sequence[int]) -> list[Entry]:
        """Return entries by number, in the order asked for."""
        with self._session() as session:
            found = {entry.seq: entry for entry in queries.some_entries(session, chain, seqs)}
        refuse_missing(chain, (seq for seq in seqs if seq not in found))
        return [found[seq] for seq in seqs]

    def places(self, chain: str, requests: Sequence[str]) -> dict[str, Place]:
        """Return the places of those requests that have one."""
        with self._session() as session:
            return queries.places(session, chain, requests)

    def touches(self, chain: str, requests: Sequence[str]) -> list[Touch]:
        """Return all touches of requests, in the order of the entries."""
        with self._session() as session:
            return queries.touches(session, chain, requests)

    def near(self, chain: str, at: int) -> int:
        """Return the first number whose entry was at `at` or later; the size where none was."""
        with self._session() as session:
            return queries.near(session, chain, at)

    def put_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot; of the old ones the last few and the first of each stretch stay."""
        values = {"size": snapshot.size, "hash": snapshot.hash, "body": snapshot.body}
        with self.transaction() as connection:
            of_chain = snapshots.c.chain == snapshot.chain
            if not connection.scalar(select(chains.c.size).where(chains.c.name == snapshot.chain)):
                raise InvalidInput(f"a snapshot of chain '{snapshot.chain}', which has no entry")
            is_sqlite = connection.dialect.name == "sqlite"
            insert = (sqlite_insert if is_sqlite else postgresql_insert)(snapshots)
            key = [snapshots.c.chain, snapshots.c.size]
            connection.execute(
                insert.values(chain=snapshot.chain, **values).on_conflict_do_update(
                    index_elements=key, set_=values
                )
            )
            sizes = list(connection.scalars(select(snapshots.c.size).where(of_chain)))
            gone = [size for size in sizes if not is_kept(size, sizes)]
            connection.execute(delete(snapshots).where(of_chain, snapshots.c.size.in_(gone)))

    def snapshot(self, chain: str, at_most: int | None = None) -> Snapshot | None:
        """Return the latest snapshot, of at most `at_most` entries."""
        wanted = select(snapshots).where(snapshots.c.chain == chain)
        if at_most is not None:
            wanted = wanted.where(snapshots.c.size <= at_most)
        with self.connecting() as connection:
            row = connection.execute(wanted.order_by(snapshots.c.size.desc()).limit(1)).first()
        return None if row is None else Snapshot(row.chain, row.size, row.hash, row.body)

    def keys(self, chain: str, names: Sequence[str]) -> list[Key]:
        """Return those of the keys with these names that were not destroyed."""
        with self._session() as session:
            return queries.keys(session, chain, "key", names)

    def scrub(self) -> bool:
        """Overwrite what was deleted, as far as the database can; return whether it could now.

        SQLite overwrites deleted rows by itself; here its write-ahead log is emptied. PostgreSQL
        writes the table of keys anew. What stands in the way is no error: the rows are deleted.
        """
        is_sqlite = self.engine.dialect.name == "sqlite"
        try:
            with told(self.where), self.engine.connect() as connection:
                alone = connection.execution_options(isolation_level="AUTOCOMMIT")
                if not is_sqlite:
                    alone.exec_driver_sql("VACUUM (FULL) subject_keys")
                    return True
                is_busy = alone.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").scalar()
                return not is_busy
        except StoreError:
            return False

    def close(self) -> None:
        """Let go of files and connections."""
        if self._pid == os.getpid():
            self._engine.dispose()

    @contextmanager
    def connecting(self) -> Iterator[Connection]:
        """Lend a SQLAlchemy connection to read with; errors are said in our words."""
        with told(self.where), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Lend a SQLAlchemy connection in a transaction that may write; not within `writing`."""
        is_sqlite = self.engine.dialect.name == "sqlite"
        with (
            self._alone("") if is_sqlite else nullcontext(),
            told(self.where),
            self.engine.connect() as connection,
        ):
            connection = connection.execution_options(**{engines.WRITING: True})
            with connection.begin():
                yield connection

    @contextmanager
    def _alone(self, chain: str) -> Iterator[None]:
        """Wait for the writers of this process; SQLite has one for all chains."""
        key = "" if self.engine.dialect.name == "sqlite" else chain
        lock = self._locks.setdefault(key, Lock())
        if not lock.acquire(timeout=self._patience):
            raise busy(chain or self.where, self._patience)
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def _session(self) -> Iterator[Session]:
        """Lend a connection at the level of its driver; what it did not keep is undone."""
        with told(self.where):
            lent = self.engine.raw_connection()
        session = _session_of(lent, self.where)
        try:
            yield session
        finally:
            if session.undo():
                lent.close()
            else:
                lent.invalidate()


def _session_of(lent: PoolProxiedConnection, where: str) -> SqliteSession | PostgresSession:
    connection = lent.driver_connection
    if isinstance(connection, sqlite3.Connection):
        return SqliteSession(connection, where, engines.files_of(lent.info))
    if isinstance(connection, psycopg.Connection):
        return PostgresSession(connection, where)
    raise StoreError(f"{where}: expected a connection, got {connection!r}")
