"""Against a service on a real socket that breaks off: a decision is made once."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from gdcb.client import AsyncClient, Client, Unreachable

GOOD = "good"


@dataclass
class Service:
    """Decides each id once, whatever becomes of the answer; `script` says what does."""

    url: str = ""
    script: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    made: dict[str, dict[str, Any]] = field(default_factory=dict)


@contextmanager
def serving() -> Iterator[Service]:
    """Run a service for a while."""
    service = Service()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            said = json.loads(self.rfile.read(int(self.headers["content-length"])))
            fate = service.script.pop(0) if service.script else GOOD
            service.asked.append(said["id"])
            if fate.isdigit():
                self._answer(int(fate), {"error": {"code": "x", "message": "m", "request": "r"}})
                return
            is_new = said["id"] not in service.made
            made = service.made.setdefault(said["id"], {"id": said["id"], "n": len(service.made)})
            if fate == "reset":  # the decision is made, and the connection is torn down
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.close_connection = True
            elif fate == "half":  # … or breaks off in the middle of the answer
                self._answer(201, made, cut=5)
            elif fate == "head":
                self.wfile.write(b"HTTP/1.1 201 Cre")
                self.close_connection = True
            else:
                self._answer(201 if is_new else 200, made)

        def _answer(self, status: int, document: dict[str, Any], cut: int | None = None) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:cut])
            self.close_connection = cut is not None

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def decide(service: Service, is_async: bool, n: int = 1) -> list[dict[str, Any]]:
    """Ask for n decisions, one after the other, with a client that does not wait."""
    if not is_async:
        with Client(service.url, "key", sleep=lambda seconds: None) as client:
            return [client.decide("rooms", {"base": 1.0}) for _ in range(n)]

    async def at_once(seconds: float) -> None:
        return

    async def run() -> list[dict[str, Any]]:
        async with AsyncClient(service.url, "key", sleep=at_once) as client:
            return [await client.decide("rooms", {"base": 1.0}) for _ in range(n)]

    return asyncio.run(run())


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "fates",
    [["503", "503"], ["reset"], ["half"], ["head"], ["half", "reset", "503", "head", "502"]],
    ids=" ".join,
)
def test_a_decision_is_made_once(is_async: bool, fates: list[str]) -> None:
    with serving() as service:
        service.script = list(fates)
        (answer,) = decide(service, is_async)
        assert service.made == {answer["id"]: answer}
        assert service.asked == [answer["id"]] * (len(fates) + 1)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_connection_that_died_in_between_is_replaced(is_async: bool) -> None:
    with serving() as service:
        service.script = [GOOD, "half", GOOD, GOOD, "reset", GOOD]
        answers = decide(service, is_async, 4)
        assert [answer["n"] for answer in answers] == [0, 1, 2, 3]
        assert len(service.made) == 4


@pytest.mark.parametrize("is_async", [False, True])
def test_a_service_that_stays_away(is_async: bool) -> None:
    with serving() as service:
        pass
    with pytest.raises(Unreachable, match="no answer after 6 tries"):
        decide(service, is_async)


def test_many_threads_share_a_client() -> None:
    """With tries enough for all bad fates, however they fall on the threads."""
    fates = ["503", "half", "reset"] * 5
    with (
        serving() as service,
        Client(service.url, "key", sleep=lambda seconds: None, retries=len(fates)) as client,
        ThreadPoolExecutor(20) as pool,
    ):
        service.script = list(fates)
        ids = [f"n{i}" for i in range(20)]
        answers = list(pool.map(lambda id: client.decide("rooms", {}, id=id), ids))
        assert [answer["id"] for answer in answers] == ids
        assert sorted(service.made) == sorted(f"n{i}" for i in range(20))
