"""The network itself: the CIGRE medium-voltage benchmark in pandapower, solved for one hour.

`create_cigre_network_mv(with_der="pv_wind")`: 20 kV, two transformers of 25 MVA, 15 buses. Feeder 1
hangs on line 1-2 and line 2-3, which bear 5 MVA; its eight PV plants share the feeder's PV output
as their ratings do; the wind turbine stands still. Loads of the feeder keep their proportions and
power factors; the lumped loads of buses 1 and 12 stand for other feeders, which peak at other
hours, and follow at `OTHERS` of the feeder's level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instances.grid.columns import V_HALF, V_HIGH, V_LOW, rating

CIGRE = "cigre-mv"
FEEDER = tuple(range(3, 12))  # buses of feeder 1
OTHERS = 0.7  # of the level of feeder 1: diversity of feeders that peak at other hours
# What a solve says of the network: lowest voltage of both branches of feeder 1 and of the other
# 20 kV buses, highest 20 kV voltage (p.u.), highest loading of lines and of transformers (1 is the
# rating).
FLOW = ("v_near", "v_far", "v_rest", "v_high", "line", "trafo")
_NEAR, _FAR = (3, 4, 5, 6), (7, 8, 9, 10, 11)
_HIGH_KV = 60.0  # from here on it is somebody else's network


def margin_of(flow: Array, temperature: Array) -> Array:
    """Return the stability margin of flows (..., 6) at temperatures (...): the least headroom.

    m = min over buses of (V − 0.9)/0.1 and (1.1 − V)/0.1, over lines of 1 − I/(I_max·rating(T)),
    over transformers of 1 − I/I_max. 0: a limit is reached; NaN (no solution) stays NaN.

    >>> at_nominal = np.array([0.95, 0.94, 1.0, 1.01, 0.8, 0.7])
    >>> float(margin_of(at_nominal, np.array(20.0)).round(3))
    0.2
    """
    under = np.minimum(np.minimum(flow[..., 0], flow[..., 1]), flow[..., 2]) - V_LOW
    volts = np.minimum(under, V_HIGH - flow[..., 3]) / V_HALF
    heat = np.minimum(1.0 - flow[..., 4] / rating(temperature), 1.0 - flow[..., 5])
    return np.asarray(np.minimum(volts, heat))


@dataclass(slots=True)
class Network:
    """A pandapower network, ready to be solved for one hour after another.

    Parameters
    ----------
    net : the network; its loads and PV are overwritten by every solve
    p, q : (loads,) MW and Mvar as it came
    is_feeder, bus : (loads,) whether a load is on the feeder, and its bus
    plants, share : index of the PV plants, and each one's share of the feeder's output
    """

    net: Any
    p: Array
    q: Array
    is_feeder: Array
    bus: Array
    plants: Any
    share: Array
    lock: Any = field(default_factory=Lock)

    def zone_load(self, load: float, buses: Sequence[int]) -> float:
        """Return the load of a zone in MW where the whole feeder has `load`."""
        zone = np.isin(self.bus, buses)
        return float(load * self.p[zone].sum() / self.p[self.is_feeder].sum())

    def solve(
        self, load: float, pv: float, voltage: float, buses: Sequence[int], shed: float
    ) -> Array:
        """Solve the AC power flow with `shed` MW taken off a zone: (6,) as `FLOW` names them.

        The zone's loads keep their power factor. NaN where Newton's method finds no solution.
        """
        from pandapower import LoadflowNotConverged, runpp

        level = load / self.p[self.is_feeder].sum()
        scale = np.where(self.is_feeder, level, OTHERS * level)
        zone = np.isin(self.bus, buses)
        scale[zone] *= 1.0 - shed / (self.p * scale)[zone].sum()
        with self.lock:
            net = self.net
            net.load["p_mw"], net.load["q_mvar"] = self.p * scale, self.q * scale
            net.sgen.loc[self.plants, "p_mw"] = pv * self.share
            net.ext_grid["vm_pu"] = voltage
            try:
                # The matrices stay as they are, and Newton starts from the last hour's voltages.
                runpp(net, numba=False, recycle={"bus_pq": True, "gen": True, "trafo": False})
            except LoadflowNotConverged:
                runpp_afresh(net)
            return _read(net)


def runpp_afresh(net: Any) -> None:
    """Solve from a flat start; without a solution the results are NaN."""
    from pandapower import LoadflowNotConverged, runpp

    try:
        runpp(net, numba=False, init="flat")
    except LoadflowNotConverged:
        for table in ("res_bus", "res_line", "res_trafo"):
            net[table].loc[:, :] = np.nan


def _read(net: Any) -> Array:
    volts = net.res_bus["vm_pu"][net.bus["vn_kv"] < _HIGH_KV]
    rest = volts.drop(index=[*_NEAR, *_FAR])
    lines, trafos = net.res_line["loading_percent"], net.res_trafo["loading_percent"]
    found = [
        volts.loc[list(_NEAR)].min(skipna=False),
        volts.loc[list(_FAR)].min(skipna=False),
        rest.min(skipna=False),
        volts.max(skipna=False),
        lines.max(skipna=False) / 100.0,
        trafos.max(skipna=False) / 100.0,
    ]
    return np.array(found, dtype=float)


@lru_cache(maxsize=4)
def open_network(name: str = CIGRE) -> Network:
    """Return a network by name, or from a file that pandapower's `to_json` wrote.

    A file must hold the same network in its present state: the benchmark's buses, loads and PV
    plants, lines switched as they are now. It is read once.
    """
    try:
        import pandapower
        from pandapower.networks import create_cigre_network_mv
    except ImportError as error:
        raise InvalidInput(
            'network: solving a power flow needs pandapower; pip install "gdcb[domains]"'
        ) from error
    if name == CIGRE:
        return prepare(create_cigre_network_mv(with_der="pv_wind"))
    if not Path(name).is_file():
        raise InvalidInput(f"network: expected '{CIGRE}' or a file of pandapower's, got '{name}'")
    try:
        net = pandapower.from_json(name)
    except Exception as error:  # broken files have many exceptions
        raise InvalidInput(f"network: '{name}' cannot be read ({error})") from error
    return prepare(net)


def prepare(net: Any) -> Network:
    """Check a pandapower network and return it ready to be solved; refuse what cannot be."""
    from pandapower.topology import unsupplied_buses

    for table in ("bus", "load", "line", "trafo", "ext_grid", "sgen"):
        if not hasattr(net, table) or net[table].empty:
            raise InvalidInput(f"network: it has no {table}")
    missing = [bus for bus in FEEDER if bus not in net.bus.index]
    if missing:
        raise InvalidInput(f"network: missing bus {', '.join(map(str, missing))}")
    astray = sorted(set(net.load["bus"]) - set(net.bus.index))
    if astray:
        raise InvalidInput(f"network: a load hangs on bus {astray[0]}, which there is not")
    unfed = sorted(int(bus) for bus in unsupplied_buses(net))
    if unfed:
        buses = ", ".join(map(str, unfed))
        raise InvalidInput(f"network: bus {buses} is not supplied: an island")
    p, q = (np.array(net.load[column], dtype=float) for column in ("p_mw", "q_mvar"))
    if not np.isfinite(p).all() or (p < 0.0).any():
        raise InvalidInput("network: expected loads of 0 MW and more, got one that is not")
    bus = np.array(net.load["bus"])
    is_feeder = np.isin(bus, FEEDER)
    if not is_feeder.any() or p[is_feeder].sum() <= 0.0:
        raise InvalidInput("network: no load on the feeder")
    plants = net.sgen.index[net.sgen["type"] == "PV"]
    rated = np.array(net.sgen.loc[plants, "p_mw"], dtype=float)
    if rated.size == 0 or rated.sum() <= 0.0:
        raise InvalidInput("network: no PV on the feeder")
    net.sgen.loc[net.sgen["type"] != "PV", "in_service"] = False  # a calm hour
    runpp_afresh(net)
    if not np.isfinite(net.res_bus["vm_pu"]).all():
        raise InvalidInput("network: the power flow has no solution as it stands")
    return Network(net, p, q, is_feeder, bus, plants, rated / rated.sum())
