"""Replay a chain: work out again all that was worked out, and say what comes out otherwise.

Decisions, verdicts, what ran, refits and imports are computed again on a fold that starts from the
declaration. What people said must have been possible when they said it, which
`gdcb.ledger.possible` asks. The fold takes what was recorded, also after a difference, so that one
does not hide another. Where a snapshot was stored, what the fold knows is held against it.

What was erased cannot be worked out again, nor can what was decided on a state that it taught, up
to the next state that was sealed. Both are counted, and neither is a difference.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gdcb import declaration
from gdcb import events as ev
from gdcb.agent import Agent
from gdcb.cases import about, made_event, rows_of
from gdcb.errors import BrokenChain, Conflict, GdcbError, InvalidInput
from gdcb.ledger.differing import TOLERANCE, Compared, compare, refused, with_rows
from gdcb.ledger.entry import Entry
from gdcb.ledger.live import follow
from gdcb.ledger.possible import Possible
from gdcb.ledger.recalled import Recall, recall, snapshot_sizes
from gdcb.ledger.replay_report import ReplayReport, check_snapshot, check_state
from gdcb.ledger.store import Snapshot, Store
from gdcb.outlook import keys_of
from gdcb.records import Decision, Rows
from gdcb.replay import check_event

KEPT = 1_000
Progress = Callable[[int, int], None]
# What a fold raises where an event is not what it says: of a wrong kind, shape or order.
_BROKEN = (GdcbError, ValueError, TypeError, AttributeError, IndexError, KeyError)


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
    live = recall(store, chain, start)
    report.based_on = len(live.events)
    if start > len(live.events):
        follow(live, store.read(chain, len(live.events), start))
    replayer = _Replayer(live, report)
    if start:
        (entry,) = store.get(chain, [start - 1])
        before = live.event_of(entry)
        if isinstance(before, ev.DecisionMade):
            replayer.follow(before)
    sizes = [one for one in snapshot_sizes(store, chain, size) if one > start]
    for entry in store.read(chain, start, size):
        replayer.take(entry)
        done = entry.seq + 1
        if sizes and sizes[0] <= done:
            stored = store.snapshot(chain, sizes.pop(0))
            if stored is not None and stored.size == done:
                found = check_snapshot(live, stored, entry.hash, tolerance)
                report.states += [] if found is None else [found]
        if progress is not None and done % 64 == 0:
            progress(done - start, size - start)
    report.seconds = time.perf_counter() - begun
    return report


class _Replayer:
    """Goes from entry to entry; `judged` are the verdicts whose consequences come next."""

    def __init__(self, live: Recall, report: ReplayReport) -> None:
        self.live, self.report = live, report
        self._possible = Possible(live)
        self._ids: set[str] = set()
        self._made: tuple[ev.DecisionMade, Rows] | None = None
        self._gone: set[str] = set()
        self._judged: tuple[ev.GateApplied, Rows] | None = None

    def take(self, entry: Entry) -> None:
        """Compare one entry with what comes out, and fold it."""
        live = self.live
        if entry.seq != len(live.events):
            raise BrokenChain(
                f"entry {entry.seq} came where {len(live.events)} was expected; "
                "`gdcb ledger verify` says what was done to the chain"
            )
        if entry.kind == "Shown":  # a look teaches nobody, and changes nothing
            self._judged = None
            self._count("Shown", Compared(1))
            live.pass_over(entry.at, entry.by)
            return
        event: ev.Event | None = None
        try:
            event = live.event_of(entry)
            found = self._compared(entry.seq, event)
            if isinstance(event, ev.StateSealed):
                self._check_sealed(entry, event)
        except _BROKEN as error:
            found = refused(entry.seq, event, entry.kind, _said(error))
        try:
            if event is not None:
                self._possible.check(event, entry.at, entry.by)
        except _BROKEN as error:
            found.refuse(refused(entry.seq, event, entry.kind, _said(error)))
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
        self._count(entry.kind, found)

    def _count(self, kind: str, found: Compared) -> None:
        counts = self.report.kinds.setdefault(kind, Compared())
        room = 0
        if found.found:
            kept = sum(len(one.found) for one in self.report.kinds.values())
            room = max(KEPT - kept, 0)
        counts.add(found, room + len(counts.found))

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
        elif isinstance(event, ev.ScalerFitted):
            live.check_owners(event.owners)
            again = event if live.is_lossy else live.fitted(event.owners)
        elif isinstance(event, ev.HistoryImported):
            again = live.imported(event)
        elif isinstance(event, ev.InstanceChanged):
            again = replace(event, fingerprint=_fingerprint(live, event), seed=live.seed)
        elif not isinstance(event, ev.OutcomeObserved) or not self._is_sound(event):
            check_event(live, event)
        if not isinstance(event, ev.DecisionMade | ev.GateApplied | ev.ActionExecuted):
            self._judged = None
        if self._gone:
            again = with_rows(again, event, self._gone)
        found = compare(seq, event, again, tolerance)
        found.rows = max(found.rows - self._skipped(event, again), found.differ)
        return found

    def _skipped(self, event: ev.Event, again: ev.Event) -> int:
        """Return how many rows could not be worked out again, for what was erased."""
        if isinstance(event, ev.DecisionMade) and again is event:
            return len(event.id)
        is_worked_out = isinstance(event, ev.DecisionMade | ev.GateApplied | ev.ActionExecuted)
        return len(self._gone.intersection(about(event))) if is_worked_out and self._gone else 0

    def _check_sealed(self, entry: Entry, event: ev.StateSealed) -> None:
        """Hold a sealed state against what the fold knows; where that is lossy, take it as said."""
        live = self.live
        data = live.sealer.unboxed(base64.b64decode(event.state))
        if data is None:
            return  # its key was replaced by a later erasure
        if live.is_lossy:
            self.report.seals.append(entry.seq)
            return
        stored = Snapshot(live.chain, entry.seq, entry.prev, data)
        found = check_state(live, stored, self.report.tolerance)
        self.report.states.append(found)

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
        shapes = (event.outcome.shape, event.weight.shape)
        if shapes != ((n, len(live.instance.reward.outcome)), (n,)):
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
        rows = self.follow(made)
        is_gone = np.array([id in self._gone for id in made.id], dtype=bool)
        self.report.erased += len(self._gone)
        if is_gone.all() or live.is_lossy:
            self.report.unknown += int((~is_gone).sum())
            return made
        live.instance.check_rows(rows, int(rows.unit.max()) + 1)
        keys = keys_of(made)
        decision = live.propose(keys, rows)
        if (made.share is None) != (made.instead is None):
            raise Conflict("a share without the incumbent's action, or the other way round")
        launched = (made.share, made.drawn_by, made.instead)
        if made.share is not None and made.instead is not None:
            is_live = live.is_live(keys, made.unit, made.share, made.drawn_by, made.nonce)
            if ((np.isnan(made.instead).any(axis=1)) != is_live).any():
                raise Conflict("the incumbent's action entered the gates where it was not drawn")
        decision = chosen(made, decision, self.report.tolerance)
        ids, batch, units = made.id, made.batch, made.unit
        again = made_event(
            decision, ids, batch, made.row, made.version, units, rows, launched, made.by, made.nonce
        )
        return again if made.key is None else replace(again, sealed=made.sealed, key=made.key)

    def follow(self, made: ev.DecisionMade) -> Rows:
        """Expect what comes right behind decisions; return their rows as far as they are known."""
        is_gone = ~np.isfinite(made.x).all(axis=1)
        self._gone = {made.id[i] for i in np.flatnonzero(is_gone)}
        # Rows do not depend on each other: any known one stands in for what was erased.
        x = made.x[np.where(is_gone, np.argmin(is_gone), np.arange(is_gone.size))]
        rows = rows_of(self.live.places(made.unit), x, made.mask)
        self._made, self._judged = (made, rows), None
        return rows

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
            return event if len(self._gone) == len(event.id) else live.gated(*made)
        if len(event.id) != 1:
            raise Conflict("decisions that were not made together were judged together")
        record = live.records[event.id[0]]
        self._judged = (event, record.rows)
        self._gone = set() if np.isfinite(record.rows.x).all() else {record.id}
        if record.judged is None or record.review is None:
            raise Conflict(f"decision {record.id} was judged twice, or without those beside it")
        return event if self._gone else live.answered(record, record.review)

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


def _fingerprint(live: Recall, event: ev.InstanceChanged) -> str:
    declared = declaration.parse(event.declaration, is_recorded=True)
    return Agent(declared.instance, declared.bandit, live.seed).fingerprint()


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
