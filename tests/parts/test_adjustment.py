"""Adjusted updates on samples that no learner chose: means preserved, variance at its limit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gdcb.adjustment import Adjustment
from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.bandits import HierarchicalThompson
from gdcb.composition import Identity
from gdcb.context import Number, Schema
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.records import Evidence
from gdcb.rewards import Payoff
from tests.parts.builders import rng_of

VALUES = np.array([1.0, 1.5, 3.0])
SLOPES = np.array([2.0, -1.0, 0.5])
NOISE = 0.5
REFERENCE = rng_of(99).normal(size=(4000, 1))
ADJUST = Adjustment(reference=tuple(map(tuple, REFERENCE.tolist())), features=(0,), penalty=1e-6)
MANY = 400  # replicates


def sample(seed: int, n: int, tilted: bool, curved: bool = False) -> tuple[Evidence, Array, Array]:
    """Draw n rows a replicate: r = value + slope·x (+ x² − 1) + noise; arms even or by x."""
    rng = rng_of(seed)
    x = rng.normal(size=(MANY, n))
    score = np.stack([np.zeros_like(x), 0.8 * x, -0.8 * x], axis=-1) * tilted
    share = np.exp(score) / np.exp(score).sum(axis=-1, keepdims=True)
    arm = (rng.uniform(size=(MANY, n, 1)) > share.cumsum(axis=-1)).sum(axis=-1)
    r = VALUES[arm] + SLOPES[arm] * x + NOISE * rng.normal(size=(MANY, n))
    r = r + (x**2 - 1.0) * (1 + arm) * curved
    propensity = np.take_along_axis(share, arm[..., None], axis=-1)[..., 0].ravel()
    owner = np.repeat(np.arange(MANY), n)
    rows = (owner, arm.ravel(), np.zeros((owner.size, 1)), r.ravel(), None, np.ones(owner.size))
    return Evidence(*rows, x.reshape(-1, 1)), propensity, owner


def arm_means(seen: Evidence, owner: Array) -> Array:
    """Return each replicate's weighted mean of y by arm: (MANY, 3)."""
    place = owner * 3 + seen.arm
    total = np.bincount(place, seen.weight * seen.y, MANY * 3)
    return (total / np.bincount(place, seen.weight, MANY * 3)).reshape(MANY, 3)


def errors_from(found: Array, truth: Array) -> Array:
    """Return how many standard errors the mean over replicates is off."""
    return np.asarray(np.abs(found.mean(axis=0) - truth) / (found.std(axis=0) / np.sqrt(MANY)))


# The truth under the reference sample: the value, plus the slope times its mean of x.
TRUTH = VALUES + SLOPES * REFERENCE.mean()


def test_centring_preserves_the_means_and_brings_the_variance_to_its_limit() -> None:
    """Var of an arm's mean: slope² + noise² over n before; noise²/n plus m̄'s error after.

    With m̄ over a frozen reference the error of m̄ is the regression's own, noise²/n again at
    most: the limit is checked as noise²·(1 … 1.15)/n. Means within 4.5 standard errors.
    """
    n = 600
    seen, _, owner = sample(1, n, tilted=False)
    raw, adjusted = arm_means(seen, owner), arm_means(ADJUST.cross_fit(MANY, 3, owner, seen), owner)
    assert (errors_from(adjusted, TRUTH) < 4.5).all()
    assert (errors_from(raw, VALUES) < 4.5).all()
    per_arm = n / 3
    assert raw.var(axis=0) * per_arm == pytest.approx(SLOPES**2 + NOISE**2, rel=0.35)
    limit = adjusted.var(axis=0) * per_arm / NOISE**2
    # A variance over 400 replicates has a standard error of 7 %.
    assert (limit > 1 - 0.25).all()
    assert (limit < 1 + 0.35).all()


def test_the_papers_form_loses_the_means() -> None:
    """Subtracting all of m(a, x) leaves nothing of the arm: every mean tends to zero."""
    seen, _, owner = sample(2, 600, tilted=False)
    centred = arm_means(ADJUST.cross_fit(MANY, 3, owner, seen), owner)
    flat = Adjustment(reference=((0.0,),), features=(0,), penalty=1e-6)
    # m̄ of the fitted line at x = 0 is the arm's value; taking it off too is the paper's form.
    state = flat.init(MANY, 3)
    flat.learn(state, owner, seen)
    flat.publish(state, np.arange(MANY))
    prediction = state.theta[owner, seen.arm, 0] + state.theta[owner, seen.arm, 1] * _x(seen)
    paper = Evidence(
        seen.cell, seen.arm, seen.coord, seen.y - prediction, None, seen.weight, seen.x
    )
    lost = arm_means(paper, owner)
    assert np.abs(lost.mean(axis=0)).max() < 0.01
    assert (centred.mean(axis=0) > 0.9).all()


def test_where_arms_follow_the_context_the_raw_mean_is_biased_and_ours_is_not() -> None:
    seen, propensity, owner = sample(3, 600, tilted=True)
    raw = arm_means(seen, owner)
    assert (errors_from(raw, VALUES)[1:] > 20).all()
    for form in ("centred", "aipw"):
        adjust = Adjustment(ADJUST.reference, (0,), form, 1e-6)
        found = arm_means(adjust.cross_fit(MANY, 3, owner, seen, propensity), owner)
        assert (errors_from(found, TRUTH) < 4.5).all(), form


def test_a_wrong_model_needs_the_doubly_robust_form() -> None:
    """The truth bends (x² − 1) and m does not; arms follow x. Only 'aipw' keeps the means."""
    seen, propensity, owner = sample(4, 900, tilted=True, curved=True)
    truth = TRUTH + (np.arange(3) + 1) * (REFERENCE**2 - 1.0).mean()
    gaps = {}
    for form in ("centred", "aipw"):
        adjust = Adjustment(ADJUST.reference, (0,), form, 1e-6, clip=1e4)
        found = arm_means(adjust.cross_fit(MANY, 3, owner, seen, propensity), owner)
        gaps[form] = np.abs(found.mean(axis=0) - truth)
    assert gaps["centred"].max() > 0.3
    # Self-normalised, so that a bias of the order of 1/n is left.
    assert gaps["aipw"].max() < 0.2 * gaps["centred"].max()


def test_a_feature_far_from_zero_gets_no_slope_of_its_own() -> None:
    """x ~ U(90, 110) explains nothing of y = 50 + noise: the noise must not grow."""
    adjust = Adjustment(((100.0,),), (0,), every=50)
    rng, n = rng_of(7), 400
    x = rng.uniform(90, 110, (n, 1))
    y, zero = 50 + rng.normal(size=n), np.zeros(n, dtype=int)
    seen = Evidence(zero, zero, x, y, None, np.ones(n), x)
    assert adjust.cross_fit(1, 1, zero, seen).y.std() < 1.05 * y.std()
    state = adjust.init(1, 1)
    adjust.learn(state, zero, seen)
    assert abs(state.theta[0, 0, 1]) < 0.03


@pytest.mark.parametrize("n_arms", [4, 5, 10])
def test_arms_played_in_turn_are_cross_fitted_too(n_arms: int) -> None:
    """y = arm + 3x + 0.1·noise, arm t mod K: within an arm 0.1 is left, whatever K is."""
    rng, n = rng_of(8), 1000
    x, arm = rng.normal(size=(n, 1)), np.arange(n) % n_arms
    y, zero = arm + 3 * x[:, 0] + 0.1 * rng.normal(size=n), np.zeros(n, dtype=int)
    adjust = Adjustment(((0.0,),), (0,))
    found = adjust.cross_fit(1, n_arms, zero, Evidence(zero, arm, x, y, None, np.ones(n), x))
    spread = [found.y[arm == a].std() for a in range(n_arms)]
    assert max(spread) < 0.2


def test_aipw_counts_the_rows_that_it_is_worth() -> None:
    """Weights 1 (k rows) and 9 (k rows): Σw = 10k falls to (10k)²/(82k) = 1.2195k."""
    adjust = Adjustment(((0.0,),), (0,), "aipw", clip=100.0)
    n = 40
    zero, x = np.zeros(n, dtype=int), np.zeros((n, 1))
    propensity = np.where(np.arange(n) % 2 == 0, 0.9, 0.1)
    seen = Evidence(zero, zero, x, np.ones(n), None, np.ones(n), x)
    found = adjust.cross_fit(1, 1, zero, seen, propensity)
    assert found.weight.sum() == pytest.approx(20 * 100 / 82, rel=1e-9)


def test_online_a_row_is_adjusted_by_the_model_before_it() -> None:
    """The first rows pass untouched; after a publication the variance falls, the mean stays."""
    adjust = Adjustment(ADJUST.reference, (0,), penalty=1e-6, every=100)
    seen, _, owner = sample(5, 400, tilted=False)
    state = adjust.init(MANY, 3)
    kept = []
    for t in range(400):
        rows = np.arange(MANY) * 400 + t
        one = _take(seen, rows)
        after = adjust.apply(state, owner[rows], one)
        if t < 100:
            assert (after.y == one.y).all()
        elif t >= 200:
            kept.append(after.y)
        adjust.learn(state, owner[rows], one)
    assert state.versions.tolist() == [4] * MANY
    by_arm = _take(seen, (np.arange(MANY)[None] * 400 + np.arange(200, 400)[:, None]).ravel()).arm
    y = np.concatenate(kept)
    for arm in range(3):
        own = y[by_arm == arm]
        assert own.mean() == pytest.approx(TRUTH[arm], abs=5 * own.std() / np.sqrt(own.size) + 0.01)
        assert own.var() == pytest.approx(NOISE**2, rel=0.1)


def test_a_declared_scale_is_kept() -> None:
    """r = s·(2x) exactly: m(x) = 2x on r/s, so r̃ = s·m̄ = s·2·(mean of the reference)."""
    adjust = Adjustment(((0.0,), (1.0,)), (0,), penalty=1e-9, every=10)
    x = np.linspace(-1, 1, 10)[:, None]
    s = np.linspace(1, 3, 10)
    zero = np.zeros(10, dtype=int)
    seen = Evidence(zero, zero, x, s * 2 * x[:, 0], s, np.ones(10), x)
    state = adjust.init(1, 1)
    adjust.learn(state, zero, seen)
    assert adjust.apply(state, zero, seen).y == pytest.approx(s * 1.0, rel=1e-6)


def test_rows_off_every_arm_are_left_alone() -> None:
    seen, _, owner = sample(6, 20, tilted=False)
    seen.arm[::2] = -1
    found = ADJUST.cross_fit(MANY, 3, owner, seen)
    assert (found.y[::2] == seen.y[::2]).all()
    assert (found.y[1::2] != seen.y[1::2]).any()


def test_an_instance_learns_adjusted_rewards_and_refuses_classes() -> None:
    schema = Schema({"x": Number(-9, 9)})
    settings: dict[str, Any] = {
        "context": schema,
        "arms": ArmList(names=("a", "b", "c")),
        "composition": Identity(),
        "gate": [],
        "adjustment": Adjustment(((0.0,),), ("x",)),
    }
    instance = Instance(**settings)
    assert instance.adjustment is not None
    assert instance.adjustment.features == (0,)
    assert HierarchicalThompson().target == "any"
    with pytest.raises(InvalidInput, match="an outcome class cannot be adjusted"):
        Instance(**settings, reward=Payoff())
    wide = settings | {"adjustment": Adjustment(((0.0, 1.0),), ("x",))}
    with pytest.raises(InvalidInput, match="expected rows of 1 columns, got 2"):
        Instance(**wide)


@pytest.mark.parametrize(
    ("propensity", "message"),
    [(None, "needs the propensity"), (np.zeros(8), r"in \(0, 1\]"), (np.ones(3), "a row")],
)
def test_propensities_that_cannot_be_are_refused(propensity: Any, message: str) -> None:
    adjust = Adjustment(((0.0,),), (0,), "aipw")
    zero = np.zeros(8, dtype=int)
    seen = Evidence(zero, zero, np.zeros((8, 1)), np.ones(8), None, np.ones(8), np.ones((8, 1)))
    with pytest.raises(InvalidInput, match=message):
        adjust.apply(adjust.init(1, 1), zero, seen, propensity)


@pytest.mark.parametrize("reference", [(), ((0.0,), (0.0, 1.0)), ((float("nan"),),)])
def test_a_reference_that_is_no_sample_is_refused(reference: Any) -> None:
    with pytest.raises(InvalidInput, match=r"adjustment\.reference"):
        Adjustment(reference)


def _x(seen: Evidence) -> Array:
    assert seen.x is not None
    return np.asarray(seen.x[:, 0])


def _take(seen: Evidence, rows: Array) -> Evidence:
    assert seen.x is not None
    columns = (seen.cell[rows], seen.arm[rows], seen.coord[rows], seen.y[rows])
    return Evidence(*columns, None, seen.weight[rows], seen.x[rows])
