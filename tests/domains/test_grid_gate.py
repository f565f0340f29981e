"""The power-flow gate: what it lets through has been solved, and says why it did not."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdcb.instances.grid
from gdcb import Agent, declaration
from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.checks.lists import report
from gdcb.declaration import Declaration
from gdcb.errors import InvalidInput
from gdcb.instances.grid import gate as gates
from gdcb.instances.grid import learners
from gdcb.instances.grid.columns import LIVE, ZONES, hour_columns
from gdcb.instances.grid.gate import PowerFlow, words_of
from gdcb.instances.grid.network import margin_of
from gdcb.records import MODIFIED, PASSED, STATUS, Rows
from tests.properties import examples

TOML = Path(gdcb.instances.grid.__file__).parent / "grid.toml"
PARTS = {
    "gdcb.gates": ("power-flow", "gdcb.instances.grid.gate:PowerFlow"),
    "gdcb.bandits": ("normal-curve-thompson", "gdcb.bandits.normal_curve:NormalCurveThompson"),
}


@pytest.fixture(scope="module")
def declared() -> Iterator[Declaration]:
    """Return the live instance, its two parts registered whether they are installed so or not."""
    declaration._entry_points.cache_clear()
    for group, (name, value) in PARTS.items():
        declaration._entry_points(group).setdefault(name, [EntryPoint(name, value, group)])
    yield declaration.read(TOML)
    declaration._entry_points.cache_clear()


def hour(**changes: Any) -> dict[str, Any]:
    """Return a hot evening hour in which something must be shed, changed as asked."""
    sine, cosine = hour_columns(np.array(19.0))
    told = {
        "load": 4.6,
        "temperature": 32.0,
        "sine": float(sine),
        "cosine": float(cosine),
        "pv": 0.1,
        "voltage": 1.01,
        "flexible": 0.92,
        "zone": "10-11",
    }
    return told | changes


def rows_of(*hours: dict[str, Any]) -> Rows:
    """Return hours as rows of the live instance."""
    n = len(hours)
    return Rows(np.arange(n), np.zeros(n, dtype=np.int64), LIVE.encode(list(hours)))


def margin_at(gate: PowerFlow, rows: Rows, shed: float) -> float:
    """Solve a shed of the first row from a flat start, apart from what the gate remembers."""
    from gdcb.instances.grid.network import _read, runpp_afresh

    network, x = gate.open(), rows.x[0]
    names = LIVE.names
    load, pv, voltage, heat = (
        float(x[names.index(name)]) for name in ("load", "pv", "voltage", "temperature")
    )
    network.solve(load, pv, voltage, gate.buses(rows), shed)
    runpp_afresh(network.net)
    return float(margin_of(_read(network.net), np.array(heat)))


def test_the_nearest_feasible_shed_runs(declared: Declaration) -> None:
    """Too little is raised to the boundary, too much lowered to what there is, the rest stays."""
    gate = declared.instance.chain.gates[0]
    assert isinstance(gate, PowerFlow)
    rows = rows_of(hour())
    left = gate.project(np.array([[[-1.0], [0.1], [0.9], [5.0], [np.nan]]]), rows)[0, :, 0]
    low = left[0]
    assert left[1] == low
    assert 0.1 < low < 0.9
    assert margin_at(gate, rows, low) >= 0.0
    assert margin_at(gate, rows, low - 2 * gate.tolerance) < 0.0
    assert left[2:4].tolist() == [0.9, 0.92]
    assert np.isnan(left[4])


def test_what_passed_once_passes_again(declared: Declaration) -> None:
    """The gate is idempotent, to the last bit."""
    gate = declared.instance.chain.gates[0]
    rows = rows_of(hour(), hour(load=4.9, zone="3-4"), hour(load=3.9))
    once, _ = gate.apply(None, np.array([[0.0], [0.1], [0.0]]), rows)
    again, status = gate.apply(None, once, rows)
    assert again.tobytes() == once.tobytes()
    assert (status == PASSED).all()


def test_where_nothing_is_feasible_nothing_runs(declared: Declaration) -> None:
    """A veto with its reason; the null action is exempt."""
    instance, rows = declared.instance, rows_of(hour(load=6.4))
    verdict = instance.chain.apply((None,), np.array([[0.5]]), rows)
    assert STATUS[verdict.status[0]] == "vetoed"
    said = instance.chain.gates[0].reason(np.array([0.5]), np.array([np.nan]), rows)
    assert said == "no shed from 0 to 0.92 MW keeps voltages and loadings within limits"
    executed = turn.execute(instance, verdict, rows)
    assert executed.is_null.all()
    assert np.isnan(executed.action).all()


@pytest.mark.parametrize(
    ("shed", "left", "said"),
    [
        (0.1, 0.4, "0.1 MW would leave a line at 1"),
        (-0.2, 0.4, "-0.2 MW is less than nothing"),
        (3.0, 0.92, "3 MW is more than the 0.92 MW that the zone can shed"),
        (0.9, 0.9, "the power flow keeps all limits"),
    ],
)
def test_it_says_why(declared: Declaration, shed: float, left: float, said: str) -> None:
    """In a sentence with the limit and the numbers."""
    gate = declared.instance.chain.gates[0]
    assert gate.reason(np.array([shed]), np.array([left]), rows_of(hour())).startswith(said)


def test_words_of_every_limit() -> None:
    """The limit that is broken, with what it would have been."""
    good = np.array([0.95, 0.95, 0.95, 1.0, 0.8, 0.8])
    assert words_of(good, 20.0) == "no limit broken"
    cases = {3: (1.12, "a voltage of 1.120 p.u., above 1.1"), 5: (1.05, "a transformer at 105.0%")}
    for at, (value, said) in cases.items():
        flow = good.copy()
        flow[at] = value
        assert words_of(flow, 20.0).startswith(said)
    assert words_of(np.full(6, np.nan), 20.0).startswith("a network without a solution")
    assert words_of(good * [1, 1, 1, 1, 1.4, 1], 37.5).startswith("a line at 129.3% of its rating")


wild = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(-1.0, 2.0),
    st.sampled_from([np.nan, np.inf, -np.inf, 1e300, -0.0]),
)


@examples(8)
@given(
    proposals=st.lists(wild, min_size=1, max_size=2),
    load=st.floats(3.0, 6.5),
    heat=st.floats(-20.0, 45.0),
    pv=st.floats(0.0, 2.5),
    voltage=st.floats(0.99, 1.03),
    flexible=st.floats(0.0, 2.5),
    zone=st.sampled_from(list(ZONES)),
)
def test_nothing_infeasible_runs_in_the_real_network(
    declared: Declaration,
    proposals: list[float],
    load: float,
    heat: float,
    pv: float,
    voltage: float,
    flexible: float,
    zone: str,
) -> None:
    """Whatever is proposed: what runs keeps every limit in a power flow from a flat start."""
    instance = declared.instance
    one = hour(load=load, temperature=heat, pv=pv, voltage=voltage, flexible=flexible, zone=zone)
    for proposal in proposals:
        rows = rows_of(one)
        verdict = instance.chain.apply((None,), np.array([[proposal]]), rows)
        executed = turn.execute(instance, verdict, rows)
        shed = executed.action[0, 0]
        if executed.is_null[0]:
            assert np.isnan(shed)
            continue
        assert 0.0 <= shed <= flexible
        assert margin_at(instance.chain.gates[0], rows, shed) >= -1e-7  # type: ignore[arg-type]


def test_an_agent_decides_and_learns_with_it(declared: Declaration) -> None:
    """The file is all that a deployment needs: a decision, its verdict, its outcome."""
    agent = Agent(declared.instance, declared.bandit, seed=7)
    decision = agent.decide(hour())
    assert decision.status in ("passed", "modified")
    assert decision.executed is not None
    assert 0.0 < decision.executed["shed"] <= 0.92
    agent.observe(decision.id, {"net_stability": -2.5})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"load": -1.0}, "context.load: expected 3 to 6.5, got -1.0"),
        ({"temperature": float("nan")}, "context.temperature: expected a finite number, got nan"),
        ({"temperature": "hot"}, "context.temperature: expected a number"),
        ({"pv": 2.6}, "context.pv: expected 0 to 2.5, got 2.6"),
        ({"flexible": -0.1}, "context.flexible: expected 0 to 2.5"),
        ({"voltage": 1.4}, "context.voltage: expected 0.99 to 1.03"),
        ({"zone": "12-13"}, "context.zone: expected one of 3-4, 4-5"),
        ({"sine": 1.5}, r"context.sine: expected -1 to 1, got 1.5"),
        ({"hour": 25}, "context: no column hour"),
    ],
)
def test_hours_that_make_no_sense_are_refused(
    declared: Declaration, change: dict[str, Any], message: str
) -> None:
    """A negative load, a temperature that is none, more sun than panels: by name."""
    agent = Agent(declared.instance, declared.bandit, seed=7)
    with pytest.raises(InvalidInput, match=message):
        agent.decide(hour(**change))


def test_an_hour_of_25_is_refused() -> None:
    """Hours are 0 to 24, and their columns say no other."""
    with pytest.raises(InvalidInput, match="hour: expected 0 to 24, got 25"):
        hour_columns(np.array([3.0, 25.0]))
    with pytest.raises(InvalidInput, match="hour: expected 0 to 24, got nan"):
        hour_columns(np.array([np.nan]))


def test_a_network_that_falls_apart_vetoes(
    declared: Declaration, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An island is no reason to stop a service: nothing is shed, and the sentence says why."""

    def island(name: str) -> Any:
        raise InvalidInput("network: bus 10, 11 is not supplied: an island")

    monkeypatch.setattr(gates, "open_network", island)
    verdict = declared.instance.chain.apply((None,), np.array([[0.5]]), rows_of(hour()))
    assert STATUS[verdict.status[0]] == "vetoed"
    assert "bus 10, 11 is not supplied: an island" in verdict.faults[0, 0]


def test_a_power_flow_without_a_solution_is_infeasible(
    declared: Declaration, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Newton's method fails at every shed, nothing runs."""
    gate = declared.instance.chain.gates[0]
    network = gate.open()  # type: ignore[attr-defined]

    class Failing:
        """A network that has no solution."""

        zone_load = network.zone_load

        def solve(self, *_question: Any) -> Array:
            """Return what a failed solve returns."""
            return np.full(6, np.nan)

    monkeypatch.setattr(gates, "open_network", lambda _name: Failing())
    verdict = declared.instance.chain.apply((None,), np.array([[0.5]]), rows_of(hour()))
    assert STATUS[verdict.status[0]] == "vetoed"
    assert not verdict.faults


def test_a_hole_in_the_set_is_never_entered() -> None:
    """Feasible up to 0.2 and from 0.6 on: between them a proposal goes to an end, which was."""
    gate = dataclasses.replace(PowerFlow(zone=tuple(range(7, 15)), flexible=6), grid=5)

    class Holed(PowerFlow):
        """A gate whose network has a hole."""

        def most(self, row: Rows) -> float:
            """Return what there is."""
            return 0.92

        def asked(self, row: Rows) -> Any:
            """Return the margin of no network."""
            return lambda shed: 0.1 if shed <= 0.2 or shed >= 0.6 else -0.1

    holed = Holed(**{f.name: getattr(gate, f.name) for f in dataclasses.fields(gate)})
    left = holed.project(np.array([[[0.1], [0.35], [0.55], [0.7]]]), rows_of(hour()))[0, :, 0]
    assert left.tolist() == [0.1, 0.0, 0.92, 0.7]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tolerance": 0.0}, "gate 'power flow': tolerance: expected a number > 0"),
        ({"grid": 0}, "gate 'power flow': grid: expected a number >= 1"),
        ({"network": ""}, "gate 'power flow': network: expected a name"),
        ({"zone": "zone"}, r"gate\.zone: expected a tuple of names"),
    ],
)
def test_bad_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    """Settings that cannot work are refused by name."""
    with pytest.raises(InvalidInput, match=message):
        PowerFlow(**changes)


def test_the_file_says_what_the_study_has(declared: Declaration) -> None:
    """Trunk, centre, arms and null action of file and study are the same."""
    from gdcb.instances.grid.domain import instance as simulated

    live, made = declared.instance, simulated()
    assert live.scaler.trunk == made.scaler.trunk  # type: ignore[attr-defined]
    assert live.scaler.centre == made.scaler.centre  # type: ignore[attr-defined]
    assert live.space.coords.tolist() == made.space.coords.tolist()
    assert live.null.mean == made.null.mean
    assert live.scaler.every == learners.EVERY  # type: ignore[attr-defined]
    assert MODIFIED == 1


def test_its_search_keeps_the_promises_of_a_gate() -> None:
    """The conformance list finds nothing, on one line that needs no solver."""
    found = report(PowerFlow.example())
    assert found.is_conforming, str(found)


@pytest.mark.soak
def test_it_keeps_the_promises_of_a_gate_on_the_network(declared: Declaration) -> None:
    """The same list on the real one: some 2,500 power flows."""
    found = report(PowerFlow(tolerance=0.05, grid=2), declared.instance)
    assert found.is_conforming, str(found)
