"""Pictures of the service for the documentation: `python -m docs.generate.screenshots`.

It furnishes the demo in a folder of its own, serves it, and photographs its pages in chromium. The
demo's times are those of the day on which it is made, so the pictures differ from run to run.
"""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright

from gdcb.instances.str_pricing.live import MANAGER
from gdcb.service import demo
from gdcb.service.access import first_link
from gdcb.service.app import build
from gdcb.service.house import House, Settings
from gdcb.service.running import sql_store

FOLDER = Path(__file__).parents[1] / "assets" / "service"
LARGEST = 200_000  # bytes of a picture
HOME = f"/i/{demo.NAME}"


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: which page, how wide and how high, on which paper."""

    name: str
    page: str
    width: int
    height: int
    scheme: Literal["light", "dark"] = "light"


PICTURES = (
    Picture("queue-light", "queue", 1280, 800),
    Picture("queue-dark", "queue", 1280, 800, "dark"),
    Picture("review-light", "review", 1280, 1100),
    Picture("review-phone-dark", "review", 360, 1300, "dark"),
    Picture("dashboard", "dashboard", 1280, 1000),
    Picture("evidence", "evidence", 1280, 1180),
)


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, str]]:
    """Serve a furnished demo on a free port; yield its address and a link to sign in with."""
    store = sql_store(str(folder / "demo.db"))
    demo.furnish(store)
    listening = socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listening.getsockname()[1]}"
    house = House(store, Settings(base))
    link = first_link(house.books, base)
    server = uvicorn.Server(uvicorn.Config(build(house), log_level="error", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield base, link or base
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        store.close()


def signed_in(browser: Browser, link: str) -> Any:
    """Use the link up, and return what the browser then keeps."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(link)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Instances").wait_for()
    kept = context.storage_state()
    context.close()
    return kept


def addresses(page: Page) -> dict[str, str]:
    """Return where the pages are: the first decision that waits, a proposal that was changed."""
    page.goto(f"{HOME}/queue")
    waiting = page.locator(".open").first.get_attribute("href")
    page.goto(f"{HOME}/audit?status=modified&who={MANAGER.partition(' ')[0]}")
    found = page.locator("table.wide tbody a").evaluate_all("all => all.map(one => one.pathname)")
    changed = ""
    for changed in found:  # one in which the proposal itself entered the gates
        page.goto(changed)
        if "incumbent" not in page.locator(".timeline").inner_text():
            break
    limit = time.monotonic() + 30
    while time.monotonic() < limit:  # what takes long comes after the first figures
        page.goto(HOME)
        if "Nothing to say yet" not in page.locator("main").inner_text():
            break
        page.wait_for_timeout(500)
    where = {"queue": f"{HOME}/queue", "dashboard": HOME}
    return where | {"review": waiting or "", "evidence": changed}


def main() -> None:
    """Make all pictures."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        raise SystemExit("there is no chromium on the PATH")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder)) as (base, link),
        sync_playwright() as play,
    ):
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        kept = signed_in(browser, link)
        where: dict[str, str] = {}
        for one in PICTURES:
            context = browser.new_context(
                base_url=base,
                storage_state=kept,
                viewport={"width": one.width, "height": one.height},
                color_scheme=one.scheme,
                reduced_motion="reduce",
            )
            page = context.new_page()
            where = where or addresses(page)
            page.goto(where[one.page])
            drawn = page.screenshot(path=FOLDER / f"{one.name}.png")
            context.close()
            if len(drawn) > LARGEST:
                raise SystemExit(f"{one.name}: {len(drawn)} bytes, more than {LARGEST}")
        browser.close()


if __name__ == "__main__":
    main()
