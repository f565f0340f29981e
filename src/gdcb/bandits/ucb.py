"""Upper confidence bounds: deterministic indices in the place of draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array, scatter_add
from gdcb.bandits.base import check_factor, require_same_shape, require_unscaled, take_arm
from gdcb.bandits.gaussian import require_finite
from gdcb.bandits.marginals import Marginals
from gdcb.parts import check_number
from gdcb.records import Evidence, Located, Setting
from gdcb.streams import Stream

_SURE = 1e-11  # a bound so close to 1 is its own asymptote
_TOLERANCE = 1e-13


@dataclass(slots=True)
class IndexState:
    """Sums of the credited rows.

    Parameters
    ----------
    count, total : (cells, K) n = Σ w·s² and Σ w·s·r of every arm, s = 1 without a scale
    rows : (cells,) Σ w over all arms; the round of a cell is t = 1 + rows
    """

    count: Array
    total: Array
    rows: Array


class _Index:
    """What the three have in common: their sums, and an index that takes the draw's place."""

    target: ClassVar[str] = "class"
    is_curve: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset()
    supports: ClassVar[frozenset[str]] = frozenset({"decay", "marginals", "merge"})

    def init(self, group: Array, arms: Arms) -> IndexState:
        """Return no rows in every cell."""
        shape = (group.shape[0], arms.n)
        return IndexState(np.zeros(shape), np.zeros(shape), np.zeros(shape[0]))

    def draw(self, rng: Stream, state: IndexState, at: Setting) -> Array:
        """Return the index of every arm: (N, K). Nothing is random: `rng` is left as it is."""
        return self._index(state, at.cell)

    def value(self, draw: Array, located: Located) -> Array:
        """Read the indices at located actions."""
        return take_arm(draw, located, self._unknown())

    def mean(self, state: IndexState, at: Setting, located: Located) -> Array:
        """Return every arm's mean so far."""
        return self.value(self._mean(state, at.cell), located)

    def update(self, state: IndexState, evidence: Evidence) -> None:
        """Add the rows' sums."""
        self._check(evidence)
        known = (evidence.arm >= 0) & (evidence.weight > 0)
        cell, weight = evidence.cell[known], evidence.weight[known]
        flat = cell * state.count.shape[1] + evidence.arm[known]
        scale = 1.0 if evidence.scale is None else evidence.scale[known]
        scatter_add(state.count.reshape(-1), flat, weight * scale * scale)
        scatter_add(state.total.reshape(-1), flat, weight * scale * evidence.y[known])
        scatter_add(state.rows, cell, weight)

    def decay(self, state: IndexState, factor: float, cell: Array) -> None:
        """Keep `factor` of the evidence in some cells, of the round too."""
        check_factor(factor)
        for sums in (state.count, state.total, state.rows):
            sums[cell] *= factor

    def merge(self, state: IndexState, other: IndexState) -> None:
        """Add another state's sums; both must come of the same settings and arms."""
        require_same_shape(state.count, other.count)
        state.count += other.count
        state.total += other.total
        state.rows += other.rows

    def marginals(self, state: IndexState, at: Setting) -> Marginals:
        """Return every arm's index: a point."""
        return Marginals("point", (self._index(state, at.cell),))

    def _check(self, evidence: Evidence) -> None:
        require_unscaled(evidence, type(self).__name__)

    def _index(self, state: IndexState, cell: Array) -> Array:
        raise NotImplementedError

    def _unknown(self) -> float:
        raise NotImplementedError

    def _mean(self, state: IndexState, cell: Array) -> Array:
        """Return the mean of every arm (N, K); `unknown` where there is no row."""
        count, total = state.count.take(cell, axis=0), state.total.take(cell, axis=0)
        out = np.full(count.shape, self._unknown())
        return np.asarray(np.divide(total, count, out=out, where=count > 0.0))


@dataclass(frozen=True)
class UCB1(_Index):
    """UCB1 (Auer et al. 2002): the mean plus Hoeffding's radius.

    Index θ̂ + width·√(2·log t / n), with t = 1 + the rows that the cell has credited. Rewards may
    have a declared scale s: r = s·θ + noise, n = Σ w·s², θ̂ = Σ w·s·r / n. An arm without rows
    has the highest mean of the cell plus `untried`·width, and so comes first; no index is higher.

    Parameters
    ----------
    width : length of the interval that holds r, given its mean; 2σ for σ-sub-Gaussian noise
    untried : lead of an arm without rows, in widths: large, and finite because gates average
    unknown : value of an action comparable to no arm, and mean of an arm without rows

    Notes
    -----
    Assumes: rewards of one arm are independent and within an interval of length `width` (or
    sub-Gaussian), alike at all times. Then regret grows like log t.

    Stops applying: behind a gate that seldom lets an arm run, an untried arm keeps its lead, and
    it is proposed until it has run; where the payoff of a class is negative the lead turns against
    the arm. Being deterministic, it gives every other arm propensity 0: what it logs
    cannot be reweighted. Rows of a batch propose the same arm.

    Examples
    --------
    Arm a saw 1 and 0, arm b saw 1: t = 4, log 4 = 1.386294. a: ½ + √(2·1.386294/2) = 1.677410,
    b: 1 + √(2·1.386294/1) = 2.665109.

    >>> import numpy as np
    >>> from gdcb.arms import ArmList
    >>> bandit, arms = UCB1(), ArmList(names=("a", "b")).build()
    >>> zero = np.zeros(3, dtype=int)
    >>> state = bandit.init(zero[:1], arms)
    >>> arm, y = np.array([0, 0, 1]), np.array([1.0, 0.0, 1.0])
    >>> bandit.update(state, Evidence(zero, arm, np.zeros((3, 1)), y, None, np.ones(3)))
    >>> bandit.marginals(state, Setting(zero[:1])).parameters[0].round(6).tolist()
    [[1.67741, 2.665109]]
    """

    width: float = 1.0
    untried: float = 1e6
    unknown: float = 0.5
    target: ClassVar[str] = "any"

    def __post_init__(self) -> None:
        check_number("bandit.width", self.width, 0.0, open_low=True)
        check_number("bandit.untried", self.untried, 1.0, 1e12)
        check_number("bandit.unknown", self.unknown)

    def _check(self, evidence: Evidence) -> None:
        require_finite(evidence, "UCB1")

    def _unknown(self) -> float:
        return self.unknown

    def _index(self, state: IndexState, cell: Array) -> Array:
        mean, count = self._mean(state, cell), state.count.take(cell, axis=0)
        tried = count > 0.0
        log_t = np.log1p(state.rows.take(cell))[:, None]
        square = np.divide(2.0 * log_t, count, out=np.full(count.shape, np.inf), where=tried)
        highest = np.where(tried, mean, -np.inf).max(axis=1, keepdims=True)
        highest = np.where(np.isfinite(highest), highest, self.unknown)
        radius = self.width * np.minimum(np.sqrt(square), self.untried)
        return np.asarray(np.where(tried, mean, highest) + radius)


@dataclass(frozen=True)
class KLUCB(_Index):
    """KL-UCB (Garivier and Cappé 2011): the largest rate that the outcomes do not refute.

    Index max{q : n·d(θ̂, q) ≤ log t + c·log log t}, d(p, q) = p·log(p/q) + (1−p)·log((1−p)/(1−q)),
    with t = 1 + the rows that the cell has credited. An arm without rows has the index `untried`,
    which is above 1, and so comes first.

    Parameters
    ----------
    c : weight of log log t; 0 is what its authors recommend, 3 what they prove
    untried : index of an arm without rows: large, and finite because gates average
    unknown : value of an action comparable to no arm, and mean of an arm without rows

    Notes
    -----
    Assumes: outcomes of one arm are independent, within [0, 1] and alike at all times. For 0/1
    outcomes its regret is the least possible, Lai and Robbins' bound; for others it is valid.

    Stops applying: behind a gate that seldom lets an arm run, an untried arm keeps its lead, and
    it is proposed until it has run; where the payoff of a class is negative the lead turns against
    the arm. Being deterministic, it gives every other arm propensity 0: what it logs
    cannot be reweighted. Rows of a batch propose the same arm.

    Examples
    --------
    Arm a lost twice and b won once: t = 4. a: −log(1 − q) = log(4)/2, so q = 1 − 4^(−1/2) = ½;
    b: nothing above 1, so 1.

    >>> import numpy as np
    >>> from gdcb.arms import ArmList
    >>> bandit, arms = KLUCB(), ArmList(names=("a", "b")).build()
    >>> zero = np.zeros(3, dtype=int)
    >>> state = bandit.init(zero[:1], arms)
    >>> arm, y = np.array([0, 0, 1]), np.array([0.0, 0.0, 1.0])
    >>> bandit.update(state, Evidence(zero, arm, np.zeros((3, 1)), y, None, np.ones(3)))
    >>> bandit.marginals(state, Setting(zero[:1])).parameters[0].round(9).tolist()
    [[0.5, 1.0]]
    """

    c: float = 0.0
    untried: float = 1e6
    unknown: float = 0.5

    def __post_init__(self) -> None:
        check_number("bandit.c", self.c, 0.0)
        check_number("bandit.untried", self.untried, 1.0, 1e12, open_low=True)
        check_number("bandit.unknown", self.unknown, 0.0, 1.0)

    def _unknown(self) -> float:
        return self.unknown

    def _index(self, state: IndexState, cell: Array) -> Array:
        count = state.count.take(cell, axis=0)
        tried = count > 0.0
        log_t = np.log1p(state.rows.take(cell))
        log_t = log_t + self.c * np.log(np.maximum(log_t, 1.0))
        every = np.broadcast_to(log_t[:, None], count.shape)
        out = np.full(count.shape, self.untried)
        mean = np.clip(self._mean(state, cell)[tried], 0.0, 1.0)
        out[tried] = highest_rate(mean, every[tried] / count[tried])
        return out


@dataclass(frozen=True)
class BayesUCB(_Index):
    """Bayes-UCB (Kaufmann et al. 2012): an upper quantile of every arm's Beta posterior.

    Index: the quantile 1 − 1/(t·(log horizon)^c) of Beta(α, β), and the median at the least, with
    t = 1 + the rows that the cell has credited. The prior speaks for an arm without rows.

    Parameters
    ----------
    wins, losses : prior pseudo-counts α, β of every arm
    c : power of log horizon; 0 is what its authors recommend, 5 what they prove
    horizon : rows that a cell is expected to see; read where c > 0

    Notes
    -----
    Assumes: outcomes of one arm are independent, 0/1 and alike at all times, and the prior is
    meant. For outcomes inside (0, 1) the posterior is a pseudo-likelihood, as in `BetaThompson`.

    Stops applying: being deterministic, it gives every other arm propensity 0: what it logs
    cannot be reweighted. Rows of a batch propose the same arm. With a confident prior an arm
    without rows may stay so for long.

    Examples
    --------
    Prior Beta(1, 1). Arm a won once: t = 2, Beta(2, 1), whose quantile at ½ is √½ = 0.707107;
    arm b has the uniform's, ½.

    >>> import numpy as np
    >>> from gdcb.arms import ArmList
    >>> bandit, arms = BayesUCB(), ArmList(names=("a", "b")).build()
    >>> zero = np.zeros(1, dtype=int)
    >>> state = bandit.init(zero, arms)
    >>> bandit.update(state, Evidence(zero, zero, np.zeros((1, 1)), np.ones(1), None, np.ones(1)))
    >>> bandit.marginals(state, Setting(zero)).parameters[0].round(6).tolist()
    [[0.707107, 0.5]]
    """

    wins: float = 1.0
    losses: float = 1.0
    c: float = 0.0
    horizon: float = 10_000.0

    def __post_init__(self) -> None:
        check_number("bandit.wins", self.wins, 0.05)
        check_number("bandit.losses", self.losses, 0.05)
        check_number("bandit.c", self.c, 0.0)
        check_number("bandit.horizon", self.horizon, 3.0)

    def _unknown(self) -> float:
        return self.wins / (self.wins + self.losses)

    def _mean(self, state: IndexState, cell: Array) -> Array:
        alpha, beta = self._posterior(state, cell)
        return np.asarray(alpha / (alpha + beta))

    def _index(self, state: IndexState, cell: Array) -> Array:
        from scipy.special import betainccinv

        alpha, beta = self._posterior(state, cell)
        t = (1.0 + state.rows.take(cell)) * math.log(self.horizon) ** self.c
        # The upper tail itself: 1 − 1/t would lose its digits.
        return np.asarray(betainccinv(alpha, beta, 1.0 / np.maximum(t, 2.0)[:, None]))

    def _posterior(self, state: IndexState, cell: Array) -> tuple[Array, Array]:
        count, total = state.count.take(cell, axis=0), state.total.take(cell, axis=0)
        return self.wins + total, self.losses + np.maximum(count - total, 0.0)


def highest_rate(p: Array, budget: Array) -> Array:
    """Return the largest q with d(p, q) ≤ budget for means p (n,) in [0, 1]: (n,), to 1e-10.

    In h = q − p the divergence is −p·log(1 + h/p) − (1−p)·log(1 − h/(1−p)), which keeps its
    digits for small h. It is convex, so Newton's method falls from an upper bound to the root and
    never crosses it. The bound is the smaller of Pinsker's √(budget/2) and of 1 − p − e, for
    1 − q ≥ e = exp(−(budget + H(p))/(1−p)) with H the entropy. Every entry stops by itself.

    Examples
    --------
    With p = 0, d(0, q) = −log(1 − q): the bound for log 4 is ¾.

    >>> highest_rate(np.array([0.0, 1.0]), np.log([4.0, 4.0])).round(12).tolist()
    [0.75, 1.0]
    """
    p = np.where(p < 1e-100, 0.0, p)
    out = np.ones(p.shape)
    index: Array = np.flatnonzero(p < 1.0)
    p, budget = p[index], budget[index]
    rest: Array = 1.0 - p
    inner: Array = np.where(p > 0.0, p, 1.0)  # p·log(p) and p·log(1 + h/p) are 0 at p = 0
    entropy = -p * np.log(inner) - rest * np.log1p(-p)
    gap = np.exp(-(budget + entropy) / rest)
    out[index] = 1.0 - gap
    h: Array = np.minimum(np.sqrt(0.5 * budget), rest - gap)
    going = gap > _SURE
    for _ in range(100):
        if not going.any():
            break
        index, p, rest = index[going], p[going], rest[going]
        inner, budget, h = inner[going], budget[going], h[going]
        over = -p * np.log1p(h / inner) - rest * np.log1p(-h / rest) - budget
        slope = h / ((p + h) * (rest - h))
        step = np.divide(over, slope, out=np.zeros(h.shape), where=slope > 0.0)
        h = np.maximum(h - step, 0.0)
        out[index] = p + h
        going = np.abs(step) > _TOLERANCE
    return out
