"""The fold: everything an agent knows, worked out of its events one by one.

`gdcb.outlook` works out what must happen next, and changes nothing; here what did happen is folded
(`fold` = `teach` the learners, then `note` it).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gdcb import events as ev
from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.bandits import Bandit
from gdcb.cases import Happened, Record, Records, executed_of, rows_at, rows_of, whole_verdict
from gdcb.credit import learn_label
from gdcb.errors import Conflict
from gdcb.instance import Instance
from gdcb.kept import HISTORY, Weights
from gdcb.outlook import Outlook
from gdcb.records import HELD, Log, Rows, Verdict, copy, grow
from gdcb.refold import discount, publish, refold


@dataclass(frozen=True, slots=True)
class Past:
    """What was known after so many events.

    Parameters
    ----------
    state, group : what the learners knew, and the group of each place
    weights : how far each finished row counted
    discounts, voids : of old evidence, as in `Fold`
    """

    state: turn.RoundState
    group: Array
    weights: Weights
    discounts: list[tuple[int, float]]
    voids: list[tuple[int, int]]


class Fold(Outlook):
    """Decisions, verdicts, outcomes and refits of one instance, folded in order.

    Attributes
    ----------
    events : what happened, in order
    records : what is remembered of each decision, by id
    discounts, voids : (since, factor) of old evidence; events from, to before which none counts
    """

    def __init__(self, instance: Instance, bandit: Bandit, seed: int = 0) -> None:
        super().__init__(instance, bandit, seed)
        self.events: Happened = []
        self.records = Records()
        self.discounts: list[tuple[int, float]] = []
        self.voids: list[tuple[int, int]] = []
        self.history: ev.HistoryImported | None = None
        self.history_at: int | None = None
        self._made: ev.DecisionMade | None = None
        self._logged: tuple[ev.OutcomeObserved, Log] | None = None
        self._back: tuple[ev.RolledBack, Past] | None = None
        self._ways: dict[int, Past] | None = None

    def imported(self, event: ev.HistoryImported) -> ev.HistoryImported:
        """Work out what importing this log again gives; a fold by itself imports none."""
        raise Conflict(f"a log was imported ({event.log}), which only an agent does")

    def warmed(self, event: ev.HistoryImported) -> tuple[turn.RoundState, Array, Log | None]:
        """Work out what both loops know from an imported log, and its rows where they are kept."""
        raise Conflict(f"a log was imported ({event.log}), which only an agent does")

    def fold(self, event: ev.Event) -> None:
        """Learn from one event, then remember it."""
        self.teach(event)
        self.note(event)

    def note(self, event: ev.Event) -> None:
        """Remember what happened; touches no learner."""
        number = len(self.events)
        if isinstance(event, ev.DecisionMade):
            places = self.places(event.unit)
            for unit in event.unit:
                self.units.setdefault(unit, len(self.units))
            if event.share is not None and event.drawn_by == "unit":
                self._note_sides(event, event.share)
            self.records.add(event, places)
        else:
            if isinstance(event, ev.OutcomeObserved):
                self._keep(event, number)
            self.records.note(event, number)
        if isinstance(event, ev.EvidenceDiscounted) and event.gate is None:
            self._note_discount(event)
        elif isinstance(event, ev.OutcomeCorrected):
            self._note_correction(event)
        elif isinstance(event, ev.RolledBack):
            self._note_rollback(event)
        elif isinstance(event, ev.HistoryImported):
            self.history, self.history_at = event, number
            self.units = {name: place for place, name in enumerate(event.units)}
            log = self.warmed(event)[2]
            if log is not None:
                self.kept.add(log, HISTORY)
        self._made = event if isinstance(event, ev.DecisionMade) else None
        self.events.append(event)

    def _note_sides(self, event: ev.DecisionMade, share: Array) -> None:
        """Remember with which nonce each unit's side was drawn first; a share of 0 or 1 draws none.

        A nonce is on record from its first decision on. So it decides a unit's side only where it
        came with that very draw.
        """
        nonces = event.nonce or [""] * len(event.unit)
        for unit, nonce, chance in zip(event.unit, nonces, share.tolist(), strict=True):
            if 0.0 < chance < 1.0:
                self.drawn.setdefault(unit, nonce)

    def teach(self, event: ev.Event) -> None:
        """Update the learners; raises before it writes."""
        if isinstance(event, ev.DecisionMade):
            self.state, self.group = self.room(max(self.places(event.unit)) + 1)
        elif isinstance(event, ev.GateApplied):
            self._learn_verdicts(event)
        elif isinstance(event, ev.OutcomeObserved):
            self._learn_outcomes(event)
        elif isinstance(event, ev.OutcomeCorrected):
            self.state = self.corrected(event)
        elif isinstance(event, ev.LabelObserved):
            record = self.records[event.id]
            if record.seen is None:
                raise Conflict(f"label: decision {event.id} has no outcome yet")
            label = ev.numbers(event.label)[None]
            if self.known([record]):
                learn_label(self.instance, self.state.scaler, self._log([record]), label)
        elif isinstance(event, ev.ScalerFitted):
            owners = np.array(event.owners, dtype=np.int64)
            known = self.kept.log
            groups = publish(self.instance, self.state, owners, self.group, known)
            if groups.size and known is not None:
                refold(self.instance, self.bandit, self.state, known, self.group, groups)
        elif isinstance(event, ev.EvidenceDiscounted):
            self.state = self.discounted(event)
        elif isinstance(event, ev.HistoryImported):
            self.state, self.group, _ = self.warmed(event)
        elif isinstance(event, ev.RolledBack):
            self.state, self.group = self.rolled_back(event)

    def _learn_outcomes(self, event: ev.OutcomeObserved) -> None:
        """Teach both loops; a decision whose context was erased teaches nothing."""
        log, outcome, label = self.log(event), event.outcome, event.label
        at = self._rows_known(log.x)
        if at is not None:
            self.known([self.records[id] for id in event.id])
            log, outcome, label = log.take(at), outcome[at], None if label is None else label[at]
        if log.unit.size:
            turn.learn(self.instance, self.bandit, self.state, log, outcome, label)

    def _keep(self, event: ev.OutcomeObserved, number: int) -> None:
        log = self.log(event)
        at = self._rows_known(log.x)
        records = [self.records[id] for id in event.id]
        if at is not None:
            log, records = log.take(at), [records[i] for i in at]
        keys = ["" if one.made.key is None else one.made.key[one.at] for one in records]
        if records:
            self.kept.add(log, number, at, keys if any(keys) else None)

    def _rows_known(self, x: Array) -> Array | None:
        """Return the rows of x (N, p) that are all there; None: all rows."""
        is_known = np.isfinite(x).all(axis=1)
        return None if is_known.all() else np.flatnonzero(is_known)

    def known(self, records: Sequence[Record]) -> list[Record]:
        """Return those of some decisions whose contexts were not erased; `lose` hears of others."""
        is_known = [bool(np.isfinite(one.made.x[one.at]).all()) for one in records]
        gone = [one for one, known in zip(records, is_known, strict=True) if not known]
        if not gone:
            return list(records)
        self.lose(gone)
        return [one for one, known in zip(records, is_known, strict=True) if known]

    def lose(self, records: Sequence[Record]) -> bool:
        """Hear of decisions whose contexts are gone; return whether they were there at this event.

        A fold of events in memory never loses any.
        """
        return False

    def _learn_verdicts(self, event: ev.GateApplied) -> None:
        """Teach the gates' kernels; a decision that was held starts behind what is known of it."""
        if not any(kernel is not None for kernel in self.state.kernels):
            return
        made, start = self._made, 0
        if made is not None and made.id == event.id:
            rows = rows_of(self.places(made.unit), made.x, None)
        else:
            records = [self.records[id] for id in event.id]
            rows, held = rows_at(records), records[0].verdict
            start = 0 if held is None else int(held.gate[0])
        self._learn_kernels(self.state.kernels, event.id, rows, whole_verdict(event), start)

    def _learn_kernels(
        self, kernels: tuple[Any, ...], ids: list[str], rows: Rows, verdict: Verdict, start: int
    ) -> None:
        """Teach kernels what the gates said of rows, but of those whose contexts were erased."""
        at = self._rows_known(rows.x)
        if at is not None:
            self.known([self.records[id] for id in ids])
            rows, verdict = rows.take(at), verdict.take(at)
        if rows.n:
            self.instance.chain.learn(kernels, rows, verdict, start)

    def corrected(self, event: ev.OutcomeCorrected) -> turn.RoundState:
        """Work out what is known once an outcome is another one; changes nothing.

        What the wrong outcome taught cannot be taken out of sums; arms are learned again from all
        rows that were kept.
        """
        record = self.records[event.id]
        if record.seen is None or record.ran is None:
            raise Conflict(f"outcome: decision {event.id} has none that could be corrected")
        if not np.isfinite(record.made.x[record.at]).all():
            if self.lose([record]):
                return self.state
            raise Conflict(
                f"outcome: the context of decision {event.id} was erased; its outcome stays"
            )
        log = self.kept.log
        if log is None or self.has_large_history:
            raise Conflict("outcome: rows were not kept, so that none can be corrected")
        ahead = copy(self.state)
        at, new = self._corrected_row(record, event)
        if bool(log.is_null[at]):
            x, action = log.x[at : at + 1], log.action[at : at + 1]
            before, after = (
                float(self.instance.reward.reward(np.array([outcome]), action, x)[0])
                for outcome in (record.outcome, event.outcome)
            )
            if math.isfinite(before) and math.isfinite(after):
                ahead.null.excess[log.unit[at]] += log.weight[at] * (after - before)
            return ahead
        groups = np.unique(self.group)
        rows = self.kept.corrected(at, new)
        refold(self.instance, self.bandit, ahead, rows, self.group, groups)
        return ahead

    def _corrected_row(self, record: Record, event: ev.OutcomeCorrected) -> tuple[int, Log]:
        """Return the place of a decision's row among the kept ones, and the row as it is now."""
        at = self.kept.find(record.seen_at, 0 if record.seen is None else record.seen[1])
        return at, self._log([record], [event.outcome])

    def _note_correction(self, event: ev.OutcomeCorrected) -> None:
        record = self.records[event.id]
        if self.known([record]):
            self.kept.correct(*self._corrected_row(record, event))

    @property
    def has_large_history(self) -> bool:
        """Whether a history was imported whose rows were too many to keep."""
        return self.history is not None and self.history.rows is None

    def rolled_back(self, event: ev.RolledBack) -> tuple[turn.RoundState, Array]:
        """Work out what the learners knew after so many events, with room for all units of now.

        Versions of the scaler go on: a number never stands for two fits.
        """
        past = self._put_back(event)
        state, group = copy(past.state), past.group
        if group.size < self.group.size:
            state = grow(state, turn.init(self.instance, self.bandit, self.group))
        versions = self.state.scaler.versions
        if self.instance.scaler.learns_from != "nothing":
            state.scaler.versions[...] = versions + 1
        return state, self.group if group.size < self.group.size else group

    def _put_back(self, event: ev.RolledBack) -> Past:
        """Return what learners are put back to; it is worked out once to teach and to note it."""
        if self._back is None or self._back[0] is not event:
            self._back = (event, self.past_after(event.to))
        return self._back[1]

    def past_after(self, to: int) -> Past:
        """Fold the first events again, from the start.

        Ways back among them are gone over once, however many come after them.
        """
        ways = {} if self._ways is None else self._ways
        if to not in ways:
            past = type(self)(self.instance, self.bandit, self.seed)
            past._ways = ways
            for event in self.events[:to]:
                past.fold(event)
            ways[to] = past.as_past()
        return ways[to]

    def as_past(self) -> Past:
        """Return what is known now; the state is not a copy."""
        voids, discounts = list(self.voids), list(self.discounts)
        return Past(self.state, self.group, self.kept.weights, discounts, voids)

    def _note_rollback(self, event: ev.RolledBack) -> None:
        """Let every row count as it did then, and what came since for nothing.

        Discounts and ways back that came since are undone with the rest. Corrections are not: what
        is on record stays, and the next refit goes by it.
        """
        past, self._back = self._put_back(event), None
        self.discounts = list(past.discounts)
        self.voids = [*past.voids, (event.to, len(self.events))]
        self.kept.weigh_as(past.weights)

    def discounted(self, event: ev.EvidenceDiscounted) -> turn.RoundState:
        """Work out what is known once old evidence counts for less; changes nothing.

        A state holds sums, not rows. So all of it is discounted, and the rows that keep their
        weight are taught again with what they lost: factor + (1 − factor) = 1.
        """
        if event.gate is not None:
            return replace(self.state, kernels=self._kernels_since(event.gate, event.since))
        ahead = copy(self.state)
        discount(self.instance, self.bandit, ahead, event.factor, self.group)
        recent = self.known(self._seen_since(event.since))
        if recent and event.factor < 1.0:
            log = self._log(recent)
            log.weight *= 1.0 - event.factor
            outcome = np.array([record.outcome for record in recent])
            n_labels, label = self.instance.scaler.n_labels, None
            if n_labels:
                unseen: list[float | None] = [None] * n_labels
                label = np.array([ev.numbers(record.label or unseen) for record in recent])
            turn.learn(self.instance, self.bandit, ahead, log, outcome, label)
        return ahead

    def _seen_since(self, start: int) -> list[Record]:
        """Return the decisions whose outcomes came in event `start` or later, and still count."""
        found = []
        for number, event in enumerate(self.events[start:], start):
            if isinstance(event, ev.OutcomeObserved) and not self._is_void(number):
                found += [self.records[id] for id in event.id]
        return found

    def _is_void(self, number: int) -> bool:
        return any(start <= number < stop for start, stop in self.voids)

    def share(self, record: Record) -> float:
        """Return how much of its outcome's weight a decision has left."""
        if self._is_void(record.seen_at):
            return 0.0
        return math.prod(factor for since, factor in self.discounts if record.seen_at < since)

    def _note_discount(self, event: ev.EvidenceDiscounted) -> None:
        """Remember in every old row, kept for refits or not, what is left of its weight."""
        self.discounts.append((event.since, event.factor))
        self.kept.weigh(lambda numbers: np.where(numbers < event.since, event.factor, 1.0))

    def _kernels_since(self, name: str, since: int) -> tuple[Any, ...]:
        """Return the gates' kernels where one gate has only been seen since an event."""
        chain = self.instance.chain
        at = [gate.name for gate in chain.gates].index(name)
        gate, n_columns = chain.gates[at], len(self.instance.actions)
        n_owners = self.group.size if gate.per == "unit" else int(self.group.max()) + 1
        kernel = gate.init_kernel(n_owners, n_columns)
        only = tuple(kernel if i == at else None for i in range(len(chain.gates)))
        held: dict[str, int] = {}
        for number, event in enumerate(self.events):
            if isinstance(event, ev.GateApplied):
                verdict = whole_verdict(event)
                start = held.pop(event.id[0], 0)
                if number >= since and not self._is_void(number):
                    rows = rows_at([self.records[id] for id in event.id])
                    self._learn_kernels(only, event.id, rows, verdict, start)
                for row in np.flatnonzero(event.status == HELD):
                    held[event.id[row]] = int(verdict.gate[row])
        kernels = self.state.kernels
        return tuple(kernel if i == at else known for i, known in enumerate(kernels))

    def log(self, event: ev.OutcomeObserved) -> Log:
        """Write finished decisions down as rows of the log."""
        if self._logged is None or self._logged[0] is not event:
            records = [self.records[id] for id in event.id]
            for record in records:
                record.check_ran("outcome")
            self._logged = (event, self._log(records, event.outcome, event.weight))
        return self._logged[1]

    def _log(self, records: list[Record], outcome: Any = None, weight: Array | None = None) -> Log:
        """Return rows of the log, with the outcomes that are known where none are given."""
        rows, executed = rows_at(records), executed_of(self.instance.chain, records)
        known = [record.outcome for record in records] if outcome is None else outcome
        if weight is None:
            weight = np.array([record.weight * self.share(record) for record in records])
        y, scale = self.instance.reward.learn(np.array(known, dtype=float), rows.x)
        return Log(
            rows.unit,
            rows.group,
            rows.x,
            np.array([record.made.arm[record.at] for record in records]),
            np.array([record.made.scaler_version[record.at] for record in records]),
            executed.action,
            executed.is_null,
            executed.is_own,
            executed.is_override,
            y,
            scale,
            weight,
        )
