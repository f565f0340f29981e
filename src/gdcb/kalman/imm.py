"""Interacting multiple models: a filter a mode, mixed by how likely each mode is, tracks at once.

Each step mixes what the modes' filters know by the probability that a track came from that mode,
moves and updates every filter, and weighs modes by how well they foretold the measurement
(Blom and Bar-Shalom 1988). Covariances are roots, as in `gdcb.kalman.filter`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman import inputs, square_root
from gdcb.kalman.filter import tracks_second
from gdcb.kalman.model import Model, factored, floats, numbers, tracks_last
from gdcb.kalman.modes import ImmState, Modes, checked_models, mixture

__all__ = [
    "ImmFiltered",
    "ImmState",
    "Modes",
    "imm",
    "imm_expected",
    "imm_predict",
    "imm_start",
    "imm_step",
    "imm_update",
]

_LOG_2PI = float(np.log(2.0 * np.pi))
_work = square_root.Work(square_root.MOST)


def imm_start(modes: Modes, mean: Array, covariance: Array, probability: Array) -> ImmState:
    """Return where tracks stand before anything was seen.

    Parameters
    ----------
    modes : the models
    mean : (n,), (N, n) or (N, M, n)
    covariance : (n, n), (N, n, n) or (N, M, n, n), positive semi-definite
    probability : (M,) or (N, M) of each mode
    """
    m, tracks, n = len(modes.models), modes.n_tracks, modes.models[0].n_states
    mean, covariance = floats("mean", mean), floats("covariance", covariance)
    shapes = ((n,), (tracks, n), (tracks, m, n))
    numbers("mean", mean, mean.shape in shapes, f"one of {shapes}")
    wide = tuple((*shape, n) for shape in shapes)
    numbers("covariance", covariance, covariance.shape in wide, f"one of {wide}")
    weights = _weights(probability, tracks, m)
    if mean.ndim == 2:
        mean = mean[:, None]
    root = factored("covariance", covariance.reshape(-1, n, n), False)
    lead = {2: (1, 1), 3: (1, tracks)}.get(covariance.ndim, (tracks, m))
    root = root.reshape(n, n, *lead)
    root = root.swapaxes(2, 3) if covariance.ndim == 4 else root
    return ImmState(
        np.ascontiguousarray(np.broadcast_to(mean, (tracks, m, n)).transpose(2, 1, 0)),
        np.ascontiguousarray(np.broadcast_to(root, (n, n, m, tracks))),
        weights,
        np.zeros(tracks),
    )


def imm_predict(state: ImmState, modes: Modes, transition: Array, t: int = 0) -> ImmState:
    """Mix the modes' filters and move each by its F and Q of step t.

    Parameters
    ----------
    state, modes : where tracks stand, and the models
    transition : (M, M) or (N, M, M) probability of mode j after mode i, rows i sum to 1
    t : which step's matrices, where models change in time
    """
    pi = _transition(transition, state.weights.shape)
    joint = pi * state.weights[:, None]
    after = square_root.total(joint)
    share = joint / np.maximum(after, 1e-300)
    # A mode that nothing leads to keeps what it knows; its weight is zero.
    share = np.where(after > 0.0, share, np.eye(pi.shape[0])[..., None])
    mixed, roots = mixture(share, state.means, state.roots)
    n, flat = mixed.shape[0], (mixed.shape[1] * mixed.shape[2],)
    f, _, q_root, _ = modes.at(t)
    means = square_root.applied(f, mixed.reshape(1, n, *flat))[0]
    moved = square_root.predicted(f, roots.reshape(-1, n, *flat), q_root, _work)
    return ImmState(
        means.reshape(mixed.shape),
        moved.reshape(n, n, *mixed.shape[1:]),
        after,
        state.log_likelihood,
    )


def imm_update(state: ImmState, z: Array, modes: Modes, t: int = 0) -> ImmState:
    """Update every mode's filter by a measurement (N, m), NaN where not seen, and weigh modes."""
    n_modes, tracks = state.weights.shape
    n, m = state.means.shape[0], modes.models[0].n_measurements
    z = floats("z", z)
    if z.shape != (tracks, m) or np.isinf(z).any():
        raise InvalidInput(f"z: expected finite numbers or NaN of shape ({tracks}, {m}), got {z}")
    seen = ~np.isnan(z)
    mask = np.tile(seen.T.astype(float), n_modes)
    with np.errstate(over="ignore", invalid="ignore"):
        updated, cross, half, white = _measured(state, z, modes, t)
        means = state.means.reshape(n, -1) + square_root.total(cross * white[:, None])
        score = -0.5 * square_root.total(white * white)
        for j in range(m):
            score = score - np.log(half[j, j]) - 0.5 * _LOG_2PI * mask[j]
    score = score.reshape(n_modes, tracks)
    is_possible = state.weights > 0.0
    score = np.where(
        is_possible, score + np.log(np.where(is_possible, state.weights, 1.0)), -np.inf
    )
    most = score.max(axis=0)
    is_bad = ~(np.isfinite(most) & np.isfinite(means).all(axis=0).reshape(n_modes, -1).all(axis=0))
    if is_bad.any():
        raise InvalidInput(
            f"imm: expected finite numbers, got a state that grew beyond all bounds "
            f"(track {int(is_bad.argmax())}, step {t})"
        )
    weights = np.exp(score - most)
    sum_of = square_root.total(weights)
    return ImmState(
        means.reshape(state.means.shape),
        np.ascontiguousarray(updated).reshape(-1, n, n_modes, tracks),
        weights / sum_of,
        state.log_likelihood + most + np.log(sum_of),
    )


def imm_step(state: ImmState, z: Array, modes: Modes, transition: Array, t: int = 0) -> ImmState:
    """Predict and update: one step of tracks in another loop.

    Parameters
    ----------
    state : after the last measurement
    z : (N, m) the new one; NaN where not seen
    modes, transition : the models, (M, M) or (N, M, M)
    t : step of the new measurement: F and Q are those of t − 1, which moved the state to it

    Examples
    --------
    Two modes with R = 1 and R = 3, F = H = 1, Q = 0, P = 1 and equal odds; after z = 0 both means
    are 0 and S is 2 or 4, so that the odds are 1/√2 to 1/√4.

    >>> still = [[0.0]]
    >>> models = (Model([[1]], [[1]], still, [[1]]), Model([[1]], [[1]], still, [[3]]))
    >>> modes = Modes(models, n_tracks=1)
    >>> state = imm_start(modes, np.zeros(1), np.ones((1, 1)), np.array([0.5, 0.5]))
    >>> state = imm_step(state, np.zeros((1, 1)), modes, np.eye(2))
    >>> float((state.probability[0, 0] / state.probability[0, 1]).round(9)), float(2**0.5)
    (1.414213562, 1.4142135623730951)
    """
    return imm_update(imm_predict(state, modes, transition, max(t - 1, 0)), z, modes, t)


@dataclass(frozen=True, slots=True, eq=False)
class ImmFiltered:
    """What the filters found together.

    Parameters
    ----------
    predicted, predicted_covariance : (T, N, n), (T, N, n, n) before the measurement, over modes
    mean, covariance : (T, N, n), (T, N, n, n) after it
    probability : (T, N, M) of each mode, after it
    innovation : (T, N, m) measurement less what the modes together expected; NaN where not seen
    innovation_covariance : (T, N, m, m) S over modes, differences of what they expect included
    is_gated : (T, N) whether the innovation gate refused the measurement, which counts as unseen
    log_likelihood : (N,) of what was seen
    state : where each mode's filter stands at the end
    """

    predicted: Array
    predicted_covariance: Array
    mean: Array
    covariance: Array
    probability: Array
    innovation: Array
    innovation_covariance: Array
    is_gated: Array
    log_likelihood: Array
    state: ImmState


def imm_expected(state: ImmState, modes: Modes, t: int = 0) -> tuple[Array, Array]:
    """Return the measurement that a predicted state expects, over modes: (N, m) and S (N, m, m).

    Two modes with means 0 and 2, P = 0 and R = 1, equally likely: 1 is expected, and S = 1 + 1.

    >>> modes = Modes((Model([[1]], [[1]], [[1]], [[1]]),) * 2, n_tracks=1)
    >>> at = np.array([[[0.0], [2.0]]])
    >>> state = imm_start(modes, at, np.zeros((1, 1)), np.array([0.5, 0.5]))
    >>> mean, s = imm_expected(state, modes)
    >>> mean.round(12).tolist(), s.round(12).tolist()
    ([[1.0]], [[[2.0]]])
    """
    (n_modes, tracks), n = state.weights.shape, state.means.shape[0]
    m = modes.models[0].n_measurements
    _, h, _, r_root = modes.at(t)
    means = square_root.applied(h, state.means.reshape(1, n, -1))[0]
    rows = square_root.applied(h, state.roots.reshape(-1, n, means.shape[1]))
    spread = square_root.squared(rows) + square_root.squared(r_root)
    by_mode = np.moveaxis(means.reshape(m, n_modes, tracks), 1, 0)
    weights = state.weights[:, None]
    mean = square_root.total(weights * by_mode)
    apart = by_mode - mean
    apart = apart[:, :, None] * apart[:, None]
    spread = np.moveaxis(spread.reshape(m, m, n_modes, tracks), 2, 0)
    covariance = square_root.total(weights[:, None] * (spread + apart))
    return np.ascontiguousarray(mean.T), np.ascontiguousarray(np.moveaxis(covariance, -1, 0))


def imm(
    z: Array,
    models: tuple[Model, ...],
    mean: Array,
    covariance: Array,
    probability: Array,
    transition: Array,
    *,
    is_seen: Array | None = None,
    gate: float | None = None,
    gate_patience: int = 3,
) -> ImmFiltered:
    """Filter whole tracks by interacting multiple models.

    Parameters
    ----------
    z : (T, N, m) measurements; NaN where not seen
    models : one a mode
    mean, covariance, probability : as of `imm_start`, *before* the first measurement: nothing is
        mixed or predicted before step 0, as in `kalman_filter`
    transition : (M, M), (N, M, M) or (T, N, M, M); that of step t leads from t to t + 1
    is_seen : (T, N, m) which components were seen, where NaN does not say it
    gate, gate_patience : as of `kalman_filter`; a measurement is refused where every mode refuses
        it, by its own innovation and S. The S of all modes together is mostly that of the calm one
        when a turn begins

    Notes
    -----
    One mode gives the Kalman filter. With several the mixture is kept as one normal law a mode: an
    approximation, so that its NIS and NEES need not lie in their bands.

    Examples
    --------
    One mode, F = H = 1, Q = 1, R = 2, P = 2: K = 1/2.

    >>> one = Model([[1]], [[1]], [[1]], [[2]])
    >>> z = np.full((1, 1, 1), 3.0)
    >>> out = imm(z, (one,), np.zeros(1), np.full((1, 1), 2.0), np.ones(1), np.eye(1))
    >>> float(out.mean[0, 0, 0].round(12)), float(out.covariance[0, 0, 0, 0].round(12))
    (1.5, 1.0)
    """
    models = checked_models(models)
    z, seen = inputs.measurements(z, is_seen, models[0])
    limits = inputs.gate_limits(gate, gate_patience, z.shape[2])
    modes = Modes(models, z.shape[1])
    if modes.n_steps not in (None, z.shape[0]):
        raise InvalidInput(f"z: expected {modes.n_steps} steps, as the models, got {z.shape[0]}")
    z = np.where(seen, z, np.nan)
    transition = floats("transition", transition)
    if transition.ndim == 4 and transition.shape[0] not in (1, z.shape[0]):
        raise InvalidInput(f"transition: expected {z.shape[0]} steps, got {transition.shape[0]}")
    state = imm_start(modes, mean, covariance, probability)
    steps, tracks, n = z.shape[0], z.shape[1], modes.models[0].n_states
    before, after = np.empty((2, steps, n, tracks))
    p_before, p_after = np.empty((2, steps, n, n, tracks))
    weights = np.empty((steps, len(modes.models), tracks))
    m = z.shape[2]
    innovation, spread = np.empty(z.shape), np.empty((steps, tracks, m, m))
    is_gated, waited = np.zeros((steps, tracks), dtype=bool), np.zeros(tracks, dtype=np.int64)
    for t in range(steps):
        if t:
            state = imm_predict(state, modes, _at_step(transition, t - 1), t - 1)
        before[t], p_before[t] = state.combined()
        expected, spread[t] = imm_expected(state, modes, t)
        innovation[t] = z[t] - expected
        if limits is not None:
            is_far = _nearest(state, z[t], modes, t) > limits[seen[t].sum(axis=1)]
            there = seen[t].any(axis=1)
            is_gated[t], waited = inputs.counted(waited, is_far, there, gate_patience)
            z[t, is_gated[t]] = innovation[t, is_gated[t]] = np.nan
        state = imm_update(state, z[t], modes, t)
        after[t], p_after[t] = state.combined()
        weights[t] = state.weights
    parts = (tracks_second(part, tracks) for part in (before, p_before, after, p_after, weights))
    predicted, predicted_covariance, mean, covariance, probability = parts
    return ImmFiltered(
        predicted,
        predicted_covariance,
        mean,
        covariance,
        probability,
        innovation,
        spread,
        is_gated,
        state.log_likelihood,
        state,
    )


def _measured(state: ImmState, z: Array, modes: Modes, t: int) -> tuple[Array, ...]:
    """Return every mode's updated root, K·S^½, S^½ and whitened innovation, modes beside tracks."""
    n, n_modes = state.means.shape[:2]
    seen, means = ~np.isnan(z), state.means.reshape(n, -1)
    mask = np.tile(seen.T.astype(float), n_modes)
    _, h, _, r_root = modes.at(t)
    error = np.tile(np.where(seen, z, 0.0).T, n_modes)
    error = (error - square_root.applied(h, means[None])[0]) * mask
    root = state.roots.reshape(-1, n, means.shape[1])
    updated, _, cross, half = square_root.measured(root, h, r_root, mask, _work)
    return updated, cross, half, square_root.whitened(half, error)


def _nearest(state: ImmState, z: Array, modes: Modes, t: int) -> Array:
    """Return the smallest νᵀS⁻¹ν of the modes that are possible, of what was seen: (N,)."""
    with np.errstate(over="ignore", invalid="ignore"):
        white = _measured(state, z, modes, t)[-1]
        distance = square_root.total(white * white).reshape(state.weights.shape)
    return np.asarray(np.where(state.weights > 0.0, distance, np.inf).min(axis=0))


def _at_step(transition: Array, t: int) -> Array:
    if transition.ndim < 4:
        return transition
    one: Array = transition[t if transition.shape[0] > 1 else 0]
    return one


def _weights(probability: Array, tracks: int, m: int) -> Array:
    """Return (M, N) weights."""
    probability = floats("probability", probability)
    shapes = ((m,), (tracks, m))
    numbers("probability", probability, probability.shape in shapes, f"{shapes[0]} or {shapes[1]}")
    _refuse_not_one("probability", probability)
    return np.ascontiguousarray(np.broadcast_to(probability, (tracks, m)).T)


def _transition(transition: Array, shape: tuple[int, ...]) -> Array:
    """Return (M, M, N or 1), tracks last."""
    m, tracks = shape
    transition = floats("transition", transition)
    shapes = ((m, m), (1, m, m), (tracks, m, m))
    numbers("transition", transition, transition.shape in shapes, f"{shapes[0]} or {shapes[2]}")
    _refuse_not_one("transition", transition)
    return tracks_last(transition)


def _refuse_not_one(name: str, values: Array) -> None:
    sums = values.sum(axis=-1)
    if (values < 0.0).any() or (np.abs(sums - 1.0) > 1e-9).any():
        raise InvalidInput(
            f"{name}: expected numbers >= 0 that sum to 1 over the last axis, got sums from "
            f"{sums.min():g} to {sums.max():g} and a smallest of {values.min():g}"
        )
