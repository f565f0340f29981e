"""The whole application on a database of its own: two instances, keys, people who signed in."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from httpx2 import Response

from gdcb.ledger.sql import SqlStore
from gdcb.service import access, operating
from gdcb.service.access import CONSOLE, FOR_KEYS, ROLES, Rate, RateLimits
from gdcb.service.access.links import redeem
from gdcb.service.app import Application, build
from gdcb.service.house import House, Settings
from tests.service import desks
from tests.service.access_builders import CHEAP, token_of
from tests.service.desks import Clock

BASE = "http://testserver"
ROOMS, CABINS = "rooms", "cabins"
# A test asks more often in a second than anybody may: what is tested here is not the limit.
_MUCH = Rate(1e6, 1e6)
PLENTY = RateLimits(_MUCH, _MUCH, _MUCH, _MUCH, _MUCH, _MUCH)
Headers = dict[str, str]


@dataclass
class Site:
    """The application, with a client for programs and a clock that the test moves."""

    app: Application
    house: House
    client: TestClient
    clock: Clock
    _made: dict[Any, Headers] = field(default_factory=dict)

    # Who asks

    def key(self, *given: tuple[str, str]) -> Headers:
        """Return the headers of a key with these roles."""
        if ("key", given) not in self._made:
            made = access.add_key(self.house.books, CONSOLE, "shop", given)
            self._made["key", given] = {"authorization": f"Bearer {made.text}"}
        return self._made["key", given]

    def person(self, login: str, *given: tuple[str, str]) -> Headers:
        """Return the headers of somebody who signed in, as a script on our page sends them."""
        if login not in self._made:
            token = self.session(login, *given)
            cookie = {"cookie": f"gdcb={token}"}
            self._made[login] = cookie | {"x-csrf-token": self.house.door.form_token(cookie)}
        return self._made[login]

    def session(self, login: str, *given: tuple[str, str]) -> str:
        """Add somebody, sign them in, and return their session's token."""
        books = self.house.books
        made = access.add_person(books, CONSOLE, login, login.title(), given)
        return redeem(books, token_of(access.make_link(books, CONSOLE, made, BASE)))

    @property
    def shop(self) -> Headers:
        """A key that may all that a key may, on every instance."""
        return self.key(*((role, "*") for role in sorted(FOR_KEYS)))

    @property
    def ann(self) -> Headers:
        """A person who may everything, on every instance."""
        return self.person("ann", *((role, "*") for role in ROLES))

    @property
    def bob(self) -> Headers:
        """Another one."""
        return self.person("bob", *((role, "*") for role in ROLES))

    # What they ask

    def ask(self, method: str, path: str, who: Mapping[str, str] | None = None, **more: Any) -> Any:
        """Send one request, and forget the cookies that came with the answer."""
        headers = dict(who or {}) | dict(more.pop("headers", {}))
        answer = self.client.request(method, path, headers=headers, **more)
        self.client.cookies.clear()
        return answer

    def get(self, path: str, who: Mapping[str, str] | None = None, **more: Any) -> Any:
        """Read."""
        return self.ask("GET", path, who, **more)

    def post(
        self, path: str, who: Mapping[str, str] | None = None, said: Any = None, **more: Any
    ) -> Any:
        """Send a JSON document."""
        return self.ask("POST", path, who, json=said, **more)

    def decide(self, id: str, busy: float = 0.0, instance: str = ROOMS, **more: Any) -> Any:
        """Decide one night as the shop; from busy 0.5 on it is held."""
        said = {"id": id, "context": desks.night(busy), **more}
        answer = self.post(f"/v1/instances/{instance}/decisions", self.shop, said)
        assert answer.status_code == 201, answer.text
        return answer.json()

    def seen(self, id: str, instance: str = ROOMS) -> dict[str, Any]:
        """Return version and content of a decision, as a reviewer is shown them."""
        found = self.get(f"/v1/instances/{instance}/decisions/{id}", self.ann).json()
        return {"version": found["version"], "content": found["content"]}

    def review(
        self,
        id: str,
        verdict: str = "approve",
        who: Headers | None = None,
        instance: str = ROOMS,
        **more: Any,
    ) -> Any:
        """Answer a held decision as it is now."""
        said = {"verdict": verdict, "code": "fits", **self.seen(id, instance), **more}
        return self.post(f"/v1/instances/{instance}/decisions/{id}/review", who or self.ann, said)

    # What came of it

    def size(self, instance: str = ROOMS) -> int:
        """Entries of a chain."""
        return self.house.store.head(instance).size

    def heads(self) -> dict[str, bytes]:
        """Return the heads of all chains: nothing was added where they stay the same."""
        store = self.house.store
        return {chain: store.head(chain).hash for chain in store.chains()}

    def kinds(self, since: int = 0, instance: str = ROOMS) -> list[str]:
        """Return the kinds of the entries from a number on."""
        return [entry.kind for entry in self.house.store.read(instance, since)]


@dataclass
class Visitor:
    """A browser: it keeps cookies, follows nothing, and sends forms as pages have them."""

    site: Site
    cookies: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, **headers: str) -> Any:
        """Open a page."""
        return self._send("GET", path, headers)

    def post(
        self,
        path: str,
        form: dict[str, Any] | None = None,
        token: str | None = None,
        **headers: str,
    ) -> Any:
        """Send a form with the token that our pages have; '' sends none."""
        data = dict(form or {})
        said = self.token if token is None else token
        if said:
            data["csrf"] = said
        return self._send("POST", path, {"origin": BASE} | headers, data=data)

    @property
    def token(self) -> str:
        """The hidden field of the forms on this browser's pages."""
        return self.site.house.door.form_token({"cookie": self._cookie()})

    def _cookie(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    def _send(self, method: str, path: str, headers: Mapping[str, str], **more: Any) -> Any:
        sent = {"accept": "text/html"} | {k.replace("_", "-"): v for k, v in headers.items()}
        if self.cookies:
            sent["cookie"] = self._cookie()
        answer = self.site.ask(method, path, sent, **more)
        for line in answer.headers.get_list("set-cookie"):
            for name, morsel in SimpleCookie(line).items():
                self.cookies.pop(name, None)
                if morsel.value and morsel["max-age"] != "0":
                    self.cookies[name] = morsel.value
        return answer


def visitor(site: Site, login: str, *given: tuple[str, str]) -> Visitor:
    """Return the browser of somebody who signed in."""
    return Visitor(site, {"gdcb": site.session(login, *given)})


def hidden(page: str, name: str) -> str:
    """Return the value of the first hidden field of a name."""
    found = re.search(rf'name="{re.escape(name)}" value="([^"]*)"', page)
    assert found is not None, f"no field {name}"
    return found[1]


def problem(answer: Response) -> dict[str, Any]:
    """Return what the one error body says, and hold the body to its form."""
    assert answer.headers["content-type"] == "application/json"
    document = answer.json()
    assert list(document) == ["error"]
    said: dict[str, Any] = document["error"]
    assert set(said) - {"details"} == {"code", "message", "request"}
    assert said["request"] == answer.headers["x-request-id"]
    return said


def called(text: str, name: str) -> str:
    """Return a declaration under another name."""
    return text.replace('name = "rooms"', f'name = "{name}"', 1)


@contextmanager
def served(
    store: SqlStore, declared: str | None = None, settings: Settings | None = None
) -> Iterator[Site]:
    """Run the application on a store, with two instances of a declaration."""
    clock, text = Clock(), desks.held() if declared is None else declared
    for name, seed in ((ROOMS, 7), (CABINS, 8)):
        operating.create(store, called(text, name), "cy", "first", seed=seed, clock=clock)
    house = House(store, settings or Settings(BASE, tick=0, rates=PLENTY), clock)
    house.nonce = desks.counted()
    house.door.cost = CHEAP
    app = build(house)
    assert isinstance(app, Application)
    try:
        with TestClient(app, BASE, raise_server_exceptions=False, follow_redirects=False) as client:
            yield Site(app, house, client, clock)
    finally:
        store.close()


@contextmanager
def site(
    empty: Path, folder: Path, declared: str | None = None, settings: Settings | None = None
) -> Iterator[Site]:
    """Run the application on a copy of an empty database of SQLite."""
    path = shutil.copy(empty, folder / f"{secrets.token_hex(4)}.db")
    with served(SqlStore(path), declared, settings) as made:
        yield made
