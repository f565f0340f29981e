"""Gaussian Thompson: independent arms whose mean and noise are both unknown."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array, at_least, like, namespace, on_host, put_where, rows_at, zeros
from gdcb.bandits.base import check_factor, credited, require_same_shape, take_arm
from gdcb.bandits.marginals import Marginals
from gdcb.bandits.priors import NUMBERS, Numbers, average, check_numbers, spread
from gdcb.errors import InvalidInput
from gdcb.parts import check_number, take_lists
from gdcb.records import Evidence, Located, Setting
from gdcb.streams import Stream

_LEAST = 2.0**-53  # nearer to 0 or 1 a draw would be infinite


@dataclass(slots=True)
class GaussianState:
    """What the rows of every cell and arm say, in a form that keeps its digits.

    The sum of squares is kept around the estimate and not around 0, so that rewards of
    1,000,000 ± 1 lose nothing; two such summaries still merge exactly (Chan et al. 1983).

    Parameters
    ----------
    weight : (cells, K) n = Σ w·s²
    count : (cells, K) N = Σ w
    estimate : (cells, K) θ̂ = Σ w·s·r / n, the weighted least squares; any number while n = 0
    rest : (cells, K) Σ w·(r − s·θ̂)²
    """

    weight: Array
    count: Array
    estimate: Array
    rest: Array


@dataclass(frozen=True)
class GaussianThompson:
    """Thompson sampling with independent Gaussian arms of unknown mean and variance.

    r = s·θ + N(0, σ²) with a declared scale s; σ² ~ inverse gamma (shape a₀, rate b₀) and
    θ given σ² ~ N(m₀, σ²/κ₀), one pair an arm and cell. With n = Σ w·s², N = Σ w, θ̂ the
    weighted least squares and R its residual sum of squares, the posterior has κ = κ₀ + n,
    m = m₀ + (θ̂ − m₀)·n/κ, a = a₀ + N/2 and b = b₀ + ½(R + (θ̂ − m₀)²·κ₀·n/κ). A draw of θ is
    Student t with 2a degrees of freedom, location m and scale √(b/(a·κ)). A weight counts rows:
    weight 2 is the same row twice.

    Parameters
    ----------
    prior_mean : m₀, one number or K, one an arm; their average is also the value of an action that
        is comparable to no arm
    strength : κ₀ > 0, how many rows of scale 1 the prior mean is worth; one number or K
    shape : a₀ > ½, half the rows that the prior variance is worth; up to ½ no mean exists
    rate : b₀ > 0; the prior guess of σ² is about b₀/a₀

    Notes
    -----
    Assumes: rewards of one arm are normal around s·θ with one variance, alike at every scale s
    and at all times; arms are independent of each other.

    Stops applying: with heavy tails the mean is still right in the long run and the spread is
    not; where the variance grows with s, weigh the rows by its inverse; between the arms nothing
    is known, and an action there has the value of the nearest arm.

    Examples
    --------
    Prior m₀ = 0, κ₀ = a₀ = b₀ = 1. Rewards 1 and 3: n = N = 2, θ̂ = 2, R = 2. So κ = 3,
    m = 4/3, a = 2 and b = 1 + ½(2 + 4·2/3) = 10/3: Student t with 4 degrees of freedom around
    4/3, of squared scale (10/3)/(2·3) = 5/9.

    >>> import numpy as np
    >>> from gdcb.arms import ArmList
    >>> bandit, arms = GaussianThompson(), ArmList(names=("a",)).build()
    >>> zero, two = np.zeros(1, dtype=int), np.zeros(2, dtype=int)
    >>> state = bandit.init(zero, arms)
    >>> bandit.update(
    ...     state, Evidence(two, two, np.zeros((2, 1)), np.array([1.0, 3.0]), None, np.ones(2))
    ... )
    >>> law = bandit.marginals(state, Setting(zero))
    >>> [round(float(part[0, 0]) ** power, 6) for part, power in zip(law.parameters, (1, 2, 1))]
    [1.333333, 0.555556, 4.0]
    """

    prior_mean: Numbers = field(default=0.0, metadata=NUMBERS)
    strength: Numbers = field(default=1.0, metadata=NUMBERS)
    shape: float = 1.0
    rate: float = 1.0
    target: ClassVar[str] = "any"
    is_curve: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset()
    supports: ClassVar[frozenset[str]] = frozenset({"decay", "marginals", "merge"})
    on_device: ClassVar[bool] = True

    def __post_init__(self) -> None:
        take_lists(self)
        check_numbers("bandit.prior_mean", self.prior_mean)
        check_numbers("bandit.strength", self.strength, 0.0, open_low=True)
        check_number("bandit.shape", self.shape, 0.5, open_low=True)
        check_number("bandit.rate", self.rate, 0.0, open_low=True)

    def init(self, group: Array, arms: Arms) -> GaussianState:
        """Return no evidence in every cell."""
        shape = (group.shape[0], arms.n)
        spread("bandit.prior_mean", self.prior_mean, arms.n, "an arm")
        spread("bandit.strength", self.strength, arms.n, "an arm")
        return GaussianState(*[zeros(shape, group) for _ in range(4)])

    def draw(self, rng: Stream, state: GaussianState, at: Setting) -> Array:
        """Sample every arm's value, cut off at 10⁸ scales: (N, K).

        With B ~ Beta(a, a), √(2a)·(B − ½)/√(B·(1 − B)) is Student t with 2a degrees of freedom.
        """
        strength, mean, shape, rate = self._posterior(state, at.cell)
        xp = namespace(mean)
        share = rng.beta(xp.stack((shape, shape), axis=1)).clip(_LEAST, 1.0 - _LEAST)
        away = xp.sqrt(2.0 * rate / strength) * (share - 0.5)
        drawn: Array = mean + away / xp.sqrt(share * (1.0 - share))
        return drawn

    def value(self, draw: Array, located: Located) -> Array:
        """Read the drawn values at located actions."""
        return take_arm(draw, located, self._unknown)

    @cached_property
    def _unknown(self) -> float:
        return average(self.prior_mean)

    def mean(self, state: GaussianState, at: Setting, located: Located) -> Array:
        """Posterior mean m."""
        return self.value(self._posterior(state, at.cell)[1], located)

    def update(self, state: GaussianState, evidence: Evidence) -> None:
        """Summarise the rows of every cell and arm, and merge that in."""
        require_finite(evidence, "Gaussian Thompson")
        known, n_arms = credited(evidence), state.weight.shape[1]
        if known.y.shape[0] == 0:
            return
        y, weight = known.y, known.weight
        pull = weight if known.scale is None else weight * known.scale
        gram = pull if known.scale is None else pull * known.scale
        flat, row = _places(known.cell * n_arms + known.arm)
        n = _sums(row, gram)
        estimate = _divide(_sums(row, pull * y), n)
        told = estimate if row is None else estimate[row]
        left = y - (told if known.scale is None else known.scale * told)
        # A second pass: what rounding left in the estimate is found in the residuals.
        slip = _divide(_sums(row, pull * left), n)
        rest = at_least(_sums(row, weight * left * left) - n * slip * slip, 0.0)
        _merge(state, flat, n, _sums(row, weight), estimate + slip, rest)

    def decay(self, state: GaussianState, factor: float, cell: Array) -> None:
        """Keep `factor` of the evidence in some cells; the estimate stays, its weight falls."""
        check_factor(factor)
        for sums in (state.weight, state.count, state.rest):
            sums[cell] *= factor

    def merge(self, state: GaussianState, other: GaussianState) -> None:
        """Add another state's evidence."""
        require_same_shape(state.weight, other.weight)
        parts = (other.weight, other.count, other.estimate, other.rest)
        _merge(state, np.arange(state.weight.size), *(part.reshape(-1) for part in parts))

    def marginals(self, state: GaussianState, at: Setting) -> Marginals:
        """Return every arm's Student t: location m, scale √(b/(a·κ)), 2a degrees of freedom."""
        strength, mean, shape, rate = self._posterior(state, at.cell)
        return Marginals("t", (mean, np.sqrt(rate / (shape * strength)), 2.0 * shape))

    def _posterior(self, state: GaussianState, cell: Array) -> tuple[Array, Array, Array, Array]:
        """Return κ, m, a and b of every arm: (N, K) each."""
        n = rows_at(state.weight, cell)
        prior, worth = _beside(self.prior_mean, n), _beside(self.strength, n)
        away = rows_at(state.estimate, cell) - prior
        strength = worth + n
        share = n / strength
        rest = rows_at(state.rest, cell) + worth * share * away * away
        shape = self.shape + 0.5 * rows_at(state.count, cell)
        return strength, prior + share * away, shape, self.rate + 0.5 * rest


def _beside(setting: Numbers, values: Array) -> Array | float:
    """Return a setting to reckon with values (N, K): a number, or one an arm."""
    return like(setting, values) if isinstance(setting, tuple) else setting


def require_finite(evidence: Evidence, learner: str) -> None:
    """Refuse rewards that are not numbers, scales not above 0 and weights below 0."""
    if not on_host(evidence.y):
        return  # a simulation has checked the first round
    if not bool(np.isfinite(evidence.y).all()):
        raise InvalidInput(f"{learner}: expected finite rewards, got {evidence.y}")
    scale, weight = evidence.scale, evidence.weight
    if not bool((np.isfinite(weight) & (weight >= 0.0)).all()):
        raise InvalidInput(f"{learner}: expected finite weights >= 0, got {weight}")
    if scale is not None and not bool((np.isfinite(scale) & (scale > 0.0)).all()):
        raise InvalidInput(f"{learner}: expected finite scales s(x) > 0, got {scale}")


def _places(index: Array) -> tuple[Array, Array | None]:
    """Return the places that rows name, each once, and which one each row names.

    None: every row has its own, as on a device.
    """
    if not on_host(index):
        return index, None
    flat, row = np.unique(index, return_inverse=True)
    return flat, row


def _sums(row: Array | None, values: Array) -> Array:
    """Add up the rows of every place."""
    return values if row is None else np.bincount(row, values)


def _divide(part: Array, whole: Array) -> Array:
    """Return part/whole, and 0 where the whole is nothing."""
    if on_host(part):
        return np.asarray(np.divide(part, whole, out=np.zeros(part.shape), where=whole > 0.0))
    return put_where(part / whole, ~(whole > 0.0), 0.0)


def _merge(
    state: GaussianState, at: Array, n: Array, count: Array, estimate: Array, rest: Array
) -> None:
    """Merge summaries into the flat places `at`, each named once (Chan et al. 1983)."""
    weight, theta = state.weight.reshape(-1), state.estimate.reshape(-1)
    before, gap = weight[at], estimate - theta[at]
    total = before + n
    kept, new = _divide(before, total), _divide(n, total)
    state.rest.reshape(-1)[at] += rest + before * new * gap * gap
    # From the heavier side, so that what weighs nothing leaves no rounding behind.
    xp = namespace(theta)
    theta[at] = xp.where(n > before, estimate - kept * gap, theta[at] + new * gap)
    weight[at] = total
    state.count.reshape(-1)[at] += count
