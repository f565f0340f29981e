"""Where every method's prior comes from: the same tuning worlds, fitted by the method itself.

For each method its own parameters are fitted to many rows of every unit of the tuning worlds
(`gdcb.protocol.sampling`), with what it learns known exactly. Their mean over units and their
standard deviation are the prior. So a rival knows beforehand just as much as the recommended
learner: what such worlds are like.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.bandits import LogisticThompson
from gdcb.instance import Instance
from gdcb.logistic import LogisticPosterior
from gdcb.protocol.ground import neutral_of
from gdcb.protocol.sampling import Sample
from gdcb.records import Evidence
from gdcb.regression import with_intercept

_WEAK = 1e-4  # precision that keeps a fit finite and changes nothing else
_LEAST = 0.02  # smallest standard deviation of a prior, for targets and features of size 1


def spread(weights: Array, units: int, least: Array | float = _LEAST) -> dict[str, list[float]]:
    """Return mean, sd over all units, sd of groups and sd within groups of weights (units, d)."""
    by_group = weights.reshape(-1, units, weights.shape[1])
    own = by_group.std(axis=1, ddof=1).mean(axis=0) if units > 1 else np.zeros(weights.shape[1])
    between = by_group.mean(axis=1).std(axis=0, ddof=1)
    return {
        "mean": plain(weights.mean(axis=0), least),
        "sd": plain(np.maximum(weights.std(axis=0, ddof=1), least), least),
        "group": plain(np.maximum(between, least), least),
        "own": plain(np.maximum(own, least), least),
    }


def plain(values: Array, least: Array | float = _LEAST) -> list[float]:
    """Return numbers as they are stored: four digits behind the point, more of what is small.

    >>> plain(np.array([1.23456, 0.00123456]), np.array([0.02, 0.0002]))
    [1.2346, 0.001235]
    """
    sizes = np.broadcast_to(np.asarray(least, dtype=float), values.shape)
    finer = np.maximum(np.ceil(np.log10(_LEAST / sizes) - 1e-9), 0.0).astype(int)
    return [round(float(v), 4 + int(more)) for v, more in zip(values, finer, strict=True)]


def least_of(found: Sample, design: Array) -> Array:
    """Return the smallest standard deviations of weights on a design (units, n, d): (d,).

    Weights of columns that are large, and of targets that are small, are small themselves.
    """
    largest = np.abs(design).max(axis=(0, 1))
    return np.asarray(_LEAST * found.size / np.maximum(largest, 1.0))


def logistic_weights(design: Array, target: Array, weight: Array | None = None) -> Array:
    """Fit σ(φᵀw) to probabilities: design (units, n, d), target (units, n); returns (units, d)."""
    return LogisticPosterior.fit(design, target, weight, 0.0, _WEAK).mean


def linear_weights(design: Array, target: Array, weight: Array | None = None) -> Array:
    """Fit φᵀw by least squares, rows weighted: (units, d)."""
    turned = design.swapaxes(-1, -2)
    if weight is not None:
        turned = turned * weight[:, None, :]
    normal = turned @ design + _WEAK * np.eye(design.shape[-1])
    return np.asarray(np.linalg.solve(normal, turned @ target[..., None])[..., 0])


def noise_around(found: Sample, left: Array, weight: Array | None = None) -> float:
    """Return how far outcomes lie from a fit that misses the target by `left`, (units, n) or more.

    The outcome's own noise, and s(x) times what the fit does not explain; ½ for a class.
    """
    if found.is_class:
        return found.noise
    if found.scale is not None:
        scale = found.by_unit(found.scale)
        left = left * scale.reshape(*scale.shape, *[1] * (left.ndim - 2))
    missed = np.average(left**2, weights=weight)
    return float(f"{np.sqrt(found.noise**2 + missed):.4g}")


def pulls(found: Sample) -> Array | None:
    """Return what rows weigh in a fit, s(x)² (units, n); None: all the same."""
    return None if found.scale is None else found.by_unit(found.scale**2)


def shared_design(
    found: Sample,
    features: tuple[str, ...],
    degree: int,
    interactions: bool,
    centre: tuple[float, ...] = (),
) -> Array:
    """Return ψ(x, c) of `SharedLinearThompson` and `LogisticThompson`: (units, n, d)."""
    plain = LogisticThompson(
        features=features, degree=degree, interactions=interactions, centre=centre
    )
    bandit: Any = found.instance.bind(plain)
    n = found.rows.n
    zero, one = np.zeros(n, dtype=np.int64), np.ones(n)
    seen = Evidence(zero, found.arm, found.coord, found.target, None, one, found.rows.x)
    frame = bandit.init(zero[:1], found.instance.space).frame
    return found.by_unit(bandit.rows(frame, seen, np.arange(n)))


def context_design(
    found: Sample, features: tuple[str, ...], centre: tuple[float, ...] = ()
) -> Array:
    """Return (1, x) of every row: (units, n, 1 + p)."""
    positions = [at for name in features for at in found.instance.context.positions[name]]
    return found.by_unit(with_intercept(found.rows.x, positions, centre))


def arm_targets(found: Sample, delta: Array | None = None) -> Array:
    """Return what is learned of every arm in every row (n, K), under δ; None: without a scaler."""
    space, phi = found.instance.space, found.instance.composition
    if delta is None:
        delta = np.full((found.rows.n, 1, 1), neutral_of(found.instance).value)
    return found.ask(phi.compose(space, delta, found.rows.x), found.rows)


def arm_means(found: Sample, targets: Array, delta: Array | None = None) -> Array:
    """Return every arm's mean in every unit's bands of δ: (bands, units, K).

    NaN where a unit had no row in a band with the arm allowed.
    """
    n, k = targets.shape
    cells, weight = found.instance.cells, np.ones((n, k))
    if found.rows.mask is not None:
        weight *= found.rows.mask
    if found.scale is not None:
        weight *= (found.scale**2)[:, None]
    if delta is None:
        delta = np.full((n, 1, 1), neutral_of(found.instance).value)
    band = cells.of(np.zeros(n, dtype=np.int64), delta)
    out = np.full((cells.n, n // found.contexts, k), np.nan)
    for b in np.unique(band):
        here = found.by_unit(weight * (band == b)[:, None])
        total = here.sum(axis=1)
        known = total > 0.0
        sums = (here * found.by_unit(targets)).sum(axis=1)
        out[b][known] = sums[known] / total[known]
    return out


def _moments(means: Array, least: float) -> tuple[Array, Array]:
    """Return mean and standard deviation (K,) of means (cells, K); of an unseen arm, of all."""
    count = np.isfinite(means).sum(axis=0)
    mean, sd = np.full(count.shape, np.nanmean(means)), np.full(count.shape, np.nanstd(means))
    many, some = count > 1, count > 0
    mean[some] = np.nanmean(means[:, some], axis=0)
    sd[many] = np.nanstd(means[:, many], axis=0, ddof=1)
    return mean, np.maximum(sd, least)


def _scatter(means: Array, units: int) -> tuple[Array, Array]:
    """Return the spread of groups, and of units within a group, of means (bands, units, K): (K,).

    Averaged over bands; 0 where nobody can tell.
    """
    bands, _, k = means.shape
    by_group = means.reshape(bands, -1, units, k)
    known = np.isfinite(by_group)
    count = np.where(known.any(axis=2), known.sum(axis=2), np.nan)
    between = _sd(np.where(known, by_group, 0.0).sum(axis=2) / count, 1)
    own = np.nan_to_num(_sd(by_group, 2)).mean(axis=1)
    seen = np.isfinite(between).any(axis=1)  # bands that somebody was in
    if not seen.any():
        return np.zeros(k), np.zeros(k)
    return np.nan_to_num(between[seen]).mean(axis=0), own[seen].mean(axis=0)


def _sd(values: Array, axis: int) -> Array:
    """Return the standard deviation of the known values along an axis; NaN below two."""
    known = np.isfinite(values)
    count = known.sum(axis=axis)
    clean = np.where(known, values, 0.0)
    centre = np.expand_dims(clean.sum(axis=axis) / np.maximum(count, 1), axis)
    square = np.where(known, (clean - centre) ** 2, 0.0).sum(axis=axis)
    return np.where(count > 1, np.sqrt(square / np.maximum(count - 1, 1)), np.nan)


def arm_moments(found: Sample, targets: Array, delta: Array | None = None) -> dict[str, Any]:
    """Return the prior of every arm's mean by its moments over units, and their bands of δ.

    Mean m and, for a class, α + β = m(1 − m)/variance − 1 of the Beta with that variance; for a
    reward the standard deviation, and the noise around a unit's mean. Beside them how far the
    means of groups scatter, and of units within a group, averaged over the arms.
    """
    means, least = arm_means(found, targets, delta), _LEAST * found.size
    mean, sd = _moments(means.reshape(-1, means.shape[2]), least)
    between, own = (np.maximum(part, least) for part in _scatter(means, found.units))
    out: dict[str, Any] = {
        "mean": plain(mean, least),
        "group": plain(np.array([np.mean(plain(between, least))]), least),
        "own": plain(np.array([np.mean(plain(own, least))]), least),
    }
    if found.is_class:
        return out | {"total": _total(mean, sd)}
    left = found.by_unit(targets) - np.nan_to_num(np.nanmean(means, axis=0))[:, None, :]
    is_allowed = None if found.rows.mask is None else found.by_unit(found.rows.mask * 1.0)
    return out | {"sd": plain(sd, least), "noise": noise_around(found, left, is_allowed)}


def _total(mean: Array, sd: Array) -> list[float]:
    return plain(np.maximum(mean * (1.0 - mean) / sd**2 - 1.0, 0.5))


def arm_weights(
    found: Sample,
    features: tuple[str, ...],
    is_logistic: bool = False,
    centre: tuple[float, ...] = (),
) -> dict[str, Any]:
    """Return moments over units of each arm's own weights on (1, x): (K, d) each.

    Rows in which an arm is not allowed say nothing of it; units in which it hardly is, neither.
    """
    design = context_design(found, features, centre)
    targets = found.by_unit(arm_targets(found))
    mask, pull = found.rows.mask, pulls(found)
    least = least_of(found, design)
    out: dict[str, Any] = {"mean": [], "sd": [], "group": [], "own": []}
    left, counts = np.zeros(targets.shape), np.ones(targets.shape)
    for a in range(targets.shape[2]):
        weight, known = pull, np.ones(targets.shape[0], dtype=bool)
        if mask is not None:
            counts[..., a] = found.by_unit(mask[:, a] * 1.0)
            weight = counts[..., a] if pull is None else pull * counts[..., a]
            known = counts[..., a].sum(axis=1) > design.shape[2]
        fit = logistic_weights if is_logistic else linear_weights
        weights = fit(design, targets[..., a], weight)
        if not is_logistic:
            left[..., a] = targets[..., a] - (design @ weights[..., None])[..., 0]
        whole = known.reshape(-1, found.units).all(axis=1)
        if whole.sum() < 2:  # hardly ever allowed anywhere: whatever the fit says
            known, whole = np.ones_like(known), np.ones_like(whole)
        moments = spread(weights[np.repeat(whole, found.units)], found.units, least)
        for name, values in out.items():
            values.append(moments[name])
    if is_logistic:
        return out
    return out | {"noise": noise_around(found, left, None if mask is None else counts)}


def level_moments(
    found: Sample, targets: Array, instance: Instance, delta: Array | None = None
) -> dict[str, list[float]]:
    """Return the prior of every level of every factor: the mean over the arms that have it."""
    means = arm_means(found, targets, delta).reshape(-1, targets.shape[1])
    columns = [
        np.nanmean(means[:, factor == level], axis=1)
        for factor in instance.space.levels.T
        for level in np.unique(factor)
    ]
    mean, sd = _moments(np.stack(columns, axis=1), _LEAST * found.size)
    return {"mean": plain(mean), "total": _total(mean, sd)}


def pooled_moments(
    moments: dict[str, list[float]],
    n_features: int,
    units: int,
    degree: int,
    interactions: bool,
    n_coords: int = 1,
) -> dict[str, list[float]]:
    """Turn moments of units' weights ψ into those of one learner a group.

    What a group shares scatters as the groups do. Unit k differs from the first in its level, and
    with interactions in its slopes: differences of two units, with √2 times their spread.
    """
    mean, group, own = (moments[name] for name in ("mean", "group", "own"))
    p, more = n_features, units - 1
    level = pooled_levels(moments, p, units)
    out_mean, out_sd = level["mean"], level["sd"]
    start, powers = 1 + p, degree * n_coords
    out_mean += mean[start : start + powers]
    out_sd += group[start : start + powers]
    for j in range(n_coords if interactions else 0):
        at = start + powers + j * p
        out_mean += [*mean[at : at + p], *[0.0] * more]
        out_sd += [*group[at : at + p], *[_apart(own[start + j])] * more]
    return {"mean": out_mean, "sd": out_sd}


def pooled_levels(
    moments: dict[str, list[float]], n_features: int, units: int
) -> dict[str, list[float]]:
    """Turn moments of units' weights (1, x) into those of one learner a group: (1, x, unit)."""
    p, more = n_features, units - 1
    apart = [_apart(moments["own"][0])] * more
    return {
        "mean": [*moments["mean"][: 1 + p], *[0.0] * more],
        "sd": [moments["sd"][0], *moments["group"][1 : 1 + p], *apart],
    }


def _apart(own: float) -> float:
    """Return the spread of the difference of two units, √2 times their own."""
    return plain(np.array([2.0**0.5 * own]), np.array([min(own, _LEAST)]))[0]
