"""From the fold to what pages show: one decision that waits, and all around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.cases import Record
from gdcb.instance import Instance
from gdcb.ledger.live import Live
from gdcb.pages.numbers import Estimate
from gdcb.service import answering, showing
from gdcb.service.claims import Claim as Lease
from gdcb.service.pages.views import review as screen
from gdcb.service.pages.views.decision import (
    Action,
    Answer,
    Claim,
    GateStep,
    Held,
    Quantity,
    Waiting,
)
from gdcb.service.pages.views.frame import Choice
from gdcb.service.policy import Policy
from gdcb.service.web.memory import Memory
from gdcb.service.who import is_same, name_of


def action_of(instance: Instance, values: Array) -> Action:
    """Return an action (D,) as pages show it; empty where nothing runs."""
    named = instance.decode_action(values)
    if named is None:
        return ()
    return tuple(Quantity(name, value, digits=digits_of(value)) for name, value in named.items())


def digits_of(value: Any) -> int | None:
    """Return the decimals with which a column of an action is shown: some three digits in all.

    >>> digits_of(159.6944295), digits_of(91.3521), digits_of(120.0), digits_of("lispro")
    (0, 2, None, None)
    """
    if not isinstance(value, float) or value == int(value):
        return None
    return max(0, 3 - len(str(int(abs(value))))) + (1 if abs(value) < 100 else 0)


def waiting_of(
    live: Live, policy: Policy, record: Record, lease: Lease | None, viewer: str
) -> Waiting:
    """Return a held decision as the queue shows it."""
    waits = live.waiting.get(record.id)
    claim = None
    if lease is not None:
        claim = Claim(name_of(lease.by), lease.until, is_same(lease.by, viewer))
    fallback: Action = ()
    if policy.expiry.fallback is not None:
        fallback = action_of(live.instance, live.instance.encode_action(policy.expiry.fallback))
    null = live.instance.null.of(record.rows.x, len(live.instance.actions))[0]
    return Waiting(
        id=record.id,
        unit=record.unit,
        proposed=action_of(live.instance, record.entered),
        held=held_of(live, record, "" if waits is None else waits.gate),
        asked=live.at if waits is None else waits.since,
        current=action_of(live.instance, null),
        deadline=answering.deadline(live, policy, record.id),
        expiry=policy.expiry.then,
        fallback=fallback,
        risk=risk_of(live.instance, record),
        claim=claim,
        version=record.judged_at,
        content=answering.content_of(live, record),
    )


def held_of(live: Live, record: Record, rule: str) -> Held:
    """Return why a decision waits: the rule, and what it found against which limit."""
    verdict = record.verdict
    words = record.reason.partition(": ")[2] or record.reason
    if verdict is None or not rule:
        return Held(rule or "gate", words)
    at = int(verdict.gate[0])
    gate: Any = live.instance.chain.gates[at]
    found = getattr(gate, "found", None)
    if found is None:
        return Held(rule, words)
    value, limit = found(verdict.trail[0, at], record.rows)
    return Held(rule, words, value, limit)


def risk_of(instance: Instance, record: Record) -> float:
    """Return how far out a proposal is, 0 to 1: what decides between equal deadlines.

    The distance of the proposed arm from the middle of all arms, as a share of the farthest one's.
    """
    coords = instance.space.coords
    distance = np.abs(coords - np.median(coords, axis=0)).max(axis=1)
    largest = float(distance.max())
    return float(distance[int(record.made.arm[record.at])] / largest) if largest > 0 else 0.0


def answer_of(live: Live, record: Record) -> Answer | None:
    """Return what was decided about a decision that no longer waits."""
    decided = answering.decided_by(live, record)
    if decided is None:
        return None
    released: Action = ()
    if record.judged is not None:
        released = action_of(live.instance, record.judged[0].action[record.judged[1]])
    return Answer(
        verdict=decided["what"],
        by=name_of(decided["by"]),
        at=decided["time"],
        code=decided["code"],
        reason=decided["reason"],
        action=released,
        entry=decided["entry"],
    )


def arms_of(live: Live, record: Record) -> tuple[tuple[screen.Arm, ...], str]:
    """Return all arms with their value and interval as known now, the best first."""
    spread, actions = showing.drawn(live, record)
    names, chosen = live.instance.space.names, int(record.made.arm[record.at])
    mask = None if record.made.mask is None else record.made.mask[record.at]
    found = [
        screen.Arm(
            names[i],
            action_of(live.instance, actions[i]),
            Estimate(float(spread.mean[i]), float(spread.low[i]), float(spread.high[i])),
            float(spread.best[i]),
            i == chosen,
            "" if mask is None or mask[i] else "not allowed for this request",
        )
        for i in np.argsort(-spread.mean, kind="stable")
    ]
    return tuple(found), "expected reward behind the gates"


def factors_of(live: Live, record: Record) -> tuple[screen.Factor, ...]:
    """Return the context fields, and what the scaler makes of each."""
    return tuple(
        screen.Factor(
            name,
            ("yes" if value else "no") if isinstance(value, bool) else value,
            None if effect is None else round(effect, 3),
            "" if effect is None else f"×{effect:.3f} against what is typical",
        )
        for name, value, effect in showing.effects(live, record)
    )


def past_of(live: Live, memory: Memory, record: Record) -> tuple[screen.PastCase, ...]:
    """Return similar finished decisions."""
    found = memory.similar(record.made.x[record.at], record.unit)
    return tuple(
        screen.PastCase(
            one.id,
            one.at,
            one.unit,
            action_of(live.instance, one.action),
            one.status,
            None if one.reward is None else round(one.reward, 2),
            name_of(one.by) if one.by else "",
            likeness,
        )
        for one, likeness in found
        if one.id != record.id
    )


def edit_fields(
    live: Live, record: Record, given: Mapping[str, Any]
) -> tuple[screen.EditField, ...]:
    """Return the columns of the action as a form asks for them."""
    proposed = live.instance.decode_action(record.entered) or {}
    fields = []
    for column in live.instance.actions:
        value = given.get(column.name, proposed.get(column.name))
        low, high = _limits(live.instance, column.name)
        fields.append(
            screen.EditField(
                column.name,
                column.name,
                round(value, 2) if isinstance(value, float) else value,
                low=low,
                high=high,
                step=None,
                options=tuple(Choice(level, level) for level in column.levels),
            )
        )
    return tuple(fields)


def _limits(instance: Instance, name: str) -> tuple[float | None, float | None]:
    """Return plain bounds of an action column, where a gate of constant bounds has some."""
    at = [column.name for column in instance.actions].index(name)
    for gate in reversed(instance.chain.gates):
        if type(gate).__name__ == "Bounds" and getattr(gate, "action", None) == at:
            bounds: Any = gate
            if bounds.low_column is None and bounds.high_column is None:
                low = bounds.low if np.isfinite(bounds.low) else None
                return low, bounds.high if np.isfinite(bounds.high) else None
    return None, None


def preview_of(live: Live, record: Record, action: Mapping[str, Any]) -> screen.Preview:
    """Return what an edit would do."""
    found = showing.preview(live, record, action)
    one = live.instance
    return screen.Preview(
        action_of(one, found.action),
        found.arm,
        found.steps if np.isfinite(found.steps) else None,
        Estimate(found.mean, found.low, found.high),
        tuple(
            GateStep(name, status, action_of(one, entered), action_of(one, left), reason)
            for name, status, entered, left, reason in found.gates
        ),
    )


def is_asked_by(record: Record, viewer: str) -> bool:
    """Return whether a decision was asked for by who looks at it; they may veto it only."""
    by = record.made.by
    return by is not None and is_same(by[record.at], viewer)


def reasons_of(policy: Policy) -> screen.Reasons:
    """Return the coded reasons to choose from."""
    choices = tuple(Choice(code, words) for code, words in policy.codes.items())
    return screen.Reasons(choices, choices, choices)


def context_fields(live: Live, record: Record) -> tuple[Quantity, ...]:
    """Return the context by name."""
    found = showing.context_of(live.instance, record.made.x[record.at])
    return tuple(
        Quantity(name, ("yes" if value else "no") if isinstance(value, bool) else value)
        for name, value in found.items()
    )
