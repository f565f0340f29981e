"""Whether the process lives, whether it can work, and its figures for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.concurrency import run_in_threadpool

from gdcb.errors import StoreError
from gdcb.service.access import EVERY
from gdcb.service.problems import placeless
from gdcb.service.routing import house_of, permitted, principal_of

router = APIRouter(tags=["health"])
_HERE = ("127.0.0.1", "::1")


@router.get("/healthz")
async def alive() -> dict[str, str]:
    """Say that the process answers."""
    return {"status": "alive"}


@router.get("/readyz")
async def ready(request: Request) -> Response:
    """Say whether the store can be read and written, so that decisions can be made."""
    house = house_of(request)
    try:
        n = await run_in_threadpool(house.check_ready)
    except StoreError as error:
        return JSONResponse({"status": "not ready", "why": placeless(error)}, 503)
    return JSONResponse({"status": "ready", "instances": n})


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Return figures in Prometheus's text format: to this machine, or to a key that may audit."""
    house = house_of(request)
    host = request.client.host if request.client else ""
    if host not in _HERE:
        permitted(request, await principal_of(request), EVERY, "audit")
    return Response(house.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
