"""A call of the service before it is sent: method, path, body, and whether it may be sent twice."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from gdcb.errors import InvalidInput

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Call:
    """What is asked of the service, the same in every try.

    Parameters
    ----------
    method, path : path below the service's address, with names escaped
    query : parameters of the URL
    body, kind : bytes of the body and their media type; empty where there is none
    is_repeatable : whether doing it twice is the same as doing it once. Otherwise it is sent again
        only where it is certain that it was not done.
    slow : seconds that the answer may take beyond what is usual
    request : the id under which the service's log has it
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    kind: str = ""
    is_repeatable: bool = True
    slow: float = 0.0
    request: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def what(self) -> str:
        """The call in a sentence."""
        return f"{self.method} {self.path}"


def get(*path: str | int, **query: Any) -> Call:
    """Return a call that reads; parameters that are None are left out."""
    return Call("GET", path_of(*path), {name: text_of(v) for name, v in _given(query).items()})


def post(
    *path: str | int, said: Mapping[str, Any] | None = None, is_repeatable: bool = True
) -> Call:
    """Return a call that does something; `said` is the body, as JSON."""
    if said is None:
        return Call("POST", path_of(*path), is_repeatable=is_repeatable)
    body = encoded(said)
    return Call("POST", path_of(*path), body=body, kind=JSON, is_repeatable=is_repeatable)


def given(**values: Any) -> dict[str, Any]:
    """Return what was given: the service has its own defaults for what is None."""
    return _given(values)


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def path_of(*parts: str | int) -> str:
    """Join the parts of a path; a name is one part, whatever characters it has.

    >>> path_of("v1", "instances", "a/b", "decisions", "n 1")
    '/v1/instances/a%2Fb/decisions/n%201'
    """
    for part in parts:
        # A server would take these for steps through the path.
        if part in ("", ".", ".."):
            raise InvalidInput(f"expected a name or an id, got {part!r}")
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)


def text_of(value: Any) -> str:
    """Write a parameter of a URL."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def encoded(said: Mapping[str, Any]) -> bytes:
    """Write a body as JSON; arrays and their numbers as lists and numbers, and no NaN.

    >>> encoded({"price": 1.5})
    b'{"price":1.5}'
    """
    try:
        return json.dumps(said, allow_nan=False, separators=(",", ":"), default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"what is sent must be JSON, without NaN: {error}") from error


def _plain(value: Any) -> Any:
    to_list = getattr(value, "tolist", None)
    if callable(to_list):
        return to_list()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")
