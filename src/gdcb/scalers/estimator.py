"""Any fitted scikit-learn regressor as a scaler: its prediction is the feature of a head."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import Column, take_all
from gdcb.scalers.head import LinearHead
from gdcb.scalers.history import settle


@dataclass(frozen=True)
class FittedEstimator:
    """A fitted regressor, known by a digest: class, parameters, predictions on a sample.

    Two are equal if their digests are. The regressor itself is never written down: whoever loads
    a saved state brings the same one, and the digest tells.

    Parameters
    ----------
    model : has `predict`: (N, p) → (N,) or (N, k)
    digest : of class, parameters and predictions
    n_outputs : k
    by_row : whether rows are predicted one at a time. A batch may round differently from its
        rows (a matrix product does, a tree does not), and then what runs beside a row would show
        in its δ.
    """

    model: Any = field(repr=False, compare=False)
    digest: str
    n_outputs: int = 1
    by_row: bool = True

    @classmethod
    def of(cls, model: Any, sample: Array, by_row: bool = True) -> Self:
        """Wrap a fitted regressor; `sample` (R, p) is what its digest is read from."""
        sample = np.asarray(sample, dtype=float)
        if not callable(getattr(model, "predict", None)):
            raise InvalidInput(f"estimator: expected a fitted regressor, got {model!r}")
        predicted = _checked(model.predict(sample), sample.shape[0])
        settings = model.get_params() if hasattr(model, "get_params") else {}
        named = re.sub(r" at 0x[0-9A-Fa-f]+", "", repr(sorted(settings.items())))
        home = f"{type(model).__module__}.{type(model).__qualname__}"
        # Nine digits: the same model on another machine has the same digest.
        numbers = " ".join(f"{value:.9g}" for value in predicted.ravel())
        text = f"{home}\n{named}\n{numbers}".encode()
        digest = hashlib.blake2b(text, digest_size=16).hexdigest()
        return cls(model, digest, predicted.shape[1], by_row)

    def describe(self) -> dict[str, Any]:
        """Return its digest and how it is asked."""
        return {"estimator": self.digest, "by_row": self.by_row}

    def predict(self, x: Array) -> Array:
        """Return its predictions: (N, n_outputs)."""
        n = x.shape[0]
        if not self.by_row:
            return _checked(self.model.predict(x), n)
        out = np.empty((n, self.n_outputs))
        for i in range(n):
            out[i] = _checked(self.model.predict(x[i : i + 1]), 1)
        return out


@dataclass(frozen=True)
class EstimatorScaler(LinearHead):
    """δ_θ(x) = g(θᵀφ(x)), φ(x) = (1, f̂(x)), f̂ any fitted scikit-learn regressor or pipeline.

    f̂ is fixed; every owner recalibrates it by a ridge regression of its labels on (1, f̂(x)).
    From Python only: a TOML file cannot hold a fitted model.

    Parameters
    ----------
    features : context columns, the inputs of f̂ in order
    link, penalty, every, growth, centre, floor, per, n_arms, n_columns, noise : as of
        `RidgeScaler`; `centre` is the mean of f̂ over a frozen reference sample
    estimator : the fitted regressor, as `FittedEstimator.of(model, sample)`

    Notes
    -----
    Assumes: an owner's labels are a line in f̂(x), with noise of one variance; f̂ gives the same
    number for the same row whenever it is asked.

    Stops applying: the standard error is that of the line alone, as if f̂ were known, and it is
    too small where f̂ was fitted to the same rows. A regressor that draws or learns while it
    predicts breaks replay.

    Examples
    --------
    f̂(x) = 2x. Labels ∓2 at x = ∓1, λ = 2: gram of (1, f̂) is diag(2, 8), moment (0, 8), so
    θ = (0, 8/10), and δ(3) = 0.8·6 = 4.8.

    >>> from sklearn.linear_model import LinearRegression
    >>> line = LinearRegression().fit([[0.0], [1.0]], [0.0, 2.0])
    >>> fitted = FittedEstimator.of(line, np.ones((1, 1)))
    >>> scaler = EstimatorScaler(features=(0,), link="identity", penalty=2.0, estimator=fitted)
    >>> state = scaler.fit(np.array([[-1.0], [1.0]]), np.array([[-2.0], [2.0]]))
    >>> scaler.predict(state, np.zeros(1, dtype=int), np.array([[3.0]])).round(9).tolist()
    [[[4.8]]]
    """

    estimator: FittedEstimator = field(kw_only=True)
    python_only: ClassVar[str] = "EstimatorScaler.from_history(features, model, x)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.estimator, FittedEstimator):
            raise InvalidInput(
                "scaler.estimator: expected FittedEstimator.of(model, sample), "
                f"got {self.estimator!r}"
            )

    @property
    def width(self) -> int:
        """One column an output of f̂, and the leading 1."""
        return self.estimator.n_outputs + 1

    def phi(self, x: Array) -> Array:
        """Return φ(x) = (1, f̂(x)): (N, d)."""
        predicted = self.estimator.predict(take_all(x, self.features))
        out = np.empty((x.shape[0], predicted.shape[1] + 1))
        out[:, 0] = 1.0
        out[:, 1:] = predicted
        return out

    @classmethod
    def from_history(
        cls,
        features: tuple[Column, ...],
        model: Any,
        x: Array,
        *,
        by_row: bool = True,
        reference: Array | None = None,
        **settings: Any,
    ) -> Self:
        """Take a regressor that was fitted to a history.

        Parameters
        ----------
        features : names (or positions) of the columns of x, in order
        model : the fitted regressor
        x : (R, p) contexts of the history, from which its digest is read
        by_row : as of `FittedEstimator`
        reference : (R, p) contexts over which δ is normalised; None: it is not
        settings : further fields of the scaler
        """
        fitted = FittedEstimator.of(model, x, by_row)
        scaler = cls(features=tuple(range(np.shape(x)[1])), estimator=fitted, **settings)
        return settle(scaler, features, reference)


def _checked(predicted: Any, n: int) -> Array:
    out = np.asarray(predicted, dtype=float)
    out = out[:, None] if out.ndim == 1 else out
    if out.ndim != 2 or out.shape[0] != n or not np.isfinite(out).all():
        raise InvalidInput(f"estimator: expected {n} rows of finite numbers, got {out.shape}")
    return out
