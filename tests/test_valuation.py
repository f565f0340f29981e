"""What moved arms are worth, however many there are: the same numbers, within a bounded memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gdcb import (
    ArmList,
    BetaThompson,
    Bounds,
    Cap,
    CurveThompson,
    Grid,
    Multiply,
    Payoff,
    valuation,
)
from gdcb import round as turn
from gdcb.bandits import GPCurveThompson, HierarchicalThompson, SharedLinearThompson
from gdcb.context import Number, Schema
from gdcb.errors import OutOfMemory
from gdcb.gates import Approval, Chain
from gdcb.instance import Instance
from gdcb.records import Decision
from gdcb.scalers import ConstantScaler
from tests.builders import pricing, rows_of, stream

MIXED = Chain((Cap(limit=110.0), Bounds(low=85.0, high=300.0, outside="veto")))
PLANE = Grid({"price": (0.8, 1.0, 1.2), "size": (0.9, 1.1)}, combine="none")
INSTANCES: dict[str, Callable[[], Instance]] = {
    "some moved, some vetoed": lambda: pricing(gate=MIXED),
    "δ for every arm": lambda: pricing(gate=MIXED, scaler=ConstantScaler(n_arms=3)),
    "a person": lambda: pricing(gate=Chain((Approval(name="owner"), *MIXED.gates))),
    "two coordinates": lambda: Instance(
        Schema({"base": Number(1, 1000)}),
        PLANE,
        Multiply(base=("base", "base"), names=("price", "size")),
        gate=MIXED,
        reward=Payoff(outcome=("booked",), action=0),
    ),
}
BANDITS = {
    "beta": BetaThompson(),
    "hierarchical": HierarchicalThompson(),
    "curve": CurveThompson(),
    "process": GPCurveThompson(),
    "shared": SharedLinearThompson(features=("base",)),
}


def decided(instance: Instance, bandit: Any, n: int = 40) -> Decision:
    bound = instance.bind(bandit)
    state = turn.init(instance, bound, np.zeros(n, dtype=np.int64))
    rows = rows_of(np.linspace(70.0, 140.0, n)[:, None])
    return turn.decide(stream(), instance, bound, state, rows)


@pytest.mark.parametrize("bandit", BANDITS.values(), ids=BANDITS.keys())
@pytest.mark.parametrize("instance", INSTANCES.values(), ids=INSTANCES.keys())
def test_in_parts_moved_arms_are_worth_the_same_to_the_last_bit(
    monkeypatch: pytest.MonkeyPatch, instance: Callable[[], Instance], bandit: Any
) -> None:
    found = decided(instance(), bandit)
    for most in (1, 50, 1_000):
        monkeypatch.setattr(valuation, "MOST_COPIED", most)
        again = decided(instance(), bandit)
        assert again.worth.tobytes() == found.worth.tobytes()
        assert again.action.tobytes() == found.action.tobytes()


def many_arms(k: int) -> Instance:
    values = tuple(1.0 + i / k for i in range(k))
    return pricing(arms=ArmList(values=values), gate=Cap(limit=60.0))


def test_moved_arms_take_memory_for_rows_times_arms() -> None:
    """All 100 arms of 600 rows are moved: rows × arms × arms would be 48 MB an array."""
    instance = many_arms(100)
    decided(instance, BetaThompson(), 2)
    tracemalloc.start()
    try:
        decided(instance, BetaThompson(), 600)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6


def test_too_little_memory_is_no_damaged_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise MemoryError("Unable to allocate 18.6 GiB")

    monkeypatch.setattr(BetaThompson, "value", full)
    with pytest.raises(OutOfMemory, match="this needs more memory than there is; ask for"):
        decided(many_arms(3), BetaThompson())
