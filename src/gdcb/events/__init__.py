"""What happened, in the past tense: plain records that an agent folds and a ledger stores.

What happens to several decisions at once is one event with columns, a row a decision; one
decision is a batch of one. Numbers that are not there are NaN. `gdcb.codec` writes events as bytes.
"""

from __future__ import annotations

from typing import get_args

from gdcb.events.acts import (
    CertificateGiven,
    ChangeProposed,
    ChangeRefused,
    InstanceChanged,
    LedgerSetBack,
    Paused,
    Resumed,
    Retired,
    SetBackAcknowledged,
    Shown,
    StateSealed,
    SubjectErased,
)
from gdcb.events.decisions import (
    ActionExecuted,
    AppealDecided,
    DecisionMade,
    Expired,
    GateApplied,
    Reviewed,
    ReviewRequested,
)
from gdcb.events.learning import (
    DriftFound,
    EvidenceDiscounted,
    HistoryImported,
    LabelObserved,
    OutcomeCorrected,
    OutcomeObserved,
    RolledBack,
    ScalerFitted,
)
from gdcb.events.told import (
    Told,
    is_same,
    numbers,
    plain,
    to_json,
)

# What a person may answer to a held decision.
ANSWERS = ("approve", "edit", "veto")

Act = (
    CertificateGiven
    | ChangeProposed
    | ChangeRefused
    | InstanceChanged
    | LedgerSetBack
    | Paused
    | Resumed
    | Retired
    | SetBackAcknowledged
    | Shown
    | StateSealed
    | SubjectErased
)
Event = (
    DecisionMade
    | GateApplied
    | ReviewRequested
    | Reviewed
    | Expired
    | ActionExecuted
    | AppealDecided
    | OutcomeObserved
    | OutcomeCorrected
    | LabelObserved
    | ScalerFitted
    | HistoryImported
    | DriftFound
    | EvidenceDiscounted
    | RolledBack
    | Act
)
KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}

__all__ = [
    "ANSWERS",
    "KINDS",
    "Act",
    "ActionExecuted",
    "AppealDecided",
    "CertificateGiven",
    "ChangeProposed",
    "ChangeRefused",
    "DecisionMade",
    "DriftFound",
    "Event",
    "EvidenceDiscounted",
    "Expired",
    "GateApplied",
    "HistoryImported",
    "InstanceChanged",
    "LabelObserved",
    "LedgerSetBack",
    "OutcomeCorrected",
    "OutcomeObserved",
    "Paused",
    "Resumed",
    "Retired",
    "ReviewRequested",
    "Reviewed",
    "RolledBack",
    "ScalerFitted",
    "SetBackAcknowledged",
    "Shown",
    "StateSealed",
    "SubjectErased",
    "Told",
    "is_same",
    "numbers",
    "plain",
    "to_json",
]
