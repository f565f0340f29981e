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

from gdcb.analysis.step_search import Confirm, SegmentSums, Step, StepSearch
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import check_choice, check_number

__all__ = ["ChangePoint", "SegmentSums", "Stability", "stability"]

_TOLERANCE, _SLACK = 0.05, 0.02  # of the length, and of the likelihood: how a date is chosen


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
    confirm: Confirm | None = None,
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
    true ones is thus found with probability near `level`. The date that is told is the one whose
    surroundings, 5 % of the length either way, hold most of the likelihood exp(W²/(2·Var)): off by
    more than that less often than the least-squares date. The interval of a date is the splits at
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
    confirm : p of a step by resampling, where the normal reference is not enough (rare outcomes);
        a step then counts only where both are at most `level`

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
    search = StepSearch(sums, h, variance, trim, least_rows)
    search.kappa = _factors(kappa, search)
    p_values, _, top, _ = search.scan([])
    judged = np.isfinite(p_values)
    n_judged = int(judged.sum())
    p = min(1.0, n_judged * float(np.nanmin(p_values))) if n_judged else 1.0
    steps: list[Step] = []
    if p <= level:
        steps, again = search.steps(level, int(most), n_judged, confirm)
        p = max(p, again)
    found = [_told(search, steps, i, named, interval, n_judged) for i in range(len(steps))]
    found.sort(key=lambda one: (one.split, one.component))
    unjudged = tuple(name for name, is_judged in zip(named, judged, strict=True) if not is_judged)
    return Stability(p, float(level), tuple(found), named, p_values, top, unjudged)


def _told(
    search: StepSearch,
    steps: Sequence[Step],
    i: int,
    names: Sequence[str],
    interval: float,
    n_judged: int,
) -> ChangePoint:
    """Return what is said of one step, the others being in the regression."""
    k, split = steps[i]
    p, _, top, size = search.scan([*steps[:i], *steps[i + 1 :]])
    allowed = -2.0 * np.log(1.0 - np.sqrt(interval))
    inside = np.flatnonzero(top[k] ** 2 - size[k] ** 2 <= allowed) + 1
    date = _date(size[k])
    e, inverse, theta, meat, _ = search.fit(steps)
    middle = (e.transpose(0, 2, 1) @ meat @ e).sum(axis=0)
    covariance = inverse @ middle @ inverse
    d, unit = search.h.shape[1], search.h[k] / (search.h[k] @ search.h[k])
    after = float(unit @ theta[:d])
    for m, (other, at) in enumerate(steps):
        if at > split:
            after += float(unit @ search.h[other]) * float(theta[d + 3 * m])
    jump = -float(theta[d + 3 * i])
    error = np.sqrt(max(covariance[d + 3 * i, d + 3 * i], 0.0) * search.kappa[k])
    half = float(_quantile(interval) * error)
    return ChangePoint(
        date,
        max(int(inside.min()) - 1, 0),
        min(int(inside.max()) + 1, search.sums.n.size),
        names[k],
        after - jump,
        after,
        jump - half,
        jump + half,
        min(1.0, n_judged * float(p[k])),
    )


def _date(size: Array) -> int:
    """Return the split whose surroundings, 5 % of the length either way, are the likeliest.

    Of those within 2 % of the most, the nearest to the median: with much data all the likelihood
    lies at one split. `size` (S − 1,) is |W|/sd, 0 where no step may be; the likelihood of a split
    is exp(size²/2).
    """
    likely = np.where(size > 0, np.exp(0.5 * (size**2 - size.max() ** 2)), 0.0)
    below = np.concatenate(([0.0], likely.cumsum())) / likely.sum()
    m = size.size
    half = max(int(_TOLERANCE * (m + 1)), 1)
    at = np.arange(m)
    mass = below[np.minimum(at + half + 1, m)] - below[np.maximum(at - half, 0)]
    median = int((below[1:] >= 0.5).argmax())
    near = np.flatnonzero(mass >= mass.max() - _SLACK)
    return int(near[np.abs(near - median).argmin()]) + 1


def _quantile(level: float) -> float:
    from scipy.special import ndtri

    return float(ndtri((1.0 + level) / 2.0))


def _factors(kappa: Any, search: StepSearch) -> Array:
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
