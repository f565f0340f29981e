"""The parts of the credit domain: offer, menu, reward; by hand, and by the list of promises."""

from __future__ import annotations

import time
from typing import Any, cast

import numpy as np
import pytest

import gdcb
from gdcb.arms import Grid
from gdcb.errors import InvalidInput
from gdcb.instances.credit.domain import RATES, chain, instance
from gdcb.instances.credit.menu import Menu
from gdcb.instances.credit.offer import Offer
from gdcb.instances.credit.reward import NetInterest
from gdcb.parts import as_recorded
from gdcb.records import Rows

PARTS = (Offer(), Menu(values=(12.0, 24.0, 36.0)), instance().chain.gates[0], NetInterest())


@pytest.mark.parametrize(
    "promise", [one for part in PARTS for one in gdcb.checks.of(part)], ids=str
)
def test_parts_keep_their_promises(promise: Any) -> None:
    promise()


def test_an_offer_by_hand() -> None:
    # List rate 0.1, δ = 1.2, three years asked for: arm (1.1, 36) is 0.132 over 36 · 3/2 months.
    arms = Grid({"rate": RATES, "tenor": (12.0, 24.0, 36.0)}, combine="none").build()
    x, delta = np.array([[0.1, 3.0]]), np.array([[[1.2]]])
    phi = Offer(base=(0,), wanted=1)
    e = phi.compose(arms, delta, x)
    at = arms.names.index("1.1 × 36") if "1.1 × 36" in arms.names else 8
    assert e[0, at] == pytest.approx([0.132, 54.0])
    assert phi.relative(e[:, at], x)[0] == pytest.approx([1.32, 36.0])
    assert phi.lipschitz(arms, delta, x) == pytest.approx(0.14)


def test_an_offer_refuses_arms_of_one_coordinate() -> None:
    with pytest.raises(InvalidInput, match="a rate and a tenor"):
        Offer().columns(gdcb.ArmList(values=(1.0, 2.0)).build())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"values": ()}, "rising values"),
        ({"values": (2.0, 1.0)}, "rising values"),
        ({"values": (1.0,), "low": 2.0, "high": 1.0}, "is above high"),
        ({"values": (1.0,), "typical": 0.0}, "typical"),
        ({"values": (np.nan,)}, "finite"),
    ],
)
def test_a_menu_refuses_what_is_none(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Menu(**settings)


def test_a_menu_says_why() -> None:
    rows = Rows(np.zeros(1, int), np.zeros(1, int), np.zeros((1, 1)))
    gate = Menu(values=(12.0, 24.0))
    left = gate.project(np.array([[[np.inf], [-np.inf], [np.nan], [18.0], [18.1]]]), rows)
    assert left.ravel()[[0, 1, 3, 4]].tolist() == [24.0, 12.0, 12.0, 24.0]
    assert np.isnan(left.ravel()[2])
    said = gate.reason(np.array([17.0]), np.array([12.0]), rows)
    assert said == "17 is not on offer, which are 12, 24"


def test_a_menu_of_many_names_those_next_to_what_was_asked_for() -> None:
    """A reason is written down for every row: of 24,000 values it took 205 kB."""
    rows = Rows(np.zeros(1, int), np.zeros(1, int), np.zeros((1, 1)))
    twelve = Menu(values=tuple(range(1, 13)))
    said = twelve.reason(np.array([2.5]), np.array([2.0]), rows)
    assert said == "2.5 is not on offer, which are 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12"
    many = Menu(values=tuple(range(1, 401)))
    named = {0.5: range(1, 13), 100.5: range(95, 107), 1e6: range(389, 401)}
    for asked, near in named.items():
        said = many.reason(np.array([asked]), np.array([1.0]), rows)
        listed = ", ".join(str(value) for value in near)
        assert said == f"{asked:g} is not on offer; those next to it, of 400, are {listed}"


def test_of_many_values_the_same_is_nearest() -> None:
    """Value by value: the first of those that are as near, where rounding makes them so."""
    rng = np.random.default_rng(4)
    base = np.append(rng.uniform(0.1, 3.0, 40), [0.0, -1.0])[:, None]
    rows = Rows(np.zeros(42, int), np.zeros(42, int), base)
    odd = [np.nan, np.inf, -np.inf, 1e15, 1e17, -1e17, 1e300, 0.0, 1.5, 2.5, 40.0]
    e = np.concatenate((rng.uniform(-5.0, 450.0, (42, 30)), np.tile(odd, (42, 1))), axis=1)
    for low, high in ((2.0, 300.0), (-np.inf, np.inf)):
        gate = Menu(values=tuple(range(1, 201)), base=0, low=low, high=high)
        known = gate.offered(rows)
        nearest = np.abs(e[:, :, None] - known[:, None]).argmin(axis=2)
        by_hand = np.take_along_axis(known, nearest, axis=1)
        by_hand[:, 30:33] = np.column_stack((np.full(42, np.nan), known[:, -1], known[:, 0]))
        np.testing.assert_array_equal(gate.project(e[..., None], rows)[..., 0], by_hand)


def test_many_rows_that_ask_for_one_value_are_brought_there_at_once() -> None:
    """Row by row, 20,000 of them took more than a second."""
    base = np.random.default_rng(5).uniform(0.1, 3.0, (20_000, 1))
    rows = Rows(np.zeros(20_000, int), np.zeros(20_000, int), base)
    gate = Menu(values=tuple(range(1, 16)), base=0)
    start = time.process_time()
    left = gate.project(np.full((20_000, 1, 1), 4.2), rows)[:, 0, 0]
    assert time.process_time() - start < 0.3
    known = gate.offered(rows)
    assert left.tolist() == known[np.arange(20_000), np.abs(known - 4.2).argmin(axis=1)].tolist()


def test_a_menu_has_at_most_500_values_where_it_is_new() -> None:
    with pytest.raises(InvalidInput, match="values: expected at most 500, got 24,000"):
        Menu(values=tuple(range(1, 24_001)))
    with as_recorded():
        assert len(Menu(values=tuple(range(1, 24_001))).values) == 24_000


def test_every_class_is_paid_by_hand() -> None:
    # 2,000 over 24 months at 14 %, funded at 4 %: 0.1 · 25/24 · 2,000 = 208.33.
    reward = NetInterest(funding=0, amount=1, pd=2, unit=1000.0)
    x, e = np.array([[0.04, 2.0, 0.1]] * 3), np.array([[0.14, 24.0]] * 3)
    y = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 0.8]])
    assert reward.reward(y, e, x) == pytest.approx([0.0, 208.333333, -1600.0])
    assert reward.learn(y, x)[0].tolist() == [0.0, 1.0, 1.0]
    # Over 36 months odds of 1 : 9 grow by exp(0.0411 · 12).
    odds = np.exp(0.0411 * 12) / 9
    assert reward.default(np.array([[[0.14, 36.0]]]), x[:1]) == pytest.approx(odds / (1 + odds))


def test_no_offer_has_no_reward_of_its_own() -> None:
    reward = instance().reward
    nothing = np.full((1, 2), np.nan)
    x = np.ones((1, gdcb.instances.credit.columns.SCHEMA.width))
    assert np.isnan(reward.reward(np.zeros((1, 3)), nothing, x)).all()
    assert instance().realised(np.zeros((1, 3)), nothing, x).tolist() == [0.0]


@pytest.mark.parametrize(
    ("y", "said"),
    [
        ([0.0, 1.0, 0.0], "repaid: expected 0 where"),
        ([0.5, 0.0, 0.0], "0 or 1"),
        ([np.nan, 0.0, 0.0], "0 or 1"),
        ([1.0, 0.0, 1.5], "a share from 0 to 1"),
        ([1.0, 0.0, np.nan], "a share from 0 to 1"),
        ([1.0, 1.0, 0.2], "unless the loan"),
        ([0.0, 0.0, 0.2], "unless the loan"),
    ],
)
def test_outcomes_that_cannot_be_are_refused(y: list[float], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        NetInterest().check(np.array([y]))


@pytest.mark.parametrize(
    "settings", [{"lgd": 1.5}, {"lgd": np.nan}, {"unit": 0.0}, {"outcome": ("repaid",)}]
)
def test_a_reward_refuses_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        NetInterest(**settings)


def test_a_reward_refuses_an_action_without_a_tenor() -> None:
    with pytest.raises(InvalidInput, match="tenor"):
        NetInterest().fits(1)


def test_the_chain_is_idempotent_and_contracts_nothing() -> None:
    # Two feasible offers are left alone: η = 1, and where the cap is below the cost η = 0.
    it = instance()
    x = np.ones((2, it.context.width))
    for name, values in {"floor": (0.05, 0.3), "cap": (0.2, 0.2), "wanted": (2.0, 2.0)}.items():
        x[:, it.context.names.index(name)] = values
    rows = Rows(np.arange(2), np.arange(2), x)
    e = np.array([[[0.1, 24.0], [0.15, 12.0], [0.5, 30.5]]] * 2)
    once, gates = e, cast(tuple[Any, ...], it.chain.gates)
    for gate in gates:
        once = gate.project(once, rows)
    twice = once
    for gate in gates:
        twice = gate.project(twice, rows)
    np.testing.assert_array_equal(once, twice)
    assert once[0].tolist() == [[0.1, 24.0], [0.15, 12.0], [0.2, 36.0]]
    assert np.isnan(once[1, :, 0]).all()
    eta = np.stack([gate.contraction(e, rows) for gate in gates])
    assert eta[:, 0].tolist() == [1.0, 1.0, 1.0]
    assert eta[2, 1] == 0.0
    assert [gate.name for gate in chain().gates] == ["tenors on offer", "APR cap", "cost floor"]
