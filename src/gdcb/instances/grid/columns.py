"""The context of an hour: its columns, the zones of the network, and what line ratings do."""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array
from gdcb.context import Category, Number, Schema
from gdcb.errors import InvalidInput

# Contiguous parts of feeder 1 of the CIGRE network, by their buses: an aggregator's zone each.
ZONES: dict[str, tuple[int, ...]] = {
    "3-4": (3, 4),
    "4-5": (4, 5),
    "5-6": (5, 6),
    "3-8": (3, 8),
    "7-9": (7, 8, 9),
    "8-10": (8, 10),
    "9-10": (9, 10),
    "10-11": (10, 11),
}
N_ZONES = len(ZONES)
INSTALLED = 2.5  # MW of PV, the most that the table knows
LIVE = Schema(
    {
        "load": Number(3.0, 6.5, "load of the feeder before any shed, MW"),
        "temperature": Number(-20.0, 45.0, "of the air, °C"),
        "sine": Number(-1.0, 1.0, "sine of the hour's angle"),
        "cosine": Number(-1.0, 1.0, "cosine of the hour's angle"),
        "pv": Number(0.0, INSTALLED, "output of the feeder's PV, MW; at most what is installed"),
        "voltage": Number(0.99, 1.03, "at the 110 kV busbar, p.u."),
        "flexible": Number(0.0, 2.5, "load of the zone that can be shed in this hour, MW"),
        "zone": Category(tuple(ZONES), "buses of the aggregator's customers"),
    }
)
# In a simulation the limits come from the table, as two columns more.
SCHEMA = Schema(
    {
        **LIVE.columns,
        "low_shed": Number(0.0, 9.0, "least shed that the network bears, MW"),
        "high_shed": Number(-1.0, 2.5, "most that it bears and the zone has, MW; below 0: none"),
    }
)
LOAD, TEMPERATURE, SINE, COSINE, PV, VOLTAGE, FLEXIBLE, ZONE = range(8)
LOW, HIGH = ZONE + N_ZONES, ZONE + N_ZONES + 1
FEATURES = ("load", "temperature", "sine", "cosine", "pv")

V_LOW, V_HIGH = 0.90, 1.10  # EN 50160, supply voltage in medium-voltage networks, p.u.
V_HALF = 0.10  # half of that band: one unit of the margin
HOT, MILD = 90.0, 20.0  # °C that a cable's insulation bears; at which its rating is declared


def rating(temperature: Array) -> Array:
    """Return what a line may carry at an outside temperature, relative to its declared rating.

    A conductor's heat, I²R, must leave over the gap to the surroundings, so that
    I_max ∝ √(hottest − outside): the ambient correction factor of IEC 60287 and IEC 60364-5-52.

    >>> rating(np.array([20.0, 37.5])).round(3).tolist()
    [1.0, 0.866]
    """
    return np.asarray(np.sqrt((HOT - np.asarray(temperature)) / (HOT - MILD)))


def hour_columns(hour: Array) -> tuple[Array, Array]:
    """Return sine and cosine of an hour's angle, 0 at midnight.

    >>> [float(column.round(6)) for column in hour_columns(np.array(6.0))]
    [1.0, 0.0]
    """
    hour = np.asarray(hour, dtype=float)
    if not ((hour >= 0.0) & (hour <= 24.0)).all():
        wrong = hour[~((hour >= 0.0) & (hour <= 24.0))]
        raise InvalidInput(f"hour: expected 0 to 24, got {wrong.ravel()[0]:g}")
    angle = 2.0 * np.pi * hour / 24.0
    return np.sin(angle), np.cos(angle)
