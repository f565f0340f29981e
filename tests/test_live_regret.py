"""Live regret: the parts sum, agree with the exact ones in a simulation, and refuse nonsense."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import gdcb
from benchmarks import what_if as shops
from gdcb.analysis import LiveRegret, gated_log, live_regret
from gdcb.arrays import Array
from gdcb.errors import InvalidInput

PARTS = shops.PARTS


def plain(*gates: Any, values: tuple[float, ...] = (1.0, 2.0, 4.0)) -> gdcb.Instance:
    """Return an instance without context to speak of, whose reward is observed."""
    return gdcb.Instance(
        context=gdcb.Schema({"x": gdcb.Number()}),
        arms=gdcb.ArmList(values=values),
        composition=gdcb.Multiply(),
        gate=gdcb.Chain(tuple(gates), closed=False),
    )


def found_on(
    instance: gdcb.Instance, e: Array, ran: Array, reward: Array, **more: Any
) -> LiveRegret:
    log = gated_log(instance, np.zeros((e.size, 1)), e[:, None], ran[:, None], reward)
    return live_regret(instance, log, draws=100, **more)


def test_parts_sum_to_the_total_in_every_row() -> None:
    """To 1e-9, whatever was chosen and however noisy it is."""
    _, logs = shops.tried_logs(1, 400)
    found = live_regret(shops.live_shop(), logs[0], draws=50)
    total, *parts = found.parts.T
    np.testing.assert_allclose(sum(parts), total, atol=1e-9)
    means = [getattr(found, name).mean for name in PARTS]
    assert sum(means[1:]) == pytest.approx(means[0], abs=1e-9)
    assert found.total.mean == pytest.approx(float(total.mean()), abs=1e-12)


def test_by_hand_the_bandit_is_to_blame() -> None:
    """Arms 1 and 2 earn 0 and 1, tried evenly, no gate: half a point a round is the bandit's.

    The best action that ran is the arm 2 itself, as far as one can see: the mean is a line in the
    coordinate, and half a step beyond the arm it reads 1.5. That much is calibration's.
    """
    instance = plain(values=(1.0, 2.0))
    price = np.tile([1.0, 2.0, 2.0, 1.0, 1.0, 2.0], 100)
    found = found_on(instance, price, price, price - 1.0)
    assert found.bandit.mean == pytest.approx(0.5, abs=0.02)
    assert found.gate.mean == pytest.approx(0.0, abs=0.02)
    assert found.unsupported == 0.0


def test_by_hand_the_gate_is_to_blame() -> None:
    """Every 2 was cut to 1 but one in ten, which slipped past: the arm 2 is worth 1, and 0 cut.

    No arm is better behind the gate than another, so nothing is the bandit's.
    """
    person = gdcb.Approval(name="manager")
    instance = plain(person, values=(1.0, 2.0))
    proposed = np.full(1200, 2.0)
    executed = np.where(np.arange(1200) % 10 == 3, 2.0, 1.0)
    found = found_on(instance, proposed, executed, executed - 1.0)
    # All proposals were 2: its 0.1 is what the log earned, and the best arm's 1 is 0.9 above.
    assert found.bandit.mean == pytest.approx(0.0, abs=0.03)
    assert found.gate.mean == pytest.approx(0.9, abs=0.05)


def test_intervals_hold_the_exact_parts() -> None:
    """An incumbent that tries all arms, and a bandit that learns: 12 logs of each.

    The exact parts are those of `gdcb.analysis.regret`. On 100 logs of 2,000 rows the intervals of
    95 % held total, calibration, bandit and gate in 100, 100, 100 and 93 % where an incumbent
    tries arms, and in 89, 100, 98 and 81 % where a bandit learns, which leaves few rows for the
    arms it has left. At 93 % fewer than 9 of 12 have a chance of 0.8 %, and at 81 % fewer than 7
    one of 1.5 %; both for the worst part.
    """
    for make, least in ((shops.tried_logs, 9), (shops.live_logs, 7)):
        truth, logs = make(12, 800)
        found, held = shops.live(truth, logs)
        assert (held >= least / 12).all(), (make.__name__, held)
        off = np.abs(found[..., 0].mean(axis=0) - truth.mean(axis=0))
        spread = found[..., 0].std(axis=0)
        assert (off <= 3.0 * spread / 12**0.5 + 0.2).all(), (make.__name__, off, spread)


def test_arms_that_never_ran_are_left_out_and_said_to_be() -> None:
    """Every 4 was cut to 2: the arm 4 is not among those compared, and its share is named."""
    instance = plain(gdcb.Cap(2.0))
    price = np.tile([1.0, 2.0, 4.0, 4.0, 1.0, 2.0, 2.0], 60)
    found = found_on(instance, price, np.minimum(price, 2.0), np.minimum(price, 2.0))
    assert found.unsupported == 1.0
    assert "never ran in comparable contexts" in found.says
    # Behind the cap the arms 2 and 4 are the same and the best: 2 a row, against what was earned.
    earned = float(np.minimum(price, 2.0).mean())
    assert found.bandit.mean == pytest.approx(2.0 - earned, abs=0.02)


def test_the_same_log_gives_the_same_figures() -> None:
    """Seeded, and plain data."""
    _, logs = shops.tried_logs(1, 300)
    first, second = (live_regret(shops.live_shop(), logs[0], draws=60, seed=4) for _ in range(2))
    assert first.as_json() == second.as_json()
    figures = json.loads(json.dumps(first.as_json()))
    assert set(figures["gate"]) == {"mean", "low", "high"}
    assert figures["rows"] == 300
    for name in PARTS:
        part = getattr(first, name)
        assert part.low <= part.mean <= part.high


def test_bad_input_is_refused() -> None:
    """Too few rows, blocks that are none, settings out of range."""
    instance = plain()
    price = np.tile([1.0, 2.0, 4.0], 30)
    with pytest.raises(InvalidInput, match="at least 60 rows, got 30"):
        found_on(instance, price[:30], price[:30], price[:30])
    for more, said in (
        ({"block": np.zeros(3)}, "block"),
        ({"block": np.zeros(90)}, "at least 10 blocks"),
        ({"level": 1.0}, "level"),
        ({"near": 0}, "near"),
        ({"proposal_law": np.ones((90, 3))}, "sum to 1"),
    ):
        with pytest.raises(InvalidInput, match=said):
            found_on(instance, price, price, price, **more)
