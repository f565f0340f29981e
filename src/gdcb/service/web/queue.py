"""The approver's queue: what waits for a person, and news of it for the script."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from gdcb import events as ev
from gdcb.ledger.live import Live
from gdcb.outlook import WORDS
from gdcb.service.pages.views.queue import QueueFilters, QueueNews, QueueView
from gdcb.service.routing import look
from gdcb.service.web import order
from gdcb.service.web.frame import enter, frame_of, page
from gdcb.service.who import name_of
from gdcb.service.who import written as who

router = APIRouter(prefix="/i/{name}", include_in_schema=False)
SIZE = 50
READS = ("approve", "operate", "audit")
_EVENTS = 500


@router.get("/queue")
async def queue(
    name: str,
    request: Request,
    rule: str = "",
    unit: str = "",
    claimed: str = "",
    text: str = "",
    offset: int = 0,
    reload: int = 0,
) -> Response:
    """Show what waits for a person."""
    viewer, desk = await enter(request, name, *READS, is_use=reload <= 0)
    filters = _filters(rule, unit, claimed, text)
    wanted = await order.look_of(request, name, who(viewer), filters)
    line = await order.asked(desk, wanted)
    rows = await order.in_order(desk, order.risks_of(request, desk), line.some)
    # Whoever asks for a page behind the last one, since that was answered meanwhile, gets the last.
    last = max(0, len(rows) - 1) // SIZE * SIZE
    first = max(0, offset) if offset < len(rows) else last
    view = QueueView(
        frame=await frame_of(request, name),
        rows=await order.built(desk, rows[first : first + SIZE], wanted),
        total=len(rows),
        offset=first,
        size=SIZE,
        filters=filters,
        rules=tuple(sorted({one.gate for one in line.every})),
        units=tuple(sorted({one.unit for one in line.every})),
        bulk_cap=desk.policy.bulk if viewer.may("approve", name) else 0,
        version=line.version,
        reload=min(max(reload, 0), 3600),
    )
    return page(view)


def _filters(rule: str, unit: str, claimed: str, text: str) -> QueueFilters:
    return QueueFilters(rule[:200], unit[:200], claimed[:20], text[:200])


@router.get("/queue.json")
async def news(
    name: str,
    request: Request,
    rule: str = "",
    unit: str = "",
    claimed: str = "",
    text: str = "",
    since: int = 0,
) -> Response:
    """Return what changed in the queue since an entry, under the filters of the page that asks."""
    viewer, desk = await enter(request, name, *READS, is_use=False)
    filters = _filters(rule, unit, claimed, text)
    wanted = await order.look_of(request, name, who(viewer), filters, since)
    line = await order.asked(desk, wanted)
    gone = await look(desk, lambda live: _gone(live, since, line.version))
    held = {one.id for one in line.every}
    has = {id: wanted.claimed(id) for id in wanted.leases if id in held}
    told = QueueNews(
        line.version,
        len(line.every),
        len(line.some),
        tuple(gone.items()),
        tuple(
            (id, f"{name_of(wanted.leases[id].by)} has it")
            for id, whose in has.items()
            if whose == "others"
        ),
        tuple(id for id, whose in has.items() if whose == "mine"),
    )
    return JSONResponse(told.document())


def _gone(live: Live, since: int, version: int) -> dict[str, str]:
    """Return what was answered since an entry, and in words by whom: the events say it."""
    gone: dict[str, str] = {}
    for event in live.events[max(since, version - _EVENTS, 0) : version]:
        if isinstance(event, ev.Reviewed):
            gone[event.id] = f"{WORDS[event.verdict]} by {name_of(event.by)}"
        elif isinstance(event, ev.Expired):
            gone[event.id] = "expired by policy"
    return gone
