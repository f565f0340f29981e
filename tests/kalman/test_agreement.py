"""NIS and NEES: by hand, SciPy's bands, and right and wrong filters told apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman.agreement import nees, nis, normalised
from gdcb.kalman.filter import Model, kalman_filter

F = np.array([[1.0, 1.0], [0.0, 0.95]])
H = np.array([[1.0, 0.0], [1.0, 1.0]])
Q = np.array([[0.2, 0.1], [0.1, 0.3]])
R = np.array([[1.0, 0.3], [0.3, 2.0]])


def tracks(seed: int, steps: int, count: int) -> tuple[Array, Array]:
    """Return true states (T, N, 2) and measurements, a fifth of the components unseen."""
    rng = np.random.default_rng(seed)
    state, states = rng.normal(size=(count, 2)), []
    for _ in range(steps):
        states.append(state)
        state = state @ F.T + rng.multivariate_normal(np.zeros(2), Q, count)
    s = np.stack(states)
    z = s @ H.T + rng.multivariate_normal(np.zeros(2), R, (steps, count))
    z[rng.random(z.shape) < 0.2] = np.nan
    return s, z


def test_a_right_filter_is_consistent() -> None:
    """400 tracks of 30 steps: NIS over everything, NEES of the last step; false alarms 10⁻³ each.

    A noise taken for twice or half of what it is falls out of the band, on its own side.
    """
    s, z = tracks(1, 30, 400)
    verdicts = {}
    for scale in (0.5, 1.0, 2.0):
        out = kalman_filter(z, Model(F, H, scale * Q, scale * R), np.zeros(2), np.eye(2))
        of_nis = normalised(*nis(out.innovation, out.innovation_covariance), level=0.999)
        of_nees = normalised(*nees(s - out.mean, out.covariance), axis=1, level=0.999)
        verdicts[scale] = (of_nis, of_nees)
    of_nis, of_nees = verdicts[1.0]
    assert of_nis.is_consistent
    assert of_nees.is_consistent[-1]
    assert of_nees.is_consistent.mean() > 0.9
    assert verdicts[0.5][0].mean > verdicts[0.5][0].high
    assert verdicts[0.5][1].mean[-1] > verdicts[0.5][1].high[-1]
    assert verdicts[2.0][0].mean < verdicts[2.0][0].low
    assert verdicts[2.0][1].mean[-1] < verdicts[2.0][1].low[-1]


def test_bands_are_scipy_s() -> None:
    """χ² of the degrees of freedom, over them; over tracks, over steps and over both."""
    values, n_free = np.arange(12.0).reshape(3, 4), np.full((3, 4), 2)
    axes: tuple[tuple[int | None, int], ...] = ((1, 8), (0, 6), (None, 24))
    for axis, free in axes:
        found = normalised(values, n_free, axis=axis, level=0.9)
        assert (found.n_free == free).all()
        np.testing.assert_allclose(found.low, stats.chi2.ppf(0.05, free) / free, rtol=1e-12)
        np.testing.assert_allclose(found.high, stats.chi2.ppf(0.95, free) / free, rtol=1e-12)
        np.testing.assert_allclose(found.mean, values.sum(axis=axis) / free, rtol=1e-15)


def test_only_what_was_seen_counts() -> None:
    """νᵀS⁻¹ν with S = [[2, 1], [1, 1]]: both, one, none of (1, 1): 1, 1/2, 0 with 2, 1, 0 free."""
    s = np.tile([[2.0, 1.0], [1.0, 1.0]], (3, 1, 1))
    values, n_free = nis(np.array([[1.0, 1.0], [1.0, np.nan], [np.nan, np.nan]]), s)
    np.testing.assert_allclose(values, [1.0, 0.5, 0.0], rtol=1e-15)
    assert n_free.tolist() == [2, 1, 0]
    empty = normalised(values[2:], n_free[2:])
    assert np.isnan(empty.mean)
    assert not empty.is_consistent


def test_values_are_each_track_s_own() -> None:
    """A batch has the bits of each of its tracks."""
    _, z = tracks(2, 5, 3)
    out = kalman_filter(z, Model(F, H, Q, R), np.zeros(2), np.eye(2))
    values, _ = nis(out.innovation, out.innovation_covariance)
    for t in range(5):
        for i in range(3):
            alone, _ = nis(out.innovation[t, i], out.innovation_covariance[t, i])
            assert alone == values[t, i]


@pytest.mark.parametrize(
    ("error", "covariance", "message"),
    [
        (np.ones((4, 3, 2)), np.zeros((4, 3, 2, 2)), r"positive definite .*\(track 0, step 0\)"),
        (np.ones((4, 3, 1)), -np.ones((4, 3, 1, 1)), r"positive definite .*\(track 0, step 0\)"),
        (np.ones((3, 2)), np.tile(np.diag([1.0, -1.0]), (3, 1, 1)), r"definite .*\(track 0\)"),
        (np.ones((3, 2)), np.full((3, 2, 2), np.nan), "positive definite"),
        (np.eye(3)[:1], np.diag([1.0, -1.0, -1.0])[None], "positive definite"),
        (np.full((3, 2), np.nan), np.tile(np.eye(2), (3, 1, 1)), "finite errors"),
        (np.ones((3, 2)), np.eye(2), "error: expected shapes"),
    ],
)
def test_bad_covariances_are_refused(error: Array, covariance: Array, message: str) -> None:
    """The message names the matrix, the track and the step."""
    with pytest.raises(InvalidInput, match=message):
        nees(error, covariance)


@pytest.mark.parametrize("level", [0.0, 1.0, np.nan, "high"])
def test_bad_levels_are_refused(level: Any) -> None:
    """A level lies between 0 and 1."""
    with pytest.raises(InvalidInput, match="level: expected a"):
        normalised(np.ones(3), np.ones(3, dtype=int), level=level)


def test_counts_must_fit() -> None:
    """One number of degrees a value."""
    with pytest.raises(InvalidInput, match="n_free: expected shape"):
        normalised(np.ones(3), np.ones(2))
