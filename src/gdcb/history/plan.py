"""How a log is to be summed up: features, time segments, strata and δ, fixed before the sums.

Everything that decides where a row is counted is fixed on a pilot: all rows of a log that fits,
else a sample spread over it. The sums of two parts of a log can then be added, wherever they were
made.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

from gdcb import credit, refold
from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.bandits import Bandit
from gdcb.context import Number
from gdcb.delta_limits import DeltaLimits, limits_of
from gdcb.errors import InvalidInput
from gdcb.history.batch import Batch
from gdcb.history.maturity import Maturity
from gdcb.history.passage import passed_through
from gdcb.history.sentences.assumptions import form_of
from gdcb.instance import Instance
from gdcb.records import Log

SEGMENTS = 100  # of time; a change is dated to one of them
STRATA = 4  # of contexts, by what they are worth
FOLDS = 5  # segments take turns, so that neighbours in time are mostly in other folds
MOST_FEATURES = 40  # squares and products are left out where there would be more
MOST_PRODUCTS = 28  # products alone, likewise: every row pays for the square of their number
_TINY = 1e-12
_EPOCH = 1e9  # seconds since 1970 from which on a time is a date: no log has as many rows
_SMALL = 1e-6  # spread of a product below which it says nothing
_ON_ARM = 0.05  # steps
_LEVEL_ROWS = 10.0
_FARTHEST = 5.0  # standard deviations; a column's rare extremes must not decide a fit
_SOME = 2000  # rows in which a column that is more than an indicator shows
_FEW = 4  # segment borders in a batch that are quicker counted than searched


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """φ(x): context columns, squares and products, all with mean 0 and variance 1 in the pilot.

    Parameters
    ----------
    columns : positions in x
    left, right : positions among the columns whose products count too, a square with itself
    mean, scale : (p,) of columns and products, in that order
    names : (p,) for people
    """

    columns: Array
    left: Array
    right: Array
    mean: Array
    scale: Array
    names: tuple[str, ...]

    def __call__(self, x: Array) -> Array:
        """Return φ (N, p), which lies column by column: long loops over rows are quick ones."""
        phi = np.empty((self.mean.size, x.shape[0]))
        self.write(x, phi)
        return phi.T

    def write(self, x: Array, phi: Array) -> None:
        """Write φ into (p, N)."""
        k, mean, scale = self.columns.size, self.mean[:, None], self.scale[:, None]
        for row, column in zip(phi, self.columns, strict=False):
            row[:] = x[:, column]
        phi[:k] -= mean[:k]
        phi[:k] /= scale[:k]
        np.clip(phi[:k], -_FARTHEST, _FARTHEST, out=phi[:k])
        for row, a, b in zip(phi[k:], self.left, self.right, strict=True):
            np.multiply(phi[a], phi[b], out=row)
        phi[k:] -= mean[k:]
        phi[k:] /= scale[k:]


@dataclass(slots=True)
class Plan:
    """What is fixed before a log is summed up.

    Parameters
    ----------
    instance, bandit : what is to be started warm
    units : how many units the log names
    scaler : the scaler's state, fitted on the pilot and in force
    limits : the range of what ran, beyond which δ̂ is clipped; one owner stands for all
    features : φ
    times : (S − 1,) where one time segment ends and the next begins
    index, edges : (p,), (strata − 1,): a row's stratum is where φᵀindex falls
    pilot : the rows on which all this was fixed
    is_whole : whether they are all rows of the log
    has_time : whether times are seconds since 1970, and not the numbers of rows
    has_scale, unit : whether rewards have a declared scale s(x), and the mean of s² over the
        pilot, 1 without. Rows weigh s²/unit in the sums, so
        that Σw counts rows: variances, errors and least numbers of rows follow from it
    levels : (units,) how far a unit's outcomes lie from those of all, shrunk; a learner of its own
        is not misled by it, and a unit that joins late is no change of the reward law
    members : whether the learner reads the context, by x or by a δ̂ that moves in the pilot; of a
        stack, whether each of its members does
    unread : names of context columns that vary and that a learner which reads x does not read
    part : (q, q) the part of φ, and of the distances behind it, that such a learner does not read:
        φ·part is what is left of φ beyond a line in the columns that it reads. Where arms were
        chosen by that, its rows mislead it. None: it reads no x, or reads δ̂, too
    is_read : (q,) which of φ and of the distances are such columns; of classes what their log odds
        leave is tested, and not a part of a line
    maturity : which rows are too young for their outcomes; neither the pilot nor the sums have them
    read : the pilot with those rows; None: it has none
    """

    instance: Instance
    bandit: Bandit
    units: int
    scaler: Any
    features: FeatureMap
    times: Array
    index: Array
    edges: Array
    pilot: Batch
    is_whole: bool
    has_time: bool
    has_scale: bool = False
    unit: float = 1.0
    levels: Array = field(default_factory=lambda: np.zeros(1))
    members: tuple[bool, ...] = (False,)
    unread: tuple[str, ...] = ()
    part: Array | None = None
    is_read: Array = field(default_factory=lambda: np.zeros(0, dtype=bool))
    limits: DeltaLimits = field(default_factory=lambda: DeltaLimits.none(1, 1, 1))
    maturity: Maturity = field(default_factory=Maturity)
    read: Batch | None = None

    def within(self, y: Array, unit: Array) -> Array:
        """Return outcomes (N,) less the level of their unit."""
        return y if self.units == 1 else y - self.levels[unit]

    @property
    def reads_context(self) -> bool:
        """Whether the learner takes off by itself what the context moves: rows stay as they are.

        Of a stack every member must: arms in better contexts mislead the others.
        """
        return all(self.members)

    @property
    def is_judged(self) -> bool:
        """Whether it is tested what the contexts of arms are worth beyond what the learner reads.

        Not where it reads δ̂: what that leaves of the context is not known.
        """
        return self.part is not None or not self.reads_context

    @property
    def can_adjust(self) -> bool:
        """Whether the worth of the context may be taken off the outcomes before they are learned.

        Of a learner that reads the context, that of what it does not read. Not where a member of a
        stack reads other columns than the others, or δ̂: it would find the same arm best in every
        context, because nothing that depends on context is left to learn.
        """
        return not any(self.members) or (self.part is not None and len(self.members) == 1)

    def regressors(self, x: Array, off: Array) -> Array:
        """Return φ and the distances from the arm (N, q), less what the learner reads itself."""
        z = np.concatenate((self.features(x), off), axis=1)
        return z if self.part is None else z @ self.part

    @property
    def left_out(self) -> tuple[bool, bool]:
        """Whether squares of numbers, and whether products, found no room among the features."""
        features = self.features
        is_square = features.left == features.right
        x = self.pilot.x[:_SOME][:, features.columns]
        can_square = any(np.unique(column).size > 2 for column in x.T)
        can_multiply = features.columns.size > 1
        return (
            can_square and not bool(is_square.any()),
            can_multiply and bool(is_square.all()),
        )

    @property
    def form(self) -> str:
        """What must hold of the worth of the context for the fit to be right, as a clause."""
        return form_of(*self.left_out)

    def delta(self, unit: Array, x: Array) -> Array:
        """Return δ̂(x): (N, 1 or K, q)."""
        scaler = self.instance.scaler
        owner = unit if scaler.per == "unit" else np.zeros_like(unit)
        delta: Array = scaler.predict(self.scaler, owner, x)
        return self.limits.clip(np.zeros_like(owner), delta)

    def segment(self, time: Array) -> Array:
        """Return the time segment of each row: (N,)."""
        if time.size == 0:
            return np.zeros(0, dtype=np.int64)
        low, high = np.searchsorted(self.times, (time.min(), time.max()), side="right")
        if high - low > _FEW:
            return np.asarray(np.searchsorted(self.times, time, side="right"))
        segment = np.full(time.size, low)  # rows of one batch are mostly neighbours in time
        for edge in self.times[low:high]:
            segment += time >= edge
        return segment

    def stratum(self, phi: Array) -> Array:
        """Return the stratum of each row: (N,)."""
        return np.asarray(np.searchsorted(self.edges, phi @ self.index, side="right"))

    def place(self, action: Array, is_null: Array, delta: Array, x: Array) -> tuple[Array, Array]:
        """Return the arm within half a step of what ran (N,), and how far it is off (N, C).

        The arm is K where there is none; the distance is in steps, 0 off every arm. What is less
        than a twentieth of a step away is on the arm: the outcome cannot tell, and a distance that
        all overridden rows share would be taken for what they have in common.
        """
        space, k = self.instance.space, self.instance.space.n
        arm, off = np.full(is_null.size, k), np.zeros((is_null.size, space.n_coords))
        if is_null.all():
            return arm, off
        rows = np.flatnonzero(~is_null) if is_null.any() else slice(None)
        found = self.instance.composition.locate(space, action[rows][:, None], delta[rows], x[rows])
        nearest = found.arm[:, 0]
        known = np.maximum(nearest, 0)
        away = found.coord[:, 0] - space.coords[known]
        moved = np.flatnonzero((away != 0.0).any(axis=1))  # most logs hold the arms themselves
        if moved.size:
            there = space.in_steps(found.coord[moved, 0]) - space.places[known[moved]]
            away[moved] = there
        if space.is_exact.any() or delta.shape[1] > 1:  # it alone knows what is comparable
            near = (nearest >= 0) & (found.steps[:, 0] <= credit.HALF_STEP)
        else:
            near = (nearest >= 0) & (np.abs(away).max(axis=1) <= credit.HALF_STEP)
        arm[rows] = np.where(near, nearest, k)
        off[rows] = np.where(near[:, None] & (np.abs(away) > _ON_ARM), away, 0.0)
        return arm, off


def plan_of(
    instance: Instance,
    bandit: Bandit,
    pilot: Batch,
    units: int = 1,
    is_whole: bool = True,
    maturity: Maturity | None = None,
) -> Plan:
    """Fix features, segments, strata and δ̂ on a pilot of the log."""
    if pilot.n == 0:
        raise InvalidInput("history: expected at least one valid row, got none")
    maturity = maturity or Maturity()
    read, pilot = pilot, maturity.keep(pilot)
    bandit = instance.bind(bandit)
    features = _features(instance, pilot.x)
    phi = features(pilot.x)
    scaler = fitted_scaler(instance, bandit, pilot, units)
    history = passed_through(instance, pilot, pilot.unit, np.zeros_like(pilot.unit))
    y, weight = target_of(history.log)
    known = np.isfinite(y) & ~history.log.is_null
    index = _worth_of_context(phi[known], y[known], weight[known])
    score = (phi * index).sum(axis=1)
    edges = np.unique(np.quantile(score, np.arange(1, STRATA) / STRATA))
    times = np.unique(np.quantile(pilot.time, np.arange(1, SEGMENTS) / SEGMENTS))
    plan = Plan(
        instance,
        bandit,
        units,
        scaler,
        features,
        times,
        index,
        edges,
        pilot,
        is_whole,
        has_dates(pilot.time),
        history.log.scale is not None,
        _unit(history.log, known),
        _levels(pilot.unit[known], y[known] - phi[known] @ index, weight[known], units),
        limits=limits_of(instance, history.log.action, pilot.x, ~history.log.is_null),
        maturity=maturity,
        read=None if read is pilot else read,
    )
    delta = plan.delta(pilot.unit, pilot.x)
    moves = float(np.ptp(delta, axis=0).max()) > 0.0
    by_delta = ["delta" in one.reads and moves for one in members_of(bandit)]
    by_x = [columns_read(one, features.columns) for one in members_of(bandit)]
    plan.members = tuple(
        reads or bool(columns.any()) for reads, columns in zip(by_delta, by_x, strict=True)
    )
    if plan.reads_context and not any(by_delta):
        left = features.columns[~np.all(by_x, axis=0)]
        plan.unread = tuple(instance.context.names[at] for at in left)
        is_read = np.all(by_x, axis=0)
        plan.part = _unread_part(phi, is_read, instance.space.n_coords, bandit)
        plan.is_read = np.zeros(plan.part.shape[0], dtype=bool)
        plan.is_read[np.flatnonzero(is_read)] = True
        plan.is_read[phi.shape[1] :] = bandit.is_curve
    return plan


def _unread_part(phi: Array, is_read: Array, n_coords: int, bandit: Bandit) -> Array:
    """Return the matrix that takes off φ a line in the columns that are read, in the pilot.

    A curve learns of an action where it ran, so that distances from the arm are read as well.
    """
    p, read = phi.shape[1], np.flatnonzero(is_read)
    part = np.eye(p + n_coords)
    known = phi[:, read]
    gram = known.T @ known
    gram[np.diag_indices_from(gram)] += _TINY * (1.0 + phi.shape[0])
    part[read[:, None], np.arange(p)] -= np.linalg.solve(gram, known.T @ phi)
    part[:, read] = 0.0
    if bandit.is_curve:
        part[p:] = 0.0
    return part


def members_of(bandit: Any) -> list[Any]:
    """Return the learners that a stack is made of, stacks within it included; else the learner."""
    if not hasattr(bandit, "members"):
        return [bandit]
    return [one for member in bandit.members for one in members_of(member)]


def columns_read(bandit: Any, columns: Array) -> Array:
    """Return which of these columns of x a learner reads: none, unless it reads x.

    The columns are those in its settings (`gdcb.parts.column`). A learner without such settings
    reads all columns.
    """
    if "x" not in bandit.reads:
        return np.zeros(columns.shape, dtype=bool)
    named = [
        getattr(bandit, setting.name)
        for setting in (fields(bandit) if is_dataclass(bandit) else ())
        if setting.metadata.get("column")
    ]
    flat = [at for one in named for at in (one if isinstance(one, tuple) else (one,))]
    read = np.isin(columns, [at for at in flat if isinstance(at, int)])
    return read if named else np.ones(columns.shape, dtype=bool)


def has_dates(time: Array) -> bool:
    """Whether times are seconds since 1970, and not the numbers of rows."""
    return bool(time.max(initial=0.0) > _EPOCH)


def _levels(unit: Array, y: Array, weight: Array, units: int) -> Array:
    """Return the units' levels around that of all, drawn to it by ten rows."""
    if units == 1 or not y.size:
        return np.zeros(units)
    total = np.bincount(unit, weight, units)
    middle = (weight * y).sum() / weight.sum()
    return np.asarray(np.bincount(unit, weight * (y - middle), units) / (total + _LEVEL_ROWS))


def _unit(log: Log, known: Array) -> float:
    """Return the mean of s² over rows with an outcome, 1 where no scale is declared."""
    if log.scale is None or not known.any():
        return 1.0
    return float((log.scale[known] ** 2).mean())


def target_of(log: Log) -> tuple[Array, Array]:
    """Return what the arms learn per unit of the declared scale (N,), and the rows' weights."""
    if log.scale is None:
        return log.y, log.weight
    return log.y / log.scale, log.weight * log.scale**2


def fitted_scaler(instance: Instance, bandit: Bandit, pilot: Batch, units: int) -> Any:
    """Return the scaler's state after the pilot's labels or outcomes, in force where it may be."""
    group = np.zeros(units, dtype=np.int64)
    state = turn.init(instance, bandit, group)
    history = passed_through(instance, pilot, pilot.unit, np.zeros_like(pilot.unit))
    teach_scaler(instance, state, history.log, pilot.label, group)
    return state.scaler


def teach_scaler(
    instance: Instance, state: turn.RoundState, log: Log, label: Array | None, group: Array
) -> None:
    """Fit the scaler on finished rows with outcomes, or on labels, and put it in force.

    Rows of weight 0 are left out; without any other row the scaler stays as it is.
    """
    scaler: Any = instance.scaler
    owners = np.arange(group.size if scaler.per == "unit" else 1)
    if scaler.learns_from == "label" and label is not None:
        seen = np.flatnonzero(np.isfinite(label).any(axis=1) & (log.weight > 0))
        if seen.size:
            credit.learn_labels(instance, state.scaler, log.take(seen), label[seen])
            scaler.publish(state.scaler, owners)
    elif scaler.learns_from == "outcome" and "refit" in scaler.supports:
        seen = np.flatnonzero(np.isfinite(log.y) & ~log.is_null & (log.weight > 0))
        if seen.size:
            some = log.take(seen)
            credit.watch_scaler(instance, state.scaler, some)
            refold.publish(instance, state, owners, group, some)


def _features(instance: Instance, x: Array) -> FeatureMap:
    """Return φ: columns that vary, and the squares of numbers where there is room for them."""
    schema = instance.context
    columns = np.flatnonzero(x.std(axis=0) > _TINY * (1.0 + np.abs(x).max(axis=0)))
    if not columns.size:  # nothing varies; the first column stands for a constant 0
        columns = np.zeros(1, dtype=np.int64)
    numbers = [
        at
        for name, kind in schema.columns.items()
        if isinstance(kind, Number)
        for at in schema.positions[name]
    ]
    values = x[:, columns]
    mean, scale = values.mean(axis=0), values.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    values = np.clip((values - mean) / scale, -_FARTHEST, _FARTHEST)
    left, right = _products(values, np.isin(columns, numbers))
    product = values[:, left] * values[:, right]
    spread = product.std(axis=0)
    names = [schema.names[at] for at in columns]
    pairs = zip(left, right, strict=True)
    return FeatureMap(
        columns,
        left,
        right,
        np.concatenate((mean, product.mean(axis=0))),
        np.concatenate((scale, np.where(spread > 0, spread, 1.0))),
        (*names, *(f"{names[a]}²" if a == b else f"{names[a]} × {names[b]}" for a, b in pairs)),
    )


def _products(values: Array, is_number: Array) -> tuple[Array, Array]:
    """Return pairs of columns: squares of numbers, and products of all, where there is room."""
    n = values.shape[1]
    many = np.array([np.unique(column[:2000]).size > 2 for column in values.T])
    squares = np.flatnonzero(is_number & many)
    left, right = np.triu_indices(n, 1)
    if n + squares.size + left.size > MOST_PRODUCTS:
        left, right = left[:0], right[:0]
    left, right = np.concatenate((squares, left)), np.concatenate((squares, right))
    if n + left.size > MOST_FEATURES:
        left, right = left[:0], right[:0]
    varies = (values[:, left] * values[:, right]).std(axis=0) > _SMALL  # levels exclude each other
    return left[varies], right[varies]


def _worth_of_context(phi: Array, y: Array, weight: Array) -> Array:
    """Return the slopes of outcomes on φ, all arms together: what contexts are worth."""
    p = phi.shape[1]
    if y.size < 2:
        return np.ones(p)
    total = weight.sum()
    centred = y - (weight * y).sum() / total
    gram = (weight[:, None] * phi).T @ phi + 1.0 * np.eye(p)
    slopes = np.linalg.solve(gram, phi.T @ (weight * centred))
    return np.asarray(slopes if np.abs(slopes).max() > 0 else np.ones(p))
