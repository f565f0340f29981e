"""Ask the operator: every row compares what ran with a rival, and the answer is the outcome.

This is how a reward model of a person's preferences (`BradleyTerryThompson`) meets the world of any
other method. The nights, the gates and the truth are the same, to the bit; only what comes back is
another: which of two actions the operator would rather have had.

    asked, world = with_rival(instance), Preferences(plain, instance, own)
    simulate(asked, bandit, world, ..., watch=without_rival(instance, watch))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gdcb.arrays import Array, logistic
from gdcb.bandits.nodes import frame_of
from gdcb.context import Number, Schema
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.parts import check_number
from gdcb.protocol.ground import neutral_of
from gdcb.protocol.sampling import allowed
from gdcb.records import Rows
from gdcb.rewards import Payoff
from gdcb.scalers import ConstantScaler
from gdcb.simulate import Turn, World
from gdcb.streams import Stream

RIVAL = "rival"
PREFERRED = "preferred"
TASTE = 3 / 8  # of the arms' half-width along a coordinate: there a taste has fallen by ½
MISMATCH = 2.0  # how far off another category is, where u falls by ½·MISMATCH²


def rival_names(instance: Instance) -> tuple[str, ...]:
    """Return the columns with a rival's coordinates: 'rival', or one each of several."""
    n = instance.space.n_coords
    return (RIVAL,) if n == 1 else tuple(f"{RIVAL}_{j + 1}" for j in range(n))


def taste_of(instance: Instance) -> tuple[float, ...]:
    """Return how far from their own action the operator's u falls by ½, a coordinate each.

    Three eighths of the half-width of the arms; of a category's number it means nothing.
    """
    half = frame_of(instance.space)[1]
    return tuple(round(TASTE * float(width), 12) for width in half)


def with_rival(instance: Instance) -> Instance:
    """Return the instance with the rival's coordinates in its context, and preference for reward.

    The new columns are the last, so that every part stays bound as it was; `BradleyTerryThompson`
    or `BradleyTerryArmsThompson` reads them. The outcome is 'preferred' (0 or 1, worth itself), and
    behind it stand the outcomes that the instance had, of which the learner sees nothing. Where
    nothing runs, nothing is preferred: the null action is worth 0.
    """
    _check(instance)
    columns = zip(rival_names(instance), instance.space.coords.T, strict=True)
    rivals = {
        name: Number(float(along.min()), float(along.max()), "relative action to compare with")
        for name, along in columns
    }
    return replace(
        instance,
        context=Schema({**instance.context.columns, **rivals}),
        gate=instance.chain,
        reward=Payoff(outcome=(PREFERRED, *instance.reward.outcome)),
        null=replace(instance.null, mean=0.0),
    )


def _check(instance: Instance) -> None:
    """Refuse an instance in which a rival's coordinates would not be an action's."""
    arms, joins, scaler = instance.space, instance.composition.joins, instance.scaler
    taken = [name for name in rival_names(instance) if name in instance.context.columns]
    if taken or PREFERRED in instance.reward.outcome:
        raise InvalidInput(f"instance '{instance.name}': it has a rival already")
    if not arms.is_exact.all() and (arms.is_exact.any() or joins not in ("product", "sum")):
        raise InvalidInput(
            f"instance '{instance.name}': a rival needs categories, or arms with a metric along "
            "coordinates which the composition multiplies or adds to"
        )
    neutral = neutral_of(instance)
    if not isinstance(scaler, ConstantScaler) or scaler.value != neutral.value:
        raise InvalidInput(
            f"instance '{instance.name}': a rival is a relative action, and a scaler would move "
            f"the arms away from it; take ConstantScaler({neutral.value:g})"
        )


@dataclass(frozen=True)
class Preferences:
    """A world whose outcome is the operator's preference between what ran and a rival.

    With ẽ the action relative to its base (e / base for products, e for sums) and õ the operator's
    own action, u(e) = −½·|(ẽ − õ)/noise|² and P(e is preferred to e′) = σ(u(e) − u(e′)) (Bradley
    and Terry 1952). The rival e′ is one of the arms that are allowed, each as likely. u is
    quadratic in ẽ and, where õ is linear in x, bilinear in (x, ẽ): inside the family that
    `BradleyTerryThompson` learns. Another category than their own is `mismatch` away, whichever.

    μ, e*, candidates, labels and the state are the plain world's, so regret is in its currency.
    Its random numbers come first in every stream, so its nights and outcomes are the same to the
    bit as without the question.

    Parameters
    ----------
    world : the plain world
    instance : the plain instance, before `with_rival`
    own : rows → (N, D) the operator's own action; NaN in a column: they do not care
    noise : how far from their own action, relative, one must go for u to fall by ½; one number, or
        one a coordinate
    mismatch : how far another category than their own is, in such steps

    Notes
    -----
    Assumes: the operator is asked about every row, answers without regard to the outcome, and
    knows their own taste; it need not be what earns most.

    Stops applying: preferences given in hindsight, or by someone who learns, are not of this form.

    Examples
    --------
    Base 100, own price 110, noise 0.1. A price of 110 has u = 0 and the rival 0.9, a price of
    90, has u = −½·2² = −2: the first is preferred with σ(2) = 0.880797.

    >>> from gdcb import ArmList, Multiply
    >>> schema, arms = Schema({"base": Number(1, 1000)}), ArmList(values=(0.9, 1.1))
    >>> plain = Instance(schema, arms, Multiply(base=("base",)), gate=[])
    >>> world = Preferences(None, plain, lambda rows: np.array([[110.0]]), noise=0.1)
    >>> rows = Rows(np.zeros(1, int), np.zeros(1, int), np.array([[100.0, 0.9]]))
    >>> world.chance(np.array([[110.0]]), rows).round(6).tolist()
    [0.880797]
    """

    world: World
    instance: Instance
    own: Callable[[Rows], Array]
    noise: float | tuple[float, ...] = 0.15
    mismatch: float = MISMATCH

    def __post_init__(self) -> None:
        noises = self.noise if isinstance(self.noise, tuple) else (self.noise,)
        for noise in noises:
            check_number("preferences.noise", noise, 0.0, open_low=True)
        n = self.instance.space.n_coords
        if len(noises) not in (1, n):
            raise InvalidInput(
                f"preferences.noise: expected {n} numbers, one a coordinate, got {len(noises)}"
            )
        check_number("preferences.mismatch", self.mismatch, 0.0, open_low=True)
        _check(self.instance)

    def rivals(self, rng: Stream, n: int, mask: Array | None = None) -> Array:
        """Draw the coordinates of n rivals, each allowed arm as likely: (n, C)."""
        arms = self.instance.space
        return np.asarray(arms.coords[allowed(rng.uniform(n), arms.n, mask)])

    def chance(self, e: Array, rows: Rows) -> Array:
        """Return P(e (N, D) is preferred to the row's rival): (N,); 0 where nothing ran."""
        plain = self._plain(rows)
        ran, own = self._place(e, plain), self._place(self.own(plain), plain)
        rival = rows.x[:, plain.x.shape[1] :]
        gap = self._off(rival, own) - self._off(ran, own)
        return np.where(np.isnan(ran).any(axis=1), 0.0, logistic(0.5 * gap))

    def _place(self, e: Array, rows: Rows) -> Array:
        """Return the coordinates (N, C) of actions (N, D), in the arms' own scale."""
        phi, space = self.instance.composition, self.instance.space
        neutral = np.full((rows.n, 1, 1), neutral_of(self.instance).value)
        return phi.locate(space, e[:, None], neutral, rows.x).coord[:, 0]

    def _off(self, place: Array, own: Array) -> Array:
        """Return the squared distance (N,) of coordinates (N, C) from the operator's own."""
        if self.instance.space.is_exact.all():
            return np.where(place[:, 0] == own[:, 0], 0.0, self.mismatch**2)
        away = (place - own) / np.asarray(self.noise)
        return np.asarray(np.where(np.isnan(own), 0.0, away * away).sum(axis=1))

    def _plain(self, rows: Rows) -> Rows:
        return _plain(rows, self.instance)

    def ask(self, rng: Stream, e: Array, rows: Rows) -> Array:
        """Draw whether the operator prefers e (N, D) to the row's rival: (N,), 0 or 1."""
        return np.asarray(rng.uniform(rows.n) < self.chance(e, rows), dtype=float)

    def start(self, rng: Stream, group: Array) -> Any:
        """Start the plain world."""
        return self.world.start(rng, group)

    def context(self, rng: Stream, state: Any, t: int, group: Array) -> Rows:
        """Reveal the plain world's contexts, with a rival's coordinate behind them."""
        rows = self.world.context(rng, state, t, group)
        rival = self.rivals(rng, rows.n, rows.mask)
        return replace(rows, x=np.concatenate((rows.x, rival), axis=1))

    def mean(self, state: Any, e: Array, rows: Rows) -> Array:
        """Return the plain world's μ(e, x): (N, M)."""
        return self.world.mean(state, e, self._plain(rows))

    def best(self, state: Any, rows: Rows) -> Array:
        """Return the plain world's e*: (N, D)."""
        return self.world.best(state, self._plain(rows))

    def candidates(self, state: Any, rows: Rows) -> Array:
        """Return the plain world's grid of actions: (N, M, D)."""
        return self.world.candidates(state, self._plain(rows))

    def sample(self, rng: Stream, state: Any, e: Array, rows: Rows) -> Array:
        """Draw the plain world's outcomes, then ask: (N, 1 + outcomes), the preference first."""
        outcome = self.world.sample(rng, state, e, self._plain(rows))
        return np.concatenate((self.ask(rng, e, rows)[:, None], outcome), axis=1)

    def label(self, rng: Stream, state: Any, e: Array, rows: Rows) -> Array | None:
        """Return the plain world's labels."""
        return self.world.label(rng, state, e, self._plain(rows))

    def advance(self, rng: Stream, state: Any, e: Array, outcome: Array, rows: Rows) -> Any:
        """Advance the plain world by its own outcomes."""
        return self.world.advance(rng, state, e, outcome[:, 1:], self._plain(rows))


def without_rival(instance: Instance, watch: Callable[[Turn], None]) -> Callable[[Turn], None]:
    """Return a watcher for the asked instance that shows `watch` the plain instance's turns.

    Rows lose the rival, outcomes the preference, and the reward is the realised one of the plain
    instance (booked × price). So a `Ledger` or a record of the plain instance and world serves
    every method alike.
    """

    def see(turn: Turn) -> None:
        rows, outcome = _plain(turn.rows, instance), turn.outcome[:, 1:]
        reward = instance.realised(outcome, turn.executed.action, rows.x)
        watch(replace(turn, rows=rows, outcome=outcome, reward=reward))

    return see


def _plain(rows: Rows, instance: Instance) -> Rows:
    """Return rows without the rival, in memory as the plain world made them."""
    width = rows.x.shape[1] - instance.space.n_coords
    return replace(rows, x=np.ascontiguousarray(rows.x[:, :width]))
