"""Who did something, as entries name them: a name for people, and an id that stays.

A key is written with the id of who made it, `till [0f of 1f]`: the ledger alone then says who was
behind what, whatever becomes of keys and people later.
"""

from __future__ import annotations

import re

_ID = re.compile(r"\[([^\[\]]+)\]$")
OF = " of "


def id_of(by: str) -> str:
    """Return the id in `by`; all of it where there is none.

    >>> id_of("Ann [1f]"), id_of("till [0f of 1f]"), id_of("policy")
    ('1f', '0f', 'policy')
    """
    found = _ID.search(by)
    return by if found is None else found[1].partition(OF)[0]


def behind(by: str) -> str:
    """Return the id of who answers for it: of a key, who made it.

    >>> behind("Ann [1f]"), behind("till [0f of 1f]"), behind("policy")
    ('1f', '1f', 'policy')
    """
    found = _ID.search(by)
    return by if found is None else found[1].rpartition(OF)[2]


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
