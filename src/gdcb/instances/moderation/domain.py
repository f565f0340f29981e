"""The instance, and how the protocol runs it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.composition import Identity
from gdcb.errors import InvalidInput
from gdcb.gates import Approval, CategoryKernel, Chain, Hold, SimulatedPerson
from gdcb.instance import Cells, Instance, NullAction
from gdcb.instances.applicable import inapplicable, labels
from gdcb.instances.catalogue import Domain, Study, Tuning, readme
from gdcb.instances.moderation import bank, house, learners, posts
from gdcb.instances.moderation.appeals import AppealFilter
from gdcb.instances.moderation.columns import CATEGORIES, FEATURES, LIVE, SCHEMA, SHOWN
from gdcb.instances.moderation.family import nearest
from gdcb.instances.moderation.measures import measures
from gdcb.instances.moderation.moderator import KINDS, NO_SCORE, Moderator, incumbent
from gdcb.instances.moderation.reward import ModerationReward
from gdcb.instances.moderation.words import KNOWN, KNOWN_TEXT, about, specification
from gdcb.instances.moderation.world import CUE, Forum
from gdcb.instances.options import require_known, whole_number
from gdcb.instances.past import generate
from gdcb.records import Rows

COMMUNITIES = 8
ROWS = 1_500  # of the past, a replicate
LIMIT = 0.35  # predicted probability of an appeal above which nothing harsher runs
STAYS_UP = 0.6  # reward of a post that nothing is done to, declared
# Bands of severity in which a moderator is learned; the last is of proposals without a score.
KERNEL_EDGES = (0.2, 0.35, 0.5, 0.65, 0.999)


def appeal_filter() -> AppealFilter:
    """Return the filter, with the pilot's prediction of appeals."""
    model = house.stored()
    return AppealFilter(
        levels=model.levels, columns=tuple(FEATURES), weights=model.weights, limit=LIMIT
    )


def instance(person: Hold | SimulatedPerson) -> Instance:
    """Return the tuple, with a simulated moderator or a real one: then there is no advice."""
    kernel = CategoryKernel(n_categories=len(CATEGORIES), edges=KERNEL_EDGES)
    return Instance(
        name="moderation",
        title="Content moderation",
        context=LIVE if isinstance(person, Hold) else SCHEMA,
        arms=ArmList(names=CATEGORIES),
        scaler=learners.scaler(learners.UNTUNED),
        composition=Identity(name="category"),
        gate=Chain((Approval(person, kernel, name="moderator"), appeal_filter())),
        reward=ModerationReward("violation_cost", "appeal_cost"),
        null=NullAction(mean=STAYS_UP),
        cells=Cells(learners.EDGES),
    )


def study(variant: str, options: Mapping[str, Any], episodes: int) -> Study:
    """Return the instance as the protocol runs it.

    Options: `moderator` ('plain', 'private', 'turnover'; the last changes at mid-run), `posts` (a
    labelled CSV of one's own, for `mis`) and `rows` of history.
    """
    require_known("moderation", options, ("moderator", "posts", "rows"))
    kind, rows = options.get("moderator", KINDS[0]), whole_number(options, "rows", ROWS)
    drawn = bank.shipped()
    if "posts" in options:
        if variant != "mis":
            raise InvalidInput("posts: in 'well' severity is not a text's; take --variant mis")
        drawn = posts.read(str(options["posts"]))
    moderator = Moderator(kind, episodes // 2)
    world = Forum(variant, CUE if kind == "private" else 0.0, drawn)
    domain = Domain(
        instance(moderator.person),
        learners.learner(learners.UNTUNED),
        world,
        units=COMMUNITIES,
        unit="community",
        is_endogenous=False,
        about=readme("moderation"),
    )

    def own(some: Rows) -> Array:
        return np.stack((moderator.reads(some), np.full(some.n, NO_SCORE)), axis=1)

    known = {"oracle_knows": KNOWN} if kind == "private" else {}
    if variant == "mis" and not known:
        known = {"oracle_knows": KNOWN_TEXT}
    return Study(
        domain=domain,
        variant=variant,
        features=SHOWN,
        past=partial(generate, rows=rows, incumbent=incumbent),
        incumbent=incumbent,
        own=own,
        scaler=learners.scaler,
        learner=learners.learner,
        delta=partial(nearest, world, units=COMMUNITIES),
        specification=specification(variant, kind, rows, drawn.n),
        about=about(str(options.get("posts", ""))) | known,
        tuning=Tuning(fitted=learners.fitted, unscaled=learners.without),
        labels=labels(domain.instance),
        left_out=inapplicable(domain.instance, COMMUNITIES),
        unscaled=learners.unscaled,
        edges=np.array([-0.5, 0.5, 1.5, 2.5]),
        measures=measures(world),
    )
