"""The world of tracking: what a gain is worth, the world's own filter, tracks that end."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instances.kalman import calendar, learners
from gdcb.instances.kalman.labels import LAG, SIGNAL_KNOTS
from gdcb.instances.kalman.plants import DEMAND, TARGET
from gdcb.instances.kalman.truth import Truth
from gdcb.kalman.agreement import nees, nis, normalised
from gdcb.kalman.filter import Model, kalman_filter
from gdcb.records import Rows, flatten
from gdcb.scalers.covariance import hats
from gdcb.streams import CONTEXT, LABEL, OUTCOME, WORLD, Stream, Streams
from tests.domains.kalman_worlds import UNITS, assert_same_bits, played, redrawn, tracking, wild
from tests.properties import examples

VARIANTS = pytest.mark.parametrize("variant", ["well", "mis"])
PLANTS = pytest.mark.parametrize("plant", ["target", "demand"])
DRAWS = 1500


def some_step(world: Any, steps: int = 14, groups: int = 1) -> tuple[Any, Rows]:
    """Return the state and the rows of a step, gains having been what they were."""
    *_, (_, state, rows, _, _) = played(world, steps, wild(1), groups)
    return state, rows


@lru_cache(maxsize=4)
def run(plant: Any, variant: str) -> list[Any]:
    """Return 120 steps of 32 units, tracks ending as they do."""
    return list(played(tracking(plant, variant), 120, wild(3)))


@VARIANTS
@PLANTS
def test_the_mean_is_what_rewards_average_to(plant: str, variant: str) -> None:
    """1,500 draws of a step of 8 units: within 4.5 standard errors (5 false alarms in 100,000).

    Four such tests. The demand plant's calendar is in its measurements.
    """
    world = tracking(plant, variant)
    state, rows = some_step(world)
    gain = np.random.default_rng(2).uniform((0.05, 0.0), (0.95, 0.5), (UNITS, 2))
    many, drawn = redrawn(world, state, DRAWS, 3)
    reward = world.sample(_rng(), many, np.repeat(gain, DRAWS, axis=0), drawn)[:, 0]
    _assert_mean(reward, world.mean(state, gain[:, None], rows)[:, 0])


@VARIANTS
def test_the_innovation_s_mean_is_what_rewards_average_to(variant: str) -> None:
    """The same of minus the squared next innovation, where no calendar is left out."""
    world = tracking("target", variant, reward="innovations")
    state, rows = some_step(world)
    gain = np.random.default_rng(4).uniform((0.05, 0.0), (0.95, 0.5), (UNITS, 2))
    many, drawn = redrawn(world, state, DRAWS, 5)
    reward = world.sample(_rng(), many, np.repeat(gain, DRAWS, axis=0), drawn)[:, 0]
    _assert_mean(reward, world.innovation_mean(state, gain[:, None], rows)[:, 0])


def _rng() -> Stream:
    return Streams(0).at(OUTCOME, 0)


def _assert_mean(reward: Array, expected: Array) -> None:
    drawn = reward.reshape(UNITS, DRAWS)
    error = drawn.std(axis=1, ddof=1) / np.sqrt(DRAWS)
    assert (np.abs(drawn.mean(axis=1) - expected) < 4.5 * error).all()


@PLANTS
def test_the_mean_by_hand(plant: str) -> None:
    """−Σ_axes tr((I − KH)P(I − KH)ᵀ + KRKᵀ) − ‖b − Kd‖², matrix by matrix."""
    world = tracking(plant)
    state, rows = some_step(world)
    gain = np.array([0.37, 0.21])
    found = world.mean(state, np.tile(gain, (UNITS, 1, 1)), rows)[:, 0]
    h, k = np.array([[1.0, 0.0]]), gain[:, None]
    left = np.eye(2) - k @ h
    for i in range(UNITS):
        kept = left @ state.spread[i] @ left.T + state.now.noise[i] * k @ k.T
        cycle = state.sizes.cycle[i, state.day[i] % state.sizes.cycle.shape[1]]
        worth = 0.0
        for axis in range(len(world.plant.axes)):
            b = state.mean[i, axis] - world.plant.predict(state.track.estimate[i, axis])
            worth -= np.trace(kept) + ((b - gain * (b[0] + cycle)) ** 2).sum()
        assert found[i] == pytest.approx(worth, rel=1e-12)


@VARIANTS
@PLANTS
def test_the_world_s_own_filter_is_the_kalman_filter(plant: str, variant: str) -> None:
    """60 steps of 16 units, modes and covariances given, whatever the tracker does; to 1e-9."""
    world = tracking(plant, variant)
    steps = list(played(world, 60, wild(2), groups=2))
    axes = len(world.plant.axes)

    def by_axis(values: Array) -> Array:
        return np.repeat(values, axes, axis=0)  # every axis is a track

    z = np.stack([s.now.seen - _cycle(s) for _, s, *_ in steps]).reshape(60, -1, 1)
    q = np.stack([by_axis(s.on.process) for _, s, *_ in steps])
    r = np.stack([by_axis(s.now.noise) for _, s, *_ in steps])[..., None, None]
    model = Model(np.array(world.plant.transition), np.array(world.plant.measurement), q, r)
    first = steps[0][1]
    out = kalman_filter(z, model, first.mean.reshape(-1, 2), by_axis(first.spread))
    for t, state, rows, _, _ in steps:
        mean, kept = world.ideal(state)
        np.testing.assert_allclose(state.mean.reshape(-1, 2), out.predicted[t], rtol=1e-9)
        np.testing.assert_allclose(mean.reshape(-1, 2), out.mean[t], rtol=1e-9)
        np.testing.assert_allclose(by_axis(state.spread), out.predicted_covariance[t], rtol=1e-9)
        np.testing.assert_allclose(by_axis(kept), out.covariance[t], rtol=1e-9, atol=1e-12)
        worth = -axes * np.trace(kept, axis1=1, axis2=2)
        np.testing.assert_allclose(world.reference(state, rows), worth, rtol=1e-9)


def _cycle(state: Any) -> Array:
    cycle = state.sizes.cycle
    return np.asarray(cycle[np.arange(len(cycle)), state.day % cycle.shape[1]][:, None])


@VARIANTS
@pytest.mark.parametrize("plant", [TARGET, DEMAND], ids=lambda one: one.name)
def test_its_claims_about_its_errors_hold(plant: Any, variant: str) -> None:
    """NIS and NEES over 120 steps of 32 units, tracks that end included, in their 99.9 % bands.

    Eight bands: a false alarm in 125 seeds. NEES has memory over steps; it is read every 15th.
    """
    values: dict[str, list[Array]] = {"nis": [], "nees": []}
    for t, state, *_ in run(plant, variant):
        nu = state.now.seen - _cycle(state) - state.mean[..., 0]
        s = state.spread[:, 0, 0] + state.now.noise
        values["nis"].append(
            nis(nu[..., None], np.tile(s[:, None, None, None], (*nu.shape[1:], 1, 1)))[0]
        )
        if t % 15 == 0:
            spread = np.tile(state.spread[:, None], (1, nu.shape[1], 1, 1))
            values["nees"].append(nees(state.now.state - state.mean, spread)[0])
    for name, free in (("nis", 1), ("nees", 2)):
        found = np.stack(values[name])
        assert normalised(found, np.full(found.shape, free), level=0.999).is_consistent, name


@VARIANTS
@pytest.mark.parametrize("plant", [TARGET, DEMAND], ids=lambda one: one.name)
def test_rewards_of_a_run_average_to_their_means(plant: Any, variant: str) -> None:
    """Σ (r − μ) over a run is no more than 4 of its standard errors from 0 (6 in 100,000)."""
    world = tracking(plant, variant)
    gaps = [
        outcome[:, 0] - world.mean(state, e[:, None], rows)[:, 0]
        for _, state, rows, e, outcome in run(plant, variant)
    ]
    gap = np.stack(gaps)
    assert abs(gap.sum()) < 4.0 * np.sqrt((gap**2).sum())


gains = st.floats(-2.0, 3.0)


@examples(25)
@given(k0=gains, k1=gains, seed=st.integers(0, 10**6), plant=st.sampled_from(["target", "demand"]))
def test_no_gain_is_worth_more_than_the_best(k0: float, k1: float, seed: int, plant: str) -> None:
    """μ(K*) − μ(K) = s·‖K − K*‖² ≥ 0, and the world's own filter is worth no less than K*."""
    world = tracking(plant, "mis")
    *_, (_, state, rows, _, _) = played(world, 3, wild(seed), groups=1, seed=seed)
    best = world.best(state, rows)
    top = world.mean(state, best[:, None], rows)[:, 0]
    other = world.mean(state, np.tile([k0, k1], (rows.n, 1, 1)), rows)[:, 0]
    s = world.moments(state)[:, 3]
    lost = s * ((best - (k0, k1)) ** 2).sum(axis=1)
    np.testing.assert_allclose(top - other, lost, rtol=1e-9, atol=1e-9 * np.abs(top).max())
    assert (world.reference(state, rows) >= top - 1e-9 * np.abs(top)).all()


def test_from_where_the_world_s_own_filter_stands_its_gain_is_the_best() -> None:
    """A track that begins has the true law: K* is the Kalman gain, and nothing is inherited."""
    world = tracking("target")
    _, state, rows, _, _ = next(played(world, 1, wild(5)))
    p = state.spread
    kalman = p[:, :, 0] / (p[:, 0, 0] + state.now.noise)[:, None]
    np.testing.assert_allclose(world.best(state, rows), kalman, rtol=1e-12, atol=1e-13)
    top = world.mean(state, kalman[:, None], rows)[:, 0]
    np.testing.assert_allclose(top, world.reference(state, rows), rtol=1e-12)


def test_nothing_run_is_the_last_gain() -> None:
    """NaN, in one column or both: μ, samples and what follows are those of the last gain."""
    world = tracking("target")
    state, rows = some_step(world)
    last = rows.x[:, world.columns.gain]
    for e in (np.full((UNITS, 2), np.nan), np.column_stack((last[:, 0], np.full(UNITS, np.nan)))):
        assert (world.ran(e, rows) == last).all()
        for name in ("mean", "innovation_mean"):
            one, other = (getattr(world, name)(state, k[:, None], rows) for k in (e, last))
            assert one.tobytes() == other.tobytes()
        assert (
            world.sample(_rng(), state, e, rows) == world.sample(_rng(), state, last, rows)
        ).all()
        after = [world.advance(Streams(1).at(WORLD, 0), state, k, k, rows) for k in (e, last)]
        assert_same_bits(*after)


@VARIANTS
@PLANTS
def test_a_row_does_not_know_who_else_is_asked(plant: str, variant: str) -> None:
    """μ, optimum, reference, outcomes and labels of some rows are those in a batch, bit for bit."""
    world = tracking(plant, variant, reward="innovations")
    state, rows = some_step(world, groups=3)
    some = np.array([21, 3, 3, 17])
    few = rows.take(some)
    e = np.random.default_rng(6).uniform(0.0, 1.0, (rows.n, 5, 2))
    e[3, 2] = np.nan
    for name in ("mean", "innovation_mean"):
        ask = getattr(world, name)
        assert ask(state, e[some], few).tobytes() == ask(state, e, rows)[some].tobytes()
    for name in ("best", "reference", "candidates"):
        ask = getattr(world, name)
        assert ask(state, few).tobytes() == ask(state, rows)[some].tobytes()
    for name in ("sample", "label"):
        ask = getattr(world, name)
        mine, whole = ask(_rng(), state, e[some, 0], few), ask(_rng(), state, e[:, 0], rows)
        assert mine.tobytes() == whole[some].tobytes()


@VARIANTS
@pytest.mark.parametrize("plant", [TARGET, DEMAND], ids=lambda one: one.name)
def test_a_replicate_does_not_know_what_runs_beside_it(plant: Any, variant: str) -> None:
    """Two replicates of five are those of two, bit for bit, pre-filter, new tracks and all."""
    world = tracking(plant, variant, is_filtered=True)

    def steady(t: int, state: Any, rows: Rows) -> Array:
        return np.tile((0.5, 0.1), (rows.n, 1))

    many, few = (played(world, 25, steady, groups=n) for n in (5, 2))
    for (_, a, mine, *_), (_, b, theirs, *_) in zip(many, few, strict=True):
        n = 2 * UNITS
        assert mine.x[:n].tobytes() == theirs.x.tobytes()
        assert np.asarray(mine.hidden)[:n].tobytes() == np.asarray(theirs.hidden).tobytes()
        assert a.sizes.cycle[:n].tobytes() == b.sizes.cycle.tobytes()


@pytest.mark.parametrize("plant", [TARGET, DEMAND], ids=lambda one: one.name)
def test_contexts_are_what_the_schema_says(plant: Any) -> None:
    world = tracking(plant, "mis")
    for _, _, rows, _, _ in run(plant, "mis"):
        for at, (name, kind) in enumerate(world.columns.schema.columns.items()):
            value = rows.x[:, at]
            assert ((value >= kind.low) & (value <= kind.high)).all(), name  # type: ignore[union-attr]
    assert world.columns.schema.width == rows.x.shape[1]
    hidden, columns = np.asarray(rows.hidden), world.columns
    assert columns.label(world.tracker.n_labels).stop == hidden.shape[1]


@pytest.mark.parametrize("plant", [TARGET, DEMAND], ids=lambda one: one.name)
def test_tracks_end_and_begin(plant: Any) -> None:
    """One in `life` steps; a new one stands at its cue, with no past in gain, bank or labels.

    With 32 units and 120 steps 4 standard errors are 6 in 100,000 a plant. The calendar goes on.
    """
    world = tracking(plant)
    begun, label_at, white = 0, world.columns.label(world.tracker.n_labels), []
    for t, state, rows, _, _ in run(plant, "well"):
        is_new = state.track.age == 0.0
        begun += int(is_new.sum()) if t else 0
        off = state.mean - world.plant.predict(state.track.estimate)
        assert np.abs(off[is_new]).max(initial=0.0) < 1e-9
        spread = state.sizes.initial[:, None, None] * np.array(plant.initial)
        assert (state.spread[is_new] == spread[is_new]).all()
        assert (state.track.likely[is_new] == 1.0 / plant.n_modes).all()
        assert (state.track.gain[is_new] == plant.gains[0, 0]).all()
        is_young = state.track.age <= LAG
        label = np.asarray(rows.hidden)[:, label_at]
        assert np.isnan(label[is_young]).all()
        assert np.isfinite(label[~is_young, 0]).all()
        white.append(
            (state.now.seen - state.now.state[..., 0] - _cycle(state))[is_new]
            / np.sqrt(state.now.noise[is_new])[:, None]
        )
    expected = 119 * 32 / plant.life
    assert abs(begun - expected) < 4.0 * np.sqrt(expected)
    found = np.concatenate(white) ** 2
    assert normalised(found, np.ones(found.shape), level=0.999).is_consistent


@pytest.mark.parametrize("plant", [TARGET, DEMAND], ids=lambda one: one.name)
def test_the_law_of_a_new_track_given_its_cue(plant: Any) -> None:
    """N(cue, P₀): errors of 1,600 tracks do not go with the cue, in place or speed.

    Cues are in the context, and μ is to be the mean given it. 4 standard errors: 3 in 10,000.
    """
    state = next(played(tracking(plant), 1, wild(1), groups=200))[1]
    root = np.sqrt(np.diagonal(state.spread, axis1=1, axis2=2))[:, None]
    together = (state.now.state - state.mean) / root * state.mean
    together = together.reshape(-1, 2)
    assert (np.abs(together.sum(axis=0)) < 4.0 * np.sqrt((together**2).sum(axis=0))).all()


def test_rows_in_another_order_advance_the_same_units() -> None:
    world = tracking("target")
    state, rows = some_step(world, groups=2)
    e = wild(9)(0, state, rows)
    turned = np.random.default_rng(1).permutation(rows.n)
    one = world.advance(Streams(1).at(WORLD, 0), state, e, e, rows)
    other = world.advance(Streams(1).at(WORLD, 0), state, e[turned], e, rows.take(turned))
    assert_same_bits(one, other)


# What is true.


def sizes_of(variant: str, plant: Any = TARGET, groups: int = 60) -> tuple[Truth, Any]:
    """Return the law of paths, and the sizes of some groups of one unit."""
    truth = Truth(plant, variant)
    return truth, truth.sizes(Streams(5).at(WORLD, 0), np.arange(groups))


def test_units_of_a_group_share_their_sizes() -> None:
    truth = Truth(DEMAND, "well")
    sizes = truth.sizes(Streams(5, UNITS).at(WORLD, 0), np.repeat(np.arange(3), UNITS))
    for part in flatten(sizes).values():
        by_group = part.reshape(3, UNITS, -1)
        assert (by_group == by_group[:, :1]).all()
        assert np.unique(by_group[:, 0, 0]).size == 3
    assert np.abs(sizes.cycle.sum(axis=1)).max() < 1e-12


def test_in_well_the_family_has_the_truth() -> None:
    """Coefficients at the knots by hand, to 1e-9, but for the compact set."""
    truth, sizes = sizes_of("well")
    found = learners.coefficients(truth, sizes)
    expected = np.concatenate(
        (
            np.exp(
                sizes.level[:, :, None] + sizes.strain[:, None, None] * np.array([-1.0, 1.0])
            ).reshape(60, -1),
            np.exp(sizes.noise[:, None] - sizes.signal[:, None] * np.array([-1.0, 0.0, 1.0])),
            sizes.initial[:, None],
        ),
        axis=1,
    )
    is_inside = (expected > learners.LOW) & (expected < learners.HIGH)
    assert is_inside.mean() > 0.98
    np.testing.assert_allclose(found, expected.clip(learners.LOW, learners.HIGH), rtol=1e-9)


def test_in_mis_no_other_size_of_the_family_is_nearer() -> None:
    """Residuals over [0, 1] are at right angles to the family, where no bound decides."""
    truth, sizes = sizes_of("mis")
    found = learners.coefficients(truth, sizes)
    at = np.linspace(0.0, 1.0, learners.GRID)
    basis = hats(at, SIGNAL_KNOTS)
    values = np.stack([truth.noise_size(sizes, np.full(60, one)) for one in at], axis=1)
    inside = ((found[:, 6:9] > learners.LOW) & (found[:, 6:9] < learners.HIGH)).all(axis=1)
    assert inside.mean() > 0.8
    left = values - found[:, 6:9] @ basis.T
    assert np.abs(left[inside] @ basis).max() < 1e-9 * learners.GRID
    assert np.abs(left[inside]).max() > 0.1  # and it is not in the family


@VARIANTS
def test_modes_follow_each_other_as_stated(variant: str) -> None:
    """They end with a chance of 1 in 100; in `mis` of 2 in 100, after 50 steps (6 in 100,000)."""
    truth, sizes = sizes_of(variant, groups=200)
    streams = Streams(8)
    path = truth.fresh(
        sizes, streams.at(CONTEXT, 0).normal(200, 2), *truth.draw(streams.at(WORLD, 0), 200)
    )
    paths = [path]
    for t in range(1, 200):
        paths.append(truth.follow(sizes, paths[-1], *truth.draw(streams.at(WORLD, t), 200)))
    mode, dwell = np.stack([one.mode for one in paths]), np.stack([one.dwell for one in paths])
    is_left = mode[1:] != mode[:-1]
    assert (dwell[1:][is_left] == 0.0).all()
    assert (dwell[1:][~is_left] == dwell[:-1][~is_left] + 1.0).all()
    may, chance = dwell[:-1] >= 0.0, 0.01
    if variant == "mis":
        may, chance = dwell[:-1] >= 50.0, 0.02
        assert not is_left[~may].any()
    assert abs(is_left[may].mean() - chance) < 4.0 * np.sqrt(chance / may.sum())
    np.testing.assert_allclose(truth.plant.switching.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.diag(truth.plant.switching), 0.99, rtol=1e-12)


@VARIANTS
def test_paths_move_and_are_measured_as_their_covariances_say(variant: str) -> None:
    """Whitened shocks and errors of measurement over 40 steps of 200 units, in 99.9 % bands."""
    truth, sizes = sizes_of(variant, groups=200)
    streams, shocks, errors = Streams(9), [], []
    path = truth.fresh(
        sizes, streams.at(CONTEXT, 0).normal(200, 2), *truth.draw(streams.at(WORLD, 0), 200)
    )
    for t in range(1, 40):
        after = truth.follow(sizes, path, *truth.draw(streams.at(WORLD, t), 200))
        shock = after.state - truth.plant.predict(path.state)
        shocks.append(nees(shock, np.repeat(after.process[:, None], 2, axis=1))[0])
        errors.append((after.seen - after.state[..., 0]) ** 2 / after.noise[:, None])
        size = truth.process_size(sizes, after.strain, after.mode)
        shape = after.process / size[:, None, None]
        np.testing.assert_allclose(shape, truth.shapes[after.mode], rtol=1e-12)
        path = after
    for values, free in ((np.stack(shocks), 2), (np.stack(errors), 1)):
        assert normalised(values, np.full(values.shape, free), level=0.999).is_consistent


# The calendar.


def test_the_pre_filter_takes_most_of_the_week_off() -> None:
    """20 groups of 8: 95 % of its variance in all, and some of it in every group."""
    group = np.repeat(np.arange(20), UNITS)
    truth = Truth(DEMAND, "well")
    sizes = truth.sizes(Streams(6, UNITS).at(WORLD, 0), group)
    left = calendar.left_over(Streams(7, UNITS).at(WORLD, 0), truth, sizes, group, True)
    whole = calendar.left_over(Streams(7, UNITS).at(WORLD, 0), truth, sizes, group, False)
    assert (whole == sizes.cycle).all()
    before, after = ((part[::UNITS] ** 2).mean(axis=1) for part in (whole, left))
    assert after.sum() < 0.05 * before.sum()
    assert (after < before).all()
    assert (left.reshape(20, UNITS, 7) == left.reshape(20, UNITS, 7)[:, :1]).all()


def test_worlds_with_and_without_the_pre_filter_draw_the_same_paths() -> None:
    one, other = (
        next(played(tracking("demand", is_filtered=on), 1, wild(1)))[1] for on in (True, False)
    )
    assert (one.now.state == other.now.state).all()
    off = (one.now.seen - other.now.seen) - (one.sizes.cycle - other.sizes.cycle)[:, :1]
    assert np.abs(off).max() < 1e-9


def test_a_plant_without_a_calendar_draws_nothing_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its world starts alike whatever the pre-filter, and never asks for one."""

    def never(*args: Any) -> Array:
        raise AssertionError("nobody asks")

    monkeypatch.setattr("gdcb.instances.kalman.world.left_over", never)
    one, other = (
        next(played(tracking(replace(TARGET), is_filtered=on), 1, wild(1)))[1]
        for on in (True, False)
    )
    assert_same_bits(one, other)
    assert not one.sizes.cycle.any()


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InvalidInput, match="variant: expected one of well, mis"):
        tracking("target", "real")
    with pytest.raises(InvalidInput, match="reward: expected one of error, innovations"):
        tracking("target", reward="x")


def test_labels_are_the_tracker_s() -> None:
    world = tracking("target")
    state, rows = some_step(world)
    e = np.full((UNITS, 2), 0.5)
    label = world.label(Streams(0).at(LABEL, 0), state, e, rows)
    assert label.tobytes() == state.track.waiting.label.tobytes()
