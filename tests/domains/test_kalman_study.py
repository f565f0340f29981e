"""The study: its gate, its people, its past and seeds, its options, and that it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instances import catalogue
from gdcb.instances.kalman import learners, study
from gdcb.instances.kalman.labels import LAG
from gdcb.instances.kalman.operator import AT_LEAST, AT_MOST, HABIT, STEADY, Operator
from gdcb.instances.kalman.plants import DEMAND, PLANTS, SETTLE, TARGET
from gdcb.instances.kalman.seeds import FORGOTTEN, first_innovations, steady_part
from gdcb.protocol.block import run_setup
from gdcb.protocol.ground import shared_by
from gdcb.protocol.methods import build
from gdcb.protocol.task import Task
from gdcb.records import MODIFIED, Rows
from gdcb.simulate import simulate
from gdcb.streams import CONTEXT, DRAW, GATE, WORLD, Streams
from tests.domains.kalman_worlds import UNITS, played, tracking, wild
from tests.properties import examples

BOTH = pytest.mark.parametrize("plant", [TARGET, DEMAND], ids=lambda one: one.name)
VARIANTS = pytest.mark.parametrize("variant", ["well", "mis"])


def some_rows(plant: Any, steps: int = 12, seed: int = 3) -> Rows:
    """Return the rows of a step, tracks young and old among them."""
    *_, (_, _, rows, _, _) = played(tracking(plant), steps, wild(1), seed=seed)
    return rows


def radius(plant: Any, gain: Array) -> Array:
    """Return the largest modulus of an eigenvalue of F(I − KH) for gains (..., 2)."""
    kept = np.broadcast_to(np.eye(2), (*gain.shape[:-1], 2, 2)).copy()
    kept[..., 0] -= gain
    return np.asarray(np.abs(np.linalg.eigvals(np.array(plant.transition) @ kept)).max(axis=-1))


# The gate.


def box(plant: Any) -> list[Any]:
    """Return the bounds at the end of the chain."""
    bounds = study("well", {"plant": plant.name}, 10).domain.instance.chain.gates[1:]
    assert [one.action for one in bounds] == [0, 1]  # type: ignore[attr-defined]
    return list(bounds)


@BOTH
def test_every_gain_within_the_bounds_is_stable(plant: Any) -> None:
    """F(I − KH) on a grid of the box and its edges; far outside it some gains are not."""
    first, second = (np.linspace(one.low, one.high, 101) for one in box(plant))
    grid = np.stack(np.meshgrid(first, second), axis=-1)
    assert radius(plant, grid).max() < 1.0
    assert radius(plant, np.array([0.0, 0.0])) >= 1.0
    assert radius(plant, np.array([1.0, 1.0 + 2.0 * plant.friction])) >= 1.0
    assert ((plant.gains >= (0.02, 0.0)) & (plant.gains <= 1.0)).all()


anything = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(-1.0, 3.0),
    st.sampled_from([np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0]),
)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@examples(40)
@given(
    proposals=st.lists(anything, min_size=2, max_size=24),
    seed=st.integers(0, 10**6),
    name=st.sampled_from(sorted(PLANTS)),
)
def test_nothing_outside_the_bounds_is_ever_executed(
    proposals: list[float], seed: int, name: str
) -> None:
    """Whatever an adversary proposes: what runs is in the box, and stable; the rest is the last."""
    plant = PLANTS[name]
    rows = some_rows(plant, steps=2, seed=seed)
    instance = study("well", {"plant": name}, 10).domain.instance
    e = np.resize(np.array(proposals), (rows.n, 2))
    draws = instance.chain.draw(Streams(seed).at(GATE, 0), rows.n)
    verdict = instance.chain.apply(draws, e, rows)
    executed = turn.execute(instance, verdict, rows)
    ran, world = executed.action, tracking(plant)
    low, high = np.array([[one.low, one.high] for one in box(plant)]).T
    assert np.isfinite(ran).all()
    assert ((ran >= low) & (ran <= high)).all()
    assert radius(plant, ran).max() < 1.0
    assert (executed.is_null == (verdict.status > MODIFIED)).all()
    last = rows.x[:, world.columns.gain]
    assert (ran[executed.is_null] == last[executed.is_null]).all()
    assert (world.ran(ran, rows) == ran).all()


def test_a_gain_that_is_none_runs_the_last_or_the_operator_s() -> None:
    """NaN is never approved; vetoed, or not judged at all, it runs the last gain."""
    rows = some_rows(TARGET)
    instance, world = study("well", {}, 10).domain.instance, tracking(TARGET)
    e = np.full((rows.n, 2), np.nan)
    draws = instance.chain.draw(Streams(1).at(GATE, 0), rows.n)
    verdict = instance.chain.apply(draws, e, rows)
    executed = turn.execute(instance, verdict, rows)
    last, own = rows.x[:, world.columns.gain], Operator(TARGET).own(rows)
    is_last = executed.is_null
    assert (executed.action[is_last] == last[is_last]).all()
    gap = np.abs(executed.action[~is_last] - own[~is_last].clip(0.02, 1.0))
    assert gap.max(initial=0.0) < 0.031
    assert not executed.is_own.any()


# People.


@BOTH
def test_the_operator_by_hand(plant: Any) -> None:
    """A third measurement's rule for a cue: 10/12 and 6/12; the steady gain for an old track."""
    operator, rows = Operator(plant), some_rows(plant)
    x = rows.x.copy()
    age, gain = operator.columns.at("age"), operator.columns.gain
    x[:4, age], x[:4, gain] = (0.0, 1.0, 40.0, 400.0), (0.9, 0.1)
    own = operator.own(replace(rows, x=x))[:4]
    np.testing.assert_allclose(own[0], (10 / 12, 0.5), rtol=1e-12)
    np.testing.assert_allclose(own[1], ((14 / 20 + 0.9) / 2, (0.3 + 0.1) / 2), rtol=1e-12)
    for i in (2, 3):
        np.testing.assert_allclose(
            own[i], 0.5 * (np.array(STEADY) + np.array([0.9, 0.1])), rtol=1e-12
        )
    e = operator.own(rows)[:, None] + np.array([[0.0, 0.0], [0.1, 0.2], [9.0, 0.0]])
    chance = operator.approve(e, rows)
    np.testing.assert_allclose(chance[:, 0], AT_MOST, rtol=1e-12)
    np.testing.assert_allclose(chance[:, 1], 0.6 + 0.35 * np.exp(-1.0), rtol=1e-9)
    np.testing.assert_allclose(chance[:, 2], AT_LEAST, rtol=1e-12)


@BOTH
def test_the_incumbent_takes_the_likeliest_mode_or_any(plant: Any) -> None:
    """Its gains are nominal ones; 10 % of 4,000 rows (two of three habits) within 4 errors."""
    operator, rows = Operator(plant), some_rows(plant)
    many = rows.take(np.resize(np.arange(rows.n), 4000))
    gain = operator.incumbent(Streams(2).at(DRAW, 0), None, many)
    likely = many.x[:, [operator.columns.at(name) for name in operator.columns.likely]]
    age = np.minimum(many.x[:, operator.columns.at("age")], SETTLE).astype(int)
    nominal = plant.gains[:, age].swapaxes(0, 1)
    is_mode = (gain[:, None] == nominal).all(axis=2)
    assert is_mode.any(axis=1).all()
    is_settled = age > 0  # at age 0 all modes have one gain
    other = ~is_mode[np.arange(4000), likely.argmax(axis=1)][is_settled]
    expected = HABIT * 2 / 3
    assert abs(other.mean() - expected) < 4.0 * np.sqrt(expected / is_settled.sum())


# Past and seeds.


def past_of(options: dict[str, Any]) -> tuple[Any, Any]:
    """Return a study, and the past of two replicates."""
    subject = study("well", options, 10)
    group, streams = np.repeat(np.arange(2), UNITS), Streams(4, UNITS)
    world = subject.domain.world
    state = world.start(streams.at(WORLD, 0), group)
    return subject, subject.past(subject.domain.instance, world, state, group, streams)


def test_the_past_has_labels_and_its_seeds_can_be_taken_apart() -> None:
    """P₀ alone, from first innovations; and all else, from steps that have forgotten it."""
    subject, history = past_of({"steps": 480})
    assert history.log.unit.size == 960
    label, scaler = history.label, subject.domain.instance.scaler
    assert label is not None
    assert label.shape == (960, scaler.n_labels)
    seen = np.isfinite(label[:, 0])
    assert 0.5 < seen.mean() < 1.0
    mean, size = np.array(scaler.prior_mean), scaler.size
    before = label.copy()

    first = first_innovations(scaler, history).label
    assert first is not None
    is_first = np.isfinite(first[:, 0])
    assert 0 < is_first.sum() <= seen.sum() / LAG
    assert np.isnan(first[:, 1]).all()
    assert (first[is_first, 2 : 1 + size] == 0.0).all()
    responses = label[is_first, 2 : 2 + size]
    assert (responses[:, :6] == 0.0).all()
    assert (responses[:, -1] == TARGET.initial[0][0]).all()
    product = label[is_first, 0] - (responses[:, 6:9] * mean[6:9]).sum(axis=1)
    np.testing.assert_allclose(first[is_first, 0], product, rtol=1e-12)

    steady = steady_part(scaler, history).label
    assert steady is not None
    kept = np.isfinite(steady[:, 0])
    assert 0 < kept.sum() < seen.sum()
    assert not (kept & is_first).any()
    square = label[:, 2 : 2 + size]
    share = square[kept, -1] * mean[-1] / (square[kept] * mean).sum(axis=1)
    assert share.max() <= FORGOTTEN
    assert (steady[:, [1 + size, -1]] == 0.0).all()
    np.testing.assert_array_equal(steady[kept, :2], label[kept, :2])
    np.testing.assert_array_equal(history.label, before)  # neither wrote into the history
    with pytest.raises(InvalidInput, match="history: expected the scaler's labels, got none"):
        steady_part(scaler, replace(history, label=None))


def test_seeds_teach_what_they_are_to_teach() -> None:
    """After first innovations only P₀ has moved; after the rest everything but P₀."""
    subject, history = past_of({"steps": 480})
    scaler = subject.domain.instance.scaler
    for change, moves in (
        (first_innovations, [False] * 9 + [True]),
        (steady_part, [True] * 9 + [False]),
    ):
        label = change(scaler, history).label
        assert label is not None
        state, n = scaler.init(1), label.shape[0]
        scaler.observe(
            state,
            np.zeros(n, dtype=np.int64),
            history.rows.x,
            history.log.action,
            label,
            np.ones(n),
        )
        scaler.publish(state, np.zeros(1, dtype=np.int64))
        assert (np.abs(state.beta[0] - np.array(scaler.prior_mean)) > 1e-9).tolist() == moves


# The study.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"plant": "x"}, "plant: expected target or demand, got 'x'"),
        ({"plant": None}, "plant: expected target or demand, got None"),
        ({"reward": "x"}, "reward: expected one of error, innovations"),
        ({"prefilter": "x"}, "prefilter: expected one of on, off"),
        ({"prefilter": True}, "prefilter: expected one of on, off"),
        ({"prefilter": "off"}, "prefilter: the target has no calendar to take off"),
        ({"steps": 0}, "steps: expected a whole number >= 1, got 0"),
        ({"steps": True}, "steps: expected a whole number >= 1, got True"),
        ({"steps": 1.5}, "steps: expected a whole number >= 1, got 1.5"),
        ({"hours": 1}, "kalman has the options plant, reward, prefilter and steps, not hours"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        study("mis", options, 10)


def test_another_variant_is_refused() -> None:
    with pytest.raises(InvalidInput, match="variant: expected one of well, mis"):
        study("real", {}, 10)


@VARIANTS
@BOTH
def test_its_parts_fit_each_other(plant: Any, variant: str) -> None:
    """Arms, scaler, composition, labels, features, outcomes, the file of settings, words."""
    subject = study(variant, {"plant": plant.name}, 10)
    instance, world = subject.domain.instance, subject.domain.world
    assert instance.space.n == plant.n_modes + 1 == instance.scaler.n_arms
    assert instance.scaler.n_labels == world.tracker.n_labels  # type: ignore[attr-defined]
    assert learners.n_coefficients(plant) == instance.scaler.size  # type: ignore[attr-defined]
    assert set(subject.features) <= set(instance.context.names)
    assert len(instance.actions) == 2
    assert instance.reward.outcome == ("reward",)
    assert subject.domain.is_endogenous
    assert subject.tuned == ("tuned.json" if plant is TARGET else "tuned-demand.json")
    other = study(variant, {"plant": plant.name, "reward": "innovations"}, 10)
    assert other.tuned == subject.tuned.replace(".json", "-innovations.json")
    assert (other.tuning.learned is None, subject.tuning.learned is None) == (False, True)  # type: ignore[union-attr]
    assert [one.name for one in subject.figures] == ["rmse", "nis", "nees", "inside"]
    assert set(subject.starts) == {"A5m", "A5c", "A5p"}
    assert {symbol for symbol, *_ in subject.specification} >= {"𝒳", "𝒜", "Φ", "g", "R"}
    assert any(variant in value for _, _, value in subject.specification)
    assert (np.diff(np.asarray(subject.edges)) > 0).all()
    assert "K2" in subject.about["oracle_knows"]
    rows = some_rows(plant)
    np.testing.assert_array_equal(subject.own(rows), Operator(plant).own(rows))


@VARIANTS
@BOTH
def test_the_best_sizes_of_the_family(plant: Any, variant: str) -> None:
    """δ° has an entry a group, context, arm and size, within [low, high]; R and P₀ by no arm."""
    options = {"plant": plant.name} | ({"prefilter": "off"} if plant.period else {})
    subject = study(variant, options, 10)
    world: Any = subject.domain.world
    streams, group = Streams(5, UNITS), np.repeat(np.arange(3), UNITS)
    state = world.start(streams.at(WORLD, 0), group)
    rows = world.context(streams.at(CONTEXT, 0), state, 0, group)
    delta = subject.delta(state, rows)
    assert delta.shape == (3, rows.n, plant.n_modes + 1, 3)
    low, high = learners.LOW * (1 - 1e-12), learners.HIGH * (1 + 1e-12)
    assert ((delta >= low) & (delta <= high)).all()
    assert (delta[..., 1:] == delta[:, :, :1, 1:]).all()
    if variant == "well":  # and there it is the truth
        r = world.truth.noise_size(state.sizes, rows.x[:, world.columns.at("signal")])
        mine = delta[group, np.arange(rows.n)]
        np.testing.assert_allclose(mine[:, 0, 1], r.clip(learners.LOW, learners.HIGH), rtol=1e-9)
        q = np.stack(
            [
                world.truth.process_size(state.sizes, state.now.strain, np.full(rows.n, mode))
                for mode in range(plant.n_modes)
            ],
            axis=1,
        )
        is_inside = (mine[:, :-1, 0] > learners.LOW) & (mine[:, :-1, 0] < learners.HIGH)
        np.testing.assert_allclose(mine[:, :-1, 0][is_inside], q[is_inside], rtol=1e-9)


def test_what_learners_learn_of_innovations() -> None:
    """E[r]/s(x): the expected squared next innovation over the size of what was missed."""
    subject = study("well", {"reward": "innovations"}, 10)
    world: Any = subject.domain.world
    *_, (_, state, rows, _, _) = played(world, 5, wild(2))
    e = np.full((rows.n, 2, 2), 0.4)
    assert subject.tuning is not None
    assert subject.tuning.learned is not None
    found = subject.tuning.learned(state, e, rows)
    missed = rows.x[:, world.columns.at("missed")]
    np.testing.assert_allclose(
        found * missed[:, None], world.innovation_mean(state, e, rows), rtol=1e-12
    )


@pytest.mark.parametrize("options", [{}, {"plant": "demand", "reward": "innovations"}])
def test_the_recommended_learner_runs_untuned(options: dict[str, Any]) -> None:
    """40 steps of two replicates: nothing outside the bounds runs, and the scaler learns."""
    subject = study("mis", options, 40)
    seen = []
    out = simulate(
        subject.domain.instance,
        subject.domain.bandit,
        subject.domain.world,
        rounds=40,
        replicates=2,
        units=UNITS,
        watch=lambda one: seen.append(one.executed.action),
    )
    ran = np.stack(seen)
    assert ((ran >= (0.02, 0.0)) & (ran <= 1.0)).all()
    assert (out.state.scaler.rows > 100).all()
    assert (out.state.scaler.versions >= 1).all()


def test_the_protocol_runs_it() -> None:
    """Ours and K2 on two replicates of 12 steps: five parts that sum up; measures are there."""
    options = (("steps", 160),)
    tuned = {"B4": learners.untuned(TARGET)}
    for key in ("B4", "A5c", "K2", "K3u"):
        task = Task("kalman", "well", options, 3, 12, 0, 2, key)
        shared = shared_by(task)
        record = run_setup(build(shared.study, key, tuned), shared, task)
        assert record.parts.shape == (12, 2, 5)
        total = record.parts[..., 0]
        np.testing.assert_allclose(total, record.parts[..., 1:].sum(axis=-1), atol=1e-9)
        assert record.measures is not None
        assert np.isfinite(record.measures).all()
        if key == "K2":  # on its own trajectory it is the floor, draw by draw
            np.testing.assert_allclose(total, shared.floor, atol=1e-9)
            assert np.abs(record.parts[..., 1:3]).max() < 1e-9
    assert catalogue.STUDIES["kalman"] == "kalman"
