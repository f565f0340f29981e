"""The two questions on the Kalman instance: what a notch does to ε, and whether loops compound."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gdcb.kalman.autocovariance import autocovariance_fit
from gdcb.kalman.riccati import gain, riccati
from gdcb.theorems import kalman_loop, kalman_spectrum
from gdcb.theorems.kalman_lines import (
    HISTORY_GAIN,
    NOISE,
    PROCESS,
    Case,
    F,
    covariances,
    filter_error,
    fitted,
    limit,
    records,
)
from gdcb.theorems.kalman_worlds import LOOPS
from gdcb.theorems.verdict import PAPER, REPAIRED, plain

SMALL = kalman_spectrum.Sizes(
    steps=(250, 600), amplitudes=(0.0, 1.5), replicates=8, alarms=12, resamples=20
)
ONE = np.ones((1, 1))


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


# What a notch does to ε


def test_the_fit_is_the_packages_own() -> None:
    nu, _ = records(rng(1), Case(800, 0.5), 1)
    q, r = covariances(nu[:, 0])
    for context in range(2):
        one = nu[:, 0, context, None, None]
        fit = autocovariance_fit(
            one, F * ONE, ONE, HISTORY_GAIN * ONE, n_lags=18, burn_in=0, weights="equal"
        )
        np.testing.assert_allclose([fit.process.item(), fit.noise.item()], [q[context], r[context]])


def test_without_a_line_the_fit_is_right_in_the_limit() -> None:
    np.testing.assert_allclose(limit(Case(1000, 0.0)), np.zeros((2, 2)), atol=1e-12)
    nu, _ = records(rng(2), Case(100_000, 0.0), 1)
    q, r = covariances(nu[:, 0])
    np.testing.assert_allclose([q / PROCESS, r / NOISE], np.ones((2, 2)), atol=0.06)


@pytest.mark.parametrize("period", [7.0, 40.0, 2.3])
def test_the_floor_is_what_a_long_record_comes_to(period: float) -> None:
    """No record is long enough: the error at 100,000 steps is the limit worked out."""
    case = Case(100_000, 1.5, period=period)
    nu, _ = records(rng(3), case, 1)
    q, r = covariances(nu[:, 0])
    found = np.log(np.stack([q / PROCESS, r / NOISE], axis=1))
    np.testing.assert_allclose(found, limit(case), atol=0.08)
    assert np.abs(limit(case)).max() > 0.2


def test_filter_error_is_that_of_a_filter() -> None:
    """Steady mean squared error with a line left in, against a simulated track."""
    k, steps, generator = np.array([0.2, 0.5]), 30_000, rng(4)
    line = 1.5 * np.cos(2 * np.pi * np.arange(steps) / 7)
    s, estimate, total = np.zeros(2), np.zeros(2), np.zeros(2)
    process, noise = np.sqrt(PROCESS), np.sqrt(NOISE)
    draws = generator.normal(size=(steps, 2, 2))
    for t in range(steps):
        s = F * s + process * draws[t, 0]
        predicted = F * estimate
        estimate = predicted + k * (s + noise * draws[t, 1] + line[t] - predicted)
        total += (estimate - s) ** 2
    np.testing.assert_allclose(total / steps, filter_error(k, line[:, None]), rtol=0.05)


def test_a_notch_at_the_known_period_takes_the_bias_away() -> None:
    fits = fitted(rng(5), Case(1500, 1.5), 10, 0.05)
    assert fits.found.all()
    raw, known = fits.error["raw"].mean(axis=0), fits.error["known"].mean(axis=0)
    np.testing.assert_allclose(raw, limit(Case(1500, 1.5)), atol=0.2)
    assert (np.abs(known) < 0.2).all()
    assert (fits.cleaned["known"] < fits.excess["known"]).all()
    np.testing.assert_array_equal(fits.cleaned["raw"], fits.excess["raw"])


@pytest.fixture(scope="module")
def small() -> dict[str, Any]:
    return kalman_spectrum.spectral(rng(6), SMALL)


def test_a_small_check_of_the_notch(small: dict[str, Any]) -> None:
    """Figures are data, and every claim has figures and a verdict."""
    found = small
    json.dumps(plain(found))
    claims = kalman_spectrum.checks(found)
    assert {one.form for one in claims} == {REPAIRED}
    assert [one.holds for one in claims] == [True] * 6
    assert len(kalman_spectrum.answer(found)) == 2
    assert len(found["cases"]) == 6
    assert all(len(row) == len(found["table"]["columns"]) for row in found["table"]["rows"])


def test_the_same_seed_gives_the_same() -> None:
    size = replace(SMALL, steps=(250,), amplitudes=(1.0,), replicates=2, alarms=1, resamples=2)
    one, other = (json.dumps(plain(kalman_spectrum.spectral(rng(1), size))) for _ in range(2))
    assert one == other


def test_claims_of_the_notch_can_fail(small: dict[str, Any]) -> None:
    """Figures that say otherwise are not called true."""
    found = copy.deepcopy(small)
    strong = next(one for one in found["cases"] if one["amplitude"] == 1.5 and one["steps"] == 600)
    strong["ways"]["raw"]["bias"] = {"mean": 1e-4, "low": 0.0, "high": 2e-4}
    strong["variance_ratio"] = {"mean": 2.0, "low": 1.5, "high": 3.0}
    strong["taken_off"] = {"mean": 0.1, "low": 0.0, "high": 0.2}
    for one in found["cases"]:
        if one["amplitude"] == 0.0:
            one["square_ratio"] = {"mean": 2.0, "low": 1.5, "high": 3.0}
    found["alarms"][1]["chance"] = 1e-9
    assert [one.holds for one in kalman_spectrum.checks(found)] == [False] * 6


# Whether loops compound


def test_gains_are_the_riccati_equations() -> None:
    loop = LOOPS[0]
    gains = kalman_loop.Gains.of(loop)
    rho = float(np.exp(1.5))  # on the grid, whose spacing is 1/8
    r = np.array([[9.0 * rho]])
    p = riccati(loop.f, loop.h, 0.1 * loop.shape, r)
    np.testing.assert_allclose(gains.at(np.array(1), np.array(rho)), gain(loop.h, p, r))


def test_a_better_filter_is_better() -> None:
    """Learned modes beat the fixed one where the context is the state; parts sum to the whole."""
    found = kalman_loop.closed_loop(rng(7), kalman_loop.Sizes(100, 150, 40, 2))
    better = 0
    for one in found["domains"]:
        better += one["error"]["learned, true"] < one["error"]["fixed, true"]
        parts = [one[name]["mean"] for name in ("modes_alone", "context_alone", "saved")]
        assert one["together"]["mean"] == pytest.approx(sum(parts))
    assert better >= 3


def test_a_small_check_of_the_loop() -> None:
    found = kalman_loop.closed_loop(rng(8), kalman_loop.Sizes(60, 30, 10, 1))
    assert [row[0] for row in found["table"]["rows"]] == [loop.name for loop in LOOPS]
    assert all(len(row) == len(found["table"]["columns"]) for row in found["table"]["rows"])
    assert [one.form for one in kalman_loop.checks(found)] == [PAPER, REPAIRED]
    json.dumps(plain(found))


def test_claims_of_the_loop_follow_their_figures() -> None:
    def made(saved: float, feedback: float) -> dict[str, Any]:
        def part(mean: float) -> dict[str, float]:
            return {"mean": mean, "low": mean - 0.02, "high": mean + 0.02, "error": 0.01}

        return {"domains": [{"domain": "d", "saved": part(saved), "feedback": part(feedback)}]}

    for saved, feedback, expected in (
        (0.0, 0.0, [True, True]),
        (0.1, 0.0, [False, True]),
        (-0.1, 0.2, [True, False]),
        (-0.1, -0.2, [True, False]),
    ):
        assert [one.holds for one in kalman_loop.checks(made(saved, feedback))] == expected


def test_a_context_that_nothing_depends_on_makes_no_difference() -> None:
    """With one regime and one noise level all four cells are the same filter."""
    flat = replace(LOOPS[3], levels=(0.1,), blur=lambda x: np.ones(x.shape[0]))
    found = kalman_loop._factorial(rng(9), flat, kalman_loop.Sizes(60, 20, 10, 1))
    assert found["saved"]["mean"] == pytest.approx(0.0, abs=1e-12)
    assert found["feedback"]["mean"] == pytest.approx(0.0, abs=1e-12)
