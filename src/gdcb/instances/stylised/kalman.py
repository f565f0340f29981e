"""Kalman (instance 7): the gain is K(mode, δ₀·Q, δ₁·R); an operator approves it.

Made: a target moves at nearly constant velocity (with friction) and its position is measured.
Each track has a true mode, which says how process noise is shaped, and true sizes of Q and R that
differ from the mode's nominal ones; tracks of a group mostly share their mode. After every round
a look at past innovations reveals noisy log ratios of the true sizes to those of the mode that
ran. The target's true state is drawn afresh each round from its law given all measurements so
far, which the world's own optimal filter knows (it runs beside the agent's, in its steady state):
measurements have exactly the law of one trajectory, and the expected reward is exact. Real: the
filter, the Riccati equation and the decision. Context is endogenous: a bad gain leaves a bad
estimate behind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.bandits import HierarchicalThompson
from gdcb.composition import KalmanGain
from gdcb.context import Number, Schema
from gdcb.gates import Approval, Bounds, Chain, NumberKernel, SimulatedPerson
from gdcb.instance import Instance, NullAction
from gdcb.instances.catalogue import Domain
from gdcb.kalman.riccati import gain, riccati
from gdcb.records import Rows
from gdcb.rewards import Scaled
from gdcb.scalers import RidgeScaler
from gdcb.streams import Stream

GAIN = slice(3, 5)  # columns of x that hold the last gain
NAMES = ("cruise", "buffeted", "manoeuvre")
FRICTION = 0.9
F = ((1.0, 1.0), (0.0, FRICTION))  # one for all modes: the prediction is the same in each
H = ((1.0, 0.0),)
Q = (((0.04, 0.0), (0.0, 0.01)), ((1.0, 0.0), (0.0, 0.01)), ((0.13, 0.25), (0.25, 0.51)))
R = (((1.0,),), ((0.5,),), ((0.8,),))
NOMINAL = np.array([0.6, 0.2])  # the gain an operator starts from


@dataclass(slots=True)
class Tracks:
    """What is true of every track, and where both filters stand.

    Parameters
    ----------
    noise : (units,) true variance R of a measurement
    spread : (units, 2, 2) true covariance of the state before a measurement, given the past
    ratio : (units, 3, 2) log ratio of the true sizes of Q and R to those of each mode
    known : (units, 3, 2, 2) gains of each mode: nominal, and at the true sizes
    mean : (units, 2) true mean of the state before the measurement, given the past
    estimate, gain, innovation : (units, 2 or none) the agent's last of each
    """

    noise: Array
    spread: Array
    ratio: Array
    known: Array
    mean: Array
    estimate: Array
    gain: Array
    innovation: Array


def _predict(estimate: Array) -> Array:
    """Move estimates (..., 2) one round ahead: F·s."""
    velocity = estimate[..., 1]
    return np.stack((estimate[..., 0] + velocity, FRICTION * velocity), axis=-1)


def _gain(state: Tracks, e: Array, rows: Rows) -> Array:
    """Return the gain that runs (N, 2): the last one where nothing does."""
    return np.where(np.isnan(e), state.gain[rows.unit], e)


@dataclass(frozen=True)
class Tracking:
    """The world: targets in motion, scored by the squared error after the update."""

    size_sd: float = 0.6
    shared: float = 0.7
    label_noise: float = 0.4

    def start(self, rng: Stream, group: Array) -> Tracks:
        """Draw a mode (with P = 0.7 that of the group's first track); log sizes ~ N(0, 0.6²)."""
        n = group.size
        u, z = rng.uniform(n, 2), rng.normal(n, 2)
        mode = (u[:, 0] * len(NAMES)).astype(np.int64)
        _, first, which = np.unique(group, return_index=True, return_inverse=True)
        mode = np.where(u[:, 1] < self.shared, mode[first[which]], mode)
        f, h, q, r = (np.array(part) for part in (F, H, Q, R))
        size, trace = np.exp(self.size_sd * z), q[:, 0, 0] + q[:, 1, 1]
        noise = size[:, 1] * r[mode, 0, 0]
        sizes = np.stack((size[:, 0] * trace[mode], noise), axis=1)
        ratio = np.log(sizes[:, None] / np.stack((trace, r[:, 0, 0]), axis=1))
        scale = np.exp(np.stack((np.zeros_like(ratio), ratio), axis=2))[..., None, None]
        q_mode, r_mode = scale[..., 0, :, :] * q[:, None], scale[..., 1, :, :] * r[:, None]
        known = gain(h, riccati(f, h, q_mode, r_mode), r_mode)[..., 0]
        spread = riccati(f, h, size[:, :1, None] * q[mode], noise[:, None, None])
        zero, last = np.zeros((n, 2)), np.tile(NOMINAL, (n, 1))
        return Tracks(noise, spread, ratio, known, zero, zero.copy(), last, np.zeros(n))

    def context(self, rng: Stream, state: Tracks, t: int, group: Array) -> Rows:
        """Reveal the filtered estimate, the last innovation and the last gain."""
        x = np.concatenate((state.estimate, state.innovation[:, None], state.gain), axis=1)
        return Rows(np.arange(group.size), group, x)

    def _moments(self, state: Tracks, rows: Rows) -> tuple[Array, Array, Array, Array]:
        """Return M₀₀, M₀₁, M₁₁ of the prediction's error, M = P + bbᵀ, and R: (N,) each."""
        u = rows.unit
        p, b = state.spread[u], state.mean[u] - _predict(state.estimate[u])
        m = p + b[:, :, None] * b[:, None, :]
        return m[:, 0, 0], m[:, 0, 1], m[:, 1, 1], state.noise[u]

    def mean(self, state: Tracks, e: Array, rows: Rows) -> Array:
        """Return −tr((I − KH)M(I − KH)ᵀ + KRKᵀ); where nothing runs the last gain does."""
        m00, m01, m11, r = (part[:, None] for part in self._moments(state, rows))
        k0, k1 = np.moveaxis(np.where(np.isnan(e), state.gain[rows.unit, None], e), -1, 0)
        position = (1.0 - k0) ** 2 * m00 + r * k0 * k0
        velocity = m11 - 2.0 * k1 * m01 + k1 * k1 * (m00 + r)
        return np.asarray(-(position + velocity))

    def best(self, state: Tracks, rows: Rows) -> Array:
        """Return K* = MHᵀ(HMHᵀ + R)⁻¹."""
        m00, m01, _, r = self._moments(state, rows)
        return np.stack((m00 / (m00 + r), m01 / (m00 + r)), axis=1)

    def candidates(self, state: Tracks, rows: Rows) -> Array:
        """Return a grid of gains, [0, 1.2] × [−0.2, 1] in steps of 0.05: (N, 625, 2)."""
        k0, k1 = np.meshgrid(np.linspace(0.0, 1.2, 25), np.linspace(-0.2, 1.0, 25), indexing="ij")
        return np.tile(np.stack((k0.ravel(), k1.ravel()), axis=1), (rows.n, 1, 1))

    def sample(self, rng: Stream, state: Tracks, e: Array, rows: Rows) -> Array:
        """Draw the target and its measurement: −squared error after the update, measurement."""
        u, z = rows.unit, rng.normal(rows.n, 3)
        p, mean = state.spread[u], state.mean[u]
        root = np.sqrt(p[:, 0, 0])
        rest = np.sqrt(p[:, 1, 1] - p[:, 0, 1] ** 2 / p[:, 0, 0])
        position = mean[:, 0] + root * z[:, 0]
        velocity = mean[:, 1] + p[:, 0, 1] / root * z[:, 0] + rest * z[:, 1]
        seen = position + np.sqrt(state.noise[u]) * z[:, 2]
        estimate, _ = self._update(state, e, seen, rows)
        error = (estimate[:, 0] - position) ** 2 + (estimate[:, 1] - velocity) ** 2
        return np.stack((-error, seen), axis=1)

    def _update(self, state: Tracks, e: Array, seen: Array, rows: Rows) -> tuple[Array, Array]:
        """Return the agent's estimate after a measurement, and its innovation."""
        before = _predict(state.estimate[rows.unit])
        innovation = seen - before[:, 0]
        return before + _gain(state, e, rows) * innovation[:, None], innovation

    def label(self, rng: Stream, state: Tracks, e: Array, rows: Rows) -> Array:
        """Return noisy log sizes of Q and R relative to the mode that ran, NaN for the others.

        The mode that ran is the one with a gain, nominal or at the true sizes, nearest to it.
        """
        gap = np.abs(state.known[rows.unit] - _gain(state, e, rows)[:, None, None]).max(axis=-1)
        ran = np.arange(len(NAMES)) == gap.min(axis=-1).argmin(axis=1)[:, None]
        ratio = state.ratio[rows.unit] + self.label_noise * rng.normal(rows.n, 1, 2)
        return np.where(ran[..., None], ratio, np.nan).reshape(rows.n, -1)

    def advance(self, rng: Stream, state: Tracks, e: Array, outcome: Array, rows: Rows) -> Tracks:
        """Give the measurement to both filters, and let the true one predict the next round."""
        seen = outcome[:, 1]
        estimate, innovation = self._update(state, e, seen, rows)
        k = _gain(state, e, rows)
        ideal = state.spread[:, :, 0] / (state.spread[:, 0, 0] + state.noise)[:, None]
        mean = _predict(state.mean + ideal * (seen - state.mean[:, 0])[:, None])
        return replace(state, mean=mean, estimate=estimate, gain=k, innovation=innovation)


def _own_gain(rows: Rows) -> Array:
    """Return the operator's own gain: half the last one, half the nominal."""
    return np.asarray(0.5 * rows.x[:, GAIN] + 0.5 * NOMINAL)


def _approve(e: Array, rows: Rows) -> Array:
    """Approve less the further the gain lies from their own: 0.95 near it, 0.55 far off."""
    gap = ((e - _own_gain(rows)[:, None]) ** 2).sum(axis=-1)
    return np.asarray(0.55 + 0.4 * np.exp(-gap / 0.08))


def build() -> Domain:
    """Return the domain."""
    k = len(NAMES)
    instance = Instance(
        name="kalman",
        title="Kalman filtering by operating modes",
        context=Schema(
            {
                "position": Number(about="filtered position"),
                "velocity": Number(about="filtered velocity"),
                "innovation": Number(about="last innovation"),
                "gain_0": Number(about="last gain on position"),
                "gain_1": Number(about="last gain on velocity"),
            }
        ),
        arms=ArmList(names=NAMES),
        scaler=RidgeScaler(
            features=("innovation",), penalty=0.5, every=40, per="unit", n_arms=k, n_columns=2
        ),
        composition=KalmanGain((F,) * k, (H,) * k, Q, R),
        gate=Chain(
            (
                Approval(
                    SimulatedPerson(_approve, _own_gain, spread=0.03, veto=0.2),
                    NumberKernel(features=("gain_0", "gain_1")),
                    name="operator",
                ),
                Bounds(low=0.0, high=1.2, action=0, name="gain bounds"),
            )
        ),
        reward=Scaled(outcome=("reward", "measurement")),
        null=NullAction(columns=("gain_0", "gain_1"), mean=-0.8),
    )
    bandit = HierarchicalThompson(prior_mean=-0.8, sd=0.5, between=0.3, noise=0.8)
    return Domain(
        instance, bandit, Tracking(), units=2, unit="track", is_endogenous=True, about=__doc__ or ""
    )
