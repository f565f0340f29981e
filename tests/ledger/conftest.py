"""Every store, for the tests that all of them pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gdcb.ledger import Store, open_store
from tests.postgres import postgres, postgres_url

__all__ = ["postgres", "postgres_url"]

Opener = Callable[[], Store]


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a database that nobody has used."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def opener(database: str) -> Iterator[Opener]:
    """Return what opens one database as often as asked."""
    opened: list[Store] = []

    def open_one() -> Store:
        opened.append(open_store(database, patience=5.0))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Return each kind of store, empty."""
    url: str | Path = "memory:"
    if request.param == "sqlite":
        url = tmp_path / "ledger.db"
    elif request.param == "postgresql":
        url = str(request.getfixturevalue("postgres_url"))
    found = open_store(url, patience=5.0)
    yield found
    found.close()
