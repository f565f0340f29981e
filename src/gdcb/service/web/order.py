"""The order of the queue: all that waits is sorted on cheap keys, only what is shown is built.

A look at the fold runs in the desk's one thread, where decisions are made too. So a page asks the
desk for a copy of the list, sorts it elsewhere, and asks in small portions for what a key needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from gdcb.instance import Instance
from gdcb.ledger.live import Live
from gdcb.ledger.live import Waiting as Hold
from gdcb.service.claims import Claim
from gdcb.service.desk import Desk
from gdcb.service.pages.views.decision import Waiting
from gdcb.service.pages.views.queue import QueueFilters
from gdcb.service.routing import house_of, look
from gdcb.service.web import build
from gdcb.service.who import is_same

# Decisions that one look goes through: some ten milliseconds where each must be fetched.
PORTION = 100


@dataclass(slots=True)
class Risks:
    """How far out proposals are that wait, worked out once for each verdict on them."""

    _of: Instance | None = None
    _known: dict[str, tuple[int, float]] = field(default_factory=dict)

    def of(self, hold: Hold) -> float | None:
        """Return the risk of a held decision; None where it was not worked out."""
        number, risk = self._known.get(hold.id, (-1, 0.0))
        return risk if number == hold.number else None

    def learn(self, live: Live, holds: Sequence[Hold]) -> None:
        """Work out the risk of some, in the desk's thread; what waits no more is forgotten."""
        if live.instance is not self._of:
            self._of, self._known = live.instance, {}
        if len(self._known) > 2 * len(live.waiting) + 1_000:
            self._known = {id: said for id, said in self._known.items() if id in live.waiting}
        for hold in holds:
            if hold.id in live.waiting:
                risk = build.risk_of(live.instance, live.records[hold.id])
                self._known[hold.id] = (hold.number, risk)


@dataclass(frozen=True, slots=True)
class Look:
    """Who looks at the queue, for what.

    Parameters
    ----------
    by : who looks
    leases : who has claimed what
    filters : what is left out
    since : only what is held since this entry
    """

    by: str
    leases: Mapping[str, Claim]
    filters: QueueFilters = field(default_factory=QueueFilters)
    since: int = 0

    def claimed(self, id: str) -> str:
        """Return who has a decision: 'free', 'mine' or 'others'."""
        lease = self.leases.get(id)
        if lease is None:
            return "free"
        return "mine" if is_same(lease.by, self.by) else "others"

    def some(self, holds: Sequence[Hold]) -> list[Hold]:
        """Return those that the filters let through, but for the text."""
        asked = self.filters
        return [
            one
            for one in holds
            if one.number >= self.since
            and asked.rule in ("", one.gate)
            and asked.unit in ("", one.unit)
            and (not asked.claimed or asked.claimed == self.claimed(one.id))
        ]


@dataclass(frozen=True, slots=True)
class Line:
    """What waits, as it was after `version` entries: all of it, and what was asked for."""

    every: list[Hold]
    some: list[Hold]
    version: int


def risks_of(request: Request, desk: Desk) -> Risks:
    """Return what is known of the risks of an instance's held decisions."""
    kept: dict[str, Risks] = request.app.state.__dict__.setdefault("risks", {})
    return kept.setdefault(desk.chain, Risks())


async def look_of(
    request: Request, name: str, by: str, filters: QueueFilters | None = None, since: int = 0
) -> Look:
    """Return a look at the queue by somebody, with the leases that run now."""
    leases = await run_in_threadpool(house_of(request).claims.of, name)
    return Look(by, leases, filters or QueueFilters(), since)


async def asked(desk: Desk, wanted: Look) -> Line:
    """Return what waits and was asked for, in the order in which it was held."""
    every, version = await look(desk, lambda live: (list(live.waiting.values()), len(live.events)))
    some = await run_in_threadpool(wanted.some, every)
    if wanted.filters.text:
        some = await _worded(desk, some, wanted.filters.text.lower())
    return Line(every, some, version)


async def _worded(desk: Desk, holds: Sequence[Hold], words: str) -> list[Hold]:
    """Return those that have the words in id, unit, rule, or what the rule says."""
    found: list[Hold] = []
    for part in _portions(holds):
        found += await look(desk, partial(_saying, holds=part, words=words))
    return found


def _saying(live: Live, holds: Sequence[Hold], words: str) -> list[Hold]:
    found = []
    for one in holds:
        if one.id in live.waiting:
            text = f"{one.id} {one.unit} {one.gate} {live.records[one.id].reason}"
            found += [one] if words in text.lower() else []
    return found


async def in_order(desk: Desk, risks: Risks, holds: Sequence[Hold]) -> list[Hold]:
    """Return held decisions by deadline, then by risk, then by age.

    The deadline is a policy of the instance: whoever was held first has the first. The risk is
    worked out only where deadlines are equal, as those of a batch are.
    """
    is_endless = desk.policy.expiry.then == "wait"
    for part in _portions(await run_in_threadpool(_open, risks, holds, is_endless)):
        await look(desk, partial(risks.learn, holds=part))

    def key(one: Hold) -> tuple[int, float, int, str]:
        return (0 if is_endless else one.since, -(risks.of(one) or 0.0), one.since, one.id)

    return await run_in_threadpool(lambda: sorted(holds, key=key))


def _open(risks: Risks, holds: Sequence[Hold], is_endless: bool) -> list[Hold]:
    """Return those whose place takes their risk, which is not known yet."""
    if is_endless:
        tied = holds if len(holds) > 1 else []
    else:
        n = Counter(one.since for one in holds)
        tied = [one for one in holds if n[one.since] > 1]
    return [one for one in tied if risks.of(one) is None]


def _portions(holds: Sequence[Hold]) -> Iterator[Sequence[Hold]]:
    for first in range(0, len(holds), PORTION):
        yield holds[first : first + PORTION]


async def built(desk: Desk, holds: Sequence[Hold], wanted: Look) -> tuple[Waiting, ...]:
    """Return those that still wait as the queue shows them."""

    def read(live: Live) -> tuple[Waiting, ...]:
        return tuple(row_of(live, desk, one.id, wanted) for one in holds if one.id in live.waiting)

    return await look(desk, read)


def row_of(live: Live, desk: Desk, id: str, wanted: Look) -> Waiting:
    """Return one held decision as the queue shows it."""
    return build.waiting_of(live, desk.policy, live.records[id], wanted.leases.get(id), wanted.by)


async def answerable(desk: Desk, risks: Risks, wanted: Look) -> str:
    """Return the first decision that who looks may answer; empty where there is none.

    Left out is what others have claimed, and what was asked for by who looks.
    """
    line = await asked(desk, wanted)
    free = [one for one in line.some if wanted.claimed(one.id) != "others"]
    first = (await in_order(desk, risks, free))[:PORTION]

    def read(live: Live) -> str:
        for one in first:
            is_there = one.id in live.waiting
            if is_there and not build.is_asked_by(live.records[one.id], wanted.by):
                return one.id
        return ""

    return await look(desk, read)
