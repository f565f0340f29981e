"""Administrators' pages: people, keys, and changes of an instance by two pairs of eyes."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from gdcb.errors import Conflict, GdcbError, InvalidInput
from gdcb.ledger.live import Live
from gdcb.service import access, operating
from gdcb.service.access import EVERY, AccessError, Grant, Principal
from gdcb.service.access.names import shown
from gdcb.service.pages import links
from gdcb.service.pages.views import people as views
from gdcb.service.pages.views.people import (
    ChangeRow,
    ChangesView,
    ChangeView,
    DiffLine,
    PeopleView,
    Secret,
)
from gdcb.service.problems import BadRequest
from gdcb.service.routing import command, house_of, look, permitted
from gdcb.service.web.frame import (
    back,
    enter,
    form_of,
    frame_of,
    page,
    plain_number,
    signed_in,
    text,
    texts,
    viewer_of,
)
from gdcb.service.who import is_same, name_of
from gdcb.service.who import written as who

router = APIRouter(include_in_schema=False)
PAGE = 50
_AROUND = 3  # lines that are shown on each side of a change
_MOST_COMPARED = 20_000_000  # steps of a search for what two texts share: less than half a second
_ENDED = (
    "Their password, sessions and links have ended, since whoever set the account up may still "
    "have them. They sign in with this link, and set another password."
)


async def _administrator(request: Request) -> Principal:
    viewer = signed_in(await viewer_of(request))
    if any(viewer.may("administer", one.instance) for one in viewer.grants):
        return viewer
    return permitted(request, viewer, EVERY, "administer")


@router.get("/people")
async def people(request: Request) -> Response:
    """Show who there is, and what they may do."""
    viewer = await _administrator(request)
    return page(await _people(request, viewer))


async def _people(
    request: Request, viewer: Principal, secret: Secret | None = None, problem: str = ""
) -> PeopleView:
    house = house_of(request)
    found = await run_in_threadpool(access.list_people, house.books, viewer)
    keys = await run_in_threadpool(access.list_keys, house.books, viewer)
    names = await run_in_threadpool(house.names)
    return PeopleView(
        frame=await frame_of(request),
        people=tuple(
            views.Person(
                one.id,
                one.name,
                one.login,
                _grants(one.grants),
                one.signed_in_at,
                one.ended_at is None,
            )
            for one in found
        ),
        keys=tuple(
            views.Key(
                one.id,
                one.name,
                _grants(one.grants),
                one.made_at,
                one.used_at,
                one.expires_at,
                one.ended_at is not None,
            )
            for one in keys
        ),
        instances=tuple(name for name in names if viewer.may("administer", name)),
        secret=secret,
        problem=problem,
    )


def _grants(found: frozenset[Grant]) -> tuple[views.Grant, ...]:
    return tuple(views.Grant(one.role, one.instance) for one in sorted(found))


@router.post("/people")
async def add_person(request: Request) -> Response:
    """Add somebody, and show their first one-time link."""
    form = await form_of(request)
    viewer, house = await _administrator(request), house_of(request)
    name, login = text(form, "name"), text(form, "login")
    role, instance = text(form, "role"), text(form, "instance", EVERY)

    def add() -> str:
        grants = [(role, instance)] if role else []
        made = access.add_person(house.books, viewer, login, name, grants)
        return access.make_link(house.books, viewer, made, house.settings.base_url)

    return await _with_secret(request, viewer, add, "link", name)


async def _with_secret(
    request: Request, viewer: Principal, make: Any, kind: str, name: str
) -> Response:
    """Show a secret once, or say why there is none."""
    try:
        words = await run_in_threadpool(make)
    except (AccessError, Conflict, InvalidInput) as error:
        return page(await _people(request, viewer, problem=str(error)), 422)
    return page(await _people(request, viewer, Secret(kind, name, words)))


@router.post("/people/{id}/{verb}")
async def change_person(id: str, verb: str, request: Request) -> Response:
    """Grant, revoke, make a link, or end somebody's access."""
    form = await form_of(request)
    viewer, house = await _administrator(request), house_of(request)
    role, instance = text(form, "role"), text(form, "instance", EVERY)
    if verb == "link":

        def make() -> str:
            return access.make_link(house.books, viewer, id, house.settings.base_url)

        return await _with_secret(request, viewer, make, "link", "the link")

    link = ""

    def change() -> str:
        nonlocal link
        if verb == "grant":
            if access.grant(house.books, viewer, id, role, instance):
                link = access.make_link(house.books, viewer, id, house.settings.base_url)
            return "The role is granted."
        if verb == "revoke":
            taken, _, where = text(form, "grant").partition("@")
            access.revoke(house.books, viewer, id, taken, where)
            return "The role is taken away."
        if verb == "disable":
            access.end_person(house.books, viewer, id)
            return "They are signed out everywhere and can sign in no more."
        raise InvalidInput(f"there is no such change: {verb[:20]!r}")

    try:
        told = await run_in_threadpool(change)
    except (AccessError, Conflict, InvalidInput) as error:
        return page(await _people(request, viewer, problem=str(error)), 422)
    if link:
        why = f"{told} {_ENDED}"
        secret = Secret("link", "their next sign-in", link, why=why)
        return page(await _people(request, viewer, secret))
    return back("/people", told)


@router.post("/keys")
async def add_key(request: Request) -> Response:
    """Make a key, and show it once."""
    form = await form_of(request, several=("role",))
    viewer, house = await _administrator(request), house_of(request)
    name, days = text(form, "name"), text(form, "days")
    instance = text(form, "instance", EVERY)
    grants = [(role, instance) for role in texts(form, "role")]

    def make() -> str:
        if instance not in (EVERY, *house.names()):
            raise InvalidInput(f"instance: there is no instance {shown(instance)}")
        lasts = plain_number("days", days) * 86400 if days else None
        return access.add_key(house.books, viewer, name, grants, lasts).text

    return await _with_secret(request, viewer, make, "key", name)


@router.post("/keys/{id}/revoke")
async def revoke_key(id: str, request: Request) -> Response:
    """End a key."""
    await form_of(request)
    viewer, house = await _administrator(request), house_of(request)
    try:
        await run_in_threadpool(access.revoke_key, house.books, viewer, id)
    except (AccessError, Conflict, InvalidInput) as error:
        return page(await _people(request, viewer, problem=str(error)), 422)
    return back("/people", "The key opens nothing any more.")


# Changes of an instance


@router.get("/i/{name}/changes")
async def changes(name: str, request: Request, before: int | None = None) -> Response:
    """Show the changes there were, what waits, and the form that proposes one."""
    await enter(request, name, "operate", "administer", "audit")
    return page(await _changes(request, name, before))


async def _changes(
    request: Request, name: str, before: int | None = None, **more: Any
) -> ChangesView:
    _, desk = await enter(request, name, "operate", "administer", "audit")
    toml = await look(desk, lambda live: live.text)
    kept = house_of(request).changes(name)
    found = await run_in_threadpool(kept.all)
    found = [one for one in found if before is None or one.number < before]
    in_force = await run_in_threadpool(kept.in_force)
    rows = tuple(
        ChangeRow(str(one.number), one.reason[:80], name_of(one.by), one.at, one.status)
        for one in found[:PAGE]
    )
    return ChangesView(
        frame=await frame_of(request, name),
        rows=rows,
        older=rows[-1].id if len(found) > PAGE else "",
        in_force="" if in_force is None else str(in_force.number),
        since=None if in_force is None else in_force.decided_at or in_force.at,
        **{"toml": toml} | more,
    )


@router.post("/i/{name}/changes")
async def propose(name: str, request: Request) -> Response:
    """Propose another declaration."""
    form = await form_of(request)
    viewer, desk = await enter(request, name, "operate")
    toml = text(form, "declaration").replace("\r\n", "\n")
    reason = text(form, "reason")

    try:
        declared = await run_in_threadpool(operating.read_declaration, toml)
        number = await command(
            desk, lambda turn: operating.propose_change(turn, toml, reason, who(viewer), declared)
        )
    except GdcbError as error:
        view = await _changes(request, name, toml=toml, reason=reason, problem=str(error))
        return page(view, 422)
    return back(links.instance(name, "changes", str(number)), "Proposed: somebody else must agree.")


@router.get("/i/{name}/changes/{number}")
async def change(name: str, number: int, request: Request) -> Response:
    """Show one change: what differs, what it means, and what became of it."""
    viewer, desk = await enter(request, name, "operate", "administer", "audit")
    kept = house_of(request).changes(name)
    found = await run_in_threadpool(kept.get, number)
    if found is None:
        raise BadRequest(f"there is no change {str(number)[:20]} here", 404, "not_found")

    def read() -> tuple[str, tuple[DiffLine, ...]]:
        new = kept.declaration(found.number)
        return new, _diff(kept.declaration(found.base), new)

    new, diff = await run_in_threadpool(read)
    is_open = found.status == "proposed"
    view = ChangeView(
        frame=await frame_of(request, name),
        id=str(number),
        title=f"Change {number}",
        by=name_of(found.by),
        at=found.at,
        status=found.status,
        reason=found.reason,
        diff=diff,
        effects=await look(desk, _effects) if is_open else (),
        is_mine=is_same(found.by, who(viewer)),
        content=hashlib.sha256(new.encode()).hexdigest()[:32],
        decided_by=name_of(found.decided_by),
        decided_at=found.decided_at,
        decided_reason=found.decided_reason,
    )
    return await run_in_threadpool(page, view)  # a long text has a long page


def _diff(old: str, new: str) -> tuple[DiffLine, ...]:
    """Return what differs, with three lines around it, in time that no text can make long.

    Lines between the first and the last difference are compared one by one only where they are few:
    the search may look at all pairs of them, once for each line that both have. Else all of them
    are shown as taken away and added, which leaves nothing out.
    """
    before, after = _lines(old), _lines(new)
    if before == after:
        return ()
    shorter = min(len(before), len(after))
    start = next((i for i in range(shorter) if before[i] != after[i]), shorter)
    most = shorter - start
    stop = next((i for i in range(most) if before[-1 - i] != after[-1 - i]), most)
    removed, added = before[start : len(before) - stop], after[start : len(after) - stop]
    lines = [DiffLine("same", line) for line in after[:start]]
    fewer = min(len(removed), len(added))
    if len(removed) * len(added) * fewer <= _MOST_COMPARED:
        opcodes = difflib.SequenceMatcher(None, removed, added).get_opcodes()
    else:
        opcodes = [("replace", 0, len(removed), 0, len(added))]
    for tag, i, j, k, m in opcodes:
        if tag == "equal":
            lines += [DiffLine("same", line) for line in added[k:m]]
            continue
        lines += [DiffLine("removed", line) for line in removed[i:j]]
        lines += [DiffLine("added", line) for line in added[k:m]]
    lines += [DiffLine("same", line) for line in after[len(after) - stop :]]
    return tuple(_near_changes(lines))


def _lines(text: str) -> list[str]:
    """Return the lines as TOML reads them; `splitlines` knows more ends, at which no comment ends.

    >>> _lines("a = 1"), _lines("")
    (['a = 1'], [])
    """
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def _near_changes(lines: list[DiffLine]) -> Iterator[DiffLine]:
    """Leave out lines farther than three from a change, and say at which line it goes on."""
    changed = [i for i, line in enumerate(lines) if line.kind != "same"]
    shown = sorted({n for i in changed for n in range(i - _AROUND, i + _AROUND + 1)})
    number, last = 1, -1  # of the new text; of `lines`
    for at in (i for i in shown if 0 <= i < len(lines)):
        number += sum(line.kind != "removed" for line in lines[last + 1 : at])
        if at != last + 1 or at == 0:
            yield DiffLine("hunk", f"line {number}")
        yield lines[at]
        number += lines[at].kind != "removed"
        last = at


def _effects(live: Live) -> tuple[str, ...]:
    kept = "What both loops have learned stays; what was learned of a gate that changes does not."
    held = f"{len(live.waiting)} decisions wait now; they stay held, and meet the new gates then."
    return kept, held


@router.post("/i/{name}/changes/{number}/{verb}")
async def settle(name: str, number: int, verb: str, request: Request) -> Response:
    """Put a proposed change in force, or turn it down."""
    form = await form_of(request)
    reason, seen = text(form, "reason"), text(form, "content")
    to = links.instance(name, "changes")
    if verb == "agree":
        viewer, desk = await enter(request, name, "administer")
        read = await run_in_threadpool(operating.read_proposal, desk, number)

        def agree(turn: Any) -> None:
            found = turn.live.proposals.get(number)
            if found is not None:
                is_seen = hashlib.sha256(found[0].declaration.encode()).hexdigest()[:32] == seen
                if not is_seen:
                    raise InvalidInput("the proposal is not the one that you saw; look again")
            operating.agree(turn, number, reason, who(viewer), read)

        await command(desk, agree)
        return back(to, "The change is in force.")
    if verb != "refuse":
        raise InvalidInput(f"there is no answer {verb[:20]!r}")
    viewer, desk = await enter(request, name, "administer", "operate")
    await command(desk, lambda turn: operating.refuse_change(turn, number, reason, who(viewer)))
    return back(to, "The change does not come.")
