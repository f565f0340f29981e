"""Load on loopback, small: what is acknowledged is there, too much is shed, memory stays flat.

`python -m benchmarks.load` has the figures; here another test runs beside, so that rates are held
to a third of what they must be on a quiet machine.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks.load.__main__ import measure


def test_load_beside_another_test(tmp_path: Path) -> None:
    """One test, since tests of one file may run in two processes, and each would measure anew."""
    args = Namespace(seconds=2.0, over=1.5, burst=0.5, target=0.3, waiting=128)
    found = measure(args, tmp_path)
    # Every id that was answered with 201 is in the ledger, whose chain is whole.
    assert found["lost"] == 0
    assert found["acknowledged"] > 500
    # At the target and at twice that: 201, or 429 where too much waits; never an error.
    assert set(found["at_target"]) <= {201, 429}
    assert set(found["over"]) <= {201, 429}
    # Single decisions run at a share of an endpoint that decides nothing.
    assert found["share_of_floor"] > 0.2
    assert found["batch_rows"] > 15_000
    # What thousands of decisions leave in memory is bounded: caches, not records.
    before, *meanwhile = found["memory_mb"]
    assert max(meanwhile) - before < 60


@pytest.mark.soak
def test_ten_minutes_at_the_target_and_two_at_twice_that(tmp_path: Path) -> None:
    """Alone on the machine: 60 % of the floor, 50,000 rows a second, p99 within 50 ms of it."""
    args = Namespace(seconds=600.0, over=120.0, burst=5.0, target=0.6, waiting=512)
    found = measure(args, tmp_path)
    assert found["lost"] == 0
    assert set(found["at_target"]) == {201}
    assert set(found["over"]) == {201, 429}
    assert found["share_of_floor"] >= 0.6
    assert found["batch_rows"] >= 50_000
    assert found["p99_ms"] <= found["fsync_p99_ms"] + 50.0
    half = len(found["memory_mb"]) // 2
    assert found["memory_mb"][half] - found["memory_mb"][0] < 100  # buffers of connections
    assert found["memory_mb"][-1] - found["memory_mb"][half] < 20  # and no records
