"""Decisions put together from the entries about them, many at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gdcb import events as ev
from gdcb.cases import Record, about
from gdcb.codec import from_body
from gdcb.instance import Instance
from gdcb.ledger.entry import Entry
from gdcb.ledger.store import Store
from gdcb.ledger.story import request_of
from gdcb.records import PASSED

KEPT = 64  # entries whose events are at hand
_BEHIND = 3  # entries right behind decisions that say what the gates made of them at once


@dataclass(slots=True)
class Story:
    """One decision with what became of it: its entry, when it was made, which rules, and who."""

    record: Record
    seq: int
    at: int
    rules: list[str] = field(default_factory=list)
    asked_by: str = ""
    answered_by: str = ""

    @property
    def cursor(self) -> str:
        """Where it stands, for the next page."""
        return f"{self.seq}.{self.record.at}"


class Reading:
    """Entries of a chain with what they say; those of late are kept, since batches are large."""

    def __init__(self, store: Store, chain: str) -> None:
        self.store, self.chain = store, chain
        self.size = store.head(chain).size
        self._kept: OrderedDict[int, Said] = OrderedDict()

    def take(self, entry: Entry) -> Said:
        """Return what an entry says."""
        if entry.seq not in self._kept:
            self._kept[entry.seq] = Said(entry, from_body(entry.kind, entry.body))
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(entry.seq)
        return self._kept[entry.seq]

    def get(self, numbers: Iterable[int]) -> list[Said]:
        """Return what entries say, by their numbers, in the order of the chain."""
        wanted = sorted(number for number in set(numbers) if number < self.size)
        found = {number: self._kept[number] for number in wanted if number in self._kept}
        missing = [number for number in wanted if number not in found]
        for entry in self.store.get(self.chain, missing) if missing else []:
            found[entry.seq] = self.take(entry)
        return [found[number] for number in wanted]


@dataclass(slots=True)
class Said:
    """An entry, its event, and the rows of the decisions that it is about."""

    entry: Entry
    event: ev.Event
    _rows: dict[str, int] | None = None

    @property
    def rows(self) -> dict[str, int]:
        """The row of each decision."""
        if self._rows is None:
            self._rows = {id: row for row, id in enumerate(about(self.event))}
        return self._rows


def stories(
    reading: Reading, instance: Instance, wanted: Sequence[tuple[Entry, int]]
) -> list[Story]:
    """Put decisions together from their entries, with as few questions to the store as may be."""
    found: dict[str, Story] = {}
    for entry, at in wanted:
        event = reading.take(entry).event
        if isinstance(event, ev.DecisionMade):
            asked_by = event.by[at] if event.by is not None else entry.by
            story = Story(Record(event, at, 0), entry.seq, entry.at, asked_by=asked_by)
            found[event.id[at]] = story
    rows = {request_of(id)[:2]: id for id in found}
    touches = reading.store.touches(reading.chain, sorted({request for request, _ in rows}))
    about_them = [(t.seq, rows[t.request, t.row]) for t in touches if (t.request, t.row) in rows]
    about_them += [(one.seq + i, id) for id, one in found.items() for i in range(1, _BEHIND + 1)]
    wanted_by: dict[int, set[str]] = {}
    for seq, id in about_them:
        wanted_by.setdefault(seq, set()).add(id)
    names = [gate.name for gate in instance.chain.gates]
    for said in reading.get(wanted_by):
        if said.entry.kind != "DecisionMade":
            for id in wanted_by[said.entry.seq] & said.rows.keys():
                _note(found[id], said.event, said.rows[id], said.entry, names)
    return list(found.values())


def _note(one: Story, event: ev.Event, row: int, entry: Entry, names: list[str]) -> None:
    """Note what an event says of a decision."""
    one.record.note(event, row, entry.seq)
    if isinstance(event, ev.Reviewed):
        one.answered_by = event.by
    elif isinstance(event, ev.Expired):
        one.answered_by = entry.by
    elif isinstance(event, ev.GateApplied):
        acted = np.flatnonzero(event.statuses[row] > PASSED).tolist()
        # Who asked and was answered with yes has acted too: nothing is taken off again.
        one.rules += [names[g] for g in acted if names[g] not in one.rules]
