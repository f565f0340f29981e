"""Meal-time insulin (instance 2): dose = level + δ(x), a physician and hard limits decide.

Made: a patient needs n = level + δ*(x) units at a meal, δ* linear in glucose, trend, meal, insulin
on board and weight. With q = (dose − n) / width the reward is time in range 1 − q² less
hypoglycaemia ¼·(1 + q)², plus noise: exactly quadratic in dose − δ*(x), best at q = −1/5, so that
the fear of a low keeps the best dose below the need. A negative dose is no dose. Glucose and
insulin on board at the next meal follow from the dose that was given. After every meal the chart
review shows a noisy label of δ*. Real: the shape of a bolus calculator (carbohydrate, correction,
insulin on board), no bolus below 70 mg/dL, a limit on insulin on board.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.bandits import CurveThompson
from gdcb.composition import Add
from gdcb.context import Number, Schema
from gdcb.gates import Approval, Bounds, Chain, NumberKernel, PolicyFilter, SimulatedPerson
from gdcb.instance import Instance, NullAction
from gdcb.instances.catalogue import Domain
from gdcb.records import Rows
from gdcb.rewards import Scaled
from gdcb.scalers import RidgeScaler
from gdcb.streams import Stream

GLUCOSE, TREND, MEAL, IOB, WEIGHT, HEADROOM = range(6)
THETA = np.array([1 / 30, 0.8, 0.08, -0.8, 0.04])  # units a mg/dL, mg/dL/min, g, unit, kg
CENTRE = (145.0, 0.0, 60.0, 2.25, 75.0)  # means of the five features, the frozen reference
FEAR = 0.25  # weight of hypoglycaemia
MAX_BOLUS, MAX_IOB = 12.0, 14.0
GLUCOSE_RANGE = (45.0, 350.0)


@dataclass(slots=True)
class Patients:
    """What every patient needs and how wide their range is; glucose and insulin on board now."""

    level: Array
    width: Array
    weight: Array
    glucose: Array
    iob: Array


def true_delta(x: Array) -> Array:
    """Return δ*(x): (N,)."""
    return np.asarray(((x[:, : WEIGHT + 1] - CENTRE) * THETA).sum(axis=1))


def _given(e: Array) -> Array:
    """Return the units that flow: none where nothing runs, none where the dose is negative."""
    return np.nan_to_num(np.maximum(e[..., 0], 0.0))


@dataclass(frozen=True)
class Ward:
    """The world: a quadratic response around each patient's need, and glucose with memory."""

    noise: float = 0.4
    label_noise: float = 1.0
    effect: float = 22.0  # mg/dL that a unit too few leaves at the next meal

    def start(self, rng: Stream, group: Array) -> Patients:
        """Draw a level of N(6, 1.2²) units, a width of 3.5 to 4.5 and a weight of 55 to 95 kg."""
        z, u = rng.normal(group.size, 2), rng.uniform(group.size, 2)
        return Patients(
            6.0 + 1.2 * z[:, 0],
            3.5 + u[:, 0],
            55.0 + 40.0 * u[:, 1],
            np.clip(140.0 + 30.0 * z[:, 1], *GLUCOSE_RANGE),
            np.full(group.size, 2.5),
        )

    def context(self, rng: Stream, state: Patients, t: int, group: Array) -> Rows:
        """Reveal a meal: glucose, its trend, carbohydrate, insulin on board, weight, headroom."""
        n = group.size
        u = rng.uniform(n, 2)
        x = np.empty((n, 6))
        x[:, GLUCOSE] = state.glucose
        x[:, TREND] = 3.0 * u[:, 0] - 1.5
        x[:, MEAL] = 20.0 + 80.0 * u[:, 1]
        x[:, IOB] = state.iob
        x[:, WEIGHT] = state.weight
        x[:, HEADROOM] = np.maximum(MAX_IOB - state.iob, 0.0)
        return Rows(np.arange(n), group, x)

    def _need(self, state: Patients, rows: Rows) -> Array:
        return np.asarray(state.level[rows.unit] + true_delta(rows.x))

    def mean(self, state: Patients, e: Array, rows: Rows) -> Array:
        """Return 1 − q² − ¼·(1 + q)²; nothing run is a dose of 0."""
        q = (_given(e) - self._need(state, rows)[:, None]) / state.width[rows.unit, None]
        return np.asarray(1.0 - q**2 - FEAR * (1.0 + q) ** 2)

    def best(self, state: Patients, rows: Rows) -> Array:
        """Return the best dose: q* = −¼ / (1 + ¼), and never below 0."""
        dose = self._need(state, rows) - FEAR / (1.0 + FEAR) * state.width[rows.unit]
        return np.maximum(dose, 0.0)[:, None]

    def candidates(self, state: Patients, rows: Rows) -> Array:
        """Return a fine grid of doses: (N, 121, 1)."""
        return np.tile(np.linspace(0.0, MAX_BOLUS, 121)[:, None], (rows.n, 1, 1))

    def sample(self, rng: Stream, state: Patients, e: Array, rows: Rows) -> Array:
        """Draw the reward around its mean."""
        noise = self.noise * rng.normal(rows.n)
        return (self.mean(state, e[:, None], rows)[:, 0] + noise)[:, None]

    def label(self, rng: Stream, state: Patients, e: Array, rows: Rows) -> Array:
        """Return the therapeutic offset δ* as the chart review shows it, with noise."""
        return (true_delta(rows.x) + self.label_noise * rng.normal(rows.n))[:, None]

    def advance(
        self, rng: Stream, state: Patients, e: Array, outcome: Array, rows: Rows
    ) -> Patients:
        """Carry glucose and insulin on board to the next meal."""
        dose = _given(e)
        missing = self._need(state, rows) - dose
        glucose = 120.0 + self.effect * missing + 25.0 * rng.normal(rows.n)
        return replace(
            state,
            glucose=np.clip(glucose, *GLUCOSE_RANGE),
            iob=0.3 * (state.iob + dose),
        )


def _own_dose(rows: Rows) -> Array:
    """Return the physician's own dose: right in direction, timid, blind to the patient."""
    x = rows.x
    dose = 5.0 + 0.07 * (x[:, MEAL] - CENTRE[MEAL]) + 0.02 * (x[:, GLUCOSE] - CENTRE[GLUCOSE])
    return np.maximum(dose, 0.0)[:, None]


def _approve(e: Array, rows: Rows) -> Array:
    """Approve what lies near the own dose: 0.97·exp(−½·(gap / 3 units)²)."""
    gap = (e[..., 0] - _own_dose(rows)) / 3.0
    return np.asarray(0.97 * np.exp(-0.5 * gap**2))


def build() -> Domain:
    """Return the domain."""
    instance = Instance(
        name="dosing",
        title="Meal-time insulin dosing",
        context=Schema(
            {
                "glucose": Number(20, 600, "glucose before the meal, mg/dL"),
                "trend": Number(-10, 10, "its trend, mg/dL a minute"),
                "meal": Number(0, 300, "carbohydrate, g"),
                "iob": Number(0, 50, "insulin on board, units"),
                "weight": Number(2, 300, "body weight, kg"),
                "headroom": Number(0, 50, "units until the limit on insulin on board"),
            }
        ),
        arms=ArmList(values=(1.0, 2.5, 4.0, 5.5, 7.0, 8.5)),
        scaler=RidgeScaler(
            features=("glucose", "trend", "meal", "iob", "weight"),
            link="identity",
            penalty=1.0,
            every=40,
            centre=CENTRE,
        ),
        composition=Add(names=("dose",)),
        gate=Chain(
            (
                Approval(
                    SimulatedPerson(_approve, _own_dose, spread=1.0, veto=0.1),
                    NumberKernel(features=("glucose", "meal")),
                    name="physician",
                ),
                PolicyFilter(require="glucose", at_least=70.0, name="no bolus in a low"),
                Bounds(low=0.0, high=MAX_BOLUS, high_column="headroom", name="dose limits"),
            )
        ),
        reward=Scaled(outcome=("benefit",)),
        null=NullAction(action=(0.0,), mean=-0.8, teaches=True),
    )
    return Domain(
        instance,
        CurveThompson(
            link="identity",
            degree=2,
            prior_mean=(0.5, 0.0, -1.0),
            prior_sd=(1.0, 1.0, 0.7),
            noise=0.4,
        ),
        Ward(),
        units=4,
        unit="patient",
        is_endogenous=True,
        about=__doc__ or "",
    )
