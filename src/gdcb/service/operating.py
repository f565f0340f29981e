"""Operate an instance: declare it, change it under four eyes, pause, refit, put learners back."""

from __future__ import annotations

import secrets
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from gdcb import declaration
from gdcb import events as ev
from gdcb.agent import Agent
from gdcb.arguments import check_discount, check_rollback, check_said
from gdcb.codec import to_body
from gdcb.declaration import Declaration
from gdcb.errors import Conflict, InvalidInput
from gdcb.ledger.changing import check_change
from gdcb.ledger.entry import Draft
from gdcb.ledger.live import Live
from gdcb.ledger.store import Store
from gdcb.parts import check_text, fingerprint_of
from gdcb.service.access import EVERY
from gdcb.service.access.names import clean
from gdcb.service.answering import OwnProposal, expire, overdue
from gdcb.service.deciding import check_memory
from gdcb.service.desk import Clock, Desk, now
from gdcb.service.line import Job, Overloaded
from gdcb.service.policy import Policy, policy_of
from gdcb.service.turn import Turn
from gdcb.service.who import called, is_same

LONGEST_TEXT = 2_000
# Letters. What a text asks for is limited by `gdcb.declaration` and by its parts, so that the
# costliest one that is taken is read in about a second of one processor.
LARGEST_DECLARATION = 250_000
MOST_OVERDUE = 100  # holds that a change ends by itself; more are left to the schedule
PATIENCE = 1.0  # seconds to wait for whoever else has a declaration read
_reading = threading.Lock()  # one at a time: reading takes a processor, which decisions need


def read_declaration(text: str, where: str = "declaration") -> Declaration:
    """Read a declaration for a service: instance, bandit and policy; refuse what does not fit."""
    check_text(where, text)
    if len(text) > LARGEST_DECLARATION:
        raise InvalidInput(
            f"{where}: expected at most {LARGEST_DECLARATION:,} letters, got {len(text):,}"
        )
    if not _reading.acquire(timeout=PATIENCE):
        raise Overloaded(f"{where}: another one is being read; ask again in a moment")
    try:
        declared = declaration.parse(text, where)
    finally:
        _reading.release()
    policy_of(declared.service, declared.instance)
    if declared.instance.chain.has_person and not any(
        getattr(gate, "holds", False) for gate in declared.instance.chain.gates if gate.is_person
    ):
        raise InvalidInput(f"{where}: its person is simulated; a service asks real people")
    return declared


def create(
    store: Store,
    text: str,
    by: str,
    reason: str,
    *,
    name: str | None = None,
    seed: int | None = None,
    clock: Clock = now,
) -> str:
    """Write an instance's first event; return its name. An instance is declared once.

    Without a `seed` one is drawn, and written down. It alone decides nothing: each request gets a
    nonce, which nobody knows before.
    """
    declared = read_declaration(text)
    chain = declared.instance.name if name is None else name
    check_name(chain)
    check_said("reason", reason, "say why the instance is made")
    seed = secrets.randbits(63) if seed is None else seed
    agent = Agent(declared.instance, declared.bandit, seed)
    event = ev.InstanceChanged(text, seed, agent.fingerprint(), None, reason)
    with store.writing(chain) as writing:
        if writing.head.size:
            raise Conflict(f"instance '{chain}' exists already; propose a change of it instead")
        writing.append([Draft("InstanceChanged", to_body(event), b"", clock(), by)])
    return chain


def check_name(name: str) -> None:
    """Refuse a name that no address can have, that means every instance, or that looks like one."""
    if clean("name", name) != name or "/" in name or name in (EVERY, ".", ".."):
        raise InvalidInput(
            f"name: expected letters that can stand in an address, and no '/' or '*'; got {name!r}"
        )


def propose_change(
    turn: Turn, text: str, reason: str, by: str, declared: Declaration | None = None
) -> int:
    """Propose another declaration; somebody else must agree. Returns the proposal's number.

    `declared` is what `read_declaration` made of the text: read it before the transaction, which
    keeps everybody else waiting.
    """
    check_reason(reason, "say why it should change")
    _check_alive(turn)
    declared = read_declaration(text) if declared is None else declared
    check_change(turn.live.declared, declared)
    if text == turn.live.text:
        raise Conflict("declaration: it is the one in force")
    return turn.add(ev.ChangeProposed(text, reason), by)


@dataclass(frozen=True, slots=True)
class Proposed:
    """A proposed declaration as it was read, and the fingerprint that it will have."""

    text: str
    declared: Declaration
    fingerprint: str


def read_proposal(desk: Desk, proposal: int) -> Proposed | None:
    """Read a proposed declaration outside the transaction that agrees to it; None: none waits."""
    found = desk.look(lambda live: live.proposals.get(proposal)).result()
    return None if found is None else _proposed(found[0].declaration)


def _proposed(text: str) -> Proposed:
    declared = read_declaration(text)
    return Proposed(text, declared, fingerprint_of(declared.instance, declared.bandit))


def agree(
    turn: Turn,
    proposal: int,
    reason: str,
    by: str,
    read: Proposed | None = None,
) -> None:
    """Put a proposed declaration in force; whoever proposed it, by a key of theirs too, cannot.

    `read` is what `read_proposal` returned.
    """
    _check_alive(turn)
    event, _, proposed_by = _proposal(turn, proposal)
    if is_same(proposed_by, by):
        raise OwnProposal(
            f"change {proposal} was proposed by {called(proposed_by, by)}; somebody else must agree"
        )
    if read is None or read.text != event.declaration:
        read = _proposed(event.declaration)
    check_change(turn.live.declared, read.declared)
    end_overdue(turn)
    turn.live.prepare(read.text, read.declared)
    told = reason or event.reason
    turn.add(ev.InstanceChanged(read.text, turn.live.seed, read.fingerprint, proposal, told), by)


def end_overdue(turn: Turn) -> None:
    """End the holds whose time is over by the rules that they had, before others come in force.

    Else a longer time would let people answer what had expired before the schedule came to it.
    """
    due = overdue(turn.live, turn.policy, turn.now)
    if len(due) > MOST_OVERDUE:
        raise Conflict(f"{len(due)} holds have expired and are being ended; agree in a moment")
    for id in due:
        expire(turn, id)


def refuse_change(turn: Turn, proposal: int, reason: str, by: str) -> None:
    """Turn a proposed change down, or withdraw one's own."""
    _proposal(turn, proposal)
    check_reason(reason, "say why it does not come")
    turn.add(ev.ChangeRefused(proposal, reason), by)


def _proposal(turn: Turn, proposal: int) -> tuple[ev.ChangeProposed, int, str]:
    found = turn.live.proposals.get(proposal)
    if found is None:
        raise Conflict(f"change {proposal} does not wait for an answer")
    return found


def pause(turn: Turn, reason: str, by: str) -> bool:
    """Stop proposing at once; returns whether that is news."""
    check_reason(reason, "say why it is paused")
    _check_alive(turn)
    if turn.live.paused is not None:
        return False
    turn.add(ev.Paused(reason), by)
    return True


def resume(turn: Turn, reason: str, by: str) -> bool:
    """Propose again; returns whether that is news."""
    check_reason(reason, "say why it goes on")
    _check_alive(turn)
    if turn.live.paused is None:
        return False
    turn.add(ev.Resumed(reason), by)
    return True


def retire(turn: Turn, reason: str, by: str) -> bool:
    """End an instance: nothing is decided any more, outcomes may still come."""
    check_reason(reason, "say why it ends")
    if turn.live.retired is not None:
        return False
    turn.add(ev.Retired(reason), by)
    return True


def acknowledge(desk: Desk, reason: str, by: str) -> Future[bool]:
    """Write down that somebody knows of an earlier state that was put back, and go on.

    The future says whether it is news.
    """
    return desk.put(Job(lambda turn: _acknowledge(turn, reason, by), despite=True))


def _acknowledge(turn: Turn, reason: str, by: str) -> bool:
    check_reason(reason, "say who put it back, and what became of what ran since")
    if turn.live.set_back is None:
        return False
    turn.add(ev.SetBackAcknowledged(reason), by)
    return True


def refit(turn: Turn, by: str) -> list[int]:
    """Refit the scaler now; returns the versions in force."""
    live = turn.live
    scaler = live.instance.scaler
    if scaler.learns_from == "nothing":
        raise Conflict("refit: the scaler of this instance learns nothing")
    if live.has_large_history:
        raise Conflict("refit: the history's rows were too many to keep, so the scaler stays")
    n = len(live.units) if scaler.per == "unit" else 1
    if n == 0:
        raise Conflict("refit: nothing was decided yet")
    event = live.fitted(list(range(n)))
    turn.add(event, by)
    return event.versions


def roll_back(turn: Turn, to: int, reason: str, by: str) -> None:
    """Put the learners back to what they knew after `to` events."""
    event = ev.RolledBack(to, reason)
    check_rollback(event, len(turn.live.events))
    if to < 1:
        raise InvalidInput("to: expected an event 1 or later; the first declares the instance")
    if to > len(turn.live.events) - len(turn.drafts):  # learners are folded from the store
        raise Conflict(f"to: event {to} is being written; ask once more")
    turn.add(event, by)


def discount(turn: Turn, factor: float, since: int, gate: str | None, reason: str, by: str) -> None:
    """Let old evidence count for less."""
    event = ev.EvidenceDiscounted(factor, since, gate, reason)
    check_discount(turn.live.instance, event, len(turn.live.events))
    turn.live.discounted(event)  # refused here, where it is
    turn.add(event, by)


def check_history(live: Live, policy: Policy, source: Any = None) -> None:
    """Refuse a history that comes too late, or again, or whose units do not fit; before it is read.

    `source` is the log, where it has been opened already.
    """
    if live.units and live.history is None:
        raise Conflict("history: it comes before the first decision, and some were made")
    if source is not None:
        live.check_new(source.fingerprint)
        check_memory(live, max(len(source.units), 1), policy.memory)


def take_history(
    turn: Turn,
    source: Any,
    certificate: Any,
    settings: dict[str, Any],
    by: str,
    foreseen: ev.HistoryImported | None = None,
) -> bool:
    """Start from a log that was certified; returns whether it was taken.

    `foreseen` is what `Live.foresee_import` gave before: with many units it takes seconds, for
    which nobody else could write.
    """
    live = turn.live
    check_history(live, turn.policy, source)
    event = foreseen or live.foresee_import(source, certificate, settings)
    if event is None:
        document = certificate.as_json()
        turn.add(ev.CertificateGiven(str(source.name), source.fingerprint, document), by)
        return False
    turn.add(event, by)
    return True


def _check_alive(turn: Turn) -> None:
    if turn.live.retired is not None:
        event, _, by = turn.live.retired
        raise Conflict(f"the instance was retired by {by}: {event.reason}")


def check_reason(reason: str, what: str) -> None:
    """Refuse a reason that says nothing, or too much."""
    check_said("reason", reason, what)
    if len(reason) > LONGEST_TEXT:
        raise InvalidInput(f"reason: expected at most {LONGEST_TEXT} letters")
