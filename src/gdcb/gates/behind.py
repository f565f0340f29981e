"""The value of an action in front of some gates: nested operators, each failing closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gdcb.arrays import Array, finite_or_nan, is_all, is_finite, namespace, on_host, surely_all
from gdcb.errors import DAMAGED, InvalidInput, OutOfMemory, ValuationError
from gdcb.gates.base import Gate, HardGate, Value, nothing
from gdcb.gates.guarded import REAL, seal
from gdcb.gates.jumps import pieces_of
from gdcb.gates.levels import Levels, inside_or_nan
from gdcb.gates.rules import filled
from gdcb.records import Rows

Plain = tuple[HardGate | None, ...]


@dataclass(slots=True)
class Passage:
    """What stands between an action and what runs.

    Parameters
    ----------
    gates, plain : all gates, and those of them that are their projection and nothing else
    kernels : what was learned of each gate, None: its own law
    levels, n_columns : which action columns are categories, and how many columns there are
    """

    gates: tuple[Gate, ...]
    plain: Plain
    kernels: tuple[Any, ...]
    levels: Levels
    n_columns: int


@dataclass(slots=True)
class Behind:
    """The value of an action in front of gate `at`: what `Chain.expect` nests.

    Parameters
    ----------
    passage : the gates
    at : the first gate that the action meets; behind the last one it is worth `value`
    value, rows : value function of what runs, and the rows it was made for
    """

    passage: Passage
    at: int
    value: Value
    rows: Rows

    @property
    def pieces(self) -> int:
        """How finely a person's own law is to be integrated (`gdcb.gates.jumps`)."""
        return pieces_of(self.value)

    def take(self, index: Array) -> Behind:
        """Return the same for some of the rows."""
        rows = seal(self.rows.take(index))
        return Behind(self.passage, self.at, self.value.take(index), rows)

    def __call__(self, e: Array) -> Array:
        """Value actions (N, M, D): (N, M)."""
        passage, at = self.passage, self.at
        if at > 0:
            e = self._asked(e)
        if at == len(passage.gates):
            return self.value(e)
        plain = passage.plain[at]
        if plain is not None and plain.keeps_nan:
            left = projected((plain,), e, self.rows, passage.levels)
            if left is not None:
                is_last = at + 1 == len(passage.gates)
                return self.value(left) if is_last else self._next()(left)
        if surely_all(is_finite(e)):
            return self._open(e)
        # What was vetoed before this gate never reaches it: it is worth the null action.
        known, runs = filled(e)
        worth: Array = namespace(e).where(runs, self._open(known), self.value(nothing(e)))
        return worth

    def _asked(self, e: Array) -> Array:
        """Return the actions that a gate asks about, as `apply` would take them; refuse others."""
        n, _, d = e.shape
        if n != self.rows.n or d != self.passage.n_columns:
            raise InvalidInput(f"a gate asks about actions of shape {e.shape}")
        if on_host(self.rows.x) and e.dtype.kind not in REAL:
            raise InvalidInput(f"a gate asks about actions that are {e.dtype}")
        return inside_or_nan(finite_or_nan(e), self.passage.levels)

    def _next(self) -> Behind:
        """Return the value in front of the next gate."""
        return Behind(self.passage, self.at + 1, self.value, self.rows)

    def _open(self, e: Array) -> Array:
        """Ask the gate for its operator, on actions that all may run."""
        rest = self._next()
        gate, kernel = self.passage.gates[self.at], self.passage.kernels[self.at]
        try:
            return _checked(gate.expect(rest, e, self.rows, kernel), e)
        except ValuationError:
            raise
        except MemoryError as error:
            raise OutOfMemory() from error
        except Exception:
            if not on_host(e):
                raise
            return np.concatenate([self._one(rest, e, i) for i in range(e.shape[0])])

    def _one(self, rest: Value, e: Array, i: int) -> Array:
        """Value one row by itself, and where the gate raises even so, action by action.

        What it raises on alone is worth the null action: no arm suffers for another. Where the
        learner itself has no number for an action, no gate is to blame, and nothing is chosen.
        """
        one = np.array([i])
        few, here, row = rest.take(one), e[i : i + 1], seal(self.rows.take(one))
        worth = self._tried(few, here, row)
        if worth is not None:
            return worth
        known = self.value.take(one)
        if np.isnan(known(here)).any():
            raise ValuationError(DAMAGED)
        null = known(nothing(here))
        m = e.shape[1]
        apart = [self._tried(few, here[:, j : j + 1], row) for j in range(m)] if m > 1 else [None]
        return np.concatenate([null if part is None else part for part in apart], axis=1)

    def _tried(self, rest: Value, e: Array, rows: Rows) -> Array | None:
        """Return the gate's operator, or None where it raises or answers nonsense."""
        gate, kernel = self.passage.gates[self.at], self.passage.kernels[self.at]
        try:
            return _checked(gate.expect(rest, e, rows, kernel), e)
        except ValuationError:
            raise
        except MemoryError as error:
            raise OutOfMemory() from error
        except Exception:
            return None


def projected(gates: Plain, e: Array, rows: Rows, levels: Levels) -> Array | None:
    """Return e behind some plain gates, or None where one raises or answers nonsense."""
    left, is_host = e, on_host(e)
    try:
        for i, gate in enumerate(gates):
            if gate is not None:
                if i > 0:
                    left = finite_or_nan(left)
                    left = inside_or_nan(left, levels) if levels else left
                left = gate.project(left, rows)
                if left.shape != e.shape or (is_host and left.dtype.kind not in REAL):
                    return None
    except MemoryError as error:
        raise OutOfMemory() from error
    except Exception:
        if not is_host:
            raise
        return None
    return inside_or_nan(left, levels) if levels and left is not e else left


def _checked(worth: Array, e: Array) -> Array:
    is_odd = worth.shape != e.shape[:2]
    if not is_odd and on_host(e):
        is_odd = worth.dtype.kind not in REAL or not is_all(np.isfinite(worth))
    if is_odd:
        raise InvalidInput(f"expect: expected {e.shape[:2]} numbers, got {worth!r}")
    return worth
