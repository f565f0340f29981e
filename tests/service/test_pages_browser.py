"""The pages in a real browser: accessible, fit for a phone, worked by keys or without script."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from gdcb.service.pages.views.queue import QueueNews
from tests.browser import chromium, served
from tests.service.page_app import PageApp
from tests.service.sample_views import PAGES
from tests.service.test_pages_render import with_words

# It ships no types.
AXE: Any = importlib.import_module("axe_playwright_python.sync_playwright").Axe()
Look = tuple[Literal["light", "dark"], int]
LOOKS: list[Look] = [("light", 360), ("light", 1280), ("dark", 360), ("dark", 1280)]
# What depends on colours and widths; the other rules say the same of every look.
LOOK_RULES = ["color-contrast", "scrollable-region-focusable", "target-size", "link-in-text-block"]
# One page of every template, and the review screens that look different.
FIRST = list({view.template: name for name, view in reversed(PAGES.items())}.values())
MAIN = [*reversed(FIRST), "review-conflict", "review-dose", "queue-empty"]


@pytest.fixture(scope="module")
def app() -> PageApp:
    return PageApp(PAGES)


@pytest.fixture(scope="module")
def base(app: PageApp) -> Iterator[str]:
    with served(app.app) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Browser, base: str) -> Iterator[Page]:
    """A page of its own; what the policy refuses or the script throws fails the test."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 800}, base_url=base, reduced_motion="reduce"
    )
    opened = context.new_page()
    trouble: list[str] = []
    opened.on("console", lambda said: trouble.append(said.text) if said.type == "error" else None)
    opened.on("pageerror", lambda error: trouble.append(str(error)))
    yield opened
    context.close()
    assert trouble == []


def focused(page: Page) -> str:
    """Return the form and the name, or the words, of what has the focus."""
    return str(
        page.evaluate(
            "() => { const e = document.activeElement; const f = e.closest('form');"
            "return (f && f.id ? f.id + ' ' : '') + (e.name || e.textContent.trim()); }"
        )
    )


def violations(page: Page, rules: list[str] | None) -> list[str]:
    """Return what axe finds on the page; no rules: all of them."""
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = {"type": "rule", "values": rules}
    found = page.evaluate("options => axe.run(document, options)", options)["violations"]
    return [f"{one['id']} {node['html'][:140]}" for one in found for node in one["nodes"]]


def looked_at(page: Page, name: str, looks: list[Look]) -> list[str]:
    """Return all that is wrong with a page as it looks there; the first look has all rules."""
    page.goto(f"/page/{name}")
    page.evaluate(AXE.axe_script)
    found = []
    for i, (scheme, width) in enumerate(looks):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 800})
        trouble = violations(page, LOOK_RULES if i else None)
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            trouble.append(f"{wide} px wide")
        found += [f"{name}, {scheme}, {width} px: {one}" for one in trouble]
    return found


@pytest.mark.parametrize("name", MAIN)
def test_pages_have_no_violation_and_fit(page: Page, name: str) -> None:
    """axe finds nothing, and nothing scrolls sideways but tables in their frames."""
    assert looked_at(page, name, [("light", 1280), ("dark", 360)]) == []


@pytest.mark.soak
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", PAGES)
def test_pages_keep_every_rule_in_every_look(page: Page, name: str, look: Look) -> None:
    """The long version: all rules of axe in all four looks."""
    assert looked_at(page, name, [look]) == []


@pytest.mark.parametrize("words", ["", "W" * 150], ids=["samples", "long names"])
def test_nothing_is_wider_than_the_screen(browser: Browser, words: str) -> None:
    """From 320 px, which is a desk at 400 %, to 1440 px; also with names that cannot be broken."""
    pages = {name: with_words(PAGES[name], words) if words else PAGES[name] for name in MAIN}
    wide = []
    with served(PageApp(pages).app) as base:
        context = browser.new_context(base_url=base, java_script_enabled=not words)
        page = context.new_page()
        for name in pages:
            page.goto(f"/page/{name}")
            for width in (320, 640, 768, 1056, 1440):
                page.set_viewport_size({"width": width, "height": 800})
                found = page.evaluate("document.documentElement.scrollWidth")
                wide += [f"{name}: {found} px on {width}"] if found > width else []
        context.close()
    assert wide == []


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_shifts_while_it_loads(page: Page, width: int) -> None:
    """What the script writes at its start has its room already."""
    shifts = """() => new Promise(done => { let sum = 0;
      new PerformanceObserver(list => { for (const e of list.getEntries()) sum += e.value; })
        .observe({type: "layout-shift", buffered: true});
      setTimeout(() => done(sum), 150); })"""
    page.set_viewport_size({"width": width, "height": 800})
    for name in ("queue", "queue-empty", "review", "review-dose", "dashboard"):
        page.goto(f"/page/{name}")
        assert page.evaluate(shifts) == 0, name


def test_every_target_has_24_pixels(page: Page) -> None:
    """Buttons, fields and links outside sentences are large enough for a finger (WCAG 2.5.8)."""
    page.set_viewport_size({"width": 360, "height": 800})
    small = """() => [...document.querySelectorAll(
        "button, input:not([type=hidden]), select, textarea, summary, nav a, .open, a.button")]
      .map(e => [e.matches(".target input, .check input") ? e.closest("label") : e, e])
      .filter(([e]) => e.offsetParent !== null || e.getClientRects().length)
      .map(([e]) => [e.getBoundingClientRect(), e.outerHTML.slice(0, 90)])
      .filter(([r]) => r.width > 0 && (r.height < 23.9 || r.width < 23.9)).map(([r, h]) => h)"""
    for name in ("queue", "review", "dashboard", "people", "audit", "evidence", "settings"):
        page.goto(f"/page/{name}")
        assert page.evaluate(small) == [], name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_table_that_goes_on_sideways_shows_it(page: Page, scheme: Any) -> None:
    """A shade at the edge behind which there is more, and none where there is nothing more."""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto("/page/audit")
    table = page.locator(".scroll").first
    hide = "e => { e.scrollIntoView(); e.querySelector('table').style.visibility = 'hidden'; }"
    table.evaluate(hide)  # the ground alone

    def strip(side: str) -> bytes:
        found = table.bounding_box()
        assert found is not None
        x = found["x"] if side == "left" else found["x"] + found["width"] - 6
        return page.screenshot(clip={"x": x, "y": found["y"] + 8, "width": 6, "height": 40})

    assert table.evaluate("e => e.scrollWidth > e.clientWidth + 50")
    first = strip("left"), strip("right")
    table.evaluate("e => { e.scrollLeft = e.scrollWidth; }")
    last = strip("left"), strip("right")
    assert first[0] == last[1]  # plain ground: here it ends
    assert first[1] != first[0]
    assert last[0] != last[1]


@pytest.mark.parametrize("name", ["account", "people"])
def test_a_heading_stands_off_what_is_above_it(page: Page, name: str) -> None:
    page.goto(f"/page/{name}")
    gaps = page.evaluate("""() => [...document.querySelectorAll("main > section + section")]
      .map(e => [e, e.previousElementSibling].map(one => one.getBoundingClientRect()))
      .map(([here, above]) => here.top - above.bottom)""")
    assert gaps
    assert min(gaps) >= 20


def test_the_setting_beats_the_system(page: Page) -> None:
    """Light paper on a dark system, by a form and a cookie."""
    page.emulate_media(color_scheme="dark")
    page.goto("/page/settings")
    paper = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(paper) == "rgb(21, 23, 26)"
    page.get_by_label("light", exact=True).check()
    page.get_by_role("button", name="Keep").click()
    page.wait_for_url("**/i/rent/queue")
    assert page.evaluate(paper) == "rgb(255, 255, 255)"


def test_a_review_by_keys_alone(page: Page, app: PageApp) -> None:
    """From the queue to an approval without a pointer; nothing is sent before Enter."""
    app.posts.clear()
    page.goto("/i/rent/queue")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.closest('.row').dataset.id").endswith("4711")
    page.keyboard.press("Enter")
    page.wait_for_url("**/d/rent-2026-06-16-4711")
    page.keyboard.press("v")
    assert focused(page) == "veto code"
    page.keyboard.press("a")  # typed into the select: the keys are off there
    assert focused(page) == "veto code"
    page.locator("h1").click()
    page.keyboard.press("e")
    assert focused(page) == "edit action.price"
    page.locator("h1").click()
    page.keyboard.press("a")
    assert focused(page) == "approve Approve 142 €"
    assert app.posts == []
    page.keyboard.press("Enter")
    page.get_by_text("See the evidence").wait_for()
    path, fields = app.posts[0]
    assert path == "/i/rent/d/rent-2026-06-16-4711/approve"
    assert dict(fields)["version"] == "8120"
    assert {"csrf", "version", "content", "code", "reason"} == set(dict(fields))


def test_tab_walks_the_review_in_reading_order(page: Page) -> None:
    """Skip link first; claim, approve, edit, veto as they stand on the page."""
    page.goto("/i/rent/d/rent-2026-06-16-4711")
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.append(focused(page))
    assert seen[0] == "Skip to the contents"
    wanted = [
        "approve code", "approve reason", "approve Approve 142 €", "edit action.price",
        "edit See what it does", "edit code", "edit reason", "edit Run it as edited",
        "veto code", "veto reason", "veto Veto it",
    ]  # fmt: skip
    assert [one for one in seen if one in wanted] == wanted
    hidden = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert hidden != "none"


def test_selecting_keeps_to_one_rule(page: Page, app: PageApp) -> None:
    """x selects; rows of other rules can then not be chosen, and the form lists what was."""
    app.posts.clear()
    page.goto("/i/rent/queue")
    page.keyboard.press("j")
    page.keyboard.press("x")
    rules = page.locator(".row input[type=checkbox]:enabled").evaluate_all(
        "all => all.map(e => e.closest('.row').dataset.rule)"
    )
    assert set(rules) == {"price change"}
    expect(page.locator("[data-selected]")).to_have_text("1 selected.")
    page.get_by_role("button", name="Veto selected").click()
    page.wait_for_url("**/bulk")
    path, fields = app.posts[0]
    assert path == "/i/rent/queue/bulk"
    assert ("row", "rent-2026-06-16-4711") in fields
    assert ("verdict", "veto") in fields


def test_help_and_filter_keys(page: Page) -> None:
    """? lists the keys in a dialogue that Escape closes; / goes to the filter; modifiers do not."""
    page.goto("/i/rent/queue")
    page.keyboard.press("?")
    dialogue = page.get_by_role("dialog", name="Keys")
    expect(dialogue).to_be_visible()
    page.keyboard.press("/")
    expect(dialogue).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialogue).to_be_hidden()
    page.keyboard.press("Control+/")
    assert focused(page) != "text"
    page.keyboard.press("/")
    assert focused(page) == "text"
    page.keyboard.type("j?x/")
    assert page.locator("#filter").input_value() == "j?x/"


def test_keys_can_be_turned_off(page: Page, base: str) -> None:
    """With the setting off no key does anything, and no page speaks of keys."""
    page.context.add_cookies([{"name": "keys", "value": "off", "url": base}])
    page.goto("/i/rent/queue")
    before = focused(page)
    for key in "jkaevx/?":
        page.keyboard.press(key)
    assert focused(page) == before
    assert page.locator("dialog").count() == 0
    assert "for keys" not in page.locator("footer").inner_text()


def test_news_are_told_and_nothing_moves(page: Page, app: PageApp) -> None:
    """The script asks since its version, marks rows in place, and says so politely."""
    gone, claimed = "rent-2026-06-16-4711", "rent-2026-06-19-4714"
    app.news = QueueNews(8140, 8, 2, ((gone, "approved by Bruno"),), ((claimed, "Bruno has it"),))
    app.asked.clear()
    page.clock.install()
    page.goto("/i/rent/queue?rule=price+change")
    row = page.locator(".row").first
    before = row.bounding_box()
    page.clock.run_for(10_500)
    expect(page.locator("#news")).to_have_text("2 new decisions wait. 1 was settled.")
    expect(row.locator(".who")).to_have_text("approved by Bruno")
    expect(row.locator("input[type=checkbox]")).to_be_disabled()
    taken = page.locator(".row").nth(3)
    expect(taken.locator(".who")).to_have_text("Bruno has it")
    expect(taken.locator("input[type=checkbox]")).to_be_disabled()
    expect(page.locator("#waiting-count")).to_contain_text("8")
    assert row.bounding_box() == before
    assert app.asked == ["rule=price+change&since=8131"]


def test_a_claim_that_ends_is_told(page: Page, app: PageApp) -> None:
    """What others had, or oneself, is free again where no news name it; the form comes back."""
    claimed = "rent-2026-06-19-4714"
    app.news = QueueNews(8140, 7, claims=((claimed, "Bruno has it"),), mine=())
    page.clock.install()
    page.goto("/i/rent/queue")
    row = page.locator(".row").nth(3)
    mine = page.locator(".row.is-mine").first
    lost = page.locator(".row").filter(has_text=mine.locator(".id").inner_text())
    page.clock.run_for(10_500)
    expect(row.locator(".who")).to_have_text("Bruno has it")
    expect(lost.locator(".who")).to_have_text("nobody has it now")
    expect(page.locator(".row.is-mine")).to_have_count(0)
    app.news = QueueNews(8140, 7)
    page.clock.run_for(10_500)
    expect(row.get_by_role("button", name="Claim")).to_be_visible()
    expect(row.locator("input[type=checkbox]")).to_be_enabled()
    app.news = QueueNews(8140, 7, mine=(claimed,))
    page.clock.run_for(10_500)
    expect(row.locator(".who")).to_have_text("you have it")


def test_news_can_be_turned_off(page: Page, app: PageApp, base: str) -> None:
    """Without the setting nothing is asked."""
    app.asked.clear()
    page.context.add_cookies([{"name": "refresh", "value": "off", "url": base}])
    page.clock.install()
    page.goto("/i/rent/queue")
    page.clock.run_for(60_000)
    assert app.asked == []


def test_an_edit_is_previewed_as_it_is_typed(page: Page, app: PageApp) -> None:
    """The nearest arm, the value and the gates behind appear; nothing is decided."""
    app.posts.clear()
    page.goto("/i/rent/d/rent-2026-06-16-4711#edit")
    assert focused(page) == "edit action.price"
    page.keyboard.type("155")
    preview = page.locator("#preview")
    expect(preview).to_contain_text("× 1.1, 0.15 steps away")
    expect(preview).to_contain_text("changed: 150 € (cap of 150 € in June)")
    assert app.posts == []


def test_the_deadline_counts_down_and_is_told(page: Page) -> None:
    """By the clock of the service; five minutes before the end it is said aloud."""
    page.clock.install()
    page.goto("/page/review")
    clock = page.locator("time[data-deadline]").first
    expect(clock).to_have_text(re.compile(r"^[67] min \d\d s left$"))
    page.clock.run_for(125_000)
    expect(clock).to_have_text(re.compile(r"^4 min [2-5]\d s left$"))
    expect(page.locator("#news")).to_have_text("Five minutes are left.")
    page.clock.run_for(400_000)
    expect(clock).to_have_text("deadline passed")


def test_everything_works_without_script(browser: Browser, base: str, app: PageApp) -> None:
    """Filter, claim, preview, edit and settings by plain forms."""
    context = browser.new_context(java_script_enabled=False, base_url=base)
    page = context.new_page()
    app.posts.clear()
    page.goto("/i/rent/queue")
    page.get_by_label("Text").fill("lake & sun")
    page.get_by_role("button", name="Filter").click()
    assert "text=lake+%26+sun" in page.url
    assert page.get_by_text("Load it again every minute").is_visible()
    page.locator(".row").first.get_by_role("button", name="Claim").click()
    assert app.posts.pop()[0].endswith("/claim")
    page.goto("/i/rent/d/rent-2026-06-16-4711")
    page.get_by_label("Price").fill("155")
    page.get_by_role("button", name="See what it does").click()
    assert "Nearest arm" in page.locator("#preview").inner_text()
    edit = page.locator("#edit")
    edit.get_by_label("Reason").select_option("local")
    edit.get_by_role("button", name="Run it as edited").click()
    path, fields = app.posts.pop()
    assert path.endswith("/edit")
    assert ("action.price", "155") in fields
    assert page.get_by_text("See the evidence").is_visible()
    page.goto("/page/settings")
    page.get_by_label("dark", exact=True).check()
    page.get_by_role("button", name="Keep").click()
    page.wait_for_url("**/i/rent/queue")
    page.goto("/page/settings")
    assert page.get_by_label("dark", exact=True).is_checked()
    page.goto("/page/dashboard")
    page.get_by_text("The numbers").first.click()
    assert page.get_by_role("table", name="Decisions an hour, by status").is_visible()
    context.close()


def test_evidence_prints_without_what_only_a_screen_needs(page: Page) -> None:
    """Navigation and buttons stay off the paper; hashes and timeline are on it, on light paper."""
    page.emulate_media(media="print", color_scheme="dark")
    page.goto("/page/evidence")
    assert not page.locator("header.top").is_visible()
    assert not page.get_by_role("button", name="Recompute now").is_visible()
    assert page.get_by_text("DecisionMade").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
