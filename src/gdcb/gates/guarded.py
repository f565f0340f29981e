"""Gates asked in earnest, each failing closed: what raises or answers nonsense vetoes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gdcb.arrays import (
    Array,
    all_finite,
    is_all,
    is_any,
    maybe_any,
    on_host,
    put_where,
)
from gdcb.errors import InvalidInput, OutOfMemory
from gdcb.gates.base import Gate, HardGate
from gdcb.gates.levels import Levels, is_outside, surely_inside, told
from gdcb.records import HELD, MODIFIED, PASSED, VETOED, Rows

REAL = "fiu"  # kinds of NumPy's types that hold real numbers


def as_plain(gate: Gate) -> HardGate | None:
    """Return a gate that is its projection and nothing else: only there `project` speaks for it."""
    names = ("apply", "expect", "draw")
    if not isinstance(gate, HardGate):
        return None
    kind: Any = type(gate)
    return gate if all(getattr(kind, n) is getattr(HardGate, n) for n in names) else None


def seal(rows: Rows) -> Rows:
    """Put read-only views in the place of x and hidden: a gate that writes to them raises.

    The arrays themselves stay as they are for whoever made them.
    """
    if type(rows.x) is np.ndarray:
        if rows.x.flags.writeable:
            rows.x = _read_only(rows.x)
        if rows.hidden is not None and rows.hidden.flags.writeable:
            rows.hidden = _read_only(rows.hidden)
    return rows


def _read_only(array: Array) -> Array:
    seen = array.view()
    seen.setflags(write=False)  # in a third of the time that flags.writeable takes
    return seen


def leaves_alone(gate: HardGate, e: Array, rows: Rows) -> bool:
    """Whether a hard gate surely lets every row pass as it is; anything else is looked into."""
    try:
        left = gate.project(e[:, None, :], rows)[:, 0]
        return left.shape == e.shape and is_all(left == e)
    except Exception:
        return False


def guarded_draw(gate: Gate, rng: Any, n: int) -> Any:
    """Draw for a gate; one that cannot gets its own exception."""
    try:
        return gate.draw(rng, n)
    except Exception as error:
        return error


def guarded_moved(gate: Gate, e: Array, rows: Rows) -> Array:
    """Ask a gate how far it moves; actions on which it raises even alone, infinitely far."""
    try:
        moved = gate.moved(e, rows)
        if moved.shape != e.shape[:2] or (on_host(e) and moved.dtype.kind not in REAL):
            raise InvalidInput(f"moved: expected {e.shape[:2]} numbers, got {moved!r}")
        return moved
    except MemoryError as error:
        raise OutOfMemory() from error
    except Exception:
        if not on_host(e):
            raise
        n, m = e.shape[:2]
        if n > 1:
            index = [np.array([i]) for i in range(n)]
            return np.concatenate([guarded_moved(gate, e[i], seal(rows.take(i))) for i in index])
        if m == 1:
            return np.full((1, 1), np.inf)
        parts = [guarded_moved(gate, e[:, j : j + 1], rows) for j in range(m)]
        return np.concatenate(parts, axis=1)


def guarded_apply(
    gate: Gate, draws: Any, e: Array, rows: Rows, runs: Array, levels: Levels = ()
) -> tuple[Array, Array, dict[int, str]]:
    """Apply one gate; where it raises or answers nonsense, veto those rows and say why.

    Too little memory is no answer of a gate: nothing is decided then, and no veto is written down.

    On a device a gate that raises is let raise, and rows that it answers with what is not finite,
    or no category, are vetoed without a word.
    """
    faults: dict[int, str] = {}
    try:
        left, status = _answer(gate, draws, e, rows)
    except MemoryError as error:
        raise OutOfMemory() from error
    except Exception:
        if not on_host(e):
            raise
        left, status = np.full(e.shape, np.nan), np.full(e.shape[0], VETOED, dtype=np.int8)
        for i in np.flatnonzero(runs):
            one = slice(i, i + 1)
            some = draws[one] if isinstance(draws, np.ndarray) else draws
            try:
                row, said = _answer(gate, some, e[one], rows.take(one))
                left[i], status[i] = row[0], said[0]
            except MemoryError as error:
                raise OutOfMemory() from error
            except Exception as error:
                faults[int(i)] = f"the gate raised {type(error).__name__}: {error}; vetoed"
    odd = ~all_finite(left) & runs & (status <= MODIFIED)
    if maybe_any(odd):
        for i in np.flatnonzero(odd) if on_host(odd) else ():
            faults[int(i)] = "the gate answered with an action that is not finite; vetoed"
        status = put_where(status, odd, VETOED)
    if not surely_inside(left, levels):
        odd = is_outside(left, levels) & runs & (status <= MODIFIED)
        for i in np.flatnonzero(odd) if on_host(odd) else ():
            faults[int(i)] = f"the gate answered with {told(left[i], levels)}; vetoed"
        status = put_where(status, odd, VETOED)
    return put_where(left, (status > MODIFIED)[:, None], np.nan), status, faults


def _answer(gate: Gate, draws: Any, e: Array, rows: Rows) -> tuple[Array, Array]:
    if isinstance(draws, Exception):
        raise draws
    left, status = gate.apply(draws, e, rows)
    if left.shape != e.shape or status.shape != e.shape[:1]:
        raise InvalidInput(f"expected shapes {e.shape} and {e.shape[:1]}, got {left.shape}")
    if on_host(e):
        if left.dtype.kind not in REAL:
            raise InvalidInput(f"expected actions in real numbers, got {left.dtype}")
        if status.dtype.kind not in "iu" or is_any((status < PASSED) | (status > HELD)):
            raise InvalidInput(
                "a gate answers with whole numbers: passed, modified, vetoed or held"
            )
        left, status = left.astype(np.float64, copy=False), status.astype(np.int8)
    passed = status == PASSED
    if maybe_any(passed):
        status = put_where(status, passed & (left != e).any(axis=1), MODIFIED)
    return left, status
