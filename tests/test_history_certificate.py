"""A log summed up, judged and learned: sums by hand, rows against sums, whole against parts."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb import Agent, BetaThompson, GaussianThompson, LinearThompson, Scaled
from gdcb import round as turn
from gdcb.analysis import WithoutGate, ask, context_bias
from gdcb.analysis.bias import freedom_of
from gdcb.analysis.context_models import line_through
from gdcb.engine import named
from gdcb.errors import Conflict, InvalidInput
from gdcb.history import Batch, certify, certify_recent, open_log, read, recent_rows, to_ask
from gdcb.history.arms import adjusted, arm_sums, bias_of, missing_by_arm
from gdcb.history.certificate import Certificate
from gdcb.history.certification import pilot_of, summed
from gdcb.history.gate_changes import gate_changes
from gdcb.history.overrides import contrast_of
from gdcb.history.passage import passed_through, verdict_of
from gdcb.history.plan import FOLDS, Plan, plan_of
from gdcb.history.stability import reward_law
from gdcb.history.statistics import Statistics
from gdcb.history.warm import start, treated, warm_start, warm_start_from_sums
from gdcb.instance import Rules
from gdcb.records import EXPIRED, HELD, MODIFIED, NOT_REACHED, PASSED, VETOED, to_bytes
from gdcb.theorems.made_logs import ARMS, KINDS, MadeLog, made_log, mean_reward
from tests.builders import letting, letting_log, night, rows_of
from tests.log_builders import listing, nights
from tests.properties import examples

QUIET = examples(20)


@cache
def made(kind: str, n: int, replicate: int = 0) -> MadeLog:
    return made_log(KINDS[kind], n, replicate)


@cache
def planned(kind: str, n: int) -> tuple[Plan, Statistics]:
    log = made(kind, n)
    return summed(log.batch, log.instance, log.bandit)


@cache
def certified(kind: str, n: int) -> Certificate:
    log = made(kind, n)
    return certify(log.batch, log.instance, log.bandit, full=False)


# What became of a proposal


def owner_batch(**columns: Any) -> Batch:
    """Return four nights of `letting` at base 100 with proposals of 100."""
    x = np.tile([100.0, 0.0, 1.0, 0.0, 0.0], (4, 1))
    zero, price = np.zeros(4, dtype=np.int64), np.array([[100.0], [120.0], [50.0], [np.nan]])
    parts: dict[str, Any] = {
        "recommended": np.array([[100.0], [100.0], [20.0], [100.0]]),
        "status": np.array([PASSED, MODIFIED, -1, VETOED], dtype=np.int8),
    }
    return Batch(x, price, np.zeros((4, 1)), zero, np.arange(4.0), **(parts | columns))


def test_a_passage_is_worked_out_from_what_entered_and_what_ran() -> None:
    """Night 1 passed; 2 was edited; 3 the bounds raised to 50, nobody edited it; 4 was vetoed."""
    instance, batch = letting(), owner_batch()
    verdict = verdict_of(instance, batch, rows_of(batch.x))
    owner, limits = PASSED, MODIFIED
    assert verdict.statuses.tolist() == [
        [PASSED, PASSED],
        [MODIFIED, PASSED],
        [owner, limits],
        [VETOED, NOT_REACHED],
    ]
    assert verdict.trail[:3, :, 0].tolist() == [[100, 100, 100], [100, 120, 120], [20, 20, 50]]
    assert np.isnan(verdict.trail[3, 1:]).all()
    history = passed_through(instance, batch, batch.unit, batch.unit)
    assert history.log.is_override.tolist() == [False, True, False, False]
    assert history.log.is_null.tolist() == [False, False, False, True]
    assert history.log.is_own.tolist() == [True, False, False, False]


def test_a_hold_that_ended_is_no_veto() -> None:
    batch = owner_batch(status=np.array([0, 1, 0, HELD], dtype=np.int8))
    assert verdict_of(letting(), batch, rows_of(batch.x)).statuses[3, 0] == HELD


def test_an_expired_hold_is_nobodys_answer_whatever_ran() -> None:
    """Nights 1 and 2 ran a declared action after their holds had expired, the first the same."""
    status = np.array([EXPIRED, EXPIRED, 0, EXPIRED], dtype=np.int8)
    instance, batch = letting(), owner_batch(status=status)
    verdict = verdict_of(instance, batch, rows_of(batch.x))
    assert verdict.statuses[:, 0].tolist() == [EXPIRED, EXPIRED, PASSED, EXPIRED]
    assert verdict.trail[:2, :, 0].tolist() == [[100, 100, 100], [100, 120, 120]]
    assert verdict.status[:2].tolist() == [MODIFIED, MODIFIED]
    log = passed_through(instance, batch, batch.unit, batch.unit).log
    assert not log.is_own[:2].any()
    assert not log.is_override[:2].any()


def test_without_proposals_nothing_is_said_of_the_gates() -> None:
    """What ran stands for the proposal, and no kernel learns from it."""
    instance, batch = letting(), owner_batch(recommended=None, status=None)
    history = passed_through(instance, batch, batch.unit, batch.unit)
    assert (history.verdict.statuses == NOT_REACHED).all()
    assert history.kernels is not None
    assert not history.log.is_override.any()


# Sums


@QUIET
@given(st.integers(1, 1999), st.integers(1, 1999))
def test_sums_of_parts_are_the_sums_of_the_whole(one: int, other: int) -> None:
    plan, whole = planned("d1", 2000)
    cuts = sorted({0, one, other, 2000})
    total = Statistics.zeros(plan)
    for low, high in pairwise(cuts):
        part = Statistics.zeros(plan)
        part.add(plan, made("d1", 2000).batch.take(slice(low, high)))
        total.merge(part)
    for name in ("moments", "cells", "acted", "passage", "seen", "counts"):
        np.testing.assert_allclose(getattr(total, name), getattr(whole, name), rtol=1e-9, atol=1e-8)


def test_moments_are_those_of_the_rows() -> None:
    """Σzzᵀ over all places is that of every row on its arm or off it, outcomes included."""
    plan, found = planned("c", 2000)
    batch = made("c", 2000).batch
    history = passed_through(plan.instance, batch, batch.unit, batch.unit)
    arm, off = plan.place(
        history.log.action, history.log.is_null, plan.delta(batch.unit, batch.x), batch.x
    )
    one, y = np.ones((batch.n, 1)), history.log.y[:, None]
    z = np.concatenate((one, plan.features(batch.x), off, y), axis=1)
    np.testing.assert_allclose(found.moments.sum(axis=(0, 1, 2)), z.T @ z, rtol=1e-9, atol=1e-7)
    last = z[arm == 6]
    np.testing.assert_allclose(
        found.moments.sum(axis=(0, 2))[6], last.T @ last, rtol=1e-9, atol=1e-7
    )
    assert found.counts[0] == 2000
    assert found.passage[-1].sum() == 2000


def test_bias_from_sums_is_bias_from_rows() -> None:
    """The same folds, and a reference of mean 0 on the arm itself: `context_bias` agrees."""
    plan, statistics = planned("c", 2000)
    batch = made("c", 2000).batch
    history = passed_through(plan.instance, batch, batch.unit, batch.unit)
    arm, off = plan.place(
        history.log.action, history.log.is_null, plan.delta(batch.unit, batch.x), batch.x
    )
    phi = plan.features(batch.x)
    centred = np.concatenate((phi - phi.mean(axis=0), 0.0 * off), axis=1)
    rows = context_bias(
        np.concatenate((phi, off), axis=1),
        np.where(arm < 7, arm, -1),
        history.log.y,
        centred,
        n_arms=7,
        folds=plan.segment(batch.time) % FOLDS,
        pooling=20.0,
    )
    sums = arm_sums(statistics.moments, 1.0)
    line = line_through(sums.by_fold, sums.mean[None], 1.0, 20.0, freedom_of(sums.n[None])[0])
    assert np.abs(line.bias - rows.bias).max() < 0.03  # penalties are in other units there
    found, line = bias_of(sums, 0.95)
    np.testing.assert_allclose(found.n, rows.n)
    np.testing.assert_allclose(found.noise, rows.noise, rtol=1e-9)
    assert line.slopes.shape == (FOLDS, 1, 7, plan.features.mean.size + 1)


def test_adjusted_sums_are_those_of_adjusted_rows() -> None:
    """Σr̃ and Σr̃² from moments, against rows from which the other folds' line was taken off."""
    certificate = certified("c", 5000)
    log = made("c", 5000)
    assert "adjust" in certificate.treatment.verdicts
    sums = arm_sums(certificate.statistics.moments, 1.0)  # type: ignore[union-attr]
    found, _ = adjusted(sums, bias_of(sums, 0.95)[1])
    trusting = replace(certificate.treatment, slopes=bias_of(sums, 0.95)[1].slopes[:, 0])
    history = passed_through(log.instance, log.batch, log.batch.unit, log.batch.unit)
    arm, _ = certificate.plan.place(
        history.log.action,
        history.log.is_null,
        certificate.plan.delta(log.batch.unit, log.batch.x),
        log.batch.x,
    )
    taught = treated(replace(certificate, treatment=trusting), log.batch, np.zeros(1, dtype=int))
    for a, verdict in enumerate(certificate.treatment.verdicts):
        if verdict == "adjust":
            y = taught.log.y[arm == a]
            np.testing.assert_allclose(found[a], (y.size, y.sum(), (y**2).sum()), rtol=1e-8)


def test_adjusting_finds_the_arms_values() -> None:
    """At 100,000 confounded rows, adjusted means are within 0.12 of the truth, plain ones are not.

    The outermost arm, which ran in a fifth of the contexts, is the one that is 0.1 off.
    """
    log = made("c", 100_000)
    _, statistics = planned("c", 100_000)
    sums = arm_sums(statistics.moments, 1.0)
    found, _ = adjusted(sums, bias_of(sums, 0.95)[1])
    grid = np.tile(np.array(ARMS), (log.batch.n, 1))
    truth = mean_reward(grid, log.batch.x, log.best).mean(axis=0)
    assert np.abs(found[:, 1] / found[:, 0] - truth).max() < 0.12
    assert np.abs(sums.level - truth).max() > 0.5


# Tests of the family


def test_no_change_is_no_alarm_and_a_change_is_dated() -> None:
    """40 logs in which nothing changes, at 0.01; then a change of the law, and one of the gate."""
    alarms = 0
    names = (*planned("a", 2000)[0].features.names, "off")
    even = np.ones(len(names) + 1)
    for replicate in range(40):
        log = made("a", 2000, replicate)
        _, found = summed(log.batch, log.instance, log.bandit)
        arms = log.instance.space.names
        alarms += bool(reward_law(found.moments, names, arms, 0.01, even).changes)
    assert alarms <= 3  # 0.4 are expected, and more than 3 come with probability 0.001
    _, found = planned("d2l", 5000)
    changed = reward_law(found.moments, names, made("d2l", 5000).instance.space.names, 0.01, even)
    when = made("d2l", 5000).law_changed
    assert when is not None
    assert changed.changes
    assert abs(changed.changes[-1].split / 100 - when / 5000) < 0.05
    gate = gate_changes(planned("d1", 2000)[1].acted[0], "approval", 0.01)
    assert [round(change.split, -1) for change in gate.changes] == [60]
    assert gate.changes[0].before > 0.7 > 0.6 > gate.changes[0].after


def test_contrast_by_hand() -> None:
    """One arm, no context: 50 approved rows of mean 0, 50 overridden of mean 1, variance 1.

    w = 1/(1/50 + 1/50) = 25; the difference is 1 and its standard error √(s²/25), s² = 98/97 or so.
    """
    moments = np.zeros((1, 2, 2, 3, 3))
    for o, (total, square) in enumerate(((0.0, 49.0), (50.0, 99.0))):
        moments[0, 0, o] = [[50.0, 0.0, total], [0.0, 50.0, 0.0], [total, 0.0, square]]
    found = contrast_of(moments)
    assert found is not None
    assert found.difference == pytest.approx(1.0)
    assert found.high - found.low == pytest.approx(2 * 1.96 / 5, rel=0.03)
    assert found.posterior == pytest.approx(3.07e-05, rel=0.5)
    assert found.p < 1e-5


def test_missing_outcomes_by_hand() -> None:
    """100 rows an arm; 10 and 30 are missing: χ² = 2·10²/(100·0.2·0.8) = 12.5 with one freedom."""
    seen = np.zeros((1, 1, 3, 2))
    seen[0, 0, :2] = [[100.0, 10.0], [100.0, 30.0]]
    share, p = missing_by_arm(seen)
    assert share == pytest.approx(0.2)
    assert p == pytest.approx(4.07e-4, rel=0.01)
    assert missing_by_arm(np.zeros((1, 1, 3, 2))) == (0.0, None)


@pytest.mark.parametrize("shares", [(0.2,) * 5, (0.3, *[0.0778] * 9)], ids=["alike", "unequal"])
def test_rarely_missing_outcomes_are_no_sign_of_selection(shares: tuple[float, ...]) -> None:
    """One percent of 5,000 outcomes, spread at random: at 0.05, 10 alarms of 200 are expected.

    More than 20 come with probability 0.001 of a test of this size. By the chi-squared law one of
    five logs gave an alarm where arms are unequal.
    """
    alarms = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        arm = rng.choice(len(shares), 5000, p=np.array(shares) / sum(shares))
        at, gone = rng.integers(6, size=5000) * len(shares) + arm, rng.random(5000) < 0.01
        n = 6 * len(shares)
        seen = np.stack((np.bincount(at, minlength=n), np.bincount(at, gone, n)), axis=1)
        p = missing_by_arm(seen.reshape(1, 6, len(shares), 2), 0.05)[1]
        assert p is not None
        alarms += p <= 0.05
    assert alarms <= 20


def test_outcomes_missing_rarely_but_in_one_arm_are_found() -> None:
    """Twelve of 600 are missing in one of five arms, and none elsewhere: p is at most 0.01."""
    seen = np.zeros((1, 1, 5, 2))
    seen[..., 0] = 600.0
    seen[0, 0, 2, 1] = 12.0
    p = missing_by_arm(seen, 0.01)[1]
    assert p is not None
    assert p <= 0.01


def test_outcomes_missing_selectively_forbid_a_direct_start() -> None:
    log = made("a", 10_000)
    batch = replace(log.batch, outcome=log.batch.outcome.copy())
    dear = batch.action[:, 0] > np.median(batch.action[:, 0])
    gone = dear & (np.random.default_rng(1).random(batch.n) < 0.2)
    batch.outcome[gone] = np.nan
    found = certify(batch, log.instance, log.bandit, full=False)
    document = found.as_json()
    assert document["missing_outcomes"]["is_selective"]
    assert document["missing_outcomes"]["share"] == pytest.approx(gone.mean())
    assert found.verdict == "adjust"


# Verdicts, and what they do


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [("a", "direct"), ("b", "direct"), ("c", "adjust"), ("d1", "direct"), ("d2", "adjust"),
     ("e", "direct"), ("f1", "adjust")],
)  # fmt: skip
def test_the_verdict_on_a_made_log(kind: str, verdict: str) -> None:
    # In b a small bias of the cheapest arm is left, which takes more rows to be shown small.
    certificate = certified(kind, 40_000 if kind == "b" else 10_000)
    assert certificate.verdict == verdict, certificate.reasons
    refused = [arm.arm for arm in certificate.arms if arm.verdict == "refuse"]
    assert refused == (["1.4", "1.6"] if kind == "e" else [])


def test_the_action_must_vary_at_equal_contexts() -> None:
    """In b prices scatter by 40 % around what context says; without that nothing is known."""
    log = made("b", 2000)
    seen = certify(log.batch, log.instance, log.bandit).as_json()["action_variation"]
    assert seen["low"] > 0.02
    assert "still varied" in seen["says"]
    follows = np.exp(0.2 * log.batch.x[:, :1])  # a function of context alone
    fixed = replace(log.batch, action=follows, recommended=follows)
    stuck = certify(fixed, log.instance, log.bandit).as_json()["action_variation"]
    assert stuck["mean"] < 1e-4
    assert "hardly varied" in stuck["says"]


def test_units_of_other_levels_are_no_change_of_the_law() -> None:
    """Ten units, each of its own level, join one after another: each has a learner of its own."""
    log = made("a", 10_000)
    unit = np.arange(10_000) // 1000
    level = np.random.default_rng(2).normal(0.0, 0.5, 10)
    batch = replace(log.batch, unit=unit, outcome=log.batch.outcome + level[unit][:, None])
    found = certify(batch, log.instance, log.bandit, full=False)
    assert found.figures["reward_law"]["stable"], found.reasons
    together = certify(replace(batch, unit=0 * unit), log.instance, log.bandit, full=False)
    assert not together.figures["reward_law"]["stable"]


def test_logged_propensities_are_taken_though_some_rows_are_off_every_arm() -> None:
    log = made("b", 5000)
    batch = replace(log.batch, propensity=np.full(5000, 0.2))
    found = certify(batch, log.instance, log.bandit, full=False)
    assert found.treatment.is_logged


def test_credit_to_proposals_is_refused() -> None:
    log = made("a", 200)
    instance = replace(log.instance, rules=Rules(credit="proposed"))
    with pytest.raises(InvalidInput, match="credit"):
        certify(log.batch, instance, log.bandit)


def test_what_a_learner_reads_of_the_context_needs_no_adjustment() -> None:
    """The best level falls with the context, so that worth bends with it: lines leave that over."""
    log = made("c", 10_000)
    every, one = (
        certify(log.batch, log.instance, LinearThompson(features=read), full=False)
        for read in (("*",), ("busy",))
    )
    none = certify(log.batch, log.instance, log.bandit, full=False)
    sizes = [np.abs([arm.bias for arm in found.arms]).max() for found in (every, one, none)]
    assert max(sizes[:2]) < sizes[2]
    part = every.plan.part
    assert part is not None
    p = every.plan.features.columns.size
    np.testing.assert_allclose(part[:, :p], 0.0, atol=1e-9)  # nothing of a column is taken off
    phi = every.plan.features(log.batch.x)
    left = phi @ part[: phi.shape[1], : phi.shape[1]]
    np.testing.assert_allclose(left.T @ phi[:, :p] / phi.shape[0], 0.0, atol=1e-6)


def test_sums_teach_what_rows_teach() -> None:
    """Independent arms, overrides believed: a posterior from sums is that from rows."""
    for kind in ("b", "c"):
        log = made(kind, 5000)
        instance = replace(log.instance, rules=Rules(select="nominal", overrides="all"))
        certificate = certify(log.batch, instance, log.bandit, full=False)
        group = np.zeros(1, dtype=np.int64)
        by_rows, by_sums = (turn.init(instance, log.bandit, group) for _ in range(2))
        warm_start(certificate, log.batch, instance, log.bandit, by_rows, group)
        assert certificate.statistics is not None
        warm_start_from_sums(certificate, certificate.statistics, instance, log.bandit, by_sums)
        for name in ("weight", "count", "estimate", "rest"):
            mine, theirs = getattr(by_rows.bandit, name), getattr(by_sums.bandit, name)
            np.testing.assert_allclose(mine, theirs, rtol=1e-8, err_msg=f"{kind} {name}")


def test_a_refused_history_teaches_nothing() -> None:
    log = made("a", 200)
    few = log.batch.take(slice(0, 12))
    certificate = certify(few, log.instance, log.bandit, full=False)
    assert certificate.verdict == "refuse"
    group = np.zeros(1, dtype=np.int64)
    state = turn.init(log.instance, log.bandit, group)
    before = to_bytes(state)
    warm_start(certificate, few, log.instance, log.bandit, state, group)
    assert to_bytes(state) == before


def test_an_override_is_written_down_and_used() -> None:
    log = made("a", 200)
    few = log.batch.take(slice(0, 60))
    reason = "pilot on one listing"
    certificate = certify(few, log.instance, log.bandit, full=False, override=reason)
    assert certificate.override == (reason, "refuse")
    assert any(reason in sentence for sentence in certificate.reasons)
    assert certificate.verdict != "refuse"
    assert certificate.as_json()["override"] == {"reason": reason, "verdict_without": "refuse"}


def test_the_document_is_whole_and_json() -> None:
    log = made("f1", 2000)
    document = certify(log.batch, log.instance, log.bandit).as_json()
    json.dumps(document, allow_nan=False)
    assert {
        "verdict", "reasons", "rows", "variance_ratio", "arms", "gates", "reward_law", "level",
        "override_contrast", "missing_outcomes", "logged_bias", "sensitivity", "transport",
        "assumptions",
    } <= set(document)  # fmt: skip
    assert document["sensitivity"]["arms"]["value"] >= 1
    assert 0 <= document["transport"]["product"] <= document["transport"]["tv"] <= 1
    assert {"arm", "verdict", "ess", "bias", "standard_error"} <= set(document["arms"][0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"level": 0.0}, "level"),
        ({"level": 0.0009}, "level: expected a number >= 0.001"),
        ({"margin": -1.0}, "margin"),
        ({"override": ""}, "override"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    log = made("a", 2000)
    with pytest.raises(InvalidInput, match=message):
        certify(log.batch, log.instance, log.bandit, **settings)


def test_a_log_without_rows_is_refused() -> None:
    log = made("a", 200)
    with pytest.raises(InvalidInput, match="at least one valid row"):
        certify(log.batch.take(slice(0, 0)), log.instance, log.bandit)


def test_a_learner_of_another_target_is_refused() -> None:
    log = made("a", 200)
    with pytest.raises(InvalidInput, match="BetaThompson"):
        certify(log.batch, log.instance, BetaThompson())


# Logs in parts


def in_parts(folder: Path, n: int, parts: int) -> Path:
    for i, part in enumerate(letting_log(n).iter_slices(-(-n // parts))):
        part.write_parquet(folder / f"part-{i:02}.parquet")
    return folder


def test_parts_on_any_engine_give_the_same_bits(tmp_path: Path, monkeypatch: Any) -> None:
    """A log too large for the pilot is summed up part by part, here and on two processes."""
    monkeypatch.setattr("gdcb.history.certification.MOST", 300)
    monkeypatch.setattr("gdcb.history.certification.pilot_of", lambda parts: pilot_of(parts, 300))
    folder = in_parts(tmp_path, 1000, 5)
    instance, found = letting(), []
    for engine in (None, named("local"), named("pool")):
        source = open_log(folder, instance)
        plan, statistics = summed(source, instance, BetaThompson(), engine=engine)
        assert not plan.is_whole
        assert source.report.read == 1000
        found.append(to_bytes(statistics))
    assert found[0] == found[1] == found[2]


def test_a_large_log_teaches_by_sums(tmp_path: Path, monkeypatch: Any) -> None:
    """Whole or in parts, the arms learn the same rows; δ̂ and weights come from the pilot."""
    folder, instance = in_parts(tmp_path, 1000, 5), letting()
    monkeypatch.setattr("gdcb.history.certification.pilot_of", lambda parts: pilot_of(parts, 400))
    agent = Agent(instance, BetaThompson())
    certificate = agent.warm_up(folder)
    assert not certificate.plan.is_whole
    event: Any = agent.events[0]
    assert event.rows is None
    assert event.state is not None
    again = Agent.replay(agent.events, instance, BetaThompson(), 0)
    assert to_bytes(again.state) == to_bytes(agent.state)
    assert 200 < agent.state.bandit.counts.sum() <= 1000
    before = to_bytes(agent.state)
    assert agent.refit() == []  # arms could not be refolded: the rows were not kept
    assert to_bytes(agent.state) == before


def test_a_pilot_is_thinned_evenly() -> None:
    log = made("a", 1000).batch

    class Piece:
        def __init__(self, low: int, high: int) -> None:
            self.rows = slice(low, high)

        def batches(self) -> list[Batch]:
            return [log.take(self.rows)]

    pilot, is_whole = pilot_of([Piece(0, 333), Piece(333, 334), Piece(334, 1000)], 300)
    assert not is_whole
    assert pilot.time.tolist() == list(range(0, 1000, 4))
    assert pilot_of([Piece(0, 1000)], 1000)[1]


# An agent


@cache
def warm_agent() -> Agent:
    agent = Agent(letting(), BetaThompson(), seed=5)
    agent.warm_up(letting_log(1500))
    return agent


def test_an_agent_starts_warm_and_replays() -> None:
    agent = Agent(letting(), BetaThompson(), seed=5)
    certificate = agent.warm_up(letting_log(1500))
    assert not certificate.is_refused
    for i in range(3):
        case = agent.decide(night(100.0 + i), unit="flat 1")
        agent.observe(case.id, {"booked": 1}, label=[0.1])
    again = Agent.replay(agent.events, letting(), BetaThompson(), 5)
    assert to_bytes(again.state) == to_bytes(agent.state)
    assert again.units == agent.units == {"flat 0": 0, "flat 1": 1}


def test_a_warm_agent_survives_its_file(tmp_path: Path) -> None:
    agent = warm_agent()
    agent.save(tmp_path / "agent.zip")
    again = Agent.load(tmp_path / "agent.zip", letting(), BetaThompson())
    assert to_bytes(again.state) == to_bytes(agent.state)
    assert agent.kept.log is not None
    assert (
        again.kept.numbers.tolist() == agent.kept.numbers.tolist() == [-1] * agent.kept.log.y.size
    )


def test_a_certificate_that_was_changed_does_not_replay() -> None:
    event: Any = warm_agent().events[0]
    forged = replace(event, certificate=event.certificate | {"verdict": "direct", "arms": []})
    with pytest.raises(Conflict, match="comes out as"):
        Agent.replay([forged], letting(), BetaThompson(), 5)


def test_the_same_log_twice_is_noticed() -> None:
    agent = Agent(letting(), BetaThompson())
    agent.warm_up(letting_log(600))
    before = to_bytes(agent.state)
    with pytest.raises(Conflict, match="this log was imported already"):
        agent.warm_up(letting_log(600))
    with pytest.raises(Conflict, match="another log"):
        agent.warm_up(letting_log(600, seed=1))
    assert to_bytes(agent.state) == before
    assert len(agent.events) == 1


def test_a_start_is_before_the_first_decision() -> None:
    agent = Agent(letting(), BetaThompson())
    agent.decide(night())
    with pytest.raises(Conflict, match="before the first decision"):
        agent.warm_up(letting_log(100))


def test_a_refused_log_leaves_the_agent_as_it_was() -> None:
    agent = Agent(letting(), BetaThompson())
    before = to_bytes(agent.state)
    assert agent.warm_up(letting_log(15)).verdict == "refuse"
    assert not agent.events
    assert to_bytes(agent.state) == before


def test_strict_refuses_rows_that_break_the_schema() -> None:
    agent = Agent(letting(), BetaThompson())
    log = letting_log(300).with_columns(
        busy=pl.when(pl.col("base") > 290).then(7).otherwise("busy")
    )
    with pytest.raises(InvalidInput, match="busy"):
        agent.warm_up(log, strict=True)
    assert not agent.events


def test_start_needs_no_log_where_its_rows_were_kept() -> None:
    certificate = certified("b", 10_000)
    log = made("b", 10_000)
    group = np.zeros(1, dtype=np.int64)
    state, kept = start(certificate, None, log.instance, log.bandit, group)
    assert kept is not None
    assert 5000 < state.bandit.weight.sum() <= 10_000


def test_an_agents_own_decisions_are_a_log() -> None:
    """What it proposed, what the owner made of it and what came of it, since an event."""
    agent = Agent(letting(), BetaThompson(), seed=5)
    for i in range(60):
        case = agent.decide(night(100.0 + i))
        if case.status == "held":
            agent.resolve(case.id, "edit", {"price": 200.0}, by="owner")
        if i % 10:
            agent.observe(case.id, {"booked": i % 2})
    batch = recent_rows(agent)
    assert batch.n == 54
    first = next(iter(agent.records.values()))
    assert first.outcome is None
    second = next(one for one in agent.records.values() if one.outcome is not None)
    assert second.executed is not None
    assert batch.action[0].tolist() == second.executed.tolist()
    assert batch.recommended is not None
    assert batch.recommended[0].tolist() == second.made.action[second.at].tolist()
    late = recent_rows(agent, len(agent.events) - 40)
    assert 0 < late.n < 54
    assert late.x.tolist() == batch.x[-late.n :].tolist()
    assert certify_recent(agent, full=False).figures["rows"]["read"] == 54
    with pytest.raises(InvalidInput, match="no outcome"):
        recent_rows(agent, len(agent.events))


def test_a_log_is_asked_what_another_gate_would_have_earned() -> None:
    """The bounds never acted, so that without them nothing changes; without proposals: refused."""
    instance = letting()
    batch, _ = read(letting_log(1500), instance)
    answer = ask(instance, to_ask(instance, batch), WithoutGate("limits"))
    assert answer.kind == "value"
    assert answer.changed == 0.0
    with pytest.raises(InvalidInput, match="proposed"):
        to_ask(instance, replace(batch, recommended=None))


def test_a_plan_needs_rows() -> None:
    log = made("a", 200)
    with pytest.raises(InvalidInput, match="valid row"):
        plan_of(log.instance, log.bandit, log.batch.take(slice(0, 0)))


# Outcomes that never vary


@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_where_every_outcome_is_the_same_nothing_can_be_told(value: float, units: int) -> None:
    """No spread: neither bias nor dependence is measured, and no row is learned from."""
    frame = nights(600).with_columns(booked=pl.lit(int(value)))
    frame = frame.drop("propensity", *(["unit"] if units == 1 else []))
    instance = listing()
    batch, _ = read(frame, instance)
    found = certify(batch, instance, BetaThompson(), full=False)
    assert found.verdict == "refuse"
    assert {arm.verdict for arm in found.arms} == {"refuse"}
    assert sum("every outcome is the same" in reason for reason in found.reasons) == 1
    assert not found.dependence.is_tested
    other = np.where(np.arange(600) == 300, 1.0 - value, value)[:, None]
    batch = replace(batch, outcome=other)
    assert certify(batch, instance, BetaThompson(), full=False).verdict != "refuse"


@pytest.mark.parametrize("share", [1.0, 0.85])
def test_a_reward_that_follows_from_the_action_is_refused(share: float) -> None:
    """Where only sold nights are logged the revenue is the price, less a commission."""
    instance = listing(reward=Scaled(outcome=("revenue",)))
    rng = np.random.default_rng(0)
    frame = nights(600).with_columns(price=pl.col("price") * rng.uniform(0.95, 1.05, 600).round(2))
    batch, _ = read(frame.with_columns(revenue=share * pl.col("price")), instance)
    found = certify(batch, instance, GaussianThompson(prior_mean=100.0, rate=2000.0))
    assert found.verdict == "refuse"
    assert sum("the outcome follows from the action" in reason for reason in found.reasons) == 1
    assert found.figures["sensitivity"]["arms"]["value"] is None


def test_effective_rows_are_never_more_than_rows() -> None:
    """Overridden rows count in part, or not at all: they are no effective rows either."""
    instance = listing(rules=Rules(overrides="approved"))
    batch, _ = read(nights(600).drop("propensity"), instance)
    found = certify(batch, instance, BetaThompson(), full=False)
    assert found.treatment.overrides == 0.0
    assert all(0.0 < arm.ess <= arm.rows + 1e-9 for arm in found.arms)
