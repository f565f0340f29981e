"""Whether each arm ran in comparable contexts: weights, what they cost, and where they end.

An arm's value over a reference sample of contexts can be estimated from a history by weights
1/P(a | x), or by regression. Weights say little where the arm was nearly never chosen; regression
then answers by extrapolation, without saying so. Both are looked at here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import check_number

_ELLIPSOID = 0.99


@dataclass(frozen=True, slots=True)
class Overlap:
    """How far a history speaks of each of K arms in the reference contexts.

    Parameters
    ----------
    n : (K,) rows of the arm
    ess : (K,) effective rows under weights, (Σw)²/Σw² with w = 1/P(a | x); 0 without rows
    ess_clipped : (K,) the same after clipping
    ess_regression : (K,) n/(1 + D²), D the distance of the reference's mean from the arm's
        contexts in their own standard deviations: rows that a regression's mean there is worth
    uncovered : (K,) share of the reference in which P(a | x) is below the floor; 1 without rows
    outside : (K,) share of the reference outside of the ellipsoid that holds 99 % of the arm's
        own contexts; 1 without rows
    clipped_share : (K,) share of the arm's rows whose weight was clipped
    bias_bound : (K,) what clipping can move the weighted mean of the arm's rows by, at most:
        `reward_range` times the total variation between the weights of its rows as they are and
        clipped. Where it is more, the same between clipped weights and the reference contexts, by
        the propensities there. The whole range without rows
    weights : (N,) of every row, clipped; 0 where no arm is credited
    propensity : (N,) of the arm that ran, as logged or estimated; NaN where no arm is credited
    clip : largest weight
    says : (K,) a sentence an arm
    """

    n: Array
    ess: Array
    ess_clipped: Array
    ess_regression: Array
    uncovered: Array
    outside: Array
    clipped_share: Array
    bias_bound: Array
    weights: Array
    propensity: Array
    clip: float
    says: tuple[str, ...]


def overlap(
    features: Array,
    arm: Array,
    n_arms: int,
    reference: Array,
    propensity: Any = None,
    *,
    reference_propensity: Any = None,
    floor: float = 0.01,
    clip: float | None = None,
    reward_range: float = 1.0,
    names: Sequence[str] | None = None,
    folds: int = 2,
    penalty: float = 1.0,
    degree: int = 1,
    most_rows: int = 20_000,
) -> Overlap:
    """Measure the overlap of every arm with the reference contexts.

    Clipping at c moves the weighted mean of an arm's rows by at most R·½·Σ|w/Σw − ω/Σω|, whatever
    the rewards are within a range of R: that needs no model. Over the reference, it makes the
    weights of contexts proportional to min(1, c·P(a | x)) in place of 1. With Z its mean,
    TV = ½·E|min(1, cP)/Z − 1|, and no mean of a function that ranges over R moves by more than
    R·TV; where P is estimated, so is that. The larger of the two is the bound. It says nothing of
    contexts that the arm did not run in: `uncovered` and `outside` do.

    Parameters
    ----------
    features : (N, p) φ(x) of the history's rows
    arm : (N,) arm that was executed, −1: none of them, such a row counts as another choice
    n_arms : K
    reference : (M, p) features of the reference sample
    propensity : P(a | x) of the arm that ran (N,), or of every arm (N, K); None: estimated by
        multinomial logistic regression on the features, each fold from the others
    reference_propensity : (M, K) at the reference contexts; None: estimated
    floor : below it a context counts as uncovered
    clip : largest weight; None: 1/floor
    reward_range : largest − smallest reward, for the bound
    names : (K,) of the arms, for the sentences
    folds, penalty, degree : of the regression; degree 2 has squares and products
    most_rows : rows that the regression is fitted on, evenly spaced, where there are more

    Notes
    -----
    Assumes: log odds of arms are linear in the features, where propensities are estimated; the
    history's contexts are those of the reference, up to what P(a | x) says.

    Stops applying: an arm that was ruled out by a limit in x has P = 0 beyond it, and a logistic
    line does not; `outside` sees that. Ellipsoids say little of categories with many levels.

    Examples
    --------
    Arm 1 ran in two of ten rows whatever the context: weights are equal, and 5 each.

    >>> x, arm = np.tile([[-1.0], [1.0]], (10, 1)), np.tile([0, 0, 0, 0, 0, 0, 0, 0, 1, 1], 2)
    >>> found = overlap(x, arm, 2, x, propensity=np.where(arm == 0, 0.8, 0.2))
    >>> found.n.tolist(), found.ess.round(6).tolist(), found.weights[8:10].tolist()
    ([16, 4], [16.0, 4.0], [5.0, 5.0])
    >>> found.uncovered.tolist(), found.outside.tolist()
    ([0.0, 0.0], [0.0, 0.0])
    """
    for name, value in (("n_arms", n_arms), ("folds", folds), ("degree", degree)):
        check_number(name, value, 2 if name == "folds" else 1, 2 if name == "degree" else np.inf)
    check_number("floor", floor, 0.0, 0.5, open_low=True)
    limit = 1.0 / floor if clip is None else clip
    check_number("clip", limit, 1.0)
    check_number("reward_range", reward_range, 0.0)
    check_number("penalty", penalty, 0.0, open_low=True)
    check_number("most_rows", most_rows, 10)
    x, ran, ref = _checked(features, arm, n_arms, reference)
    k = int(n_arms)
    own = None if propensity is None else _own(propensity, ran, k)
    at_reference = _given("reference_propensity", reference_propensity, (ref.shape[0], k))
    if own is None or at_reference is None:
        estimated, there = _estimated(x, ran, k, ref, (folds, penalty, degree, most_rows))
        own = estimated if own is None else own
        at_reference = there if at_reference is None else at_reference

    is_arm = ran >= 0
    place = np.where(is_arm, ran, k)
    n = np.bincount(place, minlength=k + 1)[:k]
    raw = np.where(is_arm, 1.0 / np.where(is_arm, own, 1.0), 0.0)
    weights = np.minimum(raw, limit)
    clipped = np.bincount(place, raw > limit * (1.0 + 1e-12), k + 1)[:k]
    outside, distance2 = _ellipsoids(x, place, k, ref)
    kept = np.minimum(1.0, limit * at_reference)
    mean = kept.mean(axis=0)
    gap = kept / np.where(mean > 0, mean, 1.0) - 1.0
    variation = np.where((mean > 0) & (n > 0), 0.5 * np.abs(gap).mean(axis=0), 1.0)
    variation = np.maximum(variation, _moved(raw, weights, place, k))
    uncovered = np.where(n > 0, (at_reference < floor).mean(axis=0), 1.0)
    ess = _effective(raw, place, k)
    found = Overlap(
        n,
        ess,
        _effective(weights, place, k),
        n / (1.0 + distance2),
        uncovered,
        outside,
        clipped / np.maximum(n, 1),
        reward_range * variation,
        weights,
        np.where(is_arm, own, np.nan),
        float(limit),
        (),
    )
    return _with_sentences(found, names, floor)


def _with_sentences(found: Overlap, names: Sequence[str] | None, floor: float) -> Overlap:
    k = found.n.size
    named = [f"Arm {a}" for a in range(k)] if names is None else [str(name) for name in names]
    if len(named) != k:
        raise InvalidInput(f"names: expected {k}, got {len(named)}")
    told = []
    for a, name in enumerate(named):
        if found.n[a] == 0:
            told.append(f"{name} was never tried.")
            continue
        said = f"{name} ran in {found.n[a]:,} rows, worth {found.ess[a]:,.0f} under weights"
        if found.uncovered[a] > 0:
            share = f"{100 * found.uncovered[a]:.3g} %"
            said += f"; its chance was below {100 * floor:g} % in {share} of the contexts"
        if found.outside[a] > 1.0 - _ELLIPSOID:
            said += f"; {100 * found.outside[a]:.3g} % of the contexts lie outside of those it met"
        if found.clipped_share[a] > 0:
            bound = found.bias_bound[a]
            share = f"{100 * found.clipped_share[a]:.3g} %"
            said += f"; {share} of its weights were clipped at {found.clip:g}"
            said += f", which moves the weighted mean of these rows by at most {bound:.2g}"
        told.append(said + ".")
    parts = {name: getattr(found, name) for name in Overlap.__slots__ if name != "says"}
    return Overlap(**parts, says=tuple(told))


def _effective(weights: Array, place: Array, k: int) -> Array:
    """Return (Σw)²/Σw² of every arm (K,), 0 without rows."""
    total = np.bincount(place, weights, k + 1)[:k]
    square = np.bincount(place, weights**2, k + 1)[:k]
    return np.where(square > 0, total**2 / np.where(square > 0, square, 1.0), 0.0)


def _moved(raw: Array, clipped: Array, place: Array, k: int) -> Array:
    """Return the total variation between an arm's weights as they are and clipped: (K,).

    >>> raw, clipped = np.array([10.0, 10.0, 1.0, 1.0]), np.array([5.0, 5.0, 1.0, 1.0])
    >>> _moved(raw, clipped, np.zeros(4, dtype=int), 1).round(6).tolist()  # 10/11 − 5/6
    [0.075758]
    """
    total, cut = (np.bincount(place, part, k + 1) for part in (raw, clipped))
    own, less = (
        part / np.where(whole[place] > 0, whole[place], 1.0)
        for part, whole in ((raw, total), (clipped, cut))
    )
    return np.asarray(0.5 * np.bincount(place, np.abs(own - less), k + 1)[:k])


def _ellipsoids(x: Array, place: Array, k: int, ref: Array) -> tuple[Array, Array]:
    """Return the share of the reference outside of each arm's contexts, and D² of its mean.

    An arm's covariance is drawn to that of all rows by p + 2 rows: few rows do not look flat. The
    limit is the 99 % quantile of χ² or of the arm's own distances, whichever is larger.
    """
    from scipy.special import chdtri

    p = x.shape[1]
    middle, size = x.mean(axis=0), x.std(axis=0)
    size = np.where(size > 1e-12 * (1.0 + np.abs(middle)), size, 1.0)
    z, away = (x - middle) / size, (ref - middle) / size
    pooled = z.T @ z / z.shape[0] + 1e-9 * np.eye(p)
    share, distance2 = np.ones(k), np.full(k, np.inf)
    usual = float(chdtri(p, 1.0 - _ELLIPSOID))
    for a in range(k):
        own = z[place == a]
        if own.shape[0] == 0:
            continue
        mean = own.mean(axis=0)
        centred = own - mean
        scatter = centred.T @ centred + (p + 2.0) * pooled
        root = np.linalg.cholesky(scatter / (own.shape[0] + p + 2.0))
        far, inner = (
            (np.linalg.solve(root, (part - mean).T) ** 2).sum(axis=0) for part in (away, own)
        )
        limit = max(usual, float(np.quantile(inner, _ELLIPSOID)))
        share[a] = (far > limit).mean()
        distance2[a] = (np.linalg.solve(root, away.mean(axis=0) - mean) ** 2).sum()
    return share, distance2


def _estimated(
    x: Array, ran: Array, k: int, ref: Array, how: tuple[int, float, int, int]
) -> tuple[Array, Array]:
    """Return P(a | x) of the arm that ran (N,), cross-fitted, and of all at the reference (M, K).

    Rows without an arm are a choice of their own.
    """
    from gdcb.analysis.off_policy.behaviour_models import multinomial_fit

    folds, penalty, degree, most = how
    seen, place = np.unique(np.where(ran >= 0, ran, k), return_inverse=True)
    place = place.reshape(-1)
    rows = np.arange(x.shape[0])
    used = rows if rows.size <= most else np.linspace(0, rows.size - 1, int(most)).astype(np.int64)
    middle, size = x.mean(axis=0), x.std(axis=0)
    size = np.where(size > 1e-12 * (1.0 + np.abs(middle)), size, np.inf)
    phi, there = (_columns((part - middle) / size, degree) for part in (x, ref))
    at_reference = np.zeros((ref.shape[0], k + 1))
    if seen.size == 1:
        at_reference[:, seen] = 1.0
        return np.ones(rows.size), at_reference[:, :k]
    start = multinomial_fit(phi[used], place[used], seen.size, penalty)
    at_reference[:, seen] = _shares(there @ start)
    # Turns within a choice, so that every fold has all of them.
    fold = np.empty(rows.size, dtype=np.int64)
    fold[np.argsort(place, kind="stable")] = rows % int(folds)
    own = np.empty(rows.size)
    for out in range(int(folds)):
        rest, held = used[fold[used] != out], fold == out
        weights = multinomial_fit(phi[rest], place[rest], seen.size, penalty, start)
        own[held] = _shares(phi[held] @ weights)[np.arange(int(held.sum())), place[held]]
    return np.maximum(own, np.finfo(float).tiny), at_reference[:, :k]


def _columns(z: Array, degree: int) -> Array:
    parts = [np.ones((z.shape[0], 1)), z]
    if degree == 2:
        first, second = np.triu_indices(z.shape[1])
        parts.append(z[:, first] * z[:, second])
    return np.concatenate(parts, axis=1)


def _shares(odds: Array) -> Array:
    share = np.exp(odds - odds.max(axis=1, keepdims=True))
    return np.asarray(share / share.sum(axis=1, keepdims=True))


def _own(propensity: Any, ran: Array, k: int) -> Array:
    """Return P(a | x) of the arm that ran, 1 where none did."""
    n = ran.size
    given = np.asarray(propensity, dtype=float)
    if given.shape == (n, k):
        given = given[np.arange(n), np.maximum(ran, 0)]
    if given.shape != (n,):
        raise InvalidInput(f"propensity: expected ({n},) or ({n}, {k}), got {given.shape}")
    own = np.where(ran >= 0, given, 1.0)
    if not ((own > 0) & (own <= 1)).all():
        raise InvalidInput("propensity: expected numbers > 0 and <= 1 of the arms that ran")
    return own


def _given(name: str, values: Any, shape: tuple[int, int]) -> Array | None:
    if values is None:
        return None
    found = np.asarray(values, dtype=float)
    if found.shape != shape or not ((found >= 0) & (found <= 1)).all():
        raise InvalidInput(f"{name}: expected {shape} numbers from 0 to 1, got {found.shape}")
    return found


def _checked(features: Any, arm: Any, n_arms: int, reference: Any) -> tuple[Array, Array, Array]:
    x, ref, ran = np.asarray(features, float), np.asarray(reference, float), np.asarray(arm)
    if x.ndim != 2 or 0 in x.shape or not np.isfinite(x).all():
        raise InvalidInput(f"features: expected finite numbers (N, p), both >= 1, got {x.shape}")
    if ref.ndim != 2 or ref.shape[0] == 0 or ref.shape[1] != x.shape[1]:
        raise InvalidInput(f"reference: expected (M, {x.shape[1]}), M >= 1, got {ref.shape}")
    if not np.isfinite(ref).all():
        raise InvalidInput("reference: expected finite numbers")
    if ran.shape != (x.shape[0],) or ran.dtype.kind not in "iu":
        raise InvalidInput(f"arm: expected {x.shape[0]} whole numbers, got {ran.dtype} {ran.shape}")
    if (ran < -1).any() or (ran >= n_arms).any():
        raise InvalidInput(f"arm: expected numbers from -1 to {n_arms - 1}")
    return x, ran.astype(np.int64), ref
