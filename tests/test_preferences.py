"""The operator is asked: the same world, another outcome, and a learner of their taste."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gdcb.analysis.regret import Ledger, regret_parts
from gdcb.arms import ArmList, Grid
from gdcb.arrays import Array
from gdcb.bandits import BradleyTerryThompson
from gdcb.composition import Add, Identity, Multiply
from gdcb.context import Number, Schema
from gdcb.errors import InvalidInput
from gdcb.gates import Approval, Bounds, Chain, NumberKernel, SimulatedPerson
from gdcb.instance import Instance, NullAction
from gdcb.instances import load
from gdcb.protocol.families import asker
from gdcb.protocol.ground import neutral_of
from gdcb.protocol.preferences import Preferences, taste_of, with_rival, without_rival
from gdcb.records import Rows
from gdcb.rewards import Payoff
from gdcb.scalers import ConstantScaler
from gdcb.simulate import Turn, simulate
from gdcb.streams import CONTEXT, OUTCOME, WORLD, Streams
from tests.parts.builders import rng_of, stream

DOMAIN = load("str")
PLAIN = replace(DOMAIN.instance, scaler=ConstantScaler())


def own_price(rows: Rows) -> Array:
    """Return the own price of the person in the gate."""
    person: Any = PLAIN.chain.gates[0]
    price: Array = person.person.own(rows)
    return price


def relative(e: Array, rows: Rows) -> Array:
    """Return prices (N, 1) in shares of the base: (N,)."""
    return PLAIN.composition.relative(e, rows.x)[:, 0]


WORLD_ASKED = Preferences(DOMAIN.world, PLAIN, own_price)
BANDIT = BradleyTerryThompson(features=("occupancy", "lead", "gap"), prior_sd=3.0)


def test_the_column_and_the_outcome_are_added_and_nothing_else_moves() -> None:
    asked = with_rival(PLAIN)
    assert list(asked.context.columns) == [*PLAIN.context.columns, "rival"]
    assert asked.reward.outcome == ("preferred", "booked")
    assert asked.reward.target == "class"
    assert [gate.name for gate in asked.chain.gates] == [gate.name for gate in PLAIN.chain.gates]
    assert asked.composition == PLAIN.composition
    coords = PLAIN.space.coords
    rival = asked.context.columns["rival"]
    assert isinstance(rival, Number)
    assert (rival.low, rival.high) == (coords.min(), coords.max())
    assert "rival" not in PLAIN.context.columns


def test_nights_and_bookings_are_the_plain_world_s_to_the_bit() -> None:
    """Contexts, and the outcome of the same prices, from the same streams."""
    group = np.repeat(np.arange(60), 4)
    world: Any = DOMAIN.world
    one, two = Streams(5, rows_per_replicate=4), Streams(5, rows_per_replicate=4)
    state = world.start(one.at(WORLD, 0), group)
    other = WORLD_ASKED.start(two.at(WORLD, 0), group)
    for t in range(3):
        rows = world.context(one.at(CONTEXT, t), state, t, group)
        asked = WORLD_ASKED.context(two.at(CONTEXT, t), other, t, group)
        assert asked.x[:, :-1].tobytes() == rows.x.tobytes()
        assert np.isin(asked.x[:, -1], PLAIN.space.coords).all()
        e = 1.1 * own_price(rows)
        booked = world.sample(one.at(OUTCOME, t), state, e, rows)
        both = WORLD_ASKED.sample(two.at(OUTCOME, t), other, e, asked)
        assert both.shape == (240, 2)
        assert both[:, 1:].tobytes() == booked.tobytes()
        assert np.isin(both[:, 0], (0.0, 1.0)).all()
        for name in ("best", "candidates"):
            mine, theirs = getattr(WORLD_ASKED, name), getattr(world, name)
            assert mine(other, asked).tobytes() == theirs(state, rows).tobytes()
        mean = WORLD_ASKED.mean(other, e[:, None], asked)
        assert mean.tobytes() == world.mean(state, e[:, None], rows).tobytes()


def test_labels_and_memory_are_the_plain_world_s() -> None:
    """They see rows without the rival and outcomes without the preference."""
    seen: dict[str, Any] = {}

    def label(rng: Any, state: Any, e: Array, rows: Rows) -> Array:
        seen["label"] = rows.x
        return 2.0 * e

    def advance(rng: Any, state: Any, e: Array, outcome: Array, rows: Rows) -> str:
        seen["advance"], seen["outcome"] = rows.x, outcome
        return "next"

    plain: Any = SimpleNamespace(label=label, advance=advance)
    world, x = Preferences(plain, PLAIN, own_price), np.ones((2, PLAIN.context.width + 1))
    rows, e = Rows(np.arange(2), np.zeros(2, int), x, hidden=np.ones((2, 1))), np.ones((2, 1))
    assert world.label(stream(1), None, e, rows) == pytest.approx(2.0 * e)
    outcome = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert world.advance(stream(1), None, e, outcome, rows) == "next"
    assert seen["outcome"].tolist() == [[0.0], [1.0]]
    assert seen["label"].shape == seen["advance"].shape == (2, PLAIN.context.width)


def test_every_arm_is_a_rival_as_often() -> None:
    """40,000 draws of 5 arms: each within 4.5 standard errors, a false alarm of 4e-5 in all."""
    instance = Instance(
        Schema({"base": Number()}),
        ArmList(values=(0.5, 1, 2, 3, 5)),
        Multiply(),
        [],
        reward=Payoff(),
    )
    world, n = Preferences(DOMAIN.world, instance, own_price), 40_000
    drawn = world.rivals(stream(1), n)[:, 0]
    share = np.array([(drawn == value).mean() for value in (0.5, 1, 2, 3, 5)])
    assert share.sum() == 1.0
    assert (np.abs(share - 0.2) < 4.5 * np.sqrt(0.2 * 0.8 / n)).all()


def test_answers_follow_bradley_and_terry() -> None:
    """σ(u(e) − u(e′)) written out, in prices and in sums; and the share of yes, 4.5 errors."""
    n, rng = 40_000, rng_of(2)
    x = np.column_stack((np.full(n, 200.0), rng.choice([0.8, 1.0, 1.25], n)))
    rows, e = Rows(np.zeros(n, int), np.zeros(n, int), x), rng.uniform(150, 260, (n, 1))
    schema, arms = Schema({"base": Number()}), ArmList(values=(0.8, 1.0, 1.25))
    product = Instance(schema, arms, Multiply(base=("base",)), [], reward=Payoff())
    world = Preferences(DOMAIN.world, product, lambda rows: 1.05 * rows.x[:, :1], noise=0.2)
    u, v = (-0.5 * ((value - 1.05) / 0.2) ** 2 for value in (e[:, 0] / 200, x[:, 1]))
    chance = 1 / (1 + np.exp(v - u))
    assert world.chance(e, rows) == pytest.approx(chance, rel=1e-12)
    gap = world.ask(stream(3), e, rows).mean() - chance.mean()
    assert abs(gap) < 4.5 * np.sqrt((chance * (1 - chance)).mean() / n)

    total = Instance(schema, arms, Add(), [], scaler=ConstantScaler(0.0), reward=Payoff())
    world = Preferences(DOMAIN.world, total, lambda rows: np.full((rows.n, 1), 0.9), noise=0.2)
    u, v = (-0.5 * ((value - 0.9) / 0.2) ** 2 for value in (e[:, 0] / 200, x[:, 1]))
    assert world.chance(e / 200, rows) == pytest.approx(1 / (1 + np.exp(v - u)), rel=1e-12)


def test_what_did_not_run_is_not_preferred() -> None:
    """Every answer is 0, nobody learns from it, and the plain null reward is what is realised."""
    closed = Chain(
        (
            Approval(
                SimulatedPerson(lambda e, rows: np.zeros(e.shape[:2]), own_price, veto=1.0),
                NumberKernel(base=("base", "market")),
            ),
            Bounds(low=40.0, high=420.0),
        )
    )
    plain = replace(PLAIN, gate=closed, null=NullAction(mean=7.0))
    turns: list[Turn] = []
    world = Preferences(DOMAIN.world, plain, own_price)
    ran = simulate(
        with_rival(plain),
        BANDIT,
        world,
        rounds=2,
        replicates=3,
        watch=without_rival(plain, turns.append),
    )
    assert all(turn.executed.is_null.all() for turn in turns)
    assert all((turn.reward == 7.0).all() for turn in turns)
    assert not ran.state.bandit.weights.mean.any()
    assert not ran.state.null.excess.any()


def test_regret_and_reward_are_the_plain_world_s() -> None:
    """Seen through `without_rival`, or by the asked instance itself: the same bytes; r is paid."""
    asked, rounds, replicates = with_rival(PLAIN), 12, 5
    ledger = Ledger(PLAIN, DOMAIN.world, rounds, replicates, with_floor=True)
    seen: list[Turn] = []
    totals: list[bytes] = []

    def keep(turn: Turn) -> None:
        ledger(turn)
        seen.append(turn)

    show = without_rival(PLAIN, keep)

    def watch(turn: Turn) -> None:
        show(turn)
        totals.append(regret_parts(asked, WORLD_ASKED, turn).total.tobytes())
        assert turn.outcome.shape == (replicates * 4, 2)

    simulate(asked, BANDIT, WORLD_ASKED, rounds=rounds, replicates=replicates, units=4, watch=watch)
    for turn, total in zip(seen, totals, strict=True):
        assert turn.rows.x.shape[1] == PLAIN.context.width
        assert turn.outcome.shape == (replicates * 4, 1)
        assert regret_parts(PLAIN, DOMAIN.world, turn).total.tobytes() == total
        price = turn.executed.action[:, 0]
        assert turn.reward == pytest.approx(turn.outcome[:, 0] * price)
    assert ledger.floor is not None
    assert (ledger.floor > -1e-9).all()
    assert ledger.parts[..., 0] == pytest.approx(ledger.parts[..., 1:].sum(axis=2), abs=1e-9)


def test_it_learns_the_operator_s_price_and_not_the_one_that_earns_most() -> None:
    """After 150 nights proposals lie at the manager's price, which is above the best one.

    20 listings in their last 30 nights, in shares of the base price, at a fixed seed. The manager
    asks for a tenth more than the optimum, and more.
    """
    gaps: list[tuple[Array, Array]] = []

    def watch(turn: Turn) -> None:
        if turn.t >= 120:
            mine = relative(turn.decision.action, turn.rows)
            best = relative(DOMAIN.world.best(turn.world, turn.rows), turn.rows)
            gaps.append((mine - relative(own_price(turn.rows), turn.rows), mine - best))

    simulate(
        with_rival(PLAIN),
        BANDIT,
        WORLD_ASKED,
        rounds=150,
        replicates=20,
        seed=3,
        watch=without_rival(PLAIN, watch),
    )
    to_own, to_best = (np.array(side) for side in zip(*gaps, strict=True))
    assert abs(to_own.mean()) < 0.04
    assert to_best.mean() > 0.06
    assert np.mean(np.abs(to_own.mean(axis=0)) < np.abs(to_best.mean(axis=0))) > 0.8


def build(**settings: Any) -> Instance:
    parts: dict[str, Any] = {
        "context": Schema({"base": Number(1, 1000)}),
        "arms": ArmList(values=(0.8, 1.0, 1.25)),
        "composition": Multiply(base=("base",)),
        "gate": [],
        "reward": Payoff(action=0),
    }
    return Instance(**(parts | settings))


@pytest.mark.parametrize(
    ("instance", "message"),
    [
        (DOMAIN.instance, r"instance 'str': .* take ConstantScaler\(1\)"),
        (build(scaler=ConstantScaler(1.2)), r"take ConstantScaler\(1\)"),
        (build(composition=Add(), scaler=ConstantScaler(1.0)), r"take ConstantScaler\(0\)"),
        (with_rival(build()), "it has a rival already"),
        (load("kalman").instance, "take ConstantScaler"),
    ],
)
def test_where_there_can_be_no_rival_it_is_refused(instance: Instance, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        with_rival(instance)
    with pytest.raises(InvalidInput, match=message):
        Preferences(DOMAIN.world, instance, own_price)


@pytest.mark.parametrize("noise", [0.0, -1.0, np.nan, np.inf, "0.1"])
def test_bad_noise_is_refused(noise: Any) -> None:
    with pytest.raises(InvalidInput, match=r"preferences\.noise: expected a"):
        Preferences(DOMAIN.world, PLAIN, own_price, noise=noise)


# Several coordinates, and categories


OFFERS = Instance(
    Schema({"base": Number(1, 1000)}),
    Grid({"rate": (0.8, 1.0, 1.2), "tenor": (12.0, 24.0, 36.0)}, combine="none"),
    Multiply(base=("base",), names=("rate", "tenor")),
    gate=[],
    reward=Payoff(action=0),
)
CHOICES = Instance(
    Schema({"busy": Number(-5, 5)}),
    ArmList(names=("allow", "warn", "remove")),
    Identity(),
    gate=[],
    reward=Payoff(),
)


def test_every_coordinate_has_a_rival_and_a_distance() -> None:
    """Own offer 100 at 24 months, noise 0.1 and 6 months; 110 for 36 months beside 80 for 24.

    The first is 1 and 2 steps off, u = −½·(1 + 4); the rival 2 steps: −½·4. σ(−½).
    """
    asked = with_rival(OFFERS)
    assert list(asked.context.columns) == ["base", "rival_1", "rival_2"]
    rival = asked.context.columns["rival_2"]
    assert isinstance(rival, Number)
    assert (rival.low, rival.high) == (12.0, 36.0)

    def own(rows: Rows) -> Array:
        return np.tile([100.0, 24.0], (rows.n, 1))

    world = Preferences(DOMAIN.world, OFFERS, own, noise=(0.1, 6.0))
    x = np.array([[100.0, 0.8, 24.0]])
    rows = Rows(np.zeros(1, int), np.zeros(1, int), x)
    chance = world.chance(np.array([[110.0, 36.0]]), rows)
    assert chance == pytest.approx([1 / (1 + np.exp(0.5))])
    assert world.chance(np.array([[np.nan, np.nan]]), rows).tolist() == [0.0]
    any_tenor = Preferences(
        DOMAIN.world,
        OFFERS,
        lambda rows: np.tile([100.0, np.nan], (rows.n, 1)),
        noise=(0.1, 6.0),
    )
    chance = any_tenor.chance(np.array([[110.0, 36.0]]), rows)  # who does not care: ½ and 2
    assert chance == pytest.approx([1 / (1 + np.exp(-1.5))])
    # 3/8 of 0.2 and of 12.
    assert taste_of(OFFERS) == pytest.approx((0.075, 4.5))
    with pytest.raises(InvalidInput, match="expected 2 numbers, one a coordinate, got 3"):
        Preferences(DOMAIN.world, OFFERS, own, noise=(1.0, 1.0, 1.0))


def test_another_category_is_a_mismatch() -> None:
    """Own category 'warn': beside 'remove' it wins with σ(½·2²), and two others are alike."""
    asked = with_rival(CHOICES)
    assert list(asked.context.columns) == ["busy", "rival"]

    def own(rows: Rows) -> Array:
        return np.tile([1.0, np.nan], (rows.n, 1))

    world = Preferences(DOMAIN.world, CHOICES, own)
    x = np.array([[0.0, 2.0], [0.0, 2.0], [0.0, 1.0], [0.0, 1.0]])
    rows = Rows(np.zeros(4, int), np.zeros(4, int), x)
    e = np.array([[1.0, 0.3], [0.0, 0.3], [2.0, 0.3], [1.0, 0.9]])
    sure = 1 / (1 + np.exp(-2.0))
    assert world.chance(e, rows) == pytest.approx([sure, 0.5, 1 - sure, 0.5])
    with pytest.raises(InvalidInput, match=r"preferences\.mismatch: expected"):
        Preferences(DOMAIN.world, CHOICES, own, mismatch=0.0)


def test_rivals_are_among_the_allowed() -> None:
    """Two of three arms allowed: each half of 20,000 times, within 4.5 standard errors."""
    world, n = Preferences(DOMAIN.world, CHOICES, own_price), 20_000
    mask = np.tile([True, False, True], (n, 1))
    drawn = world.rivals(stream(1), n, mask)[:, 0]
    assert set(drawn) == {0.0, 2.0}
    assert abs((drawn == 0).mean() - 0.5) < 4.5 * 0.5 / np.sqrt(n)


@pytest.mark.parametrize("name", ["credit", "moderation"])
def test_it_proposes_what_the_operator_would(name: str) -> None:
    """After 150 rounds, 6 replicates: nearer to the own action than at first; at a fixed seed.

    Lenders like the middle tenor at 1.1 times the base rate; moderators what they read off a post.
    """
    domain = load(name)
    plain = replace(domain.instance, scaler=neutral_of(domain.instance))
    if name == "credit":
        features: tuple[str, ...] = ("debt", "utilisation", "score")

        def own(rows: Rows) -> Array:
            return np.stack((1.1 * rows.x[:, 3], np.full(rows.n, 24.0)), axis=1)
    else:
        features = ("toxicity", "reports", "reach")
        person: Any = plain.chain.gates[0]
        own = person.person.own
    settings = {"scale": 2.0, "width": 0.25}
    off: list[float] = []

    def watch(turn: Turn) -> None:
        mine, theirs = turn.decision.action, own(turn.rows)
        if name == "credit":
            rate = mine[:, 0] / turn.rows.x[:, 3]
            off.append(float((np.abs(rate - 1.1) / 0.3 + np.abs(mine[:, 1] - 24.0) / 12.0).mean()))
        else:
            off.append(float((mine[:, 0] != theirs[:, 0]).mean()))

    simulate(
        with_rival(plain),
        asker(plain, settings, features),
        Preferences(domain.world, plain, own, taste_of(plain)),
        rounds=150,
        replicates=6,
        units=4,
        seed=3,
        watch=without_rival(plain, watch),
    )
    early, late = np.mean(off[:10]), np.mean(off[-30:])
    assert late < (0.6 if name == "credit" else 0.75) * early
