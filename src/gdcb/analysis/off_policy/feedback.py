"""A log as off-policy estimates see it: which cell ran, what it earned, how likely it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.analysis.off_policy.folds import clusters_of, whole_numbers
from gdcb.arrays import Array
from gdcb.errors import InvalidInput

_SUM = 0.02  # how far a row of probabilities may be from 1: learned kernels are integrated


@dataclass(frozen=True, slots=True)
class Feedback:
    """N rows of a log, each seen from C arm cells.

    Cells are those of `arm_cells`: the K arms, 'off every arm' and 'nothing ran', C = K + 2; or
    any other finite set of things that may happen to a row, such as arm cells by who decided.

    Parameters
    ----------
    cell : (N,) the cell that was executed, 0 to C − 1
    reward : (N,) r
    behaviour : (N, C) P(cell executed | x) in the log, proposal and gates together
    target : (N, C) P(cell executed | x) under whom one asks about, behind the gates they would face
    outcome : (N, C) E[r | cell, x], each row by a model of other rows (`outcome_model`), or None
    cluster : (N,) rows with one label are dependent (a unit, a day), or None: all are independent

    Notes
    -----
    Assumes: E[r | cell, x] is the same in the log and under the target. So the reward law is the
    same, nobody used what is not in x, and where a cell holds several actions both run them in
    the same proportion.

    Stops applying: where the target runs a cell whose behaviour is 0. There is no such row, and
    only a model, or a bound, can speak for it.

    Examples
    --------
    >>> even, first = np.full((2, 2), 0.5), np.array([[1.0, 0.0], [1.0, 0.0]])
    >>> feedback = Feedback(np.array([0, 1]), np.array([3.0, 5.0]), even, first)
    >>> feedback.n, feedback.weight.tolist()
    (2, [2.0, 0.0])
    """

    cell: Any
    reward: Any
    behaviour: Any
    target: Any
    outcome: Any = None
    cluster: Any = None

    def __post_init__(self) -> None:
        reward = _numbers("reward", self.reward)
        if reward.ndim != 1 or reward.size == 0:
            raise InvalidInput(f"reward: expected (N,) numbers, N >= 1, got shape {reward.shape}")
        target = _numbers("target", self.target)
        if target.ndim != 2 or target.shape[0] != reward.size or target.shape[1] == 0:
            raise InvalidInput(f"target: expected ({reward.size}, C) numbers, got {target.shape}")
        n, n_cells = target.shape
        cell = whole_numbers("cell", self.cell, n, n_cells)
        behaviour = _numbers("behaviour", self.behaviour)
        for name, law in (("target", target), ("behaviour", behaviour)):
            _check_law(name, law, (n, n_cells))
        ran = behaviour[np.arange(n), cell]
        if not (ran > 0).all():
            row = int(np.flatnonzero(~(ran > 0))[0])
            raise InvalidInput(
                f"behaviour: expected probabilities > 0 for what ran; row {row} ran cell "
                f"{int(cell[row])}, which has 0"
            )
        outcome = None
        if self.outcome is not None:
            outcome = _numbers("outcome", self.outcome)
            if outcome.shape != (n, n_cells):
                raise InvalidInput(f"outcome: expected {(n, n_cells)}, got {outcome.shape}")
        cluster = None if self.cluster is None else clusters_of(self.cluster, n)
        for name, value in (
            ("cell", cell),
            ("reward", reward),
            ("behaviour", behaviour),
            ("target", target),
            ("outcome", outcome),
            ("cluster", cluster),
        ):
            object.__setattr__(self, name, value)

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.reward.size)

    @property
    def n_cells(self) -> int:
        """Number of cells, C."""
        return int(self.target.shape[1])

    @property
    def weight(self) -> Array:
        """Target over behaviour of the executed cell, w: (N,)."""
        at = np.arange(self.n), self.cell
        return np.asarray(self.target[at] / self.behaviour[at])

    def take(self, index: Any) -> Feedback:
        """Return the rows at `index`."""
        parts = (self.cell, self.reward, self.behaviour, self.target, self.outcome, self.cluster)
        return Feedback(*(None if part is None else part[index] for part in parts))


def logged_behaviour(cell: Any, propensity: Any, n_cells: int, estimate: Any = None) -> Array:
    """Return the behaviour (N, C) of a log that says how likely the executed cell was.

    What is left of 1 is shared out among the other cells, as `estimate` (N, C) has them (see
    `behaviour_model`), or evenly. It matters only for what clipping may have cost.

    >>> logged_behaviour(np.array([1]), np.array([0.5]), 3).tolist()
    [[0.25, 0.5, 0.25]]
    """
    chance = _numbers("propensity", propensity)
    if chance.ndim != 1 or not ((chance > 0) & (chance <= 1)).all():
        raise InvalidInput(f"propensity: expected (N,) numbers in (0, 1], got {propensity!r}")
    n = chance.size
    ran, row = whole_numbers("cell", cell, n, n_cells), np.arange(n)
    other = np.ones((n, n_cells)) if estimate is None else _numbers("estimate", estimate)
    if other.shape != (n, n_cells) or (other < 0).any():
        raise InvalidInput(f"estimate: expected {(n, n_cells)} numbers >= 0, got {other.shape}")
    other = other.copy()
    other[row, ran] = 0.0
    total = other.sum(axis=1)
    is_short = (total <= 0) & (chance < 1)
    if is_short.any():
        raise InvalidInput(
            f"estimate: row {int(np.flatnonzero(is_short)[0])} has no other cell for what is left"
        )
    other *= ((1.0 - chance) / np.where(total > 0, total, 1.0))[:, None]
    other[row, ran] = chance
    return other


def _numbers(name: str, values: Any) -> Array:
    try:
        found = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name}: expected numbers, got {type(values).__name__}") from error
    if not np.isfinite(found).all():
        raise InvalidInput(f"{name}: expected finite numbers; leave out rows without an outcome")
    return found


def _check_law(name: str, law: Array, shape: tuple[int, int]) -> None:
    if law.shape != shape:
        raise InvalidInput(f"{name}: expected {shape} numbers, got {law.shape}")
    low, total = float(law.min()), law.sum(axis=1)
    if low < 0:
        raise InvalidInput(f"{name}: expected probabilities >= 0, got {low:g}")
    off = np.abs(total - 1.0)
    if off.max() > _SUM:
        row = int(off.argmax())
        raise InvalidInput(
            f"{name}: expected rows that sum to 1, row {row} sums to {float(total[row]):g}"
        )
