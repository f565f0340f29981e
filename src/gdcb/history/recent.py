"""An agent's own finished decisions as a log: to certify again what happened lately."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb import events as ev
from gdcb.cases import executed_of, rows_at
from gdcb.errors import InvalidInput
from gdcb.fold import Fold
from gdcb.history.batch import Batch
from gdcb.history.certificate import Certificate
from gdcb.history.certification import certify
from gdcb.records import Verdict


def recent_rows(agent: Fold, since: int = 0) -> Batch:
    """Return the decisions whose outcomes came in event `since` or later, as rows of a log.

    Their time is the number of that event: events have no clock. A row's proposal, the verdict of
    each gate and what ran are as the agent knows them.
    """
    some = [
        (at, agent.records[id])
        for at, event in enumerate(agent.events[since:], since)
        if isinstance(event, ev.OutcomeObserved)
        for id in event.id
    ]
    if not some:
        raise InvalidInput(f"history: no outcome came in event {since} or later")
    records = [record for _, record in some]
    rows, executed = rows_at(records), executed_of(agent.instance.chain, records)
    unseen: list[float | None] = [None] * max(agent.instance.scaler.n_labels, 1)
    label = np.array([ev.numbers(record.label or unseen) for record in records])
    verdict = Verdict.concatenate([one for record in records if (one := record.verdict)])
    return Batch(
        x=rows.x,
        action=np.where(executed.is_null[:, None], np.nan, executed.action),
        outcome=np.array([record.outcome for record in records]),
        unit=rows.unit,
        time=np.array([float(at) for at, _ in some]),
        recommended=np.array([record.made.action[record.at] for record in records]),
        status=verdict.status,
        statuses=verdict.statuses,
        label=label if agent.instance.scaler.n_labels else None,
    )


def certify_recent(agent: Fold, since: int = 0, **settings: Any) -> Certificate:
    """Certify what an agent did since an event; `settings` are those of `certify`.

    For `Watch(..., certify=certify_recent)`: on an alarm, what happened since it began.
    """
    return certify(recent_rows(agent, since), agent.instance, agent.bandit, **settings)
