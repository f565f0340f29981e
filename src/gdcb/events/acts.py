"""What people do to an instance as a whole, in a service: declare it, change it, pause it.

The entry of the ledger that holds an act says who did it, and when.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gdcb.events.told import Told


@dataclass(frozen=True, slots=True, eq=False)
class InstanceChanged(Told):
    """An instance was declared, or is declared otherwise from here on.

    Parameters
    ----------
    declaration : the instance and its service's policy, as TOML
    seed : of its random numbers; never changes
    fingerprint : of what was built from it, see `Agent.fingerprint`
    proposal : number of the event that proposed the change; None: the first declaration
    reason : why
    """

    declaration: str
    seed: int
    fingerprint: str
    proposal: int | None
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class ChangeProposed(Told):
    """Somebody would have the instance declared otherwise; somebody else must agree."""

    declaration: str
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class ChangeRefused(Told):
    """A proposed change will not come: it was turned down, or withdrawn."""

    proposal: int
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Paused(Told):
    """Nothing is proposed or run from here on; what is held stays held."""

    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Resumed(Told):
    """Proposals are made again."""

    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Retired(Told):
    """The instance is at its end: outcomes may still come in, decisions are no longer made."""

    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class LedgerSetBack(Told):
    """Somebody put an earlier state of this chain back; nothing is decided from here on.

    Parameters
    ----------
    had, hash : entries that were there before, as a process had read them, and the hash of the last
    has : entries that there were when this was found
    """

    had: int
    hash: str
    has: int


@dataclass(frozen=True, slots=True, eq=False)
class SetBackAcknowledged(Told):
    """An administrator knows that an earlier state was put back; decisions are made again."""

    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Shown(Told):
    """A person opened a held decision; `content` is the hash of what they were shown."""

    id: str
    by: str
    content: str


@dataclass(frozen=True, slots=True, eq=False)
class StateSealed(Told):
    """What the learners know was written down, for rows that taught them were erased.

    A fold that comes here takes it over: it cannot be worked out of the entries any more.

    Parameters
    ----------
    state : everything known, as text under a key of its own
    replayed : whether it had been worked out again before the erasure, and came out the same
    reason : why
    """

    state: str
    replayed: bool
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class SubjectErased(Told):
    """The keys of a subject's personal fields were destroyed; `keys` are their names."""

    keys: list[str]
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class CertificateGiven(Told):
    """A log was judged and nothing was learned from it: it was refused."""

    log: str
    fingerprint: str
    certificate: dict[str, Any]
