"""What a gate promises of its kernel where it says more of it: reach and contraction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gdcb.arrays import Array
from gdcb.checks.base import require, require_shape
from gdcb.checks.gates.case import GateCase
from gdcb.records import MODIFIED, Rows

_TIMES = 50  # goes through `apply` that look for what may leave


@dataclass(slots=True)
class _Is:
    """1 for one action (N, D) a row and 0 for every other; NaN stands for nothing."""

    point: Array

    def take(self, index: Array) -> _Is:
        return _Is(self.point[index])

    def __call__(self, e: Array) -> Array:
        point = self.point[:, None]
        same: Array = np.asarray(((e == point) | (np.isnan(e) & np.isnan(point))).all(axis=-1))
        return same.astype(float)


@dataclass(slots=True)
class _Below:
    """1 where the first column lies below a number (N,) a row, 0 elsewhere."""

    limit: Array

    def take(self, index: Array) -> _Below:
        return _Below(self.limit[index])

    def __call__(self, e: Array) -> Array:
        return np.asarray(e[..., 0] < self.limit[:, None], dtype=float)


def what_leaves_was_within_reach(case: GateCase) -> None:
    """Where it says what it may let through (`reach`), nothing else ever leaves."""
    rows, e = case.rows(40), case.actions(40, 1)
    reach = _reach(case, e, rows)
    if reach is None:
        return
    left, status = case.apply(e[:, 0], rows)
    runs = status <= MODIFIED
    known: Array = np.asarray((reach == left[:, None]).all(axis=-1).any(axis=1))
    require(known[runs].all(), "an action left that `reach` does not know")


def contraction_bounds_what_proposals_change(case: GateCase) -> None:
    """Where it knows η(x), from 0 to 1, no two proposals' kernels differ by more, to 1e-9.

    TV(K(· | e₁), K(· | e₂)) is no less than what the operator shows of it: half the sum of
    |K{e′ | e₁} − K{e′ | e₂}| over single actions e′ that may leave (`reach`, or what left in 50
    goes where it names none), and |K(e′ < c | e₁) − K(e′ < c | e₂)| for any c.
    """
    contraction = getattr(case.gate, "contraction", None)
    if contraction is None:
        return
    rows, e = case.rows(12), case.actions(12, 4)
    eta = contraction(e, rows)
    require_shape(eta, (12,), "contraction")
    require(((eta >= 0) & (eta <= 1)).all(), f"expected numbers from 0 to 1, got {eta}")
    shown = _total_variation(case, e, rows, _images(case, e, rows))
    worst = int((shown - eta).argmax())
    text = f"two proposals' kernels differ by {shown[worst]:.3g}, and η is {eta[worst]:.3g}"
    require(shown[worst] <= eta[worst] + 1e-9, text)


def _images(case: GateCase, e: Array, rows: Rows) -> Array:
    """Return what may leave where e (N, M, D) enters, nothing included: (N, R, D)."""
    n, m, d = e.shape
    images = _reach(case, e, rows)
    if images is None:
        many = np.repeat(np.arange(n), m * _TIMES)
        left, _ = case.apply(np.repeat(e, _TIMES, axis=1).reshape(-1, d), rows.take(many))
        images = np.concatenate((e, left.reshape(n, -1, d)), axis=1)
    return np.concatenate((images, np.full((n, 1, d), np.nan)), axis=1)


def _total_variation(case: GateCase, e: Array, rows: Rows, images: Array) -> Array:
    """Return a lower bound of the largest total variation between two proposals' kernels: (N,)."""
    (n, m, _), pair = e.shape, np.triu_indices(e.shape[1], 1)
    apart, most = np.zeros((n, pair[0].size)), np.zeros((n, pair[0].size))
    mass = np.zeros((n, m))
    for r in range(images.shape[1]):
        point = images[:, r]
        earlier = images[:, :r]
        both = np.isnan(earlier) & np.isnan(point[:, None])
        is_new = ~((earlier == point[:, None]) | both).all(axis=-1).any(axis=1)
        chance = case.gate.expect(_Is(point), e, rows) * is_new[:, None]
        mass += chance
        apart += np.abs(chance[:, pair[0]] - chance[:, pair[1]])
        below = case.gate.expect(_Below(point[:, 0]), e, rows)
        most = np.maximum(most, np.abs(below[:, pair[0]] - below[:, pair[1]]))
    rest = np.abs(mass[:, pair[0]] - mass[:, pair[1]])
    return np.asarray(np.maximum((apart + rest) / 2, most).max(axis=1))


def _reach(case: GateCase, e: Array, rows: Rows) -> Array | None:
    """Return what a gate may let through, where it says so: (N, R, D)."""
    reach = getattr(case.gate, "reach", None)
    found: Array | None = None if reach is None else reach(e, rows)
    return found
