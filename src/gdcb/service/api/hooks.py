"""Webhooks of an instance: see, add, remove, replace a secret, start again."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from gdcb.service import webhooks
from gdcb.service.models import HookBody, HookSecret, HookShown, NewHook
from gdcb.service.routing import StrictRoute, enter, house_of
from gdcb.service.who import written as who

router = APIRouter(
    prefix="/v1/instances/{name}/webhooks", route_class=StrictRoute, tags=["webhooks"]
)
_DAY = 86_400


@router.get("", response_model=list[HookShown])
async def hooks(name: str, request: Request) -> Any:
    """See where events are sent, and how each receiver fares; never the secrets."""
    await enter(request, name, "operate")
    found = await run_in_threadpool(webhooks.list_hooks, house_of(request).store, name)
    return [webhooks.document(one) for one in found]


@router.post("", status_code=201, response_model=NewHook)
async def add(name: str, request: Request, said: HookBody) -> Any:
    """Have events sent to an address from now on; the secret is shown this once."""
    principal, _ = await enter(request, name, "operate")
    house, by = house_of(request), who(principal)

    def make() -> tuple[webhooks.Hook, str]:
        return webhooks.add_hook(
            house.store,
            name,
            said.url,
            said.kinds,
            by,
            clock=house.clock,
            allow_local=house.settings.allow_local_hooks,
        )

    hook, secret = await run_in_threadpool(make)
    return webhooks.document(hook) | {"secret": secret}


@router.delete("/{id}", status_code=204, response_class=Response)
async def remove(name: str, id: str, request: Request) -> Response:
    """Send no more; what was not told yet is not told."""
    await enter(request, name, "operate")
    await run_in_threadpool(webhooks.remove_hook, house_of(request).store, name, id)
    return Response(status_code=204)


@router.post("/{id}/rotate", response_model=HookSecret)
async def rotate(
    name: str,
    id: str,
    request: Request,
    overlap_s: Annotated[float, Query(ge=0, le=30 * _DAY, allow_inf_nan=False)] = float(_DAY),
) -> Any:
    """Replace the secret; the new one is shown this once.

    For `overlap_s` seconds messages are signed under both. 0 ends the old one at once, as it must
    where somebody else knows it.
    """
    await enter(request, name, "operate")
    house = house_of(request)

    def make() -> str:
        return webhooks.rotate(house.store, name, id, clock=house.clock, overlap_s=overlap_s)

    return {"id": id, "secret": await run_in_threadpool(make)}


@router.post("/{id}/resume", response_model=HookShown)
async def resume(name: str, id: str, request: Request) -> Any:
    """Send again after the receiver was mended, from where it stopped: nothing is lost."""
    await enter(request, name, "operate")
    found = await run_in_threadpool(webhooks.resume_hook, house_of(request).store, name, id)
    return webhooks.document(found)
