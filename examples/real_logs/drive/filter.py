"""An extended Kalman filter of a car: position, heading and clocks, driven by its wheels.

State (5 + systems): east, north, up in m; heading in rad from east to north; clock drift in m/s;
the receiver's clock in m, one a satellite system. The car's velocity is its wheels' speed along the
heading, so that it needs no state of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from examples.real_logs.drive.fix import Plane, by_cn0, fixes, least_squares
from examples.real_logs.drive.log import Drive
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman.riccati import gain

EAST, NORTH, UP, HEADING, DRIFT, CLOCK = range(6)


@dataclass(frozen=True, slots=True)
class Motion:
    """How the state may wander, as standard deviations after one second.

    Set beforehand: a wheel's slip, a gyroscope's, a street's slope, a cheap oscillator's.

    Parameters
    ----------
    ground, up : m
    heading : rad
    clock, drift : m of each system's clock; m/s of their common drift
    """

    ground: float = 0.2
    up: float = 0.1
    heading: float = 0.01
    clock: float = 0.3
    drift: float = 0.3


def predict(
    mean: Array, covariance: Array, speed: float, turn: float, dt: float, motion: Motion
) -> tuple[Array, Array]:
    """Move states (J, n) on by dt seconds: F = ∂f/∂x at the mean, P ← F P Fᵀ + Q·dt.

    Examples
    --------
    Two seconds at 3 m/s to the east, no turn, a drift of 5 m/s: 6 m further, the clock 10 m.

    >>> mean = np.array([[0.0, 0.0, 0.0, 0.0, 5.0, 100.0]])
    >>> moved, _ = predict(mean, np.eye(6)[None], 3.0, 0.0, 2.0, Motion())
    >>> moved.tolist()
    [[6.0, 0.0, 0.0, 0.0, 5.0, 110.0]]
    """
    n = mean.shape[1]
    middle = mean[:, HEADING] + 0.5 * turn * dt
    cos, sin = np.cos(middle), np.sin(middle)
    moved = mean.copy()
    moved[:, EAST] += speed * dt * cos
    moved[:, NORTH] += speed * dt * sin
    moved[:, HEADING] += turn * dt
    moved[:, CLOCK:] += mean[:, DRIFT, None] * dt
    step = np.tile(np.eye(n), (mean.shape[0], 1, 1))
    step[:, EAST, HEADING], step[:, NORTH, HEADING] = -speed * dt * sin, speed * dt * cos
    step[:, CLOCK:, DRIFT] = dt
    spread = [motion.ground, motion.ground, motion.up, motion.heading, motion.drift]
    noise = np.square(spread + [motion.clock] * (n - CLOCK)) * dt
    return moved, step @ covariance @ step.swapaxes(1, 2) + np.diag(noise)


def expected(mean: Array, satellite: Array, system: Array) -> tuple[Array, Array]:
    """Return m pseudoranges as each state has them (J, m), and H = ∂ρ/∂x: (J, m, n).

    Over the metres by which a prediction errs, a range of 20,000 km is a straight line.
    """
    away = mean[:, None, :3] - satellite
    distance = np.linalg.norm(away, axis=-1)
    design = np.zeros((*distance.shape, mean.shape[1]))
    design[..., :3] = away / distance[..., None]
    design[:, np.arange(system.size), CLOCK + system] = 1.0
    return distance + mean[:, CLOCK + system], design


def update(
    mean: Array, covariance: Array, design: Array, innovation: Array, variance: Array, used: Array
) -> tuple[Array, Array]:
    """Take measurements with independent noise into each state, in Joseph form.

    K = PHᵀ(HPHᵀ + R)⁻¹, x ← x + Kν, P ← (I − KH)P(I − KH)ᵀ + KRKᵀ with R = diag(variance).
    `used` (J, m) says which state takes which measurement; `variance` is (m,).

    Examples
    --------
    One state of variance 3, one measurement of variance 1 that is 4 too high: K = ¾, so the state
    moves by 3 and its variance is ¼²·3 + ¾²·1 = ¾.

    >>> one, yes = np.ones((1, 1, 1)), np.ones((1, 1), dtype=bool)
    >>> four = np.array([[4.0]])
    >>> mean, left = update(np.zeros((1, 1)), 3.0 * one, one, four, np.ones(1), yes)
    >>> mean.tolist(), left.tolist()
    ([[3.0]], [[[0.75]]])
    """
    if not used.any():
        return mean, covariance
    # What is not used measures nothing, with noise 1: its gain is 0.
    design = np.where(used[..., None], design, 0.0)
    noise = np.where(used, variance, 1.0)[:, :, None] * np.eye(variance.size)
    k = gain(design, covariance, noise)
    kept = np.eye(mean.shape[1]) - k @ design
    left = kept @ covariance @ kept.swapaxes(1, 2) + k @ noise @ k.swapaxes(1, 2)
    moved = mean + (k @ np.where(used, innovation, 0.0)[..., None])[..., 0]
    return moved, (left + left.swapaxes(1, 2)) / 2


def start(drive: Drive, plane: Plane, seconds: float = 30.0) -> tuple[Array, Array]:
    """Return the state before the first measurement, from the first seconds' measurements.

    Position and clocks are those of the first fix; the heading is the one that lays the wheels'
    track best on the fixes of these seconds.
    """
    n = int(np.searchsorted(drive.time, drive.time[0] + seconds, side="right"))
    dt = np.diff(drive.time[:n])
    turned = np.append(0.0, np.cumsum(drive.turn[1:n] * dt))
    track = np.append(0.0, np.cumsum(drive.speed[1:n] * dt * np.exp(1j * turned[1:])))
    if n < 2 or np.abs(track).max() < 20.0:
        raise InvalidInput(
            f"odometry: expected a car that goes 20 m and more in its first {seconds:g} s, "
            f"got {np.abs(track).max() if n > 1 else 0.0:.1f} m: its heading cannot be told"
        )
    fixed = fixes(drive, plane, by_cn0)[:n] @ np.array([1.0, 1j, 0.0])
    aligned = np.sum(np.conj(track - track.mean()) * (fixed - fixed.mean()))
    rows = drive.rows(0)
    point, clocks, _ = least_squares(
        plane.satellite[rows],
        drive.ranges[rows],
        drive.system[rows],
        by_cn0(drive, rows),
        np.zeros(3),
    )
    mean = np.zeros(CLOCK + len(drive.systems))
    mean[:3], mean[HEADING] = point, np.angle(aligned)
    mean[CLOCK:] = np.nanmean(clocks)
    mean[CLOCK : CLOCK + clocks.size] = np.where(np.isnan(clocks), np.nanmean(clocks), clocks)
    spread = [50.0, 50.0, 50.0, 0.3, 200.0] + [100.0] * len(drive.systems)
    return mean, np.diag(np.square(spread))
