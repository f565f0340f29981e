"""Strangers' text and forged requests against the real service, in a real browser."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from fastapi.routing import iter_route_contexts
from playwright.sync_api import Browser, Page, expect

from gdcb.service import access, operating
from gdcb.service.access import CONSOLE, Door, Principal
from gdcb.service.access.links import redeem
from gdcb.service.access.roles import grants
from tests.browser import chromium
from tests.service import attacking
from tests.service.access_builders import CHEAP, token_of
from tests.service.attacking import Elsewhere, Target, everything
from tests.service.visiting import (
    CABINS,
    EVERYWHERE,
    ROOMS,
    Visited,
    Visitor,
    declared,
    furnish,
    visited,
    visitor,
)

# What ends an attribute, a title, a script; what runs by itself; what leads elsewhere.
HOSTILE = (
    "\"'></title></textarea></script><script>pwned=1</script><img src=//evil.test onerror=alert(1)>"
    "<svg onload=pwned=1><base href=//evil.test>{{7*7}}"
)
PASSWORD = "quiet harbour lamps 61"
_PLANTED = """() => [window.pwned === undefined ? "" : "a script ran",
  ...[...document.querySelectorAll(`script:not([src^="/static/"]), img, iframe, object, embed, base,
    style, [onerror], [onload], [onfocus], a[href^="javascript:" i], meta[http-equiv=refresh],
    form[action*="evil"]`)].map(e => e.outerHTML.slice(0, 120))].filter(Boolean)"""
_SAID = """words => document.documentElement.textContent.includes(words)
  || [...document.querySelectorAll("input, textarea, select")].some(e => e.value.includes(words))"""


@dataclass
class Victim(Visitor):
    """Somebody whose window notes every dialogue, and every request to another host."""

    there: Visited | None = None
    dialogues: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def harm(self) -> list[str]:
        """Return all that hostile text has done."""
        return [*self.trouble, *self.dialogues, *self.foreign, *self.page.evaluate(_PLANTED)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visited]:
    """One service for all attempts: it has to stand them together, too."""
    folder: Path = tmp_path_factory.mktemp("hostile")
    furnish(folder / "furnished.db")
    with visited(folder / "furnished.db", folder / "gdcb.db") as found:
        yield found


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Elsewhere]:
    with attacking.elsewhere() as found:
        yield found


_numbers = iter(range(10_000))


def victim_of(browser: Browser, there: Visited, *logins: str, **look: Any) -> Victim:
    """Return the window of a new person who may everything, or of nobody."""
    login = logins[0] if logins else f"ann{next(_numbers)}"
    seen = visitor(browser, there, login, **look)
    found = Victim(seen.context, seen.page, there=there)

    def asked(url: str) -> None:
        if not url.startswith((there.base, "data:", "about:", "chrome-error:")):
            found.foreign.append(url)

    def stopped(dialogue: Any) -> None:
        found.dialogues.append(dialogue.message)
        dialogue.dismiss()

    found.context.on("request", lambda request: asked(request.url))
    found.page.on("dialog", stopped)
    return found


@pytest.fixture
def ann(browser: Browser, there: Visited) -> Iterator[Victim]:
    found = victim_of(browser, there)
    yield found
    found.context.close()


# Strangers' text. Each plants it, and returns the pages that should show it as text.


def unit(there: Visited, ann: Victim, mark: str) -> list[str]:
    """A client names a unit."""
    there.hold(mark, unit=f"{mark}{HOSTILE}"[:200])
    home = f"/i/{ROOMS}"
    return [f"{home}/queue", f"{home}/d/{mark}", f"{home}/d/{mark}/evidence", f"{home}/audit"]


def words(there: Visited, ann: Victim, mark: str) -> list[str]:
    """A reviewer explains a veto."""
    there.hold(mark)
    ann.page.goto(f"/i/{ROOMS}/d/{mark}")
    ann.page.locator("#veto").get_by_label("Reason").select_option("other")
    ann.page.locator("#veto").get_by_label("In your words").fill(f"{mark}{HOSTILE}")
    ann.page.get_by_role("button", name="Veto it").click()
    ann.page.wait_for_load_state()
    return [f"/i/{ROOMS}/d/{mark}", f"/i/{ROOMS}/d/{mark}/evidence"]


def code(there: Visited, ann: Victim, mark: str) -> list[str]:
    """A form has a reason that is not on the list."""
    there.hold(mark)
    ann.page.goto(f"/i/{ROOMS}/d/{mark}")
    change = "(e, words) => { e.options[0].value = words; e.selectedIndex = 0; }"
    ann.page.locator("#approve select").evaluate(change, f"{mark}{HOSTILE}")
    ann.page.locator("#approve button").click()
    expect(ann.page.get_by_role("alert")).to_contain_text(mark)
    return []


def price(there: Visited, ann: Victim, mark: str) -> list[str]:
    """An edit is no number, as the script and as the form previews it."""
    there.hold(mark)
    ann.page.goto(f"/i/{ROOMS}/d/{mark}")
    field = ann.page.locator("#edit input[name='action.price']")
    field.evaluate("e => { e.type = 'text'; }")
    field.fill(f"{mark}{HOSTILE}")
    expect(ann.page.locator("#preview .problem")).to_contain_text(mark)
    assert ann.harm() == []
    ann.page.locator("#edit").evaluate("e => { e.action = e.dataset.preview; e.submit(); }")
    expect(ann.page.locator("#preview .problem")).to_contain_text(mark)
    return []


def pause(there: Visited, ann: Victim, mark: str) -> list[str]:
    """An operator says why it stops."""
    desk = there.house.desk(CABINS)
    desk.submit(lambda turn: operating.pause(turn, f"{mark}{HOSTILE}", "Bob [b0b]")).result()
    return [f"/i/{CABINS}", f"/i/{CABINS}/queue"]


def change_reason(there: Visited, ann: Victim, mark: str) -> list[str]:
    """Somebody proposes a change, and says why."""
    text = declared(ROOMS, "Rooms by the sea").replace("300", "290")
    desk, reason = there.house.desk(ROOMS), f"{mark}{HOSTILE}"
    by = "Bob [b0b]"
    number = desk.submit(lambda turn: operating.propose_change(turn, text, reason, by)).result()
    return [f"/i/{ROOMS}/changes", f"/i/{ROOMS}/changes/{number}"]


def change_comment(there: Visited, ann: Victim, mark: str) -> list[str]:
    """A declaration has a comment; the page shows what differs."""
    text = f"# {mark}{HOSTILE}\n{declared(ROOMS, 'Rooms by the sea')}"
    desk, by = there.house.desk(ROOMS), "Bob [b0b]"
    number = desk.submit(lambda turn: operating.propose_change(turn, text, "x", by)).result()
    return [f"/i/{ROOMS}/changes/{number}"]


def change_refused(there: Visited, ann: Victim, mark: str) -> list[str]:
    """A declaration is none; the page repeats it with what is wrong."""
    ann.page.goto(f"/i/{ROOMS}/changes")
    ann.page.get_by_label("The declaration").fill(f"</textarea>{mark}{HOSTILE}")
    ann.page.get_by_label("What changes, and why").fill(f"{mark}{HOSTILE}")
    ann.page.get_by_role("button", name="Propose").click()
    expect(ann.page.get_by_role("alert")).to_be_visible()
    assert ann.page.evaluate(_SAID, mark)
    return []


def title(there: Visited, ann: Victim, mark: str) -> list[str]:
    """An instance has a title, and a gate has a name."""
    name, shown = f"i{mark}", json.dumps(f"{mark}{HOSTILE}"[:190])[1:-1]
    text = declared(name, shown).replace('name = "manager"', f'name = "{shown}"')
    operating.create(there.house.store, text, "cy", "first")
    there.hold(f"{mark}d", chain=name)
    home = f"/i/{name}"
    return ["/", home, f"{home}/queue", f"{home}/d/{mark}d", f"{home}/audit", "/people"]


def person(there: Visited, ann: Victim, mark: str) -> list[str]:
    """An administrator adds somebody by a form."""
    ann.page.goto("/people")
    form = ann.page.locator("form[action='/people']")
    form.get_by_label("Name").fill(f"{mark}{HOSTILE}"[:200])
    form.get_by_label("Login").fill(f"p{mark}")
    form.get_by_role("button").click()
    expect(ann.page.locator(".secret")).to_contain_text(mark)
    assert ann.harm() == []
    return ["/people"]


def login(there: Visited, ann: Victim, mark: str) -> list[str]:
    """A login that is none is refused, and said."""
    ann.page.goto("/people")
    form = ann.page.locator("form[action='/people']")
    form.get_by_label("Name").fill("Eve")
    form.get_by_label("Login").fill(f"{mark}{HOSTILE}"[:100])
    form.get_by_role("button").click()
    expect(ann.page.get_by_role("alert")).to_contain_text(mark)
    return []


def colleague(there: Visited, ann: Victim, mark: str) -> list[str]:
    """Somebody's own name: what others see of their claims, and of their answers as news."""
    books, name = there.house.books, f"{mark}{HOSTILE}"[:200]
    made = access.add_person(books, CONSOLE, f"c{mark}", name, EVERYWHERE)
    by = f"{name} [{made}]"
    there.hold(mark, 2)
    there.house.claims.claim(ROOMS, f"{mark}.0", by, 300)
    ann.page.clock.install()
    ann.page.goto(f"/i/{ROOMS}/queue")
    seen = {"by": by, "verdict": "veto", "code": "other", "reason": name}
    there.answer(f"{mark}.1", **seen)
    ann.page.clock.run_for(10_500)
    row = ann.page.locator(f".row[data-id='{mark}.1']")
    expect(row.locator(".who")).to_contain_text(f"vetoed by {mark}")
    assert ann.harm() == []
    return [f"/i/{ROOMS}/queue", f"/i/{ROOMS}/d/{mark}.0", f"/i/{ROOMS}/d/{mark}.1"]


def own_name(there: Visited, ann: Victim, mark: str) -> list[str]:
    """One's own name stands on every page."""
    books = there.house.books
    made = access.add_person(books, CONSOLE, f"o{mark}", f"{mark}{HOSTILE}"[:200], EVERYWHERE)
    token = redeem(books, token_of(access.make_link(books, CONSOLE, made, there.base)))
    ann.context.add_cookies([{"name": "gdcb", "value": token, "url": there.base}])
    return ["/", "/settings", f"/i/{ROOMS}"]


def key(there: Visited, ann: Victim, mark: str) -> list[str]:
    """A key has a name."""
    given = [("decide", ROOMS)]
    access.add_key(there.house.books, CONSOLE, f"{mark}{HOSTILE}"[:200], given)
    return ["/people"]


def addressed(path: str, *fields: str, is_shown: bool = True) -> Callable[..., list[str]]:
    """Return an attempt through the fields of an address."""

    def plant(there: Visited, ann: Victim, mark: str) -> list[str]:
        asked = "&".join(f"{name}={quote_plus(mark + HOSTILE)}" for name in fields)
        ann.page.goto(f"{path}?{asked}")
        assert ann.page.evaluate(_SAID, mark) is is_shown
        return []

    return plant


def pathed(before: str, after: str = "", is_shown: bool = True) -> Callable[..., list[str]]:
    """Return an attempt through a piece of a path."""

    def plant(there: Visited, ann: Victim, mark: str) -> list[str]:
        # A slash would end the piece, quoted or not.
        hostile = HOSTILE.replace("//", "https:").replace("/", "")
        ann.page.goto(f"{before}{quote(mark + hostile, safe='')}{after}")
        assert ann.page.evaluate(_SAID, mark) is is_shown
        return []

    return plant


def kept(name: str, before: str = "", is_shown: bool = False) -> Callable[..., list[str]]:
    """Return an attempt through a cookie of ours that another page has set."""

    def plant(there: Visited, ann: Victim, mark: str) -> list[str]:
        value = quote(f"{before}{mark}{HOSTILE}")
        ann.context.add_cookies([{"name": name, "value": value, "url": there.base}])
        ann.page.goto("/")
        assert ann.page.evaluate(_SAID, mark) is is_shown
        return []

    return plant


def wrong_login(there: Visited, ann: Victim, mark: str) -> list[str]:
    """Who cannot sign in is shown their login again."""
    ann.context.clear_cookies()
    ann.page.goto("/sign-in")
    ann.page.get_by_label("Login").fill(f"{mark}{HOSTILE}")
    ann.page.get_by_label("Password").fill("x")
    ann.page.get_by_role("button", name="Sign in").click()
    expect(ann.page.get_by_role("alert")).to_be_visible()
    assert ann.page.evaluate(_SAID, mark)
    return []


def request_header(there: Visited, ann: Victim, mark: str) -> list[str]:
    """The id of a request stands in the footer; a hostile one is replaced."""
    ann.context.set_extra_http_headers({"x-request-id": f"{mark}{HOSTILE}"})
    ann.page.goto("/")
    assert not ann.page.evaluate(_SAID, mark)
    return []


def bulk(there: Visited, ann: Victim, mark: str) -> list[str]:
    """A form selects what is none."""
    there.hold(mark, 2)
    ann.page.goto(f"/i/{ROOMS}/queue")
    box = ann.page.locator(".row input[type=checkbox]").first
    box.evaluate("(e, words) => { e.value = words; e.checked = true; }", f"{mark}{HOSTILE}")
    ann.page.get_by_role("button", name="Veto selected").click()
    expect(ann.page.get_by_role("alert")).to_be_visible()
    return []


def document(path: str) -> Callable[..., list[str]]:
    """Return a visit to a JSON document as if it were a page: it is never drawn as one."""

    def plant(there: Visited, ann: Victim, mark: str) -> list[str]:
        there.hold(mark, unit=f"{mark}{HOSTILE}"[:200])
        there.answer(mark, by=f"{mark}{HOSTILE} [e]", verdict="veto", code="other", reason=HOSTILE)
        answer = ann.page.goto(path.format(id=mark))
        assert answer is not None
        assert answer.headers["content-type"].startswith("application/json")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert mark in answer.text()
        return []

    return plant


def hook(there: Visited, ann: Victim, mark: str) -> list[str]:
    """The address of a webhook is no address."""
    ann.page.goto(f"/i/{ROOMS}/queue")
    said = """async words => { const token = document.querySelector("[name=csrf]").value;
      const answer = await fetch("/v1/instances/rooms/webhooks", {method: "POST", body:
        JSON.stringify({url: words, kinds: ["Paused"]}),
        headers: {"content-type": "application/json", "x-csrf-token": token}});
      return [answer.status, answer.headers.get("content-type")]; }"""
    for url in (f"javascript:alert('{mark}')", f"https://{HOSTILE}/"):
        status, kind = ann.page.evaluate(said, url)
        assert (status, kind) == (422, "application/json")
    return []


TEXTS: dict[str, Callable[..., list[str]]] = {
    "unit": unit,
    "words of a review": words,
    "code of a review": code,
    "price of an edit": price,
    "reason of a pause": pause,
    "reason of a change": change_reason,
    "comment of a declaration": change_comment,
    "declaration that is none": change_refused,
    "title and gate": title,
    "name of a person": person,
    "login of a person": login,
    "name of a colleague": colleague,
    "own name": own_name,
    "name of a key": key,
    "login at the door": wrong_login,
    "id of a request": request_header,
    "selected rows": bulk,
    "webhook": hook,
    "filters of the queue": addressed(f"/i/{ROOMS}/queue", "rule", "unit", "text"),
    "who has claimed": addressed(f"/i/{ROOMS}/queue", "claimed", is_shown=False),
    "place in the queue": addressed(f"/i/{ROOMS}/queue", "offset", "reload", is_shown=False),
    "search": addressed(f"/i/{ROOMS}/audit", "id", "unit", "who", "rule"),
    "status": addressed(f"/i/{ROOMS}/audit", "status", is_shown=False),
    "days": addressed(f"/i/{ROOMS}/audit", "from", "to"),
    "cursors": addressed(f"/i/{ROOMS}/audit", "before", "after", is_shown=False),
    "one-time link": addressed("/sign-in", "link", is_shown=False),
    "where to go then": addressed("/sign-in", "then", is_shown=False),
    "where to go back": addressed("/settings", "back", is_shown=False),
    "instance that is none": pathed("/i/", "/queue"),
    "decision that is none": pathed(f"/i/{ROOMS}/d/"),
    "evidence of none": pathed(f"/i/{ROOMS}/d/", "/evidence"),
    "change that is none": pathed(f"/i/{ROOMS}/changes/", is_shown=False),
    "file that is none": pathed("/static/", is_shown=False),
    "cookie: told": kept("gdcb-told", "done:", is_shown=True),
    "cookie: theme": kept("gdcb-theme"),
    "cookie: session": kept("gdcb"),
    "news as a page": document(f"/i/{ROOMS}/queue.json?since=0"),
    "decision as a page": document(f"/v1/instances/{ROOMS}/decisions/{{id}}"),
}


@pytest.mark.parametrize("place", TEXTS)
def test_text_stays_text(there: Visited, ann: Victim, place: str) -> None:
    """No dialogue, no script, no foreign host, no element, and nothing for the policy to refuse."""
    mark = f"x{next(_numbers)}x"
    try:
        for path in TEXTS[place](there, ann, mark):
            assert ann.harm() == []
            ann.page.goto(path)
            assert ann.page.evaluate(_SAID, mark), path
            assert ann.harm() == [], path
        assert ann.harm() == []
    finally:
        if place == "reason of a pause":
            desk = there.house.desk(CABINS)
            desk.submit(lambda turn: operating.resume(turn, "over", "Bob [b0b]")).result()


# Forged requests

FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
_KIND = "headers: {'content-type': 'application/json'}"
_TOKEN = "headers: {'x-csrf-token': '0'}"
_VERB = "headers: {'x-http-method-override': 'DELETE', 'content-type': 'application/json'}"
Sent = Callable[[list[Target], list[Target], str], str]
FORGED: dict[str, tuple[str, Sent]] = {
    "forms": ("POST", lambda pages, api, base: attacking.forms(pages, base)),
    "multipart forms": ("POST", lambda pages, api, base: attacking.forms(pages, base, MULTIPART)),
    "text/plain forms": (
        "POST",
        lambda pages, api, base: attacking.forms([*api, *pages], base, "text/plain"),
    ),
    "forms without an origin": (
        "POST",
        lambda pages, api, base: attacking.sandboxed(attacking.forms(pages, base)),
    ),
    "fetch": ("POST", lambda pages, api, base: attacking.fetches(pages, base, "mode: 'no-cors'")),
    "fetch without an origin": (
        "POST",
        lambda pages, api, base: attacking.sandboxed(
            attacking.fetches(pages, base, "mode: 'no-cors'")
        ),
    ),
    "fetch of JSON": (
        "OPTIONS",
        lambda pages, api, base: attacking.fetches(api, base, _KIND, True),
    ),
    "fetch of JSON as text": (
        "POST",
        lambda pages, api, base: attacking.fetches(api, base, "mode: 'no-cors'", True),
    ),
    "fetch with a token": (
        "OPTIONS",
        lambda pages, api, base: attacking.fetches(pages, base, _TOKEN),
    ),
    "another method": (
        "OPTIONS",
        lambda pages, api, base: attacking.fetches(api, base, _VERB, True),
    ),
    "images": (
        "GET",
        lambda pages, api, base: attacking.images([*pages, *api, *attacking.looks(pages)], base),
    ),
}


@dataclass(frozen=True)
class Aim:
    """What an attacker knows at best: every address, every version, every hash."""

    pages: list[Target]
    api: list[Target]


@pytest.fixture(scope="module")
def aim(there: Visited) -> Aim:
    books = there.house.books
    there.hold("aim", 2)
    other = access.add_person(books, CONSOLE, "other", "Other", [("approve", "*")])
    key = access.add_key(books, CONSOLE, "shop", [("decide", ROOMS)]).text.split("_")[1]
    eve = access.make_link(books, CONSOLE, _added(there, "mallory"), there.base)
    desk, text = there.house.desk(ROOMS), declared(ROOMS, "Rooms by the sea").replace("300", "299")
    desk.submit(lambda turn: operating.propose_change(turn, text, "x", "Bob [b0b]")).result()
    pages = attacking.page_targets(there, "aim.0", other, key, token_of(eve))
    return Aim(pages, attacking.program_targets(there, "aim.1"))


def _added(there: Visited, login: str) -> str:
    return access.add_person(there.house.books, CONSOLE, login, login.title(), EVERYWHERE)


def test_every_form_is_aimed_at(there: Visited, aim: Aim) -> None:
    """A POST of the pages that is added later is attacked, too, or this fails."""
    routes = {
        str(one.path)
        for one in iter_route_contexts(there.app.routes)
        if "POST" in (one.methods or ()) and not str(one.path).startswith("/v1/")
    }
    assert {one.route for one in aim.pages} == routes


def _attack(
    ann: Victim, there: Visited, site: Elsewhere, aim: Aim, way: str, host: str
) -> tuple[int, int]:
    """Have a signed-in browser open a hostile page; return requests that came, and with cookie."""
    method, sent = FORGED[way]
    ann.page.goto(f"/i/{ROOMS}/queue")
    html = sent(aim.pages, aim.api, there.base)
    site.pages["/trap"] = f"<!doctype html><title>trap</title>{html}"
    wanted = html.count("<form ") + html.count("<img ") + html.count('"path":')
    wanted = max(wanted, html.count("&lt;form ") + html.count("&quot;path&quot;:"))
    first = len(there.asked)
    ann.page.goto(f"{site.far if host == 'far' else site.near}/trap", wait_until="commit")
    limit = time.monotonic() + 20
    paths = {one.path for one in (*aim.pages, *aim.api, *attacking.looks(aim.pages))}

    def came() -> list[Any]:
        found = there.asked[first:]
        return [one for one in found if one.method == method and one.path in paths]

    while len(came()) < wanted:
        assert time.monotonic() < limit, f"{len(came())} of {wanted} came"
        ann.page.wait_for_timeout(20)
    return len(came()), sum(one.has_cookie for one in came())


@pytest.mark.parametrize("host", ["near", "far"])
@pytest.mark.parametrize("way", FORGED)
def test_forged_requests_change_nothing(
    there: Visited, ann: Victim, elsewhere: Elsewhere, aim: Aim, way: str, host: str
) -> None:
    """Neither ledger nor access: from another port, where the cookie comes along, and from afar."""
    before = everything(there)
    kept = ann.context.cookies(there.base)
    n, n_with_cookie = _attack(ann, there, elsewhere, aim, way, host)
    assert n > 0
    if host == "far" or "OPTIONS" in FORGED[way][0]:
        assert n_with_cookie == 0
    elif "without an origin" not in way:
        assert n_with_cookie == n
    assert everything(there) == before
    assert ann.context.cookies(there.base) == kept
    ann.page.goto(f"/i/{ROOMS}/queue")
    expect(ann.page.get_by_role("heading", name="Waiting for a person")).to_be_visible()


def _cookie(victim: Victim) -> dict[str, str]:
    [token] = [one.get("value") for one in victim.context.cookies() if one.get("name") == "gdcb"]
    return {"cookie": f"gdcb={token}"}


def test_a_token_that_leaked_is_not_enough(
    there: Visited, ann: Victim, elsewhere: Elsewhere, aim: Aim
) -> None:
    """Another site that knows the form's token and has the cookie sent is told by its origin."""
    token = there.house.door.form_token(_cookie(ann))
    pages = [replace(one, fields=dict(one.fields) | {"csrf": token}) for one in aim.pages]
    before = everything(there)
    n, n_with_cookie = _attack(ann, there, elsewhere, Aim(pages, []), "forms", "near")
    assert n == n_with_cookie == len(pages)
    assert everything(there) == before


@pytest.mark.parametrize("whose", ["nobody's", "made up", "another's"])
def test_a_form_of_ours_needs_its_own_token(there: Visited, ann: Victim, whose: str) -> None:
    """On our own page, where origin and cookie are right, the token alone decides."""
    other = there.house.door.form_token({"cookie": f"gdcb={there.session(f'm{next(_numbers)}')}"})
    token = {"nobody's": "", "made up": "0" * 64, "another's": other}[whose]
    mark = f"t{next(_numbers)}"
    there.hold(mark)
    ann.page.goto(f"/i/{ROOMS}/d/{mark}")
    before = everything(there)
    ann.page.locator("#approve [name=csrf]").evaluate("(e, to) => { e.value = to; }", token)
    with ann.page.expect_response("**/approve") as got:
        ann.page.locator("#approve button").click()
    assert got.value.status == 403
    assert everything(there) == before


def test_the_trap_would_work_without_the_check(
    browser: Browser, elsewhere: Elsewhere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same forms do change things where nobody looks at origin and token: they are real."""
    furnish(tmp_path / "furnished.db")
    with visited(tmp_path / "furnished.db", tmp_path / "gdcb.db") as careless:
        books = careless.house.books
        careless.hold("aim")
        person = _added(careless, "other")
        desk = careless.house.desk(ROOMS)
        text = declared(ROOMS, "Rooms by the sea").replace("300", "299")
        desk.submit(lambda turn: operating.propose_change(turn, text, "x", "Bob [b0b]")).result()
        key = access.add_key(books, CONSOLE, "shop", [("decide", ROOMS)]).text.split("_")[1]
        pages = attacking.page_targets(careless, "aim", person, key, "0")
        # Those end the session, with which all the others come.
        pages = [one for one in pages if not one.route.startswith(("/sign", "/account"))]
        before, found = everything(careless), victim_of(browser, careless, "ann")
        changed = everything(careless)
        monkeypatch.setattr(Door, "check_forgery", lambda *_, **__: None)
        _attack(found, careless, elsewhere, Aim(pages, []), "forms", "near")
        after = everything(careless)
        found.context.close()
    assert before[ROOMS] == changed[ROOMS] != after[ROOMS]
    assert changed["access_grants"] != after["access_grants"]
    assert changed["access_keys"] != after["access_keys"]


@pytest.mark.parametrize("host", ["near", "far"])
def test_pages_are_not_framed(there: Visited, ann: Victim, elsewhere: Elsewhere, host: str) -> None:
    """Nobody lays our buttons under theirs."""
    elsewhere.pages["/frame"] = f'<iframe src="{there.base}/i/{ROOMS}/queue"></iframe>'
    ann.page.goto(f"{elsewhere.far if host == 'far' else elsewhere.near}/frame")
    [inner] = ann.page.main_frame.child_frames
    _settle(ann.page)
    assert "Waiting for a person" not in inner.content()
    assert inner.url.startswith("chrome-error:")


def _settle(page: Page) -> None:
    page.wait_for_load_state("load")
    page.wait_for_timeout(100)


@pytest.mark.parametrize("how", ["fetch", "script", "window"])
def test_nobody_reads_our_answers(
    there: Visited, ann: Victim, elsewhere: Elsewhere, how: str
) -> None:
    """Another port of our host gets the cookie sent, but not the answer read."""
    url = f"{there.base}/i/{ROOMS}/queue.json?since=0"
    read = {
        "fetch": f"fetch({url!r}, {{credentials: 'include'}}).then(a => a.text())"
        ".then(t => { window.got = t; }, () => { window.got = ''; });",
        "script": f"const s = document.createElement('script'); s.src = {url!r};"
        "s.onload = () => { window.got = 'loaded'; }; s.onerror = () => { window.got = ''; };"
        "document.head.append(s);",
        "window": f"const w = open({url!r}); const wait = setInterval(() => {{ try {{ "
        "if (w.location.href !== 'about:blank') window.got = w.document.body.innerText || 'read'; "
        "} catch { window.got = ''; } if (window.got !== undefined) clearInterval(wait); }, 20);",
    }[how]
    elsewhere.pages["/read"] = f"<!doctype html><head></head><script>{read}</script>"
    ann.page.goto(f"{elsewhere.near}/read")
    ann.page.wait_for_function("window.got !== undefined")
    assert ann.page.evaluate("window.got") == ""


# The door


AWAY = ["//evil.test", "/\\evil.test", "https://evil.test/", "/\t/evil.test",
        "javascript:alert(1)", "/%0d%0aLocation:%20//evil.test"]  # fmt: skip


@pytest.mark.parametrize("to", AWAY)
def test_signing_in_leads_nowhere_else(there: Visited, browser: Browser, to: str) -> None:
    """Whatever `then` and `back` say, one stays here."""
    login = f"p{next(_numbers)}"
    made = _added(there, login)
    who = Principal(made, login.title(), "person", grants(*EVERYWHERE))
    access.set_password(there.house.books, who, PASSWORD, cost=CHEAP)
    found = victim_of(browser, there, "")
    page = found.page
    page.goto(f"/sign-in?then={quote(to, safe='')}")
    page.get_by_label("Login").fill(login)
    page.get_by_label("Password").fill(PASSWORD)
    page.locator("[name=then]").evaluate("(e, to) => { e.value = to; }", to)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "/sign-in" not in url)
    assert page.url.startswith(f"{there.base}/")
    page.goto(f"/settings?back={quote(to, safe='')}")
    page.locator("[name=back]").evaluate("(e, to) => { e.value = to; }", to)
    page.get_by_role("button", name="Keep").click()
    page.wait_for_url(lambda url: "/settings" not in url)
    assert page.url.startswith(f"{there.base}/")
    assert (found.foreign, found.dialogues) == ([], [])
    found.context.close()


def test_a_session_that_was_planted_is_not_taken_over(there: Visited, browser: Browser) -> None:
    """Signing in makes another token, and ends the one that an attacker may know."""
    planted = there.session("planter")
    found = victim_of(browser, there, "")
    found.context.add_cookies([{"name": "gdcb", "value": planted, "url": there.base}])
    found.page.goto(there.link("planted"))
    found.page.get_by_role("button", name="Sign in").click()
    found.page.get_by_role("heading", name="Instances").wait_for()
    [token] = [one.get("value") for one in found.context.cookies() if one.get("name") == "gdcb"]
    assert token != planted
    assert there.house.door.authenticate({"cookie": f"gdcb={planted}"}) is None
    found.context.close()


def test_scripts_cannot_see_the_session(there: Visited, browser: Browser) -> None:
    """HttpOnly, Strict, for this host alone; what a form tells is HttpOnly, too."""
    found = victim_of(browser, there, "")
    found.page.goto(there.link("flags"))
    found.page.get_by_role("button", name="Sign in").click()
    found.page.get_by_role("heading", name="Instances").wait_for()
    [cookie] = found.context.cookies()
    assert (cookie.get("name"), cookie.get("httpOnly")) == ("gdcb", True)
    assert (cookie.get("sameSite"), cookie.get("domain")) == ("Strict", "127.0.0.1")
    assert found.page.evaluate("document.cookie") == ""
    found.context.close()


def test_two_sessions_in_one_browser_are_none(there: Visited, ann: Victim) -> None:
    """A neighbour's cookie of the same name on a longer path does not slip in before ours."""
    token = there.session("neighbour")
    tossed: Any = {"name": "gdcb", "value": token, "domain": "127.0.0.1", "path": "/i"}
    ann.context.add_cookies([tossed])
    ann.page.goto(f"/i/{ROOMS}/queue")
    assert "/sign-in" in ann.page.url


@pytest.mark.parametrize("path", [f"/i/{ROOMS}", f"/i/{ROOMS}/d/past0.3/evidence", "/people"])
def test_nothing_is_left_behind_after_signing_out(there: Visited, ann: Victim, path: str) -> None:
    """The way back shows the door: no page with data is kept, in memory or on disk."""
    answer = ann.page.goto(path)
    assert answer is not None
    assert answer.headers["cache-control"] == "no-store"
    heading = ann.page.locator("h1").inner_text()
    ann.page.get_by_role("button", name="Sign out").click()
    ann.page.wait_for_url("**/sign-in")
    ann.page.go_back()
    ann.page.wait_for_url("**/sign-in?then=*")
    assert heading not in ann.page.locator("body").inner_text()


def test_there_are_forty_attempts() -> None:
    """Counted, so that none goes missing."""
    assert len(TEXTS) + 2 * len(FORGED) + 4 + 2 + 3 + len(AWAY) + 3 + 3 >= 40
