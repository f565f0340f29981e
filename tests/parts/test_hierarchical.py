"""Hierarchical Thompson: against the joint Gaussian, conditioned numerically."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gdcb import records
from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.bandits import HierarchicalState, HierarchicalThompson
from gdcb.errors import InvalidInput
from gdcb.records import Evidence, Located, Setting
from tests.parts.builders import bytes_of, evidence, evidences, fixed, rng_of, stream, take

ARMS = ArmList(values=(-1.0, 0.0, 2.0)).build()
GROUP = np.array([0, 0, 1, 0, 1])
BANDIT = HierarchicalThompson(prior_mean=0.5, sd=1.5, between=0.7, noise=0.9)


def learned(*batches: Evidence, bandit: HierarchicalThompson = BANDIT) -> HierarchicalState:
    """Return the state of five cells in two groups after some batches."""
    state = bandit.init(GROUP, ARMS)
    for batch in batches:
        bandit.update(state, batch)
    return state


def by_conditioning(
    bandit: HierarchicalThompson, some: Evidence, arm: int, group: int
) -> tuple[Array, Array]:
    """Condition the joint Gaussian of (μ, θ₁…θ_U, r₁…r_n) of one group and arm on r.

    Cov(μ, μ) = sd², Cov(θᵤ, θᵥ) = sd² + between²·[u = v]; a row r = s·θᵤ + noise has variance
    s²·Var θᵤ + noise²/w. Returns the mean and variance of every θ of the group.
    """
    units = np.flatnonzero(group == GROUP)
    latent = np.full((units.size, units.size), bandit.sd**2)
    latent += bandit.between**2 * np.eye(units.size)
    rows = np.flatnonzero((some.arm == arm) & np.isin(some.cell, units) & (some.weight > 0))
    if rows.size == 0:
        return np.full(units.size, bandit.prior_mean), np.diag(latent)
    s = np.ones(rows.size) if some.scale is None else some.scale[rows]
    seen = s[:, None] * (some.cell[rows][:, None] == units)
    observed = seen @ latent @ seen.T + np.diag(bandit.noise**2 / some.weight[rows])
    cross = latent @ seen.T
    surprise = some.y[rows] - s * bandit.prior_mean
    mean = bandit.prior_mean + cross @ np.linalg.solve(observed, surprise)
    return mean, np.diag(latent - cross @ np.linalg.solve(observed, cross.T))


@given(some=evidences(5, ARMS.coords, is_class=False, with_scale=True))
@fixed
def test_posterior_is_the_conditioned_joint_gaussian(some: Evidence) -> None:
    """Mean and variance of every unit and arm agree with numerical conditioning to 1e-10."""
    state = learned(some)
    for group in (0, 1):
        units = np.flatnonzero(group == GROUP)
        mean, variance = BANDIT._posterior(state, units)
        for arm in range(3):
            expected = by_conditioning(BANDIT, some, arm, group)
            np.testing.assert_allclose(mean[:, arm], expected[0], rtol=1e-10, atol=1e-10)
            np.testing.assert_allclose(variance[:, arm], expected[1], rtol=1e-10, atol=1e-10)


def test_posterior_by_hand() -> None:
    """r = 2 once at unit 0, all standard deviations 1, prior mean 0.

    Unit 0 tells μ precision 1/2 and shift 1: μ ~ N(2/3, 2/3). Unit 0: ½·2/3 + ½·2 = 4/3 with
    variance ½ + ¼·2/3 = 2/3; unit 1: 2/3 with variance 1 + 2/3 = 5/3; the other group 0 and 2.
    """
    bandit = HierarchicalThompson()
    state = learned(evidence([0], [1], [2.0]), bandit=bandit)
    mean, variance = bandit._posterior(state, np.array([0, 1, 2]))
    np.testing.assert_allclose(mean[:, 1], [4 / 3, 2 / 3, 0.0], rtol=0, atol=1e-15)
    np.testing.assert_allclose(variance[:, 1], [2 / 3, 5 / 3, 2.0], rtol=0, atol=1e-15)


def test_a_scale_is_regressed_on_not_divided_out() -> None:
    """One unit, prior N(0, 1 + 1), noise 1; r = 4 at s = 2 and r = 1 at s = 1.

    Σs² = 5, Σsr = 9: precision ½ + 5 = 5.5, mean 9/5.5; the mean of r/s would be 3/(2 + ½).
    """
    bandit = HierarchicalThompson()
    state = bandit.init(np.zeros(1, dtype=np.int64), ARMS)
    bandit.update(state, evidence([0, 0], [0, 0], [4.0, 1.0], scale=[2.0, 1.0]))
    mean, variance = bandit._posterior(state, np.zeros(1, dtype=np.int64))
    assert mean[0, 0] == pytest.approx(9 / 5.5, rel=1e-12)
    assert variance[0, 0] == pytest.approx(1 / 5.5, rel=1e-12)


def test_one_unit_a_group_is_gaussian_thompson() -> None:
    """Alone in its group a unit has the conjugate posterior under N(mean, sd² + between²)."""
    bandit = HierarchicalThompson(prior_mean=1.0, sd=0.8, between=0.6, noise=0.5)
    y = rng_of(3).normal(size=7)
    state = bandit.init(np.arange(2), ARMS)
    bandit.update(state, evidence([1] * 7, [2] * 7, y))
    mean, variance = bandit._posterior(state, np.array([1]))
    precision = 1 / (0.8**2 + 0.6**2) + 7 / 0.25
    assert variance[0, 2] == pytest.approx(1 / precision, rel=1e-12)
    assert mean[0, 2] == pytest.approx((1.0 + y.sum() / 0.25) / precision, rel=1e-12)


def test_draws_have_the_posterior_s_law() -> None:
    """40,000 draws of 2 units × 3 arms: mean by z, variance by χ², law by KS.

    18 tests at 1e-3/18 each: false alarm 1e-3 in all, at a fixed seed.
    """
    rng, n = rng_of(5), 40_000
    state = learned(evidence(rng.integers(0, 5, 40), rng.integers(0, 3, 40), rng.normal(size=40)))
    level = 1e-3 / 18
    for cell in (0, 2):
        mean, variance = (part[0] for part in BANDIT._posterior(state, np.array([cell])))
        draws = BANDIT.draw(stream(41, 1000), state, Setting(np.full(n, cell)))
        z = (draws - mean) / np.sqrt(variance)
        assert (2 * stats.norm.sf(np.abs(z.mean(axis=0)) * np.sqrt(n)) > level).all()
        tail = stats.chi2.cdf((z**2).sum(axis=0), n)
        assert (2 * np.minimum(tail, 1 - tail) > level).all()
        assert all(stats.kstest(z[:, k], "norm").pvalue > level for k in range(3))


def test_values_of_located_actions() -> None:
    """An action has its nearest arm's value; one comparable to none has the prior mean."""
    located = Located(np.array([[2, -1]]), np.zeros((1, 2, 1)), lambda: np.zeros((1, 2)))
    assert BANDIT.value(np.array([[0.1, 0.2, 0.3]]), located).tolist() == [[0.3, 0.5]]


@given(some=evidences(5, ARMS.coords, is_class=False, with_scale=True), seed=st.integers(0, 99))
@fixed
def test_batch_equals_loop_in_any_order(some: Evidence, seed: int) -> None:
    """One batch, rows one by one, and rows in another order give the same posterior."""
    n = some.cell.size
    expected = records.flatten(learned(some))
    for other in (
        learned(*(take(some, [i]) for i in range(n))),
        learned(take(some, rng_of(seed).permutation(n))),
    ):
        for name, array in records.flatten(other).items():
            np.testing.assert_allclose(array, expected[name], rtol=1e-10, atol=1e-10)


@given(some=evidences(5, ARMS.coords, is_class=False))
@fixed
def test_uncredited_and_weightless_rows_teach_nothing(some: Evidence) -> None:
    """Leaving out rows of arm −1 or weight 0 leaves the same bytes."""
    kept = np.flatnonzero((some.arm >= 0) & (some.weight > 0))
    assert records.to_bytes(learned(some)) == records.to_bytes(learned(take(some, kept)))


@given(some=evidences(5, ARMS.coords, is_class=False))
@fixed
def test_learning_stays_within_the_group(some: Evidence) -> None:
    """Evidence of group 0 changes its hyper-posterior and none of group 1's bytes."""
    before, state = learned(), learned(take(some, GROUP[some.cell] == 0))
    other = GROUP == 1
    assert bytes_of(state.weight[other], state.total[other]) == bytes_of(
        before.weight[other], before.total[other]
    )
    assert bytes_of(state.hyper_precision[1], state.hyper_shift[1]) == bytes_of(
        before.hyper_precision[1], before.hyper_shift[1]
    )


def test_units_of_a_group_share_and_their_own_sums_do_not() -> None:
    """Evidence of unit 0 moves unit 1's mean through μ, but not its sums."""
    before, state = learned(), learned(evidence([0], [0], [5.0]))
    assert bytes_of(state.weight[1], state.total[1]) == bytes_of(before.weight[1], before.total[1])
    one = np.array([1])
    moved = BANDIT.mean(state, Setting(one), ARMS.nominal) - BANDIT.mean(
        before, Setting(one), ARMS.nominal
    )
    assert moved[0, 0] > 0.1
    assert moved[0, 1:].tolist() == [0.0, 0.0]


@given(
    some=evidences(5, ARMS.coords, is_class=False, with_scale=True),
    cut=st.integers(0, 12),
    factor=st.sampled_from([0.0, 0.25, 0.9, 1.0]),
)
@fixed
def test_merge_and_decay(some: Evidence, cut: int, factor: float) -> None:
    """Merged halves are the whole; a kept share of the evidence is a share of every weight."""
    state = learned(take(some, slice(cut)))
    BANDIT.merge(state, learned(take(some, slice(cut, None))))
    BANDIT.decay(state, factor, np.array([0, 2]))
    faded = np.where(np.isin(some.cell, [0, 2]), factor, 1.0) * some.weight
    expected = records.flatten(learned(replace(some, weight=faded)))
    for name, array in records.flatten(state).items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-10, atol=1e-10)


def test_forgetting_in_a_group_leaves_the_bytes_of_others() -> None:
    """A decay in group 0 gathers group 0 only: sums that came row by row stay as they rounded."""
    rng = rng_of(11)
    rows = evidence(rng.integers(0, 5, 60), rng.integers(0, 3, 60), rng.normal(size=60))
    state = learned(*(take(rows, [i]) for i in range(60)))
    before = bytes_of(state.hyper_precision[1], state.hyper_shift[1])
    BANDIT.decay(state, 0.5, np.array([0]))
    assert bytes_of(state.hyper_precision[1], state.hyper_shift[1]) == before


def test_marginals_are_the_posterior() -> None:
    """The law of every arm is normal with the posterior's mean and standard deviation."""
    state = learned(evidence([0, 1, 2], [0, 1, 1], [1.0, -1.0, 2.0]))
    law = BANDIT.marginals(state, Setting(np.arange(5)))
    mean, variance = BANDIT._posterior(state, np.arange(5))
    assert law.kind == "normal"
    assert bytes_of(*law.parameters) == bytes_of(mean, np.sqrt(variance))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [1.0, np.nan]}, "Hierarchical Thompson: expected finite rewards, got"),
        ({"y": [np.inf, 1.0]}, "Hierarchical Thompson: expected finite rewards, got"),
        ({"scale": [1.0, 0.0]}, "Hierarchical Thompson: expected finite scales"),
        ({"weight": [1.0, np.inf]}, "Hierarchical Thompson: expected finite weights"),
    ],
)
def test_bad_evidence_is_refused_whole(change: dict[str, Any], message: str) -> None:
    """A bad row is refused, and the good row beside it has not been learned either."""
    state = learned(evidence([0], [1], [1.0]))
    before = records.to_bytes(state)
    with pytest.raises(InvalidInput, match=message):
        BANDIT.update(state, evidence(**({"cell": [0, 1], "arm": [0, 1], "y": [1, 0]} | change)))
    assert records.to_bytes(state) == before


def test_bad_merges_and_shares_are_refused() -> None:
    """Other cells or other groups do not merge, and a share is within [0, 1]."""
    state = learned(evidence([0], [1], [1.0]))
    before = records.to_bytes(state)
    with pytest.raises(InvalidInput, match=r"merge: expected a state of shape \(5, 3\)"):
        BANDIT.merge(state, BANDIT.init(GROUP[:2], ARMS))
    with pytest.raises(InvalidInput, match="merge: expected a state of the same groups"):
        BANDIT.merge(state, BANDIT.init(GROUP[::-1], ARMS))
    with pytest.raises(InvalidInput, match="decay: expected a"):
        BANDIT.decay(state, -1.0, np.array([0]))
    assert records.to_bytes(state) == before


@pytest.mark.parametrize("name", ["sd", "between", "noise"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_bad_spreads_are_refused(name: str, value: float) -> None:
    """Standard deviations are positive and finite."""
    settings: dict[str, Any] = {name: value}
    with pytest.raises(InvalidInput, match=f"bandit.{name}: expected a"):
        HierarchicalThompson(**settings)
