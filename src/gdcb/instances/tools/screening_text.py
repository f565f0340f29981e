"""Text as screening compares it: one form of every character, and what a text addresses."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

_HIDDEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_URL = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://|www\.)[^\s<>\"')\]]+"
    r"|(?<![\w@.-])[\w-]+\.(?:com|org|net|io|dev|info|biz|xyz|co|me|app|ai)"
    r"(?:/[^\s<>\"')\]]*)?(?![\w@-])"
)
# An account number or other mixed code: letters and digits in one word of eight or more.
_CODE = re.compile(r"(?<![\w@.-])(?=[a-z-]*\d)(?=[\d-]*[a-z])[a-z0-9-]{8,}(?![\w@])")
_PHONE = re.compile(r"(?<![\w.])\+?\d(?:[ ().-]?\d){6,14}(?![\w])")
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?(?:[ t]\d\d?:\d\d(?::\d\d)?)?|\d\d?:\d\d(?::\d\d)?")


@lru_cache(maxsize=2048)
def normal(text: str) -> str:
    """Return text as it is compared: one form of every character, no case, single spaces.

    >>> normal("Mail\u200b  ＥＶＩＬ@x.com")
    'mail evil@x.com'
    """
    whole = _HIDDEN.sub("", unicodedata.normalize("NFKC", text)).casefold()
    return " ".join(whole.split())


@lru_cache(maxsize=2048)
def compact(text: str) -> str:
    """Return only letters and digits of text.

    >>> compact("GB29 NWBK-6016")
    'gb29nwbk6016'
    """
    return "".join(c for c in normal(text) if c.isalnum())


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Walk through plain data: the path and value of everything that is no table and no list.

    >>> list(leaves({"to": ["a", 1], "n": None}))
    [('to[0]', 'a'), ('to[1]', 1), ('n', None)]
    """
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple | set | frozenset):
        for i, item in enumerate(value):
            yield from leaves(item, f"{path}[{i}]")
    else:
        yield path, value


def names(value: Any) -> Iterator[str]:
    """Walk through plain data: the names of everything in its tables.

    >>> list(names({"to": [{"mail": "a"}]}))
    ['to', 'mail']
    """
    if isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from names(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from names(item)


@lru_cache(maxsize=2048)
def addresses(text: str) -> tuple[str, ...]:
    """Return what a text addresses: mail, web (and its host), account numbers, phones.

    Dates are none. Everything is in its `normal` form.

    >>> addresses("Pay GB29NWBK601613 by 2024-05-01 at http://a.example.com/pay")
    ('http://a.example.com/pay', 'a.example.com', 'gb29nwbk601613')
    """
    whole = normal(text)
    found = [match.group().rstrip(".-") for match in _EMAIL.finditer(whole)]
    rest = _EMAIL.sub(" ", whole)
    for match in _URL.finditer(rest):
        url = match.group().rstrip(".,;:!?/")
        host = re.sub(r"^[a-z][a-z0-9+.-]*://", "", url).split("/")[0].split("?")[0]
        found += [url] if host == url else [url, host]
    rest = _DATE.sub(" ", _URL.sub(" ", rest))
    found += [match.group() for match in _CODE.finditer(rest)]
    found += [match.group() for match in _PHONE.finditer(_CODE.sub(" ", rest))]
    return tuple(dict.fromkeys(found))


def holds(text: str, value: str) -> bool:
    """Whether text holds a value as words of its own; spaces and dashes in long codes are free.

    >>> holds("Call Bob (GB29 NWBK 6016).", "gb29nwbk6016"), holds("Bobby", "Bob")
    (True, False)
    """
    wanted, whole = normal(value), normal(text)
    if not wanted:
        return False
    at = whole.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        begins = not (wanted[0].isalnum() and at > 0 and whole[at - 1].isalnum())
        if begins and not (wanted[-1].isalnum() and end < len(whole) and whole[end].isalnum()):
            return True
        at = whole.find(wanted, at + 1)
    short = compact(value)
    return len(short) >= 10 and any(map(str.isdigit, short)) and short in compact(text)


def copied_run(value: str, text: str, trusted: str, n: int) -> str:
    """Return the first n words in a row of value that stand in text and not in trusted, or ''.

    >>> copied_run("please pay the bill now", "you pay the bill today", "hello", 3)
    'pay the bill'
    """
    words, whole, own = (re.findall(r"\w+", normal(part)) for part in (value, text, trusted))
    theirs = {tuple(whole[i : i + n]) for i in range(len(whole) - n + 1)}
    ours = {tuple(own[i : i + n]) for i in range(len(own) - n + 1)}
    for i in range(len(words) - n + 1):
        run = tuple(words[i : i + n])
        if run in theirs and run not in ours:
            return " ".join(run)
    return ""
