"""JSON as strangers send it: no NaN, no NUL, no name twice, not too deep, not too large.

No other thread runs while a list of numbers is read. That is short where values are few.
"""

from __future__ import annotations

import json
from typing import Any

from gdcb.service.problems import BadRequest

LARGEST = 16 * 2**20
MOST_NAMES = 2_000  # of one object
MOST_PARTS = 500_000  # objects and lists; brackets in texts count, too
MOST_VALUES = 2_000_000  # commas; those in texts count, too
_GONE = object()


def loads(raw: bytes) -> Any:
    """Read a JSON document, strictly.

    >>> loads(b'{"price": 1e3}')
    {'price': 1000.0}
    """
    if raw.count(b"{") + raw.count(b"[") > MOST_PARTS:
        raise BadRequest(f"the body has more than {MOST_PARTS:,} objects and lists")
    if raw.count(b",") > MOST_VALUES:
        raise BadRequest(f"the body has more than {MOST_VALUES:,} values")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise BadRequest("the body is not UTF-8") from error
    try:
        if text.startswith("\ufeff"):
            raise json.JSONDecodeError("a byte order mark", text, 0)
        found = _STRICT.decode(text)
        if "\\u0000" in text and _has_nul(found):
            raise BadRequest("the body has the character NUL, which no text of ours has")
        return found
    except BadRequest:
        raise
    except RecursionError as error:
        raise BadRequest("the body is nested too deep") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BadRequest(f"the body is not JSON from {where} on") from error
    except ValueError as error:  # Python reads no whole number of more than some thousand digits
        raise BadRequest("the body has a number that is too long") from error


def _has_nul(found: Any) -> bool:
    """Whether any text in a document has the character that databases cannot keep."""
    if isinstance(found, str):
        return "\0" in found
    if isinstance(found, dict):
        return any(_has_nul(part) for pair in found.items() for part in pair)
    return isinstance(found, list) and any(_has_nul(part) for part in found)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MOST_NAMES:
        raise BadRequest(f"the body has an object with more than {MOST_NAMES:,} names")
    found = dict(pairs)
    if len(found) < len(pairs):
        left = dict(found)
        twice = next(name for name, _ in pairs if left.pop(name, _GONE) is _GONE)
        raise BadRequest(f"the body names {twice[:80]!r} twice")
    return found


def _refuse(constant: str) -> float:
    raise BadRequest(f"the body has {constant}, which is no number")


_STRICT = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_refuse)
