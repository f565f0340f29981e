"""What a webhook says: one message a decision, or one about the instance as a whole."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from gdcb import events as ev
from gdcb.cases import about
from gdcb.errors import InvalidInput
from gdcb.ledger.entry import Entry
from gdcb.service.answering import written
from gdcb.service.webhooks.past import Past
from gdcb.service.who import name_of

Message = dict[str, Any]

# What may be asked for, and what it means.
KINDS = {
    "held": "a gate holds a decision until a person answers",
    "approved": "a person approved or edited a held decision, and it was let through",
    "vetoed": "a person vetoed a held decision, or a gate behind them did",
    "expired": "nobody answered a held decision in time",
    "executed": "something ran, or the null action did",
    "outcome": "an outcome came in, or was corrected",
    "paused": "the instance decides nothing for now",
    "resumed": "the instance decides again",
    "changed": "another declaration is in force",
    "retired": "the instance is at its end",
}
# Which kinds of message an entry may lead to; entries of other kinds are not even read.
_FROM = {
    "ReviewRequested": ("held",),
    "Reviewed": ("approved", "vetoed"),
    "Expired": ("expired",),
    "ActionExecuted": ("executed",),
    "OutcomeObserved": ("outcome",),
    "OutcomeCorrected": ("outcome",),
    "Paused": ("paused",),
    "Resumed": ("resumed",),
    "InstanceChanged": ("changed",),
    "Retired": ("retired",),
}
# The verdict that an answer leads to is the entry behind it.
_ANSWERED = (ev.Reviewed, ev.Expired)
_BY_STATUS = {"passed": "approved", "modified": "approved", "vetoed": "vetoed"}


def check_kinds(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return kinds of message in our order, each once; refuse one that there is not, or none.

    >>> check_kinds(["executed", "held"])
    ('held', 'executed')
    """
    wanted = [kinds] if isinstance(kinds, str) else list(kinds)
    unknown = [kind for kind in wanted if kind not in KINDS]
    if unknown or not wanted:
        got = repr(unknown[0])[:80] if unknown else "none"
        raise InvalidInput(f"kinds: expected some of {', '.join(KINDS)}; got {got}")
    return tuple(kind for kind in KINDS if kind in wanted)


def concerns(kind: str, kinds: Sequence[str]) -> bool:
    """Whether an entry of a kind may lead to a message of one of `kinds`.

    >>> concerns("Reviewed", ["vetoed"]), concerns("DecisionMade", list(KINDS))
    (True, False)
    """
    return any(possible in kinds for possible in _FROM.get(kind, ()))


def messages_of(past: Past, entry: Entry, kinds: Sequence[str]) -> list[Message]:
    """Return what there is to say about an entry to somebody who asked for `kinds`.

    Ids are ``CHAIN:ENTRY:ROW``: the same whenever a message is sent again.
    """
    if not concerns(entry.kind, kinds):
        return []
    possible, event = _FROM[entry.kind], past.event(entry)
    ids = about(event)
    if not ids:
        return [_message(entry, 0, possible[0]) | {"reason": getattr(event, "reason", "")}]
    size = entry.seq + (2 if isinstance(event, _ANSWERED) else 1)
    found = []
    for row, decision in enumerate(past.documents(ids, size)):
        kind = possible[0]
        if isinstance(event, ev.Reviewed):
            # Held again, by the next gate: that is a message of its own.
            kind = _BY_STATUS.get(decision["status"], "")
        if kind in kinds:
            found.append(_message(entry, row, kind) | {"decision": decision})
    return found


def _message(entry: Entry, row: int, kind: str) -> Message:
    return {
        "id": f"{entry.chain}:{entry.seq}:{row}",
        "kind": kind,
        "instance": entry.chain,
        "at": written(entry.at),
        "by": name_of(entry.by),
        "entry": entry.seq,
    }


def body_of(hook: str, messages: Sequence[Message]) -> bytes:
    """Return the body of a POST: valid JSON, with null where a number is not finite."""
    told = {"hook": hook, "messages": list(messages)}
    try:
        text = json.dumps(told, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(told), allow_nan=False, separators=(",", ":"))
    return text.encode()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list) else value
