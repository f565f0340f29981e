"""Replay a chain: work out again all that was worked out, and say what comes out otherwise.

Decisions, verdicts, what ran, refits and imports are computed again on a fold that starts from the
declaration. What people said must have been possible when they said it. The fold takes what was
recorded, also after a difference, so that one does not hide another. Where a snapshot was stored,
what the fold knows is held against it.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gdcb import declaration
from gdcb import events as ev
from gdcb.agent import Agent
from gdcb.arrays import Array
from gdcb.cases import made_event, rows_of
from gdcb.codec import from_body, unpack
from gdcb.errors import BrokenChain, Conflict, GdcbError, InvalidInput
from gdcb.ledger.differing import TOLERANCE, Compared, compare, compare_arrays, refused
from gdcb.ledger.entry import Entry
from gdcb.ledger.live import follow
from gdcb.ledger.recalled import Recall, recall, snapshot_sizes
from gdcb.ledger.store import Snapshot, Store
from gdcb.records import Decision, Rows, flatten, from_bytes
from gdcb.replay import check_event

KEPT = 1_000
Progress = Callable[[int, int], None]
# What a fold raises where an event is not what it says: of a wrong kind, shape or order.
_BROKEN = (GdcbError, ValueError, TypeError, AttributeError, IndexError, KeyError)

_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, struct.error)


@dataclass(frozen=True, slots=True)
class StateCheck:
    """Say whether a stored snapshot is what the fold knows after as many entries.

    `verdict` is 'equal', 'to rounding' or 'differs', and 'of another version' where this one
    cannot read it: it is then worked out anew when somebody opens the chain. `odd` names what
    differs.
    """

    size: int
    verdict: str
    worst: float
    odd: list[str]


@dataclass(slots=True)
class ReplayReport:
    """Say what came out of a replay.

    Parameters
    ----------
    chain, tolerance : which chain, and how far numbers may be apart
    start, stop : entries that were worked out again, from the first to before the last
    based_on : entries behind the snapshot that was taken as said; 0: none was
    kinds : what became of the rows of each kind of event
    states : what became of the snapshots
    seconds : how long it took
    """

    chain: str
    tolerance: float
    start: int = 0
    stop: int = 0
    based_on: int = 0
    kinds: dict[str, Compared] = field(default_factory=dict)
    states: list[StateCheck] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def decisions(self) -> Compared:
        """What became of the decisions."""
        return self.kinds.get("DecisionMade", Compared())

    @property
    def rows(self) -> int:
        """Rows of all events: a decision that was made, judged and executed is three."""
        return sum(one.rows for one in self.kinds.values())

    @property
    def ok(self) -> bool:
        """Whether everything came out, to the bit or to rounding."""
        is_same = all(one.differ == 0 for one in self.kinds.values())
        return is_same and all(one.verdict != "differs" for one in self.states)

    @property
    def verdict(self) -> str:
        """'equal', 'to rounding' or 'differs'."""
        if not self.ok:
            return "differs"
        is_rounded = any(one.rounded for one in self.kinds.values())
        is_rounded |= any(one.verdict == "to rounding" for one in self.states)
        return "to rounding" if is_rounded else "equal"

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        found = [one for kind in self.kinds.values() for one in kind.found]
        return {
            "chain": self.chain,
            "verdict": self.verdict,
            "entries": {"from": self.start, "to": self.stop, "based_on": self.based_on},
            "decisions": self.decisions.as_json(),
            "kinds": {name: one.as_json() for name, one in sorted(self.kinds.items())},
            "differing": [one.as_json() for one in sorted(found, key=lambda one: one.seq)],
            "snapshots": [
                {"entries": s.size, "verdict": s.verdict, "worst": s.worst, "differing": s.odd}
                for s in self.states
            ],
            "worst": max([one.worst for one in self.kinds.values()], default=0.0),
            "tolerance": self.tolerance,
            "events": self.rows,
            "seconds": round(self.seconds, 3),
            "events_per_second": round(self.rows / self.seconds) if self.seconds else None,
        }


def replay_chain(
    store: Store,
    chain: str,
    start: int = 0,
    tolerance: float = TOLERANCE,
    progress: Progress | None = None,
) -> ReplayReport:
    """Work a chain out again, from its declaration or, with `start`, from a snapshot before it.

    Parameters
    ----------
    store, chain : where it is
    start : entries before this one are taken as said
    tolerance : numbers count as equal to rounding where they are no further apart, relative to the
        recorded one where that is above 1. A choice must then follow from the recorded worth
    progress : hears how many entries of how many are done

    Returns
    -------
    What came out; entries that cannot even be read are among what differs.
    """
    size = store.head(chain).size
    if not 0 <= start <= size:
        raise InvalidInput(f"from: expected an entry from 0 to {size}, got {start}")
    report = ReplayReport(chain, tolerance, start, size)
    begun = time.perf_counter()
    snapshot = store.snapshot(chain, start) if start else None
    live = recall(store, chain, snapshot)
    report.based_on = len(live.events)
    if start > len(live.events):
        follow(live, store.read(chain, len(live.events), start))
    replayer = _Replayer(live, report)
    sizes = [one for one in snapshot_sizes(store, chain, size) if one > start]
    for entry in store.read(chain, start, size):
        replayer.take(entry)
        done = entry.seq + 1
        if sizes and sizes[0] <= done:
            stored = store.snapshot(chain, sizes.pop(0))
            if stored is not None and stored.size == done:
                report.states.append(check_state(live, stored, entry.hash, tolerance))
        if progress is not None and done % 64 == 0:
            progress(done - start, size - start)
    report.seconds = time.perf_counter() - begun
    return report


class _Replayer:
    """Goes from entry to entry; `judged` are the verdicts whose consequences come next."""

    def __init__(self, live: Recall, report: ReplayReport) -> None:
        self.live, self.report = live, report
        self._ids: set[str] = set()
        self._made: tuple[ev.DecisionMade, Rows] | None = None
        self._judged: tuple[ev.GateApplied, Rows] | None = None

    def take(self, entry: Entry) -> None:
        """Compare one entry with what comes out, and fold it."""
        live = self.live
        if entry.seq != len(live.events):
            raise BrokenChain(
                f"entry {entry.seq} came where {len(live.events)} was expected; "
                "`gdcb ledger verify` says what was done to the chain"
            )
        event: ev.Event | None = None
        try:
            event = from_body(entry.kind, entry.body)
            found = self._compared(entry.seq, event)
        except _BROKEN as error:
            found = refused(entry.seq, event, entry.kind, _said(error))
        try:
            if event is None:
                live.skip()
            else:
                live.take(event, entry.at, entry.by)
        except _BROKEN as error:
            if found.differ == 0:
                found = refused(entry.seq, event, entry.kind, _said(error))
            if len(live.events) == entry.seq:
                live.skip()
        kept = sum(len(one.found) for one in self.report.kinds.values())
        counts = self.report.kinds.setdefault(entry.kind, Compared())
        counts.add(found, max(KEPT - kept, 0) + len(counts.found))

    def _compared(self, seq: int, event: ev.Event) -> Compared:
        live, tolerance = self.live, self.report.tolerance
        again: ev.Event = event
        if isinstance(event, ev.DecisionMade):
            again = self._decided(event)
        elif isinstance(event, ev.GateApplied):
            again = self._gated(event)
        elif isinstance(event, ev.ActionExecuted | ev.ReviewRequested):
            followed = self._followed(event)
            if followed is None:
                check_event(live, event)
            else:
                again = followed
        elif isinstance(event, ev.Shown):
            return Compared(1)  # a look teaches nobody, and changes nothing
        elif isinstance(event, ev.ScalerFitted):
            live.check_owners(event.owners)
            again = live.fitted(event.owners)
        elif isinstance(event, ev.HistoryImported):
            again = live.imported(event)
        elif isinstance(event, ev.InstanceChanged):
            again = replace(event, fingerprint=_fingerprint(live, event), seed=live.seed)
        elif not isinstance(event, ev.OutcomeObserved) or not self._is_sound(event):
            check_event(live, event)
        if not isinstance(event, ev.DecisionMade | ev.GateApplied | ev.ActionExecuted):
            self._judged = None
        return compare(seq, event, again, tolerance)

    def _is_sound(self, event: ev.OutcomeObserved) -> bool:
        """Whether all outcomes could be observed; where not, each is checked for what is wrong."""
        live, n = self.live, len(event.id)
        records = [live.records.find(id) for id in event.id]
        is_due = all(
            one is not None and one.ran is not None and one.seen is None for one in records
        )
        is_plain = event.label is None and event.outcome.dtype == np.float64
        if not is_due or not is_plain or len(set(event.id)) < n:
            return False
        if event.outcome.shape != (n, len(live.instance.reward.outcome)) or event.weight.shape != (
            n,
        ):
            return False
        if not (np.isfinite(event.weight) & (event.weight >= 0)).all():
            return False
        live.instance.reward.check(event.outcome)
        return True

    # Decisions

    def _decided(self, made: ev.DecisionMade) -> ev.DecisionMade:
        """Decide again on the state as it is; refuse a second decision of the same id."""
        live = self.live
        self._check_new(made)
        if made.version != len(live.events):
            raise Conflict(f"decided on version {made.version} of the state, at {len(live.events)}")
        rows = rows_of(live.places(made.unit), made.x, made.mask)
        live.instance.check_rows(rows, int(rows.unit.max()) + 1)
        keys = list(zip(made.batch, made.row.tolist(), strict=True))
        decision = live.propose(keys, rows)
        self._made, self._judged = (made, rows), None
        if (made.share is None) != (made.instead is None):
            raise Conflict("a share without the incumbent's action, or the other way round")
        launched = (made.share, made.drawn_by, made.instead)
        if made.share is not None and made.instead is not None:
            is_live = live.is_live(keys, made.unit, made.share, made.drawn_by)
            if ((np.isnan(made.instead).any(axis=1)) != is_live).any():
                raise Conflict("the incumbent's action entered the gates where it was not drawn")
        decision = chosen(made, decision, self.report.tolerance)
        ids, batch, units = made.id, made.batch, made.unit
        return made_event(
            decision, ids, batch, made.row, made.version, units, rows, launched, made.by
        )

    def _check_new(self, made: ev.DecisionMade) -> None:
        before = len(self._ids)
        twice = self._ids.intersection(made.id)
        self._ids.update(made.id)
        if twice or len(self._ids) < before + len(made.id):
            raise Conflict(f"decision {min(twice or made.id)} was made twice")
        if self.report.start:
            known = self.live.store.places(self.live.chain, list(dict.fromkeys(made.batch)))
            old = [name for name, place in known.items() if place.seq < len(self.live.events)]
            if old:
                raise Conflict(f"request {old[0]} was decided twice")

    # Verdicts, and what they lead to

    def _gated(self, event: ev.GateApplied) -> ev.GateApplied:
        """Ask the gates again: all of them, or those behind the one that held the decision."""
        live = self.live
        made, self._made = self._made, None
        if made is not None and made[0].id == event.id:
            self._judged = (event, made[1])
            return live.gated(*made)
        if len(event.id) != 1:
            raise Conflict("decisions that were not made together were judged together")
        record = live.records[event.id[0]]
        self._judged = (event, record.rows)
        if record.judged is None or record.review is None:
            raise Conflict(f"decision {record.id} was judged twice, or without those beside it")
        return live.answered(record, record.review)

    def _followed(
        self, event: ev.ActionExecuted | ev.ReviewRequested
    ) -> ev.ActionExecuted | ev.ReviewRequested | None:
        """Work out what the verdicts just before led to; None: it is about others."""
        if self._judged is None:
            return None
        judged, rows = self._judged
        if isinstance(event, ev.ReviewRequested):
            return self.live.requested(judged)
        if event.is_told:
            return None
        again = self.live.released(judged, rows)
        if again is None or again.id == event.id:
            return again
        return self.live.released(judged, rows, only_null=True)


def chosen(made: ev.DecisionMade, decision: Decision, tolerance: float) -> Decision:
    """Return the decision with the recorded choice where only rounding speaks against it.

    Another processor may draw values that differ in the last digits, and where two arms are worth
    the same to within these, the other one wins. What was recorded holds where it follows from the
    recorded worth, and that worth is what comes out, to rounding.
    """
    if made.arm.shape != decision.arm.shape or made.worth.shape != decision.worth.shape:
        return decision
    at = np.arange(made.arm.size)
    is_other = made.arm != decision.arm
    if not is_other.any() or decision.actions is None:
        return decision
    with np.errstate(invalid="ignore"):
        apart = np.abs(made.worth - decision.worth) / np.maximum(np.abs(made.worth), 1.0)
    is_near = ((apart <= tolerance) | (made.worth == decision.worth)).all(axis=1)
    is_known = (made.arm >= 0) & (made.arm < made.worth.shape[1])
    arm = np.where(is_known, made.arm, 0)
    is_best = made.worth[at, arm] == made.worth.max(axis=1)
    is_rounded = (made.worth != decision.worth).any(axis=1)
    holds = is_other & is_near & is_known & is_best & is_rounded
    arms = np.where(holds, made.arm, decision.arm)
    return replace(decision, arm=arms, action=decision.actions[at, arms])


def check_state(live: Recall, stored: Snapshot, hash: bytes, tolerance: float) -> StateCheck:
    """Hold a stored snapshot against what the fold knows."""
    size, ours = stored.size, live.to_snapshot(hash)
    if stored.hash != hash:
        return StateCheck(size, "differs", 0.0, ["hash"])
    if stored.body == ours.body:
        return StateCheck(size, "equal", 0.0, [])
    if _format(stored) != _format(ours):
        return StateCheck(size, "of another version", 0.0, [])
    try:
        old, new = _known(live, stored), _known(live, ours)
    except _BROKEN as error:
        return StateCheck(size, "differs", 0.0, [_said(error)])
    names = sorted(old[1].keys() | new[1].keys())
    odd = [name for name in names if old[1].get(name) != new[1].get(name)]
    is_equal, worst, arrays = compare_arrays(old[0], new[0], tolerance)
    if odd or arrays:
        return StateCheck(size, "differs", worst, odd + arrays)
    return StateCheck(size, "equal" if is_equal else "to rounding", worst, [])


def _format(snapshot: Snapshot) -> Any:
    try:
        return unpack(snapshot.body)["format"]
    except _UNREADABLE:
        return None


def _known(live: Recall, snapshot: Snapshot) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the arrays of a snapshot by name, and what else it says."""
    found = unpack(snapshot.body)
    state = from_bytes(found.pop("state").tobytes(), live.state)
    arrays = {f"state.{name}": array for name, array in flatten(state).items()}
    arrays |= {name: value for name, value in found.items() if isinstance(value, np.ndarray)}
    return arrays, {name: value for name, value in found.items() if name not in arrays}


def _fingerprint(live: Recall, event: ev.InstanceChanged) -> str:
    declared = declaration.parse(event.declaration)
    return Agent(declared.instance, declared.bandit, live.seed).fingerprint()


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
