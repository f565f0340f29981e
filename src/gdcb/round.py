"""One round of a gated, decoupled, compositional bandit: decide, gate, execute, learn.

The paper's order is logical (select, scale, compose, gate); the computational order is scale,
compose all arms, draw, value behind the gate, pick. The two loops have disjoint parameters and
share the outcome; the bandit reads the scaler's output, never its parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gdcb import contrast, credit
from gdcb.adjustment import AdjustmentState
from gdcb.arrays import Array, finite_or_nan, freeze, full, maybe_any, namespace, on_host, put_where
from gdcb.bandits import Bandit
from gdcb.contrast import ContrastState
from gdcb.credit import NullState
from gdcb.delta_limits import DeltaLimits
from gdcb.instance import Instance
from gdcb.records import (
    MODIFIED,
    PASSED,
    Decision,
    Executed,
    Log,
    Rows,
    Setting,
    Verdict,
    beside,
)
from gdcb.streams import Stream
from gdcb.valuation import Valuation, pick


@dataclass(slots=True)
class RoundState:
    """All that is learned: both loops, kernels, null action, contrast, outcome model, limits of δ.

    Limits hold δ̂ within what ran after a warm start from a log.
    """

    bandit: Any
    scaler: Any
    kernels: tuple[Any, ...]
    null: NullState
    contrast: ContrastState
    adjustment: AdjustmentState | None = None
    limits: DeltaLimits = field(
        default_factory=lambda: DeltaLimits.none(1, 1, 1), metadata={"since": "0.1.0"}
    )


def init(instance: Instance, bandit: Bandit, group: Array) -> RoundState:
    """Return the prior state of `len(group)` units; `group[u]` is the group of unit u."""
    instance.check_bandit(bandit)
    xp, chain = namespace(group), instance.chain
    group = xp.asarray(group, dtype=xp.int64)
    n_units, n_groups, bands = group.shape[0], int(group.max()) + 1, instance.cells.n
    cells = (group[:, None] * bands + xp.arange(bands, device=group.device)).reshape(-1)
    scaler = instance.scaler
    owners = n_units if scaler.per == "unit" else n_groups
    n_arms = instance.space.n if on_host(group) or chain.has_person else 0  # who can be compared
    return RoundState(
        bandit.init(cells, instance.space),
        beside(scaler.init(owners), group),
        chain.init_kernels(n_units, n_groups, len(instance.actions)) if on_host(group) else (),
        NullState.zeros(n_units, group),
        ContrastState.zeros(xp.repeat(group, bands), n_arms),
        instance.adjustment.init(n_groups, instance.space.n) if instance.adjustment else None,
        beside(DeltaLimits.none(owners, scaler.n_arms, scaler.n_columns), group),
    )


def scale(instance: Instance, state: RoundState, rows: Rows | Log) -> tuple[Array, Array]:
    """Evaluate the published scaler: δ_θ(x) (N, 1 or K, q) and its version (N,)."""
    owner = rows.unit if instance.scaler.per == "unit" else rows.group
    delta = delta_of(instance, state, owner, rows.x)
    return delta, instance.scaler.version(state.scaler, owner)


def delta_of(instance: Instance, state: RoundState, owner: Array, x: Array) -> Array:
    """Evaluate the published δ_θ(x) within its limits: (N, 1 or K, q)."""
    delta = instance.scaler.predict(state.scaler, owner, x)
    return state.limits.clip(owner, delta) if on_host(x) else delta


def decide(
    rng: Stream, instance: Instance, bandit: Bandit, state: RoundState, rows: Rows
) -> Decision:
    """Propose one nominal arm a row: the best draw, valued behind the gate."""
    delta, version = scale(instance, state, rows)
    actions = finite_or_nan(instance.composition.compose(instance.space, delta, rows.x))
    freeze(actions)  # a gate that writes into a proposal raises, and so vetoes
    at = Setting(instance.cells.of(rows.unit, delta), rows.x, delta)
    draw = bandit.draw(rng, state.bandit, at)
    value = Valuation(instance, bandit, rows.x, delta, actions, draw, state.null, rows.unit)
    if instance.rules.select == "gate":
        worth = instance.chain.expect(value, actions, rows, state.kernels)
    else:
        worth = value(actions)
    if rows.mask is not None:
        worth = put_where(worth, ~rows.mask, -np.inf)
    arm, action = pick(worth, instance, actions, rows)
    return Decision(arm, action, delta, version, worth, actions)


def gate(rng: Stream, instance: Instance, decision: Decision, rows: Rows) -> Verdict:
    """Send the proposals through the gates."""
    return instance.chain.apply(instance.chain.draw(rng, rows.n), decision.action, rows)


def execute(instance: Instance, verdict: Verdict, rows: Rows) -> Executed:
    """Return what runs: what was let through, else the null action."""
    is_null = verdict.status > MODIFIED
    action = verdict.action
    if maybe_any(is_null):
        null = instance.null.of(rows.x, action.shape[1])
        action = namespace(action).where(is_null[:, None], null, action)
    return Executed(action, is_null, verdict.status == PASSED, instance.chain.overridden(verdict))


def finished(
    instance: Instance,
    rows: Rows,
    decision: Decision,
    executed: Executed,
    outcome: Array,
    weight: Array | None = None,
    propensity: Array | None = None,
) -> Log:
    """Write the finished rows down as a log, outcome (N, outcomes) included."""
    y, reward_scale = instance.reward.learn(outcome, rows.x)
    return Log(
        rows.unit,
        rows.group,
        rows.x,
        decision.arm,
        decision.version,
        executed.action,
        executed.is_null,
        executed.is_own,
        executed.is_override,
        y,
        reward_scale,
        full((rows.n,), 1.0, rows.x) if weight is None else weight,
        propensity,
    )


def learn(
    instance: Instance,
    bandit: Bandit,
    state: RoundState,
    log: Log,
    outcome: Array,
    label: Array | None = None,
    delta: Array | None = None,
) -> Array:
    """Teach both loops finished rows; return the scaler's owners whose publication is due.

    `delta` spares a second evaluation where the rows' δ is known to be in force still.
    The state is validated against first and then written: a refusal leaves it as it was. On a
    device nothing is validated here.
    """
    if on_host(outcome):
        instance.reward.check(outcome)
        credit.check_log(instance, log)
    scaler = instance.scaler
    if label is not None:
        credit.check_label(label, log.unit.size, scaler.n_labels)
    owner = log.unit if scaler.per == "unit" else log.group
    in_force = scaler.version(state.scaler, owner)
    if delta is None or (on_host(outcome) and not (in_force == log.version).all()):
        delta = delta_of(instance, state, owner, log.x)
    seen, located = credit.evidence(instance, log, delta, in_force)
    trusted = contrast.weigh(instance, state.contrast, log, seen)
    adjusted = credit.adjust(instance, state.adjustment, log, trusted)
    looked = contrast.look(instance, bandit, state.bandit, log, adjusted, located)
    bandit.update(state.bandit, adjusted)
    contrast.learn(state.contrast, looked)
    if instance.adjustment is not None and state.adjustment is not None:
        instance.adjustment.learn(state.adjustment, log.group, trusted)
    credit.learn_null(instance, state.null, log, outcome)
    credit.learn_scaler(instance, state.scaler, log, label, trusted.weight)
    if on_host(outcome):
        state.limits.watch(instance, owner, log.action, log.x, ~log.is_null)
    return scaler.due(state.scaler)
