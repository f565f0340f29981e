"""Theorem 3: the pieces by hand, a small run of the check, and verdicts that can fail."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest

from gdcb import BetaThompson
from gdcb.errors import InvalidInput
from gdcb.records import Rows
from gdcb.theorems import regret
from gdcb.theorems.rates import calibration_rates, exponent, lower_bound
from gdcb.theorems.shops import FittedScaler, KinkedShop, OffScaler, Shop, gates
from gdcb.theorems.splits import Settings, growth, learners, play
from gdcb.theorems.verdict import Check, document, plain
from gdcb.theorems.worlds import Demand, Pricing, instance_of
from tests.builders import rows_of, stream

SMALL = Settings(
    rounds=4,
    replicates=3,
    horizon=300,
    runs=40,
    long=600,
    n_sup=(25, 100, 400, 1600),
    fits=80,
    nights=60,
)


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    return regret.check(seed=3, settings=SMALL, instance=None)


# The worlds and scalers


def test_the_kinked_shop_by_hand() -> None:
    """At x = 0, δ* = 1: prices 0.5, 1, 1.2 and 1.4 are booked with 0.75, 0.75, 0.3 and 0."""
    world, rows = KinkedShop(), rows_of(np.zeros((1, 2)))
    state = Demand(np.ones(1), np.ones(1))
    prices = np.array([0.5, 1.0, 1.2, 1.4])[None, :, None]
    np.testing.assert_allclose(world.booked(state, prices, rows), [[0.75, 0.75, 0.3, 0.0]])
    assert world.mean(state, prices, rows).argmax() == 1


def test_a_shop_tells_its_scaler() -> None:
    world = Shop()
    rows = rows_of([[1.0, -1.0], [0.0, 0.0]])
    told = world.true_delta(world.start(stream(), np.zeros(2, dtype=int)), rows)
    assert told.shape == (2, 1, 1)
    np.testing.assert_allclose(told[:, 0, 0], [np.exp(0.3 * 1.4), 1.0])


def test_a_fitted_scaler_errs_as_least_squares_does() -> None:
    """Var θ̂ = noise²/n: for 2,000 owners at n = 400, within 6 standard errors of it."""
    scaler = FittedScaler(theta=(0.2, -0.1), n_sup=400, noise=0.3, seed=1)
    state = scaler.init(2000)
    error = state.theta - [0.2, -0.1]
    expected = 0.3**2 / 400
    # A sample variance has a relative standard error of √(2/2000) = 0.032.
    np.testing.assert_allclose(error.var(axis=0), expected, rtol=6 * 0.032)
    delta = scaler.predict(state, np.array([5]), np.array([[1.0, 2.0]]))
    assert delta.item() == pytest.approx(np.exp(state.theta[5] @ [1.0, 2.0]))
    again = scaler.init(2000)
    assert np.array_equal(again.theta, state.theta)


def test_a_wrong_level_is_a_factor() -> None:
    scaler = OffScaler(value=0.8, theta=(0.5, 0.0))
    delta = scaler.predict(scaler.init(1), np.zeros(1, dtype=int), np.array([[2.0, 7.0]]))
    assert delta.item() == pytest.approx(0.8 * np.exp(1.0))


# The pieces


def test_the_lower_bound_by_hand() -> None:
    """Two arms, spread 0⁺: p = σ(4 + log 3 − 4a); at a = 1 p = ¾ and v = ¾.

    a = 1.4: p = σ(log 3 − 1.6) = 0.3772, v = 0.5281, Δ = 0.2219; it would be best with bookings
    0.75/1.4 = 0.5357: KL = 0.3772·log(0.3772/0.5357) + 0.6228·log(0.6228/0.4643) = 0.0506.
    a = 0.7 would need 0.75/0.7 > 1 bookings: it costs nothing.
    """
    world = Shop(spread=1e-6)
    p = 1.0 / (1.0 + np.exp(-(np.log(3.0) - 1.6)))
    other = 0.75 / 1.4
    divergence = p * np.log(p / other) + (1 - p) * np.log((1 - p) / (1 - other))
    expected = (0.75 - 1.4 * p) / divergence
    assert lower_bound(world, (1.0, 1.4)) == pytest.approx(expected)
    assert lower_bound(world, (0.7, 1.0, 1.4)) == pytest.approx(expected)
    assert lower_bound(Shop(spread=0.5), (1.0, 1.4)) > expected


def test_growth_and_exponent_by_hand() -> None:
    t = np.arange(1, 1001)
    rates = np.diff(np.sqrt(t), prepend=0.0)[:, None]
    assert growth(rates) == pytest.approx(0.5)
    sizes = np.array([10, 100, 1000])
    values = np.tile(3.0 / sizes[:, None], (1, 4))
    found = exponent(sizes, values, seed=0)
    assert [found["mean"], found["low"], found["high"]] == pytest.approx([-1.0] * 3)


def test_an_exponent_has_an_interval_that_holds_the_truth() -> None:
    """Noisy means of N^-½ over 400 replicates; the seed is fixed."""
    sizes = np.array([25, 100, 400, 1600])
    noise = np.random.default_rng(0).exponential(size=(4, 400))
    found = exponent(sizes, noise / np.sqrt(sizes)[:, None], seed=0)
    assert found["low"] < -0.5 < found["high"]
    assert found["high"] - found["low"] < 0.2


def test_a_world_without_a_true_scaler_is_refused() -> None:
    world = Pricing()
    with pytest.raises(InvalidInput, match="no true_delta"):
        play(instance_of(world, "none"), BetaThompson(), world, 1, 2, seed=0)


def test_the_person_who_knows_sets_the_best_price() -> None:
    world = Shop()
    chain = gates(world)["person who knows"]
    x = np.array([[0.5, 0.5], [-1.0, 1.0]])
    rows = Rows(np.arange(2), np.zeros(2, dtype=int), x)
    person: Any = chain.gates[0]
    np.testing.assert_allclose(person.person.own(rows), world.delta(x)[:, None])


# The check


def test_parts_sum_for_all_learners_and_gates(answer: dict[str, Any]) -> None:
    found = answer["sums"]
    assert found["cases"] == len(learners()) * len(gates(Shop()))
    assert 0.0 <= found["rest"] <= 1e-9
    assert found["least_part"] >= -1e-9


def test_the_splits_disagree_where_arms_adapted(answer: dict[str, Any]) -> None:
    """Total 0: ours blames nobody, the paper's order both, by the same amount."""
    told = answer["disagreement"]["adapted"]
    assert max(told["total"], told["bandit"], told["calibration"]) < 1e-12
    assert told["paper_bandit"] > 0.05
    assert told["paper_bandit"] == pytest.approx(-told["paper_calibration"])
    level = answer["disagreement"]["wrong_level"]
    parts = [part["mean"] for part in level["paper"].values()]
    assert sum(parts) == pytest.approx(level["regret"]["mean"])
    assert level["growth_paper"] > 0.9 > level["growth_main"]


def test_without_a_gate_and_under_the_true_scaler_the_splits_agree(answer: dict[str, Any]) -> None:
    for one in answer["bandit"]:
        assert one["same_by_both"] < 1e-12


def test_calibration_falls_at_two_rates() -> None:
    """Exponents over N_sup 25 … 1,600: −1 inside, −½ at the kink and off the optimum, to 0.15."""
    found = calibration_rates(SMALL, 1, lambda _: None)
    for one in found:
        assert one["exponent"]["mean"] == pytest.approx(one["expected"], abs=0.15)


def test_the_gates_part_is_what_overrides_cost(answer: dict[str, Any]) -> None:
    found = {one["gate"]: one for one in answer["gate"]}
    for one in found.values():
        assert abs(one["rest_in_errors"]) < 4.5
        assert one["outside_bracket"] <= 1e-12
        assert one["main_low"] - 1e-9 <= one["main_without_luck"] <= one["main_high"] + 1e-9
    assert found["person"]["paper"]["mean"] > 0
    assert found["person who knows"]["paper"]["mean"] < 0


def test_the_answer_is_json_with_both_verdicts(answer: dict[str, Any]) -> None:
    json.dumps(answer, allow_nan=False)
    assert not answer["paper_holds"]
    assert len(answer["verdict"]) == len(answer["claims"])
    assert answer["notes"][0].startswith("Without a scaler")


@pytest.mark.parametrize(
    ("path", "value", "form"),
    [
        (("sums", "rest"), 1e-6, "repaired"),
        (("sums", "least_part"), -1e-6, "repaired"),
        (("disagreement", "adapted", "bandit"), 0.1, "repaired"),
        (("bandit", 0, "slope_over_lai_robbins", "mean"), 9.0, "repaired"),
        (("calibration", 0, "exponent", "mean"), -0.5, "repaired"),
        (("gate", 0, "outside_bracket"), 0.1, "repaired"),
        (("gate", 0, "rest_in_errors"), 9.0, "paper"),
    ],
)
def test_a_verdict_follows_its_figure(
    answer: dict[str, Any], path: tuple[Any, ...], value: float, form: str
) -> None:
    """Spoil one figure, and just the claims that rest on it fall."""
    spoiled = copy.deepcopy(answer)
    place = spoiled
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    before = [one.holds for one in regret._verdicts(answer) if one.form == form]
    after = [one.holds for one in regret._verdicts(spoiled) if one.form == form]
    assert sum(before) > sum(after)


# The common shape


def test_a_form_holds_where_all_of_its_claims_do() -> None:
    good, bad = Check("repaired", "a", True, "1"), Check("repaired", "b", False, "2")
    paper = Check("paper", "c", True, "3")
    assert document("t", [paper, good])["repaired_holds"]
    assert not document("t", [paper, good, bad])["repaired_holds"]
    with pytest.raises(InvalidInput, match="no claim in the form 'paper'"):
        document("t", [good])
    with pytest.raises(InvalidInput, match=r"check\.form: expected 'paper' or 'repaired'"):
        Check("ours", "a", True, "1")


def test_figures_become_plain() -> None:
    mixed = {"a": np.float64(0.5), 2: (np.inf, np.bool_(True)), "c": [np.arange(2)]}
    assert plain(mixed) == {"a": 0.5, "2": [None, True], "c": [[0, 1]]}
