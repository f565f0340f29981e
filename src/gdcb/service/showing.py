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
from gdcb.instance import Instance
from gdcb.ledger.live import Live
from gdcb.ledger.sealing import ERASED
from gdcb.records import STATUS, Rows, Setting
from gdcb.streams import PROPENSITY
from gdcb.valuation import Valuation

DRAWS = 256


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
    >>> one = Instance(schema, ArmList(values=(1.0,)), Multiply(base=("base",)))
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


def drawn(live: Live, record: Record, e: Array | None = None) -> tuple[Spread, Array]:
    """Draw the learners' values of all arms in a decision's context, and of one more action.

    As they are known now, which may be more than when it was proposed. Returns the spread over
    the arms (K,), or over the arms and e (K + 1,), and the composed actions (K, D).
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
        extra = known(np.broadcast_to(e, (n, 1, e.size)))
        worth, chance = np.concatenate((worth, extra), axis=1), np.append(chance, np.nan)
    low, high = np.quantile(worth, (0.05, 0.95), axis=0)
    return Spread(worth.mean(axis=0), low, high, chance), actions[0]


def _best(worth: Array, rows: Rows) -> Array:
    allowed = worth if rows.mask is None else np.where(rows.mask, worth, -np.inf)
    return np.asarray(allowed.argmax(axis=1))


def effects(live: Live, record: Record) -> list[tuple[str, Any, float | None]]:
    """Return each context field, its value, and what it does to δ against a typical value.

    δ(x)/δ(x with this field as it typically is); typical is the median of what was seen lately.
    None: the scaler does not read it.
    """
    instance, one = live.instance, record.rows
    recent = _recent(live)
    typical = np.median(recent, axis=0) if recent.size else one.x[0]
    owner = one.unit if instance.scaler.per == "unit" else one.group
    base = instance.scaler.predict(live.state.scaler, owner, one.x)[0, 0, 0]
    found: list[tuple[str, Any, float | None]] = []
    for name, value in context_of(instance, one.x[0]).items():
        at, x = instance.context.positions[name], one.x.copy()
        x[0, at] = typical[at]
        if isinstance(instance.context.columns[name], Category):
            x[0, at] = (
                np.eye(len(at))[int(np.argmax(recent[:, at].sum(axis=0)))]
                if recent.size
                else one.x[0, at]
            )
        other = instance.scaler.predict(live.state.scaler, owner, x)[0, 0, 0]
        changed = base / other if other else np.nan
        found.append(
            (name, value, float(changed) if np.isfinite(changed) and other != base else None)
        )
    return found


def _recent(live: Live, most: int = 40) -> Array:
    """Return contexts of the latest decisions that are in memory."""
    found = []
    for number in range(len(live.events) - 1, max(-1, len(live.events) - most), -1):
        event = live.events[number]
        if isinstance(event, ev.DecisionMade):
            found.append(event.x[np.isfinite(event.x).all(axis=1)])
    return np.concatenate(found)[:500] if found else np.zeros((0, live.instance.context.width))


@dataclass(frozen=True, slots=True)
class Edited:
    """What an edit would do.

    Parameters
    ----------
    action : (D,) as entered; arm, steps : the nearest arm and how far it is
    mean, low, high : its drawn value
    gates : (name, status, entered, left, reason) of the gates behind the person
    """

    action: Array
    arm: str
    steps: float
    mean: float
    low: float
    high: float
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
    spread, _ = drawn(live, record, e)
    held = record.verdict
    first = 0 if held is None else int(held.gate[0]) + 1
    gates = []
    for i, gate in enumerate(instance.chain.gates[first:], first):
        status = int(verdict.statuses[0, i])
        entered, left = verdict.trail[0, i], verdict.trail[0, i + 1]
        word = STATUS[status] if status >= 0 else "not reached"
        reason = "" if status <= 0 else _reason(gate, entered, left, one)
        gates.append((gate.name, word, entered, left, reason))
    arm = int(located.arm[0, 0])
    name = instance.space.names[arm] if arm >= 0 else ""
    values = (float(spread.mean[-1]), float(spread.low[-1]), float(spread.high[-1]))
    return Edited(e, name, float(located.steps[0, 0]), *values, gates)


def _reason(gate: Any, entered: Array, left: Array, row: Rows) -> str:
    try:
        return str(gate.reason(entered, left, row))
    except Exception as error:  # a gate that cannot say why has still said what
        return f"it gave no reason ({type(error).__name__})"
