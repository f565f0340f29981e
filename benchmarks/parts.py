"""The learners beside their peers: one decision, whole simulations, a batch, a history.

Every peer runs in an environment of its own and must show that it learns; ratios are of figures
of one run. 25 arms, 10 features, one core and one BLAS thread (`make bench` sets it).
"""

from __future__ import annotations

import statistics
import subprocess
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks import peers_driver as peers
from benchmarks.peers.tasks import GAIN, N_ARMS, NOISE, rows
from benchmarks.speed import goal, timed
from benchmarks.worlds import Coins, Lines, coins, lines
from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.bandits import BetaThompson, LinearThompson
from gdcb.instance import Instance
from gdcb.posterior import unpack
from gdcb.records import Evidence, Rows
from gdcb.simulate import simulate
from gdcb.streams import DRAW, GATE, Stream, Streams

Line = tuple[str, str, str]
TURNS = 9
REPLICATES = 1000
LINTS = LinearThompson(noise=NOISE)


def trained(n: int = 5000) -> tuple[Instance, Any, turn.RoundState]:
    """Return the linear instance and a learner of one unit that saw n rows of uniform play."""
    domain = lines()
    bandit = domain.bind(LINTS)
    state = turn.init(domain, bandit, np.zeros(1, dtype=np.int64))
    for seen in history(n, n):
        bandit.update(state.bandit, seen)
    return domain, bandit, state


def history(n: int, at_once: int) -> Iterator[Evidence]:
    """Yield n rows of uniform play in pieces, made as they are asked for."""
    for start in range(0, n, at_once):
        arm, x, y, _ = rows(min(at_once, n - start), seed=start)
        yield evidence(arm, x, y)


def evidence(arm: Array, x: Array, y: Array) -> Evidence:
    """Return rows of one cell as evidence."""
    zero = np.zeros(arm.size, dtype=np.int64)
    return Evidence(zero, arm, np.zeros((arm.size, 1)), y, None, np.ones(arm.size), x)


def one_decision() -> list[Line]:
    """Time one LinTS decision in turns with MABWiser and with bare NumPy."""
    domain, bandit, state = trained()
    _, x, _, _ = rows(1000, seed=2)
    zero = np.zeros(1, dtype=np.int64)
    each = [Rows(zero, zero, x[i : i + 1]) for i in range(len(x))]
    stream = Stream((1, 0), 0, 1)

    def propose(i: int) -> Any:
        return turn.decide(stream.rekey((1, i), DRAW, 1), domain, bandit, state, each[i % 1000])

    def whole(i: int) -> object:
        decision = propose(i)
        verdict = turn.gate(stream.rekey((1, i), GATE, 1), domain, decision, each[i % 1000])
        return turn.execute(domain, verdict, each[i % 1000])

    weights, rng = state.bandit.weights, np.random.default_rng(1)
    mean, covariance = weights.mean[0], unpack(weights.covariance[0], x.shape[1] + 1).copy()

    def bare(i: int) -> int:
        phi = np.concatenate(([1.0], x[i % 1000]))
        spread = np.sqrt(((covariance @ phi) * phi).sum(axis=1))
        return int((mean @ phi + spread * rng.standard_normal(N_ARMS)).argmax())

    def by_arm(i: int) -> int:
        phi = np.concatenate(([1.0], x[i % 1000]))
        value = [
            mean[a] @ phi + np.sqrt(phi @ covariance[a] @ phi) * rng.standard_normal()
            for a in range(N_ARMS)
        ]
        return int(np.argmax(value))

    runs: dict[str, Callable[[int], object]] = {
        "gdcb, the proposal": propose,
        "gdcb, with gate and execution": whole,
        "bare NumPy, all arms at once": bare,
        "bare NumPy, a loop over arms": by_arm,
    }
    times: dict[str, list[float]] = {name: [] for name in [*runs, "MABWiser"]}
    command = peers.command("mabwiser", "turns", "lints")
    with subprocess.Popen(
        command, cwd=peers.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as peer:
        if peer.stdin is None or peer.stdout is None:
            raise RuntimeError("the peer has no pipes")
        for _ in range(30):
            peer.stdin.write("20\n")
            peer.stdin.flush()
            times["MABWiser"].append(float(peer.stdout.readline()))
            for name, go in runs.items():
                times[name].append(timed(go, 200))
        peer.stdin.close()
    middle = {name: statistics.median(found) for name, found in times.items()}
    ours = middle["gdcb, the proposal"]
    slow, quick = ours / middle["MABWiser"], ours / middle["bare NumPy, all arms at once"]
    lines_ = [(f"one LinTS decision: {name}", f"{us:.0f} µs", "") for name, us in middle.items()]
    return [
        *lines_,
        ("— ours to MABWiser's", f"1/{1 / slow:.0f}", goal(slow, most=1 / 15)),
        ("— ours to bare NumPy, all arms at once", f"{quick:.2f} x", goal(quick, most=3.0)),
    ]


def beta_rate(rounds: int = 200) -> float:
    """Return episodes a second of a whole Beta-Thompson simulation, the world included."""
    start = time.perf_counter()
    simulate(coins(), BetaThompson(), Coins(), rounds=rounds, replicates=REPLICATES)
    return rounds * REPLICATES / (time.perf_counter() - start)


def lints_rate(rounds: int = 100) -> float:
    """Return episodes a second of a whole LinTS simulation, the world included."""
    start = time.perf_counter()
    simulate(lines(), LINTS, Lines(), rounds=rounds, replicates=REPLICATES)
    return rounds * REPLICATES / (time.perf_counter() - start)


def visited(rounds: int = 200) -> list[tuple[Array, Array]]:
    """Return the Beta parameters that such a run visits: one pair (replicates, arms) a round."""
    found: list[tuple[Array, Array]] = []

    class Watched(BetaThompson):
        def draw(self, rng: Stream, state: Any, at: Any) -> Array:
            found.append((state.counts[:, 0].copy(), state.counts[:, 1].copy()))
            return super().draw(rng, state, at)

    simulate(coins(), Watched(), Coins(), rounds=rounds, replicates=REPLICATES)
    return found


def raw_rate(parameters: list[tuple[Array, Array]]) -> float:
    """Return the rate at which NumPy's default generator draws at these parameters, no more."""
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    for a, b in parameters:
        rng.beta(a, b)
    return len(parameters) * REPLICATES / (time.perf_counter() - start)


def own_rate(parameters: list[tuple[Array, Array]]) -> float:
    """Return the rate of our own draws at these parameters, rows apart from each other."""
    counts = [np.stack(pair, axis=1) for pair in parameters]
    streams = Streams(0)
    start = time.perf_counter()
    for t, some in enumerate(counts):
        streams.at(DRAW, t).beta(some)
    return len(counts) * REPLICATES / (time.perf_counter() - start)


def simulations() -> list[Line]:
    """Time whole simulations over 1,000 replicates, in turns with the raw draws."""
    parameters = visited()
    runs: dict[str, Callable[[], float]] = {
        "raw Beta draws at the visited parameters, NumPy": lambda: raw_rate(parameters),
        "the same, ours": lambda: own_rate(parameters),
        "Beta-Thompson, whole rounds": beta_rate,
        "LinTS, whole rounds": lints_rate,
    }
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(TURNS):
        for name, run in runs.items():
            rates[name].append(run())
    middle = {name: statistics.median(found) for name, found in rates.items()}
    beta, lints = middle["Beta-Thompson, whole rounds"], middle["LinTS, whole rounds"]
    share = beta / middle["raw Beta draws at the visited parameters, NumPy"]
    beta_peer, one = peers.fastest("beta-sim")
    lints_peer, other = peers.fastest("lints-sim")
    by_beta, by_lints = beta / one["per_second"], lints / other["per_second"]
    return [
        *((f"1,000 replicates: {name}", f"{rate:,.0f}/s", "") for name, rate in middle.items()),
        ("— Beta-Thompson to the raw draws", f"{share:.2f}", goal(share, least=0.8)),
        (
            f"— Beta-Thompson to the fastest peer ({beta_peer}, {one['per_second']:,.0f}/s)",
            f"{by_beta:,.0f} x",
            goal(by_beta, least=15),
        ),
        (
            f"— LinTS to the fastest LinTS of a peer ({lints_peer}, {other['per_second']:,.0f}/s)",
            f"{by_lints:,.0f} x",
            goal(by_lints, least=200),
        ),
    ]


def batch(n: int = 100_000) -> list[Line]:
    """Time 100,000 LinTS decisions in one call, each row with draws of its own."""
    domain, bandit, state = trained()
    _, x, _, mean = rows(n, seed=1)
    zero = np.zeros(n, dtype=np.int64)
    asked = Rows(zero, zero, x)
    seconds = []
    for i in range(TURNS):
        start = time.perf_counter()
        arm = turn.decide(Stream((2, i), 0, 1000), domain, bandit, state, asked).arm
        seconds.append(time.perf_counter() - start)
    _must_learn(mean[np.arange(n), arm], mean)
    ours = statistics.median(seconds)
    name, peer = peers.fastest("lints-batch")
    ratio = peer["seconds"] / ours
    return [
        ("100,000 LinTS decisions in a batch: gdcb", f"{ours:.2f} s", ""),
        (f"— the fastest peer ({name})", f"{peer['seconds']:.2f} s", ""),
        ("— its time to ours", f"{ratio:.1f} x", goal(ratio, least=1)),
    ]


def statistics_of_history(n: int = 1_000_000) -> list[Line]:
    """Time the sums of a history in memory, and show that memory does not grow with its rows."""
    domain = lines()
    bandit = domain.bind(LINTS)
    arm, x, y, _ = rows(n)
    seconds = []
    for _ in range(TURNS):
        state = bandit.init(np.zeros(1, dtype=np.int64), domain.space)
        start = time.perf_counter()
        for at in range(0, n, 50_000):
            part = slice(at, at + 50_000)
            bandit.update(state, evidence(arm[part], x[part], y[part]))
        seconds.append(time.perf_counter() - start)
    ours = statistics.median(seconds)
    name, peer = peers.fastest("history")
    ratio = peer["seconds"] / ours
    peak = {m: _peak_of(m) for m in (n // 4, n)}
    return [
        ("1,000,000-row history: gdcb", f"{ours:.2f} s", ""),
        (f"— the fastest peer ({name})", f"{peer['seconds']:.2f} s", ""),
        ("— its time to ours", f"{ratio:.1f} x", goal(ratio, least=2)),
        (
            "— peak memory, streamed in pieces of 50,000",
            " ".join(f"{m:,} rows: {mb:.0f} MB" for m, mb in peak.items()),
            goal(peak[n] / peak[n // 4], most=1.05),
        ),
    ]


def _peak_of(n: int) -> float:
    """Return the most megabytes allocated while n rows come and go in pieces."""
    domain = lines()
    bandit = domain.bind(LINTS)
    tracemalloc.start()
    state = bandit.init(np.zeros(1, dtype=np.int64), domain.space)
    for seen in history(n, 50_000):
        bandit.update(state, seen)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1e6


def _must_learn(reward: Array, mean: Array) -> None:
    uniform, best = mean.mean(), mean.max(axis=1).mean()
    gain = (reward.mean() - uniform) / (best - uniform)
    if gain < GAIN:
        raise AssertionError(f"our own learner does not learn here: gain {gain:.2f}")


def every_peer() -> list[tuple[str, ...]]:
    """Return one line a peer: what it reached in each task, or why not."""
    lines_ = []
    for name in peers.PEERS:
        cells = []
        for task, (measure, _) in peers.MEASURES.items():
            answer = peers.run_peer(name, task)
            if measure not in answer:
                cells.append("–")
                continue
            marks = "" if answer.get("learns") else " does not learn"
            marks += "" if answer.get("is_lints", True) else " *"
            marks += "" if answer.get("own_draws", True) else " †"
            marks += "" if answer.get("arms_draw_apart", True) is not False else " ‡"
            cells.append(f"{answer[measure]:,.3g}{marks}")
        lines_.append((name, *cells))
    return lines_


def table() -> list[Line]:
    """Return all lines."""
    return [*one_decision(), *simulations(), *batch(), *statistics_of_history()]
