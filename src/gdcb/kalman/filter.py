"""The batched Kalman filter: many tracks at once, some measurements missing, roots of covariances.

Time comes first, then tracks: T steps, N tracks, n states, m components of a measurement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman import inputs, square_root
from gdcb.kalman.model import Model, tracks_last

__all__ = ["Filtered", "Model", "kalman_filter"]

_LOG_2PI = float(np.log(2.0 * np.pi))
_LONGEST_CYCLE = 1024  # steps; a root that comes back later is not recognised


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
    smallest_root : (T, N) smallest entry on the diagonal of L, P = LLᵀ before the measurement:
        P is positive-definite while it is above zero, also where P's own digits cannot show it
    is_lost : (T, N) whether a track had gone unseen for more than `longest_gap` steps
    is_gated : (T, N) whether the innovation gate refused the measurement, which counts as unseen
    next_mean, next_root : (N, n), (N, n, n) prediction for step T and L of its covariance LLᵀ: a
        filter that starts from them, and with a gate from `next_waited`, goes on as if it had not
        stopped. Only `longest_gap` counts from the first step of each call
    next_waited : (N,) measurements that the gate had refused in a row at the end
    """

    predicted: Array
    predicted_covariance: Array
    mean: Array
    covariance: Array
    innovation: Array
    innovation_covariance: Array
    gain: Array
    log_likelihood: Array
    smallest_root: Array
    is_lost: Array
    is_gated: Array
    next_mean: Array
    next_root: Array
    next_waited: Array


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
    gate: float | None = None,
    gate_patience: int = 3,
    waited: Array | None = None,
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
    gate : a probability such as 0.999: a measurement whose νᵀS⁻¹ν exceeds that quantile of χ² is
        refused, counts as unseen and is marked in `is_gated`. None: all are taken
    gate_patience : after so many refused in a row all are taken, whatever they say, until one lies
        inside the gate again
    waited : (N,) how many in a row the gate had refused before, as `Filtered.next_waited` is

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

    A gate cannot tell a wrong measurement from a target that really turned: when a turn begins it
    refuses right ones, until S has grown or `gate_patience` is over. Where Q is too small for the
    turns that there are, it does harm; see `is_gated`, and use `gdcb.kalman.imm` there.
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
    z, seen = inputs.measurements(z, is_seen, model)
    steps, tracks, m = z.shape
    limits, next_waited = inputs.gate_limits(gate, gate_patience, m), inputs.waits(waited, tracks)
    if longest_gap is not None:
        inputs.count("longest_gap", longest_gap, 0)
    mean, root = inputs.start(mean, covariance, is_root, tracks, model.n_states)
    fixed = None if gains is None else inputs.fixed_gains(gains, steps, tracks, model)
    is_gated = np.zeros((steps, tracks), dtype=bool)
    if limits is not None:
        is_gated, next_waited = _gated(
            z, seen, model, mean, root, fixed, limits, gate_patience, next_waited
        )
        seen = seen & ~is_gated[:, :, None]
    is_lost = inputs.lost(seen, longest_gap)
    masks = inputs.masks(seen)
    z = np.moveaxis(np.where(seen, z, 0.0), 1, -1).copy()
    f, h = tracks_last(model.transition), tracks_last(model.measurement)
    before, after = np.empty((2, steps, model.n_states, tracks))
    innovation, white = np.empty((2, steps, m, tracks))
    likelihood = np.zeros(tracks)
    with np.errstate(over="ignore", invalid="ignore"):
        spread = _spreads(model, f, h, root, masks, fixed)
        for t in range(steps):
            before[t] = mean
            error = z[t] - square_root.applied(at(h, t), mean[None])[0]
            mask = masks[t]
            innovation[t] = error = error if mask is None else error * mask
            white[t] = square_root.whitened(spread.half[t], error)
            if fixed is None:
                mean = mean + square_root.total(spread.cross[t] * white[t, :, None])
            else:
                mean = mean + square_root.applied(spread.gain[t], error[None])[0]
            after[t] = mean
            mean = square_root.applied(at(f, t), mean[None])[0]
        for j in range(m):
            likelihood -= 0.5 * square_root.total(white[:, j] ** 2)
            likelihood -= square_root.total(np.log(spread.half[:, j, j].copy()))
    likelihood -= 0.5 * _LOG_2PI * seen.sum(axis=(0, 2))
    _refuse_divergence(before, after, spread, is_lost)
    innovation = np.moveaxis(innovation, -1, 1).copy()
    innovation[~seen] = np.nan
    n = model.n_states
    return Filtered(
        tracks_second(before, tracks),
        tracks_second(spread.before, tracks),
        tracks_second(after, tracks),
        tracks_second(spread.after, tracks),
        innovation,
        tracks_second(spread.innovation, tracks),
        tracks_second(spread.gain, tracks),
        likelihood,
        tracks_second(spread.smallest, tracks),
        is_lost,
        is_gated,
        np.ascontiguousarray(mean.T),
        np.array(np.broadcast_to(np.moveaxis(spread.root, -1, 0).swapaxes(1, 2), (tracks, n, n))),
        next_waited,
    )


def _gated(
    z: Array,
    seen: Array,
    model: Model,
    mean: Array,
    root: Array,
    fixed: Array | None,
    limits: Array,
    patience: int,
    waited: Array,
) -> tuple[Array, Array]:
    """Return which measurements are refused (T, N), each by what was taken before it; `waited`."""
    steps, tracks, _ = z.shape
    n = model.n_states
    f, h, work = tracks_last(model.transition), tracks_last(model.measurement), square_root.Work()
    root = np.broadcast_to(root, (n, n, tracks))
    refused = np.zeros((steps, tracks), dtype=bool)
    values = np.moveaxis(np.where(seen, z, 0.0), 1, -1)
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(steps):
            ht, r_half, mask = at(h, t), at(model.noise_root, t), seen[t].T.astype(float)
            error = (values[t] - square_root.applied(ht, mean[None])[0]) * mask
            _, _, _, half = square_root.measured(root, ht, r_half, mask, work)
            distance = square_root.total(square_root.whitened(half, error) ** 2)
            is_far = distance > limits[seen[t].sum(axis=1)]
            there = seen[t].any(axis=1)
            refused[t], waited = inputs.counted(waited, is_far, there, patience)
            mask = mask * ~refused[t]
            updated, _, cross, half = square_root.measured(root, ht, r_half, mask, work)
            error = error * mask
            if fixed is None:
                white = square_root.whitened(half, error)
                mean = mean + square_root.total(cross * white[:, None])
            else:
                gain = at(fixed, t) * mask
                updated = square_root.fixed(root, ht, r_half, gain)
                mean = mean + square_root.applied(gain, error[None])[0]
            mean = square_root.applied(at(f, t), mean[None])[0]
            root = square_root.predicted(at(f, t), updated, at(model.process_root, t), work)
    return refused, waited


@dataclass(frozen=True, slots=True)
class _Spreads:
    """Covariances of all steps, tracks last: what does not depend on the measurements' values.

    Parameters
    ----------
    before, after, innovation : (T, n, n, N), (T, n, n, N), (T, m, m, N)
    gain, cross, half : (T, n, m, N), (T, m, n, N) K·S^½, (T, m, m, N) S^½ of what was seen
    smallest : (T, N) smallest entry on the diagonal of the root before the measurement
    root : (n, n, N) of the prediction for step T
    """

    before: Array
    after: Array
    innovation: Array
    gain: Array
    cross: Array
    half: Array
    smallest: Array
    root: Array


def _spreads(
    model: Model, f: Array, h: Array, root: Array, masks: list[Array | None], fixed: Array | None
) -> _Spreads:
    """Run the covariances; where all tracks share them, once for all.

    Where a root comes back to one it has been at, to the last bit, the steps since then come again
    and are copied: rounding ends in a short cycle.
    """
    r, q_root, r_root = tracks_last(model.noise), model.process_root, model.noise_root
    parts = [f, h, r, q_root] + ([] if fixed is None else [fixed])
    widths = [root.shape[-1], *(part.shape[-1] for part in parts)]
    width = max(*widths, *(1 if mask is None else mask.shape[1] for mask in masks))
    is_shared = width == 1
    may_cycle = is_shared and all(part.ndim == 3 or part.shape[0] == 1 for part in parts)
    steps, n, m = len(masks), model.n_states, model.n_measurements
    gains, cross = np.empty((steps, n, m, width)), np.empty((steps, m, n, width))
    half, innovation = np.empty((2, steps, m, m, width))
    before, after = np.empty((2, steps, n, n, width))
    smallest, work = np.empty((steps, width)), square_root.Work()
    # Of a shared covariance all roots are kept, and steps squared at once as if they were tracks.
    kept = steps if is_shared else 1
    roots, found = np.empty((kept, n, n, width)), np.empty((kept, n + m, n, width))
    rows = np.empty((kept, n, m, width))
    been: dict[bytes, int] = {}
    period = 0
    for t, mask in enumerate(masks):
        if mask is not None:
            been, period = {}, 0
        elif len(been) > _LONGEST_CYCLE:
            been = {}
        if mask is None and may_cycle and not period:
            period = t - been.setdefault(root.tobytes(), t)
        if period:
            for part in (gains, cross, half, roots, found, rows):
                part[t] = part[t - period]
            root = roots[t - period + 1]
            continue
        ht, r_half = at(h, t), at(r_root, t)
        updated, seen_by, cross[t], half[t] = square_root.measured(root, ht, r_half, mask, work)
        if fixed is not None:
            gains[t] = at(fixed, t) if mask is None else at(fixed, t) * mask
            updated = square_root.fixed(root, ht, r_half, gains[t])
        if is_shared:
            roots[t], found[t], rows[t] = root, updated, seen_by
        else:
            before[t], innovation[t] = square_root.squared(root), square_root.squared(seen_by)
            square_root.squared(updated, after[t])
            smallest[t] = _smallest(root)
            if fixed is None:
                gains[t] = square_root.unwhitened(cross[t], half[t])
        root = square_root.predicted(at(f, t), updated, at(q_root, t), work)
    if is_shared:
        before, after = (_at_once(square_root.squared, part) for part in (roots, found))
        innovation, smallest = _at_once(square_root.squared, rows), _at_once(_smallest, roots)
        gains = gains if fixed is not None else _at_once(square_root.unwhitened, cross, half)
    return _Spreads(before, after, innovation + r, gains, cross, half, smallest, root)


def _smallest(root: Array) -> Array:
    """Return the smallest entry on the diagonal: (N,)."""
    smallest: Array = np.abs(np.einsum("iik->ik", root)).min(axis=0)
    return smallest


def _at_once(function: Callable[..., Array], *parts: Array) -> Array:
    """Apply a function of arrays (..., N) to arrays (T, ..., 1), steps in the place of tracks."""
    found = function(*(np.moveaxis(part[..., 0], 0, -1) for part in parts))
    return np.ascontiguousarray(np.moveaxis(found, -1, 0))[..., None]


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


def _refuse_divergence(before: Array, after: Array, spread: _Spreads, is_lost: Array) -> None:
    """Refuse numbers that are not finite, unless their track was lost at or before that step."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums = before.sum() + after.sum() + spread.before.sum() + spread.after.sum()
        if np.isfinite(sums):
            return
        is_finite = np.isfinite(before.sum(axis=1) + after.sum(axis=1))
        is_finite = is_finite & np.isfinite((spread.before + spread.after).sum(axis=(1, 2)))
    is_bad = ~is_finite & ~np.logical_or.accumulate(is_lost, axis=0)
    if is_bad.any():
        t, i = (int(k) for k in np.argwhere(is_bad)[0])
        p = spread.before[t, :, :, i if spread.before.shape[-1] > 1 else 0]
        what = "covariance" if not np.isfinite(p).all() else "state"
        raise InvalidInput(
            f"filter: expected finite numbers, got a {what} that grew beyond all bounds "
            f"(track {i}, step {t}); F is not stable where nothing is seen, or a gain is not"
        )
