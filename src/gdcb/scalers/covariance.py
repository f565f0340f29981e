"""Covariances by mode and context, by ridge regression on innovations."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np

from gdcb.arrays import Array, scatter_add
from gdcb.errors import InvalidInput
from gdcb.parts import (
    Column,
    check_choice,
    check_number,
    check_settings,
    check_size,
    column,
    numbers,
    take,
)
from gdcb.regression import RidgeSums
from gdcb.scalers.settings import check_whole, numbers_of

_SAME = 1e-6  # by how much a fit may differ from the one that its rows are weighted by
_ROUNDED = 1e-9  # of the largest response of a row: what rounding may take another below 0
_LARGEST = 1e100  # number of a label; products of a few stay finite
_ROUNDS = 60  # each halves the difference


@dataclass(slots=True)
class CovarianceState:
    """Sums of every owner, and the coefficients in force.

    Parameters
    ----------
    sums : of the regressions of ν_t² and of ν_tν_{t−1} on their responses, weighted by `beta`
    beta : (owners, B) published coefficients of Q by mode and knot, of R by knot, and of P₀
    versions, since, rows : (owners,) publications so far, rows that taught since the last one, and
        in all
    """

    sums: RidgeSums
    beta: Array
    versions: Array
    since: Array
    rows: Array


def hats(value: Array, knots: tuple[float, ...]) -> Array:
    """Return the weights of linear interpolation between knots: (N, knots), ≥ 0, of sum 1.

    Beyond the outer knots the nearest one has all the weight.

    >>> hats(np.array([0.0, 0.25, 3.0]), (0.0, 1.0)).tolist()
    [[1.0, 0.0], [0.75, 0.25], [0.0, 1.0]]
    """
    if len(knots) == 1:
        return np.ones((value.shape[0], 1))
    at = np.array(knots)
    place = np.clip(np.searchsorted(at, value, side="right") - 1, 0, len(knots) - 2)
    share = np.clip((value - at[place]) / (at[place + 1] - at[place]), 0.0, 1.0)
    out = np.zeros((value.shape[0], len(knots)))
    rows = np.arange(value.shape[0])
    out[rows, place], out[rows, place + 1] = 1.0 - share, share
    return out


@dataclass(frozen=True)
class CovarianceScaler:
    """Sizes of Q, R and P₀ for every mode: (Q_θ(x), R_θ(x)), positive by construction.

    δ_m(x) = (Σ_i h_i(x) β_{m,i}, Σ_j h_j(x) β_j, β_0): what multiplies the nominal Q_m, R_m and P₀.
    The h are weights of linear interpolation between knots of a context column: they are ≥ 0 and
    sum to 1, and every β is confined to [low, high]. So δ lies in [low, high] at every x, and
    (Q, R) in the compact set of the lemma, positive definite, whatever was learned.

    A row's label is (ν_t², ν_tν_{t−1}, responses of both): products of innovations, averaged over
    axes that share their gain, and how each would move with each coefficient, whatever gains ran
    (`gdcb.kalman.responses`). β follows by ridge regression of the products on the responses,
    pulled towards `prior_mean` as if that had been seen with standard deviation `prior_sd`. A
    product is weighted by the inverse of its variance under the coefficients in force. When others
    are published, the sums of earlier products are brought to the weights that those give: each
    coefficient's share by how much the size of the squares that tell of it changed, on average.
    So a prior that is far too small or too large does not fix the weights of the first rows.
    Sums are kept, so that between two publications a batch and any order of rows give the same fit.

    Parameters
    ----------
    n_modes : how many there are
    mixes : whether an arm follows that commits to no mode; its Q is mixed by the composition, and
        its size here is the modes' mean
    process, process_knots : context column that Q hangs on, and knots on it; one knot: on none
    noise, noise_knots : the same of R, which all modes share
    prior_mean, prior_sd : a number each, or one a coefficient: Q by mode and knot, R by knot, P₀
    low, high : the compact set
    axes : how many axes a product is averaged over
    every, growth : rows of an owner between publications; and their share of all rows before
    per : 'unit' or 'group'

    Notes
    -----
    Assumes: a linear filter whose model is right up to these sizes, innovations with the moments
    of its errors, and weights of the modes that are right on average. Where modes are not known,
    the responses of Q_m carry how likely m was, and β_m is the size of Q where m seemed to be on.

    Needs: a `prior_sd` as large as the doubt about `prior_mean`. It is not learned, and 0.01 ± 0.01
    where 9 is true holds the sizes back for thousands of rows. And publications along the way,
    every `every` rows: rows that were learned together keep their weights relative to each other,
    which are those of the coefficients in force when they came. A warm start publishes along the
    way by itself.

    Stops applying: gains that never change and whiten the innovations leave little to tell Q from
    R by. For gains only ratios matter: K(cQ, cR) = K(Q, R). Beyond the outer knots δ is constant.

    Examples
    --------
    One mode, one knot each, coefficients (q, r, p) with prior 1 ± 1. A track begins: the first
    innovation responds to r and p by 1, E[ν²] = r + p, and ν² = 12 is seen where 2 was expected.
    With r = p = 1.5 its variance is 2·3² = 18, so that each moves by 1·(12 − 2)/(18 + 1 + 1) = 0.5:
    to 1.5, as supposed.

    >>> scaler = CovarianceScaler(n_modes=1)
    >>> state, nan = scaler.init(1), np.nan
    >>> label = np.array([[12.0, nan, 0.0, 1.0, 1.0, nan, nan, nan]])
    >>> one, x = np.zeros(1, int), np.zeros((1, 1))
    >>> scaler.observe(state, one, x, np.ones((1, 1)), label, np.ones(1))
    >>> _ = scaler.publish(state, one)
    >>> scaler.predict(state, one, x).round(5).tolist()
    [[[1.0, 1.5, 1.5]]]
    """

    n_modes: int = 1
    mixes: bool = False
    process: Column | None = column(None)
    process_knots: tuple[float, ...] = (0.0,)
    noise: Column | None = column(None)
    noise_knots: tuple[float, ...] = (0.0,)
    prior_mean: tuple[float, ...] | float = 1.0
    prior_sd: tuple[float, ...] | float = 1.0
    low: float = 1e-2
    high: float = 1e2
    axes: int = 1
    every: int = 50
    growth: float = field(default=0.0, kw_only=True)
    per: str = field(default="group", kw_only=True)
    learns_from: ClassVar[str] = "label"
    supports: ClassVar[frozenset[str]] = frozenset({"decay", "merge"})
    is_positive: ClassVar[bool] = True
    weighs_by_fit: ClassVar[bool] = True  # so a warm start teaches it in instalments
    joins: ClassVar[str] = "any"
    n_columns: ClassVar[int] = 3

    def __post_init__(self) -> None:
        check_settings(self, "scaler")
        check_whole("scaler.n_modes", self.n_modes, 1)
        check_whole("scaler.axes", self.axes, 1)
        check_number("scaler.n_modes", self.n_modes, 1, 1_000)
        check_number("scaler.axes", self.axes, 1, 1_000)
        check_whole("scaler.every", self.every, 1)
        check_choice("scaler.per", self.per, ("unit", "group"))
        check_number("scaler.growth", self.growth, 0.0)
        check_number("scaler.low", self.low, 0.0, open_low=True)
        check_number("scaler.high", self.high, self.low, open_low=True)
        for name in ("process", "noise"):
            knots = numbers_of(f"scaler.{name}_knots", getattr(self, f"{name}_knots"))
            object.__setattr__(self, f"{name}_knots", knots)
            if not knots or any(b <= a for a, b in pairwise(knots)):
                raise InvalidInput(f"scaler.{name}_knots: expected rising numbers, got {knots}")
            if len(knots) > 1 and getattr(self, name) is None:
                raise InvalidInput(f"scaler.{name}: expected a context column for {knots}")
        check_size("scaler", "coefficients, squared", self.size, self.size)
        for name in ("prior_mean", "prior_sd"):
            value = getattr(self, name)
            if isinstance(value, (int, float)):
                value = (float(value),) * self.size
            value = numbers_of(f"scaler.{name}", value)
            if len(value) != self.size or min(value) <= 0.0:
                raise InvalidInput(
                    f"scaler.{name}: expected {numbers(self.size)} above 0, of Q by mode and knot, "
                    f"of R by knot and of P₀, got {value}"
                )
            object.__setattr__(self, name, value)
        if min(self._prior[0]) < self.low or max(self._prior[0]) > self.high:
            raise InvalidInput(
                f"scaler.prior_mean: expected numbers from low to high, {self.low:g} to "
                f"{self.high:g}, got {self.prior_mean}"
            )

    @property
    def n_arms(self) -> int:
        """The modes, and the arm that mixes them."""
        return self.n_modes + self.mixes

    @property
    def size(self) -> int:
        """How many coefficients there are."""
        return self.n_modes * len(self.process_knots) + len(self.noise_knots) + 1

    @property
    def n_labels(self) -> int:
        """Two products, and the responses of each."""
        return 2 + 2 * self.size

    @property
    def leading(self) -> tuple[Column | None, ...]:
        """The context column that each entry of δ hangs on, by arm; None: on none."""
        return (self.process, self.noise, None) * self.n_arms

    def made_labels(self, rng: np.random.Generator, x: Array, delta: Array) -> Array:
        """Make labels of steps whose true sizes are δ (N, n_arms, 3), to try the scaler with.

        Responses are drawn, and products are what they say, with a noise of a tenth.
        """
        n, k = x.shape[0], self.n_modes
        process, noise = self.weights(x)
        mode = rng.dirichlet(np.ones(k), size=n)
        made = []
        for _ in range(2):
            by_mode, rest = rng.random((n, 1)) * mode, rng.random((n, 2))
            response = (
                (by_mode[:, :, None] * process[:, None]).reshape(n, -1),
                rest[:, :1] * noise,
                rest[:, 1:],
            )
            truth = (by_mode * delta[:, :k, 0]).sum(axis=1) + (rest * delta[:, 0, 1:]).sum(axis=1)
            product = truth * (1.0 + 0.1 * rng.normal(size=n))
            made.append((product, np.concatenate(response, axis=1)))
        (square, first), (lagged, second) = made
        return np.concatenate((square[:, None], lagged[:, None], first, second), axis=1)

    @cached_property
    def _prior(self) -> tuple[Array, Array]:
        return np.array(self.prior_mean), np.array(self.prior_sd)

    def weights(self, x: Array) -> tuple[Array, Array]:
        """Return the weights h(x) of the knots of Q and of R: (N, knots) each."""
        process = hats(self._column(self.process, x), self.process_knots)
        return process, hats(self._column(self.noise, x), self.noise_knots)

    def _column(self, name: Column | None, x: Array) -> Array:
        return np.zeros(x.shape[0]) if name is None else take(x, name)

    def init(self, n_owners: int) -> CovarianceState:
        """Return empty sums and the prior's coefficients."""
        mean, _ = self._prior
        return CovarianceState(
            RidgeSums.zeros(n_owners, 2, self.size),
            np.tile(np.clip(mean, self.low, self.high), (n_owners, 1)),
            *(np.zeros(n_owners, dtype=np.int64) for _ in range(3)),
        )

    def predict(self, state: CovarianceState, owner: Array, x: Array) -> Array:
        """Evaluate the published sizes: (N, n_arms, 3), all within [low, high]."""
        return self.sizes(state.beta[owner], x)

    def sizes(self, beta: Array, x: Array) -> Array:
        """Return the sizes that coefficients (N, B) make: (N, n_arms, 3)."""
        process, noise = self.weights(x)
        n_process = self.n_modes * len(self.process_knots)
        by_mode = beta[:, :n_process].reshape(-1, self.n_modes, len(self.process_knots))
        out = np.empty((x.shape[0], self.n_arms, 3))
        out[:, : self.n_modes, 0] = (by_mode * process[:, None]).sum(axis=-1)
        if self.mixes:
            out[:, -1, 0] = out[:, :-1, 0].mean(axis=1)
        out[..., 1] = (beta[:, n_process:-1] * noise).sum(axis=-1)[:, None]
        out[..., 2] = beta[:, -1:]
        return out

    def version(self, state: CovarianceState, owner: Array) -> Array:
        """Return the number of publications behind the coefficients in force."""
        return state.versions[owner]

    def uncertainty(self, state: CovarianceState, owner: Array, x: Array) -> Array:
        """Return the posterior standard error of each size, from all rows so far: (N, n_arms, 3).

        Products are taken to have the variance that they have under the coefficients in force, and
        to be independent: lagged products of one innovation are not quite.
        """
        _, sd = self._prior
        values, vectors = np.linalg.eigh(state.sums.gram[owner].sum(axis=1))
        # Rows add to the prior's 1 and take nothing from it; rounding could.
        scaled = vectors / (1.0 + np.maximum(values, 0.0))[:, None]
        spread = scaled @ vectors.swapaxes(-1, -2) * np.outer(sd, sd)
        process, noise = self.weights(x)
        k = len(self.process_knots)
        out = np.empty((x.shape[0], self.n_arms, 3))

        def error(part: slice, h: Array) -> Array:
            inner = (h[:, :, None] * spread[:, part, part] * h[:, None, :]).sum(axis=(1, 2))
            return np.asarray(np.sqrt(np.maximum(inner, 0.0)))

        for mode in range(self.n_modes):
            out[:, mode, 0] = error(slice(mode * k, (mode + 1) * k), process)
        at = self.n_modes * k
        if self.mixes:
            share = np.tile(process / self.n_modes, (1, self.n_modes))
            out[:, -1, 0] = error(slice(0, at), share)
        out[..., 1] = error(slice(at, self.size - 1), noise)[:, None]
        out[..., 2] = np.sqrt(spread[:, -1, -1])[:, None]
        return out

    def observe(
        self,
        state: CovarianceState,
        owner: Array,
        x: Array,
        action: Array,
        label: Array,
        weight: Array,
    ) -> None:
        """Add rows to the sums; products that are NaN add nothing."""
        if label.shape != (x.shape[0], self.n_labels):
            raise InvalidInput(
                f"label: expected shape {(x.shape[0], self.n_labels)}, got {label.shape}"
            )
        label, weight = np.asarray(label, dtype=float), np.asarray(weight, dtype=float)
        self._refuse_impossible(label)
        self._refuse_rows(state, np.asarray(owner), weight, label.shape[0])
        mean, sd = self._prior
        size = self.size
        square = np.nan_to_num(label[:, 2 : 2 + size])
        lagged = np.nan_to_num(label[:, 2 + size :])
        fitted = state.beta[owner]
        expected = (square * fitted).sum(axis=1)
        variance = np.maximum(expected, 1e-12) ** 2
        both = variance + (lagged * fitted).sum(axis=1) ** 2
        for j, response, spread in ((0, square, 2.0 * variance), (1, lagged, both)):
            rest = np.full((label.shape[0], 2), np.nan)
            rest[:, j] = label[:, j] - (response * mean).sum(axis=1)
            state.sums.add(owner, response * sd, rest, weight * self.axes / spread)
        taught = (np.isfinite(label[:, :2]).any(axis=1) & (weight > 0)).astype(np.int64)
        scatter_add(state.since, owner, taught)
        scatter_add(state.rows, owner, taught)

    def _refuse_impossible(self, label: Array) -> None:
        """Refuse infinite products, and such as came without responses that could explain them."""
        is_seen = ~np.isnan(label[:, :2])
        square, lagged = np.split(label[:, 2:], 2, axis=1)
        with np.errstate(invalid="ignore"):
            expected = (square * self._prior[0]).sum(axis=1)
        # What both products vary by is worked out from the responses of the square.
        is_known = np.isfinite(square).all(axis=1) & (expected > 0.0)
        with np.errstate(invalid="ignore"):
            # Rounding may leave a response just below 0.
            least = square.min(axis=1) < -_ROUNDED * np.abs(square).max(axis=1)
            is_large = (np.abs(label) > _LARGEST) & np.isfinite(label)
        for is_bad, what in (
            (np.isinf(label[:, :2]).any(axis=1), "finite products, or NaN where none came"),
            (is_seen.any(axis=1) & ~is_known, "finite responses that make ν² above 0"),
            (is_seen[:, 1] & ~np.isfinite(lagged).all(axis=1), "finite responses of ν_tν_{t−1}"),
            (is_seen.any(axis=1) & least, "responses of ν² of at least 0"),
            (is_large.any(axis=1), f"numbers within ±{_LARGEST:g}"),
        ):
            if is_bad.any():
                at = int(is_bad.argmax())
                raise InvalidInput(f"label: expected {what}; got {label[at].tolist()} in row {at}")

    def _refuse_rows(self, state: CovarianceState, owner: Array, weight: Array, n: int) -> None:
        """Refuse owners that there are not, and weights that are none."""
        n_owners = state.rows.size
        is_whole = owner.shape == (n,) and owner.dtype.kind in "iu"
        if not is_whole or ((owner < 0) | (owner >= n_owners)).any():
            raise InvalidInput(
                f"owner: expected {n} whole numbers from 0 to {n_owners - 1}, got {owner}"
            )
        if weight.shape != (n,) or not (np.isfinite(weight) & (weight >= 0.0)).all():
            raise InvalidInput(f"weight: expected {n} finite numbers >= 0, got {weight}")

    def due(self, state: CovarianceState) -> Array:
        """Return the owners that saw `every` rows since their last publication, and `growth`."""
        enough = state.since >= self.every
        if self.growth > 0:
            enough &= state.since >= self.growth * (state.rows - state.since)
        return np.flatnonzero(enough)

    def solve(self, sums: RidgeSums, owners: Array) -> Array:
        """Return β of some owners, within [low, high]: (owners, B)."""
        mean, sd = self._prior
        found: Array = np.clip(mean + sd * _solved(sums, owners), self.low, self.high)
        return found

    def _settled(self, state: CovarianceState, owners: Array) -> Array:
        """Return β (owners, B) that fits sums weighted by itself; bring the sums to that weight.

        Steps go half of the way, in logarithms. Whole ones can go to and fro for ever between a
        large β, under which rows count for less than the prior, and a small one.
        """
        mean, sd = self._prior
        weighed, found = state.beta[owners], np.empty((owners.size, self.size))
        rest = np.arange(owners.size)
        for _ in range(_ROUNDS):
            theta = _solved(state.sums, owners[rest])
            found[rest] = fit = np.clip(mean + sd * theta, self.low, self.high)
            is_off = (np.abs(fit - weighed[rest]) > _SAME * weighed[rest]).any(axis=1)
            rest, theta, fit = rest[is_off], theta[is_off], fit[is_off]
            if rest.size == 0:
                break
            half = np.sqrt(weighed[rest] * fit)
            self._reweigh(state.sums, owners[rest], weighed[rest], half, theta)
            weighed[rest] = half
        return found

    def _reweigh(self, sums: RidgeSums, owners: Array, old: Array, new: Array, fit: Array) -> None:
        """Bring sums that are weighted by coefficients `old` to the weights of `new`.

        A weight goes with the inverse square of the size of ν². For each coefficient that size is
        averaged over the rows that tell of it, by how much they do: Σ w·s·(s·β) of all rows.
        """
        _, sd = self._prior
        before, after = ((sums.gram[owners, 0] @ (b / sd)[..., None])[..., 0] for b in (old, new))
        is_known = (before > 0.0) & (after > 0.0)
        root = np.divide(before, after, out=np.ones_like(before), where=is_known)
        # No row can change by more than the coefficient that changes most; rounding could.
        ratio = old / new
        root = np.clip(root, ratio.min(axis=1, keepdims=True), ratio.max(axis=1, keepdims=True))
        sums.reweigh(owners, root, fit)

    def publish(self, state: CovarianceState, owners: Array) -> Array:
        """Solve for β and put it in force; return the owners whose sizes changed."""
        if owners.size == 0:
            return owners
        state.since[owners] = 0
        beta = self._settled(state, owners)
        is_new: Array = np.asarray((beta != state.beta[owners]).any(axis=1))
        owners = owners[is_new]
        state.beta[owners] = beta[is_new]
        state.versions[owners] += 1
        return owners

    def merge(self, state: CovarianceState, other: CovarianceState) -> None:
        """Add the rows of another state of the same owners; what is in force stays.

        They are brought to the weights that this state's coefficients give them.
        """
        if state.beta.shape != other.beta.shape:
            raise InvalidInput(
                f"merge: expected a state of shape {state.beta.shape}, got {other.beta.shape}"
            )
        theirs, apart = deepcopy(other.sums), np.flatnonzero((state.beta != other.beta).any(axis=1))
        if apart.size:
            theta = _solved(theirs, apart)
            self._reweigh(theirs, apart, other.beta[apart], state.beta[apart], theta)
        state.sums.merge(theirs)
        state.since += other.since
        state.rows += other.rows

    def decay(self, state: CovarianceState, factor: float, owner: Array) -> None:
        """Let the evidence of some owners count for `factor`; the prior stays as it is."""
        check_number("decay", factor, 0.0, 1.0)
        state.sums.scale(owner, factor)


def _solved(sums: RidgeSums, owners: Array) -> Array:
    """Return θ̂ of every owner, (owners, B): where rounding lost the prior, the smallest of them."""
    gram = sums.gram[owners].sum(axis=1) + np.eye(sums.gram.shape[-1])
    moment = sums.moment[owners].sum(axis=1)[..., None]
    try:
        return np.asarray(np.linalg.solve(gram, moment)[..., 0])
    except np.linalg.LinAlgError:
        if owners.size > 1:  # one singular system must not spoil the others
            return np.concatenate([_solved(sums, one) for one in np.split(owners, owners.size)])
        return np.asarray((np.linalg.pinv(gram, hermitian=True) @ moment)[..., 0])
