"""Discounted evidence: an event like any other, so that replay and files reproduce it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gdcb import Agent, BetaThompson, GaussianThompson
from gdcb import events as ev
from gdcb.errors import Conflict, InvalidInput, UnknownField
from gdcb.records import to_bytes
from tests.builders import letting, letting_log, live, night, pricing, rewarded, worked


def counts_of(agent: Agent) -> Any:
    """Return the Beta counts of the only unit: (2, K), the prior included."""
    return agent.state.bandit.counts[0]


def sold(n_before: int, n_after: int, since: int | None = None, factor: float = 0.25) -> Agent:
    """Return an agent with outcomes 1 before and 0 after, discounted since the first 0."""
    agent = Agent(pricing(), BetaThompson(), seed=1)
    start = 0
    for i in range(n_before + n_after):
        if i == n_before:
            start = len(agent.events)
        case = agent.decide({"base": 100})
        agent.observe(case.id, {"booked": int(i < n_before)})
    agent.discount(factor, "test", since=start if since is None else since)
    return agent


def test_old_rows_count_for_a_share_and_recent_ones_in_full() -> None:
    """Eight ones before and three zeros after, ¼ of the old kept: 2 and 3 over the arms' priors."""
    agent = sold(8, 3)
    prior = Agent(pricing(), BetaThompson(), seed=1).state.bandit.counts[0]
    won, lost = (counts_of(agent) - prior).sum(axis=1)
    assert [won, lost] == pytest.approx([2.0, 3.0])


def test_all_is_old_by_default() -> None:
    """Without an event number everything counts for the factor: 8/4 and 3/4."""
    agent = sold(8, 3, since=8 * 4 + 3 * 4)
    prior = Agent(pricing(), BetaThompson(), seed=1).state.bandit.counts[0]
    assert (counts_of(agent) - prior).sum(axis=1) == pytest.approx([2.0, 0.75])
    again = Agent.replay(agent.events[:-1], pricing(), BetaThompson(), 1)
    again.discount(0.25, "test")
    assert again.events == agent.events
    assert live(again) == live(agent)


def test_discounts_add_up() -> None:
    """Old rows ½ · ½; rows between the two onsets ½; rows after both 1: 8/4 + 2/2, then 0."""
    agent = Agent(pricing(), BetaThompson(), seed=1)
    starts = []
    for i in range(12):
        starts.append(len(agent.events))
        case = agent.decide({"base": 100})
        agent.observe(case.id, {"booked": int(i < 10)})
    agent.discount(0.5, "the later onset first", since=starts[10])
    agent.discount(0.5, "then the earlier", since=starts[8])
    prior = Agent(pricing(), BetaThompson(), seed=1).state.bandit.counts[0]
    assert (counts_of(agent) - prior).sum(axis=1) == pytest.approx([3.0, 2.0])


def test_a_refit_finds_the_discounted_weights() -> None:
    """What a refit builds up from rows is what the discount left: 0 forgets the old rows wholly."""
    agent = worked(letting(), n=8)
    agent.refit()
    start = len(agent.events)
    for base in (80.0, 120.0, 160.0):
        case = agent.decide(night(base), unit="flat 0")
        agent.observe(case.id, {"booked": 1}, label=[0.2])
    agent.discount(0.0, "all changed", since=start)
    assert agent.kept.log is not None
    weight = agent.kept.log.weight
    assert weight.tolist() == [0.0] * 6 + [1.0] * 3
    agent.refit()
    fresh = Agent(letting(), BetaThompson(), seed=3).state.bandit.counts[0]
    assert (agent.state.bandit.counts - fresh).sum() == pytest.approx(3.0)


def test_an_imported_history_is_older_than_every_event() -> None:
    """Forgotten from event 0 on, the history is gone and the live rows stay; so it replays."""
    agent = worked(history=letting_log(600))
    prior = Agent(letting(), BetaThompson(), seed=3).state.bandit.counts[0]
    n_live = sum(isinstance(event, ev.OutcomeObserved) for event in agent.events)
    assert (agent.state.bandit.counts - prior).sum() > 100
    agent.discount(0.0, "all changed at launch", since=0)
    assert (agent.state.bandit.counts - prior).sum() == pytest.approx(n_live)
    assert agent.kept.log is not None
    weight = agent.kept.log.weight
    assert weight[:-n_live].sum() == 0.0
    assert weight[-n_live:].tolist() == [1.0] * n_live
    agent.refit()
    again = Agent.replay(agent.events, letting(), BetaThompson(), 3)
    assert live(again) == live(agent)


def test_a_discount_by_one_changes_nothing() -> None:
    """Factor 1 keeps all: the same counts, and the same weights."""
    agent, plain = worked(), worked()
    agent.discount(1.0, "nothing changed", since=5)
    assert agent.state.bandit.counts == pytest.approx(plain.state.bandit.counts)
    assert agent.kept.log is not None
    assert agent.kept.log.weight.tolist() == [1.0] * plain.kept.numbers.size


def test_a_gate_is_seen_anew_and_outcomes_stay() -> None:
    """After the discount the kernel of 'owner' has only the verdicts since; the arms keep all."""
    agent = worked(letting(), n=9)
    before = to_bytes(agent.state.bandit)
    start = len(agent.events)
    agent.decide(night(700.0), id="held", unit="flat 1")
    agent.resolve("held", "veto", by="ann")
    agent.decide(night(90.0), unit="flat 2")
    agent.discount(0.0, "another owner", since=start, gate="owner")
    kernel = agent.state.kernels[0]
    assert kernel.counts.sum() == 2.0
    assert kernel.counts[:, :, 2].sum() == 1.0
    assert to_bytes(agent.state.bandit) == before


def test_a_hold_that_began_before_is_an_answer_since() -> None:
    """Held before the onset and answered after it: the answer is learned, once."""
    agent = worked(letting(), n=3)
    agent.decide(night(700.0), id="held", unit="flat 1")
    start = len(agent.events)
    agent.resolve("held", "approve", by="ann")
    agent.discount(0.0, "another owner", since=start, gate="owner")
    assert agent.state.kernels[0].counts.sum() == 1.0


@pytest.mark.parametrize("bandit", [BetaThompson(), GaussianThompson()], ids=["beta", "gaussian"])
def test_it_survives_saving_and_replay(tmp_path: Path, bandit: Any) -> None:
    """Loaded and replayed agents have the same bytes, and decide and learn alike afterwards."""
    is_beta = isinstance(bandit, BetaThompson)
    instance = letting() if is_beta else rewarded()
    agent = Agent(instance, bandit, seed=3)
    for i in range(9):
        context = night(60.0 + 40.0 * i) if is_beta else {"base": 60.0 + 40.0 * i}
        case = agent.decide(context, id=f"case {i}")
        label: Any = [0.1 * (i % 3)] if is_beta and i % 2 else None
        outcome = {"booked": i % 2} if is_beta else {"reward": 0.5 * i}
        agent.observe(case.id, outcome, label=label)
    agent.report_drift(ev.DriftFound("reward", 7, 0.5, 0.3, 9.3, 9.2, 0.05, "the reward fell"))
    agent.discount(0.4, "the reward fell", since=7)
    if is_beta:
        agent.discount(0.0, "another owner", since=11, gate="owner")
    agent.save(tmp_path / "agent.zip")
    loaded = Agent.load(tmp_path / "agent.zip", instance, bandit)
    replayed = Agent.replay(agent.events, instance, bandit, 3)
    context = night(99.0) if is_beta else {"base": 99.0}
    for other in (loaded, replayed):
        assert other.events == agent.events
        assert live(other) == live(agent)
        assert [other.share(one) for one in other.records.values()] == [
            agent.share(one) for one in agent.records.values()
        ]
    for one in (agent, loaded, replayed):
        one.decide(context, id="next")
        one.observe("next", {"booked": 1} if is_beta else {"reward": 1.0})
        one.refit()
    assert live(loaded) == live(agent) == live(replayed)
    assert loaded["next"] == agent["next"] == replayed["next"]


def test_an_alarm_teaches_nobody() -> None:
    """The learned state keeps its bytes."""
    agent, plain = worked(), worked()
    agent.report_drift(ev.DriftFound("reward", 7, 0.5, 0.3, 9.3, 9.2, 0.05, "the reward fell"))
    assert live(agent) == live(plain)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"factor": -0.1}, "factor: expected a number >= 0"),
        ({"factor": 1.1}, "factor: expected a number >= 0 and <= 1"),
        ({"factor": float("nan")}, "factor: expected a finite number"),
        ({"factor": "half"}, "factor: expected a finite number"),
        ({"since": -1}, "since: expected an event 0 to"),
        ({"since": 10_000}, "since: expected an event 0 to"),
        ({"since": 1.0}, "since: expected an event 0 to"),
        ({"since": True}, "since: expected an event 0 to"),
        ({"reason": ""}, "reason: say why"),
        ({"reason": " "}, "reason: say why"),
        ({"reason": None}, "reason: expected text"),
        ({"gate": "owner"}, "a gate forgets all or nothing, give 0; got 0.5"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(changes: dict[str, Any], message: str) -> None:
    """The message names the field; no event is stored, here or in a replay."""
    agent = worked()
    before, n = live(agent), len(agent.events)
    fields: dict[str, Any] = {"factor": 0.5, "reason": "why", "since": 3, "gate": None}
    given = fields | changes
    with pytest.raises(InvalidInput, match=message):
        agent.discount(**given)
    assert len(agent.events) == n
    assert live(agent) == before
    event = ev.EvidenceDiscounted(given["factor"], given["since"], given["gate"], given["reason"])
    with pytest.raises(Conflict, match=message):
        Agent.replay([*agent.events, event], letting(), BetaThompson(), 3)


def test_an_unknown_gate_is_named() -> None:
    """The message says which gates there are."""
    with pytest.raises(UnknownField, match="gate: no gate 'boss'; there are owner, limits"):
        worked().discount(0.0, "why", gate="boss")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("monitor", "", "monitor: expected a name"),
        ("since", -1, "since: expected an event"),
        ("before", float("nan"), "before: expected a finite number"),
        ("log_e", float("inf"), "log_e: expected a finite number"),
        ("level", 0.0, "level: expected a number > 0"),
        ("says", "", "says: expected a name"),
    ],
)
def test_a_bad_alarm_is_refused(field: str, value: Any, message: str) -> None:
    """Nothing is stored that no monitor could have said."""
    agent = worked()
    n = len(agent.events)
    fields: dict[str, Any] = {
        "monitor": "reward",
        "since": 1,
        "before": 0.5,
        "after": 0.3,
        "log_e": 9.3,
        "limit": 9.2,
        "level": 0.05,
        "says": "it fell",
    }
    alarm = ev.DriftFound(**(fields | {field: value}))
    with pytest.raises(InvalidInput, match=message):
        agent.report_drift(alarm)
    assert len(agent.events) == n
    with pytest.raises(Conflict, match=message):
        Agent.replay([*agent.events, alarm], letting(), BetaThompson(), 3)


class Forgetful(BetaThompson):
    """A learner that cannot discount."""

    supports = frozenset({"merge"})


def test_a_learner_that_cannot_discount_says_so() -> None:
    """Nothing is written, not even in part."""
    agent = Agent(pricing(), Forgetful(), seed=1)
    case = agent.decide({"base": 100})
    agent.observe(case.id, {"booked": 1})
    before = live(agent)
    with pytest.raises(InvalidInput, match="bandit: Forgetful cannot discount"):
        agent.discount(0.5, "why")
    assert live(agent) == before
    assert len(agent.events) == 4
