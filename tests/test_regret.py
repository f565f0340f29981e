"""Regret and its three parts: hand arithmetic, the The examples, the gate floor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from gdcb import (
    Approval,
    ArmList,
    Bounds,
    Cap,
    Chain,
    ConstantScaler,
    HierarchicalThompson,
    Instance,
    Multiply,
    NullAction,
    SimulatedPerson,
)
from gdcb import round as turn
from gdcb.analysis import (
    Ledger,
    RegretParts,
    TrueMean,
    Truth,
    gate_floor,
    regret_parts,
    regret_parts_paper,
    regret_splits,
    truth_of,
)
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instances import load
from gdcb.records import Rows
from gdcb.simulate import Turn, World, simulate
from tests.builders import FixedDraw, Tracked, rows_of, stream, tracking

WORLD = Tracked()


def turned(instance: Instance, arm: Any, x: Any, world: World = WORLD, seed: int = 0) -> Turn:
    """Return a round in which `arm` was proposed in every row with context x."""
    rows = rows_of(x)
    chosen = np.broadcast_to(np.asarray(arm), (rows.n,))
    bandit = FixedDraw(np.ones((rows.n, instance.space.n)))
    state = turn.init(instance, bandit, np.zeros(rows.n, dtype=np.int64))
    decision = turn.decide(stream(seed), instance, bandit, state, rows)
    decision.arm = chosen
    decision.action = decision.actions[np.arange(rows.n), chosen]
    verdict = turn.gate(stream(seed, 1), instance, decision, rows)
    executed = turn.execute(instance, verdict, rows)
    nature = world.start(stream(seed, 2), rows.group)
    none = np.zeros((rows.n, 1))
    return Turn(0, nature, rows, decision, verdict, executed, none, none[:, 0])


def split(instance: Instance, arm: Any, x: Any, seed: int = 0) -> RegretParts:
    parts = regret_parts(instance, WORLD, turned(instance, arm, x, seed=seed))
    rest = parts.total - (parts.calibration + parts.bandit + parts.gate)
    assert np.abs(rest).max() < 1e-9
    assert parts.calibration.min() >= -1e-9
    assert parts.bandit.min() >= -1e-9
    return parts


def numbers(parts: RegretParts) -> list[float]:
    columns = (parts.total, parts.calibration, parts.bandit, parts.gate)
    return [round(float(column[0]), 9) for column in columns]


# By hand


def test_by_hand_with_an_open_gate() -> None:
    """μ(e) = 1 − (e − 3)², arms 1 and 2: μ = −3 and 0, the optimum 3 is worth 1.

    Proposing arm 0: total 1 − (−3) = 4; no arm reaches more than 0, calibration 1; the other
    arm was worth 3 more, bandit 3; gate 0.
    """
    instance = tracking(arms=ArmList(values=(1.0, 2.0)))
    assert numbers(split(instance, 0, [[3.0]])) == [4.0, 1.0, 3.0, 0.0]
    assert numbers(split(instance, 1, [[3.0]])) == [1.0, 1.0, 0.0, 0.0]


def test_by_hand_with_a_gate_that_modifies() -> None:
    """Arms 1, 2, 4 behind a cap of 2.5, x = 3: μ = −3, 0, 0 free and −3, 0, 0.75 gated.

    Arm 1 proposed: total 1, calibration 1 − 0, bandit 0.75 − 0, gate (0 − 0.75) + (0 − 0).
    Arm 2 proposed runs at 2.5: total 0.25, calibration 1, bandit 0, gate −0.75: the cap helps.
    """
    instance = tracking(gate=Cap(limit=2.5))
    assert numbers(split(instance, 1, [[3.0]])) == [1.0, 1.0, 0.75, -0.75]
    assert numbers(split(instance, 2, [[3.0]])) == [0.25, 1.0, 0.0, -0.75]


def test_by_hand_with_a_cap_that_hurts() -> None:
    """x = 4 behind a cap of 2.5: arm 4 is the optimum itself but runs at 2.5, μ = −1.25.

    Total 2.25 with arm 2, all of it the gate's: calibration 0, bandit 0.
    """
    instance = tracking(gate=Cap(limit=2.5))
    assert numbers(split(instance, 2, [[4.0]])) == [2.25, 0.0, 0.0, 2.25]


def test_by_hand_with_a_veto() -> None:
    """What is vetoed is worth the null action: here nothing runs, μ = −9.

    Arms above 3 are vetoed, x = 4: free μ = −8, −3, 1; gated −8, −3, −9. Arm 2 proposed: total
    1 + 9 = 10, calibration 0, bandit −3 + 9 = 6, gate (1 + 3) + (−9 + 9) = 4.
    """
    instance = tracking(gate=Bounds(high=3.0, outside="veto"))
    assert numbers(split(instance, 2, [[4.0]])) == [10.0, 0.0, 6.0, 4.0]


def test_by_hand_with_a_mask() -> None:
    """An arm that may not be proposed is calibration's loss, never the bandit's."""
    instance = tracking()
    rows = turned(instance, 1, [[4.0]])
    rows.rows.mask = np.array([[True, True, False]])
    parts = regret_parts(instance, WORLD, rows)
    assert numbers(parts) == [4.0, 4.0, 0.0, 0.0]


# What the says of the split


@pytest.mark.parametrize("gate", [Chain(), Cap(limit=99.0)], ids=["open", "cap"])
def test_arms_that_adapted_to_a_wrong_scaler_lose_nothing(gate: Any) -> None:
    """δ̂ = 0.8 δ* with the arm 1.25: 0.8 · 1.25 = 1, so e = x. Total 0 and every part 0."""
    instance = tracking(
        arms=ArmList(values=(1.0, 1.25)),
        composition=Multiply(base=("x",)),
        scaler=ConstantScaler(0.8),
        gate=gate,
    )
    parts = split(instance, 1, [[4.0], [2.5], [0.3]])
    for column in (parts.total, parts.calibration, parts.bandit, parts.gate):
        assert np.abs(column).max() < 1e-12


def test_a_perfect_selector_behind_a_cap_is_not_blamed() -> None:
    """Whatever the context, the arm that is best behind the gate has a bandit part of 0."""
    x = np.linspace(0.0, 5.0, 41)[:, None]
    instance = tracking(gate=Cap(limit=2.5))
    actions = np.minimum(np.array([1.0, 2.0, 4.0]), 2.5)
    best = (1.0 - (actions - x) ** 2).argmax(axis=1)
    parts = split(instance, best, x)
    assert np.abs(parts.bandit).max() < 1e-12
    assert parts.total.max() > 1.0


def never(e: Array, rows: Rows) -> Array:
    return np.zeros(e.shape[:2])


def half(e: Array, rows: Rows) -> Array:
    return np.full(e.shape[:2], 0.5)


def truth(rows: Rows) -> Array:
    return rows.x[:, :1].copy()


def test_a_good_person_makes_the_gates_part_negative() -> None:
    """A person who knows the optimum and approves nothing undoes all loss: total 0.

    x = 3: calibration 1 − 0 = 1; behind this person all arms are worth 1, so bandit 0 and
    gate −1.
    """
    person = Approval(SimulatedPerson(never, truth))
    instance = tracking(gate=Chain((person,), closed=False))
    for arm in range(3):
        assert numbers(split(instance, arm, [[3.0]])) == [0.0, 1.0, 0.0, -1.0]


def test_luck_at_the_gate_is_the_gates() -> None:
    """A person approves half the time: bandit judges the expectation, gate takes the rest.

    Arms 1 and 2, x = 3, own action 3: gated (−3 + 1)/2 = −1 and (0 + 1)/2 = ½. Arm 0 proposed:
    bandit 1.5 in every round; gate (0 − ½) + (−1 − ran) = 1.5 where it ran at −3, and −2.5
    where the person put in 3. Both sum to the totals 4 and 0.
    """
    person = Approval(SimulatedPerson(half, truth))
    instance = tracking(arms=ArmList(values=(1.0, 2.0)), gate=Chain((person,), closed=False))
    seen = {tuple(numbers(split(instance, 0, [[3.0]], seed))) for seed in range(20)}
    assert seen == {(4.0, 1.0, 1.5, 1.5), (0.0, 1.0, 1.5, -2.5)}


# The paper's order


def deltas(value: float, n: int = 1) -> Array:
    return np.full((n, 1, 1), value)


def test_the_papers_order_by_hand_behind_a_cap() -> None:
    """μ(e) = 1 − (e − 3)², arms 1, 2, 4 behind a cap of 2.5, δ̂ = 1, δ* = 1.25.

    Under δ* arms run at 1.25, 2.5, 5: μ = −2.0625, 0.75, −3. Arm 2 proposed: e_rec = 4 worth 0,
    runs at 2.5 worth 0.75. Bandit 0.75 − (−3) = 3.75; calibration what the grid leaves, 0.25,
    and −3 − 0: −2.75; gate 0 − 0.75. Total 1 − 0.75 = 0.25.
    """
    instance = tracking(gate=Cap(limit=2.5))
    paper = regret_parts_paper(instance, WORLD, turned(instance, 2, [[3.0]]), deltas(1.25))
    found = [float(part[0]) for part in (paper.total, paper.bandit, paper.calibration, paper.gate)]
    assert found == [0.25, 3.75, -2.75, -0.75]


def test_the_orders_disagree_where_arms_adapted() -> None:
    """Total 0 and the main split 0 each, yet the paper's order blames both loops."""
    instance = tracking(
        arms=ArmList(values=(1.0, 1.25)),
        composition=Multiply(base=("x",)),
        scaler=ConstantScaler(0.8),
    )
    played = turned(instance, 1, [[4.0], [2.0]])
    truth = truth_of(instance, WORLD, played.world, played.rows, deltas(1.0, 2))
    main, paper = regret_splits(instance, WORLD, played, truth)
    assert paper is not None
    for part in (main.total, main.calibration, main.bandit, main.gate, paper.total, paper.gate):
        assert np.abs(part).max() < 1e-12
    # The arm 1.25 under δ* = 1 misses x by a quarter of it: 1 and 0.25 squared.
    np.testing.assert_allclose(paper.bandit, [1.0, 0.25])
    np.testing.assert_allclose(paper.calibration, [-1.0, -0.25])


def test_a_mask_bounds_the_oracle_too() -> None:
    """Arm 4 may not be proposed at x = 4: the best allowed is arm 2; the bandit did right."""
    instance = tracking()
    played = turned(instance, 1, [[4.0]])
    played.rows.mask = np.array([[True, True, False]])
    paper = regret_parts_paper(instance, WORLD, played, deltas(1.0))
    assert paper.bandit.tolist() == [0.0]
    assert paper.calibration.tolist() == [4.0]


def test_without_a_true_scaler_there_is_no_order_of_the_papers() -> None:
    instance = tracking()
    assert regret_splits(instance, WORLD, turned(instance, 0, [[1.0]]))[1] is None


def test_a_truth_of_other_arms_is_refused() -> None:
    instance = tracking()
    odd = Truth(np.ones(1), np.ones((1, 2)))
    with pytest.raises(InvalidInput, match=r"truth\.oracle: expected shape \(1, 3\), got \(1, 2\)"):
        regret_splits(instance, WORLD, turned(instance, 0, [[1.0]]), odd)


@dataclass(frozen=True)
class Known(Tracked):
    """`Tracked` whose true scaler is x itself."""

    def true_delta(self, state: Any, rows: Rows) -> Array:
        return rows.x[:, :1, None]


@pytest.mark.parametrize(
    "gate",
    [
        Chain(),
        Cap(limit=2.5),
        Bounds(low=1.5, high=3.0, outside="veto"),
        Chain((Approval(SimulatedPerson(half, truth, spread=0.3)), Bounds(high=4.0))),
    ],
    ids=["open", "cap", "veto", "person"],
)
def test_both_orders_sum_to_the_total_and_known_means_change_nothing(gate: Any) -> None:
    """In every row, for every gate; and what is not asked twice is the same to the last bit."""
    world, instance = Known(), tracking(gate=gate)
    x = 5.0 * np.random.default_rng(3).uniform(size=(200, 1))
    played = turned(instance, np.arange(200) % 3, x, world=world)
    main, paper = regret_splits(instance, world, played)
    assert paper is not None
    assert np.abs(paper.bandit + paper.calibration + paper.gate - paper.total).max() < 1e-9
    assert np.abs(main.bandit + main.calibration + main.gate - main.total).max() < 1e-9
    assert paper.bandit.min() >= 0.0
    plain = TrueMean(instance, world, played.world, played.rows)
    gated = instance.chain.expect(plain, played.decision.actions, played.rows)
    chosen = gated[np.arange(200), played.decision.arm]
    assert np.array_equal(main.bandit, gated.max(axis=1) - chosen)


# The gate floor


def test_the_floor_by_hand() -> None:
    """Behind a cap of 2.5 with x = 4 no proposal does better than 2.5: 1 − (−1.25) = 2.25."""
    instance = tracking(gate=Cap(limit=2.5))
    floor = gate_floor(instance, WORLD, turned(instance, 0, [[4.0]]))
    assert floor.tolist() == [2.25]
    open_gate = tracking()
    floor = gate_floor(open_gate, WORLD, turned(open_gate, 0, [[4.0]]))
    assert floor.tolist() == [0.0]


def test_the_floor_bounds_every_arm_behind_a_hard_gate() -> None:
    """For hard gates, floor ≥ 0, and no proposal of any arm has a regret below it."""
    x = np.linspace(0.0, 5.0, 26)[:, None]
    for gate in (Cap(limit=2.5), Bounds(low=1.5, high=3.0), Bounds(high=3.0, outside="veto")):
        instance = tracking(gate=gate)
        for arm in range(3):
            played = turned(instance, arm, x)
            floor = gate_floor(instance, WORLD, played)
            total = regret_parts(instance, WORLD, played).total
            assert floor.min() >= 0.0
            assert (total >= floor - 1e-9).all()


def test_the_floor_bounds_the_expected_regret_behind_a_person() -> None:
    """With a random person the floor bounds the mean over their answers, not each answer.

    Own action 3 whatever x, approved half the time: the mean regret over 2,000 answers lies
    above the floor less 4.5 standard errors, a false alarm of 3e-6 for each of the three arms.
    With x = 1.6 the best proposal is x itself: half of (3 − 1.6)² is lost.
    """

    def three(rows: Rows) -> Array:
        return np.full((rows.n, 1), 3.0)

    instance = tracking(
        gate=Chain((Approval(SimulatedPerson(half, three)), Bounds(high=5.0))),
    )
    x = np.full((2000, 1), 1.6)
    for arm in range(3):
        played = turned(instance, arm, x, seed=4)
        floor = gate_floor(instance, WORLD, played)
        assert floor == pytest.approx(np.full(2000, 0.5 * 1.4**2))
        total = regret_parts(instance, WORLD, played).total
        error = total.std(ddof=1) / 2000**0.5
        assert total.mean() >= floor[0] - 4.5 * error


@dataclass(frozen=True)
class Offered:
    """A world whose candidates are the world's own and one more action a row."""

    world: Any
    action: Array

    def mean(self, state: Any, e: Array, rows: Rows) -> Array:
        return np.asarray(self.world.mean(state, e, rows))

    def best(self, state: Any, rows: Rows) -> Array:
        return np.asarray(self.world.best(state, rows))

    def candidates(self, state: Any, rows: Rows) -> Array:
        return np.concatenate((self.world.candidates(state, rows), self.action[:, None]), axis=1)


@pytest.mark.parametrize("name", ["str", "credit", "dosing", "grid", "moderation", "tools"])
def test_no_method_beats_the_floor_of_a_domain(name: str) -> None:
    """Expected regret of what a learner proposes is at least the floor, in every round.

    The expectation over the gate is exact (`expect`), and the learner's own proposal is among
    the candidates, as the floor's definition over all proposals has it. Behind hard gates the
    realised regret is the expected one, and the floor is not negative.
    """
    domain = load(name)
    chain = domain.instance.chain

    def watch(played: Turn) -> None:
        if played.t % 5:
            return
        world: Any = Offered(domain.world, played.decision.action)
        floor = gate_floor(domain.instance, world, played)
        parts = regret_parts(domain.instance, domain.world, played)
        if not chain.has_person:
            assert floor.min() >= -1e-9
            assert (parts.total >= floor - 1e-9).all()
        mean = TrueMean(domain.instance, domain.world, played.world, played.rows)
        gated = chain.expect(mean, played.decision.action[:, None], played.rows)[:, 0]
        best = mean(world.best(played.world, played.rows)[:, None])[:, 0]
        assert (best - gated >= floor - 1e-9).all()

    simulate(
        domain.instance,
        domain.bandit,
        domain.world,
        rounds=21,
        replicates=4,
        units=domain.units,
        seed=6,
        watch=watch,
    )


# The ledger


def test_the_ledger_averages_units_within_replicates() -> None:
    """Its parts are the means over each replicate's units, its shares those of the rows."""
    gate, null = Bounds(low=1.5, high=3.0, outside="veto"), NullAction(mean=-2.0)
    instance = tracking(gate=gate, null=null)
    ledger = Ledger(instance, WORLD, 12, 3, with_floor=True)
    kept: list[tuple[Array, Array, Array, Array]] = []

    def watch(played: Turn) -> None:
        ledger(played)
        parts = regret_parts(instance, WORLD, played)
        columns = np.stack((parts.total, parts.calibration, parts.bandit, parts.gate), axis=1)
        floor = gate_floor(instance, WORLD, played)
        kept.append((columns, played.executed.is_null, played.reward, floor))

    bandit = HierarchicalThompson(prior_mean=-2.0)
    simulate(instance, bandit, WORLD, rounds=12, replicates=3, units=2, seed=1, watch=watch)
    assert ledger.floor is not None
    for t, (columns, vetoed, reward, floor) in enumerate(kept):
        assert ledger.floor[t] == pytest.approx(floor.reshape(3, 2).mean(axis=1))
        assert ledger.parts[t] == pytest.approx(columns.reshape(3, 2, 4).mean(axis=1))
        assert ledger.vetoed[t].tolist() == vetoed.reshape(3, 2).mean(axis=1).tolist()
        assert ledger.reward[t] == pytest.approx(reward.reshape(3, 2).mean(axis=1))
        assert (ledger.overridden[t] >= ledger.vetoed[t]).all()
    assert ledger.vetoed.any()


def test_the_ledger_keeps_the_papers_order_and_takes_a_truth() -> None:
    """Where asked; a world without δ* leaves NaN, a given truth is used as it is."""
    instance, world = tracking(gate=Cap(limit=2.5)), Known()
    asked: list[int] = []

    def given(played: Turn) -> Truth:
        asked.append(played.t)
        return truth_of(instance, world, played.world, played.rows)

    ledger = Ledger(instance, world, 4, 3, with_paper=True, truth=given)
    same = Ledger(instance, world, 4, 3, with_paper=True)
    without = Ledger(instance, WORLD, 4, 3, with_paper=True)

    def watch(played: Turn) -> None:
        for one in (ledger, same, without):
            one(played)

    bandit = HierarchicalThompson(prior_mean=-2.0)
    simulate(instance, bandit, world, rounds=4, replicates=3, seed=1, watch=watch)
    assert asked == [0, 1, 2, 3]
    assert ledger.parts_paper is not None
    assert same.parts_paper is not None
    assert without.parts_paper is not None
    np.testing.assert_allclose(ledger.parts_paper.sum(axis=2), ledger.parts[..., 0], atol=1e-9)
    assert np.array_equal(ledger.parts_paper, same.parts_paper)
    assert np.array_equal(ledger.parts, without.parts)
    assert np.isnan(without.parts_paper).all()
    assert Ledger(instance, world, 4, 3).parts_paper is None
