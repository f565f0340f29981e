"""A world made from a log: contexts are its rows, the response is a model fitted on half of it.

Every replicate cuts the log into halves at random. Its world is a draw of the outcome model's
coefficients, given the first half; its history is real rows of the second. So no method learns the
noise that it is judged by, and what differs between replicates includes what the log leaves open
about the response.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gdcb.arrays import Array, all_finite, logistic
from gdcb.errors import InvalidInput
from gdcb.history.batch import Batch
from gdcb.history.passage import passed_through
from gdcb.history.response import Response, response_of
from gdcb.history.reviewer import with_people
from gdcb.instance import Instance
from gdcb.records import History, Rows
from gdcb.streams import Stream, Streams

UNITS = 8  # of a replicate, at most
ROWS = 1000  # of a replicate's history, at most
MOST_ROWS = 50_000  # of a log; of a longer one a sample is read
_GRID, _GRID_OF_TWO = 61, 15  # points along a coordinate, among which the best action is looked for
_FINER, _ROUNDS = 11, 2  # and between the neighbours of the best of them
_SEED = 2**53


@dataclass(slots=True)
class Replicate:
    """What one replicate drew of the log.

    Parameters
    ----------
    units : (U,) units of the log
    fitted, kept : rows on which its world is fitted; and rows of its history, in their order
    normal : (d + U,) draws for coefficients and units' levels
    """

    units: Array
    fitted: Array
    kept: Array
    normal: Array


@dataclass(slots=True)
class Drawn:
    """The worlds of some replicates.

    Parameters
    ----------
    replicates : what each drew of the log
    unit : (N,) unit of the log that a simulated unit is
    weights : (N, d) coefficients of η, a unit's own level in the first; None: not asked for yet
    """

    replicates: list[Replicate]
    unit: Array
    weights: Array | None = None


@dataclass(frozen=True, eq=False)
class ModelWorld:
    """A world whose contexts are a log's rows and whose response is a model of its outcomes.

    Parameters
    ----------
    instance : with the log's people in its gates
    batch : all rows
    taught : rows that ran and whose outcome was seen
    response : the family of outcome models, its form chosen by cross-fitting
    units : units a replicate
    rows : rows of a replicate's history, at most
    """

    instance: Instance
    batch: Batch
    taught: Array
    response: Response
    units: int
    rows: int = ROWS
    _order: Array = field(init=False, repr=False)
    _first: Array = field(init=False, repr=False)
    _count: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        order = np.argsort(self.batch.unit, kind="stable")
        count = np.bincount(self.batch.unit)
        object.__setattr__(self, "_order", order)
        object.__setattr__(self, "_count", count)
        object.__setattr__(self, "_first", np.concatenate(([0], np.cumsum(count)[:-1])))

    def start(self, rng: Stream, group: Array) -> Drawn:
        """Draw halves, units and coefficients of every replicate; nothing is fitted yet."""
        seeds = (rng.uniform(group.size) * _SEED).astype(np.uint64)
        first = np.unique(group, return_index=True)[1]
        units = group.size // first.size
        replicates = [self._replicate(int(seeds[at]), units) for at in first]
        return Drawn(replicates, np.concatenate([one.units for one in replicates]))

    def _replicate(self, seed: int, units: int) -> Replicate:
        """Draw one replicate, from its own numbers alone."""
        rng = np.random.default_rng(seed)
        known = np.flatnonzero(self._count)
        chosen = rng.permutation(known)[:units]
        if chosen.size < units:  # more are asked for than there are: some stand for two
            chosen = np.concatenate((chosen, rng.choice(known, units - chosen.size)))
        is_first = rng.random(self.batch.n) < 0.5
        fitted = self.taught[is_first[self.taught]]
        other = np.flatnonzero(~is_first & self.is_finished)
        mine = other[np.isin(self.batch.unit[other], chosen)]
        kept = np.sort(rng.permutation(mine)[: self.rows])
        d = self.response.features.precision(self.response.form).size  # habits among them
        return Replicate(chosen, fitted, kept, rng.standard_normal(d + units))

    @property
    def is_finished(self) -> Array:
        """Whether a row (N,) ended: its outcome was seen, or nothing ran."""
        ran = all_finite(self.batch.action)
        return np.asarray(~ran | np.isfinite(self.batch.outcome[:, 0]))

    def weights(self, state: Drawn) -> Array:
        """Return the coefficients (N, d) of all units; the first look fits them."""
        if state.weights is None:
            parts = [self._drawn(one) for one in state.replicates]
            state.weights = np.concatenate(parts)
        return state.weights

    def _drawn(self, one: Replicate) -> Array:
        fit = self.response.fit(self.batch, one.fitted)
        d = fit.mean.size
        drawn, habit = fit.mean + fit.root @ one.normal[:d], self.response.features.habit
        weights = np.tile(drawn, (one.units.size, 1))
        if habit is not None:
            weights[:, 0] += (habit[one.units] * drawn[-habit.shape[1] :]).sum(axis=1)
        mean, variance = self.response.levels(self.batch, one.fitted, fit, one.units)
        weights[:, 0] += mean + np.sqrt(variance) * one.normal[d:]
        return weights

    def context(self, rng: Stream, state: Drawn, t: int, group: Array) -> Rows:
        """Reveal one of the log's rows for every unit; which one stands in the hidden column."""
        u = state.unit
        place = (rng.uniform(group.size) * self._count[u]).astype(np.int64)
        row = self._order[self._first[u] + place]
        hidden = row[:, None].astype(float)
        return Rows(np.arange(group.size), group, self.batch.x[row], hidden=hidden)

    def chance(self, state: Drawn, e: Array, rows: Rows) -> Array:
        """Return P(y = 1), or E[r]/s(x), of actions (N, M, D): (N, M).

        Beyond what the log has seen it is such that the reward is at most the nearest seen one's.
        """
        features, reward = self.response.features, self.instance.reward
        near = features.clipped(e, rows.x)
        weights = self.weights(state)[rows.unit]
        eta = features.predictor(weights, near, rows.x, self.response.form)
        if not self.response.is_class:
            return eta * self.response.size
        p = logistic(eta)
        worth = reward.worth(p, near, rows.x)
        none, one = (reward.worth(np.full(p.shape, at), e, rows.x) for at in (0.0, 1.0))
        gain = one - none
        at_most = np.divide(worth - none, gain, out=p.copy(), where=gain > 0)
        return np.where((near != e).any(axis=-1), np.clip(np.minimum(p, at_most), 0.0, 1.0), p)

    def mean(self, state: Drawn, e: Array, rows: Rows) -> Array:
        """Return μ(e, x); where nothing runs, what the null action is declared to be worth."""
        runs = all_finite(e)
        safe = e if runs.all() else np.where(runs[..., None], e, self._anywhere(rows.x)[:, None])
        worth = self.instance.reward.worth(self.chance(state, safe, rows), safe, rows.x)
        if runs.all():
            return worth
        return np.where(runs, worth, self.instance.null.declared(rows.x)[:, None])

    def _anywhere(self, x: Array) -> Array:
        """Return some action (N, D) that can be valued."""
        return self._arms(x)[:, 0]

    def _arms(self, x: Array) -> Array:
        neutral = 0.0 if self.instance.composition.joins == "sum" else 1.0
        q = self.instance.scaler.n_columns
        delta = np.full((x.shape[0], 1, q), neutral)
        return self.instance.composition.compose(self.instance.space, delta, x)

    def candidates(self, state: Drawn, rows: Rows) -> Array:
        """Return a grid over what the log has seen: (N, M, D); all categories, where it is one."""
        features = self.response.features
        if features.is_category:
            return self._arms(rows.x)
        n = _GRID if features.low.size == 1 else _GRID_OF_TWO
        axes = [np.linspace(low, high, n) for low, high in zip(*self._range, strict=True)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        return np.asarray(features.unit(rows.x)[:, None] * grid)

    @property
    def _range(self) -> tuple[Array, Array]:
        return self.response.features.low, self.response.features.high

    def best(self, state: Drawn, rows: Rows) -> Array:
        """Return the best action that the log has seen: (N, D); on a grid, then on finer ones."""
        features, found = self.response.features, self.candidates(state, rows)
        best = self._largest(state, found, rows)
        if features.is_category:
            return best
        unit, (low, high) = features.unit(rows.x), self._range
        n = _GRID if low.size == 1 else _GRID_OF_TWO
        step = (high - low) / (n - 1)
        side = np.linspace(-1.0, 1.0, _FINER)
        around = np.stack(np.meshgrid(*[side] * low.size, indexing="ij"), axis=-1)
        around = around.reshape(-1, low.size)
        for _ in range(_ROUNDS):
            place = np.clip((best / unit)[:, None] + around * step, low, high)
            best = self._largest(state, place * unit[:, None], rows)
            step = step * 2.0 / (_FINER - 1)
        return best

    def _largest(self, state: Drawn, e: Array, rows: Rows) -> Array:
        at = self.mean(state, e, rows).argmax(axis=1)
        return np.asarray(e[np.arange(rows.n), at])

    def sample(self, rng: Stream, state: Drawn, e: Array, rows: Rows) -> Array:
        """Draw outcomes: a class, or the mean and one of the log's residuals."""
        u = rng.uniform(rows.n)
        runs = all_finite(e)
        safe = np.where(runs[:, None], e, self._anywhere(rows.x))
        value = self.chance(state, safe[:, None], rows)[:, 0]
        out = np.zeros((rows.n, len(self.instance.reward.outcome)))
        if self.response.is_class:
            out[:, 0] = runs & (u < value)
            return out
        residual = self.response.residual
        mean = self.instance.reward.worth(value[:, None], safe[:, None], rows.x)[:, 0]
        drawn = mean + residual[(u * residual.size).astype(np.int64)]
        out[:, 0] = np.where(runs, drawn, self.instance.null.declared(rows.x))
        return out

    def label(self, rng: Stream, state: Drawn, e: Array, rows: Rows) -> Array | None:
        """Return the labels that the row had in the log."""
        if self.batch.label is None:
            return None
        return np.asarray(self.batch.label[self.row_of(rows)])

    def advance(self, rng: Stream, state: Drawn, e: Array, outcome: Array, rows: Rows) -> Drawn:
        """Rows of a log do not hang on what ran before."""
        return state

    def row_of(self, rows: Rows) -> Array:
        """Return which rows of the log these contexts are: (N,)."""
        if rows.hidden is None:
            raise InvalidInput("a world of a log knows contexts by their hidden column")
        return rows.hidden[:, 0].astype(np.int64)

    def incumbent(self, rng: Stream, state: Any, rows: Rows) -> Array:
        """Return what was proposed in that very row, or ran, where no proposal was written down.

        Where neither was, an arm stands for it.
        """
        at = self.row_of(rows)
        known = self.batch.action if self.batch.recommended is None else self.batch.recommended
        proposed, ran = known[at], self.batch.action[at]
        proposed = np.where(all_finite(proposed)[:, None], proposed, ran)
        is_whole = all_finite(proposed)[:, None]
        return np.where(is_whole, proposed, self._anywhere(rows.x))

    def place(self, one: Replicate) -> Array:
        """Return which of a replicate's units each row of its history is of: (N,)."""
        order = np.argsort(one.units, kind="stable")
        return np.asarray(order[np.searchsorted(one.units[order], self.batch.unit[one.kept])])

    def past(
        self, instance: Instance, world: Any, state: Drawn, group: Array, streams: Streams
    ) -> History:
        """Return real rows of every replicate's other half, dealt to the units that they are of."""
        index, unit, owner = [], [], []
        at = 0
        for g, one in enumerate(state.replicates):
            index.append(one.kept)
            unit.append(at + self.place(one))
            owner.append(np.full(one.kept.size, g))
            at += one.units.size
        rows, is_null = np.concatenate(index), ~all_finite(self.batch.action)
        batch = self.batch.take(rows)
        # Nothing ran, and nothing came of it: the row tells of the gates alone.
        unseen = is_null[rows] & ~np.isfinite(batch.outcome[:, 0])
        nothing = np.zeros(batch.n)
        if not self.response.is_class:
            nothing = self.instance.null.declared(batch.x)
        batch.outcome = np.where(unseen[:, None], nothing[:, None], batch.outcome)
        return passed_through(instance, batch, np.concatenate(unit), np.concatenate(owner))


def world_of(
    instance: Instance, batch: Batch, rows: int = ROWS
) -> tuple[ModelWorld, tuple[str, ...]]:
    """Return the world of a log, and sentences on what its people are.

    Refused: a log without outcomes, one that is too small, and one whose action or outcome never
    varies.
    """
    ran = all_finite(batch.action)
    seen = np.isfinite(batch.outcome[:, 0])
    if not seen.any():
        name = instance.reward.outcome[0]
        raise InvalidInput(f"the log has no outcome: '{name}' is empty in all {batch.n:,} rows")
    taught = np.flatnonzero(ran & seen)
    response = response_of(instance, batch.take(taught))
    simulated, said = with_people(instance, batch, response.features)
    units = min(UNITS, int((np.bincount(batch.unit) > 0).sum()))
    return ModelWorld(simulated, batch, taught, response, units, rows), said
