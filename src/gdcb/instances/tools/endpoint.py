"""Any OpenAI-compatible endpoint: it writes the arguments of the tool that the router chose.

The model does not choose the tool and runs nothing: its arguments are screened and gated like
anybody else's. What goes wrong is a status and a sentence. The key is read from an environment
variable for every request, is never kept, and is cut out of whatever is said.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gdcb.errors import InvalidInput
from gdcb.instances.tools.mcp_tools import Tool
from gdcb.parts import check_number, check_text

# What can become of a request. Those marked by `_AGAIN` are tried again.
STATUSES = (
    "filled",
    "malformed",
    "refused",
    "too large",
    "limited",
    "failed",
    "timed out",
    "unreachable",
)
_AGAIN = ("limited", "failed", "timed out", "unreachable")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LOCAL = ("localhost", "127.0.0.1", "::1")
_ASK = "Call the tool '{name}' exactly once, with arguments for this request. Write nothing else."


@dataclass(frozen=True)
class Filled:
    """What the endpoint made of a request: arguments where the status is 'filled', else why not."""

    status: str
    said: str
    arguments: Mapping[str, Any] | None = None
    tries: int = 1
    seconds: float = 0.0


class _Trouble(Exception):
    """A try that failed: its status, what to say, and how long the server asks to wait."""

    def __init__(self, status: str, said: str, wait: float | None = None) -> None:
        super().__init__(said)
        self.status, self.said, self.wait = status, said, wait


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key and the request to another place: it is an error instead."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Follow nothing."""
        return None


@dataclass(frozen=True)
class Endpoint:
    """A chat-completions endpoint with tools.

    Parameters
    ----------
    url : base address, such as http://localhost:8000/v1; keys travel over https, or to this machine
    model : name of the model
    key : name of the environment variable that holds the key; '' where none is needed
    timeout : seconds for one try
    tries : tries in all; only what may pass by itself (429, 5xx, no answer) is tried again
    wait : seconds before the second try, doubled before each further one; a server's own
        Retry-After is kept, up to `longest_wait`
    longest_wait : seconds that are waited at most before a try
    longest_prompt, longest_reply : characters that are sent, and bytes that are read, at most

    Examples
    --------
    >>> endpoint = Endpoint("http://localhost:8000/v1", "some-model")
    >>> tool = Tool("add", "Add two numbers", {"type": "object"})
    >>> body = endpoint.body("Query: 1 + 2", tool)
    >>> body["tool_choice"]["function"]["name"], body["messages"][1]["content"]
    ('add', 'Query: 1 + 2')
    """

    url: str
    model: str
    key: str = ""
    timeout: float = 30.0
    tries: int = 3
    wait: float = 0.5
    longest_wait: float = 20.0
    longest_prompt: int = 100_000
    longest_reply: int = 1_000_000

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(check_text("endpoint.url", self.url))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput(f"endpoint.url: expected http:// or https://, got {self.url!r}")
        if parts.username or parts.password:
            raise InvalidInput("endpoint.url: a name or password in an address ends up in logs")
        check_text("endpoint.model", self.model)
        check_text("endpoint.key", self.key, may_be_empty=True)
        if self.key and parts.scheme == "http" and parts.hostname not in _LOCAL:
            raise InvalidInput("endpoint.url: a key would travel in the open; take https://")
        check_number("endpoint.timeout", self.timeout, 0.0, open_low=True)
        check_number("endpoint.tries", self.tries, 1)
        for name in ("wait", "longest_wait", "longest_prompt", "longest_reply"):
            check_number(f"endpoint.{name}", getattr(self, name), 0.0)

    def body(self, prompt: str, tool: Tool) -> dict[str, Any]:
        """Return what is sent: the rendered prompt, and the chosen tool as the only one."""
        function = {
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.schema),
        }
        return {
            "model": self.model,
            "messages": [
                {"role": "system", "content": _ASK.format(name=tool.name)},
                {"role": "user", "content": prompt},
            ],
            "tools": [{"type": "function", "function": function}],
            "tool_choice": {"type": "function", "function": {"name": tool.name}},
            "temperature": 0,
        }

    def fill(self, prompt: str, tool: Tool) -> Filled:
        """Ask for the arguments of a call to the tool."""
        begin = time.monotonic()
        if not check_text("prompt", prompt, may_be_empty=True).strip():
            raise InvalidInput("prompt: expected text, got none")
        if not _NAME.fullmatch(tool.name):
            raise InvalidInput(
                f"tool: endpoints take names of letters, digits, _ and -, got '{tool.name}'"
            )
        key = self._key()
        if len(prompt) > self.longest_prompt:
            said = f"the prompt has {len(prompt):,} characters, more than {self.longest_prompt:,}"
            return Filled("too large", said, None, 0)
        data = json.dumps(self.body(prompt, tool)).encode()
        wait = self.wait
        for attempt in range(1, self.tries + 1):
            try:
                arguments = read_arguments(self._send(data, key), tool.name)
            except _Trouble as trouble:
                if trouble.status in _AGAIN and attempt < self.tries:
                    time.sleep(
                        min(self.longest_wait, wait if trouble.wait is None else trouble.wait)
                    )
                    wait *= 2.0
                    continue
                said = trouble.said.replace(key, "[key]") if key else trouble.said
                return Filled(trouble.status, said, None, attempt, time.monotonic() - begin)
            return Filled("filled", "", arguments, attempt, time.monotonic() - begin)
        raise AssertionError("unreachable: the last try returns")

    def _key(self) -> str:
        if not self.key:
            return ""
        found = os.environ.get(self.key, "").strip()
        if not found:
            raise InvalidInput(f"endpoint: the environment variable {self.key} holds no key")
        return found

    def _send(self, data: bytes, key: str) -> bytes:
        """Send one request and return the reply; raise what went wrong."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        address = self.url.rstrip("/") + "/chat/completions"
        request = urllib.request.Request(address, data, headers, method="POST")
        deadline = time.monotonic() + self.timeout
        opener = urllib.request.build_opener(_NoRedirect)
        try:
            with opener.open(request, timeout=self.timeout) as reply:
                return self._read(reply, deadline)
        except urllib.error.HTTPError as error:
            with error:
                raise _http_trouble(error) from None
        except TimeoutError as error:
            raise _Trouble("timed out", f"no answer within {self.timeout:g} s") from error
        except urllib.error.URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise _Trouble("timed out", f"no answer within {self.timeout:g} s") from error
            raise _Trouble("unreachable", f"{type(error.reason).__name__}") from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise _Trouble("unreachable", type(error).__name__) from error

    def _read(self, reply: Any, deadline: float) -> bytes:
        """Read a reply within its limits of size and time; a slow drip is no answer either."""
        found = bytearray()
        while True:
            part = reply.read1(65536)
            if not part:
                return bytes(found)
            found += part
            if len(found) > self.longest_reply:
                said = f"the reply is longer than {self.longest_reply:,} bytes"
                raise _Trouble("too large", said)
            if time.monotonic() > deadline:
                raise TimeoutError


def _http_trouble(error: urllib.error.HTTPError) -> _Trouble:
    said = f"HTTP {error.code}"
    with contextlib.suppress(OSError):
        said += f": {error.read(500).decode(errors='replace')}"
    if error.code == 429:
        asked = error.headers.get("Retry-After", "")
        wait = float(asked) if re.fullmatch(r"\d{1,6}(?:\.\d+)?", asked) else None
        return _Trouble("limited", said, wait)
    return _Trouble("failed" if error.code >= 500 else "refused", said)


def read_arguments(reply: bytes, tool: str) -> dict[str, Any]:
    """Return the arguments of the one call in a reply; raise where there is none, or another.

    >>> call = {"function": {"name": "add", "arguments": '{"a": 1}'}}
    >>> reply = {"choices": [{"message": {"tool_calls": [call]}}]}
    >>> read_arguments(json.dumps(reply).encode(), "add")
    {'a': 1}
    """
    try:
        message = json.loads(reply)["choices"][0]["message"]
        calls = message.get("tool_calls") or []
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _Trouble("malformed", f"the reply is no chat completion ({error})") from error
    if len(calls) != 1:
        raise _Trouble("malformed", f"expected one call of '{tool}', got {len(calls)}")
    try:
        name, text = calls[0]["function"]["name"], calls[0]["function"]["arguments"]
        arguments = json.loads(text, parse_constant=_refuse) if isinstance(text, str) else text
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _Trouble("malformed", f"the call cannot be read ({error})") from error
    if name != tool:
        raise _Trouble("malformed", f"expected a call of '{tool}', got one of {name!r}")
    if not isinstance(arguments, dict):
        kind = type(arguments).__name__
        raise _Trouble("malformed", f"expected named arguments, got {kind}")
    return arguments


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number")
