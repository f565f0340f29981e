"""The in-process façade: a fold over an in-memory list of events.

Everything that the agent knows follows from its instance, its bandit, its seed and its events.
`decide`, `resolve` and `observe` validate, work out what happened, and then fold it; a refused
call folds nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gdcb import archive
from gdcb import events as ev
from gdcb import round as turn
from gdcb.arguments import contexts_of, label_of, mask_of, outcome_of, units_of
from gdcb.arrays import Array
from gdcb.bandits import Bandit
from gdcb.cases import Case, Record, gate_event, made_event, row_of, rows_of, verdict_of
from gdcb.credit import learn_label
from gdcb.errors import Conflict, InvalidInput, UnknownDecision
from gdcb.instance import Instance
from gdcb.parts import check_choice, check_number, check_text, describe
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
    from_bytes,
    grow,
    to_bytes,
)
from gdcb.streams import DRAW, GATE, Stream, check_seed, key_of

DEFAULT_UNIT = "default"
VERDICTS = {"approve": PASSED, "edit": MODIFIED, "veto": VETOED}
WORDS = {"approve": "approved", "edit": "edited", "veto": "vetoed"}


class Agent:
    """A bandit at work on one instance, in this process.

    Examples
    --------
    >>> import gdcb
    >>> agent = gdcb.Agent(
    ...     gdcb.Instance(
    ...         context=gdcb.Schema({"base": gdcb.Number(1, 1000)}),
    ...         arms=gdcb.ArmList(values=(0.9, 1.0, 1.1)),
    ...         composition=gdcb.Multiply(base=("base",), names=("price",)),
    ...         gate=gdcb.Cap(limit=100.0),
    ...         reward=gdcb.Payoff(outcome=("booked",), action=0),
    ...     ),
    ...     gdcb.BetaThompson(),
    ...     seed=7,
    ... )
    >>> case = agent.decide({"base": 120})
    >>> case.executed, case.status
    ({'price': 100.0}, 'modified')
    >>> case.reason
    'cap (version 1): 108 exceeds the cap of 100'
    >>> agent.observe(case.id, {"booked": 1})
    True
    >>> agent.observe(case.id, {"booked": 1})
    False
    """

    def __init__(self, instance: Instance, bandit: Bandit, seed: int = 0) -> None:
        given: tuple[Any, Any] = (instance, bandit)
        if not isinstance(given[0], Instance):
            raise InvalidInput(f"instance: expected an Instance, got {instance!r}")
        if isinstance(given[1], type) or not hasattr(given[1], "draw"):
            raise InvalidInput(f"bandit: expected a bandit such as BetaThompson(), got {bandit!r}")
        self.instance, self.bandit, self.seed = instance, bandit, check_seed(seed)
        self.events: list[ev.Event] = []
        self._units: dict[str, int] = {}
        self._records: dict[str, Record] = {}
        self._batches: dict[str, list[str]] = {}
        self._logs: list[Log] = []
        self._group = np.zeros(1, dtype=np.int64)
        self._random = Stream((self.seed, 0), 0, 1)
        self.state = turn.init(instance, bandit, self._group)

    def __repr__(self) -> str:
        """Return what it works on, and how far it is."""
        made = len(self._records)
        known = sum(record.outcome is not None for record in self._records.values())
        return (
            f"Agent({self.instance!r}, {type(self.bandit).__name__}, seed={self.seed}: "
            f"{made} decisions, {len(self.held())} held, {known} outcomes)"
        )

    # Decide

    def decide(
        self,
        context: Any,
        *,
        unit: str | Sequence[str] = DEFAULT_UNIT,
        mask: Sequence[str] | None = None,
        id: str | None = None,
    ) -> Any:
        """Propose, gate and, unless held, execute: one context, several, or a frame of them.

        Parameters
        ----------
        context : named fields as the schema declares, or a list or frame of such rows
        unit : whose learner decides; one name, or one a row
        mask : names of the arms that may be proposed
        id : decision id; asked again with the same context it answers with the same case.
            Rows of a batch have ids id.0, id.1, …

        Returns
        -------
        A `Case`, or a list of them for a batch.
        """
        is_one = isinstance(context, Mapping)
        contexts = [context] if is_one else contexts_of(context)
        if not contexts:
            raise InvalidInput("context: expected at least one row, got none")
        name = self._new_id() if id is None else check_text("id", id)
        ids = [name] if is_one else [f"{name}.{i}" for i in range(len(contexts))]
        units = units_of(unit, len(contexts))
        x = self.instance.context.encode(contexts)
        allowed = mask_of(self.instance, mask, len(contexts))
        if name in self._batches:
            self._same_again(name, ids, units, x, allowed)
        else:
            self._decide(name, ids, units, x, allowed)
        cases = [self[one] for one in ids]
        return cases[0] if is_one else cases

    def _decide(
        self, batch: str, ids: list[str], units: list[str], x: Array, mask: Array | None
    ) -> None:
        taken = [one for one in ids if one in self._records]
        if taken:
            raise Conflict(f"id: {', '.join(taken)} is taken by another decision")
        rows = rows_of(self._places(units), x, mask)
        self.instance.check_rows(rows, int(rows.unit.max()) + 1)
        decision = self._propose(batch, rows)
        verdict = self._judge(batch, decision.action, rows)
        reasons = [self.instance.chain.reason(verdict, rows, i) for i in range(rows.n)]
        version = len(self.events)
        for i, one in enumerate(ids):
            self._fold(made_event(decision, i, one, batch, version, units[i], rows))
        for i, one in enumerate(ids):
            self._gated(one, row_of(verdict, i), reasons[i])

    def _places(self, units: list[str]) -> list[int]:
        """Return where each unit is, newcomers behind those who are there."""
        new: dict[str, int] = {}
        for unit in units:
            if unit not in self._units:
                new.setdefault(unit, len(self._units) + len(new))
        return [self._units[unit] if unit in self._units else new[unit] for unit in units]

    def _propose(self, batch: str, rows: Rows) -> Decision:
        stream = self._stream(batch, DRAW)
        state = self._room(int(rows.unit.max()) + 1)[0]
        return turn.decide(stream, self.instance, self.bandit, state, rows)

    def _judge(self, batch: str, action: Array, rows: Rows) -> Verdict:
        draws = self.instance.chain.draw(self._stream(batch, GATE), rows.n)
        return self.instance.chain.apply(draws, action, rows)

    def _gated(self, one: str, verdict: Verdict, reason: str) -> None:
        """Fold what the gates said of one decision, and run it unless it is held."""
        self._fold(gate_event(one, verdict, reason))
        if verdict.status[0] == HELD:
            gate = self.instance.chain.gates[int(verdict.gate[0])].name
            self._fold(ev.ReviewRequested(one, gate, reason))
        else:
            executed = turn.execute(self.instance, verdict, self._records[one].rows)
            action, is_null = ev.listed(executed.action[0]), bool(executed.is_null[0])
            self._fold(ev.ActionExecuted(one, action, is_null))

    # Resolve

    def resolve(
        self,
        id: str,
        verdict: str,
        action: Mapping[str, Any] | None = None,
        *,
        by: str = "",
        reason: str = "",
    ) -> Case:
        """Answer a held decision: 'approve', 'edit' with an action by name, or 'veto'.

        What a person lets through still meets the gates behind them.
        """
        record = self._held(id)
        check_choice("verdict", verdict, tuple(VERDICTS))
        if (action is not None) != (verdict == "edit"):
            raise InvalidInput("action: give one with 'edit', and only there")
        edited = None if action is None else self.instance.encode_action(action).tolist()
        check_text("by", by, may_be_empty=True)
        check_text("reason", reason, may_be_empty=True)
        self._answer(record, ev.Reviewed(id, verdict, edited, by, reason))
        return self[id]

    def expire(self, id: str, reason: str = "nobody answered in time") -> Case:
        """End a hold that nobody answered: the null action runs, never the proposal."""
        record = self._held(id)
        self._answer(record, ev.Expired(id, check_text("reason", reason, may_be_empty=True)))
        return self[id]

    def _answer(self, record: Record, answer: ev.Reviewed | ev.Expired) -> None:
        verdict = self._resume(record, answer)
        reason = self._reason(record, verdict, answer)
        self._fold(answer)
        self._gated(answer.id, verdict, reason)

    def _reason(
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

    def _resume(self, record: Record, answer: ev.Reviewed | ev.Expired) -> Verdict:
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
        draws = self.instance.chain.draw(self._stream(made.batch, GATE), made.row + 1)
        last = tuple(part[-1:] if isinstance(part, np.ndarray) else part for part in draws)
        return self.instance.chain.resume(last, held, record.rows, action, status)

    # Observe

    def observe(
        self,
        id: str,
        outcome: Mapping[str, float],
        *,
        label: Sequence[float | None] | None = None,
        weight: float = 1.0,
    ) -> bool:
        """Take the outcome of an executed decision, whenever it arrives.

        A label that comes later is given with the same outcome once more.

        Returns
        -------
        True if it was news, False if it was known already.
        """
        record = self._find(id)
        check_number("weight", weight, 0.0)
        event: ev.Event
        event = ev.OutcomeObserved(
            id, outcome_of(self.instance, outcome), label_of(self.instance, label), float(weight)
        )
        if record.executed is None:
            raise Conflict(f"outcome: decision {id} is {record.status} and has not run")
        if record.outcome is not None:
            known = record.outcome
            if (event.outcome, event.weight) != (known.outcome, known.weight):
                raise Conflict(
                    f"outcome: decision {id} has {known.outcome} with weight {known.weight:g} "
                    f"already, got {event.outcome} with weight {event.weight:g}"
                )
            if event.label is None or event.label == record.label:
                return False
            if record.label is not None:
                raise Conflict(f"label: decision {id} has {record.label} already")
            event = ev.LabelObserved(id, event.label)
        self._fold(event)
        due = self.instance.scaler.due(self.state.scaler)
        if due.size:
            self.refit(due.tolist())
        return True

    def refit(self, owners: Sequence[int] | None = None) -> None:
        """Refit scalers now (all by default), put them in force, and refold the arms."""
        scaler = self.instance.scaler
        n = len(self._units) if scaler.per == "unit" else 1
        wanted = list(range(n)) if owners is None else list(owners)
        if any(isinstance(owner, bool) or not 0 <= owner < n for owner in wanted):
            raise InvalidInput(f"owners: expected owners 0 to {n - 1}, got {wanted}")
        if scaler.n_labels == 0 or not wanted:
            return
        self._fold(self._fitted(wanted))

    def _fitted(self, owners: list[int]) -> ev.ScalerFitted:
        """Work out which versions a refit would put in force."""
        scaler, index = self.instance.scaler, np.array(owners, dtype=np.int64)
        ahead = copy(self.state.scaler)
        scaler.publish(ahead, index)
        return ev.ScalerFitted(owners, scaler.version(ahead, index).tolist())

    # Look

    def __getitem__(self, id: str) -> Case:
        """Return a decision as people read it."""
        record, instance = self._find(id), self.instance
        executed, outcome = record.executed, record.outcome
        names = instance.reward.outcome
        return Case(
            id,
            record.made.unit,
            instance.space.names[record.made.arm],
            instance.decode_action(np.array(ev.numbers(record.made.action))),
            record.status,
            None if executed is None else instance.decode_action(executed.action[0]),
            record.reason,
            None if outcome is None else dict(zip(names, outcome.outcome, strict=True)),
        )

    def __contains__(self, id: object) -> bool:
        """Whether this decision was made here."""
        return isinstance(id, str) and id in self._records

    def held(self) -> list[Case]:
        """Return the decisions that wait for a person, oldest first."""
        return [self[one] for one, record in self._records.items() if record.status == "held"]

    # Fold

    def _fold(self, event: ev.Event) -> None:
        """Learn from one event, then remember it."""
        self._teach(event)
        self._note(event)

    def _note(self, event: ev.Event) -> None:
        """Remember what happened; touches no learner."""
        if isinstance(event, ev.DecisionMade):
            mask = None if event.mask is None else np.array([event.mask])
            rows = rows_of(self._places([event.unit]), np.array([event.x]), mask)
            self._units.setdefault(event.unit, len(self._units))
            self._records[event.id] = Record(event, rows)
            self._batches.setdefault(event.batch, []).append(event.id)
        elif isinstance(event, ev.GateApplied):
            record = self._records[event.id]
            record.verdict, record.reason = verdict_of(event), event.reason
        elif isinstance(event, ev.Reviewed | ev.Expired):
            self._records[event.id].review = event
        elif isinstance(event, ev.ActionExecuted):
            record = self._records[event.id]
            if record.verdict is not None:
                record.executed = turn.execute(self.instance, record.verdict, record.rows)
        elif isinstance(event, ev.OutcomeObserved):
            if self.instance.scaler.n_labels:  # only a refit ever reads them
                self._logs.append(self._log(event))
            self._records[event.id].outcome = event
            self._records[event.id].label = event.label
        elif isinstance(event, ev.LabelObserved):
            self._records[event.id].label = event.label
        self.events.append(event)

    def _teach(self, event: ev.Event) -> None:
        """Update the learners; raises before it writes."""
        if isinstance(event, ev.DecisionMade):
            self.state, self._group = self._room(self._places([event.unit])[0] + 1)
        elif isinstance(event, ev.GateApplied):
            record = self._records[event.id]
            start = 0 if record.verdict is None else int(record.verdict.gate[0])
            self.instance.chain.learn(self.state.kernels, record.rows, verdict_of(event), start)
        elif isinstance(event, ev.OutcomeObserved):
            label = None if event.label is None else np.array([ev.numbers(event.label)])
            log, outcome = self._log(event), np.array([event.outcome])
            turn.learn(self.instance, self.bandit, self.state, log, outcome, label)
        elif isinstance(event, ev.LabelObserved):
            outcome_event = self._records[event.id].outcome
            if outcome_event is None:
                raise Conflict(f"label: decision {event.id} has no outcome yet")
            label = np.array([ev.numbers(event.label)])
            learn_label(self.instance, self.state.scaler, self._log(outcome_event), label)
        elif isinstance(event, ev.ScalerFitted):
            owners = np.array(event.owners, dtype=np.int64)
            groups = turn.publish(self.instance, self.state, owners, self._group)
            if groups.size and self._logs:
                self._logs = [Log.concatenate(self._logs)]
                parts = (self.instance, self.bandit, self.state, self._logs[0], self._group)
                turn.refold(*parts, groups)

    def _log(self, event: ev.OutcomeObserved) -> Log:
        record = self._records[event.id]
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
            np.array([event.weight]),
        )

    def _room(self, n_units: int) -> tuple[turn.RoundState, Array]:
        """Return the state with room for so many units; who is there keeps what they learned."""
        if n_units <= self._group.size:
            return self.state, self._group
        group = np.zeros(max(n_units, 2 * self._group.size), dtype=np.int64)
        return grow(self.state, turn.init(self.instance, self.bandit, group)), group

    # Save, load, replay

    def fingerprint(self) -> str:
        """Return a hash of the instance's and the bandit's settings."""
        parts = {"instance": describe(self.instance), "bandit": describe(self.bandit)}
        text = json.dumps(parts, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def save(self, path: str | Path) -> None:
        """Write events and state into one file, without pickle."""
        units, state = int(self._group.size), to_bytes(self.state)
        archive.write(
            path, archive.Archive(self.seed, self.fingerprint(), units, self.events, state)
        )

    @classmethod
    def load(cls, path: str | Path, instance: Instance, bandit: Bandit) -> Agent:
        """Read what `save` wrote; refuse a file of another instance or bandit."""
        found = archive.read(path)
        agent = cls(instance, bandit, found.seed)
        if found.fingerprint != agent.fingerprint():
            raise InvalidInput(f"{path}: saved with another instance or bandit, or other settings")
        agent.state, agent._group = agent._room(found.units)
        try:
            for event in found.events:
                agent._note(event)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise InvalidInput(f"{path}: its events do not hang together ({error!r})") from error
        agent.state = from_bytes(found.state, agent.state)
        return agent

    @classmethod
    def replay(
        cls, events: Iterable[ev.Event], instance: Instance, bandit: Bandit, seed: int
    ) -> Agent:
        """Fold events from the start, recomputing every decision; refuse where one differs."""
        agent = cls(instance, bandit, seed)
        story = list(events)
        batches: dict[str, list[ev.DecisionMade]] = {}
        for event in story:
            if isinstance(event, ev.DecisionMade):
                batches.setdefault(event.batch, []).append(event)
        for i, event in enumerate(story):
            try:
                agent._recompute(event, batches)
                agent._fold(event)
            except KeyError as error:
                raise Conflict(f"replay: event {i} is about an unknown decision {error}") from error
        return agent

    def _recompute(self, event: ev.Event, batches: dict[str, list[ev.DecisionMade]]) -> None:
        """Work out what must have happened, and refuse another account of it."""
        again: ev.Event = event
        if isinstance(event, ev.DecisionMade):
            if event.batch not in self._batches:
                self._recompute_batch(batches[event.batch])
            return
        if isinstance(event, ev.GateApplied):
            record = self._records[event.id]
            if record.verdict is None:
                verdict = self._rejudge(record)
            elif record.review is not None:
                verdict = self._resume(record, record.review)
            else:
                raise Conflict(f"replay: decision {event.id} was judged twice")
            reason = self._reason(record, verdict, record.review)
            again = gate_event(event.id, verdict, reason)
        elif isinstance(event, ev.ActionExecuted):
            record = self._records[event.id]
            if record.verdict is None:
                raise Conflict(f"replay: decision {event.id} ran before it was judged")
            executed = turn.execute(self.instance, record.verdict, record.rows)
            action, is_null = ev.listed(executed.action[0]), bool(executed.is_null[0])
            again = ev.ActionExecuted(event.id, action, is_null)
        elif isinstance(event, ev.OutcomeObserved | ev.LabelObserved):
            record = self._records[event.id]
            is_outcome = isinstance(event, ev.OutcomeObserved)
            if (record.outcome if is_outcome else record.label) is not None:
                raise Conflict(f"replay: decision {event.id} was observed twice")
        elif isinstance(event, ev.ScalerFitted):
            again = self._fitted(event.owners)
        if again != event:
            raise Conflict(f"replay: {event} comes out as {again}")

    def _rejudge(self, record: Record) -> Verdict:
        made = record.made
        draws = self.instance.chain.draw(self._stream(made.batch, GATE), made.row + 1)
        last = tuple(part[-1:] if isinstance(part, np.ndarray) else part for part in draws)
        action = np.array([ev.numbers(made.action)])
        return self.instance.chain.apply(last, action, record.rows)

    def _recompute_batch(self, batch: list[ev.DecisionMade]) -> None:
        masks = [made.mask for made in batch]
        rows = rows_of(
            self._places([made.unit for made in batch]),
            np.array([made.x for made in batch]),
            None if masks[0] is None else np.array(masks),
        )
        decision = self._propose(batch[0].batch, rows)
        for i, made in enumerate(batch):
            version = len(self.events)
            again = made_event(decision, i, made.id, made.batch, version, made.unit, rows)
            if again != made:
                raise Conflict(f"replay: decision {made.id} comes out differently")

    # Check

    def _stream(self, batch: str, stage: int) -> Stream:
        return self._random.rekey((self.seed, key_of(batch)), stage, 1)

    def _find(self, id: Any) -> Record:
        record = self._records.get(id) if isinstance(id, str) else None
        if record is None:
            raise UnknownDecision(f"no decision {id!r} was made here")
        return record

    def _held(self, id: str) -> Record:
        record = self._find(id)
        if record.status != "held":
            raise Conflict(f"decision {id} is not held; it is {record.status}")
        return record

    def _new_id(self) -> str:
        number = len(self._batches) + 1
        while self._is_taken(str(number)) or self._is_taken(f"{number}.0"):
            number += 1
        return str(number)

    def _is_taken(self, id: str) -> bool:
        return id in self._batches or id in self._records

    def _same_again(
        self, name: str, ids: list[str], units: list[str], x: Array, mask: Array | None
    ) -> None:
        made = [self._records[one].made for one in self._batches[name]]
        masks = [None] * len(ids) if mask is None else mask.tolist()
        same = [one.id for one in made] == ids and all(
            one.x == row.tolist() and one.unit == unit and one.mask == allowed
            for one, row, unit, allowed in zip(made, x, units, masks, strict=True)
        )
        if not same:
            raise Conflict(f"id: {name!r} was used before with another context, unit or mask")
