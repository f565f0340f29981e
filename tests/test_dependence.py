"""Whether rows depend on each other, and p-values by resampling: by hand, and at their level."""

from __future__ import annotations

import numpy as np
import pytest

from gdcb.analysis.dependence import serial_dependence
from gdcb.analysis.resampled import events, in_bands, is_rare, resampled_p, shuffled
from gdcb.arrays import Array

# Resampling


def test_p_by_shuffling_is_the_exact_one() -> None:
    """Both of two successes fall in the first half: 2·(10·9)/(20·19) = 0.47 on both sides."""
    rng, y = np.random.default_rng(0), np.repeat([1.0, 0.0], [2, 18])
    group = np.zeros(20, dtype=np.int64)

    def largest(some: Array) -> Array:
        return np.asarray(np.abs(some[:10].sum(axis=0) - some[10:].sum(axis=0)))[None]

    p, which = resampled_p(largest, y[:, None], lambda n: shuffled(y, group, n, rng), 0.001, 20)
    assert which == 0
    assert p == pytest.approx(0.474, abs=0.15)  # it stops early: p is well above the level


def test_shuffles_stay_within_their_group() -> None:
    values, group = np.arange(12.0), np.tile([0, 1, 2], 4)
    found = shuffled(values, group, 50, np.random.default_rng(1))
    for g in range(3):
        some = np.sort(found[group == g], axis=0)
        np.testing.assert_array_equal(some, np.repeat(values[group == g][:, None], 50, axis=1))
    assert np.unique(found[0]).size > 1


def test_bands_hold_rows_of_one_block_and_neighbouring_values() -> None:
    rng = np.random.default_rng(2)
    fitted, block = rng.normal(size=300), rng.integers(0, 2, 300)
    group = in_bands(fitted, block)
    assert np.unique(group).size == 10
    for g in np.unique(group):
        here = group == g
        assert np.unique(block[here]).size == 1
        between = (fitted > fitted[here].min()) & (fitted < fitted[here].max())
        assert (group[between & (block == block[here][0])] == g).all()


def test_events_of_rare_outcomes_are_few() -> None:
    y = (np.arange(1000) < 10).astype(float)
    assert events((y - 0.01)[:, None])[0] == pytest.approx(10, rel=0.05)
    normal = np.random.default_rng(0).normal(size=(9000, 1))
    assert events(normal)[0] == pytest.approx(3000, rel=0.1)
    assert is_rare((y - 0.01)[:, None])
    assert not is_rare(normal)


# Dependence


def test_dependence_by_hand() -> None:
    """u = 1, 1, −1, −1 over and over: of 40 neighbours' products 20 are 1 and 19 are −1."""
    u = np.tile([1.0, 1.0, -1.0, -1.0], 10)
    day = np.arange(40) // 2
    found = serial_dependence(u, day)
    assert found.among == "rows of the same day"
    assert found.inflation == pytest.approx(2.0)  # two equal rows a day: 2·20/40 more
    assert found.p < 0.01


def test_independence_keeps_its_level_where_outcomes_are_rare_or_uneven() -> None:
    """150 logs of each kind at 0.05; 16 alarms or more have a probability of 0.2 %."""
    rare_alarms = uneven = 0
    day = np.arange(600) // 20
    for seed in range(150):
        rng = np.random.default_rng(seed)
        y = (rng.random(600) < 0.02).astype(float)
        rare_alarms += serial_dependence(y - y.mean(), day).p <= 0.05
        u = rng.normal(size=600) * np.where(np.arange(600) < 200, 5.0, 1.0)
        uneven += serial_dependence(u - u.mean(), day).p <= 0.05
    assert rare_alarms <= 15
    assert uneven <= 15


@pytest.mark.parametrize("days", [2, 10])
def test_independence_keeps_a_small_level_with_few_days(days: int) -> None:
    """1,500 logs at 0.005; 14 alarms or more have a probability of 2 %, with fixed seeds.

    Sums of few squares have a longer tail than the normal one, which gave 1 %.
    """
    alarms, day = 0, np.arange(1500) * days // 1500
    rng = np.random.default_rng(1)
    for _ in range(1500):
        u = rng.normal(size=1500)
        alarms += serial_dependence(u - u.mean(), day).p <= 0.005
    assert alarms < 14


def test_the_inflation_is_the_largest_of_those_that_are_significant() -> None:
    """Neighbours resemble each other most clearly, but by less than a tenth; days by more."""
    rng = np.random.default_rng(1)
    n, width = 60_000, 100
    u = rng.normal(size=n + 1)
    u = u[1:] + 0.05 * u[:-1] + 0.04 * np.repeat(rng.normal(size=n // width), width)
    day = np.repeat(np.arange(n // width), width)
    u -= u.mean()
    found = serial_dependence(u, day, level=0.01)
    ratio = (u.reshape(-1, width).sum(axis=1) ** 2).sum() / (u * u).sum()
    assert found.among == "rows of the same day"
    assert found.inflation == pytest.approx(ratio)
    assert found.inflation > 1.15


def test_levels_of_units_are_no_dependence_and_their_memory_is() -> None:
    rng = np.random.default_rng(3)
    unit = np.tile(np.arange(100), 30)
    level, fresh = rng.normal(size=100)[unit], rng.normal(size=3000)
    assert serial_dependence(level + fresh - (level + fresh).mean(), unit=unit).p > 0.05
    memory = fresh.reshape(30, 100).copy()
    for t in range(1, 30):
        memory[t] = 0.5 * memory[t - 1] + fresh.reshape(30, 100)[t]
    found = serial_dependence(memory.ravel() - memory.mean(), unit=unit)
    assert found.among == "rows of the same unit"
    assert found.p < 0.001
