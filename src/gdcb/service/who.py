"""Who did something, as the ledger writes it: a name for people, and an id that stays.

A key is written with the id of who made it, `till [0f of 1f]`: the ledger alone then says who was
behind what, whatever becomes of keys and people later.
"""

from __future__ import annotations

import re

from gdcb.service.access import Principal

_ID = re.compile(r"\[([^\[\]]+)\]$")
_OF = " of "


def written(principal: Principal) -> str:
    """Return a principal as `by` of an entry.

    >>> from gdcb.service.access.roles import CONSOLE, grants
    >>> written(CONSOLE)
    'command line [console]'
    >>> written(Principal("0f", "till", "key", grants(("decide", "str")), made_by="1f"))
    'till [0f of 1f]'
    """
    maker = f"{_OF}{principal.made_by}" if principal.made_by else ""
    return f"{principal.name} [{principal.id}{maker}]"


def id_of(by: str) -> str:
    """Return the id in `by`; all of it where there is none.

    >>> id_of("Ann [1f]"), id_of("till [0f of 1f]"), id_of("policy")
    ('1f', '0f', 'policy')
    """
    found = _ID.search(by)
    return by if found is None else found[1].partition(_OF)[0]


def behind(by: str) -> str:
    """Return the id of who answers for it: of a key, who made it.

    >>> behind("Ann [1f]"), behind("till [0f of 1f]"), behind("policy")
    ('1f', '1f', 'policy')
    """
    found = _ID.search(by)
    return by if found is None else found[1].rpartition(_OF)[2]


def name_of(by: str) -> str:
    """Return the name in `by`.

    >>> name_of("Ann [1f]"), name_of("till [0f of 1f]"), name_of("policy")
    ('Ann', 'till', 'policy')
    """
    return _ID.sub("", by).strip() or by


def is_same(one: str, other: str) -> bool:
    """Whether the same person is behind two, whatever they were called at the time.

    A key and whoever made it are the same, and so are two keys of one maker: else who may make
    keys would approve what they proposed.

    >>> is_same("till [0f of 1f]", "Ann [1f]"), is_same("till [0f of 1f]", "Bob [2f]")
    (True, False)
    """
    return bool(one) and behind(one) == behind(other)


def called(one: str, to: str) -> str:
    """Return somebody's name for whoever is told that they are the same; a key's says why.

    >>> called("Ann [1f]", "Ann [1f]"), called("till [0f of 1f]", "Ann [1f]")
    ('Ann', 'till, a key that Ann made')
    """
    is_key = id_of(one) != id_of(to) and is_same(one, to)
    return f"{name_of(one)}, a key that {name_of(to)} made" if is_key else name_of(one)
