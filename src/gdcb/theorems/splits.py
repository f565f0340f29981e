"""Both splits of regret round by round, and a case in which they disagree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.analysis.regret import regret_splits
from gdcb.arrays import Array
from gdcb.bandits import (
    KLUCB,
    UCB1,
    Bandit,
    BetaThompson,
    CurveThompson,
    HierarchicalBetaThompson,
    LinearThompson,
    LogisticThompson,
    SharedLinearThompson,
)
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.simulate import Turn, World, simulate
from gdcb.theorems.shops import OffScaler, Shop, gates
from gdcb.theorems.verdict import Progress
from gdcb.theorems.worlds import instance_of

LIMIT = 1e-9  # how far the parts may miss the total

# A split's columns in a `Run`.
MAIN, ORDER = ("calibration", "bandit", "gate"), ("bandit", "calibration", "gate")


@dataclass(frozen=True)
class Settings:
    """Size of the experiments.

    Parameters
    ----------
    rounds, replicates : of the sums, for each learner and gate
    horizon, runs : rounds and replicates for rates of the bandit's part
    long : rounds with few arms, in which the logarithm shows
    n_sup : labels on which the scaler was fitted
    fits : fitted scalers for each n_sup
    nights : rounds behind a person, for the gate's part
    """

    rounds: int = 30
    replicates: int = 8
    horizon: int = 2500
    runs: int = 200
    long: int = 8000
    n_sup: tuple[int, ...] = (25, 50, 100, 200, 400, 800, 1600, 3200)
    fits: int = 300
    nights: int = 200


@dataclass(slots=True)
class Run:
    """One simulation's regret by round and replicate, mean over units: (T, R, 4) and (T, R, 3)."""

    main: Array
    paper: Array
    rest: float

    @property
    def total(self) -> Array:
        """Regret (T, R)."""
        return np.asarray(self.main[..., 0])


def play(
    instance: Instance,
    bandit: Bandit,
    world: World,
    rounds: int,
    replicates: int,
    seed: int,
    units: int = 1,
    also: Callable[[Turn], None] | None = None,
) -> Run:
    """Simulate and split every round both ways; `rest` is the most by which a row's parts miss."""
    main, paper = np.empty((rounds, replicates, 4)), np.empty((rounds, replicates, 3))
    rests: list[float] = []

    def watch(turn: Turn) -> None:
        ours, theirs = regret_splits(instance, world, turn)
        if theirs is None:
            raise InvalidInput("play: this world has no true_delta")
        columns = (ours.total, ours.calibration, ours.bandit, ours.gate)
        order = (theirs.bandit, theirs.calibration, theirs.gate)
        rests.append(float(np.abs(ours.total - sum(columns[1:])).max()))
        rests.append(float(np.abs(theirs.total - sum(order)).max()))
        for i, column in enumerate(columns):
            main[turn.t, :, i] = column.reshape(replicates, -1).mean(axis=1)
        for i, column in enumerate(order):
            paper[turn.t, :, i] = column.reshape(replicates, -1).mean(axis=1)
        if also is not None:
            also(turn)

    simulate(
        instance,
        bandit,
        world,
        rounds=rounds,
        replicates=replicates,
        units=units,
        seed=seed,
        watch=watch,
    )
    return Run(main, paper, max(rests))


def estimate(values: Array) -> dict[str, float]:
    """Return mean and 95 % interval over replicates."""
    half = 1.96 * values.std(ddof=1) / np.sqrt(values.size)
    mean = float(values.mean())
    return {"mean": mean, "low": mean - float(half), "high": mean + float(half)}


# Sums


def learners() -> dict[str, Bandit]:
    """Return the learners for which both splits are summed."""
    shared: dict[str, Any] = {"features": ("x1", "x2")}
    return {
        "Beta-Thompson": BetaThompson(),
        "HierTS": HierarchicalBetaThompson(),
        "UCB1": UCB1(),
        "KL-UCB": KLUCB(),
        "LinTS": LinearThompson(**shared),
        "shared LinTS": SharedLinearThompson(**shared),
        "logistic TS": LogisticThompson(**shared),
        "response curve": CurveThompson(prior_mean=(0.0, -1.0), prior_sd=(1.5, 1.0)),
    }


def sums(size: Settings, seed: int, say: Progress) -> dict[str, Any]:
    """Return by how much the parts miss the total, for every learner behind every gate."""
    world, rests, signs = Shop(), {}, []
    for gate, chain in gates(world).items():
        say(f"both splits, gate: {gate}")
        instance = instance_of(world, "labels", gate=chain, every=10)
        for name, bandit in learners().items():
            run = play(instance, bandit, world, size.rounds, size.replicates, seed, units=2)
            rests[f"{name}, {gate}"] = run.rest
            signs.append(float(run.main[..., 1:3].min()))
    return {
        "rest": max(rests.values()),
        "cases": len(rests),
        "rounds": size.rounds * size.replicates * 2 * len(rests),
        "by_case": rests,
        "least_part": min(signs),
    }


# Where the splits disagree


def disagreement(size: Settings, seed: int, say: Progress) -> dict[str, Any]:
    """Try both splits where the scaler is wrong in level, and where there is none.

    Wrong in level: δ̂ = 0.8·δ* with the arms 0.8, 1, 1.25, so the last one undoes the error and
    loses nothing. None: δ̂ = 1 with 13 arms, fine enough to reach the best price in most contexts,
    and a learner that does not read the context.
    """
    world = Shop()
    theta = tuple(float(value) for value in world.theta)
    off = instance_of(world, OffScaler(value=0.8, theta=theta), arms=(0.8, 1.0, 1.25))
    say("a scaler that is wrong in level")
    level = play(off, BetaThompson(), world, size.horizon, size.runs, seed)
    say("no scaler")
    none = instance_of(world, "none")
    plain = play(none, BetaThompson(), world, size.nights, size.runs, seed)
    return {
        "adapted": _adapted(world, off, size, seed),
        "wrong_level": _both(level),
        "no_scaler": _both(plain),
    }


def _both(run: Run) -> dict[str, Any]:
    """Return the parts of a run in both splits, and how fast the bandit's grow."""
    return {
        "rounds": run.main.shape[0],
        "regret": estimate(run.total.sum(axis=0)),
        "main": {n: estimate(run.main[..., i + 1].sum(axis=0)) for i, n in enumerate(MAIN)},
        "paper": {n: estimate(run.paper[..., i].sum(axis=0)) for i, n in enumerate(ORDER)},
        "growth_main": growth(run.main[..., 2]),
        "growth_paper": growth(run.paper[..., 0]),
    }


def _adapted(world: Shop, off: Instance, size: Settings, seed: int) -> dict[str, float]:
    """Return both splits, mean over contexts, where every row proposes the last arm."""
    found: dict[str, float] = {}

    def watch(turn: Turn) -> None:
        last = turn.decision.actions.shape[1] - 1
        turn.decision.arm = np.full(turn.rows.n, last)
        turn.executed.action = turn.decision.actions[:, last]
        ours, theirs = regret_splits(off, world, turn)
        if theirs is None:
            raise InvalidInput("this world has no true_delta")
        found["total"] = float(np.abs(ours.total).max())
        found["calibration"] = float(np.abs(ours.calibration).max())
        found["bandit"] = float(np.abs(ours.bandit).max())
        found["paper_bandit"] = float(theirs.bandit.mean())
        found["paper_calibration"] = float(theirs.calibration.mean())

    simulate(off, BetaThompson(), world, rounds=1, replicates=size.runs, seed=seed, watch=watch)
    return found


def growth(rates: Array) -> float:
    """Return the exponent b of T^b in the cumulated mean over replicates, from T/4 to T.

    >>> growth(np.ones((100, 1)))
    1.0
    """
    total = rates.mean(axis=1).cumsum()
    n = total.size
    return float(np.log(total[n - 1] / total[n // 4 - 1]) / np.log(n / (n // 4)))
