"""Decisions as they stood right after an entry of the ledger, many at a time.

A desk's fold knows how things are now, and only its thread may look at it. A message says how they
were: it is put together from the entries themselves, with few queries however many rows an entry
has, and comes out the same whenever and wherever it is made.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

from gdcb import declaration
from gdcb import events as ev
from gdcb.cases import Record, about
from gdcb.codec import from_body
from gdcb.errors import BrokenChain, UnknownInstance
from gdcb.instance import Instance
from gdcb.ledger.entry import Entry
from gdcb.ledger.sealing import Sealer
from gdcb.ledger.store import Place, Store
from gdcb.ledger.story import request_of
from gdcb.service.deciding import document

_CACHED_BYTES = 2**25
_FETCHED = 256
_AT_ONCE = (ev.GateApplied, ev.ActionExecuted, ev.ReviewRequested)
_Row = tuple[str, int]
# An event, the row of each decision in it, and how many bytes it was.
_Read = tuple[ev.Event, dict[str, int], int]


class Past:
    """One chain, read back.

    Parameters
    ----------
    store, chain : where it is
    known : instances that were read before, by chain; this one is added when it is read
    """

    def __init__(self, store: Store, chain: str, known: dict[str, Instance] | None = None) -> None:
        self._store, self.chain = store, chain
        self._sealer = Sealer(store, chain)
        self._known = {} if known is None else known
        self._events: OrderedDict[int, _Read] = OrderedDict()
        self._bytes = 0

    @property
    def instance(self) -> Instance:
        """The instance as first declared: arms, actions and outcomes never change their names."""
        if self.chain not in self._known:
            first = next(iter(self._store.read(self.chain, 0, 1)), None)
            event = None if first is None else from_body(first.kind, first.body)
            if not isinstance(event, ev.InstanceChanged):
                raise UnknownInstance(f"no instance '{self.chain}' in this ledger")
            self._known[self.chain] = declaration.parse(
                event.declaration, is_recorded=True
            ).instance
        return self._known[self.chain]

    def event(self, entry: Entry) -> ev.Event:
        """Read the event of an entry that is at hand."""
        return self._kept(entry)[0]

    def documents(self, ids: Sequence[str], size: int) -> list[dict[str, Any]]:
        """Return decisions as the API shows them, as they were after `size` entries."""
        return [document(self.instance, record) for record in self.records(ids, size)]

    def records(self, ids: Sequence[str], size: int) -> list[Record]:
        """Return what was known of decisions after `size` entries."""
        asked = [request_of(id)[:2] for id in ids]
        requests = list(dict.fromkeys(request for request, _ in asked))
        places = self._store.places(self.chain, requests)
        touched: dict[_Row, list[tuple[int, int]]] = {}
        for touch in self._store.touches(self.chain, requests):
            if touch.seq < size:
                row = (touch.request, touch.row)
                touched.setdefault(row, []).append((touch.seq, touch.at_row))
        behind = {seq for place in places.values() for seq in _behind(place, size)}
        self._fetch(behind | {seq for row in asked for seq, _ in touched.get(row, ())})
        return [
            self._record(id, places.get(row[0]), row[1], touched.get(row, []), size)
            for id, row in zip(ids, asked, strict=True)
        ]

    def _record(
        self, id: str, place: Place | None, row: int, touched: list[tuple[int, int]], size: int
    ) -> Record:
        made = None if place is None else self._at(place.seq)[0]
        if place is None or not isinstance(made, ev.DecisionMade) or row >= place.n:
            raise BrokenChain(f"'{self.chain}' tells of decision {id!r}, which was not made in it")
        record = Record(made, place.first + row, 0)
        for seq in _behind(place, size)[1:]:
            event, rows, _ = self._at(seq)
            if isinstance(event, ev.DecisionMade):
                break
            is_later = isinstance(event, ev.ActionExecuted) and event.is_told
            if isinstance(event, _AT_ONCE) and id in rows and not is_later:
                record.note(event, rows[id], seq)
        for seq, at_row in touched:
            record.note(self._at(seq)[0], at_row, seq)
        return record

    def _at(self, seq: int) -> _Read:
        if seq not in self._events:
            self._fetch([seq])
        return self._events[seq]

    def _fetch(self, seqs: Iterable[int]) -> None:
        """Read some entries in one go; what is not among them is read when it is asked for."""
        missing = sorted(set(seqs) - self._events.keys())
        if missing:
            for entry in self._store.get(self.chain, missing[:_FETCHED]):
                self._kept(entry)

    def _kept(self, entry: Entry) -> _Read:
        """Read an entry, and keep the latest that were read."""
        if entry.seq not in self._events:
            event = self._sealer.event_of(entry)
            if isinstance(event, ev.SubjectErased):
                self._sealer.forget(event.keys)
                self._events, self._bytes = OrderedDict(), 0
            rows = {id: row for row, id in enumerate(about(event))}
            self._events[entry.seq] = (event, rows, len(entry.body))
            self._bytes += len(entry.body)
            while self._bytes > _CACHED_BYTES and len(self._events) > 1:
                _, (_, _, size) = self._events.popitem(last=False)
                self._bytes -= size
        return self._events[entry.seq]


def _behind(place: Place, size: int) -> range:
    """Return the entry of a request, and those where the gates' first answer may stand."""
    return range(place.seq, min(place.seq + 4, size))
