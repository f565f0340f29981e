"""A watched agent: alarms in the order of events, written down, acted upon, and replayed."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from gdcb import (
    Agent,
    Approval,
    ArmList,
    BetaThompson,
    Bounds,
    Chain,
    Hold,
    Instance,
    Multiply,
    Number,
    Payoff,
    Schema,
)
from gdcb import events as ev
from gdcb.analysis.drift import (
    Reaction,
    Reference,
    Watch,
    WatchList,
    seen_in_events,
    seen_in_history,
)
from gdcb.analysis.drift.expected import CLIP
from gdcb.errors import InvalidInput
from gdcb.records import (
    HELD,
    MODIFIED,
    NOT_REACHED,
    PASSED,
    VETOED,
    History,
    Rows,
    Verdict,
    to_bytes,
)
from tests.builders import choosing, live, log_of

SMALL = {"bands": 1, "least": 20, "horizon": 1000}


def owned() -> Instance:
    """Return prices that an owner answers, one by one, before bounds."""
    return Instance(
        context=Schema({"base": Number(1, 1000), "busy": Number(-9, 9)}),
        arms=ArmList(values=(0.9, 1.1)),
        composition=Multiply(base=("base",), names=("price",)),
        gate=Chain((Approval(Hold(), name="owner"), Bounds(low=1.0, high=990.0, name="limits"))),
        reward=Payoff(outcome=("booked",), action=0),
    )


def go_on(agent: Agent, n: int, *, approved: float, booked: float, busy: float = 0.0) -> None:
    """Make n decisions; the owner approves some and vetoes the rest, some are booked."""
    rng = np.random.default_rng(len(agent.events))
    for _ in range(n):
        context = {"base": float(rng.uniform(80, 120)), "busy": float(rng.normal(busy))}
        case = agent.decide(context)
        agent.resolve(case.id, "approve" if rng.random() < approved else "veto")
        agent.observe(case.id, {"booked": int(rng.random() < booked)})


@cache
def first_events() -> tuple[ev.Event, ...]:
    """Return what happened in 300 decisions in which all was as it should be."""
    agent = Agent(owned(), BetaThompson(), seed=5)
    go_on(agent, 300, approved=0.8, booked=0.7)
    return tuple(agent.events)


def launched() -> tuple[Agent, WatchList, Reference]:
    """Return an agent after 300 decisions, what is watched in it, and these as the reference."""
    agent = Agent(owned(), BetaThompson(), seed=5)
    for event in first_events():
        agent.fold(event)
    watched = WatchList.of(agent.instance, **SMALL)
    return agent, watched, watched.fit(seen_in_events(agent))


def found_in(agent: Agent, kind: type[ev.Event]) -> list[Any]:
    """Return the events of a kind."""
    return [event for event in agent.events if isinstance(event, kind)]


def test_what_is_watched_in_an_instance() -> None:
    """Its gates, its action's numbers and its context columns, by their names."""
    assert WatchList.of(owned()).names == (
        "gate owner: how often it acts",
        "gate limits: how often it acts",
        "gate owner: how far it moves price",
        "gate limits: how far it moves price",
        "reward",
        "context base: level",
        "context busy: level",
        "context base: spread",
        "context busy: spread",
    )


def test_events_become_rows_in_their_order() -> None:
    """Decided (context), held (nothing yet), answered (gates), observed (outcome): three rows and
    one that says nothing; the same row by row as at once.
    """
    agent = Agent(owned(), BetaThompson(), seed=5)
    go_on(agent, 3, approved=1.0, booked=1.0)
    agent.decide({"base": 100.0, "busy": 0.0}, id="vetoed")
    agent.resolve("vetoed", "veto")
    agent.observe("vetoed", {"booked": 0})
    seen = seen_in_events(agent)
    assert seen.n == 4 * 4
    assert seen.is_new.tolist() == [True, False, False, False] * 4
    assert seen.statuses[:4].tolist() == [
        [NOT_REACHED, NOT_REACHED],
        [HELD, NOT_REACHED],
        [PASSED, PASSED],
        [NOT_REACHED, NOT_REACHED],
    ]
    assert seen.statuses[-2].tolist() == [VETOED, NOT_REACHED]
    assert np.isfinite(seen.y).tolist() == [False, False, False, True] * 3 + [False] * 4
    held: dict[str, int] = {}
    for i in range(len(agent.events)):
        for rest in (None, held):
            one = seen_in_events(agent, i, i + 1, rest)
            here = seen.take(np.flatnonzero(seen.at == i))
            for name in ("x", "is_new", "trail", "statuses", "action", "y", "at"):
                assert np.array_equal(getattr(one, name), getattr(here, name), equal_nan=True)


def test_a_history_is_all_news() -> None:
    """A row a decision; the null action's outcome says nothing about the reward law."""
    log = log_of([[1.0], [2.0]], [9.0, 0.0], [0, 1], [1.0, 0.0], is_null=[False, True])
    rows = Rows(log.unit, log.group, log.x)
    trail = np.array([[[9.0], [9.0]], [[8.0], [np.nan]]])
    statuses = np.array([[PASSED], [VETOED]], dtype=np.int8)
    seen = seen_in_history(
        History(log, rows, Verdict(trail[:, 1], statuses[:, 0], trail, statuses, {}))
    )
    assert seen.is_new.all()
    assert seen.y[0] == 1.0
    assert np.isnan(seen.y[1])
    assert seen.statuses.tolist() == [[PASSED], [VETOED]]


def test_a_fallen_reward_is_found_and_old_outcomes_are_discounted() -> None:
    """Booked 0.7, then 0.1: one alarm, dated; outcomes from before count for 1/(1 + n·b²)."""
    agent, watched, reference = launched()
    watch = Watch(agent, watched, reference, start=len(agent.events), rows=500)
    go_on(agent, 60, approved=0.8, booked=0.7)
    assert watch.look() == []
    onset = len(agent.events)
    go_on(agent, 120, approved=0.8, booked=0.1)
    (reaction,) = watch.look()
    found = reaction.found
    assert (reaction.kind, reaction.gate, found.monitor) == ("reward", None, "reward")
    assert abs(found.since - onset) < 7 * 20  # seven events a decision
    assert found.before == pytest.approx(0.7, abs=0.1)
    assert found.after == pytest.approx(0.1, abs=0.1)
    assert found.log_e >= found.limit
    (alarm,) = watch.monitors.alarms(watch.state)
    n = sum(isinstance(event, ev.OutcomeObserved) for event in agent.events[: found.since])
    shift = 2 * CLIP * (alarm.after - alarm.before)
    assert reaction.factor == pytest.approx(1.0 / (1.0 + n / 2 * shift**2))
    assert [type(event) for event in agent.events[-2:]] == [ev.DriftFound, ev.EvidenceDiscounted]
    assert agent.events[-1].since == found.since  # type: ignore[union-attr]
    assert "since event" in reaction.says
    assert "count for" in reaction.says
    assert watch.look() == []


def test_a_changed_gate_is_forgotten_and_outcomes_stay() -> None:
    """The owner approves 0.8, then 0.3: its kernel starts anew, the arms keep their bytes."""
    agent, watched, reference = launched()
    watch = Watch(agent, watched, reference, start=len(agent.events), rows=500)
    go_on(agent, 150, approved=0.3, booked=0.7)
    before = to_bytes(agent.state.bandit)
    reactions = watch.look()
    assert [(one.kind, one.gate, one.factor) for one in reactions] == [("gate", "owner", 0.0)]
    assert reactions[0].found.before == pytest.approx(0.2, abs=0.1)
    assert reactions[0].found.after == pytest.approx(0.7, abs=0.15)
    assert to_bytes(agent.state.bandit) == before
    assert "outcomes stay" in reactions[0].says


def test_a_moved_context_is_found_and_certified() -> None:
    """Busy moves by 2: old outcomes count for a half, what certifies is asked about the onset."""
    asked: list[tuple[Any, int]] = []

    def certify(agent: Any, since: int) -> str:
        asked.append((agent, since))
        return "adjust"

    agent, watched, reference = launched()
    watch = Watch(agent, watched, reference, start=len(agent.events), certify=certify, rows=500)
    go_on(agent, 120, approved=0.8, booked=0.7, busy=2.0)
    reactions = watch.look()
    assert {one.found.monitor for one in reactions} <= {
        "context busy: level",
        "context busy: spread",
    }
    assert reactions[0].factor == 0.5
    assert reactions[0].certificate == "adjust"
    assert "certified again: adjust" in reactions[0].says
    assert asked == [(agent, one.found.since) for one in reactions]


def test_it_does_not_matter_how_often_one_looks() -> None:
    """After every decision or once at the end: the same alarm, dated alike."""
    agent, watched, reference = launched()
    start = len(agent.events)
    go_on(agent, 120, approved=0.8, booked=0.1)
    (once,) = Watch(agent, watched, reference, start=start, rows=500).look()
    other = launched()[0]
    watch = Watch(other, watched, reference, start=start, rows=500)
    found: list[Reaction] = []
    for event in agent.events[start:]:
        if isinstance(event, ev.DriftFound | ev.EvidenceDiscounted):
            continue
        other.note(event)
        if isinstance(event, ev.OutcomeObserved) and not found:
            found += watch.look()
    assert found[0].found == once.found


def test_replay_reproduces_the_reaction_and_nothing_happens_twice() -> None:
    """A replayed agent has the same bytes; a new watch over it finds what is written down."""
    agent, watched, reference = launched()
    start = len(agent.events)
    go_on(agent, 100, approved=0.8, booked=0.1)
    assert Watch(agent, watched, reference, start=start, rows=500).look()
    again = Agent.replay(agent.events, owned(), BetaThompson(), 5)
    assert live(again) == live(agent)
    assert Watch(again, watched, reference, start=start, rows=500).look() == []
    assert again.events == agent.events


def test_a_new_reference_follows_an_alarm() -> None:
    """After 100 more outcomes the new rate is what is expected, and a return to the old is news."""
    agent, watched, reference = launched()
    watch = Watch(agent, watched, reference, start=len(agent.events), rows=100)
    go_on(agent, 220, approved=0.8, booked=0.1)
    (first,) = watch.look()
    assert watch.reference is not reference
    go_on(agent, 60, approved=0.8, booked=0.1)
    assert watch.look() == []
    go_on(agent, 150, approved=0.8, booked=0.8)
    (second,) = watch.look()
    assert second.found.before == pytest.approx(0.1, abs=0.1)
    assert second.found.after > 0.5
    assert len(found_in(agent, ev.DriftFound)) == 2
    assert first.found in agent.events


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": 10}, "watch.rows: expected a number >= 80"),
        ({"keep": 1.5}, "watch.keep: expected a number >= 0"),
        ({"start": -1}, "watch.start: expected a number >= 0"),
        ({"start": 10**9}, "watch.start: expected a number >= 0"),
        ({"history_rows": -1}, "watch.history_rows: expected a number >= 0"),
    ],
)
def test_bad_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    """Every setting says what it may be."""
    agent, watched, reference = launched()
    with pytest.raises(InvalidInput, match=message):
        Watch(agent, watched, reference, **({"rows": 500} | changes))


def test_an_edited_price_is_moved() -> None:
    """How far a gate moves a number is what left less what entered."""
    agent, watched, _ = launched()
    case = agent.decide({"base": 100.0, "busy": 0.0}, id="edited")
    assert case.proposed is not None
    price = case.proposed["price"]
    agent.resolve("edited", "edit", {"price": price + 7.0})
    seen = seen_in_events(agent, len(agent.events) - 2)
    assert seen.statuses[0].tolist() == [MODIFIED, PASSED]
    _, _, moved = watched._target(seen, 2)
    assert moved == pytest.approx([7.0])


def test_without_gates_and_numbers_the_rest_is_watched() -> None:
    """Three bare categories: the reward and the context; wins get rare, and that is found."""
    instance = choosing(3)
    watched = WatchList.of(instance, **SMALL)
    assert watched.names == ("reward", "context x: level", "context x: spread")
    agent, rng = Agent(instance, BetaThompson(), seed=1), np.random.default_rng(1)
    for i in range(400):
        case = agent.decide({"x": float(rng.normal())})
        agent.observe(case.id, {"won": int(rng.random() < (0.8 if i < 250 else 0.2))})
        if i == 249:
            watch = Watch(agent, watched, watched.fit(seen_in_events(agent)), start=1000)
    (reaction,) = watch.look()
    assert reaction.kind == "reward"
    assert reaction.gate is None
