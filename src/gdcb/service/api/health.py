"""Whether the process lives, whether it can work, and its figures for Prometheus."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.concurrency import run_in_threadpool

from gdcb.errors import LedgerPutBack, StoreError
from gdcb.service.access import EVERY
from gdcb.service.house import House
from gdcb.service.problems import placeless
from gdcb.service.routing import house_of, permitted, principal_of

log = logging.getLogger("gdcb.service")
router = APIRouter(tags=["health"])
_HERE = ("127.0.0.1", "::1")
_PUT_BACK = (
    "somebody put an earlier state back in the place of a ledger; the page of its instance says "
    "more, and an administrator must acknowledge it"
)


@dataclass(slots=True)
class Readiness:
    """Whether the process can work, looked up once for all who ask at the same time.

    Anybody may ask, and each look goes into every ledger: after twenty at once there are ten a
    second, and whoever comes in between is told what the last one found.
    """

    level: float = 20.0
    at: float = 0.0
    found: tuple[int, dict[str, Any]] | None = None
    looking: asyncio.Task[tuple[int, dict[str, Any]]] | None = None
    trouble: str = ""  # what was logged last

    async def ask(self, house: House) -> tuple[int, dict[str, Any]]:
        """Return a status and what to say."""
        if self.looking is None:
            now = time.monotonic()
            self.level, self.at = min(20.0, self.level + 10.0 * (now - self.at)), now
            if self.level < 1.0 and self.found is not None:
                return self.found
            self.level -= 1.0
            self.looking = asyncio.ensure_future(self._look(house))
        return await asyncio.shield(self.looking)

    async def _look(self, house: House) -> tuple[int, dict[str, Any]]:
        try:
            n = await run_in_threadpool(house.check_ready)
            self.found, self.trouble = (200, {"status": "ready", "instances": n}), ""
        except LedgerPutBack:  # anybody may ask: which one, and how much it lacks, is for others
            self.found = 503, {"status": "not ready", "why": _PUT_BACK}
        except StoreError as error:
            why = placeless(error)
            if self.trouble != str(error):
                log.warning("not ready: %s", error)
            self.trouble = str(error)
            if "'" in why:  # a name of a file or an instance
                why = "the ledger does not answer; the log says why"
            self.found = 503, {"status": "not ready", "why": why}
        finally:
            self.looking = None
        return self.found


@router.get("/healthz")
async def alive() -> dict[str, str]:
    """Say that the process answers."""
    return {"status": "alive"}


@router.get("/readyz")
async def ready(request: Request) -> Response:
    """Say whether the store can be read and written, so that decisions can be made."""
    state = request.app.state
    if not hasattr(state, "readiness"):
        state.readiness = Readiness()
    status, said = await state.readiness.ask(house_of(request))
    return JSONResponse(said, status)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Return figures in Prometheus's text format: to this machine, or to a key that may audit."""
    house = house_of(request)
    host = request.client.host if request.client else ""
    if host not in _HERE:
        permitted(request, await principal_of(request), EVERY, "audit")
    return Response(house.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
