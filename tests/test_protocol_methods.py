"""The methods of the protocol: their keys, what they are made of, and the history they see."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from gdcb.analysis.regret import truth_of
from gdcb.bandits import (
    BetaThompson,
    BradleyTerryThompson,
    FactoredThompson,
    HierarchicalCurveThompson,
    HierarchicalThompson,
    LinearThompson,
    LogisticThompson,
    SharedLinearThompson,
    StackedThompson,
)
from gdcb.errors import InvalidInput
from gdcb.instances import study
from gdcb.instances.str_pricing.learners import UNTUNED
from gdcb.protocol import block, fitting, methods, tuning
from gdcb.protocol.ground import shared_by
from gdcb.protocol.methods import DEFAULT, build, parse, tuned_settings
from gdcb.protocol.pooled import Pooled, names, pooled_history, pooled_instance
from gdcb.protocol.task import GROUND
from gdcb.records import MODIFIED, to_bytes
from gdcb.scalers import ConstantScaler, LogLinearScaler
from gdcb.streams import CONTEXT, LABEL, OUTCOME, WORLD, Streams
from tests.parts.builders import bytes_of, rng_of
from tests.protocol_tasks import EPISODES, FEW, UNITS, settings_of, task_of


def tuned() -> dict[str, Any]:
    """Return settings of every family in `well`."""
    return settings_of("str", "well")


# Keys


@pytest.mark.parametrize(
    ("key", "family", "is_warm", "is_gated"),
    [
        ("B1", "B1", False, True),
        ("B2", "B2", False, True),
        ("B2w", "B2", True, True),
        ("B2s", "B2s", False, True),
        ("B2sw", "B2s", True, True),
        ("B2g", "B2g", False, True),
        ("B2gw", "B2g", True, True),
        ("B3", "B3", False, True),
        ("B3w", "B3", True, True),
        ("B4", "B4", True, True),
        ("B4fac", "B4fac", True, True),
        ("B4flat", "B4flat", True, True),
        ("B4ope", "B4", True, True),
        ("B5", "B5", False, True),
        ("B5w", "B5", True, True),
        ("B1u", "B1", False, False),
        ("B2u", "B2", False, False),
        ("B2su", "B2s", False, False),
        ("B2gu", "B2g", False, False),
        ("B3u", "B3", False, False),
        ("B4u", "B4", True, False),
        ("B5u", "B5", False, False),
        ("A1", "A1", True, True),
        ("A2", "B4", True, False),
        ("A3", "B4", False, True),
        ("A3s", "B4", True, True),
        ("A3a", "B4", True, True),
        ("A4", "B4flat", True, True),
    ],
)
def test_what_a_key_means(key: str, family: str, is_warm: bool, is_gated: bool) -> None:
    method = parse(key)
    assert key in DEFAULT
    assert (method.key, method.family) == (key, family)
    assert (method.is_warm, method.is_gated) == (is_warm, is_gated)
    assert method.teaches == {"A3s": ("scaler",), "A3a": ("arms",)}.get(key, ("scaler", "arms"))
    assert method.is_reweighted == (key == "B4ope")
    assert method.family in fitting.JUDGED


def test_every_key_has_a_title_of_its_own() -> None:
    assert len(DEFAULT) == len(set(DEFAULT)) == 28
    assert len({key.lower() for key in DEFAULT}) == 28  # they name files
    labels = [parse(key).label for key in DEFAULT]
    assert len(set(labels)) == 28
    assert all(0 < len(label) <= 40 for label in labels)


@pytest.mark.parametrize("key", ["", "B", "B0", "B1w", "B4w", "b4", "B2wu", "B4opeu", "A3w", "A5"])
def test_another_key_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(f"no method '{key}'; there are B1, B2,")):
        parse(key)


def test_the_recorded_settings_make_every_method() -> None:
    for variant in tuning.VARIANTS:
        subject = study("str", variant, {}, EPISODES)
        recorded = tuned_settings("str", variant)
        assert set(recorded) == set(fitting.JUDGED)
        for family, settings in recorded.items():
            assert set(settings["judged"]) == set(fitting.JUDGED[family])
        for key in DEFAULT:
            build(subject, key, recorded)


# What they are made of


def test_who_learns_and_who_has_a_scaler() -> None:
    kinds = {
        "B1": BetaThompson,
        "B2": LinearThompson,
        "B2s": SharedLinearThompson,
        "B2g": LogisticThompson,
        "B3": HierarchicalThompson,
        "B4": StackedThompson,
        "B4avg": StackedThompson,
        "B4fac": FactoredThompson,
        "B4flat": BetaThompson,
        "B5": BradleyTerryThompson,
        "A1": HierarchicalCurveThompson,
    }
    subject = study("str", "well", {}, EPISODES)
    for key in (*DEFAULT, "B4avg"):
        setup = build(subject, key, tuned())
        family = setup.method.family
        assert type(setup.bandit) is kinds[family]
        scaler = LogLinearScaler if family.startswith("B4") else ConstantScaler
        assert type(setup.instance.scaler) is scaler
        gates = ["revenue manager", "price bounds"] if setup.method.is_gated else []
        assert [gate.name for gate in setup.instance.chain.gates] == gates
        setup.instance.check_bandit(setup.instance.bind(setup.bandit))
        assert setup.asks == (family == "B5")


@pytest.mark.parametrize(("form", "follows"), [("relative", "scaled"), ("additive", "shifted")])
def test_a_form_reaches_both_loops(form: str, follows: str) -> None:
    """One curve instead of two averaged, and the scaler fits the same form."""
    setup: Any = build(study("str", "well", {}, EPISODES), "B4", {"B4": UNTUNED | {"form": form}})
    assert isinstance(setup.bandit, HierarchicalCurveThompson)
    assert setup.bandit.curve.form == form
    assert setup.instance.scaler.follows == follows


def test_scale_and_width_reach_the_learner() -> None:
    """Twice the scale: twice the prior's sd, or a quarter of the pseudo-counts."""
    subject = study("str", "well", {}, EPISODES)
    wide = {
        family: settings | {"scale": 2.0, "signal": 2.0, "width": 0.25}
        for family, settings in tuned().items()
    }
    one: dict[str, Any] = {key: build(subject, key, tuned()) for key in DEFAULT}
    two: dict[str, Any] = {key: build(subject, key, wide) for key in DEFAULT}
    for key in ("B2", "B2s", "B2g", "B5"):
        before, after = one[key].bandit, two[key].bandit
        assert np.asarray(after.prior_sd) == pytest.approx(2.0 * np.asarray(before.prior_sd))
        assert (before.width, after.width) == (0.5, 0.25)
    for key in ("B1", "B4flat", "B4fac"):
        before, after = one[key].bandit, two[key].bandit
        for name in ("wins", "losses"):
            expected = np.maximum(np.array(getattr(before, name)) / 4.0, 0.05)
            assert np.array(getattr(after, name)) == pytest.approx(expected)
    before, after = one["B3"].bandit, two["B3"].bandit
    assert (after.sd, after.between) == pytest.approx((2 * before.sd, 2 * before.between))
    assert after.noise == pytest.approx(0.5 * before.noise)
    for k, form in enumerate(("relative", "additive")):
        before, after = one["B4"].bandit.members[k], two["B4"].bandit.members[k]
        assert before.curve.form == after.curve.form == form
        assert after.own_sd == pytest.approx(2.0 * np.array(before.own_sd))
        assert after.curve.prior_sd == pytest.approx(2.0 * np.array(before.curve.prior_sd))
    before, after = one["B4"].instance.scaler, two["B4"].instance.scaler
    assert np.array(after.penalty) == pytest.approx(np.array(before.penalty) / 4.0)


def test_beta_arms_have_the_fitted_mean_and_weight() -> None:
    settings = tuned()["B1"]
    arms: Any = build(study("str", "well", {}, 1), "B1", tuned()).bandit
    total = np.array(arms.wins) + np.array(arms.losses)
    assert total == pytest.approx(np.array(settings["total"]))
    assert np.array(arms.wins) / total == pytest.approx(np.array(settings["mean"]))


# Pooled


def test_the_pooled_world_is_the_plain_one_to_the_bit() -> None:
    for variant in ("well", "mis"):
        subject: Any = study("str", variant, {"manager": "private"}, EPISODES)
        plain, together = subject.domain.world, Pooled(subject.domain.world, UNITS)
        group = np.repeat(np.arange(3), UNITS)
        one, two = Streams(5, UNITS), Streams(5, UNITS)
        state, other = (
            world.start(streams.at(WORLD, 0), group)
            for world, streams in ((plain, one), (together, two))
        )
        width = subject.domain.instance.context.width
        for t in range(2):
            rows = plain.context(one.at(CONTEXT, t), state, t, group)
            seen = together.context(two.at(CONTEXT, t), other, t, group)
            assert seen.hidden is not None
            assert bytes_of(seen.x[:, :width], seen.hidden[:, :2]) == bytes_of(rows.x, rows.hidden)
            assert seen.unit.tolist() == np.repeat([0, 8, 16], UNITS).tolist()
            assert (seen.group == rows.group).all()
            which = seen.x[:, width:].reshape(3, UNITS, UNITS - 1)
            assert (which == np.eye(UNITS)[:, 1:]).all()  # none for the first
            e = rng_of(t).uniform(60, 300, (rows.n, 5, 1))
            for name in ("mean",):
                mine, theirs = getattr(together, name), getattr(plain, name)
                assert bytes_of(mine(other, e, seen)) == bytes_of(theirs(state, e, rows))
            for name in ("best", "candidates"):
                mine, theirs = getattr(together, name), getattr(plain, name)
                assert bytes_of(mine(other, seen)) == bytes_of(theirs(state, rows))
            booked = plain.sample(one.at(OUTCOME, t), state, e[:, 0], rows)
            assert bytes_of(together.sample(two.at(OUTCOME, t), other, e[:, 0], seen)) == bytes_of(
                booked
            )
            delta, same = plain.true_delta(state, rows), together.true_delta(other, seen)
            if variant == "mis":
                assert delta is None
                assert same is None
            else:
                assert same is not None
                assert bytes_of(same) == bytes_of(delta)
            assert together.label(two.at(LABEL, t), other, e[:, 0], seen) is None
            assert together.advance(two.at(LABEL, t), other, e[:, 0], booked, seen) is other


def test_a_pooled_gate_answers_as_the_plain_one() -> None:
    """The manager reads x and what is hidden by position, and both are where they were."""
    subject: Any = study("str", "well", {"manager": "private"}, EPISODES)
    instance, plain = subject.domain.instance, subject.domain.world
    wide = pooled_instance(instance, UNITS)
    assert wide.context.names == instance.context.names + names(UNITS)
    assert names(UNITS) == tuple(f"unit_{k}" for k in range(1, UNITS))
    group, streams = np.repeat(np.arange(9), UNITS), Streams(6, UNITS)
    state = plain.start(streams.at(WORLD, 0), group)
    rows = plain.context(streams.at(CONTEXT, 0), state, 0, group)
    seen = Pooled(plain, UNITS).context(streams.at(CONTEXT, 0), state, 0, group)
    e = rng_of(1).uniform(60, 300, (rows.n, 1))
    draws = instance.chain.draw(streams.at(OUTCOME, 0), rows.n)
    one, two = instance.chain.apply(draws, e, rows), wide.chain.apply(draws, e, seen)
    assert bytes_of(one.action, one.statuses) == bytes_of(two.action, two.statuses)
    wide.check_rows(seen, rows.n)
    assert truth_of(wide, Pooled(plain, UNITS), state, seen).best.tolist() == (
        truth_of(instance, plain, state, rows).best.tolist()
    )


def test_a_pooled_history_is_the_group_s_first_unit_s() -> None:
    shared = shared_by(task_of(GROUND, options=FEW))
    past = shared.history
    before = to_bytes(past.log)
    together = pooled_history(past, UNITS)
    assert to_bytes(past.log) == before  # other methods have it too
    width = past.rows.x.shape[1]
    assert (together.log.unit == UNITS * past.log.group).all()
    assert bytes_of(together.log.x) == bytes_of(together.rows.x)
    assert bytes_of(together.log.x[:, :width]) == bytes_of(past.log.x)
    place = past.log.unit % UNITS
    assert (together.log.x[:, width:] == (place[:, None] == np.arange(1, UNITS))).all()
    assert together.rows.hidden is not None
    assert (together.rows.hidden[:, -1] == past.log.unit).all()
    assert together.verdict is past.verdict
    for name in ("group", "action", "y", "is_own", "is_override", "weight", "arm"):
        assert getattr(together.log, name) is getattr(past.log, name)


# The history as they see it


def test_an_ungated_warm_start_keeps_what_ran() -> None:
    """B4u learns from the past's prices as they ran; there is no gate that it could learn."""
    task = task_of("B4u", options=FEW)
    shared = shared_by(task)
    setup = build(shared.study, "B4u", tuned())
    past = block._past(setup, shared, task, shared.world)
    assert past is not None
    assert past.verdict.statuses.shape[1] == 0
    assert past.verdict.trail.shape[1] == 1
    assert not past.log.is_override.any()
    assert bytes_of(past.log.action) == bytes_of(shared.history.log.action)
    assert (shared.history.verdict.statuses[:, 0] == MODIFIED).any()
    assert shared.history.log.is_override.any()
    cold = build(shared.study, "A3", tuned())
    assert block._past(cold, shared, task, shared.world) is None


def test_the_operator_is_asked_about_the_past() -> None:
    task = task_of("B5w")
    shared = shared_by(task)
    setup = build(shared.study, "B5w", tuned())
    past = block._past(setup, shared, task, setup.world(shared.study.domain.world))
    assert past is not None
    coords = shared.instance.space.coords
    assert np.isin(past.log.x[:, -1], coords).all()
    assert bytes_of(past.log.x) == bytes_of(past.rows.x)
    assert bytes_of(past.log.x[:, :-1]) == bytes_of(shared.history.log.x)
    assert set(past.log.y) == {0.0, 1.0}
    assert bytes_of(past.log.action) == bytes_of(shared.history.log.action)
    # What ran mostly was the manager's, or near it: it is preferred to a far rival.
    own = shared.study.own(shared.history.rows)
    relative = shared.instance.composition.relative(own, shared.history.log.x)[:, 0]
    far = np.abs(past.log.x[:, -1] - relative) > 0.35
    assert past.log.y[far].mean() > 0.8
    assert past.log.y[~far].mean() < past.log.y[far].mean()


def test_rivals_have_nothing_to_do_with_the_nights() -> None:
    """600 nights of one replicate: 64 correlations below 5/√600; a false alarm of 4e-5."""
    task = task_of("B5", episodes=600, replicates=1, options=FEW)
    shared = shared_by(task)
    world = build(shared.study, "B5", tuned()).world(shared.study.domain.world)
    state = shared.world.state
    group, streams = np.zeros(UNITS, dtype=np.int64), Streams(task.seed, UNITS)
    seen = [world.context(streams.at(CONTEXT, t), state, t, group).x for t in range(600)]
    occupancy, rival = np.array([x[:, 0] for x in seen]), np.array([x[:, -1] for x in seen])
    both = np.corrcoef(occupancy.T, rival.T)[:UNITS, UNITS:]
    assert np.abs(both).max() < 5.0 / np.sqrt(600)


def test_labels_of_ablations_and_warm_keys() -> None:
    assert parse("A2").label == "no gate"
    assert parse("B4u").label == "GDCB, ungated"
    assert parse("B2w").label == "LinTS, weights per arm, warm"
    assert parse("B2").label == "LinTS, weights per arm, cold"
    assert methods.LABELS["B4"] == parse("B4").label == "GDCB"
