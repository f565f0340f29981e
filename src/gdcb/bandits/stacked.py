"""Stacked Thompson: several learners averaged by how well they predicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array, is_all, is_any, scatter_add
from gdcb.bandits.base import check_factor
from gdcb.bandits.gaussian import require_finite
from gdcb.bandits.gp_curve import MOST_NODES
from gdcb.bandits.prequential import rows_of
from gdcb.errors import InvalidInput
from gdcb.logistic import waves
from gdcb.parts import check_choice, check_size, take_lists
from gdcb.records import Evidence, Located, Setting, copy
from gdcb.streams import Stream

_MOST = 5000  # points of the grid of weights
MOST_MEMBERS = 8
_SMALLEST = 1e-300
_AT_ONCE = 4096  # rows whose mixtures fit into a cache
_LONG = 16  # rows of one cell from which working them out together pays


@dataclass(slots=True)
class StackedState:
    """What the members know, and how well every mixture of them predicted.

    Parameters
    ----------
    grid : (M, k) the weights that are tried, points of the simplex
    group : (cells,) the group of each cell
    prior : (M,) log of what each is worth beforehand
    score : (cells, M) that, and Σ log Σ_k w_k p_k of the rows, less a constant a row
    weights : (cells, k) the weights in force
    rows : (cells,) Σ weight of the scored rows of each cell: its part in its group's score
    members : k states
    """

    grid: Array = field(metadata={"axis": "constant"})
    prior: Array = field(metadata={"axis": "constant"})
    group: Array
    score: Array
    weights: Array
    rows: Array
    members: tuple[Any, ...]


@dataclass(slots=True)
class PooledStackedState(StackedState):
    """The same with one row of score and weights a group: (groups, M) and (groups, k)."""

    score: Array = field(metadata={"axis": "pool"})
    weights: Array = field(metadata={"axis": "pool"})


@dataclass(frozen=True)
class StackedThompson:
    """Average several learners by stacked predictive likelihood; none is selected.

    Before a row is learned, each member k says how likely its outcome was: p_k. Weights w on the
    simplex are judged by Σ log Σ_k w_k p_k (stacking, Yao et al. 2018), prequentially. The sum is
    kept for every w on a grid of step 1/`steps`; the weights in force are the mean of w under
    π(w)·exp(sum), equal at first, where π is a Dirichlet(½, …, ½) on the grid (its multinomial).
    Then, whatever the rows are, the mixture in force predicts them with a total log score of at
    least that of any w on the grid, single members among them, less log 1/π(w) (Cover and
    Ordentlich 1996): 2.08 for a single one of two members and 20 steps.

    A draw is one of every member, and is worth Σ_k w_k v_k: the forms are averaged in every
    decision, and none is selected. The mean is the weighted mean of the members' alike.

    Parameters
    ----------
    members : two or more learners with `predictive` and `decay`, and of one likelihood
    share : 'group': one set of weights for all units of a group; 'cell': each learns its own.
        Which form holds is a trait of a market more than of a listing, and a group sees more rows
    steps : the grid of weights has this many steps from 0 to 1

    Notes
    -----
    Assumes: the best weights do not depend on the context and do not change. The rows of a cell
    are learned in their order, each scored before it is learned, also in one batch. Rows of
    different cells in one batch are scored side by side. From 16 rows of one cell on, curves sum
    up what every row of a block of 64 adds and solve for all of their posteriors at once: 300
    rows of one cell then take 0.05 to 0.2 s on one thread.

    Stops applying: a row is scored where every member has a density (flat arms have none between
    the arms). An optimum inside a step of the grid is met to that step. Members that share
    between cells see the rows of a batch in another order than one by one, so that there a batch
    is not a loop. Draws of several members average out, so it explores less than a member alone;
    where the members disagree, it plays what is good under both.

    Examples
    --------
    Flat arms under the priors Beta(1, 1) and Beta(3, 1); one win, to which they gave ½ and ¾. On
    the grid w₁ = 0, ½, 1, where π = ⅜, ¼, ⅜, the mixtures gave ¾, ⅝ and ½. So
    E w₁ = (½·¼·⅝ + ⅜·½)/(⅜·¾ + ¼·⅝ + ⅜·½) = 17/40.

    >>> from gdcb.arms import ArmList
    >>> from gdcb.bandits.beta import BetaThompson
    >>> bandit = StackedThompson((BetaThompson(), BetaThompson(wins=3.0)), steps=2)
    >>> state = bandit.init(np.zeros(1, dtype=int), ArmList(names=("a", "b")).build())
    >>> zero, one = np.zeros(1, dtype=int), np.ones(1)
    >>> bandit.update(state, Evidence(zero, zero, np.zeros((1, 1)), one, None, one))
    >>> (40 * state.weights).round(9).tolist()
    [[17.0, 23.0]]
    """

    members: tuple[Any, ...] = field(metadata={"parts": "bandit"})
    share: str = "group"
    steps: int = 20

    def __post_init__(self) -> None:
        take_lists(self)
        check_choice("bandit.share", self.share, ("group", "cell"))
        members: Any = self.members
        if not isinstance(members, tuple) or len(members) < 2:
            raise InvalidInput(f"bandit.members: expected two learners or more, got {members!r}")
        k = len(members)
        for i, member in enumerate(members):
            has = getattr(member, "supports", ())
            if isinstance(member, type) or not {"predictive", "decay"} <= set(has):
                raise InvalidInput(
                    f"bandit.members[{i}]: expected a learner with 'predictive' and 'decay', "
                    f"got {member!r}"
                )
        for name in ("likelihood", "target"):
            found = {getattr(member, name) for member in self.members} - {"any"}
            if len(found) > 1:
                raise InvalidInput(
                    f"bandit.members: expected one {name}, got {' and '.join(sorted(found))}"
                )
        forms = sorted(_rebuilds(self.members))
        if len(forms) > 1:
            raise InvalidInput(
                f"bandit.members: expected one way to rebuild, got {' and '.join(forms)}"
            )
        if self.n_learners > MOST_MEMBERS:
            raise InvalidInput(
                f"bandit.members: expected at most {MOST_MEMBERS} learners, with those of members "
                f"that are stacked themselves; got {self.n_learners}"
            )
        steps: Any = self.steps
        if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
            raise InvalidInput(f"bandit.steps: expected a whole number above 0, got {steps!r}")
        if comb(self.steps + k - 1, k - 1) > _MOST:
            raise InvalidInput(
                f"bandit.steps: {self.steps} steps with {k} members are more than {_MOST} points; "
                "take fewer"
            )

    @property
    def n_learners(self) -> int:
        """Return how many learners there are, those of stacked members included."""
        return sum(getattr(member, "n_learners", 1) for member in self.members)

    def n_nodes(self, arms: Arms) -> int:
        """Return how many nodes of Gaussian processes the members have together."""
        members = [member for member in self.members if hasattr(member, "n_nodes")]
        return sum(member.n_nodes(arms) for member in members)

    def check_nodes(self, arms: Arms) -> None:
        """Refuse more nodes than a stack may have, before any is there."""
        check_size("bandit", "nodes of all members", self.n_nodes(arms), most=MOST_NODES)

    @property
    def supports(self) -> frozenset[str]:
        """Return what it can do beside the protocol; `refit` where every member can."""
        can = all(hasattr(member, "leave_one_out") for member in self.members)
        return frozenset({"decay", "predictive"} | ({"refit"} if can else set()))

    @property
    def target(self) -> str:
        """Return what all members can learn."""
        found = {str(member.target) for member in self.members} - {"any"}
        return found.pop() if found else "any"

    @property
    def likelihood(self) -> str:
        """Return what the members' predictive densities are of."""
        return str(self.members[0].likelihood)

    @property
    def is_curve(self) -> bool:
        """Whether any member learns between the arms."""
        return any(member.is_curve for member in self.members)

    @property
    def reads(self) -> frozenset[str]:
        """Return what any member reads."""
        return frozenset().union(*(member.reads for member in self.members))

    @property
    def rebuilds(self) -> str | None:
        """Return how members get the action back from c and δ; None: none of them does."""
        found = _rebuilds(self.members)
        return found.pop() if found else None

    def init(self, group: Array, arms: Arms) -> StackedState:
        """Return the members' priors under equal weights."""
        self.check_nodes(arms)
        grid = _simplex(len(self.members), self.steps)
        is_pooled = self.share == "group"
        prior = _dirichlet(grid, self.steps)
        score = np.tile(prior, (int(group.max()) + 1 if is_pooled else group.shape[0], 1))
        members = tuple(member.init(group, arms) for member in self.members)
        kind = PooledStackedState if is_pooled else StackedState
        rows = np.zeros(group.shape[0])
        return kind(grid, prior, np.array(group), score, _mean(score, grid), rows, members)

    def _owner(self, state: StackedState, cell: Array) -> Array:
        return np.asarray(state.group[cell] if self.share == "group" else cell)

    def draw(self, rng: Stream, state: StackedState, at: Setting) -> tuple[Any, ...]:
        """Return the weights in force (N, k); behind them every member's draw."""
        weights = state.weights[self._owner(state, at.cell)]
        return weights, *(
            member.draw(rng, part, at)
            for member, part in zip(self.members, state.members, strict=True)
        )

    def value(self, draw: tuple[Any, ...], located: Located) -> Array:
        """Return Σ_k w_k v_k at located actions."""
        weights, *draws = draw
        out = weights[:, :1] * self.members[0].value(draws[0], located)
        for k in range(1, len(self.members)):
            out = out + weights[:, k : k + 1] * self.members[k].value(draws[k], located)
        return np.asarray(out)

    def mean(self, state: StackedState, at: Setting, located: Located) -> Array:
        """Return Σ_k w_k·mean_k."""
        weights = state.weights[self._owner(state, at.cell)]
        parts = zip(self.members, state.members, strict=True)
        means = [member.mean(part, at, located) for member, part in parts]
        total = weights[:, :1] * means[0]
        for k in range(1, len(means)):
            total = total + weights[:, k : k + 1] * means[k]
        return np.asarray(total)

    def predictive(self, state: StackedState, evidence: Evidence) -> Array:
        """Return log Σ_k w_k p_k of each outcome before it is learned."""
        density = self._densities(state, evidence)
        most = density.max(axis=1)
        weights = state.weights[self._owner(state, evidence.cell)]
        return np.asarray(most + np.log((weights * np.exp(density - most[:, None])).sum(axis=1)))

    def _densities(self, state: StackedState, evidence: Evidence) -> Array:
        """Return every member's log density of each outcome: (N, k)."""
        parts = zip(self.members, state.members, strict=True)
        found = [member.predictive(part, evidence) for member, part in parts]
        return np.stack(found, axis=1)

    def update(self, state: StackedState, evidence: Evidence) -> None:
        """Score the rows, let every member learn them, and weigh the members anew."""
        require_finite(evidence, "StackedThompson")
        known = evidence.weight > 0
        density = self._densities(state, evidence)[known]  # members refuse here, before any write
        seen = evidence if is_all(known) else rows_of(evidence, known)
        if seen.cell.size == 0:
            return
        # Which way a cell goes depends on its own rows alone, and so do its bytes.
        is_long = np.bincount(seen.cell)[seen.cell] >= _LONG
        self._learn_in_waves(state, seen, np.flatnonzero(~is_long), density)
        for cell in np.unique(seen.cell[is_long]):
            own = np.flatnonzero(seen.cell == cell)
            density[own] = self._learn_cell(state, rows_of(seen, own))
        self._learn_weights(state, seen, density)

    @property
    def refit(self) -> Callable[[StackedState, Evidence], None]:
        """Put the exact fit of rows in place of what every cell among them has learned.

        Only there where every member can. The weights are then those of stacking proper: each
        row is scored under the fit of all others (`leave_one_out`), not of those before it. Where
        a group shares its weights the rows are all of the group's.
        """
        if "refit" not in self.supports:
            raise AttributeError("a member cannot leave a row out")
        return self._refit

    def refit_means(self, state: StackedState, evidence: Evidence) -> None:
        """Refit the members alone; the weights are back at their prior."""
        require_finite(evidence, "StackedThompson")
        cells = np.unique(evidence.cell)
        parts = copy(state.members)  # a member that refuses must not leave the others fitted
        for member, part in zip(self.members, parts, strict=True):
            if hasattr(member, "refit"):
                member.refit(part, evidence)
            else:  # sums are the exact fit of all rows; they begin anew
                member.decay(part, 0.0, cells)
                member.update(part, evidence)
        state.members = parts
        owners = np.unique(self._owner(state, cells))
        everyone = self._owner(state, np.arange(state.rows.size))
        state.rows[np.isin(everyone, owners)] = 0.0
        state.score[owners] = state.prior
        state.weights[owners] = _mean(state.score[owners], state.grid)

    def _refit(self, state: StackedState, evidence: Evidence) -> None:
        self.refit_means(state, evidence)
        known = evidence.weight > 0
        density = np.empty((evidence.cell.size, len(self.members)))
        for k, (member, part) in enumerate(zip(self.members, state.members, strict=True)):
            density[:, k] = member.leave_one_out(part, evidence)
        seen = evidence if is_all(known) else rows_of(evidence, known)
        self._learn_weights(state, seen, density[known])

    def _learn_in_waves(
        self, state: StackedState, seen: Evidence, short: Array, density: Array
    ) -> None:
        """Let the members learn the first rows of all cells, then the second, and so on.

        Writes the densities (N, k) of all but the first, which are known.
        """
        for i, wave in enumerate(waves(seen.cell[short])):
            rows = short[wave]
            some = seen if rows.size == seen.cell.size else rows_of(seen, rows)
            if i:
                density[rows] = self._densities(state, some)
            for member, part in zip(self.members, state.members, strict=True):
                member.update(part, some)

    def _learn_cell(self, state: StackedState, own: Evidence) -> Array:
        """Let the members learn rows of one cell; return their log densities just before."""
        found = np.empty((own.cell.size, len(self.members)))
        for k, (member, part) in enumerate(zip(self.members, state.members, strict=True)):
            if hasattr(member, "prequential"):
                found[:, k] = member.prequential(part, own)
                continue
            for i in range(own.cell.size):
                row = rows_of(own, np.array([i]))
                found[i, k] = member.predictive(part, row)[0]
                member.update(part, row)
        return found

    def _learn_weights(self, state: StackedState, seen: Evidence, density: Array) -> None:
        scored = np.isfinite(density).all(axis=1)
        if not is_any(scored):
            return
        density, cell, weight = density[scored], seen.cell[scored], seen.weight[scored]
        p = np.exp(density - density.max(axis=1, keepdims=True))
        owner = self._owner(state, cell)
        said = np.empty((cell.size, state.grid.shape[0]))
        for start in range(0, cell.size, _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            mixed = p[some, :1] * state.grid[:, 0]
            for k in range(1, p.shape[1]):
                mixed += p[some, k : k + 1] * state.grid[:, k]
            np.maximum(mixed, _SMALLEST, out=mixed)
            np.multiply(np.log(mixed, out=mixed), weight[some, None], out=said[some])
        scatter_add(state.score, owner, said)
        scatter_add(state.rows, cell, weight)
        touched = np.unique(owner)
        state.weights[touched] = _mean(state.score[touched], state.grid)

    def decay(self, state: StackedState, factor: float, cell: Array) -> None:
        """Keep `factor` of the evidence in some cells, and of their part in a group's score.

        That part is taken to be their part of the scored weight.
        """
        check_factor(factor)
        for member, part in zip(self.members, state.members, strict=True):
            member.decay(part, factor, cell)
        owner = np.unique(self._owner(state, cell))
        kept = np.full(owner.size, factor)
        if self.share == "group":
            n, total = state.score.shape[0], state.rows.copy()
            state.rows[cell] *= factor
            whole = np.bincount(state.group, total, n)[owner]
            gone = np.bincount(state.group, total - state.rows, n)[owner]
            kept = 1.0 - np.divide(gone, whole, out=np.zeros(owner.size), where=whole > 0.0)
        else:
            state.rows[cell] *= factor
        state.score[owner] = state.prior + kept[:, None] * (state.score[owner] - state.prior)
        state.weights[owner] = _mean(state.score[owner], state.grid)


def _rebuilds(members: tuple[Any, ...]) -> set[str]:
    """Return the ways in which members rebuild actions."""
    found = {getattr(member, "rebuilds", None) for member in members}
    return {str(way) for way in found if way is not None}


def _simplex(k: int, steps: int) -> Array:
    """Return all k weights that are multiples of 1/steps and sum to 1: (M, k).

    >>> _simplex(2, 2).tolist()
    [[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]
    """
    bars = np.array(list(combinations(range(steps + k - 1), k - 1)))
    ends = np.full((bars.shape[0], 1), steps + k - 1)
    gaps = np.diff(np.concatenate((np.full_like(ends, -1), bars, ends), axis=1))
    return np.asarray((gaps - 1) / steps)


def _dirichlet(grid: Array, steps: int) -> Array:
    """Return the log of the Dirichlet-multinomial(½, …, ½) of the grid's counts: (M,).

    >>> np.exp(_dirichlet(_simplex(2, 2), 2)).tolist()
    [0.375, 0.25, 0.375]
    """
    count = np.arange(steps)
    single = np.concatenate(([0.0], np.cumsum(np.log((count + 0.5) / (count + 1.0)))))
    found = single[np.rint(grid * steps).astype(np.int64)].sum(axis=1)
    return np.asarray(found - np.log(np.exp(found).sum()))


def _mean(score: Array, grid: Array) -> Array:
    """Return the mean weights (n, k) under exp(score) over the grid."""
    chance = np.exp(score - score.max(axis=1, keepdims=True))
    chance /= chance.sum(axis=1, keepdims=True)
    return np.stack([(chance * column).sum(axis=1) for column in grid.T], axis=1)
