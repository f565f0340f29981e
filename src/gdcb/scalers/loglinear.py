"""A product of named factors, fitted on outcomes: the day signal of short-term rentals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from gdcb.arrays import Array, scatter_add
from gdcb.errors import InvalidInput
from gdcb.logistic import LogisticPosterior, equally_long
from gdcb.parts import (
    Column,
    check_choice,
    check_number,
    check_size,
    check_text,
    column,
    take_all,
)
from gdcb.regression import CentredSums
from gdcb.scalers.best_action import FORMS, follow
from gdcb.scalers.head import positive
from gdcb.scalers.settings import check_whole, columns_of, numbers_of

_AT_ONCE = 2**14  # rows whose designs are in memory at once
_SAME = 1e-6  # nearer a mode is not found
_EXPECTED = "at least one factor: {name: columns}, or a list of factors (name, features)"


@dataclass(frozen=True)
class Factor:
    """One factor δ_f(x) = exp(θ_fᵀ(φ_f(x) − φ̄_f)) of a product: its name, its context columns."""

    name: str
    features: tuple[Column, ...] = column(())

    def __post_init__(self) -> None:
        check_text("factor.name", self.name)
        features = columns_of(f"factor '{self.name}'", self.features)
        object.__setattr__(self, "features", features)


@dataclass(slots=True)
class LogLinearState:
    """The posterior of the outcome's regression, and the fit in force.

    Parameters
    ----------
    posterior : of (α, β, βθ) an owner: d = 2 + k
    theta : (owners, 1, k) published θ
    rows : (owners,) rows that taught so far
    versions, since : (owners,) publications so far, rows that taught since the last one
    tried : (owners,) how often `every` of these rows had come when one was last refused
    window : sums of (φ − φ̄, log e) in the same rows, or in those of the last `refit`
    """

    posterior: LogisticPosterior
    theta: Array
    rows: Array
    versions: Array
    since: Array
    tried: Array
    window: CentredSums


@dataclass(frozen=True)
class LogLinearScaler:
    """δ(x) = Π_f δ_f(x) over named factors, log δ_f = θ_fᵀ(φ_f(x) − φ̄_f), fitted on outcomes.

    A class outcome (booked or not) answers to the action relative to δ:
    logit P(y = 1) = α − β·(log e − θᵀ(φ(x) − φ̄)). It is a logistic regression of y on
    (1, −log e, φ − φ̄) with coefficients (α, β, βθ), and θ is a ratio of them: θ̂ = (βθ)^/β̂. Row by
    row it keeps a Gaussian of the coefficients; `fit` finds the exact mode of a batch, and `refit`
    that of the rows so far under the weights of today.

    Parameters
    ----------
    factors : `Factor(name, columns)` each, or {name: columns}
    penalty : prior precision of every coefficient βθ: a ridge; a number, or one a column
    level, slope, theta : prior means of α, of β and of θ, which is in force from the start; none: 0
    level_sd, slope_sd : prior standard deviations of α and β
    every : rows an owner sees between publications, at least
    growth : share of all rows so far that must have come since the last publication; with 0 they
        are evenly spaced, with 1 the rows double from one to the next
    centre : φ̄, the mean of all columns, factor by factor, over a frozen reference sample: mean
        log δ = 0 there. None: δ is not normalised.
    floor : excitation floor. A publication is refused while the residual variance of log e given
        φ(x), in the rows since the last one, or in all that were refitted, is below it: β is then
        not identified.
    sure : a publication is refused while β̂ is less than so many posterior sds above 0
    least : lowest β̂ that θ̂ is divided by, and that is published
    per : 'unit' or 'group'
    row_by_row : whether the posterior follows every row. Without, rows are only counted until
        `refit` fits all of them, as every publication with a log does; that spares time
    follows : 'ratio': θ is the ratio of coefficients above. Else how the best action moves with
        the context where outcomes pay the action (`gdcb.scalers.best_action`): under the form
        α − β·e/δ ('scaled'), under α − β·e + ζᵀφ ('shifted'), or averaged over them ('both').
        Slope and level are then those of α − β·e/δ, and `row_by_row` must be false

    Notes
    -----
    Assumes: δ is a factor of the action (a product composes them); one slope β for all contexts,
    so that context moves demand along the logarithm of the action and in no other way; no hidden
    cause of both action and outcome. Learners of a class only: y in [0, 1].

    Stops applying: as arms converge, e loses the variation that identifies β, and θ̂ with it (the
    floor). Where β̂ is near 0 a ratio has no mean, and the delta method's standard error is too
    small: nothing is published there. Row by row the posterior differs from the exact one by
    some tenths of a standard deviation.

    Examples
    --------
    Coefficients (α, β, βθ) = (0, 2, 1), each known to ±0.1: θ̂ = ½, δ = exp(½·x). At x = 2 the
    gradient of log δ = βθ·x/β is (0, −½, 1), so its error is 0.1·√1.25 = 0.1118.

    >>> scaler = LogLinearScaler(factors={"gap": (0,)}, floor=0.0)
    >>> state, zero = scaler.init(1), np.zeros(1, dtype=int)
    >>> state.posterior.mean[0], state.posterior.root[0] = (0.0, 2.0, 1.0), 0.1 * np.eye(3)
    >>> scaler.publish(state, zero).tolist(), state.theta.tolist()
    ([0], [[[0.5]]])
    >>> x = np.array([[2.0]])
    >>> np.log(scaler.predict(state, zero, x)).item(), scaler.uncertainty(state, zero, x).round(4)
    (1.0, array([[[0.1118]]]))
    """

    factors: tuple[Factor, ...] | Mapping[str, tuple[Column, ...]] = field(
        metadata={"expected": _EXPECTED}
    )
    penalty: float | tuple[float, ...] = 1.0
    level: float = 0.0
    slope: float = 0.0
    theta: tuple[float, ...] = ()
    level_sd: float = 3.0
    slope_sd: float = 5.0
    every: int = 50
    growth: float = 0.0
    centre: tuple[float, ...] | None = None
    floor: float = 1e-4
    sure: float = 2.0
    least: float = 0.1
    per: str = "group"
    row_by_row: bool = True
    follows: str = "ratio"
    _parts: tuple[Factor, ...] = field(init=False, repr=False, compare=False)
    _columns: tuple[Column, ...] = field(init=False, repr=False, compare=False)
    learns_from: ClassVar[str] = "outcome"
    supports: ClassVar[frozenset[str]] = frozenset({"decay", "refit"})
    n_arms: ClassVar[int] = 1
    n_columns: ClassVar[int] = 1
    n_labels: ClassVar[int] = 0
    is_positive: ClassVar[bool] = True
    joins: ClassVar[str] = "product"

    def __post_init__(self) -> None:
        parts: Any = self.factors
        if isinstance(parts, Mapping):
            parts = tuple(parts.items())
        is_listed = isinstance(parts, tuple | list)
        if is_listed:  # a pair of a name and its columns is a factor
            pairs = [isinstance(one, tuple | list) and len(one) == 2 for one in parts]
            parts = [
                Factor(*one) if is_pair else one for one, is_pair in zip(parts, pairs, strict=True)
            ]
        if not is_listed or not parts or not all(isinstance(one, Factor) for one in parts):
            raise InvalidInput(f"scaler.factors: expected {_EXPECTED}, got {self.factors!r}")
        parts = tuple(parts)
        object.__setattr__(self, "factors", parts)
        names = [one.name for one in parts]
        if len(set(names)) < len(names):
            raise InvalidInput(f"scaler.factors: expected different names, got {', '.join(names)}")
        object.__setattr__(self, "_parts", parts)
        columns = tuple(name for one in parts for name in one.features)
        object.__setattr__(self, "_columns", columns)
        for name in ("level_sd", "slope_sd", "least"):
            check_number(f"scaler.{name}", getattr(self, name), 0.0, open_low=True)
        for name in ("level", "slope"):
            check_number(f"scaler.{name}", getattr(self, name))
        check_number("scaler.growth", self.growth, 0.0)
        object.__setattr__(self, "theta", numbers_of("scaler.theta", self.theta))
        if isinstance(self.penalty, tuple | list):
            object.__setattr__(self, "penalty", numbers_of("scaler.penalty", self.penalty))
        for value in self.penalty if isinstance(self.penalty, tuple) else (self.penalty,):
            check_number("scaler.penalty", value, 0.0, open_low=True)
        check_whole("scaler.every", self.every, 1)
        check_number("scaler.floor", self.floor, 0.0)
        check_number("scaler.sure", self.sure, 0.0)
        if self.centre is not None:
            object.__setattr__(self, "centre", numbers_of("scaler.centre", self.centre))
        check_choice("scaler.per", self.per, ("unit", "group"))
        flag: Any = self.row_by_row
        if not isinstance(flag, bool):
            raise InvalidInput(f"scaler.row_by_row: expected true or false, got {flag!r}")
        check_choice("scaler.follows", self.follows, ("ratio", *FORMS))
        if self.follows != "ratio" and self.row_by_row:
            raise InvalidInput(
                f"scaler.follows: '{self.follows}' is fitted to all rows; row_by_row = false"
            )

    @property
    def is_informed(self) -> bool:
        """Whether a θ is in force before any row."""
        return any(self.theta)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the factors, in order."""
        return tuple(one.name for one in self._parts)

    def _prior_sd(self) -> Array:
        k = len(self._columns)
        penalty = np.broadcast_to(np.asarray(self.penalty, dtype=float), (k,))
        return np.concatenate(([self.level_sd, self.slope_sd], penalty**-0.5))

    def _prior_mean(self) -> Array:
        theta = np.array(self.theta or (0.0,) * len(self._columns))
        return np.concatenate(([self.level, self.slope], self.slope * theta))

    def init(self, n_owners: int) -> LogLinearState:
        """Return the prior, and its θ in force: without one δ is neutral."""
        k = len(self._columns)
        check_size("scaler.factors", "columns, squared", k + 2, k + 2)
        for name in ("centre", "theta", "penalty"):
            value: Any = getattr(self, name)
            is_left_out = name == "theta" and value == ()
            if isinstance(value, tuple) and len(value) != k and not is_left_out:
                wanted = "1 number" if k == 1 else f"{k} numbers, one a column"
                raise InvalidInput(f"scaler.{name}: expected {wanted}, got {len(value)}")
        theta = np.zeros((n_owners, 1, k))
        theta[:] = self.theta or 0.0
        return LogLinearState(
            LogisticPosterior.prior(n_owners, self._prior_mean(), self._prior_sd()),
            theta,
            np.zeros(n_owners, dtype=np.int64),
            np.zeros(n_owners, dtype=np.int64),
            np.zeros(n_owners, dtype=np.int64),
            np.zeros(n_owners, dtype=np.int64),
            CentredSums.zeros(n_owners if self.floor > 0 else 0, k + 1),
        )

    def _centred(self, x: Array) -> Array:
        phi = take_all(x, self._columns)
        return phi if self.centre is None else np.asarray(phi - self.centre)

    def predict(self, state: LogLinearState, owner: Array, x: Array) -> Array:
        """Evaluate the published δ: (N, 1, 1)."""
        predictor = state.theta.take(owner, axis=0) @ self._centred(x)[:, :, None]
        return positive(predictor)

    def by_factor(self, state: LogLinearState, owner: Array, x: Array) -> Array:
        """Return every factor δ_f(x) of the published δ, as in `names`: (N, F)."""
        terms = state.theta[owner, 0] * self._centred(x)
        starts = np.cumsum([0, *[len(one.features) for one in self._parts[:-1]]])
        return positive(np.add.reduceat(terms, starts, axis=1))

    def version(self, state: LogLinearState, owner: Array) -> Array:
        """Return the number of publications behind the fit in force."""
        return state.versions[owner]

    def uncertainty(self, state: LogLinearState, owner: Array, x: Array) -> Array:
        """Return the standard error of log δ from all rows so far, by the delta method."""
        mean, phi = state.posterior.mean[owner], self._centred(x)
        slope = np.maximum(mean[:, 1], self.least)
        gradient = np.zeros_like(mean)
        gradient[:, 1] = -(mean[:, 2:] * phi).sum(axis=1) / slope**2
        gradient[:, 2:] = phi / slope[:, None]
        along = state.posterior.root[owner].swapaxes(-1, -2) @ gradient[..., None]
        return np.asarray(np.sqrt((along * along).sum(axis=1))[:, :, None])

    def estimate(self, state: LogLinearState, owners: Array) -> tuple[Array, Array]:
        """Return θ̂ of all rows so far and its standard error by the delta method: (owners, k)."""
        mean, root = state.posterior.mean[owners], state.posterior.root[owners]
        slope = np.maximum(mean[:, 1], self.least)[:, None]
        theta = mean[:, 2:] / slope
        # d θ_j = (d w_j − θ_j dβ)/β, row by row of the covariance's root.
        moves = (root[:, 2:] - theta[..., None] * root[:, 1:2]) / slope[..., None]
        return theta, np.sqrt((moves * moves).sum(axis=-1))

    def observe(
        self,
        state: LogLinearState,
        owner: Array,
        x: Array,
        action: Array,
        label: Array,
        weight: Array,
    ) -> None:
        """Learn outcomes (N, 1) in [0, 1] of executed actions e (N, D), relative to their base.

        A NaN outcome and a row in which nothing ran, or no e above 0, teach nothing.
        """
        if not self.row_by_row:
            self.watch(state, owner, x, action, label, weight)
            return
        design, y = self._rows(x, action, label)
        state.posterior.observe(owner, design, y, weight)
        self._count(state, owner, y, weight)
        if self.floor > 0:
            taught: Array = np.asarray(np.isfinite(y) & (weight > 0))
            state.window.add(owner, _varied(design), np.where(taught, weight, 0.0))

    def watch(
        self,
        state: LogLinearState,
        owner: Array,
        x: Array,
        action: Array,
        label: Array,
        weight: Array,
    ) -> None:
        """Count rows without learning them: `refit` will."""
        design, y = self._rows(x, action, label)
        state.posterior.check(owner, design, y, weight)
        self._count(state, owner, y, weight)

    def _count(self, state: LogLinearState, owner: Array, y: Array, weight: Array) -> None:
        """Count the rows that taught something."""
        taught = (np.isfinite(y) & (weight > 0)).astype(np.int64)
        scatter_add(state.since, owner, taught)
        scatter_add(state.rows, owner, taught)

    def _rows(self, x: Array, action: Array, label: Array) -> tuple[Array, Array]:
        """Return (1, −log e, φ − φ̄) and y (NaN: learn nothing)."""
        n = x.shape[0]
        if label.shape != (n, 1):
            raise InvalidInput(f"label: expected outcomes of shape {(n, 1)}, got {label.shape}")
        e = action[:, 0]
        log_e = np.log(np.where((e > 0) & np.isfinite(e), e, np.nan))
        ran = np.isfinite(log_e)
        design = np.empty((n, len(self._columns) + 2))
        design[:, 0] = 1.0
        design[:, 1] = np.where(ran, -log_e, 0.0)
        design[:, 2:] = self._centred(x)
        return design, np.where(ran, label[:, 0], np.nan)

    def excitation(self, state: LogLinearState, owners: Array) -> Array:
        """Return the residual variance of log e given φ(x) in the rows of the window."""
        return state.window.residual_variance(owners)

    def due(self, state: LogLinearState) -> Array:
        """Return the owners that saw enough rows since their last publication or refusal."""
        enough = state.since >= self.every * (state.tried + 1)
        if self.growth > 0:
            enough &= state.since >= self.growth * (state.rows - state.since)
        return np.flatnonzero(enough)

    def publish(self, state: LogLinearState, owners: Array) -> Array:
        """Put θ̂ in force where β̂ is clearly above 0 and log e varied enough given x.

        Owners whose θ̂ is the one in force, to a millionth, keep their version. Those that are
        refused keep their rows and window, and are due again after `every` more.
        """
        if owners.size == 0:
            return owners
        slope, root = state.posterior.mean[owners, 1], state.posterior.root[owners, 1]
        fit = slope >= np.maximum(self.least, self.sure * np.sqrt((root * root).sum(axis=-1)))
        if self.floor > 0:
            fit &= self.excitation(state, owners) >= self.floor
        refused, owners = owners[~fit], owners[fit]
        state.tried[refused] = state.since[refused] // self.every
        state.since[owners] = state.tried[owners] = 0
        if self.floor > 0:
            state.window.clear(owners)
        theta = self.estimate(state, owners)[0]
        is_new: Array = np.asarray((np.abs(theta - state.theta[owners, 0]) > _SAME).any(axis=1))
        owners = owners[is_new]
        state.theta[owners, 0] = theta[is_new]
        state.versions[owners] += 1
        return owners

    def fit(
        self, x: Array, action: Array, outcome: Array, weight: Array | None = None
    ) -> LogLinearState:
        """Find the exact mode of one owner's rows, and put it in force if it may be.

        Parameters
        ----------
        x, action : (N, p), (N, D) contexts and executed actions, relative to their base
        outcome, weight : (N,) each
        """
        state, zero = self.init(1), np.zeros(1, dtype=np.int64)
        design, y = self._rows(x, action, np.reshape(outcome, (-1, 1)))
        state.posterior = LogisticPosterior.fit(
            design, y, weight, self._prior_mean(), self._prior_sd() ** -2.0
        )
        weights, rows = np.ones(y.size) if weight is None else weight, np.arange(y.size)[None]
        self._count(state, np.zeros(y.size, dtype=np.int64), y, weights)
        self._vary(state, zero, design[rows], y[rows], weights[rows])
        self.publish(state, zero)
        return state

    def refit(
        self,
        state: LogLinearState,
        owners: Array,
        owner: Array,
        x: Array,
        action: Array,
        y: Array,
        weight: Array,
    ) -> None:
        """Replace what some owners know by the exact mode of these rows, under these weights.

        What is in force stays until `publish`. An owner without rows is back at the prior, and
        what `decay` discounted counts again, unless the weights say so. The count of rows is that
        of the rows as they came; excitation is that of the rows here.

        Parameters
        ----------
        owners : whose evidence is replaced, no one twice; rows of others are left out
        owner, x, action, weight : (N,), (N, p), (N, D), (N,) rows, as of `observe`
        y : (N,) or (N, 1) outcomes, NaN: not seen
        """
        n, n_owners = x.shape[0], state.versions.size
        design, target = self._rows(x, action, np.reshape(y, (-1, 1)))
        if owner.shape != (n,) or weight.shape != (n,):
            raise InvalidInput(
                f"owner, weight: expected {n} each, got {owner.shape} and {weight.shape}"
            )
        if np.unique(owners).size < owners.size or ((owners < 0) | (owners >= n_owners)).any():
            raise InvalidInput(
                f"owners: expected different ones of 0 to {n_owners - 1}, got {owners}"
            )
        state.posterior.check(owner, design, target, weight, None)
        mean, sd = self._prior_mean(), self._prior_sd()
        if self.follows == "ratio":
            some = np.flatnonzero(np.isin(owner, owners))
            rows = (owner[some], design[some], target[some], weight[some])
            state.posterior.refit(owners, rows, mean, sd)
        else:
            prior = LogisticPosterior.prior(owners.size, mean, sd)
            state.posterior.mean[owners], state.posterior.root[owners] = prior.mean, prior.root
        if self.floor > 0:
            state.window.clear(owners)
        # Owners with equally many rows go together, bit for bit as alone.
        for some, own in equally_long(owners, np.where(np.isfinite(target), owner, -1)):
            length = max(1, _AT_ONCE // own.shape[1])
            for start in range(0, some.size, length):
                few, rows_of = owners[some[start : start + length]], own[start : start + length]
                stacked, y, w = design[rows_of], target[rows_of], weight[rows_of]
                if self.follows != "ratio":
                    e, phi = np.exp(-stacked[..., 1]), stacked[..., 2:]
                    found = follow(phi, e, y, w, mean, sd, self.follows)
                    state.posterior.mean[few], state.posterior.root[few] = found
                self._vary(state, few, stacked, y, w)

    def _vary(
        self, state: LogLinearState, owners: Array, design: Array, y: Array, weight: Array
    ) -> None:
        """Put how log e varied in rows (m, n) in place of the window of m owners."""
        if self.floor > 0:
            state.window.put(owners, _varied(design), np.where(np.isfinite(y), weight, 0.0))

    def decay(self, state: LogLinearState, factor: float, owner: Array) -> None:
        """Let the evidence of some owners count for `factor`; the prior stays as it is."""
        check_number("decay", factor, 0.0, 1.0)
        state.posterior.decay(owner, factor, self._prior_mean(), self._prior_sd())


def _varied(design: Array) -> Array:
    """Return (φ − φ̄, log e) of rows (1, −log e, φ − φ̄)."""
    return np.concatenate((design[..., 2:], -design[..., 1:2]), axis=-1)
