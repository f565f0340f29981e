"""The paper's Algorithm 1: what its five steps come to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.errors import InvalidInput
from gdcb.kalman.algorithm_one import algorithm_one
from gdcb.kalman.semidefinite import psd_part
from tests.properties import examples

ONE = np.ones((1, 1))


@given(st.integers(0, 10**6))
@examples(20)
def test_step_five_is_the_difference_of_two_variances_and_the_prior(seed: int) -> None:
    """P̂₀ = (H⁺(V̂_fit − V̂_cal + HPHᵀ)H⁺ᵀ)₊ wherever the floor does not bind."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    h, half = rng.normal(size=(m, n)), rng.normal(size=(n, n))
    prior = half @ half.T
    prior *= 0.05 / np.linalg.eigvalsh(h @ prior @ h.T).max()  # far below what innovations vary by
    nu = rng.normal(size=(60, 3, m))
    told = algorithm_one(nu, h, prior, 1e-6 * np.eye(m), 0.4)
    assert not told.is_floored
    inverse = np.linalg.pinv(h)
    flat = [np.atleast_2d(np.cov(part.reshape(-1, m).T)) for part in (nu[:24], nu[24:])]
    direct = inverse @ (flat[1] - flat[0] + h @ prior @ h.T) @ inverse.T
    np.testing.assert_allclose(told.initial, psd_part(direct), atol=1e-9 * np.abs(inverse).max())


@pytest.mark.parametrize("prior", [0.1, 1.0, 3.0])
def test_one_sample_returns_the_prior_to_the_last_digits(prior: float) -> None:
    """Whatever the data: here innovations of variances 4 and 400."""
    for spread in (2.0, 20.0):
        nu = spread * np.random.default_rng(0).normal(size=(500, 1, 1))
        told = algorithm_one(np.concatenate((nu, nu)), ONE, prior * ONE, 0.01 * ONE, 0.5)
        assert told.initial.item() == pytest.approx(prior, rel=1e-9)


def test_it_knows_exactly_what_it_never_saw() -> None:
    """H = (1, 0): the prior variance of velocity is 5, and 0 is returned."""
    nu = np.random.default_rng(1).normal(size=(100, 20, 1))
    told = algorithm_one(nu, np.array([[1.0, 0.0]]), np.diag([0.5, 5.0]), ONE)
    assert told.initial[0, 0] > 0.0
    assert not told.initial[1].any()


def test_a_floor_that_binds_returns_all_of_the_variance() -> None:
    """Prior 9 for innovations of variance 1: R̂ = 0.1·R_def, and P̂₀ = V̂_fit − 0.1·R_def."""
    nu = np.random.default_rng(2).normal(size=(100, 20, 1))
    told = algorithm_one(nu, ONE, 9 * ONE, 2 * ONE)
    assert told.is_floored
    assert told.noise.item() == pytest.approx(0.2)
    assert told.initial.item() == pytest.approx(told.fit.item() - 0.2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"h": np.ones(3)}, "h: expected a finite matrix"),
        ({"prior": np.eye(2)}, r"prior: expected a finite matrix \(1, 1\)"),
        ({"noise_default": ONE * np.nan}, "noise_default"),
        ({"innovation": np.full((8, 2, 1), np.nan)}, "finite numbers"),
        ({"share": 0.0}, "share"),
        ({"share": 1.0}, "two of them in either segment"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], said: str) -> None:
    good = {"innovation": np.ones((8, 2, 1)), "h": ONE, "prior": ONE, "noise_default": ONE}
    with pytest.raises(InvalidInput, match=said):
        algorithm_one(**(good | change))
