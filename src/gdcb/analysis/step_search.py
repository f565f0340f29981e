"""Sums of time segments, and the search for steps of a regression's coefficients in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gdcb.analysis.bridge_tail import bridge_tail
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import check_number

_SHOWN = 1e-10  # of a direction's information: less is rounding
_EXACT = 1e-12  # of Σy²: residuals smaller than that are rounding
_PRIOR_ROWS = 30.0  # that the common variance is worth beside a segment's own
_ROUNDS = 2  # of dating each change again, given the others

Step = tuple[int, int]  # direction, and segments before the change
# From the search and the steps in it: p of the next one by resampling, and its direction; None
# where the normal reference is good.
Confirm = Callable[["StepSearch", Sequence[Step]], tuple[float, int] | None]


@dataclass(frozen=True, slots=True)
class SegmentSums:
    """Sums over the rows of S segments in the order of time, of a regression y = zᵀθ + u.

    Parameters
    ----------
    n : (S,) rows
    gram : (S, d, d) Σ zzᵀ
    cross : (S, d) Σ zy
    square : (S,) Σ y²
    meat : (S, d, d) Σ û²zzᵀ of residuals û of a first pass, or None
    """

    n: Array
    gram: Array
    cross: Array
    square: Array
    meat: Array | None = None

    @staticmethod
    def of_rows(z: Array, y: Array, n_segments: int = 100) -> SegmentSums:
        """Return the sums of rows in the order of time, in segments of equal length.

        Parameters
        ----------
        z : (N, d) regressors
        y : (N,)
        n_segments : S, at most N
        """
        z, y = np.asarray(z, dtype=float), np.asarray(y, dtype=float)
        if z.ndim != 2 or y.shape != z.shape[:1] or y.size == 0:
            raise InvalidInput(
                f"z, y: expected (N, d) and (N,) with N >= 1, got {z.shape}, {y.shape}"
            )
        check_number("n_segments", n_segments, 1, y.size)
        starts = np.arange(int(n_segments)) * y.size // int(n_segments)
        gram = np.add.reduceat(z[:, :, None] * z[:, None, :], starts, axis=0)
        n = np.diff(np.append(starts, y.size)).astype(float)
        return SegmentSums(
            n,
            gram,
            np.add.reduceat(z * y[:, None], starts, axis=0),
            np.add.reduceat(y * y, starts),
        )


class StepSearch:
    """The sums cumulated, and what of them is in the regression already."""

    def __init__(
        self, sums: SegmentSums, h: Array, variance: str, trim: float, least_rows: float
    ) -> None:
        self.sums, self.h, self.variance, self.trim = sums, h, variance, trim
        self.kappa: Array = np.ones(h.shape[0])
        self.n = float(sums.n.sum())
        # Σ z·(zᵀh) and Σ (zᵀh)² of every segment.
        self.along = np.einsum("sij,kj->ski", sums.gram, h)
        self.own = np.maximum(np.einsum("ski,ki->sk", self.along, h), 0.0)
        self.level = sums.cross @ h.T
        count = sums.n[:, None]
        is_flag = ((np.abs(self.own - self.own.round()) < 1e-6) & (self.own <= count + 0.5)).all(0)
        rows = np.where(is_flag, self.own, count).cumsum(axis=0)
        share = self.own.cumsum(axis=0)
        whole = np.where(share[-1] > 0, share[-1], np.inf)
        share = share[:-1] / whole
        slack = 1e-9
        self.is_open = (share >= trim - slack) & (share <= 1.0 - trim + slack) & (share > 0)
        self.is_open &= (rows[:-1] >= least_rows) & (rows[-1] - rows[:-1] >= least_rows)
        self.share = share

    def fit(self, steps: Sequence[Step]) -> tuple[Array, ...]:
        """Return regressors by segment E (S, d, D), A⁻¹, θ̂, its covariance's meat, and Var/σ²."""
        sums, d = self.sums, self.sums.gram.shape[1]
        n_segments = sums.n.size
        extra = np.zeros((n_segments, d, 3 * len(steps)))
        for m, (k, split) in enumerate(steps):
            extra[:split, :, 3 * m] = self.h[k]
            extra[split - 1, :, 3 * m + 1] = self.h[k]
            extra[split, :, 3 * m + 2] = self.h[k]
        e = np.concatenate((np.broadcast_to(np.eye(d), (n_segments, d, d)), extra), axis=2)
        et = e.transpose(0, 2, 1)
        gram, cross = et @ sums.gram @ e, (et @ sums.cross[..., None])[..., 0]
        inverse, rank = _inverse(gram.sum(axis=0))
        theta = inverse @ cross.sum(axis=0)
        left = sums.square - 2.0 * cross @ theta + ((gram @ theta) * theta).sum(axis=1)
        left = np.maximum(left, 0.0)
        freedom = max(self.n - rank, 1.0)
        sigma2 = max(float(left.sum()), _EXACT * float(sums.square.sum())) / freedom
        if sums.meat is not None:
            meat = sums.meat * (self.n / freedom)
        elif self.variance == "common":
            meat = sigma2 * sums.gram
        else:
            local = (left * (self.n / freedom) + _PRIOR_ROWS * sigma2) / (sums.n + _PRIOR_ROWS)
            meat = local[:, None, None] * sums.gram
        return e, inverse, theta, meat, np.array(freedom)

    def scan(self, steps: Sequence[Step]) -> tuple[Array, Array, Array, Array]:
        """Return p (k,), the split of the largest, the largest, and |W|/sd (k, S − 1) of all."""
        e, inverse, theta, meat, freedom = self.fit(steps)
        et = e.transpose(0, 2, 1)
        mixed = np.einsum("sij,kj->ski", meat, self.h)
        own = np.einsum("ski,ki->sk", mixed, self.h).cumsum(axis=0)[:-1]
        ahead, mixed = ((part @ e).cumsum(axis=0)[:-1] for part in (self.along, mixed))
        w = self.level.cumsum(axis=0)[:-1] - ahead @ theta
        g = ahead @ inverse
        total = (et @ meat @ e).sum(axis=0)
        gt = g @ total
        var = own - 2.0 * (g * mixed).sum(axis=2) + (gt * g).sum(axis=2)
        near = own[:-1] - (g[:-1] * mixed[1:]).sum(axis=2) - (g[1:] * mixed[:-1]).sum(axis=2)
        near = near + (gt[:-1] * g[1:]).sum(axis=2)
        is_open = self._open(steps) & (var > _SHOWN * own[-1:]) & (own > 0)
        var = np.where(is_open, var, 1.0)
        size = np.where(is_open, np.abs(w), 0.0) / np.sqrt(var * self.kappa)
        rho = near / np.sqrt(var[:-1] * var[1:])
        top, place = size.max(axis=0), size.argmax(axis=0)
        tail = bridge_tail(_normal(top, float(freedom)), rho.T, is_open.T)
        is_judged = is_open.any(axis=0)
        p = np.where(is_judged, tail, np.nan)
        return p, place + 1, np.where(is_judged, top, np.nan), size.T

    def largest(self, steps: Sequence[Step]) -> Callable[[Array], Array]:
        """Return the map from other data's Σ zy (S, d, P) to their largest |W|/sd (k, P).

        The standard deviations stay those of the search's own data.
        """
        e, inverse, _, meat, _ = self.fit(steps)
        mixed = np.einsum("sij,kj->ski", meat, self.h)
        own = np.einsum("ski,ki->sk", mixed, self.h).cumsum(axis=0)[:-1]
        ahead, mixed = ((part @ e).cumsum(axis=0)[:-1] for part in (self.along, mixed))
        g = ahead @ inverse
        total = (e.transpose(0, 2, 1) @ meat @ e).sum(axis=0)
        var = own - 2.0 * (g * mixed).sum(axis=2) + ((g @ total) * g).sum(axis=2)
        is_open = self._open(steps) & (var > _SHOWN * own[-1:]) & (own > 0)
        scale = np.where(is_open, 1.0 / np.sqrt(np.where(is_open, var, 1.0) * self.kappa), 0.0)

        def of(cross: Array) -> Array:
            whole = np.einsum("sij,sip->jp", e, cross)
            level = np.einsum("kd,sdp->skp", self.h, cross).cumsum(axis=0)[:-1]
            return np.asarray((np.abs(level - g @ whole) * scale[..., None]).max(axis=0))

        return of

    def coefficients(self, steps: Sequence[Step]) -> Array:
        """Return the coefficients that hold in each segment, with the steps: (S, d)."""
        e, _, theta, _, _ = self.fit(steps)
        return np.asarray(e @ theta)

    def _open(self, steps: Sequence[Step]) -> Array:
        """Return where a further step may be (S − 1, k): away from those of the same direction."""
        is_open: Array = self.is_open.copy()
        for k, split in steps:
            apart = np.abs(self.share[:, k] - self.share[split - 1, k]) >= self.trim
            apart &= np.abs(np.arange(1, self.sums.n.size) - split) > 1
            is_open[:, k] &= apart
        return is_open

    def steps(
        self, level: float, most: int, n_judged: int, confirm: Confirm | None = None
    ) -> tuple[list[Step], float]:
        """Return the steps that stand out, one after another, each dated given the others.

        With `confirm`, a step must also stand out among resampled data. Also returned: the p of
        the first step that was asked for, 0 where none was.
        """
        steps: list[Step] = []
        first = 0.0
        while len(steps) < most:
            p, place, _, _ = self.scan(steps)
            if not np.isfinite(p).any():
                break
            # Where several p are 0 in this arithmetic, the statistic decides.
            best = self._strongest(steps, p)
            if n_judged * p[best] > level:
                break
            again = None if confirm is None else confirm(self, steps)
            if again is not None:
                best = again[1]
                first = first if steps else again[0]
                if again[0] > level:
                    break
            steps.append((best, int(place[best])))
        for _ in range(_ROUNDS if len(steps) > 1 else 0):
            for i in range(len(steps) - 1, -1, -1):
                others = steps[:i] + steps[i + 1 :]
                p, place, _, _ = self.scan(others)
                k = steps[i][0]
                if np.isfinite(p[k]) and n_judged * p[k] <= level:
                    steps[i] = (k, int(place[k]))
                else:
                    steps = others
        return steps, first

    def _strongest(self, steps: Sequence[Step], p: Array) -> int:
        least = np.flatnonzero(p == np.nanmin(p))
        if least.size == 1:
            return int(least[0])
        top = self.scan(steps)[2]
        return int(least[np.nanargmax(top[least])])


def _normal(top: Array, freedom: float) -> Array:
    """Return the normal quantile of |W|/sd, whose square over `freedom` is Beta.

    σ² is estimated without the step, so that |W|/sd is lighter in the tail than a normal one.
    """
    from scipy.special import ndtri, stdtr

    if freedom < 3:
        return top
    inner = np.minimum(top * top, freedom * (1.0 - 1e-12))
    t = top * np.sqrt((freedom - 1.0) / (freedom - inner))
    tail = stdtr(freedom - 1.0, -t)
    return np.where(tail > 1e-300, -ndtri(np.maximum(tail, 1e-300)), np.maximum(top, 37.0))


def _inverse(gram: Array) -> tuple[Array, int]:
    """Return A⁺ and its rank, with every regressor in units of its own size."""
    size = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    size = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(gram / size[:, None] / size)
    is_shown = values > _SHOWN * max(float(values[-1]), 0.0)
    inverted = np.where(is_shown, 1.0 / np.where(is_shown, values, 1.0), 0.0)
    return (vectors * inverted) @ vectors.T / size[:, None] / size, int(is_shown.sum())
