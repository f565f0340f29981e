"""A small HTTP client that keeps its own time: open loop, latency from when a request was due."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass
class Seen:
    """What came of the requests of one run.

    `seconds` are from the moment a request was due to its answer; `acknowledged` are the ids that
    were answered with 200 or 201.
    """

    status: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    wall: float = 0.0

    def quantile(self, share: float) -> float:
        """Return a quantile of the latency of what was answered, in ms."""
        known = sorted(self.seconds)
        return 1e3 * known[min(len(known) - 1, int(share * len(known)))] if known else float("nan")


class Wire(asyncio.Protocol):
    """One connection with one request on its way at a time."""

    def __init__(self, done: Callable[[Wire, int], None]) -> None:
        self._done = done
        self._buffer = b""
        self.transport: asyncio.Transport | None = None
        self.due, self.name = 0.0, ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def send(self, raw: bytes, due: float, name: str) -> None:
        """Send a request that was due at a time."""
        self.due, self.name = due, name
        assert self.transport is not None
        self.transport.write(raw)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        at = head.find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(self._buffer) < end + 4 + length:
            return
        status = int(self._buffer[9:12])
        self._buffer = b""
        self._done(self, status)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.name:
            self._done(self, 0)


Make = Callable[[int], tuple[str, bytes]]


async def drive(
    host: str,
    ports: Sequence[int],
    make: Make,
    seconds: float,
    connections: int,
    rate: float | None,
) -> Seen:
    """Send requests: `rate` a second whatever comes back, or as many as are answered (None).

    Connections are spread over the ports.
    """
    loop, seen = asyncio.get_running_loop(), Seen()
    idle: deque[Wire] = deque()
    sent, waiting = 0, 0
    begun = time.perf_counter()
    until = begun + seconds
    late: deque[float] = deque()

    def done(wire: Wire, status: int) -> None:
        nonlocal waiting
        now = time.perf_counter()
        seen.status[status] += 1
        waiting -= 1
        if status in (200, 201):
            seen.seconds.append(now - wire.due)
            seen.acknowledged.append(wire.name)
        else:
            seen.refused.append(now - wire.due)
        wire.name = ""
        if late:
            fire(wire, late.popleft())
        elif rate is None and now < until:
            fire(wire, now)
        else:
            idle.append(wire)

    def fire(wire: Wire, due: float) -> None:
        nonlocal sent, waiting
        name, raw = make(sent)
        sent += 1
        waiting += 1
        wire.send(raw, due, name)

    for i in range(connections):
        port = ports[i % len(ports)]
        _, wire = await loop.create_connection(lambda: Wire(done), host, port)
        idle.append(wire)
    begun = time.perf_counter()
    until = begun + seconds
    if rate is None:
        while idle:
            fire(idle.popleft(), time.perf_counter())
        while time.perf_counter() < until or waiting:
            await asyncio.sleep(0.01)
    else:
        due = 0
        while (now := time.perf_counter()) < until or waiting:
            while now < until and begun + due / rate <= now:
                at = begun + due / rate
                due += 1
                if idle:
                    fire(idle.popleft(), at)
                else:
                    late.append(at)
            await asyncio.sleep(0.001)
            if now > until + 30:
                break
    seen.wall = time.perf_counter() - begun
    return seen


def post(path: str, host: str, key: str, body: bytes) -> bytes:
    """Return a request as bytes."""
    return (
        f"POST {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode() + body
