"""What GDCB reduces to (§1.2, §5.2): plain, shielded, factored and hierarchical bandits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from gdcb import (
    ArmList,
    BetaThompson,
    Chain,
    CurveThompson,
    Grid,
    HierarchicalThompson,
    Multiply,
    Payoff,
)
from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.gates.base import HardGate
from gdcb.records import Evidence, Rows, Setting
from gdcb.simulate import simulate
from gdcb.streams import DRAW, OUTCOME, Streams
from tests.builders import Coins, choosing, log_of, pricing, stream, teach

P = (0.2, 0.35, 0.5, 0.65, 0.6)
ROUNDS, REPLICATES, SEED = 200, 6, 11


def plain_beta(p: tuple[float, ...], allowed: Array | None = None) -> tuple[list[list[int]], Array]:
    """Return the arms and the counts of a plain Beta-Thompson bandit, written out.

    Draw from Beta(α, β) of every arm, play the best of the allowed ones, add the outcome.
    """
    streams = Streams(SEED)
    counts = np.ones((REPLICATES, 2, len(p)))
    rows, arms = np.arange(REPLICATES), []
    for t in range(ROUNDS):
        drawn = streams.at(DRAW, t).beta(counts)
        if allowed is not None:
            drawn = np.where(allowed, drawn, -1.0)
        arm = drawn.argmax(axis=1)
        won = streams.at(OUTCOME, t).uniform(REPLICATES) < np.array(p)[arm]
        counts[rows, 0, arm] += won
        counts[rows, 1, arm] += ~won
        arms.append(arm.tolist())
    return arms, counts


def test_no_scaler_no_gate_is_the_plain_bandit() -> None:
    """Constant δ, identity composition and the open gate: Beta-Thompson, bit for bit."""
    run = simulate(
        choosing(len(P), gate=Chain()),
        BetaThompson(),
        Coins(P),
        rounds=ROUNDS,
        replicates=REPLICATES,
        seed=SEED,
        keep_log=True,
    )
    arms, counts = plain_beta(P)
    assert run.log is not None
    assert run.log.arm.reshape(ROUNDS, REPLICATES).tolist() == arms
    assert run.state.bandit.counts.tobytes() == counts.tobytes()
    assert run.log.is_own.all()


@dataclass(frozen=True)
class Shield(HardGate):
    """Put a safe category in the place of an unsafe one: 3 becomes 2, 4 becomes 0."""

    name: str = "shield"
    version: str = "1"

    def project(self, e: Array, rows: Rows) -> Array:
        return np.asarray(np.where(e == 3.0, 2.0, np.where(e == 4.0, 0.0, e)))

    def moved(self, e: Array, rows: Rows) -> Array:
        return np.asarray(np.abs(self.project(e, rows) - e).max(axis=-1))

    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        return "unsafe"


def test_a_hard_gate_is_a_shield() -> None:
    """A projecting gate behind the identity: the best draw among the actions it projects to.

    The image of the five arms is {0, 1, 2}. Unsafe arms tie with their projection and are moved
    more, so they are never proposed, and what runs is the shielded bandit's choice bit for bit.
    """
    run = simulate(
        choosing(len(P), gate=Shield()),
        BetaThompson(),
        Coins(P),
        rounds=ROUNDS,
        replicates=REPLICATES,
        seed=SEED,
        keep_log=True,
    )
    arms, counts = plain_beta(P, allowed=np.array([True, True, True, False, False]))
    assert run.log is not None
    assert run.log.action[:, 0].reshape(ROUNDS, REPLICATES).tolist() == arms
    assert run.log.arm.reshape(ROUNDS, REPLICATES).tolist() == arms
    assert run.state.bandit.counts.tobytes() == counts.tobytes()


# Factored arms

FACTOR = (0.7, 0.85, 1.0, 1.1, 1.3)
GRID = Grid({"A": FACTOR, "B": FACTOR}, combine="product")


def test_a_grid_has_twenty_five_arms_and_fifteen_coordinates() -> None:
    """a^A · a^B with the same five values: 5·4/2 pairs twice, and five squares."""
    arms = GRID.build()
    assert arms.n == 25
    assert np.unique(arms.coords).size == 15


def test_factored_arms_are_a_bandit_over_their_products() -> None:
    """An unchanged proposal credits its own combination of factors: 25 independent arms.

    The reward is the class alone, so the 25 arms are those of the plain bandit, whose twin arms
    (A, B) and (B, A) win alike and learn apart.
    """
    coords = GRID.build().coords[:, 0]
    p = tuple(float(value) for value in np.clip(1.2 - 0.6 * coords, 0.0, 1.0))

    @dataclass(frozen=True)
    class Products(Coins):
        def mean(self, state: Array, e: Array, rows: Rows) -> Array:
            nearest = np.abs(e[..., 0, None] - coords).argmin(axis=-1)
            return np.asarray(np.array(p)[nearest])

    instance = pricing(
        arms=GRID, composition=Multiply(names=("price",)), reward=Payoff(outcome=("booked",))
    )
    run = simulate(
        instance,
        BetaThompson(),
        Products(p),
        rounds=ROUNDS,
        replicates=REPLICATES,
        seed=SEED,
        keep_log=True,
    )
    arms, counts = plain_beta(p)
    assert run.log is not None
    assert run.log.arm.reshape(ROUNDS, REPLICATES).tolist() == arms
    assert run.state.bandit.counts.tobytes() == counts.tobytes()


def test_a_moved_action_credits_the_first_of_its_twins() -> None:
    """Located from outside, 0.7·0.85 = 0.595 is arm (0.7, 0.85), the first of two."""
    instance, bandit = pricing(arms=GRID), BetaThompson()
    state = turn.init(instance, bandit, np.zeros(1, dtype=np.int64))
    log = log_of([[100.0]], [59.5], [24], [1.0], is_own=[False])
    teach(instance, bandit, state, log)
    assert np.flatnonzero(state.bandit.counts[0, 0] > 1.0).tolist() == [1]
    assert instance.space.names[1] == "A=0.7 B=0.85"


@pytest.mark.parametrize("link", ["logistic", "identity"])
def test_a_curve_sees_fifteen_arms_in_the_grid(link: str) -> None:
    """A curve over the 25 arms is the curve over the 15 coordinates: twins are one to it."""
    grid = GRID.build()
    flat = ArmList(values=tuple(np.unique(grid.coords).tolist())).build()
    bandit, cell = CurveThompson(link=link), np.zeros(1, dtype=np.int64)
    wide, narrow = bandit.init(cell, grid), bandit.init(cell, flat)
    rng = np.random.default_rng(2)
    arm = rng.integers(0, 25, size=60)
    y = (rng.random(60) < 0.4).astype(float)
    coord = grid.coords[arm]
    for state, index in ((wide, arm), (narrow, np.searchsorted(flat.coords[:, 0], coord[:, 0]))):
        many = np.zeros(60, dtype=np.int64)
        bandit.update(state, Evidence(many, index, coord, y, None, np.ones(60)))
    assert wide.mean.tobytes() == narrow.mean.tobytes()
    by_arm = bandit.mean(wide, Setting(cell), grid.nominal)[0]
    assert (
        by_arm.tolist()
        == bandit.mean(narrow, Setting(cell), flat.nominal)[
            0, np.searchsorted(flat.coords[:, 0], grid.coords[:, 0])
        ].tolist()
    )


# Hierarchies


def rewards(n_units: int, n: int) -> tuple[Array, Array, Array]:
    """Return unit, arm and reward of n rows."""
    rng = np.random.default_rng(7)
    return rng.integers(0, n_units, n), rng.integers(0, 3, n), rng.normal(1.0, 2.0, n)


def gaussian(
    y: Array, arm: Array, mean: float, variance: float, noise: float
) -> tuple[Array, Array]:
    """Return posterior means and variances of three arms under N(mean, variance), written out."""
    n = np.array([(arm == k).sum() for k in range(3)])
    total = np.array([y[arm == k].sum() for k in range(3)])
    after = 1.0 / (1.0 / variance + n / noise**2)
    return after * (mean / variance + total / noise**2), after


def test_units_that_do_not_differ_are_one_pooled_learner() -> None:
    """With a tiny variance between units all of them equal one Gaussian learner on all rows."""
    bandit = HierarchicalThompson(prior_mean=0.3, sd=0.8, between=1e-5, noise=1.5)
    arms = ArmList(names=("a", "b", "c")).build()
    state = bandit.init(np.zeros(4, dtype=np.int64), arms)
    unit, arm, y = rewards(4, 50)
    bandit.update(state, Evidence(unit, arm, arm[:, None] * 1.0, y, None, np.ones(50)))
    mean, variance = gaussian(y, arm, 0.3, 0.64, 1.5)
    for one in range(4):
        found, spread = bandit._posterior(state, np.array([one]))
        assert found[0] == pytest.approx(mean, abs=1e-6)
        assert spread[0] == pytest.approx(variance, abs=1e-6)


def test_one_unit_a_group_is_gaussian_thompson_sampling() -> None:
    """Alone in its group a unit has the prior N(mean, sd² + between²): posterior and draw.

    The draw is mean + sd · z with the stream's own z, to the last digits of the arithmetic.
    """
    bandit = HierarchicalThompson(prior_mean=0.3, sd=0.8, between=0.6, noise=1.5)
    arms = ArmList(names=("a", "b", "c")).build()
    state = bandit.init(np.arange(4), arms)
    unit, arm, y = rewards(4, 50)
    bandit.update(state, Evidence(unit, arm, arm[:, None] * 1.0, y, None, np.ones(50)))
    drawn = bandit.draw(stream(3), state, Setting(np.arange(4)))
    z = stream(3).normal(4, 3)
    for one in range(4):
        own = unit == one
        mean, variance = gaussian(y[own], arm[own], 0.3, 0.64 + 0.36, 1.5)
        found, spread = bandit._posterior(state, np.array([one]))
        assert found[0] == pytest.approx(mean, rel=1e-12)
        assert spread[0] == pytest.approx(variance, rel=1e-12)
        assert drawn[one] == pytest.approx(mean + np.sqrt(variance) * z[one], rel=1e-12)


def test_groups_never_share() -> None:
    """What one group learned leaves every byte of another group's posterior."""
    bandit, arms = HierarchicalThompson(), ArmList(names=("a", "b", "c")).build()
    state = bandit.init(np.array([0, 0, 1, 1]), arms)
    before = [part.tobytes() for part in bandit._posterior(state, np.array([2, 3]))]
    zero = np.zeros(5, dtype=np.int64)
    bandit.update(state, Evidence(zero, zero, np.zeros((5, 1)), np.ones(5), None, np.ones(5)))
    after = [part.tobytes() for part in bandit._posterior(state, np.array([2, 3]))]
    assert before == after
    shared = bandit._posterior(state, np.array([1]))[0]
    assert shared[0, 0] > 0.0
