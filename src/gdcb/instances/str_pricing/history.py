"""The nights of an incumbent operator, through the same gate: what was before the first episode."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.instance import Instance
from gdcb.instances.str_pricing.manager import incumbent
from gdcb.parts import check_number
from gdcb.records import Decision, History, Log, Rows, Verdict
from gdcb.simulate import World
from gdcb.streams import CONTEXT, DRAW, GATE, OUTCOME, Streams

NIGHTS = 1461
BEFORE = 2**40  # rounds of the past have numbers of their own, far from those of any run


def generate(
    instance: Instance,
    world: World,
    listings: Any,
    group: Array,
    streams: Streams,
    nights: int = NIGHTS,
) -> History:
    """Draw `nights` listing-nights of every replicate, dealt to its listings in turn.

    The incumbent proposes, the manager and the bounds answer, guests book or do not. The rows
    name no arm (the incumbent knew none) and no version of the scaler, so that credit goes by the
    executed price alone.
    """
    check_number("nights", nights, 1)
    units = int((group == group[0]).sum())
    place = np.arange(group.size) % units
    logs: list[Log] = []
    seen: list[Rows] = []
    verdicts: list[Verdict] = []
    for i in range(-(-nights // units)):
        t = BEFORE + i
        rows = world.context(streams.at(CONTEXT, t), listings, -1, group)
        proposed = incumbent(streams.at(DRAW, t), listings, rows)
        draws = instance.chain.draw(streams.at(GATE, t), rows.n)
        verdict = instance.chain.apply(draws, proposed, rows)
        executed = turn.execute(instance, verdict, rows)
        outcome = world.sample(streams.at(OUTCOME, t), listings, executed.action, rows)
        none = np.full(rows.n, -1)
        decision = Decision(none, proposed, proposed, none, proposed, proposed[:, None])
        log = turn.finished(instance, rows, decision, executed, outcome)
        keep = np.flatnonzero(i * units + place < nights)
        logs.append(log.take(keep))
        seen.append(rows.take(keep))
        verdicts.append(verdict.take(keep))
    return History(Log.concatenate(logs), Rows.concatenate(seen), Verdict.concatenate(verdicts))
