"""Worlds whose context is endogenous, as the protocol runs them: here the Kalman study, untuned."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from gdcb.arrays import Array
from gdcb.cli import app
from gdcb.errors import InvalidInput
from gdcb.instances import study
from gdcb.instances.kalman import learners
from gdcb.instances.kalman.plants import plant_named
from gdcb.instances.kalman.seeds import FORGOTTEN, first_innovations, steady_part
from gdcb.protocol import methods
from gdcb.protocol.block import _past, run_setup
from gdcb.protocol.experiment import settings_of
from gdcb.protocol.ground import Shared, shared_by
from gdcb.protocol.methods import build, methods_of, parse, require_applicable
from gdcb.protocol.record import Record
from gdcb.protocol.record_checks import check_record
from gdcb.protocol.task import Task
from gdcb.records import History
from gdcb.scalers import CovarianceScaler

FEW = (("steps", 160),)
TARGET = plant_named("target")
UNTUNED = learners.untuned(TARGET)
SETTINGS = {
    "B1": {"scale": 1.0, "noise": 2.0, "mean": [-2.5] * 4, "sd": [1.0] * 4},
    "B4": UNTUNED,
    "A1": UNTUNED,
}
KEYS = ("B4", "B1", "K1", "K2", "K3", "K4")


@cache
def shared() -> Shared:
    """Return what methods share in two replicates of twelve steps."""
    return shared_by(_task("B4"))


def _task(key: str) -> Task:
    return Task("kalman", "well", FEW, 3, 12, 0, 2, key)


@cache
def record_of(key: str) -> Record:
    """Return what a method did."""
    return run_setup(build(shared().study, key, SETTINGS), shared(), _task(key))


# Regret and its floor


@pytest.mark.parametrize("key", KEYS)
def test_four_parts_sum_to_the_total_in_every_round(key: str) -> None:
    record = record_of(key)
    check_record(key, record, shared().ground)
    assert record.parts.shape == (12, 2, 5)
    total, parts = record.parts[..., 0], record.parts[..., 1:]
    assert np.abs(parts.sum(axis=-1) - total).max() < 1e-9


@pytest.mark.parametrize("key", KEYS)
def test_nothing_is_inherited_at_first_and_never_less_than_nothing(key: str) -> None:
    """All trajectories begin in the same place; the world's own filter is the best there is."""
    inherited = record_of(key).parts[..., 4]
    assert np.abs(inherited[0]).max() < 1e-9
    assert inherited.min() > -1e-9
    assert inherited.max() > 1e-3


def test_the_floor_is_what_the_optimum_loses_on_its_own_trajectory() -> None:
    """K2 proposes the optimum, and so its regret is the floor; nobody else's is."""
    floor = shared().floor
    assert np.abs(record_of("K2").parts[..., 0] - floor).max() < 1e-12
    for key in ("B4", "B1", "K1", "K4"):
        lost = record_of(key).parts[..., 0]
        assert np.abs(lost - floor).max() > 0.1
        assert lost.sum() > floor.sum()


def test_without_a_gate_the_optimum_loses_nothing() -> None:
    assert np.abs(record_of("K2u").parts).max() < 1e-9


def test_the_incumbent_is_followed_on_its_own_trajectory() -> None:
    """A method's advantage is that of one trajectory over another, from one reference."""
    top = record_of("K2").advantage + record_of("K2").parts[..., 0]
    for key in ("B4", "K1"):
        record = record_of(key)
        assert record.advantage + record.parts[..., 0] == pytest.approx(top, abs=1e-9)


def test_reference_contexts_are_met_on_the_way() -> None:
    """They are not those of a beginning, when every track is young and all modes are as likely."""
    found, schema = shared(), shared().instance.context
    young = found.reference[:, schema.positions["young"][0]]
    assert np.median(young) < 0.2
    for name in ("likely_buffeted", "likely_manoeuvre"):
        assert np.ptp(found.reference[:, schema.positions[name][0]]) > 0.3


# What a record may be


def _broken(**changes: Any) -> tuple[Record, Array]:
    record = record_of("B4")
    parts = record.parts.copy()
    return replace(record, parts=parts, **changes), parts


def test_a_fifth_part_that_is_too_large_is_refused() -> None:
    record, parts = _broken()
    check_record("B4", record, shared().ground)
    parts[3, 1, 4] += 1e-6
    with pytest.raises(InvalidInput, match=r"record of B4: .*sum"):
        check_record("B4", record, shared().ground)


def test_a_fifth_part_that_is_not_known_is_refused() -> None:
    record, parts = _broken()
    parts[3, 1, 4] = np.nan
    with pytest.raises(InvalidInput, match=re.escape("parts") + ".*nan"):
        check_record("B4", record, shared().ground)


def test_a_sixth_part_is_refused() -> None:
    record, parts = _broken()
    record.parts = np.concatenate((parts, parts[..., :1] * 0.0), axis=2)
    with pytest.raises(InvalidInput, match=r"parts of shape \(12, 2, 4\), got \(12, 2, 6\)"):
        check_record("B4", record, shared().ground)


# Which methods there are


def test_a_domain_runs_its_own_references_and_starts_and_no_other_does() -> None:
    assert set(methods_of(shared().study)) >= {*KEYS, "K2u", "A5m", "A5c", "A5p"}
    others = methods_of(study("str", "well", {}, 3))
    assert not [key for key in others if key.startswith(("K", "A5"))]


@pytest.mark.parametrize("key", ["K1", "K3u", "A5m"])
def test_a_method_of_another_domain_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput, match=f"method {key} does not apply here: the domain has"):
        settings_of("str", "well", 3, 2, 0, (key,), (("nights", 40),))


@pytest.mark.parametrize("key", ["K5", "K1w", "A5", "A5mu"])
def test_what_nobody_has_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput, match=f"no method '{key}'; there are .*K4"):
        require_applicable(shared().study, (key,))


# The triple cold start, each seed left out in turn


def scaler() -> CovarianceScaler:
    """Return the scaler that B4 has here, its columns bound."""
    instance = build(shared().study, "B4", SETTINGS).instance
    assert isinstance(instance.scaler, CovarianceScaler)
    return instance.scaler


def learned(history: History) -> Array:
    """Return what the scaler learns from a history: (replicates, B)."""
    assert history.label is not None
    one = scaler()
    state, log = one.init(2), history.log
    weight = np.ones(log.group.size)
    one.observe(state, log.group, history.rows.x, log.action, history.label, weight)
    return np.asarray(one.publish(state, np.arange(2)).size and state.beta)


def test_only_p0_is_learned_from_first_innovations() -> None:
    """All else stays what the prior says, and P₀ is no longer that."""
    history, prior = shared().history, np.array(scaler().prior_mean)
    found = learned(first_innovations(scaler(), history))
    assert (found[:, :-1] == prior[:-1]).all()
    assert (np.abs(found[:, -1] - prior[-1]) > 1e-3).all()


def test_a_first_innovation_says_what_r_leaves_of_it() -> None:
    """Its square less what the prior's R explains; P₀ responds as before, and all else by 0."""
    history, size = shared().history, scaler().size
    before, after = history.label, first_innovations(scaler(), history).label
    assert before is not None
    assert after is not None
    kept = np.isfinite(after[:, 0])
    assert 0 < kept.sum() < kept.size
    square, prior = before[kept, 2 : 2 + size], np.array(scaler().prior_mean)
    rest = before[kept, 0] - square[:, :-1] @ prior[:-1]
    assert after[kept, 0] == pytest.approx(rest)
    assert (after[kept, 2 : 1 + size] == 0.0).all()
    assert (after[kept, 1 + size] == square[:, -1]).all()
    assert np.isnan(after[:, 1]).all()


def test_all_but_p0_is_learned_from_the_steady_part() -> None:
    history, prior = shared().history, np.array(scaler().prior_mean)
    found = learned(steady_part(scaler(), history))
    assert (found[:, -1] == prior[-1]).all()
    assert (np.abs(found[:, :-1] - prior[:-1]) > 1e-3).any()


def test_the_steady_part_is_steps_that_have_forgotten_p0_as_they_were() -> None:
    history, size = shared().history, scaler().size
    before, after = history.label, steady_part(scaler(), history).label
    assert before is not None
    assert after is not None
    square, prior = before[:, 2 : 2 + size], np.array(scaler().prior_mean)
    is_old = square[:, -1] * prior[-1] <= FORGOTTEN * (square @ prior)
    assert 0 < is_old.sum() < is_old.size
    assert np.isnan(after[~is_old, :2]).all()
    same = [i for i in range(before.shape[1]) if i not in (1 + size, 1 + 2 * size)]
    assert np.array_equal(after[is_old][:, same], before[is_old][:, same], equal_nan=True)


@pytest.mark.parametrize("change", [first_innovations, steady_part])
def test_nothing_else_of_the_history_changes(change: Any) -> None:
    history = shared().history
    assert history.label is not None
    before = history.label.copy()
    found = change(scaler(), history)
    assert np.array_equal(history.label, before, equal_nan=True)
    for name in ("rows", "log", "verdict", "kernels"):
        assert getattr(found, name) is getattr(history, name)
    with pytest.raises(InvalidInput, match="expected the scaler's labels, got none"):
        change(scaler(), replace(history, label=None))


def test_modes_that_are_not_seeded_leave_the_scaler_its_history() -> None:
    setup = build(shared().study, "A5m", SETTINGS)
    assert setup.method.teaches == ("scaler",)
    whole = build(shared().study, "B4", SETTINGS)
    assert set(whole.method.teaches) == {"scaler", "arms"}
    task, world = _task("A5m"), shared().plays
    one, other = _past(setup, shared(), task, world), _past(whole, shared(), task, world)
    assert one is not None
    assert other is not None
    assert one.label is not None
    assert other.label is not None
    assert np.array_equal(one.label, other.label, equal_nan=True)
    assert [parse(key).family for key in ("A5m", "A5c", "A5p")] == ["B4"] * 3


def test_every_seed_that_is_left_out_is_another_run() -> None:
    rewards = {key: record_of(key).reward.tobytes() for key in ("B4", "A5m", "A5c", "A5p")}
    assert len(set(rewards.values())) == 4


# The page


def test_the_report_says_what_is_inherited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "tuned_settings", lambda *_: SETTINGS)
    arguments = ["run", "kalman", "--methods", "B4,A3,K2,K3,K4,A5p", "--option", "steps=160"]
    arguments += ["--episodes", "4", "--replicates", "2", "--engine", "local"]
    called = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path)])
    assert called.exit_code == 0, called.output
    document = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    for method in document["methods"].values():
        assert set(method["parts"]) == {"calibration", "bandit", "gate", "inherited"}
        total = sum(part["mean"] for part in method["parts"].values())
        assert total == pytest.approx(method["regret"]["mean"], abs=1e-9)
    assert document["methods"]["K2"]["excess"]["mean"] == pytest.approx(0.0, abs=1e-9)
    # K2 and K3 are given the truth: they are no rivals.
    assert document["against_best"]["cold"]["rival"] == "K4"
    assert document["against_best"]["warm"] is None
    page = html.unescape((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "Inherited: what no action could regain, because of what ran before" in page
    assert "Four parts of the regret" in page
    assert "RMSE of the estimate" in page
    assert "P₀ not seeded" in page
    import polars as pl

    rows = pl.read_parquet(tmp_path / "episodes.parquet")
    gap = rows["inherited"] + rows["calibration"] + rows["bandit"] + rows["gate"] - rows["regret"]
    assert gap.abs().to_numpy().max() < 1e-9
