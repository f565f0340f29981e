"""The whole simulation on a torch device, beside a bare loop of the same draws: JSON.

    PYTHONPATH=src python -m benchmarks.device --replicates 1000000 --rounds 200 --device cuda

It needs torch, NumPy and array-api-compat, and says how many rounds of how many replicates ran in
a second (episodes × replicates / s), the same for a bare loop in torch, whether the statistics
agree with NumPy's within Monte Carlo error, and whether any round made the host wait.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from gdcb import ArmList, BetaThompson, Identity, Instance, LinearThompson, Number, Payoff, Scaled
from gdcb.arrays import along, namespace
from gdcb.bandits import Bandit
from gdcb.context import Schema
from gdcb.posterior import NormalPosterior, form
from gdcb.records import Rows
from gdcb.simulate import Turn, simulate

N_ARMS, N_FEATURES = 25, 10
N_BLOCKS = 5  # of rounds, in which rewards and best arms are compared
ON_NUMPY = 20_000  # replicates


class Coins:
    """Every replicate has 25 chances of its own, uniform beforehand."""

    width = 1

    def start(self, rng: Any, group: Any) -> Any:
        """Draw the chances: (N, 25)."""
        return rng.uniform(group.shape[0], N_ARMS)

    def context(self, rng: Any, state: Any, t: int, group: Any) -> Rows:
        """Reveal nothing of use."""
        xp, n = namespace(group), group.shape[0]
        x = xp.zeros((n, self.width), dtype=xp.float64, device=group.device)
        return Rows(xp.arange(n, device=group.device), group, x)

    def values(self, state: Any, rows: Rows) -> Any:
        """Return E[r] of every arm: (N, 25)."""
        return state

    def sample(self, rng: Any, state: Any, e: Any, rows: Rows) -> Any:
        """Draw whether the arm won."""
        xp = namespace(e)
        p = along(state, xp.astype(e, xp.int64), axis=1)
        return xp.astype(rng.uniform(rows.n, 1) < p, xp.float64)

    def label(self, rng: Any, state: Any, e: Any, rows: Rows) -> None:
        """Teach no scaler."""

    def advance(self, rng: Any, state: Any, e: Any, outcome: Any, rows: Rows) -> Any:
        """Keep no memory."""
        return state


class Lines(Coins):
    """Every replicate has 25 lines in ten features; rewards have unit noise."""

    width = N_FEATURES

    def start(self, rng: Any, group: Any) -> Any:
        """Draw the weights: (N, 25, 11)."""
        return 0.3 * rng.normal(group.shape[0], N_ARMS, N_FEATURES + 1)

    def context(self, rng: Any, state: Any, t: int, group: Any) -> Rows:
        """Reveal ten standard normals."""
        xp, n = namespace(group), group.shape[0]
        return Rows(xp.arange(n, device=group.device), group, rng.normal(n, N_FEATURES))

    def values(self, state: Any, rows: Rows) -> Any:
        """Return E[r] of every arm: (N, 25)."""
        return state[:, :, 0] + (state[:, :, 1:] @ rows.x[:, :, None])[:, :, 0]

    def sample(self, rng: Any, state: Any, e: Any, rows: Rows) -> Any:
        """Draw a reward around the arm's line."""
        xp = namespace(e)
        arm = xp.astype(e, xp.int64)[:, :, None]
        weights = along(state, arm, axis=1)[:, 0]
        mean = weights[:, :1] + (weights[:, 1:] * rows.x).sum(axis=1)[:, None]
        return mean + rng.normal(rows.n, 1)


def task(kind: str) -> tuple[Instance, Bandit, Any]:
    """Return 25 bare categories behind an open gate, their learner and their world."""
    is_class = kind == "beta"
    width = 1 if is_class else N_FEATURES
    instance = Instance(
        context=Schema({f"x{i}": Number() for i in range(width)}),
        arms=ArmList(names=tuple(f"arm {i}" for i in range(N_ARMS))),
        composition=Identity(severity=False),
        gate=[],
        reward=Payoff() if is_class else Scaled(),
    )
    return (
        (instance, BetaThompson(), Coins()) if is_class else (instance, LinearThompson(), Lines())
    )


def seconds(run: Callable[[], object], device: str | None) -> float:
    """Return how long a run takes, the device's work included."""
    wait = importlib.import_module("torch").cuda.synchronize if _is_gpu(device) else lambda: None
    wait()
    start = time.perf_counter()
    run()
    wait()
    return time.perf_counter() - start


def _is_gpu(device: str | None) -> bool:
    return device is not None and device.startswith("cuda")


def rates(kind: str, replicates: int, rounds: int, device: str | None) -> dict[str, float]:
    """Time one round and all of them: the first has the start and the checks in it."""
    instance, bandit, world = task(kind)

    def run(n: int) -> object:
        return simulate(instance, bandit, world, rounds=n, replicates=replicates, device=device)

    simulate(instance, bandit, world, rounds=3, replicates=10, device=device)
    first = seconds(lambda: run(1), device)
    whole = seconds(lambda: run(rounds), device)
    return {
        "rate": replicates * (rounds - 1) / max(whole - first, 1e-9),
        "rate_with_start": replicates * rounds / whole,
        "seconds": whole,
    }


def bare(kind: str, replicates: int, rounds: int, device: str) -> float:
    """Return the rate of the same draws, updates and outcomes in a loop of torch alone."""
    torch: Any = importlib.import_module("torch")
    options = {"dtype": torch.float64, "device": device}
    row = torch.arange(replicates, device=device)

    def coins() -> None:
        counts = torch.ones((replicates, 2, N_ARMS), **options)
        chances = torch.rand((replicates, N_ARMS), **options)
        flat, start = counts.view(-1), row * (2 * N_ARMS)
        for _ in range(rounds):
            gammas = torch._standard_gamma(counts)
            arm = (gammas[:, 0] / (gammas[:, 0] + gammas[:, 1])).argmax(dim=1)
            chance = chances.gather(1, arm[:, None])[:, 0]
            won = (torch.rand(replicates, **options) < chance).to(torch.float64)
            flat.index_add_(0, start + arm, won)
            flat.index_add_(0, start + arm + N_ARMS, 1.0 - won)

    def lines() -> None:
        d = N_FEATURES + 1
        weights = 0.3 * torch.randn((replicates, N_ARMS, d), **options)
        posterior = NormalPosterior.prior((replicates, N_ARMS), np.zeros(d), np.ones(d), row)
        strength = torch.ones(replicates, **options)
        for _ in range(rounds):
            phi = torch.randn((replicates, d), **options)
            phi[:, 0] = 1.0
            mean = (posterior.mean @ phi[:, :, None])[:, :, 0]
            variance: Any = (posterior.covariance @ form(phi)[:, :, None])[:, :, 0]
            drawn = mean + variance.clamp(min=0.0).sqrt() * torch.randn_like(mean)
            arm = drawn.argmax(dim=1)
            mine = weights.gather(1, arm[:, None, None].expand(-1, 1, d))[:, 0]
            y = (mine * phi).sum(dim=1) + torch.randn(replicates, **options)
            posterior.observe(row * N_ARMS + arm, phi, y, strength)

    loop = coins if kind == "beta" else lines
    return replicates * rounds / seconds(loop, device)


class Blocks:
    """Watches a simulation: reward and share of best arms by block of rounds, over replicates."""

    def __init__(self, world: Coins, rounds: int) -> None:
        self._world, self._length = world, max(1, rounds // N_BLOCKS)
        self._sums: dict[tuple[int, str], Any] = {}

    def __call__(self, turn: Turn) -> None:
        """Add one round to its block."""
        xp = namespace(turn.reward)
        best = self._world.values(turn.world, turn.rows).argmax(axis=1)
        is_best = xp.astype(turn.decision.arm == best, xp.float64)
        for name, value in (("reward", turn.reward), ("best arm", is_best)):
            key = (turn.t // self._length, name)
            self._sums[key] = self._sums.get(key, 0.0) + value / self._length

    def moments(self) -> dict[str, tuple[float, float]]:
        """Return mean over replicates and its variance."""
        found = {}
        for (block, name), value in self._sums.items():
            spread = float(((value - value.mean()) ** 2).mean())
            found[f"{name}, block {block + 1}"] = (float(value.mean()), spread / value.shape[0])
        return found


def agreement(kind: str, replicates: int, rounds: int, device: str) -> dict[str, Any]:
    """Compare a run on the device with one on NumPy: z-scores of every block."""
    instance, bandit, world = task(kind)
    found = []
    for where, n in ((None, min(ON_NUMPY, replicates)), (device, replicates)):
        watch = Blocks(world, rounds)
        simulate(
            instance,
            bandit,
            world,
            rounds=rounds,
            replicates=n,
            seed=2 if where else 1,
            watch=watch,
            device=where,
        )
        found.append(watch.moments())
    rows = {}
    for name, (mean, variance) in found[0].items():
        other, noise = found[1][name]
        z = (other - mean) / max(variance + noise, 1e-300) ** 0.5
        rows[name] = {"numpy": mean, "device": other, "z": round(z, 2)}
    return {"largest |z|": max(abs(row["z"]) for row in rows.values()), "blocks": rows}


def waits(kind: str, device: str) -> int | None:
    """Count how often a round after the first made the host wait; None where no GPU can tell."""
    if not _is_gpu(device):
        return None
    torch: Any = importlib.import_module("torch")
    instance, bandit, world = task(kind)

    def watch(turn: Turn) -> None:
        torch.cuda.set_sync_debug_mode("warn" if 1 <= turn.t < 5 else "default")

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        simulate(instance, bandit, world, rounds=8, replicates=1000, watch=watch, device=device)
    return sum("called a synchronizing" in str(warning.message) for warning in said)


def measure(kind: str, replicates: int, rounds: int, device: str) -> dict[str, Any]:
    """Measure one learner."""
    torch: Any = importlib.import_module("torch")
    if _is_gpu(device):
        torch.cuda.reset_peak_memory_stats()
    bare(kind, 1000, 3, device)
    loop = bare(kind, replicates, rounds, device)
    whole = rates(kind, replicates, rounds, device)
    memory = torch.cuda.max_memory_allocated() / 2**30 if _is_gpu(device) else None
    on_numpy = rates(kind, 1000, min(rounds, 50), None)["rate"]
    return {
        "replicates": replicates,
        "rounds": rounds,
        **whole,
        "bare loop": loop,
        "share of the bare loop": whole["rate"] / loop,
        "NumPy, one core": on_numpy,
        "GiB at most": memory,
        "host waits in rounds": waits(kind, device),
        "agreement": agreement(kind, replicates, rounds, device),
    }


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description="One program, NumPy or a device.")
    parser.add_argument("--replicates", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", choices=("beta", "lints"), help="one learner instead of both")
    asked = parser.parse_args()
    torch: Any = importlib.import_module("torch")
    gpu = _is_gpu(asked.device)
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if gpu else platform.processor() or "processor",
        "torch": torch.__version__,
        "numpy": np.__version__,
        "unit": "episodes x replicates / s",
    }
    if asked.only != "lints":
        found["Beta-Thompson, 25 arms, open gate"] = measure(
            "beta", asked.replicates, asked.rounds, asked.device
        )
    if asked.only != "beta":
        found["LinTS, 25 arms, 10 features"] = measure(
            "lints", max(1, asked.replicates // 10), max(2, asked.rounds // 4), asked.device
        )
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
