"""What if the gate were another, or the policy: values, ranges and refusals from a gated log."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdcb
from benchmarks import what_if as shops
from gdcb.analysis.what_if import (
    Conditions,
    GatedLog,
    Propose,
    ReplaceGate,
    SecondReviewer,
    WithoutGate,
    ask,
    ask_all,
    gated_log,
)
from gdcb.analysis.what_if.passing import contradicted, is_approved, place_of, rerun
from gdcb.analysis.what_if.second_reviewer import both
from gdcb.arrays import Array, logistic
from gdcb.errors import GdcbError, InvalidInput
from gdcb.records import Rows
from tests.properties import examples

QUICK = Conditions(draws=100)


def never(e: Array, rows: Rows) -> Array:
    return np.zeros(e.shape[:2])


def one(rows: Rows) -> Array:
    return np.ones((rows.n, 1))


def plain(*gates: Any, null: float = 0.0, values: tuple[float, ...] = (1.0, 2.0, 4.0)) -> Any:
    """Return an instance without context to speak of, whose reward is observed."""
    return gdcb.Instance(
        context=gdcb.Schema({"x": gdcb.Number()}),
        arms=gdcb.ArmList(values=values),
        composition=gdcb.Multiply(),
        gate=gdcb.Chain(tuple(gates), closed=False),
        null=gdcb.NullAction(mean=null),
    )


def person(name: str = "manager") -> gdcb.Approval:
    return gdcb.Approval(gdcb.SimulatedPerson(never, one), name=name)


def logged(instance: Any, proposed: Array, executed: Array, reward: Array, **more: Any) -> GatedLog:
    n = proposed.size
    return gated_log(
        instance, np.zeros((n, 1)), proposed[:, None], executed[:, None], reward, **more
    )


# By hand


def test_the_same_gate_gives_what_happened_exactly() -> None:
    """Nothing is modelled where nothing changes: the mean is the log's, the difference 0."""
    instance = shops.shop()
    made, _ = shops.log(instance, 3, 300)
    answers = ask_all(
        instance,
        made,
        [
            ReplaceGate(gate.name, gate)
            for gate in (instance.chain.gates[0], instance.chain.gates[2])
        ],
        conditions=QUICK,
    )
    for answer in answers:
        assert answer.kind == "value"
        assert answer.value is not None
        assert answer.difference is not None
        assert answer.value.mean == answer.happened == made.reward.mean()
        assert (answer.difference.mean, answer.difference.low, answer.difference.high) == (0, 0, 0)
        assert answer.changed == answer.uncovered == 0.0
        assert "Nothing would have changed" in answer.says


def test_a_gate_that_never_acted_may_go() -> None:
    """The cap of 1000 never cut anything: without it all is as it was, trail or none."""
    instance = shops.shop()
    for trail in (True, False):
        made, _ = shops.log(instance, 4, 300, trail)
        answer = ask(instance, made, WithoutGate("cap"), conditions=QUICK)
        assert answer.value is not None
        assert (answer.kind, answer.changed, answer.value.mean) == ("value", 0.0, answer.happened)


def test_only_changed_rows_are_modelled() -> None:
    """Proposals 1, 2 and 4, earning as much; a cap of 2 makes 5/3 of 7/3: every 4 becomes a 2."""
    instance = plain(gdcb.Cap(limit=99.0))
    price = np.tile([1.0, 2.0, 4.0], 200)
    answer = ask(instance, logged(instance, price, price, price), ReplaceGate("cap", gdcb.Cap(2.0)))
    assert answer.value is not None
    assert answer.difference is not None
    assert answer.happened == pytest.approx(7 / 3)
    assert answer.changed == pytest.approx(1 / 3)
    assert answer.value.mean == pytest.approx(5 / 3, abs=0.01)
    # The rows that keep their outcome add no noise to the difference: −2 in every third row.
    assert answer.difference.mean == pytest.approx(-2 / 3, abs=0.01)
    assert answer.uncovered == 0.0


def test_rewards_that_hardly_differ_are_no_value() -> None:
    """600 rows without a reward do not tell its noise; nor do 600 with nine: ten are needed."""
    instance = plain(gdcb.Cap(9.0))
    price = np.tile([1.0, 2.0, 4.0], 200)
    for question in (ReplaceGate("cap", gdcb.Cap(2.0)), ReplaceGate("cap", gdcb.Cap(9.0))):
        for sold in (0, 9, 10):
            reward = np.where(np.arange(600) < sold, 1.0, 0.0)
            answer = ask(instance, logged(instance, price, price, reward), question)
            assert answer.kind == ("value" if sold == 10 else "refused")
            if sold < 10:
                assert answer.value is None
                assert f"only {sold} effective rows have another reward" in answer.says
                assert answer.needed[0].startswith("at least 10 rows with another reward")


def test_a_person_who_lets_all_pass() -> None:
    """Every second 2 was turned into a 1. Rewards are 1 and 3, so 1.5 would have been 2."""
    instance = plain(person(), values=(1.0, 2.0))
    proposed, executed = np.tile([1.0, 1.0, 2.0, 2.0], 100), np.tile([1.0, 1.0, 2.0, 1.0], 100)
    log = logged(instance, proposed, executed, np.where(executed == 2.0, 3.0, 1.0))
    answer = ask(instance, log, WithoutGate("manager"))
    assert answer.value is not None
    assert answer.happened == 1.5
    assert answer.changed == 0.25
    assert answer.value.mean == pytest.approx(2.0, abs=0.02)
    # One of two proposals of 2 was let pass: t/b of the cell of 2 is ¼ over ¼.
    assert answer.ess == pytest.approx(100, rel=0.1)


def test_two_reviewers_are_bounded_by_frechet_and_pinned_by_a_declared_law() -> None:
    """Approved 4 of 5, worth 1, else 0: both approve between 0.6 and 0.8; independent 0.64."""
    instance = plain(person(), values=(1.0, 2.0))
    proposed, executed = np.full(1000, 2.0), np.tile([2.0, 2.0, 2.0, 2.0, 1.0], 200)
    log = logged(instance, proposed, executed, np.where(executed == 2.0, 1.0, 0.0))
    for otherwise in ("own", "null"):
        free = ask(instance, log, SecondReviewer("manager", otherwise=otherwise))
        assert free.kind == "range"
        assert free.identified is not None
        assert free.value is not None
        assert free.identified == pytest.approx((0.6, 0.8), abs=0.01)
        assert free.value.mean is None
        assert free.value.low < 0.6 < 0.8 < free.value.high
        for assume, truth in (("independent", 0.64), (0.5, 0.72), (-1.0, 0.6), (1.0, 0.8)):
            pinned = ask(instance, log, SecondReviewer("manager", assume, otherwise))
            assert pinned.value is not None
            assert pinned.kind == "value"
            refused = 0.8 - truth + (0.2 if otherwise == "null" else 0.0)
            assert pinned.changed == pytest.approx(refused, abs=0.01)
            assert pinned.value.mean == pytest.approx(truth, abs=0.01)


def test_a_reviewer_who_never_refused_stays_certain_in_pairs() -> None:
    """With p = 1 both approve surely: nothing changes, whatever is assumed."""
    instance = plain(person())
    price = np.tile([1.0, 2.0, 4.0], 30)
    answer = ask(instance, logged(instance, price, price, price), SecondReviewer("manager"))
    assert (answer.kind, answer.changed) == ("value", 0.0)


def test_reviewers_who_know_more_widen_the_range() -> None:
    """Approved 4 of 5: a second turns down up to a quarter of these, and may pick the best ones.

    Half of the approved earn 1, half 0: without them 0.4 − 0.2 = 0.2 of the total remains at the
    least, and with own actions worth up to 1 at most 0.4 + 0.2 = 0.6.
    """
    instance = plain(person(), values=(1.0, 2.0))
    proposed, executed = np.full(1000, 2.0), np.tile([2.0, 2.0, 2.0, 2.0, 1.0], 200)
    log = logged(instance, proposed, executed, np.tile([1.0, 1.0, 0.0, 0.0, 0.0], 200))
    question = SecondReviewer("manager")
    bare = ask(instance, log, question, private=True)
    assert bare.kind == "refused"
    assert "reward_range" in bare.needed[0]
    found = ask(instance, log, question, private=True, reward_range=(0.0, 1.0))
    assert found.identified == pytest.approx((0.2, 0.6), abs=0.005)


def rarely_tried(n: int, seed: int) -> tuple[Any, GatedLog, Array, Array]:
    """Return an instance, a log and two laws: in 6 % of the rows the dearest price is rarely tried.

    The log proposes it there in 5 % of the rows, the other law in 95 %, weight 19, and it earns
    0.85 where anything else earns about 0.1.
    """
    rng = np.random.default_rng(seed)
    x = (rng.random(n) < 0.06).astype(float)
    law = np.where(x[:, None] > 0, [[0.55, 0.40, 0.05]], [[0.34, 0.33, 0.33]])
    other = np.where(x[:, None] > 0, [[0.02, 0.03, 0.95]], [[0.4, 0.3, 0.3]])
    cell = (law.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, 2)
    mean = np.where(cell == 2, np.where(x > 0, 0.85, 0.15), 0.1 + 0.02 * cell)
    price = np.array([1.0, 2.0, 4.0])[cell]
    cap = gdcb.Cap(limit=9.0, name="limit")
    instance = plain(cap)
    reward = mean + 0.1 * rng.normal(size=n)
    log = gated_log(instance, x[:, None], price[:, None], price[:, None], reward)
    return instance, log, law, other


def test_no_value_where_a_decisive_proposal_may_have_been_missed() -> None:
    """400 rows, 1.2 with that weight expected: none of 10 logs answers. 5,000 with 15: all do."""
    for seed in range(10):
        instance, log, law, other = rarely_tried(400, seed)
        answer = ask(instance, log, Propose(other), proposal_law=law, conditions=QUICK)
        assert answer.kind == "refused"
        assert "weights of 19 and more stand for" in answer.says
    held = 0
    for seed in range(10):
        instance, log, law, other = rarely_tried(5000, seed)
        answer = ask(instance, log, Propose(other), proposal_law=law, conditions=QUICK)
        assert answer.value is not None
        truth = 0.06 * (0.02 * 0.1 + 0.03 * 0.12 + 0.95 * 0.85) + 0.94 * (0.04 + 0.036 + 0.045)
        held += answer.value.low <= truth <= answer.value.high
    assert held >= 8


def test_rare_weights_do_not_decide_where_rows_differ_by_more() -> None:
    """Rewards are the price, give or take 0.1, and a cap of 4 changes the tenth of 5.

    That alone gives the difference a standard error of √(0.1·0.9/400) = 0.015. Weights above 2
    stand for about 0.1 % of what would run: they move it by 0.001·4 = 0.004 at most.
    """
    prices = (1.0, 2.0, 4.0, 5.0)
    instance = plain(gdcb.Cap(9.0, name="limit"), values=prices)
    held = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, price = rng.normal(size=400), rng.choice(prices, 400, p=(0.4, 0.3, 0.2, 0.1))
        reward = price + 0.1 * rng.normal(size=400)
        log = gated_log(instance, x[:, None], price[:, None], price[:, None], reward)
        answer = ask(instance, log, ReplaceGate("limit", gdcb.Cap(4.0)), conditions=QUICK)
        assert answer.value is not None, (seed, answer.says)
        assert answer.difference is not None
        held += answer.difference.low <= -0.1 <= answer.difference.high
    assert held >= 16


def test_what_never_ran_is_bounded_or_refused() -> None:
    """Every 4 was cut to 2. Without the cap a third of the rows would run what nobody has seen.

    The others earned 1 and 2 (mean 3/3 of all rows), so with rewards in [0, 9] the value lies
    between 1 + 0/3 and 1 + 9/3.
    """
    instance = plain(gdcb.Cap(2.0))
    price = np.tile([1.0, 2.0, 4.0], 200)
    ran = np.minimum(price, 2.0)
    log = logged(instance, price, ran, ran)
    bare = ask(instance, log, WithoutGate("cap"))
    assert (bare.kind, bare.value) == ("refused", None)
    assert dict(bare.cells) == {"4": pytest.approx(1 / 3)}
    assert "33.3 %" in bare.says
    assert "'4'" in bare.says
    assert any("reward_range" in need for need in bare.needed)
    bounded = ask(instance, log, WithoutGate("cap"), reward_range=(0.0, 9.0))
    assert bounded.kind == "range"
    assert bounded.identified == pytest.approx((1.0, 4.0))
    assert bounded.uncovered == pytest.approx(1 / 3)
    strict = Conditions(most_uncovered=0.2)
    refused = ask(instance, log, WithoutGate("cap"), reward_range=(0.0, 9.0), conditions=strict)
    assert refused.kind == "refused"
    assert "say nothing" in refused.says


def test_a_little_that_is_not_covered_does_not_spoil_a_value() -> None:
    """Up to the tolerance the outcome model speaks for it; beyond, a range."""
    instance = plain(gdcb.Cap(2.0))
    price = np.concatenate((np.tile([1.0, 2.0], 250), [4.0] * 4))
    log = logged(instance, price, np.minimum(price, 2.0), np.minimum(price, 2.0))
    assert ask(instance, log, WithoutGate("cap")).kind == "value"
    tight = Conditions(tolerance=0.001)
    assert ask(instance, log, WithoutGate("cap"), conditions=tight).kind == "refused"


def test_gates_that_cannot_have_made_the_log_are_named() -> None:
    """Prices above the declared cap ran: no question is answered."""
    instance = plain(gdcb.Cap(2.0))
    price = np.tile([1.0, 2.0, 4.0], 40)
    answer = ask(instance, logged(instance, price, price, price), WithoutGate("cap"))
    assert answer.kind == "refused"
    assert "33.3 %" in answer.says
    assert contradicted(instance, logged(instance, price, price, price)).mean() == pytest.approx(
        1 / 3
    )


def test_the_logs_own_policy_is_worth_what_happened() -> None:
    """Proposed by the very law that the log had, every weight is 1."""
    instance = shops.shop()
    made, _ = shops.log(instance, 5, 1500)
    law = shops.proposals(made.rows.x)
    answer = ask(instance, made, Propose(law), proposal_law=law)
    assert answer.value is not None
    assert answer.difference is not None
    assert answer.changed == pytest.approx(0.0, abs=1e-9)
    assert answer.largest_weight == pytest.approx(1.0)
    assert answer.ess == pytest.approx(made.n)
    # The scores are m̂(law) + r − m̂(what ran): they differ from r by the draw of the arm alone.
    assert answer.difference.low <= 0.0 <= answer.difference.high
    assert abs(answer.difference.mean or 0.0) < 0.02 * answer.happened


def test_an_answer_is_plain_data() -> None:
    """It can be written as JSON, and says all its figures."""
    instance = plain(gdcb.Cap(2.0))
    price = np.tile([1.0, 2.0, 4.0], 200)
    log = logged(instance, price, np.minimum(price, 2.0), np.minimum(price, 2.0))
    for more in ({}, {"reward_range": (0.0, 9.0)}):
        answer = ask(instance, log, WithoutGate("cap"), **more)  # type: ignore[arg-type]
        plain_data = json.loads(json.dumps(answer.as_json()))
        assert plain_data["cells"] == [{"cell": "4", "share": pytest.approx(1 / 3)}]
        assert plain_data["kind"] == answer.kind
        assert plain_data["says"] == str(answer)
        assert plain_data["assumes"]
        assert plain_data["question"].endswith("?")


def test_rows_without_a_reward_are_left_out_and_counted() -> None:
    """A third of the rewards is missing: the others answer."""
    instance = plain(gdcb.Cap(limit=99.0))
    price = np.tile([1.0, 2.0, 4.0], 200)
    reward = np.where(price == 1.0, np.nan, price)
    answer = ask(instance, logged(instance, price, price, reward), WithoutGate("cap"))
    assert (answer.rows, answer.left_out, answer.happened) == (400, 200, 3.0)


# What entered the gate


def test_what_entered_a_gate_is_found_without_the_trail_or_said_to_be_unknown() -> None:
    """On rows that are known without the trail, e′ is what the trail gives, for either limit."""
    instance = shops.shop(high=112.0)
    whole, _ = shops.log(instance, 6, 2000)
    bare, _ = shops.log(instance, 6, 2000, trail=False)
    place = place_of(instance, "limit")
    limit = instance.chain.gates[place]
    for high, least in ((100.0, 1.0), (130.0, 0.6)):
        gate = replace(limit, high=high)  # type: ignore[type-var]
        known, found = rerun(instance, whole, place, gate), rerun(instance, bare, place, gate)
        np.testing.assert_allclose(found.action[found.is_known], known.action[found.is_known])
        assert known.is_known.all()
        assert found.is_known.mean() >= least
    # A raised limit: what the old limit cut may have been the proposal's or the manager's own.
    cut = bare.executed[:, 0] == 112.0
    assert cut.any()
    assert (found.is_known == ~cut).all()
    told = replace(bare, statuses=whole.statuses)
    again = rerun(instance, told, place, gate)
    np.testing.assert_allclose(again.action[again.is_known], known.action[again.is_known])
    assert (again.is_known == ~cut | is_approved(instance, told)).all()


def test_persons_are_asked_anew_only_where_they_are_shown_something_else() -> None:
    """A cap before the manager: rows that it does not touch stay as they were."""
    instance = shops.shop()
    made, _ = shops.log(instance, 7, 1000)
    found = rerun(instance, made, 0, gdcb.Cap(limit=105.0))
    above = made.recommended[:, 0] > 105.0
    assert (found.is_changed == above).all()
    assert (found.is_asked == above).all()
    assert (found.shown[above] == 105.0).all()
    np.testing.assert_array_equal(found.action[~above], made.executed[~above])


def test_a_gate_between_two_persons_is_refused() -> None:
    """What the second would say to what they never saw, no log tells."""
    instance = plain(person("first"), gdcb.Cap(9.0), person("second"))
    price = np.tile([1.0, 2.0, 4.0], 20)
    log = logged(instance, price, price, price)
    for name in ("first", "cap"):
        assert ask(instance, log, WithoutGate(name)).kind == "refused"
    assert ask(instance, log, SecondReviewer("first")).kind == "refused"


# Private information


def knowing(seed: int, n: int) -> tuple[Any, GatedLog, float, float]:
    """Return a log whose manager sees hidden demand, and the truth if they approved everything.

    They lower the price to 0.85 of the base where they know of weak demand.
    """
    rng = np.random.default_rng([seed, 3])
    instance = plain(person(), values=(0.85, 1.0, 1.15))
    instance = replace(instance, reward=gdcb.Payoff(outcome=("sold",), action=0))
    arm, weak = rng.integers(0, 3, n), rng.random(n) < 0.4
    proposed = np.array([0.85, 1.0, 1.15])[arm]
    executed = np.where(weak & (proposed > 0.9), 0.85, proposed)

    def chance(e: Array) -> Array:
        return logistic(6.0 - 6.0 * e - 1.5 * weak)

    sold = rng.random(n) < chance(executed)
    reward = executed * sold
    free = float((proposed * chance(proposed)).mean())
    always_cheap = float((0.85 * chance(np.full(n, 0.85))).mean())
    return instance, logged(instance, proposed, executed, reward), free, always_cheap


def test_a_manager_who_knows_more_misleads_a_value_and_not_a_range() -> None:
    """Taken at face value, approved rows make dear prices look good; bounds hold the truth."""
    instance, log, free, _ = knowing(1, 4000)
    naive = ask(instance, log, WithoutGate("manager"))
    assert naive.value is not None
    assert naive.value.low > free
    bounded = ask(instance, log, WithoutGate("manager"), private=True)
    assert bounded.kind == "range"
    assert bounded.identified is not None
    assert bounded.identified[0] < free < bounded.identified[1]
    assert "known what it was worth" in bounded.says


def test_another_policy_is_valued_by_its_proposals_where_persons_know_more() -> None:
    """A policy that always proposes the cheap price: weighed as proposals it is right."""
    instance, log, _, cheap = knowing(2, 4000)
    law = np.tile([1.0, 0.0, 0.0], (log.n, 1))
    by_cell = ask(instance, log, Propose(law))
    assert by_cell.value is not None
    assert by_cell.value.high < cheap
    weighed = ask(instance, log, Propose(law), private=True)
    assert weighed.value is not None
    assert weighed.value.low < cheap < weighed.value.high


# Coverage


def test_intervals_hold_the_truth_on_thirty_logs() -> None:
    """A small version of `python -m benchmarks.what_if`.

    Intervals are of 95 %. Fewer than 25 of 30 would be a false alarm with a chance of 0.3 % for
    each of the six questions at exactly 95 %. Two reviewers of whom nothing is assumed are bounded:
    their range holds whatever the correlation is.
    """
    for row in shops.coverage(30, 1000, draws=200):
        assert row.share >= 25 / 30, row
        kind = "range" if row.name.endswith("nothing assumed") else "value"
        assert row.kinds == {kind: 30}, row


# Properties


@given(p=st.floats(0.0, 1.0), rho=st.floats(-1.0, 1.0), more=st.floats(0.0, 1.0))
@examples(60)
def test_both_approve_within_frechets_limits(p: float, rho: float, more: float) -> None:
    """B lies in [max(0, 2p − 1), p], grows with ρ, and has the slope that it says it has."""
    at = np.array([p])
    least, value = max(0.0, 2 * p - 1), both(at, rho)[0][0]
    assert least - 1e-12 <= value <= p + 1e-12
    assert both(at, min(1.0, rho + more))[0][0] >= value - 1e-12
    if 0.01 < p < 0.99 and abs(p - 0.5) > 0.01:
        near = np.array([p - 1e-6, p + 1e-6])
        b, slope = both(near, rho)
        if abs(slope[1] - slope[0]) < 1e-4:
            assert (b[1] - b[0]) / 2e-6 == pytest.approx(slope.mean(), abs=1e-3)


@given(limit=st.floats(60.0, 200.0), seed=st.integers(0, 5))
@examples(12)
def test_a_stricter_limit_never_lets_more_through(limit: float, seed: int) -> None:
    """Behind a lower limit nothing dearer runs, and what lay below it runs as it did."""
    instance = shops.shop()
    made, _ = shops.log(instance, seed, 120)
    place = place_of(instance, "limit")
    gate = replace(instance.chain.gates[place], high=limit)  # type: ignore[type-var]
    found = rerun(instance, made, place, gate)
    assert (found.action[:, 0] <= max(limit, 0.0) + 1e-9).all()
    if limit <= 160.0:
        below = made.executed[:, 0] <= limit
        assert not found.is_changed[below].any()
        assert found.is_changed[~below].all()


# Bad input


def test_columns_of_the_wrong_kind_are_refused() -> None:
    """Each says what was expected and what came."""
    instance = plain(gdcb.Cap(limit=99.0))
    good: dict[str, Any] = {
        "x": np.zeros((4, 1)),
        "recommended": np.ones((4, 1)),
        "executed": np.ones((4, 1)),
        "reward": np.ones(4),
    }
    for name, bad, said in (
        ("x", np.zeros((4, 2)), "x"),
        ("x", np.full((4, 1), np.nan), "finite"),
        ("x", np.zeros((0, 1)), "at least one row"),
        ("recommended", np.ones((3, 1)), "recommended"),
        ("recommended", np.full((4, 1), np.nan), "finite"),
        ("executed", np.full((4, 1), np.inf), "executed"),
        ("executed", [["a"]] * 4, "numbers"),
        ("reward", np.full(4, np.nan), "none"),
        ("reward", np.full(4, np.inf), "reward"),
        ("delta", np.ones((4, 2, 1)), "delta"),
        ("statuses", np.zeros((4, 2), dtype=int), "statuses"),
        ("statuses", np.zeros((4, 1)), "statuses"),
        ("trail", np.zeros((4, 1, 1)), "trail"),
        ("cluster", np.zeros(3), "cluster"),
        ("unit", np.full(4, -1), "unit"),
    ):
        with pytest.raises(InvalidInput, match=said):
            gated_log(instance, **(good | {name: bad}))


def test_questions_that_make_no_sense_are_refused() -> None:
    """Unknown gates, persons where rules belong, laws that are none, ranges that hold nothing."""
    instance = plain(gdcb.Cap(limit=99.0), person())
    price = np.tile([1.0, 2.0, 4.0], 20)
    log = logged(instance, price, price, price)
    with pytest.raises(InvalidInput, match="no gate 'limit'; the chain has cap, manager"):
        ask(instance, log, WithoutGate("limit"))
    with pytest.raises(InvalidInput, match="hard gate"):
        ReplaceGate("cap", person())
    with pytest.raises(InvalidInput, match="'cap' is no person"):
        ask(instance, log, SecondReviewer("cap"))
    for bad in (1.5, "opposed", float("nan")):
        with pytest.raises(InvalidInput, match="assume"):
            SecondReviewer("manager", bad)
    with pytest.raises(InvalidInput, match="otherwise"):
        SecondReviewer("manager", otherwise="nobody")
    for law, said in (
        (np.ones((60, 2)) / 2, "shape"),
        (np.ones((60, 3)), "sum to 1"),
        (np.full((60, 3), np.nan), "NaN"),
    ):
        with pytest.raises(InvalidInput, match=said):
            ask(instance, log, Propose(law))
    for span in ((0.0, 3.0), (5.0, 1.0), (0.0, float("inf")), 3):
        with pytest.raises(InvalidInput, match="reward_range"):
            ask(instance, log, WithoutGate("cap"), reward_range=span)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="question"):
        ask(instance, log, "why?")  # type: ignore[arg-type]
    for settings_ in ({"level": 1.0}, {"draws": 1}, {"tolerance": -0.1}, {"near": 0}):
        with pytest.raises(GdcbError):
            Conditions(**settings_)


def test_a_bandit_can_be_asked_about() -> None:
    """A learned bandit's law is its propensity in the state it has."""
    from gdcb import round as turn

    instance = plain(gdcb.Cap(limit=99.0))
    bandit = gdcb.GaussianThompson()
    state = turn.init(instance, bandit, np.zeros(1, dtype=np.int64))
    price = np.tile([1.0, 2.0, 4.0], 10)
    log = logged(instance, price, price, price)
    law = Propose.of(instance, bandit, state, method="sampled", draws=50).on(log.rows, 3)
    assert law.shape == (30, 3)


def off_the_arms(seed: int, n: int) -> tuple[GatedLog, float]:
    """Return a log of prices that are no arms, and the truth if the manager approved everything."""
    instance, rng = shops.shop(), np.random.default_rng([seed, 21])
    rows = shops.contexts(rng, n)
    e = rows.x[:, 1:] * (1.05 + 0.1 * rows.x[:, :1] + 0.17 * rng.normal(size=(n, 1)))
    e = np.clip(e, 60.0, 170.0)
    draws = (None, rng.random((n, 3)), None)
    verdict = instance.chain.apply(draws, e, rows)
    price, free = verdict.action[:, 0], np.minimum(e[:, 0], 160.0)
    reward = price * (rng.random(n) < shops.sold(price, rows.x))
    log = gated_log(instance, rows.x, e, verdict.action, reward, statuses=verdict.statuses)
    return log, float((free * shops.sold(free, rows.x)).mean())


def test_proposals_need_not_be_arms() -> None:
    """Cells are then regressed on x; of ten intervals of 95 % eight hold (false alarm 1.2 %)."""
    instance, (_, truth) = shops.shop(), off_the_arms(99, 200_000)
    held = 0
    for seed in range(10):
        answer = ask(
            instance, off_the_arms(seed, 1200)[0], WithoutGate("manager"), conditions=QUICK
        )
        assert answer.value is not None
        held += answer.value.low <= truth <= answer.value.high
    assert held >= 8


def test_categories_are_asked_about_too() -> None:
    """A moderator who turned a third of 'keep' into 'remove'; keep earns 1, remove earns 0."""
    moderator = gdcb.Approval(kernel=gdcb.CategoryKernel(n_categories=2), name="moderator")
    instance = gdcb.Instance(
        context=gdcb.Schema({"x": gdcb.Number()}),
        arms=gdcb.ArmList(names=("keep", "remove")),
        composition=gdcb.Identity(),
        gate=gdcb.Chain((moderator,), closed=False),
    )
    width = len(instance.actions)
    proposed = np.zeros((600, width))
    proposed[::2, 0] = 1.0
    executed = proposed.copy()
    executed[1::6, 0] = 1.0
    if width > 1:
        proposed[:, 1:] = executed[:, 1:] = 0.5
    log = gated_log(instance, np.zeros((600, 1)), proposed, executed, 1.0 - executed[:, 0])
    answer = ask(instance, log, WithoutGate("moderator"))
    assert answer.value is not None
    assert answer.happened == pytest.approx(1 / 3)
    assert answer.changed == pytest.approx(1 / 6)
    assert answer.value.mean == pytest.approx(0.5, abs=0.01)
