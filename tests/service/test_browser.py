"""The whole service in a real browser: what people do there, and what the ledger has of it."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Response, expect

from gdcb import events as ev
from gdcb.service.desk import now
from tests.browser import chromium
from tests.service.test_pages_browser import AXE, LOOK_RULES, LOOKS, Look, focused, violations
from tests.service.visiting import (
    CABINS,
    ROOMS,
    SHORT,
    Visited,
    Visitor,
    declared,
    furnish,
    visited,
    visitor,
)

QUEUE = f"/i/{ROOMS}/queue"
_SMALL = """() => [...document.querySelectorAll(
    "button, input:not([type=hidden]), select, textarea, summary, nav a, .open, a.button")]
  .map(e => e.matches(".target input, .check input") ? e.closest("label") : e)
  .map(e => [e.getBoundingClientRect(), e.outerHTML.slice(0, 90)])
  .filter(([r]) => r.width > 0 && (r.height < 23.9 || r.width < 23.9)).map(([r, h]) => h)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("furnished") / "gdcb.db"
    furnish(path)
    return path


@pytest.fixture
def there(furnished: Path, tmp_path: Path) -> Iterator[Visited]:
    """A service of its own for every test."""
    with visited(furnished, tmp_path / "gdcb.db") as found:
        yield found


@pytest.fixture
def ann(browser: Browser, there: Visited) -> Iterator[Visitor]:
    """Somebody who may everything."""
    found = visitor(browser, there, "ann")
    yield found
    found.context.close()
    assert found.trouble == []


@pytest.fixture
def bob(browser: Browser, there: Visited) -> Iterator[Visitor]:
    """Somebody else who may everything."""
    found = visitor(browser, there, "bob")
    yield found
    found.context.close()
    assert found.trouble == []


def opened(page: Page, path: str) -> Response:
    """Open a page, and return what came."""
    answer = page.goto(path)
    assert answer is not None
    return answer


def review(id: str, chain: str = ROOMS) -> str:
    """Return the address of a decision."""
    return f"/i/{chain}/d/{id}"


def trouble_of(page: Page, looks: list[Look]) -> list[str]:
    """Return what axe finds on the page that is open, and whether it is too wide, in some looks."""
    page.evaluate(AXE.axe_script)
    found = []
    for i, (scheme, width) in enumerate(looks):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 800})
        trouble = violations(page, LOOK_RULES if i else None)
        wide = page.evaluate("document.documentElement.scrollWidth")
        trouble += [f"{wide} px wide"] if wide > width else []
        found += [f"{page.url}, {scheme}, {width} px: {one}" for one in trouble]
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 800})
    return found


def is_fine(page: Page) -> bool:
    """Whether axe finds nothing on the page that is open, in light and in dark."""
    assert trouble_of(page, [("light", 1280), ("dark", 360)]) == []
    return True


# Sign in and out


def test_the_printed_link_signs_in_once(browser: Browser, tmp_path: Path) -> None:
    """`gdcb serve` as it is started by hand: its link opens a session, and no second one."""
    declaration = tmp_path / "rooms.toml"
    declaration.write_text(declared(ROOMS, "Rooms by the sea"), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["serve", str(declaration), "--db", str(tmp_path / "gdcb.db"), "--port", str(port)]
    with subprocess.Popen(
        [sys.executable, "-m", "gdcb", *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        try:
            _sign_in_once(browser, _printed(process), port)
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=20) is not None


def _sign_in_once(browser: Browser, link: str, port: int) -> None:
    _await_port(port)
    first, second = (browser.new_context(reduced_motion="reduce") for _ in range(2))
    page = first.new_page()
    page.goto(link)
    assert is_fine(page)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Instances").wait_for()
    assert is_fine(page)
    page.get_by_role("link", name="Rooms by the sea", exact=True).click()
    page.get_by_role("heading", name="Dashboard").wait_for()
    [cookie] = [one for one in first.cookies() if one.get("name") == "gdcb"]
    assert (cookie.get("httpOnly"), cookie.get("sameSite")) == (True, "Strict")
    other = second.new_page()
    other.goto(link)
    expect(other.get_by_role("alert")).to_contain_text("used already")
    assert other.get_by_role("button", name="Sign in").count() == 0
    assert second.cookies() == []
    first.close()
    second.close()


def _printed(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(r"http://\S+\?link=\w+", line)
        if found:
            return found[0]
    pytest.fail(f"gdcb serve ended with {process.wait()} and printed no link")


def _await_port(port: int) -> None:
    limit = time.monotonic() + 30
    while time.monotonic() < limit:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail("gdcb serve did not listen within 30 s")


def test_sign_out_ends_the_session(ann: Visitor, there: Visited) -> None:
    """The cookie is gone, the session too, and the way back leads to the door."""
    page = ann.page
    page.goto(QUEUE)
    [token] = [one.get("value") for one in ann.context.cookies() if one.get("name") == "gdcb"]
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in")
    assert is_fine(page)
    assert all(one.get("name") != "gdcb" for one in ann.context.cookies())
    assert there.house.door.authenticate({"cookie": f"gdcb={token}"}) is None
    page.go_back()
    page.wait_for_url("**/sign-in?then=*")
    assert "Waiting for a person" not in page.content()


def test_a_password_of_ones_own_without_script(browser: Browser, there: Visited) -> None:
    """By the link once; then a password, set and changed by plain forms, opens the door."""
    found = visitor(browser, there, java_script_enabled=False)
    page, first, second = found.page, "correct horse battery", "another horse altogether"
    page.goto(there.link("dana"))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("status").first).to_contain_text("Set one under Account")
    page.get_by_role("link", name="Account").click()
    for present, new in (("", first), (first, second)):
        if present:
            page.get_by_label("Present password").fill(present)
        page.get_by_label("New password").fill(new)
        page.get_by_label("The same again").fill(new)
        page.get_by_role("button", name="Change it" if present else "Set it").click()
        page.wait_for_url("**/sign-in")
        expect(page.get_by_role("status").first).to_contain_text("Your password is set.")
        page.get_by_label("Login").fill("dana")
        page.get_by_label("Password").fill(new)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="Instances").wait_for()
        page.goto("/account")
    page.get_by_role("button", name="Sign out everywhere").click()
    page.wait_for_url("**/sign-in")
    assert opened(page, "/account").url.endswith("/sign-in?then=%2Faccount")
    found.context.close()


def test_the_account_page_has_no_violation(browser: Browser, there: Visited) -> None:
    """Without a password, with one, and where it was not changed."""
    found = visitor(browser, there, "eli")
    page = found.page
    page.goto("/account")
    assert is_fine(page)
    page.get_by_label("New password").fill("correct horse battery")
    page.get_by_label("The same again").fill("another horse altogether")
    page.get_by_role("button", name="Set it").click()
    expect(page.get_by_role("alert")).to_contain_text("the two new passwords are not the same")
    assert is_fine(page)
    found.context.close()
    assert found.trouble == []


# Review


def test_a_review_by_keys_alone(ann: Visitor, there: Visited) -> None:
    """Approve, edit and veto from the queue without a pointer; the ledger has all three."""
    there.hold("kb", 3)
    page, press = ann.page, ann.page.keyboard.press
    page.goto(QUEUE)
    for key in ("j", "j", "k", "Enter"):
        press(key)
    page.wait_for_url("**/d/kb.*")
    first = page.url.rpartition("/")[2]
    size = there.size()
    press("a")
    assert focused(page).startswith("approve Approve")
    assert there.size() == size
    press("Enter")
    expect(page.get_by_role("status").first).to_contain_text(f"You approved {first}")
    [answer] = there.answers(first)
    assert (answer.verdict, answer.code, answer.by.partition(" [")[0]) == ("approve", "fits", "Ann")
    assert there.ran(first) == pytest.approx(there.record(first).entered[0])

    second = page.url.rpartition("/")[2]
    press("e")
    assert focused(page) == "edit action.price"
    page.keyboard.type("123.5")
    for _ in range(2):
        press("Tab")
    page.keyboard.type("Too high")
    press("Tab")
    page.keyboard.type("quiet street, j k a e v")
    press("Tab")
    assert focused(page) == "edit Run it as edited"
    press("Enter")
    expect(page.get_by_role("status").first).to_contain_text(f"You edited {second}")
    [answer] = there.answers(second)
    assert (answer.verdict, answer.code) == ("edit", "too-high")
    assert answer.reason == "quiet street, j k a e v"
    assert there.ran(second) == 123.5

    third = page.url.rpartition("/")[2]
    press("v")
    page.keyboard.type("Not now")
    for key in ("Tab", "Tab", "Enter"):
        press(key)
    page.wait_for_url(f"**{QUEUE}")
    [answer] = there.answers(third)
    assert (answer.verdict, answer.code) == ("veto", "not-now")
    assert there.record(third).status == "vetoed"
    assert {first, second, third} == {"kb.0", "kb.1", "kb.2"}
    assert there.waiting() == set()
    expect(page.get_by_text("Nothing waits for you")).to_be_visible()
    assert is_fine(page)


def test_an_edit_is_previewed_as_it_is_typed(ann: Visitor, there: Visited) -> None:
    """Arm, value and the gates behind appear; nothing is decided by it."""
    there.hold("pre")
    page = ann.page
    page.goto(f"{review('pre')}#edit")
    size = there.size()
    page.get_by_label("price").fill("119")
    preview = page.locator("#preview")
    expect(preview).to_contain_text("Nearest arm")
    expect(preview).to_contain_text("Gate limits")
    expect(preview).to_contain_text("lets it through")
    expect(preview).to_contain_text("As it is")
    left = """field => { field.value = "500"; field.dispatchEvent(new Event("input"));
    return document.querySelector("#preview").textContent; }"""
    # Above the bounds: what stood there is no answer to it, and goes at once.
    assert page.get_by_label("price").evaluate(left) == ""
    expect(preview).to_contain_text("changed: 300")
    expect(preview.locator(".problem")).to_contain_text("300")  # the form would not send it
    page.get_by_label("price").fill("")
    expect(preview).to_contain_text("expected a number")
    page.get_by_label("price").fill("500")
    page.get_by_role("button", name="See what it does").click()
    expect(preview).to_contain_text("changed: 300")
    assert there.size() == size
    assert there.waiting() == {"pre"}


@pytest.mark.parametrize("typed", ["112,5", "1,250", "1 250"])
def test_a_decimal_comma_is_refused_as_typed(ann: Visitor, there: Visited, typed: str) -> None:
    """A number field would send 1125 for 112,5; here the server sees it, and nothing runs."""
    there.hold("comma")
    page = ann.page
    page.goto(f"{review('comma')}#edit")
    size = there.size()
    expect(page.locator("#edit .hint")).to_have_text("50 to 300")
    page.get_by_label("price").fill("")
    page.get_by_label("price").press_sequentially(typed)
    expect(page.locator("#preview")).to_contain_text("expected a number in digits")
    page.locator("#edit").get_by_label("Reason").select_option("too-high")
    page.get_by_role("button", name="Run it as edited").click()
    expect(page.locator("#edit-problem")).to_contain_text(f"got '{typed}'")
    assert page.get_by_label("price").input_value() == typed
    assert there.size() == size
    assert there.waiting() == {"comma"}
    assert is_fine(page)


def test_a_whole_review_without_script(browser: Browser, there: Visited) -> None:
    """Filter, claim, preview, edit, bulk, settings and audit by plain forms."""
    there.hold("plain", 3)
    found = visitor(browser, there, "ann", java_script_enabled=False)
    page = found.page
    page.goto(QUEUE)
    page.get_by_label("Text").fill("plain.0")
    page.get_by_role("button", name="Filter").click()
    assert page.locator(".row").count() == 1
    page.get_by_role("button", name="Claim plain.0").click()
    expect(page.locator(".claimed")).to_contain_text("Yours until")
    assert there.house.claims.of(ROOMS).keys() == {"plain.0"}
    page.locator(".open").click()
    page.get_by_label("price").fill("117")
    page.get_by_role("button", name="See what it does").click()
    expect(page.locator("#preview")).to_contain_text("Nearest arm")
    assert page.get_by_label("price").input_value() == "117"
    assert there.answers("plain.0") == []
    edit = page.locator("#edit")
    edit.get_by_label("Reason").select_option("known-better")
    edit.get_by_label("In your words").fill("a wedding")
    edit.get_by_role("button", name="Run it as edited").click()
    [answer] = there.answers("plain.0")
    assert (answer.verdict, answer.reason, there.ran("plain.0")) == ("edit", "a wedding", 117.0)

    page.goto(QUEUE)
    for box in page.locator(".row input[type=checkbox]").all():
        box.check()
    page.get_by_role("button", name="Approve selected").click()
    page.get_by_label("Reason").select_option("fits")
    page.get_by_role("button", name="Approve 2 decisions").click()
    assert there.waiting() == set()
    page.goto("/settings")
    page.get_by_label("dark", exact=True).check()
    page.get_by_role("button", name="Keep").click()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.goto(f"/i/{ROOMS}/audit?id=plain.0")
    page.get_by_role("link", name="plain.0").click()
    expect(page.locator(".replay")).to_contain_text("Equal.")
    found.context.close()


def test_who_comes_second_sees_who_was_first(ann: Visitor, bob: Visitor, there: Visited) -> None:
    """Two open the same decision; the second answer is a conflict and changes nothing."""
    there.hold("same")
    ann.page.goto(review("same"))
    bob.page.goto(review("same"))
    ann.page.locator("#approve").get_by_label("In your words").fill("fits the week")
    _approve(ann.page)
    ann.page.wait_for_url(f"**{QUEUE}")
    ran, size = there.ran("same"), there.size()
    bob.page.get_by_label("price").fill("99")
    edit = bob.page.locator("#edit")
    edit.get_by_label("Reason").select_option("too-high")
    with bob.page.expect_response("**/d/same/edit") as got:
        edit.get_by_role("button", name="Run it as edited").click()
    assert got.value.status == 409
    told = bob.page.get_by_role("alert")
    expect(told).to_contain_text("Somebody was quicker; your answer changed nothing.")
    expect(told).to_contain_text("Ann answered at")
    expect(told).to_contain_text("fits the week")
    assert told.locator("time").get_attribute("datetime") is not None
    assert bob.page.locator("form.answer").count() == 0
    assert is_fine(bob.page)
    assert (there.ran("same"), there.size()) == (ran, size)
    assert [one.verdict for one in there.answers("same")] == ["approve"]


def test_a_late_answer_is_a_conflict(ann: Visitor, there: Visited) -> None:
    """The page counts down, the policy vetoes, and who answers then is told so."""
    there.hold("late", chain=CABINS)
    page = ann.page
    page.goto(review("late", CABINS))
    clock = page.locator("time[data-deadline]").first
    expect(clock).to_have_text(re.compile(r"^\d s left$"))
    expect(page.locator(".clock")).to_contain_text("it is vetoed, and does not run")
    expect(clock).to_have_text("deadline passed", timeout=SHORT * 1000 + 15_000)
    _until(lambda: there.record("late", CABINS).status != "held")
    with page.expect_response("**/d/late/approve") as got:
        _approve(page)
    assert got.value.status == 409
    expect(page.get_by_role("alert")).to_contain_text("policy answered at")
    assert is_fine(page)
    assert there.answers("late", CABINS) == []
    [expired] = [one for one in there.events(0, CABINS) if isinstance(one, ev.Expired)]
    assert (expired.id, there.record("late", CABINS).status) == ("late", "expired")
    assert opened(page, review("late", CABINS)).status == 200
    expect(page.locator(".notice.done")).to_contain_text("Expired")


def _approve(page: Page) -> None:
    page.locator("#approve button").click()


def _until(is_so: Callable[[], bool]) -> None:
    limit = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < limit, "it did not come to pass within 10 s"
        time.sleep(0.02)


def test_a_claim_shuts_the_forms_of_others(ann: Visitor, bob: Visitor, there: Visited) -> None:
    """Who has claimed a decision can answer it; others see who has it, and until when."""
    there.hold("mine", 2)
    bob.page.goto(review("mine.0"))
    ann.page.goto(review("mine.0"))
    ann.page.get_by_role("button", name="Claim").click()
    expect(ann.page.locator(".claimed")).to_contain_text("Yours until")
    with bob.page.expect_response("**/d/mine.0/approve") as got:
        _approve(bob.page)
    assert got.value.status == 409
    assert there.answers("mine.0") == []
    expect(bob.page.locator(".claim-line")).to_contain_text("Ann has this one until")
    assert bob.page.locator("form.answer").count() == 0
    assert is_fine(bob.page)
    bob.page.goto(QUEUE)
    expect(bob.page.locator(".row.is-taken")).to_have_count(1)
    assert bob.page.locator(".row.is-taken input[type=checkbox]").count() == 0
    _approve(ann.page)
    _until(lambda: there.waiting() == {"mine.1"})
    [answer] = there.answers("mine.0")
    assert answer.by.startswith("Ann")


def test_who_asked_may_only_veto(ann: Visitor, there: Visited) -> None:
    """Nobody approves what they proposed: the page does not offer it, and says why."""
    person = there.house.door.authenticate(
        {"cookie": "; ".join(f"{c.get('name')}={c.get('value')}" for c in ann.context.cookies())}
    )
    assert person is not None
    there.hold("own", by=f"Ann [{person.id}]")
    page = ann.page
    page.goto(review("own"))
    expect(page.locator(".decide")).to_contain_text("You asked for this decision.")
    assert page.locator("form.answer").count() == 1
    assert is_fine(page)
    page.locator("#veto").get_by_label("Reason").select_option("not-now")
    page.get_by_role("button", name="Veto it").click()
    _until(lambda: there.record("own").status == "vetoed")


def test_what_others_do_is_told_in_an_open_queue(ann: Visitor, there: Visited) -> None:
    """What they claim, release and answer, as the service tells it; filters keep news away."""
    there.hold("open", 3)
    page = ann.page
    page.clock.install()
    page.goto(f"{QUEUE}?text=open")
    row = page.locator('.row[data-id="open.1"]')
    there.house.claims.claim(ROOMS, "open.1", "Bob [b]", 300)
    there.answer("open.2", "Bob [b]", "veto", "not-now", "")
    there.hold("hidden")
    page.clock.run_for(10_500)
    expect(row.locator(".who")).to_have_text("Bob has it")
    expect(page.locator('.row[data-id="open.2"] .who')).to_have_text("vetoed by Bob")
    expect(page.locator("#news")).to_have_text("1 was settled.")
    there.house.claims.release(ROOMS, "open.1", "Bob [b]")
    there.hold("open-too")
    page.clock.run_for(10_500)
    expect(row.get_by_role("button", name="Claim open.1")).to_be_visible()
    expect(page.locator("#news")).to_have_text("1 new decision waits.")


def test_what_was_left_out_is_named(ann: Visitor, there: Visited) -> None:
    """Somebody else is quicker with one of three: the two others are answered."""
    there.hold("three", 3)
    page = ann.page
    page.goto(QUEUE)
    for box in page.locator(".row input[type=checkbox]").all():
        box.check()
    page.get_by_role("button", name="Approve selected").click()
    there.answer("three.1", "Bob [b]", "veto", "not-now", "")
    page.get_by_label("Reason").select_option("fits")
    page.get_by_role("button", name="Approve 3 decisions").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("2 decisions were approved")
    expect(page.get_by_role("status").filter(has_text="three.1")).to_contain_text("vetoed by Bob")
    assert is_fine(page)
    assert there.waiting() == set()


def test_several_are_answered_after_a_second_look(ann: Visitor, there: Visited) -> None:
    """Until one confirms, it is only written down who saw which; then all of them are answered."""
    there.hold("many", 4)
    page = ann.page
    page.goto(QUEUE)
    for _ in range(3):
        page.keyboard.press("j")
        page.keyboard.press("x")
    expect(page.locator("[data-selected]")).to_have_text("3 selected.")
    size = there.size()
    page.get_by_role("button", name="Veto selected").click()
    expect(page.get_by_role("heading", name="Veto 3 decisions?")).to_be_visible()
    assert is_fine(page)
    assert [type(event) for event in there.events(size)] == [ev.Shown] * 3
    page.get_by_label("Reason").select_option("not-now")
    page.get_by_label("In your words").fill("the week is sold out")
    page.get_by_role("button", name="Veto 3 decisions").click()
    page.wait_for_url(f"**{QUEUE}")
    [left] = there.waiting()
    for id in {f"many.{i}" for i in range(4)} - {left}:
        [answer] = there.answers(id)
        assert (answer.verdict, answer.reason) == ("veto", "the week is sold out")


def test_news_of_the_queue_come_by_themselves(ann: Visitor, there: Visited) -> None:
    """What others answer is marked in its row, and what is new is told."""
    there.hold("news", 2)
    page = ann.page
    page.clock.install()
    page.goto(QUEUE)
    there.answer("news.1", "Bob [b0b]", "approve", "fits", "")
    there.hold("newer")
    page.clock.run_for(10_500)
    expect(page.locator("#news")).to_have_text("1 new decision waits. 1 was settled.")
    expect(page.locator(".row.is-gone .who")).to_have_text("approved by Bob")


# Looks and settings


def test_a_phone_has_room(ann: Visitor, there: Visited) -> None:
    """At 360 px nothing scrolls sideways, and a finger meets every target."""
    there.hold("phone", 2)
    page = ann.page
    page.set_viewport_size({"width": 360, "height": 780})
    paths = (QUEUE, review("phone.0"), f"/i/{ROOMS}", f"/i/{ROOMS}/audit", "/people", "/settings")
    for path in (*paths, "/account", f"{review('past0.3')}/evidence"):
        assert opened(page, path).status == 200
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
        assert page.evaluate(_SMALL) == [], path


def test_keys_that_are_turned_off_do_nothing(ann: Visitor, there: Visited) -> None:
    """The setting is kept by a form, holds on every page, and can be taken back."""
    there.hold("off")
    page = ann.page
    page.goto(f"/settings?back={QUEUE}")
    page.get_by_label("off: for speech input").check()
    page.get_by_role("button", name="Keep").click()
    page.wait_for_url(f"**{QUEUE}")
    before = focused(page)
    for key in "jkaevx/?":
        page.keyboard.press(key)
    assert focused(page) == before
    page.goto(review("off"))
    page.keyboard.press("v")
    assert focused(page) != "veto code"
    assert page.locator("dialog").count() == 0
    page.goto("/settings")
    page.get_by_label("on: j, k, a").check()
    page.get_by_role("button", name="Keep").click()
    page.goto(review("off"))
    page.keyboard.press("v")
    assert focused(page) == "veto code"


# Operate and audit


def test_the_kill_switch_is_seen_everywhere(ann: Visitor, bob: Visitor, there: Visited) -> None:
    """Paused by one, the other sees who and why, cannot release anything, and resumes."""
    there.hold("stop")
    page = ann.page
    page.goto(f"/i/{ROOMS}")
    page.get_by_label("Why").fill("prices look wrong")
    page.get_by_label("Pause Rooms by the sea now").check()
    page.get_by_role("button", name="Pause").click()
    banner = page.get_by_role("complementary", name="Paused")
    expect(banner).to_contain_text("prices look wrong")
    assert isinstance(there.events(there.size() - 1)[0], ev.Paused)
    bob.page.goto(review("stop"))
    expect(bob.page.get_by_role("complementary", name="Paused")).to_contain_text("by Ann")
    assert is_fine(bob.page)
    with bob.page.expect_response("**/d/stop/approve") as got:
        _approve(bob.page)
    assert got.value.status == 409
    assert there.answers("stop") == []
    bob.page.goto(f"/i/{ROOMS}")
    bob.page.get_by_label("Why now").fill("mended")
    bob.page.get_by_label("What was wrong is mended").check()
    bob.page.get_by_role("button", name="Resume").click()
    expect(bob.page.get_by_role("complementary", name="Paused")).to_have_count(0)
    assert isinstance(there.events(there.size() - 1)[0], ev.Resumed)


def test_an_auditor_finds_and_recomputes(ann: Visitor, there: Visited) -> None:
    """Dashboard, search by who answered, the evidence of one, and the same made again."""
    page = ann.page
    page.goto(f"/i/{ROOMS}")
    expect(page.locator(".tile", has_text="Chain")).to_contain_text("Whole")
    page.get_by_role("link", name="Audit").click()
    page.get_by_label("Who").fill("bob")
    page.get_by_label("Status").select_option("modified")
    page.get_by_role("button", name="Find").click()
    assert page.locator("table.wide tbody tr").count() == 6
    assert is_fine(page)
    size = there.size()
    page.get_by_role("link", name="past0.3").click()
    expect(page.get_by_role("heading", name="Evidence past0.3")).to_be_visible()
    expect(page.locator(".timeline")).to_contain_text("a fair nearby")
    expect(page.locator(".figures.key")).to_contain_text("120")
    page.get_by_role("button", name="Recompute now").click()
    page.wait_for_url("**/replay")
    expect(page.locator(".replay")).to_contain_text("Equal. Made again from the chain")
    expect(page.get_by_text("The path leads to the root.")).to_be_visible()
    assert is_fine(page)
    assert there.size() == size


def test_a_change_takes_two(ann: Visitor, bob: Visitor, there: Visited) -> None:
    """One proposes a declaration, cannot agree to it, and another puts it in force."""
    page = ann.page
    page.goto(f"/i/{ROOMS}/changes")
    text = page.get_by_label("The declaration").input_value()
    page.get_by_label("The declaration").fill(text.replace("high = 300", "high = 280"))
    page.get_by_label("What changes, and why").fill("guests complain")
    page.get_by_role("button", name="Propose").click()
    expect(page.get_by_text("You proposed this")).to_be_visible()
    assert page.get_by_role("button", name="Put it in force").count() == 0
    assert is_fine(page)
    bob.page.goto(page.url)
    bob.page.get_by_label("In your words").fill("agreed")
    bob.page.get_by_role("button", name="Put it in force").click()
    expect(bob.page.get_by_role("status").first).to_contain_text("The change is in force.")
    assert isinstance(there.events(there.size() - 1)[0], ev.InstanceChanged)


def test_somebody_new_is_let_in(ann: Visitor, browser: Browser, there: Visited) -> None:
    """An administrator adds a person; their link signs in, and they may what was granted."""
    page = ann.page
    page.goto("/people")
    page.get_by_label("Name").fill("Dora Díaz")
    page.get_by_label("Login").fill("dora")
    form = page.locator("form[action='/people']")
    form.get_by_label("Role").select_option("approve")
    form.locator("select[name=instance]").select_option(ROOMS)
    page.get_by_role("button", name="Add, and make a link").click()
    link = page.get_by_label("Copy this").input_value()
    assert is_fine(page)
    dora = visitor(browser, there)
    dora.page.goto(link)
    dora.page.get_by_role("button", name="Sign in").click()
    dora.page.get_by_role("heading", name="Instances").wait_for()
    assert dora.page.get_by_text("You may approve.").is_visible()
    assert opened(dora.page, QUEUE).status == 200
    assert opened(dora.page, f"/i/{CABINS}/queue").status in (403, 404)
    assert opened(dora.page, "/people").status == 403
    assert is_fine(dora.page)
    dora.context.close()
    card = page.locator("li.card", has_text="Dora Díaz")
    card.locator("summary").click()
    card.get_by_role("button", name="Sign out everywhere and end").click()
    expect(page.locator("li.card", has_text="Dora Díaz")).to_contain_text("may not sign in")


PATHS = {
    "sign-in": "/sign-in",
    "home": "/",
    "settings": "/settings",
    "account": "/account",
    "people": "/people",
    "dashboard": f"/i/{ROOMS}",
    "queue": QUEUE,
    "review": review("look.0"),
    "answered": review("past0.3"),
    "audit": f"/i/{ROOMS}/audit",
    "evidence": f"{review('past0.3')}/evidence",
    "changes": f"/i/{ROOMS}/changes",
    "missing": "/i/nowhere/queue",
}


@pytest.mark.parametrize("name", ["dashboard", "queue", "review", "settings", "changes", "missing"])
def test_pages_have_no_violation_and_fit(ann: Visitor, there: Visited, name: str) -> None:
    """axe finds nothing; the other pages are looked at on the walks above."""
    there.hold("look", 3)
    opened(ann.page, PATHS[name])
    assert is_fine(ann.page)


@pytest.mark.soak
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", PATHS)
def test_pages_keep_every_rule_in_every_look(
    ann: Visitor, there: Visited, name: str, look: Look
) -> None:
    """The long version: all rules of axe, on all pages, in all four looks."""
    there.hold("look", 3)
    opened(ann.page, PATHS[name])
    assert trouble_of(ann.page, [look]) == []


def test_a_page_says_when_it_was_made(ann: Visitor, there: Visited) -> None:
    """The service's clock, within a minute of ours: countdowns hang on it."""
    ann.page.goto(QUEUE)
    told = ann.page.evaluate("Date.parse(document.documentElement.dataset.now)")
    assert abs(told * 1000 - now()) < 60_000_000
