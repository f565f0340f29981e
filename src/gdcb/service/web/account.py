"""One's own account: set or change the password, sign out everywhere."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from gdcb.errors import InvalidInput
from gdcb.service import access
from gdcb.service.access import AccessError, Principal
from gdcb.service.access.passwords import SHORTEST
from gdcb.service.pages.views.entrance import AccountView
from gdcb.service.pages.views.people import Grant
from gdcb.service.routing import address_of, house_of
from gdcb.service.web.frame import back, form_of, frame_of, page, signed_in, text, viewer_of

router = APIRouter(include_in_schema=False)


@router.get("/account")
async def account(request: Request) -> Response:
    """Show how one signs in, and the form for the password."""
    return page(await _account(request, signed_in(await viewer_of(request))))


async def _account(request: Request, viewer: Principal, problem: str = "") -> AccountView:
    found = await run_in_threadpool(access.person_of, house_of(request).books, viewer)
    return AccountView(
        frame=await frame_of(request),
        login=found.login,
        grants=tuple(Grant(one.role, one.instance) for one in sorted(found.grants)),
        has_password=found.has_password,
        shortest=SHORTEST,
        problem=problem,
    )


@router.post("/account/password")
async def set_password(request: Request) -> Response:
    """Set one's own password, or change it; whoever does signs in anew with it."""
    form = await form_of(request)
    viewer, house = signed_in(await viewer_of(request)), house_of(request)
    new, present = text(form, "password"), text(form, "present")
    try:
        # Each costs as much work as a try to sign in does.
        house.limiter.take("sign-in", viewer.id, address_of(request))
        if new != text(form, "again"):
            raise InvalidInput("the two new passwords are not the same: type it twice")
        await run_in_threadpool(house.door.set_password, viewer, new, present, request.headers)
    except (AccessError, InvalidInput) as error:
        status = error.status if isinstance(error, AccessError) else 422
        return page(await _account(request, viewer, str(error)), status)
    return await _out(request, "Your password is set. Sign in with it.")


@router.post("/account/sign-out")
async def sign_out_everywhere(request: Request) -> Response:
    """End all sessions of one's own."""
    await form_of(request)
    viewer, house = signed_in(await viewer_of(request)), house_of(request)
    await run_in_threadpool(access.end_sessions, house.books, viewer, viewer.id)
    return await _out(request, "You are signed out in every browser.")


async def _out(request: Request, told: str) -> Response:
    """Go to the door, without the session that has ended."""
    cookie = await run_in_threadpool(house_of(request).door.sign_out, request.headers)
    answer = back("/sign-in", told)
    answer.headers.append("set-cookie", cookie)
    return answer
