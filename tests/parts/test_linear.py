"""LinTS and LinUCB with weights per arm: hand arithmetic, references, rows by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import Ridge

from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.bandits import LinearThompson, LinearUCB
from gdcb.bandits.linear import _MOST_ROWS
from gdcb.errors import GdcbError, InvalidInput, UnknownField
from gdcb.parts import bind
from gdcb.posterior import NormalPosterior, unpack
from gdcb.records import Evidence, Setting, copy, to_bytes
from tests.parts.builders import rng_of, stream

ARMS = ArmList(names=("a", "b", "c")).build()
FEATURES = (0, 1)
BANDIT = LinearThompson(features=FEATURES, prior_sd=2.0, noise=0.5)
UCB = LinearUCB(features=FEATURES, prior_sd=2.0, noise=0.5, width=1.7)


def seen(seed: int, n: int, cells: int = 2, scaled: bool = False) -> Evidence:
    rng = rng_of(seed)
    x = rng.normal(size=(n, 2))
    arm = rng.integers(0, 3, n)
    y = x[:, 0] * (arm - 1) + rng.normal(size=n)
    scale = rng.uniform(0.5, 2.0, n) if scaled else None
    cell, weight = rng.integers(0, cells, n), rng.uniform(0.1, 2.0, n)
    return Evidence(cell, arm, np.zeros((n, 1)), y, scale, weight, x)


def take(evidence: Evidence, index: Any) -> Evidence:
    fields = ("cell", "arm", "coord", "y", "scale", "weight", "x")
    columns: Any = [getattr(evidence, name) for name in fields]
    taken: Any = [None if part is None else part[index] for part in columns]
    return Evidence(*taken)


def test_an_arm_is_the_ridge_regression_of_its_own_rows() -> None:
    """α = noise²/prior_sd², weights w·s² on y/s: the posterior mean to 1e-8."""
    evidence = seen(1, 200, cells=1, scaled=True)
    state = BANDIT.init(np.zeros(1, dtype=int), ARMS)
    BANDIT.update(state, evidence)
    assert evidence.x is not None
    assert evidence.scale is not None
    phi = np.concatenate((np.ones((200, 1)), evidence.x), axis=1)
    for arm in range(3):
        own = evidence.arm == arm
        ridge = Ridge(alpha=0.25 / 4.0, fit_intercept=False, tol=1e-12)
        s = evidence.scale[own]
        ridge.fit(phi[own], evidence.y[own] / s, sample_weight=evidence.weight[own] * s**2)
        assert state.weights.mean[0, arm] == pytest.approx(ridge.coef_, rel=1e-8)


def test_the_variance_is_that_of_the_normal_equations() -> None:
    evidence = seen(2, 60, cells=1)
    state = BANDIT.init(np.zeros(1, dtype=int), ARMS)
    BANDIT.update(state, evidence)
    x = rng_of(3).normal(size=(4, 2))
    law = BANDIT.marginals(state, Setting(np.zeros(4, dtype=int), x))
    assert evidence.x is not None
    for arm in range(3):
        own = evidence.arm == arm
        rows = np.concatenate((np.ones((int(own.sum()), 1)), evidence.x[own]), axis=1)
        a = np.eye(3) / 4.0 + (rows.T * evidence.weight[own]) @ rows / 0.25
        phi = np.concatenate((np.ones((4, 1)), x), axis=1)
        sd = np.sqrt(np.einsum("ni,ij,nj->n", phi, np.linalg.inv(a), phi))
        assert law.parameters[1][:, arm] == pytest.approx(sd, rel=1e-10)


def test_a_batch_is_a_loop_and_order_does_not_matter() -> None:
    evidence = seen(4, 150, scaled=True)
    states = [BANDIT.init(np.arange(2), ARMS) for _ in range(3)]
    BANDIT.update(states[0], evidence)
    for i in range(150):
        BANDIT.update(states[1], take(evidence, np.array([i])))
    BANDIT.update(states[2], take(evidence, rng_of(5).permutation(150)))
    for other in states[1:]:
        assert other.weights.mean == pytest.approx(states[0].weights.mean, rel=1e-9)
        assert other.weights.covariance == pytest.approx(
            states[0].weights.covariance, rel=1e-9, abs=1e-14
        )


def test_draws_follow_the_law_of_the_weights() -> None:
    """One number an arm has the law of φᵀw with w drawn; Kolmogorov–Smirnov, false alarm 1e-4."""
    state = BANDIT.init(np.zeros(1, dtype=int), ARMS)
    BANDIT.update(state, seen(6, 30, cells=1))
    x = np.tile([[0.7, -1.2]], (4000, 1))
    at = Setting(np.zeros(4000, dtype=int), x)
    draws = BANDIT.draw(stream(7), state, at)
    mean, sd = BANDIT.marginals(state, Setting(at.cell[:1], x[:1])).parameters
    for arm in range(3):
        law = stats.norm(mean[0, arm], sd[0, arm])
        assert stats.kstest(draws[:, arm], law.cdf).pvalue > 1e-4
    correlation = np.corrcoef(draws.T) - np.eye(3)
    assert np.abs(correlation).max() < 4.5 / np.sqrt(4000)


def test_an_index_is_the_mean_and_so_many_deviations() -> None:
    state = UCB.init(np.zeros(1, dtype=int), ARMS)
    UCB.update(state, seen(6, 30, cells=1))
    at = Setting(np.zeros(3, dtype=int), rng_of(8).normal(size=(3, 2)))
    thompson = LinearThompson(features=FEATURES, prior_sd=2.0, noise=0.5)
    mean, sd = thompson.marginals(state, at).parameters
    assert UCB.draw(stream(1), state, at) == pytest.approx(mean + 1.7 * sd, rel=1e-12)
    assert UCB.marginals(state, at).kind == "point"


@pytest.mark.parametrize("cells", [1, 50], ids=["one cell", "a cell each"])
def test_a_row_does_not_feel_the_others(cells: int) -> None:
    """Same bytes alone, among rows of its own cell and among rows of other cells."""
    n = 50
    state = BANDIT.init(np.arange(cells), ARMS)
    BANDIT.update(state, seen(9, 400, cells=cells))
    x = rng_of(10).normal(size=(n, 2))
    cell = np.arange(n) % cells
    mean, variance = BANDIT._predict(state, Setting(cell, x))
    for i in range(n):
        one = BANDIT._predict(state, Setting(cell[i : i + 1], x[i : i + 1]))
        assert (one[0].tobytes(), one[1].tobytes()) == (mean[i].tobytes(), variance[i].tobytes())
    mixed = np.array([0, cells - 1, 0])
    some = BANDIT._predict(state, Setting(mixed, x[[0, cells - 1, 0]]))
    assert some[0][0].tobytes() == mean[0].tobytes()


def test_many_rows_go_in_pieces() -> None:
    state = BANDIT.init(np.zeros(1, dtype=int), ARMS)
    BANDIT.update(state, seen(11, 30, cells=1))
    n = _MOST_ROWS + 7
    at = Setting(np.zeros(n, dtype=int), rng_of(12).normal(size=(n, 2)))
    mean, _ = BANDIT._predict(state, at)
    assert at.x is not None
    last = BANDIT._predict(state, Setting(at.cell[-3:], at.x[-3:]))[0]
    assert mean[-3:].tobytes() == last.tobytes()


def test_rows_credited_to_no_arm_teach_nothing() -> None:
    state = BANDIT.init(np.arange(2), ARMS)
    before = to_bytes(state)
    evidence = seen(13, 5)
    evidence.arm[:] = -1
    BANDIT.update(state, evidence)
    assert to_bytes(state) == before


def test_it_finds_the_arm_that_the_context_makes_best() -> None:
    """300 rows, arm a for x₀ < 0 and c for x₀ > 0; noise-free share of right picks above 0.9."""
    state = BANDIT.init(np.zeros(1, dtype=int), ARMS)
    BANDIT.update(state, seen(14, 600, cells=1))
    x = rng_of(15).normal(size=(500, 2))
    clear = np.abs(x[:, 0]) > 0.3
    pick = BANDIT.draw(stream(2), state, Setting(np.zeros(500, dtype=int), x)).argmax(axis=1)
    right = np.where(x[:, 0] > 0, 2, 0)
    assert (pick == right)[clear].mean() > 0.9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise": 0.0}, r"bandit.noise: expected a number > 0, got 0"),
        ({"prior_sd": float("nan")}, r"bandit.prior_sd: expected a finite number"),
        ({"features": "x"}, r"bandit.features: expected a tuple of names, got 'x'"),
        ({"width": -1.0}, r"bandit.width: expected a number >= 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        LinearThompson(**settings)


def test_without_a_context_it_refuses_and_changes_nothing() -> None:
    state = BANDIT.init(np.zeros(1, dtype=int), ARMS)
    before = to_bytes(state)
    evidence = seen(16, 3, cells=1)
    evidence.x = None
    with pytest.raises(InvalidInput, match="LinearThompson: reads the context"):
        BANDIT.update(state, evidence)
    assert to_bytes(state) == before
    with pytest.raises(InvalidInput, match="reads the context"):
        BANDIT.draw(stream(1), state, Setting(np.zeros(1, dtype=int)))


def test_names_are_bound_and_a_star_is_every_column() -> None:
    columns = {"age": [0], "kind": [1, 2]}
    assert bind(LinearThompson(), columns).features == (0, 1, 2)
    assert bind(LinearThompson(features=("kind",)), columns).features == (1, 2)
    with pytest.raises(UnknownField, match="no context column 'height'"):
        bind(LinearThompson(features=("height",)), columns)
    unbound: Any = LinearThompson(features=("age",))
    state = unbound.init(np.zeros(1, dtype=int), ARMS)
    with pytest.raises(GdcbError, match="not bound"):
        unbound.draw(stream(1), copy(state), Setting(np.zeros(1, dtype=int), np.zeros((1, 1))))


def test_a_damaged_precision_is_named() -> None:
    state = BANDIT.init(np.zeros(1, dtype=int), ARMS)
    damaged: Array = state.weights.precision
    damaged[0, 0] = -1.0
    with pytest.raises(InvalidInput, match="not positive definite"):
        BANDIT.decay(state, 1.0, np.zeros(1, dtype=int))


def _observed(groups: Array, wide: tuple[Array, Array, Array, Array]) -> NormalPosterior:
    """Return five posteriors of 40 weights after rows that come in batches."""
    owner, phi, y, strength = wide
    known = NormalPosterior.prior((5,), np.full(40, 0.1), np.full(40, 0.7))
    for batch in np.unique(groups):
        some = np.flatnonzero(groups == batch)
        known.observe(owner[some], phi[some], y[some], strength[some])
    return known


def _wide_rows(seed: int, n: int) -> tuple[Array, Array, Array, Array]:
    rng = np.random.default_rng(seed)
    strength = np.where(rng.random(n) < 0.1, 0.0, rng.uniform(0.5, 9.0, n))
    return rng.integers(0, 5, n), rng.normal(size=(n, 40)), rng.normal(size=n), strength


def test_a_few_rows_of_many_weights_in_one_step_are_the_normal_equations() -> None:
    wide = _wide_rows(0, 900)
    owner, phi, y, strength = wide
    known = _observed(np.arange(900) // 24, wide)  # about five rows an owner and batch
    assert (known.steps > 0).all()  # else all of it was solved for afresh
    for one in range(5):
        mine = owner == one
        pull = phi[mine] * strength[mine, None]
        precision = pull.T @ phi[mine] + np.eye(40) / 0.49
        mean = np.linalg.solve(precision, pull.T @ y[mine] + 0.1 / 0.49)
        np.testing.assert_allclose(known.mean[one], mean, rtol=1e-9, atol=1e-12)
        covariance = unpack(known.covariance[one], 40)
        np.testing.assert_allclose(covariance, np.linalg.inv(precision), rtol=0, atol=1e-11)


def test_one_step_for_a_few_rows_is_as_many_steps() -> None:
    wide = _wide_rows(1, 200)
    together, apart = (_observed(np.arange(200) // size, wide) for size in (20, 1))
    np.testing.assert_allclose(together.mean, apart.mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(together.covariance, apart.covariance, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(together.steps, apart.steps)


def test_an_owner_of_many_weights_does_not_feel_the_others() -> None:
    owner, phi, y, strength = _wide_rows(2, 60)
    groups = np.arange(60) // 20
    whole = _observed(groups, (owner, phi, y, strength))
    mine = owner == 3
    alone = _observed(groups[mine], (owner[mine], phi[mine], y[mine], strength[mine]))
    assert whole.mean[3].tobytes() == alone.mean[3].tobytes()
    assert whole.covariance[3].tobytes() == alone.covariance[3].tobytes()
