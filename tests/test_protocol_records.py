"""The records that methods leave: whole, repeatable, paired, and what their turns say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instances import study
from gdcb.protocol import block, fitting, ground, methods, tuning
from gdcb.protocol.ground import BINS, shared_by
from gdcb.protocol.methods import DEFAULT, SAME, SCALED, build, parse
from gdcb.protocol.record import Ground, Record
from gdcb.protocol.record_checks import check_record
from gdcb.protocol.task import GROUND
from gdcb.records import MODIFIED, PASSED, Rows, to_bytes
from gdcb.simulate import Turn, simulate
from tests.parts.builders import bytes_of
from tests.protocol_tasks import (
    EPISODES,
    FEW,
    KNOBS,
    REPLICATES,
    UNITS,
    fitted_priors,
    settings_of,
    task_of,
)


@pytest.fixture(scope="module", autouse=True)
def _settings() -> Iterator[None]:
    """Put settings from a small sample of worlds in the place of the recorded ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(methods, "tuned_settings", settings_of)
        yield


def at(hidden: Array | None) -> Array:
    """Return what is hidden, which is there."""
    assert hidden is not None
    return hidden


def ran(key: str, variant: str = "well", **changes: Any) -> Record:
    """Return the record of a tiny task."""
    record = block.run_task(task_of(key, variant, **changes))
    assert isinstance(record, Record)
    return record


@pytest.fixture(scope="module")
def records(_settings: None) -> dict[str, dict[str, Record]]:
    """Return the records of all methods in both variants."""
    return {variant: {key: ran(key, variant) for key in DEFAULT} for variant in tuning.VARIANTS}


def test_records_are_whole_and_their_parts_sum(records: Any) -> None:
    """Parts to 1e-9 of the total in every episode and replicate; the paper's order too."""
    for variant, by_key in records.items():
        found = block.run_task(task_of(GROUND, variant))
        assert isinstance(found, Ground)
        assert found.floor.shape == (EPISODES, REPLICATES)
        assert (found.floor > 0).all()
        assert (found.edges == BINS).all()
        for key, record in by_key.items():
            check_record(key, record, found)
            gap = record.parts[..., 1:].sum(axis=-1) - record.parts[..., 0]
            assert np.abs(gap).max() < 1e-9, key
            assert (record.parts[..., 1:3] >= -1e-9).all(), key  # calibration, bandit
            is_known = np.isfinite(record.parts_paper)
            assert is_known.all() if variant == "well" else not is_known.any()
            if variant == "well":
                gap = record.parts_paper.sum(axis=-1) - record.parts[..., 0]
                assert np.abs(gap).max() < 1e-9, key


def test_what_a_record_counts(records: Any) -> None:
    for by_key in records.values():
        for key, record in by_key.items():
            method = parse(key)
            nights = EPISODES * UNITS
            assert (record.recommended.sum(axis=1) == nights).all(), key
            assert (record.executed.sum(axis=1) == nights).all(), key
            assert ((record.success >= 0) & (record.success <= 1)).all(), key
            assert (record.reward >= 0).all(), key
            has_scaler = method.family in SCALED
            assert np.isfinite(record.error).all() == has_scaler, key
            if method.is_gated:
                assert record.overridden.mean() == pytest.approx(0.3, abs=0.15)
            else:
                assert (record.overridden == 0).all(), key
                assert (record.parts[..., 3] == 0).all(), key
                assert (record.recommended == record.executed).all(), key


def test_an_advantage_is_over_the_incumbent_behind_the_same_gate(records: Any) -> None:
    """Expected reward = best − regret, whoever decides: advantage + regret = best − incumbent."""
    for variant, by_key in records.items():
        shared = shared_by(task_of(GROUND, variant))
        best = np.array([truth.best for truth in shared.truths]) - shared.incumbent
        expected = best.reshape(EPISODES, REPLICATES, UNITS).mean(axis=2)
        for key, record in by_key.items():
            assert record.advantage + record.parts[..., 0] == pytest.approx(expected), key


def test_ablations_that_are_another_key_s_run(records: Any) -> None:
    assert SAME == {"A2": "B4u", "A4": "B4flat"}
    for by_key in records.values():
        for key, other in SAME.items():
            assert to_bytes(by_key[key]) == to_bytes(by_key[other])
        rest = [to_bytes(by_key[key]) for key in DEFAULT if key not in SAME]
        assert len(set(rest)) == len(rest)  # and no others


def test_which_loop_has_the_history(records: Any) -> None:
    """The scaler's first error is its prior's unless it was taught, whatever the arms were."""
    for by_key in records.values():
        assert bytes_of(by_key["A3"].error[0]) == bytes_of(by_key["A3a"].error[0])
        assert bytes_of(by_key["B4"].error[0]) == bytes_of(by_key["A3s"].error[0])
        assert (by_key["B4"].error[0] != by_key["A3"].error[0]).all()


@pytest.mark.parametrize("key", ["B1", "B2gw", "B4", "B4ope", "B5w", "A1"])
def test_a_task_gives_the_same_bytes_whatever_ran_before(key: str, records: Any) -> None:
    """Again, behind another variant's task in this process, and with nothing kept."""
    first = to_bytes(records["well"][key])
    assert to_bytes(ran(key)) == first
    ran("B4", "mis", seed=8)
    for other in ("B2gw", "B5w", "B4ope", "B4u"):  # on what this key will share
        ran(other)
    assert to_bytes(ran(key)) == first
    ground._shared.cache_clear()
    assert to_bytes(ran(key)) == first


@pytest.mark.parametrize(
    "key",
    [
        *DEFAULT,
    ],
)
def test_a_replicate_is_the_same_in_a_larger_block(key: str, records: Any) -> None:
    few, more = records["well"][key], ran(key, replicates=REPLICATES + 2)
    for name in ("parts", "parts_paper", "reward", "advantage", "overridden", "success", "error"):
        assert bytes_of(getattr(few, name)) == bytes_of(getattr(more, name)[:, :REPLICATES]), name
    for name in ("recommended", "executed", "overrides"):
        assert bytes_of(getattr(few, name)) == bytes_of(getattr(more, name)[:REPLICATES]), name


@pytest.mark.parametrize(
    "key",
    [
        *("B1", "B2gw", "B2sw", "B3w", "B4", "B4ope", "B5", "B5w"),
    ],
)
def test_a_later_block_is_that_of_a_long_run(key: str) -> None:
    alone = ran(key, block=1, replicates=2, episodes=2, options=FEW)
    long = ran(key, replicates=102, episodes=2, options=FEW)
    for name in ("parts", "reward", "advantage", "error"):
        assert bytes_of(getattr(alone, name)) == bytes_of(getattr(long, name)[:, 100:]), name


@pytest.mark.parametrize("family", list(fitting.SHAPES))
def test_every_form_of_a_rival_runs(
    family: str,
) -> None:
    """One learner a listing or a market; degrees; interactions: none is another's run."""
    fitted = fitted_priors("well")
    task = task_of(f"{family}w")
    shared, seen = shared_by(task), set()
    forms = fitting.forms_of(shared.study, family)
    for form in forms:
        moments = fitted[fitting.key_of(family, form)]
        setup = build(shared.study, task.method, {family: moments | KNOBS})
        assert setup.is_pooled == form["is_pooled"]
        record = block.run_setup(setup, shared, task)
        check_record(task.method, record, shared.ground)
        seen.add(to_bytes(record))
    assert len(seen) == len(forms)


class Seen:
    """Stands for `simulate` and keeps every turn, its rows as the plain world made them."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []

    def __call__(self, *parts: Any, watch: Any, **settings: Any) -> Any:
        self.turns = []
        width = study("str", "well", {}, 1).domain.instance.context.width
        unit = np.arange(REPLICATES * UNITS)

        def both(turn: Turn) -> None:
            watch(turn)
            hidden = turn.rows.hidden
            assert hidden is not None
            rows = Rows(unit, unit // UNITS, turn.rows.x[:, :width], hidden=hidden[:, :2])
            self.turns.append(replace(turn, rows=rows))

        return simulate(*parts, watch=both, **settings)


def test_methods_are_paired(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same nights and verdicts for all; and a guest who books at a chance books at a higher.

    The manager approves without a look at the price, so that all have the same nights approved.
    """
    seen = Seen()
    monkeypatch.setattr(block, "simulate", seen)
    nights, approvals, chances, bookings = [], [], [], []
    shared = shared_by(task_of(GROUND))
    rental: Any = shared.world.world
    state, chance = shared.world.state, rental.chance
    for key in DEFAULT:
        ran(key)
        x = [np.concatenate((turn.rows.x, at(turn.rows.hidden)), axis=1) for turn in seen.turns]
        nights.append(bytes_of(*x))
        if parse(key).is_gated:
            statuses = [turn.verdict.statuses[:, 0] for turn in seen.turns]
            approvals.append(np.array(statuses) == PASSED)
        executed = [(turn.executed.action[:, None], turn.rows) for turn in seen.turns]
        chances.append(np.array([chance(state, e, rows)[:, 0] for e, rows in executed]))
        bookings.append(np.array([turn.outcome[:, -1] for turn in seen.turns]))
    assert len(set(nights)) == 1
    assert all((one == approvals[0]).all() for one in approvals)
    assert 0.5 < approvals[0].mean() < 0.9
    p, booked = np.array(chances), np.array(bookings)
    order = np.argsort(p, axis=0)
    sorted_bookings = np.take_along_axis(booked, order, axis=0)
    assert (np.diff(sorted_bookings, axis=0) >= 0).all()
    assert 0.3 < booked.mean() < 0.8


@pytest.mark.parametrize("key", ["B4", "B2gw", "B5", "B4u"])
def test_a_record_is_what_its_turns_say(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Worked out again from proposals, executed prices and bookings: plain, pooled, asked."""
    seen = Seen()
    monkeypatch.setattr(block, "simulate", seen)
    record, shared = ran(key), shared_by(task_of(GROUND))
    state, world = shared.world.state, shared.study.domain.world

    def by_replicate(column: Any) -> Array:
        return np.asarray(np.reshape(column, (REPLICATES, UNITS)).mean(axis=1))

    counts = np.zeros((2, REPLICATES, BINS.size - 1))
    for turn in seen.turns:
        rows, price, booked = turn.rows, turn.executed.action[:, 0], turn.outcome[:, -1]
        proposed = turn.decision.action[:, 0]
        assert record.reward[turn.t] == pytest.approx(by_replicate(booked * price))
        assert record.success[turn.t] == pytest.approx(by_replicate(booked))
        assert record.overridden[turn.t] == pytest.approx(by_replicate(price != proposed))
        best = world.mean(state, world.best(state, rows)[:, None], rows)[:, 0]
        ran_for = world.mean(state, price[:, None, None], rows)[:, 0]
        free = world.mean(state, turn.decision.actions, rows)
        lost = best - ran_for, best - free.max(axis=1)
        assert record.parts[turn.t, :, 0] == pytest.approx(by_replicate(lost[0]))
        assert record.parts[turn.t, :, 1] == pytest.approx(by_replicate(lost[1]))
        for k, e in enumerate((proposed, price)):
            relative = e / (rows.x[:, -2] * rows.x[:, -1])
            for g in range(REPLICATES):
                mine = np.clip(relative[rows.group == g], BINS[0], BINS[-1])
                counts[k, g] += np.histogram(mine, BINS)[0]
    assert (counts[0] == record.recommended).all()
    assert (counts[1] == record.executed).all()


@pytest.mark.parametrize("key", ["B4", "B2gw", "B5", "B4u", "A1"])
def test_overrides_are_counted_as_a_plain_loop_counts_them(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row by row and feature by feature: plain, pooled, asked, ungated; some rounds at a time."""
    seen = Seen()
    monkeypatch.setattr(block, "simulate", seen)
    monkeypatch.setattr(block, "ROUNDS", 4)  # six episodes: one whole batch, and a rest
    record, shared = ran(key), shared_by(task_of(GROUND))
    names, features = shared.instance.context.names, shared.study.features
    assert record.overrides is not None
    expected = np.zeros((REPLICATES, len(features), 5, 6))
    for turn in seen.turns:
        for i in range(turn.rows.n):
            before, after = turn.decision.action[i, 0], turn.executed.action[i, 0]
            fate = 1 if after > before else 2 if after < before else 0
            for f, name in enumerate(features):
                at_column = names.index(name)
                known, value = shared.reference[:, at_column], turn.rows.x[i, at_column]
                fifths = np.quantile(known, (0.2, 0.4, 0.6, 0.8))
                edges = [0.5] if set(known) <= {0.0, 1.0} else list(fifths)
                cell = expected[i // UNITS, f, sum(value >= edge for edge in edges)]
                cell[fate] += 1
                cell[5] += np.log(after / before)
    assert (record.overrides[..., :5] == expected[..., :5]).all()
    assert record.overrides[..., 5] == pytest.approx(expected[..., 5])
    n_changed = expected[:, 0, :, 1:3].sum()
    assert n_changed == 0 if key == "B4u" else 20 < n_changed < REPLICATES * UNITS * EPISODES / 2


def test_the_incumbent_meets_the_verdicts_that_the_methods_meet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the manager did not approve, the same price of their own ran instead."""
    seen = Seen()
    monkeypatch.setattr(block, "simulate", seen)
    ran("B4")
    shared = shared_by(task_of(GROUND))
    state, world = shared.world.state, shared.study.domain.world
    n = 0
    for turn in seen.turns:
        other = turn.verdict.statuses[:, 0] == MODIFIED
        worth = world.mean(state, turn.executed.action[:, None], turn.rows)[:, 0]
        assert (shared.incumbent[turn.t][other] == worth[other]).all()
        assert (shared.incumbent[turn.t][~other] != worth[~other]).all()
        n += int(other.sum())
    assert n > 20


def test_a_run_of_what_is_not_there_is_refused() -> None:
    for changes, message in (
        ({"method": "B9"}, "no method 'B9'"),
        ({"name": "chess"}, "no instance 'chess'"),
        ({"variant": "wel"}, "variant: expected one of well, mis"),
        ({"options": (("nights", 0),)}, "nights: expected a whole number >= 1"),
    ):
        with pytest.raises(InvalidInput, match=message):
            block.run_task(replace(task_of("B4"), **changes))
