"""Sign in and out, home, settings, and the files that pages load."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, Response
from starlette.concurrency import run_in_threadpool

from gdcb.service.access import SignInRefused, TooMany, link_opens
from gdcb.service.pages import links, render
from gdcb.service.pages.views.entrance import Door, HomeView, LinkView, SettingsView, SignInView
from gdcb.service.pages.views.frame import THEMES
from gdcb.service.problems import BadRequest
from gdcb.service.routing import address_of, house_of
from gdcb.service.web.frame import back, form_of, frame_of, page, place_of, text, viewer_of

router = APIRouter(include_in_schema=False)
_NO_PASSWORD = "You have no password now. Set one under Account; else you need a link next time."
_YEAR = 365 * 86400
_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
# By name: what a stranger asks for is looked up here, and never on disk.
_FILES = {path.name: path for path in render.STATIC.iterdir() if path.suffix in _KINDS}


@router.get("/")
async def home(request: Request) -> Response:
    """Show the instances on which one has a role."""
    viewer = await viewer_of(request)
    if viewer is None:
        return back("/sign-in")
    house = house_of(request)
    doors = []
    for name in viewer.seen(await run_in_threadpool(house.names)):
        desk = await run_in_threadpool(house.desk, name)
        place = await place_of(desk, viewer)
        mode = desk.policy.launch.mode
        doors.append(Door(place, f"{len(desk.instance.space.names)} arms", mode))
    return page(HomeView(frame=await frame_of(request), doors=tuple(doors)))


@router.get("/sign-in")
async def sign_in_page(request: Request, link: str = "", then: str = "/") -> Response:
    """Show the form, or the button of a one-time link: what only looks must not use it up."""
    frame = await frame_of(request)
    if link:
        house_of(request).limiter.take("other", None, address_of(request))
        opens = await run_in_threadpool(link_opens, house_of(request).books, link)
        problem = "" if opens else "this link was used already, or its time is over"
        return page(LinkView(frame=frame, token=link if opens else "", problem=problem))
    return page(SignInView(frame=frame, then=links.own(then)))


@router.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """Sign in by a one-time link, or by login and password."""
    form = await form_of(request, is_sign_in=True)
    house = house_of(request)
    link, login, then = text(form, "link"), text(form, "login"), links.own(text(form, "then", "/"))
    try:
        house.limiter.take("sign-in", None, address_of(request))
        if link:
            cookie = await run_in_threadpool(house.door.sign_in_by_link, link, request.headers)
        else:
            cookie = await run_in_threadpool(
                house.door.sign_in_by_password, login, text(form, "password"), request.headers
            )
    except (SignInRefused, TooMany) as error:
        frame = await frame_of(request)
        if link:
            return page(LinkView(frame=frame, problem=str(error)), error.status)
        view = SignInView(frame=frame, login=login, problem=str(error), then=then)
        return page(view, error.status)
    answer = back(then, _NO_PASSWORD if link else "", "note")
    answer.headers.append("set-cookie", cookie)
    return answer


@router.post("/sign-out")
async def sign_out(request: Request) -> Response:
    """End the session."""
    await form_of(request)
    cookie = await run_in_threadpool(house_of(request).door.sign_out, request.headers)
    answer = back("/sign-in")
    answer.headers.append("set-cookie", cookie)
    return answer


@router.get("/settings")
async def settings_page(request: Request, back: str = "/") -> Response:
    """Show how one likes the pages."""
    return page(SettingsView(frame=await frame_of(request), back=links.own(back)))


@router.post("/settings")
async def change_settings(request: Request) -> Response:
    """Keep how one likes the pages in cookies, so that it works without a script."""
    form = await form_of(request)
    theme = text(form, "theme", "system")
    if theme not in THEMES:
        raise BadRequest(f"theme: expected one of {', '.join(THEMES)}")
    answer = back(links.own(text(form, "back", "/")), "Your settings are kept in this browser.")
    values = {
        "theme": theme,
        "keys": text(form, "keys", "on"),
        "refresh": text(form, "refresh", "on"),
    }
    for name, value in values.items():
        kept = "off" if value == "off" else value if name == "theme" else "on"
        answer.set_cookie(f"gdcb-{name}", kept, max_age=_YEAR, path="/", samesite="strict")
    return answer


@router.get("/static/{name}")
async def static(name: str) -> Response:
    """Serve a file of the package."""
    path = _FILES.get(name)
    if path is None:
        raise BadRequest("there is no such file", 404, "not_found")
    return FileResponse(path, media_type=_KINDS[path.suffix])


@router.get("/favicon.ico")
async def favicon() -> Response:
    """Have none, without an error in the browser's log."""
    return Response(status_code=204)
