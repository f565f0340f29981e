"""Worlds without a scaler or a gate, so that the learner alone is timed: 25 arms."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers.tasks import N_ARMS, N_FEATURES, NOISE
from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.composition import Identity
from gdcb.context import Number, Schema
from gdcb.instance import Instance
from gdcb.records import Rows
from gdcb.rewards import Payoff, Scaled
from gdcb.streams import Stream

ARMS = ArmList(names=tuple(f"arm {i}" for i in range(N_ARMS)))


def coins() -> Instance:
    """Return 25 arms that win or lose; the context is empty but for a constant."""
    return Instance(
        context=Schema({"one": Number(0, 1)}),
        arms=ARMS,
        composition=Identity(severity=False),
        gate=[],
        reward=Payoff(outcome=("won",)),
    )


def lines() -> Instance:
    """Return 25 arms whose rewards are linear in ten features."""
    return Instance(
        context=Schema({f"x{i}": Number(-20, 20) for i in range(N_FEATURES)}),
        arms=ARMS,
        composition=Identity(severity=False),
        gate=[],
        reward=Scaled(),
    )


class _Plain:
    """What both worlds have in common: no labels, no memory, arms as actions."""

    def best(self, state: Any, rows: Rows) -> Array:
        arm = self.mean(state, self.candidates(state, rows), rows).argmax(axis=1)
        return np.asarray(arm[:, None], dtype=float)

    def candidates(self, state: Any, rows: Rows) -> Array:
        every = np.arange(N_ARMS, dtype=float)[None, :, None]
        return np.broadcast_to(every, (rows.n, N_ARMS, 1))

    def label(self, rng: Stream, state: Any, e: Array, rows: Rows) -> None:
        return None

    def advance(self, rng: Stream, state: Any, e: Array, outcome: Array, rows: Rows) -> Any:
        return state

    def mean(self, state: Any, e: Array, rows: Rows) -> Array:
        raise NotImplementedError


class Coins(_Plain):
    """Arm 7 wins with 0.8, the others with 0.4: what the peers are given."""

    def start(self, rng: Stream, group: Array) -> Array:
        return np.where(np.arange(N_ARMS) == 7, 0.8, 0.4)

    def context(self, rng: Stream, state: Any, t: int, group: Array) -> Rows:
        return Rows(np.arange(group.size), group, np.ones((group.size, 1)))

    def mean(self, state: Any, e: Array, rows: Rows) -> Array:
        return np.asarray(state[e[..., 0].astype(np.int64)])

    def sample(self, rng: Stream, state: Any, e: Array, rows: Rows) -> Array:
        p = state.take(e[:, 0].astype(np.int64))
        return np.asarray((rng.uniform(rows.n) < p)[:, None], dtype=float)


class Lines(_Plain):
    """The peers' linear rewards: normal features, weights fixed, noise 0.1."""

    def start(self, rng: Stream, group: Array) -> Array:
        theta = np.random.default_rng(7).normal(size=(N_ARMS, N_FEATURES))
        return np.asarray(theta / np.sqrt(N_FEATURES))

    def context(self, rng: Stream, state: Any, t: int, group: Array) -> Rows:
        return Rows(np.arange(group.size), group, rng.normal(group.size, N_FEATURES))

    def mean(self, state: Any, e: Array, rows: Rows) -> Array:
        return np.asarray((state[e[..., 0].astype(np.int64)] * rows.x[:, None]).sum(axis=-1))

    def sample(self, rng: Stream, state: Any, e: Array, rows: Rows) -> Array:
        mean = (state.take(e[:, 0].astype(np.int64), axis=0) * rows.x).sum(axis=1)
        return np.asarray((mean + NOISE * rng.normal(rows.n))[:, None])
