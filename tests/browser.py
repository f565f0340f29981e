"""A real browser for tests, and an application for it to visit."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from starlette.types import ASGIApp

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


# The same browser; the first has no window and starts faster.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")
MISSING = "no chromium on the PATH"


def chromium_path() -> str:
    """Return where chromium is; a laptop may lack it, CI may not."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI=true, but {MISSING}")
        pytest.skip(MISSING)
    return found


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the browser, and close it afterwards."""
    path = chromium_path()
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=20_000)  # of a busy machine
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """Serve an application on a free port of this machine, and return its address."""
    import uvicorn

    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", lifespan="off", access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    limit = time.monotonic() + 20
    while not server.started:
        if time.monotonic() > limit or not thread.is_alive():
            pytest.fail("the test server did not start within 20 s")
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    # It closes its sockets and ends by itself, a fifth of a second later; nobody needs to wait.
    server.should_exit = True
