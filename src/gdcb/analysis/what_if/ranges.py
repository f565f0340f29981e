"""Between what the reward of rows lies that nothing in the log stands for (Manski's bounds)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gdcb.analysis.what_if.log import GatedLog, runs_at
from gdcb.analysis.what_if.means import ends_of
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instance import Instance

Ends = tuple[Array, Array]


def check_range(given: Any, reward: Array) -> None:
    """Refuse a range that is none, or that does not hold the rewards."""
    if given is None:
        return
    is_pair = isinstance(given, tuple | list) and len(given) == 2
    if not is_pair or not all(isinstance(end, int | float) and math.isfinite(end) for end in given):
        raise InvalidInput(f"reward_range: expected (low, high), got {given!r}")
    if not given[0] < given[1]:
        raise InvalidInput(f"reward_range: expected low < high, got {given!r}")
    least, most = float(reward.min()), float(reward.max())
    if least < given[0] or most > given[1]:
        raise InvalidInput(
            f"reward_range: expected to hold all rewards, {least:g} to {most:g}, got {given!r}"
        )


def of_arms(instance: Instance, log: GatedLog, declared: tuple[float, float] | None) -> Ends:
    """Return the least and the most that any arm, or nothing, can pay in a row: (N,) each.

    Declared, or by the payoffs of the outcome classes; NaN where neither is known.
    """
    n = log.n
    if declared is not None:
        return np.full(n, float(declared[0])), np.full(n, float(declared[1]))
    if instance.reward.target != "class":
        return np.full(n, np.nan), np.full(n, np.nan)
    low = high = instance.null.declared(log.rows.x)
    arms = instance.composition.compose(instance.space, log.delta, log.rows.x)
    for a in range(instance.space.n):
        one, other = ends_of(instance.reward, arms[:, a], log.rows.x)
        low, high = (
            np.minimum(low, np.minimum(one, other)),
            np.maximum(high, np.maximum(one, other)),
        )
    # A person's own action may lie beyond the arms: what ran counts too.
    runs = runs_at(log.executed)
    ran = np.where(runs[:, None], log.executed, arms[:, 0])
    one, other = ends_of(instance.reward, ran, log.rows.x)
    return np.minimum(low, np.minimum(one, other)), np.maximum(high, np.maximum(one, other))


def of_actions(
    instance: Instance,
    log: GatedLog,
    declared: tuple[float, float] | None,
    e: Array,
    is_sure: Array,
) -> Ends:
    """Return the same for actions (N, D) that would surely run; elsewhere that of all arms."""
    low, high = of_arms(instance, log, declared)
    if declared is not None or instance.reward.target != "class":
        return low, high
    runs = runs_at(e)
    known = is_sure & runs
    one, other = ends_of(instance.reward, np.where(runs[:, None], e, log.executed), log.rows.x)
    null = instance.null.declared(log.rows.x)
    low = np.where(known, np.minimum(one, other), np.where(is_sure, null, low))
    high = np.where(known, np.maximum(one, other), np.where(is_sure, null, high))
    return low, high
