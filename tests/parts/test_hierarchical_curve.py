"""Curves that share a group's: against the dense regression that they are, and its limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, special

from gdcb import Agent, records
from gdcb.arms import ArmList
from gdcb.arrays import Array
from gdcb.bandits import CurveThompson, HierarchicalCurveThompson
from gdcb.bandits.hierarchical_curve import HierarchicalCurveState
from gdcb.checks.lists import report
from gdcb.declaration import parse
from gdcb.errors import InvalidInput
from gdcb.logistic import LogisticPosterior
from gdcb.records import Evidence, Setting
from tests.builders import letting, night
from tests.parts.builders import bytes_of, evidence, evidences, fixed, rng_of, stream, take

ARMS = ArmList(values=(0.5, 0.75, 1.0, 1.25, 1.5, 2.0)).build()
ENDS = ArmList(values=(-1.0, 1.0)).build()
GROUP = np.array([0, 0, 0, 1, 1, 2])  # three units, two, one
BANDITS = {
    "relative": HierarchicalCurveThompson(CurveThompson(prior_sd=1.5), own_sd=0.6),
    "bent": HierarchicalCurveThompson(
        CurveThompson(degree=2, prior_mean=(0.5, -1.0, 0.1), prior_sd=(2.0, 1.0, 0.5)),
        own_sd=(0.3, 0.2, 0.4),
    ),
    "additive": HierarchicalCurveThompson(
        CurveThompson(form="additive", prior_mean=(0.2, -1.0, 0.3), prior_sd=1.5), own_sd=0.4
    ),
}
EVERY = pytest.mark.parametrize("name", BANDITS)
ZERO = np.zeros(1, dtype=np.int64)


def some_rows(n: int, seed: int, cells: Array | None = None) -> Evidence:
    """Return n rows between the arms: σ(3 − 3c + ½·(−1)^cell), weights of ¼ to 2, a δ each."""
    rng = rng_of(seed)
    cell = rng.integers(0, GROUP.size, n) if cells is None else rng.choice(cells, n)
    coord = rng.uniform(0.4, 2.1, (n, 1))
    p = special.expit(3.0 - 3.0 * coord[:, 0] + 0.5 * (-1.0) ** cell)
    made = evidence(cell, np.full(n, -1), rng.uniform(size=n) < p, coord)
    weight = rng.choice([0.25, 1.0, 2.0], n)
    return replace(made, weight=weight, delta=np.exp(0.3 * rng.normal(size=(n, 1, 1))))


def pick(some: Evidence, index: Any) -> Evidence:
    """Return the evidence rows at `index`, with their δ."""
    return replace(take(some, index), delta=None if some.delta is None else some.delta[index])


def learned(bandit: HierarchicalCurveThompson, *batches: Evidence) -> HierarchicalCurveState:
    """Return six units in three groups after some batches."""
    state = bandit.init(GROUP, ARMS)
    for batch in batches:
        bandit.update(state, batch)
    return state


def refitted(bandit: HierarchicalCurveThompson, some: Evidence) -> HierarchicalCurveState:
    """Return the exact fit of the rows."""
    state = bandit.init(GROUP, ARMS)
    bandit.refit(state, some)
    return state


def features(bandit: HierarchicalCurveThompson, some: Evidence) -> Array:
    """Work out φ by hand: (1, u), u² or ℓ behind it, u scaled to [−1, 1] over the arms."""
    curve, delta = bandit.curve, some.delta
    assert delta is not None
    e = some.coord[:, 0] * (delta[:, 0, 0] if curve.form == "additive" else 1.0)
    u = (e - 1.25) / 0.75
    columns = [np.ones(u.size), u]
    if curve.degree == 2:
        columns.append(u * u)
    if curve.form == "additive":
        columns.append(np.log(delta[:, 0, 0]))
    return np.column_stack(columns)


def dense(
    bandit: HierarchicalCurveThompson, some: Evidence, group: int
) -> tuple[Array, Array, Array, Array, Array]:
    """Return one group's regression as it is: design, y, weight, prior mean, prior sd.

    (φ, φ at the unit's own place, 0 elsewhere); all groups have room for three units.
    """
    rows = np.flatnonzero(GROUP[some.cell] == group)
    phi = features(bandit, some)[rows]
    m = phi.shape[1]
    design = np.zeros((rows.size, 4 * m))
    first = np.flatnonzero(group == GROUP)[0]
    for i, row in enumerate(rows):
        at = m * (1 + some.cell[row] - first)
        design[i, :m] = design[i, at : at + m] = phi[i]
    mean = np.zeros(4 * m)
    mean[:m] = bandit.curve.prior_mean or np.zeros(m)
    own = np.tile(np.broadcast_to(np.array(bandit.own_sd), (m,)), 3)
    sd = np.concatenate((np.broadcast_to(np.array(bandit.curve.prior_sd), (m,)), own))
    return design, some.y[rows], some.weight[rows], mean, sd


def covariance(state: HierarchicalCurveState) -> Array:
    """Return Σ of every group."""
    return np.asarray(state.root @ state.root.swapaxes(-1, -2))


# By hand --------------------------------------------------------------------------------------


def test_one_win_by_hand() -> None:
    """Two units of one group and one of another, all sds 1; a win of the first at u = 1.

    φᵀw₁ has variance 2 + 2, so its mode solves z = 4·(1 − σ(z)), z = 4t. Then w₁ = 2t·(1, 1) and
    w₂ = t·(1, 1). With h = σ(z)(1 − σ(z)) the variance of φᵀw₂ falls from 4 by h·2²/(1 + 4h).
    """
    bandit = HierarchicalCurveThompson(CurveThompson(prior_sd=1.0), own_sd=1.0)
    state = bandit.init(np.array([0, 0, 1]), ENDS)
    bandit.update(state, evidence([0], [1], [1.0], [1.0]))
    z = optimize.brentq(lambda z: z - 4.0 * (1.0 - special.expit(z)), 0.0, 4.0, xtol=1e-14)
    t, h = z / 4.0, special.expit(z) * (1.0 - special.expit(z))
    mean, root = bandit._own(state, np.arange(3))
    np.testing.assert_allclose(mean, [[2 * t, 2 * t], [t, t], [0.0, 0.0]], atol=1e-12)
    along = root.sum(axis=1)  # φ = (1, 1)
    expected = [4.0 - 16.0 * h / (1 + 4 * h), 4.0 - 4.0 * h / (1 + 4 * h), 4.0]
    np.testing.assert_allclose((along * along).sum(axis=1), expected, rtol=1e-12)


def test_the_mean_is_the_integral() -> None:
    """E σ(η) at an arm by SciPy's quadrature over N(φᵀm, φᵀΣφ), to 1e-8."""
    bandit, some = BANDITS["bent"], some_rows(40, 1)
    state = learned(bandit, some)
    found = bandit.mean(state, Setting(np.array([1])), ARMS.nominal)[0]
    m, cov = state.mean[0], covariance(state)[0]
    for k, c in enumerate(ARMS.coords[:, 0]):
        u = (c - 1.25) / 0.75
        row = np.zeros(12)
        row[:3] = row[6:9] = 1.0, u, u * u
        eta, sd = row @ m, np.sqrt(row @ cov @ row)
        expected = integrate.quad(
            lambda z, eta=eta, sd=sd: (
                special.expit(eta + sd * z) * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
            ),
            -12,
            12,
        )[0]
        assert found[k] == pytest.approx(expected, abs=1e-8)


@EVERY
def test_densities_are_those_of_the_mean(name: str) -> None:
    """exp(predictive) of a win is E σ(η) there, of a loss the rest; NaN where nothing ran."""
    bandit, some = BANDITS[name], some_rows(20, 2)
    state = learned(bandit, some_rows(60, 3))
    some.coord[4] = np.nan
    located = ARMS.locate(some.coord[:, None])
    mean = bandit.mean(state, Setting(some.cell, None, some.delta), located)[:, 0]
    for y, p in ((1.0, mean), (0.0, 1.0 - mean)):
        found = bandit.predictive(state, replace(some, y=np.full(20, y)))
        assert np.isnan(found[4])
        rest = np.arange(20) != 4
        np.testing.assert_allclose(np.exp(found)[rest], p[rest], rtol=1e-9)


# The dense regression -------------------------------------------------------------------------


@EVERY
def test_the_exact_fit_is_scipy_s(name: str) -> None:
    """The mode of the dense log posterior by BFGS to 1e-5, its gradient to 1e-7, and Σ⁻¹ the
    dense Hessian there, to 1e-9; every group."""
    bandit, some = BANDITS[name], some_rows(90, 4)
    state = refitted(bandit, some)
    for group in range(3):
        design, y, weight, mean, sd = dense(bandit, some, group)

        def loss(w: Array, d: Any = (design, y, weight, mean, sd)) -> tuple[float, Array]:
            design, y, weight, mean, sd = d
            z = design @ w
            value = weight @ (np.logaddexp(0.0, z) - y * z) + 0.5 * (((w - mean) / sd) ** 2).sum()
            slope = design.T @ (weight * (special.expit(z) - y)) + (w - mean) / sd**2
            return float(value), np.asarray(slope)

        found = optimize.minimize(loss, mean, jac=True, method="BFGS", options={"gtol": 1e-8})
        np.testing.assert_allclose(state.mean[group], found.x, rtol=0, atol=1e-5)
        assert np.abs(loss(state.mean[group])[1]).max() < 1e-7
        p = special.expit(design @ state.mean[group])
        hessian = (design * (weight * p * (1 - p))[:, None]).T @ design + np.diag(sd**-2.0)
        np.testing.assert_allclose(covariance(state)[group] @ hessian, np.eye(sd.size), atol=1e-9)


def test_the_exact_fit_is_scikit_learn_s() -> None:
    """Prior means of 0: a ridge of the dense design in units of its prior sds, to 1e-5."""
    from sklearn.linear_model import LogisticRegression

    bandit, some = BANDITS["relative"], some_rows(120, 5)
    state = refitted(bandit, some)
    for group in range(3):
        design, y, weight, _, sd = dense(bandit, some, group)
        model = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-12, solver="newton-cholesky")
        model.fit(design * sd, y, sample_weight=weight)
        np.testing.assert_allclose(state.mean[group], sd * model.coef_[0], rtol=0, atol=1e-5)


@EVERY
def test_row_by_row_is_the_dense_posterior(name: str) -> None:
    """Mean and Σ of every group to 1e-12, against `LogisticPosterior` on the dense design."""
    bandit, some = BANDITS[name], some_rows(80, 6)
    state = learned(bandit, some)
    for group in range(3):
        design, y, weight, mean, sd = dense(bandit, some, group)
        expected = LogisticPosterior.prior(1, mean, sd)
        expected.observe(np.zeros(y.size, dtype=np.int64), design, y, weight)
        np.testing.assert_allclose(state.mean[group], expected.mean[0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(
            covariance(state)[group], expected.covariance[0], rtol=0, atol=1e-12
        )


def test_without_a_spread_all_units_have_one_curve() -> None:
    """own_sd 1e-7: every unit's curve is that of the group's rows learned together, to 1e-5."""
    bandit, some = replace(BANDITS["relative"], own_sd=1e-7), some_rows(80, 7, np.arange(3))
    state = refitted(bandit, some)
    phi = features(bandit, some)
    together = LogisticPosterior.fit(phi, some.y, some.weight, 0.0, 1.5**-2.0)
    mean, root = bandit._own(state, np.arange(3))
    np.testing.assert_allclose(mean, np.tile(together.mean, (3, 1)), atol=1e-5)
    np.testing.assert_allclose(
        root @ root.swapaxes(-1, -2), np.tile(together.covariance, (3, 1, 1)), atol=1e-5
    )


def test_with_a_known_group_units_learn_apart() -> None:
    """prior_sd 1e-7: every unit has the curve of its own rows under N(0, own_sd²), to 1e-5."""
    bandit = HierarchicalCurveThompson(CurveThompson(prior_sd=1e-7), own_sd=1.2)
    some = some_rows(80, 8)
    mean = bandit._own(refitted(bandit, some), np.arange(6))[0]
    for unit in range(6):
        mine = some.cell == unit
        alone = LogisticPosterior.fit(
            features(bandit, some)[mine], some.y[mine], some.weight[mine], 0.0, 1.2**-2.0
        )
        np.testing.assert_allclose(mean[unit], alone.mean[0], atol=1e-5)


# Sharing --------------------------------------------------------------------------------------


@EVERY
def test_a_unit_without_rows_moves_towards_the_group_s(name: str) -> None:
    """Rows of units 0 and 1 only: unit 2 expects m_g, between the prior and what they expect, and
    is less sure of it; other groups keep their bytes."""
    bandit = BANDITS[name]
    some = some_rows(120, 9, np.arange(2))
    before, state = bandit.init(GROUP, ARMS), refitted(bandit, some)
    mean, root = bandit._own(state, np.arange(6))
    m = mean.shape[1]
    np.testing.assert_allclose(mean[2], state.mean[0, :m], atol=1e-9)
    prior = bandit._own(before, ZERO)[0][0]
    moved, led = mean[2] - prior, mean[:2].mean(axis=0) - prior
    phi = features(bandit, evidence_at(1.0))[0]
    assert 0.0 < (phi @ moved) / (phi @ led) < 1.0
    spread = ((phi @ root) ** 2).sum(axis=-1)
    assert spread[2] > spread[:2].max()
    assert bytes_of(state.mean[1:], state.root[1:]) == bytes_of(before.mean[1:], before.root[1:])
    # Unit 2's deviation is what it was: N(0, own_sd²).
    own = np.broadcast_to(np.array(bandit.own_sd), (m,))
    np.testing.assert_allclose(np.diag(covariance(state)[0])[3 * m :], own**2, rtol=1e-9)


def evidence_at(coord: float) -> Evidence:
    """Return one row at a coordinate under δ = 1."""
    return replace(evidence([0], [-1], [1.0], [coord]), delta=np.ones((1, 1, 1)))


@given(y=st.sampled_from([0.0, 1.0]), coord=st.floats(0.4, 2.1), own=st.floats(0.05, 3.0))
@fixed
def test_one_row_moves_the_others_by_their_share(y: float, coord: float, own: float) -> None:
    """By prior_sd²/(prior_sd² + own_sd²) of what its own unit moves by, in every coefficient."""
    bandit = replace(BANDITS["relative"], own_sd=own)
    state = learned(bandit, evidence([0], [-1], [y], [coord]))
    mean = bandit._own(state, np.arange(6))[0]
    share = 1.5**2 / (1.5**2 + own**2)
    np.testing.assert_allclose(mean[1], share * mean[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(mean[2], mean[1])
    assert not mean[3:].any()


def test_sharing_is_better_than_apart_and_than_alike() -> None:
    """30 groups of 8 units, 15 rows each, coefficients drawn from the prior: the mean squared error
    of w_u is below 0.8 of that of units fitted apart and of that of one curve a group."""
    rng, groups, units, n = rng_of(10), 30, 8, 15
    cells = groups * units
    m_g = rng.normal(0.0, 1.5, (groups, 1, 2))
    truth = (m_g + rng.normal(0.0, 0.8, (groups, units, 2))).reshape(cells, 2)
    cell = np.repeat(np.arange(cells), n)
    arm = rng.integers(0, ARMS.n, cell.size)
    u = (ARMS.coords[arm, 0] - 1.25) / 0.75
    y = rng.uniform(size=cell.size) < special.expit(truth[cell, 0] + truth[cell, 1] * u)
    some = evidence(cell, arm, y, ARMS.coords[arm])
    group = np.repeat(np.arange(groups), units)
    errors = []
    for prior, own in ((1.5, 0.8), (1e-6, np.hypot(1.5, 0.8)), (1.5, 1e-6)):
        bandit = HierarchicalCurveThompson(CurveThompson(prior_sd=prior), own_sd=own)
        state = bandit.init(group, ARMS)
        bandit.refit(state, some)
        errors.append(((bandit._own(state, np.arange(cells))[0] - truth) ** 2).mean())
    assert errors[0] < 0.8 * min(errors[1:])


# Order, company, bytes ------------------------------------------------------------------------


@given(some=evidences(6, ARMS.coords, is_class=True), name=st.sampled_from(sorted(BANDITS)))
@fixed
def test_batch_equals_loop(some: Evidence, name: str) -> None:
    """Rows of a group are learned in their order, in a batch too: to 1e-12."""
    some, bandit = replace(some, delta=some_rows(12, 11).delta), BANDITS[name]
    some = replace(some, delta=some.delta[: some.cell.size])  # type: ignore[index]
    batch = learned(bandit, some)
    loop = learned(bandit, *(pick(some, [i]) for i in range(some.cell.size)))
    np.testing.assert_allclose(batch.mean, loop.mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(batch.root, loop.root, rtol=0, atol=1e-12)


@given(seed=st.integers(0, 10**6), name=st.sampled_from(sorted(BANDITS)))
@fixed
def test_the_exact_fit_forgets_order_and_what_was_learned(seed: int, name: str) -> None:
    """Rows in another order, from another start: the same mode and Σ, to 1e-7; Σ is positive."""
    bandit, some = BANDITS[name], some_rows(30, seed)
    one = refitted(bandit, some)
    other = learned(bandit, some_rows(50, seed + 1))
    bandit.refit(other, pick(some, rng_of(seed).permutation(30)))
    touched = np.unique(GROUP[some.cell])
    np.testing.assert_allclose(one.mean[touched], other.mean[touched], rtol=0, atol=1e-7)
    np.testing.assert_allclose(
        covariance(one)[touched], covariance(other)[touched], rtol=0, atol=1e-7
    )
    assert (np.linalg.eigvalsh(covariance(one)) > 0.0).all()


@EVERY
def test_groups_may_change_places(name: str) -> None:
    """Groups and units under other numbers: the same curves, row by row to 1e-12 and exactly fitted
    to 1e-9."""
    bandit, some = BANDITS[name], some_rows(60, 12)
    order = np.array([5, 3, 4, 1, 2, 0])  # where each cell goes; units of group 0 turn round too
    group = np.empty_like(GROUP)
    group[order] = np.array([2, 0, 1])[GROUP]
    for way, close in (("update", 1e-12), ("refit", 1e-9)):
        plain, moved = bandit.init(GROUP, ARMS), bandit.init(group, ARMS)
        getattr(bandit, way)(plain, some)
        getattr(bandit, way)(moved, replace(some, cell=order[some.cell]))
        here, there = bandit._own(plain, np.arange(6)), bandit._own(moved, order)
        np.testing.assert_allclose(there[0], here[0], rtol=0, atol=close)
        for (_, one), (_, two) in ((here, there),):
            np.testing.assert_allclose(
                two @ two.swapaxes(-1, -2), one @ one.swapaxes(-1, -2), rtol=0, atol=close
            )


@EVERY
def test_a_group_has_the_same_bytes_alone(name: str) -> None:
    """Learned, fitted, drawn and scored without the rows of other groups beside it."""
    bandit, some = BANDITS[name], some_rows(90, 13)
    alone = pick(some, np.flatnonzero(GROUP[some.cell] == 1))
    for way in ("update", "refit"):
        beside, by_itself = bandit.init(GROUP, ARMS), bandit.init(GROUP, ARMS)
        getattr(bandit, way)(beside, some)
        getattr(bandit, way)(by_itself, alone)
        for field in ("mean", "root"):
            assert bytes_of(getattr(beside, field)[1]) == bytes_of(getattr(by_itself, field)[1])
        for score in (bandit.predictive, bandit.leave_one_out):
            whole = score(beside, some)[GROUP[some.cell] == 1]
            assert bytes_of(score(by_itself, alone)) == bytes_of(whole)
    state = learned(bandit, some)
    draws = [
        bandit.draw(stream(3), state, Setting(some.cell[:n], None, some.delta[:n]))  # type: ignore[index]
        for n in (4, 90)
    ]
    assert bytes_of(draws[0]) == bytes_of(draws[1][:4])


@EVERY
def test_a_fit_touches_its_groups_only_and_no_rows_are_the_prior(name: str) -> None:
    """Rows of group 1 leave the bytes of 0 and 2; rows without weight return to the prior."""
    bandit, some = BANDITS[name], some_rows(60, 14)
    state = learned(bandit, some)
    before = records.copy(state)
    mine = pick(some, np.flatnonzero(GROUP[some.cell] == 1))
    bandit.refit(state, mine)
    for field in ("mean", "root"):
        new, old = getattr(state, field), getattr(before, field)
        assert bytes_of(new[[0, 2]]) == bytes_of(old[[0, 2]])
        assert np.abs(new[1] - old[1]).max() > 1e-6
    ran = some.coord.copy()
    ran[some.cell == 5] = np.nan
    none = replace(some, weight=np.where(GROUP[some.cell] == 1, 0.0, some.weight), coord=ran)
    bandit.refit(state, none)
    prior = bandit.init(GROUP, ARMS)
    np.testing.assert_allclose(state.mean[1:], prior.mean[1:], atol=1e-12)
    np.testing.assert_allclose(covariance(state)[1:], covariance(prior)[1:], atol=1e-12)
    bandit.refit(state, pick(some, np.arange(0)))  # nobody's rows: nothing to do
    np.testing.assert_allclose(state.mean[1:], prior.mean[1:], atol=1e-12)


def test_decay_mixes_with_the_prior() -> None:
    """By ½: Σ⁻¹ is the mean of posterior and prior precision, Σ⁻¹m too; groups of no such cell
    keep their bytes, and 1 keeps all."""
    bandit = BANDITS["bent"]
    state, prior = learned(bandit, some_rows(60, 15)), bandit.init(GROUP, ARMS)
    before = records.copy(state)
    bandit.decay(state, 1.0, np.arange(6))
    assert records.to_bytes(state) == records.to_bytes(before)
    bandit.decay(state, 0.5, np.array([4]))
    old, new, first = (np.linalg.inv(covariance(one)[1]) for one in (before, state, prior))
    np.testing.assert_allclose(new, 0.5 * (old + first), rtol=1e-9, atol=1e-9)
    pull = 0.5 * (old @ before.mean[1] + first @ prior.mean[1])
    np.testing.assert_allclose(new @ state.mean[1], pull, rtol=1e-9, atol=1e-9)
    assert bytes_of(state.mean[[0, 2]]) == bytes_of(before.mean[[0, 2]])


# Draws ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [0.0, 1.0, 2.0])
def test_draws_have_the_posterior_s_law(width: float) -> None:
    """Mean and covariance of 40,000 drawn curves of unit 1, each entry within 4.5 standard errors:
    a false alarm below 1e-4. With width 0 they are the mean itself."""
    bandit, n = replace(BANDITS["bent"], width=width), 40_000
    state = learned(bandit, some_rows(60, 16))
    drawn = bandit.draw(stream(5, 1000), state, Setting(np.ones(n, dtype=np.int64)))[:, :3]
    at = np.concatenate((np.eye(3), np.zeros((3, 3)), np.eye(3), np.zeros((3, 3))), axis=1)
    mean, cov = at @ state.mean[0], width**2 * at @ covariance(state)[0] @ at.T
    if width == 0.0:
        np.testing.assert_allclose(drawn, np.tile(mean, (n, 1)), rtol=1e-12)
        return
    off = (drawn.mean(axis=0) - mean) / np.sqrt(np.diag(cov) / n)
    assert np.abs(off).max() < 4.5
    error = np.sqrt((cov**2 + np.outer(np.diag(cov), np.diag(cov))) / n)
    assert (np.abs(np.cov(drawn.T) - cov) < 4.5 * error).all()


# A row left out -------------------------------------------------------------------------------


@EVERY
def test_the_last_row_is_left_out_exactly(name: str) -> None:
    """A step row by row can be taken back: of each group's last row the density is the one before
    it was learned, to 1e-9."""
    bandit, some = BANDITS[name], some_rows(50, 17)
    state = bandit.init(GROUP, ARMS)
    for group in range(3):
        own = np.flatnonzero(GROUP[some.cell] == group)
        bandit.update(state, pick(some, own[:-1]))
        row = pick(some, own[-1:])
        expected = bandit.predictive(state, row)
        bandit.update(state, row)
        np.testing.assert_allclose(bandit.leave_one_out(state, row), expected, rtol=0, atol=1e-9)


@EVERY
@pytest.mark.parametrize(("n", "within", "mostly"), [(60, 0.03, 3e-3), (2_000, 2e-3, 1e-4)])
def test_a_row_left_out_is_a_fit_without_it(
    name: str, n: int, within: float, mostly: float
) -> None:
    """Log densities of 20 rows under the fit of all others: of 60 rows to 0.03, half of them to
    0.003; of 2,000, where the posterior is as good as normal, to 0.002 and 0.0001. That is below a
    tenth of what a row adds to its own prediction."""
    bandit, some = BANDITS[name], some_rows(n, 18)
    state = refitted(bandit, some)
    found, told = bandit.leave_one_out(state, some), bandit.predictive(state, some)
    off, gain = [], []
    for i in range(20):
        other = bandit.init(GROUP, ARMS)
        rest = np.flatnonzero((np.arange(n) != i) & (GROUP[some.cell] == GROUP[some.cell[i]]))
        bandit.refit(other, pick(some, rest))
        expected = bandit.predictive(other, pick(some, [i]))[0]
        off.append(abs(found[i] - expected))
        gain.append(told[i] - expected)
    assert max(off) < within
    assert np.median(off) < mostly
    assert max(off) < 0.1 * max(gain)


def test_a_row_without_weight_has_nothing_to_leave_out() -> None:
    """Its density is the prediction; where nothing ran there is none."""
    bandit, some = BANDITS["relative"], some_rows(30, 19)
    some.weight[3], some.coord[5] = 0.0, np.nan
    state = refitted(bandit, some)
    found = bandit.leave_one_out(state, some)
    assert found[3] == pytest.approx(bandit.predictive(state, some)[3], abs=1e-14)
    assert np.isnan(found[5])


# What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["update", "refit", "predictive", "leave_one_out"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [1.0, 0.0, 1.5]}, r"expected outcomes in \[0, 1\]"),
        ({"y": [1.0, 0.0, -0.1]}, r"expected outcomes in \[0, 1\]"),
        ({"y": [1.0, 0.0, np.nan]}, r"expected outcomes in \[0, 1\]"),
        ({"y": [1.0, 0.0, np.inf]}, r"expected outcomes in \[0, 1\]"),
        ({"scale": [1.0, 1.0, 1.0]}, "takes no reward scale"),
        ({"delta": None}, "the additive form needs δ"),
        ({"delta": np.zeros((3, 1, 1))}, "expected δ of finite numbers > 0"),
        ({"delta": np.ones((3, 2, 1))}, r"expected δ of shape \(3, 1, 1 to 1\)"),
    ],
)
def test_bad_evidence_is_refused_whole(way: str, change: dict[str, Any], message: str) -> None:
    """The last row is bad, and nothing of the others was learned."""
    bandit = BANDITS["additive"]
    state = learned(bandit, some_rows(10, 20))
    before = records.to_bytes(state)
    rows = replace(
        evidence([0, 1, 4], [0, 1, 2], [1, 0, 1], ARMS.coords[:3]), delta=np.ones((3, 1, 1))
    )
    bad = {key: value if key == "delta" else np.asarray(value) for key, value in change.items()}
    with pytest.raises(InvalidInput, match=message):
        getattr(bandit, way)(state, replace(rows, **bad))
    assert records.to_bytes(state) == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"curve": CurveThompson(link="identity")}, "bandit.curve: expected a logistic Curve"),
        ({"curve": CurveThompson}, "bandit.curve: expected a logistic CurveThompson, got"),
        ({"curve": (CurveThompson(),)}, "bandit.curve: expected a logistic CurveThompson, got"),
        ({"own_sd": 0.0}, "bandit.own_sd: expected a number > 0, got 0"),
        ({"own_sd": (0.5, -1.0)}, "bandit.own_sd: expected a number > 0, got -1"),
        ({"own_sd": float("nan")}, "bandit.own_sd: expected a finite number"),
        ({"own_sd": [0.5, 0.5]}, "bandit.own_sd: expected a finite number"),
        ({"width": -1.0}, "bandit.width: expected a number >= 0, got -1"),
        ({"width": float("inf")}, "bandit.width: expected a finite number"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    """Spreads are above 0, and the curve has the logistic link."""
    with pytest.raises(InvalidInput, match=message):
        HierarchicalCurveThompson(**settings)


def test_arms_and_lengths_that_do_not_fit_are_refused() -> None:
    """Categories have no curve, and an sd a coefficient means as many as there are."""
    bandit = HierarchicalCurveThompson()
    with pytest.raises(InvalidInput, match="HierarchicalCurveThompson needs arms with a metric"):
        bandit.init(ZERO, ArmList(names=("a", "b")).build())
    with pytest.raises(InvalidInput, match=r"bandit\.own_sd: expected 2 numbers, got 3"):
        replace(bandit, own_sd=(0.1, 0.2, 0.3)).init(ZERO, ARMS)
    with pytest.raises(InvalidInput, match=r"bandit\.prior_sd: expected 2 numbers, got 3"):
        replace(bandit, curve=CurveThompson(prior_sd=(1.0, 1.0, 1.0))).init(ZERO, ARMS)


def test_sixty_five_units_of_a_group_are_refused() -> None:
    """64 are taken, also beside many small groups; the message says what to do."""
    bandit = HierarchicalCurveThompson()
    assert bandit.init(np.zeros(64, dtype=np.int64), ARMS).mean.shape == (1, 2 * 65)
    assert bandit.init(np.arange(200), ARMS).mean.shape == (200, 4)
    message = "expected at most 64 units a group, got 65; make smaller groups"
    with pytest.raises(InvalidInput, match=message):
        bandit.init(np.zeros(65, dtype=np.int64), ARMS)


# In its places --------------------------------------------------------------------------------


@EVERY
def test_keeps_what_bandits_promise(name: str) -> None:
    """The conformance list."""
    assert report(BANDITS[name]).is_conforming, str(report(BANDITS[name]))


def test_newcomers_join_a_group() -> None:
    """Room for more units of the same group: those who were there keep their curves to 1e-12, and
    newcomers expect the group's."""
    bandit = BANDITS["relative"]
    small = bandit.init(np.zeros(2, dtype=np.int64), ARMS)
    bandit.update(small, some_rows(40, 21, np.arange(2)))
    before = bandit._own(small, np.arange(2))
    large = records.grow(small, bandit.init(np.zeros(5, dtype=np.int64), ARMS))
    mean, root = bandit._own(large, np.arange(5))
    np.testing.assert_allclose(mean[:2], before[0], rtol=1e-12)
    np.testing.assert_allclose(
        root[:2] @ root[:2].swapaxes(-1, -2),
        before[1] @ before[1].swapaxes(-1, -2),
        rtol=1e-12,
        atol=1e-15,
    )
    np.testing.assert_array_equal(mean[2:], np.tile(large.mean[0, :2], (3, 1)))


def test_an_agent_s_units_share_and_replay_bit_for_bit() -> None:
    """New units, outcomes and refits: a replay of the events has the same bytes, and they load. The
    65th unit is refused, and nothing is changed."""
    bandit = HierarchicalCurveThompson(CurveThompson(form="additive"), own_sd=0.3)
    agent = Agent(letting(), bandit, seed=3)
    for i in range(14):
        case = agent.decide(night(60.0 + 30.0 * (i % 9), 0.1 * (i % 4)), unit=f"flat {i % 5}")
        agent.observe(case.id, {"booked": i % 2}, label=[0.1 * (i % 3)])
    again = Agent.replay(agent.events, letting(), bandit, seed=3)
    data = records.to_bytes(agent.state)
    assert records.to_bytes(again.state) == data
    assert records.to_bytes(records.from_bytes(data, again.state)) == data
    assert agent.state.bandit.mean[0, :3].any()
    for i in range(5, 64):
        agent.decide(night(), unit=f"flat {i}")
    data, n = records.to_bytes(agent.state), len(agent.events)
    with pytest.raises(InvalidInput, match="at most 64 units a group"):
        agent.decide(night(), unit="flat 64")
    assert (records.to_bytes(agent.state), len(agent.events)) == (data, n)


TABLE = """
context.base = { type = "number", low = 1, high = 1000 }
arms = { part = "list", values = [0.9, 1.0, 1.1] }
composition = { part = "multiply", base = ["base"], names = ["price"] }
reward = { part = "payoff", outcome = ["booked"], action = 0 }
[bandit]
part = "hierarchical-curve-thompson"
"""


def test_a_file_declares_it() -> None:
    """The curve is a table of its own, spreads a number or a list."""
    text = 'own_sd = [0.2, 0.1]\n[bandit.curve]\npart = "curve-thompson"\nprior_sd = [1.0, 2.0]'
    expected = HierarchicalCurveThompson(CurveThompson(prior_sd=(1.0, 2.0)), own_sd=(0.2, 0.1))
    assert parse(TABLE + text).bandit == expected
    assert parse(TABLE).bandit == HierarchicalCurveThompson()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('curve = { part = "beta-thompson" }', r"bandit\.curve: expected a logistic Curve"),
        ("curve = 3", r"bandit\.curve: expected a table such as"),
        ('curve = { part = "curve-thompson", degree = 3 }', r"bandit\.curve\.degree: expected 1"),
        ("own_sd = 0.0", r"bandit\.own_sd: expected a number > 0"),
    ],
)
def test_a_file_s_mistakes_are_named(line: str, message: str) -> None:
    """Under the key of the file."""
    with pytest.raises(InvalidInput, match=message):
        parse(TABLE + line)
