"""What ran and what came of it: reports, outcomes, labels, windows, corrections, appeals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gdcb import events as ev
from gdcb.errors import Conflict, GdcbError, InvalidInput, UnknownDecision, UnknownField
from gdcb.service import observing, operating
from gdcb.service.observing import Outcome
from gdcb.service.turn import TooLate
from tests.service.desks import Office, held, learning, night, office, plain, together
from tests.service.test_answering import refused

REPORT = 'execution = "report"\n'
REPLACE = 'outcomes.correction = "replace"\n'


def arm(made: Office, id: str, name: str, **more: Any) -> None:
    """Decide for a base of 100 with one arm allowed."""
    made.decide(id, night(), mask=[name], **more)


# What ran


def test_what_was_reported_has_run() -> None:
    with office(plain(REPORT)) as made:
        arm(made, "a", "1")
        size = made.size
        assert made.execute("a", 100.0)
        assert made.kinds(size) == ["ActionExecuted"]
        assert made.document("a")["executed"] == {"price": 100.0}
        assert not made.execute("a", 100.0)
        assert made.size == size + 1
        refused(
            made,
            Conflict,
            "executed: decision a ran already as {'price': 100.0}",
            observing.execute,
            "a",
            {"price": 101.0},
            "shop",
        )
        made.check()


def test_nothing_may_be_reported_to_have_run() -> None:
    with office(plain(REPORT)) as made:
        arm(made, "a", "1")
        assert made.execute("a", None)
        assert not made.execute("a", None)
        assert made.document("a")["executed"] is None
        says = "executed: decision a did not run, as was reported"
        refused(made, Conflict, says, observing.execute, "a", {"price": 100.0}, "shop")
        made.observe({"a": 0})
        assert made.counts() == [[1, 1], [1, 1], [1, 1]]
        made.check()


def test_another_action_than_was_let_through_is_credited_where_it_ran() -> None:
    """Arm 1.2 was let through at 120; 80 ran, which is arm 0.8, and its booking counts there."""
    with office(plain(REPORT)) as made:
        arm(made, "a", "1.2")
        made.execute("a", 80.0)
        made.observe({"a": 1})
        counts = made.counts()
        assert counts[2] == [1.0, 1.0]
        assert counts[0][0] > 1.0
        made.check()


def test_an_outcome_before_the_execution() -> None:
    with office(plain(REPORT)) as made:
        arm(made, "a", "1")
        says = "outcome: decision a is passed and has not run"
        given = [Outcome("a", {"booked": 1})]
        refused(made, Conflict, says, observing.observe, given, "shop")
        made.execute("a", 100.0)
        assert made.observe({"a": 1}) == [True]


@pytest.mark.parametrize("price", [100.0, None])
def test_what_is_held_may_not_run(price: float | None) -> None:
    with office(held(REPORT)) as made:
        made.decide("a", night(0.9))
        action = None if price is None else {"price": price}
        says = "executed: decision a is held; nothing may run before it is let through"
        refused(made, Conflict, says, observing.execute, "a", action, "shop")
        says = "outcome: decision a is held and has not run"
        refused(made, Conflict, says, observing.observe, [Outcome("a", {"booked": 1})], "shop")


@pytest.mark.parametrize("service", ["", REPORT])
def test_what_was_vetoed_may_not_run(service: str) -> None:
    with office(held(service)) as made:
        made.decide("a", night(0.9))
        made.answer("a", "veto")
        says = "executed: decision a was vetoed; it may not run"
        refused(made, Conflict, says, observing.execute, "a", {"price": 100.0}, "shop")
        size = made.size
        assert not made.execute("a", None)  # which is known
        assert made.size == size


def test_where_release_is_execution_a_report_can_only_agree() -> None:
    with office(plain()) as made:
        arm(made, "a", "1")
        assert not made.execute("a", 100.0)
        says = "executed: decision a ran already as {'price': 100.0}"
        refused(made, Conflict, says, observing.execute, "a", {"price": 90.0}, "shop")
        refused(made, Conflict, says, observing.execute, "a", None, "shop")


@pytest.mark.parametrize(
    ("id", "action", "error", "says"),
    [
        ("x", {"price": 100.0}, UnknownDecision, "no decision 'x' was made here"),
        ("a", {"cost": 100.0}, UnknownField, "action: expected price; got cost"),
        ("a", {"price": "much"}, InvalidInput, "action.price: expected"),
        ("a", {"price": float("inf")}, InvalidInput, "action.price: expected"),
    ],
)
def test_reports_that_are_refused(id: str, action: Any, error: type[GdcbError], says: str) -> None:
    with office(plain(REPORT)) as made:
        arm(made, "a", "1")
        refused(made, error, says, observing.execute, id, action, "shop")


def test_a_report_in_the_transaction_of_its_decision_is_found_again() -> None:
    """Both wait while the desk is busy; the report stands behind the decision like a release."""
    with office(plain(REPORT)) as made:
        answer, (_, is_news) = together(
            made,
            made.request("a", night(), mask=["1"]),
            lambda turn: observing.execute(turn, "a", {"price": 100.0}, "shop"),
        )
        assert answer.is_new
        assert is_news
        assert made.kinds(1) == ["DecisionMade", "GateApplied", "ActionExecuted"]
        made.restart()
        assert made.document("a")["executed"] == {"price": 100.0}
        assert not made.execute("a", 100.0)
        assert made.observe({"a": 1}) == [True]
        made.check()


# Outcomes


def test_outcomes_are_learned() -> None:
    """Two bookings and an empty night at arm 1: Beta(1 + 2, 1 + 1)."""
    with office(plain()) as made:
        for i in range(3):
            arm(made, f"n{i}", "1")
        size = made.size
        assert made.observe({"n0": 1}) == [True]
        assert made.observe({"n1": 1, "n2": 0}) == [True, True]
        assert made.kinds(size) == ["OutcomeObserved", "OutcomeObserved"]
        assert made.counts() == [[1, 1], [3, 2], [1, 1]]
        assert made.document("n2")["outcome"] == {"booked": 0.0}
        made.check()


def test_an_outcome_counts_by_its_weight() -> None:
    with office(plain()) as made:
        arm(made, "a", "1")
        made.observe({"a": 1}, weight=0.25)
        assert made.counts()[1] == [1.25, 1.0]
        says = "weight: the outcome of decision a counts 0.25 already, got 1"
        refused(made, Conflict, says, observing.observe, [Outcome("a", {"booked": 1})], "shop")


def test_the_same_outcome_again_is_no_news() -> None:
    with office(plain()) as made:
        for id in ("a", "b"):
            arm(made, id, "1")
        made.observe({"a": 1})
        size = made.size
        assert made.observe({"a": 1}) == [False]
        assert made.size == size
        assert made.observe({"a": 1, "b": 0}) == [False, True]
        made.restart()
        assert made.observe({"a": 1, "b": 0}) == [False, False]
        assert made.size == size + 1
        assert made.counts()[1] == [2.0, 2.0]


def test_one_outcome_twice_in_one_transaction() -> None:
    with office(plain()) as made:
        arm(made, "a", "1")
        told = [Outcome("a", {"booked": 1})]
        one, other = together(
            made,
            lambda turn: observing.observe(turn, told, "shop"),
            lambda turn: observing.observe(turn, told, "shop"),
        )
        assert (one, other) == ([True], [False])
        assert made.counts()[1] == [2.0, 1.0]
        made.check()


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ([Outcome("x", {"booked": 1})], UnknownDecision, "no decision 'x' was made here"),
        ([Outcome("a", {"sold": 1})], UnknownField, "outcome: expected booked; got {'sold': 1}"),
        ([Outcome("a", {"booked": 7})], InvalidInput, "outcome"),
        ([Outcome("a", {"booked": float("nan")})], InvalidInput, "outcome.booked: expected"),
        ([Outcome("a", {"booked": 1}, weight=-1.0)], InvalidInput, "weight: expected"),
        (
            [Outcome("a", {"booked": 1}, weight=1e308)],
            InvalidInput,
            "weight: expected a number >= 0 and <= 1e\\+06, got 1e\\+308",
        ),
        ([Outcome("a", {"booked": 1}, [1.0])], InvalidInput, "label: expected 0 numbers in a list"),
        (
            [Outcome("a", {"booked": 1}), Outcome("a", {"booked": 1})],
            InvalidInput,
            "outcomes: decision a is named twice",
        ),
        (
            [Outcome("b", {"booked": 1}), Outcome("a", {"booked": 7})],
            InvalidInput,
            "outcome",
        ),
        (
            [Outcome("a", {"booked": 1}), Outcome("c", {"booked": 1})],
            Conflict,
            "outcome: decision c is held and has not run",
        ),
        (
            [Outcome("a", {"booked": 1}), Outcome("seen", {"booked": 0})],
            Conflict,
            r"outcome: decision seen has \[1.0\] already, got \[0.0\]; this instance takes no",
        ),
    ],
)
def test_all_outcomes_are_taken_or_none(
    given: list[Outcome], error: type[GdcbError], says: str
) -> None:
    with office(held()) as made:
        for id in ("a", "b", "seen"):
            arm(made, id, "1")
        made.decide("c", night(0.9))
        made.observe({"seen": 1})
        before = made.counts()
        refused(made, error, says, observing.observe, given, "shop")
        assert made.counts() == before
        made.check()


def test_no_outcome_is_no_event() -> None:
    with office(plain()) as made:
        assert made.do(observing.observe, [], "shop") == []
        assert made.size == 1


# Windows


def test_after_its_window_an_outcome_is_too_late() -> None:
    with office(plain("outcomes.window = 60\n" + REPORT)) as made:
        for id in ("a", "b"):
            arm(made, id, "1")
        made.clock.pass_by(100)  # the window begins with the execution
        for id in ("a", "b"):
            made.execute(id, 100.0)
        made.clock.pass_by(60)
        assert made.observe({"a": 1}) == [True]
        made.clock.pass_by(0.000_001)
        says = "outcome: decision b ran more than 60 seconds ago, which is the window"
        refused(made, TooLate, says, observing.observe, [Outcome("b", {"booked": 1})], "shop")
        assert made.observe({"a": 1}) == [False]  # what is known is no news, and not late
        made.restart()
        refused(made, TooLate, says, observing.observe, [Outcome("b", {"booked": 1})], "shop")


def test_a_late_outcome_may_be_taken() -> None:
    with office(plain('outcomes = { window = 60, late = "take" }')) as made:
        arm(made, "a", "1")
        made.clock.pass_by(10**6)
        assert made.observe({"a": 1}) == [True]
        assert made.counts()[1] == [2.0, 1.0]


# Corrections


def test_a_correction_takes_the_place_of_the_outcome() -> None:
    with office(plain(REPLACE)) as made:
        for id in ("a", "b"):
            arm(made, id, "1")
        made.observe({"a": 1, "b": 1})
        size = made.size
        assert made.observe({"a": 0}, by="ann", reason="cancelled") == [True]
        assert made.kinds(size) == ["OutcomeCorrected"]
        event = made.events(size)[0]
        assert isinstance(event, ev.OutcomeCorrected)
        assert (event.by, event.reason) == ("ann", "cancelled")
        assert made.counts()[1] == [2.0, 2.0]
        assert made.document("a")["outcome"] == {"booked": 0.0}
        assert made.observe({"a": 0}) == [False]
        made.restart()
        assert made.document("a")["outcome"] == {"booked": 0.0}
        assert made.observe({"a": 1}, reason="it came after all") == [True]
        assert made.counts()[1] == [3.0, 1.0]
        made.check()


def test_a_correction_says_why() -> None:
    with office(plain(REPLACE)) as made:
        arm(made, "a", "1")
        made.observe({"a": 1})
        says = "reason: say why the outcome was wrong"
        refused(made, InvalidInput, says, observing.observe, [Outcome("a", {"booked": 0})], "shop")


def test_news_and_corrections_may_come_together() -> None:
    with office(plain(REPLACE)) as made:
        for i in range(3):
            arm(made, f"n{i}", "1")
        made.observe({"n0": 1})
        size = made.size
        assert made.observe({"n0": 0, "n1": 1, "n2": 1}, reason="count again") == [True] * 3
        assert made.kinds(size) == ["OutcomeObserved", "OutcomeCorrected"]
        assert made.counts()[1] == [3.0, 2.0]
        made.check()


# Labels


def test_labels_teach_the_scaler_and_refit_it_when_due() -> None:
    with office(learning()) as made:
        rows = made.rows("week", [night(0.1 * i) for i in range(5)])
        size = made.size
        for i in range(4):
            made.observe({rows[i]["id"]: 1}, label=[0.1 * i])
        assert made.kinds(size) == ["OutcomeObserved"] * 4 + ["ScalerFitted"]
        fitted = next(iter(made.store.read("rooms", made.size - 1)))
        assert fitted.by == "policy"
        assert made.look(lambda live: live.state.scaler.versions.tolist()) != [0]
        made.check()


def test_a_label_far_from_any_log_delta_refuses_all_outcomes_beside_it() -> None:
    with office(learning()) as made:
        made.decide("a")
        made.decide("b")
        told = [Outcome("a", {"booked": 1}, [0.1]), Outcome("b", {"booked": 1}, [139.0])]
        says = "label: expected log δ between -20.7 and 6.9, got 139"
        refused(made, InvalidInput, says, observing.observe, told, "shop")
        made.check()


def test_a_label_may_come_later_with_the_same_outcome() -> None:
    with office(learning(REPLACE)) as made:
        made.decide("a")
        made.observe({"a": 1})
        size = made.size
        assert made.observe({"a": 1}, label=[0.5]) == [True]
        assert made.kinds(size) == ["LabelObserved"]
        assert made.observe({"a": 1}, label=[0.5]) == [False]
        says = r"label: decision a has \[0.5\] already"
        told = [Outcome("a", {"booked": 1}, [0.7])]
        refused(made, Conflict, says, observing.observe, told, "shop")
        made.check()


def test_a_correction_may_bring_a_label() -> None:
    with office(learning(REPLACE)) as made:
        made.decide("a")
        made.observe({"a": 1})
        size = made.size
        assert made.observe({"a": 0}, label=[0.5], reason="typing error") == [True]
        assert made.kinds(size) == ["OutcomeCorrected", "LabelObserved"]
        assert made.observe({"a": 0}, label=[0.5]) == [False]
        made.check()


def test_a_row_without_a_label_among_rows_with_one() -> None:
    with office(learning()) as made:
        made.decide("week", [night(), night()])
        told = [Outcome("week.0", {"booked": 1}, [0.5]), Outcome("week.1", {"booked": 1})]
        assert made.do(observing.observe, told, "shop") == [True, True]
        event = made.events(made.size - 1)[0]
        assert isinstance(event, ev.OutcomeObserved)
        assert event.label is not None
        assert np.isnan(event.label[1, 0])
        assert made.look(lambda live: live.records["week.1"].label) is None


# Appeals


def test_an_appeal_is_written_down_once() -> None:
    with office(held()) as made:
        made.decide("a")
        made.decide("b", night(0.9))
        before = made.counts()
        assert made.do(observing.appeal, "a", True, "unfair", "bob")[1]
        assert not made.do(observing.appeal, "a", True, "unfair", "bob")[1]
        says = "appeal: decision a has one already, upheld: unfair"
        refused(made, Conflict, says, observing.appeal, "a", False, "fair", "bob")
        says = "appeal: decision b is held and has not run"
        refused(made, Conflict, says, observing.appeal, "b", True, "unfair", "bob")
        says = "reason: say why the appeal ended so"
        refused(made, InvalidInput, says, observing.appeal, "a", True, " ", "bob")
        refused(made, UnknownDecision, "'x'", observing.appeal, "x", True, "unfair", "bob")
        assert made.counts() == before
        made.check()


def test_outcomes_come_in_after_the_end() -> None:
    with office(plain()) as made:
        arm(made, "a", "1")
        made.do(operating.retire, "sold", "ann")
        assert made.observe({"a": 1}) == [True]


def test_outcomes_of_both_sides_of_a_change_come_together() -> None:
    with office(held()) as made:
        arm(made, "a", "1")
        made.change(held().replace("high = 300", "high = 90"))
        arm(made, "b", "1")
        assert made.observe({"a": 1, "b": 1}) == [True, True]
        made.check()
