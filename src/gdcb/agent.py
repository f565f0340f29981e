"""The in-process façade: a fold over an in-memory list of events.

Everything that the agent knows follows from its instance, its bandit, its seed and its events.
`decide`, `resolve` and `observe` validate, work out what happened, and then fold it; a refused
call folds nothing.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from gdcb import archive
from gdcb import events as ev
from gdcb.arguments import (
    Frame,
    allowed_arms,
    check_appeal,
    check_correction,
    check_discount,
    check_drift,
    check_review,
    check_rollback,
    check_verdict,
    check_weight,
    contexts_of,
    in_text,
    label_of,
    mask_of,
    outcome_of,
    row_of,
    units_of,
)
from gdcb.arrays import Array
from gdcb.bandits import Bandit
from gdcb.cases import Case, Record, made_event, rows_of
from gdcb.errors import Conflict, InvalidInput, UnknownDecision
from gdcb.fold import Fold
from gdcb.instance import Instance
from gdcb.log_columns import LogColumns
from gdcb.parts import check_text, fingerprint_of
from gdcb.records import Log, Rows, from_bytes, to_bytes
from gdcb.replay import is_near, replay
from gdcb.round import RoundState

if TYPE_CHECKING:  # logs are read and judged with packages that decisions do not need
    from gdcb.history.certificate import Certificate

DEFAULT_UNIT = "default"


Warmed = tuple[RoundState, Array, Log | None]


class Agent(Fold):
    """A bandit at work on one instance, in this process.

    Its random numbers follow from its seed and the ids: whoever sets the seed can foresee what an
    id will draw. A service, whose callers must not, adds a nonce to every request.

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

    _warmed: tuple[ev.HistoryImported, Warmed] | None = None

    def __init__(self, instance: Instance, bandit: Bandit | None = None, seed: int = 0) -> None:
        if bandit is None:
            raise InvalidInput("Agent: expected a bandit, for example gdcb.CurveThompson()")
        super().__init__(instance, bandit, seed)

    def __repr__(self) -> str:
        """Return what it works on, and how far it is."""
        made = len(self.records)
        known = sum(record.seen is not None for record in self.records.values())
        return (
            f"Agent({self.instance!r}, {type(self.bandit).__name__}, seed={self.seed}: "
            f"{made} decisions, {len(self.held())} held, {known} outcomes)"
        )

    # Decide

    @overload
    def decide(
        self,
        context: Mapping[str, Any],
        *,
        unit: str = ...,
        mask: Sequence[str] | None = ...,
        id: str | None = ...,
    ) -> Case: ...

    @overload
    def decide(
        self,
        context: Sequence[Mapping[str, Any]] | Frame,
        *,
        unit: str | Sequence[str] = ...,
        mask: Sequence[str] | None = ...,
        id: str | None = ...,
    ) -> list[Case]: ...

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
        context : named fields as the schema declares (a dictionary, a row of pandas), or a list
            or frame of such rows
        unit : whose learner decides; one name, or one a row
        mask : names of the arms that may be proposed
        id : decision id; asked again with the same context it answers with the same case.
            Rows of a batch have ids id.0, id.1, …

        Returns
        -------
        A `Case`, or a list of them for a batch.
        """
        context = row_of(context)
        is_one = isinstance(context, Mapping)
        contexts = [context] if is_one else contexts_of(context)
        if not contexts:
            raise InvalidInput("context: expected at least one row, got none")
        name = self._new_id() if id is None else check_text("id", id)
        ids = [name] if is_one else [f"{name}.{i}" for i in range(len(contexts))]
        units = units_of(unit, len(contexts))
        x = self.instance.context.encode(contexts)
        allowed = mask_of(self.instance, mask, len(contexts))
        if name in self.records.requests:
            self._same_again(name, ids, units, x, allowed)
        else:
            self._decide(name, ids, units, x, allowed)
        cases = [self[one] for one in ids]
        return cases[0] if is_one else cases

    def _decide(
        self, batch: str, ids: list[str], units: list[str], x: Array, mask: Array | None
    ) -> None:
        taken = [one for one in ids if one in self.records]
        if taken:
            raise Conflict(f"id: {', '.join(taken)} is taken by another decision")
        rows = rows_of(self.places(units), x, mask)
        self.instance.check_rows(rows, int(rows.unit.max()) + 1)
        keys = [(batch, row) for row in range(rows.n)]
        decision = self.propose(keys, rows)
        made = made_event(
            decision, ids, [batch] * rows.n, np.arange(rows.n), len(self.events), units, rows
        )
        judged = self.gated(made, rows)
        self.fold(made)
        self._follow(judged, rows)

    def _follow(self, judged: ev.GateApplied, rows: Rows) -> None:
        """Fold what the gates said, and run what they did not hold."""
        self.fold(judged)
        for event in (self.released(judged, rows), self.requested(judged)):
            if event is not None:
                self.fold(event)

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

        Parameters
        ----------
        by : who answered. An agent cannot know, so name them wherever a person answers: without it
            the answer is on record as nobody's. A service fills in who is signed in
        reason : why, for the record
        """
        record = self._held(id)
        check_verdict(verdict, action is not None)
        edited = None if action is None else self.instance.encode_action(action).tolist()
        event = ev.Reviewed(id, verdict, edited, by, reason)
        check_review(self.instance, event)
        self._answer(record, event)
        return self[id]

    def expire(self, id: str, reason: str = "nobody answered in time") -> Case:
        """End a hold that nobody answered: the null action runs, never the proposal."""
        record = self._held(id)
        self._answer(record, ev.Expired(id, check_text("reason", reason, may_be_empty=True)))
        return self[id]

    def _answer(self, record: Record, answer: ev.Reviewed | ev.Expired) -> None:
        judged = self.answered(record, answer)
        self.fold(answer)
        self._follow(judged, record.rows)

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
        check_weight(weight)
        values, labels = outcome_of(self.instance, outcome), label_of(self.instance, label)
        record.check_ran("outcome")
        event: ev.Event
        if record.seen is None:
            seen = None if labels is None else ev.numbers(labels)[None]
            event = ev.OutcomeObserved([id], np.array([values]), seen, np.array([float(weight)]))
        else:
            if (values, float(weight)) != (record.outcome, record.weight):
                raise Conflict(
                    f"outcome: decision {id} has {record.outcome} with weight {record.weight:g} "
                    f"already, got {values} with weight {weight:g}"
                )
            if labels is None or labels == record.label:
                return False
            if record.label is not None:
                raise Conflict(f"label: decision {id} has {record.label} already")
            event = ev.LabelObserved(id, labels)
        self.fold(event)
        due = self.instance.scaler.due(self.state.scaler)
        if due.size:
            self.refit(due.tolist())
        return True

    def correct(self, id: str, outcome: Mapping[str, float], reason: str, *, by: str = "") -> bool:
        """Put another outcome in the place of one that turned out to be wrong.

        Arms are learned again from all rows, with the right outcome; decisions that were made in
        between stay as they are.

        Returns
        -------
        True if it was news, False if that outcome was known already.
        """
        record = self._find(id)
        values = outcome_of(self.instance, outcome)
        if record.seen is None:
            raise Conflict(f"outcome: decision {id} has none that could be corrected")
        if values == record.outcome:
            return False
        event = ev.OutcomeCorrected(id, values, by, reason)
        check_correction(self.instance, event)
        self.fold(event)
        return True

    def roll_back(self, to: int, reason: str) -> None:
        """Put the learners back to what they knew after `to` events, and forget what came since.

        Decisions, verdicts and outcomes stay on record; only what was learned is undone.
        """
        event = ev.RolledBack(to, reason)
        check_rollback(event, len(self.events))
        self.fold(event)

    def appeal(self, id: str, upheld: bool, reason: str, *, by: str = "") -> bool:
        """Write down how an appeal against an executed decision ended.

        `upheld`: the appeal was upheld, the decision is held to be wrong. An appeal changes
        nothing that was learned: what ran has run, and its outcome is still the outcome of what
        ran. Teaching it as a veto would tell the kernel that the person at the gate said no when
        they said yes, and taking the outcome back would bias the arms towards what nobody
        complains about. Whoever wants appeals to count makes them part of the outcome.

        Returns
        -------
        True if it was news, False if it was known already.
        """
        record = self._find(id)
        event = ev.AppealDecided(id, upheld, by, reason)
        check_appeal(event)
        record.check_ran("appeal")
        if record.appeal is not None:
            if record.appeal != event:
                word = "upheld" if record.appeal.upheld else "turned down"
                raise Conflict(
                    f"appeal: decision {id} has one already, {word}: {record.appeal.reason}"
                )
            return False
        self.fold(event)
        return True

    def refit(self, owners: Sequence[int] | None = None) -> list[int]:
        """Refit scalers now (all by default), put them in force, and refold the arms.

        A scaler may refuse, where its rows do not say enough yet; it keeps them and is asked
        again when its next publication is due. After a history whose rows were too many to keep
        the scaler stays as that history left it: arms could not be refolded under another one.

        Returns
        -------
        The owners whose δ changed: an empty list where the scaler refused, or where its fit is
        the one in force.
        """
        scaler = self.instance.scaler
        n = len(self.units) if scaler.per == "unit" else 1
        wanted = list(range(n)) if owners is None else list(dict.fromkeys(owners))
        self.check_owners(wanted)
        if scaler.learns_from == "nothing" or not wanted or self.has_large_history:
            return []
        before = scaler.version(self.state.scaler, np.array(wanted, dtype=np.int64)).tolist()
        event = self.fitted(wanted)
        self.fold(event)
        pairs = zip(wanted, before, event.versions, strict=True)
        return [owner for owner, old, new in pairs if new != old]

    def discount(
        self, factor: float, reason: str, *, since: int | None = None, gate: str | None = None
    ) -> None:
        """Let old evidence count for less, because something has changed.

        Parameters
        ----------
        factor : share of its weight that old evidence keeps, 0 to 1
        reason : why, for the ledger
        since : number of the event from which evidence keeps its weight; all is old by default.
            A row is as old as its outcome.
        gate : name of a gate: what was learned of its verdicts before `since` is forgotten (the
            factor is 0), and what outcomes taught stays. A changed gate does outcomes no harm.
        """
        old = len(self.events) if since is None else since
        event = ev.EvidenceDiscounted(factor, old, gate, reason)
        check_discount(self.instance, event, len(self.events))
        self.fold(event)

    def report_drift(self, found: ev.DriftFound) -> None:
        """Write down that a monitor gave the alarm; nothing is learned from it."""
        check_drift(found, len(self.events))
        self.fold(found)

    # Start warm

    def warm_up(
        self,
        history: Any,
        *,
        columns: LogColumns | Mapping[str, Any] | None = None,
        query: str | None = None,
        strict: bool = False,
        level: float = 0.05,
        margin: float = 0.1,
        override: str | None = None,
    ) -> Certificate:
        """Certify a log of past decisions, and start both loops from it as the certificate says.

        It comes before the first decision. Where the certificate refuses the log, nothing is
        learned; `override` with a reason uses it all the same, and the reason is written down.

        Parameters
        ----------
        history : a path (CSV, Parquet, a folder of them, VW's dsjson), a frame, a database's URL
            with a `query`, an obp feedback dictionary, or what `gdcb.history.open_log` gave
        columns : the log's names for the instance's columns, where they differ; a `LogColumns`, or
            a dictionary such as {"action": "price"}. What is not named is looked for by name, and
            the certificate says what was found (`print(certificate)`)
        strict : refuse a log with rows that break the schema
        level, margin : of the certificate; see `gdcb.history.certify`

        Returns
        -------
        The certificate, whatever it says.
        """
        from gdcb.history import certify, open_log

        if self.units and self.history is None:
            raise Conflict("warm_up: it comes before the first decision, and some were made")
        source = history
        if not hasattr(history, "parts") or not hasattr(history, "fingerprint"):
            source = open_log(history, self.instance, columns, query, strict=strict)
        settings: dict[str, Any] = {"level": level, "margin": margin, "override": override}
        settings["matures_after"] = getattr(source, "matures_after", None)
        certificate = certify(source, self.instance, self.bandit, **settings)
        event = self.foresee_import(source, certificate, settings)
        if event is not None:
            self.fold(event)
        return certificate

    def foresee_import(
        self, source: Any, certificate: Certificate, settings: dict[str, Any]
    ) -> ev.HistoryImported | None:
        """Work out what a certified log would teach; None: it was refused."""
        from gdcb.history.warm import start

        self.check_new(source.fingerprint)
        if certificate.is_refused:
            return None
        units = list(source.units) or [DEFAULT_UNIT]
        _, group = self.room(len(units))
        state, kept = start(certificate, source, self.instance, self.bandit, group)
        plan = certificate.plan
        rows = None if kept is None else (plan.read or plan.pilot).to_text()
        known = None if rows is not None else base64.b64encode(to_bytes(state)).decode()
        name, hashed = str(source.name), source.fingerprint
        document = json.loads(json.dumps(certificate.as_json(), allow_nan=False))
        event = ev.HistoryImported(name, hashed, units, settings, document, rows, known)
        self._warmed = (event, (state, group, None if kept is None else kept.log))
        return event

    def check_new(self, fingerprint: str) -> None:
        """Refuse a second history: one that is known, or another one."""
        event = self.history
        if event is not None:
            same = event.fingerprint == fingerprint
            what = "this log was imported already" if same else "another log was imported"
            raise Conflict(f"warm_up: {what} ({event.log}); join logs and import them at once")

    def warmed(self, event: ev.HistoryImported) -> Warmed:
        """Work out what both loops know from an imported log, and its rows where they are kept."""
        if self._warmed is not None and self._warmed[0] is event:
            return self._warmed[1]
        state, group = self.room(len(event.units))
        log: Log | None = None
        from gdcb.history.warm import start

        if event.rows is None:
            state = from_bytes(base64.b64decode(event.state or ""), state)
        else:
            certificate = self._certified(event)
            state, kept = start(certificate, None, self.instance, self.bandit, group)
            log = None if kept is None else kept.log
        self._warmed = (event, (state, group, log))
        return state, group, log

    def _certified(self, event: ev.HistoryImported) -> Certificate:
        from gdcb.history import Batch, certify

        batch = Batch.from_text(event.rows or "")
        return certify(batch, self.instance, self.bandit, full=False, **event.settings)

    def imported(self, event: ev.HistoryImported) -> ev.HistoryImported:
        """Work out the certificate's verdicts again; rows that were not kept are taken as said."""
        if self.units:
            raise Conflict("a log was imported after the first decision, or after another log")
        if event.rows is None:
            return event
        again = json.loads(json.dumps(self._certified(event).as_json()))
        known = event.certificate
        same = {
            key: again[key]
            for key in ("verdict", "arms", "tests", "treatment")
            if not is_near(again[key], known.get(key))
        }
        return dataclasses.replace(event, certificate={**known, **same}) if same else event

    # Look

    def __getitem__(self, id: str) -> Case:
        """Return a decision as people read it."""
        record, instance = self._find(id), self.instance
        outcome, appeal = record.outcome, record.appeal
        names = instance.reward.outcome
        decided = None
        if appeal is not None:
            decided = {"upheld": appeal.upheld, "by": appeal.by, "reason": appeal.reason}
        return Case(
            id,
            record.unit,
            instance.space.names[int(record.made.arm[record.at])],
            instance.decode_action(record.made.action[record.at]),
            record.status,
            None if record.executed is None else instance.decode_action(record.executed),
            record.reason,
            None if outcome is None else dict(zip(names, outcome, strict=True)),
            decided,
        )

    def __contains__(self, id: object) -> bool:
        """Whether this decision was made here."""
        return isinstance(id, str) and id in self.records

    def held(self) -> list[Case]:
        """Return the decisions that wait for a person, oldest first."""
        return [self[one] for one, record in self.records.items() if record.status == "held"]

    # Save, load, replay

    def fingerprint(self) -> str:
        """Return a hash of the instance's and the bandit's settings."""
        return fingerprint_of(self.instance, self.bandit)

    def save(self, path: str | Path) -> None:
        """Write events and state into one file, without pickle."""
        units, state = int(self.group.size), to_bytes(self.state)
        archive.write(
            path, archive.Archive(self.seed, self.fingerprint(), units, list(self.events), state)
        )

    @classmethod
    def load(cls, path: str | Path, instance: Instance, bandit: Bandit) -> Agent:
        """Read what `save` wrote; refuse a file of another instance or bandit."""
        found = archive.read(path)
        agent = cls(instance, bandit, found.seed)
        if found.fingerprint != agent.fingerprint():
            raise InvalidInput(f"{path}: saved with another instance or bandit, or other settings")
        agent.state, agent.group = agent.room(found.units)
        try:
            for event in found.events:
                agent.note(event)
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
        replay(agent, events)
        return agent

    # Check

    def _find(self, id: Any) -> Record:
        if (record := self.records.find(id)) is None:
            raise UnknownDecision(f"no decision {id!r} was made here{in_text('ids', id)}")
        return record

    def _held(self, id: str) -> Record:
        record = self._find(id)
        record.check_held()
        return record

    def _new_id(self) -> str:
        number = len(self.records.requests) + 1
        while self._is_taken(str(number)) or self._is_taken(f"{number}.0"):
            number += 1
        return str(number)

    def _is_taken(self, id: str) -> bool:
        return id in self.records.requests or id in self.records

    def _same_again(
        self, name: str, ids: list[str], units: list[str], x: Array, mask: Array | None
    ) -> None:
        known = [self.records[one] for one in self.records.requests[name]]
        rows = [record.rows for record in known]
        same = [record.id for record in known] == ids and all(
            (rows[i].x == x[i]).all()
            and known[i].unit == units[i]
            and allowed_arms(rows[i].mask, 0) == allowed_arms(mask, i)
            for i in range(len(ids))
        )
        if not same:
            raise Conflict(f"id: {name!r} was used before with another context, unit or mask")
