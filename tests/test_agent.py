"""The agent: decide, hold, observe, save, load and replay, alone and in any order."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import struct
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from gdcb import (
    Agent,
    Approval,
    BetaThompson,
    Bounds,
    Cap,
    Case,
    Chain,
    CurveThompson,
    HierarchicalThompson,
    Instance,
    NullAction,
    RidgeScaler,
)
from gdcb import events as ev
from gdcb.arrays import Array
from gdcb.bandits import Bandit
from gdcb.errors import Conflict, GdcbError, InvalidInput, UnknownDecision
from gdcb.records import flatten, to_bytes
from tests.builders import Frame, PandasFrame, letting, live, night, pricing, worked
from tests.properties import examples


def fresh(bandit: Bandit | None = None, seed: int = 3, **changes: Any) -> Agent:
    return Agent(letting(**changes), bandit or BetaThompson(), seed=seed)


def kinds(agent: Agent) -> list[str]:
    return [type(event).__name__ for event in agent.events]


# Decide


def test_a_decision_runs_unless_it_is_held() -> None:
    """A cheap night passes the owner and runs; its story has three events."""
    agent = fresh()
    case = agent.decide(night(100.0))
    assert case.status == "passed"
    assert case.executed == case.proposed
    assert case.reason == "every gate let it pass"
    assert case.outcome is None
    assert kinds(agent) == ["DecisionMade", "GateApplied", "ActionExecuted"]
    assert agent[case.id] == case
    assert case.id in agent
    assert "other" not in agent


def test_the_action_is_the_arm_times_the_base() -> None:
    """δ is 1 before any label: the price is 100 times the arm's own value."""
    case = fresh().decide(night(100.0))
    assert case.proposed == {"price": pytest.approx(100.0 * float(case.arm))}


def test_a_hard_gate_changes_and_says_why() -> None:
    """300 is the least proposal on a base of 380, the limit is 400; 1.25 · 380 is above it."""
    agent = fresh()
    cases = [agent.decide(night(450.0), id=f"night {i}") for i in range(20)]
    moved = [case for case in cases if case.status == "modified"]
    assert moved
    for case in moved:
        assert case.executed == {"price": 400.0}
        assert case.reason.startswith("limits (version 1): ")
        assert case.reason.endswith("is above the upper limit 400")


def test_the_same_id_answers_with_the_same_case() -> None:
    """Asked again a decision is neither made nor folded again."""
    agent = fresh()
    first = agent.decide(night(100.0), id="tonight")
    events, state = list(agent.events), live(agent)
    assert agent.decide(night(100.0), id="tonight") == first
    assert agent.events == events
    assert live(agent) == state


@pytest.mark.parametrize(
    "again",
    [
        {"context": night(101.0)},
        {"context": night(100.0), "unit": "other"},
        {"context": night(100.0), "mask": ["1"]},
        {"context": [night(100.0)]},
        {"context": [night(100.0), night(100.0)]},
    ],
    ids=["context", "unit", "mask", "batch", "longer batch"],
)
def test_an_id_is_used_once(again: dict[str, Any]) -> None:
    """The same id for something else is a conflict, and nothing is folded."""
    agent = fresh()
    agent.decide(night(100.0), id="tonight")
    before = live(agent), list(agent.events)
    with pytest.raises(Conflict, match="tonight"):
        agent.decide(**again, id="tonight")
    assert (live(agent), agent.events) == before


def test_ids_given_by_the_agent_are_free() -> None:
    """Numbers that a client took are passed over, batches' rows included."""
    agent = fresh()
    agent.decide(night(), id="2")
    agent.decide(night(), id="4.0")
    names = [agent.decide(night()).id for _ in range(3)]
    assert len({*names, "2", "4.0"}) == 5
    rows = agent.decide([night(), night()])
    assert len({case.id for case in rows} - {*names, "2", "4.0"}) == 2


def test_ids_given_by_the_agent_are_free_for_a_batch_too() -> None:
    """The agent's next number is 2; a client holds '2.0', which its batch would need."""
    agent = fresh()
    agent.decide(night(), id="2.0")
    assert len(agent.decide([night(), night()])) == 2


def test_a_batch_has_ids_of_its_own() -> None:
    """Rows of batch 'b' are b.0, b.1 and so on; asked again they come again."""
    agent = fresh()
    cases = agent.decide([night(100.0), night(700.0), night(120.0)], id="b", unit=["x", "y", "x"])
    assert [case.id for case in cases] == ["b.0", "b.1", "b.2"]
    assert [case.unit for case in cases] == ["x", "y", "x"]
    assert [case.status for case in cases] == ["passed", "held", "passed"]
    again = agent.decide([night(100.0), night(700.0), night(120.0)], id="b", unit=["x", "y", "x"])
    assert again == cases
    with pytest.raises(Conflict):
        agent.decide(night(100.0), id="b.0")


@pytest.mark.parametrize("kind", [list, tuple, Frame, PandasFrame], ids=lambda kind: kind.__name__)
def test_rows_come_as_lists_or_frames(kind: Callable[[Any], Any]) -> None:
    """A list, a tuple, and what has to_dicts() or to_dict('records') decide alike."""
    rows = [night(100.0), night(120.0, gap=True, season="high")]
    plain = fresh().decide(rows, id="b")
    assert fresh().decide(kind(rows), id="b") == plain


def test_a_row_of_a_batch_keys_its_own_numbers() -> None:
    """The first rows of a longer batch come out as those of a shorter one with the same id."""
    contexts = [night(80.0 + 10.0 * i) for i in range(6)]
    long, short = fresh().decide(contexts, id="b"), fresh().decide(contexts[:2], id="b")
    assert long[:2] == short


def test_a_mask_leaves_only_its_arms() -> None:
    """Of twenty decisions with two arms allowed none proposes the third; one arm is certain."""
    agent = fresh()
    arms = {agent.decide(night(), mask=["0.8", "1.25"]).arm for _ in range(20)}
    assert arms == {"0.8", "1.25"}
    assert agent.decide(night(), mask=["1"]).arm == "1"
    assert all(case.arm == "1" for case in agent.decide([night(), night()], mask=["1"]))


def test_the_seed_and_the_id_decide() -> None:
    """Same seed and id, same draws; over twenty ids another seed differs somewhere."""
    ids = [f"n{i}" for i in range(20)]
    one, two, other = (
        [agent.decide(night(), id=name).arm for name in ids]
        for agent in (fresh(seed=1), fresh(seed=1), fresh(seed=2))
    )
    assert one == two != other


# Units


def test_units_learn_apart() -> None:
    """What one unit saw leaves the arms of another at the prior."""
    agent = fresh()
    for i in range(6):
        case = agent.decide(night(), unit="a", id=f"{i}")
        agent.observe(case.id, {"booked": 1})
    agent.decide(night(), unit="b")
    assert agent.state.bandit.counts[1].tolist() == [[1.0] * 3] * 2
    assert agent.state.bandit.counts[0].sum() == 12.0


@pytest.mark.parametrize("bandit", [BetaThompson(), CurveThompson()], ids=["beta", "curve"])
def test_new_units_do_not_disturb_old_ones(bandit: Bandit) -> None:
    """A hundred newcomers leave the old unit's bytes, and its next decision, as they were."""
    plain, crowded = fresh(bandit), fresh(bandit)
    for agent in (plain, crowded):
        for i in range(6):
            case = agent.decide(night(), unit="old", id=f"old {i}")
            agent.observe(case.id, {"booked": i % 2})
    before = to_bytes(plain.state.bandit)
    for i in range(100):
        crowded.decide(night(), unit=f"new {i}", id=f"new {i}")
    crowded.decide([night()] * 30, unit=[f"newer {i}" for i in range(30)], id="many")
    for name in ("counts", "mean", "trials", "root"):
        if hasattr(plain.state.bandit, name):
            one, two = (getattr(agent.state.bandit, name)[0] for agent in (plain, crowded))
            assert one.tobytes() == two.tobytes()
    assert to_bytes(plain.state.bandit) == before
    cases = [agent.decide(night(), unit="old", id="next") for agent in (plain, crowded)]
    assert cases[0] == cases[1]


# Observe


def test_an_outcome_is_learned_once() -> None:
    """True the first time, False the second, and a conflict with another value."""
    agent = fresh()
    case = agent.decide(night())
    assert agent.observe(case.id, {"booked": 1}) is True
    before = live(agent), list(agent.events)
    assert agent.observe(case.id, {"booked": 1}) is False
    assert agent.observe(case.id, {"booked": True}) is False
    with pytest.raises(Conflict, match=r"has \[1.0\] with weight 1 already, got \[0.0\]"):
        agent.observe(case.id, {"booked": 0})
    with pytest.raises(Conflict):
        agent.observe(case.id, {"booked": 1}, weight=2.0)
    assert (live(agent), agent.events) == before
    assert agent[case.id].outcome == {"booked": 1.0}


def test_outcomes_may_come_in_any_order() -> None:
    """Ten outcomes forwards and backwards leave the same arms to 1e-12: sums add up anyhow."""
    states = []
    for step in (1, -1):
        agent = fresh(CurveThompson(), scaler=RidgeScaler(features=("busy",), every=99))
        cases = [agent.decide(night(60.0 + 30.0 * i), id=f"{i}") for i in range(10)]
        for i in list(range(10))[::step]:
            agent.observe(cases[i].id, {"booked": i % 2}, label=[0.1 * i])
        agent.refit()
        states.append(agent.state)
    assert states[0].bandit.wins == pytest.approx(states[1].bandit.wins, rel=1e-12)
    assert states[0].bandit.mean == pytest.approx(states[1].bandit.mean, rel=1e-9)
    assert states[0].scaler.theta == pytest.approx(states[1].scaler.theta, rel=1e-12)


def test_labels_publish_the_scaler_and_refold_the_arms() -> None:
    """Every fourth label puts a fit in force: an event, a new version, and δ as ridge has it.

    Four labels of 0.4 at busy = 0.5, φ = (1, ½), λ = 1: gram = [5, 2; 2, 2], moment (1.6, 0.8),
    determinant 6, θ = ((3.2 − 1.6)/6, (4 − 3.2)/6) = (4/15, 2/15), so log δ(½) = 1/3.
    """
    agent = fresh()
    for i in range(4):
        case = agent.decide(night(100.0, 0.5))
        agent.observe(case.id, {"booked": 1}, label=[0.4])
        assert ("ScalerFitted" in kinds(agent)) == (i == 3)
    assert agent.events[-1] == ev.ScalerFitted([0], [1])
    assert agent.state.scaler.theta[0, 0] == pytest.approx(np.array([4.0, 2.0]) / 15.0)
    case = agent.decide(night(100.0, 0.5), mask=["1"])
    assert case.proposed == {"price": pytest.approx(100.0 * np.exp(1.0 / 3.0))}
    made = next(e for e in agent.events if isinstance(e, ev.DecisionMade) and e.id == [case.id])
    assert made.scaler_version.tolist() == [1]
    # 100·a ran under δ = 1; under 1.396 it is a/1.396 = 0.573, 0.716 or 0.896: arm 0.8 at best.
    counts = agent.state.bandit.counts[0]
    assert counts[0, 1:].tolist() == [1.0, 1.0]
    assert counts[1].tolist() == [1.0] * 3


def test_a_missing_label_teaches_nothing() -> None:
    """None in a label, or no label at all, leaves the scaler's sums alone."""
    agent = fresh()
    before = to_bytes(agent.state.scaler)
    for label in (None, [None]):
        case = agent.decide(night())
        agent.observe(case.id, {"booked": 1}, label=label)
    assert to_bytes(agent.state.scaler) == before


def test_a_refit_can_be_asked_for() -> None:
    """`refit` publishes now; without labels to learn from it does nothing."""
    agent = fresh()
    case = agent.decide(night(100.0, 0.5))
    agent.observe(case.id, {"booked": 1}, label=[0.4])
    agent.refit()
    assert agent.state.scaler.versions.tolist() == [1]
    constant = Agent(pricing(), BetaThompson())
    constant.refit()
    assert not len(constant.events)


def test_a_fit_that_was_refused_is_not_reported_as_in_force() -> None:
    """Below its excitation floor a scaler stays at version 0; no event may say otherwise."""
    agent = fresh(scaler=RidgeScaler(features=("busy",), every=4, floor=1e9))
    for _ in range(4):
        agent.observe(agent.decide(night(100.0, 0.5)).id, {"booked": 1}, label=[0.4])
    assert agent.state.scaler.versions.tolist() == [0]
    for event in agent.events:
        if isinstance(event, ev.ScalerFitted):
            assert event.versions == [0] * len(event.owners)


# Hold and resolve


def test_a_held_decision_waits() -> None:
    """A dear night waits for its owner: nothing ran, and the list shows the oldest first."""
    agent = fresh()
    first, second = agent.decide(night(700.0)), agent.decide(night(900.0))
    assert (first.status, first.executed) == ("held", None)
    assert first.reason == "owner (version 1): it waits for a person"
    assert agent.held() == [first, second]
    assert kinds(agent)[:3] == ["DecisionMade", "GateApplied", "ReviewRequested"]
    with pytest.raises(Conflict, match="is held and has not run"):
        agent.observe(first.id, {"booked": 1})


def test_approved_it_meets_the_limits_behind() -> None:
    """Approval lets the proposal through to the bounds, which lower it to 400."""
    agent = fresh()
    case = agent.resolve(agent.decide(night(700.0)).id, "approve", by="ann")
    assert (case.status, case.executed) == ("modified", {"price": 400.0})
    assert "limits" in case.reason
    assert agent.held() == []
    assert agent.observe(case.id, {"booked": 1})


def test_approved_within_the_limits_it_runs_as_proposed() -> None:
    """With wide bounds the approved proposal is the agent's own and credits its arm."""
    gate = Chain((Approval(), Bounds(high=5000.0)))
    agent = fresh(gate=gate)
    case = agent.resolve(agent.decide(night(700.0)).id, "approve")
    assert (case.status, case.executed) == ("passed", case.proposed)
    agent.observe(case.id, {"booked": 1})
    arm = agent.instance.space.names.index(case.arm)
    assert agent.state.bandit.counts[0, 0, arm] == 2.0


def test_an_edit_still_meets_the_limits_behind() -> None:
    """A person may put in 1,000; what runs is 400. 123 stays 123."""
    agent = fresh()
    dear = agent.resolve(agent.decide(night(700.0)).id, "edit", {"price": 1000.0})
    assert (dear.status, dear.executed) == ("modified", {"price": 400.0})
    fair = agent.resolve(agent.decide(night(700.0)).id, "edit", {"price": 123.0})
    assert (fair.status, fair.executed) == ("modified", {"price": 123.0})
    assert fair.reason == ("owner (version 1): the person put another action in its place; edited")


def test_an_edit_to_the_proposal_is_an_approval() -> None:
    """Edited to what it was, it counts as approved and runs as the agent's own."""
    agent = fresh(gate=Chain((Approval(), Bounds(high=5000.0))))
    held = agent.decide(night(700.0))
    case = agent.resolve(held.id, "edit", held.proposed)
    assert (case.status, case.executed) == ("passed", held.proposed)
    approved = agent.state.kernels[0].counts[..., 0].sum()
    assert approved == 1.0


def test_a_veto_runs_the_null_action() -> None:
    """Vetoed, the declared null action runs, and its outcome is the null's."""
    agent = fresh(null=NullAction(action=(60.0,), mean=5.0))
    case = agent.resolve(agent.decide(night(700.0)).id, "veto", by="ann")
    assert (case.status, case.executed) == ("vetoed", {"price": 60.0})
    arms = to_bytes(agent.state.bandit)
    agent.observe(case.id, {"booked": 1})
    assert to_bytes(agent.state.bandit) == arms
    assert agent.state.null.count[0] == 1.0
    assert agent.state.null.excess[0] == 55.0


def test_an_expired_hold_is_never_an_approval() -> None:
    """Nobody answered: nothing runs, no arm learns, and the gate model counts a veto."""
    agent = fresh()
    case = agent.decide(night(700.0))
    arms = to_bytes(agent.state.bandit)
    case = agent.expire(case.id)
    assert (case.status, case.executed) == ("expired", None)
    assert to_bytes(agent.state.bandit) == arms
    kernel = next(kernel for kernel in agent.state.kernels if kernel is not None)
    assert kernel.counts.sum(axis=(0, 1)).tolist() == [0.0, 0.0, 1.0]
    assert kinds(agent)[-3:] == ["Expired", "GateApplied", "ActionExecuted"]
    assert agent.held() == []


@pytest.mark.parametrize("verdict", ["approve", "veto", "edit"])
def test_the_kernel_learns_each_verdict_once(verdict: str) -> None:
    """Held it says nothing; resolved, one count goes to approved, changed or vetoed."""
    agent = fresh()
    held = agent.decide(night(700.0))
    before = agent.state.kernels[0].counts.sum(axis=(0, 1))
    action = {"price": 111.0} if verdict == "edit" else None
    agent.resolve(held.id, verdict, action)
    gained = agent.state.kernels[0].counts.sum(axis=(0, 1)) - before
    place = {"approve": 0, "edit": 1, "veto": 2}[verdict]
    assert gained.tolist() == [float(i == place) for i in range(3)]


def test_two_people_are_asked_in_turn() -> None:
    """Approved by the first, it waits for the second; each hears of it once."""
    gate = Chain((Approval(name="first"), Approval(name="second"), Bounds(high=5000.0)))
    agent = fresh(gate=gate)
    case = agent.decide(night(100.0))
    case = agent.resolve(case.id, "approve")
    assert case.status == "held"
    assert case.reason.startswith("second")
    case = agent.resolve(case.id, "edit", {"price": 90.0})
    assert (case.status, case.executed) == ("modified", {"price": 90.0})
    assert [kernel.counts.sum() for kernel in agent.state.kernels[:2]] == [1.0, 1.0]


def test_what_a_cap_changed_before_the_hold_stays_changed() -> None:
    """A cap lowers 560 or more to 100, a person approves 100: modified, and not the arm's own.

    The outcome of 100 must not be credited to an arm that proposed 560.
    """
    gate = Chain((Cap(limit=100.0), Approval(), Bounds(high=5000.0)))
    agent = fresh(gate=gate)
    case = agent.resolve(agent.decide(night(700.0)).id, "approve")
    assert case.executed == {"price": 100.0}
    assert case.status == "modified"
    agent.observe(case.id, {"booked": 1})
    assert agent.state.bandit.counts[0].tolist() == [[1.0] * 3] * 2


def test_a_persons_own_reason_is_shown() -> None:
    """Why a person said no, or why a hold ended, is what the case says."""
    agent = fresh()
    vetoed = agent.resolve(agent.decide(night(700.0)).id, "veto", reason="the roof leaks")
    assert "the roof leaks" in vetoed.reason
    expired = agent.expire(agent.decide(night(700.0)).id, "no answer in 4 hours")
    assert "no answer in 4 hours" in expired.reason


# Save and load


def busy_agent(bandit: Bandit | None = None) -> Agent:
    """Return an agent with every kind of event behind it, some decisions still held or open."""
    agent = worked(bandit=bandit)
    agent.resolve(agent.decide(night(700.0), id="edit").id, "edit", {"price": 123.0})
    agent.expire(agent.decide(night(800.0), id="late").id)
    agent.decide([night(900.0), night(90.0)], id="batch", unit=["flat 1", "new"])
    agent.decide(night(100.0), id="masked", mask=["1", "0.8"])
    return agent


@pytest.mark.parametrize(
    "bandit",
    [BetaThompson(), CurveThompson(), HierarchicalThompson()],
    ids=["beta", "curve", "hierarchical"],
)
def test_what_is_saved_is_loaded(tmp_path: Path, bandit: Bandit) -> None:
    """State bytes, events, cases, held list, and every further decision are the same."""
    agent = busy_agent(bandit)
    agent.save(tmp_path / "agent.gdcb")
    again = Agent.load(tmp_path / "agent.gdcb", letting(), bandit)
    assert live(again) == live(agent)
    assert again.events == agent.events
    assert again.held() == agent.held()
    assert again.seed == agent.seed
    for one in (agent, again):
        one.resolve("batch.0", "approve")
        case = one.decide(night(110.0, 0.3), unit="flat 2")
        one.observe(case.id, {"booked": 1}, label=[0.2])
        one.observe("batch.1", {"booked": 0}, label=[0.1])
        one.decide(night(120.0), unit="newer")
    assert again.events == agent.events
    assert live(again) == live(agent)


def test_saving_twice_gives_the_same_file(tmp_path: Path) -> None:
    """Nothing in the file hangs on the clock, and no part file stays behind."""
    agent = busy_agent()
    agent.save(tmp_path / "a")
    agent.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_nothing_in_the_file_is_executable(tmp_path: Path) -> None:
    """It holds JSON, events whose heads are JSON, and arrays that NumPy reads without pickle."""
    path = tmp_path / "agent.gdcb"
    busy_agent().save(path)
    with zipfile.ZipFile(path) as archive:
        assert {Path(name).suffix for name in archive.namelist()} == {".json", ".bin", ".npz"}
        json.loads(archive.read("agent.json"))
        for _, body in written(archive.read("events.bin")):
            (length,) = struct.unpack_from("<I", body)
            json.loads(body[4 : 4 + length])
        with np.load(io.BytesIO(archive.read("state.npz")), allow_pickle=False) as arrays:
            assert all(arrays[name].dtype.kind in "fiub" for name in arrays.files)


@pytest.mark.parametrize(
    ("instance", "bandit"),
    [
        (letting(arms=pricing().arms), BetaThompson()),
        (letting(scaler=RidgeScaler(features=("busy",), every=4, penalty=2.0)), BetaThompson()),
        (letting(gate=Bounds(low=50.0, high=401.0)), BetaThompson()),
        (letting(null=NullAction(mean=1.0)), BetaThompson()),
        (letting(), BetaThompson(wins=2.0)),
        (letting(), CurveThompson()),
    ],
    ids=["arms", "scaler", "gate", "null", "prior", "bandit"],
)
def test_another_instance_or_bandit_is_refused(
    tmp_path: Path, instance: Instance, bandit: Bandit
) -> None:
    """A file is read only by the settings it was written with."""
    path = tmp_path / "agent.gdcb"
    busy_agent().save(path)
    with pytest.raises(InvalidInput, match="another instance or bandit, or other settings"):
        Agent.load(path, instance, bandit)


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    """Cut anywhere, the file is not a saved agent."""
    path = tmp_path / "agent.gdcb"
    busy_agent().save(path)
    whole = path.read_bytes()
    for share in (0.0, 0.1, 0.5, 0.9, 0.999):
        path.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(InvalidInput, match="not a saved agent"):
            Agent.load(path, letting(), BetaThompson())


def headers(raw: bytes) -> list[int]:
    """Return the places of a zip file's own headers, member by member and at the end."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        local = [info.header_offset + i for info in archive.infolist() for i in range(42)]
        return local + list(range(archive.start_dir, len(raw)))


def test_a_damaged_file_is_refused_or_reads_the_same(tmp_path: Path) -> None:
    """One byte flipped, each of the headers' and every 100th of the rest: the file is refused
    in our own words, or what it holds is unharmed."""
    agent = worked(n=2)
    path = tmp_path / "agent.gdcb"
    agent.save(path)
    raw = path.read_bytes()
    escaped = []
    for place in sorted({*headers(raw), *range(0, len(raw), 100)}):
        damaged = bytearray(raw)
        damaged[place] ^= 0xFF
        path.write_bytes(bytes(damaged))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                again = Agent.load(path, letting(), BetaThompson())
        except GdcbError:
            continue
        except Exception as error:
            escaped.append(f"byte {place}: {error!r}")
            continue
        assert live(again) == live(agent)
        assert again.events == agent.events
    assert escaped == []


def rewritten(path: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    """Write the file again with one member changed and its checksum right."""
    with zipfile.ZipFile(path) as archive:
        members = {item: archive.read(item) for item in archive.namelist()}
    members[name] = change(members[name])
    with zipfile.ZipFile(path, "w") as archive:
        for item, content in members.items():
            archive.writestr(item, content)


def written(raw: bytes) -> list[tuple[bytes, bytes]]:
    """Return the kinds and bodies of the events in a file."""
    found = []
    while raw:
        n_kind, n_body = struct.unpack_from("<II", raw)
        found.append((raw[8 : 8 + n_kind], raw[8 + n_kind : 8 + n_kind + n_body]))
        raw = raw[8 + n_kind + n_body :]
    return found


def joined(story: list[tuple[bytes, bytes]]) -> bytes:
    """Write kinds and bodies as a file has them."""
    return b"".join(struct.pack("<II", len(k), len(b)) + k + b for k, b in story)


def without_event(number: int) -> Callable[[bytes], bytes]:
    def change(raw: bytes) -> bytes:
        story = written(raw)
        return joined(story[:number] + story[number + 1 :])

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("agent.json", lambda raw: b"[]"),
        ("agent.json", lambda raw: b"{}"),
        ("agent.json", lambda raw: b"null"),
        ("agent.json", lambda raw: raw.replace(b'"format": 2', b'"format": 99')),
        ("agent.json", lambda raw: raw.replace(b'"seed": 3', b'"seed": "x"')),
        ("agent.json", lambda raw: raw.replace(b'"seed"', b'"seeds"')),
        ("agent.json", lambda raw: raw.replace(b'"units"', b'"unit"')),
        ("agent.json", lambda raw: b"\xff\xfe"),
        ("events.bin", lambda raw: raw + b"odd"),
        ("events.bin", lambda raw: raw + joined([(b"Erased", b"")])),
        ("events.bin", without_event(0)),
        ("events.bin", without_event(1)),
        ("state.npz", lambda raw: b""),
        ("state.npz", lambda raw: b"garbage"),
        ("state.npz", lambda raw: raw[: len(raw) // 2]),
        ("state.npz", lambda raw: b"PK\x03\x04" + b"\0" * 50),
        ("state.npz", lambda raw: live(fresh())),
    ],
    ids=[
        "header is a list",
        "header is empty",
        "header is null",
        "format",
        "seed",
        "no seed",
        "no units",
        "not text",
        "event is broken off",
        "unknown event",
        "decision missing",
        "verdict missing",
        "no state",
        "garbage state",
        "half a state",
        "empty zip state",
        "state of fewer units",
    ],
)
def test_a_file_with_odd_contents_is_refused(
    tmp_path: Path, name: str, change: Callable[[bytes], bytes]
) -> None:
    """Well-formed outside and odd inside: refused in our own words, never by another error."""
    path = tmp_path / "agent.gdcb"
    busy_agent().save(path)
    rewritten(path, name, change)
    with pytest.raises(GdcbError):
        Agent.load(path, letting(), BetaThompson())


def test_an_agent_whose_scaler_ran_away_can_still_be_saved(tmp_path: Path) -> None:
    """Labels of 1,000 would make δ infinite: it stays finite, the gate still holds, it saves."""
    agent = fresh()
    with pytest.MonkeyPatch.context() as before:  # as before there was a limit
        before.setattr(Instance, "most_log", None)
        for _ in range(4):
            agent.observe(agent.decide(night(100.0, 1.0)).id, {"booked": 1}, label=[1000.0])
    case = agent.decide(night(100.0, 1.0))
    assert case.proposed is not None
    assert 1e20 < case.proposed["price"] < math.inf
    assert (case.status, case.executed) == ("modified", {"price": 400.0})
    agent.save(tmp_path / "agent.gdcb")
    again = Agent.load(tmp_path / "agent.gdcb", letting(), BetaThompson())
    assert again[case.id] == case
    again = Agent.replay(agent.events, letting(), BetaThompson(), seed=3)  # recorded: it stays
    assert live(again) == live(agent)


# Replay


@pytest.mark.parametrize(
    "bandit",
    [BetaThompson(), CurveThompson(), HierarchicalThompson()],
    ids=["beta", "curve", "hierarchical"],
)
def test_replay_gives_the_live_state(bandit: Bandit) -> None:
    """Folding the events from the start recomputes every decision and ends in the same bytes."""
    agent = busy_agent(bandit)
    again = Agent.replay(agent.events, letting(), bandit, seed=3)
    assert live(again) == live(agent)
    assert again.events == agent.events
    assert again.held() == agent.held()


def test_a_refused_call_leaves_no_trace_in_a_replay() -> None:
    """A refused newcomer must not make room for itself: the replay ends in the same bytes."""
    agent = worked(n=2)
    with pytest.raises(InvalidInput):
        agent.decide(night(), unit="newcomer", mask=[])
    with pytest.raises(InvalidInput):
        agent.decide([night()] * 9, unit=[f"u{i}" for i in range(9)], mask=[])
    assert live(Agent.replay(agent.events, letting(), BetaThompson(), seed=3)) == live(agent)


def test_a_replay_with_another_seed_is_refused() -> None:
    """Other random numbers, other decisions."""
    with pytest.raises(Conflict, match="replay: decision 1 comes out differently"):
        Agent.replay(busy_agent().events, letting(), BetaThompson(), seed=4)


def tampered(kind: type[ev.Event], **changes: Any) -> list[ev.Event]:
    """Return the story of an agent with its last event of one kind changed."""
    story = list(busy_agent().events)
    place = max(i for i, event in enumerate(story) if type(event) is kind)
    story[place] = dataclasses.replace(story[place], **changes)
    return story


@pytest.mark.parametrize(
    "changes",
    [
        {"arm": np.array([1])},
        {"worth": np.array([[1.0, 2.0, 3.0]])},
        {"x": np.array([[101.0, 0.0, 1.0, 0.0, 0.0]])},
        {"mask": np.array([[False, True, True]])},
        {"unit": ["flat 1"]},
        {"action": np.array([[77.0]])},
        {"delta": np.array([[[3.0]]])},
        {"scaler_version": np.array([9])},
        {"version": 0},
        {"share": np.array([0.5])},
        {"batch": ["another"]},
        {"row": np.array([1])},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_tampered_decision_is_found(changes: dict[str, Any]) -> None:
    """Whatever of a decision was changed, the replay does not come out with it."""
    story = tampered(ev.DecisionMade, **changes)
    if "arm" in changes:
        made = next(e for e in reversed(story) if isinstance(e, ev.DecisionMade))
        other = (busy_agent().records[made.id[0]].made.arm + 1) % 3
        story = tampered(ev.DecisionMade, arm=other)
    with pytest.raises(GdcbError):
        Agent.replay(story, letting(), BetaThompson(), seed=3)


def test_a_tampered_outcome_shows_in_what_follows() -> None:
    """An outcome turned around changes the arms, so a later decision comes out differently."""
    agent = worked(n=40)
    story = list(agent.events)
    place = next(i for i, event in enumerate(story) if isinstance(event, ev.OutcomeObserved))
    event = story[place]
    assert isinstance(event, ev.OutcomeObserved)
    story[place] = dataclasses.replace(event, outcome=1.0 - event.outcome)
    with pytest.raises(Conflict, match="comes out differently"):
        Agent.replay(story, letting(), BetaThompson(), seed=3)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (
            ev.GateApplied,
            {"action": np.array([[399.0]]), "trail": np.array([[[80.0], [80.0], [399.0]]])},
        ),
        (ev.GateApplied, {"status": np.array([2], dtype=np.int8)}),
        (ev.ActionExecuted, {"action": np.array([[1.0]])}),
        (ev.ActionExecuted, {"is_null": np.array([True])}),
    ],
    ids=["verdict", "status", "executed", "null"],
)
def test_a_tampered_verdict_is_found(kind: type[ev.Event], changes: dict[str, Any]) -> None:
    """Gates are recomputed too: a verdict or an action that they never gave is refused."""
    with pytest.raises(GdcbError):
        Agent.replay(tampered(kind, **changes), letting(), BetaThompson(), seed=3)


@pytest.mark.parametrize("place", [0, 1, 2, 3], ids=["decision", "verdict", "executed", "outcome"])
def test_a_story_with_a_gap_is_refused(place: int) -> None:
    """An event taken out of the first decision's story is missed."""
    story = list(worked(n=40).events)
    del story[place]
    with pytest.raises(GdcbError):
        Agent.replay(story, letting(), BetaThompson(), seed=3)


# In any order


class Shift(RuleBasedStateMachine):
    """Decide, observe, resolve, expire, save and load in random order, against a model."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()

    @initialize(bandit=st.sampled_from([BetaThompson(), CurveThompson()]))
    def hire(self, bandit: Bandit) -> None:
        self.bandit = bandit
        self.agent = fresh(bandit)
        self.cases: dict[str, tuple[dict[str, Any], str]] = {}
        self.held: list[str] = []
        self.ran: list[str] = []
        self.seen: dict[str, int] = {}

    def note(self, case: Case, context: dict[str, Any]) -> None:
        self.cases[case.id] = (context, case.unit)
        assert (case.status == "held") == (context["base"] > 500.0)
        (self.held if case.status == "held" else self.ran).append(case.id)

    @rule(
        base=st.sampled_from([80.0, 300.0, 480.0, 700.0]),
        busy=st.sampled_from([-0.5, 0.0, 0.5]),
        unit=st.sampled_from(["a", "b", "c"]),
    )
    def decide(self, base: float, busy: float, unit: str) -> None:
        context = night(base, busy)
        case = self.agent.decide(context, unit=unit)
        assert case.unit == unit
        self.note(case, context)

    @rule(
        bases=st.lists(st.sampled_from([90.0, 600.0]), min_size=1, max_size=3),
        unit=st.sampled_from(["a", "d", "e"]),
    )
    def decide_many(self, bases: list[float], unit: str) -> None:
        contexts = [night(base) for base in bases]
        for case, context in zip(self.agent.decide(contexts, unit=unit), contexts, strict=True):
            self.note(case, context)

    @precondition(lambda self: any("." not in name for name in self.cases))
    @rule(data=st.data())
    def decide_again(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([n for n in self.cases if "." not in n]))
        context, unit = self.cases[name]
        before = live(self.agent), len(self.agent.events)
        assert self.agent.decide(context, unit=unit, id=name) == self.agent[name]
        assert (live(self.agent), len(self.agent.events)) == before

    @precondition(lambda self: self.ran)
    @rule(
        data=st.data(),
        booked=st.integers(0, 1),
        label=st.none() | st.sampled_from([[0.2], [-0.1], [None]]),
    )
    def observe(self, data: st.DataObject, booked: int, label: list[float | None] | None) -> None:
        name = data.draw(st.sampled_from(self.ran))
        self.ran.remove(name)
        assert self.agent.observe(name, {"booked": booked}, label=label) is True
        self.seen[name] = booked
        before = live(self.agent), len(self.agent.events)
        assert self.agent.observe(name, {"booked": booked}, label=label) is False
        assert (live(self.agent), len(self.agent.events)) == before

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def contradict(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.seen)))
        before = live(self.agent), len(self.agent.events)
        with pytest.raises(Conflict):
            self.agent.observe(name, {"booked": 1 - self.seen[name]})
        assert (live(self.agent), len(self.agent.events)) == before

    @precondition(lambda self: self.held)
    @rule(data=st.data(), verdict=st.sampled_from(["approve", "edit", "veto", "expire"]))
    def resolve(self, data: st.DataObject, verdict: str) -> None:
        name = data.draw(st.sampled_from(self.held))
        with pytest.raises(Conflict):
            self.agent.observe(name, {"booked": 1})
        if verdict == "expire":
            case = self.agent.expire(name)
            assert case.status == "expired"
        else:
            action = {"price": 200.0} if verdict == "edit" else None
            case = self.agent.resolve(name, verdict, action)
            assert (case.status == "vetoed") == (verdict == "veto")
        assert (case.executed is None) == (verdict in ("veto", "expire"))
        assert case.executed is None or 50.0 <= case.executed["price"] <= 400.0
        self.held.remove(name)
        self.ran.append(name)
        with pytest.raises(Conflict):
            self.agent.resolve(name, "approve")

    @rule(name=st.sampled_from(["nobody", "99", ""]))
    def ask_for_a_stranger(self, name: str) -> None:
        for call in (
            lambda: self.agent.observe(name, {"booked": 1}),
            lambda: self.agent.resolve(name, "approve"),
            lambda: self.agent.expire(name),
            lambda: self.agent[name],
        ):
            if name not in self.cases:
                with pytest.raises(UnknownDecision):
                    call()

    @rule(unit=st.sampled_from(["a", "x", "y"]))
    def refuse(self, unit: str) -> None:
        before = live(self.agent), len(self.agent.events)
        for context, mask in ((night(base=float("nan")), None), (night(season="mid"), ["1"])):
            with pytest.raises(InvalidInput):
                self.agent.decide(context, unit=unit, mask=mask)
        assert (live(self.agent), len(self.agent.events)) == before

    @rule()
    def save_and_load(self) -> None:
        path = Path(self.folder.name) / "agent.gdcb"
        self.agent.save(path)
        again = Agent.load(path, letting(), self.bandit)
        assert live(again) == live(self.agent)
        assert again.events == self.agent.events
        self.agent = again

    @rule()
    def refit(self) -> None:
        self.agent.refit()

    @invariant()
    def the_held_list_is_right(self) -> None:
        if hasattr(self, "held"):
            assert [case.id for case in self.agent.held()] == [
                name for name in self.cases if name in self.held
            ]

    @invariant()
    def nothing_is_lost(self) -> None:
        if hasattr(self, "cases"):
            told = [e for e in self.agent.events if isinstance(e, ev.DecisionMade)]
            made = [id for event in told for id in event.id]
            assert made == list(self.cases)
            assert all(np.isfinite(array).all() for array in arrays(self.agent))

    def teardown(self) -> None:
        if hasattr(self, "agent"):
            again = Agent.replay(self.agent.events, letting(), self.bandit, seed=3)
            assert live(again) == live(self.agent)
        self.folder.cleanup()


def arrays(agent: Agent) -> list[Array]:
    return list(flatten(agent.state).values())


TestShift = Shift.TestCase
TestShift.settings = examples(25, stateful_step_count=25)
