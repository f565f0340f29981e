"""Random secrets: API keys, links and sessions, of which the database keeps only a hash.

Every secret has 256 random bits, and what is stored is the SHA-256 of its text. A slow hash
(scrypt) makes guessing dear where the secret is a password, of which people choose likely ones.
Nobody guesses among 2²⁵⁶ equally likely ones at any price, so a slow hash would add no safety and
cost every single request a tenth of a second.
"""

from __future__ import annotations

import re
import secrets
from hashlib import sha256
from typing import NamedTuple

_KEY = re.compile(r"gdcb_([0-9a-f]{16})_[0-9a-f]{64}", re.ASCII)
_TOKEN = re.compile(r"[0-9a-f]{64}", re.ASCII)


class NewKey(NamedTuple):
    """An API key at its birth: the text is shown once and kept nowhere."""

    id: str
    text: str


def new_id() -> str:
    """Return a fresh id of a principal: 64 random bits in hex."""
    return secrets.token_hex(8)


def new_key() -> NewKey:
    """Return a fresh API key, `gdcb_<id>_<secret>`; its form lets secret scanners find leaks."""
    key = new_id()
    return NewKey(key, f"gdcb_{key}_{secrets.token_hex(32)}")


def new_token() -> str:
    """Return a fresh secret for a link or a session: 256 random bits in hex."""
    return secrets.token_hex(32)


def key_id(text: str) -> str | None:
    """Return the id in an API key's text; None where the text is no key.

    Examples
    --------
    >>> key_id("gdcb_0123456789abcdef_" + 64 * "0"), key_id("gdcb_x_y")
    ('0123456789abcdef', None)
    """
    found = _KEY.fullmatch(text)
    return found[1] if found else None


def is_token(text: object) -> bool:
    """Return whether a text has the form of a link's or session's secret."""
    return isinstance(text, str) and _TOKEN.fullmatch(text) is not None


def digest(text: str) -> bytes:
    """Return what is stored of a secret: its SHA-256. Only for texts that passed a form above."""
    return sha256(text.encode("ascii")).digest()
