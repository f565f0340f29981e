"""What every test process starts with."""

from __future__ import annotations

import signal

import pytest

from tests import properties
from tests.postgres import postgres, postgres_template, postgres_url, sqlite_template

# One server and one set of empty tables for all tests of a process.
__all__ = ["postgres", "postgres_template", "postgres_url", "sqlite_template"]

# A job that runs in the background ignores Ctrl-C, and so does all that it starts. Tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Count and time the examples of a search."""
    if properties.SEARCH:
        config.pluginmanager.register(properties.Search())
