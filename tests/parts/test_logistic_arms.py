"""Categories with weights of their own: logistic rewards, and a person's taste."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from gdcb import checks
from gdcb.arms import ArmList
from gdcb.arrays import Array, logistic
from gdcb.bandits import LinearThompson, LogisticThompson, SharedLinearThompson
from gdcb.bandits.logistic_arms import BradleyTerryArmsThompson, LogisticArmsThompson
from gdcb.errors import InvalidInput
from gdcb.logistic import LogisticPosterior
from gdcb.records import Evidence, Setting, to_bytes
from tests.parts.builders import fixed, rng_of, stream

ARMS = ArmList(names=("allow", "warn", "remove")).build()
ZERO = np.zeros(1, dtype=np.int64)
LOGISTIC = LogisticArmsThompson(features=(0, 1), prior_sd=1.5)
TASTE = BradleyTerryArmsThompson(features=(0, 1), prior_sd=1.5, rival=2)
BOTH = pytest.mark.parametrize("bandit", [LOGISTIC, TASTE], ids=["logistic", "taste"])


def seen(seed: int, n: int, cells: int = 1) -> Evidence:
    """Return rows over all arms; the third column is a rival."""
    rng = rng_of(seed)
    x = rng.normal(size=(n, 3))
    x[:, 2] = rng.integers(3, size=n)
    arm = rng.integers(3, size=n)
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-x[:, 0] * (arm - 1.0)))).astype(float)
    weight = rng.uniform(0.2, 2.0, n)
    return Evidence(rng.integers(cells, size=n), arm, arm[:, None] * 1.0, y, None, weight, x)


def take(some: Evidence, index: Any) -> Evidence:
    assert some.x is not None
    columns = (some.cell[index], some.arm[index], some.coord[index], some.y[index])
    return Evidence(*columns, None, some.weight[index], some.x[index])


def phi_of(some: Evidence) -> Array:
    assert some.x is not None
    return np.concatenate((np.ones((some.x.shape[0], 1)), some.x[:, :2]), axis=1)


def test_every_arm_is_a_logistic_regression_of_its_own() -> None:
    """Row by row as `LogisticPosterior` has it; a refit is scikit-learn's mode under the ridge."""
    some = seen(1, 240)
    state = LOGISTIC.init(ZERO, ARMS)
    LOGISTIC.update(state, some)
    for a in range(3):
        mine = take(some, some.arm == a)
        one = LogisticPosterior.prior(1, np.zeros(3), np.full(3, 1.5))
        one.observe(np.zeros(mine.y.size, dtype=int), phi_of(mine), mine.y, mine.weight)
        assert state.mean[0, a] == pytest.approx(one.mean[0], abs=1e-12)
        assert state.root[0, a] == pytest.approx(one.root[0], abs=1e-12)
    LOGISTIC.refit(state, some)
    for a in range(3):
        mine = take(some, some.arm == a)
        fit = LogisticRegression(C=1.5**2, fit_intercept=False, tol=1e-10, max_iter=1000)
        fit.fit(phi_of(mine), mine.y, sample_weight=mine.weight)
        assert state.mean[0, a] == pytest.approx(fit.coef_[0], abs=1e-6)


def test_a_comparison_moves_both_arms_as_their_joint_posterior_does() -> None:
    """One row, arms 0 and 1: the Laplace posterior of both together, its blocks on the diagonal."""
    x = np.array([[0.5, -1.0, 1.0]])
    row = Evidence(ZERO, ZERO, np.zeros((1, 1)), np.ones(1), None, np.array([1.7]), x)
    state = TASTE.init(ZERO, ARMS)
    TASTE.update(state, row)
    phi = phi_of(row)
    joint = LogisticPosterior.prior(1, np.zeros(6), np.full(6, 1.5))
    joint.observe(ZERO, np.concatenate((phi, -phi), axis=1), row.y, row.weight)
    assert state.mean[0, :2].ravel() == pytest.approx(joint.mean[0], abs=1e-12)
    whole = joint.covariance[0]
    for a, block in ((0, whole[:3, :3]), (1, whole[3:, 3:])):
        assert state.root[0, a] @ state.root[0, a].T == pytest.approx(block, abs=1e-12)
    assert (state.mean[0, 2] == 0.0).all()  # nobody was asked about the third


def test_an_arm_beside_itself_says_nothing() -> None:
    x = np.array([[0.5, -1.0, 2.0]])
    state = TASTE.init(ZERO, ARMS)
    before = to_bytes(state)
    TASTE.update(state, Evidence(ZERO, ZERO + 2, np.ones((1, 1)), np.ones(1), None, np.ones(1), x))
    assert to_bytes(state) == before


def test_it_learns_whom_a_person_prefers() -> None:
    """Likes 'remove' where x₀ > 0, else 'allow': after 600 answers it says so, in 9 rows of 10."""
    rng = rng_of(5)
    n = 600
    x = rng.normal(size=(n, 3))
    x[:, 2] = rng.integers(3, size=n)
    arm, own = rng.integers(3, size=n), np.where(x[:, 0] > 0, 2, 0)
    better = 2.0 * ((arm == own) * 1.0 - (x[:, 2] == own))
    y = (rng.uniform(size=n) < logistic(better)).astype(float)
    state = TASTE.init(ZERO, ARMS)
    TASTE.update(state, Evidence(0 * arm, arm, arm[:, None] * 1.0, y, None, np.ones(n), x))
    asked = rng.normal(size=(400, 3))
    asked[:, 2] = rng.integers(3, size=400)
    mean = TASTE.mean(state, Setting(np.zeros(400, dtype=int), asked), ARMS.nominal)
    liked = np.where(asked[:, 0] > 0, 2, 0)
    assert (mean.argmax(axis=1) == liked).mean() > 0.9
    at_rival = np.take_along_axis(mean, asked[:, 2].astype(int)[:, None], axis=1)
    assert at_rival == pytest.approx(np.full((400, 1), 0.5))


@BOTH
@fixed
@given(seed=st.integers(0, 10_000), cells=st.integers(1, 4))
def test_a_batch_is_a_loop_and_cells_are_apart(bandit: Any, seed: int, cells: int) -> None:
    some = seen(seed, 24, cells)
    whole, loop = (bandit.init(np.arange(cells), ARMS) for _ in range(2))
    bandit.update(whole, some)
    for i in range(24):
        bandit.update(loop, take(some, [i]))
    assert to_bytes(whole) == to_bytes(loop)
    alone = bandit.init(ZERO, ARMS)
    mine = take(some, some.cell == 0)
    bandit.update(alone, mine)
    assert alone.mean[0].tobytes() == whole.mean[0].tobytes()


@BOTH
def test_a_row_s_draw_does_not_see_its_neighbours(bandit: Any) -> None:
    some = seen(3, 80, 4)
    state = bandit.init(np.arange(4), ARMS)
    bandit.update(state, some)
    assert some.x is not None
    at = Setting(np.arange(4), some.x[:4])
    whole = bandit.draw(stream(1), state, at)
    few = bandit.draw(stream(1), state, Setting(np.arange(2), some.x[:2]))
    assert whole[:2].tobytes() == few.tobytes()


def test_the_conformance_list() -> None:
    checks.check(LogisticArmsThompson())
    checks.check(LogisticArmsThompson(prior_sd=0.7, width=2.0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior_sd": 0.0}, r"bandit\.prior_sd: expected a number > 0"),
        ({"width": -1.0}, r"bandit\.width: expected a number >= 0"),
        ({"features": "a"}, r"bandit\.features: expected a tuple"),
        ({"prior_mean": (np.nan,)}, r"bandit\.prior_mean"),
        ({"centre": (1.0,), "features": (0, 1)}, r"bandit\.centre: expected 2 numbers"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    for kind in (LogisticArmsThompson, BradleyTerryArmsThompson):
        with pytest.raises(InvalidInput, match=message):
            kind(**settings).init(ZERO, ARMS)


@BOTH
def test_bad_rows_are_refused_and_change_nothing(bandit: Any) -> None:
    state = bandit.init(ZERO, ARMS)
    before = to_bytes(state)
    good = seen(1, 1)
    assert good.x is not None
    for name, value in (
        ("y", np.array([1.5])),
        ("scale", np.ones(1)),
        ("x", np.array([[np.inf, 0.0, 1.0]])),
        ("x", None),
    ):
        columns = {
            "cell": good.cell,
            "arm": good.arm,
            "coord": good.coord,
            "y": good.y,
            "scale": None,
            "weight": good.weight,
            "x": good.x,
        } | {name: value}
        with pytest.raises(InvalidInput):
            bandit.update(state, Evidence(**columns))
        assert to_bytes(state) == before


@pytest.mark.parametrize("rival", [-1.0, 3.0, 0.5, np.nan])
def test_a_rival_that_is_no_category_is_refused(rival: float) -> None:
    state = TASTE.init(ZERO, ARMS)
    x = np.array([[0.0, 0.0, rival]])
    with pytest.raises(InvalidInput, match="expected rivals from 0 to 2, got"):
        TASTE.draw(stream(1), state, Setting(ZERO, x))
    for name in (None, True):
        with pytest.raises(InvalidInput, match=r"bandit\.rival: expected a context column"):
            BradleyTerryArmsThompson(rival=name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "kind", [LinearThompson, LogisticArmsThompson, SharedLinearThompson, LogisticThompson]
)
def test_a_centre_is_taken_off_the_columns(kind: Any) -> None:
    """The same as if the context came without it."""
    arms = ArmList(values=(1.0, 2.0, 4.0)).build()
    some = seen(4, 30)
    assert some.x is not None
    columns = (some.cell, some.arm, arms.coords[some.arm], some.y, None, some.weight)
    plain, less = kind(features=(0, 1)), kind(features=(0, 1), centre=(2.0, -1.0))
    states = [bandit.init(ZERO, arms) for bandit in (plain, less)]
    plain.update(states[0], Evidence(*columns, some.x - np.array([2.0, -1.0, 0.0])))
    less.update(states[1], Evidence(*columns, some.x))
    at = np.array([[0.3, 0.4, 0.0]])
    means = [
        plain.mean(states[0], Setting(ZERO, at - np.array([2.0, -1.0, 0.0])), arms.nominal),
        less.mean(states[1], Setting(ZERO, at), arms.nominal),
    ]
    assert means[0] == pytest.approx(means[1], abs=1e-12)
