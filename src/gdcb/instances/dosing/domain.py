"""The instance, and how the protocol runs it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.composition import Add
from gdcb.gates import Approval, Chain, NumberKernel, PolicyFilter
from gdcb.instance import Instance, NullAction
from gdcb.instances.applicable import inapplicable, labels
from gdcb.instances.catalogue import Domain, Measure, Study, Tuning, readme
from gdcb.instances.dosing import learners, physician
from gdcb.instances.dosing.columns import FEATURES, SCHEMA, SHOWN
from gdcb.instances.dosing.limits import BolusLimits
from gdcb.instances.dosing.words import ABOUT, KNOWN, specification
from gdcb.instances.dosing.world import MIDDLE, Clinic, Meals, given, place
from gdcb.instances.options import require_known, whole_number
from gdcb.instances.past import generate
from gdcb.records import Rows
from gdcb.rewards import Scaled

LEVELS = (1.0, 2.5, 4.0, 5.0, 7.0, 11.0)
NO_BOLUS_BELOW = 70.0  # mg/dL
PATIENTS = 8
ROWS = 1_200  # of history: 150 meals a patient, some five weeks
NULL = {"well": -4.5, "mis": 0.36}  # E[r] without a bolus, over all meals
SHRINK, REFIT = 64.0, 0.05
TIMES = 4.0  # how often each meal counts in δ°: about as many rows as a run shows
LEFT_OUT = {
    "B4avg": "the form that is not known is the smooth curve itself; nothing is averaged",
}
EDGES = np.linspace(0.0, 25.0, 51)


def instance(variant: str) -> Instance:
    """Return the tuple."""
    kernel = NumberKernel(features=FEATURES, shrink=SHRINK, refit=REFIT)
    gate = Chain(
        (
            Approval(physician.person(), kernel, name="physician"),
            PolicyFilter(require="glucose", at_least=NO_BOLUS_BELOW, name="no bolus in a low"),
            BolusLimits(name="bolus limits"),
        )
    )
    return Instance(
        name="dosing",
        title="Meal-time insulin dosing",
        context=SCHEMA,
        arms=ArmList(values=LEVELS),
        scaler=learners.scaler(variant, learners.UNTUNED),
        composition=Add(names=("dose",)),
        gate=gate,
        reward=Scaled(outcome=("benefit",)),
        null=NullAction(action=(0.0,), mean=NULL[variant], teaches=True),
    )


def study(variant: str, options: Mapping[str, Any], _episodes: int) -> Study:
    """Return the instance as the protocol runs it.

    Option: `rows` of history a clinic.
    """
    require_known("dosing", options, ("rows",))
    rows = whole_number(options, "rows", ROWS)
    world = Meals(variant)
    domain = Domain(
        instance(variant),
        learners.learner(learners.UNTUNED),
        world,
        units=PATIENTS,
        unit="patient",
        is_endogenous=False,
        about=readme("dosing"),
    )

    return Study(
        domain=domain,
        variant=variant,
        features=SHOWN,
        past=partial(generate, rows=rows, incumbent=physician.incumbent),
        incumbent=physician.incumbent,
        own=physician.own,
        scaler=partial(learners.scaler, variant),
        learner=learners.learner,
        delta=partial(delta, world),
        specification=specification(variant, rows),
        about=ABOUT | ({"oracle_knows": KNOWN} if variant == "mis" else {}),
        tuning=Tuning(
            fitted=partial(learners.fitted, variant),
            forms=learners.FORMS,
            replicates=20,
            episodes=80,
        ),
        labels=labels(domain.instance),
        left_out=inapplicable(domain.instance, PATIENTS) | LEFT_OUT,
        edges=EDGES,
        measures=measures(world),
    )


def delta(world: Meals, state: Clinic, rows: Rows) -> Array:
    """Return δ° (groups, N) on reference contexts: what the scaler tends to in each clinic.

    Its fit to all meals of the clinic's patients, each `TIMES` times, without noise. Most reference
    contexts are other patients': there it is what the family makes of the clinic's own.
    """
    groups, states = state.patient.size // PATIENTS, world.table.states
    at = (state.patient[:, None] * states + np.arange(states)).ravel()
    unit = np.repeat(np.arange(state.patient.size), states)
    meals = Rows(unit, unit // PATIENTS, world.table.x[at], hidden=at[:, None].astype(float))
    label = world.right(state, meals)[:, None] - MIDDLE
    scaler = instance(world.variant).scaler  # its columns are bound to positions there
    known, weight = scaler.init(groups), np.full(unit.size, TIMES)
    scaler.observe(known, meals.group, meals.x, label, label, weight)
    scaler.publish(known, np.arange(groups))
    owner = np.repeat(np.arange(groups), rows.n)
    found = scaler.predict(known, owner, np.tile(rows.x, (groups, 1)))
    return np.asarray(found[:, 0, 0].reshape(groups, rows.n))


def measures(world: Meals) -> tuple[Measure, ...]:
    """Return what clinicians read: time in range and below it, of what was executed.

    In `well` there is no glucose, and nothing to read.
    """
    if world.variant == "well":
        return ()

    def share(of: int, _state: Clinic, e: Array, rows: Rows) -> Array:
        dose = given(e)[:, None]
        return world.table.read(world.table.shares[of], dose, place(rows))[:, 0]

    named = (
        ("time_in_range", "time in range, 70–180 mg/dL"),
        ("time_below_70", "time below 70 mg/dL"),
        ("time_below_54", "time below 54 mg/dL"),
    )
    return tuple(Measure(name, label, partial(share, i)) for i, (name, label) in enumerate(named))
