"""What ran, and what came of it: executed, outcomes, labels, corrections, appeals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb import events as ev
from gdcb.arguments import check_appeal, check_correction, check_weight, label_of, outcome_of
from gdcb.cases import Record
from gdcb.errors import Conflict, InvalidInput
from gdcb.service.answering import SECOND, find
from gdcb.service.turn import TooLate, Turn

POLICY = "policy"  # who takes the outcome of those that did not come


@dataclass(frozen=True, slots=True)
class Outcome:
    """An outcome of one decision, as somebody reports it."""

    id: str
    outcome: Mapping[str, float]
    label: Sequence[float | None] | None = None
    weight: float = 1.0
    reason: str = ""


def execute(turn: Turn, id: str, action: Mapping[str, Any] | None, by: str) -> tuple[Record, bool]:
    """Take what really ran; None: nothing did. Returns whether it was news."""
    live = turn.live
    record = find(live, id)
    d = len(live.instance.actions)
    told = np.full(d, np.nan) if action is None else live.instance.encode_action(action)
    if record.status == "held" or record.judged is None:
        raise Conflict(
            f"executed: decision {id} is {record.status}; nothing may run before it is let through"
        )
    if record.ran is not None:
        known = record.ran[0].action[record.ran[1]]
        if np.array_equal(known, told, equal_nan=True):
            return record, False
        if record.status not in ("passed", "modified"):
            raise Conflict(f"executed: decision {id} was {record.status}; it may not run")
        said = live.instance.decode_action(known)
        ran = "did not run, as was reported" if said is None else f"ran already as {said}"
        raise Conflict(f"executed: decision {id} {ran}")
    event = ev.ActionExecuted([id], told[None], np.array([action is None]), is_told=True)
    turn.add(event, by)
    return record, True


def observe(turn: Turn, given: Sequence[Outcome], by: str) -> list[bool]:
    """Take outcomes, all or none of them; returns for each whether it was news."""
    live, fresh, news = turn.live, [], []
    seen: set[str] = set()
    later: list[ev.Event] = []
    for one in given:
        if one.id in seen:
            raise InvalidInput(f"outcomes: decision {one.id} is named twice")
        seen.add(one.id)
        record = find(live, one.id)
        check_weight(one.weight)
        values = outcome_of(live.instance, one.outcome)
        label = label_of(live.instance, one.label)
        record.check_ran("outcome")
        if record.seen is None:
            _check_window(turn, record)
            fresh.append((one, values, label))
            news.append(True)
        else:
            found = _again(turn, record, one, values, label, by)
            later += found
            news.append(bool(found))
    if fresh:
        turn.add(_event(live.instance.scaler.n_labels, fresh), by)
    for event in later:
        turn.add(event, by)
    due = live.instance.scaler.due(live.state.scaler)
    if due.size and not live.has_large_history:
        turn.add(live.fitted(due.tolist()), POLICY)
    return news


def _event(n_labels: int, fresh: list[tuple[Outcome, list[float], Any]]) -> ev.OutcomeObserved:
    label = None
    if any(labels is not None for _, _, labels in fresh):
        unseen: list[float | None] = [None] * n_labels
        label = np.array([ev.numbers(labels or unseen) for _, _, labels in fresh])
    return ev.OutcomeObserved(
        [one.id for one, _, _ in fresh],
        np.array([values for _, values, _ in fresh]),
        label,
        np.array([float(one.weight) for one, _, _ in fresh]),
    )


def _again(
    turn: Turn,
    record: Record,
    one: Outcome,
    values: list[float],
    label: list[float | None] | None,
    by: str,
) -> list[ev.Event]:
    """Return what an outcome of a decision that has one already means; nothing: it is no news."""
    found: list[ev.Event] = []
    if float(one.weight) != record.weight:
        raise Conflict(
            f"weight: the outcome of decision {one.id} counts {record.weight:g} already, got "
            f"{one.weight:g}"
        )
    if values != record.outcome:
        reason = one.reason
        if _is_default(turn, record):  # nobody has said it
            _check_window(turn, record)
            reason = reason or "it came after the default was taken"
        elif turn.policy.outcomes.correction == "refuse":
            raise Conflict(
                f"outcome: decision {one.id} has {record.outcome} already, got {values}; this "
                "instance takes no corrections"
            )
        event = ev.OutcomeCorrected(one.id, values, by, reason)
        check_correction(turn.live.instance, event)
        found.append(event)
    if label is not None and label != record.label:
        if record.label is not None:
            raise Conflict(f"label: decision {one.id} has {record.label} already")
        found.append(ev.LabelObserved(one.id, label))
    return found


def _is_default(turn: Turn, record: Record) -> bool:
    """Whether a decision has the outcome that is taken for those that did not come."""
    if record.seen is None or record.outcome != record.seen[0].outcome[record.seen[1]].tolist():
        return False  # it has been corrected
    number, live = record.seen_at, turn.live
    added = number - len(live.events) + len(turn.drafts)
    if added >= 0:
        return turn.drafts[added].by == POLICY
    (entry,) = live.store.get(live.chain, [number])
    return entry.by == POLICY


def _check_window(turn: Turn, record: Record) -> None:
    policy = turn.policy.outcomes
    if policy.window is None or policy.late == "take":
        return
    if turn.now > turn.live.time_of(record.ran_at) + round(policy.window * SECOND):
        raise TooLate(
            f"outcome: decision {record.id} ran more than {policy.window:g} seconds ago, which is "
            "the window of this instance"
        )


def appeal(turn: Turn, id: str, upheld: bool, reason: str, by: str) -> tuple[Record, bool]:
    """Write down how an appeal against an executed decision ended; returns whether it is news."""
    record = find(turn.live, id)
    event = ev.AppealDecided(id, upheld, by, reason)
    check_appeal(event)
    record.check_ran("appeal")
    if record.appeal is not None:
        if (record.appeal.upheld, record.appeal.reason) == (upheld, reason):
            return record, False
        word = "upheld" if record.appeal.upheld else "turned down"
        raise Conflict(f"appeal: decision {id} has one already, {word}: {record.appeal.reason}")
    turn.add(event, by)
    return record, True
