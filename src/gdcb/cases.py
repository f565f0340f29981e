"""One decision and what became of it: for people, and for the fold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, overload

import numpy as np

from gdcb import events as ev
from gdcb.arrays import Array
from gdcb.errors import Conflict
from gdcb.gates import Chain
from gdcb.records import PASSED, STATUS, Decision, Executed, Rows, Verdict


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


class Happened(Protocol):
    """Events in order, in a list or in a store."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[ev.Event]: ...

    @overload
    def __getitem__(self, at: int, /) -> ev.Event: ...

    @overload
    def __getitem__(self, at: slice, /) -> Sequence[ev.Event]: ...

    def append(self, event: ev.Event, /) -> None:
        """Add the next one."""


@dataclass(slots=True)
class Record:
    """What the fold remembers of a decision: the events about it, and its row in each.

    `is_asked` and `review` are about the verdict in force: whether a person was asked about it, and
    what they answered. A verdict that follows from the answer starts afresh. `answers` counts
    them; `judged_at`, `ran_at` and `seen_at` are the numbers of the events that brought verdict,
    execution and outcome.
    """

    made: ev.DecisionMade
    at: int
    place: int
    judged: tuple[ev.GateApplied, int] | None = None
    judged_at: int = -1
    answers: int = 0
    is_asked: bool = False
    review: ev.Reviewed | ev.Expired | None = None
    ran: tuple[ev.ActionExecuted, int] | None = None
    ran_at: int = -1
    seen: tuple[ev.OutcomeObserved, int] | None = None
    seen_at: int = -1
    outcome: list[float] | None = None
    label: list[float | None] | None = None
    appeal: ev.AppealDecided | None = None

    @property
    def id(self) -> str:
        """Its id."""
        return self.made.id[self.at]

    @property
    def unit(self) -> str:
        """Whose learner decided."""
        return self.made.unit[self.at]

    @property
    def rows(self) -> Rows:
        """Its context and unit, as a batch of one."""
        one = slice(self.at, self.at + 1)
        mask = None if self.made.mask is None else self.made.mask[one]
        return rows_of([self.place], self.made.x[one], mask)

    @property
    def entered(self) -> Array:
        """What entered the gates, (D,): the proposal, or the incumbent's action in its place."""
        instead = self.made.instead
        if instead is not None and np.isfinite(instead[self.at]).all():
            return np.asarray(instead[self.at])
        return np.asarray(self.made.action[self.at])

    @property
    def is_live(self) -> bool:
        """Whether the proposal entered the gates, and not the incumbent's action."""
        instead = self.made.instead
        return instead is None or not bool(np.isfinite(instead[self.at]).all())

    @property
    def verdict(self) -> Verdict | None:
        """What the gates last said, as a batch of one."""
        return None if self.judged is None else verdict_of(*self.judged)

    @property
    def reason(self) -> str:
        """Why it stands as it does."""
        return "" if self.judged is None else self.judged[0].reason[self.judged[1]]

    @property
    def status(self) -> str:
        """Its status as a word; 'open' before the gates have answered."""
        return "open" if self.judged is None else STATUS[self._code]

    @property
    def _code(self) -> int:
        event, at = self.judged or (None, 0)
        return PASSED if event is None else int(event.status[at])

    @property
    def executed(self) -> Array | None:
        """What ran, (D,); None where nothing did yet."""
        return None if self.ran is None else np.asarray(self.ran[0].action[self.ran[1]])

    @property
    def weight(self) -> float:
        """What its outcome counted when it came."""
        return 0.0 if self.seen is None else float(self.seen[0].weight[self.seen[1]])

    def check_held(self) -> None:
        """Refuse an answer to what waits for none."""
        if self.status != "held":
            raise Conflict(f"decision {self.id} is not held; it is {self.status}")
        if self.review is not None:
            raise Conflict(f"decision {self.id} has been answered already")

    def check_ran(self, what: str) -> None:
        """Refuse what only comes after something ran."""
        if self.ran is None:
            raise Conflict(f"{what}: decision {self.id} is {self.status} and has not run")

    def note(self, event: ev.Event, row: int, number: int) -> None:
        """Remember one event about this decision: its row there, and the event's number."""
        if isinstance(event, ev.GateApplied):
            self.judged, self.judged_at = (event, row), number
            self.is_asked, self.review = False, None
        elif isinstance(event, ev.ReviewRequested):
            self.is_asked = True
        elif isinstance(event, ev.Reviewed | ev.Expired):
            self.review, self.answers = event, self.answers + 1
        elif isinstance(event, ev.ActionExecuted):
            self.ran, self.ran_at = (event, row), number
        elif isinstance(event, ev.OutcomeObserved):
            self.seen, self.seen_at = (event, row), number
            self.outcome, self.label = event.outcome[row].tolist(), label_at(event, row)
        elif isinstance(event, ev.OutcomeCorrected):
            self.outcome = list(event.outcome)
        elif isinstance(event, ev.LabelObserved):
            self.label = event.label
        elif isinstance(event, ev.AppealDecided):
            self.appeal = event


class Records(dict[str, Record]):
    """All decisions by id, in memory; `requests` are the ids that were asked for together."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: dict[str, list[str]] = {}

    def add(self, event: ev.DecisionMade, places: Sequence[int]) -> None:
        """Remember decisions that were made."""
        for at, (id, batch) in enumerate(zip(event.id, event.batch, strict=True)):
            self[id] = Record(event, at, places[at])
            self.requests.setdefault(batch, []).append(id)

    def find(self, id: object) -> Record | None:
        """Return a decision; None where none of this id was made."""
        return self.get(id) if isinstance(id, str) else None

    def note(self, event: ev.Event, number: int) -> None:
        """Remember what an event says of the decisions that it is about."""
        for row, id in enumerate(about(event)):
            self[id].note(event, row, number)


def about(event: ev.Event) -> list[str]:
    """Return the ids of the decisions that an event is about, a row each."""
    id = getattr(event, "id", None)
    if id is None:
        return []
    return [id] if isinstance(id, str) else list(id)


def rows_of(places: Sequence[int], x: Array, mask: Array | None) -> Rows:
    """Return live rows: units by place, all of one group."""
    return Rows(np.array(places, dtype=np.int64), np.zeros(len(places), dtype=np.int64), x, mask)


def rows_at(records: Sequence[Record]) -> Rows:
    """Return contexts and units of several decisions as one batch, without their masks."""
    x = np.array([record.made.x[record.at] for record in records])
    return rows_of([record.place for record in records], x, None)


def made_event(
    decision: Decision,
    id: list[str],
    batch: list[str],
    row: Array,
    version: int,
    unit: list[str],
    rows: Rows,
    launched: tuple[Array | None, str, Array | None] = (None, "decision", None),
    by: list[str] | None = None,
    nonce: list[str] | None = None,
) -> ev.DecisionMade:
    """Write proposals down; `launched` is share, drawn_by and instead of `events.DecisionMade`."""
    share, drawn_by, instead = launched
    return ev.DecisionMade(
        id,
        batch,
        row,
        version,
        unit,
        rows.x,
        rows.mask,
        decision.arm.astype(np.int64, copy=False),
        decision.action,
        decision.delta,
        decision.version.astype(np.int64, copy=False),
        decision.worth,
        share,
        drawn_by,
        instead,
        by,
        nonce=nonce,
    )


def gate_event(id: list[str], verdict: Verdict, reason: list[str]) -> ev.GateApplied:
    """Write the verdicts on N decisions down."""
    return ev.GateApplied(
        id,
        verdict.status,
        verdict.action,
        verdict.trail,
        verdict.statuses,
        {f"{row} {gate}": text for (row, gate), text in verdict.faults.items()},
        reason,
    )


def verdict_of(event: ev.GateApplied, row: int) -> Verdict:
    """Read the verdict on one row back, as a batch of one."""
    one = slice(row, row + 1)
    found = Verdict(event.action[one], event.status[one], event.trail[one], event.statuses[one], {})
    if event.faults:
        found.faults.update(_faults(event, row))
    return found


def _faults(event: ev.GateApplied, row: int) -> dict[tuple[int, int], str]:
    at = [(key.split(" "), text) for key, text in event.faults.items()]
    return {(0, int(gate)): text for (of, gate), text in at if int(of) == row}


def whole_verdict(event: ev.GateApplied) -> Verdict:
    """Read all verdicts of an event back."""
    faults = {}
    for key, text in event.faults.items():
        row, gate = key.split(" ")
        faults[int(row), int(gate)] = text
    return Verdict(event.action, event.status, event.trail, event.statuses, faults)


def executed_of(chain: Chain, records: Sequence[Record]) -> Executed:
    """Return what ran of several decisions, and whose action it was.

    What was reported to have run in another way than it was let through is an override: whoever
    changed it may have known more.
    """
    ran, verdicts = [], []
    for record in records:
        verdict = record.verdict
        if record.ran is None or verdict is None:
            raise Conflict(f"outcome: decision {record.id} has not run")
        ran.append(record.ran)
        verdicts.append(verdict)
    verdict = Verdict.concatenate(verdicts)
    action = np.array([event.action[at] for event, at in ran])
    is_null = np.array([event.is_null[at] for event, at in ran], dtype=bool)
    is_told = np.array([event.is_told for event, _ in ran], dtype=bool)
    is_changed = is_told & ~is_null & (action != verdict.action).any(axis=1)
    is_live = np.array([record.is_live for record in records], dtype=bool)
    is_own = (verdict.status == PASSED) & is_live & ~is_null & ~is_changed
    return Executed(action, is_null, is_own, is_changed | (chain.overridden(verdict) & ~is_null))


def label_at(event: ev.OutcomeObserved, row: int) -> list[float | None] | None:
    """Return the labels that came with an outcome; None where there were none."""
    if event.label is None or np.isnan(event.label[row]).all():
        return None
    return [None if np.isnan(value) else float(value) for value in event.label[row]]
