"""From the fold to what pages show: one decision that waits, and all around it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.cases import Record
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.ledger.live import Live
from gdcb.pages.numbers import Estimate
from gdcb.service import answering, showing
from gdcb.service.claims import Claim as Lease
from gdcb.service.holding import Asked, asked_of, if_approved, offered
from gdcb.service.pages import wording
from gdcb.service.pages.views import review as screen
from gdcb.service.pages.views.decision import (
    Action,
    Answer,
    Claim,
    Found,
    GateStep,
    Held,
    Quantity,
    Waiting,
)
from gdcb.service.pages.views.frame import Choice
from gdcb.service.policy import Policy
from gdcb.service.web import factors
from gdcb.service.web.memory import Memory
from gdcb.service.who import id_of, is_same, name_of

_MOST_DECIMALS = 9  # a number below is written by its power of ten


def action_of(instance: Instance, values: Array) -> Action:
    """Return an action (D,) as pages show it; empty where nothing runs."""
    named = instance.decode_action(values)
    if named is None:
        return ()
    return tuple(Quantity(name, value, digits=digits_of(value)) for name, value in named.items())


def digits_of(value: Any) -> int | None:
    """Return the decimals with which a column of an action is shown: those that the button has.

    None: as many as it has. However small it is, it never reads as nothing, and 153.6 is not 154.

    >>> digits_of(153.6), digits_of(1159.6944295), digits_of(91.3521), digits_of(120.0)
    (1, 2, 4, None)
    >>> digits_of(0.0875), digits_of(3e-12), digits_of("lispro")
    (4, None, None)
    """
    if not isinstance(value, float) or not math.isfinite(value) or value == int(value):
        return None
    _, _, decimals = wording.near((Quantity("", value),)).partition(".")
    return len(decimals) if decimals.isdecimal() and len(decimals) <= _MOST_DECIMALS else None


def waiting_of(
    live: Live, policy: Policy, record: Record, lease: Lease | None, viewer: str
) -> Waiting:
    """Return a decision as the queue and the review screen show it, held or not any more."""
    asked = asked_of(live, record)
    offer = offered(record) if asked is None else asked.action
    proposal = record.made.action[record.at]
    claim = None
    if lease is not None:
        claim = Claim(name_of(lease.by), lease.until, is_same(lease.by, viewer))
    fallback: Action = ()
    if policy.expiry.fallback is not None:
        fallback = action_of(live.instance, live.instance.encode_action(policy.expiry.fallback))
    then = if_approved(live, record)
    null = live.instance.null.of(record.rows.x, len(live.instance.actions))[0]
    return Waiting(
        id=record.id,
        unit=record.unit,
        proposed=action_of(live.instance, offer),
        held=held_of(live, record, asked),
        asked=live.time_of(record.judged_at) if asked is None else asked.since,
        current=action_of(live.instance, null),
        deadline=answering.deadline(live, policy, record.id),
        expiry=policy.expiry.then,
        fallback=fallback,
        risk=risk_of(live.instance, record),
        claim=claim,
        version=record.judged_at,
        content=answering.content_of(live, record),
        original=() if np.array_equal(offer, proposal) else action_of(live.instance, proposal),
        is_live=record.is_live,
        status=record.status,
        then="" if then is None else then.status,
        runs=() if then is None else action_of(live.instance, then.action),
        then_by=() if then is None else then.gates,
    )


def held_of(live: Live, record: Record, asked: Asked | None) -> Held:
    """Return why a decision waits, or did: the rule, and what it found against which limit."""
    if asked is None:
        return Held("", record.reason)
    words = asked.reason.partition(": ")[2] or asked.reason
    words = words.removeprefix("it waits for a person: ")  # the heading says so
    gate: Any = live.instance.chain.gates[asked.at]
    found, why = getattr(gate, "found", None), getattr(gate, "why", None)
    # What was said of an answer before comes behind the rule's own words. Where the rule's settings
    # have changed since, the rule of now does not say what it found then.
    if found is None or why is None or words.partition(";")[0] != why(asked.action, record.rows):
        return Held(asked.gate, words)
    own = live.instance.actions[getattr(gate, "action", 0)].name
    numbers = found(asked.action, record.rows)
    return Held(asked.gate, words, tuple(Found(name or own, *more) for name, *more in numbers))


def risk_of(instance: Instance, record: Record) -> float:
    """Return how far out what would run is, 0 to 1: what decides between equal deadlines.

    The distance of its arm from the middle of all arms, as a share of the farthest one's. Where
    the proposal itself would not run, the arm is the nearest one; what is like none is furthest.
    """
    made, at, offer = record.made, record.at, offered(record)
    arm = int(made.arm[at])
    if not np.array_equal(offer, made.action[at]) and np.isfinite(made.x[at]).all():
        phi, delta = instance.composition, made.delta[at : at + 1]
        arm = int(phi.locate(instance.space, offer[None, None], delta, record.rows.x).arm[0, 0])
    coords = instance.space.coords
    distance = np.abs(coords - np.median(coords, axis=0)).max(axis=1)
    largest = float(distance.max())
    if largest <= 0:
        return 0.0
    return 1.0 if arm < 0 else float(distance[arm] / largest)


def answer_of(live: Live, record: Record, policy: Policy) -> Answer | None:
    """Return what was decided about a decision that no longer waits; its code as it is declared."""
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
        code=policy.codes.get(decided["code"], decided["code"]),
        reason=decided["reason"],
        action=released,
        entry=decided["entry"],
    )


def arms_of(live: Live, record: Record) -> tuple[tuple[screen.Arm, ...], str]:
    """Return all arms with their value and interval as known now, the best first.

    None is the proposal where the incumbent's action stands in its place.
    """
    spread, actions = showing.drawn(live, record)
    names, chosen = live.instance.space.names, int(record.made.arm[record.at])
    found = [
        screen.Arm(
            names[i],
            action_of(live.instance, actions[i]),
            Estimate(float(spread.mean[i]), float(spread.low[i]), float(spread.high[i])),
            float(spread.best[i]),
            i == chosen and record.is_live,
            _note(record, int(i)),
        )
        for i in np.argsort(-spread.mean, kind="stable")
    ]
    return tuple(found), "expected reward"


def _note(record: Record, arm: int) -> str:
    """Return what is to be said of an arm: that it may not run, or does not."""
    mask = record.made.mask
    if mask is not None and not mask[record.at, arm]:
        return "not allowed for this request"
    is_kept_back = arm == int(record.made.arm[record.at]) and not record.is_live
    return "the learner’s choice, which does not run here" if is_kept_back else ""


def factors_of(
    live: Live, record: Record
) -> tuple[tuple[screen.Factor, ...], tuple[screen.Factor, ...]]:
    """Return δ as it was recorded with its factors, and what each context field does to it.

    They are two accounts: a factor and a field may have one name, and not one number.
    """
    used = showing.used(live, record)
    return tuple(factors.rows(live.instance, used)), tuple(factors.effects(live.instance, used))


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
    proposed = live.instance.decode_action(offered(record)) or {}
    fields = []
    for column in live.instance.actions:
        value = given.get(column.name, proposed.get(column.name))
        low, high = _limits(live.instance, column.name)
        fields.append(
            screen.EditField(
                column.name,
                column.name,
                value,
                low=low,
                high=high,
                step=None,
                options=tuple(Choice(level, level) for level in column.levels),
            )
        )
    return tuple(fields)


def check_limits(instance: Instance, action: Mapping[str, Any]) -> None:
    """Refuse numbers beyond the limits that the edit form shows, to the digits that it shows."""
    for name, value in action.items():
        if isinstance(value, str):  # a category
            continue
        low, high = _limits(instance, name)
        is_low = low is not None and value < float(wording.attribute(low))
        is_high = high is not None and value > float(wording.attribute(high))
        if is_low or is_high:
            expected = wording.limits(low, high)
            raise InvalidInput(f"{name}: expected {expected}, got {value:.12g}")


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
        approved=Estimate(*found.approved),
    )


def is_asked_by(record: Record, viewer: str) -> bool:
    """Return whether a decision was asked for by who looks at it; they may veto it only."""
    by = record.made.by
    return by is not None and is_same(by[record.at], viewer)


def key_behind(record: Record, viewer: str) -> str:
    """Return the name of the viewer's key that asked for a decision; empty where none did."""
    by = "" if record.made.by is None else record.made.by[record.at]
    is_key = is_asked_by(record, viewer) and id_of(by) != id_of(viewer)
    return name_of(by) if is_key else ""


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
