"""The approver's queue and review screen: forms that work without a script."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData

from gdcb import events as ev
from gdcb.errors import Conflict, GdcbError, InvalidInput
from gdcb.ledger.live import Live
from gdcb.service import answering
from gdcb.service.access import Principal
from gdcb.service.answering import Decided, OwnProposal, Review, Stale
from gdcb.service.desk import Desk
from gdcb.service.pages import links, render
from gdcb.service.pages.views.decision import Quantity, Waiting
from gdcb.service.pages.views.frame import Choice
from gdcb.service.pages.views.queue import BulkView, QueueFilters, QueueNews, QueueView
from gdcb.service.pages.views.review import Draft, Preview, ReviewView
from gdcb.service.problems import problem_of
from gdcb.service.routing import command, house_of, look
from gdcb.service.turn import Turn
from gdcb.service.web import build
from gdcb.service.web.frame import back, enter, form_of, frame_of, page, text, texts
from gdcb.service.who import written as who

router = APIRouter(prefix="/i/{name}", include_in_schema=False)
SIZE = 50
_READS = ("approve", "operate", "audit")
Leases = dict[str, Any]


def ordered(rows: list[Waiting]) -> list[Waiting]:
    """Return held decisions by deadline, then by risk, then by age."""
    never = 2**62
    return sorted(
        rows, key=lambda row: (row.deadline or never, -(row.risk or 0.0), row.asked, row.id)
    )


def _rows(
    live: Live, desk: Desk, leases: Leases, viewer: str, filters: QueueFilters
) -> list[Waiting]:
    found = []
    for one in live.waiting.values():
        if filters.rule not in ("", one.gate) or filters.unit not in ("", one.unit):
            continue
        row = build.waiting_of(live, desk.policy, live.records[one.id], leases.get(one.id), viewer)
        has = "free" if row.claim is None else "mine" if row.claim.is_mine else "others"
        words = f"{row.id} {row.unit} {row.held.rule} {row.held.words}".lower()
        if filters.claimed in ("", has) and filters.text.lower() in words:
            found.append(row)
    return ordered(found)


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
    viewer, desk = await enter(request, name, *_READS, is_use=reload <= 0)
    leases = await run_in_threadpool(house_of(request).claims.of, name)
    filters = QueueFilters(rule[:200], unit[:200], claimed[:20], text[:200])
    by, first = who(viewer), max(0, offset)

    def read(live: Live) -> dict[str, Any]:
        rows = _rows(live, desk, leases, by, filters)
        every = live.waiting.values()
        return {
            "rows": tuple(rows[first : first + SIZE]),
            "total": len(rows),
            "rules": tuple(sorted({one.gate for one in every})),
            "units": tuple(sorted({one.unit for one in every})),
            "version": len(live.events),
        }

    found = await look(desk, read)
    view = QueueView(
        frame=await frame_of(request, name),
        offset=first,
        size=SIZE,
        filters=filters,
        bulk_cap=desk.policy.bulk if viewer.may("approve", name) else 0,
        reload=min(max(reload, 0), 3600),
        **found,
    )
    return page(view)


@router.get("/queue.json")
async def news(name: str, request: Request, since: int = 0) -> Response:
    """Return what changed in the queue since an entry."""
    _, desk = await enter(request, name, *_READS, is_use=False)

    def read(live: Live) -> QueueNews:
        gone, n_new = [], 0
        for event in live.events[max(since, len(live.events) - 500, 0) :]:
            if isinstance(event, ev.ReviewRequested):
                n_new += sum(id in live.waiting for id in event.id)
            elif isinstance(event, ev.Reviewed | ev.Expired):
                decided = answering.decided_by(live, live.records[event.id])
                if decided is not None:
                    gone.append((event.id, f"{decided['what']} by {decided['by']}"))
        return QueueNews(len(live.events), len(live.waiting), n_new, tuple(gone))

    return JSONResponse((await look(desk, read)).document())


@router.get("/d/{id}")
async def review_page(name: str, id: str, request: Request) -> Response:
    """Show one decision: what is proposed, why it waits, and the three answers."""
    viewer, desk = await enter(request, name, *_READS)
    if viewer.may("approve", name) and is_looked_at(request):
        await _show(request, desk, id, viewer)
    return page(await _view(request, name, id, viewer, desk))


def is_looked_at(request: Request) -> bool:
    """Whether a page is opened for somebody to see, by what the browser says of the request.

    A neighbouring site may ask for it as a picture, in a frame that stays empty, or ahead of time:
    nobody sees it then, and the ledger must not say that somebody did.
    """
    headers = request.headers
    dest = headers.get("sec-fetch-dest", "document")
    return dest == "document" and "sec-purpose" not in headers


async def _show(request: Request, desk: Desk, id: str, viewer: Principal) -> None:
    """Write down once who opened which version."""
    seen: set[tuple[str, str, str, int]] = request.app.state.__dict__.setdefault("shown", set())

    def version(live: Live) -> int | None:
        record = answering.find(live, id)
        return record.judged_at if record.status == "held" else None

    number = await look(desk, version)
    key = (desk.chain, id, viewer.id, number or -1)
    if number is None or key in seen:
        return
    await command(desk, lambda turn: answering.show(turn, id, who(viewer)))
    if len(seen) > 100_000:
        seen.clear()
    seen.add(key)


async def _view(
    request: Request,
    name: str,
    id: str,
    viewer: Principal,
    desk: Desk,
    *,
    draft: Draft | None = None,
    given: dict[str, Any] | None = None,
    preview: Preview | None = None,
) -> ReviewView:
    leases = await run_in_threadpool(house_of(request).claims.of, name)
    memory = await run_in_threadpool(house_of(request).memory, name)
    by = who(viewer)

    def read(live: Live) -> dict[str, Any]:
        record = answering.find(live, id)
        case = build.waiting_of(live, desk.policy, record, leases.get(id), by)
        rows = [one.id for one in _rows(live, desk, leases, by, QueueFilters())]
        at = rows.index(id) if id in rows else None
        arms, unit = build.arms_of(live, record)
        is_held = record.status == "held" and record.review is None
        return {
            "case": case,
            "worth": Quantity(unit, None),
            "context": build.context_fields(live, record),
            "factors": build.factors_of(live, record),
            "arms": arms,
            "past": build.past_of(live, memory, record),
            "edit": build.edit_fields(live, record, given or {}),
            "reasons": build.reasons_of(desk.policy),
            "is_own": build.is_asked_by(record, by),
            "answer": None if is_held else build.answer_of(live, record),
            "executed": ()
            if record.executed is None
            else build.action_of(live.instance, record.executed),
            "earlier": rows[at - 1] if at else "",
            "later": rows[at + 1] if at is not None and at + 1 < len(rows) else "",
            "position": None if at is None else at + 1,
            "waiting": len(rows),
        }

    found = await look(desk, read)
    conflict = found["answer"] if draft is not None else None
    return ReviewView(
        frame=await frame_of(request, name),
        draft=draft,
        preview=preview,
        conflict=conflict,
        **found,
    )


def _action(desk: Desk, form: FormData) -> dict[str, Any]:
    """Return the action that a form has, numbers as numbers."""
    found: dict[str, Any] = {}
    for column in desk.instance.actions:
        raw = text(form, f"action.{column.name}").strip().replace(",", ".")
        if column.levels:
            found[column.name] = raw
            continue
        try:
            found[column.name] = float(raw)
        except ValueError:
            raise InvalidInput(f"{column.name}: expected a number, got {raw[:40]!r}") from None
    return found


@router.post("/d/{id}/{verb}")
async def answer(name: str, id: str, verb: str, request: Request) -> Response:
    """Take what a form on the review screen says."""
    form = await form_of(request)
    if verb in ("claim", "release"):
        return await _claim(request, name, id, verb, form)
    if verb == "preview":
        return await _preview(request, name, id, form)
    if verb not in ("approve", "edit", "veto"):
        raise InvalidInput(f"there is no answer {verb[:20]!r}")
    viewer, desk = await enter(request, name, "approve")
    by, code, words = who(viewer), text(form, "code"), text(form, "reason")
    try:
        action = _action(desk, form) if verb == "edit" else None
        await run_in_threadpool(house_of(request).claims.check, name, [id], by)
        said = Review(
            id,
            verb,
            action,
            by,
            code,
            words[:2000],
            _whole("version", text(form, "version")),
            text(form, "content"),
        )
        await command(desk, lambda turn: answering.review(turn, said))
    except (Decided, Stale, Conflict, OwnProposal, InvalidInput) as error:
        status = problem_of(error)[0]
        draft = Draft(verb, str(error), code, words)
        given = {c.name: text(form, f"action.{c.name}") for c in desk.instance.actions}
        view = await _view(
            request, name, id, viewer, desk, draft=draft, given=given if verb == "edit" else None
        )
        return page(view, status)
    done = {"approve": "approved", "edit": "edited", "veto": "vetoed"}[verb]
    later = await look(desk, lambda live: _next(live, desk))
    to = links.instance(name, "d", later) if later else links.instance(name, "queue")
    return back(to, f"You {done} {id}.")


def _next(live: Live, desk: Desk) -> str:
    rows = [
        (answering.deadline(live, desk.policy, one.id) or 2**62, one.since, one.id)
        for one in live.waiting.values()
    ]
    return min(rows)[2] if rows else ""


def _whole(field: str, told: str) -> int:
    try:
        return int(told)
    except ValueError:
        raise InvalidInput(f"{field}: expected a whole number") from None


async def _claim(request: Request, name: str, id: str, verb: str, form: FormData) -> Response:
    viewer, desk = await enter(request, name, "approve")
    claims, by = house_of(request).claims, who(viewer)
    to = text(form, "back") or links.instance(name, "d", id)
    if verb == "release":
        await run_in_threadpool(claims.release, name, id, by)
        return back(to, f"{id} is free again.")
    try:
        await command(desk, lambda turn: _check(turn, id))
        await run_in_threadpool(claims.claim, name, id, by, desk.policy.lease)
    except Conflict as error:
        return back(to, str(error), "problem")
    minutes = desk.policy.lease / 60
    return back(to, f"{id} is yours for {minutes:g} minutes.")


def _check(turn: Turn, id: str) -> None:
    answering.check_waiting(turn.live, answering.find(turn.live, id))


async def _preview(request: Request, name: str, id: str, form: FormData) -> Response:
    viewer, desk = await enter(request, name, "approve")
    wants_json = "application/json" in request.headers.get("accept", "")
    given = {c.name: text(form, f"action.{c.name}") for c in desk.instance.actions}
    try:
        action = _action(desk, form)
        found = await look(
            desk, lambda live: build.preview_of(live, answering.find(live, id), action)
        )
    except GdcbError as error:
        found = Preview(problem=str(error))
    if wants_json:
        return JSONResponse(render.preview(found))
    view = await _view(request, name, id, viewer, desk, given=given, preview=found)
    code, words = text(form, "code"), text(form, "reason")
    return page(replace(view, draft=Draft("edit", "", code, words)))


@router.post("/queue/bulk")
async def bulk(name: str, request: Request) -> Response:
    """List what one answer would settle, before it counts."""
    form = await form_of(request)
    viewer, desk = await enter(request, name, "approve")
    verdict, ids = text(form, "verdict"), list(dict.fromkeys(texts(form, "row")))
    leases = await run_in_threadpool(house_of(request).claims.of, name)
    by = who(viewer)

    def read(live: Live) -> tuple[tuple[Waiting, ...], str]:
        rows = tuple(
            build.waiting_of(live, desk.policy, live.records[id], leases.get(id), by)
            for id in ids
            if id in live.waiting
        )
        return rows, _bulk_problem(desk, verdict, ids, rows)

    rows, problem = await look(desk, read)
    view = BulkView(
        frame=await frame_of(request, name),
        verdict=verdict if verdict in ("approve", "veto") else "approve",
        rule=rows[0].held.rule if rows else "",
        rows=rows,
        reasons=tuple(Choice(code, words) for code, words in desk.policy.codes.items()),
        problem=problem,
    )
    return page(view, 422 if problem else 200)


def _bulk_problem(desk: Desk, verdict: str, ids: list[str], rows: tuple[Waiting, ...]) -> str:
    if verdict not in ("approve", "veto"):
        return "choose to approve or to veto"
    if not ids:
        return "nothing was selected"
    if len(rows) < len(ids):
        return "some of them wait no more: somebody else was quicker; go back and look again"
    if len(rows) > desk.policy.bulk:
        return f"at most {desk.policy.bulk} decisions are answered together"
    if len({row.held.rule for row in rows}) > 1:
        return "only decisions that the same rule holds are answered together"
    if any(row.claim is not None and not row.claim.is_mine for row in rows):
        return "somebody else has claimed one of them"
    return ""


@router.post("/queue/bulk/confirm")
async def confirm(name: str, request: Request) -> Response:
    """Take one answer to several decisions: all of them, or none."""
    form = await form_of(request)
    viewer, desk = await enter(request, name, "approve")
    by, verdict = who(viewer), text(form, "verdict")
    ids = texts(form, "row")
    versions, contents = texts(form, "version"), texts(form, "content")
    if not len(ids) == len(versions) == len(contents):
        raise InvalidInput("the form is not whole; go back and select again")
    await run_in_threadpool(house_of(request).claims.check, name, ids, by)
    code, words = text(form, "code"), text(form, "reason")[:2000]
    said = [
        Review(id, verdict, None, by, code, words, _whole("version", version), content)
        for id, version, content in zip(ids, versions, contents, strict=True)
    ]
    await command(desk, lambda turn: answering.bulk(turn, said))
    done = "approved" if verdict == "approve" else "vetoed"
    return back(links.instance(name, "queue"), f"{len(said)} decisions were {done}.")
