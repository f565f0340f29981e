"""What a filter is given: measurements, what was seen of them, where tracks start."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman.model import Model, factored, floats, numbers, tracks_last


def measurements(z: Array, is_seen: Array | None, model: Model) -> tuple[Array, Array]:
    """Return measurements and which components were seen: (T, N, m) each."""
    if not isinstance(model, Model):
        raise InvalidInput(f"model: expected a Model, got {type(model).__name__}")
    z = floats("z", z)
    m, steps, tracks = model.n_measurements, model.n_steps, model.n_tracks
    if z.ndim != 3 or z.shape[2] != m or 0 in z.shape[:2]:
        raise InvalidInput(f"z: expected shape (steps, tracks, {m}), got {z.shape}")
    if steps not in (None, z.shape[0]) or tracks not in (None, z.shape[1]):
        raise InvalidInput(
            f"z: expected {steps or 'any number of'} steps and {tracks or 'any number of'} tracks, "
            f"as the model has, got {z.shape[0]} and {z.shape[1]}"
        )
    seen = ~np.isnan(z) if is_seen is None else np.asarray(is_seen)
    if seen.shape != z.shape or seen.dtype != bool:
        raise InvalidInput(
            f"is_seen: expected booleans of shape {z.shape}, got {seen.dtype} of {seen.shape}"
        )
    is_bad = seen & ~np.isfinite(z)
    if is_bad.any():
        t, i, j = (int(k) for k in np.argwhere(is_bad)[0])
        raise InvalidInput(
            f"z: expected a finite number where a component is seen, got {z[t, i, j]} for "
            f"component {j} (track {i}, step {t})"
        )
    return z, seen


def start(
    mean: Array, covariance: Array, is_root: bool, tracks: int, n: int
) -> tuple[Array, Array]:
    """Return the mean (n, N) and the root (n, n, N or 1)."""
    mean, covariance = floats("mean", mean), floats("covariance", covariance)
    shapes = ((n,), (tracks, n))
    numbers("mean", mean, mean.shape in shapes, f"{shapes[0]} or {shapes[1]}")
    wide = ((n, n), (tracks, n, n))
    numbers("covariance", covariance, covariance.shape in wide, f"{wide[0]} or {wide[1]}")
    if is_root:
        root = np.ascontiguousarray(tracks_last(covariance).swapaxes(0, 1))
    else:
        root = factored("covariance", covariance, False)
    return np.ascontiguousarray(np.broadcast_to(mean, (tracks, n)).T), root


def fixed_gains(gains: Array, steps: int, tracks: int, model: Model) -> Array:
    """Return given gains, tracks last: (n, m, N or 1) or (T, n, m, N or 1)."""
    gains = floats("gains", gains)
    shape = (model.n_states, model.n_measurements)
    lead = gains.shape[:-2]
    is_shape = gains.shape[-2:] == shape and lead in (
        *((), (1,), (tracks,)),
        *((a, b) for a in (1, steps) for b in (1, tracks)),
    )
    numbers("gains", gains, is_shape, f"(..., {shape[0]}, {shape[1]})")
    return tracks_last(gains)


def masks(seen: Array) -> list[Array | None]:
    """Return which components were seen by step: None where all, (m, 1) where tracks agree."""
    is_whole = np.logical_and.reduce(seen, axis=(1, 2))
    is_shared = np.logical_and.reduce(seen == seen[:, :1], axis=(1, 2))
    return [
        None if is_whole[t] else (seen[t, :1] if is_shared[t] else seen[t]).T.astype(float)
        for t in range(seen.shape[0])
    ]


def gate_limits(gate: Any, patience: Any, m: int) -> Array | None:
    """Return the largest νᵀS⁻¹ν that passes, by how many components were seen: (m + 1,).

    None without a gate. With two components χ² is −2·log(1 − p): 13.8 for a gate of 0.999.

    >>> gate_limits(0.999, 3, 2)[[0, 2]].round(1).tolist()
    [inf, 13.8]
    """
    from scipy.special import chdtri

    count("gate_patience", patience, 1)
    if gate is None:
        return None
    if isinstance(gate, bool) or not isinstance(gate, Real) or not 0.5 <= float(gate) < 1.0:
        raise InvalidInput(f"gate: expected a probability from 0.5 to below 1, got {gate!r}")
    left = 1.0 - float(gate)
    return np.array([np.inf, *(float(chdtri(k, left)) for k in range(1, m + 1))])


def counted(waited: Array, is_far: Array, is_there: Array, patience: int) -> tuple[Array, Array]:
    """Return which measurements the gate refuses, and how many in a row it has refused now: (N,).

    After `patience` refused, all are taken until one lies inside the gate: a target that turns goes
    on being followed. A step without a measurement changes nothing.

    >>> none, far, there = np.zeros(1, dtype=int), np.array([True]), np.array([True])
    >>> first, waited = counted(none, far, there, 1)
    >>> second, waited = counted(waited, far, there, 1)
    >>> third, waited = counted(waited, far, there, 1)
    >>> first.tolist(), second.tolist(), third.tolist(), waited.tolist()
    ([True], [False], [False], [1])
    >>> counted(waited, ~far, there, 1)[1].tolist()
    [0]
    """
    is_refused = is_far & (waited < patience)
    return is_refused, np.where(is_far, waited + is_refused, np.where(is_there, 0, waited))


def waits(waited: Array | None, tracks: int) -> Array:
    """Return how many measurements in a row were refused before the first step: (N,)."""
    if waited is None:
        return np.zeros(tracks, dtype=np.int64)
    found = np.asarray(waited)
    if found.shape != (tracks,) or found.dtype.kind not in "iu" or (found < 0).any():
        raise InvalidInput(f"waited: expected {tracks} whole numbers >= 0, got {waited!r}")
    return found.astype(np.int64)


def count(name: str, value: Any, least: int) -> int:
    """Return a whole number of at least `least`, also of NumPy's; refuse what is none."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise InvalidInput(f"{name}: expected a whole number >= {least}, got {value!r}")
    return int(value)


def lost(seen: Array, longest_gap: int | None) -> Array:
    """Return (T, N) whether more than `longest_gap` steps in a row went without any component."""
    is_there = seen.any(axis=2)
    if longest_gap is None:
        return np.zeros(is_there.shape, dtype=bool)
    step = np.arange(seen.shape[0])[:, None]
    last = np.maximum.accumulate(np.where(is_there, step, -1), axis=0)
    return np.asarray(step - last > longest_gap)
