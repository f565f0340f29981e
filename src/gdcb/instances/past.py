"""What happened before the first episode: an incumbent's proposals, through the same gate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.instance import Instance
from gdcb.parts import check_number
from gdcb.records import Decision, Executed, History, Log, Rows, Verdict
from gdcb.simulate import World
from gdcb.streams import ADVANCE, CONTEXT, DRAW, GATE, LABEL, OUTCOME, Stream, Streams

BEFORE = 2**40  # rounds of the past have numbers of their own, far from those of any run

# (stream, the world's state, rows) → (N, D) what was proposed before there was a bandit.
Incumbent = Callable[[Stream, Any, Rows], Array]


@dataclass(slots=True)
class Moment:
    """One round of the past: a row a unit; `keep` are those that the history has."""

    rows: Rows
    proposed: Array
    verdict: Verdict
    executed: Executed
    outcome: Array
    label: Array | None
    keep: Array


def generate(
    instance: Instance,
    world: World,
    state: Any,
    group: Array,
    streams: Streams,
    *,
    rows: int,
    incumbent: Incumbent,
    watch: Callable[[Moment], None] | None = None,
) -> History:
    """Draw `rows` rows of every replicate, dealt to its units in turn.

    The incumbent proposes, the gate answers, the world responds. The rows name no arm (the
    incumbent knew none) and no version of the scaler, so that credit goes by what ran alone. Where
    the scaler learns from labels, the rows have them. `watch` sees every round.
    """
    check_number("rows", rows, 1)
    units = int((group == group[0]).sum())
    place = np.arange(group.size) % units
    logs: list[Log] = []
    seen: list[Rows] = []
    verdicts: list[Verdict] = []
    labels: list[Array] = []
    for i in range(-(-rows // units)):
        t = BEFORE + i
        some = world.context(streams.at(CONTEXT, t), state, -1, group)
        proposed = incumbent(streams.at(DRAW, t), state, some)
        draws = instance.chain.draw(streams.at(GATE, t), some.n)
        verdict = instance.chain.apply(draws, proposed, some)
        executed = turn.execute(instance, verdict, some)
        outcome = world.sample(streams.at(OUTCOME, t), state, executed.action, some)
        none = np.full(some.n, -1)
        decision = Decision(none, proposed, proposed, none, proposed, proposed[:, None])
        log = turn.finished(instance, some, decision, executed, outcome)
        keep = np.flatnonzero(i * units + place < rows)
        logs.append(log.take(keep))
        seen.append(some.take(keep))
        verdicts.append(verdict.take(keep))
        label = None
        if instance.scaler.n_labels:
            label = world.label(streams.at(LABEL, t), state, executed.action, some)
        if label is not None:
            labels.append(label[keep])
        if watch is not None:
            watch(Moment(some, proposed, verdict, executed, outcome, label, keep))
        state = world.advance(streams.at(ADVANCE, t), state, executed.action, outcome, some)
    return History(
        Log.concatenate(logs),
        Rows.concatenate(seen),
        Verdict.concatenate(verdicts),
        label=np.concatenate(labels) if labels else None,
    )
