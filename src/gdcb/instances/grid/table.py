"""The tabulated response of the network: flows between the solved hours, and feasible sheds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.grid.network import margin_of

FINER = 4  # points a solved share at which margins are worked out


@dataclass(frozen=True)
class Table:
    """Flows of the network on a grid; linear between its points along every axis.

    Parameters
    ----------
    flow : (zones, voltages, loads, pvs, shares, 6) as `FLOW` names them
    size : (zones,) load of a zone a MW of the feeder's
    voltage, load, pv, share : the grid, rising in equal steps
    """

    flow: Array
    size: Array
    voltage: Array
    load: Array
    pv: Array
    share: Array

    @property
    def n_shares(self) -> int:
        """Shares of a zone's load at which margins are worked out."""
        return FINER * (int(self.share.size) - 1) + 1

    @property
    def step(self) -> float:
        """Share of a zone's load from one of these to the next."""
        return float(self.share[1] - self.share[0]) / FINER

    def profiles(self, zone: Array, load: Array, pv: Array, voltage: Array) -> Array:
        """Return the flows of rows (N,) at every share of the zone's load: (N, shares, 6)."""
        points, wide = self.flow.shape[:4], self.flow.shape[4:]
        flat = self.flow.reshape(-1, wide[0] * wide[1])
        out = np.zeros((zone.shape[0], flat.shape[1]))
        for v, at_v in _corner(self.voltage, voltage):
            for i, at_i in _corner(self.load, load):
                for j, at_j in _corner(self.pv, pv):
                    place = ((zone * points[1] + v) * points[2] + i) * points[3] + j
                    out += (at_v * at_i * at_j)[:, None] * flat.take(place, axis=0)
        return out.reshape(-1, *wide)

    def margins(
        self, zone: Array, load: Array, pv: Array, voltage: Array, temperature: Array
    ) -> tuple[Array, Array]:
        """Return margin and lowest voltage along the shares of the zone's load: (N, n_shares) each.

        Flows are linear between solved shares; their least headroom bends where another limit
        takes over, so that it is worked out at `FINER` points for each.
        """
        solved = self.profiles(zone, load, pv, voltage)
        flow = np.empty((zone.shape[0], self.n_shares, solved.shape[2]))
        for k in range(FINER):
            part = k / FINER
            flow[:, k::FINER][:, : self.share.size - 1] = (1.0 - part) * solved[
                :, :-1
            ] + part * solved[:, 1:]
        flow[:, -1] = solved[:, -1]
        lowest = np.minimum(np.minimum(flow[..., 0], flow[..., 1]), flow[..., 2])
        return margin_of(flow, temperature[:, None]), lowest

    def zone_load(self, zone: Array, load: Array) -> Array:
        """Return the load of each row's zone in MW: (N,)."""
        return np.asarray(self.size[zone] * load)


def _corner(grid: Array, value: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return the two grid points around each value, and their weights; values are kept inside."""
    step = (value - grid[0]) / (grid[1] - grid[0])
    at = np.minimum(np.maximum(step, 0.0), grid.size - 1.0)
    low = np.minimum(at.astype(np.int64), grid.size - 2)
    part = at - low
    return (low, 1.0 - part), (low + 1, part)


def between(nodes: Array, at: Array) -> Array:
    """Interpolate rows of values (N, S), S points in equal steps, at places (N, M) in [0, S − 1].

    >>> between(np.array([[0.0, 2.0, 3.0]]), np.array([[0.5, 2.0]])).tolist()
    [[1.0, 3.0]]
    """
    low = np.minimum(at.astype(np.int64), nodes.shape[1] - 2)
    first = np.take_along_axis(nodes, low, axis=1)
    return np.asarray(first + (at - low) * (np.take_along_axis(nodes, low + 1, axis=1) - first))


def feasible(margin: Array) -> tuple[Array, Array]:
    """Return the first and the last place (N,) in [0, S − 1] at which a margin (N, S) is not < 0.

    The margin is linear between the points. Without such a place the first is infinite and the
    last −1.

    >>> first, last = feasible(np.array([[-1.0, 1.0, 3.0], [-2.0, -1.0, -0.5]]))
    >>> first.tolist(), last.tolist()
    ([0.5, inf], [2.0, -1.0])
    """
    yes = margin >= 0.0
    last_point = margin.shape[1] - 1
    some, rows = yes.any(axis=1), np.arange(margin.shape[0])
    first = yes.argmax(axis=1)
    last = last_point - yes[:, ::-1].argmax(axis=1)
    before, after = np.maximum(first - 1, 0), np.minimum(last + 1, last_point)
    low = first - _crossing(margin[rows, first], margin[rows, before]) * (first > 0)
    high = last + _crossing(margin[rows, last], margin[rows, after]) * (last < last_point)
    return np.where(some, low, np.inf), np.where(some, high, -1.0)


def _crossing(inside: Array, outside: Array) -> Array:
    """Return the part of the way from a margin ≥ 0 to one < 0 at which it is 0."""
    gap = inside - outside
    return np.asarray(np.where(gap > 0.0, inside / np.where(gap > 0.0, gap, 1.0), 0.0))


@cache
def stored() -> Table:
    """Return the table that `gdcb.instances.grid.tabulate` made."""
    place = files("gdcb.instances.grid") / "table.npz"
    with place.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        found = {name: np.asarray(archive[name], dtype=float) for name in archive.files}
    return Table(**found)
