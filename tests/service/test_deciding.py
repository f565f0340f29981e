"""Decide: what is written, the same answer to the same request, what is refused, who is live."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb import BetaThompson
from gdcb import events as ev
from gdcb.errors import (
    Conflict,
    GdcbError,
    InvalidInput,
    NothingAllowed,
    OutOfMemory,
    UnknownField,
    ValuationError,
)
from gdcb.service import deciding, operating
from gdcb.service.problems import problem_of
from tests.properties import examples
from tests.service.desks import START, Office, held, night, office, plain, together

DECIDED = ["DecisionMade", "GateApplied", "ActionExecuted"]
ASKED = ["DecisionMade", "GateApplied", "ReviewRequested"]
SHADOW = 'launch = { mode = "shadow", incumbent = { price = 90 } }'


# What is written


def test_one_decision_is_made_judged_and_run() -> None:
    with office(plain()) as made:
        (row,) = made.rows("night", night(base=100))
        assert made.kinds(1) == DECIDED
        assert row["id"] == "night"
        assert (row["status"], row["has_run"], row["live"]) == ("passed", True, True)
        assert row["action"] == row["proposed"] == {"price": 100 * float(row["arm"])}
        assert row["version"] == 2
        document = made.document("night")
        assert {name: document[name] for name in row} == row
        assert document["executed"] == row["action"]
        assert document["outcome"] is None
        made.check()


def test_the_gates_change_what_they_must() -> None:
    with office(plain()) as made:
        (low,) = made.rows("low", night(base=20))
        assert (low["status"], low["action"], low["has_run"]) == ("modified", {"price": 50.0}, True)
        assert low["reason"].startswith("limits (version 1):")


def test_a_busy_night_waits() -> None:
    with office(held()) as made:
        (row,) = made.rows("night", night(0.9))
        assert made.kinds(1) == ASKED
        assert (row["status"], row["has_run"], row["action"]) == ("held", False, None)
        assert list(made.look(lambda live: live.waiting)) == ["night"]
        waiting = made.look(lambda live: live.waiting["night"])
        assert (waiting.gate, waiting.unit, waiting.since) == ("manager", "flat", START)
        assert waiting.number == row["version"]
        assert [case.id for case in made.look(lambda live: live.held())] == ["night"]


def test_a_batch_is_one_event_of_each_kind() -> None:
    with office(held()) as made:
        rows = made.rows("week", [night(), night(0.9), night(0.1)], unit=["sea", "farm", "sea"])
        assert made.kinds(1) == [*DECIDED, "ReviewRequested"]
        assert [row["id"] for row in rows] == ["week.0", "week.1", "week.2"]
        assert [row["unit"] for row in rows] == ["sea", "farm", "sea"]
        assert [row["status"] for row in rows] == ["passed", "held", "passed"]
        assert [row["has_run"] for row in rows] == [True, False, True]
        for row in rows:
            document = made.document(row["id"])
            assert {name: document[name] for name in row} == row
        assert made.look(lambda live: live.units) == {"sea": 0, "farm": 1}


def test_with_execution_by_report_nothing_has_run() -> None:
    with office(held('execution = "report"')) as made:
        rows = made.rows("week", [night(), night(0.9)])
        assert made.kinds(1) == ASKED
        assert [row["has_run"] for row in rows] == [False, False]
        assert [row["status"] for row in rows] == ["passed", "held"]
        assert not made.document("week.0")["has_run"]


def test_a_mask_leaves_only_what_it_names() -> None:
    with office(plain()) as made:
        for i in range(5):
            (row,) = made.rows(f"n{i}", night(), mask=["0.8"])
            assert row["arm"] == "0.8"
        rows = made.rows("many", [night()] * 20, mask=["0.8", "1.2"])
        assert {row["arm"] for row in rows} <= {"0.8", "1.2"}
        made.check()


def test_who_asked_stands_in_the_row_and_in_the_entry() -> None:
    with office(plain()) as made:
        made.decide("a", by="ann")
        one, other = made.request("b", by="bob"), made.request("c", by="cy")
        together(made, one, other)
        entries = list(made.store.read("rooms", 1))
        assert [entry.by for entry in entries] == ["ann"] * 3 + ["several"] * 3
        made_together = made.events(4)[0]
        assert isinstance(made_together, ev.DecisionMade)
        assert made_together.by == ["bob", "cy"]


def test_what_waits_together_is_decided_together_and_as_if_alone() -> None:
    """Random numbers are keyed by request: neighbours do not matter to what is proposed."""
    asked: list[tuple[str, Any, dict[str, Any]]] = [
        ("one", night(0.2), {}),
        ("week", [night(0.9), night(), night(base=10)], {"unit": ["a", "b", "a"]}),
        ("masked", night(base=200), {"mask": ["0.8"], "unit": "b"}),
        ("pair", [night(), night()], {"mask": ["1", "1.2"], "by": "bob"}),
    ]
    with office(held()) as made, office(held()) as alone:
        answers = together(made, *(made.request(id, x, **more) for id, x, more in asked))
        assert made.kinds(1) == [*DECIDED, "ReviewRequested"]
        first = made.events(1)[0]
        assert isinstance(first, ev.DecisionMade)
        assert first.id == ["one", "week.0", "week.1", "week.2", "masked", "pair.0", "pair.1"]
        assert first.mask is not None
        assert first.mask[0].all()
        together_rows = [
            row for answer in answers for row in deciding.answer_rows(answer, made.desk.policy)
        ]
        alone_rows = [row for id, x, more in asked for row in alone.rows(id, x, **more)]
        for one, other in zip(together_rows, alone_rows, strict=True):
            assert {**one, "version": 0} == {**other, "version": 0}
        made.check()
        alone.check()
        for id, x, more in asked:
            assert not made.decide(id, x, **more).is_new
        assert len(made.kinds(1)) == 4


@examples(15)
@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.booleans(), st.sampled_from([None, ["1"], ["0.8", "1.2"]])),
        min_size=1,
        max_size=4,
    )
)
def test_any_group_of_requests_can_be_read_back(group: list[tuple[int, bool, Any]]) -> None:
    with office(held()) as made:
        requests = [
            made.request(f"r{i}", [night(0.9 * (j % 2)) for j in range(n)], mask=mask)
            if n > 1 or is_batch
            else made.request(f"r{i}", night(), mask=mask)
            for i, (n, is_batch, mask) in enumerate(group)
        ]
        answers = together(made, *requests)
        ids = [id for request in requests for id in request.ids]
        rows = [r for a in answers for r in deciding.answer_rows(a, made.desk.policy)]
        assert [row["id"] for row in rows] == ids
        made.restart()
        for row in rows:
            document = made.document(row["id"])
            assert {name: document[name] for name in row} == row
        made.check()


# The same again


def test_the_same_request_has_the_same_answer() -> None:
    with office(held()) as made:
        asked: list[tuple[str, Any, dict[str, Any]]] = [
            ("one", night(0.9), {"mask": ["0.8", "1"]}),
            ("all", night(), {"mask": ["0.8", "1", "1.2"]}),
            ("week", [night(), night(0.9)], {"unit": ["a", "b"]}),
        ]
        first = [made.rows(id, x, **more) for id, x, more in asked]
        size = made.size
        for _ in range(2):
            assert [made.rows(id, x, **more) for id, x, more in asked] == first
            made.restart()
        assert not made.decide("all", night()).is_new  # all arms said, or nothing said
        assert made.size == size


def test_the_same_request_twice_in_one_transaction() -> None:
    with office(plain()) as made:
        request = made.request("a")
        one, other, third = together(made, request, made.request("a"), made.request("a", night(1)))
        assert (one.is_new, other.is_new) == (True, False)
        assert other.made is one.made
        assert isinstance(third, Conflict)
        assert made.kinds(1) == DECIDED


def test_an_answer_is_as_it_was_decided_also_after_it_was_reviewed() -> None:
    with office(held()) as made:
        first = made.rows("a", night(0.9))
        made.answer("a")
        assert made.document("a")["status"] == "passed"
        assert made.rows("a", night(0.9)) == first


@pytest.mark.parametrize(
    ("again", "says"),
    [
        ({"contexts": night(0.1)}, "'a' was used before with another context, unit or mask"),
        ({"unit": "other"}, "'a' was used before with another context, unit or mask"),
        ({"mask": ["1"]}, "'a' was used before with another context, unit or mask"),
        ({"contexts": [night()]}, "'a' was used before, for one decision"),
        ({"contexts": [night(), night()]}, "'a' was used before, for another number of rows"),
    ],
)
def test_another_request_under_the_same_id(again: dict[str, Any], says: str) -> None:
    with office(plain()) as made:
        made.decide("a")
        size = made.size
        with pytest.raises(Conflict, match=f"^id: {says}$"):
            made.decide("a", **again)
        assert made.size == size


def test_a_single_request_under_the_id_of_a_batch() -> None:
    with office(plain()) as made:
        made.decide("a", [night()])
        with pytest.raises(Conflict, match=r"^id: 'a' was used before, for a batch$"):
            made.decide("a")
        made.decide("b", [night(), night()])
        with pytest.raises(
            Conflict, match=r"^id: 'b' was used before, for another number of rows$"
        ):
            made.decide("b")
        with pytest.raises(Conflict, match=r"^id: 'b' was used before with another context"):
            made.decide("b", [night(), night(0.5)])


# What is refused


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (("", night()), "id: "),
        (("a.7", night()), "id: may not end in .NUMBER, which names the rows of a batch"),
        (("x" * 121, night()), "id: expected at most 120"),
        (("a\nb", night()), "id: expected at most 120"),
        (("a", []), "contexts: expected at least one row, got none"),
        (("a", [night()] * 4), "contexts: expected at most 3 rows, got 4"),
        (("a", night(base=0)), "base"),
        (("a", {"base": 3.0}), "busy"),
        (("a", [night(), night(7)]), "busy"),
    ],
)
def test_a_wrong_request(asked: tuple[str, Any], says: str) -> None:
    with office(plain("batch = 3")) as made:
        with pytest.raises(InvalidInput) as caught:
            made.decide(*asked)
        assert says in str(caught.value)
        assert made.size == 1


@pytest.mark.parametrize(
    ("given_", "error", "says"),
    [
        ({"mask": ["5"]}, UnknownField, "mask: no arm '5'; there are 0.8, 1, 1.2"),
        ({"mask": []}, NothingAllowed, r"mask: no arm is allowed in row \[0\]"),
        ({"mask": "1"}, InvalidInput, "mask: expected a list of arm names"),
        ({"unit": ["a", "b"]}, InvalidInput, "unit: expected 1 names, got 2"),
        ({"unit": 7}, InvalidInput, "unit: expected a name"),
    ],
)
def test_a_wrong_mask_or_unit(given_: dict[str, Any], error: type[GdcbError], says: str) -> None:
    with office(plain()) as made:
        with pytest.raises(error, match=says):
            made.decide("a", **given_)
        assert made.size == 1


def test_an_instance_that_is_paused_or_retired_decides_nothing() -> None:
    with office(plain()) as made:
        made.decide("before")
        made.do(operating.pause, "the till is broken", "ann")
        with pytest.raises(deciding.Stopped, match="paused by ann: the till is broken"):
            made.decide("now")
        assert not made.decide("before").is_new
        made.do(operating.resume, "mended", "ann")
        made.decide("now")
        made.do(operating.retire, "we sold it", "bob")
        size = made.size
        with pytest.raises(deciding.Stopped, match="retired by bob: we sold it"):
            made.decide("later")
        assert made.size == size


@pytest.mark.parametrize("text", [plain(), held()])
def test_a_learner_without_numbers_proposes_nothing(text: str) -> None:
    """Whichever gates are asked first: it is not they who have no answer."""
    with office(text) as made:
        made.decide("a")
        made.look(lambda live: live.state.bandit.counts.fill(np.nan))
        with pytest.raises(ValuationError, match="the learner's values are not numbers"):
            made.decide("b")


def test_a_learner_without_memory_is_not_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is too little, nothing is written, and the next request is decided."""

    def full(*_: Any) -> Any:
        raise MemoryError("Unable to allocate 18.6 GiB for an array")

    with office(plain()) as made:
        made.decide("a")
        size = made.size
        for step in ("draw", "value"):
            with monkeypatch.context() as patched:
                patched.setattr(BetaThompson, step, full)
                with pytest.raises(OutOfMemory, match="ask for fewer rows at a time"):
                    made.decide("b")
        status, said, _ = problem_of(OutOfMemory())
        assert (status, said["error"]["code"]) == (503, "out_of_memory")
        assert made.size == size
        assert made.decide("b").is_new
        made.check()


def test_rows_are_limited_by_the_number_of_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "MOST_CHOICES", 12, raising=False)
    with office(plain()) as made:
        assert len(made.rows("four", [night()] * 4)) == 4
        with pytest.raises(InvalidInput, match="at most 4 rows of 3 arms each, got 5"):
            made.decide("five", [night()] * 5)
        monkeypatch.setattr(deciding, "MOST_CHOICES", 1)
        assert made.decide("one").is_new


def test_moved_arms_that_meet_all_others_are_limited_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """To locate an action among arms of two coordinates takes a distance to each of them."""
    monkeypatch.setattr(deciding, "MOST_DISTANCES", 30, raising=False)
    scaler = 'scaler = { part = "constant", n_arms = 3 }\n'
    with office(plain(rest=scaler)) as made:
        assert len(made.rows("three", [night()] * 3)) == 3
        with pytest.raises(InvalidInput, match="at most 3 rows of 3 arms each, got 4"):
            made.decide("four", [night()] * 4)
        size = made.size
        answers = together(made, *(made.request(id, [night()] * 2) for id in "abc"))
        assert [len(answer.made.id) for answer in answers] == [2, 2, 2]
        assert made.kinds(size) == DECIDED * 3
    with office(plain()) as made:
        assert len(made.rows("four", [night()] * 4)) == 4


def test_requests_that_wait_are_decided_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many wait, rows × arms of those that are decided at once are limited."""
    monkeypatch.setattr(deciding, "MOST_CHOICES", 12, raising=False)
    with office(plain()) as made:
        size = made.size
        wanted = [made.request(id, [night()] * 2) for id in "abc"]
        answers = together(made, *wanted)
        assert [len(answer.made.id) for answer in answers] == [4, 4, 2]
        assert made.kinds(size) == DECIDED * 2
        made.check()


def test_new_units_are_limited_by_what_their_learners_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit takes a few hundred bytes here: of a limit of some 10 kB four have room, not 400."""
    monkeypatch.setattr(deciding, "MEBIBYTE", 10_000, raising=False)
    with office(plain("memory = 1")) as made:
        made.decide("a", [night()] * 4, unit=["a", "b", "c", "d"])
        size = made.size
        many = [f"u{i}" for i in range(400)]
        fine, refused, also = together(
            made,
            made.request("b", night(), unit="e"),
            made.request("c", [night()] * 400, unit=many),
            made.request("d", night(), unit="a"),
        )
        assert (fine.is_new, also.is_new) == (True, True)
        assert isinstance(refused, InvalidInput)
        assert "what is learned of 405 units would take" in str(refused)
        assert made.kinds(size) == DECIDED
        assert made.look(lambda live: len(live.units)) == 5
        made.check()


def test_one_that_is_refused_does_not_spoil_the_others() -> None:
    with office(plain()) as made:
        made.decide("a")
        fine, twice = together(made, made.request("b"), made.request("a", night(0.3)))
        assert fine.is_new
        assert isinstance(twice, Conflict)
        made.check()


def test_a_request_encoded_before_a_change_is_asked_for_once_more() -> None:
    with office(plain()) as made:
        old = made.request("a")
        made.change(plain().replace("high = 300", "high = 90"))
        with pytest.raises(Conflict, match="the instance has changed since the request came"):
            made.desk.put(deciding.job(old)).result(timeout=60)
        assert made.rows("a")[0]["action"]["price"] <= 90.0


def test_a_request_encoded_before_a_launch_is_asked_for_once_more() -> None:
    """It does not say what the incumbent would do; and spoils no other request."""
    with office(plain()) as made:
        old = made.request("a")
        made.change(plain(SHADOW))
        with_one = made.request("b")
        without, fine = together(made, old, with_one)
        assert isinstance(without, Conflict)
        assert "the launch has changed since the request came" in str(without)
        assert fine.is_new
        made.check()


# Launch


def test_in_the_shadow_the_incumbent_runs() -> None:
    with office(plain(SHADOW)) as made:
        rows = made.rows("week", [night(), night(base=200)])
        assert [row["live"] for row in rows] == [False, False]
        assert [row["action"] for row in rows] == [{"price": 90.0}] * 2
        assert rows[1]["proposed"]["price"] >= 160.0
        document = made.document("week.0")
        assert (document["live"], document["executed"]) == (False, {"price": 90.0})
        made.check()


def test_the_incumbent_meets_the_gates() -> None:
    with office(held('launch = { mode = "shadow", incumbent = { price = 900 } }')) as made:
        rows = made.rows("week", [night(), night(0.9)])
        assert [row["status"] for row in rows] == ["modified", "held"]
        assert rows[0]["action"] == {"price": 300.0}
        assert made.answer("week.1").executed is not None
        assert made.document("week.1")["executed"] == {"price": 300.0}


def test_an_incumbent_given_with_the_request() -> None:
    with office(plain('launch.mode = "shadow"')) as made:
        with pytest.raises(InvalidInput, match="give the action that runs where the proposal"):
            made.decide("a")
        (row,) = made.rows("a", incumbent={"price": 77})
        assert row["action"] == {"price": 77.0}
        assert not made.decide("a", incumbent={"price": 77}).is_new
        with pytest.raises(Conflict, match="'a' was used before with another incumbent"):
            made.decide("a", incumbent={"price": 78})


def test_a_declared_incumbent_may_change_between_a_request_and_its_repetition() -> None:
    with office(plain(SHADOW)) as made:
        first = made.rows("a")
        made.change(plain(SHADOW.replace("90", "95")))
        assert made.rows("a") == first
        assert made.rows("b")[0]["action"] == {"price": 95.0}


def _live(made: Office, id: str, n: int = 1000, units: int = 50) -> np.ndarray[Any, Any]:
    rows = made.rows(id, [night()] * n, unit=[f"u{i % units}" for i in range(n)])
    assert all((row["action"] == {"price": 90.0}) != row["live"] for row in rows)
    return np.array([row["live"] for row in rows])


def test_a_share_is_held_back_by_decision() -> None:
    """1,000 draws at 0.8: outside 0.75 to 0.85 less than one time in 10,000; the seed is fixed."""
    back = 'launch = { mode = "holdback", share = 0.2, incumbent = { price = 90 } }'
    with office(plain(back)) as made:
        live = _live(made, "a")
        assert 0.75 < live.mean() < 0.85
        by_unit = live.reshape(-1, 50)
        assert (by_unit.any(axis=0) & ~by_unit.all(axis=0)).sum() > 40
        assert (live != _live(made, "b")).any()
        made.check()


def test_a_share_is_held_back_by_unit() -> None:
    """A unit is live or not, in every request."""
    back = 'launch = { mode = "holdback", share = 0.4, drawn_by = "unit", incumbent = {price = 90}}'
    with office(plain(back)) as made:
        live = _live(made, "a", 200).reshape(-1, 50)
        assert (live == live[0]).all()
        assert 10 <= live[0].sum() <= 45
        assert (_live(made, "b", 50) == live[0]).all()


def test_a_ramp_goes_by_the_clock_and_only_adds_units() -> None:
    ramp = """
    launch.mode = "ramp"
    launch.drawn_by = "unit"
    launch.incumbent = { price = 90 }
    launch.steps = [
      { since = 2026-01-01T00:01:00Z, share = 0.3 },
      { since = 2026-01-01T00:02:00Z, share = 0.7 },
      { since = 2026-01-01T00:03:00Z, share = 1.0 },
    ]
    """
    with office(plain(ramp)) as made:
        before = np.zeros(50, dtype=bool)
        for minute in range(4):
            now = _live(made, f"minute {minute}".replace(" ", "-"), 50)
            assert (now >= before).all()
            assert now.any() == (minute > 0)
            assert now.all() == (minute == 3)
            before = now
            made.clock.pass_by(60)
        made.check()


def test_what_ran_in_the_shadow_is_not_credited_to_the_proposal() -> None:
    """The incumbent's 90 on a base of 100 is nearest to arm 0.8 or 1: its outcome counts there."""
    with office(plain(SHADOW)) as made:
        for i in range(6):
            made.decide(f"n{i}", mask=["1.2"])
        made.observe({f"n{i}": 1 for i in range(6)})
        counts = made.counts()
        assert counts[2] == [1.0, 1.0]
        made.check()


def test_the_answer_after_a_restart_is_of_the_same_random_numbers() -> None:
    with office(held()) as made, office(held()) as other:
        for i in range(4):
            made.decide(f"a{i}", night(0.1 * i))
            made.restart()
            other.decide(f"a{i}", night(0.1 * i))
        assert [e.body for e in made.store.read("rooms")] == [
            e.body for e in other.store.read("rooms")
        ]
