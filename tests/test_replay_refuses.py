"""Replay refuses stories that cannot have happened: out of order, twice, or of a wrong kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gdcb import Agent, Approval, BetaThompson, Bounds, Chain, Review
from gdcb import events as ev
from gdcb.cases import about
from gdcb.errors import Conflict
from gdcb.gates import CategoryKernel
from tests.builders import HoldDear, choosing, letting, live, night

Story = list[ev.Event]
SEED = 3


def agent_of() -> Agent:
    """Return an agent with 'waits' held, 'answered' reviewed and run, 'plain' run and observed."""
    agent = Agent(letting(), BetaThompson(), seed=SEED)
    agent.decide(night(100.0), id="plain")
    agent.observe("plain", {"booked": 1})
    agent.decide(night(800.0), id="answered")
    agent.resolve("answered", "approve", by="bea")
    agent.decide(night(900.0), id="waits")
    return agent


STORY = list(agent_of().events)


def replayed(story: Story) -> Agent:
    """Replay a story of these agents."""
    return Agent.replay(story, letting(), BetaThompson(), SEED)


def of(kind: type[ev.Event], id: str, story: Story = STORY) -> Any:
    """Return the last event of one kind about one decision."""
    return [e for e in story if type(e) is kind and about(e) == [id]][-1]


def ran(id: str, *action: float, is_null: bool = False) -> ev.ActionExecuted:
    """Return the account of what ran of one decision."""
    return ev.ActionExecuted([id], np.array([action]), np.array([is_null]))


def observed(id: str, *outcome: float, label: Any = None, weight: Any = 1.0) -> ev.OutcomeObserved:
    """Return the account of one outcome."""
    labels = None if label is None else np.array([label])
    return ev.OutcomeObserved([id], np.array([outcome]), labels, np.array([weight]))


def test_the_story_itself_replays() -> None:
    """What is refused below is refused for what was added, and every beginning replays too."""
    assert live(replayed(STORY)) == live(agent_of())
    for n in range(len(STORY)):
        assert len(replayed(STORY[:n]).events) == n


@pytest.mark.parametrize(
    ("added", "message"),
    [
        (ran("waits", 400.0), "of which waits is held"),
        (ran("waits", np.nan, is_null=True), "of which waits is held"),
        (of(ev.ActionExecuted, "plain"), "decision plain ran twice"),
        (of(ev.ActionExecuted, "answered"), "decision answered ran twice"),
        (ev.Reviewed("answered", "veto", None, "cid", ""), "is not held; it is modified"),
        (ev.Expired("answered", "late"), "is not held; it is modified"),
        (ev.Reviewed("plain", "approve", None, "cid", ""), "is not held; it is passed"),
        (ev.Expired("plain", "late"), "is not held; it is passed"),
        (ev.Reviewed("waits", "maybe", None, "cid", ""), "verdict: expected one of approve"),
        (ev.Reviewed("waits", "edit", None, "cid", ""), "action: give one with 'edit'"),
        (ev.Reviewed("waits", "veto", [100.0], "cid", ""), "action: give one with 'edit'"),
        (ev.Reviewed("waits", "edit", [100.0, 2.0], "cid", ""), "action: expected 1 columns"),
        (ev.Reviewed("waits", "edit", [], "cid", ""), "action: expected 1 columns"),
        (ev.Reviewed("waits", "edit", [float("nan")], "cid", ""), "action.price: expected a fin"),
        (ev.Reviewed("waits", "edit", [True], "cid", ""), "action.price: expected a finite"),
        (ev.Reviewed("waits", "approve", None, 7, ""), "by: expected text"),  # type: ignore[arg-type]
        (ev.Reviewed("waits", "approve", None, "", None), "reason: expected text"),  # type: ignore[arg-type]
        (ev.Expired("waits", 7), "reason: expected text"),  # type: ignore[arg-type]
        (ev.ReviewRequested(["answered"], ["owner"], ["again"]), "of which none is held"),
        (of(ev.ReviewRequested, "waits"), "decision waits was asked about twice"),
        (of(ev.GateApplied, "plain"), "decision plain was judged twice"),
        (of(ev.GateApplied, "waits"), "decision waits was judged twice"),
        (of(ev.DecisionMade, "plain"), "a decision on version 0 of the state"),
        (ev.AppealDecided("plain", "no", "bea", "why"), "upheld: expected True or False"),  # type: ignore[arg-type]
        (ev.AppealDecided("plain", True, "bea", ""), "reason: say why"),
        (ev.AppealDecided("plain", True, "bea", "  "), "reason: say why"),
        (ev.AppealDecided("waits", True, "bea", "why"), "was appealed before it ran"),
        (observed("waits", 1.0), "is held and has not run"),
        (observed("answered", 1.0, 0.0), "outcome: expected 1 number for each"),
        (observed("answered", 0.5), "0 or 1"),
        (observed("plain", 1.0), "decision plain was observed twice"),
        (observed("answered", 1.0, weight=-1.0), "weight: expected a number >= 0"),
        (observed("answered", 1.0, label=[0.1, 0.2]), "label: expected 1 number for"),
        (ev.LabelObserved("answered", [0.1]), "label: decision answered has no outcome yet"),
        (ev.LabelObserved("plain", None), "label: expected one"),  # type: ignore[arg-type]
        (ev.LabelObserved("plain", [1e300]), "label: expected a number"),
        (ev.ScalerFitted([7], [1]), "owners: expected owners 0 to 0"),
        (ev.ScalerFitted([-1], [1]), "owners: expected owners 0 to 0"),
        (ev.ScalerFitted([0, 0], [1, 1]), "owners: expected owners 0 to 0"),
        (ev.ScalerFitted([], []), "a refit of nothing"),
        (ev.OutcomeCorrected("waits", [1.0], "bea", "why"), "has none that could be corrected"),
        (ev.OutcomeCorrected("plain", [0.5], "bea", "why"), "0 or 1"),
        (ev.OutcomeCorrected("plain", [0.0], "bea", " "), "say why the outcome was wrong"),
        (ev.RolledBack(99, "why"), "to: expected an event 0 to"),
        (ev.RolledBack(1, ""), "say why the learners are put back"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:30],
)
def test_an_impossible_next_event_is_refused(added: ev.Event, message: str) -> None:
    """The event is named by its place, and whoever replays sees a Conflict."""
    with pytest.raises(Conflict, match=f"^replay: .*({message})"):
        replayed([*STORY, added])


def changed(kind: type[ev.Event], about: str, **fields: Any) -> Story:
    """Return the story with an event of one decision told differently."""
    old = of(kind, about)
    return [replace(old, **fields) if event is old else event for event in STORY]


def without(kind: type[ev.Event], id: str) -> Story:
    """Return the story without one event."""
    old = of(kind, id)
    return [event for event in STORY if event is not old]


@pytest.mark.parametrize(
    ("story", "message"),
    [
        (lambda: changed(ev.ReviewRequested, "waits", gate=["limits"]), "comes out as"),
        (lambda: changed(ev.ReviewRequested, "waits", reason=["a lie"]), "comes out as"),
        (lambda: changed(ev.ReviewRequested, "answered", id=["plain"]), "of which none is held"),
        (lambda: without(ev.ReviewRequested, "answered"), "answered before anybody was asked"),
        (lambda: without(ev.Reviewed, "answered"), "decision answered was judged twice"),
        (lambda: without(ev.GateApplied, "plain"), "decision plain ran before it was judged"),
        (lambda: without(ev.GateApplied, "answered"), "of which answered is held"),
        (lambda: changed(ev.DecisionMade, "waits", unit=[""]), "unit: expected a name"),
        (
            lambda: changed(ev.DecisionMade, "waits", mask=np.zeros((1, 3), bool)),
            "no arm is allowed",
        ),
        (
            lambda: changed(ev.DecisionMade, "waits", x=np.array([[900.0]])),
            "x: expected at least one row",
        ),
        (lambda: changed(ev.DecisionMade, "waits", x=np.array([["a", "b"]])), "x: expected"),
        (lambda: changed(ev.DecisionMade, "waits", id=["plain"]), "decision plain was made twice"),
    ],
)
def test_an_impossible_account_is_refused(story: Callable[[], Story], message: str) -> None:
    """An event that was forged or left out is found where the story stops making sense."""
    with pytest.raises(Conflict, match=f"^replay: .*({message})"):
        replayed(story())


def twice_held() -> tuple[Agent, Any]:
    """Return an agent whose decision was held by two gates, one after the other."""
    gates = (
        Approval(HoldDear(), name="owner"),
        Review(high=1.0, name="board"),
        Bounds(low=50.0, high=400.0, name="limits"),
    )
    instance = letting(gate=Chain(gates))
    agent = Agent(instance, BetaThompson(), seed=SEED)
    agent.decide(night(900.0), id="one")
    agent.resolve("one", "approve", by="bea")
    return agent, instance


def test_one_answer_does_not_serve_two_holds() -> None:
    """After the first answer the second gate holds it: that answer must not be told again."""
    agent, instance = twice_held()
    story = list(agent.events)
    assert agent["one"].status == "held"
    again = Agent.replay(story, instance, BetaThompson(), SEED)
    again.resolve("one", "edit", {"price": 120.0})
    assert live(Agent.replay(again.events, instance, BetaThompson(), SEED)) == live(again)
    kinds = [type(event).__name__ for event in again.events]
    holds = kinds[2:]
    assert holds == ["ReviewRequested", "Reviewed", "GateApplied"] * 2 + ["ActionExecuted"]
    answer = of(ev.Reviewed, "one", story)
    for added, message in (
        ([of(ev.GateApplied, "one", story)], "judged twice"),
        ([answer, answer], "has been answered already"),
        ([ran("one", 400.0)], "of which one is held"),
    ):
        with pytest.raises(Conflict, match=f"^replay: .*{message}"):
            Agent.replay([*story, *added], instance, BetaThompson(), SEED)


@pytest.mark.parametrize(("level", "is_there"), [(2.0, True), (3.0, False), (0.5, False)])
def test_an_edit_to_a_category_that_is_not_there_is_refused(level: float, is_there: bool) -> None:
    """Three categories, 0 to 2: an edit to 2 stands, to 3 or ½ it never happened."""
    gate = Chain((Approval(kernel=CategoryKernel(n_categories=3)),), closed=False)
    instance = choosing(3, gate=gate)
    agent = Agent(instance, BetaThompson(), seed=SEED)
    agent.decide({"x": 0.0}, id="one")
    story = [*agent.events, ev.Reviewed("one", "edit", [level], "bea", "")]
    if is_there:
        assert len(Agent.replay(story, instance, BetaThompson(), SEED).events) == len(story)
    else:
        with pytest.raises(Conflict, match="expected 0 to 2"):
            Agent.replay(story, instance, BetaThompson(), SEED)
