"""One POST to an address that was checked, bounded in time and in bytes.

Client libraries resolve the name again when they connect, follow redirects, ask proxies of the
environment, and read headers for as long as these come: each is a way around the checks of
`gdcb.service.webhooks.addresses`, or a way to keep a thread. All that is wanted of the answer is
its status, so the request is written to a socket here, and one line is read.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from functools import cache

from gdcb.service.webhooks.addresses import Target

TIMEOUT = 10.0
LARGEST_ANSWER = 4_096
_BLANK = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: [^\r\n]*)?\r?\n")
# How long to listen, after the status has come, so that the receiver may finish its answer.
_PATIENCE = 0.5


class NoAnswer(Exception):
    """No status came; the sentence says why."""


@cache
def _context() -> ssl.SSLContext:
    return ssl.create_default_context()


def post(
    target: Target,
    addresses: Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
    timeout: float = TIMEOUT,
) -> int:
    """Send a body, and return the status of the answer; `timeout` bounds all of it, in seconds.

    Parameters
    ----------
    target : the URL; its host is what the certificate must be for
    addresses : where to connect; the next is tried where one does not take the connection
    """
    ends = time.monotonic() + timeout
    try:
        with _connected(target, addresses, ends) as link:
            _limit(link, ends)
            link.sendall(_request(target, headers, body))
            return _status(link, ends)
    except ssl.SSLCertVerificationError as error:
        raise NoAnswer(f"its certificate does not verify: {error.verify_message}") from error
    except TimeoutError as error:
        raise NoAnswer(f"no answer within {timeout:g} seconds") from error
    except ConnectionRefusedError as error:
        raise NoAnswer("the connection was refused") from error
    except (ssl.SSLError, OSError) as error:
        says = error.strerror or type(error).__name__
        raise NoAnswer(f"the connection failed: {says}") from error


def _connected(target: Target, addresses: Sequence[str], ends: float) -> socket.socket:
    last: OSError = ConnectionRefusedError()
    for n_tried, address in enumerate(addresses):
        # What is left is shared out: one address that swallows packets must not take it all.
        share = max(0.01, _left(ends) / (len(addresses) - n_tried))
        try:
            link = socket.create_connection((address, target.port), share)
            break
        except OSError as error:
            last = error
    else:
        raise last
    if target.scheme == "http":
        return link
    try:
        _limit(link, ends)
        return _context().wrap_socket(link, server_hostname=target.host)
    except BaseException:
        link.close()
        raise


def _request(target: Target, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [
        f"POST {target.path} HTTP/1.1",
        f"host: {target.authority}",
        f"content-length: {len(body)}",
        "connection: close",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


def _status(link: socket.socket, ends: float) -> int:
    """Read up to the status; answers that only say 'go on' (1xx) are passed over."""
    read, start = b"", 0
    while True:
        found = _STATUS.match(read, start)
        if found is not None and found[1][:1] != b"1":
            _finish(link, LARGEST_ANSWER - len(read), ends)
            return int(found[1])
        end = _BLANK.search(read, start) if found is not None else None
        if end is not None:
            start = end.end()
            continue
        is_odd = found is None and b"\n" in read[start:]
        if is_odd or len(read) >= LARGEST_ANSWER:
            raise NoAnswer("the answer is not HTTP")
        _limit(link, ends)
        more = link.recv(LARGEST_ANSWER - len(read))
        if not more:
            raise NoAnswer("the connection was closed before an answer came")
        read += more


def _finish(link: socket.socket, most: int, ends: float) -> None:
    """Let the receiver finish a short answer: one that is cut off looks like a failure there."""
    ends = min(ends, time.monotonic() + _PATIENCE)
    try:
        while most > 0 and _left(ends) > 0:
            _limit(link, ends)
            more = link.recv(most)
            if not more:
                return
            most -= len(more)
    except OSError:
        return  # the status is what counts, and it has come


def _left(ends: float) -> float:
    return ends - time.monotonic()


def _limit(link: socket.socket, ends: float) -> None:
    left = _left(ends)
    if left <= 0:
        raise TimeoutError
    link.settimeout(left)
