"""K1 to K4: a fixed gain, the best gain, interacting models, adapted covariances; what is read."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gdcb.analysis.regret import regret_splits
from gdcb.arrays import Array
from gdcb.instances.kalman import fit
from gdcb.instances.kalman.domain import instance
from gdcb.instances.kalman.measures import band, upper
from gdcb.instances.kalman.measures import figures as figures_of
from gdcb.instances.kalman.plants import DEMAND, PLANTS, TARGET
from gdcb.instances.kalman.references import (
    TUNED,
    Adapted,
    Adaptive,
    Fixed,
    Guided,
    Interacting,
    Oracle,
    references,
)
from gdcb.instances.kalman.world import Tracking
from gdcb.kalman.filter import Model
from gdcb.kalman.imm import imm
from gdcb.records import Rows
from gdcb.simulate import Turn, simulate
from tests.domains.kalman_worlds import ENDLESS, UNITS, assert_same_bits, played, tracking, wild

VARIANTS = pytest.mark.parametrize("variant", ["well", "mis"])
ONE_AXIS = replace(TARGET, axes=("east",), life=1e12)


def own(t: int, state: Any, rows: Rows) -> Array:
    """Return what the filter proposes."""
    return np.asarray(state.proposal)


@VARIANTS
def test_k3_is_the_interacting_multiple_model(variant: str) -> None:
    """One axis, 60 steps of 16 units, its own updates: `gdcb.kalman.imm` with the same models.

    Estimates, covariances before z and mode probabilities, to 1e-9. With two axes K3 takes the
    spread between modes to be alike on both, which `imm` need not.
    """
    world = Guided(Tracking(ONE_AXIS, variant), Interacting())
    steps = list(played(world, 60, own, groups=2))
    first, n = steps[0][1].nature, 2 * UNITS
    f, h = np.array(ONE_AXIS.transition), np.array(ONE_AXIS.measurement)
    r = np.stack([s.nature.now.noise for _, s, *_ in steps])[..., None, None]
    truth = world.truth
    models = []
    for mode in range(3):
        sizes = [
            truth.process_size(s.nature.sizes, s.nature.on.strain, np.full(n, mode))
            for _, s, *_ in steps
        ]
        models.append(Model(f, h, np.stack(sizes)[..., None, None] * truth.shapes[mode], r))
    z = np.stack([s.nature.now.seen for _, s, *_ in steps])
    third = np.full(3, 1 / 3)
    out = imm(z, tuple(models), first.mean[:, 0], first.spread, third, truth.plant.switching)
    for t, state, *_ in steps:
        np.testing.assert_allclose(state.estimated[:, 0], out.mean[t], rtol=1e-9, atol=1e-9)
        before, _ = state.claimed
        np.testing.assert_allclose(before, out.predicted_covariance[t], rtol=1e-9, atol=1e-9)
        found, _ = Interacting().after(world.world, state.filter, state.nature)
        np.testing.assert_allclose(found.chance, out.probability[t], rtol=0, atol=1e-9)


@pytest.mark.parametrize("plant", [TARGET, DEMAND], ids=lambda one: one.name)
def test_k3_goes_on_from_what_ran(plant: Any) -> None:
    """Whatever gain runs, its modes' mean is the tracker's prediction; a new track's is the cue."""
    world = Guided(tracking(plant), Interacting())
    for _, state, *_ in played(world, 60, wild(1)):
        middle = (state.filter.chance[..., None, None] * state.filter.mean).sum(axis=1)
        before = plant.predict(state.nature.track.estimate)
        np.testing.assert_allclose(middle, before, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(state.filter.chance.sum(axis=1), 1.0, rtol=1e-12)
        is_new = state.nature.track.age == 0.0
        assert (state.filter.chance[is_new] == 1 / 3).all()
        assert (state.filter.spread[is_new] == state.nature.spread[is_new][:, None]).all()
        assert np.linalg.eigvalsh(state.filter.spread).min() > 0.0


def test_what_k3_got_has_the_right_mean() -> None:
    """Σ (worth − reward) over 60 steps, no more than 4 of its standard errors from 0."""
    world = Guided(tracking("target"), Interacting())
    gaps = []
    for _, state, rows, e, outcome in played(world, 60, own):
        worth = world.mean(state, e[:, None], rows)[:, 0]
        gaps.append(worth - outcome[:, 0])
        other = e[:, None] + 0.1
        plain = world.world.mean(state.nature, other, rows)
        assert (world.mean(state, other, rows) == plain).all()
    gap = np.stack(gaps)
    assert abs(gap.sum()) < 4.0 * np.sqrt((gap**2).sum())


@pytest.mark.parametrize(
    "one", [Interacting(), Adaptive(), Oracle()], ids=lambda one: type(one).__name__
)
def test_a_replicate_does_not_know_what_runs_beside_it(one: Any) -> None:
    """Two replicates of five are those of two, bit for bit."""
    world = Guided(tracking(TARGET, "mis"), one)
    many, few = (played(world, 25, own, groups=n) for n in (5, 2))
    for (_, a, mine, *_), (_, b, theirs, *_) in zip(many, few, strict=True):
        assert mine.x[: 2 * UNITS].tobytes() == theirs.x.tobytes()
        assert a.proposal[: 2 * UNITS].tobytes() == b.proposal.tobytes()


def regrets(key: str, plant: Any, rounds: int = 40) -> list[Any]:
    """Return the parts of a reference's regret by round."""
    world, found = tracking(plant), []
    reference = references(instance(plant, world), plant)[key]
    guided = reference.world(world)

    def watch(turn: Turn) -> None:
        found.append(regret_splits(reference.instance, guided, turn)[0])

    simulate(
        reference.instance,
        reference.bandit,
        guided,
        rounds=rounds,
        replicates=2,
        units=UNITS,
        watch=watch,
        learns_last=False,
    )
    return found


@pytest.mark.parametrize("key", ["K2", "K2u"])
@pytest.mark.parametrize("plant", [TARGET, DEMAND], ids=lambda one: one.name)
def test_k2_has_no_regret_but_the_gate_s(plant: Any, key: str) -> None:
    """Bandit and calibration 0; without a gate and a calendar nothing is inherited either."""
    total = 0.0
    for parts in regrets(key, plant):
        assert np.abs(parts.bandit).max() < 1e-9
        assert np.abs(parts.calibration).max() < 1e-9
        whole = parts.calibration + parts.bandit + parts.gate + parts.inherited
        np.testing.assert_allclose(whole, parts.total, atol=1e-9)
        if key == "K2u":
            assert np.abs(parts.gate).max() < 1e-9
        total += float(parts.total.sum())
    assert (abs(total) < 1e-6) == (key == "K2u" and not plant.period)


def test_k1_proposes_its_gain_always() -> None:
    one = Fixed((0.4, 0.1))
    world = Guided(tracking(TARGET), one)
    for _, state, rows, _, _ in played(world, 20, wild(2)):
        assert (rows.x[:, -2:] == (0.4, 0.1)).all()
        assert state.claimed is None
    for plant in PLANTS.values():
        found = references(instance(plant, tracking(plant)), plant)
        assert found["K1"].world(tracking(plant)).filter == Fixed(TUNED[plant.name][0])  # type: ignore[attr-defined]
        assert set(found) == {"K1", "K2", "K3", "K4", "K1u", "K2u", "K3u", "K4u"}
        assert not found["K3u"].instance.chain.gates
        assert len(found["K3"].instance.chain.gates) == 3


def test_a_guided_world_is_the_plain_one() -> None:
    """The same gains: the same contexts but for the proposal, outcomes and states."""
    plain, guided = tracking(TARGET), Guided(tracking(TARGET), Fixed())
    pairs = zip(played(plain, 15, wild(3)), played(guided, 15, wild(3)), strict=True)
    for (_, a, mine, _, seen), (_, b, theirs, _, shown) in pairs:
        assert_same_bits(a, b.nature)
        assert mine.x.tobytes() == np.ascontiguousarray(theirs.x[:, :-2]).tobytes()
        assert seen.tobytes() == shown.tobytes()


@pytest.mark.parametrize(
    ("one", "steps"),
    [(Adaptive(*TUNED["target"][1]), 5000), (Adaptive(0.4, 1.0), 1000), (Adaptive(0.4, 0.0), 1000)],
)
def test_k4_keeps_its_covariances_positive(one: Adaptive, steps: int) -> None:
    """Measurements that come in bursts, its own gain or another's: P, Q̂ and R̂ over all steps."""
    rng, n = np.random.default_rng(5), 16
    world: Any = SimpleNamespace(plant=TARGET)
    nature: Any = SimpleNamespace(
        now=SimpleNamespace(mode=np.zeros(n, dtype=np.int64), seen=None),
        track=SimpleNamespace(estimate=np.zeros((n, 2, 2))),
    )
    state = one.begin(world, nature)
    size = np.exp(rng.normal(size=(10, n, 1)) * 4.0).repeat(steps // 10, axis=0)
    for t in range(steps):
        nature.now.seen = size[t] * rng.normal(size=(n, 2))
        ran = one.propose(world, state, nature)
        if t % 10 == 0:
            _assert_positive(state.spread)
            assert (state.noise > 0.0).all()
            ran = np.where(rng.random((n, 1)) < 0.9, rng.uniform(0.02, 0.6, (n, 2)), ran)
        state = one.update(world, state, nature, ran)
    assert (np.linalg.eigvalsh(state.process) > -1e-12 * np.abs(state.process).max()).all()


def _assert_positive(p: Array) -> None:
    np.testing.assert_allclose(p, p.swapaxes(1, 2), rtol=1e-9)
    scale = np.sqrt(np.diagonal(p, axis1=1, axis2=2))
    correlation = p[:, 0, 1] / (scale[:, 0] * scale[:, 1])
    assert np.isfinite(scale).all()
    assert (np.abs(correlation) < 1.0).all()


def test_k4_by_hand() -> None:
    """P = diag(1, 1), R̂ = 1, Q̂ = 0, K = (½, 0), ν = 2, pace ½.

    P⁺ = diag(½, 1), ε = 1: R̂ = 1 + ½·(1 + ½ − 1) = 1.25. Q̂ = ½·diag(1, 0).
    FP⁺Fᵀ = (1.5, 0.95; 0.95, 0.9025), and Q̂ is added.
    """
    world: Any = SimpleNamespace(plant=TARGET)
    nature: Any = SimpleNamespace(
        now=SimpleNamespace(seen=np.array([[2.0, 2.0]])),
        track=SimpleNamespace(estimate=np.zeros((1, 2, 2))),
    )
    start = Adapted(np.eye(2)[None], np.zeros((1, 2, 2)), np.ones(1))
    one = Adaptive(pace=0.5, share=1.0)
    gain = one.propose(world, start, nature)
    assert gain.tolist() == [[0.5, 0.0]]
    after = one.update(world, start, nature, gain)
    assert after.noise.tolist() == [1.25]
    np.testing.assert_allclose(after.process[0], [[0.5, 0.0], [0.0, 0.0]], rtol=1e-12)
    np.testing.assert_allclose(after.spread[0], [[2.0, 0.95], [0.95, 0.9025]], rtol=1e-12)


def test_who_knows_more_is_worth_more() -> None:
    """32 tracks of 50 steps, without a gate: K2 before K3, before K1; of this seed."""
    error = {}
    for name, one in (("K1", Fixed(TUNED["target"][0])), ("K2", Oracle()), ("K3", Interacting())):
        world = Guided(tracking(TARGET, "mis"), one)
        error[name] = -sum(out[:, 0].mean() for *_, out in played(world, 50, own, seed=4))
    assert error["K2"] < error["K3"] < error["K1"]


# What is read.


def figures(key: str, plant: Any = TARGET, rounds: int = 40) -> tuple[dict[str, Array], Array]:
    """Return the figures (rounds, units) of a reference, and its errors."""
    world = tracking(plant)
    reference = references(instance(plant, world), plant)[key]
    every = figures_of(world, rounds * UNITS)
    found: dict[str, list[Array]] = {one.name: [] for one in every}
    rewards = []

    def watch(turn: Turn) -> None:
        for one in every:
            found[one.name].append(one.of(reference.instance, turn))
        rewards.append(turn.outcome[:, 0])

    simulate(
        reference.instance,
        reference.bandit,
        reference.world(world),
        rounds=rounds,
        replicates=4,
        units=UNITS,
        watch=watch,
        learns_last=False,
        seed=12,
    )
    return {name: np.stack(values) for name, values in found.items()}, -np.stack(rewards)


@pytest.mark.parametrize("key", ["K2u", "K3u"])
def test_figures_of_a_filter_that_knows(key: str) -> None:
    """NIS within 99.9 % of 1 for K2u; K3u, which does not know the mode, within a quarter."""
    found, error = figures(key)
    np.testing.assert_allclose(found["rmse"], error, rtol=1e-12)
    free = found["nis"].size * 2
    width = 3.3 * np.sqrt(2.0 / free) if key == "K2u" else 0.25
    assert abs(found["nis"].mean() - 1.0) < width
    assert abs(found["nees"].mean() - 1.0) < (0.1 if key == "K2u" else 0.35)
    assert abs(found["inside"].mean() - 0.95) < 0.03
    assert (found["inside"] == (found["nis"] <= upper(2))).all()


def test_a_fixed_gain_claims_nothing() -> None:
    found, error = figures("K1", rounds=5)
    np.testing.assert_allclose(found["rmse"], error, rtol=1e-12)
    assert all(np.isnan(found[name]).all() for name in ("nis", "nees", "inside"))


def test_points_and_bands() -> None:
    """χ² of 2 has its 95 % point at −2·log 0.05, and a mean of 200 a band of 1 ± 1.96·0.1."""
    assert upper(2) == pytest.approx(-np.log(0.05), rel=1e-12)
    assert band(200) == pytest.approx((0.8, 1.2), abs=0.02)


@pytest.mark.soak
@pytest.mark.parametrize("plant", [TARGET, DEMAND], ids=lambda one: one.name)
def test_what_references_are_tuned_to_is_best_among_its_neighbours(plant: Any) -> None:
    """On tuning worlds no gain a step of the grid away, and no pace or share beside, is better."""
    gain, (pace, share) = TUNED[plant.name]
    at, beside = fit.FIRST.index(gain[0]), fit.SECOND.index(gain[1])
    fixed: list[Any] = [Fixed(gain)]
    fixed += [Fixed((k, gain[1])) for k in _next_to(fit.FIRST, at)]
    fixed += [Fixed((gain[0], k)) for k in _next_to(fit.SECOND, beside)]
    assert fit.best_of(plant, fixed) == Fixed(gain)
    paces, shares = fit.PACES.index(pace), fit.SHARES.index(share)
    adaptive: list[Any] = [Adaptive(pace, share)]
    adaptive += [Adaptive(one, share) for one in _next_to(fit.PACES, paces)]
    adaptive += [Adaptive(pace, one) for one in _next_to(fit.SHARES, shares)]
    assert fit.best_of(plant, adaptive) == Adaptive(pace, share)


def _next_to(grid: tuple[float, ...], at: int) -> tuple[float, ...]:
    return grid[max(at - 1, 0) : at] + grid[at + 1 : at + 2]


def test_tracks_that_never_end_are_the_plants_otherwise() -> None:
    assert all(replace(ENDLESS[name], life=one.life) == one for name, one in PLANTS.items())
