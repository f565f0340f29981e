"""What goes around every answer: an id, security headers, a size limit, time and status counted."""

from __future__ import annotations

import itertools
import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fastapi.responses import JSONResponse

from gdcb.service.access import security_headers
from gdcb.service.house import House
from gdcb.service.problems import BadRequest, problem_of

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
_ID = re.compile(rb"^[A-Za-z0-9._-]{1,64}$")


class Envelope:
    """Wrap an application; plain ASGI, since it is on the way of every request."""

    def __init__(self, app: App, house: House) -> None:
        self._app, self._house = app, house
        self._prefix, self._count = secrets.token_hex(4), itertools.count()
        self._timers: dict[tuple[str, int], Any] = {}
        is_https = house.door.is_https
        self._headers = _raw(security_headers(is_https=is_https))
        self._static = _raw(security_headers(is_static=True, is_https=is_https))

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 500
        given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
        # No call into the system for it: that would cost a request more than all the rest here.
        name = given.decode() if _ID.match(given) else f"{self._prefix}{next(self._count):08x}"
        scope.setdefault("state", {})["request_id"] = name
        is_static = scope["path"].startswith("/static/")
        extra = [*(self._static if is_static else self._headers), (b"x-request-id", name.encode())]

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = {key for key, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(pair for pair in extra if pair[0] not in own),
                ]
            await send(message)

        # No database keeps it, and a program that sends it is looking for a hole.
        has_nul = "\0" in scope["path"] or b"%00" in scope["query_string"]
        app = _refuse_address if has_nul else self._app
        try:
            await app(scope, _limited(receive, self._house.settings.largest), sending)
        finally:
            route = scope.get("route")
            path = getattr(route, "path", "other")
            timer = self._timers.get((path, status))
            if timer is None:
                timer = self._house.metrics.seconds.labels(path, str(status))
                self._timers[path, status] = timer
            timer.observe(time.perf_counter() - begun)


async def _refuse_address(scope: Message, receive: Receive, send: Send) -> None:
    error = BadRequest("the address has the character NUL, which no name of ours has")
    status, said, headers = problem_of(error, scope["state"]["request_id"])
    await JSONResponse(said, status, headers)(scope, receive, send)


def _raw(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def _limited(receive: Receive, largest: int) -> Receive:
    """Return a stream that refuses more bytes than are allowed."""
    seen = 0

    async def limited() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > largest:
                raise BadRequest(
                    f"the body is larger than {largest // 2**20} MiB", 413, "too_large"
                )
        return message

    return limited
