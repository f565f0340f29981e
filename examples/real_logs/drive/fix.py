"""Position fixes of single epochs by weighted least squares: what a filter is measured against.

A pseudorange is ρ = |s − p| + b + noise: s the satellite, p the receiver, b the receiver's clock
in metres, one for each satellite system.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from examples.real_logs.drive.log import Drive
from gdcb.arrays import Array
from gdcb.errors import InvalidInput

LIGHT = 299_792_458.0  # m/s
TURN = 7.292_115_146_7e-5  # rad/s, of the Earth
_AXIS, _FLATTENING = 6_378_137.0, 1 / 298.257_223_563  # WGS 84
REJECT = 30.0  # m: a residual beyond this loses its satellite

Weigh = Callable[[Drive, slice], Array]


@dataclass(frozen=True, slots=True)
class Plane:
    """East, north and up around the first fix.

    Parameters
    ----------
    origin : (3,) Earth-fixed, m; from the pseudoranges, not from the ground truth
    axes : (3, 3) rows are east, north, up
    satellite : (M, 3) satellites in the plane's coordinates, the Earth's turn during the signal's
        travel taken off
    """

    origin: Array
    axes: Array
    satellite: Array

    def of(self, point: Array) -> Array:
        """Return Earth-fixed points (..., 3) in the plane's coordinates."""
        return np.asarray((point - self.origin) @ self.axes.T)


def turned(satellite: Array, receiver: Array) -> Array:
    """Turn satellites (M, 3) by the Earth's rotation while their signal travelled (Sagnac).

    >>> turned(np.array([[2.0e7, 0.0, 0.0]]), np.array([0.0, 0.0, 0.0])).round(1).tolist()
    [[20000000.0, -97.3, 0.0]]
    """
    angle = TURN * np.linalg.norm(satellite - receiver, axis=1) / LIGHT
    cos, sin = np.cos(angle), np.sin(angle)
    x, y, z = satellite.T
    return np.stack((cos * x + sin * y, cos * y - sin * x, z), axis=1)


def least_squares(
    satellite: Array, ranges: Array, system: Array, weight: Array, start: Array
) -> tuple[Array, Array, Array]:
    """Solve for position and clocks: p (3,), b (systems,), residuals (m,).

    Gauss–Newton; clocks of systems that were not seen are NaN. Needs at least as many satellites
    as unknowns.
    """
    seen = np.unique(system)
    if ranges.size < 3 + seen.size:
        raise InvalidInput(f"fix: expected {3 + seen.size} satellites or more, got {ranges.size}")
    is_of = (system[:, None] == seen).astype(float)
    root = np.sqrt(weight / weight.max())
    point = start
    for _ in range(20):
        away = point - satellite
        distance = np.linalg.norm(away, axis=1)
        design = np.hstack((away / distance[:, None], is_of))
        step = np.linalg.lstsq(design * root[:, None], (ranges - distance) * root, rcond=None)[0]
        point = point + step[:3]
        if np.abs(step[:3]).max() < 1e-4:
            break
    clocks = np.full(int(seen.max()) + 1, np.nan)
    clocks[seen] = step[3:]
    residual = ranges - np.linalg.norm(point - satellite, axis=1) - clocks[system]
    return point, clocks, residual


def plane_of(drive: Drive) -> Plane:
    """Find the first fix and lay the plane through it."""
    rows = next((drive.rows(i) for i in range(drive.n) if _is_enough(drive, drive.rows(i))), None)
    if rows is None:
        raise InvalidInput("pseudoranges: expected an epoch with enough satellites for a fix")
    origin = np.zeros(3)
    for _ in range(3):  # the travel time needs the position, and hardly moves with it
        satellite = turned(drive.satellite[rows], origin)
        weight = by_cn0(drive, rows)
        origin = least_squares(satellite, drive.ranges[rows], drive.system[rows], weight, origin)[0]
    axes = _axes(origin)
    return Plane(origin, axes, (turned(drive.satellite, origin) - origin) @ axes.T)


def equal(drive: Drive, rows: slice) -> Array:
    """Weigh all satellites alike."""
    return np.ones(drive.cn0[rows].size)


def by_cn0(drive: Drive, rows: slice) -> Array:
    """Weigh by the signal's power over noise: 10^(C/N0 / 10)."""
    return np.asarray(10.0 ** (drive.cn0[rows] / 10.0))


def fixes(drive: Drive, plane: Plane, weigh: Weigh, reject: float = np.inf) -> Array:
    """Return the fix of every epoch, (T, 3); the last one again where there are too few satellites.

    While a residual is beyond `reject` metres and there are satellites to spare, the one with the
    largest is dropped and the fix repeated.
    """
    found = np.zeros((drive.n, 3))
    point = np.zeros(3)
    for i in range(drive.n):
        rows = drive.rows(i)
        satellite, ranges = plane.satellite[rows], drive.ranges[rows]
        system, weight = drive.system[rows], weigh(drive, rows)
        kept = np.arange(ranges.size)
        while kept.size >= 3 + np.unique(system[kept]).size:
            some = (satellite[kept], ranges[kept], system[kept], weight[kept])
            point, _, residual = least_squares(*some, point)
            worst = int(np.abs(residual).argmax())
            if abs(residual[worst]) <= reject or kept.size <= 4 + np.unique(system[kept]).size:
                break
            kept = np.delete(kept, worst)
        found[i] = point
    return found


def _is_enough(drive: Drive, rows: slice) -> bool:
    return bool(drive.ranges[rows].size >= 3 + np.unique(drive.system[rows]).size)


def _axes(origin: Array) -> Array:
    """Return east, north and up at an Earth-fixed point, up as the ellipsoid has it."""
    squared = _FLATTENING * (2.0 - _FLATTENING)
    across = np.hypot(origin[0], origin[1])
    longitude, latitude = np.arctan2(origin[1], origin[0]), np.arctan2(origin[2], across)
    for _ in range(5):
        radius = _AXIS / np.sqrt(1.0 - squared * np.sin(latitude) ** 2)
        latitude = np.arctan2(origin[2] + squared * radius * np.sin(latitude), across)
    (sl, cl), (sp, cp) = ((np.sin(a), np.cos(a)) for a in (longitude, latitude))
    return np.array([[-sl, cl, 0.0], [-sp * cl, -sp * sl, cp], [cp * cl, cp * sl, sp]])
