"""Replay: fold a story from its start, working every step out again.

What the agent worked out (decisions, verdicts, what ran, refits) must come out the same. What
people and monitors said (reviews, outcomes, appeals, alarms) must be what the agent would have
taken at that point.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, get_args

import numpy as np

from gdcb import events as ev
from gdcb.arguments import (
    check_appeal,
    check_correction,
    check_discount,
    check_drift,
    check_outcome,
    check_review,
    check_rollback,
    label_of,
)
from gdcb.cases import Record, made_event, rows_at, rows_of
from gdcb.errors import Conflict, InvalidInput
from gdcb.fold import Fold
from gdcb.outlook import Key, keys_of
from gdcb.parts import check_text
from gdcb.records import Rows

# What people and clocks say of one decision; an act about the whole instance teaches nobody.
Said = ev.Reviewed | ev.Expired | ev.OutcomeCorrected | ev.LabelObserved | ev.AppealDecided
_SAID = get_args(Said)
_SAME = 1e-6  # relative: another processor sums in another order


def replay(agent: Fold, events: Iterable[ev.Event]) -> None:
    """Fold events into a fresh agent; refuse the first that cannot have happened as it says."""
    for i, event in enumerate(events):
        try:
            if isinstance(event, ev.DecisionMade) and event.version != len(agent.events):
                raise Conflict(f"a decision on version {event.version} of the state")
            check_event(agent, event)
            agent.fold(event)
        except KeyError as error:
            raise Conflict(f"replay: event {i} is about an unknown decision {error}") from error
        except (Conflict, ValueError, TypeError, AttributeError, IndexError) as error:
            raise Conflict(f"replay: {error} (event {i})") from error  # also: of a wrong kind


def check_event(agent: Fold, event: ev.Event) -> None:
    """Work out what must have happened, and refuse another account of it."""
    again: ev.Event = event
    if isinstance(event, ev.DecisionMade):
        again = decided_again(agent, event)
    elif isinstance(event, ev.ScalerFitted):
        again = _refit(agent, event)
    elif isinstance(event, ev.GateApplied):
        again = _judged(agent, [agent.records[id] for id in event.id])
    elif isinstance(event, ev.ReviewRequested | ev.ActionExecuted):
        again = _followed(agent, [agent.records[id] for id in event.id], event)
    elif isinstance(event, ev.HistoryImported):
        again = agent.imported(event)
    elif isinstance(event, ev.DriftFound):
        check_drift(event, len(agent.events))
    elif isinstance(event, ev.EvidenceDiscounted):
        check_discount(agent.instance, event, len(agent.events))
    elif isinstance(event, ev.RolledBack):
        check_rollback(event, len(agent.events))
    elif isinstance(event, ev.OutcomeObserved):
        _check_outcomes(agent, event)
    elif isinstance(event, _SAID):
        _check_said(agent, agent.records[event.id], event)
    if again != event:
        raise Conflict(f"{event} comes out as {again}")


def _judged(agent: Fold, records: list[Record]) -> ev.GateApplied:
    """Ask the gates again: all of them, or those behind the one that held the decision."""
    first = records[0]
    if first.judged is None:
        made = first.made
        if any(record.judged is not None or record.made is not made for record in records):
            raise Conflict("decisions that were not made together were judged together")
        if [record.at for record in records] != list(range(len(made.id))):
            raise Conflict(f"decision {made.id[0]} was judged without those it was made with")
        return agent.gated(made, _rows(agent, made))
    if len(records) > 1 or first.review is None:
        raise Conflict(f"decision {first.id} was judged twice")
    return agent.answered(first, first.review)


def _rows(agent: Fold, made: ev.DecisionMade) -> Rows:
    return rows_of(agent.places(made.unit), made.x, made.mask)


def _followed(
    agent: Fold, records: list[Record], event: ev.ReviewRequested | ev.ActionExecuted
) -> ev.ReviewRequested | ev.ActionExecuted:
    """Work out what the verdict led to; it leads there once."""
    again: ev.ReviewRequested | ev.ActionExecuted | None
    for record in records:
        if isinstance(event, ev.ReviewRequested) and record.is_asked:
            raise Conflict(f"decision {record.id} was asked about twice")
        if isinstance(event, ev.ActionExecuted) and record.ran is not None:
            raise Conflict(f"decision {record.id} ran twice")
        if record.judged is None:
            raise Conflict(f"decision {record.id} ran before it was judged")
    if isinstance(event, ev.ActionExecuted) and event.is_told:
        _check_told(records, event)
        return event
    judged = _verdicts(records)
    if isinstance(event, ev.ReviewRequested):
        again = agent.requested(judged)
    else:
        again = agent.released(judged, rows_at(records))
    if again is None or again.id != event.id:
        held = ", ".join(record.id for record in records if record.status == "held") or "none"
        raise Conflict(f"{type(event).__name__} of {event.id}, of which {held} is held")
    return again


def _verdicts(records: list[Record]) -> ev.GateApplied:
    """Put the verdicts in force on some decisions side by side."""
    judged = [record.judged for record in records if record.judged is not None]
    status, action, trail, statuses = (
        np.array([getattr(event, name)[row] for event, row in judged])
        for name in ("status", "action", "trail", "statuses")
    )
    reasons = [event.reason[row] for event, row in judged]
    ids = [record.id for record in records]
    return ev.GateApplied(ids, status, action, trail, statuses, {}, reasons)


def _check_told(records: list[Record], event: ev.ActionExecuted) -> None:
    for record in records:
        if record.status == "held":
            raise Conflict(f"decision {record.id} is held and has not run")
    if event.is_null.shape != (len(records),) or event.action.shape[0] != len(records):
        raise InvalidInput("executed: expected one action a decision")


def _check_outcomes(agent: Fold, event: ev.OutcomeObserved) -> None:
    """Refuse outcomes that nobody can have observed, or not at this point."""
    for id in event.id:
        record = agent.records[id]
        if record.seen is not None:
            raise Conflict(f"decision {id} was observed twice")
        record.check_ran("outcome")
    check_outcome(agent.instance, event)


def _check_said(agent: Fold, record: Record, event: Said) -> None:
    """Refuse what nobody can have said, or not at this point."""
    one = record.id
    if isinstance(event, ev.Reviewed | ev.Expired):
        record.check_held()
        if not record.is_asked:
            raise Conflict(f"decision {one} was answered before anybody was asked")
        if isinstance(event, ev.Reviewed):
            check_review(agent.instance, event)
        check_text("reason", event.reason, may_be_empty=True)
    elif isinstance(event, ev.AppealDecided):
        if record.ran is None or record.appeal is not None:
            what = "before it ran" if record.ran is None else "twice"
            raise Conflict(f"decision {one} was appealed {what}")
        check_appeal(event)
    elif isinstance(event, ev.OutcomeCorrected):
        check_correction(agent.instance, event)
    else:
        if record.label is not None:
            raise Conflict(f"decision {one} was observed twice")
        record.check_ran("outcome")
        if label_of(agent.instance, event.label, is_recorded=True) is None:
            raise InvalidInput(f"label: expected one, got {event.label}")


def _refit(agent: Fold, event: ev.ScalerFitted) -> ev.ScalerFitted:
    """Refit again; only scalers that learn are ever refitted."""
    agent.check_owners(event.owners)
    if agent.instance.scaler.learns_from == "nothing" or not event.owners:
        raise Conflict("a refit of nothing")
    return agent.fitted(event.owners)


def decided_again(agent: Fold, made: ev.DecisionMade) -> ev.DecisionMade:
    """Decide again what was decided together, on the state as it is."""
    for i, id in enumerate(made.id):
        if id in agent.records:
            raise Conflict(f"decision {id} was made twice")
        for name, text in (("id", id), ("batch", made.batch[i]), ("unit", made.unit[i])):
            check_text(name, text)
    rows = _rows(agent, made)
    agent.instance.check_rows(rows, int(rows.unit.max()) + 1)
    keys = keys_of(made)
    decision = agent.propose(keys, rows)
    launched = (made.share, made.drawn_by, made.instead)
    again = made_event(
        decision,
        made.id,
        made.batch,
        made.row,
        made.version,
        made.unit,
        rows,
        launched,
        made.by,
        made.nonce,
    )
    if again != made or not _is_drawn(agent, made, keys):
        raise Conflict(f"decision {made.id[0]} comes out differently")
    return again


def _is_drawn(agent: Fold, made: ev.DecisionMade, keys: list[Key]) -> bool:
    """Whether the incumbent's action entered the gates where that was drawn, and only there."""
    if made.share is None or made.instead is None:
        return made.share is None and made.instead is None
    is_live = agent.is_live(keys, made.unit, made.share, made.drawn_by, made.nonce)
    return bool((np.isnan(made.instead).any(axis=1) == is_live).all())


def is_near(one: Any, other: Any) -> bool:
    """Whether two documents are the same, numbers up to rounding and everything else exactly.

    >>> is_near({"p": 0.1, "arm": "a"}, {"p": 0.1 + 1e-12, "arm": "a"}), is_near([1.0], [1.1])
    (True, False)
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_near(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_near, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= _SAME * max(1.0, abs(one), abs(other))
    if isinstance(one, str) and isinstance(other, str):  # sentences hold rounded figures
        return re.sub(r"[\d.,]+", "#", one) == re.sub(r"[\d.,]+", "#", other)
    return bool(one == other)
