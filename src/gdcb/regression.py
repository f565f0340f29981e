"""Ridge regression from sums: shared by the scaler and by the model of a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array, scatter_add, zeros
from gdcb.parts import Column, take_all

_MOST = 2**22  # numbers that a batch of outer products may hold at once


@dataclass(slots=True)
class RidgeSums:
    """Additive statistics of m targets on d features for every owner.

    Parameters
    ----------
    gram, moment : (owners, m, d, d), (owners, m, d) Σ w·φφᵀ and Σ w·φ·y
    square, count : (owners, m) Σ w·y² and Σ w
    """

    gram: Array
    moment: Array
    square: Array
    count: Array

    @staticmethod
    def zeros(n_owners: int, m: int, d: int) -> RidgeSums:
        """Return sums over no rows."""
        return RidgeSums(
            np.zeros((n_owners, m, d, d)),
            np.zeros((n_owners, m, d)),
            np.zeros((n_owners, m)),
            np.zeros((n_owners, m)),
        )

    def add(self, owner: Array, phi: Array, y: Array, weight: Array) -> None:
        """Add rows: φ (N, d), y (N, m) with NaN where not seen, weight (N,)."""
        m, d = self.moment.shape[1:]
        step = max(1, _MOST // (m * d * d))
        if y.shape[0] > step:
            for at in range(0, y.shape[0], step):
                part = slice(at, at + step)
                self.add(owner[part], phi[part], y[part], weight[part])
            return
        seen = np.isfinite(y)
        w = np.where(seen, weight[:, None], 0.0)
        y = np.where(seen, y, 0.0)
        weighted = w[:, :, None] * phi[:, None, :]
        scatter_add(self.gram, owner, weighted[..., None] * phi[:, None, None, :])
        scatter_add(self.moment, owner, y[:, :, None] * weighted)
        scatter_add(self.square, owner, w * y * y)
        scatter_add(self.count, owner, w)

    def solve(self, owner: Array, penalty: Array | float) -> Array:
        """Return θ̂ = (Σ wφφᵀ + diag(penalty))⁻¹ Σ wφy: (N, m, d)."""
        gram = self.penalised(owner, penalty)
        return np.asarray(np.linalg.solve(gram, self.moment[owner][..., None])[..., 0])

    def penalised(self, owner: Array, penalty: Array | float) -> Array:
        """Return Σ wφφᵀ + diag(penalty): (N, m, d, d)."""
        d = self.gram.shape[-1]
        return np.asarray(self.gram[owner] + penalty * np.eye(d))

    def merge(self, other: RidgeSums) -> None:
        """Add the sums of other rows of the same owners."""
        self.gram += other.gram
        self.moment += other.moment
        self.square += other.square
        self.count += other.count

    def scale(self, owner: Array, factor: float) -> None:
        """Multiply all sums of some owners: their rows count for `factor`."""
        for sums in (self.gram, self.moment, self.square, self.count):
            sums[owner] = sums[owner] * factor + 0.0  # 0, never −0, where nothing is left

    def residual_variance(self, owner: Array) -> Array:
        """Return the unbiased residual variance of the first target given φ: (N,)."""
        # A pinch of penalty: with few rows the gram is singular.
        theta = self.solve(owner, 1e-9)
        count, d = self.count[owner, 0], theta.shape[-1]
        spread = self.variance(owner, theta)[:, 0]
        return np.asarray(spread * count / np.maximum(count - d, 1.0))

    def variance(self, owner: Array, theta: Array) -> Array:
        """Return the penalised residual sum of squares over the rows, at the optimum: (N, m)."""
        rest = self.square[owner] - (theta * self.moment[owner]).sum(axis=-1)
        return np.asarray(np.maximum(rest, 0.0) / np.maximum(self.count[owner], 1.0))


def with_intercept(x: Array, features: Sequence[Column]) -> Array:
    """Return φ(x) = (1, chosen columns): (N, 1 + len(features))."""
    out = zeros((x.shape[0], len(features) + 1), x)
    out[:, 0] = 1.0
    if features:
        out[:, 1:] = take_all(x, features)
    return out
