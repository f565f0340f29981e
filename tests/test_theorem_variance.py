"""Theorem 1's check: its parts against arithmetic by hand, and a small version of the whole."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from gdcb.errors import InvalidInput
from gdcb.records import Rows
from gdcb.simulate import simulate
from gdcb.streams import Stream
from gdcb.theorems import (
    variance,
    variance_bound,
    variance_cases,
    variance_estimators,
    variance_phase,
    variance_regret,
)
from gdcb.theorems.pricing_methods import (
    LABELS,
    Course,
    bandit_of,
    prices_of,
    regret,
    settings,
    tuned,
)
from gdcb.theorems.verdict import PAPER, REPAIRED, Check
from gdcb.theorems.worlds import Demand, Pricing, instance_of, past, random_history

SMALL = variance.Settings(
    contexts=300,
    replicates=60,
    rows=120,
    corollary=Course(past=0, rounds=18, replicates=6, every=9),
    history=400,
    phase=Course(past=20, rounds=8, replicates=6, every=20),
    worlds=((0.1, 2.5), (0.4, 6.0)),
)


def verdicts(checks: list[Check], form: str) -> list[bool]:
    return [check.holds for check in checks if check.form == form]


# The world


def test_the_best_price_is_where_its_formula_says() -> None:
    """No price on a fine grid earns more than c°·δ*, whatever the unit and the context."""
    world = Pricing(spread=0.4, steepness=5.0)
    group = np.arange(50)
    demand = world.start(Stream((1, 1), 0, 100), group)
    rows = world.context(Stream((1, 2), 0, 100), demand, 0, group)
    best = world.best(demand, rows)
    grid = best[:, None] * np.linspace(0.5, 1.5, 401)[:, None]
    assert (world.mean(demand, grid, rows).argmax(axis=1) == 200).all()
    booked = world.booked(demand, best[:, None], rows)
    np.testing.assert_allclose(booked, 1 - 1 / 5.0)


def test_the_spread_is_that_of_log_delta() -> None:
    """Standard deviation 0.3, mean 0: six standard errors of 40,000 contexts."""
    world = Pricing(spread=0.3)
    group = np.arange(40_000)
    rows = world.context(
        Stream((2, 2), 0, 100), world.start(Stream((2, 1), 0, 100), group), 0, group
    )
    log_delta = np.log(world.delta(rows.x))
    assert abs(log_delta.std() - 0.3) < 6 * 0.3 / 80_000**0.5
    assert abs(log_delta.mean()) < 6 * 0.3 / 200


@pytest.mark.parametrize(
    "change",
    [
        {"spread": -0.1},
        {"steepness": 1.0},
        {"own_sd": np.nan},
        {"weights": ()},
        {"weights": (0.0,)},
    ],
)
def test_a_world_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Pricing(**change)


def test_the_past_is_of_the_same_units_and_leaves_rounds_alone() -> None:
    """A past row is booked as its unit's demand says, and a run's contexts are not those of it."""
    world = Pricing(spread=0.2, steepness=30.0, own_sd=0.3)
    instance = instance_of(world, "none")
    history = past(instance, world, 200, 40, seed=3)
    demand = world.start(Stream((3, 6), 0, 100), np.arange(40))  # 6: the stage of worlds
    p = world.booked(demand, history.log.action[:, None], history.rows)[:, 0]
    surprise = np.abs(history.log.y - p).mean()
    assert surprise < 1.2 * (2 * p * (1 - p)).mean() + 0.01
    live = simulate(
        instance, bandit_of("none", {"prior_sd": 3.0}), world, rounds=5, replicates=40, seed=3,
        keep_log=True,
    )  # fmt: skip
    assert live.log is not None
    assert not np.isin(live.log.x, history.log.x).any()


def test_scalers_by_name() -> None:
    world, x = Pricing(spread=0.5), np.array([[1.0, 0.5]])
    zero = np.zeros(1, dtype=np.int64)
    for name, expected in (("known", world.delta(x)[0]), ("none", 1.0), ("outcomes", 1.0)):
        scaler = instance_of(world, name).scaler
        np.testing.assert_allclose(scaler.predict(scaler.init(1), zero, x)[0, 0, 0], expected)
    assert instance_of(world, "labels").scaler.n_labels == 1
    with pytest.raises(InvalidInput, match="expected 'outcomes'"):
        instance_of(world, "other")


def test_a_history_at_random_pays_what_the_world_says() -> None:
    """Mean reward of 20,000 rows within six standard errors of E[price · P(booked)]."""
    world, prices = Pricing(0.3, 4.0, own_sd=0.5), np.array([0.8, 1.2])
    x, price, reward, delta = random_history(world, prices, 20_000, np.random.default_rng(4))
    alpha = 4.0 + np.log(3.0)
    p = 1 / (1 + np.exp(-(alpha - 4.0 * price / delta)))
    assert abs((reward - price * p).mean()) < 6 * reward.std() / 20_000**0.5
    np.testing.assert_allclose(delta, world.delta(x))


# The bound


def test_the_bound_is_not_broken_and_is_not_idle() -> None:
    """No violation; small errors come within a tenth of it, and some arms vary more with δ*."""
    found = variance_bound.sweep(np.random.default_rng(0), 500)
    assert found["violations"] == {"prediction": 0, "reward": 0}
    assert max(row[1] for row in found["table"]["rows"]) > 0.9
    assert verdicts(variance_bound.checks(found), PAPER) == [True, False]
    assert verdicts(variance_bound.checks(found), REPAIRED) == [True]


def test_a_broken_bound_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 0.3 of the steepest slope the bound is broken, and the check says so."""
    whole = variance_bound._Revenue.__init__

    def less(self: Any, steepness: float) -> None:
        whole(self, steepness)
        self.steepest *= 0.3

    monkeypatch.setattr(variance_bound._Revenue, "__init__", less)
    found = variance_bound.sweep(np.random.default_rng(0), 500)
    assert found["violations"]["prediction"] > 0
    assert not variance_bound.checks(found)[0].holds


# The estimators


def test_estimators_reach_their_limits_and_the_papers_loses_the_means() -> None:
    """Intervals are at 99.9 % an arm; a false alarm in one of 30 figures is about 1 in 30 seeds."""
    found = variance_estimators.estimate(np.random.default_rng(1), 250, 240)
    checks = variance_estimators.checks(found)
    assert verdicts(checks, PAPER) == [False, True]
    assert verdicts(checks, REPAIRED) == [True, True, True]
    by = {(one["design"], one["model"], one["form"]): one["arms"] for one in found["estimators"]}
    for arm in by["even", "right", "paper"]:
        assert abs(arm["mean"]) < 0.05 < 0.5 < arm["value"]


def test_limits_by_hand() -> None:
    """Evenly dealt, m right: σ²/n centred, and (σ² + s(a)²)/n plain; 60,000 rows, within 5 %."""
    case = variance_estimators.Case("even", "right")
    limits = variance_estimators._limits(np.random.default_rng(2), case)
    np.testing.assert_allclose(limits["centred"], 1.0, rtol=0.05)
    np.testing.assert_allclose(limits["aipw"], 1.0, rtol=0.05)
    plain = 1.0 + variance_estimators.SLOPES**2 / 0.25
    np.testing.assert_allclose(limits["plain"], plain, rtol=0.05)


# The corollary


def test_what_a_fixed_price_loses_by_hand() -> None:
    """Nothing without a spread, since the list has the best price; more, the wider the spread."""
    x = np.random.default_rng(3).uniform(-(3**0.5), 3**0.5, size=(500, 2))
    prices = [variance_regret._price(Pricing(s, 4.0, own_sd=0.0), x) for s in (0.0, 0.2, 0.4)]
    assert 0.0 <= prices[0] < 1e-12  # 1.0 is in the list
    assert prices[0] < prices[1] < prices[2]


def test_the_corollary_is_judged_by_its_figures() -> None:
    """A made-up record in which regret is √T and follows √Var δ*: then the paper's claims hold."""

    def world(spread: float, factor: float, late: float) -> dict[str, Any]:
        one = {"mean": 10.0, "low": 9.9, "high": 10.1}
        return {
            "spread": spread,
            "mean_delta": 1.0,
            "regret": {"known": one},
            "factor": {"mean": factor, "low": 0.9 * factor, "high": 1.1 * factor},
            "factor_of_corollary": factor,
            "late_over_middle": {"mean": late, "low": late - 0.02, "high": late + 0.02},
            "late_rate": {"mean": 0.1, "low": 0.09, "high": 0.11},
            "price_of_none": 0.1,
        }

    kind = variance_regret.checks({"worlds": [world(0.0, 1.0, 0.77), world(0.3, 0.5, 0.77)]})
    assert verdicts(kind, PAPER) == [True, True]
    assert verdicts(kind, REPAIRED) == [False, True]
    harsh = variance_regret.checks({"worlds": [world(0.0, 1.0, 0.77), world(0.3, 3.0, 1.0)]})
    assert verdicts(harsh, PAPER) == [False, False]
    assert verdicts(harsh, REPAIRED) == [True, True]


def test_without_a_scaler_regret_is_higher_and_goes_on() -> None:
    """40 replicates of 120 rounds, spread 0.6: more than twice as high, and as fast at the end."""
    world, course = Pricing(0.6, 4.0), Course(past=0, rounds=120, replicates=40, every=60)
    found = {
        name: regret(world, name, {"prior_sd": 10.0}, course, 5, variance_regret.PRICES)
        for name in ("known", "none")
    }
    assert found["none"].sum() > 2 * found["known"].sum()
    assert found["none"][-40:].mean() > 0.85 * found["none"][40:80].mean()


# The ratios


def test_ratios_disagree_where_they_should() -> None:
    found = variance_cases.disagree(np.random.default_rng(6), 2500, 0)
    assert verdicts(variance_cases.checks(found), PAPER) == [False]
    assert verdicts(variance_cases.checks(found), REPAIRED) == [True, True]


def test_exact_ratios_by_hand() -> None:
    """Two prices, no spread: D does not vary, and neither does the paper's mean."""
    flat = variance_phase.exact_ratios(
        np.random.default_rng(7), Pricing(0.0, 4.0), np.array([0.9, 1.1])
    )
    assert flat["ratio"] < 1e-12
    assert flat["paper"] < 1e-12
    np.testing.assert_allclose(flat["best"], 0.75)
    world, prices = Pricing(0.4, 4.0), np.array([0.8, 1.3])
    found = variance_phase.exact_ratios(np.random.default_rng(8), world, prices)
    x = np.random.default_rng(9).uniform(-(3**0.5), 3**0.5, size=(50_000, 2))
    zero = np.zeros(x.shape[0], dtype=np.int64)
    demand = Demand(np.array([4.0 + np.log(3.0)]), np.array([4.0]))
    e = np.broadcast_to(prices[None, :, None], (x.shape[0], 2, 1))
    p = world.booked(demand, e, Rows(zero, zero, x))
    noise = (prices**2 * p * (1 - p)).mean()
    np.testing.assert_allclose(found["ratio"], (p @ [0.8, -1.3]).var() / noise, rtol=0.05)
    np.testing.assert_allclose(found["paper"], (0.75 * world.delta(x)).var() / noise, rtol=0.05)


# The methods


def test_every_method_has_as_many_priors_to_choose_from() -> None:
    sizes = {len(settings(method)) for method in LABELS}
    assert sizes == {3}


def test_tuning_takes_the_least_regret() -> None:
    world, course = Pricing(0.3, 6.0), Course(past=20, rounds=6, replicates=20, every=20)
    chosen = tuned(world, ("GDCB", "known", "B2g"), course, seed=11)
    assert chosen["known"] == chosen["GDCB"]
    found = [regret(world, "B2g", one, course, 11).sum() for one in settings("B2g")]
    assert chosen["B2g"] == settings("B2g")[int(np.argmin(found))]


def test_prices_reach_the_best_one() -> None:
    """In a world of spread 0.4 at least 95 % of best prices lie within the list."""
    world = Pricing(0.4, 6.0)
    x = np.random.default_rng(10).uniform(-(3**0.5), 3**0.5, size=(5000, 2))
    best, prices = world.delta(x), prices_of(world)
    assert ((best > prices[0]) & (best < prices[-1])).mean() > 0.95


# The whole


def test_a_small_version_of_the_whole_is_a_document() -> None:
    heard: list[str] = []
    found = variance.check(seed=2, progress=heard.append, settings=SMALL)
    again = variance.check(seed=2, settings=SMALL)
    assert json.dumps(found, allow_nan=False) == json.dumps(again, allow_nan=False)
    assert isinstance(found["paper_holds"], bool)
    assert isinstance(found["repaired_holds"], bool)
    assert not found["paper_holds"]  # its form loses the arm means at any size
    assert all(sentence.endswith(".") for sentence in found["verdict"])
    assert heard[0] == "bound"
    assert "phase diagram, world 2 of 2" in heard
    tables = variance.tables(found)
    assert set(tables) == set(variance.SECTIONS)
    for table in tables.values():
        assert all(len(row) == len(table["columns"]) for row in table["rows"])
    for point in found["phase"]["points"]:
        assert set(point["tuned"]) == set(LABELS)


def test_a_wrong_seed_is_refused() -> None:
    with pytest.raises(InvalidInput, match="seed"):
        variance.check(seed=-1)


def test_findings_say_where_gdcb_is_lower() -> None:
    """Three made-up points: worse, even, better. The threshold is the third's ratio."""

    def estimate(mean: float, half: float) -> dict[str, float]:
        return {"mean": mean, "low": mean - half, "high": mean + half}

    def point(ratio: float, less: float, saved: float) -> dict[str, Any]:
        names = ("none", "B2s", "B2g")
        return {
            "ratio": {"exact": ratio, **estimate(ratio, 0.1 * ratio)},
            "paper": {"exact": ratio, **estimate(ratio, 0.1 * ratio)},
            "best_reward": 100.0,
            "less": {name: estimate(less, 1.0) for name in names},
            "saved": {name: estimate(saved, 0.05) for name in names},
            "horizons": [10, 20],
            "saved_by_horizon": [saved / 2, saved],
        }

    figures = {"points": [point(0.01, -3.0, -0.2), point(0.05, 0.5, 0.02), point(2.0, 9.0, 0.6)]}
    said = variance_phase.findings(figures)
    assert "significantly lower from a ratio of 2 on" in said[0]
    assert "significantly higher at 0.01" in said[0]
    assert "Rank correlations" in " ".join(said)
    assert verdicts(variance_phase.checks(figures), PAPER) == [True, True]
    assert verdicts(variance_phase.checks(figures), REPAIRED) == [True, True]
    figures["points"][1] = point(0.05, 9.0, 0.5)  # much is saved at a small ratio
    assert verdicts(variance_phase.checks(figures), PAPER) == [True, False]
    assert verdicts(variance_phase.checks(figures), REPAIRED) == [True, False]
    figures["points"][2] = point(2.0, 1.5, 0.1)  # and little at a large one
    assert verdicts(variance_phase.checks(figures), REPAIRED) == [False, False]
    figures["points"][2] = point(2.0, 9.0, 0.6)
    figures["points"][2]["saved"]["B2g"] = estimate(0.2, 0.05)  # one rival is enough to fail
    assert verdicts(variance_phase.checks(figures), REPAIRED) == [False, False]
