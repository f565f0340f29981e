"""A model in which arm values and θ are learned from the same rows, with closed estimators.

    r = v(a) + θ·φ(x) + ε,   φ(x) = ρ·s(a) + √(1 − ρ²)·z,

s the standardised arm scores, z and ε standard normal. φ has mean 0 and variance 1 over the
reference, so ‖δ_θ̂ − δ*‖ in L²(reference) is |θ̂ − θ*|. ρ² is the cross-information of arm values
and θ under uniform arms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array

SHARE = 0.9  # of replicates that must have reached ε
_CHUNK = 250  # replicates at a time, so that rows never fill the memory


@dataclass(frozen=True)
class Settings:
    """Size of the experiment.

    Parameters
    ----------
    replicates : independent logs
    n_max : rows a log
    values : v(a), in units of the noise σ = 1
    theta : θ*
    rhos : the design's knob
    epsilons : ε, in units of σ
    n_hist : rows of history, the paper's 1,461 nights
    """

    replicates: int = 3000
    n_max: int = 6000
    values: tuple[float, ...] = (-0.68, -0.34, 0.0, 0.34, 0.68)
    theta: float = 0.5
    rhos: tuple[float, ...] = (0.0, 0.5, 0.8, 0.95)
    epsilons: tuple[float, ...] = (0.1, 0.14, 0.2, 0.28, 0.4)
    n_hist: int = 1461

    @property
    def grid(self) -> Array:
        """Sizes n at which estimators are looked at, each about 4 % above the last."""
        steps = np.geomspace(12, self.n_max, int(np.log(self.n_max / 12) / np.log(1.04)) + 1)
        return np.unique(np.round(steps).astype(np.int64))

    @property
    def scores(self) -> Array:
        """s(a): the arms' positions, with mean 0 and variance 1 under uniform arms."""
        place = np.arange(len(self.values)) - (len(self.values) - 1) / 2
        scores: Array = place / place.std()
        return scores


@dataclass(slots=True)
class Sums:
    """Running sums (R, G, K) by arm: rows, z, z², ε, z·ε; all that any ρ and estimator needs."""

    n: Array
    z: Array
    zz: Array
    e: Array
    ze: Array


def sums_of(rng: np.random.Generator, share: Array, sizes: Array, replicates: int) -> Sums:
    """Draw `replicates` logs with arms of these shares (K,) and return their sums at `sizes`."""
    k, n_max, edges = share.size, int(sizes[-1]), np.concatenate(([0], sizes[:-1]))
    found: list[list[Array]] = []
    for start in range(0, replicates, _CHUNK):
        shape = (min(_CHUNK, replicates - start), n_max)
        arm = np.searchsorted(np.cumsum(share)[:-1], rng.random(shape), side="right")
        z, e = rng.standard_normal(shape), rng.standard_normal(shape)
        columns = (np.ones(shape), z, z * z, e, z * e)
        by_arm = [
            [np.add.reduceat(column * (arm == a), edges, axis=1).cumsum(axis=1) for a in range(k)]
            for column in columns
        ]
        found.append([np.stack(arms, axis=-1) for arms in by_arm])
    return Sums(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


@dataclass(slots=True)
class Moments:
    """Sums by arm under one ρ: rows, φ, ε (R, G, K) and, over all arms, φ², φ·ε (R, G)."""

    n: Array
    phi: Array
    e: Array
    squared: Array
    score: Array

    @staticmethod
    def of(sums: Sums, scores: Array, rho: float) -> Moments:
        """Put the feature φ = ρ·s + √(1 − ρ²)·z in place of z."""
        level, spread = rho * scores, np.sqrt(1.0 - rho**2)
        squared = level**2 * sums.n + 2 * level * spread * sums.z + spread**2 * sums.zz
        return Moments(
            sums.n,
            level * sums.n + spread * sums.z,
            sums.e,
            squared.sum(axis=-1),
            (level * sums.e + spread * sums.ze).sum(axis=-1),
        )

    def plus(self, other: Moments) -> Moments:
        """Return the moments of both logs."""
        return Moments(
            self.n + other.n,
            self.phi + other.phi,
            self.e + other.e,
            self.squared + other.squared,
            self.score + other.score,
        )


@dataclass(slots=True)
class Errors:
    """Per replicate and size: the recommended arm's gap, and |θ̂ − θ*|; (R, G) each."""

    gap: Array
    theta: Array


def gap_of(values: Array, error: Array, n: Array) -> Array:
    """Return v* − v(â) of the arm â whose estimate is largest; an arm never run is not picked."""
    estimate = np.where(n > 0, values + error, -np.inf)
    return np.asarray(values.max() - values[estimate.argmax(axis=-1)])


def known(moments: Moments, values: Array) -> Errors:
    """Return the errors of each loop where the other's parameters are known."""
    safe = np.maximum(moments.n, 1.0)
    return Errors(
        gap_of(values, moments.e / safe, moments.n), np.abs(moments.score / moments.squared)
    )


def joint(moments: Moments, values: Array) -> Errors:
    """Return the errors of least squares on arms and θ together."""
    safe = np.maximum(moments.n, 1.0)
    mean = moments.phi / safe
    spread = moments.squared - (mean * moments.phi).sum(axis=-1)
    theta = (moments.score - (mean * moments.e).sum(axis=-1)) / spread
    return Errors(
        gap_of(values, (moments.e - theta[..., None] * moments.phi) / safe, moments.n),
        np.abs(theta),
    )


def apart(moments: Moments, values: Array, theta: float) -> Errors:
    """Return the errors where each loop reads rewards as if the other did not exist.

    This is what the paper's kernels do: the bandit reads (a, r), the scaler (x, r).
    """
    n, total = moments.n, moments.n.sum(axis=-1)
    safe = np.maximum(n, 1.0)
    by_arm = moments.e + theta * moments.phi  # r − v(a), summed by arm
    phi, level = moments.phi.sum(axis=-1), (values * n).sum(axis=-1)
    reward = level + by_arm.sum(axis=-1)
    cross = (values * moments.phi).sum(axis=-1) + theta * moments.squared + moments.score
    slope = (cross - phi * reward / total) / (moments.squared - phi**2 / total)
    return Errors(gap_of(values, by_arm / safe, n), np.abs(slope - theta))


def protected(moments: Moments, scores: Array, rho: float, wrong: float) -> dict[str, float]:
    """Compare θ̂ with arm values plugged in and with orthogonal scores, where these are wrong.

    The values that θ̂ is given are off by wrong·s(a). Plugged in, θ̂ = Σ φ(r − v)/Σ φ²; orthogonal,
    φ is replaced by φ − E[φ | a]. Biases and the ratio of variances, at the largest n.
    """
    off, at = wrong * scores, -1
    plugged = (moments.score - (off * moments.phi).sum(axis=-1)) / moments.squared
    centre = rho * scores
    own = moments.phi - centre * moments.n
    score = moments.score - (centre * moments.e).sum(axis=-1) - (off * own).sum(axis=-1)
    spread = moments.squared - (centre * moments.phi).sum(axis=-1)
    orthogonal = score / spread
    right = moments.score / moments.squared
    return {
        "bias_plugged_in": float(plugged[:, at].mean()),
        "bias_orthogonal": float(orthogonal[:, at].mean()),
        "error_orthogonal": float(orthogonal[:, at].std() / np.sqrt(orthogonal.shape[0])),
        "variance_ratio": float(orthogonal[:, at].var() / right[:, at].var()),
    }


def reached(errors: Array, sizes: Array, epsilon: float, share: float = SHARE) -> float:
    """Return the smallest size from which on the quantile stays at most ε; infinity: never.

    >>> errors = np.array([[3.0, 1.0, 2.0, 1.0]])
    >>> reached(errors, np.array([10, 20, 30, 40]), 1.5)
    40.0
    """
    # The quantile is at most ε where at least this share of replicates is.
    within = (errors <= epsilon + 1e-12).mean(axis=0) >= share
    if not within[-1]:
        return float("inf")
    outside = np.flatnonzero(~within)
    return float(sizes[outside[-1] + 1] if outside.size else sizes[0])


def needed(errors: list[Array], sizes: Array, epsilon: float) -> dict[str, float]:
    """Return N(ε) of the slowest of several errors, and what it is at the limits of the quantile.

    The share of replicates within ε is a binomial: two standard errors of it make the limits.
    """
    half = 2.0 * np.sqrt(SHARE * (1.0 - SHARE) / errors[0].shape[0])
    shares = {"n": SHARE, "low": SHARE - half, "high": SHARE + half}
    return {
        name: max(reached(one, sizes, epsilon, share) for one in errors)
        for name, share in shares.items()
    }


def information(share: Array, scores: Array, rho: float) -> Array:
    """Return the Fisher information of one row, (K + 1, K + 1), arm values first; σ = 1."""
    k = share.size
    out = np.zeros((k + 1, k + 1))
    out[range(k), range(k)] = share
    out[:k, k] = out[k, :k] = share * rho * scores
    out[k, k] = (share * (rho * scores) ** 2).sum() + 1.0 - rho**2
    return out
