"""Review held decisions, and report what ran and what came of it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool

from gdcb.cases import Record
from gdcb.service import answering, observing
from gdcb.service.answering import Review, written
from gdcb.service.api.decisions import as_now
from gdcb.service.models import (
    AppealBody,
    DecisionNow,
    ExecutedBody,
    ManyNews,
    ManyOutcomes,
    ManyReviews,
    News,
    OutcomeBody,
    ReviewBody,
)
from gdcb.service.observing import Outcome
from gdcb.service.routing import StrictRoute, command, enter, house_of
from gdcb.service.turn import Turn
from gdcb.service.who import written as who

router = APIRouter(prefix="/v1/instances/{name}", route_class=StrictRoute, tags=["answers"])


@router.post("/decisions/{id}/review", response_model=DecisionNow)
async def review(name: str, id: str, request: Request, said: ReviewBody) -> Any:
    """Approve, edit or veto a held decision, bound to the version and content that were seen.

    Exactly one answer counts; whoever comes later is told who decided what, and when.
    """
    principal, desk = await enter(request, name, "approve")
    by = who(principal)
    await run_in_threadpool(house_of(request).claims.check, name, [id], by)
    answer = Review(
        id, said.verdict, said.action, by, said.code, said.reason, said.version, said.content
    )

    def run(turn: Turn) -> dict[str, Any]:
        answering.review(turn, answer)
        return as_now(turn.live, turn.policy, id)

    return await command(desk, run)


@router.post("/reviews", response_model=list[DecisionNow])
async def review_many(name: str, request: Request, said: ManyReviews) -> Any:
    """Give one answer to several decisions that the same rule holds: all of them, or none."""
    principal, desk = await enter(request, name, "approve")
    by = who(principal)
    ids = [one.id for one in said.decisions]
    await run_in_threadpool(house_of(request).claims.check, name, ids, by)
    answers = [
        Review(one.id, said.verdict, None, by, said.code, said.reason, one.version, one.content)
        for one in said.decisions
    ]

    def run(turn: Turn) -> list[dict[str, Any]]:
        answering.bulk(turn, answers)
        return [as_now(turn.live, turn.policy, id) for id in ids]

    return await command(desk, run)


@router.post("/decisions/{id}/claim")
async def claim(name: str, id: str, request: Request) -> dict[str, str]:
    """Take a held decision to look at; others' answers are refused until the lease is over."""
    principal, desk = await enter(request, name, "approve")
    by = who(principal)
    await command(desk, lambda turn: _check_held(turn, id))
    lease = desk.policy.lease
    made = await run_in_threadpool(house_of(request).claims.claim, name, id, by, lease)
    return {"id": id, "until": written(made.until)}


def _check_held(turn: Turn, id: str) -> None:
    answering.check_waiting(turn.live, answering.find(turn.live, id))


@router.post("/decisions/{id}/release")
async def release(name: str, id: str, request: Request) -> News:
    """Give a decision back that one had claimed."""
    principal, _ = await enter(request, name, "approve")
    claims = house_of(request).claims
    return News(news=await run_in_threadpool(claims.release, name, id, who(principal)))


@router.post("/decisions/{id}/executed", response_model=News)
async def executed(name: str, id: str, request: Request, said: ExecutedBody) -> Any:
    """Report what really ran, which may differ from what was let through; once a decision."""
    principal, desk = await enter(request, name, "outcome", kind="decide")
    by = who(principal)

    def run(turn: Turn) -> tuple[Record, bool]:
        return observing.execute(turn, id, said.action, by)

    return {"news": (await command(desk, run))[1]}


@router.post("/decisions/{id}/outcome", response_model=News)
async def outcome(name: str, id: str, request: Request, said: OutcomeBody) -> Any:
    """Report what came of a decision, whenever it is known; again, as the policy says."""
    principal, desk = await enter(request, name, "outcome", kind="decide")
    by, given = who(principal), _outcome(id, said)
    return {"news": (await command(desk, lambda turn: observing.observe(turn, [given], by)))[0]}


@router.post("/outcomes", response_model=ManyNews)
async def outcomes(name: str, request: Request, said: ManyOutcomes) -> Any:
    """Report what came of several decisions: all are taken, or none."""
    n = len(said.outcomes)
    principal, desk = await enter(request, name, "outcome", kind="decide", n=n)
    by, given = who(principal), [_outcome(one.id, one) for one in said.outcomes]
    return {"news": await command(desk, lambda turn: observing.observe(turn, given, by))}


def _outcome(id: str, said: OutcomeBody) -> Outcome:
    return Outcome(id, said.outcome, said.label, said.weight, said.reason)


@router.post("/decisions/{id}/appeal", response_model=News)
async def appeal(name: str, id: str, request: Request, said: AppealBody) -> Any:
    """Write down how an appeal against an executed decision ended; nothing is learned from it."""
    principal, desk = await enter(request, name, "approve")
    by = who(principal)

    def run(turn: Turn) -> tuple[Record, bool]:
        return observing.appeal(turn, id, said.upheld, said.reason, by)

    return {"news": (await command(desk, run))[1]}
