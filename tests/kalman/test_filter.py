"""The batched filter: hand arithmetic, two other filters, batch equals loop, hard cases."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman.filter import Filtered, Model, kalman_filter
from tests.kalman.systems import ARRAYS, assert_same_bits, covariances, systems
from tests.parts.builders import fixed

TOLERANCE = 1e-9


def case(
    seed: int, steps: int, tracks: int, n: int, m: int, missing: float = 0.25
) -> tuple[Array, Model, Array, Array]:
    """Return measurements with holes, a model by step and track, and where tracks start."""
    rng = np.random.default_rng(seed)
    model = Model(*systems(seed, (steps, tracks), n, m, most=1.05))
    z = rng.normal(size=(steps, tracks, m))
    z[rng.random(z.shape) < missing] = np.nan
    return z, model, rng.normal(size=(tracks, n)), covariances(rng, (tracks,), n, 0.5)


def model_of(*parts: Any) -> Model:
    """Return a model of lists or arrays."""
    return Model(*parts)


def close(ours: Array, theirs: Array) -> None:
    """Compare to 1e-9 of the largest entry."""
    assert np.abs(ours - theirs).max() <= TOLERANCE * max(1.0, float(np.abs(theirs).max()))


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 1), (3, 2), (4, 3)])
def test_filter_is_filterpy_s(n: int, m: int) -> None:
    """Means, covariances, gains and likelihood to 1e-9, holes included."""
    from filterpy.kalman import KalmanFilter

    steps, tracks = 30, 3
    z, model, mean, covariance = case(n, steps, tracks, n, m)
    out = kalman_filter(z, model, mean, covariance)
    for i in range(tracks):
        peer = KalmanFilter(n, m)
        peer.x, peer.P, likelihood = mean[i][:, None], covariance[i], 0.0
        for t in range(steps):
            close(out.predicted[t, i], peer.x[:, 0])
            close(out.predicted_covariance[t, i], peer.P)
            seen = ~np.isnan(z[t, i])
            assert (np.isnan(out.innovation[t, i]) == ~seen).all()
            assert not out.gain[t, i][:, ~seen].any()
            if seen.any():
                h, r = model.measurement[t, i][seen], model.noise[t, i][np.ix_(seen, seen)]
                peer._mahalanobis = None
                peer.dim_z = int(seen.sum())
                peer.update(z[t, i][seen][:, None], R=r, H=h)
                likelihood += peer.log_likelihood
                close(out.gain[t, i][:, seen], peer.K)
                close(out.innovation[t, i][seen], peer.y[:, 0])
                close(out.innovation_covariance[t, i][np.ix_(seen, seen)], peer.S)
            close(out.mean[t, i], peer.x[:, 0])
            close(out.covariance[t, i], peer.P)
            peer.predict(F=model.transition[t, i], Q=model.process[t, i])
        close(out.log_likelihood[i], np.asarray(likelihood))


def test_filter_is_statsmodels_s() -> None:
    """Means, covariances and likelihood to 1e-9, holes included."""
    from statsmodels.tsa.statespace.kalman_filter import KalmanFilter

    steps, tracks, n, m = 40, 2, 3, 2
    z, model, mean, covariance = case(11, steps, tracks, n, m)
    out = kalman_filter(z, model, mean, covariance)
    for i in range(tracks):
        peer = KalmanFilter(k_endog=m, k_states=n, tolerance=0.0)
        peer.bind(z[:, i].copy())
        for name, part in (
            ("transition", model.transition),
            ("design", model.measurement),
            ("state_cov", model.process),
            ("obs_cov", model.noise),
        ):
            peer[name] = np.moveaxis(part[:, i], 0, -1)
        peer["selection"] = np.eye(n)
        peer.initialize_known(mean[i], covariance[i])
        theirs = peer.filter()
        close(out.predicted[:, i].T, theirs.predicted_state[:, :-1])
        close(
            np.moveaxis(out.predicted_covariance[:, i], 0, -1), theirs.predicted_state_cov[..., :-1]
        )
        close(out.mean[:, i].T, theirs.filtered_state)
        close(np.moveaxis(out.covariance[:, i], 0, -1), theirs.filtered_state_cov)
        close(out.next_mean[i], theirs.predicted_state[:, -1])
        close(out.next_root[i] @ out.next_root[i].T, theirs.predicted_state_cov[..., -1])
        close(out.log_likelihood[i], np.asarray(theirs.llf))


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 2), (5, 3)])
def test_a_track_has_the_bits_that_it_has_alone(n: int, m: int) -> None:
    """In a batch of 7, alone, and in another order: not one bit differs."""
    z, model, mean, covariance = case(5, 12, 7, n, m)
    out = kalman_filter(z, model, mean, covariance)
    for i in range(7):
        parts = (model.transition, model.measurement, model.process, model.noise)
        own = Model(*(part[:, i : i + 1] for part in parts))
        alone = kalman_filter(z[:, i : i + 1], own, mean[i], covariance[i])
        assert_same_bits(out, i, alone, 0)


@pytest.mark.parametrize("steps", [1, 2])
def test_short_runs_of_several_tracks(steps: int) -> None:
    """One step of three tracks: each has the bits that it has alone."""
    z, model, mean, covariance = case(7, steps, 3, 2, 1, missing=0.0)
    out = kalman_filter(z, model, mean, covariance)
    parts = (model.transition, model.measurement, model.process, model.noise)
    for i in range(3):
        own = Model(*(part[:, i : i + 1] for part in parts))
        assert_same_bits(out, i, kalman_filter(z[:, i : i + 1], own, mean[i], covariance[i]), 0)


def test_a_track_among_many_has_the_bits_that_it_has_alone() -> None:
    """Products of many tracks are added one by one, of few at once: the same sums."""
    z, model, mean, covariance = case(6, 3, 1500, 4, 2)
    out = kalman_filter(z, model, mean, covariance)
    parts = (model.transition, model.measurement, model.process, model.noise)
    for i in (0, 700, 1499):
        own = Model(*(part[:, i : i + 1] for part in parts))
        alone = kalman_filter(z[:, i : i + 1], own, mean[i], covariance[i])
        assert_same_bits(out, i, alone, 0)


def test_threads_do_not_share_memory() -> None:
    """Four filters at once have the bits of four in turn."""
    cases = [case(seed, 20, 1200, 3, 1) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda given_: kalman_filter(*given_), cases))
    for given_, out in zip(cases, together, strict=True):
        np.testing.assert_array_equal(out.covariance, kalman_filter(*given_).covariance)


def constant(seed: int, n: int = 3, m: int = 2) -> tuple[Array, ...]:
    """Return F, H, Q, R that all tracks share."""
    return systems(seed, (), n, m, most=1.02)


@pytest.mark.parametrize("is_holed", [False, True], ids=["seen", "holed"])
def test_shared_covariances_have_the_bits_of_own_ones(is_holed: bool) -> None:
    """Run once for all and copied where they repeat, or run for every track at every step."""
    parts, tracks = constant(3), 4
    rng = np.random.default_rng(3)
    z = rng.normal(size=(500, tracks, 2))
    if is_holed:
        z[100:103] = np.nan
        z[300, :, 1] = np.nan
    shared = kalman_filter(z, Model(*parts), np.zeros(3), np.eye(3))
    tiled = Model(*(np.tile(part, (tracks, 1, 1)) for part in parts))
    own = kalman_filter(z, tiled, np.zeros(3), np.eye(3))
    assert shared.covariance.strides[1] == 0
    assert own.covariance.strides[1] > 0
    covariance = own.predicted_covariance[:, 0]
    assert (covariance[-1] == covariance[-3]).all() or (covariance[-1] == covariance[-2]).all()
    for i in range(tracks):
        assert_same_bits(shared, i, own, i)
    np.testing.assert_array_equal(shared.next_root, own.next_root)


def test_a_filter_that_stops_goes_on_as_if_it_had_not() -> None:
    """From `next_mean` and `next_root` the second half has the bits of a whole run."""
    rng = np.random.default_rng(1)
    model, z = Model(*constant(1)), rng.normal(size=(40, 3, 2))
    z[rng.random(z.shape) < 0.2] = np.nan
    whole = kalman_filter(z, model, np.zeros(3), np.eye(3))
    first = kalman_filter(z[:25], model, np.zeros(3), np.eye(3))
    second = kalman_filter(z[25:], model, first.next_mean, first.next_root, is_root=True)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(whole, name)[25:], getattr(second, name))
    np.testing.assert_array_equal(whole.next_root, second.next_root)


def test_a_fixed_gain_s_covariance_is_joseph_s() -> None:
    """(I − KH)P(I − KH)ᵀ + KRKᵀ, written out, for gains that are not the best; holes have none."""
    z, model, mean, covariance = case(8, 20, 2, 3, 2)
    gains = 0.2 * np.random.default_rng(8).normal(size=(20, 2, 3, 2))
    out = kalman_filter(z, model, mean, covariance, gains=gains)
    for i in range(2):
        s, p = mean[i], covariance[i]
        for t in range(20):
            h, r = model.measurement[t, i], model.noise[t, i]
            k = gains[t, i] * ~np.isnan(z[t, i])
            kept = np.eye(3) - k @ h
            s = s + k @ np.where(np.isnan(z[t, i]), 0.0, z[t, i] - h @ s)
            p = kept @ p @ kept.T + k @ r @ k.T
            close(out.mean[t, i], s)
            close(out.covariance[t, i], p)
            f = model.transition[t, i]
            s, p = f @ s, f @ p @ f.T + model.process[t, i]


def test_the_best_gain_given_is_the_best_filter() -> None:
    """Its own gains handed back give a filter the same numbers, and no others a smaller trace."""
    z, model, mean, covariance = case(9, 15, 3, 3, 2)
    best = kalman_filter(z, model, mean, covariance)
    again = kalman_filter(z, model, mean, covariance, gains=best.gain)
    for name in ("mean", "covariance", "predicted_covariance"):
        np.testing.assert_allclose(getattr(again, name), getattr(best, name), rtol=1e-9, atol=1e-12)
    other = kalman_filter(z, model, mean, covariance, gains=best.gain * 1.1)
    trace = [np.trace(out.covariance, axis1=2, axis2=3) for out in (best, other)]
    assert (trace[0] <= trace[1] + 1e-12).all()
    assert (trace[0] < trace[1]).any()


def test_a_component_never_seen_is_a_row_of_h_left_out() -> None:
    """Masked by NaN, masked by `is_seen` (whatever stands there), or not in the model."""
    f, h, q, r = constant(4)
    rng = np.random.default_rng(4)
    z = rng.normal(size=(10, 2, 2))
    is_seen = np.ones(z.shape, dtype=bool)
    is_seen[:, :, 0] = False
    by_mask = kalman_filter(z, Model(f, h, q, r), np.zeros(3), np.eye(3), is_seen=is_seen)
    by_nan = kalman_filter(np.where(is_seen, z, np.nan), Model(f, h, q, r), np.zeros(3), np.eye(3))
    short = kalman_filter(z[..., 1:], Model(f, h[1:], q, r[1:, 1:]), np.zeros(3), np.eye(3))
    for i in range(2):
        assert_same_bits(by_mask, i, by_nan, i)
    np.testing.assert_allclose(by_nan.mean, short.mean, rtol=1e-12)
    np.testing.assert_allclose(by_nan.covariance, short.covariance, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(by_nan.log_likelihood, short.log_likelihood, rtol=1e-12)


@given(seed=st.integers(0, 10_000), c=st.floats(1e-6, 1e6))
@fixed
def test_only_the_ratio_of_covariances_makes_the_gain(seed: int, c: float) -> None:
    """Q, R and P times c: the same gains and means, covariances times c."""
    f, h, q, r = constant(seed, 2, 1)
    z = np.random.default_rng(seed).normal(size=(6, 1, 1))
    one = kalman_filter(z, Model(f, h, q, r), np.zeros(2), np.eye(2))
    other = kalman_filter(z, Model(f, h, c * q, c * r), np.zeros(2), c * np.eye(2))
    np.testing.assert_allclose(other.gain, one.gain, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(other.mean, one.mean, rtol=1e-8, atol=1e-10)
    scale = np.abs(one.covariance).max()
    np.testing.assert_allclose(other.covariance / c, one.covariance, rtol=1e-9, atol=1e-12 * scale)


def test_no_uncertainty_at_the_start_is_allowed() -> None:
    """P₀ = 0 and Q of rank one: the first measurement teaches nothing, the second something."""
    model = model_of([[1, 1], [0, 1]], [[1, 0]], [[0.25, 0.5], [0.5, 1.0]], [[1]])
    out = kalman_filter(np.ones((2, 1, 1)), model, np.zeros(2), np.zeros((2, 2)))
    assert out.mean[0, 0].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(out.predicted_covariance[1, 0], model.process, rtol=1e-15)
    np.testing.assert_allclose(out.gain[1, 0, :, 0], [0.2, 0.4], rtol=1e-14)  # Q's first column / S


# Hard cases


HARD: dict[str, tuple[Any, Any, Any, Any]] = {
    "tiny noise": ([[1, 1], [0, 1]], [[1, 1]], 1e-12 * np.eye(2), [[1e-10]]),
    "two rows alike": (np.eye(2), [[1, 1], [1, 1 + 1e-9]], 1e-12 * np.eye(2), 1e-10 * np.eye(2)),
    "nearly unobservable": ([[1, 1e-7], [0, 1]], [[1, 0]], 1e-10 * np.eye(2), [[1e-10]]),
    "turned": (
        np.eye(4),
        [[1, 2, 3, 4], [4, 3, 2, 1.5]],
        np.diag([1e-10, 1e-3, 1.0, 1e-8]),
        1e-10 * np.eye(2),
    ),
}


def _smallest_root(steps: int, chunk: int, name: str) -> float:
    """Return the smallest entry on a root's diagonal in a run of so many steps, by chunks."""
    model, rng = Model(*HARD[name]), np.random.default_rng(0)
    mean: Array = np.zeros((1, model.n_states))
    root: Array = 1e4 * np.eye(model.n_states)[None]
    worst = np.inf
    for _ in range(0, steps, chunk):
        z = rng.normal(size=(chunk, 1, model.n_measurements))
        z[rng.random(z.shape) < 0.1] = np.nan
        out = kalman_filter(z, model, mean, root, is_root=True)
        mean, root = out.next_mean, out.next_root
        worst = min(worst, float(out.smallest_root.min()))
    return worst


@pytest.mark.parametrize("name", HARD)
def test_covariances_stay_positive_definite(name: str) -> None:
    """R = 1e-10 beside P = 1e8: 500 steps with holes, here; a million in the long run."""
    assert _smallest_root(500, 250, name) > 0.0


@pytest.mark.soak
@pytest.mark.parametrize("name", HARD)
def test_covariances_stay_positive_definite_for_a_million_steps(name: str) -> None:
    """The same, a million times."""
    assert _smallest_root(1_000_000, 10_000, name) > 0.0


def test_joseph_s_form_would_lose_what_the_root_keeps() -> None:
    """Against exact fractions: HP⁺Hᵀ = sR/(s + R) with s = HPHᵀ; Joseph's form in P misses it."""
    f, h, q, r, p = np.eye(2), np.array([[1.0, 3.0]]), np.zeros((2, 2)), 1e-10, 1e8
    s = 10 * Fraction(p)
    exact = float(s * Fraction(r) / (s + Fraction(r)))
    out = kalman_filter(np.zeros((1, 1, 1)), model_of(f, h, q, [[r]]), np.zeros(2), p * np.eye(2))
    left = h @ out.next_root[0]
    assert float((left @ left.T)[0, 0]) == pytest.approx(exact, rel=1e-5)
    k = p * h.T / (10 * p + r)
    kept = np.eye(2) - k @ h
    joseph = kept @ (p * np.eye(2)) @ kept.T + r * k @ k.T
    assert abs(float((h @ joseph @ h.T)[0, 0]) - exact) > exact


def test_a_long_gap_is_pure_prediction() -> None:
    """Twenty minutes of seconds unseen at F = 1, Q = 1: P grows by one a step, the mean stays."""
    z = np.full((1200, 2, 1), np.nan)
    z[0] = z[-1] = 3.0
    z[100, 1] = 3.0
    out = kalman_filter(
        z, model_of([[1]], [[1]], [[1]], [[2]]), np.zeros(1), np.full((1, 1), 2.0), longest_gap=60
    )
    growth = np.diff(out.predicted_covariance[1:, 0, 0, 0])
    np.testing.assert_allclose(growth, 1.0, rtol=1e-9)
    assert (out.mean[:-1, 0, 0] == out.mean[0, 0, 0]).all()
    assert out.is_lost[:, 0].nonzero()[0].tolist() == list(range(61, 1199))
    assert out.is_lost[:, 1].nonzero()[0].tolist() == [*range(61, 100), *range(161, 1199)]
    assert not kalman_filter(
        z, model_of([[1]], [[1]], [[1]], [[2]]), np.zeros(1), np.ones((1, 1))
    ).is_lost.any()


def unstable() -> tuple[Array, Model]:
    """Return a doubling system that track 1 of two loses sight of."""
    z = np.zeros((1200, 2, 1))
    z[5:, 1] = np.nan
    return z, model_of([[2]], [[1]], [[1]], [[1]])


def test_a_covariance_that_overflows_names_its_track_and_step() -> None:
    """P quadruples a step from 1: beyond 10³⁰⁸ within some 512 steps of the gap."""
    z, model = unstable()
    with pytest.raises(InvalidInput, match=r"covariance that grew .* \(track 1, step (\d+)\)") as e:
        kalman_filter(z, model, np.zeros(1), np.eye(1))
    found = re.search(r"step (\d+)", str(e.value))
    assert found
    assert 510 <= int(found[1]) <= 520


def test_a_lost_track_does_not_stop_the_others() -> None:
    """With `longest_gap` the lost track is data, and track 0 has the bits that it has alone."""
    z, model = unstable()
    out = kalman_filter(z, model, np.zeros(1), np.eye(1), longest_gap=100)
    assert out.is_lost[105:, 1].all()
    assert not out.is_lost[:105, 1].any()
    assert not out.is_lost[:, 0].any()
    assert not np.isfinite(out.covariance[-1, 1]).all()
    alone = kalman_filter(z[:, :1], model, np.zeros(1), np.eye(1))
    assert_same_bits(out, 0, alone, 0)


def test_an_unstable_gain_is_named() -> None:
    """|1 − K| = 9: the state grows ninefold a step."""
    z = np.ones((400, 1, 1))
    with pytest.raises(InvalidInput, match=r"grew beyond all bounds \(track 0, step \d+\)"):
        kalman_filter(
            z,
            model_of([[1]], [[1]], [[1]], [[1]]),
            np.zeros(1),
            np.eye(1),
            gains=np.full((1, 1), 10.0),
        )


# Bad input


GOOD: dict[str, Any] = {
    "transition": np.eye(2),
    "measurement": np.ones((1, 2)),
    "process": np.eye(2),
    "noise": np.eye(1),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise": np.zeros((1, 1))}, "noise: expected a positive definite matrix, got .* is 0$"),
        ({"noise": [[[1.0]], [[-1.0]]]}, r"noise: expected a positive definite .* -1 \(track 1\)"),
        ({"process": [[1.0, 2.0], [2.0, 1.0]]}, "process: expected a positive semi-definite .* -1"),
        ({"process": [[0.0, 1e-3], [1e-3, 1.0]]}, "process: expected a positive semi-definite"),
        ({"process": [[1.0, 0.5], [0.4, 1.0]]}, "process: expected a symmetric .* differ by 0.1"),
        ({"process": np.full((2, 2), np.nan)}, "process: expected finite numbers, got nan"),
        ({"transition": [[np.inf, 0], [0, 1]]}, "transition: expected finite numbers, got inf"),
        ({"transition": np.ones((2, 3))}, r"transition: expected shape \(..., 3, 3\)"),
        ({"measurement": np.ones((1, 3))}, r"measurement: expected shape \(..., 1, 2\)"),
        ({"noise": np.ones(1)}, r"noise: expected shape \(i, j\), .* got \(1,\)"),
        ({"noise": np.ones((3, 1, 1)), "process": np.tile(np.eye(2), (2, 1, 1))}, "of tracks"),
        ({"measurement": np.ones((0, 2))}, "measurement: expected shape"),
    ],
)
def test_bad_models_are_refused(change: dict[str, Any], message: str) -> None:
    """The message names the matrix, what was expected and what came."""
    with pytest.raises(InvalidInput, match=message):
        Model(**(GOOD | change))


def test_a_bad_matrix_among_many_is_named() -> None:
    """A covariance that shrank below zero at step 3 of track 1."""
    q = np.tile(np.eye(2), (5, 3, 1, 1))
    q[3, 1] -= 1.5 * np.eye(2)
    with pytest.raises(InvalidInput, match=r"process: .* is -0.5 \(track 1, step 3\)"):
        Model(**(GOOD | {"process": q}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"z": np.zeros((4, 1))}, r"z: expected shape \(steps, tracks, 1\), got \(4, 1\)"),
        ({"z": np.full((4, 3, 1), np.inf)}, r"z: expected a finite .* inf .*\(track 0, step 0\)"),
        ({"mean": np.zeros(3)}, r"mean: expected shape \(2,\) or \(3, 2\), got \(3,\)"),
        ({"mean": np.full(2, np.nan)}, "mean: expected finite numbers, got nan"),
        ({"covariance": -np.eye(2)}, "covariance: expected a positive semi-definite .* -1"),
        ({"covariance": np.eye(3)}, "covariance: expected shape"),
        ({"is_seen": np.ones((4, 3, 1))}, "is_seen: expected booleans"),
        ({"is_seen": np.ones((4, 3), dtype=bool)}, "is_seen: expected booleans"),
        ({"gains": np.zeros((2, 2))}, r"gains: expected shape \(..., 2, 1\)"),
        ({"gains": np.full((2, 1), np.nan)}, "gains: expected finite"),
        ({"longest_gap": -1}, "longest_gap: expected a whole number >= 0, got -1"),
        ({"longest_gap": np.nan}, "longest_gap: expected a whole number >= 0, got nan"),
        ({"longest_gap": 1.5}, "longest_gap: expected a whole number >= 0, got 1.5"),
        ({"longest_gap": "2"}, "longest_gap: expected a whole number >= 0, got '2'"),
        ({"model": None}, "model: expected a Model, got NoneType"),
        ({"z": np.zeros((4, 3, 1)) + 1j}, "z: expected an array of real numbers, got complex128"),
        ({"z": "abc"}, "z: expected an array of real numbers, got str"),
        ({"mean": "abc"}, "mean: expected an array of real numbers, got str"),
        ({"waited": np.zeros(2, dtype=int)}, "waited: expected 3 whole numbers >= 0"),
        ({"waited": np.full(3, -1)}, "waited: expected 3 whole numbers >= 0"),
        ({"waited": np.full(3, 0.5)}, "waited: expected 3 whole numbers >= 0"),
        ({"z": np.zeros((4, 0, 1))}, "z: expected shape"),
    ],
)
def test_bad_calls_are_refused(change: dict[str, Any], message: str) -> None:
    """And what was given is as it was."""
    given_: dict[str, Any] = {
        "z": np.zeros((4, 3, 1)),
        "model": Model(**GOOD),
        "mean": np.zeros(2),
        "covariance": np.eye(2),
    } | change
    copies = {name: np.array(value) for name, value in given_.items() if name != "model"}
    with pytest.raises(InvalidInput, match=message):
        kalman_filter(**given_)
    for name, value in copies.items():
        np.testing.assert_array_equal(given_[name], value)


def test_a_model_of_other_tracks_is_refused() -> None:
    """Three tracks in the model, two in the data; two steps in the model, four in the data."""
    many = Model(**(GOOD | {"noise": np.ones((3, 1, 1))}))
    with pytest.raises(InvalidInput, match="z: expected any number of steps and 3 tracks"):
        kalman_filter(np.zeros((4, 2, 1)), many, np.zeros(2), np.eye(2))
    timed = Model(**(GOOD | {"noise": np.ones((2, 1, 1, 1))}))
    with pytest.raises(InvalidInput, match="z: expected 2 steps and any number of tracks"):
        kalman_filter(np.zeros((4, 2, 1)), timed, np.zeros(2), np.eye(2))


def test_inputs_are_not_changed() -> None:
    """What was given is as it was after a filter ran."""
    z, model, mean, covariance = case(2, 5, 2, 2, 1)
    before = [x.copy() for x in (z, mean, covariance, model.process, model.noise_root)]
    out = kalman_filter(z, model, mean, covariance)
    assert isinstance(out, Filtered)
    for x, y in zip((z, mean, covariance, model.process, model.noise_root), before, strict=True):
        np.testing.assert_array_equal(x, y)
