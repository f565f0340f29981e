"""Review in two stages: what is flagged, who is asked, and what is learned of them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb import records
from gdcb.agent import Agent
from gdcb.arrays import Array
from gdcb.bandits import BetaThompson
from gdcb.composition import ActionColumn
from gdcb.declaration import _build
from gdcb.errors import InvalidInput
from gdcb.events import ReviewRequested
from gdcb.gates import (
    Approval,
    Bounds,
    CategoryKernel,
    Chain,
    NumberKernel,
    PolicyFilter,
    Review,
    SimulatedPerson,
)
from gdcb.parts import bind, describe
from gdcb.records import HELD, MODIFIED, PASSED, VETOED, Rows
from tests.builders import pricing
from tests.parts.builders import Worth, blank, bytes_of, fixed, parabola, rng_of, rows, stream

NUMBER, CHOICE = ActionColumn("price"), ActionColumn("act", ("allow", "warn", "remove"))
# Monte-Carlo means lie within 4.5 standard errors: false alarm 7e-6 each, at fixed seeds.
ERRORS = 4.5


def half(e: Array, some: Rows) -> Array:
    """Approve one in two."""
    return np.full(e.shape[:2], 0.5)


def four(some: Rows) -> Array:
    """Want 4."""
    return np.full((some.n, 1), 4.0)


PERSON = SimulatedPerson(half, four, spread=1.0, veto=0.2)


def flags(gate: Review, e: Any, some: Rows) -> Any:
    """Return the flags of a list of numbers, one a row."""
    return gate.flags(np.asarray(e, dtype=float).reshape(some.n, 1, -1), some)[:, 0].tolist()


# The rule ------------------------------------------------------------------------------------


def test_each_test_by_hand() -> None:
    """The edge of a band of context is flagged; the edges of limits and of a band are not."""
    some = rows([[0.69], [0.7], [0.9]])
    assert flags(Review(when=0, at_least=0.7), [1.0] * 3, some) == [False, True, True]
    assert flags(Review(when=0, at_most=0.7), [1.0] * 3, some) == [True, True, False]
    kinds = Review(categories=(0, 2), kernel=CategoryKernel(n_categories=3))
    assert flags(kinds, [0.0, 1.0, 2.0], some) == [True, False, True]
    assert flags(Review(low=2.0, high=5.0), [2.0, 5.0, 5.1], some) == [False, False, True]
    near = rows([[100.0]] * 4)
    assert flags(Review(around=0, within=20.0), [79.0, 80, 120, 121], near) == [1, 0, 0, 1]
    share = Review(around=0, within=0.2, relative=True)
    assert flags(share, [159.0, 160, 240, 241], rows([[200.0]] * 4)) == [1, 0, 0, 1]
    assert flags(share, [-250.0, -200, 0, 9], rows([[-200.0]] * 4)) == [1, 0, 1, 1]


def test_any_or_all_of_the_tests() -> None:
    """Severity from 0.7 and category 2: one of them flags, or both must."""
    some, e = rows([[0.8], [0.8], [0.1], [0.1]]), [2.0, 1.0, 2.0, 1.0]
    settings: dict[str, Any] = {
        "when": 0,
        "at_least": 0.7,
        "categories": (2,),
        "kernel": CategoryKernel(n_categories=3),
    }
    assert flags(Review(**settings), e, some) == [True, True, True, False]
    assert flags(Review(match="all", **settings), e, some) == [True, False, False, False]


def test_a_rule_from_python_joins_the_others() -> None:
    """The rule flags above 5, the limit below 1."""
    gate = Review(lambda e, some: e[..., 0] > 5.0, low=1.0)
    assert flags(gate, [0.5, 3.0, 7.0], blank(3)) == [True, False, True]


# Both faces ----------------------------------------------------------------------------------


def test_unflagged_rows_pass_and_flagged_ones_are_as_with_approval() -> None:
    """The person answers flagged rows with the draws they would have had anyway, bit by bit."""
    gate, approval = Review(high=3.0, person=PERSON), Approval(PERSON)
    e, some = np.linspace(0, 6, 200)[:, None], blank(200)
    draws = gate.draw(stream(4), 200)
    left, status = gate.apply(draws, e, some)
    other, said = approval.apply(approval.draw(stream(4), 200), e, some)
    asked = e[:, 0] > 3.0
    assert bytes_of(left[~asked]) == bytes_of(e[~asked])
    assert (status[~asked] == PASSED).all()
    assert bytes_of(left[asked], status[asked]) == bytes_of(other[asked], said[asked])
    assert set(status[asked].tolist()) == {PASSED, MODIFIED, VETOED}


def test_a_hold_holds_only_what_is_flagged() -> None:
    """Prices above 3 wait; the sentence says for what."""
    chain = Chain((Review(high=3.0), Bounds(high=9.0)))
    verdict = chain.apply((None, None), np.array([[2.0], [4.0]]), blank(2))
    assert verdict.status.tolist() == [PASSED, HELD]
    assert chain.reason(verdict, blank(2), 1) == (
        "review (version 1): it waits for a person: it is above 3"
    )


def test_expect_by_hand() -> None:
    """v(e) = e. Unflagged: v(e) = 2. Flagged 5: ½·5 + ½·(0.2·null + 0.8·4) = 2.5 + 0.6 = 3.1.

    With null worth −10: 0.2·(−10) + 0.8·4 = 1.2, half of it 0.6.
    """
    value = Worth(lambda e, centre: e[..., 0], np.zeros(1), np.full(1, -10.0))
    gate = Review(high=3.0, person=PERSON)
    worth = gate.expect(value, np.array([[[2.0], [5.0]]]), blank(1))
    np.testing.assert_allclose(worth, [[2.0, 3.1]], rtol=1e-12)


def test_both_faces_agree() -> None:
    """The mean worth of what `apply` samples is `expect`, within 4.5 standard errors."""
    n = 40_000
    chain = Chain((Review(high=3.0, person=PERSON), Bounds(high=4.5)))
    for e in (2.0, 5.0):
        some = blank(n)
        value = Worth(parabola(1).of, np.ones(n), np.full(n, -7.0))
        verdict = chain.apply(chain.draw(stream(2), n), np.full((n, 1), e), some)
        seen = value(verdict.action[:, None])[:, 0]
        expected = chain.expect(value, np.full((n, 1, 1), e), some)[0, 0]
        assert abs(seen.mean() - expected) <= ERRORS * seen.std() / n**0.5 + 1e-12


@given(seed=st.integers(0, 999), limit=st.floats(-3, 3), learned=st.booleans())
@fixed
def test_expect_is_the_kernel_s_where_flagged_and_the_value_elsewhere(
    seed: int, limit: float, learned: bool
) -> None:
    """Entry by entry, with and without a learned kernel; rows keep apart."""
    rng = rng_of(seed)
    gate, approval = Review(high=limit, person=PERSON), Approval(PERSON)
    e, some, value = rng.uniform(-5, 5, size=(8, 4, 1)), blank(8), parabola(8)
    kernel = gate.init_kernel(1, 1) if learned else None
    if learned:
        entered = rng.uniform(-5, 5, size=(30, 1))
        left, status = gate.apply(gate.draw(stream(seed), 30), entered, blank(30))
        gate.learn(kernel, np.zeros(30, dtype=np.int64), blank(30), entered, left, status)
    worth = gate.expect(value, e, some, kernel)
    asked = e[..., 0] > limit
    assert bytes_of(worth[~asked]) == bytes_of(value(e)[~asked])
    whole = approval.expect(value, e, some, kernel)
    assert bytes_of(worth[asked]) == bytes_of(whole[asked])
    one = gate.expect(value.take(np.array([3])), e[3:4], some.take(slice(3, 4)), kernel)
    assert bytes_of(one[0]) == bytes_of(worth[3])


def test_an_open_rule_never_asks_the_person() -> None:
    """A person who raises does no harm where nothing is flagged, and vetoes where something is."""

    def absent(e: Array, some: Rows) -> Array:
        raise RuntimeError("offline")

    chain = Chain((Review(high=3.0, person=SimulatedPerson(absent, four)), Bounds(high=9.0)))
    some = blank(2)
    verdict = chain.apply(chain.draw(stream(1), 2), np.array([[2.0], [4.0]]), some)
    assert verdict.status.tolist() == [PASSED, VETOED]
    value = parabola(2)
    e = np.array([[[2.0], [1.0]], [[2.0], [4.0]]])
    worth = chain.expect(value, e, some)
    assert bytes_of(worth[0]) == bytes_of(value(e)[0])
    assert worth[1].tolist() == [value(e)[1, 0], value.null[1]]


@pytest.mark.parametrize(
    "rule",
    [
        lambda e, some: 1 // 0,
        lambda e, some: np.zeros(e.shape[:2]),
        lambda e, some: np.zeros(e.shape, bool),
        lambda e, some: False,
    ],
)
def test_a_broken_rule_vetoes(rule: Any) -> None:
    """Where nobody knows whether a person must look, nothing runs; it is worth the null action."""
    chain = Chain((Review(rule, person=PERSON), Bounds(high=9.0)))
    verdict = chain.apply(chain.draw(stream(1), 2), np.array([[2.0], [4.0]]), blank(2))
    assert verdict.status.tolist() == [VETOED, VETOED]
    value = parabola(2)
    worth = chain.expect(value, np.ones((2, 3, 1)), blank(2))
    np.testing.assert_array_equal(worth, np.repeat(value.null[:, None], 3, axis=1))


def test_a_row_s_luck_does_not_depend_on_who_is_flagged() -> None:
    """Draws are made for every row: flagging one leaves the others' verdicts, byte by byte."""
    gate = Review(when=0, at_least=1.0, person=PERSON)
    chain = Chain((PolicyFilter(require=1, at_least=1.0), gate, Bounds(high=9.0)))
    x, e = np.ones((30, 2)), np.linspace(0, 5, 30)[:, None]
    all_in = chain.apply(chain.draw(stream(3), 30), e, rows(x))
    x[7, 0], x[8, 1] = 0.0, 0.0
    two_out = chain.apply(chain.draw(stream(3), 30), e, rows(x))
    rest = ~np.isin(np.arange(30), (7, 8))
    assert bytes_of(all_in.action[rest]) == bytes_of(two_out.action[rest])
    assert two_out.status[[7, 8]].tolist() == [PASSED, VETOED]


# What is learned -----------------------------------------------------------------------------


def test_only_flagged_rows_teach_the_kernel() -> None:
    """The kernel has the bytes that an approval's has which saw the flagged rows alone."""
    gate = Review(high=3.0, person=PERSON)
    chain = Chain((gate, Bounds(high=9.0)))
    e, some = np.linspace(0, 6, 80)[:, None], blank(80)
    verdict = chain.apply(chain.draw(stream(5), 80), e, some)
    kernels = chain.init_kernels(1, 1, 1)
    chain.learn(kernels, some, verdict)
    approval, asked = Approval(PERSON), e[:, 0] > 3.0
    kernel = approval.init_kernel(1, 1)
    n = int(asked.sum())
    entered, left = verdict.trail[asked, 0], verdict.trail[asked, 1]
    status = verdict.statuses[asked, 0]
    approval.learn(kernel, np.zeros(n, dtype=np.int64), blank(n), entered, left, status)
    assert records.to_bytes(kernels[0]) == records.to_bytes(kernel)
    assert kernel.counts.sum() == n == 40


def test_unflagged_rows_alone_teach_nothing() -> None:
    """All pass unseen: the kernel keeps its bytes."""
    chain = Chain((Review(high=9.0, person=PERSON), Bounds(high=9.0)))
    kernels = chain.init_kernels(1, 1, 1)
    before = records.to_bytes(kernels[0])
    verdict = chain.apply(chain.draw(stream(5), 20), np.ones((20, 1)), blank(20))
    chain.learn(kernels, blank(20), verdict)
    assert records.to_bytes(kernels[0]) == before


# Live ----------------------------------------------------------------------------------------


def test_live_flagged_decisions_wait_and_the_story_replays() -> None:
    """Prices above 150 wait for the owner; the rest runs; replay gives the same bytes."""
    gate = Chain((Review(high=150.0, name="owner"), Bounds(low=1.0, high=2000.0)))
    instance, bandit = pricing(gate=gate), BetaThompson()
    agent = Agent(instance, bandit, seed=2)
    for i in range(12):
        case = agent.decide({"base": 40.0 + 30.0 * i})
        dear = case.proposed is not None and case.proposed["price"] > 150.0
        assert case.status == ("held" if dear else "passed")
        if dear:
            assert "it waits for a person: it is above 150" in case.reason
            case = agent.resolve(case.id, "edit", {"price": 140.0 + i}, by="ann")
            assert "the person put another action in its place (it is above 150)" in case.reason
        agent.observe(case.id, {"booked": i % 2})
    counts = agent.state.kernels[0].counts
    held = sum(isinstance(event, ReviewRequested) for event in agent.events)
    assert 0 < counts.sum() < 12
    assert held > 0
    again = Agent.replay(agent.events, instance, bandit, 2)
    assert records.to_bytes(again.state) == records.to_bytes(agent.state)


def test_whether_it_holds() -> None:
    """A real person holds, a simulated one answers."""
    assert Review(high=1.0).holds
    assert Approval().holds
    assert not Review(high=1.0, person=PERSON).holds
    assert not Approval(PERSON).holds


# Settings ------------------------------------------------------------------------------------


def test_a_review_from_a_file() -> None:
    """A table without Python, its kernel included."""
    table = {
        "when": "severity",
        "at_least": 0.7,
        "categories": [2],
        "match": "all",
        "kernel": {"part": "category", "n_categories": 3},
    }
    gate = _build("gates[0]", Review, table)
    assert gate == Review(
        when="severity",
        at_least=0.7,
        categories=(2,),
        match="all",
        kernel=CategoryKernel(n_categories=3),
    )


@pytest.mark.parametrize(
    ("gate", "e", "x", "why"),
    [
        (Review(low=2.0, high=5.0), 7.0, 0.0, "it lies outside 2 and 5"),
        (Review(low=2.0), 1.0, 0.0, "it is below 2"),
        (Review(around=0, within=3.0), 9.0, 1.0, "9 is further than 3 from 1"),
        (
            Review(around=0, within=0.15, relative=True),
            24.0,
            20.0,
            "24 is further than 15 % from 20",
        ),
        (Review(when=0, at_least=1.0), 9.0, 1.0, "the context asks for one"),
        (Review(lambda e, some: e[..., 0] > 1.0), 9.0, 1.0, "the rule asks for one"),
        (Review(categories=(9,), low=9.5), 9.0, 1.0, "category asks for one and it is below 9.5"),
    ],
)
def test_reasons_say_why_a_person_was_asked(gate: Review, e: float, x: float, why: str) -> None:
    """The test that flagged it stands behind what the person did."""
    entered, some = np.array([e]), rows([[x]])
    assert why in gate.why(entered, some)
    reason = gate.reason(entered, np.array([np.nan]), some)
    assert reason == f"the person did not let it run ({gate.why(entered, some)})"


@pytest.mark.parametrize(
    ("gate", "e", "x", "found"),
    [
        (Review(high=200.0), 250.0, 0.0, (250.0, "at most 200")),
        (Review(low=2.0), 1.0, 0.0, (1.0, "at least 2")),
        (Review(low=2.0, high=5.0), 7.0, 0.0, (7.0, "within 2 and 5")),
        (Review(when=0, at_least=0.5), 9.0, 0.9, (0.9, "below 0.5")),
        (Review(when=0, at_most=0.5), 9.0, 0.1, (0.1, "above 0.5")),
        (Review(when=0, at_least=0.5, at_most=0.8), 9.0, 0.6, (0.6, "below 0.5 or above 0.8")),
        (Review(around=0, within=3.0), 9.0, 1.0, (9.0, "within 3 of 1")),
        (
            Review(around=0, within=0.15, relative=True),
            24.0,
            20.0,
            (24.0, "within 15 % of 20"),
        ),
        (Review(categories=(9,)), 9.0, 1.0, None),
    ],
)
def test_a_limit_is_what_passes(
    gate: Review, e: float, x: float, found: tuple[float, str] | None
) -> None:
    """'Held unless at most 200', beside the number that was found."""
    expected = [] if found is None else [("", *found)]
    assert gate.found(np.array([e]), rows([[x]])) == expected


def test_the_field_is_named_and_every_reason_is_told() -> None:
    """0.91 of what? A part that was bound still knows the name that it was declared with."""
    made = Review(when="occupancy", at_least=0.8, around="last", within=0.2, relative=True)
    gate = bind(made, {"last": [0], "occupancy": [1]})
    entered, some = np.array([130.0]), rows([[100.0, 0.91]])
    assert gate.why(entered, some) == (
        "occupancy 0.91 is at least 0.8 and 130 is further than 20 % from last 100"
    )
    assert gate.found(entered, some) == [
        ("occupancy", 0.91, "below 0.8"),
        ("", 130.0, "within 20 % of last 100"),
    ]
    again = pickle.loads(pickle.dumps(gate))  # workers get a copy
    assert again.why(entered, some) == gate.why(entered, some)
    assert describe(gate) == describe(bind(gate, {})) == describe(replace(made, when=1, around=0))


def test_a_passed_row_has_its_own_sentence() -> None:
    """Nobody was asked."""
    one = np.array([1.0])
    assert Review(high=5.0).reason(one, one, blank(1)) == "the rule asks for no person"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (Review, "nothing says what needs a person"),
        (lambda: Review(within=0.2), "need 'around'"),
        (lambda: Review(at_least=0.2), "need 'when'"),
        (lambda: Review(around=0, within=-1.0), "within: expected a number >= 0"),
        (lambda: Review(low=2.0, high=1.0), "low 2.0 is above high 1.0"),
        (lambda: Review(high=1.0, match="some"), "match: expected one of any, all"),
        (lambda: Review(high=1.0, per="town"), "gate.per: expected one of unit, group"),
        (lambda: Review(high=1.0, action=1).check((NUMBER,)), "no action column 1"),
        (lambda: Review(high=1.0).check((CHOICE,)), "is a category, not a number"),
        (
            lambda: Review(categories=(1,), kernel=CategoryKernel()).check((CHOICE,)),
            "kernel.n_categories: expected 3",
        ),
        (lambda: Review(categories=(1,), kernel=NumberKernel()).check((CHOICE,)), "kernel"),
        (
            lambda: Review(categories=(9,)).check((CHOICE,)),
            "'review': categories: 'act' has no category 9; it has 0",
        ),
        (lambda: Review(categories=(1,)).check((NUMBER,)), "is a number, it has no categories"),
    ],
)
def test_bad_settings_are_refused(build: Callable[[], Any], message: str) -> None:
    """Settings that cannot work are refused by name."""
    with pytest.raises(InvalidInput, match=message):
        build()


def test_a_review_last_is_refused() -> None:
    """A person may put in a number of their own: a hard gate closes the chain."""
    with pytest.raises(InvalidInput, match="'review' is a person and must be followed"):
        Chain((Review(high=1.0),))
