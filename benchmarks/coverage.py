"""How often the interval of every off-policy estimator holds the truth: a Markdown table.

    python -m benchmarks.coverage
    python -m benchmarks.coverage --logs 100 --designs skewed,few --engine local
    python -m benchmarks.coverage --logs 200 --designs missed --rows 300

Each design is a finite population of contexts with the logging law, the target and the mean reward
of every cell in each of them, so that the target's value is a finite sum and exact. Logs are drawn
from it row by row. Estimators are asked as a user would ask: once without declaring anything, and
once with the range of rewards. An estimator may answer that it has no interval; how often it does
is counted by itself, and only intervals that were given are counted as holding the truth or not.

The intervals were mended on 'skewed', 'noisy', 'few', 'heavy', 'rare', 'scarce' and 'short'. The
other designs were measured afterwards, and nothing was changed for them, but for 'missed': the rule
on cells that the log may have missed was written for it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gdcb.analysis import Feedback, evaluate, logged_behaviour, outcome_model
from gdcb.analysis.off_policy.estimators import ESTIMATORS
from gdcb.arrays import Array, logistic
from gdcb.engine import NAMES, named

LOGS, SEED, LEVEL, DRAWS = 1000, 20261116, 0.95, 400
CONTEXTS = 2000
A_TASK = 25  # logs
SURE = ("ips", "snips", "dr", "switch-dr")
# What is asked: estimator, interval, whether the range of rewards is declared.
ASKED = (
    *((name, "bootstrap", False) for name in ESTIMATORS),
    *((name, "bootstrap", True) for name in ESTIMATORS),
    *((name, kind, True) for kind in ("betting", "bernstein") for name in SURE),
)


@dataclass(frozen=True, slots=True)
class Design:
    """A population of P contexts, and how logs of it are drawn.

    Parameters
    ----------
    about : what it is, for the table
    x, behaviour, target, mean : (P, 2), (P, C) each
    reward : (rng, mean (n,), x (n, 2)) → (n,) rewards
    rewards : their range
    rows : of a log
    unit : rows that share a context and, half of the time, their luck; 1: all are independent
    logged : whether the log says only how likely what ran was
    clip : given to every estimator but switch-DR, which keeps its default
    """

    about: str
    x: Array
    behaviour: Array
    target: Array
    mean: Array
    reward: Callable[..., Array]
    rewards: tuple[float, float]
    rows: int
    unit: int = 1
    logged: bool = False
    clip: float | None = None

    @property
    def value(self) -> float:
        """What the target is worth a row."""
        return float((self.target * self.mean).sum(axis=1).mean())

    def log(self, rng: np.random.Generator) -> Feedback:
        """Draw a log, with an outcome model cross-fitted on it."""
        n_units = self.rows // self.unit
        at = np.repeat(rng.integers(0, self.x.shape[0], n_units), self.unit)
        law, n = self.behaviour[at], at.size
        cell = (law.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, law.shape[1] - 1)
        x = self.x[at]
        reward = self.reward(rng, self.mean[at, cell], x)
        unit = None if self.unit == 1 else np.repeat(np.arange(n_units), self.unit)
        if unit is not None:
            # Half of the units see their first row's luck throughout: the mean stays.
            is_same = np.repeat(rng.random(n_units) < 0.5, self.unit)
            first = np.repeat(reward[:: self.unit], self.unit)
            same_cell = cell == np.repeat(cell[:: self.unit], self.unit)
            reward = np.where(is_same & same_cell, first, reward)
        if self.logged:
            law = logged_behaviour(cell, law[np.arange(n), cell], law.shape[1])
        outcome = outcome_model(
            x, cell, reward, self.target.shape[1], cluster=unit, reward_range=self.rewards
        )
        return Feedback(cell, reward, law, self.target[at], outcome, unit)


def _shares(odds: Array, floor: float = 0.0) -> Array:
    share = np.exp(odds - odds.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    return np.asarray((1.0 - floor) * share + floor / odds.shape[1])


def _coins(rng: np.random.Generator, mean: Array, x: Array) -> Array:  # noqa: ARG001
    return (rng.random(mean.size) < mean) * 1.0


def _skewed_noise(rng: np.random.Generator, mean: Array, x: Array) -> Array:
    """Draw rewards in [0, 10] that are mostly 0, and more so where x is large: mean as asked."""
    chance = logistic(-1.0 - 1.5 * x[:, 0]) * 0.9 + 0.1 * mean / 10.0
    size = np.minimum(mean / chance, 10.0)
    return np.where(rng.random(mean.size) < mean / size, size, 0.0)


def _tied_noise(rng: np.random.Generator, mean: Array, x: Array) -> Array:
    """Draw 0 or 1, or 0 or 10 where |x₀| > 1.5, which is where weights are largest."""
    size = np.where(np.abs(x[:, 0]) > 1.5, 10.0, 1.0)
    return np.where(rng.random(mean.size) < mean / size, size, 0.0)


def _windfalls(rng: np.random.Generator, mean: Array, x: Array) -> Array:  # noqa: ARG001
    """Draw 0, or 50 times the mean once in 50 rows."""
    return np.where(rng.random(mean.size) < 0.02, 50.0 * mean, 0.0)


def _narrow_noise(rng: np.random.Generator, mean: Array, x: Array) -> Array:  # noqa: ARG001
    """Draw within 0.1 of the mean."""
    return mean + rng.uniform(-0.1, 0.1, mean.size)


def _missed() -> Design:
    """Return the design with a cell of weight 15.8 in 6 % of the contexts.

    There the log runs it in 6 % of the rows, the target in 95 %, and it earns 0.85 instead of 0.1.
    """
    is_other = (np.arange(CONTEXTS) < 0.06 * CONTEXTS)[:, None]
    noise = np.random.default_rng(SEED).normal(size=CONTEXTS)
    return Design(
        "weights of 15.8 in 6 % of the contexts",
        np.column_stack((is_other, noise)),
        np.where(is_other, [[0.94, 0.06]], [[0.5, 0.5]]),
        np.where(is_other, [[0.05, 0.95]], [[0.6, 0.4]]),
        np.where(is_other, [[0.1, 0.85]], [[0.1, 0.15]]),
        _narrow_noise,
        (0.0, 1.0),
        1000,
    )


@cache
def designs() -> dict[str, Design]:
    """Return all designs by name."""
    rng = np.random.default_rng(SEED)
    x = rng.normal(size=(CONTEXTS, 2))
    cells = np.arange(5)
    lean = (cells - 2.0) * x[:, :1]
    wave = np.sin(2.0 * x[:, 1:] + cells)
    coin = logistic(-0.5 + 0.3 * cells - 0.6 * x[:, :1] + 0.8 * wave)
    even = np.full((CONTEXTS, 5), 0.2)
    steep, against = _shares(0.9 * lean, 0.05), _shares(-0.4 * lean, 0.05)
    first = np.zeros((CONTEXTS, 5))
    first[:, 4] = 1.0
    rare = _shares(
        np.tile([1.5, 1.0, 0.5, 0.0, -1.2], (CONTEXTS, 1)) - 0.8 * x[:, 1:] * (cells == 4)
    )
    heavy = _shares(0.9 * lean + 1.2 * rng.normal(size=(CONTEXTS, 5)), 1e-3)
    cut = np.where(x[:, :1] + cells > 3.5, 0.0, even)
    cut /= cut.sum(axis=1, keepdims=True)
    some = _shares(0.5 * lean, 0.05)
    unit = (0.0, 1.0)
    return {
        "skewed": Design(
            "logging and target lean against each other",
            x,
            steep,
            against,
            coin,
            _coins,
            unit,
            1000,
        ),
        "noisy": Design(
            "the noise of the reward depends on context, skewed",
            x,
            some,
            _shares(-0.3 * lean, 0.05),
            0.5 + 2.5 * coin,
            _skewed_noise,
            (0.0, 10.0),
            1000,
        ),
        "few": Design("a target that the log hardly ran", x, rare, first, coin, _coins, unit, 2000),
        "heavy": Design("weights with a heavy tail", x, heavy, against, coin, _coins, unit, 500),
        "rare": Design("rewards are rare", x, some, against, 0.04 * coin, _coins, unit, 1500),
        "scarce": Design(
            "too few rewards for most logs", x, some, against, 0.025 * coin, _coins, unit, 1000
        ),
        "cut": Design(
            "the log could not run all that the target would",
            x,
            cut,
            some,
            coin,
            _coins,
            unit,
            1000,
        ),
        "units": Design(
            "rows of a unit depend on each other",
            x,
            some,
            against,
            coin,
            _coins,
            unit,
            1200,
            unit=6,
        ),
        "clipped": Design(
            "weights cut at 5", x, steep, against, coin, _coins, unit, 1000, clip=5.0
        ),
        "logged": Design(
            "only the propensity of what ran is logged; weights cut at 20",
            x,
            steep,
            against,
            coin,
            _coins,
            unit,
            1000,
            logged=True,
            clip=20.0,
        ),
        "short": Design("a short log", x, some, against, coin, _coins, unit, 150),
        "tied": Design(
            "rewards vary most where weights are largest",
            x,
            some,
            against,
            coin,
            _tied_noise,
            (0.0, 10.0),
            1000,
        ),
        "windfalls": Design(
            "rare, large rewards", x, some, against, coin, _windfalls, (0.0, 50.0), 1500
        ),
        "missed": _missed(),
    }


class Task(NamedTuple):
    """Some logs of one design; `rows` in each, or as many as the design says."""

    design: str
    logs: tuple[int, ...]
    draws: int
    asked: tuple[tuple[str, str, bool], ...]
    rows: int | None = None


def some_logs(task: Task) -> Array:
    """Return low and high of every question on some logs: (logs, questions, 2), NaN for none."""
    design = designs()[task.design]
    design = replace(design, rows=task.rows or design.rows)
    found = np.full((len(task.logs), len(task.asked), 2), np.nan)
    for i, number in enumerate(task.logs):
        log = design.log(np.random.default_rng([SEED, number]))
        for j, (estimator, interval, is_declared) in enumerate(task.asked):
            settings: dict[str, Any] = {"draws": task.draws, "seed": number}
            if is_declared:
                settings["reward_range"] = design.rewards
            if estimator != "switch-dr":
                settings["clip"] = design.clip
            value = evaluate(log, estimator, interval, level=LEVEL, **settings)
            found[i, j] = value.low, value.high
    return found


def coverage(
    names: Sequence[str],
    logs: int,
    *,
    draws: int = DRAWS,
    asked: Sequence[tuple[str, str, bool]] = ASKED,
    engine: str = "local",
    workers: int | None = None,
    rows: int | None = None,
) -> list[dict[str, Any]]:
    """Return how often every interval was given, and held the truth where it was."""
    tasks = []
    for name in names:
        for part in np.array_split(np.arange(logs), max(1, logs // A_TASK)):
            numbers = tuple(int(i) for i in part)
            tasks.append(Task(name, numbers, draws, tuple(asked), rows))
    with closing(named(engine, workers).run(some_logs, tasks)) as results:
        parts = dict(results)
    table = []
    for name in names:
        found = np.concatenate([parts[i] for i, task in enumerate(tasks) if task.design == name])
        truth = designs()[name].value
        for j, (estimator, interval, is_declared) in enumerate(asked):
            low, high = found[:, j].T
            is_given = np.isfinite(low)
            held = int(((low <= truth) & (truth <= high))[is_given].sum())
            table.append(
                {
                    "design": name,
                    "estimator": estimator,
                    "interval": interval,
                    "declared": is_declared,
                    "logs": logs,
                    "given": int(is_given.sum()),
                    "held": held,
                    "width": float((high - low)[is_given].mean()) if is_given.any() else None,
                    "size": float(np.subtract(*designs()[name].rewards[::-1])),
                }
            )
    return table


def markdown(table: Sequence[dict[str, Any]]) -> str:
    """Put the table into Markdown: a row for each question, a column for each design."""
    names = list(dict.fromkeys(row["design"] for row in table))
    lines = [
        f"| estimator | interval | range declared | {' | '.join(names)} |",
        "|---|---|---|" + "--:|" * len(names),
    ]
    for estimator, interval, is_declared in ASKED:
        asked = {
            row["design"]: row
            for row in table
            if (row["estimator"], row["interval"], row["declared"])
            == (estimator, interval, is_declared)
        }
        cells = [_cell(asked[name]) for name in names]
        said = "yes" if is_declared else "no"
        lines.append(f"| {estimator} | {interval} | {said} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(row: dict[str, Any]) -> str:
    if row["given"] == 0:
        return "none"
    text = f"{100 * row['held'] / row['given']:.1f} % ({row['width'] / row['size']:.2f})"
    if row["given"] < row["logs"]:
        text += f", given in {100 * row['given'] / row['logs']:.0f} %"
    return text


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.coverage",
        description="How often off-policy intervals hold the truth.",
    )
    parser.add_argument("--logs", type=int, default=LOGS)
    parser.add_argument("--rows", type=int, default=None, help="of a log; each design has its own")
    parser.add_argument("--designs", default=",".join(designs()))
    parser.add_argument("--engine", choices=NAMES, default="pool")
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--json", type=Path, default=None, help="write the figures there too")
    asked = parser.parse_args(arguments)
    names = asked.designs.split(",")
    unknown = set(names) - set(designs())
    if unknown:
        parser.error(f"no design {', '.join(sorted(unknown))}; there are {', '.join(designs())}")
    if asked.rows is not None and asked.rows < 1:
        parser.error(f"--rows: expected 1 or more, got {asked.rows}")
    table = coverage(names, asked.logs, engine=asked.engine, workers=asked.workers, rows=asked.rows)
    day = datetime.now(UTC).date().isoformat()
    said = [f"Measured on {day}, {asked.logs:,} logs of each design, seed {SEED}."]
    for name in names:
        design = designs()[name]
        said.append(f"- {name}: {design.about}, {asked.rows or design.rows:,} rows")
    sys.stdout.write("\n".join([*said, "", markdown(table)]) + "\n")
    if asked.json is not None:
        asked.json.write_text(json.dumps(table, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
