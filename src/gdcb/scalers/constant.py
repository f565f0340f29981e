"""A scaler that never moves: the plain bandit, and the ablation without a scaler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gdcb.arrays import Array, full, on_host, repeated, rows_at
from gdcb.parts import check_number, check_settings, check_size


@dataclass(slots=True)
class ConstantState:
    """One zero per owner: the version, which never changes."""

    versions: Array


@dataclass(frozen=True)
class ConstantScaler:
    """δ(x) = value: 1 leaves a product as it is, 0 a sum.

    Parameters
    ----------
    value : the constant
    per : 'unit' or 'group'; nothing depends on it
    n_arms, n_columns : shape of δ

    Notes
    -----
    Assumes: context says nothing that the composition could use.

    Stops applying: where it does, arms are compared across contexts that differ, and the regret
    against an oracle that reads the context grows linearly.

    Examples
    --------
    >>> import numpy as np
    >>> scaler = ConstantScaler(1.0)
    >>> scaler.predict(scaler.init(1), np.zeros(2, dtype=int), np.zeros((2, 3))).shape
    (2, 1, 1)
    """

    value: float = 1.0
    per: str = "group"
    n_arms: int = 1
    n_columns: int = 1
    learns_from: ClassVar[str] = "nothing"
    supports: ClassVar[frozenset[str]] = frozenset()
    on_device: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self, "scaler")
        check_number("scaler.value", self.value)
        check_size("scaler", "arms × columns", self.n_arms, self.n_columns, most=100_000)

    @property
    def is_positive(self) -> bool:
        """Whether the constant is."""
        return self.value > 0

    @property
    def n_labels(self) -> int:
        """It learns nothing."""
        return 0

    def init(self, n_owners: int) -> ConstantState:
        """Return version 0 for every owner."""
        return ConstantState(np.zeros(n_owners, dtype=np.int64))

    def predict(self, state: ConstantState, owner: Array, x: Array) -> Array:
        """Return the constant."""
        if on_host(x):
            return full((x.shape[0], self.n_arms, self.n_columns), self.value, x)
        return repeated(full((1, self.n_arms, self.n_columns), self.value, x), x.shape[0])

    def version(self, state: ConstantState, owner: Array) -> Array:
        """Return 0."""
        return rows_at(state.versions, owner)

    def uncertainty(self, state: ConstantState, owner: Array, x: Array) -> Array:
        """Return 0: nothing is estimated."""
        return 0.0 * self.predict(state, owner, x)

    def observe(
        self,
        state: ConstantState,
        owner: Array,
        x: Array,
        action: Array,
        label: Array,
        weight: Array,
    ) -> None:
        """Learn nothing."""

    def due(self, state: ConstantState) -> Array:
        """Return no owner."""
        return state.versions[:0]

    def publish(self, state: ConstantState, owners: Array) -> Array:
        """Change nothing."""
        return state.versions[:0]
