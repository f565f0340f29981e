"""One law for the whole history, or a change on the way: tested, dated, and named.

From sums of time segments, never from rows: a history of a hundred million rows is a hundred
segments. Residuals are cumulated with their regressors, so that contexts may drift: what is tested
is whether the response to them stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.analysis.bridge_tail import bridge_tail
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import check_choice, check_number

_SHOWN = 1e-10  # of a direction's information: less is rounding
_EXACT = 1e-12  # of Σy²: residuals smaller than that are rounding
_ROUNDS = 2  # of dating each change again, given the others


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


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A date at which the response changed, and what changed.

    Parameters
    ----------
    split : segments before the change: it lies between segment split − 1 and segment split
    low, high : confidence interval of the date, in segments from the start
    component : name of what changed
    before, after : its coefficient before and after
    low_change, high_change : interval of after − before
    p : probability of so large a statistic anywhere without this change, times the number of
        components tested
    """

    split: int
    low: int
    high: int
    component: str
    before: float
    after: float
    low_change: float
    high_change: float
    p: float


@dataclass(frozen=True, slots=True)
class Stability:
    """Whether one law held, and where it changed.

    Parameters
    ----------
    p : of 'one θ for all segments', over all components (Bonferroni); 1 where none was judged
    level : at which a change was looked for
    change_points : in the order of time; none where p > level
    names, p_values : (k,) components, and the p of each by itself, NaN where not judged
    statistics : (k,) max over splits of |W|/sd
    unjudged : names of components with too few rows on either side of every split
    """

    p: float
    level: float
    change_points: tuple[ChangePoint, ...]
    names: tuple[str, ...]
    p_values: Array
    statistics: Array
    unjudged: tuple[str, ...]

    @property
    def is_stable(self) -> bool:
        """Whether no change was found at the level."""
        return not self.change_points

    def says(self) -> str:
        """Return one sentence."""
        if len(self.unjudged) == len(self.names):
            return "Stability over time was not judged: too few rows."
        if self.is_stable:
            return f"No change over time was found (p = {self.p:.2g})."
        told = (
            f"{one.component} went from {one.before:.3g} to {one.after:.3g} after segment "
            f"{one.split} (between {one.low} and {one.high}, p = {one.p:.2g})"
            for one in self.change_points
        )
        return "The law changed: " + "; ".join(told) + "."


def stability(
    sums: SegmentSums,
    level: float = 0.05,
    names: Sequence[str] | None = None,
    *,
    directions: Mapping[str, Any] | None = None,
    variance: str = "segment",
    kappa: Any = None,
    trim: float = 0.05,
    least_rows: int = 20,
    most: int = 5,
    interval: float = 0.95,
) -> Stability:
    """Test 'one θ for all segments' against changes at unknown dates, and date them.

    With A_s = Σ_{t≤s} Σ zzᵀ, A that of all, θ̂ = A⁻¹Σzy: W_s = Σ_{t≤s} (Σ zy − Σ zzᵀθ̂) has under
    one law the covariance σ²(A_s − A_s A⁻¹ A_s) given the regressors. For a component j,
    W_sj²/Var(W_sj) is what a step of θ_j after segment s would take off the sum of squares, so
    that its largest is the test and where it lies is the least-squares date. Its tail is that of a
    standardised Brownian bridge (`bridge_tail`), with the neighbours' correlations as they are.
    Bonferroni over components.

    Where p ≤ level, the step of the smallest p joins the regression, with a coefficient of its own
    for the two segments beside the date (a change inside a segment must not be taken for another
    one), and the rest is tested again at the same level until nothing is found; then each step is
    dated again given the others, and dropped if it no longer stands out. A set of steps beyond the
    true ones is thus found with probability near `level`. The interval of a date is the splits at
    which W²/Var is within 7.35 (for 95 %) of its largest: the difference is twice the larger of
    two independent exponentials, (1 − e^(−x/2))² = 0.95 (Siegmund 1988; Eo and Morley 2015); and
    one segment more on either side, since the change may lie inside of one.

    Parameters
    ----------
    sums : of segments in the order of time
    level : probability of finding a change where there is none
    names : (d,) of the components; None: 'component 0', ...
    directions : more tests, by name: vectors h (d,), a step of θ along h. A level that many arms
        share is such a one, with 1 at every arm
    variance : 'segment': an error variance for every segment, from its own sums; 'common': one.
        `sums.meat`, where given, stands in for both
    kappa : (k,) factors on the variance of W, for clusters or dependence; or 'segments': from the
        differences of neighbouring segments' sums, at least 1
    trim : least share of a component's Σz² before and after a split
    least_rows : least rows before and after a split in which the component is not 0
    most : changes at most
    interval : level of the intervals of dates and changes

    Notes
    -----
    Assumes: the regression is right within segments, or wrong in a way that does not change; rows
    are independent given regressors, or `kappa` says how far they are not.

    Stops applying: a gradual trend is found, and reported as one or more steps. With many millions
    of rows a change too small to matter is found too: look at `low_change` and `high_change`.
    Errors with rare large values need more rows on either side than 20.

    Examples
    --------
    Three of four are approved, then one of four: the date is after the tenth of 20 segments.

    >>> y = np.concatenate((np.tile([1.0, 1.0, 1.0, 0.0], 50), np.tile([0.0, 0.0, 1.0, 0.0], 50)))
    >>> found = stability(SegmentSums.of_rows(np.ones((400, 1)), y, 20), names=["approval"])
    >>> one = found.change_points[0]
    >>> one.split, one.low <= 10 <= one.high, round(one.before, 2), round(one.after, 2)
    (10, True, 0.75, 0.25)
    """
    check_number("level", level, 0.0, 1.0, open_low=True)
    check_number("trim", trim, 0.0, 0.5)
    check_number("least_rows", least_rows, 1)
    check_number("most", most, 0)
    check_number("interval", interval, 0.5, 1.0 - 1e-12)
    check_choice("variance", variance, ("segment", "common"))
    sums = _checked(sums)
    named, h = _directions(sums.gram.shape[1], names, directions)
    search = _Search(sums, h, variance, trim, least_rows)
    search.kappa = _factors(kappa, search)
    p_values, _, top, _ = search.scan([])
    judged = np.isfinite(p_values)
    n_judged = int(judged.sum())
    p = min(1.0, n_judged * float(np.nanmin(p_values))) if n_judged else 1.0
    steps = search.steps(level, int(most), n_judged) if p <= level else []
    found = [search.told(steps, i, named, interval, n_judged) for i in range(len(steps))]
    found.sort(key=lambda one: (one.split, one.component))
    unjudged = tuple(name for name, is_judged in zip(named, judged, strict=True) if not is_judged)
    return Stability(p, float(level), tuple(found), named, p_values, top, unjudged)


Step = tuple[int, int]  # direction, and segments before the change


class _Search:
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

    def _open(self, steps: Sequence[Step]) -> Array:
        """Return where a further step may be (S − 1, k): away from those of the same direction."""
        is_open: Array = self.is_open.copy()
        for k, split in steps:
            apart = np.abs(self.share[:, k] - self.share[split - 1, k]) >= self.trim
            apart &= np.abs(np.arange(1, self.sums.n.size) - split) > 1
            is_open[:, k] &= apart
        return is_open

    def steps(self, level: float, most: int, n_judged: int) -> list[Step]:
        """Return the steps that stand out, one after another, each dated given the others."""
        steps: list[Step] = []
        while len(steps) < most:
            p, place, _, _ = self.scan(steps)
            if not np.isfinite(p).any():
                break
            # Where several p are 0 in this arithmetic, the statistic decides.
            best = self._strongest(steps, p)
            if n_judged * p[best] > level:
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
        return steps

    def _strongest(self, steps: Sequence[Step], p: Array) -> int:
        least = np.flatnonzero(p == np.nanmin(p))
        if least.size == 1:
            return int(least[0])
        top = self.scan(steps)[2]
        return int(least[np.nanargmax(top[least])])

    def told(
        self, steps: Sequence[Step], i: int, names: Sequence[str], interval: float, n_judged: int
    ) -> ChangePoint:
        """Return what is said of one step, the others being in the regression."""
        k, split = steps[i]
        p, _, top, size = self.scan([*steps[:i], *steps[i + 1 :]])
        allowed = -2.0 * np.log(1.0 - np.sqrt(interval))
        inside = np.flatnonzero(top[k] ** 2 - size[k] ** 2 <= allowed) + 1
        e, inverse, theta, meat, _ = self.fit(steps)
        middle = (e.transpose(0, 2, 1) @ meat @ e).sum(axis=0)
        covariance = inverse @ middle @ inverse
        d, unit = self.h.shape[1], self.h[k] / (self.h[k] @ self.h[k])
        after = float(unit @ theta[:d])
        for m, (other, at) in enumerate(steps):
            if at > split:
                after += float(unit @ self.h[other]) * float(theta[d + 3 * m])
        jump = -float(theta[d + 3 * i])
        error = np.sqrt(max(covariance[d + 3 * i, d + 3 * i], 0.0) * self.kappa[k])
        half = float(_quantile(interval) * error)
        return ChangePoint(
            split,
            max(int(inside.min()) - 1, 0),
            min(int(inside.max()) + 1, self.sums.n.size),
            names[k],
            after - jump,
            after,
            jump - half,
            jump + half,
            min(1.0, n_judged * float(p[k])),
        )


_PRIOR_ROWS = 30.0  # that the common variance is worth beside a segment's own


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


def _quantile(level: float) -> float:
    from scipy.special import ndtri

    return float(ndtri((1.0 + level) / 2.0))


def _inverse(gram: Array) -> tuple[Array, int]:
    """Return A⁺ and its rank, with every regressor in units of its own size."""
    size = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    size = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(gram / size[:, None] / size)
    is_shown = values > _SHOWN * max(float(values[-1]), 0.0)
    inverted = np.where(is_shown, 1.0 / np.where(is_shown, values, 1.0), 0.0)
    return (vectors * inverted) @ vectors.T / size[:, None] / size, int(is_shown.sum())


def _factors(kappa: Any, search: _Search) -> Array:
    """Return κ (k,) as given, or from how much neighbouring segments' sums differ."""
    k = search.h.shape[0]
    if kappa is None:
        return np.ones(k)
    if isinstance(kappa, str):
        check_choice("kappa", kappa, ("segments",))
        _, _, theta, meat, _ = search.fit([])
        left = search.level - search.along @ theta
        expected = np.einsum("sij,ki,kj->sk", meat, search.h, search.h)
        both = expected[1:] + expected[:-1]
        # Of neighbours, so that a step spoils one pair alone.
        ratio = np.diff(left, axis=0) ** 2 / np.where(both > 0, both, np.inf)
        used = (both > 0).sum(axis=0)
        return np.asarray(np.maximum(ratio.sum(axis=0) / np.maximum(used, 1), 1.0))
    factors = np.asarray(kappa, dtype=float)
    if factors.shape not in ((), (k,)) or not (np.isfinite(factors) & (factors > 0)).all():
        raise InvalidInput(f"kappa: expected {k} finite numbers > 0 or 'segments', got {kappa!r}")
    return np.broadcast_to(factors, (k,)).astype(float)


def _directions(
    d: int, names: Sequence[str] | None, directions: Mapping[str, Any] | None
) -> tuple[tuple[str, ...], Array]:
    """Return names and vectors (k, d) of what may change: each component, then those given."""
    plain = [f"component {j}" for j in range(d)] if names is None else list(names)
    if len(plain) != d or isinstance(names, str):
        raise InvalidInput(f"names: expected {d}, one a component, got {names!r}")
    vectors = [np.eye(d)]
    for name, vector in (directions or {}).items():
        one = np.asarray(vector, dtype=float)
        if one.shape != (d,) or not np.isfinite(one).all() or not one.any():
            raise InvalidInput(f"directions['{name}']: expected {d} finite numbers, not all 0")
        vectors.append(one[None])
        plain.append(name)
    return tuple(str(name) for name in plain), np.concatenate(vectors)


def _checked(sums: Any) -> SegmentSums:
    """Refuse sums that do not fit each other, and return them as floating-point numbers."""
    if not isinstance(sums, SegmentSums):
        raise InvalidInput(f"sums: expected SegmentSums, got {type(sums).__name__}")
    n, square = np.asarray(sums.n, dtype=float), np.asarray(sums.square, dtype=float)
    gram, cross = np.asarray(sums.gram, dtype=float), np.asarray(sums.cross, dtype=float)
    s, d = n.size, cross.shape[-1] if cross.ndim else 0
    shapes = (n.shape, gram.shape, cross.shape, square.shape)
    if d < 1 or s < 2 or shapes != ((s,), (s, d, d), (s, d), (s,)):
        raise InvalidInput(
            f"sums: expected n (S,), gram (S, d, d), cross (S, d), square (S,) with S >= 2 and "
            f"d >= 1, got {', '.join(map(str, shapes))}"
        )
    meat = None if sums.meat is None else np.asarray(sums.meat, dtype=float)
    if meat is not None and meat.shape != gram.shape:
        raise InvalidInput(f"sums.meat: expected {gram.shape}, got {meat.shape}")
    parts = (n, gram, cross, square) if meat is None else (n, gram, cross, square, meat)
    if not all(np.isfinite(part).all() for part in parts):
        raise InvalidInput("sums: expected finite numbers")
    if (n < 0).any() or (square < 0).any() or n.sum() < 1:
        raise InvalidInput("sums: expected n >= 0, at least one row, and square >= 0")
    return SegmentSums(n, gram, cross, square, meat)
