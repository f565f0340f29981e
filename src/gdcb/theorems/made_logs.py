"""Made logs: decision logs whose truth is known, on which a certificate's verdicts are judged.

A market pays r = 1 − 2·(e/δ*(x) − c°)² + signal·s + N(0, 1): one relative level c° is best in every
context once prices are scaled by δ*. log δ* = 0.3·(√0.7·busy + √0.3·trend) in a context of three
columns, the last of which says nothing; c° is drawn a log, from 1.15 to 1.35; the arms are the
levels 0.4, 0.6, …, 1.6. Behind the incumbent stands a person who approves with 0.75, else sets the
level 0.8, 1 or 1.2 of their own; bounds that hardly bite follow. All effects below are in standard
deviations of the noise.

- a: arms at random, with the right δ. Where c° is 1.25 the arms are worth −0.45, 0.16, 0.60, 0.88,
  1.00, 0.96 and 0.76.
- b: the price is e = δ*^0.7·(1 + 0.4·N(0, 1)): the level runs against the signal, and a good scaler
  leaves nothing of it.
- c: the same log, no scaler. Where c° is 1.25 the arms' means in the log exceed their values by
  0.29, 0.32, 0.18, 0.07, 0.08, 0.29 and 0.69: the dearest arm looks best, and is nearly the worst.
- d1: as a; at 60 % of the log approval falls from 0.75 to 0.55.
- d2: as a; at a time from 50 to 70 % of the log c° rises by 0.35, to 1.25 say: the arms' values
  change by −0.95, −0.67, −0.39, −0.11, 0.18, 0.46 and 0.74, by 0.5 on average but in both
  directions: their mean moves by 0.1 only.
- d2l: as a; at such a time every arm loses 0.5.
- e: as a, but the two dearest arms were never proposed, nor set by the person.
- f1: as a, and the person sees s = ±1, which moves the reward by 1 and nobody else sees: where they
  override, they set the dearest level on s = 1 and the cheapest on −1, so that the means of these
  arms are off by ±0.54. The log says who overrode.
- f2: the same, but the log has neither proposal nor status. `heed` is the share of overrides that
  follow the signal: the knob for its strength.
- g: as c, but outcomes are successes of probability ½ + r̄/4, r̄ the mean above, within 0.02 and
  0.98: such a learner cannot be adjusted. Its biases are about half of c's, in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.bandits import Bandit, BetaThompson, GaussianThompson
from gdcb.composition import Multiply
from gdcb.context import Number, Schema
from gdcb.errors import InvalidInput
from gdcb.gates import Approval, Bounds, Chain, NumberKernel, SimulatedPerson
from gdcb.history.batch import Batch
from gdcb.instance import Instance, NullAction, Rules
from gdcb.parts import check_choice, check_number
from gdcb.records import Rows
from gdcb.rewards import Payoff, Scaled
from gdcb.scalers import ConstantScaler, RidgeScaler, Scaler
from gdcb.streams import CONTEXT, DRAW, GATE, LABEL, OUTCOME, Stream
from gdcb.theorems.worlds import KnownScaler

ARMS = (0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6)
COLUMNS = ("busy", "trend", "staff")
THETA = (0.3 * 0.7**0.5, 0.3 * 0.3**0.5, 0.0)  # of log δ*
EDGE = 3.0**0.5  # uniform on ±√3: mean 0, variance 1
CURVE = 2.0  # how fast a level loses as it leaves the best one
FOLLOWS, SCATTER = 0.7, 0.4  # share of log δ* that the incumbent's prices follow, and their scatter
APPROVES = 0.75
OWN, OWN_SPREAD = 1.0, 0.2  # the person's own level, and how it varies
HIGH, LOW = ARMS[-1], ARMS[0]  # what they set by the signal
JITTER = 0.01  # of every price around its level, whoever sets it: no two prices are the same
LABEL_NOISE = 0.3
BEFORE = 2**40  # the past has random numbers of its own, far from those of any round


@dataclass(frozen=True)
class Kind:
    """How a log is made; see the module for the effect sizes.

    Parameters
    ----------
    choice : 'random' (even play over the arms, scaled by δ*) or 'context' (prices that follow
        part of the signal)
    scaler : 'labels' (a ridge fit on labels of log δ*), 'known' (δ* itself) or 'none' (δ = 1)
    approves_later : approval after 60 % of the log
    moves, falls : by how much c° rises, and every arm's value falls, at 50 to 70 % of the log
    untried : arms that were never proposed
    signal, heed : what a private signal moves the reward by, and the share of overrides that
        follow it
    is_logged : whether the log has proposal and status
    is_class : whether outcomes are successes, and not rewards
    """

    choice: str = "random"
    scaler: str = "labels"
    approves_later: float = APPROVES
    moves: float = 0.0
    falls: float = 0.0
    untried: tuple[int, ...] = ()
    signal: float = 0.0
    heed: float = 0.0
    is_logged: bool = True
    is_class: bool = False

    def __post_init__(self) -> None:
        check_choice("kind.choice", self.choice, ("random", "context"))
        check_choice("kind.scaler", self.scaler, ("labels", "known", "none"))
        for name in ("approves_later", "heed"):
            check_number(f"kind.{name}", getattr(self, name), 0.0, 1.0)
        for name in ("moves", "falls", "signal"):
            check_number(f"kind.{name}", getattr(self, name))
        if not set(self.untried) < set(range(len(ARMS))):
            raise InvalidInput(f"kind.untried: expected some of {len(ARMS)} arms, not all")

    @property
    def tried(self) -> Array:
        """The arms that the incumbent may propose."""
        return np.setdiff1d(np.arange(len(ARMS)), self.untried)

    @property
    def law_changes(self) -> bool:
        """Whether the reward law is another at the end of the log."""
        return self.moves != 0.0 or self.falls != 0.0

    def paid(self, mean: Array) -> Array:
        """Return what is paid on average: the reward's mean, or P(success)."""
        return np.clip(0.5 + 0.25 * mean, 0.02, 0.98) if self.is_class else mean

    def sample(self, rng: Stream, mean: Array) -> Array:
        """Draw outcomes (N, 1) around the reward's mean (N,)."""
        if self.is_class:
            return np.asarray(rng.uniform(mean.size) < self.paid(mean), dtype=float)[:, None]
        return np.asarray(mean + rng.normal(mean.size))[:, None]


KINDS = {
    "a": Kind(),
    "b": Kind(choice="context"),
    "c": Kind(choice="context", scaler="none"),
    "d1": Kind(approves_later=0.55),
    "d2": Kind(moves=0.35),
    "d2l": Kind(falls=0.5),
    "e": Kind(untried=(5, 6)),
    "f1": Kind(signal=1.0, heed=1.0),
    "f2": Kind(signal=1.0, heed=1.0, is_logged=False),
    "g": Kind(choice="context", scaler="none", is_class=True),
}


@dataclass(slots=True)
class MadeLog:
    """A log with what goes with it, and what only its maker knows.

    Parameters
    ----------
    batch, instance, bandit : the rows, and what is to be started warm from them
    best : c° today
    gate_changed, law_changed : the first row after a change; None: nothing changed
    """

    batch: Batch
    instance: Instance
    bandit: Bandit
    best: float
    gate_changed: int | None
    law_changed: int | None


def true_delta(x: Array) -> Array:
    """Return δ*(x): (N,)."""
    return np.asarray(np.exp(THETA[0] * x[:, 0] + THETA[1] * x[:, 1]))


def best_level(replicate: Array) -> Array:
    """Return c° of numbered logs, spread evenly over 1.15 to 1.35.

    >>> best_level(np.arange(3)).round(3).tolist()
    [1.25, 1.174, 1.297]
    """
    return np.asarray(1.15 + 0.2 * ((0.5 + replicate * 0.6180339887498949) % 1.0))


def mean_reward(e: Array, x: Array, best: Array | float) -> Array:
    """Return 1 − 2·(e/δ* − c°)² of prices (N, M), the signal averaged out: (N, M).

    At x = 0 δ* = 1: the level 1 is worth 1 − 2·0.25² = 0.875 where 1.25 is best.

    >>> mean_reward(np.array([[1.0]]), np.zeros((1, 3)), 1.25).tolist()
    [[0.875]]
    """
    level = e / true_delta(x)[:, None]
    away = level - (best[:, None] if isinstance(best, np.ndarray) else best)
    return np.asarray(1.0 - CURVE * away * away)


def person() -> SimulatedPerson:
    """Return the person in the gate, who sees the signal, P(approve), whether to heed, and jitter.

    Where they heed the signal they set the dearest or the cheapest level, else one of their own.
    """

    def approve(e: Array, rows: Rows) -> Array:
        return np.broadcast_to(_hidden(rows)[:, 1:2], e.shape[:2])

    def own(rows: Rows) -> Array:
        told = _hidden(rows)
        level = np.where(told[:, 2] > 0, np.where(told[:, 0] > 0, HIGH, LOW), OWN)
        return np.asarray((told[:, 3] * level * true_delta(rows.x))[:, None])

    def spread(rows: Rows) -> Array:
        return np.where(_hidden(rows)[:, 2] > 0, 0.0, OWN_SPREAD) * true_delta(rows.x)

    return SimulatedPerson(approve, own, spread=spread)


def _hidden(rows: Rows) -> Array:
    """Return what only gate and world see (N, 4); of a person nobody described: no signal."""
    if rows.hidden is None:
        return np.tile((0.0, APPROVES, 0.0, 1.0), (rows.n, 1))
    return rows.hidden


def instance_of(kind: Kind) -> Instance:
    """Return the instance that is to be started warm: price = δ(x)·level, the person, bounds.

    Approval does not hang on the price, so arms rank alike before the gate and behind it, and
    nothing need be learned of the person to select.
    """
    made: Scaler = ConstantScaler(1.0)
    if kind.scaler == "known":
        made = KnownScaler(theta=THETA)
    elif kind.scaler == "labels":
        made = RidgeScaler(features=COLUMNS[:2], centre=(0.0, 0.0), every=50)
    limits = {"busy": Number(-1.0, 1.0), "trend": Number(-EDGE, EDGE), "staff": Number(-EDGE, EDGE)}
    return Instance(
        name="made",
        title="A market with known truth",
        context=Schema(limits),
        arms=ArmList(values=ARMS),
        scaler=made,
        composition=Multiply(names=("price",)),
        gate=Chain((Approval(person(), NumberKernel(COLUMNS[:2])), Bounds(low=0.02, high=9.0))),
        reward=Payoff(outcome=("success",)) if kind.is_class else Scaled(outcome=("reward",)),
        null=NullAction(mean=0.0),
        rules=Rules(select="nominal"),
    )


def bandit_of(kind: Kind) -> Bandit:
    """Return the learner: independent arms, its prior as near as one may hope for.

    Values of 0.5 ± 0.5 and a noise of about 1, or successes of 0.6 ± 0.2: what is gained by a warm
    start is gained from a cold start that is not crippled.
    """
    if kind.is_class:
        return BetaThompson(wins=3.0, losses=2.0)
    return GaussianThompson(prior_mean=0.5, strength=4.0, shape=5.0, rate=5.0)


def contexts(rng: Stream, n: int) -> Array:
    """Draw contexts: busy ±1, the others uniform with variance 1: (n, 3)."""
    uniform = rng.uniform(n, 3)
    x = EDGE * (2.0 * uniform - 1.0)
    x[:, 0] = np.where(uniform[:, 0] < 0.5, -1.0, 1.0)
    return x


def hidden(rng: Stream, kind: Kind, approves: Array) -> Array:
    """Draw what only the person sees: signal ±1, P(approve), whether they heed it, jitter."""
    uniform = rng.uniform(approves.size, 3)
    signal = np.where(uniform[:, 0] < 0.5, -1.0, 1.0)
    heeds = 1.0 * (uniform[:, 1] < kind.heed)
    return np.stack((signal, approves, heeds, jittered(uniform[:, 2])), axis=1)


def jittered(uniform: Array) -> Array:
    """Return a factor of 1 ± 1 %."""
    return np.asarray(1.0 + JITTER * (2.0 * uniform - 1.0))


def made_log(kind: Kind, n: int, replicate: int = 0, seed: int = 0) -> MadeLog:
    """Make a log of n rows; the same kind, size, number and seed give the same log.

    >>> log = made_log(KINDS["d1"], 1000)
    >>> log.batch.n, log.gate_changed, log.law_changed
    (1000, 600, None)
    """

    def stream(stage: int) -> Stream:
        return Stream((seed, stage), BEFORE + replicate, n)

    instance, best = instance_of(kind), float(best_level(np.array(replicate)))
    rng, row = stream(CONTEXT), np.arange(n)
    x, zero = contexts(rng, n), np.zeros(n, dtype=np.int64)
    gate_changed = round(0.6 * n)
    approves = np.where(row < gate_changed, APPROVES, kind.approves_later)
    rows = Rows(zero, zero, x, hidden=hidden(rng, kind, approves))
    recommended = proposed(stream(DRAW), kind, x)[:, None]
    verdict = instance.chain.apply(instance.chain.draw(stream(GATE), n), recommended, rows)
    rng = stream(OUTCOME)
    law_changed = round((0.5 + 0.2 * float(rng.uniform(1)[0])) * n)
    is_old = row < law_changed
    away = verdict.action[:, 0] / true_delta(x) - (best - kind.moves * is_old)
    mean = 1.0 - CURVE * away * away + kind.signal * _hidden(rows)[:, 0] + kind.falls * is_old
    outcome = kind.sample(rng, mean)
    label = None
    if kind.scaler == "labels":
        label = (np.log(true_delta(x)) + LABEL_NOISE * stream(LABEL).normal(n))[:, None]
    told: dict[str, Any] = {}
    if kind.is_logged:
        told = {
            "recommended": recommended,
            "status": verdict.status,
            "statuses": verdict.statuses,
        }
    batch = Batch(x, verdict.action, outcome, zero, row.astype(float), label=label, **told)
    return MadeLog(
        batch,
        instance,
        bandit_of(kind),
        best,
        gate_changed if kind.approves_later != APPROVES else None,
        law_changed if kind.law_changes else None,
    )


def proposed(rng: Stream, kind: Kind, x: Array) -> Array:
    """Return the incumbent's prices: (N,)."""
    delta = true_delta(x)
    if kind.choice == "context":
        return np.asarray(delta**FOLLOWS * scattered(rng.normal(x.shape[0])))
    tried, uniform = np.array(ARMS)[kind.tried], rng.uniform(x.shape[0], 2)
    picked = tried[(uniform[:, 0] * tried.size).astype(np.int64)]
    return np.asarray(delta * picked * jittered(uniform[:, 1]))


def scattered(normal: Array) -> Array:
    """Return the incumbent's factor on top of the signal, above 0."""
    return np.maximum(1.0 + SCATTER * normal, 0.1)


def with_heed(heed: float, is_logged: bool = False) -> Kind:
    """Return the kind f2 (or f1) with a signal of this strength."""
    return replace(KINDS["f2"], heed=heed, is_logged=is_logged)
