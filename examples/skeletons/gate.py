"""A gate to copy: no step further from the last setting than a share of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gdcb.arrays import Array
from gdcb.gates.base import HardGate, require_number
from gdcb.parts import Column, check_number, column, take
from gdcb.records import Rows


# A known function is a `HardGate`: give it `project` and `reason`, and both faces of a gate
# follow, `apply` (what becomes of this proposal) and `expect` (what a proposal is worth behind the
# gate, which the bandit asks before it picks an arm). Where chance or a person decides, implement
# the whole `Gate` protocol, and `expect` must be the average of `apply`; see `gates/simulated.py`.
@dataclass(frozen=True)
class StepLimit(HardGate):
    """Keep one action column within a share of the last setting, by projection.

    g(e, x) = min(max(e, (1 − s)·last), (1 + s)·last), s the share. Where the last setting is not
    above 0 nothing is allowed.

    Parameters
    ----------
    last : context column with the setting in force
    share : s, the largest relative step
    action : action column that is limited

    Notes
    -----
    Assumes: the context column is the setting in force, not an older one.

    Stops applying: it limits one step. A drift of many steps in one direction passes; put bounds
    behind it.

    Examples
    --------
    Last price 100, at most a tenth of it a step: 150 becomes 110, 95 passes.

    >>> gate = StepLimit(last=0, share=0.1)
    >>> rows = Rows(np.zeros(1, int), np.zeros(1, int), np.array([[100.0]]))
    >>> gate.project(np.array([[[150.0], [95.0]]]), rows).ravel().round(9).tolist()
    [110.0, 95.0]
    """

    last: Column = column("last")
    share: float = 0.1
    action: int = 0
    name: str = "step limit"
    # Written into every verdict: raise it whenever the rule changes.
    version: str = "1"
    # True because minimum and maximum leave NaN alone; a shorter way is then taken.
    keeps_nan: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number(f"gate '{self.name}': share", self.share, 0.0)

    # An instance asks this when it is built: what cannot work is refused there.
    def check(self, columns: Sequence[Any]) -> None:
        """Refuse actions without such a number."""
        super().check(columns)
        require_number(columns, self.action, self.name)

    def _limits(self, rows: Rows) -> tuple[Array, Array]:
        last = take(rows.x, self.last)[:, None]
        last = np.where(last > 0, last, np.nan)
        return (1.0 - self.share) * last, (1.0 + self.share) * last

    # `e` is (N, M, D) and read-only: M actions in each of N rows. NaN vetoes.
    def project(self, e: Array, rows: Rows) -> Array:
        """Return the nearest action within the step, NaN where none is allowed."""
        low, high = self._limits(rows)
        left = e.copy()
        left[..., self.action] = np.minimum(np.maximum(e[..., self.action], low), high)
        return left

    # People read this: name the number and the limit.
    def reason(self, entered: Array, left: Array, row: Rows) -> str:
        """Name the step and the limit."""
        low, high = (float(limit[0, 0]) for limit in self._limits(row))
        value = float(entered[self.action])
        if not low <= high:
            return "the last setting is not above 0, so no step is allowed"
        if low <= value <= high:
            return f"{value:g} lies within {low:g} and {high:g}"
        return f"{value:g} is more than {self.share:.0%} from the last setting"
