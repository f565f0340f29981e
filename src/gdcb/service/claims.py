"""Who has taken a held decision to look at, and until when: a lease, which ends by itself."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, insert, select

from gdcb.errors import Conflict
from gdcb.ledger.sql import SqlStore
from gdcb.service.tables import claims
from gdcb.service.who import is_same, name_of

_LARGE = 2**16


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
        with self._store.transaction() as connection:
            row = connection.execute(
                select(claims.c.by, claims.c.until).where(
                    claims.c.chain == chain, claims.c.id == id
                )
            ).first()
            if row is not None and row.until > at and not is_same(row.by, by):
                raise Conflict(f"{name_of(row.by)} has claimed decision {id}")
            connection.execute(delete(claims).where(claims.c.chain == chain, claims.c.id == id))
            connection.execute(insert(claims).values(chain=chain, id=id, by=by, until=made.until))
        return made

    def release(self, chain: str, id: str, by: str) -> bool:
        """Give a decision back; returns whether one had it."""
        with self._store.transaction() as connection:
            row = connection.execute(
                select(claims.c.by).where(claims.c.chain == chain, claims.c.id == id)
            ).first()
            if row is None or not is_same(row.by, by):
                return False
            connection.execute(delete(claims).where(claims.c.chain == chain, claims.c.id == id))
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
