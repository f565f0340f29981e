"""Databases that the tests of the service share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gdcb.service.access import Books
from tests.nonces import counted_nonces, repeatable_nonces
from tests.postgres import Cluster
from tests.service.access_builders import books_at

__all__ = ["counted_nonces", "repeatable_nonces"]


@pytest.fixture
def sqlite_books(sqlite_template: Path, tmp_path: Path) -> Iterator[Books]:
    path = shutil.copy(sqlite_template, tmp_path / "access.db")
    with books_at(path) as made:
        yield made


@pytest.fixture(params=["sqlite", "postgresql"])
def books(request: pytest.FixtureRequest) -> Iterator[Books]:
    """Lend the books of access in a database of their own, of either kind."""
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_books")
        return
    cluster: Cluster = request.getfixturevalue("postgres")
    name = cluster.create(f"TEMPLATE {request.getfixturevalue('postgres_template')}")
    with books_at(cluster.url(name)) as made:
        yield made
    cluster.drop(name)
