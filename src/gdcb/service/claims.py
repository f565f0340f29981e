"""Who has taken a held decision to look at, and until when: a lease, which ends by itself."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from gdcb.errors import Conflict
from gdcb.ledger.sql import SqlStore
from gdcb.service.tables import claims
from gdcb.service.who import is_same, name_of

_LARGE = 2**16
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Claim:
    """That somebody looks at a decision, until a time (µs)."""

    id: str
    by: str
    until: int


class Claims:
    """Leases in the database, so that all processes see them.

    A claim is courtesy, not a lock: exactly one answer counts whoever has claimed what. Answers of
    others are refused while a lease runs, so that two people do not do the same work.
    """

    def __init__(self, store: SqlStore, clock: Callable[[], int]) -> None:
        self._store, self._clock = store, clock

    def claim(self, chain: str, id: str, by: str, lease_s: float) -> Claim:
        """Take a decision, or go on having it; Conflict where somebody else has it."""
        at = self._clock()
        made = Claim(id, by, at + round(lease_s * 1e6))
        holders = [by]
        for _ in range(_TRIES):
            with self._store.transaction() as connection:
                # One statement: between a look and a write another process could take it too.
                if self._take(connection, chain, made, at, holders):
                    return made
            found = self.of(chain, [id]).get(id)
            if found is None:
                continue  # it was given back in the meantime
            if not is_same(found.by, by):
                raise Conflict(f"{name_of(found.by)} has claimed decision {id}")
            holders = [by, found.by]  # the same person, under another name
        raise Conflict(f"decision {id} changes hands; claim it again")

    @staticmethod
    def _take(
        connection: Connection, chain: str, made: Claim, at: int, holders: Sequence[str]
    ) -> bool:
        values = {"by": made.by, "until": made.until}
        is_sqlite = connection.dialect.name == "sqlite"
        insert_ = (sqlite_insert if is_sqlite else postgresql_insert)(claims)
        done = connection.execute(
            insert_.values(chain=chain, id=made.id, **values)
            .on_conflict_do_update(
                index_elements=[claims.c.chain, claims.c.id],
                set_=values,
                where=(claims.c.until <= at) | claims.c.by.in_(list(holders)),
            )
            .returning(claims.c.id)
        )
        return done.first() is not None

    def release(self, chain: str, id: str, by: str) -> bool:
        """Give a decision back; returns whether one had it."""
        with self._store.transaction() as connection:
            row = connection.execute(
                select(claims.c.by).where(claims.c.chain == chain, claims.c.id == id)
            ).first()
            if row is None or not is_same(row.by, by):
                return False
            theirs = (claims.c.chain == chain) & (claims.c.id == id) & (claims.c.by == row.by)
            connection.execute(delete(claims).where(theirs))
        return True

    def of(self, chain: str, ids: Sequence[str] | None = None) -> dict[str, Claim]:
        """Return the leases that run, of some decisions or of all."""
        asked = select(claims.c.id, claims.c.by, claims.c.until).where(
            claims.c.chain == chain, claims.c.until > self._clock()
        )
        if ids is not None:
            asked = asked.where(claims.c.id.in_(list(ids)))
        with self._store.connecting() as connection:
            return {row.id: Claim(row.id, row.by, row.until) for row in connection.execute(asked)}

    def check(self, chain: str, ids: Sequence[str], by: str) -> None:
        """Refuse an answer to what somebody else has claimed."""
        for claim in self.of(chain, ids).values():
            if not is_same(claim.by, by):
                raise Conflict(f"{name_of(claim.by)} has claimed decision {claim.id}")

    def try_writing(self) -> None:
        """Write a lease of nobody, as large as a decision, and delete it; raises what is wrong."""
        name = f"probe {secrets.token_hex(8)}"
        with self._store.transaction() as connection:
            connection.execute(insert(claims).values(chain="", id=name, by="-" * _LARGE, until=0))
        with self._store.transaction() as connection:
            connection.execute(delete(claims).where(claims.c.chain == "", claims.c.until == 0))

    def tidy(self) -> None:
        """Forget leases that are over."""
        with self._store.transaction() as connection:
            connection.execute(delete(claims).where(claims.c.until <= self._clock()))
