"""A receiver of webhooks on this machine, which answers as a test tells it to."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gdcb.client import HEADER


@dataclass
class Post:
    """One POST as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def signature(self) -> str:
        return self.headers[HEADER]

    @property
    def told(self) -> dict[str, Any]:
        return dict(json.loads(self.body, parse_constant=_refuse))

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.told["messages"])


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} in JSON")


@dataclass
class Receiver:
    """What came, and what is answered: `script` first, a status or bytes each, then 204."""

    url: str = ""
    posts: list[Post] = field(default_factory=list)
    script: list[int | bytes | Callable[[], int]] = field(default_factory=list)

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [message for post in self.posts for message in post.messages]

    @property
    def kinds(self) -> list[str]:
        return [message["kind"] for message in self.messages]

    @property
    def ids(self) -> list[str]:
        return [message["id"] for message in self.messages]


@contextmanager
def receiving(context: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """Run a receiver for a while; with a context it speaks TLS."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.posts.append(Post(self.path, headers, body))
            answer = receiver.script.pop(0) if receiver.script else 204
            if callable(answer):
                answer = answer()
            if isinstance(answer, bytes):
                self.wfile.write(answer)
                self.close_connection = True
                return
            self.send_response(answer)
            if 300 <= answer < 400:
                self.send_header("location", f"{receiver.url}/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    receiver.url = f"{'https' if context else 'http'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
