"""How far δ̂ may go after a warm start: the range of what ran, kept with what was learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.instance import Instance
from gdcb.records import flatten

JOINS = ("product", "sum")  # compositions in which δ is a factor or a shift of the action
_OUTERMOST = 0.001  # share of rows on either side that does not open the range: typing errors
_NO_LIMIT = float(np.finfo(float).max)  # states hold finite numbers


@dataclass(slots=True)
class DeltaLimits:
    """Limits of δ, for M arms (1 where they share one δ) and q columns.

    An action that ran, relative to its base, is compared with an arm at neutral δ: e divided by
    the arm where δ is a factor, e less the arm where it is added. What ran after the start is
    compared with the second highest and the second lowest arm (each arm with itself where it has a
    δ of its own): where an outermost arm was run, δ may follow by as much as one step of the arms.

    Parameters
    ----------
    low, high : (owners, M, q) limits in force; the largest of all numbers: none
    ran_low, ran_high : (owners, M, q) range of what ran so far, up to one step of the arms beyond
        the limits in force; the next publication of δ̂ widens the limits to it
    lower, upper : (owners, M, q) the arms that the lowest and the highest that ran are compared
        with
    is_set : (owners,) whether limits are in force
    """

    low: Array
    high: Array
    ran_low: Array
    ran_high: Array
    lower: Array
    upper: Array
    is_set: Array

    @staticmethod
    def none(owners: int, arms: int, columns: int) -> DeltaLimits:
        """Return no limit."""
        shape = (owners, arms, columns)
        low, high = np.full(shape, -_NO_LIMIT), np.full(shape, _NO_LIMIT)
        return DeltaLimits(
            low,
            high,
            high.copy(),
            low.copy(),
            np.ones(shape),
            np.ones(shape),
            np.zeros(owners, dtype=bool),
        )

    def clip(self, owner: Array, delta: Array) -> Array:
        """Return δ (N, M, q) within the limits of its owner."""
        if not self.is_set.any():
            return delta
        return np.asarray(np.clip(delta, self.low[owner], self.high[owner]))

    def set(self, owners: Array, other: DeltaLimits) -> None:
        """Give some owners the limits of the first owner of another record."""
        for mine, theirs in zip(flatten(self).values(), flatten(other).values(), strict=True):
            mine[owners] = theirs[0]

    def watch(self, instance: Instance, owner: Array, action: Array, x: Array, ran: Array) -> None:
        """Note what ran; rows where `ran` is false say nothing. The limits in force stay.

        A row counts as no farther than one step of the arms beyond them: one mistyped action must
        not open them for good.
        """
        if not self.is_set.any() or not ran.any():
            return
        rows = np.flatnonzero(ran)
        owners = owner[rows]
        below, above = self.placed(instance, owners, action[rows], x[rows])
        steps = _outer_steps(instance, x[rows[:1]])
        if steps is not None:
            with np.errstate(over="ignore"):  # owners without limits
                if instance.composition.joins == "product":
                    least, most = self.low[owners] * steps[0], self.high[owners] * steps[1]
                else:
                    least, most = self.low[owners] + steps[0], self.high[owners] + steps[1]
            below, above = np.maximum(below, least), np.minimum(above, most)
        np.fmin.at(self.ran_low, owners, below)
        np.fmax.at(self.ran_high, owners, above)

    def placed(
        self, instance: Instance, owner: Array, action: Array, x: Array
    ) -> tuple[Array, Array]:
        """Return actions (N, D) in units of δ, by the lower and by the upper arm: (N, M, q)."""
        relative = instance.composition.relative(action, x)[:, None, : self.lower.shape[2]]
        lower, upper = self.lower[owner], self.upper[owner]
        if instance.composition.joins == "product":
            return relative / lower, relative / upper
        return relative - lower, relative - upper

    def outside(self, delta: Array) -> float:
        """Return the share of δ (N, M, q) that the first owner's limits would change."""
        held = np.clip(delta, self.low[0], self.high[0])
        return float((held != delta).any(axis=(1, 2)).mean()) if delta.shape[0] else 0.0

    def widen(self, owners: Array) -> None:
        """Let the limits of some owners follow what has run; they never become narrower."""
        if self.is_set.any():
            self.low[owners] = np.minimum(self.low[owners], self.ran_low[owners])
            self.high[owners] = np.maximum(self.high[owners], self.ran_high[owners])


def limits_of(instance: Instance, action: Array, x: Array, ran: Array) -> DeltaLimits:
    """Return the limits that executed actions (N, D) set to δ: one owner, who stands for all.

    Within them every arm stays within what ran, its outermost 0.1 % on either side apart. Where
    that leaves less, δ may still move by one step of the arms, as long as only the outermost arm
    leaves what ran. The neutral δ is always allowed: there the arms are what somebody declared. A
    prior that knows more, as that of a fitted model, sets no limit: it is clipped as well. There is
    no limit where the scaler learns nothing, and where δ is no factor or shift of the action.

    Examples
    --------
    Arms 0.8, 1 and 1.25; prices of 0.9 to 2 times the base ran. The highest arm stays within it up
    to δ = 2/1.25 = 1.6. The lowest would for no δ below 0.9/0.8; one step, 0.8/1, is more than
    the arm 1 has room for: 0.9/1.

    >>> import gdcb
    >>> instance = gdcb.Instance(
    ...     context=gdcb.Schema({"base": gdcb.Number(1, 1000), "day": gdcb.Number(0, 1)}),
    ...     arms=gdcb.ArmList(values=(0.8, 1.0, 1.25)),
    ...     composition=gdcb.Multiply(base=("base",), names=("price",)),
    ...     scaler=gdcb.RidgeScaler(features=("day",)),
    ...     gate=[],
    ...     reward=gdcb.Payoff(outcome=("booked",), action=0),
    ... )
    >>> x = np.array([[100.0, 0.2], [50.0, 0.7]])
    >>> found = limits_of(instance, np.array([[90.0], [100.0]]), x, np.ones(2, dtype=bool))
    >>> found.low.ravel().round(3).tolist(), found.high.ravel().round(3).tolist()
    ([0.901], [1.599])
    """
    scaler, rows = instance.scaler, np.flatnonzero(ran)
    found = DeltaLimits.none(1, scaler.n_arms, scaler.n_columns)
    if scaler.learns_from == "nothing" or instance.composition.joins not in JOINS or not rows.size:
        return found
    arms = _arms(instance, x[rows[:1]])
    if arms is None:
        return found
    lowest, found.lower[0], found.upper[0], highest = arms
    owner = np.zeros(x.shape[0], dtype=np.int64)
    below, above = found.placed(instance, owner[rows], action[rows], x[rows])
    known = np.isfinite(below).all(axis=(1, 2))
    if not known.any():
        return found
    least = np.quantile(below[known], _OUTERMOST, axis=0)  # by the second lowest arm
    most = np.quantile(above[known], 1.0 - _OUTERMOST, axis=0)
    neutral = 0.0
    if instance.composition.joins == "product":
        neutral = 1.0
        down, up = lowest / found.lower[0], highest / found.upper[0]  # one step of the arms
        low, high = least / down, most / up
    else:
        down, up = lowest - found.lower[0], highest - found.upper[0]
        low, high = least - down, most - up
    low, high = np.minimum(low, np.maximum(least, down)), np.maximum(high, np.minimum(most, up))
    found.low[0], found.high[0] = np.minimum(low, neutral), np.maximum(high, neutral)
    found.ran_low, found.ran_high = found.low.copy(), found.high.copy()
    found.is_set[:] = True
    return found


def _outer_steps(instance: Instance, x: Array) -> tuple[Array, Array] | None:
    """Return the outermost steps of the arms down and up, (q,) each: factors, or differences.

    None where a column has one arm, and so no step, and where δ does not move the arms.
    """
    arms = _relative_arms(instance, x)
    is_product = instance.composition.joins == "product"
    if arms is None or instance.composition.joins not in JOINS:
        return None
    places = [np.unique(column) for column in arms.T]
    pairs = [(one[:2], one[-2:]) for one in places if one.size > 1]
    if len(pairs) < len(places):
        return None
    down, up = (np.array([pair[i] for pair in pairs]).T for i in (0, 1))
    return (down[0] / down[1], up[1] / up[0]) if is_product else (down[0] - down[1], up[1] - up[0])


def _relative_arms(instance: Instance, x: Array) -> Array | None:
    """Return the arms at neutral δ relative to their base: (K, q); None where δ cannot scale."""
    scaler: Any = instance.scaler
    q, is_product = scaler.n_columns, instance.composition.joins == "product"
    neutral = np.full((1, scaler.n_arms, q), 1.0 if is_product else 0.0)
    actions = instance.composition.compose(instance.space, neutral, x)[0]
    arms = instance.composition.relative(actions, np.repeat(x, actions.shape[0], axis=0))[:, :q]
    # A factor moves no arm at 0, and turns one below it.
    return None if is_product and not (arms > 0).all() else np.asarray(arms)


def _arms(instance: Instance, x: Array) -> tuple[Array, Array, Array, Array] | None:
    """Return the lowest two and the highest two arms, in rising order, relative to their base."""
    arms = _relative_arms(instance, x)
    if arms is None:
        return None
    if instance.scaler.n_arms > 1:
        return arms, arms, arms, arms
    steps = [np.unique(column) for column in arms.T]
    lower = [column[min(1, column.size - 1)] for column in steps]
    upper = [column[max(column.size - 2, 0)] for column in steps]
    ends = [column[0] for column in steps], [column[-1] for column in steps]
    return np.array([ends[0]]), np.array([lower]), np.array([upper]), np.array([ends[1]])
