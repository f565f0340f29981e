"""Every store, for the tests that all of them pass."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gdcb.ledger import Store, open_store
from tests.nonces import counted_nonces, repeatable_nonces
from tests.postgres import Cluster

__all__ = ["counted_nonces", "repeatable_nonces"]

Opener = Callable[[], Store]


@pytest.fixture
def sqlite_ready(sqlite_template: Path, tmp_path: Path) -> str:
    """Return a file with empty tables."""
    shutil.copy(sqlite_template, tmp_path / "ledger.db")
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def postgres_ready(postgres: Cluster, postgres_template: str) -> Iterator[str]:
    """Lend a database with empty tables."""
    name = postgres.create(f"TEMPLATE {postgres_template}")
    yield postgres.url(name)
    postgres.drop(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def fresh_database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a database without any tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'fresh.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture(params=["sqlite_ready", "postgres_ready"])
def database(request: pytest.FixtureRequest) -> str:
    """Return the URL of a database that nobody has used."""
    return str(request.getfixturevalue(request.param))


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


@pytest.fixture(params=["memory", "sqlite_ready", "postgres_ready"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """Return each kind of store, empty."""
    is_memory = request.param == "memory"
    url = "memory:" if is_memory else str(request.getfixturevalue(request.param))
    found = open_store(url, patience=5.0)
    yield found
    found.close()
