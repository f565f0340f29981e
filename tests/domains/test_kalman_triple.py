"""A record of tracks becomes a history again, or is refused with the reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gdcb.errors import InvalidInput
from gdcb.instances.kalman.operator import Operator
from gdcb.instances.kalman.plants import DEMAND, TARGET
from gdcb.instances.kalman.triple import LONGEST_GAP, Record, replay
from gdcb.instances.kalman.world import Tracking
from gdcb.streams import ADVANCE, CONTEXT, INCUMBENT, OUTCOME, WORLD, Streams

STEPS, UNITS = 40, 4


def recorded(plant: Any) -> tuple[Record, Any, Any]:
    """Return what a tracker would have written down, and what it reported at the time."""
    world, operator = Tracking(plant), Operator(plant)
    streams, group = Streams(5, UNITS), np.zeros(UNITS, dtype=np.int64)
    state = world.start(streams.at(WORLD, 0), group)
    written, x, label = [], [], []
    for t in range(STEPS):
        rows = world.context(streams.at(CONTEXT, t), state, t, group)
        gain = operator.incumbent(streams.at(INCUMBENT, t), state, rows)
        outcome = world.sample(streams.at(OUTCOME, t), state, gain, rows)
        cue = np.where((state.track.age == 0)[:, None, None], state.mean, np.nan)
        now = state.now
        written.append((now.seen, cue, gain, now.strain, now.signal))
        x.append(rows.x)
        label.append(state.track.waiting.label)
        state = world.advance(streams.at(ADVANCE, t), state, gain, outcome, rows)
    seen, cue, gains, strain, signal = (np.array(part) for part in zip(*written, strict=True))
    one = np.ones((STEPS, UNITS))
    record = Record(seen, cue, gains, strain, signal, one, one)
    return record, np.array(x), np.array(label)


@pytest.mark.parametrize("plant", [TARGET, DEMAND], ids=lambda one: one.name)
def test_a_replay_reports_what_was_reported(plant: Any) -> None:
    """Contexts and labels, bit for bit."""
    record, x, label = recorded(plant)
    found = replay(plant, record)
    np.testing.assert_array_equal(found.x, x)
    np.testing.assert_array_equal(found.label, label)


def test_measurements_that_are_missing_are_predicted_through() -> None:
    """Age and last gain stay, the estimate is F's, and the label of that step does not come."""
    record, _, _ = recorded(TARGET)
    seen = record.seen.copy()
    seen[20, 0] = np.nan
    found = replay(TARGET, replace(record, seen=seen))
    before, after = found.x[20, 0], found.x[21, 0]
    state = TARGET.predict(before[:4].reshape(2, 2))
    np.testing.assert_allclose(after[:4].reshape(2, 2), state, rtol=1e-12)
    np.testing.assert_array_equal(after[4:7], before[4:7])
    assert np.isnan(found.label[20 + 9, 0, 0])  # its own, eight steps late
    assert np.isfinite(found.x).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise": np.linspace(1, 2, STEPS)[:, None] * np.ones(UNITS)}, "R varied, 1 to 2"),
        ({"process": np.full((STEPS, UNITS), np.nan)}, "record.process: expected finite"),
        ({"gain": np.zeros((STEPS, UNITS, 3))}, "record.gain: expected"),
        ({"signal": np.full((STEPS, UNITS), 1.5)}, "record.signal: expected 0 to 1"),
        ({"seen": np.full((STEPS, UNITS, 2), np.inf)}, "expected finite numbers, or NaN"),
        ({"seen": np.zeros((STEPS, UNITS))}, "record.seen: expected"),
        ({"cue": np.full((STEPS, UNITS, 2, 2), np.nan)}, "a track to begin in the first step"),
        ({"seen": np.full((STEPS, UNITS, 2), np.nan)}, f"unseen for {LONGEST_GAP + 1} steps"),
    ],
)
def test_a_record_that_cannot_seed_is_refused(change: dict[str, Any], message: str) -> None:
    record, _, _ = recorded(TARGET)
    if "cue" not in change:
        first = np.full(record.cue.shape, np.nan)
        first[0] = record.cue[0]
        record = replace(record, cue=first)
    with pytest.raises(InvalidInput, match=message):
        replay(TARGET, replace(record, **change))
