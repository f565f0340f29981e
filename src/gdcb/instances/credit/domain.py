"""The instance, and how the protocol runs it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from gdcb.arms import Grid
from gdcb.arrays import Array
from gdcb.gates import Bounds, Cap, Chain
from gdcb.instance import Instance, NullAction
from gdcb.instances.catalogue import Domain, Study, Tuning, readme
from gdcb.instances.credit import learners
from gdcb.instances.credit.card import APPLICATIONS, incumbent, own
from gdcb.instances.credit.columns import (
    FEATURES,
    LGD,
    LONGEST,
    SCHEMA,
    SHORTEST,
    TENORS,
    TYPICAL,
    UNIT,
    features,
)
from gdcb.instances.credit.measures import measures
from gdcb.instances.credit.menu import Menu
from gdcb.instances.credit.offer import Offer
from gdcb.instances.credit.prior import GROWTH
from gdcb.instances.credit.reward import NetInterest
from gdcb.instances.credit.words import ABOUT, specification
from gdcb.instances.credit.world import Branches, Lending
from gdcb.instances.options import require_known, whole_number
from gdcb.instances.past import generate
from gdcb.parts import check_number
from gdcb.records import Rows

RATES = (0.8, 0.95, 1.1, 1.25, 1.4)
BRANCHES = 8
EDGES = np.round(np.linspace(0.4, 3.0, 53), 6)  # of offers over the list rate


def chain() -> Chain:
    """Return the gates: tenors on offer, the jurisdiction's cap, and no loan below its cost."""
    return Chain(
        (
            Menu(
                values=TENORS,
                base="wanted",
                typical=TYPICAL,
                low=SHORTEST,
                high=LONGEST,
                action=1,
                name="tenors on offer",
            ),
            Cap(limit_column="cap", action=0, name="APR cap"),
            # Behind the cap, so that it says so where nothing is left between cost and cap.
            Bounds(low_column="floor", high_column="cap", action=0, name="cost floor"),
        )
    )


def instance() -> Instance:
    """Return the tuple."""
    return Instance(
        name="credit",
        title="Consumer credit pricing",
        context=SCHEMA,
        arms=Grid({"rate": RATES, "tenor": TENORS}, combine="none"),
        scaler=learners.scaler(learners.UNTUNED),
        composition=Offer(typical=TYPICAL),
        gate=chain(),
        reward=NetInterest(lgd=LGD, growth=round(GROWTH / 12.0, 6), unit=UNIT),
        null=NullAction(mean=0.0),
    )


def study(variant: str, options: Mapping[str, Any], episodes: int) -> Study:
    """Return the instance as the protocol runs it.

    Option: `applications`, how many of every lender came before the first episode.
    """
    require_known("credit", options, ("applications",))
    rows = whole_number(options, "applications", APPLICATIONS)
    check_number("episodes", episodes, 1)
    world = Lending(variant)
    domain = Domain(
        instance(),
        learners.learner(learners.UNTUNED),
        world,
        units=BRANCHES,
        unit="branch",
        is_endogenous=False,
        about=readme("credit"),
    )

    return Study(
        domain=domain,
        variant=variant,
        features=FEATURES,
        past=partial(generate, rows=rows, incumbent=incumbent),
        incumbent=incumbent,
        own=own,
        scaler=learners.scaler,
        learner=learners.learner,
        delta=partial(best_delta, world),
        specification=specification(variant, rows),
        about=ABOUT,
        tuning=Tuning(
            fitted=learners.fitted,
            forms=learners.FORMS,
            learned=world.chance,
            unscaled=learners.fitted_unscaled,
            replicates=12,
            episodes=60,
        ),
        unscaled=learners.unscaled,
        edges=EDGES,
        measures=measures(world),
    )


def best_delta(world: Lending, state: Branches, rows: Rows) -> Array:
    """Return δ° on contexts: (lenders, N).

    In `well` δ*. In `mis` the least-squares fit of the log spread on the features over these
    contexts, less what it is at the features' means: what the ridge tends to.
    """
    lenders = np.arange(0, state.base.size, BRANCHES)
    phi = features(rows.x)
    if world.is_well:
        log_delta = (state.theta[lenders][:, None] * phi).sum(axis=-1)
        return np.asarray(np.exp(log_delta))
    design = np.concatenate((np.ones((rows.n, 1)), phi), axis=1)
    weights = np.linalg.pinv(design)[1:]  # (10, contexts); a level may be missing among them
    spread = world.log_spread(state, lenders, rows)
    theta = (spread[:, None, :] * weights).sum(axis=-1)
    return np.asarray(np.exp((theta[:, None] * phi).sum(axis=-1)))
