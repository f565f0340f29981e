"""Response curves of rewards whose units share a group's: each curve a deviation from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array, distinct, is_all, scatter_add
from gdcb.bandits.base import check_factor, require_same_shape
from gdcb.bandits.curve import CurveThompson, known_rows
from gdcb.bandits.nodes import frame_of, require_metric, require_same_arms
from gdcb.bandits.predictive import log_normal
from gdcb.errors import InvalidInput
from gdcb.parts import check_number, numbers, take_lists
from gdcb.records import Evidence, Located, Setting
from gdcb.streams import Stream

LEAST_OWN = 1e-5  # below it what units tell each other is a difference of equal numbers


@dataclass(slots=True)
class NormalCurveState:
    """Sums of every unit's own rows, and the posterior that the sums of its group imply.

    Parameters
    ----------
    frame : (2, C) middle and half-width of the arms, which scale coordinates to [−1, 1]
    group : (cells,) the group of each cell
    precision, shift : (cells, m, m), (cells, m) Σ w·s²·φφᵀ/noise² and Σ w·s·r·φ/noise²
    mean, root : (cells, m), (cells, m, m) posterior of w_u; root·rootᵀ is its covariance
    """

    frame: Array = field(metadata={"axis": "constant"})
    group: Array = field(metadata={"axis": "constant"})
    precision: Array
    shift: Array
    mean: Array
    root: Array


@dataclass(frozen=True)
class NormalCurveThompson:
    """Thompson sampling on curves of a reward whose coefficients scatter around their group's.

    Unit u of group g has the coefficients w_u = m_g + v_u, with m_g ~ N(prior_mean, prior_sd²) of
    the curve and v_u ~ N(0, own_sd²); r = s·φᵀw_u + N(0, noise²) with the curve's features φ and,
    behind them, the powers of δ up to `level`: what δ says of the context may also move the level
    of the reward, whichever arm runs. With L_u and L_u·ŵ_u what u's own rows say of w_u (precision
    and shift), u tells its group (L_u⁻¹ + own_sd²)⁻¹ of m_g; given m_g, w_u is a normal regression
    around it, and m_g is integrated out. The posterior of every unit is exact after every row,
    linear in the number of units.

    Parameters
    ----------
    curve : the form of the curves, their noise and the prior of the group's (identity link)
    own_sd : standard deviation of a unit's coefficients around its group's; a number, or one each,
        those of the level last. At least 1e-5: nearer units are better made one
    level : highest power of δ, in half-widths of the arms, that moves the level: 0, 1 or 2
    level_mean, level_sd : normal prior of their coefficients in a group, one a power
    width : what the posterior's standard deviation is multiplied with; 1 is Thompson sampling

    Notes
    -----
    Assumes: units of a group are exchangeable, their coefficients normal around the group's with
    the declared spreads; rewards are normal around the curve with the declared noise, the same in
    every row.

    Stops applying: a unit unlike all others is pulled to them by as much as own_sd says. Where the
    truth has another form than the curve, the posterior concentrates on the closest polynomial,
    with more confidence than it deserves. Spreads are declared and not learned.

    Examples
    --------
    One arm coordinate c ∈ {−1, 1}, two units of one group, all standard deviations 1. The first
    sees r = 3 at c = 1, φ = (1, 1): φᵀw_u has variance 2·(1 + 1) = 4 beforehand, so the first
    expects 3·4/5 = 2.4 there. The second shares half of that variance, and expects 3·2/5 = 1.2.

    >>> from gdcb.arms import ArmList
    >>> curve = CurveThompson(link="identity", prior_sd=1.0, noise=1.0)
    >>> bandit = NormalCurveThompson(curve, own_sd=1.0)
    >>> arms, zero = ArmList(values=(-1.0, 1.0)).build(), np.zeros(1, dtype=int)
    >>> state = bandit.init(np.zeros(2, dtype=int), arms)
    >>> seen = Evidence(zero, zero + 1, np.ones((1, 1)), np.array([3.0]), None, np.ones(1))
    >>> bandit.update(state, seen)
    >>> bandit.mean(state, Setting(np.arange(2)), arms.nominal)[:, 1].round(12).tolist()
    [2.4, 1.2]
    """

    curve: CurveThompson = field(
        default_factory=lambda: CurveThompson(link="identity"), metadata={"part": "bandit"}
    )
    own_sd: float | tuple[float, ...] = 0.5
    level: int = 0
    level_mean: tuple[float, ...] = ()
    level_sd: tuple[float, ...] = ()
    width: float = 1.0
    supports: ClassVar[frozenset[str]] = frozenset({"decay", "merge", "predictive"})
    target: ClassVar[str] = "any"
    likelihood: ClassVar[str] = "normal"
    is_curve: ClassVar[bool] = True

    def __post_init__(self) -> None:
        take_lists(self)
        curve: object = self.curve
        if not isinstance(curve, CurveThompson) or curve.link != "identity":
            raise InvalidInput(
                f"bandit.curve: expected a CurveThompson with link 'identity', got {curve!r}"
            )
        sds = self.own_sd if isinstance(self.own_sd, tuple) else (self.own_sd,)
        for sd in sds:
            check_number("bandit.own_sd", sd, LEAST_OWN)
        if isinstance(self.level, bool) or self.level not in (0, 1, 2):
            raise InvalidInput(f"bandit.level: expected 0, 1 or 2, got {self.level!r}")
        for name in ("level_mean", "level_sd"):
            given: Any = getattr(self, name)
            if not isinstance(given, tuple) or len(given) != self.level:
                raise InvalidInput(f"bandit.{name}: expected {numbers(self.level)}, got {given!r}")
            for one in given:
                check_number(f"bandit.{name}", one, 0.0 if name == "level_sd" else -np.inf)
        if 0.0 in self.level_sd:
            raise InvalidInput("bandit.level_sd: expected numbers > 0, got 0")
        check_number("bandit.width", self.width, 0.0)

    @property
    def reads(self) -> frozenset[str]:
        """Return {'delta'} where the curve reads it, or the level."""
        return self.curve.reads | ({"delta"} if self.level > 0 else set())

    @property
    def rebuilds(self) -> str | None:
        """Return how the curve gets the action back from c and δ; None: it does not."""
        return self.curve.rebuilds

    def init(self, group: Array, arms: Arms) -> NormalCurveState:
        """Return the prior."""
        require_metric(arms, "NormalCurveThompson")
        cells = group.shape[0]
        mean, variance, own = self._prior(arms.n_coords)
        m = mean.size
        return NormalCurveState(
            frame_of(arms),
            np.array(group),
            np.zeros((cells, m, m)),
            np.zeros((cells, m)),
            np.tile(mean, (cells, 1)),
            np.tile(np.diag(np.sqrt(variance + own)), (cells, 1, 1)),
        )

    def _prior(self, n_coords: int) -> tuple[Array, Array, Array]:
        """Return mean and variance of m_g, and the variance of v_u: (m,) each."""
        mean, sd = self.curve.prior(n_coords)
        mean, sd = np.append(mean, self.level_mean), np.append(sd, self.level_sd)
        if isinstance(self.own_sd, tuple) and len(self.own_sd) != mean.size:
            raise InvalidInput(
                f"bandit.own_sd: expected {numbers(mean.size)}, got {len(self.own_sd)}"
            )
        own = np.broadcast_to(np.asarray(self.own_sd, dtype=float), mean.shape)
        return mean, sd**2, own**2

    def draw(self, rng: Stream, state: NormalCurveState, at: Setting) -> Array:
        """Sample each row's curve in c: coefficients, and the scaling of c behind them."""
        mean = state.mean.take(at.cell, axis=0)
        z = self.width * rng.normal(*mean.shape)
        moved = (state.root.take(at.cell, axis=0) @ z[..., None])[..., 0]
        return self._framed(state.frame, mean + moved, at)

    def _framed(self, frame: Array, coefficients: Array, at: Setting) -> Array:
        """Return curves in c (N, …): what δ adds to the level goes into the intercept."""
        if not self.level:
            return self.curve.framed(frame, coefficients, at)
        d = coefficients.shape[1] - self.level
        framed = self.curve.framed(frame, coefficients[:, :d], at)
        powers = self._powers(frame, at.delta, coefficients.shape[0])
        for j in range(self.level):
            framed[:, 0] += coefficients[:, d + j] * powers[:, j]
        return framed

    def _powers(self, frame: Array, delta: Array | None, n: int) -> Array:
        """Return the powers of δ in half-widths of the arms: (N, level)."""
        if delta is None or delta.shape[:2] != (n, 1):
            shape = None if delta is None else delta.shape
            raise InvalidInput(f"NormalCurveThompson: its level needs one δ a row, got {shape}")
        first = delta[:, 0, 0] / frame[1, 0]
        return np.stack([first ** (j + 1) for j in range(self.level)], axis=1)

    def inputs(self, frame: Array, coord: Array, delta: Array | None) -> Array:
        """Return the features of located actions, coordinate (N, C), under their δ: (N, m)."""
        phi = self.curve.inputs(frame, coord, delta)
        if not self.level:
            return phi
        return np.concatenate((phi, self._powers(frame, delta, phi.shape[0])), axis=1)

    def value(self, draw: Array, located: Located) -> Array:
        """Evaluate the drawn curves at located actions."""
        return self.curve.value(draw, located)

    def mean(self, state: NormalCurveState, at: Setting, located: Located) -> Array:
        """Return the posterior mean at located actions."""
        return self.curve.value(self._framed(state.frame, state.mean[at.cell], at), located)

    def predictive(self, state: NormalCurveState, evidence: Evidence) -> Array:
        """Return the log density of each outcome before it is learned; NaN where nothing ran."""
        eta, variance, scale = self._ahead(state, evidence)
        return self._density(evidence.y, eta, variance, scale)

    def leave_one_out(self, state: NormalCurveState, evidence: Evidence) -> Array:
        """Return the log density of learned outcomes, each as if it had not been learned."""
        eta, variance, scale = self._ahead(state, evidence)
        pull = evidence.weight * scale / self.curve.noise**2
        spared = variance / np.maximum(1.0 - pull * scale * variance, 1e-12)
        eta = eta - pull * (evidence.y - scale * eta) * spared
        return self._density(evidence.y, eta, spared, scale)

    def _density(self, y: Array, eta: Array, variance: Array, scale: Array) -> Array:
        return log_normal(y, scale * eta, scale**2 * variance + self.curve.noise**2)

    def _ahead(self, state: NormalCurveState, evidence: Evidence) -> tuple[Array, Array, Array]:
        """Return mean and variance of the predictor of every row, and its scale: (N,) each."""
        self.curve.check_evidence(evidence)
        phi = self.inputs(state.frame, evidence.coord, evidence.delta)
        along = (phi[:, None, :] @ state.root[evidence.cell])[:, 0]
        eta = (phi * state.mean[evidence.cell]).sum(axis=1)
        scale = np.ones(eta.shape) if evidence.scale is None else evidence.scale
        return eta, (along * along).sum(axis=1), scale

    def update(self, state: NormalCurveState, evidence: Evidence) -> None:
        """Add the rows' sums, and refresh the posterior of the groups they touch."""
        self.curve.check_evidence(evidence)
        known = known_rows(evidence)
        cell, y, weight = evidence.cell[known], evidence.y[known], evidence.weight[known]
        if cell.size == 0:
            return
        if not is_all(np.isfinite(weight)):
            raise InvalidInput(f"weight: expected finite numbers >= 0, got {weight}")
        delta = None if evidence.delta is None else evidence.delta[known]
        phi = self.inputs(state.frame, evidence.coord[known], delta)
        scale = 1.0 if evidence.scale is None else evidence.scale[known]
        strength = weight * scale / self.curve.noise**2
        outer = phi[:, :, None] * phi[:, None, :]
        scatter_add(state.precision, cell, (strength * scale)[:, None, None] * outer)
        scatter_add(state.shift, cell, (strength * y)[:, None] * phi)
        self._refresh(state, distinct(state.group[cell]))

    def _refresh(self, state: NormalCurveState, groups: Array) -> None:
        """Work out the posterior of some groups' units from their sums."""
        mean, variance, apart = self._prior(state.frame.shape[1])
        near = 1.0 / apart
        is_asked = np.zeros(int(state.group.max()) + 1, dtype=bool)
        is_asked[groups] = True
        cells = np.flatnonzero(is_asked[state.group])
        place = np.cumsum(is_asked)[state.group[cells]] - 1  # of a cell's group among those asked
        # Given m_g a unit is N(inner·(shift + D⁻¹m_g), inner), and it tells the group
        # (L⁻¹ + D)⁻¹ = D⁻¹ − D⁻¹·inner·D⁻¹: no inverse of L is needed.
        inner = np.linalg.inv(state.precision[cells] + np.diag(near))
        alone = _times(inner, state.shift[cells])
        total = np.tile(np.diag(1.0 / variance), (groups.size, 1, 1))
        sums = np.tile(mean / variance, (groups.size, 1))
        scatter_add(total, place, np.diag(near) - near[:, None] * inner * near)
        scatter_add(sums, place, near * alone)
        spread = np.linalg.inv(total)
        pull = inner * near
        state.mean[cells] = alone + _times(pull, _times(spread, sums)[place])
        covariance = inner + pull @ spread[place] @ pull.swapaxes(-1, -2)
        state.root[cells] = np.linalg.cholesky(covariance)

    def decay(self, state: NormalCurveState, factor: float, cell: Array) -> None:
        """Keep `factor` of what some cells' own rows say; the prior stays."""
        if check_factor(factor) == 1.0:
            return
        state.precision[cell] *= factor
        state.shift[cell] *= factor
        self._refresh(state, distinct(state.group[cell]))

    def merge(self, state: NormalCurveState, other: NormalCurveState) -> None:
        """Add another state's evidence; both must come of the same settings."""
        require_same_shape(state.mean, other.mean)
        require_same_arms(state.frame, other.frame)
        if not np.array_equal(state.group, other.group):
            raise InvalidInput("merge: expected a state of the same groups")
        state.precision += other.precision
        state.shift += other.shift
        self._refresh(state, distinct(state.group))


def _times(matrix: Array, vector: Array) -> Array:
    """Return matrix (n, m, m) · vector (n, m)."""
    return np.asarray((matrix @ vector[..., None])[..., 0])
