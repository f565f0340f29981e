"""Pages of administrators: people, keys, and changes of an instance by two pairs of eyes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gdcb.service.pages.views.frame import View

ROLES = (
    ("decide", "ask for decisions"),
    ("outcome", "report what ran and what came of it"),
    ("approve", "answer held decisions"),
    ("operate", "pause, resume, refit, propose changes"),
    ("audit", "search and see evidence"),
    ("administer", "people, keys, others' changes"),
)
# Held decisions wait for a person, and roles are answered for by one.
KEY_ROLES = tuple(role for role in ROLES if role[0] not in ("approve", "administer"))


@dataclass(frozen=True, slots=True)
class Grant:
    """A role on an instance; '*' is every instance."""

    role: str
    instance: str


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who may sign in."""

    id: str
    name: str
    login: str
    grants: tuple[Grant, ...] = ()
    seen: int | None = None
    is_active: bool = True


@dataclass(frozen=True, slots=True)
class Key:
    """A key for programs; its secret is shown once and kept by nobody."""

    id: str
    name: str
    grants: tuple[Grant, ...] = ()
    made: int | None = None
    used: int | None = None
    expires: int | None = None
    is_revoked: bool = False


@dataclass(frozen=True, slots=True)
class Secret:
    """A key or a one-time link, shown this once; `why` says why it is due, where nobody asked."""

    kind: str
    name: str
    words: str
    expires: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleView(View):
    """People and keys."""

    template: ClassVar[str] = "people.html"

    people: tuple[Person, ...] = ()
    keys: tuple[Key, ...] = ()
    instances: tuple[str, ...] = ()
    secret: Secret | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a difference: 'same', 'added', 'removed' or 'hunk'."""

    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """A change in the list; `status` as in `ChangeView`."""

    id: str
    title: str
    by: str
    at: int
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesView(View):
    """Changes of an instance: the list, and the form that proposes one.

    Parameters
    ----------
    rows : a page of them, newest first
    older : id of the last one here, where there are more; empty: there are none
    in_force, since : id of the change that is in force, and since when
    toml : the declaration in the form: the one in force, or what was sent and refused
    reason : what was said for it, if it was refused
    problem : why it was refused
    """

    template: ClassVar[str] = "changes.html"

    rows: tuple[ChangeRow, ...] = ()
    older: str = ""
    in_force: str = ""
    since: int | None = None
    toml: str = ""
    reason: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeView(View):
    """One change: what differs, and the second pair of eyes.

    Parameters
    ----------
    status : 'proposed', 'approved', 'rejected', 'withdrawn', 'overtaken' or 'declared'
    is_mine : whether the viewer proposed it, and so may not approve it
    effects : what it means for learners and open decisions, a sentence each
    content : hash of the proposal, which the answer is bound to
    """

    template: ClassVar[str] = "change.html"

    id: str
    title: str
    by: str
    at: int
    status: str = "proposed"
    reason: str = ""
    diff: tuple[DiffLine, ...] = ()
    effects: tuple[str, ...] = ()
    is_mine: bool = False
    content: str = ""
    decided_by: str = ""
    decided_at: int | None = None
    decided_reason: str = ""
