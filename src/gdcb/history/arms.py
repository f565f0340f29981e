"""Bias of the contexts of every arm, adjusted sums, and outcomes missing by arm, from sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.analysis.bias import ContextBias, freedom_of, weighed
from gdcb.analysis.context_models import Line, line_through
from gdcb.analysis.resampled import resampled_p
from gdcb.analysis.slopes import Moments
from gdcb.arrays import Array
from gdcb.history.plan import FOLDS
from gdcb.history.stability import SEED

PENALTY = 1.0
_MANY = 5.0  # rows·rate·(1 − rate), from which a count is nearly normal
POOLINGS = (1000.0, 100.0, 20.0, 4.0, 1.0)  # rows that the common slope may be worth
_MOST_IN_A_FOLD = 0.5  # of an arm's rows; the others would not tell its slope


@dataclass(slots=True)
class ArmSums:
    """Moments of every arm by fold, about the arm's own mean, and where that mean is.

    Parameters
    ----------
    by_fold : moments (F, 1, K, …) of regressors and outcome about `mean` and `level`
    mean, level : (K, p) and (K,) of regressors and outcome
    """

    by_fold: Moments
    mean: Array
    level: Array

    @property
    def n(self) -> Array:
        """Rows of every arm (K,), as weighed."""
        return np.asarray(self.by_fold.n.sum(axis=0)[0])

    @property
    def square(self) -> Array:
        """Σw(y − ȳ)² of every arm: (K,)."""
        return np.asarray(np.maximum(self.by_fold.square.sum(axis=0)[0], 0.0))


def arm_sums(moments: Array, overrides: float, first: int = 0) -> ArmSums:
    """Return the arms' moments by fold, from segments (S, K + 1, 2, q, q) from `first` on.

    Overridden rows weigh `overrides`. Segments take turns as folds. An arm of which one fold has
    most rows, as where all rows have the same time, is spread evenly over all folds: its slope is
    then that of all its rows, which is not cross-fitted, but not unknown either.
    """
    k = moments.shape[1] - 1
    both = moments[first:, :k, 0] + overrides * moments[first:, :k, 1]
    folds = np.stack([both[f::FOLDS].sum(axis=0) for f in range(FOLDS)])  # (F, K, q, q)
    rows = folds[..., 0, 0]
    is_lumped = rows.max(axis=0) > _MOST_IN_A_FOLD * rows.sum(axis=0)
    folds = np.where(is_lumped[:, None, None], folds.mean(axis=0), folds)
    n, total = folds[..., 0, 0], folds[..., 0, 1:]
    size = n.sum(axis=0)
    mean = total.sum(axis=0) / np.where(size > 0, size, 1.0)[:, None]  # (K, p + 1), y last
    centred = folds[..., 1:, 1:] - mean[..., None] * total[..., None, :]
    centred -= (total - n[..., None] * mean)[..., None] * mean[..., None, :]
    moved = total - n[..., None] * mean
    parts = (
        n,
        moved[..., :-1],
        centred[..., :-1, :-1],
        centred[..., :-1, -1],
        moved[..., -1],
        np.maximum(centred[..., -1, -1], 0.0),
    )
    by_fold = Moments(*(part[:, None] for part in parts))
    return ArmSums(by_fold, mean[:, :-1], mean[:, -1])


def bias_of(sums: ArmSums, level: float, part: Array | None = None) -> tuple[ContextBias, Line]:
    """Return b̂ of every arm against contexts of mean φ = 0 and actions on the arm itself.

    With `part` it is that of the part z·part of the regressors, which a learner does not read.

    How far the arms' slopes are drawn to a common one is averaged over, by how well each line
    predicts the other folds, and the lines' disagreement is part of the error. With the best of
    them alone, intervals held b in a third of some kinds of logs and not in 95 %.
    """
    n = sums.n[None]
    freedom, off = freedom_of(n)[0], sums.mean[None]
    lines = [line_through(sums.by_fold, off, PENALTY, one, freedom, part) for one in POOLINGS]
    line = _averaged(lines, float(freedom[0]))
    error2 = line.error2 + line.met
    return weighed(line.bias, error2, n, sums.square[None], level), line


def _averaged(lines: list[Line], freedom: float) -> Line:
    """Average lines by their predictive likelihood exp(−left/(2σ²))."""
    left = np.array([float(line.left[0]) for line in lines])
    noise = max(left.min() / freedom, 1e-300)
    chance = np.exp(-0.125 * np.minimum((left - left.min()) / noise, 1400.0))
    chance /= chance.sum()

    def mean(parts: list[Array]) -> Array:
        return np.asarray(np.tensordot(chance, np.stack(parts), axes=1))

    bias = mean([line.bias for line in lines])
    error2 = mean([line.error2 + (line.bias - bias) ** 2 for line in lines])
    met, slopes = mean([line.met for line in lines]), mean([line.slopes for line in lines])
    return Line(bias, error2, met, slopes, mean([line.left for line in lines]))


def adjusted(sums: ArmSums, line: Line) -> tuple[Array, Array]:
    """Return Σw, Σwr̃, Σwr̃² of every arm (K, 3), and how far its rows count (K,).

    r̃ = y − θ̂_aᵀz, θ̂_a of the other folds, z the regressors (contexts have mean 0, an action on the
    arm itself has distance 0). An arm whose contexts lie far from the mean leans on the slope, and
    counts as n_eff = σ²/(σ²/n + error²) rows.
    """
    n, phi, gram, cross, y, square = (part[:, 0] for part in sums.by_fold)
    theta, mean, level = line.slopes[:, 0], sums.mean, sums.level
    # About 0 rather than about the arm's mean.
    total = y + n * level
    raw_phi = phi + n[..., None] * mean
    first = total - (raw_phi * theta).sum(axis=-1)
    # Σ(u + c)² with u = (y − ȳ) − θᵀ(z − z̄) and c = ȳ − θᵀz̄
    inner = square - 2.0 * (theta * cross).sum(axis=-1)
    inner += (theta[..., None, :] @ gram @ theta[..., None])[..., 0, 0]
    moved = y - (phi * theta).sum(axis=-1)
    constant = level - (mean * theta).sum(axis=-1)
    second = inner + 2.0 * constant * moved + n * constant**2
    sums3 = np.stack((n.sum(axis=0), first.sum(axis=0), second.sum(axis=0)), axis=-1)
    size = sums3[:, 0]
    some = np.where(size > 0, size, 1.0)
    within = np.maximum(sums3[:, 2] - sums3[:, 1] ** 2 / some, 0.0)
    noise = within.sum() / max(float((size - (size > 0)).sum()), 1.0)
    weight = 1.0 / (1.0 + size * line.error2[0] / max(noise, 1e-300))
    return sums3, weight


def missing_by_arm(seen: Array, level: float | None = None) -> tuple[float, float | None]:
    """Return the share of outcomes missing, and p of 'not by arm' within strata: (S, strata, K, 2).

    Σ (missing − n·rate)²/(n·rate·(1 − rate)) over arms and strata is chi-squared where many are
    missing everywhere. Else, if a `level` is given, it is compared with draws of the exact law:
    given how many are missing in a stratum, in which arms they are is hypergeometric. None where
    nothing is missing.
    """
    from scipy.special import chdtrc

    rows, missing = seen.sum(axis=0)[..., 0], seen.sum(axis=0)[..., 1]
    total = float(rows.sum())
    share = float(missing.sum()) / max(total, 1.0)
    if not missing.any():
        return 0.0, None
    of_stratum = rows.sum(axis=1, keepdims=True)
    rate = missing.sum(axis=1, keepdims=True) / np.where(of_stratum > 0, of_stratum, 1.0)
    noise = rows * rate * (1.0 - rate)
    is_judged = noise > 0
    freedom = int(np.maximum(is_judged.sum(axis=1) - 1, 0).sum())
    if not freedom:
        return share, None

    def excess(some: Array) -> Array:
        """Return the statistic of (strata, K, P) missing outcomes: (1, P)."""
        gap = (some - (rows * rate)[..., None]) ** 2 / np.where(is_judged, noise, 1.0)[..., None]
        return np.asarray(np.where(is_judged[..., None], gap, 0.0).sum(axis=(0, 1))[None])

    if level is None or noise[is_judged].min() >= _MANY:
        return share, float(chdtrc(freedom, float(excess(missing[..., None])[0, 0])))
    rng, whole = np.random.default_rng(SEED), rows.round().astype(np.int64)

    def draw(n: int) -> Array:
        out = np.zeros((*rows.shape, n))
        for s in np.flatnonzero(missing.sum(axis=1)):
            count = int(missing[s].sum().round())
            out[s] = rng.multivariate_hypergeometric(whole[s], count, n, method="marginals").T
        return out

    return share, resampled_p(excess, missing[..., None], draw, level, rows.size)[0]
