"""A Bayesian linear head on features φ(x): what every scaler fitted to labels has in common."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from gdcb.arrays import Array, scatter_add
from gdcb.errors import InvalidInput
from gdcb.parts import Column, check_choice, check_number, check_size, column, numbers
from gdcb.regression import CentredSums, RidgeSums
from gdcb.scalers.settings import check_whole, columns_of, numbers_of

FAR = 1e3  # a δ further than this from 1, up or down, is no factor that anybody meant
_MOST = 100.0  # log δ never goes beyond this; δ must stay above 0, and finite


def positive(log_delta: Array) -> Array:
    """Return exp(log δ) within e^∓100: above 0 and finite, whatever the context.

    >>> bool(positive(np.array([-800.0]))[0] > 0), positive(np.array([0.0])).tolist()
    (True, [1.0])
    """
    return np.asarray(np.exp(np.minimum(np.maximum(log_delta, -_MOST), _MOST)))


@dataclass(slots=True)
class RidgeState:
    """Sums of every owner and label, and the fit in force.

    Parameters
    ----------
    sums : Σ w·φφᵀ and the like of all rows, of labels less what θ says before data
    theta : (owners, m, d) published coefficients
    versions, since : (owners,) publications so far, rows that taught since the last one
    tried : (owners,) how often `every` of these rows had come when one was last refused
    window : sums of φ and the executed action in the same rows, from which Var(log e | x) is read
        (no owners without an excitation floor)
    """

    sums: RidgeSums
    theta: Array
    versions: Array
    since: Array
    tried: Array
    window: CentredSums


@dataclass(frozen=True)
class LinearHead:
    """δ_θ(x) = g(θᵀ(φ(x) − φ̄)): a feature map φ = (1, …), fixed, and θ from sums, an owner each.

    A subclass says φ: `phi` and its `width`. It may also say where θ starts (`theta_before`), how θ
    follows from the sums (`solve`) and what φ cannot see (`uncertainty`). Statistics are sums:
    they add up in any order, merge and decay.
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
    noise: float = 1.0
    growth: float = field(default=0.0, kw_only=True)
    learns_from: ClassVar[str] = "label"
    supports: ClassVar[frozenset[str]] = frozenset({"decay", "merge"})

    def __post_init__(self) -> None:
        features = columns_of("scaler.features", self.features)
        object.__setattr__(self, "features", features)
        check_choice("scaler.link", self.link, ("exp", "identity"))
        check_choice("scaler.per", self.per, ("unit", "group"))
        check_number("scaler.penalty", self.penalty, 0.0, open_low=True)
        check_whole("scaler.every", self.every, 1)
        check_number("scaler.floor", self.floor, 0.0)
        check_number("scaler.noise", self.noise, 0.0, open_low=True)
        check_number("scaler.growth", self.growth, 0.0)
        if self.centre is not None:
            object.__setattr__(self, "centre", numbers_of("scaler.centre", self.centre))
        check_whole("scaler.n_arms", self.n_arms, 1)
        check_whole("scaler.n_columns", self.n_columns, 1)
        check_size("scaler", "arms × columns", self.n_arms, self.n_columns, most=100_000)

    @property
    def is_positive(self) -> bool:
        """Whether δ is an exponential."""
        return self.link == "exp"

    @property
    def joins(self) -> str:
        """'product' where δ is an exponential, else 'any': sums, severities, gains."""
        return "product" if self.link == "exp" else "any"

    @property
    def n_labels(self) -> int:
        """One label an arm and column of δ."""
        return self.n_arms * self.n_columns

    @property
    def most_log(self) -> float | None:
        """Return the largest log δ that a new label may say; None: labels are not log δ."""
        return float(np.log(FAR)) if self.link == "exp" else None

    @property
    def width(self) -> int:
        """Length d of φ(x), the leading 1 included."""
        raise NotImplementedError

    def phi(self, x: Array) -> Array:
        """Return the features φ(x) of every row, 1 first: (N, d), a new array."""
        raise NotImplementedError

    def phi_of(self, owner: Array, x: Array) -> Array:
        """Return φ(x) for sums: an owner's rows may be rounded together, never with others'."""
        return self.phi(x)

    @property
    def theta_before(self) -> Array | None:
        """Return θ before data, to which the penalty shrinks: (m, d); None: 0, δ is neutral."""
        return None

    def init(self, n_owners: int) -> RidgeState:
        """Return empty sums and θ before data."""
        m, d = self.n_labels, self.width
        if self.centre is not None and len(self.centre) != d - 1:
            raise InvalidInput(
                f"scaler.centre: expected {numbers(d - 1)}, one a feature, got {len(self.centre)}"
            )
        check_size("scaler", "labels × features, squared", m, d, d)
        return RidgeState(
            RidgeSums.zeros(n_owners, m, d),
            np.zeros((n_owners, m, d))
            if self.theta_before is None
            else np.tile(self.theta_before, (n_owners, 1, 1)),
            np.zeros(n_owners, dtype=np.int64),
            np.zeros(n_owners, dtype=np.int64),
            np.zeros(n_owners, dtype=np.int64),
            CentredSums.zeros(n_owners if self.floor > 0 else 0, d),
        )

    def centred(self, x: Array) -> Array:
        """Return φ(x) − φ̄, or φ(x) where δ is not normalised: (N, d)."""
        phi = self.phi(x)
        if self.centre is not None:
            phi[:, 0] = 0.0
            phi[:, 1:] -= self.centre
        return phi

    def predict(self, state: RidgeState, owner: Array, x: Array) -> Array:
        """Evaluate the published δ: (N, n_arms, n_columns)."""
        predictor = state.theta.take(owner, axis=0) @ self.centred(x)[:, :, None]
        if self.link == "exp":
            predictor = positive(predictor)
        return np.asarray(predictor.reshape(x.shape[0], self.n_arms, self.n_columns))

    def version(self, state: RidgeState, owner: Array) -> Array:
        """Return the number of publications behind the fit in force."""
        return state.versions[owner]

    def uncertainty(self, state: RidgeState, owner: Array, x: Array) -> Array:
        """Return the posterior standard error of the linear predictor, from all rows so far.

        σ̂² is the residual sum of squares plus the penalty at the optimum, over the rows, with
        noise² as one row more: without rows the error is the prior's, noise·‖φ(x) − φ̄‖/√penalty.
        """
        phi = self.centred(x)
        gram = state.sums.penalised(owner, self.penalty)
        theta = state.sums.solve(owner, self.penalty)
        sigma2 = state.sums.variance(owner, theta, self.noise**2)
        spread = np.linalg.solve(gram, np.broadcast_to(phi[:, None, :, None], (*gram.shape[:3], 1)))
        error = np.sqrt(sigma2 * (phi[:, None, :] * spread[..., 0]).sum(axis=-1))
        return np.asarray(error.reshape(x.shape[0], self.n_arms, self.n_columns))

    def observe(
        self, state: RidgeState, owner: Array, x: Array, action: Array, label: Array, weight: Array
    ) -> None:
        """Add rows to the sums; a NaN label adds nothing, `weight` corrects selection.

        Only rows that teach, with a label and a weight above 0, count towards the next
        publication and as excitation.
        """
        if label.shape != (x.shape[0], self.n_labels):
            raise InvalidInput(
                f"label: expected shape {(x.shape[0], self.n_labels)}, got {label.shape}"
            )
        phi = self.phi_of(owner, x)
        if self.theta_before is not None:
            label = label - (phi[:, None, :] * self.theta_before).sum(axis=-1)
        state.sums.add(owner, phi, label, weight)
        taught: Array = np.asarray(np.isfinite(label).any(axis=1) & (weight > 0))
        scatter_add(state.since, owner, taught.astype(np.int64))
        if self.floor > 0:
            e = action[:, 0]
            if self.link == "exp":
                e = np.log(np.where(e > 0, e, np.nan))
            columns = np.concatenate((phi[:, 1:], e[:, None]), axis=1)
            state.window.add(owner, columns, np.where(taught, weight, 0.0))

    def excitation(self, state: RidgeState, owners: Array) -> Array:
        """Return the residual variance of log e (or e) given φ(x) since the last publication."""
        return state.window.residual_variance(owners)

    def due(self, state: RidgeState) -> Array:
        """Return the owners that saw `every` rows since their last publication or refusal.

        With `growth` these must also be that share of the rows before: a long history is not
        refolded for a few rows more.
        """
        enough = state.since >= self.every * (state.tried + 1)
        if self.growth > 0:
            enough &= state.since >= self.growth * (state.sums.count.max(axis=1) - state.since)
        return np.flatnonzero(enough)

    def solve(self, sums: RidgeSums, owners: Array) -> Array:
        """Return θ̂ of some owners: (owners, m, d)."""
        found = sums.solve(owners, self.penalty)
        return found if self.theta_before is None else found + self.theta_before

    def publish(self, state: RidgeState, owners: Array) -> Array:
        """Solve for θ̂ and put it in force, except where excitation is below the floor.

        Owners whose θ̂ is the one in force keep their version. Those below the floor keep their
        rows and window, and are due again after `every` more.
        """
        if owners.size == 0:
            return owners
        if self.floor > 0:
            excited = self.excitation(state, owners) >= self.floor
            refused, owners = owners[~excited], owners[excited]
            state.tried[refused] = state.since[refused] // self.every
            state.window.clear(owners)
        state.since[owners] = state.tried[owners] = 0
        theta = self.solve(state.sums, owners)
        is_new: Array = np.asarray((theta != state.theta[owners]).any(axis=(1, 2)))
        owners = owners[is_new]
        state.theta[owners] = theta[is_new]
        state.versions[owners] += 1
        return owners

    def fit(self, x: Array, label: Array, weight: Array | None = None) -> RidgeState:
        """Fit one owner in batch and put it in force: the same sums as row by row."""
        n, state = x.shape[0], self.init(1)
        owner = np.zeros(n, dtype=np.int64)
        weights = np.ones(n) if weight is None else weight
        self.observe(state, owner, x, np.full((n, 1), np.nan), label, weights)
        state.theta[:] = self.solve(state.sums, owner[:1])
        state.versions[:], state.since[:] = 1, 0
        return state

    def merge(self, state: RidgeState, other: RidgeState) -> None:
        """Add the rows of another state of the same owners; what is in force stays."""
        if state.theta.shape != other.theta.shape:
            raise InvalidInput(
                f"merge: expected a state of shape {state.theta.shape}, got {other.theta.shape}"
            )
        state.sums.merge(other.sums)
        state.window.merge(other.window)
        state.since += other.since
        np.maximum(state.tried, other.tried, out=state.tried)

    def decay(self, state: RidgeState, factor: float, owner: Array) -> None:
        """Let the evidence of some owners count for `factor`; the prior stays as it is."""
        check_number("decay", factor, 0.0, 1.0)
        state.sums.scale(owner, factor)

    def centred_on(self, reference: Array) -> Self:
        """Return this scaler normalised over a frozen sample of contexts (N, p)."""
        return replace(self, centre=tuple(self.phi(reference)[:, 1:].mean(axis=0).tolist()))
