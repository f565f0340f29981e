"""Do overrides carry private information? Approved and overridden rows, compared.

If a person overrides on something outside x that also predicts the outcome, overridden rows
mislead. What the comparison says is a weight, not a switch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gdcb.arrays import (
    Array,
    at_least,
    chosen,
    distinct,
    like,
    maybe_any,
    namespace,
    on_host,
    put_where,
    rises,
    scatter_add,
    take_at,
    zeros,
)
from gdcb.bandits import Bandit
from gdcb.instance import Instance
from gdcb.records import Evidence, Located, Log, Setting


@dataclass(slots=True)
class ContrastState:
    """Outcomes of approved and of overridden rows, cell by cell and arm by arm.

    Parameters
    ----------
    sums : (cells, K, 2, 3) approved / overridden × (weight, Σ outcome, Σ outcome²)
    group : (cells,) the group of each cell
    totals : (groups, 6) what the cells of a group add up to, with w and d as in
        `no_private_information`: Σw, Σw·d, residual sum of squares, degrees of freedom,
        ½Σlog(1 + w) and Σd²w²/(1 + w)
    """

    sums: Array
    group: Array
    totals: Array

    @staticmethod
    def zeros(group: Array, n_arms: int) -> ContrastState:
        """Return no outcome, for cells of these groups."""
        totals = zeros((int(group.max()) + 1, 6), group)
        return ContrastState(zeros((group.shape[0], n_arms, 2, 3), group), group, totals)

    def add(self, cell: Array, arm: Array, is_override: Array, sums: Array) -> None:
        """Add rows' (weight, w·y, w·y²) and carry the change into the groups' totals."""
        n_arms = self.sums.shape[1]
        flat = cell * n_arms + arm
        once = flat if rises(cell) else distinct(flat)  # a row a cell: as they are
        pairs = self.sums.reshape(-1, 2, 3)
        before = _message(take_at(pairs, once))
        scatter_add(self.sums.reshape(-1, 3), flat * 2 + is_override, sums)
        told = _message(take_at(pairs, once)) - before
        scatter_add(self.totals, self.group[once // n_arms], told, shared=True)


def _message(sums: Array) -> Array:
    """Return what cells and arms (n, 2, 3) add to their group's totals: (n, 6)."""
    xp = namespace(sums)
    n, total, square = (sums[..., i] for i in range(3))  # (touched, 2) each
    some = at_least(n, 1e-12)
    mean = total / some
    only = ~(n > 0).all(axis=-1)
    weight = put_where(1.0 / (1.0 / some).sum(axis=-1), only, 0.0)
    rest = at_least(square - n * mean**2, 0.0).sum(axis=-1)
    freedom = (n - xp.astype(n > 0, n.dtype)).sum(axis=-1)
    gap = mean[:, 0] - mean[:, 1]
    shift, chance = weight * gap, 0.5 * xp.log1p(weight)
    spread = gap**2 * weight**2 / (1.0 + weight)
    message: Array = xp.stack((weight, shift, rest, freedom, chance, spread), axis=1)
    return message


def no_private_information(state: ContrastState, group: Array) -> Array:
    """Return the posterior probability that overrides carry no private information: (N,).

    Within each cell and arm approved and overridden rows must have equal mean outcomes. With d the
    difference there, w = 1/(1/n_a + 1/n_o) and s² the pooled variance within, d has variance
    s²/w. Two alternatives share the odds of one half: one difference for the whole group,
    N(0, s²), and a difference of its own in every cell and arm, N(0, s²) each (unit-information
    priors). The first has the power where all overrides know better; the second sees a person
    who raises where they know of demand and lowers where they know of none, whose differences
    cancel. The log odds of no difference are ½log(1 + W) − ½(D²/s²)·W²/(1 + W), with W and D pooled
    or of each arm and added up. There is no threshold. Before any arm has seen both kinds,
    overrides are trusted: 1.

    Notes
    -----
    Stops applying: for a learner without context, a person who overrides by an *observed* x that
    moves outcomes looks as if they knew more; declare an adjustment, or take a contextual
    learner, so that what x explains is taken off first.

    Examples
    --------
    One arm, 50 rows each, Σ (y − mean)² = 98 in all (so s² = 1), difference 1: w = 25, log odds
    ½·log(26) − ½·625/26 = −10.39 under both alternatives, so the probability is 3.07e−05.

    >>> import numpy as np
    >>> zero = np.zeros(2, dtype=int)
    >>> state = ContrastState.zeros(zero[:1], n_arms=1)
    >>> state.add(zero, zero, np.array([0, 1]), np.array([[50.0, 0.0, 49.0], [50.0, 50.0, 99.0]]))
    >>> print(f"{no_private_information(state, zero[:1])[0]:.2e}")
    3.07e-05
    """
    weight, shift, rest, freedom, chance, spread = state.totals[group].T
    unknown = ~((weight > 0) & (freedom >= 2))
    weight = put_where(weight, unknown, 1.0)
    s2 = at_least(rest / at_least(freedom, 1.0), 1e-12)
    return put_where(chance_of_none(weight, shift, chance, spread, s2), unknown, 1.0)


def chance_of_none(weight: Array, shift: Array, chance: Array, spread: Array, s2: Array) -> Array:
    """Return that probability from the totals of `ContrastState` and the variance s²."""
    xp = namespace(weight)
    together = 0.5 * xp.log1p(weight) - 0.5 * shift**2 / (1.0 + weight) / s2
    apart = chance - 0.5 * spread / s2
    against = 0.5 * (xp.exp(-together.clip(-700.0, 700.0)) + xp.exp(-apart.clip(-700.0, 700.0)))
    none: Array = 1.0 / (1.0 + against)
    return none


def trust(instance: Instance, contrast: ContrastState, log: Log) -> Array | None:
    """Return the weight of overridden rows (N,) that is known now; None: all are believed."""
    rule = instance.rules.overrides
    is_sure = not maybe_any(log.is_override) or not (on_host(log.y) or instance.chain.has_person)
    if rule == "all" or is_sure:
        return None
    ones = 0.0 * log.weight + 1.0
    share = 0.0 * ones
    if rule != "approved":  # once a group, however many rows it has
        groups = namespace(log.group).arange(contrast.totals.shape[0], device=log.group.device)
        share = no_private_information(contrast, groups)[log.group]
    trusted: Array = namespace(ones).where(log.is_override, share, ones)
    return trusted


def needs_means(instance: Instance, bandit: Bandit) -> bool:
    """Whether the comparison first takes off what the learner expects."""
    compares = instance.rules.overrides == "pooled" and instance.chain.has_person
    return compares and (bandit.is_curve or bool(bandit.reads))


def weigh(instance: Instance, contrast: ContrastState, log: Log, seen: Evidence) -> Evidence:
    """Weigh overridden rows by the probability that they carry no private information.

    Rows are weighed by what is known when they are learned from; a refold weighs all of them
    again by what is known then.
    """
    share = trust(instance, contrast, log)
    return seen if share is None else replace(seen, weight=seen.weight * share)


def look(
    instance: Instance,
    bandit: Bandit,
    state: Any,
    log: Log,
    seen: Evidence,
    located: Located,
) -> tuple[Array, Array, Array, Array] | None:
    """Return what rows say to the contrast, before the learner learns them: see `learn`.

    Cell, arm, whether it was overridden, and (weight, Σ, Σ²) of its outcome, adjusted where it is.
    A curve first takes off what it expects between the arm and the executed coordinate, a
    contextual learner all that it expects. Rows off every arm, and rows in which the null action
    ran, say nothing.
    """
    if instance.rules.overrides != "pooled" or not instance.chain.has_person:
        return None
    known = chosen(seen.arm >= 0)
    arm, y = at_least(seen.arm, 0)[known], seen.y[known]
    weight = put_where(log.weight, seen.arm < 0, 0.0)[known]
    if log.scale is not None:
        y, weight = y / log.scale[known], weight * log.scale[known] ** 2
    if bandit.is_curve or bandit.reads:
        delta = None if seen.delta is None else seen.delta[known]
        at = Setting(seen.cell[known], log.x[known], delta)
        coord, which = located.coord[known], arm[:, None]
        if not bandit.reads:  # beside it the arm itself
            xp = namespace(coord)
            coord = xp.concat((coord, like(instance.space.coords, y)[arm][:, None]), axis=1)
            which = xp.concat((which, which), axis=1)
        expected = bandit.mean(state, at, replace(located, arm=which, coord=coord))
        y = y - expected[:, 0]
        if not bandit.reads:
            y = y + expected[:, 1]
    sums = namespace(y).stack((weight, weight * y, weight * y * y), axis=1)
    return seen.cell[known], arm, log.is_override[known], sums


def learn(contrast: ContrastState, looked: tuple[Array, Array, Array, Array] | None) -> None:
    """Add each row to its arm, approved and overridden apart."""
    if looked is not None:
        contrast.add(*looked)
