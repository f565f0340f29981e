"""Hours of a feeder near its limits: what a shed is worth in the solved network, or in a parabola.

With m(e, x) the stability margin of the network (`network.margin_of`) after a shed of e MW:

- `mis`: r = −VOLL·RATED·τ·log(1 + exp(−m/τ)) − price(h)·e. Within the hour the margin swings by a
  logistic law of scale τ, so τ·log(1 + exp(−m/τ)) is the expected part of it that is broken, paid
  with load that is cut off unasked; e is paid at the contract's price.
- `well`: r = LEVEL − STAKE·((e − need − δ*(x))/width)² − price·e, δ*(x) = θᵀ(φ(x) − φ̄) in the
  scaler's family.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.grid import prior
from gdcb.instances.grid.columns import (
    COSINE,
    FLEXIBLE,
    HIGH,
    INSTALLED,
    LOAD,
    LOW,
    N_ZONES,
    PV,
    SCHEMA,
    SINE,
    TEMPERATURE,
    VOLTAGE,
    ZONE,
    hour_columns,
)
from gdcb.instances.grid.features import activations, head
from gdcb.instances.grid.table import Table, between, feasible, stored
from gdcb.parts import check_choice
from gdcb.records import Rows
from gdcb.streams import Stream

_AROUND = np.linspace(0.0, 1.0, 41)[:, None]  # candidates, as a share of what can be shed


@dataclass(slots=True)
class Zones:
    """The network of every zone, its customers, and what is at stake.

    Parameters
    ----------
    voll, price, swing : (units,) value of lost load, price a MWh, scale τ of the margin's law
    peak, cooling, voltage, panels, summer : (units,) of its network: MW, MW a °C, p.u., MW, °C
    flexible : (units,) share of the zone's load that can be shed
    need, width, theta : (units,), (units,), (units, d) of the stylised truth; no θ in `mis`
    """

    voll: Array
    price: Array
    swing: Array
    peak: Array
    cooling: Array
    voltage: Array
    panels: Array
    summer: Array
    flexible: Array
    need: Array
    width: Array
    theta: Array


@dataclass(frozen=True)
class Feeder:
    """The world of demand response; a row is an hour in which one zone is called.

    Parameters
    ----------
    variant : 'well' or 'mis'
    """

    variant: str = "mis"

    def __post_init__(self) -> None:
        check_choice("variant", self.variant, ("well", "mis"))

    @property
    def table(self) -> Table:
        """The network's response."""
        return stored()

    def start(self, rng: Stream, group: Array) -> Zones:
        """Draw the networks, then their zones."""
        n = group.size
        first = np.searchsorted(group, group)  # the first zone of its network draws for all
        z, u = rng.normal(n, 8)[first], rng.uniform(n, 2)[first]
        own, flexible = rng.normal(n, 3), rng.uniform(n)
        theta = np.zeros((n, 0))
        if self.variant == "well":
            law = head()
            theta = law.mean + law.sd * rng.normal(n, law.mean.size)[first]
        low, high = prior.FLEXIBLE
        return Zones(
            voll=prior.VOLL * np.exp(prior.VOLL_SD * z[:, 0]),
            price=prior.PRICE * np.exp(prior.PRICE_SD * z[:, 1] + prior.PRICE_OWN * own[:, 0]),
            swing=prior.SWING * np.exp(prior.SWING_SD * z[:, 2] + prior.SWING_OWN * own[:, 1]),
            peak=prior.PEAK + prior.PEAK_SD * z[:, 3],
            cooling=prior.COOLING * np.exp(prior.COOLING_SD * z[:, 4]),
            voltage=_within(prior.VOLTAGE, u[:, 0]),
            panels=_within(prior.PANELS, u[:, 1]),
            summer=prior.SUMMER + prior.SUMMER_SD * z[:, 5],
            flexible=low + (high - low) * flexible,
            need=prior.NEED + prior.NEED_SD * z[:, 6] + prior.NEED_OWN * own[:, 2],
            width=prior.WIDTH * np.exp(prior.WIDTH_SD * z[:, 7]),
            theta=theta,
        )

    def context(self, rng: Stream, state: Zones, t: int, group: Array) -> Rows:
        """Reveal an hour of every zone, its own; hidden: margin and voltage along the sheds."""
        n = group.size
        u, z = rng.uniform(n, 2), rng.normal(n, 2)
        zone = np.arange(n) % N_ZONES
        first, last = prior.HOURS
        hour = first + np.floor(u[:, 0] * (last - first + 1))
        x = np.zeros((n, SCHEMA.width))
        x[:, SINE], x[:, COSINE] = hour_columns(hour)
        afternoon = np.cos(2.0 * np.pi * (hour - 15.0) / 24.0)
        heat = state.summer + prior.SWAY * afternoon + prior.WEATHER_SD * z[:, 0]
        x[:, TEMPERATURE] = np.clip(heat, 5.0, 42.0)
        warm = np.maximum(x[:, TEMPERATURE] - prior.WARM, 0.0)
        load = state.peak + state.cooling * warm + prior.LOAD_SD * z[:, 1]
        # An hour is flagged for what the lines carry: where the sun helps, load is higher.
        sun = np.maximum(np.cos(2.0 * np.pi * (hour - 13.0) / 28.0), 0.0) ** 1.5
        x[:, PV] = np.minimum(state.panels * sun * np.sqrt(u[:, 1]), INSTALLED)
        x[:, LOAD] = np.clip(load + 0.5 * state.panels * sun, 3.5, 6.0)
        x[:, VOLTAGE] = state.voltage
        x[np.arange(n), ZONE + zone] = 1.0
        margin, volts = self.table.margins(
            zone, x[:, LOAD], x[:, PV], state.voltage, x[:, TEMPERATURE]
        )
        size = self.table.zone_load(zone, x[:, LOAD])
        x[:, FLEXIBLE] = state.flexible * size
        low, high = feasible(margin)
        step = size * self.table.step
        x[:, LOW] = np.where(np.isinf(low), SCHEMA_LOW, low * step)
        x[:, HIGH] = np.where(high < 0.0, -1.0, np.minimum(high * step, x[:, FLEXIBLE]))
        hidden = np.concatenate((step[:, None], margin, volts), axis=1)
        return Rows(np.arange(n), group, x, hidden=hidden)

    def along(self, rows: Rows, shed: Array) -> tuple[Array, Array]:
        """Return margin and lowest voltage (N, M) after sheds (N, M) that the zone has."""
        s = self.table.n_shares
        hidden = np.asarray(rows.hidden)
        at = shed / hidden[:, :1]
        return between(hidden[:, 1 : 1 + s], at), between(hidden[:, 1 + s : 1 + 2 * s], at)

    def margin(self, rows: Rows, shed: Array) -> Array:
        """Return the margin (N, M) after sheds (N, M) that the zone has."""
        hidden = np.asarray(rows.hidden)
        return between(hidden[:, 1 : 1 + self.table.n_shares], shed / hidden[:, :1])

    def shed_of(self, e: Array, rows: Rows) -> Array:
        """Return what is shed (N, M) where e (N, M, 1) is ordered: never below 0, or not there."""
        return np.minimum(np.maximum(e[..., 0], 0.0), rows.x[:, FLEXIBLE, None])

    def price(self, state: Zones, rows: Rows) -> Array:
        """Return the price of an interruption in this hour: (N,)."""
        dear = prior.EVENING * prior.evening(rows.x[:, COSINE], rows.x[:, SINE])
        return np.asarray(state.price[rows.unit] * (1.0 + dear))

    def mean(self, state: Zones, e: Array, rows: Rows) -> Array:
        """Return μ(e, x) of sheds (N, M, 1): (N, M); reserve where nothing runs."""
        is_none = np.isnan(e[..., 0])
        shed = self.shed_of(np.where(is_none[..., None], 0.0, e), rows)
        value = self._stability(state, shed, rows) - self.price(state, rows)[:, None] * shed
        return np.where(is_none, prior.RESERVE, value)

    def _stability(self, state: Zones, shed: Array, rows: Rows) -> Array:
        u = rows.unit
        if self.variant == "well":
            gap = (shed - self.need(state, rows)[:, None]) / state.width[u, None]
            return np.asarray(prior.LEVEL - prior.STAKE * gap**2)
        swing = state.swing[u, None]
        broken = np.logaddexp(0.0, -self.margin(rows, shed) / swing)
        return np.asarray(-prior.RATED * state.voll[u, None] * swing * broken)

    def need(self, state: Zones, rows: Rows) -> Array:
        """Return the shed (N,) at which the parabola of `well` is highest, before its price."""
        return np.asarray(state.need[rows.unit] + self._delta(state, rows))

    def _delta(self, state: Zones, rows: Rows) -> Array:
        return np.asarray((state.theta[rows.unit] * activations(rows.x)).sum(axis=1))

    def best(self, state: Zones, rows: Rows) -> Array:
        """Return the best shed of what the zone has: (N, 1).

        By the first-order condition, in `mis` between every two points along the shares: there the
        margin is linear, μ concave, and its top where σ(−m/τ) = price/(VOLL·RATED·m′), or an end.
        """
        u, most, price = rows.unit, rows.x[:, FLEXIBLE], self.price(state, rows)
        if self.variant == "well":
            pull = price * state.width[u] ** 2 / (2.0 * prior.STAKE)
            shed = np.minimum(np.maximum(self.need(state, rows) - pull, 0.0), most)
            return np.asarray(shed[:, None])
        s, hidden = self.table.n_shares, np.asarray(rows.hidden)
        step, margin = hidden[:, :1], hidden[:, 1 : 1 + s]
        rise = np.diff(margin, axis=1)
        odds = prior.RATED * (state.voll[u] / price)[:, None] * rise / step - 1.0
        falls = (odds <= 0.0) | (rise <= 0.0)  # never worth its price: the lower end is better
        top = state.swing[u, None] * np.log(np.where(falls, 1.0, odds))
        part = np.where(falls, 0.0, (top - margin[:, :-1]) / np.where(falls, 1.0, rise))
        place = step * (np.arange(s - 1) + np.clip(part, 0.0, 1.0))
        tried = np.minimum(np.concatenate((place, most[:, None]), axis=1), most[:, None])
        at = self.mean(state, tried[..., None], rows).argmax(axis=1)
        return np.asarray(np.take_along_axis(tried, at[:, None], axis=1))

    def candidates(self, state: Zones, rows: Rows) -> Array:
        """Return sheds from nothing to all that the zone has: (N, 41, 1)."""
        return rows.x[:, FLEXIBLE, None, None] * _AROUND

    def sample(self, rng: Stream, state: Zones, e: Array, rows: Rows) -> Array:
        """Draw the settled reward around its mean."""
        noise = prior.NOISE * rng.normal(rows.n)
        return (self.mean(state, e[:, None], rows)[:, 0] + noise)[:, None]

    def label(self, rng: Stream, state: Zones, e: Array, rows: Rows) -> Array:
        """Return the offset that planning finds afterwards, whatever was shed, with noise: (N, 1).

        In `mis` the shed at which the margin would have been `PLANNED`.
        """
        found = self._delta(state, rows) if self.variant == "well" else planned(rows)
        return (found + prior.LABEL_NOISE * rng.normal(rows.n))[:, None]

    def advance(self, rng: Stream, state: Zones, e: Array, outcome: Array, rows: Rows) -> Zones:
        """Hours do not depend on each other."""
        return state

    def true_delta(self, state: Zones, rows: Rows) -> Array | None:
        """Return δ*(x) (N, 1, 1); None in `mis`, where there is none."""
        return None if self.variant == "mis" else self._delta(state, rows)[:, None, None]


SCHEMA_LOW = 9.0  # stands for a least shed that no zone has


def planned(rows: Rows) -> Array:
    """Return the shed (N,) at which the margin is `PLANNED`, extended beyond the solved ones.

    Below 0: so much more load would have been borne.
    """
    hidden = np.asarray(rows.hidden)
    shares = (hidden.shape[1] - 1) // 2
    found = hidden[:, 0] * reached(hidden[:, 1 : 1 + shares], prior.PLANNED)
    return np.asarray(np.clip(found, *prior.FARTHEST))


def reached(margin: Array, level: float) -> Array:
    """Return the place (N,) at which a rising margin (N, S) reaches a level; linear at the ends.

    >>> reached(np.array([[0.0, 0.2, 0.3], [0.2, 0.4, 0.5]]), 0.1).round(6).tolist()
    [0.5, -0.5]
    """
    steps = margin.shape[1] - 2
    low = np.minimum(np.maximum((margin < level).sum(axis=1) - 1, 0), steps)
    rows = np.arange(margin.shape[0])
    first, second = margin[rows, low], margin[rows, low + 1]
    rise = np.maximum(second - first, 1e-3)  # a margin that does not rise is not extended far
    return np.asarray(low + (level - first) / rise)


def _within(limits: tuple[float, float], u: Array) -> Array:
    return np.asarray(limits[0] + (limits[1] - limits[0]) * u)
