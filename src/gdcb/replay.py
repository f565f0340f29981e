"""Replay: fold a story from its start, working every step out again.

What the agent worked out (decisions, verdicts, what ran, refits) must come out the same. What
people and monitors said (reviews, outcomes, appeals, alarms) must be what the agent would have
taken at that point.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gdcb import events as ev
from gdcb.arguments import (
    check_appeal,
    check_discount,
    check_drift,
    check_outcome,
    check_review,
    label_of,
)
from gdcb.cases import Record, gate_event, made_event, rows_of
from gdcb.errors import Conflict, InvalidInput
from gdcb.fold import Fold
from gdcb.parts import check_text


def replay(agent: Fold, events: Iterable[ev.Event]) -> None:
    """Fold events into a fresh agent; refuse the first that cannot have happened as it says."""
    story = list(events)
    batches: dict[str, list[ev.DecisionMade]] = {}
    for event in story:
        if isinstance(event, ev.DecisionMade):
            batches.setdefault(event.batch, []).append(event)
    for i, event in enumerate(story):
        try:
            _recompute(agent, event, batches)
            agent.fold(event)
        except KeyError as error:
            raise Conflict(f"replay: event {i} is about an unknown decision {error}") from error
        except (Conflict, ValueError, TypeError) as error:  # the last: fields of a wrong kind
            raise Conflict(f"replay: {error} (event {i})") from error


def _recompute(agent: Fold, event: ev.Event, batches: dict[str, list[ev.DecisionMade]]) -> None:
    """Work out what must have happened, and refuse another account of it."""
    again: ev.Event = event
    if isinstance(event, ev.DecisionMade):
        if event.id in agent.records:
            raise Conflict(f"decision {event.id} was made twice")
        if event.batch not in agent.batches:
            _recompute_batch(agent, batches[event.batch])
    elif isinstance(event, ev.ScalerFitted):
        again = _refit(agent, event)
    elif isinstance(event, ev.GateApplied):
        again = _judged(agent, agent.records[event.id])
    elif isinstance(event, ev.ReviewRequested | ev.ActionExecuted):
        again = _followed(agent, agent.records[event.id], event)
    elif isinstance(event, ev.HistoryImported):
        again = agent.imported(event)
    elif isinstance(event, ev.DriftFound):
        check_drift(event, len(agent.events))
    elif isinstance(event, ev.EvidenceDiscounted):
        check_discount(agent.instance, event, len(agent.events))
    else:
        _check_said(agent, agent.records[event.id], event)
    if again != event:
        raise Conflict(f"{event} comes out as {again}")


def _judged(agent: Fold, record: Record) -> ev.GateApplied:
    """Ask the gates again: all of them, or those behind the one that held the decision."""
    one = record.made.id
    if record.verdict is None:
        proposed = np.array([ev.numbers(record.made.action)])
        verdict = agent.instance.chain.apply(agent.draws_of(record.made), proposed, record.rows)
    elif record.review is not None:
        verdict = agent.resume(record, record.review)
    else:
        raise Conflict(f"decision {one} was judged twice")
    return gate_event(one, verdict, agent.reason(record, verdict, record.review))


def _followed(
    agent: Fold, record: Record, event: ev.ReviewRequested | ev.ActionExecuted
) -> ev.ReviewRequested | ev.ActionExecuted:
    """Work out what the verdict led to; it leads there once."""
    if isinstance(event, ev.ReviewRequested) and record.is_asked:
        raise Conflict(f"decision {event.id} was asked about twice")
    if isinstance(event, ev.ActionExecuted) and record.executed is not None:
        raise Conflict(f"decision {event.id} ran twice")
    return agent.follow_up(record)


def _check_said(
    agent: Fold,
    record: Record,
    event: ev.Reviewed | ev.Expired | ev.OutcomeObserved | ev.LabelObserved | ev.AppealDecided,
) -> None:
    """Refuse what nobody can have said, or not at this point."""
    one = record.made.id
    if isinstance(event, ev.Reviewed | ev.Expired):
        record.check_held()
        if not record.is_asked:
            raise Conflict(f"decision {one} was answered before anybody was asked")
        if isinstance(event, ev.Reviewed):
            check_review(agent.instance, event)
        check_text("reason", event.reason, may_be_empty=True)
    elif isinstance(event, ev.AppealDecided):
        if record.executed is None or record.appeal is not None:
            what = "before it ran" if record.executed is None else "twice"
            raise Conflict(f"decision {one} was appealed {what}")
        check_appeal(event)
    else:
        is_outcome = isinstance(event, ev.OutcomeObserved)
        if (record.outcome if is_outcome else record.label) is not None:
            raise Conflict(f"decision {one} was observed twice")
        record.check_ran("outcome")
        if isinstance(event, ev.OutcomeObserved):
            check_outcome(agent.instance, event)
        elif label_of(agent.instance, event.label) is None:
            raise InvalidInput(f"label: expected one, got {event.label}")


def _refit(agent: Fold, event: ev.ScalerFitted) -> ev.ScalerFitted:
    """Refit again; only scalers that learn are ever refitted."""
    agent.check_owners(event.owners)
    if agent.instance.scaler.learns_from == "nothing" or not event.owners:
        raise Conflict("a refit of nothing")
    return agent.fitted(event.owners)


def _recompute_batch(agent: Fold, batch: list[ev.DecisionMade]) -> None:
    """Decide a whole batch again."""
    masks = [made.mask for made in batch]
    for made in batch:
        for name, text in (("id", made.id), ("batch", made.batch), ("unit", made.unit)):
            check_text(name, text)
    rows = rows_of(
        agent.places([made.unit for made in batch]),
        np.array([made.x for made in batch], dtype=float),
        None if masks[0] is None else np.array(masks),
    )
    agent.instance.check_rows(rows, int(rows.unit.max()) + 1)
    decision = agent.propose(batch[0].batch, rows)
    for i, made in enumerate(batch):
        version = len(agent.events)
        again = made_event(decision, i, made.id, made.batch, version, made.unit, rows)
        if again != made:
            raise Conflict(f"decision {made.id} comes out differently")
