"""The client against the whole application: every route, every field, and what a key may."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from gdcb.client import Client, Refused
from tests.client import test_client
from tests.service.desks import held, night
from tests.service.http import BASE, Headers, Site, site

NAME = "rooms"


@pytest.fixture(scope="module")
def here(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    text = held('launch.mode = "shadow"\npersonal = ["busy"]')
    with site(sqlite_template, tmp_path_factory.mktemp("here"), text) as made:
        yield made


@contextmanager
def client(here: Site, who: Headers | None = None) -> Iterator[Client]:
    """Lend a client whose requests go to the application in this process."""
    headers = here.shop if who is None else who

    def sent(request: httpx.Request) -> httpx.Response:
        kept = {k: v for k, v in request.headers.items() if k not in ("host", "authorization")}
        answer = here.ask(
            request.method, str(request.url), headers, content=request.content, headers=kept
        )
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    with Client(BASE, "key", transport=httpx.MockTransport(sent), retries=0) as made:
        yield made


def _asked() -> dict[str, set[str]]:
    """Return what the client's tests ask for: 'METHOD /path' with the fields that are sent."""
    found: dict[str, set[str]] = {}
    for test in (test_client.test_calls, test_client.test_lists):
        for mark in vars(test)["pytestmark"]:
            for _, _, _, asked, said in mark.args[1]:
                method, _, url = asked.partition(" ")
                fields = found.setdefault(f"{method} {urlsplit(url).path}", set())
                fields |= {*(said or {}), *dict(parse_qsl(urlsplit(url).query))}
    return found


def test_every_route_and_every_field_of_the_document_can_be_asked_for(here: Site) -> None:
    document, asked = here.app.openapi(), _asked()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if not path.startswith("/v1/") or path.endswith("/history"):
                continue  # what watches over the process, and what has a test of its own
            pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(f"{method.upper()} {path}"))
            sent = [fields for one, fields in asked.items() if re.fullmatch(pattern, one)]
            assert sent, f"{method} {path}: no method of the client asks for it"
            fields = {
                one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"
            }
            if "requestBody" in operation:
                schema = operation["requestBody"]["content"]["application/json"]["schema"]
                name = schema["$ref"].rpartition("/")[2]
                fields |= set(document["components"]["schemas"][name]["properties"])
            assert set().union(*sent) == fields, f"{method} {path}"


def test_shadow_and_personal_fields(here: Site) -> None:
    with client(here) as asks:
        made = asks.decide(NAME, night(), incumbent={"price": 77}, subject="g1", id="n1")
        assert (made["live"], made["action"]) == (False, {"price": 77.0})
        week, own = [night(0.1 * i) for i in range(3)], [71.0, 72.0, 73.0]
        asked: Any = {"incumbent": [{"price": one} for one in own], "subject": ["g1", "g2", "g3"]}
        for id, more in (("b1", asked), ("b2", asked | {"incumbent": {"price": own}})):
            rows = asks.decide_batch(NAME, week, id=id, **more)["decisions"]
            assert [row["action"]["price"] for row in rows] == own
        columns = {name: [row[name] for row in week] for name in week[0]}
        found = asks.decide_batch(NAME, columns=columns, id="b3", **asked)["columns"]
        assert found["action.price"] == own
        same = asks.decide_batch(NAME, week, incumbent={"price": 80}, subject="g4", id="b4")
        assert [row["action"]["price"] for row in same["decisions"]] == [80.0] * 3
        with pytest.raises(Refused, match="subject: expected whom the row is about"):
            asks.decide(NAME, night(), incumbent={"price": 77})
        with pytest.raises(Refused, match=r"incumbents.1: expected price; got cost"):
            asks.decide_batch(NAME, week, incumbent=[{"price": 1}, {"cost": 1}, {}], subject="g")


def test_what_a_key_may_run(here: Site) -> None:
    with client(here) as asks:
        assert 'name = "rooms"' in asks.declaration(NAME)["declaration"]
        assert asks.discount(NAME, factor=0.5, since=1, reason="a new season") == {"news": True}
        assert asks.pause(NAME, reason="a storm") == {"news": True}
        assert asks.resume(NAME, reason="over") == {"news": True}


def test_what_needs_a_person(here: Site) -> None:
    """A key is refused; with the headers of a person who signed in, the same calls are taken."""
    held_ones = [("h1", 0.8), ("h2", 0.9)]
    with client(here) as asks:
        for id, busy in held_ones:
            asks.decide(NAME, night(busy), incumbent={"price": 77}, subject="g9", id=id)
        waiting = asks.queue(NAME)["waiting"]
        refusals: list[Callable[[], object]] = [
            lambda: asks.claim(NAME, "h1"),
            lambda: asks.release(NAME, "h1"),
            lambda: asks.review_many(NAME, "approve", waiting, code="fits"),
            lambda: asks.erase(NAME, "g9", reason="they asked"),
        ]
        for ask in refusals:
            with pytest.raises(Refused) as caught:
                ask()
            assert caught.value.status == 403
    with client(here, here.ann) as asks:
        assert asks.claim(NAME, "h1")["id"] == "h1"
        assert asks.release(NAME, "h1") == {"news": True}
        answered = asks.review_many(NAME, "approve", waiting, code="fits", reason="quiet")
        assert [one["status"] for one in answered] == ["passed", "passed"]
        assert asks.erase(NAME, "g9", reason="they asked")["keys"] == 1
