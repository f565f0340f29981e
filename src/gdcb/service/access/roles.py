"""Roles: what each may do, who holds which, and the one question `require` asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from gdcb.errors import InvalidInput
from gdcb.service.access.errors import NotAllowed, NotSignedIn
from gdcb.service.access.names import instance_name, shown

EVERY = "*"

# Role, what it may do, and what it may not although one could think so. Roles are flat: none
# implies another, so that whoever runs the machine is not thereby the person who approves.
ROLES: dict[str, tuple[str, str]] = {
    "decide": (
        "ask for decisions and read back one's own answers",
        "answer held decisions",
    ),
    "outcome": (
        "report what was executed, outcomes, corrections and labels",
        "ask for decisions",
    ),
    "approve": (
        "see the queue, claim held decisions, approve, edit or veto them, decide appeals",
        "answer what one proposed oneself, or a key that one made",
    ),
    "operate": (
        "see the dashboard, pause, resume, refit, set the launch mode, roll back, propose changes",
        "put one's own proposed change in force, or that of a key that one made",
    ),
    "audit": (
        "search decisions, read and export evidence, verify and replay the chain",
        "change anything",
    ),
    "administer": (
        "add people and keys, grant and revoke roles, put a change in force that another proposed",
        "approve held decisions, or grant a role to oneself",
    ),
}

# A held decision waits for a person, and grants are answered for by one: a key is neither.
FOR_KEYS = frozenset({"decide", "outcome", "operate", "audit"})


class Grant(NamedTuple):
    """A role on an instance; `EVERY` ('*') is every instance, those to come included."""

    role: str
    instance: str


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever sends a request: a person, an API key, or the command line.

    ========== ================================================= ==============================
    role       may                                               may not
    ========== ================================================= ==============================
    decide     ask for decisions, read back one's own answers    answer held decisions
    outcome    report executions, outcomes, corrections, labels  ask for decisions
    approve    see the queue; claim, approve, edit, veto; decide answer what one proposed
               appeals
    operate    see the dashboard; pause, resume, refit, launch   put one's own change in force
               mode, roll back, propose changes
    audit      search, read and export evidence, verify, replay  change anything
    administer people, keys, grants; put another's change in     approve; grant to oneself
               force
    ========== ================================================= ==============================

    Parameters
    ----------
    id : what the ledger writes down as `by`; never used again for somebody else
    name : what people read
    kind : 'person', 'key' or 'console' (the command line on the database itself)
    grants : roles, each on one instance or on every one
    made_by : of a key, the id of who made it: what the key does they did, where four eyes are due

    Examples
    --------
    >>> ann = Principal("1f", "Ann", "person", grants(("approve", "str"), ("audit", "*")))
    >>> ann.may("approve", "str"), ann.may("approve", "dosing"), ann.may("audit", "dosing")
    (True, False, True)
    """

    id: str
    name: str
    kind: Literal["person", "key", "console"]
    grants: frozenset[Grant]
    made_by: str = ""

    def may(self, role: str, instance: str) -> bool:
        """Return whether a grant covers the role on the instance."""
        if role not in ROLES:
            raise InvalidInput(_unknown(role))
        return (role, instance) in self.grants or (role, EVERY) in self.grants

    def sees(self, instance: str) -> bool:
        """Return whether any grant touches the instance: else it does not exist for them."""
        return any(one.instance in (instance, EVERY) for one in self.grants)

    def roles(self, instance: str) -> list[str]:
        """Return the roles that they have on an instance, in the order of `ROLES`."""
        return [role for role in ROLES if self.may(role, instance)]

    def seen(self, instances: Iterable[str]) -> list[str]:
        """Return those of the instances that exist for them, in the order given."""
        return [instance for instance in instances if self.sees(instance)]


def grants(*given: tuple[str, str]) -> frozenset[Grant]:
    """Return checked grants from pairs of role and instance."""
    return frozenset(Grant(role_name(role), instance_name(instance)) for role, instance in given)


def role_name(role: object) -> str:
    """Return a role that there is, or say which there are."""
    if isinstance(role, str) and role in ROLES:
        return role
    raise InvalidInput(_unknown(role))


def _unknown(role: object) -> str:
    return f"role: expected one of {', '.join(ROLES)}, got {shown(role)}"


# Whoever has the database in hand can write what they like into it: no check would hold them.
CONSOLE = Principal("console", "command line", "console", grants(("administer", EVERY)))


def require(principal: Principal | None, role: str | Sequence[str], instance: str) -> Principal:
    """Return the principal if they may, and raise if nobody is signed in or they may not.

    Of several roles, any one is enough.

    It never looks whether the instance is there, so ask it before anything else looks: to somebody
    without any grant on it, an instance that is not there and one that is not theirs answer with
    the same words in the same time.

    Examples
    --------
    >>> require(CONSOLE, "administer", "str").name
    'command line'
    """
    if principal is None:
        raise NotSignedIn
    enough = [role] if isinstance(role, str) else list(role)
    if any(principal.may(one, instance) for one in enough):
        return principal
    if not principal.sees(instance):
        raise NotAllowed(
            f"there is no instance {shown(instance)}, or you have no role on it: an administrator "
            "can grant one"
        )
    *others, last = [f"'{one}'" for one in enough]
    named = f"{', '.join(others)} or {last}" if others else last
    raise NotAllowed(
        f"this needs the role {named} on {shown(instance)}; yours there: "
        f"{', '.join(principal.roles(instance))}"
    )
