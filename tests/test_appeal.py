"""Appeals: written down after the fact, seen on the case, and taught to nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gdcb import Agent, BetaThompson
from gdcb import events as ev
from gdcb.errors import Conflict, InvalidInput, UnknownDecision
from tests.builders import letting, live, night, worked


def appealed() -> tuple[Agent, str]:
    """Return an agent one of whose decisions was appealed against, and its id."""
    agent = worked()
    one = next(iter(agent.records))
    assert agent.appeal(one, True, "the guest had a voucher", by="bea")
    return agent, one


def test_an_appeal_shows_on_the_case() -> None:
    """Before: None. After: how it ended, by whom and why; everything else stays."""
    agent = worked()
    one = next(iter(agent.records))
    before = agent[one]
    assert before.appeal is None
    assert agent.appeal(one, False, "the rule was clear", by="bea") is True
    after = agent[one]
    assert after.appeal == {"upheld": False, "by": "bea", "reason": "the rule was clear"}
    after.appeal = None
    assert after == before


def test_an_appeal_teaches_nobody() -> None:
    """The learned state keeps its bytes, and so do later decisions and outcomes."""
    plain, agent = worked(), appealed()[0]
    assert live(agent) == live(plain)
    for one in (plain, agent):
        one.decide(night(200.0), id="next")
        one.observe("next", {"booked": 1})
    assert live(agent) == live(plain)
    assert agent["next"] == plain["next"]


def test_the_same_appeal_twice_is_no_news() -> None:
    """A repeat is not stored; another ending, reason or person is refused and changes nothing."""
    agent, one = appealed()
    n = len(agent.events)
    assert agent.appeal(one, True, "the guest had a voucher", by="bea") is False
    for upheld, reason, by in (
        (False, "the guest had a voucher", "bea"),
        (True, "another reason", "bea"),
        (True, "the guest had a voucher", "cid"),
    ):
        with pytest.raises(Conflict, match="has one already, upheld: the guest had a voucher"):
            agent.appeal(one, upheld, reason, by=by)
    assert len(agent.events) == n
    assert agent[one].appeal == {"upheld": True, "by": "bea", "reason": "the guest had a voucher"}


def test_only_what_ran_is_appealed_against() -> None:
    """A held decision is refused until it is answered; a veto ran the null action and is not."""
    agent = Agent(letting(), BetaThompson(), seed=3)
    agent.decide(night(900.0), id="waits")
    with pytest.raises(Conflict, match="appeal: decision waits is held and has not run"):
        agent.appeal("waits", True, "too dear")
    agent.resolve("waits", "veto")
    assert agent.appeal("waits", True, "it should have run")
    with pytest.raises(UnknownDecision, match="no decision 'never'"):
        agent.appeal("never", True, "too dear")


@pytest.mark.parametrize(
    ("upheld", "reason", "by", "message"),
    [
        (1, "why", "", "upheld: expected True or False, got 1"),
        ("yes", "why", "", "upheld: expected True or False"),
        (None, "why", "", "upheld: expected True or False"),
        (True, "", "", "reason: say why"),
        (True, "  ", "", "reason: say why"),
        (True, None, "", "reason: expected text"),
        (True, "\ud800", "", "reason: expected text in Unicode"),
        (True, "why", 7, "by: expected text"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(
    upheld: Any, reason: Any, by: Any, message: str
) -> None:
    """The message names the field; no event is stored."""
    agent = worked()
    one, n = next(iter(agent.records)), len(agent.events)
    with pytest.raises(InvalidInput, match=message):
        agent.appeal(one, upheld, reason, by=by)
    assert len(agent.events) == n
    assert agent[one].appeal is None


def test_an_appeal_survives_saving_and_replay(tmp_path: Path) -> None:
    """Loaded and replayed agents have the same case and the same bytes."""
    agent, one = appealed()
    agent.save(tmp_path / "agent.zip")
    loaded = Agent.load(tmp_path / "agent.zip", letting(), BetaThompson())
    replayed = Agent.replay(agent.events, letting(), BetaThompson(), 3)
    for other in (loaded, replayed):
        assert other[one] == agent[one]
        assert other.events == agent.events
        assert live(other) == live(agent)
        assert other.appeal(one, True, "the guest had a voucher", by="bea") is False


def test_replay_refuses_an_appeal_out_of_place() -> None:
    """Before the decision ran, twice, or against nobody's decision."""
    agent, one = appealed()
    appeal = ev.AppealDecided(one, True, "bea", "again")
    with pytest.raises(Conflict, match="was appealed twice"):
        Agent.replay([*agent.events, appeal], letting(), BetaThompson(), 3)
    with pytest.raises(Conflict, match="was appealed before it ran"):
        Agent.replay([agent.events[0], appeal], letting(), BetaThompson(), 3)
    with pytest.raises(Conflict, match="about an unknown decision"):
        Agent.replay([appeal], letting(), BetaThompson(), 3)
