"""The neural scaler: its trunk is scikit-learn's, its head learns for every owner apart."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.neural_network import MLPRegressor

from gdcb.arrays import Array
from gdcb.declaration import parse
from gdcb.errors import InvalidInput, UnknownField
from gdcb.scalers import NeuralScaler, Trunk
from gdcb.scalers.neural import trunk_of
from tests.parts.builders import rng_of


def zero(n: int) -> Array:
    """Return owner 0 for n rows."""
    return np.zeros(n, dtype=np.int64)


def bent(n: int, seed: int) -> tuple[Array, Array]:
    """Return contexts and a label that bends."""
    rng = rng_of(seed)
    x = rng.normal(size=(n, 3)) * [1.0, 10.0, 0.1] + [0.0, 50.0, 1.0]
    z = (x - [0.0, 50.0, 1.0]) / [1.0, 10.0, 0.1]
    return x, np.tanh(2 * z[:, :1]) + z[:, 1:2] * z[:, 2:] + 0.05 * rng.normal(size=(n, 1))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("activation", ["identity", "logistic", "tanh", "relu"])
@pytest.mark.parametrize("n_columns", [1, 2])
def test_the_forward_pass_is_scikit_learn_s(activation: str, n_columns: int) -> None:
    """With the network's own output weights as the head, δ is MLPRegressor.predict to 1e-10."""
    x, label = bent(80, 1)
    label = np.column_stack((label, label**2))[:, :n_columns]
    mean, scale = x.mean(axis=0), x.std(axis=0)
    peer = MLPRegressor(
        hidden_layer_sizes=(7, 5),
        activation=activation,
        solver="lbfgs",
        max_iter=50,
        random_state=1,
    )
    peer.fit((x - mean) / scale, label if n_columns > 1 else label[:, 0])
    scaler = NeuralScaler(
        features=(0, 1, 2),
        link="identity",
        n_columns=n_columns,
        trunk=trunk_of(peer, mean, scale),
    )
    state = scaler.init(1)
    state.theta[0, :, 0], state.theta[0, :, 1:] = peer.intercepts_[-1], peer.coefs_[-1].T
    at, _ = bent(20, 2)
    expected = peer.predict((at - mean) / scale).reshape(20, n_columns)
    np.testing.assert_allclose(
        scaler.predict(state, zero(20), at)[:, 0], expected, rtol=0, atol=1e-10
    )


def test_each_owner_s_head_learns_its_own_shift() -> None:
    """A trunk from one history; owner 1 sees 3 − 2·label: each follows its own to 0.2 rms."""
    x, label = bent(600, 3)
    scaler = NeuralScaler.from_history(
        ("a", "b", "c"), x, label, hidden=(24,), link="identity", penalty=0.1, seed=4
    )
    assert scaler.features == ("a", "b", "c")
    scaler = replace(scaler, features=(0, 1, 2))
    state = scaler.init(2)
    for owner, target in ((0, label), (1, 3.0 - 2.0 * label)):
        scaler.observe(state, zero(600) + owner, x, np.ones((600, 1)), target, np.ones(600))
    scaler.publish(state, np.array([0, 1]))
    at, truth = bent(300, 5)
    for owner, target in ((0, truth), (1, 3.0 - 2.0 * truth)):
        found = scaler.predict(state, zero(300) + owner, at)[:, 0]
        assert np.sqrt(np.mean((found - target) ** 2)) < 0.1 * (1 + owner) * 1.5
        assert target.std() > 0.8


def test_the_same_history_and_seed_give_the_same_trunk() -> None:
    """Equal scalers by their numbers, another seed another one; trunks cannot be written."""
    x, label = bent(60, 6)
    one, two, other = (
        NeuralScaler.from_history((0, 1, 2), x, label, hidden=(4,), n_steps=20, seed=seed)
        for seed in (1, 1, 2)
    )
    assert one == two
    assert hash(one) == hash(two)
    assert one != other
    with pytest.raises(ValueError, match="read-only"):
        one.trunk.weights[0][0, 0] = 1.0


def test_delta_is_normalised_over_the_reference() -> None:
    """Mean log δ over the reference sample is 0."""
    x, label = bent(60, 7)
    reference, _ = bent(40, 8)
    scaler = NeuralScaler.from_history(
        (0, 1, 2), x, label, hidden=(4,), n_steps=20, reference=reference
    )
    delta = scaler.predict(scaler.fit(x, label), zero(40), reference)
    assert abs(np.log(delta).mean()) < 1e-10
    assert np.log(delta).std() > 0.1


def layers(*shapes: tuple[int, ...]) -> tuple[Array, ...]:
    """Return arrays of ones."""
    return tuple(np.ones(shape) for shape in shapes)


def trunk(p: int, weights: tuple[Array, ...], biases: tuple[Array, ...], **how: Any) -> Trunk:
    """Return a trunk of p inputs as they are."""
    return Trunk(np.ones(p), np.ones(p), weights, biases, **how)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: NeuralScaler(features=(0,), trunk=None), "scaler.trunk: expected a Trunk"),  # type: ignore[arg-type]
        (lambda: trunk(1, (), ()), "trunk: expected at least one hidden layer"),
        (
            lambda: trunk(2, layers((3, 4)), layers((4,))),
            r"trunk: expected weights of shape \(2, 4\), got \(3, 4\)",
        ),
        (
            lambda: Trunk(np.ones(1), np.zeros(1), layers((1, 2)), layers((2,))),
            "trunk.scale: expected 1 number > 0",
        ),
        (
            lambda: Trunk(np.full(1, np.nan), np.ones(1), layers((1, 2)), layers((2,))),
            "trunk: expected finite numbers",
        ),
        (
            lambda: trunk(1, layers((1, 2)), layers((2,)), activation="step"),
            "trunk.activation: expected one of",
        ),
        (
            lambda: NeuralScaler(
                features=(0, 1), trunk=trunk(1, layers((1, 2)), layers((2,)))
            ).init(1),
            "scaler.trunk: expected 2 inputs, one a feature, got 1",
        ),
    ],
)
def test_bad_settings_are_refused(build: Callable[[], Any], message: str) -> None:
    """Settings that cannot work are refused by name."""
    with pytest.raises(InvalidInput, match=message):
        build()


FILE = """
name = "shed"
context.load = {{ type = "number", low = 0, high = 9 }}
context.heat = {{ type = "number", low = -20, high = 50 }}
arms = {{ part = "list", values = [0.0, 1.0] }}
composition = {{ part = "add", names = ["shed"] }}
gates = []
bandit = {{ part = "gaussian-thompson" }}
scaler.part = "neural"
scaler.link = "identity"
scaler.features = ["load", "heat"]
scaler.centre = [0.1, 0.2, 0.3]
[scaler.trunk]
{trunk}
"""


def in_toml(table: dict[str, Any]) -> str:
    """Return a table of lists, numbers and text as TOML lines: JSON's are the same."""
    return "\n".join(f"{name} = {json.dumps(value)}" for name, value in table.items())


def test_a_trunk_in_a_file_is_the_trunk() -> None:
    """A fitted trunk written as a table reads back to the last bit: equal, and equal δ."""
    x, label = bent(60, 3)
    fitted = NeuralScaler.from_history((0, 1), x[:, :2], label, hidden=(4, 3), n_steps=30)
    table = fitted.trunk.table()
    assert Trunk.read(json.loads(json.dumps(table))) == fitted.trunk
    scaler = parse(FILE.format(trunk=in_toml(table))).instance.scaler
    assert isinstance(scaler, NeuralScaler)
    assert scaler.trunk == fitted.trunk
    mine = replace(scaler, features=(0, 1), centre=None).fit(x[:, :2], label)
    same = replace(fitted, link="identity").fit(x[:, :2], label)
    assert mine.theta.tobytes() == same.theta.tobytes()


GOOD: dict[str, Any] = {
    "mean": [0.0, 1.0],
    "scale": [1.0, 2.0],
    "weights": [[[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]],
    "biases": [[0.0, 0.0, 0.5]],
    "activation": "tanh",
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean": "0"}, r"scaler.trunk.mean: expected a tuple of numbers, got '0'"),
        ({"mean": ["0", 1.0]}, "scaler.trunk.mean: expected a finite number, got '0'"),
        ({"scale": [1.0, 0.0]}, "scaler.trunk.scale: expected 2 numbers > 0"),
        ({"scale": [True, 1.0]}, "scaler.trunk.scale: expected a finite number, got True"),
        ({"weights": 3}, "scaler.trunk.weights: expected a list, got 3"),
        ({"weights": [3]}, r"scaler.trunk.weights\[0\]: expected a list, got 3"),
        ({"weights": [[[1.0], [1.0, 2.0]]]}, r"weights\[0\]: expected rows of numbers, all of one"),
        ({"weights": [[]]}, r"scaler.trunk.weights\[0\]: expected rows of numbers"),
        ({"weights": []}, "scaler.trunk: expected at least one hidden layer"),
        ({"biases": [[0.0]]}, r"scaler.trunk: expected weights of shape \(2, 1\), got \(2, 3\)"),
        ({"activation": "step"}, "scaler.trunk.activation: expected one of"),
        ({"activation": 3}, "scaler.trunk.activation: expected one of"),
        ({"file": "map.json"}, "scaler.trunk: unknown file; it may have mean, scale"),
        ({"mean": None}, "scaler.trunk: missing mean"),
    ],
)
def test_bad_trunks_in_a_file_are_refused_by_place(change: dict[str, Any], message: str) -> None:
    """The error names the table and key it is about."""
    table = {key: value for key, value in (GOOD | change).items() if value is not None}
    with pytest.raises((InvalidInput, UnknownField), match=message):
        parse(FILE.format(trunk=in_toml(table)))
    parse(FILE.format(trunk=in_toml(GOOD)))


def test_a_trunk_in_a_file_is_a_table() -> None:
    """Anything else is refused, and a missing one is named."""
    text = FILE.format(trunk="").replace("[scaler.trunk]", "")
    with pytest.raises(InvalidInput, match="scaler: missing trunk"):
        parse(text)
    with pytest.raises(InvalidInput, match=r"scaler.trunk: expected a table, got 'map.json'"):
        parse(text + 'scaler.trunk = "map.json"')
    with pytest.raises(InvalidInput, match="trunk: expected a table with mean, scale"):
        Trunk.read([1.0])  # type: ignore[arg-type]
