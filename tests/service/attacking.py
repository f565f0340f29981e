"""Another site that has a signed-in browser send requests to the service."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from typing import Any

from sqlalchemy import Table, select
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from gdcb.ledger.live import Live
from gdcb.service import answering, tables
from gdcb.service.access import tables as access
from tests.browser import served
from tests.service.visiting import ROOMS, Visited

# Looking alone moves these.
_MOVING = {"signed_in_at", "seen_at"}


@dataclass(frozen=True)
class Target:
    """A route, an address of it, and what a form or a program would send there."""

    route: str
    path: str
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Elsewhere:
    """A site on the same machine: near is another port of our host, far another host."""

    near: str
    pages: dict[str, str] = field(default_factory=dict)

    @property
    def far(self) -> str:
        """The same site under another host, for which `SameSite` keeps our cookie back."""
        return self.near.replace("127.0.0.1", "localhost")


@contextmanager
def elsewhere() -> Iterator[Elsewhere]:
    """Serve a site that is not ours."""
    pages: dict[str, str] = {}

    async def answer(request: Request) -> HTMLResponse:
        return HTMLResponse(pages.get(request.url.path, "<!doctype html><p>Nothing here."))

    with served(Starlette(routes=[Route("/{path:path}", answer)])) as base:
        yield Elsewhere(base, pages)


def everything(there: Visited) -> dict[str, Any]:
    """Return the heads of all chains and the rows of all tables that a request might change."""
    store = there.house.store
    found: dict[str, Any] = {chain: store.head(chain).hash for chain in store.chains()}
    kept: list[Table] = [*access.metadata.sorted_tables, *tables.metadata.sorted_tables]
    with store.engine.connect() as connection:
        for table in kept:
            columns = [one for one in table.columns if one.name not in _MOVING]
            rows = connection.execute(select(*columns)).all()
            found[table.name] = sorted(map(repr, rows))
    return found


def page_targets(there: Visited, held: str, person: str, key: str, link: str) -> list[Target]:
    """Return a form for every POST of the pages, filled in as well as a stranger could at best."""
    record = there.record(held)
    live = there.house.desk(ROOMS)
    content = live.look(lambda one: _content(one, held)).result()
    number = live.look(lambda one: next(iter(one.proposals))).result()
    seen = {"version": str(record.judged_at), "content": content, "code": "fits", "reason": "x"}
    home, one = f"/i/{ROOMS}", "/i/{name}"
    found = [
        Target("/sign-in", "/sign-in", {"link": link}),
        Target("/sign-out", "/sign-out"),
        Target("/settings", "/settings", {"theme": "dark", "keys": "off"}),
        Target(
            "/account/password",
            "/account/password",
            {"password": "correct horse battery", "again": "correct horse battery"},
        ),
        Target("/account/sign-out", "/account/sign-out"),
        Target("/people", "/people", {"name": "Eve", "login": "eve", "role": "administer"}),
        Target("/keys", "/keys", {"name": "eve", "role": "decide", "instance": "*", "days": "30"}),
        Target("/keys/{id}/revoke", f"/keys/{key}/revoke"),
        Target(f"{one}/changes", f"{home}/changes", {"reason": "x", "declaration": "name = 'x'"}),
        Target(f"{one}/pause", f"{home}/pause", {"reason": "x", "confirm": "yes"}),
        Target(f"{one}/resume", f"{home}/resume", {"reason": "x", "confirm": "yes"}),
        Target(f"{one}/acknowledge", f"{home}/acknowledge", {"reason": "x", "confirm": "yes"}),
        Target(f"{one}/refit", f"{home}/refit", {"confirm": "yes"}),
        Target(f"{one}/d/{{id}}/replay", f"{home}/d/{held}/replay"),
        Target(f"{one}/queue/bulk", f"{home}/queue/bulk", {"row": held, "verdict": "veto"}),
        Target(
            f"{one}/queue/bulk/confirm",
            f"{home}/queue/bulk/confirm",
            {"row": held, "verdict": "veto"} | seen,
        ),
    ]
    grant = {"role": "administer", "instance": "*", "grant": "approve@*"}
    verbs = ("grant", "revoke", "link", "disable")
    found += [Target("/people/{id}/{verb}", f"/people/{person}/{verb}", grant) for verb in verbs]
    for verb in ("agree", "refuse"):
        path = f"{home}/changes/{number}/{verb}"
        found.append(Target(f"{one}/changes/{{number}}/{{verb}}", path, {"reason": "x"}))
    for verb in ("claim", "release", "approve", "edit", "veto", "preview"):
        path = f"{home}/d/{held}/{verb}"
        found.append(Target(f"{one}/d/{{id}}/{{verb}}", path, {"action.price": "99"} | seen))
    return found


def _content(live: Live, id: str) -> str:
    return answering.content_of(live, answering.find(live, id))


def program_targets(there: Visited, held: str) -> list[Target]:
    """Return requests to the API: those that a person with every role might make."""
    home = f"/v1/instances/{ROOMS}"
    said = {
        "decisions": {"id": "forged", "context": {"base": 100, "busy": 0.9}},
        f"decisions/{held}/claim": {},
        f"decisions/{held}/outcome": {"outcome": {"booked": 1}},
        f"decisions/{held}/executed": {"action": {"price": 1}},
        f"decisions/{held}/review": {"verdict": "veto", "code": "fits", "reason": "x"},
        "changes": {"declaration": "name = 'x'", "reason": "x"},
        "pause": {"reason": "forged"},
        "retire": {"reason": "forged"},
        "refit": {},
        "rollback": {"to": 1, "reason": "forged"},
        "webhooks": {"url": "https://evil.example/", "kinds": ["Paused"]},
        "subjects/erase": {"subject": "x", "reason": "forged"},
    }
    return [
        Target(path, f"{home}/{path}", {"json": json.dumps(body)}) for path, body in said.items()
    ]


def looks(targets: list[Target]) -> list[Target]:
    """Return the pages of the decisions that the targets answer: opening one is written down."""
    ends = "/approve"
    paths = [one.path.removesuffix(ends) for one in targets if one.path.endswith(ends)]
    return [Target("", path) for path in paths]


def forms(targets: list[Target], base: str, kind: str = "application/x-www-form-urlencoded") -> str:
    """Return a page whose forms send themselves, each into a frame of its own."""
    drawn = []
    for i, one in enumerate(targets):
        fields = dict(one.fields)
        if kind == "text/plain":  # a body that reads as JSON: the '=' ends up in a text
            fields = {fields.get("json", "{}")[:-1] + ', "pad": "': '"}'}
        inputs = "".join(
            f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">'
            for name, value in fields.items()
        )
        drawn.append(
            f'<iframe name="f{i}"></iframe><form method="post" action="{base}{one.path}" '
            f'enctype="{kind}" target="f{i}">{inputs}</form>'
        )
    return f"{''.join(drawn)}<script>for (const one of document.forms) one.submit();</script>"


def fetches(targets: list[Target], base: str, options: str, is_json: bool = False) -> str:
    """Return a page whose script sends everything with the browser's cookies."""
    body = "one.fields.json ?? '{}'" if is_json else "new URLSearchParams(one.fields)"
    told = json.dumps([{"path": one.path, "fields": dict(one.fields)} for one in targets])
    return (
        f"<script>for (const one of {told}) fetch({json.dumps(base)} + one.path, "
        f"{{method: 'POST', credentials: 'include', body: {body}, {options}}}).catch(() => 0);"
        "</script>"
    )


def images(targets: list[Target], base: str) -> str:
    """Return a page that asks for every address as if it were a picture, with words to override."""
    drawn = "".join(
        f'<img src="{base}{escape(one.path)}?_method=POST&amp;confirm=yes&amp;reason=x">'
        for one in targets
    )
    return f"<!doctype html>{drawn}"


def sandboxed(inner: str) -> str:
    """Return a page with another one in a frame that has no origin at all."""
    return f'<iframe sandbox="allow-scripts allow-forms" srcdoc="{escape(inner)}"></iframe>'
