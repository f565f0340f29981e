"""Answer held decisions: one answer counts, what was seen is what is decided, expiry is no yes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb import events as ev
from gdcb.errors import Conflict, GdcbError, InvalidInput, UnknownDecision, UnknownField
from gdcb.service import answering, operating
from gdcb.service.answering import Decided, OwnProposal, Stale
from gdcb.service.turn import TooLate
from tests.properties import examples
from tests.service.desks import Office, held, held_twice, night, office, plain, together

ANSWERED = ["Reviewed", "GateApplied", "ActionExecuted"]
FALLBACK = 'expiry = { after = 60, then = "fallback", fallback = { price = 120 } }'


def refused(made: Office, error: type[GdcbError], says: str, command: Any, *given: Any) -> Any:
    """Run a command that is refused, and see that it has added nothing."""
    size = made.size
    with pytest.raises(error, match=says) as caught:
        made.do(command, *given)
    assert made.size == size
    return caught.value


# Answers


def test_an_approval_runs_the_proposal() -> None:
    with office(held()) as made:
        (row,) = made.rows("a", night(0.9))
        size = made.size
        record = made.answer("a", by="ann", reason="fair")
        assert made.kinds(size) == ANSWERED
        assert record.status == "passed"
        document = made.document("a")
        assert document["executed"] == row["proposed"]
        assert document["reason"].endswith("approved by ann: fair")
        assert made.look(lambda live: live.waiting) == {}
        review = made.events(size)[0]
        assert isinstance(review, ev.Reviewed)
        assert (review.verdict, review.code, review.by) == ("approve", "fits", "ann")
        made.check()


def test_an_edit_runs_what_the_person_put_in() -> None:
    with office(held()) as made:
        made.decide("a", night(0.9))
        size = made.size
        made.answer("a", "edit", {"price": 111}, code="too-high")
        assert made.kinds(size) == ANSWERED
        document = made.document("a")
        assert (document["status"], document["executed"]) == ("modified", {"price": 111.0})
        made.check()


def test_an_edit_to_what_was_proposed_is_an_approval_of_it() -> None:
    with office(held()) as made:
        (row,) = made.rows("a", night(0.9))
        made.answer("a", "edit", row["proposed"])
        assert made.document("a")["status"] == "passed"


def test_what_a_person_lets_through_meets_the_limits_behind() -> None:
    with office(held()) as made:
        made.decide("a", night(0.9))
        made.answer("a", "edit", {"price": 5000})
        document = made.document("a")
        assert (document["status"], document["executed"]) == ("modified", {"price": 300.0})
        made.decide("b", night(0.9, base=20))
        made.answer("b")
        assert made.document("b")["executed"] == {"price": 50.0}


def test_a_veto_runs_nothing() -> None:
    with office(held()) as made:
        made.decide("a", night(0.9))
        size = made.size
        made.answer("a", "veto", code="not-now")
        assert made.kinds(size) == ANSWERED
        document = made.document("a")
        assert (document["status"], document["executed"]) == ("vetoed", None)
        assert document["has_run"]
        made.check()


def test_with_execution_by_report_an_approval_waits_and_a_veto_is_final() -> None:
    with office(held('execution = "report"')) as made:
        made.decide("week", [night(0.9), night(0.9)])
        size = made.size
        made.answer("week.0")
        assert made.kinds(size) == ["Reviewed", "GateApplied"]
        size = made.size
        made.answer("week.1", "veto")
        assert made.kinds(size) == ANSWERED
        assert [made.document(f"week.{i}")["has_run"] for i in (0, 1)] == [False, True]


def test_two_people_one_behind_the_other() -> None:
    with office(held_twice()) as made:
        made.decide("a", night(0.9, base=100))
        size = made.size
        made.answer("a", "edit", {"price": 250}, by="ann")
        assert made.kinds(size) == ["Reviewed", "GateApplied", "ReviewRequested"]
        waiting = made.look(lambda live: live.waiting["a"])
        assert waiting.gate == "owner"
        assert made.document("a")["status"] == "held"
        made.restart()
        made.answer("a", by="bob")
        assert made.document("a")["executed"] == {"price": 250.0}
        decided = refused(made, Decided, "approved by bob", answering.expire, "a").decided
        assert (decided["what"], decided["by"]) == ("approved", "bob")
        made.check()


def test_batches_are_answered_row_by_row() -> None:
    with office(held()) as made:
        made.decide("week", [night(0.9), night(), night(0.8)])
        made.answer("week.2", "veto")
        assert list(made.look(lambda live: live.waiting)) == ["week.0"]
        made.answer("week.0")
        statuses = [made.document(f"week.{i}")["status"] for i in range(3)]
        assert statuses == ["passed", "passed", "vetoed"]
        made.restart()
        assert [made.document(f"week.{i}")["status"] for i in range(3)] == statuses


# Refusals


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"id": "b"}, UnknownDecision, "no decision 'b' was made here"),
        ({"verdict": "yes"}, InvalidInput, "verdict: expected "),
        ({"verdict": "edit"}, InvalidInput, "action: give one with 'edit', and only there"),
        ({"action": {"price": 3}}, InvalidInput, "action: give one with 'edit', and only there"),
        ({"code": "because"}, InvalidInput, "code: expected one of fits, too-high.*got 'because'"),
        (
            {"verdict": "edit", "action": {"cost": 3}},
            UnknownField,
            "action: expected price; got cost",
        ),
        ({"verdict": "edit", "action": {"price": float("nan")}}, InvalidInput, "action.price"),
        ({"verdict": "edit", "action": {"price": 1e308}}, InvalidInput, "action.price: expected"),
        ({"version": 7}, Stale, "no longer what you saw .you saw version 7, it is version 2."),
        ({"content": "0" * 32}, Stale, "decision a is no longer what you saw"),
        ({"by": "shop"}, OwnProposal, "decision a was asked for by shop; somebody else answers"),
    ],
)
def test_answers_that_are_refused(
    changes: dict[str, Any], error: type[GdcbError], says: str
) -> None:
    with office(held()) as made:
        made.decide("a", night(0.9))
        answer = replace(made.asked("a"), **changes)
        refused(made, error, says, answering.review, answer)
        made.answer("a")
        made.check()


def test_everybody_may_take_their_own_proposal_back() -> None:
    with office(held()) as made:
        made.decide("a", night(0.9))
        made.answer("a", "veto", by="shop")
        assert made.document("a")["status"] == "vetoed"


@pytest.mark.parametrize("verdict", ["approve", "veto"])
def test_what_is_not_held_cannot_be_answered(verdict: str) -> None:
    with office(held()) as made:
        made.decide("a")
        answer = made.asked("a", verdict)
        refused(made, Conflict, "decision a is not held; it is passed", answering.review, answer)


def test_the_second_answer_hears_who_was_first() -> None:
    with office(held()) as made:
        made.decide("a", night(0.9))
        late = made.asked("a", "veto", by="bob")
        made.clock.pass_by(61.5)
        made.answer("a", by="ann", reason="fair")
        says = r"decision a was approved by ann at 2026-01-01T00:01:01.500Z"
        error = refused(made, Decided, says, answering.review, late)
        said = {"what": "approved", "by": "ann", "at": "2026-01-01T00:01:01.500Z", "reason": "fair"}
        assert error.decided == {**error.decided, **said}


def test_of_two_answers_in_one_transaction_the_first_counts() -> None:
    with office(held()) as made:
        made.decide("a", night(0.9))
        one, other = made.asked("a", by="ann"), made.asked("a", "veto", by="bob")
        size = made.size
        record, error = together(
            made,
            lambda turn: answering.review(turn, one),
            lambda turn: answering.review(turn, other),
        )
        assert record.status == "passed"
        assert isinstance(error, Decided)
        assert (error.decided["what"], error.decided["by"]) == ("approved", "ann")
        assert made.kinds(size) == ANSWERED
        made.check()


def test_a_second_answer_to_two_gates_is_stale() -> None:
    """Who saw the proposal before the first gate answered has not seen the edit."""
    with office(held_twice()) as made:
        made.decide("a", night(0.9))
        old = made.asked("a", by="bob")
        made.answer("a", "edit", {"price": 250})
        refused(made, Stale, "you saw version 2, it is version 5", answering.review, old)


def test_the_hash_of_what_is_shown_goes_by_what_it_shows() -> None:
    with office(held()) as made:
        made.decide("week", [night(0.9), night(0.9), night(0.8)])
        hashes = {made.asked(f"week.{i}").content for i in range(3)}
        assert len(hashes) == 3
        before = made.asked("week.0").content
        made.restart()
        assert made.asked("week.0").content == before


def test_opening_a_decision_is_written_down() -> None:
    with office(held()) as made:
        made.decide("week", [night(0.9), night()])
        size = made.size
        content = made.do(answering.show, "week.0", "ann")
        made.do(answering.show, "week.0", "ann")
        assert made.kinds(size) == ["Shown", "Shown"]
        assert content == made.asked("week.0").content
        made.do(answering.show, "week.1", "ann")  # nothing to decide
        assert made.kinds(size) == ["Shown", "Shown"]
        refused(made, UnknownDecision, "no decision 'x'", answering.show, "x", "ann")
        made.answer("week.0")
        made.check()


@examples(20)
@given(st.integers(-(10**15), 4 * 10**15))
def test_times_are_written_to_the_millisecond(at: int) -> None:
    from datetime import UTC, datetime, timedelta

    text = answering.written(at)
    read = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    exact = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
    assert timedelta(0) <= exact - read < timedelta(milliseconds=1)


# Expiry


def test_nothing_expires_before_its_time() -> None:
    with office(held("expiry.after = 60")) as made:
        made.decide("a", night(0.9))
        made.clock.pass_by(59.999_999)
        assert made.look(lambda live: answering.overdue(live, made.desk.policy, made.clock())) == []
        refused(made, Conflict, "has not expired: its time is not over", answering.expire, "a")
        made.clock.pass_by(0.000_001)
        due = made.look(lambda live: answering.overdue(live, made.desk.policy, made.clock()))
        assert due == ["a"]
        size = made.size
        made.do(answering.expire, "a")
        assert made.kinds(size) == ["Expired", "GateApplied", "ActionExecuted"]
        document = made.document("a")
        assert (document["status"], document["executed"]) == ("expired", None)
        assert document["reason"] == "the hold expired: nobody answered within 60 seconds"
        made.check()


def test_an_expired_decision_cannot_be_approved() -> None:
    with office(held("expiry.after = 60")) as made:
        made.decide("a", night(0.9))
        late = made.asked("a")
        made.clock.pass_by(60)
        made.do(answering.expire, "a")
        error = refused(made, Decided, "was expired by policy", answering.review, late)
        assert error.decided["what"] == "expired"
        assert error.decided["by"] == "policy"
        refused(made, Decided, "was expired by policy", answering.expire, "a")


def test_after_the_time_and_before_the_clock_only_a_veto_counts() -> None:
    """The deadline is a time and not an event: who comes after it lets nothing through."""
    with office(held("expiry.after = 60")) as made:
        made.decide("a", night(0.9))
        made.clock.pass_by(600)
        says = "it can no longer be approved or edited"
        refused(made, TooLate, says, answering.review, made.asked("a"))
        made.answer("a", "veto")
        refused(made, Decided, "was vetoed by ann", answering.expire, "a")
        made.check()


def test_a_fallback_runs_behind_the_gates_that_are_left() -> None:
    with office(held(FALLBACK.replace("120", "999"))) as made:
        made.decide("a", night(0.9))
        made.clock.pass_by(60)
        made.do(answering.expire, "a")
        document = made.document("a")
        assert (document["status"], document["executed"]) == ("modified", {"price": 300.0})
        assert document["reason"].startswith("the hold expired")
        made.check()


def test_a_fallback_may_wait_for_the_next_person() -> None:
    with office(held_twice(FALLBACK.replace("120", "250"))) as made:
        made.decide("a", night(0.9))
        made.clock.pass_by(60)
        size = made.size
        made.do(answering.expire, "a")
        assert made.kinds(size) == ["Expired", "GateApplied", "ReviewRequested"]
        refused(made, Conflict, "its time is not over", answering.expire, "a")
        made.clock.pass_by(60)
        made.do(answering.expire, "a")
        # The owner's fallback is the same 250, which the limits behind let through.
        assert made.document("a")["executed"] == {"price": 250.0}


def test_what_waits_for_ever_never_expires() -> None:
    with office(held('expiry = { after = 1, then = "wait" }')) as made:
        made.decide("a", night(0.9))
        made.clock.pass_by(10**6)
        assert made.look(lambda live: answering.overdue(live, made.desk.policy, made.clock())) == []
        assert made.look(lambda live: answering.deadline(live, made.desk.policy, "a")) is None
        refused(made, Conflict, "has not expired", answering.expire, "a")


def test_deadlines() -> None:
    with office(held("expiry.after = 60")) as made:
        made.decide("a", night(0.9))
        made.decide("b")
        policy = made.desk.policy
        due = made.look(lambda live: [answering.deadline(live, policy, id) for id in ("a", "b")])
        assert due == [made.clock.at + 60_000_000, None]


def test_expiry_of_what_is_not_held() -> None:
    with office(held()) as made:
        made.decide("b")
        refused(made, Conflict, "decision b is not held; it is passed", answering.expire, "b")
        refused(made, UnknownDecision, "no decision 'x'", answering.expire, "x")


# Bulk


def test_several_are_answered_at_once() -> None:
    with office(held()) as made:
        made.decide("week", [night(0.9)] * 3)
        size = made.size
        answers = [made.asked(f"week.{i}", ["approve", "veto", "approve"][i]) for i in range(3)]
        records = made.do(answering.bulk, answers)
        assert [record.status for record in records] == ["passed", "vetoed", "passed"]
        assert made.kinds(size) == ANSWERED * 3
        made.check()


@pytest.mark.parametrize(
    ("at", "changes", "error", "says"),
    [
        (1, {"id": "week.0"}, InvalidInput, "decisions: one is named twice"),
        (1, {"id": "x"}, UnknownDecision, "no decision 'x' was made here"),
        (1, {"id": "free"}, Conflict, "decision free is not held; it is passed"),
        (1, {"verdict": "maybe"}, InvalidInput, "verdict: expected"),
        (1, {"action": {"price": 3}}, InvalidInput, "action: give one with 'edit'"),
        (
            1,
            {"verdict": "edit", "action": {"price": 3}},
            InvalidInput,
            "verdict: decisions are edited one by one",
        ),
        (1, {"version": 1}, Stale, "decision week.1 is no longer what you saw"),
        (1, {"content": ""}, Stale, "decision week.1 is no longer what you saw"),
        (1, {"by": "shop"}, OwnProposal, "decision week.1 was asked for by shop"),
        (1, {"code": "?"}, InvalidInput, "code: expected one of fits"),
    ],
)
def test_one_that_is_wrong_stops_all(
    at: int, changes: dict[str, Any], error: type[GdcbError], says: str
) -> None:
    with office(held()) as made:
        made.decide("week", [night(0.9)] * 3)
        made.decide("free")
        answers = [made.asked(f"week.{i}") for i in range(3)]
        answers[at] = replace(answers[at], **changes)
        live = made.desk._live
        refused(made, error, says, answering.bulk, answers)
        assert made.desk._live is live  # it was refused before anything was folded
        assert len(made.look(lambda live: live.waiting)) == 3


def test_bulk_has_a_limit_and_needs_one() -> None:
    with office(held("bulk = 2")) as made:
        made.decide("week", [night(0.9)] * 3)
        answers = [made.asked(f"week.{i}") for i in range(3)]
        says = "at most 2 are answered together, got 3"
        refused(made, InvalidInput, says, answering.bulk, answers)
        refused(made, InvalidInput, "expected at least one, got none", answering.bulk, [])
        made.do(answering.bulk, answers[:2])


def test_bulk_is_for_holds_of_one_rule() -> None:
    with office(held_twice()) as made:
        made.decide("a", night(0.9))
        made.decide("b", night(base=260), mask=["0.8"])
        answers = [made.asked("a"), made.asked("b")]
        says = "expected holds of one rule, got manager, owner"
        refused(made, InvalidInput, says, answering.bulk, answers)


def test_one_may_veto_several_of_ones_own() -> None:
    with office(held()) as made:
        made.decide("week", [night(0.9)] * 2)
        made.do(answering.bulk, [made.asked(f"week.{i}", "veto", by="shop") for i in range(2)])
        assert made.document("week.1")["status"] == "vetoed"


# Beside other things


def test_what_is_held_can_be_answered_while_the_instance_is_paused_or_retired() -> None:
    with office(held()) as made:
        made.decide("week", [night(0.9)] * 2)
        made.do(operating.pause, "holiday", "ann")
        made.answer("week.0", "veto")
        made.do(operating.retire, "the end", "ann")
        made.answer("week.1", "veto")
        made.check()


def test_new_limits_are_in_force_for_what_is_held() -> None:
    with office(held()) as made:
        made.decide("a", night(0.9))
        answer = made.asked("a", "edit", {"price": 280})
        made.change(held().replace("high = 300", "high = 110"))
        says = "the gates behind you have changed since you looked"
        refused(made, Stale, says, answering.review, answer)
        made.answer("a", "edit", {"price": 280})
        assert made.document("a")["executed"] == {"price": 110.0}
        made.check()


def test_a_new_policy_is_in_force_at_once_also_in_the_same_transaction() -> None:
    with office(held()) as made:
        made.decide("a", night(0.9))
        number = made.do(operating.propose_change, held('codes = { ok = "Fine" }'), "less", "ann")
        old, new = made.asked("a"), made.asked("a", code="ok")
        agreed, by_old, by_new = together(
            made,
            lambda turn: operating.agree(turn, number, "", "bob"),
            lambda turn: answering.review(turn, old),
            lambda turn: answering.review(turn, new),
        )
        assert agreed is None
        assert isinstance(by_old, InvalidInput)
        assert "code: expected one of ok; got 'fits'" in str(by_old)
        assert by_new.status == "passed"
        made.check()


def test_without_people_nothing_waits() -> None:
    with office(plain()) as made:
        made.decide("a", night(0.9))
        assert made.look(lambda live: live.waiting) == {}
