"""The whole service at an address of its own, and people who visit it in a real browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from gdcb import events as ev
from gdcb.cases import Record
from gdcb.codec import from_body
from gdcb.ledger.sql import SqlStore
from gdcb.service import access, answering, deciding, operating
from gdcb.service.access import CONSOLE, ROLES, Rate, RateLimits
from gdcb.service.access.links import redeem
from gdcb.service.app import build
from gdcb.service.desk import now
from gdcb.service.house import House, Settings
from gdcb.service.turn import Turn
from tests.browser import served
from tests.service import desks
from tests.service.access_builders import CHEAP, token_of
from tests.service.desks import Office, night

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

ROOMS, CABINS = "rooms", "cabins"
SHORT = 5  # seconds until a held decision of the cabins expires
EVERYWHERE = tuple((role, "*") for role in ROLES)
_MUCH = Rate(1e6, 1e6)
_PLENTY = RateLimits(_MUCH, _MUCH, _MUCH, _MUCH, _MUCH, _MUCH)


def declared(name: str, title: str, service: str = "") -> str:
    """Return prices that wait for a manager on busy nights, under a name and a title."""
    text = desks.held(service).replace('name = "rooms"', f'name = "{name}"', 1)
    return text.replace("context.base", f'title = "{title}"\ncontext.base', 1)


def furnish(path: Path) -> None:
    """Make a database with two instances, the first with a day behind it."""
    store, clock = SqlStore(path), desks.Clock(now() - 86_400 * desks.SECOND)
    expiry = f"expiry = {{ after = {SHORT}, then = 'veto' }}"
    operating.create(store, declared(ROOMS, "Rooms by the sea"), "cy", "first", seed=7, clock=clock)
    text = declared(CABINS, "Cabins", expiry)
    operating.create(store, text, "cy", "first", seed=8, clock=clock)
    made = Office(store, ROOMS, clock)
    for hour in range(6):
        ids = [f"past{hour}.{i}" for i in range(4)]
        clock.pass_by(3_600)
        made.decide(f"past{hour}", [night(i / 4, 100.0 + 7 * hour) for i in range(4)], unit="sea")
        clock.pass_by(600)
        made.answer(ids[2], by="Bob [b0b]")
        made.answer(ids[3], "edit", {"price": 120.5}, "Bob [b0b]", "known-better", "a fair nearby")
        clock.pass_by(600)
        made.observe({id: float(i % 2) for i, id in enumerate(ids)})
    made.desk.close()
    store.close()


@dataclass(frozen=True)
class Asked:
    """One request that came: whether with a session's cookie, and how it was answered."""

    method: str
    path: str
    has_cookie: bool
    status: int


@dataclass
class Visited:
    """A running service: where it is, what is behind it, and what it was asked so far."""

    base: str
    house: House
    app: FastAPI
    asked: list[Asked] = field(default_factory=list)

    # What there is to visit

    def hold(self, id: str, n: int = 1, chain: str = ROOMS, unit: str = "sea", **more: Any) -> None:
        """Have decisions made that wait for the manager: `id`, or `id.0`, `id.1`, …"""
        desk = self.house.desk(chain)
        contexts = [night(0.9, 100.0 + 10 * i) for i in range(n)]
        wanted = deciding.request_of(
            desk.instance, desk.policy, id, contexts, n == 1, more.pop("by", "shop"), unit, **more
        )
        desk.put(deciding.job(wanted)).result(timeout=30)

    def answer(self, id: str, by: str, verdict: str, code: str, reason: str) -> None:
        """Have somebody answer a held decision of the rooms, past the pages."""

        def run(turn: Turn) -> None:
            record = answering.find(turn.live, id)
            content = answering.content_of(turn.live, record)
            said = (id, verdict, None, by, code, reason, record.judged_at, content)
            answering.review(turn, answering.Review(*said))

        self.house.desk(ROOMS).submit(run).result(timeout=30)

    def link(self, login: str, *given: tuple[str, str]) -> str:
        """Add somebody, with every role where none is given, and return their one-time link."""
        books = self.house.books
        made = access.add_person(books, CONSOLE, login, login.title(), given or EVERYWHERE)
        return access.make_link(books, CONSOLE, made, self.base)

    def session(self, login: str, *given: tuple[str, str]) -> str:
        """Add somebody, sign them in, and return their session's token."""
        return redeem(self.house.books, token_of(self.link(login, *given)))

    # What came of it

    def size(self, chain: str = ROOMS) -> int:
        """Entries of a chain."""
        return self.house.store.head(chain).size

    def events(self, since: int = 0, chain: str = ROOMS) -> list[ev.Event]:
        """Return the events from a number on."""
        return [from_body(e.kind, e.body) for e in self.house.store.read(chain, since)]

    def answers(self, id: str, chain: str = ROOMS) -> list[ev.Reviewed]:
        """Return what people answered about a decision, as the ledger has it."""
        found = [one for one in self.events(0, chain) if isinstance(one, ev.Reviewed)]
        return [one for one in found if one.id == id]

    def record(self, id: str, chain: str = ROOMS) -> Record:
        """Return a decision as the fold has it."""
        desk = self.house.desk(chain)
        return desk.look(lambda live: answering.find(live, id)).result(timeout=30)

    def ran(self, id: str, chain: str = ROOMS) -> float | None:
        """Return the price that ran; None: nothing has."""
        action = self.record(id, chain).executed
        return None if action is None else float(action[0])

    def waiting(self, chain: str = ROOMS) -> set[str]:
        """Return the ids that wait for a person."""
        return self.house.desk(chain).look(lambda live: set(live.waiting)).result(timeout=30)


@dataclass
class Visitor:
    """Somebody's browser window; what the policy refuses or the script throws is kept."""

    context: BrowserContext
    page: Page
    trouble: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))

    def _heard(self, said: ConsoleMessage) -> None:
        # A refusal that a page shows (409, 422) is also told to the console; that is no trouble.
        if said.type == "error" and not said.text.startswith("Failed to load resource"):
            self.trouble.append(said.text)


def visitor(
    browser: Browser, there: Visited, login: str = "", *given: tuple[str, str], **look: Any
) -> Visitor:
    """Open a window, of somebody who signed in unless no login is given."""
    options: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}} | look
    context = browser.new_context(base_url=there.base, reduced_motion="reduce", **options)
    context.set_default_timeout(15_000)
    if login:
        cookie: Any = {"name": "gdcb", "value": there.session(login, *given), "url": there.base}
        context.add_cookies([cookie | {"httpOnly": True, "sameSite": "Strict"}])
    return Visitor(context, context.new_page())


class _Later:
    """An application that is known only after its address is."""

    def __init__(self) -> None:
        self.app: ASGIApp | None = None
        self.asked: list[Asked] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.app is not None, "nobody visits before the service is built"

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                cookies = [value for name, value in scope["headers"] if name == b"cookie"]
                has = any(b"gdcb=" in value for value in cookies)
                found = Asked(scope["method"], scope["path"], has, message["status"])
                self.asked.append(found)
            await send(message)

        await self.app(scope, receive, sending)


@contextmanager
def visited(furnished: Path, path: Path) -> Iterator[Visited]:
    """Run the service on a copy of a furnished database."""
    shutil.copy(furnished, path)
    store, later = SqlStore(path), _Later()
    with served(later) as base:
        house = House(store, Settings(base, tick=0.1, rates=_PLENTY))
        house.door.cost = CHEAP
        app = build(house)
        house.start()
        later.app = app
        try:
            yield Visited(base, house, app, later.asked)
        finally:
            house.stop()
    store.close()
