"""Gaussian-process Thompson: the curve over the arm coordinates has no declared form."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array, in_parts, logistic, scatter_add
from gdcb.bandits.base import check_factor, require_same_shape, require_unscaled
from gdcb.bandits.gaussian import require_finite
from gdcb.bandits.nodes import (
    boxes_between,
    boxes_with_rows,
    corners,
    count_wins,
    exponents_of,
    frame_of,
    grid_of,
    in_box,
    n_boxes,
    nodes_of,
    on_level,
    places_of,
    require_metric,
    require_same_arms,
    share_of_corners,
    within_nodes,
)
from gdcb.bandits.predictive import log_bernoulli, log_normal, moderated
from gdcb.bandits.prequential import at_nodes, before, in_blocks, normal_ahead
from gdcb.errors import InvalidInput
from gdcb.parts import check_choice, check_number, check_size
from gdcb.records import Evidence, Located, Setting
from gdcb.regression import by_owner
from gdcb.streams import Stream

_MOST = 2**20  # numbers in the products of points that are summed together
MOST_NODES = 700  # the root of their covariance takes a tenth of a second, and grows by the cube


@dataclass(slots=True)
class GPCurveState:
    """Sums, and the posterior of z that they imply; the curve at the nodes is m + basis·z.

    Parameters
    ----------
    nodes : C arrays, the node positions along each coordinate
    basis : (B, B) symmetric root of the prior covariance K of the curve at the nodes
    trials : (cells, B) Σ w of the rows on each node (logistic link)
    moments : (cells, boxes, q) Σ w·(1, t, t², t³) of the other rows in each box between the nodes,
        t their place in it; `gdcb.bandits.nodes` says what they are of two coordinates
    wins : (cells, B) Σ w·y of all rows, shared by the nodes around them (logistic link)
    precision, shift : (cells, B, B), (cells, B) natural parameters of z (identity link)
    mean : (cells, B) posterior mean of z
    root : (cells, B, B) with root·rootᵀ = posterior covariance of z
    """

    nodes: tuple[Array, ...] = field(metadata={"axis": "constant"})
    basis: Array = field(metadata={"axis": "constant"})
    trials: Array
    moments: Array
    wins: Array
    precision: Array
    shift: Array
    mean: Array
    root: Array


@dataclass(frozen=True)
class GPCurveThompson:
    """Thompson sampling on a Gaussian process over the arm coordinates.

    The curve η has the prior GP(m, A²·k(d)), d the distance of two coordinates in lengthscales;
    k(d) = exp(−d²/2) for 'rbf' and (1 + √5d + 5d²/3)·exp(−√5d) for 'matern'. It lives on fixed
    nodes (the arms, points between them and a margin) and is linear between them. With
    covariance K at the nodes, η = m + K^½·z and z ~ N(0, I): a regression whose precision
    I + Σ w·s²·φφᵀ/noise² has eigenvalues of 1 and more, however smooth the kernel.

    `link='identity'`: r = s·η + N(0, noise²), conjugate, exact for the interpolated curve.
    `link='logistic'`: P(y=1) = σ(η), a Laplace posterior around the mode of the likelihood of the
    interpolated curve at the executed coordinates. Rows between the nodes are kept by their first
    three moments, as in `CurveThompson`. Either way sums add up in any order,
    and only touched cells are worked out anew.

    Parameters
    ----------
    link : 'logistic' for classes in [0, 1], 'identity' for rewards
    kernel : 'matern' (smoothness 5/2) or 'rbf'
    amplitude : A, prior standard deviation of the curve
    lengthscale : in units of the arms' span, along every coordinate
    prior_mean : m
    noise : standard deviation of a reward (identity link)
    width : what the posterior's standard deviation is multiplied with; 1 is Thompson sampling
    gaps : parts, at least, that the nodes divide the arms' span into; 0: 16, or 4 along each of two
        coordinates. Fewer are quicker and blunter: with 1 the arms alone are nodes

    Notes
    -----
    Assumes: η is a draw of the declared process; amplitude, lengthscale and noise are not learned.
    One or two coordinates.

    Stops applying: beyond the nodes (four end gaps outside the arms) the curve is held constant,
    and rows there are left out. A curve that bends within a gap of the nodes (a
    lengthscale below about 1/8) is blunted. A cell keeps B² numbers: with two coordinates the B
    nodes may exceed 100, so that many cells need much memory.

    Examples
    --------
    Two arms far apart in lengthscales are independent: prior N(0, 1), noise 1, one reward 3 on
    the second arm. Its mean is 3/2, and the first arm learns nothing.

    >>> from gdcb.arms import ArmList
    >>> bandit = GPCurveThompson(link="identity", kernel="rbf", lengthscale=0.01)
    >>> arms = ArmList(values=(-1.0, 1.0)).build()
    >>> state = bandit.init(np.zeros(1, dtype=int), arms)
    >>> zero = np.zeros(1, dtype=int)
    >>> bandit.update(
    ...     state, Evidence(zero, zero, np.ones((1, 1)), np.array([3.0]), None, np.ones(1))
    ... )
    >>> abs(bandit.mean(state, Setting(zero), arms.nominal).round(9)).tolist()
    [[0.0, 1.5]]
    """

    link: str = "logistic"
    kernel: str = "matern"
    amplitude: float = 1.0
    lengthscale: float = 0.5
    prior_mean: float = 0.0
    noise: float = 1.0
    width: float = 1.0
    gaps: int = 0
    is_curve: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset()
    supports: ClassVar[frozenset[str]] = frozenset({"decay", "merge", "predictive"})

    def __post_init__(self) -> None:
        check_choice("bandit.link", self.link, ("logistic", "identity"))
        check_choice("bandit.kernel", self.kernel, ("matern", "rbf"))
        check_number("bandit.prior_mean", self.prior_mean)
        for name in ("amplitude", "lengthscale", "noise"):
            check_number(f"bandit.{name}", getattr(self, name), 0.0, open_low=True)
        check_number("bandit.width", self.width, 0.0)
        if type(self.gaps) is not int or self.gaps < 0:
            raise InvalidInput(f"bandit.gaps: expected a whole number >= 0, got {self.gaps!r}")
        check_number("bandit.gaps", self.gaps, 0, MOST_NODES)

    @property
    def target(self) -> str:
        """Return 'class' for the logistic link; the identity link takes any number."""
        return "class" if self.link == "logistic" else "any"

    @property
    def likelihood(self) -> str:
        """Return 'bernoulli' or 'normal': what `predictive` is a density of."""
        return "bernoulli" if self.link == "logistic" else "normal"

    def n_nodes(self, arms: Arms) -> int:
        """Return how many nodes there are: a learner's time and memory follow from them."""
        return math.prod(part.size for part in nodes_of(arms, self.gaps))

    def init(self, group: Array, arms: Arms) -> GPCurveState:
        """Return the prior process in every cell."""
        require_metric(arms, "GPCurveThompson")
        if arms.n_coords > 2:
            raise InvalidInput(
                f"GPCurveThompson: expected one or two coordinates, got {arms.n_coords}; its nodes "
                "are a grid"
            )
        check_size("bandit", "nodes", self.n_nodes(arms), most=MOST_NODES)
        nodes = nodes_of(arms, self.gaps)
        span = 2.0 * frame_of(arms)[1]
        basis = _root_of(self.covariance(grid_of(nodes) / (self.lengthscale * span)))
        cells, b = group.shape[0], basis.shape[0]
        n_counts, n_sums = (b, 0) if self.link == "logistic" else (0, b)
        return GPCurveState(
            nodes,
            basis,
            np.zeros((cells, n_counts)),
            np.zeros(
                (
                    cells,
                    n_boxes(boxes_between(nodes)) if n_counts else 0,
                    len(exponents_of(arms.n_coords)),
                )
            ),
            np.zeros((cells, n_counts)),
            np.tile(np.eye(n_sums), (cells, 1, 1)),
            np.zeros((cells, n_sums)),
            np.zeros((cells, b)),
            np.tile(np.eye(b), (cells, 1, 1)),
        )

    def covariance(self, point: Array) -> Array:
        """Return the prior covariance of the curve at points (B, C) in lengthscales: (B, B)."""
        square = ((point[:, None] - point[None]) ** 2).sum(axis=-1)
        if self.kernel == "rbf":
            return np.asarray(self.amplitude**2 * np.exp(-0.5 * square))
        d = np.sqrt(5.0 * square)
        return np.asarray(self.amplitude**2 * (1.0 + d + d * d / 3.0) * np.exp(-d))

    def draw(self, rng: Stream, state: GPCurveState, at: Setting) -> tuple[Array, ...]:
        """Sample each row's curve at the nodes (N, B); behind it, where the nodes are."""
        mean = state.mean.take(at.cell, axis=0)
        z = self.width * rng.normal(*mean.shape)
        for rows in in_parts(z.shape[0], z.shape[1] ** 2):
            root = state.root.take(at.cell[rows], axis=0)
            mean[rows] += (root @ z[rows, :, None])[..., 0]
        return self._curve(state, mean)

    def _curve(self, state: GPCurveState, z: Array) -> tuple[Array, ...]:
        values = self.prior_mean + (state.basis @ z[..., None])[..., 0]
        n = z.shape[0]
        return values, *(np.broadcast_to(part, (n, part.size)) for part in state.nodes)

    def value(self, draw: tuple[Array, ...], located: Located) -> Array:
        """Read the drawn curves at located actions, linearly between the nodes."""
        values, *nodes = draw
        n, m, c = located.coord.shape
        if values.shape[0] == 0:
            return np.zeros((0, m))
        index, share, _ = corners(
            tuple(part[0] for part in nodes), located.coord.reshape(-1, c).astype(float)
        )
        index, share = index.reshape(n, m, -1), share.reshape(n, m, -1)
        total = np.zeros((values.shape[0], m))
        for j in range(index.shape[2]):
            if located.is_nominal:
                total += values[:, index[0, :, j]] * share[..., j]
            else:
                total += np.take_along_axis(values, index[..., j], axis=1) * share[..., j]
        return logistic(total) if self.link == "logistic" else total

    def mean(self, state: GPCurveState, at: Setting, located: Located) -> Array:
        """Return the posterior mean at located actions: of η, or E σ(η) for the logistic link."""
        if self.link == "identity":
            return self.value(self._curve(state, state.mean[at.cell]), located)
        m, c = located.coord.shape[1:]
        out = np.empty((at.cell.shape[0], m))
        for rows in in_parts(out.shape[0], state.basis.shape[0] ** 2):
            cell, coord = at.cell[rows], located.coord[slice(0, 1) if located.is_nominal else rows]
            phi = self._features(state, coord.reshape(-1, c).astype(float))[0].reshape(
                coord.shape[0], m, -1
            )
            eta = self.prior_mean + (phi @ state.mean[cell][..., None])[..., 0]
            along = phi @ state.root[cell]
            out[rows] = moderated(eta, (along * along).sum(axis=-1))
        return out

    def predictive(self, state: GPCurveState, evidence: Evidence) -> Array:
        """Return the log density of each outcome before it is learned; NaN where nothing ran."""
        self._check(evidence)
        phi = self._features(state, evidence.coord)[0]
        eta = self.prior_mean + (phi * state.mean[evidence.cell]).sum(axis=1)
        variance = np.empty(eta.shape)
        for rows in in_parts(eta.size, phi.shape[1] ** 2):
            turned = state.root[evidence.cell[rows]].swapaxes(-1, -2)
            variance[rows] = ((turned @ phi[rows, :, None])[..., 0] ** 2).sum(axis=1)
        return self._density(evidence, eta, variance)

    def _density(self, evidence: Evidence, eta: Array, variance: Array) -> Array:
        """Return the log density of outcomes whose predictor is N(eta, variance)."""
        if self.link == "logistic":
            return log_bernoulli(evidence.y, moderated(eta, variance), moderated(-eta, variance))
        scale = 1.0 if evidence.scale is None else evidence.scale
        return log_normal(evidence.y, scale * eta, scale**2 * variance + self.noise**2)

    def prequential(self, state: GPCurveState, evidence: Evidence) -> Array:
        """Learn rows of one cell in their order; return each one's log density just before."""
        self._check(evidence)
        return in_blocks(self, state, evidence, self._ahead)

    def _ahead(self, state: GPCurveState, rows: Evidence) -> Array:
        """Return the log density of rows of one cell, each behind those before it."""
        cell, y = int(rows.cell[0]), rows.y
        if self.link == "identity":
            phi, inside = self._features(state, rows.coord)
            scale = np.ones(y.shape) if rows.scale is None else rows.scale
            strength = np.where(inside, rows.weight, 0.0) / self.noise**2
            rest = y - scale * self.prior_mean
            eta, variance = normal_ahead(
                state.mean[cell], state.root[cell], phi, rest, scale, strength
            )
            return self._density(rows, self.prior_mean + eta, variance)
        # Only the nodes that were ever touched say something of each other: the curve there is
        # again m + root·z, with as many z.
        index, share, _ = corners(state.nodes, rows.coord)
        nearest = np.take_along_axis(index, share.argmax(axis=1)[:, None], axis=1)
        index = np.where(share > 0.0, index, nearest)  # a row on a node touches no other
        n, (around, low, width) = y.size, within_nodes(state.nodes, boxes_between(state.nodes))
        added = [np.zeros((n, *part.shape[1:])) for part in (state.trials, state.moments)]
        own = np.arange(n)
        weight = self._count(state.nodes, added[0], added[1], own, rows.coord, rows.weight)
        touched = (state.moments[cell, :, 0] > 0.0) | (added[1][:, :, 0] > 0.0).any(axis=0)
        box = np.flatnonzero(touched)
        seen = np.flatnonzero((state.trials[cell] != 0.0) | (state.wins[cell] != 0.0))
        used = np.unique(np.concatenate((seen, index.ravel(), around[box].ravel())))
        whole = state.basis[used]
        basis = _root_of(whole @ whole.T)
        table = at_nodes(np.searchsorted(used, index), share, used.size)
        trials = before(state.trials[cell, used], added[0][:, used])
        wins = before(state.wins[cell, used], table * (weight * y)[:, None])
        moments = before(state.moments[cell, box], added[1][:, box])
        start = np.zeros((n, used.size))
        pull = (basis @ wins[..., None])[..., 0]
        if box.size:
            corner = np.searchsorted(used, around[box])
            where = [
                np.broadcast_to(one, (n, *one.shape)) for one in (corner, low[box], width[box])
            ]
            modes, precision = _mode_between(
                basis, self.prior_mean, trials, moments, where, pull, start
            )
        else:
            modes, precision = _mode(basis, self.prior_mean, trials, pull, start)
        phi = table @ basis
        reach = np.linalg.solve(precision, phi[..., None])[..., 0]
        eta = self.prior_mean + (phi * modes).sum(axis=1)
        return self._density(rows, eta, (phi * reach).sum(axis=1))

    def _check(self, evidence: Evidence) -> None:
        """Refuse outcomes and scales that cannot be."""
        if self.link == "logistic":
            require_unscaled(evidence, "GPCurveThompson with the logistic link")
        else:
            require_finite(evidence, "GPCurveThompson")

    def _features(self, state: GPCurveState, coord: Array) -> tuple[Array, Array]:
        """Return φ (N, B), with η = m + φᵀz at coordinates (N, C), and whether nodes enclose it."""
        index, share, inside = corners(state.nodes, coord)
        phi = state.basis[index[:, 0]] * share[:, :1]
        for j in range(1, index.shape[1]):
            phi += state.basis[index[:, j]] * share[:, j : j + 1]
        return phi, inside

    def update(self, state: GPCurveState, evidence: Evidence) -> None:
        """Add the rows' sums and refresh the posterior of the touched cells."""
        self._check(evidence)
        known = (evidence.weight > 0) & np.isfinite(evidence.coord).all(axis=-1)
        cell, y, weight = evidence.cell[known], evidence.y[known], evidence.weight[known]
        if cell.size == 0:
            return
        coord = evidence.coord[known]
        if self.link == "logistic":
            self._count(state.nodes, state.trials, state.moments, cell, coord, weight)
            count_wins(state.wins, state.nodes, cell, coord, weight * y)
        else:
            scale = 1.0 if evidence.scale is None else evidence.scale[known]
            phi, inside = self._features(state, coord)
            strength = np.where(inside, weight * scale, 0.0) / self.noise**2
            rest = strength * (y - scale * self.prior_mean)
            scatter_add(state.shift, cell, rest[:, None] * phi)
            _add_products(state.precision, cell, phi, strength * scale)
        self._refresh(state, np.unique(cell))

    def _count(
        self,
        nodes: tuple[Array, ...],
        trials: Array,
        moments: Array,
        owner: Array,
        coord: Array,
        weight: Array,
    ) -> Array:
        """Add rows where they ran, in place: on a node, or in a box; return the weights that count.

        What lies beyond the margin is left out.
        """
        index, own, inside = in_box(boxes_between(nodes), coord)
        weight = np.where(inside, weight, 0.0)
        place, is_on = on_level(nodes, coord)
        flat = (owner * trials.shape[1] + place)[is_on]
        scatter_add(trials.reshape(-1), flat, weight[is_on])
        off = np.flatnonzero(~is_on & inside)
        flat = (owner * moments.shape[1] + index)[off]
        scatter_add(moments.reshape(-1, own.shape[1]), flat, weight[off, None] * own[off])
        return weight

    def _refresh(self, state: GPCurveState, cell: Array) -> None:
        """Work out the posterior of some cells from their sums."""
        if self.link == "logistic":
            trials, moments, start = state.trials[cell], state.moments[cell], state.mean[cell]
            pull = (state.basis @ state.wins[cell][..., None])[..., 0]
            mean, precision = np.empty_like(start), np.empty((*start.shape, start.shape[1]))
            plain = np.flatnonzero(~(moments[:, :, 0] > 0.0).any(axis=1))
            if plain.size:  # all rows are on nodes, as without a gate
                mean[plain], precision[plain] = _mode(
                    state.basis, self.prior_mean, trials[plain], pull[plain], start[plain]
                )
            places = within_nodes(state.nodes, boxes_between(state.nodes))
            for rows, box, own in boxes_with_rows(moments):
                where = [part[box] for part in places]
                mean[rows], precision[rows] = _mode_between(
                    state.basis,
                    self.prior_mean,
                    trials[rows],
                    own,
                    where,
                    pull[rows],
                    start[rows],
                )
        else:
            precision = state.precision[cell]
            mean = np.linalg.solve(precision, state.shift[cell][..., None])[..., 0]
        state.mean[cell] = mean
        state.root[cell] = np.linalg.inv(np.linalg.cholesky(precision)).swapaxes(-1, -2)

    def decay(self, state: GPCurveState, factor: float, cell: Array) -> None:
        """Keep `factor` of the evidence in some cells; the prior stays."""
        if check_factor(factor) == 1.0:
            return
        eye = np.eye(state.precision.shape[-1])
        state.precision[cell] = eye + factor * (state.precision[cell] - eye)
        for part in (state.shift, state.trials, state.moments, state.wins):
            part[cell] *= factor
        self._refresh(state, cell)

    def merge(self, state: GPCurveState, other: GPCurveState) -> None:
        """Add another state's evidence; its prior is counted once.

        Both must come of the same settings: a state does not say what its mean and noise were.
        """
        require_same_shape(state.mean, other.mean)
        for mine, theirs in zip(state.nodes, other.nodes, strict=True):
            require_same_arms(mine, theirs, "arms and kernel")
        if not np.allclose(state.basis, other.basis, rtol=0.0, atol=1e-9 * self.amplitude):
            raise InvalidInput("merge: expected a state over the same arms and kernel")
        state.precision += other.precision - np.eye(state.precision.shape[-1])
        state.shift += other.shift
        state.trials += other.trials
        state.moments += other.moments
        state.wins += other.wins
        self._refresh(state, np.arange(state.mean.shape[0]))


def _add_products(precision: Array, cell: Array, phi: Array, strength: Array) -> None:
    """Add strength·φφᵀ of every row to its cell's (B, B), without a matrix for every row.

    A cell's bytes do not depend on the rows of others: it has one product of its own rows.
    """
    for who, rows in by_owner(cell, phi.shape[1]):
        own = phi[rows]
        precision[who] += (own * strength[rows][..., None]).swapaxes(-1, -2) @ own


def _root_of(covariance: Array) -> Array:
    """Return the symmetric root (B, B), with root·root = covariance.

    Unlike other roots it is unique: states that were written elsewhere share its coordinates.
    """
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _with_points(
    basis: Array, trials: Array, moments: Array, corner: Array, low: Array, width: Array
) -> tuple[Array, Array]:
    """Return features (n, B + P, B) and weights of the nodes, and behind them of points in boxes.

    moments : (n, b, q) of the boxes; corner, low, width : (n, b, ...) as of `within_nodes`
    """
    place, weight = places_of(moments, low.shape[-1])
    share = share_of_corners(low[:, :, None] + width[:, :, None] * place)
    n, b, points, _ = share.shape
    rows = basis[corner]  # (n, b, 2^C, B)
    inner = (share @ rows).reshape(n, b * points, -1)
    nodes = np.broadcast_to(basis, (n, *basis.shape))
    design = np.concatenate((nodes, inner), axis=1)
    return design, np.concatenate((trials, weight.reshape(n, -1)), axis=1)


def _mode_between(
    basis: Array,
    offset: float,
    trials: Array,
    moments: Array,
    where: list[Array],
    pull: Array,
    start: Array,
) -> tuple[Array, Array]:
    """Find the mode as `_mode` does, of rows on nodes and in boxes; a few states at a time."""
    n, b = start.shape
    mean, precision = np.empty_like(start), np.empty((n, b, b))
    points = b + moments.shape[1] * 2 * where[1].shape[-1]
    step = max(1, _MOST // (points * b))
    for first in range(0, n, step):
        some = slice(first, first + step)
        design, mass = _with_points(
            basis, trials[some], moments[some], *(part[some] for part in where)
        )
        mean[some], precision[some] = _mode(design, offset, mass, pull[some], start[some])
    return mean, precision


def _mode(
    design: Array, offset: float, trials: Array, pull: Array, start: Array
) -> tuple[Array, Array]:
    """Find the mode of z (n, B) under N(0, I): zᵀpull − Σ trials·log(1 + exp(offset + design·z)).

    design : (P, B) shared by all, or (n, P, B). Newton steps, damped as in
    `gdcb.logistic.logistic_mode`, whose sums by columns would cost B² passes here. Each of the n
    stops by itself. Returns the mode and the precision there.
    """
    mean = start.copy()
    active = np.arange(start.shape[0])
    for _ in range(200):
        z, here = mean[active], design if design.ndim == 2 else design[active]
        p, precision = _precision(here, offset, trials[active], z)
        expected = (here.swapaxes(-1, -2) @ (trials[active] * p)[..., None])[..., 0]
        gradient = pull[active] - expected - z
        step = np.linalg.solve(precision, gradient[..., None])[..., 0]
        reach = np.abs(here @ step[..., None])[..., 0].max(axis=1, initial=1e-300)
        mean[active] = z + step * (np.log1p(reach) / reach)[:, None]
        active = active[reach > 1e-7]  # the error after a step is of the order of its square
        if active.size == 0:
            break
    return mean, _precision(design, offset, trials, mean)[1]


def _precision(design: Array, offset: float, trials: Array, z: Array) -> tuple[Array, Array]:
    """Return the probabilities (n, P) and I + designᵀ·diag(trials·p·(1 − p))·design."""
    p = logistic(offset + (design @ z[..., None])[..., 0])
    turned = design.swapaxes(-1, -2)
    curvature = trials * p * (1.0 - p)
    return p, np.eye(z.shape[1]) + (turned * curvature[:, None, :]) @ design
