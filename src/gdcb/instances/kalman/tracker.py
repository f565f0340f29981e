"""The filter that runs, and what it reports: the part of the system that makes its own context.

Beside the filter whose gain is decided stands a bank: one filter a mode at its nominal, fixed gain.
What each of them missed says how likely its mode is, by a hidden Markov model, up to a common size
of all noise that is followed beside; it does not hang on what was decided.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.kalman import labels
from gdcb.instances.kalman.labels import SIGNAL_KNOTS, STRAIN_KNOTS, Step, Waiting
from gdcb.instances.kalman.plants import SETTLE, Plant
from gdcb.kalman.responses import Basis

PACE = 0.05  # weight of the newest innovation in the size of what was missed
CHANGE = 0.02  # probability that a mode ends, as the bank takes it
_LEAST, _MOST = 1e-9, 1e9  # sizes of what was missed, as far as they are followed


@dataclass(slots=True)
class Track:
    """Where the filters of every unit stand, before a measurement.

    Parameters
    ----------
    estimate : (units, axes, 2) filtered state after the last measurement
    gain : (units, 2) that ran last
    age : (units,) measurements that the track has had
    bank : (units, K, axes, 2) filtered states of the modes' own filters
    likely : (units, K) how likely every mode is
    missed : (units,) mean square of innovations over the nominal one, lately
    waiting : steps whose labels are to come
    """

    estimate: Array
    gain: Array
    age: Array
    bank: Array
    likely: Array
    missed: Array
    waiting: Waiting


@dataclass(frozen=True)
class Tracker:
    """The filters of a plant."""

    plant: Plant

    @cached_property
    def basis(self) -> Basis:
        """The coefficients: Q by mode and knot, R by knot, P₀."""
        plant = self.plant
        process = np.repeat(np.array(plant.process), len(STRAIN_KNOTS), axis=0)
        noise = np.full((len(SIGNAL_KNOTS), 1, 1), plant.noise)
        f, h = np.array(plant.transition), np.array(plant.measurement)
        return Basis(f, h, process, noise, np.array(plant.initial)[None])

    @property
    def n_labels(self) -> int:
        """Two products of innovations, and the responses of each."""
        return 2 + 2 * self.basis.size

    @property
    def _change(self) -> float:
        """How much of a mode's probability is spread over all modes in a step."""
        return CHANGE * self.plant.n_modes / (self.plant.n_modes - 1.0)

    def begin(self, cue: Array) -> Track:
        """Return tracks that begin at a cue (units, axes, 2): where the state is said to be."""
        units, axes, _ = cue.shape
        plant, k = self.plant, self.plant.n_modes
        speed = cue[..., 1] / plant.friction
        # A step back, so that the first prediction is the cue.
        back = np.stack((cue[..., 0] - speed, speed), axis=-1)
        return Track(
            estimate=back,
            gain=np.tile(plant.gains[k - 1, 0], (units, 1)),
            age=np.zeros(units),
            bank=np.tile(back[:, None], (1, k, 1, 1)),
            likely=np.full((units, k), 1.0 / k),
            missed=np.ones(units),
            waiting=labels.nothing(self.basis, units, axes, k),
        )

    def update(self, track: Track, gain: Array, seen: Array, strain: Array, signal: Array) -> Track:
        """Give every filter the measurement (units, axes) with the gain (units, 2) that ran.

        Where any axis was not seen (NaN) all filters predict, and nothing is learned.
        """
        plant, axes = self.plant, seen.shape[1]
        is_seen = np.asarray(np.isfinite(seen).all(axis=1))
        before, bank = plant.predict(track.estimate), plant.predict(track.bank)
        at = is_seen[:, None]
        nu = np.where(at, seen - before[..., 0], 0.0)
        miss = np.where(at[..., None], seen[:, None] - bank[..., 0], 0.0)
        gain = np.where(at, gain, 0.0)
        ages = np.minimum(track.age, SETTLE).astype(np.int64)
        own = plant.gains[:, ages].swapaxes(0, 1)  # (units, K, 2)
        expected, square = plant.missed[:, ages].T, (miss * miss).mean(axis=-1)
        variance = expected * track.missed[:, None]
        power = -0.5 * axes * (square / variance + np.log(variance))
        likelihood = np.where(at, np.exp(power - power.max(axis=1, keepdims=True)), 1.0)
        likely = track.likely * likelihood
        likely /= likely.sum(axis=1, keepdims=True)
        relative = (likely * square / expected).sum(axis=1)
        pace = is_seen * np.maximum(PACE, 1.0 / (track.age + 4.0))
        step = Step(np.where(at, nu, np.nan), gain, strain, signal, likely, likelihood)
        return Track(
            estimate=before + gain[:, None] * nu[..., None],
            gain=np.where(at, gain, track.gain),
            age=track.age + is_seen,
            bank=bank + own[:, :, None] * miss[..., None],
            likely=(1.0 - self._change) * likely + self._change / plant.n_modes,
            missed=(track.missed + pace * (relative - track.missed)).clip(_LEAST, _MOST),
            waiting=labels.push(self.basis, track.waiting, step, self._change),
        )


def choose(is_new: Array, new: Any, old: Any) -> Any:
    """Return a record with the rows of `new` where a track begins, and of `old` elsewhere."""
    if is_dataclass(new) and not isinstance(new, type):
        names = [field.name for field in fields(new)]
        return replace(
            new, **{name: choose(is_new, getattr(new, name), getattr(old, name)) for name in names}
        )
    return np.where(is_new.reshape(-1, *(1,) * (new.ndim - 1)), new, old)
