"""What all methods of a block share: nights, optima, gate floor, incumbent, history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from gdcb import round as turn
from gdcb.analysis.regret import Truth, arms_of, floor_of, truth_of
from gdcb.arrays import Array
from gdcb.instance import Instance
from gdcb.instances import Study, study
from gdcb.protocol.record import Ground
from gdcb.protocol.task import Options, Task
from gdcb.records import History, Rows
from gdcb.scalers import ConstantScaler
from gdcb.simulate import Turn, World
from gdcb.streams import (
    ADVANCE,
    CONTEXT,
    GATE,
    INCUMBENT,
    OUTCOME,
    WORLD,
    Stream,
    Streams,
)

BINS = np.round(np.linspace(0.3, 2.1, 37), 6)  # of actions relative to their base
REFERENCE = 256  # contexts on which scalers are compared
_REFERENCE_ROUND = 2**41  # of the stream from which they come: no run gets there
_MET = 40  # rounds after which an incumbent's contexts are no longer those of a beginning


@dataclass(frozen=True)
class Recorded:
    """A world whose nights have been drawn already."""

    world: World
    state: Any
    nights: tuple[Rows, ...]

    def __getattr__(self, name: str) -> Any:
        """Answer all else as the world does."""
        return getattr(self.world, name)

    def start(self, rng: Stream, group: Array) -> Any:
        """Return the world as it was drawn."""
        return self.state

    def context(self, rng: Stream, state: Any, t: int, group: Array) -> Rows:
        """Reveal the night that was drawn."""
        return self.nights[t]


@dataclass(slots=True)
class Shared:
    """A block of replicates before any method decides.

    Parameters
    ----------
    study, instance : the domain, and its instance as it is declared
    group : (N,) the replicate of every unit
    world : its nights are drawn; where context is endogenous, those that the incumbent met
    truths : of every episode, what the optimum is worth; none where context is endogenous
    plain : of every episode, what the best arm is worth without a scaler, and behind the gate
    incumbent : (T, N) μ of what the incumbent would have run behind the same gate, same draws
    floor : (T, R); where context is endogenous, what the optimum loses behind the same gate on a
        trajectory of its own, less what it is worth without one
    history : what came before
    reference, delta : contexts, and δ° there (R, REFERENCE)
    certified : the history as its certificate leaves it, by family and whether there is a gate
    judged : what the certificates decided, likewise: (R, K) places in `history.certificate.FATES`,
        −1 where a replicate has no history
    """

    study: Study
    instance: Instance
    group: Array
    world: Recorded
    truths: list[Truth]
    plain: list[tuple[Array, Array]]
    incumbent: Array
    floor: Array
    history: History
    reference: Array
    delta: Array
    certified: dict[tuple[str, bool], History | None] = field(default_factory=dict)
    judged: dict[tuple[str, bool], Array] = field(default_factory=dict)

    @property
    def plays(self) -> World:
        """The world that methods meet."""
        return self.world.world if self.study.domain.is_endogenous else self.world

    def truth(self, turn: Turn, instance: Instance, world: World) -> Truth:
        """Return what an episode's regret is split with: without a scaler the best arm is known."""
        if self.study.domain.is_endogenous:
            return truth_of(instance, world, turn.world, turn.rows)
        t = turn.t
        truth, (free, gated) = self.truths[t], self.plain[t]
        if instance.scaler != neutral_of(instance):
            return truth
        return replace(truth, arms=(free, gated if instance.chain.gates else free))

    @property
    def ground(self) -> Ground:
        """Return what the record of every method is read with."""
        return Ground(self.floor, self.edges)

    @property
    def edges(self) -> Array:
        """Return the edges (bins + 1,) between which relative actions are counted."""
        return BINS if self.study.edges is None else self.study.edges


def neutral_of(instance: Instance) -> ConstantScaler:
    """Return the scaler of methods that have none: 0 where δ is added, else 1.

    A composition in which neither leaves the arms as they are says by `neutral` what does best.
    """
    usual = 0.0 if instance.composition.joins == "sum" else 1.0
    return ConstantScaler(getattr(instance.composition, "neutral", usual))


def study_of(task: Task) -> Study:
    """Return the study of a task."""
    return study(task.name, task.variant, dict(task.options), task.episodes)


def shared_by(task: Task) -> Shared:
    """Return what a task shares with the other methods of its block; kept for the next."""
    return _shared(
        task.name,
        task.variant,
        task.options,
        task.seed,
        task.episodes,
        task.block,
        task.replicates,
    )


@lru_cache(maxsize=1)
def _shared(
    name: str,
    variant: str,
    options: Options,
    seed: int,
    episodes: int,
    block: int,
    replicates: int,
) -> Shared:
    chosen: Mapping[str, Any] = dict(options)
    subject = study(name, variant, chosen, episodes)
    instance, world, units = subject.domain.instance, subject.domain.world, subject.domain.units
    group = np.repeat(np.arange(replicates), units)
    streams = Streams(seed, units, block)
    state = world.start(streams.at(WORLD, 0), group)
    if subject.domain.is_endogenous:
        return _endogenous(subject, state, group, streams, episodes, seed)
    nights, truths, plain = [], [], []
    neutral = np.full((group.size, 1, 1), neutral_of(instance).value)
    floor, incumbent = np.empty((episodes, replicates)), np.empty((episodes, group.size))
    for t in range(episodes):
        rows = world.context(streams.at(CONTEXT, t), state, t, group)
        best = world.best(state, rows)
        truth = truth_of(instance, world, state, rows, optimum=best)
        nights.append(rows)
        truths.append(truth)
        plain.append(arms_of(instance, world, state, rows, neutral))
        lost = floor_of(instance, world, state, rows, best)
        floor[t] = lost.reshape(replicates, -1).mean(axis=1)
        proposed = subject.incumbent(streams.at(INCUMBENT, t), state, rows)
        draws = instance.chain.draw(streams.at(GATE, t), rows.n)
        verdict = instance.chain.apply(draws, proposed, rows)
        executed = turn.execute(instance, verdict, rows)
        incumbent[t] = world.mean(state, executed.action[:, None], rows)[:, 0]
    recorded = Recorded(world, state, tuple(nights))
    return _with_past(subject, group, recorded, truths, plain, incumbent, floor, streams, seed)


def _endogenous(
    subject: Study, state: Any, group: Array, streams: Streams, episodes: int, seed: int
) -> Shared:
    """Let the incumbent and the optimum play, each behind the gate and on its own trajectory."""
    instance, world = subject.domain.instance, subject.domain.world
    replicates = int(group.max()) + 1
    floor, incumbent = np.empty((episodes, replicates)), np.empty((episodes, group.size))
    nights = []

    def played(t: int, nature: Any, rows: Rows, proposed: Array) -> tuple[Array, Array, Any]:
        verdict = instance.chain.apply(
            instance.chain.draw(streams.at(GATE, t), rows.n), proposed, rows
        )
        ran = turn.execute(instance, verdict, rows).action
        outcome = world.sample(streams.at(OUTCOME, t), nature, ran, rows)
        worth = world.mean(nature, ran[:, None], rows)[:, 0]
        lost = truth_of(instance, world, nature, rows).top - worth
        return worth, lost, world.advance(streams.at(ADVANCE, t), nature, ran, outcome, rows)

    now, ideal = state, state
    for t in range(episodes):
        rows = world.context(streams.at(CONTEXT, t), now, t, group)
        nights.append(rows)
        proposed = subject.incumbent(streams.at(INCUMBENT, t), now, rows)
        incumbent[t], _, now = played(t, now, rows, proposed)
        rows = world.context(streams.at(CONTEXT, t), ideal, t, group)
        _, lost, ideal = played(t, ideal, rows, world.best(ideal, rows))
        floor[t] = lost.reshape(replicates, -1).mean(axis=1)
    recorded = Recorded(world, state, tuple(nights))
    return _with_past(subject, group, recorded, [], [], incumbent, floor, streams, seed)


def _with_past(
    subject: Study,
    group: Array,
    recorded: Recorded,
    truths: list[Truth],
    plain: list[tuple[Array, Array]],
    incumbent: Array,
    floor: Array,
    streams: Streams,
    seed: int,
) -> Shared:
    instance, state, replicates = subject.domain.instance, recorded.state, floor.shape[1]
    history = subject.past(instance, recorded.world, state, group, streams)
    if all(gate.per == "group" for gate in instance.chain.gates if gate.is_person):
        # Then all methods start from the same ones, those too that pool a group's units.
        history.kernels = instance.chain.init_kernels(group.size, replicates, len(instance.actions))
        instance.chain.learn(history.kernels, history.rows, history.verdict)
    reference = _reference(subject, seed)
    delta = subject.delta(state, reference)
    return Shared(
        subject,
        instance,
        group,
        recorded,
        truths,
        plain,
        incumbent,
        floor,
        history,
        reference.x,
        delta,
    )


def _reference(subject: Study, seed: int) -> Rows:
    """Draw the reference contexts: the same for every block.

    Where context is endogenous they are those that the incumbent meets after a while.
    """
    world, streams = subject.domain.world, Streams(seed, REFERENCE)
    group = np.arange(REFERENCE)
    state = world.start(streams.at(WORLD, _REFERENCE_ROUND), group)
    rows = world.context(streams.at(CONTEXT, _REFERENCE_ROUND), state, 0, group)
    for t in range(1, _MET if subject.domain.is_endogenous else 1):
        at = _REFERENCE_ROUND + t
        ran = subject.incumbent(streams.at(INCUMBENT, at), state, rows)
        outcome = world.sample(streams.at(OUTCOME, at), state, ran, rows)
        state = world.advance(streams.at(ADVANCE, at), state, ran, outcome, rows)
        rows = world.context(streams.at(CONTEXT, at), state, t, group)
    return rows
