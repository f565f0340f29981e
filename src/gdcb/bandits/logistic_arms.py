"""Categories whose log odds, or a person's taste for them, are linear in the context."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array, in_parts, is_all, logistic, rises, rows_at
from gdcb.bandits.base import (
    check_factor,
    credited,
    require_context,
    require_unscaled,
    take_arm,
)
from gdcb.bandits.predictive import moderated
from gdcb.bandits.priors import (
    LIST,
    NUMBER_OR_TABLE,
    TABLE,
    Table,
    average,
    check_list,
    check_table,
    spread_table,
)
from gdcb.errors import InvalidInput
from gdcb.logistic import LogisticPosterior, balance, waves
from gdcb.parts import Column, check_columns, check_number, column, take, take_lists
from gdcb.records import Evidence, Located, Setting
from gdcb.regression import by_owner, check_centre, with_intercept
from gdcb.streams import Stream


@dataclass(slots=True)
class LogisticArmsState:
    """The normal posterior of every cell's and arm's weights.

    Parameters
    ----------
    mean : (cells, K, d)
    root : (cells, K, d, d) with root·rootᵀ the covariance
    """

    mean: Array
    root: Array

    @property
    def n_arms(self) -> int:
        """Number of arms K."""
        return int(self.mean.shape[1])

    @property
    def weights(self) -> LogisticPosterior:
        """The same numbers, owner by owner: that of arm a in cell c is c·K + a."""
        d = self.mean.shape[2]
        return LogisticPosterior(self.mean.reshape(-1, d), self.root.reshape(-1, d, d))


def _along(root: Array, cell: Array, phi: Array) -> Array:
    """Return rootᵀφ of every arm: root (cells, K, d, d), φ (N, d) → (N, K, d).

    A cell's roots are read once for all of its rows, which may be many: those of a history, or of
    a learner that pools units.
    """
    if rises(cell):
        return np.asarray((phi[:, None, None, :] @ rows_at(root, cell))[:, :, 0])
    out = np.empty((phi.shape[0], *root.shape[1:3]))
    for who, rows in by_owner(cell, out[0].size):
        out[rows] = (phi[rows][:, :, None, None, :] @ root[who][:, None])[..., 0, :]
    return out


@dataclass(frozen=True)
class LogisticArms:
    """What both learners share: a normal posterior of each arm's weights on (1, features)."""

    features: tuple[Column, ...] = column(("*",))
    prior_sd: float | Table = field(default=1.0, metadata=NUMBER_OR_TABLE)
    width: float = 1.0
    prior_mean: Table = field(default=(), kw_only=True, metadata=TABLE)
    centre: tuple[float, ...] = field(default=(), kw_only=True, metadata=LIST)
    target: ClassVar[str] = "class"
    is_curve: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset({"x"})

    def __post_init__(self) -> None:
        take_lists(self)
        check_columns("bandit.features", self.features)
        if isinstance(self.prior_sd, tuple) and self.prior_sd:
            check_table("bandit.prior_sd", self.prior_sd, 0.0, open_low=True)
        else:
            check_number("bandit.prior_sd", self.prior_sd, 0.0, open_low=True)
        check_table("bandit.prior_mean", self.prior_mean)
        check_list("bandit.centre", self.centre)
        check_number("bandit.width", self.width, 0.0)

    def _moments(self, n_arms: int) -> tuple[Array, Array]:
        """Return mean and standard deviation of the weights beforehand: (K, d) each."""
        d = len(self.features) + 1
        mean = spread_table("bandit.prior_mean", self.prior_mean, n_arms, d)
        return mean, spread_table("bandit.prior_sd", self.prior_sd, n_arms, d)

    def init(self, group: Array, arms: Arms) -> LogisticArmsState:
        """Return the prior: every weight N(prior_mean, prior_sd²)."""
        check_centre(self.centre, len(self.features))
        mean, sd = self._moments(arms.n)
        cells = group.shape[0]
        roots = sd[:, :, None] * np.eye(sd.shape[1])
        return LogisticArmsState(np.tile(mean, (cells, 1, 1)), np.tile(roots, (cells, 1, 1, 1)))

    @cached_property
    def _unknown(self) -> float:
        """Value of an action comparable to no arm: at the mean of the arms' prior intercepts."""
        first = average(np.atleast_2d(np.array(self.prior_mean or (0.0,), dtype=float))[:, 0])
        return float(logistic(np.array(first)))

    def _phi(self, x: Array | None) -> Array:
        x = require_context(x, type(self).__name__)
        phi = with_intercept(x, self.features, self.centre)
        if not is_all(np.isfinite(phi)):
            raise InvalidInput(f"{type(self).__name__}: expected a finite context, got {x}")
        return phi

    def _predict(self, state: LogisticArmsState, at: Setting) -> tuple[Array, Array]:
        """Return mean and variance of φ(x)ᵀw of every arm: (N, K) each."""
        phi = self._phi(at.x)
        mean = np.empty((phi.shape[0], state.n_arms))
        variance = np.empty_like(mean)
        for rows in in_parts(phi.shape[0], phi.shape[1] * state.n_arms):
            cell, here = at.cell[rows], phi[rows]
            mean[rows] = (rows_at(state.mean, cell) @ here[:, :, None])[:, :, 0]
            along = _along(state.root, cell, here)
            variance[rows] = (along * along).sum(axis=-1)
        return mean, variance

    def _drawn(self, rng: Stream, state: LogisticArmsState, at: Setting) -> Array:
        """Sample φ(x)ᵀw of every arm: (N, K)."""
        mean, variance = self._predict(state, at)
        return mean + self.width * np.sqrt(variance) * rng.normal(*mean.shape)

    def value(self, draw: Array, located: Located) -> Array:
        """Read the drawn probabilities at located actions."""
        return take_arm(draw, located, self._unknown)

    def decay(self, state: LogisticArmsState, factor: float, cell: Array) -> None:
        """Keep `factor` of the evidence in some cells: of the way from the prior, in precision."""
        if check_factor(factor) == 1.0:
            return
        k = state.n_arms
        for a, (mean, sd) in enumerate(zip(*self._moments(k), strict=True)):
            state.weights.decay(np.asarray(cell) * k + a, factor, mean, sd)


@dataclass(frozen=True)
class LogisticArmsThompson(LogisticArms):
    """Logistic Thompson sampling with weights of each arm's own, payoffs known.

    P(y = 1 | arm a) = σ(φ(x)ᵀw_a), φ(x) = (1, features), w_a ~ N(m, D): `LinearThompson` for 0/1
    outcomes. The reward part multiplies the drawn probability by what each outcome class pays. A
    row moves its arm's normal posterior to the mode of prior × likelihood (Spiegelhalter and
    Lauritzen 1990). At one context the predictors are independent normals, so one number an arm is
    drawn. It is the strongest contextual rival among categories, which have no coordinate that
    arms could share.

    Parameters
    ----------
    features : context columns; '*' is all of them
    prior_sd : standard deviation of the weights beforehand: one number for all, d of them in the
        order of φ, or K tuples of d, one an arm
    width : what the posterior's standard deviation is multiplied with; 1 is Thompson sampling
    prior_mean : mean of the weights beforehand, d numbers or K tuples of d; 0 without
    centre : what is taken off every feature first, a number each; nothing without

    Notes
    -----
    Assumes: 0/1 outcomes whose log odds are linear in φ(x) within each arm; two classes.

    Stops applying: an arm learns nothing from the others. Row by row the order of rows matters and
    the weights lie off the exact mode, as those of `LogisticThompson` do, until a `refit`.

    Examples
    --------
    No context columns, prior sd 2. Arm 0 won once: its intercept w solves w/4 = 1 − σ(w), so
    w = 1.04; the other arm still has ½. With the spread around it the mean is nearer to ½.

    >>> from gdcb.arms import ArmList
    >>> bandit, arms = LogisticArmsThompson((), prior_sd=2.0), ArmList(names=("a", "b")).build()
    >>> zero, one, x = np.zeros(1, int), np.ones(1), np.zeros((1, 0))
    >>> state = bandit.init(zero, arms)
    >>> bandit.update(state, Evidence(zero, zero, np.zeros((1, 1)), one, None, one, x))
    >>> w = state.weights.mean[0, 0]
    >>> bool(abs(w / 4 - (1 - logistic(w))) < 1e-9)
    True
    >>> bandit.mean(state, Setting(zero, x), arms.nominal).round(3).tolist()
    [[0.677, 0.5]]
    """

    supports: ClassVar[frozenset[str]] = frozenset({"decay", "refit"})

    def draw(self, rng: Stream, state: LogisticArmsState, at: Setting) -> Array:
        """Sample every arm's probability at the row's context: (N, K)."""
        return logistic(self._drawn(rng, state, at))

    def mean(self, state: LogisticArmsState, at: Setting, located: Located) -> Array:
        """Return E σ(φᵀw) of the located arms, under the normal posterior of w."""
        return self.value(moderated(*self._predict(state, at)), located)

    def update(self, state: LogisticArmsState, evidence: Evidence) -> None:
        """Learn rows in their order, each for the arm that it is credited to."""
        state.weights.observe(*self._rows(state, evidence))

    def refit(self, state: LogisticArmsState, evidence: Evidence) -> None:
        """Put the exact mode of these rows in place of what every cell among them has learned."""
        owner, *columns = self._rows(state, evidence)
        cells, k = np.unique(evidence.cell), state.n_arms
        for a, (mean, sd) in enumerate(zip(*self._moments(k), strict=True)):
            mine = owner % k == a
            rows = (owner[mine], *(column[mine] for column in columns))
            state.weights.refit(cells * k + a, rows, mean, sd)

    def _rows(
        self, state: LogisticArmsState, evidence: Evidence
    ) -> tuple[Array, Array, Array, Array]:
        """Return posteriors, features, outcomes and weights of the rows that teach an arm."""
        require_unscaled(evidence, type(self).__name__)
        known = credited(evidence)
        phi = self._phi(known.x)
        return known.cell * state.n_arms + known.arm, phi, known.y, known.weight


@dataclass(frozen=True)
class BradleyTerryArmsThompson(LogisticArms):
    """Thompson sampling on a person's taste for categories, from which of two they prefer.

    In every row a person compares the arm that ran, a, with a rival a′ in the same context, and
    says y = 1 if they would rather have had the first: P(y = 1) = σ(u_a(x) − u_a′(x)) (Bradley and
    Terry 1952), u_a(x) = φ(x)ᵀw_a with φ(x) = (1, features) and weights of each arm's own. A row
    moves both arms' normal posteriors to the mode of prior × likelihood; that the answer also ties
    the two together is forgotten, which is the nearest law under which arms are independent. A
    drawn value is the probability of being preferred to the row's rival. `BradleyTerryThompson` is
    its form for arms with coordinates.

    Parameters
    ----------
    features : context columns; '*' is all of them but the rival
    prior_sd : standard deviation of the weights beforehand: one number for all, d of them in the
        order of φ, or K tuples of d, one an arm
    width : what the posterior's standard deviation is multiplied with; 1 is Thompson sampling
    prior_mean : mean of the weights beforehand, d numbers or K tuples of d; 0 without
    centre : what is taken off every feature first, a number each; nothing without
    rival : context column with the number of the rival's category

    Notes
    -----
    Assumes: each answer depends on the two utilities alone, with logistic noise, and answers are
    independent; utilities are linear in φ(x).

    Stops applying: utilities are known up to a constant a context, so nothing says whether either
    action was good. Two arms that were mostly compared with each other are believed less certain
    of their difference than they are, since what ties them is forgotten.

    Examples
    --------
    No context but the rival, two arms of prior variance ½·log 3. The second was preferred to the
    first: the difference of both has variance log 3, and its mode solves w/log 3 = 1 − σ(w).

    >>> from gdcb.arms import ArmList
    >>> arms, zero, one = ArmList(names=("a", "b")).build(), np.zeros(1, int), np.ones(1)
    >>> bandit = BradleyTerryArmsThompson((), (0.5 * np.log(3.0)) ** 0.5, 0.0, rival=0)
    >>> state, x = bandit.init(zero, arms), np.zeros((1, 1))
    >>> bandit.update(state, Evidence(zero, zero + 1, np.ones((1, 1)), one, None, one, x))
    >>> low, high = state.weights.mean[:, 0]
    >>> bool(abs((high - low) / np.log(3.0) - (1 - logistic(high - low))) < 1e-9)
    True
    >>> bool(abs(high + low) < 1e-15)
    True
    """

    rival: Column = column("rival")
    supports: ClassVar[frozenset[str]] = frozenset({"decay"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.rival, bool) or not isinstance(self.rival, str | int):
            raise InvalidInput(f"bandit.rival: expected a context column, got {self.rival!r}")
        own = tuple(name for name in self.features if name != self.rival)
        if own != tuple(self.features):
            object.__setattr__(self, "features", own)

    def draw(self, rng: Stream, state: LogisticArmsState, at: Setting) -> Array:
        """Sample every arm's probability of being preferred to the row's rival: (N, K)."""
        drawn = self._drawn(rng, state, at)
        return self._against(drawn, at.x, state.n_arms)

    def _against(self, utility: Array, x: Array | None, n_arms: int) -> Array:
        other = self._rival(x, n_arms)
        return logistic(utility - np.take_along_axis(utility, other[:, None], axis=1))

    def _rival(self, x: Array | None, n_arms: int) -> Array:
        code = take(require_context(x, type(self).__name__), self.rival)
        known = (code >= 0) & (code < n_arms) & (code == np.floor(code))
        if not is_all(known):
            raise InvalidInput(
                f"{type(self).__name__}: expected rivals from 0 to {n_arms - 1}, "
                f"got {code[~known][0]:g}"
            )
        return code.astype(np.int64)

    def mean(self, state: LogisticArmsState, at: Setting, located: Located) -> Array:
        """Return how likely the mean utilities of located arms are to be preferred."""
        mean, _ = self._predict(state, at)
        return self.value(self._against(mean, at.x, state.n_arms), located)

    def update(self, state: LogisticArmsState, evidence: Evidence) -> None:
        """Learn rows in their order, for the arm that ran and for its rival."""
        require_unscaled(evidence, type(self).__name__)
        known, k = credited(evidence), state.n_arms
        other, phi = self._rival(known.x, k), self._phi(known.x)
        differs = np.flatnonzero(known.arm != other)  # an arm beside itself says nothing
        if differs.size == 0:
            return
        first, second = (known.cell * k + arm for arm in (known.arm, other))
        state.weights.check(first, phi, known.y, known.weight)
        for wave in waves(known.cell[differs]):
            some = differs[wave]
            self._learn(
                state.weights,
                (first[some], second[some]),
                phi[some],
                known.y[some],
                known.weight[some],
            )

    def _learn(
        self,
        weights: LogisticPosterior,
        owners: tuple[Array, Array],
        phi: Array,
        y: Array,
        weight: Array,
    ) -> None:
        """Learn one comparison a cell.

        With v the variance of φᵀ(w_a − w_a′), both arms' together, the mode of the difference is
        where z = start + v·weight·(y − σ(z)). An arm's covariance falls by g·ΣφφᵀΣ with
        g = h/(1 + h·v): its marginal under the joint posterior.
        """
        roots = [weights.root[owner] for owner in owners]
        along = [root.swapaxes(-1, -2) @ phi[..., None] for root in roots]
        spreads = [(one * one).sum(axis=(-2, -1)) for one in along]
        total = spreads[0] + spreads[1]
        means = [weights.mean[owner] for owner in owners]
        start = (phi[:, None, :] @ (means[0] - means[1])[..., None])[:, 0, 0]
        p = logistic(balance(start, total * weight, y))
        h = weight * p * (1.0 - p)
        g = h / (1.0 + h * total)
        for i, sign in ((0, 1.0), (1, -1.0)):
            turn = roots[i] @ along[i]
            weights.mean[owners[i]] = means[i] + (sign * weight * (y - p))[:, None] * turn[..., 0]
            share = g / (1.0 + np.sqrt(1.0 - g * spreads[i]))
            weights.root[owners[i]] = roots[i] - (share[:, None, None] * turn) * along[i].swapaxes(
                -1, -2
            )
