"""What lenders read beside regret, each as its expected value."""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.catalogue import Measure
from gdcb.instances.credit.columns import CAP
from gdcb.instances.credit.world import Branches, Lending
from gdcb.records import Rows


def take_up(world: Lending, state: Branches, e: Array, rows: Rows) -> Array:
    """Return P(the offer is accepted): (N,); 0 where nothing was offered."""
    taken, _ = world.chances(state, e[:, None], rows)
    return np.asarray(np.nan_to_num(taken))[:, 0]


def defaults(world: Lending, state: Branches, e: Array, rows: Rows) -> Array:
    """Return P(accepted and not repaid): (N,); 0 where nothing was offered."""
    taken, default = world.chances(state, e[:, None], rows)
    return np.asarray(np.nan_to_num(taken * default))[:, 0]


def default_rate(world: Lending, state: Branches, e: Array, rows: Rows) -> Array:
    """Return P(default | accepted): (N,); NaN where nothing was offered."""
    return world.chances(state, e[:, None], rows)[1][:, 0]


def apr(e: Array) -> Array:
    """Return the APR that was offered: (N,); NaN where nothing was."""
    return np.asarray(e[:, 0])


def is_capped(e: Array, rows: Rows) -> Array:
    """Return whether the offer stands at the cap: (N,); NaN where nothing was offered."""
    return np.where(np.isnan(e[:, 0]), np.nan, e[:, 0] >= rows.x[:, CAP])


def measures(world: Lending) -> tuple[Measure, ...]:
    """Return what is read beside regret."""
    return (
        Measure("take_up", "offers taken", lambda s, e, rows: take_up(world, s, e, rows)),
        Measure(
            "defaults",
            "applications that end in default",
            lambda s, e, rows: defaults(world, s, e, rows),
        ),
        Measure(
            "default_rate",
            "risk of default of an offer, if it were taken",
            lambda s, e, rows: default_rate(world, s, e, rows),
        ),
        Measure("apr", "mean APR offered", lambda _, e, __: apr(e)),
        Measure("capped", "offers at the cap", lambda _, e, rows: is_capped(e, rows)),
    )
