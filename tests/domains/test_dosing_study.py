"""Clinics, what they need and what follows; the scaler's map; the study under the protocol."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gdcb import checks
from gdcb.analysis.regret import TrueMean, gate_floor
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.instances import Study
from gdcb.instances.dosing import fit, learners, need, physician, study
from gdcb.instances.dosing.advice import advice, head_of
from gdcb.instances.dosing.columns import ADVICE, FEATURES, MEAL, WEIGHT, by_weight
from gdcb.instances.dosing.domain import PATIENTS, delta
from gdcb.instances.dosing.world import MEALTIME, MIDDLE, OWN, Clinic, Meals, place
from gdcb.protocol.block import run_task
from gdcb.protocol.ground import neutral_of
from gdcb.protocol.methods import build, settings_for
from gdcb.protocol.priors import spread
from gdcb.protocol.record import Record
from gdcb.protocol.sampling import sample
from gdcb.protocol.task import Task
from gdcb.records import Rows
from gdcb.scalers import GaussianProcessScaler
from gdcb.simulate import Turn, simulate
from gdcb.streams import CONTEXT, LABEL, OUTCOME, WORLD, Streams
from tests.parts.builders import rng_of

VARIANTS = pytest.mark.parametrize("variant", ["well", "mis"])


def opened(variant: str, clinics: int = 4, seed: int = 21) -> tuple[Meals, Clinic, Rows, Streams]:
    """Return a world, its clinics, a first meal of everyone, and the streams."""
    world, streams = Meals(variant), Streams(seed, PATIENTS)
    group = np.repeat(np.arange(clinics), PATIENTS)
    state = world.start(streams.at(WORLD, 0), group)
    return world, state, world.context(streams.at(CONTEXT, 0), state, 0, group), streams


@VARIANTS
def test_a_clinic_has_eight_of_the_thirty(variant: str) -> None:
    world, state, rows, _ = opened(variant, clinics=50)
    clinics = state.patient.reshape(-1, PATIENTS)
    assert all(np.unique(row).size == PATIENTS for row in clinics)
    assert np.unique(state.patient).size == 30
    np.testing.assert_array_equal(rows.x[:, WEIGHT], world.table.weight[state.patient])
    assert (place(rows) // world.table.states == state.patient).all()


@VARIANTS
def test_the_mean_is_what_rewards_average_to(variant: str) -> None:
    """4,000 draws of 8 rows: every mean within 4.5 standard errors (false alarms: 6 in 100,000)."""
    world, state, rows, streams = opened(variant, clinics=1)
    many = rows.take(np.repeat(np.arange(rows.n), 4000))
    dose = np.linspace(0.5, 6.0, rows.n)
    e = np.repeat(dose, 4000)[:, None]
    drawn = world.sample(Streams(3, many.n).at(OUTCOME, 0), state, e, many)
    drawn = drawn[:, 0].reshape(rows.n, -1)
    mean = world.mean(state, dose[:, None, None], rows)[:, 0]
    error = drawn.std(axis=1, ddof=1) / 4000**0.5
    assert (np.abs(drawn.mean(axis=1) - mean) < 4.5 * error).all()
    assert streams is not None


@VARIANTS
def test_nothing_run_is_a_dose_of_nought(variant: str) -> None:
    world, state, rows, _ = opened(variant)
    e = np.full((rows.n, 3, 1), np.nan)
    e[:, 1], e[:, 2] = 0.0, -4.0
    mean = world.mean(state, e, rows)
    assert (mean == mean[:, :1]).all()


@VARIANTS
def test_no_candidate_beats_the_best(variant: str) -> None:
    world, state, rows, _ = opened(variant)
    best = world.mean(state, world.best(state, rows)[:, None], rows)
    tried = world.candidates(state, rows)
    assert tried.shape == (rows.n, 61, 1)
    assert (world.mean(state, tried, rows) <= best + 1e-9).all()


@VARIANTS
def test_no_proposal_is_worth_more_than_the_floor_says(variant: str) -> None:
    """Neither what our method proposes nor any dose of a fine grid, by more than 0.003."""
    made = study(variant, {"rows": 40}, 12)
    setup, world = build(made, "B4", settings_for(made)), made.domain.world
    instance = setup.instance
    gaps = []

    def see(seen: Turn) -> None:
        mean = TrueMean(instance, world, seen.world, seen.rows)
        best = mean(world.best(seen.world, seen.rows)[:, None])
        grid = np.broadcast_to(np.linspace(0.0, 40.0, 801)[:, None], (seen.rows.n, 801, 1))
        tried = np.concatenate((seen.decision.action[:, None], grid), axis=1)
        worth = instance.chain.expect(mean, tried, seen.rows).max(axis=1)
        gaps.append(gate_floor(instance, world, seen) - (best[:, 0] - worth))

    simulate(instance, setup.bandit, world, rounds=12, replicates=4, units=8, seed=11, watch=see)
    assert np.max(gaps) < 0.003
    assert np.mean(gaps) < 1e-4


@VARIANTS
def test_rows_know_nothing_of_each_other(variant: str) -> None:
    world, state, rows, _ = opened(variant)
    e = rng_of(4).uniform(0.0, 9.0, (rows.n, 5, 1))
    some = np.array([9, 2, 2, 30])
    together = world.mean(state, e, rows)
    assert world.mean(state, e[some], rows.take(some)).tobytes() == together[some].tobytes()


@VARIANTS
def test_what_ran_changes_no_later_meal(variant: str) -> None:
    """Contexts are exogenous: the state stays the same object."""
    world, state, rows, streams = opened(variant)
    e = np.full((rows.n, 1), 9.0)
    assert world.advance(streams.at(WORLD, 1), state, e, e, rows) is state


@VARIANTS
def test_labels_are_right_on_average(variant: str) -> None:
    """2,000 labels of 8 rows, within 4.5 standard errors (false alarms: 6 in 100,000)."""
    world, state, rows, _ = opened(variant, clinics=1)
    many = rows.take(np.repeat(np.arange(rows.n), 2000))
    label = world.label(Streams(5, many.n).at(LABEL, 0), state, np.zeros((many.n, 1)), many)
    label = label[:, 0].reshape(rows.n, -1)
    error = label.std(axis=1, ddof=1) / 2000**0.5
    gap = np.abs(label.mean(axis=1) - (world.right(state, rows) - MIDDLE))
    assert (gap < 4.5 * error).all()


def test_need_by_hand() -> None:
    """Level 6, δ* = 1 and width 2: a dose of 7 meets the need, 1 − ¼; one of 5 misses by q = −1."""
    made = need.Need(np.array([6.0]), np.array([2.0]), np.array([[1.0, 0.0, 0.0]]))
    x = np.array([[120.0, 0.0, 0.0, 0.0, 70.0]])
    carb_ratio, _ = by_weight(x[:, WEIGHT])
    x[:, MEAL] = (need.middle()[0] + 1.0) * carb_ratio
    row = Rows(np.zeros(1, int), np.zeros(1, int), x)
    assert made.offset(row) == pytest.approx(1.0)
    worth = made.worth(np.array([[7.0, 5.0]]), row)
    np.testing.assert_allclose(worth, [[0.75, 0.0]])
    assert made.best(row) == pytest.approx(7.0 - 0.2 * 2.0)


def test_the_offset_of_well_is_centred_on_all_meals() -> None:
    world = Meals("well")
    assert np.abs(need.terms(world.table.x).mean(axis=0)).max() < 1e-12


def test_the_physician_knows_half_of_what_sets_patients_apart() -> None:
    """Ratios are the geometric mean of the weight's and the patient's own."""
    world, state, rows, _ = opened("mis")
    usual, table = by_weight(rows.x[:, WEIGHT]), world.table
    np.testing.assert_allclose(
        state.carb_ratio, np.sqrt(usual[0] * table.carb_ratio[state.patient])
    )
    assert rows.hidden is not None
    assert (rows.hidden[:, OWN] >= 0.0).all()
    assert rows.hidden[:, MEALTIME].max() < table.x.shape[0]


def test_the_incumbent_goes_by_weight_alone() -> None:
    """Two patients with the same columns get the same dose, but for the scatter."""
    _, state, rows, streams = opened("mis")
    same = replace(rows, x=np.tile(rows.x[:1], (rows.n, 1)))
    dose = physician.incumbent(streams.at(WORLD, 9), state, same)
    assert dose.shape == (rows.n, 1)
    assert 0.02 < np.log(dose).std() < 0.4


@VARIANTS
def test_it_keeps_the_promises_of_a_domain(variant: str) -> None:
    """All but those that teach the scaler contexts of size 1: its kernel knows meals alone."""
    found = checks.report(study(variant, {}, 50).domain)
    known = {"scaler: it learns the signal", "scaler: delta is as large as the signal"}
    assert {result.name for result in found.broken} <= known


def test_rows_without_their_place_are_refused() -> None:
    world, state, rows, _ = opened("mis")
    with pytest.raises(InvalidInput, match="hidden column"):
        world.mean(state, np.zeros((rows.n, 1, 1)), replace(rows, hidden=None))


# The scaler's map


def test_the_stored_map_is_what_the_scaler_has() -> None:
    stored = json.loads(learners.MAP.read_text(encoding="utf-8"))
    for variant in ("well", "mis"):
        made = learners.scaler(variant, learners.UNTUNED)
        assert list(made.lengths) == stored[variant]["lengths"]
        assert len(made.inducing) == fit.POINTS[variant]
        assert made.features == FEATURES
    assert learners.MAP.stat().st_size < 100_000


def test_the_map_comes_of_the_pilot_alone() -> None:
    """On a small pilot: the same numbers twice, and points that are contexts of it."""
    seen = fit.pilot("mis", clinics=2, meals=15)
    first = fit.fit(seen, 9, rows=40)
    assert first == fit.fit(fit.pilot("mis", clinics=2, meals=15), 9, rows=40)
    assert len(first["inducing"]) == 9
    rounded = {tuple(float(f"{value:.5g}") for value in row) for row in seen.x}
    assert {tuple(point) for point in first["inducing"]} <= rounded
    assert seen.is_held_out.sum() == fit.HELD_OUT * 2 * PATIENTS


@pytest.mark.soak
@VARIANTS
def test_the_stored_map_is_made_again(variant: str) -> None:
    stored = json.loads(learners.MAP.read_text(encoding="utf-8"))[variant]
    made = fit.fit(fit.pilot(variant), fit.POINTS[variant])
    for name in ("variance", "noise", "shift", "unit", "lengths", "inducing"):
        np.testing.assert_allclose(made[name], stored[name], rtol=1e-3)


@VARIANTS
def test_the_stored_head_is_what_the_pilot_makes(variant: str) -> None:
    """On the stored map, from all labels of the pilot: the same advice to 1e-3 of a unit."""
    seen, known = fit.pilot(variant), learners.feature_map(variant)
    assert (Meals(variant, is_advised=False).x[:, ADVICE] == 0.0).all()
    scaler = replace(learners.of_map(known), features=tuple(range(len(FEATURES))))
    said = scaler.phi(seen.x) @ head_of(known, seen.x, seen.label)
    np.testing.assert_allclose(advice(variant, seen.x), said, atol=1e-3)


@VARIANTS
def test_everybody_may_read_the_advice(variant: str) -> None:
    """It is a function of the context, near the right dose; rivals read it, our scaler does not."""
    world, state, rows, _ = opened(variant, clinics=40)
    some = np.array([9, 2, 2, 30])
    assert advice(variant, rows.x[some]).tobytes() == rows.x[some, ADVICE].tobytes()
    right = world.right(state, rows) - MIDDLE
    assert np.var(right - rows.x[:, ADVICE]) < 0.5 * np.var(right)
    made = study(variant, {}, 10)
    assert made.features == (*FEATURES, "advice")
    scaler: Any = made.domain.instance.scaler
    assert ADVICE not in scaler.features


def test_labels_bring_the_offset_near_the_right_dose() -> None:
    """With 1,200 labels a clinic the scaler explains most of what right doses vary by."""
    world, state, _, streams = opened("mis", clinics=5)
    group = np.repeat(np.arange(5), PATIENTS)
    made = study("mis", {}, 10).domain.instance.scaler
    known = made.init(5)
    for t in range(150):
        rows = world.context(streams.at(CONTEXT, t), state, t, group)
        label = world.label(streams.at(LABEL, t), state, np.zeros((rows.n, 1)), rows)
        made.observe(known, rows.group, rows.x, label, label, np.ones(rows.n))
    made.publish(known, np.arange(5))
    gaps: list[Array] = []
    rights: list[Array] = []
    for t in range(200, 230):
        rows = world.context(streams.at(CONTEXT, t), state, t, group)
        rights.append(world.right(state, rows))
        gaps.append(MIDDLE + made.predict(known, rows.group, rows.x)[:, 0, 0] - rights[-1])
    assert np.var(np.concatenate(gaps)) < 0.25 * np.var(np.concatenate(rights))


@VARIANTS
def test_what_the_scaler_tends_to(variant: str) -> None:
    """δ° is near the right dose where the clinic has the patient; one number a context."""
    world, state, _, _ = opened(variant, clinics=2)
    at = (state.patient[:PATIENTS, None] * world.table.states + np.arange(0, 64, 8)).ravel()
    unit = np.repeat(np.arange(PATIENTS), 8)
    rows = Rows(unit, unit // PATIENTS, world.table.x[at], hidden=at[:, None].astype(float))
    found = delta(world, state, rows)
    assert found.shape == (2, rows.n)
    right = world.right(state, rows) - MIDDLE
    own, other = (np.sqrt(((row - right) ** 2).mean()) for row in found)
    assert own < 2.5
    assert own < other


# Under the protocol


@VARIANTS
def test_the_study_runs(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two methods with untuned settings: parts add up, measures are shares, nothing is NaN."""
    untuned = {"B4": learners.UNTUNED, "B1": {"mean": [0.3] * 6, "sd": [0.5] * 6, "noise": 0.5}}
    untuned["B1"] |= {"scale": 1.0}
    monkeypatch.setattr("gdcb.protocol.block.settings_for", lambda study: untuned)
    for key in ("B1", "B4", "A3"):
        record: Any = run_task(Task("dosing", variant, (), 11, 6, 0, 3, key))
        assert isinstance(record, Record)
        np.testing.assert_allclose(
            record.parts[..., 0], record.parts[..., 1:].sum(axis=-1), atol=1e-9
        )
        assert np.isfinite(record.reward).all()
        n = len(study(variant, {}, 6).measures)
        assert n == (3 if variant == "mis" else 0)


def test_measures_are_the_table_s_shares() -> None:
    world, state, rows, _ = opened("mis")
    made = study("mis", {}, 10)
    dose = world.candidates(state, rows)[:, 30]
    found = {one.name: one.of(state, dose, rows) for one in made.measures}
    at = place(rows)
    np.testing.assert_allclose(found["time_in_range"], world.table.shares[0][at, 30], atol=1e-9)
    np.testing.assert_allclose(found["time_below_70"], world.table.shares[1][at, 30], atol=1e-9)
    nothing = made.measures[2].of(state, np.full((rows.n, 1), np.nan), rows)
    np.testing.assert_allclose(nothing, world.table.shares[2][at, 0], atol=1e-9)


@VARIANTS
def test_what_the_reports_read(variant: str) -> None:
    made = study(variant, {"rows": 40}, 10)
    assert made.domain.units == PATIENTS
    assert not made.domain.is_endogenous
    assert "40 meals" in {row[0]: row[2] for row in made.specification}["history"]
    assert {"title", "unit", "action", "real", "made"} <= set(made.about)
    assert ("oracle_knows" in made.about) == (variant == "mis")  # in `well` x says all there is
    assert isinstance(made.scaler(learners.UNTUNED), GaussianProcessScaler)
    assert len(made.domain.about) > 2000


@pytest.mark.parametrize(
    ("options", "said"),
    [({"nights": 3}, "option rows, not nights"), ({"rows": 0}, "rows"), ({"rows": 2.5}, "rows")],
)
def test_options_that_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        study("mis", options, 10)


def test_a_variant_that_is_none() -> None:
    with pytest.raises(InvalidInput, match="variant"):
        study("real", {}, 10)


def test_learners_in_every_form() -> None:
    """One curve or the other; the priors come of the tuning worlds."""
    kinds = {
        form: type(learners.learner(learners.UNTUNED | {"form": form})).__name__
        for form in learners.FORMS
    }
    assert kinds == {"smooth": "GPCurveThompson", "quadratic": "NormalCurveThompson"}
    made = study("mis", {}, 10)
    for form in learners.FORMS:
        found = _prior_of(made, form)
        knobs = {"scale": 1.0, "signal": 1.0, "width": 0.5}
        assert type(made.learner(found | knobs)).__name__ == kinds[form]


def _prior_of(made: Study, form: str) -> dict[str, Any]:
    assert made.tuning is not None
    plain = made.domain.instance
    without = replace(plain, scaler=neutral_of(plain), gate=plain.chain)
    found = sample(made, without, 9_000_002, groups=3, contexts=20)
    return made.tuning.fitted(found, spread, form)


def test_history_is_the_incumbent_s_behind_the_gate() -> None:
    """80 rows a clinic, ten a patient, with labels; no dose is infeasible."""
    made = study("mis", {"rows": 80}, 10)
    world, state, _, streams = opened("mis", clinics=3)
    group = np.repeat(np.arange(3), PATIENTS)
    seen = made.past(made.domain.instance, world, state, group, streams)
    assert seen.log.unit.size == 3 * 80
    assert seen.label is not None
    assert np.isfinite(seen.label).all()
    dose, weight = seen.log.action[:, 0], seen.log.x[:, WEIGHT]
    assert ((dose >= 0.0) & (dose <= 0.25 * weight)).all()
