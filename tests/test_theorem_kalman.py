"""The Kalman section: the tracks it is judged on, and a small run of the check."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from gdcb.kalman.algorithm_one import algorithm_one
from gdcb.kalman.filter import kalman_filter
from gdcb.theorems import (
    kalman,
    kalman_lemma,
    kalman_loop,
    kalman_seeding,
    kalman_spectrum,
    kalman_windows,
)
from gdcb.theorems.kalman_seeding import Sizes
from gdcb.theorems.kalman_tracks import World, deficient, full_rank, innovations, scalar

SMALL = kalman.Settings(
    systems=300,
    rows=2000,
    sizes=Sizes(tracks=(50, 400, 3000), replicates=(16, 8, 4), covered=40, few=120),
    windows=4000,
    record=8000,
    split=40,
    lines=None,  # these two have tests of their own
    loop=None,
)
WORLDS = (scalar(), full_rank(), deficient())


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_drawn_innovations_are_those_of_the_filter(world: World) -> None:
    """The same draws as a state and measurements, filtered: ν is the same to 1e-9."""
    steps, n_tracks = 12, 5
    gains = world.gains(steps)
    nu = innovations(np.random.default_rng(4), world, gains, n_tracks)
    rng = np.random.default_rng(4)
    n, m = gains.shape[-2:]
    roots = [
        vectors * np.sqrt(np.maximum(values, 0.0))
        for values, vectors in map(np.linalg.eigh, (world.start, world.process, world.noise))
    ]
    state, z = rng.standard_normal((n_tracks, n)) @ roots[0].T, np.empty((steps, n_tracks, m))
    for t in range(steps):
        z[t] = rng.standard_normal((n_tracks, m)) @ roots[2].T + state @ world.h.T
        state = state @ world.f.T + rng.standard_normal((n_tracks, n)) @ roots[1].T
    found = kalman_filter(z, world.believed, np.zeros(n), world.prior)
    np.testing.assert_allclose(nu, found.innovation, atol=1e-9)
    np.testing.assert_allclose(np.broadcast_to(gains, found.gain.shape), found.gain)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_the_true_errors_are_those_of_drawn_tracks(world: World) -> None:
    """Var ν_t = HΣ_tHᵀ + R at every step, 4,000 tracks, within five standard errors."""
    gains = world.gains(10)
    nu = innovations(np.random.default_rng(5), world, gains, 4000)
    found = np.einsum("tna,tnb->tab", nu, nu) / 4000
    said = world.h @ world.errors(10) @ world.h.T + world.noise
    size = np.einsum("taa->ta", said)
    error = np.sqrt((size[:, :, None] * size[:, None, :] + said**2) / 4000)
    assert (np.abs(found - said) < 5 * error).all()
    assert not np.allclose(said[0], said[-1], rtol=0.1)  # the start is forgotten


def test_the_papers_limit_falls_as_the_truth_grows() -> None:
    """P̂₀ → P_prior + Σ∞ − Σ_cal of the leading quarter, within five standard errors."""
    limits = []
    for start in (2.0, 4.0):
        world = scalar(start=start, prior=1.5)
        gains, spreads = world.gains(28), world.errors(28)[:, 0, 0]
        nu = innovations(np.random.default_rng(11), world, gains, 20_000)
        told = algorithm_one(nu, world.h, world.prior, world.believed.noise)
        limit = 1.5 + spreads[7:].mean() - spreads[:7].mean()
        each = (nu[7:] ** 2).mean(axis=0) - (nu[:7] ** 2).mean(axis=0)
        assert abs(told.initial.item() - limit) < 5 * each.std() / 20_000**0.5
        limits.append(told.initial.item())
    assert limits[1] < limits[0] - 0.1


def test_slopes_by_hand() -> None:
    """Errors 1, ½, ¼ at 1, 4, 16 tracks fall as N^−½."""
    rows = [
        {"tracks": 4**i, "replicates": 9, "repaired": {"rms": 0.5**i, "error": 0.05 * 0.5**i}}
        for i in range(3)
    ]
    slope, error = kalman_seeding._slope(rows, "repaired")
    assert slope == pytest.approx(-0.5)
    assert error == pytest.approx(0.05 / (2 * np.log(4) ** 2) ** 0.5)


def test_the_bound_fails_and_its_repair_does_not() -> None:
    """With one state the bound is exact; the count over all shapes is about a fifth."""
    found = kalman_lemma.sensitivity(np.random.default_rng(6), 500)
    assert found["rows"][0]["violated"] == 0
    assert found["rows"][0]["worst"] == pytest.approx(1.0)
    assert 0.1 < found["violated"] / found["systems"] < 0.4
    assert all(row["repaired_worst"] <= 1.0 + 1e-9 for row in found["rows"])


def test_a_small_check() -> None:
    """All repaired claims hold; of the paper's, two; and the answer is JSON."""
    said: list[str] = []
    answer = kalman.check(seed=5, progress=said.append, settings=SMALL)
    json.dumps(answer, allow_nan=False)
    assert answer["repaired_holds"], answer["verdict"]
    assert not answer["paper_holds"]
    held = [one["claim"] for one in answer["claims"] if one["form"] == "paper" and one["holds"]]
    assert any("biased in finite samples" in claim for claim in held)
    assert any("late window" in claim for claim in held)
    failed = [one["claim"] for one in answer["claims"] if not one["holds"]]
    assert any("Algorithm 1" in claim for claim in failed)
    assert any("keeps the prior" in claim for claim in failed)
    assert "P₀ from few tracks" in said
    blind = answer["tracks"]["worlds"][1]
    assert blind["paper_blind"] == 0.0
    assert all(row["paper"]["rms"] > 0.7 for row in blind["rows"])
    for title, table in kalman.tables(answer).items():
        assert table["rows"], title
        assert all(len(row) == len(table["columns"]) for row in table["rows"])


def test_a_sample_used_twice_returns_the_prior() -> None:
    found = kalman_windows.split(np.random.default_rng(7), 2000, 2)
    for row in found["records"]:
        if not row["is_floored"]:
            assert row["same"] == pytest.approx(row["prior"], rel=1e-9)


def test_the_same_seed_gives_the_same_answer() -> None:
    tiny = replace(
        SMALL,
        systems=50,
        sizes=Sizes((50, 100), (4, 4), covered=4, few=4),
        windows=100,
        record=500,
        split=4,
        lines=kalman_spectrum.Sizes((250,), (0.0, 1.0), replicates=2, alarms=1),
        loop=kalman_loop.Sizes(steps=20, replicates=4, training=2, sweeps=1),
    )
    first = kalman.check(1, settings=tiny)
    assert first == kalman.check(1, settings=tiny)
    assert len(first["notes"]) == 2
    shown = kalman.tables(first)
    assert "lines found where there are none" in shown
    assert "closed loop, mean squared errors" in shown


@pytest.mark.soak
def test_seeds_converge_over_many_replicates() -> None:
    """Five times the replicates, and 100,000 tracks: the rate and the coverage still hold."""
    large = Sizes((50, 200, 800, 3200, 20_000, 100_000), (400, 200, 100, 40, 20, 6), 1000, 2000)
    rng = np.random.default_rng(8)
    tracks = kalman_seeding.consistency(rng, large)
    checks = kalman_seeding.checks(tracks, kalman_seeding.few_tracks(rng, large))
    assert all(check.holds for check in checks if check.form == "repaired"), checks
    assert all(world["slope_error"] < 0.025 for world in tracks["worlds"])


@pytest.mark.soak
def test_a_split_costs_over_many_replicates() -> None:
    """The correlation of R̂ and Ŝ₁ is below 0.1, and a split doubles the squared error."""
    found = kalman_windows.split(np.random.default_rng(9), 1_000_000, 2000)
    assert abs(found["correlation"]) < 0.1
    assert found["mse_ratio"] == pytest.approx(2.0, abs=4 * found["mse_ratio_error"])
    checks = kalman_windows.checks(
        kalman_windows.windows(np.random.default_rng(10), 200_000), found
    )
    assert all(check.holds for check in checks if check.form == "repaired"), checks
