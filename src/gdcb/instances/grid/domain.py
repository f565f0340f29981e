"""The instance, and how the protocol runs it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from gdcb.arms import ArmList
from gdcb.composition import Add
from gdcb.gates import Bounds, Chain
from gdcb.instance import Instance, NullAction
from gdcb.instances.applicable import inapplicable, labels
from gdcb.instances.catalogue import Domain, Study, Tuning, readme
from gdcb.instances.grid import learners, prior
from gdcb.instances.grid.columns import FEATURES, N_ZONES, SCHEMA
from gdcb.instances.grid.measures import measures
from gdcb.instances.grid.offsets import best_offset
from gdcb.instances.grid.operators import incumbent, own
from gdcb.instances.grid.world import Feeder
from gdcb.instances.options import require_known, whole_number
from gdcb.instances.past import generate
from gdcb.rewards import Scaled

SHEDS = (0.1, 0.3, 0.5, 0.7, 0.9)  # MW
CALLS = 1200  # of a network's past: 150 a zone
EDGES = np.round(np.linspace(-1.0, 2.5, 36), 6)  # MW

ABOUT: dict[str, Any] = {
    "title": "Demand response on a medium-voltage network",
    "unit": "hundreds of euros a call",
    "action": "load shed, MW",
    "real": [
        (
            "the network: the CIGRE medium-voltage benchmark as pandapower ships it, and the AC "
            "power flow; voltage limits of EN 50160, ratings that fall with temperature"
        ),
        (
            "the order of the prices: the cap of the German ordinance on sheddable loads, and the "
            "value of lost load stated in Great Britain"
        ),
    ],
    "made": [
        (
            "the laws of load, weather and sun in flagged hours, how far margins swing within an "
            "hour, what customers ask, the zones and the dispatcher's table"
        ),
        "one zone is called at a time, hours are independent, no rebound of the load shed",
    ],
}


def instance() -> Instance:
    """Return the tuple as simulations run it: feasible sheds come from the table, as columns."""
    gate = Bounds(low_column="low_shed", high_column="high_shed", name="power flow")
    return Instance(
        name="grid",
        title=str(ABOUT["title"]),
        context=SCHEMA,
        arms=ArmList(values=SHEDS),
        scaler=learners.scaler(learners.UNTUNED),
        composition=Add(names=("shed",)),
        gate=Chain((gate,)),
        reward=Scaled(outcome=("net_stability",)),
        null=NullAction(mean=prior.RESERVE),
    )


def study(variant: str, options: Mapping[str, Any], _episodes: int) -> Study:
    """Return the instance as the protocol runs it. Option: `calls` of history."""
    require_known("grid", options, ("calls",))
    calls = whole_number(options, "calls", CALLS)
    world = Feeder(variant)
    domain = Domain(
        instance(),
        learners.learner(learners.UNTUNED),
        world,
        units=N_ZONES,
        unit="zone",
        is_endogenous=False,
        about=readme("grid"),
    )

    return Study(
        domain=domain,
        variant=variant,
        features=FEATURES,
        past=partial(generate, rows=calls, incumbent=incumbent),
        incumbent=incumbent,
        own=own,
        scaler=learners.scaler,
        learner=learners.learner,
        delta=partial(best_offset, world),
        specification=specification(variant, calls),
        about=ABOUT,
        tuning=Tuning(fitted=learners.fitted, unscaled=learners.unscaled),
        unscaled=learners.learner,
        labels=labels(domain.instance),
        left_out=inapplicable(domain.instance, N_ZONES),
        edges=EDGES,
        measures=measures(world),
    )


def specification(variant: str, calls: int) -> tuple[tuple[str, str, str], ...]:
    """Return the tuple in words: (symbol, word, value) rows."""
    truths = {
        "well": "a parabola around need + δ*(x), less the price of the shed; δ* in the family",
        "mis": "−VoLL · expected part of the margin that is broken − price · shed, AC power flow",
    }
    sheds = ", ".join(f"{shed:g}" for shed in SHEDS)
    return (
        ("𝒳", "context", "load, temperature, hour, PV; voltage, flexible load, zone"),
        ("𝒜", "nominal arms", f"sheds of {sheds} MW"),
        ("Δ, δ_θ", "scaler", "offset in MW: a neural trunk fitted once, a ridge head a network"),
        ("Φ", "composition", "shed = a + δ(x)"),
        ("g", "gate", "AC power flow: moved to the nearest feasible shed, else none"),
        ("𝒴, φ", "outcome, reward", "stability margin, priced, less the cost of interruption"),
        ("R", "truth of this run", f"variant {variant}: {truths[variant]}"),
        ("units", "replicate", f"{N_ZONES} zones of one network, drawn from a stated prior"),
        ("history", "incumbent", f"{calls:,} calls by a table of loads, behind the same gate"),
    )
