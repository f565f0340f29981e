"""A scaler to copy: a table of mean labels by band of one context column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gdcb.arrays import Array, scatter_add
from gdcb.errors import InvalidInput
from gdcb.parts import Column, check_choice, check_number, column, take


# What accumulates and what is in force are kept apart: δ changes only when it is published,
# because every publication makes the bandit refold its arms.
@dataclass(slots=True)
class BandState:
    """Sums of every owner and band, and the table in force.

    Parameters
    ----------
    weight, total : (owners, bands) Σ w and Σ w·label
    table : (owners, bands) published log δ
    versions, since : (owners,) publications so far, labelled rows since the last one
    """

    weight: Array
    total: Array
    table: Array
    versions: Array
    since: Array


@dataclass(frozen=True)
class BandScaler:
    """δ(x) = exp(mean label of x's band), shrunk towards 1 where the band has few rows.

    log δ̂_b = Σ w·label / (Σ w + penalty) over the rows of band b: the posterior mean under a normal
    prior around 0 whose weight is `penalty` rows. Labels are log δ as it was seen.

    Parameters
    ----------
    feature : context column that is cut into bands
    edges : where it is cut, rising: n edges make n + 1 bands
    penalty : rows that the prior is worth
    every : labelled rows an owner sees between publications
    per : 'unit' or 'group', who owns a table

    Notes
    -----
    Assumes: δ is the same throughout a band, and labels are missing at random within it.

    Stops applying: between two bands δ jumps, and an action beside the edge is located among
    other arms than its neighbour. δ is not normalised: its level and the arms' are one number.

    Examples
    --------
    Two labels of 1.2 in the upper band, penalty 1: log δ = 2.4/3 = 0.8 there, and 0 below.

    >>> scaler = BandScaler(feature=0, edges=(0.5,))
    >>> state, x = scaler.init(1), np.array([[0.7], [0.9]])
    >>> zero, label = np.zeros(2, dtype=int), np.full((2, 1), 1.2)
    >>> scaler.observe(state, zero, x, np.ones((2, 1)), label, np.ones(2))
    >>> scaler.publish(state, np.array([0])).tolist(), state.table.round(9).tolist()
    ([0], [[0.0, 0.8]])
    """

    # `column` marks a context column by name; an instance puts its position in.
    feature: Column = column("feature")
    edges: tuple[float, ...] = (0.8, 1.2)
    penalty: float = 1.0
    every: int = 50
    per: str = "group"
    # What an instance must know of it: the axes of δ, its labels, its sign.
    n_arms: ClassVar[int] = 1
    n_columns: ClassVar[int] = 1
    n_labels: ClassVar[int] = 1
    is_positive: ClassVar[bool] = True
    learns_from: ClassVar[str] = "label"
    supports: ClassVar[frozenset[str]] = frozenset({"merge"})

    def __post_init__(self) -> None:
        if not self.edges or list(self.edges) != sorted(set(self.edges)):
            raise InvalidInput(f"scaler.edges: expected rising numbers, got {self.edges}")
        check_number("scaler.penalty", self.penalty, 0.0, open_low=True)
        check_number("scaler.every", self.every, 1)
        check_choice("scaler.per", self.per, ("unit", "group"))

    def init(self, n_owners: int) -> BandState:
        """Return no rows and log δ = 0: neutral."""
        shape = (n_owners, len(self.edges) + 1)
        none = np.zeros(n_owners, dtype=np.int64)
        return BandState(np.zeros(shape), np.zeros(shape), np.zeros(shape), none, none.copy())

    def _band(self, x: Array) -> Array:
        return np.searchsorted(self.edges, take(x, self.feature))

    # Only the published table is read: rows that came since do not show.
    def predict(self, state: BandState, owner: Array, x: Array) -> Array:
        """Return the δ in force: (N, 1, 1)."""
        return np.exp(state.table[owner, self._band(x)])[:, None, None]

    def version(self, state: BandState, owner: Array) -> Array:
        """Return how often the owner was published."""
        return state.versions[owner]

    def uncertainty(self, state: BandState, owner: Array, x: Array) -> Array:
        """Return the standard error of log δ for labels of unit variance: (N, 1, 1)."""
        weight = state.weight[owner, self._band(x)]
        return np.asarray(1.0 / np.sqrt(weight + self.penalty))[:, None, None]

    def observe(
        self, state: BandState, owner: Array, x: Array, action: Array, label: Array, weight: Array
    ) -> None:
        """Add labels (N, 1) to their bands; NaN: not seen."""
        if label.shape != (x.shape[0], 1):
            raise InvalidInput(f"label: expected shape {(x.shape[0], 1)}, got {label.shape}")
        seen = np.isfinite(label[:, 0])
        flat = (owner * state.weight.shape[1] + self._band(x))[seen]
        scatter_add(state.weight.reshape(-1), flat, weight[seen])
        scatter_add(state.total.reshape(-1), flat, weight[seen] * label[seen, 0])
        scatter_add(state.since, owner, seen.astype(np.int64))

    def due(self, state: BandState) -> Array:
        """Return the owners that saw `every` labels since their last publication."""
        return np.flatnonzero(state.since >= self.every)

    def publish(self, state: BandState, owners: Array) -> Array:
        """Put the means in force; return the owners whose δ changed."""
        state.since[owners] = 0
        table = state.total[owners] / (state.weight[owners] + self.penalty)
        changed = owners[(table != state.table[owners]).any(axis=1)]
        state.table[owners] = table
        state.versions[changed] += 1
        return np.asarray(changed)

    def merge(self, state: BandState, other: BandState) -> None:
        """Add another state's rows; what is in force stays."""
        if state.weight.shape != other.weight.shape:
            raise InvalidInput(
                f"merge: expected a state of shape {state.weight.shape}, got {other.weight.shape}"
            )
        state.weight += other.weight
        state.total += other.total
        state.since += other.since
