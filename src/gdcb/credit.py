"""Who learns from what: credit, adjustment, the null action, the scaler.

Credit what was executed. If the proposal ran unchanged under the δ in force, its arm is credited.
Otherwise the arm whose composition lies within half a step of the executed action; otherwise
only the response curve learns, at the executed coordinate. A veto or an expired hold teaches the
arm nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.adjustment import AdjustmentState
from gdcb.arrays import (
    Array,
    all_finite,
    at_least,
    chosen,
    like,
    maybe_any,
    on_host,
    put_rows,
    put_where,
    scatter_add,
    zeros,
)
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.records import Evidence, Located, Log

HALF_STEP = 0.5 + 1e-9
LARGEST_LABEL = 1e9  # their squares must add up for years
LARGEST_REWARD = 1e12
LARGEST_WEIGHT = 1e6  # of one outcome, as somebody reports it


@dataclass(slots=True)
class NullState:
    """Observed null rewards of every unit: Σ w, and Σ w·(r − declared mean). (units,) each."""

    count: Array
    excess: Array

    @staticmethod
    def zeros(n_units: int, beside: Array) -> NullState:
        """Return no observation, where `beside` is."""
        return NullState(zeros((n_units,), beside), zeros((n_units,), beside))


def null_worth(instance: Instance, state: NullState, unit: Array, x: Array) -> Array:
    """Return E[r | null, x] of every row (N,): declared, corrected by what was observed."""
    null = instance.null
    return null.declared(x) + state.excess[unit] / (null.weight + state.count[unit])


def locate_executed(instance: Instance, log: Log, delta: Array, in_force: Array) -> Located:
    """Locate executed actions under δ: (N, 1). An unchanged proposal of this δ is its arm."""
    arms, phi = instance.space, instance.composition
    own = log.is_own & (log.version == in_force)
    if instance.rules.credit == "proposed":
        own = ~log.is_null
    runs = all_finite(log.action)
    arm = put_where(log.arm, ~own, -1)
    steps = put_where(zeros(arm.shape, arm), ~own, np.inf)
    coord = like(arms.coords, log.action)[at_least(log.arm, 0)]
    is_moved = ~own & runs
    if maybe_any(is_moved) and (instance.chain.gates or on_host(arm)):
        some = chosen(is_moved)
        found = phi.locate(arms, log.action[some][:, None], delta[some], log.x[some])
        arm = put_rows(arm, is_moved, found.arm[:, 0])
        steps = put_rows(steps, is_moved, found.steps[:, 0])
        coord = put_rows(coord, is_moved, found.coord[:, 0])
    coord = put_where(coord, ~runs[:, None], np.nan)
    return Located(arm[:, None], coord[:, None], lambda: steps[:, None])


def evidence(
    instance: Instance, log: Log, delta: Array, in_force: Array
) -> tuple[Evidence, Located]:
    """Turn finished rows into what the bandit may learn from them, under the δ in force."""
    located = locate_executed(instance, log, delta, in_force)
    near = (located.steps[:, 0] <= HALF_STEP) & ~log.is_null
    arm, weight = put_where(located.arm[:, 0], ~near, -1), 1.0 * log.weight
    if maybe_any(log.is_null) and not instance.null.teaches:
        weight = put_where(weight, log.is_null, 0.0)
    cell, coord = instance.cells.of(log.unit, delta), located.coord[:, 0]
    return Evidence(cell, arm, coord, log.y, log.scale, weight, log.x, delta), located


def adjust(
    instance: Instance,
    state: AdjustmentState | None,
    log: Log,
    seen: Evidence,
    is_batch: bool = False,
) -> Evidence:
    """Take off what context explains, where the instance declares an adjustment.

    A batch is cross-fitted over its own rows; a row that comes by itself is adjusted by the
    outcome model that was in force before it.
    """
    if instance.adjustment is None or state is None:
        return seen
    if not is_batch:
        return instance.adjustment.apply(state, log.group, seen, log.propensity)
    n_groups, n_arms = state.theta.shape[:2]
    return instance.adjustment.cross_fit(n_groups, n_arms, log.group, seen, log.propensity)


def learn_null(instance: Instance, state: NullState, log: Log, outcome: Array) -> None:
    """Let observed null rewards correct their declared mean; no news where nothing ran."""
    if not maybe_any(log.is_null):
        return
    reward = instance.reward.reward(outcome, log.action, log.x)
    excess = reward - instance.null.declared(log.x)
    is_other = ~(log.is_null & all_finite(reward[:, None]))
    weight = put_where(log.weight, is_other, 0.0)
    scatter_add(state.count, log.unit, weight)
    scatter_add(state.excess, log.unit, weight * put_where(excess, is_other, 0.0))


def check_log(instance: Instance, log: Log) -> None:
    """Refuse outcomes, weights and arms that cannot be, before anything is written."""
    n = log.unit.size
    if log.y.shape != (n,) or not (np.abs(log.y) <= LARGEST_REWARD).all():
        raise InvalidInput(f"y: expected {n} numbers within ±{LARGEST_REWARD:g}, got {log.y}")
    if log.weight.shape != (n,) or not np.isfinite(log.weight).all() or (log.weight < 0).any():
        raise InvalidInput(f"weight: expected {n} finite numbers >= 0, got {log.weight}")
    if log.scale is not None and not (np.isfinite(log.scale) & (log.scale > 0)).all():
        raise InvalidInput(f"scale: expected finite numbers > 0, got {log.scale}")
    if (log.arm < -1).any() or (log.arm >= instance.space.n).any():
        raise InvalidInput(f"arm: expected -1 to {instance.space.n - 1}, got {log.arm}")


def learn_scaler(
    instance: Instance, state: Any, log: Log, label: Array | None, weight: Array
) -> None:
    """Teach the scaler what it learns from: the rows' labels, or their outcomes.

    An outcome says something about δ only where a proposed or person's action ran.
    """
    scaler = instance.scaler
    if scaler.learns_from == "outcome":
        owner = log.unit if scaler.per == "unit" else log.group
        action = instance.composition.relative(log.action, log.x)
        y = np.where(log.is_null, np.nan, log.y)
        scaler.observe(state, owner, log.x, action, y[:, None], weight)
    elif label is not None and scaler.n_labels:
        learn_label(instance, state, log, label)


def watch_scaler(instance: Instance, state: Any, log: Log) -> None:
    """Let a scaler of outcomes count rows that it is about to be refitted on."""
    scaler: Any = instance.scaler
    owner = log.unit if scaler.per == "unit" else log.group
    y = np.where(log.is_null, np.nan, log.y)[:, None]
    action = instance.composition.relative(log.action, log.x)
    scaler.watch(state, owner, log.x, action, y, log.weight)


def refit_scaler(
    instance: Instance, state: Any, owners: Array, log: Log, trust: Array | None
) -> None:
    """Fit a scaler of outcomes afresh on all finished rows, each as far as it is trusted now."""
    scaler: Any = instance.scaler
    owner = log.unit if scaler.per == "unit" else log.group
    y = np.where(log.is_null, np.nan, log.y)
    weight = log.weight if trust is None else log.weight * trust
    action = instance.composition.relative(log.action, log.x)
    scaler.refit(state, owners, owner, log.x, action, y, weight)


def refit_model(
    instance: Instance, state: AdjustmentState | None, groups: Array, log: Log, seen: Evidence
) -> None:
    """Rebuild the outcome model of some groups from rows as they are credited now."""
    if instance.adjustment is not None and state is not None:
        instance.adjustment.rebuild(state, groups, log.group, seen)


def teach(bandit: Any, state: Any, seen: Evidence, roughly: bool = False) -> None:
    """Teach a state all rows at once: exactly, where the learner can.

    `roughly`: its means are all that is asked for, and a learner may spare what they do not need.
    """
    if "refit" not in bandit.supports:
        bandit.update(state, seen)
    elif roughly and hasattr(bandit, "refit_means"):
        bandit.refit_means(state, seen)
    else:
        bandit.refit(state, seen)


def learn_label(instance: Instance, state: Any, log: Log, label: Array) -> None:
    """Teach the scaler labels (N, n_labels) of finished rows, with their outcome or later."""
    scaler = instance.scaler
    check_label(label, log.unit.size, scaler.n_labels)
    owner = log.unit if scaler.per == "unit" else log.group
    action = instance.composition.relative(log.action, log.x)
    scaler.observe(state, owner, log.x, action, label, log.weight)


def learn_labels(instance: Instance, state: Any, log: Log, label: Array) -> None:
    """Teach the scaler the labels of a whole history, before it is published.

    A scaler whose weights follow its fit (`weighs_by_fit`) learns in instalments, each as long as
    all before it, and is published in between. They go by the rows of each owner, so that an
    owner learns the same whoever else is in the history.
    """
    scaler: Any = instance.scaler
    if not getattr(scaler, "weighs_by_fit", False):
        learn_label(instance, state, log, label)
        return
    owner = log.unit if scaler.per == "unit" else log.group
    order = np.argsort(owner, kind="stable")
    start = np.searchsorted(owner[order], owner[order])
    place = np.empty(owner.size, dtype=np.int64)
    place[order] = np.arange(owner.size) - start
    instalment = np.log2(place // scaler.every + 1).astype(np.int64)
    for i in range(int(instalment.max(initial=-1)) + 1):
        rows = np.flatnonzero(instalment == i)
        learn_label(instance, state, log.take(rows), label[rows])
        scaler.publish(state, np.unique(owner[rows]))


def check_label(label: Array, n: int, n_labels: int) -> None:
    """Refuse labels of the wrong shape or beyond all measure; NaN: not seen."""
    if label.shape != (n, n_labels):
        raise InvalidInput(f"label: expected shape {(n, n_labels)}, got {label.shape}")
    if bool((np.abs(label) > LARGEST_LABEL).any()):
        raise InvalidInput(f"label: expected numbers within ±{LARGEST_LABEL:g}, got {label}")
