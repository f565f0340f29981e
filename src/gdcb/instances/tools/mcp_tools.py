"""Tools of an MCP server as candidates of a router, and calls to them as outcomes.

What goes wrong in a call is data: a status and a sentence, never an exception that ends the router.
What a server says of its own tools (that they only read, say) is believed only where it makes a
tool more dangerous, never where it makes one safe.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from gdcb.errors import InvalidInput
from gdcb.parts import check_number, check_text

LONGEST = 100_000  # characters of a result that are kept
PAGES = 100  # pages of a tool list that are asked for
# What can become of a call.
STATUSES = ("answered", "failed", "timed out", "vanished", "changed", "unreachable")


@dataclass(frozen=True)
class Tool:
    """A tool as its server declares it."""

    name: str
    description: str
    schema: Mapping[str, Any]
    says_it_reads: bool = False

    @property
    def fingerprint(self) -> str:
        """What identifies its declaration: a tool that changes it is another tool."""
        text = json.dumps([self.name, self.description, self.schema], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Called:
    """What became of a call: one of `STATUSES`, and its result or what went wrong as text."""

    tool: str
    status: str
    text: str
    seconds: float

    @property
    def is_success(self) -> bool:
        """Whether the tool answered."""
        return self.status == "answered"


@dataclass
class Server:
    """An open connection to an MCP server; `connect` makes one.

    Parameters
    ----------
    timeout : seconds that any one answer may take
    """

    client: Any
    portal: Any
    timeout: float = 30.0
    _listed: dict[str, Tool] = field(default_factory=dict)

    def tools(self) -> dict[str, Tool]:
        """Ask the server for its tools now, all pages of them: by name, in its order."""
        found: dict[str, Tool] = {}
        cursor: str | None = None
        for _ in range(PAGES):
            page = self.portal.call(self._page, cursor)
            for tool in page.tools:
                name = check_text("tool", tool.name)
                if name in found:
                    raise InvalidInput(f"tools: the server names '{name}' twice")
                notes = tool.annotations
                reads = bool(notes and notes.read_only_hint)
                found[name] = Tool(name, tool.description or name, tool.input_schema, reads)
            cursor = page.next_cursor
            if cursor is None:
                self._listed = found
                return found
        raise InvalidInput(f"tools: the server's list did not end after {PAGES} pages")

    async def _page(self, cursor: str | None) -> Any:
        import anyio

        with anyio.fail_after(self.timeout):
            return await self.client.list_tools(cursor=cursor, cache_mode="bypass")

    def call(self, tool: Tool, arguments: Mapping[str, Any], is_checked: bool = True) -> Called:
        """Call a tool as it was when it was decided on.

        With `is_checked` the list is asked for again first: a tool that vanished or declares
        something else by now is not called.
        """
        begin = time.monotonic()
        status, text = self._outcome(tool, dict(arguments), is_checked)
        return Called(tool.name, status, text[:LONGEST], time.monotonic() - begin)

    def _outcome(self, tool: Tool, arguments: dict[str, Any], is_checked: bool) -> tuple[str, str]:
        try:
            if is_checked:
                now = self.tools().get(tool.name)
                if now is None:
                    return self._lost(tool.name)
                if now.fingerprint != tool.fingerprint:
                    said = "declares other arguments or another purpose than when it was chosen"
                    return "changed", f"the tool '{tool.name}' {said}"
            result = self.portal.call(self._call, tool.name, arguments)
            text = "\n".join(getattr(part, "text", f"[{part.type}]") for part in result.content)
            if not result.is_error:
                return "answered", text
            # An error about a tool that is no longer there is not the tool's own.
            return ("failed", text) if tool.name in self.tools() else self._lost(tool.name)
        except Exception as error:  # whatever a server does, the router goes on
            return self._trouble(tool, error)

    async def _call(self, name: str, arguments: dict[str, Any]) -> Any:
        import anyio

        with anyio.fail_after(self.timeout):
            return await self.client.call_tool(name, arguments)

    def _trouble(self, tool: Tool, error: Exception) -> tuple[str, str]:
        """Say what an exception on the way to the server and back means."""
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT

        code = error.code if isinstance(error, MCPError) else None
        if isinstance(error, TimeoutError) or code == REQUEST_TIMEOUT:
            return "timed out", f"no answer within {self.timeout:g} s"
        if code is None or code == CONNECTION_CLOSED:
            return "unreachable", f"the server cannot be reached ({type(error).__name__}: {error})"
        try:
            return ("failed", str(error)) if tool.name in self.tools() else self._lost(tool.name)
        except Exception as other:
            return "unreachable", f"the server cannot be reached ({type(other).__name__})"

    def _lost(self, name: str) -> tuple[str, str]:
        known = ", ".join(self._listed) or "none"
        return "vanished", f"the tool '{name}' is not there any more; the server has {known}"


@contextmanager
def connect(
    command: str,
    arguments: Sequence[str] = (),
    *,
    timeout: float = 30.0,
    folder: Path | None = None,
    log: TextIO | None = None,
) -> Iterator[Server]:
    """Start an MCP server as a process, speak to it over stdio, and end it afterwards.

    Parameters
    ----------
    command, arguments : what starts the server
    timeout : seconds that any one answer may take, the first among them
    folder : working folder of the server
    log : where its standard error goes; nowhere by default
    """
    try:
        from anyio.from_thread import start_blocking_portal
        from mcp import Client, StdioServerParameters, stdio_client
    except ImportError as error:
        raise InvalidInput("MCP servers need mcp: install gdcb[domains]") from error

    check_number("timeout", timeout, 0.0, open_low=True)
    asked = StdioServerParameters(command=command, args=list(arguments), cwd=folder)

    with ExitStack() as stack:
        sink = log or stack.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
        portal = stack.enter_context(start_blocking_portal())
        try:
            client = Client(stdio_client(asked, errlog=sink), read_timeout_seconds=timeout)
            stack.enter_context(portal.wrap_async_context_manager(client))
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            raise InvalidInput(f"server: '{command}' could not be started ({said})") from error
        yield Server(client, portal, timeout)
