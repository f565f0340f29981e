"""Find decisions in a chain: an id at once, anything else by reading back from the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gdcb import events as ev
from gdcb.instance import Instance
from gdcb.ledger.entry import Entry
from gdcb.ledger.store import Place, Store
from gdcb.ledger.story import request_of
from gdcb.records import HELD, PASSED, STATUS
from gdcb.service.figures.stories import Reading, Story, stories

PAGE = 50
MOST_ENTRIES = 20_000
BLOCK = 200
MOST_ROWS = 20_000
AT_ONCE = 200  # decisions that are put together at a time
_LAST = 10**9  # behind all rows of an entry


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


@dataclass(frozen=True, slots=True)
class Answer:
    """A page of what was found, newest first.

    Parameters
    ----------
    rows : the decisions
    before, after : cursors of the pages on both sides; empty: there is none
    reached : time and number of the entry up to which was searched, where that was not the end
    total : how many there are on all pages; None: nobody counted
    """

    rows: list[Story]
    before: str = ""
    after: str = ""
    reached: tuple[int, int] | None = None
    total: int | None = None


def by_id(
    store: Store,
    chain: str,
    instance: Instance,
    id: str,
    *,
    after: str = "",
    before: str = "",
    size: int = PAGE,
) -> Answer:
    """Return a decision, or a page of the decisions of a request, in their order.

    Parameters
    ----------
    store, chain, instance : where to look
    id : of the decision or the request
    after, before : cursor of the last decision of the page before, or of the first of the next one
    size : decisions a page
    """
    name, row, is_row = request_of(id)
    places = store.places(chain, [id, name])
    if id in places:
        place = places[id]
        first, total, skipped = place.first, place.n, _skipped(place, after, before, size)
    elif is_row and name in places and row < places[name].n:
        place = places[name]
        first, total, skipped = place.first + row, 1, 0
    else:
        return Answer([], total=0)
    stop = min(total, skipped + size)
    (entry,) = store.get(chain, [place.seq])
    wanted = [(entry, first + i) for i in range(skipped, stop)]
    rows = stories(Reading(store, chain), instance, wanted)
    newer = rows[0].cursor if skipped else ""
    return Answer(rows, newer, rows[-1].cursor if stop < total else "", total=total)


def _skipped(place: Place, after: str, before: str, size: int) -> int:
    """Return how many decisions of a request come before a page."""
    seq, row = _place(after or before) or (-1, 0)
    if seq != place.seq or not 0 <= row - place.first < place.n:
        return 0
    at = row - place.first
    return max(0, at - size) if before else min(at + 1, place.n - 1)


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
    n, reading = 0, Reading(store, chain)
    names = [gate.name for gate in instance.chain.gates]
    for some in _candidates(reading, low, high, asked, names, cursor, is_back, most):
        if isinstance(some, Entry):  # all of a block was looked at
            edge = some.at, some.seq, 0 if is_back else _LAST
            continue
        found += [one for one in stories(reading, instance, some) if _fits(one, asked)]
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
    reading: Reading,
    low: int,
    high: int,
    asked: Question,
    names: list[str],
    cursor: tuple[int, int] | None,
    is_back: bool,
    most: int,
) -> Iterator[list[tuple[Entry, int]] | Entry]:
    """Yield decisions that may fit, a few at a time, in the order of the search.

    After each block of entries, the last of them that was looked at.
    """
    for block in _blocks(reading.store, reading.chain, low, high, cursor, is_back, most):
        found: list[tuple[Entry, int]] = []
        for entry in reversed(block) if is_back else block:
            if entry.kind != "DecisionMade":
                continue
            rows = _may_fit(reading, entry, asked, names)
            if cursor is not None and entry.seq == cursor[0]:
                rows = [i for i in rows if (i < cursor[1] if is_back else i > cursor[1])]
            found += [(entry, i) for i in (reversed(rows) if is_back else rows)]
            while len(found) >= AT_ONCE:
                yield found[:AT_ONCE]
                found = found[AT_ONCE:]
        if found:
            yield found
        yield block[0] if is_back else block[-1]


def _may_fit(reading: Reading, entry: Entry, asked: Question, names: list[str]) -> list[int]:
    """Return the decisions in an entry that may fit, as far as the gates' first answer tells.

    What they did not hold stands as they said.
    """
    made = reading.take(entry).event
    if not isinstance(made, ev.DecisionMade):
        return []
    may = np.array([asked.unit in ("", unit) for unit in made.unit], dtype=bool)
    if asked.status or asked.rule:
        for said in reading.get([entry.seq + 1]):
            judged = said.event
            if isinstance(judged, ev.GateApplied) and judged.id == made.id:
                waits = judged.status == HELD
                if asked.status:
                    may &= waits | (judged.status == STATUS.index(asked.status))
                if asked.rule:
                    mine = [g for g, name in enumerate(names) if name == asked.rule]
                    may &= waits | (judged.statuses[:, mine] > PASSED).any(axis=1)
    return [int(i) for i in np.flatnonzero(may)]


def _fits(one: Story, asked: Question) -> bool:
    """Whether a decision fits what can only be told from all of its entries."""
    who = asked.who.casefold()
    names = (one.asked_by.casefold(), one.answered_by.casefold())
    return (
        asked.status in ("", one.record.status)
        and (not asked.rule or asked.rule in one.rules)
        and (not who or any(who in name for name in names))
    )
