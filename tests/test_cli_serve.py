"""`gdcb serve`: a service that starts, says where it is, and stops; and one to look at."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from typer.testing import CliRunner, Result

from gdcb.cli import app, serve
from gdcb.errors import InvalidInput
from gdcb.ledger.live import opened
from gdcb.ledger.store import open_store
from gdcb.service import demo, operating, running
from gdcb.service.access import Rate, RateLimits
from gdcb.service.house import House
from gdcb.service.running import declaration_of

LISTING = """
name = "listing"
context.base = { type = "number", low = 1, high = 1000 }
arms = { part = "list", values = [0.9, 1.0, 1.1] }
composition = { part = "multiply", base = ["base"], names = ["price"] }
gates = [{ part = "bounds", low = 40, high = 900 }]
reward = { part = "payoff", outcome = ["booked"], action = 0 }
bandit = { part = "beta-thompson" }
"""


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def fetched(url: str) -> tuple[int, bytes]:
    """Return status and body of an address."""
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.status, answer.read()


def test_it_serves_an_instance_and_stops(tmp_path: Path) -> None:
    """A file is declared once; health, OpenAPI and the sign-in page answer; SIGTERM ends it."""
    (tmp_path / "listing.toml").write_text(LISTING)
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    command = [
        sys.executable,
        "-m",
        "gdcb",
        "serve",
        "--empty",
        "listing.toml",
        "--port",
        str(port),
    ]
    for is_first in (True, False):
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"COLUMNS": "200"},
        )
        try:
            until = time.monotonic() + 60
            while True:
                try:
                    assert fetched(f"{base}/healthz")[0] == 200
                    break
                except OSError:
                    assert process.poll() is None
                    assert time.monotonic() < until
                    time.sleep(0.1)
            ready = json.loads(fetched(f"{base}/readyz")[1])
            assert ready == {"status": "ready", "instances": 1}
            assert b"/v1/instances/{name}/decisions" in fetched(f"{base}/v1/openapi.json")[1]
            assert b"<form" in fetched(f"{base}/sign-in")[1]
            assert b"gdcb_decisions" in fetched(f"{base}/metrics")[1]
        finally:
            process.send_signal(signal.SIGTERM)
            said = process.communicate(timeout=30)[0]
        assert f"gdcb serves at {base}" in said
        assert "/sign-in?link=" in said
        size = open_store(tmp_path / "gdcb.db").head("listing").size
        assert size == 1, is_first


def test_several_processes_listen_at_one_port(postgres_url: str, tmp_path: Path) -> None:
    """The port is taken before the processes are started, and each of them answers there."""
    (tmp_path / "listing.toml").write_text(LISTING)
    port = free_port()
    more = ["--db", postgres_url, "--port", str(port), "--processes", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "gdcb", "serve", "--empty", "listing.toml", *more],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        until = time.monotonic() + 90
        answered = 0
        while answered < 20:
            try:
                ready = json.loads(fetched(f"http://127.0.0.1:{port}/readyz")[1])
                assert ready == {"status": "ready", "instances": 1}
                answered += 1
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.2)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    with socket.socket() as free:  # nobody is left behind who listens
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", port))
        free.listen()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--processes", "2"], 2, "needs PostgreSQL"),
        (["nowhere"], 1, "no instance 'nowhere' that ships a TOML file"),
        (["missing.toml"], 1, "cannot be read"),
        (["--port", "0"], 2, "--port"),
        (["--db", "mysql://x"], 1, "mysql"),
        (["--rate", "0"], 2, "--rate"),
        (["--host", "no such host"], 2, "--host: no such host is no address that can be found"),
        (["--host", "192.0.2.1"], 1, "cannot listen at 192.0.2.1, port"),
    ],
)
def test_what_cannot_be_served(
    arguments: list[str], code: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is refused with a sentence, and an exit code that says whose fault it is."""
    monkeypatch.chdir(tmp_path)
    port = str(free_port())
    result = CliRunner().invoke(app, ["serve", "--empty", "--port", port, *arguments])
    assert result.exit_code == code
    assert words in " ".join(result.stderr.split())


def served(monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str) -> tuple[Result, House]:
    """Run the command with a server that only builds its application; return what it said."""
    built: list[House] = []

    def run(_: uvicorn.Server, sockets: list[socket.socket]) -> None:
        made = running.application()
        built.append(made.house)
        built[0].store.close()

    monkeypatch.chdir(folder)
    monkeypatch.setattr(uvicorn.Server, "run", run)
    monkeypatch.setattr(serve, "_bound", lambda *_: [])  # whoever has the port, or no IPv6
    result = CliRunner().invoke(app, ["serve", *arguments])
    assert result.exit_code == 0, result.stderr
    return result, built[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_a_port_that_is_taken_is_said_before_all_else(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No address and no link that would lead to somebody else's service, and no ledger."""
    monkeypatch.chdir(tmp_path)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        result = CliRunner().invoke(app, ["serve", "--empty", "--host", host, "--port", port])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert f"port {port} is taken; choose another with --port" in " ".join(result.stderr.split())
    assert not (tmp_path / "gdcb.db").exists()


def test_a_port_that_is_taken_while_the_ledger_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two may have an address without a listener; the second to listen is told."""
    monkeypatch.chdir(tmp_path)
    port, made = free_port(), running.furnished
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

        def furnished(*given: Any) -> running.Furnished:
            other.bind(("127.0.0.1", port))
            other.listen()
            return made(*given)

        monkeypatch.setattr(running, "furnished", furnished)
        result = CliRunner().invoke(app, ["serve", "--empty", "--port", str(port)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"port {port} is taken" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("host", "base"),
    [
        ("::1", "http://[::1]:8123"),
        ("::", "http://127.0.0.1:8123"),
        ("0.0.0.0", "http://127.0.0.1:8123"),
        ("localhost", "http://localhost:8123"),
    ],
)
def test_where_it_is_reached(
    host: str, base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address of IPv6 stands in brackets, in the link and in what cookies and forms go by."""
    result, house = served(monkeypatch, tmp_path, "--empty", "--host", host, "--port", "8123")
    assert f"{base}/sign-in?link=" in result.stdout
    assert house.door.base_url == base


def test_rates_are_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, house = served(monkeypatch, tmp_path, "--empty")
    assert house.limiter.limits == RateLimits()
    _, house = served(monkeypatch, tmp_path, "--empty", "--rate", "50000")
    limits = house.limiter.limits
    assert (limits.decide, limits.decide_address) == (Rate(5e4, 5e5), Rate(2.5e5, 2.5e6))
    assert limits.sign_in == RateLimits().sign_in
    house.limiter.take("decide", "key", "10.0.0.1", n=400_000)


def test_only_what_is_made_up_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real ledger that is opened without --empty is not; a demo beside others is named."""
    store = open_store(tmp_path / "real.db")
    operating.create(store, LISTING, "ann", "first")
    store.close()
    result, _ = served(monkeypatch, tmp_path, "--db", "real.db")
    assert "made up" not in result.output
    store = open_store(tmp_path / "both.db")
    text = LISTING.replace('"listing"', f'"{demo.NAME}"')
    operating.create(store, text, demo.BY, "first")  # what a demo begins with
    store.close()
    result, _ = served(monkeypatch, tmp_path, "--db", "both.db", "--empty")
    assert "Everything shown is made up" in result.output
    store = open_store(tmp_path / "both.db")
    operating.create(store, LISTING, "ann", "first")
    store.close()
    result, _ = served(monkeypatch, tmp_path, "--db", "both.db", "--empty")
    assert f"Instance '{demo.NAME}' is made up" in result.output


def test_instances_that_ship_a_file() -> None:
    """A name stands for the file of its domain; a simulated person is refused by the service."""
    assert 'name = "str"' in declaration_of("str")
    with pytest.raises(InvalidInput, match="give a path to one"):
        declaration_of("unknown")


def test_the_demo_has_a_past_a_month_and_a_queue(tmp_path: Path) -> None:
    """A certificate is in force, a month was lived through, and some prices wait."""
    store = open_store(tmp_path / "demo.db")
    demo.furnish(store)
    live = opened(store, demo.NAME)
    assert live.history is not None
    assert live.history.certificate["verdict"] == "reweight"
    assert 10 <= len(live.waiting) <= 40
    assert len(live.units) == 8
    lived = live.time_of(len(live.events) - 1) - live.time_of(0)
    assert demo.DAYS - 1 <= lived / demo.DAY <= demo.DAYS
    store.close()
