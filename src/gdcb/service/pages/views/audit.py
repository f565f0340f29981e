"""What an auditor sees: search, and the evidence of one decision."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from gdcb.service.pages.views.decision import Action, GateStep, Quantity
from gdcb.service.pages.views.frame import View
from gdcb.service.pages.views.review import Factor

STATUSES = ("passed", "modified", "vetoed", "held", "expired")


@dataclass(frozen=True, slots=True)
class AuditFilters:
    """What the address asks for; empty means all. `since` and `until` are days, YYYY-MM-DD."""

    id: str = ""
    unit: str = ""
    who: str = ""
    status: str = ""
    rule: str = ""
    since: str = ""
    until: str = ""

    def query(self) -> dict[str, str]:
        """Return the fields that are set, as an address has them."""
        fields = {
            "id": self.id,
            "unit": self.unit,
            "who": self.who,
            "status": self.status,
            "rule": self.rule,
            "from": self.since,
            "to": self.until,
        }
        return {name: value for name, value in fields.items() if value}


@dataclass(frozen=True, slots=True)
class Found:
    """One decision that the search found."""

    id: str
    at: int
    unit: str
    action: Action
    status: str
    rule: str = ""
    who: str = ""
    outcome: float | None = None
    entry: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditView(View):
    """A search over decisions; everything it needs is in the address.

    Parameters
    ----------
    total : how many were found; None: more than were counted
    before, after : cursors of the pages on both sides, empty where there is none
    problem : what is wrong with the question, in a sentence
    """

    template: ClassVar[str] = "audit.html"

    filters: AuditFilters = field(default_factory=AuditFilters)
    rows: tuple[Found, ...] = ()
    total: int | None = None
    rules: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the chain about this decision."""

    seq: int
    at: int
    by: str
    kind: str
    words: str = ""
    hash: str = ""


@dataclass(frozen=True, slots=True)
class Chance:
    """An arm, the probability with which it was drawn, and the value it was drawn with."""

    arm: str
    probability: float | None
    drawn: float | None = None
    is_chosen: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """Who saw the decision, when, what they did, the coded reason, and why in their words."""

    by: str
    at: int
    what: str
    code: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Proof:
    """How the row hangs in the chain.

    Parameters
    ----------
    row : number of the row in its entry, and `leaf` its hash
    path : (side, hash) from the leaf up; side is 'left' or 'right'
    root : Merkle root of the entry; `entry`, `previous` are hashes in the chain
    is_whole : whether the path leads to the root, or None: not checked
    """

    row: int
    leaf: str
    path: tuple[tuple[str, str], ...]
    root: str
    entry: str
    previous: str
    is_whole: bool | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """Whether the decision, made again from the chain, is the same: field by field."""

    at: int
    is_equal: bool
    words: str = ""
    differences: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceView(View):
    """All that is known of one decision, in the order in which it happened.

    Parameters
    ----------
    executed : what really ran, empty where nothing did; None: it is not known yet
    outcome : what was observed; `corrections` are in the timeline
    learner : versions: instance, learner, scaler
    """

    template: ClassVar[str] = "evidence.html"

    id: str
    unit: str
    status: str
    at: int
    proposed: Action = ()
    executed: Action | None = None
    rule: str = ""
    timeline: tuple[Entry, ...] = ()
    context: tuple[Quantity, ...] = ()
    chances: tuple[Chance, ...] = ()
    factors: tuple[Factor, ...] = ()
    composition: str = ""
    nominal: Action = ()
    gates: tuple[GateStep, ...] = ()
    seen: tuple[Seen, ...] = ()
    outcome: tuple[Quantity, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    proof: Proof | None = None
    replay: Replay | None = None
