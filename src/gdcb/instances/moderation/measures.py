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


def measures(world: Forum) -> tuple[Measure, ...]:
    """Return the measures of what was executed, each the expected value of its row."""

    def chance(of_all: Callable[[Any, Rows], Array]) -> Callable[[Any, Array, Rows], Array]:
        def of(state: Any, e: Array, rows: Rows) -> Array:
            at = category(e[:, None])
            return np.asarray(np.take_along_axis(of_all(state, rows), at, axis=1)[:, 0])

        return of

    def over_removed(state: Any, e: Array, rows: Rows) -> Array:
        """Return 1 where a post is removed that its community wants less done to."""
        is_mild = severity(rows) <= state.remove[rows.unit]
        return np.asarray((e[:, 0] == REMOVE) & is_mild, dtype=float)

    def violated(_state: Any, rows: Rows) -> Array:
        return world.violated(rows)

    return (
        Measure("satisfaction", "satisfied communities", chance(world.satisfied)),
        Measure("violation_rate", "violations", chance(violated)),
        Measure("appeal_rate", "appeals", chance(world.appealed)),
        Measure("over_removal_rate", "over-removed posts", over_removed),
    )
