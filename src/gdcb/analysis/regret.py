"""Regret in three parts, exact in a simulation: calibration, bandit, gate; and the gate floor.

With e* the unrestricted optimum and (Kμ)(e) the expected μ behind the gate:

- calibration = μ(e*) − max_a μ(Φ(a, δ̂)): what no arm could have reached, ≥ 0;
- bandit = max_a (Kμ)(Φ(a, δ̂)) − (Kμ)(e_rec): what another arm would have been worth, ≥ 0;
- gate = [max_a μ(Φ(a, δ̂)) − max_a (Kμ)(Φ(a, δ̂))] + [(Kμ)(e_rec) − μ(e_exec)]: signed, a good
  person makes it negative.

They sum to μ(e*) − μ(e_exec). An arm is judged by what it is worth behind the gate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.arrays import Array, all_finite, along, namespace, put_where, surely_all
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.records import Rows, to_host
from gdcb.simulate import Turn, World


@dataclass(slots=True)
class RegretParts:
    """Regret of every row (N,): total and its parts, computed apart."""

    total: Array
    calibration: Array
    bandit: Array
    gate: Array


@dataclass(slots=True)
class TrueMean:
    """μ as a value function for gates: what does not run is worth what the null action is."""

    instance: Instance
    world: World
    state: Any
    rows: Rows

    def take(self, index: Array) -> TrueMean:
        """Return μ for some rows."""
        return TrueMean(self.instance, self.world, self.state, self.rows.take(index))

    def __call__(self, e: Array) -> Array:
        """Return μ(e, x) (N, M), the null action in place of NaN."""
        runs = all_finite(e)
        if not surely_all(runs):
            null = self.instance.null.of(self.rows.x, e.shape[-1])
            e = namespace(e).where(runs[..., None], e, null[:, None])
        mean = self.world.mean(self.state, e, self.rows)
        if mean.shape != e.shape[:2]:
            raise InvalidInput(f"world.mean: expected shape {e.shape[:2]}, got {mean.shape}")
        return mean


def regret_parts(instance: Instance, world: World, turn: Turn) -> RegretParts:
    """Split one round's regret."""
    rows, decision = turn.rows, turn.decision
    mean, xp = TrueMean(instance, world, turn.world, rows), namespace(rows.x)
    free = mean(decision.actions)
    gated = instance.chain.expect(mean, decision.actions, rows)
    chosen = along(gated, decision.arm[:, None], axis=1)[:, 0]
    if rows.mask is not None:
        free, gated = (put_where(value, ~rows.mask, -np.inf) for value in (free, gated))
    best_free, best_gated = xp.max(free, axis=1), xp.max(gated, axis=1)
    best = mean(world.best(turn.world, rows)[:, None])[:, 0]
    ran = mean(turn.executed.action[:, None])[:, 0]
    return RegretParts(
        best - ran, best - best_free, best_gated - chosen, best_free - best_gated + chosen - ran
    )


def gate_floor(instance: Instance, world: World, turn: Turn) -> Array:
    """Return what even the best proposal would lose behind the same gate: (N,).

    Proposals are the world's candidates and the optimum e*; it never uses a method's own δ.
    """
    mean = TrueMean(instance, world, turn.world, turn.rows)
    best = world.best(turn.world, turn.rows)[:, None]
    candidates = world.candidates(turn.world, turn.rows)
    xp = namespace(best)
    gated = instance.chain.expect(mean, xp.concat((candidates, best), axis=1), turn.rows)
    floor: Array = mean(best)[:, 0] - xp.max(gated, axis=1)
    return floor


class Ledger:
    """Watches a simulation and keeps its regret, round by replicate, averaged over units.

    It keeps it in NumPy's arrays; a device is waited for in every round.

    Attributes
    ----------
    parts : (rounds, replicates, 4): total, calibration, bandit, gate
    reward : (rounds, replicates)
    overridden : (rounds, replicates) share of rows in which e_exec ≠ e_rec, vetoes included
    vetoed : (rounds, replicates) share of rows in which the null action ran
    floor : (rounds, replicates) the gate floor, where asked for
    """

    def __init__(
        self,
        instance: Instance,
        world: World,
        rounds: int,
        replicates: int,
        with_floor: bool = False,
    ) -> None:
        self._instance, self._world = instance, world
        self.floor = np.zeros((rounds, replicates)) if with_floor else None
        self.parts = np.zeros((rounds, replicates, 4))
        self.reward = np.zeros((rounds, replicates))
        self.overridden = np.zeros((rounds, replicates))
        self.vetoed = np.zeros((rounds, replicates))

    def __call__(self, turn: Turn) -> None:
        """Write one round down."""
        rounds, replicates = self.parts.shape[:2]
        found = int(turn.rows.group.max()) + 1
        if turn.t >= rounds or found != replicates:
            raise InvalidInput(
                f"ledger: made for {rounds} rounds of {replicates} replicates, got round {turn.t} "
                f"of {found}"
            )
        parts = regret_parts(self._instance, self._world, turn)
        columns = (parts.total, parts.calibration, parts.bandit, parts.gate)

        def by_replicate(column: Array) -> Array:
            return np.asarray(to_host(column).reshape(replicates, -1).mean(axis=1))

        self.parts[turn.t] = np.stack([by_replicate(column) for column in columns], axis=1)
        self.reward[turn.t] = by_replicate(turn.reward)
        self.overridden[turn.t] = by_replicate(~turn.executed.is_own)
        self.vetoed[turn.t] = by_replicate(turn.executed.is_null)
        if self.floor is not None:
            self.floor[turn.t] = by_replicate(gate_floor(self._instance, self._world, turn))
