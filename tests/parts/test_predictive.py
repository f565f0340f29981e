"""Moderated probabilities against adaptive quadrature, wherever the posterior may be."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from gdcb.bandits.predictive import log_bernoulli, log_normal, moderated
from tests.parts.builders import bytes_of, fixed, rng_of


def expected(mean: float, sd: float) -> float:
    """Return E σ(η) by SciPy: ∫ σ′(t)·Φ((mean − t)/sd) dt, an integrand without a steep side."""

    def part(t: float) -> float:
        return float(special.ndtr((mean - t) / sd) / (4.0 * np.cosh(0.5 * t) ** 2))

    bends = sorted({min(max(b, -40.0), 40.0) for b in (mean - 8 * sd, mean, mean + 8 * sd, 0.0)})
    edges = [-80.0, *bends, 80.0]
    return sum(
        integrate.quad(part, low, high, epsabs=1e-13, epsrel=1e-12, limit=400)[0]
        for low, high in pairwise(edges)
        if high > low
    )


@pytest.mark.parametrize(
    "sd", [1e-3, 0.1, 0.5, 1.0, 1.9, 2.0, 2.1, 3.0, 4.0, 8.0, 15.0, 30.0, 200.0]
)
@pytest.mark.parametrize("mean", [0.0, 0.3, -1.0, 2.5, -6.0, 20.0])
def test_moderated_is_the_integral(mean: float, sd: float) -> None:
    """To 1e-9, from a point mass to a standard deviation of 200."""
    found = moderated(np.array([mean]), np.array([sd**2]))[0]
    assert found == pytest.approx(expected(mean, sd), abs=1e-9)


@given(
    mean=st.floats(-30, 30),
    sd=st.floats(0, 100),
    more=st.floats(0.01, 5),
)
@fixed
def test_moderated_is_a_probability(mean: float, sd: float, more: float) -> None:
    """P and 1 − P sum to 1, it rises with the mean, and lies between ½ and σ(mean)."""
    at = np.array([mean, -mean, mean + more])
    p, q, above = moderated(at, np.full(3, sd**2))
    assert p + q == pytest.approx(1.0, abs=1e-13)
    assert above >= p
    low, high = sorted((0.5, float(special.expit(mean))))
    assert low - 1e-8 <= p <= high + 1e-8


def test_a_point_has_its_own_probability_and_tails_keep_their_digits() -> None:
    """Variance 0 is σ(mean), to 1e-13 of itself, also at −60 where σ is 9e-27."""
    mean = np.array([-60.0, -3.0, 0.0, 4.0])
    np.testing.assert_allclose(moderated(mean, np.zeros(4)), special.expit(mean), rtol=1e-13)


def test_any_shape_and_the_same_bytes_beside_others() -> None:
    """(N, M) arrays, more of them than are worked out at once, and NaN stays where it is."""
    rng = rng_of(1)
    mean, variance = rng.normal(size=(9_000, 2)), rng.uniform(0, 20, size=(9_000, 2))
    mean[3, 1] = np.nan
    found = moderated(mean, variance)
    assert found.shape == (9_000, 2)
    assert np.flatnonzero(np.isnan(found)).tolist() == [7]
    for i in (0, 3, 8_999):
        assert bytes_of(moderated(mean[[i]], variance[[i]])) == bytes_of(found[[i]])


def test_log_densities_are_scipy_s() -> None:
    """A normal of variance 0.3, and a Bernoulli of 0.2; a sure thing that fails is finite."""
    y = np.array([0.4, -1.0])
    law = stats.norm(0.1, np.sqrt(0.3))
    np.testing.assert_allclose(
        log_normal(y, np.full(2, 0.1), np.full(2, 0.3)), law.logpdf(y), rtol=1e-12
    )
    p = np.array([0.2, 0.2, 1.0])
    found = log_bernoulli(np.array([1.0, 0.0, 0.0]), p, 1 - p)
    np.testing.assert_allclose(found[:2], np.log([0.2, 0.8]), rtol=1e-12)
    assert np.isfinite(found[2])
