"""One decision and what became of it: for people, and for the fold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb import events as ev
from gdcb.arrays import Array
from gdcb.errors import Conflict
from gdcb.records import STATUS, Decision, Executed, Rows, Verdict


@dataclass(slots=True)
class Case:
    """One decision and what became of it, as people read it.

    Parameters
    ----------
    id, unit : decision id, and whose learner decided
    arm, proposed : name of the proposed arm, and the composed action by name
    status : passed, modified, vetoed, held or expired
    executed : what ran, None while held or where nothing runs
    reason : why, in a sentence
    outcome : what came of it, None before it is known
    appeal : how an appeal against it ended (upheld, by, reason), None where there was none
    """

    id: str
    unit: str
    arm: str
    proposed: dict[str, Any] | None
    status: str
    executed: dict[str, Any] | None
    reason: str
    outcome: dict[str, float] | None
    appeal: dict[str, Any] | None = None


@dataclass(slots=True)
class Record:
    """What the fold remembers of a decision.

    `is_asked` and `review` are about the verdict in force: whether a person was asked about it, and
    what they answered. A verdict that follows from the answer starts afresh. `share` is how much of
    its outcome's weight still counts.
    """

    made: ev.DecisionMade
    rows: Rows
    verdict: Verdict | None = None
    reason: str = ""
    review: ev.Reviewed | ev.Expired | None = None
    is_asked: bool = False
    executed: Executed | None = None
    outcome: ev.OutcomeObserved | None = None
    label: list[float | None] | None = None
    appeal: ev.AppealDecided | None = None
    share: float = 1.0

    @property
    def status(self) -> str:
        """Return its status as a word; 'open' before the gates have answered."""
        return "open" if self.verdict is None else STATUS[int(self.verdict.status[0])]

    def check_held(self) -> None:
        """Refuse an answer to what waits for none."""
        if self.status != "held":
            raise Conflict(f"decision {self.made.id} is not held; it is {self.status}")
        if self.review is not None:
            raise Conflict(f"decision {self.made.id} has been answered already")

    def check_ran(self, what: str) -> None:
        """Refuse what only comes after something ran."""
        if self.executed is None:
            raise Conflict(f"{what}: decision {self.made.id} is {self.status} and has not run")


def rows_of(places: list[int], x: Array, mask: Array | None) -> Rows:
    """Return live rows: units by place, all of one group."""
    return Rows(np.array(places, dtype=np.int64), np.zeros(len(places), dtype=np.int64), x, mask)


def made_event(
    decision: Decision, i: int, id: str, batch: str, version: int, unit: str, rows: Rows
) -> ev.DecisionMade:
    """Write row i of a decision down."""
    return ev.DecisionMade(
        id,
        batch,
        i,
        version,
        unit,
        rows.x[i].tolist(),
        None if rows.mask is None else rows.mask[i].tolist(),
        int(decision.arm[i]),
        ev.listed(decision.action[i]),
        [ev.listed(row) for row in decision.delta[i]],
        int(decision.version[i]),
        ev.listed(decision.worth[i]),
    )


def gate_event(id: str, verdict: Verdict, reason: str) -> ev.GateApplied:
    """Write the verdict on one decision (N = 1) down."""
    return ev.GateApplied(
        id,
        STATUS[int(verdict.status[0])],
        ev.listed(verdict.action[0]),
        [ev.listed(step) for step in verdict.trail[0]],
        verdict.statuses[0].tolist(),
        {str(gate): text for (_, gate), text in verdict.faults.items()},
        reason,
    )


def verdict_of(event: ev.GateApplied) -> Verdict:
    """Read a verdict back."""
    return Verdict(
        np.array([ev.numbers(event.action)]),
        np.array([STATUS.index(event.status)], dtype=np.int8),
        np.array([[ev.numbers(step) for step in event.trail]]),
        np.array([event.statuses], dtype=np.int8).reshape(1, -1),
        {(0, int(gate)): text for gate, text in event.faults.items()},
    )


def row_of(verdict: Verdict, i: int) -> Verdict:
    """Return the verdict on row i alone."""
    one = slice(i, i + 1)
    return Verdict(
        verdict.action[one],
        verdict.status[one],
        verdict.trail[one],
        verdict.statuses[one],
        {(0, gate): text for (row, gate), text in verdict.faults.items() if row == i},
    )
