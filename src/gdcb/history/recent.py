"""An agent's own finished decisions as a log: to certify again what happened lately."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb import events as ev
from gdcb.errors import InvalidInput
from gdcb.fold import Fold
from gdcb.history.batch import Batch
from gdcb.history.certificate import Certificate
from gdcb.history.certification import certify


def recent_rows(agent: Fold, since: int = 0) -> Batch:
    """Return the decisions whose outcomes came in event `since` or later, as rows of a log.

    Their time is the number of that event: events have no clock. A row's proposal, the verdict of
    each gate and what ran are as the agent knows them.
    """
    some = [
        (at, event)
        for at, event in enumerate(agent.events)
        if at >= since and isinstance(event, ev.OutcomeObserved)
    ]
    if not some:
        raise InvalidInput(f"history: no outcome came in event {since} or later")
    records = [agent.records[event.id] for _, event in some]
    width = max(agent.instance.scaler.n_labels, 1)
    unseen: list[float | None] = [None] * width
    label = np.array([ev.numbers(record.label or unseen) for record in records])
    null = np.full((1, len(agent.instance.actions)), np.nan)
    ran = [
        null if record.executed is None or record.executed.is_null[0] else record.executed.action
        for record in records
    ]
    verdicts = [record.verdict for record in records]
    return Batch(
        x=np.concatenate([record.rows.x for record in records]),
        action=np.concatenate(ran),
        outcome=np.array([event.outcome for _, event in some]),
        unit=np.concatenate([record.rows.unit for record in records]),
        time=np.array([float(at) for at, _ in some]),
        recommended=np.array([ev.numbers(record.made.action) for record in records]),
        status=np.array([-1 if v is None else int(v.status[0]) for v in verdicts], dtype=np.int8),
        statuses=np.concatenate([v.statuses for v in verdicts if v is not None]),
        label=label if agent.instance.scaler.n_labels else None,
    )


def certify_recent(agent: Fold, since: int = 0, **settings: Any) -> Certificate:
    """Certify what an agent did since an event; `settings` are those of `certify`.

    For `Watch(..., certify=certify_recent)`: on an alarm, what happened since it began.
    """
    return certify(recent_rows(agent, since), agent.instance, agent.bandit, **settings)
