"""Rules of learning, each on and off, on the same worlds and random numbers.

Selection through a cap, credit to what was executed, one curve instead of independent arms, and
overrides pooled by their contrast: the difference in cumulative regret is paired over replicates.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.analysis import Ledger
from gdcb.arrays import Array, logistic
from gdcb.bandits import Bandit, BetaThompson
from gdcb.composition import Multiply
from gdcb.gates import Approval, Bounds, Cap, Chain, SimulatedPerson
from gdcb.instance import Instance, Rules
from gdcb.instances import load
from gdcb.instances.stylised.str_pricing import BASE, MARKET, true_delta
from gdcb.records import Rows
from gdcb.scalers import ConstantScaler
from gdcb.simulate import World, simulate
from gdcb.streams import Stream


@dataclass(frozen=True)
class Pair:
    """Cumulative regret of every replicate, with the rule and without it."""

    name: str
    with_rule: Array
    without: Array
    floor: Array | None

    @property
    def difference(self) -> tuple[float, float, float]:
        """Mean of without − with, and its 95 % interval over replicates."""
        gap = self.without - self.with_rule
        half = 1.96 * float(gap.std(ddof=1)) / gap.size**0.5
        return float(gap.mean()), float(gap.mean()) - half, float(gap.mean()) + half


def regret(
    instance: Instance,
    bandit: Bandit,
    world: World,
    rounds: int,
    replicates: int,
    seed: int,
    with_floor: bool = False,
) -> Ledger:
    """Run one unit a replicate and keep its regret."""
    ledger = Ledger(instance, world, rounds, replicates, with_floor)
    simulate(instance, bandit, world, rounds=rounds, replicates=replicates, seed=seed, watch=ledger)
    return ledger


class Rated:
    """The STR world at a base price of 1, so that regret is in units of the base price."""

    def __init__(self) -> None:
        self._inner = load("str").world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def start(self, rng: Stream, group: Array) -> Any:
        """Draw demand; every listing costs 1."""
        state = self._inner.start(rng, group)
        state.base = np.ones(group.size)
        return state


class Plain(Rated):
    """The same without context: every night is the average one."""

    def context(self, rng: Stream, state: Any, t: int, group: Array) -> Rows:
        """Reveal the reference context."""
        rows: Rows = self._inner.context(rng, state, t, group)
        rows.x[:] = (0.536, 0.5, 0.2, 1.0, 1.0)
        return rows


def _priced(gate: Chain, rules: Rules, scaler: Any = None) -> Instance:
    instance = load("str").instance
    return dataclasses.replace(
        instance,
        scaler=scaler or instance.scaler,
        composition=Multiply(base=("base", "market"), names=("price",)),
        gate=gate,
        rules=rules,
    )


def selection(rounds: int = 2000, replicates: int = 200, seed: int = 11) -> Pair:
    """Flat arms of which a third lie above a cap, valued behind it or as if there were none."""
    cap = Chain((Cap(limit=1.12),))
    sides = [
        (_priced(cap, Rules(select=select), ConstantScaler(1.0)), BetaThompson())
        for select in ("gate", "nominal")
    ]
    return _pair("selection through a cap", sides, Plain(), rounds, replicates, seed)


def crediting(rounds: int = 2000, replicates: int = 200, seed: int = 12) -> Pair:
    """Flat arms behind a manager who overrides a quarter: credit what ran, or what was proposed."""
    sides = [
        (_priced(_rated_gate(), Rules(credit=credit)), BetaThompson())
        for credit in ("executed", "proposed")
    ]
    return _pair("credit to what was executed", sides, Rated(), rounds, replicates, seed)


def curve(rounds: int = 400, replicates: int = 400, seed: int = 13) -> Pair:
    """One two-parameter curve, or 25 independent Beta arms."""
    bandits: list[Bandit] = [load("str").bandit, BetaThompson()]
    sides = [(_priced(_rated_gate(), Rules()), bandit) for bandit in bandits]
    return _pair("a curve instead of flat arms", sides, Rated(), rounds, replicates, seed)


def private_information(rounds: int = 800, replicates: int = 200, seed: int = 14) -> Pair:
    """Pool the overrides of a manager who knows more by the contrast, or believe them all."""
    manager = SimulatedPerson(
        approve=lambda e, rows: np.where(_seen(rows) > 0.4, 0.1, 0.95)[:, None] + 0.0 * e[..., 0],
        own=lambda rows: (1.15 * _willing(rows))[:, None],
        spread=0.05,
    )
    name = "overrides pooled by their contrast"
    return _pair(name, _pooled(_rated_gate(manager)), Private(), rounds, replicates, seed, False)


def nothing_private(rounds: int = 800, replicates: int = 200, seed: int = 15) -> Pair:
    """Do the same where the manager knows nothing more: the price of the caution."""
    name = "the same, nothing private"
    return _pair(name, _pooled(_rated_gate()), Rated(), rounds, replicates, seed)


def _pooled(gate: Chain) -> list[tuple[Instance, Bandit]]:
    rules = (Rules(overrides="pooled"), Rules(overrides="all"))
    return [(_priced(gate, rule), load("str").bandit) for rule in rules]


def _rated_gate(person: SimulatedPerson | None = None) -> Chain:
    """Return the manager of the STR instance, or another; bounds do not bind at a price of 1."""
    manager, bounds = load("str").instance.chain.gates
    if not isinstance(manager, Approval) or not isinstance(manager.person, SimulatedPerson):
        raise TypeError("the STR instance has lost its manager")
    if not isinstance(bounds, Bounds):
        raise TypeError("the STR instance has lost its bounds")
    own = person or dataclasses.replace(manager.person, spread=0.05)
    return Chain((dataclasses.replace(manager, person=own), dataclasses.replace(bounds, low=0.1)))


def _pair(
    name: str,
    sides: Sequence[tuple[Instance, Bandit]],
    world: World,
    rounds: int,
    replicates: int,
    seed: int,
    with_floor: bool = True,
) -> Pair:
    """Run both sides on the same worlds and random numbers, the one with the rule first."""
    ledgers = [
        regret(instance, bandit, world, rounds, replicates, seed, with_floor and i == 0)
        for i, (instance, bandit) in enumerate(sides)
    ]
    sums = [ledger.parts[..., 0].sum(axis=0) for ledger in ledgers]
    floor = ledgers[0].floor
    return Pair(name, sums[0], sums[1], None if floor is None else floor.sum(axis=0))


class Private(Rated):
    """Tonight's demand also moves with something that only the manager sees."""

    strength = 1.5

    def context(self, rng: Stream, state: Any, t: int, group: Array) -> Rows:
        """Reveal a night, and to the manager alone how demand will be."""
        rows: Rows = self._inner.context(rng, state, t, group)
        return dataclasses.replace(rows, hidden=rng.normal(rows.n, 1))

    def sample(self, rng: Stream, state: Any, e: Array, rows: Rows) -> Array:
        """Draw bookings at tonight's demand."""
        shifted = state.alpha[rows.unit] + self.strength * _seen(rows)
        booked = logistic(shifted - state.beta[rows.unit] * e[:, 0] / _willing(rows))
        return np.asarray(rng.uniform(rows.n) < booked, dtype=float)[:, None]

    def mean(self, state: Any, e: Array, rows: Rows) -> Array:
        """Return the expected revenue given what the manager sees."""
        u = rows.unit
        shifted = (state.alpha[u] + self.strength * _seen(rows))[:, None]
        price = e[..., 0]
        return np.asarray(
            price * logistic(shifted - state.beta[u, None] * price / _willing(rows)[:, None])
        )

    def best(self, state: Any, rows: Rows) -> Array:
        """Return the best price for who sees only the context, on the candidates' grid."""
        prices = self._inner.candidates(state, rows)
        nodes, weights = np.polynomial.hermite_e.hermegauss(15)
        worth = np.zeros(prices.shape[:2])
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            same = dataclasses.replace(rows, hidden=np.full((rows.n, 1), node))
            worth += weight * self.mean(state, prices, same)
        return np.asarray(prices[np.arange(rows.n), worth.argmax(axis=1)])


def _seen(rows: Rows) -> Array:
    if rows.hidden is None:
        raise ValueError("the manager's information is missing")
    return rows.hidden[:, 0]


def _willing(rows: Rows) -> Array:
    return rows.x[:, BASE] * rows.x[:, MARKET] * true_delta(rows.x)


def table(rounds: int | None = None, replicates: int | None = None) -> list[tuple[str, str, str]]:
    """Run the pairs and put them into words."""
    rows = []
    for run in (selection, crediting, curve, private_information, nothing_private):
        pair = run() if rounds is None or replicates is None else run(rounds, replicates)
        mean, low, high = pair.difference
        floor = "" if pair.floor is None else f" (floor {pair.floor.mean():.1f})"
        rows.append(
            (
                pair.name,
                f"{pair.with_rule.mean():.1f} with, {pair.without.mean():.1f} without{floor}",
                f"{mean:.1f} [{low:.1f}, {high:.1f}]",
            )
        )
    return rows
