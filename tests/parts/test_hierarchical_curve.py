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
from gdcb.bandits.hierarchical_curve import HierarchicalCurveState, _inverse
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
    """Return the covariance of w_u of every unit: (cells, m, m)."""
    return np.asarray(state.root @ state.root.swapaxes(-1, -2))


def own(group: int, m: int) -> Array:
    """Return what turns (m_g, v₁, v₂, v₃) into the w_u of a group's units: (units, m, 4m)."""
    units = np.flatnonzero(group == GROUP).size
    out = np.zeros((units, m, 4 * m))
    for place in range(units):
        out[place, :, :m] = out[place, :, m * (1 + place) : m * (2 + place)] = np.eye(m)
    return out


# By hand --------------------------------------------------------------------------------------


def test_one_win_by_hand() -> None:
    """Two units of one group and one of another, all sds 1; a win of the first at u = 1.

    φᵀw₁ has variance 2 + 2, so its mode solves z = 4·(1 − σ(z)), z = 4t, and w₁ = 2t·(1, 1). The
    second hears of it when as many rows came as there are units, that is behind its own: until
    then it has the prior. With h = σ(z)(1 − σ(z)) the variance of φᵀw₁ is 4 − 16h/(1 + 4h).
    """
    bandit = HierarchicalCurveThompson(CurveThompson(prior_sd=1.0), own_sd=1.0)
    state = bandit.init(np.array([0, 0, 1]), ENDS)
    bandit.update(state, evidence([0], [1], [1.0], [1.0]))
    z = optimize.brentq(lambda z: z - 4.0 * (1.0 - special.expit(z)), 0.0, 4.0, xtol=1e-14)
    t, h = z / 4.0, special.expit(z) * (1.0 - special.expit(z))
    np.testing.assert_allclose(state.mean, [[2 * t, 2 * t], [0.0, 0.0], [0.0, 0.0]], atol=1e-12)
    along = state.root.sum(axis=1)  # φ = (1, 1)
    expected = [4.0 - 16.0 * h / (1 + 4 * h), 4.0, 4.0]
    np.testing.assert_allclose((along * along).sum(axis=1), expected, rtol=1e-12)
    assert (state.rows[0], state.since[0], state.place[0]) == (1.0, 1.0, 1)


def test_sharing_by_hand() -> None:
    """The same two units; a fit of one win of the first at u = 1 alone.

    Along φ/√2 = (1, 1)/√2 the coefficients are m ~ N(0, 1), v ~ N(0, 1), and the row says 2h of
    them (φᵀφ = 2). It tells of m (1/2h + 1)⁻¹ = 2h/(1 + 2h), so that the second unit has variance
    1 + 1/(1 + 2h/(1 + 2h)) = (2 + 6h)/(1 + 4h), and half of the first one's mean.
    """
    bandit = HierarchicalCurveThompson(CurveThompson(prior_sd=1.0), own_sd=1.0)
    state = bandit.init(np.array([0, 0, 1]), ENDS)
    bandit.refit(state, evidence([0], [1], [1.0], [1.0]))
    z = optimize.brentq(lambda z: z - 4.0 * (1.0 - special.expit(z)), 0.0, 4.0, xtol=1e-14)
    t, h = z / 4.0, special.expit(z) * (1.0 - special.expit(z))
    np.testing.assert_allclose(state.mean, [[2 * t, 2 * t], [t, t], [0.0, 0.0]], atol=1e-12)
    along = state.root.sum(axis=1) / np.sqrt(2.0)
    expected = [2.0 / (1 + 4 * h), (2 + 6 * h) / (1 + 4 * h), 2.0]
    np.testing.assert_allclose((along * along).sum(axis=1), expected, rtol=1e-12)


def test_the_mean_is_the_integral() -> None:
    """E σ(η) at an arm by SciPy's quadrature over N(φᵀm, φᵀΣφ), to 1e-8."""
    bandit, some = BANDITS["bent"], some_rows(40, 1)
    state = learned(bandit, some)
    found = bandit.mean(state, Setting(np.array([1])), ARMS.nominal)[0]
    m, cov = state.mean[1], covariance(state)[1]
    for k, c in enumerate(ARMS.coords[:, 0]):
        u = (c - 1.25) / 0.75
        row = np.array([1.0, u, u * u])
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
    """w_u = m_g + v_u at the mode of the dense log posterior, by BFGS to 1e-5 and by the gradient
    there to 1e-7; its covariance is that of the dense Hessian, to 1e-9; every group."""
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

        found = optimize.minimize(loss, mean, jac=True, method="BFGS", options={"gtol": 1e-8}).x
        at, cells = own(group, mean.size // 4), np.flatnonzero(group == GROUP)
        np.testing.assert_allclose(state.mean[cells], at @ found, rtol=0, atol=1e-5)
        for _ in range(3):  # polish: BFGS ends where its line search does
            p = special.expit(design @ found)
            hessian = (design * (weight * p * (1 - p))[:, None]).T @ design + np.diag(sd**-2.0)
            found = found - np.linalg.solve(hessian, loss(found)[1])
        np.testing.assert_allclose(state.mean[cells], at @ found, rtol=0, atol=1e-9)
        expected = at @ np.linalg.inv(hessian) @ at.swapaxes(-1, -2)
        np.testing.assert_allclose(covariance(state)[cells], expected, rtol=0, atol=1e-9)


def test_the_exact_fit_is_scikit_learn_s() -> None:
    """Prior means of 0: a ridge of the dense design in units of its prior sds, to 1e-5."""
    from sklearn.linear_model import LogisticRegression

    bandit, some = BANDITS["relative"], some_rows(120, 5)
    state = refitted(bandit, some)
    for group in range(3):
        design, y, weight, _, sd = dense(bandit, some, group)
        model = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-12, solver="newton-cholesky")
        model.fit(design * sd, y, sample_weight=weight)
        expected = own(group, 2) @ (sd * model.coef_[0])
        np.testing.assert_allclose(state.mean[group == GROUP], expected, rtol=0, atol=1e-5)


@EVERY
def test_until_they_share_units_learn_alone(name: str) -> None:
    """Mean and covariance of every unit, against `LogisticPosterior` under N(prior_mean, prior_sd²
    + own_sd²) on its own rows, to 1e-12."""
    bandit, some = BANDITS[name], some_rows(80, 6)
    mean, sd = bandit.curve.prior(1)
    both = np.hypot(sd, np.broadcast_to(np.array(bandit.own_sd), sd.shape))
    expected = LogisticPosterior.prior(6, mean, both)
    expected.observe(some.cell, features(bandit, some), some.y, some.weight)
    for group in (GROUP, np.arange(6)):  # who has nobody to share with learns alone for good
        state = bandit.init(group, ARMS)
        if group is GROUP:
            state.rows[:] = 1e9  # 80 more are too few to share
        bandit.update(state, some)
        np.testing.assert_allclose(state.mean, expected.mean, rtol=0, atol=1e-12)
        np.testing.assert_allclose(covariance(state), expected.covariance, rtol=0, atol=1e-12)


@EVERY
def test_sharing_is_the_joint_normal_posterior(name: str) -> None:
    """With what every unit's rows say (L_u and its shift) as normal likelihoods, the marginals of
    the dense posterior of (m_g, v), to 1e-9."""
    bandit, some = BANDITS[name], some_rows(80, 7)
    apart = bandit.init(np.arange(6), ARMS)
    bandit.update(apart, some)
    mean, sd = bandit.curve.prior(1)
    spread = np.broadcast_to(np.array(bandit.own_sd), sd.shape)
    before = np.diag(1.0 / (sd**2 + spread**2))
    precision = np.linalg.inv(covariance(apart))
    said = precision - before
    shift = (precision @ apart.mean[..., None])[..., 0] - before @ mean
    state = bandit.init(GROUP, ARMS)
    bandit._hear(state, np.arange(6), said, shift)
    m = sd.size
    for group in range(3):
        at, cells = own(group, m), np.flatnonzero(group == GROUP)
        prior = np.concatenate((sd, np.tile(spread, 3))) ** -2.0
        joint, pull = np.diag(prior), np.concatenate((prior[:m] * mean, np.zeros(3 * m)))
        for place, cell in enumerate(cells):
            joint = joint + at[place].T @ said[cell] @ at[place]
            pull = pull + at[place].T @ shift[cell]
        expected = at @ np.linalg.solve(joint, pull)
        np.testing.assert_allclose(state.mean[cells], expected, rtol=0, atol=1e-9)
        cov = at @ np.linalg.inv(joint) @ at.swapaxes(-1, -2)
        np.testing.assert_allclose(covariance(state)[cells], cov, rtol=0, atol=1e-9)
    # What the others said is taken off again when they share the next time: nothing changes.
    again = records.copy(state)
    bandit._share(again, np.arange(3))
    np.testing.assert_allclose(again.mean, state.mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(covariance(again), covariance(state), rtol=0, atol=1e-9)


def test_without_a_spread_all_units_have_one_curve() -> None:
    """own_sd 1e-4: every unit's curve is that of the group's rows learned together, to 1e-6."""
    bandit, some = replace(BANDITS["relative"], own_sd=1e-4), some_rows(80, 7, np.arange(3))
    state = refitted(bandit, some)
    together = LogisticPosterior.fit(features(bandit, some), some.y, some.weight, 0.0, 1.5**-2.0)
    np.testing.assert_allclose(state.mean[:3], np.tile(together.mean, (3, 1)), atol=1e-6)
    expected = np.tile(together.covariance, (3, 1, 1))
    np.testing.assert_allclose(covariance(state)[:3], expected, atol=1e-6)


def test_with_a_known_group_units_learn_apart() -> None:
    """prior_sd 1e-5: every unit has the curve of its own rows under N(0, own_sd²), to 1e-8."""
    bandit = HierarchicalCurveThompson(CurveThompson(prior_sd=1e-5), own_sd=1.2)
    some = some_rows(80, 8)
    mean = refitted(bandit, some).mean
    for unit in range(6):
        mine = some.cell == unit
        alone = LogisticPosterior.fit(
            features(bandit, some)[mine], some.y[mine], some.weight[mine], 0.0, 1.2**-2.0
        )
        np.testing.assert_allclose(mean[unit], alone.mean[0], atol=1e-8)


# Sharing --------------------------------------------------------------------------------------


@EVERY
def test_a_unit_without_rows_moves_towards_the_group_s(name: str) -> None:
    """Rows of units 0 and 1 only: unit 2 expects something between the prior and what they expect,
    and is less sure of it than they, and surer than before; other groups keep their bytes."""
    bandit = BANDITS[name]
    some = some_rows(120, 9, np.arange(2))
    before, state = bandit.init(GROUP, ARMS), refitted(bandit, some)
    phi = features(bandit, evidence_at(1.0))[0]
    prior, found = phi @ before.mean[0], state.mean @ phi
    led = found[:2].mean() - prior
    assert 0.0 < (found[2] - prior) / led < 1.0
    spread, old = (((phi @ one.root) ** 2).sum(axis=-1) for one in (state, before))
    assert spread[:2].max() < spread[2] < old[2]
    # It hears of m_g, and has a deviation of its own on top.
    spare = np.broadcast_to(np.array(bandit.own_sd), (phi.size,)) ** 2
    assert (np.linalg.eigvalsh(covariance(state)[2] - np.diag(spare)) > 0.0).all()
    np.testing.assert_allclose(state.others[2] @ covariance(state)[2], np.eye(phi.size), atol=1e-9)
    for field in ("mean", "root", "others_mean", "others"):
        assert bytes_of(getattr(state, field)[3:]) == bytes_of(getattr(before, field)[3:])


def evidence_at(coord: float) -> Evidence:
    """Return one row at a coordinate under δ = 1."""
    return replace(evidence([0], [-1], [1.0], [coord]), delta=np.ones((1, 1, 1)))


@given(y=st.sampled_from([0.0, 1.0]), coord=st.floats(0.4, 2.1), spread=st.floats(0.05, 3.0))
@fixed
def test_one_row_moves_the_others_by_their_share(y: float, coord: float, spread: float) -> None:
    """By prior_sd²/(prior_sd² + own_sd²) of what its own unit moves by, in every coefficient."""
    bandit = replace(BANDITS["relative"], own_sd=spread)
    state = refitted(bandit, evidence([0], [-1], [y], [coord]))
    share = 1.5**2 / (1.5**2 + spread**2)
    np.testing.assert_allclose(state.mean[1], share * state.mean[0], rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(state.mean[2], state.mean[1])
    assert not state.mean[3:].any()


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, range(3, 49, 3)), (0.5, (3, 6, 9, 15, 24, 36)), (1e9, (3,))]
)
def test_units_share_by_a_part_of_the_rows(share: float, expected: Any) -> None:
    """Three units: after 3 rows (nothing stood before), 3 of ½·3, 3 of ½·6, 6 of ½·9, 9 of ½·15 and
    12 of ½·24; or with every three rows. In between a unit sees its own rows only. Rows of weight ½
    count by halves on both sides, and rows that say nothing not at all."""
    for weight in (1.0, 0.5):
        bandit = replace(BANDITS["relative"], share=share)
        state, when = bandit.init(GROUP, ARMS), []
        some = some_rows(48, 10, np.arange(2))
        for i in range(48):
            void = evidence([0, 1], [0, 0], [1.0, 1.0], [np.nan, 1.0], weight=[1.0, 0.0])
            bandit.update(state, void)
            before = bytes_of(state.mean[2])
            bandit.update(state, replace(pick(some, [i]), weight=np.full(1, weight)))
            if bytes_of(state.mean[2]) != before:  # unit 2 has no rows: it hears
                when.append(i + 1)
                assert state.since[0] == 0.0
        assert when == list(expected)
        assert state.rows[0] == 48 * weight


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
    for prior, spread in ((1.5, 0.8), (1e-4, np.hypot(1.5, 0.8)), (1.5, 1e-4)):
        bandit = HierarchicalCurveThompson(CurveThompson(prior_sd=prior), own_sd=float(spread))
        state = bandit.init(group, ARMS)
        bandit.refit(state, some)
        errors.append(((state.mean - truth) ** 2).mean())
    assert errors[0] < 0.8 * min(errors[1:])


# Order, company, bytes ------------------------------------------------------------------------


@given(some=evidences(6, ARMS.coords, is_class=True), name=st.sampled_from(sorted(BANDITS)))
@fixed
def test_batch_equals_loop(some: Evidence, name: str) -> None:
    """Rows of a cell are learned in their order, and units share behind the same row, in a batch
    too: to 1e-12."""
    some, bandit = replace(some, delta=some_rows(12, 11).delta), BANDITS[name]
    some = replace(some, delta=some.delta[: some.cell.size])  # type: ignore[index]
    batch = learned(bandit, some)
    loop = learned(bandit, *(pick(some, [i]) for i in range(some.cell.size)))
    for field, array in records.flatten(batch).items():
        np.testing.assert_allclose(
            array, records.flatten(loop)[field], rtol=0, atol=1e-12, err_msg=field
        )


@given(seed=st.integers(0, 10**6), name=st.sampled_from(sorted(BANDITS)))
@fixed
def test_the_exact_fit_forgets_order_and_what_was_learned(seed: int, name: str) -> None:
    """Rows in another order, from another start: the same mode and Σ, to 1e-7; Σ is positive."""
    bandit, some = BANDITS[name], some_rows(30, seed)
    one = refitted(bandit, some)
    other = learned(bandit, some_rows(50, seed + 1))
    bandit.refit(other, pick(some, rng_of(seed).permutation(30)))
    touched = np.isin(GROUP, GROUP[some.cell])
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
        np.testing.assert_allclose(moved.mean[order], plain.mean, rtol=0, atol=close)
        np.testing.assert_allclose(covariance(moved)[order], covariance(plain), rtol=0, atol=close)


@EVERY
def test_a_group_has_the_same_bytes_alone(name: str) -> None:
    """Learned, fitted, drawn and scored without the rows of other groups beside it."""
    bandit, some = BANDITS[name], some_rows(90, 13)
    alone = pick(some, np.flatnonzero(GROUP[some.cell] == 1))
    for way in ("update", "refit"):
        beside, by_itself = bandit.init(GROUP, ARMS), bandit.init(GROUP, ARMS)
        getattr(bandit, way)(beside, some)
        getattr(bandit, way)(by_itself, alone)
        for field in ("mean", "root", "others_mean", "others"):
            one, two = (getattr(state, field)[GROUP == 1] for state in (beside, by_itself))
            assert bytes_of(one) == bytes_of(two), field
        assert beside.rows[1] == by_itself.rows[1]
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
    own_cells = GROUP == 1
    for field in ("mean", "root", "others_mean", "others"):
        new, old = getattr(state, field), getattr(before, field)
        assert bytes_of(new[~own_cells]) == bytes_of(old[~own_cells])
        assert np.abs(new[own_cells] - old[own_cells]).max() > 1e-6
    assert state.rows[1] == mine.weight.sum()
    assert (state.since[1], state.place[1]) == (0.0, 0)
    ran = some.coord.copy()
    ran[some.cell == 5] = np.nan
    none = replace(some, weight=np.where(GROUP[some.cell] == 1, 0.0, some.weight), coord=ran)
    bandit.refit(state, none)
    prior = bandit.init(GROUP, ARMS)
    for way in (none, replace(some, weight=np.zeros(60)), pick(some, np.arange(0))):
        bandit.refit(state, way)
        np.testing.assert_allclose(state.mean[3:], prior.mean[3:], atol=1e-12)
        np.testing.assert_allclose(covariance(state)[3:], covariance(prior)[3:], atol=1e-12)
        assert not state.rows[1:].any()
    np.testing.assert_allclose(state.mean, prior.mean, atol=1e-12)


def test_decay_scales_what_a_unit_s_rows_say() -> None:
    """Of unit 3 by ½: as if the likelihood that its rows left were to the power of ½, and its group
    had shared; groups of no such cell keep their bytes, 1 keeps all and 0 nothing."""
    bandit = BANDITS["bent"]
    state, prior = learned(bandit, some_rows(60, 15)), bandit.init(GROUP, ARMS)
    before = records.copy(state)
    bandit.decay(state, 1.0, np.arange(6))
    assert records.to_bytes(state) == records.to_bytes(before)
    expected = records.copy(before)
    precision = np.linalg.inv(covariance(expected))
    said = precision - expected.others
    shift = (precision @ expected.mean[..., None])[..., 0]
    shift -= (expected.others @ expected.others_mean[..., None])[..., 0]
    cells, kept = np.array([3, 4]), np.array([0.5, 1.0])
    bandit._hear(expected, cells, kept[:, None, None] * said[cells], kept[:, None] * shift[cells])
    bandit.decay(state, 0.5, np.array([3]))
    np.testing.assert_allclose(state.mean, expected.mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(covariance(state), covariance(expected), rtol=0, atol=1e-9)
    others = GROUP != 1
    assert bytes_of(state.mean[others]) == bytes_of(before.mean[others])
    assert state.rows[1] == pytest.approx(0.75 * before.rows[1])
    bandit.decay(state, 0.0, np.arange(6))
    np.testing.assert_allclose(state.mean, prior.mean, atol=1e-9)
    np.testing.assert_allclose(covariance(state), covariance(prior), atol=1e-9)
    assert not state.rows.any()


# Draws ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [0.0, 1.0, 2.0])
def test_draws_have_the_posterior_s_law(width: float) -> None:
    """Mean and covariance of 40,000 drawn curves of unit 1, each entry within 4.5 standard errors:
    a false alarm below 1e-4. With width 0 they are the mean itself."""
    bandit, n = replace(BANDITS["bent"], width=width), 40_000
    state = learned(bandit, some_rows(60, 16))
    drawn = bandit.draw(stream(5, 1000), state, Setting(np.ones(n, dtype=np.int64)))[:, :3]
    mean, cov = state.mean[1], width**2 * covariance(state)[1]
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
    """A step row by row can be taken back: of each unit's last row the density is the one before
    it was learned, to 1e-9, as long as they do not share."""
    bandit, some = BANDITS[name], some_rows(50, 17)
    state = bandit.init(np.arange(6), ARMS)
    for unit in range(6):
        mine = np.flatnonzero(some.cell == unit)
        bandit.update(state, pick(some, mine[:-1]))
        row = pick(some, mine[-1:])
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


@pytest.mark.parametrize("way", ["update", "refit"])
def test_weights_without_end_are_refused(way: str) -> None:
    """Before the rows in front of them are learned, also where a group shares in between."""
    bandit = BANDITS["additive"]
    state = learned(bandit, some_rows(10, 20))
    before = records.to_bytes(state)
    rows = some_rows(12, 21)
    rows.weight[-1] = np.inf
    with pytest.raises(InvalidInput, match="weight: expected finite numbers >= 0, got"):
        getattr(bandit, way)(state, rows)
    assert records.to_bytes(state) == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"curve": CurveThompson(link="identity")}, "bandit.curve: expected a logistic Curve"),
        ({"curve": CurveThompson}, "bandit.curve: expected a logistic CurveThompson, got"),
        ({"curve": (CurveThompson(),)}, "bandit.curve: expected a logistic CurveThompson, got"),
        ({"own_sd": 0.0}, "bandit.own_sd: expected a number >= 1e-05, got 0"),
        ({"own_sd": (0.5, -1.0)}, "bandit.own_sd: expected a number >= 1e-05, got -1"),
        ({"own_sd": float("nan")}, "bandit.own_sd: expected a finite number"),
        ({"own_sd": [0.5, -1.0]}, "bandit.own_sd: expected a number >= 1e-05, got -1"),
        ({"width": -1.0}, "bandit.width: expected a number >= 0, got -1"),
        ({"width": float("inf")}, "bandit.width: expected a finite number"),
        ({"share": -0.1}, "bandit.share: expected a number >= 0, got -0.1"),
        ({"share": float("nan")}, "bandit.share: expected a finite number"),
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


@pytest.mark.parametrize("units", [1, 65, 500])
def test_a_group_may_be_of_any_size(units: int) -> None:
    """The cost is linear in the units; a fit of one row each is that of the dense limit, where all
    units see the same: equal curves."""
    bandit = BANDITS["bent"]
    state = bandit.init(np.zeros(units, dtype=np.int64), ARMS)
    bandit.refit(state, evidence(np.arange(units), np.zeros(units), np.ones(units), np.ones(units)))
    assert np.ptp(state.mean, axis=0).max() < 1e-12
    assert (np.linalg.eigvalsh(covariance(state)) > 0.0).all()


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5])
def test_small_inverses_are_inverses(m: int) -> None:
    """Of 50 positive definite matrices, by formula up to three rows and by LAPACK beyond: to 1e-9,
    each as it is alone."""
    root = rng_of(22).normal(size=(50, m, m))
    matrix = root @ root.swapaxes(-1, -2) + 0.1 * np.eye(m)
    found = _inverse(matrix)
    np.testing.assert_allclose(found @ matrix, np.tile(np.eye(m), (50, 1, 1)), atol=1e-9)
    assert bytes_of(found[7:8]) == bytes_of(_inverse(matrix[7:8]))


# In its places --------------------------------------------------------------------------------


@EVERY
def test_keeps_what_bandits_promise(name: str) -> None:
    """The conformance list."""
    assert report(BANDITS[name]).is_conforming, str(report(BANDITS[name]))


def test_newcomers_join_a_group() -> None:
    """Room for more units of the same group: those who were there keep their bytes, newcomers start
    with the prior and hear of the group when its units share."""
    bandit = BANDITS["relative"]
    small = bandit.init(np.zeros(2, dtype=np.int64), ARMS)
    bandit.update(small, some_rows(40, 23, np.arange(2)))
    before = bytes_of(small.mean, small.root)
    large = records.grow(small, bandit.init(np.zeros(5, dtype=np.int64), ARMS))
    assert bytes_of(large.mean[:2], large.root[:2]) == before
    assert not large.mean[2:].any()
    bandit.update(large, some_rows(40, 24, np.arange(2)))
    assert (large.mean[2:] == large.mean[2]).all()
    assert np.abs(large.mean[2]).max() > 0.1


def test_an_agent_s_units_share_and_replay_bit_for_bit() -> None:
    """New units, outcomes and refits: a replay of the events has the same bytes, and they load."""
    bandit = HierarchicalCurveThompson(CurveThompson(form="additive"), own_sd=0.3)
    agent = Agent(letting(), bandit, seed=3)
    for i in range(24):
        case = agent.decide(night(60.0 + 30.0 * (i % 9), 0.1 * (i % 4)), unit=f"flat {i % 5}")
        agent.observe(case.id, {"booked": i % 2}, label=[0.1 * (i % 3)])
    again = Agent.replay(agent.events, letting(), bandit, seed=3)
    data = records.to_bytes(agent.state)
    assert records.to_bytes(again.state) == data
    assert records.to_bytes(records.from_bytes(data, again.state)) == data
    room = agent.state.bandit.mean[5:]  # nobody's rows: they only hear
    assert np.abs(room).max() > 1e-3


TABLE = """
context.base = { type = "number", low = 1, high = 1000 }
arms = { part = "list", values = [0.9, 1.0, 1.1] }
composition = { part = "multiply", base = ["base"], names = ["price"] }
gates = []
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
        ("own_sd = 0.0", r"bandit\.own_sd: expected a number >= 1e-05"),
    ],
)
def test_a_file_s_mistakes_are_named(line: str, message: str) -> None:
    """Under the key of the file."""
    with pytest.raises(InvalidInput, match=message):
        parse(TABLE + line)
