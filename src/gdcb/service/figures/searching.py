"""Find decisions in a chain: an id at once, anything else by reading back from the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

PAGE = 50
MOST_ENTRIES = 20_000
BLOCK = 200
MOST_ROWS = 20_000
AT_ONCE = 200  # decisions that are put together at a time
_LAST = 10**9  # behind all rows of an entry
_BEHIND = 3  # entries right behind decisions that say what the gates made of them at once


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked for; what is empty is anything.

    Parameters
    ----------
    unit : whose decision, exactly
    who : part of the name of who asked for it or answered it, in any letters
    status, rule : how it stands now, and a gate that acted on it or asked about it
    since, until : first moment, and the first after the last, µs
    """

    unit: str = ""
    who: str = ""
    status: str = ""
    rule: str = ""
    since: int | None = None
    until: int | None = None


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


@dataclass(frozen=True, slots=True)
class Answer:
    """A page of what was found, newest first.

    Parameters
    ----------
    rows : the decisions
    before, after : cursors of the pages on both sides; empty: there is none
    reached : time and number of the entry up to which was searched, where that was not the end
    """

    rows: list[Story]
    before: str = ""
    after: str = ""
    reached: tuple[int, int] | None = None


def by_id(store: Store, chain: str, instance: Instance, id: str) -> list[Story]:
    """Return a decision, or the first of the decisions of a request."""
    name, row, is_row = request_of(id)
    places = store.places(chain, [id, name])
    if id in places:
        wanted = [(places[id].seq, places[id].first + i) for i in range(min(places[id].n, PAGE))]
    elif is_row and name in places and row < places[name].n:
        wanted = [(places[name].seq, places[name].first + row)]
    else:
        return []
    (entry,) = store.get(chain, [wanted[0][0]])
    return stories(store, chain, instance, [(entry, at) for _, at in wanted])


def search(
    store: Store,
    chain: str,
    instance: Instance,
    asked: Question,
    *,
    after: str = "",
    before: str = "",
    most: int = MOST_ENTRIES,
    size: int = PAGE,
) -> Answer:
    """Return the next page of decisions that fit a question.

    Parameters
    ----------
    store, chain, instance : where to look
    asked : what for
    after, before : cursor of the last decision of a page, to go on to older ones, or of the first,
        to go back to newer ones
    most : entries that are read; where the page is not full by then, it says how far it came
    size : decisions a page
    """
    low = 0 if asked.since is None else store.near(chain, asked.since)
    high = store.head(chain).size
    if asked.until is not None:
        high = min(high, store.near(chain, asked.until))
    is_back, cursor = not before, _place(after or before)
    found: list[Story] = []
    edge: tuple[int, int, int] | None = None  # how far was looked: time, entry and row
    n = 0
    for some in _candidates(store, chain, low, high, asked.unit, cursor, is_back, most):
        if isinstance(some, Entry):  # all of a block was looked at
            edge = some.at, some.seq, 0 if is_back else _LAST
            continue
        found += [one for one in stories(store, chain, instance, some) if _fits(one, asked)]
        edge, n = (some[-1][0].at, some[-1][0].seq, some[-1][1]), n + len(some)
        if len(found) > size or n >= MOST_ROWS:
            break
    is_full, found = len(found) > size, found[:size]
    is_end = edge is None or (edge[1:] <= (low, 0) if is_back else edge[1:] >= (high - 1, _LAST))
    further = "" if edge is None or is_end else f"{edge[1]}.{edge[2]}"
    reached = None if is_full or is_end or edge is None else edge[:2]
    if is_back:
        newer = found[0].cursor if found and after else ""
        return Answer(found, newer, found[-1].cursor if is_full else further, reached)
    found.reverse()
    older = found[-1].cursor if found else before
    return Answer(found, found[0].cursor if is_full else further, older, reached)


def _place(cursor: str) -> tuple[int, int] | None:
    """Read a cursor; None: there is none, or it is not one of ours."""
    seq, _, row = cursor.partition(".")
    is_one = seq.isascii() and seq.isdigit() and row.isascii() and row.isdigit()
    return (int(seq), int(row)) if is_one and len(cursor) < 40 else None


def _blocks(
    store: Store,
    chain: str,
    low: int,
    high: int,
    cursor: tuple[int, int] | None,
    is_back: bool,
    most: int,
) -> Iterator[list[Entry]]:
    """Yield entries in blocks, each in the order of the chain, from the cursor on."""
    n = 0
    if is_back:
        stop = high if cursor is None else min(high, cursor[0] + 1)
        while stop > low and n < most:
            start = max(low, stop - BLOCK)
            block = list(store.read(chain, start, stop))
            if not block:
                return
            yield block
            n, stop = n + len(block), start
        return
    start = low if cursor is None else max(low, cursor[0])
    while start < high and n < most:
        block = list(store.read(chain, start, min(high, start + BLOCK)))
        if not block:
            return
        yield block
        n, start = n + len(block), block[-1].seq + 1


def _candidates(
    store: Store,
    chain: str,
    low: int,
    high: int,
    unit: str,
    cursor: tuple[int, int] | None,
    is_back: bool,
    most: int,
) -> Iterator[list[tuple[Entry, int]] | Entry]:
    """Yield decisions of a unit, a few at a time, in the order of the search.

    After each block of entries, the last of them that was looked at.
    """
    for block in _blocks(store, chain, low, high, cursor, is_back, most):
        found: list[tuple[Entry, int]] = []
        for entry in reversed(block) if is_back else block:
            found += _rows(entry, unit, cursor, is_back)
            while len(found) >= AT_ONCE:
                yield found[:AT_ONCE]
                found = found[AT_ONCE:]
        if found:
            yield found
        yield block[0] if is_back else block[-1]


def _rows(
    entry: Entry, unit: str, cursor: tuple[int, int] | None, is_back: bool
) -> list[tuple[Entry, int]]:
    """Return the decisions of a unit in an entry that lie beyond the cursor."""
    if entry.kind != "DecisionMade":
        return []
    event = from_body(entry.kind, entry.body)
    if not isinstance(event, ev.DecisionMade):
        return []
    rows = [i for i, one in enumerate(event.unit) if unit in ("", one)]
    if cursor is not None and entry.seq == cursor[0]:
        rows = [i for i in rows if (i < cursor[1] if is_back else i > cursor[1])]
    return [(entry, i) for i in (reversed(rows) if is_back else rows)]


def stories(
    store: Store, chain: str, instance: Instance, wanted: Sequence[tuple[Entry, int]]
) -> list[Story]:
    """Put decisions together from their entries, with as few questions to the store as may be."""
    made = {entry.seq: (entry, from_body(entry.kind, entry.body)) for entry, _ in wanted}
    found: dict[str, Story] = {}
    for entry, at in wanted:
        event = made[entry.seq][1]
        if isinstance(event, ev.DecisionMade):
            asked_by = event.by[at] if event.by is not None else entry.by
            found[event.id[at]] = Story(
                Record(event, at, 0), entry.seq, entry.at, asked_by=asked_by
            )
    rows = {request_of(id)[:2]: id for id in found}
    touches = store.touches(chain, sorted({request for request, _ in rows}))
    later = {touch.seq for touch in touches if (touch.request, touch.row) in rows}
    size = store.head(chain).size
    behind = {n for seq in made for n in range(seq + 1, min(size, seq + 1 + _BEHIND))}
    numbers = sorted(behind | later)
    names = [gate.name for gate in instance.chain.gates]
    for entry in store.get(chain, numbers) if numbers else []:
        if entry.kind == "DecisionMade":
            continue
        event = from_body(entry.kind, entry.body)
        for row, id in enumerate(about(event)):
            if id in found:
                _note(found[id], event, row, entry, names)
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


def _fits(one: Story, asked: Question) -> bool:
    """Whether a decision fits what can only be told from all of its entries."""
    who = asked.who.casefold()
    names = (one.asked_by.casefold(), one.answered_by.casefold())
    return (
        asked.status in ("", one.record.status)
        and (not asked.rule or asked.rule in one.rules)
        and (not who or any(who in name for name in names))
    )
