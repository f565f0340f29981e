"""Answers over HTTP: reviews, claims, what ran, what came of it, appeals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gdcb.service.answering import written
from gdcb.service.models import DecisionNow, ManyNews, News
from tests.service import desks
from tests.service.desks import night
from tests.service.http import ROOMS, Site, problem, site

AT = f"/v1/instances/{ROOMS}"
POLICY = 'outcomes.window = 900\noutcomes.correction = "replace"\nbulk = 3'


@pytest.fixture(scope="module")
def here(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(sqlite_template, tmp_path_factory.mktemp("answers"), desks.held(POLICY)) as made:
        yield made


@pytest.fixture(scope="module")
def reported(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Lend a site where nothing has run before somebody says so, and nothing is corrected."""
    text = desks.held('execution = "report"')
    with site(sqlite_template, tmp_path_factory.mktemp("reported"), text) as made:
        yield made


# Reviews


@pytest.mark.parametrize(
    ("verdict", "action", "status", "price", "what"),
    [
        ("approve", None, "passed", None, "approved"),
        ("edit", {"price": 95}, "modified", 95.0, "edited"),
        ("edit", {"price": 5000.5}, "modified", 300.0, "edited"),
        ("veto", None, "vetoed", None, "vetoed"),
    ],
)
def test_a_review_settles_a_decision(
    here: Site, verdict: str, action: dict[str, float] | None, status: str, price: Any, what: str
) -> None:
    id = f"r-{verdict}-{int(price or 0)}"
    made = here.decide(id, 0.9)
    answer = here.review(id, verdict, here.ann, action=action, reason="so it is", code="other")
    assert answer.status_code == 200
    now = DecisionNow.model_validate(answer.json())
    assert now.status == status
    expected = {"price": price} if price else made["proposed"]
    assert now.action == now.executed == (None if verdict == "veto" else expected)
    assert now.decided is not None
    assert now.decided["entry"] == now.version - 1
    told = {name: now.decided[name] for name in ("what", "by", "code", "reason", "at")}
    assert told == {
        "what": what,
        "by": "Ann",
        "code": "other",
        "reason": "so it is",
        "at": written(here.clock.at),
    }
    assert here.get(f"{AT}/decisions/{id}", here.shop).json() == answer.json()


def test_the_second_answer_is_told_the_first(here: Site) -> None:
    here.decide("twice", 0.9)
    here.clock.pass_by(61)
    said = {"verdict": "approve", "code": "fits", "reason": "go", **here.seen("twice")}
    first, second = (
        here.post(f"{AT}/decisions/twice/review", who, said) for who in (here.ann, here.bob)
    )
    assert (first.status_code, second.status_code) == (200, 409)
    told = problem(second)
    assert told["code"] == "decided"
    decided = first.json()["decided"]
    assert told["details"] == decided
    assert told["message"] == f"decision twice was approved by Ann at {decided['at']}"


def test_a_review_is_bound_to_what_was_seen(here: Site) -> None:
    here.decide("bound", 0.9)
    seen, before = here.seen("bound"), here.heads()
    for change in ({"version": seen["version"] + 1}, {"content": "0" * 32}, {"content": ""}):
        said = {"verdict": "approve", "code": "fits"} | seen | change
        answer = here.post(f"{AT}/decisions/bound/review", here.ann, said)
        assert (answer.status_code, problem(answer)["code"]) == (409, "stale")
        assert "look again" in problem(answer)["message"]
    assert here.heads() == before


@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        ({"verdict": "expire"}, 422, "verdict: Input should be 'approve', 'edit' or 'veto'"),
        ({"verdict": "edit"}, 422, "action: give one with 'edit', and only there"),
        ({"action": {"price": 1}}, 422, "action: give one with 'edit', and only there"),
        ({"verdict": "edit", "action": {"cost": 1}}, 422, "action: expected price; got cost"),
        (
            {"verdict": "edit", "action": {"price": "1"}},
            422,
            "price: expected a finite number, got '1'",
        ),
        ({"verdict": "edit", "action": {"price": True}}, 422, "a number or a text"),
        ({"verdict": "edit", "action": {}}, 422, "action"),
        ({"code": "because"}, 422, "code: expected one of fits, too-high, too-low"),
        ({"reason": "x" * 2001}, 422, "reason: String should have at most 2000 characters"),
        ({"version": "1"}, 422, "version: Input should be a valid integer"),
        ({"version": 1.5}, 422, "version: Input should be a valid integer"),
        ({"version": True}, 422, "version: Input should be a valid integer"),
    ],
)
def test_a_review_that_is_none(here: Site, change: dict[str, Any], status: int, says: str) -> None:
    if here.get(f"{AT}/decisions/none-of-it", here.shop).status_code == 404:
        here.decide("none-of-it", 0.9)
    before = here.heads()
    said = {"verdict": "approve", "code": "fits", **here.seen("none-of-it")} | change
    answer = here.post(f"{AT}/decisions/none-of-it/review", here.ann, said)
    assert answer.status_code == status
    assert says in problem(answer)["message"]
    assert here.heads() == before


def test_what_is_not_held_has_no_review(here: Site) -> None:
    here.decide("free")
    answer = here.review("free")
    assert (answer.status_code, problem(answer)["code"]) == (409, "conflict")
    assert problem(answer)["message"] == "decision free is not held; it is passed"


def test_several_are_answered_together_or_not_at_all(here: Site) -> None:
    ids = [f"many-{i}" for i in range(4)]
    for id in ids:
        here.decide(id, 0.9)
    here.decide("free-too")

    def answer(*some: str, **change: Any) -> Any:
        rows = [{"id": id, **here.seen(id)} | change for id in some]
        said = {"verdict": "approve", "code": "fits", "decisions": rows}
        return here.post(f"{AT}/reviews", here.ann, said)

    before = here.heads()
    for refused, status, says in (
        (answer(*ids), 422, "decisions: at most 3 are answered together, got 4"),
        (answer(), 422, "decisions: List should have at least 1 item"),
        (answer(ids[0], ids[0]), 422, "decisions: one is named twice"),
        (answer(ids[0], "free-too"), 409, "decision free-too is not held; it is passed"),
        (answer(ids[0], ids[1], version=1), 409, "is no longer what you saw"),
    ):
        assert refused.status_code == status
        assert says in problem(refused)["message"]
    assert here.heads() == before
    done = answer(*ids[:3])
    assert done.status_code == 200
    assert [(one["id"], one["status"]) for one in done.json()] == [(id, "passed") for id in ids[:3]]
    assert [DecisionNow.model_validate(one).decided for one in done.json()].count(None) == 0


def test_a_claim_keeps_others_away_until_its_lease_ends(here: Site) -> None:
    here.decide("mine", 0.9)
    claim, release = f"{AT}/decisions/mine/claim", f"{AT}/decisions/mine/release"
    until = here.post(claim, here.ann).json()
    assert until["id"] == "mine"
    before = here.heads()
    other = here.post(claim, here.bob)
    assert (other.status_code, problem(other)["message"]) == (409, "Ann has claimed decision mine")
    answer = here.review("mine", "approve", here.bob)
    assert (answer.status_code, problem(answer)["message"]) == (
        409,
        "Ann has claimed decision mine",
    )
    assert here.heads() == before
    assert here.post(release, here.bob).json() == {"news": False}
    assert here.post(release, here.ann).json() == {"news": True}
    assert here.post(release, here.ann).json() == {"news": False}
    assert here.post(claim, here.ann).status_code == 200
    here.clock.pass_by(301)
    assert here.post(claim, here.bob).status_code == 200
    assert here.review("mine", "approve", here.bob).status_code == 200
    gone = here.post(claim, here.ann)
    assert (gone.status_code, problem(gone)["code"]) == (409, "decided")


# What ran


def test_what_ran_is_reported_once(reported: Site) -> None:
    made = reported.decide("e1")
    assert not made["has_run"]
    at = f"{AT}/decisions/e1"
    early = reported.post(f"{at}/outcome", reported.shop, {"outcome": {"booked": 1}})
    assert early.status_code == 409
    assert problem(early)["message"] == "outcome: decision e1 is passed and has not run"
    for _ in range(2):
        answer = reported.post(f"{at}/executed", reported.shop, {"action": {"price": 77}})
        assert answer.status_code == 200
        News.model_validate(answer.json(), strict=True)
    assert answer.json() == {"news": False}
    now = reported.get(at, reported.shop).json()
    assert (now["executed"], now["has_run"]) == ({"price": 77.0}, True)
    before = reported.heads()
    other = reported.post(f"{at}/executed", reported.shop, {"action": {"price": 78}})
    assert other.status_code == 409
    assert problem(other)["message"] == "executed: decision e1 ran already as {'price': 77.0}"
    assert reported.heads() == before


def test_nothing_ran_is_a_report_too(reported: Site) -> None:
    reported.decide("e2")
    at = f"{AT}/decisions/e2/executed"
    assert reported.post(at, reported.shop, {"action": None}).json() == {"news": True}
    assert reported.post(at, reported.shop, {"action": None}).json() == {"news": False}
    other = reported.post(at, reported.shop, {"action": {"price": 80}})
    assert problem(other)["message"] == "executed: decision e2 did not run, as was reported"


def test_nothing_runs_before_it_is_let_through(reported: Site) -> None:
    reported.decide("e3", 0.9)
    at = f"{AT}/decisions/e3"
    answer = reported.post(f"{at}/executed", reported.shop, {"action": {"price": 80}})
    assert answer.status_code == 409
    assert "nothing may run before it is let through" in problem(answer)["message"]
    early = reported.post(f"{at}/outcome", reported.shop, {"outcome": {"booked": 1}})
    assert problem(early)["message"] == "outcome: decision e3 is held and has not run"
    reported.review("e3", "veto")
    ran = reported.post(f"{at}/executed", reported.shop, {"action": {"price": 80}})
    assert problem(ran)["message"] == "executed: decision e3 was vetoed; it may not run"


# What came of it


def test_an_outcome_is_taken_once_and_corrected_with_a_reason(here: Site) -> None:
    here.decide("o1")
    at = f"{AT}/decisions/o1/outcome"
    said = {"outcome": {"booked": 1}}
    for outcome, news in ((said, True), (said, False), ({"outcome": {"booked": True}}, False)):
        answer = here.post(at, here.shop, outcome)
        assert (answer.status_code, answer.json()) == (200, {"news": news})
    silent = here.post(at, here.shop, {"outcome": {"booked": 0}})
    assert (silent.status_code, problem(silent)["message"]) == (
        422,
        "reason: say why the outcome was wrong",
    )
    corrected = {"outcome": {"booked": 0}, "reason": "cancelled"}
    assert here.post(at, here.shop, corrected).json() == {"news": True}
    assert here.get(f"{AT}/decisions/o1", here.shop).json()["outcome"] == {"booked": 0.0}
    heavier = here.post(at, here.shop, corrected | {"weight": 2})
    assert problem(heavier)["message"] == (
        "weight: the outcome of decision o1 counts 1 already, got 2"
    )


def test_an_outcome_is_not_corrected_where_the_policy_refuses(reported: Site) -> None:
    reported.decide("e4")
    at = f"{AT}/decisions/e4"
    reported.post(f"{at}/executed", reported.shop, {"action": {"price": 80}})
    reported.post(f"{at}/outcome", reported.shop, {"outcome": {"booked": 1}})
    said = {"outcome": {"booked": 0}, "reason": "cancelled"}
    answer = reported.post(f"{at}/outcome", reported.shop, said)
    assert answer.status_code == 409
    assert problem(answer)["message"] == (
        "outcome: decision e4 has [1.0] already, got [0.0]; this instance takes no corrections"
    )


def test_a_veto_has_an_outcome_from_which_nothing_is_learned(here: Site) -> None:
    """The null action ran; what came of it is written down, and no arm is credited."""
    here.decide("v1", 0.9, unit="vetoed")
    here.review("v1", "veto")
    desk = here.house.desk(ROOMS)

    def counts() -> Any:
        return desk.look(
            lambda live: live.state.bandit.counts[live.units["vetoed"]].tolist()
        ).result()

    before = counts()
    answer = here.post(f"{AT}/decisions/v1/outcome", here.shop, {"outcome": {"booked": 1}})
    assert (answer.status_code, answer.json()) == (200, {"news": True})
    assert counts() == before
    assert here.get(f"{AT}/decisions/v1", here.shop).json()["outcome"] == {"booked": 1.0}


def test_an_outcome_that_comes_too_late(here: Site) -> None:
    here.decide("late")
    here.clock.pass_by(901)
    before = here.heads()
    answer = here.post(f"{AT}/decisions/late/outcome", here.shop, {"outcome": {"booked": 1}})
    assert (answer.status_code, problem(answer)["code"]) == (409, "too_late")
    assert problem(answer)["message"] == (
        "outcome: decision late ran more than 900 seconds ago, which is the window of this instance"
    )
    assert here.heads() == before


def test_outcomes_are_taken_together_or_not_at_all(here: Site) -> None:
    made = here.post(
        f"{AT}/decisions/batch", here.shop, {"id": "ob", "contexts": [night()] * 3}
    ).json()
    ids = [one["id"] for one in made["decisions"]]

    def tell(*some: str) -> Any:
        rows = [{"id": id, "outcome": {"booked": 1}} for id in some]
        return here.post(f"{AT}/outcomes", here.shop, {"outcomes": rows})

    before = here.heads()
    for refused, status, says in (
        (tell(ids[0], "nobody"), 404, "no decision 'nobody' was made here"),
        (tell(ids[0], ids[0]), 422, f"outcomes: decision {ids[0]} is named twice"),
        (tell(), 422, "outcomes: List should have at least 1 item after validation, not 0"),
    ):
        assert (refused.status_code, problem(refused)["message"]) == (status, says)
    assert here.heads() == before
    first = tell(ids[0])
    both = tell(*ids)
    assert first.json() == {"news": [True]}
    assert ManyNews.model_validate(both.json(), strict=True).news == [False, True, True]


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"outcome": {"sold": 1}}, "outcome: expected booked; got {'sold': 1.0}"),
        ({"outcome": {}}, "outcome: expected booked; got {}"),
        ({"outcome": {"booked": 2}}, "booked"),
        ({"outcome": {"booked": "1"}}, "outcome.booked: expected true or false or a number"),
        ({"outcome": {"booked": None}}, "outcome.booked: expected true or false or a number"),
        ({"outcome": {"booked": 1}, "weight": -1}, "weight: Input should be greater than or"),
        ({"outcome": {"booked": 1}, "weight": True}, "weight: Input should be a valid number"),
        ({"outcome": {"booked": 1}, "weight": "1"}, "weight: Input should be a valid number"),
        ({"outcome": {"booked": 1}, "label": [1.0]}, "label: expected 0 numbers in a list"),
        ({"outcome": {"booked": 1}, "label": [True]}, "label.0: Input should be a valid number"),
        ({"outcome": {"booked": 1}, "note": "x"}, "note: there is no such field"),
        ({}, "outcome: expected a value, got none"),
    ],
)
def test_an_outcome_that_cannot_be(here: Site, said: dict[str, Any], says: str) -> None:
    if here.get(f"{AT}/decisions/odd", here.shop).status_code == 404:
        here.decide("odd")
    before = here.heads()
    answer = here.post(f"{AT}/decisions/odd/outcome", here.shop, said)
    assert answer.status_code == 422
    assert says in problem(answer)["message"]
    assert here.heads() == before


# Appeals


def test_an_appeal_ends_once(here: Site) -> None:
    here.decide("a1")
    at = f"{AT}/decisions/a1/appeal"
    said = {"upheld": True, "reason": "the guest was right"}
    assert here.post(at, here.ann, said).json() == {"news": True}
    assert here.post(at, here.ann, said).json() == {"news": False}
    before = here.heads()
    other = here.post(at, here.ann, said | {"upheld": False})
    assert other.status_code == 409
    assert "has one already, upheld: the guest was right" in problem(other)["message"]
    silent = here.post(at, here.ann, said | {"reason": " "})
    assert (silent.status_code, problem(silent)["message"]) == (
        422,
        "reason: say why the appeal ended so",
    )
    here.decide("a2", 0.9)
    held = here.post(f"{AT}/decisions/a2/appeal", here.ann, said)
    assert problem(held)["message"] == "appeal: decision a2 is held and has not run"
    assert here.kinds(here.size() - 3) == ["DecisionMade", "GateApplied", "ReviewRequested"]
    assert before != here.heads()
