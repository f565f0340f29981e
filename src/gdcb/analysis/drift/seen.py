"""What monitors see: rows of decisions, verdicts and outcomes, from a history or from events."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np

from gdcb import events as ev
from gdcb.arrays import Array
from gdcb.cases import Happened, Records, whole_verdict
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.records import HELD, NOT_REACHED, History, Log


@dataclass(slots=True)
class Seen:
    """N rows, each with what is news in it.

    Parameters
    ----------
    x : (N, p) context
    is_new : (N,) whether the context is news: a later row of the same decision has it again
    trail : (N, G+1, D) what entered each gate, and what left the last; NaN: nothing
    statuses : (N, G) what each gate did, NOT_REACHED or HELD where that is not known or no news
    action : (N, D) what ran
    y : (N,) what the bandit learns from (a class or a reward); NaN: not known, no news, or the
        null action ran
    at : (N,) whole numbers that name the rows, such as the numbers of their events
    """

    x: Array
    is_new: Array
    trail: Array
    statuses: Array
    action: Array
    y: Array
    at: Array

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.x.shape[0])

    def take(self, index: Array) -> Seen:
        """Return the rows at `index`."""
        return Seen(
            self.x[index],
            self.is_new[index],
            self.trail[index],
            self.statuses[index],
            self.action[index],
            self.y[index],
            self.at[index],
        )

    def check(self, n_columns: int, n_gates: int, n_actions: int) -> None:
        """Refuse rows of other contexts, gates or actions, and numbers that cannot be."""
        n = self.n
        shapes = {
            "x": (n, n_columns),
            "is_new": (n,),
            "trail": (n, n_gates + 1, n_actions),
            "statuses": (n, n_gates),
            "action": (n, n_actions),
            "y": (n,),
            "at": (n,),
        }
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise InvalidInput(
                    f"{name}: expected shape {shape}, got {getattr(self, name).shape}"
                )
        if not np.isfinite(self.x).all():
            raise InvalidInput("x: expected finite numbers")
        if np.isinf(self.y).any():
            raise InvalidInput("y: expected finite numbers, or NaN where there is none")


def seen_in_history(history: History) -> Seen:
    """Return all that happened in a history as news, a row a decision."""
    log, verdict = history.log, history.verdict
    y = np.where(log.is_null | ~np.isfinite(log.action).all(axis=1), np.nan, log.y)
    n = y.size
    return Seen(
        log.x, np.ones(n, bool), verdict.trail, verdict.statuses, log.action, y, np.arange(n)
    )


class Story(Protocol):
    """What happened to an agent: `gdcb.Agent` is one."""

    instance: Instance
    bandit: Any
    events: Happened
    records: Records

    def log(self, event: ev.OutcomeObserved) -> Log:
        """Return a finished decision as a row of the log."""


def seen_in_events(
    agent: Story, start: int = 0, stop: int | None = None, held: dict[str, int] | None = None
) -> Seen:
    """Return what was news in an agent's events from `start` to before `stop`, in their order.

    A decision's context is news when it is made, a gate's answer when it is given (a held one when
    the person has answered), and an outcome when it comes in. Other events are left out.

    `held`: the gates of the decisions that are held when `start` comes, brought up to `stop`; None:
    they are looked for in all events before.
    """
    instance, stop = agent.instance, len(agent.events) if stop is None else stop
    n_gates, n_actions = len(instance.chain.gates), len(instance.actions)
    held = _held_before(agent, start) if held is None else held
    parts: list[Seen] = []
    for i, event in enumerate(agent.events[start:stop], start):
        if not isinstance(event, ev.DecisionMade | ev.GateApplied | ev.OutcomeObserved):
            continue
        records = [agent.records[id] for id in event.id]
        n = len(records)
        part = Seen(
            np.array([record.made.x[record.at] for record in records]),
            np.full(n, isinstance(event, ev.DecisionMade)),
            np.full((n, n_gates + 1, n_actions), np.nan),
            np.full((n, n_gates), NOT_REACHED, dtype=np.int8),
            np.full((n, n_actions), np.nan),
            np.full(n, np.nan),
            np.full(n, i, dtype=np.int64),
        )
        if isinstance(event, ev.GateApplied):
            part.trail, part.statuses = event.trail, event.statuses.copy()
            for row, id in enumerate(event.id):  # told when the decision was held
                part.statuses[row, : held.pop(id, 0)] = NOT_REACHED
            _hold(held, event)
        elif isinstance(event, ev.OutcomeObserved):
            log = agent.log(event)
            ran = ~log.is_null
            part.action[ran], part.y[ran] = log.action[ran], log.y[ran]
        parts.append(part)
    return _joined(parts, instance.context.width, n_gates, n_actions)


def _joined(parts: list[Seen], width: int, n_gates: int, n_actions: int) -> Seen:
    none = Seen(
        np.zeros((0, width)),
        np.zeros(0, dtype=bool),
        np.zeros((0, n_gates + 1, n_actions)),
        np.zeros((0, n_gates), dtype=np.int8),
        np.zeros((0, n_actions)),
        np.zeros(0),
        np.zeros(0, dtype=np.int64),
    )
    names = [field.name for field in fields(Seen)]
    return Seen(*(np.concatenate([getattr(p, name) for p in (none, *parts)]) for name in names))


def _held_before(agent: Story, start: int) -> dict[str, int]:
    """Return the gates that held decisions which nobody had answered before an event."""
    held: dict[str, int] = {}
    for event in agent.events[:start]:
        if isinstance(event, ev.GateApplied):
            for id in event.id:
                held.pop(id, None)
            _hold(held, event)
    return held


def _hold(held: dict[str, int], event: ev.GateApplied) -> None:
    """Remember the gates that hold decisions now."""
    at = np.flatnonzero(event.status == HELD)
    if at.size:
        gate = whole_verdict(event).gate
        held.update({event.id[row]: int(gate[row]) for row in at})
