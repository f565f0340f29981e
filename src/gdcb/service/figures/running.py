"""What the entries of a chain say of it as a whole, brought up to date as they come."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from gdcb import events as ev
from gdcb.codec import from_body
from gdcb.errors import StoreError
from gdcb.instance import Instance
from gdcb.ledger.entry import Entry
from gdcb.service.figures.drifting import Drift
from gdcb.service.figures.hours import Hours
from gdcb.service.figures.window import ROWS, Window

log = logging.getLogger("gdcb.service")


@dataclass(frozen=True, slots=True)
class Certified:
    """The certificate of the last log that was judged: when, whether it was taken, and itself."""

    at: int
    is_taken: bool
    document: dict[str, Any]


@dataclass(slots=True)
class Running:
    """Figures of one chain; each entry is taken once, in order.

    What is kept does not grow with the chain: the latest decisions, counts of the last month by
    the hour, the monitors, and the decisions that wait. Events about decisions that are no longer
    here are left out.

    Parameters
    ----------
    instance : whose chain it is
    first : number of the first entry that is taken
    next : number of the entry that comes next
    rows : decisions that are kept at most
    read : reads an entry's event; a chain with personal fields gives one that opens them
    has_erased : whether a subject was erased, whose fields are still here
    unread : the first entry that could not be read or taken, and how many there were; it is left
        out, so that one spoilt entry does not hide the rest
    """

    instance: Instance
    first: int = 0
    rows: int = ROWS
    read: Callable[[Entry], ev.Event] = field(
        default=lambda entry: from_body(entry.kind, entry.body)
    )
    next: int = field(init=False)
    window: Window = field(init=False)
    hours: Hours = field(init=False)
    drift: Drift = field(init=False)
    certified: Certified | None = None
    has_erased: bool = False
    unread: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self.next = self.first
        self.window = Window(self.instance, self.rows)
        self.hours = Hours(self.instance.chain)
        self.drift = Drift(self.instance, self.first)

    @property
    def is_whole(self) -> bool:
        """Whether every decision of the chain is in the figures."""
        return self.first == 0 and self.window.n_made <= self.window.size

    def follow(self, entries: Iterable[Entry]) -> None:
        """Take entries that come next."""
        for entry in entries:
            self._tried(entry, self.take)
            self.next = entry.seq + 1

    def certify(self, entry: Entry) -> None:
        """Take a certificate that stands before the first entry."""
        self._tried(entry, self.note)

    def _tried(self, entry: Entry, take: Callable[[ev.Event, int], None]) -> None:
        try:
            take(self.read(entry), entry.at)
        except StoreError:  # it is away, and the entry may be as it was
            raise
        except Exception as error:  # whatever bytes that somebody changed may do
            log.warning("figures: entry %d cannot be read: %s", entry.seq, error)
            first, n = self.unread or (entry.seq, 0)
            self.unread = first, n + 1

    def take(self, event: ev.Event, at: int) -> None:
        """Take one event."""
        window = self.window
        if isinstance(event, ev.DecisionMade):
            window.made(event, at)
            self.hours.made(event, at)
        elif isinstance(event, ev.GateApplied):
            window.judged(event)
            self.hours.judged(event, at)
        elif isinstance(event, ev.ActionExecuted):
            window.ran(event, at)
        elif isinstance(event, ev.OutcomeObserved):
            window.seen(event)
        elif isinstance(event, ev.OutcomeCorrected):
            window.corrected(event)
        else:
            self.note(event, at)
        self.drift.take(event, window, at)

    def note(self, event: ev.Event, at: int) -> None:
        """Remember a certificate, and that something must be forgotten."""
        if isinstance(event, ev.SubjectErased):
            self.has_erased = True
        if isinstance(event, ev.HistoryImported | ev.CertificateGiven):
            is_taken = isinstance(event, ev.HistoryImported)
            self.certified = Certified(at, is_taken, event.certificate)
