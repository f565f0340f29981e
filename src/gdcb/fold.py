"""The fold: everything an agent knows, worked out of its events one by one.

Its functions either work out what must happen (`propose`, `judge`, `resume`, `fitted`) and change
nothing, or fold what did happen (`fold` = `teach` the learners, then `note` it).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gdcb import events as ev
from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.bandits import Bandit
from gdcb.cases import Record, rows_of, verdict_of
from gdcb.credit import learn_label
from gdcb.errors import Conflict, InvalidInput
from gdcb.instance import Instance
from gdcb.records import (
    EXPIRED,
    HELD,
    MODIFIED,
    PASSED,
    VETOED,
    Decision,
    Log,
    Rows,
    Verdict,
    copy,
    grow,
)
from gdcb.refold import discount, publish, refold
from gdcb.streams import DRAW, GATE, Stream, check_seed, key_of

VERDICTS = dict(zip(ev.ANSWERS, (PASSED, MODIFIED, VETOED), strict=True))
WORDS = {"approve": "approved", "edit": "edited", "veto": "vetoed"}


class Fold:
    """Decisions, verdicts, outcomes and refits of one instance, folded in order.

    Attributes
    ----------
    events : what happened, in order
    state : what the learners know
    records : what is remembered of each decision, by id
    units, group : place of each unit by name, and the group of each place
    batches : ids of the decisions that were made together
    logs : finished rows, kept where a refit may read them
    """

    def __init__(self, instance: Instance, bandit: Bandit, seed: int = 0) -> None:
        given: tuple[Any, Any] = (instance, bandit)
        if not isinstance(given[0], Instance):
            raise InvalidInput(f"instance: expected an Instance, got {instance!r}")
        if isinstance(given[1], type) or not hasattr(given[1], "draw"):
            raise InvalidInput(f"bandit: expected a bandit such as BetaThompson(), got {bandit!r}")
        if instance.adjustment is not None and instance.adjustment.form == "aipw":
            raise InvalidInput(
                "adjustment: form 'aipw' needs propensities, which a live decision gives only on "
                "demand; take form 'centred' here"
            )
        self.instance, self.seed = instance, check_seed(seed)
        self.bandit = instance.bind(bandit)
        self.events: list[ev.Event] = []
        self.units: dict[str, int] = {}
        self.records: dict[str, Record] = {}
        self.batches: dict[str, list[str]] = {}
        self.logs: list[Log] = []
        self.group = np.zeros(1, dtype=np.int64)
        self._random = Stream((self.seed, 0), 0, 1)
        self.state = turn.init(instance, self.bandit, self.group)

    def places(self, units: list[str]) -> list[int]:
        """Return where each unit is, newcomers behind those who are there."""
        new: dict[str, int] = {}
        for unit in units:
            if unit not in self.units:
                new.setdefault(unit, len(self.units) + len(new))
        return [self.units[unit] if unit in self.units else new[unit] for unit in units]

    def propose(self, batch: str, rows: Rows) -> Decision:
        """Propose for rows, without folding anything: room is made for newcomers on the side."""
        stream = self.stream(batch, DRAW)
        state = self.room(int(rows.unit.max()) + 1)[0]
        return turn.decide(stream, self.instance, self.bandit, state, rows)

    def judge(self, batch: str, action: Array, rows: Rows) -> Verdict:
        """Send proposals through the gates, with the random numbers of their batch."""
        draws = self.instance.chain.draw(self.stream(batch, GATE), rows.n)
        return self.instance.chain.apply(draws, action, rows)

    def reason(
        self, record: Record, verdict: Verdict, answer: ev.Reviewed | ev.Expired | None
    ) -> str:
        """Say why a decision ended as it did, the person's own words included."""
        reason = self.instance.chain.reason(verdict, record.rows, 0)
        if answer is None:
            return reason
        why = f": {answer.reason}" if answer.reason else ""
        if isinstance(answer, ev.Expired):
            return f"the hold expired{why}"
        who = f" by {answer.by}" if answer.by else ""
        return f"{reason}; {WORDS[answer.verdict]}{who}{why}"

    def resume(self, record: Record, answer: ev.Reviewed | ev.Expired) -> Verdict:
        """Work out what an answer makes of a held decision, behind the gate that held it."""
        held, made = record.verdict, record.made
        if held is None:
            raise Conflict(f"decision {made.id} is not held; the gates have not answered")
        entered = held.trail[0, int(held.gate[0])]
        action, status = np.full(entered.shape, np.nan), EXPIRED
        if isinstance(answer, ev.Reviewed):
            status = VERDICTS[answer.verdict]
            if status == PASSED:
                action = entered
            elif answer.action is not None:
                action = np.array(answer.action)
                status = PASSED if bool((action == entered).all()) else MODIFIED
        draws = self.draws_of(made)
        return self.instance.chain.resume(draws, held, record.rows, action, status)

    def draws_of(self, made: ev.DecisionMade) -> tuple[Any, ...]:
        """Return the gates' random numbers of one decision, as its batch drew them."""
        draws = self.instance.chain.draw(self.stream(made.batch, GATE), made.row + 1)
        return tuple(part[-1:] if isinstance(part, np.ndarray) else part for part in draws)

    def follow_up(self, record: Record) -> ev.ReviewRequested | ev.ActionExecuted:
        """Work out what comes of a verdict: a person is asked, or something runs."""
        verdict, one = record.verdict, record.made.id
        if verdict is None:
            raise Conflict(f"decision {one} ran before it was judged")
        if verdict.status[0] == HELD:
            gate = self.instance.chain.gates[int(verdict.gate[0])].name
            return ev.ReviewRequested(one, gate, record.reason)
        executed = turn.execute(self.instance, verdict, record.rows)
        return ev.ActionExecuted(one, ev.listed(executed.action[0]), bool(executed.is_null[0]))

    def check_owners(self, owners: list[int]) -> None:
        """Refuse to refit owners that are not there."""
        n = len(self.units) if self.instance.scaler.per == "unit" else 1
        is_known = all(type(owner) is int and 0 <= owner < n for owner in owners)
        if not is_known or len(set(owners)) != len(owners):
            raise InvalidInput(f"owners: expected owners 0 to {n - 1}, got {owners}")

    def fitted(self, owners: list[int]) -> ev.ScalerFitted:
        """Work out which versions a refit would put in force, as `teach` will do it."""
        scaler, index = self.instance.scaler, np.array(owners, dtype=np.int64)
        ahead = replace(self.state, scaler=copy(self.state.scaler))
        known = Log.concatenate(self.logs) if self.logs else None
        publish(self.instance, ahead, index, self.group, known)
        return ev.ScalerFitted(owners, scaler.version(ahead.scaler, index).tolist())

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
        if isinstance(event, ev.DecisionMade):
            mask = None if event.mask is None else np.array([event.mask])
            x = np.array([event.x], dtype=float)
            rows = rows_of(self.places([event.unit]), x, mask)
            self.units.setdefault(event.unit, len(self.units))
            self.records[event.id] = Record(event, rows)
            self.batches.setdefault(event.batch, []).append(event.id)
        elif isinstance(event, ev.GateApplied):
            record = self.records[event.id]
            record.verdict, record.reason = verdict_of(event), event.reason
            record.is_asked, record.review = False, None
        elif isinstance(event, ev.ReviewRequested):
            self.records[event.id].is_asked = True
        elif isinstance(event, ev.Reviewed | ev.Expired):
            self.records[event.id].review = event
        elif isinstance(event, ev.ActionExecuted):
            record = self.records[event.id]
            if record.verdict is not None:
                record.executed = turn.execute(self.instance, record.verdict, record.rows)
        elif isinstance(event, ev.OutcomeObserved):
            if self.instance.scaler.learns_from != "nothing":  # only a refit ever reads them
                self.logs.append(self.log(event))
            self.records[event.id].outcome = event
            self.records[event.id].label = event.label
        elif isinstance(event, ev.LabelObserved):
            self.records[event.id].label = event.label
        elif isinstance(event, ev.AppealDecided):
            self.records[event.id].appeal = event
        elif isinstance(event, ev.EvidenceDiscounted) and event.gate is None:
            self._note_discount(event)
        elif isinstance(event, ev.HistoryImported):
            self.units = {name: place for place, name in enumerate(event.units)}
            if self.instance.scaler.learns_from != "nothing":
                log = self.warmed(event)[2]
                self.logs += [] if log is None else [log]
        self.events.append(event)

    def teach(self, event: ev.Event) -> None:
        """Update the learners; raises before it writes."""
        if isinstance(event, ev.DecisionMade):
            self.state, self.group = self.room(self.places([event.unit])[0] + 1)
        elif isinstance(event, ev.GateApplied):
            record = self.records[event.id]
            start = 0 if record.verdict is None else int(record.verdict.gate[0])
            self.instance.chain.learn(self.state.kernels, record.rows, verdict_of(event), start)
        elif isinstance(event, ev.OutcomeObserved):
            label = None if event.label is None else np.array([ev.numbers(event.label)])
            log, outcome = self.log(event), np.array([event.outcome])
            turn.learn(self.instance, self.bandit, self.state, log, outcome, label)
        elif isinstance(event, ev.LabelObserved):
            outcome_event = self.records[event.id].outcome
            if outcome_event is None:
                raise Conflict(f"label: decision {event.id} has no outcome yet")
            label = np.array([ev.numbers(event.label)])
            learn_label(self.instance, self.state.scaler, self.log(outcome_event), label)
        elif isinstance(event, ev.ScalerFitted):
            owners = np.array(event.owners, dtype=np.int64)
            self.logs = [Log.concatenate(self.logs)] if self.logs else []
            known = self.logs[0] if self.logs else None
            groups = publish(self.instance, self.state, owners, self.group, known)
            if groups.size and self.logs:
                parts = (self.instance, self.bandit, self.state, self.logs[0], self.group)
                refold(*parts, groups)
        elif isinstance(event, ev.EvidenceDiscounted):
            self.state = self.discounted(event)
        elif isinstance(event, ev.HistoryImported):
            self.state, self.group, _ = self.warmed(event)

    def discounted(self, event: ev.EvidenceDiscounted) -> turn.RoundState:
        """Work out what is known once old evidence counts for less; changes nothing.

        A state holds sums, not rows. So all of it is discounted, and the rows that keep their
        weight are taught again with what they lost: factor + (1 − factor) = 1.
        """
        if event.gate is not None:
            return replace(self.state, kernels=self._kernels_since(event.gate, event.since))
        ahead = copy(self.state)
        discount(self.instance, self.bandit, ahead, event.factor, self.group)
        recent = self._outcomes(event.since, len(self.events))
        if recent and event.factor < 1.0:
            log = Log.concatenate([self.log(one) for one in recent])
            log.weight *= 1.0 - event.factor
            outcome = np.array([one.outcome for one in recent])
            n_labels, label = self.instance.scaler.n_labels, None
            if n_labels:
                unseen: list[float | None] = [None] * n_labels
                known = [self.records[one.id].label or unseen for one in recent]
                label = np.array([ev.numbers(labels) for labels in known])
            turn.learn(self.instance, self.bandit, ahead, log, outcome, label)
        return ahead

    def _outcomes(self, start: int, stop: int) -> list[ev.OutcomeObserved]:
        some = self.events[start:stop]
        return [event for event in some if isinstance(event, ev.OutcomeObserved)]

    def _note_discount(self, event: ev.EvidenceDiscounted) -> None:
        """Remember in every old row, kept for refits or not, what is left of its weight."""
        for old in self._outcomes(0, event.since):
            self.records[old.id].share *= event.factor
        if self.logs:
            known = Log.concatenate(self.logs)
            n_old = known.weight.size - len(self._outcomes(event.since, len(self.events)))
            weight = known.weight.copy()
            weight[:n_old] *= event.factor
            self.logs = [replace(known, weight=weight)]

    def _kernels_since(self, name: str, since: int) -> tuple[Any, ...]:
        """Return the gates' kernels where one gate has only been seen since an event."""
        chain = self.instance.chain
        at = [gate.name for gate in chain.gates].index(name)
        gate, n_columns = chain.gates[at], len(self.instance.actions)
        n_owners = self.group.size if gate.per == "unit" else int(self.group.max()) + 1
        kernel = gate.init_kernel(n_owners, n_columns)
        only = tuple(kernel if i == at else None for i in range(len(chain.gates)))
        seen: dict[str, Verdict] = {}
        for i, event in enumerate(self.events):
            if isinstance(event, ev.GateApplied):
                verdict, before = verdict_of(event), seen.get(event.id)
                seen[event.id] = verdict
                if i >= since:
                    start = 0 if before is None else int(before.gate[0])
                    chain.learn(only, self.records[event.id].rows, verdict, start)
        kernels = self.state.kernels
        return tuple(kernel if i == at else known for i, known in enumerate(kernels))

    def log(self, event: ev.OutcomeObserved) -> Log:
        """Write a finished decision down as a row of the log."""
        record = self.records[event.id]
        made, rows, executed = record.made, record.rows, record.executed
        if executed is None:
            raise Conflict(f"outcome: decision {event.id} has not run")
        y, scale = self.instance.reward.learn(np.array([event.outcome]), rows.x)
        return Log(
            rows.unit,
            rows.group,
            rows.x,
            np.array([made.arm]),
            np.array([made.scaler_version]),
            executed.action,
            executed.is_null,
            executed.is_own,
            executed.is_override,
            y,
            scale,
            np.array([event.weight * record.share]),
        )

    def room(self, n_units: int) -> tuple[turn.RoundState, Array]:
        """Return the state with room for so many units; who is there keeps what they learned."""
        if n_units <= self.group.size:
            return self.state, self.group
        group = np.zeros(max(n_units, 2 * self.group.size), dtype=np.int64)
        return grow(self.state, turn.init(self.instance, self.bandit, group)), group

    def stream(self, batch: str, stage: int) -> Stream:
        """Return the random numbers of a batch and stage; valid until the next call."""
        return self._random.rekey((self.seed, key_of(batch)), stage, 1)
