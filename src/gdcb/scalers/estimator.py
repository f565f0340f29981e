"""Any fitted scikit-learn regressor as a scaler: δ starts at its prediction."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import Column, name_of, take_all
from gdcb.scalers.head import FAR, LinearHead, RidgeState
from gdcb.scalers.history import settle

_FIRST_DOUBT = 2.0  # a model of δ itself, near 1, is taken for one of log δ near e = 2.7


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
        predicted = _checked(_asked(model, sample), sample.shape[0])
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
            return _checked(self.model.predict(_as_fitted(self.model, x)), n)
        out = np.empty((n, self.n_outputs))
        for i in range(n):
            out[i] = _checked(self.model.predict(_as_fitted(self.model, x[i : i + 1])), 1)
        return out


@dataclass(frozen=True, init=False)
class EstimatorScaler(LinearHead):
    """Take a fitted regressor that predicts log δ (δ, with `link='identity'`): δ starts there.

    For products the model must have been fitted on log δ (the logarithm of the factor on the
    base, near 0), not on δ and not on prices; for sums on δ itself, with `link='identity'`. An
    instance refuses a model whose exp(f̂(x)) leaves 0.001 to 1000 within the declared context. It
    warns where δ is nowhere near 1 there, as of a model fitted on δ, and where a column that f̂
    reads has no declared range, because then nobody can tell.

    δ_θ(x) = g(a + b·f̂(x)), f̂ any fitted scikit-learn regressor or pipeline, fixed. Before data
    a = 0 and b = 1, so that δ = exp(f̂(x)), or f̂(x). Every owner recalibrates it by a ridge
    regression of its labels on (1, f̂(x)) that shrinks to that line and not to 0:
    θ̂ = θ₀ + (Σ w φφᵀ + λI)⁻¹ Σ w φ·(label − θ₀ᵀφ), φ = (1, f̂(x)), θ₀ = (0, 1). From Python only: a
    TOML file cannot hold a fitted model.

    Parameters
    ----------
    estimator : the fitted regressor itself, or `FittedEstimator.of(model, sample)`, whose digest is
        read from contexts of yours and so tells models apart that differ only there. A model with
        one output starts every entry of δ; one with an output for every entry starts each at its
        own. Any other number is refused
    features : context columns, the inputs of f̂ in order
    link, penalty, every, growth, centre, floor, per, n_arms, n_columns, noise : as of
        `RidgeScaler`; `centre` is the mean of f̂ over a frozen reference sample

    Notes
    -----
    Assumes: f̂ was fitted to labels of the same kind, on rows that may be trusted: it is in force
    from the first decision on. An owner's labels are a line in f̂(x), with noise of one variance;
    f̂ gives the same number for the same row whenever it is asked.

    Stops applying: the standard error is that of the line alone, as if f̂ were known, and it is
    too small where f̂ was fitted to the same rows. A regressor that draws or learns while it
    predicts breaks replay.

    Examples
    --------
    f̂(x) = 2x: before data δ(3) = 6. Labels ∓4 at x = ∓1, twice f̂, λ = 2: gram of (1, f̂) is
    diag(2, 8), moment of what is left of the labels (0, 8), so θ = (0, 1 + 8/10), δ(3) = 1.8·6.

    >>> from sklearn.linear_model import LinearRegression
    >>> line = LinearRegression().fit([[0.0], [1.0]], [0.0, 2.0])
    >>> scaler = EstimatorScaler(line, features=(0,), link="identity", penalty=2.0)
    >>> zero, x = np.zeros(1, dtype=int), np.array([[3.0]])
    >>> scaler.predict(scaler.init(1), zero, x).round(9).tolist()
    [[[6.0]]]
    >>> state = scaler.fit(np.array([[-1.0], [1.0]]), np.array([[-4.0], [4.0]]))
    >>> scaler.predict(state, zero, x).round(9).tolist()
    [[[10.8]]]
    """

    estimator: FittedEstimator | Any = field(kw_only=True)
    python_only: ClassVar[str] = "EstimatorScaler.from_history(features, model, x)"

    def __init__(
        self,
        estimator: FittedEstimator | Any,
        features: tuple[Column, ...] = (),
        **settings: Any,
    ) -> None:
        known = {one.name: one.default for one in fields(self) if one.name != "estimator"}
        unknown = [name for name in settings if name not in known]
        if unknown:
            raise TypeError(
                f"EstimatorScaler: no setting {', '.join(unknown)}; there are estimator, "
                f"{', '.join(known)}"
            )
        given = known | settings | {"estimator": estimator, "features": features}
        for name, value in given.items():
            object.__setattr__(self, name, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        if not isinstance(self.estimator, FittedEstimator):
            _check_regressor(self.estimator)
        super().__post_init__()
        if not isinstance(self.estimator, FittedEstimator):
            width = getattr(self.estimator, "n_features_in_", len(self.features))
            fitted = FittedEstimator.of(self.estimator, _sample(width))
            object.__setattr__(self, "estimator", fitted)
        k, m = self.estimator.n_outputs, self.n_labels
        if k not in (1, m):
            each = f" or {m}, one for each entry of δ" if m > 1 else ""
            raise InvalidInput(
                f"estimator: expected a regressor with one output{each}; got one with {k}"
            )
        # What a data frame called its columns; the context may call them something else.
        names = [str(name) for name in getattr(self.estimator.model, "feature_names_in_", ())]
        given = [name_of(one) for one in self.features]
        if names != given and sorted(names) == sorted(given):
            raise InvalidInput(
                f"scaler.features: expected {', '.join(names)}, the order in which the regressor "
                f"was fitted; got {', '.join(given)}"
            )

    def init(self, n_owners: int) -> RidgeState:
        """Return empty sums and θ = (0, 1): δ is what the regressor predicts."""
        expected = getattr(self.estimator.model, "n_features_in_", len(self.features))
        if expected != len(self.features):
            raise InvalidInput(
                f"scaler.features: expected {expected} columns, as many as the regressor was "
                f"fitted to; got {len(self.features)}"
            )
        return super().init(n_owners)

    def check_start(self, x: Array, without_range: Sequence[str] = ()) -> None:
        """Refuse a model whose δ is absurd at one of some contexts: it predicts no log δ.

        Parameters
        ----------
        x : (N, p) contexts at the ends and in the middle of the declared ranges
        without_range : columns that the model reads and that may be any number
        """
        if not self.is_positive:
            return
        at_once = replace(self, estimator=replace(self.estimator, by_row=False))
        delta = at_once.predict(at_once.init(1), np.zeros(x.shape[0], dtype=np.int64), x)
        low, high, middle = float(delta.min()), float(delta.max()), float(np.median(delta))
        found = f"δ = exp(prediction) goes from {low:.3g} to {high:.3g}"
        if low < 1.0 / FAR or high > FAR:
            raise InvalidInput(
                f"scaler: over the declared ranges of its features {found}, expected {1.0 / FAR:g}"
                f" to {FAR:g}. The model must predict log δ: was it fitted on δ, or on actions? "
                "Fit it on np.log(δ). If it does predict log δ, declare narrower ranges in the "
                "context"
            )
        if without_range:
            _warn(
                f"scaler: {', '.join(without_range)} has no declared range, so nobody can check "
                "whether the δ that the model predicts is sensible; declare one: Number(low, high)"
            )
        elif (low > 1.0 and middle > _FIRST_DOUBT) or high < 1.0 / _FIRST_DOUBT:
            _warn(
                f"scaler: over the declared ranges of its features {found}, and is nowhere near 1. "
                "The model must predict log δ: if it was fitted on δ, fit it on np.log(δ)"
            )

    @property
    def is_informed(self) -> bool:
        """Whether δ starts at the model."""
        return True

    @cached_property
    def theta_before(self) -> Array:
        """Return slope 1 on the model's output and intercept 0: (m, d)."""
        m, k = self.n_labels, self.estimator.n_outputs
        start = np.zeros((m, k + 1))
        start[np.arange(m), 1 + np.arange(m) % k] = 1.0
        return start

    @property
    def width(self) -> int:
        """One column an output of f̂, and the leading 1."""
        return int(self.estimator.n_outputs) + 1

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


def _warn(words: str) -> None:
    """Warn whoever declares the instance, past the five calls between."""
    warnings.warn(words, UserWarning, stacklevel=6)


def _sample(width: int) -> Array:
    """Return inputs of many sizes, for the digest of a model whose own inputs are not known."""
    rng = np.random.default_rng(0)
    size = 10.0 ** rng.uniform(-2.0, 4.0, (64, width))
    return np.asarray(size * np.sign(rng.normal(size=(64, width))))


def _asked(model: Any, sample: Array) -> Any:
    """Return what a model predicts, or refuse it, and say why, where it cannot."""
    _check_regressor(model)
    try:
        return model.predict(_as_fitted(model, sample))
    except Exception as error:  # its own family of errors, whichever library it comes from
        name = type(model).__name__
        if type(error).__name__ == "NotFittedError":
            raise InvalidInput(
                f"estimator: expected a fitted regressor; {name} is not fitted: call its fit(x, y) "
                "first"
            ) from error
        raise InvalidInput(
            f"estimator: {name} cannot predict {sample.shape[0]} rows of {sample.shape[1]} "
            f"columns: {error}"
        ) from error


def _check_regressor(model: Any) -> None:
    """Refuse what cannot predict, and what predicts classes."""
    if isinstance(model, type) or not callable(getattr(model, "predict", None)):
        raise InvalidInput(f"estimator: expected a fitted regressor, got {model!r}")
    if not _is_regressor(model):
        raise InvalidInput(
            f"estimator: expected a fitted regressor, which predicts log δ; {type(model).__name__} "
            "predicts classes"
        )


def _is_regressor(model: Any) -> bool:
    """Whether a model says that it is a regressor, or at least not that it knows classes."""
    kind = getattr(model, "_estimator_type", None)
    if hasattr(model, "__sklearn_tags__"):
        kind = model.__sklearn_tags__().estimator_type
    if kind is not None:
        return bool(kind == "regressor")
    return not (hasattr(model, "predict_proba") or hasattr(model, "classes_"))


def _as_fitted(model: Any, x: Array) -> Any:
    """Return x (N, p) as a frame where the model was fitted on one, else as it is."""
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if len(names) != x.shape[1]:
        return x
    try:
        from pandas import DataFrame
    except ImportError:  # then the model was fitted on a Polars frame
        from polars import DataFrame as PolarsFrame

        return PolarsFrame(x, schema=names, orient="row")
    return DataFrame(x, columns=names)


def _checked(predicted: Any, n: int) -> Array:
    out = np.asarray(predicted, dtype=float)
    out = out[:, None] if out.ndim == 1 else out
    if out.ndim != 2 or out.shape[0] != n or not np.isfinite(out).all():
        raise InvalidInput(f"estimator: expected {n} rows of finite numbers, got {out.shape}")
    return out
