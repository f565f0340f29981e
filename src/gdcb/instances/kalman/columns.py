"""The context of a step: where the filter stands, what it missed lately, and what is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gdcb.arrays import Array
from gdcb.context import Number, Schema
from gdcb.instances.kalman.plants import Plant
from gdcb.instances.kalman.tracker import Track


@dataclass(frozen=True)
class Columns:
    """Where everything stands in x and in the hidden columns of a plant.

    Hidden is what the world knows and no learner sees: the moments of the prediction's error under
    the world's own filter, the target, the measurement and the one after it, and the scaler's
    label, so that every question about a row can be answered from the row.
    """

    plant: Plant

    @cached_property
    def schema(self) -> Schema:
        """The context."""
        plant, far = self.plant, math.inf
        columns = {}
        for axis in plant.axes:
            columns[f"{axis}"] = Number(-far, far, f"filtered place, {axis}")
            columns[f"{axis}_speed"] = Number(-far, far, f"filtered speed, {axis}")
        columns |= {
            "gain_0": Number(0, 1, "last gain on the place"),
            "gain_1": Number(0, 1, "last gain on the speed"),
            "age": Number(0, far, "measurements that the track has had"),
            "young": Number(0, 1, "1 / (1 + age)"),
            "strain": Number(0, 1, f"{plant.strain}: what process noise hangs on"),
            "signal": Number(0, 1, f"{plant.signal}: what measurement noise hangs on"),
        }
        for mode in plant.modes:
            columns[f"likely_{mode}"] = Number(0, 1, f"how likely the {mode} mode is, by the bank")
        columns["missed"] = Number(0, far, "mean square of innovations, over the nominal one")
        columns["log_missed"] = Number(-50, 50, "its logarithm")
        return Schema(columns)

    def reported(self, track: Track, strain: Array, signal: Array) -> Array:
        """Return the context (units, p) that a tracker reports."""
        n = strain.size
        parts = (
            track.estimate.reshape(n, -1),
            track.gain,
            track.age[:, None],
            1.0 / (1.0 + track.age[:, None]),
            strain[:, None],
            signal[:, None],
            track.likely,
            track.missed[:, None],
            np.log(track.missed)[:, None],
        )
        return np.concatenate(parts, axis=1)

    def at(self, name: str) -> int:
        """Return the position of a column of x."""
        return self.schema.names.index(name)

    @cached_property
    def estimate(self) -> slice:
        """Filtered state, axis by axis."""
        return slice(0, 2 * len(self.plant.axes))

    @cached_property
    def gain(self) -> slice:
        """The last gain."""
        return slice(self.at("gain_0"), self.at("gain_1") + 1)

    @cached_property
    def likely(self) -> tuple[str, ...]:
        """How likely every mode is."""
        return tuple(f"likely_{mode}" for mode in self.plant.modes)

    @cached_property
    def features(self) -> tuple[str, ...]:
        """What learners read."""
        return ("young", "strain", "signal", "log_missed", *self.likely[1:])

    # Hidden columns, in order.
    MOMENTS = slice(0, 4)  # what makes a gain's worth
    REFERENCE = 4  # what the world's own filter is worth in this step
    NEXT = slice(5, 7)  # what makes the worth of a gain for the next innovation

    @cached_property
    def target(self) -> slice:
        """True state, axis by axis."""
        return slice(7, 7 + 2 * len(self.plant.axes))

    @cached_property
    def seen(self) -> slice:
        """The measurement."""
        return slice(self.target.stop, self.target.stop + len(self.plant.axes))

    @cached_property
    def next(self) -> slice:
        """The measurement after it."""
        return slice(self.seen.stop, self.seen.stop + len(self.plant.axes))

    def label(self, n_labels: int) -> slice:
        """Return where the scaler's label is."""
        return slice(self.next.stop, self.next.stop + n_labels)
