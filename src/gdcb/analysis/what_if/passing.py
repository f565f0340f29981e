"""What another chain of gates would have made of the same proposals, row by row.

Persons are let pass here: what they would say to something they were not asked about is a matter
of `laws`. What is known without a model is worked out exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.analysis.what_if.log import GatedLog, is_same, nulled, runs_at
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.gates import Bounds, Cap, Chain, Gate
from gdcb.instance import Instance
from gdcb.parts import bind
from gdcb.records import MODIFIED, PASSED, Rows

_NUDGE = 1e-6


@dataclass(slots=True)
class Rerun:
    """The same proposals behind another chain.

    Parameters
    ----------
    action : (N, D) e′, what would run; where a person is asked anew, if they approve; NaN: nothing
    is_changed : (N,) whether e′ may differ from what ran; all other rows keep their outcome
    is_known : (N,) whether the log tells what entered the gate in question
    is_asked : (N,) whether a person behind the gate is shown something else than they were
    shown : (N, D) what they are shown
    """

    action: Array
    is_changed: Array
    is_known: Array
    is_asked: Array
    shown: Array


def place_of(instance: Instance, name: str) -> int:
    """Return where the gate `name` stands in the chain; refuse a name that is not there."""
    names = [gate.name for gate in instance.chain.gates]
    if name not in names:
        known = ", ".join(names) or "none"
        raise InvalidInput(f"question.name: no gate '{name}'; the chain has {known}")
    return names.index(name)


def through(instance: Instance, gates: tuple[Gate, ...], e: Array, rows: Rows) -> Array:
    """Return what hard gates make of actions (N, D); persons among them let pass; NaN: nothing."""
    hard = tuple(gate for gate in gates if gate.is_hard)
    if not hard:
        return e
    chain = Chain(hard, closed=False).for_actions(instance.actions)
    verdict = chain.apply((None,) * len(hard), np.where(np.isfinite(e), e, np.nan), rows)
    return np.where((verdict.status <= MODIFIED)[:, None], verdict.action, np.nan)


def rerun(instance: Instance, log: GatedLog, place: int, gate: Gate | None) -> Rerun:
    """Send the log's proposals through the chain with another gate (None: no gate) at `place`.

    What entered the gate is known from the trail; where no person stands before it; where they let
    the proposal pass; and where what ran would have passed the old gates with something to spare,
    or was cut at a limit that the new gate does not raise.
    """
    gates = instance.chain.gates
    gate = bound(instance, gate)
    entered, is_known = _entered(instance, log, place, gate)
    if any(one.is_person for one in gates[place + 1 :]):
        was = None if log.trail is None else log.trail[:, place + 1]
        found = reroute(instance, log.rows, place, gate, entered, was)
        found.action = np.where(found.is_changed[:, None], found.action, log.executed)
        found.is_asked &= is_known
    else:
        found = reroute(instance, log.rows, place, gate, entered)
        found.is_changed = ~is_same(found.action, log.executed)
    found.is_changed |= ~is_known
    found.is_known = is_known
    return found


def bound(instance: Instance, gate: Gate | None) -> Gate | None:
    """Return the gate with its context columns by position; refuse one that cannot judge these."""
    if gate is not None:
        gate = bind(gate, instance.context.positions)
        gate.check(instance.actions)
    return gate


def reroute(
    instance: Instance,
    rows: Rows,
    place: int,
    gate: Gate | None,
    entered: Array,
    was: Array | None = None,
) -> Rerun:
    """Return what becomes of actions (N, D) that enter the gate at `place`, persons approving.

    `was` (N, D) is what left the old gate, where the log has it. Nobody is asked anew who is shown
    the same as before.
    """
    gates = instance.chain.gates
    behind, known = gates[place + 1 :], np.ones(rows.n, dtype=bool)
    shown = through(instance, () if gate is None else (gate,), entered, rows)
    if was is None:
        was = through(instance, gates[place : place + 1], entered, rows)
    first = next((i for i, one in enumerate(behind) if one.is_person), len(behind))
    shown, was = (through(instance, behind[:first], part, rows) for part in (shown, was))
    new, old = (
        nulled(instance, through(instance, behind[first:], part, rows), rows.x)
        for part in (shown, was)
    )
    if first == len(behind):
        return Rerun(new, ~is_same(new, old), known, ~known, shown)
    is_changed = ~is_same(shown, was)
    return Rerun(new, is_changed, known, is_changed & runs_at(shown), shown)


def is_approved(instance: Instance, log: GatedLog) -> Array:
    """Return the rows that all persons let pass as proposed: (N,).

    By the statuses where the log has them, else where what ran is what the hard gates alone make
    of the proposal.
    """
    gates = instance.chain.gates
    persons = [i for i, gate in enumerate(gates) if gate.is_person]
    if log.statuses is not None:
        return np.asarray((log.statuses[:, persons] == PASSED).all(axis=1))
    left = nulled(instance, through(instance, gates, log.recommended, log.rows), log.rows.x)
    return is_same(left, log.executed)


def contradicted(instance: Instance, log: GatedLog) -> Array:
    """Return the rows in which the declared gates cannot have made what ran: (N,).

    Where persons let a proposal pass, or there are none, the hard gates say what must have run;
    what a person put in must be what the hard gates behind leave alone.
    """
    gates = instance.chain.gates
    approved = is_approved(instance, log) if instance.chain.has_person else np.ones(log.n, bool)
    left = nulled(instance, through(instance, gates, log.recommended, log.rows), log.rows.x)
    persons = [i for i, gate in enumerate(gates) if gate.is_person]
    behind = gates[persons[-1] + 1 :] if persons else ()
    again = through(instance, behind, log.executed, log.rows)
    null = instance.null.of(log.rows.x, log.executed.shape[1])
    is_free = is_same(again, log.executed) | is_same(null, log.executed)
    return np.where(approved, ~is_same(left, log.executed), ~is_free)


def _entered(
    instance: Instance, log: GatedLog, place: int, gate: Gate | None
) -> tuple[Array, Array]:
    """Return what entered the gate at `place` (N, D), and whether that is known."""
    gates, rows = instance.chain.gates, log.rows
    if log.trail is not None:
        entered = log.trail[:, place]
        return entered, np.ones(log.n, dtype=bool)
    entered = through(instance, gates[:place], log.recommended, rows)
    if not any(one.is_person for one in gates[:place]):
        return entered, np.ones(log.n, dtype=bool)
    approved, old = is_approved(instance, log), gates[place:]
    if any(one.is_person for one in old):
        return entered, approved
    is_free = _passes_with_room(instance, old, log.executed, rows)
    if log.statuses is None:
        # What a limit cut, a proposal and a person's own action may both have been above it.
        approved = approved & is_free
    is_known = approved | is_free | _is_cut_alike(instance, gates[place], gate, log, rows, old)
    return np.where(approved[:, None], entered, log.executed), is_known


def _nudged(e: Array, column: int, sign: float) -> Array:
    moved = e.copy()
    moved[:, column] += sign * _NUDGE * (1.0 + np.abs(e[:, column]))
    return moved


def _passes_with_room(instance: Instance, gates: tuple[Gate, ...], e: Array, rows: Rows) -> Array:
    """Return which actions the gates leave alone, and their neighbours too: (N,)."""
    free = is_same(through(instance, gates, e, rows), e)
    for column, kind in enumerate(instance.actions):
        if kind.levels:
            continue
        for sign in (-1.0, 1.0):
            near = _nudged(e, column, sign)
            free &= _is_exactly(through(instance, gates, near, rows), near)
    return np.asarray(free & runs_at(e))


def _is_cut_alike(
    instance: Instance,
    old: Gate,
    new: Gate | None,
    log: GatedLog,
    rows: Rows,
    behind: tuple[Gate, ...],
) -> Array:
    """Return the rows cut by an interval at a limit that the new interval does not raise: (N,)."""
    both = all(isinstance(one, Cap | Bounds) for one in (old, new))
    if not both or len(behind) > 1 or new is None:
        return np.zeros(log.n, dtype=bool)
    if any(getattr(one, "outside", "project") != "project" for one in (old, new)):
        return np.zeros(log.n, dtype=bool)
    column = int(getattr(old, "action", 0))
    if column != getattr(new, "action", 0):
        return np.zeros(log.n, dtype=bool)
    runs = runs_at(log.executed)
    alike = np.ones(log.n, dtype=bool)
    for sign in (-1.0, 1.0):
        near = _nudged(log.executed, column, sign)
        is_cut = ~_is_exactly(through(instance, (old,), near, rows), near)
        images = (through(instance, (new,), part, rows) for part in (near, log.executed))
        alike &= ~is_cut | _is_exactly(*images)
    return np.asarray(alike & runs)


def _is_exactly(one: Array, other: Array) -> Array:
    return np.asarray((one == other).all(axis=1))
