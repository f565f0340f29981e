"""Solve the network on a grid of hours and sheds, and write the table that simulations read.

    python -m gdcb.instances.grid.tabulate

makes `table.npz` beside this file: 8,064 AC power flows, one to three minutes on one core.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.grid.columns import INSTALLED, ZONES
from gdcb.instances.grid.network import FLOW, Network, open_network

PLACE = Path(__file__).parent / "table.npz"
VOLTAGE = np.array([0.99, 1.01, 1.03])
LOAD = np.linspace(3.0, 6.5, 8)
PV = np.linspace(0.0, INSTALLED, 6)
SHARE = np.linspace(0.0, 0.9, 7)  # of the zone's load that is shed


def solve_all(
    network: Network, voltages: Array = VOLTAGE, loads: Array = LOAD, pvs: Array = PV
) -> Array:
    """Return the flows on the grid: (zones, voltages, loads, pvs, shares, 6)."""
    shape = (len(ZONES), voltages.size, loads.size, pvs.size, SHARE.size, len(FLOW))
    flow = np.empty(shape)
    for z, buses in enumerate(ZONES.values()):
        for v, voltage in enumerate(voltages):
            for i, load in enumerate(loads):
                size = network.zone_load(load, buses)
                for j, pv in enumerate(pvs):
                    for k, share in enumerate(SHARE):
                        flow[z, v, i, j, k] = network.solve(load, pv, voltage, buses, share * size)
    return flow


def main() -> None:
    """Make the table and write it."""
    network = open_network()
    size = np.array([network.zone_load(1.0, buses) for buses in ZONES.values()])
    flow = solve_all(network).astype(np.float32)
    if not np.isfinite(flow).all():
        raise SystemExit("a power flow of the grid has no solution")
    np.savez_compressed(PLACE, flow=flow, size=size, voltage=VOLTAGE, load=LOAD, pv=PV, share=SHARE)


if __name__ == "__main__":
    main()
