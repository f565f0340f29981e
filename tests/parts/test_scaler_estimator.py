"""Any fitted regressor as a scaler: recalibrated for every owner, known by its digest."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gdcb
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


def test_delta_starts_at_the_model() -> None:
    """Before data δ is f̂(x), exp(f̂(x)) for products, whichever way the model is given."""
    model, (x, _) = forest(), rows(50, 2)
    for link, expected in (("identity", model.predict(x)), ("exp", np.exp(model.predict(x)))):
        for scaler in (
            EstimatorScaler.from_history((0, 1), model, x, link=link),
            EstimatorScaler(features=(0, 1), estimator=model, link=link),
        ):
            delta = scaler.predict(scaler.init(2), zero(50), x)
            np.testing.assert_allclose(delta[:, 0, 0], expected, rtol=1e-12)
            assert scaler.is_informed


def test_labels_that_agree_with_the_model_leave_it_as_it_is() -> None:
    """However many rows and however strong the penalty: nothing is shrunk towards δ = 1."""
    model, (x, _) = forest(), rows(50, 2)
    scaler = EstimatorScaler.from_history((0, 1), model, x, by_row=False, penalty=30.0)
    state = scaler.fit(x, model.predict(x)[:, None])
    delta = scaler.predict(state, zero(50), x)
    np.testing.assert_allclose(np.log(delta[:, 0, 0]), model.predict(x), rtol=1e-9)


def test_forgotten_labels_leave_the_model() -> None:
    """Decay to nothing leads back to slope 1 and intercept 0."""
    model, (x, y) = forest(), rows(50, 2)
    scaler = EstimatorScaler.from_history((0, 1), model, x, by_row=False)
    state = scaler.fit(x, 3.0 - 2.0 * y[:, None])
    assert abs(state.theta[0, 0, 1] + 2.0) < 0.5
    scaler.decay(state, 0.0, zero(1))
    scaler.publish(state, zero(1))
    assert state.theta[0, 0].tolist() == [0.0, 1.0]


def test_an_output_for_every_entry_starts_each_at_its_own() -> None:
    """Two outputs and two columns of δ: δ_j = exp(f̂_j); one output starts both."""
    x, _ = rows(30, 6)
    both, one = LinearRegression().fit(x, x), LinearRegression().fit(x, x[:, 0])
    for model, expected in ((both, x), (one, x[:, [0, 0]])):
        scaler = EstimatorScaler(features=(0, 1), estimator=model, n_columns=2)
        delta = scaler.predict(scaler.init(1), zero(30), x)
        np.testing.assert_allclose(np.log(delta[:, 0]), expected, atol=1e-12)


def test_the_head_is_the_regression_on_the_prediction() -> None:
    """θ is (0, 1) and scikit-learn's Ridge of what is left of the label on (1, f̂(x)), to 1e-9."""
    model, (x, y) = forest(), rows(50, 2)
    scaler = EstimatorScaler.from_history(("a", "b"), model, x, by_row=False, link="identity")
    assert scaler.features == ("a", "b")
    state = replace(scaler, features=(0, 1)).fit(x, 3.0 - 2.0 * y[:, None])
    phi = np.column_stack((np.ones(50), model.predict(x)))
    peer = Ridge(alpha=1.0, fit_intercept=False, solver="cholesky").fit(
        phi, 3.0 - 2.0 * y - phi[:, 1]
    )
    np.testing.assert_allclose(state.theta[0, 0], peer.coef_ + np.array((0.0, 1.0)), rtol=1e-9)


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
        for model in (
            forest(),
            forest(),
            forest(1),
            forest(n=11),
            LinearRegression().fit(x, x[:, 0]),
        )
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


def test_a_model_of_other_outputs_is_refused() -> None:
    """Two outputs and one δ: which of them is log δ nobody can tell, and δ started neutral."""
    x, _ = rows(30, 6)
    two = LinearRegression().fit(x, x)
    with pytest.raises(
        InvalidInput, match=r"expected a regressor with one output; got one with 2$"
    ):
        EstimatorScaler(two, features=(0, 1))
    with pytest.raises(InvalidInput, match=r"one output or 3, one for each .*; got one with 2$"):
        EstimatorScaler.from_history((0, 1), two, x, n_arms=3)


class Wild:
    """A regressor that answers nonsense."""

    def predict(self, x: Array) -> Array:
        """Return infinity."""
        return np.full(x.shape[0], np.inf)


def test_what_cannot_predict_is_refused() -> None:
    """No `predict`, an infinite prediction, a model that is not fitted, the wrong columns."""
    with pytest.raises(InvalidInput, match="estimator: expected a fitted regressor"):
        FittedEstimator.of("forest", np.ones((1, 1)))
    with pytest.raises(InvalidInput, match="estimator: expected 2 rows of finite numbers"):
        FittedEstimator.of(Wild(), np.ones((2, 1)))
    with pytest.raises(InvalidInput, match="LinearRegression is not fitted: call its fit"):
        EstimatorScaler(features=(0,), estimator=LinearRegression())
    with pytest.raises(InvalidInput, match="estimator: expected a fitted regressor, got None"):
        EstimatorScaler(features=(0,), estimator=None)
    with pytest.raises(InvalidInput, match="expected 2 columns, as many as the regressor"):
        EstimatorScaler(features=(0, 1, 2), estimator=forest()).init(1)
    with pytest.raises(InvalidInput, match="ForestRegressor cannot predict 1 rows of 3 columns"):
        FittedEstimator.of(forest(), np.ones((1, 3)))
    named = LinearRegression().fit(pl.DataFrame({"a": [0.0, 1.0], "b": [1.0, 3.0]}), [0.0, 1.0])
    with pytest.raises(InvalidInput, match="expected a, b, the order in which"):
        EstimatorScaler(features=("b", "a"), estimator=named)


def shop(scaler: Any, occupancy: gdcb.Number | None = None) -> gdcb.Instance:
    """Return an ungated shop whose prices are base·δ·arm."""
    occupancy = gdcb.Number(0, 1) if occupancy is None else occupancy
    return gdcb.Instance(
        context=gdcb.Schema({"base": gdcb.Number(50, 200), "occupancy": occupancy}),
        arms=gdcb.ArmList(values=(0.9, 1.0, 1.1)),
        composition=gdcb.Multiply(base=("base",), names=("price",)),
        gate=[],
        scaler=scaler,
        reward=gdcb.Payoff(outcome=("booked",), action=0),
    )


def test_a_model_of_prices_is_no_model_of_log_delta() -> None:
    """It predicts 80 to 120, and exp(120) = 1e52 times the base would be proposed.

    The model of log δ goes from log 0.8 to log 1.2 and is taken, wherever its argument stands.
    """
    x = np.linspace(0.0, 1.0, 20)[:, None]
    prices = LinearRegression().fit(x, 80.0 + 40.0 * x[:, 0])
    said = r"goes from 5.54e\+34 to 2.69e\+43, expected 0.001 to 1000. .* Fit it on np.log\(δ\)"
    with pytest.raises(InvalidInput, match=said):
        shop(EstimatorScaler(features=("occupancy",), estimator=prices))
    logs = LinearRegression().fit(x, np.log(0.8) + np.log(1.5) * x[:, 0])
    shop(EstimatorScaler(features=("occupancy",), estimator=logs))
    agent = gdcb.Agent(shop(EstimatorScaler(logs, features=("occupancy",))), gdcb.BetaThompson())
    case = agent.decide({"base": 100.0, "occupancy": 1.0})
    assert case.proposed is not None
    assert case.proposed["price"] == pytest.approx(120.0 * float(case.arm))


def line(low: float, high: float, of: Any = None) -> EstimatorScaler:
    """Return a scaler fitted on a δ that rises with occupancy, or on a function of it."""
    x = np.linspace(0.0, 1.0, 20)[:, None]
    delta = low + (high - low) * x[:, 0]
    model = LinearRegression().fit(x, delta if of is None else of(delta))
    return EstimatorScaler(model, features=("occupancy",))


@pytest.mark.parametrize(("low", "high"), [(0.7, 1.3), (0.9, 1.1), (1.3, 0.8), (1.0, 1.5)])
def test_a_model_of_delta_is_told_from_one_of_log_delta(low: float, high: float) -> None:
    """Fitted on δ near 1 it proposes e times the price: a warning. On log δ there is none."""
    with pytest.warns(UserWarning, match=r"nowhere near 1. .* fit it on np.log\(δ\)"):
        shop(line(low, high))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shop(line(low, high, np.log))


@pytest.mark.parametrize(("low", "high"), [(0.5, 2.0), (0.2, 1.0), (1.0, 2.5), (0.1, 10.0)])
def test_a_wide_delta_is_no_reason_to_warn(low: float, high: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shop(line(low, high, np.log))


@pytest.mark.parametrize("kind", [gdcb.Number(), gdcb.Number(low=0.0)])
def test_without_a_declared_range_nobody_can_check(kind: gdcb.Number) -> None:
    with pytest.warns(UserWarning, match="occupancy has no declared range, so nobody can check"):
        shop(line(0.8, 1.2, np.log), kind)


def test_what_is_no_model_is_refused_as_such() -> None:
    """Before its columns are; and a model is no scaler by itself, nor takes a link that cannot."""
    for wrong in (1.1, None):
        with pytest.raises(InvalidInput, match=f"estimator: expected a fitted.*, got {wrong}"):
            EstimatorScaler(wrong)
    bare = LinearRegression().fit([[0.0], [1.0]], [0.0, 0.1])
    with pytest.raises(InvalidInput, match=r"goes into one: EstimatorScaler\(model, features="):
        shop(bare)
    identity = EstimatorScaler(bare, features=("occupancy",), link="identity")
    with pytest.raises(InvalidInput, match=r"a scaler with link 'exp', whose .*model, are log δ"):
        shop(identity)


def test_a_classifier_is_refused() -> None:
    """Its predictions are classes, alone or at the end of a pipeline."""
    x, y = rows(40, 3)
    for model in (LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())):
        with pytest.raises(InvalidInput, match=f"{type(model).__name__} predicts classes"):
            EstimatorScaler(features=(0, 1), estimator=model.fit(x, y > 0.5))


def test_a_model_fitted_on_a_frame_is_asked_with_a_frame() -> None:
    """scikit-learn has nothing to warn of, and δ is that of the same numbers without names."""
    x, y = rows(40, 3)
    named = LinearRegression().fit(pl.DataFrame(x, schema=["a", "b"]), y)
    plain = LinearRegression().fit(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scalers = [EstimatorScaler(features=(0, 1), estimator=one) for one in (named, plain)]
        found, known = (one.predict(one.init(1), zero(40), x) for one in scalers)
    np.testing.assert_allclose(found, known, rtol=1e-12)


def test_a_setting_that_there_is_not_is_named() -> None:
    with pytest.raises(TypeError, match="no setting penalti; there are estimator, features"):
        EstimatorScaler(forest(), features=(0, 1), penalti=2.0)
