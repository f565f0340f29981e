"""Response curves of units that share a group's: each curve a deviation from it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array, distinct, is_all, is_any, logistic, scatter_add, stable_order
from gdcb.bandits.base import check_factor
from gdcb.bandits.curve import CurveThompson, known_rows
from gdcb.bandits.nodes import frame_of, require_metric
from gdcb.bandits.predictive import log_moderated, moderated
from gdcb.bandits.prequential import rows_of
from gdcb.errors import InvalidInput
from gdcb.logistic import NEAR, LogisticPosterior, left_out, times, turn_of
from gdcb.parts import check_number, check_size, numbers, take_lists
from gdcb.records import Evidence, Located, Setting
from gdcb.streams import Stream

LEAST_OWN = 1e-5  # below it what units tell each other is a difference of equal numbers
_AT_ONCE = 2**13  # rows whose matrices stay in a cache


@dataclass(slots=True)
class HierarchicalCurveState:
    """What every unit knows: from its group, as of the last time they shared, and by itself.

    Parameters
    ----------
    frame : (2, C) middle and half-width of the arms, which scale coordinates to [−1, 1]
    group : (cells,) the group of each cell
    mean, root : (cells, m), (cells, m, m) posterior of w_u; root·rootᵀ is its covariance
    others_mean, others : (cells, m), (cells, m, m) what the rest of the group says of w_u: mean
        and precision of a normal. Posterior less this is what the unit's own rows say
    rows, since : (groups,) Σ weight of the rows learned so far, and since the units last shared
    place : (groups,) how many rows came behind the last time that they could share
    """

    frame: Array = field(metadata={"axis": "constant"})
    group: Array = field(metadata={"axis": "constant"})
    mean: Array
    root: Array
    others_mean: Array
    others: Array
    rows: Array = field(metadata={"axis": "pool"})
    since: Array = field(metadata={"axis": "pool"})
    place: Array = field(metadata={"axis": "pool"})


@dataclass(frozen=True)
class HierarchicalCurveThompson:
    """Thompson sampling on response curves whose coefficients scatter around their group's.

    Unit u of group g has the coefficients w_u = m_g + v_u, with m_g ~ N(prior_mean, prior_sd²) of
    the curve and v_u ~ N(0, own_sd²); P(y = 1) = σ(φᵀw_u) with the curve's features φ. A unit
    learns its own rows one by one, each moving its normal posterior to the mode of prior ×
    likelihood. Now and then the units of a group share: with L_u and L_u·ŵ_u what u's rows say of
    w_u (precision and shift), u tells its group (L_u⁻¹ + own_sd²)⁻¹ of m_g, and hears from the
    others N(their mean, their variance + own_sd²). For normal likelihoods that is the exact
    posterior. `refit` does both until the joint mode of all rows stands still: Newton's method,
    linear in the number of units.

    Parameters
    ----------
    curve : the form of the curves and the prior of the group's coefficients (logistic link)
    own_sd : standard deviation of a unit's coefficients around its group's; a number, or one each.
        At least 1e-5: nearer units lose their digits, and are better made one
    share : units share once the weight of the rows since the last time is this part of that
        before. They can whenever as many rows came as there are units; with 0 they then do
    width : what the posterior's standard deviation is multiplied with; 1 is Thompson sampling

    Notes
    -----
    Assumes: units of a group are exchangeable, their coefficients normal around the group's with
    the declared spread; rows are independent given them.

    Stops applying: a unit unlike all others is pulled to them by as much as own_sd says. Between
    two times of sharing a unit does not see what the others learned. Row by row the Laplace
    approximation lies off the exact mode, as in `LogisticPosterior`, until the next refit.

    Examples
    --------
    One arm coordinate c ∈ {−1, 1}, two units of one group, all standard deviations 1: before any
    row w_u has variance 1 + 1 in each coefficient, and two units the covariance 1. A batch of one
    win each at c = 1, φ = (1, 1): both coefficients of both units rise alike.

    >>> from gdcb.arms import ArmList
    >>> bandit = HierarchicalCurveThompson(CurveThompson(prior_sd=1.0), own_sd=1.0)
    >>> arms, both = ArmList(values=(-1.0, 1.0)).build(), np.arange(2)
    >>> state = bandit.init(np.zeros(2, dtype=int), arms)
    >>> (state.root[0] @ state.root[0].T).round(9).tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    >>> one = np.ones(2)
    >>> bandit.update(state, Evidence(both, both * 0 + 1, np.ones((2, 1)), one, None, one))
    >>> bool(np.ptp(state.mean) < 1e-12), bool((state.mean > 0.3).all())
    (True, True)
    """

    curve: CurveThompson = field(default_factory=CurveThompson, metadata={"part": "bandit"})
    own_sd: float | tuple[float, ...] = 0.5
    share: float = 0.25
    width: float = 1.0
    supports: ClassVar[frozenset[str]] = frozenset({"decay", "predictive", "refit"})
    target: ClassVar[str] = "class"
    likelihood: ClassVar[str] = "bernoulli"
    is_curve: ClassVar[bool] = True

    def __post_init__(self) -> None:
        take_lists(self)
        curve: object = self.curve
        if not isinstance(curve, CurveThompson) or curve.link != "logistic":
            raise InvalidInput(f"bandit.curve: expected a logistic CurveThompson, got {curve!r}")
        sds = self.own_sd if isinstance(self.own_sd, tuple) else (self.own_sd,)
        for sd in sds:
            check_number("bandit.own_sd", sd, LEAST_OWN)
        check_number("bandit.share", self.share, 0.0)
        check_number("bandit.width", self.width, 0.0)

    @property
    def reads(self) -> frozenset[str]:
        """Return what the curve reads."""
        return self.curve.reads

    @property
    def rebuilds(self) -> str | None:
        """Return how the curve gets the action back from c and δ; None: it does not."""
        return self.curve.rebuilds

    def init(self, group: Array, arms: Arms) -> HierarchicalCurveState:
        """Return the prior."""
        require_metric(arms, "HierarchicalCurveThompson")
        cells, groups = group.shape[0], int(group.max()) + 1
        mean, variance, own = self._prior(arms.n_coords)
        both = variance + own
        check_size("bandit", "coefficients, squared", both.size, both.size)
        return HierarchicalCurveState(
            frame_of(arms),
            np.array(group),
            np.tile(mean, (cells, 1)),
            np.tile(np.diag(np.sqrt(both)), (cells, 1, 1)),
            np.tile(mean, (cells, 1)),
            np.tile(np.diag(1.0 / both), (cells, 1, 1)),
            np.zeros(groups),
            np.zeros(groups),
            np.zeros(groups, dtype=np.int64),
        )

    def _prior(self, n_coords: int) -> tuple[Array, Array, Array]:
        """Return mean and variance of m_g, and the variance of v_u: (m,) each."""
        mean, sd = self.curve.prior(n_coords)
        if isinstance(self.own_sd, tuple) and len(self.own_sd) != mean.size:
            raise InvalidInput(
                f"bandit.own_sd: expected {numbers(mean.size)}, got {len(self.own_sd)}"
            )
        own = np.broadcast_to(np.asarray(self.own_sd, dtype=float), mean.shape)
        return mean, sd**2, own**2

    def draw(self, rng: Stream, state: HierarchicalCurveState, at: Setting) -> Array:
        """Sample each row's curve in c: coefficients, and the scaling of c behind them."""
        mean = state.mean.take(at.cell, axis=0)
        z = self.width * rng.normal(*mean.shape)
        moved = (state.root.take(at.cell, axis=0) @ z[..., None])[..., 0]
        return self.curve.framed(state.frame, mean + moved, at)

    def value(self, draw: Array, located: Located) -> Array:
        """Evaluate the drawn curves at located actions."""
        return self.curve.value(draw, located)

    def mean(self, state: HierarchicalCurveState, at: Setting, located: Located) -> Array:
        """Return E σ(η) at located actions."""
        phi = self.curve.at_actions(state.frame, at, located)
        along = phi @ state.root[at.cell]
        return moderated(times(state.mean[at.cell], phi), (along * along).sum(axis=-1))

    def predictive(self, state: HierarchicalCurveState, evidence: Evidence) -> Array:
        """Return the log density of each outcome before it is learned; NaN where nothing ran."""
        return log_moderated(evidence.y, *self._ahead(state, evidence))

    def leave_one_out(self, state: HierarchicalCurveState, evidence: Evidence) -> Array:
        """Return the log density of learned outcomes, each as if it had not been learned."""
        ahead = self._ahead(state, evidence)
        return log_moderated(evidence.y, *left_out(*ahead, evidence.y, evidence.weight))

    def _ahead(self, state: HierarchicalCurveState, evidence: Evidence) -> tuple[Array, Array]:
        """Return mean and variance (N,) of the predictor of every row."""
        self.curve.check_evidence(evidence)
        phi = self.curve.inputs(state.frame, evidence.coord, evidence.delta)
        eta, variance = np.empty(phi.shape[0]), np.empty(phi.shape[0])
        for start in range(0, eta.size, _AT_ONCE):  # every row gets a copy of its cell's matrix
            some = slice(start, start + _AT_ONCE)
            cell, here = evidence.cell[some], phi[some]
            along = (here[:, None, :] @ state.root.take(cell, axis=0))[:, 0]
            eta[some] = (here * state.mean.take(cell, axis=0)).sum(axis=1)
            variance[some] = (along * along).sum(axis=1)
        return eta, variance

    def update(self, state: HierarchicalCurveState, evidence: Evidence) -> None:
        """Let every unit learn its own rows; then let those share that are due."""
        self.curve.check_evidence(evidence)
        known = known_rows(evidence)
        if known.size == 0:
            return
        rows = evidence if known.size == evidence.cell.size else rows_of(evidence, known)
        _require_finite(rows.weight)
        phi = self.curve.inputs(state.frame, rows.coord, rows.delta)
        posterior, group = LogisticPosterior(state.mean, state.root), state.group[rows.cell]
        left = np.arange(rows.cell.size)
        units = np.bincount(state.group, minlength=state.rows.size)
        while left.size:  # mostly once: a group shares behind the same row in a batch and a loop
            until = np.maximum(units - state.place, 1)
            now, left = left, left[:0]
            seen = np.bincount(group[now], minlength=until.size)
            if is_any(seen > until):
                is_next = turn_of(group[now]) < until[group[now]]
                now, left = now[is_next], now[~is_next]
                seen = np.minimum(seen, until)
            posterior.observe(rows.cell[now], phi[now], rows.y[now], rows.weight[now])
            scatter_add(state.rows, group[now], rows.weight[now])
            scatter_add(state.since, group[now], rows.weight[now])
            state.place += seen
            can = seen == until
            state.place[can] = 0
            due = np.flatnonzero(can & (state.since >= self.share * (state.rows - state.since)))
            if due.size:
                self._share(state, due)

    def _share(self, state: HierarchicalCurveState, groups: Array) -> None:
        """Let the units of some groups hear what the others' rows say."""
        cells = np.flatnonzero(np.isin(state.group, groups))
        precision = _precision(state.root[cells])
        own = precision - state.others[cells]
        shift = _times(precision, state.mean[cells])
        shift -= _times(state.others[cells], state.others_mean[cells])
        self._hear(state, cells, own, shift)
        state.since[groups] = 0.0

    def _hear(self, state: HierarchicalCurveState, cells: Array, own: Array, shift: Array) -> None:
        """Put in force what all rows say: own (n, m, m) and shift (n, m) of whole groups' cells."""
        mean, variance, apart = self._prior(state.frame.shape[1])
        n_groups, m = state.rows.size, mean.size
        # (L⁻¹ + D)⁻¹ = D⁻¹ − D⁻¹(L + D⁻¹)⁻¹D⁻¹, which needs no inverse of L.
        near = 1.0 / apart
        inner = _inverse(own + np.diag(near))
        told = np.diag(near) - near[:, None] * inner * near
        pull = near * _times(inner, shift)
        total, sums = np.zeros((n_groups, m, m)), np.zeros((n_groups, m))
        scatter_add(total, state.group[cells], told)
        scatter_add(sums, state.group[cells], pull)
        rest = total[state.group[cells]] - told + np.diag(1.0 / variance)
        pulled = sums[state.group[cells]] - pull + mean / variance
        spread = _inverse(rest)
        others = _inverse(spread + np.diag(apart))
        state.others_mean[cells] = _times(spread, pulled)
        state.others[cells] = others
        covariance = _inverse(others + own)
        state.mean[cells] = _times(covariance, shift + _times(others, state.others_mean[cells]))
        state.root[cells] = np.linalg.cholesky(covariance)

    def refit(self, state: HierarchicalCurveState, evidence: Evidence) -> None:
        """Put the exact mode of rows in place of what every group among them has learned."""
        self.curve.check_evidence(evidence)
        groups = distinct(state.group[evidence.cell])
        cells = np.flatnonzero(np.isin(state.group, groups))
        known = known_rows(evidence)
        order = known[stable_order(evidence.cell[known])]
        rows = rows_of(replace(evidence, x=None), order)
        _require_finite(rows.weight)
        phi = self.curve.inputs(state.frame, rows.coord, rows.delta)
        start = np.searchsorted(rows.cell, cells)
        count = np.searchsorted(rows.cell, cells, side="right") - start
        data = _CellRows(phi, rows.y, rows.weight, start[count > 0], count[count > 0])
        some, m = np.flatnonzero(count > 0), phi.shape[1]
        own, shift = np.zeros((cells.size, m, m)), np.zeros((cells.size, m))
        active = np.ones(groups.size, dtype=bool)
        member = np.searchsorted(groups, state.group[cells])
        at = state.mean[cells]
        for _ in range(200 if some.size else 0):
            own[some], shift[some] = data.linearised(at[some])
            self._hear(state, cells, own, shift)
            step = state.mean[cells] - at
            reach = np.zeros(groups.size)
            np.maximum.at(reach, member[some], data.reach(step[some]))
            # Damped as in `logistic_mode`; every group stops by itself.
            part = np.where(active, np.log1p(reach) / np.maximum(reach, 1e-300), 0.0)
            at = at + part[member][:, None] * step
            active &= reach > NEAR
            if not is_any(active):
                break
        if some.size:
            own[some], shift[some] = data.linearised(at[some])
        self._hear(state, cells, own, shift)
        state.rows[groups], state.place[groups] = 0.0, 0
        scatter_add(state.rows, state.group[rows.cell], rows.weight)
        state.since[groups] = 0.0

    def decay(self, state: HierarchicalCurveState, factor: float, cell: Array) -> None:
        """Keep `factor` of what some cells' own rows say; their groups share at once."""
        if check_factor(factor) == 1.0:
            return
        groups = np.unique(state.group[cell])
        cells = np.flatnonzero(np.isin(state.group, groups))
        precision = _precision(state.root[cells])
        own = precision - state.others[cells]
        shift = _times(precision, state.mean[cells])
        shift -= _times(state.others[cells], state.others_mean[cells])
        kept = np.where(np.isin(cells, cell), factor, 1.0)
        self._hear(state, cells, kept[:, None, None] * own, kept[:, None] * shift)
        member = np.searchsorted(groups, state.group[cells])
        state.rows[groups] *= np.bincount(member, kept) / np.bincount(member)
        state.since[groups] = 0.0


@dataclass
class _CellRows:
    """Rows sorted by cell, every cell with at least one.

    Parameters
    ----------
    phi, y, weight : (N, m), (N,), (N,)
    start, count : (cells,) the first row of each cell, and how many there are
    """

    phi: Array
    y: Array
    weight: Array
    start: Array
    count: Array

    def _predictor(self, w: Array) -> Array:
        """Return φᵀw of every row under its cell's coefficients (cells, m)."""
        repeated = np.repeat(w.T, self.count, axis=1)
        total = self._columns[0] * repeated[0]
        for column, weight in zip(self._columns[1:], repeated[1:], strict=True):
            total += column * weight
        return np.asarray(total)

    def reach(self, step: Array) -> Array:
        """Return how far a step moves the predictors of each cell: (cells,)."""
        return np.asarray(np.maximum.reduceat(np.abs(self._predictor(step)), self.start))

    def linearised(self, w: Array) -> tuple[Array, Array]:
        """Return precision (cells, m, m) and shift (cells, m) of the likelihood around w.

        Rows of a cell are summed in their order, whatever other cells there are.
        """
        columns, m = self._columns, len(self._columns)
        p = logistic(self._predictor(w))
        residual, curvature = self.weight * (self.y - p), self.weight * p * (1.0 - p)
        precision = np.zeros((self.start.size, m, m))
        shift = np.empty((self.start.size, m))
        for j in range(m):
            shift[:, j] = np.add.reduceat(residual * columns[j], self.start)
        for (j, k), product in self._products.items():
            sums = np.add.reduceat(curvature * product, self.start)
            precision[:, j, k] = precision[:, k, j] = sums
        return precision, shift + _times(precision, w)

    @cached_property
    def _columns(self) -> Array:
        """The columns of φ, each in one piece of memory: (m, N)."""
        return np.ascontiguousarray(self.phi.T)

    @cached_property
    def _products(self) -> dict[tuple[int, int], Array]:
        """Products of two columns of φ, but for those that are 0 in every row, as of two arms."""
        m = len(self._columns)
        pairs = ((j, k) for j in range(m) for k in range(j, m))
        found = {(j, k): self._columns[j] * self._columns[k] for j, k in pairs}
        return {pair: product for pair, product in found.items() if product.any()}


def _require_finite(weight: Array) -> None:
    """Refuse weights without end, before anything is written."""
    if not is_all(np.isfinite(weight)):
        raise InvalidInput(f"weight: expected finite numbers >= 0, got {weight}")


def _precision(root: Array) -> Array:
    """Return the inverse of root·rootᵀ."""
    return _inverse(root @ root.swapaxes(-1, -2))


def _inverse(matrix: Array) -> Array:
    """Return the inverses of positive definite matrices (n, m, m); by formula up to three rows.

    >>> _inverse(np.array([[[2.0, 1.0], [1.0, 1.0]]])).tolist()
    [[[1.0, -1.0], [-1.0, 2.0]]]
    """
    m = matrix.shape[-1]
    if m == 2:
        a, b, d = matrix[:, 0, 0], matrix[:, 0, 1], matrix[:, 1, 1]
        out = np.empty_like(matrix)
        out[:, 0, 0], out[:, 1, 1], out[:, 0, 1], out[:, 1, 0] = d, a, -b, -b
        return np.asarray(out / (a * d - b * b)[:, None, None])
    if m != 3:
        return np.linalg.inv(matrix)
    a, b, c = matrix[:, 0, 0], matrix[:, 0, 1], matrix[:, 0, 2]
    d, e, f = matrix[:, 1, 1], matrix[:, 1, 2], matrix[:, 2, 2]
    out = np.empty_like(matrix)
    out[:, 0, 0], out[:, 1, 1], out[:, 2, 2] = d * f - e * e, a * f - c * c, a * d - b * b
    out[:, 0, 1], out[:, 0, 2], out[:, 1, 2] = c * e - b * f, b * e - c * d, b * c - a * e
    out[:, 1, 0], out[:, 2, 0], out[:, 2, 1] = out[:, 0, 1], out[:, 0, 2], out[:, 1, 2]
    det = a * out[:, 0, 0] + b * out[:, 0, 1] + c * out[:, 0, 2]
    return np.asarray(out / det[:, None, None])


def _times(matrix: Array, vector: Array) -> Array:
    """Return matrix (n, m, m) · vector (n, m)."""
    return np.asarray((matrix @ vector[..., None])[..., 0])
