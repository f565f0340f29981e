"""Erase the personal fields of a subject."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from gdcb.service import erasing
from gdcb.service.models import EraseBody, Erased
from gdcb.service.routing import StrictRoute, enter
from gdcb.service.who import written as who

router = APIRouter(prefix="/v1/instances/{name}", route_class=StrictRoute, tags=["instances"])


@router.post("/subjects/erase", response_model=Erased)
async def erase(name: str, request: Request, said: EraseBody) -> Any:
    """Destroy the keys of a subject's personal fields; nobody can read them again.

    The ledger stays as it is and still verifies. What was learned stays too; decisions before this
    can no longer be recomputed once they depend on what was erased. Asked again it finds no keys.
    """
    principal, desk = await enter(request, name, "administer")
    by = who(principal)
    return asdict(await run_in_threadpool(erasing.run, desk, said.subject, said.reason, by))
