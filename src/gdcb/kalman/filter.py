"""The batched Kalman filter: many tracks at once, some measurements missing, roots of covariances.

Time comes first, then tracks: T steps, N tracks, n states, m components of a measurement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman import square_root
from gdcb.kalman.model import Model, factored, numbers, tracks_last

__all__ = ["Filtered", "Model", "kalman_filter"]

_LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True, slots=True, eq=False)
class Filtered:
    """What a filter found; arrays that all tracks share are views, not to be written.

    Parameters
    ----------
    predicted, predicted_covariance : (T, N, n), (T, N, n, n) state before the measurement, P
    mean, covariance : (T, N, n), (T, N, n, n) state after it
    innovation : (T, N, m) ν = z − H·predicted; NaN where not seen
    innovation_covariance : (T, N, m, m) S = HPHᵀ + R, of all components, seen or not
    gain : (T, N, n, m) K; columns of what was not seen are zero
    log_likelihood : (N,) of what was seen
    is_lost : (T, N) whether a track had gone unseen for more than `longest_gap` steps
    next_mean, next_root : (N, n), (N, n, n) prediction for step T and L of its covariance LLᵀ: a
        filter that starts from them goes on as if it had not stopped
    """

    predicted: Array
    predicted_covariance: Array
    mean: Array
    covariance: Array
    innovation: Array
    innovation_covariance: Array
    gain: Array
    log_likelihood: Array
    is_lost: Array
    next_mean: Array
    next_root: Array


def kalman_filter(
    z: Array,
    model: Model,
    mean: Array,
    covariance: Array,
    *,
    is_seen: Array | None = None,
    gains: Array | None = None,
    is_root: bool = False,
    longest_gap: int | None = None,
) -> Filtered:
    """Filter tracks.

    K = PHᵀ(HPHᵀ + R)⁻¹, and P is carried as a square root, so that it stays positive-definite
    where R is ten or more decades below P (`gdcb.kalman.square_root`).

    Parameters
    ----------
    z : (T, N, m) measurements; NaN where a component was not seen
    model : F, H, Q, R
    mean, covariance : (N, n) or (n,), (N, n, n) or (n, n) the state *before* the first
        measurement: nothing is predicted before step 0. Semi-definite
    is_seen : (T, N, m) which components were seen, where NaN does not say it
    gains : (n, m), (N, n, m) or (T, N, n, m) gains to use in place of the best ones. Covariances
        are those of that gain, (I − KH)P(I − KH)ᵀ + KRKᵀ
    is_root : whether `covariance` is L of LLᵀ, as `Filtered.next_root` is
    longest_gap : after so many steps without any component a track counts as lost: it is marked
        in `is_lost`, and numbers of it that are no longer finite are not refused

    Returns
    -------
    Filtered

    Raises
    ------
    InvalidInput
        where shapes, covariances or measurements are wrong, and where numbers of a track that is
        not lost overflow: the message names the track and the step

    Notes
    -----
    A gap is pure prediction: the covariance grows, without bound where F is not stable.
    Assumes linear motion and noise without memory. The covariances are what the model claims; see
    `gdcb.kalman.agreement` for whether the track agrees.

    Examples
    --------
    F = H = 1, Q = 1, R = 2, P = 2: K = 2/4, so that a measurement of 3 gives 1.5 and P = 1; then
    P = 2 again. An unseen measurement changes nothing, and P grows to 3.

    >>> model = Model([[1]], [[1]], [[1]], [[2]])
    >>> z = np.array([3.0, np.nan, 1.5]).reshape(3, 1, 1)
    >>> out = kalman_filter(z, model, np.zeros(1), np.full((1, 1), 2.0))
    >>> out.mean.ravel().round(12).tolist(), out.predicted_covariance.ravel().round(12).tolist()
    ([1.5, 1.5, 1.5], [2.0, 2.0, 3.0])
    """
    z, seen = _measurements(z, is_seen, model)
    steps, tracks, m = z.shape
    mean, root = _start(mean, covariance, is_root, tracks, model.n_states)
    fixed = None if gains is None else _gains(gains, steps, tracks, model)
    z = np.moveaxis(np.where(seen, z, 0.0), 1, -1).copy()
    masks = _masks(seen)
    f, h, r = (tracks_last(part) for part in (model.transition, model.measurement, model.noise))
    q_root, r_root = model.process_root, model.noise_root
    shared = (root, f, h, r, q_root, *(() if fixed is None else (fixed,)))
    widths = {part.shape[-1] for part in shared} | {1 if x is None else x.shape[1] for x in masks}
    n, width = model.n_states, max(widths)
    before, after = np.empty((2, steps, n, tracks))
    p_before, p_after = np.empty((2, steps, n, n, width))
    innovation, s_all = np.empty((steps, m, tracks)), np.empty((steps, m, m, width))
    k_all = np.empty((steps, n, m, width))
    likelihood = np.zeros(tracks)
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(steps):
            ht, rt, r_half, mask = at(h, t), at(r, t), at(r_root, t), masks[t]
            before[t], p_before[t] = mean, square_root.squared(root)
            error = z[t] - square_root.applied(ht, mean[None])[0]
            s_all[t] = square_root.squared(square_root.applied(ht, root)) + rt
            if mask is not None:
                error = error * mask
            innovation[t] = error
            updated, cross, half = square_root.measured(root, ht, r_half, mask)
            white = square_root.whitened(half, error)
            if fixed is None:
                k_all[t] = square_root.unwhitened(cross, half)
                mean = mean + square_root.total(cross * white[:, None])
            else:
                k = at(fixed, t) if mask is None else at(fixed, t) * mask
                k_all[t], updated = k, square_root.fixed(root, ht, r_half, k)
                mean = mean + square_root.applied(k, error[None])[0]
            likelihood -= 0.5 * square_root.total(white * white)
            for j in range(m):
                likelihood -= np.log(half[j, j])
            after[t], p_after[t] = mean, square_root.squared(updated)
            mean = square_root.applied(at(f, t), mean[None])[0]
            root = square_root.predicted(at(f, t), updated, at(q_root, t))
    likelihood -= 0.5 * _LOG_2PI * seen.sum(axis=(0, 2))
    is_lost = _lost(seen, longest_gap)
    _refuse_divergence(before, p_before, after, p_after, is_lost)
    innovation = np.moveaxis(innovation, -1, 1).copy()
    innovation[~seen] = np.nan
    return Filtered(
        tracks_second(before, tracks),
        tracks_second(p_before, tracks),
        tracks_second(after, tracks),
        tracks_second(p_after, tracks),
        innovation,
        tracks_second(s_all, tracks),
        tracks_second(k_all, tracks),
        likelihood,
        is_lost,
        np.ascontiguousarray(mean.T),
        np.array(np.broadcast_to(np.moveaxis(root, -1, 0).swapaxes(-1, -2), (tracks, n, n))),
    )


def at(part: Array, t: int) -> Array:
    """Return what holds at step t, of a part that is by step (T or 1, ...) or is not."""
    if part.ndim == 3:
        return part
    one: Array = part[t if part.shape[0] > 1 else 0]
    return one


def tracks_second(part: Array, tracks: int) -> Array:
    """Return (T, ..., N or 1) as (T, N, ...); a view where all tracks share it."""
    out = np.ascontiguousarray(np.moveaxis(part, -1, 1))
    return np.broadcast_to(out, (out.shape[0], tracks, *out.shape[2:]))


def _measurements(z: Array, is_seen: Array | None, model: Model) -> tuple[Array, Array]:
    z = np.asarray(z, dtype=float)
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


def _start(
    mean: Array, covariance: Array, is_root: bool, tracks: int, n: int
) -> tuple[Array, Array]:
    """Return the mean (n, N) and the root (n, n, N or 1)."""
    mean, covariance = np.asarray(mean, dtype=float), np.asarray(covariance, dtype=float)
    shapes = ((n,), (tracks, n))
    numbers("mean", mean, mean.shape in shapes, f"{shapes[0]} or {shapes[1]}")
    wide = ((n, n), (tracks, n, n))
    numbers("covariance", covariance, covariance.shape in wide, f"{wide[0]} or {wide[1]}")
    if is_root:
        root = np.ascontiguousarray(tracks_last(covariance).swapaxes(0, 1))
    else:
        root = factored("covariance", covariance, False)
    return np.ascontiguousarray(np.broadcast_to(mean, (tracks, n)).T), root


def _gains(gains: Array, steps: int, tracks: int, model: Model) -> Array:
    gains = np.asarray(gains, dtype=float)
    shape = (model.n_states, model.n_measurements)
    lead = gains.shape[:-2]
    is_shape = gains.shape[-2:] == shape and lead in (
        *((), (1,), (tracks,)),
        *((a, b) for a in (1, steps) for b in (1, tracks)),
    )
    numbers("gains", gains, is_shape, f"(..., {shape[0]}, {shape[1]})")
    return tracks_last(gains)


def _masks(seen: Array) -> list[Array | None]:
    """Return which components were seen by step: None where all, (m, 1) where tracks agree."""
    is_whole: Array = seen.all(axis=(1, 2))
    is_shared: Array = np.equal(seen, seen[:, :1]).all(axis=(1, 2))
    return [
        None if is_whole[t] else (seen[t, :1] if is_shared[t] else seen[t]).T.astype(float)
        for t in range(seen.shape[0])
    ]


def _lost(seen: Array, longest_gap: int | None) -> Array:
    """Return (T, N) whether more than `longest_gap` steps in a row went without any component."""
    is_there = seen.any(axis=2)
    if longest_gap is None:
        return np.zeros(is_there.shape, dtype=bool)
    if isinstance(longest_gap, bool) or longest_gap < 0:
        raise InvalidInput(f"longest_gap: expected a number of steps >= 0, got {longest_gap!r}")
    step = np.arange(seen.shape[0])[:, None]
    last = np.maximum.accumulate(np.where(is_there, step, -1), axis=0)
    return np.asarray(step - last > longest_gap)


def _refuse_divergence(
    before: Array, p_before: Array, after: Array, p_after: Array, is_lost: Array
) -> None:
    """Refuse numbers that are not finite, unless their track was lost at or before that step."""
    with np.errstate(over="ignore", invalid="ignore"):
        is_finite = np.isfinite(before.sum(axis=1) + after.sum(axis=1))
        is_finite = is_finite & np.isfinite((p_before + p_after).sum(axis=(1, 2)))
    is_bad = ~is_finite & ~np.logical_or.accumulate(is_lost, axis=0)
    if is_bad.any():
        t, i = (int(k) for k in np.argwhere(is_bad)[0])
        p = p_before[t, :, :, i if p_before.shape[-1] > 1 else 0]
        what = "covariance" if not np.isfinite(p).all() else "state"
        raise InvalidInput(
            f"filter: expected finite numbers, got a {what} that grew beyond all bounds "
            f"(track {i}, step {t}); F is not stable where nothing is seen, or a gain is not"
        )
