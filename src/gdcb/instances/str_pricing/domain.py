"""The instance, and how the protocol runs it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from gdcb.arms import Grid
from gdcb.arrays import Array
from gdcb.composition import Multiply
from gdcb.gates import Approval, Bounds, Chain, NumberKernel
from gdcb.instance import Instance, NullAction
from gdcb.instances.catalogue import Domain, Study, Tuning, readme
from gdcb.instances.options import require_known, whole_number
from gdcb.instances.past import generate
from gdcb.instances.str_pricing import learners
from gdcb.instances.str_pricing.columns import FEATURES, SCHEMA, features
from gdcb.instances.str_pricing.manager import KINDS, Manager, incumbent
from gdcb.instances.str_pricing.world import Listings, Rental
from gdcb.records import Rows
from gdcb.rewards import Payoff

MULTIPLIERS: dict[str, tuple[float, ...]] = {
    "A": (0.7, 0.85, 1.0, 1.15, 1.3),
    "B": (0.9, 0.95, 1.0, 1.05, 1.1),
}
LOW, HIGH = 40.0, 600.0


LISTINGS = 8
NIGHTS = 1461  # of history
SHRINK, REFIT = 256.0, 0.05
SIGNAL = 0.6  # how far the manager's private signal moves the log odds of a booking

ABOUT: dict[str, Any] = {
    "title": "Short-term rental pricing",
    "unit": "currency units a listing",
    "action": "price over base × market",
    "real": [
        (
            "the occupancy law Beta(2.01, 1.74), which the paper reports as calibrated on 38,648 "
            "weekly observations of 1,000 listings in one market"
        ),
        (
            "the shape of the decision: multipliers, a day signal, a manager who may set a price "
            "of their own, price bounds, a booking or none"
        ),
    ],
    "made": [
        (
            "everything else: how guests respond, the prior from which markets and listings are "
            "drawn, the other laws of the context, the manager and the incumbent's price list"
        ),
        "no season, length of stay, competitor, cancellation or dependence between nights",
    ],
}

KNOWN = (
    "The optimum and the gate floor know the manager's signal, which no method sees: part of the "
    "regret above the floor is out of every method's reach."
)


def instance(manager: Manager) -> Instance:
    """Return the tuple."""
    # Managers rarely look at the price alone: bands of it are pulled hard to the overall rates.
    kernel = NumberKernel(features=FEATURES, base=("base", "market"), shrink=SHRINK, refit=REFIT)
    gate = Chain(
        (
            Approval(manager.person, kernel, name="revenue manager"),
            Bounds(low=LOW, high=HIGH, name="price bounds"),
        )
    )
    return Instance(
        name="str",
        title="Short-term rental pricing",
        context=SCHEMA,
        arms=Grid(MULTIPLIERS, combine="product"),
        scaler=learners.scaler(learners.UNTUNED),
        composition=Multiply(base=("base", "market"), names=("price",)),
        gate=gate,
        reward=Payoff(outcome=("booked",), action=0),
        null=NullAction(mean=0.0),
    )


def study(variant: str, options: Mapping[str, Any], episodes: int) -> Study:
    """Return the instance as the protocol runs it.

    Options: `manager` ('plain', 'private', 'anchored', 'changing'; the last changes at mid-run)
    and `nights` of history.
    """
    require_known("str", options, ("manager", "nights"))
    kind, nights = options.get("manager", KINDS[0]), whole_number(options, "nights", NIGHTS)
    manager = Manager(kind, episodes // 2)
    world = Rental(variant, SIGNAL if kind == "private" else 0.0)
    domain = Domain(
        instance(manager),
        learners.learner(learners.UNTUNED),
        world,
        units=LISTINGS,
        unit="listing",
        is_endogenous=False,
        about=readme("str"),
    )

    def delta(state: Listings, rows: Rows) -> Array:
        theta = world.true_theta(state, rows).reshape(-1, LISTINGS, len(FEATURES)).mean(axis=1)
        return np.asarray(np.exp((theta[:, None] * features(rows.x)).sum(axis=-1)))

    return Study(
        domain=domain,
        variant=variant,
        features=FEATURES,
        past=partial(generate, rows=nights, incumbent=incumbent),
        incumbent=incumbent,
        own=manager.own,
        scaler=learners.scaler,
        learner=learners.learner,
        delta=delta,
        specification=specification(variant, kind, nights),
        about=ABOUT | ({"oracle_knows": KNOWN} if kind == "private" else {}),
        tuning=Tuning(
            fitted=learners.fitted,
            forms=tuple(learners.FORMS),
            sample_delta=learners.delta_of,
            learned=world.chance,
            is_centred=False,
            replicates=100,
            episodes=200,
        ),
    )


def specification(variant: str, kind: str, nights: int) -> tuple[tuple[str, str, str], ...]:
    """Return the tuple in words: (symbol, word, value) rows."""
    truths = {
        "well": "booked with σ(α − β·e/δ*(x)): willingness to pay scales with δ*",
        "mis": "booked with σ(α − β·e + γ·xᵀη): outside the scaler's family",
    }
    managers = {
        "plain": "approves with p(x) = 0.55 + 0.3·occupancy, else sets an own price",
        "private": "as plain, but sees a signal of demand that is not in x, and acts on it",
        "anchored": "as plain, but an own price lies halfway to the proposal",
        "changing": "as plain; at mid-run a stricter, dearer person takes over",
    }
    return (
        ("𝒳", "context", "occupancy, gap night, lead time, inventory, day of week; base, market"),
        ("𝒜", "nominal arms", "5 × 5 multipliers a^A · a^B, 0.63 to 1.43, 25 distinct prices"),
        ("Δ, δ_θ", "scaler", "δ_occ·δ_gap·δ_lead·δ_inv, log-linear, six parameters, ridge"),
        ("Φ", "composition", "price = base · market · δ(x) · a^A · a^B"),
        ("g", "gate", f"revenue manager ({managers[kind]}), then price bounds {LOW:g} to {HIGH:g}"),
        ("𝒴, φ", "outcome, reward", "booked or not; reward = booked × price"),
        ("R", "truth of this run", f"variant {variant}: {truths[variant]}"),
        ("units", "replicate", f"{LISTINGS} listings of one market, drawn from a stated prior"),
        ("history", "incumbent", f"{nights:,} nights of a price list, behind the same gate"),
    )
