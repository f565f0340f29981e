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
from gdcb.arrays import Array, is_any, scatter_add
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
    def zeros(n_units: int) -> NullState:
        """Return no observation."""
        return NullState(np.zeros(n_units), np.zeros(n_units))


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
        totals = np.zeros((int(group.max()) + 1, 4))
        return ContrastState(np.zeros((group.size, n_arms, 2, 3)), group, totals)

    def add(self, cell: Array, arm: Array, is_override: Array, sums: Array) -> None:
        """Add rows' (weight, w·y, w·y²) and carry the change into the groups' totals."""
        n_arms = self.sums.shape[1]
        flat = np.unique(cell * n_arms + arm)
        touched, which = flat // n_arms, flat % n_arms
        before = self._message(touched, which)
        scatter_add(self.sums.reshape(-1, 3), (cell * n_arms + arm) * 2 + is_override, sums)
        scatter_add(self.totals, self.group[touched], self._message(touched, which) - before)

    def _message(self, cell: Array, arm: Array) -> Array:
        n, total, square = np.moveaxis(self.sums[cell, arm], -1, 0)  # (touched, 2) each
        some = np.maximum(n, 1e-12)
        mean = total / some
        both = (n > 0).all(axis=-1)
        weight = np.where(both, 1.0 / (1.0 / some).sum(axis=-1), 0.0)
        rest = np.maximum(square - n * mean**2, 0.0).sum(axis=-1)
        freedom = (n - (n > 0)).sum(axis=-1)
        return np.stack((weight, weight * (mean[:, 0] - mean[:, 1]), rest, freedom), axis=1)


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
    weight, shift, rest, freedom = state.totals[group].T
    known = (weight > 0) & (freedom >= 2)
    weight = np.where(known, weight, 1.0)
    s2 = np.maximum(rest / np.maximum(freedom, 1.0), 1e-12)
    d, v = shift / weight, s2 / weight
    log_odds = 0.5 * np.log1p(s2 / v) - 0.5 * d**2 * (1.0 / v - 1.0 / (v + s2))
    odds = np.exp(np.clip(log_odds, -700.0, 700.0))
    return np.asarray(np.where(known, odds / (1.0 + odds), 1.0))


def locate_executed(instance: Instance, log: Log, delta: Array, in_force: Array) -> Located:
    """Locate executed actions under δ: (N, 1). An unchanged proposal of this δ is its arm."""
    arms = instance.space
    own = log.is_own & (log.version == in_force)
    if instance.rules.credit == "proposed":
        own = ~log.is_null
    arm = np.where(own, log.arm, -1)
    steps = np.where(own, 0.0, np.inf)
    coord = arms.coords[np.maximum(log.arm, 0)]
    moved = np.flatnonzero(~own & np.isfinite(log.action).all(axis=-1))
    if moved.size:
        some = instance.composition.locate(
            arms, log.action[moved, None, :], delta[moved], log.x[moved]
        )
        arm[moved], steps[moved] = some.arm[:, 0], some.steps[:, 0]
        coord[moved] = some.coord[:, 0]
    coord[~np.isfinite(log.action).all(axis=-1)] = np.nan
    return Located(arm[:, None], coord[:, None], lambda: steps[:, None])


def evidence(
    instance: Instance, log: Log, delta: Array, in_force: Array
) -> tuple[Evidence, Located]:
    """Turn finished rows into what the bandit may learn from them, under the δ in force."""
    located = locate_executed(instance, log, delta, in_force)
    near = (located.steps[:, 0] <= HALF_STEP) & ~log.is_null
    arm = np.where(near, located.arm[:, 0], -1)
    weight = log.weight.astype(float)
    if is_any(log.is_null) and not instance.null.teaches:
        weight = np.where(log.is_null, 0.0, weight)
    cell = instance.cells.of(log.unit, delta)
    coord = located.coord[:, 0]
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
    if rule == "all" or not is_any(log.is_override):
        return seen
    share = 0.0 if rule == "approved" else no_private_information(contrast, log.group)
    weight = np.where(log.is_override, seen.weight * share, seen.weight)
    return replace(seen, weight=weight)


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
    known = np.flatnonzero(seen.arm >= 0)
    arm, weight, y = seen.arm[known], log.weight[known], log.y[known]
    if log.scale is not None:
        y, weight = y / log.scale[known], weight * log.scale[known] ** 2
    if bandit.is_curve or bandit.is_contextual:
        delta = None if seen.delta is None else seen.delta[known]
        at = Setting(seen.cell[known], log.x[known], delta)
        here = replace(located, arm=arm[:, None], coord=located.coord[known])
        y = y - bandit.mean(state, at, here)[:, 0]
        if not bandit.is_contextual:
            coord = instance.space.coords[arm]
            there = replace(located, arm=arm[:, None], coord=coord[:, None])
            y = y + bandit.mean(state, at, there)[:, 0]
    sums = np.stack((weight, weight * y, weight * y * y), axis=1)
    contrast.add(seen.cell[known], arm, log.is_override[known], sums)


def learn_null(instance: Instance, state: NullState, log: Log, outcome: Array) -> None:
    """Let observed null rewards correct their declared mean; no news where nothing ran."""
    if not is_any(log.is_null):
        return
    reward = instance.reward.reward(outcome, log.action, log.x)
    seen = log.is_null & np.isfinite(reward)
    unit, excess = log.unit[seen], (reward - instance.null.declared(log.x))[seen]
    weight = log.weight[seen]
    scatter_add(state.count, unit, weight)
    scatter_add(state.excess, unit, weight * excess)


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
