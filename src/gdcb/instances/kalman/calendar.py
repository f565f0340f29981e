"""What the calendar adds to measurements, and what a spectral pre-filter takes off them again.

Bookings follow the days of the week, and no filter of level and trend knows of them. Before the
first step a year's half of innovations at one fixed gain is at hand; lines of a week and of its
harmonics are looked for in it at a stated false-alarm rate, carried back from innovations to
measurements, and taken off all that is measured from then on, for every method alike.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.kalman.plants import Plant
from gdcb.instances.kalman.truth import Sizes, Truth
from gdcb.kalman.line_response import measurement_lines
from gdcb.kalman.spectrum import find_lines, line_profile
from gdcb.streams import Stream

DAYS = 182  # of the record
FALSE_ALARM = 0.05
GAIN = (0.55, 0.2)  # at which it was filtered


def left_over(rng: Stream, truth: Truth, sizes: Sizes, group: Array, is_filtered: bool) -> Array:
    """Return what the calendar adds to measurements after the pre-filter: (units, period)."""
    n, plant = group.size, truth.plant
    draws = [truth.draw(rng, n) for _ in range(DAYS + 1)]
    raw = rng.normal(n, 2)
    if not is_filtered:
        return sizes.cycle
    path = truth.fresh(sizes, raw, *draws[0])
    estimate, gain, innovations = path.state, np.array(GAIN), np.empty((DAYS, n))
    for day in range(DAYS):
        path = truth.follow(sizes, path, *draws[day + 1])
        before = plant.predict(estimate)
        seen = path.seen + sizes.cycle[:, day % plant.period][:, None]
        nu = seen - before[..., 0]
        innovations[day] = nu[:, 0]
        estimate = before + gain * nu[..., None]
    known = np.zeros((n, plant.period))
    for one in np.unique(group):
        units = np.flatnonzero(group == one)
        record = innovations[:, units]
        known[units] = _profile(plant, record.tobytes(), units.size)
    return np.asarray(sizes.cycle - known)


@lru_cache(maxsize=4096)
def _profile(plant: Plant, record: bytes, units: int) -> Array:
    """Return what one group's record says the calendar adds, by day: (period,)."""
    innovations = np.frombuffer(record).reshape(DAYS, units)
    periods = tuple(plant.period / k for k in range(1, plant.period // 2 + 1))
    lines = find_lines(innovations, false_alarm=FALSE_ALARM, periods=periods, search=False)
    f, h = plant.transition, plant.measurement
    found = measurement_lines(lines, f, h, np.array(GAIN)[:, None])
    return np.asarray(line_profile(found, np.arange(plant.period)).mean(axis=1))
