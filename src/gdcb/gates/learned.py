"""What is learned of a person: a table for categories, a regression for numbers.

Both start from trust: a person nobody has watched is taken to approve. Statistics are sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.arrays import Array, count, is_all, is_any, place_among, scatter_add
from gdcb.errors import InvalidInput
from gdcb.gates.base import Value, nothing
from gdcb.gates.jumps import expect_normal, pieces_of
from gdcb.parts import Column, check_number, check_settings, check_size, column, product_of
from gdcb.records import EXPIRED, MODIFIED, PASSED, VETOED, Rows
from gdcb.regression import RidgeSums, with_intercept

# How far a proposal lies from the person's expected own number, in their standard deviations.
_EDGES = (-3.0, -1.5, -0.5, 0.5, 1.5, 3.0)
_BANDS = len(_EDGES) + 1
# Columns of the counts by status: approved, changed, vetoed; others say nothing.
_ANSWERS = np.full(256, -1)
_ANSWERS[[PASSED, MODIFIED, VETOED, EXPIRED]] = 0, 1, 2, 2
# Gauss-Hermite with three nodes: exact for values that are cubic in the person's number.
_NODES = np.array([-(3.0**0.5), 0.0, 3.0**0.5])
_WEIGHTS = np.array([1.0, 4.0, 1.0]) / 6.0


@dataclass(slots=True)
class CategoryState:
    """Counts (owners, bands, C, C+1): entered category × what left; the last column is a veto."""

    counts: Array


@dataclass(frozen=True)
class CategoryKernel:
    """P(left | entered) as a Dirichlet table an owner, and a band of another action column.

    (K̂v)(e) = Σ_l P̂(l | e)·v(l) over the C categories and the veto, P̂ = counts / their sum. Prior:
    `trust` pseudo-counts on 'left as entered', one spread over everything else.

    Parameters
    ----------
    n_categories : C, levels of the category
    trust : pseudo-counts on 'left as entered'
    edges, banded : where given, a table a band of the action column `banded` (the severity)
    action : action column that holds the category

    Notes
    -----
    Assumes: given the category and its band, context tells nothing more of the verdict.

    Stops applying: a table has C·(C + 1) rates a band; with many categories most are the prior's
    for long. Other columns of the action are taken to stay as proposed.

    Examples
    --------
    Two categories, trust 3, nothing seen: as entered 3, the other ½, a veto ½, so ¾, ⅛ and ⅛. If
    only the first category is worth 1, proposing it is worth ¾, and the second ⅛.

    >>> kernel = CategoryKernel(n_categories=2, trust=3.0)
    >>> zero, rows = np.zeros(1, int), Rows(np.zeros(1, int), np.zeros(1, int), np.zeros((1, 1)))
    >>> both = np.array([[[0.0], [1.0]]])
    >>> kernel.expect(
    ...     kernel.init(1, 1), zero, lambda e: 1.0 * (e[..., 0] == 0), both, rows
    ... ).tolist()
    [[0.75, 0.125]]
    """

    n_categories: int = 2
    trust: float = 3.0
    edges: tuple[float, ...] = ()
    banded: int = 1
    action: int = 0

    def __post_init__(self) -> None:
        check_settings(self, "kernel")
        check_number("kernel.n_categories", self.n_categories, 2)
        check_number("kernel.trust", self.trust, 0.0, open_low=True)
        if list(self.edges) != sorted(set(self.edges)):
            raise InvalidInput(f"kernel.edges: expected rising numbers, got {self.edges}")
        c, bands = self.n_categories, len(self.edges) + 1
        check_size("kernel", "categories × categories and a veto × bands", c, c + 1, bands)

    def check(self, columns: Sequence[Any]) -> None:
        """Refuse actions without this category, or with other levels."""
        n = len(columns)
        if self.action >= n or (self.edges and self.banded >= n):
            raise InvalidInput(f"kernel: the action has only {n} columns")
        levels = columns[self.action].levels
        if not levels:
            raise InvalidInput(
                f"kernel: '{columns[self.action].name}' is a number; use NumberKernel"
            )
        if len(levels) != self.n_categories:
            raise InvalidInput(
                f"kernel.n_categories: expected {len(levels)}, the levels of "
                f"'{columns[self.action].name}', got {self.n_categories}"
            )

    def init(self, n_owners: int, n_columns: int) -> CategoryState:
        """Return the prior table."""
        c = self.n_categories
        prior = np.full((c, c + 1), 1.0 / c)
        prior[np.arange(c), np.arange(c)] = self.trust
        return CategoryState(np.tile(prior, (n_owners, len(self.edges) + 1, 1, 1)))

    def _index(self, owner: Array, e: Array) -> tuple[Array, Array, Array]:
        """Return owner, band and entered category of actions (..., D)."""
        band = np.zeros(e.shape[:-1], dtype=np.int64)
        if self.edges:
            band = np.searchsorted(self.edges, e[..., self.banded])
        kind = e[..., self.action].astype(np.int64)
        return np.broadcast_to(owner.reshape(-1, *(1,) * (kind.ndim - 1)), kind.shape), band, kind

    def expect(
        self, state: CategoryState, owner: Array, value: Value, e: Array, rows: Rows
    ) -> Array:
        """Return Σ P(left | entered)·v(left) with the table's mean; other columns stay."""
        n, m, c = rows.n, e.shape[1], self.n_categories
        counts = state.counts[self._index(owner, e)]
        table = counts / counts.sum(axis=-1, keepdims=True)
        others = np.repeat(e, c, axis=1)
        others[..., self.action] = np.tile(np.arange(c), m)
        worth = np.empty((n, m, c + 1))
        worth[..., :c] = value(others).reshape(n, m, c)
        worth[..., c] = value(nothing(e))
        return np.asarray((table * worth).sum(axis=-1))

    def learn(
        self,
        state: CategoryState,
        owner: Array,
        rows: Rows,
        entered: Array,
        left: Array,
        status: Array,
    ) -> None:
        """Count what entered and what left; an expired hold is a veto."""
        c = self.n_categories
        out = np.where(np.isfinite(left[:, self.action]), left[:, self.action], c).astype(np.int64)
        who, band, kind = self._index(owner, entered)
        if ((kind < 0) | (kind >= c) | (out < 0) | (out > c)).any():
            raise InvalidInput(f"kernel: expected categories 0 to {c - 1}, got {kind} and {out}")
        seen = np.isin(status, (PASSED, MODIFIED, VETOED, EXPIRED))
        flat = ((who * (len(self.edges) + 1) + band) * c + kind) * (c + 1) + out
        scatter_add(state.counts.reshape(-1), flat[seen], np.ones(int(seen.sum())))


@dataclass(slots=True)
class NumberState:
    """Regression of the person's own number, and approvals by distance from it.

    Parameters
    ----------
    sums : regression sums of the overrides
    theta, spread : (owners, D, d), (owners, D) its fit and residual standard deviation
    counts : (owners, bands+1, 3) approved, changed, vetoed; the last band: own number unknown
    rates : (owners, bands+1, 3) the rates that the counts imply
    fitted : (owners,) overrides behind the fit in force
    """

    sums: RidgeSums
    theta: Array
    spread: Array
    counts: Array
    rates: Array
    fitted: Array


@dataclass(frozen=True)
class NumberKernel:
    """A person with a number of their own in mind, who approves more or less near it.

    e_own ~ N(base(x)·θᵀφ(x), s²), φ(x) = (1, features), θ by ridge regression of the overrides.
    Approved, changed and vetoed have rates (n_b + shrink·r) / Σ in each band b of the proposal's
    distance from the expected own number, in standard deviations; r = (n + (trust, 0, 0)) / Σ are
    the overall rates. Where approval depends on neither number nor context the table is flat,
    and selection is the same as without it.

    Parameters
    ----------
    features : context columns that the own number depends on
    base : context columns whose product the own number is relative to; none: 1
    penalty : λ of the ridge regression; the intercept is not penalised
    trust : approvals that the overall rate starts with
    shrink : pseudo-rows that pull a band's rates to the overall ones
    refit : share by which overrides must have grown before the own number is fitted anew; 0: with
        every one

    Notes
    -----
    Assumes: a normal own number given x, the same for every proposal.

    Stops applying: a person who anchors on the proposal is outside it: their own number moves with
    what they are shown. E v(e_own) is exact for a v that is cubic in the number; with several
    columns the own action is taken at its mean, without spread. Both are for decisions: a v that
    jumps, such as the indicator of a cell, is integrated finely (`gdcb.gates.jumps`).

    Examples
    --------
    Trust 4 and one veto: overall rates (4, 0, 1)/5. While the own number is unknown, all proposals
    share a band: ((0, 0, 1) + 8·(0.8, 0, 0.2)) / 9, so a proposal worth 1 runs with 6.4/9.

    >>> kernel, zero = NumberKernel(), np.zeros(1, int)
    >>> state, rows = kernel.init(1, 1), Rows(zero, zero, np.zeros((1, 1)))
    >>> entered, left = np.array([[120.0]]), np.array([[np.nan]])
    >>> kernel.learn(state, zero, rows, entered, left, np.array([VETOED]))
    >>> worth = kernel.expect(
    ...     state, zero, lambda e: 1.0 * np.isfinite(e[..., 0]), entered[None], rows
    ... )
    >>> worth.round(4).tolist()
    [[0.7111]]
    """

    features: tuple[Column, ...] = column(())
    base: tuple[Column, ...] = column((), numeric=True)
    penalty: float = 1.0
    trust: float = 4.0
    shrink: float = 8.0
    refit: float = 0.0

    def __post_init__(self) -> None:
        check_settings(self, "kernel")
        for name in ("penalty", "trust", "shrink"):
            check_number(f"kernel.{name}", getattr(self, name), 0.0, open_low=True)
        check_number("kernel.refit", self.refit, 0.0)

    def check(self, columns: Sequence[Any]) -> None:
        """Refuse actions with categories: they have no mean."""
        named = [column.name for column in columns if column.levels]
        if named:
            raise InvalidInput(f"kernel: {', '.join(named)} is a category; use CategoryKernel")

    def init(self, n_owners: int, n_columns: int) -> NumberState:
        """Return trust and no own number."""
        d = 1 + len(self.features)
        check_size("kernel", "action columns × features, squared", n_columns, d, d)
        counts = np.zeros((n_owners, _BANDS + 1, 3))
        return NumberState(
            RidgeSums.zeros(n_owners, n_columns, d),
            np.zeros((n_owners, n_columns, d)),
            np.zeros((n_owners, n_columns)),
            counts,
            self._rates(counts),
            np.zeros(n_owners),
        )

    def _own(self, state: NumberState, owner: Array, rows: Rows) -> tuple[Array, Array, Array]:
        """Return the expected own number (N, D), its spread (N, D), and whether it is known."""
        phi = with_intercept(rows.x, self.features)
        own = (state.theta.take(owner, axis=0) @ phi[:, :, None])[..., 0]
        spread = state.spread.take(owner, axis=0)
        base = self._base(rows)
        return own * base, spread * base, state.sums.count[owner, 0] > 0

    def _base(self, rows: Rows) -> Array | float:
        return product_of(rows.x, self.base)[:, None] if self.base else 1.0

    def _band(self, e: Array, own: Array, spread: Array, known: Array) -> Array:
        """Return the distance band of actions (N, M, D): (N, M)."""
        size = np.maximum(spread, 1e-9 + 1e-3 * np.abs(own))[:, None]
        z = (e - own[:, None]) / size
        if z.shape[-1] > 1:
            furthest = np.abs(z).argmax(axis=-1)[..., None]
            z = np.take_along_axis(z, furthest, axis=-1)
        band = place_among(_EDGES, z[..., 0])
        return band if is_all(known) else np.where(known[:, None], band, _BANDS)

    def _rates(self, counts: Array) -> Array:
        """Return the rates of approval, change and veto by band: (N, bands+1, 3)."""
        overall = counts.sum(axis=1)
        overall[:, 0] += self.trust
        overall /= overall.sum(axis=1, keepdims=True)
        shrunk = counts + self.shrink * overall[:, None, :]
        return np.asarray(shrunk / shrunk.sum(axis=-1, keepdims=True))

    def expect(self, state: NumberState, owner: Array, value: Value, e: Array, rows: Rows) -> Array:
        """Return approved·v(e) + changed·E v(own) + vetoed·v(null) with the estimated rates."""
        own, spread, known = self._own(state, owner, rows)
        band = self._band(e, own, spread, known)
        place = owner[:, None] * state.rates.shape[1] + band
        rates = state.rates.reshape(-1, 3)
        approved, edited = rates[:, 0].take(place), rates[:, 1].take(place)
        proposal, pieces = value(e), pieces_of(value)
        if pieces:
            other = expect_normal(value, own, spread, pieces)
        elif own.shape[-1] == 1:
            nodes = own[:, None] + _NODES[:, None] * spread[:, None]
            other = (value(nodes) * _WEIGHTS).sum(axis=1)
        else:
            other = value(own[:, None])[:, 0]
        changed = other[:, None]
        if not is_all(known):
            changed = np.where(known[:, None], changed, proposal)
        kept = approved * proposal + edited * changed
        if not is_any(rates[:, 2] > 0):
            return np.asarray(kept)
        return np.asarray(kept + rates[:, 2].take(place) * value(nothing(e)))

    def learn(
        self,
        state: NumberState,
        owner: Array,
        rows: Rows,
        entered: Array,
        left: Array,
        status: Array,
    ) -> None:
        """Count the verdict at its distance, then let overrides move the own number.

        An expired hold counts as a veto.
        """
        own, spread, known = self._own(state, owner, rows)
        band = self._band(entered[:, None], own, spread, known)[:, 0]
        answer = _ANSWERS[status]
        seen = answer >= 0
        n_bands = state.counts.shape[1]
        flat = (owner * n_bands + band) * 3 + answer
        scatter_add(state.counts.reshape(-1), flat[seen], np.ones(count(seen)))
        judged = np.flatnonzero(np.bincount(owner[seen]))
        state.rates[judged] = self._rates(state.counts[judged])
        changed = status == MODIFIED
        if not changed.any():
            return
        some, owners = rows.take(changed), owner[changed]
        phi = with_intercept(some.x, self.features)
        state.sums.add(owners, phi, left[changed] / self._base(some), np.ones(owners.size))
        touched = np.flatnonzero(np.bincount(owners))
        overrides = state.sums.count[touched, 0]
        is_due = overrides >= (1.0 + self.refit) * state.fitted[touched]
        touched = touched[is_due]
        if touched.size == 0:
            return
        state.fitted[touched] = overrides[is_due]
        penalty = np.full(phi.shape[1], self.penalty)
        penalty[0] = 1e-6  # an own number far from zero must not be shrunk to it
        theta = state.sums.solve(touched, penalty)
        state.theta[touched] = theta
        state.spread[touched] = np.sqrt(state.sums.variance(touched, theta))
