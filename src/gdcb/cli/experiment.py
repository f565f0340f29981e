"""A short run of a stylised world: the recommended learner, and the same without its scaler."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.analysis import Ledger
from gdcb.arrays import Array
from gdcb.instance import Instance
from gdcb.instances import Domain
from gdcb.scalers import ConstantScaler
from gdcb.simulate import Turn, simulate

LABELS = {"B4": "GDCB", "A1": "no scaler"}


@dataclass(frozen=True)
class Result:
    """Ledgers of every method on the same worlds and random numbers."""

    name: str
    domain: Domain
    episodes: int
    replicates: int
    seed: int
    ledgers: dict[str, Ledger]

    def document(self) -> dict[str, Any]:
        """Return the result as the JSON that scripts read."""
        floor = self.ledgers["B4"].floor
        return {
            "instance": self.name,
            "variant": "stylised",
            "episodes": self.episodes,
            "replicates": self.replicates,
            "seed": self.seed,
            "floor": None if floor is None else estimate(floor.sum(axis=0)),
            "floor_curve": None
            if floor is None
            else [estimate(row) for row in floor.cumsum(axis=0)],
            "methods": {key: self._method(key, ledger) for key, ledger in self.ledgers.items()},
        }

    def _method(self, key: str, ledger: Ledger) -> dict[str, Any]:
        total = ledger.parts[..., 0]
        floor = self.ledgers["B4"].floor
        names = ("calibration", "bandit", "gate")
        return {
            "label": LABELS[key],
            "regret": estimate(total.sum(axis=0)),
            "excess": None if floor is None else estimate((total - floor).sum(axis=0)),
            "vs_B4": None
            if key == "B4"
            else estimate((total - self.ledgers["B4"].parts[..., 0]).sum(axis=0)),
            "regret_curve": [estimate(row) for row in total.cumsum(axis=0)],
            "parts": {
                name: estimate(ledger.parts[..., i + 1].sum(axis=0)) for i, name in enumerate(names)
            },
            "reward": estimate(ledger.reward.sum(axis=0)),
            "override_rate_curve": [estimate(row) for row in ledger.overridden],
        }


def estimate(values: Array) -> dict[str, float | None]:
    """Return mean and 95 % interval (Student's t) over replicates."""
    from scipy.stats import t

    n = values.size
    mean = float(values.mean())
    if n < 2:
        return {"mean": mean, "low": None, "high": None}
    half = float(t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n))
    return {"mean": mean, "low": mean - half, "high": mean + half}


def in_words(value: dict[str, Any]) -> str:
    """Write an estimate as 'mean ± half its 95 % interval'."""
    mean, high = value["mean"], value["high"]
    if high is None:
        return f"{mean:,.4g}"
    half = high - mean
    digits = 0 if half == 0 else max(0, 1 - int(np.floor(np.log10(half))))
    return f"{mean:,.{digits}f} ± {half:,.{digits}f}"


def without_scaler(instance: Instance) -> Instance:
    """Return the instance with δ held at its neutral value."""
    scaler = instance.scaler
    neutral = float(
        np.ravel(scaler.predict(scaler.init(1), np.zeros(1, dtype=np.int64), _zeros(instance)))[0]
    )
    constant = ConstantScaler(neutral, scaler.per, scaler.n_arms, scaler.n_columns)
    return dataclasses.replace(instance, scaler=constant, gate=instance.chain)


def _zeros(instance: Instance) -> Array:
    return np.zeros((1, instance.context.width))


def run_domain(
    name: str,
    domain: Domain,
    episodes: int,
    replicates: int,
    seed: int,
    progress: Callable[[str], None],
) -> Result:
    """Run every method on the same worlds; `progress` hears of each finished episode."""
    ledgers = {}
    for key in LABELS:
        instance = domain.instance if key == "B4" else without_scaler(domain.instance)
        with_floor = key == "B4" and not domain.is_endogenous
        ledger = Ledger(instance, domain.world, episodes, replicates, with_floor)

        def watch(turn: Turn, ledger: Ledger = ledger, key: str = key) -> None:
            ledger(turn)
            progress(LABELS[key])

        simulate(
            instance,
            domain.bandit,
            domain.world,
            rounds=episodes,
            replicates=replicates,
            units=domain.units,
            seed=seed,
            watch=watch,
        )
        ledgers[key] = ledger
    return Result(name, domain, episodes, replicates, seed, ledgers)
