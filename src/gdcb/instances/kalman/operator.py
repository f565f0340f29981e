"""The operator who approves gains, and the incumbent who proposed them before."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gdcb.arrays import Array
from gdcb.gates import SimulatedPerson
from gdcb.instances.kalman.columns import Columns
from gdcb.instances.kalman.plants import SETTLE, Plant
from gdcb.records import Rows
from gdcb.streams import Stream

STEADY = (0.55, 0.2)  # the gain that an operator has in mind for a track that has settled
AT_LEAST, AT_MOST, WIDTH = 0.6, 0.95, 0.05  # approval far from their own gain, at it, and between
SPREAD, VETO = 0.03, 0.15
HABIT = 0.15  # share of steps in which the incumbent takes whatever mode is next on the list


@dataclass(frozen=True)
class Operator:
    """Approves more readily what lies near a gain of their own."""

    plant: Plant

    @cached_property
    def columns(self) -> Columns:
        """Where everything stands in a row."""
        return Columns(self.plant)

    def own(self, rows: Rows) -> Array:
        """Return the operator's own gain (N, 2): by rule of thumb, half way from the last one.

        The rule of a young track is that of growing memory, 2(2n − 1)/(n(n + 1)) and 6/(n(n + 1))
        for its n-th measurement, the cue counting as two.
        """
        age = rows.x[:, self.columns.at("age")]
        n = age + 3.0
        rule = np.stack((2.0 * (2.0 * n - 1.0), np.full(n.size, 6.0)), axis=1)
        rule = np.maximum(rule / (n * (n + 1.0))[:, None], STEADY)
        last = rows.x[:, self.columns.gain]
        return np.where(age[:, None] == 0.0, rule, 0.5 * (rule + last))

    def approve(self, e: Array, rows: Rows) -> Array:
        """Return the probability of approval (N, M)."""
        gap = ((e - self.own(rows)[:, None]) ** 2).sum(axis=-1)
        return np.asarray(AT_LEAST + (AT_MOST - AT_LEAST) * np.exp(-gap / WIDTH))

    @property
    def person(self) -> SimulatedPerson:
        """The person, for simulation."""
        return SimulatedPerson(self.approve, self.own, spread=SPREAD, veto=VETO)

    def incumbent(self, rng: Stream, state: object, rows: Rows) -> Array:
        """Return the nominal gain of the likeliest mode, or out of habit of any: (N, 2).

        Covariances are the plant's defaults (Q₀, R₀) throughout.
        """
        u = rng.uniform(rows.n, 2)
        likely = rows.x[:, [self.columns.at(name) for name in self.columns.likely]]
        any_mode = (u[:, 1] * self.plant.n_modes).astype(np.int64)
        mode = np.where(u[:, 0] < HABIT, any_mode, likely.argmax(axis=1))
        age = np.minimum(rows.x[:, self.columns.at("age")], SETTLE).astype(np.int64)
        return np.asarray(self.plant.gains[mode, age])
