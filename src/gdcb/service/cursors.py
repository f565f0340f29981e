"""Up to which entry something has gone over a chain, kept in the database for who comes next."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from gdcb.ledger.sql import SqlStore
from gdcb.service.tables import cursors


class Cursors:
    """Cursors of one kind, one a chain; they only ever go forward.

    Parameters
    ----------
    store : where they are kept
    name : of what they are, such as 'windows'
    """

    def __init__(self, store: SqlStore, name: str) -> None:
        self._store, self._name = store, name

    def of(self, chain: str) -> int | None:
        """Return the first entry that is still to be gone over; None: nothing was yet."""
        asked = select(cursors.c.seq).where(cursors.c.chain == chain, cursors.c.name == self._name)
        with self._store.connecting() as connection:
            found = connection.scalar(asked)
        return None if found is None else int(found)

    def put(self, chain: str, seq: int) -> None:
        """Keep a cursor, unless another process is further already."""
        with self._store.transaction() as connection:
            is_sqlite = connection.dialect.name == "sqlite"
            insert = (sqlite_insert if is_sqlite else postgresql_insert)(cursors)
            connection.execute(
                insert.values(chain=chain, name=self._name, seq=seq).on_conflict_do_update(
                    index_elements=[cursors.c.chain, cursors.c.name],
                    set_={"seq": seq},
                    where=cursors.c.seq < seq,
                )
            )
