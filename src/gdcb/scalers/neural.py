"""A neural network on declared labels: a trunk fitted once, a Bayesian head an owner."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from gdcb.arrays import Array, logistic
from gdcb.errors import InvalidInput, UnknownField
from gdcb.parts import Column, check_choice, numbers, take_all
from gdcb.scalers.head import LinearHead
from gdcb.scalers.history import history_rows, require_sklearn, settle
from gdcb.scalers.settings import numbers_of

_ACTIVATIONS = ("identity", "logistic", "tanh", "relu")


@dataclass(frozen=True, eq=False)
class Trunk:
    """Hidden layers, fixed: h₀ = (x − mean)/scale, h = activation(h W + b), layer by layer.

    Two trunks are equal if their numbers are.

    Parameters
    ----------
    mean, scale : (p,) of the inputs
    weights, biases : (p, h₁), (h₁, h₂), … and (h₁,), (h₂,), …
    activation : 'identity', 'logistic', 'tanh' or 'relu'
    """

    mean: Array
    scale: Array
    weights: tuple[Array, ...]
    biases: tuple[Array, ...]
    activation: str = "relu"
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        check_choice("trunk.activation", self.activation, _ACTIVATIONS)
        if not self.weights or len(self.weights) != len(self.biases):
            raise InvalidInput("trunk: expected at least one hidden layer, with weights and biases")
        for name in ("mean", "scale"):
            object.__setattr__(self, name, _constant(getattr(self, name)))
        for name in ("weights", "biases"):
            object.__setattr__(self, name, tuple(_constant(one) for one in getattr(self, name)))
        shape = self.mean.shape
        for weight, bias in zip(self.weights, self.biases, strict=True):
            if weight.shape != (*shape, *bias.shape):
                raise InvalidInput(
                    f"trunk: expected weights of shape {(*shape, *bias.shape)}, got {weight.shape}"
                )
            shape = bias.shape
        if self.scale.shape != self.mean.shape or not (self.scale > 0).all():
            raise InvalidInput(f"trunk.scale: expected {numbers(self.mean.size)} > 0")
        text = hashlib.blake2b(self.activation.encode(), digest_size=16)
        for array in (self.mean, self.scale, *self.weights, *self.biases):
            text.update(repr(array.shape).encode() + array.tobytes())
        object.__setattr__(self, "digest", text.hexdigest())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trunk) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def describe(self) -> dict[str, str]:
        """Return the digest of its numbers."""
        return {"trunk": self.digest}

    @classmethod
    def read(cls, table: Mapping[str, Any], where: str = "trunk") -> Self:
        """Return the trunk that a plain table of lists says, as TOML and JSON have it.

        Keys are the parameters; `activation` may be left out. `where` names the table in errors.

        >>> table = {"mean": [0], "scale": [2], "weights": [[[1.0, -1.0]]], "biases": [[0, 1]]}
        >>> Trunk.read(table).forward(np.array([[4.0]])).tolist()
        [[2.0, 0.0]]
        """
        if not isinstance(table, Mapping):
            raise InvalidInput(f"{where}: expected a table with mean, scale, weights, biases")
        needed = ("mean", "scale", "weights", "biases")
        unknown = sorted(str(key) for key in table if key not in (*needed, "activation"))
        if unknown:
            known = ", ".join((*needed, "activation"))
            raise UnknownField(f"{where}: unknown {', '.join(unknown)}; it may have {known}")
        missing = [name for name in needed if name not in table]
        if missing:
            raise InvalidInput(f"{where}: missing {', '.join(missing)}")
        mean, scale = (_numbers(f"{where}.{name}", table[name]) for name in needed[:2])
        layers = _lists(f"{where}.weights", table["weights"])
        weights = tuple(_matrix(f"{where}.weights[{i}]", rows) for i, rows in enumerate(layers))
        rest = enumerate(_lists(f"{where}.biases", table["biases"]))
        biases = tuple(_numbers(f"{where}.biases[{i}]", bias) for i, bias in rest)
        try:
            return cls(mean, scale, weights, biases, table.get("activation", "relu"))
        except InvalidInput as error:
            raise InvalidInput(where + str(error).removeprefix("trunk")) from error

    def table(self) -> dict[str, Any]:
        """Return its numbers as a plain table of lists: what `read` takes."""
        return {
            "mean": self.mean.tolist(),
            "scale": self.scale.tolist(),
            "weights": [weight.tolist() for weight in self.weights],
            "biases": [bias.tolist() for bias in self.biases],
            "activation": self.activation,
        }

    @property
    def width(self) -> int:
        """Activations of the last layer."""
        return int(self.biases[-1].size)

    def forward(self, x: Array) -> Array:
        """Return the last hidden activations of inputs (N, p): (N, width), row by row."""
        h = ((x - self.mean) / self.scale)[:, None, :]
        for weight, bias in zip(self.weights, self.biases, strict=True):
            h = h @ weight + bias
            if self.activation == "relu":
                h = np.maximum(h, 0.0)
            elif self.activation == "tanh":
                h = np.tanh(h)
            elif self.activation == "logistic":
                h = logistic(h)
        return np.asarray(h[:, 0])


@dataclass(frozen=True)
class NeuralScaler(LinearHead):
    """δ_θ(x) = g(θᵀφ(x)), φ(x) = (1, last hidden activations of a network).

    The trunk is fitted once to a history (`from_history`) and is a setting like any other; θ is
    the head, a ridge regression of the label on φ(x) that every owner keeps as sums. So owners
    share what was learned of the form of δ, and each finds its own level and directions.

    Parameters
    ----------
    features : context columns, one an input of the trunk
    link, penalty, every, growth, centre, floor, per, n_arms, n_columns, noise : as of
        `RidgeScaler`; `centre` is the mean of the activations over a frozen reference sample
    trunk : hidden layers; in TOML a table `[scaler.trunk]` of its numbers (`Trunk.read`)

    Notes
    -----
    Assumes: every owner's δ is linear in activations that were learned from the history; the
    noise of the labels has one variance.

    Stops applying: the standard error is the head's alone, as if the trunk were known. Outside
    the history's contexts the activations saturate or grow without bound, and nothing says so.
    What the trunk did not learn to see, no head can use.

    Examples
    --------
    One input, one hidden unit max(x, 0), so φ = (1, max(x, 0)). Labels 0 at x = −1 and 3 at x = 1,
    λ = 1: gram [[2, 1], [1, 1]] + I, moment (3, 3), so θ = (3, 6)/5.

    >>> trunk = Trunk(np.zeros(1), np.ones(1), (np.ones((1, 1)),), (np.zeros(1),))
    >>> scaler = NeuralScaler(features=(0,), link="identity", trunk=trunk)
    >>> state = scaler.fit(np.array([[-1.0], [1.0]]), np.array([[0.0], [3.0]]))
    >>> state.theta[0, 0].round(12).tolist()
    [0.6, 1.2]
    """

    trunk: Trunk = field(kw_only=True, metadata={"reads": Trunk.read})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.trunk, Trunk):
            raise InvalidInput(f"scaler.trunk: expected a Trunk, got {self.trunk!r}")

    @property
    def width(self) -> int:
        """One column an activation, and the leading 1."""
        trunk = self.trunk
        if trunk.mean.size != len(self.features):
            raise InvalidInput(
                f"scaler.trunk: expected {len(self.features)} inputs, one a feature, "
                f"got {trunk.mean.size}"
            )
        return trunk.width + 1

    def phi(self, x: Array) -> Array:
        """Return φ(x) = (1, activations): (N, d)."""
        trunk = self.trunk
        out = np.empty((x.shape[0], trunk.width + 1))
        out[:, 0] = 1.0
        out[:, 1:] = trunk.forward(take_all(x, self.features))
        return out

    @classmethod
    def from_history(
        cls,
        features: tuple[Column, ...],
        x: Array,
        label: Array,
        *,
        hidden: tuple[int, ...] = (32,),
        activation: str = "tanh",
        decay: float = 1e-2,
        n_steps: int = 500,
        seed: int = 0,
        reference: Array | None = None,
        **settings: Any,
    ) -> Self:
        """Fit the trunk to a history with scikit-learn's MLPRegressor.

        Parameters
        ----------
        features : names (or positions) of the columns of x, in order
        x, label : (N, p) and (N, n_labels) history; rows with a NaN label are left out
        hidden : units of every hidden layer
        decay : penalty on the squared weights of the network, for standardised labels
        n_steps : steps of L-BFGS at most; stopping early is a penalty too
        reference : (R, p) contexts over which δ is normalised; None: it is not
        settings : further fields of the scaler
        """
        import warnings

        require_sklearn()
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPRegressor

        x, label = history_rows(x, label)
        mean, scale = x.mean(axis=0), np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)
        unit = np.where(label.std(axis=0) > 0, label.std(axis=0), 1.0)
        network = MLPRegressor(
            hidden_layer_sizes=hidden,
            activation=activation,
            solver="lbfgs",
            alpha=decay,
            max_iter=n_steps,
            random_state=seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            target = (label - label.mean(axis=0)) / unit
            network.fit((x - mean) / scale, target if target.shape[1] > 1 else target[:, 0])
        return settle(
            cls(
                features=tuple(range(x.shape[1])), trunk=trunk_of(network, mean, scale), **settings
            ),
            features,
            reference,
        )


def trunk_of(network: Any, mean: Array, scale: Array) -> Trunk:
    """Return the hidden layers of a fitted MLPRegressor whose inputs were (x − mean)/scale."""
    return Trunk(
        mean,
        scale,
        tuple(network.coefs_[:-1]),
        tuple(network.intercepts_[:-1]),
        network.activation,
    )


def _lists(where: str, given: Any) -> list[Any]:
    if not isinstance(given, list | tuple):
        raise InvalidInput(f"{where}: expected a list, got {given!r}")
    return list(given)


def _numbers(where: str, given: Any) -> Array:
    return np.array(numbers_of(where, given), dtype=float)


def _matrix(where: str, given: Any) -> Array:
    """Return rows of numbers, all of one length: (rows, columns)."""
    rows = [numbers_of(where, row) for row in _lists(where, given)]
    if not rows or len({len(row) for row in rows}) > 1:
        raise InvalidInput(f"{where}: expected rows of numbers, all of one length")
    return np.array(rows, dtype=float)


def _constant(array: Array) -> Array:
    out = np.array(array, dtype=float, order="C")
    if not np.isfinite(out).all():
        raise InvalidInput("trunk: expected finite numbers")
    out.flags.writeable = False
    return out
