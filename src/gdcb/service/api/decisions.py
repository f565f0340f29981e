"""Decide, read a decision, see the queue."""

from __future__ import annotations

import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from gdcb.cases import Record
from gdcb.errors import InvalidInput, UnknownDecision
from gdcb.ledger.live import Live
from gdcb.service import answering, deciding
from gdcb.service.access import Principal
from gdcb.service.answering import written
from gdcb.service.api.columns import encode_columns, shown_columns
from gdcb.service.holding import if_approved, offered
from gdcb.service.models import (
    Batch,
    DecideMany,
    DecideOne,
    Decision,
    DecisionNow,
    Queue,
)
from gdcb.service.policy import Policy
from gdcb.service.routing import Answered, StrictRoute, enter, house_of, look
from gdcb.service.who import id_of, name_of
from gdcb.service.who import written as who

_READS = ("outcome", "approve", "operate", "audit")
router = APIRouter(prefix="/v1/instances/{name}", route_class=StrictRoute, tags=["decisions"])


def _again(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": model, "description": "Decided before: the same answer again"}}


@router.post("/decisions", status_code=201, response_model=Decision, responses=_again(Decision))
async def decide(name: str, request: Request, asked: DecideOne) -> Any:
    """Propose, gate and, unless a gate holds it, release one decision.

    The id is the idempotency key: the same request again is answered with 200 and the decision that
    was made; another request under the same id is a conflict.
    """
    principal, desk = await enter(request, name, "decide", kind="decide")
    instance, policy = desk.instance, desk.policy
    wanted = deciding.request_of(
        instance,
        policy,
        asked.id or uuid.uuid4().hex,
        [asked.context],
        True,
        who(principal),
        asked.unit,
        asked.mask,
        asked.incumbent,
        asked.subject,
    )
    answer = await desk.done(deciding.job(wanted))
    return Answered(deciding.answer_rows(answer, policy)[0], 201 if answer.is_new else 200)


@router.post("/decisions/batch", status_code=201, response_model=Batch, responses=_again(Batch))
async def decide_batch(name: str, request: Request, asked: DecideMany) -> Any:
    """Decide a batch together, all rows or none; its rows have the ids ID.0, ID.1 and so on.

    Contexts come row by row, or column by column, which is quicker; the answer has the same form.
    """
    rows = asked.contexts
    n = len(rows) if rows is not None else _height(asked)
    principal, desk = await enter(request, name, "decide", kind="decide", n=max(n, 1))
    instance, policy = desk.instance, desk.policy
    deciding.check_rows(instance, policy, n)
    x = (
        encode_columns(instance, asked.columns or {}, n)
        if rows is None
        else instance.context.encode(rows)
    )
    wanted = deciding.encoded(
        instance,
        policy,
        asked.id or uuid.uuid4().hex,
        x,
        False,
        who(principal),
        asked.units if asked.units is not None else asked.unit or "default",
        asked.mask,
        asked.instead,
        asked.subjects if asked.subjects is not None else asked.subject,
    )
    answer = await desk.done(deciding.job(wanted))
    said: dict[str, Any] = {"id": wanted.id, "decisions": None, "columns": None}
    if rows is None:
        said["columns"] = shown_columns(answer, policy)
    else:
        said["decisions"] = deciding.answer_rows(answer, policy)
    return Answered(said, 201 if answer.is_new else 200)


def _height(asked: DecideMany) -> int:
    columns = asked.columns or {}
    heights = {len(column) for column in columns.values()}
    if len(heights) != 1 or 0 in heights:
        raise InvalidInput("columns: expected columns of one length, at least 1")
    return heights.pop()


@router.get("/decisions/{id}", response_model=DecisionNow)
async def read(name: str, id: str, request: Request) -> Any:
    """Read a decision, and what became of it; who may only decide reads what they asked for."""
    principal, desk = await enter(request, name, *_READS, "decide")
    policy = desk.policy
    reads_all = any(principal.may(role, name) for role in _READS)

    def found(live: Live) -> dict[str, Any]:
        if not reads_all:
            _check_own(live, id, principal)
        return as_now(live, policy, id)

    return await look(desk, found)


def _check_own(live: Live, id: str, principal: Principal) -> None:
    """Refuse what another asked for in the words for what is not there.

    A key reads what was asked with it alone. One administrator makes the keys of many programs, and
    those should not read each other's.
    """
    record = live.records.find(id)
    asked_by = None if record is None or record.made.by is None else record.made.by[record.at]
    if asked_by is None or id_of(asked_by) != principal.id:
        raise UnknownDecision(f"no decision {id!r} was asked for by you here")


def as_now(live: Live, policy: Policy, id: str) -> dict[str, Any]:
    """Return a decision and what became of it, as the API shows it."""
    record = answering.find(live, id)
    waits = live.waiting.get(id)
    due = answering.deadline(live, policy, id)
    return deciding.document(live.instance, record) | {
        "content": answering.content_of(live, record),
        "offered": None if waits is None else live.instance.decode_action(offered(record)),
        "if_approved": approval(live, record),
        "waiting_since": None if waits is None else written(waits.since),
        "deadline": None if due is None else written(due),
        "at_expiry": None if waits is None else policy.expiry.then,
        "decided": answering.decided_by(live, record),
    }


def approval(live: Live, record: Record) -> dict[str, Any] | None:
    """Return what an approval would lead to, as the API shows it; None: it is not held."""
    then = if_approved(live, record)
    if then is None:
        return None
    named = live.instance.decode_action(then.action)
    return {"status": then.status, "action": named, "gates": list(then.gates)}


@router.get("/queue", response_model=Queue)
async def queue(
    name: str,
    request: Request,
    rule: Annotated[str, Query(max_length=200)] = "",
    unit: Annotated[str, Query(max_length=200)] = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Any:
    """See what waits for a person, the next deadline first."""
    _, desk = await enter(request, name, "approve", "operate", "audit")
    policy = desk.policy
    claims = await run_in_threadpool(house_of(request).claims.of, name)

    def read_queue(live: Live) -> dict[str, Any]:
        found = [
            one
            for one in live.waiting.values()
            if rule in ("", one.gate) and unit in ("", one.unit)
        ]
        shown = []
        for one in found[:limit]:
            record, due = live.records[one.id], answering.deadline(live, policy, one.id)
            claim = claims.get(one.id)
            shown.append(
                {
                    "id": one.id,
                    "unit": one.unit,
                    "gate": one.gate,
                    "reason": record.reason,
                    "proposed": live.instance.decode_action(record.made.action[record.at]),
                    "offered": live.instance.decode_action(offered(record)),
                    "if_approved": approval(live, record),
                    "since": written(one.since),
                    "deadline": None if due is None else written(due),
                    "version": record.judged_at,
                    "content": answering.content_of(live, record),
                    "claimed_by": None if claim is None else name_of(claim.by),
                }
            )
        return {"total": len(found), "waiting": shown}

    return await look(desk, read_queue)
