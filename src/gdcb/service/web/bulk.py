"""One answer to several held decisions: each is listed first, and what cannot be is left out."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from gdcb.errors import Conflict, InvalidInput, UnknownDecision
from gdcb.outlook import WORDS
from gdcb.service import answering
from gdcb.service.answering import Review
from gdcb.service.deciding import Stopped
from gdcb.service.desk import Desk
from gdcb.service.pages import links
from gdcb.service.pages.views.decision import Waiting
from gdcb.service.pages.views.frame import Choice
from gdcb.service.pages.views.queue import BulkView, LeftOut
from gdcb.service.routing import command, house_of
from gdcb.service.turn import Turn
from gdcb.service.web import build, order
from gdcb.service.web.frame import back, enter, form_of, frame_of, page, text, texts, whole
from gdcb.service.web.order import Look
from gdcb.service.web.review import seen_by
from gdcb.service.who import is_same, name_of
from gdcb.service.who import written as who

router = APIRouter(prefix="/i/{name}", include_in_schema=False)
_VERDICTS = ("approve", "veto")


@router.post("/queue/bulk")
async def bulk(name: str, request: Request) -> Response:
    """List what one answer would settle, before it counts; it is written down who saw it."""
    form = await form_of(request, several=("row",))
    viewer, desk = await enter(request, name, "approve")
    verdict, ids = text(form, "verdict"), list(dict.fromkeys(texts(form, "row")))
    wanted, seen = await order.look_of(request, name, who(viewer)), seen_by(request)

    def run(turn: Turn) -> tuple[tuple[Waiting, ...], list[LeftOut], str]:
        problem = _unasked(desk, verdict, ids)
        if problem:
            return (), [], problem
        rows, left = _listed(turn, desk, verdict, ids, wanted)
        problem = _unanswerable(rows)
        for row in () if problem else rows:
            if (desk.chain, row.id, viewer.id, row.content) not in seen:
                answering.show(turn, row.id, wanted.by)
        return rows, left, problem

    rows, left, problem = await command(desk, run)
    if not problem:  # not before it is committed
        seen.update((desk.chain, row.id, viewer.id, row.content) for row in rows)
    view = BulkView(
        frame=await frame_of(request, name),
        verdict=verdict if verdict in _VERDICTS else "approve",
        rule=rows[0].held.rule if rows else "",
        rows=rows,
        reasons=tuple(Choice(code, words) for code, words in desk.policy.codes.items()),
        problem=problem,
        left=tuple(left),
    )
    return page(view, 422 if problem else 200)


def _unasked(desk: Desk, verdict: str, ids: Sequence[str]) -> str:
    """Return what is wrong with the question itself; empty: nothing."""
    if verdict not in _VERDICTS:
        return "choose to approve or to veto"
    if not ids:
        return "nothing was selected"
    if len(ids) > desk.policy.bulk:
        return f"at most {desk.policy.bulk} decisions are answered together"
    return ""


def _unanswerable(rows: Sequence[Waiting]) -> str:
    """Return why what is left cannot be answered together; empty: it can."""
    if not rows:
        return "none of them can be answered by you now"
    if len({row.held.rule for row in rows}) > 1:
        return "only decisions that the same rule holds are answered together"
    return ""


def _listed(
    turn: Turn, desk: Desk, verdict: str, ids: Sequence[str], wanted: Look
) -> tuple[tuple[Waiting, ...], list[LeftOut]]:
    """Return the decisions that may be answered, and the others with the reason why not."""
    rows, left, live = [], [], turn.live
    for id in ids:
        try:
            record = answering.find(live, id)
            answering.check_waiting(live, record)
            if verdict == "approve":
                answering.check_in_time(turn, id)
        except (UnknownDecision, Conflict) as error:
            left.append(LeftOut(id, str(error)))
            continue
        if wanted.claimed(id) == "others":
            left.append(LeftOut(id, f"{name_of(wanted.leases[id].by)} has claimed it"))
        elif verdict == "approve" and build.is_asked_by(record, wanted.by):
            left.append(LeftOut(id, "you asked for it; somebody else answers"))
        else:
            rows.append(order.row_of(live, desk, id, wanted))
    return tuple(rows), left


@router.post("/queue/bulk/confirm")
async def confirm(name: str, request: Request) -> Response:
    """Take one answer to several decisions; those that changed since are left out, and named."""
    form = await form_of(request, several=("row", "version", "content"))
    viewer, desk = await enter(request, name, "approve")
    by, verdict = who(viewer), text(form, "verdict")
    ids = texts(form, "row")
    versions, contents = texts(form, "version"), texts(form, "content")
    if not len(ids) == len(versions) == len(contents):
        raise InvalidInput("the form is not whole; go back and select again")
    if verdict not in _VERDICTS:
        raise InvalidInput("verdict: choose to approve or to veto")
    code, words = text(form, "code"), text(form, "reason")[:2000]
    said = [
        Review(id, verdict, None, by, code, words, whole("version", version), content)
        for id, version, content in zip(ids, versions, contents, strict=True)
    ]
    leases = await run_in_threadpool(house_of(request).claims.of, name, ids)
    taken = {id: name_of(one.by) for id, one in leases.items() if not is_same(one.by, by)}

    def run(turn: Turn) -> tuple[list[LeftOut], int]:
        left = [LeftOut(id, f"{whose} has claimed it") for id, whose in taken.items()]
        left += _refused(turn, [one for one in said if one.id not in taken])
        out = {one.id for one in left}
        rest = [one for one in said if one.id not in out]
        if rest or not left:  # without any it says what it expects
            answering.bulk(turn, rest)
        return left, len(rest)

    left, done = await command(desk, run)
    if not left:
        was = "1 decision was" if done == 1 else f"{done} decisions were"
        return back(links.instance(name, "queue"), f"{was} {WORDS[verdict]}.")
    view = BulkView(
        frame=await frame_of(request, name), verdict=verdict, left=tuple(left), done=done
    )
    return page(view, 200 if done else 409)


def _refused(turn: Turn, said: Sequence[Review]) -> list[LeftOut]:
    """Return the answers that cannot count: late, to something else than was seen, to one's own.

    A pause, a reason that is none and the like stop them all, and are raised.
    """
    left = []
    for one in said:
        try:
            answering.check(turn, one)
        except Stopped:
            raise
        except (UnknownDecision, Conflict) as error:
            left.append(LeftOut(one.id, str(error)))
    return left
