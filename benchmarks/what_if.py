"""How often answers of `gdcb.analysis.what_if` hold, on simulated logs whose truth is known.

A shop offers prices behind three gates: a cap, a manager who approves or puts in a price of their
own, and a limit that closes the chain. Every question is asked of every log, and the truth of each
comes from the world's means over many rows.

    python -m benchmarks.what_if --logs 200 --rows 2000
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import gdcb
from gdcb.analysis import Ledger, what_if
from gdcb.analysis.live_regret import live_regret
from gdcb.analysis.regret import TrueMean
from gdcb.arrays import Array, logistic
from gdcb.records import Rows
from gdcb.simulate import simulate

ARMS = (0.7, 0.85, 1.0, 1.15, 1.3, 1.45)
_MANY = 400_000
_CORRELATIONS = (-1.0, 0.0, 0.5, 1.0)


def approve(e: Array, rows: Rows) -> Array:
    """Return the manager's rate of approval: lower for dear prices, higher on busy days."""
    relative = e[..., 0] / rows.x[:, 1:]
    return logistic(1.2 - 1.5 * (relative - 1.0) + 0.8 * rows.x[:, :1])


def own(rows: Rows) -> Array:
    """Return the manager's own price: above the base on busy days."""
    return rows.x[:, 1:] * (1.0 + 0.15 * rows.x[:, :1])


def shop(high: float = 160.0, cap: float = 1000.0) -> gdcb.Instance:
    """Return the instance: price = base · arm, cap, manager, limit; paid when it sells."""
    person = gdcb.SimulatedPerson(approve, own, spread=8.0)
    gates = (
        gdcb.Cap(limit=cap),
        gdcb.Approval(person, name="manager"),
        gdcb.Bounds(low=40.0, high=high, name="limit"),
    )
    return gdcb.Instance(
        name="shop",
        context=gdcb.Schema({"busy": gdcb.Number(-1, 1), "base": gdcb.Number(50, 200)}),
        arms=gdcb.ArmList(values=ARMS),
        composition=gdcb.Multiply(base=("base",), names=("price",)),
        gate=gdcb.Chain(gates),
        reward=gdcb.Payoff(outcome=("sold",), action=0),
    )


def contexts(rng: np.random.Generator, n: int) -> Rows:
    """Draw how busy the day is, and the base price."""
    x = np.column_stack((rng.uniform(-1, 1, n), rng.uniform(80, 120, n)))
    return Rows(np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64), x)


def sold(e: Array, x: Array) -> Array:
    """Return P(sold) of prices (n,): it falls with the price, less so on busy days."""
    return logistic(3.0 + 1.0 * x[:, 0] - 3.2 * e / x[:, 1] / (1.0 + 0.1 * x[:, 0]))


def proposals(x: Array, slope: float = 1.0) -> Array:
    """Return the incumbent's law (n, K): dearer on busy days where `slope` is above 0."""
    arms = np.array(ARMS)
    odds = -6.0 * (arms - 1.05 - 0.12 * slope * x[:, :1]) ** 2
    law = np.asarray(np.exp(odds))
    return np.asarray(law / law.sum(axis=1, keepdims=True))


def drawn(rng: np.random.Generator, law: Array) -> Array:
    """Draw an arm a row."""
    u = rng.random((law.shape[0], 1))
    below = law.cumsum(axis=1) < u
    return np.asarray(below.sum(axis=1).clip(0, law.shape[1] - 1))


@dataclass(slots=True)
class Made:
    """Rows of the shop: what was proposed, what ran, and the gates' trail."""

    rows: Rows
    proposed: Array
    executed: Array
    statuses: Array
    trail: Array

    @property
    def mean(self) -> Array:
        """μ of what ran: (n,)."""
        price = self.executed[:, 0]
        return price * sold(price, self.rows.x)


def run(
    instance: gdcb.Instance,
    rng: np.random.Generator,
    rows: Rows,
    law: Array,
    arms: Array = np.array(ARMS),  # noqa: B008
) -> Made:
    """Propose by `law` and send the prices through the gates."""
    e = rows.x[:, 1:] * arms[drawn(rng, law), None]
    chain = instance.chain
    draws = tuple(rng.random((rows.n, 3)) if gate.is_person else None for gate in chain.gates)
    verdict = chain.apply(draws, e, rows)
    return Made(rows, e, verdict.action, verdict.statuses, verdict.trail)


def log(
    instance: gdcb.Instance, seed: int, n: int, trail: bool = True
) -> tuple[what_if.GatedLog, Made]:
    """Make a log of n rows."""
    rng = np.random.default_rng([seed, 7])
    rows = contexts(rng, n)
    made = run(instance, rng, rows, proposals(rows.x))
    price = made.executed[:, 0]
    reward = price * (rng.random(n) < sold(price, rows.x))
    more = {"statuses": made.statuses, "trail": made.trail} if trail else {}
    return what_if.gated_log(instance, rows.x, made.proposed, made.executed, reward, **more), made


def two_reviewers(made: Made, rng: np.random.Generator, rho: float) -> float:
    """Return the truth where two managers, whose answers correlate by ρ, must both approve."""
    rows, shown = made.rows, made.proposed
    p = approve(shown[:, None], rows)[:, 0]
    joint = np.clip(p * p + rho * p * (1 - p), np.maximum(0.0, 2 * p - 1), p)
    point = np.array([-1.0, 0.0, 1.0])[np.searchsorted([0.25, 0.75], rng.random(rows.n))]
    other = np.clip(own(rows)[:, 0] + 8.0 * point, 40.0, 160.0)
    let = np.clip(shown[:, 0], 40.0, 160.0)
    both = joint * let * sold(let, rows.x)
    return float((both + (1 - joint) * other * sold(other, rows.x)).mean())


def questions() -> dict[str, tuple[what_if.Question, Callable[[int], float]]]:
    """Return every question with its truth, by name."""
    base = shop()
    rng = np.random.default_rng(99)
    rows = contexts(rng, _MANY)
    now = run(base, rng, rows, proposals(rows.x))

    def behind(other: gdcb.Instance, slope: float = 1.0) -> float:
        made = run(other, np.random.default_rng(98), rows, proposals(rows.x, slope))
        return float(made.mean.mean())

    cap, manager, limit = base.chain.gates
    lower = replace(limit, high=112.0)  # type: ignore[type-var]
    capped = replace(cap, limit=105.0)  # type: ignore[type-var]
    chains = {
        "limit 160 → 112": (gdcb.Chain((cap, manager, lower)), lower, "limit"),
        "cap ∞ → 105, before the manager": (gdcb.Chain((capped, manager, limit)), capped, "cap"),
    }
    asked: dict[str, tuple[what_if.Question, Callable[[int], float]]] = {}
    for name, (chain, gate, place) in chains.items():
        truth = behind(replace(base, gate=chain))
        asked[name] = what_if.ReplaceGate(place, gate), lambda _, truth=truth: truth  # type: ignore[misc]
    free = behind(replace(base, gate=gdcb.Chain((cap, limit))))
    asked["the manager approves all"] = what_if.WithoutGate("manager"), lambda _: free
    steeper = behind(base, slope=-1.0)
    policy = what_if.Propose(lambda some: proposals(some.x, -1.0), "a policy cheaper on busy days")
    asked["another policy"] = policy, lambda _: steeper
    two = {rho: two_reviewers(now, np.random.default_rng(97), rho) for rho in _CORRELATIONS}
    asked["two managers, independent"] = (
        what_if.SecondReviewer("manager", "independent"),
        lambda _: two[0.0],
    )
    asked["two managers, nothing assumed"] = (
        what_if.SecondReviewer("manager"),
        lambda seed: two[_CORRELATIONS[seed % len(_CORRELATIONS)]],
    )
    return asked


LIVE_ARMS = (0.7, 0.9, 1.1, 1.3, 1.5)


def live_shop() -> gdcb.Instance:
    """Return a shop whose margin is observed, behind a manager and a limit."""
    person = gdcb.SimulatedPerson(approve, own, spread=8.0)
    limit = gdcb.Bounds(low=40.0, high=130.0, name="limit")
    return gdcb.Instance(
        name="live shop",
        context=gdcb.Schema({"busy": gdcb.Number(-1, 1), "base": gdcb.Number(50, 200)}),
        arms=gdcb.ArmList(values=LIVE_ARMS),
        composition=gdcb.Multiply(base=("base",), names=("price",)),
        gate=gdcb.Chain((gdcb.Approval(person, name="manager"), limit)),
        reward=gdcb.Scaled(outcome=("margin",)),
    )


class Days:
    """Margins 40 − 160·(e/base − best(x))², with noise; the best price moves with the day."""

    noise = 8.0

    def start(self, rng: Any, group: Array) -> None:
        """Nothing differs between shops."""

    def context(self, rng: Any, state: None, t: int, group: Array) -> Rows:
        """Draw how busy the day is, and the base price."""
        u = rng.uniform(group.size, 2)
        x = np.column_stack((2.0 * u[:, 0] - 1.0, 80.0 + 40.0 * u[:, 1]))
        return Rows(np.arange(group.size), group, x)

    def mean(self, state: None, e: Array, rows: Rows) -> Array:
        """Return the expected margin of prices (N, M, 1): (N, M)."""
        relative = e[..., 0] / rows.x[:, 1:]
        return np.asarray(40.0 - 160.0 * (relative - 1.1 - 0.2 * rows.x[:, :1]) ** 2)

    def candidates(self, state: None, rows: Rows) -> Array:
        """Return the best price alone: nobody asks for the floor."""
        return self.best(state, rows)[:, None]

    def best(self, state: None, rows: Rows) -> Array:
        """Return base·(1.1 + 0.2·busy): (N, 1)."""
        return np.asarray(rows.x[:, 1:] * (1.1 + 0.2 * rows.x[:, :1]))

    def sample(self, rng: Any, state: None, e: Array, rows: Rows) -> Array:
        """Draw margins."""
        noise = self.noise * rng.normal(rows.n)
        return np.asarray(self.mean(state, e[:, None], rows)[:, 0] + noise)[:, None]

    def label(self, rng: Any, state: None, e: Array, rows: Rows) -> None:
        """Teach no scaler."""

    def advance(self, rng: Any, state: None, e: Array, outcome: Array, rows: Rows) -> None:
        """Keep no memory."""


LEARNER = gdcb.GaussianThompson(prior_mean=20.0)
PARTS = ("total", "calibration", "bandit", "gate")


def live_logs(logs: int, rounds: int, seed: int = 0) -> tuple[Array, list[what_if.GatedLog]]:
    """Return the exact parts (logs, 4) and logs of shops whose bandit learns meanwhile."""
    instance, world = live_shop(), Days()
    ledger = Ledger(instance, world, rounds, logs)
    seen: list[tuple[Array, ...]] = []

    def watch(turn: Any) -> None:
        ledger(turn)
        seen.append((turn.rows.x, turn.decision.action, turn.executed.action, turn.reward))

    simulate(instance, LEARNER, world, rounds=rounds, replicates=logs, seed=seed, watch=watch)
    columns = [np.stack(part, axis=1) for part in zip(*seen, strict=True)]
    made = [what_if.gated_log(instance, *(each[i] for each in columns)) for i in range(logs)]
    return ledger.parts.mean(axis=0), made


def tried_logs(logs: int, rows: int, seed: int = 0) -> tuple[Array, list[what_if.GatedLog]]:
    """Return the same of shops in which an incumbent tries all arms, some more often."""
    instance, world = live_shop(), Days()
    truth, made = np.empty((logs, 4)), []
    for i in range(logs):
        rng = np.random.default_rng([seed, i, 11])
        some, arms = contexts(rng, rows), np.array(LIVE_ARMS)
        odds = np.exp(-4.0 * (arms - 1.0 - 0.1 * some.x[:, :1]) ** 2)
        done = run(instance, rng, some, odds / odds.sum(axis=1, keepdims=True), arms)
        mean = TrueMean(instance, world, None, some)
        worth = mean(done.executed[:, None])[:, 0]
        reward = worth + world.noise * rng.normal(size=rows)
        e = instance.composition.compose(instance.space, np.ones((rows, 1, 1)), some.x)
        best = mean(world.best(None, some)[:, None])[:, 0]
        free, gated = mean(e).max(axis=1), instance.chain.expect(mean, e, some).max(axis=1)
        chosen = instance.chain.expect(mean, done.proposed[:, None], some)[:, 0]
        parts = best - worth, best - free, gated - chosen, free - gated + chosen - worth
        truth[i] = [part.mean() for part in parts]
        made.append(what_if.gated_log(instance, some.x, done.proposed, done.executed, reward))
    return truth, made


def live(truth: Array, logs: list[what_if.GatedLog]) -> tuple[Array, Array]:
    """Return the parts' estimates (logs, 4, 3), and how often their intervals held (4,)."""
    found = np.empty((len(logs), 4, 3))
    for i, one in enumerate(logs):
        regret = live_regret(live_shop(), one)
        for j, name in enumerate(PARTS):
            part = getattr(regret, name)
            found[i, j] = part.mean, part.low, part.high
    return found, ((found[..., 1] <= truth) & (truth <= found[..., 2])).mean(axis=0)


@dataclass(slots=True)
class Covered:
    """How often the interval of one question held the truth."""

    name: str
    kinds: dict[str, int]
    share: float
    truth: float
    mean: float
    spread: float
    width: float


def coverage(
    logs: int, n: int, trail: bool = True, seed: int = 0, draws: int = 1000
) -> list[Covered]:
    """Ask every question of many logs."""
    on = what_if.Conditions(draws=draws)
    instance, table = shop(), []
    asked = questions()
    found: dict[str, list[tuple[str, float, float, float, float]]] = {name: [] for name in asked}
    for i in range(seed, seed + logs):
        made, _ = log(instance, i, n, trail)
        each = [question for question, _ in asked.values()]
        answers = what_if.ask_all(instance, made, each, conditions=on)
        for (name, (_, truth)), answer in zip(asked.items(), answers, strict=True):
            mean, low, high = answer.value or (np.nan,) * 3
            middle = (low + high) / 2 if mean is None else mean
            found[name].append((answer.kind, truth(i), middle, low, high))
    for name, rows in found.items():
        kinds = [row[0] for row in rows]
        truth, middle, low, high = np.array([row[1:] for row in rows]).T
        table.append(
            Covered(
                name,
                {kind: kinds.count(kind) for kind in sorted(set(kinds))},
                float(((low <= truth) & (truth <= high)).mean()),
                float(truth.mean()),
                float(middle.mean()),
                float(middle.std()),
                float((high - low).mean()),
            )
        )
    return table


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--no-trail", action="store_true", help="only what ran is logged")
    given = parser.parse_args(arguments)
    table = coverage(given.logs, given.rows, not given.no_trail)
    sys.stdout.write(
        f"{'question':34} {'held':>6} {'truth':>8} {'mean':>8} {'sd':>6} {'width':>6}\n"
    )
    for row in table:
        kinds = ", ".join(f"{kind} {n}" for kind, n in row.kinds.items())
        sys.stdout.write(
            f"{row.name:34} {row.share:6.3f} {row.truth:8.2f} {row.mean:8.2f} {row.spread:6.2f} "
            f"{row.width:6.2f}  {kinds}\n"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
