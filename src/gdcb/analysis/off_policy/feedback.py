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
    behaviour : (N, C) P(cell executed | x) in the log, proposal and gates together; NaN in all
        cells that did not run where the log says no more than how likely what ran was
        (`logged_behaviour`)
    target : (N, C) P(cell executed | x) under whom one asks about, behind the gates they would face
    outcome : (N, C) E[r | cell, x], each row by a model of other rows (`outcome_model`), or None
    cluster : (N,) rows with one label are dependent (a unit, a day), or None: all are independent

    Notes
    -----
    Assumes: E[r | cell, x] is the same in the log and under the target. So the reward law is the
    same, nobody used what is not in x, and where a cell holds several actions both run them in
    the same proportion.

    Stops applying: where the target runs a cell whose behaviour is 0. There is no such row, and
    only a model, or a bound, can speak for it. A behaviour must be that of the context, whichever
    cell ran: numbers that were filled in by what ran make limits that are wrong. So what is not
    known is NaN.

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
        behaviour = _numbers("behaviour", self.behaviour, may_be_unknown=True)
        _check_law("target", target, (n, n_cells))
        if behaviour.shape == (n, n_cells) and np.isnan(behaviour).any():
            behaviour = _check_partial(behaviour, cell)
        else:
            _check_law("behaviour", behaviour, (n, n_cells))
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
    def is_partial(self) -> bool:
        """Whether of the behaviour only the probability of what ran is known."""
        return bool(np.isnan(self.behaviour).any())

    @property
    def weight(self) -> Array:
        """Target over behaviour of the executed cell, w: (N,)."""
        at = np.arange(self.n), self.cell
        return np.asarray(self.target[at] / self.behaviour[at])

    def take(self, index: Any) -> Feedback:
        """Return the rows at `index`."""
        parts = (self.cell, self.reward, self.behaviour, self.target, self.outcome, self.cluster)
        return Feedback(*(None if part is None else part[index] for part in parts))


def logged_behaviour(cell: Any, propensity: Any, n_cells: int) -> Array:
    """Return the behaviour (N, C) of a log that says how likely the executed cell was, no more.

    The other cells are NaN: not known. Estimates need none of them; what clipping has cost, and
    limits that hold at every size, are then worked out of the weights alone.

    >>> logged_behaviour(np.array([1]), np.array([0.5]), 3).tolist()
    [[nan, 0.5, nan]]
    """
    chance = _numbers("propensity", propensity)
    if chance.ndim != 1 or not ((chance > 0) & (chance <= 1)).all():
        raise InvalidInput(f"propensity: expected (N,) numbers in (0, 1], got {propensity!r}")
    ran = whole_numbers("cell", cell, chance.size, n_cells)
    found = np.full((chance.size, n_cells), np.nan)
    found[np.arange(chance.size), ran] = chance
    return found


def _numbers(name: str, values: Any, may_be_unknown: bool = False) -> Array:
    try:
        found = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name}: expected numbers, got {type(values).__name__}") from error
    is_fine = np.isfinite(found) | (np.isnan(found) if may_be_unknown else False)
    if not is_fine.all():
        raise InvalidInput(f"{name}: expected finite numbers; leave out rows without an outcome")
    return found


def _check_partial(behaviour: Array, cell: Array) -> Array:
    """Return a behaviour of which only what ran is known; refuse one that is known in part."""
    is_known, rows = ~np.isnan(behaviour), np.arange(cell.size)
    ran = behaviour[rows, cell]
    if not is_known[rows, cell].all() or (ran > 1).any():
        raise InvalidInput("behaviour: expected probabilities in (0, 1] of what ran")
    if is_known.sum() != cell.size:
        row = int(np.flatnonzero(is_known.sum(axis=1) != 1)[0])
        raise InvalidInput(
            "behaviour: expected the probability of every cell, or of what ran and NaN elsewhere; "
            f"row {row} has {int(is_known[row].sum())} of {behaviour.shape[1]}"
        )
    return behaviour


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
