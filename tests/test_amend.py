"""What is amended later: corrected outcomes, learners put back, other actions than released."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb import Agent, BetaThompson, CurveThompson, RidgeScaler
from gdcb import events as ev
from gdcb.cases import made_event, rows_of
from gdcb.errors import Conflict, GdcbError, InvalidInput
from gdcb.kept import Kept
from gdcb.records import copy, to_bytes
from gdcb.refold import refold
from tests.builders import letting, live, night, pricing
from tests.properties import examples


def fresh(**parts: Any) -> Agent:
    """Return an agent whose nights of 100 pass."""
    return Agent(letting(**parts), BetaThompson(), seed=3)


def told(agent: Agent, n: int = 3) -> list[str]:
    """Let an agent decide and see n nights booked, all at arm 1."""
    ids = []
    for _ in range(n):
        case = agent.decide(night(100.0), mask=["1"])
        agent.observe(case.id, {"booked": 1})
        ids.append(case.id)
    return ids


def test_a_corrected_outcome_is_learned_in_its_place() -> None:
    """Three bookings of arm 1 are Beta(1+3, 1); with the second taken back, Beta(1+2, 1+1)."""
    agent = fresh()
    ids = told(agent)
    assert agent.state.bandit.counts[0, :, 1].tolist() == [4.0, 1.0]
    assert agent.correct(ids[1], {"booked": 0}, "the guest cancelled", by="ann")
    assert agent.state.bandit.counts[0, :, 1].tolist() == [3.0, 2.0]
    assert agent[ids[1]].outcome == {"booked": 0.0}
    assert not agent.correct(ids[1], {"booked": 0}, "again")
    assert agent.correct(ids[1], {"booked": 1}, "the guest came after all")
    assert agent.state.bandit.counts[0, :, 1].tolist() == [4.0, 1.0]


def test_a_correction_of_a_null_action_moves_its_mean() -> None:
    """The null action's excess reward is Σ(r − declared): 1 before, 0 once it is corrected."""
    agent = Agent(letting(), BetaThompson(), seed=3)
    case = agent.decide(night(900.0))
    agent.resolve(case.id, "veto")
    agent.observe(case.id, {"booked": 1})
    before = agent.state.null.excess.copy()
    agent.correct(case.id, {"booked": 0}, "typing error")
    reward = agent.instance.reward.reward(
        np.array([[1.0], [0.0]]),
        np.full((2, 1), np.nan),
        agent.records[case.id].rows.x.repeat(2, 0),
    )
    if np.isfinite(reward).all():
        assert (agent.state.null.excess - before).sum() == pytest.approx(reward[1] - reward[0])
    else:  # nothing ran, so nothing was earned either way
        assert (agent.state.null.excess == before).all()


@pytest.mark.parametrize("bandit", [BetaThompson(), CurveThompson()], ids=["beta", "curve"])
def test_corrections_and_rollbacks_replay_and_survive_saving(bandit: Any, tmp_path: Any) -> None:
    """A story with both comes out the same from its start, and from a file."""
    agent = Agent(letting(), bandit, seed=3)
    ids = told(agent, 5)
    agent.correct(ids[0], {"booked": 0}, "no")
    agent.roll_back(9, "a bad afternoon")
    told(agent, 3)
    agent.correct(ids[4], {"booked": 0}, "no")
    agent.discount(0.5, "new season")
    told(agent, 2)
    again = Agent.replay(agent.events, letting(), bandit, seed=3)
    assert live(again) == live(agent)
    agent.save(tmp_path / "a")
    assert live(Agent.load(tmp_path / "a", letting(), bandit)) == live(agent)


def test_a_rollback_undoes_what_was_learned_and_no_more() -> None:
    """After two of four outcomes the counts were Beta(1+2, 1); so they are again."""
    agent = fresh()
    told(agent, 2)
    then, version = to_bytes(agent.state.bandit), len(agent.events)
    ids = told(agent, 2)
    agent.roll_back(version, "the season turned")
    assert to_bytes(agent.state.bandit) == then
    assert agent[ids[1]].outcome == {"booked": 1.0}
    told(agent, 1)
    assert agent.state.bandit.counts[0, :, 1].tolist() == [4.0, 1.0]


def test_what_was_rolled_back_stays_out_of_later_refits() -> None:
    """A refit reads kept rows; those of the void count for nothing: two, and one more."""
    scaler = RidgeScaler(features=("busy",), every=10_000)
    agent = fresh(scaler=scaler)
    for i in range(4):
        case = agent.decide(night(100.0, 0.1 * i), mask=["1"])
        agent.observe(case.id, {"booked": 1}, label=[0.3])
        if i == 1:
            version = len(agent.events)
    agent.refit()
    agent.roll_back(version, "two bad labels")
    assert agent.state.scaler.versions.tolist() == [2]  # never a number for two fits
    case = agent.decide(night(100.0, 0.5), mask=["1"])
    agent.observe(case.id, {"booked": 1}, label=[0.3])
    agent.refit()
    assert agent.kept.log is not None
    assert agent.kept.log.weight.tolist() == [1.0, 1.0, 0.0, 0.0, 1.0]


def test_a_way_back_past_a_way_back_brings_all_back() -> None:
    """Six bookings, put back to one by mistake, and forward again: a correction leaves five."""
    agent = fresh()
    ids = told(agent, 6)
    version = len(agent.events)
    agent.roll_back(4, "by mistake")
    agent.roll_back(version, "undo the mistake")
    assert agent.kept.log is not None
    assert agent.kept.log.weight.tolist() == [1.0] * 6
    assert agent.voids == [(version, version + 1)]
    agent.correct(ids[5], {"booked": 0}, "no")
    assert agent.state.bandit.counts[0, :, 1].tolist() == [6.0, 2.0]
    agent.roll_back(version + 1, "it was none")
    assert agent.voids == [(4, version), (version + 1, version + 3)]
    assert agent.kept.log.weight.tolist() == [1.0] + [0.0] * 5


def test_a_way_back_before_a_discount_takes_it_back() -> None:
    """A false alarm made four of six rows worth nothing; put back, all count, and go on to."""
    agent = fresh()
    ids = told(agent, 6)
    version = len(agent.events)
    agent.discount(0.0, "drift", since=version - 8)
    agent.roll_back(version, "the alarm was false")
    assert agent.discounts == []
    agent.correct(ids[0], {"booked": 0}, "no")
    assert agent.state.bandit.counts[0, :, 1].tolist() == [6.0, 2.0]
    agent.discount(0.5, "new season")
    assert agent.state.bandit.counts[0, :, 1].tolist() == [3.5, 1.5]


def test_ways_back_are_gone_over_once() -> None:
    """Ten ways back, each behind the last: the tenth takes 10 folds, where it could be 2⁹."""
    folds = []

    class Counted(Agent):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            folds.append(self)

    agent = Counted(letting(), BetaThompson(), 3)
    for _ in range(10):
        told(agent, 1)
        folds.clear()
        agent.roll_back(len(agent.events) - 1, "bad data")
    assert len(folds) == 10
    assert live(Agent.replay(agent.events, letting(), BetaThompson(), 3)) == live(agent)


def test_a_gate_is_seen_anew_without_what_was_rolled_back() -> None:
    """Two vetoes and three that were rolled back: a kernel that starts afresh has seen two."""
    agent = fresh()
    for i in range(5):
        agent.resolve(agent.decide(night(900.0)).id, "veto")
        if i == 1:
            version = len(agent.events)
    agent.roll_back(version, "they were trying it out")
    agent.discount(0.0, "a new manager", since=0, gate="owner")
    assert agent.state.kernels[0].counts.sum() == 2.0


ACTS = st.lists(
    st.one_of(
        st.just(("told",)),
        st.tuples(st.just("discount"), st.sampled_from((0.0, 0.5)), st.floats(0.0, 1.0)),
        st.tuples(st.just("back"), st.floats(0.0, 1.0)),
    ),
    min_size=3,
    max_size=9,
)


@examples(40)
@given(acts=ACTS)
def test_learning_the_kept_rows_again_is_what_is_known(acts: list[tuple[Any, ...]]) -> None:
    """Whatever is discounted and put back, in any order: the rows say what the learner knows."""
    agent = fresh()
    told(agent, 2)
    for what, *said in acts:
        if what == "told":
            told(agent, 1)
        elif what == "discount":
            agent.discount(said[0], "drift", since=int(said[1] * len(agent.events)))
        else:
            agent.roll_back(int(said[0] * len(agent.events)), "bad data")
        again, rows = copy(agent.state), agent.kept.log
        assert rows is not None
        refold(agent.instance, agent.bandit, again, rows, agent.group, np.unique(agent.group))
        np.testing.assert_allclose(again.bandit.counts, agent.state.bandit.counts)
        shares = [agent.share(one) for one in agent.records.values() if one.seen is not None]
        np.testing.assert_allclose(rows.weight, shares)


def test_a_unit_that_came_later_keeps_its_place() -> None:
    """Units that the older state did not know start from the prior."""
    agent = fresh()
    told(agent, 1)
    version = len(agent.events)
    for unit in ("a", "b", "c"):
        agent.observe(agent.decide(night(100.0), unit=unit).id, {"booked": 1})
    agent.roll_back(version, "start over")
    counts = agent.state.bandit.counts
    assert counts[0].sum() == 7.0
    assert (counts[1:4] == 1.0).all()
    assert agent.decide(night(100.0), unit="b").executed is not None


def test_a_correction_needs_rows_that_were_kept() -> None:
    """Where rows are not kept, nothing can be learned again: refused, and nothing changes."""
    agent = fresh()
    ids = told(agent, 1)
    agent.kept = Kept()
    before = live(agent), len(agent.events)
    with pytest.raises(Conflict, match="rows were not kept"):
        agent.correct(ids[0], {"booked": 0}, "no")
    assert (live(agent), len(agent.events)) == before


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda a, i: a.correct(i, {"booked": 0}, " "), InvalidInput, "say why the outcome"),
        (lambda a, i: a.correct(i, {"booked": 7}, "no"), InvalidInput, "0 or 1"),
        (lambda a, i: a.correct("x", {"booked": 0}, "no"), GdcbError, "no decision 'x'"),
        (lambda a, i: a.roll_back(-1, "no"), InvalidInput, "expected an event 0 to"),
        (lambda a, i: a.roll_back(10**6, "no"), InvalidInput, "expected an event 0 to"),
        (lambda a, i: a.roll_back(True, "no"), InvalidInput, "expected an event 0 to"),
        (lambda a, i: a.roll_back(0, ""), InvalidInput, "say why the learners"),
    ],
)
def test_bad_amendments_change_nothing(call: Any, error: type[Exception], message: str) -> None:
    """Each is refused with its sentence."""
    agent = fresh()
    ids = told(agent, 1)
    before = live(agent), len(agent.events)
    with pytest.raises(error, match=message):
        call(agent, ids[0])
    assert (live(agent), len(agent.events)) == before


# What ran in another way


def test_what_was_reported_to_run_is_what_is_credited() -> None:
    """100 was released (arm 1), 80 was booked: arm 0.8 learns, as an override."""
    agent = fresh()
    x = agent.instance.context.encode([night(100.0)])
    rows = rows_of([0], x, np.array([[False, True, False]]))
    decision = agent.propose([("1", 0)], rows)
    made = made_event(decision, ["1"], ["1"], np.zeros(1, int), 0, ["default"], rows)
    agent.fold(made)
    agent.fold(agent.gated(made, rows))
    agent.fold(ev.ActionExecuted(["1"], np.array([[80.0]]), np.array([False]), is_told=True))
    seen = ev.OutcomeObserved(["1"], np.array([[1.0]]), None, np.ones(1))
    log = agent.log(seen)
    assert (bool(log.is_own[0]), bool(log.is_override[0])) == (False, True)
    agent.fold(seen)
    assert agent.state.bandit.counts[0, 0].tolist() == [2.0, 1.0, 1.0]
    assert live(Agent.replay(agent.events, letting(), BetaThompson(), 3)) == live(agent)


def launch(agent: Agent, ids: list[str], share: float, drawn_by: str = "decision") -> Any:
    """Make decisions of which a share is live, and the others 90 in their place."""
    n = len(ids)
    x = agent.instance.context.encode([night(100.0)] * n)
    units = [f"u{i % 50}" for i in range(n)]
    rows, keys = rows_of(agent.places(units), x, None), [(id, 0) for id in ids]
    launched = agent.launched(keys, units, np.full(n, share), drawn_by, np.full((n, 1), 90.0))
    decision = agent.propose(keys, rows)
    row = np.zeros(n, dtype=np.int64)
    made = made_event(decision, ids, ids, row, len(agent.events), units, rows, launched)
    return made, rows


def test_an_incumbent_runs_in_the_proposals_place() -> None:
    """At share 0 all rows run 90, which is no arm's own action and no override."""
    agent = fresh()
    made, rows = launch(agent, ["a", "b"], 0.0)
    judged = agent.gated(made, rows)
    for event in (made, judged, agent.released(judged, rows)):
        assert event is not None
        agent.fold(event)
    assert agent["a"].executed == {"price": 90.0}
    log = agent.log(ev.OutcomeObserved(["a", "b"], np.ones((2, 1)), None, np.ones(2)))
    assert not log.is_own.any()
    assert not log.is_override.any()
    assert live(Agent.replay(agent.events, letting(), BetaThompson(), 3)) == live(agent)


def test_a_share_is_met_and_only_ever_grows() -> None:
    """Of 4,000 rows at 0.3 a share within ±0.03 is live (4 standard errors: one in 16,000)."""
    agent = fresh()
    ids = [f"d{i}" for i in range(4000)]
    is_live = [np.isnan(launch(agent, ids, share)[0].instead[:, 0]) for share in (0.3, 0.5)]
    assert abs(is_live[0].mean() - 0.3) < 0.03
    assert (is_live[1] | ~is_live[0]).all()


def test_a_unit_draws_once() -> None:
    """By unit, all rows of a unit go the same way, and another seed draws otherwise."""
    agent = fresh()
    made, _ = launch(agent, [f"d{i}" for i in range(200)], 0.5, "unit")
    is_live = np.isnan(made.instead[:, 0]).reshape(4, 50)
    assert (is_live == is_live[0]).all()
    assert 0 < is_live[0].sum() < 50
    other = Agent(letting(), BetaThompson(), seed=4)
    again, _ = launch(other, [f"d{i}" for i in range(200)], 0.5, "unit")
    assert (np.isnan(again.instead[:, 0]) != np.isnan(made.instead[:, 0])).any()


def test_an_assignment_that_was_not_drawn_is_found() -> None:
    """Whoever turns a row's assignment around is found by the replay."""
    agent = Agent(pricing(), BetaThompson(), seed=3)
    made, _ = launch_plain(agent)
    turned = np.where(np.isnan(made.instead), 90.0, np.nan)
    with pytest.raises(Conflict, match="comes out differently"):
        Agent.replay([replace(made, instead=turned)], pricing(), BetaThompson(), 3)
    Agent.replay([made], pricing(), BetaThompson(), 3)


def launch_plain(agent: Agent) -> Any:
    """Launch two rows of the plain pricing instance."""
    names = list(agent.instance.context.columns)
    kinds = agent.instance.context.columns
    context = {name: 1.0 if type(kinds[name]).__name__ == "Number" else False for name in names}
    x = agent.instance.context.encode([context] * 2)
    rows, keys = rows_of([0, 0], x, None), [("a", 0), ("b", 0)]
    units = ["default", "default"]
    launched = agent.launched(keys, units, np.full(2, 0.5), "decision", np.full((2, 1), 90.0))
    decision = agent.propose(keys, rows)
    made = made_event(decision, ["a", "b"], ["a", "b"], np.zeros(2, int), 0, units, rows, launched)
    return made, rows
