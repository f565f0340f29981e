"""Ridge regression on declared labels, in batch or row by row, published on a schedule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array, scatter_add
from gdcb.errors import InvalidInput
from gdcb.parts import Column, check_choice, check_number, check_tuple, column, take_all
from gdcb.regression import RidgeSums, with_intercept

_MOST = 100.0  # log δ beyond this is a broken label, and must not overflow


@dataclass(slots=True)
class RidgeState:
    """Sums of every owner and label, and the fit in force.

    Parameters
    ----------
    sums : Σ w·φφᵀ and the like of all rows
    theta : (owners, m, d) published coefficients
    versions, since : (owners,) publications so far, rows since the last one
    window : sums of the executed action since publication was last due, from which
        Var(log e | x) is read (no owners without an excitation floor)
    """

    sums: RidgeSums
    theta: Array
    versions: Array
    since: Array
    window: RidgeSums


@dataclass(frozen=True)
class RidgeScaler:
    """δ_θ(x) = g(θᵀ(φ(x) − φ̄)), θ by ridge regression of the label on φ(x) = (1, columns).

    Labels are on the scale of the linear predictor: log δ for `link='exp'`, δ for
    `link='identity'`. θ̂ = (Σ w φφᵀ + λI)⁻¹ Σ w φ·label, the posterior mean under θ ~ N(0, σ²/λ);
    the intercept is penalised like the rest. Sums are kept, so a batch and any order of rows
    give the same fit.

    Parameters
    ----------
    features : context columns
    link : 'exp' for products (neutral 1) or 'identity' for sums (neutral 0)
    penalty : λ > 0, so that the fit is unique whatever the design
    every : rows an owner sees between publications
    centre : φ̄, the mean of `features` over a frozen reference sample of contexts. Where given,
        the intercept is left out of δ and mean log δ = 0 (products) or mean δ = 0 (sums) over
        that sample: scale is not identified between arms and scaler. None: δ is not normalised
        (a severity score).
    floor : excitation floor. A publication is refused while the residual variance of log e
        (or e; relative to its base) given φ(x), since it was last due, is below it: as arms
        converge, e loses the variation that identifies a fit on outcomes. 0: no floor, right
        for labels that do not depend on e.
    per : 'unit' or 'group'
    n_arms : length of δ's arm axis; n_columns : q. Labels are (n_arms · n_columns) a row.

    Examples
    --------
    Two rows, φ = (1, x), x = ∓1, labels ∓2, λ = 2: gram 2I, so θ = (4I)⁻¹(0, 4) = (0, 1).

    >>> scaler = RidgeScaler(features=(0,), link="identity", penalty=2.0)
    >>> state = scaler.init(1)
    >>> x, label, owner = np.array([[-1.0], [1.0]]), np.array([[-2.0], [2.0]]), np.zeros(2, int)
    >>> scaler.observe(state, owner, x, np.ones((2, 1)), label, np.ones(2))
    >>> scaler.publish(state, np.array([0])).tolist(), state.theta[0, 0].tolist()
    ([0], [0.0, 1.0])
    """

    features: tuple[Column, ...] = column(())
    link: str = "exp"
    penalty: float = 1.0
    every: int = 50
    centre: tuple[float, ...] | None = None
    floor: float = 0.0
    per: str = "group"
    n_arms: int = 1
    n_columns: int = 1

    def __post_init__(self) -> None:
        check_tuple("scaler.features", self.features)
        if not self.features:
            raise InvalidInput("scaler.features: expected at least one context column")
        check_choice("scaler.link", self.link, ("exp", "identity"))
        check_choice("scaler.per", self.per, ("unit", "group"))
        check_number("scaler.penalty", self.penalty, 0.0, open_low=True)
        check_number("scaler.every", self.every, 1)
        check_number("scaler.floor", self.floor, 0.0)
        for value in self.centre or ():
            check_number("scaler.centre", value)
        check_number("scaler.n_arms", self.n_arms, 1)
        check_number("scaler.n_columns", self.n_columns, 1)

    @property
    def is_positive(self) -> bool:
        """Whether δ is an exponential."""
        return self.link == "exp"

    @property
    def n_labels(self) -> int:
        """One label an arm and column of δ."""
        return self.n_arms * self.n_columns

    def init(self, n_owners: int) -> RidgeState:
        """Return empty sums and θ = 0: δ is neutral."""
        m, d = self.n_labels, len(self.features) + 1
        if self.centre is not None and len(self.centre) != d - 1:
            raise InvalidInput(
                f"scaler.centre: expected {d - 1} numbers, one a feature, got {len(self.centre)}"
            )
        return RidgeState(
            RidgeSums.zeros(n_owners, m, d),
            np.zeros((n_owners, m, d)),
            np.zeros(n_owners, dtype=np.int64),
            np.zeros(n_owners, dtype=np.int64),
            RidgeSums.zeros(n_owners if self.floor > 0 else 0, 1, d),
        )

    def _centred(self, x: Array) -> Array:
        phi = with_intercept(x, self.features)
        if self.centre is not None:
            phi[:, 0] = 0.0
            phi[:, 1:] -= self.centre
        return phi

    def predict(self, state: RidgeState, owner: Array, x: Array) -> Array:
        """Evaluate the published δ: (N, n_arms, n_columns)."""
        theta, features = state.theta.take(owner, axis=0), take_all(x, self.features)
        if self.centre is None:
            predictor = theta[..., :1] + theta[..., 1:] @ features[:, :, None]
        else:
            predictor = theta[..., 1:] @ (features - self.centre)[:, :, None]
        if self.link == "exp":
            predictor = np.exp(np.minimum(predictor, _MOST))
        if self.n_arms > 1 or self.n_columns > 1:
            predictor = predictor.reshape(x.shape[0], self.n_arms, self.n_columns)
        return np.asarray(predictor)

    def version(self, state: RidgeState, owner: Array) -> Array:
        """Return the number of publications behind the fit in force."""
        return state.versions[owner]

    def uncertainty(self, state: RidgeState, owner: Array, x: Array) -> Array:
        """Return the posterior standard error of the linear predictor, from all rows so far.

        σ̂² is the residual sum of squares plus the penalty at the optimum, over the rows.
        """
        phi = self._centred(x)
        gram = state.sums.penalised(owner, self.penalty)
        sigma2 = state.sums.variance(owner, state.sums.solve(owner, self.penalty))
        spread = np.linalg.solve(gram, np.broadcast_to(phi[:, None, :, None], (*gram.shape[:3], 1)))
        error = np.sqrt(sigma2 * (phi[:, None, :] * spread[..., 0]).sum(axis=-1))
        return np.asarray(error.reshape(x.shape[0], self.n_arms, self.n_columns))

    def observe(
        self, state: RidgeState, owner: Array, x: Array, action: Array, label: Array, weight: Array
    ) -> None:
        """Add rows to the sums; a NaN label adds nothing, `weight` corrects selection."""
        if label.shape != (x.shape[0], self.n_labels):
            raise InvalidInput(
                f"label: expected shape {(x.shape[0], self.n_labels)}, got {label.shape}"
            )
        phi = with_intercept(x, self.features)
        state.sums.add(owner, phi, label, weight)
        labelled: Array = np.asarray(np.isfinite(label).any(axis=1), dtype=np.int64)
        scatter_add(state.since, owner, labelled)
        if self.floor > 0:
            e = action[:, 0]
            if self.link == "exp":
                e = np.log(np.where(e > 0, e, np.nan))
            state.window.add(owner, phi, e[:, None], np.ones(e.size))

    def excitation(self, state: RidgeState, owners: Array) -> Array:
        """Return the residual variance of log e (or e) given φ(x) since publication."""
        # A pinch of penalty: with few rows the window's gram is singular.
        theta = state.window.solve(owners, 1e-9)
        count, d = state.window.count[owners, 0], theta.shape[-1]
        spread = state.window.variance(owners, theta)[:, 0]
        return np.asarray(spread * count / np.maximum(count - d, 1.0))

    def due(self, state: RidgeState) -> Array:
        """Return the owners that saw `every` rows since their last publication."""
        return np.flatnonzero(state.since >= self.every)

    def publish(self, state: RidgeState, owners: Array) -> Array:
        """Solve for θ̂ and put it in force, except where excitation is below the floor."""
        if owners.size == 0:
            return owners
        state.since[owners] = 0
        if self.floor > 0:
            excited = self.excitation(state, owners) >= self.floor
            for name in ("gram", "moment", "square", "count"):
                getattr(state.window, name)[owners] = 0.0
            owners = owners[excited]
        state.theta[owners] = state.sums.solve(owners, self.penalty)
        state.versions[owners] += 1
        return owners

    def fit(self, x: Array, label: Array, weight: Array | None = None) -> RidgeState:
        """Fit one owner in batch and put it in force: the same sums as row by row."""
        n, state = x.shape[0], self.init(1)
        owner = np.zeros(n, dtype=np.int64)
        weights = np.ones(n) if weight is None else weight
        self.observe(state, owner, x, np.full((n, 1), np.nan), label, weights)
        state.theta[:] = state.sums.solve(owner[:1], self.penalty)
        state.versions[:], state.since[:] = 1, 0
        return state
