"""Tidy up: leases, sessions, links and tries that are long over leave the database."""

from __future__ import annotations

import logging
from collections.abc import Callable

from gdcb.errors import GdcbError
from gdcb.service.access import Books, SessionLimits, tidy
from gdcb.service.claims import Claims

log = logging.getLogger("gdcb.service")
EVERY_US = 3600 * 1_000_000


class Tidying:
    """Delete once an hour what nobody can use any more; two processes do no more than one.

    Parameters
    ----------
    books, limits : sessions, links and tries to sign in, and when a session is over
    claims : leases of held decisions
    clock : µs since 1970
    """

    def __init__(
        self, books: Books, limits: SessionLimits, claims: Claims, clock: Callable[[], int]
    ) -> None:
        self._books, self._limits, self._claims, self._clock = books, limits, claims, clock
        self._due = 0

    def tick(self) -> bool:
        """Tidy up if an hour is over; return whether it was done. What fails waits an hour."""
        now = self._clock()
        if now < self._due:
            return False
        self._due = now + EVERY_US
        try:
            self._claims.tidy()
            tidy(self._books, self._limits)
        except GdcbError as error:  # the disk is full, or the database is away
            log.info("tidying up: %s", error)
            return False
        return True
