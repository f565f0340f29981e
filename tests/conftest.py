"""What every test process starts with."""

from __future__ import annotations

import gc
import signal
from collections.abc import Generator

import pytest

from tests import browser, properties
from tests.postgres import postgres, postgres_template, postgres_url, sqlite_template

# One server and one set of empty tables for all tests of a process.
__all__ = ["postgres", "postgres_template", "postgres_url", "sqlite_template"]

# A job that runs in the background ignores Ctrl-C, and so does all that it starts. Tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Count and time the examples of a search."""
    if properties.SEARCH:
        config.pluginmanager.register(properties.Search())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter,
) -> Generator[None, None, None]:
    """Say in one closing line what a browser would have tested, and how to get one."""
    yield
    without = [
        report
        for report in terminalreporter.getreports("skipped")
        if isinstance(report.longrepr, tuple) and browser.MISSING in report.longrepr[2]
    ]
    if without:
        terminalreporter.line(
            f"{len(without)} tests of pages in a browser were skipped: {browser.MISSING}. "
            "To install it: make chromium"
        )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Search for no garbage during the collection, and leave what it made out of later searches.

    Nothing that is imported or collected is garbage, but among 12,000 tests and what they import
    the searches take longer than all the rest of it, and each one after it takes two seconds.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
