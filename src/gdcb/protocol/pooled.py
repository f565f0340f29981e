"""Rivals that share what they learn between the units of a group: one learner, a level each.

A joint model of a group is the strongest form of a contextual rival: all units share the weights
of context and action, and each has a level of its own, as in a mixed model. The group's first unit
carries the learner; which unit a row is of stands in its last context columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.context import Number, Schema
from gdcb.instance import Instance
from gdcb.records import History, Rows
from gdcb.simulate import World
from gdcb.streams import Stream


def names(units: int) -> tuple[str, ...]:
    """Return the columns that say which unit of its group a row is of; none for the first."""
    return tuple(f"unit_{place}" for place in range(1, units))


def pooled_instance(instance: Instance, units: int) -> Instance:
    """Return the instance with these columns behind its own."""
    more = {name: Number(0, 1, "1 for this unit of the group") for name in names(units)}
    schema = Schema({**instance.context.columns, **more})
    return replace(instance, context=schema, gate=instance.chain)


def pooled_history(history: History, units: int) -> History:
    """Return the history as the group's one learner sees it."""
    rows = _together(history.rows, units)
    log = replace(history.log, unit=rows.unit, x=rows.x)
    return replace(history, log=log, rows=rows)


def _together(rows: Rows, units: int) -> Rows:
    place = rows.unit % units
    which = (place[:, None] == np.arange(1, units)).astype(float)
    none = np.zeros((rows.n, 0))
    hidden = np.concatenate(
        (none if rows.hidden is None else rows.hidden, rows.unit[:, None]), axis=1
    )
    x = np.concatenate((rows.x, which), axis=1)
    return Rows(rows.unit - place, rows.group, x, rows.mask, hidden)


def _apart(rows: Rows, units: int) -> Rows:
    hidden = np.zeros((rows.n, 1)) if rows.hidden is None else rows.hidden
    rest = hidden[:, :-1] if hidden.shape[1] > 1 else None
    x = rows.x[:, : rows.x.shape[1] - units + 1]
    return Rows(hidden[:, -1].astype(np.int64), rows.group, x, rows.mask, rest)


@dataclass(frozen=True)
class Pooled:
    """The same world for one learner a group; its rows are told apart by their columns."""

    world: World
    units: int

    def start(self, rng: Stream, group: Array) -> Any:
        """Start the plain world."""
        return self.world.start(rng, group)

    def context(self, rng: Stream, state: Any, t: int, group: Array) -> Rows:
        """Reveal the plain world's rows as the group's one learner sees them."""
        return _together(self.world.context(rng, state, t, group), self.units)

    def mean(self, state: Any, e: Array, rows: Rows) -> Array:
        """Return the plain world's μ."""
        return self.world.mean(state, e, _apart(rows, self.units))

    def best(self, state: Any, rows: Rows) -> Array:
        """Return the plain world's optimum."""
        return self.world.best(state, _apart(rows, self.units))

    def candidates(self, state: Any, rows: Rows) -> Array:
        """Return the plain world's grid."""
        return self.world.candidates(state, _apart(rows, self.units))

    def sample(self, rng: Stream, state: Any, e: Array, rows: Rows) -> Array:
        """Draw the plain world's outcomes."""
        return self.world.sample(rng, state, e, _apart(rows, self.units))

    def label(self, rng: Stream, state: Any, e: Array, rows: Rows) -> Array | None:
        """Return the plain world's labels."""
        return self.world.label(rng, state, e, _apart(rows, self.units))

    def advance(self, rng: Stream, state: Any, e: Array, outcome: Array, rows: Rows) -> Any:
        """Advance the plain world."""
        return self.world.advance(rng, state, e, outcome, _apart(rows, self.units))

    def reference(self, state: Any, rows: Rows) -> Array | None:
        """Return what the plain world's optimal trajectory is worth, where it has one."""
        ask = getattr(self.world, "reference", None)
        return None if ask is None else ask(state, _apart(rows, self.units))

    def true_delta(self, state: Any, rows: Rows) -> Array | None:
        """Return the plain world's δ*, where it has one."""
        ask = getattr(self.world, "true_delta", None)
        return None if ask is None else ask(state, _apart(rows, self.units))
