"""How often changes are dated, and rows discarded, in made logs whose rows swing: a Markdown table.

    python -m benchmarks.dependence
    python -m benchmarks.dependence --logs 100 --designs season,step

Rewards have noise of variance 1 on three arms and two columns. In all designs but the steps
nothing changes at a date: rows depend on their neighbours, or swing by day, month, season or trend.
It needs NumPy and SciPy only.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gdcb import ArmList, GaussianThompson, Identity, Instance, Number, Schema
from gdcb.arrays import Array
from gdcb.history import Batch, certify
from gdcb.rewards import Scaled

LOGS = 40
_START, _DAY = 1_700_006_400.0, 86_400.0  # a midnight

Swing = Callable[[np.random.Generator, Array], Array]  # from days, as numbers, to what is added


@dataclass(frozen=True)
class Design:
    """Logs of so many rows and days; without dates where `is_dated` is False."""

    name: str
    rows: int
    days: int
    swing: Swing
    is_dated: bool = True
    lag: float = 0.0  # correlation of the noise of neighbouring rows


def daily(size: float, memory: float = 0.0, length: int = 1) -> Swing:
    """Return effects of days (or of `length` days), of which each remembers the last."""

    def swing(rng: np.random.Generator, day: Array) -> Array:
        fresh = rng.normal(size=int(day.max()) // length + 1)
        for i in range(1, fresh.size):
            fresh[i] = memory * fresh[i - 1] + np.sqrt(1.0 - memory**2) * fresh[i]
        return np.asarray(size * fresh[day.astype(np.int64) // length])

    return swing


def walk(size: float) -> Swing:
    """Return a random walk by day, of standard deviation `size` at the end."""

    def swing(rng: np.random.Generator, day: Array) -> Array:
        path = np.cumsum(rng.normal(size=int(day.max()) + 1))
        return np.asarray(size * path[day.astype(np.int64)] / np.sqrt(path.size))

    return swing


def season(size: float) -> Swing:
    """Return a yearly sine."""
    return lambda _, day: np.asarray(size * np.sin(2.0 * np.pi * day / 365.0))


def trend(size: float) -> Swing:
    """Return a line that rises by `size` over the log."""
    return lambda _, day: np.asarray(size * day / day.max())


def steps(*sizes: float) -> Swing:
    """Return steps at even distances."""
    n = len(sizes)

    def swing(_: np.random.Generator, day: Array) -> Array:
        parts = [size * (day >= (i + 1) * day.max() / (n + 1)) for i, size in enumerate(sizes)]
        return np.asarray(np.sum(parts, axis=0)) if n else np.zeros(day.size)

    return swing


DESIGNS = {
    "none": Design("independent rows, 3,000 in 365 days", 3000, 365, steps()),
    "ar9": Design("AR(0.9) rewards, 2,000 rows in 40 days", 2000, 40, steps(), lag=0.9),
    "ar3": Design("AR(0.3) rewards, 2,000 rows in 40 days", 2000, 40, steps(), lag=0.3),
    "day1": Design("day effects of 0.1, 10,000 rows in 100 days", 10_000, 100, daily(0.1)),
    "day3": Design("day effects of 0.3, 10,000 rows in 100 days", 10_000, 100, daily(0.3)),
    "undated": Design(
        "day effects of 0.3, 2,000 rows in 40 days, no times", 2000, 40, daily(0.3), False
    ),
    "week": Design("week effects of 0.2, 3,000 rows in 180 days", 3000, 180, daily(0.2, length=7)),
    "month": Design(
        "month effects of 0.3, 3,000 rows in 365 days", 3000, 365, daily(0.3, length=30)
    ),
    "ar97": Design(
        "AR(0.97) by day of 0.2, 3,000 rows in 365 days", 3000, 365, daily(0.2, memory=0.97)
    ),
    "walk": Design("random walk by day to 0.5, 3,000 rows in 180 days", 3000, 180, walk(0.5)),
    "season": Design("yearly sine of 0.2, 3,000 rows in 365 days", 3000, 365, season(0.2)),
    "trend": Design("trend of 0.5, 3,000 rows in 180 days", 3000, 180, trend(0.5)),
    "step": Design("**a step of 0.4**, 3,000 rows in 180 days", 3000, 180, steps(0.4)),
    "step5": Design("**a step of 0.4**, 5,000 rows in 180 days", 5000, 180, steps(0.4)),
    "two": Design("**steps of 0.6 and −0.9**, 5,000 rows in 180 days", 5000, 180, steps(0.6, -0.9)),
}


def instance() -> Instance:
    """Return three named arms and two columns."""
    return Instance(
        context=Schema({"a": Number(-9, 9), "b": Number(-9, 9)}),
        arms=ArmList(names=("x", "y", "z")),
        composition=Identity(severity=False),
        gate=[],
        reward=Scaled(),
    )


def log_of(design: Design, seed: int) -> Batch:
    """Return one log."""
    rng = np.random.default_rng(seed)
    n = design.rows
    x, arm = rng.normal(size=(n, 2)), rng.integers(0, 3, n).astype(float)
    day = np.sort(rng.uniform(0.0, design.days, n))
    noise = rng.normal(size=n)
    for i in range(1, n if design.lag else 0):
        noise[i] = design.lag * noise[i - 1] + np.sqrt(1.0 - design.lag**2) * noise[i]
    y = x[:, 0] + 0.2 * arm + design.swing(rng, day) + noise
    time = _START + _DAY * day if design.is_dated else np.arange(float(n))
    return Batch(x, arm[:, None], y[:, None], np.zeros(n, dtype=np.int64), time)


def row_of(design: Design, logs: int) -> tuple[float, float]:
    """Return the shares of logs in which a change is dated, and rows are discarded."""
    one, bandit, dated, lost = instance(), GaussianThompson(), 0, 0
    for seed in range(logs):
        found = certify(log_of(design, seed), one, bandit, full=False)
        dated += bool(found.as_json()["reward_law"]["change_points"])
        lost += found.treatment.first > 0
    return dated / logs, lost / logs


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Changes dated and rows discarded, by design.")
    parser.add_argument("--logs", type=int, default=LOGS)
    parser.add_argument("--designs", default=",".join(DESIGNS), help=", ".join(DESIGNS))
    asked = parser.parse_args()
    unknown = sorted(set(asked.designs.split(",")) - set(DESIGNS))
    if unknown or asked.logs < 1:
        parser.error(f"expected designs of {', '.join(DESIGNS)} and at least one log")
    print(f"| {asked.logs} logs of each kind | a change is dated | rows are discarded |")
    print("|---|---|---|")
    for key in asked.designs.split(","):
        dated, lost = row_of(DESIGNS[key], asked.logs)
        print(f"| {DESIGNS[key].name} | {dated:.0%} | {lost:.0%} |".replace("%", " %"), flush=True)


if __name__ == "__main__":
    main()
