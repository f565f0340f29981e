"""A Gaussian process on declared labels, through inducing points that history chose."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.parts import Column, check_choice, check_number, check_size, numbers, take_all
from gdcb.regression import RidgeSums, by_owner
from gdcb.scalers.head import LinearHead, RidgeState, positive
from gdcb.scalers.history import history_rows, require_sklearn, settle
from gdcb.scalers.settings import numbers_of

MOST_POINTS = 1_000  # their covariance is inverted, which takes the cube of their number
_AT_ONCE = 2**15  # covariances worked out together, so that they stay in a cache
_KERNELS = ("rbf", "matern32", "matern52")


@dataclass(frozen=True)
class GaussianProcessScaler(LinearHead):
    """δ(x) = g(f(x)), f a Gaussian process: smooth in the context, without a declared form.

    f = shift + unit·ψ(x)ᵀw with w ~ N(0, I) and ψ(x) = L⁻¹k(Z, x), LLᵀ = k(Z, Z): Nyström
    features of the inducing points Z, kernel k(x, x′) = variance·ρ(|x − x′|/lengths). Labels are
    f plus noise of variance unit²·penalty. The posterior mean is that of DTC; the standard error
    adds what ψ cannot see, k(x, x) − ψᵀψ. Where Z are the training points both are those of the
    exact process. Kernel and Z are fixed settings, best made by `from_history`; w is learned by
    every owner from sums.

    Parameters
    ----------
    features : context columns, one a length
    link, every, growth, centre, floor, per, n_arms, n_columns : as of `RidgeScaler`; `centre` is
        the mean of ψ over a frozen reference sample
    penalty : noise variance σ², in units of `unit`²
    kernel : 'rbf', 'matern32' or 'matern52'
    variance : prior variance of f, in units of `unit`²
    lengths : length scale of every feature
    inducing : Z, the inducing points, rows of features
    shift, unit : prior mean and scale of every label; empty: 0 and 1

    Notes
    -----
    Assumes: f is as smooth as the kernel says, the noise is normal with one variance, and the
    hyperparameters of the history hold for every owner.

    Stops applying: away from the data f returns to `shift` within a few lengths, and its
    standard error to the prior's. A centred δ leaves the error of the reference mean's own
    unseen part out. With many features lengths are poorly determined and Z covers little.

    Examples
    --------
    One inducing point Z = 0 with variance 1: ψ(0) = 1. One label 2 at x = 0, noise variance 1:
    w = (1 + 1)⁻¹·2 = 1, so f(0) = 1 with variance 1·(1 + 1)⁻¹ = ½.

    >>> scaler = GaussianProcessScaler(
    ...     features=(0,), link="identity", inducing=((0.0,),), lengths=(1.0,)
    ... )
    >>> x, zero = np.zeros((1, 1)), np.zeros(1, dtype=int)
    >>> state = scaler.fit(x, np.array([[2.0]]))
    >>> mean, error = scaler.predict(state, zero, x), scaler.uncertainty(state, zero, x)
    >>> mean.item(), round(error.item() ** 2, 12)
    (1.0, 0.5)
    """

    noise: float = field(default=1.0, init=False, repr=False, compare=False)  # `penalty` says it
    kernel: str = "rbf"
    variance: float = 1.0
    lengths: tuple[float, ...] = field(kw_only=True)
    inducing: tuple[tuple[float, ...], ...] = field(kw_only=True)
    shift: tuple[float, ...] = ()
    unit: tuple[float, ...] = ()
    _points: Array = field(init=False, repr=False, compare=False)
    _whiten: Array = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("scaler.kernel", self.kernel, _KERNELS)
        check_number("scaler.variance", self.variance, 0.0, open_low=True)
        given: Any = self.inducing
        if not isinstance(given, tuple | list):
            raise InvalidInput(f"scaler.inducing: expected a tuple of points, got {given!r}")
        check_size("scaler.inducing", "points", len(given), most=MOST_POINTS)
        checked = {
            "lengths": numbers_of("scaler.lengths", self.lengths, above=0.0),
            "inducing": tuple(numbers_of("scaler.inducing", row) for row in given),
            "shift": numbers_of("scaler.shift", self.shift),
            "unit": numbers_of("scaler.unit", self.unit, above=0.0),
        }
        for name, values in checked.items():
            object.__setattr__(self, name, values)
        if not self.inducing or any(len(row) != len(self.lengths) for row in self.inducing):
            raise InvalidInput(
                "scaler.inducing: expected at least one point, each with one number a length"
            )
        for name in ("shift", "unit"):
            if len(checked[name]) not in (0, self.n_labels):
                raise InvalidInput(f"scaler.{name}: expected {numbers(self.n_labels)}, one a label")
        points = np.array(self.inducing, dtype=float)
        gram = self._covariance(points, points)
        object.__setattr__(self, "_points", points)
        object.__setattr__(self, "_whiten", _inverse_factor(gram, self.variance))

    @property
    def width(self) -> int:
        """One column an inducing point, and the leading 1."""
        if len(self.features) != len(self.lengths):
            raise InvalidInput(
                f"scaler.lengths: expected {len(self.features)}, one a feature, "
                f"got {len(self.lengths)}"
            )
        return len(self.inducing) + 1

    def _covariance(self, x: Array, points: Array) -> Array:
        """Return k(x, points): (N, M). Summed by columns: a row knows nothing of the others."""
        out = np.empty((x.shape[0], points.shape[0]))
        some = max(1, _AT_ONCE // points.shape[0])
        for first in range(0, x.shape[0], some):
            self._put_covariance(x[first : first + some], points, out[first : first + some])
        return out

    def _put_covariance(self, x: Array, points: Array, out: Array) -> None:
        """Write k(x, points) to `out`, by way of the squared distance, in place."""
        gap = np.empty_like(out)
        for j, length in enumerate(self.lengths):
            along = gap if j else out
            np.subtract(x[:, j, None], points[:, j], out=along)
            along /= length
            along *= along
            if j:
                out += gap
        if self.kernel == "rbf":
            out *= -0.5
            np.exp(out, out=out)
            out *= self.variance
            return
        out *= 3.0 if self.kernel == "matern32" else 5.0
        np.sqrt(out, out=out)  # r
        near = np.exp(np.negative(out, out=gap), out=gap)
        rise = 1.0 + out
        if self.kernel == "matern52":
            out *= out
            out /= 3.0
            rise += out
        rise *= self.variance
        np.multiply(rise, near, out=out)

    def phi(self, x: Array) -> Array:
        """Return φ(x) = (1, ψ(x)): (N, d)."""
        near = self._covariance(take_all(x, self.features), self._points)
        out = np.empty((x.shape[0], near.shape[1] + 1))
        out[:, 0] = 1.0
        out[:, 1:] = (near[:, None, :] @ self._whiten.T)[:, 0]
        return out

    def phi_of(self, owner: Array, x: Array) -> Array:
        """Return φ(x), with one product for all rows of an owner."""
        near = self._covariance(take_all(x, self.features), self._points)
        out = np.empty((x.shape[0], near.shape[1] + 1))
        out[:, 0] = 1.0
        for _, rows in by_owner(owner, out.shape[1]):
            out[rows, 1:] = near[rows] @ self._whiten.T
        return out

    def predict(self, state: RidgeState, owner: Array, x: Array) -> Array:
        """Evaluate the published δ: (N, n_arms, n_columns).

        θᵀψ(x) = (L⁻ᵀθ)ᵀk(Z, x): what stands before k is worked out once an owner, not ψ in a row.
        """
        known, place = np.unique(owner, return_inverse=True)
        before, level = self._before(state, known)
        near = self._covariance(take_all(x, self.features), self._points)
        predictor = (before.take(place, axis=0) @ near[:, :, None])[..., 0]
        return self._linked(predictor + level.take(place, axis=0))

    def predict_each(self, state: RidgeState, owners: Array, x: Array) -> Array:
        """Evaluate the published δ of every owner at the same contexts (N, p).

        As `predict` does, to the bit, with k(Z, x) worked out once: (owners, N, n_arms, n_columns).
        """
        before, level = self._before(state, owners)
        near = self._covariance(take_all(x, self.features), self._points)
        predictor = (before[:, None] @ near[:, :, None])[..., 0]
        return self._linked(predictor + level[:, None])

    def _before(self, state: RidgeState, owners: Array) -> tuple[Array, Array]:
        """Return what stands before k(Z, x), and what is added: (owners, m, M), (owners, m)."""
        theta = state.theta.take(owners, axis=0)
        before = theta[..., 1:] @ self._whiten
        if self.centre is None:
            return before, theta[..., 0]
        return before, -(theta[..., 1:] @ np.array(self.centre)[:, None])[..., 0]

    def _linked(self, predictor: Array) -> Array:
        """Return δ of predictors (..., m): (..., n_arms, n_columns)."""
        if self.link == "exp":
            predictor = positive(predictor)
        return predictor.reshape(*predictor.shape[:-1], self.n_arms, self.n_columns)

    def solve(self, sums: RidgeSums, owners: Array) -> Array:
        """Return θ̂ = (shift, unit·ŵ), ŵ the posterior mean: (owners, m, d)."""
        shift = np.array(self.shift or (0.0,) * self.n_labels)
        gram, moment = sums.gram[owners], sums.moment[owners]
        theta = np.empty_like(moment)
        theta[..., 0] = np.where(sums.count[owners] > 0, shift, 0.0)  # without data δ is neutral
        # Σ wψ·(label − shift): the leading 1 of φ has Σ wψ in the gram.
        rest = moment[..., 1:] - shift[:, None] * gram[..., 1:, 0]
        noisy = gram[..., 1:, 1:] + self.penalty * np.eye(len(self.inducing))
        theta[..., 1:] = np.linalg.solve(noisy, rest[..., None])[..., 0]
        return theta

    def uncertainty(self, state: RidgeState, owner: Array, x: Array) -> Array:
        """Return the posterior standard deviation of f: σ²ψᵀ(Σψψᵀ + σ²I)⁻¹ψ + k(x, x) − ψᵀψ."""
        psi = self.phi(x)[:, 1:]
        unseen = np.maximum(self.variance - (psi * psi).sum(axis=1), 0.0)
        if self.centre is not None:
            psi = psi - self.centre
        noisy = state.sums.gram[owner][..., 1:, 1:] + self.penalty * np.eye(psi.shape[1])
        right = np.broadcast_to(psi[:, None, :, None], (*noisy.shape[:3], 1))
        spread = (psi[:, None, :] * np.linalg.solve(noisy, right)[..., 0]).sum(axis=-1)
        unit = np.array(self.unit or (1.0,) * self.n_labels)
        error = unit * np.sqrt(self.penalty * spread + unseen[:, None])
        return np.asarray(error.reshape(x.shape[0], self.n_arms, self.n_columns))

    @classmethod
    def from_history(
        cls,
        features: tuple[Column, ...],
        x: Array,
        label: Array,
        *,
        kernel: str = "rbf",
        n_inducing: int = 50,
        n_fit: int = 300,
        seed: int = 0,
        normalise: bool = True,
        reference: Array | None = None,
        **settings: Any,
    ) -> Self:
        """Fit kernel and noise to a history with scikit-learn, and choose inducing points.

        Parameters
        ----------
        features : names (or positions) of the columns of x, in order
        x, label : (N, p) and (N, n_labels) history; rows with a NaN label are left out
        kernel : as of the scaler; one length a feature is fitted by marginal likelihood
        n_inducing : how many inducing points at most, up to 1,000. Each is the row of x of which
            the ones before it know least; it ends where they know all.
        n_fit : rows for the hyperparameters, drawn with `seed`: the cost is its cube
        normalise : whether shift and unit are the mean and standard deviation of the labels
        reference : (R, p) contexts over which δ is normalised; None: it is not
        settings : further fields of the scaler
        """
        require_sklearn()
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process import kernels as k

        check_choice("kernel", kernel, _KERNELS)
        check_number("n_inducing", n_inducing, 1)
        x, label = history_rows(x, label)
        shift = label.mean(axis=0) if normalise else np.zeros(label.shape[1])
        unit = label.std(axis=0) if normalise else np.ones(label.shape[1])
        unit = np.where(unit > 0, unit, 1.0)
        spread = np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)
        some = np.random.default_rng(seed).permutation(x.shape[0])[:n_fit]
        start, bounds = np.ones(x.shape[1]), (0.05, 100.0)
        rho = {
            "rbf": lambda: k.RBF(start, bounds),
            "matern32": lambda: k.Matern(start, bounds, nu=1.5),
            "matern52": lambda: k.Matern(start, bounds, nu=2.5),
        }[kernel]()
        model = k.ConstantKernel(1.0, (1e-3, 1e3)) * rho + k.WhiteKernel(0.1, (1e-6, 1e2))
        peer = GaussianProcessRegressor(model, alpha=0.0, random_state=seed)
        peer.fit(x[some] / spread, (label[some] - shift) / unit)
        found = peer.kernel_
        scaler = cls(
            features=tuple(range(x.shape[1])),
            penalty=float(found.k2.noise_level),
            kernel=kernel,
            variance=float(found.k1.k1.constant_value),
            lengths=tuple((np.atleast_1d(found.k1.k2.length_scale) * spread).tolist()),
            inducing=(tuple(x[0].tolist()),),
            shift=tuple(shift.tolist()) if normalise else (),
            unit=tuple(unit.tolist()) if normalise else (),
            **settings,
        )
        chosen = scaler._spread_out(x, n_inducing)
        inducing = tuple(tuple(row) for row in x[chosen].tolist())
        return settle(scaler, features, reference, inducing=inducing)

    def _spread_out(self, x: Array, n: int) -> list[int]:
        """Choose rows one by one, each where the ones before it leave most of k(x, x)."""
        left, known = np.full(x.shape[0], self.variance), np.zeros((0, x.shape[0]))
        chosen: list[int] = []
        while len(chosen) < n:
            at = int(left.argmax())
            if left[at] <= 1e-8 * self.variance:
                break
            chosen.append(at)
            near = self._covariance(x, x[at : at + 1])[:, 0]
            column = (near - known[:, at] @ known) / np.sqrt(left[at])
            known = np.concatenate((known, column[None]))
            left = np.maximum(left - column * column, 0.0)
            left[at] = 0.0
        return chosen


def _inverse_factor(gram: Array, variance: float) -> Array:
    """Return L⁻¹ with LLᵀ = gram, and a pinch on the diagonal where points nearly coincide."""
    for pinch in (0.0, 1e-12, 1e-10, 1e-8, 1e-6):
        try:
            factor = np.linalg.cholesky(gram + pinch * variance * np.eye(gram.shape[0]))
        except np.linalg.LinAlgError:
            continue
        return np.asarray(np.linalg.inv(factor))
    raise InvalidInput("scaler.inducing: these points coincide")
