"""Every entry about one decision, in order, with its row in each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gdcb import events as ev
from gdcb.cases import about
from gdcb.codec import from_body
from gdcb.errors import UnknownDecision, UnknownInstance
from gdcb.ledger.entry import Entry
from gdcb.ledger.store import Store
from gdcb.ledger.story import request_of

# How many entries right behind its own may be about a decision: judged, executed, asked about.
_BEHIND = 3


@dataclass(frozen=True, slots=True)
class Said:
    """One entry about a decision, what it says, and the decision's row in it."""

    entry: Entry
    event: ev.Event
    row: int


def entries_about(store: Store, chain: str, id: str) -> list[Said]:
    """Return all entries about a decision; the first one is its own."""
    if not store.head(chain).size:
        raise UnknownInstance(f"no instance '{chain}' in this ledger")
    request, row, _ = request_of(id)
    place = store.places(chain, [request]).get(request)
    if place is None or row >= place.n:
        raise UnknownDecision(f"no decision {id!r} was made here")
    touched = [touch for touch in store.touches(chain, [request]) if touch.row == row]
    stop = min(place.seq + _BEHIND + 1, store.head(chain).size)
    behind = list(range(place.seq, stop))
    numbers = sorted({*behind, *(touch.seq for touch in touched)})
    rows = {touch.seq: touch.at_row for touch in touched}
    found: list[Said] = []
    is_behind = True
    for entry in store.get(chain, numbers):
        event = from_body(entry.kind, entry.body)
        ids = about(event)
        if entry.seq in rows:
            at = rows[entry.seq]
            found += [Said(entry, event, at)] if at < len(ids) and ids[at] == id else []
        elif is_behind and entry.seq in behind and id in ids:
            found.append(Said(entry, event, ids.index(id)))
        is_at_once = isinstance(event, ev.GateApplied | ev.ActionExecuted | ev.ReviewRequested)
        is_behind = is_behind and (entry.seq == place.seq or is_at_once)
    if not found or not isinstance(found[0].event, ev.DecisionMade):
        raise UnknownDecision(f"no decision {id!r} was made here")
    return found


def written(at: int) -> str:
    """Write a time in µs as ISO 8601, UTC.

    >>> written(1_000)
    '1970-01-01T00:00:00.001000Z'
    """
    moment = datetime.fromtimestamp(at // 1_000_000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at % 1_000_000:06d}Z"


def stamp(said: Said) -> dict[str, Any]:
    """Return which entry says something, when it came and who brought it."""
    return {"entry": said.entry.seq, "at": written(said.entry.at), "by": said.entry.by}
