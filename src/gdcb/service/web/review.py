"""The review screen: one decision and its three answers, by forms that work without a script."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData

from gdcb.errors import Conflict, GdcbError, InvalidInput
from gdcb.ledger.live import Live
from gdcb.outlook import WORDS
from gdcb.service import answering
from gdcb.service.access import Principal
from gdcb.service.answering import Review
from gdcb.service.desk import Desk
from gdcb.service.pages import links, render
from gdcb.service.pages.views.decision import Quantity
from gdcb.service.pages.views.review import Draft, Preview, ReviewView
from gdcb.service.problems import problem_of
from gdcb.service.routing import command, house_of, look
from gdcb.service.turn import Turn
from gdcb.service.web import build, order
from gdcb.service.web.frame import back, enter, form_of, frame_of, page, plain_number, text, whole
from gdcb.service.web.queue import READS
from gdcb.service.who import written as who

router = APIRouter(prefix="/i/{name}", include_in_schema=False)


@router.get("/d/{id}")
async def review_page(name: str, id: str, request: Request) -> Response:
    """Show one decision: what is proposed, why it waits, and the three answers."""
    viewer, desk = await enter(request, name, *READS)
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
    """Write down once who opened what."""
    seen = seen_by(request)

    def content_of(live: Live) -> str:
        record = answering.find(live, id)
        return answering.content_of(live, record) if record.status == "held" else ""

    content = await look(desk, content_of)
    if not content or (desk.chain, id, viewer.id, content) in seen:
        return
    content = await command(desk, lambda turn: answering.show(turn, id, who(viewer)))
    seen.add((desk.chain, id, viewer.id, content))


def seen_by(request: Request) -> set[tuple[str, str, str, str]]:
    """Return what was opened by whom in this process: each content is written down once."""
    seen: set[tuple[str, str, str, str]] = request.app.state.__dict__.setdefault("shown", set())
    if len(seen) > 100_000:
        seen.clear()
    return seen


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
    by = who(viewer)
    wanted = await order.look_of(request, name, by)
    memory = await run_in_threadpool(house_of(request).memory, name)
    line = await order.asked(desk, wanted)
    held = await order.in_order(desk, order.risks_of(request, desk), line.some)
    rows = [one.id for one in held]
    at = rows.index(id) if id in rows else None

    def read(live: Live) -> dict[str, Any]:
        record = answering.find(live, id)
        case = order.row_of(live, desk, id, wanted)
        arms, unit = build.arms_of(live, record)
        factors, effects = build.factors_of(live, record)
        is_held = record.status == "held" and record.review is None
        return {
            "case": case,
            "worth": Quantity(unit, None),
            "context": build.context_fields(live, record),
            "factors": factors,
            "effects": effects,
            "arms": arms,
            "past": build.past_of(live, memory, record),
            "edit": build.edit_fields(live, record, given or {}),
            "reasons": build.reasons_of(desk.policy),
            "is_own": build.is_asked_by(record, by),
            "own_key": build.key_behind(record, by),
            "answer": None if is_held else build.answer_of(live, record, desk.policy),
            "executed": None
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
        raw = text(form, f"action.{column.name}").strip()
        found[column.name] = raw if column.levels else plain_number(column.name, raw)
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
        build.check_limits(desk.instance, action or {})
        await run_in_threadpool(house_of(request).claims.check, name, [id], by)
        said = Review(
            id,
            verb,
            action,
            by,
            code,
            words[:2000],
            whole("version", text(form, "version")),
            text(form, "content"),
        )
        await command(desk, lambda turn: answering.review(turn, said))
    except (Conflict, InvalidInput) as error:
        status = problem_of(error)[0]
        draft = Draft(verb, str(error), code, words)
        given = {c.name: text(form, f"action.{c.name}") for c in desk.instance.actions}
        view = await _view(
            request, name, id, viewer, desk, draft=draft, given=given if verb == "edit" else None
        )
        if view.is_settled and view.conflict is None:  # nobody was asked: there is no form to mend
            raise
        return page(view, status)
    wanted = await order.look_of(request, name, by)
    later = await order.answerable(desk, order.risks_of(request, desk), wanted)
    to = links.instance(name, "d", later) if later else links.instance(name, "queue")
    return back(to, f"You {WORDS[verb]} {id}.")


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
        # What the form would not take, the gates may: both are told.
        try:
            build.check_limits(desk.instance, action)
        except InvalidInput as error:
            found = replace(found, problem=found.problem or str(error))
    except GdcbError as error:
        found = Preview(problem=str(error))
    if wants_json:
        return JSONResponse(render.preview(found))
    view = await _view(request, name, id, viewer, desk, given=given, preview=found)
    code, words = text(form, "code"), text(form, "reason")
    return page(replace(view, draft=Draft("edit", "", code, words)))
