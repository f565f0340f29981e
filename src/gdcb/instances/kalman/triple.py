"""The triple cold start from a record of tracks: modes, covariances and P₀ at once.

A record holds what a tracker wrote down under an incumbent: measurements, cues, gains that ran, and
the covariances in force, which must have been the same throughout: under (Q₀, R₀) that varied the
record's innovations have no one law, and the seeds lean on that. `replay` runs the tracker over it
again and returns what it would have reported: contexts, and the scaler's labels. With the rewards
these make the history of `Agent.warm_up`, which seeds the arms' posteriors from what ran, and the
coefficients of Q, R and P₀ from the labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instances.kalman.columns import Columns
from gdcb.instances.kalman.plants import Plant
from gdcb.instances.kalman.tracker import Track, Tracker, choose

LONGEST_GAP = 10  # unseen steps after which a track is lost: its steady gain means nothing then


@dataclass(frozen=True, slots=True)
class Record:
    """T steps of N units.

    Parameters
    ----------
    seen : (T, N, axes) measurements; NaN: not seen
    cue : (T, N, axes, 2) where a track is said to begin; NaN where none begins
    gain : (T, N, 2) that ran
    strain, signal : (T, N) in [0, 1]
    process, noise : (T, N) sizes of Q and R in force, relative to the plant's
    """

    seen: Array
    cue: Array
    gain: Array
    strain: Array
    signal: Array
    process: Array
    noise: Array

    def check(self, plant: Plant) -> None:
        """Refuse a record that is no record of the plant, or whose covariances varied."""
        if self.seen.ndim != 3 or self.seen.shape[2] != len(plant.axes) or 0 in self.seen.shape:
            raise InvalidInput(
                f"record.seen: expected (steps, units, {len(plant.axes)}), got {self.seen.shape}"
            )
        steps, units, axes = self.seen.shape
        shapes = {"cue": (steps, units, axes, 2), "gain": (steps, units, 2)}
        for name in ("cue", "gain", "strain", "signal", "process", "noise"):
            value, expected = getattr(self, name), shapes.get(name, (steps, units))
            if value.shape != expected:
                raise InvalidInput(f"record.{name}: expected {expected}, got {value.shape}")
            if name != "cue" and not np.isfinite(value).all():
                raise InvalidInput(f"record.{name}: expected finite numbers")
        if np.isinf(self.seen).any() or np.isinf(self.cue).any():
            raise InvalidInput("record: expected finite numbers, or NaN where nothing was seen")
        for name in ("strain", "signal"):
            value = getattr(self, name)
            if value.min() < 0.0 or value.max() > 1.0:
                raise InvalidInput(
                    f"record.{name}: expected 0 to 1, got {value.min():g} to {value.max():g}"
                )
        for name, symbol in (("process", "Q"), ("noise", "R")):
            value = getattr(self, name)
            if value.min() != value.max():
                raise InvalidInput(
                    f"record.{name}: {symbol} varied, {value.min():g} to {value.max():g} of the "
                    "plant's; a triple start needs a history at one fixed (Q₀, R₀). Cut the record "
                    "where they changed"
                )
        if not np.isfinite(self.cue[0]).all():
            raise InvalidInput("record.cue: expected a track to begin in the first step")
        unseen = np.asarray(np.isnan(self.seen).any(axis=2))
        run = np.zeros(units, dtype=np.int64)
        for t in range(steps):
            begins = np.isfinite(self.cue[t]).all(axis=(1, 2))
            run = np.where(unseen[t], np.where(begins, 0, run) + 1, 0)
            if run.max() > LONGEST_GAP:
                raise InvalidInput(
                    f"record.seen: unit {int(run.argmax())} was unseen for {int(run.max())} steps "
                    f"up to step {t}; after {LONGEST_GAP} a track is lost: begin it anew with a cue"
                )


@dataclass(frozen=True, slots=True)
class Replayed:
    """What the tracker reports of a record.

    Parameters
    ----------
    x : (T, N, p) contexts, in the order of the schema
    label : (T, N, n_labels) the scaler's, NaN where none came
    track : where the filters stand after it, to go on from
    """

    x: Array
    label: Array
    track: Track


def replay(plant: Plant, record: Record) -> Replayed:
    """Run the tracker over a record again; refuse one whose covariances varied."""
    record.check(plant)
    tracker, columns = Tracker(plant), Columns(plant)
    steps, units, _ = record.seen.shape
    x = np.empty((steps, units, columns.schema.width))
    label = np.empty((steps, units, tracker.n_labels))
    track = tracker.begin(record.cue[0])
    for t in range(steps):
        is_new = np.isfinite(record.cue[t]).all(axis=(1, 2))
        cue = np.where(is_new[:, None, None], record.cue[t], 0.0)
        track = choose(is_new, tracker.begin(cue), track)
        x[t] = columns.reported(track, record.strain[t], record.signal[t])
        label[t] = track.waiting.label
        track = tracker.update(
            track, record.gain[t], record.seen[t], record.strain[t], record.signal[t]
        )
    return Replayed(x, label, track)
