"""Approved rows against overridden ones, at equal action and context.

Within an arm y = v + θᵀz + d·[overridden]. The difference d̂ of all arms together weighs each arm
by its rows alone, never by the variance of its few overridden ones: of rare outcomes, an arm
without a success would look as if it were known best. Where too few rows decide, p comes from
residuals that are shuffled within an arm between rows of about the same fitted value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.analysis.resampled import events, in_bands, resampled_p, shuffled
from gdcb.arrays import Array
from gdcb.contrast import chance_of_none
from gdcb.history.stability import SEED, LawRows, kurtosis

PENALTY = 1.0
EVEN = 0.5  # odds: a posterior below it speaks for private information
_EXACT = 1e-12  # of Σy²: residuals smaller than that are rounding
_PRIOR_ROWS = 10.0  # normal ones, that the other variances are worth beside an arm's own
_FEW = 200.0  # degrees of freedom of a variance, below which a normal reference is not believed


@dataclass(frozen=True, slots=True)
class Contrast:
    """Approved against overridden rows at equal action and context.

    Parameters
    ----------
    posterior : that overrides carry no private information
    difference, low, high : overridden − approved, pooled over arms, with a 95 % interval
    p : of no difference in any arm
    approved, overridden : rows
    """

    posterior: float
    difference: float
    low: float
    high: float
    p: float
    approved: float
    overridden: float

    def is_private(self, threshold: float) -> bool | None:
        """Whether overrides carry private information; None: test and posterior do not agree."""
        is_found, is_likely = self.p <= threshold, self.posterior < EVEN
        return is_found if is_found == is_likely else None


@dataclass(frozen=True, slots=True)
class _Design:
    """Rows of J arms, approved and overridden, without their outcomes.

    Parameters
    ----------
    n : (J, 2) rows
    middle : (J, 2, p) mean of the regressors behind the level
    gram : (J, 2, p, p) of the regressors about that mean
    prior : how many rows the variances of the other arms and of the other status are worth
    """

    n: Array
    middle: Array
    gram: Array
    prior: float

    @property
    def inverse(self) -> Array:
        """Return the inverse of the gram matrix of both statuses: (J, p, p)."""
        return np.linalg.inv(self.gram.sum(axis=1) + PENALTY * np.eye(self.gram.shape[-1]))

    @property
    def apart(self) -> Array:
        """Return by how much contexts of overridden rows differ: (J, p)."""
        return np.asarray(self.middle[:, 1] - self.middle[:, 0])

    @property
    def moved(self) -> Array:
        """Return the variance that the slopes add to a difference, in σ²: (J,)."""
        return np.asarray((self.apart[:, None] @ self.inverse @ self.apart[..., None])[:, 0, 0])

    @property
    def weight(self) -> Array:
        """Return 1/variance of each arm's difference, in σ², if all rows vary alike: (J,)."""
        return np.asarray(1.0 / ((1.0 / self.n).sum(axis=1) + self.moved))


@dataclass(frozen=True, slots=True)
class _Differences:
    """Overridden − approved in each arm: d (J, P), its variance (J, P), and σ² of all (P,)."""

    design: _Design
    d: Array
    variance: Array
    noise: Array

    @property
    def pooled(self) -> Array:
        """Return the difference of all arms: (P,)."""
        weight = self.design.weight[:, None]
        return np.asarray((weight * self.d).sum(axis=0) / weight.sum())

    @property
    def pooled_variance(self) -> Array:
        """Return the variance of `pooled`: (P,)."""
        weight = self.design.weight[:, None]
        return np.asarray((weight**2 * self.variance).sum(axis=0) / weight.sum() ** 2)

    def sizes(self) -> Array:
        """Return |difference of all arms|/sd, and Σd²/variance: (2, P)."""
        shared = np.abs(self.pooled) / np.sqrt(self.pooled_variance)
        return np.stack((shared, (self.d**2 / self.variance).sum(axis=0)))


def contrast_of(
    moments: Array, rows: LawRows | None = None, level: float = 0.05
) -> Contrast | None:
    """Compare approved and overridden rows, arm by arm, what context explains taken off.

    One test for a difference that all arms share and one for any difference at all share the
    error rate. None where no arm has enough rows of both.

    Parameters
    ----------
    moments : (S, K + 1, 2, q, q) as in `Statistics`
    rows : of the log or of a sample, for a reference where few rows decide; None: normal tails
    level : at which p is judged; more shuffles are drawn for a smaller one
    """
    from scipy.special import chdtrc, ndtr, stdtrit

    sums = moments[:, :-1].sum(axis=0)  # (K, 2, q, q)
    judged, prior = judged_arms(moments), _PRIOR_ROWS
    if rows is not None:  # a sample of a large log may lack an arm
        seen = np.bincount(rows.block, minlength=2 * sums.shape[0]).reshape(-1, 2)
        judged = judged[(seen[judged] > 0).all(axis=1)]
        rows = rows.take(np.flatnonzero(np.isin(rows.block // 2, judged)))
    if not judged.size:
        return None
    if rows is not None:
        prior *= max(0.5 * (kurtosis(rows) - 1.0), 1.0)
    at = _differences(sums[judged], prior)
    pooled, variance = float(at.pooled[0]), float(at.pooled_variance[0])
    shared, apart = at.sizes()[:, 0].tolist()
    p = min(1.0, 2.0 * min(2.0 * float(ndtr(-shared)), float(chdtrc(judged.size, apart))))
    quantile = 1.959964
    if rows is not None:
        all_arms, least = _freedom(rows, at.design, judged)
        quantile = float(stdtrit(max(all_arms, 1.0), 0.975))
        if least < _FEW:
            own = _shuffled(rows, judged, prior, level)
            p = own if rows.share == 1.0 else max(p, own)
    half = quantile * variance**0.5
    s2, weight = float(at.noise[0]), at.noise[0] / at.variance[:, 0]
    total = s2 / variance
    posterior = chance_of_none(
        np.array(total),
        np.array(total * pooled),
        np.array(0.5 * np.log1p(weight).sum()),
        np.array((at.d[:, 0] ** 2 * weight**2 / (1.0 + weight)).sum()),
        np.array(s2),
    )
    n = sums[..., 0, 0].sum(axis=0).tolist()
    return Contrast(float(posterior), pooled, pooled - half, pooled + half, p, n[0], n[1])


def judged_arms(moments: Array) -> Array:
    """Return the arms with enough rows of both statuses to be compared."""
    n = moments[:, :-1, :, 0, 0].sum(axis=0)
    p = moments.shape[-1] - 2
    return np.flatnonzero((n >= 2).all(axis=1) & (n.sum(axis=1) > p + 4))


def _differences(sums: Array, prior: float) -> _Differences:
    """Return the differences of judged arms from their sums (J, 2, q, q)."""
    n, p = sums[..., 0, 0], sums.shape[-1] - 2
    mean = sums[..., 0, 1:] / n[..., None]
    centred = sums[..., 1:, 1:] - n[..., None, None] * mean[..., :, None] * mean[..., None, :]
    design = _Design(n, mean[..., :p], centred[..., :p, :p], prior)
    exact = _EXACT * float(sums[..., -1, -1].sum()) / float(n.sum())
    parts = (mean[..., p:], centred[..., :p, p:], centred[..., p, p:])
    return _compared(design, *parts, max(exact, 1e-300))


def _compared(
    design: _Design, mean: Array, cross: Array, square: Array, exact: float
) -> _Differences:
    """Compare P outcomes: their mean (J, 2, P), Σ(z − z̄)y (J, 2, p, P) and Σ(y − ȳ)² (J, 2, P).

    The variance of an arm and status is drawn to what the arm's other rows and the other arms'
    rows of the same status say: overridden rows may be few and of another spread.
    """
    n, gram, prior = design.n[..., None], design.gram, design.prior
    theta = design.inverse @ cross.sum(axis=1)  # (J, p, P)
    d = mean[:, 1] - mean[:, 0] - (design.apart[..., None] * theta).sum(axis=1)
    bent = gram @ theta[:, None] - 2.0 * cross
    size, p = n.sum(axis=1), gram.shape[-1]
    lost = (size - 2.0) / np.maximum(size - p - 2.0, 1.0)  # for what the slopes took
    left = np.maximum(square + (theta[:, None] * bent).sum(axis=2), 0.0) * lost[:, None]
    free = n - 1.0
    common = np.maximum(left.sum(axis=(0, 1)) / free.sum(), exact)
    arm = (left.sum(axis=1) + prior * common) / (free.sum(axis=1) + prior)
    ratio = ((left / arm[:, None]).sum(axis=0) + prior) / (free.sum(axis=0) + prior)
    noise = (left + prior * arm[:, None] * ratio) / (free + prior)
    variance = (noise / n).sum(axis=1) + noise.max(axis=1) * design.moved[:, None]
    return _Differences(design, d, variance, common)


def _freedom(rows: LawRows, design: _Design, judged: Array) -> tuple[float, float]:
    """Return the degrees of freedom of the variance of all arms' difference, and the least of one.

    A variance is known as well as that of 2/(1/e − 1/e₀) normal rows, e = (Σc²)²/Σc⁴ of the rows'
    shares c·r in the difference, and e₀ the same without their residuals r.
    """
    left, _ = _residuals(rows)
    arm = np.searchsorted(judged, rows.block // 2)
    share = np.sqrt(rows.weight) / design.n[arm, rows.block % 2]

    def known(share: Array) -> float:
        told, alike = events(np.stack((share * left, share), axis=1)).tolist()
        gap = 1.0 / max(told, 1e-12) - 1.0 / max(alike, 1e-12)
        return 2.0 / max(float(gap), 1e-9)

    one = [known(np.where(arm == a, share, 0.0)) for a in range(judged.size)]
    return known(design.weight[arm] * share), min(one)


def _residuals(rows: LawRows) -> tuple[Array, Array]:
    """Return √weight × what is left of outcomes, and their fit: (N,) each, by arm alone."""
    root, arm = np.sqrt(rows.weight), rows.block // 2
    left, fitted = np.zeros(rows.y.size), np.zeros(rows.y.size)
    ridge = PENALTY * np.eye(rows.z.shape[1])
    ridge[0, 0] = 0.0
    for a in np.unique(arm):
        here = np.flatnonzero(arm == a)
        z = root[here, None] * rows.z[here]
        theta = np.linalg.solve(z.T @ z + ridge, z.T @ (root[here] * rows.y[here]))
        fitted[here] = rows.z[here] @ theta
        left[here] = root[here] * (rows.y[here] - fitted[here])
    return left, fitted


def _shuffled(rows: LawRows, judged: Array, prior: float, level: float) -> float:
    """Return p of the differences among residuals that were shuffled within arms."""
    left, fitted = _residuals(rows)
    arm, root = rows.block // 2, np.sqrt(rows.weight)
    place = np.zeros(int(judged.max()) + 1, dtype=np.int64)
    place[judged] = np.arange(judged.size)
    at = place[arm] * 2 + rows.block % 2
    order = np.argsort(at, kind="stable")
    parts = np.split(order, np.searchsorted(at[order], np.arange(1, 2 * judged.size)))
    z = root[:, None] * rows.z[:, 1:]
    shape = (judged.size, 2)

    def by_part(of: list[Array]) -> Array:
        return np.stack(of).reshape(*shape, *of[0].shape)

    n = by_part([rows.weight[part].sum() for part in parts])
    middle = by_part([root[part] @ z[part] for part in parts]) / n[..., None]
    flat = middle.reshape(-1, z.shape[1])
    centred = [z[part] - root[part, None] * flat[i] for i, part in enumerate(parts)]
    gram = by_part([one.T @ one for one in centred])
    design = _Design(n, middle, gram, prior)

    def largest(values: Array) -> Array:
        mean = by_part([root[part] @ values[part] for part in parts]) / n[..., None]
        cross = by_part([one.T @ values[part] for one, part in zip(centred, parts, strict=True)])
        square = by_part([(values[part] ** 2).sum(axis=0) for part in parts])
        square = np.maximum(square - n[..., None] * mean**2, 0.0)
        return _compared(design, mean, cross, square, 1e-300).sizes()

    rng, group = np.random.default_rng(SEED), in_bands(fitted, arm)
    p, _ = resampled_p(
        largest, left[:, None], lambda k: shuffled(left, group, k, rng), level, left.size
    )
    return p
