"""What people of the field read beside regret: satisfaction, violations, appeals, over-removal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.catalogue import Measure
from gdcb.instances.moderation.columns import REMOVE
from gdcb.instances.moderation.world import Forum, category, severity
from gdcb.records import Rows

LABELS = ("satisfied communities", "violations", "appeals")


def measures(world: Forum) -> tuple[Measure, ...]:
    """Return the measures of what was executed, each the expected value of its row."""

    def chance(which: int) -> Callable[[Any, Array, Rows], Array]:
        def of(state: Any, e: Array, rows: Rows) -> Array:
            chances = world.chances(state, rows)[which]
            return np.asarray(np.take_along_axis(chances, category(e[:, None]), axis=1)[:, 0])

        return of

    def over_removed(state: Any, e: Array, rows: Rows) -> Array:
        """Return 1 where a post is removed that its community wants less done to."""
        is_mild = severity(rows) <= state.remove[rows.unit]
        return np.asarray((e[:, 0] == REMOVE) & is_mild, dtype=float)

    named = zip(("satisfaction", "violation_rate", "appeal_rate"), LABELS, strict=True)
    rates = [Measure(name, label, chance(i)) for i, (name, label) in enumerate(named)]
    return (*rates, Measure("over_removal_rate", "over-removed posts", over_removed))
