"""What an auditor asks: find decisions, and see everything about one of them."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.concurrency import run_in_threadpool

from gdcb.instance import Instance
from gdcb.ledger.evidence import evidence_of
from gdcb.ledger.evidence_page import evidence_page
from gdcb.service.desk import Desk
from gdcb.service.figures.searching import Answer, Question, by_id, search
from gdcb.service.figures.stories import Story
from gdcb.service.pages.views.audit import STATUSES, AuditFilters, AuditView, Found
from gdcb.service.pages.views.frame import Notice
from gdcb.service.pages.wording import clock
from gdcb.service.routing import house_of
from gdcb.service.web.build import action_of
from gdcb.service.web.evidence import evidence_view
from gdcb.service.web.frame import enter, form_of, frame_of, page
from gdcb.service.who import name_of

router = APIRouter(prefix="/i/{name}", include_in_schema=False)
_READS = ("audit", "operate", "approve")
_LONGEST = 200


@router.get("/audit")
async def find(
    name: str,
    request: Request,
    id: str = "",
    unit: str = "",
    who: str = "",
    status: str = "",
    rule: str = "",
    since: Annotated[str, Query(alias="from")] = "",
    until: Annotated[str, Query(alias="to")] = "",
    before: str = "",
    after: str = "",
) -> Response:
    """Find decisions: by id at once, else by reading the chain back from its end."""
    _, desk = await enter(request, name, "audit")
    given = (id, unit, who, status, rule, since, until)
    filters = AuditFilters(*(one.strip()[:_LONGEST] for one in given))
    frame = await frame_of(request, name)
    rules = tuple(gate.name for gate in desk.instance.chain.gates)
    asked, problem = question_of(filters)
    if asked is None:
        view = AuditView(frame=frame, filters=filters, rules=rules, problem=problem)
        return page(view, 422)
    store, instance = house_of(request).store, desk.instance

    def read() -> Answer:
        if filters.id:
            return by_id(store, name, instance, filters.id, before=before, after=after)
        return search(store, name, instance, asked, before=before, after=after)

    answer = await run_in_threadpool(read)
    if answer.reached is not None:
        frame = replace(frame, notice=Notice("note", _so_far(answer)))
    view = AuditView(
        frame=frame,
        filters=filters,
        rows=tuple(found_of(instance, one) for one in answer.rows),
        total=answer.total,
        rules=rules,
        before=answer.before,
        after=answer.after,
    )
    return page(view)


def _so_far(answer: Answer) -> str:
    at, number = answer.reached or (0, 0)
    found = "" if answer.rows else "Nothing was found so far. "
    return (
        f"{found}Searched back to {clock(at)}, entry {number}. Older ones are on the next page, or "
        "ask for days up to then."
    )


def question_of(filters: AuditFilters) -> tuple[Question | None, str]:
    """Return what the address asks for, or what is wrong with it."""
    if filters.status not in ("", *STATUSES):
        return None, f"status: expected one of {', '.join(STATUSES)}"
    times: list[int | None] = []
    for which, told, more in (("from", filters.since, 0), ("to", filters.until, 1)):
        try:
            times.append(None if not told else _day(told, more))
        except (ValueError, OverflowError):
            return None, f"{which}: expected a day such as 2026-05-01, got '{told[:40]}'"
    since, until = times
    if since is not None and until is not None and since >= until:
        return None, "from: expected a day before the last one"
    return Question(filters.unit, filters.who, filters.status, filters.rule, since, until), ""


def _day(told: str, more: int) -> int:
    """Return the beginning of a day, or of the one after it, in µs."""
    day = date.fromisoformat(told) + timedelta(days=more)
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000_000


def found_of(instance: Instance, one: Story) -> Found:
    """Return a decision as the search shows it."""
    record = one.record
    action = record.entered if record.executed is None else record.executed
    outcome = record.outcome[0] if record.outcome else None
    return Found(
        record.id,
        one.at,
        record.unit,
        action_of(instance, action),
        record.status,
        one.rules[-1] if one.rules else "",
        name_of(one.answered_by or one.asked_by),
        outcome,
        one.seq,
    )


# One decision


@router.get("/d/{id}/evidence")
async def evidence(name: str, id: str, request: Request) -> Response:
    """Show all that is known of a decision, worked out again."""
    _, desk = await enter(request, name, *_READS)
    return await _evident(request, name, id, desk)


@router.get("/d/{id}/evidence.json")
async def evidence_document(name: str, id: str, request: Request) -> Response:
    """Return the evidence as the document that proves itself, to be taken away."""
    await enter(request, name, *_READS)
    document = await documented(request, name, id)
    return JSONResponse(document, headers=_kept_as(id, "json"))


@router.get("/d/{id}/evidence.html")
async def evidence_sheet(name: str, id: str, request: Request) -> Response:
    """Return the evidence as one page of its own, to be filed."""
    _, desk = await enter(request, name, *_READS)
    document = await documented(request, name, id)
    drawn = await run_in_threadpool(evidence_page, document, desk.policy.codes)
    return HTMLResponse(drawn, headers=_kept_as(id, "html"))


def _kept_as(id: str, kind: str) -> dict[str, str]:
    """Return headers under which a browser keeps a file, and does not show it as a page of ours.

    >>> _kept_as('a/b"', "json")
    {'content-disposition': 'attachment; filename="evidence-a_b_.json"'}
    """
    name = re.sub(r"[^A-Za-z0-9.-]", "_", id)[:100]
    return {"content-disposition": f'attachment; filename="evidence-{name}.{kind}"'}


@router.post("/d/{id}/replay")
async def replay(name: str, id: str, request: Request) -> Response:
    """Make the decision again, now, and show what comes out."""
    await form_of(request)
    _, desk = await enter(request, name, *_READS)
    return await _evident(request, name, id, desk)


async def _evident(request: Request, name: str, id: str, desk: Desk) -> Response:
    document = await documented(request, name, id)
    part = type(desk.instance.composition).__name__.lower()
    at, frame = house_of(request).clock(), await frame_of(request, name)
    return page(evidence_view(frame, document, at, part, desk.policy.codes))


async def documented(request: Request, name: str, id: str) -> dict[str, Any]:
    """Work out the evidence of a decision; one at a time, since it folds a part of the chain."""
    state = request.app.state
    if not hasattr(state, "one_at_a_time"):
        state.one_at_a_time = asyncio.Semaphore(1)
    async with state.one_at_a_time:
        return await run_in_threadpool(evidence_of, house_of(request).store, name, id)
