"""δ°: the best offset of the scaler's family, for every network on some contexts."""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.grid import prior
from gdcb.instances.grid.columns import LOAD, N_ZONES, PV, TEMPERATURE
from gdcb.instances.grid.features import activations
from gdcb.instances.grid.world import Feeder, Zones, reached
from gdcb.records import Rows


def best_offset(world: Feeder, state: Zones, rows: Rows) -> Array:
    """Return δ° (networks, N) on the contexts `rows`, taken as every network's.

    In `well` that is δ*. In `mis` the least-squares fit, on the activations, of the shed that
    planning would find, averaged over the network's zones.
    """
    phi = activations(rows.x)
    if world.variant == "well":
        theta = state.theta[::N_ZONES]
        return np.asarray((theta[:, None] * phi).sum(axis=-1))
    design = np.concatenate((np.ones((rows.n, 1)), phi), axis=1)
    weights = np.linalg.solve(design.T @ design + 1e-9 * np.eye(design.shape[1]), design.T)[1:]
    found = _planned(world, state, rows)
    theta = np.stack([(found * one).sum(axis=1) for one in weights], axis=1)
    return np.asarray((theta[:, None] * phi).sum(axis=-1))


def _planned(world: Feeder, state: Zones, rows: Rows) -> Array:
    """Return what planning would find in every network, averaged over its zones: (networks, N)."""
    table, voltage = world.table, state.voltage[::N_ZONES]
    load, pv, heat = (np.tile(rows.x[:, c], voltage.size) for c in (LOAD, PV, TEMPERATURE))
    total = np.zeros(load.size)
    for zone in range(N_ZONES):
        at = np.full(load.size, zone)
        margin, _ = table.margins(at, load, pv, np.repeat(voltage, rows.n), heat)
        step = table.zone_load(at, load) * table.step
        total += np.clip(step * reached(margin, prior.PLANNED), *prior.FARTHEST)
    return np.asarray(total.reshape(voltage.size, rows.n) / N_ZONES)
