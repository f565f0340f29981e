"""Demand response: what the table saves over power flows, and what it costs in accuracy.

    python -m benchmarks.grid

solves 200 random hours and sheds of the CIGRE network in pandapower, afresh, recycled and from the
table, and compares voltages, loadings, margins and verdicts.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.grid.columns import ZONES
from gdcb.instances.grid.network import (
    FLOW,
    Network,
    _read,
    margin_of,
    open_network,
    runpp_afresh,
)
from gdcb.instances.grid.table import Table, between, stored

POINTS, SEED, ROWS = 200, 5, 100_000


def points(n: int, seed: int = SEED) -> tuple[Array, ...]:
    """Draw hours and sheds: zone, load, PV, voltage, temperature, share of the zone's load."""
    rng = np.random.default_rng(seed)
    return (
        rng.integers(0, len(ZONES), n),
        rng.uniform(3.5, 6.0, n),
        rng.uniform(0.0, 2.5, n),
        rng.uniform(0.99, 1.03, n),
        rng.uniform(0.0, 42.0, n),
        rng.uniform(0.0, 0.9, n),
    )


def solved(network: Network, table: Table, drawn: tuple[Array, ...], is_afresh: bool) -> Array:
    """Solve the points: (n, 6); afresh: from a flat start, its matrices built anew."""
    zone, load, pv, voltage, _, share = drawn
    size, buses = table.zone_load(zone, load), tuple(ZONES.values())
    found = []
    for i in range(zone.size):
        shed = share[i] * size[i]
        flow = network.solve(load[i], pv[i], voltage[i], buses[zone[i]], shed)
        if is_afresh:
            runpp_afresh(network.net)
            flow = _read(network.net)
        found.append(flow)
    return np.array(found)


def tabulated(table: Table, drawn: tuple[Array, ...]) -> tuple[Array, Array]:
    """Return flows (n, 6) and margins (n,) from the table."""
    zone, load, pv, voltage, heat, share = drawn
    flow = table.profiles(zone, load, pv, voltage)
    at = (share / (table.share[1] - table.share[0]))[:, None]
    flows = np.stack([between(flow[..., k], at)[:, 0] for k in range(len(FLOW))], axis=1)
    margin, _ = table.margins(zone, load, pv, voltage, heat)
    return flows, between(margin, (share / table.step)[:, None])[:, 0]


def seconds(ask: Any) -> float:
    """Return the processor time of one call."""
    began = time.process_time()
    ask()
    return time.process_time() - began


def main() -> None:
    """Measure, and say what was found."""
    network, table, drawn = open_network(), stored(), points(POINTS)
    fresh = solved(network, table, drawn, is_afresh=True)
    flows, margin = tabulated(table, drawn)
    true = margin_of(fresh, drawn[4])
    off, gap = np.abs(flows - fresh), np.abs(margin - true)
    recycled = solved(network, table, drawn, is_afresh=False)
    each = seconds(lambda: solved(network, table, points(50), is_afresh=False)) / 50
    both = seconds(lambda: solved(network, table, points(50), is_afresh=True)) / 50
    many = points(ROWS)
    rows = seconds(lambda: table.margins(*many[:5])) / ROWS
    wrong = int(((margin >= 0.0) != (true >= 0.0)).sum())
    near = int((np.abs(true) < gap.max()).sum())
    lines = [
        f"points: {POINTS}",
        f"recycled against fresh, largest difference: {np.abs(recycled - fresh).max():.1e}",
        f"voltage, p.u.: largest error {off[:, :4].max():.1e}, mean {off[:, :4].mean():.1e}",
        f"loading, of 1: largest error {off[:, 4:].max():.1e}, mean {off[:, 4:].mean():.1e}",
        f"margin: largest error {gap.max():.1e}, mean {gap.mean():.1e}",
        f"feasible or not: {wrong} of {POINTS} differ; {near} lie nearer to 0 than that error",
        f"seconds a solve: fresh {both - each:.4f}, recycled {each:.4f}",
        f"seconds an hour from the table, all sheds: {rows:.2e}; {each / rows:,.0f} times as fast",
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
