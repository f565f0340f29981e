"""What every scaler promises: rows apart, bytes, versions, schedule, merging, decay, binding."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from gdcb import Multiply, Number, Schema, records
from gdcb.arms import ArmList
from gdcb.declaration import _part
from gdcb.errors import InvalidInput
from gdcb.instance import Instance
from gdcb.parts import describe
from gdcb.scalers import (
    ConstantScaler,
    EstimatorScaler,
    GaussianProcessScaler,
    LinearHead,
    NeuralScaler,
    RidgeScaler,
    RidgeState,
    Trunk,
)
from tests.parts.builders import rng_of

TREE = DecisionTreeRegressor(max_depth=3, random_state=0).fit(
    rng_of(1).normal(size=(80, 2)), rng_of(2).normal(size=80)
)


def gaussian(**settings: Any) -> LinearHead:
    """Return a Gaussian process with seven inducing points."""
    inducing = tuple(tuple(row) for row in rng_of(3).normal(size=(7, 2)).tolist())
    known: dict[str, Any] = {"features": (0, 2), "lengths": (1.0, 2.0), "inducing": inducing}
    return GaussianProcessScaler(**known | {"shift": (0.4,), "unit": (2.0,)} | settings)


def neural(**settings: Any) -> LinearHead:
    """Return a network with hidden layers of 9 and 5 units."""
    rng = rng_of(4)
    trunk = Trunk(
        np.zeros(2),
        np.ones(2),
        (rng.normal(size=(2, 9)), rng.normal(size=(9, 5))),
        (rng.normal(size=9), rng.normal(size=5)),
        "tanh",
    )
    known: dict[str, Any] = {"features": (0, 2), "trunk": trunk}
    return NeuralScaler(**known | settings)


def estimator(**settings: Any) -> LinearHead:
    """Return a tree."""
    scaler = EstimatorScaler.from_history((0, 2), TREE, rng_of(5).normal(size=(9, 2)))
    return replace(scaler, **settings)


def ridge(**settings: Any) -> LinearHead:
    """Return a ridge regression."""
    return RidgeScaler(**{"features": (0, 2)} | settings)


HEADS = [ridge, gaussian, neural, estimator]
each_head = pytest.mark.parametrize("make", HEADS, ids=lambda make: make.__name__)


def taught(scaler: LinearHead, n: int, seed: int, n_owners: int = 3) -> RidgeState:
    """Return a state after n rows of several owners, all published."""
    state = scaler.init(n_owners)
    teach(scaler, state, n, seed)
    scaler.publish(state, np.arange(n_owners))
    return state


def teach(scaler: LinearHead, state: RidgeState, n: int, seed: int) -> None:
    """Add n rows of random owners."""
    rng = rng_of(seed)
    owner = rng.integers(0, state.versions.size, n)
    x, label = rng.normal(size=(n, 3)), rng.normal(size=(n, 1))
    action = np.exp(rng.normal(size=(n, 1)))
    scaler.observe(state, owner, x, action, label, rng.uniform(0.5, 2.0, n))


@each_head
def test_a_row_knows_nothing_of_the_rows_beside_it(make: Callable[..., LinearHead]) -> None:
    """δ and its error have the same bytes in a batch of 33, in halves, and alone."""
    scaler = make(link="identity")
    state, rng = taught(scaler, 60, 6), rng_of(7)
    x, owner = rng.normal(size=(33, 3)), rng.integers(0, 3, 33)
    for ask in (scaler.predict, scaler.uncertainty):
        batch = ask(state, owner, x)
        assert batch.shape == (33, 1, 1)
        alone = np.concatenate([ask(state, owner[i : i + 1], x[i : i + 1]) for i in range(33)])
        halves = np.concatenate((ask(state, owner[:16], x[:16]), ask(state, owner[16:], x[16:])))
        assert batch.tobytes() == alone.tobytes() == halves.tobytes()


@each_head
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_delta_is_positive_and_finite_however_far(
    make: Callable[..., LinearHead], sign: float
) -> None:
    """θᵀφ = ∓800 everywhere: exp of it is 0 or infinite, δ is neither."""
    scaler = make()
    state, x = scaler.init(1), rng_of(23).normal(size=(4, 3))
    state.theta[..., 0] = 800.0 * sign
    delta = scaler.predict(state, np.zeros(4, dtype=np.int64), x)
    assert scaler.is_positive
    assert ((delta > 0) & np.isfinite(delta)).all()
    assert ((delta > 1e40) if sign > 0 else (delta < 1e-40)).all()


def test_columns_apart_leave_rows_apart() -> None:
    """Four columns that do not lie side by side: the same bytes in a batch and alone."""
    scaler, rng = RidgeScaler(features=(0, 2, 5, 7)), rng_of(19)
    x, zero = rng.normal(size=(33, 8)), np.zeros(33, dtype=np.int64)
    state = scaler.fit(x, rng.normal(size=(33, 1)))
    batch = scaler.predict(state, zero, x)
    alone = [scaler.predict(state, zero[:1], x[i : i + 1]) for i in range(33)]
    assert batch.tobytes() == np.concatenate(alone).tobytes()


@each_head
def test_one_row_an_owner_is_the_same_in_any_company(make: Callable[..., LinearHead]) -> None:
    """Sums of an owner have the same bytes, whoever is taught beside it: a simulation."""
    scaler, rng = make(floor=1e-9), rng_of(8)
    many, one = scaler.init(9), scaler.init(1)
    for _ in range(5):
        x, label = rng.normal(size=(9, 3)), rng.normal(size=(9, 1))
        action, weight = np.exp(rng.normal(size=(9, 1))), np.ones(9)
        scaler.observe(many, np.arange(9), x, action, label, weight)
        scaler.observe(
            one, np.zeros(1, dtype=np.int64), x[4:5], action[4:5], label[4:5], weight[4:5]
        )
    scaler.publish(many, np.arange(9))
    scaler.publish(one, np.zeros(1, dtype=np.int64))
    expected = records.flatten(one)
    for name, array in records.flatten(many).items():
        assert array[4].tobytes() == expected[name][0].tobytes(), name


@each_head
def test_the_error_is_smaller_where_more_was_seen(make: Callable[..., LinearHead]) -> None:
    """Ten times the same rows: the standard error falls at every context that φ can tell."""
    scaler, rng = make(link="identity"), rng_of(9)
    x, label = rng.normal(size=(40, 3)), rng.normal(size=(40, 1))
    zero = np.zeros(40, dtype=np.int64)
    few = scaler.uncertainty(scaler.fit(x, label), zero, x)
    many = scaler.uncertainty(scaler.fit(np.tile(x, (10, 1)), np.tile(label, (10, 1))), zero, x)
    assert (many < few).all()


@pytest.mark.parametrize("make", [ridge, neural, estimator], ids=lambda make: make.__name__)
def test_before_data_the_error_is_the_prior_s(make: Callable[..., LinearHead]) -> None:
    """noise·‖φ‖/√λ without rows, or after rows of weight 0; it is back once rows are forgotten."""
    scaler, rng = make(penalty=4.0, noise=3.0), rng_of(20)
    x, zero = rng.normal(size=(5, 3)), np.zeros(5, dtype=np.int64)
    expected = 3.0 * np.linalg.norm(scaler.phi(x), axis=1) / 2.0
    state = scaler.init(1)
    for _ in range(2):
        found = scaler.uncertainty(state, zero, x)[:, 0, 0]
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        scaler.observe(state, zero, x, np.ones((5, 1)), np.ones((5, 1)), np.zeros(5))
    teach(scaler, state, 50, 21)
    assert (scaler.uncertainty(state, zero, x)[:, 0, 0] < 0.5 * expected).all()
    scaler.decay(state, 0.0, zero[:1])
    np.testing.assert_allclose(scaler.uncertainty(state, zero, x)[:, 0, 0], expected, rtol=1e-12)


def test_a_wrong_guess_of_the_noise_is_soon_forgotten() -> None:
    """Labels of sd 0.1 around a line, 2,000 of them: the error is that of the truth to 5 %.

    The guesses 0.1 and 1 differ by (1 − 0.01)/2001 in σ̂² = 0.01: by 5 %, and by half of that in σ̂.
    """
    rng = rng_of(22)
    x, zero = rng.normal(size=(2_000, 3)), np.zeros(4, dtype=np.int64)
    label = x[:, :1] + 0.1 * rng.normal(size=(2_000, 1))
    right, wrong = (ridge(link="identity", noise=noise) for noise in (0.1, 1.0))
    one = right.uncertainty(right.fit(x, label), zero, x[:4])
    two = wrong.uncertainty(wrong.fit(x, label), zero, x[:4])
    np.testing.assert_allclose(two, one, rtol=0.05)
    phi = np.column_stack((np.ones(2_000), x[:, [0, 2]]))
    inverse = np.linalg.inv(phi.T @ phi)
    truth = 0.1 * np.sqrt(np.einsum("nd,de,ne->n", phi[:4], inverse, phi[:4]))
    np.testing.assert_allclose(one[:, 0, 0], truth, rtol=0.1)


@each_head
def test_versions_and_schedule(make: Callable[..., LinearHead]) -> None:
    """Due after `every` labelled rows; each publication is a version; observing moves no δ."""
    scaler = make(every=20)
    state, x = scaler.init(1), rng_of(10).normal(size=(5, 3))
    zero = np.zeros(5, dtype=np.int64)
    before = np.exp(TREE.predict(x[:, [0, 2]])) if make is estimator else 1.0
    assert (scaler.predict(state, zero, x)[:, 0, 0] == before).all()
    teach(scaler, state, 19, 11)
    assert scaler.due(state).size == 0
    teach(scaler, state, 1, 12)
    assert (scaler.predict(state, zero, x)[:, 0, 0] == before).all()
    assert scaler.publish(state, scaler.due(state)).tolist() == [0]
    assert scaler.version(state, zero[:1]).tolist() == [1]
    assert (scaler.predict(state, zero, x)[:, 0, 0] != before).any()


@each_head
def test_a_state_survives_its_bytes(make: Callable[..., LinearHead]) -> None:
    """Written and read: the same bytes again, and it learns on alike."""
    scaler = make(floor=1e-9)
    state = taught(scaler, 30, 13)
    again = records.from_bytes(records.to_bytes(state), scaler.init(3))
    teach(scaler, state, 10, 14)
    teach(scaler, again, 10, 14)
    assert records.to_bytes(again) == records.to_bytes(state)


@each_head
def test_merged_states_are_one_state_of_all_rows(make: Callable[..., LinearHead]) -> None:
    """Sums, windows and rows since publication add up to those of all rows, to 1e-12."""
    scaler = make(floor=1e-9)
    assert "merge" in scaler.supports
    left, right, both = scaler.init(3), scaler.init(3), scaler.init(3)
    for state, seeds in ((left, (15,)), (right, (16,)), (both, (15, 16))):
        for seed in seeds:
            teach(scaler, state, 25, seed)
    before = records.to_bytes(right)
    scaler.merge(left, right)
    for name, array in records.flatten(left).items():
        np.testing.assert_allclose(
            array, records.flatten(both)[name], rtol=1e-12, atol=1e-12, err_msg=name
        )
    assert records.to_bytes(right) == before
    with pytest.raises(InvalidInput, match="merge: expected a state of shape"):
        scaler.merge(left, scaler.init(2))


@each_head
def test_decayed_rows_count_for_less_and_the_prior_stays(
    make: Callable[..., LinearHead],
) -> None:
    """Decay by 0.3 is the fit with weights 0.3; by 0 it is the prior; other owners stay."""
    scaler, rng = make(), rng_of(17)
    assert "decay" in scaler.supports
    x, label, weight = rng.normal(size=(40, 3)), rng.normal(size=(40, 1)), rng.uniform(0.5, 2, 40)
    owner, action = rng.integers(0, 2, 40), np.ones((40, 1))
    state, light = scaler.init(2), scaler.init(2)
    scaler.observe(state, owner, x, action, label, weight)
    scaler.observe(light, owner, x, action, label, np.where(owner == 0, 0.3, 1.0) * weight)
    scaler.decay(state, 0.3, np.array([0]))
    both = np.arange(2)
    np.testing.assert_allclose(
        scaler.solve(state.sums, both), scaler.solve(light.sums, both), rtol=1e-9, atol=1e-12
    )
    scaler.decay(state, 0.0, both)
    for name, array in records.flatten(state.sums).items():
        assert array.tobytes() == records.flatten(scaler.init(2).sums)[name].tobytes(), name
    for bad in (-0.1, 1.5, float("nan")):
        with pytest.raises(InvalidInput, match="decay: expected"):
            scaler.decay(state, bad, both)


@each_head
def test_labels_of_the_wrong_shape_are_refused(make: Callable[..., LinearHead]) -> None:
    """Nothing is written."""
    scaler = make()
    state = taught(scaler, 10, 18)
    before = records.to_bytes(state)
    zero, x = np.zeros(2, dtype=np.int64), np.ones((2, 3))
    with pytest.raises(InvalidInput, match=r"label: expected shape \(2, 1\), got \(2, 2\)"):
        scaler.observe(state, zero, x, np.ones((2, 1)), np.ones((2, 2)), np.ones(2))
    assert records.to_bytes(state) == before


@each_head
def test_names_are_bound_by_an_instance_and_describe_is_plain(
    make: Callable[..., LinearHead],
) -> None:
    """Columns by name become positions; what goes into the fingerprint is JSON."""
    instance = Instance(
        context=Schema({"a": Number(-9, 9), "base": Number(1, 9), "b": Number(-9, 9)}),
        arms=ArmList(values=(0.8, 1.0, 1.25)),
        composition=Multiply(base=("base",)),
        gate=[],
        scaler=make(features=("a", "b")),
    )
    assert isinstance(instance.scaler, LinearHead)
    assert instance.scaler.features == (0, 2)
    assert instance.scaler == make(features=(0, 2))
    text = json.dumps(describe(instance.scaler), sort_keys=True)
    assert text == json.dumps(describe(make(features=(0, 2))), sort_keys=True)
    assert text != json.dumps(describe(make(features=(0, 2), every=7)), sort_keys=True)


@each_head
def test_lists_are_taken_for_tuples(make: Callable[..., LinearHead]) -> None:
    """Columns in a list are bound, compared and hashed like those in a tuple."""
    assert make(features=[0, 2]) == make(features=(0, 2))
    assert hash(make(features=[0, 2])) == hash(make(features=(0, 2)))


def test_a_file_cannot_hold_a_fitted_model() -> None:
    """It says so, and how one is made."""
    with pytest.raises(InvalidInput) as refused:
        _part("scaler", "scaler", {"part": "estimator", "features": ["a"]})
    made = "scaler.part: scaler 'estimator' is from Python only: EstimatorScaler.from_history("
    assert str(refused.value).startswith(made)


def test_scikit_learn_is_not_imported_before_a_history_is_fitted() -> None:
    """Importing the scalers leaves it alone: a service starts without it."""
    code = "import sys, gdcb.scalers; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@each_head
def test_what_scalers_are_made_for(make: Callable[..., LinearHead]) -> None:
    """An exponential joins products; what may have any sign joins anything."""
    assert make(link="exp").joins == "product"
    assert make(link="identity").joins == "any"


def test_what_scalers_learn_from() -> None:
    """Heads learn from labels, the constant from nothing; only heads merge and decay."""
    assert {make().learns_from for make in HEADS} == {"label"}
    constant = ConstantScaler()
    assert (constant.learns_from, constant.supports, constant.n_labels) == (
        "nothing",
        frozenset(),
        0,
    )


@pytest.mark.parametrize("kind", [GaussianProcessScaler, NeuralScaler])
def test_without_scikit_learn_it_says_what_to_install(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(InvalidInput, match=r"pip install \"gdcb\[scalers\]\""):
        kind.from_history(("x",), np.zeros((3, 1)), np.zeros((3, 1)))


@each_head
def test_a_long_history_is_not_refitted_for_a_few_rows_more(
    make: Callable[..., LinearHead],
) -> None:
    """Growth ½ behind 20 rows: 5 more are `every`, and too few; 10 more are due."""
    scaler = make(every=5, growth=0.5)
    state, rng = scaler.init(1), rng_of(3)

    def see(n: int) -> None:
        x, label = rng.normal(size=(n, 3)), rng.normal(size=(n, scaler.n_labels))
        scaler.observe(state, np.zeros(n, int), x, np.ones((n, 1)), label, np.ones(n))

    see(20)
    assert scaler.due(state).tolist() == [0]
    scaler.publish(state, np.array([0]))
    see(5)
    assert scaler.due(state).tolist() == []
    see(5)
    assert scaler.due(state).tolist() == [0]
