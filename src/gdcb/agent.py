"""The in-process façade: a fold over an in-memory list of events.

Everything that the agent knows follows from its instance, its bandit, its seed and its events.
`decide`, `resolve` and `observe` validate, work out what happened, and fold it; a refused call
folds nothing.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gdcb import events as ev
from gdcb import round as turn
from gdcb.arrays import Array
from gdcb.bandits import Bandit
from gdcb.errors import Conflict, InvalidInput, UnknownDecision, UnknownField
from gdcb.instance import Instance
from gdcb.parts import check_number, describe
from gdcb.records import (
    EXPIRED,
    HELD,
    MODIFIED,
    PASSED,
    STATUS,
    VETOED,
    Decision,
    Executed,
    Log,
    Rows,
    Verdict,
    from_bytes,
    grow,
    to_bytes,
)
from gdcb.streams import DRAW, GATE, Stream, check_seed, key_of

FORMAT = 1
DEFAULT_UNIT = "default"
VERDICTS = {"approve": PASSED, "edit": MODIFIED, "veto": VETOED}


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
    """

    id: str
    unit: str
    arm: str
    proposed: dict[str, Any] | None
    status: str
    executed: dict[str, Any] | None
    reason: str
    outcome: dict[str, float] | None


@dataclass(slots=True)
class _Record:
    """What the fold remembers of a decision."""

    made: ev.DecisionMade
    rows: Rows
    verdict: Verdict | None = None
    reason: str = ""
    executed: Executed | None = None
    outcome: ev.OutcomeObserved | None = None


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
        self.instance, self.bandit, self.seed = instance, bandit, check_seed(seed)
        self.events: list[ev.Event] = []
        self._units: dict[str, int] = {}
        self._records: dict[str, _Record] = {}
        self._batches: dict[str, list[str]] = {}
        self._logs: list[Log] = []
        self._group = np.zeros(1, dtype=np.int64)
        self.state = turn.init(instance, bandit, self._group)

    # Decide

    def decide(
        self,
        context: Mapping[str, Any] | Sequence[Mapping[str, Any]] | Any,
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
        contexts = _rows_of([context] if is_one else context)
        name = self._new_id() if id is None else _check_name("id", id)
        ids = [name] if is_one else [f"{name}.{i}" for i in range(len(contexts))]
        units = [unit] * len(contexts) if isinstance(unit, str) else list(unit)
        if len(units) != len(contexts):
            raise InvalidInput(f"unit: expected {len(contexts)} names, got {len(units)}")
        for one in units:
            _check_name("unit", one)
        if not contexts:
            raise InvalidInput("context: expected at least one row, got none")
        x = self.instance.context.encode(contexts)
        allowed = self._mask(mask, len(contexts))
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
        index = [self._units.get(unit, -1) for unit in units]
        fresh = list(dict.fromkeys(u for u, i in zip(units, index, strict=True) if i < 0))
        places = self._units | {unit: len(self._units) + i for i, unit in enumerate(fresh)}
        self._grow(len(places))
        rows = Rows(
            np.array([places[unit] for unit in units]), np.zeros(len(ids), dtype=np.int64), x, mask
        )
        self.instance.check_rows(rows, self._group.size)
        made = self._propose(batch, rows)
        version = len(self.events)
        for i, one in enumerate(ids):
            self._fold(
                ev.DecisionMade(
                    one,
                    batch,
                    i,
                    version,
                    units[i],
                    x[i].tolist(),
                    None if mask is None else mask[i].tolist(),
                    int(made.arm[i]),
                    ev.listed(made.action[i]),
                    made.delta[i].tolist(),
                    int(made.version[i]),
                    ev.listed(made.worth[i]),
                )
            )
        draws = self.instance.chain.draw(self._stream(batch, GATE), rows.n)
        verdict = self.instance.chain.apply(draws, made.action, rows)
        for i, one in enumerate(ids):
            self._gated(one, _row(verdict, i))

    def _propose(self, batch: str, rows: Rows) -> Decision:
        stream = self._stream(batch, DRAW)
        return turn.decide(stream, self.instance, self.bandit, self.state, rows)

    def _gated(self, one: str, verdict: Verdict, said: str = "") -> None:
        """Fold what the gates (and the person, if any) said, and run it unless it is held."""
        chain, rows = self.instance.chain, self._records[one].rows
        reason = chain.reason(verdict, rows, 0) + said
        self._fold(
            ev.GateApplied(
                one,
                STATUS[int(verdict.status[0])],
                int(verdict.gate[0]),
                ev.listed(verdict.action[0]),
                [ev.listed(step) for step in verdict.trail[0]],
                verdict.statuses[0].tolist(),
                {str(gate): text for (_, gate), text in verdict.faults.items()},
                reason,
            )
        )
        if verdict.status[0] == HELD:
            self._fold(ev.ReviewRequested(one, chain.gates[int(verdict.gate[0])].name, reason))
        else:
            executed = turn.execute(self.instance, verdict, rows)
            self._fold(
                ev.ActionExecuted(one, ev.listed(executed.action[0]), bool(executed.is_null[0]))
            )

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
        if verdict not in VERDICTS:
            raise InvalidInput(f"verdict: expected {', '.join(VERDICTS)}; got {verdict!r}")
        if (action is not None) != (verdict == "edit"):
            raise InvalidInput("action: give one with 'edit', and only there")
        edited = None if action is None else self.instance.encode_action(action).tolist()
        draws = self.instance.chain.draw(self._stream(record.made.batch, GATE), record.made.row + 1)
        self._fold(ev.Reviewed(id, verdict, edited, by, reason))
        held = record.verdict
        assert held is not None
        entered = held.trail[0, int(held.gate[0])]
        answer = {"approve": entered, "veto": np.full(entered.shape, np.nan)}.get(verdict)
        answer = np.array(edited) if answer is None else answer
        status = VERDICTS[verdict]
        if status == MODIFIED and (answer == entered).all():
            status = PASSED
        last = tuple(None if part is None else part[-1:] for part in draws)
        resumed = self.instance.chain.resume(last, held, record.rows, answer, status)
        said = ": ".join(part for part in (by, reason) if part)
        self._gated(id, resumed, f"; {said}" if said else "")
        return self[id]

    def expire(self, id: str, reason: str = "nobody answered in time") -> Case:
        """End a hold that nobody answered: the null action runs."""
        record = self._held(id)
        self._fold(ev.Expired(id, reason))
        held = record.verdict
        assert held is not None
        nothing = np.full(held.action.shape[1], np.nan)
        draws = (None,) * len(self.instance.chain.gates)
        chain = self.instance.chain
        self._gated(id, chain.resume(draws, held, record.rows, nothing, EXPIRED), f"; {reason}")
        return self[id]

    # Observe

    def observe(
        self,
        id: str,
        outcome: Mapping[str, float],
        *,
        label: Sequence[float | None] | None = None,
        weight: float = 1.0,
    ) -> bool:
        """Learn the outcome of an executed decision, whenever it arrives.

        Returns
        -------
        True if it was learned, False if the same outcome was known already.
        """
        record = self._find(id)
        event = ev.OutcomeObserved(
            id, self._outcome(outcome), self._label(label), _check_weight(weight)
        )
        if record.outcome is not None:
            if record.outcome == event:
                return False
            raise Conflict(
                f"outcome: decision {id} has {record.outcome.outcome} already, "
                f"got {event.outcome}; correcting an outcome is a request of its own"
            )
        if record.executed is None:
            raise Conflict(f"outcome: decision {id} is held and has not run")
        self._fold(event)
        due = self.instance.scaler.due(self.state.scaler)
        if due.size:
            self.refit(due.tolist())
        return True

    def refit(self, owners: Sequence[int] | None = None) -> None:
        """Refit scalers now (all by default), put them in force, and refold the arms."""
        if owners is None:
            per_unit = self.instance.scaler.per == "unit"
            owners = list(range(len(self._units) if per_unit else 1))
        index = np.array(list(owners), dtype=np.int64)
        if self.instance.scaler.n_labels == 0:
            return
        versions = self.instance.scaler.version(self.state.scaler, index) + 1
        self._fold(ev.ScalerFitted(index.tolist(), versions.tolist()))

    # Look

    def __getitem__(self, id: str) -> Case:
        """Return a decision as people read it."""
        record, instance = self._find(id), self.instance
        verdict, executed = record.verdict, record.executed
        names = instance.reward.outcome
        return Case(
            id,
            record.made.unit,
            instance.space.names[record.made.arm],
            instance.decode_action(np.array(ev.numbers(record.made.action))),
            "" if verdict is None else STATUS[int(verdict.status[0])],
            None if executed is None else instance.decode_action(executed.action[0]),
            record.reason,
            None
            if record.outcome is None
            else dict(zip(names, record.outcome.outcome, strict=True)),
        )

    def __contains__(self, id: object) -> bool:
        """Whether this decision was made here."""
        return id in self._records

    def held(self) -> list[Case]:
        """Return the decisions that wait for a person, oldest first."""
        return [
            self[one]
            for one, record in self._records.items()
            if record.verdict is not None and record.verdict.status[0] == HELD
        ]

    # Fold

    def _fold(self, event: ev.Event) -> None:
        """Learn from one event, then remember it."""
        self._teach(event)
        self._note(event)

    def _note(self, event: ev.Event) -> None:
        """Remember what happened; touches no learner."""
        self.events.append(event)
        if isinstance(event, ev.DecisionMade):
            place = self._units.setdefault(event.unit, len(self._units))
            mask = None if event.mask is None else np.array([event.mask])
            rows = Rows(np.array([place]), np.zeros(1, dtype=np.int64), np.array([event.x]), mask)
            self._records[event.id] = _Record(event, rows)
            self._batches.setdefault(event.batch, []).append(event.id)
        elif isinstance(event, ev.GateApplied):
            record = self._records[event.id]
            record.verdict, record.reason = _verdict(event), event.reason
        elif isinstance(event, ev.ActionExecuted):
            record = self._records[event.id]
            if record.verdict is not None:
                record.executed = turn.execute(self.instance, record.verdict, record.rows)
        elif isinstance(event, ev.OutcomeObserved):
            self._records[event.id].outcome = event
            self._logs.append(self._log(event))

    def _teach(self, event: ev.Event) -> None:
        """Update the learners; raises before it writes."""
        if isinstance(event, ev.GateApplied):
            record = self._records[event.id]
            before = record.verdict
            start = 0 if before is None else int(before.gate[0])
            self.instance.chain.learn(self.state.kernels, record.rows, _verdict(event), start)
        elif isinstance(event, ev.OutcomeObserved):
            label = None
            if event.label is not None:
                label = np.array([ev.numbers(event.label)])
            turn.learn(
                self.instance,
                self.bandit,
                self.state,
                self._log(event),
                np.array([event.outcome]),
                label,
            )
        elif isinstance(event, ev.ScalerFitted):
            owners = np.array(event.owners, dtype=np.int64)
            groups = turn.publish(self.instance, self.state, owners, self._group)
            if groups.size and self._logs:
                self._logs = [Log.concatenate(self._logs)]
                turn.refold(
                    self.instance, self.bandit, self.state, self._logs[0], self._group, groups
                )

    def _log(self, event: ev.OutcomeObserved) -> Log:
        record = self._records[event.id]
        made = record.made
        if record.executed is None:
            raise Conflict(f"outcome: decision {event.id} has not run")
        y, scale = self.instance.reward.learn(np.array([event.outcome]), record.rows.x)
        return Log(
            record.rows.unit,
            record.rows.group,
            record.rows.x,
            np.array([made.arm]),
            np.array([made.scaler_version]),
            record.executed.action,
            record.executed.is_null,
            record.executed.is_own,
            record.executed.is_override,
            y,
            scale,
            np.array([event.weight]),
        )

    def _grow(self, n_units: int) -> None:
        """Make room for more units; who is there keeps what they learned."""
        if n_units <= self._group.size:
            return
        group = np.zeros(max(n_units, 2 * self._group.size), dtype=np.int64)
        self.state = grow(self.state, turn.init(self.instance, self.bandit, group))
        self._group = group

    # Save, load, replay

    def fingerprint(self) -> str:
        """Return a hash of the instance's and the bandit's settings."""
        parts = {"instance": describe(self.instance), "bandit": describe(self.bandit)}
        text = json.dumps(parts, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def save(self, path: str | Path) -> None:
        """Write events and state into one file; nothing in it is executable."""
        header = {
            "format": FORMAT,
            "seed": self.seed,
            "fingerprint": self.fingerprint(),
            "units": int(self._group.size),
        }
        import zipfile

        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in (
                ("agent.json", json.dumps(header).encode()),
                ("events.jsonl", "".join(f"{ev.to_json(e)}\n" for e in self.events).encode()),
                ("state.npz", to_bytes(self.state)),
            ):
                archive.writestr(zipfile.ZipInfo(name), data)
        target = Path(path)
        part = target.with_name(target.name + ".part")
        part.write_bytes(buffer.getvalue())
        part.replace(target)

    @classmethod
    def load(cls, path: str | Path, instance: Instance, bandit: Bandit) -> Agent:
        """Read what `save` wrote; refuse a file of another instance or bandit."""
        import zipfile

        try:
            with zipfile.ZipFile(path) as archive:
                header = json.loads(archive.read("agent.json"))
                lines = archive.read("events.jsonl").decode().splitlines()
                state = archive.read("state.npz")
        except (zipfile.BadZipFile, KeyError, ValueError) as error:
            raise InvalidInput(f"{path}: not a saved agent ({error})") from error
        if header.get("format") != FORMAT:
            raise InvalidInput(f"{path}: expected format {FORMAT}, got {header.get('format')!r}")
        agent = cls(instance, bandit, header["seed"])
        if header["fingerprint"] != agent.fingerprint():
            raise InvalidInput(f"{path}: saved with another instance or bandit, or other settings")
        agent._grow(int(header["units"]))
        for line in lines:
            agent._note(ev.from_json(line))
        agent.state = from_bytes(state, agent.state)
        return agent

    @classmethod
    def replay(
        cls, events: Iterable[ev.Event], instance: Instance, bandit: Bandit, seed: int
    ) -> Agent:
        """Fold events from the start and recompute every decision; refuse where one differs."""
        agent = cls(instance, bandit, seed)
        story = list(events)
        for i, event in enumerate(story):
            if isinstance(event, ev.DecisionMade) and event.row == 0:
                batch = [e for e in story[i:] if getattr(e, "batch", None) == event.batch]
                agent._recompute([e for e in batch if isinstance(e, ev.DecisionMade)])
            agent._fold(event)
        return agent

    def _recompute(self, batch: list[ev.DecisionMade]) -> None:
        places = dict(self._units)
        for made in batch:
            places.setdefault(made.unit, len(places))
        self._grow(len(places))
        masks = [made.mask for made in batch]
        rows = Rows(
            np.array([places[made.unit] for made in batch]),
            np.zeros(len(batch), dtype=np.int64),
            np.array([made.x for made in batch]),
            None if masks[0] is None else np.array(masks),
        )
        again = self._propose(batch[0].batch, rows)
        for i, made in enumerate(batch):
            if int(again.arm[i]) != made.arm or ev.listed(again.worth[i]) != made.worth:
                raise Conflict(f"replay: decision {made.id} comes out differently")

    # Check

    def _stream(self, batch: str, stage: int) -> Stream:
        return Stream((self.seed, key_of(batch)), stage, 1)

    def _find(self, id: str) -> _Record:
        record = self._records.get(id)
        if record is None:
            raise UnknownDecision(f"no decision {id!r} was made here")
        return record

    def _held(self, id: str) -> _Record:
        record = self._find(id)
        if record.verdict is None or record.verdict.status[0] != HELD:
            status = "" if record.verdict is None else STATUS[int(record.verdict.status[0])]
            raise Conflict(f"decision {id} is not held; it is {status or 'open'}")
        return record

    def _new_id(self) -> str:
        number = len(self._batches) + 1
        while str(number) in self._batches or str(number) in self._records:
            number += 1
        return str(number)

    def _same_again(
        self, name: str, ids: list[str], units: list[str], x: Array, mask: Array | None
    ) -> None:
        made = [self._records[one].made for one in self._batches[name]]
        masks = [None] * len(made) if mask is None else mask.tolist()
        same = [one.id for one in made] == ids and all(
            one.x == row.tolist() and one.unit == unit and one.mask == allowed
            for one, row, unit, allowed in zip(made, x, units, masks, strict=True)
        )
        if not same:
            raise Conflict(f"id: {name!r} was used before with another context, unit or mask")

    def _mask(self, mask: Sequence[str] | None, n: int) -> Array | None:
        if mask is None:
            return None
        names = self.instance.space.names
        unknown = [name for name in mask if name not in names]
        if unknown or isinstance(mask, str):
            raise UnknownField(f"mask: no arm {mask!r}; there are {', '.join(names)}")
        return np.tile(np.isin(names, list(mask)), (n, 1))

    def _outcome(self, outcome: Mapping[str, float]) -> list[float]:
        names = self.instance.reward.outcome
        if set(outcome) != set(names):
            raise UnknownField(f"outcome: expected {', '.join(names)}; got {outcome!r}")
        values = []
        for name in names:
            value = outcome[name]
            plain = float(value) if isinstance(value, (bool, np.bool_, np.number)) else value
            check_number(f"outcome.{name}", plain)
            values.append(float(plain))
        self.instance.reward.check(np.array([values]))
        return values

    def _label(self, label: Sequence[float | None] | None) -> list[float | None] | None:
        n = self.instance.scaler.n_labels
        if label is None:
            return None
        if len(label) != n:
            raise InvalidInput(f"label: expected {n} numbers, got {label!r}")
        for value in label:
            if value is not None:
                check_number("label", value)
        return [None if value is None else float(value) for value in label]


def _check_weight(weight: float) -> float:
    check_number("weight", weight, 0.0)
    return float(weight)


def _check_name(what: str, name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"{what}: expected a name, got {name!r}")
    return name


def _rows_of(context: Any) -> list[Mapping[str, Any]]:
    """Return the rows of a list, a Polars frame or a pandas frame."""
    if hasattr(context, "to_dicts"):
        return list(context.to_dicts())
    if hasattr(context, "to_dict"):
        return list(context.to_dict("records"))
    if isinstance(context, Sequence) and not isinstance(context, (str, bytes)):
        return list(context)
    raise InvalidInput(f"context: expected named fields or rows of them, got {context!r}")


def _row(verdict: Verdict, i: int) -> Verdict:
    one = slice(i, i + 1)
    faults = {(0, gate): text for (row, gate), text in verdict.faults.items() if row == i}
    return Verdict(
        verdict.action[one],
        verdict.status[one],
        verdict.gate[one],
        verdict.trail[one],
        verdict.statuses[one],
        faults,
    )


def _verdict(event: ev.GateApplied) -> Verdict:
    return Verdict(
        np.array([ev.numbers(event.action)]),
        np.array([STATUS.index(event.status)], dtype=np.int8),
        np.array([event.gate]),
        np.array([[ev.numbers(step) for step in event.trail]]),
        np.array([event.statuses], dtype=np.int8).reshape(1, -1),
        {(0, int(gate)): text for gate, text in event.faults.items()},
    )
