"""Seeds of R, Q and P₀: by hand, on filtered tracks, with warnings, refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman.autocovariance import autocovariance_fit
from gdcb.kalman.filter import Filtered, Model, kalman_filter
from gdcb.kalman.riccati import gain as best_gain
from gdcb.kalman.riccati import riccati
from gdcb.kalman.seeding import Seeds, replaced, require_fixed, seed
from gdcb.kalman.steady import innovations_under
from tests.properties import examples

ONE = np.ones((1, 1))
PUSH = np.array([[0.5], [1.0]])
F, H = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])
BASIS = (PUSH @ PUSH.T)[None]
TRUTH = Model(F, H, 0.3 * BASIS[0], ONE)
BELIEVED = Model(F, H, 0.9 * BASIS[0], 0.5 * ONE)
START, PRIOR = np.array([[4.0, 0.5], [0.5, 2.0]]), np.array([[1.0, 0.3], [0.3, 0.5]])


def measured(rng: np.random.Generator, steps: int, n: int, start: Array = START) -> Array:
    """Draw measurements (T, N, 1) of tracks that start at P₀ around a mean of 0."""
    state = rng.multivariate_normal(np.zeros(2), start, n)
    z = np.empty((steps, n, 1))
    for t in range(steps):
        z[t] = state @ H.T + rng.normal(size=(n, 1))
        state = state @ F.T + 0.3**0.5 * rng.normal(size=(n, 1)) @ PUSH.T
    return z


def filtered(z: Array, model: Model = BELIEVED) -> Filtered:
    return kalman_filter(z, model, np.zeros(2), PRIOR)


def seeds_of(z: Array, **more: Any) -> Seeds:
    found = filtered(z)
    return seed(found.innovation, BELIEVED, found.gain, PRIOR, **({"basis": BASIS} | more))


# P₀ in place of the prior


@given(st.integers(0, 10**6))
@examples(12)
def test_only_the_measured_part_is_replaced(seed_: int) -> None:
    """HP̂Hᵀ = M, P̂ is a covariance, and the state given Hx has the law of the prior.

    With M = HAHᵀ, so that it is in the range of H also where rows of H repeat.
    """
    rng = np.random.default_rng(seed_)
    n, m = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    h = rng.normal(size=(m, n))
    h[-1] = h[0]
    halves = rng.normal(size=(2, n, n))
    prior, other = (half @ half.T + 0.1 * np.eye(n) for half in halves)
    found = replaced(prior, h, h @ other @ h.T)
    size = 1e-7 * np.linalg.cond(prior) * np.abs(other).max()
    np.testing.assert_allclose(h @ found @ h.T, h @ other @ h.T, atol=size)
    assert np.linalg.eigvalsh(found).min() > -size

    def given_seen(p: Array) -> tuple[Array, Array]:
        slope = p @ h.T @ np.linalg.pinv(h @ p @ h.T, rcond=1e-9, hermitian=True)
        return slope, p - slope @ h @ p

    for ours, theirs in zip(given_seen(found), given_seen(prior), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=size * 1e3)


def test_a_prior_without_cross_covariances_is_kept_where_nothing_is_seen() -> None:
    found = replaced(np.diag([1.0, 7.0]), H, np.array([[9.0]]))
    assert found.tolist() == [[9.0, 0.0], [0.0, 7.0]]


# On filtered tracks


def test_filtered_tracks_give_all_three_seeds() -> None:
    """A Kalman filter under wrong defaults from a wrong prior; entries within five errors."""
    z = measured(np.random.default_rng(0), 40, 3000)
    seeds = seeds_of(z)
    limit = replaced(PRIOR, H, H @ START @ H.T)
    for one, truth in (
        (seeds.noise, TRUTH.noise),
        (seeds.process, TRUTH.process),
        (seeds.initial, limit),
    ):
        assert one.standard_error is not None
        assert (np.abs(one.value - truth) < 5 * one.standard_error).all()
        assert one.leans_on.endswith(".")
    assert seeds.warnings == ()
    assert seeds.initial.value[0, 0] == pytest.approx(4.0, abs=0.7)
    assert "first innovations of 3,000 tracks" in seeds.initial.method
    assert "tracks start alike" in seeds.initial.leans_on
    assert "same over time" in seeds.noise.leans_on
    assert "basis" in seeds.process.leans_on


def test_the_first_innovations_are_what_counts() -> None:
    """P̂₀ = prior with Ŝ₁ − R̂ put in, by hand."""
    z = measured(np.random.default_rng(1), 40, 100)
    seeds = seeds_of(z)
    total = np.cov(z[0, :, 0])
    assert seeds.first is not None
    assert seeds.first.item() == pytest.approx(total)
    expected = replaced(PRIOR, H, total[None, None] - seeds.noise.value)
    np.testing.assert_allclose(seeds.initial.value, expected)


def test_fewer_errors_than_noise_leave_nothing() -> None:
    """Tracks that start exactly: (Ŝ₁ − R̂)₊ is 0 half of the time, never negative."""
    found = [
        seeds_of(measured(np.random.default_rng(i), 30, 40, 1e-12 * np.eye(2))).initial.value
        for i in range(12)
    ]
    values = np.array([p[0, 0] for p in found])
    assert (values > -1e-12).all()
    assert 1 <= (values < 1e-9).sum() <= 11
    assert all(np.linalg.eigvalsh(p).min() > -1e-12 for p in found)


def test_one_long_record_starts_in_its_steady_state() -> None:
    z = measured(np.random.default_rng(2), 3000, 1)
    found = filtered(z)
    seeds = seed(found.innovation, BELIEVED, found.gain, None, basis=BASIS)
    expected = riccati(F, H, seeds.process.value, seeds.noise.value)
    np.testing.assert_allclose(seeds.initial.value, expected)
    assert seeds.first is None
    assert seeds.initial.standard_error is None
    assert "steady state" in seeds.initial.leans_on
    assert seeds.noise.value.item() == pytest.approx(1.0, abs=0.3)
    with pytest.raises(InvalidInput, match="at least 20 tracks"):
        seed(found.innovation, BELIEVED, found.gain, PRIOR, basis=BASIS)


def test_innovations_of_another_gain_need_no_measurements() -> None:
    z = measured(np.random.default_rng(3), 30, 7)
    gains = [best_gain(H, riccati(F, H, m.process + 1e-9 * np.eye(2), m.noise), m.noise)
             for m in (BELIEVED, TRUTH)]  # fmt: skip
    ours, theirs = (
        kalman_filter(z, BELIEVED, np.zeros(2), PRIOR, gains=k).innovation for k in gains
    )
    found = innovations_under(ours, F, H, gains[0], gains[1])
    np.testing.assert_allclose(found, theirs, atol=1e-10)
    alone = innovations_under(ours[:, 3:4], F, H, gains[0], gains[1])
    assert np.array_equal(alone, found[:, 3:4])


# Warnings


def test_no_warning_where_nothing_is_wrong() -> None:
    """Two warnings at 0.001 in 40 histories: three or more once in 10,000."""
    said = [seeds_of(measured(np.random.default_rng(i), 60, 40)).warnings for i in range(40)]
    assert sum(map(len, said)) <= 2


def test_a_line_in_the_innovations_is_said() -> None:
    """A cycle of 7 steps that the model does not know."""
    rng = np.random.default_rng(5)
    phase = rng.uniform(0, 2 * np.pi, 60)
    z = measured(rng, 80, 60)
    z[..., 0] += 2.0 * np.sin(2 * np.pi * np.arange(80)[:, None] / 7 + phase)
    (said,) = seeds_of(z).warnings
    assert "not white under the fitted covariances" in said
    assert "periodic lines" in said


def test_a_prior_mean_that_is_off_is_said_and_not_counted() -> None:
    z = measured(np.random.default_rng(6), 40, 400)
    found = seeds_of(z + 0.0)
    off = seeds_of(z + 3.0)
    assert any("prior mean is off" in said for said in off.warnings)
    assert np.allclose(
        np.asarray(off.first), np.asarray(found.first)
    )  # a covariance is about its mean


# What is refused


def test_fixed_is_what_does_not_vary() -> None:
    r = np.ones((5, 3, 2, 2))
    assert require_fixed("noise", r).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    r[2, 1, 0, 1] = 1.001
    with pytest.raises(InvalidInput, match=r"noise: .* off by 0.001 at step 2, track 1"):
        require_fixed("noise", r)
    assert require_fixed("noise", r, after=3).shape == (2, 2)
    assert require_fixed("noise", r, tolerance=0.01).shape == (2, 2)
    with pytest.raises(InvalidInput, match="at track 1"):
        require_fixed("noise", r[2])
    r[2, 1, 0, 1] = np.nan
    with pytest.raises(InvalidInput, match="off by nan"):
        require_fixed("noise", r)
    with pytest.raises(InvalidInput, match="expected shape"):
        require_fixed("noise", np.ones(3))


def _varied(part: Array, steps: int) -> Array:
    every = np.repeat(part[None, None], steps, axis=0)
    every[steps // 2] *= 1.1
    return every


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": Model(F, H, _varied(BASIS[0], 40), ONE)}, "process: expected one that is fixed"),
        ({"model": Model(F, H, BASIS[0], _varied(ONE, 40))}, "noise: expected one that is fixed"),
        ({"model": Model(_varied(F, 40), H, BASIS[0], ONE)}, "transition: expected one"),
        ({"model": Model(F, _varied(H, 40), BASIS[0], ONE)}, "measurement: expected one"),
        ({"gain": _varied(np.array([[0.6], [0.2]]), 40)}, "gain: expected one that is fixed"),
        ({"gain": np.zeros((2, 1))}, "stable"),
        ({"gain": np.array([[0.6], [0.2]]), "burn_in": 39}, "steps after the burn-in"),
        ({"innovation": np.full((40, 30, 1), np.nan)}, "finite numbers"),
        ({"innovation": np.ones((40, 30, 2))}, "shape"),
        ({"prior": np.eye(3)}, r"prior: expected a finite matrix \(2, 2\)"),
        ({"prior": np.array([[1.0, 2.0], [0.0, 1.0]])}, "prior: expected a symmetric"),
        ({"prior": np.diag([1.0, 0.0])}, "prior: expected a positive definite"),
        ({"prior": np.diag([1.0, np.inf])}, "prior: expected a finite"),
        ({"innovation": np.random.default_rng(0).normal(size=(40, 19, 1))}, "at least 20 tracks"),
    ],
)
def test_bad_histories_are_named(change: dict[str, Any], said: str) -> None:
    good = {
        "innovation": np.random.default_rng(0).normal(size=(40, 30, 1)),
        "model": BELIEVED,
        "gain": np.array([[0.6], [0.2]]),
        "prior": PRIOR,
        "basis": BASIS,
    }
    asked = good | change
    kept = np.array(asked["innovation"])
    with pytest.raises(InvalidInput, match=said):
        seed(**asked)
    assert np.array_equal(asked["innovation"], kept, equal_nan=True)


def test_a_gain_may_settle_before_the_burn_in_ends_and_not_after() -> None:
    z = measured(np.random.default_rng(7), 40, 50)
    found = filtered(z)
    assert not np.allclose(found.gain[0], found.gain[-1])
    seed(found.innovation, BELIEVED, found.gain, PRIOR, basis=BASIS)
    with pytest.raises(InvalidInput, match=r"gain: .* at step 0, track 0"):
        seed(found.innovation, BELIEVED, found.gain, PRIOR, basis=BASIS, burn_in=0)


# Wrong measurements, and diagnostics that fail


def drive(seed_: int, jump: float, stays: bool = False) -> tuple[Array, Array]:
    """Return 720 fixes of one track, R = 1, Q = 0.3·BASIS, off by `jump` at step 300 or from there.

    Innovations and gain.
    """
    rng = np.random.default_rng(seed_)
    z = measured(rng, 720, 1, 0.01 * np.eye(2))
    z[300 : 720 if stays else 301] += jump
    found = filtered(z)
    return found.innovation, found.gain


def sizes(found: Seeds) -> Array:
    return np.array([found.process.value[1, 1], found.noise.value.item()])


@pytest.mark.parametrize(("kind", "jump"), [("measurement", 12.0), ("state", 30.0)])
def test_one_jump_is_named_and_left_out(kind: str, jump: float) -> None:
    """A fix that is off enlarges R̂, a jump that stays q̂ by 1.7 and more; left out, neither."""
    jumped = drive(4, jump, kind == "state")
    clean, spoilt, robust = (
        seed(nu, BELIEVED, gain, None, basis=BASIS, leave_out_outliers=leaves)
        for nu, gain, leaves in ((*drive(4, 0.0), True), (*jumped, False), (*jumped, True))
    )
    assert clean.outliers == ()
    assert clean.warnings == ()
    at = ("state", "measurement").index(kind)
    assert sizes(spoilt)[at] > (1.7, 1.15)[at] * sizes(clean)[at]
    np.testing.assert_allclose(sizes(robust), sizes(clean), rtol=0.05)
    (one,) = robust.outliers
    assert (one.kind, one.step, one.track) == (kind, 300, 0)
    assert one.size.item() == pytest.approx(jump, abs=4.0)
    (said,) = robust.warnings
    assert said.startswith("one jump is too large for Gaussian noise, among 7")
    assert f"step 300 {'is' if kind == 'measurement' else 'on are'} off by" in said
    assert "wrong form" not in said


def test_a_short_record_may_have_three_outliers() -> None:
    """Two wrong fixes of 100 are more than 2 %, and still named and left out."""
    z = measured(np.random.default_rng(4), 100, 1, 0.01 * np.eye(2))
    clean = seeded(z)
    z[[50, 70]] += 16.0
    spoilt = seeded(z)
    assert sorted(one.step for one in spoilt.outliers) == [50, 70]
    np.testing.assert_allclose(sizes(spoilt), sizes(clean), rtol=0.25)


def seeded(z: Array, model: Model = BELIEVED) -> Seeds:
    """Seed from one record filtered by the steady gain of a model."""
    gain = steady_gain(model)
    found = kalman_filter(z, model, np.zeros(2), np.eye(2), gains=gain)
    return seed(found.innovation, model, gain, None, basis=BASIS)


def steady_gain(model: Model) -> Array:
    p = riccati(model.transition, model.measurement, model.process, model.noise)
    return best_gain(model.measurement, p, model.noise)


def test_a_filter_that_is_far_off_hides_no_outlier() -> None:
    """R is believed 1,000 times too large: a fix that is 16 off is found in each of six records.

    Among the innovations of that filter it does not stand out; it does under the gain that fits.
    """
    model = Model(BELIEVED.transition, BELIEVED.measurement, BELIEVED.process, 1000.0 * np.eye(1))
    for seed_ in range(6):
        z = measured(np.random.default_rng([11, seed_]), 720, 1, 0.01 * np.eye(2))
        clean = seeded(z, model)
        z[360] += 16.0
        spoilt = seeded(z, model)
        assert clean.outliers == ()
        assert [(one.kind, one.step) for one in spoilt.outliers] == [("measurement", 360)]
        np.testing.assert_allclose(sizes(spoilt), sizes(clean), rtol=0.1)


@pytest.mark.parametrize("off", [1e4, 1e8, 1e12])
def test_a_huge_jump_is_one_jump(off: float) -> None:
    """Its answer is taken off until nothing is left of it: no jumps are made up after it."""
    z = measured(np.random.default_rng(4), 720, 1, 0.01 * np.eye(2))
    clean = seeded(z)
    z[300] += off
    spoilt = seeded(z)
    assert [(one.kind, one.step) for one in spoilt.outliers] == [("measurement", 300)]
    np.testing.assert_allclose(sizes(spoilt), sizes(clean), rtol=0.05)


def test_impossible_innovations_and_burn_ins_are_refused() -> None:
    nu, gain = drive(4, 0.0)
    with pytest.raises(InvalidInput, match="burn_in: expected a whole number >= 0, got nan"):
        seed(nu, BELIEVED, gain, None, basis=BASIS, burn_in=np.nan)  # type: ignore[arg-type]
    nu[300] = 1e150
    with pytest.raises(InvalidInput, match=r"innovation: expected numbers within ±1e\+60"):
        seed(nu, BELIEVED, gain, None, basis=BASIS)


def test_what_comes_in_runs_is_no_outlier() -> None:
    """One fix in twenty is far off: that is another law, nothing is left out, and it is said."""
    rng = np.random.default_rng(5)
    z = measured(rng, 720, 1, 0.01 * np.eye(2))
    z[200:] += np.where(rng.random((520, 1, 1)) < 0.05, 30.0, 0.0)
    found = filtered(z)
    seeds = seed(found.innovation, BELIEVED, found.gain, None, basis=BASIS)
    assert seeds.outliers == ()
    assert "All were kept" in seeds.warnings[0]


def test_clean_histories_lose_nothing() -> None:
    """60 histories of 200 steps and 12 tracks: an outlier is found in none.

    One in a thousand would have one, so a false alarm comes in 6 % of all seeds; these have none.
    """
    found = [filtered(measured(np.random.default_rng(s), 200, 12)) for s in range(60)]
    seeds = [seed(one.innovation, BELIEVED, one.gain, None, basis=BASIS) for one in found]
    assert [len(one.outliers) for one in seeds] == [0] * 60


def test_a_diagnostic_never_stops_an_estimate() -> None:
    """Three states, one record of 300 steps: the gain of the fitted covariances forgets too slowly.

    It has a spectral radius of 0.99995, so that whiteness under it cannot be tested; the seeds are
    those of the fit alone.
    """
    f = np.array([[1.0, 1.0, 0.5], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    h, basis = np.array([[1.0, 0.0, 0.0]]), np.eye(3)[:, :, None] * np.eye(3)[:, None]
    rng = np.random.default_rng(1)
    push = np.sqrt(10.0 ** rng.uniform(-4, 0, 3))
    state, z = np.zeros((1, 3)), np.empty((300, 1, 1))
    for t in range(300):
        z[t] = state @ h.T + rng.normal(size=(1, 1))
        state = state @ f.T + rng.normal(size=(1, 3)) * push
    believed = Model(f, h, 0.1 * np.eye(3), ONE)
    p = riccati(f, h, believed.process, ONE)
    gain = best_gain(h, p, ONE)
    nu = kalman_filter(z, believed, np.zeros(3), p).innovation
    seeds = seed(nu, believed, gain, None, basis=basis)
    fit = autocovariance_fit(nu, f, h, gain, basis=basis)
    assert seeds.noise.value == pytest.approx(fit.noise)
    assert seeds.process.value == pytest.approx(fit.process)
    assert any("not tested, under the fitted covariances: gain" in one for one in seeds.warnings)


def test_no_measurement_noise_is_said() -> None:
    """R̂ at its bound: a walk that is measured exactly."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 30, 1)).cumsum(axis=0)
    believed = Model(ONE, ONE, ONE, ONE)
    gain = best_gain(ONE, riccati(ONE, ONE, ONE, ONE), ONE)
    found = kalman_filter(z, believed, np.zeros(1), ONE, gains=gain)
    seeds = seed(found.innovation, believed, gain, None)
    assert seeds.noise.value.item() < 1e-3
    assert any("the fitted R is as good as 0" in said for said in seeds.warnings)
