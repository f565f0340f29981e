"""Response-curve Thompson: arms with a metric share one curve over their coordinates."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import ClassVar

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array, logistic, scatter_add
from gdcb.bandits.base import require_unscaled
from gdcb.errors import InvalidInput
from gdcb.parts import check_choice, check_number
from gdcb.records import Evidence, Located, Setting
from gdcb.streams import Stream

_MARGIN = (1.0, 2.0, 4.0)  # nodes beyond the end arms, in end gaps
_TOLERANCE = 1e-9


@dataclass(slots=True)
class CurveState:
    """Sums, and the Gaussian posterior that they imply.

    Parameters
    ----------
    nodes : C arrays, the node positions along each coordinate (logistic link)
    design : (B, d) features of the nodes
    frame : (2, C) middle and half-width of the arms, which scale coordinates to [−1, 1]
    trials, wins : (cells, B) weighted counts at the nodes (logistic link)
    precision, shift : (cells, d, d), (cells, d) natural parameters (identity link)
    mean : (cells, d) posterior mean of the coefficients
    root : (cells, d, d) with root·rootᵀ = posterior covariance
    """

    nodes: tuple[Array, ...] = field(metadata={"axis": "constant"})
    design: Array = field(metadata={"axis": "constant"})
    frame: Array = field(metadata={"axis": "constant"})
    trials: Array
    wins: Array
    precision: Array
    shift: Array
    mean: Array
    root: Array


@dataclass(frozen=True)
class CurveThompson:
    """Thompson sampling on a polynomial response curve of the arm coordinates.

    Linear predictor η(c) = w₀ + Σⱼ wⱼcⱼ (+ Σⱼ wⱼⱼcⱼ², degree 2), where the coordinate of
    an action is the arm it would be under the δ in force: e/δ for products, e − δ for sums. So
    overrides between the arms teach too, and what one arm learns all arms know.

    `link='identity'`: r = s·η + N(0, noise²), conjugate, exact. `link='logistic'`: P(y=1) = σ(η),
    a Laplace posterior around the exact mode. Its statistics are weighted counts at fixed nodes
    (the arms, points between them and a margin), so they add up in any order; an action between two
    nodes is shared by them linearly, an error of second order in their gap, and one beyond the
    margin is left out. The prior is independent normal on coefficients of the coordinates scaled
    to [−1, 1] over the arms.

    The curve is only as right as its form: where the truth is not a polynomial in c, the
    posterior concentrates on the closest one.

    Examples
    --------
    Identity link, prior sd 1, noise 1, one arm coordinate c ∈ {−1, 1}; one reward 3 seen at
    c = 1: precision [[2, 1], [1, 2]], shift [3, 3], mean [1, 1], so η(1) = 2 and η(−1) = 0.

    >>> from gdcb.arms import ArmList
    >>> bandit = CurveThompson(link="identity", prior_sd=1.0, noise=1.0)
    >>> arms = ArmList(values=(-1.0, 1.0)).build()
    >>> state = bandit.init(np.zeros(1, dtype=int), arms)
    >>> zero = np.zeros(1, dtype=int)
    >>> bandit.update(
    ...     state, Evidence(zero, zero, np.ones((1, 1)), np.array([3.0]), None, np.ones(1))
    ... )
    >>> bandit.mean(state, Setting(zero), arms.nominal).round(12).tolist()
    [[0.0, 2.0]]
    """

    link: str = "logistic"
    degree: int = 1
    prior_mean: tuple[float, ...] = ()
    prior_sd: float | tuple[float, ...] = 2.0
    noise: float = 1.0
    target: ClassVar[str] = "any"
    is_curve: ClassVar[bool] = True
    is_contextual: ClassVar[bool] = False
    supports: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        check_choice("bandit.link", self.link, ("logistic", "identity"))
        if self.degree not in (1, 2):
            raise InvalidInput(f"bandit.degree: expected 1 or 2, got {self.degree!r}")
        check_number("bandit.noise", self.noise, 0.0, open_low=True)
        for value in self.prior_mean:
            check_number("bandit.prior_mean", value)
        sds = self.prior_sd if isinstance(self.prior_sd, tuple) else (self.prior_sd,)
        for sd in sds:
            check_number("bandit.prior_sd", sd, 0.0, open_low=True)

    def init(self, group: Array, arms: Arms) -> CurveState:
        """Return the prior curve in every cell."""
        if bool(arms.is_exact.any()):
            raise InvalidInput("CurveThompson needs arms with a metric; these are categories")
        cells, c = group.shape[0], arms.n_coords
        d = 1 + c * self.degree
        for name, value in (("prior_sd", self.prior_sd), ("prior_mean", self.prior_mean)):
            if isinstance(value, tuple) and len(value) not in (
                (0, d) if name[6:] == "mean" else (d,)
            ):
                raise InvalidInput(f"bandit.{name}: expected {d} numbers, got {len(value)}")
        sd = np.broadcast_to(np.asarray(self.prior_sd, dtype=float), (d,))
        mean = np.array(self.prior_mean or np.zeros(d), dtype=float)
        low, high = arms.coords.min(axis=0), arms.coords.max(axis=0)
        frame = np.stack(((low + high) / 2, np.where(high > low, (high - low) / 2, 1.0)))
        nodes: tuple[Array, ...] = ()
        grid = np.zeros((0, c))
        if self.link == "logistic":
            gaps = 16 if c == 1 else 4
            nodes = tuple(_nodes(column, gaps) for column in arms.coords.T)
            grid = np.array(list(product(*nodes)), dtype=float)
        return CurveState(
            nodes,
            self.features((grid - frame[0]) / frame[1]),
            frame,
            np.zeros((cells, grid.shape[0])),
            np.zeros((cells, grid.shape[0])),
            np.tile(np.diag(sd**-2.0), (cells, 1, 1)),
            np.tile(mean * sd**-2.0, (cells, 1)),
            np.tile(mean, (cells, 1)),
            np.tile(np.diag(sd), (cells, 1, 1)),
        )

    def features(self, coord: Array) -> Array:
        """Return (1, c, c²) of scaled coordinates (..., C): (..., d)."""
        c = coord.shape[-1]
        out = np.empty((*coord.shape[:-1], 1 + c * self.degree))
        out[..., 0] = 1.0
        out[..., 1 : 1 + c] = coord
        if self.degree == 2:
            out[..., 1 + c :] = coord * coord
        return out

    def draw(self, rng: Stream, state: CurveState, at: Setting) -> Array:
        """Sample the coefficients of each row's curve: (N, d + 2C), the scaling behind them."""
        mean = state.mean.take(at.cell, axis=0)
        z = rng.normal(*mean.shape)
        return self._framed(state, mean + (state.root.take(at.cell, axis=0) @ z[..., None])[..., 0])

    def _framed(self, state: CurveState, coefficients: Array) -> Array:
        """Put the middle and half-width of every coordinate behind each row's coefficients."""
        n, d = coefficients.shape
        out = np.empty((n, d + state.frame.size))
        out[:, :d] = coefficients
        out[:, d:] = state.frame.reshape(-1)
        return out

    def value(self, draw: Array, located: Located) -> Array:
        """Evaluate the drawn curves at located actions."""
        c = located.coord.shape[-1]
        d = draw.shape[1] - 2 * c
        middle, half = draw[:, None, d : d + c], draw[:, None, d + c :]
        if located.is_nominal:
            middle, half = middle[:1], half[:1]
        predictor = _times(draw, self.features((located.coord - middle) / half))
        return logistic(predictor) if self.link == "logistic" else predictor

    def mean(self, state: CurveState, at: Setting, located: Located) -> Array:
        """Evaluate the curve of the posterior mean (for the logistic link, of the mode)."""
        return self.value(self._framed(state, state.mean[at.cell]), located)

    def update(self, state: CurveState, evidence: Evidence) -> None:
        """Add the rows' sums and refresh the posterior of the touched cells."""
        if self.link == "logistic":
            require_unscaled(evidence, "CurveThompson with the logistic link")
        known = (evidence.weight > 0) & np.isfinite(evidence.coord).all(axis=-1)
        cell, y, weight = evidence.cell[known], evidence.y[known], evidence.weight[known]
        if cell.size == 0:
            return
        coord = evidence.coord[known]
        touched = np.unique(cell)
        if self.link == "logistic":
            self._count(state, cell, coord, y, weight)
            start, prior = state.mean[touched], state.precision[touched]
            mean, precision = _laplace(
                state.design,
                state.trials[touched],
                state.wins[touched],
                prior,
                state.shift[touched],
                start,
            )
        else:
            scale = 1.0 if evidence.scale is None else evidence.scale[known]
            features = self.features((coord - state.frame[0]) / state.frame[1])
            strength = weight * scale / self.noise**2
            outer = features[:, :, None] * features[:, None, :]
            scatter_add(state.precision, cell, (strength * scale)[:, None, None] * outer)
            scatter_add(state.shift, cell, (strength * y)[:, None] * features)
            precision = state.precision[touched]
            mean = np.linalg.solve(precision, state.shift[touched][..., None])[..., 0]
        state.mean[touched] = mean
        state.root[touched] = np.linalg.inv(np.linalg.cholesky(precision)).swapaxes(-1, -2)

    def _count(self, state: CurveState, cell: Array, coord: Array, y: Array, weight: Array) -> None:
        """Add weighted outcomes to the nodes around each coordinate."""
        index = np.zeros((cell.size, 1), dtype=np.int64)
        share = weight[:, None]
        inside = np.ones(cell.size, dtype=bool)
        for j, nodes in enumerate(state.nodes):
            value = coord[:, j]
            inside &= (value >= nodes[0] - _TOLERANCE) & (value <= nodes[-1] + _TOLERANCE)
            left = (np.searchsorted(nodes, value, side="right") - 1).clip(0, nodes.size - 2)
            part = ((value - nodes[left]) / (nodes[left + 1] - nodes[left])).clip(0.0, 1.0)
            index = index * nodes.size + left[:, None]
            index = np.concatenate((index, index + 1), axis=1)
            share = np.concatenate((share * (1.0 - part)[:, None], share * part[:, None]), axis=1)
        flat = (cell[:, None] * state.design.shape[0] + index)[inside]
        share, y = share[inside], y[inside]
        scatter_add(state.trials.reshape(-1), flat.ravel(), share.ravel())
        scatter_add(state.wins.reshape(-1), flat.ravel(), (share * y[:, None]).ravel())


def _nodes(levels: Array, gaps: int) -> Array:
    """Return the arms' positions, at least `gaps` even parts between them, and a margin."""
    distinct = np.unique(levels)
    if distinct.size == 1:
        distinct = distinct[0] + np.array([-1.0, 0.0, 1.0])
    parts = -(-gaps // (distinct.size - 1))
    share = np.arange(parts) / parts
    inner = (distinct[:-1, None] + share * np.diff(distinct)[:, None]).ravel()
    margin = np.array(_MARGIN)
    below = distinct[0] - margin * (distinct[1] - distinct[0])
    above = distinct[-1] + margin * (distinct[-1] - distinct[-2])
    return np.unique(np.concatenate((below, inner, distinct[-1:], above)))


def _times(weights: Array, features: Array) -> Array:
    """Return Σⱼ weights[:, j]·features[..., j] (n, m) by columns.

    A matrix product would round a row differently in batches of different size.
    """
    total = weights[:, :1] * features[..., 0]
    for j in range(1, features.shape[-1]):
        total = total + weights[:, j : j + 1] * features[..., j]
    return np.asarray(total)


def _laplace(
    design: Array, trials: Array, wins: Array, prior: Array, shift: Array, start: Array
) -> tuple[Array, Array]:
    """Find the mode of a logistic posterior under a normal prior, by capped Newton steps.

    Each cell stops by itself, and no product runs across cells, so that its result does not
    depend on the cells beside it.

    Returns
    -------
    mean : (n, d) mode
    precision : (n, d, d) negative Hessian there
    """
    mean = start.copy()
    active = np.arange(start.shape[0])
    for _ in range(100):
        rows = slice(None) if active.size == start.shape[0] else active
        w, a = mean[rows], prior[rows]
        gradient, hessian = _derivatives(design, trials[rows], wins[rows], w)
        gradient += shift[rows] - (a @ w[..., None])[..., 0]
        step = np.linalg.solve(a + hessian, gradient[..., None])[..., 0]
        # The predictor moves at most 2 a step at any node: Newton cannot overshoot the mode far.
        reach = np.abs(_times(step, design)).max(axis=1)
        mean[rows] = w + step * np.minimum(1.0, 2.0 / np.maximum(reach, 1e-300))[:, None]
        active = active[reach > 1e-7]  # the error after a step is of the order of its square
        if active.size == 0:
            break
    return mean, prior + _derivatives(design, trials, wins, mean)[1]


def _derivatives(design: Array, trials: Array, wins: Array, w: Array) -> tuple[Array, Array]:
    """Return gradient (n, d) and negative Hessian (n, d, d) of the logistic log likelihood."""
    n, d = w.shape
    p = logistic(_times(w, design))
    expected = trials * p
    residual, curvature = wins - expected, expected * (1.0 - p)
    gradient, hessian = np.empty((n, d)), np.empty((n, d, d))
    for j in range(d):
        gradient[:, j] = (residual * design[:, j]).sum(axis=1)
        for k in range(j, d):
            total = (curvature * (design[:, j] * design[:, k])).sum(axis=1)
            hessian[:, j, k] = hessian[:, k, j] = total
    return gradient, hessian
