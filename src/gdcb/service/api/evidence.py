"""The evidence of one decision, as a document that proves itself."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from gdcb.service.routing import StrictRoute, enter
from gdcb.service.web.audit import documented

router = APIRouter(prefix="/v1/instances/{name}", route_class=StrictRoute, tags=["audit"])


@router.get("/decisions/{id}/evidence")
async def evidence(name: str, id: str, request: Request) -> dict[str, Any]:
    """Read all that is known of a decision: input, arms, gates, people, outcome, proofs.

    It is worked out again from the chain, and says whether the same comes out. The proofs can be
    checked from the document alone.
    """
    await enter(request, name, "audit", "operate", "approve")
    return await documented(request, name, id)
