"""The operator's dashboard and the auditor's pages, as browsers of people with other roles ask."""

from __future__ import annotations

import html
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from gdcb import events as ev
from gdcb.history.page import certificate_page
from gdcb.ledger.evidence import verify
from gdcb.ledger.live import Live, opened
from gdcb.ledger.sql import SqlStore
from gdcb.service import demo, operating
from gdcb.service.access import Principal
from gdcb.service.app import build
from gdcb.service.desk import Desk
from gdcb.service.figures import searching
from gdcb.service.figures.searching import Question, by_id, search
from gdcb.service.house import House, Settings
from gdcb.service.pages.views.audit import AuditFilters
from gdcb.service.web.audit import question_of
from tests.page_checks import is_whole
from tests.service import desks
from tests.service.access_builders import person, session
from tests.service.desks import Office, night

ROLES = ("decide", "outcome", "approve", "operate", "audit", "administer")
CERTIFICATE = {"verdict": "refuse", "reasons": ["Outcomes are missing."], "log": "<b>a log</b>"}
HOSTILE = "<script>alert('x')</script> & \"quoted\" {{ 7*7 }} \u202eback"


@dataclass
class Site:
    """A service over a ledger, and people who look at it."""

    house: House
    client: TestClient
    name: str
    _people: dict[str, str] = field(default_factory=dict)

    def as_(self, *roles: str) -> Browser:
        """Return the browser of somebody with these roles on the instance."""
        login = "-".join(roles) or "nobody"
        if login not in self._people:
            given = [(role, self.name) for role in roles]
            made: Principal = person(self.house.books, login, *given)
            self._people[login] = session(self.house.books, made)
        return Browser(self, self._people[login])


@dataclass
class Browser:
    site: Site
    token: str

    def get(self, path: str = "", **asked: str) -> Any:
        """Ask for a page of the instance; redirects are not followed."""
        return self.site.client.get(
            f"/i/{self.site.name}{path}",
            params=asked,
            headers={"cookie": f"gdcb={self.token}", "accept": "text/html"},
            follow_redirects=False,
        )

    def post(self, path: str, token: str | None = None, **fields: str) -> Any:
        """Send a form as a page of ours does."""
        csrf = self.site.house.door.form_token({"cookie": f"gdcb={self.token}"})
        return self.site.client.post(
            f"/i/{self.site.name}{path}",
            data={"csrf": csrf if token is None else token, **fields},
            headers={
                "cookie": f"gdcb={self.token}",
                "accept": "text/html",
                "origin": "http://testserver",
            },
            follow_redirects=False,
        )


def words(answer: Any) -> str:
    """Return what a page says, without its tags."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", answer.text)))


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Furnish the demo once; in place of its history, which takes long, a certificate is filed."""
    path = tmp_path_factory.mktemp("demo") / "demo.db"
    store = SqlStore(path)

    def filed(desk: Desk, *_: object) -> None:
        event = ev.CertificateGiven("a log", "ab", CERTIFICATE)
        desk.submit(lambda turn: turn.add(event, "ann")).result()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "import_log", filed)
        demo.furnish(store)
    store.close()
    return path


def open_site(path: Path | str, name: str) -> Iterator[Site]:
    store = SqlStore(path)
    house = House(store, Settings(base_url="http://testserver", tick=0.0))
    with TestClient(build(house)) as client:
        yield Site(house, client, name)
    store.close()


@pytest.fixture(scope="module")
def site(ledger: Path) -> Iterator[Site]:
    """Open a service over the demo that tests only look at."""
    yield from open_site(ledger, demo.NAME)


@pytest.fixture(scope="module")
def live(site: Site) -> Live:
    """Fold the demo once."""
    return opened(site.house.store, demo.NAME)


@pytest.fixture
def desk_site(sqlite_template: Path, tmp_path: Path) -> Iterator[Site]:
    """Open a service over a small instance of its own."""
    path = shutil.copy(sqlite_template, tmp_path / "small.db")
    store = SqlStore(path)
    operating.create(store, desks.learning(), "ann", "first", seed=7)
    store.close()
    yield from open_site(path, "rooms")


def office(site: Site) -> Office:
    """Return the desk of a site, to decide and answer at."""
    made = Office.__new__(Office)
    made.store, made.chain, made.desk = site.house.store, site.name, site.house.desk(site.name)
    return made


# Who may


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("", {"operate", "audit"}),
        ("/audit", {"audit"}),
        ("/certificate", {"operate", "audit", "approve", "administer"}),
        ("/d/day03.4/evidence", {"operate", "audit", "approve"}),
    ],
)
@pytest.mark.parametrize("role", ROLES)
def test_pages_by_role(site: Site, role: str, path: str, allowed: set[str]) -> None:
    answer = site.as_(role).get(path)
    if role in allowed:
        assert answer.status_code == 200
    elif not path and role in ("approve", "administer"):
        to = "queue" if role == "approve" else "changes"
        assert (answer.status_code, answer.headers["location"]) == (303, f"/i/str/{to}")
    else:
        assert answer.status_code == 403
        assert f"this needs the role '{sorted_first(path)}'" in words(answer)


def sorted_first(path: str) -> str:
    """Return the role that a refusal names."""
    return {"": "operate", "/certificate": "operate"}.get(path, "audit")


@pytest.mark.parametrize("path", ["", "/audit", "/certificate", "/d/day03.4/evidence"])
def test_nobody_is_sent_to_sign_in(site: Site, path: str) -> None:
    answer = Browser(site, "").get(path)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/sign-in?then=%2Fi%2Fstr")


@pytest.mark.parametrize("role", [role for role in ROLES if role != "operate"])
def test_only_who_operates_operates(desk_site: Site, role: str) -> None:
    for what in ("pause", "resume", "refit"):
        answer = desk_site.as_(role).post(f"/{what}", reason="why not", confirm="yes")
        assert answer.status_code == 403
    assert desk_site.house.store.head("rooms").size == 1


def test_forms_of_others_do_nothing(desk_site: Site) -> None:
    for what in ("pause", "resume", "refit", "d/x/replay"):
        answer = desk_site.as_("operate").post(f"/{what}", "forged", reason="r", confirm="yes")
        assert answer.status_code == 403
    assert desk_site.house.store.head("rooms").size == 1


# Without a gate


def test_every_page_of_an_ungated_instance_says_so(
    sqlite_template: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Dashboard, queue, audit, changes, evidence and the list of instances; and the log."""
    path = shutil.copy(sqlite_template, tmp_path / "small.db")
    store = SqlStore(path)
    operating.create(store, desks.ungated(), "ann", "first", seed=7)
    store.close()
    for site in open_site(path, "rooms"):
        said = "Ungated : no rule and no person stands between a proposal and what runs."
        office(site).decide("d1", [night()])
        assert "instance rooms runs ungated" in caplog.text
        look = site.as_("operate", "audit", "approve", "administer")
        for page in ("", "/queue", "/audit", "/changes", "/d/d1.0/evidence"):
            assert said in words(look.get(page)), page
        assert "Ungated: there was no gate." in words(look.get("/d/d1.0/evidence"))
        assert "ungated: there was no gate." in words(look.get("/d/d1.0/evidence.html"))
        assert "Every proposal runs as it is." in words(look.get(""))
        seen = words(look.get("/d/d1.0"))
        assert "Each runs as it is: there is no gate." in seen
        for page in ("", "/d/d1.0"):
            assert "enters the gates" not in words(look.get(page))
            assert "ehind all gates" not in words(look.get(page))
        home = site.client.get("/", headers={"cookie": f"gdcb={look.token}", "accept": "text/html"})
        assert " ungated " in words(home)


def test_pages_behind_gates_do_not_say_ungated(desk_site: Site) -> None:
    said = words(desk_site.as_("operate").get(""))
    assert "ngated" not in said
    assert "Every proposal enters the gates." in said


# The dashboard


def test_the_dashboard_of_the_demo(site: Site, live: Live) -> None:
    browser = site.as_("operate")
    for _ in range(100):  # what takes long comes later
        answer = browser.get()
        if "verified to entry" in words(answer) and "calibration" in answer.text:
            break
        time.sleep(0.1)
    said = words(answer)
    assert f"verified to entry {len(live.events) - 1} of {len(live.events) - 1}" in said
    assert "Holdback" in said
    assert "90 % of decisions" in said
    assert f"{len(live.waiting)} waiting" in said
    assert f"Version {len(live.events):,}" in said
    assert "Nothing was learned from that history." in said
    assert "revenue manager" in said
    assert "Mean reward a decision" in said
    assert "Predicted and observed, by bin" in said
    assert "Share of executed decisions whose outcome is known, by age" in said
    assert "no figures" not in said.lower()
    assert "<style" not in answer.text
    assert "style=" not in answer.text


def test_an_empty_instance_has_a_dashboard(desk_site: Site) -> None:
    said = words(desk_site.as_("audit").get())
    assert "No decisions yet." in said
    assert "There is no holdback, or no outcome yet." in said
    assert "No certificate" in said
    assert "Pause" not in said


def test_regret_says_why_there_is_none(desk_site: Site) -> None:
    browser = desk_site.as_("operate")
    office(desk_site).decide("a", [night(), night(0.9)])
    for _ in range(100):
        said = words(browser.get())
        if "it takes 60 live decisions" in said:
            break
        time.sleep(0.05)
    assert "it takes 60 live decisions with an outcome; there are 0" in said


def test_drift_alarms_and_that_nothing_is_watched(desk_site: Site) -> None:
    browser, made = desk_site.as_("operate"), office(desk_site)
    said = words(browser.get())
    assert "Nothing is watched yet: the first part of the log is still being taken" in said
    assert "No drift alarm" not in said
    told = ev.DriftFound("reward", 1, 0.1, 0.4, 7.0, 5.0, 0.05, "It fell by a lot.")
    made.do(lambda turn: turn.add(told, "ann"))
    said = words(browser.get())
    assert "1 drift alarm Newest first" in said
    assert "reward It fell by a lot." in said
    assert "No drift alarm" not in said


def test_a_watched_log_without_an_alarm_says_so(site: Site) -> None:
    said = words(site.as_("operate").get())
    assert "No drift alarm Gates, rewards and contexts are watched" in said


# Pause, resume, refit


def test_pause_and_resume(desk_site: Site) -> None:
    browser, live = desk_site.as_("operate"), office(desk_site)
    asked = browser.post("/pause", reason="sensors changed")
    assert asked.status_code == 200
    assert "Pause now?" in words(asked)
    assert 'value="sensors changed"' in asked.text
    assert live.look(lambda live: live.paused) is None
    done = browser.post("/pause", reason="sensors changed", confirm="yes")
    assert (done.status_code, done.headers["location"]) == (303, "/i/rooms")
    paused = live.look(lambda live: live.paused)
    assert paused is not None
    assert paused[0].reason == "sensors changed"
    assert paused[2].startswith("Operate [")
    assert "sensors changed" in words(browser.get())
    again = browser.post("/pause", reason="twice", confirm="yes")
    assert "was%20paused%20already" in again.headers["set-cookie"]
    assert "Resume now?" in words(browser.post("/resume", reason="mended"))
    assert browser.post("/resume", reason="mended", confirm="yes").status_code == 303
    assert live.look(lambda live: live.paused) is None


@pytest.mark.parametrize("reason", ["", "   ", "x" * 2_001])
def test_without_a_reason_nothing_is_done(desk_site: Site, reason: str) -> None:
    for what in ("pause", "resume"):
        answer = desk_site.as_("operate").post(f"/{what}", reason=reason, confirm="yes")
        assert answer.status_code == 303
        assert "problem%3Areason" in answer.headers["set-cookie"]
    assert desk_site.house.store.head("rooms").size == 1


def test_refit_is_asked_about_first(desk_site: Site) -> None:
    browser, made = desk_site.as_("operate"), office(desk_site)
    made.decide("a", [night()])
    asked = browser.post("/refit")
    assert "Refit the scaler now?" in words(asked)
    assert "ScalerFitted" not in made.kinds()
    done = browser.post("/refit", confirm="yes")
    assert "1%20fit%20put%20in%20force" in done.headers["set-cookie"]
    assert made.kinds().count("ScalerFitted") == 1


def test_what_cannot_be_refitted_says_so(sqlite_template: Path, tmp_path: Path) -> None:
    path = shutil.copy(sqlite_template, tmp_path / "plain.db")
    store = SqlStore(path)
    operating.create(store, desks.plain(), "ann", "first")
    store.close()
    for made in open_site(path, "rooms"):
        refused = made.as_("operate").post("/refit", confirm="yes")
        assert "learns%20nothing" in refused.headers["set-cookie"]


# The certificate


def test_the_certificate_has_its_own_style_and_nothing_else(site: Site) -> None:
    answer = site.as_("audit").get("/certificate")
    policy = answer.headers["content-security-policy"]
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[A-Za-z0-9+/]{43}='; form-action 'none'; "
        r"frame-ancestors 'none'; base-uri 'none'",
        policy,
    )
    assert answer.text == certificate_page(CERTIFICATE)
    assert "style=" not in answer.text
    assert "&lt;b&gt;a log&lt;/b&gt;" in answer.text


def test_without_a_history_there_is_no_certificate(desk_site: Site) -> None:
    assert desk_site.as_("audit").get("/certificate").status_code == 404


# Search


def everything(live: Live) -> list[str]:
    """Return all decisions, newest first."""
    found: list[str] = []
    for event in live.events:
        if isinstance(event, ev.DecisionMade):
            found += event.id
    return found[::-1]


@pytest.mark.parametrize(
    "asked",
    [
        Question(),
        Question(status="vetoed"),
        Question(status="held"),
        Question(unit="Quay Loft"),
        Question(unit="Quay"),
        Question(rule="revenue manager"),
        Question(who="INES"),
        Question(who="demo", status="modified"),
    ],
    ids=str,
)
def test_search_finds_what_a_loop_finds(site: Site, live: Live, asked: Question) -> None:
    store = site.house.store
    expected = [id for id in everything(live) if fits(live, id, asked)]
    found: list[str] = []
    after, pages = "", []
    while True:
        answer = search(store, demo.NAME, live.instance, asked, after=after)
        pages.append([one.record.id for one in answer.rows])
        found += pages[-1]
        assert answer.reached is None
        after = answer.after
        if not after:
            break
    assert found == expected
    if len(pages) > 1:  # and back again
        answer = search(store, demo.NAME, live.instance, asked, before=answer.before)
        assert [one.record.id for one in answer.rows] == pages[-2]


def fits(live: Live, id: str, asked: Question) -> bool:
    record = live.records[id]
    events = [live.events[t.seq] for t in live.store.touches(live.chain, [id.rpartition(".")[0]])]
    answered = [e.by for e in events if isinstance(e, ev.Reviewed) and e.id == id]
    is_asked = bool(answered) or id in live.waiting
    who = [demo.BY, *answered]
    return (
        asked.status in ("", record.status)
        and asked.unit in ("", record.unit)
        and (not asked.rule or is_asked)
        and (not asked.who or any(asked.who.lower() in name.lower() for name in who))
    )


def test_a_long_search_says_how_far_it_came(site: Site, live: Live) -> None:
    store = site.house.store
    asked = Question(status="vetoed")
    whole = search(store, demo.NAME, live.instance, asked)
    found: list[str] = []
    after, n_parts = "", 0
    while True:
        answer = search(store, demo.NAME, live.instance, asked, after=after, most=1)
        found += [one.record.id for one in answer.rows]
        n_parts += 1
        if not answer.after:
            break
        assert answer.reached is not None
        after = answer.after
    assert n_parts > 1
    assert found == [one.record.id for one in whole.rows]


def test_the_page_of_a_long_search(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "BLOCK", 20)
    monkeypatch.setattr(searching, "MOST_ROWS", 1)
    said = words(site.as_("audit").get("/audit", status="vetoed"))
    assert "Nothing was found so far. Searched back to" in said


def test_days(site: Site, live: Live) -> None:
    store = site.house.store
    record = live.records["day05.0"]
    at = live.time_of(record.made.version)
    answer = search(store, demo.NAME, live.instance, Question(since=at, until=at + 1), size=100)
    assert [one.record.id for one in answer.rows] == [f"day05.{i}" for i in reversed(range(16))]


@pytest.mark.parametrize(
    ("id", "found"),
    [("day05.3", ["day05.3"]), ("day05", [f"day05.{i}" for i in range(16)]), ("day05.16", [])],
)
def test_by_id(site: Site, id: str, found: list[str]) -> None:
    instance = site.house.desk(demo.NAME).instance
    answer = by_id(site.house.store, demo.NAME, instance, id)
    assert [one.record.id for one in answer.rows] == found
    assert (answer.before, answer.after, answer.total) == ("", "", len(found))


@pytest.mark.parametrize("size", [1, 7, 50, 75, 150])
def test_all_of_a_large_request(site: Site, size: int) -> None:
    """Every row is on one page, in the order of the request; and back again."""
    store, instance = site.house.store, site.house.desk(demo.NAME).instance
    after = ""
    pages: list[list[str]] = []
    while not pages or after:
        answer = by_id(store, demo.NAME, instance, "day30", after=after, size=size)
        assert answer.total == 150
        pages.append([one.record.id for one in answer.rows])
        after = answer.after
    assert [id for page in pages for id in page] == [f"day30.{i}" for i in range(150)]
    assert len(pages) == -(-150 // size)
    for page in reversed(pages[:-1]):
        answer = by_id(store, demo.NAME, instance, "day30", before=answer.before, size=size)
        assert [one.record.id for one in answer.rows] == page
    assert answer.before == ""


@pytest.mark.parametrize("cursor", ["x", "7.0", "999999.3", "-1.0"])
def test_cursors_of_others_begin_a_request_anew(site: Site, cursor: str) -> None:
    store, instance = site.house.store, site.house.desk(demo.NAME).instance
    for after, before in ((cursor, ""), ("", cursor)):
        answer = by_id(store, demo.NAME, instance, "day30", after=after, before=before)
        assert answer.rows[0].record.id == "day30.0"


def test_the_page_of_a_large_request_counts_all_of_it(site: Site) -> None:
    browser = site.as_("audit")
    first = browser.get("/audit", id="day30")
    assert "150 decisions, in the order of the request: 50 on this page" in words(first)
    older = re.search(r'rel="next"[^>]*href="[^"]*after=([^"&]*)"', first.text)
    assert older is not None
    second = browser.get("/audit", id="day30", after=older[1])
    assert "day30.50 " in words(second)
    assert "day30.49 " not in words(second)
    assert 'rel="prev"' in second.text


@pytest.mark.parametrize("cursor", ["x", "7", "7.", ".3", "9" * 60 + ".1", "-1.0", "７.0", "1.2.3"])
def test_cursors_of_others_are_no_cursors(site: Site, cursor: str) -> None:
    first = words(site.as_("audit").get("/audit"))
    found = site.as_("audit").get("/audit", after=cursor)
    assert found.status_code == 200
    assert words(found).count("day30.149") == first.count("day30.149") == 1


@pytest.mark.parametrize(
    ("filters", "problem"),
    [
        ({"status": "lost"}, "status: expected one of passed, modified, vetoed, held, expired"),
        ({"since": "May"}, "from: expected a day such as 2026-05-01, got 'May'"),
        ({"until": "2026-02-30"}, "to: expected a day such as 2026-05-01, got '2026-02-30'"),
        ({"until": "9999-12-31"}, "to: expected a day such as 2026-05-01, got '9999-12-31'"),
        ({"since": "2026-02-03", "until": "2026-02-01"}, "from: expected a day before the last"),
    ],
)
def test_questions_that_are_none(filters: dict[str, str], problem: str) -> None:
    asked, said = question_of(AuditFilters(**filters))
    assert asked is None
    assert said.startswith(problem)


def test_the_search_page(site: Site) -> None:
    browser = site.as_("audit")
    first = browser.get("/audit", rule="revenue manager")
    assert first.text.count("/evidence") == 50
    older = re.search(r'rel="next"[^>]*href="([^"]*)"', first.text)
    assert older is not None
    address = html.unescape(older[1]).removeprefix("/i/str")
    path, _, query = address.partition("?")
    second = browser.get(path, **dict(pair.split("=", 1) for pair in query.split("&")))
    assert second.status_code == 200
    bad = browser.get("/audit", **{"from": "May"})
    assert bad.status_code == 422
    assert "expected a day such as" in words(bad)
    one = words(browser.get("/audit", id="day05.3"))
    assert "1 decision, in the order of the request" in one
    assert "Nothing found." in words(browser.get("/audit", id="nope"))


# Evidence


@pytest.mark.parametrize("id", ["day01.0", "day30.149"])
def test_the_evidence_page(site: Site, live: Live, id: str) -> None:
    record = live.records[id]
    answer = site.as_("audit").get(f"/d/{id}/evidence")
    said = words(answer)
    assert answer.status_code == 200
    assert record.unit in said
    assert "Equal. Made again from the chain" in said
    assert "The path leads to the root." in said
    assert "occupancy" in said
    assert live.instance.space.names[int(record.made.arm[record.at])] in said


def test_evidence_of_an_answered_decision(site: Site, live: Live) -> None:
    asked = Question(status="modified", rule="revenue manager")
    found = search(site.house.store, demo.NAME, live.instance, asked).rows[0]
    said = words(site.as_("approve").get(f"/d/{found.record.id}/evidence"))
    assert "edited" in said
    assert found.answered_by in said
    again = site.as_("audit").post(f"/d/{found.record.id}/replay")
    assert again.status_code == 200
    assert "Equal. Made again from the chain" in words(again)


def test_evidence_can_be_taken_away(site: Site, live: Live) -> None:
    """The page links to the document and to the page that is filed, and says what was answered."""
    asked = Question(status="modified", rule="revenue manager")
    found = search(site.house.store, demo.NAME, live.instance, asked).rows[0]
    id, browser = found.record.id, site.as_("audit")
    shown = browser.get(f"/d/{id}/evidence")
    for kind in ("html", "json"):
        assert f'href="/i/str/d/{id}/evidence.{kind}"' in shown.text
    document = browser.get(f"/d/{id}/evidence.json")
    named = document.headers["content-disposition"]
    assert named == f'attachment; filename="evidence-{id}.json"'
    assert verify(document.json()) == []
    filed = browser.get(f"/d/{id}/evidence.html")
    assert "attachment" in filed.headers["content-disposition"]
    is_whole(filed.text)
    codes = site.house.desk(demo.NAME).policy.codes
    (answer,) = document.json()["reviews"]
    sentence = codes[answer["code"]]
    assert sentence != answer["code"]
    assert sentence in words(filed)
    # In the timeline with what it was changed to, and among the people.
    assert re.search(rf"Reviewed .*? edited to price [\d.]+: {re.escape(sentence)}", words(shown))
    assert words(shown).count(sentence) >= 2


def test_evidence_of_what_never_was(site: Site) -> None:
    answer = site.as_("audit").get("/d/nope/evidence")
    assert answer.status_code == 404
    assert "no decision 'nope' was made here" in words(answer)


def test_evidence_as_json_proves_itself(site: Site) -> None:
    token = site.as_("audit").token
    path = f"/v1/instances/{demo.NAME}/decisions/day07.2/evidence"
    answer = site.client.get(path, headers={"cookie": f"gdcb={token}"})
    assert answer.status_code == 200
    document = answer.json()
    assert document["id"] == "day07.2"
    assert verify(document) == []
    refused = site.client.get(path, headers={"cookie": f"gdcb={site.as_('decide').token}"})
    assert refused.status_code == 403
    assert refused.json()["error"]["code"] == "not_allowed"
    assert site.client.get(path).status_code == 401


# Hostile text


def test_hostile_text_stays_text(desk_site: Site) -> None:
    made, browser = office(desk_site), desk_site.as_("operate", "audit", "approve")
    made.decide("bad", night(0.9), unit=HOSTILE, by=HOSTILE[:60])
    made.answer("bad", "veto", by=HOSTILE[:60], reason=HOSTILE)
    browser.post("/pause", reason=HOSTILE, confirm="yes")
    pages = [
        browser.get(),
        browser.get("/audit"),
        browser.get("/audit", unit=HOSTILE),
        browser.get("/audit", id=HOSTILE),
        browser.get("/audit", who=HOSTILE, rule=HOSTILE),
        browser.get("/audit", **{"from": HOSTILE}),
        browser.get("/d/bad/evidence"),
        browser.post("/resume", reason=HOSTILE),
    ]
    for answer in pages:
        assert "<script>alert" not in answer.text
        assert "alert(&#39;x&#39;)" in answer.text
        assert "{{ 7*7 }}" in answer.text
