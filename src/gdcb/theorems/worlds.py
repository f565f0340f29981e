"""A small pricing world with knobs, in which the theorem checks run.

Bookings follow σ(α − β·e/δ*(x)), log δ* is linear in a bounded context. Knobs: how far δ* spreads,
how steep demand is (steeper: less noise), how much units differ. One nominal arm is best in every
context once δ is right, which is the paper's premise at its best.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gdcb import round as turn
from gdcb.arms import ArmList
from gdcb.arrays import Array, logistic
from gdcb.composition import Multiply
from gdcb.context import Number, Schema
from gdcb.errors import InvalidInput
from gdcb.gates import Chain
from gdcb.instance import Instance, NullAction
from gdcb.parts import check_number
from gdcb.records import Decision, History, Log, Rows, Verdict
from gdcb.rewards import Payoff
from gdcb.scalers import ConstantScaler, LogLinearScaler, RidgeScaler, Scaler
from gdcb.scalers.constant import ConstantState
from gdcb.streams import CONTEXT, DRAW, GATE, OUTCOME, WORLD, Stream, Streams

_EDGE = 3.0**0.5  # uniform on ±√3: mean 0, variance 1
_BEFORE = 2**40  # rounds of the past have numbers of their own, far from those of any run


@dataclass(slots=True)
class Demand:
    """Bookings σ(α − β·e/δ*) of every unit: (units,) each."""

    alpha: Array
    beta: Array


@dataclass(frozen=True)
class Pricing:
    """The world: price e, bookings σ(α − β·e/δ*(x)), reward booked × price.

    log δ*(x) = spread·Σ wⱼxⱼ with Σ wⱼ² = 1, xⱼ uniform with mean 0 and variance 1: `spread` is
    the standard deviation of log δ*. α = β₀ + log(β₀ − 1) puts the best e/δ* at 1 and the bookings
    there at 1 − 1/β₀, β₀ being the `steepness`; a unit's own best relative price c° moves both:
    β = β₀/c°, log c° ~ N(0, own_sd²).

    Parameters
    ----------
    spread : standard deviation of log δ*
    steepness : β₀ > 1, how sharply bookings fall with the price; the noise falls as it grows
    own_sd : standard deviation of log c° over units
    weights : direction of log δ* in the context, one number a column; scaled to length 1
    label_noise : standard deviation of the labels of log δ* that a scaler may be given

    Examples
    --------
    At x = 0, δ* = 1. With steepness 2, α = 2 and c° = 1: half of the offers at 1 are booked.

    >>> world = Pricing(spread=0.3, steepness=2.0, own_sd=0.0)
    >>> zero = np.zeros(1, dtype=int)
    >>> state, rows = world.start(Stream((0, 0), 0, 1), zero), Rows(zero, zero, np.zeros((1, 2)))
    >>> world.mean(state, np.ones((1, 1, 1)), rows).tolist(), world.best(state, rows).tolist()
    ([[0.5]], [[1.0]])
    """

    spread: float = 0.3
    steepness: float = 4.0
    own_sd: float = 0.12
    weights: tuple[float, ...] = (0.8, -0.6)
    label_noise: float = 0.3

    def __post_init__(self) -> None:
        check_number("world.steepness", self.steepness, 1.0, open_low=True)
        for name in ("spread", "own_sd", "label_noise"):
            check_number(f"world.{name}", getattr(self, name), 0.0)
        if not self.weights or not any(self.weights):
            raise InvalidInput(f"world.weights: expected a direction, got {self.weights}")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the context columns."""
        return tuple(f"x{j + 1}" for j in range(len(self.weights)))

    @property
    def theta(self) -> Array:
        """θ* of log δ*(x) = θ*ᵀx: (p,)."""
        weights = np.array(self.weights)
        return np.asarray(self.spread * weights / np.sqrt((weights * weights).sum()))

    def delta(self, x: Array) -> Array:
        """Return δ*(x): (N,)."""
        return np.asarray(np.exp((x * self.theta).sum(axis=1)))

    def start(self, rng: Stream, group: Array) -> Demand:
        """Draw each unit's best relative price."""
        own = np.exp(self.own_sd * rng.normal(group.size))
        alpha = self.steepness + np.log(self.steepness - 1.0)
        return Demand(np.full(group.size, alpha), self.steepness / own)

    def context(self, rng: Stream, state: Demand, t: int, group: Array) -> Rows:
        """Reveal one context a unit."""
        x = _EDGE * (2.0 * rng.uniform(group.size, len(self.weights)) - 1.0)
        return Rows(np.arange(group.size), group, x)

    def booked(self, state: Demand, e: Array, rows: Rows) -> Array:
        """Return P(booked) of prices (N, M, 1): (N, M)."""
        relative = e[..., 0] / self.delta(rows.x)[:, None]
        return logistic(state.alpha[rows.unit, None] - state.beta[rows.unit, None] * relative)

    def mean(self, state: Demand, e: Array, rows: Rows) -> Array:
        """Return price · P(booked); nothing offered earns nothing."""
        return np.asarray(np.nan_to_num(e[..., 0] * self.booked(state, e, rows)))

    def best(self, state: Demand, rows: Rows) -> Array:
        """Return c°·δ*: β·c = 1 + W(exp(α − 1)) at the optimum, and that is β₀."""
        own = self.steepness / state.beta[rows.unit]
        return np.asarray((own * self.delta(rows.x))[:, None])

    def candidates(self, state: Demand, rows: Rows) -> Array:
        """Return a fine grid of prices: (N, 61, 1)."""
        return (self.delta(rows.x)[:, None] * np.linspace(0.4, 1.6, 61))[..., None]

    def sample(self, rng: Stream, state: Demand, e: Array, rows: Rows) -> Array:
        """Draw bookings."""
        p = np.nan_to_num(self.booked(state, e[:, None], rows))[:, 0]
        return np.asarray(rng.uniform(rows.n) < p, dtype=float)[:, None]

    def label(self, rng: Stream, state: Demand, e: Array, rows: Rows) -> Array:
        """Return log δ* with noise."""
        noise = self.label_noise * rng.normal(rows.n)
        return (np.log(self.delta(rows.x)) + noise)[:, None]

    def advance(self, rng: Stream, state: Demand, e: Array, outcome: Array, rows: Rows) -> Demand:
        """Return the same demand: rounds do not depend on each other."""
        return state


@dataclass(frozen=True)
class KnownScaler(ConstantScaler):
    """δ(x) = exp(θᵀx) with θ given: the perfectly calibrated scaler of the paper's corollary.

    Examples
    --------
    >>> scaler = KnownScaler(theta=(np.log(2.0),))
    >>> scaler.predict(scaler.init(1), np.zeros(1, dtype=int), np.ones((1, 1))).tolist()
    [[[2.0]]]
    """

    theta: tuple[float, ...] = ()
    on_device: ClassVar[bool] = False

    def predict(self, state: ConstantState, owner: Array, x: Array) -> Array:
        """Return exp(θᵀx): (N, 1, 1)."""
        return np.asarray(np.exp((x * np.array(self.theta)).sum(axis=1))[:, None, None])


def price_list(low: float = 0.7, high: float = 1.4, n: int = 13) -> tuple[float, ...]:
    """Return n price levels from low to high, each the same factor above the last."""
    return tuple(float(value) for value in np.geomspace(low, high, n))


def instance_of(
    world: Pricing,
    scaler: str | Scaler = "outcomes",
    arms: tuple[float, ...] | None = None,
    gate: Chain | None = None,
    every: int = 60,
    penalty: float = 1.0,
) -> Instance:
    """Return price = δ(x)·a, paid when booked.

    Parameters
    ----------
    scaler : 'outcomes' (fitted on bookings), 'labels' (ridge on labels of log δ*), 'known' (δ*),
        'none' (δ = 1), or a scaler
    arms : prices at δ = 1; None: `price_list()`
    gate : none where omitted
    every, penalty : rows between publications of a scaler that learns, and its ridge penalty
    """
    centre = (0.0,) * len(world.columns)
    made: Scaler
    if not isinstance(scaler, str):
        made = scaler
    elif scaler == "outcomes":
        made = LogLinearScaler(
            factors={name: (name,) for name in world.columns},
            every=every,
            centre=centre,
            penalty=penalty,
        )
    elif scaler == "labels":
        made = RidgeScaler(features=world.columns, every=every, centre=centre, penalty=penalty)
    elif scaler == "known":
        made = KnownScaler(theta=tuple(float(value) for value in world.theta))
    elif scaler == "none":
        made = ConstantScaler(1.0)
    else:
        raise InvalidInput(
            f"scaler: expected 'outcomes', 'labels', 'known' or 'none', got {scaler!r}"
        )
    return Instance(
        name="pricing",
        title="A small pricing world",
        context=Schema({name: Number(-_EDGE, _EDGE) for name in world.columns}),
        arms=ArmList(values=arms or price_list()),
        scaler=made,
        composition=Multiply(names=("price",)),
        gate=gate or Chain(),
        reward=Payoff(outcome=("booked",), action=0),
        null=NullAction(mean=0.0),
    )


def past(instance: Instance, world: Pricing, n: int, replicates: int, seed: int) -> History:
    """Return n offers of every replicate at random prices of the list, for a warm start.

    The demand is that of a simulation with the same seed and one unit a replicate. The rows name
    no arm: credit goes by the price that ran.
    """
    streams, group = Streams(seed, rows_per_replicate=1), np.arange(replicates)
    demand, prices = world.start(streams.at(WORLD, 0), group), instance.space.coords[:, 0]
    parts: list[tuple[Log, Rows, Verdict]] = []
    for t in range(_BEFORE, _BEFORE + n):
        rows = world.context(streams.at(CONTEXT, t), demand, t, group)
        picked = (streams.at(DRAW, t).uniform(replicates) * prices.size).astype(np.int64)
        price, none = prices[picked][:, None], np.full(replicates, -1)
        verdict = instance.chain.apply(
            instance.chain.draw(streams.at(GATE, t), rows.n), price, rows
        )
        executed = turn.execute(instance, verdict, rows)
        outcome = world.sample(streams.at(OUTCOME, t), demand, executed.action, rows)
        decision = Decision(none, price, price, none, price, price[:, None])
        parts.append((turn.finished(instance, rows, decision, executed, outcome), rows, verdict))
    logs, contexts, verdicts = zip(*parts, strict=True)
    return History(
        Log.concatenate(list(logs)),
        Rows.concatenate(list(contexts)),
        Verdict.concatenate(list(verdicts)),
    )


def random_history(
    world: Pricing, arms: Array, n: int, rng: np.random.Generator
) -> tuple[Array, Array, Array, Array]:
    """Return x (n, p), price (n,), reward (n,) and δ* (n,) of an average unit, arms at random."""
    x = rng.uniform(-_EDGE, _EDGE, size=(n, len(world.weights)))
    price, zero = rng.choice(arms, size=n), np.zeros(n, dtype=np.int64)
    alpha = world.steepness + np.log(world.steepness - 1.0)
    demand = Demand(np.array([alpha]), np.array([world.steepness]))
    p = world.booked(demand, price[:, None, None], Rows(zero, zero, x))[:, 0]
    return x, price, price * (rng.random(n) < p), world.delta(x)
