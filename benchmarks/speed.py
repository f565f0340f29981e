"""How fast a round is: one decision beside MABWiser's, and a thousand replicates at once."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from benchmarks.domain import BASE, FEATURES, bounds, contexts, instance, live_form, person
from benchmarks.peers_driver import ROOT, command
from gdcb import Agent
from gdcb import round as turn
from gdcb.bandits import Bandit, BetaThompson, CurveThompson
from gdcb.gates import Chain
from gdcb.records import HELD, Rows
from gdcb.streams import DRAW, GATE, Stream, Streams

CHUNK, ROUNDS = 200, 60


def one_decision(chain: Chain, bandit: Bandit) -> Callable[[int], object]:
    """Return a function that makes one decision, gate and execution included."""
    priced, live = instance(chain), instance(live_form(chain))
    zero = np.zeros(1, dtype=np.int64)
    state = turn.init(priced, bandit, zero)
    rows = Rows(zero, zero, contexts(1))
    stream = Stream((1, 0), 0, 1)

    for i in range(100):  # the person's kernel is learned from their verdicts in a simulation
        decision = turn.decide(stream.rekey((1, i), DRAW, 1), priced, bandit, state, rows)
        verdict = turn.gate(stream.rekey((1, i), GATE, 1), priced, decision, rows)
        priced.chain.learn(state.kernels, rows, verdict)

    def go(i: int) -> object:
        decision = turn.decide(stream.rekey((1, i), DRAW, 1), live, bandit, state, rows)
        verdict = turn.gate(stream.rekey((1, i), GATE, 1), live, decision, rows)
        return verdict if verdict.status[0] == HELD else turn.execute(live, verdict, rows)

    for i in range(300):
        go(i)
    return go


def agent_decision() -> Callable[[int], object]:
    """Return a function that asks an agent: schema, gate, events and all."""
    agent = Agent(instance(bounds()), BetaThompson(), seed=1)
    context = dict(zip((*FEATURES, "base"), contexts(1)[0].tolist(), strict=True))

    def go(_: int) -> object:
        return agent.decide(context)

    return go


def timed(go: Callable[[int], object], n: int = CHUNK) -> float:
    """Return microseconds a call."""
    start = time.perf_counter()
    for i in range(100, 100 + n):
        go(i)
    return (time.perf_counter() - start) / n * 1e6


def goal(value: float, most: float | None = None, least: float | None = None) -> str:
    """Put a goal and whether it was met into words."""
    if most is None and least is None:
        return ""
    is_met = value <= most if most is not None else least is not None and value >= least
    text = f"<= {most:.3g}" if most is not None else f">= {least:,.3g}"
    if least is not None and least >= 1000:
        text = f">= {least:,.0f}"
    return f"{text}: {'met' if is_met else 'missed'}"


def decisions() -> list[tuple[str, str, str]]:
    """Time one decision in turns with MABWiser; ratios are of medians over the turns."""
    runs = {
        "hard gates only": one_decision(bounds(), BetaThompson()),
        "with a learned person": one_decision(person(), BetaThompson()),
        "hard gates, response curve": one_decision(bounds(), CurveThompson()),
        "Agent.decide, events included": agent_decision(),
    }
    times: dict[str, list[float]] = {name: [] for name in [*runs, "MABWiser"]}
    peer = subprocess.Popen(
        command("mabwiser", "turns", "beta"),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    if peer.stdin is None or peer.stdout is None:
        raise RuntimeError("the peer has no pipes")
    for _ in range(ROUNDS):
        peer.stdin.write(f"{CHUNK}\n")
        peer.stdin.flush()
        times["MABWiser"].append(float(peer.stdout.readline()))
        for name, go in runs.items():
            times[name].append(timed(go))
    peer.stdin.close()
    peer.wait()
    bare = statistics.median(times["MABWiser"])
    goals = {"hard gates only": 1.5, "with a learned person": 4.0}
    rows = [("one decision: MABWiser Beta-Thompson, bare", f"{bare:.0f} µs", "")]
    for name in runs:
        middle = statistics.median(times[name])
        rows.append(
            (
                f"one decision: {name}",
                f"{middle:.0f} µs, {middle / bare:.2f} x",
                goal(middle / bare, most=goals.get(name)),
            )
        )
    return rows


def rows_per_second(bandit: Bandit, replicates: int = 1000, rounds: int = 60) -> float:
    """Run whole rounds (decide, gate, execute, learn both loops) and return rows a second."""
    priced = instance(bounds())
    unit = np.arange(replicates)
    state = turn.init(priced, bandit, unit)
    rows = Rows(unit, unit, contexts(replicates))
    streams, rng = Streams(0), np.random.default_rng(1)
    label, u = rng.normal(size=(replicates, 1)), rng.random((rounds, replicates))
    start = time.perf_counter()
    for t in range(rounds):
        decision = turn.decide(streams.at(DRAW, t), priced, bandit, state, rows)
        verdict = turn.gate(streams.at(GATE, t), priced, decision, rows)
        executed = turn.execute(priced, verdict, rows)
        p = 1.0 / (1.0 + np.exp(4.0 * executed.action[:, 0] / BASE - 4.5))
        outcome = (u[t] < p)[:, None].astype(float)
        log = turn.finished(priced, rows, decision, executed, outcome)
        turn.learn(priced, bandit, state, log, outcome, label, decision.delta)
    return replicates * rounds / (time.perf_counter() - start)


def raw_draws(replicates: int = 1000, rounds: int = 60) -> float:
    """Return the rate at which NumPy alone draws 25 Beta variates a row."""
    rng = np.random.Generator(np.random.Philox(0))
    a = rng.integers(1, 8, (replicates, 25)).astype(float)
    start = time.perf_counter()
    for _ in range(rounds):
        rng.beta(a, a)
    return replicates * rounds / (time.perf_counter() - start)


def own_draws(replicates: int = 1000, rounds: int = 60) -> float:
    """Return the rate of our own draws of the same law, whose rows do not touch each other."""
    streams = Streams(0)
    a = np.random.default_rng(0).integers(1, 8, (replicates, 25)).astype(float)
    counts = np.stack((a, a), axis=1)
    start = time.perf_counter()
    for t in range(rounds):
        streams.at(DRAW, t).beta(counts)
    return replicates * rounds / (time.perf_counter() - start)


def throughput() -> list[tuple[str, str, str]]:
    """Measure in turns; report medians and the best turn."""
    runs: dict[str, tuple[Callable[[], float], float | None]] = {
        "25 raw Beta draws, NumPy": (raw_draws, None),
        "25 Beta draws, ours": (own_draws, None),
        "whole rounds, flat arms, bounds": (
            lambda: rows_per_second(BetaThompson()),
            200_000,
        ),
        "whole rounds, response curve, bounds": (
            lambda: rows_per_second(CurveThompson()),
            80_000,
        ),
    }
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(9):
        for name, (run, _) in runs.items():
            rates[name].append(run())
    return [
        (
            f"1,000 replicates: {name}",
            f"{statistics.median(rates[name]):,.0f} rows/s (best {max(rates[name]):,.0f})",
            goal(statistics.median(rates[name]), least=least),
        )
        for name, (_, least) in runs.items()
    ]


def import_time() -> list[tuple[str, str, str]]:
    """Return the CPU seconds of imports, the median of nine fresh interpreters in turns."""
    statements = ["import gdcb", "from gdcb import Agent", "import numpy"]
    seconds: dict[str, list[float]] = {statement: [] for statement in statements}
    for _ in range(9):
        for statement in statements:
            before = os.times()
            subprocess.run([sys.executable, "-c", statement], check=True)
            after = os.times()
            user = after.children_user - before.children_user
            seconds[statement].append(user + after.children_system - before.children_system)
    goals = {"import gdcb": 0.35}
    return [
        (
            f"{statement}, interpreter included",
            f"{statistics.median(seconds[statement]):.2f} s CPU",
            goal(statistics.median(seconds[statement]), most=goals.get(statement)),
        )
        for statement in statements
    ]
