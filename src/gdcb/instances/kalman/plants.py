"""What is tracked: a manoeuvring target, or the demand for a product. Both move in modes.

A plant is nominal: what its filter is told before anything is learned. What is true of a replicate
is drawn around it (`world.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gdcb.arrays import Array
from gdcb.composition.steady import Matrix
from gdcb.errors import InvalidInput
from gdcb.kalman.riccati import gain, riccati

SETTLE = 12  # measurements after which a gain is taken for the steady one


def acceleration(size: float, floor: float = 1e-4) -> Matrix:
    """Return the covariance that a white acceleration leaves in (place, speed) over one step.

    >>> acceleration(3.0, floor=0.0)
    ((1.0, 1.5), (1.5, 3.0))
    """
    return ((size / 3 + floor, size / 2), (size / 2, size + floor))


@dataclass(frozen=True)
class Plant:
    """A system of one or several axes, each with a place and a speed; all axes share a gain.

    Parameters
    ----------
    name, title : of the plant
    axes : their names
    modes : their names
    friction : speed that is left after a step: F = (1 1; 0 friction), H = (1 0)
    process : Q of every mode
    noise, initial : R, and P₀ of a track that begins
    strain, signal : what Q and R hang on, for people
    stay : probability that a mode stays on
    life : measurements of a track, on average
    period : of a cycle in the measurements, in steps; 0: none
    """

    name: str
    title: str
    axes: tuple[str, ...]
    modes: tuple[str, ...]
    friction: float
    process: tuple[Matrix, ...]
    noise: float
    initial: Matrix
    strain: str
    signal: str
    stay: float
    life: float
    period: int = 0

    @property
    def transition(self) -> Matrix:
        """F."""
        return ((1.0, 1.0), (0.0, self.friction))

    @property
    def measurement(self) -> Matrix:
        """H."""
        return ((1.0, 0.0),)

    @property
    def n_modes(self) -> int:
        """How many modes there are."""
        return len(self.modes)

    @cached_property
    def gains(self) -> Array:
        """Nominal gains by mode and age, the steady one last: (K, SETTLE + 1, 2)."""
        f, h = np.array(self.transition), np.array(self.measurement)
        q, r = np.array(self.process), np.full((1, 1), self.noise)
        p = np.tile(np.array(self.initial), (self.n_modes, 1, 1))
        out = np.empty((self.n_modes, SETTLE + 1, 2))
        for age in range(SETTLE):
            k = gain(h, p, r)
            out[:, age] = k[..., 0]
            p = f @ (p - k @ h @ p) @ f.T + q
        out[:, SETTLE] = gain(h, riccati(f, h, q, r), r)[..., 0]
        return out

    @cached_property
    def missed(self) -> Array:
        """Nominal variance of an innovation by mode and age, the steady one last."""
        k0 = self.gains[..., 0]
        return np.asarray(self.noise / (1.0 - k0))  # S = R + HPHᵀ, and 1 − HK = R/S

    @cached_property
    def switching(self) -> Array:
        """How likely each mode is to follow each: (K, K)."""
        others = (1.0 - self.stay) / (self.n_modes - 1)
        return np.full((self.n_modes, self.n_modes), others) + np.eye(self.n_modes) * (
            self.stay - others
        )

    def predict(self, state: Array) -> Array:
        """Move (place, speed) (..., 2) one step ahead: F·s."""
        speed = state[..., 1]
        return np.stack((state[..., 0] + speed, self.friction * speed), axis=-1)


TARGET = Plant(
    name="target",
    title="Tracking a manoeuvring target",
    axes=("east", "north"),
    modes=("cruise", "buffeted", "manoeuvre"),
    friction=0.95,
    process=(acceleration(0.004), ((0.6, 0.0), (0.0, 0.002)), acceleration(1.0)),
    noise=1.0,
    initial=((9.0, 0.0), (0.0, 1.0)),
    strain="wind",
    signal="signal",
    stay=0.99,
    life=60.0,
)
DEMAND = Plant(
    name="demand",
    title="Tracking the demand for a product",
    axes=("bookings",),
    modes=("calm", "jumpy", "ramp"),
    friction=0.9,
    process=(acceleration(0.004), ((0.8, 0.0), (0.0, 0.002)), acceleration(0.6)),
    noise=1.0,
    initial=((4.0, 0.0), (0.0, 0.5)),
    strain="campaigns",
    signal="coverage",
    stay=0.99,
    life=90.0,
    period=7,
)
PLANTS = {plant.name: plant for plant in (TARGET, DEMAND)}


def plant_named(name: object) -> Plant:
    """Return a plant by name."""
    if not isinstance(name, str) or name not in PLANTS:
        raise InvalidInput(f"plant: expected {' or '.join(PLANTS)}, got {name!r}")
    return PLANTS[name]
