"""Monitors that bet: numbers in [0, 1] whose mean should stay within limits, watched for ever.

Everything that is watched after launch is brought to one form: a number in [0, 1], and two limits
of its mean given all that went before and what the number is about. So there is one proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import check_number, check_text, check_tuple

BETS = (0.05, 0.1, 0.2, 0.4, 0.8)
_SIDES = 2  # too high, too low
_AT_ONCE = 1024  # rows whose bets are worked out together
_MOST = 1e300  # wealth of a monitor that never gives the alarm; less is always allowed


@dataclass(slots=True)
class MonitorState:
    """What M monitors have seen; S = 2 sides (too high, too low) and B bets each.

    Parameters
    ----------
    wealth : (M, S, B) W, what stands on changes that have begun
    n_offered : (1,) rows offered to the monitors so far, seen or not
    n_rows : (M,) rows seen, whole numbers
    log_e, log_peak : (M,) logarithm of the e-value, now and at its highest
    climb : (M, S, B) the best logarithm of a product of factors that ends now, for the onset
    start, length, seen, expected : (M, S, B) `at` of the row in which that product begins, its
        rows, and over them Σ value and Σ middle of the limits
    alarm : (M,) `at` of the alarm, −1: none
    since, before, after : (M,) as in `Alarm`
    """

    wealth: Array
    n_offered: Array
    n_rows: Array
    log_e: Array
    log_peak: Array
    climb: Array
    start: Array
    length: Array
    seen: Array
    expected: Array
    alarm: Array
    since: Array
    before: Array
    after: Array


@dataclass(frozen=True, slots=True)
class Alarm:
    """What a monitor says when it gives the alarm.

    Parameters
    ----------
    monitor, name : its place and its name
    at, since : `at` of the row of the alarm, and of the row in which the change began, as estimated
    before, after : mean that was expected, and mean that was seen, from `since` to `at`. Alarms
        are given when numbers look extreme, so `after` overstates the change, more so the
        smaller it is
    log_e, limit : logarithm of the e-value, and of what it had to reach
    """

    monitor: int
    name: str
    at: int
    since: int
    before: float
    after: float
    log_e: float
    limit: float

    @property
    def p(self) -> float:
        """Return its p-value, 1/e: valid however long was looked."""
        return min(1.0, math.exp(-self.log_e))


@dataclass(frozen=True)
class Monitors:
    """Watch M streams of numbers in [0, 1] for a change of their mean, at one false-alarm rate.

    Before row t a stake of κ of the wealth is laid on 'too high' and on 'too low': with y in [0, 1]
    and limits l ≤ E[y | past] ≤ h, the factors are 1 + κ(y/h − 1) and 1 + κ((1 − y)/(1 − l) − 1).
    A change may begin in any row j, and w_j of the wealth waits for it (Σ w_j = 1):

        W_t = (W_{t−1} + w_t)·factor_t = Σ_{j ≤ t} w_j Π_{i=j}^{t} factor_i,  e_t = mean W_t + g_t,

    the mean over sides and stakes, g_t = Σ_{j > t} w_j what still waits. Monitor m gives the alarm
    when e_t ≥ 1/(level·share_m).

    Proof. While nothing has changed, each factor is at least 1 − κ > 0 and its mean, given the
    past, is at most 1. So E[W_t + g_t | past] ≤ W_{t−1} + w_t + g_t = W_{t−1} + g_{t−1}: e_t is a
    supermartingale that starts from 1, and by Ville P(e_t ≥ c for any t, ever) ≤ 1/c. Over all
    monitors P(any alarm, ever) ≤ Σ level·share_m = level. Rows that a monitor does not see
    (NaN) leave e_t as it is, even if whether they are seen depends on the row, as long as the
    limits hold for the mean of those that are.

    The delay after a change in row j is about (log(1/(level·share)) + log(2B) − log w_j)/I rows, I
    the mean of log factor of the best stake, for Bernoulli numbers close to their relative entropy
    from the limit. Waiting costs −log w_j: log(horizon), or about log j + 2·log log j without
    one. That is what an average run length of so many rows would cost too; here it buys a bound
    on the probability that there is ever a false alarm.

    Parameters
    ----------
    names : of the M monitors, all different
    level : largest probability that any of them ever gives a false alarm
    shares : (M,) how the level is split, Σ ≤ 1; None: evenly (Bonferroni). With a share of 0 a
        monitor never gives the alarm
    horizon : w_j = 1/horizon for the first so many rows that a monitor sees: a change that begins
        later is hardly found. None: for ever, g_t = log 2/log(t + 2)
    bets : stakes κ, each in (0, 1)
    margin : by how much the limits are widened on both sides: a change that matters to nobody

    Notes
    -----
    Assumes: while nothing has changed, the mean of every number given the past lies within its
    limits. Nothing is assumed of its distribution, nor that rows are independent.

    Stops applying: where numbers depend on each other over time (seasons, streaks), their mean
    given the past is not what a reference says on average, and alarms are about just that. Changes
    that leave the mean within its limits are never found.

    Examples
    --------
    One stake κ = ½ and a horizon of 2, so w = ½, ½; limits 0.5 and 0.5; a row of 1. The factors
    are 1 + ½(1/0.5 − 1) = 1.5 and 1 + ½(0/0.5 − 1) = 0.5, W = 0.75 and 0.25, e = ½ + ½ = 1. After
    another 1: W = (0.75 + 0.5)·1.5 = 1.875 and (0.25 + 0.5)·0.5 = 0.375, and e = 1.125.

    >>> monitors = Monitors(("rate",), horizon=2, bets=(0.5,))
    >>> state = monitors.init()
    >>> one, half = np.ones((1, 1)), np.full((1, 1), 0.5)
    >>> monitors.update(state, one, half, half)
    >>> round(float(np.exp(state.log_e[0])), 9)
    1.0
    >>> monitors.update(state, one, half, half)
    >>> round(float(np.exp(state.log_e[0])), 9), monitors.alarms(state)
    (1.125, [])
    """

    names: tuple[str, ...]
    level: float = 0.05
    shares: tuple[float, ...] | None = None
    horizon: int | None = None
    bets: tuple[float, ...] = BETS
    margin: float = 0.0

    def __post_init__(self) -> None:
        check_tuple("monitors.names", self.names)
        for name in self.names:
            check_text("monitors.names", name)
        if not self.names or len(set(self.names)) != len(self.names):
            raise InvalidInput(f"monitors.names: expected different names, got {self.names}")
        check_number("monitors.level", self.level, 0.0, 1.0, open_low=True)
        if self.shares is not None:
            check_tuple("monitors.shares", self.shares)
            for share in self.shares:
                check_number("monitors.shares", share, 0.0, 1.0)
            if len(self.shares) != len(self.names) or sum(self.shares) > 1.0 + 1e-9:
                raise InvalidInput(
                    f"monitors.shares: expected {len(self.names)} shares that add up to at most 1, "
                    f"got {self.shares}"
                )
        if self.horizon is not None:
            check_number("monitors.horizon", self.horizon, 1)
        check_tuple("monitors.bets", self.bets)
        for bet in self.bets:
            check_number("monitors.bets", bet, 0.0, 1.0 - 1e-6, open_low=True)
        if not self.bets:
            raise InvalidInput("monitors.bets: expected at least one stake, got none")
        check_number("monitors.margin", self.margin, 0.0, 0.5)

    @property
    def n(self) -> int:
        """Number of monitors."""
        return len(self.names)

    @property
    def limits(self) -> Array:
        """Return what log e must reach: (M,)."""
        shares = np.full(self.n, 1.0 / self.n) if self.shares is None else np.array(self.shares)
        with np.errstate(divide="ignore"):
            return np.asarray(-np.log(self.level * shares))

    def init(self) -> MonitorState:
        """Return all wealth waiting: e = 1."""
        each = (self.n, _SIDES, len(self.bets))
        return MonitorState(
            np.zeros(each),
            np.zeros(1, dtype=np.int64),
            np.zeros(self.n, dtype=np.int64),
            np.zeros(self.n),
            np.zeros(self.n),
            np.zeros(each),
            np.zeros(each, dtype=np.int64),
            np.zeros(each, dtype=np.int64),
            np.zeros(each),
            np.zeros(each),
            np.full(self.n, -1, dtype=np.int64),
            np.full(self.n, -1, dtype=np.int64),
            np.full(self.n, np.nan),
            np.full(self.n, np.nan),
        )

    def update(
        self, state: MonitorState, value: Array, low: Array, high: Array, at: Array | None = None
    ) -> None:
        """Settle the bets on N rows, in order; a monitor that gave the alarm sees no more of them.

        Parameters
        ----------
        value : (N, M) numbers y in [0, 1]; NaN: the monitor does not see this row
        low, high : (N, M) limits l ≤ h of E[y | past], read where there is a value
        at : (N,) whole numbers >= 0 that name the rows in alarms; by default their number
        """
        value, low, high, at = self._checked(state, value, low, high, at)
        bets, limits = np.array(self.bets), self.limits
        state.n_offered += value.shape[0]
        for begin in range(0, value.shape[0], _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            some, middle = value[part], 0.5 * (low[part] + high[part])
            up = np.clip(high[part] + self.margin, 1e-9, 1.0)
            down = np.clip(1.0 - low[part] + self.margin, 1e-9, 1.0)
            odds = np.stack((some / up, (1.0 - some) / down), axis=-1) - 1.0
            gains = bets * odds[..., None]  # (n, M, S, B)
            logs = np.log1p(gains)
            is_seen = ~np.isnan(some)
            for i in range(some.shape[0]):
                is_open = is_seen[i] & (state.alarm < 0)
                n_open = int(np.count_nonzero(is_open))
                if n_open:
                    index: Any = slice(None) if n_open == self.n else np.flatnonzero(is_open)
                    row = (gains[i, index], logs[i, index], some[i, index], middle[i, index])
                    self._settle(state, index, *row, int(at[begin + i]))
                    is_alarm = is_open & (state.log_e >= limits)
                    if is_alarm.any():
                        self._ring(state, np.flatnonzero(is_alarm), int(at[begin + i]))

    def _settle(
        self,
        state: MonitorState,
        index: Any,
        gain: Array,
        log: Array,
        y: Array,
        middle: Array,
        at: int,
    ) -> None:
        """Settle one row of some monitors."""
        n = state.n_rows[index] + 1
        waits = self.waiting(n)
        fresh = (self.waiting(n - 1) - waits)[:, None, None]
        wealth = np.minimum((state.wealth[index] + fresh) * (1.0 + gain), _MOST)
        goes_on = state.climb[index] > 0.0
        state.climb[index] = state.climb[index] * goes_on + log
        state.start[index] = np.where(goes_on, state.start[index], at)
        state.length[index] = state.length[index] * goes_on + 1
        state.seen[index] = state.seen[index] * goes_on + y[:, None, None]
        state.expected[index] = state.expected[index] * goes_on + middle[:, None, None]
        state.wealth[index], state.n_rows[index] = wealth, n
        total = np.zeros(n.shape)
        for side in range(_SIDES):
            for bet in range(len(self.bets)):
                total += wealth[:, side, bet]
        log_e = np.log(total / (_SIDES * len(self.bets)) + waits)
        state.log_e[index] = log_e
        state.log_peak[index] = np.maximum(state.log_peak[index], log_e)

    def _ring(self, state: MonitorState, index: Array, at: int) -> None:
        """Write an alarm down, with the onset of the bet that won most."""
        best = state.wealth[index].reshape(index.size, -1).argmax(axis=1)
        side, bet = np.divmod(best, len(self.bets))
        where = (index, side, bet)
        length = state.length[where]
        state.alarm[index], state.since[index] = at, state.start[where]
        state.before[index] = state.expected[where] / length
        state.after[index] = state.seen[where] / length

    def waiting(self, n: Array) -> Array:
        """Return g after n rows: the share of the wealth that waits for changes yet to begin.

        >>> Monitors(("rate",), horizon=4).waiting(np.array([0, 1, 9])).tolist()
        [1.0, 0.75, 0.0]
        """
        if self.horizon is None:
            return np.asarray(math.log(2.0) / np.log(n + 2.0))
        return np.maximum(1.0 - n / self.horizon, 0.0)

    def alarms(self, state: MonitorState) -> list[Alarm]:
        """Return the alarms so far, in the order of the monitors."""
        limits = self.limits
        return [
            Alarm(
                int(m),
                self.names[m],
                int(state.alarm[m]),
                int(state.since[m]),
                float(state.before[m]),
                float(state.after[m]),
                float(state.log_e[m]),
                float(limits[m]),
            )
            for m in np.flatnonzero(state.alarm >= 0)
        ]

    def _checked(
        self, state: MonitorState, value: Any, low: Any, high: Any, at: Any
    ) -> tuple[Array, Array, Array, Array]:
        """Return the rows as arrays; refuse what cannot be, before anything is written."""
        value, low, high = (np.asarray(part, dtype=float) for part in (value, low, high))
        if value.ndim != 2 or value.shape[1] != self.n:
            raise InvalidInput(f"value: expected shape (N, {self.n}), got {value.shape}")
        for name, part in (("low", low), ("high", high)):
            if part.shape != value.shape:
                raise InvalidInput(f"{name}: expected shape {value.shape}, got {part.shape}")
        is_seen = ~np.isnan(value)
        y, at_least, at_most = value[is_seen], low[is_seen], high[is_seen]
        if not ((y >= 0.0) & (y <= 1.0)).all():
            raise InvalidInput("value: expected numbers in [0, 1], or NaN where there is none")
        if not ((at_least >= 0.0) & (at_least <= at_most) & (at_most <= 1.0)).all():
            raise InvalidInput("low, high: expected 0 <= low <= high <= 1 where there is a value")
        if at is None:
            first = int(state.n_offered[0])
            at = np.arange(first, first + value.shape[0])
        at = np.asarray(at)
        if at.shape != value.shape[:1] or at.dtype.kind not in "iu" or (at < 0).any():
            raise InvalidInput(f"at: expected {value.shape[0]} whole numbers >= 0, got {at!r}")
        return value, low, high, at
