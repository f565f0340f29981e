"""Many rows are drawn for in parts: memory does not grow with what a learner knows of each arm."""

from __future__ import annotations

import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest

from gdcb.arms import ArmList
from gdcb.arrays import in_parts
from gdcb.bandits import (
    GPCurveThompson,
    HierarchicalBetaThompson,
    LinearThompson,
    LogisticArmsThompson,
)
from gdcb.parts import bind
from gdcb.records import Setting
from tests.parts.builders import rng_of, stream

ROWS, COLUMNS = 4_000, 40
ARMS = ArmList(values=np.linspace(0.5, 1.5, 50).tolist()).build()
ALL = {f"x{i}": (i,) for i in range(COLUMNS)} | {"*": tuple(range(COLUMNS))}
LEARNERS = [
    LinearThompson(),
    LogisticArmsThompson(),
    HierarchicalBetaThompson(),
    GPCurveThompson(link="identity", noise=0.3, gaps=150),
]


@pytest.mark.parametrize("bandit", LEARNERS, ids=lambda one: type(one).__name__)
def test_rows_take_memory_for_their_values_only(
    bandit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of what is known of each row's unit took up to 7 kB for each of its arms."""
    bound = bind(bandit, ALL)
    state = bound.init(np.zeros(2, dtype=np.int64), ARMS)
    x = rng_of(5).normal(size=(ROWS, COLUMNS))
    at = Setting(rng_of(6).integers(0, 2, ROWS), x, np.ones((ROWS, 1, 1)))
    tracemalloc.start()
    try:
        bound.draw(stream(7, ROWS), state, at)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # A few numbers for every row and arm, and what is in work at once.
    assert peak < 150 * ROWS * ARMS.n + 80e6
    few, some = (Setting(at.cell[-n:], x[-n:], np.ones((n, 1, 1))) for n in (3, 600))
    many = bound.mean(state, at, ARMS.nominal)
    assert many[-3:].tobytes() == bound.mean(state, few, ARMS.nominal).tobytes()
    drawn = bound.draw(stream(7, 600), state, some)
    for cls in type(bound).__mro__:
        if hasattr(sys.modules[cls.__module__], "in_parts"):
            monkeypatch.setattr(sys.modules[cls.__module__], "in_parts", at_once)
    again = bound.draw(stream(7, 600), state, some)
    for one, other in zip(_arrays(drawn), _arrays(again), strict=True):
        assert one.tobytes() == other.tobytes()


def at_once(n: int, *_: Any) -> list[slice]:
    return [slice(0, n)]


def _arrays(draw: Any) -> tuple[Any, ...]:
    return draw if isinstance(draw, tuple) else (draw,)


def test_parts_are_all_rows_in_order() -> None:
    assert in_parts(0, 10) == []
    assert in_parts(3, 10, 1) == [slice(0, 1), slice(1, 2), slice(2, 3)]  # one at least
    for n, numbers in ((1, 1), (7, 5), (10, 3)):
        rows = np.arange(n)
        assert np.concatenate([rows[part] for part in in_parts(n, numbers, 11)]).tolist() == list(
            range(n)
        )
