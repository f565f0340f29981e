"""Kalman gains: modes and covariances make the steady-state gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gdcb.arms import CATEGORIES, Arms
from gdcb.arrays import Array
from gdcb.composition.base import ActionColumn
from gdcb.composition.steady import Matrix, table
from gdcb.errors import InvalidInput
from gdcb.kalman.riccati import gain
from gdcb.parts import Column, check_number, check_settings, column, take, take_all
from gdcb.records import Located


@dataclass(frozen=True)
class KalmanGain:
    """Make the Kalman gain of a mode, its entries as the action's columns.

    Φ(m, δ) = K = PHᵀ(HPHᵀ + R)⁻¹ with Q = δ₀·Q_m and R = δ₁·R_m. P solves P = F(P − KHP)Fᵀ + Q:
    the steady state. Where `age` says how many measurements a track has had, tracks younger than
    `settle` have the P of that age instead, from P₀ = δ₂·initial on. δ has an arm axis (one set of
    scales a mode), confined to [low, high]. K(cQ, cR) = K(Q, R): only their ratio matters. The arm
    of a gain is the mode whose composed gain is nearest, the distance being that of the entry that
    differs most.

    Where `likely` names how likely every mode is, the last arm is none of them: it commits to no
    mode, and its P, Q and R are the modes' means under these weights.

    Parameters
    ----------
    transition, measurement, process, noise : one matrix a mode: F, H, Q, R
    step : what counts as one step between gains, in the largest entry
    low, high : bounds on all columns of δ
    age : context column with the measurements that a track has had; None: tracks are old
    initial : P₀, nominal
    settle : age from which a gain is the steady one
    likely : context columns with the weight of every mode; none: all arms are modes

    Notes
    -----
    Assumes: linear modes that do not change within a round, Q and R positive definite, and
    every (F, H) detectable. Young tracks: that (Q, R) were all along what they are now.

    Stops applying: a mode that is not detectable has no steady state; its gain is NaN and never
    runs. Of the columns of δ only ratios are identified. The bound of Assumption 1 is estimated by
    differences at the rows at hand, not proved for all.

    Examples
    --------
    One state, F = H = 1, Q = 1, R = 2: P = 2 solves P²/(P + 2) = 1, so K = 2/4. Tripling both
    scales changes nothing. A track that begins with P₀ = 6 has K = 6/8.

    >>> import numpy as np
    >>> from gdcb.arms import ArmList
    >>> one = (((1.0,),),)
    >>> phi = KalmanGain(transition=one, measurement=one, process=one, noise=(((2.0,),),))
    >>> modes, x = ArmList(names=("cruise",)).build(), np.zeros((2, 1))
    >>> delta = np.array([[[1.0, 1.0, 1.0]], [[3.0, 3.0, 1.0]]])
    >>> phi.compose(modes, delta, x).ravel().round(9).tolist()
    [0.5, 0.5]
    >>> from dataclasses import replace
    >>> young = replace(phi, age=0, initial=((6.0,),))
    >>> young.compose(modes, delta[:1], x[:1]).ravel().tolist()
    [0.75]
    """

    transition: tuple[Matrix, ...]
    measurement: tuple[Matrix, ...]
    process: tuple[Matrix, ...]
    noise: tuple[Matrix, ...]
    step: float = 0.05
    low: float = 1e-3
    high: float = 1e3
    age: Column | None = column(None)
    initial: Matrix = ()
    settle: int = 12
    likely: tuple[Column, ...] = column((), numeric=True)
    needs_positive: ClassVar[bool] = True
    arm_kind: ClassVar[str] = CATEGORIES
    joins: ClassVar[str] = "other"

    def __post_init__(self) -> None:
        check_settings(self, "composition")
        check_number("composition.step", self.step, 0.0, open_low=True)
        check_number("composition.low", self.low, 0.0, open_low=True)
        check_number("composition.high", self.high, self.low)
        check_number("composition.settle", self.settle, 0, 10_000)
        counts = {
            len(part) for part in (self.transition, self.measurement, self.process, self.noise)
        }
        if len(counts) != 1:
            raise InvalidInput(f"composition: one F, H, Q and R a mode, got {sorted(counts)}")
        if self.likely and len(self.likely) != len(self.process):
            raise InvalidInput(
                f"composition.likely: expected {len(self.process)} columns, one a mode, got "
                f"{len(self.likely)}"
            )
        if self.likely and any(h != self.measurement[0] for h in self.measurement):
            raise InvalidInput("composition.likely: modes that are mixed share one H")
        if self.age is not None and np.shape(self.initial) != np.shape(self.transition)[1:]:
            raise InvalidInput(
                f"composition.initial: expected P₀ of shape {np.shape(self.transition)[1:]} where "
                f"there is an age, got {np.shape(self.initial)}"
            )

    def columns(self, arms: Arms) -> tuple[ActionColumn, ...]:
        """Return the entries of the gain, row by row."""
        m, n = len(self.measurement[0]), len(self.transition[0])
        return tuple(ActionColumn(f"gain_{i}{j}") for i in range(n) for j in range(m))

    def covariances(self, arms: Arms, delta: Array, x: Array) -> tuple[Array, Array, Array]:
        """Return Q (N, K, n, n), R (N, K, m, m) and the covariance P (N, K, n, n) before z."""
        expected = len(self.process) + bool(self.likely)
        if arms.n != expected:
            raise InvalidInput(
                f"composition: expected {expected} arms, the modes"
                f"{' and one that mixes them' if self.likely else ''}, got {arms.n}"
            )
        scale = self._scale(arms, delta, x)[:, : len(self.process)]
        q = scale[..., 0, None, None] * np.array(self.process)
        r = scale[..., 1, None, None] * np.array(self.noise)
        steady = table(
            *(self.transition, self.measurement, self.process, self.noise),
            *(self.low / self.high, self.high / self.low),
        )
        p = steady.at(scale[..., 0], scale[..., 1])
        if self.age is not None:
            self._rejuvenate(p, take(x, self.age), q, r, scale)
        if not self.likely:
            return q, r, p
        weight = take_all(x, self.likely)[:, :, None, None]
        mixed = [np.concatenate((v, (weight * v).sum(axis=1, keepdims=True)), 1) for v in (q, r, p)]
        return mixed[0], mixed[1], mixed[2]

    def _rejuvenate(self, p: Array, age: Array, q: Array, r: Array, scale: Array) -> None:
        """Put in place of the steady P that of tracks younger than `settle`."""
        young = np.flatnonzero(age < self.settle)
        if not young.size:
            return
        f, h = np.array(self.transition), np.array(self.measurement)
        young = young[np.argsort(age[young], kind="stable")]  # those still to go on are a slice
        q, r, age = q[young], r[young], age[young]
        now = scale[young][..., 2, None, None] * np.array(self.initial)
        turned = f.swapaxes(-1, -2)
        for step in range(int(np.ceil(age[-1]))):
            still = slice(int(np.searchsorted(age, step, side="right")), None)
            was = now[still]
            now[still] = f @ (was - gain(h, was, r[still]) @ (h @ was)) @ turned + q[still]
        p[young] = now

    def _scale(self, arms: Arms, delta: Array, x: Array) -> Array:
        """Return δ within its bounds, a column for P₀ included: (N, K, 3)."""
        scale = np.ones((x.shape[0], arms.n, 3))
        given = delta.shape[-1]
        scale[..., : 3 if given == 1 else given] = delta
        return scale.clip(self.low, self.high)

    def compose(self, arms: Arms, delta: Array, x: Array) -> Array:
        """Return every mode's gain: (N, K, n·m)."""
        _, r, p = self.covariances(arms, delta, x)
        h = np.array(self.measurement)
        if self.likely:
            h = h[:1]
        k = gain(h, p, r)
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
        scale, slopes = self._scale(arms, delta, x), []
        for bump in np.eye(3)[: 2 if self.age is None else 3]:
            width = 1e-5 * (scale * bump).sum(axis=-1, keepdims=True)
            above = self.compose(arms, scale + width * bump, x)
            below = self.compose(arms, scale - width * bump, x)
            slopes.append((above - below) / (2 * width))
        jacobian = np.stack(slopes, axis=-1)
        return float(np.linalg.norm(jacobian, ord=2, axis=(-2, -1)).max())
