"""Operate an instance: declare, change under four eyes, stop, refit, put back, discount, import."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gdcb import events as ev
from gdcb.errors import Conflict, GdcbError, InvalidInput, UnknownField
from gdcb.ledger.store import open_store
from gdcb.records import to_bytes
from gdcb.service import deciding, observing, operating
from gdcb.service.answering import OwnProposal, review
from gdcb.service.desk import Desk
from tests.service.desks import (
    Office,
    everything,
    held,
    learning,
    night,
    office,
    past,
    plain,
    take_past,
    together,
)
from tests.service.test_answering import refused

TIGHTER = held().replace("high = 300", "high = 110")
OTHER_MANAGER = held().replace("at_least = 0.5", "at_least = 0.7")


def state(made: Office) -> bytes:
    return made.look(lambda live: to_bytes(live.state))


def worked(made: Office, first: int = 0, n: int = 4) -> None:
    """Decide n nights, every second of them held and approved, and see them booked."""
    for i in range(first, first + n):
        made.decide(f"n{i}", night(0.9 * (i % 2)), unit=["sea", "farm"][i % 2])
        if i % 2:
            made.answer(f"n{i}")
        made.observe({f"n{i}": i % 3 > 0})


# Declare


def test_an_instance_is_declared_once() -> None:
    store = open_store("memory:")
    assert operating.create(store, plain(), "ann", "first", seed=7, clock=lambda: 17) == "rooms"
    (entry,) = store.read("rooms")
    assert (entry.kind, entry.at, entry.by) == ("InstanceChanged", 17, "ann")
    with pytest.raises(Conflict, match="instance 'rooms' exists already; propose a change"):
        operating.create(store, plain(), "bob", "again")
    assert store.head("rooms").size == 1
    assert operating.create(store, plain(), "ann", "a second", name="rooms-2") == "rooms-2"
    assert store.chains() == ["rooms", "rooms-2"]


@pytest.mark.parametrize(
    ("text", "reason", "says"),
    [
        (plain(), " ", "reason: say why the instance is made"),
        ("", "first", "declaration"),
        ("a = ", "first", "declaration: not TOML"),
        (plain("bulk = 0"), "first", "service.bulk: Input should be greater than or equal to 1"),
        (plain() + "x" * 250_001, "first", "declaration: expected at most 250,000 letters"),
        (
            held().replace('"busy", at_least = 0.5', '"busy", at_least = 0.5, person = 3'),
            "first",
            "gates",
        ),
    ],
)
def test_declarations_that_are_refused(text: str, reason: str, says: str) -> None:
    store = open_store("memory:")
    with pytest.raises(InvalidInput) as caught:
        operating.create(store, text, "ann", reason)
    assert str(caught.value).startswith(says)
    assert store.chains() == []


# Change under four eyes


def test_a_change_takes_two_people() -> None:
    with office(held()) as made:
        size = made.size
        number = made.do(operating.propose_change, TIGHTER, "too dear", "ann")
        assert number == size
        proposal, _, by = made.look(lambda live: live.proposals[number])
        assert (proposal.reason, by) == ("too dear", "ann")
        assert made.rows("a", night(base=290))[0]["action"]["price"] > 110.0
        says = f"change {number} was proposed by ann; somebody else must agree"
        refused(made, OwnProposal, says, operating.agree, number, "", "ann")
        made.do(operating.agree, number, "", "bob")
        changed = made.events(made.size - 1)[0]
        assert isinstance(changed, ev.InstanceChanged)
        assert (changed.proposal, changed.reason, changed.seed) == (number, "too dear", 7)
        assert made.look(lambda live: (live.text, live.proposals)) == (TIGHTER, {})
        assert made.rows("b", night(base=290))[0]["action"] == {"price": 110.0}
        says = f"change {number} does not wait for an answer"
        refused(made, Conflict, says, operating.agree, number, "", "bob")
        made.check()
        made.restart()
        assert made.rows("c", night(base=290))[0]["action"] == {"price": 110.0}


def test_a_change_may_be_turned_down_or_withdrawn() -> None:
    with office(held()) as made:
        one = made.do(operating.propose_change, TIGHTER, "too dear", "ann")
        other = made.do(operating.propose_change, OTHER_MANAGER, "too many", "ann")
        refused(made, InvalidInput, "say why it does not", operating.refuse_change, one, "", "bob")
        made.do(operating.refuse_change, one, "not now", "bob")
        made.do(operating.refuse_change, other, "thought better of it", "ann")
        for number in (one, other):
            refused(made, Conflict, "does not wait", operating.agree, number, "", "bob")
        assert made.look(lambda live: live.text) == held()
        made.check()


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        (held(), Conflict, "declaration: it is the one in force"),
        (held().replace("1.2]", "1.3]"), Conflict, "arms: what was learned would no longer mean"),
        (held().replace("high = 1000", "high = 2000"), Conflict, "context: what was learned"),
        (held().replace('["price"]', '["cost"]'), Conflict, "composition: what was learned"),
        (held().replace('["booked"]', '["sold"]'), Conflict, "reward: what was learned"),
        (
            held().replace("beta-thompson", "gaussian-thompson"),
            Conflict,
            "bandit: what was learned",
        ),
        (
            held().replace('"beta-thompson"', '"beta-thompson", wins = 2.0'),
            Conflict,
            "bandit: what was learned",
        ),
        (held().replace('"rooms"', '"flats"'), Conflict, "name: what was learned"),
        (learning(), Conflict, "scaler: what was learned"),
        (held(rest="null = { mean = 3.0 }\n"), Conflict, "null: what was learned"),
        (held(rest='rules.select = "nominal"\n'), Conflict, "rules: what was learned"),
        (plain(), Conflict, "gates: expected manager, limits, in this order; their settings may"),
        (held().replace('"manager"', '"boss"'), Conflict, "gates: expected manager, limits"),
        (held("bulk = 0"), InvalidInput, "service.bulk"),
        ("name = 3", InvalidInput, "declaration: missing"),
    ],
)
def test_what_may_not_change(text: str, error: type[GdcbError], says: str) -> None:
    with office(held()) as made:
        refused(made, error, says, operating.propose_change, text, "better", "ann")


def test_a_proposal_is_checked_against_what_is_in_force_when_it_is_agreed_to() -> None:
    with office(held()) as made:
        one = made.do(operating.propose_change, TIGHTER, "too dear", "ann")
        made.do(operating.retire, "sold", "ann")
        says = "the instance was retired by ann: sold"
        refused(made, Conflict, says, operating.agree, one, "", "bob")
        refused(made, Conflict, says, operating.propose_change, held("bulk = 3"), "more", "ann")


def test_a_gate_that_changed_starts_afresh_and_the_others_keep_what_was_learned() -> None:
    """Verdicts taught the manager's kernel. New limits leave it; a new rule of theirs does not."""
    with office(held()) as made:
        fresh = made.look(lambda live: to_bytes(live.state.kernels[0]))
        worked(made, n=6)
        taught = made.look(lambda live: to_bytes(live.state.kernels[0]))
        assert taught != fresh
        arms = made.counts()
        made.change(TIGHTER)
        assert made.look(lambda live: to_bytes(live.state.kernels[0])) == taught
        made.change(OTHER_MANAGER)
        assert made.look(lambda live: to_bytes(live.state.kernels[0])) == fresh
        assert made.counts() == arms
        worked(made, 6)
        made.check()


def test_a_new_rule_asks_from_now_on() -> None:
    with office(held()) as made:
        assert made.rows("a", night(0.6))[0]["status"] == "held"
        made.change(OTHER_MANAGER)
        assert made.rows("b", night(0.6))[0]["status"] == "passed"
        made.answer("a")
        made.observe({"a": 1, "b": 1})
        made.check()


def test_a_new_policy_is_in_force_at_once() -> None:
    with office(held()) as made:
        made.decide("a")
        made.change(held('execution = "report"\nbatch = 1\n'))
        assert not made.rows("b")[0]["has_run"]
        with pytest.raises(InvalidInput, match="expected at most 1 rows, got 2"):
            made.request("c", [night(), night()])
        made.check()


def test_a_change_is_seen_by_another_desk() -> None:
    with office(held()) as made:
        other = Desk(made.store, "rooms", made.clock)
        made.change(held("bulk = 3"))
        other.look(lambda live: None).result(timeout=60)
        assert other.policy.bulk == 3
        other.close()


# Stop and go on


def test_pause_and_resume_are_news_once() -> None:
    with office(plain()) as made:
        assert not made.do(operating.resume, "it runs", "ann")
        assert made.do(operating.pause, "holiday", "ann")
        assert not made.do(operating.pause, "again", "bob")
        event, at, by = made.look(lambda live: live.paused) or (None, 0, "")
        assert event == ev.Paused("holiday")
        assert (at, by) == (made.clock.at, "ann")
        assert made.do(operating.resume, "back", "bob")
        assert made.do(operating.retire, "sold", "ann")
        assert not made.do(operating.retire, "sold", "ann")
        assert made.kinds(1) == ["Paused", "Resumed", "Retired"]
        for command in (operating.pause, operating.resume):
            refused(made, Conflict, "was retired by ann: sold", command, "why not", "ann")
        made.check()


@pytest.mark.parametrize("command", [operating.pause, operating.resume, operating.retire])
@pytest.mark.parametrize(
    ("reason", "says"),
    [("", "reason: say why it"), ("  ", "reason: say why it"), ("x" * 2001, "at most 2000")],
)
def test_whoever_stops_it_says_why(command: Any, reason: str, says: str) -> None:
    with office(plain()) as made:
        refused(made, InvalidInput, says, command, reason, "ann")


# Refit


def test_a_refit_on_demand() -> None:
    with office(learning()) as made:
        worked(made, n=2)
        for i in (0, 1):
            made.observe({f"n{i}": i % 3 > 0}, label=[0.3 * i])
        size = made.size
        versions = made.do(operating.refit, "ann")
        assert made.kinds(size) == ["ScalerFitted"]
        assert made.look(lambda live: live.state.scaler.versions.tolist())[0] == versions[0]
        assert made.look(lambda live: live.fitted_at) == made.clock.at
        made.check()


def test_a_scaler_that_learns_nothing_is_not_refitted() -> None:
    with office(plain()) as made:
        says = "refit: the scaler of this instance learns nothing"
        refused(made, Conflict, says, operating.refit, "ann")


# Put back


def test_learners_are_put_back_and_go_on() -> None:
    with office(held()) as made:
        worked(made)
        to, before = made.size, made.counts()
        kernel = made.look(lambda live: to_bytes(live.state.kernels[0]))
        worked(made, 4)
        assert made.counts() != before
        made.do(operating.roll_back, to, "bad data", "ann")
        assert made.kinds(made.size - 1) == ["RolledBack"]
        assert made.counts() == before
        assert made.look(lambda live: to_bytes(live.state.kernels[0])) == kernel
        assert made.document("n5")["outcome"] is not None  # on record, and not learned
        made.check()
        worked(made, 8)
        made.check()


@pytest.mark.parametrize(
    ("to", "reason", "error", "says"),
    [
        (0, "bad", InvalidInput, "to: expected an event 1 or later; the first declares"),
        (-1, "bad", InvalidInput, "to: expected an event 0 to 4, got -1"),
        (5, "bad", InvalidInput, "to: expected an event 0 to 4, got 5"),
        (True, "bad", InvalidInput, "to: expected an event 0 to 4, got True"),
        (2, "", InvalidInput, "reason: say why the learners are put back"),
    ],
)
def test_ways_back_that_are_refused(
    to: int, reason: str, error: type[GdcbError], says: str
) -> None:
    with office(plain()) as made:
        made.decide("a")
        refused(made, error, says, operating.roll_back, to, reason, "ann")


def test_what_is_being_written_is_no_place_to_go_back_to() -> None:
    """The learners of then are folded from the store, which does not have them yet."""
    with office(plain()) as made:
        made.decide("a", mask=["1"])
        to = made.size + 1
        told = [observing.Outcome("a", {"booked": 1})]
        seen, error = together(
            made,
            lambda turn: observing.observe(turn, told, "shop"),
            lambda turn: operating.roll_back(turn, to, "bad", "ann"),
        )
        assert seen == [True]
        assert isinstance(error, Conflict)
        assert str(error) == f"to: event {to} is being written; ask once more"
        assert made.counts()[1] == [2.0, 1.0]
        made.check()


def test_a_way_back_before_a_change_of_gates() -> None:
    """What was learned of a gate that was another then is not put in the place of this one's."""
    with office(held()) as made:
        fresh = made.look(lambda live: to_bytes(live.state.kernels[0]))
        worked(made, n=4)
        to, counts = made.size, made.counts()
        other = '{ part = "number", features = ["busy"] }'
        made.change(held().replace("at_least = 0.5", f"at_least = 0.5, kernel = {other}"))
        worked(made, 4)
        made.do(operating.roll_back, to, "bad data", "ann")
        assert made.counts() == counts
        assert made.look(lambda live: to_bytes(live.state.kernels[0])) != fresh
        worked(made, 8)
        made.check()


def test_a_way_back_with_units_that_came_later() -> None:
    with office(plain()) as made:
        made.decide("a", unit="sea", mask=["1"])
        made.observe({"a": 1})
        to = made.size
        for i in range(5):
            made.decide(f"u{i}", unit=f"unit {i}", mask=["1"])
            made.observe({f"u{i}": 1})
        made.do(operating.roll_back, to, "bad data", "ann")
        assert made.counts(0)[1] == [2.0, 1.0]
        assert made.counts(3)[1] == [1.0, 1.0]
        made.decide("z", unit="unit 3")
        made.check()


# Discount


def test_old_evidence_counts_for_less() -> None:
    """Half of (2 wins, 0 losses) on priors of 1 is 1 + 1; what came since keeps its weight."""
    with office(plain()) as made:
        for i in range(2):
            made.decide(f"n{i}", mask=["1"])
            made.observe({f"n{i}": 1})
        since = made.size
        made.decide("n2", mask=["1"])
        made.observe({"n2": 1})
        made.do(operating.discount, 0.5, since, None, "the season is over", "ann")
        assert made.kinds(made.size - 1) == ["EvidenceDiscounted"]
        assert made.counts()[1] == [3.0, 1.0]
        made.check()


def test_a_gate_is_forgotten() -> None:
    with office(held()) as made:
        fresh = made.look(lambda live: to_bytes(live.state.kernels[0]))
        worked(made)
        made.do(operating.discount, 0.0, made.size, "manager", "a new manager", "ann")
        assert made.look(lambda live: to_bytes(live.state.kernels[0])) == fresh
        made.check()


def test_a_gate_is_forgotten_in_the_transaction_of_its_last_verdicts() -> None:
    """Verdicts that are not committed yet count as much as those that are."""
    with office(held()) as made:
        worked(made, n=2)
        made.decide("a", night(0.9))
        answer, since = made.asked("a", "edit", {"price": 90}), made.size
        record, error = together(
            made,
            lambda turn: deciding.document(turn.live.instance, review(turn, answer)),
            lambda turn: operating.discount(turn, 0.0, since, "manager", "new", "ann"),
        )
        assert record["status"] == "modified"
        assert error is None
        made.check()


@pytest.mark.parametrize(
    ("factor", "since", "gate", "reason", "error", "says"),
    [
        (1.5, 1, None, "x", InvalidInput, "factor: expected"),
        (0.5, 99, None, "x", InvalidInput, "since: expected an event 0 to 4, got 99"),
        (0.5, 1, None, "", InvalidInput, "reason: say why evidence is discounted"),
        (0.0, 1, "boss", "x", UnknownField, "gate: no gate 'boss'; there are limits"),
        (0.5, 1, "limits", "x", InvalidInput, "factor: a gate forgets all or nothing, give 0"),
    ],
)
def test_discounts_that_are_refused(
    factor: float, since: int, gate: str | None, reason: str, error: type[GdcbError], says: str
) -> None:
    with office(plain()) as made:
        made.decide("a")
        refused(made, error, says, operating.discount, factor, since, gate, reason, "ann")


# History


def test_a_certified_log_is_a_warm_start() -> None:
    with office(held()) as made:
        assert take_past(made, past(400))
        assert made.kinds() == ["InstanceChanged", "HistoryImported"]
        event = made.events(1)[0]
        assert isinstance(event, ev.HistoryImported)
        assert event.certificate["verdict"]
        assert event.units == ["farm", "sea"] or event.units == ["sea", "farm"]
        assert np.array(made.counts()).sum() > 50
        made.check()
        worked(made)
        made.check()
        source_again = past(400)
        size = made.size
        with pytest.raises(Conflict, match="warm_up: this log was imported already"):
            take_past(made, source_again)
        with pytest.raises(Conflict, match="warm_up: another log was imported"):
            take_past(made, past(400, seed=5))
        assert made.size == size


def test_a_refused_log_teaches_nothing_and_its_certificate_is_kept() -> None:
    with office(held()) as made:
        before = state(made)
        assert not take_past(made, past(60))
        assert made.kinds(1) == ["CertificateGiven"]
        event = made.events(1)[0]
        assert isinstance(event, ev.CertificateGiven)
        assert event.certificate["verdict"]
        assert len(event.fingerprint) > 8
        assert state(made) == before
        made.check()
        assert take_past(made, past(60), override="it is all that we have")
        assert made.kinds(2) == ["HistoryImported"]
        assert state(made) != before
        made.check()


def test_a_log_comes_before_the_first_decision() -> None:
    with office(held()) as made:
        made.decide("a")
        size = made.size
        with pytest.raises(Conflict, match="history: it comes before the first decision, and some"):
            take_past(made, past(60))
        assert made.size == size


def test_all_of_it_is_the_same_after_a_restart() -> None:
    with office(learning('outcomes.correction = "replace"')) as made:
        worked(made)
        made.observe({"n1": 0}, reason="count again")
        made.change(learning("bulk = 3"))
        made.do(operating.discount, 0.5, 3, None, "old", "ann")
        made.do(operating.roll_back, made.size - 2, "no", "ann")
        made.do(operating.pause, "holiday", "ann")
        made.do(operating.propose_change, learning("bulk = 4"), "more", "ann")
        before = made.look(everything)
        made.restart()
        assert made.look(everything) == before
