"""Worlds, and the loop that runs a bandit in them, vectorised over replicates and units.

A replicate is a group of units. Random numbers are keyed by (seed, stage, round, block of 100
replicates), and no stage lets one row's numbers hang on another's, so a replicate's history is
the same bytes whatever runs beside it.

The same program runs on a device of torch: a GPU, or the processor. It gives the same statistics
there, from other random numbers. What is promised is less: the same seed, device and number of
replicates give the same results. Rows, composed categories, outcomes and logs are checked in the
first round only, gates must not raise, and nothing is learned of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gdcb import credit
from gdcb import round as turn
from gdcb.arrays import Array, in_order, is_all, namespace, on_host, torch
from gdcb.bandits import Bandit
from gdcb.errors import InvalidInput, ValuationError
from gdcb.instance import Instance
from gdcb.posterior import REFRESH
from gdcb.records import Decision, Executed, History, Log, Rows, Verdict, flatten, to_host
from gdcb.refold import TEACHES, check_teaches, publish, refold, warm_up
from gdcb.streams import ADVANCE, CONTEXT, DRAW, GATE, LABEL, OUTCOME, WORLD, Stream, Streams
from gdcb.torch_streams import TorchStreams

_LONG = 2**14  # rows from which a log is not copied again to be joined with others


class World(Protocol):
    """A simulator whose truth is known: E[r | e, x] is exact.

    The state is a record of arrays with a leading unit axis. `mean` and `sample` read NaN
    actions as 'nothing runs'; `mean` may be asked of some rows, or of one twice, and reads the
    state at `rows.unit`. To run on a device a world makes its arrays there, from `group` and
    from what `rng` draws, and its rows come in the order of the units.
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
    """All that happened in one round, for whoever watches; `state` as it was decided under."""

    t: int
    world: Any
    rows: Rows
    decision: Decision
    verdict: Verdict
    executed: Executed
    outcome: Array
    reward: Array
    state: turn.RoundState | None = None


@dataclass(slots=True)
class Simulation:
    """What a run leaves: the learned state, the finished rows, and the group of every unit."""

    state: turn.RoundState
    log: Log | None
    group: Array


def _require_torch() -> None:
    try:
        torch()
    except ModuleNotFoundError as error:
        if error.name != "torch":  # it is there, and lacks something of its own
            raise
        raise InvalidInput(
            'device: needs torch; pip install "gdcb[torch]", or leave device out'
        ) from error


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
    device: str | None = None,
    history: History | None = None,
    teaches: tuple[str, ...] = TEACHES,
    first_block: int = 0,
    learns_last: bool = True,
) -> Simulation:
    """Run `rounds` rounds of `replicates` independent groups of `units` units.

    `watch` sees every round. The log is kept where the scaler can publish (refolding reads it)
    or where `keep_log` asks for it. `device` names a torch device ('cuda', 'cpu') on which all
    arrays are then 64-bit tensors; without it they are NumPy's. `history` starts both loops warm,
    or those that `teaches` names ('scaler', 'arms'), and stays part of what they are refitted on.
    With `first_block` b the replicates are those from 100·b on, bit for bit as in one long run.
    Without `learns_last` the last round is seen by `watch` alone: it is neither learned nor logged.
    """
    sizes: dict[str, Any] = {"rounds": rounds, "replicates": replicates, "units": units}
    for name, value in sizes.items():
        if not isinstance(value, int) or value < 1:
            raise InvalidInput(f"{name}: expected a whole number >= 1, got {value!r}")
    check_teaches(teaches)
    for gate in instance.chain.gates:
        if getattr(gate, "holds", False):
            raise InvalidInput(
                f"gate '{gate.name}' holds for a real person; give it a SimulatedPerson to simulate"
            )
    bandit = instance.bind(bandit)
    group = np.repeat(np.arange(replicates), units)
    streams: Any = Streams(seed, rows_per_replicate=units, first_block=first_block)
    if device is not None:
        check_on_device(instance, bandit)
        if history is not None or first_block:
            raise InvalidInput("device: a warm start and single blocks run on NumPy only")
        _require_torch()
        group = torch().arange(replicates * units, device=device) // units
        streams = TorchStreams(seed, group.device)
    state = turn.init(instance, bandit, group)
    nature = world.start(streams.at(WORLD, 0), group)
    past, is_same = {}, True  # whether both loops read the same rows
    if history is not None:
        warm_up(instance, bandit, state, history, group, teaches)
        past = {loop: [history.of(loop)] for loop in teaches}
        is_same = len(past) == len(TEACHES) and history.of("scaler") is history.of("arms")
    logs: list[Log] = []
    keep = keep_log or instance.scaler.learns_from != "nothing"
    for t in range(rounds):
        rows = world.context(streams.at(CONTEXT, t), nature, t, group)
        if device is not None:
            rows = _in_order(rows, group, t)
        if t == 0:
            instance.check_rows(to_host(rows), group.shape[0])
        decision = turn.decide(streams.at(DRAW, t), instance, bandit, state, rows)
        verdict = turn.gate(streams.at(GATE, t), instance, decision, rows)
        executed = turn.execute(instance, verdict, rows)
        outcome = world.sample(streams.at(OUTCOME, t), nature, executed.action, rows)
        expected = (rows.n, len(instance.reward.outcome))
        if outcome.shape != expected:
            raise InvalidInput(f"world.sample: expected shape {expected}, got {outcome.shape}")
        label = None
        if instance.scaler.n_labels:
            label = world.label(streams.at(LABEL, t), nature, executed.action, rows)
        if watch is not None:
            reward = instance.realised(outcome, executed.action, rows.x)
            watch(Turn(t, nature, rows, decision, verdict, executed, outcome, reward, state))
        if t + 1 == rounds and not learns_last:
            break
        if instance.rules.select == "gate":  # else nobody asks what the gates will do
            instance.chain.learn(state.kernels, rows, verdict)
        log = turn.finished(instance, rows, decision, executed, outcome)
        if device is not None and t == 0:
            instance.chain.require_levels(decision.actions)
            instance.reward.check(to_host(outcome))
            credit.check_log(instance, to_host(log))
        due = turn.learn(instance, bandit, state, log, outcome, label, decision.delta)
        if keep:
            logs.append(log)
        if device is not None and (t + 1) % REFRESH == 0 and hasattr(bandit, "refresh"):
            bandit.refresh(state.bandit)
        if due.shape[0]:
            logs = _joined(logs)
            of = due if instance.scaler.per == "group" else np.unique(group[due])
            known = _rows_of(past.get("scaler", []) + logs, of, group)
            changed = publish(instance, state, due, group, known)
            if changed.size:
                if not is_same:
                    known = _rows_of(past.get("arms", []) + logs, of, group)
                refold(instance, bandit, state, known, group, changed)
        nature = world.advance(streams.at(ADVANCE, t), nature, executed.action, outcome, rows)
    if device is not None:
        _check_finite(state.bandit)
    is_kept = bool(logs) and (learns_last or keep_log)
    return Simulation(state, Log.concatenate(logs) if is_kept else None, group)


def _joined(logs: list[Log]) -> list[Log]:
    """Return the same rows in few logs: short ones are joined, long ones left where they are."""
    at = len(logs)
    while at > 0 and logs[at - 1].unit.shape[0] < _LONG:
        at -= 1
    return [*logs[:at], Log.concatenate(logs[at:])] if at < len(logs) else logs


def _rows_of(logs: list[Log], groups: Array, group: Array) -> Log:
    """Return the rows of some groups, in their order."""
    if groups.shape[0] == int(group.max()) + 1:
        return Log.concatenate(logs)
    is_asked = np.isin(np.arange(int(group.max()) + 1), groups)
    return Log.concatenate([log.take(np.flatnonzero(is_asked[log.group])) for log in logs])


def check_on_device(instance: Instance, bandit: Bandit) -> None:
    """Refuse parts that run on NumPy only, by name; a part says that it runs by `on_device`."""
    parts = [bandit, instance.composition, instance.scaler, instance.reward, *instance.chain.gates]
    for part in (*parts, instance.adjustment):
        if part is not None and not getattr(part, "on_device", False):
            raise InvalidInput(
                f"device: {type(part).__name__} runs on NumPy only; leave out the device, or put "
                "in another part"
            )
    if instance.rules.select == "gate" and not all(gate.is_hard for gate in instance.chain.gates):
        raise InvalidInput(
            "device: what is learned of a person runs on NumPy only; leave out the device, or "
            "select with Rules(select='nominal')"
        )


def _in_order(rows: Rows, group: Array, t: int) -> Rows:
    """Return rows whose units are known to be all units in order, without a look at them."""
    order = in_order(group.shape[0], group.device)
    if t == 0:
        for name in ("unit", "group", "x", "mask", "hidden"):
            part = getattr(rows, name)
            if part is not None and (on_host(part) or part.device != group.device):
                raise InvalidInput(f"world.context: expected {name} on {group.device}")
        if rows.unit.shape != order.shape or not is_all(
            (rows.unit == order) & (rows.group == group)
        ):
            raise InvalidInput("world.context: expected one row a unit, in order, on a device")
        if rows.x.dtype != namespace(group).float64:
            raise InvalidInput(f"world.context: expected 64-bit numbers, got {rows.x.dtype}")
    return Rows(order, group, rows.x, rows.mask, rows.hidden)


def _check_finite(state: Any) -> None:
    """Refuse to return what was learned from outcomes that are no numbers."""
    for name, array in flatten(state).items():
        if not np.isfinite(float(array.sum())):  # one number, and no copy of what may be large
            raise ValuationError(f"the learner's {name} are not numbers: an outcome was none")
