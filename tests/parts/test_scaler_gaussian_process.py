"""The Gaussian-process scaler: by hand, against scikit-learn, and from a history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.scalers import GaussianProcessScaler
from tests.parts.builders import rng_of

LENGTHS = (0.8, 1.5)
PEERS: dict[str, Any] = {
    "rbf": RBF(LENGTHS),
    "matern32": Matern(LENGTHS, nu=1.5),
    "matern52": Matern(LENGTHS, nu=2.5),
}


def zero(n: int) -> Array:
    """Return owner 0 for n rows."""
    return np.zeros(n, dtype=np.int64)


def points(n: int, seed: int) -> Array:
    """Return n points in the square of side 6: apart, so that their gram is well conditioned."""
    return rng_of(seed).uniform(-3, 3, size=(n, 2))


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "matern32", "matern52"])
def test_with_all_points_inducing_it_is_scikit_learn_s(kernel: str, normalise: bool) -> None:
    """Mean and standard deviation to 1e-8: n = 30, kernel and noise fixed."""
    x = points(30, 1)
    label = 4.0 + np.sin(x[:, :1]) + 0.3 * rng_of(2).normal(size=(30, 1))
    peer = GaussianProcessRegressor(
        ConstantKernel(1.7) * PEERS[kernel], alpha=0.09, optimizer=None, normalize_y=normalise
    ).fit(x, label[:, 0])
    scaler = GaussianProcessScaler(
        features=(0, 1),
        link="identity",
        penalty=0.09,
        kernel=kernel,
        variance=1.7,
        lengths=LENGTHS,
        inducing=tuple(tuple(row) for row in x.tolist()),
        shift=(float(label.mean()),) if normalise else (),
        unit=(float(label.std()),) if normalise else (),
    )
    state, at = scaler.fit(x, label), points(40, 3)
    mean, sd = peer.predict(at, return_std=True)
    found = scaler.predict(state, zero(40), at)[:, 0, 0]
    error = scaler.uncertainty(state, zero(40), at)[:, 0, 0]
    np.testing.assert_allclose(found, mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(error, sd, rtol=0, atol=1e-8)


def test_weights_are_noise_variances() -> None:
    """A row of weight w is a row of noise σ²/w: scikit-learn with `alpha` a row."""
    x, weight = points(20, 4), rng_of(5).uniform(0.2, 3.0, 20)
    label = rng_of(6).normal(size=(20, 1))
    peer = GaussianProcessRegressor(RBF(LENGTHS), alpha=0.25 / weight, optimizer=None)
    peer.fit(x, label[:, 0])
    scaler = GaussianProcessScaler(
        features=(0, 1),
        link="identity",
        penalty=0.25,
        lengths=LENGTHS,
        inducing=tuple(tuple(row) for row in x.tolist()),
    )
    state, at = scaler.fit(x, label, weight), points(9, 7)
    mean, sd = peer.predict(at, return_std=True)
    np.testing.assert_allclose(scaler.predict(state, zero(9), at)[:, 0, 0], mean, atol=1e-8)
    np.testing.assert_allclose(scaler.uncertainty(state, zero(9), at)[:, 0, 0], sd, atol=1e-8)


def test_before_any_data_delta_is_neutral_and_the_error_the_prior_s() -> None:
    """δ = 1 whatever the shift; sd = unit·√variance, everywhere."""
    scaler = GaussianProcessScaler(
        features=(0,), lengths=(1.0,), inducing=((0.0,), (1.0,)), shift=(5.0,), unit=(2.0,)
    )
    x = np.linspace(-3, 3, 7)[:, None]
    assert (scaler.predict(scaler.init(1), zero(7), x) == 1.0).all()
    np.testing.assert_allclose(scaler.uncertainty(scaler.init(1), zero(7), x), 2.0, rtol=1e-12)


def test_the_noise_is_the_penalty_and_nothing_else() -> None:
    """The ridge's guess of σ is no setting of a process."""
    with pytest.raises(TypeError, match="noise"):
        GaussianProcessScaler(features=(0,), lengths=(1.0,), inducing=((0.0,),), noise=2.0)  # type: ignore[call-arg]


def bumpy(n: int, seed: int) -> tuple[Array, Array]:
    """Return contexts and a label that no line fits, with noise of sd 0.1."""
    rng = rng_of(seed)
    x = rng.uniform(-2, 2, size=(n, 2))
    return x, (np.sin(2 * x[:, :1]) + x[:, 1:] ** 2 + 0.1 * rng.normal(size=(n, 1)) + 7.0)


def test_a_history_gives_a_scaler_that_follows_the_truth() -> None:
    """Fitted to 400 rows and taught them: error on fresh rows below 0.05, a line's above 1."""
    x, label = bumpy(400, 8)
    scaler = GaussianProcessScaler.from_history(
        ("left", "right"), x, label, n_inducing=40, n_fit=100, link="identity"
    )
    assert scaler.features == ("left", "right")
    assert 20 <= len(scaler.inducing) <= 40
    assert np.sqrt(scaler.penalty) * scaler.unit[0] == pytest.approx(0.1, rel=0.25)
    bound = replace(scaler, features=(0, 1))
    state = bound.fit(x, label)
    at, _ = bumpy(300, 9)
    truth = np.sin(2 * at[:, 0]) + at[:, 1] ** 2 + 7.0
    found = bound.predict(state, zero(300), at)[:, 0, 0]
    error = bound.uncertainty(state, zero(300), at)[:, 0, 0]
    assert np.sqrt(np.mean((found - truth) ** 2)) < 0.05
    ones = np.column_stack((np.ones(300), at))
    line = ones @ np.linalg.lstsq(ones, truth, rcond=None)[0]
    assert np.sqrt(np.mean((line - truth) ** 2)) > 1.0
    # Errors at neighbouring rows are the same error: only their size as a whole is judged.
    assert 0.5 < np.sqrt(np.mean(((found - truth) / error) ** 2)) < 2.0


def test_the_same_history_and_seed_give_the_same_scaler() -> None:
    """Equal settings, equal hash; another seed draws other rows."""
    x, label = bumpy(80, 10)
    one, two, other = (
        GaussianProcessScaler.from_history((0, 1), x, label, n_inducing=8, n_fit=30, seed=seed)
        for seed in (1, 1, 2)
    )
    assert one == two
    assert hash(one) == hash(two)
    assert one != other


@pytest.mark.parametrize("link", ["exp", "identity"])
def test_delta_is_normalised_over_the_reference(link: str) -> None:
    """Mean log δ (or mean δ) over the reference sample is 0, the shift is gone."""
    x, label = bumpy(100, 11)
    reference, _ = bumpy(60, 12)
    scaler = GaussianProcessScaler.from_history(
        (0, 1), x, label, n_inducing=15, n_fit=50, reference=reference, link=link
    )
    delta = scaler.predict(scaler.fit(x, label), zero(60), reference)[:, 0, 0]
    centred = np.log(delta) if link == "exp" else delta
    assert abs(centred.mean()) < 1e-10
    assert centred.std() > 0.5


def test_inducing_points_end_where_nothing_is_left_to_know() -> None:
    """Five distinct rows, repeated: five inducing points at most."""
    x = np.tile(np.arange(5.0)[:, None], (10, 1))
    label = np.sin(x) + 0.05 * rng_of(13).normal(size=x.shape)
    scaler = GaussianProcessScaler.from_history(("x",), x, label, n_inducing=50)
    assert sorted(point[0] for point in scaler.inducing) == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_two_labels_share_the_kernel() -> None:
    """Two columns of δ, each with its own shift and unit, as fitted alone."""
    x, label = bumpy(60, 14)
    both = np.column_stack((label, 100.0 - 3.0 * label))
    scaler = GaussianProcessScaler.from_history(
        (0, 1), x, both, n_inducing=10, n_fit=40, link="identity", n_columns=2
    )
    state = scaler.fit(x, both)
    found = scaler.predict(state, zero(60), x)[:, 0]
    np.testing.assert_allclose(found[:, 1], 100.0 - 3.0 * found[:, 0], rtol=1e-9)
    error = scaler.uncertainty(state, zero(60), x)[:, 0]
    np.testing.assert_allclose(error[:, 1], 3.0 * error[:, 0], rtol=1e-9)


BASE: dict[str, Any] = {"features": (0,), "lengths": (1.0,), "inducing": ((0.0,),)}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: GaussianProcessScaler(**BASE | {"kernel": "cubic"}), "scaler.kernel: expected"),
        (lambda: GaussianProcessScaler(**BASE | {"variance": 0.0}), "scaler.variance: expected"),
        (lambda: GaussianProcessScaler(**BASE | {"lengths": (-1.0,)}), "scaler.lengths: expected"),
        (
            lambda: GaussianProcessScaler(**BASE | {"lengths": 1.0}),
            "scaler.lengths: expected a tup",
        ),
        (
            lambda: GaussianProcessScaler(**BASE | {"inducing": 1.0}),
            "scaler.inducing: expected a t",
        ),
        (
            lambda: GaussianProcessScaler(**BASE | {"inducing": (1.0,)}),
            "scaler.inducing: expected a",
        ),
        (lambda: GaussianProcessScaler(**BASE | {"unit": 2.0}), "scaler.unit: expected a tuple"),
        (lambda: GaussianProcessScaler(**BASE | {"inducing": ()}), "scaler.inducing: expected at"),
        (
            lambda: GaussianProcessScaler(**BASE | {"inducing": ((0.0, 1.0),)}),
            "scaler.inducing: expected at",
        ),
        (lambda: GaussianProcessScaler(**BASE | {"unit": (0.0,)}), "scaler.unit: expected"),
        (lambda: GaussianProcessScaler(**BASE | {"shift": (0.0, 1.0)}), "scaler.shift: expected 1"),
        (
            lambda: GaussianProcessScaler(**BASE | {"features": (0, 1)}).init(1),
            "scaler.lengths: expected 2, one a feature, got 1",
        ),
        (
            lambda: GaussianProcessScaler(**BASE | {"centre": (1.0, 2.0)}).init(1),
            "scaler.centre: expected 1 number",
        ),
        (
            lambda: GaussianProcessScaler.from_history((0,), np.ones((3, 1)), np.ones((2, 1))),
            "label: expected 3 rows of labels",
        ),
        (
            lambda: GaussianProcessScaler.from_history(
                (0,), np.ones((3, 1)), np.full((3, 1), np.nan)
            ),
            "label: expected at least 2 rows with labels, got 0",
        ),
        (
            lambda: GaussianProcessScaler.from_history(
                (0,), np.full((3, 1), np.inf), np.ones((3, 1))
            ),
            "x: expected rows of finite numbers",
        ),
    ],
)
def test_bad_settings_are_refused(build: Callable[[], Any], message: str) -> None:
    """Settings that cannot work are refused by name."""
    with pytest.raises(InvalidInput, match=message):
        build()


@pytest.mark.parametrize("is_centred", [False, True])
@pytest.mark.parametrize("link", ["identity", "exp"])
def test_delta_is_theta_times_the_features_row_by_row(link: str, is_centred: bool) -> None:
    """To rounding, two labels, three owners; 2,000 rows in pieces are bit for bit those alone.

    L⁻¹ has numbers up to 700 of both signs, and each processor adds them in an order of its own:
    what may differ is that many units in the last place of the sum of their sizes.
    """
    inducing = points(40, 30)
    scaler = GaussianProcessScaler(
        features=(0, 1),
        link=link,
        lengths=LENGTHS,
        inducing=tuple(tuple(row) for row in inducing.tolist()),
        n_columns=2,
    )
    if is_centred:
        scaler = scaler.centred_on(points(50, 31))
    state = scaler.init(3)
    state.theta[:] = rng_of(32).normal(size=state.theta.shape)
    x, owner = points(2000, 33), rng_of(34).integers(0, 3, 2000)
    found = scaler.predict(state, owner, x)
    expected = np.einsum("njd,nd->nj", state.theta[owner], scaler.centred(x))
    seen = np.log(found) if link == "exp" else found
    near = scaler._covariance(x, scaler._points)
    sizes = np.abs(state.theta[..., 1:]) @ np.abs(scaler._whiten)
    rounding = np.finfo(float).eps * (np.einsum("njm,nm->nj", sizes[owner], near) + 1.0)
    assert (np.abs(seen[:, 0] - expected) <= len(inducing) * rounding).all()
    assert (len(inducing) * rounding).max() < 1e-9
    for i in (0, 700, 1999):
        alone = scaler.predict(state, owner[i : i + 1], x[i : i + 1])
        assert alone[0].tobytes() == found[i].tobytes()


@pytest.mark.parametrize("link", ["exp", "identity"])
def test_every_owner_at_the_same_contexts_is_as_row_by_row(link: str) -> None:
    """To the bit, in whatever order the owners are asked for."""
    x, n = points(20, 5), 3
    scaler = GaussianProcessScaler(
        features=(0, 1), link=link, inducing=tuple(map(tuple, x[:6])), lengths=LENGTHS
    )
    state = scaler.init(n)
    state.theta[:] = rng_of(6).normal(size=state.theta.shape)
    owners = np.array([2, 0, 1])
    each = scaler.predict_each(state, owners, x)
    rows = scaler.predict(state, np.repeat(owners, 20), np.tile(x, (n, 1)))
    assert each.shape == (n, 20, 1, 1)
    assert each.tobytes() == rows.tobytes()
