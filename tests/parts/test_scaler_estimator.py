"""Any fitted regressor as a scaler: recalibrated for every owner, known by its digest."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import describe
from gdcb.scalers import EstimatorScaler, FittedEstimator
from tests.parts.builders import rng_of


def rows(n: int, seed: int) -> tuple[Array, Array]:
    """Return contexts and a label with a step in it."""
    x = rng_of(seed).normal(size=(n, 2))
    return x, (x[:, 0] > 0) + 0.2 * x[:, 1]


def zero(n: int) -> Array:
    """Return owner 0 for n rows."""
    return np.zeros(n, dtype=np.int64)


def forest(seed: int = 0, n: int = 10) -> Any:
    """Return a fitted forest."""
    return RandomForestRegressor(n, random_state=seed).fit(*rows(200, 1))


def test_the_head_is_the_regression_on_the_prediction() -> None:
    """θ is scikit-learn's Ridge of the label on (1, f̂(x)), to 1e-9."""
    model, (x, y) = forest(), rows(50, 2)
    scaler = EstimatorScaler.from_history(("a", "b"), model, x, by_row=False, link="identity")
    assert scaler.features == ("a", "b")
    state = replace(scaler, features=(0, 1)).fit(x, 3.0 - 2.0 * y[:, None])
    phi = np.column_stack((np.ones(50), model.predict(x)))
    peer = Ridge(alpha=1.0, fit_intercept=False, solver="cholesky").fit(phi, 3.0 - 2.0 * y)
    np.testing.assert_allclose(state.theta[0, 0], peer.coef_, rtol=1e-9)


def test_rows_asked_one_by_one_know_nothing_of_each_other() -> None:
    """A pipeline with a matrix product: a row's δ has the same bytes in any batch."""
    x, y = rows(40, 3)
    model = make_pipeline(StandardScaler(), Ridge()).fit(x, y)
    scaler = EstimatorScaler.from_history((0, 1), model, x)
    state = scaler.fit(x, y[:, None])
    batch = scaler.predict(state, zero(40), x)
    alone = [scaler.predict(state, zero(1), x[i : i + 1]).tobytes() for i in range(40)]
    assert [row.tobytes() for row in batch] == alone


def test_the_digest_tells_models_apart_and_knows_the_same_one() -> None:
    """Fitted alike: the same description; other seed, parameters or class: another one."""
    x, _ = rows(20, 4)
    texts = [
        json.dumps(describe(EstimatorScaler.from_history((0, 1), model, x)), sort_keys=True)
        for model in (forest(), forest(), forest(1), forest(n=11), LinearRegression().fit(x, x))
    ]
    assert texts[0] == texts[1]
    assert len(set(texts)) == 4
    one, two = FittedEstimator.of(forest(), x), FittedEstimator.of(forest(), x)
    assert one == two
    assert one.model is not two.model


def test_addresses_in_parameters_do_not_reach_the_digest() -> None:
    """A random state shows where it lies in memory; the digest does not."""
    x, y = rows(20, 5)
    fits = []
    for _ in range(2):
        model = RandomForestRegressor(3, random_state=np.random.RandomState(1))
        fits.append(FittedEstimator.of(model.fit(x, y), x).digest)
    assert fits[0] == fits[1]


def test_several_outputs_are_several_features() -> None:
    """A model of two outputs gives φ = (1, f̂₁, f̂₂)."""
    x, _ = rows(30, 6)
    model = LinearRegression().fit(x, x)
    scaler = EstimatorScaler.from_history((0, 1), model, x, reference=x)
    assert scaler.init(1).theta.shape == (1, 1, 3)
    np.testing.assert_allclose(scaler.phi(x)[:, 1:], x, atol=1e-12)
    delta = scaler.predict(scaler.fit(x, x[:, :1]), zero(30), x)
    assert abs(np.log(delta).mean()) < 1e-12


class Wild:
    """A regressor that answers nonsense."""

    def predict(self, x: Array) -> Array:
        """Return infinity."""
        return np.full(x.shape[0], np.inf)


def test_what_cannot_predict_is_refused() -> None:
    """No `predict`, an infinite prediction, a bare model instead of a wrapped one."""
    with pytest.raises(InvalidInput, match="estimator: expected a fitted regressor"):
        FittedEstimator.of("forest", np.ones((1, 1)))
    with pytest.raises(InvalidInput, match="estimator: expected 2 rows of finite numbers"):
        FittedEstimator.of(Wild(), np.ones((2, 1)))
    with pytest.raises(InvalidInput, match=r"scaler\.estimator: expected FittedEstimator"):
        EstimatorScaler(features=(0,), estimator=LinearRegression())
