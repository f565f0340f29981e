"""Kalman gains: modes and covariances make the steady-state gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gdcb.arms import Arms
from gdcb.arrays import Array
from gdcb.composition.base import ActionColumn
from gdcb.errors import InvalidInput
from gdcb.kalman.riccati import gain, riccati
from gdcb.parts import check_number
from gdcb.records import Located

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class KalmanGain:
    """Make the steady-state Kalman gain of a mode, its entries as the action's columns.

    Φ(m, δ) = K = PHᵀ(HPHᵀ + R)⁻¹, P solving P = F(P − KHP)Fᵀ + Q, with Q = δ₀·Q_m and
    R = δ₁·R_m: δ has an arm axis (one pair of scales a mode) and two columns, confined to
    [low, high]. K(cQ, cR) = K(Q, R): only their ratio matters. The arm of a gain is the mode whose
    composed gain is nearest, the distance being that of the entry that differs most.

    Parameters
    ----------
    transition, measurement, process, noise : one matrix a mode: F, H, Q, R
    step : what counts as one step between gains, in the largest entry
    low, high : bounds on both columns of δ

    Notes
    -----
    Assumes: linear modes that do not change within a round, Q and R positive definite, and
    every (F, H) detectable.

    Stops applying: a mode that is not detectable has no steady state; its gain is NaN and never
    runs. In the first steps of a track the steady gain is not the best one. Of the two columns of
    δ only the ratio is identified. The bound of Assumption 1 is estimated by differences at the
    rows at hand, not proved for all.

    Examples
    --------
    One state, F = H = 1, Q = 1, R = 2: P = 2 solves P²/(P + 2) = 1, so K = 2/4. Tripling both
    scales changes nothing.

    >>> import numpy as np
    >>> from gdcb.arms import ArmList
    >>> one = (((1.0,),),)
    >>> phi = KalmanGain(transition=one, measurement=one, process=one, noise=(((2.0,),),))
    >>> modes, x = ArmList(names=("cruise",)).build(), np.zeros((2, 1))
    >>> delta = np.array([[[1.0, 1.0]], [[3.0, 3.0]]])
    >>> phi.compose(modes, delta, x).ravel().round(12).tolist()
    [0.5, 0.5]
    """

    transition: tuple[Matrix, ...]
    measurement: tuple[Matrix, ...]
    process: tuple[Matrix, ...]
    noise: tuple[Matrix, ...]
    step: float = 0.05
    low: float = 1e-3
    high: float = 1e3
    needs_positive: ClassVar[bool] = True
    joins: ClassVar[str] = "other"

    def __post_init__(self) -> None:
        check_number("composition.step", self.step, 0.0, open_low=True)
        counts = {
            len(part) for part in (self.transition, self.measurement, self.process, self.noise)
        }
        if len(counts) != 1:
            raise InvalidInput(f"composition: one F, H, Q and R a mode, got {sorted(counts)}")

    def columns(self, arms: Arms) -> tuple[ActionColumn, ...]:
        """Return the entries of the gain, row by row."""
        m, n = len(self.measurement[0]), len(self.transition[0])
        return tuple(ActionColumn(f"gain_{i}{j}") for i in range(n) for j in range(m))

    def compose(self, arms: Arms, delta: Array, x: Array) -> Array:
        """Return every mode's gain: (N, K, n·m)."""
        scale = np.broadcast_to(delta, (x.shape[0], arms.n, 2)).clip(self.low, self.high)
        f, h = np.array(self.transition), np.array(self.measurement)
        q = scale[..., 0, None, None] * np.array(self.process)
        r = scale[..., 1, None, None] * np.array(self.noise)
        k = gain(h, riccati(f, h, q, r), r)
        return k.reshape(x.shape[0], arms.n, -1)

    def locate(self, arms: Arms, e: Array, delta: Array, x: Array) -> Located:
        """Find the mode with the nearest gain."""
        composed = self.compose(arms, delta, x)
        gap = np.abs(e[:, :, None, :] - composed[:, None]).max(axis=-1) / self.step
        gap = np.where(np.isfinite(gap), gap, np.inf)
        arm = gap.argmin(axis=-1)
        steps = np.take_along_axis(gap, arm[..., None], axis=-1)[..., 0]
        arm = np.where(np.isfinite(steps), arm, -1)
        return Located(arm, arm[..., None].astype(float), lambda: steps)

    def relative(self, e: Array, x: Array) -> Array:
        """Return e itself."""
        return e

    def lipschitz(self, arms: Arms, delta: Array, x: Array) -> float:
        """Estimate the largest spectral norm of dK/dδ at these rows, by central differences."""
        scale = np.broadcast_to(delta, (x.shape[0], arms.n, 2)).clip(self.low, self.high)
        slopes = []
        for bump in np.eye(2):
            width = 1e-5 * (scale * bump).sum(axis=-1, keepdims=True)
            above = self.compose(arms, scale + width * bump, x)
            below = self.compose(arms, scale - width * bump, x)
            slopes.append((above - below) / (2 * width))
        jacobian = np.stack(slopes, axis=-1)
        return float(np.linalg.norm(jacobian, ord=2, axis=(-2, -1)).max())
