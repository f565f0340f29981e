"""What people who run networks read beside regret."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb.arrays import Array, logistic
from gdcb.instances.catalogue import Measure
from gdcb.instances.grid.world import Feeder
from gdcb.records import Rows


def measures(world: Feeder) -> tuple[Measure, ...]:
    """Return the measures of what was executed; where nothing ran, nothing was shed."""

    def shed_of(e: Array, rows: Rows) -> Array:
        return world.shed_of(np.nan_to_num(e)[:, None], rows)

    def at_risk(state: Any, e: Array, rows: Rows) -> Array:
        """Chance that a limit is broken within the hour, by the margin's logistic law."""
        margin = world.margin(rows, shed_of(e, rows))[:, 0]
        return logistic(-margin / state.swing[rows.unit])

    def broken(_state: Any, e: Array, rows: Rows) -> Array:
        """Whether a limit is broken at the hour's mean: only where no shed was feasible."""
        return np.asarray(world.margin(rows, shed_of(e, rows))[:, 0] < -1e-9, dtype=float)

    def shed(_state: Any, e: Array, rows: Rows) -> Array:
        return shed_of(e, rows)[:, 0]

    def lowest(_state: Any, e: Array, rows: Rows) -> Array:
        return world.along(rows, shed_of(e, rows))[1][:, 0]

    def loading(_state: Any, e: Array, rows: Rows) -> Array:
        return np.asarray(world.margin(rows, shed_of(e, rows))[:, 0])

    return (
        Measure("at_risk", "chance that a limit is broken within the hour", at_risk),
        Measure("broken", "hours whose mean breaks a limit", broken),
        Measure("shed", "energy shed a call, MWh", shed, is_share=False),
        Measure("margin", "stability margin", loading, is_share=False),
        Measure("voltage", "lowest voltage, p.u.", lowest, is_share=False),
    )
