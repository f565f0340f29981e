"""The world: a plant that moves in modes, the filter that tracks it, and the best filter beside it.

The reward of a step is minus the squared error of the estimate after it, summed over place, speed
and axes. The world's own filter knows the modes and all covariances, so that it knows the law of
the state given all measurements: N(mean, P) on every axis. With b the difference between its mean
and the tracker's prediction, and c what the calendar adds to the measurement (0 where there is
none), d = Hb + c is the mean of the tracker's innovation, and a gain K is worth

    μ(K) = −Σ_axes tr((I − KH)P(I − KH)ᵀ + KRKᵀ) + ‖b − Kd‖² = −(a − 2K·l + s·K·K),

a = Σ tr P + b·b, l = Σ PHᵀ + bd, s = Σ HPHᵀ + R + d², exactly. So K* = l/s is the best gain from
where the tracker stands.
What the tracker cannot regain with any gain, because of what ran before, is *inherited*: the
world's own filter is worth −Σ tr P⁺ in the same step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.kalman.calendar import left_over
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
    day : (units,) how many steps there were
    mean, spread : (units, axes, 2), (units, 2, 2) law of the state given the past
    track : the tracker's filters
    """

    sizes: Sizes
    now: Path
    on: Path
    day: Array
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
    is_filtered : whether a spectral pre-filter takes the calendar off measurements, if there is one
    """

    plant: Plant = TARGET
    variant: str = "well"
    reward: str = "error"
    is_filtered: bool = True

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
        if self.plant.period:
            left = left_over(rng, self.truth, sizes, group, self.is_filtered)
            sizes = replace(sizes, cycle=left)
        now = self.truth.fresh(sizes, rng.normal(n, 2), *self.truth.draw(rng, n))
        later = self.truth.draw(rng, n)
        cue, spread = self._cue(sizes, now, rng.normal(n, 2 * len(self.plant.axes)))
        on = self.truth.follow(sizes, now, *later)
        day = np.zeros(n, dtype=np.int64)
        now.seen = now.seen + self._calendar(sizes, day)
        on.seen = on.seen + self._calendar(sizes, day + 1)
        return Tracks(sizes, now, on, day, cue, spread, self.tracker.begin(cue))

    def _calendar(self, sizes: Sizes, day: Array) -> Array:
        """Return what the calendar adds to the measurements of a day: (units, 1)."""
        units, period = sizes.cycle.shape
        return np.asarray(sizes.cycle[np.arange(units), day % period][:, None])

    def _cue(self, sizes: Sizes, path: Path, z: Array) -> tuple[Array, Array]:
        """Move paths that begin off their cues; return these (units, axes, 2) and P₀ (units, 2, 2).

        A path was drawn where its cue is: so N(cue, P₀) is the law of the state given the cue.
        """
        spread = sizes.initial[:, None, None] * np.array(self.plant.initial)
        root = np.sqrt(np.diagonal(spread, axis1=1, axis2=2))  # P₀ is diagonal
        cue, off = path.state, root[:, None] * z.reshape(path.state.shape)
        path.state, path.seen = cue - off, path.seen - off[..., 0]
        return cue, spread

    def context(self, rng: Stream, state: Tracks, t: int, group: Array) -> Rows:
        """Reveal what the tracker reports; hidden is what the world knows of the step."""
        track, now, n = state.track, state.now, group.size
        x = self.columns.reported(track, now.strain, now.signal)
        axes, p = now.seen.shape[1], state.spread
        s = p[:, 0, 0] + now.noise
        left = p[:, 0, 0] + p[:, 1, 1] - (p[:, 0, 0] ** 2 + p[:, 0, 1] ** 2) / s
        moments = np.concatenate(
            (self.moments(state), -axes * left[:, None], self._next(state)), axis=1
        )
        label = track.waiting.label
        hidden = (moments, now.state.reshape(n, -1), now.seen, state.on.seen, label)
        return Rows(np.arange(n), group, x, hidden=np.concatenate(hidden, axis=1))

    def moments(self, state: Tracks) -> Array:
        """Return a, l (two numbers) and s, summed over axes: (units, 4)."""
        b, p = state.mean - self.plant.predict(state.track.estimate), state.spread
        d = b[..., 0] + self._calendar(state.sizes, state.day)
        axes = b.shape[1]
        a = axes * (p[:, 0, 0] + p[:, 1, 1]) + (b * b).sum(axis=(1, 2))
        line = axes * p[:, :, 0] + (b * d[..., None]).sum(axis=1)
        s = axes * (p[:, 0, 0] + state.now.noise) + (d * d).sum(axis=1)
        return np.concatenate((a[:, None], line, s[:, None]), axis=1)

    def ran(self, e: Array, rows: Rows) -> Array:
        """Return the gain that runs (N, ..., 2): the last one where nothing does."""
        last = rows.x[:, self.columns.gain]
        return np.where(np.isnan(e), last if e.ndim == 2 else last[:, None], e)

    def _next(self, state: Tracks) -> Array:
        """Return what the next innovation varies by without a measurement now: (units, 2).

        Σ (1 1)P(1 1)ᵀ + ((1 1)b)², of the error F carries on, and Σ HQHᵀ + R of the next step.
        """
        b, p, on = state.mean - self.plant.predict(state.track.estimate), state.spread, state.on
        axes = b.shape[1]
        carried = axes * p.sum(axis=(1, 2)) + (b.sum(axis=2) ** 2).sum(axis=1)
        fresh = axes * (on.process[:, 0, 0] + on.noise)
        return np.stack((carried, fresh), axis=1)

    def innovation_mean(self, state: Tracks, e: Array, rows: Rows) -> Array:
        """Return minus the expected squared next innovation of gains (N, M, 2): (N, M).

        With κ = k₀ + k₁ the error that F carries on is (1 1)(b − Kd) and noise: its square has the
        mean carried − 2κ(l₀ + l₁) + κ²s. What the calendar adds next is left out.
        """
        hidden = _hidden(rows)
        _, l0, l1, s = np.moveaxis(hidden[:, Columns.MOMENTS], 1, 0)[..., None]
        carried, fresh = np.moveaxis(hidden[:, Columns.NEXT], 1, 0)[..., None]
        kappa = self.ran(e, rows).sum(axis=-1)
        return np.asarray(2.0 * kappa * (l0 + l1) - kappa * kappa * s - carried - fresh)

    def mean(self, state: Tracks, e: Array, rows: Rows) -> Array:
        """Return minus the expected squared error after the step; NaN: the last gain runs."""
        a, l0, l1, s = np.moveaxis(_hidden(rows)[:, Columns.MOMENTS], 1, 0)[..., None]
        k0, k1 = np.moveaxis(self.ran(e, rows), -1, 0)
        return np.asarray(2.0 * (k0 * l0 + k1 * l1) - s * (k0 * k0 + k1 * k1) - a)

    def best(self, state: Tracks, rows: Rows) -> Array:
        """Return K* = l/s."""
        moments = _hidden(rows)[:, Columns.MOMENTS]
        return np.asarray(moments[:, 1:3] / moments[:, 3:])

    def reference(self, state: Tracks, rows: Rows) -> Array:
        """Return what the world's own filter is worth in this step: (N,)."""
        return np.asarray(_hidden(rows)[:, Columns.REFERENCE])

    def ideal(self, state: Tracks) -> tuple[Array, Array]:
        """Return mean (units, axes, 2) and covariance of the world's own filter after the step."""
        p, now = state.spread, state.now
        k = p[:, :, 0] / (p[:, 0, 0] + now.noise)[:, None]
        nu = now.seen - self._calendar(state.sizes, state.day) - state.mean[..., 0]
        return state.mean + k[:, None] * nu[..., None], joseph(p, k, now.noise)

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
        """Return what learners are shown."""
        return self.shown(self.estimate(e, rows), rows)

    def shown(self, estimate: Array, rows: Rows) -> Array:
        """Return what learners are shown of an estimate (N, axes, 2): (N, 1)."""
        hidden = _hidden(rows)
        error = estimate - self._by_axis(hidden[:, self.columns.target])
        if self.reward == "innovations":
            later = self.plant.predict(estimate)[..., 0]
            error = (hidden[:, self.columns.next] - later)[..., None]
        return np.asarray(-(error * error).sum(axis=(1, 2))[:, None])

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
        mean, kept = self.ideal(state)
        f = np.array(plant.transition)
        is_new = rng.uniform(n) < 1.0 / plant.life
        fresh = self.truth.fresh(state.sizes, state.on.raw, *self.truth.draw(rng, n))
        cue, spread = self._cue(state.sizes, fresh, rng.normal(n, 2 * now.seen.shape[1]))
        day, sizes = state.day + 1, state.sizes
        fresh.seen = fresh.seen + self._calendar(sizes, day)
        path = choose(is_new, fresh, state.on)
        after = self.truth.follow(sizes, path, *self.truth.draw(rng, n))
        after.seen = after.seen + self._calendar(sizes, day + 1)
        return Tracks(
            sizes,
            path,
            after,
            day,
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
