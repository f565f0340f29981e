"""Answer held decisions: approve, edit, veto, or let them expire; exactly one answer counts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gdcb import events as ev
from gdcb.arguments import check_review, check_verdict
from gdcb.cases import Record
from gdcb.errors import BrokenChain, Conflict, InvalidInput, UnknownDecision
from gdcb.instance import Instance
from gdcb.ledger.live import Live
from gdcb.ledger.story import request_of
from gdcb.outlook import WORDS
from gdcb.service.deciding import check_open, document, follow
from gdcb.service.holding import Then, if_approved, offered, settings_behind
from gdcb.service.policy import Policy
from gdcb.service.turn import TooLate, Turn
from gdcb.service.who import called, is_same, name_of

SECOND = 1_000_000


class Decided(Conflict):
    """Somebody else was first; `decided` says who decided what, and when."""

    def __init__(self, message: str, decided: dict[str, Any]) -> None:
        super().__init__(message)
        self.decided = decided


class Stale(Conflict):
    """What the reviewer saw is no longer what there is to decide."""


class OwnProposal(Conflict):
    """Nobody approves what they proposed."""


@dataclass(frozen=True, slots=True)
class Review:
    """A person's answer.

    Parameters
    ----------
    id, verdict, action : which decision; 'approve', 'edit' with an action by name, or 'veto'
    by, code, reason : who, why as a code of the policy, and in words
    version, content : what the reviewer was shown: the verdict's number, and `content_of` it
    """

    id: str
    verdict: str
    action: Mapping[str, Any] | None
    by: str
    code: str
    reason: str
    version: int
    content: str


def find(live: Live, id: str) -> Record:
    """Return a decision; refuse an id that is none."""
    record = live.records.find(id)
    if record is None:
        raise UnknownDecision(f"no decision {id!r} was made here")
    return record


def content_of(live: Live, record: Record) -> str:
    """Return the hash of what a reviewer decides on: input, proposal, verdict so far.

    While it is held, three hashes stand in it: of the case with what an approval lets through, of
    what would then run behind the gates in force, and of those gates' settings. Each answer is
    bound to the parts that it relies on (`_RELIES`).
    """
    shown: dict[str, Any] = {
        "chain": live.chain,
        "decision": document(live.instance, record),
        "x": record.made.x[record.at].tolist(),
    }
    if record.status == "held":
        shown["offered"] = offered(record).tolist()
    if record.made.sealed is not None:
        # The hash is written down: it must not let anybody guess at what was erased.
        shown["x"] = record.made.sealed[record.at]
        shown["decision"] |= {"reason": ""}
    case = _hash(shown)
    then, held = if_approved(live, record), record.verdict
    if then is None or held is None:
        return case[:32]
    gates = _hash(settings_behind(live.instance, int(held.gate[0])))
    # Of personal fields what would run may tell, so there the settings of the gates stand for it.
    is_personal = record.made.sealed is not None
    runs = gates if is_personal else _hash([then.status, then.action.tolist(), _next(then)])
    return f"{case[:24]}-{runs[:19]}-{gates[:19]}"


def _next(then: Then) -> str:
    """Return the gate whose person an approval would lead to; empty: it leads to none."""
    return then.gates[-1] if then.status == "held" else ""


def _hash(shown: Any) -> str:
    text = json.dumps(shown, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


# Which parts of the hash an answer relies on: 0 the case, 1 what runs if it is approved, 2 the
# gates behind. A veto runs nothing whatever they are; what an edit runs depends on all of them.
_RELIES = {"approve": (0, 1), "edit": (0, 2), "veto": (0,)}


def _check_seen(live: Live, record: Record, answer: Review) -> None:
    """Refuse an answer that relies on what is no longer the case."""
    seen, known = answer.content.split("-"), content_of(live, record).split("-")
    is_same_case = len(seen) == len(known) and seen[0] == known[0]
    if answer.version != record.judged_at or not is_same_case:
        versions = (
            f" (you saw version {answer.version}, it is version {record.judged_at})"
            if answer.version != record.judged_at
            else ""
        )
        raise Stale(
            f"decision {answer.id} is no longer what you saw{versions}; look again and decide on "
            "what is there now"
        )
    if any(seen[part] != known[part] for part in _RELIES[answer.verdict]):
        then = if_approved(live, record)
        now = "" if then is None else f" (an approval {_said(live.instance, then)} now)"
        raise Stale(
            f"decision {answer.id}: the gates behind you have changed since you looked{now}; look "
            "again and decide on what is there now"
        )


def _said(instance: Instance, then: Then) -> str:
    """Say what an approval would do now, as the end of a sentence."""
    named = instance.named_action(then.action.tolist())
    words = ", ".join(f"{name} {value}" for name, value in (named or {}).items())
    if then.status == "held":
        return f"would send {words} on to '{_next(then)}'"
    return "would run nothing" if then.status == "vetoed" else f"would run {words}"


def review(turn: Turn, answer: Review) -> Record:
    """Take a person's answer to a held decision; what they let through meets the other gates."""
    live, record = turn.live, check(turn, answer)
    edited = None
    if answer.action is not None:
        edited = live.instance.encode_action(answer.action).tolist()
    event = ev.Reviewed(answer.id, answer.verdict, edited, answer.by, answer.reason, answer.code)
    check_review(live.instance, event)
    if answer.verdict != "veto":
        turn.commit_before(deadline(live, turn.policy, answer.id))
    _take(turn, record, event, answer.by)
    return record


def check(turn: Turn, answer: Review) -> Record:
    """Refuse an answer that does not count: late, unseen, one's own; in a pause nothing runs."""
    live, codes = turn.live, turn.policy.codes
    record = find(live, answer.id)
    check_verdict(answer.verdict, answer.action is not None)
    if answer.code not in codes:
        raise InvalidInput(f"code: expected one of {', '.join(codes)}; got {answer.code!r}")
    check_waiting(live, record)
    _check_seen(live, record, answer)
    if answer.verdict == "veto":
        return record
    check_open(turn)
    check_in_time(turn, answer.id)
    asked_by = record.made.by[record.at] if record.made.by is not None else ""
    if is_same(asked_by, answer.by):
        raise OwnProposal(
            f"decision {answer.id} was asked for by {called(asked_by, answer.by)}; somebody else "
            "answers"
        )
    return record


def check_in_time(turn: Turn, id: str) -> None:
    """Refuse to let a decision through at or after its deadline, by the time of the transaction.

    From then on the policy decides, whether or not the schedule has come to it already. A veto is
    not asked this: it lets nothing run, so it counts as long as the decision is held.
    """
    due = deadline(turn.live, turn.policy, id)
    if due is not None and turn.now >= due:
        raise TooLate(
            f"decision {id} expired at {written(due)}, and it is {written(turn.now)} now: it can "
            "no longer be approved or edited"
        )


def expire(turn: Turn, id: str) -> Record:
    """End a hold that nobody answered in time, as the policy says; it is never approved."""
    live, policy = turn.live, turn.policy
    record = find(live, id)
    check_waiting(live, record)
    due = deadline(live, policy, id)
    if due is None or turn.now < due:
        raise Conflict(f"decision {id} has not expired: its time is not over")
    action = None
    if policy.expiry.then == "fallback" and policy.expiry.fallback is not None:
        check_open(turn)  # nothing but the null action runs in a pause
        action = live.instance.encode_action(policy.expiry.fallback).tolist()
    said = f"nobody answered within {policy.expiry.after:g} seconds"
    _take(turn, record, ev.Expired(id, said, action), "policy")
    return record


def _take(turn: Turn, record: Record, event: ev.Reviewed | ev.Expired, by: str) -> None:
    rows, judged = record.rows, turn.live.answered(record, event)
    turn.add(event, by)
    follow(turn, judged, rows, by)


def deadline(live: Live, policy: Policy, id: str) -> int | None:
    """Return when a held decision expires, µs; None: it waits, or is not held."""
    waiting = live.waiting.get(id)
    if waiting is None or policy.expiry.then == "wait":
        return None
    return waiting.since + round(policy.expiry.after * SECOND)


def overdue(live: Live, policy: Policy, now: int) -> list[str]:
    """Return the held decisions whose time is over."""
    is_stopped = live.paused is not None or live.retired is not None
    if policy.expiry.then == "wait" or (policy.expiry.then == "fallback" and is_stopped):
        return []
    limit = now - round(policy.expiry.after * SECOND)
    return [id for id, waiting in live.waiting.items() if waiting.since <= limit]


def check_waiting(live: Live, record: Record) -> None:
    """Refuse an answer to what is not held, and say who was first."""
    if record.status == "held" and record.review is None:
        waiting = live.waiting.get(record.id)
        if waiting is None or waiting.number != record.judged_at:
            raise BrokenChain(
                f"decision {record.id} is held, and what this service knows of its deadline is not "
                "what the ledger says; check with gdcb ledger verify who changed a snapshot"
            )
        return
    decided = decided_by(live, record)
    if decided is None:
        raise Conflict(f"decision {record.id} is not held; it is {record.status}")
    raise Decided(
        f"decision {record.id} was {decided['what']} by {decided['by']} at {decided['at']}",
        decided,
    )


def decided_by(live: Live, record: Record) -> dict[str, Any] | None:
    """Return who gave the last answer to a decision, what it was, and when; None: nobody did."""
    if not record.answers:
        return None
    request, row, _ = request_of(record.id)
    slot = f"review:{record.answers - 1}"
    touches = [*live.store.touches(live.chain, [request]), *live.stored.touches]
    seqs = [t.seq for t in touches if t.request == request and t.row == row and t.slot == slot]
    if not seqs:
        return None
    number = seqs[-1]
    event = live.events[number]
    at = live.time_of(number)
    said = {"at": written(at), "time": at, "entry": number}
    if isinstance(event, ev.Reviewed):
        what, by = WORDS[event.verdict], name_of(event.by)
        return {"what": what, "by": by, "reason": event.reason, "code": event.code} | said
    reason = event.reason if isinstance(event, ev.Expired) else ""
    return {"what": "expired", "by": "policy", "reason": reason, "code": ""} | said


def written(at: int) -> str:
    """Write a time as ISO 8601, UTC, to the millisecond.

    >>> written(0)
    '1970-01-01T00:00:00.000Z'
    """
    moment = datetime.fromtimestamp(at / SECOND, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at // 1000 % 1000:03d}Z"


def show(turn: Turn, id: str, by: str) -> str:
    """Write down that a person opened a held decision; return the hash of what they are shown."""
    record = find(turn.live, id)
    content = content_of(turn.live, record)
    if record.status == "held":
        turn.add(ev.Shown(id, by, content), by)
    return content


def bulk(turn: Turn, answers: Sequence[Review]) -> list[Record]:
    """Take several answers at once: to holds of one rule, and not more than the policy allows."""
    if not answers:
        raise InvalidInput("decisions: expected at least one, got none")
    if len(answers) > turn.policy.bulk:
        raise InvalidInput(
            f"decisions: at most {turn.policy.bulk} are answered together, got {len(answers)}"
        )
    if len({one.id for one in answers}) < len(answers):
        raise InvalidInput("decisions: one is named twice")
    for one in answers:
        if one.verdict == "edit":
            raise InvalidInput("verdict: decisions are edited one by one")
    gates = set()
    for one in answers:  # all are checked before the first is answered
        check(turn, one)
        gates.add(turn.live.waiting[one.id].gate)
    if len(gates) > 1:
        held = ", ".join(sorted(gates))
        raise InvalidInput(f"decisions: expected holds of one rule, got {held}")
    return [review(turn, one) for one in answers]
