"""Who learns from what: credit, the override contrast, the null action, refolding.

Credit what was executed. If the proposal ran unchanged under the δ in force, its arm is credited.
Otherwise the arm whose composition lies within half a step of the executed action; otherwise
only the response curve learns, at the executed coordinate. A veto or an expired hold teaches the
arm nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gdcb.adjustment import AdjustmentState
from gdcb.arrays import (
    Array,
    all_finite,
    at_least,
    chosen,
    distinct,
    like,
    maybe_any,
    namespace,
    on_host,
    put_rows,
    put_where,
    scatter_add,
    zeros,
)
from gdcb.bandits import Bandit
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.records import Evidence, Located, Log, Setting

HALF_STEP = 0.5 + 1e-9
LARGEST_LABEL = 1e9  # their squares must add up for years
LARGEST_REWARD = 1e12


@dataclass(slots=True)
class NullState:
    """Observed null rewards of every unit: Σ w, and Σ w·(r − declared mean). (units,) each."""

    count: Array
    excess: Array

    @staticmethod
    def zeros(n_units: int, beside: Array) -> NullState:
        """Return no observation, where `beside` is."""
        return NullState(zeros((n_units,), beside), zeros((n_units,), beside))


@dataclass(slots=True)
class ContrastState:
    """Outcomes of approved and of overridden rows, cell by cell and arm by arm.

    Parameters
    ----------
    sums : (cells, K, 2, 3) approved / overridden × (weight, Σ outcome, Σ outcome²)
    group : (cells,) the group of each cell
    totals : (groups, 4) what the cells of a group add up to: Σw, Σw·d, residual sum of squares,
        degrees of freedom, with w and d as in `no_private_information`
    """

    sums: Array
    group: Array
    totals: Array

    @staticmethod
    def zeros(group: Array, n_arms: int) -> ContrastState:
        """Return no outcome, for cells of these groups."""
        totals = zeros((int(group.max()) + 1, 4), group)
        return ContrastState(zeros((group.shape[0], n_arms, 2, 3), group), group, totals)

    def add(self, cell: Array, arm: Array, is_override: Array, sums: Array) -> None:
        """Add rows' (weight, w·y, w·y²) and carry the change into the groups' totals."""
        n_arms = self.sums.shape[1]
        flat = cell * n_arms + arm
        once = distinct(flat)
        touched, which = once // n_arms, once % n_arms
        before = self._message(touched, which)
        scatter_add(self.sums.reshape(-1, 3), flat * 2 + is_override, sums)
        told = self._message(touched, which) - before
        scatter_add(self.totals, self.group[touched], told, shared=True)

    def _message(self, cell: Array, arm: Array) -> Array:
        sums, xp = self.sums[cell, arm], namespace(self.sums)
        n, total, square = (sums[..., i] for i in range(3))  # (touched, 2) each
        some = at_least(n, 1e-12)
        mean = total / some
        only = ~(n > 0).all(axis=-1)
        weight = put_where(1.0 / (1.0 / some).sum(axis=-1), only, 0.0)
        rest = at_least(square - n * mean**2, 0.0).sum(axis=-1)
        freedom = (n - xp.astype(n > 0, n.dtype)).sum(axis=-1)
        shift = weight * (mean[:, 0] - mean[:, 1])
        message: Array = xp.stack((weight, shift, rest, freedom), axis=1)
        return message


def null_worth(instance: Instance, state: NullState, unit: Array, x: Array) -> Array:
    """Return E[r | null, x] of every row (N,): declared, corrected by what was observed."""
    null = instance.null
    return null.declared(x) + state.excess[unit] / (null.weight + state.count[unit])


def no_private_information(state: ContrastState, group: Array) -> Array:
    """Return the posterior probability that overrides carry no private information: (N,).

    At equal (e, x), approved and overridden rows must have equal mean outcomes. The difference
    is taken within each cell and arm where both kinds were seen, and averaged over the group
    with weights w = 1/(1/n_a + 1/n_o): d, of variance v = s²/Σw, s² the pooled variance within.
    Against the alternative d ~ N(0, s²) (a unit-information prior) the odds are
    N(d; 0, v) / N(d; 0, v + s²), even beforehand. There is no threshold. Before any arm has seen
    both kinds, overrides are trusted: 1.

    Examples
    --------
    One arm, 50 rows each, Σ (y − mean)² = 98 in all (so s² = 1), difference 1: Σw = 25,
    v = 0.04, log odds ½·log(26) − ½·(25 − 1/1.04) = −10.39, so the probability is 3.07e−05.

    >>> zero = np.zeros(2, dtype=int)
    >>> state = ContrastState.zeros(zero[:1], n_arms=1)
    >>> state.add(zero, zero, np.array([0, 1]), np.array([[50.0, 0.0, 49.0], [50.0, 50.0, 99.0]]))
    >>> print(f"{no_private_information(state, zero[:1])[0]:.2e}")
    3.07e-05
    """
    xp = namespace(state.totals)
    weight, shift, rest, freedom = state.totals[group].T
    unknown = ~((weight > 0) & (freedom >= 2))
    weight = put_where(weight, unknown, 1.0)
    s2 = at_least(rest / at_least(freedom, 1.0), 1e-12)
    d, v = shift / weight, s2 / weight
    log_odds = 0.5 * xp.log1p(s2 / v) - 0.5 * d**2 * (1.0 / v - 1.0 / (v + s2))
    odds = xp.exp(log_odds.clip(-700.0, 700.0))
    return put_where(odds / (1.0 + odds), unknown, 1.0)


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


def weigh(instance: Instance, contrast: ContrastState, log: Log, seen: Evidence) -> Evidence:
    """Weigh overridden rows by the probability that they carry no private information.

    Rows are weighed by what is known when they are learned from; a refold weighs all of them
    again by what is known then.
    """
    rule = instance.rules.overrides
    is_sure = not maybe_any(log.is_override) or not (on_host(log.y) or instance.chain.has_person)
    if rule == "all" or is_sure:
        return seen
    share = 0.0 if rule == "approved" else no_private_information(contrast, log.group)
    where = namespace(seen.weight).where
    return replace(seen, weight=where(log.is_override, seen.weight * share, seen.weight))


def learn_contrast(
    instance: Instance,
    bandit: Bandit,
    state: Any,
    contrast: ContrastState,
    log: Log,
    seen: Evidence,
    located: Located,
) -> None:
    """Add each row's outcome to its arm, approved and overridden apart.

    A curve first takes off what it expects between the arm and the executed coordinate, a
    contextual learner all that it expects. Rows off every arm, and rows in which the null action
    ran, say nothing.
    """
    if instance.rules.overrides != "pooled" or not instance.chain.has_person:
        return
    known = chosen(seen.arm >= 0)
    arm, y = at_least(seen.arm, 0)[known], log.y[known]
    weight = put_where(log.weight, seen.arm < 0, 0.0)[known]
    if log.scale is not None:
        y, weight = y / log.scale[known], weight * log.scale[known] ** 2
    if bandit.is_curve or bandit.is_contextual:
        delta = None if seen.delta is None else seen.delta[known]
        at = Setting(seen.cell[known], log.x[known], delta)
        here = replace(located, arm=arm[:, None], coord=located.coord[known])
        y = y - bandit.mean(state, at, here)[:, 0]
        if not bandit.is_contextual:
            coord = like(instance.space.coords, y)[arm]
            there = replace(located, arm=arm[:, None], coord=coord[:, None])
            y = y + bandit.mean(state, at, there)[:, 0]
    sums = namespace(y).stack((weight, weight * y, weight * y * y), axis=1)
    contrast.add(seen.cell[known], arm, log.is_override[known], sums)


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


def learn_label(instance: Instance, state: Any, log: Log, label: Array) -> None:
    """Teach the scaler labels (N, n_labels) of finished rows, with their outcome or later."""
    scaler = instance.scaler
    check_label(label, log.unit.size, scaler.n_labels)
    owner = log.unit if scaler.per == "unit" else log.group
    action = instance.composition.relative(log.action, log.x)
    scaler.observe(state, owner, log.x, action, label, log.weight)


def check_label(label: Array, n: int, n_labels: int) -> None:
    """Refuse labels of the wrong shape or beyond all measure; NaN: not seen."""
    if label.shape != (n, n_labels):
        raise InvalidInput(f"label: expected shape {(n, n_labels)}, got {label.shape}")
    if bool((np.abs(label) > LARGEST_LABEL).any()):
        raise InvalidInput(f"label: expected numbers within ±{LARGEST_LABEL:g}, got {label}")
