"""Worlds, and the loop that runs a bandit in them, vectorised over replicates and units.

A replicate is a group of units. Random numbers are keyed by (seed, stage, round, block of 100
replicates), and no stage lets one row's numbers hang on another's, so a replicate's history is
the same bytes whatever runs beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.bandits import Bandit
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.records import Decision, Executed, Log, Rows, Verdict
from gdcb.streams import ADVANCE, CONTEXT, DRAW, GATE, LABEL, OUTCOME, WORLD, Stream, Streams


class World(Protocol):
    """A simulator whose truth is known: E[r | e, x] is exact.

    The state is a record of arrays with a leading unit axis. `mean` and `sample` read NaN
    actions as 'nothing runs'.
    """

    def start(self, rng: Stream, group: Array) -> Any:
        """Draw the world's parameters and first state for `len(group)` units."""

    def context(self, rng: Stream, state: Any, t: int, group: Array) -> Rows:
        """Reveal one context a unit."""

    def mean(self, state: Any, e: Array, rows: Rows) -> Array:
        """Return μ(e, x) = E[r | e, x] of actions (N, M, D): (N, M)."""

    def best(self, state: Any, rows: Rows) -> Array:
        """Return the unrestricted optimum e* of every row: (N, D)."""

    def candidates(self, state: Any, rows: Rows) -> Array:
        """Return a fine grid over the action space, for the gate floor: (N, M, D)."""

    def sample(self, rng: Stream, state: Any, e: Array, rows: Rows) -> Array:
        """Draw outcomes of executed actions (N, D): (N, outcomes)."""

    def label(self, rng: Stream, state: Any, e: Array, rows: Rows) -> Array | None:
        """Return the scaler's labels (N, n_labels), NaN where none came; None: never any."""

    def advance(self, rng: Stream, state: Any, e: Array, outcome: Array, rows: Rows) -> Any:
        """Return the next state; the same object where the world has no memory."""


@dataclass(slots=True)
class Turn:
    """All that happened in one round, for whoever watches."""

    t: int
    world: Any
    rows: Rows
    decision: Decision
    verdict: Verdict
    executed: Executed
    outcome: Array
    reward: Array


@dataclass(slots=True)
class Simulation:
    """What a run leaves: the learned state, the finished rows, and the group of every unit."""

    state: turn.RoundState
    log: Log | None
    group: Array


def simulate(
    instance: Instance,
    bandit: Bandit,
    world: World,
    *,
    rounds: int,
    replicates: int,
    units: int = 1,
    seed: int = 0,
    watch: Callable[[Turn], None] | None = None,
    keep_log: bool = False,
) -> Simulation:
    """Run `rounds` rounds of `replicates` independent groups of `units` units.

    `watch` sees every round. The log is kept where the scaler can publish (refolding reads it)
    or where `keep_log` asks for it.
    """
    sizes: dict[str, Any] = {"rounds": rounds, "replicates": replicates, "units": units}
    for name, value in sizes.items():
        if not isinstance(value, int) or value < 1:
            raise InvalidInput(f"{name}: expected a whole number >= 1, got {value!r}")
    for gate in instance.chain.gates:
        if getattr(gate, "holds", False):
            raise InvalidInput(
                f"gate '{gate.name}' holds for a real person; give it a SimulatedPerson to simulate"
            )
    group = np.repeat(np.arange(replicates), units)
    streams = Streams(seed, rows_per_replicate=units)
    bandit = instance.bind(bandit)
    state = turn.init(instance, bandit, group)
    nature = world.start(streams.at(WORLD, 0), group)
    logs: list[Log] = []
    keep = keep_log or instance.scaler.learns_from != "nothing"
    for t in range(rounds):
        rows = world.context(streams.at(CONTEXT, t), nature, t, group)
        if t == 0:
            instance.check_rows(rows, group.size)
        decision = turn.decide(streams.at(DRAW, t), instance, bandit, state, rows)
        verdict = turn.gate(streams.at(GATE, t), instance, decision, rows)
        executed = turn.execute(instance, verdict, rows)
        outcome = world.sample(streams.at(OUTCOME, t), nature, executed.action, rows)
        if outcome.shape != (group.size, len(instance.reward.outcome)):
            expected = (group.size, len(instance.reward.outcome))
            raise InvalidInput(f"world.sample: expected shape {expected}, got {outcome.shape}")
        label = None
        if instance.scaler.n_labels:
            label = world.label(streams.at(LABEL, t), nature, executed.action, rows)
        if watch is not None:
            reward = instance.realised(outcome, executed.action, rows.x)
            watch(Turn(t, nature, rows, decision, verdict, executed, outcome, reward))
        instance.chain.learn(state.kernels, rows, verdict)
        log = turn.finished(instance, rows, decision, executed, outcome)
        due = turn.learn(instance, bandit, state, log, outcome, label, decision.delta)
        if keep:
            logs.append(log)
        if due.size:
            changed = turn.publish(instance, state, due, group)
            if changed.size:
                logs = [Log.concatenate(logs)]
                turn.refold(instance, bandit, state, logs[0], group, changed)
        nature = world.advance(streams.at(ADVANCE, t), nature, executed.action, outcome, rows)
    return Simulation(state, Log.concatenate(logs) if logs else None, group)
