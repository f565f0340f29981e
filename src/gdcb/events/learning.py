"""What teaches the learners, and what is done about what they learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gdcb.arrays import Array
from gdcb.events.told import Told


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
class HistoryImported(Told):
    """Both loops were started from a log of past decisions, as its certificate says.

    Parameters
    ----------
    log, fingerprint : the log's name, and a hash of its content
    units : names of its units, in the order of their places
    settings : level, margin, how long outcomes take as declared and, where a person overrode the
        verdict, the reason
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
