"""One transaction of a desk: commands look, refuse, and only then add events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from secrets import token_hex

from gdcb import events as ev
from gdcb.cases import about
from gdcb.codec import leaves, to_body
from gdcb.errors import Conflict
from gdcb.ledger import merkle
from gdcb.ledger.entry import Draft
from gdcb.ledger.indexing import slot_name
from gdcb.ledger.live import Live
from gdcb.ledger.sealing import Worded
from gdcb.ledger.store import Place, Touch, Writing
from gdcb.ledger.story import request_of
from gdcb.service.policy import Policy, policy_of


class TooLate(Conflict):
    """It came after its time: an approval after the deadline, an outcome after its window."""


def new_nonce() -> str:
    """Draw 128 bits that nobody can know before, as text."""
    return token_hex(16)


@dataclass(slots=True)
class Turn:
    """What commands see of an instance inside one transaction, and what they add to it.

    Parameters
    ----------
    live : the fold, brought up to the head of the chain
    policy : how the service runs it
    now : time of the command that runs, µs; its events have it
    writing : the store's transaction; None where nothing will be written
    until : when the first deadline of an answer in it passes, µs; None: there is none
    nonce : draws a text that nobody can have known before
    """

    live: Live
    policy: Policy
    now: int
    writing: Writing | None = None
    nonce: Callable[[], str] = new_nonce
    drafts: list[Draft] = field(default_factory=list)
    until: int | None = None
    _fresh: set[str] = field(default_factory=set)
    _keys: dict[str, str] = field(default_factory=dict)

    def commit_before(self, deadline: int | None) -> None:
        """Have the transaction undone where it is not written before a deadline; None: none."""
        if deadline is not None:
            self.until = deadline if self.until is None else min(self.until, deadline)

    def check_time(self, now: int) -> None:
        """Refuse to write answers whose deadline has passed since they were checked."""
        if self.until is not None and now >= self.until:
            raise TooLate(
                "the deadline passed before the answer could be written; it does not count"
            )

    def add(self, event: ev.Event, by: str) -> int:
        """Append an event and fold it; return its number.

        What is personal in it is written under the keys of its subjects.
        """
        number = len(self.live.events)
        self._index(event, number)
        kind, root = type(event).__name__, b""
        written = self._worded(event)
        if event.columns:
            root = merkle.root(leaves(written))
        self.drafts.append(Draft(kind, to_body(written), root, self.now, by))
        self.live.take(event, self.now, by)
        if isinstance(event, ev.InstanceChanged):  # whoever comes next finds it in force
            self.policy = policy_of(self.live.declared.service, self.live.instance)
        return number

    def add_sealed(self, made: ev.DecisionMade, subjects: list[str], by: str) -> ev.DecisionMade:
        """Append decisions whose personal fields stand under their subjects' keys.

        Returns the event as it is read back, with its context whole.
        """
        if self.writing is None:
            raise Conflict("nothing may be decided in a look")
        live, at = self.live, self.live.instance.context.positions
        keys = live.sealer.keys_for(self.writing, subjects, live.erasures, self.now)
        columns = sorted({i for name in self.policy.personal for i in at[name]})
        written, read = live.sealer.sealed(made, columns, keys)
        self._index(made, len(live.events))
        root = merkle.root(leaves(written))
        self.drafts.append(Draft("DecisionMade", to_body(written), root, self.now, by))
        self._keys = dict(zip(read.id, keys, strict=True))
        live.take(read, self.now, by)
        return read

    def _worded(self, event: ev.Event) -> ev.Event:
        """Return an event as it is written: reasons that may quote personal fields are sealed."""
        if not isinstance(event, Worded):
            return event
        keys = [self._key_of(id) for id in event.id]
        return self.live.sealer.worded(event, keys) if any(keys) else event

    def _key_of(self, id: str) -> str:
        """Return the key of a decision's subject; empty: it has none."""
        if id in self._fresh:
            return self._keys.get(id, "")
        record = self.live.records[id]
        return "" if record.made.key is None else record.made.key[record.at]

    def _index(self, event: ev.Event, number: int) -> None:
        stored = self.live.stored
        if isinstance(event, ev.DecisionMade):
            self._fresh, self._keys = set(event.id), {}
            first = 0
            for request, rows in groupby(event.batch):
                n = sum(1 for _ in rows)
                stored.places[request] = Place(request, number, first, n)
                first += n
            return
        is_told = isinstance(event, ev.ActionExecuted) and event.is_told
        if is_told or not isinstance(event, _AT_ONCE):
            self._fresh = set()  # from here on nothing stands right behind its decision
        for row, id in enumerate(about(event)):
            if id not in self._fresh:
                request, at, _ = request_of(id)
                answers = self.live.records[id].answers
                slot = slot_name(type(event).__name__, answers, number)
                stored.touches.append(Touch(request, at, slot, number, row))

    def write(self, writing: Writing) -> None:
        """Hand everything to the store's transaction."""
        stored = self.live.stored
        if self.drafts:
            writing.append(self.drafts)
            writing.add_places(list(stored.places.values()))
            writing.add_touches(stored.touches)
        self.forget()

    def forget(self) -> None:
        """Leave what was under way to the store."""
        stored = self.live.stored
        stored.places, stored.touches = {}, []


# Events that stand right behind the decisions that they are about.
_AT_ONCE = (ev.GateApplied, ev.ActionExecuted, ev.ReviewRequested)
