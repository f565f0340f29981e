"""The application: routes, refusals, and what goes around every answer."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Protocol

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic.json_schema import models_json_schema
from starlette.concurrency import run_in_threadpool

from gdcb.service.api import answers, decisions, erasing, evidence, health, hooks, instances
from gdcb.service.envelope import Envelope, Message, Receive, Send
from gdcb.service.house import House
from gdcb.service.lane import Lane
from gdcb.service.models import DecideMany, DecideOne, Problem
from gdcb.service.routing import add_handlers
from gdcb.service.web import account, audit, bulk, dashboard, entrance, people, queue, review
from gdcb.service.web.frame import error_page, wants_page

_REFUSALS = (400, 401, 403, 404, 409, 413, 415, 422, 429, 500, 503, 507)
_REF = "#/components/schemas/{model}"
_ABOUT = """
Gated decisions over HTTP: a bandit proposes, a scaler adapts, gates decide, people approve, and
every decision stays in a ledger that can be verified and replayed.
"""


class Application(FastAPI):
    """The routes, with the envelope around all of them and a quick lane for decisions."""

    def __init__(self, house: House, **settings: Any) -> None:
        super().__init__(**settings)
        self.house = house
        lane = Lane(
            self,
            {"": (decisions.decide, DecideOne), "/batch": (decisions.decide_batch, DecideMany)},
        )
        self._envelope = Envelope(lane, house)

    def openapi(self) -> dict[str, Any]:
        """Return the document of the API; every operation may be refused with the one error body.

        It is added here: as responses of every route it would cost the start of a process more
        than all the rest, in models that nothing ever checks.
        """
        if self.openapi_schema is None:
            document = super().openapi()
            _, found = models_json_schema([(Problem, "serialization")], ref_template=_REF)
            known = document["components"]["schemas"]
            for gone in ("HTTPValidationError", "ValidationError"):
                known.pop(gone, None)
            known.update(found["$defs"])
            refused = {"application/json": {"schema": {"$ref": _REF.format(model="Problem")}}}
            for path in document["paths"].values():
                for operation in path.values():
                    operation["responses"] |= {
                        str(status): {"description": HTTPStatus(status).phrase, "content": refused}
                        for status in _REFUSALS
                    }
            self.openapi_schema = document
        return self.openapi_schema

    def setup(self) -> None:
        """Serve that document, written once: anybody may ask for its 100 kB over and over."""
        written = b""

        async def document(_: Request) -> Response:
            nonlocal written
            written = written or bytes(JSONResponse(self.openapi()).body)
            return Response(written, media_type="application/json")

        self.add_route("/v1/openapi.json", document, include_in_schema=False)

    async def routed(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer through the routes."""
        await super().__call__(scope, receive, send)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request, or take part in the server's life."""
        await self._envelope(scope, receive, send)


class Beside(Protocol):
    """Something that runs beside the service, such as the feed of the demo."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""


def build(house: House, beside: Beside | None = None) -> Application:
    """Return the application of one process; it starts the house and stops it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(house.start)
        if beside is not None:
            beside.start()
        # What is there now stays: a collection that walks all of it would stop everybody for a
        # tenth of a second, again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(5_000, 20, 50)
        try:
            yield
        finally:
            if beside is not None:
                await run_in_threadpool(beside.stop)
            await run_in_threadpool(house.stop)

    app = Application(
        house,
        title="gdcb",
        version=version("gdcb"),
        description=_ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    api = (decisions, answers, instances, evidence, hooks, erasing, health)
    # The auditor's before the reviewer's: '/d/{id}/replay' would else be taken for an answer.
    pages = (entrance, account, people, dashboard, audit, queue, bulk, review)
    for part in (*api, *pages):
        app.include_router(part.router)
    add_handlers(app, wants_page, error_page)
    return app
