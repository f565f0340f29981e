"""Clients that leave, dawdle or never end, by raw sockets at a real `gdcb serve`.

They are strangers: nobody has signed in. None of them gets a 500, a lasting connection, or more
than a line in the log.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.test_cli_serve import LISTING, fetched, free_port

TIMEOUT = 2.5
SLACK = 6.0  # of a busy machine
FORM = b"Content-Type: application/x-www-form-urlencoded\r\n"
PARTS = b"Content-Type: multipart/form-data; boundary=x\r\n"
JSON = b"Content-Type: application/json\r\n"


@dataclass
class Served:
    """A service at a port of its own, and the file that it writes to."""

    port: int
    log: Path

    def open(self) -> socket.socket:
        """Open a connection."""
        one = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        one.settimeout(TIMEOUT + SLACK)
        return one

    def said(self) -> str:
        """Return what it wrote so far."""
        return self.log.read_text()


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Run `gdcb serve` with a short timeout."""
    folder, port = tmp_path_factory.mktemp("served"), free_port()
    (folder / "listing.toml").write_text(LISTING)
    command = [sys.executable, "-m", "gdcb", "serve", "--empty", "listing.toml"]
    command += ["--port", str(port), "--timeout", f"{TIMEOUT:g}"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        try:
            until = time.monotonic() + 60
            while True:
                try:
                    assert fetched(f"http://127.0.0.1:{port}/healthz")[0] == 200
                    break
                except OSError:
                    assert process.poll() is None, (folder / "log").read_text()
                    assert time.monotonic() < until
                    time.sleep(0.1)
            yield Served(port, folder / "log")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)


def head(path: str = "/sign-in", *lines: bytes, method: str = "POST") -> bytes:
    """Return the first line and the headers of a request."""
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n".encode() + b"".join(lines) + b"\r\n"


def all_of(one: socket.socket) -> bytes:
    """Return what comes until the other side ends it; fails where it stays open."""
    found = b""
    try:
        while part := one.recv(65536):
            found += part
    except ConnectionResetError:
        pass
    return found


def taken(one: socket.socket, line: bytes, most: int) -> int:
    """Send a line over and over until the other side ends it; return how many bytes went out."""
    for sent in range(0, most, len(line)):
        try:
            one.sendall(line)
        except ConnectionError:
            return sent
    return most


def dripped(one: socket.socket, drop: bytes) -> bytes:
    """Send some bytes every tenth of a second until the other side ends it; return its answer."""
    until, found = time.monotonic() + TIMEOUT + SLACK, b""
    one.settimeout(0.1)
    while time.monotonic() < until:
        try:
            one.sendall(drop)
            part = one.recv(65536)
        except TimeoutError:
            continue
        except OSError:
            return found
        if not part:
            return found
        found += part
    raise AssertionError(f"still open after {TIMEOUT + SLACK:g} seconds; it said {found[:200]!r}")


def test_a_body_that_is_dropped_is_worth_a_line_at_most(there: Served) -> None:
    """The client leaves in the middle of twenty forms and bodies; kilobytes were logged of each."""
    before = there.said()
    for path in ("/sign-in", "/settings", "/people", "/i/listing/d/a/approve", "/sign-out"):
        for kind, body in ((FORM, b"login=a"), (PARTS, b"--x\r\n"), (PARTS, b""), (JSON, b"{")):
            with there.open() as one:
                one.sendall(head(path, kind, b"Content-Length: 1000\r\n") + body)
                time.sleep(0.02)
    with there.open() as one:  # what it is answered who still listens
        one.sendall(head("/sign-in", FORM, b"Content-Length: 10\r\n") + b"login=a")
        one.shutdown(socket.SHUT_WR)
        answer = all_of(one)
    assert not answer or answer.startswith(b"HTTP/1.1 400"), answer[:200]
    assert fetched(f"http://127.0.0.1:{there.port}/healthz")[0] == 200
    news = there.said()[len(before) :]
    assert "Traceback" not in news
    assert len(news) < 21 * 100


@pytest.mark.parametrize("n", [1, 100], ids=["one header", "a hundred"])
def test_headers_that_come_whole_are_limited_too(there: Served, n: int) -> None:
    """100 KiB of them that came in one piece were answered with 200."""
    more = [b"X-%d: %b\r\n" % (i, b"a" * (100 * 1024 // n)) for i in range(n)]
    with there.open() as one:
        one.sendall(head("/healthz", *more, method="GET"))
        answer = all_of(one)
    assert answer.startswith(b"HTTP/1.1 400"), answer[:200]
    assert b"larger than 65536 bytes" in answer
    behind = head("/healthz", method="GET") + head("/healthz", *more, method="GET")
    with there.open() as one:
        one.sendall(behind)
        assert all_of(one).count(b"HTTP/1.1 200") <= 1
    few = [line[: len(line) // 2] + b"\r\n" for line in more]
    with there.open() as one:
        one.sendall(head("/healthz", *few, b"Connection: close\r\n", method="GET"))
        assert all_of(one).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "line", [b"X: " + b"a" * 8000 + b"\r\n", b"a" * 8005], ids=["lines", "one"]
)
def test_fields_behind_a_body_are_limited_too(there: Served, line: bytes) -> None:
    """They were kept without end: 5 GB in half a minute from one stranger's connection."""
    chunked = head("/sign-in", FORM, b"Transfer-Encoding: chunked\r\n") + b"3\r\na=b\r\n0\r\n"
    with there.open() as one:
        one.sendall(chunked + (b"" if line.startswith(b"X") else b"X: "))
        assert taken(one, line, 64 * 2**20) < 16 * 2**20  # what sockets hold is not read
    with there.open() as one:  # a few, which nobody reads, are no reason to refuse
        last = head("/healthz", b"Connection: close\r\n", method="GET")
        one.sendall(chunked + b"Cookie: a=b\r\n\r\n" + last)
        said = all_of(one)
    assert b"HTTP/1.1 400" not in said
    assert said.endswith(b"}"), said[-100:]


PARCEL = head("/sign-in", FORM, b"Content-Length: 15000\r\n") + b"a" * 15000


def test_what_came_before_is_not_counted_as_headers(there: Served) -> None:
    """Five small requests in one piece and some of a sixth were answered with 400."""
    before = there.said()
    with there.open() as one:
        one.sendall(PARCEL * 5 + b"GET /healthz HTTP/1.1\r\n")
        time.sleep(0.5)
        one.sendall(b"Connection: close\r\nHost: x\r\n\r\n")
        said = all_of(one)
    assert said.count(b"HTTP/1.1 ") == 6
    assert b"HTTP/1.1 400" not in said
    assert b"HTTP/1.1 200" in said
    assert "Traceback" not in there.said()[len(before) :]


@pytest.mark.parametrize("last", [b"\0\0garbage\r\n\r\n", b"leave"])
def test_answers_to_a_closed_connection_are_left(there: Served, last: bytes) -> None:
    """Each was written to what was closed, and each left two tracebacks in the log."""
    before = there.said()
    for _ in range(5):
        with there.open() as one:
            one.sendall(head("/healthz", method="GET") + PARCEL * 3)
            if last != b"leave":
                one.sendall(last)
                time.sleep(0.1)
    time.sleep(0.5)
    assert fetched(f"http://127.0.0.1:{there.port}/healthz")[0] == 200
    news = there.said()[len(before) :]
    assert "Traceback" not in news
    assert len(news) < 5 * 100


SLOW: dict[str, Callable[[Served], bytes]] = {}


def slow(one: Callable[[Served], bytes]) -> Callable[[Served], bytes]:
    """Register a client that means to stay for ever."""
    SLOW[one.__name__] = one
    return one


@slow
def nothing_at_all(there: Served) -> bytes:
    with there.open() as one:
        return all_of(one)


@slow
def headers_letter_by_letter(there: Served) -> bytes:
    with there.open() as one:
        one.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nA: ")
        return dripped(one, b"b")


@slow
def header_after_header(there: Served) -> bytes:
    with there.open() as one:
        one.sendall(b"GET / HTTP/1.1\r\n")
        return dripped(one, b"A: b\r\n")


@slow
def form_letter_by_letter(there: Served) -> bytes:
    with there.open() as one:
        one.sendall(head("/sign-in", FORM, b"Content-Length: 10000\r\n"))
        return dripped(one, b"a")


@slow
def parts_in_chunks(there: Served) -> bytes:
    with there.open() as one:
        part = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n'
        chunk = f"{len(part):x}\r\n".encode() + part + b"\r\n"
        one.sendall(head("/sign-in", PARTS, b"Transfer-Encoding: chunked\r\n") + chunk)
        return dripped(one, b"1\r\nb\r\n")


@slow
def a_second_request_that_is_empty_lines(there: Served) -> bytes:
    with there.open() as one:
        one.sendall(head("/healthz", method="GET"))
        assert one.recv(65536).startswith(b"HTTP/1.1 200")
        return dripped(one, b"\r\n")


@slow
def a_body_after_the_answer(there: Served) -> bytes:
    with there.open() as one:
        one.sendall(head("/v1/instances/listing/decisions", JSON, b"Content-Length: 9999999\r\n"))
        return dripped(one, b" ")


def test_whoever_dawdles_is_put_out(there: Served) -> None:
    """All at once, with fifty who say nothing beside them; others are answered meanwhile."""
    said: dict[str, bytes | BaseException] = {}

    def run(name: str) -> None:
        try:
            said[name] = SLOW[name](there)
        except BaseException as error:
            said[name] = error

    before = there.said()
    crowd = [there.open() for _ in range(50)]
    work = [threading.Thread(target=run, args=(name,)) for name in SLOW]
    for one in work:
        one.start()
    begun = time.monotonic()
    assert fetched(f"http://127.0.0.1:{there.port}/healthz")[0] == 200
    assert time.monotonic() - begun < SLACK
    for one in work:
        one.join(timeout=30)
    assert {name for name, found in said.items() if isinstance(found, bytes)} == set(SLOW), said
    for waiting in crowd:
        assert all_of(waiting) == b""
        waiting.close()
    for name in ("form_letter_by_letter", "parts_in_chunks"):
        answer = said[name]
        assert isinstance(answer, bytes)
        assert answer.startswith(b"HTTP/1.1 400"), answer[:200]
        assert b"the body did not come in time" in answer
    assert str(said["a_body_after_the_answer"]).startswith("b'HTTP/1.1 401")
    assert there.said() == before


def asking(there: Served, times: int, room: int) -> socket.socket:
    """Return a connection that has asked for a large document so often, and read nothing."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    one.settimeout(TIMEOUT + SLACK)
    one.connect(("127.0.0.1", there.port))
    one.sendall(head("/v1/openapi.json", method="GET") * times)
    return one


def is_ended(one: socket.socket, until: float) -> bool:
    """Return whether the other side ends a connection in time; nothing is read of it."""
    with one:
        while time.monotonic() < until:
            try:
                one.sendall(b"\r\n")
            except ConnectionError:
                return True
            time.sleep(0.2)
    return False


def test_whoever_reads_nothing_is_put_out(there: Served) -> None:
    """Headers and bodies had to come in time; answers waited for ever, and kept a descriptor."""
    before = there.said()
    crowd = [asking(there, times, 4096) for times in (60, 60, 400)]
    until = time.monotonic() + 3 * TIMEOUT + SLACK
    assert [is_ended(one, until) for one in crowd] == [True] * 3
    assert there.said() == before


def test_whoever_reads_slowly_gets_all_of_it(there: Served) -> None:
    """It takes several times the limit, but goes on all the time."""
    with asking(there, 120, 65_536) as one:
        got, until = bytearray(), time.monotonic() + 3 * TIMEOUT
        while time.monotonic() < until:
            got += one.recv(32_768)
            time.sleep(0.02)
        one.sendall(head("/healthz", b"Connection: close\r\n", method="GET"))
        got += all_of(one)
    assert got.count(b"HTTP/1.1 200") == 121


def test_whoever_reads_steadily_stays(there: Served) -> None:
    """At 40 kB a second: what the kernel took, some megabytes, was all that came."""
    crowd = [asking(there, 400, room) for room in (4_096, 65_536)]
    begun, got = time.monotonic(), [0] * len(crowd)
    while (passed := time.monotonic() - begun) < 4 * TIMEOUT:
        for i, one in enumerate(crowd):
            if (due := int(40_000 * passed) - got[i]) > 0:
                got[i] += len(one.recv(min(due, 4_096)))
        time.sleep(0.01)
    for _ in range(3):  # a connection that was ended answers the first piece, and refuses the next
        for one in crowd:
            one.sendall(b"\r\n")
        time.sleep(0.1)
    for one in crowd:
        one.close()


def test_what_is_too_large_is_refused_before_it_is_read(there: Served) -> None:
    """Headers without end, and a stranger's forms of more than 16 KiB, announced or not."""
    before = there.said()
    with there.open() as one:
        one.sendall(b"GET / HTTP/1.1\r\nA: ")
        assert taken(one, b"b" * 65536, 64 * 2**20) < 16 * 2**20  # sockets hold some of it
    for lines, body in (
        ((FORM, b"Content-Length: 16777216\r\n"), b""),
        ((PARTS, b"Content-Length: 16385\r\n"), b""),
        ((FORM, b"Transfer-Encoding: chunked\r\n"), b"4001\r\n" + b"a" * 0x4001 + b"\r\n"),
    ):
        with there.open() as one:
            one.sendall(head("/sign-in", *lines) + body)
            assert one.recv(65536).startswith(b"HTTP/1.1 413")
    assert "Traceback" not in there.said()[len(before) :]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (b"multipart/form-data", b"--x\r\n"),
        (b"multipart/form-data; boundary=x", b"--y\r\n"),
        (b"multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data\r\n\r\n\r\n'),
        (
            b"multipart/form-data; boundary=x; charset=none",
            b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n--x--\r\n',
        ),
        (b"multipart/form-data; boundary=" + b"x" * 9000, b"--"),
        (b"application/x-www-form-urlencoded; charset=none", b"theme=%ff%"),
        (b"application/x-www-form-urlencoded", b"\xff=\xfe&&=&;theme"),
        (b"application/x-www-form-urlencoded", b"a=&" * 5000),
    ],
    ids=("no boundary", "another", "no name", "charset", "long", "escapes", "bytes", "fields"),
)  # fmt: skip
def test_a_form_that_is_none_is_refused(there: Served, kind: bytes, body: bytes) -> None:
    """Never 500, whatever a stranger sends as a form."""
    before = there.said()
    length = f"Content-Length: {len(body)}\r\n".encode()
    with there.open() as one:
        one.sendall(head("/settings", b"Content-Type: " + kind + b"\r\n", length) + body)
        answer = one.recv(65536)
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 303", b"HTTP/1.1 403")), answer[:300]
    assert len(there.said()) - len(before) < 200


def test_a_body_in_time_is_read_however_it_is_cut(there: Served) -> None:
    """Three pieces: the link does not open, and that is said."""
    body = b"link=" + b"0" * 64
    with there.open() as one:
        one.sendall(head("/sign-in", FORM, f"Content-Length: {len(body)}\r\n".encode()))
        for at in range(0, len(body), 23):
            one.sendall(body[at : at + 23])
            time.sleep(0.03)
        assert one.recv(65536).startswith(b"HTTP/1.1 401")
