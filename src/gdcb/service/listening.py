"""The HTTP protocol of `gdcb serve`: uvicorn's, with limits on headers, and on unread answers.

Uvicorn waits for headers as long as a client keeps it waiting, and keeps them however many come.
It waits as long until what it answered is read, also where it has closed the connection.
Bodies are limited by the envelope (`gdcb.service.envelope`), whichever server runs.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gdcb.errors import InvalidInput
from gdcb.service.running import planned

if sys.platform == "linux":
    import fcntl
    import termios

    STEP = 64 * 2**10  # bytes: the kernel reports what was read in steps of about this size

    def in_kernel(transport: Any) -> int:
        """Return how many bytes the kernel holds that the other side has not confirmed."""
        try:
            made = transport.get_extra_info("socket").fileno()
            found = fcntl.ioctl(made, termios.TIOCOUTQ, bytes(4))
        except (AttributeError, OSError, ValueError):  # it is closed
            return 0
        return int.from_bytes(found, sys.byteorder)

else:
    STEP = 0

    def in_kernel(_: Any) -> int:
        """Return 0: how many bytes the kernel holds is asked on Linux only."""
        return 0


SLOWEST = 10_000  # bytes a second at which answers must be read
LARGEST_HEAD = 64 * 2**10  # bytes of a request's first line and headers


class Http(HttpToolsProtocol):
    """A connection that is closed where no whole headers come within the plan's `timeout`.

    The time runs from the connection on, from the first byte of each later request, and from any
    bytes that belong to no request or to one that was answered before its body had come. It ends at
    once where, for as long, answers wait that are not read at 10 kB a second, less one `STEP`.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._seconds = planned().timeout
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None  # when to look whether answers were read
        self._left: int | None = None  # bytes that waited when nothing more could be written
        self._answering: RequestResponseCycle | None = None  # the request that is being answered
        self._is_head, self._is_large = True, False
        self._fields = 0  # bytes of the first line and of the fields that came whole
        self._pieces = 0  # bytes of whole pieces of a head, or of what follows a body's last byte
        self._is_mixed = False  # the piece at hand holds something else as well

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for headers."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take what came; close the connection where headers are larger than anybody needs.

        The parser shows a field only when it is complete, and keeps it in memory until then. So
        pieces are counted too, except those that also hold another request or some of a body.
        """
        self._is_mixed = False
        super().data_received(data)
        if self.transport.is_closing():
            return
        if not self._is_mixed:
            self._pieces += len(data)
            if self._pieces > LARGEST_HEAD:
                self._is_large = True
                self.send_400_response("")
                return
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        if cycle is None or cycle.response_complete:
            self._wait()

    def on_message_begin(self) -> None:
        """Begin to wait for the headers of another request."""
        super().on_message_begin()
        self._is_head, self._is_mixed = True, True
        self._fields = self._pieces = 0
        self._wait()

    def on_url(self, url: bytes) -> None:
        """Take some of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field; drop one that follows the body: nobody reads those, nor are they headers.

        Uvicorn would add it to the headers of the request that is being answered.
        """
        self._count(len(name) + len(value) + 4)
        if self._is_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Wait no longer: the envelope looks after the body."""
        self._is_head, self._is_mixed = False, True
        self._fields = self._pieces = 0
        self._stop()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take some of the body, which the envelope limits."""
        self._is_mixed, self._pieces = True, 0
        super().on_body(body)

    def pause_writing(self) -> None:
        """Begin to wait until what was answered is read."""
        super().pause_writing()
        self._left = self._unread_bytes()
        if self._unread is not None:
            self._unread.cancel()
        self._unread = self.loop.call_later(self._seconds, self._look_for_reading)

    def resume_writing(self) -> None:
        """Write on."""
        super().resume_writing()
        self._left = None

    def on_response_complete(self) -> None:
        """Look later whether the answer was read: also a closed connection stays until it is."""
        if self._unread is None:
            self._unread = self.loop.call_later(self._seconds, self._look_for_reading)
        super().on_response_complete()

    def _look_for_reading(self) -> None:
        """End the connection where too little was read since nothing more could be written."""
        before, left = self._left, self._unread_bytes()
        self._unread = self._left = None
        if self.transport.get_write_buffer_size() == 0:
            return
        if before is not None and before - left < max(1, SLOWEST * self._seconds - STEP):
            self.logger.info("answers were not read within %g seconds", self._seconds)
            self.transport.abort()
            return
        if self.flow.write_paused or self.transport.is_closing():
            self._left = left
        self._unread = self.loop.call_later(self._seconds, self._look_for_reading)

    def _unread_bytes(self) -> int:
        """Return how many bytes of answers nobody has read, those in the kernel's hands among them.

        It holds megabytes, and takes more only when a good part of them is gone.
        """
        return self.transport.get_write_buffer_size() + in_kernel(self.transport)

    def send_400_response(self, msg: str) -> None:
        """Say what is wrong with a request that cannot be read, and close the connection."""
        large = f"The headers are larger than {LARGEST_HEAD} bytes."
        cycle = self._answering
        if cycle is not None and cycle.response_started and not cycle.response_complete:
            self.transport.close()  # in the middle of another answer it would be taken for that
        else:
            super().send_400_response(large if self._is_large else msg)
        self._leave()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        self._leave()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def _leave(self) -> None:
        """Tell the request that is being answered that nobody listens any more.

        Uvicorn tells only the one that came last, and the others would write to what is closed.
        """
        self.pipeline.clear()
        if self._answering is not None:
            self._answering.disconnected = True
            self._answering.message_event.set()

    def _count(self, size: int) -> None:
        self._fields += size
        if self._fields > LARGEST_HEAD:
            self._is_large = True
            raise InvalidInput(f"headers: expected at most {LARGEST_HEAD} bytes, got more")

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
            self._leave()
