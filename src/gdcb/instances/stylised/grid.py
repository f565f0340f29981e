"""Demand response (instance 4): shed = size + δ(x), the limits of the network decide.

Made: a feeder should shed n = level + δ*(x) MW in an hour, δ* linear in load, temperature and the
hour. The reward is s(x) · v + noise, s the size of the network behind the feeder and
v = stability 1 − ((e − n) / width)² less an interruption cost of 0.02 a MW. Feeders of a group
share a level and differ around it. A negative shed is no shed. Line temperature and tired customers
carry over: the line's heat sets the least shed, what was shed before lowers the most; where the
least is above the most nothing feasible is left, no shed is called, and reserve is bought at a
flat price (reward −0.5 plus noise). Every hour a settlement shows a noisy label of δ*. Real: the
shape of the decision, and that physics and not a person projects it. The limits are a caricature of
a power flow, linear in heat and load.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.bandits import HierarchicalThompson
from gdcb.composition import Add
from gdcb.context import Number, Schema
from gdcb.gates import Bounds, Chain
from gdcb.instance import Instance, NullAction
from gdcb.instances.catalogue import Domain
from gdcb.records import Rows
from gdcb.rewards import Scaled
from gdcb.scalers import RidgeScaler
from gdcb.streams import Stream

LOAD, TEMPERATURE, SINE, COSINE, SIZE, LOW, HIGH = range(7)
THETA = np.array([0.08, 0.12, 0.8, -0.5])  # MW a MW of load, °C, sine and cosine of the hour
CENTRE = (40.0, 25.0, 0.0, 0.0)  # means of the four features, the frozen reference
COST = 0.02  # interruption cost a MW
RESERVE = -0.5  # expected reward where nothing feasible is left


@dataclass(slots=True)
class Feeders:
    """What every feeder should shed, and the state of its line and customers.

    `heat` is the line's temperature (°C), `tired` the smoothed shed of the last hours (MW).
    """

    level: Array
    width: Array
    size: Array
    heat: Array
    tired: Array


def true_delta(x: Array) -> Array:
    """Return δ*(x): (N,)."""
    return np.asarray(((x[:, : COSINE + 1] - CENTRE) * THETA).sum(axis=1))


@dataclass(frozen=True)
class Network:
    """The world: a quadratic response around each feeder's need, and limits with memory."""

    noise: float = 0.5
    label_noise: float = 1.0

    def start(self, rng: Stream, group: Array) -> Feeders:
        """Draw a level of N(6, 1.5²) MW a group and N(0, 0.7²) a feeder around it.

        Width is 3.5 to 4.5 MW and size 0.6 to 1.6 a feeder.
        """
        z, u = rng.normal(group.size, 2), rng.uniform(group.size, 2)
        shared = z[np.searchsorted(group, group), 0]  # the first feeder's draw serves its group
        return Feeders(
            6.0 + 1.5 * shared + 0.7 * z[:, 1],
            3.5 + u[:, 0],
            0.6 + u[:, 1],
            np.full(group.size, 55.0),
            np.full(group.size, 5.0),
        )

    def context(self, rng: Stream, state: Feeders, t: int, group: Array) -> Rows:
        """Reveal an hour: load, temperature, hour, size, and the feasible range of sheds."""
        n = group.size
        u, z = rng.uniform(n), rng.normal(n)
        angle = 2.0 * np.pi * (t % 24) / 24.0
        sine, cosine = np.sin(angle), np.cos(angle)
        x = np.empty((n, 7))
        x[:, LOAD] = np.clip(40.0 - 5.0 * cosine + 7.0 * z, 15.0, 65.0)
        x[:, TEMPERATURE] = 25.0 + 14.0 * (u - 0.5) - 4.0 * sine
        x[:, SINE], x[:, COSINE] = sine, cosine
        x[:, SIZE] = state.size
        x[:, LOW] = np.maximum(0.4 * (state.heat - 53.0), 0.0)
        x[:, HIGH] = np.maximum(0.32 * x[:, LOAD] - 0.8 * state.tired, 0.0)
        return Rows(np.arange(n), group, x)

    def _need(self, state: Feeders, rows: Rows) -> Array:
        return np.asarray(state.level[rows.unit] + true_delta(rows.x))

    def mean(self, state: Feeders, e: Array, rows: Rows) -> Array:
        """Return s(x) · (stability − interruption cost); reserve where nothing runs."""
        u = rows.unit
        shed = np.maximum(e[..., 0], 0.0)
        gap = (shed - self._need(state, rows)[:, None]) / state.width[u, None]
        value = rows.x[:, SIZE, None] * (1.0 - gap**2 - COST * shed)
        return np.where(np.isnan(shed), RESERVE, value)

    def best(self, state: Feeders, rows: Rows) -> Array:
        """Return the best shed: need − cost · width² / 2, and never below 0."""
        shed = self._need(state, rows) - COST * state.width[rows.unit] ** 2 / 2.0
        return np.maximum(shed, 0.0)[:, None]

    def candidates(self, state: Feeders, rows: Rows) -> Array:
        """Return a fine grid of sheds: (N, 161, 1)."""
        return np.tile(np.linspace(0.0, 16.0, 161)[:, None], (rows.n, 1, 1))

    def sample(self, rng: Stream, state: Feeders, e: Array, rows: Rows) -> Array:
        """Draw the reward around its mean."""
        noise = self.noise * rng.normal(rows.n)
        return (self.mean(state, e[:, None], rows)[:, 0] + noise)[:, None]

    def label(self, rng: Stream, state: Feeders, e: Array, rows: Rows) -> Array:
        """Return the offset δ* as the settlement shows it, with noise."""
        return (true_delta(rows.x) + self.label_noise * rng.normal(rows.n))[:, None]

    def advance(self, rng: Stream, state: Feeders, e: Array, outcome: Array, rows: Rows) -> Feeders:
        """Heat the line by what still flows, and tire the customers by what was shed."""
        shed = np.nan_to_num(np.maximum(e[:, 0], 0.0))
        flow = rows.x[:, LOAD] - shed
        steady = rows.x[:, TEMPERATURE] + 0.024 * flow**2
        heat = 0.6 * state.heat + 0.4 * steady + 2.0 * rng.normal(rows.n)
        return replace(state, heat=heat, tired=0.6 * state.tired + 0.4 * shed)


def build() -> Domain:
    """Return the domain."""
    instance = Instance(
        name="grid",
        title="Demand response on a distribution grid",
        context=Schema(
            {
                "load": Number(0, 200, "load of the feeder, MW"),
                "temperature": Number(-50, 60, "outside, °C"),
                "sine": Number(-1, 1, "sine of the hour's angle"),
                "cosine": Number(-1, 1, "cosine of the hour's angle"),
                "size": Number(0.01, 100, "size of the network, the reward's scale"),
                "low_shed": Number(0, 200, "least shed that the line bears, MW"),
                "high_shed": Number(0, 200, "most that customers can shed, MW"),
            }
        ),
        arms=ArmList(values=(2.0, 4.0, 6.0, 8.0, 10.0)),
        scaler=RidgeScaler(
            features=("load", "temperature", "sine", "cosine"),
            link="identity",
            penalty=1.0,
            every=30,
            centre=CENTRE,
        ),
        composition=Add(names=("shed",)),
        gate=Chain((Bounds(low_column="low_shed", high_column="high_shed", name="power flow"),)),
        reward=Scaled(outcome=("net_stability",), scale="size"),
        null=NullAction(mean=RESERVE),
    )
    return Domain(
        instance,
        HierarchicalThompson(prior_mean=0.4, sd=0.6, between=0.3, noise=0.5),
        Network(),
        units=3,
        unit="feeder",
        is_endogenous=True,
        about=__doc__ or "",
    )
