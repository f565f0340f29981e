"""The review screen: what it shows is what an answer lets through, and what was the case."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb import events as ev
from gdcb.ledger import story
from gdcb.ledger.entry import Entry
from gdcb.ledger.memory import MemoryStore
from gdcb.ledger.sql import SqlStore
from gdcb.service import answering, observing, showing
from gdcb.service.access import ROLES
from gdcb.service.holding import asked_of, offered
from gdcb.service.pages import wording
from gdcb.service.pages.views.decision import Quantity
from gdcb.service.web import build
from tests.service import desks
from tests.service.desks import night, office
from tests.service.http import ROOMS, Site, Visitor, hidden, served, visitor

AT = f"/i/{ROOMS}"
EVERYTHING = tuple((role, "*") for role in ROLES)
BIG = {"context": night(0.9, 900.0), "mask": ["1.2"]}  # 1,080 before any gate
# The limits before the first person, two people, and the limits once more.
CUT_FIRST = desks.held_twice().replace(
    "gates = [", 'gates = [{ part = "bounds", name = "first", low = 50, high = 280 }, '
)


@contextmanager
def opened(tmp_path: Path, declared: str) -> Iterator[tuple[Site, Visitor, Visitor]]:
    """Serve one instance; two people who may everything look at it."""
    with served(SqlStore(tmp_path / "a.db"), declared) as made:
        yield made, visitor(made, "eve", *EVERYTHING), visitor(made, "joe", *EVERYTHING)


def ask(made: Site, id: str, **said: Any) -> Any:
    """Ask for a decision as the shop."""
    answer = made.post(f"/v1/instances/{ROOMS}/decisions", made.shop, {"id": id, **said})
    assert answer.status_code == 201, answer.text
    return answer.json()


def read(made: Site, id: str) -> Any:
    """Return a decision as the API shows it."""
    return made.get(f"/v1/instances/{ROOMS}/decisions/{id}", made.ann).json()


def plain(page: Any) -> str:
    """Return the words of a page."""
    words = re.sub(r"<(script|style).*?</\1>|<[^>]+>", " ", page.text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(words))


def button(page: Any) -> str:
    """Return what the button says that approves."""
    (found,) = re.findall(r">(Approve [^<]*)<", page.text)
    return str(found)


def field(page: Any, name: str = "price") -> str:
    """Return what stands in a field of the edit form."""
    (found,) = re.findall(rf'name="action.{name}" value="([^"]*)"', page.text)
    return str(found)


def bound(page: Any) -> dict[str, str]:
    """Return what an answer is bound to."""
    return {name: hidden(page.text, name) for name in ("version", "content")}


# What an approval lets through


def test_each_person_is_asked_about_what_reaches_them(tmp_path: Path) -> None:
    """1,080 is cut to 280; the manager makes 240 of it, and that is what the owner approves."""
    with opened(tmp_path, CUT_FIRST) as (made, eve, joe):
        assert ask(made, "big", **BIG)["proposed"] == {"price": 1080.0}
        first = eve.get(f"{AT}/d/big")
        assert (button(first), field(first)) == ("Approve 280", "280")
        assert "The learner proposed 1,080 ; gates or people before this one" in plain(first)
        queue = plain(eve.get(f"{AT}/queue"))
        assert "280 nothing runs meanwhile" in queue
        assert "1,080" not in queue
        said = bound(first) | {"code": "fits", "action.price": "240"}
        assert eve.post(f"{AT}/d/big/edit", said).status_code == 303
        second = joe.get(f"{AT}/d/big")
        assert (button(second), field(second)) == ("Approve 240", "240")
        assert "240 is above" not in plain(second)  # the rule stands there once
        assert "owner : it is above 200" in plain(second)
        answer = joe.post(f"{AT}/d/big/approve", bound(second) | {"code": "fits"})
        assert answer.status_code == 303
        assert read(made, "big")["executed"] == {"price": 240.0}
        after = plain(joe.get(f"{AT}/d/big"))
        assert "240 Decision big" in after  # what the last one was asked about stays
        assert "Nothing runs" not in after  # it is over, and it ran


def test_what_an_approval_lets_through_is_what_it_is_bound_to() -> None:
    """Two holds alike in all but the number that reached the gate have two hashes."""
    with office(CUT_FIRST) as made:
        made.decide("big", night(0.9, 900.0))

        def hashes(live: Any) -> list[str]:
            record = answering.find(live, "big")
            assert offered(record).tolist() == [280.0]
            found = [answering.content_of(live, record)]
            assert record.judged is not None
            judged, row = record.judged
            trail = judged.trail.copy()
            trail[row, 1] = 100.0
            columns = (judged.status, judged.action, trail, judged.statuses, judged.faults)
            record.judged = (ev.GateApplied(judged.id, *columns, judged.reason), row)
            found.append(answering.content_of(live, record))
            record.judged = (judged, row)
            return found

        first, other = made.look(hashes)
        assert first != other
        made.answer("big", "edit", {"price": 240.0})
        made.answer("big", by="bob")
        assert made.document("big")["action"] == {"price": 240.0}
        made.restart()  # what was answered stands, whatever the hash is made of
        made.check()


def test_pages_and_api_bind_an_answer_to_the_same(tmp_path: Path) -> None:
    with opened(tmp_path, CUT_FIRST) as (made, eve, joe):
        ask(made, "one", **BIG)
        seen = bound(eve.get(f"{AT}/d/one"))
        assert made.seen("one") == {"version": int(seen["version"]), "content": seen["content"]}
        (row,) = made.get(f"/v1/instances/{ROOMS}/queue", made.ann).json()["waiting"]
        assert row["content"] == seen["content"]
        assert made.review("one", "edit", action={"price": 230.0}).status_code == 200
        assert bound(joe.get(f"{AT}/d/one")) != seen
        assert made.review("one", who=made.bob).status_code == 200
        assert read(made, "one")["executed"] == {"price": 230.0}


def test_what_a_veto_left_is_nothing_and_is_known(tmp_path: Path) -> None:
    """Under 'release' nobody has anything to report of it; under 'report' somebody may."""
    with opened(tmp_path, desks.held()) as (made, eve, _):
        ask(made, "no", **BIG)
        held = eve.get(f"{AT}/d/no")
        assert "Nothing runs meanwhile" in plain(held)
        assert eve.post(f"{AT}/d/no/veto", bound(held) | {"code": "not-now"}).status_code == 303
        words = plain(eve.get(f"{AT}/d/no"))
        assert "Vetoed by Eve at 1 Jan 2026, 00:00 UTC : Not now" in words
        assert "Nothing was released. Nothing ran." in words
        assert "reported" not in words
        assert "Nothing runs" not in words
        evidence = plain(eve.get(f"{AT}/d/no/evidence"))
        assert "Ran nothing" in evidence
        assert "reported" not in evidence


def test_what_is_to_be_reported_is_not_known_before(tmp_path: Path) -> None:
    with opened(tmp_path, desks.held("execution = 'report'")) as (made, eve, _):
        ask(made, "yes", context=night(0.9), mask=["1"])
        said = bound(eve.get(f"{AT}/d/yes")) | {"code": "fits"}
        assert eve.post(f"{AT}/d/yes/approve", said).status_code == 303
        words = plain(eve.get(f"{AT}/d/yes"))
        assert "Released: 100 . What ran is not reported yet." in words
        assert "Ran not reported yet" in plain(eve.get(f"{AT}/d/yes/evidence"))


def test_whose_key_asked_is_told() -> None:
    """What a key asks for is asked by who made it; the page names the key."""
    with office(desks.held()) as made:
        made.decide("key", night(0.9), by="till [0f of 1f]")
        made.decide("own", night(0.9), by="Ann [1f]")

        def keys(live: Any) -> list[str]:
            records = [answering.find(live, id) for id in ("key", "own")]
            return [build.key_behind(one, by) for one in records for by in ("Ann [1f]", "Bob [2f]")]

        assert made.look(keys) == ["till", "", "", ""]


# Rows that keep the incumbent


def test_a_row_that_is_held_back_is_not_shown_as_a_proposal(tmp_path: Path) -> None:
    """The incumbent's 100 waits; the learner's 120 does not run, whoever says what."""
    shadow = desks.held('launch = { mode = "shadow", incumbent = "arm", arm = "1" }')
    with opened(tmp_path, shadow) as (made, eve, _):
        ask(made, "kept", context=night(0.9), mask=["1.2"])
        page = eve.get(f"{AT}/d/kept")
        words = plain(page)
        assert button(page) == "Approve 100"
        assert "This request keeps the incumbent’s action." in words
        assert "The learner would have proposed 120 , which does not run here." in words
        assert ">proposed</span>" not in page.text
        assert "the upright line" not in words
        assert "1.2 120 the learner’s choice, which does not run here" in words
        # 100 is the arm in the middle; the learner's own arm lies at the edge.
        assert "risk 0 %" in plain(eve.get(f"{AT}/queue"))


def test_risk_goes_by_what_would_run() -> None:
    """Arms 0.8, 1 and 1.2 on a base of 300; what was cut to 280 is nearest to the middle one."""
    with office(CUT_FIRST) as made:
        made.decide("cut", night(0.9, 300.0), mask=["1.2"])
        made.decide("own", night(0.9, 100.0), mask=["1.2"])

        def risks(live: Any) -> list[float]:
            records = [answering.find(live, id) for id in ("cut", "own")]
            assert [offered(one).tolist() for one in records] == [[280.0], [120.0]]
            return [build.risk_of(live.instance, one) for one in records]

        assert np.allclose(made.look(risks), [0.0, 1.0])


# What does not wait


def test_what_never_waited_says_so_and_offers_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, desks.held()) as (made, eve, _):
        made.decide("calm", 0.1)
        page = eve.get(f"{AT}/d/calm")
        words = plain(page)
        assert "It waits for nobody passed every gate let it pass Ran: " in words
        assert "Why it wait" not in words
        assert "until somebody answers" not in words
        assert not re.findall(r'action="[^"]*/d/calm/[a-z]+"', page.text)


def test_what_was_answered_keeps_the_rule_that_asked_and_its_time(tmp_path: Path) -> None:
    """The reviewer's words are not the rule's, and the answer's time is not the question's."""
    with opened(tmp_path, desks.held_twice()) as (made, eve, joe):
        ask(made, "big", context=night(0.9, 250.0), mask=["1"])
        page = eve.get(f"{AT}/d/big")
        assert "Why it waits manager : busy 0.9 is" in plain(page)
        made.clock.pass_by(60)
        said = bound(page) | {"code": "fits", "reason": "mine to say"}
        assert eve.post(f"{AT}/d/big/approve", said).status_code == 303
        page = joe.get(f"{AT}/d/big")
        made.clock.pass_by(60)
        said = bound(page) | {"code": "fits", "reason": "and mine"}
        assert joe.post(f"{AT}/d/big/approve", said).status_code == 303
        made.clock.pass_by(1800)
        words = plain(eve.get(f"{AT}/d/big"))
        assert "asked 1 Jan 2026, 00:01 UTC , 31 min ago" in words
        assert "Why it waited owner : it is above 200; approved by Eve" in words
        assert "price 250 Held unless at most 200" in words
        late = eve.post(f"{AT}/d/big/approve", bound(page) | {"code": "fits"})
        assert late.status_code == 409
        words = plain(late)
        assert "Somebody was quicker" in words
        assert "Why it waited owner : it is above 200; approved by Eve" in words


def test_the_rule_is_found_again_after_a_restart_and_in_a_batch() -> None:
    """Also where the desk has to fetch it, and for one row of many."""
    with office(desks.held_twice()) as made:
        made.decide("many", [night(0.1), night(0.9, 250.0), night(0.9)], mask=["1"])
        made.clock.pass_by(5)
        made.answer("many.1")
        made.answer("many.2", "veto")
        made.clock.pass_by(5)
        made.answer("many.1", by="bob")
        made.restart()

        def asked(live: Any) -> list[Any]:
            found = [asked_of(live, answering.find(live, f"many.{i}")) for i in range(3)]
            return [one and (one.gate, one.since - desks.START, *one.action) for one in found]

        expected = [None, ("owner", 5 * desks.SECOND, 250.0), ("manager", 0, 100.0)]
        assert made.look(asked) == expected


def test_a_rule_that_was_changed_since_does_not_say_what_it_found_then() -> None:
    """The words of then stay; the numbers of a rule of now would be no reason for it."""
    text = desks.held()
    with office(text) as made:
        made.decide("old", night(0.6))
        made.change(text.replace("at_least = 0.5", "at_least = 0.4"))

        def why(live: Any) -> Any:
            record = answering.find(live, "old")
            return build.held_of(live, record, asked_of(live, record))

        held = made.look(why)
        assert (held.rule, held.found) == ("manager", ())
        assert held.words == "busy 0.6 is at least 0.5"


# Numbers as they are

RATES = desks.held(bounds='{ part = "bounds", name = "limits", low = 0.0001, high = 0.5 }').replace(
    "low = 1, high = 1000", "low = 0, high = 1"
)


@pytest.mark.parametrize("base", [0.0875, 0.0004, 0.123456789])
def test_small_actions_are_shown_and_edited_as_they_are(tmp_path: Path, base: float) -> None:
    """An edit form that is sent as it came runs what was proposed."""
    with opened(tmp_path, RATES) as (made, eve, _):
        ask(made, "small", context=night(0.9, base), mask=["1"])
        page = eve.get(f"{AT}/d/small")
        assert (button(page), field(page)) == (f"Approve {base:.6g}", f"{base}")
        said = bound(page) | {"code": "fits", "action.price": field(page)}
        assert (f"Exactly {base}." in page.text) == (base == 0.123456789)
        assert eve.post(f"{AT}/d/small/edit", said).status_code == 303
        found = read(made, "small")
        assert (found["executed"], found["status"]) == ({"price": base}, "passed")


@given(st.floats(1e-300, 1e12))
def test_no_action_is_shown_as_nothing(value: float) -> None:
    """At least two digits of it can be read, six on the button, and all beside it."""
    for size in (value, -value):
        one = Quantity("rate", size, digits=build.digits_of(size))
        shown = float(wording.quantity(one).replace(",", "").replace("−", "-"))
        assert shown == pytest.approx(size, rel=6e-3)
        for write, rel in ((wording.near, 6e-6), (wording.exact, 1e-11)):
            whole = float(write((one,)).replace(",", "").replace("−", "-"))
            assert whole == pytest.approx(size, rel=rel)


def test_what_ran_is_shown_with_the_digits_of_the_button(tmp_path: Path) -> None:
    """153.6 is not 154: on the queue, the review, the audit and the evidence, and for 91.3521."""
    with opened(tmp_path, desks.held()) as (made, eve, _):
        for id, base, shown in (("tenth", 153.6, "153.6"), ("more", 191.35214, "191.352")):
            ask(made, id, context=night(0.9, base), mask=["1"])
            page = eve.get(f"{AT}/d/{id}")
            assert button(page) == f"Approve {shown}"
            assert f" {shown} " in plain(page)
            assert f" {shown} " in plain(eve.get(f"{AT}/queue"))
            said = bound(page) | {"code": "fits"}
            assert eve.post(f"{AT}/d/{id}/approve", said).status_code == 303
            assert f"Released: {shown} . Ran: {shown} ." in plain(eve.get(f"{AT}/d/{id}"))
            assert f"Ran {shown} " in plain(eve.get(f"{AT}/d/{id}/evidence"))
            assert f" {shown} " in plain(eve.get(f"{AT}/audit"))


# What an edit would do


def previewed(made: desks.Office, id: str, price: float) -> showing.Edited:
    return made.look(lambda live: showing.preview(live, answering.find(live, id), {"price": price}))


def test_the_preview_is_worth_what_would_run() -> None:
    """900 is cut to 300 behind the manager, so both are worth the same, to the bit."""
    with office(desks.held()) as made:
        made.decide("one", night(0.9))
        inside, outside = previewed(made, "one", 300.0), previewed(made, "one", 900.0)
        assert (outside.mean, outside.low, outside.high) == (inside.mean, inside.low, inside.high)
        assert previewed(made, "one", 150.0).mean == pytest.approx(inside.mean / 2)


def test_an_edit_is_held_against_an_approval_by_the_same_measure() -> None:
    """An edit to what is proposed is worth the same as its approval, and more raises only itself.

    The manager vetoes much, so the arms' values, which count that in, would be far below both.
    """
    with office(desks.held()) as made:
        for i in range(8):
            made.decide(f"no{i}", night(0.9))
            made.answer(f"no{i}", "veto")
        made.decide("one", night(0.9), mask=["1"])
        same, more = previewed(made, "one", 100.0), previewed(made, "one", 150.0)
        assert same.approved == (same.mean, same.low, same.high) == more.approved
        assert more.mean > more.approved[0]
        arms, _ = made.look(lambda live: build.arms_of(live, answering.find(live, "one")))
        (proposed,) = [arm for arm in arms if arm.is_proposed]
        assert proposed.worth is not None
        assert proposed.worth.mean < 0.75 * same.mean


def test_the_preview_of_what_would_not_run_is_worth_the_null_action() -> None:
    limits = '{ part = "bounds", name = "limits", low = 50, high = 300, outside = "veto" }'
    with office(desks.held(bounds=limits)) as made:
        made.decide("one", night(0.9))
        found = previewed(made, "one", 900.0)
        assert [gate[1] for gate in found.gates] == ["vetoed"]
        assert (found.mean, found.low, found.high) == (0.0, 0.0, 0.0)


def test_the_preview_goes_by_what_is_believed_of_the_next_person() -> None:
    """300 is worth three halves of 200, until the owner has vetoed whatever is above 200."""
    with office(desks.held_twice()) as made:
        made.decide("one", night(0.9))

        def ratio() -> float:
            above, below = previewed(made, "one", 300.0), previewed(made, "one", 200.0)
            return above.mean / below.mean

        assert ratio() == pytest.approx(1.5)
        for i in range(6):
            made.decide(f"no{i}", night(0.1, 300.0))
            made.answer(f"no{i}", "veto")
        assert 0.0 < ratio() < 0.75


def test_the_preview_says_who_is_asked_next(tmp_path: Path) -> None:
    """Nobody has vetoed it: it would wait once more."""
    with opened(tmp_path, desks.held_twice()) as (made, eve, _):
        made.decide("one", 0.9)
        said = {"action.price": "250"}
        found = eve.post(f"{AT}/d/one/preview", said, accept="application/json").json()
        assert {one["name"]: one["words"] for one in found["lines"]}.items() >= {
            "Gate owner": "asks the next person (it is above 200)",
            "Gate limits": "is not reached",
        }.items()


# The factors used


def learned(made: desks.Office, n: int = 8) -> None:
    """Give the scaler labels, so that it is fitted and δ depends on how busy a night is."""
    for i in range(n):
        busy = 0.05 * i
        made.decide(f"past{i}", night(busy))
        told = observing.Outcome(f"past{i}", {"booked": 1.0}, [2.0 * busy])
        made.do(observing.observe, [told], "shop")


def table(made: desks.Office, id: str) -> list[Any]:
    factors, effects = made.look(lambda live: build.factors_of(live, answering.find(live, id)))
    assert all(one.delta is not None for one in factors)
    assert all(one.delta is None for one in effects)
    return [*factors, *effects]


ADDED = desks.learning().replace(
    'composition = { part = "multiply", base = ["base"], names = ["price"] }',
    'composition = { part = "add", names = ["price"] }',
).replace("penalty = 1.0", 'penalty = 1.0, link = "identity"')  # fmt: skip


@pytest.mark.parametrize(("declared", "sign"), [(desks.learning(), "×"), (ADDED, "+")])
def test_delta_is_the_one_that_was_used(declared: str, sign: str) -> None:
    """Arm and δ make the proposal; a field's effect is a factor, or a difference in a sum."""
    with office(declared) as made:
        learned(made)
        made.decide("one", night(0.9), mask=["1"])
        (proposed,) = made.document("one")["proposed"].values()
        whole, busy = table(made, "one")  # and nothing of 'base', which the scaler does not read
        delta = proposed / 100.0 if sign == "×" else proposed - 1.0
        assert delta > 1.0 if sign == "×" else delta > 0.0
        assert (whole.name, whole.delta) == ("δ", pytest.approx(delta, rel=1e-3))
        assert whole.effect == f"the arm {sign}{delta:.4g}"
        assert (busy.name, busy.value, busy.delta) == ("busy", 0.9, None)
        at_typical = made.look(lambda live: _delta_at(live, "one", 0.2))
        against = delta / at_typical if sign == "×" else delta - at_typical
        assert busy.effect == f"{sign}{against:.4g}"


def _delta_at(live: Any, id: str, busy: float) -> float:
    """Return δ of a decision's context with another busy."""
    rows = answering.find(live, id).rows
    x = rows.x.copy()
    x[0, 1] = busy
    return float(live.instance.scaler.predict(live.state.scaler, rows.group, x)[0, 0, 0])


def test_a_typical_value_is_not_one_that_is_not_read() -> None:
    with office(desks.learning()) as made:
        learned(made, 9)
        made.decide("one", night(0.2), mask=["1"])
        assert [(one.name, one.effect) for one in table(made, "one")[1:]] == [
            ("busy", "as is typical")
        ]


def test_what_is_decided_later_does_not_change_what_is_typical() -> None:
    """The page compared with the last forty events: each load told the approver something else."""
    with office(desks.learning()) as made:
        learned(made)
        made.decide("one", night(0.9), mask=["1"])
        before = table(made, "one")
        for i in range(30):
            made.decide(f"later{i}", night(0.8))
        assert table(made, "one") == before


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of entries that are fetched from a store in memory from here on."""
    numbers: list[int] = []
    real = MemoryStore.get

    def get(self: MemoryStore, chain: str, seqs: Sequence[int]) -> list[Entry]:
        numbers.extend(seqs)
        return real(self, chain, seqs)

    monkeypatch.setattr(MemoryStore, "get", get)
    return numbers


def test_what_is_typical_is_read_of_few_events(fetched: list[int]) -> None:
    """Two hundred were read, whatever their size, while decisions waited."""
    with office(desks.learning()) as made:
        for i in range(40):
            made.decide(f"batch{i}", [night(i / 100)] * 100)
        made.decide("one", night(0.9))
        made.snapshot()
        made.restart()
        fetched.clear()
        seen = made.look(lambda live: showing._before(live, live.records["one"]))
        assert [round(100 * busy) for busy in seen[::100, 1]] == [90, 39, 38, 37, 36]
        assert len(seen) == 500
        assert 0 < len(fetched) < 40
        fetched.clear()
        made.look(lambda live: showing._before(live, live.records["one"]))
        assert not fetched


def test_events_that_do_not_fit_into_memory_are_fetched_once(
    fetched: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(story, "CACHED_BYTES", 1)
    with office(desks.plain()) as made:
        for i in range(100):
            made.decide(f"d{i}", night(0.1))
        made.restart()
        fetched.clear()
        numbers = made.look(lambda live: [len(live.events), len(live.events[:150])])
        assert numbers[1] == 150 < numbers[0]
        assert sorted(fetched) == list(range(150))


def test_what_is_typical_is_read_of_few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nothing of what is read tells it."""
    monkeypatch.setattr(showing, "_BYTES", 20_000)
    with office(desks.learning()) as made:
        made.decide("early", [night(0.3)] * 10)
        for i in range(20):
            made.decide(f"many{i}", [night(0.1)] * 20)
        made.observe({f"many{i}.{j}": 1.0 for i in range(20) for j in range(20)})
        made.decide("one", night(0.9))
        seen = made.look(lambda live: showing._before(live, live.records["one"]))
        assert seen[0, 1] == 0.9
        assert 1 <= len(seen) < 100


def test_after_a_refit_the_recorded_delta_stays() -> None:
    with office(desks.learning()) as made:
        learned(made)
        made.decide("one", night(0.9))
        (before, *_), n = table(made, "one"), 4
        for i in range(n):
            made.decide(f"more{i}", night(0.4))
            told = observing.Outcome(f"more{i}", {"booked": 1.0}, [-3.0])
            made.do(observing.observe, [told], "shop")
        (after,) = table(made, "one")
        assert after.delta == before.delta
        assert after.effect == f"{before.effect}; the scaler has been refitted since"


# Words


def test_the_evidence_of_what_waits_does_not_say_that_nobody_was_asked(tmp_path: Path) -> None:
    with opened(tmp_path, desks.held()) as (made, eve, _):
        made.decide("waits", 0.9)
        made.decide("calm", 0.1)
        waits, calm = (plain(eve.get(f"{AT}/d/{id}/evidence")) for id in ("waits", "calm"))
        assert "Nobody has looked at it yet: it waits for a person." in waits
        assert "no rule asked" not in waits
        assert "Nobody looked at it: no rule asked for a person." in calm
