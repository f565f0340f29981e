"""The covariance scaler: by hand, against a ridge reference, its compact set, bad labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdcb import records
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman.responses import Basis
from gdcb.scalers import CovarianceScaler
from gdcb.scalers.covariance import CovarianceState, hats
from tests.parts.builders import bytes_of, fixed, rng_of

# Two modes with two knots of Q each, three of R, and P₀: 8 coefficients. Column 0 is the strain,
# column 1 the signal.
MANY: dict[str, Any] = {
    "n_modes": 2,
    "mixes": True,
    "process": 0,
    "process_knots": (0.0, 1.0),
    "noise": 1,
    "noise_knots": (0.0, 0.5, 1.0),
    "prior_mean": (1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 0.5, 0.8),
    "prior_sd": (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2),
    "low": 0.05,
    "high": 20.0,
    "axes": 2,
}
ONE = np.zeros(1, dtype=np.int64)


def labels_of(seed: int, n: int, size: int = 8, missing: float = 0.2) -> Array:
    """Return rows of products and responses; some products are missing."""
    rng = rng_of(seed)
    square, lagged = rng.random((n, size)), rng.normal(size=(n, size))
    products = np.column_stack((3.0 * rng.random(n), rng.normal(size=n)))
    products[rng.random((n, 2)) < missing] = np.nan
    return np.concatenate((products, square, lagged), axis=1)


def taught(
    scaler: CovarianceScaler,
    label: Array,
    owner: Array | None = None,
    weight: Array | None = None,
    n_owners: int = 1,
    state: CovarianceState | None = None,
) -> CovarianceState:
    """Return the state after these rows."""
    n = label.shape[0]
    state = scaler.init(n_owners) if state is None else state
    owner = np.zeros(n, dtype=np.int64) if owner is None else owner
    weight = np.ones(n) if weight is None else weight
    scaler.observe(state, owner, np.zeros((n, 2)), np.zeros((n, 2)), label, weight)
    return state


def reference(scaler: CovarianceScaler, label: Array, weight: Array) -> tuple[Array, Array]:
    """Return β before it is clipped and its covariance, by augmented least squares."""
    mean, sd = np.array(scaler.prior_mean), np.array(scaler.prior_sd)
    rows, targets = [np.diag(1.0 / sd)], [mean / sd]
    size = scaler.size
    for one, w in zip(label, weight, strict=True):
        square, lagged = one[2 : 2 + size], one[2 + size :]
        expected = square @ mean
        spread = (2.0 * expected**2, expected**2 + (lagged @ mean) ** 2)
        for product, response, variance in zip(one[:2], (square, lagged), spread, strict=True):
            if np.isfinite(product):
                root = np.sqrt(w * scaler.axes / variance)
                rows.append(root * response[None])
                targets.append(np.array([root * product]))
    design, target = np.concatenate(rows), np.concatenate(targets)
    beta = np.linalg.lstsq(design, target, rcond=None)[0]
    return beta, np.linalg.inv(design.T @ design)


def test_a_lagged_product_by_hand() -> None:
    """Coefficients (q, r, p), prior 1 ± 1; E[ν²] = q + r = 2, E[νν₋] = q − r = 0 and ½ is seen.

    Its variance is 2² + 0² = 4 and (q, r) moves by (1, −1)·½/(4 + 2) = ±1/12.
    """
    scaler = CovarianceScaler(n_modes=1)
    label = np.array([[np.nan, 0.5, 1.0, 1.0, 0.0, 1.0, -1.0, 0.0]])
    state = taught(scaler, label)
    assert scaler.publish(state, ONE).tolist() == [0]
    delta = scaler.predict(state, ONE, np.zeros((1, 1)))
    assert delta.round(12).tolist() == [[[round(1 + 1 / 12, 12), round(1 - 1 / 12, 12), 1.0]]]


def test_sizes_by_hand() -> None:
    """Half way between knots δ is half way between coefficients; beyond them it is constant."""
    scaler = CovarianceScaler(**MANY)
    x = np.array([[0.5, 0.25], [-3.0, 9.0]])
    found = scaler.predict(scaler.init(1), np.zeros(2, dtype=np.int64), x)
    by_hand = [
        [[1.5, 2.0, 0.8], [0.75, 2.0, 0.8], [1.125, 2.0, 0.8]],
        [[1.0, 0.5, 0.8], [0.5, 0.5, 0.8], [0.75, 0.5, 0.8]],
    ]
    np.testing.assert_allclose(found, by_hand, rtol=1e-15)


def test_hats_are_numpy_s_interpolation() -> None:
    rng = rng_of(1)
    knots, values = (0.0, 0.3, 1.0, 2.5), rng.normal(size=4)
    at = np.concatenate((rng.uniform(-1.0, 4.0, 50), knots))
    h = hats(at, knots)
    np.testing.assert_allclose(h @ values, np.interp(at, knots, values), rtol=1e-12, atol=1e-14)
    assert (h >= 0.0).all()
    np.testing.assert_allclose(h.sum(axis=1), 1.0, rtol=1e-15)


def test_the_fit_is_a_ridge_reference_s() -> None:
    """β̂ and its standard errors of 60 rows with weights, by least squares of NumPy's, to 1e-9."""
    scaler = CovarianceScaler(**MANY | {"low": 1e-6, "high": 1e6})
    label, weight = labels_of(2, 60), rng_of(3).uniform(0.0, 2.0, 60)
    label[:, 0] += 1.0
    state = taught(scaler, label, weight=weight)
    beta, spread = reference(scaler, label, weight)
    assert (beta > 1e-6).all()  # else the bound decides
    np.testing.assert_allclose(scaler.solve(state.sums, ONE)[0], beta, rtol=1e-9)
    x = np.array([[0.3, 0.6]])
    error = scaler.uncertainty(state, ONE, x)[0]
    q, r = np.array([0.7, 0.3]), np.array([0.0, 0.8, 0.2])
    rows = [np.zeros(8) for _ in range(5)]
    rows[0][:2], rows[1][2:4], rows[2][:4] = q, q, np.tile(q / 2, 2)
    rows[3][4:7], rows[4][7] = r, 1.0
    expected = [np.sqrt(row @ spread @ row) for row in rows]
    np.testing.assert_allclose(error[:, 0], expected[:3], rtol=1e-9)
    np.testing.assert_allclose(error[:, 1:], np.tile(expected[3:], (3, 1)), rtol=1e-9)
    before = scaler.uncertainty(scaler.init(1), ONE, np.array([[0.0, 0.0]]))[0]
    np.testing.assert_allclose(before[0], (0.5, 0.9, 1.2), rtol=1e-12)


def test_row_by_row_any_order_and_merged() -> None:
    """Two owners, 40 rows: sums and β agree to rounding, counts exactly."""
    scaler = CovarianceScaler(**MANY)
    label, owner = labels_of(4, 40), rng_of(5).integers(0, 2, 40)
    both = np.arange(2)
    at_once = taught(scaler, label, owner, n_owners=2)
    single, order = scaler.init(2), rng_of(6).permutation(40)
    for i in order:
        taught(scaler, label[i : i + 1], owner[i : i + 1], state=single)
    merged = taught(scaler, label[:17], owner[:17], n_owners=2)
    scaler.merge(merged, taught(scaler, label[17:], owner[17:], n_owners=2))
    for state in (at_once, single, merged):
        scaler.publish(state, both)
    for state in (single, merged):
        np.testing.assert_allclose(state.sums.gram, at_once.sums.gram, rtol=1e-12)
        np.testing.assert_allclose(state.beta, at_once.beta, rtol=1e-10)
        assert (state.rows == at_once.rows).all()


def test_an_owner_does_not_know_who_else_is_taught() -> None:
    """To the last bit: its coefficients, sizes and errors."""
    scaler = CovarianceScaler(**MANY)
    label, owner, x = labels_of(7, 60), np.repeat(np.arange(3), 20), rng_of(8).random((3, 2))
    whole = taught(scaler, label, owner, n_owners=3)
    scaler.publish(whole, np.arange(3))
    for i in range(3):
        alone = taught(scaler, label[owner == i])
        scaler.publish(alone, ONE)
        assert bytes_of(alone.beta[0]) == bytes_of(whole.beta[i])
        one, mine = x[i : i + 1], np.array([i])
        for name in ("predict", "uncertainty"):
            a, b = getattr(scaler, name)(alone, ONE, one), getattr(scaler, name)(whole, mine, one)
            assert bytes_of(a) == bytes_of(b)


@given(
    seed=st.integers(0, 2**32 - 1),
    product=st.sampled_from([0.0, 1e-9, 1.0, 1e6, 1e12]),
    square=st.sampled_from([1e-9, 1e-3, 1.0, 1e6]),
    lagged=st.sampled_from([0.0, 1e-9, 1.0, 1e6, 1e12]),
)
@fixed
def test_sizes_stay_within_the_compact_set(
    seed: int, product: float, square: float, lagged: float
) -> None:
    """Whatever labels came: β and δ lie within [low, high], and so (Q, R) is positive."""
    scaler, rng, n = CovarianceScaler(**MANY), rng_of(seed), 6
    label = np.concatenate(
        (
            product * rng.normal(size=(n, 2)),
            square * rng.random((n, 8)) ** 4,
            lagged * rng.integers(-1, 2, (n, 8)) * rng.random((n, 1)),
        ),
        axis=1,
    )
    state = taught(scaler, label, weight=10.0 * rng.random(n))
    scaler.publish(state, ONE)
    assert ((state.beta >= scaler.low) & (state.beta <= scaler.high)).all()
    x = rng.normal(size=(n, 2)) * 10.0 ** rng.integers(-2, 7, (n, 1))
    delta = scaler.predict(state, np.zeros(n, dtype=np.int64), x)
    # A mean of numbers within the bounds is within them but for its rounding.
    assert (delta >= scaler.low * (1 - 1e-12)).all()
    assert (delta <= scaler.high * (1 + 1e-12)).all()


def in_instalments(prior: tuple[float, float], truth: float, seed: int, rows: int) -> Array:
    """Return R̂ and its stated error after rows ν² = truth·χ², published every 50."""
    scaler = CovarianceScaler(
        prior_mean=(1.0, prior[0], 1.0), prior_sd=(1.0, prior[1], 1.0), low=1e-4
    )
    label = np.full((rows, 8), np.nan)
    label[:, 0], label[:, 2:5] = truth * rng_of(seed).normal(size=rows) ** 2, (0.0, 1.0, 0.0)
    state = scaler.init(1)
    for some in np.split(label, rows // 50):
        taught(scaler, some, state=state)
        scaler.publish(state, ONE)
    return np.array([state.beta[0, 1], scaler.uncertainty(state, ONE, np.zeros((1, 2)))[0, 0, 1]])


@pytest.mark.parametrize(("prior", "truth"), [(0.01, 9.0), (1.0, 9.0), (9.0, 0.01)])
def test_a_prior_that_is_far_off_is_left_behind(prior: float, truth: float) -> None:
    """The prior is ± 9. After 1,000 rows R̂ varies over 40 seeds as it says, by √(2/1,000) of R.

    Where 9 is true and the prior says 0.01, first rows of a fixed weight would make that 0.22 of R
    and the stated error 0.0002 of it. A standard deviation over 40 seeds is off by more than 45 %,
    or their mean by 4 %, in less than one of a thousand; the prior takes another 1.4 % of R̂.
    """
    found = np.stack([in_instalments((prior, 9.0), truth, seed, 1000) for seed in range(40)])
    ideal = truth * np.sqrt(2.0 / 1000)
    assert found[:, 0].mean() == pytest.approx(truth, rel=0.04)
    assert found[:, 0].std(ddof=1) == pytest.approx(ideal, rel=0.45)
    np.testing.assert_allclose(found[:, 1], ideal, rtol=0.2)


def test_a_prior_that_is_sure_and_wrong_gives_way_steadily() -> None:
    """0.01 ± 0.01 where 9 is true: the prior weighs 10⁴, n rows at β weigh n/(2β²).

    β = 0.01 + 8.99·n/(n + 2·10⁴·β²): about (9n/(2·10⁴))^⅓ = 0.77 after 1,000 rows. It rises with n
    and never jumps between 0.01 and 9, as whole steps would.
    """
    found = [in_instalments((0.01, 0.01), 9.0, 0, rows)[0] for rows in (250, 500, 1000, 1050)]
    assert found == sorted(found)
    assert found[2] == pytest.approx(0.77, rel=0.1)


def test_rare_contexts_are_weighted_by_their_own_size() -> None:
    """Two knots of R, both with a prior of 0.01 ± 9; at one 0.01 is true, at the other, rare, 9.

    4,000 rows, one in forty at the rare one: both stated errors are √(2/n) of R, to a quarter.
    """
    scaler = CovarianceScaler(
        noise=0, noise_knots=(0.0, 1.0), prior_mean=0.01, prior_sd=9.0, low=1e-4
    )
    x = np.zeros((4000, 1))
    x[39::40] = 1.0
    label = np.full((4000, 10), np.nan)
    label[:, 2:6] = np.column_stack((0.0 * x, 1.0 - x, x, 0.0 * x))
    label[:, 0] = np.where(x[:, 0] > 0.0, 9.0, 0.01) * rng_of(1).normal(size=4000) ** 2
    state = scaler.init(1)
    for some in np.split(label, 80):
        taught(scaler, some, state=state)
        scaler.publish(state, ONE)
    at, two = np.array([[0.0], [1.0]]), np.zeros(2, dtype=np.int64)
    size, error = scaler.predict(state, two, at)[:, 0, 1], scaler.uncertainty(state, two, at)
    np.testing.assert_allclose(size, (0.01, 9.0), rtol=0.5)
    np.testing.assert_allclose(
        error[:, 0, 1] / size, np.sqrt(2.0 / np.array([3900, 100])), rtol=0.25
    )


def test_publishing_again_changes_nothing() -> None:
    """To the last bit: what is in force fits sums that it weights itself."""
    scaler = CovarianceScaler(**MANY)
    state = taught(scaler, labels_of(15, 60))
    assert scaler.publish(state, ONE).size == 1
    before = records.to_bytes(state)
    assert scaler.publish(state, ONE).size == 0
    assert records.to_bytes(state) == before


def test_merged_rows_get_the_weights_of_the_state_that_they_join() -> None:
    """R̂ is 9 here and 0.01 there: 50 rows from there count as 50 rows of a size of 9."""
    scaler = CovarianceScaler(prior_mean=0.01, prior_sd=9.0, low=1e-4)
    states = []
    for truth in (9.0, 0.01):
        label = np.full((50, 8), np.nan)
        label[:, 0], label[:, 2:5] = truth, (0.0, 1.0, 0.0)
        states.append(taught(scaler, label))
        scaler.publish(states[-1], ONE)
    one, other = states
    before = records.to_bytes(other)
    alone = one.sums.gram[0, 0, 1, 1]
    scaler.merge(one, other)
    assert one.sums.gram[0, 0, 1, 1] == pytest.approx(2.0 * alone, rel=1e-4)
    assert records.to_bytes(other) == before


def test_one_owner_s_uneven_sums_stop_nobody() -> None:
    """A product of weight 2⁴⁰ that hangs on 2⁴⁰·(q − r): the prior's 1 is lost beside 2¹²⁰.

    Its system is singular in doubles; β stays within bounds, and others have the bits they have
    alone.
    """
    scaler, nan = CovarianceScaler(n_modes=1), np.nan
    odd = np.array([[nan, 1.0, 0.0, 2.0**-20, 0.0, 2.0**40, -(2.0**40), 0.0]])
    plain = np.array([[5.0, nan, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]])
    state = taught(scaler, np.concatenate((odd, plain)), np.array([1, 0]), n_owners=3)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.inv(state.sums.gram.sum(axis=1) + np.eye(3))
    scaler.publish(state, np.arange(3))
    assert ((state.beta[1] >= scaler.low) & (state.beta[1] <= scaler.high)).all()
    alone = taught(scaler, plain)
    scaler.publish(alone, ONE)
    assert bytes_of(state.beta[0]) == bytes_of(alone.beta[0])
    assert (state.beta[2] == 1.0).all()


def test_it_finds_the_truth_where_modes_are_known() -> None:
    """200 tracks of 60 steps with gains that vary: every size within 4 of its standard errors.

    Standard errors are those of the reference's residuals (a sandwich over tracks), so that 8 sizes
    give a false alarm in 2,000 seeds. And R is within 5 %, everything within a quarter of 1.
    """
    scaler = CovarianceScaler(**MANY | {"axes": 1, "prior_mean": 1.0, "prior_sd": 30.0})
    truth = np.array([0.4, 1.5, 2.0, 0.7, 2.5, 0.9, 0.4, 1.8])
    rng, tracks, steps = rng_of(9), 200, 60
    f, h = np.array([[1.0, 1.0], [0.0, 0.9]]), np.array([[1.0, 0.0]])
    process = np.repeat([np.diag((0.5, 0.05)), np.diag((0.1, 0.6))], 2, axis=0)
    basis = Basis(f, h, process, np.ones((3, 1, 1)), np.diag((4.0, 1.0))[None])
    error = rng.normal(size=(tracks, 2)) * np.sqrt(truth[7] * np.array([4.0, 1.0]))
    m, last = basis.start(tracks), np.full(tracks, np.nan)
    lagged, labels = np.zeros((tracks, 8)), []
    mode = rng.integers(0, 2, tracks)
    for _ in range(steps):
        mode = np.where(rng.random(tracks) < 0.1, 1 - mode, mode)
        strain, signal = rng.random((2, tracks))
        c_r = hats(signal, (0.0, 0.5, 1.0))
        c_q = (np.eye(2)[mode][:, :, None] * hats(strain, (0.0, 1.0))[:, None]).reshape(tracks, 4)
        nu = error[:, 0] + rng.normal(size=tracks) * np.sqrt(c_r @ truth[4:7])
        square = basis.squares(m, c_r)[..., 0, 0]
        labels.append(np.column_stack((nu * nu, nu * last, square, lagged)))
        gain = np.column_stack((rng.uniform(0.1, 0.9, tracks), rng.uniform(0.0, 0.4, tracks)))
        q = np.einsum("ti,ijk->tjk", c_q * truth[:4], process)
        shock = np.linalg.cholesky(q) @ rng.normal(size=(tracks, 2, 1))
        error = (error - gain * nu[:, None]) @ f.T + shock[..., 0]
        m, after = basis.step(m, gain[:, :, None], c_q, c_r)
        lagged, last = after[..., 0, 0], nu
    rows = np.stack(labels, axis=1)  # tracks first
    state = taught(scaler, rows.reshape(-1, 18))
    beta, spread = reference(scaler, rows.reshape(-1, 18), np.ones(tracks * steps))
    np.testing.assert_allclose(scaler.solve(state.sums, ONE)[0], beta, rtol=1e-8)
    scaler.publish(state, ONE)
    # Under its own weights the prior counts for a little more or less.
    np.testing.assert_allclose(state.beta[0], beta, rtol=1e-3)
    scores = np.stack([_score(scaler, track, beta) for track in rows])
    error_of = np.sqrt(np.diag(spread @ (scores.T @ scores) @ spread))
    assert (np.abs(beta - truth) < 4.0 * error_of).all()
    assert (np.abs(beta[4:7] / truth[4:7] - 1.0) < 0.05).all()
    assert (np.abs(beta - truth) < 0.25).all()


def _score(scaler: CovarianceScaler, track: Array, beta: Array) -> Array:
    """Return Σ w·response·(product − response·β) of one track: (B,)."""
    mean = np.array(scaler.prior_mean)
    square, lagged = track[:, 2:10], track[:, 10:]
    expected = square @ mean
    spread = (2.0 * expected**2, expected**2 + (lagged @ mean) ** 2)
    total = np.zeros(8)
    for j, response in enumerate((square, lagged)):
        rest = np.where(np.isfinite(track[:, j]), track[:, j] - response @ beta, 0.0)
        total += (response * (rest / spread[j])[:, None]).sum(axis=0)
    return total


def test_the_schedule_of_publications() -> None:
    """`every` rows that taught, and `growth` of all rows before; rows without products are none."""
    scaler = CovarianceScaler(n_modes=1, every=4, growth=1.0)
    label = np.array([[2.0, np.nan, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]])
    state = scaler.init(2)
    owner = np.array([1])
    none = label.copy()
    none[0, 0] = np.nan
    for _ in range(9):
        taught(scaler, none, owner, state=state)
        taught(scaler, label, owner, weight=np.zeros(1), state=state)
    assert state.rows.tolist() == [0, 0]
    for _ in range(4):
        assert scaler.due(state).size == 0
        taught(scaler, label, owner, state=state)
    assert scaler.due(state).tolist() == [1]
    assert scaler.version(state, np.arange(2)).tolist() == [0, 0]
    assert scaler.publish(state, np.array([1])).tolist() == []  # ν² = 2 is what the prior expects
    assert (state.versions.tolist(), state.since.tolist()) == ([0, 0], [0, 0])
    label[0, 0] = 8.0
    for _ in range(3):
        taught(scaler, label, owner, state=state)
    assert scaler.due(state).size == 0
    taught(scaler, label, owner, state=state)
    assert scaler.due(state).tolist() == [1]
    assert scaler.publish(state, np.array([1])).tolist() == [1]
    for _ in range(7):  # 8 rows before: as many again
        taught(scaler, label, owner, state=state)
    assert scaler.due(state).size == 0
    taught(scaler, label, owner, state=state)
    assert scaler.due(state).tolist() == [1]
    assert scaler.version(state, np.arange(2)).tolist() == [0, 1]
    assert (state.beta[0] == 1.0).all()
    assert scaler.publish(state, np.array([], dtype=np.int64)).size == 0


def test_decay_weakens_the_evidence_of_its_owners_alone() -> None:
    """A factor of a quarter is a quarter of the weight; 0 leaves the prior."""
    scaler = CovarianceScaler(**MANY)
    label = labels_of(10, 30)
    state = taught(scaler, np.tile(label, (2, 1)), np.repeat([0, 1], 30), n_owners=2)
    scaler.decay(state, 0.25, ONE)
    scaler.publish(state, np.arange(2))
    weaker = taught(scaler, label, weight=np.full(30, 0.25))
    whole = taught(scaler, label)
    for other in (weaker, whole):
        scaler.publish(other, ONE)
    np.testing.assert_allclose(state.beta[0], weaker.beta[0], rtol=1e-12)
    np.testing.assert_allclose(state.beta[1], whole.beta[0], rtol=1e-12)
    scaler.decay(state, 0.0, ONE)
    scaler.publish(state, ONE)
    np.testing.assert_allclose(state.beta[0], scaler.prior_mean, rtol=1e-15)
    for factor in (-0.1, 1.1, np.nan):
        with pytest.raises(InvalidInput, match="decay"):
            scaler.decay(state, factor, ONE)


def test_a_state_is_saved_and_read() -> None:
    scaler = CovarianceScaler(**MANY)
    state = taught(scaler, labels_of(11, 20))
    scaler.publish(state, ONE)
    again = records.from_bytes(records.to_bytes(state), scaler.init(1))
    assert bytes_of(again.beta, again.sums.gram) == bytes_of(state.beta, state.sums.gram)


def _bad(at: int | slice, value: float) -> Array:
    label = labels_of(12, 3, missing=0.0)
    label[1, at] = value
    return label


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (labels_of(12, 3)[:, :-1], r"label: expected shape \(3, 18\), got \(3, 17\)"),
        (labels_of(12, 4), r"label: expected shape \(3, 18\), got \(4, 18\)"),
        (_bad(0, np.inf), "label: expected finite products, or NaN .* in row 1"),
        (_bad(1, -np.inf), "label: expected finite products, or NaN .* in row 1"),
        (_bad(4, np.inf), "label: expected finite responses that make ν² above 0; .* in row 1"),
        (_bad(4, np.nan), "label: expected finite responses that make ν² above 0; .* in row 1"),
        (_bad(4, -99.0), "label: expected finite responses that make ν² above 0; .* in row 1"),
        (_bad(slice(2, 10), 0.0), "label: expected finite responses that make ν² above 0"),
        (_bad(17, np.nan), "label: expected finite responses of ν_tν_{t−1}; .* in row 1"),
        (_bad(4, -0.1), "label: expected responses of ν² of at least 0; .* in row 1"),
        (_bad(0, 1e300), r"label: expected numbers within ±1e\+100; .* in row 1"),
        (_bad(17, -np.inf), "label: expected finite responses of ν_tν_{t−1}; .* in row 1"),
    ],
)
def test_bad_labels_change_nothing(label: Array, message: str) -> None:
    """Refused by name, and the sums stay as they were."""
    scaler = CovarianceScaler(**MANY)
    state = taught(scaler, labels_of(13, 10))
    before = records.to_bytes(state)
    zero = np.zeros(3, dtype=np.int64)
    with pytest.raises(InvalidInput, match=message):
        scaler.observe(state, zero, np.zeros((3, 2)), np.zeros((3, 2)), label, np.ones(3))
    assert records.to_bytes(state) == before


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"weight": [1.0, np.nan, 1.0]}, "weight: expected 3 finite numbers >= 0"),
        ({"weight": [1.0, -1.0, 1.0]}, "weight: expected 3 finite numbers >= 0"),
        ({"weight": [1.0]}, "weight: expected 3 finite numbers >= 0"),
        ({"owner": [0, -1, 0]}, "owner: expected 3 whole numbers from 0 to 0"),
        ({"owner": [0, 5, 0]}, "owner: expected 3 whole numbers from 0 to 0"),
        ({"owner": [0.0, 0.0, 0.0]}, "owner: expected 3 whole numbers from 0 to 0"),
    ],
)
def test_bad_rows_change_nothing(changed: dict[str, Any], message: str) -> None:
    scaler = CovarianceScaler(**MANY)
    state = taught(scaler, labels_of(13, 10))
    before = records.to_bytes(state)
    rows = {"owner": [0, 0, 0], "weight": [1.0, 1.0, 1.0]} | changed
    owner, weight = np.array(rows["owner"]), np.array(rows["weight"])
    x, label = np.zeros((3, 2)), labels_of(12, 3)
    with pytest.raises(InvalidInput, match=message):
        scaler.observe(state, owner, x, x, label, weight)
    assert records.to_bytes(state) == before


def test_responses_of_what_is_missing_may_be_missing() -> None:
    """A product that is NaN adds nothing, whatever its own responses are."""
    scaler = CovarianceScaler(**MANY)
    label = labels_of(14, 5, missing=0.0)
    label[:, 1] = np.nan
    other = label.copy()
    other[:, 10:] = np.nan
    nothing = np.full((2, 18), np.nan)
    one, two = taught(scaler, label), taught(scaler, np.concatenate((other, nothing)))
    assert bytes_of(one.sums.gram, one.rows) == bytes_of(two.sums.gram, two.rows)


def test_another_state_is_not_merged() -> None:
    one, two = CovarianceScaler(n_modes=1), CovarianceScaler(n_modes=2)
    state = one.init(1)
    for other in (two.init(1), one.init(2)):
        with pytest.raises(InvalidInput, match="merge: expected a state of shape"):
            one.merge(state, other)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_modes": 0}, "scaler.n_modes"),
        ({"n_modes": 1.5}, "scaler.n_modes: expected a whole number"),
        ({"axes": 0}, "scaler.axes"),
        ({"every": 0}, "scaler.every"),
        ({"growth": -0.1}, "scaler.growth"),
        ({"per": "world"}, "scaler.per"),
        ({"low": 0.0}, "scaler.low"),
        ({"low": np.nan}, "scaler.low"),
        ({"low": 20.0}, "scaler.high"),
        ({"high": np.inf}, "scaler.high"),
        ({"process_knots": ()}, "scaler.process_knots: expected rising numbers"),
        ({"noise_knots": (0.0, 1.0, 0.5)}, "scaler.noise_knots: expected rising numbers"),
        ({"noise_knots": (0.0, np.nan, 1.0)}, "scaler.noise_knots"),
        ({"noise_knots": 0.0}, "scaler.noise_knots: expected a tuple"),
        ({"process": None}, "scaler.process: expected a context column"),
        ({"prior_mean": (1.0, 2.0)}, "scaler.prior_mean: expected 8 numbers above 0"),
        ({"prior_mean": 0.0}, "scaler.prior_mean: expected 8 numbers above 0"),
        ({"prior_sd": (1.0,) * 7 + (-1.0,)}, "scaler.prior_sd: expected 8 numbers above 0"),
        ({"prior_mean": 25.0}, "scaler.prior_mean: expected numbers from low to high, 0.05 to 20"),
        ({"prior_mean": 0.01}, "scaler.prior_mean: expected numbers from low to high, 0.05 to 20"),
        ({"prior_sd": np.inf}, "scaler.prior_sd"),
    ],
)
def test_bad_settings_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        CovarianceScaler(**MANY | changed)
