"""Texts that people type: what is accepted as a name, a login and an instance."""

from __future__ import annotations

import re
import unicodedata

from gdcb.errors import InvalidInput

LONGEST = 200
_LOGIN = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,99}", re.ASCII)


def shown(value: object, most: int = 60) -> str:
    """Return a value as an error may repeat it: quoted, escaped and not too long.

    Examples
    --------
    >>> shown("str"), shown(3), shown("x" * 80, most=5)
    ("'str'", '3', "'xxxxx…'")
    """
    if isinstance(value, str) and len(value) > most:
        quoted = ascii(value[:most])
        return f"{quoted[:-1]}…{quoted[-1]}"
    return ascii(value)[: 4 * most]


def clean(what: str, value: object) -> str:
    """Return a text without outer spaces, in composed letters; refuse what cannot be shown.

    Control characters (NUL among them, which PostgreSQL cannot store), lone surrogates and marks
    that turn the direction of writing would make one name look like another in a list.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"{what}: expected a text, got {shown(value)}")
    if len(value) > LONGEST:
        raise InvalidInput(f"{what}: expected at most {LONGEST} characters, got {len(value)}")
    text = unicodedata.normalize("NFC", value).strip()
    plain = text.replace("\u200c", "").replace(
        "\u200d", ""
    )  # Joiners, which names in Persian have.
    if not plain:
        raise InvalidInput(f"{what}: expected a text, got an empty one")
    if any(unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") for letter in plain):
        raise InvalidInput(f"{what}: expected characters that can be shown, got {shown(value)}")
    return text


def login_name(value: object) -> str:
    """Return a login in small letters; plain ASCII, so that no two look the same.

    Examples
    --------
    >>> login_name(" Ann.Lee@example.org ")
    'ann.lee@example.org'
    """
    text = clean("login", value).lower()
    if not _LOGIN.fullmatch(text):
        raise InvalidInput(
            "login: expected 1 to 100 of a-z, 0-9 and . _ @ + -, a letter or digit first, got "
            f"{shown(value)}"
        )
    return text


def instance_name(value: object) -> str:
    """Return the name of an instance, or '*' for every one."""
    return clean("instance", value)
