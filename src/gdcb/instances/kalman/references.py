"""What filtering people would run: a fixed gain, the best gain, multiple models, adaptation.

Each proposes a gain every step, behind the same gate as the bandits. It stands in two further
context columns, and the one arm of its instance is to propose it.

- K1: one gain for all, the best on tuning worlds.
- K2: the best gain from where the tracker stands. It knows the truth.
- K3: the interacting multiple model, given the true models, sizes and transition matrix. It
  proposes its modes' gains in proportion to their probabilities, and where that is approved it
  makes its own update, mixture and all; where another gain runs, all its modes' estimates move with
  the estimate.
- K4: innovation-adaptive covariances: R̂ follows what residuals leave, Q̂ follows Kν²Kᵀ (Mehra 1972;
  Mohamed and Schwarz 1999; Akhlaghi, Zhou and Huang 2017). Matched as Ĉ − HPHᵀ, R̂ can be negative;
  the residual's form cannot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from gdcb.arms import ArmList, Arms
from gdcb.arrays import Array
from gdcb.bandits import GaussianThompson
from gdcb.composition.base import ActionColumn
from gdcb.context import Number, Schema
from gdcb.errors import InvalidInput
from gdcb.gates import Chain
from gdcb.instance import Instance
from gdcb.instances.catalogue import Reference
from gdcb.instances.kalman.plants import Plant
from gdcb.instances.kalman.tracker import choose
from gdcb.instances.kalman.world import Tracking, Tracks, joseph
from gdcb.parts import Column, column, take_all
from gdcb.records import Located, Rows
from gdcb.scalers import ConstantScaler
from gdcb.simulate import World
from gdcb.streams import Stream

NAMES = ("proposal_0", "proposal_1")
# Found on tuning worlds by `python -m gdcb.instances.kalman.fit`: the gain of K1, and K4's pace and
# share.
TUNED = {"target": ((0.65, 0.3), (0.0025, 0.3)), "demand": ((0.6, 0.2), (0.005, 0.0))}
_LEAST = 1e-6  # of R̂


@dataclass(frozen=True)
class Proposed:
    """Propose what stands in the context: Φ is a look at two columns."""

    names: tuple[Column, ...] = column(NAMES, numeric=True)
    needs_positive: ClassVar[bool] = False
    arm_kind: ClassVar[str] = "any"
    joins: ClassVar[str] = "other"

    def columns(self, arms: Arms) -> tuple[ActionColumn, ...]:
        """Return the two entries of the gain."""
        return (ActionColumn("gain_00"), ActionColumn("gain_10"))

    def compose(self, arms: Arms, delta: Array, x: Array) -> Array:
        """Return the proposal: (N, 1, 2)."""
        return take_all(x, self.names)[:, None]

    def locate(self, arms: Arms, e: Array, delta: Array, x: Array) -> Located:
        """Say that every action is the one arm."""
        arm = np.zeros(e.shape[:2], dtype=np.int64)
        return Located(arm, arm[..., None].astype(float), lambda: np.zeros(e.shape[:2]))

    def relative(self, e: Array, x: Array) -> Array:
        """Return e itself."""
        return e

    def lipschitz(self, arms: Arms, delta: Array, x: Array) -> float:
        """Return 0: δ changes nothing."""
        return 0.0


class Filter(Protocol):
    """Whoever proposes gains. Its state is a record of arrays with a leading unit axis."""

    def begin(self, world: Tracking, nature: Tracks) -> Any:
        """Return the state where tracks begin."""

    def propose(self, world: Tracking, state: Any, nature: Tracks) -> Array:
        """Return a gain a unit: (N, 2)."""

    def claims(self, world: Tracking, state: Any, nature: Tracks) -> tuple[Array, Array] | None:
        """Return the covariance before z (N, 2, 2) and R (N,) that it goes by; None: none."""

    def update(self, world: Tracking, state: Any, nature: Tracks, ran: Array) -> Any:
        """Return the state after a measurement and before the next."""


@dataclass(frozen=True)
class Fixed:
    """K1."""

    gain: tuple[float, float] = (0.5, 0.2)

    def begin(self, world: Tracking, nature: Tracks) -> Any:
        """Return nothing."""
        return np.zeros(nature.now.mode.size)

    def propose(self, world: Tracking, state: Any, nature: Tracks) -> Array:
        """Return the gain."""
        return np.tile(np.array(self.gain), (nature.now.mode.size, 1))

    def claims(self, world: Tracking, state: Any, nature: Tracks) -> None:
        """Return nothing: a fixed gain claims nothing."""

    def update(self, world: Tracking, state: Any, nature: Tracks, ran: Array) -> Any:
        """Return nothing."""
        return state


@dataclass(frozen=True)
class Oracle:
    """K2."""

    def begin(self, world: Tracking, nature: Tracks) -> Any:
        """Return nothing."""
        return np.zeros(nature.now.mode.size)

    def update(self, world: Tracking, state: Any, nature: Tracks, ran: Array) -> Any:
        """Return nothing."""
        return state

    def propose(self, world: Tracking, state: Any, nature: Tracks) -> Array:
        """Return K* from where the tracker stands."""
        moments = world.moments(nature)
        return np.asarray(moments[:, 1:3] / moments[:, 3:])

    def claims(self, world: Tracking, state: Any, nature: Tracks) -> tuple[Array, Array]:
        """Return the true ones."""
        return nature.spread, nature.now.noise


@dataclass(slots=True)
class Adapted:
    """Of every unit: covariance before z (2, 2), Q̂ (2, 2) and R̂."""

    spread: Array
    process: Array
    noise: Array


@dataclass(frozen=True)
class Adaptive:
    """K4: R̂ ← R̂ + pace·(ε² + HP⁺Hᵀ − R̂), ε = z − Hŝ⁺, and Q̂ ← Q̂ + share·pace·(Kν²Kᵀ − Q̂).

    P⁺ is the covariance after z (Mohamed and Schwarz 1999).

    Parameters
    ----------
    pace : weight of the newest step
    share : of it, in Q̂; 0: Q̂ stays the mean of the modes' nominal ones
    """

    pace: float = 0.1
    share: float = 1.0

    def begin(self, world: Tracking, nature: Tracks) -> Adapted:
        """Return nominal covariances; of Q the mean over modes."""
        n, plant = nature.now.mode.size, world.plant
        p = np.tile(np.array(plant.initial), (n, 1, 1))
        q = np.tile(np.array(plant.process).mean(axis=0), (n, 1, 1))
        return Adapted(p, q, np.full(n, plant.noise))

    def propose(self, world: Tracking, state: Adapted, nature: Tracks) -> Array:
        """Return PHᵀ/(HPHᵀ + R̂)."""
        p = state.spread
        return np.asarray(p[:, :, 0] / (p[:, 0, 0] + state.noise)[:, None])

    def claims(self, world: Tracking, state: Adapted, nature: Tracks) -> tuple[Array, Array]:
        """Return P and R̂."""
        return state.spread, state.noise

    def update(self, world: Tracking, state: Adapted, nature: Tracks, ran: Array) -> Adapted:
        """Follow both covariances, and predict."""
        nu = nature.now.seen - world.plant.predict(nature.track.estimate)[..., 0]
        square = (nu * nu).mean(axis=1)
        kept = joseph(state.spread, ran, state.noise)
        left = (1.0 - ran[:, 0]) ** 2 * square + kept[:, 0, 0]
        noise = state.noise + self.pace * (left - state.noise)
        made = square[:, None, None] * ran[:, :, None] * ran[:, None, :]
        process = state.process + self.share * self.pace * (made - state.process)
        f = np.array(world.plant.transition)
        return Adapted(f @ kept @ f.T + process, process, np.maximum(noise, _LEAST))


@dataclass(slots=True)
class Mixture:
    """Of every unit and mode, before z: probability, estimate (axes, 2), covariance (2, 2)."""

    chance: Array
    mean: Array
    spread: Array


@dataclass(frozen=True)
class Interacting:
    """K3."""

    def begin(self, world: Tracking, nature: Tracks) -> Mixture:
        """Return the true law of a track that begins, in every mode."""
        n, k = nature.now.mode.size, world.plant.n_modes
        return Mixture(
            np.full((n, k), 1.0 / k),
            np.tile(nature.mean[:, None], (1, k, 1, 1)),
            np.tile(nature.spread[:, None], (1, k, 1, 1)),
        )

    def propose(self, world: Tracking, state: Mixture, nature: Tracks) -> Array:
        """Return the modes' gains, in proportion to their probabilities."""
        p = state.spread
        k = p[..., :, 0] / (p[..., 0, 0] + nature.now.noise[:, None])[..., None]
        return np.asarray((state.chance[..., None] * k).sum(axis=1))

    def claims(self, world: Tracking, state: Mixture, nature: Tracks) -> tuple[Array, Array]:
        """Return the mixture's covariance before z, and the true R."""
        weight = state.chance[..., None, None]
        middle = (weight * state.mean).sum(axis=1, keepdims=True)
        off = state.mean - middle
        between = (off[..., :, None] * off[..., None, :]).mean(axis=2)
        return (weight * (state.spread + between)).sum(axis=1), nature.now.noise

    def after(self, world: Tracking, state: Mixture, nature: Tracks) -> tuple[Mixture, Array]:
        """Return the modes after z, and the estimate that they make: (N, axes, 2)."""
        r, p, seen = nature.now.noise[:, None], state.spread, nature.now.seen
        s = p[..., 0, 0] + r
        k = p[..., :, 0] / s[..., None]
        nu = seen[:, None] - state.mean[..., 0]
        mean = state.mean + k[:, :, None] * nu[..., None]
        power = -0.5 * ((nu * nu).sum(axis=2) / s + nu.shape[2] * np.log(s))
        chance = state.chance * np.exp(power - power.max(axis=1, keepdims=True))
        chance = chance / chance.sum(axis=1, keepdims=True)
        n, m = chance.shape
        kept = joseph(p.reshape(-1, 2, 2), k.reshape(-1, 2), np.repeat(r, m, axis=1).ravel())
        found = Mixture(chance, mean, kept.reshape(n, m, 2, 2))
        return found, np.asarray((chance[..., None, None] * mean).sum(axis=1))

    def update(self, world: Tracking, state: Mixture, nature: Tracks, ran: Array) -> Mixture:
        """Update every mode, mix them, and predict. What another gain made of it moves them all."""
        after, middle = self.after(world, state, nature)
        estimate = self.estimate(world, state, nature, ran)
        mean = after.mean + (estimate - middle)[:, None]
        switching = world.plant.switching
        chance = after.chance @ switching
        weight = switching[None] * after.chance[:, :, None] / chance[:, None]  # (N, from, to)
        mixed = (weight[..., None, None] * mean[:, :, None]).sum(axis=1)
        off = mean[:, :, None] - mixed[:, None]
        between = (off[..., :, None] * off[..., None, :]).mean(axis=3)
        spread = (weight[..., None, None] * (after.spread[:, :, None] + between)).sum(axis=1)
        f = np.array(world.plant.transition)
        truth, sizes, strain = world.truth, nature.sizes, nature.on.strain
        q = np.stack(
            [
                truth.process_size(sizes, strain, np.full(strain.size, mode))
                for mode in range(world.plant.n_modes)
            ],
            axis=1,
        )
        spread = f @ spread @ f.T + q[..., None, None] * truth.shapes
        return Mixture(chance, world.plant.predict(mixed), spread)

    def estimate(self, world: Tracking, state: Mixture, nature: Tracks, ran: Array) -> Array:
        """Return the estimate: its own where its proposal ran, else what the gain makes of it."""
        before = world.plant.predict(nature.track.estimate)
        nu = nature.now.seen - before[..., 0]
        other = before + ran[:, None] * nu[..., None]
        own = self.after(world, state, nature)[1]
        is_own = (ran == self.propose(world, state, nature)).all(axis=1)
        return np.where(is_own[:, None, None], own, other)


@dataclass(slots=True)
class Proposing:
    """The plain world's state, and the filter's."""

    nature: Tracks
    filter: Any
    proposal: Array
    claimed: tuple[Array, Array] | None
    estimated: Array | None = None


@dataclass(frozen=True)
class Guided:
    """The world with a filter that proposes, in two further context columns.

    Where the filter's estimate is no gain's (K3), what its proposal is worth is what it got: minus
    the squared error, less that of the world's own filter, plus what that one is worth. It has the
    right mean, and hardly more noise than the difference of the two.
    """

    world: Tracking
    filter: Filter

    def __getattr__(self, name: str) -> Any:
        """Answer all else as the world does."""
        return getattr(self.world, name)

    def _with(self, nature: Tracks, state: Any) -> Proposing:
        proposal = self.filter.propose(self.world, state, nature)
        return Proposing(nature, state, proposal, self.filter.claims(self.world, state, nature))

    def start(self, rng: Stream, group: Array) -> Proposing:
        """Start the plain world, and the filter in it."""
        nature = self.world.start(rng, group)
        return self._with(nature, self.filter.begin(self.world, nature))

    def context(self, rng: Stream, state: Proposing, t: int, group: Array) -> Rows:
        """Reveal the plain world's rows, and the proposal."""
        rows = self.world.context(rng, state.nature, t, group)
        return replace(rows, x=np.concatenate((rows.x, state.proposal), axis=1))

    def mean(self, state: Proposing, e: Array, rows: Rows) -> Array:
        """Return μ of gains; of a proposal that makes an estimate of its own, what it got."""
        worth = self.world.mean(state.nature, e, rows)
        if not isinstance(self.filter, Interacting):
            return worth
        is_own = (e == self._proposal(rows)[:, None]).all(axis=-1)
        return np.where(is_own, self._got(self.filter, state)[rows.unit], worth)

    def _proposal(self, rows: Rows) -> Array:
        return rows.x[:, -2:]

    def _got(self, mixing: Interacting, state: Proposing) -> Array:
        nature = state.nature
        own = mixing.estimate(self.world, state.filter, nature, state.proposal)
        best, left = self.world.ideal(nature)
        lost, least = (((one - nature.now.state) ** 2).sum(axis=(1, 2)) for one in (own, best))
        expected = nature.now.seen.shape[1] * np.trace(left, axis1=1, axis2=2)
        return np.asarray(-(expected + lost - least))[:, None]

    def best(self, state: Proposing, rows: Rows) -> Array:
        """Return the plain world's optimum."""
        return self.world.best(state.nature, rows)

    def reference(self, state: Proposing, rows: Rows) -> Array:
        """Return what the world's own filter is worth."""
        return self.world.reference(state.nature, rows)

    def candidates(self, state: Proposing, rows: Rows) -> Array:
        """Return the plain world's grid."""
        return self.world.candidates(state.nature, rows)

    def estimate(self, state: Proposing, e: Array, rows: Rows) -> Array:
        """Return the estimate after the step: (N, axes, 2)."""
        if isinstance(self.filter, Interacting):
            ran = self.world.ran(e, rows)
            return self.filter.estimate(self.world, state.filter, state.nature, ran)
        return self.world.estimate(e, rows)

    def sample(self, rng: Stream, state: Proposing, e: Array, rows: Rows) -> Array:
        """Return what learners are shown."""
        state.estimated = self.estimate(state, e, rows)  # for whoever reads the turn
        return self.world.shown(state.estimated, rows)

    def label(self, rng: Stream, state: Proposing, e: Array, rows: Rows) -> None:
        """Return no label: nobody learns covariances."""

    def advance(
        self, rng: Stream, state: Proposing, e: Array, outcome: Array, rows: Rows
    ) -> Proposing:
        """Give the measurement to all filters; some tracks end, and others begin."""
        ran, estimate = self.world.ran(e, rows), self.estimate(state, e, rows)
        after = self.filter.update(self.world, state.filter, state.nature, ran)
        nature = self.world.advance(rng, state.nature, e, outcome, rows)
        is_new = nature.track.age == 0.0
        kept = np.where(is_new[:, None, None], nature.track.estimate, estimate)
        nature.track.estimate = kept
        fresh = self.filter.begin(self.world, nature)
        return self._with(nature, choose(is_new, fresh, after))


def instance_of(plain: Instance, is_gated: bool) -> Instance:
    """Return the instance whose one arm is to propose what a filter proposes."""
    more = {name: Number(-10, 10, "what the filter proposes") for name in NAMES}
    return replace(
        plain,
        context=Schema({**plain.context.columns, **more}),
        arms=ArmList(names=("proposal",)),
        composition=Proposed(),
        scaler=ConstantScaler(1.0),
        gate=plain.chain if is_gated else Chain(()),
    )


@dataclass(frozen=True)
class Wrap:
    """world → the world with a filter that proposes; a class, so that it travels to workers."""

    filter: Filter

    def __call__(self, world: World) -> Guided:
        """Return it."""
        if not isinstance(world, Tracking):
            raise InvalidInput(f"expected the world of tracking, got {type(world).__name__}")
        return Guided(world, self.filter)


def references(plain: Instance, plant: Plant) -> dict[str, Reference]:
    """Return K1 to K4, and the same without the gate."""
    gain, pace = TUNED[plant.name]
    filters: dict[str, Filter] = {
        "K1": Fixed(gain),
        "K2": Oracle(),
        "K3": Interacting(),
        "K4": Adaptive(*pace),
    }
    found = {}
    for ending in ("", "u"):
        for key, one in filters.items():
            instance = instance_of(plain, is_gated=not ending)
            found[key + ending] = Reference(instance, GaussianThompson(), Wrap(one))
    return found
