"""What happened, in the past tense: plain records that an agent folds and a ledger stores.

Every field is JSON: numbers that are not there are null, arrays are lists.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Any

from gdcb.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class DecisionMade:
    """A nominal arm was proposed.

    Parameters
    ----------
    id : decision id
    batch, row : what its random numbers are keyed by
    version : how many events the state behind it had folded
    unit : whose learner decided
    x, mask : context as encoded, allowed arms (null: all)
    arm, action : proposed arm and composed action
    delta, scaler_version : δ and the version of the fit behind it
    worth : drawn value of every arm behind the gate, null where masked
    """

    id: str
    batch: str
    row: int
    version: int
    unit: str
    x: list[float]
    mask: list[bool] | None
    arm: int
    action: list[float | None]
    delta: list[list[float | None]]
    scaler_version: int
    worth: list[float | None]


@dataclass(frozen=True, slots=True)
class GateApplied:
    """The gates answered: what entered and left each of them, and why."""

    id: str
    status: str
    action: list[float | None]
    trail: list[list[float | None]]
    statuses: list[int]
    faults: dict[str, str]
    reason: str


@dataclass(frozen=True, slots=True)
class ReviewRequested:
    """A gate holds the decision until a person answers."""

    id: str
    gate: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A person approved, edited or vetoed a held decision."""

    id: str
    verdict: str
    action: list[float] | None
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Expired:
    """Nobody answered in time; an expired hold is never an approval."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ActionExecuted:
    """What really ran: what was let through, or the null action."""

    id: str
    action: list[float | None]
    is_null: bool


@dataclass(frozen=True, slots=True)
class OutcomeObserved:
    """The outcome of an executed decision came in, with the scaler's labels where there are."""

    id: str
    outcome: list[float]
    label: list[float | None] | None
    weight: float


@dataclass(frozen=True, slots=True)
class LabelObserved:
    """The scaler's labels of a decision came in after its outcome."""

    id: str
    label: list[float | None]


@dataclass(frozen=True, slots=True)
class ScalerFitted:
    """Scalers were refitted and put in force; arm statistics were refolded."""

    owners: list[int]
    versions: list[int]


@dataclass(frozen=True, slots=True)
class AppealDecided:
    """An appeal against an executed decision was upheld or turned down.

    It comes after the fact and undoes nothing: what ran has run, and its outcome is still the
    outcome of what ran. So it teaches no learner; it is kept for people and for audits.

    Parameters
    ----------
    id : decision id
    upheld : whether the appeal was upheld: the decision is held to be wrong
    by, reason : who decided, and why
    """

    id: str
    upheld: bool
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class HistoryImported:
    """Both loops were started from a log of past decisions, as its certificate says.

    Parameters
    ----------
    log, fingerprint : the log's name, and a hash of its content
    units : names of its units, in the order of their places
    settings : level, margin and, where a person overrode the verdict, the reason
    certificate : the whole certificate
    rows : the log's rows, as text; null where they were too many to keep
    state : what both loops knew afterwards, as text; null where the rows are kept
    """

    log: str
    fingerprint: str
    units: list[str]
    settings: dict[str, Any]
    certificate: dict[str, Any]
    rows: str | None
    state: str | None


@dataclass(frozen=True, slots=True)
class DriftFound:
    """A monitor gave the alarm: something is no longer as it was. It teaches nobody.

    Parameters
    ----------
    monitor : what it watches, such as 'reward' or 'gate owner: how often it acts'
    since : how many events there were when the change began, as estimated
    before, after : what the monitor expected, and what it saw since then, in its own units
    log_e, limit : logarithm of its e-value, and of what it had to reach
    level : false-alarm rate that all monitors share
    says : the same in a sentence
    """

    monitor: str
    since: int
    before: float
    after: float
    log_e: float
    limit: float
    level: float
    says: str


@dataclass(frozen=True, slots=True)
class EvidenceDiscounted:
    """Old evidence was made to count for less.

    Parameters
    ----------
    factor : share of its weight that it keeps
    since : outcomes (or verdicts) from this event on keep all of theirs; 0 is the first event
    gate : the gate whose learned verdicts are meant; null: what outcomes taught both loops
    reason : why
    """

    factor: float
    since: int
    gate: str | None
    reason: str


# What a person may answer to a held decision.
ANSWERS = ("approve", "edit", "veto")

Event = (
    DecisionMade
    | GateApplied
    | ReviewRequested
    | Reviewed
    | Expired
    | ActionExecuted
    | OutcomeObserved
    | LabelObserved
    | ScalerFitted
    | AppealDecided
    | HistoryImported
    | DriftFound
    | EvidenceDiscounted
)
KINDS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        DecisionMade,
        GateApplied,
        ReviewRequested,
        Reviewed,
        Expired,
        ActionExecuted,
        OutcomeObserved,
        LabelObserved,
        ScalerFitted,
        AppealDecided,
        HistoryImported,
        DriftFound,
        EvidenceDiscounted,
    )
}


def to_json(event: Event) -> str:
    """Write an event as one line of JSON.

    >>> to_json(Expired("7", "no answer in 4 hours"))
    '{"event": "Expired", "id": "7", "reason": "no answer in 4 hours"}'
    """
    fields = {f.name: getattr(event, f.name) for f in dataclasses.fields(event)}
    return json.dumps({"event": type(event).__name__} | fields, allow_nan=False)


def from_json(line: str) -> Event:
    """Read what `to_json` wrote; refuse an event that is unknown or lacks a field."""
    try:
        fields: dict[str, Any] = json.loads(line, parse_constant=_refuse)
        kind = KINDS[fields.pop("event")]
        return kind(**fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"event: cannot read {line[:80]!r} ({error})") from error


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number of an event")


def listed(values: Any) -> list[float | None]:
    """Return an array as a list, null where it is not finite."""
    return [float(value) if math.isfinite(value) else None for value in values]


def numbers(values: list[float | None]) -> list[float]:
    """Return a list as numbers, NaN where it is null."""
    return [math.nan if value is None else value for value in values]
