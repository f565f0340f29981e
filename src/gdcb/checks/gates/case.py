"""A gate on trial: the contexts, actions and verdicts it is tried with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.checks.ground import Ground, stream
from gdcb.composition import ActionColumn
from gdcb.errors import InvalidInput
from gdcb.gates import Approval
from gdcb.records import MODIFIED, PASSED, VETOED, Rows

# Numbers of every size, so that whatever limit a gate has, some lie on either side of it.
_NUMBERS = np.array([-5.0, 0.0, 0.4, 0.8, 1.0, 1.3, 3.0, 20.0, 120.0, 400.0, 1e4])
NULL = -0.7  # what nothing is worth to the value function that gates are tried with
_NAMES = ("a", "b", "c")
ACTIONS = (
    (ActionColumn("number"),),
    (ActionColumn("number"), ActionColumn("second")),
    (ActionColumn("choice", _NAMES[:2]),),
    (ActionColumn("choice", _NAMES),),
    (ActionColumn("choice", _NAMES[:2]), ActionColumn("score")),
    (ActionColumn("choice", _NAMES), ActionColumn("score")),
)


@dataclass(slots=True)
class Worth:
    """A curved value function of N rows; nothing is worth a number of its own."""

    size: Array

    def take(self, index: Array) -> Worth:
        """Return it for some rows."""
        return Worth(self.size[index])

    def __call__(self, e: Array) -> Array:
        """Value actions (N, M, D): (N, M)."""
        value = np.tanh(e / self.size[:, None, None]).sum(axis=-1) + 0.3 * np.cos(e[..., 0])
        return np.where(np.isfinite(e).all(axis=-1), value, NULL)


@dataclass(frozen=True, eq=False)
class GateCase:
    """A gate, the contexts it is tried on, and the columns of actions that it can judge."""

    gate: Any
    ground: Ground
    columns: tuple[ActionColumn, ...]

    def rows(self, n: int) -> Rows:
        """Return n rows, each of a unit of its own, two units a group."""
        return self.ground.rows(n, seed=2)

    def actions(self, n: int, m: int, seed: int = 3) -> Array:
        """Return actions (n, m, D) of every size and level, read-only."""
        rng = np.random.default_rng(seed)
        e = np.empty((n, m, len(self.columns)))
        for j, column in enumerate(self.columns):
            if column.levels:
                e[..., j] = rng.integers(len(column.levels), size=(n, m))
            else:
                e[..., j] = rng.choice(_NUMBERS, size=(n, m)) * (0.9 + 0.2 * rng.random((n, m)))
        e.flags.writeable = False
        return e

    def worth(self, rows: Rows) -> Worth:
        """Return a value function of the rows."""
        return Worth(2.0 + np.arange(rows.n) % 3)

    def apply(self, e: Array, rows: Rows) -> tuple[Array, Array]:
        """Send proposals (N, D) through the gate."""
        left, status = self.gate.apply(self.gate.draw(stream(), rows.n), e, rows)
        return left, status

    def watched(self, n: int = 40, seed: int = 4) -> tuple[Array, Rows, Array, Array, Array]:
        """Return owner, rows, what entered, what left and status of verdicts of all kinds."""
        rows, rng = self.rows(n), np.random.default_rng(seed)
        entered = self.actions(n, 1, seed)[:, 0]
        status = rng.choice([PASSED, MODIFIED, VETOED], size=n).astype(np.int8)
        left = np.where((status == MODIFIED)[:, None], self.actions(n, 1, seed + 1)[:, 0], entered)
        left[status == VETOED] = np.nan
        return np.arange(n) % 3, rows, entered, left, status

    def kernel(self, taught: bool = True) -> Any:
        """Return what is believed of the gate, for three owners."""
        kernel = self.gate.init_kernel(3, len(self.columns))
        if taught and kernel is not None:
            self.gate.learn(kernel, *self.watched())
        return kernel

    def edited(self, e: Array) -> Array:
        """Return what one person puts in the place of actions (..., D): always the same.

        Where there are categories, the second of each, and numbers stay.
        """
        own: Array = e.copy()
        categories = [j for j, column in enumerate(self.columns) if column.levels]
        own[..., categories or slice(None)] = 1.0 if categories else 3.0
        return own

    def asked(self) -> tuple[Rows, Array]:
        """Return rows of the first two owners and actions (6, 4, D) whose operator is looked at."""
        rows = self.rows(6)
        rows.unit, rows.group = np.arange(6) % 2, np.arange(6) % 2
        return rows, self.actions(6, 4, seed=6)

    def belief(self, kernel: Any) -> Array:
        """Return the estimated operator of the first two owners: (6, 4)."""
        rows, e = self.asked()
        return np.asarray(self.gate.expect(self.worth(rows), e, rows, kernel))


def case_of(gate: Any, ground: Ground, columns: tuple[ActionColumn, ...] = ()) -> GateCase:
    """Find actions that a gate can judge."""
    tried = (columns,) if columns else ACTIONS
    has_failed = False
    for found in tried:
        try:
            gate.check(found)
        except InvalidInput:
            continue
        except Exception:  # its own fault: the checks will say so
            has_failed = True
            continue
        return GateCase(gate, ground, found)
    if has_failed:
        return GateCase(gate, ground, tried[0])
    raise InvalidInput(
        f"checks: gate '{gate.name}' judges no action that it was tried with; give an instance"
    )


def case_of_kernel(kernel: Any, ground: Ground, columns: tuple[ActionColumn, ...]) -> GateCase:
    """Return the gate of a person of whom this kernel is believed."""
    return case_of(Approval(kernel=kernel), ground, columns)
