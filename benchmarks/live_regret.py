"""How often the intervals of `gdcb.analysis.live_regret` hold, in worlds whose regret is known.

    python -m benchmarks.live_regret
    python -m benchmarks.live_regret --logs 40 --rows 2000 --seed 5 --world booked

Three worlds: 'quadratic', margins that the outcome model fits exactly, with little noise;
'booked', booked × price where three offers in four are booked and δ̂ is half wrong; 'sold', the
noisiest, sold × price in the shop of `benchmarks.what_if`, where the best offer sells in three
cases of five and a row's outcome says little. In each an incumbent tries all arms, or a bandit
learns. The truth is that of
`gdcb.analysis.regret`, for the very rounds of each log.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gdcb
from benchmarks import what_if as shops
from benchmarks.verdicts import markdown, percent, wilson
from gdcb.analysis import Ledger, gated_log, live_regret
from gdcb.analysis.regret import TrueMean
from gdcb.analysis.what_if import GatedLog
from gdcb.arrays import Array, logistic
from gdcb.engine import NAMES, named
from gdcb.records import Rows
from gdcb.simulate import simulate
from gdcb.streams import CONTEXT, WORLD, Streams
from gdcb.theorems.worlds import KnownScaler, Pricing, instance_of, price_list

WORLDS = ("quadratic", "booked", "sold")
WHO = {"tried": "an incumbent tries all arms", "learns": "a bandit learns"}
PARTS = shops.PARTS
BOOKED = Pricing()
_HALF = tuple(float(part) for part in 0.5 * BOOKED.theta)  # θ̂ of the scaler: half of θ*
_AT_ONCE = 10  # logs a task


@dataclass(frozen=True)
class Task:
    """Logs `first` to `first + count − 1` of a world."""

    world: str
    who: str
    rows: int
    first: int
    count: int
    seed: int


def _half(rows: Rows) -> Array:
    return np.asarray(np.exp((rows.x * np.array(_HALF)).sum(axis=1)))[:, None]


def approve(e: Array, rows: Rows) -> Array:
    """Return a person's rate of approval: lower for dear prices."""
    return logistic(1.0 - 2.5 * (e[..., 0] / _half(rows) - 1.0) + 0.4 * rows.x[:, :1])


def own(rows: Rows) -> Array:
    """Return the person's own price: they know what the scaler misses, in part."""
    return np.asarray(_half(rows) * (1.0 + 0.08 * rows.x[:, :1]))


def booked_shop() -> gdcb.Instance:
    """Return booked × price behind a person and a limit, δ̂ = √δ*."""
    person = gdcb.SimulatedPerson(approve, own, spread=0.08)
    limit = gdcb.Bounds(low=0.4, high=1.6, name="limit")
    chain = gdcb.Chain((gdcb.Approval(person, name="manager"), limit))
    return instance_of(BOOKED, KnownScaler(theta=_HALF), price_list(n=7), chain)


class Sales:
    """Sales of `benchmarks.what_if`, as a world: P(sold) = σ(3 + b − 3.2·e/(base·(1 + b/10)))."""

    def start(self, rng: Any, group: Array) -> None:
        """Nothing differs between shops."""

    def context(self, rng: Any, state: None, t: int, group: Array) -> Rows:
        """Draw how busy the day is, and the base price."""
        u = rng.uniform(group.size, 2)
        x = np.column_stack((2.0 * u[:, 0] - 1.0, 80.0 + 40.0 * u[:, 1]))
        return Rows(np.arange(group.size), group, x)

    def mean(self, state: None, e: Array, rows: Rows) -> Array:
        """Return price · P(sold) of prices (N, M, 1): (N, M)."""
        price = e[..., 0]
        sold = [shops.sold(price[:, m], rows.x) for m in range(price.shape[1])]
        return np.asarray(price * np.stack(sold, axis=1))

    def best(self, state: None, rows: Rows) -> Array:
        """Return the price at which k·e = 1 + W(exp(a − 1)), with P(sold) = σ(a − k·e): (N, 1)."""
        from scipy.special import lambertw

        busy, base = rows.x[:, :1], rows.x[:, 1:]
        slope = 3.2 / base / (1.0 + 0.1 * busy)
        level: Any = lambertw(np.exp(2.0 + busy).tolist())
        return np.asarray((1.0 + level.real) / slope)

    def candidates(self, state: None, rows: Rows) -> Array:
        """Return the best price alone: nobody asks for the floor."""
        return self.best(state, rows)[:, None]

    def sample(self, rng: Any, state: None, e: Array, rows: Rows) -> Array:
        """Draw sales."""
        p = shops.sold(e[:, 0], rows.x)
        return np.asarray(rng.uniform(rows.n) < p, dtype=float)[:, None]

    def label(self, rng: Any, state: None, e: Array, rows: Rows) -> None:
        """Teach no scaler."""

    def advance(self, rng: Any, state: None, e: Array, outcome: Array, rows: Rows) -> None:
        """Keep no memory."""


def place(name: str) -> tuple[gdcb.Instance, Any]:
    """Return the instance and the world of that name."""
    if name == "quadratic":
        return shops.live_shop(), shops.Days()
    return (booked_shop(), BOOKED) if name == "booked" else (shops.shop(), Sales())


def tried(
    instance: gdcb.Instance, world: Any, rows: int, seed: int, i: int
) -> tuple[Array, GatedLog]:
    """Return the exact parts (4,) and the log of one shop in which an incumbent tries all arms."""
    streams, zero = Streams(seed, rows_per_replicate=1), np.zeros(rows, dtype=np.int64)
    state = world.start(streams.at(WORLD, i), zero[:1])
    rng = np.random.default_rng([seed, i, 23])
    x = world.context(streams.at(CONTEXT, i), state, i, zero).x
    some, arms = Rows(zero, zero, x), instance.space.coords[:, 0]
    odds = np.exp(-4.0 * (arms - 0.95 - 0.1 * x[:, :1]) ** 2)
    delta = instance.scaler.predict(instance.scaler.init(1), zero, x)
    actions = instance.composition.compose(instance.space, delta, x)
    e = actions[np.arange(rows), shops.drawn(rng, odds / odds.sum(axis=1, keepdims=True))]
    draws = tuple(rng.random((rows, 3)) if g.is_person else None for g in instance.chain.gates)
    ran = instance.chain.apply(draws, e, some).action
    mean = TrueMean(instance, world, state, some)
    worth = mean(ran[:, None])[:, 0]
    reward = ran[:, 0] * (rng.random(rows) < worth / ran[:, 0])
    best = mean(world.best(state, some)[:, None])[:, 0]
    free, gated = mean(actions).max(axis=1), instance.chain.expect(mean, actions, some).max(axis=1)
    chosen = instance.chain.expect(mean, e[:, None], some)[:, 0]
    parts = best - worth, best - free, gated - chosen, free - gated + chosen - worth
    truth = np.array([part.mean() for part in parts])
    return truth, gated_log(instance, x, e, ran, reward, delta=delta)


def learns(
    instance: gdcb.Instance, world: Any, rows: int, logs: int, seed: int
) -> tuple[Array, list[GatedLog]]:
    """Return the exact parts (logs, 4) and logs of shops in which a Beta-Thompson learns."""
    ledger = Ledger(instance, world, rows, logs)
    seen: list[tuple[Array, ...]] = []

    def watch(turn: Any) -> None:
        ledger(turn)
        seen.append((turn.rows.x, turn.decision.action, turn.executed.action, turn.reward))

    bandit = gdcb.BetaThompson()
    simulate(instance, bandit, world, rounds=rows, replicates=logs, seed=seed, watch=watch)
    columns = [np.stack(part, axis=1) for part in zip(*seen, strict=True)]
    found = [gated_log(instance, *(each[i] for each in columns)) for i in range(logs)]
    return ledger.parts.mean(axis=0), found


def made(task: Task) -> tuple[gdcb.Instance, Array, list[GatedLog]]:
    """Return the instance, the exact parts (logs, 4) and the logs of a task."""
    seed = 1_000 * task.seed + task.first
    instance, world = place(task.world)
    if task.world == "quadratic":
        make = shops.tried_logs if task.who == "tried" else shops.live_logs
        return (instance, *make(task.count, task.rows, seed))
    if task.who == "learns":
        return (instance, *learns(instance, world, task.rows, task.count, seed))
    each = [tried(instance, world, task.rows, seed, i) for i in range(task.count)]
    return instance, np.stack([one for one, _ in each]), [log for _, log in each]


def measure(task: Task) -> list[dict[str, Any]]:
    """Estimate the parts of every log of a task."""
    instance, truth, logs = made(task)
    found = []
    for parts, log in zip(truth, logs, strict=True):
        began = time.perf_counter()
        figures = live_regret(instance, log).as_json()
        figures["seconds"] = time.perf_counter() - began
        figures["truth"] = dict(zip(PARTS, parts.tolist(), strict=True))
        found.append(figures)
    return found


def summary(task: Task, logs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return how often each part's interval held, with means over the logs."""
    parts: dict[str, Any] = {}
    for name in PARTS:
        truth = np.array([log["truth"][name] for log in logs])
        mean, low, high = (
            np.array([log[name][key] for log in logs]) for key in ("mean", "low", "high")
        )
        is_held = (low <= truth) & (truth <= high)
        parts[name] = {
            "held": wilson(int(is_held.sum()), len(logs)),
            "above": float((truth > high).mean()),
            "below": float((truth < low).mean()),
            "truth": float(truth.mean()),
            "mean": float(mean.mean()),
            "sd": float(mean.std()),
            "width": float((high - low).mean()),
        }
    return {
        "world": task.world,
        "who": task.who,
        "logs": len(logs),
        "rows": task.rows,
        "parts": parts,
        "ess": [float(q) for q in np.quantile([log["ess"] for log in logs], (0.05, 0.5, 0.95))],
        "unsupported": float(np.mean([log["unsupported"] for log in logs])),
        "seconds": float(np.mean([log["seconds"] for log in logs])),
    }


def table(found: Sequence[dict[str, Any]]) -> str:
    """Write all of it as Markdown."""
    head = ["world", "log", "part", "held", "truth above, below", "truth", "estimate", "sd"]
    head += ["width", "ess (5, 50, 95 %)"]
    body = []
    for one in found:
        digits = 4 if one["world"] == "booked" else 2
        for name, part in one["parts"].items():
            figures = [f"{part[key]:.{digits}f}" for key in ("truth", "mean", "sd", "width")]
            off = f"{part['above']:.0%}, {part['below']:.0%}"
            ess = ", ".join(f"{value:.0f}" for value in one["ess"])
            body.append(
                [one["world"], WHO[one["who"]], name, percent(part["held"]), off, *figures, ess]
            )
    return markdown(head, body)


def main(wanted: Sequence[str] | None = None) -> int:
    """Make the logs, estimate their regret, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live_regret", description=__doc__)
    parser.add_argument("--logs", type=int, default=100, help="of each world and kind")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--world", choices=(*WORLDS, "both", "all"), default="all")
    parser.add_argument("--who", choices=(*WHO, "both"), default="both")
    parser.add_argument("--engine", choices=NAMES, default="pool")
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--json", type=Path, default=None, help="write the figures here, too")
    asked = parser.parse_args(wanted)
    began = time.perf_counter()
    tasks = [
        Task(world, who, asked.rows, first, min(_AT_ONCE, asked.logs - first), asked.seed)
        for world in (WORLDS[:2] if asked.world == "both" else WORLDS)
        if asked.world in (world, "both", "all")
        for who in WHO
        if asked.who in (who, "both")
        for first in range(0, asked.logs, _AT_ONCE)
    ]
    results: dict[int, Any] = {}
    with closing(named(asked.engine, asked.workers).run(measure, tasks)) as running:
        for at, result in running:
            results[at] = result
            sys.stderr.write(f"\r{len(results)}/{len(tasks)} tasks")
    sys.stderr.write("\n")
    together: dict[tuple[str, str], list[Any]] = {}
    for at, task in enumerate(tasks):
        together.setdefault((task.world, task.who), []).extend(results[at])
    firsts = {(task.world, task.who): task for task in tasks}
    found = [summary(firsts[key], logs) for key, logs in together.items()]
    sys.stdout.write(f"{table(found)}\n\n{time.perf_counter() - began:.0f} s\n")
    if asked.json is not None:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
