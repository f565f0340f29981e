"""An instance as its chain tells it: learners, open holds, the declaration in force."""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from gdcb import declaration
from gdcb import events as ev
from gdcb.agent import Agent
from gdcb.cases import Case, Record
from gdcb.codec import from_body, pack, unpack
from gdcb.declaration import Declaration
from gdcb.errors import (
    BrokenChain,
    Conflict,
    InvalidInput,
    StoreError,
    UnknownInstance,
)
from gdcb.events import to_json
from gdcb.fold import Past
from gdcb.instance import Instance
from gdcb.kept import Kept, Weights
from gdcb.ledger.changing import check_change, kernels_under
from gdcb.ledger.entry import GENESIS, Entry, is_as_written
from gdcb.ledger.sealing import Sealer, unsealed, vault_of
from gdcb.ledger.store import Snapshot, Store
from gdcb.ledger.story import StoredRecords, Story
from gdcb.records import HELD, Log, Verdict, from_bytes, to_bytes

FORMAT = 4
log = logging.getLogger("gdcb.ledger")
_AT_ONCE = 1_000  # entries that are fetched together


@dataclass(slots=True)
class Waiting:
    """A decision that waits for a person.

    Parameters
    ----------
    id, unit, gate : which decision, whose, and the gate that holds it
    since, number : when it was held (µs), and the number of the event of the verdict
    """

    id: str
    unit: str
    gate: str
    since: int
    number: int


class Live(Agent):
    """The fold of one chain in a store; nothing of it is written here.

    Attributes
    ----------
    declared, text : the declaration in force, and its TOML
    waiting : held decisions, oldest first
    paused, retired : the act that stopped it, with who and when; None: it runs
    set_back : what was found when an earlier state had been put back; None: acknowledged, or never
    set_backs : number of each such event, how many entries there had been, and when it was found
    proposals : changes that wait for a second pair of eyes, by the numbers of their events
    fitted_at : when the scaler was last refitted, µs; 0: never
    at, by : of the last event: when it was, and who brought it about
    erased, erasures : keys that were destroyed so far, and how many events said so
    is_lossy : whether contexts that taught here are gone, so that what is known is not what was;
        from the next state that was sealed on, it is again
    """

    def __init__(self, store: Store, chain: str, declared: Declaration, seed: int) -> None:
        super().__init__(declared.instance, declared.bandit, seed)
        self.store, self.chain = store, chain
        self.declared, self.text = declared, ""
        self._story = Story(store, chain)
        self.events = self._story
        self.stored = StoredRecords(self._story, self)
        self.records = self.stored
        self.waiting: dict[str, Waiting] = {}
        self.paused: tuple[ev.Paused, int, str] | None = None
        self.retired: tuple[ev.Retired, int, str] | None = None
        self.set_back: tuple[ev.LedgerSetBack, int, str] | None = None
        self.set_backs: list[tuple[int, int, int]] = []
        self.proposals: dict[int, tuple[ev.ChangeProposed, int, str]] = {}
        self.fitted_at = 0
        self.at, self.by = 0, ""
        self._pasts: Pasts | None = None
        self.erased: set[str] = set()
        self.erasures = 0
        self.is_lossy = False
        self._prepared: tuple[str, Declaration] | None = None
        self._approved: dict[str, tuple[Instance, int, Verdict]] = {}

    def if_approved(self, record: Record) -> Verdict:
        """Return what an approval of a held decision would lead to, behind the gates in force.

        It is worked out once for each verdict and declaration: a queue asks it of many, often.
        """
        known = self._approved.get(record.id)
        if known is None or known[0] is not self.instance or known[1] != record.judged_at:
            if len(self._approved) > 2 * len(self.waiting) + 1_000:
                self._approved = {}
            verdict = self.resume(record, ev.Reviewed(record.id, "approve", None, "", ""))
            known = self._approved[record.id] = (self.instance, record.judged_at, verdict)
        return known[2]

    @property
    def sealer(self) -> Sealer:
        """What opens the personal fields of this chain."""
        return self._story.sealer

    def event_of(self, entry: Entry) -> ev.Event:
        """Read an entry's event, with all that its keys still open."""
        return self._story.event_of(entry)

    def lose(self, records: Sequence[Record]) -> bool:
        """Hear of decisions whose contexts are gone; return whether they were there at this event.

        What was erased before this event taught nothing then either.
        """
        keys = {"" if one.made.key is None else one.made.key[one.at] for one in records}
        was_there = not keys <= self.erased
        self.is_lossy |= was_there
        return was_there

    def take(self, event: ev.Event, at: int, by: str) -> None:
        """Fold one event of the chain, with its time and who brought it about."""
        self.at, self.by = at, by
        self.fold(event)

    def note(self, event: ev.Event) -> None:
        """Remember what happened, also to the instance as a whole."""
        number = len(self.events)
        self._story.remember(number, self.at)
        super().note(event)
        if isinstance(event, ev.ScalerFitted):
            self.fitted_at = self.at
        elif isinstance(event, ev.ReviewRequested):
            self._hold(event, number)
        elif isinstance(event, ev.Reviewed | ev.Expired):
            self.waiting.pop(event.id, None)
        else:
            self._note_act(event, number)

    def _hold(self, event: ev.ReviewRequested, number: int) -> None:
        units = self._fresh_units(number)
        for id, gate in zip(event.id, event.gate, strict=True):
            if id in units:
                unit, judged_at = units[id]
            else:
                record = self.records[id]
                unit, judged_at = record.unit, record.judged_at
            self.waiting[id] = Waiting(id, unit, gate, self.at, judged_at)

    def _fresh_units(self, number: int) -> dict[str, tuple[str, int]]:
        """Return unit and verdict's number of decisions that were made right before an event.

        A large batch that is held whole would else be looked up row by row.
        """
        for at in range(number - 1, max(number - 4, -1), -1):
            made = self.events[at]
            if isinstance(made, ev.DecisionMade):
                units = zip(made.id, made.unit, strict=True)
                return {id: (unit, at + 1) for id, unit in units}
        return {}

    def _note_act(self, event: ev.Event, number: int) -> None:
        self.note_rule(event, number)
        if isinstance(event, ev.InstanceChanged):
            self._change(event)
        elif isinstance(event, ev.SubjectErased):
            self._erase(event)
        elif isinstance(event, ev.StateSealed):
            found = sealed_state(self.sealer, event)
            if found is not None:
                try:
                    self._take_learners(found)
                except InvalidInput as error:
                    raise BrokenChain(
                        f"event {number}: the state that was sealed with an erasure is of another "
                        f"shape than the learners of this version of gdcb have ({error}); the "
                        "version that wrote it can read it"
                    ) from error
                self.is_lossy = False

    def note_rule(self, event: ev.Event, number: int) -> None:
        """Remember what an act means for the rules in force, but for the declaration itself."""
        if isinstance(event, ev.Paused):
            self.paused = (event, self.at, self.by)
        elif isinstance(event, ev.Resumed):
            self.paused = None
        elif isinstance(event, ev.Retired):
            self.retired = (event, self.at, self.by)
        elif isinstance(event, ev.LedgerSetBack):
            self.set_back = (event, self.at, self.by)
            self.set_backs.append((number, event.had, self.at))
        elif isinstance(event, ev.SetBackAcknowledged):
            self.set_back = None
        elif isinstance(event, ev.ChangeProposed):
            self.proposals[number] = (event, self.at, self.by)
        elif isinstance(event, ev.ChangeRefused):
            self.proposals.pop(event.proposal, None)
        elif isinstance(event, ev.InstanceChanged):
            self.proposals.clear()  # they were made against what is no longer in force

    def _erase(self, event: ev.SubjectErased) -> None:
        """Forget what stands under destroyed keys, wherever it is in memory."""
        self._story.forget([*event.keys, vault_of(self.chain, self.erasures)])
        self.erased.update(event.keys)
        self.erasures += 1
        self.kept.drop(event.keys)
        self.stored.clear()
        self._approved.clear()
        self._logged = None

    def _change(self, event: ev.InstanceChanged) -> None:
        """Put another declaration in force; what was learned stays, but of gates that changed."""
        if event.declaration == self.text:
            return
        first, self.text = not self.text, event.declaration
        if first:
            return
        prepared, self._prepared = self._prepared, None
        if prepared is None or prepared[0] != event.declaration:
            read = declaration.parse(event.declaration, is_recorded=True)
            prepared = event.declaration, read
        declared = prepared[1]
        check_change(self.declared, declared)
        kernels = kernels_under(self, declared)
        self.declared, self.instance = declared, declared.instance
        self.state.kernels = kernels

    def prepare(self, text: str, declared: Declaration) -> None:
        """Hear what a declaration was read as that is about to be put in force."""
        self._prepared = text, declared

    def time_of(self, number: int) -> int:
        """Return when an event happened, µs."""
        return self._story.time_of(number)

    def past_after(self, to: int) -> Past:
        """Return what was known after so many events, from the snapshot before them.

        Ways back before those events are gone over once, however many come after them.
        """
        pasts = {} if self._pasts is None else self._pasts
        if to not in pasts:
            past = self._folded(to, pasts)
            pasts[to] = past, past.kept.weights
            past.kept, past.stored = Kept(), StoredRecords(past._story, past)
            past.records = past.stored
        past, weights = pasts[to]
        return replace(self._seen_from_here(past), weights=weights)

    def _folded(self, to: int, pasts: Pasts) -> Live:
        """Fold the chain up to an event once more."""
        return opened(self.store, self.chain, to, pasts)

    def _seen_from_here(self, past: Live) -> Past:
        """Return what was known then; of gates that were others then, nothing is."""
        self.check_whole(past)
        found = past.as_past()
        if past.text == self.text:
            return found
        return replace(found, state=replace(past.state, kernels=kernels_under(past, self.declared)))

    def check_whole(self, past: Live) -> None:
        """Refuse what was known at a time of which contexts were erased since."""
        if past.is_lossy and not self.is_lossy:
            raise Conflict(
                f"to: what was known after {len(past.events)} events cannot be worked out any "
                "more, since contexts that taught before were erased"
            )

    def held(self) -> list[Case]:
        """Return the decisions that wait for a person, oldest first."""
        return [self[id] for id in self.waiting]

    # Snapshots

    def to_snapshot(self, last: bytes) -> Snapshot:
        """Write everything known down, under the chain's key where subjects' contexts are in it.

        `last` is the hash of the last entry that was folded.
        """
        body = self.to_bytes()
        if self.kept.keys or self.erasures:
            body = self.sealer.boxed(body, self.erasures)
        return Snapshot.of(self.chain, len(self.events), last, body)

    def to_bytes(self) -> bytes:
        """Write everything known down; decisions are found by their events."""
        kept = self.kept.log
        head: dict[str, Any] = {
            "format": FORMAT,
            **self.rules(),
            "units": list(self.units),
            "room": int(self.group.size),
            "discounts": self.discounts,
            "voids": self.voids,
            "history": self.history_at,
            "waiting": [[getattr(w, f.name) for f in fields(w)] for w in self.waiting.values()],
            "fitted": self.fitted_at,
            "at": self.at,
            "by": self.by,
            "drawn": self.drawn,
        }
        arrays = {"state": np.frombuffer(to_bytes(self.state), np.uint8)}
        if kept is not None:
            columns = {f"kept.{f.name}": getattr(kept, f.name) for f in fields(Log)}
            arrays |= {name: column for name, column in columns.items() if column is not None}
            arrays["numbers"] = self.kept.numbers
            if not self.kept.is_plain:
                arrays["places"] = self.kept.places
                head["keys"] = list(self.kept.keys)
        if self.erasures:
            head |= {"erased": sorted(self.erased), "erasures": self.erasures}
        return pack(head, arrays)

    def rules(self) -> dict[str, Any]:
        """Return which rules are in force, as a snapshot has them."""
        return {
            "text": self.text,
            "seed": self.seed,
            "paused": _told(self.paused),
            "retired": _told(self.retired),
            "set_back": _told(self.set_back),
            "proposals": [[n, *_told(told)] for n, told in self.proposals.items()],
        }

    def restore(self, snapshot: Snapshot) -> None:
        """Take over what a snapshot of this chain says, as `unsealed` returns it.

        Not the rules in force: who restores has them from the chain.
        """
        found = unpack(snapshot.body)
        if format_of(found) != FORMAT:
            raise InvalidInput(f"snapshot: expected format {FORMAT}, got {found['format']}")
        self._story = Story(self.store, self.chain, snapshot.size)
        self.events, self.stored = self._story, StoredRecords(self._story, self)
        self.records = self.stored
        self.units = {name: place for place, name in enumerate(found["units"])}
        self.erased, self.erasures = set(found.get("erased", ())), found.get("erasures", 0)
        self._take_learners(found)
        self.discounts = [(since, factor) for since, factor in found["discounts"]]
        self.voids = [(start, stop) for start, stop in found["voids"]]
        self.waiting = {one[0]: Waiting(*one) for one in found["waiting"]}
        self.fitted_at, self.at, self.by = found["fitted"], found["at"], found["by"]
        self.drawn = dict(found["drawn"])
        self.history_at = found["history"]
        if self.history_at is not None:
            history = self.events[self.history_at]
            self.history = history if isinstance(history, ev.HistoryImported) else None

    def _take_learners(self, found: dict[str, Any]) -> None:
        """Take over what the learners know, and the rows that were kept."""
        room, state = found["room"], found["state"].tobytes()
        # A few arrays may be missing: states of earlier versions do not have them.
        if type(room) is not int or not 0 < self.bytes_for(room) <= 16 * len(state) + 2**20:
            raise InvalidInput(f"snapshot: {len(state)} bytes hold no state of {room} units")
        self.state, self.group = self.room(room)
        self.state = from_bytes(state, self.state)
        columns = {
            f.name: found[f"kept.{f.name}"].copy() for f in fields(Log) if f"kept.{f.name}" in found
        }
        log, numbers = None, np.zeros(0, dtype=np.int64)
        if columns:
            log, numbers = Log(**{"scale": None} | columns), found["numbers"].copy()
        places = found.get("places")
        self.kept.put(
            log, numbers, None if places is None else places.copy(), found.get("keys", ())
        )


# Folds up to events that learners were put back to, and how far each row counted there.
Pasts = dict[int, tuple[Live, Weights]]


def sealed_state(sealer: Sealer, event: ev.StateSealed) -> dict[str, Any] | None:
    """Read a state that was sealed; None where its key was replaced since."""
    try:
        body = sealer.unboxed(base64.b64decode(event.state, validate=True))
        return None if body is None else unpack(body)
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise BrokenChain(f"a sealed state cannot be read ({error})") from error


def opened(store: Store, chain: str, to: int | None = None, pasts: Pasts | None = None) -> Live:
    """Fold a chain up to an event, from the latest snapshot before it.

    `pasts` are folds up to earlier events that learners were put back to, where some are known.
    """
    size = store.head(chain).size if to is None else to
    live = restored(Live, store, chain, size) or begun(store, chain)
    live._pasts = {} if pasts is None else pasts
    follow(live, store.read(chain, len(live.events), size))
    live._pasts = None  # from here on events come one by one, and nothing is kept for long
    return live


L = TypeVar("L", bound=Live)


def restored(kind: type[L], store: Store, chain: str, size: int) -> L | None:
    """Return what the latest snapshot of at most `size` entries says; None: none can be used.

    The rules in force (declaration, seed, pause, end, changes that wait) are read from the chain's
    own entries. Its time and author are compared with the last entry, and since when each hold
    waits, and at which gate, with the entries that say so. A snapshot that tells any of it
    otherwise, or that is not bound to the chain as it stands, is refused: somebody has changed one
    of the two. Then an earlier one is tried.
    """
    stored = store.snapshot(chain, size)
    while stored is not None and stored.size > 0:
        try:
            live = _restored(kind, store, stored)
            if live is not None:
                return live
        except StoreError:
            raise  # the store is in trouble; that says nothing about the snapshot
        except Exception as error:  # whatever somebody put there, the chain can be folded
            log.error(
                "instance %s: its snapshot after %d entries is not used, it does not fit the "
                "chain (%s); check with gdcb ledger verify who changed it",
                chain,
                stored.size,
                error,
            )
        stored = store.snapshot(chain, stored.size - 1)
    return None


def format_of(found: dict[str, Any]) -> int:
    """Return the number of a snapshot's format; refuse one that this version does not know."""
    number = found.get("format")
    if type(number) is not int or not 1 <= number <= FORMAT:
        said = repr(number)[:40]
        raise InvalidInput(f"expected a format from 1 to {FORMAT}, got {said}")
    return number


def _restored(kind: type[L], store: Store, stored: Snapshot) -> L | None:
    """Take a snapshot over; None: it is of another version, or its key was destroyed."""
    chain, size = stored.chain, stored.size
    snapshot = unsealed(store, stored)
    head = {} if snapshot is None else unpack(snapshot.body)
    if snapshot is None or format_of(head) != FORMAT:
        return None
    (last,) = store.get(chain, [size - 1])
    if not stored.is_after(last.hash):
        raise Conflict("its digest is another one")
    acts = store.acts(chain, size)
    for entry in acts:
        if not is_as_written(entry):
            raise Conflict(f"entry {entry.seq} is not as it was written")
    declared = [event for event in map(_act, acts) if isinstance(event, ev.InstanceChanged)]
    if not declared or acts[0].seq != 0:
        raise UnknownInstance(f"no instance '{chain}' in this ledger")
    text, seed = declared[-1].declaration, declared[0].seed
    live = kind(store, chain, declaration.parse(text, is_recorded=True), seed)
    live.text = text
    for entry in acts:
        live.at, live.by = entry.at, entry.by
        live.note_rule(_act(entry), entry.seq)
    live.restore(snapshot)
    told = live.rules()
    odd = [name for name in told if told[name] != head.get(name)]
    if odd:
        raise Conflict(f"it says otherwise which {', '.join(odd)} is in force")
    _check_time(live, last)
    _check_waiting(live)
    return live


def _check_time(live: Live, last: Entry) -> None:
    """Compare the time and author with the last entry, and the time of the refit with all before.

    A chain's time never goes back: from a time ahead of the clock on, it would stand still.
    """
    if not is_as_written(last):
        raise Conflict(f"entry {last.seq} is not as it was written")
    if (live.at, live.by) != (last.at, last.by):
        raise Conflict("it says otherwise when its last entry was written, or by whom")
    if live.fitted_at > last.at:
        raise Conflict("it says that the scaler was refitted after its last entry")


def _check_waiting(live: Live) -> None:
    """Compare holds with the chain: since when they wait, as deadlines rest on it, and the gate.

    What a snapshot leaves out is found where it is answered (`gdcb.service.answering`).
    """
    every, size = list(live.waiting.values()), len(live.events)
    for start in range(0, len(every), _AT_ONCE):
        some = every[start : start + _AT_ONCE]
        # Whom to ask comes after the verdict, behind what was let through at once.
        near = {one.number + after for one in some for after in range(3)}
        asked = sorted(number for number in near if 0 <= number < size)
        entries = live.store.get(live.chain, asked)
        since = {entry.seq: entry.at for entry in entries}
        gates = {entry.seq: _held_by(entry) for entry in entries}
        for one in some:
            if one.since != since[one.number] or one.id not in gates[one.number]:
                raise Conflict(f"it says otherwise since when decision {one.id} waits")
            after = (gates.get(one.number + 1, {}), gates.get(one.number + 2, {}))
            if one.gate not in (held.get(one.id) for held in after):
                raise Conflict(f"it says otherwise which gate holds decision {one.id}")


def _held_by(entry: Entry) -> dict[str, str]:
    """Return the decisions that an entry says are held, with the gate where it names that."""
    if entry.kind not in ("GateApplied", "ReviewRequested"):
        return {}
    if not is_as_written(entry):
        raise Conflict(f"entry {entry.seq} is not as it was written")
    event = from_body(entry.kind, entry.body)
    if isinstance(event, ev.ReviewRequested):
        return dict(zip(event.id, event.gate, strict=True))
    if isinstance(event, ev.GateApplied):
        return {event.id[row]: "" for row in np.flatnonzero(event.status == HELD).tolist()}
    return {}


def _act(entry: Entry) -> ev.Event:
    return from_body(entry.kind, entry.body)


def begun(store: Store, chain: str) -> Live:
    """Return a chain's instance before its first event, which declares it."""
    first = next(iter(store.read(chain, 0, 1)), None)
    event = None
    if first is not None:
        _check_written(first, GENESIS)
        event = from_body(first.kind, first.body)
    if not isinstance(event, ev.InstanceChanged):
        raise UnknownInstance(f"no instance '{chain}' in this ledger")
    return Live(store, chain, declaration.parse(event.declaration, is_recorded=True), event.seed)


def follow(live: Live, entries: Iterable[Entry], last: bytes | None = None) -> None:
    """Fold entries that come next; refuse to go by one that somebody has changed.

    `last` is the hash of the entry before them; it is read from the store where it is not given.
    """
    for entry in entries:
        if entry.seq != len(live.events):
            raise BrokenChain(f"entry {entry.seq} came where {len(live.events)} was expected")
        if last is None:
            last = _hash_before(live.store, entry)
        _check_written(entry, last)
        last = entry.hash
        live.take(live.event_of(entry), entry.at, entry.by)


def _hash_before(store: Store, entry: Entry) -> bytes:
    if entry.seq == 0:
        return GENESIS
    (before,) = store.get(entry.chain, [entry.seq - 1])
    return before.hash


def _check_written(entry: Entry, before: bytes) -> None:
    """Refuse an entry that has not the hash of what it says, or does not follow the one before."""
    if not is_as_written(entry) or entry.prev != before:
        raise BrokenChain(
            f"chain '{entry.chain}': entry {entry.seq} is not as it was written; nothing is done "
            "by it. Check with gdcb ledger verify what was changed, and put a backup back"
        )


def _told(told: tuple[Any, int, str] | None) -> list[Any]:
    return [] if told is None else [to_json(told[0]), told[1], told[2]]
