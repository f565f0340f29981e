"""Drift monitors measured: false alarms without a change, and how late a change is found.

    python -m benchmarks.drift
    python -m benchmarks.drift --streams 100 --rows 3000

Every stream has a reference of its own, then `--rows` rows after launch. All the while a learner
turns from low to high prices: what is proposed changes, what the gates and the outcome make of it
does not. In `well` the monitors' model of the outcome is right, in `mis` it is not, and approval
depends on price and context. A change comes in row 1,000 after launch. Takes some five
minutes of one core.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from gdcb.analysis.drift import Monitors, Reference, Seen, WatchList
from gdcb.arrays import Array
from gdcb.records import MODIFIED, PASSED

ARMS = np.array([0.8, 1.0, 1.2, 1.4])
COLUMNS = ("demand", "season", "lead", "rating")
ONSET = 1000
CHANGES = ("none", "approval 0.75 → 0.55", "reward − 0.3 sd", "context + 0.5 sd")
RIGHT = ("", "gate manager: how often it acts", "reward", "context lead: level")
_TOGETHER = 40  # streams that are watched as one array


@dataclass(frozen=True)
class World:
    """A manager and bounds before a price, with an outcome of standard deviation 1 around it."""

    kind: str = "well"

    def rows(self, rng: np.random.Generator, turn: Array, change: int, onset: int) -> Seen:
        """Return a stream; `turn` (N,) in [0, 1] is how far the learner has turned to high prices.

        Rows from `onset` on have the change.
        """
        n, is_late = turn.size, np.arange(turn.size) >= onset
        x = rng.normal(size=(n, 4))
        x[:, 2] += 0.5 * ((change == 3) & is_late)
        tilt = np.exp((4.0 * turn - 2.0)[:, None] * (ARMS - 1.1) * 3.0)
        arm = (rng.random((n, 1)) > np.cumsum(tilt / tilt.sum(axis=1, keepdims=True), axis=1)).sum(
            1
        )
        base = np.exp(0.2 * x[:, 0])
        entered = ARMS[np.minimum(arm, 3)] * base
        p = np.full(n, 0.75)
        if self.kind == "mis":  # 0.75 on average
            p = 1.0 / (1.0 + np.exp(-(1.2 - 1.5 * (entered - 1.1) + 0.4 * x[:, 1])))
        p = np.where((change == 1) & is_late, p - 0.2, p)
        is_own = rng.random(n) > p
        own = base * rng.normal(1.0, 0.1, n)
        left = np.where(is_own, own, entered)
        ran = np.clip(left, 0.6, 1.8)
        mean = 1.0 + 0.5 * x[:, 0] - 2.0 * (ran - 1.1) ** 2 + 0.3 * x[:, 1] * ran
        if self.kind == "mis":
            mean = 2.0 * np.tanh(x[:, 0] + x[:, 1] * x[:, 2] / 2.0) - np.exp(1.5 * (ran - 1.2))
        y = mean + rng.normal(size=n) - 0.3 * ((change == 2) & is_late)
        trail = np.stack((entered, left, ran), axis=1)[:, :, None]
        moved = trail[:, 1:, 0] != trail[:, :-1, 0]
        statuses = np.where(moved, MODIFIED, PASSED).astype(np.int8)
        return Seen(x, np.ones(n, bool), trail, statuses, ran[:, None], y, np.arange(n))


@dataclass(frozen=True)
class Found:
    """What was found in S streams.

    Parameters
    ----------
    at, first : (S,) row of the first alarm, −1: none; and the monitor that gave it
    right, since : (S,) row of the alarm of the monitor that should give it, −1: none; and the onset
        that it estimates
    """

    at: Array
    first: Array
    right: Array
    since: Array

    @staticmethod
    def concatenate(some: list[Found]) -> Found:
        """Join streams."""
        fields = [field.name for field in dataclasses.fields(Found)]
        return Found(*(np.concatenate([getattr(one, name) for one in some]) for name in fields))


def measure(
    world: World,
    changes: Sequence[int],
    watched: WatchList,
    streams: int,
    n_reference: int,
    n_rows: int,
    seed: int,
) -> list[Found]:
    """Watch streams with each of some changes; every stream has a reference of its own."""
    parts: list[list[Found]] = [[] for _ in changes]
    quiet, turning = np.full(n_reference, 0.2), np.linspace(0.2, 1.0, n_rows)
    for begin in range(0, streams, _TOGETHER):
        some = range(begin, min(begin + _TOGETHER, streams))
        references = []
        for s in some:
            rng = np.random.default_rng((seed, s))
            references.append(watched.fit(world.rows(rng, quiet, 0, n_reference)))
        for part, change in zip(parts, changes, strict=True):
            rows = []
            for s, reference in zip(some, references, strict=True):
                rng = np.random.default_rng((seed, s, 1 + change))
                rows.append(watched.rows(reference, world.rows(rng, turning, change, ONSET)))
            part.append(_watch(watched, references, rows, RIGHT[change]))
    return [Found.concatenate(part) for part in parts]


def _watch(
    watched: WatchList, references: list[Reference], rows: Sequence[tuple[Array, ...]], wanted: str
) -> Found:
    """Watch some streams as one array."""
    n, n_rows = len(rows), rows[0][0].shape[0]
    value, low, high = (np.concatenate(columns, axis=1) for columns in zip(*rows, strict=True))
    each = [watched.monitors(reference) for reference in references]
    names = tuple(f"{s} {name}" for s in range(n) for name in watched.names)
    # The level of all streams is theirs added up, so the limits are those of one stream.
    shares = tuple(share / n for one in each for share in one.shares or ())
    settings = (watched.horizon, watched.bets, watched.margin)
    together = Monitors(names, n * each[0].level, shares, *settings)
    state = together.init()
    together.update(state, value, low, high)
    alarm, since = state.alarm.reshape(n, -1), state.since.reshape(n, -1)
    first = np.where(alarm < 0, n_rows, alarm).argmin(axis=1)
    which, row = watched.names.index(wanted) if wanted else 0, np.arange(n)
    return Found(alarm[row, first], first, alarm[:, which], since[:, which])


def interval(hits: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return the Clopper–Pearson interval of a share.

    >>> [round(limit, 4) for limit in interval(0, 400)]
    [0.0, 0.0092]
    """
    from scipy.stats import beta

    tail = (1.0 - level) / 2.0
    low = 0.0 if hits == 0 else float(beta.ppf(tail, hits, n - hits + 1))
    high = 1.0 if hits == n else float(beta.ppf(1.0 - tail, hits + 1, n - hits))
    return low, high


def delays(found: Found) -> tuple[float, float, float]:
    """Return the share that was found after the onset, and the median and 90 % delay in rows."""
    is_found = found.right >= ONSET
    late = np.where(is_found, found.right - ONSET, math.inf)
    late = late[(found.right < 0) | is_found]
    median, most = (float(np.quantile(late, q, method="higher")) for q in (0.5, 0.9))
    return float(is_found.mean()), median, most


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=400)
    parser.add_argument("--changed", type=int, default=200, help="streams of each change")
    parser.add_argument("--reference", type=int, default=4000)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--horizon", type=int, default=None)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    watched = WatchList(("manager", "bounds"), COLUMNS, ("price",), (0,), horizon=asked.horizon)
    console = Console(width=140)
    console.print(
        f"{asked.streams} streams without a change and {asked.changed} with each, of "
        f"{asked.rows:,} rows, after a reference of {asked.reference:,}; {watched.n} monitors at "
        f"a level of {watched.level:g} in all, "
        f"for {'ever' if asked.horizon is None else f'{asked.horizon:,} rows'}; seed {asked.seed}"
    )
    size = (asked.reference, asked.rows, asked.seed)
    quiet = Table("world", "streams with a false alarm", "share", "95 % interval", "stated")
    late = Table("world", "change", "found", "median", "90 %", "onset off by", "named first")
    late.title = "Rows from the change to the alarm"
    for kind in ("well", "mis"):
        (none,) = measure(World(kind), (0,), watched, asked.streams, *size)
        found = measure(World(kind), range(1, len(CHANGES)), watched, asked.changed, *size)
        hits = int((none.at >= 0).sum())
        low, high = interval(hits, asked.streams)
        shown = (f"{hits / asked.streams:.4f}", f"{low:.4f} to {high:.4f}", f"{watched.level:g}")
        quiet.add_row(kind, f"{hits} of {asked.streams}", *shown)
        for change, one in enumerate(found, start=1):
            share, median, most = delays(one)
            off = np.median(np.abs(one.since - ONSET)[one.right >= ONSET])
            named = (one.first == watched.names.index(RIGHT[change]))[one.at >= 0].mean()
            cells = (f"{share:.1%}", f"{median:.0f}", f"{most:.0f}", f"{off:.0f}", f"{named:.1%}")
            late.add_row(kind, CHANGES[change], *cells)
    console.print(quiet)
    console.print(late)


if __name__ == "__main__":
    main()
