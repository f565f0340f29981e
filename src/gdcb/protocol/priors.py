"""Where every method's prior comes from: the same tuning worlds, fitted by the method itself.

For each method its own parameters are fitted to many rows of every unit of the tuning worlds, with
exact probabilities as outcomes. Their mean over units and their standard deviation are the prior.
So a rival knows beforehand just as much as the recommended learner: what such worlds are like.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.bandits import LogisticThompson
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.instances import Study, Tuning
from gdcb.logistic import LogisticPosterior
from gdcb.records import Evidence, Rows
from gdcb.streams import CONTEXT, DRAW, WORLD, Streams

GROUPS, CONTEXTS = 40, 400  # tuning worlds, and rows of each of their units
_WEAK = 1e-4  # precision that keeps a fit finite and changes nothing else
_LEAST = 0.02  # smallest standard deviation of a prior


@dataclass(slots=True)
class Sample:
    """Many rows of every unit, under actions drawn evenly over the arms.

    Parameters
    ----------
    instance : without a scaler
    state, units : the worlds, and units a group
    rows : n = units · CONTEXTS rows, those of a unit together
    arm, coord : (n,), (n, 1) the arm and its coordinate
    action, chance : (n, D), (n,) the action, and the probability of the class that pays
    ask : (e (n, M, D), rows) → (n, M) that probability of any actions
    """

    instance: Instance
    state: Any
    units: int
    rows: Rows
    arm: Array
    coord: Array
    action: Array
    chance: Array
    ask: Callable[[Array, Rows], Array]

    def by_unit(self, values: Array) -> Array:
        """Return values of rows as (units, CONTEXTS, …)."""
        return values.reshape(-1, CONTEXTS, *values.shape[1:])


def tuning_of(study: Study) -> Tuning:
    """Return what a study is tuned with."""
    if study.tuning is None:
        raise InvalidInput(f"instance '{study.domain.instance.name}': it is not tuned")
    return study.tuning


def sample(study: Study, instance: Instance, seed: int, groups: int = GROUPS) -> Sample:
    """Draw the tuning worlds; `instance` is the study's without a scaler."""
    units, world, chances = study.domain.units, study.domain.world, tuning_of(study).chance
    group = np.repeat(np.arange(groups), units)
    streams = Streams(seed, units)
    state = world.start(streams.at(WORLD, 0), group)
    seen, drawn = [], []
    for t in range(CONTEXTS):
        seen.append(world.context(streams.at(CONTEXT, t), state, t, group))
        drawn.append(streams.at(DRAW, t).uniform(group.size))
    order = np.arange(CONTEXTS * group.size).reshape(CONTEXTS, -1).T.ravel()
    rows = Rows.concatenate(seen).take(order)
    arm = (np.concatenate(drawn)[order] * instance.space.n).astype(np.int64)
    neutral = np.ones((rows.n, 1, 1))
    actions = instance.composition.compose(instance.space, neutral, rows.x)
    action = actions[np.arange(rows.n), arm]

    def ask(e: Array, rows: Rows) -> Array:
        return chances(state, e, rows)

    chance = ask(action[:, None], rows)[:, 0]
    coord = instance.space.coords[arm]
    return Sample(instance, state, units, rows, arm, coord, action, chance, ask)


def spread(weights: Array, units: int) -> dict[str, list[float]]:
    """Return mean, sd over all units, sd of groups and sd within groups of weights (units, d)."""
    by_group = weights.reshape(-1, units, weights.shape[1])
    own = by_group.std(axis=1, ddof=1).mean(axis=0) if units > 1 else np.zeros(weights.shape[1])
    between = by_group.mean(axis=1).std(axis=0, ddof=1)
    return {
        "mean": plain(weights.mean(axis=0)),
        "sd": plain(np.maximum(weights.std(axis=0, ddof=1), _LEAST)),
        "group": plain(np.maximum(between, _LEAST)),
        "own": plain(np.maximum(own, _LEAST)),
    }


def plain(values: Array) -> list[float]:
    """Return numbers as they are stored: four digits behind the point."""
    return [round(float(value), 4) for value in values]


def logistic_weights(design: Array, chance: Array) -> Array:
    """Fit σ(φᵀw) to probabilities: design (units, n, d), chance (units, n); returns (units, d)."""
    return LogisticPosterior.fit(design, chance, None, 0.0, _WEAK).mean


def linear_weights(design: Array, chance: Array) -> Array:
    """Fit φᵀw to probabilities by least squares: (units, d)."""
    turned = design.swapaxes(-1, -2)
    normal = turned @ design + _WEAK * np.eye(design.shape[-1])
    return np.asarray(np.linalg.solve(normal, turned @ chance[..., None])[..., 0])


def shared_design(
    found: Sample, features: tuple[str, ...], degree: int, interactions: bool
) -> Array:
    """Return ψ(x, c) of `SharedLinearThompson` and `LogisticThompson`: (units, n, d)."""
    plain = LogisticThompson(features=features, degree=degree, interactions=interactions)
    bandit: Any = found.instance.bind(plain)
    n = found.rows.n
    zero, one = np.zeros(n, dtype=np.int64), np.ones(n)
    seen = Evidence(zero, found.arm, found.coord, found.chance, None, one, found.rows.x)
    frame = bandit.init(zero[:1], found.instance.space).frame
    return found.by_unit(bandit.rows(frame, seen, np.arange(n)))


def arm_chances(found: Sample, delta: Array | None = None) -> Array:
    """Return the probability (n, K) that pays of every arm in every row, under δ (n, 1, 1)."""
    scale = np.ones((found.rows.n, 1, 1)) if delta is None else delta
    space, phi = found.instance.space, found.instance.composition
    return found.ask(phi.compose(space, scale, found.rows.x), found.rows)


def arm_counts(found: Sample, chances: Array) -> dict[str, list[float]]:
    """Return the prior of every arm's mean by its moments over units.

    Mean m, and α + β = m(1 − m)/variance − 1 of the Beta with that variance; beside them how far
    the means of groups scatter, and of units within a group, averaged over the arms.
    """
    means = found.by_unit(chances).mean(axis=1)
    mean, variance = means.mean(axis=0), np.maximum(means.var(axis=0, ddof=1), _LEAST**2)
    found_spread = spread(means, found.units)
    return {
        "mean": plain(mean),
        "total": plain(np.maximum(mean * (1.0 - mean) / variance - 1.0, 0.5)),
        "group": plain(np.array([np.mean(found_spread["group"])])),
        "own": plain(np.array([np.mean(found_spread["own"])])),
    }


def arm_weights(found: Sample, features: tuple[str, ...]) -> dict[str, Any]:
    """Return mean and sd over units of each arm's own weights on (1, x): (K, d) each."""
    positions = [found.instance.context.names.index(name) for name in features]
    x = found.rows.x[:, positions]
    design = found.by_unit(np.concatenate((np.ones((x.shape[0], 1)), x), axis=1))
    chances = found.by_unit(arm_chances(found))
    mean, sd = [], []
    for a in range(chances.shape[2]):
        weights = linear_weights(design, chances[..., a])
        mean.append(plain(weights.mean(axis=0)))
        sd.append(plain(np.maximum(weights.std(axis=0, ddof=1), _LEAST)))
    return {"mean": mean, "sd": sd}


def level_counts(found: Sample, chances: Array, instance: Instance) -> dict[str, list[float]]:
    """Return the prior of every level of every factor: the mean over the arms that have it."""
    means = found.by_unit(chances).mean(axis=1)
    columns = [
        means[:, factor == level].mean(axis=1)
        for factor in instance.space.levels.T
        for level in np.unique(factor)
    ]
    levels = np.stack(columns, axis=1)
    mean, variance = levels.mean(axis=0), np.maximum(levels.var(axis=0, ddof=1), _LEAST**2)
    total = np.maximum(mean * (1.0 - mean) / variance - 1.0, 0.5)
    return {"mean": plain(mean), "total": plain(total)}


def pooled_moments(
    moments: dict[str, list[float]], n_features: int, units: int, degree: int, interactions: bool
) -> dict[str, list[float]]:
    """Turn moments of units' weights ψ into those of one learner a group.

    What a group shares scatters as the groups do. Unit k differs from the first in its level, and
    with interactions in its slope: differences of two units, with √2 times their spread.
    """
    mean, sd, group, own = (moments[name] for name in ("mean", "sd", "group", "own"))
    p, more = n_features, units - 1
    apart = 2.0**0.5
    out_mean = [mean[0], *mean[1 : 1 + p], *[0.0] * more]
    out_sd = [sd[0], *group[1 : 1 + p], *[apart * own[0]] * more]
    start = 1 + p
    out_mean += mean[start : start + degree]
    out_sd += group[start : start + degree]
    if interactions:
        out_mean += [*mean[start + degree :], *[0.0] * more]
        out_sd += [*group[start + degree :], *[apart * own[start]] * more]
    return {"mean": out_mean, "sd": [round(value, 4) for value in out_sd]}
