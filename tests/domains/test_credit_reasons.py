"""Reasons are the factors that were used, and add up; the table says what it is and is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gdcb.agent import Agent
from gdcb.errors import Conflict, InvalidInput, UnknownDecision
from gdcb.instances import load
from gdcb.instances.credit import study
from gdcb.instances.credit.columns import BASE, CAP, FEATURES, FLOOR, FORBIDDEN, centre
from gdcb.instances.credit.domain import instance
from gdcb.instances.credit.drawn import factor_score
from gdcb.instances.credit.fairness import NOTE, adverse_impact_ratio, table, text
from gdcb.instances.credit.learners import UNTUNED, learner
from gdcb.instances.credit.reasons import (
    FACTORS,
    MOST,
    PRICED,
    SENTENCES,
    Reasons,
    contributions,
    reasons,
    reasons_of,
    score_contributions,
)
from gdcb.records import Rows
from gdcb.streams import CONTEXT, DRAW, WORLD, Streams
from tests.domains.test_credit_live import APPLICANT
from tests.properties import examples

CREDIT = instance()


def some_rows(variant: str = "mis", n: int = 40) -> Rows:
    world, streams, group = study(variant, {}, 1).domain.world, Streams(11, 8), np.arange(n)
    state = world.start(streams.at(WORLD, 0), group)
    return world.context(streams.at(CONTEXT, 0), state, 0, group)


@given(theta=arrays(float, len(FEATURES) + 1, elements=st.floats(-2, 2)))
@examples(30)
def test_contributions_add_up_to_log_delta(theta: Any) -> None:
    rows = some_rows()
    state = CREDIT.scaler.init(1)
    state.theta[:] = theta
    delta = CREDIT.scaler.predict(state, np.zeros(rows.n, dtype=np.int64), rows.x)[:, 0, 0]
    each = np.tile(theta, (rows.n, 1))
    parts = contributions(CREDIT, each, rows.x)
    assert parts.shape == (rows.n, len(FACTORS))
    np.testing.assert_allclose(parts.sum(axis=1), np.log(delta), atol=1e-12)


def test_contributions_of_the_scorecard_add_up_to_its_log_odds() -> None:
    rows = some_rows()
    parts = score_contributions(rows.x)
    np.testing.assert_allclose(parts.sum(axis=1), factor_score(rows.x), atol=1e-12)


def test_a_contribution_by_hand() -> None:
    # θ of 'no account' is 0.5: with one it adds 0.5·(1 − 0.274), without −0.5·0.274.
    x = CREDIT.context.encode([APPLICANT | {"checking": "none"}, APPLICANT])
    theta = np.zeros((2, 1 + len(FEATURES)))
    theta[:, 1] = 0.5
    found = contributions(CREDIT, theta, x)[:, FACTORS.index("checking")]
    assert found == pytest.approx([0.5 * (1 - centre()[0]), -0.5 * centre()[0]])


def test_every_declined_or_repriced_applicant_has_reasons() -> None:
    rows = some_rows(n=400)
    rng = np.random.default_rng(0)
    theta = np.tile(np.concatenate(([0.0], rng.normal(0.1, 0.2, len(FEATURES)))), (rows.n, 1))
    state = CREDIT.scaler.init(1)
    state.theta[:] = theta[0]
    delta = CREDIT.scaler.predict(state, np.zeros(rows.n, dtype=np.int64), rows.x)
    e = CREDIT.composition.compose(CREDIT.space, delta, rows.x)[:, 10]
    verdict = CREDIT.chain.apply(CREDIT.chain.draw(Streams(1).at(DRAW, 0), rows.n), e, rows)
    told = reasons(CREDIT, theta, rows, verdict)
    kinds, n_raised, n_priced = {one.action for one in told}, 0, 0
    assert kinds == {"declined", "repriced", "standard"}
    for i, one in enumerate(told):
        x = rows.x[i]
        assert one.log_delta == pytest.approx(np.log(delta[i, 0, 0]), abs=1e-12)
        assert sum(one.contributions.values()) == pytest.approx(one.log_delta, abs=1e-12)
        assert list(one.contributions.values()) == sorted(one.contributions.values(), reverse=True)
        assert len(one.principal) <= MOST
        # List rate, δ and arm make the proposal: what δ does not explain is said as well.
        assert one.log_arm == pytest.approx(np.log(CREDIT.space.coords[10, 0]), abs=1e-12)
        whole = one.list_rate * np.exp(one.log_delta + one.log_arm)
        assert whole == pytest.approx(e[i, 0], abs=1e-12)
        assert ("the price level that the policy chose: +" in str(one)) == (one.apr is not None)
        assert not any(word in " ".join(one.principal) for word in (*FORBIDDEN, "female", "male"))
        if one.action == "declined":
            assert one.apr is None
            assert x[FLOOR] > x[CAP]
            assert one.principal
            assert "above the highest allowed" in one.gate
            assert sum(one.score.values()) == pytest.approx(factor_score(x[None])[0], abs=1e-12)
        elif one.action == "repriced":
            assert one.apr is not None
            assert one.apr > x[BASE] or one.gate
            # Raised to what covers the loss, the scorecard set the rate: its factors are given.
            assert bool(one.score) == (one.apr > e[i, 0])
            if one.score:
                assert PRICED not in one.principal
                n_raised += 1
            elif one.log_arm > max(one.contributions.values()):
                assert one.principal[0] == PRICED
                n_priced += 1
            if e[i, 0] > x[CAP]:
                assert "APR cap" in one.gate
        else:
            assert one.principal == ()
    assert n_raised
    assert n_priced
    assert "1. " in str(next(one for one in told if one.principal))


def test_a_notice_by_hand() -> None:
    # 10 % · 1.2 · 1.1 = 13.2 %, which a cap brings to 13 %: who added what stands apart.
    parts = {"savings": np.log(1.2)}
    one = Reasons(
        *("repriced", 0.13, np.log(1.2), parts, {}, ("little savings",), "APR cap: 13.00%"),
        log_arm=np.log(1.1),
        list_rate=0.1,
        pd=0.2,
    )
    assert str(one).splitlines() == [
        "repriced: 13.00% a year, with δ = 1.200",
        "  1. little savings",
        "  rate proposed: 13.20%, from a list rate of 10.00%",
        "    by factors of the applicant: +20.0%",
        "    by the price level that the policy chose: +10.0%",
        "    the policy reads these, the cost of funds and a risk of default of 20.0%",
        "  gate: APR cap: 13.00%",
    ]
    declined = replace(one, action="declined", apr=None, gate="no offer")
    assert "rate proposed" not in str(declined)


def test_a_lower_price_level_is_said_as_well() -> None:
    rows = some_rows(n=20)
    theta = np.zeros((rows.n, 1 + len(FEATURES)))
    e = np.stack((0.8 * rows.x[:, BASE], np.full(rows.n, 24.0)), axis=1)
    verdict = CREDIT.chain.apply(CREDIT.chain.draw(Streams(1).at(DRAW, 0), rows.n), e, rows)
    offered = [one for one in reasons(CREDIT, theta, rows, verdict) if one.apr is not None]
    assert offered
    for one in offered:
        assert one.log_arm == pytest.approx(np.log(0.8), abs=1e-12)
        assert "by factors of the applicant: +0.0%" in str(one)
        assert "by the price level that the policy chose: -20.0%" in str(one)


def test_reasons_of_an_agents_decisions() -> None:
    agent = Agent(CREDIT, learner(UNTUNED), seed=3)
    for i in range(80):
        case = agent.decide(
            APPLICANT | {"checking": "none" if i % 2 else "high", "cap": 0.6}, unit="north"
        )
        label = 0.4 if i % 2 else -0.2
        agent.observe(case.id, {"accepted": 0, "repaid": 0, "loss": 0}, label=[label])
    first = case.id
    case = agent.decide(APPLICANT | {"checking": "none"}, unit="north")
    (one,) = reasons_of(agent, [case.id])
    assert one.principal[0] == SENTENCES["checking"]["none"]
    made = agent.records[case.id].made
    assert made.delta[0][0] is not None
    assert one.log_delta == pytest.approx(np.log(made.delta[0][0]), abs=1e-12)
    with pytest.raises(Conflict, match="refitted since"):
        reasons_of(agent, [first])
    with pytest.raises(UnknownDecision):
        reasons_of(agent, ["nobody"])


def test_reasons_refuse_another_scaler() -> None:
    other = load("credit").instance
    rows = some_rows(n=2)
    verdict = CREDIT.chain.apply(
        CREDIT.chain.draw(Streams(1).at(DRAW, 0), 2), np.array([[0.1, 24.0]] * 2), rows
    )
    with pytest.raises(InvalidInput, match="expected a scaler that reads"):
        reasons(other, np.zeros((2, 4)), rows, verdict)


# The table


def test_the_table_by_hand() -> None:
    # Ten young, of whom five get the list rate, and ten others, of whom eight do.
    age = np.repeat([20.0, 40.0], 10)
    apr = np.where(np.r_[np.arange(10) < 5, np.arange(10) < 8], 0.1, 0.15)
    apr[9] = np.nan  # one young applicant gets no offer
    taken = np.where(np.isfinite(apr), 0.5, 0.0)
    found = table(age, age * 0, apr, age * 0 + 0.1, age * 0 + 0.15, taken, taken * 0.1)
    young, middle, male = found
    assert (young.by, young.name, young.n, young.offered) == ("age", "under 25", 10, 0.9)
    assert young.apr == pytest.approx((5 * 0.1 + 4 * 0.15) / 9)
    assert young.capped == pytest.approx(4 / 9)
    assert [young.take_up, young.default] == pytest.approx([0.5, 0.1])
    assert (young.favourable, middle.favourable, male.favourable) == (0.5, 0.8, 0.65)
    assert young.ratio == adverse_impact_ratio(0.5, 10, 0.8, 10)
    assert middle.finding == "the most favoured"
    assert young.finding == "too few to tell"
    said = text(found)
    assert NOTE in said
    assert "no proof of fairness" in said


def test_with_many_rows_a_ratio_is_told() -> None:
    age = np.repeat([20.0, 40.0], 1000)
    for share, finding in ((0.4, "below four fifths"), (0.78, "not below")):
        is_good = np.r_[np.arange(1000) < 1000 * share, np.arange(1000) < 800]
        apr = np.where(is_good, 0.1, 0.2)
        zero = age * 0
        young = table(age, zero, apr, zero + 0.1, zero + 0.3, zero, zero)[0]
        assert young.finding == finding
        assert np.isnan(young.default)


def test_the_interval_covers_as_often_as_it_says() -> None:
    # 95 % of 2,000 intervals, within 4 standard errors of a binomial: a false alarm of 6e-5.
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(2000):
        p, q = rng.binomial(400, 0.3) / 400, rng.binomial(900, 0.5) / 900
        _, low, high = adverse_impact_ratio(p, 400, q, 900)
        covered += low <= 0.6 <= high
    assert abs(covered / 2000 - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 2000)


def test_a_group_without_any_favourable_offer_has_no_ratio() -> None:
    assert np.isnan(adverse_impact_ratio(0.0, 10, 0.5, 10)[0])


def test_columns_of_different_length_are_refused() -> None:
    one, two = np.ones(1), np.ones(2)
    with pytest.raises(InvalidInput, match="one length"):
        table(one, one, one, one, one, one, two)
    with pytest.raises(InvalidInput, match="at least one row"):
        table(*[np.ones(0)] * 7)
