"""What happened, in the past tense: plain records that an agent folds and a ledger stores.

What happens to several decisions at once is one event with columns, a row a decision; one
decision is a batch of one. Numbers that are not there are NaN. `gdcb.codec` writes events as bytes.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gdcb.arrays import Array


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """What events have in common: they are equal where all that they say is equal."""

    # Fields with one entry a row: lists of names, and arrays with the rows first.
    columns: ClassVar[tuple[str, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Told) or type(other) is not type(self):
            return False
        names = [field.name for field in dataclasses.fields(self)]
        return all(is_same(getattr(self, name), getattr(other, name)) for name in names)

    def __hash__(self) -> int:
        return hash(type(self))


@dataclass(frozen=True, slots=True, eq=False)
class DecisionMade(Told):
    """Nominal arms were proposed, for N decisions at once.

    Parameters
    ----------
    id : (N) decision ids
    batch, row : (N) request, and row in it: what their random numbers are keyed by
    version : how many events the state behind them had folded
    unit : (N) whose learner decided
    x, mask : (N, p) contexts as encoded; (N, K) allowed arms, None: all
    arm, action : (N,) proposed arms, (N, D) composed actions
    delta, scaler_version : (N, 1 or K, q) δ, (N,) the version of the fit behind it
    worth : (N, K) drawn value of every arm behind the gate, −∞ where masked
    share : (N,) chance that the proposal is what enters the gates, None: 1
    drawn_by : what that chance is drawn for: every 'decision', or every 'unit' once and for all
    instead : (N, D) the incumbent's action where that enters the gates, NaN elsewhere
    """

    columns = (
        "id",
        "batch",
        "row",
        "unit",
        "x",
        "mask",
        "arm",
        "action",
        "delta",
        "scaler_version",
        "worth",
        "share",
        "instead",
    )
    id: list[str]
    batch: list[str]
    row: Array
    version: int
    unit: list[str]
    x: Array
    mask: Array | None
    arm: Array
    action: Array
    delta: Array
    scaler_version: Array
    worth: Array
    share: Array | None = None
    drawn_by: str = "decision"
    instead: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class GateApplied(Told):
    """The gates answered: what entered and left each of them, and why.

    Parameters
    ----------
    id : (N) decision ids
    status, action : (N,) and (N, D) as in `records.Verdict`, and so
    trail, statuses : (N, G+1, D) and (N, G)
    faults : sentences of gates that raised or answered nonsense, by 'row gate'
    reason : (N) why each ended as it did
    """

    columns = ("id", "status", "action", "trail", "statuses", "reason")
    id: list[str]
    status: Array
    action: Array
    trail: Array
    statuses: Array
    faults: dict[str, str]
    reason: list[str]


@dataclass(frozen=True, slots=True, eq=False)
class ReviewRequested(Told):
    """Gates hold these decisions until a person answers: (N) ids, gates and reasons."""

    columns = ("id", "gate", "reason")
    id: list[str]
    gate: list[str]
    reason: list[str]


@dataclass(frozen=True, slots=True, eq=False)
class Reviewed(Told):
    """A person approved, edited or vetoed a held decision.

    Parameters
    ----------
    id : decision id
    verdict, action : 'approve', 'edit' with an action, or 'veto'
    by, reason : who answered, and why in their own words
    code : the reason as a code, of those that the service was told to offer
    """

    id: str
    verdict: str
    action: list[float] | None
    by: str
    reason: str
    code: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Expired(Told):
    """Nobody answered in time; an expired hold is never an approval.

    `action`: the declared safe action that takes the proposal's place, and still meets the gates
    behind; None: nothing but the null action runs.
    """

    id: str
    reason: str
    action: list[float] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ActionExecuted(Told):
    """What really ran: (N) ids, (N, D) actions, (N,) whether it was the null action.

    `is_told`: somebody reported it, and it may differ from what was let through.
    """

    columns = ("id", "action", "is_null")
    id: list[str]
    action: Array
    is_null: Array
    is_told: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class OutcomeObserved(Told):
    """Outcomes of executed decisions came in, with the scaler's labels where there are.

    Parameters
    ----------
    id : (N) decision ids
    outcome, weight : (N, outcomes) in the declared order, (N,) what each counts
    label : (N, labels), NaN where one was not seen; None: no row has any
    """

    columns = ("id", "outcome", "label", "weight")
    id: list[str]
    outcome: Array
    label: Array | None
    weight: Array


@dataclass(frozen=True, slots=True, eq=False)
class OutcomeCorrected(Told):
    """An outcome that had come in before turned out to be wrong; learners start from the right one.

    Parameters
    ----------
    id, outcome : decision id, and the outcome as it is known now
    by, reason : who says so, and why
    """

    id: str
    outcome: list[float]
    by: str
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class LabelObserved(Told):
    """The scaler's labels of a decision came in after its outcome."""

    id: str
    label: list[float | None]


@dataclass(frozen=True, slots=True, eq=False)
class ScalerFitted(Told):
    """Scalers were refitted and put in force; arm statistics were refolded."""

    owners: list[int]
    versions: list[int]


@dataclass(frozen=True, slots=True, eq=False)
class AppealDecided(Told):
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


@dataclass(frozen=True, slots=True, eq=False)
class HistoryImported(Told):
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


@dataclass(frozen=True, slots=True, eq=False)
class DriftFound(Told):
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


@dataclass(frozen=True, slots=True, eq=False)
class EvidenceDiscounted(Told):
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


@dataclass(frozen=True, slots=True, eq=False)
class RolledBack(Told):
    """Learners were put back to what they knew after `to` events; nothing else was undone."""

    to: int
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
    | OutcomeCorrected
    | LabelObserved
    | ScalerFitted
    | AppealDecided
    | HistoryImported
    | DriftFound
    | EvidenceDiscounted
    | RolledBack
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
        OutcomeCorrected,
        LabelObserved,
        ScalerFitted,
        AppealDecided,
        HistoryImported,
        DriftFound,
        EvidenceDiscounted,
        RolledBack,
    )
}


def is_same(one: Any, other: Any) -> bool:
    """Whether two fields say the same; a number that is not there is equal to itself."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        is_array = isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
        if not is_array or one.shape != other.shape or one.dtype != other.dtype:
            return False
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    return bool(one == other)


def to_json(event: Told) -> str:
    """Write an event as one line of JSON, for people; null where a number is not finite.

    >>> to_json(Expired("7", "no answer in 4 hours"))
    '{"event": "Expired", "id": "7", "reason": "no answer in 4 hours", "action": null}'
    """
    fields = {f.name: plain(getattr(event, f.name)) for f in dataclasses.fields(event)}
    return json.dumps({"event": type(event).__name__} | fields, allow_nan=False)


def plain(value: Any) -> Any:
    """Return a field as JSON has it: arrays as lists, null where a number is not finite.

    >>> plain(np.array([[1.0, np.nan]]))
    [[1.0, None]]
    """
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind != "f" or np.isfinite(value).all():
        return value.tolist()
    out = value.astype(object)
    out[~np.isfinite(value)] = None
    return out.tolist()


def numbers(values: list[float | None]) -> Array:
    """Return a list as numbers, NaN where it is null."""
    return np.array([np.nan if value is None else value for value in values], dtype=float)
