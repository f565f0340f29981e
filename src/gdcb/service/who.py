"""Principals as entries of the ledger name them; see `gdcb.ledger.authors`."""

from __future__ import annotations

from gdcb.ledger.authors import OF, behind, id_of, is_same, name_of
from gdcb.service.access import Principal

__all__ = ["behind", "called", "id_of", "is_same", "name_of", "written"]


def written(principal: Principal) -> str:
    """Return a principal as `by` of an entry.

    >>> from gdcb.service.access.roles import CONSOLE, grants
    >>> written(CONSOLE)
    'command line [console]'
    >>> written(Principal("0f", "till", "key", grants(("decide", "str")), made_by="1f"))
    'till [0f of 1f]'
    """
    maker = f"{OF}{principal.made_by}" if principal.made_by else ""
    return f"{principal.name} [{principal.id}{maker}]"


def called(one: str, to: str) -> str:
    """Return somebody's name for whoever is told that they are the same; a key's says why.

    >>> called("Ann [1f]", "Ann [1f]"), called("till [0f of 1f]", "Ann [1f]")
    ('Ann', 'till, a key that Ann made')
    """
    is_key = id_of(one) != id_of(to) and is_same(one, to)
    return f"{name_of(one)}, a key that {name_of(to)} made" if is_key else name_of(one)
