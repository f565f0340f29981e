"""The HTTP protocol of `gdcb serve`: uvicorn's, with limits on a request's headers.

Uvicorn waits for headers as long as a client keeps it waiting, and keeps them however many come.
Bodies are limited by the envelope (`gdcb.service.envelope`), whichever server runs.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gdcb.errors import InvalidInput
from gdcb.service.running import planned

LARGEST_HEAD = 64 * 2**10  # bytes of a request's first line and headers


class Http(HttpToolsProtocol):
    """A connection that is closed where no whole headers come within the plan's `timeout`.

    The time runs from the connection on, from the first byte of each later request, and from any
    bytes that belong to no request or to one that was answered before its body had come.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._seconds = planned().timeout
        self._timer: asyncio.TimerHandle | None = None
        self._is_head, self._head = True, 0
        self._is_large = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for headers."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take what came; close the connection where headers are larger than anybody needs."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._is_head:
            self._head += len(data)
            if self._head > LARGEST_HEAD:
                self._is_large = True
                self.send_400_response("")
                return
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        if cycle is None or cycle.response_complete:
            self._wait()

    def on_message_begin(self) -> None:
        """Begin to wait for the headers of another request."""
        super().on_message_begin()
        self._is_head, self._head = True, 0
        self._wait()

    def on_headers_complete(self) -> None:
        """Wait no longer: the envelope looks after the body; begin nothing on too large headers."""
        self._is_head = False
        self._stop()
        # Headers that came whole, in one piece, or behind another request, are counted here alone.
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > LARGEST_HEAD:
            self._is_large = True
            raise InvalidInput(f"headers: expected at most {LARGEST_HEAD} bytes, got {size}")
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Say what is wrong with a request that cannot be read, and close the connection."""
        large = f"The headers are larger than {LARGEST_HEAD} bytes."
        super().send_400_response(large if self._is_large else msg)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self._seconds, self._late)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.logger.info("no whole headers came within %g seconds", self._seconds)
            self.transport.close()
