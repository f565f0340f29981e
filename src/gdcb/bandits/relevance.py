"""Categories with a relevance of their own: a level an arm, and slopes that all arms share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import ClassVar

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array, is_all, logistic
from gdcb.bandits.base import require_context, require_unscaled, take_arm
from gdcb.bandits.curve import CurveThompson
from gdcb.bandits.hierarchical_curve import (
    LEAST_OWN,
    HierarchicalCurveState,
    HierarchicalCurveThompson,
)
from gdcb.bandits.predictive import moderated
from gdcb.bandits.priors import NUMBERS, Numbers, check_numbers, spread
from gdcb.errors import InvalidInput
from gdcb.logistic import times
from gdcb.parts import Column, check_columns, check_number, check_size, column, take_all, take_lists
from gdcb.records import Evidence, Located, Setting
from gdcb.streams import Stream


@dataclass(frozen=True)
class _Levels(CurveThompson):
    """The form φ = (1 at the arm's place, z): what `HierarchicalCurveThompson` asks of a curve.

    An arm's number is its coordinate, and z (N, 1, q) comes in the place of δ. The frame is
    (2, K): it holds no scaling, only the number of arms.
    """

    middle: tuple[float, ...] = ()
    around: tuple[float, ...] = ()

    def prior(self, c: int) -> tuple[Array, Array]:
        """Return mean and standard deviation of the group's coefficients: (K + q,) each."""
        return np.array(self.middle), np.array(self.around)

    def inputs(self, frame: Array, coord: Array, delta: Array | None) -> Array:
        """Return φ of rows: (N, K + q); NaN where nothing ran."""
        assert delta is not None
        k = frame.shape[1]
        phi = np.empty((coord.shape[0], k + delta.shape[2]))
        phi[:, :k] = coord == np.arange(k)
        phi[:, k:] = delta[:, 0]
        phi[~np.isfinite(coord[:, 0])] = np.nan
        return phi

    def check_evidence(self, evidence: Evidence) -> None:
        """Refuse outcomes and scales that cannot be."""
        require_unscaled(evidence, "RelevanceThompson")


@dataclass(frozen=True)
class RelevanceThompson:
    """Thompson sampling on categories whose relevance to the row is known: one δ an arm.

    P(y = 1 | a, x) = σ(b_a + wᵀz_a), z_a = δ_a(x), the q columns of the arm's own relevance, or
    context columns that belong to the arm. Levels b_a are every arm's own, slopes w are shared by
    all arms: what one arm teaches of relevance all arms know. Units of a group scatter around it
    as in `HierarchicalCurveThompson`: (b, w)_u = m_g + v_u, m_g ~ N((level, slope), (level_sd,
    slope_sd)²), v_u ~ N(0, (level_own, slope_own)²). Rows move a normal posterior to the mode of
    prior × likelihood, units share now and then, and `refit` finds the joint mode of all rows.

    Parameters
    ----------
    own : context columns that belong to the arms, in place of δ: one of every arm in their order,
        then another of every arm; none: δ
    level, level_sd, level_own : mean of the arms' levels beforehand, their standard deviation over
        groups, and of a unit's around its group's; a number, or one an arm
    slope, slope_sd, slope_own : the same of the slopes; a number, or one a column of z
    columns : q, the columns of δ; where `own` is given its length says
    share : units share once the weight of the rows since the last time is this part of that
        before
    width : what the posterior's standard deviation is multiplied with; 1 is Thompson sampling

    Notes
    -----
    Assumes: log odds that are linear in an arm's own relevance, with one slope for all arms of a
    unit; units of a group are exchangeable. Other arms' relevance says nothing more: what a lead
    over them means must be in z.

    Stops applying: where the outcome is a mixture (right or wrong, and each with its own chance)
    σ(b + wz) is the nearest curve. With a δ that all arms share, z says nothing of an arm and only
    the levels are learned. Row by row the Laplace approximation lies off the exact mode, as in
    `LogisticPosterior`, until the next refit.

    Examples
    --------
    Two arms, one unit, level and slope N(0, 1) of the group and as much of the unit: variance 2
    each. One success of the first arm at z = 1, φ = (1, 0, 1): the mode t·(1, 0, 1) solves
    t/2 = 1 − σ(2t), t = 0.5213. The second arm gains from the slope alone.

    >>> from gdcb.arms import ArmList
    >>> bandit = RelevanceThompson(level_sd=1.0, level_own=1.0, slope_sd=1.0, slope_own=1.0)
    >>> arms, zero, one = ArmList(names=("a", "b")).build(), np.zeros(1, int), np.ones(1)
    >>> state, delta = bandit.init(zero, arms), np.ones((1, 2, 1))
    >>> bandit.update(state, Evidence(zero, zero, np.zeros((1, 1)), one, None, one, None, delta))
    >>> state.mean.round(4).tolist()
    [[0.5213, 0.0, 0.5213]]
    """

    own: tuple[Column, ...] = column(())
    level: Numbers = field(default=0.0, metadata=NUMBERS)
    level_sd: Numbers = field(default=1.0, metadata=NUMBERS)
    level_own: Numbers = field(default=0.5, metadata=NUMBERS)
    slope: Numbers = field(default=0.0, metadata=NUMBERS)
    slope_sd: Numbers = field(default=2.0, metadata=NUMBERS)
    slope_own: Numbers = field(default=0.5, metadata=NUMBERS)
    columns: int = 1
    share: float = 0.25
    width: float = 1.0
    target: ClassVar[str] = "class"
    likelihood: ClassVar[str] = "bernoulli"
    is_curve: ClassVar[bool] = False
    supports: ClassVar[frozenset[str]] = frozenset({"decay", "predictive", "refit"})

    def __post_init__(self) -> None:
        take_lists(self)
        check_columns("bandit.own", self.own)
        for name in ("level", "slope"):
            check_numbers(f"bandit.{name}", getattr(self, name))
            check_numbers(f"bandit.{name}_sd", getattr(self, f"{name}_sd"), 0.0, open_low=True)
            check_numbers(f"bandit.{name}_own", getattr(self, f"{name}_own"), LEAST_OWN)
        columns: object = self.columns
        if isinstance(columns, bool) or not isinstance(columns, int):
            raise InvalidInput(f"bandit.columns: expected a whole number, got {columns!r}")
        check_number("bandit.columns", columns, 1)
        check_number("bandit.share", self.share, 0.0)
        check_number("bandit.width", self.width, 0.0)

    @property
    def reads(self) -> frozenset[str]:
        """Return {'x'} where the arms have context columns of their own, else {'delta'}."""
        return frozenset({"x"} if self.own else {"delta"})

    def init(self, group: Array, arms: Arms) -> HierarchicalCurveState:
        """Return the prior."""
        if not bool(arms.is_exact.all()) or arms.n_coords != 1:
            raise InvalidInput("RelevanceThompson needs arms that are categories: names, no values")
        if len(self.own) % arms.n:
            raise InvalidInput(
                f"bandit.own: expected a multiple of {arms.n} context columns, one an arm; "
                f"got {len(self.own)}"
            )
        d = arms.n + (len(self.own) // arms.n if self.own else self.columns)
        check_size("bandit", "coefficients, squared", d, d)
        inner, cells = self._inner(arms.n), group.shape[0]
        form = inner.curve
        mean, sd = form.prior(arms.n)
        both = sd**2 + np.array(inner.own_sd) ** 2
        groups = int(group.max()) + 1
        return HierarchicalCurveState(
            np.zeros((2, arms.n)),
            np.array(group),
            np.tile(mean, (cells, 1)),
            np.tile(np.diag(np.sqrt(both)), (cells, 1, 1)),
            np.tile(mean, (cells, 1)),
            np.tile(np.diag(1.0 / both), (cells, 1, 1)),
            np.zeros(groups),
            np.zeros(groups),
            np.zeros(groups, dtype=np.int64),
        )

    def _inner(self, k: int) -> HierarchicalCurveThompson:
        """Return the learner of coefficients (b_1, …, b_K, w) that shares within groups."""
        q = len(self.own) // k if self.own else self.columns
        return _sharing(k, q, self)

    def _of_arms(self, x: Array | None, delta: Array | None, n: int, k: int) -> Array:
        """Return z of every arm: (N, K, q)."""
        if self.own:
            values = take_all(require_context(x, "RelevanceThompson"), self.own)
            return values.reshape(n, len(self.own) // k, k).swapaxes(1, 2)
        if delta is None:
            raise InvalidInput("RelevanceThompson needs δ, or context columns of the arms: `own`")
        if delta.ndim != 3 or delta.shape[1] not in (1, k) or delta.shape[2] != self.columns:
            raise InvalidInput(
                f"RelevanceThompson: expected δ of shape ({n}, {k}, {self.columns}), "
                f"got {delta.shape}"
            )
        return np.broadcast_to(delta, (n, k, self.columns))

    def _predictors(self, coefficients: Array, at: Setting) -> Array:
        """Return b_a + wᵀz_a of every arm under coefficients (N, K + q): (N, K)."""
        n = at.cell.shape[0]
        k = coefficients.shape[1] - self._q(coefficients.shape[1])
        z = self._of_arms(at.x, at.delta, n, k)
        return np.asarray(coefficients[:, :k] + times(coefficients[:, k:], z))

    def _q(self, d: int) -> int:
        """Return q from d = K + q, K·q = len(own)."""
        if not self.own:
            return self.columns
        return next(q for q in range(1, d) if (d - q) * q == len(self.own))

    def draw(self, rng: Stream, state: HierarchicalCurveState, at: Setting) -> Array:
        """Sample the success probability of every arm: (N, K)."""
        mean = state.mean.take(at.cell, axis=0)
        z = self.width * rng.normal(*mean.shape)
        moved = (state.root.take(at.cell, axis=0) @ z[..., None])[..., 0]
        return logistic(self._predictors(mean + moved, at))

    def value(self, draw: Array, located: Located) -> Array:
        """Read the drawn probabilities at located actions; what is no arm is worth nothing."""
        return take_arm(draw, located, 0.0)

    def mean(self, state: HierarchicalCurveState, at: Setting, located: Located) -> Array:
        """Return E σ(b_a + wᵀz_a) at located actions."""
        mean, root, k = state.mean[at.cell], state.root[at.cell], state.frame.shape[1]
        z = self._of_arms(at.x, at.delta, at.cell.shape[0], k)
        along = root[:, :k] + z @ root[:, k:]  # rows of φᵀroot, φ = (1 at the arm's place, z)
        spread = (along * along).sum(axis=-1)
        return take_arm(moderated(self._predictors(mean, at), spread), located, 0.0)

    def _seen(self, state: HierarchicalCurveState, evidence: Evidence) -> Evidence:
        """Return the rows as the form reads them: z of the arm that ran in the place of δ."""
        n, k = evidence.cell.shape[0], state.frame.shape[1]
        arm = np.maximum(evidence.arm, 0)
        z = self._of_arms(evidence.x, evidence.delta, n, k)[np.arange(n), arm][:, None]
        runs = evidence.arm >= 0
        if not is_all(np.isfinite(z[runs & (evidence.weight > 0)])):
            raise InvalidInput("RelevanceThompson: expected finite relevance, got NaN or infinity")
        coord = np.where(runs, evidence.arm, np.nan)[:, None]
        return replace(evidence, coord=coord, delta=z, x=None)

    def predictive(self, state: HierarchicalCurveState, evidence: Evidence) -> Array:
        """Return the log density of each outcome before it is learned; NaN off the arms."""
        seen = self._seen(state, evidence)
        return self._inner(state.frame.shape[1]).predictive(state, seen)

    def update(self, state: HierarchicalCurveState, evidence: Evidence) -> None:
        """Let every unit learn its own rows; then let those share that are due."""
        require_unscaled(evidence, "RelevanceThompson")
        self._inner(state.frame.shape[1]).update(state, self._seen(state, evidence))

    def refit(self, state: HierarchicalCurveState, evidence: Evidence) -> None:
        """Put the exact mode of rows in place of what every group among them has learned."""
        require_unscaled(evidence, "RelevanceThompson")
        self._inner(state.frame.shape[1]).refit(state, self._seen(state, evidence))

    def decay(self, state: HierarchicalCurveState, factor: float, cell: Array) -> None:
        """Keep `factor` of what some cells' own rows say; their groups share at once."""
        self._inner(state.frame.shape[1]).decay(state, factor, cell)


@cache
def _sharing(k: int, q: int, bandit: RelevanceThompson) -> HierarchicalCurveThompson:
    """Return the learner behind `RelevanceThompson` over k arms."""

    def both(suffix: str) -> tuple[float, ...]:
        level = spread(f"bandit.level{suffix}", getattr(bandit, f"level{suffix}"), k, "an arm")
        slope = spread(f"bandit.slope{suffix}", getattr(bandit, f"slope{suffix}"), q, "a column")
        return (*level.tolist(), *slope.tolist())

    form = _Levels(middle=both(""), around=both("_sd"))
    return HierarchicalCurveThompson(form, own_sd=both("_own"), share=bandit.share)
