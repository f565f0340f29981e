"""Live regret: the parts sum, agree with the exact ones in a simulation, and refuse nonsense."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

import gdcb
from benchmarks import what_if as shops
from benchmarks.live_regret import Task, measure
from gdcb.analysis import LiveRegret, gated_log, live_regret
from gdcb.analysis.live_means import Rows
from gdcb.analysis.what_if.means import Features
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
    return live_regret(instance, log, **more)


def test_parts_sum_to_the_total_in_every_row() -> None:
    """To 1e-9, whatever was chosen and however noisy it is."""
    _, logs = shops.tried_logs(1, 400)
    found = live_regret(shops.live_shop(), logs[0])
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

    The exact parts are those of `gdcb.analysis.regret`. `benchmarks.live_regret` has the coverage
    of 100 logs; at 85 % for the worst part, fewer than 8 of 12 have a chance of 0.7 %.
    """
    for make in (shops.tried_logs, shops.live_logs):
        truth, logs = make(12, 800)
        found, held = shops.live(truth, logs)
        assert (held >= 8 / 12).all(), (make.__name__, held)
        off = np.abs(found[..., 0].mean(axis=0) - truth.mean(axis=0))
        spread = found[..., 0].std(axis=0)
        assert (off <= 3.0 * spread / 12**0.5 + 0.2).all(), (make.__name__, off, spread)


def test_intervals_hold_where_outcomes_are_bookings() -> None:
    """Booked × price, where one row says little: 8 logs; at 88 %, fewer than 5 have 0.7 %."""
    found = measure(Task("booked", "tried", 800, 0, 8, 3))
    for part in PARTS:
        held = [one[part]["low"] <= one["truth"][part] <= one[part]["high"] for one in found]
        assert sum(held) >= 5, (part, held)
    # Half the width of a total is well below what the reward itself varies by, 0.5 or so.
    assert all(one["total"]["high"] - one["total"]["low"] < 0.6 for one in found)


def test_by_hand_a_model_that_is_wrong_is_noticed() -> None:
    """Five arms in turn; the middle one earns 1, the others 0: no parabola has such a peak.

    Four rounds in five lose 1, so 0.8 a round is the bandit's. Least squares puts the peak of
    (0, 0, 1, 0, 0) at 17/35, 0.49 above 0 where 1 is true: the rows that ran it say so.
    """
    instance = plain(values=(1.0, 2.0, 3.0, 4.0, 5.0))
    price = np.tile([1.0, 4.0, 3.0, 5.0, 2.0], 200)
    found = found_on(instance, price, price, np.where(price == 3.0, 1.0, 0.0))
    assert found.bandit.mean == pytest.approx(17 / 35 - 0.2, abs=0.02)
    assert found.bandit.low <= 0.8 <= found.bandit.high + 1e-9
    assert found.misfit[2] == pytest.approx(18 / 35, abs=0.05)
    assert "contradict the outcome model" in found.says


def test_by_hand_chances_of_classes() -> None:
    """No context, one price of 2, booked in 2 of 3 rounds: with the row of ½, odds (n⅔ + ½)/n⅓."""
    instance = dataclasses.replace(
        plain(values=(2.0,)), reward=gdcb.Payoff(outcome=("booked",), action=0)
    )
    price, booked = np.full(90, 2.0), np.tile([1.0, 0.0, 1.0], 30)
    log = gated_log(instance, np.zeros((90, 1)), price[:, None], price[:, None], price * booked)
    means = Rows.of(Features.of(instance, log)).fit()
    worth = means.at(means.features.design(log.executed), log.executed)
    np.testing.assert_allclose(worth, 2.0 * 60.5 / 91, atol=1e-6)


def test_arms_that_never_ran_are_left_out_and_said_to_be() -> None:
    """Every 4 was cut to 2: the arm 4 is not among those compared, and its share is named."""
    instance = plain(gdcb.Cap(2.0))
    price = np.tile([1.0, 2.0, 4.0, 4.0, 1.0, 2.0, 2.0], 60)
    found = found_on(instance, price, np.minimum(price, 2.0), np.minimum(price, 2.0))
    assert found.unsupported == 1.0
    assert "never ran in comparable contexts" in found.says
    # Rewards rise with the price, so the model would have the arm 4 in every row.
    assert found.beyond == 1.0
    assert "likely too low" in found.says
    # Behind the cap the arms 2 and 4 are the same and the best: 2 a row, against what was earned.
    earned = float(np.minimum(price, 2.0).mean())
    assert found.bandit.mean == pytest.approx(2.0 - earned, abs=0.02)


def test_the_same_log_gives_the_same_figures() -> None:
    """Nothing is drawn; and plain data."""
    _, logs = shops.tried_logs(1, 300)
    first, second = (live_regret(shops.live_shop(), logs[0]) for _ in range(2))
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
