"""What every page route shares: who looks, the frame around the page, forms that are ours."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData

from gdcb.errors import InvalidInput
from gdcb.service.access import EVERY, NotSignedIn, Principal
from gdcb.service.access.names import shown
from gdcb.service.desk import Desk
from gdcb.service.envelope import limited
from gdcb.service.pages import links, render
from gdcb.service.pages.views.entrance import ErrorView
from gdcb.service.pages.views.frame import (
    THEMES,
    Frame,
    Notice,
    Pause,
    Place,
    SetBack,
    Settings,
    View,
)
from gdcb.service.problems import BadRequest
from gdcb.service.routing import (
    address_of,
    found_out,
    house_of,
    look,
    permitted,
    request_id,
)
from gdcb.service.who import name_of

_NUMBER = re.compile(r"-?([0-9]+(\.[0-9]+)?|\.[0-9]+)")
_WHOLE = re.compile(r"[0-9]+")
_LONGEST_NUMBER = 60
_LARGEST_FORM, _LARGEST_STRANGE_FORM = 4 * 2**20, 16 * 2**10  # bytes
_ADVICE = {
    401: "Sign in, and try again.",
    403: "Somebody with the role can do it, or grant it to you.",
    404: "Look whether the address is right.",
    409: "Look again at what is there now.",
    429: "Wait a moment, and try again.",
    503: "Wait a moment, and try again; nothing was lost.",
}


async def viewer_of(request: Request, is_use: bool = True) -> Principal | None:
    """Return who looks at the page; None: nobody is signed in. Pages are for people, not keys."""
    headers = request.headers
    if "cookie" not in headers or "authorization" in headers:
        return None
    return await found_out(request, is_use)


async def enter(
    request: Request, name: str, *roles: str, is_use: bool = True
) -> tuple[Principal, Desk]:
    """Return who looks, and the desk of an instance; refuse who has none of the roles on it.

    `is_use` is false where the page asks by itself: that keeps nobody signed in.
    """
    allowed = permitted(request, await viewer_of(request, is_use), name, *roles)
    house_of(request).limiter.take("other", allowed.id, address_of(request))
    return allowed, await desk_of(request, name)


async def desk_of(request: Request, name: str) -> Desk:
    """Return the desk of an instance, opened where it is not."""
    house = house_of(request)
    found = house.known(name)
    return await run_in_threadpool(house.desk, name) if found is None else found


async def form_of(
    request: Request, is_sign_in: bool = False, several: tuple[str, ...] = ()
) -> FormData:
    """Return a form that one of our own pages sent.

    A field that is not among `several` comes once: of two prices nobody knows which is meant.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("application/x-www-form-urlencoded", "multipart/form-data"):
        raise BadRequest("expected a form", 415, "unsupported_media_type")
    # Of strangers the forms that sign in and choose a theme are read, and these are small.
    most = _LARGEST_FORM if await viewer_of(request) is not None else _LARGEST_STRANGE_FORM
    announced = request.headers.get("content-length", "").encode()
    read = Request(request.scope, limited(request.receive, most, announced=announced))
    form = await read.form(max_files=0, max_fields=2_000)
    if any("\0" in part for pair in form.multi_items() for part in pair if isinstance(part, str)):
        raise BadRequest("the form has the character NUL, which no text of ours has")
    counted = Counter(name for name, _ in form.multi_items() if name not in several)
    twice = [shown(name) for name, times in counted.items() if times > 1]
    if twice:
        raise BadRequest(f"expected every field once, got {', '.join(twice[:5])} several times")
    token = form.get("csrf") or request.headers.get("x-csrf-token")
    house_of(request).door.check_forgery(request.method, request.headers, token, is_sign_in)
    return form


def text(form: FormData, name: str, default: str = "") -> str:
    """Return a field of a form as text."""
    value = form.get(name, default)
    return value if isinstance(value, str) else default


def texts(form: FormData, name: str) -> list[str]:
    """Return all values of a field."""
    return [value for value in form.getlist(name) if isinstance(value, str)]


def plain_number(field: str, told: str) -> float:
    """Return the number that somebody typed into a field of a form.

    Only digits and a decimal point are read. '1,250' is a thousand to one person and one and a
    quarter to another, so it is refused and not guessed.

    >>> plain_number("price", " 99.5 ")
    99.5
    """
    words = told.strip()
    if len(words) > _LONGEST_NUMBER or not _NUMBER.fullmatch(words):
        raise InvalidInput(
            f"{field}: expected a number in digits, with a point before decimals and nothing "
            f"between thousands, such as 1250 or 99.5; got {words[:40]!r}"
        )
    return float(words)


def whole(field: str, told: str) -> int:
    """Return the whole number that a field of a form has."""
    if len(told) > _LONGEST_NUMBER or not _WHOLE.fullmatch(told):
        raise InvalidInput(f"{field}: expected a whole number in digits, got {told[:40]!r}")
    return int(told)


def settings_of(request: Request) -> Settings:
    """Return how somebody likes the pages, from their cookies."""
    cookies = request.cookies
    theme = cookies.get("gdcb-theme", "system")
    return Settings(
        theme if theme in THEMES else "system",
        cookies.get("gdcb-keys", "on") != "off",
        cookies.get("gdcb-refresh", "on") != "off",
    )


async def frame_of(request: Request, name: str | None = None, **more: Any) -> Frame:
    """Return what stands around a page, of an instance or of none."""
    house, viewer = house_of(request), await viewer_of(request)
    place = None
    if name is not None and viewer is not None and viewer.sees(name):
        place = await place_of(await desk_of(request, name), viewer)
    asked = str(request.url.path) + (f"?{request.url.query}" if request.url.query else "")
    frame = Frame(
        now=house.clock(),
        csrf=house.door.form_token(request.headers) if viewer is not None else "",
        viewer=None if viewer is None else viewer.name,
        settings=settings_of(request),
        place=place,
        is_administrator=viewer is not None and viewer.may("administer", EVERY),
        notice=_notice(request),
        request=request_id(request),
        here=asked,
    )
    return replace(frame, **more)


async def place_of(desk: Desk, viewer: Principal) -> Place:
    """Return an instance as pages name it."""

    def read(live: Any) -> Place:
        pause = None
        if live.paused is not None:
            event, at, by = live.paused
            pause = Pause(name_of(by), at, event.reason)
        title = live.instance.title or live.chain
        roles = frozenset(viewer.roles(live.chain))
        is_ungated = not live.instance.chain.gates
        back = None
        if live.set_back is not None:
            found, at, _ = live.set_back
            back = SetBack(at, found.had, found.has)
        return Place(live.chain, title, len(live.waiting), pause, roles, is_ungated, back)

    return await look(desk, read)


def _notice(request: Request) -> Notice | None:
    """Return what the last form did: a word in a cookie that is shown once."""
    told = request.cookies.get("gdcb-told", "")
    kind, _, words = unquote(told).partition(":")
    return Notice(kind, words[:500]) if kind in ("done", "note", "problem") and words else None


def page(view: View, status: int = 200) -> HTMLResponse:
    """Draw a page."""
    answer = HTMLResponse(render.page(view), status)
    if view.frame.notice is not None:
        answer.delete_cookie("gdcb-told", path="/")
    return answer


def back(to: str, told: str = "", kind: str = "done") -> RedirectResponse:
    """Go to another page of ours after a form, and say there what was done."""
    answer = RedirectResponse(links.own(to), 303)
    if told:
        value = quote(f"{kind}:{told[:400]}")
        answer.set_cookie(
            "gdcb-told", value, max_age=60, path="/", httponly=True, samesite="strict"
        )
    return answer


def wants_page(request: Request) -> bool:
    """Whether a person's browser asks for one of our pages, and not a program for the API."""
    path = request.url.path
    if path.startswith(("/v1/", "/static/", "/healthz", "/readyz", "/metrics")):
        return False
    return "text/html" in request.headers.get("accept", "")


async def error_page(
    request: Request, status: int, said: dict[str, Any], headers: dict[str, str]
) -> Response:
    """Say what went wrong: one sentence, and what to do; whoever is not signed in may."""
    if status == 401 and request.method == "GET":
        then = links.own(request.url.path + (f"?{request.url.query}" if request.url.query else ""))
        return RedirectResponse(links.asked("/sign-in", {"then": then}), 303)
    try:
        frame = await frame_of(request)
    except Exception:  # the page that says what is wrong must not fail for the same reason
        frame = Frame(now=house_of(request).clock(), request=request_id(request))
    sentence = str(said["message"])
    view = ErrorView(
        frame=frame,
        status=status,
        sentence=sentence,
        todo=_ADVICE.get(status, "Go back and try again."),
    )
    answer = page(view, status)
    answer.headers.update(headers)
    return answer


def signed_in(viewer: Principal | None) -> Principal:
    """Refuse who is not signed in."""
    if viewer is None:
        raise NotSignedIn
    return viewer
