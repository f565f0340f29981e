"""The gate that asks the network itself: an AC power flow for every shed that is proposed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.gates.base import HardGate, require_number, status_of
from gdcb.instances.grid.columns import ZONES
from gdcb.instances.grid.network import CIGRE, Network, margin_of, open_network
from gdcb.parts import (
    Column,
    check_number,
    check_settings,
    check_text,
    column,
    take,
    take_all,
)
from gdcb.records import Rows

SLACK = 1e-6  # margin that a boundary keeps: solves agree to 1e-8, and must not undo each other


@dataclass(frozen=True)
class PowerFlow(HardGate):
    """Let a shed run only if the AC power flow behind it keeps every limit.

    A shed e is feasible if 0 ≤ e ≤ flexible(x), Newton's method converges and the margin
    m(e, x) ≥ 0: voltages within 0.9 and 1.1 p.u., lines within their rating at this temperature,
    transformers within theirs. A feasible shed passes. An infeasible one is moved to the nearest
    feasible shed: the set is taken to be an interval, whose ends are found to
    `tolerance`. Where nothing is feasible nothing runs. What leaves the gate has been solved.

    Parameters
    ----------
    load, pv, voltage, temperature, flexible : context columns: MW of the feeder, MW of its PV, p.u.
        at the 110 kV busbar, °C, MW that the zone can shed
    zone : context columns that say the zone, one a zone, a 1 among zeros
    network : 'cigre-mv', or a file that pandapower's `to_json` wrote: the same network as it is
        switched now. It is read at the first question
    tolerance : MW to which the ends of the interval are found
    grid : points between 0 and flexible(x) that are tried before it is said that none is feasible
    action : action column that holds the shed, MW

    Notes
    -----
    Assumes: loads of the feeder keep the proportions and power factors of the benchmark, and a zone
    sheds evenly. Shedding more raises voltages and lowers currents, so that feasible sheds are an
    interval; PV that pushes power back closes it from above.

    Stops applying: it judges the steady state of one hour. It knows no protection, no flicker, no
    imbalance of phases and no dynamics, and nothing of other zones that shed in the same hour. In a
    set with holes what leaves is still feasible, and not always the nearest.

    A solve takes 5 to 40 ms. One projection makes one an arm where all are feasible, else at most
    some 6·log₂(flexible/tolerance) + grid more for each row, and mostly some six.

    Examples
    --------
    What is asked of the network is the margin; here it is 1 − |e − 0.5|·4 without one: feasible
    from 0.25 to 0.75.

    >>> gate = PowerFlow(load=0, pv=1, voltage=2, temperature=3, flexible=4, zone=(5,))
    >>> ends = gate.interval(lambda e: 1.0 - abs(e - 0.5) * 4.0, 1.0)
    >>> [round(end, 3) for end in ends]
    [0.25, 0.75]
    """

    load: Column = column("load")
    pv: Column = column("pv")
    voltage: Column = column("voltage")
    temperature: Column = column("temperature")
    flexible: Column = column("flexible")
    zone: tuple[Column, ...] = column(("zone",))
    network: str = CIGRE
    tolerance: float = 1e-3
    grid: int = 8
    action: int = 0
    name: str = "power flow"
    version: str = "1"

    keeps_nan: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_settings(self, "gate")
        where = f"gate '{self.name}'"
        check_text(f"{where}: network", self.network)
        check_number(f"{where}: tolerance", self.tolerance, 0.0, 0.1, open_low=True)
        check_number(f"{where}: grid", self.grid, 1)

    def check(self, columns: Sequence[Any]) -> None:
        """Refuse where there is no such number among the action's columns."""
        super().check(columns)
        require_number(columns, self.action, self.name)
        if all(isinstance(one, int) for one in self.zone) and len(self.zone) not in (
            1,
            len(ZONES),
        ):
            raise InvalidInput(f"gate '{self.name}': zone: expected {len(ZONES)} columns")

    @classmethod
    def example(cls) -> PowerFlow:
        """Return one that can be checked in a moment: its search, on one line without a solver."""
        return _OneLine()

    def apply(self, draws: Array | None, e: Array, rows: Rows) -> tuple[Array, Array]:
        """Project once: with an `apply` of its own the gate is not tried out beforehand."""
        left = self.project(e[:, None, :], rows)[:, 0]
        return left, status_of(e, left)

    def project(self, e: Array, rows: Rows) -> Array:
        """Return the nearest feasible sheds; NaN where there is none, and where nothing came."""
        left = e.copy()
        asked: dict[bytes, Any] = {}  # a context that comes again is not solved again
        for i in range(rows.n):
            row = rows.take(np.array([i]))
            key = row.x.tobytes()
            if key not in asked:
                asked[key] = self.asked(row)
            left[i, :, self.action] = self._row(e[i, :, self.action], row, asked[key])
        gone = ~np.isfinite(left[..., self.action])
        left[gone] = np.nan
        return left

    def _row(self, sheds: Array, row: Rows, ask: Any) -> Array:
        """Return what may run instead of the sheds (M,) of one row; `ask` says their margins."""
        most = self.most(row)
        out = np.full(sheds.shape, np.nan)
        ends: tuple[float, float] | None = None
        for k, shed in enumerate(sheds):
            if not np.isfinite(shed):
                continue
            if 0.0 <= shed <= most and ask(float(shed)) >= 0.0:
                out[k] = shed
                continue
            ends = self.interval(ask, most) if ends is None else ends
            near = min(max(float(shed), ends[0]), ends[1])
            if ends[0] <= ends[1]:
                # Between the ends nothing was solved yet: in a hole an end takes its place.
                out[k] = near if ask(near) >= 0.0 else _nearer(shed, *ends)
        return out

    def interval(self, margin: Any, most: float) -> tuple[float, float]:
        """Return the least and the greatest feasible shed up to `most`; (inf, −inf): none.

        `margin` says the margin of a shed. Both ends are feasible themselves.
        """
        if not most >= 0.0:
            return np.inf, -np.inf
        tried = np.linspace(0.0, most, int(self.grid) + 1)
        if margin(most) >= SLACK:
            inside = most
        else:
            inside = next((s for s in tried[::-1].tolist() if margin(s) >= SLACK), np.nan)
            if np.isnan(inside):
                return np.inf, -np.inf
        high = inside if inside == most else self._end(margin, inside, most)
        low = 0.0 if margin(0.0) >= SLACK else self._end(margin, inside, 0.0)
        return low, high

    def _end(self, margin: Any, inside: float, outside: float) -> float:
        """Return a feasible shed within `tolerance` of the boundary between two.

        Margins are nearly straight: it is looked for on both sides of where the line between the
        two crosses 0, and then in the middle, so that what is left is halved in any case. Sheds are
        rounded, else the last digits of a solver, which remembers what it solved before, show.
        """
        step = self.tolerance / 16.0
        while abs(outside - inside) > self.tolerance:
            width, start = outside - inside, inside
            above, below = margin(inside) - SLACK, margin(outside) - SLACK
            cross = above / (above - below) if np.isfinite(below) else 0.5
            near = 0.4 * self.tolerance / abs(width)
            for share in (cross - near, cross + near, 0.5):
                left = (outside - start) / width
                if abs(outside - inside) <= self.tolerance or not 0.0 < share < left:
                    continue
                shed = step * round((start + share * width) / step)
                if not abs(inside - start) < abs(shed - start) < abs(outside - start):
                    continue  # known
                inside, outside = (shed, outside) if margin(shed) >= SLACK else (inside, shed)
        return inside

    def most(self, row: Rows) -> float:
        """Return what can be shed at the most: what is flexible, and never more than there is."""
        network = self.open()
        size = network.zone_load(float(take(row.x, self.load)[0]), self.buses(row))
        return min(float(take(row.x, self.flexible)[0]), size)

    def asked(self, row: Rows) -> Any:
        """Return the margin of one row as a function of the shed; a solve is made once."""
        network, seen = self.open(), dict[float, float]()
        load, pv, voltage, heat = (
            float(take(row.x, one)[0])
            for one in (self.load, self.pv, self.voltage, self.temperature)
        )
        buses = self.buses(row)

        def margin(shed: float) -> float:
            if shed not in seen:
                flow = network.solve(load, pv, voltage, buses, shed)
                found = float(margin_of(flow, np.array(heat)))
                seen[shed] = found if np.isfinite(found) else -np.inf
            return seen[shed]

        return margin

    def open(self) -> Network:
        """Return the network; refuse one that is not there, or is not whole."""
        return open_network(self.network)

    def buses(self, row: Rows) -> tuple[int, ...]:
        """Return the buses of a row's zone."""
        said = np.flatnonzero(take_all(row.x, self.zone)[0] == 1.0)
        if said.size != 1 or said[0] >= len(ZONES):
            raise InvalidInput(f"gate '{self.name}': a row must say one zone of {len(ZONES)}")
        return tuple(ZONES.values())[int(said[0])]

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        """Name the limit that the proposal would have broken."""
        shed, most = float(entered[self.action]), self.most(row)
        if not np.isfinite(left).all():
            return f"no shed from 0 to {most:.3g} MW keeps voltages and loadings within limits"
        if shed < 0.0:
            return f"{shed:.3g} MW is less than nothing"
        if shed > most:
            return f"{shed:.3g} MW is more than the {most:.3g} MW that the zone can shed"
        if (entered == left).all():
            return "the power flow keeps all limits"
        return f"{shed:.3g} MW would leave {self._broken(shed, row)}"

    def _broken(self, shed: float, row: Rows) -> str:
        """Say what a power flow breaks, in words."""
        network = self.open()
        load, pv, voltage, heat = (
            float(take(row.x, one)[0])
            for one in (self.load, self.pv, self.voltage, self.temperature)
        )
        flow = network.solve(load, pv, voltage, self.buses(row), shed)
        return words_of(flow, heat)


@dataclass(frozen=True)
class _OneLine(PowerFlow):
    """The same gate on one line that carries load − PV − shed of at most `voltage`."""

    def most(self, row: Rows) -> float:
        """Return what is flexible."""
        return float(take(row.x, self.flexible)[0])

    def asked(self, row: Rows) -> Any:
        """Return what the line could still carry; what flows back counts as well."""
        load, pv, most = (float(take(row.x, one)[0]) for one in (self.load, self.pv, self.voltage))
        return lambda shed: most - abs(load - pv - shed)

    def _broken(self, shed: float, row: Rows) -> str:
        return f"the line {-self.asked(row)(shed):.3g} beyond its rating"


def words_of(flow: Array, temperature: float) -> str:
    """Say which limit flows (6,) break.

    >>> words_of(np.array([0.89, 0.95, 1.0, 1.01, 0.9, 0.7]), 20.0)
    'a voltage of 0.890 p.u., below 0.9'
    """
    from gdcb.instances.grid.columns import V_HIGH, V_LOW, rating

    if not np.isfinite(flow).all():
        return "a network without a solution of its power flow"
    line = float(flow[4] / rating(np.array(temperature)))
    if flow[:3].min() < V_LOW:
        return f"a voltage of {flow[:3].min():.3f} p.u., below {V_LOW:g}"
    if flow[3] > V_HIGH:
        return f"a voltage of {flow[3]:.3f} p.u., above {V_HIGH:g}"
    if line > 1.0:
        return f"a line at {line:.1%} of its rating at {temperature:.3g} °C"
    if flow[5] > 1.0:
        return f"a transformer at {float(flow[5]):.1%} of its rating"
    return "no limit broken"


def _nearer(shed: float, low: float, high: float) -> float:
    return low if abs(shed - low) <= abs(shed - high) else high
