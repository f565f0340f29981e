"""Tracks with a known truth, and the innovations that a filter under wrong defaults leaves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.kalman.filter import Model, kalman_filter


@dataclass(frozen=True, eq=False)
class World:
    """A system, its truth, and what the filter of the history believed.

    Parameters
    ----------
    name : for tables
    f, h : F and H
    process, noise, start : the true Q, R and P₀
    defaults : factors of Q and R that make the fixed Q₀ and R₀
    prior : P_prior
    basis : of Q, None: any
    """

    name: str
    f: Array
    h: Array
    process: Array
    noise: Array
    start: Array
    prior: Array
    defaults: tuple[float, float] = (3.0, 0.5)
    basis: Array | None = None

    @property
    def believed(self) -> Model:
        """F, H, Q₀ and R₀: what the filter of the history was given."""
        q, r = self.defaults
        return Model(self.f, self.h, q * self.process, r * self.noise)

    def gains(self, steps: int) -> Array:
        """Return the gains (T, 1, n, m) of the filter that starts from the prior."""
        z = np.zeros((steps, 1, self.h.shape[0]))
        return kalman_filter(z, self.believed, np.zeros(self.f.shape[0]), self.prior).gain

    def errors(self, steps: int) -> Array:
        """Return the true covariances (T, n, n) of its prediction errors, from P₀ on."""
        found = [self.start]
        for k in self.gains(steps)[:-1, 0]:
            a, carried = self.f @ (np.eye(k.shape[0]) - k @ self.h), self.f @ k
            moved = a @ found[-1] @ a.T + self.process + carried @ self.noise @ carried.T
            found.append(moved)
        return np.stack(found)


def innovations(rng: np.random.Generator, world: World, gains: Array, n_tracks: int) -> Array:
    """Draw innovations (T, N, m): ε' = F(I − K_tH)ε + w − FK_t v, ν = Hε + v, ε₀ ~ N(0, P₀).

    The prediction error is drawn, not the state: it does not depend on where a track goes.
    `gains` (T, 1, n, m) are those of `World.gains`.
    """
    n, m = world.f.shape[0], world.h.shape[0]
    roots = [_root(part) for part in (world.start, world.process, world.noise)]
    error = rng.standard_normal((n_tracks, n)) @ roots[0].T
    found = np.empty((gains.shape[0], n_tracks, m))
    for t, k in enumerate(gains[:, 0]):
        v = rng.standard_normal((n_tracks, m)) @ roots[2].T
        found[t] = error @ world.h.T + v
        w = rng.standard_normal((n_tracks, n)) @ roots[1].T
        error = (error - found[t] @ k.T) @ world.f.T + w
    return found


def _root(covariance: Array) -> Array:
    """Return L with LLᵀ = C, of a C that may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def scalar(start: float = 4.0, prior: float = 1.0) -> World:
    """Return a random walk that is measured: Q = ½, R = 1."""
    one = np.ones((1, 1))
    return World("scalar", one, one, 0.5 * one, one, start * one, prior * one)


def full_rank() -> World:
    """Return two states, both measured, mixed: H has full column rank."""
    return World(
        "full column rank",
        f=np.array([[0.9, 0.2], [0.0, 0.8]]),
        h=np.array([[1.0, 0.0], [0.5, 1.0]]),
        process=np.array([[1.0, 0.3], [0.3, 0.5]]),
        noise=np.array([[1.0, 0.2], [0.2, 0.5]]),
        start=np.array([[4.0, 1.0], [1.0, 3.0]]),
        prior=np.array([[1.0, 0.0], [0.0, 1.0]]),
    )


def deficient() -> World:
    """Return position and velocity, position measured: H sees nothing of velocity."""
    push = np.array([[0.5], [1.0]])
    return World(
        "deficient rank",
        f=np.array([[1.0, 1.0], [0.0, 1.0]]),
        h=np.array([[1.0, 0.0]]),
        process=0.3 * push @ push.T,
        noise=np.array([[1.0]]),
        start=np.array([[4.0, 0.5], [0.5, 2.0]]),
        prior=np.array([[1.0, 0.3], [0.3, 0.5]]),
        basis=(push @ push.T)[None],
    )
