"""A decision from its proposal to what ran: proposed, judged, asked about, answered, executed."""

from __future__ import annotations

from dataclasses import dataclass

from gdcb.arrays import Array
from gdcb.events.told import Told


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
    by : (N) who asked for them, where that is known
    sealed, key : (N) personal numbers of x under a key, and the key's name; None: x is all there
        is. As written, x has NaN in their place; as read, too, once the key is destroyed
    nonce : (N) what the service drew for each request once it had taken it; random numbers are
        keyed by it too, so that nobody can choose an id by what would be drawn for it. None: they
        are keyed by request and row alone
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
        "by",
        "sealed",
        "key",
        "nonce",
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
    by: list[str] | None = None
    sealed: list[str] | None = None
    key: list[str] | None = None
    nonce: list[str] | None = None


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
