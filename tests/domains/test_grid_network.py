"""The network and its table: held to fresh power flows of pandapower."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import pytest

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instances.grid.columns import ZONES, rating
from gdcb.instances.grid.network import FLOW, Network, margin_of, open_network, prepare
from gdcb.instances.grid.table import between, feasible, stored
from gdcb.instances.grid.tabulate import LOAD, PV, SHARE, VOLTAGE
from tests.parts.builders import rng_of

BUSES = tuple(ZONES.values())
# Between the table's points the error is of second order in its steps. In the 200 points of
# `benchmarks/grid.py` it is 1.6e-4 p.u. of voltage, 0.45 % of a rating (where PV leaves a line
# nearly without current) and 1.6e-3 of the margin at the most; here with some room. A margin of
# 0.003 is worth 0.012 MW of shed, a sixteenth of the step between two arms.
VOLTS, LOADING, MARGIN = 3e-4, 6e-3, 3e-3


@pytest.fixture(scope="module")
def network() -> Network:
    """Return the benchmark network; reading it takes some seconds."""
    return open_network()


@cache
def _benchmark() -> Any:
    from pandapower.networks import create_cigre_network_mv

    return create_cigre_network_mv(with_der="pv_wind")


def benchmark() -> Any:
    """Return the network as pandapower ships it: a copy, since making it takes a while."""
    return deepcopy(_benchmark())


def afresh(load: float, pv: float, voltage: float, zone: int, shed: float) -> Array:
    """Solve a network of its own, straight from pandapower: nothing of ours but the question."""
    import pandapower

    net = benchmark()
    net.sgen.loc[net.sgen["type"] != "PV", "in_service"] = False
    plants = net.sgen["type"] == "PV"
    net.sgen.loc[plants, "p_mw"] *= pv / net.sgen.loc[plants, "p_mw"].sum()
    feeder, mine = net.load["bus"].between(3, 11), net.load["bus"].isin(BUSES[zone])
    level = load / net.load.loc[feeder, "p_mw"].sum()
    for column in ("p_mw", "q_mvar"):
        net.load.loc[feeder, column] *= level
        net.load.loc[~feeder, column] *= 0.7 * level
    kept = 1.0 - shed / net.load.loc[mine, "p_mw"].sum()
    for column in ("p_mw", "q_mvar"):
        net.load.loc[mine, column] *= kept
    net.ext_grid["vm_pu"] = voltage
    pandapower.runpp(net, numba=False)
    volts, lines = net.res_bus["vm_pu"], net.res_line["loading_percent"]
    found = [
        volts.loc[3:6].min(),
        volts.loc[7:11].min(),
        volts.loc[[1, 2, 12, 13, 14]].min(),
        volts.loc[1:].max(),
        lines.max() / 100.0,
        net.res_trafo["loading_percent"].max() / 100.0,
    ]
    return np.array(found)


def test_recycled_solves_are_fresh_ones(network: Network) -> None:
    """Warm starts on kept matrices agree with a new network to 1e-7, in any order."""
    rng = rng_of(1)
    for _ in range(4):
        load, pv, voltage = rng.uniform(3, 6.5), rng.uniform(0, 2.5), rng.uniform(0.99, 1.03)
        zone, shed = int(rng.integers(8)), rng.uniform(0, 0.5)
        mine = network.solve(load, pv, voltage, BUSES[zone], shed)
        assert np.allclose(mine, afresh(load, pv, voltage, zone, shed), atol=1e-7)


def test_the_table_is_the_network_between_its_points(network: Network) -> None:
    """40 random hours and sheds: voltages, loadings and margins within the stated tolerances."""
    rng, table, n = rng_of(2), stored(), 40
    zone = rng.integers(0, 8, n)
    load, pv = rng.uniform(3.5, 6.0, n), rng.uniform(0.0, 2.5, n)
    voltage, heat = rng.uniform(0.99, 1.03, n), rng.uniform(0.0, 42.0, n)
    share = rng.uniform(0.0, 0.9, n)
    shed = share * table.zone_load(zone, load)
    fresh = np.array(
        [network.solve(load[i], pv[i], voltage[i], BUSES[zone[i]], shed[i]) for i in range(n)]
    )
    at = (share / (table.share[1] - table.share[0]))[:, None]
    flow = table.profiles(zone, load, pv, voltage)
    found = np.stack([between(flow[..., k], at)[:, 0] for k in range(len(FLOW))], axis=1)
    assert np.abs(found - fresh)[:, :4].max() < VOLTS
    assert np.abs(found - fresh)[:, 4:].max() < LOADING
    margin, volts = table.margins(zone, load, pv, voltage, heat)
    place = (share / table.step)[:, None]
    assert np.abs(between(margin, place)[:, 0] - margin_of(fresh, heat)).max() < MARGIN
    assert np.abs(between(volts, place)[:, 0] - fresh[:, :3].min(axis=1)).max() < VOLTS


def test_the_stored_table_is_what_tabulate_makes(network: Network) -> None:
    """At 12 of its points, to the digits of a 32-bit number; its axes are those of the module."""
    rng, table = rng_of(3), stored()
    axes = ((table.voltage, VOLTAGE), (table.load, LOAD), (table.pv, PV), (table.share, SHARE))
    for mine, theirs in axes:
        assert mine.tolist() == theirs.tolist()
    for z in range(8):
        assert table.size[z] == pytest.approx(network.zone_load(1.0, BUSES[z]), abs=1e-12)
    for _ in range(12):
        at = tuple(int(rng.integers(0, size)) for size in table.flow.shape[:5])
        z, v, i, j, k = at
        shed = SHARE[k] * network.zone_load(LOAD[i], BUSES[z])
        again = network.solve(LOAD[i], PV[j], VOLTAGE[v], BUSES[z], shed)
        assert np.allclose(table.flow[at], again, atol=1e-6)


def test_shedding_helps_and_the_limits_bind() -> None:
    """At every hour of the table a shed raises the least headroom, until the PV's voltage does."""
    table = stored()
    margin = margin_of(table.flow, np.full(table.flow.shape[:-1], 28.0))
    at_peak = margin[:, :, 4:, 0]  # 5 MW and more, no sun
    assert (np.diff(at_peak, axis=-1) > 0).all()
    assert (at_peak[..., 0] < 0).any()
    assert (at_peak[..., -1] > 0).any()


def test_the_margin_is_the_least_headroom() -> None:
    """Each limit by hand: 0.1 p.u. is a unit, and so is a whole rating at this temperature."""
    flow = np.array([0.95, 0.96, 0.97, 1.0, 0.5, 0.5])
    cool, hot = np.array(20.0), np.array(37.5)
    cases = [(0, 0.92, 0.2), (1, 0.89, -0.1), (2, 0.9, 0.0), (3, 1.08, 0.2), (5, 0.9, 0.1)]
    for at, value, expected in cases:
        one = flow.copy()
        one[at] = value
        assert margin_of(one, cool) == pytest.approx(expected, abs=1e-12)
    flow[4] = 0.9
    assert margin_of(flow, cool) == pytest.approx(0.1)
    assert margin_of(flow, hot) == pytest.approx(1.0 - 0.9 / np.sqrt(0.75))
    assert np.isnan(margin_of(np.full(6, np.nan), cool))
    assert rating(np.array([90.0])).tolist() == [0.0]


def test_feasible_sheds_by_hand() -> None:
    """Crossings are linear; an interval may be closed from above; a point may be all of it."""
    margin = np.array(
        [[-0.3, 0.1, 0.2], [0.1, 0.2, 0.3], [0.3, 0.1, -0.1], [-1.0, 0.0, -1.0], [-3.0, -2.0, -1.0]]
    )
    low, high = feasible(margin)
    assert np.allclose(low, [0.75, 0.0, 0.0, 1.0, np.inf])
    assert np.allclose(high, [2.0, 2.0, 1.5, 1.0, -1.0])


def broken(change: str) -> Any:
    """Return the benchmark network with something wrong."""
    net = benchmark()
    if change == "island":
        net.line.loc[net.line["from_bus"] == 9, "in_service"] = False
    elif change == "bus":
        net.bus = net.bus.drop(index=11)
        net.line = net.line[(net.line["to_bus"] != 11) & (net.line["from_bus"] != 11)]
    elif change == "astray":
        net.load.loc[0, "bus"] = 99
    elif change == "negative":
        net.load.loc[3, "p_mw"] = -1.0
    elif change == "lines":
        net.line = net.line.iloc[:0]
    elif change == "sun":
        net.sgen = net.sgen.iloc[:0]
    elif change == "heavy":
        net.load["p_mw"] *= 60.0
    return net


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("island", "network: bus 10, 11 is not supplied: an island"),
        ("bus", "network: missing bus 11"),
        ("astray", "network: a load hangs on bus 99, which there is not"),
        ("negative", "network: expected loads of 0 MW and more"),
        ("lines", "network: it has no line"),
        ("sun", "network: it has no sgen"),
        ("heavy", "network: the power flow has no solution as it stands"),
    ],
)
def test_networks_that_cannot_be_are_refused(change: str, message: str) -> None:
    """An island, a missing bus, a wrong index: by name, before anything is solved."""
    with pytest.raises(InvalidInput, match=message):
        prepare(broken(change))


def test_a_network_comes_from_a_file_too(tmp_path: Any, network: Network) -> None:
    """What pandapower writes is read; what is no network is refused."""
    import pandapower

    path = tmp_path / "now.json"
    pandapower.to_json(broken("nothing"), str(path))
    same = open_network(str(path))
    question = (5.0, 0.5, 1.01, BUSES[7], 0.3)
    assert np.allclose(same.solve(*question), network.solve(*question), atol=1e-7)
    with pytest.raises(InvalidInput, match="expected 'cigre-mv' or a file"):
        open_network(str(tmp_path / "none.json"))
    bad = tmp_path / "bad.json"
    bad.write_text("no network")
    with pytest.raises(InvalidInput, match="cannot be read"):
        open_network(str(bad))


def test_without_a_solution_flows_are_not_numbers(network: Network) -> None:
    """Sixty times the load: Newton's method fails, and the next question is answered again."""
    before = network.solve(5.0, 0.0, 1.01, BUSES[0], 0.2)
    assert np.isnan(network.solve(300.0, 0.0, 1.01, BUSES[0], 0.2)).all()
    assert np.allclose(network.solve(5.0, 0.0, 1.01, BUSES[0], 0.2), before, atol=1e-7)
