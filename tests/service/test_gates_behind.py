"""An answer is bound to what the gates behind it will do: 'approved X' never runs Y.

A reviewer looks; then somebody puts other settings of the gates behind in force; then the answer
comes, with the hash of what the reviewer saw. It is refused where it would run another action.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gdcb.errors import Conflict
from gdcb.service import answering, erasing
from gdcb.service.access import ROLES
from tests.service.desks import held, held_twice, night, office
from tests.service.http import ROOMS, Site, Visitor, hidden, problem, site, visitor
from tests.service.test_web_queue import selected, text_of

AT, API = f"/i/{ROOMS}", f"/v1/instances/{ROOMS}"
STALE = "the gates behind you have changed since you looked"


def bounds(high: float) -> str:
    """Declare the manager, and limits of 50 to `high` behind them."""
    return held(bounds=f'{{ part = "bounds", name = "limits", low = 50, high = {high:g} }}')


@pytest.fixture
def here(sqlite_template: Path, tmp_path: Path) -> Iterator[Site]:
    with site(sqlite_template, tmp_path, bounds(300)) as made:
        yield made


@pytest.fixture
def eve(here: Site) -> Visitor:
    """Somebody who may everything, at a browser."""
    return visitor(here, "eve", *((role, "*") for role in ROLES))


def change(made: Site, text: str) -> None:
    """Put another declaration in force: Ann proposes it, Bob agrees."""
    said = {"declaration": text, "reason": "other limits"}
    number = made.post(f"{API}/changes", made.ann, said).json()["number"]
    answer = made.post(f"{API}/changes/{number}/agree", made.bob, {"reason": "yes"})
    assert answer.status_code == 200, answer.text


def ask(made: Site, id: str) -> None:
    """Have 120 proposed on a busy night; it waits for the manager."""
    assert made.decide(id, 0.9, mask=["1.2"])["proposed"] == {"price": 120.0}


def read(made: Site, id: str) -> dict[str, Any]:
    found: dict[str, Any] = made.get(f"{API}/decisions/{id}", made.ann).json()
    return found


def test_an_approval_runs_what_the_reviewer_saw_or_nothing(here: Site) -> None:
    """120 was seen, and the limit is 110 by now: refused; seen anew, 110 is approved and runs."""
    ask(here, "a")
    seen = here.seen("a")
    change(here, bounds(110))
    before = here.heads()
    said = {"verdict": "approve", "code": "fits"} | seen
    answer = here.post(f"{API}/decisions/a/review", here.ann, said)
    assert answer.status_code == 409, answer.text
    assert problem(answer)["code"] == "stale"
    assert STALE in problem(answer)["message"]
    assert "would run price 110.0 now" in problem(answer)["message"]
    assert here.heads() == before
    now = read(here, "a")
    assert now["offered"] == {"price": 120.0}
    then = {"status": "modified", "action": {"price": 110.0}, "gates": ["limits"]}
    assert now["if_approved"] == then
    queue = here.get(f"{API}/queue", here.ann).json()["waiting"]
    assert [one["if_approved"] for one in queue] == [then]
    assert here.review("a").status_code == 200
    assert read(here, "a")["executed"] == {"price": 110.0}


def test_the_page_shows_the_case_anew(here: Site, eve: Visitor) -> None:
    ask(here, "a")
    shown = eve.get(f"{AT}/d/a")
    assert "Behind you" not in text_of(shown)
    form = {name: hidden(shown.text, name) for name in ("version", "content")} | {"code": "fits"}
    change(here, bounds(110))
    n = here.size()
    again = eve.post(f"{AT}/d/a/approve", form)
    assert again.status_code == 409
    assert STALE in text_of(again)
    assert "Behind you limits makes 110 of it, and that runs." in text_of(again)
    assert here.size() == n
    eve.get(f"{AT}/d/a")
    eve.get(f"{AT}/d/a")
    assert here.kinds(n) == ["Shown"]  # what is seen now is something else, written down once
    form["content"] = hidden(again.text, "content")
    assert eve.post(f"{AT}/d/a/approve", form).status_code == 303
    assert read(here, "a")["executed"] == {"price": 110.0}


def test_an_edit_is_bound_to_the_gates_as_they_were(here: Site) -> None:
    """An approval would run 120 as before, but an edit to 250 would run 200."""
    ask(here, "a")
    seen = here.seen("a")
    change(here, bounds(200))
    before = here.heads()
    said = {"verdict": "edit", "action": {"price": 250}, "code": "too-low"} | seen
    answer = here.post(f"{API}/decisions/a/review", here.ann, said)
    assert (answer.status_code, problem(answer)["code"]) == (409, "stale")
    assert STALE in problem(answer)["message"]
    assert here.heads() == before


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (bounds(310), "approve"),  # other limits, the same action
        (bounds(110), "veto"),  # nothing runs under either
        (bounds(300).replace("[service]", "[service]\nbulk = 7"), "edit"),  # the gates are the same
    ],
    ids=["approve", "veto", "edit"],
)
def test_a_change_that_makes_no_difference_is_no_obstacle(
    here: Site, text: str, verdict: str
) -> None:
    ask(here, "a")
    seen = here.seen("a")
    change(here, text)
    said = {"verdict": verdict, "code": "fits"} | seen
    said |= {"action": {"price": 130}} if verdict == "edit" else {}
    answer = here.post(f"{API}/decisions/a/review", here.ann, said)
    assert answer.status_code == 200, answer.text
    ran = {"approve": {"price": 120.0}, "veto": None, "edit": {"price": 130.0}}[verdict]
    assert answer.json()["executed"] == ran


def test_one_answer_to_several_is_bound_too(here: Site, eve: Visitor) -> None:
    """By the API none is taken; the page takes those that run as seen, and names the others."""
    ask(here, "a")
    here.decide("b", 0.9, mask=["0.8"])
    page = eve.post(f"{AT}/queue/bulk", {"row": ["a", "b"], "verdict": "approve"})
    form = selected(page) | {"verdict": "approve", "code": "fits"}
    several = [{"id": id} | here.seen(id) for id in ("a", "b")]
    change(here, bounds(110))
    before = here.heads()
    said = {"verdict": "approve", "code": "fits", "decisions": several}
    answer = here.post(f"{API}/reviews", here.ann, said)
    assert (answer.status_code, problem(answer)["code"]) == (409, "stale")
    assert here.heads() == before
    listed = eve.post(f"{AT}/queue/bulk", {"row": ["a"], "verdict": "approve"})
    assert "Behind you limits makes 110 of it" in text_of(listed)
    words = text_of(eve.post(f"{AT}/queue/bulk/confirm", form))
    assert "1 decision was approved" in words
    assert f"a : decision a: {STALE}" in words
    assert read(here, "a")["status"] == "held"
    assert read(here, "b")["executed"] == {"price": 80.0}


@pytest.mark.parametrize(
    ("base", "high", "then", "now"),
    [(100, 110, "would run", "would send price 120.0 on to 'owner'"), (200, 900, "", "would run")],
    ids=["another is asked now", "nobody else is asked any more"],
)
def test_who_is_asked_next_is_part_of_it(base: float, high: float, then: str, now: str) -> None:
    """Who approves because the owner looks at it next has not approved that it runs at once."""
    text = held_twice()
    with office(text) as made:
        made.decide("a", night(0.9, base), mask=["1.2"])
        old = made.asked("a")
        made.change(text.replace("high = 200", f"high = {high}"))
        size = made.size
        with pytest.raises(Conflict, match=STALE) as caught:
            made.do(answering.review, old)
        assert now in str(caught.value)
        assert made.size == size
        made.answer("a")
        assert made.document("a")["status"] == ("held" if then else "passed")
        made.check()


def test_the_second_of_two_people_is_bound_to_what_is_behind_them() -> None:
    text = held_twice()
    with office(text) as made:
        made.decide("a", night(0.9))
        made.answer("a", "edit", {"price": 250}, by="ann")
        old = made.asked("a", by="bob")
        made.change(text.replace("high = 300", "high = 220"))
        with pytest.raises(Conflict, match=STALE):
            made.do(answering.review, old)
        made.answer("a", by="bob")
        assert made.document("a")["executed"] == {"price": 220.0}
        made.check()


def test_of_personal_fields_the_hash_has_the_gates_and_not_what_they_make_of_them() -> None:
    """The hash is written down, so what would run must not let anybody guess at what was erased."""
    high = '{ part = "bounds", name = "limits", low = 50, high = 300, high_column = "base" }'
    with office(held('personal = ["base"]', high)) as made:
        made.decide("a", night(0.9), mask=["1.2"], subject="guest")
        made.decide("b", night(0.9), mask=["1.2"], subject="other")
        one, other = (made.asked(id).content.split("-") for id in ("a", "b"))
        assert one[0] != other[0]
        assert one[1:] == other[1:] == [one[1], one[1]]
        made.answer("a")
        made.check()
        assert made.look(lambda live: set(live._approved)) == {"a", "b"}
        erasing.run(made.desk, "other", "asked for it", "ann")
        assert made.look(lambda live: live._approved) == {}  # what would run told of their fields
