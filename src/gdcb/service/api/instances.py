"""Instances: see, create, change under four eyes, pause, retire, refit, put back, start warm."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool

from gdcb.errors import InvalidInput
from gdcb.ledger.live import Live
from gdcb.log_columns import LogColumns
from gdcb.service import operating
from gdcb.service.access import EVERY, require
from gdcb.service.answering import written
from gdcb.service.deciding import check_same
from gdcb.service.desk import Desk
from gdcb.service.models import (
    About,
    AgreeBody,
    Change,
    ChangeBody,
    CreateBody,
    DiscountBody,
    News,
    Proposal,
    ReasonBody,
    RollbackBody,
)
from gdcb.service.problems import BadRequest
from gdcb.service.routing import (
    StrictRoute,
    address_of,
    command,
    enter,
    house_of,
    look,
    permitted,
    principal_of,
)
from gdcb.service.turn import Turn
from gdcb.service.uploads import Wanted, read_upload, rows_for
from gdcb.service.who import name_of
from gdcb.service.who import written as who

router = APIRouter(prefix="/v1/instances", route_class=StrictRoute, tags=["instances"])
_ANY = ("decide", "outcome", "approve", "operate", "audit", "administer")
_SUFFIX = {"text/csv": ".csv", "application/vnd.apache.parquet": ".parquet"}


@router.get("", response_model=list[About])
async def instances(request: Request) -> Any:
    """List the instances on which one has a role."""
    house, principal = house_of(request), await principal_of(request)
    if principal is None:
        require(None, "audit", EVERY)
        return []
    found = []
    for name in principal.seen(await run_in_threadpool(house.names)):
        desk = await run_in_threadpool(house.desk, name)
        found.append(await look(desk, lambda live: about(live, principal.roles(live.chain))))
    return found


@router.post("", status_code=201)
async def create(request: Request, said: CreateBody) -> dict[str, str]:
    """Declare a new instance; its name is the one in the declaration."""
    house, principal = house_of(request), await principal_of(request)
    by = permitted(request, principal, EVERY, "administer")
    house.limiter.take("other", by.id, address_of(request))

    def make() -> str:
        return operating.create(
            house.store, said.declaration, who(by), said.reason, seed=said.seed, clock=house.clock
        )

    name = await run_in_threadpool(make)
    await run_in_threadpool(house.desk, name)
    return {"name": name}


@router.get("/{name}", response_model=About)
async def instance(name: str, request: Request) -> Any:
    """See an instance in short."""
    principal, desk = await enter(request, name, *_ANY)
    return await look(desk, lambda live: about(live, principal.roles(name)))


def about(live: Live, roles: list[str]) -> dict[str, Any]:
    """Return an instance in short."""
    one = live.instance
    stopped = {
        what: None
        if told is None
        else {"by": name_of(told[2]), "at": written(told[1]), "reason": told[0].reason}
        for what, told in (("paused", live.paused), ("retired", live.retired))
    }
    set_back = live.set_back
    return {
        "set_back": None
        if set_back is None
        else {"at": written(set_back[1]), "had": set_back[0].had, "has": set_back[0].has},
        "name": live.chain,
        "title": one.title,
        "entries": len(live.events),
        "waiting": len(live.waiting),
        "units": len(live.units),
        "launch": str(live.declared.service.get("launch", {}).get("mode", "live")),
        "arms": list(one.space.names),
        "context": one.context.json_schema(),
        "action": [column.name for column in one.actions],
        "is_ungated": not one.chain.gates,
        "outcome": list(one.reward.outcome),
        "roles": roles,
    } | stopped


@router.get("/{name}/declaration")
async def declaration(name: str, request: Request) -> dict[str, str]:
    """Read the declaration in force, as TOML."""
    _, desk = await enter(request, name, "operate", "audit", "administer")
    return {"declaration": await look(desk, lambda live: live.text)}


@router.get("/{name}/changes", response_model=list[Proposal])
async def changes(name: str, request: Request) -> Any:
    """See which changes wait for a second pair of eyes."""
    _, desk = await enter(request, name, "operate", "audit", "administer")

    def read(live: Live) -> list[dict[str, Any]]:
        return [
            {
                "number": number,
                "by": name_of(by),
                "at": written(at),
                "reason": event.reason,
                "declaration": event.declaration,
            }
            for number, (event, at, by) in live.proposals.items()
        ]

    return await look(desk, read)


@router.get("/{name}/changes/{number}", response_model=Change)
async def change(name: str, number: int, request: Request) -> Any:
    """Read a change by its number: what was proposed, and what was decided about it."""
    await enter(request, name, "operate", "audit", "administer")
    kept = house_of(request).changes(name)
    found = await run_in_threadpool(kept.get, number)
    if found is None:
        raise BadRequest(f"there is no change {str(number)[:20]} here", 404, "not_found")
    is_decided = found.decided_at is not None
    return {
        "number": found.number,
        "by": name_of(found.by),
        "at": written(found.at),
        "reason": found.reason,
        "declaration": await run_in_threadpool(kept.declaration, found.number),
        "status": found.status,
        "decided_by": name_of(found.decided_by) if is_decided else None,
        "decided_at": None if found.decided_at is None else written(found.decided_at),
        "decided_reason": found.decided_reason if is_decided else None,
    }


@router.post("/{name}/changes", status_code=201)
async def propose(name: str, request: Request, said: ChangeBody) -> dict[str, int]:
    """Propose another declaration; gates and [service] may change, and somebody else must agree."""
    principal, desk = await enter(request, name, "operate")
    declared = await run_in_threadpool(operating.read_declaration, said.declaration)

    def run(turn: Turn) -> int:
        by = who(principal)
        return operating.propose_change(turn, said.declaration, said.reason, by, declared)

    return {"number": await command(desk, run)}


@router.post("/{name}/changes/{number}/agree")
async def agree(name: str, number: int, request: Request, said: AgreeBody) -> News:
    """Put a proposed change in force; whoever proposed it cannot."""
    principal, desk = await enter(request, name, "administer")
    by = who(principal)
    read = await run_in_threadpool(operating.read_proposal, desk, number)
    await command(desk, lambda turn: operating.agree(turn, number, said.reason, by, read))
    return News(news=True)


@router.post("/{name}/changes/{number}/refuse")
async def refuse(name: str, number: int, request: Request, said: ReasonBody) -> News:
    """Turn a proposed change down, or withdraw one's own."""
    principal, desk = await enter(request, name, "administer", "operate")
    by = who(principal)
    await command(desk, lambda turn: operating.refuse_change(turn, number, said.reason, by))
    return News(news=True)


@router.post("/{name}/pause")
async def pause(name: str, request: Request, said: ReasonBody) -> News:
    """Stop: nothing is decided or released until somebody resumes. The kill switch."""
    principal, desk = await enter(request, name, "operate")
    by = who(principal)
    return News(news=await command(desk, lambda turn: operating.pause(turn, said.reason, by)))


@router.post("/{name}/resume")
async def resume(name: str, request: Request, said: ReasonBody) -> News:
    """Go on after a pause."""
    principal, desk = await enter(request, name, "operate")
    by = who(principal)
    return News(news=await command(desk, lambda turn: operating.resume(turn, said.reason, by)))


@router.post("/{name}/acknowledge")
async def acknowledge(name: str, request: Request, said: ReasonBody) -> News:
    """Acknowledge that an earlier state of the ledger was put back; decisions go on."""
    principal, desk = await enter(request, name, "administer")
    done = operating.acknowledge(desk, said.reason, who(principal))
    return News(news=await asyncio.wrap_future(done))


@router.post("/{name}/retire")
async def retire(name: str, request: Request, said: ReasonBody) -> News:
    """End an instance; outcomes of what ran may still come in."""
    principal, desk = await enter(request, name, "administer")
    by = who(principal)
    return News(news=await command(desk, lambda turn: operating.retire(turn, said.reason, by)))


@router.post("/{name}/refit")
async def refit(name: str, request: Request) -> dict[str, list[int]]:
    """Refit the scaler now; answers with the versions in force."""
    principal, desk = await enter(request, name, "operate")
    by = who(principal)
    return {"versions": await command(desk, lambda turn: operating.refit(turn, by))}


@router.post("/{name}/rollback")
async def roll_back(name: str, request: Request, said: RollbackBody) -> News:
    """Put the learners back to what they knew after so many entries."""
    principal, desk = await enter(request, name, "operate")
    by = who(principal)
    await command(desk, lambda turn: operating.roll_back(turn, said.to, said.reason, by))
    return News(news=True)


@router.post("/{name}/discount")
async def discount(name: str, request: Request, said: DiscountBody) -> News:
    """Let evidence from before an entry count for less."""
    principal, desk = await enter(request, name, "operate")
    by = who(principal)

    def run(turn: Turn) -> None:
        operating.discount(turn, said.factor, said.since, said.gate, said.reason, by)

    await command(desk, run)
    return News(news=True)


@router.post(
    "/{name}/history",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                kind: {"schema": {"type": "string", "format": "binary"}} for kind in _SUFFIX
            },
        }
    },
)
async def history(
    name: str,
    request: Request,
    strict: bool = False,
    override: Annotated[str | None, Query(max_length=2_000)] = None,
) -> dict[str, Any]:
    """Certify a log of past decisions, and start from it as the certificate says.

    The body is the log, CSV or Parquet. It comes before the first decision. Where the certificate
    refuses the log nothing is learned, and the certificate is written down all the same; an
    override needs a reason.
    """
    principal, desk = await enter(request, name, "operate")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _SUFFIX:
        said = f"expected a body of type {' or '.join(_SUFFIX)}"
        raise BadRequest(said, 415, "unsupported_media_type")
    uploads = house_of(request).uploads
    with uploads.one(name):
        raw = await request.body()
        if not raw:
            raise InvalidInput("history: expected a log, got an empty body")
        how: dict[str, Any] = {"strict": strict, "override": override}
        async with uploads.free:
            return await run_in_threadpool(
                import_file, desk, raw, _SUFFIX[kind], who(principal), **how
            )


def import_file(desk: Desk, raw: bytes, suffix: str, by: str, **how: Any) -> dict[str, Any]:
    """Read a log that was uploaded, within the limits of uploads, and import it."""
    from gdcb.history.layout import layout_of

    desk.look(lambda live: operating.check_history(live, desk.policy)).result()
    declared = desk.look(lambda live: live.declared).result()
    columns = LogColumns.of(declared.columns)

    def choose(names: list[str]) -> Wanted:
        layout = layout_of(declared.instance, columns, names, f"history{suffix}")
        named = [column for column in (layout.unit, layout.reviewer) if column]
        return Wanted(layout.needed, rows_for(layout.width), named)

    return import_log(desk, read_upload(raw, suffix, choose), by, **how)


def import_log(
    desk: Desk, log: Any, by: str, *, strict: bool = False, override: str | None = None
) -> dict[str, Any]:
    """Certify a log and let a desk start from it; the long part runs outside of the desk."""
    from gdcb.history import certify, open_log

    declared = desk.look(lambda live: live.declared).result()
    source = open_log(log, declared.instance, declared.columns, strict=strict)
    settings: dict[str, Any] = {"level": 0.05, "margin": 0.1, "override": override}
    settings["matures_after"] = source.matures_after
    desk.look(lambda live: operating.check_history(live, desk.policy, source)).result()
    certificate = certify(source, declared.instance, declared.bandit, **settings)

    def foresee(live: Live) -> Any:
        check_same(live, declared.instance)
        return live.foresee_import(source, certificate, settings)

    def take(turn: Turn) -> bool:
        check_same(turn.live, declared.instance)
        return operating.take_history(turn, source, certificate, settings, by, foreseen)

    foreseen = desk.look(foresee).result()
    taken = desk.submit(take).result()
    return {"taken": taken, "certificate": certificate.as_json()}
