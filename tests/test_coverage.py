"""Intervals of all off-policy estimators hold the truth as often as they say, or are not given.

The full table, 1,000 logs of twelve designs, is made by `python -m benchmarks.coverage`; the soak
test makes it with 200.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from benchmarks import coverage as study
from gdcb.analysis import Feedback, evaluate
from gdcb.analysis.off_policy.estimators import ESTIMATORS

THREE = ("skewed", "noisy", "few")
LOGS = 20
ASKED = tuple(one for one in study.ASKED if one[1] != "bernstein")


@cache
def measured(design: str) -> dict[tuple[str, str, bool], dict[str, Any]]:
    """Return the small table of a design: 20 logs, 200 draws, what is asked most."""
    table = study.coverage((design,), LOGS, draws=200, asked=ASKED)
    return {(row["estimator"], row["interval"], row["declared"]): row for row in table}


@pytest.mark.parametrize("design", THREE)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_interval_that_is_given_covers(design: str, estimator: str) -> None:
    """At least 16 of 20 (of fewer, four misses at most): 95 % miss that 26 times in 10,000."""
    rows = [row for key, row in measured(design).items() if key[0] == estimator]
    assert len(rows) == 2 + (estimator in study.SURE)
    for row in rows:
        assert row["given"] - row["held"] <= 4, row


def test_what_has_no_interval_and_what_has_one() -> None:
    """DM never; switch-DR only with a declared range; nothing by the bootstrap of few rows."""
    for design in THREE:
        for is_declared in (False, True):
            assert measured(design)["dm", "bootstrap", is_declared]["given"] == 0
        assert measured(design)["dr", "betting", True]["given"] == LOGS
    for design in ("skewed", "noisy"):
        for name in ("snips", "dr", "sndr"):
            assert measured(design)[name, "bootstrap", False]["given"] >= LOGS // 2
    assert measured("skewed")["switch-dr", "bootstrap", False]["given"] == 0
    assert measured("skewed")["switch-dr", "bootstrap", True]["given"] >= LOGS // 2
    log = replace(study.designs()["few"], rows=300).log(np.random.default_rng(0))
    for name in ESTIMATORS:
        value = evaluate(log, name, reward_range=(0.0, 1.0))
        assert value.limits is None
        assert "without an interval" in value.says


def biased(seed: int, logged: bool = False) -> tuple[Feedback, float]:
    """Return a log whose outcome model is wrong by half of the range, and the truth."""
    design = replace(study.designs()["skewed"], rows=800, logged=logged)
    log = design.log(np.random.default_rng([5, seed]))
    return replace(log, outcome=np.clip(log.outcome - 0.5, 0.0, 1.0)), design.value


def test_switch_dr_never_calls_95_what_a_wrong_model_moves() -> None:
    """30 logs: at the default τ every interval that is given holds the value, or is none.

    Its bias is 0.1 here, five standard errors. With the range declared the bias is counted; 24 of
    30 is missed by 95 % three times in 10,000.
    """
    held = {}
    for is_declared in (False, True):
        held[is_declared] = 0
        for seed in range(30):
            log, truth = biased(seed)
            more: dict[str, Any] = {"reward_range": (0.0, 1.0)} if is_declared else {}
            value = evaluate(log, "switch-dr", draws=100, **more)
            held[is_declared] += not (value.low > truth or value.high < truth)
    assert min(held.values()) >= 24, held


def test_logged_propensities_leave_betting_intervals_right() -> None:
    """15 logs with nothing but the propensity of what ran: ends in order, and 12 hold the value."""
    held = 0
    for seed in range(15):
        log, truth = biased(seed, logged=True)
        value = evaluate(log, "dr", "betting", clip=20.0, reward_range=(0.0, 1.0))
        assert value.low <= value.high
        held += value.low <= truth <= value.high
    assert held >= 12


@pytest.mark.parametrize("estimator", ["ips", "dr"])
def test_the_bound_of_what_clipping_moves_is_one(estimator: str) -> None:
    """The mean of 30 estimates with weights cut at 3 is off by no more than their median bound.

    Each bound holds with 95 % by itself; three standard errors of the mean are left for its noise.
    """
    found, bounds = [], []
    for seed in range(30):
        log, truth = biased(seed, logged=True)
        value = evaluate(log, estimator, clip=3.0, reward_range=(0.0, 1.0), draws=100)
        found.append(value.mean)
        assert value.bias_bound is not None
        bounds.append(value.bias_bound)
    off = abs(float(np.mean(found)) - truth)
    assert off > 0.03
    assert float(np.median(bounds)) >= off - 3.0 * float(np.std(found)) / 30**0.5


@pytest.mark.soak
def test_the_table_of_all_designs() -> None:
    """200 logs each: every interval that is given covers 91 % or more.

    95 % would fall below that once in 100; twelve designs have some 150 intervals, most of which
    hold more often than they say.
    """
    table = study.coverage(tuple(study.designs()), 200, engine="pool")
    assert len(table) == len(study.designs()) * len(study.ASKED)
    short = [row for row in table if row["given"] >= 50 and row["held"] < 0.91 * row["given"]]
    assert not short, short
