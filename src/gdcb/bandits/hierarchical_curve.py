"""Response curves of units that share a group's: one joint posterior, each curve a deviation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array, logistic
from gdcb.bandits.base import check_factor
from gdcb.bandits.curve import CurveThompson, known_rows
from gdcb.bandits.nodes import frame_of, require_metric
from gdcb.bandits.predictive import log_bernoulli, moderated
from gdcb.bandits.prequential import rows_of
from gdcb.errors import InvalidInput
from gdcb.logistic import LogisticPosterior, left_out, times, turn_of
from gdcb.parts import check_number
from gdcb.records import Evidence, Located, Setting
from gdcb.streams import Stream

_MOST_UNITS = 64


@dataclass(slots=True)
class HierarchicalCurveState:
    """One normal posterior a group, of (m_g, the deviation of its first unit, its second, …).

    Parameters
    ----------
    frame : (2, C) middle and half-width of the arms, which scale coordinates to [−1, 1]
    group, place : (cells,) the group of each cell, and which of its units it is
    mean : (groups, d) posterior mean, d = m·(1 + units a group)
    root : (groups, d, d) with root·rootᵀ = posterior covariance
    """

    frame: Array = field(metadata={"axis": "constant"})
    group: Array = field(metadata={"axis": "constant"})
    place: Array = field(metadata={"axis": "constant"})
    mean: Array = field(metadata={"axis": "pool"})
    root: Array = field(metadata={"axis": "pool"})


@dataclass(frozen=True)
class HierarchicalCurveThompson:
    """Thompson sampling on response curves whose coefficients scatter around their group's.

    Unit u of group g has the coefficients w_u = m_g + v_u, with m_g ~ N(prior_mean, prior_sd²) of
    the curve and v_u ~ N(0, own_sd²); P(y = 1) = σ(φᵀw_u) with the curve's features φ. What one
    unit sees moves m_g, and with it what every unit of the group expects. Posterior of (m_g, v) is
    one normal, moved row by row to the mode of prior × likelihood; `refit` puts the exact mode of
    all rows in place.

    Parameters
    ----------
    curve : the form of the curves and the prior of the group's coefficients (logistic link)
    own_sd : standard deviation of a unit's coefficients around its group's; a number, or one each
    width : what the posterior's standard deviation is multiplied with; 1 is Thompson sampling

    Notes
    -----
    Assumes: units of a group are exchangeable, their coefficients normal around the group's with
    the declared spread; rows are independent given them.

    Stops applying: the joint posterior has m·(1 + units) coefficients, so a group of hundreds of
    units is refused; group them by market or ward. A unit unlike all others is pulled to them by
    as much as own_sd says. Row by row the Laplace approximation lies off the exact mode, as in
    `LogisticPosterior`, until the next refit.

    Examples
    --------
    One arm coordinate c ∈ {−1, 1}, two units of one group, all standard deviations 1. Before any
    row w_u has variance 1 + 1 in each coefficient. A win of the first unit raises what the
    second expects, by half as much on the scale of the predictor: cov(w_1, w_2) = 1 of 2.

    >>> from gdcb.arms import ArmList
    >>> bandit = HierarchicalCurveThompson(CurveThompson(prior_sd=1.0), own_sd=1.0)
    >>> arms, zero = ArmList(values=(-1.0, 1.0)).build(), np.zeros(1, dtype=int)
    >>> state = bandit.init(np.zeros(2, dtype=int), arms)
    >>> one = np.ones(1)
    >>> bandit.update(state, Evidence(zero, zero, np.ones((1, 1)), one, None, one))
    >>> first, second = (state.mean[0, :2] + state.mean[0, at : at + 2] for at in (2, 4))
    >>> (second / first).round(9).tolist()
    [0.5, 0.5]
    """

    curve: CurveThompson = field(default_factory=CurveThompson, metadata={"part": "bandit"})
    own_sd: float | tuple[float, ...] = 0.5
    width: float = 1.0
    supports: ClassVar[frozenset[str]] = frozenset({"decay", "predictive", "refit"})
    target: ClassVar[str] = "class"
    likelihood: ClassVar[str] = "bernoulli"
    is_curve: ClassVar[bool] = True

    def __post_init__(self) -> None:
        curve: object = self.curve
        if not isinstance(curve, CurveThompson) or curve.link != "logistic":
            raise InvalidInput(f"bandit.curve: expected a logistic CurveThompson, got {curve!r}")
        sds = self.own_sd if isinstance(self.own_sd, tuple) else (self.own_sd,)
        for sd in sds:
            check_number("bandit.own_sd", sd, 0.0, open_low=True)
        check_number("bandit.width", self.width, 0.0)

    @property
    def is_contextual(self) -> bool:
        """Whether the curve reads δ."""
        return self.curve.is_contextual

    @property
    def rebuilds(self) -> str | None:
        """Return how the curve gets the action back from c and δ; None: it does not."""
        return self.curve.rebuilds

    def init(self, group: Array, arms: Arms) -> HierarchicalCurveState:
        """Return the prior."""
        require_metric(arms, "HierarchicalCurveThompson")
        place = turn_of(group)
        units = int(place.max()) + 1
        if units > _MOST_UNITS:
            raise InvalidInput(
                f"HierarchicalCurveThompson: expected at most {_MOST_UNITS} units a group, got "
                f"{units}; make smaller groups"
            )
        mean, sd = self._prior(arms.n_coords, units)
        prior = LogisticPosterior.prior(int(group.max()) + 1, mean, sd)
        return HierarchicalCurveState(
            frame_of(arms), np.array(group), place, prior.mean, prior.root
        )

    def _prior(self, n_coords: int, units: int) -> tuple[Array, Array]:
        """Return mean and standard deviation (d,) of the joint coefficients."""
        mean, sd = self.curve.prior(n_coords)
        if isinstance(self.own_sd, tuple) and len(self.own_sd) != mean.size:
            raise InvalidInput(
                f"bandit.own_sd: expected {mean.size} numbers, got {len(self.own_sd)}"
            )
        own = np.broadcast_to(np.asarray(self.own_sd, dtype=float), mean.shape)
        zeros = np.zeros(mean.size * units)
        return np.concatenate((mean, zeros)), np.concatenate((sd, np.tile(own, units)))

    def _own(self, state: HierarchicalCurveState, cell: Array) -> tuple[Array, Array]:
        """Return mean (N, m) and root (N, m, d) of the coefficients w_u of some cells."""
        group, place = state.group[cell], state.place[cell]
        m = self._n_features(state)
        at = np.arange(m)
        own = at + (m * (1 + place))[:, None]
        mean = state.mean[group[:, None], at] + state.mean[group[:, None], own]
        root = state.root[group[:, None], at] + state.root[group[:, None], own]
        return mean, root

    def _n_features(self, state: HierarchicalCurveState) -> int:
        c = int(state.frame.shape[1])
        return 1 + c * (self.curve.degree + self.curve.is_contextual)

    def draw(self, rng: Stream, state: HierarchicalCurveState, at: Setting) -> Array:
        """Sample each row's curve in c: coefficients, and the scaling of c behind them."""
        mean, root = self._own(state, at.cell)
        z = rng.normal(*mean.shape)
        moved = np.linalg.cholesky(root @ root.swapaxes(-1, -2)) @ z[..., None]
        return self.curve.framed(state.frame, mean + self.width * moved[..., 0], at)

    def value(self, draw: Array, located: Located) -> Array:
        """Evaluate the drawn curves at located actions."""
        return self.curve.value(draw, located)

    def mean(self, state: HierarchicalCurveState, at: Setting, located: Located) -> Array:
        """Return E σ(η) at located actions."""
        mean, root = self._own(state, at.cell)
        phi = self.curve.at_actions(state.frame, at, located)
        along = phi @ root
        return moderated(times(mean, phi), (along * along).sum(axis=-1))

    def predictive(self, state: HierarchicalCurveState, evidence: Evidence) -> Array:
        """Return the log density of each outcome before it is learned; NaN where nothing ran."""
        eta, variance = self._ahead(state, evidence)
        return log_bernoulli(evidence.y, moderated(eta, variance), moderated(-eta, variance))

    def leave_one_out(self, state: HierarchicalCurveState, evidence: Evidence) -> Array:
        """Return the log density of learned outcomes, each as if it had not been learned."""
        eta, variance = left_out(*self._ahead(state, evidence), evidence.y, evidence.weight)
        return log_bernoulli(evidence.y, moderated(eta, variance), moderated(-eta, variance))

    def _ahead(self, state: HierarchicalCurveState, evidence: Evidence) -> tuple[Array, Array]:
        self.curve.check_evidence(evidence)
        mean, root = self._own(state, evidence.cell)
        phi = self.curve.inputs(state.frame, evidence.coord, evidence.delta)
        along = (phi[:, None, :] @ root)[:, 0]
        return (phi * mean).sum(axis=1), (along * along).sum(axis=1)

    def update(self, state: HierarchicalCurveState, evidence: Evidence) -> None:
        """Learn rows one after the other, those of different groups side by side."""
        self.curve.check_evidence(evidence)
        rows = rows_of(evidence, known_rows(evidence))
        if rows.cell.size == 0:
            return
        phi = self.curve.inputs(state.frame, rows.coord, rows.delta)
        n, m = phi.shape
        design = np.zeros((n, state.mean.shape[1]))
        design[:, :m] = phi
        own = np.arange(m) + (m * (1 + state.place[rows.cell]))[:, None]
        design[np.arange(n)[:, None], own] = phi
        posterior = LogisticPosterior(state.mean, state.root)
        posterior.observe(state.group[rows.cell], design, rows.y, rows.weight)

    def refit(self, state: HierarchicalCurveState, evidence: Evidence) -> None:
        """Put the exact mode of rows in place of what every group among them has learned."""
        self.curve.check_evidence(evidence)
        groups = np.unique(state.group[evidence.cell])
        rows = rows_of(evidence, known_rows(evidence))
        order = np.argsort(rows.cell, kind="stable")
        rows = rows_of(rows, order)
        phi = self.curve.inputs(state.frame, rows.coord, rows.delta)
        m = phi.shape[1]
        units = state.mean.shape[1] // m - 1
        mean, sd = self._prior(state.frame.shape[1], units)
        cells, start = np.unique(rows.cell, return_index=True)
        target = np.searchsorted(groups, state.group[cells])
        fit = _Joint(phi, rows.y, rows.weight, start, target, state.place[cells], units)
        found, precision = fit.mode(state.mean[groups], mean, sd**-2.0)
        state.mean[groups] = found
        state.root[groups] = np.linalg.inv(np.linalg.cholesky(precision)).swapaxes(-1, -2)

    def decay(self, state: HierarchicalCurveState, factor: float, cell: Array) -> None:
        """Keep `factor` of the evidence of the groups of some cells; the prior stays."""
        if check_factor(factor) == 1.0:
            return
        m = self._n_features(state)
        prior = self._prior(state.frame.shape[1], state.mean.shape[1] // m - 1)
        groups = np.unique(state.group[cell])
        LogisticPosterior(state.mean, state.root).decay(groups, factor, *prior)


@dataclass(slots=True)
class _Joint:
    """Newton's method on the joint posterior of a group, whose Hessian is an arrow.

    Parameters
    ----------
    phi, y, weight : (N, m), (N,), (N,) rows sorted by cell
    start : (cells,) the first row of every cell
    target, place : (cells,) the group of each, counted from 0, and which of its units it is
    units : a group
    """

    phi: Array
    y: Array
    weight: Array
    start: Array
    target: Array
    place: Array
    units: int

    def mode(self, at: Array, mean: Array, precision: Array) -> tuple[Array, Array]:
        """Return the mode (groups, d) from `at` on and the precision there (groups, d, d).

        Steps are damped as in `logistic_mode`. Every group stops by itself; rows of a cell are
        summed in their order, whatever other cells there are.
        """
        w = at.copy()
        active = np.ones(w.shape[0], dtype=bool)
        for _ in range(200):
            gradient, hessian = self._derivatives(w)
            gradient -= precision * (w - mean)
            hessian += np.diag(precision)
            step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
            reach = np.maximum(self._reach(step), 1e-300)  # no rows: the whole way to the prior
            share = np.log1p(reach) / reach
            w = np.where(active[:, None], w + step * share[:, None], w)
            active &= reach > 1e-7
            if not active.any():
                break
        return w, self._derivatives(w)[1] + np.diag(precision)

    def _coefficients(self, w: Array) -> Array:
        """Return w_u of every cell: (cells, m)."""
        m = self.phi.shape[1]
        own = np.arange(m) + (m * (1 + self.place))[:, None]
        return np.asarray(w[self.target, :m] + w[self.target[:, None], own])

    def _spread(self, values: Array) -> Array:
        """Repeat what belongs to a cell for each of its rows."""
        return np.repeat(values, np.diff(np.append(self.start, self.y.size)), axis=0)

    def _reach(self, step: Array) -> Array:
        moved = np.abs((self.phi * self._spread(self._coefficients(step))).sum(axis=1))
        by_cell = np.maximum.reduceat(moved, self.start)
        reach = np.zeros(step.shape[0])
        np.maximum.at(reach, self.target, by_cell)
        return reach

    def _derivatives(self, w: Array) -> tuple[Array, Array]:
        phi, m = self.phi, self.phi.shape[1]
        p = logistic((phi * self._spread(self._coefficients(w))).sum(axis=1))
        residual, curvature = self.weight * (self.y - p), self.weight * p * (1.0 - p)
        first = np.add.reduceat(residual[:, None] * phi, self.start)
        second = np.empty((self.start.size, m, m))
        for j in range(m):
            for k in range(j, m):
                sums = np.add.reduceat(curvature * phi[:, j] * phi[:, k], self.start)
                second[:, j, k] = second[:, k, j] = sums
        groups, d = w.shape
        blocks = (groups, 1 + self.units, m)
        gradient = np.zeros(blocks)
        gradient[self.target, 1 + self.place] = first
        gradient[:, 0] = gradient[:, 1:].sum(axis=1)
        hessian = np.zeros((groups, 1 + self.units, m, 1 + self.units, m))
        at = 1 + self.place
        hessian[self.target, at, :, at, :] = second
        hessian[self.target, 0, :, at, :] = second
        hessian[self.target, at, :, 0, :] = second
        hessian[:, 0, :, 0, :] = hessian[:, 0, :, 1:, :].sum(axis=2)
        return gradient.reshape(groups, d), hessian.reshape(groups, d, d)
