"""What a person is asked: by which gate, since when, why, and about which action."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gdcb import events as ev
from gdcb.arrays import Array
from gdcb.cases import Record
from gdcb.instance import Instance
from gdcb.ledger.changing import settings_of
from gdcb.ledger.live import Live
from gdcb.ledger.story import request_of
from gdcb.records import PASSED, STATUS


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to a person, as it was put last.

    Parameters
    ----------
    gate, at : name and place of the gate that asked
    since : when it did, µs
    reason : why, as it said then
    action : (D,) what entered the gate, which is what an approval lets through
    """

    gate: str
    at: int
    since: int
    reason: str
    action: Array


def offered(record: Record) -> Array:
    """Return what an approval would let through, (D,): what entered the gate that holds it.

    Gates before that one, and people who were asked before, may have changed the proposal. Of what
    is not held it is what entered the first gate.
    """
    verdict = record.verdict
    if verdict is None or record.status != "held":
        return record.entered
    return np.asarray(verdict.trail[0, int(verdict.gate[0])])


@dataclass(frozen=True, slots=True)
class Then:
    """What an approval would lead to, behind the gates that are in force now.

    Parameters
    ----------
    status : 'passed', 'modified', 'vetoed', or 'held': another person is asked next
    action : (D,) what would run, NaN where nothing would; where it is held, what they are asked
    gates : the gates that change, stop or hold it, in order
    """

    status: str
    action: Array
    gates: tuple[str, ...]


def if_approved(live: Live, record: Record) -> Then | None:
    """Return what an approval of a decision would lead to now; None: it is not held."""
    held = record.verdict
    if held is None or record.status != "held":
        return None
    verdict, first = live.if_approved(record), int(held.gate[0]) + 1
    status, action = STATUS[int(verdict.status[0])], verdict.action[0]
    if status == "held":
        action = verdict.trail[0, int(verdict.gate[0])]
    gates = enumerate(live.instance.chain.gates)
    acts = [gate.name for i, gate in gates if i >= first and verdict.statuses[0, i] > PASSED]
    return Then(status, np.asarray(action), tuple(acts))


@lru_cache(maxsize=256)
def settings_behind(instance: Instance, gate: int) -> str:
    """Return the settings of the gates behind one, as text."""
    return json.dumps([settings_of(one) for one in instance.chain.gates[gate + 1 :]])


def asked_of(live: Live, record: Record) -> Asked | None:
    """Return what a person is asked about a decision, or was asked last; None: nobody was."""
    waits = live.waiting.get(record.id)
    if waits is not None:
        at = _place(live, waits.gate)
        return Asked(waits.gate, at, waits.since, record.reason, offered(record))
    found = _last_request(live, record.id) if record.answers else None
    if found is None or record.verdict is None:
        return None
    event, row, number = found
    at = _place(live, event.gate[row])
    # What a gate makes of an answer is written behind what entered it, which stays.
    entered = np.asarray(record.verdict.trail[0, at])
    return Asked(event.gate[row], at, live.time_of(number), event.reason[row], entered)


def _place(live: Live, gate: str) -> int:
    """Return the place of a gate in the chain; names and order stay as long as the instance."""
    return [one.name for one in live.instance.chain.gates].index(gate)


def _last_request(live: Live, id: str) -> tuple[ev.ReviewRequested, int, int] | None:
    """Return the last event that asked a person about a decision, its row there, and its number.

    The first one stands right behind the decision; those that came later have touches.
    """
    request, row, _ = request_of(id)
    touches = [*live.store.touches(live.chain, [request]), *live.stored.touches]
    numbers = [one.seq for one in touches if (one.request, one.row) == (request, row)]
    place = live.stored.place(request)
    if place is not None:
        numbers += range(place.seq + 1, min(place.seq + 4, len(live.events)))
    for number in sorted(numbers, reverse=True):
        event = live.events[number] if number < len(live.events) else None
        if isinstance(event, ev.ReviewRequested) and id in event.id:
            return event, event.id.index(id), number
    return None
