"""Gated logs with overrides whose truth is known, for off-policy estimates.

An incumbent picks one of seven prices, dearer on some nights than on others. A manager approves
with a probability that falls with the price, else vetoes now and then, else sets a price of their
own, which lies wherever it lies between the arms and beyond them. Prices pay when they are booked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from gdcb import round as turn
from gdcb.analysis import Feedback, TrueMean, arm_cells, cell_kernel
from gdcb.arrays import Array, logistic
from gdcb.gates import Approval, Bounds, Chain, NumberKernel, SimulatedPerson
from gdcb.instance import Instance
from gdcb.records import Rows
from gdcb.streams import CONTEXT, DRAW, GATE, OUTCOME, WORLD, Streams
from gdcb.theorems.worlds import Demand, Pricing, instance_of, price_list

WORLD_OF_LOGS = Pricing(spread=0.3, steepness=4.0, own_sd=0.12)
ARMS = price_list(0.7, 1.4, 7)
HIGHEST = 4.0  # the bounds behind the manager: no reward is above it
REWARDS = (0.0, HIGHEST)
FEEL = 0.6  # share of the day signal that the manager sees
VETOES = 0.1  # share of what is not approved
EXPLORES = 0.15  # share of even play in every policy, so that weights are bounded
NODES = 24  # of Gauss-Legendre quadrature in each column of x
# How each policy prices: the middle of its log prices at x = 0, what the first column of x moves
# it by, and its spread.
POLICIES = {
    "incumbent": (-0.05, 0.15, 0.2),
    "near": (0.05, 0.0, 0.2),
    "far": (0.1, -0.1, 0.1),
}
TARGETS = ("near", "far")
_AVERAGE = Demand(np.ones(1), np.ones(1))  # contexts do not depend on demand


@cache
def instance() -> Instance:
    """Return the pricing instance behind the manager, and bounds."""
    world = WORLD_OF_LOGS

    def felt(rows: Rows) -> Array:
        return np.asarray(world.delta(rows.x) ** FEEL)

    def approve(e: Array, rows: Rows) -> Array:
        return np.asarray(logistic(1.2 - 2.0 * (e[..., 0] / felt(rows)[:, None] - 1.0)))

    def own(rows: Rows) -> Array:
        return felt(rows)[:, None]

    manager = SimulatedPerson(approve, own, spread=0.1, veto=VETOES)
    kernel = NumberKernel(features=world.columns)
    gate = Chain((Approval(manager, kernel), Bounds(low=0.2, high=HIGHEST)))
    return instance_of(world, "known", arms=ARMS, gate=gate)


def policy(name: str, x: Array) -> Array:
    """Return P(arm proposed | x): (N, K)."""
    middle, slope, spread = POLICIES[name]
    off = (np.log(ARMS) - middle - slope * x[:, :1]) / spread
    share = np.exp(-0.5 * off**2)
    share /= share.sum(axis=1, keepdims=True)
    return np.asarray((1.0 - EXPLORES) * share + EXPLORES / len(ARMS))


def weight_bound(name: str) -> float:
    """Return the largest weight that any context can have.

    A cell's weight is a mean of π₁/π₀ over the arms that may lead to it, so the largest ratio of
    the two policies bounds it. Ratios change slowly in x₁, the only column that they read.
    """
    edge = 3.0**0.5
    x = np.stack((np.linspace(-edge, edge, 2001), np.zeros(2001)), axis=1)
    return float((policy(name, x) / policy("incumbent", x)).max()) * 1.001


@dataclass(slots=True)
class Contexts:
    """A finite set of contexts, all as likely, with the gates' kernel there worked out once.

    Parameters
    ----------
    x, kernel : (P, 2), (P, K, K + 2)
    """

    x: Array
    kernel: Array

    @staticmethod
    def drawn(n: int, seed: int) -> Contexts:
        """Draw n contexts from the law of x."""
        streams, zero = Streams(seed), np.zeros(n, dtype=np.int64)
        x = WORLD_OF_LOGS.context(streams.at(CONTEXT, 0), _AVERAGE, 0, zero).x
        return Contexts(x, _kernel(x))

    def true_value(self, name: str, demand: Demand) -> float:
        """Return the value of a policy over these contexts, exactly."""
        return float(_worth(name, demand, self.x).mean())


@dataclass(slots=True)
class MadeLog:
    """One log: n rows of x, executed cells and rewards, and what is true of it.

    Parameters
    ----------
    x, cell, reward : (n, 2), (n,), (n,)
    is_overridden : (n,) whether the manager did not approve
    kernel : (n, K, K + 2) the gates on cells
    demand : of the one unit
    """

    x: Array
    cell: Array
    reward: Array
    is_overridden: Array
    kernel: Array
    demand: Demand

    def executed(self, name: str) -> Array:
        """Return P(cell executed | x) under a policy behind the gates: (n, K + 2)."""
        return np.asarray((policy(name, self.x)[:, None, :] @ self.kernel)[:, 0])

    def feedback(
        self, name: str, outcome: Array | None, behaviour: Array | None = None
    ) -> Feedback:
        """Return the log with a policy as its target."""
        law = self.executed("incumbent") if behaviour is None else behaviour
        return Feedback(self.cell, self.reward, law, self.executed(name), outcome)


def made_log(n: int, seed: int, contexts: Contexts | None = None) -> MadeLog:
    """Draw a log of one unit with demand of its own; its x from all, or from some contexts."""
    made, world, streams = instance(), WORLD_OF_LOGS, Streams(seed)
    zero = np.zeros(n, dtype=np.int64)
    demand = world.start(streams.at(WORLD, 0), zero[:1])
    if contexts is None:
        rows = Rows(zero, zero, world.context(streams.at(CONTEXT, 0), demand, 0, zero).x)
        kernel = _kernel(rows.x)
    else:
        which = (streams.at(CONTEXT, 0).uniform(n) * contexts.x.shape[0]).astype(np.int64)
        rows, kernel = Rows(zero, zero, contexts.x[which]), contexts.kernel[which]
    shares = np.cumsum(policy("incumbent", rows.x), axis=1)
    arm = (shares < streams.at(DRAW, 0).uniform(n, 1)).sum(axis=1).clip(max=len(ARMS) - 1)
    delta = world.delta(rows.x)[:, None, None]
    proposed = np.array(ARMS)[arm, None] * delta[:, 0]
    verdict = made.chain.apply(made.chain.draw(streams.at(GATE, 0), n), proposed, rows)
    executed = turn.execute(made, verdict, rows)
    booked = world.sample(streams.at(OUTCOME, 0), demand, executed.action, rows)[:, 0]
    price = executed.action[:, 0]
    return MadeLog(
        rows.x,
        arm_cells(made, executed.action[:, None], delta, rows.x)[:, 0],
        np.where(np.isfinite(price), price * booked, 0.0),
        ~(executed.action == proposed).all(axis=1),
        kernel,
        demand,
    )


def _kernel(x: Array) -> Array:
    zero = np.zeros(x.shape[0], dtype=np.int64)
    return cell_kernel(instance(), Rows(zero, zero, x), WORLD_OF_LOGS.delta(x)[:, None, None])


def _worth(name: str, demand: Demand, x: Array) -> Array:
    """Return Σ_a π(a | x)·(Kμ)(Φ(a, δ), x): (N,)."""
    zero = np.zeros(x.shape[0], dtype=np.int64)
    rows, made = Rows(zero, zero, x), instance()
    actions = WORLD_OF_LOGS.delta(x)[:, None, None] * np.array(ARMS)[:, None]
    mean = TrueMean(made, WORLD_OF_LOGS, demand, rows)
    return np.asarray((policy(name, x) * made.chain.expect(mean, actions, rows)).sum(axis=1))


def true_value(name: str, demand: Demand, nodes: int = NODES) -> float:
    """Return E_x Σ_a π(a | x)·(Kμ)(Φ(a, δ), x), by quadrature.

    Nothing in it jumps (the bounds never bite), so that 24 nodes a column leave an error below
    10⁻¹⁰: 12 more change nothing in the tenth digit.
    """
    at, share = np.polynomial.legendre.leggauss(nodes)
    first, second = (part.ravel() * 3.0**0.5 for part in np.meshgrid(at, at, indexing="ij"))
    worth = _worth(name, demand, np.stack((first, second), axis=1))
    return float((np.outer(share, share).ravel() / 4.0 * worth).sum())


def cell_gap(log: MadeLog, name: str) -> Array:
    """Return what cells hide in each row: (n,).

    A cell holds an arm's own price and the manager's near it, and the target mixes the two in
    other proportions: Σ_c target(c)·(E[r | c, x, log] − E[r | c, x, target]).
    """
    n, made = log.x.shape[0], instance()
    zero = np.zeros(n, dtype=np.int64)
    rows, delta = Rows(zero, zero, log.x), WORLD_OF_LOGS.delta(log.x)[:, None, None]
    actions = delta * np.array(ARMS)[:, None]
    mean = TrueMean(made, WORLD_OF_LOGS, log.demand, rows)
    joint = np.zeros((n, len(ARMS), len(ARMS) + 2))
    for cell in range(len(ARMS) + 2):
        joint[..., cell] = made.chain.expect(_Inside(mean, delta, log.x, cell), actions, rows)
    told = []
    for who in ("incumbent", name):
        law = log.executed(who)
        whole = (policy(who, log.x)[:, None, :] @ joint)[:, 0]
        told.append(np.where(law > 0, whole / np.where(law > 0, law, 1.0), 0.0))
    return np.asarray((log.executed(name) * (told[0] - told[1])).sum(axis=1))


@dataclass(slots=True)
class _Inside:
    """The mean reward on the actions of one cell, 0 elsewhere."""

    mean: TrueMean
    delta: Array
    x: Array
    cell: int

    def take(self, index: Array) -> _Inside:
        return _Inside(self.mean.take(index), self.delta[index], self.x[index], self.cell)

    def __call__(self, e: Array) -> Array:
        inside = arm_cells(instance(), e, self.delta, self.x) == self.cell
        return np.where(inside, self.mean(e), 0.0)
