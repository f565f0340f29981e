"""The context of a night: its columns, the six features of the day signal, and their means."""

from __future__ import annotations

import numpy as np

from gdcb.arrays import Array
from gdcb.context import Category, Flag, Number, Schema

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
SCHEMA = Schema(
    {
        "occupancy": Number(0, 1, "share of comparable nights booked nearby"),
        "gap": Flag("a single free night between two bookings"),
        "lead": Number(0, 1, "days until the night, in half years, at most one"),
        "inventory": Number(0, 1, "share of the operator's own nights still free around it"),
        "day": Category(DAYS, "day of the week"),
        "base": Number(1, 100_000, "the listing's base price"),
        "market": Number(0.1, 10, "market multiplier of the night"),
    }
)
OCCUPANCY, GAP, LEAD, INVENTORY, DAY = range(5)
BASE, MARKET = DAY + len(DAYS), DAY + len(DAYS) + 1

# The four factors of the day signal and their columns: six parameters.
FACTORS = {
    "occ": ("occupancy", "day=fri", "day=sat"),
    "gap": ("gap",),
    "lead": ("lead",),
    "inv": ("inventory",),
}
FEATURES = tuple(name for columns in FACTORS.values() for name in columns)
POSITIONS = tuple(SCHEMA.names.index(name) for name in FEATURES)

# The occupancy law is a published calibration; the other laws are made.
OCCUPANCY_LAW = (2.01, 1.74)
GAP_SHARE = 0.15
LEAD_MEAN = 0.3  # of an exponential, cut at one
CENTRE = (
    OCCUPANCY_LAW[0] / sum(OCCUPANCY_LAW),
    1 / 7,
    1 / 7,
    GAP_SHARE,
    LEAD_MEAN * (1.0 - float(np.exp(-1.0 / LEAD_MEAN))),
    0.5 * (1.0 - OCCUPANCY_LAW[0] / sum(OCCUPANCY_LAW)) + 0.25,
)


def features(x: Array) -> Array:
    """Return the six features of the day signal less their means: (N, 6)."""
    return np.asarray(x[:, POSITIONS] - CENTRE)


def scale_of(x: Array) -> Array:
    """Return base price × market multiplier, which a relative price is relative to: (N,)."""
    return np.asarray(x[:, BASE] * x[:, MARKET])
