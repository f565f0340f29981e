"""Credit at work: nothing above the cap ever runs, nonsense is refused, a file is the instance."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gdcb
from gdcb import declaration
from gdcb import round as turn
from gdcb.agent import Agent
from gdcb.arrays import Array
from gdcb.errors import InvalidInput, UnknownField
from gdcb.instances.credit import study
from gdcb.instances.credit.card import incumbent, own
from gdcb.instances.credit.columns import BASE, CAP, FLOOR, TENORS, WANTED, tenors
from gdcb.instances.credit.domain import instance
from gdcb.instances.credit.learners import UNTUNED, learner
from gdcb.parts import describe
from gdcb.records import Rows
from gdcb.simulate import simulate
from gdcb.streams import CONTEXT, DRAW, WORLD, Streams
from tests.properties import examples

FILE = Path(gdcb.instances.__file__).parent / "credit" / "credit.toml"
CREDIT = instance()
APPLICANT: dict[str, Any] = {
    "checking": "overdrawn",
    "history": "clean",
    "savings": "none",
    "employment": "medium",
    "purpose": "household",
    "plans": False,
    "guarantor": False,
    "amount": 3.0,
    "wanted": 2.0,
    "age": 34,
    "base": 0.1,
    "funding": 0.04,
    "floor": 0.07,
    "cap": 0.2,
    "pd": 0.05,
}
ANY = st.floats(allow_nan=True, allow_infinity=True, width=64)
RATE = st.floats(0.0, 2.0, allow_nan=False)


def contexts(wanted: float, floor: float, cap: float) -> Array:
    asked = APPLICANT | {"wanted": wanted, "floor": floor, "cap": cap}
    return CREDIT.context.encode([asked])


@given(
    proposal=st.lists(ANY, min_size=2, max_size=2),
    wanted=st.floats(0.5, 4.0),
    floor=RATE,
    cap=RATE,
)
@examples(300)
def test_whatever_is_proposed_nothing_infeasible_runs(
    proposal: list[float], wanted: float, floor: float, cap: float
) -> None:
    rows = Rows(np.zeros(1, int), np.zeros(1, int), contexts(wanted, floor, cap))
    draws = CREDIT.chain.draw(Streams(0).at(DRAW, 0), 1)
    verdict = CREDIT.chain.apply(draws, np.array([proposal]), rows)
    ran = turn.execute(CREDIT, verdict, rows)
    if ran.is_null[0]:
        assert np.isnan(ran.action).all()
        assert CREDIT.chain.reason(verdict, rows, 0)
        return
    apr, tenor = ran.action[0]
    assert floor <= apr <= cap
    assert tenor in tenors(rows.x)[0].tolist()


@pytest.mark.parametrize("variant", ["well", "mis"])
def test_no_method_ever_runs_above_the_cap(variant: str) -> None:
    subject = study(variant, {"applications": 200}, 15)
    seen: list[tuple[Array, Array]] = []

    def watch(played: Any) -> None:
        seen.append((played.executed.action, played.rows.x))

    simulate(
        subject.domain.instance,
        subject.domain.bandit,
        subject.domain.world,
        rounds=15,
        replicates=5,
        units=8,
        seed=11,
        watch=watch,
    )
    ran, x = (np.concatenate(parts) for parts in zip(*seen, strict=True))
    runs = np.isfinite(ran[:, 0])
    assert runs.mean() > 0.8
    assert (ran[runs, 0] <= x[runs, CAP]).all()
    assert (ran[runs, 0] >= x[runs, FLOOR]).all()
    assert np.isclose(ran[runs, 1, None], tenors(x[runs])).any(axis=1).all()
    assert (x[~runs, FLOOR] > x[~runs, CAP]).all()


# Inputs that make no sense


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("age", 12, "context.age: expected 18 to 120, got 12"),
        ("age", 400, "context.age: expected 18 to 120"),
        ("amount", -3.0, "context.amount: expected 0.1 to 100, got -3"),
        ("amount", float("nan"), "context.amount: expected a finite number"),
        ("wanted", 0.0, "context.wanted"),
        ("pd", 1.5, "context.pd"),
        ("cap", float("inf"), "context.cap: expected a finite number"),
        ("checking", "gold", "context.checking: expected one of none, overdrawn, low, high"),
        ("plans", "yes", "context.plans: expected true or false"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(field: str, value: Any, said: str) -> None:
    agent = Agent(CREDIT, learner(UNTUNED), seed=3)
    with pytest.raises(InvalidInput, match=said):
        agent.decide(APPLICANT | {field: value})
    assert len(agent.records) == 0
    assert agent.events == Agent(CREDIT, learner(UNTUNED), seed=3).events


def test_sex_is_no_field() -> None:
    with pytest.raises(UnknownField, match="sex"):
        Agent(CREDIT, learner(UNTUNED)).decide(APPLICANT | {"sex": "female"})


def test_a_cap_below_the_cost_is_a_veto_with_its_reason() -> None:
    agent = Agent(CREDIT, learner(UNTUNED), seed=3)
    case = agent.decide(APPLICANT | {"cap": 0.03, "floor": 0.07})
    assert (case.status, case.executed) == ("vetoed", None)
    assert "the lower limit 0.07 is above the upper 0.03" in case.reason
    assert case.reason.startswith("cost floor")


def test_a_dear_proposal_is_lowered_to_the_cap() -> None:
    agent = Agent(CREDIT, learner(UNTUNED), seed=3)
    case = agent.decide(APPLICANT | {"cap": 0.072})
    assert case.status == "modified"
    assert case.executed is not None
    assert case.executed["apr"] == 0.072
    assert "APR cap" in case.reason
    assert agent.observe(case.id, {"accepted": 1, "repaid": 0, "loss": 0.8}, label=[0.3])
    with pytest.raises(InvalidInput, match="repaid"):
        agent.observe(case.id, {"accepted": 0, "repaid": 1, "loss": 0.0})


# The incumbent


def test_the_rate_card_by_hand() -> None:
    x = CREDIT.context.encode(
        [APPLICANT | {"pd": pd, "wanted": 1.5} for pd in (0.01, 0.03, 0.05, 0.1, 0.3)]
    )
    rows = Rows(np.arange(5), np.zeros(5, int), x)
    assert own(rows)[:, 0] == pytest.approx([0.092, 0.1, 0.112, 0.14, 0.2])
    assert (own(rows)[:, 1] == 18.0).all()


def test_the_past_varies_at_equal_contexts() -> None:
    subject = study("mis", {"applications": 1203}, 1)
    world, streams, group = subject.domain.world, Streams(11, 8), np.repeat(np.arange(2), 8)
    state = world.start(streams.at(WORLD, 0), group)
    past = subject.past(subject.domain.instance, world, state, group, streams)
    assert past.rows.n == 2 * 1203
    assert np.bincount(past.log.group).tolist() == [1203, 1203]
    assert past.label is not None
    assert past.label.shape == (2406, 1)
    ran = past.log.action[~past.log.is_null]
    x = past.log.x[~past.log.is_null]
    relative = 2.0 * ran[:, 1] / x[:, WANTED]
    shares = [np.isclose(relative, nominal).mean() for nominal in TENORS]
    assert shares == pytest.approx([0.15, 0.7, 0.15], abs=0.04)
    rows = world.context(streams.at(CONTEXT, 0), state, 0, group)
    rates = np.stack(
        [incumbent(streams.at(DRAW, t), state, rows)[:, 0] / rows.x[:, BASE] for t in range(200)]
    )
    assert np.log(rates).std(axis=0) == pytest.approx(0.08, abs=0.02)


# The file

_PARTS = {
    "gdcb.gates": ("menu", "gdcb.instances.credit.menu:Menu"),
    "gdcb.rewards": ("net-interest", "gdcb.instances.credit.reward:NetInterest"),
    "gdcb.compositions": ("credit-offer", "gdcb.instances.credit.offer:Offer"),
}


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the domain's own parts, as the installed package does."""
    known = declaration._entry_points

    def found(group: str) -> dict[str, list[EntryPoint]]:
        points = dict(known(group))
        if group in _PARTS:
            name, value = _PARTS[group]
            points.setdefault(name, [EntryPoint(name, value, group)])
        return points

    monkeypatch.setattr(declaration, "_entry_points", found)


@pytest.mark.usefixtures("parts")
def test_the_file_is_the_instance() -> None:
    declared = declaration.read(FILE)
    for name in ("scaler", "composition", "reward", "null", "arms", "context", "chain"):
        assert describe(getattr(declared.instance, name)) == describe(getattr(CREDIT, name)), name
    assert describe(declared.bandit) == describe(CREDIT.bind(learner(UNTUNED)))


@pytest.mark.usefixtures("parts")
def test_an_agent_decides_with_the_file() -> None:
    declared = declaration.read(FILE)
    agent = Agent(declared.instance, declared.bandit, seed=5)
    cases = agent.decide([APPLICANT, APPLICANT | {"checking": "none", "plans": True}], unit="north")
    assert all(case.executed is not None for case in cases)
    for case in cases:
        assert agent.observe(case.id, {"accepted": 1, "repaid": 1, "loss": 0}, label=[0.1])
