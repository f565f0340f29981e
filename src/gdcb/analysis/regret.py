"""Regret in three parts, exact in a simulation: calibration, bandit, gate; and the gate floor.

With e* the unrestricted optimum and (Kμ)(e) the expected μ behind the gate:

- calibration = μ(e*) − max_a μ(Φ(a, δ̂)): what no arm could have reached, ≥ 0;
- bandit = max_a (Kμ)(Φ(a, δ̂)) − (Kμ)(e_rec): what another arm would have been worth, ≥ 0;
- gate = [max_a μ(Φ(a, δ̂)) − max_a (Kμ)(Φ(a, δ̂))] + [(Kμ)(e_rec) − μ(e_exec)]: signed, a good
  person makes it negative.

They sum to μ(e*) − μ(e_exec). An arm is judged by what it is worth behind the gate.

Where what ran before changes what can be reached now, a world may say what a trajectory of optimal
actions is worth in the same round (`reference`). Then the total is counted from there, and what is
lost before anything is decided, reference − μ(e*), is a fourth part: *inherited*.

The paper's order stands beside it where a true scaler δ* exists (Theorem 3): arm, then scaler,
then gate, each flipped in turn. See `PaperParts`. It sums to the same total, and it can blame both
loops where nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.arrays import Array, all_finite, along, namespace, on_host, put_where, surely_all
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.records import Rows, to_host
from gdcb.simulate import Turn, World


@dataclass(slots=True)
class RegretParts:
    """Regret of every row (N,): total and its parts, computed apart."""

    total: Array
    calibration: Array
    bandit: Array
    gate: Array
    inherited: Array | None = None


@dataclass(slots=True)
class PaperParts:
    """Regret of every row (N,) in the paper's order; a_t is the proposed arm.

    - bandit = max_a μ(Φ(a, δ*)) − μ(Φ(a_t, δ*)): arms compared under the true scaler, no gate, ≥ 0;
    - calibration = [μ(e*) − max_a μ(Φ(a, δ*))] + [μ(Φ(a_t, δ*)) − μ(Φ(a_t, δ̂))]: signed;
    - gate = μ(e_rec) − μ(e_exec): signed.

    The paper takes e* to be Φ(a*, δ*), the best arm under the true scaler. Arms are a grid, and e*
    here is unrestricted, so μ(e*) − max_a μ(Φ(a, δ*)) is left. It is counted for calibration, as
    in the main split: no arm could have had it. So the bandit's part is exactly the paper's, and
    an oracle arm has a bandit part of 0.
    """

    total: Array
    bandit: Array
    calibration: Array
    gate: Array


@dataclass(slots=True)
class Truth:
    """What the optimum of a round is worth, whoever decides.

    Methods that meet the same rows with the same arms and composition may share it.

    Parameters
    ----------
    best : (N,) μ(e*)
    oracle : (N, K) μ(Φ(a, δ*)) of every arm under the true scaler; None: δ* is unknown
    arms : (N,) each, the largest μ of the arms as they are composed, and the largest behind the
        gate; None: not known, since they hang on the method's scaler
    reference : (N,) what a trajectory of optimal actions is worth in this round; None: what ran
        before changes nothing, and it is `best`
    """

    best: Array
    oracle: Array | None = None
    arms: tuple[Array, Array] | None = None
    reference: Array | None = None

    @property
    def top(self) -> Array:
        """What regret is counted from: (N,)."""
        return self.best if self.reference is None else self.reference


@dataclass(slots=True)
class TrueMean:
    """μ as a value function for gates: what does not run is worth what the null action is.

    `actions` (N, M, D) and `known` (N, M) spare a second evaluation of actions whose mean is
    known: a gate asks for many of them again.
    """

    instance: Instance
    world: World
    state: Any
    rows: Rows
    actions: Array | None = None
    known: Array | None = None

    def take(self, index: Array) -> TrueMean:
        """Return μ for some rows."""
        return TrueMean(self.instance, self.world, self.state, self.rows.take(index))

    def __call__(self, e: Array) -> Array:
        """Return μ(e, x) (N, M), the null action in place of NaN."""
        known = self.known
        if known is None or self.actions is None or e.shape != self.actions.shape:
            return self._ask(e)
        if e is self.actions:
            return known
        if not on_host(e):
            return self._ask(e)
        row, arm = np.nonzero((e != self.actions).any(axis=-1))
        if 2 * row.size > known.size:  # to pick them out would cost more than it spares
            return self._ask(e)
        if row.size:
            known = known.copy()
            known[row, arm] = self.take(row)._ask(e[row, arm][:, None])[:, 0]
        return known

    def _ask(self, e: Array) -> Array:
        runs = all_finite(e)
        if not surely_all(runs):
            null = self.instance.null.of(self.rows.x, e.shape[-1])
            e = namespace(e).where(runs[..., None], e, null[:, None])
        mean = self.world.mean(self.state, e, self.rows)
        if mean.shape != e.shape[:2]:
            raise InvalidInput(f"world.mean: expected shape {e.shape[:2]}, got {mean.shape}")
        return mean


def truth_of(
    instance: Instance,
    world: World,
    state: Any,
    rows: Rows,
    true_delta: Array | None = None,
    optimum: Array | None = None,
) -> Truth:
    """Return what is common to all methods that meet these rows.

    `true_delta` (N, 1 or K, q) is δ*(x). Where it is not given, a world that has a method
    ``true_delta(state, rows)`` is asked; other worlds have no δ*, and no split in the paper's
    order. `optimum` (N, D) is what ``world.best`` says, where it was asked before.
    """
    mean = TrueMean(instance, world, state, rows)
    optimum = world.best(state, rows) if optimum is None else optimum
    best = mean(optimum[:, None])[:, 0]
    if true_delta is None and hasattr(world, "true_delta"):
        true_delta = world.true_delta(state, rows)
    ask = getattr(world, "reference", None)
    reference = None if ask is None else ask(state, rows)
    if true_delta is None:
        return Truth(best, reference=reference)
    oracle = mean(instance.composition.compose(instance.space, true_delta, rows.x))
    return Truth(best, oracle, reference=reference)


def regret_splits(
    instance: Instance, world: World, turn: Turn, truth: Truth | None = None
) -> tuple[RegretParts, PaperParts | None]:
    """Split one round's regret both ways; the paper's order is None where δ* is unknown.

    The two share every evaluation of μ. `truth` is `truth_of` these rows, where somebody has it.
    """
    rows, decision = turn.rows, turn.decision
    mean = TrueMean(instance, world, turn.world, rows)
    if truth is None:
        truth = truth_of(instance, world, turn.world, rows)
    arm, actions = decision.arm[:, None], decision.actions
    if truth.arms is not None:  # then the one that was picked is all that is asked about
        actions = decision.action[:, None]
    free, gated = worth_of(instance, mean, actions, rows)
    if truth.arms is None:
        best_free, best_gated = _largest(free, rows), _largest(gated, rows)
        chosen, proposed = along(gated, arm, axis=1)[:, 0], along(free, arm, axis=1)[:, 0]
    else:
        (best_free, best_gated), chosen, proposed = truth.arms, gated[:, 0], free[:, 0]
    best, ran = truth.best, mean(turn.executed.action[:, None])[:, 0]
    total = truth.top - ran
    main = RegretParts(
        total,
        best - best_free,
        best_gated - chosen,
        best_free - best_gated + chosen - ran,
        None if truth.reference is None else truth.reference - best,
    )
    if truth.oracle is None:
        return main, None
    expected = (rows.n, instance.space.n)
    if truth.oracle.shape != expected:
        raise InvalidInput(f"truth.oracle: expected shape {expected}, got {truth.oracle.shape}")
    best_oracle, same = _largest(truth.oracle, rows), along(truth.oracle, arm, axis=1)[:, 0]
    paper = PaperParts(
        total, best_oracle - same, truth.top - best_oracle + same - proposed, proposed - ran
    )
    return main, paper


def worth_of(instance: Instance, mean: TrueMean, e: Array, rows: Rows) -> tuple[Array, Array]:
    """Return μ of actions (N, M, D), and the expected μ behind the gate: (N, M) each."""
    free = mean(e)
    mean.actions, mean.known = e, free
    return free, instance.chain.expect(mean, e, rows)


def arms_of(
    instance: Instance, world: World, state: Any, rows: Rows, delta: Array
) -> tuple[Array, Array]:
    """Return what the best arm under δ (N, 1 or K, q) is worth, and the best behind the gate.

    All methods that compose with this δ share them: `Truth.arms`.
    """
    mean = TrueMean(instance, world, state, rows)
    e = instance.composition.compose(instance.space, delta, rows.x)
    free, gated = worth_of(instance, mean, e, rows)
    return _largest(free, rows), _largest(gated, rows)


def _largest(values: Array, rows: Rows) -> Array:
    """Return the largest value (N,) of the arms that may be proposed."""
    if rows.mask is not None:
        values = put_where(values, ~rows.mask, -np.inf)
    largest: Array = namespace(values).max(values, axis=1)
    return largest


def regret_parts(
    instance: Instance, world: World, turn: Turn, truth: Truth | None = None
) -> RegretParts:
    """Split one round's regret."""
    if truth is None:
        mean = TrueMean(instance, world, turn.world, turn.rows)
        truth = Truth(mean(world.best(turn.world, turn.rows)[:, None])[:, 0])
    return regret_splits(instance, world, turn, truth)[0]


def regret_parts_paper(
    instance: Instance, world: World, turn: Turn, true_delta: Array
) -> PaperParts:
    """Split one round's regret in the paper's order, δ* (N, 1 or K, q) given.

    Examples
    --------
    μ(e) = −(e − 1)², δ* = 1 and δ̂ = 0.8, arms 1 and 1.25. The second arm runs at 1.25·0.8 = 1, the
    optimum, so nothing is lost. Under δ* it would have run at 1.25 and lost 0.0625: for that the
    bandit is blamed, and calibration gets it back.

    >>> from types import SimpleNamespace as Plain
    >>> from gdcb import ArmList, Instance, Multiply, Number, Schema
    >>> arms = ArmList(values=(1.0, 1.25))
    >>> instance = Instance(Schema({"x": Number()}), arms, Multiply(), gate=[])
    >>> one = np.array([[1.0]])
    >>> world = Plain(
    ...     best=lambda state, rows: one, mean=lambda state, e, rows: -((e[..., 0] - 1) ** 2)
    ... )
    >>> rows = Rows(np.zeros(1, int), np.zeros(1, int), one)
    >>> decided = Plain(actions=np.array([[[0.8], [1.0]]]), arm=np.array([1]))
    >>> turn = Plain(world=None, rows=rows, decision=decided, executed=Plain(action=one))
    >>> parts = regret_parts_paper(instance, world, turn, one[:, None])
    >>> parts.total.tolist(), parts.bandit.tolist(), parts.calibration.tolist()
    ([0.0], [0.0625], [-0.0625])
    """
    truth = truth_of(instance, world, turn.world, turn.rows, true_delta)
    _, paper = regret_splits(instance, world, turn, truth)
    if paper is None:
        raise InvalidInput("true_delta: expected δ* of every row, got None")
    return paper


def gate_floor(instance: Instance, world: World, turn: Turn) -> Array:
    """Return what even the best proposal would lose behind the same gate: (N,).

    Proposals are the world's candidates and the optimum e*; it never uses a method's own δ.
    """
    return floor_of(instance, world, turn.world, turn.rows)


def floor_of(
    instance: Instance, world: World, state: Any, rows: Rows, optimum: Array | None = None
) -> Array:
    """Return the gate floor of rows of a world in this state: (N,). `optimum` as in `truth_of`."""
    mean = TrueMean(instance, world, state, rows)
    best = (world.best(state, rows) if optimum is None else optimum)[:, None]
    candidates = world.candidates(state, rows)
    xp = namespace(best)
    gated = instance.chain.expect(mean, xp.concat((candidates, best), axis=1), rows)
    floor: Array = mean(best)[:, 0] - xp.max(gated, axis=1)
    return floor


class Ledger:
    """Watches a simulation and keeps its regret, round by replicate, averaged over units.

    It keeps it in NumPy's arrays; a device is waited for in every round.

    Attributes
    ----------
    parts : (rounds, replicates, 4): total, calibration, bandit, gate; where the world has a
        `reference`, what was inherited is a fifth
    reward : (rounds, replicates)
    overridden : (rounds, replicates) share of rows in which e_exec ≠ e_rec, vetoes included
    vetoed : (rounds, replicates) share of rows in which the null action ran
    parts_paper : (rounds, replicates, 3): bandit, calibration, gate in the paper's order, where
        asked for; NaN where the world has no δ*
    floor : (rounds, replicates) the gate floor, where asked for
    """

    def __init__(
        self,
        instance: Instance,
        world: World,
        rounds: int,
        replicates: int,
        with_floor: bool = False,
        with_paper: bool = False,
        truth: Callable[[Turn], Truth] | None = None,
    ) -> None:
        self._instance, self._world, self._truth = instance, world, truth
        self.floor = np.zeros((rounds, replicates)) if with_floor else None
        self.parts = np.zeros((rounds, replicates, 4))
        self.parts_paper = np.full((rounds, replicates, 3), np.nan) if with_paper else None
        self.reward = np.zeros((rounds, replicates))
        self.overridden = np.zeros((rounds, replicates))
        self.vetoed = np.zeros((rounds, replicates))

    def __call__(self, turn: Turn) -> None:
        """Write one round down."""
        rounds, replicates = self.parts.shape[:2]
        found = int(turn.rows.group.max()) + 1
        if turn.t >= rounds or found != replicates:
            raise InvalidInput(
                f"ledger: made for {rounds} rounds of {replicates} replicates, got round {turn.t} "
                f"of {found}"
            )
        truth = None if self._truth is None else self._truth(turn)
        paper = None
        if self.parts_paper is None:
            parts = regret_parts(self._instance, self._world, turn, truth)
        else:
            parts, paper = regret_splits(self._instance, self._world, turn, truth)
        columns = [parts.total, parts.calibration, parts.bandit, parts.gate]
        if parts.inherited is not None:
            columns.append(parts.inherited)
            if self.parts.shape[2] < len(columns):  # the first round shows whether there is one
                self.parts = np.zeros((rounds, replicates, len(columns)))

        def by_replicate(column: Array) -> Array:
            return np.asarray(to_host(column).reshape(replicates, -1).mean(axis=1))

        self.parts[turn.t] = np.stack([by_replicate(column) for column in columns], axis=1)
        if self.parts_paper is not None and paper is not None:
            for i, column in enumerate((paper.bandit, paper.calibration, paper.gate)):
                self.parts_paper[turn.t, :, i] = by_replicate(column)
        self.reward[turn.t] = by_replicate(turn.reward)
        self.overridden[turn.t] = by_replicate(~turn.executed.is_own)
        self.vetoed[turn.t] = by_replicate(turn.executed.is_null)
        if self.floor is not None:
            self.floor[turn.t] = by_replicate(gate_floor(self._instance, self._world, turn))
