"""The ridge scaler: by hand, against scikit-learn, its schedule, and its excitation floor."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from gdcb import records
from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.regression import CentredSums, RidgeSums
from gdcb.scalers import ConstantScaler, RidgeScaler, RidgeState
from tests.parts.builders import bytes_of, fixed, rng_of


def observed(
    scaler: RidgeScaler,
    x: Array,
    label: Array,
    weight: Array | None = None,
    owner: Array | None = None,
    action: Array | None = None,
    n_owners: int = 1,
    state: RidgeState | None = None,
) -> RidgeState:
    """Return the state after these rows; weight 1, owner 0 and action 1 unless told."""
    n = x.shape[0]
    state = scaler.init(n_owners) if state is None else state
    scaler.observe(
        state,
        np.zeros(n, dtype=np.int64) if owner is None else owner,
        x,
        np.ones((n, 1)) if action is None else action,
        label,
        np.ones(n) if weight is None else weight,
    )
    return state


def design(x: Array) -> Array:
    """Return x behind a column of ones."""
    return np.column_stack((np.ones(x.shape[0]), x))


def test_fit_by_hand() -> None:
    """x = ∓1, labels ∓2, λ = 2: gram 2I, moment (0, 4), θ = (4I)⁻¹(0, 4) = (0, 1)."""
    scaler = RidgeScaler(features=(0,), link="identity", penalty=2.0)
    state = observed(scaler, np.array([[-1.0], [1.0]]), np.array([[-2.0], [2.0]]))
    zero, three = np.zeros(1, dtype=np.int64), np.array([[3.0]])
    assert scaler.predict(state, zero, three).tolist() == [[[0.0]]]  # nothing published yet
    assert scaler.publish(state, zero).tolist() == [0]
    assert state.theta[0, 0].tolist() == [0.0, 1.0]
    assert scaler.predict(state, zero, three).tolist() == [[[3.0]]]
    assert scaler.version(state, zero).tolist() == [1]


def test_before_any_data_delta_is_neutral() -> None:
    """δ = 1 for products and 0 for sums, whatever the context."""
    for link, neutral in (("exp", 1.0), ("identity", 0.0)):
        scaler = RidgeScaler(features=(0, 1), link=link, n_columns=2)
        out = scaler.predict(scaler.init(2), np.array([0, 1]), rng_of(0).normal(size=(2, 2)))
        assert out.shape == (2, 1, 2)
        assert (out == neutral).all()


@pytest.mark.parametrize("penalty", [1e-3, 1.0, 50.0])
def test_fit_is_scikit_learn_s_ridge(penalty: float) -> None:
    """With weights and a penalised intercept it is Ridge on the design with ones, to 1e-9."""
    rng = rng_of(2)
    x, label, weight = rng.normal(size=(60, 3)), rng.normal(size=(60, 1)), rng.uniform(0, 3, 60)
    scaler = RidgeScaler(features=(0, 2), link="identity", penalty=penalty)
    peer = Ridge(alpha=penalty, fit_intercept=False, solver="cholesky")
    peer.fit(design(x[:, [0, 2]]), label[:, 0], sample_weight=weight)
    state = scaler.fit(x, label, weight)
    np.testing.assert_allclose(state.theta[0, 0], peer.coef_, rtol=1e-9, atol=1e-12)
    at = rng.normal(size=(5, 3))
    np.testing.assert_allclose(
        scaler.predict(state, np.zeros(5, dtype=np.int64), at)[:, 0, 0],
        peer.predict(design(at[:, [0, 2]])),
        rtol=1e-9,
        atol=1e-12,
    )


def test_the_exponential_link_exponentiates() -> None:
    """Labels are log δ: the same θ, and δ = exp(θᵀφ)."""
    rng = rng_of(3)
    x, label, zero = rng.normal(size=(30, 2)), rng.normal(size=(30, 1)), np.zeros(30, dtype=int)
    one = RidgeScaler(features=(0, 1), link="identity")
    other = RidgeScaler(features=(0, 1), link="exp")
    np.testing.assert_allclose(
        other.predict(other.fit(x, label), zero, x),
        np.exp(one.predict(one.fit(x, label), zero, x)),
        rtol=1e-14,
    )


@given(seed=st.integers(0, 9999), n=st.integers(1, 15))
@fixed
def test_batch_equals_recursive_in_any_order(seed: int, n: int) -> None:
    """Rows of three owners in one batch, one by one, or shuffled give the same sums and fit."""
    rng = rng_of(seed)
    x, owner, weight = rng.normal(size=(n, 2)), rng.integers(0, 3, n), rng.uniform(0, 2, n)
    label = np.where(rng.uniform(size=(n, 2)) < 0.2, np.nan, rng.normal(size=(n, 2)))
    action = np.exp(rng.normal(size=(n, 1)))
    scaler = RidgeScaler(features=(0, 1), n_columns=2, floor=1e-12)

    def after(batches: list[Array]) -> dict[str, Array]:
        state = scaler.init(3)
        for i in batches:
            observed(scaler, x[i], label[i], weight[i], owner[i], action[i], state=state)
        return records.flatten(state) | {"fit": state.sums.solve(np.arange(3), 1.0)}

    batch = after([np.arange(n)])
    for other in (after([np.array([i]) for i in range(n)]), after([rng.permutation(n)])):
        for name, array in other.items():
            np.testing.assert_allclose(array, batch[name], rtol=1e-10, atol=1e-10, err_msg=name)


def test_missing_labels_add_nothing() -> None:
    """Rows whose label is NaN leave the fit and the count of rows as they were."""
    rng = rng_of(4)
    x, label = rng.normal(size=(20, 1)), rng.normal(size=(20, 1))
    seen = rng.uniform(size=20) < 0.6
    scaler = RidgeScaler(features=(0,))
    some = observed(scaler, x, np.where(seen[:, None], label, np.nan))
    only = observed(scaler, x[seen], label[seen])
    for name, array in records.flatten(some).items():
        np.testing.assert_allclose(array, records.flatten(only)[name], rtol=1e-13, atol=1e-13)
    assert some.since.tolist() == [int(seen.sum())]


def test_a_partly_missing_label_teaches_the_columns_it_has() -> None:
    """With two columns of δ, a row seen in one of them counts as a row and teaches that one."""
    scaler = RidgeScaler(features=(0,), n_columns=2)
    state = observed(scaler, np.array([[2.0]]), np.array([[np.nan, 3.0]]))
    assert state.sums.count.tolist() == [[0.0, 1.0]]
    assert state.sums.moment[0].tolist() == [[0.0, 0.0], [3.0, 6.0]]
    assert state.since.tolist() == [1]


def test_labels_an_arm_are_fitted_arm_by_arm() -> None:
    """Three arms × two columns: six regressions, laid out (arm, column), as fitted alone."""
    rng = rng_of(5)
    x, label = rng.normal(size=(25, 2)), rng.normal(size=(25, 6))
    label[rng.uniform(size=label.shape) < 0.3] = np.nan
    scaler = RidgeScaler(features=(0, 1), link="identity", n_arms=3, n_columns=2)
    assert scaler.n_labels == 6
    at, zero = rng.normal(size=(4, 2)), np.zeros(4, dtype=np.int64)
    out = scaler.predict(scaler.fit(x, label), zero, at)
    assert out.shape == (4, 3, 2)
    single = RidgeScaler(features=(0, 1), link="identity")
    for arm in range(3):
        for column in range(2):
            state = single.fit(x, label[:, [2 * arm + column]])
            np.testing.assert_allclose(
                out[:, arm, column], single.predict(state, zero, at)[:, 0, 0], rtol=1e-12
            )


@pytest.mark.parametrize("link", ["exp", "identity"])
def test_delta_is_normalised_over_the_reference_sample(link: str) -> None:
    """Centred at the mean features of a sample, mean log δ (or mean δ) over it is 0."""
    rng = rng_of(6)
    x, sample = rng.normal(2.0, 1.0, size=(80, 2)), rng.normal(-1.0, 3.0, size=(50, 2))
    label = 5.0 + x @ [[1.0], [-2.0]]
    scaler = RidgeScaler(features=(0, 1), link=link, centre=tuple(sample.mean(axis=0)))
    delta = scaler.predict(scaler.fit(x, label), np.zeros(50, dtype=np.int64), sample)
    centred = np.log(delta) if link == "exp" else delta
    assert abs(centred.mean()) < 1e-12
    assert centred.std() > 1.0
    plain = RidgeScaler(features=(0, 1), link="identity")
    raw = plain.predict(plain.fit(x, label), np.zeros(50, dtype=np.int64), sample)
    np.testing.assert_allclose(centred, raw - raw.mean(), atol=1e-10)  # only the level is lost


def test_publication_is_due_every_so_many_labelled_rows() -> None:
    """Owner 1 reaches 3 labelled rows and is due; publishing starts its count afresh."""
    scaler = RidgeScaler(features=(0,), every=3)
    x = np.arange(6.0)[:, None]
    label = np.array([[1.0], [1.0], [1.0], [np.nan], [1.0], [1.0]])
    owner = np.array([0, 1, 1, 1, 0, 1])
    state = observed(scaler, x[:5], label[:5], owner=owner[:5], n_owners=3)
    assert scaler.due(state).tolist() == []
    observed(scaler, x[5:], label[5:], owner=owner[5:], state=state)
    assert scaler.due(state).tolist() == [1]
    assert scaler.publish(state, scaler.due(state)).tolist() == [1]
    assert scaler.due(state).tolist() == []
    assert (state.since.tolist(), state.versions.tolist()) == ([2, 0, 0], [0, 1, 0])


def test_publishing_nobody_changes_nothing() -> None:
    """An empty list of owners leaves the bytes."""
    scaler = RidgeScaler(features=(0,))
    state = observed(scaler, np.ones((2, 1)), np.ones((2, 1)))
    before = records.to_bytes(state)
    assert scaler.publish(state, np.zeros(0, dtype=np.int64)).size == 0
    assert records.to_bytes(state) == before


def test_observing_moves_no_published_delta() -> None:
    """Rows accumulate; θ and version stay in force until `publish`, and only its owners move."""
    scaler = RidgeScaler(features=(0,))
    rng = rng_of(7)
    x, label = rng.normal(size=(10, 1)), rng.normal(size=(10, 1))
    state = observed(scaler, x, label, owner=np.arange(10) % 2, n_owners=2)
    scaler.publish(state, np.array([0]))
    before = bytes_of(state.theta, state.versions)
    observed(scaler, x, 3 * label, owner=np.arange(10) % 2, state=state)
    assert bytes_of(state.theta, state.versions) == before
    assert not state.theta[1].any()


def excite(
    scaler: RidgeScaler, state: RidgeState, sd: float, seed: int, owner: int = 0, n: int = 40
) -> None:
    """Add n labelled rows whose action is exp(x) times a spread of `sd` in the logarithm."""
    rng = rng_of(seed)
    x = rng.normal(size=(n, 1))
    action = np.exp(x + sd * rng.normal(size=(n, 1)))
    observed(scaler, x, 0.5 * x, owner=np.full(n, owner), action=action, state=state)


def test_the_floor_freezes_and_thaws() -> None:
    """Without variation of log e given x publication is refused; with it, it comes back."""
    scaler = RidgeScaler(features=(0,), every=40, floor=0.01)
    state, both = scaler.init(2), np.array([0, 1])
    excite(scaler, state, 0.3, 1, owner=0)
    excite(scaler, state, 0.001, 2, owner=1)
    assert scaler.excitation(state, both)[0] == pytest.approx(0.09, rel=0.5)
    assert scaler.excitation(state, both)[1] < 1e-5
    assert scaler.due(state).tolist() == [0, 1]
    assert scaler.publish(state, both).tolist() == [0]
    assert state.versions.tolist() == [1, 0]
    assert not state.theta[1].any()
    assert scaler.due(state).tolist() == []  # the frozen owner waits for new rows, too
    assert state.since.tolist() == [0, 40]
    excite(scaler, state, 0.3, 3, owner=1)
    assert scaler.publish(state, scaler.due(state)).tolist() == [1]
    # The sums were kept while frozen: all 80 rows are in the fit.
    assert state.sums.count[1, 0] == 80.0
    assert state.theta[1].any()


def test_asking_often_does_not_keep_a_scaler_from_publishing() -> None:
    """Refused after every 3 rows, it keeps them: they add up to a window that says enough."""
    scaler = RidgeScaler(features=(0,), every=20, floor=0.01)
    state, zero = scaler.init(1), np.zeros(1, dtype=np.int64)
    excite(scaler, state, 1e-3, 1, n=6)
    asked = []
    for i in range(12):
        excite(scaler, state, 0.3, 50 + i, n=3)
        asked.append(scaler.publish(state, zero).tolist())
    assert [] in asked
    assert [0] in asked


def test_a_refusal_before_it_is_due_does_not_put_off_when_it_is() -> None:
    """Due after 20 rows, whether or not it was asked after 10; refused then, after 40."""
    scaler = RidgeScaler(features=(0,), every=20, floor=0.01)
    state, zero = scaler.init(1), np.zeros(1, dtype=np.int64)
    for i, (before, after) in enumerate([(False, False), (True, False), (False, False)]):
        excite(scaler, state, 1e-3, 60 + i, n=10)
        window = records.to_bytes(state.window)
        assert (scaler.due(state).size > 0) == before
        assert scaler.publish(state, zero).size == 0
        assert (scaler.due(state).size > 0) == after
        assert (state.since[0], records.to_bytes(state.window)) == (10 * i + 10, window)
    excite(scaler, state, 0.5, 63, n=10)
    assert scaler.due(state).tolist() == [0]
    assert scaler.publish(state, zero).tolist() == [0]
    assert (state.since[0], state.tried[0], state.window.count[0]) == (0, 0, 0.0)
    excite(scaler, state, 0.5, 64, n=20)
    assert scaler.due(state).tolist() == [0]


def test_excitation_is_the_residual_variance_by_hand() -> None:
    """log e = 1, −1, 1, −1 at x = 0, 0, 1, 1 against (1, x): residuals ∓1, RSS 4, 4 − 2 = 2."""
    scaler = RidgeScaler(features=(0,), floor=0.1)
    x = np.array([[0.0], [0.0], [1.0], [1.0]])
    state = observed(scaler, x, x, action=np.exp([[1.0], [-1.0], [1.0], [-1.0]]))
    assert scaler.excitation(state, np.array([0]))[0] == pytest.approx(2.0, rel=1e-6)


def test_only_rows_that_taught_are_excitation() -> None:
    """Varied rows without a label, or of weight 0, beside dull ones: not a byte changes."""
    scaler = RidgeScaler(features=(0,), every=40, floor=0.01)
    state = scaler.init(1)
    excite(scaler, state, 0.001, 2)
    before, (x, action) = records.to_bytes(state), rng_of(3).normal(size=(2, 40, 1))
    observed(scaler, x, np.full((40, 1), np.nan), action=np.exp(action), state=state)
    observed(scaler, x, x, np.zeros(40), action=np.exp(action), state=state)
    assert records.to_bytes(state) == before


def test_too_few_rows_to_tell_stay_frozen() -> None:
    """As many rows as coefficients leave no residual: nothing is known of the excitation."""
    scaler = RidgeScaler(features=(0,), every=2, floor=1e-4)
    x = np.array([[0.0], [1.0]])
    state = observed(scaler, x, x, action=np.array([[1.0], [9.0]]))
    assert scaler.publish(state, scaler.due(state)).size == 0


@pytest.mark.parametrize("n_arms", [1, 3])
@pytest.mark.parametrize("n", [1, 3, 5])
@pytest.mark.parametrize("centred", [False, True])
def test_uncertainty_is_the_analytic_standard_error(centred: bool, n: int, n_arms: int) -> None:
    """√(σ̂²·φᵀ(Σφφᵀ + λI)⁻¹φ), σ̂² = (RSS + λ‖θ‖² + noise²)/(n + 1), by row and by label."""
    rng = rng_of(8)
    x, label = rng.normal(size=(30, 2)), rng.normal(size=(30, n_arms))
    centre = (0.3, -0.2) if centred else None
    scaler = RidgeScaler(
        features=(0, 1), link="identity", penalty=2.0, centre=centre, n_arms=n_arms, noise=0.5
    )
    state = observed(scaler, x, label)
    at = rng.normal(size=(n, 2))
    phi = design(at) if centre is None else np.column_stack((np.zeros(n), at - centre))
    inverse = np.linalg.inv(design(x).T @ design(x) + 2.0 * np.eye(3))
    theta = inverse @ design(x).T @ label
    rest = ((label - design(x) @ theta) ** 2).sum(axis=0) + 2.0 * (theta**2).sum(axis=0)
    expected = np.sqrt(np.outer(np.einsum("nd,de,ne->n", phi, inverse, phi), (rest + 0.25) / 31))
    out = scaler.uncertainty(state, np.zeros(n, dtype=np.int64), at)
    assert out.shape == (n, n_arms, 1)
    np.testing.assert_allclose(out[..., 0], expected, rtol=1e-9)


def test_owners_do_not_touch_each_other() -> None:
    """Rows and a publication of owner 0 leave every byte of owner 1."""
    scaler = RidgeScaler(features=(0,), floor=1e-9)
    state = scaler.init(2)
    excite(scaler, state, 0.3, 4, owner=1)
    before = [array[1].tobytes() for array in records.flatten(state).values()]
    excite(scaler, state, 0.3, 5, owner=0)
    scaler.publish(state, np.array([0]))
    assert [array[1].tobytes() for array in records.flatten(state).values()] == before


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: RidgeScaler(), "scaler.features: expected at least one"),
        (lambda: RidgeScaler(features=(0,), link="log"), "scaler.link: expected one of exp"),
        (lambda: RidgeScaler(features=(0,), per="team"), "scaler.per: expected one of unit"),
        (lambda: RidgeScaler(features=(0,), penalty=0.0), "scaler.penalty: expected a number > 0"),
        (lambda: RidgeScaler(features=(0,), every=0), "scaler.every: expected a number >= 1"),
        (lambda: RidgeScaler(features=(0,), floor=-1.0), "scaler.floor: expected a number >= 0"),
        (lambda: RidgeScaler(features=(0,), noise=0.0), "scaler.noise: expected a number > 0"),
        (lambda: RidgeScaler(features="gap"), "scaler.features: expected a tuple of names"),  # type: ignore[arg-type]
        (lambda: RidgeScaler(features=(1.5,)), "scaler.features: expected names of context"),  # type: ignore[arg-type]
        (lambda: RidgeScaler(features=(0,), n_arms=1.5), "scaler.n_arms: expected a whole number"),  # type: ignore[arg-type]
        (lambda: RidgeScaler(features=(0,), n_columns=True), "scaler.n_columns: expected a whole"),
        (lambda: RidgeScaler(features=(0,), every=9.5), "scaler.every: expected a whole number"),  # type: ignore[arg-type]
        (lambda: RidgeScaler(features=(0,), centre=5.0), "scaler.centre: expected a tuple of num"),  # type: ignore[arg-type]
        (lambda: RidgeScaler(features=(0,), n_arms=0), "scaler.n_arms: expected a number >= 1"),
        (
            lambda: RidgeScaler(features=(0,), centre=(1.0, 2.0)).init(1),
            "scaler.centre: expected 1 number, one a feature, got 2",
        ),
        (lambda: ConstantScaler(float("nan")), "scaler.value: expected a finite number"),
    ],
)
def test_bad_settings_are_refused(build: Callable[[], Any], message: str) -> None:
    """Settings that cannot work are refused by name."""
    with pytest.raises(InvalidInput, match=message):
        build()


def test_labels_of_the_wrong_shape_are_refused() -> None:
    """The sums are as they were."""
    scaler = RidgeScaler(features=(0,), n_arms=2)
    state = scaler.init(1)
    before = records.to_bytes(state)
    with pytest.raises(InvalidInput, match=r"label: expected shape \(3, 2\), got \(3, 1\)"):
        observed(scaler, np.ones((3, 1)), np.ones((3, 1)), state=state)
    assert records.to_bytes(state) == before


def test_a_constant_never_moves() -> None:
    """δ is the constant, certain, of version 0, and never due."""
    scaler = ConstantScaler(1.0, n_arms=3, n_columns=2)
    state, owner, x = scaler.init(2), np.array([0, 1]), np.zeros((2, 1))
    scaler.observe(state, owner, x, np.ones((2, 1)), np.zeros((2, 0)), np.ones(2))
    assert (scaler.predict(state, owner, x) == np.ones((2, 3, 2))).all()
    assert (scaler.uncertainty(state, owner, x) == np.zeros((2, 3, 2))).all()
    assert scaler.version(state, owner).tolist() == [0, 0]
    assert scaler.due(state).size == scaler.publish(state, owner).size == 0
    assert scaler.n_labels == 0


@given(seed=st.integers(0, 9999), n=st.integers(4, 30))
@fixed
def test_centred_sums_are_those_of_all_rows(seed: int, n: int) -> None:
    """Means, scatter and residual variance by NumPy; batches of any size; merged halves; put."""
    rng = rng_of(seed)
    z = 1e3 + rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3))
    weight, zero = rng.uniform(0.5, 2.0, n), np.zeros(n, dtype=np.int64)
    whole, left, right, put = (CentredSums.zeros(1, 3) for _ in range(4))
    whole.add(zero, z, weight)
    put.add(zero, -z, weight)  # which is replaced
    more = np.concatenate((z, z[:1] + 7.0))[None], np.append(weight, 0.0)[None]
    put.put(zero[:1], *more)
    cut = int(rng.integers(0, n + 1))
    for sums, rows in ((left, range(cut)), (right, range(cut, n))):
        for i in rows:
            sums.add(zero[:1], z[i : i + 1], weight[i : i + 1])
    left.merge(right)
    off = z - np.average(z, axis=0, weights=weight)
    root = np.sqrt(weight)[:, None]
    rest = np.linalg.lstsq(root * off[:, :2], root[:, 0] * off[:, 2], rcond=None)[0]
    left_over = (weight * (off[:, 2] - off[:, :2] @ rest) ** 2).sum()
    for sums in (whole, left, put):
        np.testing.assert_allclose(sums.count[0], weight.sum(), rtol=1e-12)
        np.testing.assert_allclose(sums.mean[0], (z - off)[0], rtol=1e-12)
        np.testing.assert_allclose(sums.scatter[0], (weight[:, None] * off).T @ off, atol=1e-9)
        found = sums.residual_variance(zero[:1])[0]
        np.testing.assert_allclose(found, left_over / max(weight.sum() - 3, 1.0), atol=1e-7)


def test_many_features_are_summed_by_owner() -> None:
    """30 features, owners with 1, 4 and 5 rows: the sums of outer products, to rounding.

    And an owner's bytes are the same without the others.
    """
    rng, d = np.random.default_rng(5), 30
    owner = np.array([1, 0, 2, 1, 1, 2, 2, 1, 2, 2])
    phi, weight = rng.normal(size=(10, d)), rng.uniform(size=10)
    y = rng.normal(size=(10, 2))
    y[3, 1] = np.nan
    sums = RidgeSums.zeros(4, 2, d)
    sums.add(owner, phi, y, weight)
    for u, j in product(range(4), range(2)):
        rows = np.flatnonzero((owner == u) & np.isfinite(y[:, j]))
        gram = sum((weight[i] * np.outer(phi[i], phi[i]) for i in rows), np.zeros((d, d)))
        np.testing.assert_allclose(sums.gram[u, j], gram, atol=1e-12)
        moment = (weight[rows, None] * phi[rows] * y[rows, j, None]).sum(axis=0)
        np.testing.assert_allclose(sums.moment[u, j], moment, atol=1e-12)
        assert sums.count[u, j] == pytest.approx(weight[rows].sum())
        assert sums.square[u, j] == pytest.approx((weight[rows] * y[rows, j] ** 2).sum())
    alone, rows = RidgeSums.zeros(4, 2, d), np.flatnonzero(owner == 2)
    alone.add(owner[rows], phi[rows], y[rows], weight[rows])
    assert alone.gram[2].tobytes() == sums.gram[2].tobytes()
    assert alone.moment[2].tobytes() == sums.moment[2].tobytes()
