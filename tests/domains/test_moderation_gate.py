"""Moderation: the appeal filter, the reward, the whole chain, and the instance as a file."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb import Agent, ArmList, Identity, Instance, Number, Schema, checks, declaration
from gdcb import round as turn
from gdcb.errors import InvalidInput, UnknownField
from gdcb.gates import Hold
from gdcb.instances.moderation import features, file, learners
from gdcb.instances.moderation.appeals import AppealFilter
from gdcb.instances.moderation.banded import BandedThompson
from gdcb.instances.moderation.columns import CATEGORIES
from gdcb.instances.moderation.domain import LIMIT, instance
from gdcb.instances.moderation.moderator import Moderator
from gdcb.instances.moderation.reward import ModerationReward
from gdcb.instances.moderation.severity import SeverityScaler
from gdcb.instances.moderation.world import Forum
from gdcb.records import VETOED, Rows
from gdcb.streams import CONTEXT, GATE, WORLD, Streams
from tests.properties import examples

KIND, POST = "You are a moron.", {"reach": 0.4, "reports": 0.3}


def one(*x: float) -> Rows:
    """Return one row of context."""
    zero = np.zeros(1, dtype=np.int64)
    return Rows(zero, zero, np.array([x]))


def test_every_part_keeps_its_promises() -> None:
    """The list that all parts of their kind pass."""
    for part in (
        AppealFilter.example(),
        BandedThompson.example(),
        SeverityScaler.example(),
        ModerationReward(),
    ):
        assert checks.check(part).is_conforming


def test_the_filter_by_hand() -> None:
    """Log odds (−3, −1, 0) + x: at x = 1 an appeal has σ(−2), σ(0), σ(1) = 0.12, 0.5, 0.73."""
    gate = AppealFilter((-3.0, -1.0, 0.0), columns=(0,), weights=(1.0,), limit=0.6)
    np.testing.assert_allclose(
        gate.predicted(one(1.0))[0], [1 / (1 + math.exp(2)), 0.5, 1 / (1 + math.exp(-1))]
    )
    all_three = np.array([[[0.0, 0.7], [1.0, 0.7], [2.0, 0.7]]])
    assert gate.project(all_three, one(1.0))[0].tolist() == [[0.0, 0.7], [1.0, 0.7], [1.0, 0.7]]
    assert gate.project(all_three, one(0.0)).tolist() == all_three.tolist()
    # At x = 5 even 'allow' is predicted with σ(2): nothing milder may run, so nothing does.
    assert np.isnan(gate.project(all_three, one(5.0))).all()


def test_the_filter_may_veto_instead() -> None:
    """With 'veto' what may not run becomes nothing, and says why."""
    gate = AppealFilter((-3.0, -1.0, 0.0), (0,), (1.0,), limit=0.6, otherwise="veto")
    left, status = gate.apply(None, np.array([[2.0, 0.3]]), one(1.0))
    assert np.isnan(left).all()
    assert status.tolist() == [VETOED]
    said = gate.reason(np.array([2.0, 0.3]), left[0], one(1.0))
    assert said == "an appeal is predicted with 0.73, and 0.6 is the limit; nothing runs"


def test_the_filter_says_what_runs_instead() -> None:
    """The reason has the prediction, the limit and both categories."""
    gate = AppealFilter((-3.0, -1.0, 0.0), (0,), (1.0,), limit=0.6)
    said = gate.reason(np.array([2.0, 0.3]), np.array([1.0, 0.3]), one(1.0))
    assert said == (
        "an appeal is predicted with 0.73, and 0.6 is the limit; category 1 runs instead of 2"
    )


def test_a_context_that_is_no_number_bars_everything() -> None:
    """It fails closed: what cannot be predicted may not run."""
    gate = AppealFilter((-3.0, -1.0, 0.0), (0,), (1.0,))
    assert np.isnan(gate.project(np.array([[[0.0], [1.0]]]), one(np.nan))).all()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"levels": (0.0, math.nan, 1.0)}, "expected a finite number"),
        ({"levels": (0.0,), "columns": (0,)}, "expected a weight for each of 1 columns, got 0"),
        ({"levels": (0.0,), "limit": 1.5}, "limit: expected a number >= 0 and <= 1"),
        ({"levels": (0.0,), "limit": math.nan}, "limit: expected a finite number"),
        ({"levels": (0.0,), "limit": 1.0}, "limit: expected below 1; at 1 it would bar nothing"),
        ({"levels": (0.0,), "otherwise": "harsher"}, "otherwise: expected one of milder, veto"),
        ({"levels": 0.0}, "levels: expected a tuple"),
    ],
)
def test_a_filter_that_makes_no_sense(fields: dict[str, Any], message: str) -> None:
    """Settings are refused when it is built."""
    with pytest.raises(InvalidInput, match=message):
        AppealFilter(**fields)


def test_a_filter_of_other_categories_is_refused() -> None:
    """Two levels for three categories: the instance is not built."""
    with pytest.raises(InvalidInput, match="expected one number for each of the 3 categories"):
        Instance(
            Schema({"x": Number()}),
            ArmList(names=CATEGORIES),
            Identity(),
            AppealFilter((0.0, 1.0)),
        )


def test_the_reward_by_hand() -> None:
    """Satisfied, with a violation at 2 and an appeal at 0.5: 1 − 2 − 0.5."""
    reward = ModerationReward(0, 1)
    y, x = np.array([[1.0, 1.0, 1.0]]), np.array([[2.0, 0.5]])
    assert reward.reward(y, np.zeros((1, 2)), x).tolist() == [-1.5]
    assert reward.learn(y, x)[0].tolist() == [-1.5]


@pytest.mark.parametrize("bad", [0.5, 2.0, math.nan, -1.0])
def test_outcomes_are_yes_or_no(bad: float) -> None:
    """Anything else is refused by name."""
    with pytest.raises(InvalidInput, match=r"outcome\.violation: expected 0 or 1"):
        ModerationReward().check(np.array([[1.0, bad, 0.0]]))


# A gate is never bypassed


def opened(kind: str, variant: str) -> tuple[Instance, Rows]:
    """Return the instance with a simulated moderator, and 64 posts."""
    made, world = instance(Moderator(kind, 0).person), Forum(variant)
    group, streams = np.repeat(np.arange(8), 8), Streams(11, 8)
    state = world.start(streams.at(WORLD, 0), group)
    return made, world.context(streams.at(CONTEXT, 0), state, 3, group)


OPEN = {
    (kind, variant): opened(kind, variant)
    for kind in ("plain", "turnover")
    for variant in ("well", "mis")
}
ANYTHING = st.one_of(
    st.sampled_from([0.0, 1.0, 2.0, 3.0, -1.0, 0.5, math.nan, math.inf, -math.inf, 1e300]),
    st.floats(allow_nan=True, allow_infinity=True),
)


@examples(40)
@given(
    where=st.sampled_from(sorted(OPEN)),
    proposed=st.lists(st.tuples(ANYTHING, ANYTHING), min_size=64, max_size=64),
    seed=st.integers(0, 1000),
)
def test_nothing_that_is_forbidden_ever_runs(
    where: tuple[str, str], proposed: list[tuple[float, float]], seed: int
) -> None:
    """Whatever is proposed: a known category within the limit of appeals runs, or nothing."""
    made, rows = OPEN[where]
    e = np.array(proposed)
    draws = made.chain.draw(Streams(seed, 8).at(GATE, 0), rows.n)
    verdict = made.chain.apply(draws, e, rows)
    ran = turn.execute(made, verdict, rows).action
    something = np.isfinite(ran).all(axis=1)
    assert np.isnan(ran[~something]).all()
    kind = ran[something, 0]
    assert np.isin(kind, (0.0, 1.0, 2.0)).all()
    gate: Any = made.chain.gates[-1]
    chance = gate.predicted(rows)[something, kind.astype(int)]
    assert (chance <= LIMIT).all()


def test_the_filter_has_the_last_word_over_a_person() -> None:
    """A moderator edits a friendly post into 'remove'; 'warn' or 'allow' runs."""
    agent = live()
    case = agent.decide(features.context_of("I love my garden, thanks.", reach=0.2, reports=0.0))
    edited = {"category": "remove", "severity": 0.9}
    case = agent.resolve(case.id, "edit", edited, by="mo", reason="a hunch")
    assert case.executed is not None
    assert case.executed["category"] != "remove"
    assert "appeal filter (version 1): an appeal is predicted with" in case.reason


# Live


def live() -> Agent:
    """Return an agent with a real moderator, who must answer."""
    return Agent(instance(Hold()), learners.learner(learners.UNTUNED), seed=7)


def test_a_post_waits_for_the_moderator_and_may_be_appealed_against() -> None:
    """Held, approved, observed; the later appeal is an event that teaches nobody."""
    agent = live()
    case = agent.decide(features.context_of(KIND, **POST), unit="garden")
    assert case.status == "held"
    assert case.executed is None
    case = agent.resolve(case.id, "approve", by="mo")
    assert case.executed is not None
    agent.observe(case.id, {"satisfied": 1, "violation": 0, "appeal": 0}, label=[0.9])
    known = agent.state.bandit.total.copy()
    assert agent.appeal(case.id, True, "it was a quotation", by="ida")
    assert agent[case.id].appeal == {"upheld": True, "by": "ida", "reason": "it was a quotation"}
    np.testing.assert_array_equal(agent.state.bandit.total, known)


def test_severity_is_the_pilots_before_the_first_rating() -> None:
    """A foul insult scores high and thanks score low, on the first day."""
    agent = live()
    foul = agent.decide(features.context_of("You are an idiot.", **POST))
    kind = agent.decide(features.context_of("Thanks a lot, well done.", reach=0.1, reports=0.0))
    assert foul.proposed is not None
    assert kind.proposed is not None
    assert foul.proposed["severity"] > 0.6
    assert kind.proposed["severity"] < 0.2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"profanity": math.nan}, "context.profanity: expected a finite number, got nan"),
        ({"profanity": 1.2}, "context.profanity: expected 0 to 1, got 1.2"),
        ({"reach": -0.1}, "context.reach: expected 0 to 1"),
        ({"reports": math.inf}, "context.reports: expected a finite number"),
        ({"violation_cost": -1.0}, "context.violation_cost: expected 0 to 10"),
        ({"capitals": "many"}, "context.capitals: expected a number, got 'many'"),
    ],
)
def test_contexts_that_make_no_sense(change: dict[str, Any], message: str) -> None:
    """Each is refused with its column, and nothing is decided."""
    agent = live()
    good = features.context_of(KIND, **POST)
    with pytest.raises(InvalidInput, match=message):
        agent.decide(good | change)
    with pytest.raises(UnknownField, match="no column text"):
        agent.decide(good | {"text": KIND})
    assert len(agent.events) == 0


def test_only_known_categories_may_be_edited_in() -> None:
    """An edit to 'ban' is refused; the post still waits."""
    agent = live()
    case = agent.decide(features.context_of(KIND, **POST))
    with pytest.raises(InvalidInput, match="expected one of allow, warn, remove; got 'ban'"):
        agent.resolve(case.id, "edit", {"category": "ban", "severity": 0.5}, by="mo")
    assert agent[case.id].status == "held"


def test_the_file_is_the_instance() -> None:
    """`moderation.toml` is what the module writes, and has the limits of the schema."""
    assert file.PATH.read_text(encoding="utf-8") == file.text()


def test_the_file_declares_the_instance() -> None:
    """It is read, its parts equal those of Python, and an agent decides the same with it."""
    declared = declaration.read(file.PATH)
    made = instance(Hold())
    assert declared.instance.chain.gates == made.chain.gates
    assert declared.instance.scaler == made.scaler
    assert declared.instance.reward == made.reward
    assert declared.instance.cells == made.cells
    assert declared.bandit == learners.learner(learners.UNTUNED)
    context = features.context_of(KIND, **POST)
    agent = Agent(declared.instance, declared.bandit, seed=7)
    assert agent.decide(context, id="one") == live().decide(context, id="one")
