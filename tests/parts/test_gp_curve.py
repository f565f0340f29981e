"""Gaussian-process curves: against scikit-learn, and against formulas written out apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from gdcb import records
from gdcb.arms import ArmList, Arms, Grid
from gdcb.arrays import Array
from gdcb.bandits.gp_curve import GPCurveState, GPCurveThompson
from gdcb.bandits.nodes import corners, grid_of
from gdcb.bandits.prequential import at_nodes
from gdcb.checks.lists import report
from gdcb.errors import InvalidInput
from gdcb.logistic import LogisticPosterior
from gdcb.records import Evidence, Located, Setting
from tests.parts.builders import bytes_of, evidence, evidences, fixed, rng_of, stream, take

ARMS = ArmList(values=(0.8, 0.9, 1.0, 1.15, 1.25)).build()
TWO = Grid({"rate": (0.05, 0.1, 0.2), "tenor": (12.0, 24.0)}).build()
SETTINGS: dict[str, Any] = {"amplitude": 1.4, "lengthscale": 0.6, "prior_mean": 0.3}
LOGISTIC = GPCurveThompson(**SETTINGS)
IDENTITY = GPCurveThompson(link="identity", noise=0.7, **SETTINGS)
BOTH = pytest.mark.parametrize("bandit", [LOGISTIC, IDENTITY], ids=["logistic", "identity"])
ZERO = np.zeros(1, dtype=np.int64)


def learned(bandit: GPCurveThompson, arms: Arms, *batches: Evidence) -> GPCurveState:
    """Return the state of four cells after some batches."""
    state = bandit.init(np.zeros(4, dtype=np.int64), arms)
    for batch in batches:
        bandit.update(state, batch)
    return state


def moments(bandit: GPCurveThompson, state: GPCurveState) -> tuple[Array, Array]:
    """Return mean and covariance of cell 0's curve at the nodes."""
    root = state.basis @ state.root[0]
    return bandit.prior_mean + state.basis @ state.mean[0], root @ root.T


def on_nodes(arms: Arms, n: int, seed: int, is_class: bool) -> Evidence:
    """Return n rows of cell 0 on nodes, with random weights."""
    rng = rng_of(seed)
    grid = grid_of(learned(IDENTITY, arms).nodes)
    coord = grid[rng.integers(0, grid.shape[0], n)]
    y = rng.integers(0, 2, n) if is_class else rng.normal(1.0, 2.0, n)
    return evidence(np.zeros(n), np.full(n, -1), y, coord, weight=rng.choice([0.5, 1.0, 3.0], n))


def located(coord: Array) -> Located:
    """Return actions (N, M, C) that lie nearest to no arm in particular."""
    return Located(np.zeros(coord.shape[:2], dtype=np.int64), coord, lambda: coord[..., 0] * 0)


def sklearn_kernel(bandit: GPCurveThompson, arms: Arms) -> Any:
    """Return the same kernel as scikit-learn writes it, with nothing to fit."""
    from sklearn.gaussian_process import kernels

    span = arms.coords.max(axis=0) - arms.coords.min(axis=0)
    scale = bandit.lengthscale * span
    shape = (
        kernels.RBF(scale, "fixed")
        if bandit.kernel == "rbf"
        else kernels.Matern(scale, "fixed", nu=2.5)
    )
    return kernels.ConstantKernel(bandit.amplitude**2, "fixed") * shape


@pytest.mark.parametrize("kernel", ["matern", "rbf"])
@pytest.mark.parametrize("arms", [ARMS, TWO], ids=["one", "two"])
def test_identity_is_gaussian_process_regression(arms: Arms, kernel: str) -> None:
    """Rewards on nodes, with weights: mean and covariance are scikit-learn's to 1e-8."""
    from sklearn.gaussian_process import GaussianProcessRegressor

    bandit = replace(IDENTITY, kernel=kernel)
    some = on_nodes(arms, 30, 3, is_class=False)
    state = learned(bandit, arms, some)
    peer = GaussianProcessRegressor(
        sklearn_kernel(bandit, arms), alpha=bandit.noise**2 / some.weight, optimizer=None
    ).fit(some.coord, some.y - bandit.prior_mean)
    expected, covariance = peer.predict(grid_of(state.nodes), return_cov=True)
    mean, mine = moments(bandit, state)
    np.testing.assert_allclose(mean, bandit.prior_mean + expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(mine, covariance, atol=1e-8)


def test_scale_is_a_weighted_regression() -> None:
    """r = s·η + noise: the posterior of K and rows s, by the textbook formula, to 1e-9."""
    some = on_nodes(ARMS, 20, 5, is_class=False)
    some.scale = rng_of(6).uniform(0.3, 2.0, 20)
    state = learned(IDENTITY, ARMS, some)
    nodes = grid_of(state.nodes)
    k = sklearn_kernel(IDENTITY, ARMS)(nodes)
    rows = (some.coord == nodes.T) * some.scale[:, None]  # (20, B)
    noise = np.diag(IDENTITY.noise**2 / some.weight)
    gain = np.linalg.solve(rows @ k @ rows.T + noise, rows @ k).T
    rest = some.y - some.scale * IDENTITY.prior_mean
    mean, covariance = moments(IDENTITY, state)
    np.testing.assert_allclose(mean, IDENTITY.prior_mean + gain @ rest, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(covariance, k - gain @ rows @ k, atol=1e-9)


def test_between_nodes_the_curve_is_linear_and_exact() -> None:
    """A reward ¼ of the way between two nodes is a row (¾, ¼) of the regression, to 1e-9."""
    state = learned(IDENTITY, ARMS)
    nodes = state.nodes[0]
    at = 0.75 * nodes[5] + 0.25 * nodes[6]
    some = evidence([0], [-1], [2.0], [at])
    IDENTITY.update(state, some)
    k = sklearn_kernel(IDENTITY, ARMS)(nodes[:, None])
    row = 0.75 * k[5] + 0.25 * k[6]
    spread = 0.75 * row[5] + 0.25 * row[6] + IDENTITY.noise**2
    mean, covariance = moments(IDENTITY, state)
    np.testing.assert_allclose(mean, 0.3 + row / spread * 1.7, atol=1e-9)
    np.testing.assert_allclose(covariance, k - np.outer(row, row) / spread, atol=1e-9)
    found = IDENTITY.mean(state, Setting(ZERO), located(np.full((1, 1, 1), at)))[0, 0]
    assert found == pytest.approx(0.75 * mean[5] + 0.25 * mean[6], rel=1e-12)


def laplace(k: Array, offset: float, trials: Array, wins: Array) -> tuple[Array, Array]:
    """Return mode and covariance of a latent curve with prior N(offset, k), by Algorithm 3.1 of
    Rasmussen and Williams (2006)."""
    f = np.full(trials.size, offset)
    eye = np.eye(trials.size)
    for _ in range(60):
        p = special.expit(f)
        root = np.sqrt(trials * p * (1 - p))
        b = root**2 * (f - offset) + wins - trials * p
        inner = eye + root[:, None] * k * root
        f = offset + k @ (b - root * np.linalg.solve(inner, root * (k @ b)))
    p = special.expit(f)
    root = np.sqrt(trials * p * (1 - p))
    inner = eye + root[:, None] * k * root
    return f, k - (k * root) @ np.linalg.solve(inner, root[:, None] * k)


@pytest.mark.parametrize("kernel", ["matern", "rbf"])
@pytest.mark.parametrize("arms", [ARMS, TWO], ids=["one", "two"])
def test_logistic_is_the_laplace_posterior(arms: Arms, kernel: str) -> None:
    """Outcomes on nodes: mode and covariance are those of the textbook algorithm, to 1e-7."""
    bandit = replace(LOGISTIC, kernel=kernel)
    some = on_nodes(arms, 60, 7, is_class=True)
    state = learned(bandit, arms, some)
    k = sklearn_kernel(bandit, arms)(grid_of(state.nodes))
    expected = laplace(k, bandit.prior_mean, state.trials[0], state.wins[0])
    mean, covariance = moments(bandit, state)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(covariance, expected[1], atol=1e-7)
    assert state.trials[0].sum() == pytest.approx(some.weight.sum())


def test_logistic_agrees_with_a_classifier() -> None:
    """With prior mean 0 and weight 1 the latent curve is that of scikit-learn's classifier.

    It stops when its likelihood rises by less than 1e-10, hence 1e-4.
    """
    from sklearn.gaussian_process import GaussianProcessClassifier

    bandit = replace(LOGISTIC, prior_mean=0.0)
    some = replace(on_nodes(ARMS, 40, 8, is_class=True), weight=np.ones(40))
    state = learned(bandit, ARMS, some)
    peer = GaussianProcessClassifier(sklearn_kernel(bandit, ARMS), optimizer=None)
    peer.fit(some.coord, some.y)
    k = sklearn_kernel(bandit, ARMS)(grid_of(state.nodes), some.coord)
    latent = k @ (some.y - peer.base_estimator_.pi_)
    np.testing.assert_allclose(moments(bandit, state)[0], latent, atol=1e-4)


def off_the_mode(arms: Arms, n: int) -> float:
    """Return how far the curve at its nodes lies from the mode of the rows where they ran, in sds.

    That mode is a regression on the interpolated curve at every row's own coordinate; log odds
    move by 6 over the arms. The worst node with five rows and more around it.
    """
    rng, bandit = rng_of(9), replace(LOGISTIC, amplitude=3.0)
    low, high = arms.coords.min(axis=0), arms.coords.max(axis=0)
    coord = low + (high - low) * rng.uniform(size=(n, arms.n_coords))
    u = 2.0 * (coord[:, 0] - low[0]) / (high[0] - low[0]) - 1.0
    y = rng.uniform(size=n) < special.expit(0.3 - 3.0 * u - 1.5 * u**2)
    state = learned(bandit, arms, evidence(np.zeros(n), np.full(n, -1), y, coord))
    index, share, _ = corners(state.nodes, coord)
    table = at_nodes(index, share, state.basis.shape[0])
    exact = LogisticPosterior.fit(
        table @ state.basis, y.astype(float), None, 0.0, 1.0, np.full(n, bandit.prior_mean)
    )
    sd = np.sqrt(np.diagonal(state.basis @ exact.covariance[0] @ state.basis))
    off = np.abs(state.basis @ (state.mean[0] - exact.mean[0])) / sd
    return float(off[table.sum(axis=0) > 5.0].max())


@pytest.mark.parametrize("arms", [ARMS, TWO], ids=["one", "two"])
def test_outcomes_between_nodes_are_learned_where_they_ran(arms: Arms) -> None:
    """The mode is that of the rows' own coordinates, to two hundredths of a posterior sd."""
    assert off_the_mode(arms, 1500) < 0.02


@pytest.mark.soak
@pytest.mark.parametrize(("arms", "n"), [(ARMS, 50_000), (TWO, 20_000)], ids=["one", "two"])
def test_outcomes_between_nodes_are_learned_where_they_ran_at_length(arms: Arms, n: int) -> None:
    """As above, with many rows: a twentieth."""
    assert off_the_mode(arms, n) < 0.05


@pytest.mark.parametrize("arms", [ARMS, TWO], ids=["one", "two"])
def test_rows_between_nodes_add_up_in_any_order(arms: Arms) -> None:
    """One batch, a loop, two merged halves and rows scored on the way; no cell shows in another."""
    rng, n = rng_of(4), 40 if arms is ARMS else 12
    low, high = arms.coords.min(axis=0), arms.coords.max(axis=0)
    coord = low + (high - low) * rng.uniform(-0.1, 1.1, size=(n, arms.n_coords))
    coord[::4] = arms.coords[rng.integers(0, arms.n, n // 4)]
    some = evidence(np.arange(n) % 3, np.full(n, -1), rng.integers(0, 2, n), coord)
    batch = learned(LOGISTIC, arms, some)
    close(learned(LOGISTIC, arms, *(take(some, [i]) for i in range(n))), batch)
    half = learned(LOGISTIC, arms, take(some, np.arange(5)))
    LOGISTIC.merge(half, learned(LOGISTIC, arms, take(some, np.arange(5, n))))
    close(half, batch)
    for cell in range(3):
        own = take(some, some.cell == cell)
        alone = learned(LOGISTIC, arms, own)
        np.testing.assert_array_equal(batch.mean[cell], alone.mean[cell])
        scored, loop = learned(LOGISTIC, arms), learned(LOGISTIC, arms)
        found = LOGISTIC.prequential(scored, own)
        for i in range(own.y.size):
            row = take(own, [i])
            assert found[i] == pytest.approx(LOGISTIC.predictive(loop, row)[0], rel=1e-7)
            LOGISTIC.update(loop, row)


def test_separated_outcomes_have_a_finite_mode() -> None:
    """Five thousand wins low and as many losses high: still the textbook mode, to 1e-6."""
    some = evidence([0, 0], [0, 4], [1, 0], ARMS.coords[[0, 4]], weight=[5000, 5000])
    state = learned(LOGISTIC, ARMS, some)
    k = sklearn_kernel(LOGISTIC, ARMS)(state.nodes[0][:, None])
    expected = laplace(k, 0.3, state.trials[0], state.wins[0])[0]
    np.testing.assert_allclose(moments(LOGISTIC, state)[0], expected, rtol=1e-6, atol=1e-6)


@BOTH
def test_draws_have_the_posterior_s_law(bandit: GPCurveThompson) -> None:
    """Drawn curves at five arms: KS against the normal law, false alarm 1e-3 over 5."""
    some = on_nodes(ARMS, 30, 9, is_class=True)
    state = learned(bandit, ARMS, some)
    mean, covariance = moments(bandit, state)
    draw = bandit.draw(stream(52, 500), state, Setting(np.zeros(4000, dtype=np.int64)))
    value = bandit.value(draw, ARMS.nominal)
    latent = special.logit(value) if bandit.link == "logistic" else value
    at = np.searchsorted(state.nodes[0], ARMS.coords[:, 0])
    z = (latent - mean[at]) / np.sqrt(np.diag(covariance)[at])
    assert all(stats.kstest(z[:, k], "norm").pvalue > 1e-3 / 5 for k in range(5))


@BOTH
@pytest.mark.parametrize("arms", [ARMS, TWO], ids=["one", "two"])
def test_values_are_read_between_the_nodes(bandit: GPCurveThompson, arms: Arms) -> None:
    """SciPy's linear interpolation of the drawn nodes; beyond them the curve is constant."""
    from scipy.interpolate import RegularGridInterpolator

    state = learned(bandit, arms, on_nodes(arms, 20, 10, is_class=True))
    draw = bandit.draw(stream(5), state, Setting(np.zeros(3, dtype=np.int64)))
    low = np.array([nodes[0] for nodes in state.nodes])
    high = np.array([nodes[-1] for nodes in state.nodes])
    reach = high - low
    coord = rng_of(11).uniform(low - 0.2 * reach, high + 0.2 * reach, size=(3, 50, arms.n_coords))
    found = bandit.value(draw, located(coord))
    for i in range(3):
        table = draw[0][i].reshape([nodes.size for nodes in state.nodes])
        expected = RegularGridInterpolator(state.nodes, table)(coord[i].clip(low, high))
        if bandit.link == "logistic":
            expected = special.expit(expected)
        np.testing.assert_allclose(found[i], expected, rtol=1e-10, atol=1e-12)
    nominal = bandit.value(draw, arms.nominal)
    there = located(np.tile(arms.coords, (3, 1, 1)))
    np.testing.assert_array_equal(nominal, bandit.value(draw, there))


def test_no_rows_have_no_values() -> None:
    """A batch of no rows is answered with no rows."""
    state = learned(IDENTITY, ARMS)
    draw = IDENTITY.draw(stream(5), state, Setting(np.zeros(0, dtype=np.int64)))
    assert IDENTITY.value(draw, ARMS.nominal).shape == (0, 5)


@BOTH
def test_rows_do_not_depend_on_the_rows_beside_them(bandit: GPCurveThompson) -> None:
    """Draws, values and densities of row i are the same bytes alone and in a batch."""
    some = replace(on_nodes(ARMS, 40, 12, is_class=True), cell=rng_of(5).integers(0, 4, 40))
    state = learned(bandit, ARMS, some)
    for cell in range(4):
        alone = learned(bandit, ARMS, take(some, some.cell == cell))
        assert bytes_of(alone.mean[cell], alone.root[cell]) == bytes_of(
            state.mean[cell], state.root[cell]
        )
    draw = bandit.draw(stream(3, 1), state, Setting(some.cell))
    there = located(some.coord[:, None] + 0.01)
    value, density = bandit.value(draw, there), bandit.predictive(state, some)
    shorter = bandit.draw(stream(3, 1), state, Setting(some.cell[:2]))
    assert bytes_of(shorter[0]) == bytes_of(draw[0][:2])
    for i in range(40):
        one = records.take_rows(draw, np.array([i]))
        here = located(some.coord[[i]][:, None] + 0.01)
        assert bytes_of(bandit.value(one, here)) == bytes_of(value[[i]])
        assert bytes_of(bandit.predictive(state, take(some, [i]))) == bytes_of(density[[i]])


def close(one: GPCurveState, other: GPCurveState) -> None:
    """Compare states: sums to 1e-10; what Newton's last step decides, to 1e-7."""
    expected = records.flatten(other)
    for name, array in records.flatten(one).items():
        tolerance = 1e-7 if name in ("mean", "root") else 1e-10
        np.testing.assert_allclose(array, expected[name], rtol=0, atol=tolerance, err_msg=name)


@given(
    some=evidences(4, ARMS.coords, is_class=True),
    seed=st.integers(0, 99),
    bandit=st.sampled_from([LOGISTIC, IDENTITY]),
)
@fixed
def test_batch_equals_loop_in_any_order(some: Evidence, seed: int, bandit: GPCurveThompson) -> None:
    """One batch, rows one by one, and rows in another order give the same posterior."""
    n = some.cell.size
    batch = learned(bandit, ARMS, some)
    close(learned(bandit, ARMS, *(take(some, [i]) for i in range(n))), batch)
    close(learned(bandit, ARMS, take(some, rng_of(seed).permutation(n))), batch)


@given(some=evidences(3, ARMS.coords, is_class=True), bandit=st.sampled_from([LOGISTIC, IDENTITY]))
@fixed
def test_evidence_only_narrows(some: Evidence, bandit: GPCurveThompson) -> None:
    """No node's variance exceeds the prior's A², and no row touches cell 3."""
    state, fresh = learned(bandit, ARMS, some), learned(bandit, ARMS)
    variance = ((state.basis @ state.root) ** 2).sum(axis=-1)
    assert (variance <= bandit.amplitude**2 * (1 + 1e-9)).all()
    assert bytes_of(state.mean[3], state.root[3]) == bytes_of(fresh.mean[3], fresh.root[3])


@BOTH
def test_decay_and_merge_are_sums(bandit: GPCurveThompson) -> None:
    """Keeping 0.3 equals rows of 0.3 times the weight; two halves merged equal the whole."""
    some = on_nodes(ARMS, 40, 13, is_class=True)
    state = learned(bandit, ARMS, some)
    halves = [learned(bandit, ARMS, take(some, slice(i, None, 2))) for i in (0, 1)]
    bandit.merge(*halves)
    close(halves[0], state)
    bandit.decay(state, 0.3, ZERO)
    close(state, learned(bandit, ARMS, replace(some, weight=0.3 * some.weight)))
    bandit.decay(state, 0.0, np.arange(4))
    close(state, learned(bandit, ARMS))
    with pytest.raises(InvalidInput, match="merge: expected a state of shape"):
        bandit.merge(state, bandit.init(ZERO, ARMS))
    with pytest.raises(InvalidInput, match="merge: expected a state over the same arms and kernel"):
        bandit.merge(state, learned(replace(bandit, lengthscale=0.3), ARMS))


def test_predictive_density_by_hand() -> None:
    """Before any row r ~ N(s·m, s²·A² + noise²) on a node: s = ½, m = 0.3, A = 1.4."""
    row = evidence([0], [2], [3.0], [1.0], scale=[0.5])
    found = IDENTITY.predictive(learned(IDENTITY, ARMS), row)[0]
    law = stats.norm(0.15, np.sqrt(0.25 * 1.4**2 + 0.49))
    assert found == pytest.approx(law.logpdf(3.0), rel=1e-9)


def test_predictive_probability_is_the_mean_of_draws() -> None:
    """E σ(η) against 20,000 draws at every arm: within four standard errors, five arms."""
    state = learned(LOGISTIC, ARMS, on_nodes(ARMS, 30, 14, is_class=True))
    rows = evidence(np.zeros(5), np.arange(5), np.ones(5), ARMS.coords)
    draw = LOGISTIC.draw(stream(8, 500), state, Setting(np.zeros(20_000, dtype=np.int64)))
    value = LOGISTIC.value(draw, ARMS.nominal)
    error = value.std(axis=0) / np.sqrt(20_000)
    density = LOGISTIC.predictive(state, rows)
    assert (np.abs(np.exp(density) - value.mean(axis=0)) < 4 * error).all()
    against = LOGISTIC.predictive(state, replace(rows, y=np.zeros(5)))
    np.testing.assert_allclose(np.exp(density) + np.exp(against), 1.0, rtol=1e-12)


@BOTH
def test_states_over_other_arms_do_not_merge(bandit: GPCurveThompson) -> None:
    """Arms (0, 1) and (0, 10) have one covariance, in spans, and other coordinates."""
    near, far = (ArmList(values=(0.0, end)).build() for end in (1.0, 10.0))
    state = learned(bandit, near)
    before = records.to_bytes(state)
    with pytest.raises(InvalidInput, match="merge: expected a state over the same arms"):
        bandit.merge(state, learned(bandit, far))
    assert records.to_bytes(state) == before


@pytest.mark.parametrize("arms", [ARMS, TWO], ids=["one", "two"])
def test_the_mean_is_the_mean_of_the_draws(arms: Arms) -> None:
    """E σ(η) against 20,000 draws on the arms and between them: within 4.5 standard errors."""
    bandit = replace(LOGISTIC, amplitude=3.0)
    state, n = learned(bandit, arms, on_nodes(arms, 8, 21, is_class=True)), 20_000
    draw = bandit.draw(stream(9, 500), state, Setting(np.zeros(n, dtype=np.int64)))
    between = (arms.coords[1:] + arms.coords[:-1]) / 2
    for there in (arms.nominal, located(between[None])):
        many = there if there.is_nominal else located(np.repeat(between[None], n, axis=0))
        value = bandit.value(draw, many)
        gap = np.abs(value.mean(axis=0) - bandit.mean(state, Setting(ZERO), there)[0])
        assert (gap < 4.5 * value.std(axis=0) / np.sqrt(n)).all()


@BOTH
@pytest.mark.parametrize("arms", [ARMS, TWO], ids=["one", "two"])
def test_scored_on_the_way_is_scored_row_by_row(bandit: GPCurveThompson, arms: Arms) -> None:
    """100 rows of cell 2, some beyond the margin or not run, after 10: as in a loop, to 1e-7."""
    rng = rng_of(31)
    low, high = arms.coords.min(axis=0), arms.coords.max(axis=0)
    coord = np.where(
        rng.random(100)[:, None] < 0.5,
        arms.coords[rng.integers(0, arms.n, 100)],
        rng.uniform(low, high, size=(100, arms.n_coords)),
    )
    coord[5], coord[80] = np.nan, high + 20 * (high - low)
    y, weight = rng.integers(0, 2, 100), rng.uniform(0.5, 2.0, 100)
    scale = rng.uniform(0.5, 2.0, 100) if bandit.link == "identity" else None
    some = evidence(np.full(100, 2), np.full(100, -1), y, coord, scale, weight)
    first = replace(on_nodes(arms, 10, 32, is_class=True), cell=np.full(10, 2))
    together, loop = learned(bandit, arms, first), learned(bandit, arms, first)
    found, expected = bandit.prequential(together, some), np.empty(100)
    for i in range(100):
        expected[i] = bandit.predictive(loop, take(some, [i]))[0]
        bandit.update(loop, take(some, [i]))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)
    assert np.flatnonzero(np.isnan(found)).tolist() == [5]
    close(together, loop)


def test_many_rows_take_little_memory() -> None:
    """1,461 rows of one cell on a 5 × 5 grid (121 nodes): below 40 MB to learn or score them.

    A matrix for every row would be 170 MB.
    """
    import tracemalloc

    levels = (0.8, 0.9, 1.0, 1.1, 1.2)
    arms, n = Grid({"A": levels, "B": levels}).build(), 1461
    arm = rng_of(41).integers(0, 25, n)
    some = evidence(np.zeros(n), arm, rng_of(42).normal(size=n), arms.coords[arm])
    state = IDENTITY.init(ZERO, arms)
    for act in (IDENTITY.update, IDENTITY.predictive):
        tracemalloc.start()
        act(state, some)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 40e6


@BOTH
def test_rows_that_say_nothing_leave_the_bytes(bandit: GPCurveThompson) -> None:
    """Weight 0 and NaN coordinates leave all; beyond the margin no sum is added."""
    state = learned(bandit, ARMS)
    before = records.to_bytes(state)
    some = evidence([0, 1], [0, -1], [1.0, 1.0], [0.8, np.nan], weight=[0.0, 1.0])
    bandit.update(state, some)
    assert records.to_bytes(state) == before
    assert np.isnan(bandit.predictive(state, some)).tolist() == [False, True]
    bandit.update(state, evidence([0], [-1], [1.0], [3.0]))
    close(state, learned(bandit, ARMS))


@pytest.mark.parametrize(
    ("bandit", "change", "message"),
    [
        (LOGISTIC, {"y": [1.0, 1.5]}, r"the logistic link: expected outcomes in \[0, 1\], got"),
        (LOGISTIC, {"y": [1.0, np.nan]}, r"the logistic link: expected outcomes in \[0, 1\], got"),
        (LOGISTIC, {"scale": [1.0, 1.0]}, "the logistic link: learns classes and takes no"),
        (IDENTITY, {"y": [1.0, np.inf]}, "GPCurveThompson: expected finite rewards"),
        (IDENTITY, {"scale": [1.0, np.nan]}, r"expected finite scales s\(x\) > 0"),
        (IDENTITY, {"scale": [1.0, -2.0]}, r"expected finite scales s\(x\) > 0"),
    ],
)
def test_bad_evidence_is_refused_whole(
    bandit: GPCurveThompson, change: dict[str, Any], message: str
) -> None:
    """A bad row is refused, and the good row beside it has not been learned either."""
    state = learned(bandit, ARMS, evidence([0], [1], [1.0], [0.9]))
    before = records.to_bytes(state)
    good: dict[str, Any] = {"cell": [0, 1], "arm": [0, 1], "y": [1, 0], "coord": [0.8, 0.9]}
    for act in (bandit.update, bandit.predictive, bandit.prequential):
        with pytest.raises(InvalidInput, match=message):
            act(state, evidence(**(good | change)))
    assert records.to_bytes(state) == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"link": "probit"}, "bandit.link: expected one of logistic, identity"),
        ({"kernel": "linear"}, "bandit.kernel: expected one of matern, rbf"),
        ({"amplitude": 0.0}, "bandit.amplitude: expected a number > 0"),
        ({"lengthscale": -1.0}, "bandit.lengthscale: expected a number > 0"),
        ({"noise": float("nan")}, "bandit.noise: expected a finite number"),
        ({"prior_mean": float("inf")}, "bandit.prior_mean: expected a finite number"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    """Settings that cannot work are refused by name."""
    with pytest.raises(InvalidInput, match=message):
        GPCurveThompson(**settings)


def test_arms_that_do_not_fit_are_refused() -> None:
    """Categories have no curve, and three coordinates would need too many nodes."""
    with pytest.raises(InvalidInput, match="GPCurveThompson needs arms with a metric"):
        LOGISTIC.init(ZERO, ArmList(names=("a", "b")).build())
    three = Grid({"A": (1.0, 2.0), "B": (1.0, 2.0), "C": (1.0, 2.0)}).build()
    with pytest.raises(InvalidInput, match="expected one or two coordinates, got 3"):
        LOGISTIC.init(ZERO, three)


@BOTH
def test_states_come_back_from_bytes(bandit: GPCurveThompson) -> None:
    """A state written and read has the same bytes again."""
    data = records.to_bytes(learned(bandit, ARMS, on_nodes(ARMS, 9, 15, is_class=True)))
    assert records.to_bytes(records.from_bytes(data, learned(bandit, ARMS))) == data


@BOTH
def test_keeps_what_bandits_promise(bandit: GPCurveThompson) -> None:
    """The conformance list, with both links."""
    assert report(bandit).is_conforming, str(report(bandit))


def test_fewer_nodes_and_a_narrower_draw() -> None:
    """With one gap the nodes are the arms and a margin of three on both sides.

    Width 0 draws the mean; a width of 2 lies twice as far from it as 1.
    """
    coarse = replace(IDENTITY, gaps=1)
    nodes = coarse.init(ZERO, ARMS).nodes[0]
    assert nodes.size == ARMS.n + 6
    np.testing.assert_allclose(nodes[3:-3], ARMS.coords[:, 0])
    assert IDENTITY.init(ZERO, ARMS).nodes[0].size > nodes.size
    state = learned(coarse, ARMS, evidence(ZERO, ZERO, [1.0], [0.8]))
    drawn = [
        replace(coarse, width=width).draw(stream(7), state, Setting(ZERO))[0]
        for width in (0.0, 1.0, 2.0)
    ]
    np.testing.assert_allclose(drawn[0][0], moments(coarse, state)[0], atol=1e-12)
    np.testing.assert_allclose(drawn[2] - drawn[0], 2.0 * (drawn[1] - drawn[0]), atol=1e-12)


@pytest.mark.parametrize("bad", [{"gaps": -1}, {"gaps": 2.5}, {"gaps": True}, {"width": -0.1}])
def test_nodes_and_widths_that_cannot_be(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(bad))):
        GPCurveThompson(**bad)
