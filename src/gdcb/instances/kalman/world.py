"""The world: a plant that moves in modes, the filter that tracks it, and the best filter beside it.

The reward of a step is minus the squared error of the estimate after it, summed over place, speed
and axes. The world's own filter knows the modes and all covariances, so that it knows the law of
the state given all measurements: N(mean, P) on every axis. With b the difference between its mean
and the tracker's prediction, a gain K is worth

    μ(K) = −Σ_axes tr((I − KH)(P + bbᵀ)(I − KH)ᵀ + KRKᵀ),

exactly, and K* = MHᵀ(HMHᵀ + R)⁻¹, M = Σ(P + bbᵀ), is the best gain from where the tracker stands.
What the tracker cannot regain with any gain, because of what ran before, is *inherited*: the
world's own filter is worth −Σ tr P⁺ in the same step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.kalman.columns import Columns
from gdcb.instances.kalman.plants import TARGET, Plant
from gdcb.instances.kalman.tracker import Track, Tracker, choose
from gdcb.instances.kalman.truth import Path, Sizes, Truth
from gdcb.parts import check_choice
from gdcb.records import Rows
from gdcb.streams import Stream

REWARDS = ("error", "innovations")
_K0 = np.linspace(0.05, 0.95, 7)
_K1 = np.array((0.0, 0.05, 0.15, 0.3, 0.5, 0.8))


@dataclass(slots=True)
class Tracks:
    """All that is true of every unit before a measurement, and where its tracker stands.

    Parameters
    ----------
    sizes : what its group shares
    now, on : the step at hand, and the one after it if the track goes on
    mean, spread : (units, axes, 2), (units, 2, 2) law of the state given the past
    track : the tracker's filters
    """

    sizes: Sizes
    now: Path
    on: Path
    mean: Array
    spread: Array
    track: Track


@dataclass(frozen=True)
class Tracking:
    """The world of tracking.

    Parameters
    ----------
    plant : what is tracked
    variant : 'well' or 'mis'
    reward : what learners are shown: minus the squared 'error', known in simulation only, or minus
        the squared next innovation, as live ('innovations')
    """

    plant: Plant = TARGET
    variant: str = "well"
    reward: str = "error"

    def __post_init__(self) -> None:
        check_choice("variant", self.variant, ("well", "mis"))
        check_choice("reward", self.reward, REWARDS)

    @cached_property
    def columns(self) -> Columns:
        """Where everything stands in a row."""
        return Columns(self.plant)

    @cached_property
    def truth(self) -> Truth:
        """The law of paths."""
        return Truth(self.plant, self.variant)

    @cached_property
    def tracker(self) -> Tracker:
        """The filters."""
        return Tracker(self.plant)

    def start(self, rng: Stream, group: Array) -> Tracks:
        """Draw the sizes of every group, and begin a track in every unit."""
        n = group.size
        sizes = self.truth.sizes(rng, group)
        now = self.truth.fresh(sizes, rng.normal(n, 2), *self.truth.draw(rng, n))
        on = self.truth.follow(sizes, now, *self.truth.draw(rng, n))
        cue, spread = self._cue(sizes, now, rng.normal(n, 2 * len(self.plant.axes)))
        return Tracks(sizes, now, on, cue, spread, self.tracker.begin(cue))

    def _cue(self, sizes: Sizes, path: Path, z: Array) -> tuple[Array, Array]:
        """Return where tracks are said to begin (units, axes, 2), and how far off that may be."""
        spread = sizes.initial[:, None, None] * np.array(self.plant.initial)
        root = np.sqrt(np.diagonal(spread, axis1=1, axis2=2))  # P₀ is diagonal
        return path.state + root[:, None] * z.reshape(path.state.shape), spread

    def context(self, rng: Stream, state: Tracks, t: int, group: Array) -> Rows:
        """Reveal what the tracker reports; hidden is what the world knows of the step."""
        track, now, n = state.track, state.now, group.size
        x = np.concatenate(
            (
                track.estimate.reshape(n, -1),
                track.gain,
                track.age[:, None],
                1.0 / (1.0 + track.age[:, None]),
                now.strain[:, None],
                now.signal[:, None],
                track.likely,
                track.missed[:, None],
                np.log(track.missed)[:, None],
            ),
            axis=1,
        )
        axes = now.seen.shape[1]
        b = state.mean - self.plant.predict(track.estimate)
        m = axes * state.spread + (b[..., :, None] * b[..., None, :]).sum(axis=1)
        p, r = state.spread, now.noise
        left = p[:, 0, 0] + p[:, 1, 1] - (p[:, 0, 0] ** 2 + p[:, 0, 1] ** 2) / (p[:, 0, 0] + r)
        moments = np.stack((m[:, 0, 0], m[:, 0, 1], m[:, 1, 1], axes * r, -axes * left), axis=1)
        label = track.waiting.label
        hidden = (moments, now.state.reshape(n, -1), now.seen, state.on.seen, label)
        return Rows(np.arange(n), group, x, hidden=np.concatenate(hidden, axis=1))

    def _moments(self, rows: Rows) -> tuple[Array, Array, Array, Array]:
        """Return M₀₀, M₀₁, M₁₁ and R, summed over axes: (N,) each."""
        m00, m01, m11, r = np.moveaxis(_hidden(rows)[:, Columns.MOMENTS], 1, 0)
        return m00, m01, m11, r

    def ran(self, e: Array, rows: Rows) -> Array:
        """Return the gain that runs (N, ..., 2): the last one where nothing does."""
        last = rows.x[:, self.columns.gain]
        return np.where(np.isnan(e), last if e.ndim == 2 else last[:, None], e)

    def mean(self, state: Tracks, e: Array, rows: Rows) -> Array:
        """Return minus the expected squared error after the step; NaN: the last gain runs."""
        m00, m01, m11, r = (part[:, None] for part in self._moments(rows))
        k0, k1 = np.moveaxis(self.ran(e, rows), -1, 0)
        place = (1.0 - k0) ** 2 * m00 + r * k0 * k0
        speed = m11 - 2.0 * k1 * m01 + k1 * k1 * (m00 + r)
        return np.asarray(-(place + speed))

    def best(self, state: Tracks, rows: Rows) -> Array:
        """Return K* = MHᵀ(HMHᵀ + R)⁻¹."""
        m00, m01, _, r = self._moments(rows)
        return np.stack((m00 / (m00 + r), m01 / (m00 + r)), axis=1)

    def reference(self, state: Tracks, rows: Rows) -> Array:
        """Return what the world's own filter is worth in this step: (N,)."""
        return np.asarray(_hidden(rows)[:, Columns.REFERENCE])

    def candidates(self, state: Tracks, rows: Rows) -> Array:
        """Return a grid of gains: (N, 42, 2)."""
        k0, k1 = np.meshgrid(_K0, _K1, indexing="ij")
        return np.tile(np.stack((k0.ravel(), k1.ravel()), axis=1), (rows.n, 1, 1))

    def estimate(self, e: Array, rows: Rows) -> Array:
        """Return the tracker's estimate after the step: (N, axes, 2)."""
        before = self.plant.predict(self._by_axis(rows.x[:, self.columns.estimate]))
        nu = _hidden(rows)[:, self.columns.seen] - before[..., 0]
        return np.asarray(before + self.ran(e, rows)[:, None] * nu[..., None])

    def _by_axis(self, values: Array) -> Array:
        return values.reshape(values.shape[0], -1, 2)

    def sample(self, rng: Stream, state: Tracks, e: Array, rows: Rows) -> Array:
        """Return what learners are shown, and the measurement."""
        return self.shown(self.estimate(e, rows), rows)

    def shown(self, estimate: Array, rows: Rows) -> Array:
        """Return what learners are shown of an estimate (N, axes, 2), and the measurement."""
        hidden = _hidden(rows)
        error = estimate - self._by_axis(hidden[:, self.columns.target])
        if self.reward == "innovations":
            later = self.plant.predict(estimate)[..., 0]
            error = (hidden[:, self.columns.next] - later)[..., None]
        reward = -(error * error).sum(axis=(1, 2))
        return np.concatenate((reward[:, None], hidden[:, self.columns.seen]), axis=1)

    def label(self, rng: Stream, state: Tracks, e: Array, rows: Rows) -> Array:
        """Return the scaler's label: products of innovations, and their responses."""
        return np.asarray(_hidden(rows)[:, self.columns.label(self.tracker.n_labels)])

    def advance(self, rng: Stream, state: Tracks, e: Array, outcome: Array, rows: Rows) -> Tracks:
        """Give the measurement to all filters; some tracks end, and others begin."""
        plant, now, n = self.plant, state.now, rows.n
        place = np.empty(n, dtype=np.int64)
        place[rows.unit] = np.arange(n)
        ran = self.ran(e, rows)[place]
        old = self.tracker.update(state.track, ran, now.seen, now.strain, now.signal)
        p = state.spread
        ideal = p[:, :, 0] / (p[:, 0, 0] + now.noise)[:, None]
        mean = state.mean + ideal[:, None] * (now.seen - state.mean[..., 0])[..., None]
        kept = joseph(p, ideal, now.noise)
        f = np.array(plant.transition)
        is_new = rng.uniform(n) < 1.0 / plant.life
        fresh = self.truth.fresh(state.sizes, state.on.raw, *self.truth.draw(rng, n))
        cue, spread = self._cue(state.sizes, fresh, rng.normal(n, 2 * now.seen.shape[1]))
        path = choose(is_new, fresh, state.on)
        return Tracks(
            state.sizes,
            path,
            self.truth.follow(state.sizes, path, *self.truth.draw(rng, n)),
            np.where(is_new[:, None, None], cue, plant.predict(mean)),
            np.where(is_new[:, None, None], spread, f @ kept @ f.T + state.on.process),
            choose(is_new, self.tracker.begin(cue), old),
        )


def joseph(p: Array, k: Array, r: Array) -> Array:
    """Return (I − KH)P(I − KH)ᵀ + KRKᵀ for H = (1 0): (N, 2, 2)."""
    left = np.broadcast_to(np.eye(2), p.shape).copy()
    left[:, :, 0] -= k
    return np.asarray(
        left @ p @ left.swapaxes(1, 2) + r[:, None, None] * k[:, :, None] * k[:, None, :]
    )


def _hidden(rows: Rows) -> Array:
    if rows.hidden is None:
        raise ValueError("rows of this world carry what is hidden")
    return rows.hidden
