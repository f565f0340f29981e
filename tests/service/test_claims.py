"""Leases of held decisions: one has it, until it is given back or over; also of many at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gdcb.errors import Conflict
from gdcb.ledger.sql import SqlStore
from gdcb.service.claims import Claims
from tests.postgres import Cluster
from tests.service.desks import Clock


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlStore]:
    if request.param == "sqlite":
        made = SqlStore(tmp_path / "l.db")
    else:
        cluster: Cluster = request.getfixturevalue("postgres")
        made = SqlStore(cluster.url(cluster.create()))
    yield made
    made.close()


def test_one_has_it_until_it_is_over(store: SqlStore) -> None:
    clock = Clock()
    claims = Claims(store, clock)
    first = claims.claim("rooms", "a", "Ann [1f]", 60.0)
    with pytest.raises(Conflict, match="Ann has claimed decision a"):
        claims.claim("rooms", "a", "Bob [2f]", 60.0)
    clock.pass_by(30)
    longer = claims.claim("rooms", "a", "Ann Lee [1f]", 60.0)  # she has married in the meantime
    assert longer.until > first.until
    assert claims.of("rooms") == {"a": longer}
    clock.pass_by(61)
    assert claims.claim("rooms", "a", "Bob [2f]", 60.0).by == "Bob [2f]"
    assert not claims.release("rooms", "a", "Ann [1f]")
    assert claims.release("rooms", "a", "Bob [2f]")
    assert claims.of("rooms") == {}


def test_of_many_at_once_one_has_it(store: SqlStore) -> None:
    """Between the look of one and its write nobody else gets in."""
    claims, n = Claims(store, Clock()), 12

    def claim(k: int) -> tuple[str, str]:
        id, by = f"d{k // 8}", f"P{k % 8} [{k % 8}]"
        try:
            return id, claims.claim("rooms", id, by, 60.0).by
        except Conflict:
            return id, ""

    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(claim, range(8 * n)))
    holders = Counter(id for id, by in got if by)
    assert holders == {f"d{i}": 1 for i in range(n)}
    known = claims.of("rooms")
    assert {(id, known[id].by) for id in known} == {pair for pair in got if pair[1]}
