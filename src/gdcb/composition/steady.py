"""Steady states of modes whose covariances are scaled: a table, interpolated to rounding.

P(q·Q, r·R) = r·P((q/r)·Q, R): with scales only, the Riccati solution of a mode is a function of one
number, ρ = log(q/r). It is solved once on a fine grid, with its derivative by the Lyapunov equation
dP/dρ = A(dP/dρ)Aᵀ + Q·q/r, and read between by cubic Hermite interpolation, whose relative error is
below 1e-10 at this spacing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gdcb.arrays import Array
from gdcb.kalman.riccati import gain, lyapunov, riccati

Matrix = tuple[tuple[float, ...], ...]
SPACING = 0.02


@dataclass(frozen=True, slots=True)
class SteadyTable:
    """Solutions of K modes on a grid of ρ.

    Parameters
    ----------
    low : ρ of the first node
    value, slope : (nodes, K, n, n) P and dP/dρ at r = 1
    """

    low: float
    value: Array
    slope: Array

    def at(self, q: Array, r: Array) -> Array:
        """Return P of scales (..., K): (..., K, n, n)."""
        place = (np.log(q / r) - self.low) / SPACING
        node = np.clip(np.nan_to_num(place).astype(np.int64), 0, self.value.shape[0] - 2)
        t = (place - node)[..., None, None]
        mode = np.arange(q.shape[-1])
        v0, v1 = self.value[node, mode], self.value[node + 1, mode]
        s0, s1 = self.slope[node, mode], self.slope[node + 1, mode]
        rise = v1 - v0
        # v0 + t·(s0 + t·(3·rise − 2·s0 − s1 + t·(s0 + s1 − 2·rise))), slopes in nodes
        s0, s1 = SPACING * s0, SPACING * s1
        found = v0 + t * (s0 + t * (3.0 * rise - 2.0 * s0 - s1 + t * (s0 + s1 - 2.0 * rise)))
        return np.asarray(r[..., None, None] * found)


@lru_cache(maxsize=16)
def table(
    transition: tuple[Matrix, ...],
    measurement: tuple[Matrix, ...],
    process: tuple[Matrix, ...],
    noise: tuple[Matrix, ...],
    low: float,
    high: float,
) -> SteadyTable:
    """Return the table for ratios of scales between low and high.

    >>> one = (((1.0,),),)
    >>> steady = table(one, one, one, (((2.0,),),), 0.1, 10.0)
    >>> steady.at(np.ones(1), np.ones(1)).round(9).tolist()  # P²/(P + 2) = 1
    [[[2.0]]]
    """
    first, last = float(np.log(low)), float(np.log(high))
    rho = first + SPACING * np.arange(int(np.ceil((last - first) / SPACING)) + 1)
    f, h, r = np.array(transition), np.array(measurement), np.array(noise)
    q = np.exp(rho)[:, None, None, None] * np.array(process)
    p = riccati(f, h, q, r)
    k = gain(h, np.where(np.isfinite(p), p, 0.0), r)
    a = f - f @ k @ h
    slope = lyapunov(a, q)
    return SteadyTable(first, p, np.where(np.isfinite(p), slope, np.nan))
