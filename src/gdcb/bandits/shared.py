"""Learners whose arms share weights on features of the action: LinTS, LinUCB, logistic TS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array, is_all, logistic, rows_at
from gdcb.bandits.base import check_factor, require_context, require_same_shape, require_unscaled
from gdcb.bandits.gaussian import require_finite
from gdcb.bandits.nodes import check_degree, frame_of, require_metric, require_same_arms
from gdcb.bandits.predictive import log_bernoulli, moderated
from gdcb.bandits.priors import LIST, NUMBERS, Numbers, check_list, check_numbers, spread
from gdcb.errors import InvalidInput
from gdcb.logistic import LogisticPosterior, times
from gdcb.parts import (
    Column,
    check_columns,
    check_number,
    check_size,
    column,
    take_all,
    take_lists,
)
from gdcb.posterior import NormalPosterior, unpack
from gdcb.records import Evidence, Located, Setting
from gdcb.regression import by_owner, centred, check_centre
from gdcb.streams import Stream


@dataclass(slots=True)
class SharedState:
    """One posterior of the shared weights a cell, and how coordinates are scaled.

    Parameters
    ----------
    frame : (2, C) middle and half-width of the arms, which scale coordinates to [−1, 1]
    weights : the posterior, (cells, ...)
    """

    frame: Array = field(metadata={"axis": "constant"})
    weights: NormalPosterior


@dataclass(slots=True)
class LogisticState:
    """As `SharedState`, with the normal approximation of a logistic posterior."""

    frame: Array = field(metadata={"axis": "constant"})
    weights: LogisticPosterior


@dataclass(frozen=True)
class ActionFeatures:
    """ψ(x, c) = (1, x, c, c², x⊗c): what the shared weights multiply.

    Once x is known, ψᵀw is a polynomial in the coordinate c. `at_context` gives the matrix B(x)
    with ψ(x, c) = B(x)·(1, c, c²), so that a row's draw needs only the few coefficients Bᵀw.
    """

    features: tuple[Column, ...] = column(("*",))
    degree: int = 2
    interactions: bool = True
    prior_sd: Numbers = field(default=1.0, metadata=NUMBERS)
    prior_mean: tuple[float, ...] = field(default=(), kw_only=True, metadata=LIST)
    centre: tuple[float, ...] = field(default=(), kw_only=True, metadata=LIST)
    target: ClassVar[str] = "any"
    is_curve: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset({"x"})
    has_level: ClassVar[bool] = True  # whether ψ has the terms without c, (1, x)

    def __post_init__(self) -> None:
        take_lists(self)
        check_columns("bandit.features", self.features)
        check_numbers("bandit.prior_sd", self.prior_sd, 0.0, open_low=True)
        check_list("bandit.prior_mean", self.prior_mean)
        check_list("bandit.centre", self.centre)
        check_degree(self.degree)
        if not isinstance(self.interactions, bool):
            raise InvalidInput(
                f"bandit.interactions: expected true or false, got {self.interactions!r}"
            )

    def _frame(self, arms: Arms) -> Array:
        instead = "for categories take LinearThompson, whose arms have weights of their own"
        require_metric(arms, type(self).__name__, instead)
        check_centre(self.centre, len(self.features))
        return frame_of(arms)

    def n_features(self, n_coords: int) -> int:
        """Return d, the length of ψ."""
        p = len(self.features)
        level = 1 + p if self.has_level else 0
        return level + n_coords * self.degree + (p * n_coords if self.interactions else 0)

    def _moments(self, d: int) -> tuple[Array, Array]:
        """Return mean and standard deviation of the weights beforehand: (d,) each."""
        check_size("bandit", "features of context and action, squared", d, d)
        mean = spread("bandit.prior_mean", self.prior_mean or 0.0, d, "a feature of ψ")
        return mean, spread("bandit.prior_sd", self.prior_sd, d, "a feature of ψ")

    def _context(self, x: Array | None) -> Array:
        """Return the features less their centre: (N, p)."""
        x = require_context(x, type(self).__name__)
        return centred(take_all(x, self.features), self.centre)

    def at_context(self, x: Array | None, frame: Array) -> Array:
        """Return B(x): (N, d, 1 + C·degree)."""
        x = self._context(x)
        n, p = x.shape
        c = frame.shape[1]
        level, powers = 1 + p if self.has_level else 0, c * self.degree
        out = np.zeros((n, self.n_features(c), 1 + powers))
        if self.has_level:
            out[:, 0, 0] = 1.0
            out[:, 1:level, 0] = x
        out[:, level : level + powers, 1:] = np.eye(powers)
        if self.interactions:
            for j in range(c):
                start = level + powers + j * p
                out[:, start : start + p, 1 + j] = x
        return out

    def at_actions(self, x: Array | None, coord: Array, frame: Array) -> Array:
        """Return ψ of actions (N, M, C) in their contexts: (N, M, d)."""
        x = self._context(x)
        n, m, c = coord.shape
        powers = self.powers(coord, frame[0], frame[1])
        context = np.broadcast_to(x[:, None], (n, m, x.shape[1]))
        parts = [powers[..., :1], context] if self.has_level else []
        parts.append(powers[..., 1:])
        if self.interactions:
            parts += [context * powers[..., 1 + j : 2 + j] for j in range(c)]
        return np.concatenate(parts, axis=-1)

    def powers(self, coord: Array, middle: Array, half: Array) -> Array:
        """Return (1, c, c²) of scaled coordinates: (..., C) → (..., 1 + C·degree)."""
        c = (coord - middle) / half
        one = np.ones((*c.shape[:-1], 1))
        return np.concatenate((one, c, c * c) if self.degree == 2 else (one, c), axis=-1)

    def rows(self, frame: Array, evidence: Evidence, known: Array) -> Array:
        """Return ψ of some evidence rows: (n, d)."""
        x = require_context(evidence.x, type(self).__name__)[known]
        return self.at_actions(x, evidence.coord[known][:, None], frame)[:, 0]

    def _located(self, frame: Array, at: Setting, located: Located) -> Array:
        """Return ψ of located actions: (N, M, d)."""
        n, (_, m, c) = at.cell.shape[0], located.coord.shape
        return self.at_actions(at.x, np.broadcast_to(located.coord, (n, m, c)), frame)

    def framed(self, frame: Array, coefficients: Array) -> Array:
        """Put the frame behind each row's coefficients: (N, m + 2C)."""
        behind = np.broadcast_to(frame.reshape(-1), (coefficients.shape[0], frame.size))
        return np.concatenate((coefficients, behind), axis=1)

    def predictor(self, draw: Array, located: Located) -> Array:
        """Evaluate the polynomials of framed coefficients at located actions: (N, M)."""
        c = located.coord.shape[-1]
        m = draw.shape[1] - 2 * c
        middle, half = draw[:, None, m : m + c], draw[:, None, m + c : m + 2 * c]
        if located.is_nominal:
            middle, half = middle[:1], half[:1]
        return times(draw, self.powers(located.coord, middle, half))


def _products(cell: Array, matrix: Callable[[Array], Array], right: Array) -> Array:
    """Return matrix(cell)·right of every row: (N, d, m). A cell's is read once for all its rows."""
    known, place = np.unique(cell, return_inverse=True)
    if 2 * known.size > cell.size:
        return np.asarray(matrix(cell) @ right)
    left, out = matrix(known), np.empty_like(right)
    for who, rows in by_owner(place, right.shape[1]):
        out[rows] = left[who][:, None] @ right[rows]
    return out


def _known(evidence: Evidence) -> Array:
    return np.flatnonzero((evidence.weight > 0) & np.isfinite(evidence.coord).all(axis=-1))


@dataclass(frozen=True)
class SharedLinear(ActionFeatures):
    """What LinTS and LinUCB on action features share: a conjugate posterior of the weights."""

    noise: float = 1.0
    width: float = 1.0
    supports: ClassVar[frozenset[str]] = frozenset({"decay", "merge"})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("bandit.noise", self.noise, 0.0, open_low=True)
        check_number("bandit.width", self.width, 0.0)

    def init(self, group: Array, arms: Arms) -> SharedState:
        """Return the prior: every weight N(prior_mean, prior_sd²)."""
        frame = self._frame(arms)
        return SharedState(frame, self._prior(group.shape[0], self.n_features(arms.n_coords)))

    def _prior(self, cells: int, d: int) -> NormalPosterior:
        return NormalPosterior.prior((cells,), *self._moments(d))

    def _coefficients(self, state: SharedState, at: Setting) -> tuple[Array, Array]:
        """Return mean (N, m) and covariance (N, m, m) of the polynomial at the row's context."""
        basis = self.at_context(at.x, state.frame)
        turned = basis.swapaxes(1, 2)
        mean = (turned @ rows_at(state.weights.mean, at.cell)[:, :, None])[:, :, 0]
        d, packed = basis.shape[1], state.weights.covariance
        return mean, turned @ _products(
            at.cell, lambda cell: unpack(rows_at(packed, cell), d), basis
        )

    def mean(self, state: SharedState, at: Setting, located: Located) -> Array:
        """Posterior mean ψᵀE[w] at located actions."""
        phi = self._located(state.frame, at, located)
        return np.asarray((phi @ rows_at(state.weights.mean, at.cell)[:, :, None])[:, :, 0])

    def update(self, state: SharedState, evidence: Evidence) -> None:
        """Fold rows in at their executed coordinate, on an arm or between."""
        require_finite(evidence, type(self).__name__)
        known = _known(evidence)
        if known.size == 0:
            return
        phi = self.rows(state.frame, evidence, known)
        if not is_all(np.isfinite(phi)):
            raise InvalidInput(
                f"{type(self).__name__}: expected a finite context, got {evidence.x}"
            )
        if evidence.scale is not None:
            phi = phi * evidence.scale[known, None]
        strength = evidence.weight[known] / self.noise**2
        state.weights.observe(evidence.cell[known], phi, evidence.y[known], strength)

    def decay(self, state: SharedState, factor: float, cell: Array) -> None:
        """Keep `factor` of the evidence in some cells; the prior stays."""
        prior = self._prior(1, state.weights.mean.shape[-1])
        state.weights.decay(cell, check_factor(factor), prior)

    def merge(self, state: SharedState, other: SharedState) -> None:
        """Add another state's sums; the prior is counted once.

        Both must come of the same settings: a state does not say what its prior and noise were.
        """
        require_same_shape(state.weights.mean, other.weights.mean)
        require_same_arms(state.frame, other.frame)
        state.weights.merge(other.weights, self._prior(1, state.weights.mean.shape[-1]))


@dataclass(frozen=True)
class SharedLinearThompson(SharedLinear):
    """LinTS with weights that all arms share, on features of context and action.

    r = s·ψ(x, c)ᵀw + N(0, noise²), ψ = (1, x, c, c², x⊗c), c the action's coordinate scaled to
    [−1, 1] over the arms, w_j ~ N(prior_mean_j, prior_sd_j²). What one arm learns all arms know,
    and actions between the arms teach. With a constant scaler c is the action itself: the
    strongest linear rival of a decoupled scaler, since it may find any bilinear law of context
    and action. Of C coordinates c and c² have C entries each, and x⊗c has x times the first, then
    x times the second, and so on.

    Parameters
    ----------
    features : context columns; '*' is all of them
    degree : 1 (c) or 2 (c and c²)
    interactions : whether x⊗c is among the features
    prior_sd : standard deviation of the weights beforehand, one number or d in the order of ψ
    noise : standard deviation of the reward around its mean, declared
    width : what the posterior's standard deviation is multiplied with; 1 is Thompson sampling
    prior_mean : mean of the weights beforehand, d numbers in the order of ψ; 0 without
    centre : what is taken off every feature first, a number each; nothing without

    Notes
    -----
    Assumes: the reward is linear in ψ, with normal noise of the declared size; arms have a metric.

    Stops applying: a reward that is a curve in c/δ(x) is not bilinear in (x, c), so it settles on
    the closest bilinear form over the actions it happened to see. x is taken as it comes:
    columns of very different size need a prior_sd to match.

    Examples
    --------
    No context columns, degree 1, arms at c = ∓1, prior sd 1, noise 1; one reward 3 at c = 1:
    precision [[2, 1], [1, 2]], shift (3, 3), weights (1, 1): 0 at c = −1 and 2 at c = 1.

    >>> from gdcb.arms import ArmList
    >>> bandit, arms = SharedLinearThompson(features=(), degree=1), ArmList(values=(-1, 1)).build()
    >>> zero, x = np.zeros(1, dtype=int), np.zeros((1, 0))
    >>> state = bandit.init(zero, arms)
    >>> seen = Evidence(zero, zero + 1, np.ones((1, 1)), np.array([3.0]), None, np.ones(1), x)
    >>> bandit.update(state, seen)
    >>> bandit.mean(state, Setting(zero, x), arms.nominal).round(12).tolist()
    [[0.0, 2.0]]
    """

    def draw(self, rng: Stream, state: SharedState, at: Setting) -> Array:
        """Sample the polynomial of each row: (N, m + 2C), the scaling behind the coefficients."""
        mean, covariance = self._coefficients(state, at)
        z = rng.normal(*mean.shape)
        moved = (np.linalg.cholesky(covariance) @ z[:, :, None])[:, :, 0]
        return self.framed(state.frame, mean + self.width * moved)

    def value(self, draw: Array, located: Located) -> Array:
        """Evaluate the drawn polynomials at located actions."""
        return self.predictor(draw, located)


@dataclass(frozen=True)
class SharedLinearUCB(SharedLinear):
    """LinUCB with weights that all arms share, on features of context and action.

    Index ψᵀE[w] + width·√(ψᵀΣψ) at every located action, with ψ and the posterior N(E[w], Σ) of
    `SharedLinearThompson` (Li et al. 2010, the shared part of their hybrid model).

    Parameters
    ----------
    features : context columns; '*' is all of them
    degree : 1 (c) or 2 (c and c²)
    interactions : whether x⊗c is among the features
    prior_sd : standard deviation of the weights beforehand, one number or d in the order of ψ
    noise : standard deviation of the reward around its mean, declared
    width : α, how many standard deviations of optimism
    prior_mean : mean of the weights beforehand, d numbers in the order of ψ; 0 without
    centre : what is taken off every feature first, a number each; nothing without

    Notes
    -----
    Assumes: as SharedLinearThompson.

    Stops applying: behind a stochastic gate an index is averaged over what the gate may do, which
    is no longer an upper end of anything; and being deterministic it leaves no propensities.

    Examples
    --------
    No context columns, degree 1, arms at c = ∓1, nothing seen: variance 1 + c² = 2 at both.

    >>> from gdcb.arms import ArmList
    >>> bandit, arms = SharedLinearUCB(features=(), degree=1), ArmList(values=(-1, 1)).build()
    >>> state, zero = bandit.init(np.zeros(1, dtype=int), arms), np.zeros(1, dtype=int)
    >>> draw = bandit.draw(Stream((0, 0), 0, 1), state, Setting(zero, np.zeros((1, 0))))
    >>> bandit.value(draw, arms.nominal).round(6).tolist()
    [[1.414214, 1.414214]]
    """

    def draw(self, rng: Stream, state: SharedState, at: Setting) -> tuple[Array, Array]:
        """Return each row's polynomial and its covariance; nothing is random."""
        mean, covariance = self._coefficients(state, at)
        return self.framed(state.frame, mean), covariance

    def value(self, draw: tuple[Array, Array], located: Located) -> Array:
        """Return the upper ends at located actions."""
        framed, covariance = draw
        m = covariance.shape[-1]
        c = located.coord.shape[-1]
        middle, half = framed[:, None, m : m + c], framed[:, None, m + c :]
        powers = self.powers(located.coord, middle, half)
        spread = ((powers @ covariance) * powers).sum(axis=-1)
        upper = self.width * np.sqrt(np.maximum(spread, 0.0))
        return np.asarray(self.predictor(framed, located) + upper)


@dataclass(frozen=True)
class LogisticThompson(ActionFeatures):
    """Logistic Thompson sampling on features of context and action, payoffs known.

    P(y = 1) = σ(ψ(x, c)ᵀw), ψ as in `SharedLinearThompson`, w_j ~ N(prior_mean_j, prior_sd_j²); the
    reward part multiplies the drawn probability by what each outcome class pays (`Payoff`: booked
    × price). The posterior is normal, moved row by row to the mode of prior × likelihood
    (Spiegelhalter and Lauritzen 1990). With degree 1 and no interactions ψ = (1, x, c): the fair
    logistic rival.

    Parameters
    ----------
    features : context columns; '*' is all of them
    degree : 1 (c) or 2 (c and c²)
    interactions : whether x⊗c is among the features
    prior_sd : standard deviation of the weights beforehand, one number or d in the order of ψ
    width : what the posterior's standard deviation is multiplied with; 1 is Thompson sampling
    prior_mean : mean of the weights beforehand, d numbers in the order of ψ; 0 without
    centre : what is taken off every feature first, a number each; nothing without

    Notes
    -----
    Assumes: 0/1 outcomes whose log odds are linear in ψ; arms have a metric; two classes.

    Stops applying: row by row the order of rows matters, so two states do not merge, and where
    outcomes are rare the weights lie off the exact mode: the intercept by 0.5 to 0.7 posterior
    standard deviations, towards the rare outcome, the worst weight by 1 and more. `refit` puts
    the exact mode of all rows in place, and a refold does so. Far from normal posteriors (a handful
    of rows, rare outcomes) are drawn from too narrowly on one side.

    Examples
    --------
    No context columns, degree 1, arms at c = ∓1, prior sd √2; y = 1 seen at c = 1, φ = (1, 1):
    the mode t·(1, 1) solves t/2 = 1 − σ(2t), where σ(2t) = 0.739. With the spread around it the
    mean is nearer to ½: 0.677.

    >>> from gdcb.arms import ArmList
    >>> bandit = LogisticThompson(features=(), degree=1, prior_sd=2**0.5)
    >>> arms, zero, x = ArmList(values=(-1, 1)).build(), np.zeros(1, int), np.zeros((1, 0))
    >>> state = bandit.init(zero, arms)
    >>> bandit.update(state, Evidence(zero, zero, np.ones((1, 1)), np.ones(1), None, np.ones(1), x))
    >>> t = state.weights.mean[0, 0]
    >>> bool(abs(t / 2 - (1 - logistic(2 * t))) < 1e-9)
    True
    >>> bandit.mean(state, Setting(zero, x), arms.nominal).round(3).tolist()
    [[0.5, 0.677]]
    """

    degree: int = 1
    interactions: bool = False
    width: float = 1.0
    target: ClassVar[str] = "class"
    supports: ClassVar[frozenset[str]] = frozenset({"decay", "predictive", "refit"})
    likelihood: ClassVar[str] = "bernoulli"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("bandit.width", self.width, 0.0)

    def init(self, group: Array, arms: Arms) -> LogisticState:
        """Return the prior: every weight N(prior_mean, prior_sd²)."""
        frame, moments = self._frame(arms), self._moments(self.n_features(arms.n_coords))
        return LogisticState(frame, LogisticPosterior.prior(group.shape[0], *moments))

    def draw(self, rng: Stream, state: LogisticState, at: Setting) -> Array:
        """Sample the predictor's polynomial of each row: (N, m + 2C)."""
        mean = rows_at(state.weights.mean, at.cell)
        z = rng.normal(*mean.shape)
        root = state.weights.root
        moved = _products(at.cell, lambda cell: rows_at(root, cell), z[:, :, None])[:, :, 0]
        return self._at(state, at, mean + self.width * moved)

    def _at(self, state: LogisticState, at: Setting, weights: Array) -> Array:
        basis = self.at_context(at.x, state.frame)
        return self.framed(state.frame, (basis.swapaxes(1, 2) @ weights[:, :, None])[:, :, 0])

    def value(self, draw: Array, located: Located) -> Array:
        """Evaluate the drawn probabilities at located actions."""
        return logistic(self.predictor(draw, located))

    def mean(self, state: LogisticState, at: Setting, located: Located) -> Array:
        """Return E σ(ψᵀw) at located actions, under the normal posterior of w."""
        phi = self._located(state.frame, at, located)
        n, m, d = phi.shape
        eta = (phi @ rows_at(state.weights.mean, at.cell)[:, :, None])[:, :, 0]
        variance = state.weights.spread(np.repeat(at.cell, m), phi.reshape(n * m, d))
        return moderated(eta, variance.reshape(n, m))

    def predictive(self, state: LogisticState, evidence: Evidence) -> Array:
        """Return the log density of each outcome before it is learned; NaN where nothing ran."""
        require_unscaled(evidence, type(self).__name__)
        phi = self.rows(state.frame, evidence, np.arange(evidence.cell.size))
        eta = (phi * state.weights.mean[evidence.cell]).sum(axis=1)
        along = (state.weights.root[evidence.cell].swapaxes(1, 2) @ phi[:, :, None])[:, :, 0]
        return _density(evidence.y, eta, (along * along).sum(axis=1))

    def update(self, state: LogisticState, evidence: Evidence) -> None:
        """Learn rows in their order, at their executed coordinate."""
        state.weights.observe(*self._rows(state, evidence)[1])

    def prequential(self, state: LogisticState, evidence: Evidence) -> Array:
        """Learn rows in their order; return each one's log density just before."""
        known, rows = self._rows(state, evidence)
        found = np.full(evidence.cell.shape, np.nan)
        found[known] = _density(rows[2], *state.weights.foresee(*rows))
        return found

    def refit(self, state: LogisticState, evidence: Evidence) -> None:
        """Put the exact mode of these rows in place of what every cell among them has learned."""
        rows, d = self._rows(state, evidence)[1], state.weights.mean.shape[1]
        state.weights.refit(np.unique(evidence.cell), rows, *self._moments(d))

    def decay(self, state: LogisticState, factor: float, cell: Array) -> None:
        """Keep `factor` of the evidence in some cells: of the way from the prior, in precision."""
        if check_factor(factor) < 1.0:
            state.weights.decay(cell, factor, *self._moments(state.weights.mean.shape[1]))

    def _rows(
        self, state: LogisticState, evidence: Evidence
    ) -> tuple[Array, tuple[Array, Array, Array, Array]]:
        """Return which rows teach, and their cells, features, outcomes and weights."""
        require_unscaled(evidence, type(self).__name__)
        known = _known(evidence)
        phi = self.rows(state.frame, evidence, known)
        if not is_all(np.isfinite(phi)):
            raise InvalidInput(
                f"{type(self).__name__}: expected a finite context, got {evidence.x}"
            )
        return known, (evidence.cell[known], phi, evidence.y[known], evidence.weight[known])


def _density(y: Array, eta: Array, variance: Array) -> Array:
    return log_bernoulli(y, moderated(eta, variance), moderated(-eta, variance))
