"""A history under an incumbent, through the same gate: what it teaches, and what it must not.

The incumbent's prices follow part of the day signal, as people's do: dear prices ran on good days.
Behind the gate a person approves with p, else sets their own price; with `signal` they see
something outside x that moves bookings too, override more often then and price by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gdcb import round as turn
from gdcb.analysis import TrueMean
from gdcb.arrays import Array, logistic
from gdcb.bandits import Bandit
from gdcb.gates import Approval, Bounds, Chain, NumberKernel, SimulatedPerson
from gdcb.instance import Instance, Rules
from gdcb.records import Decision, History, Rows
from gdcb.refold import warm_up
from gdcb.simulate import Turn, simulate
from gdcb.streams import CONTEXT, DRAW, GATE, OUTCOME, WORLD, Stream, Streams
from gdcb.theorems.worlds import Demand, Pricing, instance_of, price_list

ARMS = price_list(0.65, 1.5, 9)
FEEL = 0.6  # share of the day signal that people see
SCATTER = 0.2  # of the incumbent's prices, from night to night
APPROVES, SHY = 0.7, 0.35  # and how much less often where the person knows something
RAISES = 0.2  # of the person's own price, with the signal
BEFORE = 2**40  # the past has random numbers of its own, far from those of any round


@dataclass(frozen=True)
class Reviewed(Pricing):
    """The pricing world with a signal ±1 that only the person sees.

    Parameters
    ----------
    signal : how far the log odds of a booking move with it; 0: nobody knows more than x
    """

    signal: float = 0.0

    def context(self, rng: Stream, state: Demand, t: int, group: Array) -> Rows:
        """Reveal a context and, to the person, the signal."""
        rows = super().context(rng, state, t, group)
        return replace(rows, hidden=np.where(rng.uniform(group.size, 1) < 0.5, -1.0, 1.0))

    def booked(self, state: Demand, e: Array, rows: Rows) -> Array:
        """Return P(booked) of prices (N, M, 1), the signal known: (N, M)."""
        relative = e[..., 0] / self.delta(rows.x)[:, None]
        level = state.alpha[rows.unit] + self.signal * seen(rows)
        return logistic(level[:, None] - state.beta[rows.unit, None] * relative)


def seen(rows: Rows) -> Array:
    """Return what only the person sees: (N,)."""
    return np.zeros(rows.n) if rows.hidden is None else np.asarray(rows.hidden[:, 0])


def person(world: Reviewed, acts_on_signal: bool) -> SimulatedPerson:
    """Return the person who stands in the gate."""

    def approve(e: Array, rows: Rows) -> Array:
        p = APPROVES - SHY * acts_on_signal * (seen(rows) > 0)
        return np.broadcast_to(p[:, None], e.shape[:2])

    def own(rows: Rows) -> Array:
        felt = world.delta(rows.x) ** FEEL
        return np.asarray((felt * (1.0 + RAISES * acts_on_signal * seen(rows)))[:, None])

    return SimulatedPerson(approve, own, spread=0.1)


def behind(world: Reviewed, scaler: str, is_private: bool, overrides: str = "all") -> Instance:
    """Return the instance: the person, then bounds that hardly bite.

    Approval does not depend on the price, so arms rank alike before the gate and behind it, and
    nothing need be learned of the person.
    """
    kernel = NumberKernel(features=world.columns)
    gate = Chain((Approval(person(world, is_private), kernel), Bounds(low=0.2, high=4.0)))
    made = instance_of(world, scaler, arms=ARMS, gate=gate)
    return replace(made, rules=Rules(select="nominal", overrides=overrides))


def past(instance: Instance, world: Reviewed, replicates: int, n: int, seed: int) -> History:
    """Draw n finished rows of every replicate under the incumbent, replicate after replicate."""
    state = world.start(Streams(seed).at(WORLD, 0), np.arange(replicates))
    streams, unit = Streams(seed, rows_per_replicate=n), np.repeat(np.arange(replicates), n)
    rows = replace(world.context(streams.at(CONTEXT, BEFORE), state, -1, unit), unit=unit)
    scatter = np.exp(SCATTER * streams.at(DRAW, BEFORE).normal(rows.n))
    proposed = (world.delta(rows.x) ** FEEL * scatter)[:, None]
    draws = instance.chain.draw(streams.at(GATE, BEFORE), rows.n)
    verdict = instance.chain.apply(draws, proposed, rows)
    executed = turn.execute(instance, verdict, rows)
    outcome = world.sample(streams.at(OUTCOME, BEFORE), state, executed.action, rows)
    none = np.full(rows.n, -1)  # the incumbent knew no arms and no version of the scaler
    decision = Decision(none, proposed, proposed, none, proposed, proposed[:, None])
    return History(turn.finished(instance, rows, decision, executed, outcome), rows, verdict)


def warmed(instance: Instance, bandit: Bandit, history: History) -> turn.RoundState:
    """Return what both loops know after the history."""
    bandit, group = instance.bind(bandit), np.unique(history.log.group)
    state = turn.init(instance, bandit, group)
    warm_up(instance, bandit, state, history, group)
    return state


class AboveFloor:
    """Watches a run and keeps its regret above the gate floor: (rounds, replicates), exact.

    A proposal is worth Σ_s ½·(Kμ)(e_rec, x, s), the person's answer and the signal averaged out;
    the floor is the best that any price would be worth so. It does not hang on the method, so that
    methods in one world may share it.
    """

    def __init__(
        self, world: Reviewed, rounds: int, replicates: int, floors: dict[int, Array] | None = None
    ) -> None:
        self._world = world
        self._floors: dict[int, Array] = {} if floors is None else floors
        self.regret = np.zeros((rounds, replicates))

    def on(self, instance: Instance) -> Callable[[Turn], None]:
        """Return what watches a run of this instance."""

        def watch(seen_turn: Turn) -> None:
            t = seen_turn.t
            if t not in self._floors:
                candidates = self._world.candidates(seen_turn.world, seen_turn.rows)
                self._floors[t] = self._worth(instance, seen_turn, candidates).max(axis=1)
            mine = self._worth(instance, seen_turn, seen_turn.decision.action[:, None])[:, 0]
            self.regret[t] = self._floors[t] - mine

        return watch

    def _worth(self, instance: Instance, seen_turn: Turn, e: Array) -> Array:
        worth = np.zeros(e.shape[:2])
        for sign in (-1.0, 1.0):
            rows = replace(seen_turn.rows, hidden=np.full((e.shape[0], 1), sign))
            mean = TrueMean(instance, self._world, seen_turn.world, rows)
            worth += 0.5 * instance.chain.expect(mean, e, rows)
        return worth


def regret(
    instance: Instance,
    bandit: Bandit,
    world: Reviewed,
    history: History | None,
    floors: dict[int, Array],
    *,
    rounds: int,
    replicates: int,
    seed: int,
) -> Array:
    """Return the cumulated regret above the floor: (rounds, replicates)."""
    watch = AboveFloor(world, rounds, replicates, floors)
    simulate(
        instance,
        bandit,
        world,
        rounds=rounds,
        replicates=replicates,
        seed=seed,
        watch=watch.on(instance),
        history=history,
    )
    return np.cumsum(watch.regret, axis=0)


def paired(first: Array, second: Array) -> dict[str, float]:
    """Return the mean of first − second over replicates, with its 95 % interval."""
    from scipy.special import stdtrit

    gap = np.asarray(first - second)
    half = float(stdtrit(gap.size - 1, 0.975)) * float(gap.std(ddof=1)) / gap.size**0.5
    mean = float(gap.mean())
    return {"mean": mean, "low": mean - half, "high": mean + half}
