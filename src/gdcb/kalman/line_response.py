"""From a line in the innovations to the line in the measurements that caused it.

A filter with a fixed gain is linear and, once started, time-invariant: a cosine in the measurements
is a cosine of the same frequency in the innovations, with another amplitude and phase. At low
frequencies the filter follows the line, and little of it is left in the innovations.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman.spectrum import Lines


def innovation_response(
    frequency: npt.ArrayLike,
    transition: npt.ArrayLike,
    measurement: npt.ArrayLike,
    gain: npt.ArrayLike,
) -> Array:
    """Return G(f), the response of innovations to measurements under a fixed gain: (L, m, m).

    G(f) = I − H (e^{2πif} I − F + F K H)^{−1} F K, since ŝ_{t+1} = F(ŝ_t + K ν_t) and
    ν_t = z_t − H ŝ_t with ŝ_t the prediction.

    Parameters
    ----------
    frequency : (L,) f in cycles a step, 0 < f < 0.5
    transition, measurement, gain : F (n, n), H (m, n), K (n, m)

    Examples
    --------
    A random walk with gain ½: G = (e − 1)/(e − ½) at e = e^{2πif}. At a quarter of a cycle e = i,
    and |G|² = 2/(1 + ¼) = 1.6.

    >>> g = innovation_response([0.25], [[1.0]], [[1.0]], [[0.5]])
    >>> round(float(abs(g[0, 0, 0]) ** 2), 9)
    1.6
    """
    f, h, k, at = _checked(frequency, transition, measurement, gain)
    n, m = f.shape[0], h.shape[0]
    around = np.exp(2j * np.pi * at)[:, None, None] * np.eye(n) - (f - f @ k @ h)
    return np.asarray(
        np.eye(m) - h @ np.linalg.solve(around, np.broadcast_to(f @ k, (len(at), n, m)))
    )


def measurement_lines(
    lines: Lines,
    transition: npt.ArrayLike,
    measurement: npt.ArrayLike,
    gain: npt.ArrayLike,
    *,
    least: float = 0.5,
) -> Lines:
    """Return the lines as they are in the measurements of a filter with a fixed gain.

    Parameters
    ----------
    lines : found in innovations (T, N, m); with one channel also (T,) or (T, N)
    transition, measurement, gain : F (n, n), H (m, n), K (n, m)
    least : smallest singular value of G(f) at which a line that was searched for is kept; given
        periods are always kept

    Returns
    -------
    Lines : those kept, with their p-values; amplitude and phase are those of G(f)⁻¹ times the
        innovations' phasor, and errors grow alike

    Notes
    -----
    Where |G| is small, as it is well below the filter's bandwidth, noise is amplified by 1/|G|, and
    one false line taken off the measurements there costs more than many true ones save. The gain
    must have been in force for the whole record; a filter whose gain still settles has no G.

    Examples
    --------
    Innovations of a random walk with gain ½ hold √1.6 of a line at a quarter of a cycle.

    >>> one = np.ones(1)
    >>> zero, seen = 0 * one, 1.6**0.5 * one
    >>> lines = Lines(0.25 * one, seen, zero, zero, one > 0, zero, zero, 0.05)
    >>> measurement_lines(lines, [[1.0]], [[1.0]], [[0.5]]).amplitude.round(9).tolist()
    [1.0]
    """
    response = innovation_response(lines.frequency, transition, measurement, gain)
    m = response.shape[-1]
    has_channels = lines.amplitude.ndim == 3
    width = lines.amplitude.shape[-1] if has_channels else 1
    if width != m:
        raise InvalidInput(
            f"lines: expected amplitudes of {m} channel{'s' if m > 1 else ''}, as H has rows, got "
            f"shape {lines.amplitude.shape}"
        )
    if not least >= 0.0:
        raise InvalidInput(f"least: expected a number of at least 0, got {least}")
    smallest = np.linalg.svd(response, compute_uv=False)[:, -1]
    is_kept = lines.is_given | (smallest >= least)
    lines, response, smallest = lines.only(is_kept), response[is_kept], smallest[is_kept]
    if lines.n_lines == 0:
        return lines
    if (smallest < 1e-8).any():
        raise InvalidInput(
            f"lines: at frequency {lines.frequency[np.argmin(smallest)]:g} the innovations hold "
            "nothing of a line in the measurements, so it cannot be worked out"
        )
    inverse = np.linalg.inv(response)
    wide = lines.phasor.reshape(lines.n_lines, -1, m, 1)
    error = lines.amplitude_error.reshape(lines.n_lines, -1, m, 1)
    phasor = (inverse[:, None] @ wide).reshape(lines.phasor.shape)
    grown = np.sqrt(np.abs(inverse[:, None]) ** 2 @ error**2).reshape(error.shape[:3])
    return replace(
        lines,
        amplitude=np.abs(phasor),
        phase=np.angle(phasor),
        amplitude_error=grown.reshape(lines.amplitude_error.shape),
    )


def _checked(
    frequency: npt.ArrayLike,
    transition: npt.ArrayLike,
    measurement: npt.ArrayLike,
    gain: npt.ArrayLike,
) -> tuple[Array, Array, Array, Array]:
    f, h = np.asarray(transition, dtype=float), np.asarray(measurement, dtype=float)
    k, at = np.asarray(gain, dtype=float), np.asarray(frequency, dtype=float)
    if f.ndim != 2 or f.shape[0] != f.shape[1]:
        raise InvalidInput(f"transition: expected a square matrix, got shape {f.shape}")
    if h.ndim != 2 or h.shape[1] != f.shape[0]:
        raise InvalidInput(f"measurement: expected (m, {f.shape[0]}), got shape {h.shape}")
    if k.shape != h.shape[::-1]:
        raise InvalidInput(f"gain: expected shape {h.shape[::-1]}, got {k.shape}")
    if not all(np.isfinite(matrix).all() for matrix in (f, h, k)):
        raise InvalidInput("transition, measurement and gain: expected finite numbers")
    if at.ndim != 1 or not ((at > 0.0) & (at < 0.5)).all():
        raise InvalidInput(
            "frequency: expected a vector between 0 and half a cycle a step (the Nyquist "
            f"frequency), got {at.tolist()}"
        )
    radius = float(np.abs(np.linalg.eigvals(f - f @ k @ h)).max())
    if radius >= 1.0:
        raise InvalidInput(
            f"gain: the filter is not stable, F(I − KH) has an eigenvalue of modulus {radius:g}"
        )
    return f, h, k, at
