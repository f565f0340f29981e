"""The normal posterior: rank-one steps against the exact solution, alone and among others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb.arrays import Array
from gdcb.posterior import REFRESH, NormalPosterior, form, n_packed, outer, pack, unpack
from gdcb.records import to_bytes
from tests.parts.builders import fixed, rng_of


def prior(owners: int, d: int, sd: float = 1.0) -> NormalPosterior:
    return NormalPosterior.prior((owners,), np.zeros(d), np.full(d, sd))


def exact(phi: Array, y: Array, strength: Array, sd: float = 1.0) -> tuple[Array, Array]:
    """Solve the normal equations in one go."""
    a = np.eye(phi.shape[1]) / sd**2 + phi.T @ (strength[:, None] * phi)
    return np.linalg.solve(a, phi.T @ (strength * y)), np.linalg.inv(a)


def rows(seed: int, n: int, d: int) -> tuple[Array, Array, Array]:
    rng = rng_of(seed)
    return rng.normal(size=(n, d)), rng.normal(size=n), rng.uniform(0.2, 3.0, n)


def test_packing_is_undone_by_unpacking() -> None:
    whole = np.array([[2.0, 1.0, 5.0], [1.0, 3.0, 4.0], [5.0, 4.0, 7.0]])
    packed = pack(whole)
    assert packed.tolist() == [2.0, 1.0, 5.0, 3.0, 4.0, 7.0]
    assert packed.size == n_packed(3)
    assert (unpack(packed, 3) == whole).all()
    phi = np.array([[1.0, -2.0, 0.5]])
    assert unpack(outer(phi), 3)[0] == pytest.approx(np.outer(phi[0], phi[0]))
    assert form(phi)[0] @ packed == pytest.approx(phi[0] @ whole @ phi[0])


@fixed
@given(seed=st.integers(0, 10**6), d=st.integers(1, 6), n=st.integers(1, 90))
def test_one_by_one_and_all_at_once_are_the_exact_solution(seed: int, d: int, n: int) -> None:
    phi, y, strength = rows(seed, n, d)
    loop, batch = prior(1, d, 2.0), prior(1, d, 2.0)
    zero = np.zeros(n, dtype=np.int64)
    for i in range(n):
        loop.observe(zero[:1], phi[i : i + 1], y[i : i + 1], strength[i : i + 1])
    batch.observe(zero, phi, y, strength)
    mean, covariance = exact(phi, y, strength, 2.0)
    for found in (loop, batch):
        assert found.mean[0] == pytest.approx(mean, rel=1e-8, abs=1e-9)
        assert unpack(found.covariance, d)[0] == pytest.approx(covariance, rel=1e-8, abs=1e-9)


def test_an_owner_does_not_feel_the_others() -> None:
    """With 1, 3 and 80 rows in one call, each owner's bytes are those of a call of its own."""
    owner = np.repeat([0, 1, 2], [1, 3, 80])
    order = rng_of(1).permutation(owner.size)
    phi, y, strength = rows(2, owner.size, 4)
    together = prior(3, 4)
    together.observe(owner[order], phi[order], y[order], strength[order])
    for one in range(3):
        alone, mine = prior(3, 4), order[owner[order] == one]
        alone.observe(owner[mine], phi[mine], y[mine], strength[mine])
        for name in ("precision", "shift", "covariance", "mean", "steps"):
            kept = getattr(together, name)[one], getattr(alone, name)[one]
            assert kept[0].tobytes() == kept[1].tobytes(), name


def test_the_covariance_is_solved_for_afresh_after_many_steps() -> None:
    posterior, zero = prior(1, 3), np.zeros(1, dtype=np.int64)
    phi, y, strength = rows(3, REFRESH + 5, 3)
    for i in range(phi.shape[0]):
        posterior.observe(zero, phi[i : i + 1], y[i : i + 1], strength[i : i + 1])
    assert posterior.steps.tolist() == [5]


def test_twenty_thousand_nearly_collinear_steps_stay_at_the_exact_solution() -> None:
    """Two features that differ by 10⁻³: the precision's condition number passes 10⁶."""
    rng, n = rng_of(4), 20_000
    first = rng.normal(size=n)
    phi = np.stack((np.ones(n), first, first + 1e-3 * rng.normal(size=n)), axis=1)
    y, strength = phi @ [1.0, 2.0, -1.0] + rng.normal(size=n), np.ones(n)
    posterior, zero = prior(1, 3), np.zeros(1, dtype=np.int64)
    for i in range(n):
        posterior.observe(zero, phi[i : i + 1], y[i : i + 1], strength[i : i + 1])
    mean, covariance = exact(phi, y, strength)
    assert posterior.mean[0] == pytest.approx(mean, rel=1e-6)
    found = unpack(posterior.covariance, 3)[0]
    assert found == pytest.approx(covariance, rel=1e-6)
    assert (np.linalg.eigvalsh(found) > 0).all()


def test_decay_and_merge_work_on_the_evidence_and_keep_the_prior() -> None:
    phi, y, strength = rows(5, 40, 3)
    zero = np.zeros(40, dtype=np.int64)
    whole, halves = prior(1, 3), [prior(1, 3), prior(1, 3)]
    whole.observe(zero, phi, y, strength)
    for half, part in zip(halves, (slice(0, 15), slice(15, 40)), strict=True):
        half.observe(zero[part], phi[part], y[part], strength[part])
    halves[0].merge(halves[1], prior(1, 3))
    assert halves[0].mean == pytest.approx(whole.mean, rel=1e-10)
    whole.decay(zero[:1], 0.25, prior(1, 3))
    mean, covariance = exact(phi, y, 0.25 * strength)
    assert whole.mean[0] == pytest.approx(mean, rel=1e-10)
    assert unpack(whole.covariance, 3)[0] == pytest.approx(covariance, rel=1e-10)
    whole.decay(zero[:1], 0.0, prior(1, 3))
    assert whole.mean[0] == pytest.approx(np.zeros(3), abs=1e-15)
    assert to_bytes(whole) != to_bytes(prior(2, 3))
