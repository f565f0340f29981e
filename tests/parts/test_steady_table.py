"""The table of steady states against the Riccati equation, and gains of young and mixed tracks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.composition import KalmanGain
from gdcb.composition.steady import SPACING, table
from gdcb.errors import InvalidInput
from gdcb.instances.kalman.plants import DEMAND, TARGET, Plant
from gdcb.kalman.riccati import gain, riccati
from tests.parts.builders import bytes_of, fixed, rng_of

LOW, HIGH = 0.05, 20.0
PLANTS = pytest.mark.parametrize("plant", [TARGET, DEMAND], ids=lambda one: one.name)
sizes = st.floats(LOW, HIGH)


def phi_of(plant: Plant, **more: Any) -> KalmanGain:
    """Return the gains of a plant: column 0 is the age, columns 1 to 3 how likely modes are."""
    k = plant.n_modes
    settings: dict[str, Any] = {
        "transition": (plant.transition,) * k,
        "measurement": (plant.measurement,) * k,
        "process": plant.process,
        "noise": (((plant.noise,),),) * k,
        "age": 0,
        "initial": plant.initial,
        "likely": (1, 2, 3),
        "low": LOW,
        "high": HIGH,
    }
    return KalmanGain(**settings | more)


def arms_of(phi: KalmanGain) -> Any:
    """Return as many arms as the composition has."""
    return ArmList(names=tuple("abcd"[: len(phi.process) + bool(phi.likely)])).build()


def solved(plant: Plant, q: Array, r: Array) -> Array:
    """Return P of sizes (N, K) by the Riccati equation: (N, K, 2, 2)."""
    f, h = np.array(plant.transition), np.array(plant.measurement)
    big_q = q[..., None, None] * np.array(plant.process)
    return riccati(f, h, big_q, plant.noise * r[..., None, None])


@PLANTS
def test_the_table_is_the_riccati_solution(plant: Plant) -> None:
    """To 1e-9 of the largest entry over the whole compact set, its corners and nodes included."""
    k = plant.n_modes
    parts = ((plant.transition,) * k, (plant.measurement,) * k, plant.process)
    steady = table(*parts, (((plant.noise,),),) * k, LOW / HIGH, HIGH / LOW)
    rng = rng_of(1)
    q, r = np.exp(rng.uniform(np.log(LOW), np.log(HIGH), (2, 400, k)))
    corners = np.array([(LOW, HIGH), (HIGH, LOW), (LOW, LOW), (HIGH, HIGH)])
    node = LOW / HIGH * np.exp(SPACING * np.array([0.0, 1.0, 1.5, 299.0]))
    q = np.concatenate((q, np.tile(corners[:, :1], k), np.tile(node[:, None], k)))
    r = np.concatenate((r, np.tile(corners[:, 1:], k), np.ones((4, k))))
    found, expected = steady.at(q, r), solved(plant, q, r)
    size = np.abs(expected).max(axis=(-1, -2))
    assert (np.abs(found - expected).max(axis=(-1, -2)) / size).max() < 1e-9


def test_the_table_serves_systems_of_other_shapes() -> None:
    """Two measurements of three states, six decades of ratios; to 1e-9."""
    rng = rng_of(2)
    f = rng.normal(size=(3, 3))
    f *= 1.02 / np.abs(np.linalg.eigvals(f)).max()
    h, half = rng.normal(size=(2, 3)), rng.normal(size=(3, 3))
    q, r = half @ half.T + 0.1 * np.eye(3), np.array([[1.0, 0.3], [0.3, 0.5]])

    def as_tuple(m: Array) -> Any:
        return (tuple(tuple(row) for row in m.tolist()),)

    steady = table(as_tuple(f), as_tuple(h), as_tuple(q), as_tuple(r), 1e-3, 1e3)
    scale = np.exp(rng.uniform(np.log(1e-3), np.log(1e3), 60))
    for one in (*scale, 1e-3, 1e3):
        expected = riccati(f, h, one * q, r)
        found = steady.at(np.array([one]), np.ones(1))[0]
        assert np.abs(found - expected).max() < 1e-9 * np.abs(expected).max()


@given(q=sizes, r=sizes, share=st.floats(0.0, 1.0), seed=st.integers(0, 100))
@fixed
def test_only_ratios_matter(q: float, r: float, share: float, seed: int) -> None:
    """K(cQ, cR) = K(Q, R) of settled tracks; with P₀ scaled too, of all."""
    phi = phi_of(TARGET)
    # c such that both stay within the bounds.
    c = min(HIGH / q, HIGH / r) ** share * max(LOW / q, LOW / r) ** (1.0 - share)
    p0 = float(np.clip(q, LOW / c, HIGH / c))
    x = np.array([[float(rng_of(seed).integers(0, 20)), 0.2, 0.5, 0.3]])
    delta = np.tile([[[q, r, p0]]], (1, 4, 1))
    one, other = (phi.compose(arms_of(phi), s * delta, x) for s in (1.0, c))
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_a_mode_that_is_not_detectable_has_no_steady_state() -> None:
    """Its P is NaN at every ratio; the mode beside it is what it is alone."""
    blind, seeing = ((1.0, 0.0), (0.0, 1.2)), ((0.5, 0.0), (0.0, 0.5))
    h, q, r = ((1.0, 0.0),), ((1.0, 0.0), (0.0, 1.0)), ((1.0,),)
    both = table((blind, seeing), (h, h), (q, q), (r, r), 0.1, 10.0)
    alone = table((seeing,), (h,), (q,), (r,), 0.1, 10.0)
    for ratio in (0.1, 0.7, 10.0):
        found = both.at(np.full(2, ratio), np.ones(2))
        assert np.isnan(found[0]).all()
        assert found[1].tobytes() == alone.at(np.full(1, ratio), np.ones(1))[0].tobytes()


@PLANTS
def test_young_tracks_follow_the_recursion(plant: Plant) -> None:
    """P of every age from P₀ on, step by step in Joseph form; the steady one from `settle` on."""
    phi, rng = phi_of(plant), rng_of(3)
    arms, settle = arms_of(phi), phi.settle
    f, h = np.array(plant.transition), np.array(plant.measurement)
    delta = np.exp(rng.uniform(np.log(LOW), np.log(HIGH), (settle + 4, 4, 3)))
    x = np.tile([0.0, 0.2, 0.5, 0.3], (settle + 4, 1))
    x[:, 0] = np.arange(settle + 4)
    _, _, found = phi.covariances(arms, delta, x)
    for i, mode in np.ndindex(settle + 4, plant.n_modes):
        q, r, p0 = delta[i, mode]
        big_q, big_r = q * np.array(plant.process[mode]), np.full((1, 1), r * plant.noise)
        p = p0 * np.array(plant.initial)
        for _ in range(i):
            k = gain(h, p, big_r)
            left = np.eye(2) - k @ h
            p = f @ (left @ p @ left.T + k @ big_r @ k.T) @ f.T + big_q
        if i >= settle:
            p = riccati(f, h, big_q, big_r)
        np.testing.assert_allclose(found[i, mode], p, rtol=1e-9, atol=1e-12)
        k = phi.compose(arms, delta[i : i + 1], x[i : i + 1])[0, mode]
        np.testing.assert_allclose(k, gain(h, p, big_r)[:, 0], rtol=1e-9, atol=1e-12)


@PLANTS
def test_the_arm_that_commits_to_no_mode_has_the_modes_mean(plant: Plant) -> None:
    """Q, R and P are means under `likely`, young or old; sure of a mode it is that mode."""
    phi, rng = phi_of(plant), rng_of(4)
    arms, n = arms_of(phi), 30
    delta = np.exp(rng.uniform(np.log(LOW), np.log(HIGH), (n, 4, 3)))
    x = np.column_stack((rng.integers(0, 20, n), rng.dirichlet(np.ones(3), n)))
    for part in phi.covariances(arms, delta, x):
        mean = np.einsum("nk,nkij->nij", x[:, 1:], part[:, :3])
        np.testing.assert_allclose(part[:, 3], mean, rtol=1e-12, atol=1e-15)
    x[:, 1:] = (0.0, 1.0, 0.0)
    composed = phi.compose(arms, delta, x)
    np.testing.assert_allclose(composed[:, 3], composed[:, 1], rtol=1e-12, atol=0)


def test_a_row_has_the_bits_that_it_has_alone() -> None:
    """Whatever ages are beside it, whole ones or not."""
    phi, rng = phi_of(TARGET), rng_of(5)
    arms, n = arms_of(phi), 40
    delta = np.exp(rng.uniform(np.log(LOW), np.log(HIGH), (n, 4, 3)))
    x = np.column_stack((rng.integers(0, 40, n) / 2.0, rng.dirichlet(np.ones(3), n)))
    whole = phi.compose(arms, delta, x)
    for i in range(n):
        alone = phi.compose(arms, delta[i : i + 1], x[i : i + 1])[0]
        assert bytes_of(alone) == bytes_of(whole[i])


def test_scales_beyond_the_bounds_are_those_at_the_bounds() -> None:
    phi = phi_of(TARGET)
    x = np.array([[30.0, 0.2, 0.5, 0.3]])
    beyond = np.tile([[[1e9, 1e-9, 1.0]]], (1, 4, 1))
    at = np.tile([[[HIGH, LOW, 1.0]]], (1, 4, 1))
    e = phi.compose(arms_of(phi), beyond, x)
    assert bytes_of(e) == bytes_of(phi.compose(arms_of(phi), at, x))
    assert np.isfinite(e).all()


def test_bounds_that_leave_one_ratio_only() -> None:
    """low = high: the table has one node, and it is the nominal steady state."""
    phi = phi_of(TARGET, low=1.0, high=1.0)
    x = np.array([[30.0, 0.2, 0.5, 0.3]])
    e = phi.compose(arms_of(phi), np.ones((1, 1, 1)), x)[0, :3]
    np.testing.assert_allclose(e, TARGET.gains[:, -1], rtol=1e-12)


@PLANTS
def test_nominal_gains_are_the_composition_s(plant: Plant) -> None:
    """The incumbent's table of gains by age is what the composition makes of δ = 1."""
    phi = phi_of(plant)
    ages = np.arange(plant.gains.shape[1], dtype=float)
    x = np.column_stack((ages, np.full((ages.size, 3), 1 / 3)))
    composed = phi.compose(arms_of(phi), np.ones((ages.size, 1, 1)), x)
    np.testing.assert_allclose(composed[:, :3].swapaxes(0, 1), plant.gains, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"likely": (1, 2)}, "composition.likely: expected 3 columns, one a mode, got 2"),
        ({"initial": ()}, r"composition.initial: expected P₀ of shape \(2, 2\)"),
        ({"initial": ((1.0,),)}, r"composition.initial: .* got \(1, 1\)"),
        ({"low": 0.0}, "composition.low: expected a number > 0"),
        ({"low": 2.0, "high": 1.0}, "composition.high: expected a number"),
        ({"settle": -1}, "composition.settle: expected a number"),
        ({"settle": np.nan}, "composition.settle"),
        ({"noise": (((1.0,),),) * 2}, "one F, H, Q and R a mode"),
    ],
)
def test_bad_settings_are_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        phi_of(TARGET, **more)


def test_modes_that_are_mixed_share_one_measurement() -> None:
    phi = phi_of(TARGET)
    other = (((1.0, 0.0),), ((1.0, 0.0),), ((0.5, 0.0),))
    with pytest.raises(InvalidInput, match="modes that are mixed share one H"):
        replace(phi, measurement=other)


def test_another_number_of_arms_is_refused() -> None:
    phi = phi_of(TARGET)
    three = ArmList(names=("a", "b", "c")).build()
    with pytest.raises(InvalidInput, match="expected 4 arms, the modes and one that mixes them"):
        phi.compose(three, np.ones((1, 1, 1)), np.zeros((1, 4)))
