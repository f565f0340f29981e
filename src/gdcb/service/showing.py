"""What a reviewer wants to know: the other arms, the factors, what an edit would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb import events as ev
from gdcb import round as turn
from gdcb.arguments import check_review
from gdcb.arrays import Array
from gdcb.cases import Record, rows_of
from gdcb.context import Category, Flag
from gdcb.gates import Chain
from gdcb.instance import Instance
from gdcb.ledger.evidence import factors_of
from gdcb.ledger.live import Live
from gdcb.ledger.sealing import ERASED
from gdcb.ledger.story import size_of
from gdcb.records import HELD, STATUS, Rows, Setting
from gdcb.service.holding import offered
from gdcb.streams import PROPENSITY
from gdcb.valuation import Valuation

DRAWS = 256
_TYPICAL = 500  # rows that say what is typical
_FAR, _STEP = 200, 8  # events that are gone back for them, at most and at a time
_BYTES = 2**24  # of events, after which it goes back no further


@dataclass(frozen=True, slots=True)
class Spread:
    """Drawn values of actions in one context: mean, 90 % interval, chance of being the best."""

    mean: Array
    low: Array
    high: Array
    best: Array


def context_of(instance: Instance, x: Array) -> dict[str, Any]:
    """Return a context (p,) by name, as it was given; 'erased' where a field was.

    >>> from gdcb.context import Number, Schema
    >>> from gdcb import ArmList, Multiply
    >>> schema = Schema({"base": Number(1, 9), "wet": Flag(), "day": Category(("mon", "tue"))})
    >>> one = Instance(schema, ArmList(values=(1.0,)), Multiply(base=("base",)), gate=[])
    >>> context_of(one, np.array([3.0, 1.0, 0.0, 1.0]))
    {'base': 3.0, 'wet': True, 'day': 'tue'}
    """
    found: dict[str, Any] = {}
    for name, kind in instance.context.columns.items():
        at = instance.context.positions[name]
        if np.isnan(x[at]).any():
            found[name] = ERASED
        elif isinstance(kind, Category):
            found[name] = kind.levels[int(np.argmax(x[at]))]
        else:
            found[name] = bool(x[at[0]]) if isinstance(kind, Flag) else float(x[at[0]])
    return found


def drawn(
    live: Live, record: Record, e: Array | None = None, first: int = 0
) -> tuple[Spread, Array]:
    """Draw the learners' values of all arms in a decision's context, and of more actions.

    As they are known now, which may be more than when it was proposed, and behind the gates: the
    arms behind all of them, e (M, D) behind those from `first` on. Returns the spread over the arms
    (K,), or over the arms and e (K + M,), and the composed actions (K, D).
    """
    instance, n = live.instance, DRAWS
    one = record.rows
    mask = None if one.mask is None else np.repeat(one.mask, n, axis=0)
    rows = rows_of([record.place] * n, np.repeat(one.x, n, axis=0), mask)
    keys = [(f"shown:{record.id}", i) for i in range(n)]
    delta, _ = turn.scale(instance, live.state, rows)
    actions = instance.composition.compose(instance.space, delta, rows.x)
    at = Setting(instance.cells.of(rows.unit, delta), rows.x, delta)
    draw = live.bandit.draw(live.stream(keys, PROPENSITY), live.state.bandit, at)
    known = Valuation(
        instance, live.bandit, rows.x, delta, actions, draw, live.state.null, rows.unit
    )
    worth = instance.chain.expect(known, actions, rows, live.state.kernels)
    chance = np.bincount(_best(worth, rows), minlength=worth.shape[1]) / n
    if e is not None:
        chain = Chain(instance.chain.gates[first:], closed=False).for_actions(instance.actions)
        entered = np.broadcast_to(e, (n, *e.shape))
        extra = chain.expect(known, entered, rows, live.state.kernels[first:])
        worth = np.concatenate((worth, extra), axis=1)
        chance = np.append(chance, np.full(len(e), np.nan))
    low, high = np.quantile(worth, (0.05, 0.95), axis=0)
    return Spread(worth.mean(axis=0), low, high, chance), actions[0]


def _best(worth: Array, rows: Rows) -> Array:
    allowed = worth if rows.mask is None else np.where(rows.mask, worth, -np.inf)
    return np.asarray(allowed.argmax(axis=1))


@dataclass(frozen=True, slots=True)
class Used:
    """What the scaler made of a decision's context when it was proposed.

    Parameters
    ----------
    delta : (q,) δ of the proposed arm, as it was recorded
    named : the factors that δ is the product of, by name; none where the scaler has no names
    effects : (field, value, effect) of the fields that δ hangs on; effect (q,) is what the value
        does against the typical one, as a factor where δ multiplies the arm and as a difference
        where it is added; None: it is the typical value
    why_not : why factors and effects are not known any more; empty: they are
    """

    delta: Array
    named: dict[str, float]
    effects: list[tuple[str, Any, Array | None]]
    why_not: str = ""


def used(live: Live, record: Record) -> Used:
    """Return the recorded δ of a decision and, while the scaler still says so, where it is from."""
    made, scaler = record.made, live.instance.scaler
    recorded, arm = made.delta[record.at], int(made.arm[record.at])
    arm = arm if recorded.shape[0] > 1 else 0
    if not np.isfinite(record.rows.x).all():
        return Used(recorded[arm], {}, [], "fields that it hangs on were erased")
    owner = record.rows.unit if scaler.per == "unit" else record.rows.group
    said = turn.delta_of(live.instance, live.state, owner, record.rows.x)[0]
    if not np.array_equal(said, recorded):
        return Used(recorded[arm], {}, [], "the scaler has been refitted since")
    named = factors_of(live.instance, live.state, record.rows) or {}
    return Used(recorded[arm], named, _effects(live, record, arm))


def _effects(live: Live, record: Record, arm: int) -> list[tuple[str, Any, Array | None]]:
    """Return what each field that δ hangs on does to it, against what was typical before."""
    instance, one, recent = live.instance, record.rows, _before(live, record)
    joins = instance.composition.joins
    if joins not in ("product", "sum") or not recent.size:
        return []
    found: list[tuple[str, Any, Array | None]] = []
    for name, value in context_of(instance, one.x[0]).items():
        at = instance.context.positions[name]
        typical, others = _typical(instance.context.columns[name], recent[:, at])
        x = np.repeat(one.x, 2 + len(others), axis=0)
        x[1, at], x[2:, at] = typical, others
        owner = np.repeat(one.unit if instance.scaler.per == "unit" else one.group, len(x))
        delta = turn.delta_of(instance, live.state, owner, x)[:, arm]
        if (delta == delta[0]).all():  # whatever stands there, δ is the same
            continue
        effect = delta[0] / delta[1] if joins == "product" else delta[0] - delta[1]
        is_typical = bool((x[0, at] == x[1, at]).all())
        found.append((name, value, None if is_typical else effect))
    return found


def _typical(kind: Any, seen: Array) -> tuple[Array, Array]:
    """Return the typical value of a field (n, width), and others that were seen: its extremes."""
    if isinstance(kind, Category):
        levels = np.eye(seen.shape[1])
        return levels[int(np.argmax(seen.sum(axis=0)))], levels
    typical = np.median(seen, axis=0)
    if isinstance(kind, Flag):
        typical = np.round(typical)
    return typical, np.stack((seen.min(axis=0), seen.max(axis=0)))


def _before(live: Live, record: Record) -> Array:
    """Return contexts of the decisions up to this one: they stay the same while others are made.

    Decisions wait meanwhile, so it goes back in small steps, and no further than it has to.
    """
    stop = record.judged_at if record.judged_at >= 0 else len(live.events)
    last = max(0, stop - _FAR)
    found: list[Array] = []
    rows = size = 0
    while stop > last and rows < _TYPICAL and size < _BYTES:
        start = max(last, stop - _STEP)
        for event in reversed(live.events[start:stop]):
            size += size_of(event)
            if isinstance(event, ev.DecisionMade):
                found.append(event.x[np.isfinite(event.x).all(axis=1)])
                rows += len(found[-1])
        stop = start
    width = live.instance.context.width
    return np.concatenate(found)[:_TYPICAL] if found else np.zeros((0, width))


@dataclass(frozen=True, slots=True)
class Edited:
    """What an edit would do.

    Parameters
    ----------
    action : (D,) as entered; arm, steps : the nearest arm and how far it is
    mean, low, high : drawn value of what would run, behind the gates that are left; of the null
        action where nothing would
    approved : the same three of what an approval lets through, by the same draws
    gates : (name, status, entered, left, reason) of the gates behind the person
    """

    action: Array
    arm: str
    steps: float
    mean: float
    low: float
    high: float
    approved: tuple[float, float, float]
    gates: list[tuple[str, str, Array, Array, str]]


def preview(live: Live, record: Record, action: Mapping[str, Any]) -> Edited:
    """Work out what an edit of a held decision would do; changes nothing."""
    instance = live.instance
    e = instance.encode_action(action)
    said = ev.Reviewed(record.id, "edit", e.tolist(), "", "")
    check_review(instance, said)
    verdict = live.resume(record, said)
    one = record.rows
    delta, _ = turn.scale(instance, live.state, one)
    located = instance.composition.locate(instance.space, e[None, None], delta, one.x)
    held = record.verdict
    first = 0 if held is None else int(held.gate[0]) + 1
    spread, _ = drawn(live, record, np.stack((e, offered(record))), first)
    gates = []
    for i, gate in enumerate(instance.chain.gates[first:], first):
        status = int(verdict.statuses[0, i])
        entered, left = verdict.trail[0, i], verdict.trail[0, i + 1]
        word = STATUS[status] if status >= 0 else "not reached"
        reason = "" if status <= 0 else _reason(gate, status, entered, left, one)
        gates.append((gate.name, word, entered, left, reason))
    arm = int(located.arm[0, 0])
    name = instance.space.names[arm] if arm >= 0 else ""
    edited, approved = (
        (float(spread.mean[k]), float(spread.low[k]), float(spread.high[k])) for k in (-2, -1)
    )
    return Edited(e, name, float(located.steps[0, 0]), *edited, approved, gates)


def _reason(gate: Any, status: int, entered: Array, left: Array, row: Rows) -> str:
    try:
        if status == HELD:  # nobody has said anything yet
            return str(gate.why(entered, row)) if hasattr(gate, "why") else ""
        return str(gate.reason(entered, left, row))
    except Exception as error:  # a gate that cannot say why has still said what
        return f"it gave no reason ({type(error).__name__})"
