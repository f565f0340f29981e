"""The queue: what it says is so, its order costs little, and several are answered at once."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gdcb.ledger.sql import SqlStore
from gdcb.service import answering
from gdcb.service.access import ROLES
from gdcb.service.claims import Claim
from gdcb.service.pages.views.queue import QueueFilters
from gdcb.service.web import build, order
from tests.service import desks
from tests.service.desks import night, office
from tests.service.http import ROOMS, Site, Visitor, hidden, site, visitor

AT, API = f"/i/{ROOMS}", f"/v1/instances/{ROOMS}"
EVERYTHING = tuple((role, "*") for role in ROLES)


@pytest.fixture
def here(sqlite_template: Path, tmp_path: Path) -> Iterator[Site]:
    with site(sqlite_template, tmp_path, desks.held("bulk = 4")) as made:
        yield made


@pytest.fixture
def eve(here: Site) -> Visitor:
    return visitor(here, "eve", *EVERYTHING)


@pytest.fixture
def joe(here: Site) -> Visitor:
    return visitor(here, "joe", *EVERYTHING)


def text_of(page: Any) -> str:
    plain = re.sub(r"<(script|style).*?</\1>|<[^>]+>", " ", page.text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(plain))


def shown(page: Any) -> list[str]:
    """Return the ids of the rows of a queue, in their order."""
    assert page.status_code == 200
    return re.findall(r'data-id="([^"]*)"', page.text)


def batch(made: Site, id: str, n: int) -> None:
    """Have a whole batch held at one moment."""
    said = {"id": id, "contexts": [night(0.9)] * n, "units": [f"u{i}" for i in range(n)]}
    answer = made.post(f"{API}/decisions/batch", made.shop, said)
    assert answer.status_code == 201, answer.text


def as_eve(made: Site, eve: Visitor, id: str) -> None:
    """Have a decision asked for by the one who reviews."""
    cookie = {"cookie": f"gdcb={eve.cookies['gdcb']}", "x-csrf-token": eve.token}
    answer = made.post(f"{API}/decisions", cookie, {"id": id, "context": night(0.9)})
    assert answer.status_code == 201, answer.text


# What it costs


def test_only_what_is_shown_is_built(
    here: Site, eve: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue of 120: a page builds its 50 rows, a review its own; risks are worked out once."""
    batch(here, "b", 120)
    rows, risks = [], []
    row, learn = build.waiting_of, order.Risks.learn

    def counted_row(live: Any, policy: Any, record: Any, *rest: Any) -> Any:
        rows.append(record.id)
        return row(live, policy, record, *rest)

    def counted_risks(self: order.Risks, live: Any, holds: Any) -> None:
        risks.append(len(holds))
        learn(self, live, holds)

    monkeypatch.setattr(build, "waiting_of", counted_row)
    monkeypatch.setattr(order.Risks, "learn", counted_risks)

    def built(path: str) -> int:
        rows.clear()
        assert eve.get(f"{AT}/{path}").status_code == 200
        return len(rows)

    assert built("queue") == 50
    assert risks == [order.PORTION, 20]  # never all in one look
    assert built("queue?offset=100") == 20
    assert built("d/b.7") == 1
    assert built("queue.json?since=0") == 0
    assert built("queue?unit=u3") == 1
    assert built("queue?text=B.11") == 11  # b.11, and b.110 to b.119
    seen = {name: hidden(eve.get(f"{AT}/d/b.7").text, name) for name in ("version", "content")}
    rows.clear()
    assert eve.post(f"{AT}/d/b.7/veto", seen | {"code": "fits"}).status_code == 303
    assert rows == []
    assert risks == [order.PORTION, 20]


def test_news_ask_the_store_for_no_answer(
    here: Site, eve: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(3):
        here.decide(f"a{i}", 0.9)
        here.review(f"a{i}", "veto")
    calls: list[Any] = []
    touches = SqlStore.touches

    def counted(self: SqlStore, *given: Any) -> Any:
        calls.append(given)
        return touches(self, *given)

    monkeypatch.setattr(SqlStore, "touches", counted)
    gone = eve.get(f"{AT}/queue.json?since=0").json()["gone"]
    assert gone == [{"id": f"a{i}", "words": "vetoed by Ann"} for i in range(3)]
    assert calls == []


@pytest.mark.parametrize(
    "policy", ['expiry = { then = "wait" }', ""], ids=["endless", "with deadlines"]
)
def test_the_order_is_that_of_the_rows_as_they_are_shown(policy: str) -> None:
    """By deadline, then by risk, then by age: the keys say the same as the whole rows do."""
    with office(desks.held(policy)) as made:
        for k in range(4):
            made.decide(f"one{k}", night(0.9))
            made.decide(f"many{k}", [night(0.9, 60.0 + 20.0 * i) for i in range(6)])
            made.clock.pass_by(1.0 if k else 0.0)  # the first two requests came at one moment
        wanted, risks = order.Look("ann", {}), order.Risks()

        async def listed() -> tuple[Any, ...]:
            line = await order.asked(made.desk, wanted)
            held = await order.in_order(made.desk, risks, line.some)
            return await order.built(made.desk, held, wanted)

        rows = asyncio.run(listed())
        assert len({row.risk for row in rows}) > 1
        by_row = sorted(
            rows, key=lambda row: (row.deadline or 0, -(row.risk or 0.0), row.asked, row.id)
        )
        assert [row.id for row in rows] == [row.id for row in by_row]
        assert {row.deadline is None for row in rows} == {"wait" in policy}


def test_a_risk_is_that_of_the_verdict_in_force() -> None:
    """What a first person let through is held again: its risk is worked out again."""
    with office(desks.held_twice()) as made:
        made.decide("a", night(0.9, 300.0))
        made.decide("b", night(0.9, 300.0))
        risks = order.Risks()

        def holds() -> list[Any]:
            return made.look(lambda live: list(live.waiting.values()))

        made.look(lambda live: risks.learn(live, list(live.waiting.values())))
        assert None not in [risks.of(one) for one in holds()]
        made.answer("a", "edit", {"price": 240.0})
        assert [risks.of(one) is None for one in sorted(holds(), key=lambda one: one.id)] == [
            True,
            False,
        ]
        made.answer("b", "veto")
        made.look(lambda live: risks.learn(live, list(live.waiting.values())))
        assert None not in [risks.of(one) for one in holds()]


# What it says


def test_behind_the_last_page_is_the_last_page(here: Site, eve: Visitor) -> None:
    batch(here, "b", 53)
    everything = shown(eve.get(f"{AT}/queue")) + shown(eve.get(f"{AT}/queue?offset=50"))
    assert sorted(everything) == sorted(f"b.{i}" for i in range(53))
    for offset in (53, 100, 10**25):
        page = eve.get(f"{AT}/queue?offset={offset}")
        assert shown(page) == everything[50:]
        assert "All is decided" not in page.text
        assert "51 to 53 of 53" in text_of(page)
    assert "All is decided" in eve.get(f"/i/cabins/queue?offset={50}").text


def test_claims_are_news(here: Site, eve: Visitor, joe: Visitor) -> None:
    for i in range(3):
        here.decide(f"q{i}", 0.9)
    joe.post(f"{AT}/d/q0/claim")
    eve.post(f"{AT}/d/q1/claim")
    since = eve.get(f"{AT}/queue.json?since=0").json()["version"]

    def told(whose: Visitor) -> tuple[Any, Any]:
        news = whose.get(f"{AT}/queue.json?since={since}").json()
        return news["claims"], news["mine"]

    assert told(eve) == ([{"id": "q0", "words": "Joe has it"}], ["q1"])
    assert told(joe) == ([{"id": "q1", "words": "Eve has it"}], ["q0"])
    joe.post(f"{AT}/d/q0/release")
    assert told(eve) == ([], ["q1"])
    here.clock.pass_by(301)  # the lease is over
    assert told(eve) == ([], [])


def test_news_are_those_of_the_filters(here: Site, eve: Visitor, joe: Visitor) -> None:
    since = eve.get(f"{AT}/queue.json?since=0").json()["version"]
    here.decide("far-away", 0.9, unit="far")
    here.decide("near", 0.9, unit="near")
    joe.post(f"{AT}/d/near/claim")
    for asked, n in (
        ("", 2),
        ("unit=far&", 1),
        ("unit=none&", 0),
        ("rule=manager&", 2),
        ("rule=owner&", 0),
        ("text=AWAY&", 1),
        ("text=waits for a person&", 2),
        ("claimed=others&", 1),
        ("claimed=free&", 1),
        ("claimed=mine&", 0),
    ):
        news = eve.get(f"{AT}/queue.json?{asked}since={since}").json()
        assert (news["new"], news["waiting"]) == (n, 2), asked


def test_what_changed_long_ago_is_still_new() -> None:
    """How many came is counted on what waits, not on the last events."""
    with office(desks.held()) as made:
        since = made.size
        made.decide("held", night(0.9))
        for i in range(30):
            made.decide(f"p{i}", night(0.0))
        wanted = order.Look("ann", {}, QueueFilters(), since)
        assert [one.id for one in asyncio.run(order.asked(made.desk, wanted)).some] == ["held"]
        wanted = order.Look("ann", {}, QueueFilters(), made.size)
        assert asyncio.run(order.asked(made.desk, wanted)).some == []


# The next one


def test_the_next_one_is_the_first_that_one_may_answer(
    here: Site, eve: Visitor, joe: Visitor
) -> None:
    """Neither what others have claimed nor what oneself has asked for; in the queue's order."""
    as_eve(here, eve, "own")
    here.clock.pass_by(1)
    here.decide("taken", 0.9)
    here.clock.pass_by(1)
    batch(here, "b", 6)
    joe.post(f"{AT}/d/taken/claim")
    others = [id for id in shown(eve.get(f"{AT}/queue")) if id not in ("own", "taken")]
    risks = here.house.desk(ROOMS).look(
        lambda live: [build.risk_of(live.instance, live.records[id]) for id in others]
    )
    assert risks.result() == sorted(risks.result(), reverse=True)
    for now, then in zip(others, [*others[1:], ""], strict=True):
        page = eve.get(f"{AT}/d/{now}")
        seen = {name: hidden(page.text, name) for name in ("version", "content")}
        answer = eve.post(f"{AT}/d/{now}/veto", seen | {"code": "fits"})
        to = f"{AT}/d/{then}" if then else f"{AT}/queue"
        assert answer.headers["location"] == to


def test_who_has_what() -> None:
    wanted = order.Look("ann", {"a": Claim("a", "ann", 9), "b": Claim("b", "bob", 9)})
    assert [wanted.claimed(id) for id in "abc"] == ["mine", "others", "free"]


# What waits for nobody


def test_what_passed_offers_no_answer_and_takes_none(here: Site, eve: Visitor) -> None:
    here.decide("passed")
    page = eve.get(f"{AT}/d/passed")
    words = text_of(page)
    for never in ("Why it waits", "Your answer", "Veto it", "until somebody answers"):
        assert never not in words
    for form in ("claim", "approve", "edit", "veto"):
        assert f"/d/passed/{form}" not in page.text
    before = here.heads()
    seen = here.seen("passed")
    for verb, more in (("approve", {}), ("veto", {}), ("edit", {"action.price": "90"})):
        answer = eve.post(f"{AT}/d/passed/{verb}", seen | more | {"code": "fits"})
        assert answer.status_code == 409
        assert "decision passed is not held; it is passed" in text_of(answer)
    answer = eve.post(f"{AT}/d/passed/claim")
    assert answer.status_code == 303
    assert "is not held" in text_of(eve.get(f"{AT}/d/passed"))
    assert here.heads() == before


def test_a_form_with_a_field_twice_is_refused(here: Site, eve: Visitor) -> None:
    """Of two prices the last one ran."""
    here.decide("a", 0.9)
    before, form = here.heads(), {"code": "fits", **here.seen("a")}
    for twice in ({"action.price": ["100", "200"]}, {"code": ["fits", "fits"]}):
        answer = eve.post(f"{AT}/d/a/edit", {"action.price": "90"} | form | twice)
        assert answer.status_code == 400
        assert f"expected every field once, got '{next(iter(twice))}'" in text_of(answer)
    rows = {"row": ["a", "a"], "verdict": ["approve", "veto"]}
    assert eve.post(f"{AT}/queue/bulk", rows).status_code == 400
    assert here.heads() == before
    assert eve.post(f"{AT}/d/a/edit", {"action.price": "90"} | form).status_code == 303


# Several at once


def selected(page: Any) -> dict[str, list[str]]:
    """Return what the form of the confirming page has."""
    fields = ("row", "version", "content")
    return {name: re.findall(rf'name="{name}" value="([^"]*)"', page.text) for name in fields}


def test_what_one_may_not_answer_is_left_out_and_named(
    here: Site, eve: Visitor, joe: Visitor
) -> None:
    as_eve(here, eve, "own")
    for id in ("a", "b", "taken"):
        here.decide(id, 0.9)
    joe.post(f"{AT}/d/taken/claim")
    rows = ["own", "a", "taken", "b"]
    page = eve.post(f"{AT}/queue/bulk", {"row": rows, "verdict": "approve"})
    words = text_of(page)
    assert page.status_code == 200
    assert selected(page)["row"] == ["a", "b"]
    assert "Approve 2 decisions?" in words
    assert "own : you asked for it; somebody else answers" in words
    assert "taken : Joe has claimed it" in words
    form = selected(page) | {"verdict": "approve", "code": "fits"}
    assert eve.post(f"{AT}/queue/bulk/confirm", form).status_code == 303
    assert here.house.desk(ROOMS).look(lambda live: list(live.waiting)).result() == ["own", "taken"]
    veto = eve.post(f"{AT}/queue/bulk", {"row": ["own"], "verdict": "veto"})
    assert selected(veto)["row"] == ["own"]  # one may always withdraw


def test_what_changes_before_the_answer_is_left_out_and_named(
    here: Site, eve: Visitor, joe: Visitor
) -> None:
    for id in ("a", "b", "c", "d"):
        here.decide(id, 0.9)
    page = eve.post(f"{AT}/queue/bulk", {"row": ["a", "b", "c", "d"], "verdict": "approve"})
    assert "What changes until you confirm is left out, and you are told." in text_of(page)
    rows = selected(page)
    rows["content"][3] = "0" * 32
    form = rows | {"verdict": "approve", "code": "fits"}
    here.review("a", "veto")
    joe.post(f"{AT}/d/b/claim")
    n = here.size()
    answer = eve.post(f"{AT}/queue/bulk/confirm", form)
    words = text_of(answer)
    assert answer.status_code == 200
    assert "1 decision was approved" in words
    assert "a : decision a was vetoed by Ann at" in words
    assert "b : Joe has claimed it" in words
    assert "d : decision d is no longer what you saw" in words
    assert here.kinds(n) == ["Reviewed", "GateApplied", "ActionExecuted"]
    assert here.get(f"{API}/decisions/c", here.ann).json()["decided"]["by"] == "Eve"
    before = here.heads()
    again = eve.post(f"{AT}/queue/bulk/confirm", form)
    assert again.status_code == 409
    assert "0 decisions were approved" in text_of(again)
    assert "c : decision c was approved by Eve at" in text_of(again)
    assert here.heads() == before


def test_a_pause_and_a_wrong_reason_stop_them_all(here: Site, eve: Visitor) -> None:
    for id in ("a", "b"):
        here.decide(id, 0.9)
    form = selected(eve.post(f"{AT}/queue/bulk", {"row": ["a", "b"], "verdict": "approve"}))
    before = here.heads()
    for wrong in (
        {"verdict": "approve", "code": "because"},
        {"verdict": "edit", "code": "fits"},
        {"verdict": "", "code": "fits"},
        {"row": ["a", "a"], "verdict": "approve", "code": "fits"},
    ):
        assert eve.post(f"{AT}/queue/bulk/confirm", form | wrong).status_code in (409, 422)
    assert here.heads() == before
    here.post(f"{API}/pause", here.ann, {"reason": "wait"})
    before = here.heads()
    answer = eve.post(f"{AT}/queue/bulk/confirm", form | {"verdict": "approve", "code": "fits"})
    assert answer.status_code == 409
    assert "paused" in text_of(answer)
    assert here.heads() == before


def test_it_is_written_down_once_who_saw_each(here: Site, eve: Visitor, joe: Visitor) -> None:
    """As on the review screen: the evidence says what a person saw before they answered."""
    for id in ("a", "b", "c"):
        here.decide(id, 0.9)
    eve.get(f"{AT}/d/a")
    n = here.size()
    for _ in range(2):
        page = eve.post(f"{AT}/queue/bulk", {"row": ["a", "b"], "verdict": "approve"})
    assert here.kinds(n) == ["Shown"]  # of b; a was opened before
    eve.get(f"{AT}/d/b")
    joe.post(f"{AT}/queue/bulk", {"row": ["a", "b"], "verdict": "veto"})
    assert here.kinds(n) == ["Shown"] * 3
    eve.post(f"{AT}/queue/bulk", {"row": ["a", "b"], "verdict": "neither"})
    assert here.size() == n + 3
    content = dict(zip(selected(page)["row"], selected(page)["content"], strict=True))
    evidence = here.get(f"{API}/decisions/b/evidence", here.ann).json()
    assert content["b"] in str(evidence)
    record = here.house.desk(ROOMS).look(
        lambda live: answering.content_of(live, answering.find(live, "b"))
    )
    assert record.result() == content["b"]


# Sessions


@pytest.mark.parametrize("asked", ["queue.json?since=0", "queue?reload=60"])
def test_a_page_that_renews_itself_keeps_nobody_signed_in(
    here: Site, eve: Visitor, asked: str
) -> None:
    for _ in range(2):
        here.clock.pass_by(1200)
        assert eve.get(f"{AT}/queue").status_code == 200
    for _ in range(59):
        here.clock.pass_by(60)
        assert eve.get(f"{AT}/{asked}").status_code == 200
    here.clock.pass_by(60)
    assert eve.get(f"{AT}/{asked}", accept="application/json").status_code == 401
