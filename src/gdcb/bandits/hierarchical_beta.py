"""Hierarchical Thompson for classes: units of a group share where their rates come from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array, in_parts, scatter_add
from gdcb.bandits.base import check_factor, require_same_shape, require_unscaled, take_arm
from gdcb.bandits.priors import NUMBERS, Numbers, check_numbers, pooled_rate, pseudo_counts
from gdcb.errors import InvalidInput
from gdcb.parts import check_number, check_size, take_lists
from gdcb.records import Evidence, Located, Setting
from gdcb.streams import Stream

_LARGE = 30.0  # from here on Stirling's series is exact to the last digit
_MOST = 2**20  # numbers in one array of messages
MOST_NODES = 1_000  # beyond, nothing is gained, and finding them takes seconds
MOST_HYPER = 1_000_000  # numbers of one group's hyper-posterior


@dataclass(slots=True)
class HierarchicalBetaState:
    """Counts of every cell, and the hyper-posterior of every group kept beside them.

    Parameters
    ----------
    node : (3, Q) of every hyper-parameter: κ·m, κ·(1 − m) and its log prior probability; (3, K, Q)
        where arms have priors of their own
    group : (cells,) the group of each cell
    counts : (cells, 2, K) weighted wins, then losses, without any prior
    hyper_log : (groups, K, Q) log hyper-posterior, up to a constant an arm
    hyper : (groups, K, Q) the same as cumulative probabilities
    """

    node: Array = field(metadata={"axis": "constant"})
    group: Array
    counts: Array
    hyper_log: Array = field(metadata={"axis": "pool"})
    hyper: Array = field(metadata={"axis": "pool"})


@dataclass(frozen=True)
class HierarchicalBetaThompson:
    """Units of a group share, for each arm, a Beta prior whose mean and strength are learned.

    m ~ Beta(wins, losses) and κ uniform over `concentration`, a pair a group and arm; θ given them
    ~ Beta(κ·m, κ·(1 − m)) a unit and arm; outcomes are 1 with probability θ (Hong et al. 2022, in
    its Bernoulli form). A unit with W wins and L losses tells its group the beta-binomial
    likelihood B(κm + W, κ(1−m) + L) / B(κm, κ(1−m)) at Q fixed hyper-parameters: Gauss–Jacobi nodes
    of the prior of m, for each κ. Groups keep the sum of its logarithms, so that a decision reads
    one row of its group and no other unit. A draw takes (κ, m) from the hyper-posterior, the unit's
    own rows included, and then θ from Beta(κm + W, κ(1−m) + L); `mean` sums over the nodes.

    Parameters
    ----------
    wins, losses : pseudo-counts of the prior of m, one number or K, one an arm. An action that is
        comparable to no arm is worth the rate of all of them together
    concentration : κ ≥ ½, one or several: the rates of a group spread by √(m(1−m)/(κ+1))
    nodes : how many values m may have, at least π·√(κ+1): then they lie within a spread

    Notes
    -----
    Assumes: units of a group are alike but for chance (exchangeable), outcomes are 0/1 and alike
    at all times, and arms are independent of each other. The integral over m is exact as long as a
    group has credited fewer than 2·nodes rows an arm, and the model with m on the nodes always is.

    Stops applying: a group of very many units knows m better than the nodes lie apart, and then
    stays on the nearest one: a unit without rows is off by half a gap at the most. Where units fall
    into kinds, one Beta is too wide; give each kind its group. Outcomes inside (0, 1) and weights
    make a pseudo-likelihood, as in `BetaThompson`.

    Examples
    --------
    m uniform, κ = 2. One unit won once: its likelihood is m, so that m has the density 2m and the
    mean 2/3. A unit without rows then expects 2/3, the first one (2·2/3 + 1)/(2 + 1) = 7/9.

    >>> import numpy as np
    >>> from gdcb.arms import ArmList
    >>> bandit = HierarchicalBetaThompson(concentration=2.0)
    >>> arms, zero = ArmList(names=("a",)).build(), np.zeros(1, dtype=int)
    >>> state = bandit.init(np.zeros(2, dtype=int), arms)
    >>> bandit.update(state, Evidence(zero, zero, np.zeros((1, 1)), np.ones(1), None, np.ones(1)))
    >>> bandit.mean(state, Setting(np.arange(2)), arms.nominal).ravel().round(6).tolist()
    [0.777778, 0.666667]
    """

    wins: Numbers = field(default=1.0, metadata=NUMBERS)
    losses: Numbers = field(default=1.0, metadata=NUMBERS)
    concentration: float | tuple[float, ...] = (2.0, 8.0, 32.0)
    nodes: int = 32
    target: ClassVar[str] = "class"
    is_curve: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset()
    supports: ClassVar[frozenset[str]] = frozenset({"decay", "merge"})

    def __post_init__(self) -> None:
        take_lists(self)
        check_numbers("bandit.wins", self.wins, 0.05)
        check_numbers("bandit.losses", self.losses, 0.05)
        if not self._concentrations():
            raise InvalidInput("bandit.concentration: expected at least one number")
        for value in self._concentrations():
            check_number("bandit.concentration", value, 0.5)
        least = math.ceil(math.pi * math.sqrt(max(self._concentrations()) + 1.0))
        check_number("bandit.nodes", self.nodes, least, MOST_NODES)
        if not isinstance(self.nodes, int):
            raise InvalidInput(f"bandit.nodes: expected a whole number, got {self.nodes!r}")

    def init(self, group: Array, arms: Arms) -> HierarchicalBetaState:
        """Return the prior: no counts, and the hyper-prior in every group."""
        n_hyper = self.nodes * len(self._concentrations())
        check_size("bandit", "arms × nodes × concentrations", arms.n, n_hyper, most=MOST_HYPER)
        node = self._nodes(arms.n)
        n_groups, n_nodes = int(np.max(group)) + 1, node.shape[-1]
        state = HierarchicalBetaState(
            node,
            np.asarray(group),
            np.zeros((group.shape[0], 2, arms.n)),
            np.broadcast_to(node[2], (n_groups, arms.n, n_nodes)).copy(),
            np.empty((n_groups, arms.n, n_nodes)),
        )
        _normalise(state, np.arange(n_groups * arms.n))
        return state

    def draw(self, rng: Stream, state: HierarchicalBetaState, at: Setting) -> Array:
        """Sample every arm's hyper-parameters and then its rate: (N, K)."""
        counts = state.counts.take(at.cell, axis=0)
        u = rng.uniform(counts.shape[0], counts.shape[2])
        which = np.empty(u.shape, dtype=np.int64)
        for rows in in_parts(u.shape[0], state.hyper[0].size):
            share = state.hyper.take(state.group.take(at.cell[rows]), axis=0)
            which[rows] = (share[..., :-1] <= u[rows, :, None]).sum(axis=-1)
        if state.node.ndim == 3:  # each arm's nodes lie behind those of the arm before
            which += state.node.shape[2] * np.arange(counts.shape[2])
        counts[:, 0] += state.node[0].take(which)
        counts[:, 1] += state.node[1].take(which)
        return rng.beta(counts)

    def value(self, draw: Array, located: Located) -> Array:
        """Read the drawn probabilities at located actions."""
        return take_arm(draw, located, self._unknown)

    @cached_property
    def _unknown(self) -> float:
        return pooled_rate(self.wins, self.losses)

    def mean(self, state: HierarchicalBetaState, at: Setting, located: Located) -> Array:
        """Posterior mean of θ, hyper-posterior summed out."""
        (a, b, _), n_arms = state.node, state.counts.shape[2]
        mean = np.empty((at.cell.size, n_arms))
        for rows in in_parts(at.cell.size, state.hyper[0].size):
            cell = at.cell[rows]
            won, lost = state.counts[cell].swapaxes(0, 1)[..., None]
            share = np.diff(state.hyper[state.group[cell]], axis=-1, prepend=0.0)
            mean[rows] = (share * ((a + won) / (a + b + won + lost))).sum(axis=-1)
        return self.value(mean, located)

    def update(self, state: HierarchicalBetaState, evidence: Evidence) -> None:
        """Add the rows' counts and carry each touched cell's change into its group."""
        require_unscaled(evidence, "Hierarchical Beta-Thompson")
        known = (evidence.arm >= 0) & (evidence.weight > 0)
        cell, arm, weight = (part[known] for part in (evidence.cell, evidence.arm, evidence.weight))
        won, (n_cells, _, n_arms) = weight * evidence.y[known], state.counts.shape
        touched = np.unique(arm * n_cells + cell)  # by arm, so that it can be parted by arms
        before = state.counts[touched % n_cells, :, touched // n_cells]
        flat = cell * 2 * n_arms + arm
        scatter_add(state.counts.reshape(-1), flat, won)
        scatter_add(state.counts.reshape(-1), flat + n_arms, weight - won)
        for part in _parts(touched // n_cells, state.node.shape[-1]):
            where, which = touched[part] % n_cells, touched[part] // n_cells
            both = np.concatenate((before[part], state.counts[where, :, which]))
            said, says = np.split(_message(state, both, np.tile(which, 2)), 2)
            _tell(state, state.group[where] * n_arms + which, says - said)

    def decay(self, state: HierarchicalBetaState, factor: float, cell: Array) -> None:
        """Keep `factor` of the evidence in some cells, and tell their groups."""
        check_factor(factor)
        state.counts[cell] *= factor
        self._gather(state, np.unique(state.group[cell]))

    def merge(self, state: HierarchicalBetaState, other: HierarchicalBetaState) -> None:
        """Add another state's counts, and tell the groups; both must have the same prior."""
        require_same_shape(state.counts, other.counts)
        if not np.array_equal(state.node, other.node):
            raise InvalidInput("merge: expected a state of the same prior and nodes")
        if not np.array_equal(state.group, other.group):
            raise InvalidInput("merge: expected a state of the same groups")
        state.counts += other.counts
        self._gather(state, np.unique(state.group))

    def _gather(self, state: HierarchicalBetaState, groups: Array) -> None:
        """Sum what all cells tell some groups afresh."""
        cell = np.flatnonzero(np.isin(state.group, groups))
        n_arms = state.counts.shape[2]
        state.hyper_log[groups] = state.node[2]
        for arm in range(n_arms):
            silent = _message(state, np.zeros((1, 2)), arm)
            says = _message(state, state.counts[cell, :, arm], arm) - silent
            _tell(state, state.group[cell] * n_arms + arm, says)

    def _concentrations(self) -> tuple[float, ...]:
        some = self.concentration
        return tuple(some) if isinstance(some, tuple | list) else (some,)

    def _nodes(self, n_arms: int) -> Array:
        """Return κ·m, κ·(1−m) and the log prior probability of every node: (3, Q) or (3, K, Q)."""
        if not isinstance(self.wins, tuple) and not isinstance(self.losses, tuple):
            return self._nodes_of(self.wins, self.losses)
        prior = pseudo_counts(self.wins, self.losses, n_arms, "an arm")
        return np.stack([self._nodes_of(*pair) for pair in prior.T.tolist()], axis=1)

    def _nodes_of(self, wins: float, losses: float) -> Array:
        """Return the nodes of one arm: (3, Q)."""
        from scipy.special import roots_jacobi

        x, weight = roots_jacobi(self.nodes, losses - 1.0, wins - 1.0)
        log_weight = np.log(weight / weight.sum())
        parts = [
            np.stack((0.5 * kappa * (1.0 + x), 0.5 * kappa * (1.0 - x), log_weight))
            for kappa in self._concentrations()
        ]
        return np.concatenate(parts, axis=1)


def _message(state: HierarchicalBetaState, counts: Array, arm: Array | int) -> Array:
    """Return the log likelihood of wins and losses (n, 2) of arms at every node: (n, Q).

    log B(κm + W, κ(1−m) + L) less log B(W + 1, L + 1), which is the same at all nodes, and still
    to be compared with what no rows say.
    """
    won, lost = counts.T[..., None]
    a, b, _ = state.node if state.node.ndim == 2 else state.node[:, arm]
    return log_rise(won, a) + log_rise(lost, b) - log_rise(won + lost, a + b)


def _tell(state: HierarchicalBetaState, pool: Array, message: Array) -> None:
    """Add messages (n, Q) to the sums of pools, a group and arm each, and normalise those."""
    scatter_add(state.hyper_log.reshape(-1, message.shape[1]), pool, message)
    _normalise(state, np.unique(pool))


def _normalise(state: HierarchicalBetaState, pool: Array) -> None:
    """Turn the sums of some pools into cumulative probabilities."""
    n_nodes = state.node.shape[-1]
    log = state.hyper_log.reshape(-1, n_nodes)[pool]
    total = np.cumsum(np.exp(log - log.max(axis=1, keepdims=True)), axis=1)
    state.hyper.reshape(-1, n_nodes)[pool] = total / total[:, -1:]


def _parts(arm: Array, n_nodes: int) -> list[slice]:
    """Part sorted arms where all at once would take too much memory; no pool is cut in two."""
    if arm.size * n_nodes <= _MOST:
        return [slice(None)] if arm.size else []
    cuts = [0, *(np.flatnonzero(np.diff(arm)) + 1).tolist(), arm.size]
    return [slice(start, stop) for start, stop in pairwise(cuts)]


def log_rise(count: Array, a: Array) -> Array:
    """Return log Γ(count + a) − log Γ(count + 1) for counts (n, 1) and a (Q,) or (n, Q): (n, Q).

    Both Γ of a large count are huge and alike, so their difference is taken in Stirling's series:
    what is left is of the order of a·log(count), with all its digits.

    Examples
    --------
    Γ(2 + 3) / Γ(2 + 1) = 24 / 2 = 12.

    >>> np.exp(log_rise(np.array([[2.0]]), np.array([3.0]))).round(12).tolist()
    [[12.0]]
    """
    from scipy.special import gammaln

    large = count[:, 0] >= _LARGE
    if not large.any():
        return np.asarray(gammaln(count + a) - gammaln(count + 1.0))
    top, base, more = count + a, count + 1.0, a - 1.0
    out = (base - 0.5) * np.log1p(more / base) + more * np.log(top) - more
    out += _stirling(top) - _stirling(base)
    out[~large] = gammaln(top[~large]) - gammaln(base[~large])
    return np.asarray(out)


def _stirling(z: Array) -> Array:
    """Return log Γ(z) − ((z − ½)·log z − z + ½·log 2π), for z of 30 and more."""
    square = z * z
    series = 1.0 / 1260.0 - 1.0 / (1680.0 * square)
    return np.asarray((1.0 / 12.0 - (1.0 / 360.0 - series / square) / square) / z)
