"""The routes of the pages: signing in, forms that are ours, answers, people, changes, settings."""

from __future__ import annotations

import html
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from fastapi.routing import iter_route_contexts
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from gdcb.service import access
from gdcb.service.access import CONSOLE, ROLES, read_log
from gdcb.service.house import Settings
from gdcb.service.web import people as people_pages
from tests.properties import examples
from tests.service import desks
from tests.service.access_builders import CHEAP, token_of
from tests.service.desks import night
from tests.service.http import (
    BASE,
    CABINS,
    ROOMS,
    Site,
    Visitor,
    hidden,
    problem,
    site,
    visitor,
)

AT = f"/i/{ROOMS}"
EVERYTHING = tuple((role, "*") for role in ROLES)


@pytest.fixture(scope="module")
def here(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    text = desks.held_twice("bulk = 3")
    with site(sqlite_template, tmp_path_factory.mktemp("web"), text) as made:
        yield made


@pytest.fixture(scope="module")
def eve(here: Site) -> Visitor:
    return visitor(here, "eve", *EVERYTHING)


@pytest.fixture(scope="module")
def joe(here: Site) -> Visitor:
    return visitor(here, "joe", *EVERYTHING)


def link_for(made: Site, login: str) -> str:
    """Add somebody; return the token of their one-time link."""
    books = made.house.books
    person = access.add_person(books, CONSOLE, login, login.title(), [("approve", ROOMS)])
    return token_of(access.make_link(books, CONSOLE, person, BASE))


def told(guest: Visitor, answer: Any, to: str) -> str:
    """Follow an answer to a page of ours, and return what it says there."""
    assert answer.status_code == 303, answer.text[:300]
    assert answer.headers["location"] == to
    page = guest.get(to)
    assert page.status_code == 200
    assert "gdcb-told" not in guest.cookies  # said once
    return _text(page)


def _text(page: Any) -> str:
    plain = re.sub(r"<(script|style).*?</\1>|<[^>]+>", " ", page.text, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(plain))


# Sign in and out


def test_a_link_signs_in_once(here: Site) -> None:
    token, guest = link_for(here, "once"), Visitor(here)
    for _ in range(2):  # what only looks does not use it up
        page = guest.get(f"/sign-in?link={token}")
        assert page.status_code == 200
        assert hidden(page.text, "link") == token
    answer = guest.post("/sign-in", {"link": token})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    [line] = [one for one in answer.headers.get_list("set-cookie") if one.startswith("gdcb=")]
    assert "HttpOnly" in line
    assert "SameSite=Strict" in line
    assert guest.get(f"{AT}/queue").status_code == 200
    other = Visitor(here)
    again = other.post("/sign-in", {"link": token})
    assert again.status_code == 401
    assert "this link does not open anything" in _text(again)
    assert not other.cookies
    spent = other.get(f"/sign-in?link={token}")
    assert "this link was used already, or its time is over" in _text(spent)
    assert token not in spent.text


def test_a_password_signs_in(here: Site) -> None:
    guest, books = Visitor(here), here.house.books
    guest.post("/sign-in", {"link": link_for(here, "pat")})
    viewer = here.house.door.authenticate({"cookie": f"gdcb={guest.cookies['gdcb']}"})
    assert viewer is not None
    access.set_password(books, viewer, "correct horse battery", cost=CHEAP)
    guest = Visitor(here)
    for login, word in (("pat", "wrong horse battery"), ("nobody", "correct horse battery")):
        answer = guest.post("/sign-in", {"login": login, "password": word})
        assert answer.status_code == 401
        assert not guest.cookies
        assert word not in answer.text
    said = {"login": "Pat", "password": "correct horse battery", "then": f"{AT}/queue"}
    answer = guest.post("/sign-in", said)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{AT}/queue")
    assert guest.get(f"{AT}/queue").status_code == 200


def test_signing_out_ends_the_session(here: Site) -> None:
    guest = Visitor(here)
    guest.post("/sign-in", {"link": link_for(here, "leaver")})
    session = dict(guest.cookies)
    answer = guest.post("/sign-out")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert "gdcb" not in guest.cookies
    assert Visitor(here, session).get(f"{AT}/queue").status_code == 303


def test_too_many_tries_are_a_page(sqlite_template: Path, tmp_path: Path) -> None:
    with site(sqlite_template, tmp_path, settings=Settings(BASE, tick=0)) as made:
        guest = Visitor(made)
        found = [guest.post("/sign-in", {"link": "no"}).status_code for _ in range(21)]
        assert found == [401] * 20 + [429]
        page = guest.post("/sign-in", {"login": "x", "password": "y"})
        assert "too many tries to sign in" in _text(page)


def test_whoever_is_not_signed_in_is_sent_to_and_comes_back(here: Site) -> None:
    guest = Visitor(here)
    assert guest.get("/").headers["location"] == "/sign-in"
    answer = guest.get(f"{AT}/queue?rule=owner&text=a%26b")
    assert answer.status_code == 303
    to = urlsplit(answer.headers["location"])
    assert to.path == "/sign-in"
    assert parse_qs(to.query) == {"then": [f"{AT}/queue?rule=owner&text=a%26b"]}
    page = guest.get(answer.headers["location"])
    then = html.unescape(hidden(page.text, "then"))
    assert then == f"{AT}/queue?rule=owner&text=a%26b"


ELSEWHERE = [
    "//elsewhere.example", "https://elsewhere.example", "/\\elsewhere.example", "\\\\x",
    "javascript:alert(1)", "/\t/elsewhere.example", "\n//x", " //x", "http:x", "///x", "",
    "/%5celsewhere.example/..//x", "/a\r\nset-cookie: x=y",
]  # fmt: skip


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.sampled_from(ELSEWHERE), st.text(alphabet="/\\:.@?#% \tehtps%0", max_size=12)))
@example("//elsewhere.example")
def test_no_form_leads_to_another_site(here: Site, eve: Visitor, to: str) -> None:
    answers = [eve.post("/settings", {"theme": "dark", "back": to})]
    answers.append(eve.post(f"{AT}/d/none/release", {"back": to}))
    for answer in answers:
        where = answer.headers["location"]
        assert re.match(r"^/(?![/\\])", where)
        assert not re.search(r"[\x00-\x20\\]", where)
        assert "\n" not in str(answer.headers)
    for path, field in (("/sign-in?then=", "then"), ("/settings?back=", "back")):
        page = Visitor(here).get(f"{path}{quote(to)}")
        assert re.match(r"^/(?![/\\])", html.unescape(hidden(page.text, field)))


# Forms that are ours


def posts(made: Site) -> list[tuple[str, dict[str, Any]]]:
    """Return every form that a page could send, with what would make it count."""
    made.decide("csrf", 0.9)
    seen = made.seen("csrf")
    form = {
        **seen, "code": "fits", "verdict": "veto", "row": "csrf", "action.price": "90",
        "theme": "dark", "name": "Mallory", "login": "mallory", "role": "decide",
        "instance": ROOMS, "reason": "so", "confirm": "yes", "declaration": desks.plain(),
    }  # fmt: skip
    verbs = {
        "/i/{name}/d/{id}/{verb}": ("approve", "edit", "veto", "claim", "release", "preview"),
        "/people/{id}/{verb}": ("grant", "revoke", "link", "disable"),
        "/i/{name}/changes/{number}/{verb}": ("agree", "refuse"),
    }
    found = []
    for one in iter_route_contexts(made.app.routes):
        path = str(one.path)
        if "POST" not in (one.methods or ()) or path.startswith("/v1/") or path == "/sign-in":
            continue
        where = path.replace("{name}", ROOMS).replace("{id}", "csrf").replace("{number}", "1")
        found += [(where.replace("{verb}", verb), form) for verb in verbs.get(path, ("",))]
    return found


def test_a_form_of_another_site_changes_nothing(here: Site) -> None:
    eve, other = (visitor(here, login, *EVERYTHING) for login in ("victim", "mallory-2"))
    forms = posts(here)
    assert len(forms) >= 18
    before, log = here.heads(), len(read_log(here.house.books))
    cookies = dict(eve.cookies)
    for path, form in forms:
        for answer in (
            eve.post(path, form, token=""),
            eve.post(path, form, token=other.token),
            eve.post(path, form, token=eve.token[:-1]),
            eve.post(path, form, origin="https://elsewhere.example"),
            eve.post(path, form, origin="null"),
            eve.post(path, form, sec_fetch_site="cross-site"),
            eve.post(path, form, sec_fetch_site="same-site"),
        ):
            assert answer.status_code == 403, (path, answer.status_code)
            assert not answer.headers.get_list("set-cookie"), path
    assert here.heads() == before
    assert len(read_log(here.house.books)) == log
    assert eve.cookies == cookies
    assert eve.get(f"{AT}/queue").status_code == 200


def test_signing_in_is_for_our_own_page(here: Site) -> None:
    """Else another site could sign somebody in as somebody else."""
    token, guest = link_for(here, "fixed"), Visitor(here)
    for headers in ({"origin": "https://elsewhere.example"}, {"sec_fetch_site": "cross-site"}):
        answer = guest.post("/sign-in", {"link": token}, **headers)
        assert answer.status_code == 403
        assert not guest.cookies
    assert guest.post("/sign-in", {"link": token}).status_code == 303


def test_what_is_no_form_is_refused(here: Site, eve: Visitor) -> None:
    cookie = {"cookie": f"gdcb={eve.cookies['gdcb']}", "x-csrf-token": eve.token}
    for kind in ("application/json", "text/plain", ""):
        answer = here.ask("POST", "/settings", cookie | {"content-type": kind}, content=b"theme=x")
        assert answer.status_code == 415
    many = b"&".join(b"row=%d" % i for i in range(2_001))
    plain = {"content-type": "application/x-www-form-urlencoded"}
    assert here.ask("POST", "/settings", cookie | plain, content=many).status_code == 400
    assert here.ask("POST", "/settings", cookie | plain, content=b"a%00=b").status_code == 400
    parts = {"content-type": "multipart/form-data; boundary=x"}
    sent = b'--x\r\nContent-Disposition: form-data; name="theme"; filename="a"\r\n\r\nz\r\n--x--'
    assert here.ask("POST", "/settings", cookie | parts, content=sent).status_code == 400
    large = b"theme=" + b"x" * (17 * 2**20)
    assert here.ask("POST", "/settings", cookie | plain, content=large).status_code == 413


# The queue


def test_the_address_filters_the_queue(here: Site, eve: Visitor) -> None:
    for id, busy, base, unit in (("q1", 0.9, 100, "sea"), ("q2", 0.0, 300, "farm")):
        said = {"id": id, "context": night(busy, base), "unit": unit, "mask": ["1"]}
        here.post(f"/v1/instances/{ROOMS}/decisions", here.shop, said)
    eve.post(f"{AT}/d/q1/claim")

    def shown(query: str) -> set[str]:
        page = eve.get(f"{AT}/queue?{query}")
        assert page.status_code == 200
        return {id for id in ("q1", "q2") if f'href="{AT}/d/{id}"' in page.text}

    assert shown("") == {"q1", "q2"}
    assert shown("rule=owner") == {"q2"}
    assert shown("unit=sea") == {"q1"}
    assert shown("claimed=mine") == {"q1"}
    assert shown("claimed=others") == set()
    assert shown("claimed=free&text=FARM") == {"q2"}
    assert shown("text=q1") == {"q1"}
    assert shown("rule=%3Cscript%3E&text=%22%3E") == set()
    assert shown(f"offset={10**25}") == {"q1", "q2"}  # behind the last page: the last page
    assert shown(f"offset=-5&reload={10**25}") == {"q1", "q2"}
    assert eve.get(f"{AT}/queue?offset=x").status_code == 422


def test_news_of_the_queue(here: Site, eve: Visitor) -> None:
    start = eve.get(f"{AT}/queue.json?since=0").json()
    here.decide("n1", 0.9)
    more = eve.get(f"{AT}/queue.json?since={start['version']}").json()
    assert (more["waiting"], more["new"]) == (start["waiting"] + 1, 1)
    here.review("n1", "veto")
    gone = eve.get(f"{AT}/queue.json?since={more['version']}").json()
    assert (gone["waiting"], gone["new"]) == (start["waiting"], 0)
    assert "vetoed by Ann" in str(gone["gone"])
    for since in (-1, 10**25):
        assert eve.get(f"{AT}/queue.json?since={since}").status_code == 200


# Answers


def _seen(page: Any) -> dict[str, str]:
    return {name: hidden(page.text, name) for name in ("version", "content")}


@pytest.mark.parametrize(
    ("verb", "form", "status", "done"),
    [
        ("approve", {"code": "fits", "reason": "go"}, "passed", "approved"),
        ("edit", {"code": "too-high", "action.price": "95.5"}, "modified", "edited"),
        ("veto", {"code": "not-now"}, "vetoed", "vetoed"),
    ],
)
def test_a_form_answers(
    here: Site, eve: Visitor, verb: str, form: dict[str, str], status: str, done: str
) -> None:
    id = f"f-{verb}"
    here.decide(id, 0.9)
    page = eve.get(f"{AT}/d/{id}")
    assert page.status_code == 200
    answer = eve.post(f"{AT}/d/{id}/{verb}", _seen(page) | form)
    to = answer.headers["location"]
    assert to.startswith((f"{AT}/d/", f"{AT}/queue"))
    assert f"You {done} {id}." in told(eve, answer, to)
    now = here.get(f"/v1/instances/{ROOMS}/decisions/{id}", here.ann).json()
    assert (now["status"], now["decided"]["by"]) == (status, "Eve")
    if verb == "edit":
        assert now["executed"] == {"price": 95.5}
    assert "Shown" in here.kinds()


def test_who_comes_second_is_shown_who_was_first(here: Site, eve: Visitor, joe: Visitor) -> None:
    here.decide("race", 0.9)
    seen = [_seen(one.get(f"{AT}/d/race")) for one in (eve, joe)]
    eve.post(f"{AT}/d/race/veto", seen[0] | {"code": "too-high", "reason": "not at all"})
    before = here.heads()
    answer = joe.post(f"{AT}/d/race/approve", seen[1] | {"code": "fits"})
    assert answer.status_code == 409
    words = _text(answer)
    assert "Somebody was quicker; your answer changed nothing." in words
    assert re.search(r"Eve answered at .*2026.*not at all", words)
    assert here.heads() == before


def test_what_changed_since_is_not_answered(here: Site, eve: Visitor, joe: Visitor) -> None:
    """The manager's answer moves a decision on to the owner: an old page answers no more."""
    said = {"id": "moved", "context": night(0.9, 300), "mask": ["1"]}
    here.post(f"/v1/instances/{ROOMS}/decisions", here.shop, said)
    old = _seen(joe.get(f"{AT}/d/moved"))
    eve.post(f"{AT}/d/moved/approve", _seen(eve.get(f"{AT}/d/moved")) | {"code": "fits"})
    before = here.heads()
    answer = joe.post(f"{AT}/d/moved/approve", old | {"code": "fits", "reason": "my words"})
    assert answer.status_code == 409
    assert "is no longer what you saw" in _text(answer)
    assert "my words" in answer.text  # what one wrote is not lost
    assert here.heads() == before
    assert _seen(answer) != old


@pytest.mark.parametrize(
    ("verb", "form", "says"),
    [
        ("approve", {"code": "because"}, "code: expected one of fits"),
        ("approve", {"code": ""}, "code: expected one of fits"),
        ("approve", {"version": "x", "code": "fits"}, "version: expected a whole number"),
        ("approve", {"version": "9" * 5000, "code": "fits"}, "version: expected a whole number"),
        ("edit", {"code": "fits", "action.price": "much"}, "such as 1250 or 99.5; got 'much'"),
        ("edit", {"code": "fits", "action.price": "nan"}, "such as 1250 or 99.5; got 'nan'"),
        ("edit", {"code": "fits", "action.price": ""}, "such as 1250 or 99.5; got ''"),
    ],
)
def test_an_answer_that_is_none_stays_a_draft(
    here: Site, eve: Visitor, verb: str, form: dict[str, str], says: str
) -> None:
    if here.get(f"/v1/instances/{ROOMS}/decisions/draft", here.ann).status_code == 404:
        here.decide("draft", 0.9)
    seen = _seen(eve.get(f"{AT}/d/draft"))
    before = here.heads()
    answer = eve.post(f"{AT}/d/draft/{verb}", seen | {"reason": "<b>words</b>"} | form)
    assert answer.status_code == 422
    assert says in _text(answer)
    assert "&lt;b&gt;words" in answer.text
    assert here.heads() == before


# What is read as another number by one person or another, or by Python alone
AMBIGUOUS = [
    "1,250", "1.250,00", "1,250.00", "95,5", "1 250", "1\u00a0250", "1'250", "1_000",
    "\uff11\uff12", "\u0661\u0662", "1e3", "0x10", "nan", "inf", "-inf", "1.", "+5", "--5",
    "12 EUR", "1" * 61,
]  # fmt: skip


def test_a_number_is_refused_where_it_could_be_read_in_two_ways(here: Site, eve: Visitor) -> None:
    """Each over HTTP, in the edit and in its preview; the sentence says which form is expected."""
    here.decide("digits", 0.9)
    seen, before = _seen(eve.get(f"{AT}/d/digits")), here.heads()
    expected = "a point before decimals and nothing between thousands, such as 1250 or 99.5; got"
    for told_so in AMBIGUOUS:
        form = seen | {"code": "fits", "action.price": told_so}
        answer = eve.post(f"{AT}/d/digits/edit", form)
        assert answer.status_code == 422, told_so
        assert expected in _text(answer), told_so
        preview = eve.post(f"{AT}/d/digits/preview", form, accept="application/json").json()
        assert expected in preview["problem"], told_so
    for version in ("\uff11", "1_0", " 1", "+1", "-1", "1.0", ""):
        form = seen | {"code": "fits", "version": version}
        assert eve.post(f"{AT}/d/digits/approve", form).status_code == 422, version
    assert here.heads() == before


@pytest.mark.parametrize(("typed", "ran"), [(" 99.5 ", 99.5), ("0120", 120.0), ("50.0", 50.0)])
def test_a_plain_number_is_read_as_it_stands(
    here: Site, eve: Visitor, typed: str, ran: float
) -> None:
    id = f"plain-{int(ran)}"
    here.decide(id, 0.9)
    form = _seen(eve.get(f"{AT}/d/{id}")) | {"code": "fits", "action.price": typed}
    assert eve.post(f"{AT}/d/{id}/edit", form).status_code == 303
    now = here.get(f"/v1/instances/{ROOMS}/decisions/{id}", here.ann).json()
    assert now["executed"] == {"price": ran}


def test_an_edit_beyond_the_limits_it_shows_is_refused(here: Site, eve: Visitor) -> None:
    """Nothing else runs in its place; the preview says so, and what the gates would make of it."""
    here.decide("beyond", 0.9)
    seen, before = _seen(eve.get(f"{AT}/d/beyond")), here.heads()
    for typed, got in ((".75", "0.75"), ("300.5", "300.5"), ("-60", "-60")):
        form = seen | {"code": "fits", "action.price": typed}
        answer = eve.post(f"{AT}/d/beyond/edit", form)
        assert answer.status_code == 422, typed
        assert f"price: expected 50 to 300, got {got}" in _text(answer)
        assert f'value="{typed}"' in answer.text  # what was typed is there to be mended
        preview = eve.post(f"{AT}/d/beyond/preview", form, accept="application/json").json()
        assert preview["problem"] == f"price: expected 50 to 300, got {got}"
        assert "Gate limits" in str(preview["lines"])
    assert here.heads() == before


@pytest.mark.parametrize("price", ['"1,250"', '"1250"', "NaN", "Infinity", "1e400", "true", "1_0"])
def test_the_api_takes_a_number_of_json_and_nothing_else(here: Site, price: str) -> None:
    if here.get(f"/v1/instances/{ROOMS}/decisions/json", here.ann).status_code == 404:
        here.decide("json", 0.9)
    seen, before = here.seen("json"), here.heads()
    said = f'{{"verdict": "edit", "code": "fits", "action": {{"price": {price}}}, '
    said += f'"version": {seen["version"]}, "content": "{seen["content"]}"}}'
    at = f"/v1/instances/{ROOMS}/decisions/json/review"
    answer = here.ask(
        "POST", at, here.ann, content=said, headers={"content-type": "application/json"}
    )
    assert answer.status_code in (400, 422), answer.text
    assert here.heads() == before


def test_there_are_three_answers_and_no_more(here: Site, eve: Visitor) -> None:
    here.decide("fourth", 0.9)
    answer = eve.post(f"{AT}/d/fourth/expire", here.seen("fourth"))
    assert answer.status_code == 422
    assert "there is no answer 'expire'" in _text(answer)
    assert eve.post(f"{AT}/d/nothing/veto", {"version": "1", "code": "fits"}).status_code == 404


def test_own_proposals_are_not_approved_on_pages(here: Site, eve: Visitor) -> None:
    cookie = {"cookie": f"gdcb={eve.cookies['gdcb']}", "x-csrf-token": eve.token}
    said = {"id": "own", "context": night(0.9)}
    here.post(f"/v1/instances/{ROOMS}/decisions", cookie, said)
    seen = here.seen("own")
    before = here.heads()
    answer = eve.post(f"{AT}/d/own/approve", seen | {"code": "fits"})
    assert answer.status_code == 403
    assert "to approve or edit it takes somebody else" in _text(answer)
    assert here.heads()[ROOMS] == before[ROOMS]
    assert eve.post(f"{AT}/d/own/veto", seen | {"code": "not-now"}).status_code == 303


def test_what_ones_key_asked_for_is_not_approved_on_pages(
    here: Site, eve: Visitor, joe: Visitor
) -> None:
    """Nor is what it proposed: a key and whoever made it are one pair of eyes."""
    page = eve.post("/keys", {"name": "till", "role": "decide", "instance": ROOMS, "days": "30"})
    found = re.search(r"gdcb_[0-9a-f]{16}_[0-9a-f]{64}", page.text)
    assert found is not None
    who = {"authorization": f"Bearer {found[0]}"}
    said = {"id": "by-key", "context": night(0.9)}
    assert here.post(f"/v1/instances/{ROOMS}/decisions", who, said).status_code == 201
    assert "to approve or edit it takes somebody else" in _text(eve.get(f"{AT}/d/by-key"))
    seen = here.seen("by-key")
    answer = eve.post(f"{AT}/d/by-key/approve", seen | {"code": "fits"})
    assert answer.status_code == 403
    bulk = {"row": ["by-key"], "version": [str(seen["version"])], "content": [seen["content"]]}
    form = bulk | {"verdict": "approve", "code": "fits"}
    assert eve.post(f"{AT}/queue/bulk/confirm", form).status_code in (403, 409)
    assert here.get(f"/v1/instances/{ROOMS}/decisions/by-key", here.ann).json()["status"] == "held"
    assert joe.post(f"{AT}/d/by-key/approve", seen | {"code": "fits"}).status_code == 303
    viewer = here.house.door.authenticate({"cookie": f"gdcb={eve.cookies['gdcb']}"})
    assert viewer is not None
    made = access.add_key(here.house.books, viewer, "robot", [("operate", CABINS)])
    at = f"/v1/instances/{CABINS}"
    text = here.get(f"{at}/declaration", here.ann).json()["declaration"]
    said = {"declaration": re.sub("bulk = [0-9]", "bulk = 4", text), "reason": "more"}
    robot = {"authorization": f"Bearer {made.text}"}
    number = here.post(f"{at}/changes", robot, said).json()["number"]
    to = f"/i/{CABINS}/changes/{number}"
    page = eve.get(to)
    assert "somebody else must agree" in _text(page)
    content = hidden(joe.get(to).text, "content")
    assert eve.post(f"{to}/agree", {"content": content, "reason": "yes"}).status_code == 403
    assert joe.post(f"{to}/refuse", {"content": content, "reason": "no"}).status_code == 303


def test_a_claim_on_pages(here: Site, eve: Visitor, joe: Visitor) -> None:
    here.decide("claim", 0.9)
    at = f"{AT}/d/claim"
    words = told(eve, eve.post(f"{at}/claim", {"back": f"{AT}/queue"}), f"{AT}/queue")
    assert "claim is yours for 5 minutes." in words
    assert "Eve has claimed decision claim" in told(joe, joe.post(f"{at}/claim"), at)
    page = joe.get(at)
    assert "has this one" in _text(page)
    answer = joe.post(f"{at}/veto", here.seen("claim") | {"code": "fits"})
    assert answer.status_code == 409
    assert "claim is free again." in told(eve, eve.post(f"{at}/release"), at)
    assert "is yours" in told(joe, joe.post(f"{at}/claim"), at)
    joe.post(f"{at}/veto", here.seen("claim") | {"code": "fits"})
    assert "was vetoed by Joe" in told(eve, eve.post(f"{at}/claim"), at)


def test_a_preview_changes_nothing(here: Site, eve: Visitor) -> None:
    here.decide("look", 0.9)
    eve.get(f"{AT}/d/look")
    before = here.heads()
    form = {"action.price": "95", "code": "too-high", "reason": "half a sentence"}
    as_json = eve.post(f"{AT}/d/look/preview", form, accept="application/json")
    assert as_json.headers["content-type"] == "application/json"
    lines = {one["name"]: one["words"] for one in as_json.json()["lines"]}
    assert lines["Nearest arm"] == "1, 0.25 steps away"  # 95 is a quarter from 100 to 80
    assert lines["Gate limits"] == "lets it through"
    page = eve.post(f"{AT}/d/look/preview", form)
    assert page.status_code == 200
    assert "half a sentence" in page.text
    assert 'value="95"' in page.text
    for wrong in ("x", "nan", "1e999"):
        answer = eve.post(
            f"{AT}/d/look/preview", {"action.price": wrong}, accept="application/json"
        )
        assert answer.status_code == 200
        assert "expected a" in answer.text
    assert here.heads() == before


def test_several_are_answered_from_the_queue(here: Site, eve: Visitor, joe: Visitor) -> None:
    ids = [f"s{i}" for i in range(4)]
    for id in ids:
        here.decide(id, 0.9)
    said = {"id": "s-owner", "context": night(0.0, 300), "mask": ["1"]}
    here.post(f"/v1/instances/{ROOMS}/decisions", here.shop, said)
    joe.post(f"{AT}/d/{ids[3]}/claim")
    before = here.heads()
    for rows, verdict, says in (
        (ids, "approve", "at most 3 decisions are answered together"),
        ([ids[0], "s-owner"], "veto", "only decisions that the same rule holds"),
        (["gone"], "veto", "no decision 'gone' was made here"),
        ([ids[3]], "veto", "Joe has claimed it"),
        ([], "veto", "nothing was selected"),
        ([ids[0]], "edit", "choose to approve or to veto"),
    ):
        answer = eve.post(f"{AT}/queue/bulk", {"row": rows, "verdict": verdict})
        assert answer.status_code == 422
        assert says in _text(answer)
    page = eve.post(f"{AT}/queue/bulk", {"row": ids[:2], "verdict": "veto"})
    assert page.status_code == 200
    before = here.heads()
    form = {name: re.findall(rf'name="{name}" value="([^"]*)"', page.text)
            for name in ("row", "version", "content")}  # fmt: skip
    assert form["row"] == ids[:2]
    for wrong in (
        form | {"version": ["²", "1"]},
        form | {"version": ["9" * 5000, "1"]},
        form | {"version": form["version"][:1]},
        form | {"content": []},
        form | {"content": ["0" * 32] * 2},
    ):
        answer = eve.post(f"{AT}/queue/bulk/confirm", wrong | {"verdict": "veto", "code": "fits"})
        assert answer.status_code in (409, 422)
    assert here.heads() == before
    answer = eve.post(f"{AT}/queue/bulk/confirm", form | {"verdict": "veto", "code": "fits"})
    assert "2 decisions were vetoed." in told(eve, answer, f"{AT}/queue")
    again = eve.post(f"{AT}/queue/bulk/confirm", form | {"verdict": "veto", "code": "fits"})
    assert again.status_code == 409


# People and keys


def test_a_new_person_gets_a_link_that_is_shown_once(here: Site, eve: Visitor) -> None:
    form = {"name": "Ada Lovelace", "login": "ada", "role": "approve", "instance": ROOMS}
    page = eve.post("/people", form)
    assert page.status_code == 200
    found = re.search(rf"{re.escape(BASE)}/sign-in\?link=([0-9a-f]+)", page.text)
    assert found is not None
    people = {one.login: one for one in access.list_people(here.house.books, CONSOLE)}
    assert people["ada"].name == "Ada Lovelace"
    assert found[1] not in eve.get("/people").text
    guest = Visitor(here)
    assert guest.post("/sign-in", {"link": found[1]}).status_code == 303
    assert guest.get(f"{AT}/queue").status_code == 200
    assert guest.get(f"/i/{CABINS}/queue").status_code == 403
    taken = eve.post("/people", form)
    assert taken.status_code == 422
    assert "login: 'ada' is taken; choose another" in _text(taken)


def test_roles_are_granted_taken_and_ended(here: Site, eve: Visitor) -> None:
    guest = visitor(here, "dora")
    id = access.person_by_login(here.house.books, "dora")
    at = f"/people/{id}"
    assert guest.get(f"{AT}/queue").status_code == 403
    answer = eve.post(f"{at}/grant", {"role": "approve", "instance": ROOMS})
    assert "The role is granted." in _text(answer)
    assert guest.get(f"{AT}/queue").status_code == 303  # to the door: the account is opened anew
    found = re.search(r"/sign-in\?link=([0-9a-f]+)", answer.text)
    assert found is not None
    assert guest.post("/sign-in", {"link": found[1]}).status_code == 303
    assert guest.get(f"{AT}/queue").status_code == 200
    answer = eve.post(f"{at}/grant", {"role": "audit", "instance": ROOMS})
    assert "The role is granted." in told(eve, answer, "/people")
    assert guest.get(f"{AT}/queue").status_code == 200
    eve.post(f"{at}/revoke", {"grant": f"audit@{ROOMS}"})
    answer = eve.post(f"{at}/revoke", {"grant": f"approve@{ROOMS}"})
    assert "The role is taken away." in told(eve, answer, "/people")
    assert guest.get(f"{AT}/queue").status_code == 403
    assert eve.post(f"{at}/revoke", {"grant": f"approve@{ROOMS}"}).status_code == 422
    for form in ({"role": "king", "instance": ROOMS}, {"role": "approve", "instance": ""}):
        assert eve.post(f"{at}/grant", form).status_code == 422
    assert eve.post(f"{at}/promote", {}).status_code == 422
    link = eve.post(f"{at}/link")
    assert "/sign-in?link=" in link.text
    answer = eve.post(f"{at}/disable")
    assert "They are signed out everywhere" in told(eve, answer, "/people")
    assert guest.get(f"{AT}/queue").status_code == 303
    own = access.person_by_login(here.house.books, "eve")
    answer = eve.post(f"/people/{own}/grant", {"role": "approve", "instance": CABINS})
    assert answer.status_code == 422
    assert "nobody grants a role to themselves" in _text(answer)


def test_a_key_may_have_several_roles(here: Site, eve: Visitor) -> None:
    """A program that asks and reports needs one key; the form says who approves what it asks."""
    form = _text(eve.get("/people")).partition("New key")[2]
    assert "you cannot approve what your key asks for" in form
    assert "gdcb access key" in form
    roles = ["decide", "outcome"]
    page = eve.post("/keys", {"name": "till", "role": roles, "instance": ROOMS, "days": "30"})
    found = re.search(r"gdcb_([0-9a-f]{16})_[0-9a-f]{64}", page.text)
    assert found is not None
    who = {"authorization": f"Bearer {found[0]}"}
    at = f"/v1/instances/{ROOMS}"
    made = here.post(f"{at}/decisions", who, {"context": night()})
    assert made.status_code == 201
    outcome = {"outcome": {"booked": 1}}
    assert here.post(f"{at}/decisions/{made.json()['id']}/outcome", who, outcome).is_success


def test_a_key_is_shown_once_and_ends(here: Site, eve: Visitor) -> None:
    form = {"name": "till", "role": "decide", "instance": ROOMS, "days": "30"}
    page = eve.post("/keys", form)
    found = re.search(r"gdcb_([0-9a-f]{16})_[0-9a-f]{64}", page.text)
    assert found is not None
    assert found[0] not in eve.get("/people").text
    who = {"authorization": f"Bearer {found[0]}"}
    at = f"/v1/instances/{ROOMS}/decisions"
    assert here.post(at, who, {"context": night()}).status_code == 201
    wrong: list[dict[str, Any]] = [
        {"days": "soon"}, {"days": "-1"}, {"days": "inf"}, {"days": "nan"}, {"days": "1e9"},
        {"role": "approve"}, {"name": ""}, {"instance": "\u202e"}, {"instance": "roooms"},
        {"role": []}, {"role": ["decide", "approve"]},
    ]  # fmt: skip
    for change in wrong:
        assert eve.post("/keys", form | change).status_code == 422
    answer = eve.post(f"/keys/{found[1]}/revoke")
    assert "The key opens nothing any more." in told(eve, answer, "/people")
    assert here.post(at, who, {"context": night()}).status_code == 401
    assert eve.post(f"/keys/{found[1]}/revoke").status_code == 422


# Changes


@given(*[st.lists(st.sampled_from("abcde"), max_size=30)] * 2)
@examples(60)
def test_a_difference_leaves_nothing_out(old: list[str], new: list[str]) -> None:
    """Every line taken away or added, in order; three lines around, and where they stand."""
    lines = people_pages._diff("\n".join(old), "\n".join(new))
    assert bool(lines) == (old != new and "\n".join(old) != "\n".join(new))
    shown, at = iter(lines), 0
    for line in shown:
        if line.kind == "hunk":
            at = int(line.words.removeprefix("line ")) - 1
        elif line.kind != "removed":
            assert new[at] == line.words
            at += 1
    change = Counter(new)
    change.subtract(old)
    for line in lines:
        change[line.words] += {"removed": 1, "added": -1}.get(line.kind, 0)
    assert not any(change.values())


def test_no_two_texts_take_long_to_compare() -> None:
    """14,000 lines with another between each took 47 seconds, in which nobody was answered."""
    old = [f"#{i}" for i in range(5_000)]
    hard = {
        "every other line": [line for one in old for line in (one, f"{one}x")],
        "backwards": old[::-1],
        "at both ends": ["#x", *old, "#y"],
        "few of many": [one if 1_000 <= i < 4_500 else f"{one}x" for i, one in enumerate(old)],
        "one line again and again": ["#x"] * 9_999,
    }
    pairs = {name: (old, new) for name, new in hard.items()}
    # Where there are fewer than 200, difflib tries every pair of lines that are the same.
    others = [line for i in range(99) for line in ("#", f"x{i}")]
    pairs["few and many of one line"] = (["#"] * 5_000, others)
    pairs["and few of both"] = (["#"] * 500, others)
    for name, (old, new) in pairs.items():
        start = time.process_time()
        lines = people_pages._diff("\n".join(old), "\n".join(new))
        assert time.process_time() - start < 1.0, name
        assert {"added", "removed"} & {line.kind for line in lines}, name


def test_a_line_is_what_toml_reads_as_one() -> None:
    """Whoever agreed was shown lines of settings that a comment held."""
    old = "low = 1\n"
    new = "low = 1 # fine\u2028high = 300\x85more\n"
    lines = people_pages._diff(old, new)
    assert [(line.kind, line.words) for line in lines if line.kind != "hunk"] == [
        ("removed", "low = 1"),
        ("added", "low = 1 # fine\u2028high = 300\x85more"),
    ]


def test_a_change_on_pages_takes_two(here: Site, eve: Visitor, joe: Visitor) -> None:
    at = f"/i/{CABINS}/changes"
    text = here.get(f"/v1/instances/{CABINS}/declaration", here.ann).json()["declaration"]
    wrong = eve.post(at, {"declaration": "name = <b>", "reason": "my reason"})
    assert wrong.status_code == 422
    assert "my reason" in wrong.text
    assert "name = &lt;b&gt;" in wrong.text
    new = text.replace("bulk = 3", "bulk = 2").replace("\n", "\r\n")  # as browsers send it
    answer = eve.post(at, {"declaration": new, "reason": "fewer"})
    to = answer.headers["location"]
    words = told(eve, answer, to)
    assert "Proposed: somebody else must agree." in words
    assert "bulk = 2" in words
    content = hidden(eve.get(to).text, "content")
    before = here.heads()
    own = eve.post(f"{to}/agree", {"content": content, "reason": "yes"})
    assert own.status_code == 403
    blind = joe.post(f"{to}/agree", {"content": "0" * 32, "reason": "yes"})
    assert blind.status_code == 422
    assert joe.post(f"{to}/postpone", {"reason": "x"}).status_code == 422
    assert here.heads() == before
    done = joe.post(f"{to}/agree", {"content": content, "reason": "yes"})
    assert "The change is in force." in told(joe, done, at)
    assert joe.post(f"{to}/agree", {"content": content, "reason": "yes"}).status_code == 409
    found = here.get(f"/v1/instances/{CABINS}/declaration", here.ann).json()["declaration"]
    assert found == text.replace("bulk = 3", "bulk = 2")
    settled = joe.get(to)
    assert settled.status_code == 200
    assert "Approved by Joe" in _text(settled)
    assert "Proposed by Eve" in _text(settled)
    assert "bulk = 2" in settled.text
    assert "Put it in force" not in settled.text
    listed = _text(joe.get(at))
    assert "Nothing was changed yet" not in listed
    assert re.search(r"In force since .* UTC : change \d+ ", listed)
    assert re.search(r"fewer Eve .* UTC approved (.* )?first cy .* UTC declared", listed)


# Settings and errors


def test_settings_are_kept_in_the_browser(here: Site, joe: Visitor) -> None:
    form = {"theme": "dark", "keys": "off", "refresh": "<on>", "back": f"{AT}/queue"}
    answer = joe.post("/settings", form)
    assert "Your settings are kept in this browser." in told(joe, answer, f"{AT}/queue")
    kept = {name: joe.cookies[f"gdcb-{name}"] for name in ("theme", "keys", "refresh")}
    assert kept == {"theme": "dark", "keys": "off", "refresh": "on"}
    assert joe.post("/settings", {"theme": "pink"}).status_code == 400
    joe.cookies["gdcb-theme"] = '"><script>'
    page = joe.get("/settings")
    assert page.status_code == 200
    assert "<script>alert" not in page.text
    joe.cookies["gdcb-told"] = "done:%3Cscript%3Ealert(1)%3C/script%3E"
    assert "<script>alert" not in joe.get("/settings").text


def test_people_get_pages_and_programs_get_json(here: Site, eve: Visitor) -> None:
    for path, status in ((f"{AT}/d/nothing", 404), ("/nothing", 404), ("/i/nowhere/queue", 404)):
        page = eve.get(path)
        assert page.status_code == status
        assert page.headers["content-type"].startswith("text/html")
        assert page.headers["x-request-id"] in page.text
        answer = eve.get(path, accept="application/json")
        assert answer.status_code == status
        problem(answer)
    assert problem(eve.get("/v1/nothing"))["code"] == "not_found"
    poor = visitor(here, "poor", ("decide", ROOMS))
    page = poor.get(f"{AT}/queue")
    assert page.status_code == 403
    assert "Somebody with the role can do it, or grant it to you." in _text(page)
    assert eve.get(f"{AT}/d/x/veto").status_code in (404, 405)


def test_our_own_trouble_is_a_page(
    here: Site, eve: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def take(self, *_: Any) -> None:
            raise RuntimeError("the secret is 42")

    monkeypatch.setattr(here.house, "limiter", Broken())
    page = eve.get(f"{AT}/queue")
    assert page.status_code == 500
    assert "something went wrong on our side" in _text(page)
    assert "secret" not in page.text


def test_files_of_the_package_and_no_others(here: Site) -> None:
    css = here.get("/static/gdcb.css")
    assert (css.status_code, css.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert css.headers["cache-control"] == "public, max-age=3600"
    names = ("..%2Frender.py", "../render.py", "render.py", ".css", "x" * 300)
    for name in (*names, "x" * 300 + ".css", "GDCB.css", "gdcb.css.css"):
        assert here.get(f"/static/{name}").status_code == 404, name
    assert here.get("/favicon.ico").status_code == 204
