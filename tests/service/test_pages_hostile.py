"""Hostile text in every field of every page: it is shown, and never becomes markup or runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, Dialog, Request, expect
from playwright.sync_api import Page as PlaywrightPage

from gdcb.service.pages import render
from gdcb.service.pages.views.queue import QueueNews
from gdcb.service.pages.views.review import Preview
from tests.browser import chromium, served
from tests.page_checks import Page
from tests.properties import examples
from tests.service.page_app import PageApp
from tests.service.sample_views import PAGES, QUEUE
from tests.service.test_pages_render import with_words

# Each would set `document.title` to 'hit' or open a dialogue, were it taken for markup.
HIT = "document.title='hit'"
PAYLOADS = [
    f"<script>{HIT}</script>",
    f"</title><script>{HIT}</script>",
    f"</textarea><script>{HIT}</script>",
    f"</select><img src=x onerror={HIT}>",
    f'"><script>{HIT}</script>',
    f"'><script>{HIT}</script>",
    f'" onmouseover="{HIT}" x="',
    f"' onfocus='{HIT}' autofocus='",
    f'" autofocus onfocus="{HIT}',
    f"<img src=x onerror={HIT}>",
    f'<img src=x onerror="{HIT}">',
    f"<svg onload={HIT}>",
    f"<svg><script>{HIT}</script></svg>",
    f"<svg><animate onbegin={HIT} attributeName=x dur=1s>",
    f"<math><mtext></mtext><script>{HIT}</script></math>",
    f"<body onload={HIT}>",
    f"<iframe srcdoc='<script>parent.{HIT}</script>'>",
    "<iframe src=javascript:alert(1)>",
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "java\tscript:alert(1)",
    "//evil.example/x",
    "/\\evil.example/x",
    "https://evil.example/",
    "data:text/html,<script>alert(1)</script>",
    "<a href=javascript:alert(1)>x</a>",
    "<form action=https://evil.example><input name=csrf></form>",
    "<base href=https://evil.example/>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "<link rel=stylesheet href=https://evil.example/x.css>",
    "<style>*{display:none}</style>",
    '" style="position:fixed;inset:0',
    "</dialog></main></body></html><h1>gone</h1>",
    "<!-- <p>",
    "--><p>",
    "<![CDATA[ <p> ]]>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "{{ ''.__class__.__mro__ }}{% raw %}<b>",
    "\u0000<script\u0000>alert(1)</script>",
    "＜script＞alert(1)＜/script＞",
    "<details open ontoggle=alert(1)>",
]


class Skeleton(Page):
    """The tags of a page, in order, with the names of their attributes."""

    @property
    def bones(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(tag, tuple(found)) for tag, found in self.attributes]


def addresses(found: Page) -> Iterator[str]:
    for _, attributes in found.attributes:
        for name in ("href", "src", "action", "formaction", "data-preview", "data-news"):
            value = attributes.get(name)
            if value is not None:
                yield value


# One view of each template, and those of its other states that show more text.
VIEWS = {view.template: view for name, view in PAGES.items() if not name.endswith("-empty")}
VIEWS |= {name: PAGES[name] for name in ("review", "review-done", "review-conflict", "queue")}
PLAIN = {
    name: Skeleton(render.page(with_words(view, "word"))).bones for name, view in VIEWS.items()
}


def test_there_are_forty_payloads_and_every_template() -> None:
    """So that nobody thins them out unseen."""
    assert len(set(PAYLOADS)) >= 40
    assert {view.template for view in PAGES.values()} <= set(VIEWS)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_hostile_text_changes_no_tag_and_no_attribute(payload: str) -> None:
    """In every text field at once, the page has the bones that it has with a plain word."""
    for name, view in VIEWS.items():
        found = Skeleton(render.page(with_words(view, payload)))
        assert found.bones == PLAIN[name], name
        assert not found.wrong
        for address in addresses(found):
            assert address.startswith(("/", "#")), name
            assert not address.startswith(("//", "/\\")), name


@examples(40)
@given(st.text(st.sampled_from("<>\"'&/\\=`{}% \n\t-!ax"), min_size=1, max_size=12))
def test_any_text_leaves_the_bones_as_they_are(words: str) -> None:
    """Whatever is made of the characters that mean something in HTML."""
    for name in ("review.html", "queue.html", "people.html"):
        assert Skeleton(render.page(with_words(VIEWS[name], words))).bones == PLAIN[name]


def test_the_script_makes_no_markup_of_text() -> None:
    """Nothing in it parses text as HTML or as a program."""
    script = (render.STATIC / "gdcb.js").read_text(encoding="utf-8")
    for way in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval",
        "Function(",
    ):
        assert way not in script


def test_the_check_can_fail() -> None:
    """One unescaped payload is seen."""
    page = render.page(with_words(PAGES["error"], "word"))
    broken = page.replace("word", PAYLOADS[6], 1)
    assert Skeleton(page).bones == PLAIN["error.html"]
    attacked = page.replace('data-now="', f'data-now="{PAYLOADS[6]}', 1)
    assert Skeleton(attacked).bones != PLAIN["error.html"]
    assert Skeleton(broken.replace(PAYLOADS[6], PAYLOADS[0])).bones != PLAIN["error.html"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@contextmanager
def watched(browser: Browser, base: str) -> Iterator[tuple[PlaywrightPage, list[str]]]:
    """Open a page, and note whatever a payload would do: dialogues, errors, requests elsewhere."""
    trouble: list[str] = []

    def dialogue(found: Dialog) -> None:
        trouble.append(found.message)
        found.dismiss()

    def request(found: Request) -> None:
        if not found.url.startswith((base, "data:")):
            trouble.append(found.url)

    context = browser.new_context(base_url=base)
    page = context.new_page()
    page.on("dialog", dialogue)
    page.on("request", request)
    page.on("pageerror", lambda error: trouble.append(str(error)))
    yield page, trouble
    context.close()


def test_no_payload_runs_in_a_browser(browser: Browser) -> None:
    """Policy on: no dialogue, no new title, no request elsewhere, no page that goes away."""
    everything = " ".join(PAYLOADS)
    pages = {name.removesuffix(".html"): with_words(v, everything) for name, v in VIEWS.items()}
    with served(PageApp(pages).app) as base, watched(browser, base) as (page, trouble):
        for name in pages:
            page.goto(f"/page/{name}")
            assert page.url == f"{base}/page/{name}"
            assert page.title() != "hit"
            assert page.evaluate("document.scripts.length") == 1, name
        assert trouble == []


def test_what_the_script_fetches_is_text(browser: Browser) -> None:
    """News and previews full of payloads are shown letter by letter."""
    everything = " ".join(PAYLOADS)
    row = QUEUE.rows[0].id
    app = PageApp(PAGES)
    app.news = QueueNews(9, 1, 1, ((row, everything),), ((QUEUE.rows[2].id, everything),))
    app.previewed = Preview(arm=everything, problem=everything)
    with served(app.app) as base, watched(browser, base) as (page, trouble):
        page.clock.install()
        page.goto("/i/rent/queue")
        page.clock.run_for(10_500)
        expect(page.locator(".row").first.locator(".who")).to_contain_text(PAYLOADS[0])
        expect(page.locator(".row").nth(2).locator(".who")).to_contain_text(PAYLOADS[0])
        page.goto(f"/i/rent/d/{row}")
        page.get_by_role("button", name="See what it does").click()
        expect(page.locator("#preview .notice")).to_contain_text(PAYLOADS[0])
        assert page.locator("#preview").evaluate("e => e.querySelectorAll('*').length") == 5
        assert page.evaluate("document.scripts.length") == 1
        assert trouble == []
