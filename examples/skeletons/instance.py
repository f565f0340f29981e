"""An instance to copy: how much to water a bed, simulated with exact regret.

Made: all of it. A bed needs 3 litres, and 3 more for every unit of dryness above its mean; a bed of
its own needs a little more or less. The reward is minus the squared distance from the need, with
noise; a sensor shows the need afterwards, with noise. Real: only the shape of the decision, a
nominal dose, an offset for the day, and a tank that sets limits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.bandits import CurveThompson
from gdcb.composition import Add
from gdcb.context import Number, Schema
from gdcb.gates import Bounds
from gdcb.instance import Instance, NullAction
from gdcb.instances import Domain
from gdcb.records import Rows
from gdcb.rewards import Scaled
from gdcb.scalers import RidgeScaler
from gdcb.streams import Stream

MEAN_DRYNESS = 0.5  # of the frozen reference: the offset is 0 there


# The world's state is a record of arrays with a leading unit axis, as a learner's is.
@dataclass(slots=True)
class Beds:
    """What each bed needs at mean dryness: (units,) litres."""

    need: Array


@dataclass(frozen=True)
class Garden:
    """The world: E[r | e, x] = −(e − need(x))².

    Parameters
    ----------
    noise : standard deviation of the reward
    """

    noise: float = 0.5

    def start(self, rng: Stream, group: Array) -> Beds:
        """Draw what each bed needs: N(3, 0.3²)."""
        return Beds(3.0 + 0.3 * rng.normal(group.size))

    # One row a unit. Whatever is random is drawn for every row, in one shape.
    def context(self, rng: Stream, state: Beds, t: int, group: Array) -> Rows:
        """Reveal today's dryness."""
        return Rows(np.arange(group.size), group, rng.uniform(group.size, 1))

    def _need(self, state: Beds, rows: Rows) -> Array:
        return np.asarray(state.need[rows.unit] + 3.0 * (rows.x[:, 0] - MEAN_DRYNESS))

    # Exact, for any action: regret is computed from this and not from samples. NaN columns mean
    # that nothing runs; here the null action is 0 litres, so that NaN never comes.
    def mean(self, state: Beds, e: Array, rows: Rows) -> Array:
        """Return μ(e, x) of actions (N, M, 1): (N, M)."""
        return np.asarray(-((e[..., 0] - self._need(state, rows)[:, None]) ** 2))

    def best(self, state: Beds, rows: Rows) -> Array:
        """Return e* = need(x): (N, 1)."""
        return self._need(state, rows)[:, None]

    def candidates(self, state: Beds, rows: Rows) -> Array:
        """Return a fine grid of doses for the gate floor: (N, M, 1)."""
        return np.tile(np.linspace(0.0, 8.0, 81)[:, None], (rows.n, 1, 1))

    def sample(self, rng: Stream, state: Beds, e: Array, rows: Rows) -> Array:
        """Draw rewards: (N, 1)."""
        mean = self.mean(state, e[:, None], rows)[:, 0]
        return (mean + self.noise * rng.normal(rows.n))[:, None]

    # The scaler's target is declared: here a sensor shows the offset that was needed.
    def label(self, rng: Stream, state: Beds, e: Array, rows: Rows) -> Array:
        """Return the offset as the sensor saw it: (N, 1)."""
        return (3.0 * (rows.x[:, 0] - MEAN_DRYNESS) + 0.2 * rng.normal(rows.n))[:, None]

    def advance(self, rng: Stream, state: Beds, e: Array, outcome: Array, rows: Rows) -> Beds:
        """Keep no memory: days do not depend on each other."""
        return state


def build() -> Domain:
    """Return the domain."""
    instance = Instance(
        name="garden",
        title="Watering beds",
        context=Schema({"dryness": Number(0, 1, "0: soaked, 1: dust")}),
        arms=ArmList(values=(1.0, 2.0, 3.0, 4.0, 5.0)),
        # Scale is not identified between arms and scaler: δ is 0 at the mean of the reference.
        scaler=RidgeScaler(
            features=("dryness",), link="identity", every=20, centre=(MEAN_DRYNESS,)
        ),
        composition=Add(names=("litres",)),
        gate=Bounds(low=0.0, high=6.0, name="tank"),
        reward=Scaled(outcome=("reward",)),
        # What runs when nothing is let through, and what that is worth.
        null=NullAction(action=(0.0,), mean=-9.0),
    )
    return Domain(
        instance,
        CurveThompson(link="identity", degree=2, prior_sd=5.0, noise=0.5),
        Garden(),
        units=2,
        unit="bed",
        is_endogenous=False,
        about=__doc__ or "",
    )
