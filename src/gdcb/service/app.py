"""The application: routes, refusals, and what goes around every answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from gdcb.service.api import answers, decisions, health, instances
from gdcb.service.envelope import Envelope
from gdcb.service.house import House
from gdcb.service.models import Problem
from gdcb.service.routing import add_handlers

_REFUSALS = (400, 401, 403, 404, 409, 413, 415, 422, 429, 500, 503, 507)
_ABOUT = """
Gated decisions over HTTP: a bandit proposes, a scaler adapts, gates decide, people approve, and
every decision stays in a ledger that can be verified and replayed.
"""


def build(house: House) -> FastAPI:
    """Return the application of one process; it starts the house and stops it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(house.start)
        try:
            yield
        finally:
            await run_in_threadpool(house.stop)

    app = FastAPI(
        title="gdcb",
        version=version("gdcb"),
        description=_ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        responses={status: {"model": Problem} for status in _REFUSALS},
    )
    app.state.house = house
    for router in (decisions.router, answers.router, instances.router, health.router):
        app.include_router(router)
    add_handlers(app, _wants_page, _page)
    app.add_middleware(Envelope, house=house)
    return app


def _wants_page(request: Request) -> bool:
    return False


async def _page(
    request: Request, status: int, said: dict[str, Any], headers: dict[str, str]
) -> Response:
    return Response(str(said["message"]), status, headers)
