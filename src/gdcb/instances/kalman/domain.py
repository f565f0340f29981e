"""The instance, and how the protocol runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.composition import KalmanGain
from gdcb.errors import InvalidInput
from gdcb.gates import Approval, Bounds, Chain, NumberKernel
from gdcb.instance import Instance, NullAction
from gdcb.instances.applicable import inapplicable, labels
from gdcb.instances.catalogue import Domain, Start, Study, Tuning, readme
from gdcb.instances.kalman import learners
from gdcb.instances.kalman.measures import figures
from gdcb.instances.kalman.operator import Operator
from gdcb.instances.kalman.plants import SETTLE, Plant, plant_named
from gdcb.instances.kalman.references import references
from gdcb.instances.kalman.seeds import first_innovations, steady_part
from gdcb.instances.kalman.world import REWARDS, Tracking, Tracks
from gdcb.instances.options import require_known, whole_number
from gdcb.instances.past import generate
from gdcb.parts import check_choice
from gdcb.records import Rows
from gdcb.rewards import Scaled

STEPS = 1600  # of a replicate's past: 200 a unit
MIXED = "auto"  # the arm that commits to no mode
EDGES = np.round(np.linspace(0.0, 1.05, 36), 6)
STEP = 0.05  # between gains


def instance(plant: Plant, world: Tracking) -> Instance:
    """Return the tuple."""
    operator, columns = Operator(plant), world.columns
    k = plant.n_modes
    gate = Chain(
        (
            Approval(
                operator.person,
                NumberKernel(features=("gain_0", "gain_1", "young")),
                name="operator",
            ),
            Bounds(low=0.02, high=1.0, action=0, name="gain on the place"),
            Bounds(low=0.0, high=1.0, action=1, name="gain on the speed"),
        )
    )
    return Instance(
        name="kalman",
        title="Adaptive Kalman filtering",
        context=columns.schema,
        arms=ArmList(names=(*plant.modes, MIXED)),
        scaler=learners.scaler(plant, learners.untuned(plant)),
        composition=KalmanGain(
            transition=(plant.transition,) * k,
            measurement=(plant.measurement,) * k,
            process=plant.process,
            noise=(((plant.noise,),),) * k,
            step=STEP,
            low=learners.LOW,
            high=learners.HIGH,
            age="age",
            initial=plant.initial,
            settle=SETTLE,
            likely=columns.likely,
        ),
        gate=gate,
        reward=Scaled(outcome=("reward",), scale="missed"),
        null=NullAction(columns=("gain_0", "gain_1"), mean=-2.5),
    )


def study(variant: str, options: Mapping[str, Any], episodes: int) -> Study:
    """Return the instance as the protocol runs it.

    Options: `plant` ('target' or 'demand'), `reward` ('error' or 'innovations': what learners are
    shown), `prefilter` ('on' or 'off', where there is a calendar) and `steps` of history.
    """
    require_known("kalman", options, ("plant", "reward", "prefilter", "steps"))
    plant = plant_named(options.get("plant", "target"))
    reward = options.get("reward", REWARDS[0])
    check_choice("reward", reward, REWARDS)
    steps = whole_number(options, "steps", STEPS)
    prefilter = options.get("prefilter", "on")
    check_choice("prefilter", prefilter, ("on", "off"))
    if "prefilter" in options and not plant.period:
        raise InvalidInput(f"prefilter: the {plant.name} has no calendar to take off")
    world = Tracking(plant, variant, reward, prefilter == "on")
    operator = Operator(plant)
    plain = instance(plant, world)
    domain = Domain(
        plain,
        learners.learner(learners.untuned(plant)),
        world,
        units=learners.UNITS,
        unit="track",
        is_endogenous=True,
        about=readme("kalman"),
    )
    alike = "the recommended learner has independent arms: it is B4"
    left_out = inapplicable(plain, learners.UNITS) | {"B4flat": alike, "A4": alike}
    usual = {"plant": "target", "reward": REWARDS[0]}
    told = [str(options[name]) for name in usual if options.get(name, usual[name]) != usual[name]]
    return Study(
        domain=domain,
        variant=variant,
        features=world.columns.features,
        past=partial(generate, rows=steps, incumbent=operator.incumbent),
        incumbent=operator.incumbent,
        own=operator.own,
        scaler=partial(learners.scaler, plant),
        learner=learners.learner,
        delta=partial(_delta, world),
        specification=specification(plant, variant, steps),
        about=about(plant),
        tuning=Tuning(
            fitted=partial(learners.fitted, plant),
            unscaled=learners.unscaled,
            learned=_learned(world),
            knobs=("scale", "signal"),
            replicates=20,
            episodes=80,
        ),
        tuned=f"{'-'.join(('tuned', *told))}.json",
        unscaled=learners.learner,
        labels=labels(plain),
        left_out=left_out,
        edges=EDGES,
        figures=figures(world, episodes * learners.UNITS),
        references=references(plain, plant),
        starts=starts(),
    )


def _learned(world: Tracking) -> Callable[[Any, Array, Rows], Array] | None:
    """Return what learners learn of gains, where it is not the error: E[r]/s(x)."""
    if world.reward == "error":
        return None
    at = world.columns.at("missed")

    def learned(state: Any, e: Array, rows: Rows) -> Array:
        return np.asarray(world.innovation_mean(state, e, rows) / rows.x[:, at, None])

    return learned


def starts() -> dict[str, Start]:
    """Return the warm start with each of its three seeds left out in turn."""
    return {
        "A5m": Start("mode posteriors not seeded", teaches=("scaler",)),
        "A5c": Start("covariance regression not seeded", change=first_innovations),
        "A5p": Start("P₀ not seeded", change=steady_part),
    }


def _delta(world: Tracking, state: Tracks, rows: Rows) -> Array:
    """Return δ°, the sizes of the family nearest to the truth, on reference contexts."""
    plant = world.plant
    scaler = learners.scaler(plant, learners.untuned(plant))
    bound = replace(scaler, process=world.columns.at("strain"), noise=world.columns.at("signal"))
    beta = learners.coefficients(world.truth, state.sizes)[:: learners.UNITS]
    return np.stack([bound.sizes(np.tile(one, (rows.n, 1)), rows.x) for one in beta])


def about(plant: Plant) -> dict[str, Any]:
    """Return what is real and what is made, for people."""
    return {
        "title": f"Adaptive Kalman filtering: {plant.title.lower()}",
        "unit": "squared error a track",
        "action": "gain on the place",
        "real": [
            "the filters, the Riccati equation, the gains and the arithmetic of their errors",
            (
                "the textbook problem: a target whose process noise switches between modes "
                "(Bar-Shalom, Li and Kirubarajan 2001)"
            ),
        ],
        "made": [
            (
                "the plant, its modes and sizes of noise, how they hang on signal and strain, the "
                "operator and the incumbent"
            ),
        ],
        "oracle_knows": (
            "The optimum knows which mode is on and all covariances, which no method but K2 does: "
            "part of the regret is out of every method's reach."
        ),
    }


def specification(plant: Plant, variant: str, steps: int) -> tuple[tuple[str, str, str], ...]:
    """Return the tuple in words: (symbol, word, value) rows."""
    truths = {
        "well": "sizes of Q and R in the scaler's family; modes follow a Markov chain",
        "mis": "R jumps with the signal, Q with the strain; modes last a while; speed jumps",
    }
    return (
        ("𝒳", "context", "filtered state, last gain, age, strain, signal; how likely modes are"),
        (
            "𝒜",
            "nominal arms",
            f"operating modes: {', '.join(plant.modes)}; or {MIXED}: no one mode",
        ),
        ("Δ, δ_θ", "scaler", "sizes of (Q, R, P₀) by mode and context, ridge on innovations"),
        ("Φ", "composition", "gain K(m, Q, R): steady state, or of its age for a young track"),
        ("g", "gate", "operator: approves near a gain of their own, else runs that; then bounds"),
        ("𝒴, φ", "outcome, reward", "the estimate; minus its squared error"),
        ("R", "truth of this run", f"variant {variant}: {truths[variant]}"),
        ("units", "replicate", f"{learners.UNITS} tracks of one sensor, drawn from a stated prior"),
        ("history", "incumbent", f"{steps:,} steps at fixed (Q₀, R₀), behind the same gate"),
    )
