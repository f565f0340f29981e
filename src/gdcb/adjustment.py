"""Adjusted updates (Theorem 1): take off what context explains before an arm learns.

The appendix of the paper subtracts the whole prediction, and with it the arm's own value: every
arm's mean tends to zero. Here the prediction is centred: r̃ = r − (m(a, x) − m̄(a)), with m̄(a) the
mean of m(a, ·) over a frozen sample of contexts. The arm's mean stays, and its variance falls to
E[σ²(a, X)]/n plus the error of m̄.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gdcb.arrays import Array, scatter_add
from gdcb.errors import InvalidInput
from gdcb.logistic import turn_of
from gdcb.parts import (
    Column,
    check_choice,
    check_number,
    check_settings,
    column,
    take_all,
)
from gdcb.records import Evidence
from gdcb.regression import RidgeSums, with_intercept

FOLDS = 5


@dataclass(slots=True)
class AdjustmentState:
    """The outcome model m of every owner and arm: sums so far, and the version in force.

    Parameters
    ----------
    sums : over owner · K + arm, one target
    theta : (owners, K, d) coefficients in force
    rows, versions : (owners,) rows since the last publication, publications so far
    """

    sums: RidgeSums
    theta: Array
    rows: Array
    versions: Array


@dataclass(frozen=True)
class Adjustment:
    """Centre each reward by a ridge regression m(a, x) of rewards on context, arm by arm.

    'centred': r̃ = r − (m(a, x) − m̄(a)). Its mean is the arm's value if arms are chosen
    independently of x, or if m is right up to a constant an arm. 'aipw': the same r̃ with the
    row weighted by even play over its propensity, (1/K)/π(a | x), clipped: right if
    either m or π is (doubly robust, self-normalised). With a declared scale, r̃ = r − s·(m − m̄).

    Online, m is the version published before the row came; in batch it is cross-fitted over
    folds: a row never helps to predict itself.

    Parameters
    ----------
    reference : frozen sample of contexts, rows of x as the learner sees it, over which m̄ averages
    features : context columns of m; '*' is all of them
    form : 'centred' or 'aipw'
    penalty : ridge penalty λ of m
    every : rows an owner sees between publications of m
    clip : largest weight of 'aipw'; lower is steadier and, where rows are clipped, biased

    Notes
    -----
    Assumes: rewards with a mean; m learned on other rows; for 'aipw', propensities that are right.

    Stops applying: outcome classes. A Beta posterior has no room for an adjusted 0/1 outcome, so
    class learners refuse it. Contextual learners and bands of δ learn the very dependence on
    x that is taken off, and are refused too. Where arms are chosen by context and m is wrong,
    'centred' is biased. In a batch the weights of 'aipw' are brought down to their effective
    number of rows, (Σw)²/Σw²; online they count as they are, which is too sure where propensities
    vary much. Rows off every arm are left as they are.

    Examples
    --------
    One arm, r = 2x exactly seen at x = −1 and 1 (λ → 0): m(x) = 2x, and over the reference
    x ∈ {0, 1} m̄ = 1. A reward 2 at x = 1 becomes 2 − (2 − 1) = 1: the arm's value there.

    >>> adjust = Adjustment(reference=((0.0,), (1.0,)), features=(0,), penalty=1e-9, every=2)
    >>> state, zero = adjust.init(1, 1), np.zeros(2, dtype=int)
    >>> x, y = np.array([[-1.0], [1.0]]), np.array([-2.0, 2.0])
    >>> seen = Evidence(zero, zero, x, y, None, np.ones(2), x)
    >>> adjust.learn(state, zero, seen)
    >>> adjust.apply(state, zero, seen).y.round(6).tolist()
    [1.0, 1.0]
    """

    reference: tuple[tuple[float, ...], ...] = ()
    features: tuple[Column, ...] = column(("*",))
    form: str = "centred"
    penalty: float = 1.0
    every: int = 50
    clip: float = 20.0

    def __post_init__(self) -> None:
        check_settings(self, "adjustment")
        check_choice("adjustment.form", self.form, ("centred", "aipw"))
        check_number("adjustment.penalty", self.penalty, 0.0, open_low=True)
        check_number("adjustment.every", self.every, 1)
        check_number("adjustment.clip", self.clip, 1.0)
        widths = {len(row) for row in self.reference}
        if len(widths) != 1:
            raise InvalidInput("adjustment.reference: expected rows of x, all of one length")
        for row in self.reference:
            for value in row:
                check_number("adjustment.reference", value)

    def init(self, n_owners: int, n_arms: int) -> AdjustmentState:
        """Return m = 0: nothing is taken off before the first publication."""
        d = len(self.features) + 1
        return AdjustmentState(
            RidgeSums.zeros(n_owners * n_arms, 1, d),
            np.zeros((n_owners, n_arms, d)),
            np.zeros(n_owners, dtype=np.int64),
            np.zeros(n_owners, dtype=np.int64),
        )

    def apply(
        self,
        state: AdjustmentState,
        owner: Array,
        seen: Evidence,
        propensity: Array | None = None,
    ) -> Evidence:
        """Adjust rows by the version in force; `propensity` (N,) of their arms for 'aipw'."""
        theta = state.theta[owner, np.maximum(seen.arm, 0)]
        return self._adjusted(theta, state.theta.shape[1], seen, propensity)

    @cached_property
    def _centre(self) -> Array:
        """Return the features averaged over the reference: m is linear, so m̄(a) = m(a, x̄)."""
        centre: Array = take_all(np.array(self.reference), self.features).mean(axis=0)
        return centre

    @cached_property
    def _penalty(self) -> Array:
        """Return λ on every slope; an arm's own value must not be shrunk into them."""
        penalty = np.full(len(self.features) + 1, float(self.penalty))
        penalty[0] = 1e-9  # an arm without rows still has a solution
        return penalty

    def _phi(self, x: Array) -> Array:
        """Return (1, features − their mean over the reference)."""
        phi = with_intercept(x, self.features)
        phi[:, 1:] -= self._centre
        return phi

    def _adjusted(
        self, theta: Array, n_arms: int, seen: Evidence, propensity: Array | None
    ) -> Evidence:
        # The intercept is the arm's own value under the reference: it is what stays.
        gap = (self._phi(_context(seen))[:, 1:] * theta[:, 1:]).sum(axis=1)
        if seen.scale is not None:
            gap = gap * seen.scale
        on_arm = seen.arm >= 0
        weight = seen.weight
        if self.form == "aipw":
            weight = np.where(on_arm, weight * self._even_play(propensity, n_arms, on_arm), weight)
        return replace(seen, y=np.where(on_arm, seen.y - gap, seen.y), weight=weight)

    def _even_play(self, propensity: Array | None, n_arms: int, on_arm: Array) -> Array:
        if propensity is None:
            raise InvalidInput(
                "adjustment: form 'aipw' needs the propensity of every executed arm; "
                "give it with the rows, or take form 'centred'"
            )
        good = (propensity > 0) & (propensity <= 1)
        if propensity.shape != on_arm.shape or not bool((good | ~on_arm).all()):
            raise InvalidInput(f"propensity: expected one number in (0, 1] a row, got {propensity}")
        even = 1.0 / (n_arms * np.where(good, propensity, 1.0))
        return np.minimum(even, self.clip)

    def learn(self, state: AdjustmentState, owner: Array, seen: Evidence) -> None:
        """Add rows to m's sums, and publish m for the owners whose time has come."""
        n_arms = state.theta.shape[1]
        known = np.flatnonzero((seen.arm >= 0) & (seen.weight > 0))
        place, phi, y, weight = self._rows(owner, seen, n_arms, known)
        state.sums.add(place, phi, y[:, None], weight)
        scatter_add(state.rows, owner[known], np.ones(known.size, dtype=np.int64))
        self.publish(state, np.flatnonzero(state.rows >= self.every))

    def rebuild(self, state: AdjustmentState, owners: Array, owner: Array, seen: Evidence) -> None:
        """Forget what these owners learned, and learn their rows as they are credited now."""
        n_arms = state.theta.shape[1]
        places = (owners[:, None] * n_arms + np.arange(n_arms)).ravel()
        for name in ("gram", "moment", "square", "count"):
            getattr(state.sums, name)[places] = 0.0
        known = np.flatnonzero((seen.arm >= 0) & (seen.weight > 0))
        place, phi, y, weight = self._rows(owner, seen, n_arms, known)
        state.sums.add(place, phi, y[:, None], weight)
        self.publish(state, owners)

    def publish(self, state: AdjustmentState, owners: Array) -> None:
        """Put the fit of all rows so far in force for these owners."""
        n_arms, d = state.theta.shape[1:]
        for_arms = (owners[:, None] * n_arms + np.arange(n_arms)).ravel()
        fitted = state.sums.solve(for_arms, self._penalty)[:, 0]
        state.theta[owners] = fitted.reshape(owners.size, n_arms, d)
        state.rows[owners] = 0
        state.versions[owners] += 1

    def cross_fit(
        self,
        n_owners: int,
        n_arms: int,
        owner: Array,
        seen: Evidence,
        propensity: Array | None = None,
    ) -> Evidence:
        """Adjust a whole batch: each row by an m fitted on the other folds of its owner's rows."""
        known = np.flatnonzero((seen.arm >= 0) & (seen.weight > 0))
        place, phi, y, weight = self._rows(owner, seen, n_arms, known)
        fold = np.zeros(seen.y.size, dtype=np.int64)
        fold[known] = turn_of(place) % FOLDS  # within owner and arm: every fold has all arms
        total = n_owners * n_arms
        folds = RidgeSums.zeros(FOLDS * total, 1, phi.shape[1])
        folds.add(fold[known] * total + place, phi, y[:, None], weight)
        theta = np.zeros((seen.y.size, phi.shape[1]))
        for out in range(FOLDS):
            rest = RidgeSums.zeros(total, 1, phi.shape[1])
            for other in range(FOLDS):
                if other != out:
                    part = slice(other * total, (other + 1) * total)
                    for name in ("gram", "moment", "square", "count"):
                        getattr(rest, name)[:] += getattr(folds, name)[part]
            mine = np.flatnonzero(fold == out)
            fitted = rest.solve(np.arange(total), self._penalty)[:, 0]
            theta[mine] = fitted[owner[mine] * n_arms + np.maximum(seen.arm[mine], 0)]
        found = self._adjusted(theta, n_arms, seen, propensity)
        if self.form == "aipw":
            found.weight[known] *= _effective(place, found.weight[known], total)
        return found

    def _rows(
        self, owner: Array, seen: Evidence, n_arms: int, known: Array
    ) -> tuple[Array, Array, Array, Array]:
        phi = self._phi(_context(seen)[known])
        y, weight = seen.y[known], seen.weight[known]
        if seen.scale is not None:
            y, weight = y / seen.scale[known], weight * seen.scale[known] ** 2
        return owner[known] * n_arms + seen.arm[known], phi, y, weight


def _context(seen: Evidence) -> Array:
    if seen.x is None:
        raise InvalidInput("adjustment: the evidence has no context x")
    return seen.x


def _effective(place: Array, weight: Array, total: int) -> Array:
    """Return what brings Σw of every place down to its effective rows, (Σw)²/Σw²: (N,)."""
    first = np.bincount(place, weight, total)
    second = np.bincount(place, weight**2, total)
    return np.asarray((first / np.where(second > 0, second, 1.0))[place])
