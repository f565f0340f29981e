"""The outbox's rows: which hook is due, who sends for it, how far it has come.

Several processes may share a database. One sends for a hook at a time: it has a lease, a name and
a time in the hook's row, and all it writes there it writes only while the row bears its name. A
process that dies leaves a lease that runs out.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Update, select, update

from gdcb.ledger.sql import SqlStore
from gdcb.ledger.tables import chains
from gdcb.service.tables import hooks
from gdcb.service.webhooks.hooks import read_trouble, trouble
from gdcb.service.webhooks.signing import Secrets

SECOND = 1_000_000
# Longer than a POST and the look-up of a name take together.
LEASE = 120 * SECOND
LONGEST_WAIT = 3_600
GIVES_UP = 3 * 86_400 * SECOND


class LeaseLost(Exception):
    """Somebody else sends for this hook now, or it is gone or off: leave it alone."""


@dataclass(slots=True)
class Job:
    """A hook that has something to tell, as its row was when it was read."""

    id: str
    chain: str
    url: str
    kinds: tuple[str, ...]
    secrets: Secrets
    cursor: int
    failures: int
    leased_until: int


class Leases:
    """Leases of one sender.

    Parameters
    ----------
    store : the database
    name : of the sender; no other has it
    """

    def __init__(self, store: SqlStore, name: str) -> None:
        self._store, self.name = store, name
        self._random = random.SystemRandom()

    def due(self, now: int) -> list[Job]:
        """Return the hooks behind which there are entries, and for which nobody else sends."""
        asked = (
            select(hooks)
            .join(chains, chains.c.name == hooks.c.chain)
            .where(
                hooks.c.is_on.is_(True),
                hooks.c.next_at <= now,
                hooks.c.cursor < chains.c.size,
                (hooks.c.leased_until <= now) | (hooks.c.leased_by == self.name),
            )
            .order_by(hooks.c.next_at, hooks.c.id)
        )
        with self._store.connecting() as connection:
            return [_job(row, 0) for row in connection.execute(asked)]

    def skip(self, job: Job, cursor: int, now: int) -> bool:
        """Pass over entries that are none of a hook's business; False where somebody sends for it.

        No lease is needed for it: nothing is sent, and whoever was first has said the same.
        """
        nobody = (hooks.c.leased_until <= now) | (hooks.c.leased_by == self.name)
        this = (hooks.c.id == job.id) & (hooks.c.cursor == job.cursor)
        with self._store.transaction() as connection:
            done = connection.execute(update(hooks).where(this, nobody).values(cursor=cursor))
        return done.rowcount > 0

    def take(self, id: str, now: int) -> Job | None:
        """Take a hook's lease; None where somebody else has it, or it is not due any more."""
        until = now + LEASE
        with self._store.transaction() as connection:
            done = connection.execute(
                update(hooks)
                .where(
                    hooks.c.id == id,
                    hooks.c.is_on.is_(True),
                    hooks.c.next_at <= now,
                    (hooks.c.leased_until <= now) | (hooks.c.leased_by == self.name),
                )
                .values(leased_by=self.name, leased_until=until)
            )
            if not done.rowcount:
                return None
            row = connection.execute(select(hooks).where(hooks.c.id == id)).one()
        return _job(row, until)

    def extend(self, job: Job, now: int) -> None:
        """Go on having a lease, where less than half of it is left."""
        if job.leased_until - now < LEASE // 2:
            self._write(self._ours(job).values(leased_until=now + LEASE))
            job.leased_until = now + LEASE

    def move(self, job: Job, cursor: int, now: int) -> None:
        """Write down that everything before `cursor` was received, and that all is well."""
        well = {"failures": 0, "next_at": 0, "last_error": ""}
        moved = self._ours(job).values(cursor=cursor, leased_until=now + LEASE, **well)
        self._write(moved)
        job.cursor, job.failures, job.leased_until = cursor, 0, now + LEASE

    def fail(self, job: Job, now: int, says: str) -> bool:
        """Write a failure down, and when to try again; returns whether the hook goes on."""
        with self._store.connecting() as connection:
            kept = connection.scalar(select(hooks.c.last_error).where(hooks.c.id == job.id))
        since, _ = read_trouble(kept or "")
        since = now if since is None else since
        is_on = now - since < GIVES_UP
        failures = job.failures + 1
        self._write(
            self._ours(job).values(
                failures=failures,
                next_at=now + round(self._wait(failures) * SECOND),
                last_error=trouble(since, says),
                is_on=is_on,
                leased_by="",
                leased_until=0,
            )
        )
        return is_on

    def _wait(self, failures: int) -> float:
        """Return seconds until the next try: twice as many each time, up to an hour.

        Between half of it and all of it, by chance: receivers that went down together are not
        all called again at the same moment.
        """
        longest = min(LONGEST_WAIT, 2.0 ** min(failures, 20))
        return longest * (0.5 + 0.5 * self._random.random())

    def give_back(self, job: Job) -> None:
        """Let others send for a hook."""
        with self._store.transaction() as connection:
            connection.execute(self._ours(job).values(leased_by="", leased_until=0))

    def _ours(self, job: Job) -> Update:
        this = (hooks.c.id == job.id) & (hooks.c.leased_by == self.name)
        return update(hooks).where(this, hooks.c.cursor == job.cursor)

    def _write(self, change: Update) -> None:
        with self._store.transaction() as connection:
            if not connection.execute(change).rowcount:
                raise LeaseLost


def _job(row: Any, until: int) -> Job:
    kinds, kept = tuple(row.kinds.split(",")), Secrets.from_bytes(bytes(row.secret))
    return Job(row.id, row.chain, row.url, kinds, kept, row.cursor, row.failures, until)
