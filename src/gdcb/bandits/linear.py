"""Linear learners with weights of each arm's own: LinTS and LinUCB."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array, at_least, in_parts, namespace, on_host, put_where, rows_at
from gdcb.bandits.base import (
    check_factor,
    credited,
    require_context,
    require_same_shape,
    take_arm,
)
from gdcb.bandits.marginals import Marginals
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
from gdcb.parts import Column, check_columns, check_number, column, take_lists
from gdcb.posterior import NormalPosterior, form
from gdcb.records import Evidence, Located, Setting
from gdcb.regression import check_centre, with_intercept
from gdcb.streams import Stream

_MOST_ROWS, _MOST = 4096, 2**22  # rows valued at once, and numbers of their covariances


@dataclass(slots=True)
class LinearState:
    """The posterior of every cell's and arm's weights: (cells, K, ...)."""

    weights: NormalPosterior


@dataclass(frozen=True)
class LinearArms:
    """What LinTS and LinUCB share: the posterior, its update, and its value at a context."""

    features: tuple[Column, ...] = column(("*",))
    prior_sd: float | Table = field(default=1.0, metadata=NUMBER_OR_TABLE)
    noise: float = 1.0
    width: float = 1.0
    prior_mean: Table = field(default=(), kw_only=True, metadata=TABLE)
    centre: tuple[float, ...] = field(default=(), kw_only=True, metadata=LIST)
    target: ClassVar[str] = "any"
    is_curve: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset({"x"})
    supports: ClassVar[frozenset[str]] = frozenset({"decay", "marginals", "merge"})
    on_device: ClassVar[bool] = True

    def __post_init__(self) -> None:
        take_lists(self)
        check_columns("bandit.features", self.features)
        if isinstance(self.prior_sd, tuple) and self.prior_sd:
            check_table("bandit.prior_sd", self.prior_sd, 0.0, open_low=True)
        else:
            check_number("bandit.prior_sd", self.prior_sd, 0.0, open_low=True)
        check_table("bandit.prior_mean", self.prior_mean)
        check_list("bandit.centre", self.centre)
        check_number("bandit.noise", self.noise, 0.0, open_low=True)
        check_number("bandit.width", self.width, 0.0)

    def init(self, group: Array, arms: Arms) -> LinearState:
        """Return the prior: every weight N(prior_mean, prior_sd²)."""
        check_centre(self.centre, len(self.features))
        return LinearState(self._prior(group.shape[0], arms.n, beside=group))

    def _prior(self, cells: int, n_arms: int, beside: Array | None = None) -> NormalPosterior:
        d = len(self.features) + 1
        mean = spread_table("bandit.prior_mean", self.prior_mean, n_arms, d)
        sd = spread_table("bandit.prior_sd", self.prior_sd, n_arms, d)
        return NormalPosterior.prior((cells,), mean, sd, beside)

    @cached_property
    def _unknown(self) -> float:
        """Value of an action comparable to no arm: the mean of the arms' prior intercepts."""
        return average(np.atleast_2d(np.array(self.prior_mean or (0.0,), dtype=float))[:, 0])

    def _predict(self, state: LinearState, at: Setting) -> tuple[Array, Array]:
        """Return mean and variance of φ(x)ᵀw of every arm: (N, K) each."""
        x = require_context(at.x, type(self).__name__)
        phi = with_intercept(x, self.features, self.centre)
        n, k = phi.shape[0], state.weights.mean.shape[1]
        numbers = max(state.weights.covariance[0].size, _MOST // _MOST_ROWS)
        if n * numbers <= _MOST or not on_host(phi):
            return self._chunk(state, at.cell, phi)
        mean, variance = np.empty((n, k)), np.empty((n, k))
        for rows in in_parts(n, numbers, _MOST):
            mean[rows], variance[rows] = self._chunk(state, at.cell[rows], phi[rows])
        return mean, variance

    def _chunk(self, state: LinearState, cell: Array, phi: Array) -> tuple[Array, Array]:
        posterior, products = state.weights, form(phi)
        if phi.shape[0] == 1 and on_host(phi):  # the same products without the stack around them
            at = int(cell[0])
            mean = (posterior.mean[at] @ phi[0])[None]
            variance = (posterior.covariance[at] @ products[0])[None]
        else:
            mean = (rows_at(posterior.mean, cell) @ phi[:, :, None])[:, :, 0]
            variance = (rows_at(posterior.covariance, cell) @ products[:, :, None])[:, :, 0]
        # Between two exact solutions rounding may leave a variance a hair below zero.
        return mean, at_least(variance, 0.0)

    def value(self, draw: Array, located: Located) -> Array:
        """Read the drawn values at located actions."""
        return take_arm(draw, located, self._unknown)

    def mean(self, state: LinearState, at: Setting, located: Located) -> Array:
        """Posterior mean φ(x)ᵀE[w] of the located arms."""
        x = require_context(at.x, type(self).__name__)
        phi = with_intercept(x, self.features, self.centre)
        if located.is_nominal:
            every: Array = (rows_at(state.weights.mean, at.cell) @ phi[:, :, None])[:, :, 0]
            return every
        weights = state.weights.mean[at.cell[:, None], at_least(located.arm, 0)]
        known = (weights @ phi[:, :, None])[:, :, 0]
        return put_where(known, located.arm < 0, self._unknown)

    def update(self, state: LinearState, evidence: Evidence) -> None:
        """Fold the credited rows into their arms' weights: rank-one, or in one go for many."""
        known, n_arms = credited(evidence), state.weights.mean.shape[1]
        x = require_context(known.x, type(self).__name__)
        phi = with_intercept(x, self.features, self.centre)
        if known.y.shape[0] == 0:
            return
        if known.scale is not None:
            phi = phi * known.scale[:, None]
        owner = known.cell * n_arms + known.arm
        state.weights.observe(owner, phi, known.y, known.weight / self.noise**2)

    def refresh(self, state: LinearState) -> None:
        """Solve for every posterior afresh from its sums."""
        state.weights.refresh_all()

    def decay(self, state: LinearState, factor: float, cell: Array) -> None:
        """Keep `factor` of the evidence in some cells; the prior stays."""
        prior = self._prior(1, state.weights.mean.shape[1])
        state.weights.decay(cell, check_factor(factor), prior)

    def merge(self, state: LinearState, other: LinearState) -> None:
        """Add another state's sums; the prior is counted once."""
        require_same_shape(state.weights.mean, other.weights.mean)
        state.weights.merge(other.weights, self._prior(1, state.weights.mean.shape[1]))


@dataclass(frozen=True)
class LinearThompson(LinearArms):
    """LinTS: each arm's reward is linear in the context, with weights of its own.

    r = s·φ(x)ᵀw_a + N(0, noise²), φ(x) = (1, features), w_a ~ N(m, D), m the prior means and D the
    diagonal of squared prior_sd. With weights A = D⁻¹ + Σ s²φφᵀ/noise² and
    b = D⁻¹m + Σ s·r·φ/noise², w_a ~ N(A⁻¹b, width²·A⁻¹). At one context the values φᵀw_a are
    independent normals, so one number an arm is drawn and not d: the same law at a tenth of the
    work.

    Parameters
    ----------
    features : context columns; '*' is all of them
    prior_sd : standard deviation of the weights beforehand: one number for all, d of them in the
        order of φ, or K tuples of d, one an arm
    noise : standard deviation of the reward around its mean, declared
    width : what the posterior's standard deviation is multiplied with; 1 is Thompson sampling
    prior_mean : mean of the weights beforehand, d numbers or K tuples of d; 0 without. An action
        that is comparable to no arm is worth the mean of the arms' prior intercepts
    centre : what is taken off every feature first, a number each; nothing without

    Notes
    -----
    Assumes: rewards linear in φ(x) within each arm, with normal noise of the declared size. The
    context lives in the learner: it needs no scaler, and an arm learns nothing from the others.

    Stops applying: where the reward is not linear in φ(x), it settles on the best line over the
    contexts each arm happened to see. Regret bounds need width ~ √(d log T); 1 is the Bayesian
    posterior and does well in practice. For 0/1 outcomes the noise is not normal: the mean is a
    linear probability model.

    Examples
    --------
    Prior sd 1, noise 1; arm 0 saw r = 3 at x = 1, φ = (1, 1): A = [[2, 1], [1, 2]], b = (3, 3),
    so w = (1, 1) and φᵀw = 2; the other arm still expects 0.

    >>> from gdcb.arms import ArmList
    >>> bandit, arms = LinearThompson(features=(0,)), ArmList(names=("a", "b")).build()
    >>> zero, one = np.zeros(1, dtype=int), np.ones((1, 1))
    >>> state = bandit.init(zero, arms)
    >>> bandit.update(state, Evidence(zero, zero, one, np.array([3.0]), None, np.ones(1), one))
    >>> bandit.mean(state, Setting(zero, one), arms.nominal).round(12).tolist()
    [[2.0, 0.0]]
    """

    def draw(self, rng: Stream, state: LinearState, at: Setting) -> Array:
        """Sample every arm's value at the row's context: (N, K)."""
        mean, variance = self._predict(state, at)
        noise = rng.normal(*mean.shape)
        sd = namespace(variance).sqrt(variance)
        noise *= sd if self.width == 1.0 else self.width * sd
        noise += mean
        return noise

    def marginals(self, state: LinearState, at: Setting) -> Marginals:
        """Return every arm's normal law at the row's context."""
        mean, variance = self._predict(state, at)
        return Marginals("normal", (mean, self.width * np.sqrt(variance)))


@dataclass(frozen=True)
class LinearUCB(LinearArms):
    """LinUCB: the upper end of each arm's linear prediction, weights of its own (Li et al. 2010).

    Index φ(x)ᵀA⁻¹b + width·√(φ(x)ᵀA⁻¹φ(x)), with A and b as in `LinearThompson`. With noise 1 and
    prior_sd 1 it is the paper's LinUCB with α = width.

    Parameters
    ----------
    features : context columns; '*' is all of them
    prior_sd : standard deviation of the weights beforehand (1/√λ of ridge, times noise): one
        number for all, d of them in the order of φ, or K tuples of d, one an arm
    noise : standard deviation of the reward around its mean, declared
    width : α, how many standard deviations of optimism
    prior_mean : mean of the weights beforehand, d numbers or K tuples of d; 0 without
    centre : what is taken off every feature first, a number each; nothing without

    Notes
    -----
    Assumes: as LinTS, rewards linear in φ(x) within each arm.

    Stops applying: it is deterministic, so its propensities are 0 and 1 and nothing can be
    reweighted from its log unless a gate brings chance. The bound needs α ~ √(d log T); delayed
    outcomes make it repeat itself, where Thompson sampling varies.

    Examples
    --------
    Prior sd 1, noise 1, nothing seen, x = 1: mean 0, variance φᵀφ = 2, index √2.

    >>> from gdcb.arms import ArmList
    >>> bandit, arms = LinearUCB(features=(0,)), ArmList(names=("a", "b")).build()
    >>> zero, one = np.zeros(1, dtype=int), np.ones((1, 1))
    >>> state = bandit.init(zero, arms)
    >>> bandit.draw(Stream((0, 0), 0, 1), state, Setting(zero, one)).round(6).tolist()
    [[1.414214, 1.414214]]
    """

    def draw(self, rng: Stream, state: LinearState, at: Setting) -> Array:
        """Return every arm's index at the row's context: (N, K)."""
        mean, variance = self._predict(state, at)
        index: Array = mean + self.width * namespace(variance).sqrt(variance)
        return index

    def marginals(self, state: LinearState, at: Setting) -> Marginals:
        """Return the index: nothing is random."""
        mean, variance = self._predict(state, at)
        return Marginals("point", (mean + self.width * np.sqrt(variance),))
