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

from gdcb.arrays import Array, is_any, scatter_add
from gdcb.bandits import Bandit
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.records import Evidence, Located, Log

HALF_STEP = 0.5 + 1e-9


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
    """Outcomes of approved and of overridden rows, arm by arm, for every group.

    `sums` is (groups, K, 2, 3): arm × approved / overridden × (weight, Σ outcome, Σ outcome²).
    """

    sums: Array

    @staticmethod
    def zeros(n_groups: int, n_arms: int) -> ContrastState:
        """Return no outcome."""
        return ContrastState(np.zeros((n_groups, n_arms, 2, 3)))


def null_worth(instance: Instance, state: NullState, unit: Array, x: Array) -> Array:
    """Return E[r | null, x] of every row (N,): declared, corrected by what was observed."""
    null = instance.null
    return null.declared(x) + state.excess[unit] / (null.weight + state.count[unit])


def no_private_information(state: ContrastState, group: Array) -> Array:
    """Return the posterior probability that overrides carry no private information: (N,).

    At equal (e, x), approved and overridden rows must have equal mean outcomes. The difference
    is taken within each arm, where both kinds were seen, and averaged with weights
    w = 1/(1/n_a + 1/n_o): d, of variance v = s²/Σw, s² the pooled variance within arms. Against
    the alternative d ~ N(0, s²) (a unit-information prior) the odds are
    N(d; 0, v) / N(d; 0, v + s²), even beforehand. Few rows leave it near ½ or above; there is no
    threshold.

    Examples
    --------
    One arm, 50 rows each, Σ (y − mean)² = 98 in all (so s² = 1), difference 1: Σw = 25,
    v = 0.04, log odds ½·log(26) − ½·(25 − 1/1.04) = −10.39, so the probability is 3.07e−05.

    >>> approved, overridden = [50.0, 0.0, 49.0], [50.0, 50.0, 99.0]
    >>> state = ContrastState(np.array([[[approved, overridden]]]))
    >>> print(f"{no_private_information(state, np.array([0]))[0]:.2e}")
    3.07e-05
    """
    groups, back = np.unique(group, return_inverse=True)
    n, total, square = np.moveaxis(state.sums[groups], -1, 0)  # (groups, K, 2) each
    some = np.maximum(n, 1e-12)
    mean = total / some
    rest = np.maximum(square - n * mean**2, 0.0).sum(axis=(1, 2))
    freedom = n.sum(axis=(1, 2)) - (n > 0).sum(axis=(1, 2))
    s2 = np.maximum(rest / np.maximum(freedom, 1.0), 1e-12)
    weight = np.where((n > 0).all(axis=-1), 1.0 / (1.0 / some).sum(axis=-1), 0.0)
    known = (weight.sum(axis=1) > 0) & (freedom >= 2)
    total_weight = np.where(known, weight.sum(axis=1), 1.0)
    d = (weight * (mean[..., 0] - mean[..., 1])).sum(axis=1) / total_weight
    v = s2 / total_weight
    log_odds = 0.5 * np.log1p(s2 / v) - 0.5 * d**2 * (1.0 / v - 1.0 / (v + s2))
    odds = np.exp(np.clip(log_odds, -700.0, 700.0))
    return np.asarray(np.where(known, odds / (1.0 + odds), 1.0)[back])


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
    return Evidence(cell, arm, located.coord[:, 0], log.y, log.scale, weight), located


def weigh(instance: Instance, contrast: ContrastState, log: Log, seen: Evidence) -> Evidence:
    """Weigh overridden rows by the probability that they carry no private information."""
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

    A curve first takes off what it expects between the arm and the executed coordinate. Rows off
    every arm, and rows in which the null action ran, say nothing.
    """
    if instance.rules.overrides != "pooled" or not instance.chain.has_person:
        return
    known = np.flatnonzero(seen.arm >= 0)
    arm, weight, y = seen.arm[known], log.weight[known], log.y[known]
    if log.scale is not None:
        y, weight = y / log.scale[known], weight * log.scale[known] ** 2
    if bandit.is_curve:
        cell, coord = seen.cell[known], instance.space.coords[arm]
        here = replace(located, arm=arm[:, None], coord=located.coord[known])
        there = replace(located, arm=arm[:, None], coord=coord[:, None])
        y = y - (bandit.mean(state, cell, here) - bandit.mean(state, cell, there))[:, 0]
    index = (log.group[known] * instance.space.n + arm) * 2 + log.is_override[known]
    sums = np.stack((weight, weight * y, weight * y * y), axis=1)
    scatter_add(contrast.sums.reshape(-1, 3), index, sums)


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
    if log.y.shape != (n,) or not np.isfinite(log.y).all():
        raise InvalidInput(f"y: expected {n} finite numbers, got {log.y}")
    if log.weight.shape != (n,) or not np.isfinite(log.weight).all() or (log.weight < 0).any():
        raise InvalidInput(f"weight: expected {n} finite numbers >= 0, got {log.weight}")
    if log.scale is not None and not (np.isfinite(log.scale) & (log.scale > 0)).all():
        raise InvalidInput(f"scale: expected finite numbers > 0, got {log.scale}")
    if (log.arm < -1).any() or (log.arm >= instance.space.n).any():
        raise InvalidInput(f"arm: expected -1 to {instance.space.n - 1}, got {log.arm}")
