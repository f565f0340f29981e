"""Who did something, as the ledger writes it: a name for people, and an id that stays."""

from __future__ import annotations

import re

from gdcb.service.access import Principal

_ID = re.compile(r"\[([^\[\]]+)\]$")


def written(principal: Principal) -> str:
    """Return a principal as `by` of an entry.

    >>> from gdcb.service.access.roles import CONSOLE
    >>> written(CONSOLE)
    'command line [console]'
    """
    return f"{principal.name} [{principal.id}]"


def id_of(by: str) -> str:
    """Return the id in `by`; all of it where there is none.

    >>> id_of("Ann [1f]"), id_of("policy")
    ('1f', 'policy')
    """
    found = _ID.search(by)
    return by if found is None else found[1]


def name_of(by: str) -> str:
    """Return the name in `by`.

    >>> name_of("Ann [1f]"), name_of("policy")
    ('Ann', 'policy')
    """
    return _ID.sub("", by).strip() or by


def is_same(one: str, other: str) -> bool:
    """Whether two are the same principal, whatever they were called at the time."""
    return bool(one) and id_of(one) == id_of(other)
