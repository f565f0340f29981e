"""Replay: fold a story from its start, working every step out again."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gdcb import events as ev
from gdcb import round as turn
from gdcb.cases import gate_event, made_event, rows_of
from gdcb.errors import Conflict
from gdcb.fold import Fold


def replay(agent: Fold, events: Iterable[ev.Event]) -> None:
    """Fold events into a fresh agent; refuse the first that comes out differently."""
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


def _recompute(agent: Fold, event: ev.Event, batches: dict[str, list[ev.DecisionMade]]) -> None:
    """Work out what must have happened, and refuse another account of it."""
    again: ev.Event = event
    if isinstance(event, ev.DecisionMade):
        if event.batch not in agent.batches:
            _recompute_batch(agent, batches[event.batch])
        return
    if isinstance(event, ev.GateApplied):
        record = agent.records[event.id]
        if record.verdict is None:
            proposed = np.array([ev.numbers(record.made.action)])
            draws = agent.draws_of(record.made)
            verdict = agent.instance.chain.apply(draws, proposed, record.rows)
        elif record.review is not None:
            verdict = agent.resume(record, record.review)
        else:
            raise Conflict(f"replay: decision {event.id} was judged twice")
        reason = agent.reason(record, verdict, record.review)
        again = gate_event(event.id, verdict, reason)
    elif isinstance(event, ev.ActionExecuted):
        record = agent.records[event.id]
        if record.verdict is None:
            raise Conflict(f"replay: decision {event.id} ran before it was judged")
        executed = turn.execute(agent.instance, record.verdict, record.rows)
        action, is_null = ev.listed(executed.action[0]), bool(executed.is_null[0])
        again = ev.ActionExecuted(event.id, action, is_null)
    elif isinstance(event, ev.OutcomeObserved | ev.LabelObserved):
        record = agent.records[event.id]
        is_outcome = isinstance(event, ev.OutcomeObserved)
        if (record.outcome if is_outcome else record.label) is not None:
            raise Conflict(f"replay: decision {event.id} was observed twice")
    elif isinstance(event, ev.AppealDecided):
        record = agent.records[event.id]
        if record.executed is None or record.appeal is not None:
            what = "before it ran" if record.executed is None else "twice"
            raise Conflict(f"replay: decision {event.id} was appealed {what}")
    elif isinstance(event, ev.ScalerFitted):
        again = agent.fitted(event.owners)
    if again != event:
        raise Conflict(f"replay: {event} comes out as {again}")


def _recompute_batch(agent: Fold, batch: list[ev.DecisionMade]) -> None:
    """Decide a whole batch again."""
    masks = [made.mask for made in batch]
    rows = rows_of(
        agent.places([made.unit for made in batch]),
        np.array([made.x for made in batch]),
        None if masks[0] is None else np.array(masks),
    )
    decision = agent.propose(batch[0].batch, rows)
    for i, made in enumerate(batch):
        version = len(agent.events)
        again = made_event(decision, i, made.id, made.batch, version, made.unit, rows)
        if again != made:
            raise Conflict(f"replay: decision {made.id} comes out differently")
