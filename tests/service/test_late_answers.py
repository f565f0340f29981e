"""After the deadline the policy decides: nobody approves or edits any more, by whichever door.

The expiry sweep never runs here (`tick=0`), so that only the transaction of the answer can refuse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gdcb import events as ev
from gdcb.codec import from_body
from gdcb.errors import Conflict
from gdcb.ledger.audit import verify_chain
from gdcb.ledger.replaying import replay_chain
from gdcb.service import answering
from gdcb.service.access import ROLES
from gdcb.service.turn import Turn
from tests.ledger.test_possible import Told, of, retold
from tests.service.desks import SECOND, held, held_twice, night, office, together
from tests.service.http import ROOMS, Site, Visitor, hidden, problem, site, visitor
from tests.service.test_web_queue import selected, text_of

AFTER = 60.0
EXPIRY = f'expiry = {{ after = {AFTER:g}, then = "veto" }}'
FALLBACK = f'expiry = {{ after = {AFTER:g}, then = "fallback", fallback = {{ price = 120 }} }}'
AT, API = f"/i/{ROOMS}", f"/v1/instances/{ROOMS}"
EDIT = {"verdict": "edit", "action": {"price": 130}}
ANSWERS: list[dict[str, Any]] = [{"verdict": "approve"}, EDIT]


@pytest.fixture(params=[EXPIRY, FALLBACK], ids=["veto", "fallback"])
def here(request: pytest.FixtureRequest, sqlite_template: Path, tmp_path: Path) -> Iterator[Site]:
    """Serve an instance whose holds expire after a minute, to a veto or to a fallback."""
    with site(sqlite_template, tmp_path, held(request.param)) as made:
        yield made


@pytest.fixture
def eve(here: Site) -> Visitor:
    """Somebody who may everything, at a browser."""
    return visitor(here, "eve", *((role, "*") for role in ROLES))


@pytest.mark.parametrize("said", ANSWERS, ids=["approve", "edit"])
def test_the_api_refuses_an_answer_from_the_deadline_on(here: Site, said: dict[str, Any]) -> None:
    """One millisecond before it counts, at the very deadline it does not."""
    here.decide("early", 0.9)
    here.decide("late", 0.9)
    here.clock.pass_by(AFTER - 0.001)
    assert here.review("early", **said).status_code == 200
    here.clock.pass_by(0.001)
    before = here.heads()
    answer = here.review("late", **said)
    assert answer.status_code == 409, answer.text
    told = problem(answer)
    assert told["code"] == "too_late"
    assert "decision late expired at 2026-01-01T00:01:00.000Z" in told["message"]
    assert here.heads() == before
    assert here.get(f"{API}/decisions/late", here.ann).json()["executed"] is None


def test_the_review_page_refuses_it(here: Site, eve: Visitor) -> None:
    here.decide("a", 0.9)
    shown = eve.get(f"{AT}/d/a").text
    form = {name: hidden(shown, name) for name in ("version", "content")} | {"code": "fits"}
    here.clock.pass_by(AFTER + 24)  # the longest that was measured
    before = here.heads()
    for verb, more in (("approve", {}), ("edit", {"action.price": "130"})):
        answer = eve.post(f"{AT}/d/a/{verb}", form | more)
        assert answer.status_code == 409
        assert "it can no longer be approved or edited" in text_of(answer)
    assert here.heads() == before


def test_one_answer_to_several_refuses_it(here: Site, eve: Visitor) -> None:
    """By the API all are refused; the page leaves out what is late, and names it."""
    here.decide("old", 0.9)
    here.clock.pass_by(30)
    here.decide("new", 0.9)
    page = eve.post(f"{AT}/queue/bulk", {"row": ["old", "new"], "verdict": "approve"})
    form = selected(page) | {"verdict": "approve", "code": "fits"}
    assert form["row"] == ["old", "new"]
    here.clock.pass_by(31)
    before = here.heads()
    several = [{"id": id} | here.seen(id) for id in ("old", "new")]
    said = {"verdict": "approve", "code": "fits", "decisions": several}
    answer = here.post(f"{API}/reviews", here.ann, said)
    assert (answer.status_code, problem(answer)["code"]) == (409, "too_late")
    assert here.heads() == before
    listed = eve.post(f"{AT}/queue/bulk", {"row": ["old", "new"], "verdict": "approve"})
    assert selected(listed)["row"] == ["new"]
    assert "old : decision old expired at" in text_of(listed)
    answer = eve.post(f"{AT}/queue/bulk/confirm", form)
    words = text_of(answer)
    assert "1 decision was approved" in words
    assert "old : decision old expired at" in words
    assert here.get(f"{API}/decisions/old", here.ann).json()["executed"] is None


def test_a_late_veto_counts_and_lets_nothing_run(here: Site) -> None:
    """Whoever stops something need not hurry: it counts as long as the decision is held."""
    here.decide("a", 0.9)
    here.clock.pass_by(AFTER + 1)
    answer = here.review("a", "veto")
    assert answer.status_code == 200, answer.text
    assert (answer.json()["status"], answer.json()["executed"]) == ("vetoed", None)
    assert replay_chain(here.house.store, ROOMS).ok


def test_the_second_of_two_people_has_a_deadline_of_their_own() -> None:
    """The owner is asked when the manager has answered, and is late a minute after that."""
    with office(held_twice(EXPIRY)) as made:
        made.decide("a", night(0.9), mask=["1.2"])
        made.clock.pass_by(AFTER - 1)
        made.answer("a", "edit", {"price": 250}, by="ann")
        made.clock.pass_by(AFTER)
        size = made.size
        with pytest.raises(Conflict, match="decision a expired at 2026-01-01T00:01:59"):
            made.answer("a", by="bob")
        assert made.size == size
        made.do(answering.expire, "a")
        assert made.document("a")["status"] == "expired"
        made.check()


def test_a_hold_that_waits_is_never_late() -> None:
    with office(held('expiry = { after = 60, then = "wait" }')) as made:
        made.decide("a", night(0.9))
        made.clock.pass_by(1000)
        made.answer("a")
        assert made.document("a")["status"] == "passed"
        made.check()


@pytest.mark.parametrize("is_first", [True, False], ids=["before", "after"])
def test_a_slow_command_beside_it_makes_no_answer_early(is_first: bool) -> None:
    """Ten seconds are left; a command in the same transaction, before it or after it, takes 30.

    Whether it is run before or after the approval, that would be on disk 20 seconds too late.
    """
    with office(held(EXPIRY)) as made:
        made.decide("a", night(0.9))
        made.clock.pass_by(AFTER - 10)
        approval = made.asked("a")

        def slow(turn: Turn) -> None:
            made.clock.pass_by(30)

        commands = [slow, lambda turn: answering.review(turn, approval)]
        size = made.size
        answers = together(made, *(commands if is_first else commands[::-1]))
        assert sum(isinstance(one, Conflict) for one in answers) == 1
        assert (made.size, made.document("a")["status"]) == (size, "held")
        made.check()


@pytest.mark.parametrize(("late", "says"), [(0, ""), (1, "a was let through after its deadline")])
def test_a_replay_names_an_approval_after_the_deadline(late: int, says: str) -> None:
    """The same chain with the answer a microsecond later, all hashes made to fit."""
    with office(held(EXPIRY)) as made:
        made.decide("a", night(0.9))
        made.clock.at += round(AFTER * SECOND) - 1
        made.answer("a")
        entries = made.store.read(made.chain)
        story = [Told(from_body(one.kind, one.body), one.at, one.by) for one in entries]

    def change(entries: list[Told]) -> None:
        first = entries.index(of(entries, ev.Reviewed))
        entries[first:] = [replace(one, at=one.at + late) for one in entries[first:]]

    store = retold(story, change)
    assert verify_chain(store, "rooms").ok
    report = replay_chain(store, "rooms")
    assert report.ok == (not late)
    found = [str(one.recomputed) for kind in report.kinds.values() for one in kind.found]
    assert all(says in one for one in found)
    assert bool(found) == bool(late)
