"""What is watched after launch: each gate, the reward law and each context column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.analysis.drift.betting import BETS, Monitors
from gdcb.analysis.drift.expected import (
    Expectation,
    Scales,
    every_fourth,
    expected_mean,
    features,
    fit,
    nothing_expected,
    scales_of,
    scored,
)
from gdcb.analysis.drift.limits import mean_limits
from gdcb.analysis.drift.seen import Seen
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.parts import check_number, check_text, check_tuple
from gdcb.records import EXPIRED, HELD, NOT_REACHED, PASSED

KINDS = ("gate", "reward", "context")
_KNOTS = 128


@dataclass(slots=True)
class Reference:
    """How things were: frozen before launch, and never learned from again.

    Parameters
    ----------
    scales, expected : models of the targets: how often and how far each gate acts given context and
        what entered, and the reward given context and what ran
    first, last : (T, D) range of the actions that a target was seen at, in 98 of 100 rows; nothing
        is said of actions outside it
    knots : (p, 128) quantiles of each context column
    low, high : (2·p,) limits of the mean level and spread of each context column
    is_judged : (M,) monitors that have rows enough to say anything
    """

    scales: Scales
    expected: Expectation
    first: Array
    last: Array
    knots: Array
    low: Array
    high: Array
    is_judged: Array


@dataclass(frozen=True)
class WatchList:
    """Monitors of the gates of a chain, the reward law and the contexts, at one false-alarm rate.

    M = G·(1 + numbers of an action) + 1 + 2·p monitors. *Gate*: how often it acts (y = 1 where it
    changed, vetoed or let a hold expire), and how far it moves each number that it changes, both
    less what a frozen linear model of context and of what entered expects. *Reward*: what the
    bandit learns from, less what a model of context and of what ran expects. Residuals are divided
    by two of their standard deviations, cut off at ±1 and brought to [0, 1]. *Context*: u, the
    place of a column among the quantiles of the reference, and |2u − 1|, how far out it lies.
    `Monitors` then watches whether their means stay within limits.

    The limits come from the reference. Models and quantiles are taken from every fourth row of it,
    limits from the rest, so they hold for these very models, good or bad; those of residuals hold
    band by band of what is expected, so that a learner that turns to other actions does not by
    itself give an alarm. Nothing is said of actions outside the range of the reference.

    The rate: half of `level` for the limits (P(any of them misses) ≤ level/2), half for the bets
    (Ville). So P(any false alarm, ever) ≤ level. Each half is split evenly over the kinds that have
    a monitor, then over the monitors of a kind, and a monitor's share of the first half over
    both limits of its bands.

    Parameters
    ----------
    gates, columns, actions : names of the gates, in order, of the context and of the action columns
    levels : levels of each action column, 0: a number
    level : largest probability of any false alarm while the reference stands
    horizon, margin, bets : as in `Monitors`; the margin is in units of the numbers in [0, 1], so
        1/4 is one standard deviation of a residual
    bands : bands of what is expected
    least : rows that a band or column needs for its limits

    Notes
    -----
    Assumes: rows of the reference are independent, and while nothing has changed a row's residual
    has, given its band and the past, the mean that it had in the reference; contexts likewise.

    Stops applying: seasons and streaks are changes too, and are found. Within a band, a model that
    misses the truth may err differently once the learner has turned to other actions; more bands or
    a margin help, at the price of later alarms. A change of the spread of rewards alone is not
    looked for.

    Examples
    --------
    Two gates before one number, a reward and three context columns are 4 + 1 + 6 monitors; each
    of a gate's four has a quarter of a third of the level.

    >>> watched = WatchList(("owner", "limits"), ("base", "busy", "gap"), ("price",), (0,))
    >>> watched.n, watched.names[2]
    (11, 'gate owner: how far it moves price')
    """

    gates: tuple[str, ...]
    columns: tuple[str, ...]
    actions: tuple[str, ...]
    levels: tuple[int, ...]
    level: float = 0.05
    horizon: int | None = None
    margin: float = 0.0
    bets: tuple[float, ...] = BETS
    bands: int = 2
    least: int = 30

    def __post_init__(self) -> None:
        for where in ("gates", "columns", "actions", "levels"):
            check_tuple(f"watch.{where}", getattr(self, where))
        for name in (*self.gates, *self.columns, *self.actions):
            check_text("watch.gates, watch.columns, watch.actions", name)
        if len(self.actions) != len(self.levels):
            raise InvalidInput(
                f"watch.levels: expected one of each action {self.actions}, got {self.levels}"
            )
        for n_levels in self.levels:
            check_number("watch.levels", n_levels, 0)
        check_number("watch.level", self.level, 0.0, 1.0, open_low=True)
        check_number("watch.bands", self.bands, 1)
        check_number("watch.least", self.least, 2)
        self._monitors(np.ones(self.n, dtype=bool))

    @staticmethod
    def of(instance: Instance, **changes: Any) -> WatchList:
        """Return what is watched in an instance: all its gates and context columns."""
        gates = tuple(gate.name for gate in instance.chain.gates)
        actions = tuple(column.name for column in instance.actions)
        levels = tuple(len(column.levels) for column in instance.actions)
        return WatchList(gates, instance.context.names, actions, levels, **changes)

    @property
    def n(self) -> int:
        """Number of monitors M."""
        return self.n_targets + 2 * len(self.columns)

    @property
    def n_targets(self) -> int:
        """Number of monitors T of gates and of the reward, which come first."""
        return len(self.gates) * (1 + len(self._numbers)) + 1

    @property
    def _numbers(self) -> list[int]:
        return [d for d, n_levels in enumerate(self.levels) if not n_levels]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the monitors' names, in order."""
        acts = [f"gate {name}: how often it acts" for name in self.gates]
        numbers = [self.actions[d] for d in self._numbers]
        moves = [f"gate {name}: how far it moves {e}" for e in numbers for name in self.gates]
        levels = [f"context {name}: level" for name in self.columns]
        spreads = [f"context {name}: spread" for name in self.columns]
        return (*acts, *moves, "reward", *levels, *spreads)

    @property
    def kinds(self) -> Array:
        """Return the kind of each monitor, as its place in `KINDS`: (M,)."""
        return np.repeat([0, 1, 2], [self.n_targets - 1, 1, 2 * len(self.columns)])

    def shares(self, is_judged: Array) -> Array:
        """Return how half the level is split over the monitors (M,): 0 where nothing is judged."""
        kinds, shares = self.kinds, np.zeros(self.n)
        there = [kind for kind in range(len(KINDS)) if is_judged[kinds == kind].any()]
        for kind in there:
            some = is_judged & (kinds == kind)
            shares[some] = 1.0 / (len(there) * some.sum())
        return shares

    def monitors(self, reference: Reference) -> Monitors:
        """Return the monitors that half the level is left for."""
        return self._monitors(reference.is_judged)

    def _monitors(self, is_judged: Array) -> Monitors:
        shares = tuple(self.shares(is_judged).tolist())
        level = 0.5 * self.level
        return Monitors(self.names, level, shares, self.horizon, self.bets, self.margin)

    # The reference

    def fit(self, seen: Seen) -> Reference:
        """Freeze a reference: rows of a time in which all was as it should be.

        Raises `InvalidInput` where no monitor has rows enough.
        """
        n_targets, n_columns = self.n_targets, len(self.columns)
        seen.check(n_columns, len(self.gates), len(self.levels))
        # Who is judged depends on how many rows there are alone, so the level can be split first.
        is_judged = self._counts(seen) >= 2 * self.least * np.where(self.kinds == 2, 1, self.bands)
        if not is_judged.any():
            raise InvalidInput(
                f"reference: expected at least {2 * self.least} rows with something to watch, got "
                f"{seen.n} rows"
            )
        chance = 0.5 * self.level * self.shares(is_judged)
        e = np.where(np.isfinite(seen.action), seen.action, seen.trail[:, 0])
        scales = scales_of(seen.x, e)
        d = features(scales, self.levels, seen.x[:1], e[:1]).shape[1]
        expected = nothing_expected(n_targets, d, self.bands)
        first, last = np.full((2, n_targets, len(self.levels)), np.nan)
        low, high = np.full((2, 2 * n_columns), np.nan)
        knots = self._knots(seen)
        found = Reference(scales, expected, first, last, knots, low, high, is_judged)
        for t in np.flatnonzero(is_judged[:n_targets]):
            rows, given, y = self._target(seen, int(t))
            is_shape = every_fourth(rows.size)
            first[t], last[t] = np.quantile(given[is_shape], (0.01, 0.99), axis=0)
            some = np.flatnonzero(_inside(found, int(t), given))
            phi = features(scales, self.levels, seen.x[rows[some]], given[some])
            settings = (is_shape[some], float(chance[t]), self.least)
            is_judged[t] = fit(expected, int(t), phi, y[some], *settings)
        contexts = seen.x[seen.is_new]
        numbers = self._context_numbers(found, contexts[~every_fourth(contexts.shape[0])])
        for c in np.flatnonzero(is_judged[n_targets:]):
            share = float(chance[n_targets + c])
            low[c], high[c] = mean_limits(numbers[:, c], share / 2)
        return found

    def _counts(self, seen: Seen) -> Array:
        """Return how many rows each monitor has in a reference: (M,)."""
        contexts = seen.x[seen.is_new]
        counts = [self._rows_of(seen, t).size for t in range(self.n_targets)]
        counts += [contexts.shape[0]] * len(self.columns)
        # Of a flag, or a level of a category, the level says all.
        is_number = [np.unique(column).size > 2 for column in contexts.T]
        counts += [contexts.shape[0] * many for many in is_number]
        return np.array(counts)

    def _knots(self, seen: Seen) -> Array:
        contexts = seen.x[seen.is_new]
        contexts = contexts[every_fourth(contexts.shape[0])]
        if not contexts.size:
            return np.zeros((len(self.columns), _KNOTS))
        share = (np.arange(_KNOTS) + 0.5) / _KNOTS
        return np.quantile(contexts, share, axis=0, method="inverted_cdf").T.copy()

    # Rows

    def rows(self, reference: Reference, seen: Seen) -> tuple[Array, Array, Array]:
        """Return what the monitors see of N rows: numbers and their limits, (N, M) each."""
        n_targets = self.n_targets
        seen.check(len(self.columns), len(self.gates), len(self.levels))
        value, low, high = np.full((3, seen.n, self.n), np.nan)
        for t in np.flatnonzero(reference.is_judged[:n_targets]):
            rows, given, y = self._judged(reference, seen, int(t))
            if rows.size:
                phi = features(reference.scales, self.levels, seen.x[rows], given)
                value[rows, t], low[rows, t], high[rows, t] = scored(
                    reference.expected, int(t), phi, y
                )
        is_judged = reference.is_judged[n_targets:]
        rows, first = np.flatnonzero(seen.is_new), n_targets
        for c, numbers in enumerate(self._context_numbers(reference, seen.x[rows]).T):
            if is_judged[c]:
                value[rows, first + c] = numbers
                low[rows, first + c] = reference.low[c]
                high[rows, first + c] = reference.high[c]
        return value, low, high

    def means(self, reference: Reference, seen: Seen, monitor: int) -> tuple[float, float]:
        """Return what a monitor expected and saw on average in some rows, in natural units.

        Shares of what entered a gate, the action's own units, those of the outcome; of contexts
        the share of the reference that lies below (level), or closer to the median (spread).
        """
        if monitor < self.n_targets:
            rows, given, y = self._judged(reference, seen, monitor)
            phi = features(reference.scales, self.levels, seen.x[rows], given)
            return expected_mean(reference.expected, monitor, phi), float(y.mean())
        c = monitor - self.n_targets
        numbers = self._context_numbers(reference, seen.x[seen.is_new])[:, c]
        return 0.5 * float(reference.low[c] + reference.high[c]), float(numbers.mean())

    def _rows_of(self, seen: Seen, target: int) -> Array:
        """Return the rows that say something about a target."""
        if target == self.n_targets - 1:
            return np.flatnonzero(np.isfinite(seen.y) & np.isfinite(seen.action).all(axis=1))
        what, gate = divmod(target, len(self.gates))
        status, entered = seen.statuses[:, gate], seen.trail[:, gate]
        is_told = (status != NOT_REACHED) & (status != HELD) & np.isfinite(entered).all(axis=1)
        if what:  # after an expiry a declared action runs, which nobody chose
            is_told &= (status != PASSED) & (status != EXPIRED)
            is_told &= np.isfinite(seen.trail[:, gate + 1]).all(axis=1)
        return np.flatnonzero(is_told)

    def _target(self, seen: Seen, target: int) -> tuple[Array, Array, Array]:
        """Return the rows of a target, the action that it is given (n, D), and y (n,)."""
        rows = self._rows_of(seen, target)
        if target == self.n_targets - 1:
            return rows, seen.action[rows], seen.y[rows]
        what, gate = divmod(target, len(self.gates))
        entered, left = seen.trail[rows, gate], seen.trail[rows, gate + 1]
        if not what:
            return rows, entered, 1.0 * (seen.statuses[rows, gate] != PASSED)
        column = self._numbers[what - 1]
        return rows, entered, left[:, column] - entered[:, column]

    def _judged(self, reference: Reference, seen: Seen, target: int) -> tuple[Array, Array, Array]:
        """Return the same rows, without those of actions that the reference has not seen."""
        rows, given, y = self._target(seen, target)
        is_inside = _inside(reference, target, given)
        return rows[is_inside], given[is_inside], y[is_inside]

    def _context_numbers(self, reference: Reference, x: Array) -> Array:
        """Return u and |2u − 1| of every context column: (N, 2p)."""
        u = np.empty(x.shape)
        for c, knots in enumerate(reference.knots):
            below = np.searchsorted(knots, x[:, c], side="left")
            u[:, c] = (below + np.searchsorted(knots, x[:, c], side="right")) / (2.0 * _KNOTS)
        return np.concatenate((u, np.abs(2.0 * u - 1.0)), axis=1)


def _inside(reference: Reference, target: int, given: Array) -> Array:
    """Return which actions (n, D) lie within the range of the reference."""
    inside = (given >= reference.first[target]) & (given <= reference.last[target])
    return np.asarray(inside.all(axis=1))
