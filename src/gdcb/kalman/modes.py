"""Modes and what is known of tracks under each: models, filters and probabilities, tracks last."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman import square_root
from gdcb.kalman.filter import at
from gdcb.kalman.model import Model, tracks_last

Matrices = tuple[Array, Array, Array, Array]


def checked_models(models: Any) -> tuple[Model, ...]:
    """Return models as a tuple; refuse none, and what is not a `Model`."""
    if not isinstance(models, tuple | list):
        raise InvalidInput(f"models: expected a tuple of models, got {type(models).__name__}")
    if not models:
        raise InvalidInput("models: expected at least one model, got none")
    for model in models:
        if not isinstance(model, Model):
            raise InvalidInput(f"models: expected models, got {type(model).__name__}")
    return tuple(models)


@dataclass(frozen=True, slots=True, eq=False)
class Modes:
    """A model a mode, for N tracks; modes have the same states and measurements.

    Parameters
    ----------
    models : one `Model` a mode, M of them, each shared, by track, or by step and track
    n_tracks : N
    """

    models: tuple[Model, ...]
    n_tracks: int
    _constant: Matrices | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", checked_models(self.models))
        sizes = {(model.n_states, model.n_measurements) for model in self.models}
        if len(sizes) > 1:
            raise InvalidInput(
                f"modes: expected models of the same states and measurements, got {sorted(sizes)}"
            )
        counts = {model.n_tracks for model in self.models} - {None, self.n_tracks}
        if counts:
            raise InvalidInput(f"modes: expected models of {self.n_tracks} tracks, got {counts}")
        if all(model.n_steps is None for model in self.models):
            object.__setattr__(self, "_constant", self._at(0))

    @property
    def n_steps(self) -> int | None:
        """Number T of steps; None where no model changes in time."""
        counts = {model.n_steps for model in self.models} - {None}
        if len(counts) > 1:
            raise InvalidInput(f"modes: expected one number of steps, got {counts}")
        return counts.pop() if counts else None

    def at(self, t: int) -> Matrices:
        """Return F, H and the roots of Q and R at step t, each (i, j, M·N)."""
        return self._at(t) if self._constant is None else self._constant

    def _at(self, t: int) -> Matrices:
        f, h, q, r = (
            np.stack(
                [np.broadcast_to(part, (*part.shape[:2], self.n_tracks)) for part in parts], axis=2
            ).reshape(*parts[0].shape[:2], -1)
            for parts in zip(
                *(
                    (
                        at(tracks_last(model.transition), t),
                        at(tracks_last(model.measurement), t),
                        at(model.process_root, t),
                        at(model.noise_root, t),
                    )
                    for model in self.models
                ),
                strict=True,
            )
        )
        return f, h, q, r


@dataclass(frozen=True, slots=True, eq=False)
class ImmState:
    """What is known of tracks, a filter a mode; tracks last.

    Parameters
    ----------
    means : (n, M, N)
    roots : (c, n, M, N) c columns each: P = Σ_c roots[c] roots[c]ᵀ
    weights : (M, N) probability of each mode
    log_likelihood : (N,) of all that was seen so far
    """

    means: Array
    roots: Array
    weights: Array
    log_likelihood: Array

    @property
    def probability(self) -> Array:
        """Probability of each mode: (N, M)."""
        return np.ascontiguousarray(self.weights.T)

    @property
    def mode_mean(self) -> Array:
        """Mean of each mode's filter: (N, M, n)."""
        return np.ascontiguousarray(self.means.transpose(2, 1, 0))

    @property
    def mode_covariance(self) -> Array:
        """Covariance of each mode's filter: (N, M, n, n)."""
        c, n, m, tracks = self.roots.shape
        flat = square_root.squared(self.roots.reshape(c, n, m * tracks))
        return np.ascontiguousarray(flat.reshape(n, n, m, tracks).transpose(3, 2, 0, 1))

    @property
    def mean(self) -> Array:
        """Mean over modes: (N, n)."""
        return np.ascontiguousarray(self.combined()[0].T)

    @property
    def covariance(self) -> Array:
        """Covariance over modes, differences of their means included: (N, n, n)."""
        return np.ascontiguousarray(np.moveaxis(self.combined()[1], -1, 0))

    def combined(self) -> tuple[Array, Array]:
        """Return mean and covariance over modes, tracks last: (n, N), (n, n, N)."""
        mean, root = mixture(self.weights[:, None], self.means, self.roots)
        return mean[:, 0], square_root.squared(root[:, :, 0])


def mixture(share: Array, means: Array, roots: Array) -> tuple[Array, Array]:
    """Mix modes i by shares (i, j, N): means (n, j, N) and roots ((c + 1)·M, n, j, N)."""
    c, n, m, tracks = roots.shape
    width = share.shape[1]
    by_mode = means.swapaxes(0, 1)[:, :, None]
    mean = square_root.total(np.multiply(share[:, None], by_mode, order="C"))
    root = np.sqrt(share)
    out = np.empty((m, c + 1, n, width, tracks))
    out[:, :c] = root[:, None, None] * np.moveaxis(roots, 2, 0)[:, :, :, None]
    out[:, c] = root[:, None] * (by_mode - mean)
    return mean, out.reshape(m * (c + 1), n, width, tracks)
