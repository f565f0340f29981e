"""The scaler's labels: products of innovations with their responses, some steps late.

Which mode was on is known better a few steps later. A label therefore waits `LAG` steps, and the
process noise of its step is shared among the modes as they are likely given what came since
(fixed-lag smoothing). Shared by what was known at the time, quiet stretches of a lively mode are
taken for a calm one, and sizes of Q come out too small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.kalman.responses import Basis
from gdcb.scalers.covariance import hats

LAG = 8
STRAIN_KNOTS, SIGNAL_KNOTS = (0.0, 1.0), (0.0, 0.5, 1.0)


@dataclass(slots=True)
class Step:
    """What one step of every unit leaves for later.

    Parameters
    ----------
    innovation, gain : (units, axes), (units, 2)
    strain, signal : (units,)
    likely : (units, K) how likely every mode is after the measurement
    likelihood : (units, K) of the measurement under every mode, up to a factor
    """

    innovation: Array
    gain: Array
    strain: Array
    signal: Array
    likely: Array
    likelihood: Array


@dataclass(slots=True)
class Waiting:
    """The last steps of every unit, and where the responses of the step that waited longest stand.

    Parameters
    ----------
    steps : arrays as in `Step` with an axis of LAG + 1 steps behind the unit's
    count : (units,) steps of the track so far
    last : (units, axes) the innovation before the one that waited longest; NaN: none
    responses, lagged : (units, B, 2, 2), (units, B) of that step
    label : (units, 2 + 2·B) that came out last; NaN: none
    """

    steps: Step
    count: Array
    last: Array
    responses: Array
    lagged: Array
    label: Array


def nothing(basis: Basis, units: int, axes: int, modes: int) -> Waiting:
    """Return what waits where tracks begin."""
    depth = LAG + 1

    def empty(*shape: int) -> Array:
        return np.zeros((units, depth, *shape))

    steps = Step(empty(axes), empty(2), empty(), empty(), empty(modes), empty(modes))
    return Waiting(
        steps,
        np.zeros(units),
        np.full((units, axes), np.nan),
        basis.start(units),
        np.zeros((units, basis.size)),
        np.full((units, 2 + 2 * basis.size), np.nan),
    )


def push(basis: Basis, waiting: Waiting, step: Step, change: float) -> Waiting:
    """Let a step wait, and make the label of the one that waited `LAG` steps.

    `change` is how much of a mode's probability is spread over all of them in a step.
    """

    def shifted(name: str) -> Array:
        before, now = getattr(waiting.steps, name), getattr(step, name)
        return np.concatenate((before[:, 1:], now[:, None]), axis=1)

    steps = Step(**{name: shifted(name) for name in Step.__slots__})
    count = waiting.count + 1.0
    is_due = count > LAG
    nu, noise = steps.innovation[:, 0], hats(steps.signal[:, 0], SIGNAL_KNOTS)
    square = basis.squares(waiting.responses, noise)[..., 0, 0]
    products = np.stack(((nu * nu).mean(axis=1), (nu * waiting.last).mean(axis=1)), axis=1)
    label = np.concatenate((products, square, waiting.lagged), axis=1)
    # Q that leads to a step is that of the mode and the strain of the step that it leads to.
    on = smoothed(steps, change, at=1)
    process = on[:, :, None] * hats(steps.strain[:, 1], STRAIN_KNOTS)[:, None]
    responses, lagged = basis.step(
        waiting.responses, steps.gain[:, 0, :, None], process.reshape(nu.shape[0], -1), noise
    )
    return Waiting(
        steps,
        count,
        np.where(is_due[:, None], nu, waiting.last),
        np.where(is_due[:, None, None, None], responses, waiting.responses),
        np.where(is_due[:, None], lagged[..., 0, 0], waiting.lagged),
        np.where(is_due[:, None], label, np.nan),
    )


def smoothed(steps: Step, change: float, at: int = 0) -> Array:
    """Return how likely every mode was in a waiting step, 0 that which waited longest: (units, K).

    Backwards through what came since: β ← (1 − c)·ℓβ + c·mean(ℓβ), and then ∝ likely·β.
    """
    after = np.ones(steps.likely[:, 0].shape)
    for j in range(LAG, at, -1):
        told = steps.likelihood[:, j] * after
        after = (1.0 - change) * told + change * told.mean(axis=1, keepdims=True)
        after = after / np.maximum(after.max(axis=1, keepdims=True), 1e-300)
    weight = steps.likely[:, at] * after
    return np.asarray(weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-300))
