"""What innovations say of covariances, whatever gains ran: their moments are linear in them.

For any gains K_t the error of a filter's prediction has the covariance M_t with

    M_{t+1} = A_t M_t A_tᵀ + Q_t + F K_t R_t K_tᵀ Fᵀ,    A_t = F(I − K_t H),    M_0 = P₀,

and its innovations the moments

    E[ν_t ν_tᵀ] = H M_t Hᵀ + R_t,    E[ν_{t+1} ν_tᵀ] = H F[(I − K_t H) M_t Hᵀ − K_t R_t].

All of them are linear in (Q, R, P₀). So where Q_t = Σ_i β_i c_i(t) Q_i, R_t = Σ_j β_j c_j(t) R_j
and P₀ = Σ_l β_l P_l with known weights c, every coefficient has a response of its own, and the
coefficients follow from a linear regression of products of innovations on these responses. With a
fixed gain and nothing but time averages that is autocovariance least squares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Basis:
    """The matrices whose coefficients are unknown.

    Parameters
    ----------
    transition, measurement : F (n, n), H (m, n)
    process : (I, n, n) parts Q_i of the process covariance
    noise : (J, m, m) parts R_j of the measurement covariance
    initial : (L, n, n) parts P_l of the covariance at the start of a track
    """

    transition: Array
    measurement: Array
    process: Array
    noise: Array
    initial: Array

    def __post_init__(self) -> None:
        n, m = self.transition.shape[-1], self.measurement.shape[0]
        for name, size in (("process", n), ("noise", m), ("initial", n)):
            part = getattr(self, name)
            if part.ndim != 3 or part.shape[1:] != (size, size):
                raise InvalidInput(
                    f"Basis.{name}: expected shape (parts, {size}, {size}), got {part.shape}"
                )
            if not np.isfinite(part).all():
                raise InvalidInput(f"Basis.{name}: expected finite numbers")

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many coefficients Q, R and P₀ have, in this order."""
        return self.process.shape[0], self.noise.shape[0], self.initial.shape[0]

    @property
    def size(self) -> int:
        """How many coefficients there are."""
        return sum(self.counts)

    def start(self, n_tracks: int) -> Array:
        """Return the responses of M_0 = P₀ for tracks that begin: (N, B, n, n)."""
        at, n = sum(self.counts[:2]), self.transition.shape[-1]
        out = np.zeros((n_tracks, self.size, n, n))
        out[:, at:] = self.initial
        return out

    def squares(self, m: Array, noise: Array) -> Array:
        """Return the responses of E[ν_tν_tᵀ]: (N, B, m, m).

        Parameters
        ----------
        m : (N, B, n, n) responses of M_t
        noise : (N, J) weights c_j(t)
        """
        h = self.measurement
        out: Array = h @ m @ h.T
        first, last = self.counts[0], sum(self.counts[:2])
        out[:, first:last] += noise[:, :, None, None] * self.noise
        return out

    def step(self, m: Array, gain: Array, process: Array, noise: Array) -> tuple[Array, Array]:
        """Return the responses of M_{t+1} (N, B, n, n) and of E[ν_{t+1}ν_tᵀ] (N, B, m, m).

        Parameters
        ----------
        m : (N, B, n, n) responses of M_t
        gain : (N, n, m) what ran
        process, noise : (N, I), (N, J) weights c_i(t), c_j(t)

        Examples
        --------
        F = H = 1, one part of each, K = ½ in steps of a track that begins with M_0 = P₀: its
        response is 1, and ¼ after one step; R's is then K² = ¼, and Q's 1.

        >>> one = np.ones((1, 1, 1))
        >>> basis = Basis(one[0], one[0], one, one, one)
        >>> m, unit = basis.start(1), np.ones((1, 1))
        >>> after, lagged = basis.step(m, 0.5 * one, unit, unit)
        >>> after.ravel().tolist(), lagged.ravel().tolist()
        ([1.0, 0.25, 0.25], [0.0, -0.5, 0.5])
        """
        f, h = self.transition, self.measurement
        first, last = self.counts[0], sum(self.counts[:2])
        fk = f @ gain
        a = (f - fk @ h)[:, None]
        am = a @ m
        after: Array = am @ a.swapaxes(-1, -2)
        lagged: Array = h @ am @ h.T
        after[:, :first] += process[:, :, None, None] * self.process
        spread = fk[:, None] @ self.noise
        after[:, first:last] += noise[:, :, None, None] * (spread @ fk[:, None].swapaxes(-1, -2))
        lagged[:, first:last] -= noise[:, :, None, None] * (h @ spread)
        return after, lagged
