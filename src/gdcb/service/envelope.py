"""What goes around every answer: an id, security headers, a size limit, time and status counted."""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fastapi.responses import JSONResponse

from gdcb.service.access import security_headers
from gdcb.service.house import House
from gdcb.service.line import Overloaded
from gdcb.service.problems import BadRequest, problem_of
from gdcb.service.routing import sender_of

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
SLOWEST = 10_000  # bytes a second at which a body may come
_LARGE = 256 * 2**10  # bytes after which it must come ten times as fast
_FREE = 64 * 2**10  # bytes of each body that are not counted, so that decisions always have room
_ID = re.compile(rb"^[A-Za-z0-9._-]{1,64}$")


class Bodies:
    """How many bytes of bodies are in memory, of all requests and of each sender.

    Parameters
    ----------
    most, most_each : bytes of all together, and of one key, person or address
    """

    def __init__(self, most: int, most_each: int) -> None:
        self._most, self._most_each, self._all = most, most_each, 0
        self._each: dict[str, int] = {}

    def take(self, who: str, size: int) -> None:
        """Count bytes; Overloaded where there is no room for them."""
        of_theirs = self._each.get(who, 0) + size
        if of_theirs > self._most_each or self._all + size > self._most:
            raise Overloaded("too many large bodies at once: try again in 1 second")
        self._each[who] = of_theirs
        self._all += size

    def give(self, who: str, size: int) -> None:
        """Forget bytes that are no longer in memory."""
        self._all -= size
        self._each[who] -= size
        if not self._each[who]:
            del self._each[who]


class Envelope:
    """Wrap an application; plain ASGI, since it is on the way of every request."""

    def __init__(self, app: App, house: House) -> None:
        self._app, self._house = app, house
        self._prefix, self._count = secrets.token_hex(4), itertools.count()
        self._bodies = Bodies(house.settings.bodies, house.settings.bodies_each)
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
        given, announced = b"", b""
        for header, value in scope["headers"]:
            if header == b"x-request-id":
                given = value
            elif header == b"content-length":
                announced = value
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

        held: dict[str, int] = {}

        def take(size: int) -> None:
            who = sender_of(scope)
            self._bodies.take(who, size)
            held[who] = held.get(who, 0) + size

        # No database keeps it, and a program that sends it is looking for a hole.
        has_nul = "\0" in scope["path"] or b"%00" in scope["query_string"]
        app = _refuse_address if has_nul else self._app
        try:
            settings = self._house.settings
            body = limited(receive, settings.largest, settings.timeout, announced, take)
            await app(scope, body, sending)
        finally:
            for who, size in held.items():
                self._bodies.give(who, size)
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


def limited(
    receive: Receive,
    largest: int,
    timeout: float | None = None,
    announced: bytes = b"",
    take: Callable[[int], None] | None = None,
) -> Receive:
    """Return a body's stream that refuses more bytes than are allowed, and bytes that do not come.

    Parameters
    ----------
    receive : the stream
    largest : bytes at most
    timeout : seconds in which all of it must come, beyond `_needs`; None: somebody else looks
    announced : the length that the headers say, if any: then no byte is read where it is too large
    take : is told how many bytes came, but for the first; raises where there is no room for them
    """
    seen, is_whole, deadline = 0, timeout is None, 0.0

    def check(size: int) -> None:
        if size > largest:
            said = f"{largest // 2**20} MiB" if largest >= 2**20 else f"{largest // 2**10} KiB"
            raise BadRequest(f"the body is larger than {said}", 413, "too_large")

    async def next_part() -> Message:
        nonlocal seen, is_whole, deadline
        if not seen and announced.isdigit():
            check(int(announced[:20]))
        if is_whole or timeout is None:
            message = await receive()
        else:
            deadline = deadline or asyncio.get_running_loop().time() + timeout
            try:
                async with asyncio.timeout_at(deadline + _needs(seen)):
                    message = await receive()
            except TimeoutError:
                raise BadRequest("the body did not come in time") from None
        if message["type"] == "http.request":
            before, seen = max(seen, _FREE), seen + len(message.get("body", b""))
            is_whole = is_whole or not message.get("more_body", False)
            check(seen)
            if take is not None and seen > before:
                take(seen - before)
        return message

    return next_part


def _needs(size: int) -> float:
    """Return how many seconds so many bytes may take: the more they are, the faster they come.

    >>> _needs(100_000), round(_needs(2**18 + 1_000_000), 1)
    (10.0, 36.2)
    """
    return min(size, _LARGE) / SLOWEST + max(0, size - _LARGE) / (10 * SLOWEST)
