"""The tasks that every peer is given, timed the same way: 25 arms, 10 features, fixed seeds.

A peer's file fills a `Peer` and calls `main`, which prints one JSON document. What a library
lacks is `null` with a reason. Every timed task also says whether the peer `learns`: its `gain`,
(reward − uniform play) / (best play − uniform play), must reach `GAIN`.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import json
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

N_ARMS, N_FEATURES = 25, 10
NOISE = 0.1
GAIN = 0.25
SECONDS = 3.0
LEAST_ROUNDS, MOST_ROUNDS = 500, 20_000


class Missing(Exception):
    """The library has no such task; the message says why."""


class Beta(Protocol):
    """A bandit without context, for rewards 0 and 1."""

    def decide(self) -> int:
        """Return an arm."""

    def update(self, arm: int, y: float) -> None:
        """Learn one reward."""


class Linear(Protocol):
    """A bandit whose rewards are linear in the context x, one model an arm."""

    def fit(self, arm: Array, x: Array, y: Array) -> None:
        """Learn rows at once: arm (N,), x (N, d), y (N,)."""

    def decide(self, x: Array) -> int:
        """Return an arm for one context (d,)."""

    def update(self, arm: int, x: Array, y: float) -> None:
        """Learn one reward."""

    def decide_many(self, x: Array) -> Array:
        """Return the arms of contexts (N, d), decided in one call."""


@dataclass(frozen=True)
class Peer:
    """What a library offers; a string instead says why it does not."""

    package: str
    beta: Callable[[], Beta] | str
    linear: Callable[[], Linear] | str
    linear_name: str
    is_lints: bool = True
    batch: str = ""
    history_rows: int = 1_000_000
    posteriors: Mapping[str, Callable[[Array, Array, Array, dict[str, Any]], Any]] = field(
        default_factory=dict
    )


def rows(n: int, seed: int = 0) -> tuple[Array, Array, Array, Array]:
    """Return n rows of uniform play: arm, x and y, and the mean rewards (n, 25)."""
    theta = np.random.default_rng(7).normal(size=(N_ARMS, N_FEATURES)) / np.sqrt(N_FEATURES)
    rng = np.random.default_rng((1, seed))
    x = rng.normal(size=(n, N_FEATURES))
    arm = rng.integers(0, N_ARMS, n)
    mean = x @ theta.T
    y = mean[np.arange(n), arm] + NOISE * rng.normal(size=n)
    return arm, x, y, mean


def _gain(reward: Array, mean: Array) -> dict[str, Any]:
    """Judge the mean rewards of what was chosen beside uniform and best play on the same rows."""
    uniform, best = float(mean.mean()), float(mean.max(axis=1).mean())
    gain = (float(reward.mean()) - uniform) / (best - uniform)
    return {
        "learns": gain >= GAIN,
        "gain": round(gain, 3),
        "gain_needed": GAIN,
        "mean_reward": round(float(reward.mean()), 4),
        "uniform": round(uniform, 4),
        "best": round(best, 4),
    }


def _new(make: Callable[[], Any] | str) -> Any:
    if isinstance(make, str):
        raise Missing(make)
    return make()


def _trained(peer: Peer, n: int = 5000) -> tuple[Linear, dict[str, Any]]:
    """Return a model of n rows of uniform play, and what it gains on 300 others."""
    model: Linear = _new(peer.linear)
    arm, x, y, _ = rows(n)
    model.fit(arm, x, y)
    return model, _judged(model)


def _judged(model: Linear, n: int = 300) -> dict[str, Any]:
    """Return what a trained model gains on n rows, decided one by one."""
    _, x, _, mean = rows(n, seed=1)
    chosen = np.array([model.decide(row) for row in x])
    return _gain(mean[np.arange(n), chosen], mean)


def lints_decision(peer: Peer) -> dict[str, Any]:
    """Time one decision of a trained model; median of 10 turns."""
    model, check = _trained(peer)
    _, x, _, _ = rows(50, seed=2)
    turns = []
    for _ in range(10):
        start = time.perf_counter()
        for row in x:
            model.decide(row)
        turns.append((time.perf_counter() - start) / len(x) * 1e6)
    apart = _arms_draw_apart(peer) if peer.is_lints else None
    return {"us": statistics.median(turns), "arms_draw_apart": apart, **check}


def _arms_draw_apart(peer: Peer) -> bool:
    """Give every arm the same rows: whoever draws the arms independently then plays many."""
    model: Linear = _new(peer.linear)
    _, x, y, _ = rows(20, seed=6)
    arm = np.repeat(np.arange(N_ARMS), len(x))
    model.fit(arm, np.tile(x, (N_ARMS, 1)), np.tile(y, N_ARMS))
    return len({model.decide(x[0]) for _ in range(100)}) > 1


def beta_sim(peer: Peer) -> dict[str, Any]:
    """Decide, draw, update, in sequence; arm 7 pays 0.8 and the others 0.4."""
    model: Beta = _new(peer.beta)
    u = np.random.default_rng(3).random(MOST_ROUNDS).tolist()
    p = [0.8 if arm == 7 else 0.4 for arm in range(N_ARMS)]
    chosen = []
    start = time.perf_counter()
    for t in range(MOST_ROUNDS):
        arm = model.decide()
        model.update(arm, float(u[t] < p[arm]))
        chosen.append(arm)
        if t >= LEAST_ROUNDS and time.perf_counter() - start > SECONDS:
            break
    per_second = len(chosen) / (time.perf_counter() - start)
    late = np.array(p)[chosen[len(chosen) // 2 :]]
    check = _gain(late, np.tile(p, (len(late), 1)))
    return {"per_second": per_second, "rounds": len(chosen), **check}


def lints_sim(peer: Peer) -> dict[str, Any]:
    """Decide, draw, update, in sequence, with a context; the gain is of the later half."""
    model: Linear = _new(peer.linear)
    # One row an arm first: some libraries cannot decide before, and none is timed on it.
    _, x, _, mean = rows(MOST_ROUNDS + N_ARMS, seed=4)
    noise = NOISE * np.random.default_rng(5).normal(size=len(x))
    model.fit(np.arange(N_ARMS), x[:N_ARMS], mean[:N_ARMS].diagonal() + noise[:N_ARMS])
    x, mean, noise = x[N_ARMS:], mean[N_ARMS:], noise[N_ARMS:]
    chosen = []
    start = time.perf_counter()
    for t in range(MOST_ROUNDS):
        arm = model.decide(x[t])
        model.update(arm, x[t], float(mean[t, arm] + noise[t]))
        chosen.append(arm)
        if t >= LEAST_ROUNDS and time.perf_counter() - start > SECONDS:
            break
    n = len(chosen)
    per_second = n / (time.perf_counter() - start)
    late = np.arange(n // 2, n)
    check = _gain(mean[late, np.array(chosen)[late]], mean[late])
    return {"per_second": per_second, "rounds": n, **check}


def lints_batch(peer: Peer, n: int = 100_000) -> dict[str, Any]:
    """Time n decisions in one call; one context many times over shows whether rows share a draw."""
    if peer.batch:
        raise Missing(peer.batch)
    model: Linear = _new(peer.linear)
    # Two rows an arm: so little that arms change places from draw to draw.
    _, x, y, _ = rows(2 * N_ARMS)
    model.fit(np.arange(2 * N_ARMS) % N_ARMS, x, y)
    n_choices = len(set(np.asarray(model.decide_many(np.repeat(x[:1], 500, axis=0))).tolist()))
    model = _new(peer.linear)
    arm, x, y, _ = rows(5000)
    model.fit(arm, x, y)
    _, x, _, mean = rows(n, seed=1)
    turns = []
    for _ in range(3):
        start = time.perf_counter()
        chosen = np.asarray(model.decide_many(x))
        turns.append(time.perf_counter() - start)
    check = _gain(mean[np.arange(n), chosen], mean)
    return {
        "seconds": statistics.median(turns),
        "rows": n,
        "own_draws": n_choices > 1,
        "choices_of_one_context": n_choices,
        **check,
    }


def history(peer: Peer) -> dict[str, Any]:
    """Time the learning of a history held in arrays, and how far memory rises above them."""
    model: Linear = _new(peer.linear)
    n = peer.history_rows
    arm, x, y, _ = rows(n)
    _reset_peak()
    before = _memory("VmRSS")
    start = time.perf_counter()
    model.fit(arm, x, y)
    seconds = time.perf_counter() - start
    peak = _memory("VmHWM")
    return {
        "seconds": seconds * 1_000_000 / n,
        "rows_timed": n,
        "peak_mb": None if before is None or peak is None else (peak - before) / 1024,
        "data_mb": (arm.nbytes + n * (N_FEATURES + 1) * 8) / 2**20,
        **_judged(model),
    }


def _reset_peak() -> None:
    """Give freed memory back and let Linux's high-water mark start from now."""
    path = Path("/proc/self/clear_refs")
    if path.exists():
        ctypes.CDLL(None).malloc_trim(0)
        path.write_text("5")


def _memory(key: str) -> float | None:
    """Return kilobytes from Linux's account of this process, or nothing elsewhere."""
    path = Path("/proc/self/status")
    if not path.exists():
        return None
    return float(path.read_text().split(f"{key}:")[1].split()[0])


def posterior(peer: Peer, path: str, settings: str) -> Any:
    """Fit the rows of an .npz file (arm, x, y) and return the library's posterior."""
    prior: dict[str, Any] = json.loads(settings)
    model = prior.pop("model")
    if model not in peer.posteriors:
        raise Missing(f"{peer.package} has no exact posterior of the model {model!r}")
    data = np.load(path)
    return peer.posteriors[model](data["arm"], data["x"], data["y"], prior)


def turns(peer: Peer, kind: str) -> None:
    """Answer each number n on a line with microseconds a decision over n, until the input ends."""
    if kind == "beta":
        flat: Beta = _new(peer.beta)
        rng = np.random.default_rng(0)
        for arm in rng.integers(0, N_ARMS, 2000).tolist():
            flat.update(arm, float(rng.random() < (0.8 if arm == 7 else 0.4)))
        # The peer must really learn: arm 7 pays twice as often as the others.
        picks = [flat.decide() for _ in range(500)]
        if max(set(picks), key=picks.count) != 7:
            sys.exit(f"{peer.package} does not learn here")
        go: Callable[[int], object] = lambda _: flat.decide()  # noqa: E731
    else:
        model, check = _trained(peer)
        if not check["learns"]:
            sys.exit(f"{peer.package} does not learn here")
        _, x, _, _ = rows(1000, seed=2)
        go = lambda i: model.decide(x[i % 1000])  # noqa: E731
    for line in sys.stdin:
        n = int(line)
        start = time.perf_counter()
        for i in range(n):
            go(i)
        print((time.perf_counter() - start) / n * 1e6, flush=True)


TASKS: dict[str, Callable[[Peer], dict[str, Any]]] = {
    "lints-decision": lints_decision,
    "beta-sim": beta_sim,
    "lints-sim": lints_sim,
    "lints-batch": lints_batch,
    "history": history,
}


def main(peer: Peer) -> None:
    """Run `TASK...`, `posterior ROWS.npz SETTINGS` or `turns beta|lints` from the command line."""
    warnings.simplefilter("ignore")
    names = sys.argv[1:] or list(TASKS)
    if names[0] == "turns":
        turns(peer, names[1])
        return
    answers: dict[str, Any] = {
        "peer": peer.package,
        "version": importlib.metadata.version(peer.package),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    for name in names[:1] if names[0] == "posterior" else names:
        try:
            if name == "posterior":
                answers[name] = posterior(peer, names[1], names[2])
            else:
                answers[name] = TASKS[name](peer)
            if name not in ("beta-sim", "posterior"):
                answers[name] |= {"model": peer.linear_name, "is_lints": peer.is_lints}
        except Missing as reason:
            answers[name] = None
            answers[f"{name}-reason"] = str(reason)
    print(json.dumps(answers, default=_plain))


def _plain(value: Any) -> Any:
    """Let arrays and NumPy's numbers into JSON, every digit kept."""
    return value.tolist()
