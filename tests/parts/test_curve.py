"""Response curves: against regressions written out apart, on arms, between and beyond them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, special, stats

from gdcb import records
from gdcb.arms import ArmList, Arms, Grid
from gdcb.arrays import Array
from gdcb.bandits import CurveState, CurveThompson
from gdcb.checks.lists import report
from gdcb.errors import InvalidInput
from gdcb.logistic import LogisticPosterior
from gdcb.records import Evidence, Located, Setting
from tests.parts.builders import bytes_of, evidence, evidences, fixed, rng_of, stream, take

ARMS = ArmList(values=(0.8, 0.9, 1.0, 1.15, 1.25)).build()
TWO = Grid({"rate": (0.05, 0.1, 0.2), "tenor": (12.0, 24.0)}).build()
LOGISTIC = CurveThompson(prior_sd=(2.0, 3.0))
IDENTITY = CurveThompson(link="identity", noise=0.7)
ZERO = np.zeros(1, dtype=np.int64)


def learned(bandit: CurveThompson, arms: Arms, *batches: Evidence) -> CurveState:
    """Return the state of four cells after some batches."""
    state = bandit.init(np.zeros(4, dtype=np.int64), arms)
    for batch in batches:
        bandit.update(state, batch)
    return state


def scaled(arms: Arms, degree: int, coord: Array) -> Array:
    """Return the features (1, u, u²) of u = coordinates scaled to [−1, 1] over the arms."""
    low, high = arms.coords.min(axis=0), arms.coords.max(axis=0)
    u = 2 * (coord - low) / (high - low) - 1
    parts = [np.ones((coord.shape[0], 1)), u] + ([u**2] if degree == 2 else [])
    return np.concatenate(parts, axis=1)


def curve_moments(
    bandit: CurveThompson, state: CurveState, arms: Arms, cell: int = 0
) -> tuple[Array, Array]:
    """Return mean and covariance of the linear predictor at the arms."""
    features = bandit.features((arms.coords - state.frame[0]) / state.frame[1])
    covariance = state.root[cell] @ state.root[cell].T
    return features @ state.mean[cell], features @ covariance @ features.T


def some_evidence(arms: Arms, n: int, seed: int, is_class: bool, at_arms: bool) -> Evidence:
    """Return n rows of cell 0 with random weights."""
    rng = rng_of(seed)
    arm = rng.integers(0, arms.n, n)
    low, high = arms.coords.min(axis=0), arms.coords.max(axis=0)
    coord = arms.coords[arm] if at_arms else rng.uniform(low, high, size=(n, arms.n_coords))
    y = rng.integers(0, 2, n) if is_class else rng.normal(1.0, 2.0, n)
    return evidence(np.zeros(n), arm, y, coord, weight=rng.choice([0.0, 0.5, 1.0, 3.0], n))


# Identity link -------------------------------------------------------------------------------


def test_identity_by_hand() -> None:
    """Arms ∓1, prior sd 1, noise 1, reward 3 at c = 1.

    Features (1, 1): precision [[2, 1], [1, 2]], shift (3, 3), mean (1, 1), covariance
    ⅓·[[2, −1], [−1, 2]]: at c = 1 mean 2, variance 2/3; at c = −1 mean 0, variance 2.
    """
    arms = ArmList(values=(-1.0, 1.0)).build()
    bandit = CurveThompson(link="identity", prior_sd=1.0)
    state = learned(bandit, arms, evidence([0], [1], [3.0], [1.0]))
    mean, covariance = curve_moments(bandit, state, arms)
    np.testing.assert_allclose(state.mean[0], [1.0, 1.0], atol=1e-14)
    np.testing.assert_allclose(mean, [0.0, 2.0], atol=1e-14)
    np.testing.assert_allclose(np.diag(covariance), [2.0, 2 / 3], atol=1e-14)


def test_prior_lives_on_scaled_coordinates() -> None:
    """Arms 0.8…1.25, prior mean (½, 2) and sd (1, 3) of (1, u), u = ∓1 at the ends.

    At the ends the predictor has mean ½ ∓ 2 and variance 1 + 9; in the middle ½ and 1.
    """
    bandit = CurveThompson(link="identity", prior_mean=(0.5, 2.0), prior_sd=(1.0, 3.0))
    middle = ArmList(values=(0.8, 1.025, 1.25)).build()
    mean, covariance = curve_moments(bandit, learned(bandit, middle), middle)
    np.testing.assert_allclose(mean, [-1.5, 0.5, 2.5], atol=1e-12)
    np.testing.assert_allclose(np.diag(covariance), [10.0, 1.0, 10.0], atol=1e-10)


@pytest.mark.parametrize("arms", [ARMS, TWO], ids=["one", "two"])
@pytest.mark.parametrize("degree", [1, 2])
def test_identity_is_bayesian_linear_regression(arms: Arms, degree: int) -> None:
    """With scale and weights the posterior is that of normal equations in the scaled basis."""
    if arms is TWO and degree == 2:
        arms = Grid({"rate": (0.05, 0.1, 0.2), "tenor": (12.0, 24.0, 36.0)}).build()
    bandit = CurveThompson(link="identity", degree=degree, prior_sd=1.7, noise=0.7)
    some = some_evidence(arms, 25, 3, is_class=False, at_arms=False)
    some.scale = rng_of(4).uniform(0.3, 2.0, 25)
    state = learned(bandit, arms, some)
    # y = s·Fw + N(0, noise²/weight), w ~ N(0, 1.7²): the rows of √weight·s·F / noise.
    root = np.sqrt(some.weight) / 0.7
    design = (root * some.scale)[:, None] * scaled(arms, degree, some.coord)
    precision = design.T @ design + np.eye(design.shape[1]) / 1.7**2
    weights = np.linalg.solve(precision, design.T @ (root * some.y))
    at = scaled(arms, degree, arms.coords)
    mean, covariance = curve_moments(bandit, state, arms)
    np.testing.assert_allclose(mean, at @ weights, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(covariance, at @ np.linalg.solve(precision, at.T), atol=1e-8)
    nominal = bandit.mean(state, Setting(ZERO), arms.nominal)
    np.testing.assert_allclose(nominal[0], mean, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 100.0, 1000.0, 1e4])
@pytest.mark.parametrize("degree", [1, 2])
def test_the_origin_of_the_coordinate_does_not_matter(degree: int, offset: float) -> None:
    """Arms −2…2 and the same arms moved by an offset give the same curve to 1e-6."""
    bandit = CurveThompson(link="identity", degree=degree)
    levels = np.arange(-2.0, 3.0)
    arms = ArmList(values=tuple(offset + levels)).build()
    arm, y = np.array([0, 1, 2, 2, 4]), [1.0, 2.0, -1.0, 0.5, 3.0]
    state = learned(bandit, arms, evidence([0] * 5, arm, y, arms.coords[arm]))
    design = np.stack([levels**0, levels / 2, levels**2 / 4][: degree + 1], axis=1)
    precision = design[arm].T @ design[arm] + np.eye(degree + 1) / 4
    expected = design @ np.linalg.solve(precision, design[arm].T @ y)
    nominal = bandit.mean(state, Setting(ZERO), arms.nominal)[0]
    np.testing.assert_allclose(nominal, expected, rtol=1e-6, atol=1e-6)


def test_draws_have_the_posterior_s_law() -> None:
    """Drawn predictors at five arms: KS against the normal law, false alarm 1e-3 over 5."""
    some = some_evidence(ARMS, 30, 8, is_class=False, at_arms=False)
    state = learned(IDENTITY, ARMS, some)
    mean, covariance = curve_moments(IDENTITY, state, ARMS)
    draw = IDENTITY.draw(stream(51, 500), state, Setting(np.zeros(5000, dtype=np.int64)))
    z = (IDENTITY.value(draw, ARMS.nominal) - mean) / np.sqrt(np.diag(covariance))
    assert all(stats.kstest(z[:, k], "norm").pvalue > 1e-3 / 5 for k in range(5))


# Logistic link -------------------------------------------------------------------------------


def laplace(
    arms: Arms, degree: int, sd: Array, some: Evidence, offset: Array | None = None
) -> tuple[Array, Array]:
    """Minimise the negative log posterior in the scaled basis with SciPy.

    Returns mean and covariance of the predictor at the arms.
    """
    design = scaled(arms, degree, some.coord)
    prior = np.diag(sd**-2.0)
    start = np.zeros(sd.size) if offset is None else offset

    def loss(w: Array) -> float:
        eta = design @ w
        fit = some.weight * (np.logaddexp(0.0, eta) - some.y * eta)
        return float(fit.sum() + 0.5 * (w - start) @ prior @ (w - start))

    def gradient(w: Array) -> Array:
        p = special.expit(design @ w)
        return np.asarray(design.T @ (some.weight * (p - some.y)) + prior @ (w - start))

    def hessian(w: Array) -> Array:
        p = special.expit(design @ w)
        return np.asarray(design.T @ ((some.weight * p * (1 - p))[:, None] * design) + prior)

    found = optimize.minimize(
        loss, start, jac=gradient, hess=hessian, method="trust-exact", options={"gtol": 1e-12}
    )
    mode = found.x
    for _ in range(3):  # SciPy stops where the loss no longer falls; polish to rounding
        mode = mode - np.linalg.solve(hessian(mode), gradient(mode))
    np.testing.assert_allclose(mode, found.x, atol=1e-5)
    at = scaled(arms, degree, arms.coords)
    return at @ mode, at @ np.linalg.solve(hessian(mode), at.T)


def moderation(mean: float, variance: float) -> float:
    """Return E σ(η) of a normal η by SciPy's quadrature."""
    law = stats.norm(mean, np.sqrt(variance))
    low, high = law.interval(1 - 1e-13)
    return float(integrate.quad(lambda z: law.pdf(z) * special.expit(z), low, high)[0])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("name", ["one", "two"])
def test_logistic_is_the_laplace_posterior(name: str, degree: int, seed: int) -> None:
    """On the arms counts are exact: mode and Hessian agree with SciPy's to 1e-8."""
    arms = ARMS if name == "one" else Grid({"A": (0.05, 0.1, 0.2), "B": (1.0, 2.0, 3.0)}).build()
    d = 1 + arms.n_coords * degree
    sd = np.linspace(1.0, 2.5, d)
    offset = np.linspace(-0.5, 0.8, d)
    bandit = CurveThompson(degree=degree, prior_mean=tuple(offset), prior_sd=tuple(sd))
    some = some_evidence(arms, 40, seed, is_class=True, at_arms=True)
    state = learned(bandit, arms, some)
    mean, covariance = curve_moments(bandit, state, arms)
    expected = laplace(arms, degree, sd, some, offset)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(covariance, expected[1], rtol=1e-8, atol=1e-8)
    nominal = bandit.mean(state, Setting(ZERO), arms.nominal)[0]
    moderate = [moderation(*law) for law in zip(expected[0], np.diag(expected[1]), strict=True)]
    np.testing.assert_allclose(nominal, moderate, atol=1e-8)


@pytest.mark.parametrize("n", [1, 50, 5000])
def test_logistic_finds_the_mode_of_separated_outcomes(n: int) -> None:
    """All wins low, all losses high, many times: the mode is still SciPy's."""
    some = evidence([0, 0], [0, 4], [1, 0], ARMS.coords[[0, 4]], weight=[n, n])
    state = learned(LOGISTIC, ARMS, some)
    mean, covariance = curve_moments(LOGISTIC, state, ARMS)
    expected = laplace(ARMS, 1, np.array([2.0, 3.0]), some)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(covariance, expected[1], rtol=1e-7, atol=1e-8)


def test_one_outcome_by_hand() -> None:
    """Arms ∓1, prior sd 1, one win at c = 1: w = (t, t) with t = 1 − σ(2t), by symmetry.

    So 2t solves z/2 + σ(z) = 1: z = 0.674…, found here by bisection.
    """
    arms = ArmList(values=(-1.0, 1.0)).build()
    bandit = CurveThompson(prior_sd=1.0)
    state = learned(bandit, arms, evidence([0], [1], [1.0], [1.0]))
    z = optimize.brentq(lambda z: z / 2 + special.expit(z) - 1, 0, 2, xtol=1e-14)
    np.testing.assert_allclose(state.mean[0], [z / 2, z / 2], atol=1e-10)
    assert 0.67 < z < 0.68


# Actions between the arms

# Log odds that move by 6 over the arms. Actions anywhere between these, also beyond them, or half
# on the arms and half where a person prefers to be; and of two coordinates.
BETWEEN = {
    "between, degree 1": (ARMS, (0.3, -3.0), "between"),
    "between, degree 2": (ARMS, (0.3, -3.0, -1.5), "between"),
    "beyond, degree 1": (ARMS, (0.3, -3.0), "beyond"),
    "beyond, degree 2": (ARMS, (0.3, -3.0, -1.5), "beyond"),
    "on arms and off, degree 1": (ARMS, (0.3, -3.0), "half"),
    "on arms and off, degree 2": (ARMS, (0.3, -3.0, -1.5), "half"),
    "two coordinates": (TWO, (0.3, -3.0, 2.0, -1.5, 0.5), "between"),
}


def executed(arms: Arms, weights: tuple[float, ...], where: str, n: int) -> Evidence:
    """Return n rows of a truth that has the curve's form, at coordinates between the arms."""
    rng, c = rng_of(9), arms.n_coords
    low, high = arms.coords.min(axis=0), arms.coords.max(axis=0)
    share = rng.uniform(size=(n, c))
    if where == "beyond":
        share = 0.5 + 0.5 * np.clip(rng.normal(0.0, 0.9, (n, c)), -1.8, 1.8)
    coord = low + (high - low) * share
    if where == "half":
        arm = rng.integers(0, arms.n, n)
        near = low + (high - low) * (0.3 + 0.03 * share)
        coord = np.where(rng.uniform(size=(n, 1)) < 0.5, arms.coords[arm], near)
    eta = scaled(arms, 1 if len(weights) == 1 + c else 2, coord) @ np.array(weights)
    return evidence(np.zeros(n), np.full(n, -1), rng.uniform(size=n) < special.expit(eta), coord)


def off_the_mode(arms: Arms, weights: tuple[float, ...], where: str, n: int) -> float:
    """Return how far the posterior mean lies from the exact mode, in posterior sds: the worst."""
    degree = 1 if len(weights) == 1 + arms.n_coords else 2
    some = executed(arms, weights, where, n)
    state = learned(CurveThompson(degree=degree), arms, some)
    phi = scaled(arms, degree, some.coord)
    exact = LogisticPosterior.fit(phi, some.y, None, 0.0, 0.25)
    sd = np.sqrt(np.diagonal(exact.covariance[0]))
    return float((np.abs(state.mean[0] - exact.mean[0]) / sd).max())


@pytest.mark.parametrize("name", BETWEEN)
def test_actions_between_arms_are_learned_where_they_ran(name: str) -> None:
    """The mode is that of the rows' own coordinates, to a hundredth of a posterior sd.

    Of two coordinates, whose boxes are wider, to three hundredths.
    """
    assert off_the_mode(*BETWEEN[name], n=1500) < (0.03 if name == "two coordinates" else 0.01)


@pytest.mark.soak
@pytest.mark.parametrize("name", BETWEEN)
@pytest.mark.parametrize(("n", "most"), [(50_000, 0.05), (1_000_000, 0.25)])
def test_actions_between_arms_are_learned_where_they_ran_at_length(
    name: str, n: int, most: float
) -> None:
    """The error grows with the root of the rows: a twentieth of an sd at 50,000 of one cell."""
    assert off_the_mode(*BETWEEN[name], n=n) < most


def test_two_places_in_a_box_are_exact() -> None:
    """Gauss's two points are the places themselves, whatever they weigh."""
    borders = learned(LOGISTIC, ARMS).borders[0]
    coord = np.concatenate([borders[:-1] + part * np.diff(borders) for part in (0.21, 0.87)])
    n, rng = coord.size, rng_of(12)
    y, weight = rng.integers(0, 2, n), rng.integers(1, 9, n)
    some = evidence(np.zeros(n), np.full(n, -1), y, coord, weight=weight)
    mean, covariance = curve_moments(LOGISTIC, learned(LOGISTIC, ARMS, some), ARMS)
    expected = laplace(ARMS, 1, np.array([2.0, 3.0]), some)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(covariance, expected[1], rtol=1e-8, atol=1e-8)


def test_moments_of_a_box_by_hand() -> None:
    """Weight 2 at a quarter of a box and a win: Σ w·t = ½, Σ w·t² = ⅛, Σ w·t³ = 1/32."""
    borders = learned(LOGISTIC, ARMS).borders[0]
    at = 0.75 * borders[8] + 0.25 * borders[9]
    state = learned(LOGISTIC, ARMS, evidence([0], [-1], [1.0], [at], weight=[2.0]))
    np.testing.assert_allclose(state.moments[0, 8], [2.0, 0.5, 0.125, 0.03125], atol=1e-12)
    assert state.moments[0, :, 0].sum() == 2.0
    assert state.trials.sum() == 0.0
    np.testing.assert_allclose(state.wins[0], 2.0 * scaled(ARMS, 1, np.array([[at]]))[0])


@pytest.mark.parametrize(
    "name", ["beyond, degree 2", "on arms and off, degree 1", "two coordinates"]
)
def test_rows_between_arms_add_up_in_any_order(name: str) -> None:
    """One batch, a loop, another order and two merged halves; no cell shows in another."""
    arms, weights, where = BETWEEN[name]
    bandit = CurveThompson(degree=1 if len(weights) == 1 + arms.n_coords else 2)
    some = executed(arms, weights, where, 60)
    some.cell = np.arange(60) % 3
    batch = learned(bandit, arms, some)
    close(learned(bandit, arms, *(take(some, [i]) for i in range(60))), batch)
    close(learned(bandit, arms, take(some, rng_of(1).permutation(60))), batch)
    half = learned(bandit, arms, take(some, np.arange(25)))
    bandit.merge(half, learned(bandit, arms, take(some, np.arange(25, 60))))
    close(half, batch)
    for cell in range(3):
        alone = learned(bandit, arms, take(some, some.cell == cell))
        for kind in ("mean", "root"):
            np.testing.assert_array_equal(getattr(batch, kind)[cell], getattr(alone, kind)[cell])


def test_actions_beyond_the_margin_are_left_out() -> None:
    """Boxes reach four end gaps beyond the arms: 0.8 − 0.4 and 1.25 + 0.4; further is ignored."""
    for coord, counted in ((0.4, True), (0.39, False), (1.65, True), (1.66, False)):
        state = learned(LOGISTIC, ARMS, evidence([0], [-1], [1.0], [coord]))
        assert bool(state.moments.sum() > 0) is counted
        assert bool((state.wins != 0).any()) is counted


# Both links ----------------------------------------------------------------------------------

BOTH = pytest.mark.parametrize("bandit", [LOGISTIC, IDENTITY], ids=["logistic", "identity"])


def close(one: CurveState, other: CurveState) -> None:
    """Compare states: sums and means to 1e-10; the root to 1e-8, as far as Newton's last step."""
    expected = records.flatten(other)
    for name, array in records.flatten(one).items():
        tolerance = 1e-8 if name == "root" else 1e-10
        np.testing.assert_allclose(
            array, expected[name], rtol=tolerance, atol=tolerance, err_msg=name
        )


@given(
    some=evidences(4, ARMS.coords, is_class=True),
    seed=st.integers(0, 99),
    bandit=st.sampled_from([LOGISTIC, IDENTITY]),
)
@fixed
def test_batch_equals_loop_in_any_order(some: Evidence, seed: int, bandit: CurveThompson) -> None:
    """One batch, rows one by one, and rows in another order give the same posterior."""
    n = some.cell.size
    batch = learned(bandit, ARMS, some)
    close(learned(bandit, ARMS, *(take(some, [i]) for i in range(n))), batch)
    close(learned(bandit, ARMS, take(some, rng_of(seed).permutation(n))), batch)


@given(some=evidences(3, ARMS.coords, is_class=True), bandit=st.sampled_from([LOGISTIC, IDENTITY]))
@fixed
def test_other_cells_keep_their_bytes(some: Evidence, bandit: CurveThompson) -> None:
    """Cell 3 keeps its bytes, and each other cell has those of learning alone."""
    names = ("trials", "moments", "wins", "precision", "shift", "mean", "root")
    state, fresh = learned(bandit, ARMS, some), learned(bandit, ARMS)
    for name in names:
        assert bytes_of(getattr(state, name)[3]) == bytes_of(getattr(fresh, name)[3])
    for cell in range(3):
        alone = learned(bandit, ARMS, take(some, some.cell == cell))
        for name in ("mean", "root"):
            np.testing.assert_array_equal(getattr(state, name)[cell], getattr(alone, name)[cell])


@BOTH
def test_rows_without_an_arm_teach_the_curve(bandit: CurveThompson) -> None:
    """The curve reads the coordinate: whether an arm was credited makes no difference."""
    credited = learned(bandit, ARMS, evidence([0], [2], [1.0], [1.0]))
    off = learned(bandit, ARMS, evidence([0], [-1], [1.0], [1.0]))
    assert records.to_bytes(credited) == records.to_bytes(off)


@BOTH
def test_weightless_and_vetoed_rows_teach_nothing(bandit: CurveThompson) -> None:
    """Weight 0, and a NaN coordinate where nothing ran, leave the bytes."""
    state = learned(bandit, ARMS)
    before = records.to_bytes(state)
    bandit.update(state, evidence([0, 1], [0, -1], [1.0, 1.0], [0.8, np.nan], weight=[0.0, 1.0]))
    assert records.to_bytes(state) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [1.0, 1.5]}, r"the logistic link: expected outcomes in \[0, 1\], got"),
        ({"y": [1.0, np.nan]}, r"the logistic link: expected outcomes in \[0, 1\], got"),
        ({"scale": [1.0, 1.0]}, "the logistic link: learns classes and takes no reward scale"),
    ],
)
def test_bad_evidence_is_refused_whole(change: dict[str, Any], message: str) -> None:
    """A bad row is refused, and the good row beside it has not been learned either."""
    state = learned(LOGISTIC, ARMS, evidence([0], [1], [1.0], [0.9]))
    before = records.to_bytes(state)
    good: dict[str, Any] = {"cell": [0, 1], "arm": [0, 1], "y": [1, 0], "coord": [0.8, 0.9]}
    with pytest.raises(InvalidInput, match=message):
        LOGISTIC.update(state, evidence(**(good | change)))
    assert records.to_bytes(state) == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"link": "probit"}, "bandit.link: expected one of logistic, identity"),
        ({"degree": 3}, "bandit.degree: expected 1 or 2, got 3"),
        ({"degree": 2.0}, r"bandit.degree: expected 1 or 2, got 2\.0"),
        ({"degree": True}, "bandit.degree: expected 1 or 2, got True"),
        ({"prior_mean": 1.0}, r"bandit.prior_mean: expected a tuple of numbers, got 1\.0"),
        ({"noise": 0.0}, "bandit.noise: expected a number > 0"),
        ({"prior_sd": 0.0}, "bandit.prior_sd: expected a number > 0"),
        ({"prior_sd": (1.0, -1.0)}, "bandit.prior_sd: expected a number > 0"),
        ({"prior_sd": (1.0, 1.0, 1.0)}, "bandit.prior_sd: expected 2 numbers, got 3"),
        ({"prior_mean": (1.0,)}, "bandit.prior_mean: expected 2 numbers, got 1"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    """Settings that cannot work are refused by name, at the latest with the arms."""
    with pytest.raises(InvalidInput, match=message):
        CurveThompson(**settings).init(ZERO, ARMS)


def test_categories_have_no_curve() -> None:
    """Arms without a metric are refused."""
    with pytest.raises(InvalidInput, match="needs arms with a metric"):
        LOGISTIC.init(ZERO, ArmList(names=("a", "b")).build())


# The additive form ---------------------------------------------------------------------------

ADDITIVE = CurveThompson(form="additive", prior_sd=(2.0, 3.0, 1.0))
PLAIN = CurveThompson(form="additive", link="identity", prior_sd=1.7, noise=0.7)
SUM = replace(PLAIN, rebuild="sum")
FORMS = {
    "logistic": LOGISTIC,
    "identity": IDENTITY,
    "additive logistic": ADDITIVE,
    "additive identity": PLAIN,
    "sum": SUM,
}
EVERY = pytest.mark.parametrize("name", FORMS)


def with_delta(some: Evidence, seed: int = 0, q: int = 1) -> Evidence:
    """Return the rows with a δ of their own: log-normal around 1, (N, 1, q)."""
    return replace(some, delta=np.exp(0.4 * rng_of(seed).normal(size=(some.cell.size, 1, q))))


def pick(some: Evidence, index: Any) -> Evidence:
    """Return the evidence rows at `index`, with their δ."""
    return replace(take(some, index), delta=None if some.delta is None else some.delta[index])


def located(coord: Array) -> Located:
    """Return actions (N, M, C) that lie nearest to no arm in particular."""
    return Located(np.zeros(coord.shape[:2], dtype=np.int64), coord, lambda: coord[..., 0] * 0)


def test_additive_product_by_hand() -> None:
    """Arms 1 and 3 (middle 2, half-width 1), prior sd 1, noise 1; c = 2 under δ = e, r = 3.

    Action 2e, scaled u = 2e − 2; ℓ = 1. With φ = (1, u, 1) the mean is 3φ/(1 + φᵀφ). At c = 1
    under δ = e² it expects φ′ᵀmean with φ′ = (1, e² − 2, 2).
    """
    arms = ArmList(values=(1.0, 3.0)).build()
    bandit = CurveThompson(link="identity", form="additive", prior_sd=1.0)
    row = replace(evidence([0], [-1], [3.0], [2.0]), delta=np.full((1, 1, 1), np.e))
    state = learned(bandit, arms, row)
    phi = np.array([1.0, 2 * np.e - 2.0, 1.0])
    np.testing.assert_allclose(state.mean[0], 3 * phi / (1 + phi @ phi), rtol=1e-12)
    there = np.array([1.0, np.e**2 - 2.0, 2.0])
    at = Setting(ZERO, None, np.full((1, 1, 1), np.e**2))
    found = bandit.mean(state, at, arms.nominal)[0, 0]
    assert found == pytest.approx(there @ state.mean[0], rel=1e-12)


def test_additive_sum_by_hand() -> None:
    """Arms −2 and 2 (half-width 2), prior sd 1, noise 1; c = 1 under δ = 1, r = 4.

    Action 2, scaled 1; ℓ = δ/2 = ½. φ = (1, 1, ½), φᵀφ = 9/4, mean = 4φ/(13/4) = 16/13·φ. At
    c = 0 under δ = −2: φ′ = (1, −1, −1), so −8/13.
    """
    arms = ArmList(values=(-2.0, 2.0)).build()
    bandit = CurveThompson(link="identity", form="additive", rebuild="sum", prior_sd=1.0)
    row = replace(evidence([0], [-1], [4.0], [1.0]), delta=np.ones((1, 1, 1)))
    state = learned(bandit, arms, row)
    np.testing.assert_allclose(state.mean[0], np.array([16.0, 16.0, 8.0]) / 13, rtol=1e-12)
    at = Setting(ZERO, None, np.full((1, 1, 1), -2.0))
    assert bandit.mean(state, at, located(np.zeros((1, 1, 1))))[0, 0] == pytest.approx(-8 / 13)


def additive_design(arms: Arms, bandit: CurveThompson, some: Evidence) -> Array:
    """Return (1, u, u², ℓ) of the rows, written out apart; δ acts on the first q coordinates."""
    assert some.delta is not None
    n, c = some.coord.shape
    delta = np.full((n, c), 1.0 if bandit.rebuild == "product" else 0.0)
    delta[:, : some.delta.shape[2]] = some.delta[:, 0]
    e = some.coord * delta if bandit.rebuild == "product" else some.coord + delta
    width = (arms.coords.max(axis=0) - arms.coords.min(axis=0)) / 2
    offset = np.log(delta) if bandit.rebuild == "product" else delta / width
    return np.concatenate((scaled(arms, bandit.degree, e), offset), axis=1)


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("rebuild", ["product", "sum"])
@pytest.mark.parametrize("degree", [1, 2])
def test_additive_identity_is_bayesian_linear_regression(degree: int, rebuild: str, q: int) -> None:
    """Mean and covariance of the coefficients are those of normal equations, to 1e-8; a δ with
    fewer columns than coordinates leaves the later ones alone."""
    arms = Grid({"A": (0.5, 1.0, 2.0), "B": (1.0, 2.0, 3.0)}).build()
    bandit = replace(PLAIN, degree=degree, rebuild=rebuild)
    some = with_delta(some_evidence(arms, 60, 5, is_class=False, at_arms=False), 6, q)
    some.scale = rng_of(4).uniform(0.3, 2.0, 60)
    state = learned(bandit, arms, some)
    root = np.sqrt(some.weight) / 0.7
    design = (root * some.scale)[:, None] * additive_design(arms, bandit, some)
    precision = design.T @ design + np.eye(design.shape[1]) / 1.7**2
    weights = np.linalg.solve(precision, design.T @ (root * some.y))
    np.testing.assert_allclose(state.mean[0], weights, rtol=1e-8, atol=1e-8)
    covariance = state.root[0] @ state.root[0].T
    np.testing.assert_allclose(covariance, np.linalg.inv(precision), rtol=1e-8, atol=1e-8)
    at = Setting(np.zeros(60, dtype=np.int64), None, some.delta)
    found = bandit.mean(state, at, located(some.coord[:, None]))[:, 0]
    expected = additive_design(arms, bandit, some) @ weights
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def test_additive_logistic_follows_its_rows_one_by_one() -> None:
    """The posterior is LogisticPosterior's on (1, u, ℓ), and near the mode of all rows.

    Row by row it is an approximation: within 0.2 posterior standard deviations of the exact mode
    over 200 rows, and the standard deviations within 10 %.
    """
    rng = rng_of(15)
    some = with_delta(some_evidence(ARMS, 200, 14, is_class=True, at_arms=True), 13)
    design = additive_design(ARMS, ADDITIVE, some)
    some.y = (rng.uniform(size=200) < special.expit(design @ [0.3, -1.0, 0.8])).astype(float)
    state = learned(ADDITIVE, ARMS, some)
    prior = np.array([2.0, 3.0, 1.0])
    by_row = LogisticPosterior.prior(1, np.zeros(3), prior)
    by_row.observe(np.zeros(200, dtype=np.int64), design, some.y, some.weight)
    np.testing.assert_allclose(state.mean[0], by_row.mean[0], rtol=1e-9, atol=1e-12)
    exact = LogisticPosterior.fit(design, some.y, some.weight, 0.0, prior**-2)
    sd = np.sqrt(np.diag(exact.covariance[0]))
    assert np.abs((state.mean[0] - exact.mean[0]) / sd).max() < 0.2
    mine = np.sqrt(np.diag(state.root[0] @ state.root[0].T))
    np.testing.assert_allclose(mine, sd, rtol=0.1)


@pytest.mark.parametrize("name", ["additive logistic", "additive identity", "sum"])
def test_a_drawn_curve_is_a_function_of_the_coordinate(name: str) -> None:
    """A draw with no spread equals the mean, and both read δ only through the row's own curve."""
    bandit = FORMS[name]
    some = with_delta(some_evidence(ARMS, 30, 2, is_class=True, at_arms=False), 3)
    state = learned(bandit, ARMS, some)
    at = Setting(np.zeros(7, dtype=np.int64), None, with_delta(take(some, range(7))).delta)
    state.root[:] = 0.0
    draw = bandit.draw(stream(1), state, at)
    there = located(rng_of(8).uniform(0.5, 1.5, size=(7, 4, 1)))
    np.testing.assert_allclose(bandit.value(draw, there), bandit.mean(state, at, there), rtol=1e-12)
    nominal = bandit.value(draw, ARMS.nominal)
    assert nominal.shape == (7, 5)
    on_arms = located(np.tile(ARMS.coords, (7, 1, 1)))
    np.testing.assert_array_equal(nominal, bandit.value(draw, on_arms))
    assert np.unique(nominal[:, 0]).size == 7


@EVERY
def test_rows_do_not_depend_on_the_rows_beside_them(name: str) -> None:
    """Draws, means and predictive densities of row i are the same bytes alone and in a batch."""
    bandit, n = FORMS[name], 6
    some = with_delta(some_evidence(ARMS, 40, 2, is_class=True, at_arms=False), 3)
    some.cell = rng_of(5).integers(0, 4, 40)
    state = learned(bandit, ARMS, some)
    few = pick(some, range(n))
    few.weight = np.ones(n)
    at = Setting(few.cell, None, few.delta)
    there = located(few.coord[:, None])
    draw = bandit.draw(stream(3, 1), state, at)
    value, mean = bandit.value(draw, there), bandit.mean(state, at, there)
    density = bandit.predictive(state, few)
    for i in range(n):
        assert few.delta is not None
        one, here = Setting(few.cell[[i]], None, few.delta[[i]]), located(few.coord[[i]][:, None])
        assert bytes_of(bandit.mean(state, one, here)) == bytes_of(mean[[i]])
        assert bytes_of(bandit.predictive(state, pick(few, [i]))) == bytes_of(density[[i]])
        assert bytes_of(bandit.value(draw[[i]], here)) == bytes_of(value[[i]])
    shorter = bandit.draw(stream(3, 1), state, Setting(few.cell[:2], None, at.delta[:2]))  # type: ignore[index]
    assert bytes_of(shorter) == bytes_of(draw[:2])


@given(some=evidences(4, ARMS.coords, is_class=True), name=st.sampled_from(sorted(FORMS)))
@fixed
def test_batch_equals_loop_in_every_form(some: Evidence, name: str) -> None:
    """One batch equals its rows one by one, in their order."""
    some, bandit = with_delta(some), FORMS[name]
    batch = learned(bandit, ARMS, some)
    close(learned(bandit, ARMS, *(pick(some, [i]) for i in range(some.cell.size))), batch)


@pytest.mark.parametrize(
    ("delta", "message"),
    [
        (None, "the additive form needs δ, got none"),
        (np.ones((2, 5, 1)), r"expected δ of shape \(2, 1, 1 to 1\).*got \(2, 5, 1\)"),
        (np.ones((2, 1, 2)), r"got \(2, 1, 2\)"),
        (np.array([1.0, 0.0]).reshape(2, 1, 1), "expected δ of finite numbers > 0"),
        (np.array([1.0, np.nan]).reshape(2, 1, 1), "expected δ of finite numbers > 0"),
    ],
)
@pytest.mark.parametrize("name", ["additive logistic", "additive identity"])
def test_bad_delta_is_refused_whole(name: str, delta: Any, message: str) -> None:
    """Without a δ a row, or with one an arm, nothing is drawn, scored or learned."""
    bandit = FORMS[name]
    state = learned(bandit, ARMS)
    before = records.to_bytes(state)
    rows = replace(evidence([0, 1], [0, 1], [1.0, 0.0], [0.8, 0.9]), delta=delta)
    at = Setting(rows.cell, None, delta)
    for act in (
        lambda: bandit.update(state, rows),
        lambda: bandit.predictive(state, rows),
        lambda: bandit.draw(stream(1), state, at),
        lambda: bandit.mean(state, at, ARMS.nominal),
    ):
        with pytest.raises(InvalidInput, match=message):
            act()
    assert records.to_bytes(state) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [1.0, np.inf]}, "CurveThompson: expected finite rewards"),
        ({"scale": [1.0, np.nan]}, r"CurveThompson: expected finite scales s\(x\) > 0"),
        ({"scale": [1.0, -1.0]}, r"CurveThompson: expected finite scales s\(x\) > 0"),
        ({"weight": [1.0, -1.0]}, "CurveThompson: expected finite weights >= 0"),
    ],
)
@pytest.mark.parametrize("name", ["identity", "additive identity"])
def test_rewards_must_be_finite(name: str, change: dict[str, Any], message: str) -> None:
    """A reward or scale that cannot be is refused, and the good row beside it is not learned."""
    state = learned(FORMS[name], ARMS)
    before = records.to_bytes(state)
    good: dict[str, Any] = {"cell": [0, 1], "arm": [0, 1], "y": [1, 0], "coord": [0.8, 0.9]}
    rows = with_delta(evidence(**(good | change)))
    for act in (FORMS[name].update, FORMS[name].predictive, FORMS[name].prequential):
        with pytest.raises(InvalidInput, match=message):
            act(state, rows)
    assert records.to_bytes(state) == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"form": "power"}, "bandit.form: expected one of relative, additive"),
        ({"rebuild": "ratio"}, "bandit.rebuild: expected one of product, sum"),
        ({"form": "additive", "prior_sd": (1.0, 1.0)}, "bandit.prior_sd: expected 3 numbers"),
    ],
)
def test_bad_forms_are_refused(settings: dict[str, Any], message: str) -> None:
    """The additive form has one coefficient more a coordinate."""
    with pytest.raises(InvalidInput, match=message):
        CurveThompson(**settings).init(ZERO, ARMS)


def test_only_the_additive_form_rebuilds_actions() -> None:
    """It says how, so that an instance can compare that with its composition."""
    expected = [None, None, "product", "product", "sum"]
    assert [bandit.rebuilds for bandit in FORMS.values()] == expected


def test_only_the_additive_form_reads_delta() -> None:
    """A relative curve never asks for δ."""
    assert [set(bandit.reads) for bandit in FORMS.values()] == [set(), set(), *[{"delta"}] * 3]


# Decay, merge, predictive --------------------------------------------------------------------


@EVERY
def test_decay_counts_evidence_by_its_share(name: str) -> None:
    """Sums: keeping 0.3 equals rows of 0.3 times the weight. The recursive posterior: natural
    parameters move to 0.3 of their way from the prior. Other cells keep their bytes."""
    bandit = FORMS[name]
    some = with_delta(some_evidence(ARMS, 30, 21, is_class=True, at_arms=True), 22)
    state, fresh = (
        learned(bandit, ARMS, some, replace(some, cell=some.cell + 1)),
        learned(bandit, ARMS),
    )
    before = records.copy(state)
    bandit.decay(state, 0.3, ZERO)
    if name == "additive logistic":
        natural = [np.linalg.inv(s.root[0] @ s.root[0].T) for s in (fresh, before, state)]
        expected = natural[0] + 0.3 * (natural[1] - natural[0])
        np.testing.assert_allclose(natural[2], expected, rtol=1e-9, atol=1e-9)
        pull = 0.3 * natural[1] @ before.mean[0]  # the prior's own mean is 0
        np.testing.assert_allclose(natural[2] @ state.mean[0], pull, rtol=1e-8, atol=1e-9)
    else:
        less = learned(bandit, ARMS, replace(some, weight=0.3 * some.weight))
        np.testing.assert_allclose(state.mean[0], less.mean[0], rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(state.root[0], less.root[0], rtol=1e-7, atol=1e-8)
    assert bytes_of(state.mean[1], state.root[1]) == bytes_of(before.mean[1], before.root[1])
    bandit.decay(state, 0.0, np.arange(4))
    np.testing.assert_allclose(state.mean, fresh.mean, atol=1e-8)
    np.testing.assert_allclose(
        state.root @ state.root.swapaxes(1, 2), fresh.root @ fresh.root.swapaxes(1, 2), rtol=1e-7
    )


@EVERY
def test_merge_counts_the_prior_once(name: str) -> None:
    """Two halves merged equal the whole; a posterior that follows its rows has no merge at all."""
    bandit = FORMS[name]
    some = with_delta(some_evidence(ARMS, 60, 23, is_class=True, at_arms=True), 24)
    whole = learned(bandit, ARMS, some)
    merged, other = (learned(bandit, ARMS, pick(some, slice(i, None, 2))) for i in (0, 1))
    if name == "additive logistic":
        assert "merge" not in bandit.supports
        assert not hasattr(bandit, "merge")
        return
    bandit.merge(merged, other)
    close(merged, whole)
    with pytest.raises(InvalidInput, match="merge: expected a state"):
        bandit.merge(merged, bandit.init(ZERO, ARMS))
    moved = ArmList(values=tuple(0.1 + ARMS.coords[:, 0])).build()
    with pytest.raises(InvalidInput, match="merge: expected a state over the same arms"):
        bandit.merge(merged, learned(bandit, moved))


def test_nodes_of_other_arms_do_not_merge() -> None:
    """Arms between the same ends, as many of them, but elsewhere: counts stand at other places."""
    arms, other = (ArmList(values=(0.0, inner, 1.0)).build() for inner in (0.5, 0.3))
    state = learned(LOGISTIC, arms)
    before = records.to_bytes(state)
    with pytest.raises(InvalidInput, match="merge: expected a state over the same arms"):
        LOGISTIC.merge(state, learned(LOGISTIC, other))
    assert records.to_bytes(state) == before


def test_predictive_density_by_hand() -> None:
    """Arms ∓1, prior sd 1, noise 2, scale ½: at c = 1 r ~ N(0, ¼·2 + 4)."""
    arms = ArmList(values=(-1.0, 1.0)).build()
    bandit = CurveThompson(link="identity", prior_sd=1.0, noise=2.0)
    row = evidence([0], [1], [3.0], [1.0], scale=[0.5])
    found = bandit.predictive(learned(bandit, arms), row)[0]
    assert found == pytest.approx(stats.norm(0, np.sqrt(4.5)).logpdf(3.0), rel=1e-12)


@pytest.mark.parametrize("name", ["logistic", "additive logistic"])
def test_predictive_probability_is_the_integral(name: str) -> None:
    """P(y = 1) is E σ(η) under the posterior, as SciPy's quadrature has it, to 1e-5."""
    bandit = FORMS[name]
    some = with_delta(some_evidence(ARMS, 12, 31, is_class=True, at_arms=True), 32)
    state = learned(bandit, ARMS, some)
    density = bandit.predictive(state, some)
    other = bandit.predictive(state, replace(some, y=1 - some.y))
    np.testing.assert_allclose(np.exp(density) + np.exp(other), 1.0, rtol=1e-12)
    for i in range(12):
        if name == "logistic":
            phi = scaled(ARMS, 1, some.coord[[i]])[0]
        else:
            phi = additive_design(ARMS, bandit, pick(some, [i]))[0]
        law = stats.norm(phi @ state.mean[0], np.linalg.norm(phi @ state.root[0]))
        sign = 2 * some.y[i] - 1
        expected, _ = integrate.quad(
            lambda z, law=law, sign=sign: law.pdf(z) * special.expit(sign * z),
            *law.interval(1 - 1e-13),
        )
        assert np.exp(density[i]) == pytest.approx(expected, abs=1e-5)


@EVERY
def test_predictive_changes_nothing_and_knows_no_void(name: str) -> None:
    """Scoring leaves the bytes; where nothing ran the density is NaN."""
    bandit = FORMS[name]
    some = with_delta(evidence([0, 1], [0, -1], [1.0, 1.0], [0.8, np.nan]))
    state = learned(bandit, ARMS, some)
    before = records.to_bytes(state)
    found = bandit.predictive(state, some)
    assert np.isfinite(found[0])
    assert np.isnan(found[1])
    assert records.to_bytes(state) == before


@pytest.mark.parametrize("name", ["logistic", "additive logistic"])
def test_the_mean_is_the_mean_of_the_draws(name: str) -> None:
    """Few rows, a wide posterior: 40,000 draws average to the mean, five arms within 4.5 errors."""
    bandit = replace(FORMS[name], prior_mean=(2.0, 0.5, 0.1)[: 2 if name == "logistic" else 3])
    some = with_delta(some_evidence(ARMS, 6, 51, is_class=True, at_arms=True), 52)
    state, n = learned(bandit, ARMS, some), 40_000
    at = Setting(np.zeros(n, dtype=np.int64), None, np.full((n, 1, 1), 1.2))
    value = bandit.value(bandit.draw(stream(6, 500), state, at), ARMS.nominal)
    mean = bandit.mean(state, Setting(ZERO, None, np.full((1, 1, 1), 1.2)), ARMS.nominal)[0]
    error = value.std(axis=0) / np.sqrt(n)
    assert (np.abs(value.mean(axis=0) - mean) < 4.5 * error).all()


@EVERY
def test_scored_on_the_way_is_scored_row_by_row(name: str) -> None:
    """150 rows of cell 2, some of which did not run: densities and states are those of a loop."""
    bandit = FORMS[name]
    some = with_delta(some_evidence(ARMS, 150, 61, is_class=True, at_arms=False), 62)
    some.cell[:] = 2
    some.coord[[3, 70]] = np.nan
    some.coord[20] = 5.0  # beyond the margin
    some.weight[:] = rng_of(63).uniform(0.5, 2.0, 150)
    if bandit.link == "identity":
        some.scale = rng_of(64).uniform(0.5, 2.0, 150)
    together, loop = learned(bandit, ARMS), learned(bandit, ARMS)
    found, expected = bandit.prequential(together, some), np.empty(150)
    for i in range(150):
        expected[i] = bandit.predictive(loop, pick(some, [i]))[0]
        bandit.update(loop, pick(some, [i]))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)
    assert np.isnan(found).sum() == 2
    for part, array in records.flatten(loop).items():
        np.testing.assert_allclose(
            records.flatten(together)[part], array, rtol=1e-7, atol=1e-8, err_msg=part
        )


def rare(n: int, seed: int) -> Evidence:
    """Return n rows whose outcome is 1 about once in twelve."""
    some = with_delta(some_evidence(ARMS, n, seed, is_class=True, at_arms=True), seed + 1)
    design = additive_design(ARMS, ADDITIVE, some)
    chance = special.expit(design @ [-2.5, -0.5, 0.5])
    some.weight[:] = 1.0
    some.y = (rng_of(seed + 2).uniform(size=n) < chance).astype(float)
    return some


def test_refit_is_the_exact_mode_where_outcomes_are_rare() -> None:
    """Row by row the intercept is off by more than 0.2 posterior sd in the mean of 20 logs of 400
    rows, always to the same side; fitted anew it is the mode to 1e-8."""
    prior, gaps = np.array([2.0, 3.0, 1.0]), []
    for seed in range(20):
        some = rare(400, 100 + 3 * seed)
        design = additive_design(ARMS, ADDITIVE, some)
        exact = LogisticPosterior.fit(design, some.y, None, 0.0, prior**-2)
        state = learned(ADDITIVE, ARMS, some)
        gaps.append((state.mean[0] - exact.mean[0])[0] / np.sqrt(exact.covariance[0, 0, 0]))
        ADDITIVE.refit(state, some)
        np.testing.assert_allclose(state.mean[0], exact.mean[0], rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(
            state.root[0] @ state.root[0].T, exact.covariance[0], rtol=1e-8, atol=1e-10
        )
    assert np.mean(gaps) > 0.2


def test_refit_replaces_the_cells_among_its_rows_only() -> None:
    """Each cell is fitted bit for bit as alone, and to 1e-9 as from the prior; one whose rows say
    nothing returns to the prior; others keep their bytes. Sums have nothing to fit anew."""
    some = rare(120, 7)
    some.cell = rng_of(8).integers(0, 2, 120)
    state = learned(ADDITIVE, ARMS, some, replace(some, cell=some.cell + 2))
    kept, before = bytes_of(state.mean[3], state.root[3]), records.copy(state)
    void = replace(pick(some, [0]), cell=np.array([2]), weight=np.zeros(1))
    both = [some, void]
    names = ("cell", "arm", "coord", "y", "weight", "delta")
    columns = {name: np.concatenate([getattr(part, name) for part in both]) for name in names}
    ADDITIVE.refit(state, replace(some, **columns))
    fresh = learned(ADDITIVE, ARMS)
    assert bytes_of(state.mean[3], state.root[3]) == kept
    assert bytes_of(state.mean[2], state.root[2]) == bytes_of(fresh.mean[2], fresh.root[2])
    for cell in (0, 1):
        alone = records.copy(before)
        ADDITIVE.refit(alone, pick(some, some.cell == cell))
        assert bytes_of(state.mean[cell], state.root[cell]) == bytes_of(
            alone.mean[cell], alone.root[cell]
        )
        afresh = learned(ADDITIVE, ARMS)
        ADDITIVE.refit(afresh, pick(some, some.cell == cell))
        np.testing.assert_allclose(state.mean[cell], afresh.mean[cell], rtol=0, atol=1e-9)
    for name, bandit in FORMS.items():
        assert ("refit" in bandit.supports) is (name == "additive logistic")
        assert hasattr(bandit, "refit") is (name == "additive logistic")


def test_a_refused_refit_changes_nothing() -> None:
    """An outcome of 2 in the last of two cells."""
    some = rare(30, 9)
    state = learned(ADDITIVE, ARMS, some)
    before = records.to_bytes(state)
    bad = replace(some, cell=np.arange(30) // 29, y=np.append(some.y[:-1], 2.0))
    with pytest.raises(InvalidInput, match=r"expected outcomes in \[0, 1\]"):
        ADDITIVE.refit(state, bad)
    assert records.to_bytes(state) == before


@EVERY
def test_a_row_left_out_is_a_fit_without_it(name: str) -> None:
    """Log densities of 25 rows under what all others teach: to 1e-9 for the identity link, scale
    and weights of up to 3 included; for the logistic link to 0.05, half of them to 0.002."""
    bandit, is_class = FORMS[name], FORMS[name].link == "logistic"
    some = with_delta(some_evidence(ARMS, 60, 50, is_class=is_class, at_arms=True), 51)
    if not is_class:
        some.scale = rng_of(52).uniform(0.3, 2.0, 60)
    fresh, fit = learned(bandit, ARMS), getattr(bandit, "refit", bandit.update)
    state = records.copy(fresh)
    fit(state, some)
    found, off = bandit.leave_one_out(state, some), []
    for i in range(25):
        other = records.copy(fresh)
        fit(other, pick(some, np.arange(60) != i))
        off.append(abs(found[i] - bandit.predictive(other, pick(some, [i]))[0]))
    assert max(off) < (0.05 if is_class else 1e-9)
    assert np.median(off) < 2e-3
    gained = bandit.predictive(state, some) - found
    assert (gained[some.weight > 0.0] > 0.0).all()
    np.testing.assert_allclose(gained[some.weight == 0.0], 0.0, atol=1e-12)


def test_what_was_never_learned_is_not_left_out() -> None:
    """Beyond the margin of the nodes and without a coordinate: the prediction itself, and NaN."""
    some = evidence([0, 0, 0], [-1, -1, -1], [1.0, 0.0, 1.0], [0.95, 9.0, np.nan])
    state = learned(LOGISTIC, ARMS, some)
    found, told = LOGISTIC.leave_one_out(state, some), LOGISTIC.predictive(state, some)
    assert found[0] < told[0] - 0.01
    assert found[1] == pytest.approx(told[1], abs=1e-14)
    assert np.isnan(found[2])


@EVERY
def test_states_come_back_from_bytes(name: str) -> None:
    """A state written and read has the same bytes again."""
    bandit = FORMS[name]
    some = with_delta(some_evidence(ARMS, 9, 41, is_class=True, at_arms=True), 42)
    state = learned(bandit, ARMS, some)
    data = records.to_bytes(state)
    assert records.to_bytes(records.from_bytes(data, learned(bandit, ARMS))) == data


@EVERY
def test_keeps_what_bandits_promise(name: str) -> None:
    """The conformance list, in every form."""
    assert report(FORMS[name]).is_conforming, str(report(FORMS[name]))


@pytest.mark.parametrize(("link", "target"), [("logistic", "class"), ("identity", "any")])
def test_the_link_says_what_is_learned(link: str, target: str) -> None:
    """Rewards of any size are not for a logistic curve."""
    assert CurveThompson(link=link).target == target
